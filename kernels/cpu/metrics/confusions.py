"""Which classes are taken for which: one class against the rest, shares of the rows, the largest confusions."""

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.metrics.values import margins
from cmfast.kernels.shared.metrics import Sums

SECONDS_PER_PAIR = 3e-9
SECONDS_PER_LABEL = 7e-9
DIAGONAL, ROW, COL = int(Sums.DIAGONAL), int(Sums.ROW), int(Sums.COL)
BAND, TOP = int(Sums.BAND), int(Sums.TOP)


def one_vs_rest(M, *, num_threads=None):
    """[[tn, fp], [fn, tp]] of every class; and the status."""
    d, t, p, _, _, total, status = margins(M, num_threads=num_threads)
    false, missed = p - d, t - d
    rejected = np.maximum((np.asarray(total)[..., None] - t) - false, 0)
    table = np.stack([np.stack([rejected, false], -1), np.stack([missed, d], -1)], -2)
    return table.astype(M.dtype if M.dtype == np.float32 else table.dtype, copy=False), status


def confusion_fractions(M, *, fill, num_threads=None):
    """Cells divided by the sum of their row, `fill` in a row without mass; and the status."""
    _, t, _, _, _, _, status = margins(M, num_threads=num_threads)
    out = np.full(M.shape, fill, batches.result_dtype(M))
    np.divide(M, t[..., None], out=out, where=(t > 0)[..., None], casting="same_kind")
    out[np.asarray(status) != 0] = np.nan
    return out, status


@jit()
def _most_confused(M, t, status, rate, symmetric, largest, start, stop):
    """Keep the `largest` (values, rows, columns) of every matrix, as many as there is room for."""
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
                # Kept in order: cells come row by row, so an equal one that came before stays before.
                if found == k and not value > out[b, k - 1]:
                    continue
                place = found if found < k else k - 1
                while place > 0 and out[b, place - 1] < value:
                    out[b, place] = out[b, place - 1]
                    out_row[b, place] = out_row[b, place - 1]
                    out_col[b, place] = out_col[b, place - 1]
                    place -= 1
                out[b, place], out_row[b, place], out_col[b, place] = value, i, j
                found = min(found + 1, k)


@jit(inline=True)
def _share(x, total):
    return np.float64(x) / np.float64(total) if total > 0 else 0.0


def most_confused(M, *, k, by, num_threads=None):
    """Value, row and column of the `k` largest confusions, ties by row, then column; and the status."""
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
        seconds = n * C * C * SECONDS_PER_PAIR
        pool.run(_most_confused, args, n, seconds=seconds, num_threads=num_threads)
    shape = (*batch, k)
    return out.reshape(shape), row.reshape(shape), col.reshape(shape), status


@jit()
def _label_margins(y, p, C, sums, start, stop):
    """Count labels into the :class:`Sums`; return how many pairs are outside."""
    outside = 0
    for i in range(start, stop):
        truth, guess = y[i], p[i]
        if not (0 <= truth < C and 0 <= guess < C):
            outside += 1
            continue
        sums[ROW, truth] += 1
        sums[COL, guess] += 1
        sums[BAND, abs(truth - guess)] += 1
        sums[TOP, max(truth, guess)] += 1
        if truth == guess:
            sums[DIAGONAL, truth] += 1
    return outside


@jit()
def _label_margins_of(y, p, C, out, outside, start, stop):
    for b in range(start, stop):
        outside[b] = _label_margins(y[b], p[b], C, out[:, b], 0, y.shape[1])


def label_margins(y, p, *, n_classes, num_threads=None):
    """Return the margins of the matrices of labels, without the matrices; status; how many labels are outside."""
    batch, n = y.shape[:-1], y.shape[-1]
    truth, guess = (batches.flat_batch(a.astype(np.int64, copy=False), 1) for a in (y, p))
    out = np.zeros((SUMS, len(truth), n_classes), np.int64)
    seconds = n * len(truth) * SECONDS_PER_LABEL
    if len(truth) == 1:
        outside = _in_parts(truth[0], guess[0], n_classes, out[:, 0], seconds, num_threads)
    else:
        outside = np.zeros(len(truth), np.int64)
        if len(truth):
            args = (truth, guess, n_classes, out, outside)
            pool.run(_label_margins_of, args, len(truth), seconds=seconds, num_threads=num_threads)
    sums = tuple(part.reshape(*batch, n_classes) for part in out)
    total = np.full(batch, n, np.int64)
    return (*sums, total, np.zeros(batch, np.int8), int(outside.sum()))


def _in_parts(truth, guess, C, out, seconds, num_threads):
    """Count one long stream: every piece into tables of its own, so few of them where classes are many."""
    n = len(truth)
    bounds = pool.pieces(n, seconds, most=max(1, min(8, n // (4 * max(1, C)))))
    parts, outside = np.zeros((len(bounds), SUMS, C), np.int64), np.zeros(len(bounds), np.int64)

    def work(i, start, stop):
        outside[i] = _label_margins(truth, guess, C, parts[i], start, stop)

    if n:
        pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    parts.sum(0, out=out)
    return outside
