"""Replicates as sums, in tiles of eight: nothing else of a replicate is kept, and no matrix of it is ever made.

Multinomial replicates are the very draws of ``resample``. What is drawn from a posterior, or left out of a matrix one
sample at a time, are fractions.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics._margins import FIRST, HUGE, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.cpu.uncertainty._draws import begin, exponential, log_gamma, seek
from cmfast.kernels.cpu.uncertainty._together import LINES, MOST_DRAWN, spread_together
from cmfast.kernels.cpu.uncertainty.resample import draw_rows
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


def repeat_lanes(sums, lines, count):
    """Fill the lanes past those of `count` matrices, in the last tile, with its first one."""
    tile = sums[len(sums) - lines :]
    tile[:, count - (len(sums) // lines - 1) * WIDTH :] = tile[:, :1]


@jit(inner=True)
def _add(five, i, j, x):
    five[1, i] += x
    five[2, j] += x
    five[3, abs(i - j)] += x
    five[4, max(i, j)] += x
    if i == j:
        five[0, i] = x


@jit(inner=True)
def add_line(line, more):
    """Add a number to that of every replicate."""
    for r in range(len(more)):
        line[r] += more[r]


@jit(inner=True)
def add_cell(tally, C, first, ordered, i, j, more):
    """Add samples of class `i` that were predicted as `j` to the sums of every replicate, lines from `first` on."""
    if i == j:
        add_line(tally[first + i], more)
    add_line(tally[first + C + i], more)
    add_line(tally[first + 2 * C + j], more)
    if ordered:
        add_line(tally[first + 3 * C + abs(i - j)], more)
        add_line(tally[first + 4 * C + max(i, j)], more)


@jit(inner=True)
def _write_lines(tally, C, status, most, count, first, sums):
    """Fill the lanes of `sums` from lane `first` on with `count` replicates; return whether one is above `most`."""
    whole, total, unusual, r = sums.view(np.int64), tally[SUMS * C], False, 0
    while r < count:
        w, at = (first + r) % WIDTH, (first + r) // WIDTH * (FIRST + SUMS * C)
        n = min(WIDTH - w, count - r)
        for x in range(n):
            sums[at + STATUS_LINE, w + x] = status
            sums[at + TOTAL_LINE, w + x] = sums[at + SIZE_LINE, w + x] = total[r + x]
        for k in range(SUMS * C):
            for x in range(n):
                sums[at + FIRST + k, w + x] = tally[k, r + x]
        for x in range(n):
            if total[r + x] > most:
                unusual = True
                sums[at + STATUS_LINE, w + x] = HUGE
                whole[at + TOTAL_LINE, w + x] = total[r + x]
                for k in range(SUMS * C):
                    whole[at + FIRST + k, w + x] = tally[k, r + x]
        r += n
    return unusual


@jit()
def draw_counts(shares, draws, first, most, sums, start, stop):
    """Fill `sums` with those of multinomial replicates, counted from matrix `first` on; return if one is above `most`.

    Those above it are HUGE: int64 in the same places. `draws` are the code of a scheme, the number of replicates and
    the seed.
    """
    scheme, n_replicates, seed = draws
    cells, numbers, status = shares.cells, shares.numbers, shares.status
    C = cells.shape[1]
    lines, left = np.empty((LINES, MOST_DRAWN)), np.empty(MOST_DRAWN, np.int64)
    drawn, row = np.empty((C, MOST_DRAWN), np.int64), np.empty((C, MOST_DRAWN), np.int64)
    tally = np.empty((SUMS * C + 1, MOST_DRAWN), np.int64)
    unusual, place = False, start
    while place < stop:
        b, replicate = first + place // n_replicates, place % n_replicates
        count = min(MOST_DRAWN, stop - place, n_replicates - replicate)
        tally[:] = 0
        if status[b] == OK:
            draw_rows(shares, scheme, b, replicate, seed, lines, left[:count], drawn)
            for i in range(C):
                spread_together(lines, drawn[i, :count], cells[b, i], seed, numbers[b], replicate, (1 + i) * C, row)
                for j in range(C):
                    if cells[b, i, j] > 0.0:
                        add_cell(tally, C, 0, True, i, j, row[j, :count])
                        add_line(tally[SUMS * C], row[j, :count])
        code = OK if status[b] == OK else INVALID
        unusual = _write_lines(tally, C, code, most, count, place - start, sums) or unusual
        place += count
    if stop > start:
        last = stop - start - 1
        _repeat(sums, last // WIDTH * (FIRST + SUMS * C), C, last % WIDTH + 1)
    return unusual


@jit()
def draw_posterior(alpha, shares, draws, first, sums, start, stop):
    """Fill `sums` with those of Dirichlet draws, which add up to the total of their matrix; zeros of `alpha` stay."""
    _, n_replicates, seed = draws
    total, numbers, status = shares.total, shares.numbers, shares.status
    C = alpha.shape[1]
    stream, logs, five = np.empty(6, np.uint64), np.empty((C, C)), np.empty((SUMS, C))
    for place in range(start, stop):
        w, at = (place - start) % WIDTH, (place - start) // WIDTH * (FIRST + SUMS * C)
        b, replicate = first + place // n_replicates, place % n_replicates
        five[:] = 0.0
        if status[b] == OK:
            begin(stream, seed, numbers[b])
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
