"""Newton step of a matrix with up to a few hundred columns: subtraction-free panel elimination of the graph Laplacian.

SIMD lines hold eight values along the rows of one matrix.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, load_elements, new_lines, splat, store, total
from cmfast.kernels.cpu.scaling._large_passes import compute_dot
from cmfast.kernels.shared.scaling import NORMAL

PANEL = 16  # pivots eliminated together; a multiple of the tile of 4 rows and 2 lines
CACHED_ROWS = 128  # rows of Q that stay in the cache


class Graph(NamedTuple):
    """The graph Laplacian of the columns: its SIMD lines, and the first line of each part."""

    S: Any  # SIMD lines of eight values; the first are the scaled cells Q
    flat: Any  # the same values in one axis
    per: int  # SIMD lines of a row
    W: int  # edge weights
    F: int  # flows
    P: int  # multipliers of a panel of pivot rows


@jit()
def compute_dense_step(M, u, x, y, q, paired, d):
    """Solve the Newton system L d = q + flows by star-mesh elimination in panels; writes `d`, overwrites `q`.

    L is the Laplacian with weights W_jk = sum over i of p_ij p_ik / u_i. Only nonnegative numbers are added, so that
    weak couplings keep their digits. With a pairing, `q` is the difference of the targets and the flows P_jk - P_kj
    complete the gaps.
    """
    R, C = M.shape
    per = 2 * ((C + 2 * WIDTH - 1) // (2 * WIDTH))  # SIMD lines of a row, an even number
    S, r = new_lines(per * (R + 2 * per * WIDTH + PANEL)), np.empty(C)
    W = R * per
    F = W + per * per * WIDTH
    graph = Graph(S, S.reshape(-1), per, W, F, F + per * per * WIDTH)
    _fill_cells(M, graph, u, x, y)
    _accumulate_weights(graph, R, C)
    if paired:
        _compute_flows(graph, u)
    k1 = C
    while k1 > 0:
        k0 = (k1 - 1) // PANEL * PANEL
        _eliminate_panel(graph, k0, k1, paired, q, d, r)
        if paired:
            _update_flows(graph, k0, k1)
        else:
            _update_weights(graph, k0, k1)
        k1 = k0
    _back_substitute(graph, r, d)


@jit(inner=True, borrows=True)
def _fill_cells(M, graph, u, x, y):
    """Fill Q, the scaled cells over square-rooted row targets, padded with zeros."""
    R, C = M.shape
    flat, width = graph.flat, graph.per * WIDTH
    for i in range(R):
        factor = x[i] / math.sqrt(u[i])
        m, to = M[i], flat[i * width : (i + 1) * width]
        for j in range(C):
            to[j] = factor * m[j] * y[j]
        for j in range(C, width):
            to[j] = 0.0


@jit(inner=True, borrows=True)
def _accumulate_weights(graph, R, C):
    """Compute the weights W = Q'Q below the diagonal, four rows and two SIMD lines at a time."""
    S, flat, per, W = graph.S, graph.flat, graph.per, graph.W
    width = per * WIDTH
    top = (C + 3) // 4 * 4
    for i0 in range(0, R, CACHED_ROWS):
        i1 = min(i0 + CACHED_ROWS, R)
        for j in range(0, top, 4):
            for k in range(0, (j + 3) // WIDTH + 1, 2):
                a0, a1, b0, b1 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
                c0, c1, d0, d1 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
                for i in range(i0, i1):
                    one, two = load(S, i * per + k), load(S, i * per + k + 1)
                    q = i * width + j
                    a0, a1 = fma(flat[q], one, a0), fma(flat[q], two, a1)
                    b0, b1 = fma(flat[q + 1], one, b0), fma(flat[q + 1], two, b1)
                    c0, c1 = fma(flat[q + 2], one, c0), fma(flat[q + 2], two, c1)
                    d0, d1 = fma(flat[q + 3], one, d0), fma(flat[q + 3], two, d1)
                w = W + j * per + k
                if i0 > 0:
                    a0, a1 = a0 + load(S, w), a1 + load(S, w + 1)
                    b0, b1 = b0 + load(S, w + per), b1 + load(S, w + per + 1)
                    c0, c1 = c0 + load(S, w + 2 * per), c1 + load(S, w + 2 * per + 1)
                    d0, d1 = d0 + load(S, w + 3 * per), d1 + load(S, w + 3 * per + 1)
                store(S, w, a0)
                store(S, w + 1, a1)
                store(S, w + per, b0)
                store(S, w + per + 1, b1)
                store(S, w + 2 * per, c0)
                store(S, w + 2 * per + 1, c1)
                store(S, w + 3 * per, d0)
                store(S, w + 3 * per + 1, d1)


@jit(inner=True, borrows=True)
def _compute_flows(graph, u):
    """Compute the flows F_jk = P_jk - P_kj for k < j."""
    flat, width, F = graph.flat, graph.per * WIDTH, graph.F * WIDTH
    for j in range(len(u)):
        root = math.sqrt(u[j])
        to = flat[F + j * width : F + (j + 1) * width]
        for k in range(j):
            to[k] = root * flat[j * width + k] - math.sqrt(u[k]) * flat[k * width + j]


@jit(inner=True, borrows=True)
def _eliminate_panel(graph, k0, k1, paired, q, d, r):
    """Eliminate columns k1 - 1 down to k0 (a panel), updating only the panel's own rows.

    Stores multipliers and pivots.
    """
    flat, width = graph.flat, graph.per * WIDTH
    W, F, P = graph.W * WIDTH, graph.F * WIDTH, graph.P * WIDTH
    for k in range(k1 - 1, k0 - 1, -1):
        w, f = flat[W + k * width : W + k * width + k], flat[F + k * width : F + k * width + k]
        p = flat[P + (k - k0) * width : P + (k - k0) * width + k]
        _update_pivot_row(graph, k0, k, k1, paired)
        weight, flow = _sum(w), _sum(f) if paired else 0.0
        r[k] = 1.0 / weight if weight >= NORMAL else 0.0  # else the last column of a block, whose step is arbitrary
        for j in range(k):
            p[j] = w[j] * r[k]
            q[j] += p[j] * q[k]
        d[k] = q[k] + flow


@jit(inner=True, borrows=True)
def _sum(numbers):
    """Return the sum of an array, in sixteen partial sums on every processor."""
    n = numbers.shape[0]
    even, odd = splat(0.0), splat(0.0)
    for j in range(0, n - 2 * WIDTH + 1, 2 * WIDTH):
        even, odd = even + load_elements(numbers, j), odd + load_elements(numbers, j + WIDTH)
    found = total(even + odd)
    for j in range(n // (2 * WIDTH) * 2 * WIDTH, n):
        found += numbers[j]
    return found


@jit(inner=True, borrows=True)
def _back_substitute(graph, r, d):
    """Compute the step `d` by back substitution, from the first column up, in place."""
    flat, width, W = graph.flat, graph.per * WIDTH, graph.W * WIDTH
    d[0] = 0.0
    for k in range(1, len(d)):
        w = flat[W + k * width : W + k * width + k]
        d[k] = (d[k] + compute_dot(w, d[:k])) * r[k]


@jit(inner=True, borrows=True)
def _update_pivot_row(graph, k0, k, k1, paired):
    """Apply the earlier pivots of the panel to row k of the weights and flows; values past its end are never read."""
    S, flat, per, W, F, P = graph
    width = per * WIDTH
    for column in range((k + WIDTH - 1) // WIDTH):
        w, f = load(S, W + k * per + column), load(S, F + k * per + column)
        for above in range(k1 - 1, k, -1):
            share = flat[P * WIDTH + (above - k0) * width + k]
            w = fma(share, load(S, W + above * per + column), w)
            if paired:
                f = fma(share, load(S, F + above * per + column), f)
                f = f - flat[F * WIDTH + above * width + k] * load(S, P + (above - k0) * per + column)
        store(S, W + k * per + column, w)
        store(S, F + k * per + column, f)


@jit(inner=True, borrows=True)
def _update_weights(graph, k0, k1):
    """Apply a panel of pivots to the weights of the columns before it (a blocked rank-k update)."""
    S, flat, per, W, _, P = graph
    width = per * WIDTH
    for j in range(0, k0, 4):
        for k in range(0, (j + 3) // WIDTH + 1, 2):
            w = W + j * per + k
            a0, a1, b0, b1 = load(S, w), load(S, w + 1), load(S, w + per), load(S, w + per + 1)
            c0, c1 = load(S, w + 2 * per), load(S, w + 2 * per + 1)
            d0, d1 = load(S, w + 3 * per), load(S, w + 3 * per + 1)
            for pivot in range(k0, k1):
                one, two = load(S, W + pivot * per + k), load(S, W + pivot * per + k + 1)
                p = P * WIDTH + (pivot - k0) * width + j
                a0, a1 = fma(flat[p], one, a0), fma(flat[p], two, a1)
                b0, b1 = fma(flat[p + 1], one, b0), fma(flat[p + 1], two, b1)
                c0, c1 = fma(flat[p + 2], one, c0), fma(flat[p + 2], two, c1)
                d0, d1 = fma(flat[p + 3], one, d0), fma(flat[p + 3], two, d1)
            store(S, w, a0)
            store(S, w + 1, a1)
            store(S, w + per, b0)
            store(S, w + per + 1, b1)
            store(S, w + 2 * per, c0)
            store(S, w + 2 * per + 1, c1)
            store(S, w + 3 * per, d0)
            store(S, w + 3 * per + 1, d1)


@jit(inner=True, borrows=True)
def _update_flows(graph, k0, k1):
    """Apply a panel of pivots to the weights and the flows before it: F_jk += p_j F_pivot,k - p_k F_pivot,j."""
    _update_weights(graph, k0, k1)
    S, flat, per, _, F, P = graph
    width = per * WIDTH
    for j in range(0, k0, 4):
        for k in range((j + 3) // WIDTH + 1):
            w = F + j * per + k
            a, b, c, d = load(S, w), load(S, w + per), load(S, w + 2 * per), load(S, w + 3 * per)
            for pivot in range(k0, k1):
                flow, share = load(S, F + pivot * per + k), load(S, P + (pivot - k0) * per + k)
                p = P * WIDTH + (pivot - k0) * width + j
                f = F * WIDTH + pivot * width + j
                a = fma(flat[p], flow, a) - flat[f] * share
                b = fma(flat[p + 1], flow, b) - flat[f + 1] * share
                c = fma(flat[p + 2], flow, c) - flat[f + 2] * share
                d = fma(flat[p + 3], flow, d) - flat[f + 3] * share
            store(S, w, a)
            store(S, w + per, b)
            store(S, w + 2 * per, c)
            store(S, w + 3 * per, d)
