"""Zero pattern of matrices before scaling: detect infeasible ones and clear cells without support (limit zero)."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, bits, load_elements, some, splat
from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.cpu.zeros._bit_sets import PARTS
from cmfast.kernels.cpu.zeros._classify import classify
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, MAX_ITER, OK

MOST_WORD_CLASSES = 64  # classes whose set fits into a word


@jit(borrows=True)
def has_zero(cells):
    """Test whether any cell of a flat array is zero; reads all of it, which is faster than stopping early."""
    found = False
    for k in range(cells.shape[0]):
        found |= cells[k] == 0.0
    return found


@jit()
def _classify_all_unit_targets(cells, drop, codes):
    """Classify the zeros of square matrices with unit targets and at most MOST_WORD_CLASSES classes.

    Separate from `_prune_any_targets`, so that only general targets wait for the rest to be compiled. Writes OK,
    LIMIT_ONLY or INFEASIBLE to `codes`; returns whether any class is dropped.
    """
    dropped = False
    n = int(np.sqrt(cells.shape[1]))
    reach, places = np.empty((2, n), np.int64), np.empty((4, n), np.int64)
    for b in range(len(codes)):
        codes[b] = OK
        valid, positive = _find_positive(cells[b if len(cells) > 1 else 0], reach[0])
        if valid and not positive:  # the solver reports invalid cells
            codes[b] = _classify_unit_targets(drop, reach[0], reach[1], places)
            for i in range(n):
                dropped |= reach[0, i] == 0
    return drop and dropped


@jit()
def _clear_unit_targets(cells, drop, codes):
    """Clear the unsupported cells of matrices so classified, in place; infeasible ones become NaN."""
    n = int(np.sqrt(cells.shape[1]))
    reach, places = np.empty((2, n), np.int64), np.empty((4, n), np.int64)
    for b in range(len(codes)):
        if codes[b] == INFEASIBLE:
            for k in range(n * n):
                cells[b, k] = np.nan  # the solver stops immediately
        elif codes[b] == LIMIT_ONLY:
            _find_positive(cells[b], reach[0])
            _classify_unit_targets(drop, reach[0], reach[1], places)
            for i in range(n):
                for j in range(n):
                    if not reach[1, places[0, j]] >> i & 1:
                        cells[b, i * n + j] = 0.0


@jit()
def _prune_any_targets(cells, row_sums, col_sums, drop, bi, out, codes, parts):
    """Classify matrices of any shape and targets, and clear their unsupported cells; return a missing part, or 0."""
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
        if not _needs_zero_check(M, positive, u, v, rows, cols, drop and bi):
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
def _needs_zero_check(cells, positive, u, v, rows, cols, drop):
    """Test whether a matrix has zeros and passes all simpler checks, which the solver reports.

    Mark its positive cells.
    """
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
    return good  # else a row or column is empty without the dropped ones


@jit(inner=True, borrows=True)
def _classify_unit_targets(drop, reach, leads, places):
    """Classify the zeros of one square matrix with unit targets; return OK, LIMIT_ONLY or INFEASIBLE.

    `reach` has the set of the columns of each row's positive cells. With rows and columns matched by positive cells, a
    cell has support if its row is reachable from the row matched with its column: the set of those rows is written to
    `leads`, and to line 0 of `places` the row of each column.
    """
    n = len(reach)
    rows, cols, diagonal = np.int64(0), np.int64(0), np.int64(0)
    for i in range(n):
        rows |= np.int64(reach[i] != 0) << i
        cols |= reach[i]
        diagonal |= reach[i] & (1 << i)
    present = rows & cols
    if (rows | cols) != present or not (drop or present == _fill_word(n)):
        return OK  # the solver reports empty rows and columns
    if diagonal == present:
        if _is_strongly_connected(reach, present):
            return OK
        for i in range(n):
            places[0, i] = i
            leads[i] = reach[i]
    else:
        if not _match_rows(reach, present, places):
            return INFEASIBLE
        for i in range(n):
            leads[i] = 0
            for j in range(n):
                if reach[i] >> j & 1:
                    leads[i] |= 1 << places[0, j]
        if _is_strongly_connected(leads, present):
            return OK
    _close_transitively(leads)
    for i in range(n):
        for j in range(n):
            if reach[i] >> j & 1 and not leads[places[0, j]] >> i & 1:
                return LIMIT_ONLY
    return OK


@jit(inner=True, borrows=True)
def _find_positive(cells, reach):
    """Return whether all cells of a matrix are valid, and whether all are positive.

    Unless they are, write the set of the columns of each row's positive cells.
    """
    n, size = len(reach), len(cells)
    whole = _fill_word(n)
    if size < WIDTH:
        good, both = True, whole
        for i in range(n):
            reach[i] = 0
            for j in range(n):
                m = cells[i * n + j]
                good &= (m >= 0.0) & (m < np.inf)
                reach[i] |= np.int64(m > 0.0) << j
            both &= reach[i]
        return good, both == whole
    valid = splat(0.0) == 0.0
    if n < WIDTH:  # all cells in one word
        word = np.int64(0)
        for first in range(0, size, WIDTH):
            k = min(first, size - WIDTH)  # the last vector overlaps the one before
            m = load_elements(cells, k)
            valid = valid & (m >= 0.0) & (m < np.inf)
            word |= bits(m > 0.0) << k
        positive = word == (1 << size) - 1
        if not positive:
            for i in range(n):
                reach[i] = word >> (i * n) & whole
        return not some(~valid), positive
    both = whole
    for i in range(n):
        row = np.int64(0)
        for first in range(0, n, WIDTH):
            j = min(first, n - WIDTH)
            m = load_elements(cells, i * n + j)
            valid = valid & (m >= 0.0) & (m < np.inf)
            row |= bits(m > 0.0) << j
        reach[i] = row
        both &= row
    return not some(~valid), both == whole


@jit(inner=True)
def _fill_word(n):
    """Return the set of `n` classes, at least one, as bits of a signed word: the last of 64 is its sign."""
    return ~(np.int64(-2) << np.int64(n - 1))


@jit(inner=True, borrows=True)
def _match_rows(reach, present, places):
    """Match every present row to a column of a positive cell (augmenting paths), in place.

    Return whether that succeeds. Line 0 of `places` is the column's row, line 1 the row's column, line 2 the row from
    which each column was reached, line 3 a stack of rows.
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
def _is_strongly_connected(reach, present):
    """Test whether the first class reaches all present classes and is reached by all."""
    n = len(reach)
    first = present & -present
    there, back, before_there, before_back = first, first, np.int64(0), np.int64(0)
    while before_there != there or before_back != back:
        before_there, before_back = there, back
        for i in range(n):
            there |= reach[i] * (there >> i & 1)
            back |= np.int64(reach[i] & back != 0) << i
    return there == present and back == present


@jit(inner=True, borrows=True)
def _close_transitively(reach):
    """Compute the transitive closure of `reach`, rows of bits, in place (Warshall)."""
    n = len(reach)
    for k in range(n):
        for i in range(n):
            reach[i] |= reach[k] * (reach[i] >> k & 1)


def classify_zeros(cells, n, drop):
    """Classify the zeros of `n` matrices of few classes with unit targets, rows of `cells`; all may share one row.

    Return their codes, and whether a class is dropped.
    """
    codes = np.empty(n, np.int8)
    return codes, _classify_all_unit_targets(cells, drop, codes)


def keeps_all_cells(classified):
    """Test whether zeros so classified change no cell and drop no class."""
    codes, dropped = classified
    return not dropped and not codes.any()  # OK


def is_word_sized(p):
    """Return whether :func:`classify_zeros` can classify the zeros of a problem."""
    return p.bi and p.R == p.C <= MOST_WORD_CLASSES


def prune_unsupported(p, classified=None):
    """Return the problem without unsupported cells, the codes of its matrices, and whether a class is dropped.

    Infeasible matrices are NaN. The codes are None where all are OK. `classified` is what `classify_zeros` returns, if
    that is known.
    """
    if is_word_sized(p):
        codes, dropped = classify_zeros(p.cells, p.n, p.drop) if classified is None else classified
        if not codes.any():  # OK
            return p, None, dropped
        out = np.empty((p.n, p.R * p.C))
        out[:] = p.cells
        _clear_unit_targets(out, p.drop, codes)
    else:
        codes, dropped, out = np.empty(p.n, np.int8), False, np.empty((p.n, p.R * p.C))
        args = (p.cells, p.row_sums.values, p.col_sums.values, p.drop, p.bi, out, codes, PARTS.addresses)
        while needs := _prune_any_targets(*args):
            PARTS.compile(needs)
    out.flags.writeable = False
    return p._replace(cells=out, m_step=1), codes, dropped


def apply_zero_codes(codes, out_row, out_col, status):
    """Set the status that the zeros decided, in place; factors of matrices that have only a limit become NaN."""
    limit = (codes == LIMIT_ONLY) & (status <= MAX_ITER)
    out_row[limit] = np.nan
    out_col[limit] = np.nan
    status[limit & (status == OK)] = LIMIT_ONLY
    status[codes == INFEASIBLE] = INFEASIBLE
