"""How a tile is filled: eight matrices, their targets and first factors, and which of them have no answer."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, load, load_block, load_narrow, some, splat, store, where
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._rules import compare_totals
from cmfast.kernels.cpu.scaling._tile import LANES, fill, written_out
from cmfast.kernels.cpu.scaling._tile_range import bring_near, spans_much
from cmfast.kernels.shared.scaling import NORMAL, PAIRED_SWEEPS, SPAN, TOTALS_RTOL, WIDE
from cmfast.kernels.status import INVALID, OK, ZERO_LINE


@jit(inner=True)
def gather(t, cells, step, row_sums, col_sums, first, last):
    """Fill the tile with the matrices from `first` on, cells in one axis, and their targets.

    Lanes past `last` repeat it.
    """
    S = t.S
    take_cells(t, None, cells, places(first, last, step))
    _gather_targets(t, row_sums, col_sums, first, last)
    for j in range(t.C):
        store(S, t.order + j, splat(float(j)))
        store(S, t.col_power + j, splat(0.0))
    for i in range(t.R):
        store(S, t.row_power + i, splat(0.0))
    for k in (line.N_ITER, line.MOVED, line.FAR, line.REST, line.CHOSEN):
        store(S, k, splat(0.0))
    store(S, line.RESIDUAL, splat(np.inf))
    store(S, line.ACTIVE, splat(1.0))


@jit(inner=True, inline=True)
def places(first, last, step):
    """Return where the matrices from `first` on stand; past `last` it is repeated."""
    return (
        first * step,
        min(first + 1, last) * step,
        min(first + 2, last) * step,
        min(first + 3, last) * step,
        min(first + 4, last) * step,
        min(first + 5, last) * step,
        min(first + 6, last) * step,
        min(first + 7, last) * step,
    )


@written_out("M", line.LOW, line.HIGH, line.GOOD)
@jit(inner=True)
def take_cells(t, M, rows):
    """Copy the cells and add the smoothing; note their range, and which lanes have NaN, infinite or negative ones."""
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
    amount = load(S, line.AMOUNT)
    low, high, total = splat(np.inf), splat(0.0), splat(0.0)
    low_odd, high_odd, total_odd = low, high, total
    last = t.M + cells - 1
    for k in range(t.M, last, 2):  # in two chains, as each waits for the one before
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
    store(S, line.GOOD, where((total <= np.inf) & (low >= 0.0) & (high < np.inf), 1.0, splat(0.0)))


@jit(inner=True)
def find_zeros(t):
    """Note which lanes have cells that are zero, and the smallest of the others; return whether any has."""
    S = t.S
    zero = load(S, line.LOW) == 0.0
    store(S, line.ZEROS, where(zero, 1.0, splat(0.0)))
    if some(zero):
        low = splat(np.inf)
        for k in range(t.M, t.M + t.R * t.C):
            m = load(S, k)
            low = where((m > 0.0) & (m < low), m, low)
        store(S, line.LOW, low)
        return True
    return False


@jit(inner=True)
def prepare(t, drop, pseudo_bayes, plain):
    """Check and bring near what the tile was filled with; decide the lanes that have no answer."""
    S = t.S
    find_zeros(t)
    store(S, line.STATUS, where(load(S, line.GOOD) != 0.0, float(OK), splat(float(INVALID))))
    if pseudo_bayes:
        for w in range(LANES):
            if S[line.STATUS, w] == OK:
                S[line.AMOUNT, w] = _pseudo_bayes(t, w)
    _survey_targets(t)
    if some((load(S, line.STATUS) != OK) | (load(S, line.ZEROS) != 0.0) | (load(S, line.ODD) != 0.0) | ~_narrow(t)):
        for w in range(LANES):
            if S[line.STATUS, w] == OK and (S[line.ZEROS, w] != 0.0 or S[line.ODD, w] != 0.0):
                S[line.STATUS, w] = _decide(t, w, drop)
            if S[line.STATUS, w] != OK:
                _park(t, w)
            elif spans_much(t, w):
                bring_near(t, w, plain)
    _invert_targets(t)


@jit(inner=True)
def is_regular(t):
    """Whether no lane has odd targets, bad cells, empty lines or cells that need to be brought nearer."""
    S = t.S
    if some((load(S, line.GOOD) == 0.0) | (load(S, line.ODD) != 0.0)):
        return False
    if find_zeros(t) and not _lines_are_positive(t):
        return False
    return not some(~_narrow(t))


@jit(inner=True)
def begin_regular(t):
    """Set what changes while a tile is solved."""
    S = t.S
    for k in (line.WARM, line.FAR):
        store(S, k, splat(0.0))
    for k in (line.RHO, line.RHO_BEFORE, line.RESIDUAL):
        store(S, k, splat(np.inf))
    store(S, line.STATUS, splat(float(OK)))
    store(S, line.ACTIVE, splat(1.0))
    store(S, line.N_ITER, splat(float(PAIRED_SWEEPS)))


@jit(inner=True)
def _narrow(t):
    """Return the lanes whose cells need not be brought nearer, if their diagonal dominates or not."""
    low, high = load(t.S, line.LOW), load(t.S, line.HIGH)
    return (low >= 1.0 / WIDE) & (high <= WIDE) & (high <= SPAN * low)


@jit(inner=True)
def _lines_are_positive(t):
    """Whether every row and every column of every lane has a positive cell."""
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


@jit(inner=True)
def _invert_targets(t):
    S = t.S
    for i in range(t.R):
        u = load(S, t.u + i)
        store(S, t.inverse + i, where(u > 0.0, 1.0 / where(u > NORMAL, u, NORMAL), 0.0))


@jit(inner=True)
def _gather_targets(t, row_sums, col_sums, first, last):
    _gather_lines(t.S, t.u, t.R, row_sums, first, last)
    _gather_lines(t.S, t.v, t.C, col_sums, first, last)


@jit(inner=True)
def _ones_are_known(t, row_sums, col_sums, first, last):
    store(t.S, line.ODD, splat(0.0))


@written_out(line.ODD, source=_ones_are_known)
@jit(inner=True)
def take_targets(t, row_sums, col_sums, first, last):
    """Copy the targets and make their totals equal; note where one is not positive, or they are too far apart."""
    _gather_targets(t, row_sums, col_sums, first, last)
    _survey_targets(t)
    _invert_targets(t)


@jit(inner=True)
def _gather_lines(S, k, n, lines, first, last):
    for i in range(n):
        if lines.step == 0:
            store(S, k + i, splat(lines.values[0, i]))
        else:
            for w in range(LANES):
                S[k + i, w] = lines.values[min(first + w, last), i]


@jit(inner=True)
def _survey_targets(t):
    """Make the totals equal by changing the column targets of the input; mark unusual lanes as odd."""
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
    store(S, line.ODD, where(good, 0.0, splat(1.0)))
    given, other = (V, U) if t.flip else (U, V)
    store(S, line.TOTAL, given)
    ratio = where(good & (U != V), given / other, 1.0)
    changed, n = (t.u, t.R) if t.flip else (t.v, t.C)
    for k in range(changed, changed + n):
        store(S, k, load(S, k) * ratio)


@jit(inner=True)
def _decide(t, w, drop):
    """Look closely at a lane with zero cells or unusual targets."""
    status = _check_lines(t, w, drop)
    return _check_totals(t, w) if status == OK else status


@jit(inner=True)
def _sum_lines(t, w):
    """Leave the sums of the rows in `off` and of the columns in `col`; return that of all."""
    S, R, C = t.S, t.R, t.C
    fill(S, t.off, R, w, 0.0)
    fill(S, t.col, C, w, 0.0)
    total = 0.0
    for i in range(R):
        for j in range(C):
            m = S[t.M + i * C + j, w]
            S[t.off + i, w] += m
            S[t.col + j, w] += m
            total += m
    return total


@jit(inner=True)
def _pseudo_bayes(t, w):
    """Bishop, Fienberg, Holland: pull the cells towards independence with a weight the data choose; return it."""
    S, R, C = t.S, t.R, t.C
    if S[line.HIGH, w] == 0.0:
        return 0.0
    scale = math.ldexp(1.0, math.frexp(S[line.HIGH, w])[1] - 1)  # squares stay in range; dividing is exact
    for k in range(t.M, t.M + R * C):
        S[k, w] /= scale
    N = _sum_lines(t, w)
    squares = 0.0
    gap = 0.0
    for i in range(R):
        for j in range(C):
            m = S[t.M + i * C + j, w]
            e = S[t.off + i, w] * S[t.col + j, w] / N - m
            squares += m * m
            gap += e * e
    strength = (N * N - squares) / gap if gap > 0.0 else np.inf
    weight = strength / (N * scale + strength) if strength < np.inf else 1.0
    S[line.LOW, w] = np.inf
    S[line.ZEROS, w] = 0.0
    for i in range(R):
        for j in range(C):
            e = S[t.off + i, w] * S[t.col + j, w] / N * scale
            m = (1.0 - weight) * (S[t.M + i * C + j, w] * scale) + weight * e
            S[t.M + i * C + j, w] = m
            if m > 0.0:
                S[line.LOW, w] = min(S[line.LOW, w], m)
            else:
                S[line.ZEROS, w] = 1.0
    return strength


@jit(inner=True)
def _check_lines(t, w, drop):
    """Set the targets of dropped lines to zero; refuse bad ones."""
    S, R, C = t.S, t.R, t.C
    _sum_lines(t, w)
    if drop:
        for i in range(R):
            if S[t.off + i, w] == 0.0 and S[t.col + i, w] == 0.0:
                S[t.u + i, w] = 0.0
                S[t.v + i, w] = 0.0
    for i in range(R):
        if not 0.0 <= S[t.u + i, w] < np.inf:
            return INVALID
    for j in range(C):
        if not 0.0 <= S[t.v + j, w] < np.inf:
            return INVALID
    return OK


@jit(inner=True)
def _check_totals(t, w):
    """Make the totals equal by changing the column targets of the input, clear dropped lines, look for empty ones."""
    S, R, C = t.S, t.R, t.C
    U = 0.0
    V = 0.0
    dropped = False
    for i in range(R):
        U += S[t.u + i, w]
        dropped = dropped or S[t.u + i, w] == 0.0
    for j in range(C):
        V += S[t.v + j, w]
        dropped = dropped or S[t.v + j, w] == 0.0
    status = compare_totals(U, V)
    if status != OK:
        return status
    given = V if t.flip else U
    S[line.TOTAL, w] = given if given > 0.0 else 1.0
    if U != V:
        for i in range(R):
            S[t.u + i, w] *= given / U
        for j in range(C):
            S[t.v + j, w] *= given / V
    if dropped:
        for i in range(R):
            for j in range(C):
                if S[t.u + i, w] == 0.0 or S[t.v + j, w] == 0.0:
                    S[t.M + i * C + j, w] = 0.0
        _sum_lines(t, w)
        _survey_cells(t, w)
    for i in range(R):
        if S[t.u + i, w] > 0.0 and S[t.off + i, w] == 0.0:
            return ZERO_LINE
    for j in range(C):
        if S[t.v + j, w] > 0.0 and S[t.col + j, w] == 0.0:
            return ZERO_LINE
    return OK


@jit(inner=True)
def _survey_cells(t, w):
    """Note the range of the cells that are left."""
    S = t.S
    S[line.LOW, w], S[line.HIGH, w] = np.inf, 0.0
    for k in range(t.M, t.M + t.R * t.C):
        m = S[k, w]
        if m > 0.0:
            S[line.LOW, w] = min(S[line.LOW, w], m)
            S[line.HIGH, w] = max(S[line.HIGH, w], m)


@jit(inner=True)
def _park(t, w):
    """Put ones into a lane that has no answer: it costs nothing and divides by nothing."""
    S = t.S
    S[line.ACTIVE, w] = 0.0
    S[line.TOTAL, w] = 1.0
    fill(S, t.u, t.R, w, 1.0)
    fill(S, t.v, t.C, w, 1.0)
    fill(S, t.M, t.R * t.C, w, 1.0)


@jit(inner=True)
def begin(t, start_row, start_col, first, last):
    """Set the column factors to start from: the caller's, where these are positive and finite, else one."""
    S, R, C = t.S, t.R, t.C
    for j in range(C):
        store(S, t.y + j, splat(1.0))
    store(S, line.WARM, splat(0.0))
    rows, cols = start_row.values, start_col.values
    if rows.shape[1] == 0 and cols.shape[1] == 0 and not some(load(S, line.FAR) != 0.0):
        return
    for w in range(LANES):
        if S[line.CHOSEN, w] == 0.0:
            for j in range(C):
                S[t.y + j, w] = math.ldexp(1.0, int(S[t.col_power + j, w]))
        if S[line.STATUS, w] != OK:
            continue
        b = min(first + w, last)
        row, col = b * start_row.step, b * start_col.step
        if cols.shape[1] > 0 and _usable(cols[col], S, t.v, t.order, w):
            S[line.WARM, w] = 1.0
            for j in range(C):
                given = cols[col, int(S[t.order + j, w])]
                S[t.y + j, w] = math.ldexp(given, int(S[t.col_power + j, w]))
        elif rows.shape[1] > 0 and _usable(rows[row], S, t.u, -1, w):
            S[line.WARM, w] = 1.0
            for j in range(C):
                c = 0.0
                for i in range(R):
                    if S[t.u + i, w] > 0.0:
                        x = math.ldexp(rows[row, i], int(S[t.row_power + i, w]))
                        c += x * S[t.M + i * C + j, w]
                S[t.y + j, w] = S[t.v + j, w] / c if S[t.v + j, w] > 0.0 else 1.0


@jit(inner=True)
def _usable(factors, S, targets, order, w):
    """Whether the factors of the lines that are not dropped are positive and finite; `order` is -1 for rows."""
    for k in range(factors.shape[0]):
        factor = factors[k if order < 0 else int(S[order + k, w])]
        if S[targets + k, w] > 0.0 and not 0.0 < factor < np.inf:
            return False
    return True
