"""Compute coefficients of agreement from ratings or from counts of ratings."""

from collections.abc import Sequence
from functools import partial
from typing import Any, get_args, overload

import numpy as np
from numpy.typing import NDArray

from cmfast._core import axis_names, bad_values, dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import (
    AgreementMethod,
    Array,
    Coefficient,
    Disagreement,
    Label,
    OnFailure,
    Table,
    Undefined,
)
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.usual_names import suggest_coefficient
from cmfast.agreement._ratings import (
    Ratings,
    adopt_categories,
    adopt_ratings,
    refuse_confusion_counts,
    warn_of_counts,
)
from cmfast.agreement._results import Agreement, AgreementsByCoefficient
from cmfast.kernels.shared.agreement import ALPHA, CONGER, FLEISS, GWET, LIGHT, RESULTS
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import FORMS

# Codes of the kernels; negative ones ignore `weights`.
CODES: dict[str, int] = {
    "fleiss_kappa": FLEISS,
    "krippendorff_alpha": ALPHA,
    "gwet_ac1": ~GWET,
    "gwet_ac2": GWET,
    "conger_kappa": CONGER,
    "light_kappa": LIGHT,
}
OF_RATERS = "conger_kappa", "light_kappa"  # need to know who rated
OF_THE_SCALE = "gwet_ac1", "gwet_ac2"  # depend on the number of categories, used or not
FEW_ITEMS = 8  # effective number of items that carry the variance, below which intervals cover too rarely
FAILED = "elements without coefficients"


@overload
def compute(
    ratings: Array,
    names: str = ...,
    *,
    weights: Disagreement | Table = ...,
    categories: Sequence[Label] | NDArray[Any] | None = ...,
    missing: float | str | None = ...,
    method: AgreementMethod = ...,
    confidence_level: float = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Agreement[Any]: ...
@overload
def compute(
    ratings: Array,
    names: list[str] | tuple[str, ...],
    *,
    weights: Disagreement | Table = ...,
    categories: Sequence[Label] | NDArray[Any] | None = ...,
    missing: float | str | None = ...,
    method: AgreementMethod = ...,
    confidence_level: float = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> AgreementsByCoefficient[Any]: ...
@accept_dask_arrays(ratings="nm")
def compute(
    ratings: Array,
    names: str | list[str] | tuple[str, ...] = "krippendorff_alpha",
    *,
    weights: Disagreement | Table = "nominal",
    categories: Sequence[Label] | NDArray[Any] | None = None,
    missing: float | str | None = None,
    method: AgreementMethod = "log",
    confidence_level: float = 0.95,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute coefficients of agreement of several raters, with intervals over items.

    Parameters
    ----------
    ratings : array, shape (..., n, m)
        A row per item and a column per rater: numbers, on the host also text or a table. NaN and None are missing.
    names : str or list of str
        Coefficients: "fleiss_kappa", "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "conger_kappa", "light_kappa".
    weights : {"nominal", "ordinal", "linear", "interval", "ratio"} or array, shape (q, q)
        How much two categories disagree: equally, by their order, by the absolute or the squared difference of their
        values, or by the square of their difference over their sum. Ordered categories of pandas or polars have their
        positions as values. Or a symmetric table of nonnegative disagreements
        with a zero diagonal, which needs `categories`. "gwet_ac1" always has equal weights.
    categories : sequence, shape (q,), optional
        All categories, in their order. Default: those that all columns of a table declare as ordered, else the values
        that occur, sorted. Gwet's coefficients depend on the number
        of categories, and "ordinal" on those between two: both need `categories` in a batch, and "ordinal" text does.
    missing : number or str, optional
        Another value that means no rating, such as -1.
    method : {"log", "t"}
        Interval symmetric on the scale of ``log(1 - estimate)``, or the estimate +- its standard error and cut at 1;
        both with quantiles of Student's t.
    confidence_level : float
        Nominal coverage of the intervals.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a coefficient that is 0/0, as for kappa in :func:`cmfast.metrics.compute`: NaN or 0.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about elements of the batch with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Agreement, or AgreementsByCoefficient: a mapping from str to Agreement
        Arrays of shape (...). One name gives one result, a list a mapping. Library and device of `ratings`.

    Raises
    ------
    TypeError, ValueError
        Ratings that are neither numbers nor text; unknown names or weights; weights that need
        numbers, or `categories`; a table that does not fit these.
    OverflowError
        More than 8,192 categories with weights other than "nominal", "interval", and "ordinal" alpha.
    NotImplementedError
        Arrays on a GPU: only the CPU has a kernel.

    Warns
    -----
    DiagnosticWarning
        Fewer than eight items carry the variance of a coefficient, by Kish's effective number, so that its interval is
        too narrow; or its standard error is 0. More than ten times as many raters as items, which may be transposed.
        There is a single rater, or no item of the whole call has two ratings.

    Notes
    -----
    With the weighted disagreement of two ratings, a coefficient is 1 minus the observed over the expected one. Expected
    are, for Fleiss, two ratings from the pooled shares of categories, each item counting equally; for Krippendorff, two
    of all paired ratings without replacement; for Conger, ratings of two different raters; for Light, the mean of
    Cohen's kappas of all pairs of raters; for Gwet, as if raters guess on a share of the items. "ordinal" is
    Krippendorff's for alpha, from the ranks of all ratings, and Gwet's for the others, from the number of categories
    in between.

    The standard error is that of other items with the same raters, by linearisation. For complete ratings it equals
    Gwet's; with missing ratings his takes the share of items with two ratings as known.

    Bad values: an element with an infinite rating, one that is not among the `categories`, or a negative one with
    "ratio" (INVALID) gives NaN and is reported as `on_failure` says. Synchronises the device. Reproducible: the same
    bits for any number of threads.

    References
    ----------
    Fleiss 1971; Light 1971; Conger 1980. Krippendorff, Computing Krippendorff's alpha-reliability, 2011. Gwet, Handbook
    of inter-rater reliability, fourth edition, 2014.

    Examples
    --------
    >>> from cmfast import agreement
    >>> ratings = [["a", "a", "a"], ["a", "b", "b"], ["b", "b", None]] * 9
    >>> found = agreement.compute(ratings, "krippendorff_alpha")
    >>> found
    <Agreement: krippendorff_alpha 0.507, low 0.149, high 0.714, n_items 27>
    >>> agreement.grade(found.estimate)
    'moderate'
    """
    wanted, level = _check_options(names, method, confidence_level, undefined, on_failure)
    num_threads = validate.num_threads(num_threads)
    table = _check_weights(weights)
    given = adopt_ratings(ratings, categories, missing)
    if validate.on_failure(on_failure) != "ignore":
        _warn_of_one_rater(given.values)
    if validate.on_failure(on_failure) != "ignore" and given.labels is None:
        warn_of_counts(given.values)
    if categories is None:
        _check_scale(wanted, weights, given)
    of_values = ("ratio",) if given.is_ordered else ("linear", "interval", "ratio")
    if given.labels is not None and table is None and weights in of_values:
        cure = "" if weights == "ratio" else "; ordered categories of pandas count as 0, 1, 2, ..."
        validate.refuse("ratings", f"numbers with weights={weights!r}", f"text{cure}")
    q = None if given.categories is None else len(given.categories)
    _check_values(weights, table, q, given.categories)
    *found, status = dispatch.call(
        "agreement_coefficients",
        given.values,
        codes=tuple(CODES[name] for name in wanted),
        weights=weights if table is None else table,
        categories=given.categories,
        missing=given.missing,
        level=level,
        log=method == "log",
        filling=_plan.get_undefined_value(FORMS["kappa"].metric, undefined),
        num_threads=num_threads,
    )
    failures.report(status, on_failure, failed=FAILED, why=partial(given.explain, weights))
    return _make_results(names, wanted, found, status, on_failure)


@overload
def from_counts(
    counts: Array,
    names: str = ...,
    *,
    weights: Disagreement | Table = ...,
    categories: Sequence[Label] | NDArray[Any] | None = ...,
    method: AgreementMethod = ...,
    confidence_level: float = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Agreement[Any]: ...
@overload
def from_counts(
    counts: Array,
    names: list[str] | tuple[str, ...],
    *,
    weights: Disagreement | Table = ...,
    categories: Sequence[Label] | NDArray[Any] | None = ...,
    method: AgreementMethod = ...,
    confidence_level: float = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> AgreementsByCoefficient[Any]: ...
@accept_dask_arrays(counts="nq")
def from_counts(
    counts: Array,
    names: str | list[str] | tuple[str, ...] = "fleiss_kappa",
    *,
    weights: Disagreement | Table = "nominal",
    categories: Sequence[Label] | NDArray[Any] | None = None,
    method: AgreementMethod = "log",
    confidence_level: float = 0.95,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute coefficients of agreement from the number of raters that put each item in each category.

    Parameters
    ----------
    counts : array, shape (..., n, q)
        Counts: a row per item and a column per category. Items may have different numbers of ratings.
    names : str or list of str
        As for :func:`compute`, without "conger_kappa" and "light_kappa", which need to know who rated.
    weights : {"nominal", "ordinal", "linear", "interval", "ratio"} or array, shape (q, q)
        As for :func:`compute`.
    categories : sequence of numbers, shape (q,), optional
        Values of the categories; default: 0, 1, ... "ratio" needs them.
    method : {"log", "t"}
        As for :func:`compute`.
    confidence_level : float
        Nominal coverage of the intervals.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a coefficient that is 0/0, as for :func:`compute`.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about elements of the batch with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Agreement, or AgreementsByCoefficient: a mapping from str to Agreement
        As for :func:`compute`.

    Raises
    ------
    TypeError, ValueError, OverflowError, NotImplementedError
        As for :func:`compute`.

    Warns
    -----
    DiagnosticWarning
        As for :func:`compute`.

    Notes
    -----
    Bad values: an element with a count that is negative, not whole, not finite, or 2**53 or more (INVALID) gives NaN
    and is reported as `on_failure` says. Synchronises the device. Reproducible: the same bits for any number of
    threads.

    References
    ----------
    Fleiss, Measuring nominal scale agreement among many raters, 1971. See also :func:`compute`.

    Examples
    --------
    >>> from cmfast import agreement
    >>> counts = [[5, 0], [4, 1], [1, 4], [0, 5], [3, 2]] * 4
    >>> agreement.from_counts(counts, "fleiss_kappa")
    <Agreement: fleiss_kappa 0.439, low 0.151, high 0.629, n_items 20>
    """
    wanted, level = _check_options(names, method, confidence_level, undefined, on_failure)
    for name in wanted:
        if name in OF_RATERS:
            validate.refuse("names", "coefficients of counts", f"{name!r}, which needs the ratings")
    num_threads = validate.num_threads(num_threads)
    table = _check_weights(weights)
    refuse_confusion_counts("counts", counts, "a row per item and a column per category")
    counts = dispatch.adopt_one("counts", counts)
    validate.real(counts=counts)
    shape = dispatch.shape_of(counts)
    if len(shape) < 2:
        validate.refuse("counts", "of shape (..., n, q), a row per item and a column per category", f"shape {shape}")
    values = adopt_categories(categories)
    if values is not None and len(values) != shape[-1]:
        validate.refuse("categories", f"{shape[-1]} values, one for each column of counts", f"{len(values)}")
    if table is None and weights == "ratio" and values is None:
        validate.refuse("categories", "the values of the columns with weights='ratio'", "None")
    _check_values(weights, table, shape[-1], values)
    *found, status = dispatch.call(
        "agreement_coefficients",
        counts,
        codes=tuple(CODES[name] for name in wanted),
        weights=weights if table is None else table,
        categories=values,
        by_rater=False,
        level=level,
        log=method == "log",
        filling=_plan.get_undefined_value(FORMS["kappa"].metric, undefined),
        num_threads=num_threads,
    )
    failures.report(status, on_failure, failed=FAILED, why=partial(_explain_counts, counts))
    return _make_results(names, wanted, found, status, on_failure)


def _warn_of_one_rater(ratings: Any) -> None:
    """Warn of ratings of one rater, or none: there is nobody to agree with."""
    shape = dispatch.shape_of(ratings)
    if shape[-1] < 2:
        cure = "the ratings of two raters are two columns: np.column_stack([a, b])"
        failures.warn_diagnostic(f"ratings of shape {shape} have fewer than two raters, one per column; {cure}")


def _check_options(names: Any, method: Any, level: Any, undefined: Any, on_failure: Any) -> tuple[list[str], float]:
    """Validate options; return the names of the coefficients and the confidence level."""
    validate.choice("method", method, get_args(AgreementMethod))
    level = validate.confidence_level(level)
    _plan.check_undefined(undefined)
    validate.on_failure(on_failure)
    if hasattr(names, "shape"):
        cure = "the ratings of two raters are columns of one table: numpy.column_stack([a, b])"
        validate.refuse("names", "a name or a list of names", f"an array; {cure}", TypeError)
    if not isinstance(names, str | list | tuple):
        validate.refuse("names", "a name or a list of names", validate.format_value(names), TypeError)
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if isinstance(name, str) and name not in CODES and (near := suggest_coefficient(name)):
            wanted_names = f"one of {', '.join(map(repr, CODES))}"
            validate.refuse("names", wanted_names, f"{validate.format_value(name)}{near}")
        validate.choice("names", name, get_args(Coefficient))
    return wanted, level


def _check_weights(weights: Any) -> np.ndarray | None:
    """Validate weights; return a table of them as a host array, None for those with a name."""
    if isinstance(weights, str):
        if weights == "quadratic":
            validate.refuse("weights", "the name of a disagreement", "'quadratic'; squared differences are 'interval'")
        validate.choice("weights", weights, get_args(Disagreement), "a table, or ")
        return None
    adopted = dispatch.adopt_one("weights", weights)
    validate.real(weights=adopted)
    table = np.asarray(adapter(adopted).to_host(adopted), np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        validate.refuse("weights", "of shape (q, q)", f"shape {table.shape}")
    if not (np.isfinite(table) & (table >= 0.0)).all():
        validate.refuse("weights", "finite and nonnegative", validate.format_value(table.tolist()))
    if np.diagonal(table).any():
        validate.refuse("weights", "disagreements with a zero diagonal", validate.format_value(table.tolist()))
    if (table != table.T).any():
        validate.refuse("weights", "symmetric", validate.format_value(table.tolist()))
    return table


def _check_scale(wanted: list[str], weights: Any, given: Ratings) -> None:
    """Raise ValueError if coefficients depend on categories that are neither given nor known from the ratings."""
    batch = len(dispatch.shape_of(given.values)) > 2
    for name in wanted:
        if batch and name in OF_THE_SCALE:
            validate.refuse("categories", f"given for {name!r} of a batch, which depends on their number", "None")
    if isinstance(weights, str) and weights == "ordinal":
        if given.labels is not None and not given.is_ordered:
            validate.refuse("categories", "given in their order for text with weights='ordinal'", "None")
        if batch and set(wanted) - {"krippendorff_alpha"}:
            validate.refuse("categories", "given with weights='ordinal' of a batch", "None")


def _check_values(weights: Any, table: np.ndarray | None, q: int | None, values: np.ndarray | None) -> None:
    """Raise ValueError unless a table of weights fits `q` categories, None if unknown, and "ratio" their values."""
    if table is not None and q is None:
        validate.refuse("categories", "given with a table of weights", "None")
    if table is not None and len(table) != q:
        validate.refuse("weights", f"of shape {(q, q)}, as there are {q} categories", f"shape {table.shape}")
    if table is None and weights == "ratio" and values is not None and values.min(initial=0) < 0:
        validate.refuse("categories", "nonnegative with weights='ratio'", validate.format_value(values.tolist()))


def _explain_counts(counts: Any, index: tuple[int, ...]) -> str:
    """Return a text that names the first bad count of the element at `index` of the batch."""
    cells = np.asarray(adapter(counts).entry(counts, index), np.float64)
    wrong = ~((cells >= 0) & (cells < 2.0**53))
    said = bad_values.describe_first("counts", cells, wrong & ~(cells >= 2.0**53) | np.isinf(cells), index)
    if said:
        return said
    at = tuple(int(k) for k in np.argwhere(wrong | (cells != np.floor(cells)))[0])
    what = "is not whole" if cells[at] < 2.0**53 else "is too large"
    return f"counts{bad_values.format_index((*index, *at))} {what}"


def _make_results(names: Any, wanted: list[str], found: list[Any], status: Any, on_failure: OnFailure) -> Any:
    """Return the result of each coefficient from those of the kernel; warn of unreliable intervals."""
    out, few, none = {}, 0, 0
    for k, name in enumerate(wanted):
        *fields, carrying = found[RESULTS * k : RESULTS * (k + 1)]
        one = adapter(carrying)
        out[name] = axis_names.name_axes(Agreement(*fields), {}, name)
        few += int((np.asarray(one.to_host(carrying)) < FEW_ITEMS).sum())
        none += int((np.asarray(one.to_host(out[name].standard_error)) == 0.0).sum())
    if validate.on_failure(on_failure) != "ignore":
        _warn_of_single_ratings(list(out.values()), status)
        _warn_of_narrow_intervals(few, none, sum(int(np.prod(dispatch.shape_of(x.estimate))) for x in out.values()))
    return out[names] if isinstance(names, str) else AgreementsByCoefficient(out)


def _warn_of_single_ratings(found: list[Agreement[Any]], status: Any) -> None:
    """Warn if no item of the whole call has two ratings, so that no coefficient is defined."""
    observed = [np.asarray(adapter(one.observed).to_host(one.observed)) for one in found]
    is_valid = not np.asarray(adapter(status).to_host(status)).any()
    if is_valid and all(one.size and np.isnan(one).all() for one in observed):
        failures.warn_diagnostic(
            "no item has ratings of two raters, so agreement is undefined, and undefined= its value"
        )


def _warn_of_narrow_intervals(few: int, none: int, size: int) -> None:
    """Warn if intervals have no width, or few items carry the variance."""
    if none:
        failures.warn_diagnostic(
            f"{none:,} of {size:,} standard errors are 0, because all items agree or disagree alike; the intervals "
            "have no width and are too narrow"
        )
    elif few:
        failures.warn_diagnostic(
            f"fewer than {FEW_ITEMS} items carry the variance of {few:,} of {size:,} coefficients, because others "
            "agree or rare categories decide; their intervals are too narrow"
        )
