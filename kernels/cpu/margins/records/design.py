"""The design matrix of records by columns, given as a matrix, a sparse matrix, or categories."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu.margins.records import dense_rows, duplicate_rows
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows
from cmfast.kernels.shared import margins_layout as _layout


class RakingRecords(NamedTuple):
    """Records, of which those that are alike are one row."""

    rows: SparseRows | None  # None where a number, or a category, is none
    of: np.ndarray | None  # (records,) which row each is; None: each its own
    low: np.ndarray  # (rows,) or (1,) least weight, over the one it had
    high: np.ndarray
    layout: _layout.MarginLayout | None  # of categories
    lines: np.ndarray = np.empty((0, 0), np.uint16)  # (margins, rows) of these: which column each row has of each

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return 0 if self.rows is None else len(self.rows.first) - 1

    def together(self, x: np.ndarray) -> np.ndarray:
        """Return the sums of what records have, for each row."""
        return x if self.of is None else np.bincount(self.of, x, self.n_rows)

    def apart(self, x: np.ndarray) -> np.ndarray:
        """Return what rows have, for each record."""
        return x if self.of is None else x[self.of]


def of_columns(
    design: np.ndarray, pattern: tuple[np.ndarray, np.ndarray] | None, K: int, low: np.ndarray, high: np.ndarray
) -> RakingRecords:
    """Return the records of a matrix, or of the numbers in one, of which `pattern` says rows and columns."""
    A = batches.as_floating(design).astype(np.float64, copy=pattern is not None)  # kernels are of what may be written
    if pattern is None:
        return _of_matrix(np.require(A, requirements=["C", "W"]), low, high)
    if not np.isfinite(A).all():
        return RakingRecords(None, None, low, high, None)
    if dense_rows.is_full((len(pattern[0]) - 1, K), int(np.count_nonzero(A))):
        return _of_matrix(dense_rows.matrix(A, pattern, K), low, high)
    kind = _index(int(pattern[1].max(initial=0)) + 1)
    rows = SparseRows(pattern[0].astype(np.int64), pattern[1].astype(kind), A)
    groups = duplicate_rows.of_rows(*rows, [b for b in (low, high) if len(b) > 1])
    if groups is None:
        return RakingRecords(rows, None, low, high, None)
    sizes = np.diff(rows.first)[groups.chosen]
    first = np.concatenate([[0], np.cumsum(sizes)])
    at = np.repeat(rows.first[groups.chosen] - first[:-1], sizes) + np.arange(first[-1])
    few = SparseRows(first, rows.columns[at], rows.values[at])
    low, high = _chosen(groups, low, high)
    return RakingRecords(few, groups.of, low, high, None)


def _of_matrix(A: np.ndarray, low: np.ndarray, high: np.ndarray) -> RakingRecords:
    groups, used = duplicate_rows.of_matrix(A, [b for b in (low, high) if len(b) > 1])
    if used < 0:
        return RakingRecords(None, None, low, high, None)
    is_full = dense_rows.is_full(A.shape, used)
    if groups is not None:
        A, (low, high) = A[groups.chosen], _chosen(groups, low, high)
    rows = dense_rows.rows_of(A) if is_full else _used(A)
    return RakingRecords(rows, None if groups is None else groups.of, low, high, None)


def _used(A: np.ndarray) -> SparseRows:
    """Return the rows of a matrix without zeros."""
    where = np.nonzero(A)
    first = np.concatenate([[0], np.cumsum(np.bincount(where[0], minlength=len(A)))]).astype(np.int64)
    return SparseRows(first, where[1].astype(_index(A.shape[1])), A[where])


def of_categories(
    codes: np.ndarray, shape: tuple[int, ...], axes: _layout.Axes, low: np.ndarray, high: np.ndarray
) -> RakingRecords:
    """Return the records of an array of categories, a row per attribute."""
    layout = _layout.layout(shape, axes, [np.empty(0, np.int64)] * len(shape))
    used = sorted({axis for of in axes for axis in of})
    known = {axis: codes[axis].astype(np.int64, copy=False) for axis in used}
    n = codes.shape[1]
    if n and any(code.min() < 0 or code.max() >= shape[axis] for axis, code in known.items()):
        return RakingRecords(None, None, low, high, layout)
    known = {axis: np.ascontiguousarray(code) for axis, code in known.items()}
    others = [b for b in (low, high) if len(b) > 1]
    groups = (
        duplicate_rows.of_categories(list(known.values()), [shape[axis] for axis in used], others) if used else None
    )
    if groups is not None:
        known = {axis: code[groups.chosen] for axis, code in known.items()}
        n, (low, high) = len(groups.chosen), _chosen(groups, low, high)
    lines = np.empty((len(axes), n), _index(int(layout.offsets[-1])))
    for k, (b, offset) in enumerate(zip(layout.order, layout.offsets, strict=False)):
        of = axes[b]
        codes = known[of[0]] if len(of) == 1 else _layout.numbers([known[a] for a in of], [shape[a] for a in of], n)
        np.add(codes, offset, out=lines[k], casting="unsafe")
    first = np.arange(0, n * len(axes) + 1, len(axes), dtype=np.int64)
    rows = SparseRows(first, np.ascontiguousarray(lines.T).ravel(), np.ones(1))
    return RakingRecords(rows, None if groups is None else groups.of, low, high, layout, lines)


def _index(K: int) -> type[np.unsignedinteger]:
    """Return what columns are numbered by."""
    return np.uint16 if K <= 1 << 16 else np.uint32


def _chosen(groups: duplicate_rows.Groups, *each: np.ndarray) -> list[np.ndarray]:
    """Return numbers of records, if not the same one for all, for those that stand for the others."""
    return [numbers if len(numbers) == 1 else numbers[groups.chosen] for numbers in each]


def levels(codes: np.ndarray, axes: _layout.Axes, targets: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return how many categories each attribute has; one where no target tells."""
    shape = [1] * len(codes)
    for of, target in zip(axes, targets, strict=True):
        for axis, size in zip(of, target.shape[target.ndim - len(of) :], strict=True):
            shape[axis] = size
    return tuple(shape)


def margin_of(layout: _layout.MarginLayout | None, K: int) -> np.ndarray:
    """Return to which margin each line belongs; every column is its own."""
    return np.arange(K) if layout is None else np.repeat(np.arange(len(layout.order)), np.diff(layout.offsets))


def importances(importance: list[float] | None, layout: _layout.MarginLayout | None, K: int) -> np.ndarray:
    """Return how important each line is; infinite where it must be met."""
    if importance is None:
        return np.full(K, math.inf)
    if layout is None:
        return np.array(importance, np.float64)
    each: np.ndarray = np.array(importance, np.float64)[layout.order[margin_of(layout, K)]]
    return each
