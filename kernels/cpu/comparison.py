"""Overlap, L1 distance and KL divergence of pairs of matrices, each divided by its total, and their gradients."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, absolute, load, pack, some, splat, store, where
from cmfast.kernels.shared.comparison import CODES_OF_COMPARISONS, KL, L1
from cmfast.kernels.status import INVALID, OK, ZERO_LINE

SECONDS_PER_COMPARED_CELL = 2e-9
COMPARED_AT_A_TIME = 32  # cells of eight pairs of matrices: what is computed of them takes a quarter of a level-1 cache
LEAST_LANES = 3  # pairs from which SIMD lanes pay; eight lanes of one pair would divide each cell eight times


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


@jit(inner=True, inline=True, borrows=True)
def _select_rows(S, b, stop):
    """Return the indices of the matrices of eight pairs from `b` on; the last one fills up."""
    last = min(S.shape[0], stop) - 1
    return (
        min(b, last),
        min(b + 1, last),
        min(b + 2, last),
        min(b + 3, last),
        min(b + 4, last),
        min(b + 5, last),
        min(b + 6, last),
        min(b + 7, last),
    )


@jit(inner=True, inline=True, borrows=True)
def _gather(S, rows, k):
    """Return cell `k` of eight matrices, one in each lane."""
    return pack(
        np.float64(S[rows[0], k]),
        np.float64(S[rows[1], k]),
        np.float64(S[rows[2], k]),
        np.float64(S[rows[3], k]),
        np.float64(S[rows[4], k]),
        np.float64(S[rows[5], k]),
        np.float64(S[rows[6], k]),
        np.float64(S[rows[7], k]),
    )


@jit(inner=True, inline=True, borrows=True)
def _sum_pairs(S, T, rows, others):
    """Return the totals of the matrices of eight pairs, and the statuses of the pairs."""
    zero, infinity = splat(0.0), splat(np.inf)
    s, t, valid = zero, zero, infinity > zero
    for k in range(S.shape[1]):
        x, y = _gather(S, rows, k), _gather(T, others, k)
        valid = valid & (x >= zero) & (y >= zero)
        s, t = s + x, t + y
    valid = valid & (s < infinity) & (t < infinity)
    codes = where((s > zero) & (t > zero), splat(float(OK)), splat(float(ZERO_LINE)))
    return s, t, where(valid, codes, splat(float(INVALID)))


@jit(inner=True, inline=True, borrows=True)
def _write_pairs(total, codes, lanes, out, out_status, b, stop):
    """Write the results of eight pairs, NaN of those that failed, and their statuses; `lanes` is a buffer."""
    store(lanes, 0, where(codes == splat(float(OK)), total, splat(np.nan)))
    store(lanes, 1, codes)
    for w in range(min(WIDTH, stop - b)):
        out[b + w] = lanes[0, w]
        out_status[b + w] = np.int8(lanes[1, w])


@jit(inner=True, inline=True, borrows=True)
def _write_pair(total, s, t, out, out_status, b):
    """Write the result of pair `b`, whose totals are `s` and `t`, NaN of an invalid matrix, and its status."""
    if not (s < np.inf and t < np.inf):
        out_status[b] = INVALID
    else:
        out_status[b] = OK if s > 0.0 and t > 0.0 else ZERO_LINE
    out[b] = total if out_status[b] == OK else np.nan


@jit()
def _write_overlaps(S, T, out, out_status, start, stop):
    """Write the overlap, the sum of the smaller of two shares, of every pair, and its status."""
    lanes = np.empty((2, WIDTH))
    for b in range(start, stop, WIDTH):
        if stop - b < LEAST_LANES:
            for c in range(b, stop):
                p, q = _select_matrix(S, c), _select_matrix(T, c)
                s, t, total = _sum_valid(p), _sum_valid(q), 0.0
                for k in range(p.shape[0]):
                    total += min(np.float64(p[k]) / s, np.float64(q[k]) / t)
                _write_pair(min(total, 1.0), s, t, out, out_status, c)
            break
        rows, others = _select_rows(S, b, stop), _select_rows(T, b, stop)
        s, t, codes = _sum_pairs(S, T, rows, others)
        total, one = splat(0.0), splat(1.0)
        for k in range(S.shape[1]):
            x, y = _gather(S, rows, k) / s, _gather(T, others, k) / t
            total = total + where(x < y, x, y)
        total = where(total < one, total, one)  # rounding alone can exceed one
        _write_pairs(total, codes, lanes, out, out_status, b, stop)


@jit()
def _write_l1_distances(S, T, out, out_status, start, stop):
    """Write the L1 distance of every pair, and its status."""
    lanes = np.empty((2, WIDTH))
    for b in range(start, stop, WIDTH):
        if stop - b < LEAST_LANES:
            for c in range(b, stop):
                p, q = _select_matrix(S, c), _select_matrix(T, c)
                s, t, total = _sum_valid(p), _sum_valid(q), 0.0
                for k in range(p.shape[0]):
                    total += abs(np.float64(p[k]) / s - np.float64(q[k]) / t)
                _write_pair(total, s, t, out, out_status, c)
            break
        rows, others = _select_rows(S, b, stop), _select_rows(T, b, stop)
        s, t, codes = _sum_pairs(S, T, rows, others)
        total = splat(0.0)
        for k in range(S.shape[1]):
            total = total + absolute(_gather(S, rows, k) / s - _gather(T, others, k) / t)
        _write_pairs(total, codes, lanes, out, out_status, b, stop)


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


@jit(inner=True, borrows=True)
def _add_kl_terms(shares, logs, cells, lanes, total):
    """Add the KL terms of some cells of `lanes` pairs, at most eight, with the bits of `_kl_term`.

    `shares` has three lines of each cell: the shares and their relative difference. `logs` has the ratios of shares,
    and 1 where no logarithm is used. All logarithms come first, because a call between the arithmetic would save and
    restore the vectors in registers.
    """
    for k in range(cells):
        for w in range(lanes):
            logs[k, w] = np.log(logs[k, w])
    for k in range(cells):
        x, y, d = load(shares, 3 * k), load(shares, 3 * k + 1), load(shares, 3 * k + 2)
        near, term = absolute(d) < 0.01, x * load(logs, k) - x + y
        if some(near):
            series = 1 / 4 - d * (1 / 5 - d * (1 / 6 - d * (1 / 7 - d / 8.0)))
            term = where(near, x * d * d * (1 / 2 - d * (1 / 3 - d * series)), term)
        total = total + where(x == 0.0, y, term)
    return total


@jit()
def _write_kl_divergences(S, T, out, out_status, start, stop):
    """Write the KL divergence of every pair, and its status."""
    cells = S.shape[1]
    lanes, shares = np.empty((2, WIDTH)), np.empty((3 * COMPARED_AT_A_TIME, WIDTH))
    logs = np.empty((COMPARED_AT_A_TIME, WIDTH))
    for b in range(start, stop, WIDTH):
        if stop - b < LEAST_LANES:
            for c in range(b, stop):
                p, q = _select_matrix(S, c), _select_matrix(T, c)
                s, t, total = _sum_valid(p), _sum_valid(q), 0.0
                for k in range(p.shape[0]):
                    total += _kl_term(np.float64(p[k]) / s, np.float64(q[k]) / t)
                _write_pair(total, s, t, out, out_status, c)
            break
        rows, others = _select_rows(S, b, stop), _select_rows(T, b, stop)
        s, t, codes = _sum_pairs(S, T, rows, others)
        total = splat(0.0)
        for first in range(0, cells, COMPARED_AT_A_TIME):
            count = min(COMPARED_AT_A_TIME, cells - first)
            for k in range(count):
                x, y = _gather(S, rows, first + k) / s, _gather(T, others, first + k) / t
                d = (y - x) / x
                store(shares, 3 * k, x)
                store(shares, 3 * k + 1, y)
                store(shares, 3 * k + 2, d)
                store(logs, k, where((x > 0.0) & (absolute(d) >= 0.01), x / y, splat(1.0)))
            total = _add_kl_terms(shares, logs, count, min(WIDTH, stop - b), total)
        _write_pairs(total, codes, lanes, out, out_status, b, stop)


def _compare(kernel, S, T, num_threads):
    """Run a comparison kernel on broadcast batches; return results and status."""
    S, T = batches.as_floating(S), batches.as_floating(T)
    batch, (S3, T3), _ = batches.broadcast_batches(2, S, T)
    cells = S.shape[-2] * S.shape[-1]
    P, Q = (x.reshape(x.shape[0], cells) for x in (S3, T3))
    n = math.prod(batch)
    status, out = np.empty(n, np.int8), np.empty(n)
    seconds = 2 * n * cells * SECONDS_PER_COMPARED_CELL
    pool.run(kernel, (P, Q, out, status), n, seconds=seconds, tile=WIDTH, num_threads=num_threads)
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
