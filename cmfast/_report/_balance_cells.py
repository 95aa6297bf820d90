"""Bi-normalise a sparse matrix with a constant added to every cell, without forming a dense matrix.

The constant has rank one, so a product with it is a sum. Sinkhorn-Knopp sweeps (1967) come first. They are slow for
nearly decomposable matrices, such as those of a good classifier with many samples; then Newton's method on the log
column factors, with rows eliminated (Schur complement) and conjugate gradients, takes a few steps. One minus the share
of the largest cell of a row is never formed: it is the sum of the other cells.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast._report._sparse_counts import SparseCounts
from cmfast.kernels.shared.conjugate_gradients import ArrayIterate, ConjugateGradients
from cmfast.kernels.shared.scaling import damped_step

MOST_FIRST_SWEEPS = 30
MOST_NEWTON_STEPS = 60
MOST_STEP_PRODUCTS = 3000  # most products of conjugate gradients in one Newton step
SUM_TOLERANCE = 1e-9  # relative error of row and column sums
MOST_LAST_STEP = 1e-6  # largest last step in log cells, so that small cells are accurate too
FORCING = 1e-6  # relative residual of a step (inexact Newton forcing term)


class BalancedFactors(NamedTuple):
    """Row and column factors, and whether the scaling converged."""

    rows: np.ndarray
    cols: np.ndarray
    settled: bool


class _RowShares(NamedTuple):
    """The row-normalised matrix, split into the largest listed cell of each row and the rest."""

    r: np.ndarray
    c: np.ndarray
    top: np.ndarray
    """Column of the largest listed cell of every row; -1 for rows without cells."""
    share: np.ndarray
    """Share of that cell in its row."""
    others: Any
    """All other listed cells: CSR array, and its transpose."""
    turned: Any
    smoothing: float

    def constant_share(self) -> np.ndarray:
        """Return the share of the added constant in every row."""
        return np.asarray(self.r * (self.smoothing * self.c.sum()))

    def average_columns(self, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of `d` in every row, and its excess over `d` at the column of the largest cell."""
        mean = float(self.c @ d) / float(self.c.sum())
        at_top = np.where(self.top >= 0, d[self.top], mean)
        excess = self.others @ d - at_top * self.others.sum(axis=1) + self.constant_share() * (mean - at_top)
        return at_top + excess, excess

    def sum_by_top(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of row values over the rows whose largest cell is in each column."""
        there = self.top >= 0
        return np.bincount(self.top[there], values[there], len(self.c))

    def lacking(self) -> np.ndarray:
        """Return one minus every column sum of the row-normalised matrix, without cancellation for dominant cells."""
        left = self.others.sum(axis=1) + self.constant_share()  # share of a row without its largest cell
        found = 1.0 - self.sum_by_top(np.ones_like(self.r)) + self.sum_by_top(left)
        return np.asarray(found - self.turned.sum(axis=1) - self.smoothing * self.r.sum() * self.c)

    def product(self, d: np.ndarray) -> np.ndarray:
        """Return the Hessian times `d`: the diagonal of the column sums minus A'A, applied to `d`."""
        mean, excess = self.average_columns(d)
        listed = d * self.turned.sum(axis=1) - self.turned @ mean - self.sum_by_top(self.share * excess)
        return np.asarray(listed + self.smoothing * self.c * (d * self.r.sum() - float(self.r @ mean)))

    def diagonal(self) -> np.ndarray:
        """Return an approximate positive diagonal of the Hessian, for preconditioning."""
        left = self.others.sum(axis=1) + self.constant_share()
        listed = self.sum_by_top(self.share * left) + self.turned.sum(axis=1)
        return np.asarray(listed + self.smoothing * self.r.sum() * self.c)


def balance_cells(cells: SparseCounts, smoothing: float) -> BalancedFactors:
    """Compute factors that make all rows and columns of the cells plus `smoothing` sum to one."""
    M = cells.make_csr().astype(np.float64)
    turned = M.T.tocsr()
    c = np.ones(cells.n_classes)
    for _ in range(MOST_FIRST_SWEEPS):
        r = 1.0 / (M @ c + smoothing * c.sum())
        c = 1.0 / (turned @ r + smoothing * r.sum())
    shares, width = _scale_rows(M, c, smoothing), math.inf
    for _ in range(MOST_NEWTON_STEPS):
        d = _solve_newton_step(shares, shares.lacking())
        width = float(d.max() - d.min())
        if not width < math.inf:
            break
        shares = _scale_rows(M, shares.c * np.exp(damped_step(width) * (d - d.mean())), smoothing)
        if width <= MOST_LAST_STEP and np.abs(shares.lacking()).max() <= SUM_TOLERANCE:
            return BalancedFactors(shares.r, shares.c, settled=True)
    return BalancedFactors(shares.r, shares.c, settled=False)


def _scale_rows(M: Any, c: np.ndarray, smoothing: float) -> _RowShares:
    """Return the cells scaled by the column factors `c` and then to unit row sums."""
    values = M.data * c[M.indices]
    row = np.repeat(np.arange(len(c)), np.diff(M.indptr))
    r = 1.0 / (np.bincount(row, values, len(c)) + smoothing * c.sum())
    values *= r[row]
    most = np.zeros(len(c))
    np.maximum.at(most, row, values)
    found, first = np.unique(row[values == most[row]], return_index=True)
    at = np.flatnonzero(values == most[row])[first]
    top = np.full(len(c), -1)
    top[found] = M.indices[at]
    rest = values.copy()
    rest[at] = 0.0
    others = type(M)((rest, M.indices, M.indptr), shape=M.shape)
    return _RowShares(r, c, top, most, others, others.T.tocsr(), smoothing)


def _solve_newton_step(shares: _RowShares, g: np.ndarray) -> np.ndarray:
    """Solve for the Newton step by conjugate gradients, preconditioned by the diagonal."""
    D = shares.diagonal()
    right = g - D * (g.sum() / D.sum())  # the Hessian is zero along a change of all columns alike

    def multiply(d: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the Hessian times `d`, and the curvature along `d`."""
        product = shares.product(d)
        return product, float(d @ product)

    iterate = ArrayIterate(right, lambda rest: rest / D, multiply)
    gradients = ConjugateGradients(iterate, iterate.energy)
    goal = FORCING**2 * gradients.energy
    while gradients.energy > goal and len(gradients.lengths) < MOST_STEP_PRODUCTS and gradients.advance():
        pass
    return np.asarray(iterate.solution)
