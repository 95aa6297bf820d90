"""Newton's method on the dual of matrix scaling, for a tile of small matrices.

The unknowns are the logarithms of the column factors; the rows are exact after every row pass. The Hessian is the
Laplacian of a graph on the columns, solved by star-mesh elimination (Grassmann, Taksar and Heyman), which only adds
nonnegative numbers. Where row i and column i are paired the diagonal never enters: small cells keep all their digits.
"""

import numpy as np

from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.cpu._tile import RANGE, permute
from cmfast.kernels.status import Status

MAX_ITER = int(Status.MAX_ITER)

PLAIN_SWEEPS = 3
PAIRED_SWEEPS = 2
SAFE_WIDTH = 1.79  # a full step no wider than this decreases the dual for certain: e**w - 1 - w <= w * w


@jit(inner=True)
def newton(t, tol, last_width, max_iter):
    """Scale every active lane of the tile; leaves factors, counts and statuses."""
    _start(t)
    t.rho[:] = np.inf
    t.rho_before[:] = np.inf
    for _ in range(max_iter + 2):
        _row_pass(t)
        if not _still_moving(t, tol, last_width, max_iter):
            return
        _weights(t)
        _eliminate(t)
        _advance(t)
    for w in range(t.active.shape[0]):
        if t.active[w] != 0.0:
            t.status[w] = MAX_ITER


@jit(inner=True)
def _start(t):
    """Find the pairing and the first factors."""
    R, C, L = t.M.shape
    t.paired[:] = 0.0
    searched = False
    if R == C:
        _pair_by_diagonal(t)
        for w in range(L):
            searched = searched or (t.paired[w] == 0.0 and t.active[w] != 0.0)
    if R != C or searched:
        for _ in range(PLAIN_SWEEPS):
            _plain_sweep(t)
        for w in range(L):
            if t.paired[w] == 0.0:
                t.n_iter[w] += np.int64(t.active[w]) * PLAIN_SWEEPS
                if R == C and t.active[w] != 0.0:
                    _pair_by_search(t, w)
    if R == C:
        _paired_start(t)
        for _ in range(PAIRED_SWEEPS):
            _paired_sweep(t)
        for w in range(L):
            t.n_iter[w] += np.int64(t.active[w] * t.paired[w]) * PAIRED_SWEEPS


@jit(inner=True)
def _pair_by_diagonal(t):
    """Pair the lanes whose diagonal dominates: m_ii m_jj > m_ij m_ji for every i and j."""
    _, C, L = t.M.shape
    t.paired[:] = 1.0
    for i in range(C):
        for j in range(i):
            for w in range(L):
                good = t.M[i, i, w] * t.M[j, j, w] > t.M[i, j, w] * t.M[j, i, w]
                t.paired[w] = t.paired[w] if good else 0.0
    for w in range(L):
        if t.paired[w] == 0.0:
            t.paired[w] = 1.0 if _dominates(t, w) else 0.0
        elif C == 1:
            t.paired[w] = 1.0 if t.M[0, 0, w] > 0.0 else 0.0


@jit(inner=True)
def _dominates(t, w):
    """Whether the diagonal of the classes that are not dropped dominates."""
    _, C, _ = t.M.shape
    for i in range(C):
        if (t.u[i, w] == 0.0) != (t.v[i, w] == 0.0):
            return False
        if t.u[i, w] == 0.0:
            continue
        if t.M[i, i, w] == 0.0:
            return False
        for j in range(i):
            if t.u[j, w] > 0.0 and not t.M[i, i, w] * t.M[j, j, w] > t.M[i, j, w] * t.M[j, i, w]:
                return False
    return True


@jit(inner=True)
def _pair_by_search(t, w):
    """Pair each row with its largest scaled cell if these lie in different columns, else by a positive diagonal."""
    _, C, _ = t.M.shape
    for j in range(C):
        t.p[j, w] = -1.0
    distinct = True
    for i in range(C):
        if t.u[i, w] == 0.0:
            continue
        best = 0
        for j in range(C):
            if t.M[i, j, w] * t.y[j, w] > t.M[i, best, w] * t.y[best, w]:
                best = j
        distinct = distinct and t.p[best, w] < 0.0
        t.p[best, w] = i
    if distinct:
        i = 0
        for j in range(C):  # what is left over is dropped on both sides, if their numbers agree
            if t.p[j, w] < 0.0:
                while i < C and t.u[i, w] > 0.0:
                    i += 1
                distinct = distinct and t.v[j, w] == 0.0
                t.p[j, w] = i
                i += 1
    if distinct:
        t.paired[w] = 1.0
        t.moved[w] = 1.0
        for j in range(C):
            t.order[np.int64(t.p[j, w]), w] = j
        permute(t, w)
        return
    for i in range(C):
        if (t.u[i, w] > 0.0 and t.M[i, i, w] == 0.0) or (t.u[i, w] == 0.0) != (t.v[i, w] == 0.0):
            return
    t.paired[w] = 1.0


@jit(inner=True)
def _plain_sweep(t):
    """One sweep of Sinkhorn and Knopp on the lanes without a pairing."""
    R, C, L = t.M.shape
    for j in range(C):
        t.col[j] = 0.0
    for i in range(R):
        t.a[:] = 0.0
        for j in range(C):
            for w in range(L):
                t.a[w] += t.M[i, j, w] * t.y[j, w]
        for w in range(L):
            t.x[i, w] = t.u[i, w] / t.a[w] if t.u[i, w] > 0.0 else 0.0
        for j in range(C):
            for w in range(L):
                t.col[j, w] += t.M[i, j, w] * t.x[i, w]
    for j in range(C):
        for w in range(L):
            y = t.v[j, w] / t.col[j, w] if t.v[j, w] > 0.0 else 0.0
            t.y[j, w] = y if t.paired[w] == 0.0 else t.y[j, w]


@jit(inner=True)
def _paired_start(t):
    _, C, L = t.M.shape
    for i in range(C):
        for w in range(L):
            m = t.M[i, i, w]
            positive = t.u[i, w] > 0.0 and m > 0.0 and t.paired[w] != 0.0
            t.x[i, w] = np.sqrt(t.u[i, w] / m) if positive else 0.0
            t.y[i, w] = np.sqrt(t.v[i, w] / m) if positive and t.warm[w] == 0.0 else t.y[i, w]
    for w in range(L):
        if t.warm[w] != 0.0 and t.paired[w] != 0.0:
            for i in range(C):
                s = 0.0
                for j in range(C):
                    s += t.M[i, j, w] * t.y[j, w]
                t.x[i, w] = t.u[i, w] / s if t.u[i, w] > 0.0 else 0.0


@jit(inner=True)
def _paired_sweep(t):
    """Solve row i and column i together, exactly, for every i: balances the flows that single rows cannot see."""
    _, C, _ = t.M.shape
    for i in range(C):
        t.a[:] = 0.0
        t.b[:] = 0.0
        _add_row(t.a, t.M, i, t.y, 0, i)
        _add_row(t.a, t.M, i, t.y, i + 1, C)
        _add_column(t.b, t.M, i, t.x, 0, i)
        _add_column(t.b, t.M, i, t.x, i + 1, C)
        _solve_pair(t.a, t.b, t.M[i, i], t.u[i], t.v[i], t.paired, t.x[i], t.y[i])


# The three sums below take four terms at a time, in order: fewer loads and stores of the sum, the same bits.


@jit(inner=True)
def _add_row(total, M, i, y, start, stop):
    """Add the sum of m_ij y_j over ``start <= j < stop``."""
    L = total.shape[0]
    whole = start + (stop - start) // 4 * 4
    for j in range(start, whole, 4):
        for w in range(L):
            total[w] = (
                total[w]
                + M[i, j, w] * y[j, w]
                + M[i, j + 1, w] * y[j + 1, w]
                + M[i, j + 2, w] * y[j + 2, w]
                + M[i, j + 3, w] * y[j + 3, w]
            )
    for j in range(whole, stop):
        for w in range(L):
            total[w] += M[i, j, w] * y[j, w]


@jit(inner=True)
def _add_column(total, M, j, x, start, stop):
    """Add the sum of m_ij x_i over ``start <= i < stop``."""
    L = total.shape[0]
    whole = start + (stop - start) // 4 * 4
    for i in range(start, whole, 4):
        for w in range(L):
            total[w] = (
                total[w]
                + M[i, j, w] * x[i, w]
                + M[i + 1, j, w] * x[i + 1, w]
                + M[i + 2, j, w] * x[i + 2, w]
                + M[i + 3, j, w] * x[i + 3, w]
            )
    for i in range(whole, stop):
        for w in range(L):
            total[w] += M[i, j, w] * x[i, w]


@jit(inner=True)
def _add_products(total, Q, j, k):
    """Add the sum of q_ij q_ik over i."""
    R, _, L = Q.shape
    whole = R // 4 * 4
    for i in range(0, whole, 4):
        for w in range(L):
            total[w] = (
                total[w]
                + Q[i, j, w] * Q[i, k, w]
                + Q[i + 1, j, w] * Q[i + 1, k, w]
                + Q[i + 2, j, w] * Q[i + 2, k, w]
                + Q[i + 3, j, w] * Q[i + 3, k, w]
            )
    for i in range(whole, R):
        for w in range(L):
            total[w] += Q[i, j, w] * Q[i, k, w]


@jit(inner=True)
def _solve_pair(row, col, middle, u, v, paired, x, y):
    """Find x and y with x (middle y + row) = u and y (middle x + col) = v."""
    for w in range(x.shape[0]):
        m = middle[w]
        A = m * row[w]
        B = row[w] * col[w] + m * (v[w] - u[w])
        G = u[w] * col[w]
        D = np.sqrt(B * B + 4.0 * A * G)
        # One quotient, chosen by its operands: a choice between two divisions would not vectorise.
        above = 2.0 * G if B >= 0.0 else D - B
        below = B + D if B >= 0.0 else 2.0 * A
        new_x = above / below
        new_y = v[w] / (m * new_x + col[w])
        # A lane without pairing, a dropped class, an underflow: the pair stays as it is.
        good = (new_x > 0.0) & (new_x < np.inf) & (new_y > 0.0) & (new_y < np.inf) & (paired[w] != 0.0)
        x[w] = new_x if good else x[w]
        y[w] = new_y if good else y[w]


@jit(inner=True)
def _row_pass(t):
    """Make the rows exact; leave cells, flows, sources and the residual."""
    R, C, L = t.M.shape
    square = R == C
    for j in range(C):
        t.col[j] = 0.0
        t.diag[j] = 0.0
    for i in range(R):
        t.a[:] = 0.0
        for j in range(C):
            if not (square and i == j):
                for w in range(L):
                    t.a[w] += t.M[i, j, w] * t.y[j, w]
        t.b[:] = 0.0
        if square:
            for w in range(L):
                t.b[w] = t.M[i, i, w] * t.y[i, w]
        for w in range(L):
            x = t.u[i, w] / (t.a[w] + t.b[w])
            t.x[i, w] = x if t.u[i, w] > 0.0 else 0.0
            t.off[i, w] = t.x[i, w] * t.a[w]
            t.a[w] = 1.0 / np.sqrt(t.u[i, w]) if t.u[i, w] > 0.0 else 0.0
        for j in range(C):
            if square and i == j:
                for w in range(L):
                    cell = t.x[i, w] * t.b[w]
                    t.diag[j, w] = cell
                    t.Q[i, j, w] = cell * t.a[w]
                continue
            for w in range(L):
                cell = t.x[i, w] * t.M[i, j, w] * t.y[j, w]
                t.col[j, w] += cell
                t.Q[i, j, w] = cell * t.a[w]
            if square:
                if j > i:
                    for w in range(L):
                        t.F[j, i, w] = -t.x[i, w] * t.M[i, j, w] * t.y[j, w] * t.paired[w]
                else:
                    for w in range(L):
                        t.F[i, j, w] += t.x[i, w] * t.M[i, j, w] * t.y[j, w] * t.paired[w]
    t.residual[:] = 0.0
    for j in range(C):
        for w in range(L):
            if square:
                balance = t.v[j, w] - t.u[j, w]
                g = balance + (t.off[j, w] - t.col[j, w])
                plain = t.v[j, w] - (t.col[j, w] + t.diag[j, w])
                t.q[j, w] = balance if t.paired[w] != 0.0 else plain
                g = g if t.paired[w] != 0.0 else plain
            else:
                g = t.v[j, w] - t.col[j, w]
                t.q[j, w] = g
            t.residual[w] += abs(g)
    for w in range(L):
        t.residual[w] /= t.total[w]


@jit(inner=True)
def _still_moving(t, tol, last_width, max_iter):
    """Stop the lanes that are done or lost; return whether any goes on."""
    moving = False
    for w in range(t.active.shape[0]):
        if t.active[w] == 0.0:
            continue
        # The residual alone would let cells smaller than the tolerance be wrong: the last step must be small too,
        # or have stopped shrinking at the level of rounding.
        small = t.rho[w] <= last_width or (t.rho[w] < 0.1 and t.rho[w] >= 0.5 * t.rho_before[w])
        if t.residual[w] <= tol and small:
            t.active[w] = 0.0
        elif not t.residual[w] < np.inf:
            t.active[w] = 0.0
            t.status[w] = RANGE
        elif t.n_iter[w] >= max_iter:
            t.active[w] = 0.0
            t.status[w] = MAX_ITER
        else:
            t.n_iter[w] += 1
            moving = True
    return moving


@jit(inner=True)
def _weights(t):
    _, C, _ = t.M.shape
    for j in range(1, C):
        for k in range(j):
            t.W[j, k] = 0.0
            _add_products(t.W[j, k], t.Q, j, k)


@jit(inner=True)
def _eliminate(t):
    """Solve L d = q + flows by star-mesh elimination, from the last column down, and substitute back."""
    R, C, L = t.M.shape
    square = R == C
    for k in range(C - 1, 0, -1):
        t.a[:] = 0.0
        for j in range(k):
            for w in range(L):
                t.a[w] += t.W[k, j, w]
        for w in range(L):
            t.r[k, w] = 1.0 / t.a[w] if t.a[w] > 0.0 else 0.0
            t.d[k, w] = t.q[k, w]
        for j in range(k):
            for w in range(L):
                t.p[j, w] = t.W[k, j, w] * t.r[k, w]
                t.q[j, w] += t.p[j, w] * t.q[k, w]
        if square:
            for j in range(k):
                for w in range(L):
                    t.d[k, w] += t.F[k, j, w]
        for j in range(1, k):
            for i in range(j):
                for w in range(L):
                    t.W[j, i, w] += t.p[j, w] * t.W[k, i, w]
                if square:
                    for w in range(L):
                        t.F[j, i, w] += t.p[j, w] * t.F[k, i, w] - t.p[i, w] * t.F[k, j, w]
    for w in range(L):
        t.d[0, w] = 0.0
    for k in range(1, C):
        for j in range(k):
            for w in range(L):
                t.d[k, w] += t.W[k, j, w] * t.d[j, w]
        for w in range(L):
            t.d[k, w] *= t.r[k, w]


@jit(inner=True)
def _advance(t):
    """Choose the length of the step without a line search, and take it."""
    _, C, L = t.M.shape
    t.a[:] = 0.0
    t.b[:] = 0.0
    for j in range(C):
        for w in range(L):
            d = t.d[j, w]
            t.a[w] = d if d < t.a[w] else t.a[w]
            t.b[w] = d if d > t.b[w] else t.b[w]
    for w in range(L):
        rho = t.b[w] - t.a[w]
        t.a[w] = 0.5 * (t.a[w] + t.b[w])  # keep the factors centred
        t.rho_before[w] = t.rho[w]
        t.rho[w] = rho
        t.step[w] = 1.0 if rho <= SAFE_WIDTH else max(SAFE_WIDTH, np.log1p(rho)) / rho
        t.step[w] *= t.active[w]
    for j in range(C):
        for w in range(L):
            t.y[j, w] *= _exp(t.step[w] * (t.d[j, w] - t.a[w]))


@jit(inline=True)
def _exp(z):
    """Positive and close to e**z, exact to second order at 0; the size of a step need not be exact, speed counts."""
    h = z * 0.03125
    p = 1.0 + h * (1.0 + h * (1 / 2 + h * (1 / 6 + h * (1 / 24 + h * (1 / 120 + h * (1 / 720))))))
    p *= p
    p *= p
    p *= p
    p *= p
    return p * p
