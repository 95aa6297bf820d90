"""Fixed-point weights, so that weighted sums are integers with the same bits in any order.

A weight w becomes ``q = rint(w 2**shift)`` with the largest shift for which no sum of the matrix overflows int64; the
only later rounding is that of the result. The relative error of every sum is at most ``2**-(shift + 1) / w_min``; if
that exceeds ``MOST_WEIGHT_ERROR``, the integers are stored as several limbs.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

MOST_WEIGHT_ERROR = 2.0**-40
SURE = 1e-10  # relative tolerance within which float sums in any order agree
MOST_WEIGHT = 2.0**1020
LARGEST_EXPONENT = 1022  # of a power of two that float64 holds, up or down
INFINITE_BITS = np.float64(np.inf).view(np.uint64) - np.uint64(1)
# Matrix entries per block, about: intermediate results stay in cache.
WEIGHT_BLOCK_ENTRIES = 1 << 15


class WeightSummary(NamedTuple):
    """Summary of a table of weights over the pairs with nonzero counts.

    Attributes
    ----------
    good : bool
        All are nonnegative and finite.
    equal : bool
        All are equal.
    first : float
        The first weight; 0 without any.
    smallest : float
        The smallest positive weight.
    top : float
        The largest weighted row or column sum, exact to its binary exponent; infinite on overflow.
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
    """Format of a table of fixed-point weights: ``w = scale * q * 2**-shift``, with `limbs` of `width` bits.

    If one word is wide enough, `width` is 0. If all weights are equal, `scale` is the weight and `q` is 1. All sums of
    counts times weights are below ``2**bits``.
    """

    shift: int
    scale: float
    width: int
    limbs: int
    error: float
    equal: bool
    bits: int = 63


class Fixed(NamedTuple):
    """A table of fixed-point weights, with its :class:`FixedPoint` format.

    `q` is int64 (C, C); if one word is too narrow it is (C, C, K), limbs of `width` bits, lowest first.
    """

    q: np.ndarray
    shift: int
    scale: float
    width: int
    error: float


def choose_format(found: WeightSummary) -> FixedPoint | None:
    """Return the fixed-point format of a table, or None if a weight is invalid or sums overflow float64."""
    if not (found.good and math.isfinite(found.top)):
        return None
    if found.equal:
        return FixedPoint(0, found.first, 0, 1, 0.0, equal=True)
    fraction, exponent = math.frexp(found.top)
    shift = 62 - (exponent - 1 if fraction == 0.5 else exponent)
    error = _relative_error(found.smallest, shift)
    if error <= MOST_WEIGHT_ERROR:
        return FixedPoint(shift, 1.0, 0, 1, error, equal=False)
    # Enough limbs to keep 54 bits of the smallest weight.
    wide = max(shift + 62, 54 - math.frexp(found.smallest)[1])
    width, bits = 62 - found.total.bit_length(), wide - shift + 63  # sums of limbs times counts stay below 2**63
    error = _relative_error(found.smallest, wide)
    return FixedPoint(wide, 1.0, width, -(-bits // width), error, equal=False, bits=bits)


def row_blocks(M: np.ndarray) -> Iterator[slice]:
    """Yield row ranges of a matrix that fit in cache."""
    rows = max(WEIGHT_BLOCK_ENTRIES // max(M.shape[1], 1), 1)
    for start in range(0, len(M), rows):
        yield slice(start, start + rows)


def quantise(W: np.ndarray, M: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Return the table `W` in fixed point for counts `M`, or None if it is invalid.

    None if a weight with a nonzero count is negative or not finite, or if sums overflow float64. If one word is wide
    enough, `q` is written to `out`, if given.
    """
    found = choose_format(_summarize_weights(W, M))
    if found is None:
        return None
    if found.width:
        q = _split_limbs(np.where(M > 0, W, 0.0), found)
    else:
        q = np.empty(M.shape, np.int64) if out is None else out
        for rows in row_blocks(M):
            used = M[rows] > 0
            q[rows] = used if found.equal else np.rint(_scale(_mask_weights(W[rows], used), found.shift))
    return Fixed(q, found.shift, found.scale, found.width, found.error)


def _summarize_weights(W: np.ndarray, M: np.ndarray) -> WeightSummary:
    """Return the :class:`WeightSummary`; of `top` only the binary exponent is exact."""
    first, equal, smallest = None, True, np.inf
    rows_sums, columns = np.empty(len(M)), np.zeros(M.shape[1])
    for rows in row_blocks(M):
        used = M[rows] > 0
        w = _mask_weights(W[rows], used)
        if not (w.min(initial=0.0) >= 0.0 and w.max(initial=0.0) < np.inf):
            return WeightSummary(False, True, 0.0, 0.0, 0.0, 0)
        if first is None and used.any():
            first = w[used][0]
        equal = equal and bool(((w == first) | ~used).all())
        smallest = min(smallest, _find_least_positive(w))
        with np.errstate(over="ignore"):
            mass = w * M[rows]
            rows_sums[rows] = mass.sum(axis=1)
            columns += mass.sum(axis=0)
    if first is None:
        return WeightSummary(True, True, 0.0, 0.0, 0.0, 0)
    top = max(rows_sums.max(), columns.max())
    if math.frexp(top * (1 - SURE))[1] != math.frexp(top * (1 + SURE))[1] or top > MOST_WEIGHT:
        top = _find_largest_sum(W, M)
    return WeightSummary(True, equal, float(first), float(smallest), float(top), int(M.sum()))


def _mask_weights(W: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return the weights that are used, and 0 or -0 for the others."""
    with np.errstate(invalid="ignore"):
        w = W * used  # a sixth of the time of `where`, whose branches are mispredicted
    return np.asarray(w if w.max(initial=0.0) < np.inf else np.where(used, W, 0.0))  # an unused weight may be infinite


def _find_least_positive(w: np.ndarray) -> float:
    """Return the smallest positive of nonnegative numbers, infinity without any."""
    # As integers, bits of such numbers have the same order; one less than those of 0 or -0 is larger than all others.
    least = np.min(w.view(np.uint64) - np.uint64(1), initial=INFINITE_BITS)
    return float((least + np.uint64(1)).view(np.float64))


def _scale(w: np.ndarray, shift: int) -> np.ndarray:
    """Return ``w * 2**shift``, which must not overflow."""
    return np.asarray(w * 2.0**shift if abs(shift) < LARGEST_EXPONENT else np.ldexp(w, shift))  # the product is fast


def _find_largest_sum(W: np.ndarray, M: np.ndarray) -> float:
    """Return the largest weighted row or column sum, summed in index order.

    A fixed order, because the shift must be the same on every machine.
    """
    top, columns = 0.0, np.zeros((1, M.shape[1]))
    with np.errstate(over="ignore"):
        for rows in row_blocks(M):
            mass = np.where(M[rows] > 0, W[rows], 0.0) * M[rows]
            top = max(top, float(np.cumsum(mass, axis=1)[:, -1].max()))
            columns = np.cumsum(np.concatenate([columns, mass]), axis=0)[-1:]
    return max(top, float(columns.max()))


def _relative_error(smallest: float, shift: int) -> float:
    """Return ``2**-(shift + 1) / smallest`` without intermediate overflow."""
    fraction, exponent = math.frexp(smallest)
    power = -(shift + 1) - exponent
    return math.ldexp(1 / fraction, power) if power < 1023 else math.inf


def _split_limbs(w: np.ndarray, found: FixedPoint) -> np.ndarray:
    """Return the fixed-point integers of weights as limbs."""
    q = np.zeros((*w.shape, found.limbs), np.int64)
    for index in zip(*np.nonzero(w), strict=True):
        value = _scale_to_integer(float(w[index]), found.shift)
        for k in range(found.limbs):
            q[(*index, k)] = (value >> (k * found.width)) & ((1 << found.width) - 1)
    return q


def _scale_to_integer(x: float, shift: int) -> int:
    """Return ``rint(x * 2**shift)`` as a Python integer, ties to even."""
    top, bottom = x.as_integer_ratio()
    if shift >= 0:
        top <<= shift
    else:
        bottom <<= -shift
    quotient, rest = divmod(top, bottom)
    return quotient + (2 * rest > bottom or (2 * rest == bottom and quotient % 2))


def convert_sums(total: np.ndarray, fixed: Fixed) -> np.ndarray:
    """Return integer sums of fixed-point weights as float64, each rounded once (and once more by an equal weight)."""
    if not fixed.width:
        return np.ldexp(total.astype(np.float64), -fixed.shift) * fixed.scale
    out = np.empty(total.shape[:-1])
    for index in np.ndindex(out.shape):
        value = sum(int(limb) << (k * fixed.width) for k, limb in enumerate(total[index]))
        out[index] = _divide_by_power(value, fixed.shift)
    return out


def _divide_by_power(value: int, shift: int) -> float:
    """Return ``value / 2**shift`` as float64, rounded once."""
    return value / (1 << shift) if shift >= 0 else float(value << -shift)


def write_bounds(G: np.ndarray, M: np.ndarray, fixed: Fixed, out: list[np.ndarray]) -> None:
    """Write the geometric matrix, the normalised counts and the upper bound, from integer sums `G` of one table.

    `G` is (C, C), or (C, C, K) in limbs as the table is. `out` may hold the first array only.
    """
    if fixed.width:
        mass = (fixed.q * M[:, :, None]).astype(object)
        exact = sum(mass[..., k] << (k * fixed.width) for k in range(mass.shape[-1]))
        upper = np.minimum(exact.sum(axis=1)[:, None], exact.sum(axis=0)[None, :])
        for to, total in zip(out, (G, exact[..., None], upper[..., None]), strict=False):  # Python integers: one limb
            to[...] = convert_sums(total, fixed)
        return
    for rows in row_blocks(M):
        out[0][rows] = convert_sums(G[rows], fixed)
    if len(out) == 1:
        return
    columns = sum(((fixed.q[rows] * M[rows]).sum(axis=0) for rows in row_blocks(M)), np.zeros(M.shape[1], np.int64))
    for rows in row_blocks(M):
        exact = fixed.q[rows] * M[rows]
        out[1][rows] = convert_sums(exact, fixed)
        out[2][rows] = convert_sums(np.minimum(exact.sum(axis=1)[:, None], columns), fixed)
