"""Matrix scaling to given margins: the launchers of ``ipf`` and ``ras`` and the loop over tiles."""

import math
from functools import cache

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, new_lines, some
from cmfast.kernels.cpu.scaling import _large
from cmfast.kernels.cpu.scaling._tile import LANES, begin, count_lines, finish, load_tile, store_tile, tile
from cmfast.kernels.cpu.scaling._tile_newton import newton, start
from cmfast.kernels.cpu.scaling._tile_sinkhorn import sinkhorn
from cmfast.kernels.cpu.scaling._zeros_first import amend, has_zero, prune
from cmfast.kernels.shared.scaling import FLOOR, goals

SHORT = 64  # lines on the shorter side of matrices that go eight at a time
SMALL = 1 << 14  # and their cells
CHUNK = 1 << 16  # cells converted to float64 at a time
PSEUDO_BAYES = -1.0
SWEEPS = 10_000
NEWTON_STEPS = 200
MOMENT = 1 << 25  # vectors of cells that a kernel goes through before it asks whether to go on: some tens of ms
SECONDS_PER_CELL = {"sinkhorn": 1e-7, "newton": 1.2e-8, "auto": 1.2e-8}


@jit()
def _scale(
    R, C, M, m_step, row_sums, row_step, col_sums, col_step, start_row, start_row_step, start_col, start_col_step,
    smoothing, drop, bi, plain, tol, target, still, bound, last_width, max_iter,
    out, write, out_row, out_col, out_residual, out_n_iter, out_status, out_smoothing, S, n, first, moment,
):  # fmt: skip
    """Scale the matrices from `first` on; return where to go on, `n` at the end.

    After a moment it returns in any case, so that the caller can be interrupted: below zero is the complement of where
    the tile begins that `S` holds, under work.
    """
    flip = R < C and not plain  # Newton's unknowns belong on the shorter side
    t = tile(S, C, R, not plain) if flip else tile(S, R, C, not plain)
    begun = first < 0
    first = ~first if begun else first
    cost = 3 * R * C if plain else t.C * t.C * (t.R + t.C)
    passes = max(1, moment // max(1, cost))
    while first < n:
        last = n - 1
        if not begun:
            if flip:
                load_tile(
                    t, M, m_step, col_sums, col_step, row_sums, row_step, first, last, flip, smoothing, drop, bi, plain
                )
                begin(t, start_col, start_col_step, start_row, start_row_step, first, last)
            else:
                load_tile(
                    t, M, m_step, row_sums, row_step, col_sums, col_step, first, last, flip, smoothing, drop, bi, plain
                )
                begin(t, start_row, start_row_step, start_col, start_col_step, first, last)
            if not plain:
                start(t)
        if plain:
            passes -= sinkhorn(t, target, still, max_iter, passes)
        else:
            passes -= newton(t, target, still, last_width, max_iter, passes)
        begun = some(load(S, t.active) != 0.0)
        if begun:
            return ~first
        finish(t, flip, plain, tol, bound)
        store_tile(
            t, first, last, flip, write, out, out_row, out_col, out_residual, out_n_iter, out_status, out_smoothing
        )
        first += LANES
        if some(load(S, t.far) != 0.0):
            passes //= 2  # it took long to bring them near
        if passes <= 0 and first < n:
            return first
    return n


def ipf(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Scale every matrix to the margins given, ones where None."""
    return _launch(M, row_sums, col_sums, start_row, start_col, write=True, **options)


def ras(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Return what ``ipf`` does but the matrices."""
    return _launch(M, row_sums, col_sums, start_row, start_col, write=False, **options)[1:]


def _launch(
    M, row_sums, col_sums, start_row, start_col, *, write, smoothing=None, empty="nan", tol=1e-9, max_iter=None,
    solver="auto", num_threads=None, progress=None,
):  # fmt: skip
    R, C = M.shape[-2:]
    vectors = [a for a in (row_sums, col_sums, start_row, start_col) if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors)) if vectors else M.shape[:-2]
    n = math.prod(batch)
    dtype = batches.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    cells, m_step = _flat(M, batch, 2)
    cells = cells.reshape(len(cells), R * C)
    u, u_step = _lines(row_sums, batch, R)
    v, v_step = _lines(col_sums, batch, C)
    shared = ((u, u_step), (v, v_step), _lines(start_row, batch, 0), _lines(start_col, batch, 0))
    plain = solver == "sinkhorn"
    tol = max(float(tol), FLOOR)
    small = min(R, C) <= SHORT and R * C <= SMALL
    if max_iter is None:
        max_iter = NEWTON_STEPS if small and not plain else SWEEPS
    amount = PSEUDO_BAYES if smoothing == "pseudo-bayes" else float(smoothing or 0.0)
    out = np.empty((n if write else 0, R * C), dtype)
    out_row, out_col = np.empty((n, R)), np.empty((n, C))
    residual, n_iter, status, added = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int8), np.empty(n)
    bi = row_sums is None and col_sums is None
    options = (
        amount, empty == "drop", bi, plain, tol, *goals(tol, R, C),
        min(1e-3, math.sqrt(1e3 * tol)), max_iter,
    )  # fmt: skip

    def work(_, start, stop):
        S = new_lines(count_lines(*((R, C) if plain else (max(R, C), min(R, C))), not plain)) if small else None
        size = LANES * max(1, CHUNK // max(1, R * C * LANES))
        for first in range(start, stop, size):
            last = min(first + size, stop)
            part = slice(first, last)
            given = np.ascontiguousarray(cells if m_step == 0 else cells[part], np.float64)[:]
            given.flags.writeable = False
            scaled = out[part] if dtype == np.float64 else np.empty((last - first if write else 0, R * C))
            vectors = [item for a, step in shared for item in (a[part] if step else a, step)]
            results = [a[part] for a in (out_row, out_col, residual, n_iter, status, added)]
            codes, step = None, m_step
            if amount == 0.0 and not plain and has_zero(given):
                lines = u if not u_step else u[part], u_step, v if not v_step else v[part], v_step
                given, codes = prune(R, C, given, m_step, lines, empty == "drop", bi, last - first)
                step = 1
            task = (R, C, given, step, *vectors, *options, scaled, write, *results)
            if small:
                place, many = 0, last - first
                while place != many:
                    pool.checkpoint()
                    place = _scale(*task, S, many, place, MOMENT)  # type: ignore[call-arg]
            else:
                pool.checkpoint()
                _large.scale(*task, num_threads)  # type: ignore[call-arg]
            if codes is not None:
                amend(codes, out_row[part], out_col[part], status[part])
            if write and scaled.dtype != dtype:
                out[part] = scaled

    seconds = n * R * C * SECONDS_PER_CELL[solver]
    pool.run_pieces(
        work,
        pool.pieces(n, seconds, tile=LANES if small else 1),
        seconds=seconds,
        num_threads=num_threads,
        progress=progress,
    )
    return (
        out.reshape(*batch, R, C) if write else out,
        out_row.reshape(*batch, R),
        out_col.reshape(*batch, C),
        residual.reshape(batch),
        n_iter.reshape(batch),
        status.reshape(batch),
        added.reshape(batch),
    )


def _lines(a, batch, default):
    """Return targets or factors as a flat batch of float64 and its step; `default` ones where none are given."""
    return (_ones(default), 0) if a is None else _flat(a.astype(np.float64, copy=False), batch, 1)


@cache
def _ones(n):
    ones = np.ones((1, n))
    ones.flags.writeable = False
    return ones


def _flat(a, batch, core):
    """Return `a` with one batch axis, and its step along the batch: 0 where every element shares it."""
    if math.prod(a.shape[: a.ndim - core]) == 1:
        return batches.flat_batch(a, core), 0
    return batches.flat_batch(np.broadcast_to(a, batch + a.shape[a.ndim - core :]), core), 1
