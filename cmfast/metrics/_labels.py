"""Metrics straight from labels: five histograms instead of a matrix, for any number of classes."""

from collections.abc import Callable, Sequence
from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, validate
from cmfast._core import labels as _label_values
from cmfast._core.adapters import _text
from cmfast._core.annotations import Array, DeviceT, Floats, Undefined
from cmfast.metrics import _plan
from cmfast.metrics._evaluate import SUMS, check_options, evaluate_sums
from cmfast.metrics._margins import Margins
from cmfast.metrics._names import MetricName, Names


@overload
def label_margins(
    y_true: DeviceT,
    y_pred: DeviceT,
    *,
    n_classes: int | None = ...,
    sample_weight: DeviceT | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    ignore_index: int | str | None = ...,
    num_threads: int | None = ...,
) -> Margins[DeviceT]: ...
@overload
def label_margins(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    n_classes: int | None = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: int | str | None = ...,
    num_threads: int | None = ...,
) -> Margins[NDArray[Any]]: ...
def label_margins(
    y_true: Array,
    y_pred: Array,
    *,
    n_classes: int | None = None,
    sample_weight: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    ignore_index: int | str | None = None,
    num_threads: int | None = None,
) -> Margins[Any]:
    """Diagonal, margins and distance sums of the confusion matrix of labels, without the matrix.

    Parameters
    ----------
    y_true, y_pred : array of int or str, shape (..., n)
        Class ids ``0, ..., n_classes - 1``; or text, whose classes are the labels that occur, sorted.
    n_classes : int, optional
        Default: the largest label plus one.
    sample_weight : array, shape (..., n), optional
        What each sample adds; default 1. Integers are added as integers, anything else in float64.
    groups : array of int, shape (..., n), optional
        Group of each sample, ``0, ..., n_groups - 1``: sums per fold, client, epoch or threshold from one stream.
    n_groups : int, optional
        Default: the largest group plus one.
    ignore_index : int or str, optional
        A truth that counts nowhere, whatever was predicted; text where labels are.
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
        Labels of shape (n, 1) with `n_classes`; text of which no label is in both.

    Notes
    -----
    Memory: five numbers per class, and what is worked on at a time. Bad values: labels raise; sums of weights that are
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
    return _margins(given, n_classes, n_groups, ignore_index, num_threads)


def _margins(
    given: dict[str, Array],
    n_classes: int | None,
    n_groups: int | None,
    ignore_index: int | str | None,
    num_threads: int | None,
    check: Callable[[int], object] = bool,
) -> Margins[Any]:
    """Return the sums of labels, checked; `check` sees the number of classes before anything is counted."""
    options: dict[str, Any] = {"num_threads": validate.num_threads(num_threads), "check": check}
    validate.columns(**given)
    labelled = {name: validate.labelled(given[name]) for name in ("y_true", "y_pred")}
    optional = ("sample_weight", "groups")
    arrays = dict(zip(given, dispatch.adopt(optional=optional, **{**given, **labelled}), strict=True))
    texts = [name for name in labelled if isinstance(arrays[name], _text.Coded)]
    if texts:
        n_classes = _numbered(arrays, texts, n_classes, ignore_index)
        ignore_index = None if ignore_index is None else _label_values.NOWHERE
    y_true, y_pred, weight, groups = arrays.values()
    validate.integer(y_true=y_true, y_pred=y_pred, groups=groups)
    validate.real(sample_weight=weight)
    shape = validate.same_shape(**arrays)
    if not shape:
        validate.refuse("y_true", "of shape (..., n)", "shape ()")
    doubt = validate.samples_last(sized=n_classes is not None, y_true=y_true, y_pred=y_pred)
    if doubt is not None:
        failures.diagnose(doubt)
    if ignore_index is not None:
        options["ignored"] = _label_values.ignored(ignore_index, y_true)
    options["n_groups"] = _groups(groups, n_groups)
    if n_classes is not None:
        return _of(arrays, n_classes=validate.count("n_classes", n_classes), **options)
    return _of_all(arrays, **options)


def _numbered(arrays: dict[str, Any], texts: list[str], n_classes: object, ignore_index: int | str | None) -> int:
    """Put places among the sorted labels in the place of labels that are text; return how many there are."""
    for name in ("y_true", "y_pred"):
        if name not in texts:
            validate.refuse(name, f"text as {texts[0]}", validate.kind(arrays[name]), TypeError)
    if n_classes is not None:
        validate.refuse("n_classes", "None where labels are text", validate.shown(n_classes))
    ignored = None if ignore_index is None else _label_values.ignored(ignore_index, arrays["y_true"])
    *turned, n = _label_values.matched(arrays["y_true"], arrays["y_pred"], None, ignored)
    arrays |= dict(zip(("y_true", "y_pred"), turned, strict=True))
    return int(n)


def _groups(groups: Array | None, n_groups: int | None) -> int | None:
    """Return how many groups there are, None without; all of them must be below."""
    if groups is None:
        if n_groups is not None:
            validate.refuse("n_groups", "None without groups", validate.count("n_groups", n_groups))
        return None
    empty = 0 in dispatch.shape_of(groups)
    low, high = (0, -1) if empty else (_extreme(groups, "min"), _extreme(groups, "max"))
    number = high + 1 if n_groups is None else validate.count("n_groups", n_groups)
    if low < 0 or high >= number:
        wanted = "at least 0" if n_groups is None else f"in 0..{number - 1}"
        validate.refuse("groups", wanted, low if low < 0 else high)
    return number


def _of_all(arrays: dict[str, Array], **options: Any) -> Margins[Any]:
    """Return the sums over the classes up to the largest label."""
    found = {name: arrays[name] for name in ("y_true", "y_pred") if 0 not in dispatch.shape_of(arrays[name])}
    ignored = options.get("ignored")
    largest = {name: _extreme(found[name], "max") for name in found}
    if largest and ignored is not None and largest["y_true"] == ignored:
        largest["y_true"] = _largest_but(found["y_true"], ignored)
    name, value = max(largest.items(), key=lambda item: item[1], default=("y_true", -1))
    try:
        if value >= validate.LARGEST:
            raise MemoryError
        return _of(arrays, n_classes=max(0, value) + 1 if found else 0, **options)
    except MemoryError:
        validate.refuse(name, "class ids, each of which takes memory", value, MemoryError)


def _extreme(values: Array, which: str) -> int:
    if dispatch.device_of(values) == "cpu":  # torch has no maximum of most unsigned integers, NumPy has
        return int(getattr(dispatch.to_host(values), which)())
    with dispatch.chosen(values):
        return int(getattr(values, which)())  # synchronises


def _largest_but(values: Array, ignored: int) -> int:
    """Return the largest label beside `ignored`, -1 without any."""
    host = dispatch.to_host(values)
    rest = host[host != ignored]
    return int(rest.max()) if rest.size else -1


def _of(arrays: dict[str, Array], *, n_classes: int, check: Callable[[int], object], **options: Any) -> Margins[Any]:
    check(n_classes)
    if options["n_groups"] is not None and n_classes * options["n_groups"] > validate.LARGEST // 40:
        validate.too_large(40 * n_classes * options["n_groups"], n_classes=n_classes, n_groups=options["n_groups"])
    *sums, outside = dispatch.call("label_margins", *arrays.values(), n_classes=n_classes, **options)
    if outside:
        validate.refuse("y_true and y_pred", f"in 0..{n_classes - 1}", f"{outside} pairs outside")
    return Margins(*sums)


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
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
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
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
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
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
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
    undefined: Undefined = ...,
    positive: int = ...,
    labels: Sequence[int] | None = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
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
    undefined: Undefined = "present",
    positive: int = 1,
    labels: Sequence[int] | None = None,
    num_threads: int | None = None,
) -> Any:
    """Any number of metrics straight from labels, without a confusion matrix.

    Parameters
    ----------
    y_true, y_pred : array of int or str, shape (..., n)
        As for :func:`label_margins`: class ids, or text, whose classes are the labels that occur, sorted.
    names : str or list of str, optional
        As for :func:`compute`: all of them, also those of ordered classes.
    n_classes : int, optional
        Default: the largest label plus one.
    sample_weight, groups, n_groups, ignore_index
        As for :func:`label_margins`.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`compute`.
    positive : {1, 0}
        Which class of two is the positive one, for binary names.
    labels : sequence of int, optional
        Classes that averages are over, as for :func:`compute`.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array, or dict of str to array
        The bits that :func:`compute` gives for the confusion matrix; with float weights the same but for rounding.

    Raises
    ------
    TypeError, ValueError
        As :func:`label_margins` and :func:`compute`.

    Notes
    -----
    Memory: five numbers per class, where a matrix has one per pair: 4 MB instead of 80 GB for 100,000 classes. Bad
    values: labels raise; weights that add up to no number, or to less than 0, give NaN and warn. Synchronises the
    device. Reproducible: same input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> round(float(metrics.from_labels([0, 0, 1, 99_999], [0, 1, 1, 99_999], "mcc")), 6)
    0.7
    >>> metrics.from_labels(["cat", "dog", "dog"], ["cat", "cat", "dog"], "recall").tolist()
    [1.0, 0.5]
    """
    wanted = _plan.names_of(names)
    check_options(undefined, positive, "warn")
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}

    def check(C: int) -> object:
        return _plan.plan(wanted, C, undefined, positive, _plan.labels_of(labels, C), asked="y_true and y_pred")

    sums = _margins(given, n_classes, n_groups, ignore_index, num_threads, check)
    parts = dict(zip(SUMS, sums, strict=False))
    found = evaluate_sums(parts, wanted, undefined, positive, "warn", num_threads, labels, _unsummed)
    return _plan.as_asked(names, wanted, found)


def _unsummed(index: tuple[int, ...]) -> str:
    """Say why the sums of labels are no metrics: they were counted, so the weights are at fault."""
    return "sample_weight adds up to no number, or to one below 0"
