"""Compute sortable int64 keys of points: grid index per coordinate, then mixed radix or the rank of the cell.

The key layout is described in ``kernels/shared/geometry_keys.py``.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool, row_blocks, vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _ranges, _run_length, _sample_sort
from cmfast.kernels.shared.geometry_keys import (
    DROPPED,
    MOST_INDEX,
    NAMED_POSITIONS,
    KeyLayout,
    find_table_type,
    fits,
    merge_layouts,
    rank_rows,
    require_rank_bits,
    volume,
    widen,
)

MOST_UNROLLED = 16  # axes up to which kernels are compiled for their exact number


class GridPoints(NamedTuple):
    """Points, their grid, and their tags: ``tags(start, stop)`` are int64 below ``2**bits``."""

    X: Any
    origin: Any
    inverse: Any
    tags: Any
    bits: int


# Keys.


@jit(borrows=True)
def _pack_points(numbers, m, tags, bits, chunks, constants, out):
    """Write mixed-radix keys of points that all have a cell, by vectorised dot products with place values.

    `numbers` are the coordinates, point after point; `constants` as `_make_constants` returns them. The last vector of
    a point overlaps the next point, with place value 0; the array is padded after the last point.
    """
    for r in range(out.shape[0]):
        key = vector.splat(0.0)  # exact, because the key of the cell is below 2**53
        for c in range(len(chunks)):
            x = vector.load_elements(numbers, r * m + c * vector.WIDTH)
            # Subtract, then multiply: two roundings, the same on every device. A fused multiply-add would move points.
            k = vector.floor((x - vector.load(constants, 4 * c)) * vector.load(constants, 4 * c + 1))
            key = vector.fma(k - vector.load(constants, 4 * c + 2), vector.load(constants, 4 * c + 3), key)
        out[r] = (np.int64(vector.total(key)) << bits) | tags[r]


def _pack_all(block, tags, bits, constants, out):
    """Write mixed-radix keys of the rows of `block`, which all have a cell, padding a copy of the last rows."""
    n, m = block.shape
    chunks = (0,) * (len(constants) // 4)
    padding = len(chunks) * vector.WIDTH - m
    inside = max(n - -(-padding // m), 0)
    last = np.zeros((n - inside) * m + padding, block.dtype)
    last[: (n - inside) * m] = block[inside:].reshape(-1)
    numbers = block.reshape(-1)
    numbers.flags.writeable = last.flags.writeable = False  # one type of array for the compiler
    _pack_points(numbers, m, tags[:inside], bits, chunks, constants, out[:inside])
    _pack_points(last, m, tags[inside:], bits, chunks, constants, out[inside:])


def _make_constants(origin, inverse, layout):
    """Return origin, inverse width, lowest index and place value of the axes as interleaved lines of eight."""
    place_values = [volume(layout.extent[d + 1 :]) for d in range(len(origin))]
    columns = np.array([origin, inverse, layout.low, place_values], np.float64)
    columns = np.pad(columns, ((0, 0), (0, -columns.shape[1] % vector.WIDTH)))
    return np.ascontiguousarray(columns.reshape(4, -1, vector.WIDTH).swapaxes(0, 1)).reshape(-1, vector.WIDTH)


@jit(borrows=True)
def _pack_any(X, tags, bits, origin, inverse, low, extent, out):
    """Write mixed-radix keys of any points in int64; a point without a cell gets ``DROPPED``."""
    for r in range(X.shape[0]):
        cell = np.int64(0)
        kept = True
        for d in range(len(origin)):
            x = (np.float64(X[r, d]) - origin[d]) * inverse[d]
            if abs(x) < MOST_INDEX:
                cell = cell * extent[d] + (np.int64(np.floor(x)) - low[d])
            else:
                kept = False
                break
        out[r] = (cell << bits) | tags[r] if kept else DROPPED


def _make_axis_constants(values, dtype):
    """Return a tuple, whose length Numba compiles in, or an array if there are more than 16 axes."""
    values = np.asarray(values, dtype)
    return tuple(values) if len(values) <= MOST_UNROLLED else values


def make_key_function(points, layout, every):
    """Return ``fill(start, stop, out)``, which writes the mixed-radix keys of a range of points.

    `every` says that all points have a cell; otherwise one without a cell gets ``DROPPED``.
    """
    X, origin, inverse, tags, bits = points
    if every and volume(layout.extent) < 2**53:
        constants = _make_constants(origin, inverse, layout)

        def keys_of(block, tagged, out):
            """Write the keys of one block of points."""
            _pack_all(block, tagged, bits, constants, out)
    else:
        start_of, steps = (_make_axis_constants(values, np.float64) for values in (origin, inverse))
        low, extent = (_make_axis_constants(values, np.int64) for values in (layout.low, layout.extent))

        def keys_of(block, tagged, out):
            """Write the keys of one block of points."""
            _pack_any(block, tagged, bits, start_of, steps, low, extent, out)

    def fill(start, stop, out):
        """Write the keys of points `start` to `stop`."""
        for begin in range(start, stop, row_blocks.BLOCK_ROWS):
            for first, block in row_blocks.iterate_blocks(X, begin, min(begin + row_blocks.BLOCK_ROWS, stop)):
                last = first + len(block)
                keys_of(block, tags(first, last), out[first - start : last - start])

    return fill


# Ranks of cells, if mixed-radix keys do not fit in 63 bits.


def rank_keys(points, layout, every, num_threads, progress):
    """Return ``(keys, layout)`` with cells numbered by rank: exact for any number of axes and any index range."""
    X, origin, inverse, tags, bits = points
    n = len(X)

    def no_tags(start, stop):
        """Return zero tags."""
        return np.zeros(stop - start, np.int64)

    columns, volumes = [], []
    for a, b in _group_axes(layout.extent):
        part = KeyLayout(layout.low[a:b], layout.extent[a:b], None)
        fill = make_key_function(GridPoints(X[:, a:b], origin[a:b], inverse[a:b], no_tags, 0), part, every)
        columns.append(_sample_sort.compute_keys(fill, n, num_threads))
        volumes.append(volume(part.extent))
    kept = None if every else np.flatnonzero(np.logical_and.reduce([column != DROPPED for column in columns]))
    rank, some = rank_rows(columns if kept is None else [column[kept] for column in columns], volumes, _rank_densely)
    require_rank_bits(len(some), bits)
    table = _index_table(points, some if kept is None else kept[some], layout, num_threads)
    tagged = tags(0, n)
    if kept is None:
        keys = (rank << bits) | tagged
    else:
        keys = np.full(n, DROPPED, np.int64)
        keys[kept] = (rank << bits) | tagged[kept]
    if progress is not None:
        progress(n, n)
    return keys, KeyLayout(layout.low, layout.extent, table)


def _index_table(points, rows, layout, num_threads):
    """Return the grid index rows of some points."""
    X, origin, inverse = points[:3]
    out = np.empty((len(rows), X.shape[1]), find_table_type(layout))

    def work(_, start, stop):
        """Write the grid indices of one piece."""
        for first in range(start, stop, row_blocks.BLOCK_ROWS):
            some = slice(first, min(first + row_blocks.BLOCK_ROWS, stop))
            out[some] = np.floor((X[rows[some]].astype(np.float64) - origin) * inverse)

    seconds = out.size * 4 * _ranges.SECONDS_PER_RANGE_COORDINATE
    pool.run_pieces(work, pool.pieces(len(rows), seconds), seconds=seconds, num_threads=num_threads)
    return out


def _group_axes(extent):
    """Yield ranges of axes whose indices fit in one number, below 2**53 if possible."""
    first, size = 0, 1
    for d, n in enumerate(extent):
        if d > first and size * n >= 2**53:
            yield first, d
            first, size = d, 1
        size *= n
    yield first, len(extent)


def _rank_densely(values):
    """Return the dense rank of every value, and the index of one representative of each rank."""
    order = np.argsort(values)
    ordered = values[order]
    head = np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
    rank = np.empty(len(values), np.int64)
    rank[order] = np.cumsum(head) - 1
    return rank, order[head]


class Keyed:
    """Points with lazily computed keys: in mixed radix if these fit, else ranks of cells.

    `every` is whether all points have a cell; those without one get the key ``DROPPED``. If possible, the layout also
    covers the cells of `ranges`, ``(low, extent)``. `spread` as in ``_ranges.find_index_ranges``.
    """

    def __init__(self, points, *, ranges=None, spread=None, num_threads=None, progress=None):
        low, extent, self.every = _ranges.find_index_ranges(points, num_threads, spread)
        self.points = points
        self._layout = widen(KeyLayout(low, extent, None), ranges, points.bits)
        self._fits = fits(extent, points.bits)
        self._num_threads, self._progress = num_threads, progress

    def all(self):
        """Return ``(keys, layout)`` in the order of the points."""
        if self._fits:
            fill = make_key_function(self.points, self._layout, self.every)
            return _sample_sort.compute_keys(fill, len(self.points.X), self._num_threads, self._progress), self._layout
        return rank_keys(self.points, self._layout, self.every, self._num_threads, self._progress)

    def runs(self):
        """Return ``(keys, counts, layout)``: the distinct keys, sorted, and the number of points of each."""
        if self._fits:
            found = _sample_sort.sort_and_count(
                self._key_function(), len(self.points.X), self._limit(), self._num_threads, self._progress
            )
            return *found, self._layout
        keys, layout = self.all()
        keys.sort()
        return *_run_length.encode_runs(keys, self._num_threads), layout

    def can_sum(self):
        """Return whether :meth:`sums` applies: many points, and keys that fit."""
        return self._fits and len(self.points.X) >= _sample_sort.LEAST_PARTITIONED_POINTS

    def sums(self, weights):
        """Return ``(keys, sums, number, layout)``, the first three as ``_sample_sort.sort_and_sum``."""
        fill, limit = self._key_function(), self._limit()
        return *_sample_sort.sort_and_sum(fill, weights, limit, self._num_threads, self._progress), self._layout

    def _key_function(self):
        """Return the function that computes the keys of a range of points."""
        return make_key_function(self.points, self._layout, self.every)

    def _limit(self):
        """Return a number that all keys are below, except those of points without a cell."""
        return max(volume(self._layout.extent) << self.points.bits, 1)

    def sorted(self):
        """Return ``(keys, order, layout)``: sorted keys of the points that have a cell, and the points' indices."""
        keys, layout = self.all()
        if self.every:
            return *_sample_sort.sort_with_order(keys), layout
        there = np.flatnonzero(keys != DROPPED)
        keys, order = _sample_sort.sort_with_order(keys[there])
        return keys, there[order], layout

    def first_without_cell(self):
        """Return the indices of the first points that have no cell, as many as a message names."""
        X, origin, inverse = self.points[:3]
        found = []
        for first, block in row_blocks.iterate_blocks(X, 0, len(X)):
            for begin in range(0, len(block), row_blocks.BLOCK_ROWS):
                with np.errstate(invalid="ignore", over="ignore"):
                    there = np.abs((block[begin : begin + row_blocks.BLOCK_ROWS] - origin) * inverse) < MOST_INDEX
                found += (np.flatnonzero(~there.all(axis=1))[:NAMED_POSITIONS] + (first + begin)).tolist()
                if len(found) >= NAMED_POSITIONS:
                    return tuple(found[:NAMED_POSITIONS])
        return tuple(found)


# From keys back to indices, and from one layout to another.


@jit(borrows=True)
def _decode(cells, low, extent, out):
    """Write the grid indices of mixed-radix cell keys."""
    for i in range(cells.shape[0]):
        rest = cells[i]
        for t in range(extent.shape[0]):
            d = extent.shape[0] - 1 - t
            quotient = rest // extent[d]
            out[i, d] = rest - quotient * extent[d] + low[d]
            rest = quotient


@jit(borrows=True)
def _encode(index, low, extent, out):
    """Write the mixed-radix cell keys of grid indices."""
    for i in range(index.shape[0]):
        cell = np.int64(0)
        for d in range(extent.shape[0]):
            cell = cell * extent[d] + (index[i, d] - low[d])
        out[i] = cell


def index_rows(cells, layout):
    """Return the (n, m) int64 grid index rows of cell keys."""
    if layout.table is not None:
        return layout.table[cells].astype(np.int64)
    out = np.empty((len(cells), len(layout.low)), np.int64)
    if len(cells):
        _decode(cells, np.array(layout.low, np.int64), np.array(layout.extent, np.int64), out)
    return out


def align(keys_a, layout_a, keys_b, layout_b, bits):
    """Return ``(keys_a, keys_b, layout)``: two sets of keys in one common layout; order and tags are kept."""
    layout = merge_layouts(layout_a, layout_b, bits)
    if layout.table is None:
        keys = [_convert_layout(*one, layout, bits) for one in ((keys_a, layout_a), (keys_b, layout_b))]
        return *keys, layout
    found = [np.unique(keys >> bits, return_inverse=True) for keys in (keys_a, keys_b)]
    rows = [index_rows(cells, one) for (cells, _), one in zip(found, (layout_a, layout_b), strict=True)]
    both = np.concatenate(rows)
    columns = (both[:, d] - layout.low[d] for d in range(both.shape[1]))
    rank, some = rank_rows(columns, layout.extent, _rank_densely)
    require_rank_bits(len(some), bits)
    mask = (1 << bits) - 1
    ranks = np.split(rank, [len(rows[0])])
    keys = [(ranks[i][found[i][1]] << bits) | (old & mask) for i, old in enumerate((keys_a, keys_b))]
    return *keys, KeyLayout(layout.low, layout.extent, both[some].astype(find_table_type(layout)))


def _convert_layout(keys, old, new, bits):
    """Return keys converted from layout `old` to the mixed-radix layout `new`."""
    if (old.low, old.extent) == (new.low, new.extent) or len(keys) == 0:
        return keys
    cells = np.empty(len(keys), np.int64)
    rows = index_rows(keys >> bits, old)
    _encode(rows, np.array(new.low, np.int64), np.array(new.extent, np.int64), cells)
    return (cells << bits) | (keys & ((1 << bits) - 1))
