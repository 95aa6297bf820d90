"""Formulas of the values per class, each written once: the kernels of both targets derive values and slopes from them.

On the CPU these functions are compiled as they are, and once more on dual numbers, for derivatives; CUDA gets them as
C++. So a function is a chain of ``if``s that return one expression each: numbers, ``+ - * /``, the entries of the 2x2
table `m` of a class against the rest, and ``sqrt``, ``cap_at_one``, ``clamp_to_one``, ``apply_degenerate_limits``, for
which each target puts its own.

The entries are ``d t p n``, ``missed = t - d``, ``wrong = p - d``, ``not_true = n - t``, ``not_predicted = n - p`` and
``rejected = n - t - p + d``; derived from them ``hit = d / t`` and ``reject = rejected / not_true``, and for
chance-corrected values alone ``covariance = d rejected - missed wrong``, ``truth = t not_true`` and ``prediction = p
not_predicted``. A 0/0 is NaN.
"""

import math
from enum import IntEnum, auto
from math import sqrt
from typing import Any


class Value(IntEnum):
    """A value per class, from its 2x2 table of one class against the rest, by the function that computes it."""

    # rate
    RECALL = auto()
    PRECISION = auto()
    FBETA = auto()
    JACCARD = auto()
    SPECIFICITY = auto()
    NPV = auto()
    ACCURACY = auto()
    BALANCED_ACCURACY = auto()
    GEOMETRIC_MEAN = auto()
    TAU = auto()
    FALSE_POSITIVE = auto()
    FALSE_NEGATIVE = auto()
    FALSE_DISCOVERY = auto()
    FALSE_OMISSION = auto()
    POSITIVE_LIKELIHOOD = auto()
    NEGATIVE_LIKELIHOOD = auto()
    ODDS = auto()
    FOWLKES_MALLOWS = auto()
    # correct_for_chance
    TSS = auto()
    HEIDKE = auto()
    GILBERT = auto()
    MARKEDNESS = auto()
    # correct_for_chance, 0 without a derivative if one margin is degenerate
    DOOLITTLE = auto()
    MCC = auto()


ENTRIES = ("d", "t", "p", "n", "missed", "wrong", "not_true", "not_predicted", "rejected")
DERIVED = ("hit", "reject", "covariance", "truth", "prediction")
RATES = frozenset({Value.RECALL, Value.SPECIFICITY, Value.BALANCED_ACCURACY, Value.GEOMETRIC_MEAN, Value.TAU})
"""Values computed from ``hit`` or ``reject``."""
CHANCE = frozenset(value for value in Value if value >= Value.TSS)
"""Chance-corrected values: the ones that need products of margins."""
FORMULAS = ("rate", "correct_for_chance", "slope_rate")


def cap_at_one(x: float) -> float:
    """Return `x` without what rounding adds to 1; NaN stays."""
    return 1.0 if x > 1.0 else x


def clamp_to_one(x: float) -> float:
    """Return `x` without what rounding adds to 1 or -1; NaN stays."""
    return -1.0 if x < -1.0 else cap_at_one(x)


def apply_degenerate_limits(truth: float, prediction: float, x: float) -> float:
    """Return a correlation, but 0 if one margin is degenerate (its limit) and NaN if both are."""
    return x if truth and prediction else 0.0 if truth or prediction else math.nan


def rate(code: Any, square: Any, m: Any) -> Any:
    """Return a value without chance correction; `square` is the beta of F-beta, squared."""
    if code == Value.RECALL:
        return m.hit
    if code == Value.PRECISION:
        return m.d / m.p
    if code == Value.FBETA:
        if square == 1.0:
            return (m.d + m.d) / (m.t + m.p)
        return (1.0 + square) * m.d / (square * m.t + m.p)
    if code == Value.JACCARD:
        return m.d / (m.t + m.wrong)
    if code == Value.SPECIFICITY:
        return m.reject
    if code == Value.NPV:
        return m.rejected / m.not_predicted
    if code == Value.ACCURACY:
        return (m.d + m.rejected) / m.n
    if code == Value.BALANCED_ACCURACY:
        return (m.hit + m.reject) * 0.5
    if code == Value.GEOMETRIC_MEAN:
        return sqrt(m.hit * m.reject)
    if code == Value.TAU:
        return 1.0 - sqrt(((1.0 - m.hit) * (1.0 - m.hit) + (1.0 - m.reject) * (1.0 - m.reject)) * 0.5)
    if code == Value.FALSE_POSITIVE:
        return m.wrong / m.not_true
    if code == Value.FALSE_NEGATIVE:
        return m.missed / m.t
    if code == Value.FALSE_DISCOVERY:
        return m.wrong / m.p
    if code == Value.FALSE_OMISSION:
        return m.missed / m.not_predicted
    # Ratios of ratios: products of small cells would leave the range of float64.
    if code == Value.POSITIVE_LIKELIHOOD:
        return m.d / m.t / (m.wrong / m.not_true)
    if code == Value.NEGATIVE_LIKELIHOOD:
        return m.missed / m.t / (m.rejected / m.not_true)
    if code == Value.ODDS:
        return m.d / m.missed * (m.rejected / m.wrong)
    return sqrt(m.d / m.t * (m.d / m.p))  # Fowlkes-Mallows


def correct_for_chance(code: Any, m: Any) -> Any:
    """Return a chance-corrected value."""
    if code == Value.TSS:
        return cap_at_one(m.covariance / m.truth)
    if code == Value.HEIDKE:
        return cap_at_one((m.covariance + m.covariance) / (m.t * m.not_predicted + m.p * m.not_true))
    if code == Value.GILBERT:
        return cap_at_one(m.covariance / (m.d * m.rejected + m.wrong * (m.d + m.not_true) + m.n * m.missed))
    if code == Value.MARKEDNESS:
        return clamp_to_one(m.covariance / m.prediction)
    if code == Value.DOOLITTLE:
        share = cap_at_one(m.covariance * m.covariance / (m.truth * m.prediction))
        return apply_degenerate_limits(m.truth, m.prediction, share)
    return apply_degenerate_limits(m.truth, m.prediction, clamp_to_one(m.covariance / sqrt(m.truth * m.prediction)))


def slope_rate(code: Any, square: Any, m: Any) -> Any:
    """Return the value of :func:`rate` in a form that has derivatives wherever it has them."""
    if code == Value.TAU:
        lost = m.missed / m.t * (m.missed / m.t)
        return 1.0 - sqrt((lost + m.wrong / m.not_true * (m.wrong / m.not_true)) * 0.5)
    if code == Value.ODDS:
        return m.d / m.missed * (m.rejected / m.wrong) / (m.t / m.t)
    if code == Value.FOWLKES_MALLOWS:
        return m.d / sqrt(m.t * m.p)
    return rate(code, square, m)
