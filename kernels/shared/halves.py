"""Sums that 64 bits may not hold: of integers those of their halves of 32 bits, of floats those of digits.

The arrays may be of any library with NumPy's operators.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

BITS = 32
SUMS_PER_BLOCK = 1 << 16  # sums that are rounded at a time: as Python's integers they take much memory
OVERFLOW = 2**1024 - 2**970  # what rounds to infinity


def fits(low: int, high: int, n: int) -> bool:
    """Return whether every sum of `n` integers from `low` to `high` is an int64."""
    return max(abs(low), abs(high)) * n < 2**63


def split(x: Any) -> tuple[Any, Any]:
    """Return the low halves, which are not negative, and the high ones, as int64."""
    x = x if x.dtype == np.uint64 else x.astype(np.int64)
    return (x & x.dtype.type(2**BITS - 1)).astype(np.int64), (x >> x.dtype.type(BITS)).astype(np.int64)


def join(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the sums of the whole from those of the halves, 0 where int64 does not hold one; and where it does."""
    low, high = carried(low, high)
    good = (high >= -(2 ** (BITS - 1))) & (high < 2 ** (BITS - 1))
    return ((high * good) << BITS) + low * good, good


def carried(low: Any, high: Any) -> tuple[Any, Any]:
    """Return sums of halves of which the low ones are below 2**32 again."""
    return low & (2**BITS - 1), high + (low >> BITS)


def finite(x: Any) -> Any:
    """Return an array of any library with 0 in the place of what is not finite."""
    return np.where(np.isfinite(x), x, 0)


def digits(x: Any, exponent: Any, number: int, bits: int) -> Iterator[Any]:
    """Yield digits of floats below ``2**exponent``, int64, the highest first; 0 for what is not finite.

    They are from ``-2**(bits - 1)`` to ``2**(bits - 1)``, but for the first, which may be twice as large. What is
    below the last is rounded off, half to even.
    """
    rest = np.ldexp(finite(x.astype(np.float64)), -exponent)
    for _ in range(number):
        rest = np.ldexp(rest, bits)
        whole = np.rint(rest)
        yield whole.astype(np.int64)
        rest = rest - whole


def rounded(columns: list[np.ndarray], bits: int, exponent: int) -> np.ndarray:
    """Return the sums (n,) whose digits were summed, the last times ``2**exponent``, each rounded once to float64."""
    top, bottom = 2 ** max(exponent, 0), 2 ** max(-exponent, 0)
    out = np.empty(len(columns[0]))
    for start in range(0, len(out), SUMS_PER_BLOCK):
        some = slice(start, start + SUMS_PER_BLOCK)
        total: Any = 0
        for column in columns:
            total = total * 2**bits + column[some].astype(object)  # Python's integers
        far = (abs(total) * top >= OVERFLOW * bottom).astype(np.bool_)
        out[some] = np.where(far, 0, total) * top / bottom
        out[some][far] = np.where(total[far] > 0, np.inf, -np.inf)
    return out
