"""Plain iterative proportional fitting in factors (Erbani et al., algorithm 2) for a tile, nothing added."""

import numpy as np

from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.cpu._tile import MAX_ITER, RANGE
from cmfast.kernels.cpu._vector import absolute, fma, load, some, splat, store, where

# A sweep sees the rows only, before the factors are put in their gauge; the residual that is returned, measured again,
# differs by rounding. Near a slow convergence that difference would turn "just converged" into "not quite".
ROUNDING = 1e-15


@jit(inner=True)
def sinkhorn(t, tol, max_iter):
    """Row step, then column step, until the residual of a whole sweep is at most `tol`."""
    S = t.S
    for _ in range(max_iter):
        active = load(S, t.active)
        if not some(active != 0.0):
            return
        store(S, t.n_iter, load(S, t.n_iter) + active)
        _sweep(t)
        _measure(t, tol - min(ROUNDING, 0.5 * tol))
    active = load(S, t.active) != 0.0
    store(S, t.status, where(active, float(MAX_ITER), load(S, t.status)))
    store(S, t.active, splat(0.0))


@jit(inner=True)
def _sweep(t):
    S, R, C = t.S, t.R, t.C
    active = load(S, t.active) != 0.0
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        row = t.M + i * C
        total = splat(0.0)
        for j in range(C):
            total = fma(load(S, row + j), load(S, t.y + j), total)
        u = load(S, t.u + i)
        x = where(active, where(u > 0.0, u / total, 0.0), load(S, t.x + i))
        store(S, t.x + i, x)
        for j in range(C):
            store(S, t.col + j, fma(x, load(S, row + j), load(S, t.col + j)))
    for j in range(C):
        v = load(S, t.v + j)
        y = where(v > 0.0, v / load(S, t.col + j), 0.0)
        store(S, t.y + j, where(active, y, load(S, t.y + j)))


@jit(inner=True)
def _measure(t, tol):
    """Stop the lanes whose rows fit; the columns fit by rounding alone after a column step."""
    S, R, C = t.S, t.R, t.C
    residual = splat(0.0)
    for i in range(R):
        total = splat(0.0)
        for j in range(C):
            total = fma(load(S, t.M + i * C + j), load(S, t.y + j), total)
        residual = residual + absolute(load(S, t.x + i) * total - load(S, t.u + i))
    residual = residual / load(S, t.total)
    active = load(S, t.active) != 0.0
    lost = active & ~(residual < np.inf)
    store(S, t.residual, residual)
    store(S, t.status, where(lost, float(RANGE), load(S, t.status)))
    store(S, t.active, where(active & ~lost & ~(residual <= tol), 1.0, splat(0.0)))
