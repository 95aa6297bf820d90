"""Overlap, L1 distance and KL divergence of pairs of matrices, each divided by its total, and their gradients."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.comparison import CODES_OF_COMPARISONS, KL, L1
from cmfast.kernels.status import INVALID, OK, ZERO_LINE

SECONDS_PER_COMPARED_CELL = 2e-9


@jit(inline=True)
def _sum_valid(values):
    """Return the sum of nonnegative finite values; NaN if any other value occurs."""
    total = 0.0
    for k in range(values.shape[0]):
        x = np.float64(values[k])
        if not (x >= 0.0 and x < np.inf):
            return np.nan
        total += x
    return total


@jit(inline=True)
def _select_matrix(S, b):
    """Return the cells of matrix `b`, or of the only matrix if all share it."""
    return S[b if S.shape[0] > 1 else 0]


@jit()
def _write_totals(S, T, out_totals, out_status, start, stop):
    """Write the totals of both matrices of every pair, and the status."""
    for b in range(start, stop):
        s = _sum_valid(_select_matrix(S, b))
        t = _sum_valid(_select_matrix(T, b))
        out_totals[b, 0] = s
        out_totals[b, 1] = t
        if not (s < np.inf and t < np.inf):
            out_status[b] = INVALID
        elif s == 0.0 or t == 0.0:
            out_status[b] = ZERO_LINE
        else:
            out_status[b] = OK


@jit()
def _write_overlaps(S, T, totals, status, out, start, stop):
    """Write the overlap, the sum of the smaller of two shares, of every pair."""
    for b in range(start, stop):
        if status[b] != OK:
            out[b] = np.nan
            continue
        p, q = _select_matrix(S, b), _select_matrix(T, b)
        s, t = totals[b, 0], totals[b, 1]
        total = 0.0
        for k in range(p.shape[0]):
            total += min(np.float64(p[k]) / s, np.float64(q[k]) / t)
        out[b] = min(total, 1.0)  # rounding alone can exceed one


@jit()
def _write_l1_distances(S, T, totals, status, out, start, stop):
    """Write the L1 distance of every pair."""
    for b in range(start, stop):
        if status[b] != OK:
            out[b] = np.nan
            continue
        p, q = _select_matrix(S, b), _select_matrix(T, b)
        s, t = totals[b, 0], totals[b, 1]
        total = 0.0
        for k in range(p.shape[0]):
            total += abs(np.float64(p[k]) / s - np.float64(q[k]) / t)
        out[b] = total


@jit(inline=True)
def _kl_term(x, y):
    """Return ``x log(x / y) - x + y``, the nonnegative KL term of a cell, accurate for nearly equal x and y."""
    if x == 0.0:
        return y
    d = (y - x) / x
    if abs(d) < 0.01:
        # d - log(1 + d) by its series: the difference itself would lose all digits of nearly equal cells.
        return x * d * d * (1 / 2 - d * (1 / 3 - d * (1 / 4 - d * (1 / 5 - d * (1 / 6 - d * (1 / 7 - d / 8))))))
    return x * np.log(x / y) - x + y


@jit()
def _write_kl_divergences(S, T, totals, status, out, start, stop):
    """Write the KL divergence of every pair."""
    for b in range(start, stop):
        if status[b] != OK:
            out[b] = np.nan
            continue
        p, q = _select_matrix(S, b), _select_matrix(T, b)
        s, t = totals[b, 0], totals[b, 1]
        total = 0.0
        for k in range(p.shape[0]):
            x = np.float64(p[k]) / s
            y = np.float64(q[k]) / t
            total += _kl_term(x, y)
        out[b] = total


def _compare(kernel, S, T, num_threads):
    """Run a comparison kernel on broadcast batches; return results and status."""
    S, T = batches.as_floating(S), batches.as_floating(T)
    batch, (S3, T3), _ = batches.broadcast_batches(2, S, T)
    cells = S.shape[-2] * S.shape[-1]
    P, Q = (x.reshape(x.shape[0], cells) for x in (S3, T3))
    n = math.prod(batch)
    totals, status, out = np.empty((n, 2)), np.empty(n, np.int8), np.empty(n)
    seconds = 2 * n * cells * SECONDS_PER_COMPARED_CELL
    pool.run(_write_totals, (P, Q, totals, status), n, seconds=seconds, num_threads=num_threads)
    pool.run(kernel, (P, Q, totals, status, out), n, seconds=seconds, num_threads=num_threads)
    return out.astype(batches.result_dtype(S, T), copy=False).reshape(batch), status.reshape(batch)


def overlap(S, T, *, num_threads=None):
    """Return the overlap, the sum of the smaller of two shares per cell (Erbani et al., section 5.3); the status."""
    return _compare(_write_overlaps, S, T, num_threads)


def l1_distance(S, T, *, num_threads=None):
    """Return the L1 distance, 2 - 2 overlap, summed directly to keep digits (Erbani et al., C.2); the status."""
    return _compare(_write_l1_distances, S, T, num_threads)


def kl_divergence(S, T, *, num_threads=None):
    """Return the KL divergence in nats, infinite if T is zero where S has mass; the status."""
    return _compare(_write_kl_divergences, S, T, num_threads)


@jit(inline=True)
def _differentiate_term(code, x, y):
    """Return the derivatives of a cell's term in both shares; at a tie the mean of the one-sided ones."""
    if code == KL:
        if x == 0.0:
            return (-np.inf if y > 0.0 else 0.0), 0.0
        return np.log(x / y), -x / y
    side = 0.5 if x < y else -0.5 if x > y else 0.0
    if code == L1:
        return -2.0 * side, 2.0 * side
    return 0.5 + side, 0.5 - side


@jit()
def _write_gradients(S, T, G, code, out_s, out_t, start, stop):
    """Write the gradients in the cells of both matrices of every pair."""
    for b in range(start, stop):
        p, q, g = _select_matrix(S, b), _select_matrix(T, b), G[b]
        s, t = _sum_valid(p), _sum_valid(q)
        if not (0.0 < s < np.inf and 0.0 < t < np.inf):
            out_s[b], out_t[b] = np.nan, np.nan
            continue
        mean, other = 0.0, 0.0
        for k in range(p.shape[0]):
            x, y = np.float64(p[k]) / s, np.float64(q[k]) / t
            one, two = _differentiate_term(code, x, y)
            mean += x * one if x > 0.0 else 0.0
            other += y * two
        for k in range(p.shape[0]):
            one, two = _differentiate_term(code, np.float64(p[k]) / s, np.float64(q[k]) / t)
            out_s[b, k] = g * ((one - mean) / s)
            out_t[b, k] = g * ((two - other) / t)


def comparison_gradient(S, T, G, *, of, num_threads=None):
    """Return the gradients in the cells of both matrices, given the gradient `G` of comparison `of`."""
    kinds = batches.result_dtype(S), batches.result_dtype(T)
    S, T = batches.as_floating(S), batches.as_floating(T)
    batch, (S3, T3), _ = batches.broadcast_batches(2, S, T)
    shape, n = S.shape[-2:], math.prod(batch)
    P, Q = (x.reshape(x.shape[0], math.prod(shape)) for x in (S3, T3))
    G = batches.flat_batch(G.astype(np.float64, copy=False), 0)
    out = np.empty((n, P.shape[1])), np.empty((n, P.shape[1]))
    seconds = 4 * out[0].size * SECONDS_PER_COMPARED_CELL
    pool.run(_write_gradients, (P, Q, G, CODES_OF_COMPARISONS[of], *out), n, seconds=seconds, num_threads=num_threads)
    return tuple(a.astype(kind, copy=False).reshape(*batch, *shape) for a, kind in zip(out, kinds, strict=True))
