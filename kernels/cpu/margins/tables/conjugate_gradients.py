"""Newton steps by conjugate gradients for tables of thousands of unknowns: the Hessian is never formed.

A product is a pass over the cells. What a step leaves, and what rounding the targets does, adds energy: the squares of
what cells change, each times the cell. No cell changes by more than the root of all energy over the cell, and there is
no more energy than the square of what is missed over the least eigenvalue. Products show that eigenvalue if they go on
until nothing is left of a right-hand side in which every direction takes part: one at random.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.newton import SOLVE, take_step
from cmfast.kernels.cpu.margins.tables.newton_system import scale_system
from cmfast.kernels.cpu.margins.tables.passes import advance_word, convert_to_perturbation
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

MOST_FACTORIZED_UNKNOWNS = 20_000  # unknowns up to which equations are formed where products do not do: 3.2 GB
MOST_GRADIENT_STEPS = 60  # until they are, whatever the steps took
MAX_PROBE_PRODUCTS = 5000  # products that may show the least eigenvalue
MOST_PROBE_RESIDUAL = 1e-8  # part of what is asked at random that is left when they have
TARGET_ROUNDING = 2.0 * UNIT_ROUNDOFF  # what rounding may do to a target
PRODUCTS_PER_CHECK = 8  # products


class Workspace(NamedTuple):
    """Where conjugate gradients are, in unknowns that are scaled as the table says."""

    solution: np.ndarray  # (unknowns + 1,)
    residual: np.ndarray
    direction: np.ndarray
    product: np.ndarray
    plain: np.ndarray  # the direction, not scaled; the last stands for nothing
    squares: np.ndarray  # (products + 1,) of what is left after each
    lengths: np.ndarray  # (products,)


def allocate_workspace(t):
    """Return space for as many products as are taken at a time."""
    most = max(MOST_PRODUCTS, MAX_PROBE_PRODUCTS)
    found, left, along, product, plain = np.zeros((5, int(t.counts[UNKNOWNS]) + 1))
    return Workspace(found, left, along, product, plain, np.zeros(most + 1), np.zeros(most))


def is_large(t):
    """Return whether a table has so many unknowns that products are tried first."""
    return int(t.counts[UNKNOWNS]) > MOST_FORMED_UNKNOWNS


def run_newton_steps(t, rules):
    """Take steps from where a table was opened; return its status, SOLVE where its equations are to be formed."""
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
    """Go on from here as if no step had been taken."""
    t.counts[STEPS], t.state[STEP_NORM] = 0, np.inf
    return SOLVE


def _solve_step(t, space, left, least, rules):
    """Solve for the step of a table until at most a part of its right-hand side is left; return whether that was met.

    Or until no more than `least` is, part of the sums: what rounding leaves.
    """
    most = min(MOST_PRODUCTS, rules.max_iter - int(t.counts[PASSES]))
    met, number = run_conjugate_gradients(t, space, left, most, measure_noise(t, least))
    t.counts[PASSES] += number
    t.step[: len(space.solution)] = space.solution
    return met or t.counts[PASSES] >= rules.max_iter


def run_conjugate_gradients(t, space, left, most, least):
    """Solve for `t.step`, into the space; return whether little enough is left, and the number of products."""
    reset_iterate(t, space)
    wanted, number = max(left * left * float(space.squares[0]), least), 0
    while number < most and space.squares[number] > wanted:
        pool.checkpoint()
        before, number = number, advance_iterate(t, space, wanted, number, min(number + PRODUCTS_PER_CHECK, most))
        if number == before:
            break
    return bool(space.squares[number] <= wanted), number


def _estimate_error(t, space, rules):
    """Return how far off a cell may be at most, after a finer step or a few; infinite where products fail."""
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
    """Return how far off a cell may be at most."""
    scale_system(t)
    right = t.step[: t.counts[UNKNOWNS]]
    energy, cell = (
        (float((right * right).sum()) + measure_noise(t, TARGET_ROUNDING)) / EIGENVALUE_MARGIN,
        find_smallest_cell(t),
    )
    return math.sqrt(energy / least / cell) if least > 0.0 and cell > 0.0 else np.inf


def estimate_least_eigenvalue(t, space):
    """Return the least eigenvalue, as a right-hand side at random shows it; zero where it does not, infinite of none.

    That must be one which cells can have: what is asked of lines that others can stand for is taken out of it.
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
    """Return the square of a part of all sums, as the right-hand side is scaled."""
    total = 0.0
    for k in range(t.counts[UNKNOWNS]):
        total += part * part * (t.sums[k] + t.slack[k] * t.goal[k])
    return total


@jit()
def find_smallest_cell(t):
    """Return the smallest cell."""
    least = np.inf
    for c in range(t.counts[CELLS]):
        least = min(least, t.x[c])
    return least


@jit()
def reset_iterate(t, space):
    """Begin with nothing: all of the right-hand side is left."""
    square = 0.0
    for k in range(t.counts[UNKNOWNS]):
        space.solution[k], space.residual[k], space.direction[k] = 0.0, t.step[k], t.step[k]
        square += t.step[k] * t.step[k]
    space.squares[0] = square


@jit()
def advance_iterate(t, space, wanted, number, most):
    """Take products until little enough is left or there are enough; return how many there are."""
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
    """Set the product to that with a direction at random, which is about as far along every line as others scale it."""
    n, word = t.counts[UNKNOWNS], np.uint64(1)
    for k in range(n):
        word = advance_word(word)
        space.direction[k] = convert_to_perturbation(word) / scale[k] if scale[k] > 0.0 else 0.0
    _multiply(t, space)


@jit(inner=True, borrows=True)
def _multiply(t, space):
    """Set the product of the second derivatives, the closed lines eliminated, with where it goes along."""
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
