"""Metrics of eight matrices at a time, from the lines of ``_lanes``: see ``kernels/shared/metrics.py`` for the codes.

A 0/0 is NaN here until the step that writes or reduces it puts the fill of the plan. Loops over the classes stand
inside the choice of a formula, never around it; `rows` and `params` are those of a plan.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._lanes import (
    CHANCE,
    COL,
    COVARIANCE,
    COVARIANCES,
    DIAGONAL,
    FALSE,
    HIT,
    MEMBER,
    MEMBERS,
    MISSED,
    NOT_PREDICTED,
    NOT_TRUE,
    NUMBERS,
    PREDICTION,
    REJECT,
    REJECTED,
    RIGHT,
    ROW,
    SINGLE,
    SUM,
    TABLES,
    TOTAL,
    TOTALS,
    TRUTH,
    WEIGHT,
    WEIGHTED_SUM,
)
from cmfast.kernels.cpu.metrics._margins import AGAIN_LINE, ORDERED_LINE
from cmfast.kernels.shared.metrics import Mode, Over, Step, Total, Value

# Plain integers of the codes that kernels compare with; the last one of each kind is what is left.
EACH, REDUCE = int(Step.EACH), int(Step.REDUCE)
STEP_TOTAL, HARMONIC = int(Step.TOTAL), int(Step.HARMONIC)
RECALL, PRECISION, FBETA = int(Value.RECALL), int(Value.PRECISION), int(Value.FBETA)
JACCARD, SPECIFICITY, NPV = int(Value.JACCARD), int(Value.SPECIFICITY), int(Value.NPV)
OVR_ACCURACY, OVR_BALANCED = int(Value.ACCURACY), int(Value.BALANCED_ACCURACY)
OVR_GEOMETRIC, OVR_TAU = int(Value.GEOMETRIC_MEAN), int(Value.TAU)
TSS, HEIDKE = int(Value.TSS), int(Value.HEIDKE)
GILBERT, DOOLITTLE = int(Value.GILBERT), int(Value.DOOLITTLE)
MEAN, WEIGHTED, MIN = int(Over.MEAN), int(Over.WEIGHTED), int(Over.MIN)
ADJUSTED, PICK = int(Over.ADJUSTED), int(Over.PICK)
ACCURACY, JACCARD_MICRO = int(Total.ACCURACY), int(Total.JACCARD_MICRO)
SPECIFICITY_MICRO, MCC, KAPPA = int(Total.SPECIFICITY_MICRO), int(Total.MCC), int(Total.KAPPA)
PEIRCE, LINEAR, QUADRATIC = int(Total.PEIRCE), int(Total.KAPPA_LINEAR), int(Total.KAPPA_QUADRATIC)
GERRITY = int(Total.GERRITY)
DEFINED = int(Mode.DEFINED)


@jit(inner=True)
def make_values(rows, params, values, S, C):
    """Make the values that are rates for every class, NaN where they are 0/0."""
    n = load(S, TABLES * C + TOTAL)
    for v in range(values):
        code, beta, x = rows[v, 1], params[rows[v, 6], 1], TABLES * C + NUMBERS + v * (SINGLE + C) + SINGLE
        if code == RECALL or code == SPECIFICITY:  # noqa: PLR1714, SIM109 - a search in a tuple takes long to compile
            table = HIT if code == RECALL else REJECT
            for k in range(C):
                store(S, x + k, load(S, table * C + k))
        elif code == PRECISION or code == NPV:  # noqa: PLR1714, SIM109
            above = DIAGONAL if code == PRECISION else REJECTED
            below = COL if code == PRECISION else NOT_PREDICTED
            for k in range(C):
                store(S, x + k, load(S, above * C + k) / load(S, below * C + k))
        elif code == FBETA:
            square = beta * beta
            for k in range(C):
                size = square * load(S, ROW * C + k) + load(S, COL * C + k)
                store(S, x + k, (1.0 + square) * load(S, DIAGONAL * C + k) / size)
        elif code == JACCARD:
            for k in range(C):
                store(S, x + k, load(S, DIAGONAL * C + k) / (load(S, ROW * C + k) + load(S, FALSE * C + k)))
        elif code == OVR_ACCURACY:
            for k in range(C):
                store(S, x + k, (load(S, DIAGONAL * C + k) + load(S, REJECTED * C + k)) / n)
        elif code == OVR_BALANCED:
            for k in range(C):
                store(S, x + k, (load(S, HIT * C + k) + load(S, REJECT * C + k)) * 0.5)
        elif code == OVR_GEOMETRIC:
            for k in range(C):
                store(S, x + k, sqrt(load(S, HIT * C + k) * load(S, REJECT * C + k)))
        elif code == OVR_TAU:
            for k in range(C):
                missed, false = 1.0 - load(S, HIT * C + k), 1.0 - load(S, REJECT * C + k)
                store(S, x + k, 1.0 - sqrt((missed * missed + false * false) * 0.5))


@jit(inner=True)
def correct_for_chance(rows, values, S, C):
    """Make the values that are corrected for chance."""
    n = load(S, TABLES * C + TOTAL)
    for v in range(values):
        code, x = rows[v, 1], TABLES * C + NUMBERS + v * (SINGLE + C) + SINGLE
        if code < TSS:
            continue
        for k in range(C):
            above, covariance = load(S, COVARIANCES * C + k), load(S, COVARIANCES * C + k)
            truth, p = load(S, ROW * C + k) * load(S, NOT_TRUE * C + k), load(S, COL * C + k)
            if code == TSS:
                below = truth
            elif code == HEIDKE:
                above = 2.0 * covariance
                below = load(S, ROW * C + k) * load(S, NOT_PREDICTED * C + k) + p * load(S, NOT_TRUE * C + k)
            elif code == GILBERT:
                d, false = load(S, DIAGONAL * C + k), load(S, FALSE * C + k)
                below = d * load(S, REJECTED * C + k) + false * (d + load(S, NOT_TRUE * C + k))
                below = below + n * load(S, MISSED * C + k)
            else:
                above, below = covariance * covariance, truth * (p * load(S, NOT_PREDICTED * C + k))
            value = above / below
            value = where(value > 1.0, 1.0, value)  # rounding alone can exceed one; NaN stays
            if code == DOOLITTLE:
                value = _determined(truth, p * load(S, NOT_PREDICTED * C + k), value)
            store(S, x + k, value)


@jit(inner=True)
def _determined(truth, prediction, x):
    """One degenerate margin: the limit of a correlation is 0 from every direction. Two: there is none."""
    none_true, none_predicted = truth == 0.0, prediction == 0.0
    return where(none_true & none_predicted, np.nan, where(none_true | none_predicted, 0.0, x))


@jit(inner=True)
def add_up(rows, params, values, mode, S, C):
    """Make the sums over the classes that averages are made of."""
    for v in range(values):
        at, fill, weighs = TABLES * C + NUMBERS + v * (SINGLE + C), params[rows[v, 6], 0], rows[v, 3] > 0
        total, weighted, weights, members = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for k in range(C):
            x, t = load(S, at + SINGLE + k), load(S, ROW * C + k)
            inside = load(S, MEMBER * C + k) > 0.0
            defined = x == x  # noqa: PLR0124 - NaN alone is not
            if mode == DEFINED:
                inside = inside & defined
            value = where(inside, where(defined, x, fill), 0.0)
            total = total + value
            members = members + where(inside, 1.0, splat(0.0))
            if weighs:
                weight = where(inside, t, 0.0)
                weights = weights + weight
                weighted = weighted + where(weight > 0.0, weight * value, 0.0)
        store(S, at + SUM, total)
        store(S, at + MEMBERS, members)
        store(S, at + WEIGHTED_SUM, weighted)
        store(S, at + WEIGHT, weights)


@jit(inner=True)
def make_totals(sums, at, S, C, products, ordered):
    """Make the numbers of whole matrices, NaN where they are 0/0."""
    one = TABLES * C
    out, n, right = one + TOTALS, load(S, one + TOTAL), load(S, one + RIGHT)
    store(S, out + ACCURACY, right / n)
    store(S, out + JACCARD_MICRO, right / (n + (n - right)))
    rejected = float(C - 2) * n + right
    store(S, out + SPECIFICITY_MICRO, rejected / (float(C - 1) * n) if C > 1 else splat(np.nan))
    if products:
        covariance = load(S, one + COVARIANCE)
        truth, prediction = load(S, one + TRUTH), load(S, one + PREDICTION)
        mcc = covariance / sqrt(truth * prediction)
        mcc = where(mcc < -1.0, -1.0, where(mcc > 1.0, 1.0, mcc))
        store(S, out + MCC, _determined(truth, prediction, mcc))
        store(S, out + KAPPA, covariance / load(S, one + CHANCE))
        store(S, out + PEIRCE, covariance / truth)
    if ordered:
        for code in (LINEAR, QUADRATIC, GERRITY):
            store(S, out + code, load(sums, at + ORDERED_LINE + code - LINEAR))


@jit(inner=True)
def finish(rows, params, values, sums, at, S, C, tables, first, count):
    """Run the other steps; per-class results go to ``tables[table, first : first + count]``, the rest to registers.

    What needed another pass over the classes is in `sums` already, in the tile whose first line is `at`.
    """
    registers = TABLES * C + NUMBERS + values * (SINGLE + C)
    for row in range(values, len(rows)):
        step, code, target, a, b = rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3], rows[row, 4]
        value, fill = TABLES * C + NUMBERS + rows[row, 5] * (SINGLE + C), params[rows[row, 6], 0]
        if step == EACH:
            for k in range(C):
                for w in range(count):
                    x = S[value + SINGLE + k, w]
                    tables[target, first + w, k] = fill if np.isnan(x) else x
            continue
        if step == REDUCE:
            if code == MEAN:
                out = load(S, value + SUM) / load(S, value + MEMBERS)
            elif code == WEIGHTED:
                out = load(S, value + WEIGHTED_SUM) / load(S, value + WEIGHT)
            elif code == PICK:
                out = load(S, value + SINGLE + a)
            elif code == ADJUSTED:
                members = load(S, value + MEMBERS)
                chance = 1.0 / members
                adjusted = (load(S, value + SUM) / members - chance) / (1.0 - chance)
                out = where(members >= 2.0, adjusted, np.nan)
            else:
                out = load(sums, at + AGAIN_LINE + code - MIN)
        elif step == STEP_TOTAL:
            out = load(S, TABLES * C + TOTALS + code)
        elif step == HARMONIC:
            x, y = load(S, registers + a), load(S, registers + b)
            out = where((x == 0.0) & (y == 0.0), 0.0, 2.0 * x * y / (x + y))
        else:
            out = (load(S, registers + a) + 1.0) * 0.5
        store(S, registers + target, where(out != out, fill, out))  # noqa: PLR0124 - NaN alone
