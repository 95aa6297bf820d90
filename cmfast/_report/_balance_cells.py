"""Bi-normalisation of listed cells with a constant added to every cell, listed or not.

The constant is of rank one, so a product with it is a sum, and no dense matrix is made. Sweeps (Sinkhorn and Knopp,
1967) come first. Where a matrix is nearly decomposable, as of a good classifier with many samples, they would take as
many passes as a class has samples for each one confused; Newton's method on the logarithms of the column factors, with
the rows eliminated and conjugate gradients, takes a few steps. Of the largest cell of a row, which may be nearly all of
it, one minus its share is never formed: what the others add up to is.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast._report._cells import Cells
from cmfast.kernels.shared.conjugate_gradients import ArrayIterate, ConjugateGradients
from cmfast.kernels.shared.scaling import damped_step

MOST_FIRST_SWEEPS = 30
STEPS = 60
PRODUCTS = 3000  # of one step
TOL = 1e-9  # relative, of sums of rows and columns
MOST_LAST_STEP = 1e-6  # of the last step, in logarithms of cells: not only the sums are accurate, but also small cells
FORCING = 1e-6  # of a step, over its right-hand side


class Balanced(NamedTuple):
    """Factors of rows and columns, and whether the cells that they make are accurate."""

    rows: np.ndarray
    cols: np.ndarray
    settled: bool


class _Shares(NamedTuple):
    """Cells of the matrix whose rows add up to one, apart from the largest listed one of each row."""

    r: np.ndarray
    c: np.ndarray
    top: np.ndarray
    """Column of the largest listed cell of every row; -1 of rows without one."""
    share: np.ndarray
    """What that cell has of its row."""
    others: Any
    """All other listed cells: CSR array, and its transpose."""
    turned: Any
    smoothing: float

    def constant_share(self) -> np.ndarray:
        """Return what the added constant has of every row."""
        return np.asarray(self.r * (self.smoothing * self.c.sum()))

    def average_columns(self, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of `d` in every row, and by how much it exceeds that of the column of the largest cell."""
        mean = float(self.c @ d) / float(self.c.sum())
        at_top = np.where(self.top >= 0, d[self.top], mean)
        excess = self.others @ d - at_top * self.others.sum(axis=1) + self.constant_share() * (mean - at_top)
        return at_top + excess, excess

    def sum_by_top(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of numbers of rows over the rows that have their largest cell in a column."""
        there = self.top >= 0
        return np.bincount(self.top[there], values[there], len(self.c))

    def lacking(self) -> np.ndarray:
        """Return one minus the sum of every column."""
        left = self.others.sum(axis=1) + self.constant_share()  # of a row, without its largest cell
        found = 1.0 - self.sum_by_top(np.ones_like(self.r)) + self.sum_by_top(left)
        return np.asarray(found - self.turned.sum(axis=1) - self.smoothing * self.r.sum() * self.c)

    def product(self, d: np.ndarray) -> np.ndarray:
        """Return the second derivative times `d`: the diagonal of the column sums less the transpose times itself."""
        mean, excess = self.average_columns(d)
        listed = d * self.turned.sum(axis=1) - self.turned @ mean - self.sum_by_top(self.share * excess)
        return np.asarray(listed + self.smoothing * self.c * (d * self.r.sum() - float(self.r @ mean)))

    def diagonal(self) -> np.ndarray:
        """Return about the diagonal of the second derivative, which is positive."""
        left = self.others.sum(axis=1) + self.constant_share()
        listed = self.sum_by_top(self.share * left) + self.turned.sum(axis=1)
        return np.asarray(listed + self.smoothing * self.r.sum() * self.c)


def balance_cells(cells: Cells, smoothing: float) -> Balanced:
    """Return factors with which rows and columns of the cells, `smoothing` added to each, all add up to one."""
    M = cells.to_scipy().astype(np.float64)
    turned = M.T.tocsr()
    c = np.ones(cells.n_classes)
    for _ in range(MOST_FIRST_SWEEPS):
        r = 1.0 / (M @ c + smoothing * c.sum())
        c = 1.0 / (turned @ r + smoothing * r.sum())
    shares, width = _shares_of(M, c, smoothing), math.inf
    for _ in range(STEPS):
        d = _step(shares, shares.lacking())
        width = float(d.max() - d.min())
        if not width < math.inf:
            break
        shares = _shares_of(M, shares.c * np.exp(damped_step(width) * (d - d.mean())), smoothing)
        if width <= MOST_LAST_STEP and np.abs(shares.lacking()).max() <= TOL:
            return Balanced(shares.r, shares.c, settled=True)
    return Balanced(shares.r, shares.c, settled=False)


def _shares_of(M: Any, c: np.ndarray, smoothing: float) -> _Shares:
    """Return the cells of a CSR array, scaled by the column factors and to rows that add up to one."""
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
    return _Shares(r, c, top, most, others, others.T.tocsr(), smoothing)


def _step(shares: _Shares, g: np.ndarray) -> np.ndarray:
    """Solve for the step of Newton's method by conjugate gradients, preconditioned by the diagonal."""
    D = shares.diagonal()
    right = g - D * (g.sum() / D.sum())  # the Hessian is zero along a change of all columns alike

    def multiply(d: np.ndarray) -> tuple[np.ndarray, float]:
        product = shares.product(d)
        return product, float(d @ product)

    iterate = ArrayIterate(right, lambda rest: rest / D, multiply)
    gradients = ConjugateGradients(iterate, iterate.energy)
    goal = FORCING**2 * gradients.energy
    while gradients.energy > goal and len(gradients.lengths) < PRODUCTS and gradients.advance():
        pass
    return np.asarray(iterate.solution)
