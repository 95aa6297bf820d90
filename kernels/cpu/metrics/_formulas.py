"""Metrics of eight matrices at a time, from the lines of ``_lanes``: see ``kernels/shared/metrics.py`` for the codes.

A 0/0 is NaN here until the step that writes or reduces it puts the fill of the plan.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, some, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._lanes import (
    CHANCE,
    COL,
    COVARIANCE,
    COVARIANCES,
    DIAGONAL,
    ENTERING,
    FALSE,
    FILLED,
    GERRITY_SCORE,
    HIT,
    LINEAR_CHANCE,
    LINEAR_GAIN,
    MEMBER,
    MEMBERS,
    MISSED,
    NOT_PREDICTED,
    NOT_TRUE,
    NUMBERS,
    PREDICTION,
    QUADRATIC_CHANCE,
    QUADRATIC_GAIN,
    REJECT,
    REJECTED,
    RIGHT,
    ROW,
    SPARE,
    SUM,
    TABLES,
    TOTAL,
    TRUTH,
    VALUE,
    WEIGHT,
    WEIGHTED_SUM,
)
from cmfast.kernels.shared.metrics import Mode, Over, Step, Total, Value

# Plain integers of the codes that kernels compare with; the last one of each kind is what is left.
STEP_VALUE, EACH, REDUCE = int(Step.VALUE), int(Step.EACH), int(Step.REDUCE)
STEP_TOTAL, HARMONIC = int(Step.TOTAL), int(Step.HARMONIC)
RECALL, PRECISION, FBETA = int(Value.RECALL), int(Value.PRECISION), int(Value.FBETA)
JACCARD, SPECIFICITY, NPV = int(Value.JACCARD), int(Value.SPECIFICITY), int(Value.NPV)
OVR_ACCURACY, OVR_BALANCED = int(Value.ACCURACY), int(Value.BALANCED_ACCURACY)
OVR_GEOMETRIC, OVR_TAU = int(Value.GEOMETRIC_MEAN), int(Value.TAU)
TSS, HEIDKE, GILBERT = int(Value.TSS), int(Value.HEIDKE), int(Value.GILBERT)
MEAN, WEIGHTED, MIN, GEOMETRIC = int(Over.MEAN), int(Over.WEIGHTED), int(Over.MIN), int(Over.GEOMETRIC)
TAU, TAU_WEIGHTED, ADJUSTED = int(Over.TAU), int(Over.TAU_WEIGHTED), int(Over.ADJUSTED)
ACCURACY, JACCARD_MICRO = int(Total.ACCURACY), int(Total.JACCARD_MICRO)
SPECIFICITY_MICRO, MCC, KAPPA = int(Total.SPECIFICITY_MICRO), int(Total.MCC), int(Total.KAPPA)
PEIRCE, LINEAR, QUADRATIC = int(Total.PEIRCE), int(Total.KAPPA_LINEAR), int(Total.KAPPA_QUADRATIC)
DEFINED = int(Mode.DEFINED)


@jit(inline=True)
def run(plan, S, C, tables, first, count):
    """Run a plan; per-class results go to ``tables[table, first : first + count]``, the others to the registers."""
    steps, params = plan.steps, plan.params
    registers = TABLES * C + NUMBERS
    for s in range(steps.shape[0]):
        step, code, target, a, b = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        fill, parameter = params[s, 0], params[s, 1]
        if step == STEP_VALUE:
            _class_values(code, parameter, fill, plan.mode == DEFINED, S, C)
        elif step == EACH:
            for k in range(C):
                for w in range(count):
                    x = S[VALUE * C + k, w]
                    tables[target, first + w, k] = fill if np.isnan(x) else x
        else:
            if step == REDUCE and code in (MIN, GEOMETRIC, TAU, TAU_WEIGHTED):
                out = _reduced_again(code, a, parameter, plan.weights, S, C)
            elif step == REDUCE:
                out = _reduced(code, a, S, C)
            elif step == STEP_TOTAL:
                out = _whole(code, S, C)
            elif step == HARMONIC:
                x, y = load(S, registers + a), load(S, registers + b)
                out = where((x == 0.0) & (y == 0.0), 0.0, 2.0 * x * y / (x + y))
            else:
                out = (load(S, registers + a) + 1.0) * 0.5
            store(S, registers + target, where(out != out, fill, out))  # noqa: PLR0124 - NaN alone


@jit(inline=True)
def _class_values(code, beta, fill, defined_only, S, C):
    """Make one metric of every class, NaN where it is 0/0, and the sums that its averages are made of."""
    square = beta * beta
    total, weighted, weights, members = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C):
        x = _class_value(code, square, S, C, k)
        store(S, VALUE * C + k, x)
        defined = x == x  # noqa: PLR0124 - NaN alone is not
        inside = load(S, MEMBER * C + k) > 0.0
        if defined_only:
            inside = inside & defined
        value = where(inside, where(defined, x, fill), 0.0)
        entering = where(inside, 1.0, splat(0.0))
        store(S, FILLED * C + k, value)
        store(S, ENTERING * C + k, entering)
        members = members + entering
        total = total + value
        weight = where(inside, load(S, ROW * C + k), 0.0)
        weights = weights + weight
        weighted = weighted + where(weight > 0.0, weight * value, 0.0)
    one = TABLES * C
    store(S, one + SUM, total)
    store(S, one + MEMBERS, members)
    store(S, one + WEIGHTED_SUM, weighted)
    store(S, one + WEIGHT, weights)


@jit(inline=True)
def _class_value(code, square, S, C, k):
    n = load(S, TABLES * C + TOTAL)
    d, t, p = load(S, DIAGONAL * C + k), load(S, ROW * C + k), load(S, COL * C + k)
    not_true, not_predicted = load(S, NOT_TRUE * C + k), load(S, NOT_PREDICTED * C + k)
    if code == RECALL:
        return load(S, HIT * C + k)
    if code == PRECISION:
        return d / p
    if code == FBETA:
        return (1.0 + square) * d / (square * t + p)
    if code == JACCARD:
        return d / (t + load(S, FALSE * C + k))
    if code == SPECIFICITY:
        return load(S, REJECT * C + k)
    if code == NPV:
        return load(S, REJECTED * C + k) / not_predicted
    if code == OVR_ACCURACY:
        return (d + load(S, REJECTED * C + k)) / n
    if code == OVR_BALANCED:
        return (load(S, HIT * C + k) + load(S, REJECT * C + k)) * 0.5
    if code == OVR_GEOMETRIC:
        return sqrt(load(S, HIT * C + k) * load(S, REJECT * C + k))
    if code == OVR_TAU:
        missed, false = 1.0 - load(S, HIT * C + k), 1.0 - load(S, REJECT * C + k)
        return 1.0 - sqrt((missed * missed + false * false) * 0.5)
    covariance = load(S, COVARIANCES * C + k)
    if code == TSS:
        return _at_most_one(covariance / (t * not_true))
    if code == HEIDKE:
        return _at_most_one(2.0 * covariance / (t * not_predicted + p * not_true))
    if code == GILBERT:
        missed, false = load(S, MISSED * C + k), load(S, FALSE * C + k)
        beyond = d * load(S, REJECTED * C + k) + false * (d + not_true) + n * missed
        return _at_most_one(covariance / beyond)
    truth, prediction = t * not_true, p * not_predicted
    return _determined(truth, prediction, _at_most_one(covariance * covariance / (truth * prediction)))


@jit(inline=True)
def _at_most_one(x):
    return where(x > 1.0, 1.0, x)  # rounding alone can exceed one; NaN stays


@jit(inline=True)
def _determined(truth, prediction, x):
    """One degenerate margin: the limit of a correlation is 0 from every direction. Two: there is none."""
    none_true, none_predicted = truth == 0.0, prediction == 0.0
    return where(none_true & none_predicted, np.nan, where(none_true | none_predicted, 0.0, x))


@jit(inline=True)
def _reduced(how, pick, S, C):
    """Reduce the values over the classes by sums that are made already; NaN where there is no answer."""
    one = TABLES * C
    total, members = load(S, one + SUM), load(S, one + MEMBERS)
    if how == MEAN:
        out = total / members
    elif how == WEIGHTED:
        out = load(S, one + WEIGHTED_SUM) / load(S, one + WEIGHT)
    elif how == ADJUSTED:
        chance = 1.0 / members
        out = where(members >= 2.0, (total / members - chance) / (1.0 - chance), np.nan)
    else:
        out = load(S, VALUE * C + pick)
    return out


@jit(inner=True)
def _reduced_again(how, pick, parameter, weights, S, C):
    """Reduce the values over the classes by another pass over them; NaN where there is no answer."""
    one = TABLES * C
    members = load(S, one + MEMBERS)
    if how == MIN:
        least = splat(np.inf)
        for k in range(C):
            value = load(S, FILLED * C + k)
            # A NaN is never above what was least so far, and nothing is below it then.
            takes = (load(S, ENTERING * C + k) > 0.0) & ~(value >= least) & (least == least)  # noqa: PLR0124
            least = where(takes, value, least)
        return where(members > 0.0, least, np.nan)
    if how == GEOMETRIC:
        return _geometric_mean(members, S, C)
    square, weight = splat(0.0), splat(0.0)
    for k in range(C):
        away = 1.0 - load(S, FILLED * C + k)
        own = load(S, ENTERING * C + k) * (weights[k] if how == TAU_WEIGHTED else 1.0)
        square = square + own * (away * away)
        weight = weight + own
    if how == TAU:
        return 1.0 - sqrt(square / members)
    if pick == 0:
        return where(members > 0.0, parameter - parameter * sqrt(square / members), np.nan)
    store(S, one + SPARE, 1.0 - sqrt(square / weight))
    for w in range(WIDTH):
        S[one + SPARE, w] = max(0.0, S[one + SPARE, w]) ** parameter
    return where(members > 0.0, load(S, one + SPARE), np.nan)


@jit(inner=True)
def _geometric_mean(members, S, C):
    """Mantissas are multiplied, exponents counted: the product of hundreds of recalls would underflow."""
    huge, tiny = 2.0**512, 2.0**-256
    product, exponent = splat(1.0), splat(0.0)
    for k in range(C):
        value = where(load(S, ENTERING * C + k) > 0.0, load(S, FILLED * C + k), 1.0)
        for _ in range(2):  # the least float64 takes two steps
            small = (value > 0.0) & (value < tiny)
            value = where(small, value * huge, value)
            exponent = exponent + where(small, 512.0, splat(0.0))
        value = value * product
        small = (value > 0.0) & (value < tiny)
        product = where(small, value * huge, value)
        exponent = exponent + where(small, 512.0, splat(0.0))
    at = TABLES * C + SPARE
    store(S, at, product)
    for w in range(WIDTH):
        S[at, w] = S[at, w] ** (1.0 / S[TABLES * C + MEMBERS, w])
    root = where(members > 0.0, load(S, at), np.nan)
    if some(exponent > 0.0):
        store(S, at, exponent / members)
        for w in range(WIDTH):
            S[at, w] = 2.0 ** -S[at, w]
        root = root * load(S, at)
    return root


@jit(inline=True)
def _whole(code, S, C):
    """Make a number of the whole matrix; NaN where it is 0/0."""
    one = TABLES * C
    n, right = load(S, one + TOTAL), load(S, one + RIGHT)
    covariance, truth = load(S, one + COVARIANCE), load(S, one + TRUTH)
    if code == ACCURACY:
        return right / n
    if code == JACCARD_MICRO:
        return right / (n + (n - right))
    if code == SPECIFICITY_MICRO:
        return (float(C - 2) * n + right) / (float(C - 1) * n) if C > 1 else splat(np.nan)
    if code == MCC:
        prediction = load(S, one + PREDICTION)
        value = covariance / sqrt(truth * prediction)
        return _determined(truth, prediction, where(value < -1.0, -1.0, _at_most_one(value)))
    if code == KAPPA:
        return covariance / load(S, one + CHANCE)
    if code == PEIRCE:
        return covariance / truth
    if code == LINEAR:
        return load(S, one + LINEAR_GAIN) / load(S, one + LINEAR_CHANCE)
    if code == QUADRATIC:
        return load(S, one + QUADRATIC_GAIN) / load(S, one + QUADRATIC_CHANCE)
    return load(S, one + GERRITY_SCORE)
