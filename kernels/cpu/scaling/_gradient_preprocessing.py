"""Preparation of a gradient of scaling, and its last step: factors of limits, gradients in log factors, block links.

A limit has no factors, but within each of its blocks they follow from its cells. A cell that links two blocks is zero
in the scaled matrix for any input, so its gradient is zero.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.status import LIMIT_ONLY


@jit()
def _compute_limit_factors(M, matrix, status, row, col, m):
    """Compute factors of every LIMIT_ONLY matrix, block by block, and copy its supported cells to `m`."""
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
def _convert_to_log_factors(row, col, of_row, of_col, s, t):
    """Convert gradients in normalised factors to gradients `s`, `t` in log factors of any normalisation.

    The mean log row factor is normalised to zero, so the row gradients absorb the difference of the two totals.
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
def _zero_block_links(M, m_step, amount, R, C, out):
    """Set the gradient to zero where a cell of zero links two connected blocks, in place."""
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


def prepare_part(problem, matrix, R, C, start, stop, *, narrow):
    """Return the problem of the matrices from `start` to before `stop`, with factors for limits, in float64.

    Gradients in factors become those in log factors. With `narrow` the cells and their gradients keep their type.
    """
    M, m_step, row, col, amount, status, G, of_row, of_col = problem
    cells_as = _make_read_only if narrow else _convert_to_float64
    M = cells_as(M[start:stop] if m_step else M)
    row, col, amount, status = row[start:stop], col[start:stop], amount[start:stop], status[start:stop]
    limits = status == LIMIT_ONLY
    if matrix is not None and limits.any():
        given = np.broadcast_to(M, (stop - start, R * C))
        M, m_step, cells_as = np.array(given, np.float64), 1, _convert_to_float64
        row, col = np.array(row), np.array(col)
        _compute_limit_factors(_convert_to_float64(given), _convert_to_float64(matrix[start:stop]), status, row, col, M)
        M, row, col = cells_as(M), _convert_to_float64(row), _convert_to_float64(col)
    s, t = of_row[start:stop], of_col[start:stop]
    if len(s):
        factors = problem[2][start:stop], problem[3][start:stop]
        of_row, of_col, s, t = s, t, np.empty(s.shape), np.empty(t.shape)
        _convert_to_log_factors(*factors, of_row, of_col, s, t)
    return M, m_step, row, col, amount, status, cells_as(G[start:stop]), _convert_to_float64(s), _convert_to_float64(t)


def _convert_to_float64(a):
    """Return a read-only float64 array, so that kernels are compiled for one type."""
    return _make_read_only(np.ascontiguousarray(a, np.float64))


def _make_read_only(a):
    """Return a read-only view."""
    a = a[:]
    a.flags.writeable = False
    return a


def zero_block_links(M, m_step, amount, R, C, out):
    """Set the gradient to zero, in place, where a cell links two blocks with no other cell in common."""
    _zero_block_links(M, m_step, amount, R, C, out)
