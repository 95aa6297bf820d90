"""What a confusion matrix could have been with other samples: replicates drawn from its shares.

A multinomial draw goes in two steps, each by binomial draws from what is left: samples to rows, then the samples of a
row to its cells. Every draw has a stream of its own: of the matrix, the replicate and a part, which is i for the
samples of row i, and (1 + i) C + j for those of the cell (i, j). A matrix has the stream of its number, which is its
place in the batch; those of a part of a batch are given the places that they have in the whole.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.uncertainty._together import LINES, MOST_DRAWN, spread_together
from cmfast.kernels.shared.uncertainty import Shares
from cmfast.kernels.status import INVALID, OK, ZERO_LINE

MOST_DRAWN_SAMPLES = 2.0**63  # of a matrix are fewer, or int64 does not hold them

SECONDS_PER_DRAW = 1.2e-8
SECONDS_PER_SHARE = 4e-9

SCHEMES = {"multinomial": 0, "row_multinomial": 1, "expected_rounded": 2}
ROWS_FIXED, ROUNDED = SCHEMES["row_multinomial"], SCHEMES["expected_rounded"]


@jit(inner=True)
def _divide(weight, rest):
    return weight / rest if weight > 0.0 else 0.0


@jit()
def _shares(M, missed, n, rounded, out, start, stop):
    """Fill the :class:`Shares` of the matrices from `start` to `stop`; below zero, `n` says that cells are counts."""
    out_cells, out_rows, out_support, out_rates, out_total, _, out_status = out
    C = M.shape[1]
    for b in range(start, stop):
        good, whole, total = True, True, 0.0
        for i in range(C - 1, -1, -1):
            rest, found = missed[b, i] if len(missed) else 0.0, 0.0
            good = good and 0.0 <= rest < np.inf
            whole = whole and rest == np.floor(rest)
            for j in range(C - 1, -1, -1):
                m = M[b, i, j]
                good = good and 0.0 <= m < np.inf
                whole = whole and m == np.floor(m)
                rest += m
                found += m
                out_cells[b, i, j] = _divide(m, rest)
            if rounded:
                out_rates[b, i] = _divide(found, rest)
                for j in range(C):
                    out_cells[b, i, j] = _divide(M[b, i, j], found)
            total += rest
            out_support[b, i] = rest
            out_rows[b, i] = _divide(rest, total)
        out_status[b] = _status(good, whole, total, n)
        out_total[b] = n
        if n < 0 and out_status[b] == OK:
            out_total[b] = np.int64(total)


@jit(inner=True)
def _status(good, whole, total, n):
    """Whether there are shares; below zero, `n` says that cells must be counts."""
    if not good:
        return INVALID
    if n < 0:
        return OK if total < MOST_DRAWN_SAMPLES and whole else INVALID
    if total == 0.0 and n > 0:
        return ZERO_LINE
    return OK if total < np.inf else INVALID


@jit(inner=True)
def draw_rows(shares, scheme, b, replicate, seed, lines, left, drawn):
    """Draw the samples of every row of some replicates of matrix `b`, into the rows of `drawn`.

    There are as many replicates as `left` has places.
    """
    _, rows, support, _, total, numbers, _ = shares
    if scheme == ROWS_FIXED:
        for i in range(len(drawn)):
            drawn[i, : len(left)] = np.int64(support[b, i])
    else:
        left[:] = total[b]
        spread_together(lines, left, rows[b], seed, numbers[b], replicate, 0, drawn)


@jit()
def _draw(shares, scheme, n_replicates, seed, out, start, stop):
    """Fill the replicates `start` to `stop`, counted over all matrices."""
    cells, rates, numbers, status = shares.cells, shares.rates, shares.numbers, shares.status
    C = cells.shape[1]
    lines, left = np.empty((LINES, MOST_DRAWN)), np.empty(MOST_DRAWN, np.int64)
    drawn, row = np.empty((C, MOST_DRAWN), np.int64), np.empty((C, MOST_DRAWN), np.int64)
    place = start
    while place < stop:
        b, replicate = place // n_replicates, place % n_replicates
        count = min(MOST_DRAWN, stop - place, n_replicates - replicate)
        here = out[place : place + count]
        place += count
        if status[b] != OK:
            here[:] = 0
            continue
        draw_rows(shares, scheme, b, replicate, seed, lines, left[:count], drawn)
        for i in range(C):
            if scheme == ROUNDED:
                for r in range(count):
                    detected = np.rint(drawn[i, r] * rates[b, i])
                    for j in range(C):
                        here[r, i, j] = np.int64(np.rint(detected * cells[b, i, j]))
                continue
            spread_together(lines, drawn[i, :count], cells[b, i], seed, numbers[b], replicate, (1 + i) * C, row)
            for r in range(count):
                for j in range(C):
                    here[r, i, j] = row[j, r]


def numbered(size, numbers):
    """Return the numbers of so many matrices, by default their places."""
    return np.arange(size) if numbers is None else np.array(numbers, np.int64).reshape(size)


def shares_of(M, missed, *, n, rounded, numbers, num_threads):
    """Return the :class:`Shares` of a batch of matrices."""
    batch, C = M.shape[:-2], M.shape[-1]
    size = math.prod(batch)
    cells = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
    lost = np.zeros((0, C)) if missed is None else np.ascontiguousarray(missed, np.float64).reshape(size, C)
    cells.flags.writeable = lost.flags.writeable = False  # one type of each, whoever made it
    rows, support, rates = (np.empty((size, C)) for _ in range(3))
    total, status = np.empty(size, np.int64), np.empty(size, np.int8)
    shares = Shares(np.empty((size, C, C)), rows, support, rates, total, numbered(size, numbers), status)
    given = (cells, lost, -1 if n is None else n, rounded)
    pool.run(_shares, (*given, shares), size, seconds=size * C * C * SECONDS_PER_SHARE, num_threads=num_threads)
    return shares


def resample(M, missed, *, n_replicates, scheme, n, seed, numbers=None, num_threads=None):
    """Replicates of every matrix, int64, one axis before the last two; and the status."""
    batch, C = M.shape[:-2], M.shape[-1]
    size, code = math.prod(batch), SCHEMES[scheme]
    shares = shares_of(M, missed, n=n, rounded=code == ROUNDED, numbers=numbers, num_threads=num_threads)
    out = np.empty((size * n_replicates, C, C), np.int64)
    seconds = len(out) * (C * SECONDS_PER_DRAW + C * C * (SECONDS_PER_SHARE if code == ROUNDED else SECONDS_PER_DRAW))
    pool.run(
        _draw, (shares, code, n_replicates, np.uint64(seed), out), len(out), seconds=seconds, num_threads=num_threads
    )
    return out.reshape(*batch, n_replicates, C, C), shares.status.reshape(batch)
