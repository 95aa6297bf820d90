"""Scores of one label in integers: probabilities in units of 2^-52, whose sums have no order."""

import numpy as np

from cmfast.kernels.cpu._core.bits import add_product
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.conformal import FIRST_FACTOR, MOST_TOTAL, OUTSIDE, SAFE, SECOND_FACTOR, UNITS

ONE = 0x3FF0000000000000  # the bits of 1.0
SCORE_UNIT = 2.0**-52
# Units of a sum of probabilities that is 1: what rounding, or a row, has beyond it does not count.
WHOLE_UNITS = 1 << 52
MOST_SCORE = 2046.0  # of any label
UNLIMITED_UNITS = 0x7FFFFFFFFFFFFFFF
LEAST_SHARE, MOST_SHARE = -OUTSIDE, 1.0 + OUTSIDE


@jit(inner=True, borrows=True)
def units(p):
    """Return `p`, from 0 to 1, in units of 2^-52, the nearest even: the last bit of 1 + p is one of them."""
    return np.float64(1.0 + np.float64(p)).view(np.int64) - ONE


@jit(inner=True, borrows=True)
def share(p):
    """Return `p` as float64 from 0 to 1: what is a little outside was rounded."""
    p = np.float64(p)
    return 1.0 if p > 1.0 else p if p > 0.0 else 0.0


@jit(inner=True, borrows=True)
def score(before, ahead, p, u, penalty, k_reg):
    """Return the score of a label of probability `p`, given the units and the number of the labels ranked before.

    `u` is the share of its own probability that counts.
    """
    whole = min(before + units(u * share(p)), WHOLE_UNITS) + penalty * max(0, ahead + 1 - k_reg)
    return np.float64(whole) * SCORE_UNIT


@jit(inner=True, borrows=True)
def most_units(q):
    """Return the largest number of units whose score is at most `q`; all of them where it excludes nothing."""
    if not q < MOST_SCORE:  # NaN too
        return UNLIMITED_UNITS
    whole = np.int64(np.floor(q * UNITS))
    if whole >= 1 << 53:  # several make one float64
        step = 1 << 12
        while step:
            if np.float64(whole + step) * SCORE_UNIT <= q:
                whole += step
            step >>= 1
    return whole


@jit(inner=True, borrows=True)
def is_row(row):
    """Whether a row holds probabilities, not more of them together than sums in int64 hold."""
    good = True
    for j in range(row.shape[0]):
        good &= (row[j] >= LEAST_SHARE) & (row[j] <= MOST_SHARE)
    if good and row.shape[0] > SAFE:
        total = 0
        for j in range(row.shape[0]):
            total += units(share(row[j])) >> 20
        good = total <= MOST_TOTAL << 32
    return good


@jit(inner=True, borrows=True)
def is_share(u):
    """Whether `u` is a number from 0 to 1."""
    return (u >= 0.0) & (u <= 1.0)


@jit(inner=True, borrows=True)
def before(row, label):
    """Return the units of all labels ranked before `label`, and how many these are: no sort is needed."""
    p, whole, ahead = share(row[label]), 0, 0
    first, last = row[:label], row[label + 1 :]  # loops from 0, which the compiler takes several at a time
    for j in range(len(first)):
        if share(first[j]) >= p:
            whole += units(share(first[j]))
            ahead += 1
    for j in range(len(last)):
        if share(last[j]) > p:
            whole += units(share(last[j]))
            ahead += 1
    return whole, ahead


@jit(inner=True, borrows=True)
def _mixed(x, factor):
    return add_product(0, x ^ (x >> 33 & 0x7FFFFFFF), factor)


@jit(inner=True, borrows=True)
def draw(row, keys):
    """Return the number of a row, at least 0 and below 1, that its units and the keys make."""
    total, factors = keys[0], keys[1:]
    for j in range(len(row)):
        total = add_product(total, units(share(row[j])), factors[j])
    mixed = _mixed(_mixed(total, FIRST_FACTOR), SECOND_FACTOR)
    return np.float64((mixed ^ (mixed >> 33 & 0x7FFFFFFF)) >> 11 & 0x1FFFFFFFFFFFFF) * 2.0**-53
