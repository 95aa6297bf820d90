"""Division by totals, row sums or column sums, and the weights that do the same sample by sample."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.normalizing import CODES_OF_LINES, COL, ROW, SHRINK
from cmfast.kernels.status import INVALID, OK, RANGE

SECONDS_PER_NORMALIZED_CELL = 1e-9


@jit(inner=True, inline=True, borrows=True)
def _valid(p):
    bad = False
    for k in range(p.shape[0]):
        bad |= (not (p[k] >= 0.0)) | (p[k] == np.inf)
    return not bad


@jit(inner=True, inline=True, borrows=True)
def _sums(p, C, lines, unit, out):
    """Add up the cells times `unit` over every line; return whether all sums are finite."""
    R, n = p.shape[0] // C, p.shape[0] // C if lines == ROW else C if lines == COL else 1
    for k in range(n):
        out[k] = 0.0
    for i in range(R):
        if lines == COL:
            for j in range(C):
                out[j] += np.float64(p[i * C + j]) * unit
        else:
            total = 0.0
            for j in range(C):
                total += np.float64(p[i * C + j]) * unit
            out[i if lines == ROW else 0] += total
    finite = True
    for k in range(n):
        finite &= out[k] < np.inf
    return finite


@jit(inner=True, inline=True, borrows=True)
def _line(k, C, lines):
    return k // C if lines == ROW else k % C if lines == COL else 0


@jit(inner=True, borrows=True)
def _blank(q):
    """Make all of it NaN; a slice would take longer to compile than the rest of a kernel."""
    for k in range(q.shape[0]):
        q[k] = np.nan


@jit(inner=True, inline=True, borrows=True)
def _in_range(q):
    """Status of a table of weights; one with an infinite weight becomes NaN."""
    finite = True
    for k in range(q.shape[0]):
        finite &= q[k] < np.inf
    if finite:
        return OK
    _blank(q)
    return RANGE


@jit()
def _divide_huge(p, C, lines, total, q):
    """Divide the lines whose sum overflowed."""
    small = np.empty(total.shape[0])
    _sums(p, C, lines, SHRINK, small)
    for k in range(p.shape[0]):
        line = _line(k, C, lines)
        if total[line] == np.inf:
            q[k] = np.float64(p[k]) * SHRINK / small[line]


@jit()
def _normalize(M, C, lines, out, out_status, start, stop):
    total = np.empty(M.shape[1])
    for b in range(start, stop):
        p, q = M[b], out[b]
        if not _valid(p):
            out_status[b] = INVALID
            _blank(q)
            continue
        out_status[b] = OK
        finite = _sums(p, C, lines, 1.0, total)
        for i in range(p.shape[0] // C):
            if lines == COL:
                for j in range(C):
                    q[i * C + j] = np.float64(p[i * C + j]) / (total[j] if total[j] > 0.0 else 1.0)
            else:
                t = total[i if lines == ROW else 0]
                t = t if t > 0.0 else 1.0
                for j in range(C):
                    q[i * C + j] = np.float64(p[i * C + j]) / t
        if not finite:
            _divide_huge(p, C, lines, total, q)


@jit()
def _importance_weights(M, C, lines, out, out_status, start, stop):
    total, small = np.empty(M.shape[1]), np.empty(M.shape[1])
    for b in range(start, stop):
        p, q = M[b], out[b]
        if not _valid(p):
            out_status[b] = INVALID
            _blank(q)
            continue
        finite = _sums(p, C, lines, 1.0, total)
        if not finite:
            _sums(p, C, lines, SHRINK, small)
        R = p.shape[0] // C
        for k in range(R if lines == ROW else C if lines == COL else 1):
            if total[k] == np.inf:
                total[k] = SHRINK / small[k]
            else:
                total[k] = 1.0 / total[k] if total[k] > 0.0 else 0.0
        for i in range(R):
            if lines == COL:
                for j in range(C):
                    q[i * C + j] = total[j]
            else:
                w = total[i if lines == ROW else 0]
                for j in range(C):
                    q[i * C + j] = w
        out_status[b] = _in_range(q)


@jit(borrows=True)
def _outer(row_scale, col_scale, out, out_status, start, stop):
    R, C = row_scale.shape[1], col_scale.shape[1]
    for b in range(start, stop):
        q = out[b]
        for i in range(R):
            for j in range(C):
                q[i * C + j] = row_scale[b, i] * col_scale[b, j]
        if out_status[b] == OK:
            out_status[b] = _in_range(q)


def _by_line(kernel, M, method, num_threads, progress):
    R, C = M.shape[-2:]
    n = math.prod(M.shape[:-2])
    out, status = np.empty((n, R * C), batches.result_dtype(M)), np.zeros(n, np.int8)
    if out.size:
        # Three dtypes, so that every kernel is compiled at most three times.
        flat = batches.flat_batch(M if M.dtype == np.int64 else batches.as_floating(M), 2).reshape(n, R * C)
        args, seconds = (flat, C, CODES_OF_LINES[method], out, status), flat.size * SECONDS_PER_NORMALIZED_CELL
        pool.run(kernel, args, n, seconds=seconds, num_threads=num_threads, progress=progress)
    return out.reshape(M.shape), status.reshape(M.shape[:-2])


def normalize(M, *, method, num_threads=None, progress=None):
    """Erbani et al., equation (1); a line without mass stays zero."""
    return _by_line(_normalize, M, method, num_threads, progress)


def importance_weights(M, row_scale, col_scale, scaled, *, method, num_threads=None, progress=None):
    """Erbani et al., appendix F: w_a, w_r, w_c of `M`; w_b of its factors, whose scaling ended with status `scaled`."""
    if method != "bi":
        return _by_line(_importance_weights, M, method, num_threads, progress)
    R, C = M.shape[-2:]
    n = math.prod(M.shape[:-2])
    out, status = np.empty((n, R * C), batches.result_dtype(M)), np.array(scaled).reshape(n)
    args = (batches.flat_batch(row_scale, 1), batches.flat_batch(col_scale, 1), out, status)
    pool.run(
        _outer, args, n, seconds=out.size * SECONDS_PER_NORMALIZED_CELL, num_threads=num_threads, progress=progress
    )
    return out.reshape(M.shape), status.reshape(M.shape[:-2])


@jit()
def _normalizing_gradient(M, G, C, lines, of_weights, out, start, stop):
    total, mean = np.empty(M.shape[1]), np.empty(M.shape[1])
    for b in range(start, stop):
        p, g, q = M[b], G[b], out[b]
        if not _valid(p) or not _sums(p, C, lines, 1.0, total):
            _blank(q)
            continue
        for k in range(mean.shape[0]):
            mean[k] = 0.0
        for k in range(p.shape[0]):
            line = _line(k, C, lines)
            t = total[line]
            if t > 0.0:
                mean[line] += g[k] / t if of_weights else g[k] * (np.float64(p[k]) / t)
        for k in range(p.shape[0]):
            line = _line(k, C, lines)
            t = total[line]
            found = -mean[line] if of_weights else g[k] - mean[line]
            q[k] = found / t if t > 0.0 else 0.0


def normalizing_gradient(M, G, *, method, of_weights=False, num_threads=None):
    """Gradient in the cells, of that in the normalised matrix or in the weights; zero in a line without mass."""
    R, C = M.shape[-2:]
    n, kind = math.prod(M.shape[:-2]), batches.result_dtype(M)
    out = np.empty((n, R * C), kind)
    if out.size:
        flat = batches.flat_batch(batches.as_floating(M), 2).reshape(n, R * C)
        given = batches.flat_batch(G.astype(kind, copy=False), 2).reshape(n, R * C)
        args, seconds = (
            (flat, given, C, CODES_OF_LINES[method], of_weights, out),
            2 * flat.size * SECONDS_PER_NORMALIZED_CELL,
        )
        pool.run(_normalizing_gradient, args, n, seconds=seconds, num_threads=num_threads)
    return out.reshape(M.shape)
