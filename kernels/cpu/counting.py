"""Count confusion matrices from label arrays: one table per piece of the samples, summed in order of the pieces."""

import itertools
import math
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import accumulators, distinct, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import prefetch
from cmfast.kernels.shared import halves
from cmfast.kernels.shared.counting import MOST_LABEL_SPAN, find_outside
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_SAMPLE = 1.2e-9
# Samples per piece: about 0.1 ms, and 2 MB that stay in the level-2 cache after a conversion.
SAMPLES_PER_PIECE = 1 << 17
# A long row has 64 or 128 pieces, so that Python takes a small share of the time and 64 threads end together, or more
# of 16 times the samples, of four times if a piece is converted.
PIECES_OF_ROW, MOST_JOINED, MOST_CONVERTED = 128, 16, 4
LEAST_SHARED_ROWS = 16  # with fewer rows the samples of each row are split among threads
# Samples up to which NumPy counts: as fast, and a first call compiles nothing.
MOST_NUMPY_SAMPLES = 4096
FEW_LABELS = 1 << 14  # labels below which a few are counted by NumPy: sums of so many zeros take 3 us
MOST_FEW_CLASSES = 300  # given classes up to which NumPy counts
INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
WEIGHTS = (np.dtype(np.float32), np.dtype(np.float64))
LEAST_LARGE_SPAN = 512  # range of labels from which on a table of all pairs, of 2 MB, takes longer than few samples
GUESS = 4096  # labels sampled to guess the size of the table
SAMPLED_LABELS = 1024  # at least, to guess the size of the table of one row
MOST_COUNTED_TWICE = 1 << 17  # pairs that are counted again if the guess was too small
FINE = np.int8(OK)
ALL = slice(None)
SAFE_SUM = 1e300  # far enough below the largest float64 for sums that are rounded

# Types that kernels are compiled for; a negative id viewed as unsigned is out of range, as it must be.
VIEWS = {
    np.dtype(np.int64): np.int64,
    np.dtype(np.uint64): np.int64,
    np.dtype(np.int32): np.int32,
    np.dtype(np.int8): np.int8,
    np.dtype(np.uint8): np.uint8,
    np.dtype(np.bool_): np.uint8,
}


@jit()
def _count_rows(y_true, y_pred, weight, groups, classes, ignored, out, outside):
    """Count the samples of each row into its table, and the samples with a label outside the classes.

    `classes` is the lowest label and the number of classes. An array of one row is shared by all rows. Samples whose
    truth is `ignored` are skipped.
    """
    low, n_classes = classes
    for row in range(out.shape[0]):
        t, p, table = y_true[row % y_true.shape[0]], y_pred[row % y_pred.shape[0]], out[row]
        w: Any = None if weight is None else weight[row % weight.shape[0]]
        g: Any = None if groups is None else groups[row % groups.shape[0]]
        number = 0
        for k in range(t.shape[0]):
            if ignored is not None:  # noqa: SIM102 - it is nothing that is compiled, which a longer condition would be
                if np.uint64(t[k]) == ignored:
                    continue
            i = np.uint64(t[k]) - low
            j = np.uint64(p[k]) - low
            if i < n_classes and j < n_classes:  # unsigned: one comparison for both ends
                cell = i * n_classes + j
                if groups is not None:
                    cell += np.uint64(g[k]) * n_classes * n_classes
                table[cell] += 1 if weight is None else w[k]
            else:
                number += 1
        outside[row] = number


# Unweighted pairs of one label range: several tables of 32 bits, so that equal neighbours do not wait for each other's
# sum, and no branch. Nanoseconds a pair on Zen 5 with 10 classes, `_count_rows` first: int8 0.63 and 0.25, int32 0.64
# and 0.30. Beyond these limits `_count_rows` is as fast; of int64 it is faster on Zen 4 and slower on Zen 5.
MOST_BYTE_CLASSES = 15  # whose cells are bytes, with two to spare: for padding and for pairs out of range
MOST_BLOCK_CLASSES = 300
MOST_INT64_CLASSES = 3
PADDING, OUTSIDE = np.uint8(254), np.uint8(255)
SIMD_BLOCK_PAIRS = 2048  # pairs whose cells are computed by SIMD before they are counted
# Cells of a table of 16 MB, in which additions wait for memory: with prefetches they take half the time on Zen 5.
LEAST_DISTANT_CELLS, PREFETCHED_PAIRS = 1 << 21, 256


@jit()
def _count_small_bytes(y_true, y_pred, classes, out, outside):
    """Count pairs of one-byte labels of at most 15 classes into each row's table, and pairs out of range.

    Cells are computed as bytes, 64 in a vector register, and counted eight at a time into eight tables.
    """
    low, n = np.uint8(classes[0]), np.uint8(classes[1])
    cells, tables = np.empty(SIMD_BLOCK_PAIRS, np.uint8), np.empty((8, 256), np.uint32)
    words, one, byte = cells.view(np.uint64), np.uint32(1), np.uint64(255)
    a, b, c, d, e, f, g, h = tables[0], tables[1], tables[2], tables[3], tables[4], tables[5], tables[6], tables[7]
    for row in range(out.shape[0]):
        t, p = y_true[row % y_true.shape[0]], y_pred[row % y_pred.shape[0]]
        tables[:] = 0
        for first in range(0, t.shape[0], SIMD_BLOCK_PAIRS):
            m = min(SIMD_BLOCK_PAIRS, t.shape[0] - first)
            truth, guess = t[first : first + m], p[first : first + m]
            for k in range(m):
                i, j = np.uint8(np.uint8(truth[k]) - low), np.uint8(np.uint8(guess[k]) - low)
                cells[k] = np.uint8(np.uint8(i * n) + j) if (i < n) & (j < n) else OUTSIDE
            filled = (m + 7) // 8
            for k in range(m, 8 * filled):
                cells[k] = PADDING
            for k in range(filled):
                word = words[k]
                a[word & byte] += one
                b[(word >> np.uint64(8)) & byte] += one
                c[(word >> np.uint64(16)) & byte] += one
                d[(word >> np.uint64(24)) & byte] += one
                e[(word >> np.uint64(32)) & byte] += one
                f[(word >> np.uint64(40)) & byte] += one
                g[(word >> np.uint64(48)) & byte] += one
                h[word >> np.uint64(56)] += one
        outside[row] = 0
        for turn in range(8):
            outside[row] += np.int64(tables[turn, OUTSIDE])
            for cell in range(out.shape[1]):
                out[row, cell] += np.int64(tables[turn, cell])


@jit()
def _count_blocks(y_true, y_pred, low, n, wide, out, outside):
    """Count pairs of labels into each row's table, and pairs out of range, by a block of cell indices at a time.

    Cell indices are computed by SIMD, then counted into four tables in turns. Unless `wide`, all labels of the range
    have the arrays' type of at most four bytes, so that 32 bits of a difference suffice.
    """
    size = np.uint32(n)
    # Diagonal cells of 127 or 255 classes would be 512 bytes apart and compete for a few sets of the cache.
    pitch = np.uint32(n + 1 if (n + 1) % 64 == 0 else n)
    outer = np.uint32(size * pitch)
    cells, tables, one = np.empty(SIMD_BLOCK_PAIRS, np.uint32), np.empty((4, n * pitch + 1), np.uint32), np.uint32(1)
    a, b, c, d = tables[0], tables[1], tables[2], tables[3]
    for row in range(out.shape[0]):
        t, p, table = y_true[row % y_true.shape[0]], y_pred[row % y_pred.shape[0]], out[row]
        tables[:] = 0
        for first in range(0, t.shape[0], SIMD_BLOCK_PAIRS):
            m = min(SIMD_BLOCK_PAIRS, t.shape[0] - first)
            truth, guess = t[first : first + m], p[first : first + m]
            for k in range(m):
                i, j = truth[k] - low, guess[k] - low
                if wide is None:
                    i, j = np.uint32(i), np.uint32(j)
                else:
                    i, j = np.uint64(i), np.uint64(j)
                cells[k] = np.uint32(i) * pitch + np.uint32(j) if (i < size) & (j < size) else outer
            whole = m // 4 * 4
            for k in range(0, whole, 4):
                a[cells[k]] += one
                b[cells[k + 1]] += one
                c[cells[k + 2]] += one
                d[cells[k + 3]] += one
            for k in range(whole, m):
                a[cells[k]] += one
        outside[row] = np.int64(a[outer]) + np.int64(b[outer]) + np.int64(c[outer]) + np.int64(d[outer])
        for true in range(n):
            for predicted in range(n):
                cell = true * pitch + predicted
                table[true * n + predicted] += (
                    np.int64(a[cell]) + np.int64(b[cell]) + np.int64(c[cell]) + np.int64(d[cell])
                )


@jit()
def _count_distant_cells(y_true, y_pred, classes, out, outside):
    """Count pairs of labels into each row's table, and pairs out of range, by blocks whose cells are prefetched."""
    low, n_classes = classes
    cells = np.empty(PREFETCHED_PAIRS, np.uint64)
    for row in range(out.shape[0]):
        t, p, table = y_true[row % y_true.shape[0]], y_pred[row % y_pred.shape[0]], out[row]
        inside = 0
        for first in range(0, t.shape[0], PREFETCHED_PAIRS):
            found = 0
            for k in range(first, min(first + PREFETCHED_PAIRS, t.shape[0])):
                i, j = np.uint64(t[k]) - low, np.uint64(p[k]) - low
                if i < n_classes and j < n_classes:
                    cells[found] = i * n_classes + j
                    prefetch(out, row, np.int64(cells[found]))
                    found += 1
            for k in range(found):
                table[cells[k]] += 1
            inside += found
        outside[row] = t.shape[0] - inside


@jit()
def _add_weights(y_true, y_pred, weight, classes, out, outside):
    """Add the weight of each pair of labels to each row's table, in their order; count pairs out of range.

    Cell indices are computed by SIMD, a block at a time. A pair out of range adds 0 to the first cell, which no sum can
    show: it starts as positive zero.
    """
    low, n_classes = classes
    cells, weights = np.empty(PREFETCHED_PAIRS, np.uint64), np.empty(PREFETCHED_PAIRS, weight.dtype)
    is_distant, zero = out.shape[1] >= LEAST_DISTANT_CELLS // 8, weights.dtype.type(0)
    for row in range(out.shape[0]):
        t, p, table = y_true[row % y_true.shape[0]], y_pred[row % y_pred.shape[0]], out[row]
        w, inside = weight[row % weight.shape[0]], np.int64(0)
        for first in range(0, t.shape[0], PREFETCHED_PAIRS):
            m = min(PREFETCHED_PAIRS, t.shape[0] - first)
            truth, guess, added = t[first : first + m], p[first : first + m], w[first : first + m]
            for k in range(m):
                i, j = np.uint64(truth[k]) - low, np.uint64(guess[k]) - low
                is_inside = (i < n_classes) & (j < n_classes)
                cells[k] = i * n_classes + j if is_inside else np.uint64(0)
                weights[k] = added[k] if is_inside else zero
                inside += np.int64(is_inside)
            if is_distant:
                for k in range(m):
                    prefetch(out, row, np.int64(cells[k]))
            for k in range(m):
                table[cells[k]] += weights[k]
        outside[row] = t.shape[0] - inside


def _count_unweighted(y_true, y_pred, low, n_classes, out, outside):
    """Add the pairs of each row to its flat table in `out` and set `outside`, by the fastest kernel for their type."""
    classes, kind = (np.uint64(low % 2**64), np.uint64(n_classes)), y_true.dtype
    n = y_true.shape[1]
    narrow = kind.itemsize <= 4 and np.iinfo(kind).min <= low and low + n_classes - 1 <= np.iinfo(kind).max
    is_aliased = n_classes % 64 == 63 and n_classes <= MOST_BLOCK_CLASSES  # see `pitch`
    if out.shape[1] >= LEAST_DISTANT_CELLS:
        _count_distant_cells(y_true, y_pred, classes, out, outside)
    elif not 4 * out.shape[1] <= n < 2**32:  # the tables would take longer than the pairs, or overflow
        _count_rows(y_true, y_pred, None, None, classes, None, out, outside)
    elif narrow and kind.itemsize == 1 and n_classes <= MOST_BYTE_CLASSES:
        _count_small_bytes(y_true, y_pred, classes, out, outside)
    elif narrow and n_classes <= MOST_BLOCK_CLASSES:
        _count_blocks(y_true, y_pred, low, n_classes, None, out, outside)
    elif kind == np.int64 and abs(low) < 2**63 and (n_classes <= MOST_INT64_CLASSES or is_aliased):
        _count_blocks(y_true, y_pred, low, n_classes, True, out, outside)
    else:
        _count_rows(y_true, y_pred, None, None, classes, None, out, outside)


class _LabelSamples:
    """Label arrays, weights and groups as rows of samples."""

    def __init__(self, y_true, y_pred, weight, groups, ignored, num_threads):
        arrays = (y_true, y_pred, weight, groups)
        shapes = {a.shape[:-1] for a in arrays if a is not None}
        self.batch = np.broadcast_shapes(*shapes) if len(shapes) > 1 else shapes.pop()
        self.n = y_true.shape[-1]
        self.rows = math.prod(self.batch)
        self.y_true, self.y_pred, self.weight, self.groups = map(self._reshape_rows, arrays)
        self.ignored = None if ignored is None else np.uint64(ignored % 2**64)
        self.num_threads = num_threads

    def _reshape_rows(self, array):
        """Return an array as (rows, n), or (1, n) if all rows share it."""
        if array is None:
            return None
        shared = math.prod(array.shape[:-1]) == 1
        if not shared and array.shape[:-1] != self.batch:
            array = np.broadcast_to(array, (*self.batch, self.n))
        return array.reshape(1 if shared else self.rows, self.n)

    def span(self, *arrays):
        """Return the smallest and largest value of integer arrays; (0, -1) if they are empty."""
        return distinct.find_extent([a.reshape(-1) for a in arrays], self.num_threads)

    def fit(self):
        """Return whether int64 holds every sum of the integer weights."""
        low, high = self.span(self.weight)
        return halves.fits(low, high, self.n)

    def tables(self, low, n_classes, n_groups, *, weighted):
        """Count the samples into tables ``(rows, G, C, C)``; return them and the number of pairs out of range."""
        cells = n_groups * n_classes**2
        weight = self.weight if weighted else None
        if self.rows > 0 and self.rows * self.n <= MOST_NUMPY_SAMPLES and self.rows * cells <= MOST_LABEL_SPAN**2:
            return self._count_with_numpy(weight, low, n_classes, n_groups)
        split = max(SAMPLES_PER_PIECE, 4 * cells)  # partial tables together are smaller than the labels
        # Weights are summed per part first, so that the bits do not depend on the threads.
        parts = 1 if self.rows >= LEAST_SHARED_ROWS and weight is None else max(1, -(-self.n // split))
        sums = np.int64 if weight is None or weight.dtype.kind != "f" else np.float64
        classes = np.uint64(low % 2**64), np.uint64(n_classes)
        same = self.y_true.dtype == self.y_pred.dtype
        as_int = None if same and self.y_true.dtype in VIEWS else np.int64
        plain = self.groups is None and self.ignored is None

        def count(rows, samples, out, outside):
            """Count samples of some rows into tables."""
            arrays = (
                block(self.y_true, rows, samples, as_int),
                block(self.y_pred, rows, samples, as_int),
                block(weight, rows, samples, sums),
                block(self.groups, rows, samples, np.int64),
            )
            if plain and weight is None:
                _count_unweighted(*arrays[:2], low, n_classes, out, outside)
            elif plain:
                _add_weights(*arrays[:3], classes, out, outside)
            else:
                _count_rows(*arrays, classes, self.ignored, out, outside)

        def work(_, start, stop):
            """Count a range of rows, or one part of a row."""
            rows, samples = slice(start, stop), slice(None)
            if parts > 1:
                row, part = divmod(start, parts)
                rows, samples = slice(row, row + 1), slice(part * split, (part + 1) * split)
            count(rows, samples, out[start:stop], outside[start:stop])

        if parts > 1 and sums is np.int64:
            least = 4 * cells if n_classes <= MOST_BLOCK_CLASSES else 0
            viewed = (
                plain
                and weight is None
                and as_int is None
                and self.y_true.flags.c_contiguous
                and self.y_pred.flags.c_contiguous
            )
            out, outside = self._add_in_any_order(count, cells, least, MOST_JOINED if viewed else MOST_CONVERTED)
            return out.reshape(self.rows, n_groups, n_classes, n_classes), int(outside.sum())
        out = np.zeros((self.rows * parts, cells), sums)
        outside = np.zeros(out.shape[0], np.int64)
        seconds = self.rows * self.n * SECONDS_PER_SAMPLE
        bounds = pool.pieces(self.rows, seconds) if parts == 1 else list(itertools.pairwise(range(len(out) + 1)))
        if self.rows:
            pool.run_pieces(work, bounds, seconds=seconds, num_threads=self.num_threads)
        if parts > 1:
            pieces = out.reshape(self.rows, parts, cells)
            out = np.zeros((self.rows, cells), out.dtype)
            for part in range(parts):
                out += pieces[:, part]
        return out.reshape(self.rows, n_groups, n_classes, n_classes), int(outside.sum())

    def _add_in_any_order(self, count, cells, least, joined):
        """Return integer tables and pairs out of range of each row: a table per thread, pieces of `least` samples.

        A piece of a long row has up to `joined` times as many as one of a short row.
        """
        few = SAMPLES_PER_PIECE * (2 if self.y_true.itemsize == 1 else 1)  # bytes are counted fast
        least = max(few, least)
        number = min(self.n // least, PIECES_OF_ROW)
        number -= number % pool.MAX_PIECES if number > pool.MAX_PIECES else 0
        step = max(least, min(self.n // max(1, number), joined * few))
        step = -(-step // SIMD_BLOCK_PAIRS) * SIMD_BLOCK_PAIRS
        pieces = [(row, a) for row in range(self.rows) for a in range(0, self.n, step)]
        sums = accumulators.Accumulators((self.rows, cells), (self.rows,))

        def work(i, *_):
            """Count one piece into a table that no other thread is using."""
            (row, a), (out, outside), found = pieces[i], sums.take(), np.zeros(1, np.int64)
            count(slice(row, row + 1), slice(a, a + step), out[row : row + 1], found)
            outside[row] += found[0]
            sums.give_back((out, outside))

        # Tables of all threads take less memory than int64 labels, and adding them less time than counting.
        threads = max(1, min(self.num_threads or pool.cpu_count(), self.n // (2 * cells)))
        bounds = list(itertools.pairwise(range(len(pieces) + 1)))
        pool.run_pieces(work, bounds, seconds=self.rows * self.n * SECONDS_PER_SAMPLE, num_threads=threads)
        return sums.totals(self.num_threads)

    def _count_with_numpy(self, weight, low, n_classes, n_groups):
        """Count few samples with NumPy: return tables (rows, G, C, C), as kernels do, and the pairs out of range."""
        cells = n_groups * n_classes**2
        i, j = (np.asarray(y, np.int64).view(np.uint64) - np.uint64(low % 2**64) for y in (self.y_true, self.y_pred))
        inside = np.maximum(i, j) < n_classes  # unsigned: one comparison for both ends
        cell = i * np.uint64(n_classes) + j
        if self.groups is not None:
            cell = cell + np.asarray(self.groups, np.int64).view(np.uint64) * np.uint64(n_classes**2)
        if self.rows > 1:
            cell = cell + np.arange(self.rows, dtype=np.uint64)[:, None] * np.uint64(cells)
        outside = left_out = inside.size - np.count_nonzero(inside)
        if self.ignored is not None:
            seen = np.asarray(self.y_true, np.int64).view(np.uint64) != self.ignored
            outside, inside = np.count_nonzero(~inside & seen), inside & seen
            left_out = inside.size - np.count_nonzero(inside)
        if left_out:
            inside = np.broadcast_to(inside, cell.shape)
            cell = cell[inside]
            weight = None if weight is None else np.broadcast_to(weight, inside.shape)[inside]
        elif weight is not None:
            weight = np.broadcast_to(weight, cell.shape).reshape(-1)
        cell = cell.reshape(-1).view(np.int64)
        if weight is None or weight.dtype.kind == "f":
            table = np.bincount(cell, weight, self.rows * cells)
        else:  # bincount adds in float64
            table = np.zeros(self.rows * cells, np.int64)
            np.add.at(table, cell, weight.astype(np.int64))
        if weight is not None and weight.dtype.kind == "f":
            table = table.astype(np.float64, copy=False)  # int64 if no sample counts
        return table.reshape(self.rows, n_groups, n_classes, n_classes), outside


def block(array, rows, samples, dtype):
    """Return rows and samples of `array`, contiguous and read-only, in a type that kernels are compiled for."""
    if array is None:
        return None
    block = array[rows if array.shape[0] > 1 else slice(None), samples]
    block = np.ascontiguousarray(block, dtype).view()
    if dtype is None:
        block = block.view(VIEWS[block.dtype])
    block.flags.writeable = False
    return block


def confusion_matrix(y_true, y_pred, weight, groups, *, n_classes, labels, n_groups, ignored=None, num_threads=None):
    """Count pairs of labels into confusion matrices; return matrices, status, and labels out of range.

    Arguments are those of the public function. The last result is None, or a tuple: the name of the argument, the
    limit, the number of values out of range, and the first of them as (index, value).
    """
    one_row = groups is labels is ignored is None and y_true.ndim == 1 and y_true.size and y_true.shape == y_pred.shape
    if one_row and (weight is None or (weight.dtype in WEIGHTS and weight.shape == y_true.shape)):
        table = _count_pairs(y_true, y_pred, weight, n_classes, num_threads)
        if table is not None:
            return table, FINE, None
    elif labels is None and y_true.ndim == 1 and max(0, MOST_NUMPY_SAMPLES) < y_true.size <= SAMPLES_PER_PIECE:
        arrays = y_true, y_pred, weight, groups
        if all(a is None or a.shape == y_true.shape for a in arrays):
            table = _count_one_piece(*arrays, n_classes, n_groups, ignored)
            if table is not None:
                return table, FINE if groups is None else np.zeros(len(table), np.int8), None
    samples = _LabelSamples(y_true, y_pred, weight, groups, ignored, num_threads)
    if weight is not None and weight.dtype.kind != "f" and not samples.fit():
        options = {"n_classes": n_classes, "labels": labels, "n_groups": n_groups, "ignored": ignored}
        low, high = (confusion_matrix(y_true, y_pred, half, groups, **options) for half in halves.split_halves(weight))
        if low[2] is not None:
            return low
        table, good = halves.join_halves(low[0], high[0])
        good = good.all(axis=(-2, -1))
        return table * good[..., None, None], np.where(good, np.int8(OK), np.int8(INVALID)), None
    if groups is None:
        n_tables = 1
    else:
        lowest, highest = samples.span(samples.groups)
        n_tables = highest + 1 if n_groups is None else n_groups
        if lowest < 0 or highest >= n_tables:
            return None, None, find_outside(np, n_groups, groups=groups)
    weighted = weight is not None
    if n_classes is not None:
        table, outside = samples.tables(0, n_classes, n_tables, weighted=weighted)
        if outside:
            return None, None, find_outside(np, n_classes, ignored, y_true=y_true, y_pred=y_pred)
    else:
        table = _count_range(samples, labels, n_tables) if _are_integers(y_true, y_pred, labels) else None
        if table is None:
            y_true, y_pred, low, n_classes = _map_labels(y_true, y_pred, labels, ignored, num_threads)
            samples = _LabelSamples(y_true, y_pred, weight, groups, None, num_threads)
            table, _ = samples.tables(low, n_classes, n_tables, weighted=weighted)
    return (*_shape_tables(table, samples.batch, groups is not None, weight), None)


def _count_pairs(y_true, y_pred, weight, n_classes, num_threads):
    """Count pairs of one row into a matrix, or add their float weights in their order; None in the general case."""
    n = y_true.size
    if weight is not None and n > SAMPLES_PER_PIECE:
        return None
    if n_classes is None:
        found = count_occurring(y_true, y_pred, FEW_LABELS, num_threads, weight)
        table = _count_far_apart(y_true, y_pred, weight) if found is None else found[0]
    elif n <= MOST_NUMPY_SAMPLES:
        few = n_classes <= MOST_FEW_CLASSES
        found = _count_few(y_true, y_pred, n_classes, n_classes, weight) if few else None
        table = None if found is None else found[0]
    elif n > SAMPLES_PER_PIECE:
        return None
    else:
        table, outside = _count_piece(y_true, y_pred, n_classes, weight)
        if outside:
            return None
    return table if weight is None or table is None or _are_finite(table, weight) else None


def _count_one_piece(y_true, y_pred, weight, groups, n_classes, n_groups, ignored):
    """Count one piece of pairs of one row, of groups or with integer weights or an ignored label.

    Return a matrix, or one for each group; None in the general case.
    """
    if groups is not None:
        highest = _find_highest(groups)
        n_groups = highest + 1 if n_groups is None else n_groups
        if highest >= n_groups:
            return None
    C = n_classes
    if C is None:
        C = max(map(_find_highest, (y_true, y_pred))) + 1
    shape = (1 if groups is None else n_groups, C, C)
    if math.prod(shape) > MOST_LABEL_SPAN**2 or (n_classes is None and weight is not None):
        return None
    sums = np.float64 if weight is not None and weight.dtype.kind == "f" else np.int64
    wide = weight is not None and sums is np.int64 and weight.dtype.itemsize == 8
    if wide and not halves.fits(int(weight.min()), int(weight.max()), weight.size):
        return None
    dtype = None if y_true.dtype == y_pred.dtype and y_true.dtype in VIEWS else np.int64
    truth, guess = (block(y[None], ALL, ALL, dtype) for y in (y_true, y_pred))
    weights = None if weight is None else block(weight[None], ALL, ALL, sums)
    table, outside, classes = np.zeros((1, math.prod(shape)), sums), np.zeros(1, np.int64), (np.uint64(0), np.uint64(C))
    if groups is None and ignored is None:
        _add_weights(truth, guess, weights, classes, table, outside)
    else:
        numbers = None if groups is None else block(groups[None], ALL, ALL, np.int64)
        skipped = None if ignored is None else np.uint64(ignored % 2**64)
        _count_rows(truth, guess, weights, numbers, classes, skipped, table, outside)
    if outside[0] or (sums is np.float64 and not _are_finite(table, weight)):
        return None
    table = table.reshape(shape)
    if n_classes is None:
        table = _select_labels(table, _find_occurring(table))
    return table[0] if groups is None else table


def _find_highest(numbers):
    """Return the highest of some integers; a negative one counts as more than any other."""
    if numbers.dtype.kind != "u":
        numbers = np.asarray(numbers, np.int64).view(UINT64)
    return int(np.maximum.reduce(numbers))


def _count_far_apart(y_true, y_pred, weight):
    """Count at most one piece of pairs of labels far apart, or add their weights; None for other labels."""
    found = distinct.encode_far_apart(y_true, y_pred) if y_true.size <= SAMPLES_PER_PIECE else None
    if found is None:
        return None
    classes, truth, guess = found
    C = len(classes)
    if y_true.size > MOST_NUMPY_SAMPLES or C > MOST_LABEL_SPAN:
        return _count_piece(truth, guess, C, weight)[0]
    cells = truth * np.int64(C) + guess
    return np.bincount(cells, weight, C * C).reshape(C, C)


def _are_finite(table, weight):
    """Return whether all sums of weights are finite; read the smaller of both arrays."""
    if 0 < weight.size < table.size:
        # NaN is the extreme of an array that has one, and fails both comparisons.
        limit = SAFE_SUM / weight.size
        if -limit < float(weight.min()) and float(weight.max()) < limit:
            return True
    return bool(np.isfinite(table).all())


def count_occurring(y_true, y_pred, most, num_threads=None, weight=None):
    """Count pairs of labels into a matrix of the labels that occur; return it and these labels.

    None for labels that are negative or not below `most`, or where another way is faster. Arrays are of shape (n,).
    With float weights, of at most one piece of pairs, these are added in their order.
    """
    n = y_true.size
    if n <= MOST_NUMPY_SAMPLES:
        return _count_few(y_true, y_pred, None, most, weight)
    highest = _guess_highest(y_true, y_pred)
    # A table of just these labels needs no copy; among many pairs a larger one avoids a second count.
    span = highest + 1 if n <= MOST_COUNTED_TWICE or weight is not None else 1 << highest.bit_length()
    for is_last in (False, True):
        if not 0 < span <= min(most, MOST_LABEL_SPAN) or (weight is None and span > LEAST_LARGE_SPAN and n < span**2):
            return None
        if n <= SAMPLES_PER_PIECE:
            table, outside = _count_piece(y_true, y_pred, span, weight)
        else:
            samples = _LabelSamples(y_true, y_pred, None, None, None, num_threads)
            table, outside = samples.tables(0, span, 1, weighted=False)
            table = table[0, 0]
        if not outside:
            if np.count_nonzero(table.diagonal()) == span:
                return table, np.arange(span)
            # A label whose pairs weigh nothing occurs nonetheless.
            return _select_occurring(table, table if weight is None else _count_piece(y_true, y_pred, span)[0])
        if is_last or min(int(y.min()) for y in (y_true, y_pred)) < 0:
            return None
        span = max(int(y.max()) for y in (y_true, y_pred)) + 1
    return None


def _guess_highest(y_true, y_pred):
    """Return the highest label of a few samples."""
    step = max(1, y_true.size // SAMPLED_LABELS)
    return max(int(y_true[::step].max()), int(y_pred[::step].max()))


def _select_occurring(table, counts):
    """Return the rows and columns of a square table of the labels that the counts show to occur, and these labels."""
    order = _find_occurring(counts)
    return _select_labels(table, order), order


def _find_occurring(counts):
    """Return the labels that occur in square tables of counts."""
    counts = counts.any(axis=tuple(range(counts.ndim - 2)))
    return (counts.any(axis=0) | counts.any(axis=1)).nonzero()[0]


def _select_labels(tables, order):
    """Return the rows and columns of square tables of some labels, in ascending order."""
    if order.size == tables.shape[-1]:
        return tables
    if _are_range(order):  # a copy by rows takes a fraction of the time
        return np.ascontiguousarray(tables[..., order[0] : order[-1] + 1, order[0] : order[-1] + 1])
    return tables[..., order[:, None], order]


def _count_piece(y_true, y_pred, n_classes, weight=None):
    """Count the pairs of a row that is not split, or add their float weights; return matrix and pairs out of range."""
    dtype = None if y_true.dtype == y_pred.dtype and y_true.dtype in VIEWS else np.int64
    truth, guess = (block(y[None], ALL, ALL, dtype) for y in (y_true, y_pred))
    out = np.zeros((1, n_classes**2), np.int64 if weight is None else np.float64)
    outside = np.zeros(1, np.int64)
    if weight is None:
        _count_unweighted(truth, guess, 0, n_classes, out, outside)
    else:
        weights = block(weight[None], ALL, ALL, np.float64)
        _add_weights(truth, guess, weights, (np.uint64(0), np.uint64(n_classes)), out, outside)
    return out.reshape(n_classes, n_classes), int(outside[0])


def _count_few(y_true, y_pred, n_classes, most, weight=None):
    """Count a few small labels with NumPy, or add float weights; return matrix and labels that occur, or None.

    None if labels are large, negative or not below `n_classes`, or if more than `most` occur. In the general path
    Python overhead would be nearly all of the time.
    """
    truth = y_true if y_true.dtype is INT64 else y_true.astype(np.int64)
    guess = y_pred if y_pred.dtype is INT64 else y_pred.astype(np.int64)
    both = np.concatenate((truth, guess))
    # Unsigned: one comparison for both ends.
    if np.maximum.reduce(both.view(UINT64)) >= (FEW_LABELS if n_classes is None else n_classes):
        return None
    C, order = n_classes, None
    if C is None:
        frequencies = np.bincount(both)
        order = frequencies.nonzero()[0]
        C = order.size
        if most < C:
            return None
        if frequencies.size > C:
            places = np.empty(frequencies.size, np.int64)
            places[order] = np.arange(C)
            truth, guess = places[truth], places[guess]
    return np.bincount(truth * C + guess, weight, C * C).reshape(C, C), order


def _count_range(samples, labels, n_groups):
    """Count a whole range of labels, then select `labels` or those that occur; None if the range is too wide."""
    weighted = samples.weight is not None

    def fits(span):
        """Return whether a table of this label range is small enough."""
        n = span[1] - span[0] + 1
        cells = samples.rows * n_groups * n * n
        return n <= MOST_LABEL_SPAN and cells <= max(MOST_LABEL_SPAN**2, 4 * samples.rows * samples.n)

    def count(span, *, weighted):
        """Count into tables of this label range; return them and the number of pairs out of range."""
        return samples.tables(span[0], span[1] - span[0] + 1, n_groups, weighted=weighted)

    if labels is not None:
        span = (int(labels.min()), int(labels.max()))
        if not fits(span):
            return None
        order = np.asarray(labels.astype(object) - span[0], np.intp)
        return count(span, weighted=weighted)[0][..., order[:, None], order]
    step = max(1, samples.n // GUESS)
    low, high = samples.span(samples.y_true[:GUESS, ::step], samples.y_pred[:GUESS, ::step])
    # To find the labels of few samples takes less time than to clear two large tables.
    few = high - low >= LEAST_LARGE_SPAN and MOST_NUMPY_SAMPLES < samples.n < (high - low) ** 2
    if not fits((low, high)) or (few and not weighted):
        return None
    # The range of a sample, widened, usually suffices.
    span = (0, (1 << high.bit_length()) - 1) if low >= 0 and 0 <= high < MOST_LABEL_SPAN else (low, high)
    table, outside = count(span, weighted=False) if fits(span) else (None, True)
    if outside:
        span = samples.span(samples.y_true, samples.y_pred)
        table = count(span, weighted=False)[0] if fits(span) else None
    if table is None:
        return None
    order = _find_occurring(table)
    if weighted:  # a label whose samples all weigh nothing occurs nonetheless
        table, _ = count(span, weighted=True)
    return _select_labels(table, order)


def _are_integers(*arrays):
    """Return whether all are integers that 64 bits distinguish: no uint64 above 2**63 next to signed types."""
    given = [a for a in arrays if a is not None]
    if any(a.dtype.kind not in "bui" for a in given):
        return False
    large = any(a.dtype == np.uint64 and a.size and int(a.max()) >= 2**63 for a in given)
    return not (large and any(a.dtype.kind == "i" for a in given))


def _map_labels(y_true, y_pred, labels, ignored, num_threads):
    """Map labels to indices in `labels`, or in the sorted distinct labels; -1 if absent or ignored.

    Labels that are only predicted where the truth is ignored do not count as present. The third result is the lowest
    index, 0 unless the distinct labels are a whole range: then they are returned as they are.
    """
    classes, given = labels, (y_true, y_pred)
    if labels is None:
        if ignored is not None:
            truth, guess = np.broadcast_arrays(y_true, y_pred)
            seen = truth != ignored
            given = truth[seen], guess[seen]
        classes = distinct.find_distinct(*given, num_threads=num_threads)
        if ignored is None and _are_range(classes) and _are_integers(y_true, y_pred):
            return y_true, y_pred, int(classes[0]), len(classes)
    truth = distinct.find_positions(y_true, classes, ignored=ignored, num_threads=num_threads)
    return truth, distinct.find_positions(y_pred, classes, num_threads=num_threads), 0, len(classes)


def _are_range(integers):
    """Return whether sorted distinct integers are consecutive int64."""
    return integers.dtype == INT64 and integers.size > 0 and int(integers[-1]) - int(integers[0]) < integers.size


def _shape_tables(table, batch, grouped, weight):
    """Reshape the tables to the batch, and set those that are not finite to NaN with status INVALID."""
    shape = (*batch, *(table.shape[1:2] if grouped else ()))
    table = table.reshape(*shape, *table.shape[-2:])
    status = np.zeros(shape, np.int8)
    if weight is None or weight.dtype.kind != "f":
        return table, status
    if not _are_finite(table, weight):
        status[~np.isfinite(table).all(axis=(-2, -1))] = INVALID
        table[status != OK] = np.nan
    return table, status
