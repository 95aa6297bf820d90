"""What is ranked before one label of a row of many classes: one pass, eight labels at a time, in float64.

Multiples of 2^-52 below 2 are exact in it, in any order. Rows that add up to more, or need rounding, go elsewhere.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load_row, pack, some, splat, total, where
from cmfast.kernels.cpu.conformal._tile import MOST_FLOAT_TOTAL
from cmfast.kernels.cpu.conformal._units import share
from cmfast.kernels.shared.conformal import UNITS


@jit(inner=True, inline=True, borrows=True)
def _add(p, first, found):
    """Add eight labels to what is found: units before, how many, units of all, the least and the largest."""
    one, (before, ahead, whole, low, high) = splat(1.0), found
    part = (one + p) - one
    before = before + where(first, part, splat(0.0))
    ahead = ahead + where(first, one, splat(0.0))
    return before, ahead, whole + part, where(p < low, p, low), where(p > high, p, high)


@jit(inner=True, borrows=True)
def before(P, r, label):
    """Return the units of all labels ranked before `label` of row `r`, and how many these are; -1 units if not here."""
    C, own, zero = P.shape[1], share(P[r, label]), splat(0.0)
    limit, places = splat(own), pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    middle, end = label // WIDTH * WIDTH, C // WIDTH * WIDTH
    found = zero, zero, zero, zero, splat(1.0)
    for j in range(0, middle, WIDTH):
        p = load_row(P, r, j)
        found = _add(p, p >= limit, found)
    if middle < end:
        p = load_row(P, r, middle)
        is_earlier = places < splat(np.float64(label - middle))
        found = _add(p, (p > limit) | ((p == limit) & is_earlier), found)
    for j in range(middle + WIDTH, end, WIDTH):
        p = load_row(P, r, j)
        found = _add(p, p > limit, found)
    if end < C:  # the last eight labels, without those that were there before
        p, start = load_row(P, r, C - WIDTH), C - WIDTH
        fresh = places >= splat(np.float64(end - start))
        is_earlier = places < splat(np.float64(label - start))
        found = _add(where(fresh, p, zero), fresh & ((p > limit) | ((p == limit) & is_earlier)), found)
    units, ahead, whole, low, high = found
    sum_ = total(whole)
    if some(~((low == zero) & (high == splat(1.0)))) or not sum_ <= MOST_FLOAT_TOTAL:  # NaN too
        return -1, 0
    return np.int64(total(units) * UNITS), np.int64(total(ahead))
