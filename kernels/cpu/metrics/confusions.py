"""One-vs-rest tables, row-normalised confusions, the largest confusions, and class sums counted from labels."""

import math
from functools import partial
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import accumulators, batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.counting import SAMPLES_PER_PIECE, VIEWS, block
from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.metrics.values import margins
from cmfast.kernels.shared import halves
from cmfast.kernels.shared.metrics import ClassSums
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_RANKED_CELL = 3e-9
SECONDS_PER_LABEL_PAIR, SECONDS_PER_PLAIN_PAIR = 7e-9, 1.3e-9  # plain: without weights, groups and ignored labels
LEAST_PAIRS_PER_CLASS = 16  # of a piece, so that adding its tables takes a small share of its time
LEAST_PAIRS_PER_TABLE_ROW = 8  # of a thread that has tables of its own, which are smaller than the labels
DIAGONAL, ROW, COL = int(ClassSums.DIAGONAL), int(ClassSums.ROW), int(ClassSums.COL)
BAND, TOP = int(ClassSums.BAND), int(ClassSums.TOP)


def one_vs_rest(M, *, num_threads=None):
    """Return [[tn, fp], [fn, tp]] of every class, and the status."""
    d, t, p, _, _, total, status = margins(M, num_threads=num_threads)
    false, missed = p - d, t - d
    rejected = np.maximum((np.asarray(total)[..., None] - t) - false, 0)
    table = np.stack([np.stack([rejected, false], -1), np.stack([missed, d], -1)], -2)
    return table.astype(M.dtype if M.dtype == np.float32 else table.dtype, copy=False), status


def confusion_fractions(M, *, fill, num_threads=None):
    """Return cells divided by their row sum, `fill` in a row without mass, and the status."""
    _, t, _, _, _, _, status = margins(M, num_threads=num_threads)
    out = np.full(M.shape, fill, batches.result_dtype(M))
    np.divide(M, t[..., None], out=out, where=(t > 0)[..., None], casting="same_kind")
    out[np.asarray(status) != 0] = np.nan
    return out, status


@jit()
def _rank_confusions(M, t, status, rate, symmetric, largest, start, stop):
    """Write the k largest off-diagonal cells of every matrix, sorted: values, rows and columns."""
    out, out_row, out_col = largest
    C, k = M.shape[1], out.shape[1]
    for b in range(start, stop):
        found = 0
        if status[b] != 0:
            out[b] = np.nan
            out_row[b] = -1
            out_col[b] = -1
            continue
        for i in range(C):
            for j in range(i + 1 if symmetric else 0, C):
                if i == j:
                    continue
                value = _share(M[b, i, j], t[b, i]) if rate else np.float64(M[b, i, j])
                if symmetric:
                    value += _share(M[b, j, i], t[b, j]) if rate else np.float64(M[b, j, i])
                # Insertion sort: cells come row by row, so that ties keep that order.
                if found == k and not value > out[b, k - 1]:
                    continue
                position = found if found < k else k - 1
                while position > 0 and out[b, position - 1] < value:
                    out[b, position] = out[b, position - 1]
                    out_row[b, position] = out_row[b, position - 1]
                    out_col[b, position] = out_col[b, position - 1]
                    position -= 1
                out[b, position], out_row[b, position], out_col[b, position] = value, i, j
                found = min(found + 1, k)


@jit(inline=True)
def _share(x, total):
    """Return ``x / total``, or 0 for an empty total."""
    return np.float64(x) / np.float64(total) if total > 0 else 0.0


def most_confused(M, *, k, by, num_threads=None):
    """Return value, row and column of the `k` largest confusions, ties by row, then column; and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    rate, symmetric = by.endswith("rate"), by.startswith("symmetric")
    k = min(k, C * (C - 1) // (2 if symmetric else 1))
    _, t, _, _, _, _, status = margins(M, num_threads=num_threads)
    cells = M if M.dtype.kind == "f" else M.astype(np.int64, copy=False)
    flat = batches.flat_batch(batches.as_floating(cells) if cells.dtype.kind == "f" else cells, 2)
    n = len(flat)
    out, row, col = np.empty((n, k)), np.empty((n, k), np.int64), np.empty((n, k), np.int64)
    args = (flat, t.reshape(n, C), np.reshape(status, n), rate, symmetric, (out, row, col))
    if k:
        seconds = n * C * C * SECONDS_PER_RANKED_CELL
        pool.run(_rank_confusions, args, n, seconds=seconds, num_threads=num_threads)
    shape = (*batch, k)
    return out.reshape(shape), row.reshape(shape), col.reshape(shape), status


@jit()
def _count_class_sums(y, p, weight, groups, ignored, C, ordered, sums):
    """Count labels into the :class:`ClassSums` of each group; return how many pairs are out of range.

    Bands and tops are counted only if `ordered`.
    """
    outside = 0
    for i in range(len(y)):
        truth, guess = np.int64(y[i]), np.int64(p[i])
        if ignored is not None:  # noqa: SIM102 - it is nothing that is compiled, which a longer condition would be
            if truth == ignored:
                continue
        if not (0 <= truth < C and 0 <= guess < C):
            outside += 1
            continue
        at = 0 if groups is None else np.int64(groups[i]) * C
        one = 1 if weight is None else weight[i]
        sums[ROW, at + truth] += one
        sums[COL, at + guess] += one
        if ordered:
            sums[BAND, at + abs(truth - guess)] += one
            sums[TOP, at + max(truth, guess)] += one
        if truth == guess:
            sums[DIAGONAL, at + truth] += one
    return outside


@jit()
def _count_class_pairs(y, p, agreements, others, bands):
    """Count unweighted pairs into uint32 tables; return how many pairs are out of range.

    `agreements` counts pairs of equal classes, `bands` others by the distance of their classes. Their true, predicted
    and larger class are counted in the first three columns of `others` (C, 4), so that one class is one cache line.
    """
    outside, one, n = 0, np.uint32(1), np.uint64(len(agreements))
    for k in range(len(y)):
        i, j = np.uint64(y[k]), np.uint64(p[k])
        if i < n and j < n:
            if i == j:
                agreements[i] += one
            else:
                others[i, 0] += one
                others[j, 1] += one
                others[max(i, j), 2] += one
                bands[i - j if i > j else j - i] += one
        else:
            outside += 1
    return outside


@jit()
def _count_margins(y, p, rows, guesses):
    """Count unweighted pairs by true and by predicted class; return how many pairs are out of range.

    The lower half of ``rows[c]`` (uint64) counts the pairs of true class c, the upper half those that agree, so that a
    pair writes to two places and the loop has no branch that depends on whether it agrees.
    """
    outside, one, n, half = 0, np.uint64(1), np.uint64(len(rows)), np.uint64(32)
    for k in range(len(y)):
        i, j = np.uint64(y[k]), np.uint64(p[k])
        if i < n and j < n:
            rows[i] += one | (np.uint64(i == j) << half)
            guesses[j] += np.uint32(1)
        else:
            outside += 1
    return outside


@jit()
def _add_margins(rows, guesses, sums, start, stop):
    """Add the tables of :func:`_count_margins` to the :class:`ClassSums` of some classes; return 0."""
    for c in range(start, stop):
        sums[DIAGONAL, c] += np.int64(rows[c] >> np.uint64(32))
        sums[ROW, c] += np.int64(rows[c] & np.uint64(0xFFFFFFFF))
        sums[COL, c] += np.int64(guesses[c])
    return np.int64(0)


@jit()
def _add_class_pairs(agreements, others, bands, sums, start, stop):
    """Add the tables of :func:`_count_class_pairs` to the :class:`ClassSums` of some classes; return their diagonal.

    That is what the band at distance 0 lacks.
    """
    total = np.int64(0)
    for c in range(start, stop):
        agree = np.int64(agreements[c])
        total += agree
        sums[DIAGONAL, c] += agree
        sums[ROW, c] += np.int64(others[c, 0]) + agree
        sums[COL, c] += np.int64(others[c, 1]) + agree
        sums[TOP, c] += np.int64(others[c, 2]) + agree
        sums[BAND, c] += np.int64(bands[c])
    return total


def label_margins(y, p, weight, groups, *, n_classes, n_groups, ignored=None, ordered=True, num_threads=None):
    """Return the class sums of label pairs, without their matrices; total, status, pairs out of range.

    `weight` and `groups` have the shape of `y`, or are None. Bands and tops, which only metrics of ordered classes
    read, may be 0 unless `ordered`.
    """
    integers = weight is not None and weight.dtype.kind != "f" and weight.size
    if integers and not halves.fits(int(weight.min()), int(weight.max()), y.shape[-1]):
        options = {"n_classes": n_classes, "n_groups": n_groups, "ignored": ignored}
        options |= {"ordered": ordered, "num_threads": num_threads}
        return merge_halves(*(label_margins(y, p, half, groups, **options) for half in halves.split_halves(weight)))
    batch, n = y.shape[:-1], y.shape[-1]
    rows = math.prod(batch)
    kind = np.int64 if weight is None or weight.dtype.kind != "f" else np.float64
    samples = tuple(None if a is None else a.reshape(rows, n) for a in (y, p, weight, groups))
    same = y.dtype == p.dtype and y.dtype in VIEWS
    dtypes = (None, None, kind, np.int64) if same else (np.int64, np.int64, kind, np.int64)
    cells = n_classes * (1 if n_groups is None else n_groups)
    is_plain = weight is None and groups is None and ignored is None
    seconds = rows * n * (SECONDS_PER_PLAIN_PAIR if is_plain else SECONDS_PER_LABEL_PAIR)
    out, outside = np.zeros((rows, SUMS, cells), kind), np.zeros(rows, np.int64)
    kernels: Any = (_count_class_pairs, _add_class_pairs) if ordered else (_count_margins, _add_margins)
    count_pairs, add_tables = kernels

    def blocks(b, start, stop):
        """Yield samples `start` to `stop` of row `b` in blocks: truth, prediction, weight and group."""
        for first in range(start, stop, SAMPLES_PER_PIECE):
            pool.checkpoint()
            last = min(first + SAMPLES_PER_PIECE, stop)
            given = [block(a, slice(b, b + 1), slice(first, last), d) for a, d in zip(samples, dtypes, strict=True)]
            yield [None if a is None else a[0] for a in given]

    def count_plain(b, tables, start, stop):
        """Count samples `start` to `stop` of row `b` into `tables`; return the pairs out of range."""
        return sum(count_pairs(truth, guess, *tables) for truth, guess, _, _ in blocks(b, start, stop))

    def count(b, sums, start, stop):
        """Count samples `start` to `stop` of row `b` into `sums`; return the pairs out of range."""
        if is_plain and 0 < n_classes <= stop - start < 2**32:
            tables = _make_tables(n_classes, ordered)
            number = count_plain(b, tables, start, stop)
            sums[BAND, 0] += add_tables(*tables, sums, 0, n_classes)
            return number
        return sum(
            _count_class_sums(truth, guess, own, group, ignored, n_classes, ordered, sums)
            for truth, guess, own, group in blocks(b, start, stop)
        )

    def work(_, start, stop):
        """Count whole rows."""
        for b in range(start, stop):
            outside[b] = count(b, out[b], 0, n)

    if rows == 1 and is_plain and 0 < n_classes <= n < 2**32:
        make = partial(_make_tables, n_classes, ordered)
        outside[0] = _count_in_tables(count_plain, add_tables, make, n, out[0], seconds, num_threads)
    elif rows == 1:
        _count_in_pieces(count, n, cells, out[0], outside, seconds, num_threads)
    elif rows:
        pool.run_pieces(work, pool.pieces(rows, seconds), seconds=seconds, num_threads=num_threads)
    shape = batch if n_groups is None else (*batch, n_groups)
    sums = out.swapaxes(0, 1).reshape(SUMS, *shape, n_classes)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.asarray(sums[ROW].sum(-1))
    status = np.zeros(shape, np.int8)
    if kind is np.float64:
        status[~np.isfinite(sums).all(axis=(0, -1))] = INVALID
        sums[:, status != OK], total[status != OK] = np.nan, np.nan
    return (*sums, total, status, int(outside.sum()))


def _make_tables(C, ordered):
    """Return the empty tables that pairs of `C` classes are counted into."""
    if ordered:
        return np.zeros(C, np.uint32), np.zeros((C, 4), np.uint32), np.zeros(C, np.uint32)
    return np.zeros(C, np.uint64), np.zeros(C, np.uint32)


def _count_in_tables(count, add_tables, make, n, out, seconds, num_threads):
    """Count one long row in parallel, each thread into tables that ``make`` returns; return the pairs out of range."""
    sets = accumulators.Accumulators(make=lambda: (make(), np.zeros(1, np.int64)))

    def work(_, start, stop):
        """Count one piece into tables that no other thread is using."""
        tables, outside = mine = sets.take()
        outside[0] += count(0, tables, start, stop)
        sets.give_back(mine)

    C = out.shape[1]
    threads = max(1, min(num_threads or pool.cpu_count(), n // (LEAST_PAIRS_PER_TABLE_ROW * C)))
    pool.run_pieces(work, pool.free_pieces(n, seconds), seconds=seconds, num_threads=threads)
    found = sets.list_sets()
    diagonals: list[int] = []

    def add(_, start, stop):
        """Add a range of classes of all tables."""
        diagonals.extend(add_tables(*tables, out, start, stop) for tables, _ in found)

    seconds = len(found) * out.size * accumulators.SECONDS_PER_ADDED_NUMBER
    pool.run_pieces(add, pool.pieces(C, seconds), seconds=seconds, num_threads=num_threads)
    out[BAND, 0] += sum(diagonals)
    return sum(int(outside[0]) for _, outside in found)


def merge_halves(low, high):
    """Add the class sums of the two halves of large integer weights; where a total exceeds int64 all are 0."""
    total, good = halves.join_halves(low[SUMS], high[SUMS])
    sums = []
    for a, b in zip(low[:SUMS], high[:SUMS], strict=True):
        part, held = halves.join_halves(a, b)
        good = good & held.all(-1)
        sums.append(part)
    status = np.where(good, np.int8(OK), np.int8(INVALID))
    return (*(part * good[..., None] for part in sums), total * good, status, low[-1])


def _count_in_pieces(count, n, cells, out, outside, seconds, num_threads):
    """Count one long row in parallel, and add what the threads found; few pieces if there are many classes."""
    if out.dtype == np.float64:  # a table per piece, so that the bits do not depend on the threads
        bounds = pool.pieces(n, seconds, most=max(1, min(8, n // (4 * max(1, cells)))))
        parts = np.zeros((len(bounds), SUMS, cells))
        numbers = np.zeros(len(bounds), np.int64)

        def work(i, start, stop):
            """Count piece `i` into its own table."""
            numbers[i] = count(0, parts[i], start, stop)

        if n:
            pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
        with np.errstate(invalid="ignore", over="ignore"):
            for part in parts:
                out += part
        outside[0] = numbers.sum()
        return
    sums = accumulators.Accumulators((SUMS, cells), (1,))

    def add(_, start, stop):
        """Count one piece into tables that no other thread is using."""
        mine, number = sums.take()
        number[0] += count(0, mine, start, stop)
        sums.give_back((mine, number))

    most = max(1, n // (LEAST_PAIRS_PER_CLASS * max(1, cells)))
    bounds = pool.free_pieces(n, seconds, most=min(pool.MOST_FREE_PIECES, most))
    if n:
        pool.run_pieces(add, bounds, seconds=seconds, num_threads=num_threads)
    out[:], outside[:] = sums.totals(num_threads)
