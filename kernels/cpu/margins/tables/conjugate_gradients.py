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
from cmfast.kernels.cpu.margins.tables.newton import SOLVE, stepped
from cmfast.kernels.cpu.margins.tables.newton_system import rescale
from cmfast.kernels.cpu.margins.tables.passes import next_word, random_change
from cmfast.kernels.cpu.margins.tables.workspace import (
    CELLS,
    LEVENBERG,
    PASSES,
    PROBED,
    RESIDUAL,
    SLACK,
    STEPS,
    UNKNOWNS,
    WIDTH,
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
MOST_SEEN = 5000  # products that may show the least eigenvalue
MOST_PROBE_RESIDUAL = 1e-8  # part of what is asked at random that is left when they have
TARGET_ROUNDING = 2.0 * UNIT_ROUNDOFF  # what rounding may do to a target
AT_ONCE = 8  # products


class Workspace(NamedTuple):
    """Where conjugate gradients are, in unknowns that are scaled as the table says."""

    found: np.ndarray  # (unknowns + 1,)
    left: np.ndarray
    along: np.ndarray
    product: np.ndarray
    plain: np.ndarray  # the direction, not scaled; the last stands for nothing
    squares: np.ndarray  # (products + 1,) of what is left after each
    lengths: np.ndarray  # (products,)


def allocate_workspace(t):
    """Return room for as many products as are taken at a time."""
    most = max(MOST_PRODUCTS, MOST_SEEN)
    found, left, along, product, plain = np.zeros((5, int(t.counts[UNKNOWNS]) + 1))
    return Workspace(found, left, along, product, plain, np.zeros(most + 1), np.zeros(most))


def is_large(t):
    """Return whether a table has so many unknowns that products are tried first."""
    return int(t.counts[UNKNOWNS]) > MOST_FORMED_UNKNOWNS


def steps_by_products(t, rules):
    """Take steps from where a table was opened; return its status, SOLVE where its equations are to be formed."""
    room, may_form, status = allocate_workspace(t), t.counts[UNKNOWNS] <= MOST_FACTORIZED_UNKNOWNS, SOLVE
    while status == SOLVE:
        rescale(t)
        met = _solve(
            t, room, min(MOST_FORCING, max(math.sqrt(t.state[RESIDUAL]), LEAST_FORCING)), MOST_ROUNDED_GAP, rules
        )
        if may_form and not (met and t.counts[STEPS] < MOST_GRADIENT_STEPS):
            return _anew(t)
        status = stepped(t, rules)
    if status == OK:
        t.state[PROBED] = _error(t, room, rules)
        if may_form and not t.state[PROBED] <= MOST_CELL_ERROR:
            return _anew(t)
    return status


def _anew(t):
    """Go on from here as if no step had been taken."""
    t.counts[STEPS], t.state[WIDTH] = 0, np.inf
    return SOLVE


def _solve(t, room, left, least, rules):
    """Solve for the step of a table until at most a part of its right-hand side is left; return whether that was met.

    Or until no more than `least` is, part of the sums: what rounding leaves.
    """
    most = min(MOST_PRODUCTS, rules.max_iter - int(t.counts[PASSES]))
    met, number = approached(t, room, left, most, noise(t, least))
    t.counts[PASSES] += number
    t.step[: len(room.found)] = room.found
    return met or t.counts[PASSES] >= rules.max_iter


def approached(t, room, left, most, least):
    """Solve for `t.step`, into the room; return whether little enough is left, and the number of products."""
    start(t, room)
    wanted, number = max(left * left * float(room.squares[0]), least), 0
    while number < most and room.squares[number] > wanted:
        pool.checkpoint()
        before, number = number, advanced(t, room, wanted, number, min(number + AT_ONCE, most))
        if number == before:
            break
    return bool(room.squares[number] <= wanted), number


def _error(t, room, rules):
    """Return how far off a cell may be at most, after a finer step or a few; infinite where products fail."""
    least = least_shown(t, room)
    bound = _bound(t, least)
    for number in range(FINER_STEPS):
        if bound == np.inf or (number > 0 and bound <= MOST_CELL_ERROR):
            break
        rescale(t)
        _solve(t, room, FINER_FORCING, TARGET_ROUNDING, rules)
        if stepped(t, rules) != OK:
            return np.inf
        before, bound = bound, _bound(t, least)
        if bound > STANDING * before:
            break
    return bound


def _bound(t, least):
    """Return how far off a cell may be at most."""
    rescale(t)
    right = t.step[: t.counts[UNKNOWNS]]
    energy, cell = (float((right * right).sum()) + noise(t, TARGET_ROUNDING)) / EIGENVALUE_MARGIN, smallest(t)
    return math.sqrt(energy / least / cell) if least > 0.0 and cell > 0.0 else np.inf


def least_shown(t, room):
    """Return the least eigenvalue, as a right-hand side at random shows it; zero where it does not, infinite of none.

    That must be one which cells can have: what is asked of lines that others can stand for is taken out of it.
    """
    rescale(t)
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
    at_random(even, room, t.scale)
    even.step[:] = room.product
    met, _ = approached(even, room, MOST_PROBE_RESIDUAL, MOST_SEEN, 0.0)
    if not met:
        return 0.0
    t.step[:n] = room.found[:n] * t.scale[:n]
    met, products = approached(t, room, MOST_PROBE_RESIDUAL, MOST_SEEN, 0.0)
    t.counts[PASSES] += products
    if not met or products == 0:
        return np.inf if met else 0.0
    ratios = room.squares[1 : products + 1] / room.squares[:products]
    return least_eigenvalue(room.lengths[:products], ratios)


@jit()
def noise(t, part):
    """Return the square of a part of all sums, as the right-hand side is scaled."""
    total = 0.0
    for k in range(t.counts[UNKNOWNS]):
        total += part * part * (t.sums[k] + t.slack[k] * t.goal[k])
    return total


@jit()
def smallest(t):
    """Return the smallest cell."""
    least = np.inf
    for c in range(t.counts[CELLS]):
        least = min(least, t.x[c])
    return least


@jit()
def start(t, room):
    """Begin with nothing: all of the right-hand side is left."""
    square = 0.0
    for k in range(t.counts[UNKNOWNS]):
        room.found[k], room.left[k], room.along[k] = 0.0, t.step[k], t.step[k]
        square += t.step[k] * t.step[k]
    room.squares[0] = square


@jit()
def advanced(t, room, wanted, number, most):
    """Take products until little enough is left or there are enough; return how many there are."""
    n = t.counts[UNKNOWNS]
    while number < most and room.squares[number] > wanted:
        _multiply(t, room)
        bend = 0.0
        for k in range(n):
            bend += room.along[k] * room.product[k]
        if not 0.0 < bend < np.inf:
            break
        length, square = room.squares[number] / bend, 0.0
        for k in range(n):
            room.found[k] += length * room.along[k]
            room.left[k] -= length * room.product[k]
            square += room.left[k] * room.left[k]
        ratio = square / room.squares[number]
        for k in range(n):
            room.along[k] = room.left[k] + ratio * room.along[k]
        room.lengths[number], room.squares[number + 1] = length, square
        number += 1
    return number


@jit()
def at_random(t, room, scale):
    """Set the product to that with a direction at random, which is about as far along every line as others scale it."""
    n, word = t.counts[UNKNOWNS], np.uint64(1)
    for k in range(n):
        word = next_word(word)
        room.along[k] = random_change(word) / scale[k] if scale[k] > 0.0 else 0.0
    _multiply(t, room)


@jit(inner=True, borrows=True)
def _multiply(t, room):
    """Set the product of the second derivatives, the closed lines eliminated, with where it goes along."""
    n, m = t.counts[UNKNOWNS], t.codes.shape[1]
    for k in range(n):
        room.plain[k], room.product[k] = t.scale[k] * room.along[k], 0.0
    room.plain[n] = 0.0
    for line in range(len(t.closed)):
        begin, stop, mean = t.first[line], t.first[line + 1], 0.0
        for c in range(begin, stop):
            z = 0.0
            for b in range(1, m):
                z += room.plain[t.codes[c, b]]
            t.z[c] = z
            mean += t.x[c] * z
        mean = mean / (t.closed_goal[line] * (1.0 + t.state[SLACK])) if t.closed[line] > 0.0 else 0.0
        for c in range(begin, stop):
            change = t.x[c] * (t.z[c] - mean)
            for b in range(1, m):
                room.product[t.codes[c, b]] += change
    for k in range(n):
        added = t.slack[k] * t.goal[k] * room.plain[k]
        room.product[k] = t.scale[k] * (room.product[k] + added) + t.state[LEVENBERG] * room.along[k]
