"""Scaling of large dense tables by sweeps alone, without listing their cells.

Enough for most well-conditioned tables.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.margins._consistency import reconcile
from cmfast.kernels.cpu.margins.tables import dense_passes as passes
from cmfast.kernels.cpu.margins.tables.separate_steps import normalize_factors
from cmfast.kernels.shared.margins import (
    CELLS_TOL,
    FADED,
    MOST_ECHOES,
    MOST_LOGARITHM_RESIDUAL,
    MOST_PRODUCT,
    MOST_ROUNDS,
)
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR, PATIENT_SWEEPS, PLAIN_SWEEPS, UNIT_ROUNDOFF
from cmfast.kernels.status import INVALID, OK, RANGE, UNDETERMINED

LEAST_SWEPT_CELLS = 4096  # cells of a table from which on separate sweeps pay
DENSE_SHARE = 0.5  # least share of positive cells of a dense table
SWEEP_ROUNDS = 3  # rounds of sweeps, each ended by a measurement of the residual


class DenseSweeps:
    """Sweeps of one table: its cells, targets, factors, and progress."""

    def __init__(self, cells, targets, layout, plan, smoothing):
        self.cells, self.targets, self.layout, self.plan, self.smoothing = cells, targets, layout, plan, smoothing
        each = [targets[start:stop] for start, stop in zip(plan.offsets, plan.offsets[1:], strict=False)]
        known = [not np.isnan(of).any() for of in each]
        self.totals = np.array([np.nansum(of) for of in each])
        held = [within >= 0 and known[within] and known[b] for b, within in enumerate(layout.within)]
        # Margins that are constant along rows first: such a margin needs no pass of its own.
        turns = sorted(range(len(each)), key=lambda b: bool(plan.along[b]))
        self.used = np.array([b for b in turns if self.totals[b] > 0.0 and not held[b]], np.int64)
        self.asked = (targets > 0.0) & np.repeat(np.isin(np.arange(len(each)), self.used), np.diff(plan.offsets))
        self.has_free_cells = False
        self.is_whole = bool((smoothing or cells.all()) and (targets != 0.0).all())
        self.factors = self._expand_marginals(targets != 0.0, 1.0)
        self.sums, self.found = np.empty(len(plan.lines) + WIDTH), np.empty(len(targets))
        self._given = self._table(cells)
        self.number, self.passes, self.residual, self.change = 0, 0, np.inf, np.inf

    def _expand_marginals(self, of_lines, none):
        """Return values of marginals for each position along a row, followed by those that stand for no margin."""
        return np.concatenate([of_lines[self.plan.lines], np.full(self.plan.length + WIDTH, none)])

    def _table(self, cells):
        """Return the fields of a DenseTable for `cells`.

        Zeros follow the last rows, since passes read whole SIMD vectors.
        """
        last = np.concatenate([cells[-WIDTH * self.plan.length :], np.zeros(WIDTH)])
        last.setflags(write=cells.flags.writeable)  # so that both arrays have one type
        return self.plan, cells, last, self.smoothing, self.used

    def sweep(self):
        """Scale every margin once, and record the residual, the largest change and the passes."""
        pool.checkpoint()
        of_lines = self.targets, self.totals, self.factors, self.sums, self.found
        self.residual, self.change = passes.sweep(self._given, *of_lines)
        self.number, self.passes = self.number + 1, self.passes + len(self.used)

    def sweep_to_convergence(self, tol, most_change):
        """Sweep until residual and last change are small enough; return False where too many sweeps are predicted."""
        while True:
            before, changed = self.residual, self.change
            self.sweep()
            if not self.residual < np.inf:
                return False
            if self.number < PLAIN_SWEEPS:
                continue
            shrinks = 0.0 < self.residual < before
            # Later margins have changed the earlier ones: one more shrinkage of the residual.
            now = self.residual * self.residual / before if shrinks else self.residual
            left = max(
                _predict_sweeps(now, self.residual, before, tol),
                _predict_sweeps(self.change, self.change, changed, most_change),
            )
            if left <= 0.0:
                return True
            if left > PATIENT_SWEEPS:
                return False

    def write(self, table):
        """Write the table; return its margins, and whether every cell that may be positive is."""
        positive = self._write_table(self.factors, table)
        achieved = np.bincount(self.plan.lines, self.sums[:-WIDTH], len(self.targets))
        if self.is_whole:
            may_be = len(table)
        elif (self.targets == 0.0).any():
            may_be = self._write_table((self.factors > 0.0).astype(np.float64), np.empty_like(table))
        else:
            may_be = int(np.count_nonzero(self.cells))
        return achieved, positive == may_be

    def _write_table(self, factors, table):
        """Write the table scaled by `factors`, and its sums; return the number of positive cells."""
        self.passes += 1
        return passes.write_table(self._given, factors, table, self.sums)

    def measure_residual(self, achieved):
        """Return the largest relative error of a margin."""
        off = np.nan_to_num(np.abs(achieved - self.targets))
        missed = np.add.reduceat(off, self.plan.offsets[:-1])
        return float(np.divide(missed, self.totals, out=missed, where=self.totals > 0.0).max())

    def measure_amplification(self, table):
        """Return a condition estimate of the cells by power iteration on a random perturbation.

        Sweeps are applied to the perturbation until it vanishes; the estimate is the total size of all but the first
        over the size of the first, and infinite where they decay slowly.
        """
        changes = self._expand_marginals(self.asked * passes.draw_perturbation(len(self.asked)), 0.0)
        total, before, scaled = 0.0, 0.0, self._table(table)
        for _ in range(MOST_ECHOES + 1):
            pool.checkpoint()
            size = passes.sweep_perturbation(scaled, self.targets, changes, FADED * before, self.sums, self.found)
            self.passes += len(self.used) if size > FADED * before else 1
            before = before or size
            if before == 0.0:  # no cell changes, so nothing was measured
                break
            total += size / before
            if size <= FADED * before:
                self.has_free_cells = not self.is_whole and self._measure_at_zero_cells(changes) > FADED * before
                return total - 1.0
        return np.inf

    def _measure_at_zero_cells(self, changes):
        """Return the largest change that the perturbation makes to any cell, including zero cells.

        After it has decayed it does not change positive cells. If it does not change any cell, the marginals that zero
        cells leave free are those that are free without zeros: the same factors have the minimum norm.
        """
        self.passes += 1
        ones = self._table(np.ones(len(self.cells)))
        return passes.sweep_perturbation(ones, self.targets, changes, np.inf, self.sums, self.found)

    def compute_log_factors(self, table):
        """Return the minimum-norm log factors that scale the cells in the same way, by conjugate gradients."""
        logs = np.zeros(len(self.targets))
        factors = self.factors[: len(self.plan.lines)]
        logs[self.plan.lines] = np.log(np.where(factors > 0.0, factors, 1.0))
        found, r = np.zeros(len(logs)), self._multiply_gram(logs, table)
        p, left = r, (r * r).sum()  # no BLAS: its sums depend on threads
        goal = MOST_LOGARITHM_RESIDUAL * MOST_LOGARITHM_RESIDUAL * left
        for _ in range(MOST_ROUNDS):
            if left <= goal:
                break
            product = self._multiply_gram(p, table)
            square = (p * product).sum()
            if not square > 0.0:
                break
            length = left / square
            found += length * p
            r = r - length * product
            before, left = left, (r * r).sum()
            p = r + left / before * p
        return found if left <= goal else logs

    def _multiply_gram(self, y, table):
        """Return A'A y for the incidence matrix A of cells by marginals."""
        if not self.has_free_cells:
            passes.multiply_gram_dense(self.layout, len(table), y, self.found)
        else:
            pool.checkpoint()
            passes.multiply_gram(self._table(table), self._expand_marginals(y, 0.0), self.sums, self.found)
        return np.where(self.asked, self.found, 0.0)

    def has_safe_range(self):
        """Test whether no product of a cell and any of its factors can leave the float64 range."""
        low = self.cells.min()
        if not self.smoothing and low == 0.0:
            low = np.min(self.cells, where=self.cells > 0.0, initial=np.inf)
        low, high = min(1.0, low + self.smoothing), max(1.0, self.cells.max() + self.smoothing)
        for b in self.used:
            own = self.factors[self.plan.starts[b] : self.plan.starts[b + 1]]
            low *= min(1.0, np.min(own, where=own > 0.0, initial=1.0))
            high *= max(1.0, own.max())
        return low > 1.0 / MOST_PRODUCT and high < MOST_PRODUCT


def _predict_sweeps(now, here, before, goal):
    """Return how many more sweeps bring `now` to `goal` at the rate of the last one, from `before` to `here`."""
    if now <= goal:
        return 0.0
    return math.log(goal / now) / math.log(here / before) if here < before < np.inf and goal > 0.0 else np.inf


def scale_by_sweeps(cells, wanted, layout, plan, rules, out, k):
    """Scale table `k` by sweeps and write its results; return False where it needs Newton's method."""
    targets = wanted.copy()
    with np.errstate(all="ignore"):
        status = _check_input(cells, targets, layout)
        if status != OK:
            for array in (out.table, out.factors, out.achieved, out.residual, out.error):
                array[k] = np.nan
            out.n_iter[k], out.status[k] = 0, status
            return True
        table = DenseSweeps(cells, targets, layout, plan, rules.smoothing)
        is_dense = rules.smoothing or np.count_nonzero(cells) >= DENSE_SHARE * len(cells)
        done = is_dense and _sweep_and_check(table, rules, out, k)
        out.n_iter[k] = table.passes
        return done


def _check_input(cells, targets, layout):
    """Validate cells and targets and reconcile the margins, in place; return OK or the status of the failure."""
    asked = targets[~np.isnan(targets)]
    if not (cells.min() >= 0.0 and cells.max() < np.inf and asked.min(initial=0.0) >= 0.0):
        return INVALID
    if not asked.max(initial=0.0) < np.inf:
        return INVALID
    return reconcile(layout, targets) if asked.sum() < np.inf else RANGE


def _sweep_and_check(table, rules, out, k):
    """Sweep a table and write its results; return whether residual and cells are accurate."""
    margins = len(table.used)
    if margins == 0 or not table.totals.all():
        return False
    enough = min(CELLS_TOL * rules.tol, MOST_CELL_ERROR)
    left, most_change = None, enough
    if margins == 1:
        table.sweep()
        left, most_change = 0.0, np.inf
    for _ in range(SWEEP_ROUNDS):
        if margins > 1 and not table.sweep_to_convergence(rules.tol, most_change):
            return False
        achieved, is_whole = table.write(out.table[k])
        residual = table.measure_residual(achieved)
        if not is_whole or not residual < np.inf:
            return False
        if left is None:
            left = margins * table.measure_amplification(out.table[k])
            most_change = enough / left if left > 0.0 else np.inf
        if residual <= rules.tol and table.change <= most_change:
            break
    else:
        return False
    logs = table.compute_log_factors(out.table[k])
    normalize_factors(table.layout, table.targets, rules, logs)
    factors = np.where(table.targets != 0.0, np.exp(logs), 0.0)
    if not table.has_safe_range() or not (np.isfinite(factors) & ((factors > 0.0) | (table.targets == 0.0))).all():
        return False
    error = left * max(table.change, UNIT_ROUNDOFF)
    out.factors[k], out.achieved[k], out.residual[k], out.error[k] = factors, achieved, residual, error
    out.status[k] = OK if error <= MOST_CELL_ERROR else UNDETERMINED
    return True
