"""Sums beyond 64 bits: integers are summed by their 32-bit halves, floats by their digits.

The arrays may be of any library with NumPy's operators.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

BITS = 32
SUMS_PER_BLOCK = 1 << 16  # sums rounded at a time: as Python integers they take much memory
OVERFLOW = 2**1024 - 2**970  # least value that rounds to infinity


def fits(low: int, high: int, n: int) -> bool:
    """Test whether every sum of `n` integers from `low` to `high` fits into int64."""
    return max(abs(low), abs(high)) * n < 2**63


def split_halves(x: Any) -> tuple[Any, Any]:
    """Return the low 32-bit halves, nonnegative, and the high halves of integers, as int64."""
    x = x if x.dtype == np.uint64 else x.astype(np.int64)
    return (x & x.dtype.type(2**BITS - 1)).astype(np.int64), (x >> x.dtype.type(BITS)).astype(np.int64)


def join_halves(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the sums of the whole integers from those of their halves, 0 on overflow of int64, and where they fit."""
    low, high = carry_halves(low, high)
    good = (high >= -(2 ** (BITS - 1))) & (high < 2 ** (BITS - 1))
    return ((high * good) << BITS) + low * good, good


def carry_halves(low: Any, high: Any) -> tuple[Any, Any]:
    """Carry sums of halves, so that the low ones are below 2**32 again."""
    return low & (2**BITS - 1), high + (low >> BITS)


def replace_nonfinite(x: Any) -> Any:
    """Return an array with zeros for NaN and infinities."""
    return np.where(np.isfinite(x), x, 0)


def extract_digits(x: Any, exponent: Any, number: int, bits: int) -> Iterator[Any]:
    """Yield the digits of floats below ``2**exponent``, as int64, the highest first; 0 for NaN and infinities.

    Digits are from ``-2**(bits - 1)`` to ``2**(bits - 1)``, but the first may be twice as large. The rest below the
    last digit is rounded off, half to even.
    """
    rest = np.ldexp(replace_nonfinite(x.astype(np.float64)), -exponent)
    for _ in range(number):
        rest = np.ldexp(rest, bits)
        whole = np.rint(rest)
        yield whole.astype(np.int64)
        rest = rest - whole


def split_digits(x: Any, bits: int) -> Iterator[tuple[int, Any]]:
    """Yield the nonzero digits of floats, as int64 with the sign of the float, by number; NaN and infinities have none.

    Digit k counts units of ``2**(bits * k)`` and is below ``2**bits`` in magnitude. The highest comes first, and the
    digits of a float add up to it exactly.
    """
    rest = replace_nonfinite(x.astype(np.float64))
    while top := float(abs(rest).max()) if rest.size else 0.0:  # synchronises
        k = (int(np.frexp(top)[1]) - 1) // bits
        whole = np.trunc(np.ldexp(rest, -bits * k))
        yield k, whole.astype(np.int64)
        rest = rest - np.ldexp(whole, bits * k)


def round_digit_sums(columns: list[np.ndarray], bits: int, exponent: int) -> np.ndarray:
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
