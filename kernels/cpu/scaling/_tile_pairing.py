"""Start of Newton's method in a tile: pair each row with a column, and compute initial factors from the pairs."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import absolute, fma, load, some, splat, sqrt, store, where
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_equilibration import permute_lane
from cmfast.kernels.cpu.scaling._tile_sinkhorn import sweep
from cmfast.kernels.cpu.scaling._tile_workspace import (
    LANES,
    PAIR,
    PARTS,
    fill_lane,
    make_example_tile,
    unroll_unit_targets,
    write_defaults,
)
from cmfast.kernels.shared.scaling import (
    COLUMNS_PER_STEP,
    FAST_COLUMNS,
    FURTHER_SWEEPS,
    MOST_PAIRED_SWEEPS,
    MOST_RELAXATION,
    MOST_SAVED_STEPS,
    ONE_STEP_WIDTH,
    PAIRED_SWEEPS,
    PLAIN_SWEEPS,
    TWO_STEPS_WIDTH,
)

# Columns up to which all lanes are permuted together by SIMD selects, C**2 of them for each row.
MAX_LANE_COLUMNS = 16


@unroll_unit_targets(line.PAIRED)
@jit(inner=True, borrows=True)
def pair_by_diagonal(t):
    """Mark lanes as paired whose diagonal dominates: m_ii m_jj > m_ij m_ji for all i, j that are not dropped."""
    S, C = t.S, t.C
    good = splat(0.0) == 0.0
    for i in range(C):
        m = load(S, t.M + i * C + i)
        there, dropped = load(S, t.u + i) > 0.0, load(S, t.u + i) == 0.0
        good = good & ((there & (load(S, t.v + i) > 0.0) & (m > 0.0)) | (dropped & (load(S, t.v + i) == 0.0)))
        for j in range(i):
            across = load(S, t.M + i * C + j) * load(S, t.M + j * C + i)
            good = good & ((m * load(S, t.M + j * C + j) > across) | dropped | (load(S, t.u + j) == 0.0))
    store(S, line.PAIRED, where(good, 1.0, splat(0.0)))


@PARTS.part(PAIR, lambda: (make_example_tile(), False, False), returns=None)
def pair_lanes(t, straight, back):
    """Pair rows with columns in lanes without a dominant diagonal, and permute the columns.

    `back` undoes the permutation.
    """
    S, C = t.S, t.C
    if back:
        _undo_permutation(t)
        return
    if straight:
        for j in range(C):
            store(S, t.y + j, splat(1.0))
    write_defaults(t, straight)
    active = load(S, line.ACTIVE)
    paired = load(S, line.PAIRED)
    chosen = load(S, line.PAIRING_KNOWN)
    paired = where(chosen != 0.0, chosen, paired)
    store(S, line.PAIRED, paired)
    if some((paired == 0.0) & (active != 0.0)):
        for _ in range(PLAIN_SWEEPS):
            sweep(t, paired == 0.0)
        store(S, line.N_ITER, load(S, line.N_ITER) + where(paired == 0.0, active * PLAIN_SWEEPS, 0.0))
        if not _pair_all_lanes(t):
            for w in range(LANES):
                if S[line.PAIRED, w] == 0.0 and S[line.ACTIVE, w] != 0.0:
                    _pair_by_search(t, w)


@jit(inner=True, borrows=True)
def _pair_all_lanes(t):
    """Pair each row with its largest scaled cell in all lanes at the same time.

    Return False where columns are many or dropped.
    """
    S, C = t.S, t.C
    dropped = splat(0.0) != 0.0
    for i in range(C):
        dropped = dropped | (load(S, t.u + i) == 0.0)
    if C > MAX_LANE_COLUMNS or some(dropped):
        return False
    wanted = (load(S, line.PAIRED) == 0.0) & (load(S, line.ACTIVE) != 0.0)
    distinct, positive = wanted, wanted
    for j in range(C):
        store(S, t.p + j, splat(0.0))
    for i in range(C):
        row = t.M + i * C
        best, most = splat(0.0), load(S, row) * load(S, t.y)
        for j in range(1, C):
            cell = load(S, row + j) * load(S, t.y + j)
            best, most = where(cell > most, float(j), best), where(cell > most, cell, most)
        for j in range(C):
            hit = best == float(j)
            distinct = distinct & ~(hit & (load(S, t.p + j) != 0.0))
            store(S, t.p + j, where(hit, 1.0, load(S, t.p + j)))
        store(S, t.r + i, best)
        positive = positive & ~(load(S, row + i) == 0.0)
    for i in range(C):
        store(S, t.order + i, where(distinct, load(S, t.r + i), load(S, t.order + i)))
        store(S, t.r + i, where(distinct, load(S, t.r + i), float(i)))
    store(S, line.PERMUTED, where(distinct, 1.0, load(S, line.PERMUTED)))
    store(S, line.PAIRED, where(distinct | positive, 1.0, load(S, line.PAIRED)))
    if some(distinct):
        _permute_all_lanes(t)
    return True


@jit(inner=True, borrows=True)
def _permute_all_lanes(t):
    """Move column ``r[j]`` to position j in every lane, in cells, targets, factors and powers."""
    for i in range(t.R):
        _permute_lines(t, t.M + i * t.C)
        _permute_lines(t, t.P + i * t.C)
    for k in (t.v, t.col_inverse, t.y, t.col_power):
        _permute_lines(t, k)


@jit(inner=True, borrows=True)
def _permute_lines(t, k):
    """Permute C SIMD lines from line `k` on by `r`, each lane by its own permutation, in place."""
    S, C = t.S, t.C
    for j in range(C):
        place, found = load(S, t.r + j), load(S, k)
        for other in range(1, C):
            found = where(place == float(other), load(S, k + other), found)
        store(S, t.p + j, found)
    for j in range(C):
        store(S, k + j, load(S, t.p + j))


@jit(inner=True, borrows=True)
def _undo_permutation(t):
    """Move every column of the matrices of a tile back to its input position, with target and factor, in place."""
    S, C = t.S, t.C
    if C <= MAX_LANE_COLUMNS:
        moved = load(S, line.PERMUTED) != 0.0
        for j in range(C):
            found = splat(float(j))
            for other in range(C):
                found = where(moved & (load(S, t.order + other) == float(j)), float(other), found)
            store(S, t.r + j, found)
        for j in range(C):
            store(S, t.order + j, load(S, t.r + j))
        _permute_all_lanes(t)
        return
    for w in range(LANES):
        if S[line.PERMUTED, w] != 0.0:
            for j in range(C):
                S[t.r + np.int64(S[t.order + j, w]), w] = j
            for j in range(C):
                S[t.order + j, w] = S[t.r + j, w]
            permute_lane(t, w)


@jit(inner=True, borrows=True)
def _pair_by_search(t, w):
    """Pair each row of lane `w` with its largest scaled cell if all columns are distinct, else by the diagonal."""
    S, C = t.S, t.C
    fill_lane(S, t.p, C, w, -1.0)
    distinct = True
    for i in range(C):
        if S[t.u + i, w] == 0.0:
            continue
        row = t.M + i * C
        best = 0
        for j in range(C):
            if S[row + j, w] * S[t.y + j, w] > S[row + best, w] * S[t.y + best, w]:
                best = j
        distinct = distinct and S[t.p + best, w] < 0.0
        S[t.p + best, w] = i
    if distinct:
        i = 0
        for j in range(C):  # unpaired columns must be dropped, and are paired with dropped rows
            if S[t.p + j, w] < 0.0:
                while i < C and S[t.u + i, w] > 0.0:
                    i += 1
                distinct = distinct and S[t.v + j, w] == 0.0
                S[t.p + j, w] = i
                i += 1
    if distinct:
        S[line.PAIRED, w] = 1.0
        S[line.PERMUTED, w] = 1.0
        for j in range(C):
            S[t.order + np.int64(S[t.p + j, w]), w] = j
        permute_lane(t, w)
        return
    for i in range(C):
        zero = S[t.u + i, w] == 0.0
        if zero != (S[t.v + i, w] == 0.0) or (not zero and S[t.M + i * C + i, w] == 0.0):
            return
    S[line.PAIRED, w] = 1.0


@jit(inner=True, borrows=True)
def start_with_sweeps(t):
    """Compute initial factors of rectangular matrices by a few Sinkhorn sweeps; no lane is paired."""
    S = t.S
    store(S, line.PAIRED, splat(0.0))
    for _ in range(PLAIN_SWEEPS):
        sweep(t, splat(0.0) == 0.0)
    store(S, line.N_ITER, load(S, line.N_ITER) + load(S, line.ACTIVE) * PLAIN_SWEEPS)


@unroll_unit_targets("x", "y")
@jit(inner=True, borrows=True)
def start_paired(t):
    """Set the factors that balance the paired cells alone, x_i = sqrt(u_i / m_ii); given column factors are kept."""
    S, C = t.S, t.C
    paired = load(S, line.PAIRED) != 0.0
    cold = load(S, line.WARM) == 0.0
    for i in range(C):
        u, v = load(S, t.u + i), load(S, t.v + i)
        m = load(S, t.M + i * C + i)
        positive = (u > 0.0) & (m > 0.0) & paired
        x = sqrt(u / m)
        store(S, t.x + i, where(positive, x, 0.0))
        store(S, t.y + i, where(positive & cold, where(u == v, x, sqrt(v / m)), load(S, t.y + i)))


@unroll_unit_targets("x", "y")
@jit(inner=True, borrows=True)
def sweep_pairs(t):
    """Solve each row i and column i jointly and exactly, in turn, in place.

    Balances flows that single-row updates miss.
    """
    S, C = t.S, t.C
    paired = load(S, line.PAIRED) != 0.0
    for k in range(PAIRED_SWEEPS * C):
        i = k % C
        x, y = _balance_pair(t, i, _sum_unpaired_cells(t, i))
        # Unpaired lanes, dropped classes and underflows keep their factors.
        good = (x > 0.0) & (x < np.inf) & (y > 0.0) & (y < np.inf) & paired
        store(S, t.x + i, where(good, x, load(S, t.x + i)))
        store(S, t.y + i, where(good, y, load(S, t.y + i)))


@jit(inner=True, borrows=True)
def sweep_pairs_further(t, target):
    """Go on with such sweeps where columns are many, since together they save a step of Newton's method or more.

    `target` is the residual that counts as converged.
    """
    if t.C >= FAST_COLUMNS:
        _sweep_pairs_while_fast(t, target)
        return
    swept = load(t.S, line.PAIRED) * load(t.S, line.ACTIVE)
    for _ in range(0, FURTHER_SWEEPS, PAIRED_SWEEPS):
        sweep_pairs(t, None)
        store(t.S, line.N_ITER, fma(swept, float(PAIRED_SWEEPS), load(t.S, line.N_ITER)))


@jit(inner=True, borrows=True)
def _sweep_pairs_while_fast(t, target):
    """Run over-relaxed sweeps in lanes where they cost less than the steps of Newton's method that they save."""
    S = t.S
    sweeping = (load(S, line.PAIRED) != 0.0) & (load(S, line.ACTIVE) != 0.0)
    relaxation, width = splat(1.0), splat(np.inf)
    for k in range(PAIRED_SWEEPS, MOST_PAIRED_SWEEPS):
        before = width
        width = _relax_pairs(t, sweeping, relaxation)
        store(S, line.N_ITER, load(S, line.N_ITER) + where(sweeping, 1.0, splat(0.0)))
        if k == PAIRED_SWEEPS:
            continue
        rate = width / before
        if k == PAIRED_SWEEPS + 1:  # Young's optimal relaxation where plain sweeps converge at this rate
            relaxation = 2.0 / (1.0 + sqrt(1.0 - where(rate < 1.0, rate, 1.0)))
            relaxation = where(relaxation < MOST_RELAXATION, relaxation, MOST_RELAXATION)
        sweeping = sweeping & _find_lanes_to_sweep(width, rate, target, t.C // COLUMNS_PER_STEP)
        if not some(sweeping):
            return


@jit(inner=True, borrows=True)
def _find_lanes_to_sweep(width, rate, target, step):
    """Return the lanes for which further sweeps cost less than the steps of Newton's method that they save.

    `width` is the change of the last sweep, `rate` that over the one before; `step` sweeps cost as much as a step.
    """
    now = _count_newton_steps(width, rate, target) * float(step)
    soon, pays = width, now < 0.0
    for n in range(1, MOST_SAVED_STEPS * step):
        soon = soon * rate
        pays = pays | (_count_newton_steps(soon, rate, target) * float(step) + float(n) < now)
    return pays


@jit(inner=True, inline=True, borrows=True)
def _count_newton_steps(width, rate, target):
    """Return the number of steps that Newton's method takes after a sweep whose change is `width`."""
    more = where(width <= TWO_STEPS_WIDTH, 2.0, splat(float(MOST_SAVED_STEPS)))
    return where(width * rate <= target, splat(0.0), where(width <= ONE_STEP_WIDTH, 1.0, more))


@jit(inner=True, borrows=True)
def _relax_pairs(t, sweeping, relaxation):
    """Run one over-relaxed sweep over all pairs of the lanes `sweeping`, in place.

    Return the largest relative change of a factor that would balance a pair, infinite where one is lost.
    """
    whole = t.C - t.C % 2
    width = splat(0.0)
    for i in range(0, whole, 2):
        (a, b), (c, d) = _sum_cells_of_two(t, i)
        width = _relax_pair(t, i, (a, b), sweeping, relaxation, width)
        c = fma(load(t.S, t.M + (i + 1) * t.C + i), load(t.S, t.y + i), c)
        d = fma(load(t.S, t.M + i * t.C + i + 1), load(t.S, t.x + i), d)
        width = _relax_pair(t, i + 1, (c, d), sweeping, relaxation, width)
    if whole < t.C:
        width = _relax_pair(t, whole, _sum_unpaired_cells(t, whole), sweeping, relaxation, width)
    return width


@jit(inner=True, borrows=True)
def _relax_pair(t, i, sums, sweeping, relaxation, width):
    """Balance row i and column i, whose sums without the paired cell are given; return `width` or a larger change."""
    S = t.S
    x, y = load(S, t.x + i), load(S, t.y + i)
    x_balanced, y_balanced = _balance_pair(t, i, sums)
    dx, dy = x_balanced - x, y_balanced - y
    x_change, y_change = absolute(dx) / x, absolute(dy) / y
    change = where(x_change > y_change, x_change, y_change)
    good = (x_balanced > 0.0) & (y_balanced > 0.0) & (change < np.inf)
    width = where(change > width, change, width)
    width = where(good | ((x == 0.0) & (y == 0.0)), width, np.inf)  # a dropped class is no loss
    relaxed = good & sweeping
    # A factor that halves in one sweep is far from its limit; over-relaxed, it might change its sign.
    x_relaxed = where(x_balanced > 0.5 * x, fma(relaxation, dx, x), x_balanced)
    y_relaxed = where(y_balanced > 0.5 * y, fma(relaxation, dy, y), y_balanced)
    store(S, t.x + i, where(relaxed, x_relaxed, x))
    store(S, t.y + i, where(relaxed, y_relaxed, y))
    return width


@jit(inner=True, inline=True, borrows=True)
def _balance_pair(t, i, sums):
    """Return the factors x, y of row i and column i that balance both: x (m y + a) = u and y (m x + b) = v.

    The paired cell is m, the sums of the row and the column without it are a and b.
    """
    a, b = sums
    m, u, v = load(t.S, t.M + i * t.C + i), load(t.S, t.u + i), load(t.S, t.v + i)
    even = u == v
    ab = a * b
    surplus = m * (v - u)
    B = ab + surplus
    D = sqrt(fma(B, B, 4.0 * m * u * ab))
    share = (u + u) / (ab + D)
    x, y = b * share, a * share
    if some(~even):  # the form of each quotient is chosen by signs, so that nothing cancels
        other = ab - surplus
        x_odd = where(B >= 0.0, 2.0 * u * b, D - B) / where(B >= 0.0, B + D, 2.0 * m * a)
        y_odd = where(other >= 0.0, 2.0 * v * a, D - other) / where(other >= 0.0, other + D, 2.0 * m * b)
        x, y = where(even, x, x_odd), where(even, y, y_odd)
    return x, y


@jit(inner=True, inline=True, borrows=True)
def _sum_cells_of_two(t, i):
    """Return the sums of row and column i, and of row and column i + 1, without the four cells where they meet.

    Together they load every factor once instead of twice. The factors updated last are added last.
    """
    zero = splat(0.0)
    sums = _add_cells_of_two(t, i, i + 2, t.C, (zero, zero, zero, zero))
    a, b, c, d = _add_cells_of_two(t, i, 0, i, sums)
    S, upper = t.S, t.M + i * t.C + i
    a = fma(load(S, upper + 1), load(S, t.y + i + 1), a)
    b = fma(load(S, upper + t.C), load(S, t.x + i + 1), b)
    return (a, b), (c, d)


@jit(inner=True, inline=True, borrows=True)
def _add_cells_of_two(t, i, first, last, sums):
    """Add the cells of rows and columns i and i + 1 with the indices from `first` to before `last` to their sums."""
    S, C = t.S, t.C
    a, b, c, d = sums
    for j in range(first, last):
        x, y = load(S, t.x + j), load(S, t.y + j)
        a = fma(load(S, t.M + i * C + j), y, a)
        b = fma(load(S, t.M + j * C + i), x, b)
        c = fma(load(S, t.M + (i + 1) * C + j), y, c)
        d = fma(load(S, t.M + j * C + i + 1), x, d)
    return a, b, c, d


@jit(inner=True, inline=True, borrows=True)
def _sum_unpaired_cells(t, i):
    """Return the sums of row i and column i without their paired cell; the factors updated last are added last."""
    a, b, c, d = _add_cells(t, i, i + 1, t.C, (splat(0.0), splat(0.0), splat(0.0), splat(0.0)))
    a, b, c, d = _add_cells(t, i, 0, i, (a, b, c, d))
    return a + c, b + d


@jit(inner=True, inline=True, borrows=True)
def _add_cells(t, i, first, last, sums):
    """Add the cells of row i and column i with the indices from `first` to before `last` to two sums of each, in turn.

    Return the sums, those to which the next cells are to be added first.
    """
    S, C = t.S, t.C
    a, b, c, d = sums
    even = first + (last - first) // 2 * 2
    for j in range(first, even, 2):
        a = fma(load(S, t.M + i * C + j), load(S, t.y + j), a)
        b = fma(load(S, t.M + j * C + i), load(S, t.x + j), b)
        c = fma(load(S, t.M + i * C + j + 1), load(S, t.y + j + 1), c)
        d = fma(load(S, t.M + (j + 1) * C + i), load(S, t.x + j + 1), d)
    if even == last:
        return a, b, c, d
    a = fma(load(S, t.M + i * C + even), load(S, t.y + even), a)
    b = fma(load(S, t.M + even * C + i), load(S, t.x + even), b)
    return c, d, a, b
