"""Bit sets of rows and columns: words of 32 bits, stored in int64 so that no sum, shift or product overflows."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.late import LateParts

AUGMENT, HALL_VIOLATOR = 1, 2  # lazily compiled parts: needed where greedy flow does not suffice, or none does
PARTS = LateParts(2)
TABLE = np.zeros((1, 1), np.int64)  # example argument of the parts
SET_WORD_BITS = 32
_DE_BRUIJN = 0x077CB531  # all 5-bit windows are distinct, so the top bits of a shift identify the shift
_PLACE = np.zeros(SET_WORD_BITS, np.int64)
for _bit in range(SET_WORD_BITS):
    _PLACE[((_DE_BRUIJN << _bit) & 0xFFFFFFFF) >> 27] = _bit


@jit(inner=True, borrows=True)
def find_lowest_bit(word):
    """Return the position of the lowest set bit of a nonzero word (De Bruijn multiplication)."""
    return _PLACE[(((word & -word) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27]


@jit(inner=True, borrows=True)
def has_member(members, k):
    """Test whether `k` is in the bit set."""
    return (members[k >> 5] >> (k & 31)) & 1 != 0


@jit(inner=True, borrows=True)
def add_member(members, k):
    """Add `k` to the bit set, in place."""
    members[k >> 5] |= 1 << (k & 31)


@jit(inner=True, borrows=True)
def remove_member(members, k):
    """Remove `k` from the bit set, in place."""
    members[k >> 5] &= ~(1 << (k & 31))


@jit(inner=True, borrows=True)
def find_first_common(a, b):
    """Return the smallest member of both `a` and `b`, or -1."""
    for w in range(len(a)):
        both = a[w] & b[w]
        if both:
            return w * SET_WORD_BITS + find_lowest_bit(both)
    return -1


@jit(inner=True, borrows=True)
def find_first_new(a, seen):
    """Return the smallest member of `a` that is not in `seen`, or -1."""
    for w in range(len(a)):
        new = a[w] & ~seen[w]
        if new:
            return w * SET_WORD_BITS + find_lowest_bit(new)
    return -1
