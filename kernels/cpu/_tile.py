"""Up to 64 matrices side by side, lane last: every inner loop runs over lanes and adds nothing across them.

So small matrices fill whole vectors, and each lane sees the same operations in the same order whatever stands beside
it: the bits of a result do not depend on its neighbours, nor on how many there are.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.status import Status

OK = int(Status.CONVERGED)
TOTALS = int(Status.TOTALS)
INVALID = int(Status.INVALID)
ZERO_LINE = int(Status.ZERO_LINE)
RANGE = int(Status.RANGE)
MAX_ITER = int(Status.MAX_ITER)

WIDE = 1e100  # entries outside [1/WIDE, WIDE] are brought nearer by powers of two
TOTALS_RTOL = 1e-9
EQUILIBRATION_ROUNDS = 3
TINY = 1e-290
BLOCK = 8  # lanes in a cache line


class Tile(NamedTuple):
    """One tile and its scratch. Axes: R rows, C columns, L lanes."""

    M: np.ndarray  # (R, C, L) matrices, after smoothing, dropping, powers of two and pairing
    Q: np.ndarray  # (R, C, L) scaled cells over sqrt(u)
    W: np.ndarray  # (C, C, L) weights of the graph on the columns, lower half
    F: np.ndarray  # (C, C, L) flows between columns, antisymmetric, lower half
    u: np.ndarray  # (R, L) row targets
    v: np.ndarray  # (C, L) column targets
    x: np.ndarray  # (R, L) row factors
    y: np.ndarray  # (C, L) column factors
    off: np.ndarray  # (R, L) row sums of scaled cells, without the paired one
    col: np.ndarray  # (C, L) column sums, likewise
    diag: np.ndarray  # (C, L) the paired cells, scaled
    q: np.ndarray  # (C, L) sources
    d: np.ndarray  # (C, L) Newton step in log y
    p: np.ndarray  # (C, L) scratch of the elimination
    r: np.ndarray  # (C, L)
    row_power: np.ndarray  # (R, L) M holds the input times 2 ** -(row_power + col_power)
    col_power: np.ndarray  # (C, L)
    order: np.ndarray  # (C, L) column of the input at each place
    a: np.ndarray  # (L,) scratch
    b: np.ndarray  # (L,)
    total: np.ndarray  # (L,) mass
    amount: np.ndarray  # (L,) smoothing
    residual: np.ndarray  # (L,)
    rho: np.ndarray  # (L,) width of the last step
    rho_before: np.ndarray  # (L,)
    step: np.ndarray  # (L,)
    active: np.ndarray  # (L,) 1.0 while the lane moves, else 0.0
    paired: np.ndarray  # (L,) 1.0 where row i and column i belong together, else 0.0
    zeros: np.ndarray  # (L,) 1.0 where a cell is zero, else 0.0
    far: np.ndarray  # (L,) 1.0 where M holds powers of two, else 0.0
    rest: np.ndarray  # (L,) power of two that the gauge still has to move from one side to the other
    moved: np.ndarray  # (L,) 1.0 where `order` is not the identity, else 0.0
    warm: np.ndarray  # (L,) 1.0 where the caller gave the factors to start from, else 0.0
    n_iter: np.ndarray  # (L,)
    status: np.ndarray  # (L,)


@jit(inner=True)
def new_tile(R, C, L):
    """Return an empty tile; F and W only where Newton's method needs them."""
    return Tile(
        np.empty((R, C, L)),
        np.empty((R, C, L)),
        np.empty((C, C, L)),
        np.empty((C, C, L)),
        np.empty((R, L)),
        np.empty((C, L)),
        np.empty((R, L)),
        np.empty((C, L)),
        np.empty((R, L)),
        np.empty((C, L)),
        np.empty((C, L)),
        np.empty((C, L)),
        np.empty((C, L)),
        np.empty((C, L)),
        np.empty((C, L)),
        np.empty((R, L), np.int64),
        np.empty((C, L), np.int64),
        np.empty((C, L), np.int64),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L),
        np.empty(L, np.int64),
        np.empty(L, np.int64),
        np.empty(L, np.int8),
    )


@jit(inner=True)
def load(t, M, m_step, row_sums, row_step, col_sums, col_step, first, flip, smoothing, drop, bi):
    """Fill the tile with the matrices from `first` on, cells in one axis; decide the lanes that have no answer."""
    C, L = t.v.shape
    _gather_cells(t.M, M, first, m_step, flip)
    _gather_lines(t.u, row_sums, first, row_step)
    _gather_lines(t.v, col_sums, first, col_step)
    for j in range(C):
        t.order[j] = j
    t.n_iter[:] = 0
    t.moved[:] = 0.0
    t.far[:] = 0.0
    t.row_power[:] = 0
    t.col_power[:] = 0
    _survey_cells(t)
    _smooth(t, smoothing)
    _survey_targets(t, flip)
    for w in range(L):
        t.active[w] = 1.0
        if t.status[w] == OK and (t.zeros[w] != 0.0 or t.step[w] != 0.0):
            t.status[w] = _decide(t, w, flip, drop, bi)
        if t.status[w] != OK:
            _park(t, w)
        elif t.a[w] < 1.0 / WIDE or t.b[w] > WIDE:
            _equilibrate(t, w)


@jit(inner=True)
def _gather_cells(cells, M, first, step, flip):
    R, C, L = cells.shape
    row_stride, col_stride = (1, R) if flip else (C, 1)
    whole = L - L % BLOCK
    for w in range(0, whole, BLOCK):  # a block of lanes fills one cache line of the tile
        for i in range(R):
            for j in range(C):
                c = i * row_stride + j * col_stride
                for k in range(BLOCK):
                    cells[i, j, w + k] = M[(first + w + k) * step, c]
    for w in range(whole, L):
        for i in range(R):
            for j in range(C):
                cells[i, j, w] = M[(first + w) * step, i * row_stride + j * col_stride]


@jit(inner=True)
def _gather_lines(lines, values, first, step):
    n, L = lines.shape
    for i in range(n):
        if step == 0:
            for w in range(L):
                lines[i, w] = values[0, i]
        else:
            for w in range(L):
                lines[i, w] = values[first + w, i]


@jit(inner=True)
def _survey_cells(t):
    """Refuse NaN, infinite and negative cells; leave the smallest positive cell in `a`, the largest in `b`."""
    R, C, L = t.M.shape
    t.a[:] = np.inf
    t.b[:] = 0.0
    t.zeros[:] = 0.0
    t.step[:] = 0.0
    for i in range(R):
        for j in range(C):
            for w in range(L):
                m = t.M[i, j, w]
                t.step[w] = t.step[w] if 0.0 <= m < np.inf else 1.0
                t.zeros[w] = 1.0 if m == 0.0 else t.zeros[w]
                t.a[w] = m if 0.0 < m < t.a[w] else t.a[w]
                t.b[w] = m if m > t.b[w] else t.b[w]
    for w in range(L):
        t.status[w] = OK if t.step[w] == 0.0 else INVALID


@jit(inner=True)
def _smooth(t, smoothing):
    """Add `smoothing` to every cell; below zero: the pseudo-Bayes rule."""
    R, C, L = t.M.shape
    t.amount[:] = max(smoothing, 0.0)
    if smoothing > 0.0:
        t.zeros[:] = 0.0
        for i in range(R):
            for j in range(C):
                for w in range(L):
                    t.M[i, j, w] += smoothing
        for w in range(L):
            t.a[w] += smoothing
            t.b[w] += smoothing
    elif smoothing < 0.0:
        for w in range(L):
            if t.status[w] == OK:
                t.amount[w] = _pseudo_bayes(t, w)


@jit(inner=True)
def _survey_targets(t, flip):
    """Make the totals equal by changing the column targets of the input.

    Mark in `step` the lanes where a target is zero or bad or the totals disagree.
    """
    R, C, L = t.M.shape
    t.total[:] = 0.0
    t.rho[:] = 0.0
    t.step[:] = 0.0
    for i in range(R):
        for w in range(L):
            t.total[w] += t.u[i, w]
            t.step[w] = t.step[w] if t.u[i, w] > 0.0 else 1.0
    for j in range(C):
        for w in range(L):
            t.rho[w] += t.v[j, w]
            t.step[w] = t.step[w] if t.v[j, w] > 0.0 else 1.0
    for w in range(L):
        U = t.total[w]
        V = t.rho[w]
        plain = 0.0 < U < np.inf and abs(U - V) <= TOTALS_RTOL * max(U, V) and t.step[w] == 0.0
        t.step[w] = 0.0 if plain else 1.0
        t.total[w] = V if flip else U
        t.rho[w] = (V / U if flip else U / V) if plain else 1.0
    changed = t.u if flip else t.v
    for k in range(changed.shape[0]):
        for w in range(L):
            changed[k, w] *= t.rho[w]


@jit(inner=True)
def _decide(t, w, flip, drop, bi):
    """Look closely at a lane with zero cells or unusual targets."""
    status = _check_lines(t, w, drop, bi)
    return _check_totals(t, w, flip) if status == OK else status


@jit(inner=True)
def _pseudo_bayes(t, w):
    """Bishop, Fienberg, Holland: pull the cells towards independence with a weight the data choose; return it."""
    R, C, _ = t.M.shape
    for i in range(R):
        t.off[i, w] = 0.0
    for j in range(C):
        t.col[j, w] = 0.0
    N = 0.0
    squares = 0.0
    scale = t.b[w]  # so that squares stay in range
    if scale == 0.0:
        return 0.0
    for i in range(R):
        for j in range(C):
            m = t.M[i, j, w] / scale
            t.off[i, w] += m
            t.col[j, w] += m
            N += m
            squares += m * m
    gap = 0.0
    for i in range(R):
        for j in range(C):
            e = t.off[i, w] * t.col[j, w] / N - t.M[i, j, w] / scale
            gap += e * e
    k = (N * N - squares) / gap if gap > 0.0 else np.inf
    weight = k / (N * scale + k) if k < np.inf else 1.0
    t.a[w] = np.inf
    t.zeros[w] = 0.0
    for i in range(R):
        for j in range(C):
            e = t.off[i, w] * t.col[j, w] / N * scale
            t.M[i, j, w] = (1.0 - weight) * t.M[i, j, w] + weight * e
            if t.M[i, j, w] > 0.0:
                t.a[w] = min(t.a[w], t.M[i, j, w])
            else:
                t.zeros[w] = 1.0
    return k


@jit(inner=True)
def _check_lines(t, w, drop, bi):
    """Set the targets of dropped lines to zero; an empty line with a positive target has no answer."""
    R, C, _ = t.M.shape
    for i in range(R):
        t.off[i, w] = 0.0
    for j in range(C):
        t.col[j, w] = 0.0
    for i in range(R):
        for j in range(C):
            t.off[i, w] += t.M[i, j, w]
            t.col[j, w] += t.M[i, j, w]
    if drop and bi:
        for i in range(R):
            if t.off[i, w] == 0.0 and t.col[i, w] == 0.0:
                t.u[i, w] = 0.0
                t.v[i, w] = 0.0
    for i in range(R):
        if not 0.0 <= t.u[i, w] < np.inf:
            return INVALID
    for j in range(C):
        if not 0.0 <= t.v[j, w] < np.inf:
            return INVALID
    return OK


@jit(inner=True)
def _check_totals(t, w, flip):
    """Make the totals equal by changing the column targets of the input, clear dropped lines, look for empty ones."""
    R, C, _ = t.M.shape
    U = 0.0
    V = 0.0
    dropped = False
    for i in range(R):
        U += t.u[i, w]
        dropped = dropped or t.u[i, w] == 0.0
    for j in range(C):
        V += t.v[j, w]
        dropped = dropped or t.v[j, w] == 0.0
    if not (np.inf > U and np.inf > V):
        return RANGE
    if not abs(U - V) <= TOTALS_RTOL * max(U, V):
        return TOTALS
    given = V if flip else U
    t.total[w] = given if given > 0.0 else 1.0
    if U != V:
        for i in range(R):
            t.u[i, w] *= given / U
        for j in range(C):
            t.v[j, w] *= given / V
    if dropped:
        for i in range(R):
            for j in range(C):
                if t.u[i, w] == 0.0 or t.v[j, w] == 0.0:
                    t.M[i, j, w] = 0.0
        for i in range(R):
            t.off[i, w] = 0.0
        for j in range(C):
            t.col[j, w] = 0.0
        for i in range(R):
            for j in range(C):
                t.off[i, w] += t.M[i, j, w]
                t.col[j, w] += t.M[i, j, w]
    for i in range(R):
        if t.u[i, w] > 0.0 and t.off[i, w] == 0.0:
            return ZERO_LINE
    for j in range(C):
        if t.v[j, w] > 0.0 and t.col[j, w] == 0.0:
            return ZERO_LINE
    return OK


@jit(inner=True)
def _equilibrate(t, w):
    """Bring the cells together by powers of two, which is exact: logarithms of rows and columns get mean zero."""
    R, C, _ = t.M.shape
    t.far[w] = 1.0
    for _ in range(EQUILIBRATION_ROUNDS):
        for i in range(R):
            total = 0
            n = 0
            for j in range(C):
                if t.M[i, j, w] > 0.0:
                    total += math.frexp(t.M[i, j, w])[1] - t.col_power[j, w]
                    n += 1
            t.row_power[i, w] = total // n if n > 0 else 0
        for j in range(C):
            total = 0
            n = 0
            for i in range(R):
                if t.M[i, j, w] > 0.0:
                    total += math.frexp(t.M[i, j, w])[1] - t.row_power[i, w]
                    n += 1
            t.col_power[j, w] = total // n if n > 0 else 0
    for i in range(R):
        for j in range(C):
            t.M[i, j, w] = math.ldexp(t.M[i, j, w], -t.row_power[i, w] - t.col_power[j, w])


@jit(inner=True)
def _park(t, w):
    """Put ones into a lane that has no answer: it costs nothing and divides by nothing."""
    R, C, _ = t.M.shape
    t.active[w] = 0.0
    t.total[w] = 1.0
    for i in range(R):
        t.u[i, w] = 1.0
        for j in range(C):
            t.M[i, j, w] = 1.0
    for j in range(C):
        t.v[j, w] = 1.0


@jit(inner=True)
def permute(t, w):
    """Bring column ``order[j]`` to place j."""
    R, C, _ = t.M.shape
    for i in range(R):
        for j in range(C):
            t.p[j, w] = t.M[i, t.order[j, w], w]
        for j in range(C):
            t.M[i, j, w] = t.p[j, w]
    for j in range(C):
        t.p[j, w] = t.v[t.order[j, w], w]
        t.r[j, w] = t.y[t.order[j, w], w]
        t.d[j, w] = t.col_power[t.order[j, w], w]
    for j in range(C):
        t.v[j, w] = t.p[j, w]
        t.y[j, w] = t.r[j, w]
        t.col_power[j, w] = np.int64(t.d[j, w])


@jit(inner=True)
def finish(t, flip, tol):
    """Put the factors in the gauge, scale the cells, and measure again what is returned."""
    C, L = t.y.shape
    for w in range(L):
        if t.moved[w] != 0.0:
            for j in range(C):
                t.r[t.order[j, w], w] = j
            for j in range(C):
                t.order[j, w] = np.int64(t.r[j, w])
            permute(t, w)
    for j in range(C):
        for w in range(L):
            t.y[j, w] = t.y[j, w] if t.v[j, w] > 0.0 else 0.0
    if flip:
        _gauge(t, t.y, t.v, t.x, t.col_power)
    else:
        _gauge(t, t.x, t.u, t.y, t.row_power)
    _scale_cells(t)
    _check_factors(t)
    for w in range(L):
        if t.status[w] <= MAX_ITER and not (t.residual[w] < np.inf and t.step[w] == 0.0):
            t.status[w] = RANGE
        elif t.status[w] == OK and not t.residual[w] <= tol:
            t.status[w] = MAX_ITER
        if t.far[w] != 0.0:
            _undo_powers(t, w, -t.rest[w] if flip else t.rest[w])


@jit(inner=True)
def _gauge(t, first, targets, second, powers):
    """Divide the factors `first` by their geometric mean and multiply the others by it.

    What the powers of two in M add to that is left in `rest`.
    """
    n, L = first.shape
    t.a[:] = 0.0
    t.b[:] = 1.0
    t.step[:] = 1.0
    for i in range(n):
        for w in range(L):
            there = targets[i, w] > 0.0
            t.a[w] += 1.0 if there else 0.0
            t.b[w] *= first[i, w] if there else 1.0
            t.step[w] = t.b[w] if t.b[w] < t.step[w] else t.step[w]
    for w in range(L):
        if t.step[w] > TINY and t.b[w] < 1.0 / TINY and t.far[w] == 0.0:
            t.b[w] = np.exp(np.log(t.b[w]) / t.a[w]) if t.a[w] > 0.0 else 1.0
        elif t.status[w] <= MAX_ITER:
            t.b[w], t.rest[w] = _geometric_mean(first, targets, powers, w)
    for i in range(n):
        for w in range(L):
            first[i, w] /= t.b[w]
    for j in range(second.shape[0]):
        for w in range(L):
            second[j, w] *= t.b[w]


@jit(inner=True)
def _scale_cells(t):
    R, C, L = t.M.shape
    t.residual[:] = 0.0
    for j in range(C):
        t.col[j] = 0.0
    for i in range(R):
        t.a[:] = 0.0
        for j in range(C):
            for w in range(L):
                cell = t.x[i, w] * t.M[i, j, w] * t.y[j, w]
                t.M[i, j, w] = cell
                t.a[w] += cell
                t.col[j, w] += cell
        for w in range(L):
            t.residual[w] += abs(t.a[w] - t.u[i, w])
    for j in range(C):
        for w in range(L):
            t.residual[w] += abs(t.col[j, w] - t.v[j, w])
    for w in range(L):
        t.residual[w] /= t.total[w]


@jit(inner=True)
def _check_factors(t):
    """Mark in `step` the lanes with a factor that is not positive and finite."""
    R, C, L = t.M.shape
    t.step[:] = 0.0
    for i in range(R):
        for w in range(L):
            good = 0.0 < t.x[i, w] < np.inf or t.u[i, w] == 0.0
            t.step[w] = t.step[w] if good else 1.0
    for j in range(C):
        for w in range(L):
            good = 0.0 < t.y[j, w] < np.inf or t.v[j, w] == 0.0
            t.step[w] = t.step[w] if good else 1.0


@jit(inner=True)
def _undo_powers(t, w, rest):
    """Turn the factors of the equilibrated matrix into those of the input."""
    for i in range(t.x.shape[0]):
        t.x[i, w] = math.ldexp(t.x[i, w], -t.row_power[i, w] - rest)
        if t.u[i, w] > 0.0 and not 0.0 < t.x[i, w] < np.inf:
            t.status[w] = RANGE
    for j in range(t.y.shape[0]):
        t.y[j, w] = math.ldexp(t.y[j, w], rest - t.col_power[j, w])
        if t.v[j, w] > 0.0 and not 0.0 < t.y[j, w] < np.inf:
            t.status[w] = RANGE


@jit(inner=True)
def _geometric_mean(factors, targets, powers, w):
    """Geometric mean of the factors that are not dropped, and the power of two that `powers` add to it."""
    product = 1.0
    power = 0
    given = 0
    n = 0
    for i in range(factors.shape[0]):
        if targets[i, w] > 0.0:
            fraction, exponent = math.frexp(factors[i, w])
            product *= fraction
            power += exponent
            given -= powers[i, w]
            n += 1
            if product < 1e-200:
                product, exponent = math.frexp(product)
                power += exponent
    if n == 0:
        return 1.0, 0
    whole = (power + given) // n
    part = (power + given) - whole * n
    mean = np.exp((np.log(product) + part * np.log(2.0)) / n)
    return math.ldexp(mean, power // n), whole - power // n


@jit(inner=True)
def begin(t, start_row, row_step, start_col, col_step, first):
    """Set the column factors to start from: the caller's, where these are positive and finite, else one."""
    R, C, L = t.M.shape
    for j in range(C):
        for w in range(L):
            t.y[j, w] = math.ldexp(1.0, t.col_power[j, w])
    t.warm[:] = 0.0
    for w in range(L):
        if t.status[w] != OK:
            continue
        if start_col.shape[1] > 0 and _usable(start_col[(first + w) * col_step], t.v, w):
            t.warm[w] = 1.0
            for j in range(C):
                t.y[j, w] = math.ldexp(start_col[(first + w) * col_step, j], t.col_power[j, w])
        elif start_row.shape[1] > 0 and _usable(start_row[(first + w) * row_step], t.u, w):
            t.warm[w] = 1.0
            for j in range(C):
                c = 0.0
                for i in range(R):
                    if t.u[i, w] > 0.0:
                        x = math.ldexp(start_row[(first + w) * row_step, i], t.row_power[i, w])
                        c += x * t.M[i, j, w]
                t.y[j, w] = t.v[j, w] / c if t.v[j, w] > 0.0 else 1.0


@jit(inner=True)
def _usable(factors, targets, w):
    """Whether the factors of the lines that are not dropped are positive and finite."""
    for k in range(factors.shape[0]):  # noqa: SIM110 (Numba has no generators)
        if targets[k, w] > 0.0 and not 0.0 < factors[k] < np.inf:
            return False
    return True


@jit(inner=True)
def store(t, first, flip, write, out, out_row, out_col, out_residual, out_n_iter, out_status, out_smoothing):
    """Write the results of the tile from element `first` on."""
    if flip:
        _scatter_lines(t.x, out_col, first)
        _scatter_lines(t.y, out_row, first)
    else:
        _scatter_lines(t.x, out_row, first)
        _scatter_lines(t.y, out_col, first)
    if write:
        _scatter_cells(t.M, out, first, flip)
    for w in range(t.status.shape[0]):
        b = first + w
        out_residual[b] = t.residual[w]
        out_n_iter[b] = t.n_iter[w]
        out_status[b] = t.status[w]
        out_smoothing[b] = t.amount[w]
        if t.status[w] > MAX_ITER:
            out_residual[b] = np.nan
            out_row[b] = np.nan
            out_col[b] = np.nan
            if write:
                out[b] = np.nan


@jit(inner=True)
def _scatter_cells(cells, out, first, flip):
    R, C, L = cells.shape
    row_stride, col_stride = (1, R) if flip else (C, 1)
    whole = L - L % BLOCK
    for w in range(0, whole, BLOCK):
        for i in range(R):
            for j in range(C):
                c = i * row_stride + j * col_stride
                for k in range(BLOCK):
                    out[first + w + k, c] = cells[i, j, w + k]
    for w in range(whole, L):
        for i in range(R):
            for j in range(C):
                out[first + w, i * row_stride + j * col_stride] = cells[i, j, w]


@jit(inner=True)
def _scatter_lines(lines, out, first):
    n, L = lines.shape
    for w in range(L):
        for i in range(n):
            out[first + w, i] = lines[i, w]
