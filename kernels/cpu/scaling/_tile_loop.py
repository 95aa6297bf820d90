"""The loop over tiles: an unrolled kernel for known sizes, a looped kernel for all other sizes and for special cases.

Both run the same operations in the same order, so results do not depend on which of them scaled a matrix.
"""

from collections import namedtuple
from typing import Any

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import fma, load, some, splat, store, where
from cmfast.kernels.cpu._core.vector_functions import offset_lanes
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_flat import sweep_flat_lanes
from cmfast.kernels.cpu.scaling._tile_load import is_regular, load_cells, load_targets, mark_zeros, reset_state
from cmfast.kernels.cpu.scaling._tile_newton import run_newton, run_newton_rectangular
from cmfast.kernels.cpu.scaling._tile_pairing import (
    pair_by_diagonal,
    pair_lanes,
    start_paired,
    start_with_sweeps,
    sweep_pairs,
    sweep_pairs_further,
)
from cmfast.kernels.cpu.scaling._tile_results import (
    check_convergence,
    compute_extreme_mean,
    compute_mean_factor,
    halve_column_errors,
    line_bound,
    measure_residual,
    normalize_factors,
    scale_cells,
    scatter_results,
    scatter_scalars,
    set_failed_to_nan,
    write_cells,
    write_factors,
    write_scalars,
)
from cmfast.kernels.cpu.scaling._tile_sinkhorn import run_sinkhorn
from cmfast.kernels.cpu.scaling._tile_special_cases import check_and_equilibrate, set_initial_factors
from cmfast.kernels.cpu.scaling._tile_workspace import (
    CHECK_INPUT,
    EXTREME_MEAN,
    INITIAL_FACTORS,
    LANES,
    LOOPS,
    PAIR,
    Tile,
    write_defaults,
)
from cmfast.kernels.shared.scaling import (
    ENOUGH_ITERATIONS,
    FLAT_COLUMNS,
    MANY_COLUMNS,
    PAIRED_SWEEPS,
    Lines,
    ScalingProblem,
)
from cmfast.kernels.status import MAX_ITER, OK

EVENED_ERROR_SHARE = 0.5  # part of a column's error that `halve_column_errors` leaves; the rows take the rest

# A problem in three tuples, so that each stage gets only what it needs: the compiler copies every field at each call.
GIVEN, RULES, OUT = (ScalingProblem._fields.index(name) for name in ("cells", "amount", "out"))
FIRST_LINES = ScalingProblem._fields.index("row_sums")
Given = namedtuple("Given", ScalingProblem._fields[GIVEN:RULES])  # type: ignore[misc]
Rules = namedtuple("Rules", ScalingProblem._fields[RULES:OUT])  # type: ignore[misc]
Out = namedtuple("Out", ScalingProblem._fields[OUT:])  # type: ignore[misc]


def split_problem(problem):
    """Split a scaling problem into plain tuples of its inputs, its rules and its output arrays, as kernels take them.

    Plain, since Numba's type check of named tuples takes as long as scaling a small matrix.
    """
    lines = map(tuple, problem[FIRST_LINES:RULES])
    return (*problem[GIVEN:FIRST_LINES], *lines), tuple(problem[RULES:OUT]), tuple(problem[OUT:])


@jit(borrows=True)
def scale_square(problem, tile, first, end, moment, size, parts):
    """Scale square matrices from `first` to before `end` by Newton's method, tile by tile.

    `size` is a tuple with one number for each class where all targets are one, which selects the unrolled kernel, else
    None. Return the next matrix (`end` when done) and what it needs: a part that is not compiled yet, LOOPS, or 0.
    Returns after about `moment` vector operations, so that the caller can be interrupted; a negative first value is the
    complement of the first matrix of a tile whose iteration is to be continued.
    """
    given: Any = Given(*problem[0])
    rules: Any = Rules(*problem[1])
    out: Any = Out(*problem[2])
    t: Any = Tile(*tile)
    target, still, bound = rules.goals
    limits = (target, still, rules.last_width, rules.max_iter, EVENED_ERROR_SHARE if rules.bi else 1.0)
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, 2 * t.C * t.C * t.C))
    while first < end:
        if not begun:
            needs = _load_tile(t, given, rules, first, end - 1, size, parts)
            if needs == 0:
                needs = _find_start(t, given, first, end - 1, size, parts, (target, rules.max_iter))
            if needs != 0:
                return first, needs
        passes -= run_newton(t, size, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, 0
        needs = _finish_tile(t, out, first, end, (bound, rules.last_width, not rules.bi), size, None, parts)
        if needs != 0:
            return first, needs
        first += LANES
        passes = _count_passes_left(t, passes)
        if passes <= 0 and first < end:
            return first, 0
    return end, 0


@jit(borrows=True)
def scale_rectangular(problem, tile, first, end, moment, size, parts):
    """Scale rectangular matrices from `first` to before `end` by Newton's method, tile by tile.

    Returns as `scale_square`.
    """
    given: Any = Given(*problem[0])
    rules: Any = Rules(*problem[1])
    out: Any = Out(*problem[2])
    t: Any = Tile(*tile)
    target, still, bound = rules.goals
    limits = (target, still, rules.last_width, rules.max_iter, EVENED_ERROR_SHARE if rules.bi else 1.0)
    begun = first < 0
    first = ~first if begun else first
    passes = max(1, moment // max(1, t.C * t.C * (t.R + t.C)))
    while first < end:
        if not begun:
            needs = _load_tile(t, given, rules, first, end - 1, size, parts)
            if needs != 0:
                return first, needs
            start_with_sweeps(t)
        passes -= run_newton_rectangular(t, limits, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, 0
        needs = _finish_tile(t, out, first, end, (bound, rules.last_width, not rules.bi), size, None, parts)
        if needs != 0:
            return first, needs
        first += LANES
        passes = _count_passes_left(t, passes)
        if passes <= 0 and first < end:
            return first, 0
    return end, 0


@jit(borrows=True)
def scale_by_sinkhorn(problem, tile, first, end, moment, size, parts):
    """Scale matrices of any shape from `first` to before `end` by Sinkhorn sweeps, tile by tile.

    Returns as `scale_square`.
    """
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
            needs = _load_tile(t, given, rules, first, end - 1, size, parts)
            if needs != 0:
                return first, needs
        passes -= run_sinkhorn(t, target, still, rules.max_iter, passes)
        begun = some(load(t.S, line.ACTIVE) != 0.0)
        if begun:
            return ~first, 0
        needs = _finish_tile(t, out, first, end, (bound, rules.last_width, False), size, rules.tol, parts)
        if needs != 0:
            return first, needs
        first += LANES
        passes = _count_passes_left(t, passes)
        if passes <= 0 and first < end:
            return first, 0
    return end, 0


@jit(inner=True, inline=True, borrows=True)
def _load_tile(t, given, rules, first, last, size, parts):
    """Load the matrices from `first` to `last` into the tile and check them; return the part that is missing, or 0."""
    store(t.S, line.SMOOTHING, splat(max(rules.amount, 0.0)))
    load_cells(t, size, given.cells, offset_lanes(first, last, given.m_step))
    load_targets(t, size, Lines(*given.row_sums), Lines(*given.col_sums), first, last)
    reset_state(t)
    mark_zeros(t)
    if rules.amount < 0.0 or not is_regular(t):
        if parts[CHECK_INPUT] == 0:
            return CHECK_INPUT
        needs = check_and_equilibrate(
            parts, parts, t, rules.drop and rules.bi, rules.amount < 0.0, rules.plain, size is not None
        )
        if needs != 0:
            return needs
    if size is None:
        rows, cols = Lines(*given.start_row), Lines(*given.start_col)
        for j in range(t.C):
            store(t.S, t.y + j, splat(1.0))
        if rows.values.shape[1] > 0 or cols.values.shape[1] > 0 or some(load(t.S, line.EQUILIBRATED) != 0.0):
            if parts[INITIAL_FACTORS] == 0:
                return INITIAL_FACTORS
            set_initial_factors(parts, t, rows, cols, first, last, False)
        if t.R != t.C:
            store(t.S, line.PAIRED, splat(0.0))
    return 0


@jit(inner=True, inline=True, borrows=True)
def _find_start(t, given, first, last, size, parts, goal):
    """Pair rows with columns and set the initial factors of a tile; return the part that is missing, or 0."""
    S, (target, max_iter), settled = t.S, goal, splat(0.0) != 0.0
    if size is not None:
        store(S, line.MASS, splat(float(t.C)))  # else the loader has written it
    if t.C >= FLAT_COLUMNS and max_iter >= ENOUGH_ITERATIONS:
        settled = sweep_flat_lanes(t, target, size is not None)
        store(S, line.ACTIVE, where(settled, 0.0, load(S, line.ACTIVE)))
    if some(load(S, line.ACTIVE) != 0.0):
        needs = _pair_lanes_and_sweep(t, given, first, last, size, parts, (target, max_iter), settled)
        if needs != 0:
            return needs
    store(S, line.PAIRED, where(settled, 1.0, load(S, line.PAIRED)))
    store(S, line.ACTIVE, where(settled, 1.0, load(S, line.ACTIVE)))
    return 0


@jit(inner=True, inline=True, borrows=True)
def _pair_lanes_and_sweep(t, given, first, last, size, parts, goal, settled):
    """Pair rows with columns and set the initial factors, except those of lanes that are settled.

    Return as `_find_start`.
    """
    S, (target, max_iter) = t.S, goal
    pair_by_diagonal(t, size)
    store(S, line.PAIRED, where(settled, 1.0, load(S, line.PAIRED)))
    for j in range(t.C):
        store(S, t.d + j, load(S, t.y + j))
    if some((load(S, line.PAIRED) == 0.0) & (load(S, line.ACTIVE) != 0.0)):
        if parts[PAIR] == 0:
            return PAIR
        pair_lanes(parts, t, size is not None, False)
        if size is not None and some((load(S, line.PAIRED) == 0.0) & (load(S, line.ACTIVE) != 0.0)):
            return LOOPS
    start_paired(t, size)
    if some(load(S, line.WARM) != 0.0):
        set_initial_factors(parts, t, Lines(*given.start_row), Lines(*given.start_col), first, last, True)
    sweep_pairs(t, size)
    paired = load(S, line.ACTIVE) * load(S, line.PAIRED)
    store(S, line.N_ITER, fma(paired, float(PAIRED_SWEEPS), load(S, line.N_ITER)))
    if size is None and t.C >= MANY_COLUMNS and max_iter >= ENOUGH_ITERATIONS:
        sweep_pairs_further(t, target)
    if some(settled):
        for j in range(t.C):
            store(S, t.y + j, where(settled, load(S, t.d + j), load(S, t.y + j)))
    return 0


@jit(inner=True, inline=True, borrows=True)
def _finish_tile(t, out, first, end, goals, size, tol, parts):
    """Normalise the factors, measure the residuals, set statuses and write the results.

    Return the part that is missing, or 0. `goals` are the residual that counts as CONVERGED, the largest norm of the
    last step, and whether uncertain cells are marked UNDETERMINED. `tol` is None except for Sinkhorn sweeps, which are
    checked by their sums alone.
    """
    S = t.S
    unusual = S[line.DEFAULTS_WRITTEN, 0] != 0.0
    if unusual:
        if some(load(S, line.PERMUTED) != 0.0):
            if parts[PAIR] == 0:
                return PAIR
            pair_lanes(parts, t, size is not None, True)
        if size is None:
            for j in range(t.C):
                store(S, t.y + j, where(load(S, t.v + j) > 0.0, load(S, t.y + j), 0.0))
    compute_mean_factor(t, size)
    if some(load(S, line.PLAIN_MEAN) == 0.0):
        if parts[EXTREME_MEAN] == 0:
            return EXTREME_MEAN
        compute_extreme_mean(parts, t, size is not None, False)
    normalize_factors(t, size)
    if tol is not None:
        scale_cells(t)
    measure_residual(t, size)
    bound, last_width, closer = goals
    if not closer and tol is None and some((load(S, line.LINE_ERROR) > bound) & (load(S, line.STATUS) == float(OK))):
        write_defaults(t, size is not None)
        halve_column_errors(t, bound)
        measure_residual(t, size)
    check_convergence(t, bound, last_width, closer)
    if tol is not None:
        status = load(S, line.STATUS)
        fits = (load(S, line.RESIDUAL) <= tol) & (load(S, line.LINE_ERROR) <= line_bound(tol))
        fits = (status == float(MAX_ITER)) & fits
        store(S, line.STATUS, where(fits, float(OK), status))
    if some(load(S, line.EQUILIBRATED) != 0.0):
        compute_extreme_mean(parts, t, size is not None, True)
    set_failed_to_nan(t)
    whole = first + LANES <= end
    if t.flip or not whole:
        scatter_results(t, out.out, out.out_row, out.out_col, first, end - 1)
    else:
        if out.out.shape[0] > 0:
            write_cells(t, size, out.out, first)
        write_factors(t, size, out.out_row, out.out_col, first)
    if whole:
        write_scalars(t, out.residual, out.n_iter, out.status, out.smoothing, out.line_error, first)
    else:
        scatter_scalars(t, out.residual, out.n_iter, out.status, out.smoothing, out.line_error, first, end - 1)
    return 0


@jit(inner=True, borrows=True)
def _count_passes_left(t, passes):
    """Return the passes left before the next check for interrupts, halved for an equilibrated tile, which is slow."""
    return passes // 2 if some(load(t.S, line.EQUILIBRATED) != 0.0) else passes
