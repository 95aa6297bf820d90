"""How the values of one class change with the sums that they are made of: numbers that carry their slopes.

Tuples of a value and of its slopes in ``d``, ``t``, ``p`` and ``n``.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import splat, sqrt, where
from cmfast.kernels.shared.metrics import Value

PRECISION, FBETA = int(Value.PRECISION), int(Value.FBETA)
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


# --- numbers that carry their slopes ----------------------------------------------------------------------------------


@jit(inner=True, inline=True, borrows=True)
def _plus(x, y):
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4]


@jit(inner=True, inline=True, borrows=True)
def _minus(x, y):
    return x[0] - y[0], x[1] - y[1], x[2] - y[2], x[3] - y[3], x[4] - y[4]


@jit(inner=True, inline=True, borrows=True)
def _scaled(x, a):
    return x[0] * a, x[1] * a, x[2] * a, x[3] * a, x[4] * a


@jit(inner=True, inline=True, borrows=True)
def _times(x, y):
    a, b = x[0], y[0]
    return a * b, x[1] * b + a * y[1], x[2] * b + a * y[2], x[3] * b + a * y[3], x[4] * b + a * y[4]


@jit(inner=True, borrows=True)
def _over(x, y):
    q, one = x[0] / y[0], 1.0 / y[0]
    return q, (x[1] - q * y[1]) * one, (x[2] - q * y[2]) * one, (x[3] - q * y[3]) * one, (x[4] - q * y[4]) * one


@jit(inner=True, borrows=True)
def _root(x):
    root = sqrt(x[0])
    half = 0.5 / root
    return root, half * x[1], half * x[2], half * x[3], half * x[4]


# --- values of one class ----------------------------------------------------------------------------------------------


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
def value_of_class(code, square, d, t, p, n):
    """Return a value of one class and its slopes, NaN where it is 0/0 or a correlation of one class alone."""
    if code >= TSS:
        return _corrected_for_chance(code, d, t, p, n)
    if OVR_BALANCED <= code <= OVR_TAU:
        return _of_both_rates(code, d, t, p, n)
    return _rate(code, square, d, t, p, n)
