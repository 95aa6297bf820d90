"""Normalise matrices by totals, row sums or column sums; importance weights of samples; their gradients."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.normalizing import CODES_OF_LINES, COL, ROW, SHRINK
from cmfast.kernels.status import INVALID, OK, RANGE

SECONDS_PER_NORMALIZED_CELL = 1e-9


@jit(inner=True, inline=True, borrows=True)
def _is_valid(p):
    """Return whether all cells are nonnegative and finite."""
    bad = False
    for k in range(p.shape[0]):
        bad |= (not (p[k] >= 0.0)) | (p[k] == np.inf)
    return not bad


@jit(inner=True, inline=True, borrows=True)
def _write_sums(p, C, lines, unit, out):
    """Write the sums of the cells times `unit` over all cells, rows or columns; return whether all are finite."""
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
def _sum_index(k, C, lines):
    """Return which sum cell `k` belongs to: its row, its column, or the total."""
    return k // C if lines == ROW else k % C if lines == COL else 0


@jit(inner=True, borrows=True)
def _fill_nan(q):
    """Fill an array with NaN; a loop, because a slice takes longer to compile than the rest of a kernel."""
    for k in range(q.shape[0]):
        q[k] = np.nan


@jit(inner=True, inline=True, borrows=True)
def _check_overflow(q):
    """Return RANGE and fill a table of weights with NaN if any weight is infinite, else return OK."""
    finite = True
    for k in range(q.shape[0]):
        finite &= q[k] < np.inf
    if finite:
        return OK
    _fill_nan(q)
    return RANGE


@jit()
def _divide_huge(p, C, lines, total, q):
    """Divide the cells whose sum overflowed, in scaled arithmetic."""
    small = np.empty(total.shape[0])
    _write_sums(p, C, lines, SHRINK, small)
    for k in range(p.shape[0]):
        line = _sum_index(k, C, lines)
        if total[line] == np.inf:
            q[k] = np.float64(p[k]) * SHRINK / small[line]


@jit()
def _write_normalized(M, C, lines, out, out_status, start, stop):
    """Write the normalised cells of matrices `start` to `stop`, and their status."""
    total = np.empty(M.shape[1])
    for b in range(start, stop):
        p, q = M[b], out[b]
        if not _is_valid(p):
            out_status[b] = INVALID
            _fill_nan(q)
            continue
        out_status[b] = OK
        finite = _write_sums(p, C, lines, 1.0, total)
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
def _write_weights(M, C, lines, out, out_status, start, stop):
    """Write the reciprocal sum of each cell as its samples' weight, for matrices `start` to `stop`."""
    total, small = np.empty(M.shape[1]), np.empty(M.shape[1])
    for b in range(start, stop):
        p, q = M[b], out[b]
        if not _is_valid(p):
            out_status[b] = INVALID
            _fill_nan(q)
            continue
        finite = _write_sums(p, C, lines, 1.0, total)
        if not finite:
            _write_sums(p, C, lines, SHRINK, small)
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
        out_status[b] = _check_overflow(q)


@jit(borrows=True)
def _write_outer_products(row_scale, col_scale, out, out_status, start, stop):
    """Write the outer products of row and column factors as weights, and mark overflows."""
    R, C = row_scale.shape[1], col_scale.shape[1]
    for b in range(start, stop):
        q = out[b]
        for i in range(R):
            for j in range(C):
                q[i * C + j] = row_scale[b, i] * col_scale[b, j]
        if out_status[b] == OK:
            out_status[b] = _check_overflow(q)


def _run_normalization(kernel, M, method, num_threads, progress):
    """Run a normalising kernel on a batch; return results and status."""
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
    """Return matrices divided by their total, row or column sums (Erbani et al., equation (1)); zero sums stay zero."""
    return _run_normalization(_write_normalized, M, method, num_threads, progress)


def importance_weights(M, row_scale, col_scale, scaled, *, method, num_threads=None, progress=None):
    """Return sample weights w_a, w_r, w_c of `M` (Erbani et al., appendix F), or w_b from scaling factors; status."""
    if method != "bi":
        return _run_normalization(_write_weights, M, method, num_threads, progress)
    R, C = M.shape[-2:]
    n = math.prod(M.shape[:-2])
    out, status = np.empty((n, R * C), batches.result_dtype(M)), np.array(scaled).reshape(n)
    args = (batches.flat_batch(row_scale, 1), batches.flat_batch(col_scale, 1), out, status)
    pool.run(
        _write_outer_products,
        args,
        n,
        seconds=out.size * SECONDS_PER_NORMALIZED_CELL,
        num_threads=num_threads,
        progress=progress,
    )
    return out.reshape(M.shape), status.reshape(M.shape[:-2])


@jit()
def _write_gradients(M, G, C, lines, of_weights, out, start, stop):
    """Write the gradient in the cells of normalised matrices or of weights."""
    total, mean = np.empty(M.shape[1]), np.empty(M.shape[1])
    for b in range(start, stop):
        p, g, q = M[b], G[b], out[b]
        if not _is_valid(p) or not _write_sums(p, C, lines, 1.0, total):
            _fill_nan(q)
            continue
        for k in range(mean.shape[0]):
            mean[k] = 0.0
        for k in range(p.shape[0]):
            line = _sum_index(k, C, lines)
            t = total[line]
            if t > 0.0:
                mean[line] += g[k] / t if of_weights else g[k] * (np.float64(p[k]) / t)
        for k in range(p.shape[0]):
            line = _sum_index(k, C, lines)
            t = total[line]
            slope = -mean[line] if of_weights else g[k] - mean[line]
            q[k] = slope / t if t > 0.0 else 0.0


def normalizing_gradient(M, G, *, method, of_weights=False, num_threads=None):
    """Return the gradient in the cells, given that in the normalised matrix or the weights; 0 without mass."""
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
        pool.run(_write_gradients, args, n, seconds=seconds, num_threads=num_threads)
    return out.reshape(M.shape)
