"""What stands before and after the solve of a gradient of scaling: limits, gradients in factors, zeros.

A limit has no factors; within a block of it they follow from its cells. A cell that joins two blocks is zero in the
scaled matrix whatever it holds, so its gradient is zero.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.status import LIMIT_ONLY


@jit()
def _find_factors(M, matrix, status, row, col, m):
    """Write factors of every limit, and its cells without the dead ones."""
    R, C = row.shape[1], col.shape[1]
    todo = np.empty(R + C, np.int64)
    for b in range(len(status)):
        if status[b] != LIMIT_ONLY:
            continue
        cells = m[b]
        for k in range(R * C):
            cells[k] = M[b, k] if matrix[b, k] > 0.0 else 0.0
        x, y = row[b], col[b]
        x[:], y[:] = 0.0, 0.0
        for first in range(R):
            if x[first] != 0.0 or not cells[first * C : first * C + C].any():
                continue
            x[first], todo[0], number = 1.0, first, 1
            while number > 0:
                number -= 1
                node = todo[number]
                for other in range(C if node < R else R):
                    i, j = (node, other) if node < R else (other, node - R)
                    there, here = (y[j], x[i]) if node < R else (x[i], y[j])
                    if cells[i * C + j] > 0.0 and there == 0.0:
                        found = matrix[b, i * C + j] / cells[i * C + j] / here
                        todo[number] = R + j if node < R else i
                        number += 1
                        if node < R:
                            y[j] = found
                        else:
                            x[i] = found


@jit()
def _of_logarithms(row, col, of_row, of_col, s, t):
    """Make the gradients in the logarithms of factors of any gauge from those in the factors as they are returned.

    The mean logarithm of those of the rows is zero, which takes what the two sides differ by.
    """
    for b in range(len(row)):
        gap, number = 0.0, 0.0
        for j in range(col.shape[1]):
            t[b, j] = of_col[b, j] * col[b, j]
            gap += t[b, j]
        for i in range(row.shape[1]):
            s[b, i] = of_row[b, i] * row[b, i]
            gap -= s[b, i]
            number += 0.0 if row[b, i] == 0.0 else 1.0
        for i in range(row.shape[1]):
            s[b, i] += 0.0 if row[b, i] == 0.0 else gap / number


@jit()
def _separate(M, m_step, amount, R, C, out):
    """Put zeros where a cell joins two blocks."""
    label, todo = np.empty(R + C, np.int64), np.empty(R + C, np.int64)
    for b in range(len(out)):
        cells = M[b * m_step]
        if amount[b] != 0.0 or cells.all():
            continue
        label[:] = -1
        for first in range(R + C):
            if label[first] >= 0:
                continue
            label[first], todo[0], number = first, first, 1
            while number > 0:
                number -= 1
                node = todo[number]
                for other in range(C if node < R else R):
                    place = node * C + other if node < R else other * C + node - R
                    there = R + other if node < R else other
                    if cells[place] != 0.0 and label[there] < 0:
                        label[there] = first
                        todo[number] = there
                        number += 1
        for i in range(R):
            for j in range(C):
                if label[i] != label[R + j] and not np.isnan(out[b, i * C + j]):
                    out[b, i * C + j] = 0.0


def part_of(problem, matrix, R, C, start, stop, *, narrow):
    """Return the problem of the matrices from `start` to before `stop`, with factors for limits.

    Gradients in factors become those in their logarithms. In float64, but for the cells and their gradients if
    `narrow`.
    """
    M, m_step, row, col, amount, status, G, of_row, of_col = problem
    cells_as = _read_only if narrow else _in_float64
    M = cells_as(M[start:stop] if m_step else M)
    row, col, amount, status = row[start:stop], col[start:stop], amount[start:stop], status[start:stop]
    limits = status == LIMIT_ONLY
    if matrix is not None and limits.any():
        given = np.broadcast_to(M, (stop - start, R * C))
        M, m_step, cells_as = np.array(given, np.float64), 1, _in_float64
        row, col = np.array(row), np.array(col)
        _find_factors(_in_float64(given), _in_float64(matrix[start:stop]), status, row, col, M)
        M, row, col = cells_as(M), _in_float64(row), _in_float64(col)
    s, t = of_row[start:stop], of_col[start:stop]
    if len(s):
        factors = problem[2][start:stop], problem[3][start:stop]
        of_row, of_col, s, t = s, t, np.empty(s.shape), np.empty(t.shape)
        _of_logarithms(*factors, of_row, of_col, s, t)
    return M, m_step, row, col, amount, status, cells_as(G[start:stop]), _in_float64(s), _in_float64(t)


def _in_float64(a):
    """Return an array in float64, read-only: kernels see one type."""
    return _read_only(np.ascontiguousarray(a, np.float64))


def _read_only(a):
    a = a[:]
    a.flags.writeable = False
    return a


def separate(M, m_step, amount, R, C, out):
    """Put zeros where a cell joins two blocks that have no other cell in common."""
    _separate(M, m_step, amount, R, C, out)
