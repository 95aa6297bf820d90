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
    warm: np.ndarray  # (L,) 1.0 where the caller gave the factors to start from, else 0.0
    n_iter: np.ndarray  # (L,)
    status: np.ndarray  # (L,)


@jit()
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
        np.empty(L, np.int64),
        np.empty(L, np.int8),
    )


@jit()
def load(t, M, m_step, row_sums, row_step, col_sums, col_step, first, flip, smoothing, drop, bi):
    """Fill the tile with the matrices from `first` on; decide the lanes that have no answer."""
    R, C, L = t.M.shape
    for w in range(L):
        b = (first + w) * m_step
        if flip:
            for i in range(R):
                for j in range(C):
                    t.M[i, j, w] = M[b, j, i]
        else:
            for i in range(R):
                for j in range(C):
                    t.M[i, j, w] = M[b, i, j]
        for i in range(R):
            t.u[i, w] = row_sums[(first + w) * row_step, i]
        for j in range(C):
            t.v[j, w] = col_sums[(first + w) * col_step, j]
    t.n_iter[:] = 0
    t.row_power[:] = 0
    t.col_power[:] = 0
    for j in range(C):
        t.order[j] = j
    _check_cells(t)
    _smooth(t, smoothing)
    for w in range(L):
        if t.status[w] == OK:
            t.status[w] = _check_lines(t, w, drop, bi)
        if t.status[w] == OK:
            t.status[w] = _check_totals(t, w, flip)
        if t.status[w] == OK and (t.a[w] < 1.0 / WIDE or t.b[w] > WIDE):
            _equilibrate(t, w)
        if t.status[w] == OK:
            t.active[w] = 1.0
        else:
            _park(t, w)


@jit()
def _check_cells(t):
    """Refuse NaN, infinite and negative cells; leave the smallest positive cell in `a`, the largest in `b`."""
    R, C, L = t.M.shape
    t.status[:] = OK
    t.a[:] = np.inf
    t.b[:] = 0.0
    t.step[:] = 0.0
    for i in range(R):
        for j in range(C):
            for w in range(L):
                m = t.M[i, j, w]
                t.step[w] = t.step[w] if 0.0 <= m < np.inf else 1.0
                t.b[w] = m if m > t.b[w] else t.b[w]
                t.a[w] = m if 0.0 < m < t.a[w] else t.a[w]
    for w in range(L):
        if t.step[w] != 0.0:
            t.status[w] = INVALID


@jit()
def _smooth(t, smoothing):
    """Add `smoothing` to every cell; below zero: the pseudo-Bayes rule."""
    R, C, L = t.M.shape
    t.amount[:] = max(smoothing, 0.0)
    if smoothing > 0.0:
        for i in range(R):
            for j in range(C):
                for w in range(L):
                    t.M[i, j, w] += smoothing
        for w in range(L):
            t.a[w] = smoothing  # what matters is the order of magnitude
            t.b[w] += smoothing
    elif smoothing < 0.0:
        for w in range(L):
            if t.status[w] == OK:
                t.amount[w] = _pseudo_bayes(t, w)


@jit()
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
    for i in range(R):
        for j in range(C):
            e = t.off[i, w] * t.col[j, w] / N * scale
            t.M[i, j, w] = (1.0 - weight) * t.M[i, j, w] + weight * e
            if t.M[i, j, w] > 0.0:
                t.a[w] = min(t.a[w], t.M[i, j, w])
    return k


@jit()
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


@jit()
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


@jit()
def _equilibrate(t, w):
    """Bring the cells together by powers of two, which is exact: logarithms of rows and columns get mean zero."""
    R, C, _ = t.M.shape
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


@jit()
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


@jit()
def finish(t, w, flip, tol):
    """Put the factors of lane `w` in the gauge, scale its cells, and measure again what is returned."""
    R, C, _ = t.M.shape
    if t.status[w] > MAX_ITER:
        return
    for j in range(C):
        if t.v[j, w] == 0.0:
            t.y[j, w] = 0.0
    if flip:
        g, power, rest = _geometric_mean(t.y, t.v, t.col_power, w)
        g, power, rest = 1.0 / g, -power, -rest
    else:
        g, power, rest = _geometric_mean(t.x, t.u, t.row_power, w)
    for i in range(R):
        t.x[i, w] = math.ldexp(t.x[i, w] / g, -power)
    for j in range(C):
        t.y[j, w] = math.ldexp(t.y[j, w] * g, power)
        t.col[j, w] = 0.0
    gap = 0.0
    for i in range(R):
        row = 0.0
        for j in range(C):
            cell = t.x[i, w] * t.M[i, j, w] * t.y[j, w]
            t.M[i, j, w] = cell
            row += cell
            t.col[j, w] += cell
        gap += abs(row - t.u[i, w])
    for j in range(C):
        gap += abs(t.col[j, w] - t.v[j, w])
    t.residual[w] = gap / t.total[w]
    if not t.residual[w] < np.inf:
        t.status[w] = RANGE
    elif t.status[w] == OK and not t.residual[w] <= tol:
        t.status[w] = MAX_ITER
    for i in range(R):
        t.x[i, w] = math.ldexp(t.x[i, w], -t.row_power[i, w] - rest)
        if t.u[i, w] > 0.0 and not 0.0 < t.x[i, w] < np.inf:
            t.status[w] = RANGE
    for j in range(C):
        t.y[j, w] = math.ldexp(t.y[j, w], rest - t.col_power[j, w])
        if t.v[j, w] > 0.0 and not 0.0 < t.y[j, w] < np.inf:
            t.status[w] = RANGE


@jit()
def _geometric_mean(factors, targets, powers, w):
    """Geometric mean of the factors that are not dropped: a number near one, a power of two, and what `powers` add."""
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
        return 1.0, 0, 0
    whole = (power + given) // n
    part = (power + given) - whole * n
    return np.exp((np.log(product) + part * np.log(2.0)) / n), power // n, whole - power // n


@jit()
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


@jit()
def _usable(factors, targets, w):
    """Whether the factors of the lines that are not dropped are positive and finite."""
    for k in range(factors.shape[0]):  # noqa: SIM110 (Numba has no generators)
        if targets[k, w] > 0.0 and not 0.0 < factors[k] < np.inf:
            return False
    return True
