"""What intervals of every target are made of."""

from collections.abc import Sequence

import numpy as np

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
