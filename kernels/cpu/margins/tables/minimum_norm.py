"""Minimum-norm dual solution of a large table: the shortest multipliers that scale its cells in the same way.

The dual solution is not unique where margins share axes. Conjugate gradients find the shortest one, preconditioned by
the Newton system of a table of ones with a little added to each marginal: a few steps instead of hundreds.
"""

import numpy as np

from cmfast.kernels.cpu.margins.tables.newton_system import factorize_hessian, solve_system
from cmfast.kernels.cpu.margins.tables.workspace import CELLS, HAS_MINIMUM_NORM, UNKNOWNS
from cmfast.kernels.shared.conjugate_gradients import ArrayIterate, ConjugateGradients
from cmfast.kernels.shared.margins import MOST_LOGARITHM_RESIDUAL, MOST_ROUNDS

REGULARIZATION = 1e-3  # added to the number of cells of each marginal


def minimize_norm(t, equations):
    """Replace the multipliers by the minimum-norm ones, in place, and mark that; keep them where iterations fail."""
    n, closed, number = int(t.counts[UNKNOWNS]), len(t.closed), int(t.counts[CELLS])
    asked = t.closed > 0.0
    codes = t.codes[:number].astype(np.int64)
    codes[:, 1:] += closed
    kept = np.concatenate([asked, np.ones(n, np.bool_), [False]])
    cells_of = _sum_marginals(codes, np.ones(number), kept)
    even = t._replace(
        x=np.ones(len(t.x)),
        sums=cells_of[closed:],
        goal=np.full(n + 1, REGULARIZATION),
        slack=np.ones(n + 1),
        closed_goal=cells_of[:closed] + REGULARIZATION,
        state=np.zeros_like(t.state),
    )
    if not factorize_hessian(even, equations):
        return
    right = _sum_marginals(
        codes, np.concatenate([np.where(asked, t.lift, 0.0), t.multipliers[:n], [0.0]])[codes].sum(1), kept
    )

    def multiply(p):
        """Return A'A p for the incidence matrix A of cells by marginals, and the squared norm of A p."""
        moved = p[codes].sum(1)
        return _sum_marginals(codes, moved, kept), moved @ moved

    iterate = ArrayIterate(right, lambda left: _precondition(even, equations, codes, left, kept), multiply)
    gradients, goal = (
        ConjugateGradients(iterate, iterate.energy),
        MOST_LOGARITHM_RESIDUAL * MOST_LOGARITHM_RESIDUAL * float(right @ right),
    )
    for _ in range(MOST_ROUNDS):
        if float(iterate.residual @ iterate.residual) <= goal:
            t.lift[:], t.multipliers[:n] = iterate.solution[:closed], iterate.solution[closed:-1]
            t.counts[HAS_MINIMUM_NORM] = 1
            return
        if not gradients.advance():
            return


def _sum_marginals(codes, cells, kept):
    """Return the sums of cells by marginal, zero for free marginals."""
    found = np.zeros(len(kept))
    for b in range(codes.shape[1]):
        found += np.bincount(codes[:, b], cells, len(kept))
    return np.where(kept, found, 0.0)


def _precondition(even, equations, codes, right, kept):
    """Solve the regularised Newton system of a table of ones for a right-hand side, all marginals included."""
    closed, n = len(even.closed), int(even.counts[UNKNOWNS])
    shares = np.where(kept[:closed], right[:closed] / even.closed_goal, 0.0)
    even.step[: n + 1] = (right - _sum_marginals(codes, shares[codes[:, 0]], kept))[closed:]
    even.step[:n] *= even.scale[:n]
    solve_system(even, equations)
    found = np.zeros_like(right)
    found[closed:-1] = even.step[:n] * even.scale[:n]
    shares -= np.where(kept[:closed], _sum_marginals(codes, found[codes].sum(1), kept)[:closed] / even.closed_goal, 0.0)
    found[:closed] = shares
    return found
