"""Tiles with unusual lanes: those without an answer, dropped classes, cells that span much, factors to start from."""

import math

import numpy as np

from cmfast.kernels.cpu._core.batches import flat_batch
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import fma, load, some, splat, store, where
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._tile import ADMIT, BAYES, BEGIN, LANES, LOOPS, NEAR, PARTS, example, fill, spell_out
from cmfast.kernels.cpu.scaling._tile_load import invert_targets
from cmfast.kernels.cpu.scaling._tile_range import bring_near, spans_much
from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.shared.scaling import Lines
from cmfast.kernels.status import INVALID, OK, ZERO_LINE


@PARTS.part(BAYES, lambda: (example(),), returns=None)
def shrink(t):
    """Smooth every lane by the rule of pseudo-Bayes; note by how much."""
    for w in range(LANES):
        if t.S[line.STATUS, w] == OK:
            t.S[line.AMOUNT, w] = _pseudo_bayes(t, w)


@jit(inner=True, borrows=True)
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


@PARTS.part(ADMIT, lambda: (PARTS.addresses, example(), False, False, False, False), returns=0)
def admit(parts, t, drop, pseudo_bayes, plain, straight):
    """Check and bring near what the tile was filled with; decide the lanes that have no answer.

    Return what is needed for that and not compiled yet, LOOPS where `straight` is set and straight-line code cannot do
    it, or 0.
    """
    S = t.S
    spell_out(t, straight)
    store(S, line.STATUS, where(load(S, line.GOOD) != 0.0, float(OK), splat(float(INVALID))))
    if pseudo_bayes:
        if parts[BAYES] == 0:
            return BAYES
        shrink(parts, t)
    for w in range(LANES):
        if S[line.STATUS, w] == OK and (S[line.ZEROS, w] != 0.0 or S[line.ODD, w] != 0.0):
            S[line.STATUS, w] = _decide(t, w, drop)
        if S[line.STATUS, w] != OK:
            _park(t, w)
        elif spans_much(t, w):
            if straight:
                return LOOPS
            if parts[NEAR] == 0:
                return NEAR
            bring_near(parts, t, w, plain)
        elif straight and drop and _has_zero_target(t, w):
            return LOOPS
    if not straight:
        invert_targets(t)
    return 0


@jit(inner=True, borrows=True)
def _has_zero_target(t, w):
    found = False
    for i in range(t.R):
        found = found or t.S[t.u + i, w] == 0.0
    return found


@jit(inner=True, borrows=True)
def _decide(t, w, drop):
    """Look closely at a lane with zero cells or unusual targets."""
    status = _check_lines(t, w, drop)
    return _check_totals(t, w) if status == OK else status


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
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
    S[line.MASS, w] = given if given > 0.0 else 1.0
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


@jit(inner=True, borrows=True)
def _survey_cells(t, w):
    """Note the range of the cells that are left."""
    S = t.S
    S[line.LOW, w], S[line.HIGH, w] = np.inf, 0.0
    for k in range(t.M, t.M + t.R * t.C):
        m = S[k, w]
        if m > 0.0:
            S[line.LOW, w] = min(S[line.LOW, w], m)
            S[line.HIGH, w] = max(S[line.HIGH, w], m)


@jit(inner=True, borrows=True)
def _park(t, w):
    """Put ones into a lane that has no answer: it costs nothing and divides by nothing."""
    S = t.S
    S[line.ACTIVE, w] = 0.0
    S[line.MASS, w] = 1.0
    fill(S, t.u, t.R, w, 1.0)
    fill(S, t.v, t.C, w, 1.0)
    fill(S, t.M, t.R * t.C, w, 1.0)


@PARTS.part(BEGIN, lambda: (example(), *2 * (Lines(flat_batch(np.ones(1), 1), 0),), 0, 0, False), returns=None)
def begin_from(t, start_row, start_col, first, last, paired):
    """Set the column factors to start from: the caller's, where these are positive and finite, else one.

    Later, with all lanes that can be `paired`, let the row factors follow from those that were given.
    """
    S, R, C = t.S, t.R, t.C
    if paired:
        _start_warm(t)
        return
    spell_out(t, False)
    rows, cols = start_row.values, start_col.values
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


@jit(inner=True, borrows=True)
def _start_warm(t):
    """Let the row factors follow from column factors that were given."""
    S, C = t.S, t.C
    warm = (load(S, line.PAIRED) != 0.0) & (load(S, line.WARM) != 0.0)
    if some(warm):
        for i in range(C):
            total = splat(0.0)
            for j in range(C):
                total = fma(load(S, t.M + i * C + j), load(S, t.y + j), total)
            u = load(S, t.u + i)
            store(S, t.x + i, where(warm, where(u > 0.0, u / total, 0.0), load(S, t.x + i)))


@jit(inner=True, borrows=True)
def _usable(factors, S, targets, order, w):
    """Whether the factors of the lines that are not dropped are positive and finite; `order` is -1 for rows."""
    for k in range(factors.shape[0]):
        factor = factors[k if order < 0 else int(S[order + k, w])]
        if S[targets + k, w] > 0.0 and not 0.0 < factor < np.inf:
            return False
    return True
