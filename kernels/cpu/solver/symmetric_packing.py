"""A sparse matrix of which each pair of cells is stored once.

Pixels are packed: two bytes for the distance of the two bins, two for the count. What does not fit is held apart, wide.
Rows are cut into blocks, a function of the pixels alone.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver import symmetric_cells
from cmfast.kernels.shared import symmetric_packing as packing

NUMBER, FAR, LARGE, BOTH, REACH = range(5)  # of a row: what is counted, and where it ends


class Packed(NamedTuple):
    """Pixels (i, j) with i < j, sorted; those of row i lie behind the bin ``max(i, shift)``.

    `shift` is 0 where rows and columns are the same bins, else the number of rows: the first bin of the columns.
    """

    shift: int
    first: Any  # (rows + 1,) int64: where each row begins
    gap: Any  # uint16 or int32
    value: Any  # uint16 or float64
    rest_first: Any  # (blocks + 1,) int64: where what is held apart begins in each block
    rest_row: Any  # int64
    rest_column: Any
    rest_value: Any  # float64
    cuts: Any  # (blocks + 1,) int64: rows
    low: Any  # (blocks,) int64: the window of each
    high: Any
    diagonal: Any  # (bins,) float64


class _PackedPart(NamedTuple):
    """Which cells are packed: those of some rows, and of bins that have a place."""

    place: Any  # int32: of each bin, -1 without
    low: int  # the first row
    base: int  # its place, or that of the next one that has one
    shift: int
    narrow: int  # distances and values below it take two bytes


@jit(inline=True, inner=True, borrows=True)
def _distance(place, j, v, i, nearest, beyond, behind):
    """Return how far a cell is behind a place; -1 for one that is not there, -2 on the diagonal."""
    if j >= beyond or j < nearest or place[j] < 0 or not v > 0.0:
        return -1
    return -2 if j == i else np.int64(place[j]) - behind


@jit(inline=True, inner=True, borrows=True)
def _is_large(v, narrow):
    return not (v < narrow and v == np.floor(v))


@jit()
def count(c, part, found, start, stop):
    """Count the cells of rows: all off the diagonal, those that are far, that have large values, and both."""
    for row in range(start, stop):
        i = part.low + row
        if part.place[i] < 0:
            continue
        me, nearest, beyond = np.int64(part.place[i]) - part.base, i + c.nearest, c.stop[i]
        behind = part.base + max(me, part.shift)
        number, far, large, both, gap = 0, 0, 0, 0, 0
        for k in range(c.first[i], c.first[i + 1]):
            v = np.float64(c.values[k])
            other = _distance(part.place, np.int64(c.columns[k]), v, i, nearest, beyond, behind)
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
def fill(c, part, far_apart, large_apart, p, rest_first, start, stop):
    """Pack the cells of rows."""
    for row in range(start, stop):
        i = part.low + row
        if part.place[i] < 0:
            continue
        me, nearest, beyond = np.int64(part.place[i]) - part.base, i + c.nearest, c.stop[i]
        behind = part.base + max(me, part.shift)
        at, rest = p.first[me], rest_first[me]
        for k in range(c.first[i], c.first[i + 1]):
            v = np.float64(c.values[k])
            gap = _distance(part.place, np.int64(c.columns[k]), v, i, nearest, beyond, behind)
            if gap == -2:
                p.diagonal[me] = v
            elif gap >= 0:
                if (far_apart and gap >= part.narrow) or (large_apart and _is_large(v, part.narrow)):
                    p.rest_row[rest], p.rest_column[rest], p.rest_value[rest] = me, max(me, part.shift) + gap, v
                    rest += 1
                else:
                    p.gap[at], p.value[at] = gap, v
                    at += 1


def _laid_out(counts, n, shift):
    """Return what is held apart of so many cells of each row, where that begins, and room for all of them."""
    number, far, large, both = (int(one) for one in counts[:REACH].sum(1))
    far_apart, large_apart = packing.apart(number, far, large)
    wide = not far_apart and (far - both if large_apart else far) > 0
    rest = far_apart * counts[FAR] + large_apart * counts[LARGE] - (far_apart and large_apart) * counts[BOTH]
    first, rest_first = (np.concatenate([[0], np.cumsum(one)]) for one in (counts[NUMBER] - rest, rest))
    kinds = np.int32 if wide else np.uint16, np.uint16 if large_apart else np.float64
    gap, value = (np.empty(first[-1], kind) for kind in kinds)
    cuts = symmetric_cells.pieces(first, n - shift, gap.itemsize + value.itemsize)
    starts = cuts[:-1]
    lows = np.full_like(starts, shift) if shift else starts.copy()
    highs = np.array([counts[REACH, one:other].max(initial=shift) for one, other in zip(starts, cuts[1:], strict=True)])
    rest_row, rest_column, rest_value = (np.empty(rest_first[-1], kind) for kind in (np.int64, np.int64, np.float64))
    held = gap, value, rest_first[cuts], rest_row, rest_column, rest_value
    out = Packed(shift, first, *held, cuts, lows, np.maximum(highs, lows), np.zeros(n))
    return far_apart, large_apart, rest_first, out


def pack_part(cells, place, low, high, base, n, shift, num_threads):
    """Pack the cells of the rows from `low` to `high` in bins that have a place; `n` bins have, rows and columns."""
    part = _PackedPart(place, low, base, shift, packing.LEAST_WIDE_VALUE)
    counts = np.zeros((5, shift or n), np.int64)
    given = high - low, int(cells.first[high] - cells.first[low]) * symmetric_cells.SECONDS_PER_CHECKED_CELL
    _run(count, (cells, part, counts), *given, num_threads)
    far_apart, large_apart, rest_first, out = _laid_out(counts, n, shift)
    _run(fill, (cells, part, far_apart, large_apart, out, rest_first), *given, num_threads)
    return out


def _run(kernel, args, n, seconds, num_threads):
    pool.run(kernel, args, n, seconds=seconds, num_threads=num_threads)


def pack(rows, columns, values, n, shift, num_threads=None):
    """Pack cells, which are sorted by row and column, positive and all different; the diagonal is held apart."""
    number = shift or n
    if len(rows) > symmetric_cells.MOST_NUMPY_CELLS:
        first = symmetric_cells.starts(rows, number)
        columns, values = symmetric_cells.typed((columns,), values)
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
    far_apart, large_apart, _, out = _laid_out(counts, n, shift)
    apart = (is_far & far_apart) | (is_large & large_apart)
    out.gap[:], out.value[:] = gap[~apart], a[~apart]
    out.rest_row[:], out.rest_column[:], out.rest_value[:] = i[apart], j[apart], a[apart]
    out.diagonal[rows[~off]] = values[~off]
    return out
