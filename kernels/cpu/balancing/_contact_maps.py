"""Contact maps on the CPU: cells validated, sorted and packed in parallel."""

from functools import partial

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.solver import symmetric_cells
from cmfast.kernels.cpu.solver.symmetric_packing import pack, pack_part
from cmfast.kernels.cpu.solver.symmetric_passes import SymmetricProducts
from cmfast.kernels.shared import balancing_cells


class ContactMap:
    """Cells of a symmetric matrix with blocks on its diagonal."""

    def __init__(self, rows, columns, values, first, stop, nearest, num_threads):
        self.rows, self.cells, self.num_threads = (
            rows,
            symmetric_cells.SymmetricCells(first, columns, values, stop, nearest),
            num_threads,
        )

    def sum_by_bin(self, place, weigh=False):
        """Return for each bin with a position the number, or the sum if `weigh`, of its cells with such bins."""
        n, cuts = (
            len(place),
            symmetric_cells.partition_rows(self.cells.first, len(place), symmetric_cells.PACKED_PIXEL_BYTES),
        )
        own, windows = np.empty(n), np.empty((len(cuts) - 1, n))
        seconds = len(self.rows) * symmetric_cells.SECONDS_PER_CHECKED_CELL
        args = self.cells, place, weigh, cuts, windows, own
        pool.run(symmetric_cells.sum_by_bin, args, len(windows), seconds=seconds, num_threads=self.num_threads)
        for low, window in zip(cuts[:-1], windows, strict=True):
            own[low:] += window[: n - low]
        return own

    def passes(self, low, high, place, base, n):
        """Return the passes over the pixels of a block."""
        packed = pack_part(self.cells, place, low, high, base, n, 0, self.num_threads)
        return SymmetricProducts(packed, self.num_threads)

    def list_bins(self, low, high, place, base):
        """Return the rows and columns of the cells that count in a block, as positions in it."""
        c = self.cells
        part = slice(c.first[low], c.first[high])
        i, j = self.rows[part], c.columns[part]
        on = (c.values[part] > 0) & (j >= i + c.nearest) & (j < high) & (place[i] >= 0)
        i, j = i[on], j[on]
        both = place[j] >= 0
        return tuple(place[bins[both]].astype(np.int64) - base for bins in (i, j))


def _pack_passes(rows, columns, values, n, num_threads):
    """Pack cells and return the passes over them."""
    return SymmetricProducts(pack(rows, columns, values, n, 0), num_threads)


def read_contact_map(rows, columns, values, *, n, upper, cuts, nearest, num_threads):
    """Return the contact map of the cells; None if one is invalid or the two triangles differ."""
    if len(rows) <= symmetric_cells.MOST_NUMPY_CELLS:
        options = {"n": n, "upper": upper, "cuts": cuts, "nearest": nearest}
        return balancing_cells.read_contact_map(
            rows, columns, values, **options, to_passes=partial(_pack_passes, num_threads=num_threads)
        )
    rows, columns, values = symmetric_cells.convert_arrays((rows, columns), values)
    first, flags = np.zeros(n + 1, np.int64), np.zeros(-(-len(rows) // symmetric_cells.CELLS_PER_CHUNK), np.int8)
    args, seconds = (
        ((rows, columns, values), n, upper, first, flags),
        len(rows) * symmetric_cells.SECONDS_PER_CHECKED_CELL,
    )
    pool.run(symmetric_cells.check_cells, args, len(flags), seconds=seconds, num_threads=num_threads)
    if (flags & symmetric_cells.INVALID_CELLS).any():
        return None
    if (flags & symmetric_cells.UNSORTED_CELLS).any():
        rows, columns, values = _sort_cells(rows, columns, values, n)
        first = symmetric_cells.compute_row_starts(rows, n)
    elif len(rows):
        first[rows[-1] + 1 :] = len(rows)
    stop = np.repeat(cuts[1:], np.diff(cuts))
    found = ContactMap(rows, columns, values, first, stop, nearest, num_threads)
    if upper:
        return found
    cursor, step = np.zeros(n, np.int64), max(n * symmetric_cells.SORTED_PER_CHECK // max(len(rows), 1), 1)
    return found if _call_in_order(symmetric_cells.has_equal_triangles, (found.cells, cursor), n, step) else None


def _call_in_order(kernel, args, n, step):
    """Call a kernel for consecutive parts of a range, with checks for interrupts; return False if any call does."""
    for start in range(0, n, step):
        pool.checkpoint()
        if kernel(*args, start, min(start + step, n)) is False:
            return False
    return True


def _sort_cells(rows, columns, values, n):
    """Sort cells by row and column, and add up duplicates."""
    order = np.arange(len(rows))
    for keys in (columns, rows):
        out = np.empty_like(order)
        _call_in_order(
            symmetric_cells.sort_by_counting,
            (keys, order, symmetric_cells.compute_row_starts(keys, n), out),
            len(rows),
            symmetric_cells.SORTED_PER_CHECK,
        )
        order = out
    rows, columns, values = rows[order], columns[order], values[order]
    fresh = np.concatenate([[True], (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])])
    if not fresh.all():
        rows, columns = rows[fresh], columns[fresh]
        values = np.add.reduceat(values.astype(np.float64), np.flatnonzero(fresh))
    return symmetric_cells.convert_arrays((rows, columns), values)
