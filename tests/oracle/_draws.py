"""Random numbers from counters and binomial draws, one at a time, in plain Python: the documented algorithm."""

import math
from decimal import Decimal, localcontext

WORD = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10 of Salmon et al. 2011: four words from four words and a key of two."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        high_a, low_a = divmod(0xD2511F53 * a, 1 << 32)
        high_c, low_c = divmod(0xCD9E8D57 * c, 1 << 32)
        a, b, c, d = high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a
        k, m = (k + 0x9E3779B9) & WORD, (m + 0xBB67AE85) & WORD
    return a, b, c, d


class Stream:
    """Pairs of numbers in (0, 1): a stream for each seed, matrix, replicate and part."""

    def __init__(self, seed, matrix, replicate, part):
        """Begin it."""
        self.key = seed & WORD, seed >> 32
        self.place = replicate & WORD, part, matrix & WORD
        self.number = 0

    def pair(self):
        a, b, c, d = philox((self.number, *self.place), self.key)
        self.number += 1
        return tuple(((high << 32 | low) >> 11) * 2.0**-53 + 2.0**-54 for high, low in ((a, b), (c, d)))


def polynomial(coefficients, x):
    """Even and odd powers apart, each from the highest on."""
    sums = []
    for first in (0, 1):
        total = 0.0
        for c in reversed(coefficients[first::2]):
            total = total * (x * x) + c
        sums.append(total)
    return sums[0] + x * sums[1]


def series(s):
    """Logarithm of (1 + s) / (1 - s), for small s."""
    return 2.0 * s * polynomial([1.0 / k for k in range(1, 25, 2)], s * s)


def log(x):
    part, exponent = math.frexp(x)
    if part < 0.7071067811865476:
        part, exponent = 2.0 * part, exponent - 1
    return exponent * 0.6931471805599453 + series((part - 1.0) / (part + 1.0))


def log_ratio(d, y):
    """Logarithm of (y + d) / y."""
    s = d / (2.0 * y + d)
    return series(s) if abs(s) < 0.17 else log((y + d) / y)


def exp(x):
    """For x from -56 to 0."""
    total = polynomial([1.0 / math.factorial(k) for k in range(14)], x / 128.0)
    for _ in range(7):
        total *= total
    return total


def _exact_correction(k):
    with localcontext(prec=50):
        half_log_two_pi = (2 * Decimal("3.14159265358979323846264338327950288419716939937510")).ln() / 2
        stirling = half_log_two_pi + (k + Decimal("0.5")) * Decimal(k + 1).ln() - (k + 1)
        return float(Decimal(math.factorial(k)).ln() - stirling)


EXACT = [_exact_correction(k) for k in range(16)]


def correction(k):
    """Logarithm of k! minus what Stirling's formula gives."""
    if k < 16:
        return EXACT[int(k)]
    t = 1.0 / (k + 1.0)
    square = t * t
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * t


def binomial(stream, n, p):
    """Successes among n, each of probability p."""
    if n == 0 or p == 0.0:
        return 0
    if p >= 1.0:
        return n
    rare = min(p, 1.0 - p)
    draw = by_inversion if float(n) * rare < 40.0 else by_rejection
    k = min(int(draw(stream, float(n), rare)), n)
    return n - k if p > 0.5 else k


def by_inversion(stream, n, p):
    odds, start = p / (1.0 - p), exp(n * log_ratio(-p, 1.0))
    while True:
        v, k, chance, total = stream.pair()[0], 0.0, start, start
        while v > total and k < 150:
            k += 1.0
            chance *= (n + 1.0 - k) * (odds / k)
            total += chance
        if v <= total:
            return k


def by_rejection(stream, n, p):
    """Hoermann's BTRS: k under a hat of one piece."""
    q = 1.0 - p
    spread = math.sqrt(n * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    mode = float(math.floor((n + 1.0) * p))
    while True:
        v, u = stream.pair()
        u -= 0.5
        edge = 0.5 - abs(u)
        k = float(math.floor((2.0 * a / edge + b) * u + (n * p + 0.5)))
        if not 0.0 <= k <= n:
            continue
        if edge >= 0.07 and v <= 0.92 - 4.2 / b:
            return k
        v = v * ((2.83 + 5.1 / b) * spread) * (edge * edge) / (a + b * (edge * edge))
        if log(v) <= log_chance(n, p / q, mode, k):
            return k


def log_chance(n, odds, mode, k):
    """Logarithm of the probability of k over that of the mode."""
    d, before, after = k - mode, odds * (n - mode + 1.0), mode + 1.0
    large = (n - k + 0.5) * log_ratio(d, n - k + 1.0) - (k + 0.5) * log_ratio(d, after)
    tilt = d * series((before - after) / (before + after))
    return large + tilt + (correction(mode) + correction(n - mode) - correction(k) - correction(n - k))


def spread(seed, place, part, total, weights):
    """Multinomial counts: from the first weight on, each takes its share of what is left, by a stream of its own."""
    rests, out = [0.0], []
    for w in reversed(weights):
        rests.append(rests[-1] + w)
    for j, (w, rest) in enumerate(zip(weights, reversed(rests[1:]), strict=True)):
        out.append(binomial(Stream(seed, *place, part + j), total, w / rest if w else 0.0))
        total -= out[-1]
    return out


def log_gamma(stream, shape):
    """Draw the logarithm of a gamma number as Marsaglia and Tsang do (2000), normal ones by the polar method."""
    d = max(shape, shape + 1 if shape < 1 else 0) - 1 / 3
    while True:
        s = 0.0
        while not 0 < s < 1:
            u, v = (2 * x - 1 for x in stream.pair())
            s = u * u + v * v
        x = u * math.sqrt(-2 * math.log(s) / s)
        root = 1 + x / math.sqrt(9 * d)
        if root <= 0:
            continue
        uniform = stream.pair()[0]
        if math.log(uniform) < x * x / 2 + d * (1 - root**3 + 3 * math.log(root)):
            break
    drawn = math.log(d) + 3 * math.log(root)
    return drawn + math.log(stream.pair()[0]) / shape if shape < 1 else drawn
