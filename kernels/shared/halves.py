"""Sums of integers that 64 bits may not hold: those of their halves of 32 bits, for which there is room.

The arrays may be of any library with NumPy's operators.
"""

from typing import Any

import numpy as np

BITS = 32


def fits(low: int, high: int, n: int) -> bool:
    """Return whether every sum of `n` integers from `low` to `high` is an int64."""
    return max(abs(low), abs(high)) * n < 2**63


def split(x: Any) -> tuple[Any, Any]:
    """Return the low halves, which are not negative, and the high ones, as int64."""
    x = x if x.dtype == np.uint64 else x.astype(np.int64)
    return (x & x.dtype.type(2**BITS - 1)).astype(np.int64), (x >> x.dtype.type(BITS)).astype(np.int64)


def join(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the sums of the whole from those of the halves, 0 where int64 does not hold one; and where it does."""
    high = high + (low >> BITS)
    good = (high >= -(2 ** (BITS - 1))) & (high < 2 ** (BITS - 1))
    return ((high * good) << BITS) + (low & (2**BITS - 1)) * good, good
