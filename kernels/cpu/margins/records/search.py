"""State of the dual problem of one set of weights: multipliers, residual, Newton step and its length."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu.margins.records import newton_system as equations
from cmfast.kernels.cpu.margins.records.distances import MOST_EXPONENT, Distance
from cmfast.kernels.cpu.margins.records.passes import DesignProducts
from cmfast.kernels.cpu.margins.records.sparse_rows import (
    SparseRows,
    find_largest_dual_change,
    find_largest_weight_change,
    mark_rows_using,
)
from cmfast.kernels.shared.conjugate_gradients import MOST_FORCING, MOST_FORMED_UNKNOWNS
from cmfast.kernels.shared.margins_layout import MarginLayout
from cmfast.kernels.shared.scaling import damped_step
from cmfast.kernels.status import OK, ZERO_LINE

MOST_SEARCH_WIDTH = 50.0  # largest change of z at the start of a line search
MAX_LINE_SEARCH_TRIALS = 40
# Steps shorter than the first oscillate across a kink of the dual; the second damps the step after one.
MIN_STEP_LENGTH, STUCK_DAMPING = 1e-6, 1e-8
MAX_DAMPED_RAISE = 100.0  # raise of a log weight from which on soft targets need a line search
MIN_TARGET_SHARE = 1e-3  # least denominator of a relative error, over the magnitudes that a column sums
NEGLIGIBLE_SUM_SHARE = 1e-6  # a sum of linear weights below this share of its initial magnitudes is rounding
SUM_ROUNDING = 1e-15  # relative rounding error of a sum


class RakingProblem(NamedTuple):
    """The problem that all elements of a batch share."""

    rows: SparseRows
    margin: np.ndarray  # (K,) margin of each column
    low: np.ndarray  # (records,) or (1,): least ratio of a weight to its design weight
    high: np.ndarray
    soft: np.ndarray  # (K,) importance of the targets, infinite for hard ones
    distance: Distance
    tol: float
    last: float
    max_iter: int
    layout: MarginLayout | None
    lines: np.ndarray  # (margins, records) column of each record, for categories
    is_large: bool
    num_threads: int | None


def compute_residual(p, goals, sums, sizes, least=0.0):
    """Return the largest relative error of a margin, over its total or `least` of each column if that is larger."""
    asked = ~np.isnan(goals)
    sizes = np.maximum(sizes, least / MIN_TARGET_SHARE)
    if p.layout is None:
        size = np.maximum(np.abs(goals), MIN_TARGET_SHARE * sizes)
        part = np.abs(goals - sums) / np.where(size > 0.0, size, 1.0)
        return float(np.where(asked, part, 0.0).max(initial=0.0))
    n = int(p.margin[-1]) + 1 if len(p.margin) else 0
    missed = np.bincount(p.margin[asked], np.abs(goals - sums)[asked], n)
    size = np.bincount(p.margin[asked], np.maximum(np.abs(goals), MIN_TARGET_SHARE * sizes)[asked], n)
    return float(np.max(np.where(size > 0.0, missed / np.where(size > 0.0, size, 1.0), missed), initial=0.0))


class DualSearch:
    """Iterate of the dual problem of one set of weights. Records with weight zero keep it."""

    def __init__(self, p, q, targets):
        self.p, self.q, self.targets = p, q, targets
        n, K = len(q), len(targets)
        self.asked = ~np.isnan(targets)
        self.set_importance(p.soft)
        self.hard = np.isinf(p.soft) | (targets == 0.0)  # a target of zero cannot be softened
        self.all_hard = bool(self.hard.all())
        self.passes = DesignProducts(p.rows, K, p.num_threads)
        self.by_gradients, self.least = p.is_large, np.inf  # least eigenvalue seen by conjugate gradients
        self.multipliers, self.z = np.zeros(K), np.zeros(n)
        self.x, self.h, self.scratch = np.empty(n), np.empty(n), np.empty(n)
        self.sums, self.sizes = np.empty(K), np.empty(K)
        self.least_sums: Any = 0.0  # least denominator of the relative error of each column
        if p.distance.linear:
            self.passes.multiply_transposed(q, self.sums, self.sizes)
            self.least_sums = NEGLIGIBLE_SUM_SHARE * self.sizes
        self.squares = np.empty(K) if p.distance.clipped else None  # diagonal of A' diag(x) A
        self.tried: float | None = None  # step length for which the weights are computed already
        self.width, self.before = np.inf, np.inf
        self.damping = 0.0  # least damping of the next step
        self.steps = self.removed = 0
        self.allowed: np.ndarray | None = None  # upper limits of the weights that certificates set to zero
        self.proof = np.full(K, np.nan)
        self.least_total, self.most_total = 0.0, np.inf
        self.of_one_sign = self.may_turn = np.zeros(K, np.bool_)
        self.held: np.ndarray | None = None  # records fixed at a bound; their weights are in `held_at`
        self.held_at = np.empty(0)
        self.settled = np.zeros(K, np.bool_)  # targets to which only fixed records contribute

    def set_importance(self, soft):
        """Set the importance of the soft targets."""
        self.soft, self.softer = soft, np.where(self.asked, -np.sign(self.targets) / soft, 0.0)

    def drop_empty_targets(self):
        """Remove weights that zero targets rule out and targets without records.

        Return OK, or ZERO_LINE if unreachable.
        """
        p, K = self.p, len(self.targets)
        least, most = np.empty(K), np.empty(K)
        self.passes.find_extremes(self.q > 0.0, least, most)
        if not p.distance.linear and (self.targets == 0.0).any():
            gone = np.empty(len(self.q), np.bool_)
            while True:
                zero = self.asked & (self.targets == 0.0) & (least * most == 0.0) & (least != most)
                mark_rows_using(p.rows, zero, gone)
                gone &= (self.q > 0.0) & (p.low == 0.0)
                if not gone.any():
                    break
                self.q[gone] = 0.0
                if p.distance.reaches_no_bound:  # logit weights reach a bound for no finite multiplier
                    self.removed += int(gone.sum())
                self.passes.find_extremes(self.q > 0.0, least, most)
        empty = least == most
        status = ZERO_LINE if (self.asked & empty & self.hard & (self.targets != 0.0)).any() else OK
        self.asked &= ~empty
        self.multipliers[empty & (self.targets == 0.0)] = -np.inf if not p.distance.linear else 0.0
        turned = np.where(self.targets > 0.0, least < 0.0, most > 0.0)
        self.may_turn = self.asked & ~self.hard & turned
        if not p.distance.linear:
            self.of_one_sign = self.asked & self.hard & (least * most == 0.0)
            self._bound_total(self.of_one_sign & (most > 0.0), most)
        return status

    def _bound_total(self, columns, most):
        """Store bounds of the total weight that follow from targets of columns without negative values."""
        y = np.where(columns, 1.0 / np.where(columns, most, 1.0), 0.0)
        self.passes.multiply(y, self.scratch)
        each = self.scratch[self.q > 0.0]
        known = float(self.targets[columns] @ y[columns])
        if each.size and each.min() > 0.0:
            self.least_total, self.most_total = known / each.max(), known / each.min()

    def fix_weights(self, records, weights):
        """Fix the weights of some records at their only possible values, and restart the iteration with the others."""
        self.held, self.held_at = records, weights
        self.q[records] = 0.0
        self.removed += len(records)
        least, most = np.empty(len(self.targets)), np.empty(len(self.targets))
        self.passes.find_extremes(self.q > 0.0, least, most)
        self.settled = self.asked & self.hard & (least == most)
        self.asked &= least != most
        self.by_gradients, self.least = self.p.is_large, np.inf
        self.multipliers[self.asked], self.z[:] = 0.0, 0.0
        self.width, self.before, self.damping, self.steps = np.inf, np.inf, 0.0, 0

    def compute_weights(self):
        """Compute the weights from z; return the target errors."""
        self._compute_weights(self.z)
        return self._compute_missed()

    def _compute_weights(self, z):
        """Compute the weights x and derivatives h for z; fixed records keep their weights."""
        p = self.p
        self.passes.compute_weights(p.distance.code, self.q, (p.low, p.high), z, self.x, self.h)
        if self.held is not None:
            self.x[self.held], self.h[self.held] = self.held_at, 0.0

    def _compute_missed(self):
        """Sum the weighted records; return the target errors, goals minus sums."""
        self.passes.multiply_transposed(self.x, self.sums, self.sizes, self.squares)
        return np.where(self.asked, self.compute_goals() - self.sums, 0.0)

    def take_step(self, d, z, t=1.0):
        """Take `t` times the step `d`, with `z` its product with the records; return the target errors."""
        self.multipliers[self.asked] += t * d[self.asked]
        self.z += t * z
        is_weighed, self.tried = self.tried == t, None
        return self._compute_missed() if is_weighed else self.compute_weights()

    def set_multipliers(self, multipliers):
        """Set the multipliers and recompute z from them, free of rounding of earlier steps.

        Return the target errors.
        """
        self.multipliers[self.asked] = multipliers[self.asked]
        self.passes.multiply(np.where(self.asked, self.multipliers, 0.0), self.z)
        return self.compute_weights()

    def residual(self):
        """Return the largest relative error of a margin."""
        goals = np.where(self.asked, self.compute_goals(), np.nan)
        return compute_residual(self.p, goals, self.sums, self.sizes, self.least_sums)

    def compute_goals(self):
        """Return the goals: targets, softened where they are soft."""
        return self.targets * self._compute_softening(self.multipliers)

    def _compute_softening(self, multipliers):
        """Return the factors exp(-multiplier / importance) of the targets, 1 for hard ones."""
        if self.all_hard:
            return 1.0
        y = np.where(self.asked, multipliers, 0.0)
        return np.exp(np.minimum(np.maximum(y * self.softer, -MOST_EXPONENT), MOST_EXPONENT))

    def compute_step(self, missed, left):
        """Return the Newton step, its product with the records, its norm, and the system that solved it.

        Conjugate gradients may leave the relative residual `left`. Where they are slow the Hessian is formed from then
        on.
        """
        if self.by_gradients:
            products = equations.ConjugateGradientSystem(self, missed)
            d, z = products(missed, products.tighten_forcing(missed, left) if left < MOST_FORCING else left)
            if products.met or len(d) > MOST_FORMED_UNKNOWNS:
                return d, z, self.measure_step(d, z), products
            self.by_gradients = False
        root = equations.CholeskySystem(self, missed)
        d, z = root(missed)
        return d, z, self.measure_step(d, z), root

    def measure_step(self, d, z):
        """Return the largest log-scale change of a weight or goal by a step."""
        softest = 0.0 if self.all_hard else float(np.abs(d / self.soft).max(initial=0.0))
        of = self.p.distance  # of these h is x, or the design weight to which errors of linear weights are relative
        if of.exponential or of.linear or of.clipped:
            most = find_largest_dual_change(z, self.h)
        else:
            most = find_largest_weight_change(z, self.h, self.x)
        return max(float(most), softest)

    def bound_removed_weights(self, z):
        """Return the most that removed weights can add to the sum of weights times `z`.

        They are zero to a tolerance, and multipliers of 1e11 would take that for a proof of infeasibility.
        """
        return 0.0 if self.allowed is None else float(self.allowed @ np.maximum(z, 0.0))

    def choose_step_length(self, d, z, missed):
        """Return the step length: damped for exponential weights, by line search otherwise."""
        p = self.p
        softer = (-np.sign(self.targets) * d / self.soft)[self.asked]
        softening = 0.0 if self.all_hard else float(softer.max(initial=0.0))
        if p.distance.exponential or p.distance.linear:
            highest = max(softening, z[self.q > 0.0].max(initial=0.0) if p.distance.exponential else 0.0)
            if highest < MAX_DAMPED_RAISE or self.hard.all():
                return damped_step(highest)
        t = self._search_line(d, z, missed)
        self.damping = STUCK_DAMPING if t < MIN_STEP_LENGTH else 0.0
        return t

    def _search_line(self, d, z, missed):
        """Return a step length at which the slope of the dual is at most half the initial one (by bisection)."""
        slope = float(missed @ d)
        least = SUM_ROUNDING * float(np.abs(np.where(self.asked, self.targets, 0.0) * d).sum())
        t, low, high = min(1.0, MOST_SEARCH_WIDTH / max(np.abs(z).max(initial=0.0), MOST_SEARCH_WIDTH)), 0.0, np.inf
        for _ in range(MAX_LINE_SEARCH_TRIALS):
            now = self._compute_slope(d, z, t)
            if abs(now) <= 0.5 * slope or (t == 1.0 and 0.0 < now <= slope) or slope <= least:
                break
            if now > 0.0:
                low, t = t, (2.0 * t if high == np.inf else 0.5 * (t + high))
            else:
                high, t = t, 0.5 * (low + t)
        return t

    def _compute_slope(self, d, z, t):
        """Return the slope of the dual along the step at length `t`; keeps the weights computed there."""
        self.tried = t
        self._compute_weights(self.z + t * z)
        goals = self.targets * self._compute_softening(self.multipliers + t * d)
        return float(np.where(self.asked, goals, 0.0) @ d - self.x @ z)
