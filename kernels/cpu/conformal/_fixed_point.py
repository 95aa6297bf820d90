"""Fixed-point scores: probabilities as integer multiples of 2^-52, whose sums do not depend on the order."""

import numpy as np

from cmfast.kernels.cpu._core.bits import add_product
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.conformal import FIRST_FACTOR, MOST_TOTAL, OUTSIDE, SAFE, SECOND_FACTOR, TOP_K, UNITS

ONE = 0x3FF0000000000000  # bit pattern of 1.0
SCORE_UNIT = 2.0**-52
# Fixed-point value of 1: larger sums are capped to it.
WHOLE_UNITS = 1 << 52
MOST_SCORE = 2046.0  # largest score of any label
UNLIMITED_UNITS = 0x7FFFFFFFFFFFFFFF
LEAST_SHARE, MOST_SHARE = -OUTSIDE, 1.0 + OUTSIDE


@jit(inner=True, borrows=True)
def round_to_units(p):
    """Return `p` in [0, 1] in units of 2^-52, rounded to even, read from the last bits of 1 + p."""
    return np.float64(1.0 + np.float64(p)).view(np.int64) - ONE


@jit(inner=True, borrows=True)
def clamp_share(p):
    """Return `p` as float64 clamped to [0, 1]."""
    p = np.float64(p)
    return 1.0 if p > 1.0 else p if p > 0.0 else 0.0


@jit(inner=True, borrows=True)
def score_label(before, ahead, p, u, penalty, k_reg):
    """Return the score of a label, given mass (units) and number of the labels ranked before it.

    `p` is its probability and `u` the fraction of it that counts.
    """
    whole = min(before + round_to_units(u * clamp_share(p)), WHOLE_UNITS) + penalty * max(0, ahead + 1 - k_reg)
    return np.float64(whole) * SCORE_UNIT


@jit(inner=True, borrows=True)
def score_rank(method, ahead, largest, u, penalty):
    """Return the SAPS or top-k score of the label with `ahead` labels before it in a row of this largest probability.

    `u` is the fraction of the label's own step that counts. Scores never decrease along the ranking.
    """
    if method == TOP_K:
        return np.float64(ahead) + u
    if ahead == 0:
        return np.float64(round_to_units(u * largest)) * SCORE_UNIT
    whole = round_to_units(largest) + penalty * (ahead - 1) + np.int64(np.rint(u * np.float64(penalty)))
    return np.float64(whole) * SCORE_UNIT


@jit(inner=True, borrows=True)
def count_before_label(row, label):
    """Return the number of labels ranked before `label`, and the largest probability of the row."""
    p, ahead, largest = clamp_share(row[label]), 0, 0.0
    for j in range(len(row)):
        other = clamp_share(row[j])
        largest = max(largest, other)
        if other > p or (other == p and j < label):
            ahead += 1
    return ahead, largest


@jit(inner=True, borrows=True)
def find_largest_units(q):
    """Return the largest mass, in units of 2^-52, with a score of at most `q`; UNLIMITED_UNITS for NaN or large `q`."""
    if not q < MOST_SCORE:  # NaN too
        return UNLIMITED_UNITS
    whole = np.int64(np.floor(q * UNITS))
    if whole >= 1 << 53:  # several integers round to one float64
        step = 1 << 12
        while step:
            if np.float64(whole + step) * SCORE_UNIT <= q:
                whole += step
            step >>= 1
    return whole


@jit(inner=True, borrows=True)
def is_row(row):
    """Return whether a row holds probabilities whose sum fits int64 in units of 2^-52."""
    good = True
    for j in range(row.shape[0]):
        good &= (row[j] >= LEAST_SHARE) & (row[j] <= MOST_SHARE)
    if good and row.shape[0] > SAFE:
        total = 0
        for j in range(row.shape[0]):
            total += round_to_units(clamp_share(row[j])) >> 20
        good = total <= MOST_TOTAL << 32
    return good


@jit(inner=True, borrows=True)
def is_share(u):
    """Return whether `u` is in [0, 1]."""
    return (u >= 0.0) & (u <= 1.0)


@jit(inner=True, borrows=True)
def sum_before_label(row, label):
    """Return mass in units and number of the labels ranked before `label`, in one pass without a sort."""
    p, whole, ahead = clamp_share(row[label]), 0, 0
    first, last = row[:label], row[label + 1 :]  # loops from 0 are vectorised
    for j in range(len(first)):
        if clamp_share(first[j]) >= p:
            whole += round_to_units(clamp_share(first[j]))
            ahead += 1
    for j in range(len(last)):
        if clamp_share(last[j]) > p:
            whole += round_to_units(clamp_share(last[j]))
            ahead += 1
    return whole, ahead


@jit(inner=True, borrows=True)
def _mix_bits(x, factor):
    """Return one xor-shift-multiply step of the hash finaliser."""
    return add_product(0, x ^ (x >> 33 & 0x7FFFFFFF), factor)


@jit(inner=True, borrows=True)
def hash_row(row, keys):
    """Return a uniform number in [0, 1) that is a hash of the row's probabilities and the keys."""
    total, factors = keys[0], keys[1:]
    for j in range(len(row)):
        total = add_product(total, round_to_units(clamp_share(row[j])), factors[j])
    mixed = _mix_bits(_mix_bits(total, FIRST_FACTOR), SECOND_FACTOR)
    return np.float64((mixed ^ (mixed >> 33 & 0x7FFFFFFF)) >> 11 & 0x1FFFFFFFFFFFFF) * 2.0**-53
