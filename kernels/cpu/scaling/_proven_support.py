"""Proof, from a scaled matrix, that each of its positive cells has support, so that its zeros need no classification.

Suppose that a positive cell has no support. Then some rows can send their targets only to columns whose targets these
are, up to rounding, and the cell is in another row of these columns (maximum flow and minimum cut). So the cell is at
most as large as the total error of the sums. If the sums cannot be met at all, the same holds for all such cells, and
in a pattern that is connected there is one.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.scaling import FLOW_SLACK
from cmfast.kernels.status import OK


@jit(inner=True, borrows=True)
def is_connected(M, rows, cols):
    """Test whether the positive cells of a matrix connect all its rows and columns; mark those that they reach."""
    R, C = rows.shape[0], cols.shape[0]
    reached, before = 1, 0
    for i in range(R):
        rows[i] = i == 0
    for j in range(C):
        cols[j] = M[j] > 0.0
    while before < reached < R:
        before = reached
        for i in range(1, R):
            if rows[i]:
                continue
            for j in range(C):
                if cols[j] and M[i * C + j] > 0.0:
                    rows[i] = True
                    break
            if rows[i]:
                reached += 1
                for j in range(C):
                    cols[j] |= M[i * C + j] > 0.0
    for j in range(C):
        reached += cols[j]
    return reached == R + C


@jit(inner=True, inline=True)
def is_supported(least, residual, total):
    """Test whether the smallest positive scaled cell is larger than any cell without support of a connected matrix."""
    return least > (2.0 * residual + 4.0 * FLOW_SLACK) * total


@jit(inner=True, borrows=True)
def _find_smallest(M, x, y, low):
    """Return the smallest scaled positive cell of a matrix, 0 unless all factors are; `low` is memory of one line."""
    C, good = y.shape[0], True
    for i in range(x.shape[0]):
        good &= 0.0 < x[i] < np.inf
    for j in range(C):
        good &= 0.0 < y[j] < np.inf
        low[j] = np.inf
    if not good:
        return 0.0
    for i in range(x.shape[0]):
        for j in range(C):
            m = M[i * C + j]
            p = m * x[i] * y[j] if m > 0.0 else np.inf
            low[j] = low[j] if low[j] < p else p
    least = np.inf
    for j in range(C):
        least = min(least, low[j])
    return least


@jit()
def _find_unproven(cells, row_sums, factors, numbers, unproven):
    """Write which matrices are not scaled, or have a positive cell that may have no support.

    `factors` are those of rows and of columns, `numbers` residual and status. All matrices may share cells or targets.
    """
    (x, y), (residual, status) = factors, numbers
    R, C = x.shape[1], y.shape[1]
    low, rows, cols = np.empty(C), np.empty(R, np.bool_), np.empty(C, np.bool_)
    for b in range(status.shape[0]):
        M, whole = cells[b * min(cells.shape[0] - 1, 1)], 0.0
        for i in range(R):
            whole += row_sums[b * min(row_sums.shape[0] - 1, 1), i]
        unproven[b] = True
        if status[b] == OK and is_supported(_find_smallest(M, x[b], y[b], low), residual[b], whole):
            unproven[b] = not is_connected(M, rows, cols)


def find_unproven(p, first, end):
    """Return which matrices from `first` to before `end` are not scaled, or have a cell that may have no support.

    The numbers returned begin at `first`.
    """
    unproven, part = np.empty(end - first, np.bool_), slice(first, end)
    cells = p.cells[part] if p.m_step else p.cells
    row_sums = p.row_sums.values[part] if p.row_sums.step else p.row_sums.values
    _find_unproven(cells, row_sums, (p.out_row[part], p.out_col[part]), (p.residual[part], p.status[part]), unproven)
    return np.flatnonzero(unproven)
