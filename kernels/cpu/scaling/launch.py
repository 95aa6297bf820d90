"""Matrix scaling to given margins: the launchers of ``ipf`` and ``ras`` and the loop over tiles."""

import math
from functools import cache
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, some
from cmfast.kernels.cpu.scaling import _large
from cmfast.kernels.cpu.scaling._tile import LANES, Tile, new_tile
from cmfast.kernels.cpu.scaling._tile_load import begin, gather, prepare
from cmfast.kernels.cpu.scaling._tile_newton import newton, start
from cmfast.kernels.cpu.scaling._tile_sinkhorn import sinkhorn
from cmfast.kernels.cpu.scaling._tile_store import finish, scatter, scatter_numbers
from cmfast.kernels.cpu.scaling._zeros_first import amend, has_zero, prune
from cmfast.kernels.shared.scaling import Lines, Problem, rules

CHUNK = 1 << 16  # cells converted to float64 at a time
# Where the fields of a problem stand that are tuples themselves.
FIRST_LINES, END_LINES = (Problem._fields.index(name) for name in ("row_sums", "amount"))
MOMENT = 1 << 25  # vectors of cells that a kernel goes through before it asks whether to go on: some tens of ms
SECONDS_PER_CELL = {"sinkhorn": 1e-7, "newton": 1.2e-8, "auto": 1.2e-8}


@jit()
def _scale(problem, tile, first, moment):
    """Scale the matrices of the problem from `first` on in a tile; return where to go on, their number at the end.

    After a moment it returns in any case, so that the caller can be interrupted: below zero is the complement of where
    the tile begins that is under work.
    """
    p = Problem(*problem)
    t: Any = Tile(*tile)
    target, still, bound = p.goals
    last = p.n - 1
    begun = first < 0
    first = ~first if begun else first
    cost = 3 * t.R * t.C if p.plain else t.C * t.C * (t.R + t.C)
    passes = max(1, moment // max(1, cost))
    while first <= last:
        if not begun:
            gather(t, p.cells, p.m_step, Lines(*p.row_sums), Lines(*p.col_sums), first, last)
            prepare(t, p.amount, p.drop and p.bi, p.plain)
            begin(t, Lines(*p.start_row), Lines(*p.start_col), first, last)
            if not p.plain:
                start(t)
        if p.plain:
            passes -= sinkhorn(t, target, still, p.max_iter, passes)
        else:
            passes -= newton(t, target, still, p.last_width, p.max_iter, passes)
        begun = some(load(t.S, t.active) != 0.0)
        if begun:
            return ~first
        finish(t, p.plain, p.tol, bound)
        scatter(t, p.out, p.out_row, p.out_col, first, last)
        scatter_numbers(t, p.residual, p.n_iter, p.status, p.smoothing, first, last)
        first += LANES
        if some(load(t.S, t.far) != 0.0):
            passes //= 2  # it took long to bring them near
        if passes <= 0 and first <= last:
            return first
    return p.n


def ipf(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Scale every matrix to the margins given, ones where None."""
    return _launch(M, row_sums, col_sums, start_row, start_col, write=True, **options)


def ras(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Return what ``ipf`` does but the matrices."""
    return _launch(M, row_sums, col_sums, start_row, start_col, write=False, **options)[1:]


def _launch(
    M, row_sums, col_sums, start_row, start_col, *, write, solver="auto", num_threads=None, progress=None, **options
):
    R, C = M.shape[-2:]
    vectors = [a for a in (row_sums, col_sums, start_row, start_col) if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors)) if vectors else M.shape[:-2]
    n = math.prod(batch)
    dtype = batches.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    cells, m_step = _flat(M, batch, 2)
    problem = Problem(
        R=R,
        C=C,
        n=n,
        cells=cells.reshape(len(cells), R * C),
        m_step=m_step,
        row_sums=_lines(row_sums, batch, R),
        col_sums=_lines(col_sums, batch, C),
        start_row=_lines(start_row, batch, 0),
        start_col=_lines(start_col, batch, 0),
        **rules(R, C, bi=row_sums is None and col_sums is None, solver=solver, **options),
        out=np.empty((n if write else 0, R * C), dtype),
        out_row=np.empty((n, R)),
        out_col=np.empty((n, C)),
        residual=np.empty(n),
        n_iter=np.empty(n, np.int64),
        status=np.empty(n, np.int8),
        smoothing=np.empty(n),
    )
    small = not problem.is_large
    flip = R < C and not problem.plain  # Newton's unknowns belong on the shorter side

    def work(_, start, stop):
        tile = new_tile(R, C, flip=flip, newton=not problem.plain) if small else None
        size = LANES * max(1, CHUNK // max(1, R * C * LANES))
        for first in range(start, stop, size):
            part = problem.part(first, min(first + size, stop))
            results, codes = part.out, None
            part = _in_float64(part)
            if part.amount == 0.0 and not part.plain and has_zero(part.cells):
                pruned, codes = prune(part)
                part = part._replace(cells=pruned, m_step=1)
            if small:
                _run(_flipped(part) if flip else part, tile)
            else:
                pool.checkpoint()
                _large.scale(part, num_threads)
            if codes is not None:
                amend(codes, part.out_row, part.out_col, part.status)
            if part.out is not results:
                results[:] = part.out

    seconds = n * R * C * SECONDS_PER_CELL[solver]
    pool.run_pieces(
        work,
        pool.pieces(n, seconds, tile=LANES if small else 1),
        seconds=seconds,
        num_threads=num_threads,
        progress=progress,
    )
    return (
        problem.out.reshape(*batch, R, C) if write else problem.out,
        problem.out_row.reshape(*batch, R),
        problem.out_col.reshape(*batch, C),
        *(a.reshape(batch) for a in (problem.residual, problem.n_iter, problem.status, problem.smoothing)),
    )


def _run(part, tile):
    """Scale small matrices; between the calls of the kernel it can be interrupted."""
    # In plain tuples: Numba checks the class of named ones, which a small matrix would notice.
    problem = (*part[:FIRST_LINES], *map(tuple, part[FIRST_LINES:END_LINES]), *part[END_LINES:])
    tile, place = tuple(tile), 0
    while place != part.n:
        pool.checkpoint()
        place = _scale(problem, tile, place, MOMENT)


def _in_float64(part):
    """Return the problem with cells and results in float64: read-only and not, so that kernels see one type."""
    if part.cells.dtype == part.out.dtype == np.float64:
        return part
    cells = np.ascontiguousarray(part.cells, np.float64)[:]
    cells.flags.writeable = False
    return part._replace(cells=cells, out=part.out if part.out.dtype == np.float64 else np.empty(part.out.shape))


def _flipped(part):
    """Return the problem with rows and columns swapped, but for cells and results: a tile swaps those."""
    return part._replace(
        R=part.C,
        C=part.R,
        row_sums=part.col_sums,
        col_sums=part.row_sums,
        start_row=part.start_col,
        start_col=part.start_row,
        out_row=part.out_col,
        out_col=part.out_row,
    )


def _lines(a, batch, default):
    """Return targets or factors as a flat batch of float64; `default` ones where none are given."""
    if a is None:
        return Lines(_ones(default), 0)
    flat, step = _flat(a.astype(np.float64, copy=False), batch, 1)
    return Lines(flat, step)


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
