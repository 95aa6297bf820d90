"""The ops ``ipf_nd`` and ``ipf_cells``: scale tables to margins, small ones in SIMD lanes, large ones singly."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.margins.tables import separate_steps
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
from cmfast.kernels.cpu.margins.tables.results import write_result
from cmfast.kernels.cpu.margins.tables.workspace import (
    CELL_ERROR,
    CONVERGED_BY_SWEEPS,
    FIXED_CELLS,
    LEVENBERG,
    SOFT,
    UNKNOWNS,
    allocate_table,
)
from cmfast.kernels.cpu.solver.cholesky import MOST_SMALL_UNKNOWNS, factorize_upper, substitute_upper
from cmfast.kernels.shared import margins_layout as _layout
from cmfast.kernels.shared.margins import CELL_PROBES
from cmfast.kernels.shared.margins_layout import TableBatch, TableMargins
from cmfast.kernels.status import MAX_ITER

SECONDS_PER_STEP = 4e-9  # time for a cell, or for a multiplication in the factorisation
TYPICAL_STEPS = 6


class _Out(NamedTuple):
    """Results of a flat batch of tables."""

    table: np.ndarray
    factors: np.ndarray
    achieved: np.ndarray
    residual: np.ndarray
    error: np.ndarray
    n_iter: np.ndarray
    status: np.ndarray


def ipf_nd(M, *targets, axes, ndim, **options):
    """Scale tables to margins over `axes`; return tables, factors, sums and diagnostics.

    The diagnostics are the residual, the error of cells, the passes and the status.
    """
    batch, shape = M.shape[: M.ndim - ndim], M.shape[M.ndim - ndim :]
    sweeps = math.prod(shape) >= LEAST_SWEPT_CELLS and options.get("importance") is None
    layout = (_layout.make_cellless_layout if sweeps else _layout.make_dense_layout)(shape, axes)
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
    """Scale sparse tables of a shape, whose positive cells are at `coords` (all distinct), to margins over `axes`."""
    margins = TableMargins(shape, axes, _layout.make_sparse_layout(shape, axes, list(coords)))
    return _scale_cells(values, targets, margins, run=_scale_by_newton, **options)


def _scale_cells(values, targets, margins, *, run, num_threads=None, progress=None, **options):
    """Scale tables whose cells are given in the order of a layout."""
    solve = partial(run, num_threads=num_threads, progress=progress)
    *arrays, residual, error, n_iter, status = _layout.scale_tables(
        values, targets, margins, solve, xp=np, batches=batches, **options
    )
    return *arrays, residual[()], error[()], n_iter[()], status[()]


def _allocate_results(n, n_cells, n_lines):
    """Allocate the results of a flat batch of tables."""
    numbers = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int8)
    return _Out(np.empty((n, n_cells)), np.empty((n, n_lines)), np.empty((n, n_lines)), *numbers)


def _scale_by_sweeps(given, n, layout, rules, *, num_threads, progress, shape, axes):
    """Scale a flat batch of large dense tables by sweeps.

    Tables that need Newton's method get a list of their cells.
    """
    cells, cells_step, wanted, wanted_step = given
    rows, out = make_plan(shape, axes), _allocate_results(n, cells.shape[-1], int(layout.offsets[-1]))

    def scale(_, start, stop):
        """Scale the tables from `start` to before `stop` by sweeps, or by Newton's method where needed."""
        for k in range(start, stop):
            pool.checkpoint()
            one, goals = cells[k * cells_step], wanted[k * wanted_step]
            if scale_by_sweeps(one, goals, layout, rows, rules, out, k):
                continue
            passes, listed = out.n_iter[k], _layout.make_dense_layout(shape, axes)
            alone = TableBatch(one[None], 0, goals[None], 0)
            found = _scale_by_newton(alone, 1, listed, rules, num_threads=num_threads, progress=None)
            for array, own in zip(out, found, strict=True):
                array[k] = own[0]
            out.n_iter[k] += passes

    pool.run_pieces(scale, [(k, k + 1) for k in range(n)], seconds=1.0, num_threads=num_threads, progress=progress)
    return out


def _scale_by_newton(given, n, layout, rules, *, num_threads, progress, lanes=None):
    """Scale a flat batch of tables by sweeps and Newton's method, eight regular tables at a time in SIMD lanes.

    Whether a table is scaled in a lane depends on that table alone.
    """
    n_cells, n_lines = len(layout.places), int(layout.offsets[-1])
    others = n_lines - int(layout.offsets[1])
    out = _allocate_results(n, given.cells.shape[-1], n_lines)
    problem = given, layout, rules, out
    if lanes is not None and n <= WIDTH and not _has_lane_table(given, rules.smoothing):
        lanes = None  # compiling the lanes would take seconds without use

    def scale(which):
        """Scale the tables at `which` by the general path."""
        if others <= MOST_SMALL_UNKNOWNS:
            _scale_small(*problem, which)
            return
        for k in which:
            pool.checkpoint()
            _scale_large(*problem, k)

    def scale_range(start, stop):
        """Scale the tables from `start` to before `stop`, regular ones in SIMD lanes."""
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
    """Test whether any table has only positive cells and targets, as lanes need."""
    return (given.cells + smoothing > 0.0).all(-1).any() and (given.wanted > 0.0).all(-1).any()


@jit()
def _scale_small(given, layout, rules, out, which):
    """Scale the tables at `which`, with the Newton system in a dense matrix."""
    n_lines, n_closed = layout.offsets[-1], layout.offsets[1]
    t = allocate_table(len(layout.places), layout.lines.shape[1], n_closed, n_lines, n_lines - n_closed)
    targets = np.empty(n_lines)
    for k in which:
        copy_vector(given.wanted[k * given.wanted_step], targets)
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


def make_large_workspace(layout):
    """Allocate a table workspace without a dense Hessian."""
    n_lines, n_closed = int(layout.offsets[-1]), int(layout.offsets[1])
    return separate_steps.allocate_table(len(layout.places), layout.lines.shape[1], n_closed, n_lines, 0)


def iterate(t, status, rules):
    """Run Newton steps until the status is final; return it and the factorised system, None if none was formed."""
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
        status = separate_steps.take_step(t, rules)
    return status, equations


def _factorize_damped(t, equations):
    """Factorise the Hessian with Levenberg-Marquardt damping, increased tenfold until all pivots are positive."""
    while not factorize_hessian(t, equations):
        t.state[LEVENBERG] *= 10.0


def _scale_large(given, layout, rules, out, k):
    """Scale table `k` with a sparse Newton system or conjugate gradients."""
    t, cells = make_large_workspace(layout), given.cells[k * given.cells_step]
    targets = given.wanted[k * given.wanted_step].copy()
    status, equations = iterate(t, separate_steps.start_table(t, cells, layout, targets, rules), rules)
    by_products = equations is None and is_large(t)
    if by_products and status == MAX_ITER:
        t.state[CELL_ERROR] = np.inf
    elif status <= MAX_ITER and t.counts[UNKNOWNS] > 0 and not t.counts[CONVERGED_BY_SWEEPS] and not by_products:
        if status == MAX_ITER:
            equations = factorize_symbolically(t)
            _factorize_damped(t, equations)
        for number in range(CELL_PROBES):
            separate_steps.perturb_targets(t, number)
            solve_system(t, equations)
            separate_steps.record_perturbation(t)
        if not t.counts[SOFT] and not t.counts[FIXED_CELLS]:
            minimize_norm(t, equations)
    separate_steps.write_result(t, layout, targets, rules, status, out, k)
