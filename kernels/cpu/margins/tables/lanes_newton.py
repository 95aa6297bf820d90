"""Newton's method for eight tables at a time, in SIMD lanes, on the marginals that no others determine."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, fma, load, some, splat, store, where
from cmfast.kernels.cpu._core.vector_functions import exp, log
from cmfast.kernels.cpu.margins.tables import lanes_plan as plan
from cmfast.kernels.cpu.margins.tables.lanes_setup import scale_cells
from cmfast.kernels.cpu.solver.newton import has_stalled
from cmfast.kernels.shared.margins import CELL_PROBES, NUDGE
from cmfast.kernels.shared.scaling import CLOSE, LEAST_PIVOT, SAFE_WIDTH, UNIT_ROUNDOFF

MOST_LANE_STEPS = 12  # Newton steps of a regular table; one with cells that must vanish needs more


@jit(inner=True, borrows=True)
def run_newton(p, S, tol, last_width, passes, most):
    """Run Newton steps until every lane has converged or is left to the general path.

    `passes` of `most` are used already. Convergence needs a small step, so the Newton system is solved at least once
    unless it is empty.
    """
    store(S, plan.STEP_NORM, splat(np.inf if len(p.kept) > 0 else 0.0))
    store(S, plan.PREVIOUS_STEP_NORM, splat(np.inf))
    store(S, plan.ERROR, splat(0.0))
    store(S, plan.ACTIVE, load(S, plan.REGULAR))
    store(S, plan.N_ITER, splat(0.0))
    for k in range(p.step, p.step + p.n_lines):
        store(S, k, splat(0.0))
    for number in range(MOST_LANE_STEPS + 1):
        _check_convergence(
            p, S, tol, last_width, float(passes + number), number == MOST_LANE_STEPS or passes + number >= most
        )
        if not some(load(S, plan.ACTIVE) != 0.0):
            break
        _form_hessian(p, S)
        _factorize_hessian(p, S)
        store(S, plan.PREVIOUS_STEP_NORM, load(S, plan.STEP_NORM))
        _take_step(p, S)


@jit(inner=True, borrows=True)
def estimate_cell_errors(p, S):
    """Estimate how far rounding of the targets moves the cells, by random perturbations, after one more Newton step."""
    if len(p.kept) == 0 or not some(load(S, plan.REGULAR) != 0.0):
        return
    _form_hessian(p, S)
    _factorize_hessian(p, S)
    good = load(S, plan.REGULAR) != 0.0
    store(S, plan.ACTIVE, load(S, plan.REGULAR))
    _take_step(p, S)
    width, error = load(S, plan.STEP_NORM), load(S, plan.ERROR)
    store(S, plan.ERROR, where(width * width <= error, error, width * width))
    store(S, plan.N_ITER, load(S, plan.N_ITER) + 1.0)
    store(S, plan.REGULAR, where(good & (width <= CLOSE), 1.0, splat(0.0)))
    for number in range(CELL_PROBES):
        _perturb_targets(p, S, number)
        _solve_system(p, S)
        _measure_step(p, S)
        width, error = load(S, plan.STEP_NORM), load(S, plan.ERROR)
        store(S, plan.ERROR, where(width <= error, error, width))


@jit(inner=True, borrows=True)
def _take_step(p, S):
    """Compute and apply the Newton step from a factorisation, which may be that of a nearby iterate."""
    for i in range(len(p.kept)):
        k = p.kept[i]
        store(S, p.found + i, load(S, p.targets + k) - load(S, p.sums + k))
    _solve_system(p, S)
    _measure_step(p, S)
    _apply_step(p, S)
    scale_cells(p, S)


@jit(inner=True, borrows=True)
def _check_convergence(p, S, tol, last_width, passes, late):
    """Deactivate lanes that converged; those that overflowed, or are out of passes, become irregular."""
    active, residual = load(S, plan.ACTIVE) != 0.0, load(S, plan.RESIDUAL)
    width = load(S, plan.STEP_NORM)
    stalled = has_stalled(width, load(S, plan.PREVIOUS_STEP_NORM))
    right = active & (residual <= tol) & ((width <= last_width) | stalled)
    error = where(stalled & (width > last_width), width, 0.0)
    store(S, plan.ERROR, where(right, error, load(S, plan.ERROR)))
    store(S, plan.N_ITER, where(right, passes, load(S, plan.N_ITER)))
    lost = active & ~(residual < np.inf)
    if late:
        lost = active & ~right
    store(S, plan.REGULAR, where(lost, 0.0, load(S, plan.REGULAR)))
    store(S, plan.ACTIVE, where(active & ~right & ~lost, 1.0, splat(0.0)))


@jit(inner=True, borrows=True)
def _form_hessian(p, S):
    """Form the Hessian in the unknowns, the Schur complement of the eliminated margin, with damping on the diagonal."""
    n, w = len(p.kept), p.codes.shape[1]
    for k in range(p.equations, p.equations + n * (n + 1) // 2):
        store(S, k, splat(0.0))
    for e in range(len(p.crossed)):
        to = p.equations + p.crossed[e, 1]
        store(S, to, load(S, to) + load(S, p.x + p.crossed[e, 0]))
    for line in range(p.n_closed):
        start, number = p.firsts[line], p.firsts[line + 1] - p.firsts[line]
        for i in range(number):
            store(S, p.one + i, splat(0.0))
        for c in range(line * p.length, (line + 1) * p.length):
            x = load(S, p.x + p.places[c])
            for b in range(w):
                if p.slots[c, b] >= 0:
                    to = p.one + p.slots[c, b]
                    store(S, to, load(S, to) + x)
        share = -1.0 / load(S, p.targets + line)
        for i in range(number):
            k = p.touched[start + i]
            part, row = load(S, p.one + i) * share, p.equations + k * (k + 1) // 2
            for j in range(i + 1):
                to = row + p.touched[start + j]
                store(S, to, fma(part, load(S, p.one + j), load(S, to)))
    for i in range(n):
        to = p.equations + i * (i + 1) // 2 + i
        store(S, to, fma(load(S, p.sums + p.kept[i]), 1.0 + NUDGE, load(S, to)))


@jit(inner=True, borrows=True)
def _factorize_hessian(p, S):
    """Factorise the Hessian (LDL', right-looking, by blocks of four pivots); lanes with a small pivot become irregular.

    Rows keep their values at elimination; a row times the reciprocal of its pivot is its multiplier.
    """
    n, k = len(p.kept), 0
    while k < n:  # blocks of four pivots update the remaining rows, two at a time
        stop = min(k + 4, n)
        for a in range(k, stop):
            _eliminate_pivot(p, S, a, stop)
        i = stop
        while i < n:
            row = p.equations + i * (i + 1) // 2
            below = row + i + 1
            one, two, three, four = _compute_multipliers(p, S, row, k)
            other = p.equations + stop * (stop + 1) // 2 + k
            if i + 1 < n:
                five, six, seven, eight = _compute_multipliers(p, S, below, k)
                for j in range(stop, i + 1):
                    q, r, s, t = load(S, other), load(S, other + 1), load(S, other + 2), load(S, other + 3)
                    value = fma(two, r, fma(one, q, load(S, row + j)))
                    store(S, row + j, fma(four, t, fma(three, s, value)))
                    value = fma(six, r, fma(five, q, load(S, below + j)))
                    store(S, below + j, fma(eight, t, fma(seven, s, value)))
                    other += j + 1
                row, one, two, three, four = below, five, six, seven, eight
            else:
                for j in range(stop, i):
                    value = fma(two, load(S, other + 1), fma(one, load(S, other), load(S, row + j)))
                    store(S, row + j, fma(four, load(S, other + 3), fma(three, load(S, other + 2), value)))
                    other += j + 1
            last = min(i + 1, n - 1)
            value = fma(two, load(S, other + 1), fma(one, load(S, other), load(S, row + last)))
            store(S, row + last, fma(four, load(S, other + 3), fma(three, load(S, other + 2), value)))
            i += 2
        k = stop


@jit(inner=True, inline=True, borrows=True)
def _eliminate_pivot(p, S, a, stop):
    """Eliminate pivot `a` from the rows before `stop`."""
    own = p.equations + a * (a + 1) // 2 + a
    pivot = load(S, own)
    there = pivot > LEAST_PIVOT * load(S, p.sums + p.kept[a])
    store(S, plan.REGULAR, where(there, load(S, plan.REGULAR), 0.0))
    inverse = where(there, 1.0 / where(there, pivot, 1.0), 0.0)
    store(S, p.inverse + a, inverse)
    row = own + 1
    for i in range(a + 1, stop):
        part, other = -load(S, row + a) * inverse, own + 1
        for j in range(a + 1, i + 1):
            store(S, row + j, fma(part, load(S, other + a), load(S, row + j)))
            other += j + 1
        row += i + 1


@jit(inner=True, inline=True, borrows=True)
def _compute_multipliers(p, S, row, k):
    """Complete the entries of a row in four pivot columns from `k` on; return its multipliers for their rows."""
    second = p.equations + (k + 1) * (k + 2) // 2 + k
    third = second + k + 2
    fourth = third + k + 3
    one = -load(S, row + k) * load(S, p.inverse + k)
    value = fma(one, load(S, second), load(S, row + k + 1))
    store(S, row + k + 1, value)
    two = -value * load(S, p.inverse + k + 1)
    value = fma(two, load(S, third + 1), fma(one, load(S, third), load(S, row + k + 2)))
    store(S, row + k + 2, value)
    three = -value * load(S, p.inverse + k + 2)
    value = fma(two, load(S, fourth + 1), fma(one, load(S, fourth), load(S, row + k + 3)))
    value = fma(three, load(S, fourth + 2), value)
    store(S, row + k + 3, value)
    return one, two, three, -value * load(S, p.inverse + k + 3)


@jit(inner=True, borrows=True)
def _solve_system(p, S):
    """Solve for the step by forward and back substitution; writes it for the unknowns, by marginal."""
    n = len(p.kept)
    for k in range(n):
        y = -load(S, p.found + k) * load(S, p.inverse + k)
        at = p.equations + (k + 1) * (k + 2) // 2 + k
        for i in range(k + 1, n):
            store(S, p.found + i, fma(y, load(S, at), load(S, p.found + i)))
            at += i + 1
    for i in range(n - 1, -1, -1):
        y, row = load(S, p.found + i) * load(S, p.inverse + i), p.equations + i * (i + 1) // 2
        store(S, p.step + p.kept[i], y)
        for k in range(i):
            store(S, p.found + k, fma(-y, load(S, row + k), load(S, p.found + k)))


@jit(inner=True, borrows=True)
def _measure_step(p, S):
    """Store the largest raise and the largest change of a log cell by the step; infinite where a value is NaN."""
    highest, widest, whole = splat(0.0), splat(0.0), splat(0.0)
    for line in range(p.n_closed):
        most, least, mean = splat(-np.inf), splat(np.inf), splat(0.0)
        for c in range(line * p.length, (line + 1) * p.length):
            z = splat(0.0)
            for b in range(p.codes.shape[1]):
                z = z + load(S, p.step + p.codes[c, b])
            most, least = where(z > most, z, most), where(z < least, z, least)
            mean = fma(load(S, p.x + p.places[c]), z, mean)
        mean = mean / load(S, p.targets + line)
        most, least = most - mean, mean - least
        highest = where(most > highest, most, highest)
        widest = where(least > widest, least, widest)
        whole = whole + absolute(mean)
    widest = where(highest > widest, highest, widest)
    store(S, plan.LARGEST_RAISE, highest)
    store(S, plan.STEP_NORM, where(whole < np.inf, widest, np.inf))


@jit(inner=True, borrows=True)
def _apply_step(p, S):
    """Apply the step with damped length to the factors of active lanes."""
    highest, active = load(S, plan.LARGEST_RAISE), load(S, plan.ACTIVE) != 0.0
    length = splat(1.0)
    if some(highest > SAFE_WIDTH):
        most = log(1.0 + highest)
        most = where(most > SAFE_WIDTH, most, SAFE_WIDTH)
        length = where(highest > SAFE_WIDTH, most / where(highest > 0.0, highest, 1.0), 1.0)
    for i in range(len(p.kept)):
        at = p.factors + p.kept[i]
        factor = load(S, at)
        store(S, at, where(active, factor * exp(length * load(S, p.step + p.kept[i])), factor))


@jit(inner=True, borrows=True)
def _perturb_targets(p, S, number):
    """Set the right-hand side to the effect of rounding the targets by fixed pseudo-random amounts."""
    n = len(p.kept)
    for i in range(n):
        k = p.kept[i]
        store(S, p.found + i, (p.rounded[number, k] * UNIT_ROUNDOFF) * load(S, p.sums + k))
    for line in range(p.n_closed):
        by = -p.rounded[number, line] * UNIT_ROUNDOFF
        for c in range(line * p.length, (line + 1) * p.length):
            x = by * load(S, p.x + p.places[c])
            for b in range(p.codes.shape[1]):
                if p.slots[c, b] >= 0:
                    at = p.found + p.touched[p.firsts[line] + p.slots[c, b]]
                    store(S, at, load(S, at) + x)
