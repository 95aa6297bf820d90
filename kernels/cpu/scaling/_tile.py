"""Eight matrices side by side, one a lane: nothing is ever added across lanes.

So small matrices fill whole vectors, and each lane sees the same operations in the same order whatever stands beside
it: the bits of a result do not depend on its neighbours, nor on how many there are.

Everything a tile holds lies in one array of lines of eight numbers; the fields of a tile say where. That is one
pointer for the compiler instead of forty, and small matrices stay in the first-level cache.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    absolute,
    load,
    load_block,
    some,
    splat,
    sqrt,
    store,
    store_block,
    where,
)
from cmfast.kernels.cpu.scaling._range_pairing import pair_and_balance
from cmfast.kernels.status import INVALID, MAX_ITER, OK, RANGE, TOTALS, ZERO_LINE

LANES = WIDTH
WIDE = 1e100  # entries outside [1/WIDE, WIDE] are brought nearer by powers of two
SPAN = 1e18  # ratio of two cells from which on rows and columns are paired in logarithms, but for a dominant diagonal
VAST = 1e30  # ratio from which on the start is balanced there too
TOTALS_RTOL = 1e-9
EQUILIBRATION_ROUNDS = 3
TINY = 1e-290


class Tile(NamedTuple):
    """The lines of eight matrices and their scratch. Axes: R rows, C columns; truth values are 1.0 and 0.0."""

    S: np.ndarray  # (lines, 8) all numbers
    R: int
    C: int
    M: int  # R C lines: matrices, after smoothing, dropping, powers of two and pairing
    Q: int  # R C: scaled cells over sqrt(u)
    W: int  # C C: weights of the graph on the columns, lower half
    F: int  # C C: flows between columns, antisymmetric, lower half
    u: int  # R: row targets
    v: int  # C: column targets
    x: int  # R: row factors
    y: int  # C: column factors
    root: int  # R: 1 / sqrt(u)
    off: int  # R: row sums of scaled cells, without the paired one
    col: int  # C: column sums, likewise
    diag: int  # C: the paired cells, scaled
    q: int  # C: sources
    d: int  # C: Newton step in log y
    p: int  # C: scratch of the elimination
    r: int  # C
    row_power: int  # R: M holds the input times 2 ** -(row_power + col_power)
    col_power: int  # C
    order: int  # C: column of the input at each place
    low: int  # 1: smallest positive cell
    high: int  # 1: largest cell
    total: int  # 1: mass
    amount: int  # 1: smoothing
    residual: int  # 1
    rho: int  # 1: width of the last step
    rho_before: int  # 1
    active: int  # 1: whether the lane moves
    paired: int  # 1: whether row i and column i belong together
    zeros: int  # 1: whether a cell is zero
    odd: int  # 1: whether a target is zero or bad or the totals disagree
    far: int  # 1: whether M holds powers of two
    rest: int  # 1: power of two that the gauge still has to move from one side to the other
    moved: int  # 1: whether `order` is not the identity
    chosen: int  # 1: whether the pairing was found already
    warm: int  # 1: whether the caller gave the factors to start from
    n_iter: int  # 1
    status: int  # 1


def count_lines(R, C, newton):
    """Return how many lines a tile takes; Q, W and F are there only where Newton's method needs them."""
    return R * C + (R * C + 2 * C * C if newton else 0) + 5 * R + 10 * C + 18


@jit(inner=True)
def tile(S, R, C, newton):
    """Return the tile that lies in `S`."""
    square, cube = (C * C, R * C) if newton else (0, 0)
    Q = R * C
    W = Q + cube
    F = W + square
    u = F + square
    v = u + R
    x = v + C
    y = x + R
    root = y + C
    off = root + R
    col = off + R
    diag = col + C
    q = diag + C
    d = q + C
    p = d + C
    r = p + C
    row_power = r + C
    col_power = row_power + R
    order = col_power + C
    k = order + C  # the single lines
    return Tile(
        S, R, C, 0, Q, W, F, u, v, x, y, root, off, col, diag, q, d, p, r, row_power, col_power,
        order, k, k + 1, k + 2, k + 3, k + 4, k + 5, k + 6, k + 7, k + 8, k + 9, k + 10, k + 11, k + 12, k + 13, k + 14,
        k + 15, k + 16, k + 17,
    )  # fmt: skip


@jit(inner=True)
def load_tile(t, M, m_step, row_sums, row_step, col_sums, col_step, first, last, flip, smoothing, drop, bi, plain):
    """Fill the tile with the matrices from `first` on, cells in one axis; decide the lanes that have no answer.

    Lanes past `last` repeat it.
    """
    S = t.S
    _gather_cells(t, M, m_step, first, last, flip)
    _gather_lines(S, t.u, t.R, row_sums, row_step, first, last)
    _gather_lines(S, t.v, t.C, col_sums, col_step, first, last)
    for j in range(t.C):
        store(S, t.order + j, splat(float(j)))
        store(S, t.col_power + j, splat(0.0))
    for i in range(t.R):
        store(S, t.row_power + i, splat(0.0))
    for k in (t.n_iter, t.moved, t.far, t.rest, t.chosen):
        store(S, k, splat(0.0))
    store(S, t.residual, splat(np.inf))
    store(S, t.active, splat(1.0))
    _smooth(t, smoothing)
    _survey_targets(t, flip)
    status = load(S, t.status)
    low, high = load(S, t.low), load(S, t.high)
    narrow = (low >= 1.0 / WIDE) & (high <= WIDE) & (high <= SPAN * low)
    if some((status != OK) | (load(S, t.zeros) != 0.0) | (load(S, t.odd) != 0.0) | ~narrow):
        for w in range(LANES):
            if S[t.status, w] == OK and (S[t.zeros, w] != 0.0 or S[t.odd, w] != 0.0):
                S[t.status, w] = _decide(t, w, flip, drop, bi)
            if S[t.status, w] != OK:
                _park(t, w)
            elif _spans_much(t, w):
                _bring_near(t, w, plain)
    for i in range(t.R):
        u = load(S, t.u + i)
        store(S, t.root + i, where(u > 0.0, 1.0 / sqrt(u), 0.0))


@jit(inner=True)
def _gather_cells(t, M, step, first, last, flip):
    """Copy the cells; note which lanes have NaN, infinite, negative or zero cells, and the range of the others."""
    S, R, C = t.S, t.R, t.C
    rows = (
        first * step,
        min(first + 1, last) * step,
        min(first + 2, last) * step,
        min(first + 3, last) * step,
        min(first + 4, last) * step,
        min(first + 5, last) * step,
        min(first + 6, last) * step,
        min(first + 7, last) * step,
    )
    cells = R * C
    if flip or cells < LANES:
        row_stride, col_stride = (1, R) if flip else (C, 1)
        for i in range(R):
            for j in range(C):
                c = i * row_stride + j * col_stride
                for w in range(LANES):
                    S[t.M + i * C + j, w] = M[rows[w], c]
    else:
        for k in range(0, cells, LANES):
            c = min(k, cells - LANES)  # the last block overlaps the one before
            load_block(S, t.M + c, M, rows, c)
    good = splat(0.0) == 0.0
    zero = ~good
    low = splat(np.inf)
    high = splat(0.0)
    for k in range(t.M, t.M + cells):
        m = load(S, k)
        good = good & (m >= 0.0) & (m < np.inf)
        zero = zero | (m == 0.0)
        low = where((m > 0.0) & (m < low), m, low)
        high = where(m > high, m, high)
    store(S, t.low, low)
    store(S, t.high, high)
    store(S, t.zeros, where(zero, 1.0, splat(0.0)))
    store(S, t.status, where(good, float(OK), splat(float(INVALID))))


@jit(inner=True)
def _gather_lines(S, k, n, values, step, first, last):
    for i in range(n):
        if step == 0:
            store(S, k + i, splat(values[0, i]))
        else:
            for w in range(LANES):
                S[k + i, w] = values[min(first + w, last), i]


@jit(inner=True)
def _smooth(t, smoothing):
    """Add `smoothing` to every cell; below zero: the pseudo-Bayes rule."""
    S = t.S
    store(S, t.amount, splat(max(smoothing, 0.0)))
    if smoothing > 0.0:
        for k in range(t.M, t.M + t.R * t.C):
            store(S, k, load(S, k) + smoothing)
        # With no positive cell `low` is infinite, and each cell is now the smoothing.
        low = load(S, t.low)
        store(S, t.low, where((load(S, t.zeros) != 0.0) | (low == np.inf), smoothing, low + smoothing))
        store(S, t.high, load(S, t.high) + smoothing)
        store(S, t.zeros, splat(0.0))
    elif smoothing < 0.0:
        for w in range(LANES):
            if S[t.status, w] == OK:
                S[t.amount, w] = _pseudo_bayes(t, w)


@jit(inner=True)
def _survey_targets(t, flip):
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
    store(S, t.odd, where(good, 0.0, splat(1.0)))
    given, other = (V, U) if flip else (U, V)
    store(S, t.total, given)
    ratio = where(good & (U != V), given / other, 1.0)
    changed, n = (t.u, t.R) if flip else (t.v, t.C)
    for k in range(changed, changed + n):
        store(S, k, load(S, k) * ratio)


@jit(inner=True)
def _decide(t, w, flip, drop, bi):
    """Look closely at a lane with zero cells or unusual targets."""
    status = _check_lines(t, w, drop, bi)
    return _check_totals(t, w, flip) if status == OK else status


@jit(inner=True)
def fill(S, k, n, w, value):
    """Write one number to a lane of `n` lines; a slice would take seconds to compile."""
    for i in range(k, k + n):
        S[i, w] = value


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
    if S[t.high, w] == 0.0:
        return 0.0
    scale = math.ldexp(1.0, math.frexp(S[t.high, w])[1] - 1)  # so that squares stay in range; dividing by it is exact
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
    S[t.low, w] = np.inf
    S[t.zeros, w] = 0.0
    for i in range(R):
        for j in range(C):
            e = S[t.off + i, w] * S[t.col + j, w] / N * scale
            m = (1.0 - weight) * (S[t.M + i * C + j, w] * scale) + weight * e
            S[t.M + i * C + j, w] = m
            if m > 0.0:
                S[t.low, w] = min(S[t.low, w], m)
            else:
                S[t.zeros, w] = 1.0
    return strength


@jit(inner=True)
def _check_lines(t, w, drop, bi):
    """Set the targets of dropped lines to zero; refuse bad ones."""
    S, R, C = t.S, t.R, t.C
    _sum_lines(t, w)
    if drop and bi:
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
def _check_totals(t, w, flip):
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
    if not (np.inf > U and np.inf > V):
        return RANGE
    if not abs(U - V) <= TOTALS_RTOL * max(U, V):
        return TOTALS
    given = V if flip else U
    S[t.total, w] = given if given > 0.0 else 1.0
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
    S[t.low, w], S[t.high, w] = np.inf, 0.0
    for k in range(t.M, t.M + t.R * t.C):
        m = S[k, w]
        if m > 0.0:
            S[t.low, w] = min(S[t.low, w], m)
            S[t.high, w] = max(S[t.high, w], m)


@jit(inner=True)
def dominates(t, w):
    """Whether the diagonal of the classes that are not dropped dominates."""
    S, C = t.S, t.C
    for i in range(C):
        if (S[t.u + i, w] == 0.0) != (S[t.v + i, w] == 0.0):
            return False
        if S[t.u + i, w] == 0.0:
            continue
        m = S[t.M + i * C + i, w]
        if m == 0.0:
            return False
        for j in range(i):
            across = S[t.M + i * C + j, w] * S[t.M + j * C + i, w]
            if S[t.u + j, w] > 0.0 and not m * S[t.M + j * C + j, w] > across:
                return False
    return True


@jit(inner=True)
def _spans_much(t, w):
    low, high = t.S[t.low, w], t.S[t.high, w]
    if low < 1.0 / WIDE or high > WIDE or high > VAST * low:
        return True
    return high > SPAN * low and not (t.R == t.C and dominates(t, w))


@jit(inner=True)
def _bring_near(t, w, plain):
    """Take powers of two out of the cells of a lane, which is exact; with a pairing where one is wanted and exists."""
    S, R, C = t.S, t.R, t.C
    if R == C and not plain:
        A = np.empty((C, C))
        for i in range(C):
            for j in range(C):
                m = S[t.M + i * C + j, w]
                A[i, j] = math.log2(m) if m > 0.0 else -np.inf
                if S[t.u + i, w] == 0.0 and S[t.v + j, w] == 0.0:
                    A[i, j] = 0.0  # dropped on both sides: only with one another, and no matter which
        order = np.empty(C, np.int64)
        row_power, col_power = np.empty(C), np.empty(C)
        if pair_and_balance(A, order, row_power, col_power):
            S[t.chosen, w] = 1.0
            S[t.moved, w] = 1.0
            for j in range(C):
                S[t.row_power + j, w] = row_power[j]
                S[t.col_power + j, w] = col_power[j]
            _divide_by_powers(t, w)
            for j in range(C):
                S[t.order + j, w] = order[j]
            permute(t, w)
            return
    if S[t.low, w] < 1.0 / WIDE or S[t.high, w] > WIDE:
        _equilibrate(t, w)


@jit(inner=True)
def _divide_by_powers(t, w):
    S, R, C = t.S, t.R, t.C
    S[t.far, w] = 1.0
    for i in range(R):
        for j in range(C):
            power = -S[t.row_power + i, w] - S[t.col_power + j, w]
            S[t.M + i * C + j, w] = math.ldexp(S[t.M + i * C + j, w], int(power))


@jit(inner=True)
def _equilibrate(t, w):
    """Bring the cells together: the logarithms of rows and columns get mean zero."""
    S, R, C = t.S, t.R, t.C
    for _ in range(EQUILIBRATION_ROUNDS):
        for i in range(R):
            total = 0.0
            n = 0.0
            for j in range(C):
                m = S[t.M + i * C + j, w]
                if m > 0.0:
                    total += float(math.frexp(m)[1]) - S[t.col_power + j, w]
                    n += 1.0
            S[t.row_power + i, w] = np.floor(total / n) if n > 0.0 else 0.0
        for j in range(C):
            total = 0.0
            n = 0.0
            for i in range(R):
                m = S[t.M + i * C + j, w]
                if m > 0.0:
                    total += float(math.frexp(m)[1]) - S[t.row_power + i, w]
                    n += 1.0
            S[t.col_power + j, w] = np.floor(total / n) if n > 0.0 else 0.0
    _divide_by_powers(t, w)


@jit(inner=True)
def _park(t, w):
    """Put ones into a lane that has no answer: it costs nothing and divides by nothing."""
    S = t.S
    S[t.active, w] = 0.0
    S[t.total, w] = 1.0
    fill(S, t.u, t.R, w, 1.0)
    fill(S, t.v, t.C, w, 1.0)
    fill(S, t.M, t.R * t.C, w, 1.0)


@jit(inner=True)
def permute(t, w):
    """Bring column ``order[j]`` to place j."""
    for i in range(t.R):
        _permute_line(t, w, t.M + i * t.C)
    for k in (t.v, t.y, t.col_power):
        _permute_line(t, w, k)


@jit(inner=True)
def _permute_line(t, w, k):
    S = t.S
    for j in range(t.C):
        S[t.p + j, w] = S[k + np.int64(S[t.order + j, w]), w]
    for j in range(t.C):
        S[k + j, w] = S[t.p + j, w]


@jit(inner=True)
def finish(t, flip, plain, tol, bound):
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
    if flip:
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
                _undo_powers(t, w, -S[t.rest, w] if flip else S[t.rest, w])


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
    store(S, t.rho, product)
    store(S, t.rho_before, least)
    store(S, t.residual, count)
    for w in range(LANES):
        product, least, count = S[t.rho, w], S[t.rho_before, w], S[t.residual, w]
        if least > TINY and product < 1.0 / TINY and S[t.far, w] == 0.0:
            S[t.rho, w] = np.exp(np.log(product) / count) if count > 0.0 else 1.0
        elif S[t.status, w] <= MAX_ITER:
            S[t.rho, w], S[t.rest, w] = _geometric_mean(S, first, targets, n, powers, w)
    mean = load(S, t.rho)
    for i in range(n):
        store(S, first + i, load(S, first + i) / mean)
    for j in range(m):
        store(S, second + j, load(S, second + j) * mean)


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
def _undo_powers(t, w, rest):
    """Turn the factors of the equilibrated matrix into those of the input."""
    S = t.S
    for i in range(t.R):
        S[t.x + i, w] = math.ldexp(S[t.x + i, w], int(-S[t.row_power + i, w] - rest))
        if S[t.u + i, w] > 0.0 and not 0.0 < S[t.x + i, w] < np.inf:
            S[t.status, w] = RANGE
    for j in range(t.C):
        S[t.y + j, w] = math.ldexp(S[t.y + j, w], int(rest - S[t.col_power + j, w]))
        if S[t.v + j, w] > 0.0 and not 0.0 < S[t.y + j, w] < np.inf:
            S[t.status, w] = RANGE


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
def begin(t, start_row, row_step, start_col, col_step, first, last):
    """Set the column factors to start from: the caller's, where these are positive and finite, else one."""
    S, R, C = t.S, t.R, t.C
    for j in range(C):
        store(S, t.y + j, splat(1.0))
    store(S, t.warm, splat(0.0))
    if start_row.shape[1] == 0 and start_col.shape[1] == 0 and not some(load(S, t.far) != 0.0):
        return
    for w in range(LANES):
        if S[t.chosen, w] == 0.0:
            for j in range(C):
                S[t.y + j, w] = math.ldexp(1.0, int(S[t.col_power + j, w]))
        if S[t.status, w] != OK:
            continue
        b = min(first + w, last)
        if start_col.shape[1] > 0 and _usable(start_col[b * col_step], S, t.v, t.order, w):
            S[t.warm, w] = 1.0
            for j in range(C):
                given = start_col[b * col_step, int(S[t.order + j, w])]
                S[t.y + j, w] = math.ldexp(given, int(S[t.col_power + j, w]))
        elif start_row.shape[1] > 0 and _usable(start_row[b * row_step], S, t.u, -1, w):
            S[t.warm, w] = 1.0
            for j in range(C):
                c = 0.0
                for i in range(R):
                    if S[t.u + i, w] > 0.0:
                        x = math.ldexp(start_row[b * row_step, i], int(S[t.row_power + i, w]))
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


@jit(inner=True)
def store_tile(t, first, last, flip, write, out, out_row, out_col, out_residual, out_n_iter, out_status, out_smoothing):
    """Write the results of the lanes of elements `first` to `last`."""
    S = t.S
    n = min(last + 1 - first, LANES)
    rows, cols = (t.y, t.x) if flip else (t.x, t.y)
    _scatter(S, rows, out_row, first, n)
    _scatter(S, cols, out_col, first, n)
    if write and flip:
        for i in range(t.R):
            for j in range(t.C):
                for w in range(n):
                    out[first + w, j * t.R + i] = S[t.M + i * t.C + j, w]
    elif write:
        _scatter(S, t.M, out, first, n)
    for w in range(n):
        b = first + w
        out_residual[b] = S[t.residual, w]
        out_n_iter[b] = np.int64(S[t.n_iter, w])
        out_status[b] = np.int8(S[t.status, w])
        out_smoothing[b] = S[t.amount, w]
        if S[t.status, w] > MAX_ITER:
            out_residual[b] = np.nan
            _blank(out_row, b)
            _blank(out_col, b)
            if write:
                _blank(out, b)


@jit(inner=True)
def _blank(out, b):
    for c in range(out.shape[1]):
        out[b, c] = np.nan


@jit(inner=True)
def _scatter(S, k, out, first, n):
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
