"""Constants, records and formulas of intervals and standard errors that both targets share."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared.metrics import Plan

SPARSE = 4  # sums per added value above which only the changed sums are touched
MOST_ROUNDING_VARIANCE = 1e-28  # a smaller variance of a value near one is rounding noise
LEAST_LAPLACIAN_PIVOT = 1e-12  # of Gauss-Jordan elimination: a smaller one is rounding noise of a dependent column
LEAST_REJECTION_MEAN = 40.0  # expected successes from which on binomials are drawn by rejection, not by inversion
MOST_INVERTED = 150.0  # successes in a draw by inversion: more have negligible probability

OF_ALL, OF_ROW, OF_COL, OF_BI = range(4)  # the sums that cells are divided by, or bi-normalised
CODES_OF_NORMALIZATIONS = {
    "all": OF_ALL, "row": OF_ROW, "true": OF_ROW, "col": OF_COL, "pred": OF_COL, "bi": OF_BI,
}  # fmt: skip


class Shares(NamedTuple):
    """Conditional probabilities from which replicates of a batch of matrices are drawn.

    Attributes
    ----------
    cells, rows : array of float64, shape (n, C, C) and (n, C)
        Share of every cell among itself and the later cells of its row (with rounding: of the detected samples of the
        row); share of every row among itself and the later rows.
    support, rates : array of float64, shape (n, C)
        Samples of every row; with rounding, the fraction of them that is detected.
    total : array of int64, shape (n,)
        Samples of a replicate.
    numbers : array of int64, shape (n,), or None
        Number of the stream of every matrix; None: its index.
    status : array of int8, shape (n,)
        Status of every matrix.
    """

    cells: Any
    rows: Any
    support: Any
    rates: Any
    total: Any
    numbers: Any
    status: Any


class Resampling(NamedTuple):
    """Options of a resampling scheme."""

    scheme: str  # "multinomial", "row_multinomial" (rows keep their number of samples) or "dirichlet" (the posterior)
    n: int | None  # samples of a replicate; None: those of its matrix
    prior: np.ndarray  # pseudo-counts of a Dirichlet posterior, shape (C, C)
    n_resamples: int
    seed: int  # key of all random streams

    @property
    def is_posterior(self) -> bool:
        """Return whether cell probabilities are drawn instead of counts."""
        return self.scheme == "dirichlet"

    @property
    def fixes_rows(self) -> bool:
        """Return whether every row keeps its number of samples."""
        return self.scheme == "row_multinomial"


class PairedUnits(NamedTuple):
    """Resampling units (samples or clusters) of a pair of classifiers, and the cells of their samples.

    Attributes
    ----------
    shares : array of float64, shape (u,)
        Share of every unit among itself and the later units of its stratum.
    groups : array of int64, shape (G + 1,)
        Index of the first stratum of every group.
    starts : array of int64, shape (s + 1,)
        Index of the first unit of every stratum.
    totals : array of int64, shape (s,)
        Number of units drawn from every stratum.
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
    """Interval, standard error and undefined replicates of a metric, for each row of replicates."""

    low: Any
    high: Any
    error: Any  # the standard error
    undefined: Any  # int64: number of undefined replicates


def new_intervals(xp: Any, estimates: Iterable[Any]) -> list[tuple[Any, IntervalResults]]:
    """Return every estimate as float64 with empty results of its shape; `xp` is its array library."""
    each = [xp.ascontiguousarray(estimate, np.float64) for estimate in estimates]
    dtypes = (np.float64, np.float64, np.float64, np.int64)
    return [(e, IntervalResults(*(xp.empty(e.shape, dtype) for dtype in dtypes))) for e in each]


def flatten_intervals(results: Iterable[tuple[Any, IntervalResults]], batch: tuple[int, ...]) -> list[Any]:
    """Return estimate, interval ends, standard error and undefined replicates of each metric in turn."""
    return [part.reshape(batch + part.shape[1:]) for estimate, own in results for part in (estimate, *own)]


def list_replicate_rows(xp: Any, replicates: Sequence[Any], plan: Plan) -> list[Any]:
    """Return a row of replicates for each metric: scalars first, then the classes of per-class results."""
    tables = (table.swapaxes(-1, -2) for table in replicates[plan.scalars :])
    each = [xp.ascontiguousarray(one) for one in (*replicates[: plan.scalars], *tables)]
    return [one.reshape(math.prod(one.shape[:-1]), one.shape[-1]) for one in each]


def gather_draws(xp: Any, parts: Iterable[tuple[int, int, Any]], plan: Plan, shape: tuple[int, int, int]) -> list[Any]:
    """Return the replicates of all metrics, along the last axis, from groups of matrices.

    `shape` is the number of matrices, classes and replicates.
    """
    size, C, n_resamples = shape
    out = [xp.empty((size, n_resamples)) for _ in range(plan.scalars)]
    out += [xp.empty((size, C, n_resamples)) for _ in range(plan.tables)]
    for first, count, found in parts:
        for whole, part in zip(out, found, strict=True):
            whole[first : first + count] = part if part.ndim == 2 else part.swapaxes(-1, -2)
    return out


def make_posterior(xp: Any, M: Any, prior: Any, shares: Shares, n: int | None) -> tuple[Any, Shares]:
    """Return the parameters of the Dirichlet posterior of matrices (n, C, C), and the shares with the totals to draw.

    Counts are scaled to `n` samples; matrices without samples get the total one.
    """
    if n is not None:
        support = shares.support.sum(1)
        M = M * (n / xp.where(support > 1e-300, support, 1e-300))[:, None, None]
    total = shares.total.astype(np.float64)
    return xp.ascontiguousarray(M + prior), shares._replace(total=xp.where(total > 0.0, total, 1.0))


def order_strata(strata: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the order that sorts units by stratum, and the number of strata."""
    return np.argsort(strata, kind="stable"), int(strata.max(initial=-1)) + 1


def compute_acceleration(without: np.ndarray, weights: np.ndarray, strata: Sequence[slice]) -> np.ndarray:
    """Return the jackknife acceleration of BCa from leave-one-out values (..., u), one unit of each kind left out.

    `weights` is the number of units of every kind; each stratum has its own mean (Davison and Hinkley 1997, 5.3).
    Undefined leave-one-out values are ignored.
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
    """Add counts of cells (truth, first, second) to class sums (n_sums, rows, 2, C), in place.

    The sums are diagonal, rows and columns and, if there are five, those by distance and by larger class. The total
    added to one sum must stay below 2**53.
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
