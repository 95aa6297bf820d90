"""Bootstrap replicates and standard errors of normalised cells for clustered or stratified samples.

A resampling unit that adds ``D`` to a matrix ``M`` changes its bi-normalised matrix ``P`` by ``P (D / M - r - c)`` with
one value per row and column: ``K`` of :mod:`cell_errors` times the sums of ``P D / M``. A matrix divided by its sums
changes by ``(D - P S) / size``, where ``S`` is what the unit adds to the sums.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.uncertainty._binomial_batches import LINES, MOST_DRAWN, draw_binomials
from cmfast.kernels.cpu.uncertainty.cell_errors import invert_laplacian
from cmfast.kernels.cpu.uncertainty.clusters import add_matrices, check_counts, check_elements, make_units, share_units
from cmfast.kernels.cpu.uncertainty.resample import SECONDS_PER_DRAW, number_matrices
from cmfast.kernels.shared.uncertainty import CODES_OF_NORMALIZATIONS, MOST_ROUNDING_VARIANCE, OF_ALL, OF_BI, OF_ROW
from cmfast.kernels.status import INVALID, OK


@jit()
def _draw_cluster_replicates(units, matrix, seed, out, start, stop):
    """Draw replicates `start` to `stop` of one matrix, with the draws of ``cluster_intervals``."""
    shares, _, starts, totals, bounds, cells, counts = units
    work = np.empty((LINES, MOST_DRAWN))
    left, drawn = np.empty(MOST_DRAWN, np.int64), np.empty(MOST_DRAWN, np.int64)
    for replicate in range(start, stop, MOST_DRAWN):
        n = min(MOST_DRAWN, stop - replicate)
        here = out[replicate : replicate + n]
        here[:] = 0
        for stratum in range(len(totals)):
            left[:] = totals[stratum]
            for u in range(starts[stratum], starts[stratum + 1]):
                draw_binomials(work, left[:n], shares[u], seed, matrix, replicate, u, drawn[:n])
                for c in range(bounds[u], bounds[u + 1]):
                    for r in range(n):
                        here[r, cells[0, c], cells[1, c]] += drawn[r] * counts[c]


def cluster_replicates(M, *, strata, clustered, n, n_resamples, seed, numbers=None, num_threads=None):
    """Return replicates ``(..., n_resamples, C, C)`` of sums of matrices of clusters or strata, and the status."""
    (counts, status), batch = check_elements(M), M.shape[:-3]
    size, _, C, _ = counts.shape
    numbers, out = number_matrices(size, numbers), np.zeros((size, n_resamples, C, C), np.int64)
    for b in range(size):
        units = make_units(counts[b], strata, n, clustered=clustered) if status[b] == OK else None
        if units is None or check_counts(counts[b], units) != OK:
            status[b] = INVALID
            continue
        drawn = (share_units(units), np.uint64(numbers[b]), np.uint64(seed), out[b])
        seconds = n_resamples * (len(units.weights) + C * C / 8) * SECONDS_PER_DRAW
        pool.run(_draw_cluster_replicates, drawn, n_resamples, seconds=seconds, num_threads=num_threads)
    return out.reshape(*batch, n_resamples, C, C), status.reshape(batch)


class Normalized(NamedTuple):
    """A matrix and what the derivatives of its normalised cells need; float64 arrays."""

    of: Any  # one of ``CODES_OF_NORMALIZATIONS``
    M: Any  # (C, C): the counts
    P: Any  # (C, C): the normalised cells
    sizes: Any  # (1,) or (C,): the sums that cells are divided by
    K: Any  # (2 C, 2 C): generalised inverse of the Laplacian ``[[1, P], [P', 1]]``, of bi-normalised cells


@jit(inner=True, borrows=True)
def _write_influence(cells, counts, matrix, own, X):
    """Write to `X` the change of the normalised cells by one unit's samples; `own` is a workspace of 4 C values."""
    of, M, P, sizes, K = matrix
    C = len(P)
    X[:], own[:] = 0.0, 0.0
    if of != OF_BI:
        for c in range(len(counts)):
            X[cells[0, c], cells[1, c]] += counts[c]
            own[0 if of == OF_ALL else cells[0, c] if of == OF_ROW else cells[1, c]] += counts[c]
        for i in range(C):
            for j in range(C):
                at = 0 if of == OF_ALL else i if of == OF_ROW else j
                X[i, j] = (X[i, j] - M[i, j] / sizes[at] * own[at]) / sizes[at] if sizes[at] > 0.0 else 0.0
        return
    for c in range(len(counts)):
        i, j = cells[0, c], cells[1, c]
        x = P[i, j] * (counts[c] / M[i, j])
        X[i, j] += x
        own[i] += x
        own[C + j] += x
    for k in range(2 * C):
        moved = 0.0
        for line in range(2 * C):
            moved += K[k, line] * own[line]
        own[2 * C + k] = moved
    for i in range(C):
        for j in range(C):
            X[i, j] -= P[i, j] * (own[2 * C + i] + own[3 * C + j])


@jit()
def _write_cluster_errors(units, matrix, clustered, n, error, bend):
    """Write standard error and acceleration of every normalised cell of one matrix; NaN if undefined.

    The generalised inverse `K` is computed here.
    """
    _, weights, starts, _, bounds, cells, counts = units
    matrix = Normalized(*matrix)
    P, K, C = matrix.P, matrix.K, len(matrix.P)
    L, own = np.empty((C, C)), np.empty(4 * C)
    X, mean, squares, whole = np.empty((C, C)), np.empty((C, C)), np.empty((C, C)), np.zeros((C, C))
    if matrix.of == OF_BI:
        invert_laplacian(P, L, K)
    error[:], bend[:] = 0.0, 0.0
    fewer = 1.0  # finite-sample factor of the variance, k / n
    for stratum in range(len(starts) - 1):
        k, first, last = 0, starts[stratum], starts[stratum + 1]
        mean[:] = 0.0
        for u in range(first, last):
            _write_influence(cells[:, bounds[u] : bounds[u + 1]], counts[bounds[u] : bounds[u + 1]], matrix, own, X)
            k += weights[u]
            for i in range(C):
                for j in range(C):
                    mean[i, j] += weights[u] * X[i, j]
        if k == 0 or (clustered and k < 2):
            error[:], bend[:] = np.nan, np.nan
            return
        fewer, squares[:] = 1.0 if n < 0.0 else k / n, 0.0  # with n there is one stratum
        for u in range(first, last):
            _write_influence(cells[:, bounds[u] : bounds[u + 1]], counts[bounds[u] : bounds[u + 1]], matrix, own, X)
            for i in range(C):
                for j in range(C):
                    x = X[i, j] - mean[i, j] / k
                    squares[i, j] += weights[u] * x * x
                    bend[i, j] += weights[u] * x * x * x
        for i in range(C):
            for j in range(C):
                error[i, j] += squares[i, j] * fewer * (k / (k - 1.0) if clustered else 1.0)
                whole[i, j] += squares[i, j]
    # Rounding noise of a cell that no unit changes counts as zero error and no skewness.
    for i in range(C):
        for j in range(C):
            bent = whole[i, j] > MOST_ROUNDING_VARIANCE
            error[i, j] = math.sqrt(error[i, j]) if bent else 0.0
            bend[i, j] = math.sqrt(fewer) * bend[i, j] / (6.0 * whole[i, j] ** 1.5) if bent else 0.0


def cluster_cell_errors(M, P, *, of, strata, clustered, n, num_threads=None):
    """Return standard errors of the normalised cells of the sum of ``(..., k, C, C)``; accelerations; status.

    Matrices that are not counts are INVALID; other matrices that were not normalised only get NaN.
    """
    del num_threads  # clusters are few, and their sums are accumulated in order
    (counts, status), batch, code = check_elements(M), M.shape[:-3], CODES_OF_NORMALIZATIONS[of]
    size, _, C, _ = counts.shape
    scaled = np.ascontiguousarray(P, np.float64).reshape(size, C, C)
    total = add_matrices(counts, status).astype(np.float64)
    errors, bends = np.full((2, size, C, C), np.nan)
    for b in range(size):
        known = np.isfinite(scaled[b]).all()
        if status[b] != OK or not known:
            status[b] = INVALID if known else OK
            continue
        pool.checkpoint()
        units = share_units(make_units(counts[b], strata, n, clustered=clustered))
        sizes = total[b].sum() * np.ones(1) if code == OF_ALL else total[b].sum(1 if code == OF_ROW else 0)
        matrix = code, total[b], scaled[b].copy(), sizes, np.empty((2 * C, 2 * C))  # a :class:`Normalized`
        _write_cluster_errors(units, matrix, bool(clustered), -1.0 if n is None else float(n), errors[b], bends[b])
    return errors.reshape(P.shape), bends.reshape(P.shape), status.reshape(batch)
