"""Matrix-free Newton steps by conjugate gradients, for tables of thousands of unknowns.

A product with the Hessian is a pass over the cells. The energy of a step is the sum of the squared log-scale changes of
the cells, each times the cell. The residual of the last step, and rounding of the targets, add at most their square
over the least eigenvalue. No cell changes by more than the square-rooted energy over the cell. Lanczos estimates
the least eigenvalue, run on a random right-hand side until its residual vanishes.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.newton import SOLVE
from cmfast.kernels.cpu.margins.tables.newton_system import scale_system
from cmfast.kernels.cpu.margins.tables.passes import advance_word, convert_to_perturbation
from cmfast.kernels.cpu.margins.tables.separate_steps import take_step
from cmfast.kernels.cpu.margins.tables.workspace import (
    CELL_ERROR,
    CELLS,
    LEVENBERG,
    PASSES,
    RESIDUAL,
    SLACK,
    STEP_NORM,
    STEPS,
    UNKNOWNS,
)
from cmfast.kernels.shared.conjugate_gradients import (
    EIGENVALUE_MARGIN,
    FINER_FORCING,
    FINER_STEPS,
    LEAST_FORCING,
    MOST_FORCING,
    MOST_FORMED_UNKNOWNS,
    MOST_PRODUCTS,
    least_eigenvalue,
)
from cmfast.kernels.shared.margins import MOST_ROUNDED_GAP
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR, STANDING, UNIT_ROUNDOFF
from cmfast.kernels.status import OK

MOST_FACTORIZED_UNKNOWNS = 20_000  # unknowns up to which the Hessian is formed where products fail: 3.2 GB
MOST_GRADIENT_STEPS = 60  # steps after which the Hessian is formed in any case
MAX_PROBE_PRODUCTS = 5000  # products for the estimate of the least eigenvalue
MOST_PROBE_RESIDUAL = 1e-8  # relative residual at which the estimate has converged
TARGET_ROUNDING = 2.0 * UNIT_ROUNDOFF  # relative rounding error of a target
PRODUCTS_PER_CHECK = 8  # products between two checks for interrupts


class Workspace(NamedTuple):
    """Iterate of conjugate gradients, in unknowns scaled to a unit diagonal."""

    solution: np.ndarray  # (unknowns + 1,)
    residual: np.ndarray
    direction: np.ndarray
    product: np.ndarray
    plain: np.ndarray  # the direction without scaling; its last entry, for free marginals, is zero
    squares: np.ndarray  # (products + 1,) squared norm of the residual after each product
    lengths: np.ndarray  # (products,) step lengths


def allocate_workspace(t):
    """Allocate the vectors of conjugate gradients."""
    most = max(MOST_PRODUCTS, MAX_PROBE_PRODUCTS)
    found, left, along, product, plain = np.zeros((5, int(t.counts[UNKNOWNS]) + 1))
    return Workspace(found, left, along, product, plain, np.zeros(most + 1), np.zeros(most))


def is_large(t):
    """Test whether a table has so many unknowns that conjugate gradients are tried first."""
    return int(t.counts[UNKNOWNS]) > MOST_FORMED_UNKNOWNS


def run_newton_steps(t, rules):
    """Run Newton steps by conjugate gradients; return the status, SOLVE where the Hessian must be formed."""
    space, may_form, status = allocate_workspace(t), t.counts[UNKNOWNS] <= MOST_FACTORIZED_UNKNOWNS, SOLVE
    while status == SOLVE:
        scale_system(t)
        met = _solve_step(
            t, space, min(MOST_FORCING, max(math.sqrt(t.state[RESIDUAL]), LEAST_FORCING)), MOST_ROUNDED_GAP, rules
        )
        if may_form and not (met and t.counts[STEPS] < MOST_GRADIENT_STEPS):
            return _restart(t)
        status = take_step(t, rules)
    if status == OK:
        t.state[CELL_ERROR] = _estimate_error(t, space, rules)
        if may_form and not t.state[CELL_ERROR] <= MOST_CELL_ERROR:
            return _restart(t)
    return status


def _restart(t):
    """Reset the step count and norm, so that steps with a formed Hessian continue from the present multipliers.

    Return SOLVE.
    """
    t.counts[STEPS], t.state[STEP_NORM] = 0, np.inf
    return SOLVE


def _solve_step(t, space, left, least, rules):
    """Solve for the Newton step to a relative residual of `left`, or to rounding `least`.

    Return whether that was met.
    """
    most = min(MOST_PRODUCTS, rules.max_iter - int(t.counts[PASSES]))
    met, number = run_conjugate_gradients(t, space, left, most, measure_noise(t, least))
    t.counts[PASSES] += number
    t.step[: len(space.solution)] = space.solution
    return met or t.counts[PASSES] >= rules.max_iter


def run_conjugate_gradients(t, space, left, most, least):
    """Solve for `t.step`, into the workspace.

    Return whether the residual is small enough, and the number of products.
    """
    reset_iterate(t, space)
    wanted, number = max(left * left * float(space.squares[0]), least), 0
    while number < most and space.squares[number] > wanted:
        pool.checkpoint()
        before, number = number, advance_iterate(t, space, wanted, number, min(number + PRODUCTS_PER_CHECK, most))
        if number == before:
            break
    return bool(space.squares[number] <= wanted), number


def _estimate_error(t, space, rules):
    """Return a bound of the relative error of a cell, after up to FINER_STEPS finer steps.

    Infinite where products fail.
    """
    least = estimate_least_eigenvalue(t, space)
    bound = _bound_cell_error(t, least)
    for number in range(FINER_STEPS):
        if bound == np.inf or (number > 0 and bound <= MOST_CELL_ERROR):
            break
        scale_system(t)
        _solve_step(t, space, FINER_FORCING, TARGET_ROUNDING, rules)
        if take_step(t, rules) != OK:
            return np.inf
        before, bound = bound, _bound_cell_error(t, least)
        if bound > STANDING * before:
            break
    return bound


def _bound_cell_error(t, least):
    """Return the largest relative error of a cell that the present residual and rounding of the targets allow."""
    scale_system(t)
    right = t.step[: t.counts[UNKNOWNS]]
    energy, cell = (
        (float((right * right).sum()) + measure_noise(t, TARGET_ROUNDING)) / EIGENVALUE_MARGIN,
        find_smallest_cell(t),
    )
    return math.sqrt(energy / least / cell) if least > 0.0 and cell > 0.0 else np.inf


def estimate_least_eigenvalue(t, space):
    """Estimate the least eigenvalue of the Hessian by Lanczos; 0 where that fails, infinite where the system is empty.

    The right-hand side is random in the range of the Hessian: its part for dependent marginals is removed first.
    """
    scale_system(t)
    n, number = int(t.counts[UNKNOWNS]), int(t.counts[CELLS])
    asked = np.bincount(t.codes[:number, 0], minlength=len(t.closed))
    state = t.state.copy()
    state[LEVENBERG] = 0.0
    even = t._replace(
        x=np.ones(len(t.x)),
        closed_goal=asked.astype(np.float64),
        goal=np.ones(n + 1),
        slack=(t.slack > 0.0).astype(np.float64),
        scale=np.ones(n + 1),
        state=state,
        step=np.zeros(n + 1),
    )
    multiply_random(even, space, t.scale)
    even.step[:] = space.product
    met, _ = run_conjugate_gradients(even, space, MOST_PROBE_RESIDUAL, MAX_PROBE_PRODUCTS, 0.0)
    if not met:
        return 0.0
    t.step[:n] = space.solution[:n] * t.scale[:n]
    met, products = run_conjugate_gradients(t, space, MOST_PROBE_RESIDUAL, MAX_PROBE_PRODUCTS, 0.0)
    t.counts[PASSES] += products
    if not met or products == 0:
        return np.inf if met else 0.0
    ratios = space.squares[1 : products + 1] / space.squares[:products]
    return least_eigenvalue(space.lengths[:products], ratios)


@jit()
def measure_noise(t, part):
    """Return the squared norm of a relative change `part` of all sums, scaled as the right-hand side is."""
    total = 0.0
    for k in range(t.counts[UNKNOWNS]):
        total += part * part * (t.sums[k] + t.slack[k] * t.goal[k])
    return total


@jit()
def find_smallest_cell(t):
    """Return the smallest scaled cell."""
    least = np.inf
    for c in range(t.counts[CELLS]):
        least = min(least, t.x[c])
    return least


@jit()
def reset_iterate(t, space):
    """Start conjugate gradients from zero: the residual is the right-hand side."""
    square = 0.0
    for k in range(t.counts[UNKNOWNS]):
        space.solution[k], space.residual[k], space.direction[k] = 0.0, t.step[k], t.step[k]
        square += t.step[k] * t.step[k]
    space.squares[0] = square


@jit()
def advance_iterate(t, space, wanted, number, most):
    """Run conjugate gradients until the squared residual is at most `wanted` or after `most` products.

    Return their number.
    """
    n = t.counts[UNKNOWNS]
    while number < most and space.squares[number] > wanted:
        _multiply(t, space)
        bend = 0.0
        for k in range(n):
            bend += space.direction[k] * space.product[k]
        if not 0.0 < bend < np.inf:
            break
        length, square = space.squares[number] / bend, 0.0
        for k in range(n):
            space.solution[k] += length * space.direction[k]
            space.residual[k] -= length * space.product[k]
            square += space.residual[k] * space.residual[k]
        ratio = square / space.squares[number]
        for k in range(n):
            space.direction[k] = space.residual[k] + ratio * space.direction[k]
        space.lengths[number], space.squares[number + 1] = length, square
        number += 1
    return number


@jit()
def multiply_random(t, space, scale):
    """Set the product to the Hessian times a random vector, whose entries are of the order of one over `scale`."""
    n, word = t.counts[UNKNOWNS], np.uint64(1)
    for k in range(n):
        word = advance_word(word)
        space.direction[k] = convert_to_perturbation(word) / scale[k] if scale[k] > 0.0 else 0.0
    _multiply(t, space)


@jit(inner=True, borrows=True)
def _multiply(t, space):
    """Compute the product of the Hessian (the Schur complement of the eliminated margin) and the direction."""
    n, m = t.counts[UNKNOWNS], t.codes.shape[1]
    for k in range(n):
        space.plain[k], space.product[k] = t.scale[k] * space.direction[k], 0.0
    space.plain[n] = 0.0
    for line in range(len(t.closed)):
        begin, stop, mean = t.first[line], t.first[line + 1], 0.0
        for c in range(begin, stop):
            z = 0.0
            for b in range(1, m):
                z += space.plain[t.codes[c, b]]
            t.z[c] = z
            mean += t.x[c] * z
        mean = mean / (t.closed_goal[line] * (1.0 + t.state[SLACK])) if t.closed[line] > 0.0 else 0.0
        for c in range(begin, stop):
            change = t.x[c] * (t.z[c] - mean)
            for b in range(1, m):
                space.product[t.codes[c, b]] += change
    for k in range(n):
        added = t.slack[k] * t.goal[k] * space.plain[k]
        space.product[k] = t.scale[k] * (space.product[k] + added) + t.state[LEVENBERG] * space.direction[k]
