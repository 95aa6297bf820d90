"""Plain iterative proportional fitting in factors (Algorithm 2 of paper 000) for a tile, nothing added."""

import numpy as np

from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.cpu._tile import RANGE
from cmfast.kernels.status import Status

MAX_ITER = int(Status.MAX_ITER)

# A sweep sees the rows only, before the factors are put in their gauge; the residual that is returned, measured again,
# differs by rounding. Near a slow convergence that difference would turn "just converged" into "not quite".
ROUNDING = 1e-15


@jit(inner=True)
def sinkhorn(t, tol, max_iter):
    """Row step, then column step, until the residual of a whole sweep is at most `tol`."""
    L = t.active.shape[0]
    t.residual[:] = np.inf
    for _ in range(max_iter):
        moving = False
        for w in range(L):
            t.n_iter[w] += np.int64(t.active[w])
            moving = moving or t.active[w] != 0.0
        if not moving:
            return
        _sweep(t)
        _measure(t, tol - min(ROUNDING, 0.5 * tol))
    for w in range(L):
        if t.active[w] != 0.0:
            t.status[w] = MAX_ITER
            t.active[w] = 0.0


@jit(inner=True)
def _sweep(t):
    R, C, L = t.M.shape
    for j in range(C):
        t.col[j] = 0.0
    for i in range(R):
        t.a[:] = 0.0
        for j in range(C):
            for w in range(L):
                t.a[w] += t.M[i, j, w] * t.y[j, w]
        for w in range(L):
            x = t.u[i, w] / t.a[w] if t.u[i, w] > 0.0 else 0.0
            t.x[i, w] = x if t.active[w] != 0.0 else t.x[i, w]
        for j in range(C):
            for w in range(L):
                t.col[j, w] += t.x[i, w] * t.M[i, j, w]
    for j in range(C):
        for w in range(L):
            y = t.v[j, w] / t.col[j, w] if t.v[j, w] > 0.0 else 0.0
            t.y[j, w] = y if t.active[w] != 0.0 else t.y[j, w]


@jit(inner=True)
def _measure(t, tol):
    """Stop the lanes whose rows fit; the columns fit by rounding alone after a column step."""
    R, C, L = t.M.shape
    t.residual[:] = 0.0
    for i in range(R):
        t.a[:] = 0.0
        for j in range(C):
            for w in range(L):
                t.a[w] += t.M[i, j, w] * t.y[j, w]
        for w in range(L):
            t.residual[w] += abs(t.x[i, w] * t.a[w] - t.u[i, w])
    for w in range(L):
        t.residual[w] /= t.total[w]
        if t.active[w] != 0.0:
            if not t.residual[w] < np.inf:
                t.active[w] = 0.0
                t.status[w] = RANGE
            elif t.residual[w] <= tol:
                t.active[w] = 0.0
