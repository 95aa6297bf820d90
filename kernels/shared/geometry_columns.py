"""Quantise the columns of a point table to integers, for exact moments and products, the same for every target."""

from typing import Any, NamedTuple

import numpy as np

COLUMN_STEPS = 2.0**20  # integer steps between the smallest and the largest value of a column
COORDINATE_DIGIT_BITS = 22  # bits of a digit; a coordinate has two digits and a sign
DIGIT_ROWS = 1 << 11  # products of digits are at most 2**42, so that float64 sums over this many rows are exact
OVERFLOW_SCALE = 2.0**64  # any sum of coordinates divided by it is finite
ROUNDING_SHIFT = 1.5 * 2.0**52  # adding and subtracting it rounds numbers below 2**51 to integers
LEAST_PLAIN_RANGE = 2.0**-960  # for smaller column ranges the steps per unit would overflow float64
RANGE_SCALE = 2.0**900  # exact factor for such columns


class MomentSteps(NamedTuple):
    """Quantisation of columns for moments: ``rint((x * power - low) * scale)``; `power` None means 1."""

    power: Any
    low: Any
    scale: Any


def make_moment_steps(low: Any, high: Any) -> MomentSteps:
    """Return the quantisation for moments of columns between `low` and `high` (NumPy arrays)."""
    power = None
    if ((high > low) & (high - low < LEAST_PLAIN_RANGE)).any():
        power = np.where(high - low < LEAST_PLAIN_RANGE, RANGE_SCALE, 1.0)
        low, high = low * power, high * power
    with np.errstate(divide="ignore"):
        return MomentSteps(power, low, np.where(high > low, COLUMN_STEPS / (high - low), 0.0))


class Steps(NamedTuple):
    """Quantisation of columns for products: ``rint((x - low) * 2**exponent) - centre``, at most 43 bits.

    Attributes
    ----------
    low, centre : array of float64, shape (m,)
        Offsets of every column; `centre` is 0 for a constant column, and so are its integers.
    half : array of float64, shape (m,)
        1, or 1/2 if the range of a column overflows float64.
    factor, other : array of float64, shape (m,)
        ``factor * other`` is ``2**exponent / half``, which itself may overflow float64.
    exponent : array of int64, shape (m,)
        Binary exponents of the steps.
    """

    low: Any
    centre: Any
    half: Any
    factor: Any
    other: Any
    exponent: Any


def make_steps(low: Any, high: Any) -> Steps:
    """Return the quantisation for products of columns between `low` and `high` (NumPy arrays)."""
    low, high = (np.where(np.isfinite(x), x, 0.0) for x in (low, high))
    varies = high > low
    with np.errstate(over="ignore"):
        half = np.where(np.isfinite(high - low), 1.0, 0.5)
    _, size = np.frexp(high * half - low * half)
    exponent = 2 * COORDINATE_DIGIT_BITS - size.astype(np.int64)
    factor, other = (np.where(varies, np.ldexp(1.0, part), 0.0) for part in (exponent // 2, exponent - exponent // 2))
    centre = np.where(varies, 2.0 ** (2 * COORDINATE_DIGIT_BITS - 1), 0.0)
    return Steps(low, centre, half, factor, other, np.where(half < 1.0, exponent - 1, exponent))


def split_digits(X: Any, steps: Steps) -> tuple[Any, Any]:
    """Return the upper and lower digit of every quantised coordinate in float64."""
    whole = (X * steps.half - steps.low * steps.half) * steps.factor * steps.other
    whole = (whole + ROUNDING_SHIFT) - ROUNDING_SHIFT - steps.centre
    high = (whole * 2.0**-COORDINATE_DIGIT_BITS + ROUNDING_SHIFT) - ROUNDING_SHIFT
    return high, whole - high * 2.0**COORDINATE_DIGIT_BITS


def carry_words(words: Any) -> None:
    """Reduce summed remainders modulo 2**32 again, in place, moving the excess to the quotients."""
    words[0] += words[1] >> 32
    words[1] &= 0xFFFFFFFF
