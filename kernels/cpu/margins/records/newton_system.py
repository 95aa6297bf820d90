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
from cmfast.kernels.shared.margins import NUDGE
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR, UNIT_ROUNDOFF

MAX_DAMPING = 0.01  # Levenberg-Marquardt damping of bounded weights, times the relative residual
MOST_FORMED_COLUMNS = 100  # columns up to which the Hessian is always formed
COST_PER_ENTRY = 2.5  # time of forming a Hessian entry for a record, over that of a value in a product
COST_PER_FACTORIZATION = 0.05  # time of the Cholesky factorisation, times K**3, in the same unit
PRODUCTS_PER_STEP = 12.0  # typical number of products of a step by conjugate gradients
FEWEST_PRODUCTS = 50  # products that a step may always take
COLUMNS_PER_PRODUCT = 10  # columns for each product that a step may take, where the Hessian can be formed
LEAST_RECORD_SHARE = 1e-10  # share of the total h below which a record's own eigenvalue may go unnoticed
LAST_STEP_SHARE = 0.3  # part of the allowed error that the last step aims at


def is_large(rows, K):
    """Test whether conjugate gradients cost less than forming and factorising the Hessian."""
    if K <= MOST_FORMED_COLUMNS:
        return False
    width = np.diff(rows.first)
    matrix = COST_PER_ENTRY * 0.5 * float(width @ width) + COST_PER_FACTORIZATION * float(K) ** 3
    return K > MOST_FORMED_UNKNOWNS or matrix > PRODUCTS_PER_STEP * 2.0 * len(rows.columns)


def _compute_damping(s, missed, diagonal, soft):
    """Return the scale of the columns and the relative Levenberg-Marquardt damping."""
    p = s.p
    if p.distance.clipped:
        asked = np.abs(np.where(s.asked, s.targets, 0.0)).sum()
        nudge = MAX_DAMPING * min(1.0, np.abs(missed).sum() / asked) if asked > 0.0 else MAX_DAMPING
        size = s.squares + soft
        yielding = (soft > 0.0) & (size > 0.0)
        if yielding.any():  # more damping than the soft targets' own terms would shorten steps too much
            nudge = min(nudge, float((soft[yielding] / size[yielding]).min()))
        return size, max(nudge, s.damping, NUDGE)
    never_vanishes = p.distance.exponential or p.distance.linear
    return (diagonal if never_vanishes else np.maximum(diagonal, 1e-12 * s.sizes)), NUDGE


def _compute_soft_diagonal(s):
    """Return the terms of soft targets on the diagonal of the Hessian."""
    if s.all_hard:
        return np.zeros(len(s.targets))
    return np.where(s.asked, np.abs(s.compute_goals()) / s.soft, 0.0)


class CholeskySystem:
    """The Newton system with the Hessian formed and factorised."""

    def __init__(self, s, missed):
        self.s = s
        S = s.passes.form_hessian(s.h)
        diagonal, soft = np.einsum("kk->k", S), _compute_soft_diagonal(s)
        diagonal += soft
        size, nudge = _compute_damping(s, missed, diagonal.copy(), soft)
        usable = s.asked & (size > 0.0)
        self.scale = np.where(usable, 1.0 / np.sqrt(np.where(usable, size, 1.0)), 0.0)
        S *= self.scale
        S *= self.scale[:, None]
        self.solve = _factorize(S, nudge)

    def __call__(self, missed):
        """Return the step for the target errors `missed`, and its product with the records."""
        d = self.scale * missed
        self.solve(d)
        d *= self.scale
        z = np.empty(len(self.s.q))
        self.s.passes.multiply(d, z)
        return d, z


def _factorize(S, nudge):
    """Return a function that solves in place for a right-hand side, given the lower triangle of the matrix.

    Damping grows tenfold until the Cholesky factorisation succeeds.
    """
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


class ConjugateGradientSystem:
    """The Newton system solved by diagonally preconditioned conjugate gradients.

    Stores the least eigenvalue of their Lanczos matrices.
    """

    def __init__(self, s, missed):
        self.s = s
        soft = _compute_soft_diagonal(s)
        diagonal = (
            s.sums if s.p.distance.exponential and s.passes.codes is not None else s.passes.sum_squares(s.h)
        ) + soft
        size, nudge = _compute_damping(s, missed, diagonal, soft)
        self.usable = s.asked & (size > 0.0)
        self.added = soft + nudge * size
        self.diagonal = np.where(self.usable, diagonal + nudge * size, 1.0)
        self.met = True

    def bound_error(self, missed):
        """Return an upper bound of the relative error of a weight, infinite where the least eigenvalue is not known.

        The energy of the remaining step is at most that of the residual over the least eigenvalue; so is that of
        rounded targets. Where a record has so little weight that its own eigenvalue could go unnoticed there is no
        bound.
        """
        s = self.s
        rounded = UNIT_ROUNDOFF * s.sizes
        energy = np.where(self.usable, (missed * missed + rounded * rounded) / self.diagonal, 0.0).sum()
        steepest, faintest, total = sparse_rows.measure_sensitivity(s.h, s.x)
        seen = 0.0 < s.least < np.inf and faintest >= LEAST_RECORD_SHARE * total
        return math.sqrt(energy / (EIGENVALUE_MARGIN * s.least)) * steepest if seen else np.inf

    def tighten_forcing(self, missed, left):
        """Return the relative residual a step may leave, smaller than `left` where that makes it the last step."""
        enough = LAST_STEP_SHARE * MOST_CELL_ERROR / max(self.bound_error(missed), MOST_CELL_ERROR)
        return enough if 0.1 * left < enough < left else left

    def __call__(self, missed, left=0.0):
        """Return a step that leaves a relative residual of at most `left`, and its product with the records."""
        s, K = self.s, len(missed)
        z = np.empty(len(s.q))
        most = max(
            FEWEST_PRODUCTS,
            min(K // COLUMNS_PER_PRODUCT if K <= MOST_FORMED_UNKNOWNS else MOST_PRODUCTS, MOST_PRODUCTS),
        )

        def multiply(p):
            """Return the product of the damped Hessian with `p`, and the energy."""
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


def choose_forcing(residual, tol):
    """Return the relative residual that a step of conjugate gradients may leave (inexact Newton)."""
    enough = 0.1 * tol / residual if residual > 0.0 else LEAST_FORCING
    return min(MOST_FORCING, max(math.sqrt(residual), LEAST_FORCING, enough))
