"""Confusion matrices at all thresholds of a score by one sort; ROC and precision-recall curves, AUC, least cost."""

from functools import partial
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import bad_values, caller, dispatch, failures, table_columns, validate
from cmfast._core.adapters import _text_codes, adapter, read_only
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast.metrics._compute import compute
from cmfast.metrics._curves import LeastCost, PrecisionRecall, Roc, ThresholdMatrices
from cmfast.metrics._names import MetricName

FAILED = "rows of scores left out"


@overload
def threshold_matrices(
    y_true: DeviceT,
    y_score: DeviceT,
    *,
    sample_weight: DeviceT | None = ...,
    pos_label: int | str | None = ...,
    drop_ties: bool = ...,
    on_failure: OnFailure = ...,
) -> ThresholdMatrices[DeviceT]: ...
@overload
def threshold_matrices(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    pos_label: int | str | None = ...,
    drop_ties: bool = ...,
    on_failure: OnFailure = ...,
) -> ThresholdMatrices[NDArray[Any]]: ...
@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def threshold_matrices(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None = None,
    pos_label: int | str | None = None,
    drop_ties: bool = False,
    on_failure: OnFailure = None,
) -> ThresholdMatrices[Any]:
    """Count the confusion matrix at every threshold of a score array, by one sort.

    For several classes give one row per class: ``threshold_matrices(y == numpy.arange(C)[:, None], S.T)``.

    Parameters
    ----------
    y_true : array of int, bool or str, shape (..., n)
        1 for positive samples, 0 or -1 for the others; with `pos_label` any labels.
    y_score : array, shape (..., n)
        Higher means more likely positive. Thresholds are floats: integers beyond 2**53 are rounded.
    sample_weight : array, shape (..., n), optional
        Weight of each sample; default 1.
    pos_label : int or str, optional
        The label of positive samples, all others being negative. Default: 1 among 0 and 1, or -1 and 1. It may be
        missing in some rows, and where all labels are the same.
    drop_ties : bool
        Return each distinct threshold once; needs one row of scores. Default: one threshold per sample, so that
        all rows have the same length.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about rows with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".

    Returns
    -------
    ThresholdMatrices
        Any metric along the thresholds is that metric of ``matrices``. Samples with equal scores give equal rows.

    Raises
    ------
    TypeError, ValueError
        Arrays that are not real, labels that are not integers, missing labels, tables instead of columns, shapes that
        differ; a `pos_label` that does not occur among several labels; `drop_ties` for several rows.

    Warns
    -----
    DiagnosticWarning
        Both arrays have shape (n, 1), which is n rows of one sample.

    Notes
    -----
    Bad values: a row with a NaN score, a label other than 0, 1 and -1, or a weight that is not finite (INVALID)
    gives NaN thresholds and empty matrices and is reported as `on_failure` says. Synchronises the device unless
    `on_failure` is "ignore" and there is no `pos_label`. Reproducible: same input, same bits. Dask arrays
    with each row in one chunk give Dask arrays, in all functions of scores; they take no `pos_label`.

    Examples
    --------
    >>> from cmfast import metrics
    >>> thresholds, matrices = metrics.threshold_matrices(
    ...     [1, 0, 1], [0.9, 0.2, 0.6]
    ... )
    >>> thresholds.tolist(), metrics.youden_j(matrices).tolist()
    ([inf, 0.9, 0.6, 0.2], [0.0, 0.5, 1.0, 0.0])
    """
    validate.flag("drop_ties", drop_ties)
    if drop_ties and caller.is_task():
        validate.refuse("drop_ties", "False with Dask arrays, whose size has to be known", "True")
    arrays = adopt_scores(y_true, y_score, sample_weight, pos_label, on_failure)
    if drop_ties and len(dispatch.shape_of(arrays[0])) > 1:
        validate.refuse("y_score", "one row of shape (n,) with drop_ties=True", f"shape {dispatch.shape_of(arrays[0])}")
    thresholds, matrices, status = dispatch.call("threshold_matrices", *arrays)
    failures.report(status, on_failure, failed=FAILED, why=partial(explain_bad_row, arrays))
    if drop_ties:
        thresholds, matrices = adapter(thresholds).evaluate(_drop_repeated, thresholds, matrices)
    return ThresholdMatrices(thresholds, matrices)


def _drop_repeated(thresholds: Any, matrices: Any) -> tuple[Any, Any]:
    """Return the last entry of every distinct threshold."""
    keep = thresholds == thresholds  # noqa: PLR0124 - all of them, in the library of the array
    keep[:-1] = thresholds[1:] != thresholds[:-1]
    return thresholds[keep], matrices[keep]


def _refuse_columns(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Refuse a column of scores for each class, and say how one is chosen."""
    cure = f"give those of the positive class, {name}[:, 1]"
    if shape[1] != 2:
        cure = (
            f"give (y_true == k) and {name}[:, k] for class k against the rest; uncertainty.interval(y_true, y_score, "
            '"roc_auc_ovr") averages the classes'
        )
    if shape[0] == wanted[0]:
        validate.refuse(name, f"of shape {wanted}, a score for each sample", f"shape {shape}; {cure}")


def _warn_of_one_hot(y_true: Any) -> None:
    """Warn of one-hot labels, whose rows are taken for problems of their own."""
    n, C = (*dispatch.shape_of(y_true), 0, 0)[:2]
    if len(dispatch.shape_of(y_true)) != 2 or C < 3 or n <= C or not adapter(y_true).is_on_host(y_true):
        return
    bare = adapter(y_true).unwrap(y_true)
    for rows in (slice(0, 1), slice(None)):  # most batches are told by the first row
        host = adapter(bare).entry(bare, rows)
        if not (((host == 1).sum(1) == 1).all() and ((host == 0).sum(1) == C - 1).all()):
            return
    failures.warn_diagnostic(
        f"y_true has exactly one 1 in each of {n} rows, as one-hot labels have, and every row was taken for a "
        f"problem of {C} samples; for one for each class pass y_true.T and y_score.T"
    )


def adopt_scores(
    y_true: Array,
    y_score: Array,
    weight: Array | None,
    pos_label: object,
    on_failure: object,
    *,
    models: bool = False,
    name: str = "y_score",
) -> list[Any]:
    """Validate and return scores, labels as 0 and 1, and weights, in one array library.

    With `models`, scores have one more axis before the last. Messages call the scores `name`.
    """
    on_failure = validate.on_failure(on_failure)
    if pos_label is not None and caller.is_task():
        validate.refuse("pos_label", "None with Dask arrays; pass (y_true == label)", validate.format_value(pos_label))
    if pos_label is not None and not isinstance(pos_label, str):
        pos_label = validate.count("pos_label", pos_label, least=-(2**63))
    validate.refuse_tables(y_true=y_true)
    given = {"y_true": validate.type_empty_labels(y_true), name: y_score, "sample_weight": weight}
    y_true, y_score, weight = dispatch.adopt(optional=("sample_weight",), **given)
    _check_argument_order(name, y_score, y_true)
    validate.real(**{name: y_score, "sample_weight": weight})
    shapes = {"y_true": dispatch.shape_of(y_true), name: dispatch.shape_of(y_score)}
    if not models and len(shapes["y_true"]) == 1 and len(shapes[name]) == 2:
        _refuse_columns(name, shapes[name], shapes["y_true"])
    if isinstance(y_true, _text_codes.Coded):
        if not isinstance(pos_label, str):
            first, *others = sorted(y_true.names) or [""]
            cure = f"; pass pos_label={first!r} or {others[0]!r}" if len(others) == 1 else ""
            came = f"{validate.format_value(pos_label)}{cure}"
            validate.refuse("pos_label", "one of the labels if these are text", came, TypeError)
        if pos_label not in y_true.names and len(y_true.names) > 1:
            _refuse_absent(pos_label, sorted(y_true.names))
        number = y_true.names.index(pos_label) if pos_label in y_true.names else -1
        y_true = read_only((y_true.codes == number).astype(np.uint8))
    elif isinstance(pos_label, str):
        validate.refuse("pos_label", "an integer as y_true", validate.format_value(pos_label), TypeError)
    validate.integer(y_true=y_true)
    if not models:
        _warn_of_one_hot(y_true)
    if models:
        if len(shapes[name]) < 2:
            validate.refuse(name, "of shape (..., K, n), a row for each model", f"shape {shapes[name]}")
        n = shapes["y_true"][-1:]
        if len(shapes["y_true"]) == 1 and len(shapes[name]) == 2 and shapes[name][1:] != n == shapes[name][:1]:
            came = f"shape {shapes[name]}; transpose it, as rows are models"
            validate.refuse(name, f"of shape (K, {n[0]}), a row for each model", came)
        shapes[f"{name} without its models"] = (*shapes[name][:-2], shapes.pop(name)[-1])
    weights = {} if weight is None else {"sample_weight": dispatch.shape_of(weight)}
    if not validate.one_shape(**shapes, **weights):
        validate.refuse(name, "of shape (..., n)", "shape ()")
    doubt = validate.samples_last(sized=True, **shapes)
    if doubt is not None:
        failures.warn_diagnostic(doubt)
    if isinstance(pos_label, int):
        positive = adapter(y_true).evaluate(lambda y: y == pos_label, y_true)
        if not adapter(positive).any(positive):
            occurring = np.unique(adapter(y_true).to_host(y_true)).tolist()
            if len(occurring) > 1:
                _refuse_absent(pos_label, occurring)
        y_true = positive
    return [y_score, y_true, weight]


def _refuse_absent(pos_label: object, labels: list[Any]) -> NoReturn:
    """Raise for a positive label that does not occur among several labels."""
    near = validate.suggest_name(pos_label, labels) if isinstance(pos_label, str) else ""
    validate.refuse(
        "pos_label", f"one of the labels {validate.format_value(labels)}", f"{validate.format_value(pos_label)}{near}"
    )


def explain_bad_row(arrays: list[Any], index: tuple[int, ...], models: tuple[Any, ...] | None = None) -> str:
    """Return a text that says why the row of scores at `index` was left out; `models` are the names of its rows."""
    score, y, *weight = (adapter(array).entry(array, index) for array in arrays if array is not None)
    if said := describe_bad_label(y, index):
        return said
    given = {"y_score": score}
    if models is not None:
        given = {f"y_score[{validate.format_value(m)}]": one for m, one in zip(models, score, strict=True)}
    said = ""
    for name, one in given.items():
        said = said or bad_values.describe_first(name, one, np.isnan(one), index)
    for one in weight:
        said = said or bad_values.describe_first("sample_weight", one, ~np.isfinite(one), index)
    return said + table_columns.describe_gaps() if said else bad_values.OVERFLOWING_WEIGHTS


def describe_bad_label(y: np.ndarray, index: tuple[int, ...]) -> str:
    """Return a text that names the first label of the row at `index` that is not 0, 1 or -1; "" if all are valid."""
    wrong = np.flatnonzero((y < -1) | (y > 1))
    if not wrong.size:
        return ""
    where = f"y_true{bad_values.format_index((*index, wrong[0]))}"
    labels = np.unique(y).tolist()
    cure = f"pass pos_label={labels[1]} if that is positive" if len(labels) == 2 else "pass pos_label="
    return f"label {y[wrong[0]]} at {where} is not 0, 1 or -1; {cure}"


def _check_argument_order(name: str, y_score: Array, y_true: Array) -> None:
    """Raise if scores are text or labels are floats, with the reminder that labels come first."""
    order = f"labels come first, as (y_true, {name})"
    if isinstance(y_score, _text_codes.Coded):
        validate.refuse(
            name, "real numbers of at most 64 bits", f"{validate.describe_dtype(y_score)}; {order}", TypeError
        )
    if adapter(y_true).dtype(y_true).kind == "f":
        values = adapter(y_true).to_host(y_true)
        known = values[~np.isnan(values)]
        cure = order
        if known.size and np.isin(known, (-1.0, 0.0, 1.0)).all():  # labels of two classes in a column with gaps
            cure = ".astype(int) makes labels of whole numbers"
            if known.size < values.size:
                cure = "leave these samples out of all arrays, then .astype(int) makes labels"
        validate.refuse("y_true", "integers", f"{validate.describe_dtype(y_true)}; {cure}", TypeError)


def _compute_curve(names: list[MetricName], undefined: Any, *args: Any) -> tuple[Any, ...]:
    """Return the thresholds and the metrics `names` at each."""
    arrays, on_failure = adopt_scores(*args), args[-1]
    thresholds, matrices, status = dispatch.call("threshold_matrices", *arrays)
    failures.report(status, on_failure, failed=FAILED, why=partial(explain_bad_row, arrays))
    return (thresholds, *compute(matrices, names, undefined=undefined, on_failure="ignore").values())


@overload
def roc(
    y_true: DeviceT,
    y_score: DeviceT,
    *,
    sample_weight: DeviceT | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> Roc[DeviceT]: ...
@overload
def roc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> Roc[NDArray[Any]]: ...
@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def roc(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None = None,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
) -> Roc[Any]:
    """Compute the receiver operating characteristic: false and true positive rates at the thresholds of a score.

    Options as for :func:`threshold_matrices`; :func:`auc` is the area below the curve.

    Examples
    --------
    >>> from cmfast import metrics
    >>> thresholds, fpr, tpr = metrics.roc([1, 0, 0, 1], [0.9, 0.2, 0.6, 0.4])
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    return Roc(
        *_compute_curve(["fpr_binary", "recall_binary"], "nan", y_true, y_score, sample_weight, pos_label, on_failure)
    )


@overload
def precision_recall(
    y_true: DeviceT,
    y_score: DeviceT,
    *,
    sample_weight: DeviceT | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> PrecisionRecall[DeviceT]: ...
@overload
def precision_recall(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> PrecisionRecall[NDArray[Any]]: ...
@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def precision_recall(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None = None,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
) -> PrecisionRecall[Any]:
    """Compute the precision-recall curve at the thresholds of a score, from the highest down.

    Options as for :func:`threshold_matrices`; :func:`average_precision` is the area below the curve.

    Examples
    --------
    >>> from cmfast import metrics
    >>> thresholds, precision, recall = metrics.precision_recall(
    ...     [1, 0, 0, 1], [0.9, 0.2, 0.6, 0.4]
    ... )
    >>> precision.round(3).tolist(), recall.tolist()
    ([1.0, 1.0, 0.5, 0.667, 0.5], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    names: list[MetricName] = ["precision_binary", "recall_binary"]
    return PrecisionRecall(*_compute_curve(names, "one", y_true, y_score, sample_weight, pos_label, on_failure))


def _compute_area(which: int, *args: Any) -> Any:
    """Return area 0 (ROC AUC) or 1 (average precision) of each row of scores."""
    arrays = adopt_scores(*args)
    *areas, status = dispatch.call("score_areas", *arrays)
    failures.report(status, args[-1], failed=FAILED, why=partial(explain_bad_row, arrays))
    return areas[which]


@overload
def roc_auc(
    y_true: DeviceT,
    y_score: DeviceT,
    *,
    sample_weight: DeviceT | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> DeviceT: ...
@overload
def roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> Floats: ...
@overload
def roc_auc(table: Any, /, *, y_true: str, y_score: str, **options: Any) -> Any: ...
@table_columns.accept_table(("y_true", "y_score"), ("sample_weight",), lazily="table.compute() is one")
@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def roc_auc(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None = None,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
) -> Any:
    """Compute the area under the ROC curve: the probability that a positive sample scores higher, ties counting half.

    Shape (...), float64; NaN without a positive or a negative sample. Options as for :func:`threshold_matrices`.
    Instead of arrays a table and its columns: ``roc_auc(table, y_true="label", y_score="score")``.

    Examples
    --------
    >>> from cmfast import metrics
    >>> value = metrics.roc_auc(
    ...     ["ill", "well", "well", "ill"],
    ...     [0.9, 0.2, 0.6, 0.4],
    ...     pos_label="ill",
    ... )
    >>> float(value)
    0.75
    """
    return _compute_area(0, y_true, y_score, sample_weight, pos_label, on_failure)


@overload
def average_precision(
    y_true: DeviceT,
    y_score: DeviceT,
    *,
    sample_weight: DeviceT | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> DeviceT: ...
@overload
def average_precision(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> Floats: ...
@overload
def average_precision(table: Any, /, *, y_true: str, y_score: str, **options: Any) -> Any: ...
@table_columns.accept_table(("y_true", "y_score"), ("sample_weight",), lazily="table.compute() is one")
@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def average_precision(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None = None,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
) -> Any:
    """Compute average precision: the precision at each threshold, weighted by the recall that it adds.

    Shape (...), float64; NaN without a positive sample. Options as for :func:`threshold_matrices`.
    Instead of arrays a table and its columns: ``average_precision(table, y_true="label", y_score="score")``.

    Examples
    --------
    >>> from cmfast import metrics
    >>> value = metrics.average_precision(
    ...     [1, -1, -1, 1], [0.9, 0.2, 0.6, 0.4]
    ... )
    >>> round(float(value), 4)
    0.8333
    """
    return _compute_area(1, y_true, y_score, sample_weight, pos_label, on_failure)


def validate_costs(cost: Any) -> np.ndarray:
    """Validate a 2x2 table of costs (row: truth, column: decision); return it as float64 on the host."""
    (adopted,) = dispatch.adopt(cost=cost)
    validate.real(cost=adopted)
    table = np.asarray(adapter(adopted).to_host(adopted), np.float64)
    if table.shape != (2, 2):
        validate.refuse("cost", "of shape (2, 2)", f"shape {table.shape}")
    if not np.isfinite(table).all():
        validate.refuse("cost", "finite", table.tolist())
    return table


@overload
def least_cost(
    y_true: DeviceT,
    y_score: DeviceT,
    cost: ArrayLike,
    *,
    sample_weight: DeviceT | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> LeastCost[DeviceT]: ...
@overload
def least_cost(
    y_true: ArrayLike,
    y_score: ArrayLike,
    cost: ArrayLike,
    *,
    sample_weight: ArrayLike | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
) -> LeastCost[NDArray[Any]]: ...
@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def least_cost(
    y_true: Array,
    y_score: Array,
    cost: Array,
    *,
    sample_weight: Array | None = None,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
) -> LeastCost[Any]:
    """Find the threshold at which the confusion matrix times a table of costs has the least sum.

    Parameters
    ----------
    y_true, y_score
        As for :func:`threshold_matrices`.
    cost : array, shape (2, 2), on the host
        Cost of a sample by its true class (row) and its predicted class (column); benefits are negative.
    sample_weight, pos_label, on_failure
        As for :func:`threshold_matrices`.

    Returns
    -------
    LeastCost
        One result per row of scores.

    Examples
    --------
    >>> from cmfast import metrics
    >>> best = metrics.least_cost(
    ...     [1, 0, 0, 1], [0.9, 0.2, 0.6, 0.4], [[0, 1], [10, 0]]
    ... )
    >>> float(best.threshold), float(best.cost)
    (0.4, 1.0)
    """
    table = validate_costs(cost)
    arrays = adopt_scores(y_true, y_score, sample_weight, pos_label, on_failure)
    *found, status = dispatch.call("least_cost", *arrays, cost=table)
    failures.report(status, on_failure, failed=FAILED, why=partial(explain_bad_row, arrays))
    return LeastCost(*found)
