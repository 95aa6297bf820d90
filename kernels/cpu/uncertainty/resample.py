"""Multinomial replicates of confusion matrices, by binomial draws with counter-based random streams.

Samples are drawn to rows, then within rows to cells, each binomially from what is left. Every draw has its own stream
of matrix, replicate and part: i for the samples of row i, (1 + i) C + j for cell (i, j). The number of a matrix is its
index in the batch; a part of a batch passes the indices in the whole.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.uncertainty._binomial_batches import LINES, MOST_DRAWN, draw_multinomials
from cmfast.kernels.shared.uncertainty import Shares
from cmfast.kernels.status import INVALID, OK, ZERO_LINE

MOST_DRAWN_SAMPLES = 2.0**63  # a matrix must have fewer, to fit int64

SECONDS_PER_DRAW = 1.2e-8
SECONDS_PER_SHARE = 4e-9

SCHEMES = {"multinomial": 0, "row_multinomial": 1, "expected_rounded": 2}
ROWS_FIXED, ROUNDED = SCHEMES["row_multinomial"], SCHEMES["expected_rounded"]


@jit(inner=True)
def _conditional_share(weight, rest):
    """Return ``weight / rest``, or 0 for no weight."""
    return weight / rest if weight > 0.0 else 0.0


@jit()
def _compute_shares(M, missed, n, rounded, out, start, stop):
    """Write the :class:`Shares` of matrices `start` to `stop`; if `n` is negative, cells are counts."""
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
                out_cells[b, i, j] = _conditional_share(m, rest)
            if rounded:
                out_rates[b, i] = _conditional_share(found, rest)
                for j in range(C):
                    out_cells[b, i, j] = _conditional_share(M[b, i, j], found)
            total += rest
            out_support[b, i] = rest
            out_rows[b, i] = _conditional_share(rest, total)
        out_status[b] = _classify_matrix(good, whole, total, n)
        out_total[b] = n
        if n < 0 and out_status[b] == OK:
            out_total[b] = np.int64(total)


@jit(inner=True)
def _classify_matrix(good, whole, total, n):
    """Return the status of one matrix: OK if it has shares to draw from; with negative `n` cells must be counts."""
    if not good:
        return INVALID
    if n < 0:
        return OK if total < MOST_DRAWN_SAMPLES and whole else INVALID
    if total == 0.0 and n > 0:
        return ZERO_LINE
    return OK if total < np.inf else INVALID


@jit(inner=True)
def draw_rows(shares, scheme, b, replicate, seed, lines, left, drawn):
    """Draw the row totals of some replicates of matrix `b` into the rows of `drawn`.

    The length of `left` is the number of replicates.
    """
    _, rows, support, _, total, numbers, _ = shares
    if scheme == ROWS_FIXED:
        for i in range(len(drawn)):
            drawn[i, : len(left)] = np.int64(support[b, i])
    else:
        left[:] = total[b]
        draw_multinomials(lines, left, rows[b], seed, numbers[b], replicate, 0, drawn)


@jit()
def _draw_replicates(shares, scheme, n_resamples, seed, out, start, stop):
    """Draw replicates `start` to `stop`, numbered matrix by matrix, from conditional probabilities, into `out`."""
    cells, rates, numbers, status = shares.cells, shares.rates, shares.numbers, shares.status
    C = cells.shape[1]
    lines, left = np.empty((LINES, MOST_DRAWN)), np.empty(MOST_DRAWN, np.int64)
    drawn, row = np.empty((C, MOST_DRAWN), np.int64), np.empty((C, MOST_DRAWN), np.int64)
    draw = start
    while draw < stop:
        b, replicate = draw // n_resamples, draw % n_resamples
        count = min(MOST_DRAWN, stop - draw, n_resamples - replicate)
        here = out[draw : draw + count]
        draw += count
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
            draw_multinomials(lines, drawn[i, :count], cells[b, i], seed, numbers[b], replicate, (1 + i) * C, row)
            for r in range(count):
                for j in range(C):
                    here[r, i, j] = row[j, r]


def number_matrices(size, numbers):
    """Return the stream numbers of `size` matrices, by default their indices."""
    return np.arange(size) if numbers is None else np.array(numbers, np.int64).reshape(size)


def compute_shares(M, missed, *, n, rounded, numbers, num_threads):
    """Return the :class:`Shares` of a batch of matrices."""
    batch, C = M.shape[:-2], M.shape[-1]
    size = math.prod(batch)
    cells = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
    lost = np.zeros((0, C)) if missed is None else np.ascontiguousarray(missed, np.float64).reshape(size, C)
    cells.flags.writeable = lost.flags.writeable = False  # so that kernels are compiled for one array type
    rows, support, rates = (np.empty((size, C)) for _ in range(3))
    total, status = np.empty(size, np.int64), np.empty(size, np.int8)
    shares = Shares(np.empty((size, C, C)), rows, support, rates, total, number_matrices(size, numbers), status)
    given = (cells, lost, -1 if n is None else n, rounded)
    pool.run(_compute_shares, (*given, shares), size, seconds=size * C * C * SECONDS_PER_SHARE, num_threads=num_threads)
    return shares


def resample(M, missed, *, n_resamples, scheme, n, seed, numbers=None, num_threads=None):
    """Return bootstrap replicates (int64) of every matrix, as an axis before the last two; and the status."""
    batch, C = M.shape[:-2], M.shape[-1]
    size, code = math.prod(batch), SCHEMES[scheme]
    shares = compute_shares(M, missed, n=n, rounded=code == ROUNDED, numbers=numbers, num_threads=num_threads)
    out = np.empty((size * n_resamples, C, C), np.int64)
    seconds = len(out) * (C * SECONDS_PER_DRAW + C * C * (SECONDS_PER_SHARE if code == ROUNDED else SECONDS_PER_DRAW))
    pool.run(
        _draw_replicates,
        (shares, code, n_resamples, np.uint64(seed), out),
        len(out),
        seconds=seconds,
        num_threads=num_threads,
    )
    return out.reshape(*batch, n_resamples, C, C), shares.status.reshape(batch)
