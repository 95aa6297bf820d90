"""Exact segmented sums of weights per cell, rounded once, so that they do not depend on the order of the points."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit

PARTS = 4  # limbs of a weight, 31 bits each: 124 bits below the largest weight, and 2**32 addends fit int64
PART_BITS = 31
SECONDS_PER_SUMMED_WEIGHT = 5e-9


def sum_segments(weights, order, starts, num_threads=None):
    """Sum ``weights[order]`` over the segments that begin at `starts`: int64 for integers, else the float type.

    Integers may have several columns; their sums must fit int64.
    """
    if weights.dtype.kind == "f":
        return _sum_float_segments(weights, order, starts, num_threads)
    if len(starts) == 0:
        return np.empty((0, *weights.shape[1:]), np.int64)
    weights = weights[order]
    low, high = int(weights.min()), int(weights.max())
    if max(-low, high) * len(weights) < 2**63:
        return np.add.reduceat(weights.astype(np.int64), starts)
    # Sums of 32-bit halves cannot overflow; Python integers combine them.
    w = weights if weights.dtype == np.uint64 else weights.astype(np.int64)
    halves = [np.add.reduceat(half.astype(np.int64), starts) for half in (w >> 32, w & 0xFFFFFFFF)]
    total = [(int(a) << 32) + int(b) for a, b in zip(*halves, strict=True)]
    if max(total) >= 2**63 or min(total) < -(2**63):
        msg = f"a sum of weights is {max(total, key=abs)}, which int64 cannot hold"
        raise OverflowError(msg)
    return np.array(total, np.int64)


def _sum_float_segments(weights, order, starts, num_threads):
    """Sum floats over segments exactly as integers of four limbs, rounded once; NaN if one is not finite.

    Bits of a weight below 2**-124 of the largest one are rounded off.
    """
    values = np.empty(len(starts))
    w = np.empty(len(order))
    seconds = len(w) * SECONDS_PER_SUMMED_WEIGHT

    def gather(_, start, stop):
        """Copy the weights of one piece in sorted order."""
        w[start:stop] = weights[order[start:stop]]

    pool.run_pieces(gather, pool.pieces(len(w), seconds), seconds=seconds, num_threads=num_threads)
    bounds = np.append(starts, len(w))
    arguments = w, bounds, int(np.frexp(find_largest(w))[1]), values
    pool.run(_sum_floats, arguments, len(starts), seconds=seconds, num_threads=num_threads)
    with np.errstate(over="ignore"):
        return values.astype(np.float32 if weights.dtype == np.float32 else np.float64, copy=False)


def sum_sorted(weights, bounds, exponent):
    """Return the sum of sorted weights between each two `bounds`: int64, or exact sums of floats below 2**exponent."""
    if weights.dtype.kind != "f":
        return np.add.reduceat(weights, bounds[:-1]) if len(bounds) > 1 else weights
    values = np.empty(len(bounds) - 1)
    _sum_floats(weights, bounds, exponent, values, 0, len(values))
    return values


def find_largest(w):
    """Return the largest finite magnitude."""
    largest = max(float(w.max(initial=0.0)), -float(w.min(initial=0.0)))
    return largest if math.isfinite(largest) else np.max(np.abs(w), initial=0.0, where=np.isfinite(w))


@jit()
def _sum_floats(weights, bounds, exponent, out, start, stop):
    """Sum weights below ``2**exponent`` over the segments `start` to `stop`, exactly in limbs, then round."""
    half = -exponent // 2  # the full power of two may overflow float64
    first, second = math.ldexp(1.0, half), math.ldexp(1.0, -exponent - half)
    unit = 2.0**PART_BITS
    for c in range(start, stop):
        a = b = d = e = np.int64(0)
        finite = True
        for t in range(bounds[c], bounds[c + 1]):
            x = weights[t]
            finite = finite and np.isfinite(x)
            if finite:
                x = x * first * second * unit
                whole = np.trunc(x)
                a += np.int64(whole)
                x = (x - whole) * unit
                whole = np.trunc(x)
                b += np.int64(whole)
                x = (x - whole) * unit
                whole = np.trunc(x)
                d += np.int64(whole)
                e += np.int64(np.rint((x - whole) * unit))
        out[c] = _round_limbs(a, b, d, e, exponent - PARTS * PART_BITS) if finite else np.nan


@jit(inline=True)
def _power_of_two(exponent):
    """Return ``2.0**exponent`` for exponents from -1022 to 1024 (infinity), by its bits: faster than ldexp."""
    return np.int64((exponent + 1023) << 52).view(np.float64)


@jit(inner=True)
def _round_limbs(a, b, d, e, exponent):
    """Return the float64 nearest to four limbs of 31 bits, highest first, times ``2**exponent``."""
    mask = (1 << PART_BITS) - 1
    d, e = d + (e >> PART_BITS), e & mask
    b, d = b + (d >> PART_BITS), d & mask
    a, b = a + (b >> PART_BITS), b & mask
    sign = 1.0
    if a < 0:  # the other limbs are nonnegative, so this is the sign of the sum
        sign = -1.0
        e = -e
        d, e = (e >> PART_BITS) - d, e & mask
        b, d = (d >> PART_BITS) - b, d & mask
        a, b = (b >> PART_BITS) - a, b & mask
    top, a = a >> PART_BITS, a & mask
    exponent += 3 * PART_BITS  # of the second limb, as the first two are combined
    for _ in range(PARTS):
        if top == 0:
            top, a, b, d, e = a, b, d, e, 0
            exponent -= PART_BITS
    if top == 0:
        return 0.0
    # 63 bits with a sticky last bit: rounding these equals rounding all bits.
    n = (np.float64(top).view(np.int64) >> 52) - 1022  # its bit length
    w = (((top << PART_BITS) | a) << (32 - n)) | (b >> (n - 1))
    if (b & ((1 << (n - 1)) - 1)) | d | e:
        w |= 1
    exponent -= 32 - n
    if exponent >= -1022:
        return sign * np.float64(w) * _power_of_two(min(exponent, 1024))
    if exponent + 62 >= -1022:
        return sign * math.ldexp(np.float64(w), exponent)
    shift = -1074 - exponent  # a subnormal result has fewer bits and must be rounded once only
    if shift > 63:
        return sign * 0.0
    whole, rest, middle = w >> shift, w & ((1 << shift) - 1), 1 << (shift - 1)
    whole += rest > middle or (rest == middle and whole & 1 == 1)
    return sign * (np.float64(whole) * 2.0**-1074)
