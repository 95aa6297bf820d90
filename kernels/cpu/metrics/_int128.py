"""128-bit integer arithmetic in two words, for exact sums of products of int64, rounded once to float64.

A matrix whose total fits int64 has products of margins below 2**126; in float64 their difference would lose all digits
of a coefficient near zero. Words are uint64 (high, low), differences two's complement. Literals are wrapped because
uint64 with a signed integer would become float64.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_TOP = np.uint64(63)
_WORD = np.uint64(64)
_ZERO = np.uint64(0)


@jit()
def multiply(a, b):
    """Return the 128-bit product of two nonnegative 64-bit integers as (high, low)."""
    x, y = np.uint64(a), np.uint64(b)
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    low, middle = x0 * y0, x1 * y0
    middle += low >> _HALF
    carry = middle >> _HALF
    middle = (middle & _LOW) + x0 * y1
    return x1 * y1 + carry + (middle >> _HALF), (middle << _HALF) | (low & _LOW)


@jit()
def add(high, low, other_high, other_low):
    """Return the sum of two 128-bit integers, modulo 2**128."""
    total = low + other_low
    carry = _ONE if total < low else _ZERO
    return high + other_high + carry, total


@jit()
def subtract(high, low, other_high, other_low):
    """Return the difference of two 128-bit integers, modulo 2**128."""
    borrow = _ONE if low < other_low else _ZERO
    return high - other_high - borrow, low - other_low


@jit()
def add_product(high, low, a, b):
    """Return (high, low) + a * b, modulo 2**128, for nonnegative a and b."""
    h, l = multiply(a, b)  # noqa: E741
    return add(high, low, h, l)


@jit()
def subtract_product(high, low, a, b):
    """Return (high, low) - a * b, modulo 2**128, for nonnegative a and b."""
    h, l = multiply(a, b)  # noqa: E741
    return subtract(high, low, h, l)


@jit()
def scale(high, low, factor):
    """Return (high, low) * factor, modulo 2**128, for a nonnegative factor."""
    h, l = multiply(low, factor)  # noqa: E741
    return high * np.uint64(factor) + h, l


@jit()
def convert_to_float(high, low):
    """Return the float64 nearest to a two's complement 128-bit integer."""
    negative = (high >> _TOP) == _ONE
    if negative:
        high, low = subtract(_ZERO, _ZERO, high, low)
    if high == _ZERO:
        value = np.float64(low)
    else:
        shift = _ZERO
        while (high >> (_TOP - shift)) == _ZERO:
            shift += _ONE
        if shift != _ZERO:
            high = (high << shift) | (low >> (_WORD - shift))
            low = low << shift
        # Sticky bit: it makes the conversion below round once instead of twice.
        if low != _ZERO:
            high |= _ONE
        value = np.float64(high) * 2.0 ** (64 - np.int64(shift))
    return -value if negative else value
