"""Column statistics of point tables: ranges, moments, quartiles, products, principal components and projections.

Ranges and moments are integers from kernels; the rest uses linear algebra and sorting of the array library. Rows that
are not finite throughout are left out.
"""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, TABLE_ROWS, Kernel, library
from cmfast.kernels.cuda.geometry._keys import count_row_blocks
from cmfast.kernels.shared.geometry_columns import (
    DIGIT_ROWS,
    OVERFLOW_SCALE,
    Steps,
    carry_words,
    make_moment_steps,
    make_steps,
    split_digits,
)
from cmfast.kernels.shared.geometry_keys import NAMED_POSITIONS

PORTION_CELLS = 1 << 25  # cells per block of rows, for linear algebra
MOST_SAFE_EXPONENT = 400  # binary exponents beyond which squares may overflow or underflow float64

_REAL = (("float",), ("double",))
_RANGES = Kernel("geometry/columns", "cmfast_column_ranges_blocks", _REAL)
_MOMENTS = Kernel("geometry/columns", "cmfast_column_moments_blocks", _REAL)
KERNELS = (_RANGES, _MOMENTS)


def _contiguous(X: Any) -> Any:
    """Return points contiguous in float32 or float64."""
    return library(X).ascontiguousarray(batches.as_floating(X))


def column_ranges(X: Any, *, num_threads: int | None = None) -> tuple[Any, Any, int]:
    """Return ``(low, high, n_rows)``: minima and maxima (inf, -inf without rows), finite rows; synchronises."""
    del num_threads
    xp, (n, m) = library(X), X.shape
    rows = count_row_blocks(n)
    low, high, kept = xp.empty((rows, m), np.int64), xp.empty((rows, m), np.int64), xp.empty(rows, np.uint64)
    if n:
        X = _contiguous(X)
        _RANGES.launch(
            (NAMES[X.dtype],), rows, shared=TABLE_ROWS, X=X, n=n, m=m, out_low=low, out_high=high, out_kept=kept
        )
    number = int(kept.sum())
    if not number:
        nothing = xp.zeros(m, np.float64)
        return nothing + np.inf, nothing - np.inf, 0
    return _decode_ordered_keys(low.min(axis=0)), _decode_ordered_keys(high.max(axis=0)), number


def _decode_ordered_keys(ordered: Any) -> Any:
    """Return the float64 values of order-preserving integer keys."""
    return (ordered ^ (ordered >> 63 & np.iinfo(np.int64).max)).view(np.float64)


def column_moments(X: Any, *, low: tuple[float, ...], high: tuple[float, ...], num_threads: int | None = None) -> Any:
    """Return sums of u, the 20-bit positions of finite rows in their range, and of u*u (quotient, rest of 2**32)."""
    del num_threads
    xp, (n, m) = library(X), X.shape
    power, least, scale = make_moment_steps(np.array(low), np.array(high))
    if power is not None:  # rare, so a copy is acceptable
        X = X.astype(np.float64) * xp.asarray(power)
    rows = count_row_blocks(n)
    first, second = xp.empty((rows, m), np.uint64), xp.empty((rows, m), np.uint64)
    if n:
        X = _contiguous(X)
        _MOMENTS.launch(
            (NAMES[X.dtype],), rows, shared=TABLE_ROWS,
            X=X, n=n, m=m, low=xp.asarray(least), scale=xp.asarray(scale), out_first=first, out_second=second,
        )  # fmt: skip
    lower = (second & 0xFFFFFFFF).sum(axis=0)  # the sum of u*u over all blocks may exceed 64 bits
    out = xp.empty((3, m), np.int64)
    out[0] = first.sum(axis=0)
    out[1] = (second >> 32).sum(axis=0) + (lower >> 32)
    out[2] = lower & 0xFFFFFFFF
    return out


def column_products(X: Any, *, low: tuple[float, ...], high: tuple[float, ...]) -> Any:
    """Return (2, 1 + 2 m, 1 + 2 m) int64: exact sums of products of digits."""
    xp, (n, m) = library(X), X.shape
    steps, size = Steps(*map(xp.asarray, make_steps(np.array(low), np.array(high)))), 1 + 2 * m
    out = xp.zeros((2, size, size), np.int64)
    together = DIGIT_ROWS * max(PORTION_CELLS // (DIGIT_ROWS * size), 1)
    for start in range(0, n, together):
        block = X[start : start + together].astype(np.float64)
        finite = xp.isfinite(block).all(axis=1)[:, None]
        lines = xp.zeros((-(-len(block) // DIGIT_ROWS) * DIGIT_ROWS, size))
        used = lines[: len(block)]
        used[:, :1] = finite
        high_digits, low_digits = split_digits(xp.where(finite, block, 0.0), steps)
        used[:, 1 : 1 + m] = xp.where(finite, high_digits, 0.0)
        used[:, 1 + m :] = xp.where(finite, low_digits, 0.0)
        lines = lines.reshape(-1, DIGIT_ROWS, size)
        sums = (lines.swapaxes(1, 2) @ lines).astype(np.int64)
        out[0] += (sums >> 32).sum(axis=0)
        out[1] += (sums & 0xFFFFFFFF).sum(axis=0)
    carry_words(out)
    return out


def column_quartiles(X: Any) -> Any:
    """Return (2, m) float64: lower and upper quartile of the finite rows, interpolated linearly; synchronises."""
    xp, X = library(X), batches.as_floating(X)
    rows = xp.flatnonzero(xp.isfinite(X).all(axis=1))
    n, m = len(rows), X.shape[1]
    out = xp.zeros((2, m), np.float64) + np.nan
    for d in range(m if n else 0):
        x = X[:, d][rows]
        x.sort()  # before conversion to float64: float32 sorts in half the passes
        for k in (1, 3):
            p, rest = divmod(k * (n - 1), 4)
            below, above = x[p].astype(np.float64), x[min(p + 1, n - 1)].astype(np.float64)
            out[k // 2, d] = below + (above - below) * (rest / 4)
    return out


def _iterate_blocks(X: Any) -> Any:
    """Yield ``(slice, rows in float64, mask of finite rows)`` of blocks of rows, in order."""
    rows = max(PORTION_CELLS // max(X.shape[1], 1), 1)
    for start in range(0, len(X), rows):
        part = slice(start, min(start + rows, len(X)))
        block = X[part].astype(np.float64)
        yield part, block, library(X).isfinite(block).all(axis=1)


def _choose_factors(largest: float) -> list[float]:
    """Return powers of two whose product scales values of this magnitude near one; none if squares are safe."""
    exponent = math.frexp(largest)[1]
    if not largest > 0.0 or abs(exponent) <= MOST_SAFE_EXPONENT:
        return []
    return [2.0 ** (-exponent // 2), 2.0 ** (-exponent - -exponent // 2)]


def _scale_block(block: Any, factors: list[float]) -> Any:
    """Return a block times all factors."""
    for factor in factors:
        block = block * factor
    return block


def pca(X: Any, *, n_components: int, precision: str = "float64", num_threads: int | None = None) -> tuple[Any, ...]:
    """Return ``(mean, components, ratio), n_dropped, first_dropped``: principal axes and variance shares; synchronises.

    Products are float64 for any `precision`.
    """
    del precision, num_threads
    xp, n = library(X), X.shape[1]
    total, found, largest = xp.zeros(n, np.float64), [], 0.0
    for _, block, finite in _iterate_blocks(X):
        kept = xp.where(finite[:, None], block, 0.0)
        total = total + kept.sum(axis=0)
        largest = max(largest, float(abs(kept).max()))  # synchronises
        found.append(finite)
    factors = _choose_factors(largest)
    if factors:
        total = xp.zeros(n, np.float64)
        for _, block, finite in _iterate_blocks(X):
            total = total + xp.where(finite[:, None], _scale_block(block, factors), 0.0).sum(axis=0)
    bad = xp.flatnonzero(xp.concatenate(found) == 0) if found else xp.zeros(0, np.int64)
    count = len(X) - len(bad)
    dropped = len(bad), tuple(bad[:NAMED_POSITIONS].tolist())
    mean = total / count if count else total + np.nan
    scatter = xp.zeros((n, n), np.float64)
    for _, block, finite in _iterate_blocks(X):
        centred = xp.where(finite[:, None], _scale_block(block, factors) - mean, 0.0)
        scatter = scatter + centred.T @ centred
    if not count:
        return mean, xp.zeros((n_components, n), np.float64) + np.nan, xp.zeros(n_components) + np.nan, *dropped
    mean = _scale_block(mean, [1.0 / factor for factor in factors])
    values, vectors = xp.linalg.eigh(scatter)
    values, vectors = xp.where(values > 0.0, values, 0.0)[::-1], vectors[:, ::-1]
    components = xp.ascontiguousarray(vectors[:, :n_components].T)
    largest = components[xp.arange(n_components), abs(components).argmax(axis=1)]
    components = components * xp.where(largest < 0, -1.0, 1.0)[:, None]
    whole = values.sum()
    ratio = xp.where(whole > 0, values[:n_components] / xp.where(whole > 0, whole, 1.0), 0.0)
    return mean, components, ratio, *dropped


def project(X: Any, mean: Any, components: Any, *, num_threads: int | None = None) -> Any:
    """Return ``(X - mean) @ components.T`` in float64, block by block; a row that is not finite becomes NaN."""
    del num_threads
    xp = library(X)
    out = xp.empty((len(X), len(components)), np.float64)
    for part, block, finite in _iterate_blocks(X):
        near = (block - mean) @ components.T
        # Intermediate sums may overflow although the result is finite.
        far = (block / OVERFLOW_SCALE - mean / OVERFLOW_SCALE) @ components.T * OVERFLOW_SCALE
        out[part] = xp.where(finite[:, None], xp.where(xp.isfinite(near).all(axis=1)[:, None], near, far), np.nan)
    return out
