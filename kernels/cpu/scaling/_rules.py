"""The rules of scaling for one matrix. Tiles obey them in lanes of their own: sums are added in another order there."""

import numpy as np

from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.shared.scaling import EQUILIBRATION_ROUNDS
from cmfast.kernels.status import INVALID, OK


def has_empty_line(M):
    """Whether a row or a column has no positive cell."""
    return not (M.any(1).all() and M.any(0).all())


def check_targets(M, u, v, zero, drop):
    """Drop empty classes, make the totals equal; return a status and the targets."""
    if drop and zero:
        empty = ~(M.any(1) | M.any(0))
        u[empty], v[empty] = 0.0, 0.0
    if not all(((t >= 0.0) & (t < np.inf)).all() for t in (u, v)):
        return INVALID, u, v
    U, V = u.sum(), v.sum()
    status = compare_totals(U, V)
    return status, u, v * (U / V) if status == OK and U != V else v


def equilibrate(M):
    """Take powers of two out of rows and columns, so that the logarithms of each have mean zero."""
    there = M > 0.0
    exponents = np.where(there, np.frexp(M)[1], 0)
    row, col = np.zeros(len(M), np.int64), np.zeros(M.shape[1], np.int64)
    for _ in range(EQUILIBRATION_ROUNDS):
        row = np.where(there, exponents - col, 0).sum(1) // there.sum(1)
        col = np.where(there, exponents - row[:, None], 0).sum(0) // there.sum(0)
    return np.ldexp(M, -row[:, None] - col), (row, col)
