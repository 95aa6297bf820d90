"""Replicates as sums, in tiles of eight: nothing else of a replicate is kept, and no matrix of it is ever made.

Multinomial replicates are the very draws of ``resample``. What is drawn from a posterior, or left out of a matrix one
sample at a time, are fractions.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics._margins import FIRST, HUGE, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.cpu.uncertainty._draws import begin, exponential, log_gamma, seek
from cmfast.kernels.cpu.uncertainty.resample import ROWS_FIXED, spread
from cmfast.kernels.status import INVALID, OK


@jit(inner=True)
def _write(five, n, status, sums, at, w):
    """Fill lane `w` of a tile with the sums of one replicate."""
    C = five.shape[1]
    sums[at + STATUS_LINE, w], sums[at + SIZE_LINE, w], sums[at + TOTAL_LINE, w] = status, n, n
    for part in range(SUMS):
        for k in range(C):
            sums[at + FIRST + part * C + k, w] = five[part, k]


@jit(inner=True)
def _repeat(sums, at, C, count):
    """Fill the lanes past the last replicate with it."""
    for w in range(count, WIDTH):
        for k in range(FIRST + SUMS * C):
            sums[at + k, w] = sums[at + k, count - 1]


@jit(inner=True)
def _add(five, i, j, x):
    five[1, i] += x
    five[2, j] += x
    five[3, abs(i - j)] += x
    five[4, max(i, j)] += x
    if i == j:
        five[0, i] = x


@jit()
def draw_counts(shares, scheme, n_replicates, first, seed, most, sums, start, stop):
    """Fill `sums` with those of multinomial replicates, counted from matrix `first` on; return if one is above `most`.

    Those above it are HUGE: int64 in the same places.
    """
    cells, rows, support, _, total, status = shares
    C = cells.shape[1]
    stream, drawn, row = np.empty(6, np.uint64), np.empty(C, np.int64), np.empty(C, np.int64)
    five, whole = np.empty((SUMS, C), np.int64), sums.view(np.int64)
    unusual = False
    for place in range(start, stop):
        w, at = (place - start) % WIDTH, (place - start) // WIDTH * (FIRST + SUMS * C)
        b, replicate = first + place // n_replicates, place % n_replicates
        five[:] = 0
        n = np.int64(0)
        if status[b] == OK:
            begin(stream, seed, b)
            seek(stream, replicate, 0)
            if scheme == ROWS_FIXED:
                for i in range(C):
                    drawn[i] = np.int64(support[b, i])
            else:
                spread(stream, total[b], rows[b], drawn)
            for i in range(C):
                if drawn[i] == 0:
                    continue
                n += drawn[i]
                seek(stream, replicate, 1 + i)
                spread(stream, drawn[i], cells[b, i], row)
                for j in range(C):
                    if row[j] > 0:
                        _add(five, i, j, row[j])
        _write(five, n, OK if status[b] == OK else INVALID, sums, at, w)
        if n > most:
            unusual = True
            sums[at + STATUS_LINE, w] = HUGE
            whole[at + TOTAL_LINE, w] = n
            for part in range(SUMS):
                for k in range(C):
                    whole[at + FIRST + part * C + k, w] = five[part, k]
        if place == stop - 1:
            _repeat(sums, at, C, w + 1)
    return unusual


@jit()
def draw_shares(alpha, total, status, n_replicates, first, seed, sums, start, stop):
    """Fill `sums` with those of Dirichlet draws, which add up to `total`; zeros of `alpha` stay."""
    C = alpha.shape[1]
    stream, logs, five = np.empty(6, np.uint64), np.empty((C, C)), np.empty((SUMS, C))
    for place in range(start, stop):
        w, at = (place - start) % WIDTH, (place - start) // WIDTH * (FIRST + SUMS * C)
        b, replicate = first + place // n_replicates, place % n_replicates
        five[:] = 0.0
        if status[b] == OK:
            begin(stream, seed, b)
            largest, mass = -np.inf, 0.0
            for i in range(C):
                seek(stream, replicate, 1 + i)
                for j in range(C):
                    logs[i, j] = log_gamma(stream, alpha[b, i, j]) if alpha[b, i, j] > 0.0 else -np.inf
                    largest = max(largest, logs[i, j])
            for i in range(C):
                for j in range(C):
                    logs[i, j] = exponential(logs[i, j] - largest) if logs[i, j] > -np.inf else 0.0
                    mass += logs[i, j]
            for i in range(C):
                for j in range(C):
                    if logs[i, j] > 0.0:
                        _add(five, i, j, logs[i, j] / mass * total[b])
        _write(five, total[b], OK if status[b] == OK else INVALID, sums, at, w)
        if place == stop - 1:
            _repeat(sums, at, C, w + 1)
    return False


@jit()
def leave_out(cells, first, sums, start, stop):
    """Fill `sums` with those of matrices of counts that lack one sample, in the order of the cells.

    A cell that is empty lacks nothing; one with less than a sample becomes 0.
    """
    C = cells.shape[1]
    five, before = np.empty((SUMS, C)), -1
    n = 0.0
    for place in range(start, stop):
        w, at = (place - start) % WIDTH, (place - start) // WIDTH * (FIRST + SUMS * C)
        b, cell = first + place // (C * C), place % (C * C)
        if b != before:
            five[:], n, before = 0.0, 0.0, b
            for i in range(C):
                for j in range(C):
                    if cells[b, i, j] > 0.0:
                        _add(five, i, j, cells[b, i, j])
                        n += cells[b, i, j]
        i, j = cell // C, cell % C
        x = min(cells[b, i, j], 1.0)
        _write(five, n - x, OK if n < np.inf else INVALID, sums, at, w)
        if x > 0.0:
            for part, k in ((1, i), (2, j), (3, abs(i - j)), (4, max(i, j))):
                sums[at + FIRST + part * C + k, w] -= x
            if i == j:
                sums[at + FIRST + i, w] -= x
        if place == stop - 1:
            _repeat(sums, at, C, w + 1)
    return False
