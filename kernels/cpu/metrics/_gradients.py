"""How metrics change with the sums that they are made of, eight matrices at a time: exact, by the chain rule.

A metric is a function of five sums per class and of the total, so its slope in a cell is a sum of few numbers: that in
the row sum, in the column sum, on the diagonal in the diagonal, and, where the order of the classes matters, in the
band and the top of the cell. These slopes are 5 C + 1 lines, whatever the metric: diagonal, row, column, band, top of
each class, then the total.

What belongs to one class is calculated in numbers that carry their slopes along: tuples of a value and of its slopes
in ``d``, ``t``, ``p`` and ``n``. Where a metric is undefined, or has no slope, the line of the total is NaN; a class
whose value is filled enters an average as a constant, for it has no samples that could change it.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._margins import AGAIN_LINE, FIRST, ORDERED_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.shared.metrics import Mode, Over, Step, Total, Value

CARRIED = 5  # numbers of a value of one class: itself and its slopes

VALUE, EACH, REDUCE = int(Step.VALUE), int(Step.EACH), int(Step.REDUCE)
STEP_TOTAL, HARMONIC = int(Step.TOTAL), int(Step.HARMONIC)
RECALL, PRECISION, FBETA = int(Value.RECALL), int(Value.PRECISION), int(Value.FBETA)
JACCARD, SPECIFICITY, NPV = int(Value.JACCARD), int(Value.SPECIFICITY), int(Value.NPV)
OVR_ACCURACY, OVR_BALANCED = int(Value.ACCURACY), int(Value.BALANCED_ACCURACY)
OVR_GEOMETRIC, OVR_TAU = int(Value.GEOMETRIC_MEAN), int(Value.TAU)
FALSE_POSITIVE, FALSE_NEGATIVE = int(Value.FALSE_POSITIVE), int(Value.FALSE_NEGATIVE)
FALSE_DISCOVERY, FALSE_OMISSION = int(Value.FALSE_DISCOVERY), int(Value.FALSE_OMISSION)
POSITIVE_LIKELIHOOD, NEGATIVE_LIKELIHOOD = int(Value.POSITIVE_LIKELIHOOD), int(Value.NEGATIVE_LIKELIHOOD)
ODDS, FOWLKES_MALLOWS = int(Value.ODDS), int(Value.FOWLKES_MALLOWS)
TSS, HEIDKE = int(Value.TSS), int(Value.HEIDKE)  # what is corrected for chance begins with TSS
GILBERT, DOOLITTLE = int(Value.GILBERT), int(Value.DOOLITTLE)
MARKEDNESS = int(Value.MARKEDNESS)
MEAN, WEIGHTED, MIN = int(Over.MEAN), int(Over.WEIGHTED), int(Over.MIN)
GEOMETRIC, TAU, ADJUSTED = int(Over.GEOMETRIC), int(Over.TAU), int(Over.ADJUSTED)
PICK, MICRO = int(Over.PICK), int(Over.MICRO)
ACCURACY, JACCARD_MICRO = int(Total.ACCURACY), int(Total.JACCARD_MICRO)
SPECIFICITY_MICRO, MCC, KAPPA = int(Total.SPECIFICITY_MICRO), int(Total.MCC), int(Total.KAPPA)
PEIRCE, LINEAR, QUADRATIC = int(Total.PEIRCE), int(Total.KAPPA_LINEAR), int(Total.KAPPA_QUADRATIC)
GERRITY, ERROR = int(Total.GERRITY), int(Total.ERROR)
SCOTT_PI, GWET_AC1 = int(Total.SCOTT_PI), int(Total.GWET_AC1)
PRESENT, DEFINED = int(Mode.PRESENT), int(Mode.DEFINED)


def lines_of(C):
    """Return the lines of the slopes of one number of a matrix."""
    return SUMS * C + 1


def working_lines(C, plan):
    """Return the lines that :func:`differentiate` works in: a value of every class, and the registers."""
    return CARRIED * C + plan.registers


# --- numbers that carry their slopes ----------------------------------------------------------------------------------


@jit(inner=True, inline=True)
def _plus(x, y):
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4]


@jit(inner=True, inline=True)
def _minus(x, y):
    return x[0] - y[0], x[1] - y[1], x[2] - y[2], x[3] - y[3], x[4] - y[4]


@jit(inner=True, inline=True)
def _scaled(x, a):
    return x[0] * a, x[1] * a, x[2] * a, x[3] * a, x[4] * a


@jit(inner=True, inline=True)
def _times(x, y):
    a, b = x[0], y[0]
    return a * b, x[1] * b + a * y[1], x[2] * b + a * y[2], x[3] * b + a * y[3], x[4] * b + a * y[4]


@jit(inner=True)
def _over(x, y):
    q, one = x[0] / y[0], 1.0 / y[0]
    return q, (x[1] - q * y[1]) * one, (x[2] - q * y[2]) * one, (x[3] - q * y[3]) * one, (x[4] - q * y[4]) * one


@jit(inner=True)
def _root(x):
    root = sqrt(x[0])
    half = 0.5 / root
    return root, half * x[1], half * x[2], half * x[3], half * x[4]


# --- values of one class ----------------------------------------------------------------------------------------------


@jit(inner=True)
def _table(d, t, p, n):
    """Return the numbers of a 2x2 table: d, t, p, t-d, p-d, n-t, n-p, n-t-p+d."""
    one, none = splat(1.0), splat(0.0)
    D, T, P, N = (
        (d, one, none, none, none),
        (t, none, one, none, none),
        (p, none, none, one, none),
        (n, none, none, none, one),
    )
    false, not_true = _minus(P, D), _minus(N, T)
    rejected = _minus(not_true, false)
    least = where(rejected[0] < 0.0, 0.0, rejected[0])  # rounding of fractions can go below 0
    rejected = least, rejected[1], rejected[2], rejected[3], rejected[4]
    return D, T, P, _minus(T, D), false, not_true, _minus(N, P), rejected


@jit(inner=True)
def _rate(code, square, d, t, p, n):
    """Return a rate of one 2x2 table with its slopes; `square` is that of beta."""
    D, T, P, missed, false, not_true, not_predicted, rejected = _table(d, t, p, n)
    above, below = D, T  # the recall
    if code == PRECISION:
        below = P
    elif code == FBETA:
        above, below = _scaled(D, 1.0 + square), _plus(_scaled(T, square), P)
    elif code == JACCARD:
        below = _plus(T, false)
    elif code == SPECIFICITY:
        above, below = rejected, not_true
    elif code == NPV:
        above, below = rejected, not_predicted
    elif code == FALSE_POSITIVE:
        above, below = false, not_true
    elif code == FALSE_NEGATIVE:
        above = missed
    elif code == FALSE_DISCOVERY:
        above, below = false, P
    elif code == FALSE_OMISSION:
        above, below = missed, not_predicted
    elif code == POSITIVE_LIKELIHOOD:
        above, below = _over(D, T), _over(false, not_true)
    elif code == NEGATIVE_LIKELIHOOD:
        above, below = _over(missed, T), _over(rejected, not_true)
    elif code == ODDS:
        above, below = _times(_over(D, missed), _over(rejected, false)), _over(T, T)
    elif code == FOWLKES_MALLOWS:
        below = _root(_times(T, P))
    elif code == OVR_ACCURACY:
        above, below = _plus(D, rejected), _plus(T, not_true)
    return _over(above, below)


@jit(inner=True)
def _of_both_rates(code, d, t, p, n):
    """Return a value that is made of the recall and the specificity of a class."""
    D, T, _, missed, false, not_true, _, rejected = _table(d, t, p, n)
    if code == OVR_BALANCED:
        return _scaled(_plus(_over(D, T), _over(rejected, not_true)), 0.5)
    if code == OVR_GEOMETRIC:
        return _root(_times(_over(D, T), _over(rejected, not_true)))
    lost, wrong = _over(missed, T), _over(false, not_true)
    away = _root(_scaled(_plus(_times(lost, lost), _times(wrong, wrong)), 0.5))
    return 1.0 - away[0], -away[1], -away[2], -away[3], -away[4]


@jit(inner=True)
def _corrected_for_chance(code, d, t, p, n):
    D, T, P, missed, false, not_true, not_predicted, rejected = _table(d, t, p, n)
    covariance = _minus(_times(D, rejected), _times(missed, false))
    above, below = covariance, _times(T, not_true)
    if code == HEIDKE:
        above, below = _scaled(covariance, 2.0), _plus(_times(T, not_predicted), _times(P, not_true))
    elif code == MARKEDNESS:
        below = _times(P, not_predicted)
    elif code == GILBERT:
        below = _plus(_times(D, rejected), _times(false, _plus(D, not_true)))
        below = _plus(below, _times(_plus(T, not_true), missed))
    elif code == DOOLITTLE:
        above, below = _times(covariance, covariance), _times(below, _times(P, not_predicted))
    elif code > MARKEDNESS:
        below = _root(_times(below, _times(P, not_predicted)))
    x = _over(above, below)
    if code != DOOLITTLE and code <= MARKEDNESS:
        return x
    # One degenerate margin: the limit is 0 from every direction, and there is no slope. Two: there is none.
    truth, prediction = T[0] * not_true[0], P[0] * not_predicted[0]
    limit = where((truth == 0.0) & (prediction == 0.0), splat(np.nan), splat(0.0))
    return where((truth == 0.0) | (prediction == 0.0), limit, x[0]), x[1], x[2], x[3], x[4]


@jit(inner=True)
def _value(code, square, d, t, p, n):
    """Return a value of one class and its slopes, NaN where it is 0/0 or a correlation of one class alone."""
    if code >= TSS:
        return _corrected_for_chance(code, d, t, p, n)
    if OVR_BALANCED <= code <= OVR_TAU:
        return _of_both_rates(code, d, t, p, n)
    return _rate(code, square, d, t, p, n)


# --- reductions over the classes --------------------------------------------------------------------------------------


@jit(inner=True)
def _enters(plan, sums, cell, C, k, x):
    """Return where class `k`, of the value `x`, enters an average: 1, else 0."""
    inside = (load(sums, cell + C) > 0.0) | (load(sums, cell + 2 * C) > 0.0)
    if plan.mode == DEFINED:
        inside = x == x  # noqa: PLR0124 - NaN alone is not
    elif plan.mode != PRESENT:
        inside = inside | ~inside
    own = plan.members[k] if len(plan.members) > 0 else 1.0
    return where(inside, own, splat(0.0))


@jit(inner=True)
def _reduce(plan, code, pick, value, fill, sums, at, C, V, G, row):
    """Fill the slopes of a reduction of the values in `V`, from line `row` of `G` on; return what it is."""
    n, limited = load(sums, at + TOTAL_LINE), value == DOOLITTLE or value > MARKEDNESS
    if code == PICK:
        for part in range(3):
            store(G, row + part * C + pick, load(V, pick * CARRIED + 1 + part))
        store(G, row + SUMS * C, load(V, pick * CARRIED + 4))
        return load(V, pick * CARRIED)
    number, total, weights, weighted, square = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    least, ties = splat(np.inf), splat(0.0)
    for k in range(C):
        x, cell = load(V, k * CARRIED), at + FIRST + k
        member = _enters(plan, sums, cell, C, k, x)
        x = where(x == x, x, fill)  # noqa: PLR0124 - NaN alone is not
        x = where(member > 0.0, x, 0.0)
        number, total = number + member, total + x
        weight = member * load(sums, cell + C)
        weights, weighted = weights + weight, weighted + where(weight > 0.0, weight * x, 0.0)
        square = square + member * (1.0 - x) * (1.0 - x)
        if code == MIN:
            x = where(member > 0.0, x, splat(np.inf))
            ties = where(x < least, 1.0, where(x == least, ties + 1.0, ties))
            least = where(x < least, x, least)
    mean, away = total / number, sqrt(square / number)
    result = mean
    if code == WEIGHTED:
        result = weighted / weights
    elif code == MIN:
        result = least + total * 0.0
    elif code == GEOMETRIC:
        result = load(sums, at + AGAIN_LINE + GEOMETRIC - MIN)
    elif code == TAU:
        result = 1.0 - away
    elif code == ADJUSTED:
        result = where(number > 1.0, (mean - 1.0 / number) / (1.0 - 1.0 / number), splat(np.nan))
    undefined = result * 0.0  # or NaN
    each = 1.0 / number
    if code == WEIGHTED:
        each = 1.0 / weights
    elif code == TAU:
        each = each / away
    elif code == ADJUSTED:
        each = 1.0 / (number - 1.0)
    for k in range(C):
        given, cell = load(V, k * CARRIED), at + FIRST + k
        member = _enters(plan, sums, cell, C, k, given)
        known = given == given  # noqa: PLR0124
        x = where(known, given, fill)
        if limited:  # a margin of a correlation that is degenerate stays so
            t, p = load(sums, cell + C), load(sums, cell + 2 * C)
            known = known & (t > 0.0) & (p > 0.0) & (t < n) & (p < n)
        share = member * each
        direct = splat(0.0)
        if code == WEIGHTED:
            share = share * load(sums, cell + C)
            direct = where(share > 0.0, member * each * (x - result), splat(0.0))
        elif code == MIN:
            share = where((member > 0.0) & (x == least), where(ties == 1.0, 1.0, splat(np.nan)), splat(0.0))
            share = where((share > 0.0) & ~known, splat(np.nan), share)  # it is what was filled in
        elif code == GEOMETRIC:
            share = where(member > 0.0, share * (result / x), splat(0.0))
        elif code == TAU:
            share = where(member > 0.0, share * (1.0 - x), splat(0.0))
        undefined = undefined + share * 0.0
        enters = (share > 0.0) & known
        for part in range(4):
            slope = where(enters, share * load(V, k * CARRIED + 1 + part), splat(0.0))
            if part == 3:
                undefined = undefined + slope
            else:
                store(G, row + part * C + k, slope + direct if part == 1 else slope)
    store(G, row + SUMS * C, undefined)
    return result


@jit(inner=True)
def _pool(plan, code, square, sums, at, C, G, row):
    """Do as `_reduce` for the value of the sum of the 2x2 tables of the classes."""
    d, t, p, number = splat(0.0), splat(0.0), splat(0.0), 0.0
    for k in range(C):
        if len(plan.members) == 0 or plan.members[k] > 0.0:
            cell = at + FIRST + k
            d, t, p, number = d + load(sums, cell), t + load(sums, cell + C), p + load(sums, cell + 2 * C), number + 1.0
    x = _value(code, square, d, t, p, number * load(sums, at + TOTAL_LINE))
    for k in range(C):
        if len(plan.members) == 0 or plan.members[k] > 0.0:
            store(G, row + k, x[1])
            store(G, row + C + k, x[2])
            store(G, row + 2 * C + k, x[3])
    store(G, row + SUMS * C, number * x[4])
    return x[0]


# --- numbers of the whole matrix --------------------------------------------------------------------------------------


@jit(inner=True)
def _whole(code, sums, at, C, G, row):
    """Fill the slopes of a number that is a function of the total, of the hits and of products of margins."""
    n = load(sums, at + TOTAL_LINE)
    hits, both, truth, prediction, chance = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(C):
        cell = at + FIRST + k
        d, t, p = load(sums, cell), load(sums, cell + C), load(sums, cell + 2 * C)
        hits = hits + d
        both = both + (d * (n - t - p + d) - (t - d) * (p - d))
        truth = truth + t * (n - t)
        prediction = prediction + p * (n - p)
        chance = chance + t * (n - p)
    wrong, others = n - hits, float(C - 1)
    # Slopes in the hits, in n a - e, in the three sums of products, in the total.
    of_hits, of_both, of_truth, of_prediction, of_chance = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    of_total = splat(0.0)
    if code == ACCURACY:
        of_hits, of_total = 1.0 / n, -(hits / n) / n
    elif code == ERROR:
        of_hits, of_total = -1.0 / n, (hits / n) / n
    elif code == JACCARD_MICRO:
        below = n + wrong
        x = hits / below
        of_hits, of_total = (1.0 + x) / below, -2.0 * x / below
    elif code == SPECIFICITY_MICRO:
        of_hits = 1.0 / (others * n) if C > 1 else splat(np.nan)
        of_total = -(hits / n) * of_hits
    elif code == MCC:
        of_both = 1.0 / sqrt(truth * prediction)
        x = both * of_both
        of_truth, of_prediction = -0.5 * x / truth, -0.5 * x / prediction
    elif code == KAPPA:
        of_both = 1.0 / chance
        of_chance = -(both / chance) / chance
    elif code == PEIRCE:
        of_both = 1.0 / truth
        of_truth = -(both / truth) / truth
    else:  # one minus 4 n (n - a) over a mix of the products
        size = 2.0 * load(sums, at + TOTAL_LINE)
        mixed, factor, more = truth + prediction + 2.0 * chance, splat(1.0), splat(0.0)
        below, sign = mixed, 1.0
        if code == GWET_AC1:
            below, sign = 4.0 * others * (n * n) - mixed, -1.0
            factor = splat(others) if C > 1 else splat(np.nan)
        elif code != SCOTT_PI:  # few samples agree by chance more seldom
            factor, more = where(size > 1.0, (size - 1.0) / size, splat(np.nan)), 2.0 / (size * size)
        y = 4.0 * (n * wrong) * factor / below
        of_hits = 4.0 * n * factor / below
        of_truth = sign * y / below
        of_prediction, of_chance = of_truth, 2.0 * of_truth
        of_total = -(4.0 * (n + wrong) * factor + 4.0 * (n * wrong) * more) / below
        if code == GWET_AC1:
            of_total = of_total + 8.0 * others * n * y / below
    for k in range(C):
        cell = at + FIRST + k
        t, p = load(sums, cell + C), load(sums, cell + 2 * C)
        store(G, row + k, of_hits + of_both * n)
        store(G, row + C + k, of_truth * (n - 2.0 * t) + of_chance * (n - p) - of_both * p)
        store(G, row + 2 * C + k, of_prediction * (n - 2.0 * p) - of_chance * t - of_both * t)
    of_total = of_total + of_both * hits + (of_truth + of_prediction + of_chance) * n
    store(G, row + SUMS * C, of_total)


@jit(inner=True)
def _weighted_kappa(code, sums, at, C, G, row):
    """Fill the slopes of the linear or the quadratic kappa."""
    n = load(sums, at + TOTAL_LINE)
    apart, chance, of_total, below_t, below_p = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    first_t, first_p, squares = splat(0.0), splat(0.0), splat(0.0)
    middle = (C - 1) // 2
    for k in range(C):
        cell, i = at + FIRST + k, float(k - middle)
        t, p, away = load(sums, cell + C), load(sums, cell + 2 * C), float(k if code == LINEAR else k * k)
        apart = apart + away * load(sums, cell + 3 * C)
        first_t, first_p, squares = first_t + i * t, first_p + i * p, squares + i * i * (t + p)
        if k < C - 1:
            below_t, below_p = below_t + t, below_p + p
            chance = chance + (below_t * (n - below_p) + below_p * (n - below_t))
            of_total = of_total + (below_t + below_p)
    if code == QUADRATIC:
        chance = where(chance > 0.0, n * squares - 2.0 * first_t * first_p, splat(0.0))
        of_total = squares
    y = n * apart / chance  # the kappa is one minus this
    store(G, row + SUMS * C, (y * of_total - apart) / chance)
    of_t, of_p = splat(0.0), splat(0.0)
    below_t, below_p = n, n
    for k in range(C - 1, -1, -1):
        cell, i = at + FIRST + k, float(k - middle)
        if k < C - 1:
            below_t, below_p = below_t - load(sums, cell + 1 + C), below_p - load(sums, cell + 1 + 2 * C)
            of_t, of_p = of_t + (n - 2.0 * below_p), of_p + (n - 2.0 * below_t)
        away = float(k if code == LINEAR else k * k)
        if code == QUADRATIC:
            of_t, of_p = n * (i * i) - 2.0 * i * first_p, n * (i * i) - 2.0 * i * first_t
        store(G, row + C + k, of_t * y / chance)
        store(G, row + 2 * C + k, of_p * y / chance)
        store(G, row + 3 * C + k, -away * n / chance)


@jit(inner=True)
def _gerrity(sums, at, C, G, row):
    """Fill the slopes of Gerrity's score: see `_gerrity` in ``_passes`` for what it is made of."""
    n, x = load(sums, at + TOTAL_LINE), load(sums, at + ORDERED_LINE + GERRITY - LINEAR)
    below, low, high = splat(0.0), splat(0.0), splat(0.0)
    scale = 1.0 / (float(C - 1) * n) if C > 1 else splat(np.nan)
    of_total = splat(0.0)
    for k in range(C):  # upwards: the odds of the cuts before a class
        top = load(sums, at + FIRST + 4 * C + k)
        store(G, row + C + k, low * scale)
        store(G, row + 2 * C + k, low * scale)
        store(G, row + 3 * C + k, -float(k) * scale)
        store(G, row + 4 * C + k, -low * scale)
        high = high + top
        if k < C - 1:
            below = below + load(sums, at + FIRST + C + k)
            above = n - below
            low = low + below / above
            of_total = of_total + high / below
    after, odds, cuts = splat(0.0), splat(0.0), splat(0.0)
    for k in range(C - 1, -1, -1):  # downwards: the odds of the cuts from a class on
        top = load(sums, at + FIRST + 4 * C + k)
        if k < C - 1:
            above = n - below
            odds = odds + above / below
            cuts = cuts + (after * n / (above * above) - high * n / (below * below))
            of_total = of_total - after * below / (above * above)
            below = below - load(sums, at + FIRST + C + k)
        store(G, row + C + k, load(G, row + C + k) + cuts * scale)
        store(G, row + 4 * C + k, load(G, row + 4 * C + k) + odds * scale)
        after = after + (load(sums, at + FIRST + C + k) + load(sums, at + FIRST + 2 * C + k) - top)
        high = high - top
    store(G, row + SUMS * C, of_total * scale - x / n)


# --- plans ------------------------------------------------------------------------------------------------------------


@jit(inner=True)
def differentiate(plan, sums, at, C, S, G, T):
    """Fill the slopes of every register of a plan, and of its values of one class.

    `G` has ``lines_of(C)`` lines for each register, `T` four for each class of each table: slopes in d, t, p and n.
    `S` is worked in. The numbers that need another pass over the classes, or their order, are in the tile already.
    """
    steps, params = plan.steps, plan.params
    n, values = load(sums, at + TOTAL_LINE), CARRIED * C
    value, square, filled = 0, 1.0, np.nan
    for step in range(len(steps)):
        kind, code, target, a, b = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3], steps[step, 4]
        fill = params[step, 0]
        if kind == VALUE:
            value, square, filled = code, params[step, 1] * params[step, 1], fill
            for k in range(C):
                cell = at + FIRST + k
                x = _value(value, square, load(sums, cell), load(sums, cell + C), load(sums, cell + 2 * C), n)
                store(S, k * CARRIED, x[0])
                store(S, k * CARRIED + 1, x[1])
                store(S, k * CARRIED + 2, x[2])
                store(S, k * CARRIED + 3, x[3])
                store(S, k * CARRIED + 4, x[4])
            continue
        if kind == EACH:
            for k in range(C):
                for part in range(4):
                    store(T, (target * C + k) * 4 + part, load(S, k * CARRIED + 1 + part))
            continue
        row = target * (SUMS * C + 1)
        for line in range(row, row + SUMS * C + 1):
            store(G, line, splat(0.0))
        made = splat(0.0)
        if kind == REDUCE and code == MICRO:
            made = _pool(plan, value, square, sums, at, C, G, row)
        elif kind == REDUCE:
            made = _reduce(plan, code, a, value, filled, sums, at, C, S, G, row)
        elif kind == STEP_TOTAL:
            if LINEAR <= code <= QUADRATIC:
                _weighted_kappa(code, sums, at, C, G, row)
            elif code == GERRITY:
                _gerrity(sums, at, C, G, row)
            else:
                _whole(code, sums, at, C, G, row)
        else:
            first, second = splat(0.5), splat(0.0)  # a number from [-1, 1] to [0, 1]
            if kind == HARMONIC:
                x, y = load(S, values + a), load(S, values + b)
                both = (x + y) * (x + y)
                first, second = 2.0 * y * y / both, 2.0 * x * x / both
                made = 2.0 * x * y / (x + y)
            for line in range(SUMS * C + 1):
                slope = first * load(G, a * (SUMS * C + 1) + line)
                if kind == HARMONIC:
                    slope = slope + second * load(G, b * (SUMS * C + 1) + line)
                store(G, row + line, slope)
        store(S, values + target, where(made != made, fill, made))  # noqa: PLR0124
