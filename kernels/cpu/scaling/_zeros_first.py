"""Before a solver sees matrices with zeros: refuse those that no scaling or limit exists for, clear cells that die."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.cpu.zeros._classify import classify
from cmfast.kernels.cpu.zeros._sets import PARTS
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, MAX_ITER, OK

MOST_WORD_CLASSES = 62  # classes whose set fits into one word


@jit(borrows=True)
def has_zero(cells):
    """Whether any cell of one axis is zero; reads everything, for that is faster than stopping early."""
    found = False
    for k in range(cells.shape[0]):
        found |= cells[k] == 0.0
    return found


@jit()
def _prune_equal(cells, drop, out, codes):
    """Decide square matrices whose rows and columns are to sum to one, of at most MOST_WORD_CLASSES classes.

    So only who has others waits for the rest to be compiled. Return whether any class is dropped.
    """
    dropped = False
    n = int(np.sqrt(cells.shape[1]))
    reach, places = np.empty((2, n), np.int64), np.empty((4, n), np.int64)
    for b in range(len(codes)):
        m = b if len(cells) > 1 else 0
        for k in range(n * n):
            out[b, k] = cells[m, k]
        codes[b] = _decide_equal(cells, m, drop, reach[0], reach[1], places, out, b)
        for i in range(n):
            dropped = dropped or reach[0, i] == 0
        if codes[b] == INFEASIBLE:
            for k in range(n * n):
                out[b, k] = np.nan  # the solver stops at once
    return drop and dropped


@jit()
def _prune(cells, row_sums, col_sums, drop, bi, out, codes, parts):
    """Decide matrices of any shape and targets; return what of `parts` is needed for that and not compiled yet."""
    R, C = row_sums.shape[1], col_sums.shape[1]
    positive, dead = np.empty((R, C), np.bool_), np.empty((R, C), np.bool_)
    row_block, col_block = np.empty(R, np.int64), np.empty(C, np.int64)
    rows, cols = np.empty(R, np.bool_), np.empty(C, np.bool_)
    u, v = np.empty(R), np.empty(C)
    for b in range(len(codes)):
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
        codes[b] = classify(parts, positive, u, v, dead, (row_block, col_block), (rows, cols))
        if codes[b] < 0:
            return -codes[b]
        if codes[b] == INFEASIBLE:
            for k in range(R * C):
                out[b, k] = np.nan
        elif codes[b] == LIMIT_ONLY:
            for i in range(R):
                for j in range(C):
                    if dead[i, j]:
                        out[b, i * C + j] = 0.0
    return 0


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
def _decide_equal(cells, k, drop, reach, leads, places, out, b):
    """Clear what dies in square matrix `k`; return OK, LIMIT_ONLY or INFEASIBLE.

    With rows and columns in pairs of positive cells, a cell lives if the pair it leads to leads back.
    """
    n = len(reach)
    good, union, diagonal = True, np.int64(0), np.int64(0)
    for i in range(n):
        bits = np.int64(0)
        for j in range(n):
            m = cells[k, i * n + j]
            good &= (m >= 0.0) & (m < np.inf)
            bits |= np.int64(m > 0.0) << j
        reach[i] = bits
        union |= bits
        diagonal |= bits & (1 << i)
    present = np.int64(0)
    for i in range(n):
        if reach[i] != 0 and union >> i & 1:
            present |= 1 << i
        elif not (drop and reach[i] == 0 and not union >> i & 1):
            good = False
    if not good:
        return OK  # which the solver reports
    if diagonal == present:
        if _strongly_connected(reach, present):
            return OK
        for i in range(n):
            places[0, i] = i
            leads[i] = reach[i]
    else:
        if not _match(reach, present, places):
            return INFEASIBLE
        for i in range(n):
            leads[i] = 0
            for j in range(n):
                if reach[i] >> j & 1:
                    leads[i] |= 1 << places[0, j]
        if _strongly_connected(leads, present):
            return OK
    code = OK
    _close(leads)
    for i in range(n):
        for j in range(n):
            if out[b, i * n + j] > 0.0 and not leads[places[0, j]] >> i & 1:
                out[b, i * n + j] = 0.0
                code = LIMIT_ONLY
    return code


@jit(inner=True, borrows=True)
def _match(reach, present, places):
    """Give every present row a column that it reaches, in the first line of `places`; return whether that is possible.

    The other lines hold the column of each row, the row from which each column was reached, and rows to go on from.
    """
    n = len(reach)
    for i in range(n):
        paired = reach[i] >> i & 1
        places[0, i] = i if paired else -1
        places[1, i] = i if paired else -1
    for root in range(n):
        if not present >> root & 1 or places[1, root] >= 0:
            continue
        seen, end, depth = np.int64(0), -1, 1
        places[3, 0] = root
        while depth > 0 and end < 0:
            depth -= 1
            i = places[3, depth]
            for j in range(n):
                if (reach[i] & ~seen) >> j & 1 and end < 0:
                    seen |= 1 << j
                    places[2, j] = i
                    if places[0, j] < 0:
                        end = j
                    else:
                        places[3, depth] = places[0, j]
                        depth += 1
        if end < 0:
            return False
        while end >= 0:
            i = places[2, end]
            places[0, end] = i
            following = places[1, i]
            places[1, i] = end
            end = following
    return True


@jit(inner=True, borrows=True)
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


@jit(inner=True, borrows=True)
def _close(reach):
    """Make `reach` transitive (Warshall)."""
    n = len(reach)
    for k in range(n):
        for i in range(n):
            reach[i] |= reach[k] * (reach[i] >> k & 1)


def prune(p):
    """Return the matrices with what dies set to zero and what has no limit set to NaN, and the code of each.

    Also whether any class is dropped, where that is known.
    """
    out, codes, dropped = np.empty((p.n, p.R * p.C)), np.empty(p.n, np.int8), False
    if p.bi and p.R == p.C <= MOST_WORD_CLASSES:
        dropped = _prune_equal(p.cells, p.drop, out, codes)
    else:
        args = (p.cells, p.row_sums.values, p.col_sums.values, p.drop, p.bi, out, codes, PARTS.addresses)
        while needs := _prune(*args):
            PARTS.compile(needs)
    out.flags.writeable = False
    return out, codes, dropped


def amend(codes, out_row, out_col, status):
    """Say of the results what the zeros decided: no factors where there is only a limit."""
    limit = (codes == LIMIT_ONLY) & (status <= MAX_ITER)
    out_row[limit] = np.nan
    out_col[limit] = np.nan
    status[limit & (status == OK)] = LIMIT_ONLY
    status[codes == INFEASIBLE] = INFEASIBLE
