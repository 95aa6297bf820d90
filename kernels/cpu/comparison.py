"""Overlap, L1 distance and KL divergence of two batches of matrices, each divided by its own total."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.comparison import CODES_OF_COMPARISONS, KL, L1
from cmfast.kernels.status import INVALID, OK, ZERO_LINE

SECONDS_PER_COMPARED_CELL = 2e-9


@jit(inline=True)
def _total(values):
    """Sum of nonnegative finite values; NaN if one of them is not."""
    total = 0.0
    for k in range(values.shape[0]):
        x = np.float64(values[k])
        if not (x >= 0.0 and x < np.inf):
            return np.nan
        total += x
    return total


@jit(inline=True)
def _of(S, b):
    """Return the cells of matrix `b`, which may be one that all share."""
    return S[b if S.shape[0] > 1 else 0]


@jit()
def _totals(S, T, out_totals, out_status, start, stop):
    for b in range(start, stop):
        s = _total(_of(S, b))
        t = _total(_of(T, b))
        out_totals[b, 0] = s
        out_totals[b, 1] = t
        if not (s < np.inf and t < np.inf):
            out_status[b] = INVALID
        elif s == 0.0 or t == 0.0:
            out_status[b] = ZERO_LINE
        else:
            out_status[b] = OK


@jit()
def _overlap(S, T, totals, status, out, start, stop):
    for b in range(start, stop):
        if status[b] != OK:
            out[b] = np.nan
            continue
        p, q = _of(S, b), _of(T, b)
        s, t = totals[b, 0], totals[b, 1]
        total = 0.0
        for k in range(p.shape[0]):
            total += min(np.float64(p[k]) / s, np.float64(q[k]) / t)
        out[b] = min(total, 1.0)  # rounding alone can exceed one


@jit()
def _l1_distance(S, T, totals, status, out, start, stop):
    for b in range(start, stop):
        if status[b] != OK:
            out[b] = np.nan
            continue
        p, q = _of(S, b), _of(T, b)
        s, t = totals[b, 0], totals[b, 1]
        total = 0.0
        for k in range(p.shape[0]):
            total += abs(np.float64(p[k]) / s - np.float64(q[k]) / t)
        out[b] = total


@jit(inline=True)
def _kl_term(x, y):
    """X log(x/y) - x + y, which is nonnegative: unlike x log(x/y), it cannot cancel between cells."""
    if x == 0.0:
        return y
    d = (y - x) / x
    if abs(d) < 0.01:
        # d - log(1 + d) by its series: the difference itself would lose all digits of nearly equal cells.
        return x * d * d * (1 / 2 - d * (1 / 3 - d * (1 / 4 - d * (1 / 5 - d * (1 / 6 - d * (1 / 7 - d / 8))))))
    return x * np.log(x / y) - x + y


@jit()
def _kl_divergence(S, T, totals, status, out, start, stop):
    for b in range(start, stop):
        if status[b] != OK:
            out[b] = np.nan
            continue
        p, q = _of(S, b), _of(T, b)
        s, t = totals[b, 0], totals[b, 1]
        total = 0.0
        for k in range(p.shape[0]):
            x = np.float64(p[k]) / s
            y = np.float64(q[k]) / t
            total += _kl_term(x, y)
        out[b] = total


def _compare(kernel, S, T, num_threads):
    S, T = batches.as_floating(S), batches.as_floating(T)
    batch, (S3, T3), _ = batches.broadcast_batches(2, S, T)
    cells = S.shape[-2] * S.shape[-1]
    P, Q = (x.reshape(x.shape[0], cells) for x in (S3, T3))
    n = math.prod(batch)
    totals, status, out = np.empty((n, 2)), np.empty(n, np.int8), np.empty(n)
    seconds = 2 * n * cells * SECONDS_PER_COMPARED_CELL
    pool.run(_totals, (P, Q, totals, status), n, seconds=seconds, num_threads=num_threads)
    pool.run(kernel, (P, Q, totals, status, out), n, seconds=seconds, num_threads=num_threads)
    return out.astype(batches.result_dtype(S, T), copy=False).reshape(batch), status.reshape(batch)


def overlap(S, T, *, num_threads=None):
    """Erbani et al., section 5.3: the sum of the smaller of the two shares."""
    return _compare(_overlap, S, T, num_threads)


def l1_distance(S, T, *, num_threads=None):
    """Erbani et al., C.2: 2 - 2 overlap, summed on its own so that small distances keep their digits."""
    return _compare(_l1_distance, S, T, num_threads)


def kl_divergence(S, T, *, num_threads=None):
    """Natural logarithm; infinite where T is zero under mass of S."""
    return _compare(_kl_divergence, S, T, num_threads)


@jit(inline=True)
def _slopes(code, x, y):
    """Return the slopes of the term of two shares in the first and in the second; a tie has the mean of both sides."""
    if code == KL:
        if x == 0.0:
            return (-np.inf if y > 0.0 else 0.0), 0.0
        return np.log(x / y), -x / y
    side = 0.5 if x < y else -0.5 if x > y else 0.0
    if code == L1:
        return -2.0 * side, 2.0 * side
    return 0.5 + side, 0.5 - side


@jit()
def _comparison_gradient(S, T, G, code, out_s, out_t, start, stop):
    for b in range(start, stop):
        p, q, g = _of(S, b), _of(T, b), G[b]
        s, t = _total(p), _total(q)
        if not (0.0 < s < np.inf and 0.0 < t < np.inf):
            out_s[b], out_t[b] = np.nan, np.nan
            continue
        mean, other = 0.0, 0.0
        for k in range(p.shape[0]):
            x, y = np.float64(p[k]) / s, np.float64(q[k]) / t
            one, two = _slopes(code, x, y)
            mean += x * one if x > 0.0 else 0.0
            other += y * two
        for k in range(p.shape[0]):
            one, two = _slopes(code, np.float64(p[k]) / s, np.float64(q[k]) / t)
            out_s[b, k] = g * ((one - mean) / s)
            out_t[b, k] = g * ((two - other) / t)


def comparison_gradient(S, T, G, *, of, num_threads=None):
    """Gradients in both matrices, of those in what the op `of` makes of them."""
    kinds = batches.result_dtype(S), batches.result_dtype(T)
    S, T = batches.as_floating(S), batches.as_floating(T)
    batch, (S3, T3), _ = batches.broadcast_batches(2, S, T)
    shape, n = S.shape[-2:], math.prod(batch)
    P, Q = (x.reshape(x.shape[0], math.prod(shape)) for x in (S3, T3))
    G = batches.flat_batch(G.astype(np.float64, copy=False), 0)
    out = np.empty((n, P.shape[1])), np.empty((n, P.shape[1]))
    seconds = 4 * out[0].size * SECONDS_PER_COMPARED_CELL
    pool.run(
        _comparison_gradient, (P, Q, G, CODES_OF_COMPARISONS[of], *out), n, seconds=seconds, num_threads=num_threads
    )
    return tuple(a.astype(kind, copy=False).reshape(*batch, *shape) for a, kind in zip(out, kinds, strict=True))
