"""Packed storage of a sparse symmetric matrix, each pair of cells stored once.

A pixel takes two bytes for the distance of its bins and two for its count. Pixels that do not fit are stored
separately, with wide types. Rows are cut into blocks, which depend on the pixels alone.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver import symmetric_cells
from cmfast.kernels.shared import symmetric_packing as packing

NUMBER, FAR, LARGE, BOTH, REACH = range(5)  # counts of a row, and one past its last column


class PackedMatrix(NamedTuple):
    """Pixels (i, j) with i < j, sorted; gaps of row i count from bin ``max(i, shift)``.

    `shift` is 0 where rows and columns are the same bins, else the number of rows: the first bin of the columns.
    """

    shift: int
    first: Any  # (rows + 1,) int64: first pixel of each row
    gap: Any  # uint16 or int32
    value: Any  # uint16 or float64
    rest_first: Any  # (blocks + 1,) int64: first separate pixel of each block
    rest_row: Any  # int64
    rest_column: Any
    rest_value: Any  # float64
    cuts: Any  # (blocks + 1,) int64: first row of each block
    low: Any  # (blocks,) int64: window of columns of each block
    high: Any
    diagonal: Any  # (bins,) float64


class _PackedPart(NamedTuple):
    """The part of a matrix to pack: some rows, and the bins with a position."""

    place: Any  # int32: position of each bin, or -1
    low: int  # the first row
    base: int  # position of the first row that has one
    shift: int
    narrow: int  # distances and values below it take two bytes


@jit(inline=True, inner=True, borrows=True)
def _compute_gap(place, j, v, i, nearest, beyond, behind):
    """Return the gap of a cell, its distance from bin max(row, shift); -1 if it does not count, -2 on the diagonal."""
    if j >= beyond or j < nearest or place[j] < 0 or not v > 0.0:
        return -1
    return -2 if j == i else np.int64(place[j]) - behind


@jit(inline=True, inner=True, borrows=True)
def _is_large(v, narrow):
    """Test whether a value is too large for two bytes, or not an integer."""
    return not (v < narrow and v == np.floor(v))


@jit()
def count_cells(c, part, found, start, stop):
    """Count the cells of each row off the diagonal: all, those with a large gap, with a large value, and with both."""
    for row in range(start, stop):
        i = part.low + row
        if part.place[i] < 0:
            continue
        me, nearest, beyond = np.int64(part.place[i]) - part.base, i + c.nearest, c.stop[i]
        behind = part.base + max(me, part.shift)
        number, far, large, both, gap = 0, 0, 0, 0, 0
        for k in range(c.first[i], c.first[i + 1]):
            v = np.float64(c.values[k])
            other = _compute_gap(part.place, np.int64(c.columns[k]), v, i, nearest, beyond, behind)
            if other >= 0:
                gap = other
                is_far, is_large = gap >= part.narrow, _is_large(v, part.narrow)
                number += 1
                far += is_far
                large += is_large
                both += is_far & is_large
        found[NUMBER, me], found[FAR, me], found[LARGE, me], found[BOTH, me] = number, far, large, both
        found[REACH, me] = max(me, part.shift) + gap + 1


@jit()
def pack_cells(c, part, far_apart, large_apart, p, rest_first, start, stop):
    """Pack the cells of rows into the arrays of `p`, separate pixels into its rest."""
    for row in range(start, stop):
        i = part.low + row
        if part.place[i] < 0:
            continue
        me, nearest, beyond = np.int64(part.place[i]) - part.base, i + c.nearest, c.stop[i]
        behind = part.base + max(me, part.shift)
        at, rest = p.first[me], rest_first[me]
        for k in range(c.first[i], c.first[i + 1]):
            v = np.float64(c.values[k])
            gap = _compute_gap(part.place, np.int64(c.columns[k]), v, i, nearest, beyond, behind)
            if gap == -2:
                p.diagonal[me] = v
            elif gap >= 0:
                if (far_apart and gap >= part.narrow) or (large_apart and _is_large(v, part.narrow)):
                    p.rest_row[rest], p.rest_column[rest], p.rest_value[rest] = me, max(me, part.shift) + gap, v
                    rest += 1
                else:
                    p.gap[at], p.value[at] = gap, v
                    at += 1


def _allocate_matrix(counts, n, shift):
    """Choose the types from the counts of each row and allocate a PackedMatrix.

    Return whether far and large pixels are stored separately, the first separate pixel of each row, and the matrix.
    """
    number, far, large, both = (int(one) for one in counts[:REACH].sum(1))
    far_apart, large_apart = packing.choose_separate(number, far, large)
    wide = not far_apart and (far - both if large_apart else far) > 0
    rest = far_apart * counts[FAR] + large_apart * counts[LARGE] - (far_apart and large_apart) * counts[BOTH]
    first, rest_first = (np.concatenate([[0], np.cumsum(one)]) for one in (counts[NUMBER] - rest, rest))
    kinds = np.int32 if wide else np.uint16, np.uint16 if large_apart else np.float64
    gap, value = (np.empty(first[-1], kind) for kind in kinds)
    cuts = symmetric_cells.partition_rows(first, n - shift, gap.itemsize + value.itemsize)
    starts = cuts[:-1]
    lows = np.full_like(starts, shift) if shift else starts.copy()
    highs = np.array([counts[REACH, one:other].max(initial=shift) for one, other in zip(starts, cuts[1:], strict=True)])
    rest_row, rest_column, rest_value = (np.empty(rest_first[-1], kind) for kind in (np.int64, np.int64, np.float64))
    held = gap, value, rest_first[cuts], rest_row, rest_column, rest_value
    out = PackedMatrix(shift, first, *held, cuts, lows, np.maximum(highs, lows), np.zeros(n))
    return far_apart, large_apart, rest_first, out


def pack_part(cells, place, low, high, base, n, shift, num_threads):
    """Pack the cells of the rows from `low` to before `high`, of the `n` bins with a position."""
    part = _PackedPart(place, low, base, shift, packing.LEAST_WIDE_VALUE)
    counts = np.zeros((5, shift or n), np.int64)
    given = high - low, int(cells.first[high] - cells.first[low]) * symmetric_cells.SECONDS_PER_CHECKED_CELL
    _run(count_cells, (cells, part, counts), *given, num_threads)
    far_apart, large_apart, rest_first, out = _allocate_matrix(counts, n, shift)
    _run(pack_cells, (cells, part, far_apart, large_apart, out, rest_first), *given, num_threads)
    return out


def _run(kernel, args, n, seconds, num_threads):
    """Run a kernel over rows, in parallel."""
    pool.run(kernel, args, n, seconds=seconds, num_threads=num_threads)


def pack(rows, columns, values, n, shift, num_threads=None):
    """Pack positive, distinct cells sorted by row and column; the diagonal is stored separately."""
    number = shift or n
    if len(rows) > symmetric_cells.MOST_NUMPY_CELLS:
        first = symmetric_cells.compute_row_starts(rows, number)
        columns, values = symmetric_cells.convert_arrays((columns,), values)
        cells = symmetric_cells.SymmetricCells(first, columns, values, np.full(number, n), 0)
        return pack_part(cells, np.arange(n, dtype=np.int32), 0, number, 0, n, shift, num_threads)
    off = rows != columns
    i, j, a = rows[off], columns[off], values[off]
    gap, narrow = j - np.maximum(i, shift), packing.LEAST_WIDE_VALUE
    is_far, is_large = gap >= narrow, ~((a < narrow) & (a == np.floor(a)))
    counts = np.zeros((5, number), np.int64)
    for one, on in ((NUMBER, slice(None)), (FAR, is_far), (LARGE, is_large), (BOTH, is_far & is_large)):
        counts[one] = np.bincount(i[on], minlength=number)
    counts[REACH] = np.maximum(np.arange(number), shift) + 1
    np.maximum.at(counts[REACH], i, j + 1)
    far_apart, large_apart, _, out = _allocate_matrix(counts, n, shift)
    apart = (is_far & far_apart) | (is_large & large_apart)
    out.gap[:], out.value[:] = gap[~apart], a[~apart]
    out.rest_row[:], out.rest_column[:], out.rest_value[:] = i[apart], j[apart], a[apart]
    out.diagonal[rows[~off]] = values[~off]
    return out
