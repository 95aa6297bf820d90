"""Preprocessing of one matrix before scaling: empty rows and columns, target totals, equilibration by powers of two.

Tiles apply the same rules lane by lane, with sums in another order of additions.
"""

import numpy as np

from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.shared.scaling import EQUILIBRATION_ROUNDS
from cmfast.kernels.status import INVALID, OK


def has_empty_line(M):
    """Test whether a row or a column has no positive cell."""
    return not (M.any(1).all() and M.any(0).all())


def check_targets(M, u, v, zero, drop):
    """Set the targets of empty classes to zero if `drop`, equalise the totals.

    Return a status and the row and column targets.
    """
    if drop and zero:
        empty = ~(M.any(1) | M.any(0))
        u[empty], v[empty] = 0.0, 0.0
    if not all(((t >= 0.0) & (t < np.inf)).all() for t in (u, v)):
        return INVALID, u, v
    U, V = u.sum(), v.sum()
    status = compare_totals(U, V)
    return status, u, v * (U / V) if status == OK and U != V else v


def equilibrate(M):
    """Equilibrate: divide rows and columns by powers of two so that the binary logarithms of each average about zero.

    Return the matrix and the exponents of rows and columns.
    """
    there = M > 0.0
    exponents = np.where(there, np.frexp(M)[1], 0)
    row, col = np.zeros(len(M), np.int64), np.zeros(M.shape[1], np.int64)
    for _ in range(EQUILIBRATION_ROUNDS):
        row = np.where(there, exponents - col, 0).sum(1) // there.sum(1)
        col = np.where(there, exponents - row[:, None], 0).sum(0) // there.sum(0)
    return np.ldexp(M, -row[:, None] - col), (row, col)
