"""Replicates (multinomial, Dirichlet posterior, leave-one-out) as class sums in tiles of eight lanes, without matrices.

Multinomial replicates equal those of ``resample`` draw by draw. Posterior draws and leave-one-out matrices are
fractional.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics._margins import FIRST, HUGE, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.cpu.uncertainty._binomial_batches import LINES, MOST_DRAWN, draw_multinomials
from cmfast.kernels.cpu.uncertainty._random_numbers import begin, draw_log_gamma, exp_nonpositive, seek
from cmfast.kernels.cpu.uncertainty.resample import draw_rows
from cmfast.kernels.status import INVALID, OK


@jit(inner=True)
def _write_lane(five, n, status, sums, at, w):
    """Write the class sums of one replicate to lane `w` of a tile."""
    C = five.shape[1]
    sums[at + STATUS_LINE, w], sums[at + SIZE_LINE, w], sums[at + TOTAL_LINE, w] = status, n, n
    for part in range(SUMS):
        for k in range(C):
            sums[at + FIRST + part * C + k, w] = five[part, k]


@jit(inner=True, borrows=True)
def _pad_lanes(sums, at, C, count):
    """Copy the last replicate to the remaining lanes of its tile."""
    for w in range(count, WIDTH):
        for k in range(FIRST + SUMS * C):
            sums[at + k, w] = sums[at + k, count - 1]


def repeat_lanes(sums, lines, count):
    """Copy the first lane of the last tile to its lanes after the last of `count` matrices."""
    tile = sums[len(sums) - lines :]
    tile[:, count - (len(sums) // lines - 1) * WIDTH :] = tile[:, :1]


@jit(inner=True, borrows=True)
def _add_to_sums(five, i, j, x):
    """Add cell (i, j) with value `x` to the five class sums of one matrix."""
    five[1, i] += x
    five[2, j] += x
    five[3, abs(i - j)] += x
    five[4, max(i, j)] += x
    if i == j:
        five[0, i] = x


@jit(inner=True, borrows=True)
def add_line(line, more):
    """Add `more` to `line` in place, replicate by replicate."""
    for r in range(len(more)):
        line[r] += more[r]


@jit(inner=True, borrows=True)
def add_cell(tally, C, first, ordered, i, j, more):
    """Add each replicate's count of cell (i, j) to its class sums, stored from line `first` on."""
    if i == j:
        add_line(tally[first + i], more)
    add_line(tally[first + C + i], more)
    add_line(tally[first + 2 * C + j], more)
    if ordered:
        add_line(tally[first + 3 * C + abs(i - j)], more)
        add_line(tally[first + 4 * C + max(i, j)], more)


@jit(inner=True)
def _write_replicates(tally, C, status, most, count, first, sums):
    """Copy the class sums of `count` replicates to lanes from `first` on; return whether a total exceeds `most`."""
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
def draw_multinomial(shares, draws, first, most, sums, start, stop):
    """Draw multinomial replicates `start` to `stop`, counted from matrix `first` on, and write their class sums.

    Return whether a total exceeds `most`; those are HUGE, int64 bits in the same lanes. `draws` is the code of a
    scheme, the number of replicates and the seed.
    """
    scheme, n_resamples, seed = draws
    cells, numbers, status = shares.cells, shares.numbers, shares.status
    C = cells.shape[1]
    lines, left = np.empty((LINES, MOST_DRAWN)), np.empty(MOST_DRAWN, np.int64)
    drawn, row = np.empty((C, MOST_DRAWN), np.int64), np.empty((C, MOST_DRAWN), np.int64)
    tally = np.empty((SUMS * C + 1, MOST_DRAWN), np.int64)
    unusual, draw = False, start
    while draw < stop:
        b, replicate = first + draw // n_resamples, draw % n_resamples
        count = min(MOST_DRAWN, stop - draw, n_resamples - replicate)
        tally[:] = 0
        if status[b] == OK:
            draw_rows(shares, scheme, b, replicate, seed, lines, left[:count], drawn)
            for i in range(C):
                draw_multinomials(lines, drawn[i, :count], cells[b, i], seed, numbers[b], replicate, (1 + i) * C, row)
                for j in range(C):
                    if cells[b, i, j] > 0.0:
                        add_cell(tally, C, 0, True, i, j, row[j, :count])
                        add_line(tally[SUMS * C], row[j, :count])
        code = OK if status[b] == OK else INVALID
        unusual = _write_replicates(tally, C, code, most, count, draw - start, sums) or unusual
        draw += count
    if stop > start:
        last = stop - start - 1
        _pad_lanes(sums, last // WIDTH * (FIRST + SUMS * C), C, last % WIDTH + 1)
    return unusual


@jit()
def draw_posterior(alpha, shares, draws, first, sums, start, stop):
    """Draw Dirichlet replicates, scaled to the total of their matrix, and write their class sums; alpha 0 stays 0."""
    _, n_resamples, seed = draws
    total, numbers, status = shares.total, shares.numbers, shares.status
    C = alpha.shape[1]
    stream, logs, five = np.empty(6, np.uint64), np.empty((C, C)), np.empty((SUMS, C))
    for draw in range(start, stop):
        w, at = (draw - start) % WIDTH, (draw - start) // WIDTH * (FIRST + SUMS * C)
        b, replicate = first + draw // n_resamples, draw % n_resamples
        five[:] = 0.0
        if status[b] == OK:
            begin(stream, seed, numbers[b])
            largest, mass = -np.inf, 0.0
            for i in range(C):
                seek(stream, replicate, 1 + i)
                for j in range(C):
                    logs[i, j] = draw_log_gamma(stream, alpha[b, i, j]) if alpha[b, i, j] > 0.0 else -np.inf
                    largest = max(largest, logs[i, j])
            for i in range(C):
                for j in range(C):
                    logs[i, j] = exp_nonpositive(logs[i, j] - largest) if logs[i, j] > -np.inf else 0.0
                    mass += logs[i, j]
            for i in range(C):
                for j in range(C):
                    if logs[i, j] > 0.0:
                        _add_to_sums(five, i, j, logs[i, j] / mass * total[b])
        _write_lane(five, total[b], OK if status[b] == OK else INVALID, sums, at, w)
        if draw == stop - 1:
            _pad_lanes(sums, at, C, w + 1)
    return False


@jit()
def write_leave_one_out(cells, first, sums, start, stop):
    """Write the class sums of the leave-one-out matrices: one sample less in each cell in turn.

    An empty cell is left alone; a cell with less than one sample becomes 0.
    """
    C = cells.shape[1]
    five, before = np.empty((SUMS, C)), -1
    n = 0.0
    for draw in range(start, stop):
        w, at = (draw - start) % WIDTH, (draw - start) // WIDTH * (FIRST + SUMS * C)
        b, cell = first + draw // (C * C), draw % (C * C)
        if b != before:
            five[:], n, before = 0.0, 0.0, b
            for i in range(C):
                for j in range(C):
                    if cells[b, i, j] > 0.0:
                        _add_to_sums(five, i, j, cells[b, i, j])
                        n += cells[b, i, j]
        i, j = cell // C, cell % C
        x = min(cells[b, i, j], 1.0)
        _write_lane(five, n - x, OK if n < np.inf else INVALID, sums, at, w)
        if x > 0.0:
            for part, k in ((1, i), (2, j), (3, abs(i - j)), (4, max(i, j))):
                sums[at + FIRST + part * C + k, w] -= x
            if i == j:
                sums[at + FIRST + i, w] -= x
        if draw == stop - 1:
            _pad_lanes(sums, at, C, w + 1)
    return False
