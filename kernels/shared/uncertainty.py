"""What intervals and comparisons of every target are made of."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared.metrics import Plan

SPARSE = 4  # sums for each number that is added, from which on only those are touched that change
MOST_ROUNDING_VARIANCE = 1e-28  # of a number of about one that no sample changes: it has no direction
LEAST_LAPLACIAN_PIVOT = 1e-12  # of Gauss-Jordan elimination: a smaller one is rounding, of the last column of a block
LEAST_REJECTION_MEAN = 40.0  # expected successes from which on binomials are drawn by rejection, not by inversion
MOST_INVERTED = 150.0  # successes of a draw by inversion: the chance of more is rounding

OF_ALL, OF_ROW, OF_COL, OF_BI = range(4)  # the sums that cells are divided by, or bi-normalised
CODES_OF_NORMALIZATIONS = {
    "all": OF_ALL, "row": OF_ROW, "true": OF_ROW, "col": OF_COL, "pred": OF_COL, "bi": OF_BI,
}  # fmt: skip


class Shares(NamedTuple):
    """Distributions from which replicates of a batch of matrices are drawn.

    Attributes
    ----------
    cells, rows : array of float64, shape (n, C, C) and (n, C)
        Share of every cell in itself and those after it in its row, where cells are rounded in all found in the row;
        of every row in itself and those after it.
    support, rates : array of float64, shape (n, C)
        Samples of every row; the part of them that is found, where cells are rounded.
    total : array of int64, shape (n,)
        Samples of a replicate.
    numbers : array of int64, shape (n,), or None
        Number of the stream of every matrix; None: its index.
    status : array of int8, shape (n,)
        Status.
    """

    cells: Any
    rows: Any
    support: Any
    rates: Any
    total: Any
    numbers: Any
    status: Any


class Resampling(NamedTuple):
    """How replicates of matrices are drawn."""

    scheme: str  # "multinomial", "row_multinomial" (rows keep their number of samples) or "dirichlet" (the posterior)
    n: int | None  # samples of a replicate; None: those of its matrix
    prior: np.ndarray  # added to the counts of a posterior, shape (C, C)
    n_replicates: int
    seed: int  # key of all streams

    @property
    def is_posterior(self) -> bool:
        """Whether shares of the cells are drawn, not counts."""
        return self.scheme == "dirichlet"

    @property
    def fixes_rows(self) -> bool:
        """Whether every row has as many samples as it had."""
        return self.scheme == "row_multinomial"


class PairedUnits(NamedTuple):
    """Resampling units of pairs of classifiers, samples or clusters, and the cells that come with them.

    Attributes
    ----------
    shares : array of float64, shape (u,)
        Share of every unit in itself and those after it in its stratum.
    groups : array of int64, shape (G + 1,)
        Index of the first stratum of every group.
    starts : array of int64, shape (s + 1,)
        Index of the first unit of every stratum.
    totals : array of int64, shape (s,)
        How many units are drawn of every stratum.
    bounds : array of int64, shape (u + 1,)
        Index of the first cell of every unit.
    cells : array of int64, shape (3, k)
        Truth and both predictions.
    counts : array of int64, shape (k,)
        Samples that one draw of the unit brings.
    """

    shares: Any
    groups: Any
    starts: Any
    totals: Any
    bounds: Any
    cells: Any
    counts: Any


class IntervalResults(NamedTuple):
    """Intervals of a number, for each row of replicates."""

    low: Any
    high: Any
    error: Any  # the standard error
    undefined: Any  # int64: replicates in which the number is undefined


def new_intervals(xp: Any, estimates: Iterable[Any]) -> list[tuple[Any, IntervalResults]]:
    """Return every estimate as float64, with empty results of its shape; `xp` is the library of its arrays."""
    each = [xp.ascontiguousarray(estimate, np.float64) for estimate in estimates]
    dtypes = (np.float64, np.float64, np.float64, np.int64)
    return [(e, IntervalResults(*(xp.empty(e.shape, dtype) for dtype in dtypes))) for e in each]


def flatten_intervals(results: Iterable[tuple[Any, IntervalResults]], batch: tuple[int, ...]) -> list[Any]:
    """Return estimate, lower and upper end, standard error and undefined replicates of each number in turn."""
    return [part.reshape(batch + part.shape[1:]) for estimate, own in results for part in (estimate, *own)]


def rows_of_numbers(xp: Any, replicates: Sequence[Any], plan: Plan) -> list[Any]:
    """Return a row of replicates for each number, those of scalars first, then those of every class."""
    tables = (table.swapaxes(-1, -2) for table in replicates[plan.scalars :])
    each = [xp.ascontiguousarray(one) for one in (*replicates[: plan.scalars], *tables)]
    return [one.reshape(math.prod(one.shape[:-1]), one.shape[-1]) for one in each]


def gather_draws(xp: Any, parts: Iterable[tuple[int, int, Any]], plan: Plan, shape: tuple[int, int, int]) -> list[Any]:
    """Return the replicates of all numbers, along the last axis, from those of some matrices at a time.

    The shape is that of matrices, classes and replicates.
    """
    size, C, n_replicates = shape
    out = [xp.empty((size, n_replicates)) for _ in range(plan.scalars)]
    out += [xp.empty((size, C, n_replicates)) for _ in range(plan.tables)]
    for first, count, found in parts:
        for whole, part in zip(out, found, strict=True):
            whole[first : first + count] = part if part.ndim == 2 else part.swapaxes(-1, -2)
    return out


def posterior_of(xp: Any, M: Any, prior: Any, shares: Shares, n: int | None) -> tuple[Any, Shares]:
    """Return the parameters of the Dirichlet posterior of matrices (n, C, C), and the shares with totals of draws.

    Counts are scaled to `n` samples; matrices without samples have draws of one.
    """
    if n is not None:
        support = shares.support.sum(1)
        M = M * (n / xp.where(support > 1e-300, support, 1e-300))[:, None, None]
    total = shares.total.astype(np.float64)
    return xp.ascontiguousarray(M + prior), shares._replace(total=xp.where(total > 0.0, total, 1.0))


def order_strata(strata: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the order that brings the parts of a stratum together, and the number of strata."""
    return np.argsort(strata, kind="stable"), int(strata.max(initial=-1)) + 1


def acceleration(without: np.ndarray, weights: np.ndarray, strata: Sequence[slice]) -> np.ndarray:
    """Return the acceleration of BCa from numbers without one unit of each kind, shape (..., u).

    There are `weights` units of every kind, which lie in `strata`: each has a mean of its own (Davison and Hinkley
    1997, 5.3). Numbers that are undefined without a unit are left out.
    """
    squares, cubes, largest = (np.zeros(without.shape[:-1]) for _ in range(3))
    for stratum in strata:
        x, w = without[..., stratum], weights[stratum]
        known = np.isfinite(x)
        count = (w * known).sum(-1)
        mean = (w * np.where(known, x, 0.0)).sum(-1) / np.where(count > 0, count, 1.0)
        away = np.where(known, mean[..., np.newaxis] - x, 0.0)
        largest = np.maximum(largest, mean * mean)
        squares = squares + (w * away**2).sum(-1)
        cubes = cubes + (w * away**3).sum(-1)
    bent = squares > MOST_ROUNDING_VARIANCE * np.maximum(1.0, largest)
    return np.asarray(np.where(bent, cubes / (6.0 * np.where(bent, squares, 1.0) ** 1.5), 0.0))


def add_cells(sums: np.ndarray, cells: Any, row: np.ndarray, counts: np.ndarray) -> None:
    """Add counts of cells (truth, first, second) to sums in place, shape (n_sums, rows, 2, C).

    The sums are the diagonal, rows and columns and, if there are five, those by distance and by the larger class. What
    is added to one of them stays below 2**53.
    """
    y, *both = cells
    n, C = sums.shape[1], sums.shape[3]
    found, more = [], []
    for side, guess in enumerate(both):
        right = y == guess
        start = (2 * row + side) * C
        found += [start[right] + y[right], start + y, start + guess]
        more += [counts[right], counts, counts]
        if len(sums) == 5:
            found += [start + np.abs(y - guess), start + np.maximum(y, guess)]
            more += [counts, counts]
    size = 2 * n * C
    sizes = [len(at) for at in found]
    index = np.concatenate(found) + size * np.repeat([*range(len(sums))] * 2, sizes)
    if sums.size > SPARSE * len(index):
        np.add.at(sums, np.unravel_index(index, sums.shape), np.concatenate(more))
    else:
        sums += np.bincount(index, np.concatenate(more), sums.size).astype(np.int64).reshape(sums.shape)
