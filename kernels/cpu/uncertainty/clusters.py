"""Bootstrap intervals and standard errors of metrics for clustered or stratified samples.

Resampling units are whole clusters, or the samples of a cell of a stratum; each stratum keeps its number of units, and
the metric is that of all strata together. Every matrix, replicate and unit has a random stream of its own, so that one
matrix has the draws of one group of ``paired_replicates``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics import _derived_tables, _margins, values
from cmfast.kernels.cpu.metrics._margins import FIRST, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.cpu.uncertainty._binomial_batches import LINES, MOST_DRAWN, draw_binomials
from cmfast.kernels.cpu.uncertainty._cell_derivatives import (
    differentiate_matrices,
    gather_cell_slopes,
    gather_class_slopes,
)
from cmfast.kernels.cpu.uncertainty._replicates import add_cell, add_line, repeat_lanes
from cmfast.kernels.cpu.uncertainty.intervals import summarize_rows
from cmfast.kernels.cpu.uncertainty.resample import SECONDS_PER_DRAW, number_matrices
from cmfast.kernels.shared.limits import MOST_EXACT_INTEGER
from cmfast.kernels.shared.uncertainty import (
    compute_acceleration,
    flatten_intervals,
    list_replicate_rows,
    new_intervals,
    order_strata,
)
from cmfast.kernels.status import INVALID, OK

MOST_SUMS_WITHOUT_UNITS = 2**22  # values of leave-one-out sums in memory at a time


class ClusterUnits(NamedTuple):
    """Resampling units, stratum by stratum, and the cells of their samples.

    Attributes
    ----------
    weights : array of int64, shape (u,)
        Number of units of each kind.
    starts, totals : array of int64, shape (S + 1,) and (S,)
        First kind of every stratum, and how many units are drawn from it.
    bounds : array of int64, shape (u + 1,)
        First cell of every kind.
    cells : array of int64, shape (2, k)
        Truth and prediction.
    counts : array of int64, shape (k,)
        Samples that one draw of the unit brings.
    """

    weights: Any
    starts: Any
    totals: Any
    bounds: Any
    cells: Any
    counts: Any


def make_units(M, strata, n, *, clustered):
    """Return the resampling units of counts (k, C, C); clusters without samples are kept as empty units."""
    order, n_strata = order_strata(strata)
    k, i, j = np.nonzero(M[order])
    samples = M[order][k, i, j].astype(np.int64)
    if clustered:
        weights, counts, stratum = np.ones(len(M), np.int64), samples, strata[order]
        bounds = np.searchsorted(k, np.arange(len(M) + 1))
    else:
        weights, counts, stratum = samples, np.ones_like(samples), strata[order][k]
        bounds = np.arange(len(samples) + 1)
    starts = np.searchsorted(stratum, np.arange(n_strata + 1))
    before = np.concatenate([[0], np.cumsum(weights)])
    totals = before[starts[1:]] - before[starts[:-1]] if n is None else np.full(n_strata, n)
    return ClusterUnits(weights, starts, totals, bounds, np.stack([i, j]), counts)


def check_counts(M, units):
    """Return OK if these are counts, whose replicates float64 holds exactly, else INVALID."""
    good = bool(((M >= 0) & (np.floor(M) == M) & np.isfinite(M)).all())
    if good and units is not None:
        most = np.add.reduceat(units.counts, units.bounds[:-1]).max(initial=0) if len(units.counts) else 0
        good = float(most) * float(units.totals.sum()) < MOST_EXACT_INTEGER
    return OK if good else INVALID


@jit()
def _draw_cluster_sums(units, ordered, matrix, seed, sums, tally, start, stop):
    """Draw replicates `start` to `stop` of one matrix and write their class sums.

    `tally` has MOST_DRAWN values for each of 5 C sums, for the total, and for the workspace of `draw_binomials`.
    """
    shares, _, starts, totals, bounds, cells, counts = units
    C = (len(tally) - 1 - LINES) // SUMS
    total, work = tally[SUMS * C], tally[SUMS * C + 1 :]
    left, drawn, samples = np.empty(MOST_DRAWN, np.int64), np.empty(MOST_DRAWN, np.int64), np.empty(MOST_DRAWN)
    for replicate in range(start, stop, MOST_DRAWN):
        n = min(MOST_DRAWN, stop - replicate)
        more = samples[:n]
        tally[: SUMS * C + 1] = 0.0
        for stratum in range(len(totals)):
            left[:] = totals[stratum]
            for u in range(starts[stratum], starts[stratum + 1]):
                draw_binomials(work, left[:n], shares[u], seed, matrix, replicate, u, drawn[:n])
                for c in range(bounds[u], bounds[u + 1]):
                    i, j = cells[0, c], cells[1, c]
                    for r in range(n):
                        more[r] = drawn[r] * counts[c]
                    add_cell(tally, C, 0, ordered, i, j, more)
                    add_line(total, more)
        for r in range(n):
            lane = replicate + r - start
            at, w = lane // WIDTH * (FIRST + SUMS * C), lane % WIDTH
            sums[at + TOTAL_LINE, w], sums[at + SIZE_LINE, w], sums[at + STATUS_LINE, w] = total[r], total[r], OK
            for k in range(SUMS * C):
                sums[at + FIRST + k, w] = tally[k, r]


def share_units(units):
    """Return each unit's conditional share among the remaining ones of its stratum, then the fields of `units`."""
    rest = np.concatenate([[0], np.cumsum(units.weights)])
    after = np.repeat(rest[units.starts[1:]], np.diff(units.starts)) - rest[:-1]
    shares = units.weights / np.maximum(after, 1)
    given = (shares, *(np.ascontiguousarray(part, np.int64) for part in units))
    for array in given:
        array.flags.writeable = False  # so that kernels are compiled for one array type
    return given


def _evaluate_replicates(units, C, plan, matrix, n_resamples, seed, num_threads):
    """Return the results of `plan` on every replicate of one matrix."""
    given, per_replicate = share_units(units), max(len(units.weights), 1) * SECONDS_PER_DRAW
    together = max(WIDTH, int(pool.MOMENT_SECONDS / per_replicate) // MOST_DRAWN * MOST_DRAWN)
    lines = _margins.count_tile_lines(C)

    def fill(sums, _, start, stop):
        """Draw replicates `start` to `stop` into tiles of class sums."""
        tally = np.empty((SUMS * C + 1 + LINES, MOST_DRAWN))
        for first in range(start, stop, together):
            if first > start:
                pool.checkpoint()
            part, last = sums[(first - start) // WIDTH * lines :], min(first + together, stop)
            _draw_cluster_sums(given, plan.ordered, np.uint64(matrix), np.uint64(seed), part, tally, first, last)
        repeat_lanes(sums, lines, stop - start)
        return False

    usual = 0.0, _derived_tables.largest_total(C, plan.ordered)
    cost = per_replicate / values.SECONDS_PER_SUMMED_CELL
    return values.run(fill, (np.empty(0, np.int64),), usual, C, (1, n_resamples), cost, plan, num_threads)[:-1]


def _compute_accelerations(units, C, plan, factor, num_threads):
    """Return the jackknife acceleration of every metric, leaving out one unit of each kind."""
    n_sums, size = 5 if plan.ordered else 3, np.diff(units.bounds)
    whole, (i, j), weights = np.zeros((5, 1, C), np.int64), units.cells, np.repeat(units.weights, size)
    _add_cells(whole, np.zeros(len(i), np.int64), i, j, weights * units.counts)
    step, found = max(1, MOST_SUMS_WITHOUT_UNITS // (5 * max(C, 1))), []
    for first in range(0, max(len(size), 1), step):
        last = min(first + step, len(size))
        cells = slice(units.bounds[first], units.bounds[last])
        sums = np.repeat(whole, last - first, axis=1)
        _add_cells(sums, np.repeat(np.arange(last - first), size[first:last]), i[cells], j[cells], -units.counts[cells])
        given = [*sums[:n_sums], *[None] * (5 - n_sums)]
        found.append(values.metrics_of_sums(*given, plan=plan, num_threads=num_threads)[:-1])
    without = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    rows = [row for part in without for row in (part[np.newaxis] if part.ndim == 1 else part.T)]
    kinds = [slice(*ends) for ends in zip(units.starts[:-1], units.starts[1:], strict=True)]
    return compute_acceleration(np.array(rows), units.weights * factor, kinds)


def _add_cells(sums, row, i, j, counts):
    """Add counts of cells to the five class sums of their rows, in place."""
    right = i == j
    targets = ((row[right], i[right]), (row, i), (row, j), (row, np.abs(i - j)), (row, np.maximum(i, j)))
    for part, target, more in zip(sums, targets, (counts[right], *[counts] * 4), strict=True):
        np.add.at(part, target, more)


def cluster_intervals(
    M, *, strata, plan, clustered, method, confidence_level, n, n_resamples, seed, numbers=None, num_threads=None
):
    """Return bootstrap intervals of metrics of the sum of matrices ``(..., k, C, C)`` of clusters or strata."""
    (counts, status), batch = check_elements(M), M.shape[:-3]
    size, _, C, _ = counts.shape
    total = add_matrices(counts, status)
    *made, _ = values.metrics_of_matrices(total, plan=plan, num_threads=num_threads)
    out = new_intervals(np, (np.array(e, np.float64) for e in made))
    for _, (*floats, undefined) in out:
        undefined[...] = n_resamples
        for part in floats:
            part[...] = np.nan
    numbers = number_matrices(size, numbers)
    for b in range(size):
        units = make_units(counts[b], strata, n, clustered=clustered) if status[b] == OK else None
        if units is None or check_counts(counts[b], units) != OK:
            status[b] = INVALID
            continue
        factor = 1.0 if n is None or not len(units.weights) else n / units.weights.sum()
        bent = _compute_accelerations(units, C, plan, factor, num_threads) if method == "bca" else None
        position = 0
        found = _evaluate_replicates(units, C, plan, numbers[b], n_resamples, seed, num_threads)
        for rows, (estimate, results) in zip(list_replicate_rows(np, found, plan), out, strict=True):
            bend = None if bent is None else bent[position : position + len(rows)]
            position += len(rows)
            here = [part[b : b + 1] for part in results]
            summarize_rows(rows, estimate[b : b + 1], bend, method, confidence_level, here, num_threads)
    for estimate, (low, high, error, _) in out:
        for part in (estimate, low, high, error):
            part[status != OK] = np.nan
    return *flatten_intervals(out, batch), status.reshape(batch)


def check_elements(M):
    """Return the matrices of every batch element (size, k, C, C), and the status of each: whether they are counts."""
    counts = np.asarray(M).reshape(math.prod(M.shape[:-3]), *M.shape[-3:])
    return counts, np.array([check_counts(one, None) for one in counts], np.int8).reshape(len(counts))


def add_matrices(counts, status):
    """Return the sum over clusters of every batch element; zeros if its status is bad."""
    size, _, C, _ = counts.shape
    total = np.zeros((size, C, C), np.int64)
    for b in range(size):
        if status[b] == OK:
            total[b] = counts[b].sum(0)
    return total


def cluster_errors(M, *, strata, plan, clustered, n, num_threads=None):
    """Return standard errors of the metrics of `plan` of the sum of matrices ``(..., k, C, C)``; the status."""
    (counts, status), batch, kind = check_elements(M), M.shape[:-3], batches.result_dtype(M)
    size, _, C, _ = counts.shape
    scalars, tables = differentiate_matrices(add_matrices(counts, status), plan, num_threads)
    out = [np.full((size,), np.nan) for _ in range(plan.scalars)]
    out += [np.full((size, C), np.nan) for _ in range(plan.tables)]
    for b in range(size):
        if status[b] != OK:
            continue
        units = make_units(counts[b], strata, n, clustered=clustered)
        for r in range(plan.scalars):
            out[r][b] = _estimate_error(gather_cell_slopes(scalars[b, r], C, *units.cells), units, n, clustered)
        for r in range(plan.tables):
            for c in range(C):
                out[plan.scalars + r][b, c] = _estimate_error(
                    gather_class_slopes(tables[b, r, c], c, *units.cells), units, n, clustered
                )
    return (*(part.astype(kind).reshape(batch + part.shape[1:]) for part in out), status.reshape(batch))


def _estimate_error(slope, units, n, clustered):
    """Return the standard error of a metric with derivatives `slope` in the cells of the units."""
    variance, moved = 0.0, np.zeros(len(units.weights))
    np.add.at(moved, np.repeat(np.arange(len(moved)), np.diff(units.bounds)), slope * units.counts)
    for first, last in zip(units.starts[:-1], units.starts[1:], strict=True):
        w, x = units.weights[first:last], moved[first:last]
        k = w.sum()
        if not k or (clustered and k < 2):
            return np.nan
        spread = (w * (x - (w * x).sum() / k) ** 2).sum()
        variance += spread * (k / (k - 1) if clustered else 1.0) * (1.0 if n is None else k / n)
    return np.sqrt(variance) if units.totals.size else np.nan
