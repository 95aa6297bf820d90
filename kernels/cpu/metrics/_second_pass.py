"""Second pass over the class sums, for metrics that need it: weighted kappas, Gerrity, minimum and geometric mean.

Compiled when such a metric is first requested.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, some, splat, sqrt, store, where
from cmfast.kernels.cpu._core.vector_functions import (
    LEAST_NORMAL,
    LN2,
    UPWARD,
    UPWARD_BITS,
    exp,
    exponent,
    log,
    mantissa,
)
from cmfast.kernels.cpu.metrics._margins import AGAIN_LINE, FIRST, ORDERED_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import Mode, Over, Plan, Step

LINEAR_LINE, QUADRATIC_LINE, GERRITY_LINE = range(ORDERED_LINE, ORDERED_LINE + 3)
MIN_LINE, GEOMETRIC_LINE, TAU_LINE, TAU_NORMALIZED_LINE = range(AGAIN_LINE, AGAIN_LINE + 4)
VALUE, REDUCE = int(Step.VALUE), int(Step.REDUCE)
RECALL, TAU_NORMALIZED = int(Value.RECALL), int(Over.TAU_NORMALIZED)
PRESENT, DEFINED = int(Mode.PRESENT), int(Mode.DEFINED)


# Totals times the largest distance of two classes up to which weighted kappas are exact in float64, and in int64.
MOST_EXACT_MOMENT, MOST_COUNTED_MOMENT = 2.0**26, 2.0**31.5


@jit(borrows=True)
def score_ordinal(sums, C, counts):
    """Write weighted kappas and Gerrity's score, which depend on class order, to every tile.

    `counts` says whether sums are of counts, or of fractions.
    """
    for at in range(0, len(sums), FIRST + SUMS * C):
        _score_weighted_kappas(sums, at, C, counts)
        _score_gerrity(sums, at, C)


@jit(inner=True, borrows=True)
def _score_weighted_kappas(sums, at, C, counts):
    """Write the linearly and the quadratically weighted kappa of eight matrices."""
    n = load(sums, at + TOTAL_LINE)
    below_t, below_p, chance, lost, apart = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C - 1):
        below_t = below_t + load(sums, at + FIRST + C + k)
        below_p = below_p + load(sums, at + FIRST + 2 * C + k)
        more, before = below_t * (n - below_p) + below_p * (n - below_t), chance
        chance = before + more
        added = chance - before
        lost = lost + ((before - (chance - added)) + (more - added))  # by rounding, exactly (Knuth's two-sum)
    # Moments about the middle class lose fewer digits for fractions; for counts both are exact.
    middle = (C - 1) // 2
    squares, first_t, first_p, far = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C):
        i = float(k - middle)
        t, p, band = (
            load(sums, at + FIRST + C + k),
            load(sums, at + FIRST + 2 * C + k),
            load(sums, at + FIRST + 3 * C + k),
        )
        apart = apart + float(k) * band
        far = far + float(k * k) * band
        squares = squares + i * i * (t + p)
        first_t = first_t + i * t
        first_p = first_p + i * p
    moment = n * float(C - 1)
    inexact = (moment > MOST_EXACT_MOMENT) & (moment < MOST_COUNTED_MOMENT)
    if counts and some(inexact):  # the lines of later results hold the sums meanwhile
        for line, x in enumerate((chance, lost, apart, squares, far, first_t, first_p)):
            store(sums, at + ORDERED_LINE + line, x)
    linear = (chance - n * apart) / chance
    # All mass in one cell of the diagonal: exactly 0 for integers, rounding for fractions.
    expected = where(chance > 0.0, n * squares - 2.0 * first_t * first_p, 0.0)
    quadratic = (expected - n * far) / expected
    if counts and some(inexact):
        for w in range(WIDTH):
            if MOST_EXACT_MOMENT < sums[at + TOTAL_LINE, w] * (C - 1) < MOST_COUNTED_MOMENT:
                _score_counted_kappas(sums, at, w)
        linear = where(inexact, load(sums, at + LINEAR_LINE), linear)
        quadratic = where(inexact, load(sums, at + QUADRATIC_LINE), quadratic)
    store(sums, at + LINEAR_LINE, linear)
    store(sums, at + QUADRATIC_LINE, quadratic)


@jit(inner=True, borrows=True)
def _score_counted_kappas(sums, at, w):
    """Replace the sums for the weighted kappas of a matrix of counts by both kappas; their products fit int64."""
    line, n = at + ORDERED_LINE, np.int64(sums[at + TOTAL_LINE, w])
    chance = np.int64(sums[line, w]) + np.int64(sums[line + 1, w])
    apart, squares, far = np.int64(sums[line + 2, w]), np.int64(sums[line + 3, w]), np.int64(sums[line + 4, w])
    expected = n * squares - 2 * np.int64(sums[line + 5, w]) * np.int64(sums[line + 6, w])
    sums[at + LINEAR_LINE, w] = np.float64(chance - n * apart) / np.float64(chance)
    sums[at + QUADRATIC_LINE, w] = np.float64(expected - n * far) / np.float64(expected)


@jit(inner=True, borrows=True)
def _score_gerrity(sums, at, C):
    """Write Gerrity's score (1992), whose weights depend on min(i, j), max(i, j) and abs(i - j) alone."""
    n = load(sums, at + TOTAL_LINE)
    score, low, high, below = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    known = n > 0.0
    # below / above and above / below are the odds of the cut after each class; `low` accumulates the former.
    for k in range(C):
        top = load(sums, at + FIRST + 4 * C + k)
        bottom = (load(sums, at + FIRST + C + k) - top) + load(sums, at + FIRST + 2 * C + k)
        score = score + (low * bottom - float(k) * load(sums, at + FIRST + 3 * C + k))
        high = high + top
        if k < C - 1:
            below = below + load(sums, at + FIRST + C + k)
            above = n - below
            known = known & (below > 0.0) & (above > 0.0)
            low = low + below / above
            # Every cell whose larger class is at most k gets the reciprocal odds of this cut.
            score = score + high * (above / below)
    score = where(known, score / (float(C - 1) * n), np.nan) if C > 1 else splat(np.nan)
    store(sums, at + GERRITY_LINE, score)


@jit(borrows=True)
def reduce_recalls(sums, C, plan):
    """Write minimum, geometric mean and tau of the recalls to every tile, NaN where undefined."""
    plan = Plan(*plan)
    rows, params, weights = plan.rows, plan.params, plan.weights
    fill, power, normalize = 0.0, 1.0, False
    for row in range(len(rows)):
        if rows[row, 0] == VALUE and rows[row, 1] == RECALL:
            fill = params[rows[row, 6], 0]
        if rows[row, 0] == REDUCE and rows[row, 1] == TAU_NORMALIZED:
            power, normalize = params[rows[row, 6], 1], True
    for at in range(0, len(sums), FIRST + SUMS * C):
        least, members = splat(np.inf), splat(0.0)
        product, exponents = splat(1.0), splat(0.0)
        square, weight = splat(0.0), splat(0.0)
        for k in range(at + FIRST, at + FIRST + C):
            t = load(sums, k + C)
            x = load(sums, k) / t
            defined, inside = x == x, t == t  # noqa: PLR0124 - NaN alone is not
            if plan.mode == PRESENT:
                inside = (t > 0.0) | (load(sums, k + 2 * C) > 0.0)
            elif plan.mode == DEFINED:
                inside = defined
            if len(plan.members) > 0:
                inside = inside & (splat(plan.members[k - at - FIRST]) > 0.0)
            members = members + where(inside, 1.0, splat(0.0))
            value = where(inside, where(defined, x, fill), 1.0)
            # NaN propagates: it replaces the minimum and nothing replaces it.
            least = where(~(value >= least) & (least == least), value, least)  # noqa: PLR0124
            # Mantissas are multiplied, exponents added: the product of hundreds of recalls would underflow.
            small = value < LEAST_NORMAL
            y = product * where(small, value * UPWARD, value)
            product = where(y > 0.0, mantissa(y), y)
            exponents = exponents + where(y > 0.0, exponent(y), 0.0) - where(small, UPWARD_BITS, splat(0.0))
            away = 1.0 - value
            own = weights[k - at - FIRST] if normalize else 1.0
            square = square + own * (away * away)
            weight = weight + where(inside, own, splat(0.0))
        some = members > 0.0
        store(sums, at + MIN_LINE, where(some, least, np.nan))
        store(sums, at + TAU_LINE, 1.0 - sqrt(square / members))
        share = 1.0 - sqrt(square / weight)
        # One log and one exp serve both results, which no plan requests together: each is slow to compile.
        logarithm = log(where(share < 0.0, 0.0, share) if normalize else product)
        mean = where(some, exp(power * logarithm if normalize else (logarithm + exponents * LN2) / members), np.nan)
        store(sums, at + GEOMETRIC_LINE, mean)
        store(sums, at + TAU_NORMALIZED_LINE, mean)
