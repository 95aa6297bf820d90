"""Weights in fixed point, so that sums of them are integers and have the same bits in any order.

A weight w becomes ``q = rint(w 2**shift)`` with the largest shift for which no sum of the matrix leaves int64; the only
later rounding is that of the result. The relative error of every sum is at most ``2**-(shift + 1) / w_min``; where that
exceeds ``MOST_ERROR`` the integers are wider than one machine word and held as limbs.
"""

import math
from typing import Any, NamedTuple

import numpy as np

MOST_ERROR = 2.0**-40


class Fixed(NamedTuple):
    """A table of weights as integers: ``w = scale * q * 2**-shift``.

    `q` is int64 (C, C); where one word is too narrow it is (C, C, K), limbs of `width` bits, the lowest first.
    """

    q: np.ndarray
    shift: int
    scale: float
    width: int
    error: float


def quantise(W: np.ndarray, M: np.ndarray) -> Any:
    """Return the table `W` in fixed point for counts `M`, or None.

    None if a weight in use is negative or not finite, or so large that sums leave float64.
    """
    used = M > 0
    w = np.where(used, W, 0.0)
    if not (np.isfinite(w) & (w >= 0)).all():
        return None
    in_use = W[used]
    if in_use.size == 0:
        return Fixed(used.astype(np.int64), 0, 0.0, 0, 0.0)
    with np.errstate(over="ignore"):
        mass = w * M
        # In index order, not pairwise: the shift is then the same wherever it is computed.
        top = float(max(np.cumsum(mass, axis=1)[:, -1].max(), np.cumsum(mass, axis=0)[-1].max()))
    if not math.isfinite(top):
        return None
    if (in_use == in_use[0]).all():
        return Fixed(used.astype(np.int64), 0, float(in_use[0]), 0, 0.0)
    fraction, exponent = math.frexp(top)
    shift = 62 - (exponent - 1 if fraction == 0.5 else exponent)
    smallest = float(w[w > 0].min())
    error = _relative_error(smallest, shift)
    if error <= MOST_ERROR:
        return Fixed(np.rint(np.ldexp(w, shift)).astype(np.int64), shift, 1.0, 0, error)
    return _wide(w, int(M.sum()), shift, smallest)


def _relative_error(smallest: float, shift: int) -> float:
    """``2**-(shift + 1) / smallest``, where `smallest` times ``2**shift`` may be anything."""
    fraction, exponent = math.frexp(smallest)
    return math.ldexp(1 / fraction, -(shift + 1) - exponent)


def _wide(w: np.ndarray, total: int, shift: int, smallest: float) -> Fixed:
    """Return the same with as many limbs as keep 54 bits of the smallest weight."""
    wide = max(shift + 62, 54 - math.frexp(smallest)[1])
    width = 62 - total.bit_length()  # limbs times counts, summed over everything, stay below 2**63
    n_limbs = -(-(wide - shift + 63) // width)
    q = np.zeros((*w.shape, n_limbs), np.int64)
    for index in zip(*np.nonzero(w), strict=True):
        value = _times_power(float(w[index]), wide)
        for k in range(n_limbs):
            q[(*index, k)] = (value >> (k * width)) & ((1 << width) - 1)
    return Fixed(q, wide, 1.0, width, _relative_error(smallest, wide))


def _times_power(x: float, shift: int) -> int:
    """``rint(x * 2**shift)`` as a Python integer, half to even."""
    top, bottom = x.as_integer_ratio()
    if shift >= 0:
        top <<= shift
    else:
        bottom <<= -shift
    quotient, rest = divmod(top, bottom)
    return quotient + (2 * rest > bottom or (2 * rest == bottom and quotient % 2))


def to_float(total: np.ndarray, fixed: Fixed) -> np.ndarray:
    """Return integer sums of `fixed` as float64, each rounded once (and once more by a constant weight)."""
    if not fixed.width:
        return np.ldexp(total.astype(np.float64), -fixed.shift) * fixed.scale
    out = np.empty(total.shape[:-1])
    for index in np.ndindex(out.shape):
        value = sum(int(limb) << (k * fixed.width) for k, limb in enumerate(total[index]))
        out[index] = _over_power(value, fixed.shift)
    return out


def _over_power(value: int, shift: int) -> float:
    return value / (1 << shift) if shift >= 0 else float(value << -shift)


def bounds(G: np.ndarray, M: np.ndarray, fixed: Fixed) -> list[np.ndarray]:
    """Return the geometric matrix, the normalised counts and the upper bound for integers `G` of one table of weights.

    `G` is (C, C), or (C, C, K) in limbs as the table is.
    """
    if fixed.width:
        mass = (fixed.q * M[:, :, None]).astype(object)
        exact = sum(mass[..., k] << (k * fixed.width) for k in range(mass.shape[-1]))
    else:
        exact = fixed.q * M
    rows, columns = exact.sum(axis=1), exact.sum(axis=0)
    upper = np.minimum(rows[:, None], columns[None, :])
    if fixed.width:  # Python integers are one limb each
        exact, upper = exact[..., None], upper[..., None]
    return [to_float(total, fixed) for total in (G, exact, upper)]
