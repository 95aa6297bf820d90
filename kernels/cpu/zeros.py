"""What the zeros of a matrix allow: maximum flow and strongly connected components, one matrix at a time.

A matrix can be scaled to its targets if and only if some nonnegative matrix with these margins has exactly the same
zeros. Whether any has zeros at least there is a question of flow (rows send their targets through positive cells to
columns); which positive cells are zero in all of them is a question of connectivity.

Sets of rows and of columns are rows of 32-bit words, kept in int64 so that no sum, shift or product overflows.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu import _arrays, _pool
from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.status import Status

OK = int(Status.CONVERGED)
LIMIT_ONLY = int(Status.LIMIT_ONLY)
INFEASIBLE = int(Status.INFEASIBLE)
TOTALS = int(Status.TOTALS)
INVALID = int(Status.INVALID)
ZERO_LINE = int(Status.ZERO_LINE)
RANGE = int(Status.RANGE)

TOTALS_RTOL = 1e-9
SLACK = 1e-12  # of the total: what targets that are no integers may miss each other by, from rounding
EXACT = 2.0**53  # integers up to here are float64 numbers, and so are their sums
GRID = 61  # other targets become integers of at most so many bits

WORD = 32
_DE_BRUIJN = 0x077CB531  # its 5-bit windows are all different, so that a shift of it names its shift
_PLACE = np.zeros(WORD, np.int64)
for _bit in range(WORD):
    _PLACE[((_DE_BRUIJN << _bit) & 0xFFFFFFFF) >> 27] = _bit

SECONDS_PER_CELL = 5e-9
SECONDS_PER_MATRIX = 3e-7


class Pattern(NamedTuple):
    """One zero pattern, what becomes of it, and the scratch for that."""

    positive: np.ndarray  # (R, C) bool, given: whether the cell is above zero
    dead: np.ndarray  # (R, C) bool, found: cells above zero that are zero under every feasible matrix
    row_block: np.ndarray  # (R,) found: block of the row, -1 without a target
    col_block: np.ndarray  # (C,)
    rows: np.ndarray  # (R,) bool, found if infeasible: rows that want too much
    cols: np.ndarray  # (C,) bool: all columns that they reach
    row_cap: np.ndarray  # (R,) targets as integers
    col_cap: np.ndarray  # (C,)
    unmet: np.ndarray  # (R,) what is left of them
    spare: np.ndarray  # (C,)
    reach: np.ndarray  # (R, words) columns that the row reaches
    users: np.ndarray  # (C, words) rows that reach the column
    feeds: np.ndarray  # (R, words) columns that get flow from the row
    fed: np.ndarray  # (C, words) rows that send flow into the column
    flow: np.ndarray  # (C, R) how much; (0, 0) where all targets are equal, and a flow is 0 or 1
    level_rows: np.ndarray  # (levels, words) rows at each distance from one with unmet target
    level_cols: np.ndarray  # (levels, words)
    path_rows: np.ndarray  # (levels,)
    path_cols: np.ndarray  # (levels,)
    seen_rows: np.ndarray  # (words,)
    seen_cols: np.ndarray  # (words,)
    order: np.ndarray  # (R,)
    stack: np.ndarray  # (R,)


@jit()
def new_pattern(R, C, equal):
    """Return an empty pattern; `equal` promises that all targets that are not zero are the same number."""
    row_words = (R + WORD - 1) // WORD
    col_words = (C + WORD - 1) // WORD
    levels = min(R, C) + 1
    return Pattern(
        np.empty((R, C), np.bool_),
        np.empty((R, C), np.bool_),
        np.empty(R, np.int64),
        np.empty(C, np.int64),
        np.empty(R, np.bool_),
        np.empty(C, np.bool_),
        np.empty(R, np.int64),
        np.empty(C, np.int64),
        np.empty(R, np.int64),
        np.empty(C, np.int64),
        np.empty((R, col_words), np.int64),
        np.empty((C, row_words), np.int64),
        np.empty((R, col_words), np.int64),
        np.empty((C, row_words), np.int64),
        np.empty((0, 0) if equal else (C, R), np.int64),
        np.empty((levels, row_words), np.int64),
        np.empty((levels, col_words), np.int64),
        np.empty(levels, np.int64),
        np.empty(levels, np.int64),
        np.empty(row_words, np.int64),
        np.empty(col_words, np.int64),
        np.empty(R, np.int64),
        np.empty(R, np.int64),
    )


@jit()
def classify(z, u, v):
    """Classify ``z.positive`` under nonnegative row targets `u` and column targets `v` with one total.

    Returns CONVERGED (total support: factors exist), LIMIT_ONLY (``z.dead`` has cells) or INFEASIBLE (``z.rows`` and
    ``z.cols`` say why). Lines with target zero take no part.
    """
    slack = _capacities(z, u, v)
    _pack(z)
    if z.row_cap.shape[0] > 0 and _greedy(z) > 0:
        _augment(z)
    _weigh(z, slack)
    left = z.unmet.sum()
    if left > slack or (left > 0 and _starved(z)):
        _cut(z, slack)
        return INFEASIBLE
    _blocks(z)
    return LIMIT_ONLY if _mark_dead(z) else OK


# --- sets -------------------------------------------------------------------------------------------------------------


@jit()
def _lowest(word):
    """Return the place of the lowest bit of a word that is not zero."""
    return _PLACE[(((word & -word) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27]


@jit()
def _insert(lines, k, member):
    lines[k, member >> 5] |= 1 << (member & 31)


@jit()
def _remove(lines, k, member):
    lines[k, member >> 5] &= ~(1 << (member & 31))


@jit()
def _first_common(a, i, b, j):
    """Return the smallest member of both ``a[i]`` and ``b[j]``, or -1."""
    for w in range(a.shape[1]):
        both = a[i, w] & b[j, w]
        if both:
            return w * WORD + _lowest(both)
    return -1


@jit()
def _first_new(a, i, seen):
    """Return the smallest member of ``a[i]`` that is not in `seen`, or -1."""
    for w in range(a.shape[1]):
        new = a[i, w] & ~seen[w]
        if new:
            return w * WORD + _lowest(new)
    return -1


@jit()
def _has(seen, member):
    return (seen[member >> 5] >> (member & 31)) & 1


@jit()
def _mark(seen, member):
    seen[member >> 5] |= 1 << (member & 31)


# --- the network ------------------------------------------------------------------------------------------------------


@jit()
def _capacities(z, u, v):
    """Turn the targets into integers with one total; return the slack that counts as zero, in their unit."""
    R, C = z.positive.shape
    U, V, one = 0.0, 0.0, 0.0
    equal, whole = True, True
    lines = 0
    for i in range(R):
        t = u[i]
        U += t
        whole = whole and t == math.floor(t)
        if t > 0.0:
            one = t if one == 0.0 else one
            equal = equal and t == one
            lines += 1
    for j in range(C):
        t = v[j]
        V += t
        whole = whole and t == math.floor(t)
        if t > 0.0:
            equal = equal and t == one
            lines -= 1
    slack = 0
    if equal and lines == 0:
        for i in range(R):
            z.row_cap[i] = u[i] > 0.0
        for j in range(C):
            z.col_cap[j] = v[j] > 0.0
    elif whole and U == V and U <= EXACT:
        for i in range(R):
            z.row_cap[i] = np.int64(u[i])
        for j in range(C):
            z.col_cap[j] = np.int64(v[j])
    else:
        slack = _to_grid(z, u, v, max(U, V))
    z.unmet[:] = z.row_cap
    z.spare[:] = z.col_cap
    return slack


@jit()
def _to_grid(z, u, v, total):
    R, C = z.positive.shape
    shift = GRID - math.frexp(total)[1]
    gap = 0
    for i in range(R):
        z.row_cap[i] = max(1, np.int64(math.ldexp(u[i], shift))) if u[i] > 0.0 else 0
        gap += z.row_cap[i]
    largest = 0
    for j in range(C):
        z.col_cap[j] = max(1, np.int64(math.ldexp(v[j], shift))) if v[j] > 0.0 else 0
        gap -= z.col_cap[j]
        if z.col_cap[j] > z.col_cap[largest]:
            largest = j
    z.col_cap[largest] += gap  # rounding, and what the totals differ by: far below the largest target
    return np.int64(SLACK * math.ldexp(total, shift))


@jit()
def _pack(z):
    """Write the positive cells between lines that have a target as sets."""
    R, C = z.positive.shape
    z.reach[:] = 0
    z.users[:] = 0
    z.feeds[:] = 0
    z.fed[:] = 0
    for i in range(R):
        if z.row_cap[i] > 0:
            row_word, row_bit = i >> 5, 1 << (i & 31)
            for j in range(C):
                if z.positive[i, j] and z.col_cap[j] > 0:
                    z.reach[i, j >> 5] |= 1 << (j & 31)
                    z.users[j, row_word] |= row_bit


@jit()
def _add(z, i, j, amount):
    """Let row i send `amount` more (or, below zero, less) into column j."""
    if z.flow.shape[0] == 0:
        positive = amount > 0
    else:
        z.flow[j, i] += amount
        positive = z.flow[j, i] > 0
    if positive:
        _insert(z.fed, j, i)
    else:
        _remove(z.fed, j, i)


@jit()
def _sent(z, i, j):
    return 1 if z.flow.shape[0] == 0 else z.flow[j, i]


@jit()
def _greedy(z):
    """Send what can be sent directly, through the diagonal first; return what is left."""
    R, C = z.positive.shape
    z.flow[:] = 0
    left = 0
    for i in range(R):
        if i < C and z.positive[i, i]:
            amount = min(z.unmet[i], z.spare[i])
            if amount > 0:
                _add(z, i, i, amount)
                z.unmet[i] -= amount
                z.spare[i] -= amount
        left += z.unmet[i]
    if left == 0:
        return 0
    left = 0
    for i in range(R):
        for j in range(C):
            if z.unmet[i] == 0:
                break
            amount = min(z.unmet[i], z.spare[j]) if z.positive[i, j] else 0
            if amount > 0:
                _add(z, i, j, amount)
                z.unmet[i] -= amount
                z.spare[j] -= amount
        left += z.unmet[i]
    return left


@jit()
def _augment(z):
    """Make the flow maximal (Dinic; for equal targets this is Hopcroft and Karp's matching)."""
    while True:
        depth = _levels(z)
        if depth < 0:
            return
        for i in range(z.unmet.shape[0]):
            while z.unmet[i] > 0 and _push(z, i, depth):
                pass


@jit()
def _levels(z):
    """Lines by their distance from rows with unmet targets; return the level of the first spare column, or -1."""
    R = z.unmet.shape[0]
    z.seen_rows[:] = 0
    z.seen_cols[:] = 0
    z.level_rows[0] = 0
    for i in range(R):
        if z.unmet[i] > 0:
            _insert(z.level_rows, 0, i)
    for k in range(z.level_rows.shape[0]):
        _join(z.level_rows, k, z.seen_rows, z.reach, z.level_cols, k)
        if _spread(z.level_cols, k, z.seen_cols) == 0:
            return -1
        if _any_spare(z, k):
            return k
        if k + 1 == z.level_rows.shape[0]:
            return -1
        _join(z.level_cols, k, z.seen_cols, z.fed, z.level_rows, k + 1)
        if _spread(z.level_rows, k + 1, z.seen_rows) == 0:
            return -1
    return -1


@jit()
def _join(levels, k, seen, sets, out, at):
    """Put into ``out[at]`` the union of ``sets`` over the members of ``levels[k]``, which become seen."""
    out[at] = 0
    for w in range(levels.shape[1]):
        left = levels[k, w]
        seen[w] |= left
        while left:
            member = w * WORD + _lowest(left)
            left &= left - 1
            for q in range(out.shape[1]):
                out[at, q] |= sets[member, q]


@jit()
def _spread(levels, k, seen):
    """Take what is seen out of ``levels[k]``; return whether anything is left."""
    some = 0
    for w in range(levels.shape[1]):
        levels[k, w] &= ~seen[w]
        some |= levels[k, w]
    return some


@jit()
def _any_spare(z, k):
    for w in range(z.level_cols.shape[1]):
        left = z.level_cols[k, w]
        while left:
            if z.spare[w * WORD + _lowest(left)] > 0:
                return True
            left &= left - 1
    return False


@jit()
def _push(z, root, depth):
    """Send flow from row `root` along a shortest path to a spare column; lines that lead nowhere leave their level."""
    k = 0
    z.path_rows[0] = root
    while k >= 0:
        i = z.path_rows[k]
        j = _first_common(z.reach, i, z.level_cols, k)
        if j < 0:
            _remove(z.level_rows, k, i)
            k -= 1
            continue
        z.path_cols[k] = j
        if k == depth:
            if z.spare[j] > 0:
                _shift(z, depth)
                return True
            _remove(z.level_cols, k, j)
            continue
        r = _first_common(z.fed, j, z.level_rows, k + 1)
        if r < 0:
            _remove(z.level_cols, k, j)
            continue
        k += 1
        z.path_rows[k] = r
    return False


@jit()
def _shift(z, depth):
    """Send as much along the path as it takes."""
    root, last = z.path_rows[0], z.path_cols[depth]
    amount = min(z.unmet[root], z.spare[last])
    for k in range(depth):
        amount = min(amount, _sent(z, z.path_rows[k + 1], z.path_cols[k]))
    for k in range(depth + 1):
        _add(z, z.path_rows[k], z.path_cols[k], amount)
        if k < depth:
            _add(z, z.path_rows[k + 1], z.path_cols[k], -amount)
    z.unmet[root] -= amount
    z.spare[last] -= amount


@jit()
def _weigh(z, slack):
    """Write the flows by row as well, and forget those that are rounding only.

    A line that gets more than half of its target (see `_starved`) keeps at least its largest flow.
    """
    R, C = z.positive.shape
    lines = 2 * max(R, C)
    for j in range(C):
        for w in range(z.fed.shape[1]):
            left = z.fed[j, w]
            while left:
                i = w * WORD + _lowest(left)
                left &= left - 1
                if slack == 0 or z.flow[j, i] > min(slack, min(z.row_cap[i], z.col_cap[j]) // lines):
                    _insert(z.feeds, i, j)
                else:
                    _remove(z.fed, j, i)


@jit()
def _starved(z):
    """Whether a line lacks half of its target or more: no rounding error, however small that target is."""
    R, C = z.positive.shape
    found = False
    for i in range(R):
        found = found or (z.row_cap[i] > 0 and 2 * z.unmet[i] >= z.row_cap[i])
    for j in range(C):
        found = found or (z.col_cap[j] > 0 and 2 * z.spare[j] >= z.col_cap[j])
    return found


# --- answers ----------------------------------------------------------------------------------------------------------


@jit()
def _cut(z, slack):
    """Collect the rows that share columns, directly or not, with rows that stay unmet: together they want too much."""
    R = z.unmet.shape[0]
    z.dead[:] = False
    z.row_block[:] = -1
    z.col_block[:] = -1
    z.seen_rows[:] = 0
    z.rows[:] = False
    z.cols[:] = False
    depth = 0
    largest = z.unmet.max()
    for i in range(R):
        # Where something larger is missing, what rounding left unmet proves nothing.
        if z.unmet[i] > 0 and (z.unmet[i] > slack // R or largest <= slack // R):
            _mark(z.seen_rows, i)
            z.stack[depth] = i
            depth += 1
    while depth > 0:
        depth -= 1
        i = z.stack[depth]
        z.rows[i] = True
        for j in range(z.cols.shape[0]):
            if z.cols[j] or not (z.reach[i, j >> 5] >> (j & 31)) & 1:
                continue
            z.cols[j] = True
            for w in range(z.fed.shape[1]):
                new = z.fed[j, w] & ~z.seen_rows[w]
                z.seen_rows[w] |= new
                while new:
                    z.stack[depth] = w * WORD + _lowest(new)
                    depth += 1
                    new &= new - 1


@jit()
def _blocks(z):
    """Write the strongly connected components of row -> column (positive cell) -> row (flow), counted by first row."""
    n = _finishing_order(z)
    z.row_block[:] = -1
    z.col_block[:] = -1
    z.seen_rows[:] = 0
    count = 0
    for k in range(n - 1, -1, -1):
        if not _has(z.seen_rows, z.order[k]):
            _collect(z, z.order[k], count)
            count += 1
    z.stack[:] = -1  # old number -> new number
    count = 0
    for i in range(z.row_block.shape[0]):
        old = z.row_block[i]
        if old >= 0:
            if z.stack[old] < 0:
                z.stack[old] = count
                count += 1
            z.row_block[i] = z.stack[old]
    for j in range(z.col_block.shape[0]):
        if z.col_block[j] >= 0:
            z.col_block[j] = z.stack[z.col_block[j]]


@jit()
def _finishing_order(z):
    """Order the rows by the end of a depth-first search (first half of Kosaraju's algorithm); return their number."""
    z.seen_rows[:] = 0
    z.seen_cols[:] = 0
    n = 0
    for root in range(z.row_cap.shape[0]):
        if z.row_cap[root] == 0 or _has(z.seen_rows, root):
            continue
        _mark(z.seen_rows, root)
        z.stack[0] = root
        depth = 1
        while depth > 0:
            r = _next_row(z, z.stack[depth - 1])
            if r >= 0:
                _mark(z.seen_rows, r)
                z.stack[depth] = r
                depth += 1
            else:
                depth -= 1
                z.order[n] = z.stack[depth]
                n += 1
    return n


@jit()
def _next_row(z, i):
    """Return a row not seen yet that sends flow into a column that row i reaches, or -1; close columns without one."""
    while True:
        j = _first_new(z.reach, i, z.seen_cols)
        if j < 0:
            return -1
        r = _first_new(z.fed, j, z.seen_rows)
        if r >= 0:
            return r
        _mark(z.seen_cols, j)


@jit()
def _collect(z, root, block):
    """Give `block` to every line from which `root` can be reached, as far as it has none (the second half)."""
    _mark(z.seen_rows, root)
    z.stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        i = z.stack[depth]
        z.row_block[i] = block
        for w in range(z.feeds.shape[1]):
            left = z.feeds[i, w]
            while left:
                j = w * WORD + _lowest(left)
                left &= left - 1
                if z.col_block[j] >= 0:
                    continue
                z.col_block[j] = block
                for q in range(z.users.shape[1]):
                    new = z.users[j, q] & ~z.seen_rows[q]
                    z.seen_rows[q] |= new
                    while new:
                        z.stack[depth] = q * WORD + _lowest(new)
                        depth += 1
                        new &= new - 1


@jit()
def _mark_dead(z):
    """Mark the positive cells between different blocks; return whether there are any."""
    R, C = z.positive.shape
    z.rows[:] = False
    z.cols[:] = False
    found = False
    for i in range(R):
        block = z.row_block[i]
        for j in range(C):
            z.dead[i, j] = z.positive[i, j] and block >= 0 and z.col_block[j] >= 0 and z.col_block[j] != block
            found = found or z.dead[i, j]
    return found


# --- the op -----------------------------------------------------------------------------------------------------------


@jit()
def _look(z, M):
    """Read the matrix once; return its number of zeros, or -1 if a cell is NaN, infinite or negative."""
    R, C = M.shape
    zeros, good = 0, True
    for i in range(R):
        for j in range(C):
            m = M[i, j]
            good = good and 0.0 <= m < np.inf
            z.positive[i, j] = m > 0.0
            zeros += m == 0.0
    return zeros if good else -1


@jit()
def _check_targets(u, v, sums):
    """Put both totals into `sums` and make that of `v` equal to that of `u`; return the status that follows."""
    sums[0] = 0.0
    sums[1] = 0.0
    good = True
    for i in range(u.shape[0]):
        good = good and 0.0 <= u[i] < np.inf
        sums[0] += u[i]
    for j in range(v.shape[0]):
        good = good and 0.0 <= v[j] < np.inf
        sums[1] += v[j]
    if not good:
        return INVALID
    if not (sums[0] < np.inf and sums[1] < np.inf):
        return RANGE
    if not abs(sums[0] - sums[1]) <= TOTALS_RTOL * max(sums[0], sums[1]):
        return TOTALS
    if sums[0] != sums[1]:
        ratio = sums[0] / sums[1]
        for j in range(v.shape[0]):
            v[j] *= ratio
    return OK


@jit()
def _mark_empty_lines(z, u, v):
    """Mark empty rows with a target, else all rows and what they reach if some column with a target is empty."""
    R, C = z.positive.shape
    found = False
    for i in range(R):
        z.rows[i] = u[i] > 0.0
        for j in range(C):
            z.rows[i] = z.rows[i] and not (z.positive[i, j] and v[j] > 0.0)
        found = found or z.rows[i]
    if found:
        z.cols[:] = False
        return True
    for j in range(C):
        z.cols[j] = v[j] == 0.0
        for i in range(R):
            z.cols[j] = z.cols[j] or (z.positive[i, j] and u[i] > 0.0)
        found = found or not z.cols[j]
    if found:
        for i in range(R):
            z.rows[i] = u[i] > 0.0
    return found


@jit()
def _clear(z, block):
    z.dead[:] = False
    z.rows[:] = False
    z.cols[:] = False
    z.row_block[:] = block
    z.col_block[:] = block


@jit()
def _support_one(z, M, u, v, sums):
    """Fill `z` and `sums` for one matrix; return its status. Changes `v`."""
    zeros = _look(z, M)
    _clear(z, -1)
    status = _check_targets(u, v, sums)
    if zeros < 0 or status == INVALID:
        sums[:] = np.nan
        return INVALID
    if status == TOTALS:
        z.rows[:] = True
        z.cols[:] = True
        return TOTALS
    positive_targets = status == OK and np.all(u > 0.0) and np.all(v > 0.0)
    if zeros == 0 and positive_targets:
        z.row_block[:] = 0
        z.col_block[:] = 0
    elif status == OK and _mark_empty_lines(z, u, v):
        status = ZERO_LINE
    elif status == OK:
        status = classify(z, u, v)
    sums[:] = 0.0
    for i in range(u.shape[0]):
        sums[0] += u[i] if z.rows[i] else 0.0
    for j in range(v.shape[0]):
        sums[1] += v[j] if z.cols[j] else 0.0
    return status


@jit()
def _support(
    M, m_step, row_sums, row_step, col_sums, col_step, equal,
    out_status, out_dead, out_row_block, out_col_block, out_rows, out_cols, out_sums, start, stop,
):  # fmt: skip
    R, C = M.shape[1:]
    z = new_pattern(R, C, equal)
    v = np.empty(C)
    for b in range(start, stop):
        v[:] = col_sums[b * col_step]
        out_status[b] = _support_one(z, M[b * m_step], row_sums[b * row_step], v, out_sums[b])
        out_dead[b] = z.dead
        out_row_block[b] = z.row_block
        out_col_block[b] = z.col_block
        out_rows[b] = z.rows
        out_cols[b] = z.cols


def support(M, row_sums, col_sums, *, num_threads=None):
    """Status, dead cells, blocks of rows and columns; certificate: rows, columns, what they want and what there is."""
    R, C = M.shape[-2:]
    equal = row_sums is None and col_sums is None and R == C
    u = np.ones((R, 1)) if row_sums is None else row_sums[..., :, None].astype(np.float64)
    v = np.ones((1, C)) if col_sums is None else col_sums[..., None, :].astype(np.float64)
    batch, (M3, u3, v3), (m_step, row_step, col_step) = _arrays.broadcast_batches(2, _arrays.as_floating(M), u, v)
    n = math.prod(batch)
    found = (
        np.empty(n, np.int8), np.empty((n, R, C), np.bool_), np.empty((n, R), np.int64), np.empty((n, C), np.int64),
        np.empty((n, R), np.bool_), np.empty((n, C), np.bool_), np.empty((n, 2)),
    )  # fmt: skip
    args = (M3, m_step, u3.reshape(len(u3), R), row_step, v3.reshape(len(v3), C), col_step, equal, *found)
    seconds = n * (R * C * SECONDS_PER_CELL + SECONDS_PER_MATRIX)
    _pool.run(_support, args, n, seconds=seconds, num_threads=num_threads)
    status, dead, row_block, col_block, rows, cols, sums = (a.reshape(batch + a.shape[1:]) for a in found)
    return status, dead, row_block, col_block, rows, cols, sums[..., 0], sums[..., 1]
