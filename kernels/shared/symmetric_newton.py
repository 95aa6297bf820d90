"""Newton's method with conjugate gradients for ``x[i] * sum(a[i, j] * x[j]) = s[i]``.

It minimises the sum over cells of ``a[i, j] * exp(e[i] + e[j])``, half of it, less ``s @ e``, where ``x = exp(e)``. Its
second derivative is the diagonal of the row sums plus the scaled matrix. A table with rows and columns is the symmetric
matrix with that table, and its transpose, beside its diagonal.

Vectors are NumPy's here. Passes over the pixels, and conjugate gradients, are those of a target.
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
from cmfast.kernels.shared.symmetric_conditioning import by_probes, by_triangles
from cmfast.kernels.status import MAX_ITER, OK, RANGE, UNDETERMINED

SYMMETRIC_SWEEPS = 3  # before Newton's method
SUSPICIOUS = 15  # steps after which zeros are looked at that may forbid an answer
FINEST_STEPS = 2  # beyond the tolerance, for a bound of how far off cells are in place of an estimate
SHARPENING = 0.7  # how much better steps are solved as the residual falls
LEAST_STEP_RESIDUAL = 0.3  # of the tolerance, of what a step leaves: more is of no use
MOST_SYMMETRIC_PRODUCTS = 20_000  # of one step
PRODUCTS_PER_BIN = 20  # and more: without rounding one would do, and with it few bins may never get there
MOST_SYMMETRIC_PASSES = 10**9
ROW_SUM_ROUNDING = 1e-15  # of a sum, over itself


class SymmetricProblem(NamedTuple):
    """What is asked."""

    passes: Any
    targets: Any  # all positive
    shift: int  # bins before it are rows, those from it on columns; 0: they are the same
    tol: float
    max_iter: int | None
    judge: Callable[[], int]  # whether the zeros allow an answer, as a status; it is asked once at most


class SymmetricScaling(NamedTuple):
    """Factors, and how good they are."""

    status: int
    x: Any
    residual: float
    worst: float
    n_iter: int
    certain: bool = False  # whether a bound of how far off cells may be decided, and no estimate


class _Step(NamedTuple):
    d: Any
    least: float  # about the smallest eigenvalue of the second derivative, the diagonal scaled to one


def floor(longest: int) -> float:
    """Return a residual that nothing can be demanded below, where so many cells are added up."""
    return LEAST_RESIDUAL * max(1.0, longest / FLOOR_LINES)


class _Doubt:
    """How far off a cell may be though the sums fit; what that takes is looked for once."""

    def __init__(self, passes: Any, s: Any, rounding: float) -> None:
        self.passes, self.s, self.rounding = passes, s, rounding * float(s.sum())
        self.least_cell: Any = None
        self.eigenvalue: Any = None
        self.moved = 0.0
        self.certain = False  # whether the error is a bound

    def vanishing(self, x: Any, missed: float) -> bool:
        """Return whether some cell may have to vanish: those are smaller than what is missed of all sums."""
        self.least_cell = self.passes.least(x) if self.least_cell is None else self.least_cell
        return not self.least_cell > missed + self.rounding

    def enough(self, missed: float) -> float:
        """Return what part of what is missed may be left for all cells to be right for certain; 1 if that is no use."""
        left = 0.5 * MOST_CELL_ERROR * self.least_cell - self.rounding
        return left / missed if 0.5 * self.rounding < left < missed else 1.0

    def error(self, x: Any, r: Any, g: Any) -> float:
        """Return about how far off a cell may be, of itself."""
        missed, least = float(np.abs(g).sum()) + self.rounding, self.least_cell
        by_cells: float = missed / least if least > 0.0 else math.inf
        self.certain = by_cells <= MOST_CELL_ERROR
        if self.certain:
            return by_cells
        size = 2.0 * math.sqrt(float((g * g / r).sum()) / float(self.s.min()))
        if self.eigenvalue is None:
            self.eigenvalue = by_triangles(self.passes, x, r)
            if not size <= MOST_CELL_ERROR * self.eigenvalue:
                solve = partial(direction, self.passes, x, r, forcing=0.1)
                self.eigenvalue, self.moved = by_probes(self.passes, solve, x, r)
        return max(size / self.eigenvalue if self.eigenvalue > 0.0 else math.inf, self.moved)


def solve(task: SymmetricProblem, longest: int, start: Any = None) -> SymmetricScaling:
    """Find the factors; `longest` is the number of cells of the longest line."""
    passes, s = task.passes, task.targets
    total, rounding = float(s.sum()), floor(longest)
    even = math.sqrt(float(s.min()) * len(s) / total)  # steps are judged by all sums, where a small one counts little
    tol = max(task.tol, rounding)
    most = MOST_SYMMETRIC_PASSES if task.max_iter is None else task.max_iter
    x = np.ones(len(s)) if start is None else start.copy()
    for _ in range(SYMMETRIC_SWEEPS):
        x = x * np.sqrt(s / passes.sums(x))
    width, before, steps, judged, doubt = np.inf, np.inf, 0, False, _Doubt(passes, s, rounding)
    finest = FINEST_STEPS
    while True:
        passes.checkpoint()
        r = passes.sums(x)
        g = s - r
        missed = float(np.abs(g).sum())
        residual, worst = missed / total, float(np.abs(g / s).max())

        def found(status: int, x: Any = x, residual: float = residual, worst: float = worst) -> SymmetricScaling:
            return SymmetricScaling(status, x, residual, worst, passes.count, status == OK and doubt.certain)

        if not (worst < np.inf and bool((r > 0.0).all()) and bool((x < np.inf).all())):
            return found(RANGE if judged else task.judge() or RANGE)
        stalled = has_stalled(width, before)
        fits = max(residual, worst) <= tol and (width <= last_width(tol) or stalled)
        ends = passes.count >= most or steps >= NEWTON_STEPS
        if not judged and (steps == SUSPICIOUS or (ends and not fits) or (fits and doubt.vanishing(x, missed))):
            judged, status = True, task.judge()
            if status != OK:
                return found(status)
        finer = 1.0
        if fits:
            doubt.vanishing(x, missed)
            if task.shift and finest > 0 and not (stalled or ends):
                finer, finest = doubt.enough(missed), finest - 1
        if fits and finer == 1.0:
            right = doubt.error(x, r, g) <= MOST_CELL_ERROR
            if right or stalled or ends:
                return found(OK if right else UNDETERMINED)
        if ends:
            return found(MAX_ITER)
        enough = LEAST_STEP_RESIDUAL * even * tol / max(residual, worst, ROW_SUM_ROUNDING)
        forcing = min(0.1, max(LEAST_FORCING, enough, residual**SHARPENING))
        if finer < 1.0:
            forcing = LEAST_STEP_RESIDUAL * even * finer
        d, _ = direction(
            passes, x, r, g, forcing, (LEAST_STEP_RESIDUAL * tol) ** 2 * float(s.min()) if finer == 1.0 else 0.0
        )
        steps += 1
        before, (width, rho) = width, _widths(d, task.shift)
        if (length := damped_step(rho)) < 1.0:
            d *= length
        x = x * np.exp(d)


def _widths(d: Any, shift: int) -> tuple[float, float]:
    """Return the most that a step changes a cell, and that it makes one grow, as logarithms."""
    if not shift:
        return 2.0 * float(np.abs(d).max()), 2.0 * max(float(d.max()), 0.0)
    rows, cols = d[:shift], d[shift:]
    grows, shrinks = float(rows.max() + cols.max()), float(-rows.min() - cols.min())
    return max(abs(grows), abs(shrinks)), max(grows, 0.0)


def direction(passes: Any, x: Any, r: Any, g: Any, forcing: float, least: float = math.inf) -> _Step:
    """Solve the Newton system by diagonally preconditioned conjugate gradients, to a relative residual of `forcing`.

    What rounding leaves of sums need not be a change that weights can bring about: no step is taken for it, unless more
    than `least`.
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
