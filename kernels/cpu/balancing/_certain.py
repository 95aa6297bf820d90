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


@jit(inner=True)
def _root(parent, other, k):
    """Return the root of a bin, and whether its colour is another one; later ways to it get shorter."""
    root, odd = k, False
    while parent[root] != root:
        odd ^= other[root]
        root = parent[root]
    way = odd
    while parent[k] != root and k != root:
        following, step = parent[k], other[k]
        parent[k], other[k] = root, way
        way ^= step
        k = following
    return root, odd


@jit(inner=True)
def _join(parent, other, mixed, i, j):
    """Note that two bins have a pixel: their colours differ, or their component has no two colours."""
    a, of_a = _root(parent, other, i)
    b, of_b = _root(parent, other, j)
    if a == b:
        mixed[a] |= of_a == of_b
    else:
        parent[b], other[b] = a, of_a == of_b
        mixed[a] |= mixed[b]


@jit()
def _find_components(p, parent, other, mixed):
    """Join all bins that have pixels with each other; of each note its root, and its colour in that component."""
    for i in range(len(p.first) - 1):
        for k in range(p.first[i], p.first[i + 1]):
            _join(parent, other, mixed, i, max(i, p.shift) + np.int64(p.gap[k]))
    for k in range(len(p.rest_row)):
        _join(parent, other, mixed, p.rest_row[k], p.rest_column[k])
    for i in range(len(parent)):
        root, odd = _root(parent, other, i)
        parent[i], other[i] = root, odd
        mixed[root] |= p.diagonal[i] > 0.0


def colours(packed):
    """Return the component of each bin, by one of its bins, and a sign where that has two colours, else 0."""
    n = len(packed.diagonal)
    parent, other, mixed = np.arange(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    _find_components(packed, parent, other, mixed)
    return parent, np.where(mixed[parent], 0.0, np.where(other, -1.0, 1.0))


def by_probes(passes, solve, x, r):
    """Return an estimate of the smallest eigenvalue, and of how far rounding the sums once moves a cell.

    By solving for random signs, without what no change of weights can bring about.
    """
    component, sign = colours(passes.packed)
    size = np.bincount(component, r, passes.n)
    random = np.random.default_rng(0)
    least, moved = math.inf, 0.0
    for _ in range(PROBES):
        g = r * (2.0 * random.integers(0, 2, len(r)) - 1.0)
        g -= r * sign * (np.bincount(component, sign * g, passes.n) / np.where(size > 0.0, size, 1.0))[component]
        d, seen = solve(g)
        least, moved = min(least, seen), max(moved, 2.0 * ROUNDING * float(np.abs(d).max()))
    return least, moved
