"""Tables scaled to margins over any of their axes: small ones side by side or in a kernel, large ones one at a time."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.margins.tables.conjugate_gradients import is_large, run_newton_steps
from cmfast.kernels.cpu.margins.tables.dense_sweeps import LEAST_SWEPT_CELLS, scale_by_sweeps
from cmfast.kernels.cpu.margins.tables.dense_traversal import make_plan
from cmfast.kernels.cpu.margins.tables.lanes import NOT_SOLVED, scale_lanes
from cmfast.kernels.cpu.margins.tables.lanes_plan import make_lanes_plan
from cmfast.kernels.cpu.margins.tables.minimum_norm import minimize_norm
from cmfast.kernels.cpu.margins.tables.newton import (
    SOLVE,
    form_newton_system,
    perturb_targets,
    record_perturbation,
    start_table,
    take_step,
)
from cmfast.kernels.cpu.margins.tables.newton_system import factorize_hessian, factorize_symbolically, solve_system
from cmfast.kernels.cpu.margins.tables.results import write_table
from cmfast.kernels.cpu.margins.tables.workspace import (
    CELL_ERROR,
    CONVERGED_BY_SWEEPS,
    FIXED_CELLS,
    LEVENBERG,
    PASSES,
    SOFT,
    UNKNOWNS,
    allocate_table,
)
from cmfast.kernels.cpu.solver.cholesky import MOST_SMALL_UNKNOWNS, factorize_upper, substitute_upper
from cmfast.kernels.shared import margins_layout as _layout
from cmfast.kernels.shared.margins import CELL_PROBES
from cmfast.kernels.shared.margins_layout import TableBatch, TableMargins
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR
from cmfast.kernels.status import LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED

SECONDS_PER_STEP = 4e-9  # of a cell or of a product in the elimination
TYPICAL_STEPS = 6


class _Out(NamedTuple):
    table: np.ndarray
    factors: np.ndarray
    achieved: np.ndarray
    residual: np.ndarray
    error: np.ndarray
    n_iter: np.ndarray
    status: np.ndarray


def ipf_nd(M, *targets, axes, ndim, **options):
    """Scale tables to margins over `axes`; return them, factors, sums, residual, error of cells, passes and status."""
    batch, shape = M.shape[: M.ndim - ndim], M.shape[M.ndim - ndim :]
    sweeps = math.prod(shape) >= LEAST_SWEPT_CELLS and options.get("importance") is None
    layout = (_layout.lines_of if sweeps else _layout.dense)(shape, axes)
    run = _scale_by_newton
    if options.get("importance") is None:
        run = (
            partial(_scale_by_sweeps, shape=shape, axes=axes)
            if sweeps
            else partial(_scale_by_newton, lanes=make_lanes_plan(shape, axes))
        )
    given = M.reshape(*batch, math.prod(shape))
    cells, *others = _scale_cells(given, targets, TableMargins(shape, axes, layout), run=run, **options)
    return cells.reshape(*cells.shape[:-1], *shape), *others


def ipf_cells(values, coords, *targets, axes, shape, **options):
    """Do so for the cells of tables of some shape that stand at `coords`, which are different; all others are zero."""
    margins = TableMargins(shape, axes, _layout.layout(shape, axes, list(coords)))
    return _scale_cells(values, targets, margins, run=_scale_by_newton, **options)


def _scale_cells(values, targets, margins, *, run, num_threads=None, progress=None, **options):
    """Scale tables of which cells are given in the order of a layout's places."""
    solve = partial(run, num_threads=num_threads, progress=progress)
    *arrays, residual, error, n_iter, status = _layout.scale_tables(
        values, targets, margins, solve, xp=np, batches=batches, **options
    )
    return *arrays, residual[()], error[()], n_iter[()], status[()]


def _allocate_results(n, n_cells, n_lines):
    """Return room for what becomes of a flat batch."""
    numbers = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int8)
    return _Out(np.empty((n, n_cells)), np.empty((n, n_lines)), np.empty((n, n_lines)), *numbers)


def _scale_by_sweeps(given, n, layout, rules, *, num_threads, progress, shape, axes):
    """Scale a flat batch of large tables by sweeps; only those of which more is to be done have their cells listed."""
    cells, cells_step, wanted, wanted_step = given
    rows, out = make_plan(shape, axes), _allocate_results(n, cells.shape[-1], int(layout.offsets[-1]))

    def scale(_, start, stop):
        for k in range(start, stop):
            pool.checkpoint()
            one, goals = cells[k * cells_step], wanted[k * wanted_step]
            if scale_by_sweeps(one, goals, layout, rows, rules, out, k):
                continue
            passes, listed = out.n_iter[k], _layout.dense(shape, axes)
            alone = TableBatch(one[None], 0, goals[None], 0)
            found = _scale_by_newton(alone, 1, listed, rules, num_threads=num_threads, progress=None)
            for array, own in zip(out, found, strict=True):
                array[k] = own[0]
            out.n_iter[k] += passes

    pool.run_pieces(scale, [(k, k + 1) for k in range(n)], seconds=1.0, num_threads=num_threads, progress=progress)
    return out


def _scale_by_newton(given, n, layout, rules, *, num_threads, progress, lanes=None):
    """Scale a flat batch, side by side what can be where there is a plan of it: that depends on each table alone."""
    n_cells, n_lines = len(layout.places), int(layout.offsets[-1])
    others = n_lines - int(layout.offsets[1])
    out = _allocate_results(n, given.cells.shape[-1], n_lines)
    problem = given, layout, rules, out
    if lanes is not None and n <= WIDTH and not _has_lane_table(given, rules.smoothing):
        lanes = None  # which would take seconds to compile, for nothing

    def scale(which):
        if others <= MOST_SMALL_UNKNOWNS:
            _scale_small(*problem, which)
            return
        for k in which:
            pool.checkpoint()
            _scale_large(*problem, k)

    def scale_range(start, stop):
        if lanes is None:
            scale(np.arange(start, stop))
            return
        scale_lanes(given, rules, out, lanes, start, stop)
        left = start + np.flatnonzero(out.status[start:stop] == NOT_SOLVED)
        if len(left):
            scale(left)

    options = {"num_threads": num_threads, "progress": progress}
    if lanes is None and others > MOST_SMALL_UNKNOWNS:
        pool.run_pieces(lambda _, *part: scale_range(*part), [(k, k + 1) for k in range(n)], seconds=1.0, **options)
        return out
    unknowns = others if lanes is None else len(lanes.kept) / 2
    work = TYPICAL_STEPS * (n_cells * len(layout.offsets) ** 2 + unknowns**3)
    pool.run(scale_range, (), n, seconds=n * work * SECONDS_PER_STEP, tile=1 if lanes is None else WIDTH, **options)
    return out


def _has_lane_table(given, smoothing):
    """Return whether any table may be one for lanes."""
    return (given.cells + smoothing > 0.0).all(-1).any() and (given.wanted > 0.0).all(-1).any()


@jit()
def _scale_small(given, layout, rules, out, which):
    n_lines, n_closed = layout.offsets[-1], layout.offsets[1]
    t = allocate_table(len(layout.places), layout.lines.shape[1], n_closed, n_lines, n_lines - n_closed)
    targets = np.empty(n_lines)
    for k in which:
        targets[:] = given.wanted[k * given.wanted_step]
        status = start_table(t, given.cells[k * given.cells_step], layout, targets, rules)
        n = t.counts[UNKNOWNS]
        while status == SOLVE:
            form_newton_system(t)
            factorize_upper(t.curvature, n)
            substitute_upper(t.curvature, n, t.step)
            status = take_step(t, rules)
        if status <= MAX_ITER and n > 0 and not t.counts[CONVERGED_BY_SWEEPS]:
            form_newton_system(t)
            factorize_upper(t.curvature, n)
            for number in range(CELL_PROBES):
                perturb_targets(t, number)
                substitute_upper(t.curvature, n, t.step)
                record_perturbation(t)
        write_result(t, layout, targets, rules, status, out, k)


@jit()
def write_result(t, layout, targets, rules, status, out, k):
    """Write what became of a table."""
    residual = np.nan
    if status <= MAX_ITER:
        residual = write_table(t, layout, targets, rules, out.table[k], out.factors[k], out.achieved[k])
        if not residual < np.inf:
            status = RANGE
    if status == OK:
        if residual > rules.tol:
            status = MAX_ITER
        elif not t.state[CELL_ERROR] <= MOST_CELL_ERROR:
            status = UNDETERMINED
        elif t.counts[FIXED_CELLS] > 0:
            status = LIMIT_ONLY
    if t.counts[FIXED_CELLS] > 0:
        out.factors[k] = np.nan
    out.residual[k], out.error[k], out.n_iter[k] = residual, t.state[CELL_ERROR], t.counts[PASSES]
    out.status[k] = status
    if status not in (OK, LIMIT_ONLY, MAX_ITER, UNDETERMINED):
        out.table[k], out.factors[k], out.achieved[k] = np.nan, np.nan, np.nan
        out.residual[k], out.error[k] = np.nan, np.nan


def make_large_workspace(layout):
    """Return room for a table whose equations stand elsewhere."""
    n_lines, n_closed = int(layout.offsets[-1]), int(layout.offsets[1])
    return allocate_table(len(layout.places), layout.lines.shape[1], n_closed, n_lines, 0)


def iterate(t, status, rules):
    """Take steps from where a table was opened; return its status, and the equations of the last step, if any."""
    if status == SOLVE and is_large(t):
        status = run_newton_steps(t, rules)
        if status != SOLVE:
            return status, None
    equations, removed = None, 0
    while status == SOLVE:
        pool.checkpoint()
        if equations is None or removed < t.counts[FIXED_CELLS]:
            equations, removed = factorize_symbolically(t), t.counts[FIXED_CELLS]
        _factorize_damped(t, equations)
        solve_system(t, equations)
        status = take_step(t, rules)
    return status, equations


def _factorize_damped(t, equations):
    """Find the root of the equations of a step, with a larger nudge where they have none."""
    while not factorize_hessian(t, equations):
        t.state[LEVENBERG] *= 10.0


def _scale_large(given, layout, rules, out, k):
    t, cells = make_large_workspace(layout), given.cells[k * given.cells_step]
    targets = given.wanted[k * given.wanted_step].copy()
    status, equations = iterate(t, start_table(t, cells, layout, targets, rules), rules)
    by_products = equations is None and is_large(t)
    if by_products and status == MAX_ITER:
        t.state[CELL_ERROR] = np.inf
    elif status <= MAX_ITER and t.counts[UNKNOWNS] > 0 and not t.counts[CONVERGED_BY_SWEEPS] and not by_products:
        if status == MAX_ITER:
            equations = factorize_symbolically(t)
            _factorize_damped(t, equations)
        for number in range(CELL_PROBES):
            perturb_targets(t, number)
            solve_system(t, equations)
            record_perturbation(t)
        if not t.counts[SOFT] and not t.counts[FIXED_CELLS]:
            minimize_norm(t, equations)
    write_result(t, layout, targets, rules, status, out, k)
