"""The cells of a sparse matrix as they are given: what is wrong with them, their order, and what each bin has of them.

Arrays of cells are read in their own types, and copied only where they have to be sorted.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.symmetric_packing import MOST_ASYMMETRY

CELLS_PER_CHUNK = 8192  # cells of a piece
MOST_NUMPY_CELLS = 1 << 18  # cells that NumPy reads and packs in less time than kernels take to compile
SORTED_PER_CHECK = 1 << 22  # cells that are sorted until it is asked again whether to go on
MOST_ROW_BLOCKS = 64
WINDOW_SHARE = 4  # windows take at most the part of one in so many of the bytes of pixels
PACKED_PIXEL_BYTES = 4  # of a packed pixel, about
SECONDS_PER_CHECKED_CELL = 2e-9
INVALID_CELLS, UNSORTED_CELLS = 1, 2


class SymmetricCells(NamedTuple):
    """Cells sorted by row and column, none twice; of these the positive ones count that are not too near or too far."""

    first: Any  # (rows + 1,) int64: where each row begins
    columns: Any
    values: Any
    stop: Any  # (rows,) int64: columns before it count
    nearest: int  # diagonals before it do not


@jit()
def check(cells, n, upper, first, flags, start, stop):
    """Note of each chunk of cells (rows, columns, values) whether something is wrong or not in order.

    If not, note where its rows begin. Signs are collected, not conditions: so several cells are looked at together.
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
def match(c, cursor, start, stop):
    """Return whether cells below the diagonal, zeros apart, are those above it; to be called for all rows in order.

    The partners of a cell above the diagonal come row after row, as the cells of its own row do: `cursor` is the next.
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
def put_in_order(keys, order, cursor, out, start, stop):
    """Go on to sort by keys of which `cursor` says where the next one belongs; what is equal stays as it was."""
    for k in range(start, stop):
        at = order[k]
        out[cursor[keys[at]]] = at
        cursor[keys[at]] += 1


@jit()
def tally(c, place, weigh, cuts, windows, own, start, stop):
    """Count the cells of bins that have a place, or add them up; as `spread` does."""
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


def pieces(first, n, size):
    """Cut rows into blocks with about as many cells each, whose windows of `n` take no more than their share."""
    rows = len(first) - 1
    blocks = first[-1] * size // (8 * WINDOW_SHARE * max(n, 1))
    blocks = min(max(int(blocks), 1), MOST_ROW_BLOCKS, max(rows, 1))
    cuts = np.searchsorted(first, np.linspace(0, first[-1], blocks + 1)).astype(np.int64)
    cuts[0], cuts[-1] = 0, rows
    return cuts


def starts(rows, n):
    """Return where each row begins among cells that are sorted by row."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)


def typed(bins, values):
    """Return arrays of bins, and values, of types that kernels take; copied where that is not their own."""
    same = len({array.dtype for array in bins}) == 1 and bins[0].dtype in (np.int32, np.int64)
    kind = bins[0].dtype if same else np.dtype(np.int64)
    of_values = values.dtype if values.dtype in (np.int32, np.int64, np.float32) else np.dtype(np.float64)
    out = [np.ascontiguousarray(array, kind).view() for array in bins]
    out.append(np.ascontiguousarray(values, of_values).view())
    for array in out:
        array.flags.writeable = False  # one type of array
    return out
