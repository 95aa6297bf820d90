"""What the formulas need of one matrix of counts whose products no float64 holds: two words, rounded once."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.metrics import _int128
from cmfast.kernels.cpu.metrics._lanes import (
    CHANCE,
    COL,
    COVARIANCE,
    COVARIANCES,
    DIAGONAL,
    FALSE,
    GERRITY_SCORE,
    LINEAR_CHANCE,
    LINEAR_GAIN,
    MISSED,
    NOT_PREDICTED,
    NOT_TRUE,
    PREDICTION,
    QUADRATIC_CHANCE,
    QUADRATIC_GAIN,
    REJECTED,
    RIGHT,
    ROW,
    TABLES,
    TOTAL,
    TRUTH,
)
from cmfast.kernels.cpu.metrics._margins import total_line


@jit(inner=True)
def fill_lane(whole, S, C, w, products, ordered):
    """Fill lane `w` of what is derived from the sums `whole`; the sums themselves become float64."""
    n, right = whole[total_line(C), w], np.int64(0)
    for k in range(C):
        d, t, p = whole[k, w], whole[C + k, w], whole[2 * C + k, w]
        S[DIAGONAL * C + k, w], S[ROW * C + k, w], S[COL * C + k, w] = d, t, p
        S[MISSED * C + k, w], S[FALSE * C + k, w] = t - d, p - d
        S[NOT_TRUE * C + k, w], S[NOT_PREDICTED * C + k, w] = n - t, n - p
        S[REJECTED * C + k, w] = (n - t) - (p - d)
        right += d
    one = TABLES * C
    S[one + TOTAL, w], S[one + RIGHT, w] = n, right
    if products:
        _margin_products(whole, S, C, w)
    if ordered:
        _ordered_products(whole, S, C, w)
        S[one + GERRITY_SCORE, w] = _gerrity(whole, C, w)


@jit(inner=True)
def _margin_products(whole, S, C, w):
    zero = np.uint64(0)
    n, one = whole[total_line(C), w], TABLES * C
    bh, bl, th, tl, ph, pl, ch, cl = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(C):
        d, t, p = whole[k, w], whole[C + k, w], whole[2 * C + k, w]
        h, l = _int128.multiply(d, (n - t) - (p - d))  # noqa: E741
        h, l = _int128.subtract_product(h, l, t - d, p - d)  # noqa: E741
        S[COVARIANCES * C + k, w] = _int128.to_float(h, l)
        bh, bl = _int128.add(bh, bl, h, l)
        th, tl = _int128.add_product(th, tl, t, n - t)
        ph, pl = _int128.add_product(ph, pl, p, n - p)
        ch, cl = _int128.add_product(ch, cl, t, n - p)
    S[one + COVARIANCE, w] = _int128.to_float(bh, bl)
    S[one + TRUTH, w] = _int128.to_float(th, tl)
    S[one + PREDICTION, w] = _int128.to_float(ph, pl)
    S[one + CHANCE, w] = _int128.to_float(ch, cl)


@jit(inner=True)
def _ordered_products(whole, S, C, w):
    zero = np.uint64(0)
    n, one = whole[total_line(C), w], TABLES * C
    if np.float64(n) * n * C * C * 2.0 >= 2.0**126:
        _rounded_ordered_products(whole, S, C, w)
        return
    below_t, below_p = np.int64(0), np.int64(0)
    eh, el, ah, al = zero, zero, zero, zero
    for k in range(C - 1):
        below_t += whole[C + k, w]
        below_p += whole[2 * C + k, w]
        eh, el = _int128.add_product(eh, el, below_t, n - below_p)
        eh, el = _int128.add_product(eh, el, below_p, n - below_t)
    for k in range(C):
        h, l = _int128.multiply(n, whole[3 * C + k, w])  # noqa: E741
        h, l = _int128.scale(h, l, k)  # noqa: E741
        ah, al = _int128.add(ah, al, h, l)
    S[one + LINEAR_CHANCE, w] = _int128.to_float(eh, el)
    eh, el = _int128.subtract(eh, el, ah, al)
    S[one + LINEAR_GAIN, w] = _int128.to_float(eh, el)
    eh, el, ah, al = zero, zero, zero, zero
    first_t, first_p = np.int64(0), np.int64(0)  # they fit one word, by the test above
    for k in range(C):
        t, p = whole[C + k, w], whole[2 * C + k, w]
        h, l = _int128.multiply(n, t)  # noqa: E741
        h, l = _int128.add_product(h, l, n, p)  # noqa: E741
        h, l = _int128.scale(h, l, k * k)  # noqa: E741
        eh, el = _int128.add(eh, el, h, l)
        first_t += k * t
        first_p += k * p
        h, l = _int128.multiply(n, whole[3 * C + k, w])  # noqa: E741
        h, l = _int128.scale(h, l, k * k)  # noqa: E741
        ah, al = _int128.add(ah, al, h, l)
    sh, sl = _int128.multiply(first_t, first_p)
    sh, sl = _int128.scale(sh, sl, 2)
    eh, el = _int128.subtract(eh, el, sh, sl)
    S[one + QUADRATIC_CHANCE, w] = _int128.to_float(eh, el)
    eh, el = _int128.subtract(eh, el, ah, al)
    S[one + QUADRATIC_GAIN, w] = _int128.to_float(eh, el)


@jit(inner=True)
def _rounded_ordered_products(whole, S, C, w):
    """Products beyond two words, in float64 (totals near 2**63 with many classes)."""
    n, one = np.float64(whole[total_line(C), w]), TABLES * C
    below_t, below_p, chance, apart = 0.0, 0.0, 0.0, 0.0
    for k in range(C - 1):
        below_t += whole[C + k, w] / n
        below_p += whole[2 * C + k, w] / n
        chance += below_t * (1.0 - below_p) + below_p * (1.0 - below_t)
    squares, first_t, first_p, far = 0.0, 0.0, 0.0, 0.0
    for k in range(C):
        i = k - (C - 1) // 2
        t, p, band = whole[C + k, w] / n, whole[2 * C + k, w] / n, whole[3 * C + k, w] / n
        apart += k * band
        far += k * k * band
        squares += i * i * (t + p)
        first_t += i * t
        first_p += i * p
    expected = squares - 2.0 * first_t * first_p
    S[one + LINEAR_CHANCE, w] = chance
    S[one + LINEAR_GAIN, w] = chance - apart
    S[one + QUADRATIC_CHANCE, w] = expected
    S[one + QUADRATIC_GAIN, w] = expected - far


@jit(inner=True)
def _gerrity(whole, C, w):
    n = whole[total_line(C), w]
    score, low, high = 0.0, 0.0, 0.0
    below = np.int64(0)
    if C < 2:
        return np.nan
    for k in range(C):
        top, bottom = whole[4 * C + k, w], (whole[C + k, w] - whole[4 * C + k, w]) + whole[2 * C + k, w]
        score += low * np.float64(bottom) - np.float64(k) * np.float64(whole[3 * C + k, w])
        high += np.float64(top)
        if k < C - 1:
            below += whole[C + k, w]
            above = n - below
            if not (below > 0 and above > 0):
                return np.nan
            low += np.float64(below) / np.float64(above)
            score += high * (np.float64(above) / np.float64(below))
    return score / (np.float64(C - 1) * np.float64(n))
