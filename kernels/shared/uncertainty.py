"""What intervals and comparisons of every target are made of."""

from collections.abc import Sequence
from typing import Any

import numpy as np

SPARSE = 4  # sums for each number that is added, from which on only those are touched that change
ROUNDING = 1e-28  # what is left of the square of a number that no sample changes: it has no direction


def acceleration(without: np.ndarray, weights: np.ndarray, strata: Sequence[slice]) -> np.ndarray:
    """Return the acceleration of BCa from numbers without one unit of each kind, shape (..., u).

    There are `weights` units of every kind, which lie in `strata`: each has a mean of its own (Davison and Hinkley
    1997, 5.3). Numbers that are undefined without a unit are left out.
    """
    squares, cubes, largest = (np.zeros(without.shape[:-1]) for _ in range(3))
    for stratum in strata:
        x, w = without[..., stratum], weights[stratum]
        known = np.isfinite(x)
        count = (w * known).sum(-1)
        mean = (w * np.where(known, x, 0.0)).sum(-1) / np.where(count > 0, count, 1.0)
        away = np.where(known, mean[..., np.newaxis] - x, 0.0)
        largest = np.maximum(largest, mean * mean)
        squares = squares + (w * away**2).sum(-1)
        cubes = cubes + (w * away**3).sum(-1)
    bent = squares > ROUNDING * np.maximum(1.0, largest)
    return np.asarray(np.where(bent, cubes / (6.0 * np.where(bent, squares, 1.0) ** 1.5), 0.0))


def add_cells(sums: np.ndarray, cells: Any, row: np.ndarray, counts: np.ndarray) -> None:
    """Add counts of cells (truth, first, second) to sums in place, shape (n_sums, rows, 2, C).

    The sums are the diagonal, rows and columns and, if there are five, those by distance and by the larger class. What
    is added to one of them stays below 2**53.
    """
    y, *both = cells
    n, C = sums.shape[1], sums.shape[3]
    found, more = [], []
    for side, guess in enumerate(both):
        right = y == guess
        start = (2 * row + side) * C
        found += [start[right] + y[right], start + y, start + guess]
        more += [counts[right], counts, counts]
        if len(sums) == 5:
            found += [start + np.abs(y - guess), start + np.maximum(y, guess)]
            more += [counts, counts]
    size = 2 * n * C
    sizes = [len(at) for at in found]
    index = np.concatenate(found) + size * np.repeat([*range(len(sums))] * 2, sizes)
    if sums.size > SPARSE * len(index):
        np.add.at(sums, np.unravel_index(index, sums.shape), np.concatenate(more))
    else:
        sums += np.bincount(index, np.concatenate(more), sums.size).astype(np.int64).reshape(sums.shape)
