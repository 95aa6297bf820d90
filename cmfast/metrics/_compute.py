"""Any number of metrics in one pass over the matrices, or from their sums."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, reading, sparse, validate, values
from cmfast._core.annotations import Array, ArrayT, DeviceT, Flags, Floats, OnFailure, Sparse, Undefined
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import find
from cmfast.metrics._names import MetricName, Names

FAILED = "matrices not evaluated"


@reading.readable
class Margins(NamedTuple, Generic[ArrayT]):
    """The sums of a batch of matrices that every metric is made of.

    Attributes
    ----------
    diagonal, row_sums, col_sums : array, shape (..., C)
        What was right, true and predicted, per class.
    bands : array, shape (..., C)
        Mass at distance k from the diagonal: ``(bands * distance).sum()`` is the distance-weighted sum of the weighted
        kappas.
    tops : array, shape (..., C)
        Mass with ``max(truth, prediction) == k``, which Gerrity's score needs beside the bands.
    total : array, shape (...)
        Total mass.
    status : array of int8, shape (...)
        INVALID (all sums 0, or NaN for fractions) or CONVERGED.
    """

    diagonal: ArrayT
    row_sums: ArrayT
    col_sums: ArrayT
    bands: ArrayT
    tops: ArrayT
    total: ArrayT
    status: ArrayT

    def _parts(self) -> dict[str, str]:
        parts = {"classes": reading.shape(self.diagonal, 1), "total": reading.numbers(self.total, ",")}
        return parts | {"status": reading.statuses(self.status)}

    def explain(self) -> str:
        """Say in words what the sums say."""
        a, n = (float(np.nansum(np.asarray(dispatch.to_host(x), np.float64))) for x in (self.diagonal, self.total))
        share = f"{a / n:.1%} of it" if n else "nothing"
        return f"a total of {n:,.6g}, {share} on the diagonal"


@overload
def margins(
    M: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Margins[DeviceT]: ...
@overload
def margins(
    M: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Margins[NDArray[Any]]: ...
def margins(M: Array, /, *, on_failure: OnFailure = "warn", num_threads: int | None = None) -> Margins[Any]:
    """Diagonal, margins and distance sums of confusion matrices, in one pass.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts or any normalisation of them.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices with bad values (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    Margins
        int64 and exact for integers, else float64 (also for float32: they are sums). Library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        `M` is not real, or not square.

    Notes
    -----
    Bad values: a negative, NaN or infinite cell, or a total beyond int64 (INVALID), gives 0 or NaN in that matrix and
    is reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: same
    input, same bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> sums = metrics.margins([[5, 1], [2, 4]])
    >>> sums.diagonal.tolist(), sums.row_sums.tolist(), sums.col_sums.tolist(), int(sums.total)
    ([5, 4], [6, 6], [7, 5], 12)
    """
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    (M,) = dispatch.adopt(M=M)
    validate.matrices(square=True, M=M)
    sums = Margins(*dispatch.call("margins", M, num_threads=num_threads))
    failures.report(sums.status, on_failure, failed="matrices not summed", why=partial(values.unsummed, M))
    return sums


@overload
def compute(
    M: DeviceT,
    /,
    names: MetricName,
    *,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def compute(
    M: DeviceT,
    /,
    names: Names = ...,
    *,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def compute(
    M: ArrayLike | Sparse,
    /,
    names: MetricName,
    *,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def compute(
    M: ArrayLike | Sparse,
    /,
    names: Names = ...,
    *,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
def compute(
    M: Array,
    /,
    names: str | Sequence[str] | None = None,
    *,
    undefined: Undefined = "present",
    positive: int = 1,
    labels: Sequence[int] | None = None,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Any number of metrics of confusion matrices, in one pass over the cells.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them; or one matrix of scipy.sparse.
    names : str or list of str, optional
        Names out of ``metrics.SCALARS``, ``metrics.PER_CLASS``, ``metrics.BINARY`` (two classes only), their aliases,
        and ``fbeta_<beta>``. See the table in the documentation. Or ``"scalars"``, the default, or ``"per_class"``: all
        with one number per matrix, or per class.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, and which classes enter an average (see Notes).
    positive : {1, 0}
        Which class of two is the positive one, for binary names.
    labels : sequence of int, optional
        Classes that averages are over, and whose values come back; all others stay the negatives of each. Metrics of
        the whole matrix do not change. Default: all.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices with bad values (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array, or dict of str to array
        The array of one name, or one per name of several: shape (...), or (..., C) for a metric per class. float32 if
        `M` is, else float64. With `labels` a metric per class has those alone, in their order. Library and device of
        `M`.

    Raises
    ------
    TypeError, ValueError
        `M` is not real, or not square; an unknown name; a binary name for other than two classes.

    Notes
    -----
    A 0/0 is a property of the data and never warns. ``"nan"``: NaN, averages run over the classes where the metric is
    defined. ``"strict"``: NaN, also for an average with one undefined class. ``"present"``: 0, averages run over the
    classes that are true or predicted at least once. A number from 0 to 1: the same with that number in the place of 0
    (1 is the ``zero_division=1`` of torchmetrics). ``"zero"``, ``"one"``: 0 or 1, averages run over all classes. Scores
    that are corrected for chance get 0 wherever something is filled in; :func:`defined` tells where that was.

    Bad values: a negative, NaN or infinite cell, or a total beyond int64 (INVALID), gives NaN for that matrix and is
    reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: same input,
    same bits, for any number of threads. For integers every difference is exact: a coefficient near zero keeps its
    digits, and totals up to 2**63 do not overflow.

    Examples
    --------
    >>> from cmfast import metrics
    >>> M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    >>> found = metrics.compute(M, ["accuracy", "mcc", "recall"])
    >>> round(float(found["mcc"]), 6), found["recall"].round(3).tolist()
    (0.844933, [0.933, 0.933, 0.8])
    """
    wanted = _plan.names_of(names)
    found = evaluate(M, wanted, undefined, positive, on_failure, num_threads, labels)
    return _plan.as_asked(names, wanted, found)


def evaluate(
    M: Array,
    names: tuple[str, ...],
    undefined: Undefined,
    positive: int,
    on_failure: OnFailure,
    num_threads: int | None,
    labels: Sequence[int] | None = None,
) -> list[Any]:
    """Return the arrays of `names`, which are known."""
    check_options(undefined, positive, on_failure)
    num_threads = validate.num_threads(num_threads)
    if sparse.is_sparse(M):
        validate.matrices(square=True, M=M)
        options: dict[str, Any] = {"undefined": undefined, "positive": positive, "labels": labels}
        d, t, p, bands, tops = sparse.margins(M)
        options |= {"bands": bands, "tops": tops, "on_failure": on_failure, "num_threads": num_threads}
        return list(from_sums(d, t, p, cast(Names, names), **options).values()) if names else []
    (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    chosen = _plan.labels_of(labels, C)
    layout = _plan.plan(names, C, undefined, positive, chosen, asked="M")
    *found, status = dispatch.call("metrics_of_matrices", M, plan=layout.plan, num_threads=num_threads)
    failures.report(status, on_failure, failed=FAILED, why=partial(values.unsummed, M))
    return _placed(found, layout, chosen)


def _placed(found: list[Any], layout: _plan.PlacedPlan, labels: tuple[int, ...] | None) -> list[Any]:
    """Return the results in the order of the names; of a metric per class those of `labels`."""
    if labels is not None:
        first = layout.plan.scalars
        with dispatch.chosen(found[0]):
            found = [part if place < first else part[..., list(labels)] for place, part in enumerate(found)]
    return [found[place] for place in layout.places]


def check_options(undefined: object, positive: object, on_failure: object) -> None:
    """Check what every function that evaluates metrics takes."""
    _plan.undefined_of(undefined)
    validate.on_failure(on_failure)
    if type(positive) is int and 0 <= positive <= 1:
        return
    if validate.count("positive", positive) > 1:
        validate.refuse("positive", "0 or 1", positive)


@overload
def from_sums(
    d: DeviceT,
    t: DeviceT,
    p: DeviceT,
    names: MetricName,
    *,
    bands: DeviceT | None = ...,
    tops: DeviceT | None = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def from_sums(
    d: DeviceT,
    t: DeviceT,
    p: DeviceT,
    names: Names = ...,
    *,
    bands: DeviceT | None = ...,
    tops: DeviceT | None = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def from_sums(
    d: ArrayLike,
    t: ArrayLike,
    p: ArrayLike,
    names: MetricName,
    *,
    bands: ArrayLike | None = ...,
    tops: ArrayLike | None = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def from_sums(
    d: ArrayLike,
    t: ArrayLike,
    p: ArrayLike,
    names: Names = ...,
    *,
    bands: ArrayLike | None = ...,
    tops: ArrayLike | None = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
def from_sums(
    d: Array,
    t: Array,
    p: Array,
    names: str | Sequence[str] | None = None,
    *,
    bands: Array | None = None,
    tops: Array | None = None,
    undefined: Undefined = "present",
    positive: int = 1,
    labels: Sequence[int] | None = None,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Any number of metrics from the diagonal and the margins alone; no matrix is needed.

    With tens of thousands of classes a matrix does not fit into memory, three histograms do: of the labels that were
    predicted right, of the true ones, of the predicted ones (:func:`from_labels` makes them).

    Parameters
    ----------
    d, t, p : array, shape (..., C)
        Diagonal, row sums (truth), column sums (prediction).
    names : str or list of str, optional
        As for :func:`compute`; ``"scalars"``, the default, are those that the sums given have.
    bands, tops : array, shape (..., C), optional
        The two sums of :class:`Margins` that metrics of ordered classes need: the linear and the quadratic kappa need
        `bands`, ``gerrity`` needs both.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`compute`.
    positive : {1, 0}
        Which class of two is the positive one, for binary names.
    labels : sequence of int, optional
        Classes that averages are over, and whose values come back; all others stay the negatives of each. Metrics of
        the whole matrix do not change. Default: all.
    on_failure : {"warn", "raise", "ignore"}
        What to do about sums that no matrix has (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array, or dict of str to array
        The bits that :func:`compute` gives for a matrix with these sums.

    Raises
    ------
    TypeError, ValueError
        Shapes that differ, arrays that are not real, an unknown name, a name that needs sums that were not given.

    Notes
    -----
    Bad values: sums that no matrix can have (INVALID: negative, NaN, infinite, a diagonal above a margin, margins
    with two totals) give NaN for that element and are reported as `on_failure` says. Synchronises the device unless
    `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> round(float(metrics.from_sums([420, 280, 200], [450, 300, 250], [460, 315, 225], "mcc")), 6)
    0.844933
    """
    given = {"d": d, "t": t, "p": p, "bands": bands, "tops": tops}
    return of_sums(given, names, undefined, positive, labels, on_failure, num_threads)


def of_sums(
    given: dict[str, Any],
    names: str | Sequence[str] | None,
    undefined: Undefined,
    positive: int,
    labels: Sequence[int] | None,
    on_failure: OnFailure,
    num_threads: int | None,
    why: Callable[[tuple[int, ...]], str] | None = None,
) -> Any:
    """Do what :func:`from_sums` does with the sums that it is given; `why` says what is wrong with some of them."""
    wanted = _plan.names_of(names)
    if _plan.is_group(names):
        there = {name for name in ("bands", "tops") if given[name] is not None}
        wanted = tuple(name for name in wanted if there.issuperset(needs(name)))
    check_options(undefined, positive, on_failure)
    num_threads = validate.num_threads(num_threads)
    adopted = dict(zip(given, dispatch.adopt(optional=("bands", "tops"), **given), strict=True))
    validate.real(**adopted)
    shape = validate.same_shape(**adopted)
    if not shape:
        validate.refuse("d", "of shape (..., C)", "shape ()")
    chosen = _plan.labels_of(labels, shape[-1])
    layout = _plan.plan(wanted, shape[-1], undefined, positive, chosen, asked="d, t and p")
    for name in wanted:
        for option in needs(name):
            if adopted[option] is None:
                validate.refuse(option, f"given for {name}", "None")
    *found, status = dispatch.call("metrics_of_sums", *adopted.values(), plan=layout.plan, num_threads=num_threads)
    failures.report(status, on_failure, failed="sums not evaluated", why=why or partial(_unlike_a_matrix, adopted))
    arrays = _placed(found, layout, chosen)
    return _plan.as_asked(names, wanted, arrays)


def _unlike_a_matrix(sums: dict[str, Any], index: tuple[int, ...]) -> str:
    """Say why the sums at `index` are those of no matrix."""
    one = {name: dispatch.to_host(array)[index] for name, array in sums.items() if array is not None}
    if found := values.bad(**one):
        return found
    for name in ("t", "p"):
        above = np.flatnonzero(one["d"] > one[name])
        if above.size:
            k = int(above[0])
            return f"d[{k}] is {one['d'][k]}, above {name}[{k}], which is {one[name][k]}"
    totals = [one[name].sum() for name in ("t", "p")]
    return f"t adds up to {totals[0]}, p to {totals[1]}" if totals[0] != totals[1] else "no matrix has these sums"


def needs(name: str) -> tuple[str, ...]:
    """Return which sums beyond diagonal and margins the metric `name` needs."""
    form = find(name)
    if form is None or not form.metric.ordered:
        return ()
    return ("bands", "tops") if form.metric.name == "gerrity" else ("bands",)


@overload
def defined(
    M: DeviceT,
    /,
    name: MetricName,
    *,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def defined(
    M: ArrayLike | Sparse,
    /,
    name: MetricName,
    *,
    num_threads: int | None = ...,
) -> Flags: ...
def defined(M: Array, /, name: str, *, num_threads: int | None = None) -> Any:
    """Whether a metric is defined: True where no 0/0 was filled in or left out of an average.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them.
    name : str
        As for :func:`compute`.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array of bool, shape (...) or (..., C)
        True where the policy ``"strict"`` gives a number; False also where the matrix has a bad value.

    Notes
    -----
    Bad values: False, never reported. Does not synchronise the device. Reproducible: same input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> metrics.defined([[9500, 0], [500, 0]], "precision").tolist()  # class 1 is never predicted
    [True, False]
    """
    if not isinstance(name, str):
        validate.refuse("name", "one name", validate.shown(name), TypeError)
    value = evaluate(M, _plan.names_of([name], "name"), "strict", 1, "ignore", num_threads)[0]
    return value == value  # noqa: PLR0124 - NaN alone differs from itself, in every array library
