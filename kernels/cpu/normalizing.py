"""Normalise matrices by totals, row sums or column sums; importance weights of samples; their gradients."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, collect_signs, load_row, some_sign, splat, store_row
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
def _has_sign(tables, b):
    """Return whether a cell of matrix `b` has a minus sign, also that of -0.0; a row of `tables` is a matrix."""
    cells = tables.shape[1]
    if cells < WIDTH:
        signed = False
        for k in range(cells):
            signed |= tables[b, k] < 0
        return signed
    signs = splat(0.0)
    for k in range(0, cells - WIDTH + 1, WIDTH):
        signs = collect_signs(signs, tables, b, k)
    return some_sign(collect_signs(signs, tables, b, cells - WIDTH))


@jit(inner=True, inline=True, borrows=True)
def _divide_by_rows(M, b, out):
    """Write matrix `b` divided by its row sums; return whether the sum of all is finite."""
    whole = 0.0
    for i in range(M.shape[1]):
        total = 0.0
        for j in range(M.shape[2]):
            total += np.float64(M[b, i, j])
        whole += total
        total = total if total > 0.0 else 1.0
        for j in range(M.shape[2]):
            out[b, i, j] = np.float64(M[b, i, j]) / total
    return whole < np.inf


@jit(inner=True, inline=True, borrows=True)
def _sum_columns(M, b, total):
    """Write the column sums of matrix `b`, in the order of the rows; return whether the sum of all is finite."""
    R, C, whole = M.shape[1], M.shape[2], 0.0
    if R <= MOST_ROWS_OF_A_COLUMN:
        for j in range(C):
            own = 0.0
            for i in range(R):
                own += np.float64(M[b, i, j])
            total[j] = own
    else:
        for j in range(C):
            total[j] = 0.0
        for i in range(R):
            for j in range(C):
                total[j] += np.float64(M[b, i, j])
    for j in range(C):
        whole += total[j]
    return whole < np.inf


@jit(inner=True, inline=True, borrows=True)
def _divide_by_columns(M, b, total, out):
    """Write matrix `b` divided by its column sums; return whether all sums and the sum of all are finite."""
    finite = _sum_columns(M, b, total)
    for j in range(M.shape[2]):
        total[j] = total[j] if total[j] > 0.0 else 1.0
    for i in range(M.shape[1]):
        for j in range(M.shape[2]):
            out[b, i, j] = np.float64(M[b, i, j]) / total[j]
    return finite


@jit(inner=True, inline=True, borrows=True)
def _sum_rows(M, b):
    """Return the sum of the row sums of matrix `b`."""
    whole = 0.0
    for i in range(M.shape[1]):
        total = 0.0
        for j in range(M.shape[2]):
            total += np.float64(M[b, i, j])
        whole += total
    return whole


@jit(inner=True, inline=True, borrows=True)
def _divide_by_total(M, b, tables, outs):
    """Write matrix `b`, a row of `tables`, divided by its total; return whether that is finite."""
    whole, cells = _sum_rows(M, b), tables.shape[1]
    total, last = whole if whole > 0.0 else 1.0, cells - WIDTH
    if last < 0:
        for k in range(cells):
            outs[b, k] = np.float64(tables[b, k]) / total
    else:
        for k in range(0, last, WIDTH):
            store_row(outs, b, k, load_row(tables, b, k) / total)
        store_row(outs, b, last, load_row(tables, b, last) / total)
    return whole < np.inf


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
    total, tables = np.empty(M.shape[2]), M.reshape(len(M), M.shape[1] * M.shape[2])
    outs = out.reshape(tables.shape)
    for b in range(start, stop):
        if lines == ROW:
            valid = _divide_by_rows(M, b, out) & (not _has_sign(tables, b))
        elif lines == COL:
            valid = _divide_by_columns(M, b, total, out) & (not _has_sign(tables, b))
        else:
            valid = _divide_by_total(M, b, tables, outs) & (not _has_sign(tables, b))
        out_status[b] = OK if valid else _write_exception(M, b, lines, out)


@jit(inner=True, inline=True, borrows=True)
def _weigh_by_rows(M, b, out):
    """Write the reciprocal row sums of matrix `b`; return whether the sums of all sums and weights are finite."""
    whole, weights = 0.0, 0.0
    for i in range(M.shape[1]):
        total = 0.0
        for j in range(M.shape[2]):
            total += np.float64(M[b, i, j])
        w = 1.0 / total if total > 0.0 else 0.0
        for j in range(M.shape[2]):
            out[b, i, j] = w
        whole, weights = whole + total, weights + w
    return (whole < np.inf) & (out.dtype.type(weights) < np.inf)


@jit(inner=True, inline=True, borrows=True)
def _weigh_by_columns(M, b, total, out):
    """Write the reciprocal column sums of matrix `b`; return whether the sums of all sums and weights are finite."""
    finite, weights = _sum_columns(M, b, total), 0.0
    for j in range(M.shape[2]):
        total[j] = 1.0 / total[j] if total[j] > 0.0 else 0.0
        weights += total[j]
    for i in range(M.shape[1]):
        for j in range(M.shape[2]):
            out[b, i, j] = total[j]
    return finite & (out.dtype.type(weights) < np.inf)


@jit(inner=True, inline=True, borrows=True)
def _weigh_by_total(M, b, outs):
    """Write the reciprocal total of matrix `b` to a row of `outs`; return whether both are finite."""
    whole = _sum_rows(M, b)
    w = 1.0 / whole if whole > 0.0 else 0.0
    for k in range(outs.shape[1]):
        outs[b, k] = w
    return (whole < np.inf) & (outs[b, 0] < np.inf)


@jit(inner=True)
def _write_exceptional_weights(M, b, lines, out):
    """Write the weights of matrix `b`, which has an invalid cell, or a sum or a weight that overflows; return status.

    A sum that overflows is taken in scaled arithmetic.
    """
    if not _is_valid(M, b):
        _fill_nan(out[b])
        return INVALID
    R, C, finite = M.shape[1], M.shape[2], True
    total, small = np.empty(R + C), np.empty(R + C)
    _write_sums(M, b, lines, 1.0, total)
    _write_sums(M, b, lines, SHRINK, small)
    for i in range(R):
        for j in range(C):
            k = _sum_index(i, j, lines)
            if total[k] == np.inf:
                out[b, i, j] = SHRINK / small[k]
            else:
                out[b, i, j] = 1.0 / total[k] if total[k] > 0.0 else 0.0
            finite &= out[b, i, j] < np.inf  # where a float32 overflows the float64 may be finite
    if not finite:
        _fill_nan(out[b])
    return OK if finite else RANGE


@jit()
def _write_weights(M, lines, out, out_status, start, stop):
    """Write the reciprocal sum of each cell as its samples' weight, for matrices `start` to `stop`."""
    total, tables = np.empty(M.shape[2]), M.reshape(len(M), M.shape[1] * M.shape[2])
    outs = out.reshape(tables.shape)
    for b in range(start, stop):
        if lines == ROW:
            usual = _weigh_by_rows(M, b, out)
        elif lines == COL:
            usual = _weigh_by_columns(M, b, total, out)
        else:
            usual = _weigh_by_total(M, b, outs)
        usual = usual & (not _has_sign(tables, b))
        out_status[b] = OK if usual else _write_exceptional_weights(M, b, lines, out)


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
