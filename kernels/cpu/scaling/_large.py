"""Scaling of large matrices, one at a time with rows shared between threads: momentum sweeps, then Newton's method.

The Newton system is solved by elimination up to a few hundred columns and by conjugate gradients beyond. Errors of
small cells that the residual does not show are bounded by the smallest scaled cell or by wide paths between rows and
columns, or resolved by elimination.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.scaling import _large_passes, _large_sinkhorn, _preprocessing
from cmfast.kernels.cpu.scaling._assignment_and_balancing import pair_and_balance_interruptibly
from cmfast.kernels.cpu.scaling._large_batch import prepare_sweeps
from cmfast.kernels.cpu.scaling._large_elimination import compute_dense_step
from cmfast.kernels.cpu.scaling._large_row_blocks import MatrixRows, measure_cell_range, read_only
from cmfast.kernels.cpu.scaling._large_sinkhorn import CONVERGED, OUT_OF_RANGE, SLOW, START, Goal
from cmfast.kernels.shared.conjugate_gradients import ArrayIterate, ConjugateGradients
from cmfast.kernels.shared.scaling import (
    MOST_ELIMINATED_COLUMNS,
    MOST_MOMENTUM_WIDTH,
    MOST_SCALE_RATIO,
    PAIRED_SWEEPS,
    PATIENT_MOMENTUM_SWEEPS,
    RESCUE,
    RESIDUAL_NOISE,
    SAFE_WIDTH,
    SWEEP_ROUNDING,
    VAST,
    WIDE,
    damped_step,
    has_ended,
    has_stalled,
    line_bound,
    pseudo_bayes,
)
from cmfast.kernels.status import INVALID, MAX_ITER, OK, RANGE, UNDETERMINED, ZERO_LINE


class _RangeExceeded(Exception):  # noqa: N818 (an answer, not an error)
    """A factor or a sum left the range of float64."""


def scale(p, num_threads, quick):
    """Scale the matrices of a problem in place.

    `quick` leaves those that sweeps solve to a compiled loop.
    """
    for b in prepare_sweeps(p)(0, p.n).tolist() if quick else range(p.n):
        pool.checkpoint()
        given = p.cells[b * p.m_step].reshape(p.R, p.C)
        targets = _select_line(p.row_sums, b).copy(), _select_line(p.col_sums, b).copy()
        starts = [_select_line(lines, b) if lines.values.shape[1] else None for lines in (p.start_row, p.start_col)]
        scaled = _select_output(p, b)
        with np.errstate(all="ignore"):  # overflows end as a status
            answer = _scale_one(p, given, targets, starts, scaled, num_threads)
        _write_answer(p, b, answer)
        if answer.status not in (OK, MAX_ITER, UNDETERMINED):
            p.out_row[b], p.out_col[b], p.residual[b], p.line_error[b] = np.nan, np.nan, np.nan, np.nan
            scaled[:] = np.nan


def scale_unclassified(p, num_threads):
    """Scale one matrix with zeros to unit sums by sweeps; return whether they prove that no cell vanishes in the limit.

    A positive cell without support is at most as large as the total error of the sums: there is a block of zeros whose
    rows are as many as the columns outside it (Frobenius and Koenig), and these columns hold all of those rows and the
    cell besides. So where the residual proves small cells accurate, each has support, and the zeros need not be
    classified, which takes most of the time. Bits are those of the other way.
    """
    M = read_only(p.cells[0].reshape(p.R, p.C))
    low, high, _, bad = measure_cell_range(M, num_threads)
    if bad or low < 1.0 / WIDE or high > min(WIDE, MOST_SCALE_RATIO * low) or _large_passes.lacks_support(M):
        return False
    problem = MatrixRows(M, np.ones(p.R), np.ones(p.C), num_threads)
    with np.errstate(all="ignore"):
        x, y, n_iter, status, proven = _run_momentum_sweeps(p, problem, np.ones(p.C))
        if not proven or status != OK:
            return False
        answer = _measure_answer(p, problem, (x, y), None, n_iter, status, _select_output(p, 0))
    if answer.status != OK:
        return False
    _write_answer(p, 0, answer)
    return True


def _select_output(p, b):
    """Return the part of the output for matrix `b`, without rows if none is wanted."""
    return p.out[b].reshape(p.R, p.C) if len(p.out) else np.empty((0, p.C))


def _write_answer(p, b, answer):
    """Write the factors, residuals and status of matrix `b`."""
    p.out_row[b], p.out_col[b], p.residual[b], p.n_iter[b], p.status[b], p.smoothing[b], p.line_error[b] = answer


def _select_line(lines, b):
    """Return the targets or factors of matrix `b`."""
    return lines.values[b * lines.step]


class _Answer(NamedTuple):
    """Factors, residual and status of one matrix."""

    x: np.ndarray | float
    y: np.ndarray | float
    residual: float
    n_iter: int
    status: int
    smoothing: float
    line_error: float


def _scale_one(p, M, targets, starts, out, num_threads):
    """Smooth, check and scale one matrix; rows and columns with target zero are left out and get zeros."""
    amount, M = max(p.amount, 0.0), read_only(M)
    low, high, zero, bad = measure_cell_range(M, num_threads)
    if bad:
        return _make_failure(INVALID, amount)
    if p.amount > 0.0:
        M, low, high, zero = read_only(M + amount), amount if zero else low + amount, high + amount, False
    elif p.amount < 0.0:
        M, amount = pseudo_bayes(M, high)
        M = read_only(M)
        low, high, zero, _ = measure_cell_range(M, num_threads)
    drop = p.drop and p.bi and zero
    if p.bi and not drop:  # the targets are ones
        return _scale_part(p, M, (low, high, zero), targets, starts, out, num_threads)._replace(smoothing=amount)
    u, v = targets
    status, u, v = _preprocessing.check_targets(M, u, v, zero, drop)
    if status != OK:
        return _make_failure(status, amount)
    if u.all() and v.all():
        return _scale_part(p, M, (low, high, zero), (u, v), starts, out, num_threads)._replace(smoothing=amount)
    keep = (u > 0.0, v > 0.0)
    part = read_only(np.ascontiguousarray(M[np.ix_(*keep)]))
    out[:] = 0.0
    if part.size == 0:
        return _Answer(np.zeros_like(u), np.zeros_like(v), 0.0, 1, OK, amount, 0.0)
    low, high, *_ = measure_cell_range(part, num_threads)
    small = np.empty_like(part) if len(out) else np.empty((0, part.shape[1]))
    starts = [a if a is None else a[k] for a, k in zip(starts, keep, strict=True)]
    targets = u[keep[0]], v[keep[1]]
    answer = _scale_part(p, part, (low, high, zero), targets, starts, small, num_threads)
    if len(out):
        out[np.ix_(*keep)] = small
    row, col = np.zeros_like(u), np.zeros_like(v)
    row[keep[0]], col[keep[1]] = answer.x, answer.y
    return answer._replace(x=row, y=col, smoothing=amount)


def _scale_part(p, M, extent, targets, starts, out, num_threads):
    """Scale a matrix whose targets are all positive: equilibrate, solve, normalise, measure residuals, set a status."""
    (low, high, zero), (u, v) = extent, targets
    if zero and _preprocessing.has_empty_line(M):
        return _make_failure(ZERO_LINE)
    M, powers, order = _equilibrate(M, low, high, p.plain)
    first_x, first_y = _scale_starts(starts, powers)
    if p.plain and powers and first_x is None and first_y is None:
        first_y = np.ldexp(1.0, powers[1])  # sweeps of the input begin with ones
    problem = MatrixRows(M, u, v, num_threads)
    x, y, n_iter, status = _solve(p, problem, first_x, first_y, order)
    if status not in (OK, MAX_ITER, UNDETERMINED):
        return _make_failure(status, n_iter=n_iter)
    return _measure_answer(p, problem, (x, y), powers, n_iter, status, out)


def _measure_answer(p, problem, factors, powers, n_iter, status, out):
    """Normalise the factors, write the scaled matrix to `out`, measure residuals and set the status."""
    x, y = factors
    row, col = np.empty_like(x), np.empty_like(y)
    row_powers, col_powers = powers or (np.zeros(len(x), np.int64), np.zeros(len(y), np.int64))
    if not _large_passes.normalize_factors(x, y, row_powers, col_powers, row, col):
        return _make_failure(RANGE, n_iter=n_iter)
    problem.run(_large_passes.measure_sums, x, y, problem.sums, out)
    missed, worst = _large_passes.compute_residual(problem.matrix, problem.sums)
    residual = missed / problem.total
    if not residual < np.inf:
        return _make_failure(RANGE, n_iter=n_iter)
    # For Sinkhorn sweeps that were stopped by `max_iter`, residuals within the tolerance suffice.
    bound = p.goals[2] if status in (OK, UNDETERMINED) else p.tol if p.plain else -np.inf
    fits = residual <= bound and worst <= line_bound(bound)
    judged = status == OK and not p.plain and not p.bi
    if judged and not (fits and _large_passes.is_certain(problem.matrix, x, y, problem.total)):
        status = UNDETERMINED
    if status == UNDETERMINED:
        return _Answer(row, col, residual, n_iter, UNDETERMINED, 0.0, worst)  # `_refine` decides
    return _Answer(row, col, residual, n_iter, OK if fits else MAX_ITER, 0.0, worst)


def _make_failure(status, amount=0.0, n_iter=0):
    """Return the answer for a matrix without a solution: NaN and a status."""
    return _Answer(np.nan, np.nan, np.nan, n_iter, status, amount, np.nan)


def _equilibrate(M, low, high, plain):
    """Divide wide-ranging cells by powers of two.

    Return the matrix, the exponents and a pairing, None where not needed.
    """
    R, C = M.shape
    far = low < 1.0 / WIDE or high > WIDE or high > VAST * low
    if R == C and not plain and (far or (high > MOST_SCALE_RATIO * low and not _large_passes.has_dominant_diagonal(M))):
        order, row, col = np.empty(C, np.int64), np.empty(C), np.empty(C)
        if pair_and_balance_interruptibly(np.log2(M), order, row, col):
            row, col = row.astype(np.int64), col.astype(np.int64)
            return np.ldexp(M, -row[:, None] - col), (row, col), order
    if low < 1.0 / WIDE or high > WIDE:
        return *_preprocessing.equilibrate(M), None
    return M, None, None


def _scale_starts(starts, powers):
    """Return the initial factors for the equilibrated matrix, None for those that are not positive and finite."""
    found = []
    for k, factors in enumerate(starts):
        good = factors is not None and bool(((factors > 0.0) & (factors < np.inf)).all())
        found.append((np.ldexp(factors, powers[k]) if powers else factors.copy()) if good else None)
    return found


def _solve(p, problem, start_x, start_y, order):
    """Return row factors, column factors, passes and a status, for targets that are all positive."""
    M, u, v = problem.matrix
    flip = len(u) < len(v) and not p.plain  # Newton's unknowns belong on the shorter side
    if flip:
        problem = MatrixRows(np.ascontiguousarray(M.T), v, u, problem.num_threads)
        u, v, start_x, start_y = v, u, start_y, start_x
    y, warm = start_y, start_x is not None or start_y is not None
    if y is None:
        y = np.ones(len(v)) if start_x is None else v / problem.multiply_left(start_x)
    try:
        if p.plain:
            x, y, n_iter, status = _run_sinkhorn(p, problem, y)
        else:
            x, y, n_iter, status, _ = _run_momentum_sweeps(p, problem, y)
        if status is None:
            x, y, n_iter, status = _run_newton(p, problem, x, y, n_iter, order, warm)
    except _RangeExceeded:
        x, y, n_iter, status = np.nan, np.nan, 0, RANGE
    return (y, x, n_iter, status) if flip else (x, y, n_iter, status)


def _run_sinkhorn(p, problem, y):
    """Run Sinkhorn sweeps (Erbani et al., algorithm 2); return row factors, column factors, sweeps and a status."""
    target, still, _ = p.goals
    x = np.zeros(len(problem.matrix.u))
    last = np.empty_like(x)
    goal = Goal(problem.total, target, still, p.max_iter, np.inf)
    k, residual = problem.run_sinkhorn(last, x, y, goal)
    if not residual < np.inf:
        raise _RangeExceeded
    return last, y, k, OK if residual <= max(target, still) else MAX_ITER


def _run_momentum_sweeps(p, problem, start):
    """Run Sinkhorn sweeps with momentum.

    Return factors, passes, a status, None where Newton's method should continue, and whether the residual shows that
    small cells are accurate.
    """
    target, still, _ = p.goals
    x, y, step = np.zeros(len(problem.matrix.u)), start.copy(), np.zeros(len(start))
    goal = Goal(problem.total, target, still, p.max_iter, float(PATIENT_MOMENTUM_SWEEPS))
    pace, hidden = problem.run_momentum_sweeps(x, y, step, START, goal), -np.inf
    if pace.state == CONVERGED:
        hidden = problem.bound_hidden_residual(x, y, p.last_width, pace.residual)
        if hidden < SWEEP_ROUNDING:
            return x, y, pace.k, None, False
        if pace.residual > hidden:
            pace = problem.run_momentum_sweeps(x, y, step, pace, goal._replace(target=min(target, hidden)))
    if pace.state == OUT_OF_RANGE:
        problem.run(_large_sinkhorn.sweep, x, start, problem.sums)
        return x, start, pace.k, None, False
    if pace.state == SLOW:
        return x, y, pace.k, None, False
    return x, y, pace.k, OK if pace.residual <= max(target, still) else MAX_ITER, pace.residual <= hidden


def _run_newton(p, problem, x, y, n_iter, order, warm):
    """Run Newton's method on the dual with backtracking, from the factors of the sweeps.

    Return factors, passes and a status.
    """
    order = _find_pairing(problem, y) if order is None else order
    paired = order is not None
    if paired:
        problem, y = _start_paired(problem, x, y, order, warm)
        n_iter += PAIRED_SWEEPS
    (target, still, _), (_, u, v) = p.goals, problem.matrix
    R, C = len(u), len(v)
    x, off = np.empty(R), np.zeros(R)
    rho, rho_before, dense, trial = np.inf, np.inf, C <= MOST_ELIMINATED_COLUMNS, None
    hidden, status = None, MAX_ITER
    while True:
        sums = problem.column_sums(_large_passes.scale_rows, x, y, off, problem.sums, paired)
        g = (v - u) + (off - sums) if paired else v - sums
        missed = abs(g)
        residual, worst = missed.sum() / problem.total, (missed / v).max()
        if not residual < np.inf:
            raise _RangeExceeded
        if trial is not None:
            origin, d, width, slope = trial
            safe = damped_step(rho)
            if width > safe and -(g @ d) > 0.5 * slope:
                width = max(0.3 * width, safe)
                y = origin * np.exp(width * d)
                trial = origin, d, width, slope
                n_iter += 1
                continue
            trial = None
        stalled = has_stalled(rho, rho_before)
        if has_ended(residual, worst, rho, stalled, target, still, p.last_width):
            if hidden is None:
                hidden = problem.bound_hidden_residual(x, y, p.last_width, residual)
            worn = stalled or residual <= RESIDUAL_NOISE  # conjugate gradients have reached rounding
            if dense or residual <= hidden >= SWEEP_ROUNDING or (worn and C > RESCUE):
                status = OK if rho <= p.last_width or p.bi else UNDETERMINED
                break
            dense = worn
        if n_iter >= p.max_iter:
            break
        d, passes, dense = _compute_newton_step(problem, x, y, g, residual, paired, dense)
        n_iter += 1 + passes
        rho_before, rho = rho, d.max() - d.min()
        if not rho < np.inf:
            raise _RangeExceeded
        d = d - 0.5 * (d.max() + d.min())  # keep the factors centred
        width = 1.0 if rho <= SAFE_WIDTH else min(1.0, MOST_MOMENTUM_WIDTH / rho)
        if rho > SAFE_WIDTH:
            trial = y, d, width, abs(g @ d)
        y = y * np.exp(width * d)
    if paired:
        back = np.empty_like(y)
        back[order] = y
        y = back
    return x, y, n_iter, status


def _start_paired(problem, x, y, order, warm):
    """Permute the columns to their paired rows and compute initial column factors.

    Return the new problem and the factors.
    """
    M, u, v = problem.matrix
    v = v[order]
    if (order != np.arange(len(order))).any():
        M = np.ascontiguousarray(M[:, order])
    y = y[order]
    if not warm:
        middle = M.diagonal()
        x, y = np.sqrt(u / middle), np.sqrt(v / middle)
    problem = MatrixRows(M, u, v, problem.num_threads)
    for _ in range(PAIRED_SWEEPS):
        _large_passes.sweep_pairs(problem.matrix, x, y)
    return problem, y


def _find_pairing(problem, y):
    """Return the column paired with each row, or None.

    The diagonal where it dominates, else the largest scaled cell of each row, else the diagonal if it is positive.
    """
    M = problem.matrix.cells
    R, C = M.shape
    if R != C:
        return None
    if _large_passes.has_dominant_diagonal(M):
        return np.arange(C)
    order = np.empty(R, np.int64)
    _large_passes.find_row_maxima(M, y, order)
    if len(np.unique(order)) == C:
        return order
    return np.arange(C) if (M.diagonal() > 0.0).all() else None


def _compute_newton_step(problem, x, y, g, residual, paired, dense):
    """Return the Newton step, its number of Laplacian products, and whether to use elimination from now on."""
    C = len(g)
    if not dense:
        d, products = _solve_by_conjugate_gradients(problem, x, y, g, residual, paired)
        if d is not None:
            return d, products, False
    d = np.empty(C)
    M, u, v = problem.matrix
    q = v - u if paired else g.copy()
    compute_dense_step(M, u, x, y, q, paired, d)
    return d, 0, True


def _solve_by_conjugate_gradients(problem, x, y, g, residual, paired):
    """Solve the Newton system L d = g by preconditioned conjugate gradients.

    Return d and the products, None where slow. The preconditioner is the diagonal of L. The tolerance shrinks with the
    residual (inexact Newton).
    """
    C = len(g)
    scale = problem.column_sums(_large_passes.compute_diagonal, x, y, problem.sums, paired)
    scale = np.where(scale > 0.0, scale, 1.0)
    goal = min(0.1, math.sqrt(residual)) * abs(g).sum()
    most = C // 3 if C <= RESCUE else 4 * C

    def multiply(p):
        """Return the product L p and the energy p' L p."""
        Lp = problem.column_sums(_large_passes.multiply_laplacian, x, y, p, problem.sums, paired)
        return Lp, p @ Lp

    iterate = ArrayIterate(g - g.mean(), lambda r: r / scale, multiply)
    gradients = ConjugateGradients(iterate, iterate.energy)
    for k in range(1, most + 1):
        if not gradients.advance():
            break
        if abs(iterate.residual).sum() <= goal:
            return iterate.solution, k
    return (None, 0) if C <= RESCUE else (iterate.solution, most)
