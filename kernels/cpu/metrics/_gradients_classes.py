"""Derivatives of per-class values by forward-mode differentiation.

A dual number is a tuple of a value and its derivatives in ``d``, ``t``, ``p`` and ``n``: diagonal, row sum, column sum
and total.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, splat, sqrt, store, where
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Value

RECALL, PRECISION, FBETA = int(Value.RECALL), int(Value.PRECISION), int(Value.FBETA)
LINES_OF_RATES = 8
JACCARD, SPECIFICITY, NPV = int(Value.JACCARD), int(Value.SPECIFICITY), int(Value.NPV)
OVR_ACCURACY, OVR_BALANCED = int(Value.ACCURACY), int(Value.BALANCED_ACCURACY)
OVR_GEOMETRIC, OVR_TAU = int(Value.GEOMETRIC_MEAN), int(Value.TAU)
FALSE_POSITIVE, FALSE_NEGATIVE = int(Value.FALSE_POSITIVE), int(Value.FALSE_NEGATIVE)
FALSE_DISCOVERY, FALSE_OMISSION = int(Value.FALSE_DISCOVERY), int(Value.FALSE_OMISSION)
POSITIVE_LIKELIHOOD, NEGATIVE_LIKELIHOOD = int(Value.POSITIVE_LIKELIHOOD), int(Value.NEGATIVE_LIKELIHOOD)
ODDS, FOWLKES_MALLOWS = int(Value.ODDS), int(Value.FOWLKES_MALLOWS)
TSS, HEIDKE = int(Value.TSS), int(Value.HEIDKE)  # chance-corrected values begin at TSS
GILBERT, DOOLITTLE = int(Value.GILBERT), int(Value.DOOLITTLE)
MARKEDNESS = int(Value.MARKEDNESS)


# --- arithmetic of dual numbers ---------------------------------------------------------------------------------------


@jit(inner=True, inline=True, borrows=True)
def _add(x, y):
    """Return the sum of two dual numbers."""
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4]


@jit(inner=True, inline=True, borrows=True)
def _subtract(x, y):
    """Return the difference of two dual numbers."""
    return x[0] - y[0], x[1] - y[1], x[2] - y[2], x[3] - y[3], x[4] - y[4]


@jit(inner=True, inline=True, borrows=True)
def _scale(x, a):
    """Return a dual number times a constant."""
    return x[0] * a, x[1] * a, x[2] * a, x[3] * a, x[4] * a


@jit(inner=True, inline=True, borrows=True)
def _multiply(x, y):
    """Return the product of two dual numbers."""
    a, b = x[0], y[0]
    return a * b, x[1] * b + a * y[1], x[2] * b + a * y[2], x[3] * b + a * y[3], x[4] * b + a * y[4]


@jit(inner=True, borrows=True)
def _divide(x, y):
    """Return the quotient of two dual numbers."""
    q, one = x[0] / y[0], 1.0 / y[0]
    return q, (x[1] - q * y[1]) * one, (x[2] - q * y[2]) * one, (x[3] - q * y[3]) * one, (x[4] - q * y[4]) * one


@jit(inner=True, borrows=True)
def _take_sqrt(x):
    """Return a dual number's square root."""
    root = sqrt(x[0])
    half = 0.5 / root
    return root, half * x[1], half * x[2], half * x[3], half * x[4]


# --- values of one class ----------------------------------------------------------------------------------------------


@jit(inner=True, borrows=True)
def _make_dual_table(d, t, p, n):
    """Return the entries of a class's 2x2 table as dual numbers: d, t, p, t-d, p-d, n-t, n-p, n-t-p+d."""
    one, none = splat(1.0), splat(0.0)
    D, T, P, N = (
        (d, one, none, none, none),
        (t, none, one, none, none),
        (p, none, none, one, none),
        (n, none, none, none, one),
    )
    false, not_true = _subtract(P, D), _subtract(N, T)
    rejected = _subtract(not_true, false)
    least = where(rejected[0] < 0.0, 0.0, rejected[0])  # rounding of fractions can go below 0
    rejected = least, rejected[1], rejected[2], rejected[3], rejected[4]
    return D, T, P, _subtract(T, D), false, not_true, _subtract(N, P), rejected


@jit(inner=True, inline=True, borrows=True)
def _divide_known(x, y, quotient, one):
    """Return the quotient of two dual numbers, given that of their values and the reciprocal of the second."""
    return (
        quotient,
        (x[1] - quotient * y[1]) * one,
        (x[2] - quotient * y[2]) * one,
        (x[3] - quotient * y[3]) * one,
        (x[4] - quotient * y[4]) * one,
    )


@jit(inner=True, borrows=True)
def divide_margins(sums, first, C, n, S, line):
    """Write the divisions that several values of a class share to eight lines for each of `C` classes.

    These are 1 over t, p, n - t and n - p; the recall, the missed share, the false positive rate and the specificity.
    Diagonals, row and column sums are in `C` lines each from `first` on.
    """
    for k in range(C):
        d, t, p = load(sums, first + k), load(sums, first + C + k), load(sums, first + 2 * C + k)
        not_true, false = n - t, p - d
        rejected = not_true - false
        rejected = where(rejected < 0.0, 0.0, rejected)
        own = line + LINES_OF_RATES * k
        store(S, own, 1.0 / t)
        store(S, own + 1, 1.0 / p)
        store(S, own + 2, 1.0 / not_true)
        store(S, own + 3, 1.0 / (n - p))
        store(S, own + 4, d / t)
        store(S, own + 5, (t - d) / t)
        store(S, own + 6, false / not_true)
        store(S, own + 7, rejected / not_true)


@jit(inner=True, inline=True, borrows=True)
def _load_rates(S, line):
    """Return the eight lines of a class from :func:`divide_margins`."""
    return (
        load(S, line),
        load(S, line + 1),
        load(S, line + 2),
        load(S, line + 3),
        load(S, line + 4),
        load(S, line + 5),
        load(S, line + 6),
        load(S, line + 7),
    )


@jit(inner=True, inline=True, borrows=True)
def _differentiate_ratio(code, square, d, t, p, n, rates):
    """Return the ratio `code` of one 2x2 table and its derivatives; `square` is beta squared."""
    D, T, P, missed, false, not_true, not_predicted, rejected = _make_dual_table(d, t, p, n)
    of_t, of_p, of_not_true, of_not_predicted, hit, miss, fall, reject = rates
    above, below, x, one = D, T, hit, of_t  # the recall
    if code == PRECISION:
        below, x, one = P, d / p, of_p
    elif code == SPECIFICITY:
        above, below, x, one = rejected, not_true, reject, of_not_true
    elif code == NPV:
        above, below, x, one = rejected, not_predicted, rejected[0] / not_predicted[0], of_not_predicted
    elif code == FALSE_POSITIVE:
        above, below, x, one = false, not_true, fall, of_not_true
    elif code == FALSE_NEGATIVE:
        above, x = missed, miss
    elif code == FALSE_DISCOVERY:
        above, below, x, one = false, P, false[0] / p, of_p
    elif code == FALSE_OMISSION:
        above, below, x, one = missed, not_predicted, missed[0] / not_predicted[0], of_not_predicted
    elif code != RECALL:
        if code == FBETA:
            above, below = _scale(D, 1.0 + square), _add(_scale(T, square), P)
        elif code == JACCARD:
            below = _add(T, false)
        elif code == POSITIVE_LIKELIHOOD:
            above, below = _divide_known(D, T, hit, of_t), _divide_known(false, not_true, fall, of_not_true)
        elif code == NEGATIVE_LIKELIHOOD:
            above, below = _divide_known(missed, T, miss, of_t), _divide_known(rejected, not_true, reject, of_not_true)
        elif code == ODDS:
            above, below = _multiply(_divide(D, missed), _divide(rejected, false)), _divide_known(T, T, t / t, of_t)
        elif code == FOWLKES_MALLOWS:
            below = _take_sqrt(_multiply(T, P))
        elif code == OVR_ACCURACY:
            above, below = _add(D, rejected), _add(T, not_true)
        x, one = above[0] / below[0], 1.0 / below[0]
    return _divide_known(above, below, x, one)


@jit(inner=True, inline=True, borrows=True)
def _differentiate_rate_mean(code, d, t, p, n, rates):
    """Return balanced accuracy, geometric mean or tau of a class's recall and specificity, with derivatives."""
    D, T, _, missed, false, not_true, _, rejected = _make_dual_table(d, t, p, n)
    of_t, _, of_not_true, _, hit, miss, fall, reject = rates
    if code == OVR_TAU:
        lost, wrong = _divide_known(missed, T, miss, of_t), _divide_known(false, not_true, fall, of_not_true)
        away = _take_sqrt(_scale(_add(_multiply(lost, lost), _multiply(wrong, wrong)), 0.5))
        return 1.0 - away[0], -away[1], -away[2], -away[3], -away[4]
    found, right = _divide_known(D, T, hit, of_t), _divide_known(rejected, not_true, reject, of_not_true)
    return _scale(_add(found, right), 0.5) if code == OVR_BALANCED else _take_sqrt(_multiply(found, right))


@jit(inner=True, inline=True, borrows=True)
def _differentiate_corrected_value(code, d, t, p, n):
    """Return a chance-corrected value of a class (TSS, Heidke, MCC, ...) and its derivatives."""
    D, T, P, missed, false, not_true, not_predicted, rejected = _make_dual_table(d, t, p, n)
    covariance = _subtract(_multiply(D, rejected), _multiply(missed, false))
    above, below = covariance, _multiply(T, not_true)
    if code == HEIDKE:
        above, below = (
            _scale(covariance, 2.0),
            _add(_multiply(T, not_predicted), _multiply(P, not_true)),
        )
    elif code == MARKEDNESS:
        below = _multiply(P, not_predicted)
    elif code == GILBERT:
        below = _add(_multiply(D, rejected), _multiply(false, _add(D, not_true)))
        below = _add(below, _multiply(_add(T, not_true), missed))
    elif code == DOOLITTLE:
        above, below = (
            _multiply(covariance, covariance),
            _multiply(below, _multiply(P, not_predicted)),
        )
    elif code > MARKEDNESS:
        below = _take_sqrt(_multiply(below, _multiply(P, not_predicted)))
    x = _divide(above, below)
    if code != DOOLITTLE and code <= MARKEDNESS:
        return x
    # One degenerate margin: the limit is 0 from every direction, without a derivative. Two: no limit exists.
    truth, prediction = T[0] * not_true[0], P[0] * not_predicted[0]
    limit = where((truth == 0.0) & (prediction == 0.0), splat(np.nan), splat(0.0))
    return where((truth == 0.0) | (prediction == 0.0), limit, x[0]), x[1], x[2], x[3], x[4]


@jit(inner=True, borrows=True)
def differentiate_class_values(code, square, sums, first, C, n, S, places):
    """Write a value of every class and its four derivatives, NaN for 0/0 or a correlation of one class alone.

    They go to five lines per class of `S` from the first of `places` on; the lines of :func:`divide_margins` begin at
    the second. Diagonals, row and column sums are in `C` lines of `sums` each from `first` on. The loop is in here,
    because a call for each class would take as long as its formula.
    """
    values, rates = places
    for k in range(C):
        d, t, p = load(sums, first + k), load(sums, first + C + k), load(sums, first + 2 * C + k)
        if code >= TSS:
            x = _differentiate_corrected_value(code, d, t, p, n)
        elif OVR_BALANCED <= code <= OVR_TAU:
            x = _differentiate_rate_mean(code, d, t, p, n, _load_rates(S, rates + LINES_OF_RATES * k))
        else:
            x = _differentiate_ratio(code, square, d, t, p, n, _load_rates(S, rates + LINES_OF_RATES * k))
        line = values + LINES_OF_VALUE * k
        store(S, line, x[0])
        store(S, line + 1, x[1])
        store(S, line + 2, x[2])
        store(S, line + 3, x[3])
        store(S, line + 4, x[4])
