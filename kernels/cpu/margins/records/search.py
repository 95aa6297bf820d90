"""The state of the search for the dual solution of one set of weights: multipliers, residual, step length."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu.margins.records import newton_system as equations
from cmfast.kernels.cpu.margins.records.passes import DesignProducts
from cmfast.kernels.cpu.margins.records.sparse_rows import MOST_EXPONENT, SparseRows, has_any, largest_change, widest
from cmfast.kernels.shared.conjugate_gradients import MOST_FORCING, MOST_FORMED_UNKNOWNS
from cmfast.kernels.shared.margins import LINEAR, LOGIT, RAKING, TRUNCATED
from cmfast.kernels.shared.margins_layout import MarginLayout
from cmfast.kernels.shared.scaling import damped_step
from cmfast.kernels.status import OK, ZERO_LINE

MOST_SEARCH_WIDTH = 50.0  # of a step whose length is looked for
TRIALS = 40
STUCK, FREED = 1e-6, 1e-8  # part of a step where steps send each other back over a bend, and what damps the next one
LONG = 100.0  # width from which on the length is looked for where targets need not be met
CANCELS = 1e-3  # part of what a column adds up to, signs aside, that its target counts for at least
FAINT_PART = 1e-6  # part of what a column added up to, below which linear weights round its sum
SUM_ROUNDING = 1e-15  # of a sum, which rounding leaves


class RakingProblem(NamedTuple):
    """What all elements of a batch share."""

    rows: SparseRows
    margin: np.ndarray  # (K,) to which margin each column belongs
    low: np.ndarray  # (records,) or (1,): least weight, over the one it had
    high: np.ndarray
    soft: np.ndarray  # (K,) importance of the targets, infinite where they must be met
    rule: int
    tol: float
    last: float
    max_iter: int
    layout: MarginLayout | None
    lines: np.ndarray  # (margins, records) of categories
    is_large: bool
    num_threads: int | None


def missed_part(p, goals, sums, sizes, least=0.0):
    """Return the most that a margin is off, over what it should be, or `least` of each column if that is more."""
    asked = ~np.isnan(goals)
    sizes = np.maximum(sizes, least / CANCELS)
    if p.layout is None:
        size = np.maximum(np.abs(goals), CANCELS * sizes)
        part = np.abs(goals - sums) / np.where(size > 0.0, size, 1.0)
        return float(np.where(asked, part, 0.0).max(initial=0.0))
    n = int(p.margin[-1]) + 1 if len(p.margin) else 0
    missed = np.bincount(p.margin[asked], np.abs(goals - sums)[asked], n)
    size = np.bincount(p.margin[asked], np.maximum(np.abs(goals), CANCELS * sizes)[asked], n)
    return float(np.max(np.where(size > 0.0, missed / np.where(size > 0.0, size, 1.0), missed), initial=0.0))


class Search:
    """Where the search for the multipliers of one element is. A record without a weight stays without."""

    def __init__(self, p, q, targets):
        self.p, self.q, self.targets = p, q, targets
        n, K = len(q), len(targets)
        self.asked = ~np.isnan(targets)
        self.raise_to(p.soft)
        self.hard = np.isinf(p.soft) | (targets == 0.0)  # no part of nothing is anything else
        self.all_hard = bool(self.hard.all())
        self.passes = DesignProducts(p.rows, K, p.num_threads)
        self.by_gradients, self.least = p.is_large, np.inf  # and the least eigenvalue that these have seen
        self.multipliers, self.z = np.zeros(K), np.zeros(n)
        self.x, self.h, self.scratch = np.empty(n), np.empty(n), np.empty(n)
        self.sums, self.sizes = np.empty(K), np.empty(K)
        self.least_sums: Any = 0.0  # of each column, that what is missed of it is compared with
        if p.rule == LINEAR:
            self.passes.multiply_transposed(q, self.sums, self.sizes)
            self.least_sums = FAINT_PART * self.sizes
        self.squares = np.empty(K) if p.rule == TRUNCATED else None  # of what records have, the weights times each
        self.tried: float | None = None  # part of the way at whose end the records are weighed
        self.width, self.before = np.inf, np.inf
        self.damping = 0.0  # at least, of the next step
        self.steps = self.removed = 0
        self.allowed: np.ndarray | None = None  # upper limits of the weights that certificates set to zero
        self.proof = np.full(K, np.nan)
        self.least_total, self.most_total = 0.0, np.inf
        self.of_one_sign = self.may_turn = np.zeros(K, np.bool_)
        self.held: np.ndarray | None = None  # records that stand at a limit of their weights, and what these are there
        self.held_at = np.empty(0)
        self.settled = np.zeros(K, np.bool_)  # targets to which none but these add

    def raise_to(self, soft):
        """Let targets be so important."""
        self.soft, self.softer = soft, np.where(self.asked, -np.sign(self.targets) / soft, 0.0)

    def open(self):
        """Take out what zero targets leave without a weight; return whether each target can be reached at all."""
        p, K = self.p, len(self.targets)
        least, most = np.empty(K), np.empty(K)
        self.passes.find_extremes(self.q > 0.0, least, most)
        if p.rule != LINEAR and (self.targets == 0.0).any():
            gone = np.empty(len(self.q), np.bool_)
            while True:
                zero = self.asked & (self.targets == 0.0) & (least * most == 0.0) & (least != most)
                has_any(p.rows, zero, gone)
                gone &= (self.q > 0.0) & (p.low == 0.0)
                if not gone.any():
                    break
                self.q[gone] = 0.0
                if p.rule == LOGIT:  # no multiplier takes a weight to its bound
                    self.removed += int(gone.sum())
                self.passes.find_extremes(self.q > 0.0, least, most)
        empty = least == most
        status = ZERO_LINE if (self.asked & empty & self.hard & (self.targets != 0.0)).any() else OK
        self.asked &= ~empty
        self.multipliers[empty & (self.targets == 0.0)] = -np.inf if p.rule != LINEAR else 0.0
        turned = np.where(self.targets > 0.0, least < 0.0, most > 0.0)
        self.may_turn = self.asked & ~self.hard & turned
        if p.rule != LINEAR:
            self.of_one_sign = self.asked & self.hard & (least * most == 0.0)
            self._bound_total(self.of_one_sign & (most > 0.0), most)
        return status

    def _bound_total(self, columns, most):
        """Note between what the weights add up to, as columns that are never negative say."""
        y = np.where(columns, 1.0 / np.where(columns, most, 1.0), 0.0)
        self.passes.multiply(y, self.scratch)
        each = self.scratch[self.q > 0.0]
        known = float(self.targets[columns] @ y[columns])
        if each.size and each.min() > 0.0:
            self.least_total, self.most_total = known / each.max(), known / each.min()

    def hold(self, records, weights):
        """Give records these weights, which are the only ones that they can have, and begin again with the others."""
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
        """Weigh the records by the multipliers; return what is missed of the targets."""
        self._compute_weights(self.z)
        return self._missed()

    def _compute_weights(self, z):
        p = self.p
        self.passes.compute_weights(p.rule, self.q, (p.low, p.high), z, self.x, self.h)
        if self.held is not None:
            self.x[self.held], self.h[self.held] = self.held_at, 0.0

    def _missed(self):
        """Add up the records as they are weighed; return what is missed of the targets."""
        self.passes.multiply_transposed(self.x, self.sums, self.sizes, self.squares)
        return np.where(self.asked, self.goals() - self.sums, 0.0)

    def move(self, d, z, t=1.0):
        """Go a part of the way, records by what that adds to them; return what is missed of the targets."""
        self.multipliers[self.asked] += t * d[self.asked]
        self.z += t * z
        is_weighed, self.tried = self.tried == t, None
        return self._missed() if is_weighed else self.compute_weights()

    def set(self, multipliers):
        """Do so from multipliers alone, which leaves no rounding of earlier steps."""
        self.multipliers[self.asked] = multipliers[self.asked]
        self.passes.multiply(np.where(self.asked, self.multipliers, 0.0), self.z)
        return self.compute_weights()

    def residual(self):
        """Return the most that a margin is off, over what it should be."""
        goals = np.where(self.asked, self.goals(), np.nan)
        return missed_part(self.p, goals, self.sums, self.sizes, self.least_sums)

    def goals(self):
        """Return the targets, those that need not be met as they are softened."""
        return self.targets * self._softened(self.multipliers)

    def _softened(self, multipliers):
        if self.all_hard:
            return 1.0
        y = np.where(self.asked, multipliers, 0.0)
        return np.exp(np.minimum(np.maximum(y * self.softer, -MOST_EXPONENT), MOST_EXPONENT))

    def step(self, missed, left):
        """Return the step for what is missed, what it adds to the records, the most that it does, and the equations.

        Conjugate gradients may leave a part of what is missed. Where they are slow the matrix is formed from here on.
        """
        if self.by_gradients:
            products = equations.Gradients(self, missed)
            d, z = products(missed, products.left(missed, left) if left < MOST_FORCING else left)
            if products.met or len(d) > MOST_FORMED_UNKNOWNS:
                return d, z, self.width_of(d, z), products
            self.by_gradients = False
        root = equations.Cholesky(self, missed)
        d, z = root(missed)
        return d, z, self.width_of(d, z), root

    def width_of(self, d, z):
        """Return the most that a step does to a record, or to what is softened."""
        softest = 0.0 if self.all_hard else float(np.abs(d / self.soft).max(initial=0.0))
        # With the other distance functions h equals x, or the design weight to which errors of "linear" are relative.
        most = largest_change(z, self.h, self.x) if self.p.rule == LOGIT else widest(z, self.h)
        return max(float(most), softest)

    def bound_removed(self, z):
        """Return the most that removed weights can add to the sum of weights times `z`.

        They are zero to a tolerance, and multipliers of 1e11 would take that for a proof of infeasibility.
        """
        return 0.0 if self.allowed is None else float(self.allowed @ np.maximum(z, 0.0))

    def length(self, d, z, missed):
        """Return how far to go."""
        p = self.p
        softer = (-np.sign(self.targets) * d / self.soft)[self.asked]
        softening = 0.0 if self.all_hard else float(softer.max(initial=0.0))
        if p.rule in (RAKING, LINEAR):
            highest = max(softening, z[self.q > 0.0].max(initial=0.0) if p.rule == RAKING else 0.0)
            if highest < LONG or self.hard.all():
                return damped_step(highest)
        t = self._by_slope(d, z, missed)
        self.damping = FREED if t < STUCK else 0.0
        return t

    def _by_slope(self, d, z, missed):
        """Return how far to go where the slope tells: until it is half of what it is here, or less."""
        slope = float(missed @ d)
        least = SUM_ROUNDING * float(np.abs(np.where(self.asked, self.targets, 0.0) * d).sum())
        t, low, high = min(1.0, MOST_SEARCH_WIDTH / max(np.abs(z).max(initial=0.0), MOST_SEARCH_WIDTH)), 0.0, np.inf
        for _ in range(TRIALS):
            now = self._slope(d, z, t)
            if abs(now) <= 0.5 * slope or (t == 1.0 and 0.0 < now <= slope) or slope <= least:
                break
            if now > 0.0:
                low, t = t, (2.0 * t if high == np.inf else 0.5 * (t + high))
            else:
                high, t = t, 0.5 * (low + t)
        return t

    def _slope(self, d, z, t):
        """Return how fast the dual falls at a place on the way."""
        self.tried = t
        self._compute_weights(self.z + t * z)
        goals = self.targets * self._softened(self.multipliers + t * d)
        return float(np.where(self.asked, goals, 0.0) @ d - self.x @ z)
