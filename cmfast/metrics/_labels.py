"""Metrics straight from labels: five histograms instead of a matrix, for any number of classes."""

from collections.abc import Sequence
from typing import Any

from cmfast import _dispatch, _validate
from cmfast._typing import Array
from cmfast.metrics._compute import Margins, from_sums
from cmfast.metrics._plan import Undefined


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
        Labels that are no integers, shapes that differ, labels outside ``0, ..., n_classes - 1``.

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
    op = "metrics.label_margins"
    num_threads = _validate.num_threads(op, num_threads)
    y_true, y_pred = _dispatch.adopt(op, y_true=y_true, y_pred=y_pred)
    _validate.integer(op, y_true=y_true, y_pred=y_pred)
    shape = _validate.same_shape(op, y_true=y_true, y_pred=y_pred)
    if not shape:
        _validate.refuse(op, "y_true", "of shape (..., n)", "shape ()")
    if n_classes is None:
        with _dispatch.chosen(y_true):
            largest = [int(a.max()) for a in (y_true, y_pred) if 0 not in shape]  # synchronises
        n_classes = max(0, *largest) + 1 if largest else 0
    n_classes = _validate.count(op, "n_classes", n_classes)
    *sums, outside = _dispatch.call("label_margins", y_true, y_pred, n_classes=n_classes, num_threads=num_threads)
    if outside:
        _validate.refuse(op, "labels", f"in 0..{n_classes - 1}", f"{outside} pairs outside")
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
    sums = label_margins(y_true, y_pred, n_classes=n_classes, num_threads=num_threads)
    return from_sums(
        *sums[:3],
        names,
        bands=sums.bands,
        tops=sums.tops,
        undefined=undefined,
        positive=positive,
        num_threads=num_threads,
    )
