"""Log-domain scaling of matrices whose factors or cells leave the float64 range during iterations.

A step is Newton's where the scaled cells that float64 holds connect all rows and columns, else a log-domain Sinkhorn
sweep (by log-sum-exp). Both decrease the dual, so they can alternate.
"""

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling._refine import Laplacian, bound_errors, factorize_laplacian, solve_laplacian
from cmfast.kernels.shared.scaling import (
    FINE_WIDTH,
    MOST_CELL_ERROR,
    MOST_STALLS,
    MOST_SWEEPS,
    REFINED,
    damped_step,
    has_stalled,
    line_bound,
    rules,
)
from cmfast.kernels.status import MAX_ITER, OK, RANGE, UNDETERMINED


def scale_in_logs(L, u, v, *, tol=1e-9, max_iter=None, solver="auto"):
    """Return the scaled matrix, log row and column factors, residual, passes, status and largest line error.

    `L` are log cells, all positive in the limit. Rows and columns with target zero get cells of zero.
    """
    R, C = L.shape
    matrix, row, col = np.zeros((R, C)), np.full(R, -np.inf), np.full(C, -np.inf)
    v = v * (u.sum() / v.sum())
    rows, cols = np.flatnonzero(u > 0.0), np.flatnonzero(v > 0.0)
    flip = len(rows) < len(cols)  # Newton's unknowns belong on the shorter side
    first, second, s, t = (cols, rows, v, u) if flip else (rows, cols, u, v)
    second = second[np.argsort(-t[second], kind="stable")]  # the largest is grounded
    A = np.ascontiguousarray((L.T if flip else L)[np.ix_(first, second)])
    s, t = s[first], t[second]
    newton = solver != "sinkhorn" and len(t) <= REFINED
    limits = rules(R, C, bi=False, tol=tol, solver=solver)["goals"]
    most = MOST_SWEEPS if max_iter is None else max_iter
    with np.errstate(all="ignore"):
        x, y, P, passes, status, moved = _run_iterations(A, s, t, limits, most, newton)
        gaps = abs(P.sum(1) - s), abs(P.sum(0) - t)
    residual = float((gaps[0].sum() + gaps[1].sum()) / s.sum())
    worst = float(max((gaps[0] / s).max(), (gaps[1] / t).max()))
    if not max(residual, worst, np.abs(x).max(), np.abs(y).max()) < np.inf:
        status = RANGE
    elif status == OK and not (residual <= limits[2] and worst <= line_bound(limits[2])):
        status = MAX_ITER
    elif status == OK and newton and not moved <= MOST_CELL_ERROR:
        status = UNDETERMINED
    if flip:
        first, second, x, y, P = second, first, y, x, P.T
    matrix[np.ix_(first, second)], row[first], col[second] = P, x, y
    return matrix, row, col, residual, passes, status, worst


def _run_iterations(A, s, t, limits, most, newton):
    """Iterate to convergence.

    Return log factors, scaled cells, passes, a status, and a bound of the cells' relative errors.
    """
    target, still, _ = limits
    k = A.shape[1]
    graph = Laplacian(np.zeros((k, k)), np.zeros((k, k)), np.zeros(k), np.zeros(k), np.zeros(k))
    d = graph.solution
    y, before, width, stalls, passes = np.zeros(k), np.inf, np.inf, 0, 0
    while True:
        pool.checkpoint()
        x, P = _scale_rows(A, s, y)
        passes += 1
        gap = t - P.sum(0)
        missed, worst = abs(gap).sum() / s.sum(), (abs(gap) / t).max()
        fits = missed <= target and worst <= target
        if newton:
            connected = _compute_newton_step(P, s, gap, graph)
            low, high = min(d.min(), 0.0), max(d.max(), 0.0)
            before, width = width, high - low if connected else np.inf
            stalls += bool(has_stalled(width, before))
            if (fits and width <= FINE_WIDTH) or stalls > MOST_STALLS:
                return x, y, P, passes, OK, max(width, _bound_cell_errors(P, s, t, graph))
        elif fits or max(missed, worst) <= still:
            return x, y, P, passes, OK, 0.0
        if passes >= most or not missed < np.inf:
            return x, y, P, passes, MAX_ITER, np.inf
        if width < np.inf:
            length = damped_step(width)
            y = y + length * (d - 0.5 * (low + high))
        else:
            y = np.log(t) - _compute_log_sums(A + x[:, None], 0)


def _scale_rows(A, s, y):
    """Return the log row factors and the scaled cells whose rows sum to their targets."""
    x = np.log(s) - _compute_log_sums(A + y, 1)
    P = np.exp(_add_log_factors(A, x, y))
    rest = s / P.sum(1)  # corrects the rounding of large logarithms
    return x + np.log(rest), P * rest[:, None]


def _add_log_factors(A, x, y):
    """Add log factors to rows and columns with the rounding errors of both sums (Knuth's two-sum)."""
    x, y = x[:, None], y[None, :]
    first = A + x
    total = first + y
    t, w = first - A, total - first
    lost = (A - (first - t)) + (x - t) + (first - (total - w)) + (y - w)
    return np.where(np.isfinite(lost), total + lost, total)


def _compute_log_sums(A, axis):
    """Return the log-sum-exp along an axis."""
    top = A.max(axis)
    return top + np.log(np.exp(A - np.expand_dims(top, axis)).sum(axis))


@jit()
def _compute_newton_step(P, s, gap, graph):
    """Solve the Newton system for the step, stored in `graph.solution`; return whether cells connect all columns."""
    n, k = P.shape
    factorize_laplacian(P, s, n, k, False, graph)
    graph.right[:] = gap
    solve_laplacian(graph, k, False)
    connected = True
    for j in range(1, k):
        connected = connected and graph.reciprocals[j] > 0.0 and -np.inf < graph.solution[j] < np.inf
    return connected


@jit()
def _bound_cell_errors(P, s, t, graph):
    """Return the largest relative change of a cell that rounding of the targets could cause."""
    n, k = P.shape
    return bound_errors(P, s, t, n, k, False, graph, np.empty((n, k)))
