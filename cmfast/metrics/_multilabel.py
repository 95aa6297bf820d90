"""Metrics of multilabel samples: one 2x2 table per label or per sample, and averages over the tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, DeviceT, Floats, Integers, OnFailure, Undefined
from cmfast._core.lazy import accept_dask_arrays, are_lazy
from cmfast._core.usual_options import explain_options
from cmfast.counting import confusion_matrix
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._compute import compute
from cmfast.metrics._functions import PER_CLASS
from cmfast.metrics._names import MetricName

AVERAGES = ("macro", "weighted", "micro", "samples")
SAMPLE_METRICS = ("subset_accuracy", "hamming_loss")
RATES = tuple(name for name in PER_CLASS if (form := find_form(f"{name}_binary")) and form.metric.high <= 1.0)
ALL = (*SAMPLE_METRICS, *(f"{name}_{average}" for name in RATES for average in AVERAGES))


@overload
def multilabel_tables(
    y_true: DeviceT,
    y_pred: DeviceT,
    *,
    sample_weight: DeviceT | None = ...,
    samplewise: bool = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def multilabel_tables(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    samplewise: bool = ...,
    num_threads: int | None = ...,
) -> Integers | Floats: ...
@explain_options
def multilabel_tables(
    y_true: Array,
    y_pred: Array,
    *,
    sample_weight: Array | None = None,
    samplewise: bool = False,
    num_threads: int | None = None,
) -> Any:
    """Count one 2x2 table per label (or per sample) of multilabel samples.

    Parameters
    ----------
    y_true, y_pred : array of int or bool, shape (..., n, L)
        1 where the sample has the label, else 0.
    sample_weight : array, shape (..., n), optional
        Weight of each sample; default 1. Not with `samplewise`.
    samplewise : bool
        Return one table per sample instead, counted over its labels.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (..., L, 2, 2), or (..., n, 2, 2) if `samplewise`
        ``[[tn, fp], [fn, tp]]``, valid input of every metric of 2x2 matrices.

    Examples
    --------
    >>> from cmfast import metrics
    >>> metrics.multilabel_tables([[1, 0], [1, 1]], [[1, 1], [0, 1]]).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    validate.flag("samplewise", samplewise)
    if are_lazy(y_true, y_pred, sample_weight):
        if samplewise and sample_weight is None:
            return _count_sample_tables_lazily(y_true, y_pred, num_threads=num_threads)
        given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight}
        y_true, y_pred, weight = _validate_indicators(given)
    else:
        y_true, y_pred, weight = _adopt_indicators(y_true, y_pred, sample_weight)
    if samplewise and weight is not None:
        validate.refuse("sample_weight", "None with samplewise=True", "an array")
    bare = adapter(y_true).unwrap(y_true), adapter(y_pred).unwrap(y_pred)
    with _explain_numbers(*bare):
        tables = (_count_tables if samplewise else _count_label_tables)(*bare, weight, num_threads)
    if samplewise:
        return adapter(y_true).name_dimensions("(n,L),(n,L)->(n,2,2)", (y_true, y_pred), tables)
    return adapter(y_true).name_dimensions("(n,L),(n,L)->(L,2,2)", (y_true, y_pred), tables)


def _adopt_indicators(y_true: Array, y_pred: Array, sample_weight: Array | None) -> list[Any]:
    """Convert the 0/1 label indicators and the weights to one array library and validate them."""
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight}
    names = ("y_true", "y_pred", "sample_weight")
    return _validate_indicators(dict(zip(names, dispatch.adopt(optional=("sample_weight",), **given), strict=True)))


def _validate_indicators(given: dict[str, Any]) -> list[Any]:
    """Validate dtypes and shapes of the 0/1 label indicators and of the weights; return them."""
    y_true, y_pred, weight = given.values()
    for name, array in (("y_true", y_true), ("y_pred", y_pred)):
        if adapter(array).dtype(array).kind == "f":
            cure = ".astype(int) makes indicators of whole numbers, > 0.5 of probabilities"
            validate.refuse(name, "integers", f"{validate.describe_dtype(array)}; {cure}", TypeError)
    validate.integer(y_true=y_true, y_pred=y_pred)
    validate.real(sample_weight=weight)
    shape = validate.same_shape(y_true=y_true, y_pred=y_pred)
    if len(shape) < 2:
        validate.refuse("y_true", "of shape (..., n, L), a column per label", f"shape {shape}")
    if weight is not None and dispatch.shape_of(weight) != shape[:-1]:
        validate.refuse("sample_weight", f"of shape {shape[:-1]}", f"shape {dispatch.shape_of(weight)}")
    return [y_true, y_pred, None if weight is None else adapter(weight).unwrap(weight)]


@contextmanager
def _explain_numbers(y_true: Array, y_pred: Array) -> Iterator[None]:
    """Replace the error of counting labels other than 0 and 1 by one that says where they are in these arrays."""
    try:
        yield
    except ValueError:
        for name, array in (("y_true", y_true), ("y_pred", y_pred)):
            host = adapter(array).to_host(array)
            wrong = np.argwhere((host != 0) & (host != 1))
            if len(wrong):
                first = tuple(wrong[0].tolist())
                validate.refuse(name, "0 or 1", f"{len(wrong)} outside (first: {host[first]} at {first})")
        raise


@accept_dask_arrays(y_true="L", y_pred="L")
def _count_sample_tables_lazily(y_true: Array, y_pred: Array, *, num_threads: int | None) -> Any:
    """Count one 2x2 table per sample, block by block of Dask arrays."""
    y_true, y_pred, _ = _adopt_indicators(y_true, y_pred, None)
    return _count_tables(y_true, y_pred, None, num_threads)


def _count_label_tables(
    y_true: Array, y_pred: Array, weight: Array | None, num_threads: int | None, on_failure: OnFailure = None
) -> Any:
    """Count one 2x2 table per label over all samples."""

    def count_transposed(y_true: Array, y_pred: Array, weight: Array | None) -> Any:
        """Count the tables of each label along the sample axis."""
        own = None if weight is None else weight[..., None, :]
        return _count_tables(y_true.swapaxes(-1, -2), y_pred.swapaxes(-1, -2), own, num_threads, on_failure)

    return adapter(y_true).evaluate(count_transposed, y_true, y_pred, weight)


def _count_tables(
    y_true: Array, y_pred: Array, weight: Array | None, num_threads: int | None, on_failure: OnFailure = None
) -> Any:
    """Count one 2x2 table per row, along the last axis."""
    own = None if weight is None else weight[None, ...]
    options: dict[str, Any] = {"on_failure": on_failure, "num_threads": num_threads}
    tables = confusion_matrix(y_true[None, ...], y_pred[None, ...], n_classes=2, sample_weight=own, **options)
    return tables[0, ...]


@overload
def multilabel(
    y_true: DeviceT,
    y_pred: DeviceT,
    names: str,
    *,
    sample_weight: DeviceT | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def multilabel(
    y_true: DeviceT,
    y_pred: DeviceT,
    names: list[str] | tuple[str, ...] | None = ...,
    *,
    sample_weight: DeviceT | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def multilabel(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    names: str,
    *,
    sample_weight: ArrayLike | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def multilabel(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    names: list[str] | tuple[str, ...] | None = ...,
    *,
    sample_weight: ArrayLike | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
@explain_options
def multilabel(
    y_true: Array,
    y_pred: Array,
    names: str | Sequence[str] | None = None,
    *,
    sample_weight: Array | None = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute metrics of samples that have any number of labels each.

    Parameters
    ----------
    y_true, y_pred : array of int or bool, shape (..., n, L)
        1 where the sample has the label, else 0.
    names : str or list of str, optional
        ``subset_accuracy`` (share of samples with all labels right), ``hamming_loss`` (share of wrong labels), and
        every rate that has averages in the table of metrics: ``f1`` (one per label), ``f1_macro``, ``f1_weighted``,
        ``f1_micro``, ``f1_samples`` (mean over the samples of the value of each sample's table). Default: all with
        one value.
    sample_weight : array, shape (..., n), optional
        Weight of each sample; default 1.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, and which labels or samples enter an average, as for :func:`compute`: "present" leaves out
        those without any true or predicted label, which scikit-learn counts as 0 (``"zero"``).
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about tables with NaN or infinite weights, which give NaN, as negative weights do.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, or dict of str to array
        Shape (...), per label (..., L); float64.

    Examples
    --------
    >>> from cmfast import metrics
    >>> y, p = [[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]]
    >>> found = metrics.multilabel(
    ...     y,
    ...     p,
    ...     [
    ...         "f1_samples",
    ...         "precision_micro",
    ...         "subset_accuracy",
    ...         "hamming_loss",
    ...     ],
    ... )
    >>> [round(float(value), 4) for value in found.values()]
    [0.8333, 1.0, 0.5, 0.1667]
    """
    several = ALL if names is None else [names] if isinstance(names, str) else names
    if not isinstance(several, list | tuple) or not all(isinstance(name, str) for name in several):
        validate.refuse("names", "a name or a list of names", validate.format_value(names), TypeError)
    forms = [parse_name(name) for name in several]
    _plan.check_undefined(undefined)
    on_failure = validate.on_failure(on_failure)
    *given, weight = _adopt_indicators(y_true, y_pred, sample_weight)
    outer = adapter(given[0])
    y_true, y_pred = map(outer.unwrap, given)
    options: dict[str, Any] = {"undefined": undefined, "on_failure": on_failure, "num_threads": num_threads}
    with _explain_numbers(y_true, y_pred):
        found = adapter(y_true).evaluate(partial(_evaluate_forms, forms, options), y_true, y_pred, weight)
    axes = ["(L)" if average == "" and metric not in SAMPLE_METRICS else "()" for metric, average in forms]
    given_axes = zip((f"(n,L),(n,L)->{ax}" for ax in axes), found, strict=True)
    found = [outer.name_dimensions(signature, tuple(given), one) for signature, one in given_axes]
    return found[0] if isinstance(names, str) else dict(zip(several, found, strict=True))


def _evaluate_forms(
    forms: list[tuple[str, str]], options: dict[str, Any], y_true: Array, y_pred: Array, weight: Array | None
) -> tuple[Any, ...]:
    """Return the multilabel metrics given as pairs of metric name and average, in order."""
    num_threads = options["num_threads"]
    tables = _count_label_tables(
        y_true, y_pred, weight, num_threads, options["on_failure"]
    )  # reports bad weights, so the calls below do not
    options = {**options, "on_failure": "ignore"}
    found: list[Any] = []
    own = None
    for metric, average in forms:
        if metric == "subset_accuracy":
            right = (y_true == y_pred).all(-1)
            whole = _count_tables(right == right, right, weight, num_threads, "ignore")  # noqa: PLR0124 - all of them
            found.append(compute(whole, "recall_binary", **options))
        elif metric == "hamming_loss":
            found.append(compute(tables.sum(-3), "zero_one_loss", **options))
        elif average == "samples":
            own = _count_tables(y_true, y_pred, None, num_threads) if own is None else own
            found.append(_average_tables(own, metric, weight, options))
        else:
            found.append(average_labels(tables, metric, average, options))
    return tuple(found)


def average_labels(tables: Any, metric: str, average: str, options: dict[str, Any]) -> Any:
    """Return the rate of each of the 2x2 tables of labels, shape (..., L, 2, 2), if `average` is "", else its average.

    Averages are "micro", "macro" and "weighted".
    """
    in_table = cast(MetricName, f"{metric}_binary")
    if average == "micro":
        return compute(tables.sum(-3), in_table, **options)
    if average == "":
        return compute(tables, in_table, **options)
    supports = tables[..., 1, :].sum(-1) if average == "weighted" else None
    return _average_tables(tables, metric, supports, options)


def parse_name(name: str) -> tuple[str, str]:
    """Split a multilabel metric name into metric and average ("" for none); refuse unknown names."""
    if name in SAMPLE_METRICS:
        return name, ""
    average = next((end for end in AVERAGES if name.endswith(f"_{end}")), "")
    metric = name.removesuffix(f"_{average}") if average else name
    form = find_form(f"{metric}_binary")
    if form is None or form.metric.high > 1.0:
        wanted = f"{', '.join(SAMPLE_METRICS)}, or a rate with an average ({', '.join(AVERAGES)}) or without"
        validate.refuse("names", wanted, f"{validate.format_value(name)}{validate.suggest_name(name, (*RATES, *ALL))}")
    return metric, average


def _average_tables(tables: Any, metric: str, weight: Any, options: dict[str, Any]) -> Any:
    """Return the mean of a rate over 2x2 tables, weighted if `weight` is given.

    One expression that works in every array library.
    """
    values, inside, defined = rate_tables(tables, metric, options)
    weight = inside * (1 if weight is None else weight)
    with np.errstate(invalid="ignore"):
        return divide_sums(
            weight.sum(-1), (weight * values).sum(-1), (weight * (defined == 0)).sum(-1), options["undefined"]
        )


def rate_tables(tables: Any, metric: str, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return a rate of every 2x2 table, and masks of the tables that enter an average and of those that define it."""
    undefined: Undefined = options["undefined"]
    name = cast(MetricName, f"{metric}_binary")
    values = compute(tables, name, **{**options, "undefined": _plan.get_fill_value(undefined)})
    strict = compute(tables, name, **{**options, "undefined": "strict"})
    defined = strict == strict  # noqa: PLR0124 - NaN alone differs from itself
    inside = values == values  # noqa: PLR0124 - False for bad tables, which stay NaN
    if undefined == "present" or not isinstance(undefined, str):
        inside = tables[..., 1, :].sum(-1) + tables[..., 0, 1] > 0
    elif undefined == "nan":
        inside = defined
    return values, inside, defined


def divide_sums(total: Any, summed: Any, unknown: Any, undefined: Undefined) -> Any:
    """Return a mean of rates from sums of the weights, of the weighted rates, and of the weights of undefined rates."""
    empty = total == 0
    with np.errstate(invalid="ignore"):
        if undefined in ("nan", "strict"):
            known = unknown == 0
            return summed / total * known / known
        return (summed + empty * _plan.get_fill_value(undefined)) / (total + empty)
