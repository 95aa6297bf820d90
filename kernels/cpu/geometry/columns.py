"""Column statistics of point tables: ranges, moments, quartiles, products, principal components and projections.

Sums are integers or run over blocks of rows in a fixed order, so results do not depend on threads. Rows that are not
finite throughout are left out.
"""

import numpy as np
import scipy.linalg

from cmfast.kernels.cpu._core import pool, row_blocks
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _projection, _ranges, _scatter
from cmfast.kernels.shared.geometry_columns import DIGIT_ROWS, carry_words, make_moment_steps, make_steps, split_digits
from cmfast.kernels.shared.geometry_keys import NAMED_POSITIONS

EXACT_ROWS = 1 << 13  # sums of this many squares of 20-bit integers are exact in float64
MOST_SUMMED_ROWS = 1 << 21  # sums of this many such squares stay below 2**63
SECONDS_PER_PRODUCT = 4e-11
# Least share of the variance of an axis computed from float32 products: these have an error of at most 1e-7 of the
# total variance, so that the variance of the axis has a relative error of at most 1e-3.
LEAST_SHARE = 1e-4


def column_ranges(X, *, num_threads=None):
    """Return ``(low, high, n_rows)``: minima and maxima (inf, -inf without rows), and the number of finite rows."""
    return _ranges.column_ranges(X, num_threads)


@jit(borrows=True)
def _add_moments(X, low, scale, sums, lanes):
    """Add the sums of u and u*u to the int64 `sums`, u being the integer position of a value in its column's range."""
    m = low.shape[0]
    for begin in range(0, X.shape[0], EXACT_ROWS):
        for r in range(begin, min(begin + EXACT_ROWS, X.shape[0])):
            finite = True
            for d in range(m):
                finite = finite and np.isfinite(X[r, d])
            if finite:
                for d in range(m):
                    u = np.rint((np.float64(X[r, d]) - low[d]) * scale[d])
                    lanes[0, d] += u
                    lanes[1, d] += u * u
        for k in range(2):
            for d in range(m):
                sums[k, d] += np.int64(lanes[k, d])
                lanes[k, d] = 0.0


def column_moments(X, *, low, high, num_threads=None):
    """Return sums of u, the 20-bit positions of finite rows in their range, and of u*u (quotient, remainder of 2**32).

    ``u = rint((x - low) * 2**20 / (high - low))``, 0 where the column is constant.
    """
    n, m = X.shape
    power, low, scale = make_moment_steps(np.array(low), np.array(high))
    if power is not None:  # rare, so a copy is acceptable
        X = X * power
    bounds = [(i, min(i + MOST_SUMMED_ROWS, n)) for i in range(0, n, MOST_SUMMED_ROWS)]
    seconds = n * m * 2 * _ranges.SECONDS_PER_RANGE_COORDINATE
    bounds = max(bounds, pool.pieces(n, seconds), key=len) if n else []
    sums = np.zeros((len(bounds), 2, m), np.int64)

    def work(i, start, stop):
        """Add the moments of one piece."""
        for _, block in row_blocks.iterate_blocks(X, start, stop):
            _add_moments(block, low, scale, sums[i], np.zeros((2, m)))

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    first, second = sums.astype(object).sum(axis=0) if len(bounds) else np.zeros((2, m), object)
    return np.array([first, second >> 32, second & 0xFFFFFFFF], np.int64)


def column_products(X, *, low, high):
    """Return (2, 1 + 2 m, 1 + 2 m) int64: exact sums of products, as quotient and remainder of 2**32.

    The factors are 1, the upper digits and the lower digits of all columns between `low` and `high`.
    """
    m = X.shape[1]
    steps, size = make_steps(np.array(low), np.array(high)), 1 + 2 * m
    out, part = np.zeros((2, size, size), np.int64), np.zeros((size, size), order="F")
    buffer = np.ones((DIGIT_ROWS, size))
    for start in range(0, len(X), DIGIT_ROWS):
        pool.checkpoint()
        block = X[start : start + DIGIT_ROWS].astype(np.float64)
        block = block[np.isfinite(block).all(axis=1)]
        lines = buffer[: len(block)]
        lines[:, 1 : 1 + m], lines[:, 1 + m :] = split_digits(block, steps)
        if len(block):
            part = scipy.linalg.blas.dsyrk(1.0, lines.T, beta=0.0, c=part, overwrite_c=1)
            sums = part.astype(np.int64)
            out[0] += sums >> 32
            out[1] += sums & 0xFFFFFFFF
    lower = np.tri(size, k=-1, dtype=np.bool_)
    for words in out:  # only the upper triangle is filled so far
        words[lower] = words.T[lower]
    carry_words(out)
    return out


def column_quartiles(X):
    """Return (2, m) float64: lower and upper quartile of the finite rows, interpolated linearly."""
    n, m = X.shape
    rows = np.ones(n, bool)
    for first, block in row_blocks.iterate_blocks(X, 0, n):
        rows[first : first + len(block)] = np.isfinite(block).all(axis=1)
    out = np.full((2, m), np.nan)
    n = int(rows.sum())
    if n == 0:
        return out
    positions = [(k * (n - 1)) // 4 for k in (1, 3)]
    wanted = sorted({min(p + step, n - 1) for p in positions for step in (0, 1)})
    for d in range(m):
        x = X[:, d][rows].astype(np.float64)
        x.partition(wanted)
        for k, p in zip((1, 3), positions, strict=True):
            below, above = x[p], x[min(p + 1, n - 1)]
            out[k // 2, d] = below + (above - below) * ((k * (n - 1)) % 4 / 4)
    return out


def pca(X, *, n_components, precision="float64", num_threads=None):
    """Return ``(mean, components, ratio), n_dropped, first_dropped``: principal axes and their shares of the variance.

    `precision` is that of the products; "auto" takes float32 if it is accurate enough and saves time.
    """
    n = X.shape[1]
    # float32 products pay for many products of points that are float32 anyway.
    pays = precision == "auto" and X.dtype == np.float32 and _scatter.count_products(X) >= _scatter.MANY_PRODUCTS
    dtype = np.dtype(np.float32 if precision == "float32" or pays else np.float64)
    found = _scatter.find_centre(X, dtype, num_threads)
    left_out = found.dropped
    dropped = len(left_out), tuple(left_out[:NAMED_POSITIONS])
    if not found.number:
        return found.mean, np.full((n_components, n), np.nan), np.full(n_components, np.nan), *dropped
    scatter = _scatter.compute_scatter(X, found, dtype, num_threads)
    components, ratio = _find_principal_axes(scatter, n_components)
    if precision == "auto" and dtype == np.float32 and not ratio[-1] >= LEAST_SHARE:
        scatter = _scatter.compute_scatter(X, found, np.dtype(np.float64), num_threads)
        components, ratio = _find_principal_axes(scatter, n_components)
    return np.ldexp(found.mean, -found.power), components, ratio, *dropped


def _find_principal_axes(scatter, n_components):
    """Return the first principal axes and their variance shares, from the upper triangle of the scatter matrix."""
    values, vectors = scipy.linalg.eigh(scatter, lower=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    components = vectors[:, :n_components].T.copy()
    largest = np.abs(components).argmax(axis=1)
    components *= np.where(components[np.arange(n_components), largest] < 0, -1.0, 1.0)[:, None]
    whole = values.sum()
    return components, values[:n_components] / whole if whole > 0 else np.zeros(n_components)


def project(X, mean, components, *, num_threads=None):
    """Return ``(X - mean) @ components.T`` in float64; a row that is not finite becomes NaN.

    The bits of a row do not depend on the other rows.
    """
    n, m = X.shape[1], len(components)
    out = np.empty((len(X), m))
    lines = _projection.pad_to_lines(mean), _projection.pad_to_lines(components)

    def work(_, start, stop):
        """Project the rows of one piece, block by block."""
        workspace = _projection.new_workspace(n)
        for first, block in row_blocks.iterate_blocks(X, start, stop):
            seconds = block.size * m * SECONDS_PER_PRODUCT
            arrays = block, *lines, workspace, out[first : first + len(block)]
            pool.run(_projection.project, arrays, len(block), seconds=seconds)

    seconds = len(X) * n * m * SECONDS_PER_PRODUCT
    pool.run_pieces(work, pool.pieces(len(X), seconds), seconds=seconds, num_threads=num_threads)
    return out
