"""Derive the inputs of the formulas exactly, for counts whose products exceed float64: 128-bit sums, rounded once."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics import _int128
from cmfast.kernels.cpu.metrics._derived_tables import (
    CHANCE,
    COVARIANCE,
    COVARIANCES,
    FALSE,
    MISSED,
    NOT_PREDICTED,
    NOT_TRUE,
    PREDICTION,
    REJECT,
    REJECTED,
    RIGHT,
    TABLES,
    TOTAL_MASS,
    TRUTH,
    WRONG_MASS,
)
from cmfast.kernels.cpu.metrics._margins import FIRST, HUGE, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.cpu.metrics._second_pass import GERRITY_LINE, LINEAR_LINE, QUADRATIC_LINE
from cmfast.kernels.status import OK


@jit(inner=True, borrows=True)
def derive_lane_exactly(sums, whole, at, plan, S, base, C, w):
    """Derive lane `w` of the workspace lines from `base` on, and of the tile at `at`, from its int64 sums."""
    n, right = whole[at + TOTAL_LINE, w], np.int64(0)
    for k in range(C):
        d, t, p = whole[at + FIRST + k, w], whole[at + FIRST + C + k, w], whole[at + FIRST + 2 * C + k, w]
        S[base + MISSED * C + k, w], S[base + FALSE * C + k, w] = t - d, p - d
        S[base + NOT_TRUE * C + k, w], S[base + NOT_PREDICTED * C + k, w] = n - t, n - p
        S[base + REJECTED * C + k, w] = (n - t) - (p - d)
        S[base + REJECT * C + k, w] = np.float64((n - t) - (p - d)) / np.float64(n - t)
        right += d
    one = base + TABLES * C
    S[one + TOTAL_MASS, w], S[one + RIGHT, w], S[one + WRONG_MASS, w] = n, right, n - right
    if plan.products:
        _write_margin_products(whole, at, S, base, C, w)
    if plan.ordered:
        _write_weighted_kappas(whole, at, sums, C, w)
        sums[at + GERRITY_LINE, w] = _score_gerrity_exactly(whole, at, C, w)
    sums[at + TOTAL_LINE, w] = whole[at + TOTAL_LINE, w]
    for k in range(at + FIRST, at + FIRST + 3 * C):  # the other sums have been used
        sums[k, w] = whole[k, w]


@jit(borrows=True)
def score_order_exactly(sums, C, count, most):
    """Convert `count` matrices to float64 if only sums that depend on the order of the classes are inexact there.

    Scores of ordered classes are written from int64. Return whether no total is above `most`, up to which products of
    two margins are exact in float64; else all tiles stay as they are.
    """
    whole, size = sums.view(np.int64), FIRST + SUMS * C
    for b in range(count):
        at, w = b // WIDTH * size, b % WIDTH
        if sums[at + STATUS_LINE, w] == HUGE and whole[at + TOTAL_LINE, w] > most:
            return False
    for b in range(count):
        at, w = b // WIDTH * size, b % WIDTH
        if sums[at + STATUS_LINE, w] == HUGE:
            _write_weighted_kappas(whole, at, sums, C, w)
            sums[at + GERRITY_LINE, w] = _score_gerrity_exactly(whole, at, C, w)
            sums[at + STATUS_LINE, w], sums[at + TOTAL_LINE, w] = OK, whole[at + TOTAL_LINE, w]
            for k in range(at + FIRST, at + FIRST + 3 * C):  # the other sums have been used
                sums[k, w] = whole[k, w]
    for k in range(len(sums) - size, len(sums) - 2 * C):
        for w in range(count - (len(sums) // size - 1) * WIDTH, WIDTH):
            sums[k, w] = sums[k, (count - 1) % WIDTH]
    return True


@jit(inner=True, borrows=True)
def _write_margin_products(whole, at, S, base, C, w):
    """Write covariances and sums of products of margins of lane `w`, exact to one rounding."""
    zero = np.uint64(0)
    n, one = whole[at + TOTAL_LINE, w], base + TABLES * C
    bh, bl, th, tl, ph, pl, ch, cl = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(C):
        d, t, p = whole[at + FIRST + k, w], whole[at + FIRST + C + k, w], whole[at + FIRST + 2 * C + k, w]
        h, l = _int128.multiply(d, (n - t) - (p - d))  # noqa: E741
        h, l = _int128.subtract_product(h, l, t - d, p - d)  # noqa: E741
        S[base + COVARIANCES * C + k, w] = _int128.convert_to_float(h, l)
        bh, bl = _int128.add(bh, bl, h, l)
        th, tl = _int128.add_product(th, tl, t, n - t)
        ph, pl = _int128.add_product(ph, pl, p, n - p)
        ch, cl = _int128.add_product(ch, cl, t, n - p)
    S[one + COVARIANCE, w] = _int128.convert_to_float(bh, bl)
    S[one + TRUTH, w] = _int128.convert_to_float(th, tl)
    S[one + PREDICTION, w] = _int128.convert_to_float(ph, pl)
    S[one + CHANCE, w] = _int128.convert_to_float(ch, cl)


@jit(inner=True, borrows=True)
def _write_weighted_kappas(whole, at, sums, C, w):
    """Write linearly and quadratically weighted kappa of lane `w`, exact to one rounding each."""
    zero = np.uint64(0)
    n = whole[at + TOTAL_LINE, w]
    if np.float64(n) * n * C * C * 2.0 >= 2.0**126:
        _write_rounded_kappas(whole, at, sums, C, w)
        return
    below_t, below_p = np.int64(0), np.int64(0)
    eh, el = zero, zero
    for k in range(C - 1):
        below_t += whole[at + FIRST + C + k, w]
        below_p += whole[at + FIRST + 2 * C + k, w]
        eh, el = _int128.add_product(eh, el, below_t, n - below_p)
        eh, el = _int128.add_product(eh, el, below_p, n - below_t)
    apart = np.int64(0)  # fits int64 by the test above, as all sums of counts times a distance
    for k in range(C):
        apart += k * whole[at + FIRST + 3 * C + k, w]
    expected = _int128.convert_to_float(eh, el)
    eh, el = _int128.subtract_product(eh, el, n, apart)
    sums[at + LINEAR_LINE, w] = _int128.convert_to_float(eh, el) / expected
    eh, el, ah, al = zero, zero, zero, zero
    first_t, first_p = np.int64(0), np.int64(0)
    for k in range(C):
        t, p = whole[at + FIRST + C + k, w], whole[at + FIRST + 2 * C + k, w]
        eh, el = _int128.add_product(eh, el, t + p, k * k)
        ah, al = _int128.add_product(ah, al, whole[at + FIRST + 3 * C + k, w], k * k)
        first_t += k * t
        first_p += k * p
    eh, el = _int128.scale(eh, el, n)
    ah, al = _int128.scale(ah, al, n)
    sh, sl = _int128.multiply(first_t, first_p)
    sh, sl = _int128.scale(sh, sl, 2)
    eh, el = _int128.subtract(eh, el, sh, sl)
    expected = _int128.convert_to_float(eh, el)
    eh, el = _int128.subtract(eh, el, ah, al)
    sums[at + QUADRATIC_LINE, w] = _int128.convert_to_float(eh, el) / expected


@jit(inner=True, borrows=True)
def _write_rounded_kappas(whole, at, sums, C, w):
    """Write both weighted kappas of lane `w` in float64, where products exceed 128 bits.

    That takes totals near 2**63 and many classes.
    """
    n = np.float64(whole[at + TOTAL_LINE, w])
    below_t, below_p, chance, apart = 0.0, 0.0, 0.0, 0.0
    for k in range(C - 1):
        below_t += whole[at + FIRST + C + k, w] / n
        below_p += whole[at + FIRST + 2 * C + k, w] / n
        chance += below_t * (1.0 - below_p) + below_p * (1.0 - below_t)
    squares, first_t, first_p, far = 0.0, 0.0, 0.0, 0.0
    for k in range(C):
        i = k - (C - 1) // 2
        t, p, band = (
            whole[at + FIRST + C + k, w] / n,
            whole[at + FIRST + 2 * C + k, w] / n,
            whole[at + FIRST + 3 * C + k, w] / n,
        )
        apart += k * band
        far += k * k * band
        squares += i * i * (t + p)
        first_t += i * t
        first_p += i * p
    expected = squares - 2.0 * first_t * first_p
    sums[at + LINEAR_LINE, w] = (chance - apart) / chance
    sums[at + QUADRATIC_LINE, w] = (expected - far) / expected


@jit(inner=True, borrows=True)
def _score_gerrity_exactly(whole, at, C, w):
    """Return Gerrity's score (1992) of lane `w` from int64 sums; NaN if it is undefined."""
    n = whole[at + TOTAL_LINE, w]
    score, low, high = 0.0, 0.0, 0.0
    below = np.int64(0)
    if C < 2:
        return np.nan
    for k in range(C):
        top, bottom = (
            whole[at + FIRST + 4 * C + k, w],
            (whole[at + FIRST + C + k, w] - whole[at + FIRST + 4 * C + k, w]) + whole[at + FIRST + 2 * C + k, w],
        )
        score += low * np.float64(bottom) - np.float64(k) * np.float64(whole[at + FIRST + 3 * C + k, w])
        high += np.float64(top)
        if k < C - 1:
            below += whole[at + FIRST + C + k, w]
            above = n - below
            if not (below > 0 and above > 0):
                return np.nan
            low += np.float64(below) / np.float64(above)
            score += high * (np.float64(above) / np.float64(below))
    return score / (np.float64(C - 1) * np.float64(n))
