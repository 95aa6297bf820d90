"""Input cells of a sparse symmetric matrix: validation, sorting, comparison of the triangles, counts by bin.

Arrays of cells are read in their own types, and copied only where they must be sorted.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.symmetric_packing import MOST_ASYMMETRY

CELLS_PER_CHUNK = 8192  # cells of a chunk
MOST_NUMPY_CELLS = 1 << 18  # cells that NumPy reads and packs in less time than kernels take to compile
SORTED_PER_CHECK = 1 << 22  # cells sorted between two checks for interrupts
MOST_ROW_BLOCKS = 64
WINDOW_SHARE = 4  # windows take at most 1 / WINDOW_SHARE of the bytes of the pixels
PACKED_PIXEL_BYTES = 4  # typical size of a packed pixel
SECONDS_PER_CHECKED_CELL = 2e-9
INVALID_CELLS, UNSORTED_CELLS = 1, 2


class SymmetricCells(NamedTuple):
    """Cells sorted by row and column without duplicates.

    The positive ones count that are within a range of diagonals.
    """

    first: Any  # (rows + 1,) int64: first cell of each row
    columns: Any
    values: Any
    stop: Any  # (rows,) int64: first column that does not count
    nearest: int  # first diagonal that counts


@jit()
def check_cells(cells, n, upper, first, flags, start, stop):
    """Flag chunks of cells (rows, columns, values) that are invalid or unsorted.

    Write the first cell of each row otherwise. Signs are collected instead of conditions, so that several cells are
    checked together by SIMD.
    """
    rows, columns, values = cells
    above = np.int64(-1 if upper else 0)
    for chunk in range(start, stop):
        begin, end = chunk * CELLS_PER_CHUNK, min((chunk + 1) * CELLS_PER_CHUNK, len(rows))
        wrong, signs = 0, np.int64(0)
        for k in range(begin, end):
            i, j, v = np.int64(rows[k]), np.int64(columns[k]), np.float64(values[k])
            wrong += not ((v >= 0.0) & (v < np.inf))
            signs |= i | j | (n - 1 - i) | (n - 1 - j) | ((j - i) & above)
        flags[chunk] = INVALID_CELLS if wrong > 0 or signs < 0 else 0
        if flags[chunk] == INVALID_CELLS:
            continue
        row, column = np.int64(-1), np.int64(-1)
        if begin > 0:
            row, column = max(np.int64(rows[begin - 1]), row), np.int64(columns[begin - 1])
        for k in range(begin, end):
            i, j = np.int64(rows[k]), np.int64(columns[k])
            if i < row or (i == row and j <= column):
                flags[chunk] = UNSORTED_CELLS
                break
            for passed in range(row + 1, i + 1):
                first[passed] = k
            row, column = i, j


@jit()
def has_equal_triangles(c, cursor, start, stop):
    """Test whether the lower triangle equals the upper one, zeros apart; to be called for all rows in order.

    The mirror images of a row's cells appear in row order, as the row's own: `cursor` is the next of each row.
    """
    for i in range(start, stop):
        k, last = c.first[i], c.first[i + 1]
        while k < last and c.columns[k] <= i:
            j, v = c.columns[k], np.float64(c.values[k])
            k += 1
            if j == i or v == 0.0:
                continue
            at = cursor[j]
            while at < c.first[j + 1] and c.values[at] == 0:
                at += 1
            if (
                at == c.first[j + 1]
                or c.columns[at] != i
                or not abs(np.float64(c.values[at]) - v) <= MOST_ASYMMETRY * v
            ):
                return False
            cursor[j] = at + 1
        cursor[i] = k
    if stop == len(cursor):
        for i in range(stop):
            for k in range(cursor[i], c.first[i + 1]):
                if c.values[k] != 0:
                    return False
    return True


@jit()
def sort_by_counting(keys, order, cursor, out, start, stop):
    """Continue a stable counting sort by keys, whose next positions are in `cursor`."""
    for k in range(start, stop):
        at = order[k]
        out[cursor[keys[at]]] = at
        cursor[keys[at]] += 1


@jit()
def sum_by_bin(c, place, weigh, cuts, windows, own, start, stop):
    """Count or sum the cells of bins with a position: row totals to `own`, column totals to the block's window."""
    for t in range(start, stop):
        low, window = cuts[t], windows[t]
        for at in range(len(place) - low):
            window[at] = 0.0
        for i in range(low, cuts[t + 1]):
            total, beyond, nearest = np.float64(0.0), c.stop[i], i + c.nearest
            if place[i] >= 0:
                for k in range(c.first[i], c.first[i + 1]):
                    j, v = np.int64(c.columns[k]), np.float64(c.values[k])
                    if j < beyond and j >= nearest and place[j] >= 0 and v > 0.0:
                        amount = v if weigh else np.float64(1.0)
                        total += amount
                        if j > i:
                            window[j - low] += amount
            own[i] = total


def partition_rows(first, n, size):
    """Return the cuts of rows into blocks of about equally many cells, whose windows of `n` bins stay small."""
    rows = len(first) - 1
    blocks = first[-1] * size // (8 * WINDOW_SHARE * max(n, 1))
    blocks = min(max(int(blocks), 1), MOST_ROW_BLOCKS, max(rows, 1))
    cuts = np.searchsorted(first, np.linspace(0, first[-1], blocks + 1)).astype(np.int64)
    cuts[0], cuts[-1] = 0, rows
    return cuts


def compute_row_starts(rows, n):
    """Return the first cell of each row among cells sorted by row."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)


def convert_arrays(bins, values):
    """Return bins and values as read-only arrays of the types that kernels are compiled for; copied where necessary."""
    same = len({array.dtype for array in bins}) == 1 and bins[0].dtype in (np.int32, np.int64)
    kind = bins[0].dtype if same else np.dtype(np.int64)
    of_values = values.dtype if values.dtype in (np.int32, np.int64, np.float32) else np.dtype(np.float64)
    out = [np.ascontiguousarray(array, kind).view() for array in bins]
    out.append(np.ascontiguousarray(values, of_values).view())
    for array in out:
        array.flags.writeable = False  # so that kernels are compiled for one type
    return out
