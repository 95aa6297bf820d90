"""Matrix scaling, the same for every target: problems, limits at which algorithms change, convergence rules.

The sources of CUDA see every constant here under its name with the prefix ``CM_``.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

SHORT = 64
SMALL_CELLS = 1 << 14  # cells up to which it is used alone
PSEUDO_BAYES = -1.0  # the value of `amount` that selects this rule
MOST_SWEEPS = 10_000
NEWTON_STEPS = 200

UNIT_ROUNDOFF = 1.1e-16  # relative rounding error of float64
FLOW_SLACK = 1e-12  # flow over the total that counts as rounding, for targets that are not integers

TOTALS_RTOL = 1e-9  # relative difference allowed between the totals of row and column targets
WIDE = 1e100  # matrices with cells outside [1 / WIDE, WIDE] are equilibrated
# Ratio of two cells above which matrices without a dominant diagonal are equilibrated by an assignment.
MOST_SCALE_RATIO = 1e18
VAST = 1e30  # ratio above which all matrices are
EQUILIBRATION_ROUNDS = 3
BALANCE_SWEEPS = 2000
LEAST_EQUILIBRATION = 0.01  # change of a log2 factor at which balancing has converged

PLAIN_SWEEPS = 3  # sweeps before Newton's method
PAIRED_SWEEPS = 2  # sweeps over pairs of a row and a column before Newton's method
MANY_COLUMNS = 17  # columns from which a step of Newton's method costs more than the further sweeps that save it
FURTHER_SWEEPS = 4  # such sweeps
FAST_COLUMNS = 22  # columns from which sweeps go on while they cost less than the steps that they save
MOST_PAIRED_SWEEPS = 24  # then, in all
COLUMNS_PER_STEP = 3  # columns over the sweeps that cost as much as a step of Newton's method
MOST_SAVED_STEPS = 3  # such steps, at most, that sweeps are taken to save
MOST_RELAXATION = 1.4  # largest over-relaxation of such a sweep
# Changes of the last sweep after which Newton's method takes two steps, and one.
TWO_STEPS_WIDTH, ONE_STEP_WIDTH = 6e-3, 3e-5
FLAT_COLUMNS = 8  # columns from which matrices without dominant cells are swept before they are paired
FLAT_SHARE = 0.5  # largest part of a row that a cell of these has
MOST_FLAT_SWEEPS = 15  # such sweeps
ENOUGH_ITERATIONS = 50  # `max_iter` from which iterations are spent on further sweeps
LEAST_PIVOT = 1e-14  # smallest pivot of a Cholesky factor over the diagonal: a smaller one is rounding
NORMAL = 2.0**-1022  # weights below it have lost digits, and their reciprocals may overflow
SAFE_WIDTH = 1.79  # norm of a full Newton step that provably decreases the dual: e**w - 1 - w <= w * w

PATIENT_SWEEPS = 40  # predicted remaining sweeps above which Newton's method is faster
PATIENT_MOMENTUM_SWEEPS = 90  # the same for sweeps with momentum over one large matrix
SWEPT_COLUMNS = 36  # columns from which small matrices are swept with momentum before Newton's method
IMPATIENT_MOMENTUM_SWEEPS = 16  # predicted sweeps with momentum above which Newton's method is faster for these
# Sum of the cells off the diagonal after one sweep, times columns, below which Newton's method is faster for these.
LEAST_OFF_DIAGONAL = 768.0
RATE_PASSES = 4  # passes over which the rate of sweeps is estimated; two of them before there is momentum
MOST_RESTARTS = 3  # steps without momentum after the residual grew, before sweeps count as slow
GAP_MARGIN = 0.9  # part of the estimated spectral gap that is used: early estimates are too large
MOST_TAKEN = 0.9  # part of a factor that a step with momentum may take away
MOST_MOMENTUM_WIDTH = 200.0  # largest norm of a Newton step that is tried at full length
MOST_ELIMINATED_COLUMNS = 128  # columns up to which elimination costs less than conjugate gradients, or not much more
LEAST_GRADIENT_RESIDUAL = 1e-15  # relative residual of conjugate gradients for gradients, at least
RESCUE = 1024  # columns up to which elimination takes over where conjugate gradients are slow
MOST_PATH_PASSES = 8  # passes that look for wide paths between rows and columns
SWEEP_ROUNDING = 1e-15  # difference by rounding between the residual of a sweep and the one measured again
RESIDUAL_NOISE = 4e-15  # residual that rounding leaves

LEAST_RESIDUAL = 2e-15  # rounding: the smallest residual that can be promised
LINE_NOISE = 1e-13  # tolerance of a row or column below which its rounding matters
FLOOR_LINES = 32  # terms of a sum up to which LEAST_RESIDUAL holds; rounding grows with more

LINE_ROUNDING = 2.0**-51  # relative rounding of a target and its sum, which must not change cells noticeably
# Rounding all targets changes no cell by more than 1e-5, relative, where every positive cell is at least this part of
# the total, since each carries at most the whole rounding. Nor by more than 2e-5 where one column holds at least this
# part of every row: with that column's factor fixed, a row changes by at most as much as its other cells, and a column
# by at most as much as its rows. If the smallest column is grounded it absorbs the rounding of the total, so there the
# part is multiplied by the total over that column.
DOUBT = 1e5 * LINE_ROUNDING
MOST_CELL_ERROR = 1e-4  # largest relative error of a cell that counts as accurate
FINE_WIDTH = 1e-6  # norm of the last step where the errors of cells are bounded
LOST_LINE = 0.5  # relative error of a row or column above which factors are useless as a start
MOST_STALLS = 8  # stalled steps after which refinement stops
REFINED = 512  # rows or columns on the shorter side up to which matrices are refined

CLOSE = 0.1  # norm of a step below which convergence is quadratic: the next step should be much smaller
STANDING = 0.5  # ratio of successive step norms above which such steps have stalled at rounding


def compute_rounding(R: int, C: int) -> float:
    """Return the smallest residual that can be demanded for matrices of R rows and C columns."""
    return LEAST_RESIDUAL * max(1.0, max(R, C) / FLOOR_LINES)


def goals(tol: float, R: int, C: int) -> tuple[float, float, float]:
    """Return the residuals at which iterations stop, stop once stalled, and count as CONVERGED.

    The first two are for residuals that a solver measures during iterations, without the columns or without the
    diagonal; the third is for that of the result, measured again. They differ enough that rounding never turns "just
    converged" into "not quite" while passes are left.
    """
    half = 0.5 * compute_rounding(R, C)
    return tol - min(half, 0.5 * tol), half, max(tol, 2.0 * half)


def line_bound(bound: Any) -> Any:
    """Return the largest relative error of a row or column that counts as CONVERGED, for a residual bound of `bound`.

    They differ at the level of rounding, which averages out in the residual but not in the worst row or column.
    """
    return bound if bound >= LINE_NOISE else 2.0 * bound


def damped_step(width: float) -> float:
    """Return the length of a damped Newton step that provably decreases the dual, without a line search.

    `width` is the largest log-scale raise of a cell or weight by the full step. Along the step the third derivative of
    the dual is at most `width` times the second (Bach, Self-concordant analysis for logistic regression, 2010), so a
    step of length t decreases the dual while ``e**w - 1 - w <= width * w``, where ``w = t * width``: for every w up to
    ``log(1 + width)``, and up to SAFE_WIDTH where `width` is larger.
    """
    return 1.0 if width <= SAFE_WIDTH else max(SAFE_WIDTH, math.log1p(width)) / width


def has_stalled(width: Any, before: Any) -> Any:
    """Test whether Newton steps have stopped shrinking because only rounding is left, for a number or vectors."""
    return (width < CLOSE) & (width >= STANDING * before)


def has_ended(residual: Any, worst: Any, width: Any, stalled: Any, target: float, still: float, last: float) -> Any:
    """Test whether Newton's method has converged, for a number or vectors.

    `residual` is relative to the total of the targets, so it does not show rows and columns with small targets:
    `worst`, the largest relative error of one of them, must fit as well. Both alone would let cells smaller than the
    tolerance be wrong: the last step must be small too, or have stalled.
    """
    fits = (residual <= target) & (worst <= target)
    return (fits & ((width <= last) | stalled)) | ((residual <= still) & stalled)


def last_width(tol: float) -> float:
    """Return the largest norm of the last Newton step at which small cells are accurate too, not only the sums."""
    return min(1e-3, math.sqrt(1e3 * tol))


def is_large(R: int, C: int) -> bool:
    """Test whether sweeps and conjugate gradients may be faster than Newton steps by elimination."""
    return min(R, C) > SHORT or R * C > SMALL_CELLS


def pseudo_bayes(M: Any, high: float) -> tuple[Any, float]:
    """Smooth one matrix by the pseudo-Bayes rule of Bishop, Fienberg and Holland; return it and the prior's strength.

    The cells are pulled towards independence with a weight that the data choose; `high` is the largest cell.
    """
    if high == 0.0:
        return M, 0.0  # an empty matrix has no prior: its total is zero
    scale = math.ldexp(1.0, math.frexp(high)[1] - 1)  # keeps squares in range; the division is exact
    cells = M / scale
    expected = np.outer(cells.sum(1), cells.sum(0)) / cells.sum()
    N, gap = cells.sum(), ((expected - cells) ** 2).sum()
    k = (N * N - (cells * cells).sum()) / gap if gap > 0.0 else np.inf
    weight = k / (N * scale + k) if k < np.inf else 1.0
    return ((1.0 - weight) * cells + weight * expected) * scale, k


class Lines(NamedTuple):
    """Targets or factors, (n or 1, length) float64, and the stride between matrices: 0 where all share one.

    The stride is in values on CUDA, in lines on the CPU. Where none are given `values` is None on CUDA; on the CPU it
    holds ones as targets and lines of length 0 as factors.
    """

    values: Any
    step: int


class ScalingProblem(NamedTuple):
    """A flat batch of `n` matrices of R rows and C columns to scale, the rules, and the arrays for the results."""

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
    drop: bool  # whether empty classes get the target zero
    bi: bool  # whether all targets are one (none were given)
    plain: bool  # whether to run Sinkhorn sweeps only
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
        """Whether sweeps and conjugate gradients may be faster than Newton steps by elimination."""
        return is_large(self.R, self.C)

    @property
    def is_warm(self) -> bool:
        """Whether initial factors are given."""
        rows, cols = self.start_row.values, self.start_col.values
        return (rows is not None and rows.shape[-1] > 0) or (cols is not None and cols.shape[-1] > 0)

    def part(self, first: int, last: int) -> "ScalingProblem":
        """Return the problem of the matrices from `first` to before `last`, sharing the arrays."""
        if (first, last) == (0, self.n):
            return self
        part = slice(first, last)
        changed: dict[str, Any] = {name: _slice_lines(getattr(self, name), part) for name in LINES_OF_PROBLEM}
        results = ((name, getattr(self, name)) for name in RESULTS_OF_PROBLEM)
        changed |= {name: None if a is None else a[part] for name, a in results}
        return self._replace(n=last - first, cells=self.cells[part] if self.m_step else self.cells, **changed)

    def take_matrices(self, places: np.ndarray) -> "ScalingProblem":
        """Return a problem of some matrices on the CPU, with new arrays for results."""
        cells, n = self.cells, len(places)
        if self.m_step:
            cells = _take_read_only(cells, places)
        changed: dict[str, Any] = {
            name: np.empty((n if len(a) else 0, *a.shape[1:]), a.dtype) for name, a in self.results.items()
        }
        changed |= {name: _take_lines(getattr(self, name), places) for name in LINES_OF_PROBLEM}
        return self._replace(n=n, cells=cells, **changed)

    def write_results(self, places: np.ndarray, part: "ScalingProblem") -> None:
        """Write the results of such a problem, in place."""
        for name, a in self.results.items():
            if len(a):
                a[places] = getattr(part, name)

    @property
    def results(self) -> dict[str, Any]:
        """The arrays for the results, by name."""
        return {name: getattr(self, name) for name in RESULTS_OF_PROBLEM}


LINES_OF_PROBLEM = ("row_sums", "col_sums", "start_row", "start_col")
RESULTS_OF_PROBLEM = ("out", "out_row", "out_col", "residual", "n_iter", "status", "smoothing", "line_error")


def _slice_lines(lines: Lines, part: slice) -> Lines:
    """Return the lines of a part of the batch."""
    return Lines(lines.values[part], lines.step) if lines.step else lines


def _take_lines(lines: Lines, places: np.ndarray) -> Lines:
    """Return the lines of some matrices, on the CPU."""
    return Lines(_take_read_only(lines.values, places), lines.step) if lines.step else lines


def _take_read_only(a: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return a read-only copy of some lines of an array: kernels are compiled for such."""
    a = a[places]
    a.flags.writeable = False
    return a


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
    """Return the rule fields of a :class:`ScalingProblem` that follow from the options of the public functions."""
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
