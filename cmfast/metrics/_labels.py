"""Metrics computed from labels by a matrix of few classes, or by five histograms per class for any number of them."""

from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, table_columns
from cmfast._core import labels as _labels
from cmfast._core.annotations import Array, DeviceT, Floats, Ignored, Label, Undefined
from cmfast._core.usual_options import explain_options
from cmfast.metrics import _plan, _samples
from cmfast.metrics._evaluate import SUMS, check_options, evaluate, evaluate_lazy_sums, get_ordered_sums
from cmfast.metrics._margins import Margins
from cmfast.metrics._names import MetricName, Names


@overload
def label_margins(
    y_true: DeviceT,
    y_pred: DeviceT,
    *,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    sample_weight: DeviceT | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    num_threads: int | None = ...,
) -> Margins[DeviceT]: ...
@overload
def label_margins(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    num_threads: int | None = ...,
) -> Margins[NDArray[Any]]: ...
@explain_options
def label_margins(
    y_true: Array,
    y_pred: Array,
    *,
    n_classes: int | None = None,
    labels: Array | None = None,
    sample_weight: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    ignore_index: Ignored = None,
    sample_axes: int | None = 1,
    whole_floats: bool = False,
    num_threads: int | None = None,
) -> Margins[Any]:
    """Compute diagonal, margins and distance sums of the confusion matrix of labels, without the matrix.

    Parameters
    ----------
    y_true, y_pred : array of int or str, shape (..., n)
        Integers or text.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``. Default: the classes are the labels that occur anywhere in
        `y_true` or `y_pred`, sorted, as for :func:`cmfast.confusion_matrix`; an order of categories is kept.
    labels : array, shape (C,), optional
        The classes, in this order, as for :func:`cmfast.confusion_matrix`: pairs with other labels are left out.
    sample_weight : array, shape (..., n), optional
        Weight of each sample; default 1. Integers are added as integers, anything else in float64.
    groups : array of int or str, shape (..., n), optional
        Group of each sample, ``0, ..., n_groups - 1``: sums per fold, client, epoch or threshold from one stream. Or
        text: the groups are the names that occur, sorted.
    n_groups : int, optional
        Default: the largest group plus one.
    ignore_index : int or str, or list of these, optional
        Samples with this true label are ignored; text if labels are text. Several labels take a copy of `y_true`.
    sample_axes : int or None
        Number of last axes that are samples: 2 for sums per image of shape (..., H, W), None for all axes.
    whole_floats : bool
        Take floats for labels, which must be whole numbers: 2.0 is 2.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Margins
        What :func:`margins` gives for the confusion matrix of these labels; with `groups` shape (..., G, C).

    Raises
    ------
    TypeError, ValueError
        Labels that are neither integers nor text, or one of each, missing values, tables instead of columns, shapes
        that differ, labels outside ``0, ..., n_classes - 1``; without `n_classes` labels of shape (n, 1), which are n
        rows of one sample.

    Warns
    -----
    DiagnosticWarning
        Labels of shape (n, 1) with `n_classes`; labels with exactly one 1 in each of several rows, as one-hot labels
        have; without `n_classes` and `labels` more rows than columns of 0 and 1, as indicators of several labels have;
        text arrays that have no label in common.

    Notes
    -----
    Memory: five values per class and a block of samples; for integers other than 0, 1, ... also one to four bytes per
    label. Bad values: labels raise; sums of weights that are NaN or exceed int64 have the status INVALID. Synchronises
    the device. Reproducible: same input, same bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> sums = metrics.label_margins([0, 1, 2, 2], [0, 2, 2, 1])
    >>> sums.diagonal.tolist(), sums.bands.tolist()
    ([1, 0, 1], [2, 2, 0])
    """
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}
    options = _samples.Options(n_classes, n_groups, ignore_index, sample_axes, whole_floats, num_threads, labels=labels)
    return _samples.sum_labels(given, options)[0]


@overload
def from_labels(
    y_true: DeviceT,
    y_pred: DeviceT,
    names: MetricName,
    *,
    n_classes: int | None = ...,
    sample_weight: DeviceT | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    labels: ArrayLike | None = ...,
    average_over: Sequence[Label] | None = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def from_labels(
    y_true: DeviceT,
    y_pred: DeviceT,
    names: Names = ...,
    *,
    n_classes: int | None = ...,
    sample_weight: DeviceT | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    labels: ArrayLike | None = ...,
    average_over: Sequence[Label] | None = ...,
    num_threads: int | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def from_labels(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    names: MetricName,
    *,
    n_classes: int | None = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    labels: ArrayLike | None = ...,
    average_over: Sequence[Label] | None = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def from_labels(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    names: Names = ...,
    *,
    n_classes: int | None = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    labels: ArrayLike | None = ...,
    average_over: Sequence[Label] | None = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
@overload
def from_labels(table: Any, /, names: Names | MetricName = ..., *, y_true: str, y_pred: str, **options: Any) -> Any: ...
@table_columns.accept_table(_labels.NAMES, ("sample_weight", "groups"), lazily="uncertainty.interval takes it")
def from_labels(
    y_true: Array,
    y_pred: Array,
    names: str | Sequence[str] | None = None,
    *,
    n_classes: int | None = None,
    sample_weight: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    ignore_index: Ignored = None,
    sample_axes: int | None = 1,
    whole_floats: bool = False,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    labels: Array | None = None,
    average_over: Sequence[Label] | None = None,
    num_threads: int | None = None,
) -> Any:
    """Compute any number of metrics directly from labels, without a confusion matrix.

    Parameters
    ----------
    y_true, y_pred : array of int or str, shape (..., n)
        As for :func:`label_margins`: integers or text, whose classes are the labels that occur, sorted. Or, in their
        place, a table and names of its columns: ``from_labels(table, names, y_true="label", y_pred="guess")``.
    names : str or list of str, optional
        As for :func:`compute`: all of them, also those of ordered classes.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``; not all need to occur.
    sample_weight, groups, n_groups, ignore_index, sample_axes, whole_floats
        As for :func:`label_margins`.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`compute`.
    pos_label : label, optional
        The positive one of two classes, for binary names: text, a bool, an integer. Default: the second of two texts;
        1 of labels 0 and 1, or -1 and 1; other integers need it. One of two classes that does not occur is added.
    labels : array, shape (C,), optional
        The classes, in this order, as for :func:`cmfast.confusion_matrix`: pairs with other labels are left out.
        Metrics of ordered classes, as the weighted kappas, depend on the order.
    average_over : sequence of labels, optional
        Classes to average over and to return values of, as for :func:`compute`: some of the labels, or class ids with
        `n_classes`. All other classes remain negatives.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, or dict of str to array
        Bitwise equal to :func:`compute` of the confusion matrix; with float weights equal up to rounding.

    Raises
    ------
    TypeError, ValueError
        As :func:`label_margins` and :func:`compute`; a binary name if the positive label cannot be inferred.

    Warns
    -----
    DiagnosticWarning
        A metric of ordered classes is requested for more than two text classes without a declared order; there are no
        samples.

    Notes
    -----
    Agrees with scikit-learn's confusion matrix of the same labels: classes that do not occur do not count in averages
    and distances, unless `labels` lists them. The `labels` of scikit-learn's averages are `average_over` here.

    Memory: five values per class instead of one per pair of classes: 4 MB instead of 80 GB for 100,000 classes. At most
    256 classes may be counted into a matrix, of half a megabyte, which is faster. Bad values: labels raise; weights
    whose sum is NaN, negative or, for integers, beyond int64 give NaN and warn. Synchronises the device. Reproducible:
    same input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> value = metrics.from_labels(
    ...     [0, 0, 1, 99_999], [0, 1, 1, 99_999], "mcc"
    ... )
    >>> round(float(value), 6)
    0.7
    >>> found = metrics.from_labels(
    ...     ["cat", "dog", "dog"], ["cat", "cat", "dog"], "recall"
    ... )
    >>> found.tolist()
    [1.0, 0.5]
    >>> float(metrics.from_labels([-1, 1, 1], [1, 1, -1], "recall_binary"))
    0.5
    >>> value = metrics.from_labels(
    ...     ["no", "yes", "yes"],
    ...     ["no", "yes", "no"],
    ...     "recall_binary",
    ...     pos_label="yes",
    ... )
    >>> float(value)
    0.5
    """
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    check_options(undefined, "warn")
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}
    options = _samples.Options(n_classes, n_groups, ignore_index, sample_axes, whole_floats, num_threads, labels=labels)
    options = options._replace(pos_label=pos_label, positive=1 if _plan.is_binary(wanted) else None)

    def resolve_classes(C: int, classes: _samples.Classes) -> tuple[int, tuple[int, ...] | None]:
        """Return the index of the positive class and the class indices to average over, by `classes`."""
        place = 1 if pos_label is None else _samples.find_positive_class("pos_label", pos_label, C, classes)
        return place, _plan.validate_class_ids(_samples.find_class_ids(average_over, classes), C)

    def check(C: int, classes: _samples.Classes) -> object:
        """Check that the requested metrics exist for `C` classes."""
        return _plan.make_plan(wanted, C, undefined, *resolve_classes(C, classes), argument="y_true and y_pred")

    counted = _samples.count_few_classes(given, options, check)
    if counted is not None:
        M, classes = counted
        place, chosen = resolve_classes(len(M), classes)
        found = evaluate(M, wanted, undefined, place, "warn", num_threads, chosen)
        return _plan.match_requested_type(names, wanted, found)
    options = options._replace(ordered=any(map(get_ordered_sums, wanted)))
    sums, classes = _samples.sum_labels(given, options, check)
    if labels is None and names is not None and _labels.are_unordered_text(classes):
        _warn_if_text_unordered(names, wanted, y_true, y_pred)
    *batch, C = dispatch.shape_of(sums.diagonal)
    if not batch and hasattr(y_true, "__len__") and len(y_true) == 0:
        failures.warn_diagnostic("there are no samples; every metric is 0/0, which has the value that undefined= says")
    place, chosen = resolve_classes(C, classes)
    parts = dict(zip(SUMS, sums, strict=False)) | {"d": _samples.get_marked_diagonal(sums)}
    parts |= {} if options.ordered else {"bands": None, "tops": None}
    found = evaluate_lazy_sums(wanted, undefined, place, "warn", num_threads, chosen, _explain_weight_sums, **parts)
    return _plan.match_requested_type(names, wanted, found)


def _explain_weight_sums(index: tuple[int, ...]) -> str:
    """Return the reason why sums of labels have no metrics: the counts are valid, so the weights are not."""
    return "sample_weight must sum to a finite number from 0 to the largest int64; rescale the weights"


def _warn_if_text_unordered(names: str | Sequence[str], wanted: tuple[str, ...], y_true: Array, y_pred: Array) -> None:
    """Warn if a requested metric depends on class order and the text labels declare none."""
    ordered = [] if _plan.is_group(names) else [name for name in wanted if get_ordered_sums(name)]
    if ordered and not any(_labels.has_order(y) for y in (y_true, y_pred)):
        _labels.warn_of_order(ordered)
