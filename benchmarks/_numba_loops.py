"""Loops that a capable user of Numba would write, on all cores: each thread takes pieces of the batch or of the labels.

No ``fastmath`` and no ``parallel=True``: threads call kernels that hold no lock. The first call of each compiles it, so
every rival here is called on a tiny input before it is timed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from cmfast.kernels.cpu._core.pool import cpu_count

CORES = cpu_count()  # as many threads as ours
PIECES = 4 * CORES  # more than threads, as some pieces take longer than others

loop = njit(nogil=True, error_model="numpy")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CORES)


def run_pieces(kernel: Callable[..., Any], n: int, *arguments: Any) -> list[Any]:
    """Return the results of ``kernel(*arguments, start, stop)`` for every piece of n items; one item uses no thread."""
    if n == 1:
        return [kernel(*arguments, 0, 1)]
    bounds = [n * k // PIECES for k in range(PIECES + 1)]
    return list(_pool().map(lambda k: kernel(*arguments, bounds[k], bounds[k + 1]), range(PIECES)))


def count(y, p, C):
    """Return the confusion matrix; each piece counts into a table of its own, and few labels need no thread."""
    return _count(y, p, C, 0, len(y)) if len(y) < 10_000 else sum(run_pieces(_count, len(y), y, p, C))


@loop
def _count(y, p, C, start, stop):
    table = np.zeros((C, C), np.int64)
    for k in range(start, stop):
        table[y[k], p[k]] += 1
    return table


def label_margins(y, p, C):
    """Return how often each class is true, predicted, and both."""
    return sum(run_pieces(_label_margins, len(y), y, p, C))


@loop
def _label_margins(y, p, C, start, stop):
    counts = np.zeros((3, C), np.int64)
    for k in range(start, stop):
        counts[0, y[k]] += 1
        counts[1, p[k]] += 1
        if y[k] == p[k]:
            counts[2, y[k]] += 1
    return counts


def accuracy(M):
    """Return the share of the diagonal of each matrix."""
    out = np.empty(len(M))
    run_pieces(_accuracy, len(M), M, out)
    return out


@loop
def _accuracy(M, out, start, stop):
    for b in range(start, stop):
        total, right = 0, 0
        for i in range(M.shape[1]):
            for j in range(M.shape[2]):
                total += M[b, i, j]
            right += M[b, i, i]
        out[b] = right / total


def pack_cells(X, origin, inverse):
    """Return an integer for each point: the index of its cell along each axis, in as many bits each as 63 allow."""
    out = np.empty(len(X), np.int64)
    run_pieces(_pack_cells, len(X), X, origin, inverse, 63 // X.shape[1], out)
    return out


@loop
def _pack_cells(X, origin, inverse, bits, out, start, stop):
    for i in range(start, stop):
        key = 0
        for k in range(X.shape[1]):
            key += np.int64(np.floor((X[i, k] - origin[k]) * inverse[k])) << (bits * k)
        out[i] = key


def sinkhorn(M, tol, max_iter=1_000_000, targets=None):
    """Sweep every matrix until its own residual is at most `tol`; `targets` are row and column sums, else ones."""
    out = np.empty_like(M)
    u, v = (np.ones(M.shape[-1]),) * 2 if targets is None else targets
    run_pieces(_sinkhorn, len(M), M, u, v, out, tol, max_iter)
    return out


@loop
def _sinkhorn(M, u, v, out, tol, max_iter, start, stop):
    C = M.shape[-1]
    transposed = np.empty((C, C))  # so that both steps add whole lines, which compilers vectorise
    x, y, rows, columns = np.empty(C), np.empty(C), np.empty(C), np.empty(C)
    total = u.sum()
    for b in range(start, stop):
        m = M[b]
        rows[:] = 0
        for i in range(C):
            for j in range(C):
                transposed[j, i] = m[i, j]
        for j in range(C):
            for i in range(C):
                rows[i] += transposed[j, i]
        for _ in range(max_iter):
            columns[:] = 0
            for i in range(C):
                x[i] = u[i] / rows[i]
                for j in range(C):
                    columns[j] += m[i, j] * x[i]
            rows[:] = 0
            for j in range(C):
                y[j] = v[j] / columns[j]
                for i in range(C):
                    rows[i] += transposed[j, i] * y[j]
            gap = 0.0
            for i in range(C):
                gap += abs(x[i] * rows[i] - u[i])
            if gap <= tol * total:
                break
        for i in range(C):
            for j in range(C):
                out[b, i, j] = x[i] * m[i, j] * y[j]


def shares_of_all(M):
    """Divide each matrix by its sum."""
    out = np.empty_like(M)
    run_pieces(_shares_of_all, len(M), M, out)
    return out


@loop
def _shares_of_all(M, out, start, stop):
    R, C = M.shape[1:]
    for b in range(start, stop):
        total = 0.0
        for i in range(R):
            for j in range(C):
                total += M[b, i, j]
        for i in range(R):
            for j in range(C):
                out[b, i, j] = M[b, i, j] / total


def shares_of_rows(M):
    """Divide each row by its sum."""
    out = np.empty_like(M)
    run_pieces(_shares_of_rows, len(M), M, out)
    return out


@loop
def _shares_of_rows(M, out, start, stop):
    R, C = M.shape[1:]
    for b in range(start, stop):
        for i in range(R):
            total = 0.0
            for j in range(C):
                total += M[b, i, j]
            for j in range(C):
                out[b, i, j] = M[b, i, j] / total


def shares_of_columns(M):
    """Divide each column by its sum."""
    out = np.empty_like(M)
    run_pieces(_shares_of_columns, len(M), M, out)
    return out


@loop
def _shares_of_columns(M, out, start, stop):
    R, C = M.shape[1:]
    totals = np.empty(C)
    for b in range(start, stop):
        totals[:] = 0
        for i in range(R):
            for j in range(C):
                totals[j] += M[b, i, j]
        for i in range(R):
            for j in range(C):
                out[b, i, j] = M[b, i, j] / totals[j]


def weights_of_rows(M):
    """Return one over the sum of the row, for every cell."""
    out = np.empty_like(M)
    run_pieces(_weights_of_rows, len(M), M, out)
    return out


@loop
def _weights_of_rows(M, out, start, stop):
    R, C = M.shape[1:]
    for b in range(start, stop):
        for i in range(R):
            total = 0.0
            for j in range(C):
                total += M[b, i, j]
            for j in range(C):
                out[b, i, j] = 1 / total


def overlap(S, T):
    """Return the mass that the shares of both have in common."""
    out = np.empty(len(S))
    run_pieces(_overlap, len(S), S.reshape(len(S), -1), T.reshape(len(T), -1), out)
    return out


@loop
def _overlap(S, T, out, start, stop):
    for b in range(start, stop):
        s, t, found = S[b].sum(), T[b].sum(), 0.0
        for k in range(S.shape[1]):
            found += min(S[b, k] / s, T[b, k] / t)
        out[b] = found


def l1_distance(S, T):
    """Return the sum of the differences of the shares."""
    out = np.empty(len(S))
    run_pieces(_l1_distance, len(S), S.reshape(len(S), -1), T.reshape(len(T), -1), out)
    return out


@loop
def _l1_distance(S, T, out, start, stop):
    for b in range(start, stop):
        s, t, found = S[b].sum(), T[b].sum(), 0.0
        for k in range(S.shape[1]):
            found += abs(S[b, k] / s - T[b, k] / t)
        out[b] = found


def kl_divergence(P, Q):
    """Return the divergence of the shares; every cell positive."""
    out = np.empty(len(P))
    run_pieces(_kl_divergence, len(P), P.reshape(len(P), -1), Q.reshape(len(Q), -1), out)
    return out


@loop
def _kl_divergence(P, Q, out, start, stop):
    for b in range(start, stop):
        p, q, found = P[b].sum(), Q[b].sum(), 0.0
        for k in range(P.shape[1]):
            found += P[b, k] / p * np.log(P[b, k] * q / (Q[b, k] * p))
        out[b] = found


def weighted_cells(X, w, origin, inverse):
    """Return the packed keys of the occupied cells and their sums of weights.

    Every thread looks at all keys and adds those of its share of the hashes, so no table is shared.
    """
    keys = np.empty(len(X), np.int64)
    run_pieces(_keys, len(X), X, origin, inverse, 63 // X.shape[1], keys)
    size = 1 << (2 * len(X) // CORES).bit_length()
    found = list(_pool().map(lambda share: _sums_of_cells(keys, w, size, share, CORES), range(CORES)))
    return np.concatenate([keys for keys, _ in found]), np.concatenate([sums for _, sums in found])


@loop
def _keys(X, origin, inverse, bits, keys, start, stop):
    for k in range(start, stop):
        key = np.int64(0)
        for axis in range(X.shape[1]):
            key += np.int64(np.floor((X[k, axis] - origin[axis]) * inverse[axis])) << (bits * axis)
        keys[k] = key


@loop
def _sums_of_cells(keys, w, size, share, shares):
    place = np.full(size, -1, np.int64)  # where the cell of this slot is among those found
    found, sums, n = np.empty(len(keys), np.int64), np.empty(len(keys)), 0
    for k in range(len(keys)):
        mixed = np.uint64(keys[k]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        if mixed % np.uint64(shares) != share:
            continue
        slot = np.int64((mixed >> np.uint64(8)) & np.uint64(size - 1))
        while place[slot] >= 0 and found[place[slot]] != keys[k]:
            slot = (slot + 1) & (size - 1)
        if place[slot] < 0:
            place[slot] = n
            found[n], sums[n] = keys[k], 0.0
            n += 1
        sums[place[slot]] += w[k]
    return found[:n].copy(), sums[:n].copy()
