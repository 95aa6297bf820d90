"""Loops over one large matrix: rows are contiguous, every pass reads the matrix once.

Passes over rows take a range of blocks of rows. Each block adds into column sums of its own, and the caller adds these
in the order of the blocks, so that no number depends on how many threads shared the work.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

LINE = 8  # numbers in a cache line
SUM = frozenset({"reassoc", "contract", "nsz"})  # sums over a row in several parts, which vectors need


class Matrix(NamedTuple):
    """A matrix and what its rows and columns shall add up to."""

    cells: Any
    u: Any
    v: Any


class Sums(NamedTuple):
    """What every block of rows adds up."""

    cols: Any  # (blocks, C)
    missed: Any  # by its rows, (blocks,)
    rows: int  # of a block


class Rule(NamedTuple):
    """When sweeps end: at the `target`, where they stand `still`, when they were too many, or too many are left."""

    target: float
    still: float
    max_iter: int
    patience: float


@jit()
def survey(M):
    """Return the smallest positive cell, the largest cell, and whether one is zero, and one NaN, infinite, negative."""
    C = M.shape[1]
    low, high, least, odd = np.full(C, np.inf), np.zeros(C), np.full(C, np.inf), np.zeros(C)
    for i in range(M.shape[0]):
        for j in range(C):
            m = M[i, j]
            positive = m if m > 0.0 else np.inf
            low[j] = positive if positive < low[j] else low[j]
            high[j] = m if m > high[j] else high[j]
            least[j] = m if m < least[j] else least[j]
            odd[j] += m - m  # NaN from then on, of NaN and infinity
    lowest, highest, zero, bad = np.inf, 0.0, False, False
    for j in range(C):  # NumPy's own minimum takes a second to compile
        lowest, highest = min(lowest, low[j]), max(highest, high[j])
        zero |= least[j] == 0.0
        bad |= least[j] < 0.0 or odd[j] != 0.0
    return lowest, highest, zero, bad


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


@jit(inline=True)
def sweep(matrix, x, y, sums, start, stop):
    """Set x = u / (M y); leave what the rows missed with the old x, and the column sums with the new one."""
    M, u, _ = matrix
    cols, missed_rows, rows = sums
    R = M.shape[0]
    for block in range(start, stop):
        cols[block] = 0.0
        missed = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            s = _dot(M[i], y)
            missed += abs(x[i] * s - u[i])
            x[i] = u[i] / s
            _add_scaled(cols[block], M[i], x[i])
        missed_rows[block] = missed


@jit()
def measure(matrix, x, y, sums, out, start, stop):
    """Write diag(x) M diag(y); leave what the rows miss, and the column sums."""
    M, u, _ = matrix
    cols, missed_rows, rows = sums
    R, C = M.shape
    write = out.shape[0] > 0
    cells = np.empty(C)
    for block in range(start, stop):
        cols[block] = 0.0
        missed = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            total = 0.0
            for j in range(C):
                cell = x[i] * M[i, j] * y[j]
                cells[j] = cell
                total += cell
                cols[block, j] += cell
            if write:
                out[i] = cells
            missed += abs(total - u[i])
        missed_rows[block] = missed


@jit()
def sweeps(matrix, x, last, y, sums, state, rule, most):
    """Sweep until the residual is at most that of the rule, `most` times here.

    The state is how often it was before, and the residual of the last one.

    Return how often it was in all, the residual, that of the sweep before, whether it was given up, and whether this is
    the end. At the end `last` and `y` are the factors that the residual belongs to. It is given up where more sweeps
    would be left at the present rate than the patience allows; if that is infinite, where nothing changes any more and
    the residual is small enough.
    """
    _, u, v = matrix
    k, before = state
    total, residual = 0.0, np.inf
    for i in range(u.shape[0]):
        total += u[i]
    for _ in range(most):
        last[:] = x
        sweep(matrix, x, y, sums, 0, 1)
        residual = sums.missed[0] / total
        if ended(k, residual, before, rule):
            return k, residual, before, False, True
        if slow(k, residual, before, rule):
            return k, residual, before, True, True
        before = residual if k > 0 else np.inf
        for j in range(v.shape[0]):
            y[j] = v[j] / sums.cols[0, j]
        k += 1
    return k, residual, before, False, False


@jit(inline=True)
def ended(k, residual, before, rule):
    """Whether sweep `k`, whose residual this is, was the last one."""
    if not residual < np.inf or (k > 0 and residual <= rule.target) or k >= rule.max_iter:
        return True
    return rule.patience == np.inf and residual <= rule.still and residual >= before


@jit(inline=True)
def slow(k, residual, before, rule):
    """Whether more sweeps would be left at the present rate than the patience allows."""
    if rule.patience == np.inf or k < 2 or before == np.inf:
        return False
    rate = residual / before
    return rate >= 1.0 or np.log(residual / rule.target) > rule.patience * -np.log(rate)


@jit()
def smallest(M, x, y):
    """Return the smallest positive scaled cell, and whether a cell is zero."""
    C = M.shape[1]
    low, least = np.full(C, np.inf), np.full(C, np.inf)
    for i in range(M.shape[0]):
        for j in range(C):
            cell = x[i] * M[i, j] * y[j]
            positive = cell if cell > 0.0 else np.inf
            low[j] = positive if positive < low[j] else low[j]
            least[j] = cell if cell < least[j] else least[j]
    lowest, zero = np.inf, False
    for j in range(C):
        lowest = min(lowest, low[j])
        zero |= least[j] == 0.0
    return lowest, zero


@jit()
def largest_of_rows(M, y, order):
    """Write the column of the largest scaled cell of each row."""
    for i in range(M.shape[0]):
        order[i] = _largest(M[i], y)


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


@jit(fastmath=SUM)
def paired_sweep(matrix, x, y):
    """Solve row i and column i together, for every i: x (m y + a) = u and y (m x + b) = v.

    The columns are summed eight at a time, which is a cache line of every row.
    """
    M, u, v = matrix
    n = M.shape[0]
    sums, kept = np.empty(LINE), np.empty(LINE)
    for first in range(0, n, LINE):
        last = min(first + LINE, n)
        kept[: last - first] = x[first:last]
        x[first:last] = 0.0  # the rows of this block change on the way: they are added at the end
        sums[:] = 0.0
        for k in range(n):
            for t in range(last - first):
                sums[t] += x[k] * M[k, first + t]
        x[first:last] = kept[: last - first]
        for i in range(first, last):
            m = M[i, i]
            a = _dot(M[i, :i], y[:i]) + _dot(M[i, i + 1 :], y[i + 1 :])
            b = sums[i - first]
            for k in range(first, last):
                b += x[k] * M[k, i] if k != i else 0.0
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
def row_pass(matrix, x, y, off, sums, paired, start, stop):
    """Set x = u / (M y) and leave the sums of scaled cells, without the paired ones; those of rows are `off`."""
    M, u, _ = matrix
    cols, _, rows = sums
    R = M.shape[0]
    for block in range(start, stop):
        cols[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            if paired:
                s = _dot(M[i, :i], y[:i]) + _dot(M[i, i + 1 :], y[i + 1 :])
                x[i] = u[i] / (s + M[i, i] * y[i])
                off[i] = x[i] * s
                _add_cells(cols[block, :i], M[i, :i], y[:i], x[i])
                _add_cells(cols[block, i + 1 :], M[i, i + 1 :], y[i + 1 :], x[i])
            else:
                x[i] = u[i] / _dot(M[i], y)
                _add_cells(cols[block], M[i], y, x[i])


@jit(inner=True)
def _add_cells(out, m, y, x):
    for j in range(m.shape[0]):
        out[j] += x * m[j] * y[j]


@jit()
def diagonal(matrix, x, y, sums, paired, start, stop):
    """Sum over i of p_ij (u_i - p_ij) / u_i, the diagonal of L; what the largest cell of a row lacks is added up."""
    M, u, _ = matrix
    cols, _, rows = sums
    R = M.shape[0]
    for block in range(start, stop):
        cols[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            top = i if paired else _largest(M[i], y)
            rest = _add_lacks(cols[block, :top], M[i, :top], y[:top], x[i], u[i])
            rest += _add_lacks(cols[block, top + 1 :], M[i, top + 1 :], y[top + 1 :], x[i], u[i])
            cols[block, top] += x[i] * M[i, top] * y[top] * rest / u[i]


@jit(inner=True)
def _largest(m, y):
    best, most = 0, -1.0
    for j in range(m.shape[0]):
        if m[j] * y[j] > most:
            best, most = j, m[j] * y[j]
    return best


@jit(inner=True, fastmath=SUM)
def _add_lacks(out, m, y, x, u):
    """Add p (u - p) / u for each cell p of a row; return the sum of the cells."""
    total, share = 0.0, 1.0 / u
    for j in range(m.shape[0]):
        cell = x * m[j] * y[j]
        out[j] += cell * (1.0 - cell * share)
        total += cell
    return total


@jit()
def product(matrix, x, y, z, sums, paired, start, stop):
    """Column sums of L z: differences of z only, so that a shift of all of it costs no digits."""
    M, u, _ = matrix
    cols, _, rows = sums
    R, C = M.shape
    yz = np.empty(C)
    for j in range(C):
        yz[j] = y[j] * z[j]
    for block in range(start, stop):
        cols[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            middle = z[i] if paired else x[i] * _dot(M[i], yz) / u[i]
            share = x[i] / u[i] * _lean(M[i], y, z, middle)
            _add_differences(cols[block], M[i], y, z, middle + share, x[i])


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
