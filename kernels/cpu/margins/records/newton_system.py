"""The Newton system of raking, solved by Cholesky factorisation or by conjugate gradients."""

import math
from functools import partial

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.margins.records import sparse_rows
from cmfast.kernels.cpu.solver import cholesky
from cmfast.kernels.shared.conjugate_gradients import (
    EIGENVALUE_MARGIN,
    LEAST_FORCING,
    MOST_FORCING,
    MOST_FORMED_UNKNOWNS,
    MOST_PRODUCTS,
    ArrayIterate,
    ConjugateGradients,
)
from cmfast.kernels.shared.margins import LOGIT, NUDGE, RAKING, TRUNCATED
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR, UNIT_ROUNDOFF

DAMPED = 0.01  # of Levenberg's method, times what is missed, where many weights stand at a bound
MOST_FORMED_COLUMNS = 100  # and up to which always
PER_ENTRY = 2.5  # time that an entry of the matrix takes for each record, over that of a number in a product
PER_ROOT = 0.05  # and of the root, for K**3
PRODUCTS_PER_STEP = 12.0  # that a step takes, about
FEWEST_PRODUCTS = 50  # that a step may take
SLOW = 10  # columns for each product that a step may take, where the matrix can be formed
LEAST_RECORD_SHARE = 1e-10  # part of all records that one must be, for what depends on it alone to be seen
NEARLY = 0.3  # of how far off weights may be


def is_large(rows, K):
    """Return whether products are what is quicker than the matrix."""
    if K <= MOST_FORMED_COLUMNS:
        return False
    width = np.diff(rows.first)
    matrix = PER_ENTRY * 0.5 * float(width @ width) + PER_ROOT * float(K) ** 3
    return K > MOST_FORMED_UNKNOWNS or matrix > PRODUCTS_PER_STEP * 2.0 * len(rows.columns)


def _damping(s, missed, diagonal, soft):
    """Return what columns are scaled by, and what part of that is added for the sake of stability."""
    p = s.p
    if p.rule == TRUNCATED:
        asked = np.abs(np.where(s.asked, s.targets, 0.0)).sum()
        nudge = DAMPED * min(1.0, np.abs(missed).sum() / asked) if asked > 0.0 else DAMPED
        size = s.squares + soft
        yielding = (soft > 0.0) & (size > 0.0)
        if yielding.any():  # multipliers grow as far as these let them, and steps may not be shorter
            nudge = min(nudge, float((soft[yielding] / size[yielding]).min()))
        return size, max(nudge, s.damping, NUDGE)
    return (np.maximum(diagonal, 1e-12 * s.sizes) if p.rule == LOGIT else diagonal), NUDGE


def _softness(s):
    """Return what soft targets add to the diagonal."""
    if s.all_hard:
        return np.zeros(len(s.targets))
    return np.where(s.asked, np.abs(s.goals()) / s.soft, 0.0)


class Cholesky:
    """The Newton system with the Hessian formed and factorized."""

    def __init__(self, s, missed):
        self.s = s
        S = s.passes.form_hessian(s.h)
        diagonal, soft = np.einsum("kk->k", S), _softness(s)
        diagonal += soft
        size, nudge = _damping(s, missed, diagonal.copy(), soft)
        usable = s.asked & (size > 0.0)
        self.scale = np.where(usable, 1.0 / np.sqrt(np.where(usable, size, 1.0)), 0.0)
        S *= self.scale
        S *= self.scale[:, None]
        self.solve = _factorize(S, nudge)

    def __call__(self, missed):
        """Return the step for what is missed, and what it adds to the records."""
        d = self.scale * missed
        self.solve(d)
        d *= self.scale
        z = np.empty(len(self.s.q))
        self.s.passes.multiply(d, z)
        return d, z


def _factorize(S, nudge):
    """Return a function that solves for a right-hand side in place, given the lower triangle of the matrix."""
    diagonal = np.einsum("kk->k", S)
    if len(S) <= cholesky.MOST_SMALL_UNKNOWNS:
        diagonal += nudge
        upper = np.ascontiguousarray(S.T)
        cholesky.factorize(upper)
        return partial(cholesky.substitute, upper)
    while True:
        diagonal += nudge
        U = cholesky.factorize_by_lapack(S.T)
        if U is not None:
            return partial(cholesky.substitute_by_lapack, U)
        nudge *= 10.0


class Gradients:
    """The Newton system solved by diagonally preconditioned conjugate gradients.

    Records the least eigenvalue of their Lanczos matrices.
    """

    def __init__(self, s, missed):
        self.s = s
        soft = _softness(s)
        diagonal = (s.sums if s.p.rule == RAKING and s.passes.codes is not None else s.passes.sum_squares(s.h)) + soft
        size, nudge = _damping(s, missed, diagonal, soft)
        self.usable = s.asked & (size > 0.0)
        self.added = soft + nudge * size
        self.diagonal = np.where(self.usable, diagonal + nudge * size, 1.0)
        self.met = True

    def bound(self, missed):
        """Return how far off a weight may be at most, as far as the eigenvalues were seen.

        The squares of what the step that is left adds to records, each times how fast its weight changes, add up to at
        most the energy of what is missed over the least eigenvalue; so does the same for targets that are rounded.
        Where a record is so faint that an eigenvalue which it alone makes would not be seen there is no bound.
        """
        s = self.s
        rounded = UNIT_ROUNDOFF * s.sizes
        energy = np.where(self.usable, (missed * missed + rounded * rounded) / self.diagonal, 0.0).sum()
        steepest, faintest, total = sparse_rows.measure_sensitivity(s.h, s.x)
        seen = 0.0 < s.least < np.inf and faintest >= LEAST_RECORD_SHARE * total
        return math.sqrt(energy / (EIGENVALUE_MARGIN * s.least)) * steepest if seen else np.inf

    def left(self, missed, left):
        """Return what part a step may leave: less than it might, where that makes it the last one."""
        enough = NEARLY * MOST_CELL_ERROR / max(self.bound(missed), MOST_CELL_ERROR)
        return enough if 0.1 * left < enough < left else left

    def __call__(self, missed, left=0.0):
        """Return a step that leaves at most a part of what is missed, and what it adds to the records."""
        s, K = self.s, len(missed)
        z = np.empty(len(s.q))
        most = max(FEWEST_PRODUCTS, min(K // SLOW if K <= MOST_FORMED_UNKNOWNS else MOST_PRODUCTS, MOST_PRODUCTS))

        def multiply(p):
            Hp = np.where(self.usable, s.passes.multiply_hessian(s.h, p, z) + self.added * p, 0.0)
            return Hp, p @ Hp

        iterate = ArrayIterate(np.where(self.usable, missed, 0.0), lambda r: r / self.diagonal, multiply)
        gradients = ConjugateGradients(iterate, iterate.energy)
        wanted = left * left * gradients.energy
        while gradients.energy > wanted and len(gradients.lengths) < most:
            pool.checkpoint()
            if not gradients.advance():
                break
        self.met = gradients.energy <= wanted
        s.least = min(s.least, gradients.least_eigenvalue())
        s.passes.multiply(iterate.solution, z)
        return iterate.solution, z


def left_of(residual, tol):
    """Return what part of what is missed a step of conjugate gradients may leave."""
    enough = 0.1 * tol / residual if residual > 0.0 else LEAST_FORCING
    return min(MOST_FORCING, max(math.sqrt(residual), LEAST_FORCING, enough))
