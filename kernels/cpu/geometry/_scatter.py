"""Sums over all points of the squares and products of their coordinates, in blocks that stay in cache."""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from cmfast.kernels.cpu._core import pool, row_blocks

SCATTER_BLOCK_NUMBERS = 1 << 20  # numbers of a block, about: fewer would let the threads of BLAS wait for each other
FEWEST_ROWS = 1 << 8
SECONDS_PER_SCATTER_COORDINATE = 1e-9
# Powers of two from one beyond which squares might leave the type of the products.
FAR = {np.dtype(np.float64): 400, np.dtype(np.float32): 30}


class Centre(NamedTuple):
    """What one pass over points tells of them.

    Attributes
    ----------
    number : int
        How many are finite throughout.
    finite : list of array of bool or None
        Which these are, block by block; None: all.
    mean : array of float64
        Of those that are, times ``2**power``; NaN without any.
    power : int
        Brings coordinates near one where their squares would leave the type of the products; else 0.
    bounds : list of (int, int)
        First and last row of every block.
    """

    number: int
    finite: list[Any]
    mean: np.ndarray
    power: int
    bounds: list[tuple[int, int]]

    @property
    def dropped(self) -> list[int]:
        """Which points are not finite throughout."""
        blocks = zip(self.bounds, self.finite, strict=True)
        return [start + int(k) for (start, _), rows in blocks if rows is not None for k in np.flatnonzero(~rows)]


def _bounds(n, m):
    """Return the blocks of `n` rows of `m` columns: their bounds depend on these numbers alone."""
    rows = min(max(SCATTER_BLOCK_NUMBERS // max(m, 1), FEWEST_ROWS), row_blocks.BLOCK_ROWS)
    return [(start, min(start + rows, n)) for start in range(0, n, rows)]


def _kept(block, finite):
    return block if finite is None else block[finite]


def _times(block, power):
    return np.ldexp(block, power) if power else block


def centre(X, dtype):
    """Return the :class:`Centre` of points whose products are to be of type `dtype`."""
    bounds = _bounds(*X.shape)
    totals, largest = np.zeros((len(bounds), X.shape[1])), np.zeros(len(bounds))
    finite: list[Any] = [None] * len(bounds)

    def rows_at(start, stop):  # one after another in memory: NumPy adds up columns of another layout in another order
        return np.ascontiguousarray(X[start:stop])

    def sum_block(i, start, stop):
        block = rows_at(start, stop)
        with np.errstate(over="ignore", invalid="ignore"):  # then it is summed again
            totals[i] = block.sum(axis=0, dtype=np.float64)
            if not np.isfinite(totals[i]).all():
                finite[i] = np.isfinite(block).all(axis=1)
                block = block[finite[i]]
                totals[i] = block.sum(axis=0, dtype=np.float64)
        largest[i] = max(float(block.max(initial=0)), -float(block.min(initial=0)))

    def sum_again(i, start, stop):
        totals[i] = _times(_kept(rows_at(start, stop), finite[i]).astype(np.float64), power).sum(axis=0)

    seconds = X.size * SECONDS_PER_SCATTER_COORDINATE
    pool.run_pieces(sum_block, bounds, seconds=seconds)
    power = _power(largest.max(initial=0.0), FAR[dtype])
    if power:
        pool.run_pieces(sum_again, bounds, seconds=seconds)
    number = len(X) - sum(int((~rows).sum()) for rows in finite if rows is not None)
    total = sum(totals, np.zeros(X.shape[1]))  # block after block
    return Centre(number, finite, total / number if number else np.full(X.shape[1], np.nan), power, bounds)


def _power(largest, far):
    """Return the power of two that brings numbers of this magnitude near one, 0 where their squares are harmless."""
    exponent = int(np.frexp(largest)[1])
    return -exponent if largest > 0.0 and abs(exponent) > far else 0


def scatter(X, found, dtype):
    """Return the upper triangle of the sum of ``outer(x - mean, x - mean)`` in float64, x times ``2**power``.

    Products are of type `dtype`, and so is their sum over one block. In float32 every entry (i, j) is off by about
    1e-7 of ``sqrt(s_ii s_jj)``, as of one rounding to float32.
    """
    n = X.shape[1]
    out = np.zeros((n, n), order="F")
    working = np.float32 if X.dtype == dtype == np.float32 else np.float64
    near = found.mean.astype(working)
    part = np.zeros((n, n), np.float32, order="F")
    size = max((stop - start for start, stop in found.bounds), default=0)
    room = np.empty((size, n), working)  # used again: fresh memory takes as long as the products
    for (start, stop), finite in zip(found.bounds, found.finite, strict=True):
        block = _kept(X[start:stop], finite)
        if not len(block):
            continue
        if found.power:
            block = np.ldexp(block.astype(working), found.power)
        block = np.subtract(block, near, out=room[: len(block)])
        if dtype == np.float64:
            out = scipy.linalg.blas.dsyrk(1.0, block.T, beta=1.0, c=out, overwrite_c=1)
        else:
            block = block.astype(np.float32, copy=False)
            part = scipy.linalg.blas.ssyrk(1.0, block.T, beta=0.0, c=part, overwrite_c=1)
            out += part
    shift = found.mean - near  # what rounding the mean has moved the points by
    out -= found.number * np.outer(shift, shift)
    return out
