"""Weights in fixed point, so that sums of them are integers and have the same bits in any order.

A weight w becomes ``q = rint(w 2**shift)`` with the largest shift for which no sum of the matrix leaves int64; the only
later rounding is that of the result. The relative error of every sum is at most ``2**-(shift + 1) / w_min``; where that
exceeds ``MOST_WEIGHT_ERROR`` the integers are wider than one machine word and held as limbs.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

MOST_WEIGHT_ERROR = 2.0**-40
SURE = 1e-10  # sums in any order agree to this, relatively
MOST_WEIGHT = 2.0**1020
# Entries of a matrix that are worked on together, about: all that is made of them stays in cache.
WEIGHT_BLOCK_ENTRIES = 1 << 15


class WeightSummary(NamedTuple):
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
        The largest sum of weights times counts over a row or a column, up to its power of two; infinite beyond float64.
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


def fixed_point(found: WeightSummary) -> FixedPoint | None:
    """Return how the table is held, or None: a weight in use is no weight, or sums leave float64."""
    if not (found.good and math.isfinite(found.top)):
        return None
    if found.equal:
        return FixedPoint(0, found.first, 0, 1, 0.0, equal=True)
    fraction, exponent = math.frexp(found.top)
    shift = 62 - (exponent - 1 if fraction == 0.5 else exponent)
    error = _relative_error(found.smallest, shift)
    if error <= MOST_WEIGHT_ERROR:
        return FixedPoint(shift, 1.0, 0, 1, error, equal=False)
    # As many limbs as keep 54 bits of the smallest weight.
    wide = max(shift + 62, 54 - math.frexp(found.smallest)[1])
    width = 62 - found.total.bit_length()  # limbs times counts, summed over everything, stay below 2**63
    return FixedPoint(
        wide, 1.0, width, -(-(wide - shift + 63) // width), _relative_error(found.smallest, wide), equal=False
    )


def row_blocks(M: np.ndarray) -> Iterator[slice]:
    """Yield ranges of rows of a matrix that stay in cache while several steps go over them."""
    rows = max(WEIGHT_BLOCK_ENTRIES // max(M.shape[1], 1), 1)
    for start in range(0, len(M), rows):
        yield slice(start, start + rows)


def quantise(W: np.ndarray, M: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Return the table `W` in fixed point for counts `M`, or None.

    None if a weight in use is negative or not finite, or so large that sums leave float64. Where one word is wide
    enough `q` is `out`, if that is given.
    """
    found = fixed_point(_summary(W, M))
    if found is None:
        return None
    if found.width:
        q = _limbs(np.where(M > 0, W, 0.0), found)
    else:
        q = np.empty(M.shape, np.int64) if out is None else out
        for rows in row_blocks(M):
            used = M[rows] > 0
            q[rows] = used if found.equal else np.rint(np.ldexp(np.where(used, W[rows], 0.0), found.shift))
    return Fixed(q, found.shift, found.scale, found.width, found.error)


def _summary(W: np.ndarray, M: np.ndarray) -> WeightSummary:
    """Say of the weights at counts above zero what :class:`WeightSummary` tells; only how large `top` is, is sure."""
    first, equal, smallest = None, True, np.inf
    rows_sums, columns = np.empty(len(M)), np.zeros(M.shape[1])
    for rows in row_blocks(M):
        used = M[rows] > 0
        w = np.where(used, W[rows], 0.0)
        if not (np.isfinite(w) & (w >= 0)).all():
            return WeightSummary(False, True, 0.0, 0.0, 0.0, 0)
        if first is None and used.any():
            first = w[used][0]
        equal = equal and bool(((w == first) | ~used).all())
        smallest = w.min(initial=smallest, where=w > 0)
        with np.errstate(over="ignore"):
            mass = w * M[rows]
            rows_sums[rows] = mass.sum(axis=1)
            columns += mass.sum(axis=0)
    if first is None:
        return WeightSummary(True, True, 0.0, 0.0, 0.0, 0)
    top = max(rows_sums.max(), columns.max())
    if math.frexp(top * (1 - SURE))[1] != math.frexp(top * (1 + SURE))[1] or top > MOST_WEIGHT:
        top = _top(W, M)
    return WeightSummary(True, equal, float(first), float(smallest), float(top), int(M.sum()))


def _top(W: np.ndarray, M: np.ndarray) -> float:
    """Return the largest sum of weights times counts over a row or a column.

    In index order, not pairwise: the shift is then the same wherever it is computed.
    """
    top, columns = 0.0, np.zeros((1, M.shape[1]))
    with np.errstate(over="ignore"):
        for rows in row_blocks(M):
            mass = np.where(M[rows] > 0, W[rows], 0.0) * M[rows]
            top = max(top, float(np.cumsum(mass, axis=1)[:, -1].max()))
            columns = np.cumsum(np.concatenate([columns, mass]), axis=0)[-1:]
    return max(top, float(columns.max()))


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


def bounds(G: np.ndarray, M: np.ndarray, fixed: Fixed, out: list[np.ndarray]) -> None:
    """Write the geometric matrix, the normalised counts and the upper bound for integers `G` of one table of weights.

    `G` is (C, C), or (C, C, K) in limbs as the table is. Of `out` the first alone may be given.
    """
    if fixed.width:
        mass = (fixed.q * M[:, :, None]).astype(object)
        exact = sum(mass[..., k] << (k * fixed.width) for k in range(mass.shape[-1]))
        upper = np.minimum(exact.sum(axis=1)[:, None], exact.sum(axis=0)[None, :])
        for to, total in zip(out, (G, exact[..., None], upper[..., None]), strict=False):  # Python integers: one limb
            to[...] = to_float(total, fixed)
        return
    for rows in row_blocks(M):
        out[0][rows] = to_float(G[rows], fixed)
    if len(out) == 1:
        return
    columns = sum(((fixed.q[rows] * M[rows]).sum(axis=0) for rows in row_blocks(M)), np.zeros(M.shape[1], np.int64))
    for rows in row_blocks(M):
        exact = fixed.q[rows] * M[rows]
        out[1][rows] = to_float(exact, fixed)
        out[2][rows] = to_float(np.minimum(exact.sum(axis=1)[:, None], columns), fixed)
