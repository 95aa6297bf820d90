"""Load eight matrices and their targets into a tile, and test whether all lanes are the common case."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, load, load_block, load_narrow, some, splat, store, where
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_workspace import LANES, unroll_unit_targets
from cmfast.kernels.shared.scaling import MOST_SCALE_RATIO, NORMAL, TOTALS_RTOL, WIDE
from cmfast.kernels.status import OK


@unroll_unit_targets("M", line.LOW, line.HIGH, line.VALID)
@jit(inner=True, borrows=True)
def load_cells(t, M, rows):
    """Copy the cells of eight matrices to the tile, add the smoothing, store each lane's smallest, largest, validity.

    Smallest and largest are of the smoothed cells.
    """
    S = t.S
    cells = t.R * t.C
    if t.flip:
        for i in range(t.R):
            for j in range(t.C):
                for w in range(LANES):
                    S[t.M + i * t.C + j, w] = M[rows[w], j * t.R + i]
    elif cells < LANES:
        load_narrow(S, t.M, M, rows, cells)
    else:
        for k in range(0, cells, LANES):
            c = min(k, cells - LANES)  # the last block overlaps the one before
            load_block(S, t.M + c, M, rows, c)
    amount = load(S, line.SMOOTHING)
    low, high, total = splat(np.inf), splat(0.0), splat(0.0)
    low_odd, high_odd, total_odd = low, high, total
    last = t.M + cells - 1
    for k in range(t.M, last, 2):  # two independent chains hide the latency of the additions
        m, odd = load(S, k), load(S, k + 1)
        store(S, k, m + amount)
        store(S, k + 1, odd + amount)
        low, low_odd = where(m < low, m, low), where(odd < low_odd, odd, low_odd)
        high, high_odd = where(m > high, m, high), where(odd > high_odd, odd, high_odd)
        total, total_odd = total + m, total_odd + odd
    if cells % 2:
        m = load(S, last)
        store(S, last, m + amount)
        low = where(m < low, m, low)
        high = where(m > high, m, high)
        total = total + m
    low = where(low_odd < low, low_odd, low)
    high = where(high_odd > high, high_odd, high)
    total = total + total_odd
    store(S, line.LOW, low + amount)
    store(S, line.HIGH, high + amount)
    store(S, line.VALID, where((total <= np.inf) & (low >= 0.0) & (high < np.inf), 1.0, splat(0.0)))


@jit(inner=True, borrows=True)
def mark_zeros(t):
    """Mark lanes with zero cells, and store the smallest positive cell of each."""
    S = t.S
    zero = load(S, line.LOW) == 0.0
    store(S, line.ZEROS, where(zero, 1.0, splat(0.0)))
    if some(zero):
        low = splat(np.inf)
        for k in range(t.M, t.M + t.R * t.C):
            m = load(S, k)
            low = where((m > 0.0) & (m < low), m, low)
        store(S, line.LOW, low)


@jit(inner=True, borrows=True)
def is_regular(t):
    """Test whether all lanes are the common case: valid cells, positive targets, no empty line, no equilibration."""
    S = t.S
    if some((load(S, line.VALID) == 0.0) | (load(S, line.UNUSUAL_TARGETS) != 0.0)):
        return False
    if some(load(S, line.ZEROS) != 0.0) and not _has_positive_lines(t):
        return False
    return not some(~_find_lanes_in_range(t))


@jit(inner=True, borrows=True)
def reset_state(t):
    """Reset the status, counters and flags of all lanes before a tile is solved."""
    S = t.S
    for k in (line.WARM, line.EQUILIBRATED, line.PERMUTED, line.DEFAULTS_WRITTEN, line.N_ITER):
        store(S, k, splat(0.0))
    for k in (line.STEP_NORM, line.PREVIOUS_STEP_NORM, line.RESIDUAL, line.LINE_ERROR):
        store(S, k, splat(np.inf))
    store(S, line.STATUS, splat(float(OK)))
    store(S, line.ACTIVE, splat(1.0))


@jit(inner=True, borrows=True)
def _find_lanes_in_range(t):
    """Return the lanes whose cells need no equilibration, whether or not their diagonal dominates."""
    low, high = load(t.S, line.LOW), load(t.S, line.HIGH)
    return (low >= 1.0 / WIDE) & (high <= WIDE) & (high <= MOST_SCALE_RATIO * low)


@jit(inner=True, borrows=True)
def _has_positive_lines(t):
    """Test whether every row and every column of every lane has a positive cell."""
    S, R, C = t.S, t.R, t.C
    good = splat(0.0) == 0.0
    for i in range(R):
        total = splat(0.0)
        for j in range(C):
            total = total + load(S, t.M + i * C + j)
        good = good & (total > 0.0)
    for j in range(C):
        total = splat(0.0)
        for i in range(R):
            total = total + load(S, t.M + i * C + j)
        good = good & (total > 0.0)
    return not some(~good)


@jit(inner=True, borrows=True)
def invert_targets(t):
    """Store the reciprocals of the row and column targets, zero where a target is zero."""
    S = t.S
    for i in range(t.R):
        u = load(S, t.u + i)
        store(S, t.inverse + i, where(u > 0.0, 1.0 / where(u > NORMAL, u, NORMAL), 0.0))
    for j in range(t.C):
        v = load(S, t.v + j)
        store(S, t.col_inverse + j, where(v > 0.0, 1.0 / where(v > NORMAL, v, NORMAL), 0.0))


@jit(inner=True, borrows=True)
def _gather_targets(t, row_sums, col_sums, first, last):
    """Copy the row and column targets of the matrices from `first` to `last` into the tile."""
    _gather_lines(t.S, t.u, t.R, row_sums, first, last)
    _gather_lines(t.S, t.v, t.C, col_sums, first, last)


@jit(inner=True, borrows=True)
def _mark_unit_targets(t, row_sums, col_sums, first, last):
    """Mark no lane as unusual: the unrolled kernel knows that all targets are one."""
    store(t.S, line.UNUSUAL_TARGETS, splat(0.0))


@unroll_unit_targets(line.UNUSUAL_TARGETS, source=_mark_unit_targets)
@jit(inner=True, borrows=True)
def load_targets(t, row_sums, col_sums, first, last):
    """Copy the targets into the tile and equalise their totals.

    Mark lanes with a nonpositive target or unequal totals.
    """
    _gather_targets(t, row_sums, col_sums, first, last)
    _equalize_totals(t)
    invert_targets(t)


@jit(inner=True, borrows=True)
def _gather_lines(S, k, n, lines, first, last):
    """Copy `n` values of each matrix from `first` to `last` into SIMD lines from line `k` on, a matrix in each lane."""
    for i in range(n):
        if lines.step == 0:
            store(S, k + i, splat(lines.values[0, i]))
        else:
            for w in range(LANES):
                S[k + i, w] = lines.values[min(first + w, last), i]


@jit(inner=True, borrows=True)
def _equalize_totals(t):
    """Scale the column targets of the input to the total of the row targets.

    Mark lanes whose targets need a closer check.
    """
    S = t.S
    U = splat(0.0)
    V = splat(0.0)
    good = U == 0.0
    for k in range(t.u, t.u + t.R):
        U = U + load(S, k)
        good = good & (load(S, k) > 0.0)
    for k in range(t.v, t.v + t.C):
        V = V + load(S, k)
        good = good & (load(S, k) > 0.0)
    larger = where(U > V, U, V)
    good = good & (U > 0.0) & (larger < np.inf) & (absolute(U - V) <= larger * TOTALS_RTOL)
    store(S, line.UNUSUAL_TARGETS, where(good, 0.0, splat(1.0)))
    given, other = (V, U) if t.flip else (U, V)
    store(S, line.MASS, given)
    ratio = where(good & (U != V), given / other, 1.0)
    changed, n = (t.u, t.R) if t.flip else (t.v, t.C)
    for k in range(changed, changed + n):
        store(S, k, load(S, k) * ratio)
