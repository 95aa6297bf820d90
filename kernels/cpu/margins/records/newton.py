"""Newton's method on the dual of raking for one set of weights, and an estimate of their error at its end."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.margins._consistency import reconcile
from cmfast.kernels.cpu.margins.records import infeasibility as proofs
from cmfast.kernels.cpu.margins.records import newton_system as equations
from cmfast.kernels.cpu.margins.records.distances import compute_weights
from cmfast.kernels.cpu.margins.records.search import DualSearch
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows, multiply
from cmfast.kernels.cpu.margins.records.sweeps import sweep_to_convergence
from cmfast.kernels.shared.conjugate_gradients import FINER_FORCING, FINER_STEPS, MOST_FORMED_UNKNOWNS
from cmfast.kernels.shared.margins import CELL_PROBES, PROOFS_FROM
from cmfast.kernels.shared.scaling import CLOSE, MOST_CELL_ERROR, NEWTON_STEPS, UNIT_ROUNDOFF, has_stalled
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED

EXPECTED_DECREASE = 0.5  # ratio of residuals above which a step counts as unsuccessful
DIRECT_STEPS = 40  # steps with soft targets before their importance is raised in stages
STAGE_STEPS = 40
STAGE_TOL = 1e-4
FIRST_IMPORTANCE, IMPORTANCE_GROWTH = 10.0, 4.0
MOST_PROGRAM_ENTRIES = 1 << 18  # entries of a design matrix up to which linear programs are tried
MOST_BOUND_DISTANCE = 1e-6  # a weight this near to a bound, over the distance of its bounds, may be at it
RATIO_NOISE = 1e-15  # rounding error of a log ratio over the magnitudes of its terms


class RakedWeights(NamedTuple):
    """Result of raking one set of weights."""

    status: int
    ratio: np.ndarray  # (rows,) weight over design weight
    multipliers: np.ndarray
    proof: np.ndarray
    error: float
    n_iter: int
    goals: np.ndarray  # the targets that were met, reconciled and softened
    least_sums: Any  # least denominator of the relative error of each column


def solve_dual(p, q, targets):
    """Find the multipliers of one set of weights; return its RakedWeights."""
    status = OK
    if p.layout is not None and np.isinf(p.soft).all():
        status = reconcile(p.layout, targets)
    before = q.copy()
    s = DualSearch(p, q, targets)
    if status == OK:
        status = s.drop_empty_targets()
    if status == OK:
        status = _solve(s)
    error = s.width
    if status == OK:
        status, error = _check_result(s)
    if _needs_linear_programs(s, status):
        status, error = _solve_with_linear_programs(s, status, error)
    if status == MAX_ITER and s.passes.count < p.max_iter:
        status = UNDETERMINED  # more passes would not help
    if status not in (OK, MAX_ITER, LIMIT_ONLY, UNDETERMINED):
        return RakedWeights(status, s.x, s.multipliers, s.proof, np.nan, s.passes.count, targets, s.least_sums)
    goals = np.where(s.asked | s.settled, s.compute_goals(), np.nan)
    ratio = np.empty(len(q))
    compute_weights(p.distance.code, (s.q > 0.0).astype(np.float64), (p.low, p.high), s.z, ratio, s.h, 0, len(q))
    if p.distance.linear:
        ratio[np.abs(ratio) <= RATIO_NOISE] = 0.0
    if s.held is not None:
        ratio[s.held] = s.held_at / before[s.held]
    return RakedWeights(status, ratio, s.multipliers, s.proof, error, s.passes.count, goals, s.least_sums)


def _needs_linear_programs(s, status):
    """Test whether linear programs may decide: no solution, or one at bounds that logit weights never reach."""
    p = s.p
    if p.distance.linear or len(p.rows.columns) > MOST_PROGRAM_ENTRIES or not (s.asked & s.hard).any():
        return False
    if status == RANGE or (status in (MAX_ITER, UNDETERMINED) and s.passes.count < p.max_iter):
        return True
    if not p.distance.reaches_no_bound or status not in (OK, LIMIT_ONLY):
        return False
    near = MOST_BOUND_DISTANCE * s.q * (p.high - p.low)
    return bool(((s.q > 0.0) & ((s.x - s.q * p.low < near) | (s.q * p.high - s.x < near))).any())


def _solve_with_linear_programs(s, status, error):
    """Fix weights by linear programs and solve again.

    Return the status and the estimated relative error of a weight.
    """
    from cmfast.kernels.cpu.margins.records import linear_programs as limits

    removed = s.removed
    if limits.resolve_by_linear_programs(s) == INFEASIBLE:
        return INFEASIBLE, error
    if s.removed == removed:
        return status, error
    status = _solve(s)
    return _check_result(s) if status == OK else (status, s.width)


def _check_result(s):
    """Return the status of weights whose totals are met, and their estimated relative error."""
    if not s.asked.any():
        return (LIMIT_ONLY if s.removed else OK), 0.0
    error = _estimate_error(s)
    if s.width == 0.0 and not error <= MOST_CELL_ERROR:  # the accuracy of sweeps does not suffice
        s.width = np.inf
        status = _run_newton(s, s.set_multipliers(s.multipliers), NEWTON_STEPS, s.p.tol)
        if status != OK:
            return status, s.width
        error = _estimate_error(s)
    return (UNDETERMINED if not error <= MOST_CELL_ERROR else LIMIT_ONLY if s.removed else OK), error


def _solve(s):
    """Solve by sweeps or Newton's method; return the status.

    Important soft targets that contradict each other have huge multipliers, which no step reaches from zero. Then the
    importance is raised in stages (continuation), each starting from the multipliers of the one before.
    """
    missed = s.compute_weights()
    if not s.asked.any() or sweep_to_convergence(s):
        s.width = 0.0
        return OK
    missed = np.where(s.asked, s.compute_goals() - s.sums, 0.0)
    soft = s.asked & ~s.hard & (s.soft > FIRST_IMPORTANCE)
    if not soft.any():
        return _run_newton(s, missed, NEWTON_STEPS, s.p.tol)
    status = _run_newton(s, missed, DIRECT_STEPS, s.p.tol)
    if status != MAX_ITER or s.passes.count >= s.p.max_iter:
        return status
    level, most = FIRST_IMPORTANCE, float(s.p.soft[soft].max())
    s.multipliers[s.asked] = 0.0
    while True:
        s.set_importance(np.minimum(s.p.soft, np.where(soft, level, np.inf)))
        s.steps, s.width, s.before = 0, np.inf, np.inf
        missed = s.set_multipliers(s.multipliers)
        if level >= most or s.passes.count >= s.p.max_iter:
            return _run_newton(s, missed, NEWTON_STEPS, s.p.tol)
        status = _run_newton(s, missed, STAGE_STEPS, STAGE_TOL)
        if status not in (OK, MAX_ITER, UNDETERMINED):
            return status
        level = min(IMPORTANCE_GROWTH * level, most)


def _run_newton(s, missed, most_steps, tol):
    """Run Newton steps until the totals are met and the last step is small; return the status."""
    p, earlier = s.p, np.inf
    while True:
        residual = s.residual()
        if not residual < np.inf:
            return RANGE
        stalled = has_stalled(s.width, s.before)
        if residual <= tol and (s.width <= p.last or stalled):
            return OK
        if stalled and residual <= min(_measure_multiplier_noise(s), MOST_CELL_ERROR):
            return UNDETERMINED
        if s.passes.count >= p.max_iter or s.steps >= most_steps:
            return MAX_ITER
        pool.checkpoint()
        d, z, widest, _ = s.compute_step(missed, equations.choose_forcing(residual, p.tol))
        s.steps += 1
        if not widest < np.inf:
            return RANGE
        falls, earlier = residual <= max(tol, EXPECTED_DECREASE * earlier), residual
        if s.held is None and (s.steps >= PROOFS_FROM or p.distance.linear) and not (widest <= CLOSE and falls):
            if proofs.prove_infeasible(s, d, z):
                return INFEASIBLE
            removed = s.removed
            if not p.distance.linear and proofs.remove_zero_weights(s, d, z) == INFEASIBLE:
                return INFEASIBLE
            if s.removed > removed:
                s.width = np.inf
                missed = s.set_multipliers(np.zeros(len(d)))
                continue
        s.before, s.width = s.width, widest
        t = s.choose_step_length(d, z, missed)
        missed = s.take_step(d, z, t)


def _measure_multiplier_noise(s):
    """Return the relative rounding error of weights that large multipliers cause."""
    rows = s.p.rows
    sizes = np.empty(len(s.q))
    magnitudes = SparseRows(rows.first, rows.columns, np.abs(rows.values))
    multiply(magnitudes, np.where(s.asked, np.abs(s.multipliers), 0.0), sizes, 0, len(sizes))
    return RATIO_NOISE * float(sizes.max(initial=0.0))


def _estimate_error(s):
    """Estimate the relative error of a weight, after one more step where that helps.

    It is the larger of the next step with the same factorisation and the effect of rounding the targets.
    """
    missed = s.set_multipliers(s.multipliers)
    if s.by_gradients:
        bound = _bound_error(s, missed)
        if bound <= MOST_CELL_ERROR or len(missed) > MOST_FORMED_UNKNOWNS:
            return bound
        s.by_gradients, missed = False, s.compute_weights()
    before, multipliers = s.residual(), s.multipliers.copy()
    d, z, worst, solve = s.compute_step(missed, 0.0)
    rounded = 0.0
    for change in _draw_probes(len(missed)):
        rounded = max(rounded, s.measure_step(*solve(np.where(s.asked, change * UNIT_ROUNDOFF * s.sizes, 0.0))))
    left = s.take_step(d, z)
    if s.residual() <= before:
        worst = s.measure_step(*solve(left))
    else:
        s.set_multipliers(multipliers)
    return max(worst, rounded)


@lru_cache(maxsize=16)
def _draw_probes(n: int) -> list[np.ndarray]:
    """Return the signs and sizes of the rounding errors that are tried, the same for each set of weights."""
    rng = np.random.default_rng(0)
    changes = [rng.uniform(-1.0, 1.0, n) for _ in range(CELL_PROBES)]
    return [change + np.copysign(0.5, change) for change in changes]  # no two cancel exactly, as signs might


def _bound_error(s, missed):
    """Return an upper bound of the relative error of a weight, after finer steps where it is too large."""
    for _ in range(FINER_STEPS):
        products = equations.ConjugateGradientSystem(s, missed)
        if products.bound_error(missed) <= MOST_CELL_ERROR:
            break
        d, z = products(missed, FINER_FORCING)
        missed = s.take_step(d, z)
    return equations.ConjugateGradientSystem(s, missed).bound_error(missed)
