"""How far off cells may be whose rows and columns have their sums to so many digits.

A change of the weights that leaves all sums nearly as they are is what sums do not show. Its size is bounded by the
smallest eigenvalue of the second derivative, the diagonal scaled to one, but for changes that leave all cells as they
are. That derivative along d is the sum over cells of ``(d[i] + d[j])**2``; over a triangle that is at least
``d[i]**2 + d[j]**2 + d[k]**2``, so triangles that cover all bins bound it. Where there are none it is estimated.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast.kernels.shared.scaling import UNIT_ROUNDOFF

TRIANGLE_PIXELS = 16  # pixels of a row that may be the sides of its triangle
EIGENVALUE_PROBES = 2


def by_triangles(passes: Any, x: Any, r: Any) -> float:
    """Return a bound from below of the smallest eigenvalue; 0 where triangles do not cover all bins."""
    n = passes.n
    if passes.shift:
        return 0.0
    weights, second, third = passes.triangles(x)
    found = np.flatnonzero(weights)
    if not len(found):
        uses = 1
    else:  # a side is one of its own bins' triangles, and the far side of some others'
        far = np.sort(second[found] * n + third[found])
        changes = np.flatnonzero(np.concatenate([[True], far[1:] != far[:-1], [True]]))
        uses = 1 + int(np.diff(changes).max())
    cover = 2.0 * passes.diagonal * x * x
    for place in (found, second[found], third[found]):
        cover += np.bincount(place, weights[found] / uses, n)
    return float((cover / r).min())


def by_probes(passes: Any, solve: Callable[[Any], tuple[Any, float]], x: Any, r: Any) -> tuple[float, float]:
    """Return an estimate of the smallest eigenvalue, and of how far rounding the sums once moves a cell.

    By solving for random signs, without what no change of weights can bring about.
    """
    component, sign = passes.colours()
    size = np.bincount(component, r, passes.n)
    random = np.random.default_rng(0)
    least, moved = math.inf, 0.0
    for _ in range(EIGENVALUE_PROBES):
        g = r * (2.0 * random.integers(0, 2, len(r)) - 1.0)
        g -= r * sign * (np.bincount(component, sign * g, passes.n) / np.where(size > 0.0, size, 1.0))[component]
        d, seen = solve(g)
        least, moved = min(least, seen), max(moved, 2.0 * UNIT_ROUNDOFF * float(np.abs(d).max()))
    return least, moved
