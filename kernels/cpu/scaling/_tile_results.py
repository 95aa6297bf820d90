"""Results of a tile: normalised factors, scaled cells, residuals measured again, the final convergence check."""

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
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_equilibration import undo_powers
from cmfast.kernels.cpu.scaling._tile_workspace import (
    EXTREME_MEAN,
    LANES,
    PARTS,
    make_example_tile,
    sum_lines,
    unroll_unit_targets,
    write_defaults,
)
from cmfast.kernels.shared import scaling as rules
from cmfast.kernels.shared.scaling import DOUBT
from cmfast.kernels.status import MAX_ITER, OK, RANGE, UNDETERMINED

line_bound = jit(inner=True, inline=True)(rules.line_bound)

# Products of factors outside [this, 1 / this] are computed in fractions and powers of two.
LEAST_PLAIN_PRODUCT = 1e-290


@unroll_unit_targets(line.MEAN, line.PLAIN_MEAN)
@jit(inner=True, borrows=True)
def compute_mean_factor(t):
    """Compute the geometric mean of the factors to be normalised.

    Mark lanes whose product of factors leaves the range.
    """
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
    simple = (least > LEAST_PLAIN_PRODUCT) & (product < 1.0 / LEAST_PLAIN_PRODUCT) & (load(S, line.EQUILIBRATED) == 0.0)
    store(S, line.PLAIN_MEAN, where(simple, 1.0, splat(0.0)))
    store(S, line.MEAN, where(simple & (count > 0.0), exp(log(product) / count), 1.0))


@unroll_unit_targets("x", "y", line.VALID)
@jit(inner=True, borrows=True)
def normalize_factors(t):
    """Normalise the factors: divide the input's row factors by their geometric mean, multiply the columns' by it."""
    S = t.S
    mean = load(S, line.MEAN)
    if t.flip:
        _multiply_lines(S, t.x, t.R, mean)
        _divide_lines(S, t.y, t.C, mean)
    else:
        _divide_lines(S, t.x, t.R, mean)
        _multiply_lines(S, t.y, t.C, mean)
    good = _find_positive_lanes(S, t.x, t.u, t.R) & _find_positive_lanes(S, t.y, t.v, t.C)
    store(S, line.VALID, where(good, 1.0, splat(0.0)))


@jit(inner=True, borrows=True)
def _divide_lines(S, k, n, mean):
    """Divide `n` SIMD lines from line `k` on by `mean`, in place."""
    for i in range(k, k + n):
        store(S, i, load(S, i) / mean)


@jit(inner=True, borrows=True)
def _multiply_lines(S, k, n, mean):
    """Multiply `n` SIMD lines from line `k` on by `mean`, in place."""
    for i in range(k, k + n):
        store(S, i, load(S, i) * mean)


@jit(inner=True, borrows=True)
def check_convergence(t, bound, last_width, closer):
    """Set the final status of each lane: OK only where the measured residuals are within `bound`.

    Else MAX_ITER, or RANGE where factors are not finite. With `closer`, lanes above the bound, with a large last step,
    or with cells that rounding of targets could change become UNDETERMINED, for `_refine` to decide.
    """
    S = t.S
    status, residual = load(S, line.STATUS), load(S, line.RESIDUAL)
    lost = (status <= float(MAX_ITER)) & ~((residual < np.inf) & (load(S, line.VALID) != 0.0))
    status = where(lost, float(RANGE), status)
    doubtful = ~((residual <= bound) & (load(S, line.LINE_ERROR) <= line_bound(bound)))
    if closer:
        doubtful = doubtful | ~(load(S, line.STEP_NORM) <= last_width) | ~_find_certain_lanes(t, status == float(OK))
    instead = float(UNDETERMINED) if closer else float(MAX_ITER)
    store(S, line.STATUS, where((status == float(OK)) & doubtful, instead, status))


@jit(inner=True, borrows=True)
def halve_column_errors(t, bound):
    """Halve the errors of the columns that are off by more than the bound.

    The rows, which are exact, take the other half. No row is then off by more than the bound, since its error is a mean
    of column errors: half a Sinkhorn step.
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
def _find_certain_lanes(t, wanted):
    """Return the lanes whose cells provably do not depend on the rounding of targets, by a cheap sufficient test."""
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
        if not some(wanted & ~(hub >= wide)):  # mostly the first column decides
            return wanted
    low = splat(np.inf)
    for k in range(t.P, t.P + R * C):
        cell = load(S, k)
        low = where((cell > 0.0) & (cell < low), cell, low)
    return (hub >= wide) | (DOUBT * load(S, line.MASS) <= low)


@PARTS.part(EXTREME_MEAN, lambda: (make_example_tile(), False, False), returns=None)
def compute_extreme_mean(t, straight, powers):
    """Compute the geometric mean of factors whose product leaves the float64 range.

    With `powers`, undo the equilibration.
    """
    S = t.S
    if powers:
        for w in range(LANES):
            if S[line.EQUILIBRATED, w] != 0.0:
                undo_powers(t, w, -S[line.MEAN_POWER, w] if t.flip else S[line.MEAN_POWER, w])
        return
    write_defaults(t, straight)
    for w in range(LANES):
        if S[line.PLAIN_MEAN, w] == 0.0 and S[line.STATUS, w] <= MAX_ITER:
            if t.flip:
                S[line.MEAN, w], S[line.MEAN_POWER, w] = _compute_geometric_mean(S, t.y, t.v, t.C, t.col_power, w)
            else:
                S[line.MEAN, w], S[line.MEAN_POWER, w] = _compute_geometric_mean(S, t.x, t.u, t.R, t.row_power, w)


@jit(inner=True, borrows=True)
def _compute_geometric_mean(S, factors, targets, count, powers, w):
    """Return the geometric mean of the factors of lines with a target, and the power of two that `powers` adds."""
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
    """Compute the scaled cells x_i m_ij y_j of the whole tile."""
    S, C = t.S, t.C
    for i in range(t.R):
        x = load(S, t.x + i)
        for j in range(C):
            store(S, t.P + i * C + j, x * (load(S, t.M + i * C + j) * load(S, t.y + j)))


@unroll_unit_targets(line.RESIDUAL, line.LINE_ERROR)
@jit(inner=True, borrows=True)
def measure_residual(t):
    """Measure the residual (all row and column errors over the total) and the largest relative error of one of them."""
    S, R, C = t.S, t.R, t.C
    residual, worst = splat(0.0), splat(0.0)
    for j in range(C):
        store(S, t.col + j, splat(0.0))
    for i in range(R):
        P = t.P + i * C
        missed = absolute(sum_lines(S, P, C) - load(S, t.u + i))
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
def _find_positive_lanes(S, factors, targets, n):
    """Return the lanes whose factors are all positive and finite, except where the target is zero."""
    good = splat(0.0) == 0.0
    for i in range(n):
        f = load(S, factors + i)
        good = good & (((f > 0.0) & (f < np.inf)) | (load(S, targets + i) == 0.0))
    return good


@jit(inner=True, borrows=True)
def set_failed_to_nan(t):
    """Set the results of lanes without a solution to NaN."""
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
def scatter_results(t, out, out_row, out_col, first, last):
    """Write the scaled cells (if requested) and factors of matrices `first` to `last`, tile partial or transposed."""
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
    """Copy SIMD lines from line `k` on to rows `first` to `last` of `out`, one matrix from each lane."""
    for c in range(out.shape[1]):
        for b in range(first, min(first + LANES, last + 1)):
            out[b, c] = S[k + c, b - first]


@unroll_unit_targets()
@jit(inner=True, borrows=True)
def write_cells(t, out, first):
    """Write the scaled cells of a full tile to `out`, by blocks of SIMD stores."""
    _write_lines(t.S, t.P, t.R * t.C, out, first)


@unroll_unit_targets()
@jit(inner=True, borrows=True)
def write_factors(t, out_row, out_col, first):
    """Write the row and column factors of a full tile, by blocks of SIMD stores."""
    _write_lines(t.S, t.x, t.R, out_row, first)
    _write_lines(t.S, t.y, t.C, out_col, first)


@jit(inner=True, inline=True, borrows=True)
def _write_lines(S, k, m, out, first):
    """Write `m` SIMD lines from line `k` on to eight rows of `out`, transposing 8 x 8 blocks."""
    if m < LANES:
        store_narrow(S, k, out, first, m)
        return
    for start in range(0, m, LANES):
        c = min(start, m - LANES)  # the last block overlaps the one before
        store_block(S, k + c, out, first, c)


@jit(inner=True, borrows=True)
def write_scalars(t, residual, n_iter, status, smoothing, line_error, first):
    """Write the residual, passes, status, smoothing and line error of a full tile."""
    S = t.S
    store_elements(residual, first, load(S, line.RESIDUAL))
    store_elements(n_iter, first, load(S, line.N_ITER))
    store_elements(status, first, load(S, line.STATUS))
    store_elements(smoothing, first, load(S, line.SMOOTHING))
    store_elements(line_error, first, load(S, line.LINE_ERROR))


@jit(inner=True, borrows=True)
def scatter_scalars(t, residual, n_iter, status, smoothing, line_error, first, last):
    """Write the residual, passes, status, smoothing and line error of matrices `first` to `last` of a partial tile."""
    S = t.S
    for w in range(min(last + 1 - first, LANES)):
        b = first + w
        residual[b] = S[line.RESIDUAL, w]
        n_iter[b] = np.int64(S[line.N_ITER, w])
        status[b] = np.int8(S[line.STATUS, w])
        smoothing[b] = S[line.SMOOTHING, w]
        line_error[b] = S[line.LINE_ERROR, w]
