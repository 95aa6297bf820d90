"""Metrics straight from labels: five histograms instead of a matrix, for any number of classes."""

from collections.abc import Sequence
from typing import Any

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, Undefined
from cmfast.metrics import _compute, _plan
from cmfast.metrics._compute import Margins, from_sums


def label_margins(
    y_true: Array, y_pred: Array, /, *, n_classes: int | None = None, num_threads: int | None = None
) -> Margins:
    """Diagonal, margins and distance sums of the confusion matrix of labels, without the matrix.

    Parameters
    ----------
    y_true, y_pred : array of int, shape (..., n)
        Class ids ``0, ..., n_classes - 1``.
    n_classes : int, optional
        Default: the largest label plus one.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    Margins
        What :func:`margins` gives for the confusion matrix of these labels.

    Raises
    ------
    TypeError, ValueError
        Labels that are no integers, missing values, tables instead of columns, shapes that differ, labels outside
        ``0, ..., n_classes - 1``; without `n_classes` labels of shape (n, 1), which are n rows of one sample.

    Warns
    -----
    DiagnosticWarning
        Labels of shape (n, 1) with `n_classes`.

    Notes
    -----
    Memory: five integers per class. Bad values: they raise. Synchronises the device. Reproducible: same input, same
    bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> sums = metrics.label_margins([0, 1, 2, 2], [0, 2, 2, 1])
    >>> sums.diagonal.tolist(), sums.bands.tolist()
    ([1, 0, 1], [2, 2, 0])
    """
    return _margins(y_true, y_pred, n_classes, num_threads)


def _margins(y_true: Array, y_pred: Array, n_classes: int | None, num_threads: int | None) -> Margins:
    """Return the sums of labels, checked."""
    num_threads = validate.num_threads(num_threads)
    validate.columns(y_true=y_true, y_pred=y_pred)
    y_true, y_pred = dispatch.adopt(y_true=validate.labelled(y_true), y_pred=validate.labelled(y_pred))
    validate.integer(y_true=y_true, y_pred=y_pred)
    shape = validate.same_shape(y_true=y_true, y_pred=y_pred)
    if not shape:
        validate.refuse("y_true", "of shape (..., n)", "shape ()")
    doubt = validate.samples_last(sized=n_classes is not None, y_true=y_true, y_pred=y_pred)
    if doubt is not None:
        failures.diagnose(doubt)
    if n_classes is None:
        return _of_all(y_true, y_pred, num_threads)
    return _of(y_true, y_pred, validate.count("n_classes", n_classes), num_threads)


def _of_all(y_true: Array, y_pred: Array, num_threads: int | None) -> Margins:
    """Return the sums over the classes up to the largest label."""
    labels = {"y_true": y_true, "y_pred": y_pred} if 0 not in dispatch.shape_of(y_true) else {}
    largest = {name: _largest(labels[name]) for name in labels}
    name, value = max(largest.items(), key=lambda item: item[1], default=("y_true", -1))
    try:
        if value >= validate.LARGEST:
            raise MemoryError
        return _of(y_true, y_pred, max(0, value) + 1 if labels else 0, num_threads)
    except MemoryError:
        validate.refuse(name, "class ids, each of which takes memory", value, MemoryError)


def _largest(labels: Array) -> int:
    if dispatch.device_of(labels) == "cpu":  # torch has no maximum of most unsigned integers, NumPy has
        return int(dispatch.to_host(labels).max())
    with dispatch.chosen(labels):
        return int(labels.max())  # synchronises


def _of(y_true: Array, y_pred: Array, n_classes: int, num_threads: int | None) -> Margins:
    *sums, outside = dispatch.call("label_margins", y_true, y_pred, n_classes=n_classes, num_threads=num_threads)
    if outside:
        validate.refuse("y_true and y_pred", f"in 0..{n_classes - 1}", f"{outside} pairs outside")
    return Margins(*sums)


def from_labels(
    y_true: Array,
    y_pred: Array,
    names: str | Sequence[str],
    /,
    *,
    n_classes: int | None = None,
    undefined: Undefined = "present",
    positive: int = 1,
    num_threads: int | None = None,
) -> Any:
    """Any number of metrics straight from labels, without a confusion matrix.

    Parameters
    ----------
    y_true, y_pred : array of int, shape (..., n)
        Class ids ``0, ..., n_classes - 1``.
    names : str or list of str
        As for :func:`compute`: all of them, also those of ordered classes.
    n_classes : int, optional
        Default: the largest label plus one.
    undefined : {"present", "nan", "strict", "zero", "one"}
        What a 0/0 gives, as for :func:`compute`.
    positive : {1, 0}
        Which class of two is the positive one, for binary names.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array, or dict of str to array
        The bits that :func:`compute` gives for the confusion matrix.

    Raises
    ------
    TypeError, ValueError
        As :func:`label_margins` and :func:`compute`.

    Notes
    -----
    Memory: five integers per class, where a matrix has one per pair: 4 MB instead of 80 GB for 100,000 classes. Bad
    values: they raise. Synchronises the device. Reproducible: same input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> round(float(metrics.from_labels([0, 0, 1, 99_999], [0, 1, 1, 99_999], "mcc")), 6)
    0.7
    """
    wanted = _plan.names_of(names)
    _compute.check_options(undefined, positive, "warn")
    sums = _margins(y_true, y_pred, n_classes, num_threads)
    C = dispatch.shape_of(sums.diagonal)[-1]
    _plan.plan(wanted, C, undefined, positive, asked="y_true and y_pred")
    return from_sums(
        *sums[:3],
        names,
        bands=sums.bands,
        tops=sums.tops,
        undefined=undefined,
        positive=positive,
        num_threads=num_threads,
    )
