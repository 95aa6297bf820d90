"""How far off cells may be whose rows and columns have their sums to so many digits.

A change of the weights that leaves all sums nearly as they are is what sums do not show. Its size is bounded by the
smallest eigenvalue of the second derivative, the diagonal scaled to one, but for changes that leave all cells as they
are. That derivative along d is the sum over cells of ``(d[i] + d[j])**2``; over a triangle that is at least
``d[i]**2 + d[j]**2 + d[k]**2``, so triangles that cover all bins bound it. Where there are none it is estimated.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

LOOKED_AT = 16  # pixels of a row that may be the sides of its triangle
ROUNDING = 1.1e-16
PROBES = 2


@jit()
def find_triangles(p, x, weights, second, third, start, stop):
    """Note the best triangle of each row: its smallest scaled pixel, 0 where there is none, and its other two bins."""
    for t in range(start, stop):
        for i in range(p.cuts[t], p.cuts[t + 1]):
            weights[i], second[i], third[i] = 0.0, 0, 0
            for k in range(p.first[i], min(p.first[i + 1], p.first[i] + LOOKED_AT) - 1):
                a, b = i + np.int64(p.gap[k]), i + np.int64(p.gap[k + 1])
                low, high = p.first[a], p.first[a + 1]
                while low < high:
                    middle = (low + high) // 2
                    if a + np.int64(p.gap[middle]) < b:
                        low = middle + 1
                    else:
                        high = middle
                if low < p.first[a + 1] and a + np.int64(p.gap[low]) == b:
                    sides = x[i] * x[a] * np.float64(p.value[k]), x[i] * x[b] * np.float64(p.value[k + 1])
                    least = min(sides[0], sides[1], x[a] * x[b] * np.float64(p.value[low]))
                    if least > weights[i]:
                        weights[i], second[i], third[i] = least, a, b


def by_triangles(passes, x, r):
    """Return a bound from below of the smallest eigenvalue; 0 where triangles do not cover all bins."""
    p, n = passes.packed, passes.n
    if p.shift:
        return 0.0
    weights, second, third = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
    passes.look(find_triangles, x, weights, second, third)
    found = np.flatnonzero(weights)
    if not len(found):
        uses = 1
    else:  # a side is one of its own bins' triangles, and the far side of some others'
        far = np.sort(second[found] * n + third[found])
        changes = np.flatnonzero(np.concatenate([[True], far[1:] != far[:-1], [True]]))
        uses = 1 + int(np.diff(changes).max())
    cover = 2.0 * p.diagonal * x * x
    for place in (found, second[found], third[found]):
        cover += np.bincount(place, weights[found] / uses, n)
    return float((cover / r).min())


def _colours(packed):
    """Return a component of each bin, and its sign where the component has two colours; 0 where it does not."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(packed.diagonal)
    row = np.repeat(np.arange(len(packed.first) - 1), np.diff(packed.first))
    column = np.maximum(row, packed.shift) + packed.gap
    on = np.flatnonzero(packed.diagonal)
    i, j = np.concatenate([row, packed.rest_row, on]), np.concatenate([column, packed.rest_column, on])
    ends = np.concatenate([i, i + n]), np.concatenate([j + n, j])
    _, part = connected_components(coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(2 * n, 2 * n)), False)
    _, component = np.unique(np.minimum(part[:n], part[n:]), return_inverse=True)
    return component, np.sign(part[:n] - part[n:]).astype(np.float64)


def by_probes(passes, solve, x, r):
    """Return an estimate of the smallest eigenvalue, and of how far rounding the sums once moves a cell.

    By solving for random signs, without what no change of weights can bring about.
    """
    component, sign = _colours(passes.packed)
    size = np.bincount(component, r)
    random = np.random.default_rng(0)
    least, moved = math.inf, 0.0
    for _ in range(PROBES):
        g = r * (2.0 * random.integers(0, 2, len(r)) - 1.0)
        g -= r * sign * (np.bincount(component, sign * g) / size)[component]
        d, seen = solve(g)
        least, moved = min(least, seen), max(moved, 2.0 * ROUNDING * float(np.abs(d).max()))
    return least, moved
