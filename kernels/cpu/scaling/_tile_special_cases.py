"""Special cases of a tile: infeasible lanes, dropped classes, pseudo-Bayes, equilibration, given initial factors."""

import math

import numpy as np

from cmfast.kernels.cpu._core.batches import flat_batch
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import fma, load, some, splat, store, where
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_equilibration import equilibrate_lane, needs_equilibration
from cmfast.kernels.cpu.scaling._tile_load import invert_targets
from cmfast.kernels.cpu.scaling._tile_workspace import (
    CHECK_INPUT,
    EQUILIBRATE,
    INITIAL_FACTORS,
    LANES,
    LOOPS,
    PARTS,
    PSEUDO_BAYES,
    fill_lane,
    make_example_tile,
    write_defaults,
)
from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.shared.scaling import Lines
from cmfast.kernels.status import INVALID, OK, ZERO_LINE


@PARTS.part(PSEUDO_BAYES, lambda: (make_example_tile(),), returns=None)
def smooth_pseudo_bayes(t):
    """Smooth every valid lane by the pseudo-Bayes rule, in place; store the strength of the prior."""
    for w in range(LANES):
        if t.S[line.STATUS, w] == OK:
            t.S[line.SMOOTHING, w] = _apply_pseudo_bayes(t, w)


@jit(inner=True, borrows=True)
def _apply_pseudo_bayes(t, w):
    """Pull the cells of lane `w` towards independence (pseudo-Bayes of Bishop, Fienberg, Holland).

    Return the prior's strength.
    """
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


@PARTS.part(CHECK_INPUT, lambda: (PARTS.addresses, make_example_tile(), False, False, False, False), returns=0)
def check_and_equilibrate(parts, t, drop, pseudo_bayes, plain, straight):
    """Check the cells and targets of a tile, set the status of infeasible lanes and equilibrate wide-ranging ones.

    Return the part that is not compiled yet, LOOPS where the unrolled kernel (`straight`) cannot handle a lane, or 0.
    """
    S = t.S
    write_defaults(t, straight)
    store(S, line.STATUS, where(load(S, line.VALID) != 0.0, float(OK), splat(float(INVALID))))
    if pseudo_bayes:
        if parts[PSEUDO_BAYES] == 0:
            return PSEUDO_BAYES
        smooth_pseudo_bayes(parts, t)
    for w in range(LANES):
        if S[line.STATUS, w] == OK and (S[line.ZEROS, w] != 0.0 or S[line.UNUSUAL_TARGETS, w] != 0.0):
            S[line.STATUS, w] = _check_targets(t, w, drop)
        if S[line.STATUS, w] != OK:
            _deactivate_lane(t, w)
        elif needs_equilibration(t, w):
            if straight:
                return LOOPS
            if parts[EQUILIBRATE] == 0:
                return EQUILIBRATE
            equilibrate_lane(parts, t, w, plain)
        elif straight and drop and _has_zero_target(t, w):
            return LOOPS
    if not straight:
        invert_targets(t)
    return 0


@jit(inner=True, borrows=True)
def _has_zero_target(t, w):
    """Test whether a row target of lane `w` is zero."""
    found = False
    for i in range(t.R):
        found = found or t.S[t.u + i, w] == 0.0
    return found


@jit(inner=True, borrows=True)
def _check_targets(t, w, drop):
    """Return the status of lane `w`, which has zero cells or unusual targets: OK or the code of its failure."""
    status = _check_lines(t, w, drop)
    return _check_totals(t, w) if status == OK else status


@jit(inner=True, borrows=True)
def _sum_lines(t, w):
    """Store the row sums of lane `w` in `off` and the column sums in `col`; return the total."""
    S, R, C = t.S, t.R, t.C
    fill_lane(S, t.off, R, w, 0.0)
    fill_lane(S, t.col, C, w, 0.0)
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
    """Set the targets of empty classes to zero if `drop`.

    Return INVALID where a target is negative, infinite or NaN.
    """
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
    """Equalise the totals of unusual targets, clear dropped rows and columns.

    Return ZERO_LINE where a positive target has no cell. Those of other targets are equal since `load_targets`, but for
    rounding; to scale them once more would make the results depend on the other lanes.
    """
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
    if U != V and S[line.UNUSUAL_TARGETS, w] != 0.0:
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
        _measure_cell_range(t, w)
    for i in range(R):
        if S[t.u + i, w] > 0.0 and S[t.off + i, w] == 0.0:
            return ZERO_LINE
    for j in range(C):
        if S[t.v + j, w] > 0.0 and S[t.col + j, w] == 0.0:
            return ZERO_LINE
    return OK


@jit(inner=True, borrows=True)
def _measure_cell_range(t, w):
    """Store the smallest and largest positive cell of lane `w`, after dropping."""
    S = t.S
    S[line.LOW, w], S[line.HIGH, w] = np.inf, 0.0
    for k in range(t.M, t.M + t.R * t.C):
        m = S[k, w]
        if m > 0.0:
            S[line.LOW, w] = min(S[line.LOW, w], m)
            S[line.HIGH, w] = max(S[line.HIGH, w], m)


@jit(inner=True, borrows=True)
def _deactivate_lane(t, w):
    """Deactivate lane `w`, which has no solution: ones everywhere keep its arithmetic finite."""
    S = t.S
    S[line.ACTIVE, w] = 0.0
    S[line.MASS, w] = 1.0
    fill_lane(S, t.u, t.R, w, 1.0)
    fill_lane(S, t.v, t.C, w, 1.0)
    fill_lane(S, t.M, t.R * t.C, w, 1.0)


@PARTS.part(
    INITIAL_FACTORS,
    lambda: (make_example_tile(), *2 * (Lines(flat_batch(np.ones(1), 1), 0),), 0, 0, False),
    returns=None,
)
def set_initial_factors(t, start_row, start_col, first, last, paired):
    """Set the initial column factors from the caller's factors where these are positive and finite, else to one.

    With `paired`, later: compute the row factors of warm, paired lanes from their column factors.
    """
    S, R, C = t.S, t.R, t.C
    if paired:
        _compute_warm_row_factors(t)
        return
    write_defaults(t, False)
    rows, cols = start_row.values, start_col.values
    for w in range(LANES):
        if S[line.PAIRING_KNOWN, w] == 0.0:
            for j in range(C):
                S[t.y + j, w] = math.ldexp(1.0, int(S[t.col_power + j, w]))
        if S[line.STATUS, w] != OK:
            continue
        b = min(first + w, last)
        row, col = b * start_row.step, b * start_col.step
        if cols.shape[1] > 0 and _has_usable_factors(cols[col], S, t.v, t.order, w):
            S[line.WARM, w] = 1.0
            for j in range(C):
                given = cols[col, int(S[t.order + j, w])]
                S[t.y + j, w] = math.ldexp(given, int(S[t.col_power + j, w]))
        elif rows.shape[1] > 0 and _has_usable_factors(rows[row], S, t.u, -1, w):
            S[line.WARM, w] = 1.0
            for j in range(C):
                c = 0.0
                for i in range(R):
                    if S[t.u + i, w] > 0.0:
                        x = math.ldexp(rows[row, i], int(S[t.row_power + i, w]))
                        c += x * S[t.M + i * C + j, w]
                S[t.y + j, w] = S[t.v + j, w] / c if S[t.v + j, w] > 0.0 else 1.0


@jit(inner=True, borrows=True)
def _compute_warm_row_factors(t):
    """Compute x = u / (M y) for the paired lanes that start from given factors."""
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
def _has_usable_factors(factors, S, targets, order, w):
    """Test whether the given factors of all lines that are not dropped are positive and finite.

    `order` is -1 for rows.
    """
    for k in range(factors.shape[0]):
        factor = factors[k if order < 0 else int(S[order + k, w])]
        if S[targets + k, w] > 0.0 and not 0.0 < factor < np.inf:
            return False
    return True
