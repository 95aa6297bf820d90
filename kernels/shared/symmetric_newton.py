"""Newton's method with conjugate gradients for the symmetric scaling problem ``x[i] * sum(a[i, j] * x[j]) = s[i]``.

It minimises half the sum over cells of ``a[i, j] * exp(e[i] + e[j])``, less ``s @ e``, where ``x = exp(e)``. The
Hessian is the diagonal of the row sums plus the scaled matrix. A table with rows and columns is the symmetric matrix
with the table and its transpose as off-diagonal blocks. Vectors are NumPy's; passes over pixels and conjugate gradients
are those of a target.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared.conjugate_gradients import LEAST_FORCING, ConjugateGradients
from cmfast.kernels.shared.scaling import (
    FLOOR_LINES,
    LEAST_RESIDUAL,
    MOST_CELL_ERROR,
    NEWTON_STEPS,
    damped_step,
    has_stalled,
    last_width,
)
from cmfast.kernels.shared.symmetric_conditioning import bound_eigenvalue_by_triangles, estimate_eigenvalue_by_probes
from cmfast.kernels.status import MAX_ITER, OK, RANGE, UNDETERMINED

SYMMETRIC_SWEEPS = 3  # sweeps before Newton's method
ZERO_CHECK_STEP = 15  # step at which the zeros are classified, since they may make the problem infeasible
FINEST_STEPS = 2  # steps beyond the tolerance that turn the error estimate of cells into a bound
SHARPENING = 0.7  # exponent of the residual in the forcing term (inexact Newton)
LEAST_STEP_RESIDUAL = 0.3  # part of the tolerance to which a step is solved at most
MOST_SYMMETRIC_PRODUCTS = 20_000  # products of one step
PRODUCTS_PER_BIN = 20  # products of a step for each bin: exact arithmetic needs one, rounding more
MOST_SYMMETRIC_PASSES = 10**9
ROW_SUM_ROUNDING = 1e-15  # relative rounding error of a sum


class SymmetricProblem(NamedTuple):
    """A symmetric scaling problem: its passes, targets and options."""

    passes: Any
    targets: Any  # sums of the rows, all positive
    shift: int  # number of rows of a table, whose columns are the bins from it on; 0 if symmetric
    tol: float
    max_iter: int | None
    judge: Callable[[], int]  # classifies the zeros and returns a status; called at most once


class SymmetricScaling(NamedTuple):
    """Scaling factors and their diagnostics."""

    status: int
    x: Any
    residual: float
    worst: float
    n_iter: int
    certain: bool = False  # whether the error of cells is bounded rather than estimated


class _Step(NamedTuple):
    """A Newton step and the least eigenvalue seen."""

    d: Any
    least: float  # estimate of the smallest eigenvalue of the Hessian, scaled to a unit diagonal


def compute_rounding(longest: int) -> float:
    """Return the smallest residual that can be demanded where `longest` cells are summed."""
    return LEAST_RESIDUAL * max(1.0, longest / FLOOR_LINES)


class _ErrorBound:
    """Bound or estimate of the relative error of cells whose sums fit; its ingredients are computed once."""

    def __init__(self, passes: Any, s: Any, rounding: float) -> None:
        self.passes, self.s, self.rounding = passes, s, rounding * float(s.sum())
        self.least_cell: Any = None
        self.eigenvalue: Any = None
        self.moved = 0.0
        self.certain = False  # whether the error is a bound

    def may_vanish(self, x: Any, missed: float) -> bool:
        """Test whether some cell may have to be zero: it is smaller than the total error of the sums."""
        self.least_cell = self.passes.least(x) if self.least_cell is None else self.least_cell
        return not self.least_cell > missed + self.rounding

    def choose_forcing(self, missed: float) -> float:
        """Return the relative residual at which all cells are provably accurate; 1 if that cannot be reached."""
        left = 0.5 * MOST_CELL_ERROR * self.least_cell - self.rounding
        return left / missed if 0.5 * self.rounding < left < missed else 1.0

    def estimate_error(self, x: Any, r: Any, g: Any) -> float:
        """Return the estimated relative error of a cell; `certain` is set if it is a bound."""
        missed, least = float(np.abs(g).sum()) + self.rounding, self.least_cell
        by_cells: float = missed / least if least > 0.0 else math.inf
        self.certain = by_cells <= MOST_CELL_ERROR
        if self.certain:
            return by_cells
        size = 2.0 * math.sqrt(float((g * g / r).sum()) / float(self.s.min()))
        if self.eigenvalue is None:
            self.eigenvalue = bound_eigenvalue_by_triangles(self.passes, x, r)
            if not size <= MOST_CELL_ERROR * self.eigenvalue:
                solve = partial(compute_newton_step, self.passes, x, r, forcing=0.1)
                self.eigenvalue, self.moved = estimate_eigenvalue_by_probes(self.passes, solve, x, r)
        return max(size / self.eigenvalue if self.eigenvalue > 0.0 else math.inf, self.moved)


def solve(task: SymmetricProblem, longest: int, start: Any = None) -> SymmetricScaling:
    """Solve a symmetric scaling problem; `longest` is the number of cells of the longest row or column."""
    passes, s = task.passes, task.targets
    total, rounding = float(s.sum()), compute_rounding(longest)
    even = math.sqrt(float(s.min()) * len(s) / total)  # the energy norm underrates small sums
    tol = max(task.tol, rounding)
    most = MOST_SYMMETRIC_PASSES if task.max_iter is None else task.max_iter
    x = np.ones(len(s)) if start is None else start.copy()
    for _ in range(SYMMETRIC_SWEEPS):
        x = x * np.sqrt(s / passes.sums(x))
    width, before, steps, judged, doubt = np.inf, np.inf, 0, False, _ErrorBound(passes, s, rounding)
    finest = FINEST_STEPS
    while True:
        passes.checkpoint()
        r = passes.sums(x)
        g = s - r
        missed = float(np.abs(g).sum())
        residual, worst = missed / total, float(np.abs(g / s).max())

        def make_result(status: int, x: Any = x, residual: float = residual, worst: float = worst) -> SymmetricScaling:
            """Return the present iterate with a status."""
            return SymmetricScaling(status, x, residual, worst, passes.count, status == OK and doubt.certain)

        if not (worst < np.inf and bool((r > 0.0).all()) and bool((x < np.inf).all())):
            return make_result(RANGE if judged else task.judge() or RANGE)
        stalled = has_stalled(width, before)
        fits = max(residual, worst) <= tol and (width <= last_width(tol) or stalled)
        ends = passes.count >= most or steps >= NEWTON_STEPS
        if not judged and (steps == ZERO_CHECK_STEP or (ends and not fits) or (fits and doubt.may_vanish(x, missed))):
            judged, status = True, task.judge()
            if status != OK:
                return make_result(status)
        finer = 1.0
        if fits:
            doubt.may_vanish(x, missed)
            if task.shift and finest > 0 and not (stalled or ends):
                finer, finest = doubt.choose_forcing(missed), finest - 1
        if fits and finer == 1.0:
            right = doubt.estimate_error(x, r, g) <= MOST_CELL_ERROR
            if right or stalled or ends:
                return make_result(OK if right else UNDETERMINED)
        if ends:
            return make_result(MAX_ITER)
        enough = LEAST_STEP_RESIDUAL * even * tol / max(residual, worst, ROW_SUM_ROUNDING)
        forcing = min(0.1, max(LEAST_FORCING, enough, residual**SHARPENING))
        if finer < 1.0:
            forcing = LEAST_STEP_RESIDUAL * even * finer
        d, _ = compute_newton_step(
            passes, x, r, g, forcing, (LEAST_STEP_RESIDUAL * tol) ** 2 * float(s.min()) if finer == 1.0 else 0.0
        )
        steps += 1
        before, (width, rho) = width, _measure_step(d, task.shift)
        if (length := damped_step(rho)) < 1.0:
            d *= length
        x = x * np.exp(d)


def _measure_step(d: Any, shift: int) -> tuple[float, float]:
    """Return the largest log-scale change of a cell by a step, and the largest raise."""
    if not shift:
        return 2.0 * float(np.abs(d).max()), 2.0 * max(float(d.max()), 0.0)
    rows, cols = d[:shift], d[shift:]
    grows, shrinks = float(rows.max() + cols.max()), float(-rows.min() - cols.min())
    return max(abs(grows), abs(shrinks)), max(grows, 0.0)


def compute_newton_step(passes: Any, x: Any, r: Any, g: Any, forcing: float, least: float = math.inf) -> _Step:
    """Solve the Newton system by diagonally preconditioned conjugate gradients, to a relative residual of `forcing`.

    Rounding errors of the sums may lie outside the range of the Hessian: no step is taken for a residual of that size,
    unless it is more than `least`.
    """
    z = g / r
    iterate = passes.iterate(x, r, g, z)
    gradients = ConjugateGradients(iterate, float((g * z).sum()))
    nothing = min(ROW_SUM_ROUNDING * ROW_SUM_ROUNDING * float(r.sum()), least)
    goal = max(forcing * forcing * gradients.energy, nothing)
    most = min(MOST_SYMMETRIC_PRODUCTS, PRODUCTS_PER_BIN * len(x))
    while gradients.energy > (goal if gradients.lengths else nothing) and len(gradients.lengths) < most:
        passes.checkpoint()
        if not gradients.advance():
            break
    return _Step(iterate.solution, gradients.least_eigenvalue() if gradients.lengths else 0.0)
