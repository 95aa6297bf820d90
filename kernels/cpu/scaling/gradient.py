"""The op ``scaling_gradient``: the gradient of matrix scaling by implicit differentiation, eight matrices at a time.

With P the scaled matrix, u and v its sums, G the gradient in its cells and s, t those in the logarithms of its factors,
the gradient in ``log M`` is ``P (G - a - b)``, where a and b, the gradients in the targets, solve
``[[diag(u), P], [P^T, diag(v)]] [a, b] = [(P G) 1 + s, (P G)^T 1 + t]``. The Schur complement for b is the graph
Laplacian of Newton's method. Its right-hand side are flows ``sum p_ij p_ik (G_ij - G_ik) / u_i`` between columns.
Elimination only adds, so nearly decomposable matrices keep their digits.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    load,
    load_block,
    load_narrow,
    new_lines,
    some,
    splat,
    sqrt,
    store,
    store_block,
    store_narrow,
    where,
)
from cmfast.kernels.cpu._core.vector_functions import offset_lanes
from cmfast.kernels.cpu.scaling import _gradient_large, _gradient_preprocessing
from cmfast.kernels.shared.batches import flatten_one
from cmfast.kernels.shared.scaling import NORMAL, is_large
from cmfast.kernels.status import LIMIT_ONLY, OK

SECONDS_PER_SCALING_GRADIENT_CELL = 5e-9
GRADIENT_CHUNK_CELLS = 1 << 15  # cells of a chunk of matrices, which stays in the cache


class GradientTile(NamedTuple):
    """SIMD lines of eight matrices of R rows and C columns, and the strides to the next row and column."""

    S: Any
    R: int
    C: int
    by_row: int
    by_col: int


@jit(inner=True, borrows=True)
def _load_lanes(S, k, a, rows):
    """Copy `n` values of eight matrices, at `rows` of `a`, to SIMD lines from line `k` on."""
    n = a.shape[1]
    if n < WIDTH:
        load_narrow(S, k, a, rows, n)
        return
    for start in range(0, n, WIDTH):
        c = min(start, n - WIDTH)  # the last block overlaps the one before
        load_block(S, k + c, a, rows, c)


@jit(inner=True, borrows=True)
def _store_lanes(S, k, a, first, last):
    """Copy SIMD lines from line `k` on to rows `first` to `last` of `a`."""
    n = a.shape[1]
    if first + WIDTH > last + 1:
        for c in range(n):
            for b in range(first, last + 1):
                a[b, c] = S[k + c, b - first]
    elif n < WIDTH:
        store_narrow(S, k, a, first, n)
    else:
        for start in range(0, n, WIDTH):
            c = min(start, n - WIDTH)
            store_block(S, k + c, a, first, c)


@jit(inner=True, borrows=True)
def _compute_scaled_cells(tile, M, P, x, y, root):
    """Compute the scaled cells over the square-rooted row sums, and these square roots."""
    S, R, C, by_row, by_col = tile
    for i in range(R):
        total = splat(0.0)
        for j in range(C):
            at = i * by_row + j * by_col
            p = load(S, x + i) * load(S, y + j) * load(S, M + at)
            total = total + p
            store(S, P + at, p)
        u = sqrt(total)
        one = where(u > 0.0, 1.0 / u, splat(0.0))
        store(S, root + i, u)
        for j in range(C):
            at = P + i * by_row + j * by_col
            store(S, at, load(S, at) * one)


@jit(inner=True, borrows=True)
def _eliminate_row_sources(tile, P, root, s, t):
    """Eliminate the rows from the right-hand side of the columns: t -= P' diag(1/u) s, in place."""
    S, R, C, by_row, by_col = tile
    for j in range(C):
        found = load(S, t + j)
        for i in range(R):
            u = load(S, root + i)
            one = where(u > 0.0, 1.0 / u, splat(0.0))
            found = found - load(S, P + i * by_row + j * by_col) * (load(S, s + i) * one)
        store(S, t + j, found)


@jit(inner=True)
def _compute_weights_and_flows(tile, G, P, W, F):
    """Compute the graph weights between columns k < j, and the flows from k to j."""
    S, R, C, by_row, by_col = tile
    for j in range(1, C):
        for k in range(j):
            weight, flow = splat(0.0), splat(0.0)
            for i in range(R):
                one, two = i * by_row + j * by_col, i * by_row + k * by_col
                both = load(S, P + one) * load(S, P + two)
                weight = weight + both
                flow = flow + both * (load(S, G + one) - load(S, G + two))
            store(S, W + j * C + k, weight)
            store(S, F + j * C + k, flow)


@jit(inner=True, borrows=True)
def _solve_by_elimination(S, C, W, F, share, q, d):
    """Solve for the gradient in the column targets, a Laplacian system, by star-mesh elimination.

    Writes the solution `d`, overwrites W, F and q. The right-hand side is the flows between columns plus the sources
    `q`.
    """
    for k in range(C - 1, 0, -1):
        row, flows = W + k * C, F + k * C
        weight, flow = splat(0.0), load(S, q + k)
        for j in range(k):
            weight, flow = weight + load(S, row + j), flow + load(S, flows + j)
        one = where(
            weight >= NORMAL, 1.0 / weight, splat(0.0)
        )  # else the last column of a block, whose value is arbitrary
        store(S, row + k, one)
        store(S, d + k, flow)
        for j in range(k):
            p = load(S, row + j) * one
            store(S, share + j, p)
            store(S, q + j, load(S, q + j) + p * load(S, q + k))
            for i in range(j):
                w, f = W + j * C + i, F + j * C + i
                store(S, w, load(S, w) + p * load(S, row + i))
                store(S, f, load(S, f) + p * load(S, flows + i) - load(S, share + i) * load(S, flows + j))
    store(S, d, splat(0.0))
    for k in range(1, C):
        found = load(S, d + k)
        for j in range(k):
            found = found + load(S, W + k * C + j) * load(S, d + j)
        store(S, d + k, found * load(S, W + k * C + k))


@jit(inner=True, borrows=True)
def _compute_row_solution(tile, G, P, root, s, d, a):
    """Compute the gradient in the row targets `a` from that in the column targets `d`.

    Overwrites the cells P with ``G - a - d``. The value at a row's largest cell is a sum over the other cells, which
    are small where it is nearly all of the row.
    """
    S, R, C, by_row, by_col = tile
    for i in range(R):
        u = load(S, root + i)
        one = where(u > 0.0, 1.0 / u, splat(0.0))
        most, middle = splat(-1.0), splat(0.0)
        for j in range(C):
            at = i * by_row + j * by_col
            p, z = load(S, P + at), load(S, G + at) - load(S, d + j)
            middle, most = where(p > most, z, middle), where(p > most, p, most)
        mean = splat(0.0)
        for j in range(C):
            at = i * by_row + j * by_col
            z = (load(S, G + at) - load(S, d + j)) - middle
            mean = mean + load(S, P + at) * z
        mean = mean * one + load(S, s + i) * one * one
        for j in range(C):
            at = i * by_row + j * by_col
            store(S, P + at, ((load(S, G + at) - load(S, d + j)) - middle) - mean)
        store(S, a + i, middle + mean)


@jit(inner=True, borrows=True)
def _fill_zero_targets(tile, M, G, rows, cols):
    """Compute the gradients in targets that are zero: the one-sided derivative as the target leaves zero.

    `rows` and `cols` are the first SIMD lines of their factors, sums (for rows the square roots) and solutions.
    """
    (S, R, C, by_row, by_col), (x, root, a), (y, col, d) = tile, rows, cols
    for i in range(R):
        weights, found = splat(0.0), splat(0.0)
        for j in range(C):
            at = i * by_row + j * by_col
            weight = load(S, M + at) * load(S, y + j)
            weights, found = weights + weight, found + weight * (load(S, G + at) - load(S, d + j))
        there = where(weights > 0.0, found / weights, splat(0.0))
        store(S, a + i, where(load(S, root + i) == 0.0, there, load(S, a + i)))
    for j in range(C):
        weights, found = splat(0.0), splat(0.0)
        for i in range(R):
            at = i * by_row + j * by_col
            weight = load(S, M + at) * load(S, x + i)
            weights, found = weights + weight, found + weight * (load(S, G + at) - load(S, a + i))
        there = where(weights > 0.0, found / weights, splat(0.0))
        store(S, d + j, where(load(S, col + j) == 0.0, there, load(S, d + j)))


@jit(inner=True, borrows=True)
def _compute_column_sums(tile, P, root, col):
    """Compute the column sums of the scaled cells."""
    S, R, C, by_row, by_col = tile
    for j in range(C):
        found = splat(0.0)
        for i in range(R):
            found = found + load(S, P + i * by_row + j * by_col) * load(S, root + i)
        store(S, col + j, found)


@jit(inner=True, borrows=True)
def _normalize_solution(tile, flip, root, col, a, d):
    """Normalise the gradients in the targets in place: their mean over columns, weighted by the sums, becomes zero.

    The column targets are scaled to the total of the row targets, so this is the gradient in the targets as given.
    """
    S, R, C, _, _ = tile
    mean, total = splat(0.0), splat(0.0)
    for k in range(R if flip else C):
        weight = load(S, root + k) * load(S, root + k) if flip else load(S, col + k)
        mean, total = mean + weight * load(S, a + k if flip else d + k), total + weight
    mean = where(total == 0.0, splat(0.0), mean / total)
    mean = -mean if flip else mean
    for i in range(R):
        store(S, a + i, load(S, a + i) + mean)
    for j in range(C):
        store(S, d + j, load(S, d + j) - mean)


def _count_lines(R, C):
    """Return the number of SIMD lines of a gradient tile."""
    return 3 * R * C + 2 * C * C + 4 * R + 6 * C


@jit()
def _differentiate(given, R, C, flip, S, results, start, stop):
    """Compute the gradients of the matrices from `start` to before `stop`, eight at a time.

    With `flip` cells are stored by columns, so that the shorter side is eliminated.
    """
    M, m_step, row, col, amount, status, G, of_row, of_col = given
    out, out_row, out_col = results
    by_row, by_col = (1, R) if flip else (C, 1)
    tile = GradientTile(S, R, C, by_row, by_col)
    cells = R * C
    m, g, p = 0, cells, 2 * cells
    W, x = 3 * cells, 3 * cells + 2 * C * C
    F, y = W + C * C, x + R
    root, s, a = y + C, y + C + R, y + C + 2 * R
    t, d, share, total = a + R, a + R + C, a + R + 2 * C, a + R + 3 * C
    for first in range(start, stop, WIDTH):
        last = min(first + WIDTH, stop) - 1
        _load_lanes(S, m, M, offset_lanes(first, last, m_step))
        rows = offset_lanes(first, last, 1)
        _load_lanes(S, x, row, rows)
        _load_lanes(S, y, col, rows)
        for w in range(WIDTH):
            b = min(first + w, last)
            good = status[b] == OK or status[b] == LIMIT_ONLY
            S[total, w], S[total + 1, w] = amount[b], 1.0 if good else np.nan
        for k in range(m, m + cells):
            store(S, k, load(S, k) + load(S, total))
        for k in range(x, x + R):
            store(S, k, load(S, k) * load(S, total + 1))
        if len(G) > 0:
            _load_lanes(S, g, G, rows)
        else:
            for k in range(g, g + cells):
                store(S, k, splat(0.0))
        _compute_scaled_cells(tile, m, p, x, y, root)
        for k in range(s, s + R):
            store(S, k, splat(0.0))
        for k in range(t, t + C):
            store(S, k, splat(0.0))
        if len(of_row) > 0:
            _load_lanes(S, s, of_row, rows)
            _load_lanes(S, t, of_col, rows)
            _eliminate_row_sources(tile, p, root, s, t)
        _compute_weights_and_flows(tile, g, p, W, F)
        _solve_by_elimination(S, C, W, F, share, t, d)
        wanted = len(out_row) > 0
        if wanted:
            _compute_column_sums(tile, p, root, total)
        _compute_row_solution(tile, g, p, root, s, d, a)
        if wanted:
            _normalize_solution(tile, flip, root, total, a, d)
            empty = splat(0.0) != 0.0
            for i in range(R):
                empty = empty | (load(S, root + i) == 0.0)
            for j in range(C):
                empty = empty | (load(S, total + j) == 0.0)
            if some(empty):
                _fill_zero_targets(tile, m, g, (x, root, a), (y, total, d))
            _store_lanes(S, a, out_row, first, last)
            _store_lanes(S, d, out_col, first, last)
        for i in range(R):
            for j in range(C):
                at = p + i * by_row + j * by_col
                store(S, at, load(S, at) * (load(S, x + i) * load(S, y + j)))
        _store_lanes(S, p, out, first, last)


def scaling_gradient(
    M, G, of_row, of_col, row_scale, col_scale, matrix, status, smoothing, *, targets=True, tol=0.0, num_threads=None
):
    """Compute the gradients in the cells of `M` and, if `targets`, in both targets; float32 if `M` and `G` are.

    `G`, `of_row` and `of_col` are the gradients in the scaled matrix and in its factors; None means zeros. `matrix` is
    needed only where just the limit exists, and may be None. Iterative solvers stop at an accuracy of `tol`, the error
    of the result's margins.
    """
    R, C = M.shape[-2:]
    batch = row_scale.shape[:-1]
    n = math.prod(batch)
    kind = batches.result_dtype(M, *(() if G is None else (G,)))
    shapes = ((R, C), (R,), (C,))
    if not n * R * C:  # a tile without cells has no SIMD lines
        of_targets = [np.zeros((*batch, size)) for size in (R, C)] if targets else []
        return np.zeros((*batch, R, C), kind), *of_targets
    flat, m_step = flatten_one(M, batch, 2, np, batches.flat_batch)
    flat = flat.reshape(len(flat), R * C)
    G = np.empty((0, R * C)) if G is None else batches.flat_batch(G, 2).reshape(n, R * C)
    if of_row is None and of_col is not None:
        of_row = np.zeros(row_scale.shape)
    if of_col is None and of_row is not None:
        of_col = np.zeros(col_scale.shape)
    lines = [
        np.empty((0, 1)) if a is None else batches.flat_batch(a, 1) for a in (row_scale, col_scale, of_row, of_col)
    ]
    row, col, of_row, of_col = lines
    status, amount = (batches.flat_batch(np.asarray(a), 0) for a in (status, smoothing))
    matrix = None if matrix is None else batches.flat_batch(matrix, 2).reshape(n, R * C)
    out = np.empty((n, R * C), kind)
    out_row, out_col = np.empty((n if targets else 0, R)), np.empty((n if targets else 0, C))
    problem = (flat, m_step, row, col, amount, status, G, of_row, of_col)
    large = is_large(R, C)
    solve = partial(_gradient_large.differentiate, tol=tol, num_threads=num_threads) if large else _differentiate_small
    narrow = large and kind is np.float32  # converting a matrix takes as long as several passes over it

    each = R * C * SECONDS_PER_SCALING_GRADIENT_CELL * (1 + min(R, C) / 8)
    at_once = WIDTH * max(1, GRADIENT_CHUNK_CELLS // max(1, R * C * WIDTH))

    def work(_, start, stop):
        """Compute the gradients of the matrices from `start` to before `stop`, in chunks."""
        for first in range(start, stop, at_once):
            pool.checkpoint()
            end = min(first + at_once, stop)
            part = _gradient_preprocessing.prepare_part(problem, matrix, R, C, first, end, narrow=narrow)
            found = out[first:end] if large or kind is np.float64 else np.empty((end - first, R * C))
            solve(part, R, C, (found, out_row[first:end], out_col[first:end]))
            if not large:
                _gradient_preprocessing.zero_block_links(part[0], part[1], part[4], R, C, found)
                if kind is not np.float64:
                    out[first:end] = found

    bounds = pool.pieces(n, n * each, tile=1 if large else WIDTH)
    pool.run_pieces(work, bounds, seconds=n * each, num_threads=num_threads)
    results = (out, out_row, out_col) if targets else (out,)
    return tuple(a.reshape(*batch, *shape) for a, shape in zip(results, shapes, strict=False))


def _differentiate_small(part, R, C, results):
    """Compute the gradients of small matrices by tiles, transposed where rows are fewer than columns."""
    M, m_step, row, col, amount, status, G, of_row, of_col = part
    out, out_row, out_col = results
    flip = R < C
    if flip:
        part = (M, m_step, col, row, amount, status, G, of_col, of_row)
        R, C, results = C, R, (out, out_col, out_row)
    _differentiate(part, R, C, flip, new_lines(_count_lines(R, C)), results, 0, len(out))
