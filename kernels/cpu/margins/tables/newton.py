"""Sweeps while they converge quickly, else Newton's method on the dual with one margin, met exactly, eliminated.

The caller forms and solves the Newton system between :func:`start_table` or :func:`take_step` and the next call.

A step of the length ``damped_step`` decreases the dual. The dual is convex, so it also decreases up to any longer step
at whose end it still falls: where solving takes much longer than a pass, a line search doubles the step.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.infeasibility import fix_zero_cells, is_infeasibility_certificate
from cmfast.kernels.cpu.margins.tables.passes import (
    advance_word,
    convert_to_perturbation,
    form_hessian,
    measure_amplification,
    measure_step,
    scale_cells,
    sum_cells,
    sweep,
)
from cmfast.kernels.cpu.margins.tables.setup import set_up_table
from cmfast.kernels.cpu.margins.tables.workspace import (
    CELL_ERROR,
    CELLS,
    CONVERGED_BY_SWEEPS,
    LEVENBERG,
    PASSES,
    PREVIOUS_STEP_NORM,
    RESIDUAL,
    SLACK,
    SOFT,
    STEP_NORM,
    STEPS,
    UNKNOWNS,
)
from cmfast.kernels.cpu.solver.cholesky import MOST_SMALL_UNKNOWNS
from cmfast.kernels.cpu.solver.newton import damped_step, has_stalled
from cmfast.kernels.shared.margins import CELLS_TOL, NUDGE, PROOFS_FROM
from cmfast.kernels.shared.scaling import (
    CLOSE,
    MOST_CELL_ERROR,
    NEWTON_STEPS,
    PATIENT_SWEEPS,
    PLAIN_SWEEPS,
    STANDING,
    UNIT_ROUNDOFF,
)
from cmfast.kernels.status import INFEASIBLE, MAX_ITER, OK, RANGE

SOLVE = -1  # status: the caller solves the Newton system
MAX_LENGTHENED_RAISE = 12.0  # largest log-scale raise of a cell by a lengthened step: the dual is flat far away


@jit(inner=True)
def start_table(t, cells, layout, targets, rules):
    """Set up a table and sweep it; return SOLVE, or its final status."""
    status = set_up_table(t, cells, layout, targets, rules.slack, rules.smoothing)
    if status != OK:
        return status
    scale_cells(t)
    sum_cells(t)
    t.counts[PASSES] = 1
    if t.counts[UNKNOWNS] == 0:
        t.state[STEP_NORM] = 0.0
    elif not t.counts[SOFT] and _sweep_to_convergence(t, rules.tol):
        return OK
    return _check_convergence(t, rules)


@jit(inner=True, borrows=True)
def _sweep_to_convergence(t, tol):
    """Sweep while few more sweeps are predicted; return whether margins and cells are accurate without a Newton step.

    Accurate cells need a perturbation to decay within a few sweeps; the error is then the last change times the
    amplification.
    """
    number, left, widest, m = 0, 0.0, np.inf, t.codes.shape[1]
    enough = min(CELLS_TOL * tol, MOST_CELL_ERROR)
    while number < PLAIN_SWEEPS or (t.state[RESIDUAL] > tol and left <= PATIENT_SWEEPS):
        before = t.state[RESIDUAL]
        widest = sweep(t)
        number += 1
        shrinks = 0.0 < t.state[RESIDUAL] < before < np.inf
        left = math.log(tol / t.state[RESIDUAL]) / math.log(t.state[RESIDUAL] / before) if shrinks else np.inf
    louder = m * measure_amplification(t) if t.state[RESIDUAL] <= tol else np.inf
    sum_cells(t)
    while louder * widest > enough and louder < np.inf:
        before = widest
        widest = sweep(t)
        number += 1
        if not widest < STANDING * before:
            break
    t.counts[PASSES] += number * m
    scale_cells(t)
    sum_cells(t)
    if not louder * widest <= enough or not t.state[RESIDUAL] <= tol:
        return False
    t.state[CELL_ERROR], t.state[STEP_NORM] = louder * max(widest, UNIT_ROUNDOFF), widest
    t.counts[CONVERGED_BY_SWEEPS] = 1
    return True


@jit(inner=True, borrows=True)
def take_step(t, rules):
    """Take the Newton step that was solved for; return SOLVE, or the final status."""
    n = t.counts[UNKNOWNS]
    for k in range(n):
        t.step[k] *= t.scale[k]
    t.step[n] = 0.0
    t.state[LEVENBERG] = NUDGE
    t.counts[STEPS] += 1
    t.counts[PASSES] += 1
    highest, widest = measure_step(t)
    if not widest < np.inf:
        return RANGE
    if t.counts[STEPS] >= PROOFS_FROM and (widest > CLOSE or t.state[RESIDUAL] > rules.tol):
        before = t.counts[CELLS]
        if (
            is_infeasibility_certificate(t, t.step_lift, t.step)
            or is_infeasibility_certificate(t, t.lift, t.multipliers)
            or fix_zero_cells(t)
        ):
            return INFEASIBLE
        if t.counts[CELLS] < before:  # restart: remaining cells may have shrunk with the removed ones
            highest, widest = 0.0, np.inf
            t.step[:], t.multipliers[:] = 0.0, 0.0
    length = damped_step(highest)
    t.state[PREVIOUS_STEP_NORM], t.state[STEP_NORM] = t.state[STEP_NORM], widest
    _update_multipliers(t, length)
    if n > MOST_SMALL_UNKNOWNS:
        _lengthen_step(t, rules, length, highest)
    return _check_convergence(t, rules)


@jit(inner=True, borrows=True)
def _update_multipliers(t, length):
    """Add `length` times the step to the multipliers, and recompute cells and sums."""
    for k in range(t.counts[UNKNOWNS]):
        t.multipliers[k] += length * t.step[k]
    scale_cells(t)
    sum_cells(t)


@jit(inner=True, borrows=True)
def _lengthen_step(t, rules, length, highest):
    """Double a damped step while the dual still decreases at its end, up to MAX_LENGTHENED_RAISE (line search)."""
    while length < 1.0 and t.counts[PASSES] < rules.max_iter:
        longer = min(1.0, 2.0 * length)
        if longer * highest > MAX_LENGTHENED_RAISE:
            break
        t.counts[PASSES] += 1
        _update_multipliers(t, longer - length)
        slope = 0.0
        for k in range(t.counts[UNKNOWNS]):
            slope += (t.sums[k] - t.goal[k]) * t.step[k]
        if not slope <= 0.0:
            t.counts[PASSES] += 1
            _update_multipliers(t, length - longer)
            break
        length = longer


@jit(inner=True, borrows=True)
def _check_convergence(t, rules):
    """Return OK where margins and cells have converged, MAX_ITER, RANGE, or SOLVE for another step."""
    residual, width = t.state[RESIDUAL], t.state[STEP_NORM]
    if not residual < np.inf:
        return RANGE
    stalled = has_stalled(width, t.state[PREVIOUS_STEP_NORM])
    if residual <= rules.tol and (width <= rules.last_width or stalled):
        t.state[CELL_ERROR] = width if stalled and width > rules.last_width else width * width
        return OK
    if t.counts[PASSES] >= rules.max_iter or t.counts[STEPS] >= NEWTON_STEPS:
        return MAX_ITER
    return SOLVE


@jit(inner=True)
def form_newton_system(t):
    """Form the Hessian and the right-hand side of the Newton system, scaled to a unit diagonal."""
    form_hessian(t)
    for k in range(t.counts[UNKNOWNS]):
        t.step[k] = t.scale[k] * (t.goal[k] - t.sums[k])


@jit(inner=True, borrows=True)
def perturb_targets(t, number):
    """Set the right-hand side to pseudo-random rounding errors of the targets, determined by `number`."""
    n, word = t.counts[UNKNOWNS], np.uint64(number + 1)
    for k in range(n):
        word = advance_word(word)
        t.step[k] = convert_to_perturbation(word) * UNIT_ROUNDOFF * t.sums[k]
    for line in range(len(t.closed)):
        word = advance_word(word)
        by = convert_to_perturbation(word) * UNIT_ROUNDOFF / (1.0 + t.state[SLACK])
        for c in range(t.first[line], t.first[line + 1] if t.closed[line] > 0.0 else t.first[line]):
            for b in range(1, t.codes.shape[1]):
                k = t.codes[c, b]
                if k < n:
                    t.step[k] -= by * t.x[c]
    for k in range(n):
        t.step[k] *= t.scale[k]


@jit(inner=True, borrows=True)
def record_perturbation(t):
    """Update the estimated cell error by the largest change of a log cell under the solved perturbation."""
    n = t.counts[UNKNOWNS]
    for k in range(n):
        t.step[k] *= t.scale[k]
    t.step[n] = 0.0
    _, widest = measure_step(t)
    t.state[CELL_ERROR] = max(t.state[CELL_ERROR], widest)
