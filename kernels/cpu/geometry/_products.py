"""Points on axes, by sums in an order of their own: BLAS takes another for a row that stands elsewhere in its block."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, load_row, splat, store, total
from cmfast.kernels.shared.geometry_columns import OVERFLOW_SCALE

PROJECTED_ROWS = 4  # at a time: with two axes eight sums, as many as there are products under way


def room_for(n):
    """Return room for as many rows of `n` numbers as the kernel takes at a time."""
    return np.zeros((PROJECTED_ROWS * -(-n // WIDTH), WIDTH))


def lines_of(rows):
    """Return rows of numbers as lines of eight, each filled up with zeros."""
    rows = np.atleast_2d(rows)
    out = np.zeros((len(rows), -(-rows.shape[1] // WIDTH) * WIDTH))
    out[:, : rows.shape[1]] = rows
    return out.reshape(-1, WIDTH)


@jit(inner=True, borrows=True)
def _differences(X, row, mean, room, k):
    """Fill lines from `k` on with a row less the mean, filled up with zeros; one that is not finite begins with NaN."""
    n = X.shape[1]
    whole = n // WIDTH
    zeros = splat(0.0)
    for b in range(whole):
        x = load_row(X, row, b * WIDTH)
        zeros = fma(x, 0.0, zeros)
        store(room, k + b, x - load(mean, b))
    zero = total(zeros)
    for j in range(whole * WIDTH, n):
        x = np.float64(X[row, j])
        zero += x * 0.0
        room[k + whole, j - whole * WIDTH] = x - mean[whole, j - whole * WIDTH]
    room[k, 0] += zero


@jit(inner=True, borrows=True)
def _keep_finite(value, row, column, X, mean, axes, room, k):
    """Return a coordinate, computed anew in steps where it overflows on the way although the row is finite."""
    if not np.isfinite(value) and not np.isnan(room[k, 0]):
        value = 0.0
        for j in range(X.shape[1]):
            b, e = j // WIDTH, j % WIDTH
            difference = np.float64(X[row, j]) / OVERFLOW_SCALE - mean[b, e] / OVERFLOW_SCALE
            value += difference * axes[column * mean.shape[0] + b, e]
        value *= OVERFLOW_SCALE
    return value


@jit()
def project(X, mean, axes, room, out, start, stop):
    """Write X - mean on the axes, two at a time; `mean`, `axes` and `room` for PROJECTED_ROWS rows are lines."""
    size, m = mean.shape[0], out.shape[1]
    for begin in range(start, stop, PROJECTED_ROWS):
        for w in range(PROJECTED_ROWS):  # the last row again where there are no four
            _differences(X, min(begin + w, stop - 1), mean, room, w * size)
        for d in range(0, m, 2):
            next_d = min(d + 1, m - 1)
            a = b = c = e = p = q = r = s = splat(0.0)
            for k in range(size):
                x, y = load(axes, d * size + k), load(axes, next_d * size + k)
                u, v = load(room, k), load(room, size + k)
                a, p = fma(u, x, a), fma(u, y, p)
                b, q = fma(v, x, b), fma(v, y, q)
                u, v = load(room, 2 * size + k), load(room, 3 * size + k)
                c, r = fma(u, x, c), fma(u, y, r)
                e, s = fma(v, x, e), fma(v, y, s)
            found = (total(a), total(p)), (total(b), total(q)), (total(c), total(r)), (total(e), total(s))
            for w in range(PROJECTED_ROWS):
                row = min(begin + w, stop - 1)
                out[row, d] = _keep_finite(found[w][0], row, d, X, mean, axes, room, w * size)
                out[row, next_d] = _keep_finite(found[w][1], row, next_d, X, mean, axes, room, w * size)
