"""Vectorised logarithm and exponential of eight float64 values, with the same bits in every lane and on every machine.

A library ``log`` takes one value per call and its last bits depend on the library. These reduce the argument to near
one and evaluate a polynomial with the operations of ``vector``; both are within about one unit in the last place.
"""

import numpy as np
from llvmlite import ir

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, _define, floor, fma, splat, vector, where

# The fields of a float64: a sign, eleven bits of exponent + 1023, 52 bits of fraction.
_FRACTION_BITS, _EXPONENT_MASK, _FRACTION_MASK = 52, 0x7FF, (1 << 52) - 1
_ONE_BITS = 1023 << 52
# Adding an integer to 2**52 leaves it in the low bits of the sum, so that no conversion instruction is needed.
_INTEGER, _INTEGER_BITS = 2.0**52, (1023 + 52) << 52

_LN2_HIGH, _LN2_LOW = (
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
)  # the first has 32 bits, so k * _LN2_HIGH is exact
_PER_LN2 = 1.44269504088896338700
# Of (log(1 + f) - log(1 - f)) / f - 2 and of r (e^r + 1) / (e^r - 1) - 2 in squares, least in the worst case: the
# series of FreeBSD's msun (Sun Microsystems, 1993; may be used, copied and changed freely).
_LOG = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_EXP = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_LARGEST, _SMALLEST = 709.79, -745.2  # beyond, exp is infinite or 0
LEAST_NORMAL, UPWARD, UPWARD_BITS = 2.0**-1022, 2.0**54, 54.0  # subnormal values are scaled by UPWARD first
LN2 = 0.6931471805599453


def exponent(x):
    """Return floor(log2(x)) of normal positive values; for others, the number in their exponent bits."""
    bits = x.view(np.int64) >> _FRACTION_BITS & _EXPONENT_MASK
    return (bits | _INTEGER_BITS).view(np.float64) - (_INTEGER + 1023.0)


def mantissa(x):
    """Return ``x / 2**exponent(x)``, in [1, 2), of normal positive values; for others, their fraction bits."""
    return (x.view(np.int64) & _FRACTION_MASK | _ONE_BITS).view(np.float64)


def power_of_two(k):
    """Return 2**k for integers k from -1022 to 1023; undefined for other values."""
    return ((np.asarray(k) + (_INTEGER + 1023.0)).view(np.int64) << _FRACTION_BITS).view(np.float64)


_WORDS = ir.VectorType(ir.IntType(64), WIDTH)


def _int64_constant(value):
    """Return an IR constant of eight equal int64."""
    return ir.Constant(_WORDS, [value] * WIDTH)


def _float64_constant(value):
    """Return an IR constant of eight equal float64."""
    return ir.Constant(ir.VectorType(ir.DoubleType(), WIDTH), [value] * WIDTH)


def _exponent(builder, x):
    """Emit ``exponent`` with bit operations."""
    bits = builder.lshr(builder.bitcast(x, _WORDS), _int64_constant(_FRACTION_BITS))
    bits = builder.or_(builder.and_(bits, _int64_constant(_EXPONENT_MASK)), _int64_constant(_INTEGER_BITS))
    return builder.fsub(builder.bitcast(bits, x.type), _float64_constant(_INTEGER + 1023.0))


def _mantissa(builder, x):
    """Emit ``mantissa`` with bit operations."""
    bits = builder.and_(builder.bitcast(x, _WORDS), _int64_constant(_FRACTION_MASK))
    return builder.bitcast(builder.or_(bits, _int64_constant(_ONE_BITS)), x.type)


def _power_of_two(builder, k):
    """Emit ``power_of_two`` with bit operations."""
    bits = builder.bitcast(builder.fadd(k, _float64_constant(_INTEGER + 1023.0)), _WORDS)
    return builder.bitcast(builder.shl(bits, _int64_constant(_FRACTION_BITS)), k.type)


_define(exponent, vector, (vector,), _exponent)
_define(mantissa, vector, (vector,), _mantissa)
_define(power_of_two, vector, (vector,), _power_of_two)


@jit(inner=True)
def log(x):
    """Return the natural logarithm of each lane: log(0) = -inf, NaN for negative values."""
    small = x < LEAST_NORMAL
    y = where(small, x * UPWARD, x)
    k, m = exponent(y), mantissa(y)
    upper = m > 1.4142135623730951
    k = where(upper, k + 1.0, k)
    k = where(small, k - UPWARD_BITS, k)
    f = where(upper, m * 0.5, m) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * fma(w, fma(w, fma(w, _LOG[6], _LOG[4]), _LOG[2]), _LOG[0])
    even = w * fma(w, fma(w, _LOG[5], _LOG[3]), _LOG[1])
    half = 0.5 * f * f
    out = k * _LN2_HIGH - ((half - (s * (half + (odd + even)) + k * _LN2_LOW)) - f)
    out = where((x > 0.0) & (x < np.inf), out, x)  # inf and NaN stay
    return where(x > 0.0, out, where(x == 0.0, -np.inf, splat(np.nan)))


@jit(inner=True)
def exp(x):
    """Return e**x of each lane: 0 for -inf, inf above 709.79."""
    y = where(x < _LARGEST, x, _LARGEST)
    y = where(y > _SMALLEST, y, _SMALLEST)
    k = floor(fma(y, _PER_LN2, 0.5))
    high, low = y - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    z = r * r
    c = r - z * fma(z, fma(z, fma(z, fma(z, _EXP[4], _EXP[3]), _EXP[2]), _EXP[1]), _EXP[0])
    near = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    half = floor(k * 0.5)  # two factors, because 2**k may overflow where the result does not
    out = near * power_of_two(half) * power_of_two(k - half)
    return where(x > _LARGEST, np.inf, where(x >= _SMALLEST, out, where(x < _SMALLEST, 0.0, x)))


@jit(inner=True, inline=True, borrows=True)
def offset_lanes(first, last, step):
    """Return ``step`` times the indices of eight matrices from `first` on, clamped to `last`."""
    return (
        first * step,
        min(first + 1, last) * step,
        min(first + 2, last) * step,
        min(first + 3, last) * step,
        min(first + 4, last) * step,
        min(first + 5, last) * step,
        min(first + 6, last) * step,
        min(first + 7, last) * step,
    )
