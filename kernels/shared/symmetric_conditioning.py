"""Bounds of the errors of cells whose rows and columns meet their sums to a tolerance, by the least eigenvalue.

A change of the weights that barely changes any sum goes unnoticed. Its size is bounded by the smallest nonzero
eigenvalue of the Hessian, scaled to a unit diagonal. The Hessian along d is the sum over cells of ``(d[i] + d[j])**2``;
over a triangle that is at least ``d[i]**2 + d[j]**2 + d[k]**2``, so triangles that cover all bins bound it. Otherwise
it is estimated.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast.kernels.shared.scaling import UNIT_ROUNDOFF

TRIANGLE_PIXELS = 16  # pixels of a row that may be the sides of its triangle
EIGENVALUE_PROBES = 2


def bound_eigenvalue_by_triangles(passes: Any, x: Any, r: Any) -> float:
    """Return a lower bound of the smallest eigenvalue; 0 where triangles do not cover all bins."""
    n = passes.n
    if passes.shift:
        return 0.0
    weights, second, third = passes.triangles(x)
    found = np.flatnonzero(weights)
    if not len(found):
        uses = 1
    else:  # a pixel is a side of its row's triangle, and the far side of some others'
        far = np.sort(second[found] * n + third[found])
        changes = np.flatnonzero(np.concatenate([[True], far[1:] != far[:-1], [True]]))
        uses = 1 + int(np.diff(changes).max())
    cover = 2.0 * passes.diagonal * x * x
    for place in (found, second[found], third[found]):
        cover += np.bincount(place, weights[found] / uses, n)
    return float((cover / r).min())


def estimate_eigenvalue_by_probes(
    passes: Any, solve: Callable[[Any], tuple[Any, float]], x: Any, r: Any
) -> tuple[float, float]:
    """Estimate the smallest eigenvalue, and how far rounding of the sums moves a cell, by random right-hand sides.

    Random signs, with their part in the null space of the Hessian (bipartite components) removed.
    """
    component, sign = passes.find_components()
    size = np.bincount(component, r, passes.n)
    random = np.random.default_rng(0)
    least, moved = math.inf, 0.0
    for _ in range(EIGENVALUE_PROBES):
        g = r * (2.0 * random.integers(0, 2, len(r)) - 1.0)
        g -= r * sign * (np.bincount(component, sign * g, passes.n) / np.where(size > 0.0, size, 1.0))[component]
        d, seen = solve(g)
        least, moved = min(least, seen), max(moved, 2.0 * UNIT_ROUNDOFF * float(np.abs(d).max()))
    return least, moved
