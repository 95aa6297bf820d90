"""The loop over tiles: regular matrices the short way, those that ask for more the long one.

Both do the same operations in the same order, so it never shows in a result which way a matrix went.
"""

from typing import Any

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, some, splat, store
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._tile import LANES, Tile
from cmfast.kernels.cpu.scaling._tile_load import (
    begin,
    begin_regular,
    gather,
    is_regular,
    places,
    prepare,
    take_cells,
    take_targets,
)
from cmfast.kernels.cpu.scaling._tile_newton import newton, newton_by_rows
from cmfast.kernels.cpu.scaling._tile_sinkhorn import sinkhorn
from cmfast.kernels.cpu.scaling._tile_start import (
    begin_with_sweeps,
    pair_by_diagonal,
    paired_start,
    paired_sweeps,
    start,
)
from cmfast.kernels.cpu.scaling._tile_store import (
    blank_lost,
    divide_by_mean,
    finish,
    judge,
    measure,
    scatter,
    scatter_numbers,
    take_mean,
    write_cells,
    write_factors,
)
from cmfast.kernels.shared.scaling import Lines, Problem


@jit()
def scale_any(problem, tile, first, end, moment):
    """Scale the matrices of the problem from `first` to before `end`; return where to go on, `end` at the end.

    After a moment it returns in any case, so that the caller can be interrupted: below zero is the complement of where
    the tile begins that is under work.
    """
    p = Problem(*problem)
    t: Any = Tile(*tile)
    target, still, bound = p.goals
    limits = (target, still, p.last_width, p.max_iter)
    last = end - 1
    begun = first < 0
    first = ~first if begun else first
    cost = 3 * t.R * t.C if p.plain else t.C * t.C * (t.R + t.C)
    passes = max(1, moment // max(1, cost))
    while first <= last:
        if not begun:
            store(t.S, line.AMOUNT, splat(max(p.amount, 0.0)))
            gather(t, p.cells, p.m_step, Lines(*p.row_sums), Lines(*p.col_sums), first, last)
            prepare(t, p.drop and p.bi, p.amount < 0.0, p.plain)
            begin(t, Lines(*p.start_row), Lines(*p.start_col), first, last)
            if not p.plain:
                start(t)
        if p.plain:
            passes -= sinkhorn(t, target, still, p.max_iter, passes)
        else:
            passes -= newton(t, None, limits, passes) if t.R == t.C else newton_by_rows(t, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first
        finish(t, p.plain, p.tol, bound)
        blank_lost(t)
        scatter(t, p.out, p.out_row, p.out_col, first, last)
        scatter_numbers(t, p.residual, p.n_iter, p.status, p.smoothing, first, last)
        first += LANES
        if some(load(t.S, line.FAR) != 0.0):
            passes //= 2  # it took long to bring them near
        if passes <= 0 and first <= last:
            return first
    return end


@jit()
def scale_regular(problem, tile, first, end, moment, size):
    """Scale square matrices from `first` to before `end` that their diagonals pair, from no given factors, by Newton.

    `size` is a tuple of as many numbers as there are classes where rows and columns are to sum to one, which makes it
    straight-line code; else None. Return where to go on, and whether the tile there asks for more than this.
    """
    p = Problem(*problem)
    t: Any = Tile(*tile)
    target, still, bound = p.goals
    limits = (target, still, p.last_width, p.max_iter)
    last = end - 1
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, 2 * t.C * t.C * t.C))
    while first <= last:
        if not begun:
            store(t.S, line.AMOUNT, splat(p.amount))
            take_cells(t, size, p.cells, places(first, last, p.m_step))
            take_targets(t, size, Lines(*p.row_sums), Lines(*p.col_sums), first, last)
            if not is_regular(t):
                return first, True
            pair_by_diagonal(t, size)
            if some(load(t.S, line.PAIRED) == 0.0):
                return first, True
            begin_regular(t)
            paired_start(t, size)
            paired_sweeps(t, size)
        passes -= newton(t, size, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, False
        if not _leave(t, p, first, end, bound, size):
            return first, True
        first += LANES
        if passes <= 0 and first <= last:
            return first, False
    return end, False


@jit()
def scale_oblong(problem, tile, first, end, moment):
    """Do what ``scale_regular`` does for matrices that are not square."""
    p = Problem(*problem)
    t: Any = Tile(*tile)
    target, still, bound = p.goals
    limits = (target, still, p.last_width, p.max_iter)
    last = end - 1
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, t.C * t.C * (t.R + t.C)))
    while first <= last:
        if not begun:
            store(t.S, line.AMOUNT, splat(p.amount))
            take_cells(t, None, p.cells, places(first, last, p.m_step))
            take_targets(t, None, Lines(*p.row_sums), Lines(*p.col_sums), first, last)
            if not is_regular(t):
                return first, True
            begin_regular(t)
            begin_with_sweeps(t)
        passes -= newton_by_rows(t, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, False
        if not _leave(t, p, first, end, bound, None):
            return first, True
        first += LANES
        if passes <= 0 and first <= last:
            return first, False
    return end, False


@jit(inner=True)
def _leave(t, p, first, end, bound, size):
    """Put the factors in their gauge, measure and write the results; whether a plain product told that gauge."""
    take_mean(t, size)
    if some(load(t.S, line.SIMPLE) == 0.0):
        return False
    divide_by_mean(t, size)
    measure(t, size)
    judge(t, bound)
    blank_lost(t)
    if t.flip or first + LANES > end:
        scatter(t, p.out, p.out_row, p.out_col, first, end - 1)
    else:
        if p.out.shape[0] > 0:
            write_cells(t, size, p.out, first)
        write_factors(t, size, p.out_row, p.out_col, first)
    scatter_numbers(t, p.residual, p.n_iter, p.status, p.smoothing, first, end - 1)
    return True
