"""What leaves a tile: factors in their gauge, scaled cells, and the residual measured on these."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, load, some, splat, store, store_block, where
from cmfast.kernels.cpu.scaling._tile import LANES
from cmfast.kernels.cpu.scaling._tile_range import permute, undo_powers
from cmfast.kernels.status import MAX_ITER, OK, RANGE

TINY = 1e-290  # products of factors beyond it, or beyond its reciprocal, are formed in fractions and powers of two


@jit(inner=True)
def finish(t, plain, tol, bound):
    """Put the factors in the gauge, scale the cells, and measure again what is returned."""
    S, C = t.S, t.C
    if some(load(S, t.moved) != 0.0):
        for w in range(LANES):
            if S[t.moved, w] != 0.0:
                for j in range(C):
                    S[t.r + np.int64(S[t.order + j, w]), w] = j
                for j in range(C):
                    S[t.order + j, w] = S[t.r + j, w]
                permute(t, w)
    for j in range(C):
        store(S, t.y + j, where(load(S, t.v + j) > 0.0, load(S, t.y + j), 0.0))
    if t.flip:
        _gauge(t, t.y, t.v, t.C, t.x, t.R, t.col_power)
    else:
        _gauge(t, t.x, t.u, t.R, t.y, t.C, t.row_power)
    _scale_cells(t)
    good = _positive(S, t.x, t.u, t.R) & _positive(S, t.y, t.v, t.C)
    status, residual = load(S, t.status), load(S, t.residual)
    lost = (status <= float(MAX_ITER)) & ~((residual < np.inf) & good)
    status = where(lost, float(RANGE), status)
    status = where((status == float(OK)) & ~(residual <= bound), float(MAX_ITER), status)
    if plain:  # only the sums count
        status = where((status == float(MAX_ITER)) & (residual <= tol), float(OK), status)
    store(S, t.status, status)
    if some(load(S, t.far) != 0.0):
        for w in range(LANES):
            if S[t.far, w] != 0.0:
                undo_powers(t, w, -S[t.rest, w] if t.flip else S[t.rest, w])


@jit(inner=True)
def _gauge(t, first, targets, n, second, m, powers):
    """Divide the factors `first` by their geometric mean and multiply the others by it.

    What the powers of two in M add to that is left in `rest`.
    """
    S = t.S
    count = splat(0.0)
    product = splat(1.0)
    least = splat(1.0)
    for i in range(n):
        there = load(S, targets + i) > 0.0
        count = count + where(there, 1.0, splat(0.0))
        product = product * where(there, load(S, first + i), 1.0)
        least = where(product < least, product, least)
    store(S, t.mean, product)
    store(S, t.least, least)
    store(S, t.count, count)
    for w in range(LANES):
        product, least, count = S[t.mean, w], S[t.least, w], S[t.count, w]
        if least > TINY and product < 1.0 / TINY and S[t.far, w] == 0.0:
            S[t.mean, w] = np.exp(np.log(product) / count) if count > 0.0 else 1.0
        elif S[t.status, w] <= MAX_ITER:
            S[t.mean, w], S[t.rest, w] = _geometric_mean(S, first, targets, n, powers, w)
    mean = load(S, t.mean)
    for i in range(n):
        store(S, first + i, load(S, first + i) / mean)
    for j in range(m):
        store(S, second + j, load(S, second + j) * mean)


@jit(inner=True)
def _geometric_mean(S, factors, targets, count, powers, w):
    """Geometric mean of the factors that are not dropped, and the power of two that `powers` add to it."""
    product = 1.0
    power = 0
    given = 0
    n = 0
    for i in range(count):
        if S[targets + i, w] > 0.0:
            fraction, exponent = math.frexp(S[factors + i, w])
            product *= fraction
            power += exponent
            given -= int(S[powers + i, w])
            n += 1
            if product < 1e-200:
                product, exponent = math.frexp(product)
                power += exponent
    if n == 0:
        return 1.0, 0.0
    whole = (power + given) // n
    part = (power + given) - whole * n
    mean = np.exp((np.log(product) + part * np.log(2.0)) / n)
    return math.ldexp(mean, power // n), float(whole - power // n)


@jit(inner=True)
def _scale_cells(t):
    S, R, C = t.S, t.R, t.C
    residual = splat(0.0)
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        x = load(S, t.x + i)
        total = splat(0.0)
        for j in range(C):
            k = t.M + i * C + j
            cell = x * load(S, k) * load(S, t.y + j)
            store(S, k, cell)
            total = total + cell
            store(S, t.col + j, load(S, t.col + j) + cell)
        residual = residual + absolute(total - load(S, t.u + i))
    for j in range(C):
        residual = residual + absolute(load(S, t.col + j) - load(S, t.v + j))
    store(S, t.residual, residual / load(S, t.total))


@jit(inner=True)
def _positive(S, factors, targets, n):
    """Return the lanes whose factors are all positive and finite, but where the target is zero."""
    good = splat(0.0) == 0.0
    for i in range(n):
        f = load(S, factors + i)
        good = good & (((f > 0.0) & (f < np.inf)) | (load(S, targets + i) == 0.0))
    return good


@jit(inner=True)
def scatter(t, out, out_row, out_col, first, last):
    """Write scaled cells, if wanted, and factors of elements `first` to `last`: NaN where there is no answer."""
    S = t.S
    n = min(last + 1 - first, LANES)
    _scatter_lines(S, t.x, out_row, first, n)
    _scatter_lines(S, t.y, out_col, first, n)
    write = out.shape[0] > 0
    if write and t.flip:
        for i in range(t.R):
            for j in range(t.C):
                for w in range(n):
                    out[first + w, j * t.R + i] = S[t.M + i * t.C + j, w]
    elif write:
        _scatter_lines(S, t.M, out, first, n)
    for w in range(n):
        if S[t.status, w] > MAX_ITER:
            _blank(out_row, first + w)
            _blank(out_col, first + w)
            if write:
                _blank(out, first + w)


@jit(inner=True)
def scatter_numbers(t, residual, n_iter, status, smoothing, first, last):
    """Write what is one number for each of the elements `first` to `last`."""
    S = t.S
    for w in range(min(last + 1 - first, LANES)):
        b = first + w
        residual[b] = S[t.residual, w] if S[t.status, w] <= MAX_ITER else np.nan
        n_iter[b] = np.int64(S[t.n_iter, w])
        status[b] = np.int8(S[t.status, w])
        smoothing[b] = S[t.amount, w]


@jit(inner=True)
def _scatter_lines(S, k, out, first, n):
    """Write the lines from `k` on to the first `n` elements."""
    m = out.shape[1]
    if n < LANES or m < LANES:
        for c in range(m):
            for w in range(n):
                out[first + w, c] = S[k + c, w]
    else:
        for start in range(0, m, LANES):
            c = min(start, m - LANES)  # the last block overlaps the one before
            store_block(S, k + c, out, first, c)


@jit(inner=True)
def _blank(out, b):
    for c in range(out.shape[1]):
        out[b, c] = np.nan
