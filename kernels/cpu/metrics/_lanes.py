"""Eight matrices side by side: what the formulas are made of, in lines of eight numbers of one array.

There are C lines for each table (diagonal, row sums, ...) and one for each number of a matrix: line ``TABLE * C + k``
is class k of a table, line ``TABLES * C + NUMBER`` a number. Registers of a plan follow.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, splat, store, where
from cmfast.kernels.cpu.metrics._margins import total_line

# Tables
DIAGONAL, ROW, COL, MISSED, FALSE, NOT_TRUE, NOT_PREDICTED, REJECTED = range(8)  # d t p t-d p-d n-t n-p n-t-p+d
COVARIANCES = 8  # tp tn - fn fp
HIT, REJECT = 9, 10  # the two rates: tpr and tnr
MEMBER = 11  # 1 where the class may enter an average
VALUE, FILLED, ENTERING = 12, 13, 14  # of the metric in hand: its values, those that enter an average, which ones do
TABLES = 15

# Numbers
TOTAL, RIGHT = 0, 1  # n and the sum of d
COVARIANCE = 2  # n a - e, the sum over classes of tp tn - fn fp
TRUTH, PREDICTION, CHANCE = 3, 4, 5  # sums of t (n - t), p (n - p), t (n - p)
LINEAR_GAIN, LINEAR_CHANCE, QUADRATIC_GAIN, QUADRATIC_CHANCE = 6, 7, 8, 9  # E - n S and E
GERRITY_SCORE = 10
SUM, WEIGHTED_SUM, WEIGHT, MEMBERS = 11, 12, 13, 14  # of the metric in hand
SPARE = 15
NUMBERS = 16


def largest_total(C, ordered):
    """Return the total of counts up to which every sum of products of the margins of C classes is exact in float64."""
    return math.isqrt(2**53 // (2 * max(1, C - 1) ** 2 if ordered else 1))


@jit(inline=True)
def derive(sums, S, C, products, ordered):
    """Fill the tables and the numbers that do not depend on a metric."""
    n, one = load(sums, total_line(C)), TABLES * C
    right, both, truth, prediction, chance = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C):
        d, t, p = load(sums, k), load(sums, C + k), load(sums, 2 * C + k)
        missed, false, not_true, not_predicted = t - d, p - d, n - t, n - p
        rejected = not_true - false
        if products:
            c = d * rejected - missed * false
            store(S, COVARIANCES * C + k, c)
            both = both + c
            truth = truth + t * not_true
            prediction = prediction + p * not_predicted
            chance = chance + t * not_predicted
        rejected = where(rejected < 0.0, 0.0, rejected)  # rounding of fractions can go below 0
        right = right + d
        store(S, DIAGONAL * C + k, d)
        store(S, ROW * C + k, t)
        store(S, COL * C + k, p)
        store(S, MISSED * C + k, missed)
        store(S, FALSE * C + k, false)
        store(S, NOT_TRUE * C + k, not_true)
        store(S, NOT_PREDICTED * C + k, not_predicted)
        store(S, REJECTED * C + k, rejected)
    store(S, one + TOTAL, n)
    store(S, one + RIGHT, right)
    store(S, one + COVARIANCE, both)
    store(S, one + TRUTH, truth)
    store(S, one + PREDICTION, prediction)
    store(S, one + CHANCE, chance)
    if ordered:
        _order(sums, S, C)
        store(S, one + GERRITY_SCORE, _gerrity(sums, C))


@jit(inline=True)
def finish(S, C, present_only, rates):
    """Fill the tables that are made of other tables."""
    for k in range(C):
        t, p = load(S, ROW * C + k), load(S, COL * C + k)
        known = where((t > 0.0) | (p > 0.0), 1.0, splat(0.0))
        store(S, MEMBER * C + k, known if present_only else splat(1.0))
        if rates:
            store(S, HIT * C + k, load(S, DIAGONAL * C + k) / t)
            store(S, REJECT * C + k, load(S, REJECTED * C + k) / load(S, NOT_TRUE * C + k))


@jit(inner=True)
def _order(sums, S, C):
    n, one = load(sums, total_line(C)), TABLES * C
    below_t, below_p, chance, apart = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C - 1):
        below_t = below_t + load(sums, C + k)
        below_p = below_p + load(sums, 2 * C + k)
        chance = chance + (below_t * (n - below_p) + below_p * (n - below_t))
    # Moments about the middle, not about class 0: exact either way, and fractions lose less.
    middle = (C - 1) // 2
    squares, first_t, first_p, far = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C):
        i = float(k - middle)
        t, p, band = load(sums, C + k), load(sums, 2 * C + k), load(sums, 3 * C + k)
        apart = apart + float(k) * band
        far = far + float(k * k) * band
        squares = squares + i * i * (t + p)
        first_t = first_t + i * t
        first_p = first_p + i * p
    store(S, one + LINEAR_CHANCE, chance)
    store(S, one + LINEAR_GAIN, chance - n * apart)
    # All mass in one cell of the diagonal: exactly 0 for integers, rounding for fractions.
    expected = where(chance > 0.0, n * squares - 2.0 * first_t * first_p, 0.0)
    store(S, one + QUADRATIC_CHANCE, expected)
    store(S, one + QUADRATIC_GAIN, expected - n * far)


@jit(inner=True)
def _gerrity(sums, C):
    """Gerrity 1992 from sums: the reward of cell (i, j) depends on min(i, j), on max(i, j) and on abs(i - j) alone."""
    n = load(sums, total_line(C))
    score, low, high, below = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    known = n > 0.0
    # below / above and above / below are the odds of the cut after each class; `low` sums them from the left.
    for k in range(C):
        top = load(sums, 4 * C + k)
        bottom = (load(sums, C + k) - top) + load(sums, 2 * C + k)
        score = score + (low * bottom - float(k) * load(sums, 3 * C + k))
        high = high + top
        if k < C - 1:
            below = below + load(sums, C + k)
            above = n - below
            known = known & (below > 0.0) & (above > 0.0)
            low = low + below / above
            # Every cell whose larger class is at most k earns this cut's odds of the other side.
            score = score + high * (above / below)
    return where(known, score / (float(C - 1) * n), np.nan) if C > 1 else splat(np.nan)
