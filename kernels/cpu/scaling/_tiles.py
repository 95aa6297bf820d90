"""The loop over tiles: straight-line code for a size, and loops for every other and for what few tiles need.

Both do the same operations in the same order, so it never shows in a result which way a matrix went.
"""

from collections import namedtuple
from typing import Any

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import fma, load, some, splat, store, where
from cmfast.kernels.cpu._core.vector_functions import offset_lanes
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._tile import ADMIT, BEGIN, GAUGE, LANES, LOOPS, PAIR, Tile, spell_out
from cmfast.kernels.cpu.scaling._tile_load import begin, find_zeros, is_regular, take_cells, take_targets
from cmfast.kernels.cpu.scaling._tile_newton import newton, newton_by_rows
from cmfast.kernels.cpu.scaling._tile_sinkhorn import sinkhorn
from cmfast.kernels.cpu.scaling._tile_start import (
    begin_with_sweeps,
    pair,
    pair_by_diagonal,
    paired_start,
    paired_sweeps,
)
from cmfast.kernels.cpu.scaling._tile_store import (
    blank_lost,
    divide_by_mean,
    even_out,
    find_gauge,
    judge,
    line_bound,
    measure,
    scale_cells,
    scatter,
    scatter_numbers,
    take_mean,
    write_cells,
    write_factors,
    write_numbers,
)
from cmfast.kernels.cpu.scaling._tile_unusual import admit, begin_from
from cmfast.kernels.shared.scaling import PAIRED_SWEEPS, Lines, ScalingProblem
from cmfast.kernels.status import MAX_ITER, OK

EVENED_PART = 0.5  # part of what columns miss that is left where rows take the rest of it, in the end

# A problem in three, so that each stage is handed only what it needs: the compiler writes out every field at each call.
GIVEN, RULES, OUT = (ScalingProblem._fields.index(name) for name in ("cells", "amount", "out"))
FIRST_LINES = ScalingProblem._fields.index("row_sums")
Given = namedtuple("Given", ScalingProblem._fields[GIVEN:RULES])  # type: ignore[misc]
Rules = namedtuple("Rules", ScalingProblem._fields[RULES:OUT])  # type: ignore[misc]
Out = namedtuple("Out", ScalingProblem._fields[OUT:])  # type: ignore[misc]


def in_tuples(problem):
    """Return what is given, the rules and what comes out of a problem, as kernels take it.

    In plain tuples: Numba checks the class of named ones, which a small matrix would notice.
    """
    lines = map(tuple, problem[FIRST_LINES:RULES])
    return (*problem[GIVEN:FIRST_LINES], *lines), tuple(problem[RULES:OUT]), tuple(problem[OUT:])


@jit(borrows=True)
def scale_square(problem, tile, first, end, moment, size, parts):
    """Scale square matrices of the problem from `first` to before `end` by Newton's method.

    `size` is a tuple of as many numbers as there are classes where rows and columns are to sum to one, which makes it
    straight-line code; else None. Return where to go on, `end` at the end, and what is needed there: a part that is
    not compiled yet, LOOPS, or 0. After a moment it returns in any case, so that the caller can be interrupted: below
    zero is the complement of where the tile begins that is under work.
    """
    given: Any = Given(*problem[0])
    rules: Any = Rules(*problem[1])
    out: Any = Out(*problem[2])
    t: Any = Tile(*tile)
    target, still, bound = rules.goals
    limits = (target, still, rules.last_width, rules.max_iter, EVENED_PART if rules.bi else 1.0)
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, 2 * t.C * t.C * t.C))
    while first < end:
        if not begun:
            needs = _fill(t, given, rules, first, end - 1, size, parts)
            needs = needs if needs != 0 else _start(t, given, first, end - 1, size, parts)
            if needs != 0:
                return first, needs
        passes -= newton(t, size, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, 0
        needs = _leave(t, out, first, end, (bound, rules.last_width, not rules.bi), size, None, parts)
        if needs != 0:
            return first, needs
        first += LANES
        passes = _passes_left(t, passes)
        if passes <= 0 and first < end:
            return first, 0
    return end, 0


@jit(borrows=True)
def scale_oblong(problem, tile, first, end, moment, size, parts):
    """Do what ``scale_square`` does for matrices that are not square; `size` is None."""
    given: Any = Given(*problem[0])
    rules: Any = Rules(*problem[1])
    out: Any = Out(*problem[2])
    t: Any = Tile(*tile)
    target, still, bound = rules.goals
    limits = (target, still, rules.last_width, rules.max_iter, EVENED_PART if rules.bi else 1.0)
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, t.C * t.C * (t.R + t.C)))
    while first < end:
        if not begun:
            needs = _fill(t, given, rules, first, end - 1, size, parts)
            if needs != 0:
                return first, needs
            begin_with_sweeps(t)
        passes -= newton_by_rows(t, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, 0
        needs = _leave(t, out, first, end, (bound, rules.last_width, not rules.bi), size, None, parts)
        if needs != 0:
            return first, needs
        first += LANES
        passes = _passes_left(t, passes)
        if passes <= 0 and first < end:
            return first, 0
    return end, 0


@jit(borrows=True)
def scale_plainly(problem, tile, first, end, moment, size, parts):
    """Do what ``scale_square`` does by sweeps alone, for matrices of any shape; `size` is None."""
    given: Any = Given(*problem[0])
    rules: Any = Rules(*problem[1])
    out: Any = Out(*problem[2])
    t: Any = Tile(*tile)
    target, still, bound = rules.goals
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, 3 * t.R * t.C))
    while first < end:
        if not begun:
            needs = _fill(t, given, rules, first, end - 1, size, parts)
            if needs != 0:
                return first, needs
        passes -= sinkhorn(t, target, still, rules.max_iter, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, 0
        needs = _leave(t, out, first, end, (bound, rules.last_width, False), size, rules.tol, parts)
        if needs != 0:
            return first, needs
        first += LANES
        passes = _passes_left(t, passes)
        if passes <= 0 and first < end:
            return first, 0
    return end, 0


@jit(inner=True, inline=True, borrows=True)
def _fill(t, given, rules, first, last, size, parts):
    """Fill the tile with the matrices from `first` to `last`; return what it needs."""
    store(t.S, line.AMOUNT, splat(max(rules.amount, 0.0)))
    take_cells(t, size, given.cells, offset_lanes(first, last, given.m_step))
    take_targets(t, size, Lines(*given.row_sums), Lines(*given.col_sums), first, last)
    begin(t)
    find_zeros(t)
    if rules.amount < 0.0 or not is_regular(t):
        if parts[ADMIT] == 0:
            return ADMIT
        needs = admit(parts, parts, t, rules.drop and rules.bi, rules.amount < 0.0, rules.plain, size is not None)
        if needs != 0:
            return needs
    if size is None:
        rows, cols = Lines(*given.start_row), Lines(*given.start_col)
        for j in range(t.C):
            store(t.S, t.y + j, splat(1.0))
        if rows.values.shape[1] > 0 or cols.values.shape[1] > 0 or some(load(t.S, line.FAR) != 0.0):
            if parts[BEGIN] == 0:
                return BEGIN
            begin_from(parts, t, rows, cols, first, last, False)
        if t.R != t.C:
            store(t.S, line.PAIRED, splat(0.0))
    return 0


@jit(inner=True, inline=True, borrows=True)
def _start(t, given, first, last, size, parts):
    """Find the pairing and the first factors; return what that needs."""
    S = t.S
    pair_by_diagonal(t, size)
    if some((load(S, line.PAIRED) == 0.0) & (load(S, line.ACTIVE) != 0.0)):
        if parts[PAIR] == 0:
            return PAIR
        pair(parts, t, size is not None, False)
        if size is not None and some((load(S, line.PAIRED) == 0.0) & (load(S, line.ACTIVE) != 0.0)):
            return LOOPS
    paired_start(t, size)
    if some(load(S, line.WARM) != 0.0):
        begin_from(parts, t, Lines(*given.start_row), Lines(*given.start_col), first, last, True)
    paired_sweeps(t, size)
    paired = load(S, line.ACTIVE) * load(S, line.PAIRED)
    store(S, line.N_ITER, fma(paired, float(PAIRED_SWEEPS), load(S, line.N_ITER)))
    return 0


@jit(inner=True, inline=True, borrows=True)
def _leave(t, out, first, end, goals, size, tol, parts):
    """Put the factors in their gauge, measure and write the results; return what that needs.

    `goals` are the residual that is CONVERGED, the width of the last step, and whether what is in doubt is marked.
    `tol` is None, but for plain sweeps, of which only the sums count.
    """
    S = t.S
    unusual = S[line.SPELT, 0] != 0.0
    if unusual:
        if some(load(S, line.PERMUTED) != 0.0):
            if parts[PAIR] == 0:
                return PAIR
            pair(parts, t, size is not None, True)
        if size is None:
            for j in range(t.C):
                store(S, t.y + j, where(load(S, t.v + j) > 0.0, load(S, t.y + j), 0.0))
    take_mean(t, size)
    if some(load(S, line.SIMPLE) == 0.0):
        if parts[GAUGE] == 0:
            return GAUGE
        find_gauge(parts, t, size is not None, False)
    divide_by_mean(t, size)
    if tol is not None:
        scale_cells(t)
    measure(t, size)
    bound, last_width, closer = goals
    if not closer and tol is None and some((load(S, line.LINE_ERROR) > bound) & (load(S, line.STATUS) == float(OK))):
        spell_out(t, size is not None)
        even_out(t, bound)
        measure(t, size)
    judge(t, bound, last_width, closer)
    if tol is not None:
        status = load(S, line.STATUS)
        fits = (load(S, line.RESIDUAL) <= tol) & (load(S, line.LINE_ERROR) <= line_bound(tol))
        fits = (status == float(MAX_ITER)) & fits
        store(S, line.STATUS, where(fits, float(OK), status))
    if some(load(S, line.FAR) != 0.0):
        find_gauge(parts, t, size is not None, True)
    blank_lost(t)
    whole = first + LANES <= end
    if t.flip or not whole:
        scatter(t, out.out, out.out_row, out.out_col, first, end - 1)
    else:
        if out.out.shape[0] > 0:
            write_cells(t, size, out.out, first)
        write_factors(t, size, out.out_row, out.out_col, first)
    if whole:
        write_numbers(t, out.residual, out.n_iter, out.status, out.smoothing, out.line_error, first)
    else:
        scatter_numbers(t, out.residual, out.n_iter, out.status, out.smoothing, out.line_error, first, end - 1)
    return 0


@jit(inner=True, borrows=True)
def _passes_left(t, passes):
    """Return how many passes are left in a moment: it took long to bring cells near."""
    return passes // 2 if some(load(t.S, line.FAR) != 0.0) else passes
