"""Compute sortable keys of points on the device: grid indices, then mixed radix or the rank of the cell.

The key layout is described in ``kernels/shared/geometry_keys.py``; keys equal the CPU's bit for bit.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, TABLE_ROWS, THREADS, Kernel, library
from cmfast.kernels.cuda.geometry import _run_length
from cmfast.kernels.shared.geometry_keys import (
    DROPPED,
    MOST_INDEX,
    KeyLayout,
    Ranges,
    find_table_type,
    merge_layouts,
    rank_rows,
    require_rank_bits,
)

MOST_RANGE_BLOCKS = 1 << 10  # most blocks of a column reduction, one row of results each

_REAL = (("float",), ("double",))
_RANGES = Kernel("geometry/counts", "cmfast_cell_counts_ranges", _REAL)
_KEYS = Kernel(
    "geometry/counts", "cmfast_cell_counts_keys", tuple(product(("float", "double"), batches.LABELS, ("int", "i64")))
)
_LABELS = Kernel("geometry/counts", "cmfast_cell_counts_labels", tuple((label,) for label in batches.LABELS))
_INDICES = Kernel("geometry/counts", "cmfast_cell_counts_indices", _REAL)
_ROWS = Kernel("geometry/counts", "cmfast_decode_cells_rows")
_NUMBERS = Kernel("geometry/counts", "cmfast_merge_cells_numbers")
KERNELS = (_RANGES, _KEYS, _LABELS, _INDICES, _ROWS, _NUMBERS)


def count_row_blocks(n: int) -> int:
    """Return the number of thread blocks of a column reduction over n rows, at most MOST_RANGE_BLOCKS; 0 for none."""
    return min(-(-n // TABLE_ROWS), MOST_RANGE_BLOCKS)


class GridPoints(NamedTuple):
    """Contiguous float points, and their grid, on the same device and on the host."""

    X: Any
    origin: Any
    inverse: Any
    grid: tuple[np.ndarray, np.ndarray]

    @classmethod
    def create(cls, X: Any, origin: np.ndarray, inverse: np.ndarray) -> "GridPoints":
        """Copy the grid to the device of the points."""
        xp, grid = library(X), (origin, inverse)
        return cls(xp.ascontiguousarray(batches.as_floating(X)), xp.asarray(origin), xp.asarray(inverse), grid)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the kernel arguments for points and grid."""
        n, m = self.X.shape
        return {"X": self.X, "n": n, "m": m, "origin": self.origin, "inverse": self.inverse}

    @property
    def kind(self) -> str:
        """Return the C++ type of the coordinates."""
        return NAMES[self.X.dtype]


IndexRanges = tuple[tuple[int, ...], tuple[int, ...], int]  # lowest indices, extents, number of points with a cell


def find_ranges(labels: Sequence[Any], points: GridPoints, spread: Any = None) -> tuple[tuple[int, int], IndexRanges]:
    """Return the range of one or two arrays of labels, and that of the grid indices of points; synchronises once."""
    known, narrow = derive_index_ranges(points, spread), len(points.X) and all(y.dtype != np.uint64 for y in labels)
    xp, queued = library(points.X), []
    if labels and narrow:
        queued.append(_queue_label_range(labels))
    if known is None and len(points.X):
        queued.append(_queue_index_ranges(points))
    found = xp.concatenate(queued).get().tolist() if queued else []  # synchronises
    if labels and narrow:
        (low, high), found = found[:2], found[2:]
    else:
        low, high = _find_wide_label_range(labels)
    return (low, high), known or _make_index_ranges(found, points.X.shape[1])


def _queue_index_ranges(points: GridPoints) -> Any:
    """Return, on the device, the least and the largest grid indices over points that have a cell, and their number."""
    (n, m), xp = points.X.shape, library(points.X)
    rows = count_row_blocks(n)
    low, high, kept = xp.empty((rows, m), np.int64), xp.empty((rows, m), np.int64), xp.empty(rows, np.uint64)
    _RANGES.launch(
        (points.kind,), rows, shared=TABLE_ROWS, **points.arguments, out_low=low, out_high=high, out_kept=kept
    )
    found = xp.empty(2 * m + 1, np.int64)
    found[:m], found[m : 2 * m], found[2 * m] = low.min(axis=0), high.max(axis=0), kept.sum()
    return found


def _make_index_ranges(found: list[int], m: int) -> IndexRanges:
    """Return the ranges from the numbers of `_queue_index_ranges`, none without points."""
    *extremes, number = found or [0]
    if not number:
        return (0,) * m, (0,) * m, 0
    return *_make_ranges(extremes[:m], extremes[m:]), number


def _make_ranges(low: Sequence[int], high: Sequence[int]) -> Ranges:
    """Return the lowest index and the extent of every axis."""
    return tuple(low), tuple(b - a + 1 for a, b in zip(low, high, strict=True))


def derive_index_ranges(points: GridPoints, spread: Any) -> IndexRanges | None:
    """Return the ranges of the indices from the extremes of the coordinates, as indices grow with them.

    None without extremes, or if some finite points are too far from the origin to have a cell.
    """
    if spread is None or not spread.n:
        return None
    origin, inverse = points.grid
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = ((x - origin) * inverse for x in (spread.low, spread.high))
    if not (np.abs([low, high]) < MOST_INDEX).all():
        return None
    return *_make_ranges(*(np.floor(x).astype(np.int64).tolist() for x in (low, high))), spread.n


def _find_wide_label_range(labels: Sequence[Any]) -> tuple[int, int]:
    """Return the range of labels that int64 may not hold, (0, -1) without any; synchronises."""
    if not (labels and len(labels[0])):
        return 0, -1
    return min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)


def _queue_label_range(labels: Sequence[Any]) -> Any:
    """Return, on the device, the smallest and the largest of one or two arrays of labels."""
    xp, n = library(labels[0]), len(labels[0])
    given, kind = _make_label_arguments(labels)
    found = xp.asarray(np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min]))
    _LABELS.launch(
        (kind,), count_row_blocks(n), shared=batches.team_scratch(str(THREADS)), **given, n=n, out_found=found
    )
    return found


def _make_label_arguments(labels: Sequence[Any]) -> tuple[dict[str, Any], str]:
    """Return up to two label arrays as kernel arguments, None for absent ones, and their type."""
    given, kind = batches.as_labels(*labels) if labels else ([], "i64")
    y, p = [library(each).ascontiguousarray(each) for each in given] + [None] * (2 - len(given))
    return {"y": y, "p": p}, kind


def _make_axis_arguments(xp: Any, layout: KeyLayout) -> dict[str, Any]:
    """Return the lowest index and the extent of every axis as kernel arguments."""
    return {"low": xp.asarray(np.array(layout.low, np.int64)), "extent": xp.asarray(np.array(layout.extent, np.int64))}


def compute_radix_keys(points: GridPoints, labels: list[Any], half: int, layout: KeyLayout) -> Any:
    """Return the mixed-radix key of every point, with up to two `labels` of `half` bits each below.

    The type is as narrow as possible; a point without a cell gets the largest value of the type.
    """
    xp, n = library(points.X), len(points.X)
    out = xp.empty(n, _run_length.find_key_type(layout.n_keys(half * len(labels))))
    if n:
        given, kind = _make_label_arguments(labels)
        instance = (points.kind, kind, NAMES[out.dtype])
        _KEYS.launch(
            instance,
            batches.item_blocks(n),
            **points.arguments,
            **_make_axis_arguments(xp, layout),
            **given,
            half=half,
            out=out,
        )
    return out


def rank_keys(points: GridPoints, labels: list[Any], half: int, layout: KeyLayout) -> tuple[Any, KeyLayout]:
    """Return ``(keys, layout)`` with cells numbered by rank: exact for any number of axes and any index range."""
    xp, (n, m) = library(points.X), points.X.shape
    index, kept = xp.empty((m, n), np.int64), xp.empty(n, np.int8)
    low = _make_axis_arguments(xp, layout)["low"]
    _INDICES.launch((points.kind,), batches.item_blocks(n), **points.arguments, low=low, out=index, out_kept=kept)
    rows = xp.flatnonzero(kept)
    number, some = rank_rows((index[d][rows] for d in range(m)), layout.extent, _run_length.rank_densely)
    bits = half * len(labels)
    require_rank_bits(len(some), bits)
    some = rows[some]
    table = xp.empty((len(some), m), find_table_type(layout))
    for d, lowest in enumerate(layout.low):
        table[:, d] = index[d][some] + lowest
    key = number << bits
    for k, y in enumerate(reversed(labels)):
        key = key | y.astype(np.int64)[rows] << (k * half)
    keys = xp.zeros(n, np.int64) + int(DROPPED)
    keys[rows] = key
    return keys, KeyLayout(layout.low, layout.extent, table)


def index_rows(cells: Any, layout: KeyLayout) -> Any:
    """Return the (n, m) int64 grid index rows of cell keys."""
    if layout.table is not None:
        return layout.table[cells].astype(np.int64)
    xp, n, m = library(cells), len(cells), len(layout.low)
    out = xp.empty((n, m), np.int64)
    if n:
        _ROWS.launch((), batches.item_blocks(n), cells=cells, n=n, m=m, **_make_axis_arguments(xp, layout), out=out)
    return out


def align(keys_a: Any, layout_a: KeyLayout, keys_b: Any, layout_b: KeyLayout, bits: int) -> tuple[Any, Any, KeyLayout]:
    """Return ``(keys_a, keys_b, layout)``: two sets of keys in one common layout; order and tags are kept."""
    xp, layout = library(keys_a), merge_layouts(layout_a, layout_b, bits)
    pairs = (keys_a, layout_a), (keys_b, layout_b)
    if layout.table is None:
        one, other = (_convert_layout(keys, old, layout, bits) for keys, old in pairs)
        return one, other, layout
    rows = xp.concatenate([index_rows(keys >> bits, old) for keys, old in pairs])
    number, some = rank_rows(
        (rows[:, d] - lowest for d, lowest in enumerate(layout.low)), layout.extent, _run_length.rank_densely
    )
    require_rank_bits(len(some), bits)
    mask = (1 << bits) - 1
    parts = number[: len(keys_a)], number[len(keys_a) :]
    one, other = (rank << bits | keys & mask for rank, (keys, _) in zip(parts, pairs, strict=True))
    return one, other, KeyLayout(layout.low, layout.extent, rows[some].astype(find_table_type(layout)))


def _convert_layout(keys: Any, old: KeyLayout, new: KeyLayout, bits: int) -> Any:
    """Return keys converted from layout `old` to the mixed-radix layout `new`."""
    if (old.table is None and (old.low, old.extent) == (new.low, new.extent)) or len(keys) == 0:
        return keys
    xp, n = library(keys), len(keys)
    cells = xp.empty(n, np.int64)
    rows = index_rows(keys >> bits, old)
    _NUMBERS.launch(
        (), batches.item_blocks(n), rows=rows, n=n, m=rows.shape[1], **_make_axis_arguments(xp, new), out=cells
    )
    return cells << bits | keys & ((1 << bits) - 1)
