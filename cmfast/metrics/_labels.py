"""Metrics straight from labels: five histograms instead of a matrix, for any number of classes."""

from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch
from cmfast._core import labels as _labels
from cmfast._core.annotations import Array, DeviceT, Floats, Label, Undefined
from cmfast.metrics import _plan, _samples
from cmfast.metrics._evaluate import SUMS, check_options, needs, of_sums
from cmfast.metrics._margins import Margins
from cmfast.metrics._names import MetricName, Names
from cmfast.metrics._single import of_policy


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
    ignore_index: int | str | None = ...,
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
    ignore_index: int | str | None = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    num_threads: int | None = ...,
) -> Margins[NDArray[Any]]: ...
def label_margins(
    y_true: Array,
    y_pred: Array,
    *,
    n_classes: int | None = None,
    labels: Array | None = None,
    sample_weight: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    ignore_index: int | str | None = None,
    sample_axes: int | None = 1,
    whole_floats: bool = False,
    num_threads: int | None = None,
) -> Margins[Any]:
    """Diagonal, margins and distance sums of the confusion matrix of labels, without the matrix.

    Parameters
    ----------
    y_true, y_pred : array of int or str, shape (..., n)
        Integers or text.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``. Default: the classes are the labels that occur anywhere in
        `y_true` or `y_pred`, sorted, as for :func:`cmfast.confusion_matrix`; an order of categories is kept.
    labels : array, shape (C,), optional
        The classes, in this order, as for :func:`cmfast.confusion_matrix`: a pair with another label is left out.
    sample_weight : array, shape (..., n), optional
        What each sample adds; default 1. Integers are added as integers, anything else in float64.
    groups : array of int or str, shape (..., n), optional
        Group of each sample, ``0, ..., n_groups - 1``: sums per fold, client, epoch or threshold from one stream. Or
        text: the groups are the names that occur, sorted.
    n_groups : int, optional
        Default: the largest group plus one.
    ignore_index : int or str, optional
        A truth that counts nowhere, whatever was predicted; text where labels are.
    sample_axes : int or None
        How many of the last axes are samples: 2 for sums per image of shape (..., H, W), None for all of them at once.
    whole_floats : bool
        Take floats for labels, each of which must be a whole number: 2.0 is 2.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

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
        text of which no label is in both.

    Notes
    -----
    Memory: five numbers per class, and what is worked on at a time; where integers are other than 0, 1, ... also one to
    four bytes per label, however large they are. Bad values: labels raise; sums of weights that are
    no number, or that int64 does not hold, have the status INVALID. Synchronises the device. Reproducible: same input,
    same bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> sums = metrics.label_margins([0, 1, 2, 2], [0, 2, 2, 1])
    >>> sums.diagonal.tolist(), sums.bands.tolist()
    ([1, 0, 1], [2, 2, 0])
    """
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}
    options = _samples.Options(n_classes, n_groups, ignore_index, sample_axes, whole_floats, num_threads, labels=labels)
    return _samples.summed(given, options)[0]


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
    ignore_index: int | str | None = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    positive: int = ...,
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
    ignore_index: int | str | None = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    positive: int = ...,
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
    ignore_index: int | str | None = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    positive: int = ...,
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
    ignore_index: int | str | None = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    pos_label: Label | None = ...,
    labels: ArrayLike | None = ...,
    average_over: Sequence[Label] | None = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
@of_policy
def from_labels(
    y_true: Array,
    y_pred: Array,
    names: str | Sequence[str] | None = None,
    *,
    n_classes: int | None = None,
    sample_weight: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    ignore_index: int | str | None = None,
    sample_axes: int | None = 1,
    whole_floats: bool = False,
    undefined: Undefined = "present",
    positive: int = 1,
    pos_label: Label | None = None,
    labels: Array | None = None,
    average_over: Sequence[Label] | None = None,
    num_threads: int | None = None,
) -> Any:
    """Any number of metrics straight from labels, without a confusion matrix.

    Parameters
    ----------
    y_true, y_pred : array of int or str, shape (..., n)
        As for :func:`label_margins`: integers or text, whose classes are the labels that occur, sorted.
    names : str or list of str, optional
        As for :func:`compute`: all of them, also those of ordered classes.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``, some of which need not occur.
    sample_weight, groups, n_groups, ignore_index, sample_axes, whole_floats
        As for :func:`label_margins`.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`compute`.
    positive : {1, 0}
        Which class of two is the positive one, for binary names. Of labels 0 and 1, or -1 and 1, it is 1, also where
        one of them does not occur; of other integers `pos_label` says it.
    pos_label : label, optional
        The same by its label, in the place of `positive`: text, a bool, an integer. Without `n_classes` the classes are
        then two labels, whatever they are, also where one of them does not occur.
    labels : array, shape (C,), optional
        The classes, in this order, as for :func:`cmfast.confusion_matrix`: a pair with another label is left out.
        Metrics of ordered classes, as the weighted kappas, depend on the order.
    average_over : sequence of labels, optional
        Classes that averages are over, and whose values come back, as for :func:`compute`: some of the labels, or class
        ids with `n_classes`. All others stay the negatives of each.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array, or dict of str to array
        The bits that :func:`compute` gives for the confusion matrix; with float weights the same but for rounding.

    Raises
    ------
    TypeError, ValueError
        As :func:`label_margins` and :func:`compute`; a binary name for labels that do not say which is positive.

    Warns
    -----
    DiagnosticWarning
        A metric of ordered classes was named, and more than two classes are text whose order nobody gave.

    Notes
    -----
    Agrees with scikit-learn's confusion matrix of the same labels: classes that do not occur have no part in averages
    and distances, unless `labels` has them. The `labels` of scikit-learn's averages are `average_over` here.

    Memory: five numbers per class, where a matrix has one per pair: 4 MB instead of 80 GB for 100,000 classes. Bad
    values: labels raise; weights that add up to no number, to less than 0, or, as integers, to more than int64 holds,
    give NaN and warn. Synchronises the
    device. Reproducible: same input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> round(float(metrics.from_labels([0, 0, 1, 99_999], [0, 1, 1, 99_999], "mcc")), 6)
    0.7
    >>> metrics.from_labels(["cat", "dog", "dog"], ["cat", "cat", "dog"], "recall").tolist()
    [1.0, 0.5]
    >>> float(metrics.from_labels([-1, 1, 1], [1, 1, -1], "recall_binary"))
    0.5
    >>> float(metrics.from_labels(["no", "yes", "yes"], ["no", "yes", "no"], "recall_binary", pos_label="yes"))
    0.5
    """
    wanted = _plan.names_of(names)
    check_options(undefined, positive, "warn")
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}
    options = _samples.Options(n_classes, n_groups, ignore_index, sample_axes, whole_floats, num_threads, labels=labels)
    options = options._replace(pos_label=pos_label, positive=positive if _plan.is_binary(wanted) else None)

    def placed(C: int, classes: _samples.Classes) -> tuple[int, tuple[int, ...] | None]:
        place = positive if pos_label is None else _samples.place_of("pos_label", pos_label, C, classes)
        return place, _plan.labels_of(_samples.places_of(average_over, classes), C)

    def check(C: int, classes: _samples.Classes) -> object:
        return _plan.plan(wanted, C, undefined, *placed(C, classes), asked="y_true and y_pred")

    sums, classes = _samples.summed(given, options, check)
    if labels is None and names is not None and _labels.are_unordered_text(classes):
        _warn_of_order(names, wanted, y_true, y_pred)
    place, chosen = placed(dispatch.shape_of(sums.diagonal)[-1], classes)
    parts = dict(zip(SUMS, sums, strict=False)) | {"d": _samples.diagonal_of(sums)}
    found = of_sums(wanted, undefined, place, "warn", num_threads, chosen, _unsummed, **parts)
    return _plan.as_asked(names, wanted, found)


def _unsummed(index: tuple[int, ...]) -> str:
    """Say why the sums of labels are no metrics: they were counted, so the weights are at fault."""
    return "sample_weight adds up to no number, to one below 0, or to more than int64 holds"


def _warn_of_order(names: str | Sequence[str], wanted: tuple[str, ...], y_true: Array, y_pred: Array) -> None:
    """Warn of metrics that were named and depend on the order of text, unless a column declares it."""
    ordered = [] if _plan.is_group(names) else [name for name in wanted if needs(name)]
    if ordered and not any(_labels.has_order(y) for y in (y_true, y_pred)):
        _labels.warn_of_order(ordered)
