"""The design matrix of records by columns, from a dense matrix, a sparse matrix or categories, duplicates merged."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu.margins.records import dense_rows, duplicate_rows
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows
from cmfast.kernels.shared import margins_layout as _layout


class RakingRecords(NamedTuple):
    """Records with duplicates merged into one row of the design matrix."""

    rows: SparseRows | None  # None where a value is not finite or a category is out of range
    of: np.ndarray | None  # (records,) row of each record; None where every record is its own row
    low: np.ndarray  # (rows,) or (1,) least ratio of weights
    high: np.ndarray
    layout: _layout.MarginLayout | None  # margins of categories
    lines: np.ndarray = np.empty((0, 0), np.uint16)  # (margins, rows) column of each row in each margin

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return 0 if self.rows is None else len(self.rows.first) - 1

    def merge_weights(self, x: np.ndarray) -> np.ndarray:
        """Return the sum of the records' values for each row."""
        return x if self.of is None else np.bincount(self.of, x, self.n_rows)

    def expand_to_records(self, x: np.ndarray) -> np.ndarray:
        """Return the value of each record's row; `x` itself if every record is its own row."""
        return x if self.of is None else x[self.of]


def make_records_from_columns(
    design: np.ndarray, pattern: tuple[np.ndarray, np.ndarray] | None, K: int, low: np.ndarray, high: np.ndarray
) -> RakingRecords:
    """Return the records of a dense matrix, or of a sparse one whose row starts and columns are in `pattern`."""
    A = batches.as_floating(design).astype(
        np.float64, copy=pattern is not None
    )  # kernels are compiled for writeable arrays
    if pattern is None:
        return _make_records_from_matrix(np.require(A, requirements=["C", "W"]), low, high)
    if not np.isfinite(A).all():
        return RakingRecords(None, None, low, high, None)
    if dense_rows.is_dense((len(pattern[0]) - 1, K), int(np.count_nonzero(A))):
        return _make_records_from_matrix(dense_rows.make_dense_matrix(A, pattern, K), low, high)
    kind = _choose_index_type(int(pattern[1].max(initial=0)) + 1)
    rows = SparseRows(pattern[0].astype(np.int64), pattern[1].astype(kind), A)
    groups = duplicate_rows.group_sparse_rows(*rows, [b for b in (low, high) if len(b) > 1])
    if groups is None:
        return RakingRecords(rows, None, low, high, None)
    sizes = np.diff(rows.first)[groups.representatives]
    first = np.concatenate([[0], np.cumsum(sizes)])
    at = np.repeat(rows.first[groups.representatives] - first[:-1], sizes) + np.arange(first[-1])
    few = SparseRows(first, rows.columns[at], rows.values[at])
    low, high = _select_representatives(groups, low, high)
    return RakingRecords(few, groups.of, low, high, None)


def _make_records_from_matrix(A: np.ndarray, low: np.ndarray, high: np.ndarray) -> RakingRecords:
    """Return the records of a dense matrix, stored as padded rows or without zeros."""
    groups, used = duplicate_rows.group_matrix_rows(A, [b for b in (low, high) if len(b) > 1])
    if used < 0:
        return RakingRecords(None, None, low, high, None)
    is_full = dense_rows.is_dense(A.shape, used)
    if groups is not None:
        A, (low, high) = A[groups.representatives], _select_representatives(groups, low, high)
    rows = dense_rows.make_padded_rows(A) if is_full else _drop_zeros(A)
    return RakingRecords(rows, None if groups is None else groups.of, low, high, None)


def _drop_zeros(A: np.ndarray) -> SparseRows:
    """Return the rows of a matrix without zeros (CSR)."""
    where = np.nonzero(A)
    first = np.concatenate([[0], np.cumsum(np.bincount(where[0], minlength=len(A)))]).astype(np.int64)
    return SparseRows(first, where[1].astype(_choose_index_type(A.shape[1])), A[where])


def make_records_from_categories(
    codes: np.ndarray, shape: tuple[int, ...], axes: _layout.Axes, low: np.ndarray, high: np.ndarray
) -> RakingRecords:
    """Return the records of an array of category codes, (attributes, records)."""
    layout = _layout.make_sparse_layout(shape, axes, [np.empty(0, np.int64)] * len(shape))
    used = sorted({axis for of in axes for axis in of})
    known = {axis: codes[axis].astype(np.int64, copy=False) for axis in used}
    n = codes.shape[1]
    if n and any(code.min() < 0 or code.max() >= shape[axis] for axis, code in known.items()):
        return RakingRecords(None, None, low, high, layout)
    known = {axis: np.ascontiguousarray(code) for axis, code in known.items()}
    others = [b for b in (low, high) if len(b) > 1]
    groups = (
        duplicate_rows.group_categories(list(known.values()), [shape[axis] for axis in used], others) if used else None
    )
    if groups is not None:
        known = {axis: code[groups.representatives] for axis, code in known.items()}
        n, (low, high) = len(groups.representatives), _select_representatives(groups, low, high)
    lines = np.empty((len(axes), n), _choose_index_type(int(layout.offsets[-1])))
    for k, (b, offset) in enumerate(zip(layout.order, layout.offsets, strict=False)):
        of = axes[b]
        codes = (
            known[of[0]] if len(of) == 1 else _layout.compute_indices([known[a] for a in of], [shape[a] for a in of], n)
        )
        np.add(codes, offset, out=lines[k], casting="unsafe")
    first = np.arange(0, n * len(axes) + 1, len(axes), dtype=np.int64)
    rows = SparseRows(first, np.ascontiguousarray(lines.T).ravel(), np.ones(1))
    return RakingRecords(rows, None if groups is None else groups.of, low, high, layout, lines)


def _choose_index_type(K: int) -> type[np.unsignedinteger]:
    """Return the unsigned integer type for column indices below `K`."""
    return np.uint16 if K <= 1 << 16 else np.uint32


def _select_representatives(groups: duplicate_rows.Groups, *each: np.ndarray) -> list[np.ndarray]:
    """Return values of records, unless shared by all, for the representative of each group."""
    return [numbers if len(numbers) == 1 else numbers[groups.representatives] for numbers in each]


def count_categories(codes: np.ndarray, axes: _layout.Axes, targets: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return the number of categories of each attribute; one where no target has that attribute."""
    shape = [1] * len(codes)
    for of, target in zip(axes, targets, strict=True):
        for axis, size in zip(of, target.shape[target.ndim - len(of) :], strict=True):
            shape[axis] = size
    return tuple(shape)


def index_margins(layout: _layout.MarginLayout | None, K: int) -> np.ndarray:
    """Return the margin of each column; without a layout every column is its own margin."""
    return np.arange(K) if layout is None else np.repeat(np.arange(len(layout.order)), np.diff(layout.offsets))


def expand_importances(importance: list[float] | None, layout: _layout.MarginLayout | None, K: int) -> np.ndarray:
    """Return the importance of each target, infinite for hard ones."""
    if importance is None:
        return np.full(K, math.inf)
    if layout is None:
        return np.array(importance, np.float64)
    each: np.ndarray = np.array(importance, np.float64)[layout.order[index_margins(layout, K)]]
    return each
