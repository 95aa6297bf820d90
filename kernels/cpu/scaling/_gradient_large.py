"""Gradient of the scaling of one large matrix: conjugate gradients, which take about as many passes as a few sweeps.

Where these converge slowly or would lose digits, the graph Laplacian is eliminated in panels as in a Newton step.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, new_lines, splat, store
from cmfast.kernels.cpu.scaling import _gradient_passes, _gradient_preprocessing
from cmfast.kernels.cpu.scaling._large_elimination import (
    CACHED_ROWS,
    PANEL,
    Graph,
    _accumulate_weights,
    _back_substitute,
    _eliminate_panel,
    _update_flows,
)
from cmfast.kernels.cpu.scaling._large_row_blocks import MatrixRows, read_only
from cmfast.kernels.shared.conjugate_gradients import ArrayIterate, ConjugateGradients
from cmfast.kernels.shared.scaling import LEAST_GRADIENT_RESIDUAL, MOST_ELIMINATED_COLUMNS
from cmfast.kernels.status import LIMIT_ONLY, OK

MIN_UNCANCELLED_SHARE = 0.05  # least diagonal of the Laplacian, over column sums, for the product that cancels
PROBE_RESIDUAL = 1e-5  # relative residual at which conjugate gradients have seen the smallest eigenvalue
LEAST_EIGENVALUE = 1e-5  # below this eigenvalue conjugate gradients lose digits that elimination keeps


class ScaledCells(NamedTuple):
    """The cells of a matrix, the gradients in its scaled cells, and its row and column factors."""

    M: Any
    G: Any
    x: Any
    y: Any


@jit()
def _load_cells(scaled, cells, of_cells, root):
    """Write the scaled cells over square-rooted row sums, and these times their gradients, padded to SIMD lines.

    Gradients are relative to that of the row's largest cell: only differences within a row matter. Also writes the
    square roots.
    """
    M, G, x, y = scaled
    R, C = M.shape
    width = len(cells) // R * WIDTH
    flat, weighted = cells.reshape(-1), of_cells.reshape(-1)
    for i in range(R):
        to, more = flat[i * width : (i + 1) * width], weighted[i * width : (i + 1) * width]
        total, most, middle = 0.0, -1.0, 0.0
        for j in range(C):
            p = x[i] * y[j] * M[i, j]
            to[j] = p
            total += p
            if p > most:
                most, middle = p, G[i, j]
        root[i] = math.sqrt(total)
        one = 1.0 / root[i] if total > 0.0 else 0.0
        for j in range(C):
            to[j] *= one
            more[j] = to[j] * (G[i, j] - middle)
        for j in range(C, width):
            to[j] = more[j] = 0.0


@jit()
def _compute_weights_and_flows(graph, of_cells, R, C):
    """Compute the graph weights, and the flows from column k to j for k < j, four rows and a SIMD line at a time."""
    _accumulate_weights(graph, R, C)
    S, flat, per, F = graph.S, graph.flat, graph.per, graph.F
    width, weighted = per * WIDTH, of_cells.reshape(-1)
    for i0 in range(0, R, CACHED_ROWS):
        i1 = min(i0 + CACHED_ROWS, R)
        for j in range(0, (C + 3) // 4 * 4, 4):
            for k in range((j + 3) // WIDTH + 1):
                a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
                for i in range(i0, i1):
                    cell, more = load(S, i * per + k), load(of_cells, i * per + k)
                    q = i * width + j
                    a = fma(weighted[q], cell, a) - flat[q] * more
                    b = fma(weighted[q + 1], cell, b) - flat[q + 1] * more
                    c = fma(weighted[q + 2], cell, c) - flat[q + 2] * more
                    d = fma(weighted[q + 3], cell, d) - flat[q + 3] * more
                f = F + j * per + k
                if i0 > 0:
                    a, b = a + load(S, f), b + load(S, f + per)
                    c, d = c + load(S, f + 2 * per), d + load(S, f + 3 * per)
                store(S, f, a)
                store(S, f + per, b)
                store(S, f + 2 * per, c)
                store(S, f + 3 * per, d)


@jit()
def _eliminate_columns(graph, k0, k1, q, d, r):
    """Eliminate the columns from k0 to before k1 as a panel; after the last panel, back-substitute into `d`."""
    _eliminate_panel(graph, k0, k1, True, q, d, r)
    _update_flows(graph, k0, k1)
    if k0 == 0:
        _back_substitute(graph, r, d)


@jit()
def _compute_gradient(scaled, Q, root, s, d, out, a):
    """Compute the gradients in the row targets and in the cells from that in the column targets."""
    M, G, x, y = scaled
    R, C = M.shape
    for i in range(R):
        cells = Q[i]
        one = 1.0 / root[i] if root[i] > 0.0 else 0.0
        most, middle = -1.0, 0.0
        for j in range(C):
            if cells[j] > most:
                most, middle = cells[j], G[i, j] - d[j]
        mean = 0.0
        for j in range(C):
            mean += cells[j] * ((G[i, j] - d[j]) - middle)
        mean = mean * one + s[i] * one * one
        for j in range(C):
            out[i, j] = (((G[i, j] - d[j]) - middle) - mean) * (x[i] * y[j])
        a[i] = middle + mean


def differentiate(part, R, C, results, tol, num_threads=None):
    """Compute the gradients of large matrices one after another, in place; float32 cells give float32 results."""
    M, m_step, row, col, amount, status, G, of_row, of_col = part
    out, out_row, out_col = results
    flip = R < C
    for b in range(len(out)):
        pool.checkpoint()
        if status[b] not in (OK, LIMIT_ONLY) or np.isnan(row[b]).any():
            for result in results:
                result[b : b + 1] = np.nan
            continue
        x, y = row[b], col[b]
        gradient = G[b].reshape(R, C) if len(G) else np.zeros((R, C), M.dtype)
        s, t = (of_row[b], of_col[b]) if len(of_row) else (read_only(np.zeros(n)) for n in (R, C))
        cells, into = M[b * m_step].reshape(R, C), out[b].reshape(R, C)
        if amount[b]:
            cells, gradient = cells.astype(np.float64) + amount[b], gradient.astype(np.float64)
        given, sent = ScaledCells(cells, gradient, x, y), (s, t)
        if flip:
            given = ScaledCells(np.ascontiguousarray(cells.T), np.ascontiguousarray(gradient.T), y, x)
            sent = (t, s)
        found = into if cells.dtype == out.dtype and not flip else np.empty(given.M.shape, cells.dtype)
        rows, cols = _differentiate_one(given, sent, flip, found, tol, num_threads)
        if found is not into:
            into[:] = found.T if flip else found
        if len(out_row):
            out_row[b], out_col[b] = (cols, rows) if flip else (rows, cols)


def _differentiate_one(scaled, sent, flip, out, tol, num_threads):
    """Write the gradient in the cells of one matrix; return those in the row and column targets.

    `sent` are the gradients in the log factors of rows and columns.
    """
    found = (
        _solve_by_conjugate_gradients(scaled, sent, out, tol, num_threads)
        if scaled.M.shape[1] > MOST_ELIMINATED_COLUMNS
        else None
    )
    if found is None:
        M, G = (np.ascontiguousarray(a, np.float64) for a in scaled[:2])
        scaled = ScaledCells(M, G, *scaled[2:])
        found = _solve_by_elimination(scaled, sent, out)
    a, d, u, v = found
    total = u.sum()
    mean = 0.0 if total == 0.0 else -(u @ a) / total if flip else (v @ d) / total
    a, d = a + mean, d - mean
    if not (u.all() and v.all()):
        _fill_zero_targets(scaled, u, v, a, d)
    return a, d


def _solve_by_elimination(scaled, sent, out):
    """Write the gradient in the cells by elimination.

    Return the solutions of rows and columns, and the row and column sums.
    """
    M, G, x, y = scaled
    (R, C), (s, t) = M.shape, sent
    scaled = ScaledCells(read_only(M), read_only(G), x, y)
    per = 2 * ((C + 2 * WIDTH - 1) // (2 * WIDTH))
    cells, of_cells, root, a = new_lines(per * R), new_lines(per * R), np.empty(R), np.empty(R)
    _load_cells(scaled, cells, of_cells, root)
    Q = cells[: R * per].reshape(R, per * WIDTH)[:, :C]
    one = np.divide(1.0, root, out=np.zeros(R), where=root > 0.0)
    d = _solve_columns(cells, of_cells, t - (s * one) @ Q, R, C)
    into = out if out.dtype == np.float64 else np.empty((R, C))
    _compute_gradient(scaled, Q, root, s, d, into, a)
    _zero_block_links(scaled.M, into)
    if into is not out:
        out[:] = into
    return a, d, root * root, root @ Q


def _zero_block_links(M, out):
    """Set the gradient to zero where a cell of zero links two blocks, in place."""
    R, C = M.shape
    _gradient_preprocessing.zero_block_links(
        read_only(M.reshape(1, -1)), 0, read_only(np.zeros(1)), R, C, out.reshape(1, -1)
    )


def _solve_columns(cells, of_cells, q, R, C):
    """Return the gradient in the column targets, the solution of the Laplacian system, by panel elimination."""
    per = len(cells) // R
    S, d, r = new_lines(per * (R + 2 * per * WIDTH + PANEL)), np.empty(C), np.empty(C)
    S[: R * per] = cells
    W = R * per
    F = W + per * per * WIDTH
    graph = Graph(S, S.reshape(-1), per, W, F, F + per * per * WIDTH)
    _compute_weights_and_flows(graph, of_cells, R, C)
    for k1 in range(C, 0, -1):
        if k1 == C or k1 % PANEL == 0:
            pool.checkpoint()
            _eliminate_columns(graph, (k1 - 1) // PANEL * PANEL, k1, q, d, r)
    return d


def _solve_by_conjugate_gradients(scaled, sent, out, tol, num_threads):
    """Write the gradient in the cells by conjugate gradients.

    Return solutions and sums, None where slow or inaccurate.
    """
    M, G, x, y = scaled
    (R, C), (s, t) = M.shape, sent
    u, tops, a = np.empty(R), np.empty(R, np.int64), np.empty(R)
    G = read_only(G)
    rows = MatrixRows(M, np.ones(R), np.ones(C), num_threads)
    more = np.empty((3, *rows.sums.cols.shape))
    v = rows.column_sums(_gradient_passes.compute_sources, (x, y), G, (u, tops), rows.sums, tuple(more), passes=4)
    lacks, squares = more[:2].sum(1)
    least = more[2].min(0)
    if not ((u > 0.0).all() and (v > 0.0).all() and (squares < v).all()):
        return None
    r = lacks + t
    if s.any():
        r -= rows.multiply_left(s / u * x) * y
    given, certain = (rows, x, y, (u, tops), v, v - squares), least.sum()
    if certain < LEAST_EIGENVALUE:  # a random right-hand side has a part in every eigenvector, `r` may not
        probe = _iterate_columns(*given, np.random.default_rng(0).normal(size=C) * (v - squares), PROBE_RESIDUAL)
        if probe is None:
            return None
    d = _iterate_columns(*given, r, tol * certain)
    if d is None:
        return None
    rows.run(_gradient_passes.compute_gradient, (x, y), (G, s, d), (u, tops), (out, a), rows.sums.rows, passes=4)
    if not least.all():
        found = out.astype(np.float64)
        _zero_block_links(M.astype(np.float64), found)
        out[:] = found
    return a, d, u, v


def _iterate_columns(rows, x, y, lines, v, scale, r, smallest):
    """Return the gradient in the column targets, the Laplacian system's solution, by conjugate gradients.

    None where slow or inaccurate. They stop at a residual of `smallest`, relative to the first, or at rounding.
    `smallest` is the tolerance times a lower bound of the Laplacian's eigenvalues: what every row gives to every
    column, at least (Doeblin).
    """
    C, (u, _) = len(y), lines
    quick, factors = (scale > MIN_UNCANCELLED_SHARE * v).all(), x * x / u
    r = r - r.mean()
    goal = max(LEAST_GRADIENT_RESIDUAL, smallest) * abs(r).sum()

    def multiply(p):
        """Return the product L p and the energy p' L p."""
        if quick:
            Lp = v * p - y * rows.column_sums(_gradient_passes.multiply_plain, y * p, factors, rows.sums)
        else:
            Lp = y * rows.column_sums(_gradient_passes.multiply_centred, x, y, p, lines, rows.sums)
        return Lp, p @ Lp

    iterate = ArrayIterate(r, lambda left: left / scale, multiply)
    gradients = ConjugateGradients(iterate, iterate.energy)
    for _ in range(C // 3):
        if abs(iterate.residual).sum() <= goal:  # cancellation loses digits where the least eigenvalue is small
            return iterate.solution if gradients.least_eigenvalue() > LEAST_EIGENVALUE else None
        if not gradients.advance():
            return None
    return None


def _fill_zero_targets(scaled, u, v, a, d):
    """Compute the gradients in targets that are zero: the one-sided derivative as the target leaves zero."""
    M, G, x, y = scaled
    for i in np.flatnonzero(u == 0.0):
        weights = M[i] * y
        a[i] = weights @ (G[i] - d) / weights.sum() if weights.any() else 0.0
    for j in np.flatnonzero(v == 0.0):
        weights = M[:, j] * x
        d[j] = weights @ (G[:, j] - a) / weights.sum() if weights.any() else 0.0
