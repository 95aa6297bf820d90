"""Loops over one large matrix: rows are contiguous, every pass reads the matrix once.

Passes over rows take a range of blocks of rows. Each block adds into column sums of its own, and the caller adds these
in the order of the blocks, so that no number depends on how many threads shared the work.
"""

import numpy as np

from cmfast.kernels.cpu._jit import jit

SUM = frozenset({"reassoc", "contract", "nsz"})  # sums over a row in several parts, which vectors need
NORMAL = 2.0**-1022  # weights below it have lost digits, and their reciprocals may overflow


@jit()
def survey(M):
    """Return the smallest positive cell, the largest cell, and whether one is zero, and one NaN, infinite, negative."""
    low, high, zero, bad = np.inf, 0.0, False, False
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            m = M[i, j]
            bad |= not 0.0 <= m < np.inf
            zero |= m == 0.0
            low = m if 0.0 < m < low else low
            high = m if m > high else high
    return low, high, zero, bad


@jit(inner=True, fastmath=SUM)
def _dot(a, b):
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@jit(inner=True, fastmath=SUM)
def _add_scaled(out, a, factor):
    for k in range(a.shape[0]):
        out[k] += factor * a[k]


@jit()
def sweep(M, u, y, x, error, sums, rows, start, stop):
    """Set x = u / (M y); `error` gets what the rows missed with the old x, `sums` the column sums with the new one."""
    R = M.shape[0]
    for block in range(start, stop):
        sums[block] = 0.0
        missed = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            s = _dot(M[i], y)
            missed += abs(x[i] * s - u[i])
            x[i] = u[i] / s
            _add_scaled(sums[block], M[i], x[i])
        error[block] = missed


@jit()
def measure(M, u, y, x, error, sums, out, rows, start, stop):
    """Write diag(x) M diag(y); `error` gets what the rows miss, `sums` the column sums."""
    R, C = M.shape
    write = out.shape[0] > 0
    cells = np.empty(C)
    for block in range(start, stop):
        sums[block] = 0.0
        missed = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            total = 0.0
            for j in range(C):
                cell = x[i] * M[i, j] * y[j]
                cells[j] = cell
                total += cell
                sums[block, j] += cell
            if write:
                out[i] = cells
            missed += abs(total - u[i])
        error[block] = missed


@jit()
def sweeps(M, u, v, x, last, y, error, sums, k, target, max_iter, patience):
    """Sweep until the residual is at most `target`; return how often, the residual, and whether that was given up.

    `last` and `y` are the factors that the residual belongs to. It is given up where more than `patience` sweeps
    would be left at the present rate.
    """
    total, before = 0.0, np.inf
    for i in range(u.shape[0]):
        total += u[i]
    while True:
        last[:] = x
        sweep(M, u, y, x, error, sums, M.shape[0], 0, 1)
        residual = error[0] / total
        if not residual < np.inf or (k > 0 and residual <= target) or k >= max_iter:
            return k, residual, False
        if k > 1 and before < np.inf:
            rate = residual / before
            if rate >= 1.0 or np.log(residual / target) > patience * -np.log(rate):
                return k, residual, True
        before = residual if k > 0 else np.inf
        for j in range(v.shape[0]):
            y[j] = v[j] / sums[0, j]
        k += 1


@jit()
def smallest(M, x, y):
    """Return the smallest positive scaled cell, and whether a cell is zero."""
    low, zero = np.inf, False
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            cell = x[i] * M[i, j] * y[j]
            zero |= cell == 0.0
            low = cell if 0.0 < cell < low else low
    return low, zero


@jit()
def largest_of_rows(M, y, order):
    """Write the column of the largest scaled cell of each row."""
    for i in range(M.shape[0]):
        best, most = 0, -1.0
        for j in range(M.shape[1]):
            if M[i, j] * y[j] > most:
                best, most = j, M[i, j] * y[j]
        order[i] = best


@jit()
def dominates(M):
    """Whether m_ii m_jj > m_ij m_ji for every i and j."""
    n = M.shape[0]
    for i in range(n):
        good = M[i, i] > 0.0
        for j in range(i):
            good &= M[i, i] * M[j, j] > M[i, j] * M[j, i]
        if not good:
            return False
    return True


@jit()
def paired_sweep(M, u, v, x, y):
    """Solve row i and column i together, for every i: x (m y + a) = u and y (m x + b) = v."""
    n = M.shape[0]
    for i in range(n):
        m = M[i, i]
        a = _dot(M[i, :i], y[:i]) + _dot(M[i, i + 1 :], y[i + 1 :])
        b = _dot(M[:i, i], x[:i]) + _dot(M[i + 1 :, i], x[i + 1 :])
        A = m * a
        B = a * b + m * (v[i] - u[i])
        G = u[i] * b
        D = np.sqrt(B * B + 4.0 * A * G)
        new_x = 2.0 * G / (B + D) if B >= 0.0 else (D - B) / (2.0 * A)
        new_y = v[i] / (m * new_x + b)
        if 0.0 < new_x < np.inf and 0.0 < new_y < np.inf:
            x[i] = new_x
            y[i] = new_y


@jit()
def row_pass(M, u, y, x, off, diag, sums, paired, rows, start, stop):
    """Set x = u / (M y) and leave the sums of scaled cells, the paired ones apart."""
    R = M.shape[0]
    for block in range(start, stop):
        sums[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            if paired:
                s = _dot(M[i, :i], y[:i]) + _dot(M[i, i + 1 :], y[i + 1 :])
                x[i] = u[i] / (s + M[i, i] * y[i])
                off[i] = x[i] * s
                diag[i] = x[i] * M[i, i] * y[i]
                _add_cells(sums[block, :i], M[i, :i], y[:i], x[i])
                _add_cells(sums[block, i + 1 :], M[i, i + 1 :], y[i + 1 :], x[i])
            else:
                x[i] = u[i] / _dot(M[i], y)
                _add_cells(sums[block], M[i], y, x[i])


@jit(inner=True)
def _add_cells(out, m, y, x):
    for j in range(m.shape[0]):
        out[j] += x * m[j] * y[j]


@jit()
def dense_step(M, u, x, y, q, paired, d):
    """Solve L d = q + flows by star-mesh elimination, L with the weights W_jk = sum of p_ij p_ik / u_i over i.

    Only additions of nonnegative numbers; `q` is used up.
    """
    R, C = M.shape
    W, F = np.zeros((C, C)), np.zeros((C if paired else 0, C))
    Q = np.empty((4, C))
    for first in range(0, R, 4):
        for r in range(4):
            i = first + r
            if i < R:
                root = x[i] / np.sqrt(u[i])
                for j in range(C):
                    Q[r, j] = root * M[i, j] * y[j]
            else:
                Q[r] = 0.0
        _add_four(W, Q)
    if paired:
        for i in range(C):
            for j in range(i):
                F[i, j] += x[i] * M[i, j] * y[j]
            for j in range(i + 1, C):
                F[j, i] -= x[i] * M[i, j] * y[j]
    _eliminate(W, F, q, paired, d)


# Rows are named by number here: a view of a row costs more than a short loop over it.


@jit(inner=True)
def _add_four(W, Q):
    """Add the products of the columns of four rows."""
    for j in range(1, W.shape[0]):
        a, b, c, d = Q[0, j], Q[1, j], Q[2, j], Q[3, j]
        for k in range(j):
            W[j, k] += a * Q[0, k] + b * Q[1, k] + c * Q[2, k] + d * Q[3, k]


@jit(inner=True, fastmath=SUM)
def _sum_row(A, k):
    total = 0.0
    for j in range(k):
        total += A[k, j]
    return total


@jit(inner=True)
def _eliminate(W, F, q, paired, d):
    C = W.shape[0]
    p, r = np.empty(C), np.zeros(C)
    for k in range(C - 1, 0, -1):
        total = _sum_row(W, k)
        d[k] = q[k] + _sum_row(F, k) if paired else q[k]
        r[k] = 1.0 / total if total >= NORMAL else 0.0
        for j in range(k):
            p[j] = W[k, j] * r[k]
            q[j] += p[j] * q[k]
        for j in range(1, k):
            share = p[j]
            for i in range(j):
                W[j, i] += share * W[k, i]
            if paired:
                flow = F[k, j]
                for i in range(j):
                    F[j, i] += share * F[k, i] - p[i] * flow
    d[0] = 0.0
    for k in range(1, C):
        total = d[k]
        for j in range(k):
            total += W[k, j] * d[j]
        d[k] = total * r[k]


@jit()
def diagonal(M, u, x, y, sums, rows, start, stop):
    """Sum over i of p_ij (u_i - p_ij) / u_i, the diagonal of L; what the largest cell of a row lacks is added up."""
    R, C = M.shape
    P = np.empty(C)
    for block in range(start, stop):
        sums[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            top = 0
            for j in range(C):
                P[j] = x[i] * M[i, j] * y[j]
                top = j if P[j] > P[top] else top
            rest = 0.0
            for j in range(C):
                rest += P[j] if j != top else 0.0
            for j in range(C):
                sums[block, j] += P[j] * (u[i] - P[j] if j != top else rest) / u[i]


@jit()
def product(M, u, x, y, z, sums, paired, rows, start, stop):
    """Column sums of L z: differences of z only, so that a shift of all of it costs no digits."""
    R, C = M.shape
    yz = np.empty(C)
    for j in range(C):
        yz[j] = y[j] * z[j]
    for block in range(start, stop):
        sums[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            middle = z[i] if paired else x[i] * _dot(M[i], yz) / u[i]
            share = x[i] / u[i] * _lean(M[i], y, z, middle)
            _add_differences(sums[block], M[i], y, z, middle + share, x[i])


@jit(inner=True, fastmath=SUM)
def _lean(m, y, z, middle):
    """Sum of m_j y_j (z_j - middle)."""
    total = 0.0
    for j in range(m.shape[0]):
        total += m[j] * y[j] * (z[j] - middle)
    return total


@jit(inner=True)
def _add_differences(out, m, y, z, middle, x):
    for j in range(m.shape[0]):
        out[j] += x * m[j] * y[j] * (z[j] - middle)
