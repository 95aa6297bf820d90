"""Intervals of metrics from replicates that are drawn, summed and evaluated eight at a time, and never stored."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.metrics import _lanes, values
from cmfast.kernels.cpu.uncertainty import _replicates
from cmfast.kernels.cpu.uncertainty._summaries import METHODS, accelerate, summarize
from cmfast.kernels.cpu.uncertainty.resample import SCHEMES, SECONDS_PER_DRAW, shares_of

VALUES = 2**23  # of replicates at a time, 64 MB
SECONDS_PER_VALUE = 8e-9  # of one replicate of a number, to bring the quantiles to their places
GAMMAS = 20  # binomial draws that a gamma draw takes as long as


def _replicated(M, shares, plan, scheme, n, prior, n_replicates, seed, num_threads):
    """Yield for some matrices at a time where they begin, how many they are, and their replicates."""
    C, size = M.shape[-1], math.prod(M.shape[:-2])
    posterior = scheme == "dirichlet"
    usual = values.NEAR if posterior else (0.0, _lanes.largest_total(C, plan.ordered))
    kind = np.empty(0) if posterior else np.empty(0, np.int64)
    total = shares.total.astype(np.float64)
    alpha = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
    if posterior:
        if n is not None:
            alpha = alpha * (n / np.maximum(shares.support.sum(1), 1e-300))[:, np.newaxis, np.newaxis]
        alpha = np.ascontiguousarray(alpha + prior)
        total = np.where(total > 0, total, 1.0)

    def filler(first):
        def fill(sums, scratch, start, stop):
            del scratch
            if posterior:
                return _replicates.draw_shares(
                    alpha, total, shares.numbers, shares.status, n_replicates, first, seed, sums, start, stop
                )
            most, code = usual[1], SCHEMES[scheme]
            return _replicates.draw_counts(shares, code, n_replicates, first, seed, most, sums, start, stop)

        return fill

    together = max(1, VALUES // max(1, n_replicates * (plan.scalars + plan.tables * C)))
    cost = C * (C + 1) * (GAMMAS if posterior else 1) * SECONDS_PER_DRAW / values.SECONDS_PER_CELL
    for first in range(0, size, together):
        count = min(together, size - first)
        found = values.run(filler(first), (kind,), usual, C, (count, n_replicates), cost, plan, num_threads)
        yield first, count, found[:-1]


def _by_number(found, plan):
    """Return what was made of every replicate, a row for each number: those of scalars, then those of every class."""
    rows = [np.ascontiguousarray(one) for one in found[: plan.scalars]]
    for table in found[plan.scalars :]:
        turned = np.ascontiguousarray(table.swapaxes(-1, -2))
        rows.append(turned.reshape(math.prod(turned.shape[:-1]), turned.shape[-1]))
    return rows


def _accelerations(cells, first, count, rows, plan, num_threads):
    """Return the acceleration of every number of some matrices of counts."""
    C = cells.shape[-1]
    cells = cells[first : first + count]

    def fill(sums, scratch, start, stop):
        del scratch
        return _replicates.leave_out(cells, 0, sums, start, stop)

    found = values.run(fill, (np.empty(0),), values.NEAR, C, (count, C * C), C, plan, num_threads)
    out = []
    for without in _by_number(found[:-1], plan):
        made = np.empty(len(without))
        seconds = without.size * values.SECONDS_PER_CELL * 4
        pool.run(accelerate, (cells, without, rows, made), len(without), seconds=seconds, num_threads=num_threads)
        out.append(made)
    return out


def metric_intervals(M, *, plan, method, level, scheme, n, prior, n_replicates, seed, numbers=None, num_threads=None):
    """Estimate, lower and upper end, standard error, undefined replicates: of each number in turn; and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    size = math.prod(batch)
    *made, status = values.metrics_of_matrices(M.reshape(size, C, C), plan=plan, num_threads=num_threads)
    estimates = [np.array(e, np.float64) for e in made]
    out = [(e, *(np.empty(e.shape) for _ in range(3)), np.empty(e.shape, np.int64)) for e in estimates]
    cells = None
    if method == "bca":
        cells = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
        if n is not None:
            with np.errstate(all="ignore"):
                cells = cells * (n / cells.sum((1, 2)))[:, np.newaxis, np.newaxis]
        cells.flags.writeable = False  # of one type, whoever made it
    shares = shares_of(M, None, n=n, rounded=False, numbers=numbers, num_threads=num_threads)
    drawn = _replicated(M, shares, plan, scheme, n, prior, n_replicates, seed, num_threads)
    for first, count, found in drawn:
        rows, fixed = _by_number(found, plan), scheme == "row_multinomial"
        none = [np.zeros(0)] * len(rows)
        bend = none if cells is None else _accelerations(cells, first, count, fixed, plan, num_threads)
        for replicates, acceleration, (estimate, *parts) in zip(rows, bend, out, strict=True):
            here = [part[first : first + count].reshape(-1) for part in (estimate, *parts)]
            given = (replicates, here[0], acceleration, METHODS[method], float(level), *here[1:])
            seconds = replicates.size * SECONDS_PER_VALUE
            pool.run(summarize, given, len(replicates), seconds=seconds, num_threads=num_threads)
    status = np.maximum(status, shares.status)
    for number in out:
        for part in number[:4]:
            part[status != 0] = np.nan
    each = [part.reshape(batch + part.shape[1:]) for number in out for part in number]
    return *each, status.reshape(batch)


def metric_draws(M, *, plan, scheme, n, prior, n_replicates, seed, numbers=None, num_threads=None):
    """Every number of every replicate, along the last axis; and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    size = math.prod(batch)
    out = [np.empty((size, n_replicates)) for _ in range(plan.scalars)]
    out += [np.empty((size, C, n_replicates)) for _ in range(plan.tables)]
    shares = shares_of(M, None, n=n, rounded=False, numbers=numbers, num_threads=num_threads)
    for first, count, found in _replicated(M, shares, plan, scheme, n, prior, n_replicates, seed, num_threads):
        for whole, part in zip(out, found, strict=True):
            whole[first : first + count] = part if part.ndim == 2 else part.swapaxes(-1, -2)
    return (*(part.reshape(*batch, *part.shape[1:]) for part in out), shares.status.reshape(batch))


def replicate_intervals(R, estimate, acceleration=None, *, method, level, num_threads=None):
    """Make ends, standard error and undefined replicates of every cell of replicates ``(..., k, R, C)``.

    BCa has an acceleration for every cell; no other method needs one.
    """
    shape = estimate.shape
    rows = np.ascontiguousarray(np.moveaxis(R, -3, -1), np.float64).reshape(math.prod(shape), R.shape[-3])
    rows = rows if rows.flags.writeable else rows.copy()  # of one type, as what is drawn
    values = np.array(estimate, np.float64).reshape(-1)
    low, high, error = (np.empty(len(rows)) for _ in range(3))
    undefined = np.empty(len(rows), np.int64)
    bends = np.zeros(0) if acceleration is None else np.array(acceleration, np.float64).reshape(-1)
    given = (rows, values, bends, METHODS[method], float(level), low, high, error, undefined)
    pool.run(summarize, given, len(rows), seconds=rows.size * SECONDS_PER_VALUE, num_threads=num_threads)
    return low.reshape(shape), high.reshape(shape), error.reshape(shape), undefined.reshape(shape)
