"""Sweeps over one large matrix, every one of which reads it once: as they are, or with momentum.

Close to the solution a sweep is linear in the logarithms of the factors, with a symmetric matrix, so that what helps
linear equations helps here: a step longer than the sweep's own, and some of the last one (Polyak's heavy ball). Where
the slowest part shrinks by 1 - gap in a plain sweep, it then does by about 1 - 2 sqrt(gap). The gap shows in the
residuals, at first those of plain sweeps, then those with too little momentum.
"""

from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load_elements, load_row, splat, store_row, total
from cmfast.kernels.cpu.scaling._large_passes import add_blocks
from cmfast.kernels.shared.scaling import GAP_MARGIN, MOST_TAKEN, SETTLED_PASSES

SWEPT_ROWS = 4  # that are swept together


class Goal(NamedTuple):
    """When sweeps end."""

    total: float  # of the targets
    target: float  # residual that is enough
    still: float  # residual that is, where it does not get smaller any more
    max_iter: int
    patience: float  # passes that may be left


@jit(inline=True)
def sweep(matrix, x, y, sums, start, stop):
    """Set x = u / (M y); leave what the rows missed with the old x, and the column sums with the new one."""
    M, u, _ = matrix
    cols, missed_rows, rows, _ = sums
    R, C = M.shape
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = 0.0
        first, last = block * rows, min(R, (block + 1) * rows)
        whole = first + (last - first) // SWEPT_ROWS * SWEPT_ROWS
        missed = 0.0
        for i in range(first, whole, SWEPT_ROWS):
            missed += _sweep_rows(matrix, x, y, cols, block, i)
        for i in range(whole, last):
            s = 0.0
            for j in range(C):
                s += M[i, j] * y[j]
            missed += abs(x[i] * s - u[i])
            x[i] = u[i] / s
            for j in range(C):
                cols[block, j] += x[i] * M[i, j]
        missed_rows[block] = missed


@jit(inline=True)
def _sweep_rows(matrix, x, y, cols, block, i):
    """Sweep four rows from row `i` on, which stay in the cache, and return what they missed."""
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


# --- sweeps as they are ----------------------------------------------------------------------------------------------


@jit()
def plain_sweeps(matrix, last, x, y, sums, state, goal, most):
    """Sweep until the residual is at most the target, `most` times here (Erbani et al., algorithm 2).

    The state is how many sweeps there were before, and the residual of the last one. Return it, and whether this is the
    end: the residual is that of `last` and `y` then.
    """
    k, before = state
    for _ in range(most):
        for i in range(x.shape[0]):
            last[i] = x[i]
        sweep(matrix, x, y, sums, 0, sums.missed.shape[0])
        k, before, ended = judge_plainly(matrix, last, x, y, sums, (k, before), goal)
        if ended:
            return k, before, True
    return k, before, False


@jit(inline=True)
def judge_plainly(matrix, last, x, y, sums, state, goal):
    """Look at what the rows missed, whose factors were `last`; take the column step unless this is the end."""
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
    for j in range(y.shape[0]):
        y[j] = matrix.v[j] / sums.cols[0, j]
    return k + 1, residual if k > 0 else np.inf, False


# --- sweeps with momentum --------------------------------------------------------------------------------------------


class Pace(NamedTuple):
    """How sweeps with momentum are getting on."""

    state: int
    k: int  # passes so far
    residual: float  # of x and y, whose rows are exact
    before: float  # those of the two passes before
    earlier: float
    momentum: float  # by which, at best, a pass shrinks the residual
    since: int  # passes since it was changed


GOING_ON, CLOSE, SLOW, OVER, LOST = range(5)  # states; close: residual and columns are what was asked for
START = Pace(GOING_ON, 0, np.inf, np.inf, np.inf, 0.0, -1)


@jit()
def quick_sweeps(matrix, x, y, step, sums, pace, goal, most):
    """Sweep with momentum, `most` times at most, until the pace says that this is the end; return the pace."""
    for _ in range(most):
        if pace.k > 0:
            advance(matrix, y, step, sums, pace.momentum)
        sweep(matrix, x, y, sums, 0, sums.missed.shape[0])
        pace = judge(matrix, y, sums, pace, goal)
        if pace.state != GOING_ON:
            break
    return pace


@jit(inline=True)
def advance(matrix, y, step, sums, momentum):
    """Take the column step, longer than it is, and some of the last one."""
    v, cols = matrix.v, sums.cols
    gain, keep = (1.0 + momentum) * (1.0 + momentum), momentum * momentum
    for j in range(y.shape[0]):
        change = gain * (v[j] / cols[0, j] - y[j]) + keep * step[j]
        step[j] = max(change, -MOST_TAKEN * y[j])  # the factors stay positive
        y[j] += step[j]


@jit(inline=True)
def judge(matrix, y, sums, pace, goal):
    """Return the pace after a pass: by what the columns miss, whose sums are left in the first block."""
    v, cols = matrix.v, sums.cols
    add_blocks(sums)
    residual, worst = 0.0, 0.0
    for j in range(y.shape[0]):
        gap = abs(y[j] * cols[0, j] - v[j])
        residual += gap
        worst = gap / v[j] if gap > worst * v[j] else worst  # few divisions
    residual /= goal.total
    left = residual if residual > goal.target else worst
    k, momentum, since = pace.k + 1, pace.momentum, pace.since + 1
    if since >= SETTLED_PASSES:
        shrink = np.sqrt(residual / pace.before)
        if shrink > momentum:
            momentum, since = _faster(momentum, shrink), 0
    state = GOING_ON
    if not residual < np.inf:
        state = LOST
    elif left <= goal.target:
        state = CLOSE
    elif k >= goal.max_iter:
        state = OVER
    elif not momentum < 1.0 or np.log(goal.target / left) < goal.patience * np.log(momentum):
        state = SLOW  # so many passes are left even at best
    return Pace(state, k, residual, pace.residual, pace.before, momentum, since)


@jit(inline=True)
def _faster(momentum, shrink):
    """Return the best momentum where the residual shrinks by `shrink` with the present one, which is less.

    The slowest part then shrinks by a root of z z - (1 + keep - gain gap) z + keep, which tells the gap.
    """
    if not shrink < 1.0:
        return 1.0
    keep = momentum * momentum
    gap = (1.0 + keep - shrink - keep / shrink) / ((1.0 + momentum) * (1.0 + momentum))
    root = np.sqrt(GAP_MARGIN * gap)
    return (1.0 - root) / (1.0 + root)
