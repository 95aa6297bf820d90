"""Weights in fixed point, so that sums of them are integers and have the same bits in any order.

A weight w becomes ``q = rint(w 2**shift)`` with the largest shift for which no sum of the matrix leaves int64; the only
later rounding is that of the result. The relative error of every sum is at most ``2**-(shift + 1) / w_min``; where that
exceeds ``MOST_ERROR`` the integers are wider than one machine word and held as limbs.
"""

import math
from typing import Any, NamedTuple

import numpy as np

MOST_ERROR = 2.0**-40


class Summary(NamedTuple):
    """What a table of weights says over the pairs that occur in counts.

    Attributes
    ----------
    good : bool
        None is negative or not finite.
    equal : bool
        All are the same.
    first : float
        The first; 0 without any.
    smallest : float
        Of those above zero.
    top : float
        The largest sum of weights times counts over a row or a column; infinite beyond float64.
    total : int
        Sum of all counts.
    """

    good: bool
    equal: bool
    first: float
    smallest: float
    top: float
    total: int


class FixedPoint(NamedTuple):
    """How a table of weights is held as integers: ``w = scale * q * 2**-shift``, `limbs` of `width` bits each.

    Where one word is wide enough `width` is 0. Weights that are all the same are in `scale`, and their `q` is 1.
    """

    shift: int
    scale: float
    width: int
    limbs: int
    error: float
    equal: bool


class Fixed(NamedTuple):
    """A table of weights as integers, see :class:`FixedPoint`.

    `q` is int64 (C, C); where one word is too narrow it is (C, C, K), limbs of `width` bits, the lowest first.
    """

    q: np.ndarray
    shift: int
    scale: float
    width: int
    error: float


def fixed_point(found: Summary) -> FixedPoint | None:
    """Return how the table is held, or None: a weight in use is no weight, or sums leave float64."""
    if not (found.good and math.isfinite(found.top)):
        return None
    if found.equal:
        return FixedPoint(0, found.first, 0, 1, 0.0, equal=True)
    fraction, exponent = math.frexp(found.top)
    shift = 62 - (exponent - 1 if fraction == 0.5 else exponent)
    error = _relative_error(found.smallest, shift)
    if error <= MOST_ERROR:
        return FixedPoint(shift, 1.0, 0, 1, error, equal=False)
    # As many limbs as keep 54 bits of the smallest weight.
    wide = max(shift + 62, 54 - math.frexp(found.smallest)[1])
    width = 62 - found.total.bit_length()  # limbs times counts, summed over everything, stay below 2**63
    return FixedPoint(
        wide, 1.0, width, -(-(wide - shift + 63) // width), _relative_error(found.smallest, wide), equal=False
    )


def quantise(W: np.ndarray, M: np.ndarray) -> Any:
    """Return the table `W` in fixed point for counts `M`, or None.

    None if a weight in use is negative or not finite, or so large that sums leave float64.
    """
    used = M > 0
    w = np.where(used, W, 0.0)
    found = fixed_point(_summary(w, W[used], M))
    if found is None:
        return None
    if found.equal:
        q = used.astype(np.int64)
    elif found.width:
        q = _limbs(w, found)
    else:
        q = np.rint(np.ldexp(w, found.shift)).astype(np.int64)
    return Fixed(q, found.shift, found.scale, found.width, found.error)


def _summary(w: np.ndarray, in_use: np.ndarray, M: np.ndarray) -> Summary:
    good = bool((np.isfinite(w) & (w >= 0)).all())
    if not in_use.size or not good:
        return Summary(good, True, 0.0, 0.0, 0.0, 0)
    with np.errstate(over="ignore"):
        mass = w * M
        # In index order, not pairwise: the shift is then the same wherever it is computed.
        top = float(max(np.cumsum(mass, axis=1)[:, -1].max(), np.cumsum(mass, axis=0)[-1].max()))
    equal, smallest = bool((in_use == in_use[0]).all()), float(w.min(initial=np.inf, where=w > 0))
    return Summary(good, equal, float(in_use[0]), smallest, top, int(M.sum()))


def _relative_error(smallest: float, shift: int) -> float:
    """``2**-(shift + 1) / smallest``, where `smallest` times ``2**shift`` may be anything."""
    fraction, exponent = math.frexp(smallest)
    power = -(shift + 1) - exponent
    return math.ldexp(1 / fraction, power) if power < 1023 else math.inf


def _limbs(w: np.ndarray, found: FixedPoint) -> np.ndarray:
    q = np.zeros((*w.shape, found.limbs), np.int64)
    for index in zip(*np.nonzero(w), strict=True):
        value = _times_power(float(w[index]), found.shift)
        for k in range(found.limbs):
            q[(*index, k)] = (value >> (k * found.width)) & ((1 << found.width) - 1)
    return q


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
