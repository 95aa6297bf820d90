"""Probability mass ranked before one label of a row of many classes: one pass, eight labels at a time, in float64.

Sums of multiples of 2^-52 below 2 are exact in float64, in any order. Rows with a larger sum, or that need rounding to
[0, 1], take the general path.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load_row, pack, some, splat, total, where
from cmfast.kernels.cpu.conformal._few_classes import MOST_FLOAT_TOTAL
from cmfast.kernels.cpu.conformal._fixed_point import clamp_share
from cmfast.kernels.shared.conformal import UNITS


@jit(inner=True, inline=True, borrows=True)
def _add_labels(p, first, found):
    """Add eight labels to the running sums: mass before, their count, total mass, minimum and maximum."""
    one, (before, ahead, whole, low, high) = splat(1.0), found
    part = (one + p) - one
    before = before + where(first, part, splat(0.0))
    ahead = ahead + where(first, one, splat(0.0))
    return before, ahead, whole + part, where(p < low, p, low), where(p > high, p, high)


@jit(inner=True, borrows=True)
def sum_before_label(P, r, label):
    """Return mass (in units of 2^-52) and number of the labels ranked before `label`; mass -1 for the general path."""
    C, own, zero = P.shape[1], clamp_share(P[r, label]), splat(0.0)
    limit, lanes = splat(own), pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    middle, end = label // WIDTH * WIDTH, C // WIDTH * WIDTH
    found = zero, zero, zero, zero, splat(1.0)
    for j in range(0, middle, WIDTH):
        p = load_row(P, r, j)
        found = _add_labels(p, p >= limit, found)
    if middle < end:
        p = load_row(P, r, middle)
        is_earlier = lanes < splat(np.float64(label - middle))
        found = _add_labels(p, (p > limit) | ((p == limit) & is_earlier), found)
    for j in range(middle + WIDTH, end, WIDTH):
        p = load_row(P, r, j)
        found = _add_labels(p, p > limit, found)
    if end < C:  # the last eight labels, masking those already added
        p, start = load_row(P, r, C - WIDTH), C - WIDTH
        fresh = lanes >= splat(np.float64(end - start))
        is_earlier = lanes < splat(np.float64(label - start))
        found = _add_labels(where(fresh, p, zero), fresh & ((p > limit) | ((p == limit) & is_earlier)), found)
    units, ahead, whole, low, high = found
    sum_ = total(whole)
    if some(~((low == zero) & (high == splat(1.0)))) or not sum_ <= MOST_FLOAT_TOTAL:  # NaN too
        return -1, 0
    return np.int64(total(units) * UNITS), np.int64(total(ahead))
