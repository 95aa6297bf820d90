"""Binomial draws for up to 64 replicates together, eight per SIMD vector, with the bits of the scalar ``binomial``.

Inversion runs until the slowest lane is done. Rejection compacts the replicates that need the exact test, and then
those that need another attempt, so that few vectors are left.
"""

import numpy as np

from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, absolute, floor, load_row, some, splat, sqrt, store_row, where
from cmfast.kernels.cpu._core.vector_functions import exponent, mantissa
from cmfast.kernels.cpu.uncertainty._random_numbers import (
    CORRECTIONS,
    LN_2,
    ODD,
    ROOT_HALF,
    _exp,
    _log_ratio,
    begin,
    binomial,
    philox,
    seek,
    uniform,
)
from cmfast.kernels.shared.uncertainty import LEAST_REJECTION_MEAN, MOST_INVERTED

MOST_DRAWN = 64  # replicates drawn at a time
# Rows of the workspace, MOST_DRAWN values each: two uniform numbers, trials, owner (replicate index), candidate, its
# state, probability of 0, two Stirling corrections, a stream; a second list of trials and owners; indices waiting for
# the exact test; the result.
FIRST, SECOND, SIZE, OWNER, FOUND, STATE, CHANCE, CORRECTED, OTHER, STREAM = range(10)
OTHER_SIZE, OTHER_OWNER, WAITING, DONE = range(10, 14)
LINES = 14
ALONE = 3  # fewer replicates are drawn one by one
TAKEN, INSIDE, OUT_OF_RANGE = 0.0, 1.0, 2.0
ONE = np.uint64(1)


@jit(inner=True)
def draw_binomials(lines, left, p, seed, matrix, replicate, part, drawn):
    """Draw a binomial variate of `left` trials and probability `p` for every replicate, and take it from `left`.

    The variates go to `drawn`. `lines` is a workspace of LINES x MOST_DRAWN.
    """
    n = len(left)
    place = np.uint64(seed), np.uint64(matrix), np.uint64(replicate), np.uint64(part)
    if p >= 1.0 or p == 0.0:
        for r in range(n):
            drawn[r] = left[r] if p > 0.0 else 0
            left[r] -= drawn[r]
        return
    if n < ALONE:
        for r in range(n):
            drawn[r] = _draw_one(lines, place, r, left[r], p)
            left[r] -= drawn[r]
        return
    rare, done = min(p, 1.0 - p), lines[DONE]
    few = _partition_by_mean(lines, left, rare)
    if few > 0:
        _draw_by_inversion(lines, few, rare, place, left, p)
    if few < n:
        if few > 0:
            copy_vector(lines[OTHER_SIZE], lines[SIZE])
            copy_vector(lines[OTHER_OWNER], lines[OWNER])
        _draw_by_rejection(lines, n - few, rare, place)
    for r in range(n):
        k = min(np.int64(done[r]), left[r])
        drawn[r] = left[r] - k if p > 0.5 else k
    for r in range(n):
        left[r] -= drawn[r]


@jit(inner=True)
def draw_multinomials(lines, left, shares, seed, matrix, replicate, part, drawn):
    """Draw a multinomial split of each replicate's `left` samples into the rows of `drawn`.

    Category by category with binomial draws: `shares` are conditional probabilities given what is left. The first draw
    uses stream `part`, the next one `part` + 1, and so on; `left` ends with what no category took.
    """
    for j in range(len(shares)):
        draw_binomials(lines, left, shares[j], seed, matrix, replicate, part + j, drawn[j, : len(left)])


@jit(inner=True)
def _draw_one(lines, place, r, size, p):
    """Draw a binomial variate for one replicate with the scalar code."""
    stream = lines[STREAM].view(np.uint64)
    seed, matrix, replicate, part = place
    begin(stream, seed, matrix)
    seek(stream, replicate + np.uint64(r), part)
    return binomial(stream, size, p)


@jit(inner=True)
def _partition_by_mean(lines, left, rare):
    """List replicates with a small mean, and the others in the second list; return the number of the former.

    If one kind is empty, the first list holds all replicates.
    """
    size, owner = lines[SIZE], lines[OWNER].view(np.int64)
    n, few = len(left), 0
    for r in range(n):
        size[r] = np.float64(left[r])
        owner[r] = r
        few += 1 if size[r] * rare < LEAST_REJECTION_MEAN else 0
    if 0 < few < n:
        others, whose = lines[OTHER_SIZE], lines[OTHER_OWNER].view(np.int64)
        few, many = 0, 0
        for r in range(n):
            x = size[r]
            size[few], owner[few], others[many], whose[many] = x, r, x, r
            few += 1 if x * rare < LEAST_REJECTION_MEAN else 0
            many += 0 if x * rare < LEAST_REJECTION_MEAN else 1
    return few


@jit(inner=True)
def _pad(lines, m, width, size):
    """Pad the list of trials to a multiple of `width`; return the padded length."""
    end = (m + width - 1) // width * width
    for r in range(m, end):
        lines[SIZE, r] = size
        lines[OWNER].view(np.int64)[r] = 0
    return end


@jit(inner=True)
def _draw_uniforms(lines, n, attempt, place):
    """Write two uniform numbers for every listed replicate, those of attempt `attempt`."""
    first, second, owner = lines[FIRST], lines[SECOND], lines[OWNER].view(np.int64)
    seed, matrix, replicate, part = place
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    k, m, d = seed & low, seed >> half, matrix & low
    for r in range(n):
        a, b, c, e = philox(attempt, (replicate + np.uint64(owner[r])) & low, part, d, k, m)
        first[r], second[r] = uniform(a, b), uniform(c, e)


@jit(inner=True)
def _draw_by_inversion(lines, m, rare, place, left, p):
    """Draw by inversion for the first `m` listed replicates, two vectors at a time; retries are drawn one by one."""
    size, chances, found, done = lines[SIZE], lines[CHANCE], lines[FOUND], lines[DONE]
    end = _pad(lines, m, 2 * WIDTH, 0.0)
    _draw_uniforms(lines, end, np.uint64(0), place)
    odds, log = rare / (1.0 - rare), _log_ratio(-rare, 1.0)
    for r in range(end):
        chances[r] = _exp(size[r] * log)
    for r in range(0, end, 2 * WIDTH):
        v, w = load_row(lines, FIRST, r), load_row(lines, FIRST, r + WIDTH)
        chance, other = load_row(lines, CHANCE, r), load_row(lines, CHANCE, r + WIDTH)
        more, too = load_row(lines, SIZE, r) + 1.0, load_row(lines, SIZE, r + WIDTH) + 1.0
        total, sums, steps, count, k = chance, other, splat(0.0), splat(0.0), 0.0
        beyond, above = v > total, w > sums
        while some(beyond | above) and k < MOST_INVERTED:
            k += 1.0
            step = odds / k
            steps, count = where(beyond, steps + 1.0, steps), where(above, count + 1.0, count)
            chance, other = chance * ((more - k) * step), other * ((too - k) * step)
            total, sums = total + chance, sums + other
            beyond, above = v > total, w > sums
        store_row(lines, FOUND, r, where(beyond, -1.0, steps))
        store_row(lines, FOUND, r + WIDTH, where(above, -1.0, count))
    owner = lines[OWNER].view(np.int64)
    for r in range(m):
        done[owner[r]] = found[r]
        if found[r] < 0.0:
            k = _draw_one(lines, place, owner[r], left[owner[r]], p)
            done[owner[r]] = left[owner[r]] - k if p > 0.5 else k


@jit(inner=True)
def _draw_by_rejection(lines, m, rare, place):
    """Draw by transformed rejection (BTRS) for the first `m` listed replicates until all are accepted."""
    first, second, size, found, state = lines[FIRST], lines[SECOND], lines[SIZE], lines[FOUND], lines[STATE]
    owner, waiting, done = lines[OWNER].view(np.int64), lines[WAITING].view(np.int64), lines[DONE]
    attempt = np.uint64(0)
    while m > 0:
        end = _pad(lines, m, WIDTH, size[0])
        _draw_uniforms(lines, end, attempt, place)
        attempt += ONE
        for r in range(0, end, WIDTH):
            _propose(lines, r, rare)
        rest = 0
        for r in range(m):
            done[owner[r]] = found[r]
            waiting[rest] = r
            rest += 1 if state[r] > TAKEN else 0
        m = rest
        for r in range(m):
            k = waiting[r]
            first[r], second[r], size[r], owner[r] = first[k], second[k], size[k], owner[k]
            found[r], state[r] = found[k], state[k]
        for r in range(0, m, WIDTH):
            _test_exactly(lines, r, rare)
        rest = 0
        for r in range(m):
            size[rest], owner[rest] = size[r], owner[r]
            rest += 1 if state[r] > TAKEN else 0
        m = rest


@jit(inner=True, inline=True)
def _make_hat(size, rare):
    """Return the standard deviation and the parameters b and a of the BTRS hat function."""
    spread = sqrt(size * rare * (1.0 - rare))
    b = 1.15 + 2.53 * spread
    return spread, b, -0.0873 + 0.0248 * b + 0.01 * rare


@jit(inner=True)
def _propose(lines, r, rare):
    """Propose candidates for eight replicates, and mark those that the quick test accepts."""
    v, u, size = load_row(lines, FIRST, r), load_row(lines, SECOND, r) - 0.5, load_row(lines, SIZE, r)
    _, b, a = _make_hat(size, rare)
    edge = 0.5 - absolute(u)
    k = floor((2.0 * a / edge + b) * u + (size * rare + 0.5))
    inside = (k >= 0.0) & (k <= size)
    taken = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
    store_row(lines, SECOND, r, u)
    store_row(lines, FOUND, r, k)
    store_row(lines, STATE, r, where(inside, where(taken, TAKEN, splat(INSIDE)), splat(OUT_OF_RANGE)))


@jit(inner=True)
def _test_exactly(lines, r, rare):
    """Accept or reject eight candidates by their exact probability."""
    v, u, n, k = (
        load_row(lines, FIRST, r),
        load_row(lines, SECOND, r),
        load_row(lines, SIZE, r),
        load_row(lines, FOUND, r),
    )
    spread, b, a = _make_hat(n, rare)
    edge, mode = 0.5 - absolute(u), floor((n + 1.0) * rare)
    square = edge * edge
    v = v * ((2.83 + 5.1 / b) * spread) * square / (a + b * square)
    d, before, after = k - mode, rare / (1.0 - rare) * (n - mode + 1.0), mode + 1.0
    large = (n - k + 0.5) * _log_ratios(d, n - k + 1.0) - (k + 0.5) * _log_ratios(d, after)
    tilt = d * _log_odds_series((before - after) / (before + after))
    one, other = _stirling_series(k), _stirling_series(n - k)
    if some((k < float(len(CORRECTIONS))) | (n - k < float(len(CORRECTIONS)))):
        store_row(lines, CORRECTED, r, one)
        store_row(lines, OTHER, r, other)
        _look_up_corrections(lines, r)
        one, other = load_row(lines, CORRECTED, r), load_row(lines, OTHER, r)
    chance = large + tilt + (_stirling_series(mode) + _stirling_series(n - mode) - one - other)
    wrong = (load_row(lines, STATE, r) == OUT_OF_RANGE) | (_logs(v) > chance)
    store_row(lines, STATE, r, where(wrong, OUT_OF_RANGE, splat(TAKEN)))


@jit(inner=True)
def _log_odds_series(s):
    """Return log((1 + s) / (1 - s)) of each lane, for abs(s) < 0.172."""
    square = s * s
    fourth = square * square
    even, odd = splat(0.0), splat(0.0)
    for k in range(10, -1, -2):
        even = even * fourth + ODD[k]
        odd = odd * fourth + ODD[k + 1]
    return 2.0 * s * (even + square * odd)


@jit(inner=True, inline=True)
def _split_near_one(x):
    """Return a significand in [sqrt(1/2), sqrt(2)) and the exponent of each lane."""
    part, power = mantissa(x), exponent(x)
    large = part * 0.5 >= ROOT_HALF
    return where(large, part * 0.5, part), where(large, power + 1.0, power)


@jit(inner=True)
def _logs(x):
    """Return the natural logarithm of each lane."""
    part, power = _split_near_one(x)
    return power * LN_2 + _log_odds_series((part - 1.0) / (part + 1.0))


@jit(inner=True)
def _log_ratios(d, y):
    """Return log((y + d) / y) of each lane, accurate also for small d."""
    s = d / (2.0 * y + d)
    small, fixed = absolute(s) < 0.17, splat(0.0)
    if some(~small):
        part, power = _split_near_one((y + d) / y)
        s = where(small, s, (part - 1.0) / (part + 1.0))
        fixed = where(small, 0.0, power) * LN_2
    return fixed + _log_odds_series(s)


@jit(inner=True, inline=True)
def _stirling_series(k):
    """Return Stirling's correction of each lane by its series, valid for k of at least 16."""
    t = 1.0 / (k + 1.0)
    square = t * t
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * t


@jit(inner=True)
def _look_up_corrections(lines, r):
    """Replace Stirling corrections of eight replicates by tabulated ones for k below 16."""
    for w in range(r, r + WIDTH):
        k = lines[FOUND, w]
        if 0.0 <= k < len(CORRECTIONS):
            lines[CORRECTED, w] = CORRECTIONS[np.int64(k)]
        k = lines[SIZE, w] - k
        if 0.0 <= k < len(CORRECTIONS):
            lines[OTHER, w] = CORRECTIONS[np.int64(k)]
