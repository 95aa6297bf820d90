"""Sinkhorn-Knopp iteration (iterative proportional fitting; Erbani et al., algorithm 2) for a tile of matrices."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, fma, load, some, splat, store, where
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.status import MAX_ITER, RANGE


@jit(inner=True, borrows=True)
def run_sinkhorn(t, target, still, max_iter, passes):
    """Run Sinkhorn sweeps on a tile, in place, until all rows are within `target`; return the number of sweeps.

    A sweep scales the rows, then the columns. At most `passes` sweeps; lanes that are active after that can be
    continued.
    """
    S = t.S
    for k in range(passes):
        active = load(S, line.ACTIVE) != 0.0
        late = active & (load(S, line.N_ITER) >= float(max_iter))
        store(S, line.STATUS, where(late, float(MAX_ITER), load(S, line.STATUS)))
        active = active & ~late
        store(S, line.ACTIVE, where(active, 1.0, splat(0.0)))
        if not some(active):
            return k
        store(S, line.N_ITER, load(S, line.N_ITER) + where(active, 1.0, splat(0.0)))
        sweep(t, active)
        _check_convergence(t, target, still)
    return passes


@jit(inner=True, borrows=True)
def sweep(t, lanes):
    """Run one Sinkhorn sweep, x = u / (M y) and y = v / (M' x), in some lanes; return the largest change of an x."""
    S, R, C = t.S, t.R, t.C
    width = splat(0.0)
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        row = t.M + i * C
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        whole = C // 4 * 4
        for j in range(0, whole, 4):
            a = fma(load(S, row + j), load(S, t.y + j), a)
            b = fma(load(S, row + j + 1), load(S, t.y + j + 1), b)
            c = fma(load(S, row + j + 2), load(S, t.y + j + 2), c)
            d = fma(load(S, row + j + 3), load(S, t.y + j + 3), d)
        for j in range(whole, C):
            a = fma(load(S, row + j), load(S, t.y + j), a)
        u, old = load(S, t.u + i), load(S, t.x + i)
        x = where(u > 0.0, u / ((a + b) + (c + d)), 0.0)
        change = absolute(x - old) / x
        width = where((change > width) & (u > 0.0), change, width)
        store(S, t.x + i, where(lanes, x, old))
        for j in range(C):
            store(S, t.col + j, fma(load(S, row + j), x, load(S, t.col + j)))
    for j in range(C):
        v = load(S, t.v + j)
        y = where(v > 0.0, v / load(S, t.col + j), 0.0)
        store(S, t.y + j, where(lanes, y, load(S, t.y + j)))
    return width


@jit(inner=True, borrows=True)
def _check_convergence(t, target, still):
    """Compute the row residuals and deactivate lanes that converged, stalled or overflowed.

    Columns are exact after a sweep.
    """
    S, R, C = t.S, t.R, t.C
    residual, worst = splat(0.0), splat(0.0)
    for i in range(R):
        total = splat(0.0)
        for j in range(C):
            total = fma(load(S, t.M + i * C + j), load(S, t.y + j), total)
        missed = absolute(load(S, t.x + i) * total - load(S, t.u + i))
        residual = residual + missed
        missed = missed * load(S, t.inverse + i)
        worst = where(missed > worst, missed, worst)
    residual = residual / load(S, line.MASS)
    active = load(S, line.ACTIVE) != 0.0
    lost = active & ~(residual < np.inf)
    fits = (residual <= target) & (worst <= target)
    # In exact arithmetic the residual never grows, so growth means rounding; small rows may still improve then.
    ended = fits | ((residual <= still) & (worst <= 2.0 * still) & (residual >= load(S, line.RESIDUAL)))
    store(S, line.RESIDUAL, residual)
    store(S, line.STATUS, where(lost, float(RANGE), load(S, line.STATUS)))
    store(S, line.ACTIVE, where(active & ~lost & ~ended, 1.0, splat(0.0)))
