"""Counter-based random numbers (Philox), and binomial and gamma variates with the same bits on every machine.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011) maps a counter and a key
to numbers, so that any thread can draw any replicate. Binomial: inversion for small means, else transformed rejection
(Hoermann, The generation of binomial random variates, 1993, BTRS), its test written in differences from the mode to
keep digits for large counts. Logarithms and exponentials are series in a fixed order, as in the CUDA kernels.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.uncertainty import LEAST_REJECTION_MEAN, MOST_INVERTED

PHILOX_ROUNDS = 10
FACTOR_A, FACTOR_C = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
STEP_K, STEP_M = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW, HALF, ELEVEN = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(11)
ONE = np.uint64(1)

LN_2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476
ODD = 1.0 / np.arange(1.0, 25.0, 2.0)
FACTORIALS = np.array([1.0 / math.factorial(k) for k in range(14)])  # reciprocal factorials
# log k! minus (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2
CORRECTIONS = np.array([
    0.08106146679532726, 0.0413406959554093, 0.02767792568499834, 0.020790672103765093,
    0.016644691189821193, 0.013876128823070748, 0.01189670994589177, 0.010411265261972096,
    0.009255462182712733, 0.00833056343336287, 0.007573675487951841, 0.00694284010720953,
    0.006408994188004207, 0.0059513701127588475, 0.005554733551962801, 0.0052076559196096404,
])  # fmt: skip


# --- streams ----------------------------------------------------------------------------------------------------------


@jit(inner=True, borrows=True)
def begin(stream, seed, matrix):
    """Set the key of `stream`, six words, to the seed and the number of a matrix."""
    stream[3] = np.uint64(matrix) & LOW
    stream[4] = np.uint64(seed) & LOW
    stream[5] = np.uint64(seed) >> HALF


@jit(inner=True, borrows=True)
def seek(stream, replicate, part):
    """Set the counter of `stream` to the first number of a part of a replicate."""
    stream[0] = np.uint64(0)
    stream[1] = np.uint64(replicate) & LOW
    stream[2] = np.uint64(part)


@jit(inner=True, inline=True)
def philox(a, b, c, d, k, m):
    """Return the four 32-bit outputs of Philox4x32-10 for a counter of four words and a key of two."""
    for _ in range(PHILOX_ROUNDS):
        x, y = a * FACTOR_A, c * FACTOR_C
        a, b, c, d = (y >> HALF) ^ b ^ k, y & LOW, (x >> HALF) ^ d ^ m, x & LOW
        k, m = (k + STEP_K) & LOW, (m + STEP_M) & LOW
    return a, b, c, d


@jit(inner=True, borrows=True)
def _next_uniforms(stream):
    """Return the next two uniform numbers in (0, 1), and advance the stream."""
    a, b, c, d = philox(stream[0], stream[1], stream[2], stream[3], stream[4], stream[5])
    stream[0] += ONE
    return uniform(a, b), uniform(c, d)


@jit(inner=True, inline=True)
def uniform(high, low):
    """Return a uniform number in (0, 1) from two 32-bit words (53 bits)."""
    return np.float64(np.int64(((high << HALF) | low) >> ELEVEN)) * 2.0**-53 + 2.0**-54


# --- functions --------------------------------------------------------------------------------------------------------


@jit(inner=True)
def _log_odds_series(s):
    """Return log((1 + s) / (1 - s)) for abs(s) < 0.172, by its series in two independent partial sums."""
    square = s * s
    fourth = square * square
    even, odd = 0.0, 0.0
    for k in range(10, -1, -2):
        even = even * fourth + ODD[k]
        odd = odd * fourth + ODD[k + 1]
    return 2.0 * s * (even + square * odd)


@jit(inner=True)
def _log(x):
    """Return the natural logarithm of a positive number."""
    part, exponent = math.frexp(x)
    if part < ROOT_HALF:
        part *= 2.0
        exponent -= 1
    return exponent * LN_2 + _log_odds_series((part - 1.0) / (part + 1.0))


@jit(inner=True)
def _log_ratio(d, y):
    """Return log((y + d) / y), accurate also for small d."""
    s = d / (2.0 * y + d)
    return _log_odds_series(s) if abs(s) < 0.17 else _log((y + d) / y)


@jit(inner=True, inline=True)
def _exp(x):
    """Return exp(x) for x in [-56, 0], by a Taylor series of x / 128 and seven squarings."""
    x /= 128.0
    square = x * x
    even, odd = 0.0, 0.0
    for k in range(12, -1, -2):
        even = even * square + FACTORIALS[k]
        odd = odd * square + FACTORIALS[k + 1]
    total = even + x * odd
    for _ in range(7):
        total *= total
    return total


@jit(inner=True)
def _stirling_correction(k):
    """Return log k! minus Stirling's approximation."""
    if k < len(CORRECTIONS):
        return CORRECTIONS[np.int64(k)]
    t = 1.0 / (k + 1.0)
    square = t * t
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * t


# --- binomial draws ---------------------------------------------------------------------------------------------------


@jit(inner=True, borrows=True)
def binomial(stream, n, p):
    """Draw a binomial variate: successes in `n` (int64) trials of probability `p`."""
    if n == 0 or p == 0.0:
        return np.int64(0)
    if p >= 1.0:
        return np.int64(n)
    rare = min(p, 1.0 - p)
    size = np.float64(n)
    few = size * rare < LEAST_REJECTION_MEAN
    variate = _draw_by_inversion(stream, size, rare) if few else _draw_by_rejection(stream, size, rare)
    k = min(np.int64(variate), np.int64(n))  # a size beyond 2**53 may have been rounded up
    return n - k if p > 0.5 else k


@jit(inner=True, borrows=True)
def _draw_by_inversion(stream, n, p):
    """Draw a binomial variate by inversion of the distribution function, for small n p."""
    odds = p / (1.0 - p)
    start = _exp(n * _log_ratio(-p, 1.0))
    while True:
        v, _ = _next_uniforms(stream)
        k, chance, total = 0.0, start, start
        while v > total and k < MOST_INVERTED:
            k += 1.0
            chance *= (n + 1.0 - k) * (odds / k)
            total += chance
        if v <= total:
            return k


@jit(inner=True, borrows=True)
def _draw_by_rejection(stream, n, p):
    """Draw a binomial variate by transformed rejection (BTRS, Hoermann 1993), for n p of at least ten."""
    q = 1.0 - p
    spread = math.sqrt(n * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    middle = n * p + 0.5
    quick = 0.92 - 4.2 / b
    while True:
        v, u = _next_uniforms(stream)
        u -= 0.5
        edge = 0.5 - abs(u)
        k = np.floor((2.0 * a / edge + b) * u + middle)
        if k < 0.0 or k > n:
            continue
        if edge >= 0.07 and v <= quick:
            return k
        square = edge * edge
        v = v * ((2.83 + 5.1 / b) * spread) * square / (a + b * square)
        if _log(v) <= _log_relative_probability(n, p / q, np.floor((n + 1.0) * p), k):
            return k


@jit(inner=True)
def _log_relative_probability(n, odds, mode, k):
    """Return the log probability of `k` minus that of the mode of a binomial distribution."""
    d, before, after = k - mode, odds * (n - mode + 1.0), mode + 1.0
    large = (n - k + 0.5) * _log_ratio(d, n - k + 1.0) - (k + 0.5) * _log_ratio(d, after)
    tilt = d * _log_odds_series((before - after) / (before + after))  # before and after are nearly equal
    return (
        large
        + tilt
        + (
            _stirling_correction(mode)
            + _stirling_correction(n - mode)
            - _stirling_correction(k)
            - _stirling_correction(n - k)
        )
    )


# --- gamma draws ------------------------------------------------------------------------------------------------------


@jit(inner=True)
def exp_nonpositive(x):
    """Return exp(x) for x <= 0; 0 below -745."""
    if x < -745.0:
        return 0.0
    k = np.floor(x / LN_2)
    return math.ldexp(_exp(x - k * LN_2 - LN_2), int(k) + 1)


@jit(inner=True, borrows=True)
def _draw_normal(stream):
    """Draw a standard normal variate by the polar method."""
    while True:
        u, v = _next_uniforms(stream)
        u, v = 2.0 * u - 1.0, 2.0 * v - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            return u * math.sqrt(-2.0 * _log(s) / s)


@jit(inner=True, borrows=True)
def draw_log_gamma(stream, shape):
    """Draw the logarithm of a gamma variate (Marsaglia and Tsang 2000).

    Source: A simple method for generating gamma variables. The logarithm, because for shapes below 1 the variate itself
    may underflow float64.
    """
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = _draw_normal(stream)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        u, _ = _next_uniforms(stream)
        if u < 1.0 - 0.0331 * (x * x) * (x * x) or _log(u) < 0.5 * x * x + d * (1.0 - v + _log(v)):
            break
    drawn = _log(d * v)
    if shape < 1.0:
        u, _ = _next_uniforms(stream)
        drawn += _log(u) / shape
    return drawn
