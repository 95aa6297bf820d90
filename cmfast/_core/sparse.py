"""Confusion matrices in scipy.sparse format, for many classes and few nonzero cells: on the host, one at a time."""

from typing import Any

import numpy as np

from cmfast.kernels.loading import load
from cmfast.kernels.shared import halves
from cmfast.kernels.status import Status


def is_sparse(M: Any) -> bool:
    """Whether `M` is a scipy.sparse matrix or array."""
    kind = type(M)
    return kind is not np.ndarray and kind.__module__.startswith("scipy.sparse") and hasattr(M, "tocoo")


def count_sparse(
    y_true: np.ndarray,
    y_pred: np.ndarray,
    weight: np.ndarray | None,
    n_classes: int | None,
    labels: np.ndarray | None,
    ignored: int | None,
) -> tuple[Any, np.int8]:
    """Count a sparse confusion matrix of integer labels; return it and its status. Ids are below `n_classes` if given.

    The status is INVALID if a sum overflows int64 (the matrix is then all zero) or a float sum is not finite.
    """
    if ignored is not None:
        seen = y_true != ignored
        y_true, y_pred = y_true[seen], y_pred[seen]
        weight = None if weight is None else weight[seen]
    i, j, C = (y_true, y_pred, n_classes) if n_classes is not None else _encode_positions(y_true, y_pred, labels)
    inside = (i >= 0) & (j >= 0)
    if not inside.all():
        i, j = i[inside], j[inside]
        weight = None if weight is None else weight[inside]
    small = np.int32 if C < 2**31 else np.int64
    at = (i.astype(small), j.astype(small))
    if weight is None:
        return _sum_entries(np.ones(len(i), np.int64), at, C), np.int8(Status.CONVERGED)
    if weight.dtype.kind == "f":
        matrix = _sum_entries(weight.astype(np.float64), at, C)
        return matrix, _status(good=bool(np.isfinite(matrix.data).all()))
    if not weight.size or halves.fits(int(weight.min()), int(weight.max()), weight.size):
        return _sum_entries(weight.astype(np.int64), at, C), np.int8(Status.CONVERGED)
    low, high = (_sum_entries(half, at, C) for half in halves.split_halves(weight))
    values, good = halves.join_halves(low.data, high.data)
    if not good.all():
        return type(low)((C, C), dtype=np.int64), _status(good=False)
    return type(low)((values, low.indices, low.indptr), shape=(C, C)), _status(good=True)


def _sum_entries(values: np.ndarray, at: tuple[np.ndarray, np.ndarray], C: int) -> Any:
    """Sum `values` at equal positions `at` into a (C, C) CSR matrix; zero sums stay stored."""
    from scipy.sparse import coo_array

    return coo_array((values, at), shape=(C, C)).tocsr()


def _status(*, good: bool) -> np.int8:
    """Return status CONVERGED or INVALID."""
    return np.int8(Status.CONVERGED if good else Status.INVALID)


def _encode_positions(
    y_true: np.ndarray, y_pred: np.ndarray, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return labels as positions in `labels` (-1: absent), or in the sorted labels that occur; and their number."""
    kernels = load("cmfast.kernels.cpu._core.distinct")
    classes = kernels.find_distinct(y_true, y_pred) if labels is None else labels
    i, j = (kernels.find_positions(y, classes) for y in (y_true, y_pred))
    return i, j, len(classes)


def sum_margins(M: Any) -> tuple[np.ndarray, ...]:
    """Return diagonal, row sums, column sums and sums by abs(i - j) and by max(i, j) of a sparse matrix.

    Sums of integers are exact. The diagonal is -1 where a cell is not a nonnegative number or an integer total
    overflows.
    """
    cells = M.tocoo()
    C = cells.shape[0]
    i, j = (np.asarray(place, np.int64) for place in (cells.row, cells.col))
    kind = np.float64 if cells.data.dtype.kind == "f" else np.int64
    values = cells.data.astype(kind)
    sums = np.zeros((5, C), kind)
    on = i == j
    np.add.at(sums[0], i[on], values[on])
    for part, place in enumerate((i, j, abs(i - j), np.maximum(i, j)), start=1):
        np.add.at(sums[part], place, values)
    if values.size and not (values >= 0).all():  # a sum could hide the bad cell
        sums[0] = -1
    elif kind is np.int64 and values.size and not halves.fits(0, int(values.max()), values.size):
        low, high = (half.sum() for half in halves.split_halves(values))
        if not halves.join_halves(low, high)[1]:  # the sums above may have overflowed
            sums[0] = -1
    return tuple(sums)


def explain_bad_cells(M: Any, index: tuple[int, ...] = ()) -> str:
    """Describe the first bad cell of a sparse `M`, or an overflowing total; "" if the cells are valid."""
    del index
    cells = M.tocoo()
    bad = np.flatnonzero(~(cells.data >= 0) | (cells.data == np.inf))
    if bad.size:
        k = bad[0]
        kind = "NaN" if np.isnan(cells.data[k]) else "infinite" if np.isinf(cells.data[k]) else "negative"
        return f"{kind} value at M[{cells.row[k]}, {cells.col[k]}]"
    limit = np.inf if cells.data.dtype.kind == "f" else 2.0**63
    with np.errstate(over="ignore"):
        fits = cells.data.sum(dtype=np.float64) < limit
    return "" if fits else "the cells of M add up to more than fits"
