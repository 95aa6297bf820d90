"""Minimum and maximum of coordinates, and of the grid indices of the cells that they fall into."""

import numpy as np

from cmfast.kernels.cpu._core import pool, row_blocks
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.geometry_keys import MOST_INDEX

SECONDS_PER_RANGE_COORDINATE = 8e-10
SIDE_BY_SIDE = 16  # rows that are read as one vector


@jit(borrows=True)
def _update_lane_ranges(flat, low, high, poison):
    """Update the minimum and maximum of every lane; `poison` becomes NaN in lanes with NaN or infinity."""
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
def _update_finite_ranges(X, low, high):
    """Update column minima and maxima over the rows that are finite throughout; return their number."""
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
def _update_index_ranges(X, origin, inverse, low, high):
    """Update minima and maxima of the grid indices over the rows that have a cell."""
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
    """Return minimum and maximum of each column over the finite rows, and the number of these rows."""
    n, m = X.shape
    bounds = pool.pieces(n, n * m * SECONDS_PER_RANGE_COORDINATE)
    low, high = np.full((len(bounds), m), np.inf), np.full((len(bounds), m), -np.inf)
    kept = np.zeros(len(bounds), np.int64)

    def work(i, start, stop):
        """Find the column ranges of one piece."""
        for _, block in row_blocks.iterate_blocks(X, start, stop):
            lanes = np.array([[np.inf], [-np.inf], [0.0]], block.dtype).repeat(SIDE_BY_SIDE * m, axis=1)
            _update_lane_ranges(block.reshape(-1), lanes[0], lanes[1], lanes[2])
            if np.isnan(lanes[2]).any():
                kept[i] += _update_finite_ranges(block, low[i], high[i])
            else:
                np.minimum(low[i], lanes[0].reshape(SIDE_BY_SIDE, m).min(axis=0), out=low[i])
                np.maximum(high[i], lanes[1].reshape(SIDE_BY_SIDE, m).max(axis=0), out=high[i])
                kept[i] += len(block)

    pool.run_pieces(work, bounds, seconds=n * m * SECONDS_PER_RANGE_COORDINATE, num_threads=num_threads)
    return low.min(axis=0), high.max(axis=0), int(kept.sum())


def find_index_ranges(points, num_threads=None, spread=None):
    """Return ``(low, extent, every)`` of the grid indices over the rows that have a cell.

    `every` is whether all rows have one. Rounding is monotone, so the smallest coordinate has the smallest index.
    `spread` has bounds of the coordinates and the number of finite rows, if these are known: then ranges are those of
    the bounds, and the points are not read unless some row has no cell.
    """
    X, origin, inverse = points[:3]
    n, m = X.shape
    if spread is not None and spread.n == n:
        low, high, kept = spread[:3]
    else:
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
            """Find the index ranges of one piece."""
            for _, block in row_blocks.iterate_blocks(X, start, stop):
                _update_index_ranges(block, origin, inverse, lows[i], highs[i])

        pool.run_pieces(work, bounds, seconds=n * m * SECONDS_PER_RANGE_COORDINATE, num_threads=num_threads)
        low, high = lows.min(axis=0), highs.max(axis=0)
    if not (low <= high).all():
        return (0,) * m, (0,) * m, every
    lowest = tuple(map(int, low))
    return lowest, tuple(int(b) - a + 1 for a, b in zip(lowest, high, strict=True)), every
