"""Points to cells: which integer index each coordinate has, and how the indices of a point become one sortable key.

What the keys are is said in ``kernels/shared/geometry_keys.py``; they are those of the CPU, bit for bit.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, TABLE_ROWS, THREADS, Kernel, library
from cmfast.kernels.cuda.geometry import _runs
from cmfast.kernels.shared.geometry_keys import (
    DROPPED,
    KeyLayout,
    find_table_type,
    merge_layouts,
    rank_rows,
    require_rank_bits,
)

MOST_RANGE_BLOCKS = 1 << 10  # that look at columns: one row of results each

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


def blocks_of_rows(n: int) -> int:
    """Return how many blocks look at the columns of n rows."""
    return min(-(-n // TABLE_ROWS), MOST_RANGE_BLOCKS)


class GridPoints(NamedTuple):
    """Points, contiguous in float32 or float64, and a grid on their device."""

    X: Any
    origin: Any
    inverse: Any

    @classmethod
    def on(cls, X: Any, origin: np.ndarray, inverse: np.ndarray) -> "GridPoints":
        """Put the grid where the points are."""
        xp = library(X)
        return cls(xp.ascontiguousarray(batches.as_floating(X)), xp.asarray(origin), xp.asarray(inverse))

    @property
    def arguments(self) -> dict[str, Any]:
        """What kernels that look at points take, by name."""
        n, m = self.X.shape
        return {"X": self.X, "n": n, "m": m, "origin": self.origin, "inverse": self.inverse}

    @property
    def kind(self) -> str:
        """Type of the coordinates."""
        return NAMES[self.X.dtype]


def index_ranges(points: GridPoints) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return ``(low, extent, n_kept)`` over the points that have a cell; synchronises."""
    n, m = points.X.shape
    if n == 0:
        return (0,) * m, (0,) * m, 0
    xp, rows = library(points.X), blocks_of_rows(n)
    low, high, kept = xp.empty((rows, m), np.int64), xp.empty((rows, m), np.int64), xp.empty(rows, np.uint64)
    _RANGES.launch(
        (points.kind,), rows, shared=TABLE_ROWS, **points.arguments, out_low=low, out_high=high, out_kept=kept
    )
    found = xp.empty(2 * m + 1, np.int64)
    found[:m], found[m : 2 * m], found[2 * m] = low.min(axis=0), high.max(axis=0), kept.sum()
    *extremes, number = found.get().tolist()  # synchronises
    if not number:
        return (0,) * m, (0,) * m, 0
    lowest, highest = tuple(extremes[:m]), extremes[m:]
    return lowest, tuple(b - a + 1 for a, b in zip(lowest, highest, strict=True)), number


def label_range(*labels: Any) -> tuple[int, int]:
    """Return the least and the largest of one or two arrays of labels, (0, -1) without any; synchronises."""
    xp, n = library(labels[0]), len(labels[0])
    if not n:
        return 0, -1
    if any(y.dtype == np.uint64 for y in labels):  # what int64 cannot hold would be seen as negative
        return min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)
    given, kind = _two_labels(labels)
    found = xp.asarray(np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min]))
    _LABELS.launch((kind,), blocks_of_rows(n), shared=batches.team_scratch(str(THREADS)), **given, n=n, out_found=found)
    low, high = found.get().tolist()
    return low, high


def _two_labels(labels: Sequence[Any]) -> tuple[dict[str, Any], str]:
    """Return none to two arrays of labels as the arguments of a kernel, None where there is none, and their type."""
    given, kind = batches.as_labels(*labels) if labels else ([], "i64")
    y, p = [library(each).ascontiguousarray(each) for each in given] + [None] * (2 - len(given))
    return {"y": y, "p": p}, kind


def _axes(xp: Any, layout: KeyLayout) -> dict[str, Any]:
    """Return the lowest index and the number of indices of every axis, as arguments of a kernel."""
    return {"low": xp.asarray(np.array(layout.low, np.int64)), "extent": xp.asarray(np.array(layout.extent, np.int64))}


def radix_keys(points: GridPoints, labels: list[Any], half: int, layout: KeyLayout) -> Any:
    """Return the key of every point in mixed radix, with `labels`, none to two of them in `half` bits each, below.

    They are as narrow as they can be; a point without a cell has the largest number of the type.
    """
    xp, n = library(points.X), len(points.X)
    out = xp.empty(n, _runs.key_type(layout.n_keys(half * len(labels))))
    if n:
        given, kind = _two_labels(labels)
        instance = (points.kind, kind, NAMES[out.dtype])
        _KEYS.launch(
            instance, batches.item_blocks(n), **points.arguments, **_axes(xp, layout), **given, half=half, out=out
        )
    return out


def ranked_keys(points: GridPoints, labels: list[Any], half: int, layout: KeyLayout) -> tuple[Any, KeyLayout]:
    """Return ``(keys, layout)`` with cells numbered by rank: exact for any number of axes and any range of indices."""
    xp, (n, m) = library(points.X), points.X.shape
    index, kept = xp.empty((m, n), np.int64), xp.empty(n, np.int8)
    low = _axes(xp, layout)["low"]
    _INDICES.launch((points.kind,), batches.item_blocks(n), **points.arguments, low=low, out=index, out_kept=kept)
    rows = xp.flatnonzero(kept)
    number, some = rank_rows((index[d][rows] for d in range(m)), layout.extent, _runs.rank)
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
    """Return the (n, m) int64 index rows of cell keys."""
    if layout.table is not None:
        return layout.table[cells].astype(np.int64)
    xp, n, m = library(cells), len(cells), len(layout.low)
    out = xp.empty((n, m), np.int64)
    if n:
        _ROWS.launch((), batches.item_blocks(n), cells=cells, n=n, m=m, **_axes(xp, layout), out=out)
    return out


def align(keys_a: Any, layout_a: KeyLayout, keys_b: Any, layout_b: KeyLayout, bits: int) -> tuple[Any, Any, KeyLayout]:
    """Return ``(keys_a, keys_b, layout)`` with the cells of both in one layout; order and tags are kept."""
    xp, layout = library(keys_a), merge_layouts(layout_a, layout_b, bits)
    pairs = (keys_a, layout_a), (keys_b, layout_b)
    if layout.table is None:
        one, other = (_to_radix(keys, old, layout, bits) for keys, old in pairs)
        return one, other, layout
    rows = xp.concatenate([index_rows(keys >> bits, old) for keys, old in pairs])
    number, some = rank_rows((rows[:, d] - lowest for d, lowest in enumerate(layout.low)), layout.extent, _runs.rank)
    require_rank_bits(len(some), bits)
    mask = (1 << bits) - 1
    parts = number[: len(keys_a)], number[len(keys_a) :]
    one, other = (rank << bits | keys & mask for rank, (keys, _) in zip(parts, pairs, strict=True))
    return one, other, KeyLayout(layout.low, layout.extent, rows[some].astype(find_table_type(layout)))


def _to_radix(keys: Any, old: KeyLayout, new: KeyLayout, bits: int) -> Any:
    if (old.table is None and (old.low, old.extent) == (new.low, new.extent)) or len(keys) == 0:
        return keys
    xp, n = library(keys), len(keys)
    cells = xp.empty(n, np.int64)
    rows = index_rows(keys >> bits, old)
    _NUMBERS.launch((), batches.item_blocks(n), rows=rows, n=n, m=rows.shape[1], **_axes(xp, new), out=cells)
    return cells << bits | keys & ((1 << bits) - 1)
