"""Sets of rows and of columns: rows of 32-bit words, kept in int64 so that no sum, shift or product overflows."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.late import LateParts

AUGMENT, CUT = 1, 2  # only where rows cannot be served directly, or not at all
PARTS = LateParts(2)
TABLE = np.zeros((1, 1), np.int64)  # as parts are handed them
SET_WORD_BITS = 32
_DE_BRUIJN = 0x077CB531  # its 5-bit windows are all different, so that a shift of it names its shift
_PLACE = np.zeros(SET_WORD_BITS, np.int64)
for _bit in range(SET_WORD_BITS):
    _PLACE[((_DE_BRUIJN << _bit) & 0xFFFFFFFF) >> 27] = _bit


@jit(inner=True, borrows=True)
def lowest(word):
    """Return the place of the lowest bit of a word that is not zero."""
    return _PLACE[(((word & -word) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27]


@jit(inner=True, borrows=True)
def has(members, k):
    return (members[k >> 5] >> (k & 31)) & 1 != 0


@jit(inner=True, borrows=True)
def mark(members, k):
    members[k >> 5] |= 1 << (k & 31)


@jit(inner=True, borrows=True)
def drop(members, k):
    members[k >> 5] &= ~(1 << (k & 31))


@jit(inner=True, borrows=True)
def first_common(a, b):
    """Return the smallest member of both `a` and `b`, or -1."""
    for w in range(len(a)):
        both = a[w] & b[w]
        if both:
            return w * SET_WORD_BITS + lowest(both)
    return -1


@jit(inner=True, borrows=True)
def first_new(a, seen):
    """Return the smallest member of `a` that is not in `seen`, or -1."""
    for w in range(len(a)):
        new = a[w] & ~seen[w]
        if new:
            return w * SET_WORD_BITS + lowest(new)
    return -1
