"""Ranges of coordinates, and of the indices of the cells that they fall into."""

import numpy as np

from cmfast.kernels.cpu._core import pool, row_blocks
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.geometry_keys import MOST_INDEX

SECONDS_PER_RANGE_COORDINATE = 8e-10
SIDE_BY_SIDE = 16  # rows that the search for the range reads as one vector


@jit(borrows=True)
def _range_of_lanes(flat, low, high, poison):
    """Extremes per lane; a lane of `poison` becomes NaN when it meets a NaN or an infinity."""
    lanes = low.shape[0]
    whole = flat.shape[0] // lanes
    for t in range(whole):
        row = flat[t * lanes : (t + 1) * lanes]
        for k in range(lanes):
            x = row[k]
            low[k] = x if x < low[k] else low[k]
            high[k] = x if x > high[k] else high[k]
            poison[k] += x - x
    rest = flat[whole * lanes :]
    for k in range(rest.shape[0]):
        x = rest[k]
        low[k] = x if x < low[k] else low[k]
        high[k] = x if x > high[k] else high[k]
        poison[k] += x - x


@jit(borrows=True)
def _range_of_finite(X, low, high):
    """Extremes over the rows that are finite throughout; return how many these are."""
    kept = 0
    for r in range(X.shape[0]):
        finite = True
        for d in range(X.shape[1]):
            finite = finite and np.isfinite(X[r, d])
        if finite:
            kept += 1
            for d in range(X.shape[1]):
                x = np.float64(X[r, d])
                low[d] = min(low[d], x)
                high[d] = max(high[d], x)
    return kept


@jit(borrows=True)
def _range_of_indices(X, origin, inverse, low, high):
    """Extremes of the indices over the rows that have a cell."""
    for r in range(X.shape[0]):
        kept = True
        for d in range(X.shape[1]):
            kept = kept and abs((np.float64(X[r, d]) - origin[d]) * inverse[d]) < MOST_INDEX
        if kept:
            for d in range(X.shape[1]):
                k = np.floor((np.float64(X[r, d]) - origin[d]) * inverse[d])
                low[d] = min(low[d], k)
                high[d] = max(high[d], k)


def column_ranges(X, num_threads=None):
    """Smallest and largest value per column over the rows that are finite throughout, and the number of such rows."""
    n, m = X.shape
    bounds = pool.pieces(n, n * m * SECONDS_PER_RANGE_COORDINATE)
    low, high = np.full((len(bounds), m), np.inf), np.full((len(bounds), m), -np.inf)
    kept = np.zeros(len(bounds), np.int64)

    def work(i, start, stop):
        for _, block in row_blocks.iterate_blocks(X, start, stop):
            lanes = np.array([[np.inf], [-np.inf], [0.0]], block.dtype).repeat(SIDE_BY_SIDE * m, axis=1)
            _range_of_lanes(block.reshape(-1), lanes[0], lanes[1], lanes[2])
            if np.isnan(lanes[2]).any():
                kept[i] += _range_of_finite(block, low[i], high[i])
            else:
                np.minimum(low[i], lanes[0].reshape(SIDE_BY_SIDE, m).min(axis=0), out=low[i])
                np.maximum(high[i], lanes[1].reshape(SIDE_BY_SIDE, m).max(axis=0), out=high[i])
                kept[i] += len(block)

    pool.run_pieces(work, bounds, seconds=n * m * SECONDS_PER_RANGE_COORDINATE, num_threads=num_threads)
    return low.min(axis=0), high.max(axis=0), int(kept.sum())


def index_ranges(points, num_threads=None):
    """Return ``(low, extent, every)`` over the rows that have a cell; `every`: whether that is all of them.

    Rounding is monotone, so the index of the smallest coordinate is the smallest index.
    """
    X, origin, inverse = points[:3]
    n, m = X.shape
    low, high, kept = column_ranges(X, num_threads)
    with np.errstate(invalid="ignore", over="ignore"):
        first, last = (low - origin) * inverse, (high - origin) * inverse
    every = kept == n and (n == 0 or bool((np.abs(first) < MOST_INDEX).all() and (np.abs(last) < MOST_INDEX).all()))
    if every:
        low, high = np.floor(first), np.floor(last)
    else:
        bounds = pool.pieces(n, n * m * SECONDS_PER_RANGE_COORDINATE)
        lows, highs = np.full((len(bounds), m), np.inf), np.full((len(bounds), m), -np.inf)

        def work(i, start, stop):
            for _, block in row_blocks.iterate_blocks(X, start, stop):
                _range_of_indices(block, origin, inverse, lows[i], highs[i])

        pool.run_pieces(work, bounds, seconds=n * m * SECONDS_PER_RANGE_COORDINATE, num_threads=num_threads)
        low, high = lows.min(axis=0), highs.max(axis=0)
    if not (low <= high).all():
        return (0,) * m, (0,) * m, every
    lowest = tuple(map(int, low))
    return lowest, tuple(int(b) - a + 1 for a, b in zip(lowest, high, strict=True)), every
