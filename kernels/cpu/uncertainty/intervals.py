"""Bootstrap intervals of metrics: replicates are drawn, summed and evaluated eight at a time, and never stored."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.metrics import _derived_tables, values
from cmfast.kernels.cpu.uncertainty import _replicates
from cmfast.kernels.cpu.uncertainty._bootstrap_intervals import METHODS, accelerate, summarize
from cmfast.kernels.cpu.uncertainty.resample import SCHEMES, SECONDS_PER_DRAW, compute_shares
from cmfast.kernels.shared.uncertainty import (
    Resampling,
    flatten_intervals,
    gather_draws,
    list_replicate_rows,
    make_posterior,
    new_intervals,
)

MOST_REPLICATES = 2**23  # values in memory at a time, 64 MB
SECONDS_PER_QUANTILE = 8e-9  # per replicate value, for selecting the quantiles
GAMMAS = 20  # cost of a gamma draw in binomial draws


def _evaluate_in_groups(M, shares, plan, resampling, num_threads):
    """Yield the first index, the number and the evaluated replicates of one group of matrices after another."""
    C, size, n_resamples = M.shape[-1], math.prod(M.shape[:-2]), resampling.n_resamples
    posterior = resampling.is_posterior
    usual = values.NEAR_TOTALS if posterior else (0.0, _derived_tables.largest_total(C, plan.ordered))
    kind = np.empty(0) if posterior else np.empty(0, np.int64)
    draws = SCHEMES.get(resampling.scheme, 0), n_resamples, resampling.seed
    if posterior:
        counts = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
        alpha, shares = make_posterior(np, counts, resampling.prior, shares, resampling.n)

    def filler(first):
        """Return the function that draws the replicates of matrices from `first` on."""

        def fill(sums, scratch, start, stop):
            """Draw replicates `start` to `stop` into tiles of class sums."""
            del scratch
            if posterior:
                return _replicates.draw_posterior(alpha, shares, draws, first, sums, start, stop)
            return _replicates.draw_multinomial(shares, draws, first, usual[1], sums, start, stop)

        return fill

    together = max(1, MOST_REPLICATES // max(1, n_resamples * (plan.scalars + plan.tables * C)))
    cost = C * (C + 1) * (GAMMAS if posterior else 1) * SECONDS_PER_DRAW / values.SECONDS_PER_SUMMED_CELL
    for first in range(0, size, together):
        count = min(together, size - first)
        found = values.run(filler(first), (kind,), usual, C, (count, n_resamples), cost, plan, num_threads)
        yield first, count, found[:-1]


def _compute_accelerations(cells, first, count, rows, plan, num_threads):
    """Return the jackknife acceleration of every metric of some matrices of counts."""
    C = cells.shape[-1]
    cells = cells[first : first + count]

    def fill(sums, scratch, start, stop):
        """Write the leave-one-out class sums `start` to `stop`."""
        del scratch
        return _replicates.write_leave_one_out(cells, 0, sums, start, stop)

    found = values.run(fill, (np.empty(0),), values.NEAR_TOTALS, C, (count, C * C), C, plan, num_threads)
    out = []
    for without in list_replicate_rows(np, found[:-1], plan):
        made = np.empty(len(without))
        seconds = without.size * values.SECONDS_PER_SUMMED_CELL * 4
        pool.run(accelerate, (cells, without, rows, made), len(without), seconds=seconds, num_threads=num_threads)
        out.append(made)
    return out


def summarize_rows(rows, estimate, acceleration, method, confidence_level, out, num_threads):
    """Write the ``IntervalResults`` of a metric for each row of replicates; only BCa needs an acceleration."""
    bends = np.zeros(0) if acceleration is None else acceleration
    results = tuple(part.reshape(-1) for part in out)
    given = (rows, estimate.reshape(-1), bends, METHODS[method], float(confidence_level), results)
    pool.run(summarize, given, len(rows), seconds=rows.size * SECONDS_PER_QUANTILE, num_threads=num_threads)


def metric_intervals(
    M, *, plan, method, confidence_level, scheme, n, prior, n_resamples, seed, numbers=None, num_threads=None
):
    """Return estimate, interval, standard error and undefined replicates of each metric in turn; the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    size, resampling = math.prod(batch), Resampling(scheme, n, prior, n_resamples, seed)
    *made, status = values.metrics_of_matrices(M.reshape(size, C, C), plan=plan, num_threads=num_threads)
    out, cells = new_intervals(np, made), None
    if method == "bca":
        cells = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
        if n is not None:
            with np.errstate(all="ignore"):
                cells = cells * (n / cells.sum((1, 2)))[:, np.newaxis, np.newaxis]
        cells.flags.writeable = False  # so that kernels are compiled for one array type
    shares = compute_shares(M, None, n=n, rounded=False, numbers=numbers, num_threads=num_threads)
    for first, count, found in _evaluate_in_groups(M, shares, plan, resampling, num_threads):
        rows, some = list_replicate_rows(np, found, plan), slice(first, first + count)
        bends = [None] * len(rows)
        if cells is not None:
            bends = _compute_accelerations(cells, first, count, resampling.fixes_rows, plan, num_threads)
        for replicates, bend, (estimate, results) in zip(rows, bends, out, strict=True):
            here = [part[some] for part in results]
            summarize_rows(replicates, estimate[some], bend, method, confidence_level, here, num_threads)
    status = np.maximum(status, shares.status)
    for estimate, (low, high, error, _) in out:
        for part in (estimate, low, high, error):
            part[status != 0] = np.nan
    return *flatten_intervals(out, batch), status.reshape(batch)


def metric_draws(M, *, plan, scheme, n, prior, n_resamples, seed, numbers=None, num_threads=None):
    """Return the metrics of every bootstrap replicate, along the last axis; and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    resampling = Resampling(scheme, n, prior, n_resamples, seed)
    shares = compute_shares(M, None, n=n, rounded=False, numbers=numbers, num_threads=num_threads)
    parts = _evaluate_in_groups(M, shares, plan, resampling, num_threads)
    out = gather_draws(np, parts, plan, (math.prod(batch), C, n_resamples))
    return (*(part.reshape(*batch, *part.shape[1:]) for part in out), shares.status.reshape(batch))


def replicate_intervals(R, estimate, acceleration=None, *, method, confidence_level, num_threads=None):
    """Return interval ends, standard error and undefined replicates of every cell of replicates ``(..., k, R, C)``.

    BCa has an acceleration for every cell; no other method needs one.
    """
    shape = estimate.shape
    rows = np.ascontiguousarray(np.moveaxis(R, -3, -1), np.float64).reshape(math.prod(shape), R.shape[-3])
    rows = rows if rows.flags.writeable else rows.copy()  # writable: one array type for kernels
    [(values, out)] = new_intervals(np, [np.array(estimate, np.float64)])
    bends = None if acceleration is None else np.array(acceleration, np.float64).reshape(-1)
    summarize_rows(rows, values, bends, method, confidence_level, out, num_threads)
    return tuple(out)
