"""Newton's method on the dual of raking for one set of weights, and an estimate of their error at its end."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.margins._consistency import reconcile
from cmfast.kernels.cpu.margins.records import infeasibility as proofs
from cmfast.kernels.cpu.margins.records import newton_system as equations
from cmfast.kernels.cpu.margins.records.search import Search
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows, compute_weights, multiply
from cmfast.kernels.cpu.margins.records.sweeps import swept
from cmfast.kernels.shared.conjugate_gradients import FINER_FORCING, FINER_STEPS, MOST_FORMED_UNKNOWNS
from cmfast.kernels.shared.margins import CELL_PROBES, LINEAR, LOGIT, PROOFS_FROM
from cmfast.kernels.shared.scaling import CLOSE, MOST_CELL_ERROR, NEWTON_STEPS, UNIT_ROUNDOFF, has_stalled
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED

FALLS = 0.5  # of the residual before, at most, where a step does as it should
DIRECT_STEPS = 40  # where targets need not be met, until their importance is raised by and by
STAGE_STEPS = 40
STAGE_TOL = 1e-4
FIRST_IMPORTANCE, RAISED = 10.0, 4.0
MOST_PROGRAM_ENTRIES = 1 << 18  # of a design, for linear programs
MOST_BOUND_DISTANCE = 1e-6  # part of the distance of its bounds within which a weight may be at one
RATIO_NOISE = 1e-15  # of the largest product of an entry and its multiplier


class RakedWeights(NamedTuple):
    """What became of one set of weights."""

    status: int
    ratio: np.ndarray  # of each row: its weight over the one that it had
    multipliers: np.ndarray
    proof: np.ndarray
    error: float
    n_iter: int
    goals: np.ndarray  # the targets that were met: made to agree, and softened
    least_sums: Any  # of each column, that what is missed of it is compared with


def search(p, q, targets):
    """Find the multipliers of one element."""
    status = OK
    if p.layout is not None and np.isinf(p.soft).all():
        status = reconcile(p.layout, targets)
    before = q.copy()
    s = Search(p, q, targets)
    if status == OK:
        status = s.open()
    if status == OK:
        status = _solved(s)
    error = s.width
    if status == OK:
        status, error = _judged(s)
    if _is_doubtful(s, status):
        status, error = _settled(s, status, error)
    if status == MAX_ITER and s.passes.count < p.max_iter:
        status = UNDETERMINED  # more passes change nothing
    if status not in (OK, MAX_ITER, LIMIT_ONLY, UNDETERMINED):
        return RakedWeights(status, s.x, s.multipliers, s.proof, np.nan, s.passes.count, targets, s.least_sums)
    goals = np.where(s.asked | s.settled, s.goals(), np.nan)
    ratio = np.empty(len(q))
    compute_weights(p.rule, (s.q > 0.0).astype(np.float64), (p.low, p.high), s.z, ratio, s.h, 0, len(q))
    if p.rule == LINEAR:
        ratio[np.abs(ratio) <= RATIO_NOISE] = 0.0
    if s.held is not None:
        ratio[s.held] = s.held_at / before[s.held]
    return RakedWeights(status, ratio, s.multipliers, s.proof, error, s.passes.count, goals, s.least_sums)


def _is_doubtful(s, status):
    """Return whether linear programs can say more: no answer was found, or one at bounds that no weight reaches."""
    p = s.p
    if p.rule == LINEAR or len(p.rows.columns) > MOST_PROGRAM_ENTRIES or not (s.asked & s.hard).any():
        return False
    if status == RANGE or (status in (MAX_ITER, UNDETERMINED) and s.passes.count < p.max_iter):
        return True
    if p.rule != LOGIT or status not in (OK, LIMIT_ONLY):
        return False
    near = MOST_BOUND_DISTANCE * s.q * (p.high - p.low)
    return bool(((s.q > 0.0) & ((s.x - s.q * p.low < near) | (s.q * p.high - s.x < near))).any())


def _settled(s, status, error):
    """Return the status, and about how far off a weight is, after linear programs have said what records can have."""
    from cmfast.kernels.cpu.margins.records import linear_programs as limits

    removed = s.removed
    if limits.settle(s) == INFEASIBLE:
        return INFEASIBLE, error
    if s.removed == removed:
        return status, error
    status = _solved(s)
    return _judged(s) if status == OK else (status, s.width)


def _judged(s):
    """Return the status of weights whose totals are met, and about how far off one is."""
    if not s.asked.any():
        return (LIMIT_ONLY if s.removed else OK), 0.0
    error = _error(s)
    if s.width == 0.0 and not error <= MOST_CELL_ERROR:  # sweeps are not enough
        s.width = np.inf
        status = _newton(s, s.set(s.multipliers), NEWTON_STEPS, s.p.tol)
        if status != OK:
            return status, s.width
        error = _error(s)
    return (UNDETERMINED if not error <= MOST_CELL_ERROR else LIMIT_ONLY if s.removed else OK), error


def _solved(s):
    """Take the steps; return the status.

    Targets of great importance that contradict each other have multipliers as large as that, which no step reaches.
    Then importance is raised by and by, each time from the multipliers that it had before.
    """
    missed = s.compute_weights()
    if not s.asked.any() or swept(s):
        s.width = 0.0
        return OK
    missed = np.where(s.asked, s.goals() - s.sums, 0.0)
    soft = s.asked & ~s.hard & (s.soft > FIRST_IMPORTANCE)
    if not soft.any():
        return _newton(s, missed, NEWTON_STEPS, s.p.tol)
    status = _newton(s, missed, DIRECT_STEPS, s.p.tol)
    if status != MAX_ITER or s.passes.count >= s.p.max_iter:
        return status
    level, most = FIRST_IMPORTANCE, float(s.p.soft[soft].max())
    s.multipliers[s.asked] = 0.0
    while True:
        s.raise_to(np.minimum(s.p.soft, np.where(soft, level, np.inf)))
        s.steps, s.width, s.before = 0, np.inf, np.inf
        missed = s.set(s.multipliers)
        if level >= most or s.passes.count >= s.p.max_iter:
            return _newton(s, missed, NEWTON_STEPS, s.p.tol)
        status = _newton(s, missed, STAGE_STEPS, STAGE_TOL)
        if status not in (OK, MAX_ITER, UNDETERMINED):
            return status
        level = min(RAISED * level, most)


def _newton(s, missed, most_steps, tol):
    """Take steps until the totals are met and the last step was small; return the status."""
    p, earlier = s.p, np.inf
    while True:
        residual = s.residual()
        if not residual < np.inf:
            return RANGE
        stalled = has_stalled(s.width, s.before)
        if residual <= tol and (s.width <= p.last or stalled):
            return OK
        if stalled and residual <= min(_noise(s), MOST_CELL_ERROR):
            return UNDETERMINED
        if s.passes.count >= p.max_iter or s.steps >= most_steps:
            return MAX_ITER
        pool.checkpoint()
        d, z, widest, _ = s.step(missed, equations.left_of(residual, p.tol))
        s.steps += 1
        if not widest < np.inf:
            return RANGE
        falls, earlier = residual <= max(tol, FALLS * earlier), residual
        if s.held is None and (s.steps >= PROOFS_FROM or p.rule == LINEAR) and not (widest <= CLOSE and falls):
            if proofs.refuted(s, d, z):
                return INFEASIBLE
            removed = s.removed
            if p.rule != LINEAR and proofs.remove(s, d, z) == INFEASIBLE:
                return INFEASIBLE
            if s.removed > removed:
                s.width = np.inf
                missed = s.set(np.zeros(len(d)))
                continue
        s.before, s.width = s.width, widest
        t = s.length(d, z, missed)
        missed = s.move(d, z, t)


def _noise(s):
    """Return how far weights are off by the rounding of large multipliers."""
    rows = s.p.rows
    sizes = np.empty(len(s.q))
    magnitudes = SparseRows(rows.first, rows.columns, np.abs(rows.values))
    multiply(magnitudes, np.where(s.asked, np.abs(s.multipliers), 0.0), sizes, 0, len(sizes))
    return RATIO_NOISE * float(sizes.max(initial=0.0))


def _error(s):
    """Take the step that is left, if it is any better; return about how far off a weight is then.

    By the next step, which the same equations give, and by targets that are rounded.
    """
    missed = s.set(s.multipliers)
    if s.by_gradients:
        bound = _bound(s, missed)
        if bound <= MOST_CELL_ERROR or len(missed) > MOST_FORMED_UNKNOWNS:
            return bound
        s.by_gradients, missed = False, s.compute_weights()
    before, multipliers = s.residual(), s.multipliers.copy()
    d, z, worst, solve = s.step(missed, 0.0)
    rng, rounded = np.random.default_rng(0), 0.0
    for _ in range(CELL_PROBES):
        change = rng.uniform(-1.0, 1.0, len(missed))
        change += np.copysign(0.5, change)  # of no two the sum is nothing, as that of signs may be
        rounded = max(rounded, s.width_of(*solve(np.where(s.asked, change * UNIT_ROUNDOFF * s.sizes, 0.0))))
    left = s.move(d, z)
    if s.residual() <= before:
        worst = s.width_of(*solve(left))
    else:
        s.set(multipliers)
    return max(worst, rounded)


def _bound(s, missed):
    """Return how far off a weight may be at most, after finer steps if it is too far."""
    for _ in range(FINER_STEPS):
        products = equations.Gradients(s, missed)
        if products.bound(missed) <= MOST_CELL_ERROR:
            break
        d, z = products(missed, FINER_FORCING)
        missed = s.move(d, z)
    return equations.Gradients(s, missed).bound(missed)
