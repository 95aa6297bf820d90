"""Random numbers from counters, and binomial draws that have the same bits everywhere.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011) makes numbers of a place
and a key, so any thread can draw any replicate. Binomial draws are exact in law up to rounding: by inversion where few
are expected, else by transformed rejection (Hoermann, The generation of binomial random variates, 1993, BTRS), with its
test written in differences from the mode, so that it keeps its digits for counts of any size.

Logarithms and exponentials are sums and quotients in a fixed order, for every library rounds its own differently: the
CUDA kernels do the same operations in the same order and get the same draws.
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
FACTORIALS = np.array([1.0 / math.factorial(k) for k in range(14)])  # one over them
# log k! minus (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2
CORRECTIONS = np.array([
    0.08106146679532726, 0.0413406959554093, 0.02767792568499834, 0.020790672103765093,
    0.016644691189821193, 0.013876128823070748, 0.01189670994589177, 0.010411265261972096,
    0.009255462182712733, 0.00833056343336287, 0.007573675487951841, 0.00694284010720953,
    0.006408994188004207, 0.0059513701127588475, 0.005554733551962801, 0.0052076559196096404,
])  # fmt: skip


# --- streams ----------------------------------------------------------------------------------------------------------


@jit(inner=True)
def begin(stream, seed, matrix):
    """Make `stream`, six words, that of one matrix."""
    stream[3] = np.uint64(matrix) & LOW
    stream[4] = np.uint64(seed) & LOW
    stream[5] = np.uint64(seed) >> HALF


@jit(inner=True)
def seek(stream, replicate, part):
    """Go to the first number of a part of a replicate."""
    stream[0] = np.uint64(0)
    stream[1] = np.uint64(replicate) & LOW
    stream[2] = np.uint64(part)


@jit(inner=True, inline=True)
def _words(a, b, c, d, k, m):
    """Philox4x32-10: four words of 32 bits from four and a key of two."""
    for _ in range(PHILOX_ROUNDS):
        x, y = a * FACTOR_A, c * FACTOR_C
        a, b, c, d = (y >> HALF) ^ b ^ k, y & LOW, (x >> HALF) ^ d ^ m, x & LOW
        k, m = (k + STEP_K) & LOW, (m + STEP_M) & LOW
    return a, b, c, d


@jit(inner=True)
def _pair(stream):
    """Return the next two numbers, uniform in (0, 1)."""
    a, b, c, d = _words(stream[0], stream[1], stream[2], stream[3], stream[4], stream[5])
    stream[0] += ONE
    return uniform(a, b), uniform(c, d)


@jit(inner=True, inline=True)
def uniform(high, low):
    """Return a number in (0, 1) of two words."""
    return np.float64(np.int64(((high << HALF) | low) >> ELEVEN)) * 2.0**-53 + 2.0**-54


# --- functions --------------------------------------------------------------------------------------------------------


@jit(inner=True)
def _series(s):
    """Logarithm of (1 + s) / (1 - s), for abs(s) below 0.172; two sums, so that neither waits for the other."""
    square = s * s
    fourth = square * square
    even, odd = 0.0, 0.0
    for k in range(10, -1, -2):
        even = even * fourth + ODD[k]
        odd = odd * fourth + ODD[k + 1]
    return 2.0 * s * (even + square * odd)


@jit(inner=True)
def _log(x):
    part, exponent = math.frexp(x)
    if part < ROOT_HALF:
        part *= 2.0
        exponent -= 1
    return exponent * LN_2 + _series((part - 1.0) / (part + 1.0))


@jit(inner=True)
def _log_ratio(d, y):
    """Logarithm of (y + d) / y, to its last digits for small d."""
    s = d / (2.0 * y + d)
    return _series(s) if abs(s) < 0.17 else _log((y + d) / y)


@jit(inner=True, inline=True)
def _exp(x):
    """Exponential of what lies between -56 and 0."""
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
def _correction(k):
    """Logarithm of k! minus what Stirling's formula gives."""
    if k < len(CORRECTIONS):
        return CORRECTIONS[np.int64(k)]
    t = 1.0 / (k + 1.0)
    square = t * t
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * t


# --- binomial draws ---------------------------------------------------------------------------------------------------


@jit(inner=True)
def binomial(stream, n, p):
    """Draw the number of successes among `n`, int64, of probability `p`."""
    if n == 0 or p == 0.0:
        return np.int64(0)
    if p >= 1.0:
        return np.int64(n)
    rare = min(p, 1.0 - p)
    size = np.float64(n)
    few = size * rare < LEAST_REJECTION_MEAN
    drawn = _by_inversion(stream, size, rare) if few else _by_rejection(stream, size, rare)
    k = min(np.int64(drawn), np.int64(n))  # a size beyond 2**53 may have been rounded up
    return n - k if p > 0.5 else k


@jit(inner=True)
def _by_inversion(stream, n, p):
    odds = p / (1.0 - p)
    start = _exp(n * _log_ratio(-p, 1.0))
    while True:
        v, _ = _pair(stream)
        k, chance, total = 0.0, start, start
        while v > total and k < MOST_INVERTED:
            k += 1.0
            chance *= (n + 1.0 - k) * (odds / k)
            total += chance
        if v <= total:
            return k


@jit(inner=True)
def _by_rejection(stream, n, p):
    q = 1.0 - p
    spread = math.sqrt(n * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    middle = n * p + 0.5
    quick = 0.92 - 4.2 / b
    while True:
        v, u = _pair(stream)
        u -= 0.5
        edge = 0.5 - abs(u)
        k = np.floor((2.0 * a / edge + b) * u + middle)
        if k < 0.0 or k > n:
            continue
        if edge >= 0.07 and v <= quick:
            return k
        square = edge * edge
        v = v * ((2.83 + 5.1 / b) * spread) * square / (a + b * square)
        if _log(v) <= _log_chance(n, p / q, np.floor((n + 1.0) * p), k):
            return k


@jit(inner=True)
def _log_chance(n, odds, mode, k):
    """Logarithm of the probability of `k` over that of the mode."""
    d, before, after = k - mode, odds * (n - mode + 1.0), mode + 1.0
    large = (n - k + 0.5) * _log_ratio(d, n - k + 1.0) - (k + 0.5) * _log_ratio(d, after)
    tilt = d * _series((before - after) / (before + after))  # of numbers that are nearly equal
    return large + tilt + (_correction(mode) + _correction(n - mode) - _correction(k) - _correction(n - k))


# --- gamma draws ------------------------------------------------------------------------------------------------------


@jit(inner=True)
def exponential(x):
    """Return the exponential of a number that is not above 0."""
    if x < -745.0:
        return 0.0
    k = np.floor(x / LN_2)
    return math.ldexp(_exp(x - k * LN_2 - LN_2), int(k) + 1)


@jit(inner=True)
def _normal(stream):
    """Draw a normal number, by the polar method."""
    while True:
        u, v = _pair(stream)
        u, v = 2.0 * u - 1.0, 2.0 * v - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            return u * math.sqrt(-2.0 * _log(s) / s)


@jit(inner=True)
def log_gamma(stream, shape):
    """Draw the logarithm of a gamma number (Marsaglia and Tsang, A simple method for generating gamma variables, 2000).

    Of a shape below 1 the number itself may be below what float64 holds.
    """
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = _normal(stream)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        u, _ = _pair(stream)
        if u < 1.0 - 0.0331 * (x * x) * (x * x) or _log(u) < 0.5 * x * x + d * (1.0 - v + _log(v)):
            break
    drawn = _log(d * v)
    if shape < 1.0:
        u, _ = _pair(stream)
        drawn += _log(u) / shape
    return drawn
