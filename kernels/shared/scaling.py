"""Matrix scaling, the same for every target: what is asked, where its rules turn, when it stops.

The sources of CUDA see every constant here under its name with ``CM_`` in front.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

SHORT = 64  # lines on the shorter side up to which Newton's method is all that is wanted, beyond it sweeps as well
SMALL_CELLS = 1 << 14  # and cells
PSEUDO_BAYES = -1.0  # the smoothing that stands for this rule
MOST_SWEEPS = 10_000
NEWTON_STEPS = 200

UNIT_ROUNDOFF = 1.1e-16  # by which a number is rounded
FLOW_SLACK = 1e-12  # of the total: what targets that are no integers may miss each other by, from rounding

TOTALS_RTOL = 1e-9  # what the totals of the targets may differ by
WIDE = 1e100  # entries outside [1 / WIDE, WIDE] are brought nearer by powers of two
# Ratio of two cells from which on rows and columns are paired in logarithms, but for a dominant diagonal.
MOST_SCALE_RATIO = 1e18
VAST = 1e30  # ratio from which on that is so there too
EQUILIBRATION_ROUNDS = 3
BALANCE_SWEEPS = 2000
LEAST_EQUILIBRATION = 0.01  # change of a factor, in powers of two, that needs no further sweep of these

PLAIN_SWEEPS = 3  # before Newton's method
PAIRED_SWEEPS = 2
LEAST_PIVOT = 1e-14  # of a Cholesky factorisation, relative to the diagonal: a smaller one is rounding
NORMAL = 2.0**-1022  # weights below it have lost digits, and their reciprocals may overflow
SAFE_WIDTH = 1.79  # norm of a full Newton step that decreases the dual for certain: e**w - 1 - w <= w * w

PATIENT_SWEEPS = 40  # sweeps of a large matrix that may be left before Newton's method is the better way
SETTLED_PASSES = 3  # after which the residuals of sweeps show what their momentum does
GAP_MARGIN = 0.9  # part that is taken of the gap they show: the rate at which residuals shrink still rises
MOST_TAKEN = 0.9  # part of a factor that a step with momentum may take away
MOST_MOMENTUM_WIDTH = 200.0  # of its steps, at most
MOST_ELIMINATED_COLUMNS = 128  # columns up to which elimination costs less than conjugate gradients, or not much more
LEAST_GRADIENT_RESIDUAL = 1e-15  # of conjugate gradients for derivatives, of that they begin with
RESCUE = 1024  # and up to which it takes over where they are slow
SWEEP_ROUNDING = 1e-15  # between the residual of a sweep and the one measured again
RESIDUAL_NOISE = 4e-15  # residual that rounding leaves

LEAST_RESIDUAL = 2e-15  # rounding: the smallest residual that can be promised
LINE_NOISE = 1e-13  # tolerance of a line below which its rounding counts
FLOOR_LINES = 32  # of the longer side up to which it is; what sums round grows with their length

LINE_ROUNDING = 2.0**-51  # of a target and of the sum that meets it, relative, which cells must not hang on
# Rounding all targets moves no cell by more than 1e-5 of itself where all positive cells are this part of the total: no
# more than what is rounded flows through one. Nor by more than twice that where one column has this part of every row:
# with its factor kept, a row changes by no more than the rest of it does, and a column by no more than rows do. Where
# the smallest column is grounded it takes the rounding of the total: there it is this part times the total over it.
DOUBT = 1e5 * LINE_ROUNDING
MOST_CELL_ERROR = 1e-4  # of a cell that is said to be right, relative
FINE_WIDTH = 1e-6  # of the last step where cells are looked at
LOST_LINE = 0.5  # relative error of a line from which on such factors are of no use to start from
MOST_STALLS = 8  # steps that do not shrink, after which no more are taken there
REFINED = 512  # rows or columns on the shorter side up to which they are

CLOSE = 0.1  # width of a step after which the next one should be much smaller
STANDING = 0.5  # of the width of the one before, at least, where it is not: only rounding is left


def compute_rounding(R: int, C: int) -> float:
    """Return a residual that nothing can be demanded below, for matrices of R rows and C columns."""
    return LEAST_RESIDUAL * max(1.0, max(R, C) / FLOOR_LINES)


def goals(tol: float, R: int, C: int) -> tuple[float, float, float]:
    """Return where the iteration stops, where it does if it no longer moves, and what is CONVERGED.

    The first two are for residuals that a solver measures on the way, without the columns or without the diagonal; the
    third is for that of what is returned, measured again. They are so far apart that rounding never turns "just
    converged" into "not quite" while passes are left.
    """
    half = 0.5 * compute_rounding(R, C)
    return tol - min(half, 0.5 * tol), half, max(tol, 2.0 * half)


def line_bound(bound: Any) -> Any:
    """Return the largest relative error of a row or column that is CONVERGED, where `bound` is that of the residual.

    They differ where only rounding is left: what sums round averages out in the residual, and not in the worst of them.
    """
    return bound if bound >= LINE_NOISE else 2.0 * bound


def damped_step(width: float) -> float:
    """Return the length of a damped Newton step that decreases the dual for certain, without a line search.

    `width` is the most that the full step raises the logarithm of a cell or weight. Along the step the third derivative
    of the dual is at most `width` times the second (Bach, Self-concordant analysis for logistic regression, 2010), so a
    step of length t decreases the dual while ``e**w - 1 - w <= width * w``, where ``w = t * width``: for every w up to
    ``log(1 + width)``, and up to SAFE_WIDTH where `width` is larger.
    """
    return 1.0 if width <= SAFE_WIDTH else max(SAFE_WIDTH, math.log1p(width)) / width


def has_stalled(width: Any, before: Any) -> Any:
    """Return whether Newton's steps have stopped shrinking, of a number or of vectors: only rounding is left."""
    return (width < CLOSE) & (width >= STANDING * before)


def has_ended(residual: Any, worst: Any, width: Any, stalled: Any, target: float, still: float, last: float) -> Any:
    """Return whether Newton's method has converged, of a number or of vectors.

    `residual` is relative to the total of the targets, so rows and columns with small targets are not seen in it:
    `worst`, the largest relative error of one of them, must fit as well. Both alone would let cells smaller than the
    tolerance be wrong: the last step must be small too, or have stopped shrinking.
    """
    fits = (residual <= target) & (worst <= target)
    return (fits & ((width <= last) | stalled)) | ((residual <= still) & stalled)


def last_width(tol: float) -> float:
    """Return how wide the last Newton step may be: small cells are right then and not only the sums."""
    return min(1e-3, math.sqrt(1e3 * tol))


def is_large(R: int, C: int) -> bool:
    """Return whether sweeps and conjugate gradients may be quicker than Newton steps by elimination."""
    return min(R, C) > SHORT or R * C > SMALL_CELLS


def pseudo_bayes(M: Any, high: float) -> tuple[Any, float]:
    """Bishop, Fienberg, Holland: pull the cells towards independence with a weight the data choose; also return it.

    For one matrix of NumPy and its largest cell; kernels for many do the same.
    """
    if high == 0.0:
        return M, 0.0  # no cell, no prior: the rule would divide by the total
    scale = math.ldexp(1.0, math.frexp(high)[1] - 1)  # so that squares stay in range; dividing by it is exact
    cells = M / scale
    expected = np.outer(cells.sum(1), cells.sum(0)) / cells.sum()
    N, gap = cells.sum(), ((expected - cells) ** 2).sum()
    k = (N * N - (cells * cells).sum()) / gap if gap > 0.0 else np.inf
    weight = k / (N * scale + k) if k < np.inf else 1.0
    return ((1.0 - weight) * cells + weight * expected) * scale, k


class Lines(NamedTuple):
    """Targets or factors, (n or 1, length) float64, and the step from one matrix to the next: 0 where they are shared.

    The step is in numbers on CUDA, in lines on the CPU. Where none are given `values` is None on CUDA; on the CPU it
    holds ones as targets and lines of length 0 as factors.
    """

    values: Any
    step: int


class ScalingProblem(NamedTuple):
    """A flat batch of `n` matrices of R rows and C columns to scale, the rules, and the arrays for what comes out."""

    R: int
    C: int
    n: int
    cells: Any  # (n or 1, R, C) float32 or float64; on the CPU float64 with the cells of a matrix in one axis
    m_step: int  # in matrices: 0 where all share one
    row_sums: Lines
    col_sums: Lines
    start_row: Lines
    start_col: Lines
    amount: float  # smoothing; below zero: pseudo-Bayes
    drop: bool  # empty classes get the target zero
    bi: bool  # no targets were given
    plain: bool  # sweeps only
    tol: float
    goals: tuple[float, float, float]
    last_width: float
    max_iter: int
    out: Any  # as `cells`; None on CUDA and without elements on the CPU where only the factors are wanted
    out_row: Any
    out_col: Any
    residual: Any
    n_iter: Any
    status: Any
    smoothing: Any
    line_error: Any

    @property
    def is_large(self) -> bool:
        """Whether sweeps and conjugate gradients may be quicker than Newton steps by elimination."""
        return is_large(self.R, self.C)

    @property
    def is_warm(self) -> bool:
        """Whether factors to start from are given."""
        rows, cols = self.start_row.values, self.start_col.values
        return (rows is not None and rows.shape[-1] > 0) or (cols is not None and cols.shape[-1] > 0)

    def part(self, first: int, last: int) -> "ScalingProblem":
        """Return the problem of the matrices from `first` to before `last`, in the same arrays."""
        if (first, last) == (0, self.n):
            return self
        part = slice(first, last)
        changed: dict[str, Any] = {name: _slice_lines(getattr(self, name), part) for name in LINES_OF_PROBLEM}
        results = ((name, getattr(self, name)) for name in RESULTS_OF_PROBLEM)
        changed |= {name: None if a is None else a[part] for name, a in results}
        return self._replace(n=last - first, cells=self.cells[part] if self.m_step else self.cells, **changed)


LINES_OF_PROBLEM = ("row_sums", "col_sums", "start_row", "start_col")
RESULTS_OF_PROBLEM = ("out", "out_row", "out_col", "residual", "n_iter", "status", "smoothing", "line_error")


def _slice_lines(lines: Lines, part: slice) -> Lines:
    return Lines(lines.values[part], lines.step) if lines.step else lines


@lru_cache(128)
def rules(
    R: int,
    C: int,
    *,
    bi: bool,
    smoothing: float | str | None = None,
    empty: str = "nan",
    tol: float = 1e-9,
    max_iter: int | None = None,
    solver: str = "auto",
) -> dict[str, Any]:
    """Return the rules of a :class:`ScalingProblem`, from the options of the public functions."""
    tol, plain = max(float(tol), LEAST_RESIDUAL), solver == "sinkhorn"
    if max_iter is None:
        max_iter = MOST_SWEEPS if plain or is_large(R, C) else NEWTON_STEPS
    return {
        "amount": PSEUDO_BAYES if smoothing == "pseudo-bayes" else float(smoothing or 0.0),
        "drop": empty == "drop",
        "bi": bi,
        "plain": plain,
        "tol": tol,
        "goals": goals(tol, R, C),
        "last_width": last_width(tol),
        "max_iter": max_iter,
    }
