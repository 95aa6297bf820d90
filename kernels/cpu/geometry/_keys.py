"""Compute sortable int64 keys of points: grid index per coordinate, then mixed radix or the rank of the cell.

The key layout is described in ``kernels/shared/geometry_keys.py``.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool, row_blocks, vector
from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _ranges, _sample_sort
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
CELLS_AT_A_TIME = 1 << 10  # rows of the table of cells that are computed at a time, in cache
CELLS_AHEAD = 12  # rows fetched from memory while one is computed
ELEMENTS_PER_LINE = 16  # of float32; of a line of float64 the machine fetches the other half


class GridPoints(NamedTuple):
    """Points, their grid, and their tags, below ``2**bits``: ``tags(start, stop, out)`` writes those of a range."""

    X: Any
    origin: Any
    inverse: Any
    tags: Any
    bits: int


def write_no_tags(_start, _stop, out):
    """Write the tags of points that have none."""
    out[...] = 0


# Keys.


@jit(borrows=True)
def _pack_points(numbers, m, bits, chunks, constants, out):
    """Write mixed-radix keys of points that all have a cell, by vectorised dot products with place values.

    `out` has their tags. `numbers` are the coordinates, point after point; `constants` as `_make_constants` returns
    them. The last vector of a point overlaps the next point, with place value 0, so something must follow the last one.
    """
    for r in range(out.shape[0]):
        key = vector.splat(0.0)  # exact, because the key of the cell is below 2**53
        for c in range(len(chunks)):
            x = vector.load_elements(numbers, r * m + c * vector.WIDTH)
            # Subtract, then multiply: two roundings, the same on every device. A fused multiply-add would move points.
            k = vector.floor((x - vector.load(constants, 4 * c)) * vector.load(constants, 4 * c + 1))
            key = vector.fma(k - vector.load(constants, 4 * c + 2), vector.load(constants, 4 * c + 3), key)
        out[r] |= np.int64(vector.total(key)) << bits


class _Numbers:
    """Coordinates of a block, point after point, with a padded copy of its last points."""

    def __init__(self, block):
        n, self.m = block.shape
        padding = -self.m % vector.WIDTH
        self.inside = max(n - -(-padding // self.m), 0)
        last = np.zeros((n - self.inside) * self.m + padding, block.dtype)
        last[: (n - self.inside) * self.m] = block[self.inside :].reshape(-1)
        self.numbers, self.last = freeze(block.reshape(-1)), freeze(last)  # one type of array for the compiler

    def pack(self, start, bits, constants, out):
        """Write mixed-radix keys of points, which all have a cell, from `start` on; `out` has their tags."""
        chunks = (0,) * (len(constants) // 4)
        cut = min(max(self.inside - start, 0), len(out))
        if cut:
            _pack_points(self.numbers[start * self.m :], self.m, bits, chunks, constants, out[:cut])
        if cut < len(out):
            rest = self.last[(start + cut - self.inside) * self.m :]
            _pack_points(rest, self.m, bits, chunks, constants, out[cut:])


def _make_constants(origin, inverse, layout):
    """Return origin, inverse width, lowest index and place value of the axes as interleaved lines of eight."""
    place_values = [volume(layout.extent[d + 1 :]) for d in range(len(origin))]
    n_lines = 4 * -(-len(origin) // vector.WIDTH)
    numbers = np.empty((n_lines + 1) * vector.WIDTH)
    skip = -(numbers.__array_interface__["data"][0] // numbers.itemsize) % vector.WIDTH
    out = numbers[skip : skip + n_lines * vector.WIDTH].reshape(n_lines, vector.WIDTH)  # aligned: it is read often
    columns = np.zeros((4, n_lines // 4 * vector.WIDTH))
    columns[:, : len(origin)] = origin, inverse, layout.low, place_values
    out.reshape(-1, 4, vector.WIDTH)[...] = columns.reshape(4, -1, vector.WIDTH).swapaxes(0, 1)
    return out


@jit(borrows=True)
def _pack_any(X, bits, origin, inverse, low, extent, out):
    """Write mixed-radix keys of any points in int64; `out` has their tags. A point without a cell gets ``DROPPED``."""
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
        out[r] = (cell << bits) | out[r] if kept else DROPPED


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
        whole = _Numbers(X) if row_blocks.is_plain(X) else None  # once for all blocks

        def pack(first, block, out):
            """Write the keys of one block of points."""
            if whole is None:
                _Numbers(block).pack(0, bits, constants, out)
            else:
                whole.pack(first, bits, constants, out)
    else:
        start_of, steps = (_make_axis_constants(values, np.float64) for values in (origin, inverse))
        low, extent = (_make_axis_constants(values, np.int64) for values in (layout.low, layout.extent))

        def pack(_, block, out):
            """Write the keys of one block of points."""
            _pack_any(block, bits, start_of, steps, low, extent, out)

    def fill(start, stop, out):
        """Write the keys of points `start` to `stop`."""
        for begin in range(start, stop, row_blocks.BLOCK_ROWS):
            for first, block in row_blocks.iterate_blocks(X, begin, min(begin + row_blocks.BLOCK_ROWS, stop)):
                some = out[first - start : first - start + len(block)]
                tags(first, first + len(block), some)
                pack(first, block, some)

    return fill


# Ranks of cells, if mixed-radix keys do not fit in 63 bits.


def make_rank_function(points, layout, every, num_threads):
    """Return ``fill`` as :func:`make_key_function` does, of keys with the rank of the cell, and their layout."""
    X, origin, inverse, tags, bits = points
    n = len(X)

    columns, volumes = [], []
    for a, b in _group_axes(layout.extent):
        part = KeyLayout(layout.low[a:b], layout.extent[a:b], None)
        fill = make_key_function(GridPoints(X[:, a:b], origin[a:b], inverse[a:b], write_no_tags, 0), part, every)
        columns.append(_sample_sort.compute_keys(fill, n, num_threads))
        volumes.append(volume(part.extent))
    kept = None if every else np.flatnonzero(np.logical_and.reduce([column != DROPPED for column in columns]))
    if kept is not None:
        columns = [column[kept] for column in columns]
    rank, some = rank_rows(columns, volumes, partial(_sample_sort.rank_densely, num_threads=num_threads))
    require_rank_bits(len(some), bits)
    table = _index_table(points, some if kept is None else kept[some], layout, num_threads)
    if kept is not None:
        rank, found = np.full(n, -1, np.int64), rank
        rank[kept] = found

    def fill_ranked(start, stop, out):
        """Write the keys of points `start` to `stop`."""
        some = rank[start:stop]
        tags(start, stop, out)
        out |= some << bits
        if kept is not None:
            out[some < 0] = DROPPED

    return fill_ranked, KeyLayout(layout.low, layout.extent, table)


@jit(borrows=True)
def _find_indices(X, rows, origin, inverse, out):
    """Write the grid indices of some rows of `X`, as float64, fetching rows from memory ahead of their use."""
    n, m = out.shape
    for r in range(n):
        ahead = rows[min(r + CELLS_AHEAD, n - 1)]
        for d in range(0, m, ELEMENTS_PER_LINE):
            vector.prefetch(X, ahead, d)
        row = rows[r]
        for d in range(m):
            out[r, d] = np.floor((np.float64(X[row, d]) - origin[d]) * inverse[d])


def _index_table(points, rows, layout, num_threads):
    """Return the grid index rows of some points."""
    X, origin, inverse = points[:3]
    out = np.empty((len(rows), X.shape[1]), find_table_type(layout))

    def work(_, start, stop):
        """Write the grid indices of one piece."""
        found = np.empty((CELLS_AT_A_TIME, X.shape[1]))
        for first in range(start, stop, CELLS_AT_A_TIME):
            some = slice(first, min(first + CELLS_AT_A_TIME, stop))
            block, places = row_blocks.take(X, rows[some])
            _find_indices(block, places, origin, inverse, found[: len(places)])
            out[some] = found[: len(places)]

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
        fill, layout = self._key_function()
        return _sample_sort.compute_keys(fill, len(self.points.X), self._num_threads, self._progress), layout

    def runs(self):
        """Return ``(keys, counts, layout)``: the distinct keys, sorted, and the number of points of each."""
        fill, layout = self._key_function()
        limit = max(layout.n_keys(self.points.bits), 1)
        return *_sample_sort.sort_and_count(fill, len(self.points.X), limit, self._num_threads, self._progress), layout

    def can_sum(self):
        """Return whether :meth:`sums` applies: to many points."""
        return len(self.points.X) >= _sample_sort.LEAST_PARTITIONED_POINTS

    def sums(self, weights):
        """Return ``(keys, sums, number, layout)``, the first three as ``_sample_sort.sort_and_sum``."""
        fill, layout = self._key_function()
        limit = max(layout.n_keys(self.points.bits), 1)
        return *_sample_sort.sort_and_sum(fill, weights, limit, self._num_threads, self._progress), layout

    def _key_function(self):
        """Return the function that computes the keys of a range of points, and their layout.

        All keys are below ``layout.n_keys(bits)``, except those of points without a cell.
        """
        if self._fits:
            return make_key_function(self.points, self._layout, self.every), self._layout
        return make_rank_function(self.points, self._layout, self.every, self._num_threads)

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
    rank, some = rank_rows(columns, layout.extent, _sample_sort.rank_densely)
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
