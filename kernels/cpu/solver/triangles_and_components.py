"""Graph structure of a sparse symmetric matrix: triangles of pixels, connected and bipartite components (union-find).

Triangles bound the smallest eigenvalue of the Hessian; bipartite components carry its null vectors.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.symmetric_conditioning import TRIANGLE_PIXELS

MAX_FIRST_PIXELS = 2  # pixels of a row that are joined in the first round


@jit()
def find_triangles(p, x, weights, second, third, start, stop):
    """Write for each row the triangle found with the largest smallest scaled pixel: that pixel and the other two bins.

    The pixel is 0 where no triangle was found.
    """
    for t in range(start, stop):
        for i in range(p.cuts[t], p.cuts[t + 1]):
            weights[i], second[i], third[i] = 0.0, 0, 0
            for k in range(p.first[i], min(p.first[i + 1], p.first[i] + TRIANGLE_PIXELS) - 1):
                a, b = i + np.int64(p.gap[k]), i + np.int64(p.gap[k + 1])
                least = min(x[i] * x[a] * np.float64(p.value[k]), x[i] * x[b] * np.float64(p.value[k + 1]))
                if not least > weights[i]:
                    continue
                low, high = p.first[a], p.first[a + 1]
                while low < high:
                    middle = (low + high) // 2
                    if a + np.int64(p.gap[middle]) < b:
                        low = middle + 1
                    else:
                        high = middle
                if low < p.first[a + 1] and a + np.int64(p.gap[low]) == b:
                    least = min(least, x[a] * x[b] * np.float64(p.value[low]))
                    if least > weights[i]:
                        weights[i], second[i], third[i] = least, a, b


@jit(inner=True)
def _find_root(parent, other, k):
    """Find the representative of bin `k` (union-find with path compression), and whether its colour differs."""
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
def _join_components(parent, other, mixed, i, j):
    """Join the components of two bins with a pixel, whose colours must differ.

    Return 1 for a join, 0 if already joined. A component with two bins of equal colour that share a pixel is marked in
    `mixed`: it is not bipartite.
    """
    a, of_a = _find_root(parent, other, i)
    b, of_b = _find_root(parent, other, j)
    if a == b:
        mixed[a] |= of_a == of_b
        return 0
    parent[b], other[b] = a, of_a == of_b
    mixed[a] |= mixed[b]
    return 1


@jit()
def _find_components(p, parent, other, mixed):
    """Find the connected components and a 2-colouring; write the representative and the colour of each bin.

    The first pixels of all rows come first: once all bins are in one component that is not bipartite, nothing can
    change.
    """
    parts = len(parent)
    for k in range(len(p.rest_row)):
        parts -= _join_components(parent, other, mixed, p.rest_row[k], p.rest_column[k])
    for turn in range(2):
        for i in range(len(p.first) - 1):
            middle = min(p.first[i] + MAX_FIRST_PIXELS, p.first[i + 1])
            begin, end = (p.first[i], middle) if turn == 0 else (middle, p.first[i + 1])
            if parts == 1 and mixed[_find_root(parent, other, i)[0]]:
                end = begin
            for k in range(begin, end):
                parts -= _join_components(parent, other, mixed, i, max(i, p.shift) + np.int64(p.gap[k]))
    for i in range(len(parent)):
        root, odd = _find_root(parent, other, i)
        parent[i], other[i] = root, odd
        mixed[root] |= p.diagonal[i] > 0.0


def find_components(packed):
    """Return the component of each bin, as one of its bins, and its colour as a sign, 0 where it is not bipartite."""
    n = len(packed.diagonal)
    parent, other, mixed = np.arange(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    _find_components(packed, parent, other, mixed)
    return parent, np.where(mixed[parent], 0.0, np.where(other, -1.0, 1.0))
