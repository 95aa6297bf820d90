"""Sinkhorn sweeps over one large matrix, plain or with momentum; each sweep reads the matrix once.

The rows of the cells may be padded with zeros beyond the column targets; the column factors and sums are as long then.

Near the solution a sweep is linear in the log factors, with a symmetric matrix, so acceleration of linear iterations
applies: over-relaxation plus a part of the last step (Polyak's heavy ball). Where the slowest error shrinks by 1 - gap
in a plain sweep (the spectral gap), it then shrinks by about 1 - 2 sqrt(gap). The gap is estimated from the residuals.
"""

from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    absolute,
    fma,
    largest,
    load_elements,
    load_row,
    splat,
    store_row,
    total,
    where,
)
from cmfast.kernels.cpu.scaling._large_passes import add_blocks
from cmfast.kernels.shared.scaling import GAP_MARGIN, MOST_RESTARTS, MOST_TAKEN, RATE_PASSES

SWEPT_ROWS = 4  # rows swept together


class Goal(NamedTuple):
    """Stopping criteria of sweeps."""

    total: float  # of the targets
    target: float  # residual that counts as converged
    still: float  # residual that counts as converged once it no longer decreases
    max_iter: int
    patience: float  # predicted remaining passes above which sweeps count as slow


@jit(inline=True)
def sweep(matrix, x, y, sums, start, stop):
    """Set x = u / (M y); store by block the row errors with the old x, and the column sums with the new x."""
    R, C = matrix.cells.shape
    cols, missed_rows, rows, _ = sums
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = 0.0
        first, last = block * rows, min(R, (block + 1) * rows)
        whole = first + (last - first) // SWEPT_ROWS * SWEPT_ROWS
        missed = 0.0
        for i in range(first, whole, SWEPT_ROWS):
            missed += _sweep_rows(matrix, x, y, cols, block, i)
        for i in range(whole, last):
            missed += _sweep_row(matrix, x, y, cols, block, i)
        missed_rows[block] = missed


@jit(inner=True, inline=True, borrows=True)
def _sweep_row(matrix, x, y, cols, block, i):
    """Sweep one row; return its absolute error with the old factors."""
    M, u, _ = matrix
    C = M.shape[1]
    whole = C // WIDTH * WIDTH
    a = splat(0.0)
    for j in range(0, whole, WIDTH):
        a = fma(load_row(M, i, j), load_elements(y, j), a)
    s = total(a)
    for j in range(whole, C):
        s += M[i, j] * y[j]
    missed = abs(x[i] * s - u[i])
    x[i] = u[i] / s
    a = splat(x[i])
    for j in range(0, whole, WIDTH):
        store_row(cols, block, j, fma(load_row(M, i, j), a, load_row(cols, block, j)))
    for j in range(whole, C):
        cols[block, j] += M[i, j] * x[i]
    return missed


@jit(inner=True, inline=True, borrows=True)
def _sweep_rows(matrix, x, y, cols, block, i):
    """Sweep four rows from row `i` on, which stay in the cache; return their absolute errors with the old factors."""
    M, u, _ = matrix
    C = M.shape[1]
    whole = C // WIDTH * WIDTH
    a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for j in range(0, whole, WIDTH):
        factor = load_elements(y, j)
        a, b = fma(load_row(M, i, j), factor, a), fma(load_row(M, i + 1, j), factor, b)
        c, d = fma(load_row(M, i + 2, j), factor, c), fma(load_row(M, i + 3, j), factor, d)
    p, q, r, s = total(a), total(b), total(c), total(d)
    for j in range(whole, C):
        p, q = p + M[i, j] * y[j], q + M[i + 1, j] * y[j]
        r, s = r + M[i + 2, j] * y[j], s + M[i + 3, j] * y[j]
    missed = abs(x[i] * p - u[i]) + abs(x[i + 1] * q - u[i + 1])
    missed += abs(x[i + 2] * r - u[i + 2]) + abs(x[i + 3] * s - u[i + 3])
    p, q, r, s = u[i] / p, u[i + 1] / q, u[i + 2] / r, u[i + 3] / s
    x[i], x[i + 1], x[i + 2], x[i + 3] = p, q, r, s
    a, b, c, d = splat(p), splat(q), splat(r), splat(s)
    for j in range(0, whole, WIDTH):
        column = fma(load_row(M, i, j), a, load_row(cols, block, j))
        column = fma(load_row(M, i + 1, j), b, column)
        column = fma(load_row(M, i + 2, j), c, column)
        store_row(cols, block, j, fma(load_row(M, i + 3, j), d, column))
    for j in range(whole, C):
        cols[block, j] += M[i, j] * p + M[i + 1, j] * q + (M[i + 2, j] * r + M[i + 3, j] * s)
    return missed


# --- plain sweeps ----------------------------------------------------------------------------------------------------


@jit()
def run_sinkhorn(matrix, last, x, y, sums, state, goal, most):
    """Run at most `most` Sinkhorn sweeps until convergence (Erbani et al., algorithm 2).

    Return the state and whether it ended. The state is the number of sweeps so far and the last residual, which at the
    end is that of `last` and `y`.
    """
    k, before = state
    for _ in range(most):
        for i in range(x.shape[0]):
            last[i] = x[i]
        sweep(matrix, x, y, sums, 0, sums.missed.shape[0])
        k, before, ended = check_sinkhorn_convergence(matrix, last, x, y, sums, (k, before), goal)
        if ended:
            return k, before, True
    return k, before, False


@jit(inline=True)
def check_sinkhorn_convergence(matrix, last, x, y, sums, state, goal):
    """Check convergence by the row errors, whose factors were `last`; update the columns unless that ends the sweeps.

    Return the number of sweeps, the residual, and whether sweeps end.
    """
    k, before = state
    worst = 0.0
    for i in range(x.shape[0]):
        worst = max(worst, abs(last[i] / x[i] - 1.0))
    residual = 0.0
    for block in range(sums.missed.shape[0]):
        residual += sums.missed[block]
    residual /= goal.total
    if not residual < np.inf or (k > 0 and residual <= goal.target and worst <= goal.target) or k >= goal.max_iter:
        return k, residual, True
    if residual <= goal.still and worst <= 2.0 * goal.still and residual >= before:
        return k, residual, True
    add_blocks(sums)
    for j in range(matrix.v.shape[0]):
        y[j] = matrix.v[j] / sums.cols[0, j]
    return k + 1, residual if k > 0 else np.inf, False


# --- sweeps with momentum --------------------------------------------------------------------------------------------


class SweepState(NamedTuple):
    """Progress of sweeps with momentum."""

    state: int
    k: int  # passes so far
    residual: float  # column residual of x and y, whose rows are exact
    mark: float  # residual of the pass from which the rate is measured
    momentum: float  # the factor by which, at best, a pass shrinks the residual
    since: int  # passes since the one before `mark`, or since momentum was changed
    restarts: int  # times that the residual grew
    fresh: bool  # whether the next step takes no part of the last one


RUNNING, CONVERGED, SLOW, OUT_OF_PASSES, OUT_OF_RANGE = range(5)  # states; slow: Newton's method is faster
START = SweepState(RUNNING, 0, np.inf, np.inf, 0.0, -1, 0, False)


@jit()
def run_momentum_sweeps(matrix, x, y, step, sums, pace, goal, most):
    """Run at most `most` Sinkhorn sweeps with momentum until the state is final; return the state."""
    for _ in range(most):
        if pace.k > 0:
            take_momentum_step(matrix, y, step, sums, pace)
        sweep(matrix, x, y, sums, 0, sums.missed.shape[0])
        pace = check_convergence(matrix, y, sums, pace, goal)
        if pace.state != RUNNING:
            break
    return pace


@jit(inline=True)
def take_momentum_step(matrix, y, step, sums, pace):
    """Take an over-relaxed column step plus a part of the last one (heavy ball), in place."""
    v, cols, momentum = matrix.v, sums.cols, pace.momentum
    gain, keep = (1.0 + momentum) * (1.0 + momentum), 0.0 if pace.fresh else momentum * momentum
    for j in range(v.shape[0]):
        change = gain * (v[j] / cols[0, j] - y[j]) + keep * step[j]
        step[j] = max(change, -MOST_TAKEN * y[j])  # the factors stay positive
        y[j] += step[j]


@jit(inline=True)
def check_convergence(matrix, y, sums, pace, goal):
    """Return the state after a pass, from the column errors; estimates the rate and adapts the momentum."""
    v, cols = matrix.v, sums.cols
    add_blocks(sums)
    residual, worst = _measure_columns(y, v, cols)
    residual /= goal.total
    left = residual if residual > goal.target else worst
    k, momentum, since, mark = pace.k + 1, pace.momentum, pace.since + 1, pace.mark
    restarts, fresh = pace.restarts, False
    passes = RATE_PASSES if momentum > 0.0 else RATE_PASSES // 2
    if since == passes + 1:
        shrink = (residual / mark) ** (1.0 / passes)
        since = 1
        if shrink >= 1.0:  # what momentum that is too large, or a passing beat of two modes, can do
            restarts, fresh, since = restarts + 1, True, 0
        elif shrink > momentum:
            momentum, since = _increase_momentum(momentum, shrink), 0
    mark = residual if since == 1 else mark
    state = RUNNING
    if not residual < np.inf:
        state = OUT_OF_RANGE
    elif left <= goal.target:
        state = CONVERGED
    elif k >= goal.max_iter:
        state = OUT_OF_PASSES
    elif restarts > MOST_RESTARTS:
        state = SLOW
    elif momentum > 0.0 and np.log(goal.target / left) < goal.patience * np.log(momentum):
        state = SLOW  # more than `patience` passes are left even at the best rate
    return SweepState(state, k, residual, mark, momentum, since, restarts, fresh)


@jit(inner=True, borrows=True)
def _measure_columns(y, v, cols):
    """Return the sum of the absolute errors of the columns, and the largest error relative to its target."""
    whole = v.shape[0] // WIDTH * WIDTH
    missed, most = splat(0.0), splat(0.0)
    for j in range(0, whole, WIDTH):
        target = load_elements(v, j)
        gap = absolute(load_elements(y, j) * load_row(cols, 0, j) - target)
        missed, share = missed + gap, gap / target
        most = where(share > most, share, most)
    residual, worst = total(missed), largest(most)
    for j in range(whole, v.shape[0]):
        gap = abs(y[j] * cols[0, j] - v[j])
        residual += gap
        worst = max(worst, gap / v[j])
    return residual, worst


@jit(inner=True, borrows=True)
def _increase_momentum(momentum, shrink):
    """Return the optimal momentum where the residual shrinks by `shrink` under the present one, which is too small.

    The slowest error then shrinks by a zero of z z - (1 + keep - gain gap) z + keep, which gives the gap.
    """
    keep = momentum * momentum
    gap = (1.0 + keep - shrink - keep / shrink) / ((1.0 + momentum) * (1.0 + momentum))
    root = np.sqrt(GAP_MARGIN * gap)
    return (1.0 - root) / (1.0 + root)
