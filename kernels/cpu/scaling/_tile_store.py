"""What leaves a tile: factors in their gauge, scaled cells, and the residual measured on these."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    absolute,
    load,
    some,
    splat,
    store,
    store_block,
    store_elements,
    store_narrow,
    where,
)
from cmfast.kernels.cpu._core.vector_functions import exp, log
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._tile import GAUGE, LANES, PARTS, add_up, example, spell_out, written_out
from cmfast.kernels.cpu.scaling._tile_range import undo_powers
from cmfast.kernels.shared import scaling as rules
from cmfast.kernels.shared.scaling import DOUBT
from cmfast.kernels.status import MAX_ITER, OK, RANGE, UNDETERMINED

line_bound = jit(inner=True, inline=True)(rules.line_bound)

# Products of factors beyond it, or beyond its reciprocal, are formed in fractions and powers of two.
LEAST_PLAIN_PRODUCT = 1e-290


@written_out(line.MEAN, line.SIMPLE)
@jit(inner=True, borrows=True)
def take_mean(t):
    """Find the geometric mean of the factors that the gauge is about; note where their plain product does not tell."""
    S = t.S
    first, targets, n = (t.y, t.v, t.C) if t.flip else (t.x, t.u, t.R)
    count = splat(0.0)
    product = splat(1.0)
    least = splat(1.0)
    for i in range(n):
        there = load(S, targets + i) > 0.0
        count = count + where(there, 1.0, splat(0.0))
        product = product * where(there, load(S, first + i), 1.0)
        least = where(product < least, product, least)
    simple = (least > LEAST_PLAIN_PRODUCT) & (product < 1.0 / LEAST_PLAIN_PRODUCT) & (load(S, line.FAR) == 0.0)
    store(S, line.SIMPLE, where(simple, 1.0, splat(0.0)))
    store(S, line.MEAN, where(simple & (count > 0.0), exp(log(product) / count), 1.0))


@written_out("x", "y", line.GOOD)
@jit(inner=True, borrows=True)
def divide_by_mean(t):
    """Divide the factors that the gauge is about by their mean, and multiply the others by it."""
    S = t.S
    mean = load(S, line.MEAN)
    if t.flip:
        _multiply(S, t.x, t.R, mean)
        _divide(S, t.y, t.C, mean)
    else:
        _divide(S, t.x, t.R, mean)
        _multiply(S, t.y, t.C, mean)
    good = _positive(S, t.x, t.u, t.R) & _positive(S, t.y, t.v, t.C)
    store(S, line.GOOD, where(good, 1.0, splat(0.0)))


@jit(inner=True, borrows=True)
def _divide(S, k, n, mean):
    for i in range(k, k + n):
        store(S, i, load(S, i) / mean)


@jit(inner=True, borrows=True)
def _multiply(S, k, n, mean):
    for i in range(k, k + n):
        store(S, i, load(S, i) * mean)


@jit(inner=True, borrows=True)
def judge(t, bound, last_width, closer):
    """Let nothing be OK that was not measured to be; with `closer` it is UNDETERMINED, to be looked at more closely.

    So is then what has cells so small that the rounding of targets may move them.
    """
    S = t.S
    status, residual = load(S, line.STATUS), load(S, line.RESIDUAL)
    lost = (status <= float(MAX_ITER)) & ~((residual < np.inf) & (load(S, line.GOOD) != 0.0))
    status = where(lost, float(RANGE), status)
    doubtful = ~((residual <= bound) & (load(S, line.LINE_ERROR) <= line_bound(bound)))
    if closer:
        doubtful = doubtful | ~(load(S, line.RHO) <= last_width) | ~_certain(t, status == float(OK))
    instead = float(UNDETERMINED) if closer else float(MAX_ITER)
    store(S, line.STATUS, where((status == float(OK)) & doubtful, instead, status))


@jit(inner=True, borrows=True)
def even_out(t, bound):
    """Let the rows, which are exact, take half of what columns miss that are off by more than the bound.

    No row is off by more than that then, since each is a mean of columns: half a step of Sinkhorn and Knopp.
    """
    S, R, C = t.S, t.R, t.C
    wanted = (load(S, line.LINE_ERROR) > bound) & (load(S, line.STATUS) == float(OK))
    for j in range(C):
        total = splat(0.0)
        for i in range(R):
            total = total + load(S, t.P + i * C + j)
        change = 0.5 * (load(S, t.v + j) - total) * load(S, t.col_inverse + j)
        factor = where(wanted, 1.0 + change, 1.0)
        store(S, t.y + j, load(S, t.y + j) * factor)
        for i in range(R):
            store(S, t.P + i * C + j, load(S, t.P + i * C + j) * factor)


@jit(inner=True, borrows=True)
def _certain(t, wanted):
    """Return the lanes of which no cell hangs on the rounding of targets, as far as a look at a column tells."""
    S, R, C = t.S, t.R, t.C
    hub, most = splat(0.0), splat(0.0)
    for j in range(C):
        inverse = load(S, t.col_inverse + j)
        most = where(inverse > most, inverse, most)
    wide = DOUBT * load(S, line.MASS) * most  # over the smallest column
    for j in range(C):
        share = splat(np.inf)
        for i in range(R):
            cell = load(S, t.P + i * C + j)
            part = where(load(S, t.u + i) > 0.0, cell * load(S, t.inverse + i), np.inf)
            share = where(part < share, part, share)
        hub = where(share > hub, share, hub)
        if not some(wanted & ~(hub >= wide)):  # mostly the first column tells
            return wanted
    low = splat(np.inf)
    for k in range(t.P, t.P + R * C):
        cell = load(S, k)
        low = where((cell > 0.0) & (cell < low), cell, low)
    return (hub >= wide) | (DOUBT * load(S, line.MASS) <= low)


@PARTS.part(GAUGE, lambda: (example(), False, False), returns=None)
def find_gauge(t, straight, powers):
    """Find the mean that a plain product does not tell; with `powers` instead undo powers of two, after it is taken."""
    S = t.S
    if powers:
        for w in range(LANES):
            if S[line.FAR, w] != 0.0:
                undo_powers(t, w, -S[line.REST, w] if t.flip else S[line.REST, w])
        return
    spell_out(t, straight)
    for w in range(LANES):
        if S[line.SIMPLE, w] == 0.0 and S[line.STATUS, w] <= MAX_ITER:
            if t.flip:
                S[line.MEAN, w], S[line.REST, w] = _geometric_mean(S, t.y, t.v, t.C, t.col_power, w)
            else:
                S[line.MEAN, w], S[line.REST, w] = _geometric_mean(S, t.x, t.u, t.R, t.row_power, w)


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
def scale_cells(t):
    """Scale the cells by the factors."""
    S, C = t.S, t.C
    for i in range(t.R):
        x = load(S, t.x + i)
        for j in range(C):
            store(S, t.P + i * C + j, x * (load(S, t.M + i * C + j) * load(S, t.y + j)))


@written_out(line.RESIDUAL, line.LINE_ERROR)
@jit(inner=True, borrows=True)
def measure(t):
    """Measure how far the sums of the scaled cells are from the targets: all of them, and the worst."""
    S, R, C = t.S, t.R, t.C
    residual, worst = splat(0.0), splat(0.0)
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        P = t.P + i * C
        missed = absolute(add_up(S, P, C) - load(S, t.u + i))
        residual = residual + missed
        missed = missed * load(S, t.inverse + i)
        worst = where(missed > worst, missed, worst)
        for j in range(C):
            store(S, t.col + j, load(S, t.col + j) + load(S, P + j))
    for j in range(C):
        missed = absolute(load(S, t.col + j) - load(S, t.v + j))
        residual = residual + missed
        missed = missed * load(S, t.col_inverse + j)
        worst = where(missed > worst, missed, worst)
    store(S, line.RESIDUAL, residual / load(S, line.MASS))
    store(S, line.LINE_ERROR, worst)


@jit(inner=True, borrows=True)
def _positive(S, factors, targets, n):
    """Return the lanes whose factors are all positive and finite, but where the target is zero."""
    good = splat(0.0) == 0.0
    for i in range(n):
        f = load(S, factors + i)
        good = good & (((f > 0.0) & (f < np.inf)) | (load(S, targets + i) == 0.0))
    return good


@jit(inner=True, borrows=True)
def blank_lost(t):
    """Put NaN where there is no answer."""
    S = t.S
    status = load(S, line.STATUS)
    lost = (status > float(MAX_ITER)) & ~(status == float(UNDETERMINED))
    if some(lost):
        for k in range(t.P, t.P + t.R * t.C):
            store(S, k, where(lost, np.nan, load(S, k)))
        for k in range(t.x, t.x + t.R):
            store(S, k, where(lost, np.nan, load(S, k)))
        for k in range(t.y, t.y + t.C):
            store(S, k, where(lost, np.nan, load(S, k)))
        for k in (line.RESIDUAL, line.LINE_ERROR):
            store(S, k, where(lost, np.nan, load(S, k)))


@jit(inner=True, borrows=True)
def scatter(t, out, out_row, out_col, first, last):
    """Write scaled cells, if wanted, and factors of elements `first` to `last`, where these are few or swapped."""
    S = t.S
    _scatter_lines(S, t.x, out_row, first, last)
    _scatter_lines(S, t.y, out_col, first, last)
    if out.shape[0] > 0 and t.flip:
        for i in range(t.R):
            for j in range(t.C):
                for b in range(first, min(first + LANES, last + 1)):
                    out[b, j * t.R + i] = S[t.P + i * t.C + j, b - first]
    elif out.shape[0] > 0:
        _scatter_lines(S, t.P, out, first, last)


@jit(inner=True, borrows=True)
def _scatter_lines(S, k, out, first, last):
    for c in range(out.shape[1]):
        for b in range(first, min(first + LANES, last + 1)):
            out[b, c] = S[k + c, b - first]


@written_out()
@jit(inner=True, borrows=True)
def write_cells(t, out, first):
    """Write the scaled cells of a whole tile."""
    _write(t.S, t.P, t.R * t.C, out, first)


@written_out()
@jit(inner=True, borrows=True)
def write_factors(t, out_row, out_col, first):
    """Write the factors of a whole tile."""
    _write(t.S, t.x, t.R, out_row, first)
    _write(t.S, t.y, t.C, out_col, first)


@jit(inner=True, inline=True, borrows=True)
def _write(S, k, m, out, first):
    if m < LANES:
        store_narrow(S, k, out, first, m)
        return
    for start in range(0, m, LANES):
        c = min(start, m - LANES)  # the last block overlaps the one before
        store_block(S, k + c, out, first, c)


@jit(inner=True, borrows=True)
def write_numbers(t, residual, n_iter, status, smoothing, line_error, first):
    """Write what is one number for each matrix of a whole tile."""
    S = t.S
    store_elements(residual, first, load(S, line.RESIDUAL))
    store_elements(n_iter, first, load(S, line.N_ITER))
    store_elements(status, first, load(S, line.STATUS))
    store_elements(smoothing, first, load(S, line.AMOUNT))
    store_elements(line_error, first, load(S, line.LINE_ERROR))


@jit(inner=True, borrows=True)
def scatter_numbers(t, residual, n_iter, status, smoothing, line_error, first, last):
    """Write what is one number for each of the elements `first` to `last`."""
    S = t.S
    for w in range(min(last + 1 - first, LANES)):
        b = first + w
        residual[b] = S[line.RESIDUAL, w]
        n_iter[b] = np.int64(S[line.N_ITER, w])
        status[b] = np.int8(S[line.STATUS, w])
        smoothing[b] = S[line.AMOUNT, w]
        line_error[b] = S[line.LINE_ERROR, w]
