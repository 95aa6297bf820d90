"""Columns of a table of points, the same for every target: the integers that their moments are taken of."""

from typing import Any, NamedTuple

import numpy as np

COLUMN_STEPS = 2.0**20  # between the smallest and the largest value of a column
COORDINATE_DIGIT_BITS = 22  # of a digit; a coordinate has two, and a sign
DIGIT_ROWS = 1 << 11  # products of digits are at most 2**42: of so many rows float64 adds them exactly, in any order
OVERFLOW_SCALE = 2.0**64  # the quotient of any sum of coordinates is finite
ROUNDING_SHIFT = 1.5 * 2.0**52  # added to a number below 2**51 and taken away again it leaves the next integer
LEAST_PLAIN_RANGE = 2.0**-960  # below it the steps to a unit would be beyond float64
RANGE_SCALE = 2.0**900  # by which such columns are multiplied, exactly


class MomentSteps(NamedTuple):
    """How values become integers for their moments: ``rint((x * power - low) * scale)``; `power` None stands for 1."""

    power: Any
    low: Any
    scale: Any


def moment_steps(low: Any, high: Any) -> MomentSteps:
    """Return how columns between `low` and `high`, NumPy's arrays, become integers for their moments."""
    power = None
    if ((high > low) & (high - low < LEAST_PLAIN_RANGE)).any():
        power = np.where(high - low < LEAST_PLAIN_RANGE, RANGE_SCALE, 1.0)
        low, high = low * power, high * power
    with np.errstate(divide="ignore"):
        return MomentSteps(power, low, np.where(high > low, COLUMN_STEPS / (high - low), 0.0))


class Steps(NamedTuple):
    """How the columns of a table become integers: ``rint((x - low) * 2**exponent) - centre``, of at most 43 bits.

    Attributes
    ----------
    low, centre : array of float64, shape (m,)
        Of every column; `centre` is 0 where a column is constant, and so are its integers.
    half : array of float64, shape (m,)
        1, or 1/2 where the range of a column is beyond float64.
    factor, other : array of float64, shape (m,)
        ``factor * other`` is ``2**exponent / half``, which may be beyond float64.
    exponent : array of int64, shape (m,)
        Of the powers of two.
    """

    low: Any
    centre: Any
    half: Any
    factor: Any
    other: Any
    exponent: Any


def steps_of(low: Any, high: Any) -> Steps:
    """Return how columns between `low` and `high`, NumPy's arrays, become integers."""
    low, high = (np.where(np.isfinite(x), x, 0.0) for x in (low, high))
    varies = high > low
    with np.errstate(over="ignore"):
        half = np.where(np.isfinite(high - low), 1.0, 0.5)
    _, size = np.frexp(high * half - low * half)
    exponent = 2 * COORDINATE_DIGIT_BITS - size.astype(np.int64)
    factor, other = (np.where(varies, np.ldexp(1.0, part), 0.0) for part in (exponent // 2, exponent - exponent // 2))
    centre = np.where(varies, 2.0 ** (2 * COORDINATE_DIGIT_BITS - 1), 0.0)
    return Steps(low, centre, half, factor, other, np.where(half < 1.0, exponent - 1, exponent))


def digits_of(X: Any, steps: Steps) -> tuple[Any, Any]:
    """Return both digits of every coordinate in float64; `steps` has arrays of the library of `X`."""
    whole = (X * steps.half - steps.low * steps.half) * steps.factor * steps.other
    whole = (whole + ROUNDING_SHIFT) - ROUNDING_SHIFT - steps.centre
    high = (whole * 2.0**-COORDINATE_DIGIT_BITS + ROUNDING_SHIFT) - ROUNDING_SHIFT
    return high, whole - high * 2.0**COORDINATE_DIGIT_BITS


def carry(words: Any) -> None:
    """Bring remainders of 2**32, which were added up, below it again: the quotients take the rest."""
    words[0] += words[1] >> 32
    words[1] &= 0xFFFFFFFF
