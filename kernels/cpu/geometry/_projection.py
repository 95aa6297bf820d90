"""Project points on axes with sums in a fixed order; BLAS sums a row differently at another position in its block."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, load_row, splat, store, total
from cmfast.kernels.shared.geometry_columns import OVERFLOW_SCALE

PROJECTED_ROWS = 4  # rows at a time: with two axes eight accumulators, enough to hide the latency of FMA


def new_workspace(n):
    """Return a zeroed workspace for `project`, for rows of `n` values."""
    return np.zeros((PROJECTED_ROWS * -(-n // WIDTH), WIDTH))


def pad_to_lines(rows):
    """Return rows as lines of eight values, each row padded with zeros."""
    rows = np.atleast_2d(rows)
    out = np.zeros((len(rows), -(-rows.shape[1] // WIDTH) * WIDTH))
    out[:, : rows.shape[1]] = rows
    return out.reshape(-1, WIDTH)


@jit(inner=True, borrows=True)
def _subtract_mean(X, row, mean, workspace, k):
    """Write a row minus the mean to lines from `k` on, padded with zeros; NaN first if the row is not finite."""
    n = X.shape[1]
    whole = n // WIDTH
    zeros = splat(0.0)
    for b in range(whole):
        x = load_row(X, row, b * WIDTH)
        zeros = fma(x, 0.0, zeros)
        store(workspace, k + b, x - load(mean, b))
    zero = total(zeros)
    for j in range(whole * WIDTH, n):
        x = np.float64(X[row, j])
        zero += x * 0.0
        workspace[k + whole, j - whole * WIDTH] = x - mean[whole, j - whole * WIDTH]
    workspace[k, 0] += zero


@jit(inner=True, borrows=True)
def _keep_finite(value, row, column, X, mean, axes, workspace, k):
    """Return a coordinate, recomputed in scaled arithmetic if it overflowed although the row is finite."""
    if not np.isfinite(value) and not np.isnan(workspace[k, 0]):
        value = 0.0
        for j in range(X.shape[1]):
            b, e = j // WIDTH, j % WIDTH
            difference = np.float64(X[row, j]) / OVERFLOW_SCALE - mean[b, e] / OVERFLOW_SCALE
            value += difference * axes[column * mean.shape[0] + b, e]
        value *= OVERFLOW_SCALE
    return value


@jit()
def project(X, mean, axes, workspace, out, start, stop):
    """Write the projections of ``X - mean`` on the axes for rows `start` to `stop`, two axes at a time."""
    size, m = mean.shape[0], out.shape[1]
    for begin in range(start, stop, PROJECTED_ROWS):
        for w in range(PROJECTED_ROWS):  # repeats the last row if fewer than four are left
            _subtract_mean(X, min(begin + w, stop - 1), mean, workspace, w * size)
        for d in range(0, m, 2):
            next_d = min(d + 1, m - 1)
            a = b = c = e = p = q = r = s = splat(0.0)
            for k in range(size):
                x, y = load(axes, d * size + k), load(axes, next_d * size + k)
                u, v = load(workspace, k), load(workspace, size + k)
                a, p = fma(u, x, a), fma(u, y, p)
                b, q = fma(v, x, b), fma(v, y, q)
                u, v = load(workspace, 2 * size + k), load(workspace, 3 * size + k)
                c, r = fma(u, x, c), fma(u, y, r)
                e, s = fma(v, x, e), fma(v, y, s)
            sums = (total(a), total(p)), (total(b), total(q)), (total(c), total(r)), (total(e), total(s))
            for w in range(PROJECTED_ROWS):
                row = min(begin + w, stop - 1)
                out[row, d] = _keep_finite(sums[w][0], row, d, X, mean, axes, workspace, w * size)
                out[row, next_d] = _keep_finite(sums[w][1], row, next_d, X, mean, axes, workspace, w * size)
