"""Normalise matrices by totals, row sums or column sums; importance weights of samples; their gradients."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.normalizing import CODES_OF_LINES, COL, ROW, SHRINK
from cmfast.kernels.status import INVALID, OK, RANGE

SECONDS_PER_NORMALIZED_CELL = 1e-9
MOST_ROWS_OF_A_COLUMN = 16  # that are summed in a register; beyond, cells are read in the order of memory


@jit(inner=True, inline=True, borrows=True)
def _is_valid(M, b):
    """Return whether all cells of matrix `b` are nonnegative and finite."""
    bad = False
    for i in range(M.shape[1]):
        for j in range(M.shape[2]):
            x = np.float64(M[b, i, j])
            bad |= (not (x >= 0.0)) | (x == np.inf)
    return not bad


@jit(inner=True, borrows=True)
def _write_sums(M, b, lines, unit, out):
    """Write the sums of the cells of matrix `b` times `unit` over all cells, rows or columns.

    Return whether all cells are nonnegative and finite, and all sums finite.
    """
    R, C = M.shape[1], M.shape[2]
    least, valid, whole = 0.0, True, 0.0
    if lines == COL and R <= MOST_ROWS_OF_A_COLUMN:
        for j in range(C):
            total = 0.0
            for i in range(R):
                x = np.float64(M[b, i, j])
                least = min(least, x)
                total += x * unit
            out[j] = total
            valid &= total < np.inf
    elif lines == COL:
        for j in range(C):
            out[j] = 0.0
        for i in range(R):
            for j in range(C):
                x = np.float64(M[b, i, j])
                valid &= M[b, i, j] >= 0.0
                out[j] += x * unit
        for j in range(C):
            valid &= out[j] < np.inf
    else:
        for i in range(R):
            total = 0.0
            for j in range(C):
                x = np.float64(M[b, i, j])
                least = min(least, x)
                total += x * unit
            whole += total
            valid &= total < np.inf
            out[i] = total
        if lines != ROW:
            out[0] = whole
            valid &= whole < np.inf
    return valid & (least >= 0.0)  # a NaN makes its sum NaN, which is not below infinity


@jit(inner=True, inline=True, borrows=True)
def _sum_index(i, j, lines):
    """Return which sum cell (i, j) belongs to: its row, its column, or the total."""
    return i if lines == ROW else j if lines == COL else 0


@jit(inner=True, borrows=True)
def _fill_nan(q):
    """Fill a matrix with NaN; a loop, because a slice takes longer to compile than the rest of a kernel."""
    for i in range(q.shape[0]):
        for j in range(q.shape[1]):
            q[i, j] = np.nan


@jit(inner=True, inline=True, borrows=True)
def _divide_by_rows(M, b, out):
    """Write matrix `b` divided by its row sums; return whether all cells and sums are nonnegative and finite."""
    least = 0.0
    for i in range(M.shape[1]):
        total = 0.0
        for j in range(M.shape[2]):
            x = np.float64(M[b, i, j])
            least = min(least, x)
            total += x
        least = least if total < np.inf else -1.0
        total = total if total > 0.0 else 1.0
        for j in range(M.shape[2]):
            out[b, i, j] = np.float64(M[b, i, j]) / total
    return least >= 0.0


@jit(inner=True, inline=True, borrows=True)
def _divide_by_columns(M, b, total, out):
    """Write matrix `b` divided by its column sums; return whether all cells and sums are nonnegative and finite."""
    valid = _write_sums(M, b, COL, 1.0, total)
    for j in range(M.shape[2]):
        total[j] = total[j] if total[j] > 0.0 else 1.0
    for i in range(M.shape[1]):
        for j in range(M.shape[2]):
            out[b, i, j] = np.float64(M[b, i, j]) / total[j]
    return valid


@jit(inner=True, inline=True, borrows=True)
def _divide_by_total(M, b, out):
    """Write matrix `b` divided by its total; return whether all cells and the total are nonnegative and finite."""
    least, whole = 0.0, 0.0
    for i in range(M.shape[1]):
        total = 0.0
        for j in range(M.shape[2]):
            x = np.float64(M[b, i, j])
            least = min(least, x)
            total += x
        whole += total
    valid = (least >= 0.0) & (whole < np.inf)
    whole = whole if whole > 0.0 else 1.0
    for i in range(M.shape[1]):
        for j in range(M.shape[2]):
            out[b, i, j] = np.float64(M[b, i, j]) / whole
    return valid


@jit(inner=True)
def _write_exception(M, b, lines, out):
    """Write matrix `b`, which has an invalid cell or a sum that overflows; return its status.

    Cells whose sum overflows are divided in scaled arithmetic.
    """
    if not _is_valid(M, b):
        _fill_nan(out[b])
        return INVALID
    total, small = np.empty(M.shape[1] + M.shape[2]), np.empty(M.shape[1] + M.shape[2])
    _write_sums(M, b, lines, 1.0, total)
    _write_sums(M, b, lines, SHRINK, small)
    for i in range(M.shape[1]):
        for j in range(M.shape[2]):
            line, x = _sum_index(i, j, lines), np.float64(M[b, i, j])
            if total[line] == np.inf:
                out[b, i, j] = x * SHRINK / small[line]
            else:
                out[b, i, j] = x / (total[line] if total[line] > 0.0 else 1.0)
    return OK


@jit()
def _write_normalized(M, lines, out, out_status, start, stop):
    """Write the normalised cells of matrices `start` to `stop`, and their status."""
    total = np.empty(M.shape[2])
    for b in range(start, stop):
        if lines == ROW:
            valid = _divide_by_rows(M, b, out)
        elif lines == COL:
            valid = _divide_by_columns(M, b, total, out)
        else:
            valid = _divide_by_total(M, b, out)
        out_status[b] = OK if valid else _write_exception(M, b, lines, out)


@jit()
def _write_weights(M, lines, out, out_status, start, stop):
    """Write the reciprocal sum of each cell as its samples' weight, for matrices `start` to `stop`."""
    R, C = M.shape[1], M.shape[2]
    total, small = np.empty(R + C), np.empty(R + C)
    for b in range(start, stop):
        if not _write_sums(M, b, lines, 1.0, total):
            if not _is_valid(M, b):
                out_status[b] = INVALID
                _fill_nan(out[b])
                continue
            _write_sums(M, b, lines, SHRINK, small)
        for k in range(R if lines == ROW else C if lines == COL else 1):
            if total[k] == np.inf:
                total[k] = SHRINK / small[k]
            else:
                total[k] = 1.0 / total[k] if total[k] > 0.0 else 0.0
        finite = True  # where a float32 overflows the float64 may be finite
        for i in range(R):
            if lines == COL:
                for j in range(C):
                    out[b, i, j] = total[j]
            else:
                w = total[i if lines == ROW else 0]
                for j in range(C):
                    out[b, i, j] = w
                finite &= out[b, i, 0] < np.inf
        for j in range(C):
            finite &= out[b, 0, j] < np.inf
        out_status[b] = OK
        if not finite:
            out_status[b] = RANGE
            _fill_nan(out[b])


@jit(borrows=True)
def _write_outer_products(row_scale, col_scale, out, out_status, start, stop):
    """Write the outer products of row and column factors as weights, and mark overflows."""
    R, C = row_scale.shape[1], col_scale.shape[1]
    for b in range(start, stop):
        finite = True
        for i in range(R):
            for j in range(C):
                out[b, i, j] = row_scale[b, i] * col_scale[b, j]
                finite &= out[b, i, j] < np.inf
        if out_status[b] == OK and not finite:
            out_status[b] = RANGE
            _fill_nan(out[b])


def _run_normalization(kernel, M, method, num_threads, progress):
    """Run a normalising kernel on a batch; return results and status."""
    R, C = M.shape[-2:]
    n = math.prod(M.shape[:-2])
    out, status = np.empty((n, R, C), batches.result_dtype(M)), np.zeros(n, np.int8)
    if out.size:
        # Three dtypes, so that every kernel is compiled at most three times.
        flat = batches.flat_batch(M if M.dtype == np.int64 else batches.as_floating(M), 2)
        args, seconds = (flat, CODES_OF_LINES[method], out, status), flat.size * SECONDS_PER_NORMALIZED_CELL
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
    out, status = np.empty((n, R, C), batches.result_dtype(M)), np.array(scaled).reshape(n)
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
def _write_gradients(M, G, lines, of_weights, out, start, stop):
    """Write the gradient in the cells of normalised matrices or of weights."""
    R, C = M.shape[1], M.shape[2]
    total, mean = np.empty(R + C), np.empty(R + C)
    for b in range(start, stop):
        if not _write_sums(M, b, lines, 1.0, total):
            _fill_nan(out[b])
            continue
        for k in range(mean.shape[0]):
            mean[k] = 0.0
        for i in range(R):
            for j in range(C):
                line, g = _sum_index(i, j, lines), G[b, i, j]
                t = total[line]
                if t > 0.0:
                    mean[line] += g / t if of_weights else g * (np.float64(M[b, i, j]) / t)
        for i in range(R):
            for j in range(C):
                line = _sum_index(i, j, lines)
                t = total[line]
                slope = -mean[line] if of_weights else G[b, i, j] - mean[line]
                out[b, i, j] = slope / t if t > 0.0 else 0.0


def normalizing_gradient(M, G, *, method, of_weights=False, num_threads=None):
    """Return the gradient in the cells, given that in the normalised matrix or the weights; 0 without mass."""
    n, kind = math.prod(M.shape[:-2]), batches.result_dtype(M)
    out = np.empty((n, *M.shape[-2:]), kind)
    if out.size:
        flat = batches.flat_batch(batches.as_floating(M), 2)
        given = batches.flat_batch(G.astype(kind, copy=False), 2)
        args = (flat, given, CODES_OF_LINES[method], of_weights, out)
        seconds = 2 * flat.size * SECONDS_PER_NORMALIZED_CELL
        pool.run(_write_gradients, args, n, seconds=seconds, num_threads=num_threads)
    return out.reshape(M.shape)
