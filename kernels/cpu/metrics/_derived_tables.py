"""Derive 2x2 tables, margin products and other formula inputs from the class sums of eight matrices, one per SIMD lane.

The workspace has C lines of eight values for each table (diagonal, row sums, ...): line ``TABLE * C + k`` is class k;
then one line per matrix quantity (``TABLES * C + NUMBER``), ``SINGLE + C`` lines per value of a plan, and its
registers.
"""

import math
from functools import cache

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, splat, store, where
from cmfast.kernels.cpu.metrics._margins import FIRST, TOTAL_LINE
from cmfast.kernels.shared.metrics import Mode, Total

# Per-class tables
DIAGONAL, ROW, COL, HIT, MEMBER = range(5)  # d t p, d / t, 1 where the class may enter an average
# These differ between float64 and integer arithmetic: t-d p-d n-t n-p n-t-p+d, (n-t-p+d) / (n-t), tp tn - fn fp
MISSED, FALSE, NOT_TRUE, NOT_PREDICTED, REJECTED, REJECT, COVARIANCES = range(5, 12)
TABLES = 12

# Quantities of the whole matrix
TOTAL_MASS, RIGHT = 0, 1  # n and the sum of d
COVARIANCE = 2  # n a - e, the sum over classes of tp tn - fn fp
TRUTH, PREDICTION, CHANCE = 3, 4, 5  # sums of t (n - t), p (n - p), t (n - p)
WRONG_MASS = 6  # the sum of t - d
TOTALS = 7  # one line per `Total`
POOLED = TOTALS + len(Total)  # for each table, the sum over averaged classes
NUMBERS = POOLED + TABLES

PRESENT = int(Mode.PRESENT)

# Of each value of a plan: the sums for its averages, then the value of every class, NaN for 0/0.
SUM, WEIGHTED_SUM, WEIGHT, MEMBERS = range(4)
SINGLE = 4


def count_plan_lines(C, plan):
    """Return the number of workspace lines of a plan."""
    return TABLES * C + NUMBERS + plan.values * (SINGLE + C) + plan.registers


@cache
def largest_total(C, ordered):
    """Return the largest total for which all products of margins of C classes are exact in float64.

    Those of `ordered` classes, which are larger, are exact in int64.
    """
    most = math.isqrt(2**53)
    return float(min(most, math.isqrt(2**63 - 1) // max(1, C - 1)) if ordered else most)


@jit(inner=True, borrows=True)
def derive_tables(sums, at, plan, S, C):
    """Derive per-class 2x2 tables and matrix quantities of eight matrices from the tile whose first line is `at`."""
    n, one = load(sums, at + TOTAL_LINE), TABLES * C
    right, both, truth, prediction, chance = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    wrong = splat(0.0)
    for k in range(C):
        cell = at + FIRST + k
        d, t, p = load(sums, cell), load(sums, cell + C), load(sums, cell + 2 * C)
        missed, false, not_true, not_predicted = t - d, p - d, n - t, n - p
        rejected = not_true - false
        if plan.products:
            c = d * rejected - missed * false
            store(S, COVARIANCES * C + k, c)
            both = both + c
            truth = truth + t * not_true
            prediction = prediction + p * not_predicted
            chance = chance + t * not_predicted
        rejected = where(rejected < 0.0, 0.0, rejected)  # rounding of fractions can go below 0
        right = right + d
        wrong = wrong + missed
        store(S, DIAGONAL * C + k, d)
        store(S, ROW * C + k, t)
        store(S, COL * C + k, p)
        store(S, MISSED * C + k, missed)
        store(S, FALSE * C + k, false)
        store(S, NOT_TRUE * C + k, not_true)
        store(S, NOT_PREDICTED * C + k, not_predicted)
        store(S, REJECTED * C + k, rejected)
        if plan.rates:
            store(S, HIT * C + k, d / t)
            store(S, REJECT * C + k, rejected / not_true)
        known = (t > 0.0) | (p > 0.0) if plan.mode == PRESENT else t == t  # noqa: PLR0124 - all of them
        own = plan.members[k] if len(plan.members) > 0 else 1.0
        store(S, MEMBER * C + k, where(known, own, splat(0.0)))
    store(S, one + TOTAL_MASS, n)
    store(S, one + RIGHT, right)
    store(S, one + COVARIANCE, both)
    store(S, one + TRUTH, truth)
    store(S, one + PREDICTION, prediction)
    store(S, one + CHANCE, chance)
    store(S, one + WRONG_MASS, wrong)


@jit(inner=True, borrows=True)
def pool_classes(S, C, members):
    """Sum the 2x2 tables over the averaged classes, for micro averages."""
    for table in range(TABLES):
        total = splat(0.0)
        for k in range(C):
            if len(members) == 0 or members[k] > 0.0:
                total = total + load(S, table * C + k)
        store(S, TABLES * C + POOLED + table, total)
