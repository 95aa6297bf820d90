"""Weights of records, moved as little as it takes until the records add up to known totals.

Newton's method on the multipliers of the totals, of which the dual is convex. Where weights are exponentials the length
of a step is the one that is proved for tables; where they have bounds it is found on the slope, which only falls.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu.margins import _layout, _solve
from cmfast.kernels.cpu.margins._begin import NUDGE, reconcile
from cmfast.kernels.cpu.margins._newton import MOST_ERROR, PROBES, PROOFS_FROM, UNIT
from cmfast.kernels.cpu.margins._proofs import CERTAIN
from cmfast.kernels.cpu.margins._rows import (
    MOST_EXPONENT,
    Rows,
    add_up,
    along,
    bury,
    curve,
    extremes,
    has_any,
    reach,
    squares,
    weigh,
)
from cmfast.kernels.shared.margins import FLOOR, LINEAR, LOGIT, METHODS, MOST_PASSES, RAKING, TRUNCATED
from cmfast.kernels.shared.scaling import CLOSE, FLOOR_LINES, NEWTON_STEPS, SAFE_WIDTH, STANDING, last_width
from cmfast.kernels.status import (
    INFEASIBLE,
    INVALID,
    LIMIT_ONLY,
    MAX_ITER,
    OK,
    RANGE,
    UNDETERMINED,
    ZERO_LINE,
)

TRIAL_WIDTH = 50.0  # of a step whose length is looked for
TRIALS = 40
DAMPED = 0.01  # of Levenberg's method, times what is missed, where many weights stand at a bound
CANCELS = 1e-3  # part of what a column adds up to, signs aside, that its target counts for at least
EXACT = 1e-15  # of a sum, which rounding leaves


class _Problem(NamedTuple):
    """What all elements of a batch share."""

    rows: Rows
    margin: np.ndarray  # (K,) to which margin each column belongs
    low: np.ndarray  # (records,) or (1,): least weight, over the one it had
    high: np.ndarray
    soft: np.ndarray  # (K,) importance of the targets, infinite where they must be met
    rule: int
    tol: float
    last: float
    max_iter: int
    shared: _layout.Layout | None


class _Found(NamedTuple):
    status: int
    ratio: np.ndarray  # of each row: its weight over the one that it had
    multipliers: np.ndarray
    proof: np.ndarray
    error: float
    n_iter: int
    goals: np.ndarray  # the targets that were met: made to agree, and softened


def rake(
    design,
    weights,
    *targets,
    axes=None,
    method="raking",
    low=None,
    high=None,
    importance=None,
    tol,
    max_iter=None,
    num_threads=None,
    progress=None,
):
    """Move weights; return them, multipliers, sums and proofs by target, residual, error, passes and status."""
    n = design.shape[-1] if axes else design.shape[0]
    weights = np.ones(n) if weights is None else weights
    low = np.zeros(1) if low is None else np.atleast_1d(low)
    high = np.full(1, np.inf) if high is None else np.atleast_1d(high)
    shape: tuple[int, ...] = ()
    layout = None
    if axes:
        shape = _levels(design, axes, targets)
        keys, rows, layout = _coded(design, shape, axes, collapse=len(low) == len(high) == 1)
        wanted = _layout.together(shape, axes, layout.order, targets)
        sizes = np.diff(layout.offsets)
        soft = np.repeat(
            np.full(len(axes), np.inf) if importance is None else np.array(importance)[layout.order], sizes
        )
        margin = np.repeat(np.arange(len(axes)), sizes)
        low, high = (a if len(a) == 1 else a[layout.places] for a in (low, high))  # rows are sorted
    else:
        keys, rows, wanted = None, _dense(design), targets[0].astype(np.float64)
        soft = np.broadcast_to(np.inf if importance is None else importance, wanted.shape[-1:]).astype(np.float64)
        margin = np.arange(wanted.shape[-1])
    batch = np.broadcast_shapes(weights.shape[:-1], wanted.shape[:-1])
    _, (q, wanted), steps = batches.broadcast_batches(1, batches.as_floating(weights), wanted)
    n_rows = n if rows is None else len(rows.first) - 1
    rule = METHODS[method]
    if rule == TRUNCATED and not low.any() and np.isinf(high).all():
        rule = RAKING
    p = _Problem(
        rows,
        margin,
        low if len(low) == len(high) else np.broadcast_to(low, n_rows).copy(),
        high if len(low) == len(high) else np.broadcast_to(high, n_rows).copy(),
        soft,
        rule,
        max(tol, FLOOR * max(1.0, n_rows / FLOOR_LINES)),
        last_width(tol),
        MOST_PASSES if max_iter is None else max_iter,
        layout,
    )
    count, K = math.prod(batch), wanted.shape[-1]
    moved = np.empty((count, n), batches.result_dtype(weights, *targets))
    lines = tuple(np.empty((count, K)) for _ in range(3))  # multipliers, sums, proofs
    numbers = (np.empty(count), np.empty(count), np.empty(count, np.int64), np.empty(count, np.int8))

    def move(_, start, stop):
        for k in range(start, stop):
            pool.checkpoint()
            with np.errstate(all="ignore"):  # what overflows ends as RANGE
                _move(p, keys, q[k * steps[0]], wanted[k * steps[1]], moved[k], lines, numbers, k)

    pool.run_pieces(move, [(k, k + 1) for k in range(count)], seconds=1.0, num_threads=num_threads, progress=progress)
    found = [a.reshape(*batch, K) for a in lines]
    if layout is not None:
        found = [part for a in found for part in _layout.apart(a, shape, axes, layout)]
    return moved.reshape(*batch, n), *found, *(a.reshape(batch)[()] for a in numbers)


def _levels(codes, axes, targets):
    """Return how many categories each attribute has; one where no target tells."""
    shape = [1] * len(codes)
    for of, target in zip(axes, targets, strict=True):
        for axis, size in zip(of, target.shape[target.ndim - len(of) :], strict=True):
            shape[axis] = size
    return tuple(shape)


def _coded(codes, shape, axes, *, collapse):
    """Return which row each record is, the rows, and their layout; no rows where a code is none.

    Records of the same categories are one row, if they have the same bounds and that makes them fewer.
    """
    used = {axis for of in axes for axis in of}
    nothing = np.zeros(codes.shape[1], np.int64)
    coordinates = [code.astype(np.int64) if a in used else nothing for a, code in enumerate(codes)]
    if any(((c < 0) | (c >= size)).any() for c, size in zip(coordinates, shape, strict=True)):
        return None, None, _layout.layout(shape, axes, [c[:0] for c in coordinates])
    keys = np.arange(codes.shape[1])
    number = math.prod(shape)
    if collapse and number <= 2 * codes.shape[1]:
        keys = np.ravel_multi_index(coordinates, shape)
        seen = np.bincount(keys, minlength=number) > 0
        keys = (np.cumsum(seen) - 1)[keys]
        coordinates = list(np.unravel_index(np.flatnonzero(seen), shape))
    layout = _layout.layout(shape, axes, coordinates)
    place = np.empty(len(layout.places), np.int64)
    place[layout.places] = np.arange(len(place))
    rows, margins = layout.lines.shape
    first = np.arange(0, rows * margins + 1, margins, dtype=np.int64)
    return place[keys], Rows(first, layout.lines.ravel(), np.ones(rows * margins)), layout


def _dense(design):
    """Return the rows of a matrix; None where a number is none."""
    A = batches.as_floating(design).astype(np.float64, copy=False)
    if not np.isfinite(A).all():
        return None
    where = np.nonzero(A)
    first = np.concatenate([[0], np.cumsum(np.bincount(where[0], minlength=len(A)))]).astype(np.int64)
    return Rows(first, where[1].astype(np.int32), A[where])


def _move(p, keys, q, targets, moved, lines, numbers, k):
    """Write what becomes of one element."""
    multipliers, sums, proofs = (a[k] for a in lines)
    residual, error, n_iter, status = numbers
    K = len(targets)
    moved[:], multipliers[:], sums[:], proofs[:] = np.nan, np.nan, np.nan, np.nan
    residual[k], error[k], n_iter[k] = np.nan, np.nan, 0
    q = q.astype(np.float64, copy=False)
    wrong = np.isinf(targets) | ((targets < 0.0) & (p.shared is not None))
    if p.rows is None or wrong.any() or not ((q >= 0.0) & (q < np.inf)).all():
        status[k] = INVALID
        return
    n_rows = len(p.rows.first) - 1
    total = q if keys is None else np.bincount(keys, q, n_rows)
    found = _search(p, total.copy(), targets.astype(np.float64))
    status[k], n_iter[k], proofs[:] = found.status, found.n_iter, found.proof
    if found.status not in (OK, MAX_ITER, LIMIT_ONLY, UNDETERMINED):
        return
    out = q * (found.ratio if keys is None else found.ratio[keys])
    add_up(p.rows, out if keys is None else np.bincount(keys, out, n_rows), sums, sizes := np.empty(K))
    residual[k], error[k] = _residual(p, found.goals, sums, sizes), found.error
    moved[:] = out
    if found.status != LIMIT_ONLY:
        multipliers[:] = found.multipliers
    if found.status != MAX_ITER and residual[k] > p.tol:
        status[k] = MAX_ITER


def _residual(p, goals, sums, sizes):
    """Return the most that a margin is off, over what it should be."""
    asked = ~np.isnan(goals)
    n = int(p.margin[-1]) + 1 if len(p.margin) else 0
    missed = np.bincount(p.margin[asked], np.abs(goals - sums)[asked], n)
    size = np.bincount(p.margin[asked], np.maximum(np.abs(goals), CANCELS * sizes)[asked], n)
    return float(np.max(np.where(size > 0.0, missed / np.where(size > 0.0, size, 1.0), missed), initial=0.0))


class _Search:
    """Where the search for the multipliers of one element is. A record without a weight stays without."""

    def __init__(self, p, q, targets):
        self.p, self.q, self.targets = p, q, targets
        n, K = len(q), len(targets)
        self.asked, self.hard = ~np.isnan(targets), np.isinf(p.soft)
        self.multipliers, self.z = np.zeros(K), np.zeros(n)
        self.x, self.h, self.scratch = np.empty(n), np.empty(n), np.empty(n)
        self.sums, self.sizes, self.scale = np.empty(K), np.empty(K), np.empty(K)
        self.S = np.empty((K, K))
        self.width, self.before = np.inf, np.inf
        self.passes = self.steps = self.removed = 0
        self.proof = np.full(K, np.nan)
        self.least_total, self.most_total = 0.0, np.inf
        self.of_one_sign = np.zeros(K, np.bool_)

    def open(self):
        """Take out what zero targets leave without a weight; return whether each target can be reached at all."""
        p, K = self.p, len(self.targets)
        least, most = np.empty(K), np.empty(K)
        extremes(p.rows, self.q > 0.0, least, most)
        if p.rule != LINEAR and (self.targets == 0.0).any():
            gone = np.empty(len(self.q), np.bool_)
            while True:
                zero = self.asked & (self.targets == 0.0) & (least * most == 0.0) & (least != most)
                has_any(p.rows, zero, gone)
                gone &= (self.q > 0.0) & (p.low == 0.0)
                if not gone.any():
                    break
                self.q[gone] = 0.0
                extremes(p.rows, self.q > 0.0, least, most)
        empty = least == most
        status = ZERO_LINE if (self.asked & empty & self.hard & (self.targets != 0.0)).any() else OK
        self.asked &= ~empty
        self.multipliers[empty & (self.targets == 0.0)] = -np.inf if p.rule != LINEAR else 0.0
        if p.rule != LINEAR:
            self.of_one_sign = self.asked & self.hard & (least * most == 0.0)
            self._bound_total(self.of_one_sign & (most > 0.0), most)
        return status

    def _bound_total(self, columns, most):
        """Note between what the weights add up to, as columns that are never negative say."""
        y = np.where(columns, 1.0 / np.where(columns, most, 1.0), 0.0)
        along(self.p.rows, y, self.scratch)
        each = self.scratch[self.q > 0.0]
        known = float(self.targets[columns] @ y[columns])
        if each.size and each.min() > 0.0:
            self.least_total, self.most_total = known / each.max(), known / each.min()

    def weigh(self):
        """Weigh the records by the multipliers; return what is missed of the targets."""
        p = self.p
        weigh(p.rule, self.q, p.low, p.high, self.z, self.x, self.h)
        add_up(p.rows, self.x, self.sums, self.sizes)
        self.passes += 1
        return np.where(self.asked, self.goals() - self.sums, 0.0)

    def move(self, d):
        """Change the multipliers; return what is missed of the targets then."""
        self.multipliers[self.asked] += d[self.asked]
        along(self.p.rows, np.where(self.asked, self.multipliers, 0.0), self.z)
        return self.weigh()

    def goals(self):
        """Return the targets, those that need not be met as they are softened."""
        return self.targets * self._softened(self.multipliers)

    def _softened(self, multipliers):
        y = np.where(self.asked, multipliers, 0.0)
        return np.exp(np.clip(-np.sign(self.targets) * y / self.p.soft, -MOST_EXPONENT, MOST_EXPONENT))

    def factor(self, missed):
        """Form the equations of a step; return what solves them."""
        p, S = self.p, self.S
        curve(p.rows, self.h, S)
        self.passes += 1
        diagonal = np.einsum("kk->k", S)
        soft = np.where(self.asked, np.abs(self.goals()) / p.soft, 0.0)
        diagonal += soft
        size, nudge = diagonal.copy(), NUDGE
        if p.rule == TRUNCATED:
            squares(p.rows, self.x, size)
            size += soft
            asked = np.abs(np.where(self.asked, self.targets, 0.0)).sum()
            nudge = max(NUDGE, DAMPED * min(1.0, np.abs(missed).sum() / asked)) if asked > 0.0 else DAMPED
        elif p.rule == LOGIT:
            size = np.maximum(size, 1e-12 * self.sizes)
        usable = self.asked & (size > 0.0)
        self.scale = np.where(usable, 1.0 / np.sqrt(np.where(usable, size, 1.0)), 0.0)
        S *= self.scale
        S *= self.scale[:, None]
        return _factored(S, nudge)

    def step(self, solve, missed):
        """Return the step for what is missed, what it adds to the records, and the most that it does."""
        d = self.scale * missed
        solve(d)
        d *= self.scale
        z = np.empty(len(self.q))
        along(self.p.rows, d, z)
        free = (self.h > 0.0) & (self.q > 0.0)
        widest = max(np.abs(z[free]).max(initial=0.0), np.abs(d / self.p.soft).max(initial=0.0))
        return d, z, float(widest)

    def length(self, d, z, missed):
        """Return how far to go."""
        p = self.p
        softening = float((-np.sign(self.targets) * d / p.soft)[self.asked].max(initial=0.0))
        if p.rule in (RAKING, LINEAR):
            highest = max(softening, z[self.q > 0.0].max(initial=0.0) if p.rule == RAKING else 0.0)
            return 1.0 if highest <= SAFE_WIDTH else max(SAFE_WIDTH, math.log1p(highest)) / highest
        slope = float(missed @ d)
        least = EXACT * float(np.abs(np.where(self.asked, self.targets, 0.0) * d).sum())
        t, low, high = min(1.0, TRIAL_WIDTH / max(np.abs(z).max(initial=0.0), TRIAL_WIDTH)), 0.0, np.inf
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
        p = self.p
        weigh(p.rule, self.q, p.low, p.high, self.z + t * z, self.x, self.h)
        self.passes += 1
        goals = self.targets * self._softened(self.multipliers + t * d)
        return float(np.where(self.asked, goals, 0.0) @ d - self.x @ z)

    def refuted(self, d, z):
        """Return whether a step or the multipliers prove that no weights have these totals; keep them if so."""
        hard = self.asked & self.hard
        if self.p.rule == LINEAR:
            return self._contradicts(np.where(hard, d, 0.0))
        for one, along_one in ((d, z), (self.multipliers, self.z)):
            y, along_y = self._of_hard(one, along_one, hard)
            gap, size, *_ = self._gap(y, along_y)
            if gap > CERTAIN * size:
                self.proof[:] = y
                return True
        return False

    def _of_hard(self, y, z, hard):
        """Return what a combination is without targets that need not be met."""
        y = np.where(hard, y, 0.0)
        if not self.hard.all():
            z = np.empty(len(z))
            along(self.p.rows, y, z)
        return y, z

    def _gap(self, y, z):
        """Return how much more a combination of the targets is than weights can add up to, and of what size it is.

        And what weights can add up to by their bounds and by their total, less that, and the largest z.
        """
        products = np.where(self.asked & self.hard, self.targets, 0.0) * y
        size, product = float(np.abs(products).sum()), float(products.sum())
        by_bounds, top = reach(z, self.q, self.p.low, self.p.high)
        by_total = (self.most_total if top > 0.0 else self.least_total) * top if top != 0.0 else 0.0
        return product - min(by_bounds, by_total), size, by_bounds - product, by_total - product, top

    def _contradicts(self, y):
        """Return whether a combination of the columns is zero on every record, but not of their targets."""
        p = self.p
        along(p.rows, y, self.scratch)
        sizes = np.empty(len(self.q))
        along(p.rows._replace(values=np.abs(p.rows.values)), np.abs(y), sizes)
        products = np.where(self.asked & self.hard, self.targets, 0.0) * y
        alive = self.q > 0.0
        if np.abs(self.scratch[alive]).max(initial=0.0) > CERTAIN * sizes[alive].max(initial=0.0):
            return False
        if not abs(products.sum()) > CERTAIN * np.abs(products).sum():
            return False
        self.proof[:] = y
        return True

    def remove(self, d, z):
        """Take the weight from records of which a step proves that they have none; return OK, or why that cannot be.

        Where it leaves nothing for a target, the step with as much more of that as no other record minds is the proof.
        """
        before, asked = self.q.copy(), self.asked.copy()
        y, z = self._of_hard(d, z, self.asked & self.hard)
        _, size, by_bounds, by_total, top = self._gap(y, z)
        lost = EXACT * size
        found = bury(
            self.p.rows, z, self.q, self.p.low, self.targets, self.of_one_sign, CERTAIN, max(by_bounds, 0.0) + lost,
            max(by_total, 0.0) + lost, top,
        )  # fmt: skip
        self.removed += found
        if found == 0 or self.open() == OK:
            return OK
        empty = int(np.flatnonzero(asked & ~self.asked & self.hard & (self.targets != 0.0))[0])
        only = np.zeros(len(y))
        only[empty] = 1.0
        along(self.p.rows, only, self.scratch)
        used = (before > 0.0) & (self.scratch != 0.0)
        below = (top if by_total <= by_bounds else 0.0) - z[used]
        y[empty] += np.sign(self.targets[empty]) * (below / np.abs(self.scratch[used])).min()
        self.proof[:] = y
        return INFEASIBLE


def _factored(S, nudge):
    """Return what solves the equations whose lower triangle is given, in place."""
    diagonal = np.einsum("kk->k", S)
    if len(S) <= _solve.SMALL:
        diagonal += nudge
        _solve.rooted(S)
        return partial(_solve.solved, S)
    while True:
        diagonal += nudge
        R = _solve.root_by_library(S)
        if R is not None:
            return partial(_solve.solve_by_library, R)
        nudge *= 10.0


def _search(p, q, targets):
    """Find the multipliers of one element."""
    status = OK
    if p.shared is not None and np.isinf(p.soft).all():
        status = reconcile(p.shared, targets)
    s = _Search(p, q, targets)
    if status == OK:
        status = s.open()
    if status == OK:
        status = _newton(s)
    if status not in (OK, MAX_ITER):
        return _Found(status, s.x, s.multipliers, s.proof, np.nan, s.passes, targets)
    error = s.width
    if status == OK:
        error = _error(s) if s.asked.any() else 0.0
    goals = np.where(s.asked, s.goals(), np.nan)
    ratio = np.empty(len(q))
    weigh(p.rule, (s.q > 0.0).astype(np.float64), p.low, p.high, s.z, ratio, s.h)
    if status == OK:
        status = UNDETERMINED if not error <= MOST_ERROR else LIMIT_ONLY if s.removed else OK
    return _Found(status, ratio, s.multipliers, s.proof, error, s.passes, goals)


def _newton(s):
    """Take steps until the totals are met and the last step was small; return the status."""
    p = s.p
    missed = s.weigh()
    if not s.asked.any():
        return OK
    while True:
        residual = _residual(p, np.where(s.asked, s.goals(), np.nan), s.sums, s.sizes)
        if not residual < np.inf:
            return RANGE
        stalled = s.width < CLOSE and s.width >= STANDING * s.before
        if residual <= p.tol and (s.width <= p.last or stalled):
            return OK
        if s.passes >= p.max_iter or s.steps >= NEWTON_STEPS:
            return MAX_ITER
        pool.checkpoint()
        d, z, widest = s.step(s.factor(missed), missed)
        s.steps += 1
        if not widest < np.inf:
            return RANGE
        if (s.steps >= PROOFS_FROM or p.rule == LINEAR) and (widest > CLOSE or residual > p.tol):
            if s.refuted(d, z):
                return INFEASIBLE
            removed = s.removed
            if p.rule != LINEAR and s.remove(d, z) == INFEASIBLE:
                return INFEASIBLE
            if s.removed > removed:
                s.multipliers[s.asked], s.z[:], s.width = 0.0, 0.0, np.inf
                missed = s.weigh()
                continue
        s.before, s.width = s.width, widest
        missed = s.move(s.length(d, z, missed) * d)


def _error(s):
    """Take the step that is left, if it is any better; return about how far off a weight is then.

    By the next step, which the same equations give, and by targets that are rounded.
    """
    missed = s.weigh()
    solve = s.factor(missed)
    before, multipliers = _residual(s.p, np.where(s.asked, s.goals(), np.nan), s.sums, s.sizes), s.multipliers.copy()
    d, _, worst = s.step(solve, missed)
    signs = np.random.default_rng(0)
    rounded = 0.0
    for _ in range(PROBES):
        sign = 2.0 * signs.integers(0, 2, len(missed)) - 1.0
        rounded = max(rounded, s.step(solve, np.where(s.asked, sign * UNIT * s.sizes, 0.0))[2])
    left = s.move(d)
    if _residual(s.p, np.where(s.asked, s.goals(), np.nan), s.sums, s.sizes) <= before:
        worst = s.step(solve, left)[2]
    else:
        s.multipliers[:] = multipliers
        s.move(np.zeros(len(d)))
    return max(worst, rounded)
