"""Scatter matrix (sums of products of centred coordinates) for PCA, in blocks of rows that stay in cache.

Of many products by kernels on the threads of the pool (``_gram``); of fewer, for which compiling them would not pay, by
a BLAS on its own threads.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from cmfast.kernels.cpu._core import pool, row_blocks, vector
from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.panels import PANEL_BYTES, new_panels
from cmfast.kernels.cpu.geometry import _gram

SCATTER_BLOCK_NUMBERS = 1 << 20  # values per block, about: with fewer, BLAS threads wait for each other
FEWEST_ROWS = 1 << 8
SECONDS_PER_SCATTER_COORDINATE = 1e-9
KERNEL_PRODUCTS = 2.0**25  # products of coordinates, from which on kernels save milliseconds and may be compiled
MANY_PRODUCTS = 2.0**33  # from which on kernels take 0.1 s or more in float64
SECONDS_PER_SCATTER_PRODUCT = 2e-11
ROWS_PER_PART = 32  # at least, per column: the sums of all parts take a sixteenth of the memory of the points or less
KERNEL_TYPES = np.float32, np.float64
# Binary exponents beyond which squares may overflow or underflow the type of the products.
FAR = {np.dtype(np.float64): 400, np.dtype(np.float32): 30}


class Centre(NamedTuple):
    """Result of the first pass over points: finite rows, mean and scaling.

    Attributes
    ----------
    number : int
        Number of finite rows.
    finite : list of array of bool or None
        Mask of the finite rows of each block; None: all.
    mean : array of float64
        Mean of the finite rows, times ``2**power``; NaN without any.
    power : int
        Binary exponent that scales coordinates near one if squares would overflow or underflow; else 0.
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
        """Indices of the rows that are not finite."""
        blocks = zip(self.bounds, self.finite, strict=True)
        return [start + int(k) for (start, _), rows in blocks if rows is not None for k in np.flatnonzero(~rows)]


def _cut_blocks(n, m):
    """Return the row blocks of an n x m array; they depend on n and m alone."""
    rows = min(max(SCATTER_BLOCK_NUMBERS // max(m, 1), FEWEST_ROWS), row_blocks.BLOCK_ROWS)
    return [(start, min(start + rows, n)) for start in range(0, n, rows)]


def _select_finite(block, finite):
    """Return the finite rows of a block."""
    return block if finite is None else block[finite]


def _scale_block(block, power):
    """Return a block times ``2**power``."""
    return np.ldexp(block, power) if power else block


def count_products(X):
    """Return the number of products of two coordinates of the same point, in all points."""
    return len(X) * X.shape[1] ** 2


def find_centre(X, dtype, num_threads=None):
    """Return mean, finite rows and scaling of points whose products are to be of type `dtype`."""
    bounds = _cut_blocks(*X.shape)
    totals, largest = np.zeros((len(bounds), X.shape[1])), np.zeros(len(bounds))
    finite: list[Any] = [None] * len(bounds)
    has_kernel = count_products(X) >= KERNEL_PRODUCTS and X.dtype in KERNEL_TYPES
    places = _gram.find_places(X.shape[1], vector.WIDTH)

    def rows_at(start, stop):  # C-contiguous: NumPy sums columns of other layouts in another order
        """Return some rows, C-contiguous."""
        return np.ascontiguousarray(X[start:stop])

    def sum_block(i, start, stop):
        """Sum the columns of a block over its finite rows, and find its largest magnitude."""
        block = rows_at(start, stop)
        if has_kernel:
            sums = np.zeros((-(-X.shape[1] // vector.WIDTH), vector.WIDTH))
            largest[i] = _gram.sum_columns(freeze(block), sums)
            totals[i] = sums.ravel()[places]
            if np.isfinite(totals[i]).all():
                return
        with np.errstate(over="ignore", invalid="ignore"):  # then it is summed again
            totals[i] = block.sum(axis=0, dtype=np.float64)
            if not np.isfinite(totals[i]).all():
                finite[i] = np.isfinite(block).all(axis=1)
                block = block[finite[i]]
                totals[i] = block.sum(axis=0, dtype=np.float64)
        largest[i] = max(float(block.max(initial=0)), -float(block.min(initial=0)))

    def sum_again(i, start, stop):
        """Sum the columns of a block in scaled coordinates."""
        totals[i] = _scale_block(_select_finite(rows_at(start, stop), finite[i]).astype(np.float64), power).sum(axis=0)

    seconds = X.size * SECONDS_PER_SCATTER_COORDINATE
    pool.run_pieces(sum_block, bounds, seconds=seconds, num_threads=num_threads)
    power = _choose_power(largest.max(initial=0.0), FAR[dtype])
    if power:
        pool.run_pieces(sum_again, bounds, seconds=seconds, num_threads=num_threads)
    number = len(X) - sum(int((~rows).sum()) for rows in finite if rows is not None)
    total = sum(totals, np.zeros(X.shape[1]))  # block after block
    return Centre(number, finite, total / number if number else np.full(X.shape[1], np.nan), power, bounds)


def _choose_power(largest, far):
    """Return the binary exponent that scales values of this magnitude near one, 0 if their squares are safe."""
    exponent = int(np.frexp(largest)[1])
    return -exponent if largest > 0.0 and abs(exponent) > far else 0


def compute_scatter(X, found, dtype, num_threads=None):
    """Return the upper triangle of the scatter matrix, the sum of ``outer(x - mean, x - mean)``, in float64.

    Points are scaled by ``2**power``. Products and their sums over a block are of type `dtype`; in float32 the error of
    entry (i, j) is about 1e-7 of ``sqrt(s_ii s_jj)``, like one rounding to float32.
    """
    working = np.float32 if X.dtype == dtype == np.float32 else np.float64
    near = found.mean.astype(working)
    if count_products(X) >= KERNEL_PRODUCTS:
        out = _sum_in_parts(X, found, near, dtype, num_threads)
    else:
        out = _sum_by_blas(X, found, near, dtype)
    shift = found.mean - near  # rounding error of the mean
    out -= found.number * np.outer(shift, shift)
    return out


def _sum_by_blas(X, found, near, dtype):
    """Return the upper triangle of the sums of products of the points minus `near`, by a BLAS."""
    n = X.shape[1]
    out = np.zeros((n, n), order="F")
    part = np.zeros((n, n), np.float32, order="F")
    size = max((stop - start for start, stop in found.bounds), default=0)
    buffer = np.empty((size, n), near.dtype)  # reused: fresh memory takes as long as the products
    for (start, stop), finite in zip(found.bounds, found.finite, strict=True):
        block = _select_finite(X[start:stop], finite)
        if not len(block):
            continue
        if found.power:
            block = np.ldexp(block.astype(near.dtype), found.power)
        block = np.subtract(block, near, out=buffer[: len(block)])
        if dtype == np.float64:
            out = scipy.linalg.blas.dsyrk(1.0, block.T, beta=1.0, c=out, overwrite_c=1)
        else:
            block = block.astype(np.float32, copy=False)
            part = scipy.linalg.blas.ssyrk(1.0, block.T, beta=0.0, c=part, overwrite_c=1)
            out += part
    return out


def _sum_in_parts(X, found, near, dtype, num_threads):
    """Return the upper triangle of the sums of products of the points minus `near`, on the threads of the pool.

    The points are cut into parts by their shape alone, and the sums of parts are added in order. Where threads
    outnumber parts, several work on each part, and sum products of different columns.
    """
    N, n = X.shape
    blocks = list(zip(found.bounds, found.finite, strict=True))
    seconds = count_products(X) * SECONDS_PER_SCATTER_PRODUCT
    cuts = pool.pieces(len(blocks), seconds, most=max(1, min(pool.MAX_PIECES, N // (ROWS_PER_PART * n))))
    width = PANEL_BYTES // dtype.itemsize
    panels = -(-n // width)
    parts = [np.zeros((panels * width, panels * width)) for _ in cuts]
    stripes = _gram.cut_panels(panels, -(-(num_threads or pool.cpu_count()) // len(cuts)))
    jobs = list(product(range(len(cuts)), stripes))

    def sum_products(i, *_):
        """Sum the products of some blocks, for some columns."""
        part, (begin, end) = jobs[i]
        packed = new_panels(n, _gram.PACKED_ROWS, dtype)[:end]
        for (start, stop), finite in blocks[slice(*cuts[part])]:
            pool.checkpoint()
            block, low = _select_finite(X[start:stop], finite), near
            if found.power or X.dtype not in KERNEL_TYPES:
                block = _scale_block(block.astype(near.dtype), found.power)
            if near.dtype != dtype:
                block, low = (block - near).astype(dtype), np.zeros(n, dtype)
            _gram.add_products(freeze(np.ascontiguousarray(block)), freeze(low), packed, begin, parts[part])

    pool.run_pieces(sum_products, [(i, i + 1) for i in range(len(jobs))], seconds=seconds, num_threads=num_threads)
    out = parts[0]
    for sums in parts[1:]:
        out += sums
    places = _gram.find_places(n, width)
    return out[np.ix_(places, places)]
