"""Before a solver sees matrices with zeros: refuse those that no scaling or limit exists for, clear cells that die."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling._rules import compare_totals
from cmfast.kernels.cpu.zeros._classify import classify
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, MAX_ITER, OK

QUICK = 62  # classes whose set fits into one word
UNDECIDED = -1


@jit()
def has_zero(cells):
    """Whether any cell of one axis is zero; reads everything, for that is faster than stopping early."""
    found = False
    for k in range(cells.shape[0]):
        found |= cells[k] == 0.0
    return found


@jit()
def _prune_by_diagonal(cells, drop, out, codes):
    """Decide the square matrices whose diagonal is positive; return how many are left, UNDECIDED.

    So only who has such matrices waits for the rest to be compiled.
    """
    n = int(np.sqrt(cells.shape[1]))
    reach = np.empty(n, np.int64)
    left = 0
    for b in range(len(codes)):
        m = b if len(cells) > 1 else 0
        for k in range(n * n):
            out[b, k] = cells[m, k]
        codes[b] = _decide_by_diagonal(cells, m, drop, reach, out, b)
        left += codes[b] == UNDECIDED
    return left


@jit()
def _prune(cells, row_sums, col_sums, drop, bi, out, codes):
    """Decide the matrices that are UNDECIDED."""
    R, C = row_sums.shape[1], col_sums.shape[1]
    positive, dead = np.empty((R, C), np.bool_), np.empty((R, C), np.bool_)
    row_block, col_block = np.empty(R, np.int64), np.empty(C, np.int64)
    rows, cols = np.empty(R, np.bool_), np.empty(C, np.bool_)
    u, v = np.empty(R), np.empty(C)
    for b in range(len(codes)):
        if codes[b] != UNDECIDED:
            continue
        M = cells[b * min(len(cells) - 1, 1)]
        codes[b] = OK
        for k in range(R * C):
            out[b, k] = M[k]
        for i in range(R):
            u[i] = row_sums[b * min(len(row_sums) - 1, 1), i]
        for j in range(C):
            v[j] = col_sums[b * min(len(col_sums) - 1, 1), j]
        if not _plausible(M, positive, u, v, rows, cols, drop and bi):
            continue
        codes[b] = classify(positive, u, v, dead, row_block, col_block, rows, cols)
        if codes[b] == INFEASIBLE:
            for k in range(R * C):
                out[b, k] = np.nan  # the solver stops at once
        elif codes[b] == LIMIT_ONLY:
            for i in range(R):
                for j in range(C):
                    if dead[i, j]:
                        out[b, i * C + j] = 0.0


@jit(inner=True)
def _plausible(cells, positive, u, v, rows, cols, drop):
    """Whether there is a zero and nothing simpler is wrong, which the solver reports; note the positive cells."""
    R, C = positive.shape
    for i in range(R):
        rows[i] = False
    for j in range(C):
        cols[j] = False
    good, zero = True, False
    for i in range(R):
        for j in range(C):
            m = cells[i * C + j]
            good = good and 0.0 <= m < np.inf
            zero = zero or m == 0.0
            positive[i, j] = m > 0.0
            rows[i] = rows[i] or m > 0.0
            cols[j] = cols[j] or m > 0.0
    if not (good and zero):
        return False
    U, V = 0.0, 0.0
    for i in range(R):
        if drop and not rows[i] and not cols[i]:
            u[i] = 0.0
            v[i] = 0.0
        good = good and 0.0 <= u[i] < np.inf and (rows[i] or u[i] == 0.0)
        U += u[i]
    for j in range(C):
        good = good and 0.0 <= v[j] < np.inf and (cols[j] or v[j] == 0.0)
        V += v[j]
    if not good or compare_totals(U, V) != OK:
        return False
    if U != V:
        for j in range(C):
            v[j] *= U / V
    for i in range(R):
        rows[i] = u[i] == 0.0
        for j in range(C):
            rows[i] = rows[i] or (positive[i, j] and v[j] > 0.0)
        good = good and rows[i]
    for j in range(C):
        cols[j] = v[j] == 0.0
        for i in range(R):
            cols[j] = cols[j] or (positive[i, j] and u[i] > 0.0)
        good = good and cols[j]
    return good  # else a line is empty without the dropped ones


@jit(inner=True)
def _decide_by_diagonal(cells, k, drop, reach, out, b):
    """Clear what dies where the diagonal of square matrix `k` is positive; return OK, LIMIT_ONLY or UNDECIDED.

    Then the diagonal is a perfect matching, and a cell lives if the class it leads to leads back.
    """
    n = len(reach)
    good, union = True, np.int64(0)
    for i in range(n):
        bits = np.int64(0)
        for j in range(n):
            m = cells[k, i * n + j]
            good &= (m >= 0.0) & (m < np.inf)
            bits |= np.int64(m > 0.0) << j
        reach[i] = bits
        union |= bits
    if not good:
        return OK  # which the solver reports
    present = np.int64(0)
    for i in range(n):
        if reach[i] >> i & 1:
            present |= 1 << i
        elif not (drop and reach[i] == 0 and not union >> i & 1):
            return UNDECIDED
    if present == 0:
        return UNDECIDED
    if _strongly_connected(reach, present):
        return OK
    code = OK
    _close(reach)
    for i in range(n):
        for j in range(n):
            if not reach[j] >> i & 1 and out[b, i * n + j] > 0.0:
                out[b, i * n + j] = 0.0
                code = LIMIT_ONLY
    return code


@jit(inner=True)
def _strongly_connected(reach, present):
    """Whether the first class reaches all the others, and they it."""
    n = len(reach)
    first = present & -present
    there, back, before = first, first, 0
    while before != there:
        before = there
        for i in range(n):
            there |= reach[i] * (there >> i & 1)
    before = 0
    while before != back:
        before = back
        for i in range(n):
            back |= np.int64(reach[i] & back != 0) << i
    return there == present and back == present


@jit(inner=True)
def _close(reach):
    """Make `reach` transitive (Warshall)."""
    n = len(reach)
    for k in range(n):
        for i in range(n):
            reach[i] |= reach[k] * (reach[i] >> k & 1)


def prune(p):
    """Return the matrices with what dies set to zero and what has no limit set to NaN, and the code of each."""
    out, codes = np.empty((p.n, p.R * p.C)), np.full(p.n, UNDECIDED, np.int8)
    if not (p.bi and p.C <= QUICK) or _prune_by_diagonal(p.cells, p.drop, out, codes):
        _prune(p.cells, p.row_sums.values, p.col_sums.values, p.drop, p.bi, out, codes)
    out.flags.writeable = False
    return out, codes


def amend(codes, out_row, out_col, status):
    """Say of the results what the zeros decided: no factors where there is only a limit."""
    limit = (codes == LIMIT_ONLY) & (status <= MAX_ITER)
    out_row[limit] = np.nan
    out_col[limit] = np.nan
    status[limit & (status == OK)] = LIMIT_ONLY
    status[codes == INFEASIBLE] = INFEASIBLE
