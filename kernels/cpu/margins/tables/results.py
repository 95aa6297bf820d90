"""Results of one table: scaled cells, normalised factors of minimum norm, sums, and the residual measured again."""

import math

import numpy as np

from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.workspace import (
    CELL_ERROR,
    CELLS,
    FIXED_CELLS,
    HAS_MINIMUM_NORM,
    PASSES,
    SOFT,
    UNKNOWNS,
)
from cmfast.kernels.shared.margins import MOST_LOGARITHM_RESIDUAL, MOST_ROUNDS
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR
from cmfast.kernels.status import LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED

UNKNOWNS_PER_ROUND = 10  # unknowns for each step of conjugate gradients that is allowed


@jit(inner=True)
def write_result(t, layout, targets, rules, status, out, k):
    """Write the results and the final status of table `k`."""
    residual = np.nan
    if status <= MAX_ITER:
        residual = _write_table(t, layout, targets, rules, out.table[k], out.factors[k], out.achieved[k])
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


@jit(inner=True)
def _write_table(t, layout, targets, rules, out, factors, achieved):
    """Write the table, its factors and sums.

    Return the residual, infinite where a cell or factor left the float64 range. The factors of the first hard margin
    absorb the normalisation of all others.
    """
    out[:], factors[:], achieved[:] = 0.0, 1.0, 0.0
    vanished = False
    for c in range(t.counts[CELLS]):
        out[t.places[c]] = t.x[c]
        vanished |= not 0.0 < t.x[c] < np.inf
    for k in range(len(layout.places)):
        for b in range(layout.lines.shape[1]):
            achieved[layout.lines[k, b]] += out[layout.places[k]]
    worst = 0.0
    for b in range(len(t.totals)):
        missed, size = 0.0, 0.0
        for k in range(layout.offsets[b], layout.offsets[b + 1]):
            if targets[k] >= 0.0:
                goal = targets[k] if rules.slack[b] == 0.0 else _get_soft_goal(t, k)
                missed, size = missed + abs(achieved[k] - goal), size + goal
        worst = max(worst, missed / size if size > 0.0 else missed)
    if not t.counts[SOFT] and not t.counts[HAS_MINIMUM_NORM]:  # multipliers of soft margins define the goals
        _minimize_norm(t)
    n_closed = len(t.closed)
    for k in range(len(factors)):
        if k < n_closed:
            factors[k] = t.lift[k] if t.closed[k] > 0.0 else 0.0
        else:
            factors[k] = t.multipliers[t.numbers[k]]
    normalize_factors(layout, targets, rules, factors)
    for k in range(len(factors)):
        factors[k] = math.exp(factors[k]) if targets[k] != 0.0 else 0.0
        if not t.counts[SOFT]:  # factors of contradictory soft margins may leave the range
            vanished |= not factors[k] < np.inf or (factors[k] == 0.0 and targets[k] != 0.0)
    return np.inf if vanished else worst


@jit(inner=True, borrows=True)
def _get_soft_goal(t, line):
    """Return the goal of a marginal with a soft target."""
    if line < len(t.closed):
        return t.closed_goal[line]
    return t.goal[t.numbers[line]]  # 0 for free marginals


@jit(inner=True)
def _minimize_norm(t):
    """Replace the multipliers by the minimum-norm ones that scale the cells in the same way, by conjugate gradients."""
    n, closed = t.counts[UNKNOWNS], len(t.closed)
    found, r, p, product = (
        np.zeros(closed + n + 1),
        np.zeros(closed + n + 1),
        np.zeros(closed + n + 1),
        np.zeros(closed + n + 1),
    )
    copy_vector(t.lift, p)
    copy_vector(t.multipliers[: n + 1], p[closed:])
    _multiply_gram(t, p, r)
    copy_vector(r, p)
    left = _square(r)
    goal, most, rounds = (
        MOST_LOGARITHM_RESIDUAL * MOST_LOGARITHM_RESIDUAL * left,
        max(MOST_ROUNDS, n // UNKNOWNS_PER_ROUND),
        0,
    )
    while left > goal and rounds < most:
        square = _multiply_gram(t, p, product)
        if not square > 0.0:
            break
        length = left / square
        for k in range(len(p)):
            found[k] += length * p[k]
            r[k] -= length * product[k]
        before, left = left, _square(r)
        growth = left / before
        for k in range(len(p)):
            p[k] = p[k] * growth + r[k]
        rounds += 1
    if left <= goal:
        copy_vector(found[:closed], t.lift)
        copy_vector(found[closed : closed + n], t.multipliers)


@jit(inner=True, borrows=True)
def _square(a):
    """Return the sum of the squares of a vector."""
    total = 0.0
    for x in a:
        total += x * x
    return total


@jit(inner=True, borrows=True)
def _multiply_gram(t, y, out):
    """Compute A'A y for the incidence matrix A of cells by marginals; return the squared norm of A y."""
    n, closed, square = t.counts[UNKNOWNS], len(t.closed), 0.0
    out[:] = 0.0
    for c in range(t.counts[CELLS]):
        line = t.codes[c, 0]
        asked = t.closed[line] > 0.0
        z = y[line] if asked else 0.0
        for b in range(1, t.codes.shape[1]):
            z += y[closed + t.codes[c, b]]
        square += z * z
        if asked:
            out[line] += z
        for b in range(1, t.codes.shape[1]):
            if t.codes[c, b] < n:
                out[closed + t.codes[c, b]] += z
    return square


@jit(inner=True, borrows=True)
def normalize_factors(layout, targets, rules, factors):
    """Normalise log factors in place: mean zero in every hard, fully known margin but the first, which compensates."""
    first = rules.first
    if first < 0:
        return
    start, stop = layout.offsets[first], layout.offsets[first + 1]
    for k in range(start, stop):
        if not targets[k] >= 0.0:
            return
    for b in range(len(layout.offsets) - 1):
        total, number, known = 0.0, 0, b != first and rules.slack[b] == 0.0
        for k in range(layout.offsets[b], layout.offsets[b + 1]):
            known &= targets[k] >= 0.0
            if targets[k] > 0.0:
                total, number = total + factors[k], number + 1
        if not known or number == 0:
            continue
        mean = total / number
        for k in range(layout.offsets[b], layout.offsets[b + 1]):
            factors[k] -= mean
        for k in range(start, stop):
            factors[k] += mean
