"""What is asked of the columns of a table of points: ranges, moments, quartiles, principal components.

Sums are integers or run over blocks of rows in a fixed order, so nothing depends on threads. Rows that are not finite
throughout take part in nothing.
"""

import numpy as np
import scipy.linalg

from cmfast.kernels.cpu._core import pool, row_blocks
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _ranges

STEPS = 2.0**20  # between the smallest and the largest value of a column
EXACT_ROWS = 1 << 13  # sums of this many squares of 20-bit integers are exact in float64
PIECE_ROWS = 1 << 21  # sums of this many of them stay below 2**63
NARROW, POWER = 2.0**-960, 2.0**900  # ranges below which columns are multiplied, exactly, by a power of two
AWAY, AWAY_POWER = 2.0**64, 64  # room for any sum of coordinates
FAR = 400  # powers of two from one beyond which squares might leave float64


def column_ranges(X, *, num_threads=None):
    """Return ``(low, high, n_rows)``: extremes per column (inf, -inf without rows), rows that are finite throughout."""
    return _ranges.column_ranges(X, num_threads)


@jit()
def _moments(X, low, scale, sums, lanes):
    """Add the sums of u and u*u to the int64 `sums`, u the integer position of a value in its column."""
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
    """Return (3, m) int64: sums of u, and of u*u as quotient and remainder of 2**32.

    ``u = rint((x - low) * 2**20 / (high - low))``, 0 where the column is constant.
    """
    n, m = X.shape
    low, high = np.array(low), np.array(high)
    if ((high > low) & (high - low < NARROW)).any():  # the steps to a unit would be beyond float64; rare, so copied
        power = np.where(high - low < NARROW, POWER, 1.0)
        X, low, high = X * power, low * power, high * power
    with np.errstate(divide="ignore"):
        scale = np.where(high > low, STEPS / (high - low), 0.0)
    bounds = [(i, min(i + PIECE_ROWS, n)) for i in range(0, n, PIECE_ROWS)]
    seconds = n * m * 2 * _ranges.SECONDS_PER_COORDINATE
    bounds = max(bounds, pool.pieces(n, seconds), key=len) if n else []
    sums = np.zeros((len(bounds), 2, m), np.int64)

    def work(i, start, stop):
        for _, block in row_blocks.contiguous(X, start, stop):
            _moments(block, low, scale, sums[i], np.zeros((2, m)))

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    first, second = sums.astype(object).sum(axis=0) if len(bounds) else np.zeros((2, m), object)
    return np.array([first, second >> 32, second & 0xFFFFFFFF], np.int64)


def column_quartiles(X):
    """Return (2, m) float64: lower and upper quartile, interpolated linearly between order statistics."""
    n, m = X.shape
    rows = np.ones(n, bool)
    for first, block in row_blocks.contiguous(X, 0, n):
        rows[first : first + len(block)] = np.isfinite(block).all(axis=1)
    out = np.full((2, m), np.nan)
    n = int(rows.sum())
    if n == 0:
        return out
    places = [(k * (n - 1)) // 4 for k in (1, 3)]
    wanted = sorted({min(p + step, n - 1) for p in places for step in (0, 1)})
    for d in range(m):
        x = X[:, d][rows].astype(np.float64)
        x.partition(wanted)
        for k, p in zip((1, 3), places, strict=True):
            below, above = x[p], x[min(p + 1, n - 1)]
            out[k // 2, d] = below + (above - below) * ((k * (n - 1)) % 4 / 4)
    return out


def _finite_blocks(X, power=0):
    """Blocks of rows in float64 times ``2**power``, in order, without the rows that are not finite."""
    for first in range(0, len(X), row_blocks.ROWS):
        block = X[first : first + row_blocks.ROWS].astype(np.float64)
        finite = np.isfinite(block).all(axis=1)
        block = block if finite.all() else block[finite]
        yield first, finite, np.ldexp(block, power) if power else block


def _power(largest):
    """Return the power of two that brings numbers of this magnitude near one, 0 where their squares are harmless."""
    exponent = int(np.frexp(largest)[1])
    return -exponent if largest > 0.0 and abs(exponent) > FAR else 0


def pca(X, *, n_components):
    """Return ``(mean, components, ratio), n_dropped, first_dropped``; the covariance is summed block by block."""
    n = X.shape[1]
    count, dropped, total, largest = 0, [], np.zeros(n), 0.0
    for first, finite, block in _finite_blocks(X):
        count += len(block)
        with np.errstate(over="ignore", invalid="ignore"):  # then it is summed again
            total += block.sum(axis=0)
        largest = max(largest, block.max(initial=0.0), -block.min(initial=0.0))
        dropped.extend(first + np.flatnonzero(~finite))
    power = _power(largest)
    if power:
        total = sum(block.sum(axis=0) for *_, block in _finite_blocks(X, power))
    mean = total / count if count else np.full(n, np.nan)
    scatter = np.zeros((n, n), order="F")
    for _, _, block in _finite_blocks(X, power):
        if len(block):
            np.subtract(block, mean, out=block)
            scatter = scipy.linalg.blas.dsyrk(1.0, block.T, beta=1.0, c=scatter, overwrite_c=1)
    if not count:
        nothing = np.full((n_components, n), np.nan), np.full(n_components, np.nan)
        return mean, *nothing, len(dropped), tuple(map(int, dropped[:3]))
    mean = np.ldexp(mean, -power)
    values, vectors = scipy.linalg.eigh(scatter, lower=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    components = vectors[:, :n_components].T.copy()
    largest = np.abs(components).argmax(axis=1)
    components *= np.where(components[np.arange(n_components), largest] < 0, -1.0, 1.0)[:, None]
    whole = values.sum()
    ratio = values[:n_components] / whole if whole > 0 else np.zeros(n_components)
    return mean, components, ratio, len(dropped), tuple(map(int, dropped[:3]))


def project(X, mean, components, *, num_threads=None):
    """Return ``(X - mean) @ components.T`` in float64, block by block; a row that is not finite becomes NaN."""
    out = np.empty((len(X), len(components)))
    axes = components.T

    def work(_, start, stop):
        for first in range(start, stop, row_blocks.ROWS):
            block = X[first : min(first + row_blocks.ROWS, stop)].astype(np.float64)
            finite = np.isfinite(block).all(axis=1)
            with np.errstate(invalid="ignore", over="ignore"):
                part = (block - mean) @ axes
                far = finite & ~np.isfinite(part).all(axis=1)
                if far.any():  # what is between may be too large where the result is not
                    part[far] = np.ldexp((block[far] / AWAY - mean / AWAY) @ axes, AWAY_POWER)
            part[~finite] = np.nan
            out[first : first + len(block)] = part

    seconds = X.size * len(components) * 1e-10
    bounds = pool.pieces(len(X), seconds, tile=row_blocks.ROWS)
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return out
