"""What the zeros of a matrix allow: maximum flow and strongly connected components, one matrix at a time.

A matrix can be scaled to its targets if and only if some nonnegative matrix with these margins has exactly the same
zeros. Whether any has zeros at least there is a question of flow (rows send their targets through positive cells to
columns); which positive cells are zero in all of them is a question of connectivity.

Sets of rows and of columns are rows of 32-bit words, kept in int64 so that no sum, shift or product overflows.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.scaling import TOTALS_RTOL
from cmfast.kernels.status import INFEASIBLE, INVALID, LIMIT_ONLY, OK, RANGE, TOTALS, ZERO_LINE

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


@jit(inner=True)
def classify(positive, u, v, dead, row_block, col_block, rows, cols):
    """Classify a zero pattern under nonnegative row targets `u` and column targets `v` with one total.

    Returns CONVERGED (total support: factors exist), LIMIT_ONLY or INFEASIBLE. Lines with target zero take no part.
    Fills `dead`, the blocks of rows and columns, and, if infeasible, `rows` that want too much and the `cols` that
    they reach.
    """
    R, C = positive.shape
    dead[:] = False
    row_block[:] = -1
    col_block[:] = -1
    rows[:] = False
    cols[:] = False
    unmet, spare, slack, equal = _capacities(u, v)
    reach, users = _pack(positive, unmet, spare)
    fed = np.zeros(users.shape, np.int64)
    flow = np.zeros((0, 0) if equal else (C, R), np.int64)  # of equal targets a flow is 0 or 1: `fed` says it
    row_caps, col_caps = unmet.copy(), spare.copy()
    if _greedy(positive, unmet, spare, flow, fed) > 0:
        _augment(reach, unmet, spare, flow, fed)
    feeds = _weigh(row_caps, col_caps, slack, flow, fed, reach.shape[1])
    left = unmet.sum()
    if left > slack or (left > 0 and (_starved(unmet, row_caps) or _starved(spare, col_caps))):
        _cut(unmet, slack, reach, fed, rows, cols)
        return INFEASIBLE
    _blocks(row_caps, reach, users, feeds, fed, row_block, col_block)
    return LIMIT_ONLY if _mark_dead(positive, row_block, col_block, dead) else OK


# --- sets -------------------------------------------------------------------------------------------------------------


@jit(inner=True)
def _lowest(word):
    """Return the place of the lowest bit of a word that is not zero."""
    return _PLACE[(((word & -word) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27]


@jit(inner=True)
def _has(members, k):
    return (members[k >> 5] >> (k & 31)) & 1 != 0


@jit(inner=True)
def _mark(members, k):
    members[k >> 5] |= 1 << (k & 31)


@jit(inner=True)
def _drop(members, k):
    members[k >> 5] &= ~(1 << (k & 31))


@jit(inner=True)
def _first_common(a, b):
    """Return the smallest member of both `a` and `b`, or -1."""
    for w in range(len(a)):
        both = a[w] & b[w]
        if both:
            return w * WORD + _lowest(both)
    return -1


@jit(inner=True)
def _first_new(a, seen):
    """Return the smallest member of `a` that is not in `seen`, or -1."""
    for w in range(len(a)):
        new = a[w] & ~seen[w]
        if new:
            return w * WORD + _lowest(new)
    return -1


# --- the network ------------------------------------------------------------------------------------------------------


@jit(inner=True)
def _capacities(u, v):
    """Turn the targets into integers with one total.

    Returns them for rows and for columns, the slack that counts as zero in their unit, and whether all are 0 or 1.
    """
    U, V, one = 0.0, 0.0, 0.0
    equal, whole = True, True
    lines = 0
    for i in range(len(u)):
        U += u[i]
        whole = whole and u[i] == math.floor(u[i])
        if u[i] > 0.0:
            one = u[i] if one == 0.0 else one
            equal = equal and u[i] == one
            lines += 1
    for j in range(len(v)):
        V += v[j]
        whole = whole and v[j] == math.floor(v[j])
        if v[j] > 0.0:
            equal = equal and v[j] == one
            lines -= 1
    equal = equal and lines == 0
    whole = whole and U == V and U <= EXACT
    shift = GRID - math.frexp(max(U, V))[1]
    row_caps, col_caps = np.empty(len(u), np.int64), np.empty(len(v), np.int64)
    for i in range(len(u)):
        row_caps[i] = _capacity(u[i], equal, whole, shift)
    for j in range(len(v)):
        col_caps[j] = _capacity(v[j], equal, whole, shift)
    if equal or whole:
        return row_caps, col_caps, 0, equal
    # What rounding and the totals differ by, far below the largest target.
    col_caps[np.argmax(col_caps)] += row_caps.sum() - col_caps.sum()
    return row_caps, col_caps, np.int64(SLACK * math.ldexp(max(U, V), shift)), False


@jit(inner=True)
def _capacity(target, equal, whole, shift):
    if equal or target == 0.0:
        return np.int64(target > 0.0)
    return np.int64(target) if whole else max(1, np.int64(math.ldexp(target, shift)))


@jit(inner=True)
def _pack(positive, row_caps, col_caps):
    """Return the columns that each row reaches and the rows that reach each column, lines without target left out."""
    R, C = positive.shape
    reach = np.zeros((R, (C + WORD - 1) // WORD), np.int64)
    users = np.zeros((C, (R + WORD - 1) // WORD), np.int64)
    for i in range(R):
        if row_caps[i] > 0:
            row_word, row_bit = i >> 5, 1 << (i & 31)
            for j in range(C):
                if positive[i, j] and col_caps[j] > 0:
                    reach[i, j >> 5] |= 1 << (j & 31)
                    users[j, row_word] |= row_bit
    return reach, users


@jit(inner=True)
def _add(flow, fed, i, j, amount):
    """Let row i send `amount` more (or, below zero, less) into column j."""
    positive = amount > 0
    if flow.shape[0] > 0:
        flow[j, i] += amount
        positive = flow[j, i] > 0
    if positive:
        fed[j, i >> 5] |= 1 << (i & 31)
    else:
        fed[j, i >> 5] &= ~(1 << (i & 31))


@jit(inner=True)
def _greedy(positive, unmet, spare, flow, fed):
    """Send what can be sent directly, through the diagonal first; return what is left."""
    R, C = positive.shape
    left = 0
    for i in range(R):
        amount = min(unmet[i], spare[i]) if i < C and positive[i, i] else 0
        if amount > 0:
            _add(flow, fed, i, i, amount)
            unmet[i] -= amount
            spare[i] -= amount
        left += unmet[i]
    if left == 0:
        return 0
    left = 0
    for i in range(R):
        for j in range(C):
            if unmet[i] == 0:
                break
            amount = min(unmet[i], spare[j]) if positive[i, j] else 0
            if amount > 0:
                _add(flow, fed, i, j, amount)
                unmet[i] -= amount
                spare[j] -= amount
        left += unmet[i]
    return left


@jit(inner=True)
def _augment(reach, unmet, spare, flow, fed):
    """Make the flow maximal (Dinic; for equal targets this is Hopcroft and Karp's matching)."""
    levels = min(len(unmet), len(spare)) + 1
    level_rows = np.empty((levels, fed.shape[1]), np.int64)  # rows at each distance from one with unmet target
    level_cols = np.empty((levels, reach.shape[1]), np.int64)
    path_rows, path_cols = np.empty(levels, np.int64), np.empty(levels, np.int64)
    while True:
        depth = _levels(reach, unmet, spare, fed, level_rows, level_cols)
        if depth < 0:
            return
        for i in range(len(unmet)):
            while unmet[i] > 0 and _find_path(
                i, depth, reach, spare, fed, level_rows, level_cols, path_rows, path_cols
            ):
                _shift(depth, path_rows, path_cols, unmet, spare, flow, fed)


@jit(inner=True)
def _levels(reach, unmet, spare, fed, level_rows, level_cols):
    """Sort lines by their distance from unmet rows; return the level of the first spare column, or -1."""
    seen_rows, seen_cols = np.zeros(fed.shape[1], np.int64), np.zeros(reach.shape[1], np.int64)
    level_rows[0] = 0
    for i in range(len(unmet)):
        if unmet[i] > 0:
            level_rows[0, i >> 5] |= 1 << (i & 31)
    for k in range(len(level_rows)):
        if not _spread(level_rows[k], seen_rows, reach, level_cols[k], seen_cols):
            return -1
        for j in range(len(spare)):
            if spare[j] > 0 and _has(level_cols[k], j):
                return k
        if k + 1 == len(level_rows) or not _spread(level_cols[k], seen_cols, fed, level_rows[k + 1], seen_rows):
            return -1
    return -1


@jit(inner=True)
def _spread(level, seen, sets, following, following_seen):
    """Put into `following` what `sets` hold for the members of `level` and is not seen; return whether that is any."""
    following[:] = 0
    for w in range(len(level)):
        left = level[w]
        seen[w] |= left
        while left:
            member = w * WORD + _lowest(left)
            left &= left - 1
            for q in range(len(following)):
                following[q] |= sets[member, q]
    some = 0
    for q in range(len(following)):
        following[q] &= ~following_seen[q]
        some |= following[q]
    return some != 0


@jit(inner=True)
def _find_path(root, depth, reach, spare, fed, level_rows, level_cols, path_rows, path_cols):
    """Find a shortest path from row `root` to a spare column; lines that lead nowhere leave their level."""
    k = 0
    path_rows[0] = root
    while k >= 0:
        i = path_rows[k]
        j = _first_common(reach[i], level_cols[k])
        if j < 0:
            _drop(level_rows[k], i)
            k -= 1
            continue
        path_cols[k] = j
        if k == depth:
            if spare[j] > 0:
                return True
            _drop(level_cols[k], j)
            continue
        r = _first_common(fed[j], level_rows[k + 1])
        if r < 0:
            _drop(level_cols[k], j)
            continue
        k += 1
        path_rows[k] = r
    return False


@jit(inner=True)
def _shift(depth, path_rows, path_cols, unmet, spare, flow, fed):
    """Send as much along the path as it takes."""
    root, last = path_rows[0], path_cols[depth]
    amount = min(unmet[root], spare[last])
    if flow.shape[0] > 0:
        for k in range(depth):
            amount = min(amount, flow[path_cols[k], path_rows[k + 1]])
    for k in range(depth + 1):
        _add(flow, fed, path_rows[k], path_cols[k], amount)
        if k < depth:
            _add(flow, fed, path_rows[k + 1], path_cols[k], -amount)
    unmet[root] -= amount
    spare[last] -= amount


@jit(inner=True)
def _weigh(row_caps, col_caps, slack, flow, fed, words):
    """Return the columns that each row feeds; forget, there and in `fed`, the flows that are rounding only.

    A line that gets more than half of its target (see `_starved`) keeps at least its largest flow.
    """
    feeds = np.zeros((len(row_caps), words), np.int64)
    lines = 2 * max(len(row_caps), len(col_caps))
    for j in range(len(col_caps)):
        for w in range(fed.shape[1]):
            left = fed[j, w]
            while left:
                i = w * WORD + _lowest(left)
                left &= left - 1
                if slack == 0 or flow[j, i] > min(slack, min(row_caps[i], col_caps[j]) // lines):
                    feeds[i, j >> 5] |= 1 << (j & 31)
                else:
                    _drop(fed[j], i)
    return feeds


@jit(inner=True)
def _starved(missing, caps):
    """Whether a line lacks half of its target or more: no rounding error, however small that target is."""
    found = False
    for k in range(len(caps)):
        found = found or (caps[k] > 0 and 2 * missing[k] >= caps[k])
    return found


# --- answers ----------------------------------------------------------------------------------------------------------


@jit(inner=True)
def _cut(unmet, slack, reach, fed, rows, cols):
    """Collect the rows that share columns, directly or not, with rows that stay unmet: together they want too much."""
    seen = np.zeros(fed.shape[1], np.int64)
    stack = np.empty(len(rows), np.int64)
    depth = 0
    largest = unmet.max()
    noise = slack // len(rows)
    for i in range(len(rows)):
        # Where something larger is missing, what rounding left unmet proves nothing.
        if unmet[i] > 0 and (unmet[i] > noise or largest <= noise):
            _mark(seen, i)
            stack[depth] = i
            depth += 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        rows[i] = True
        for j in range(len(cols)):
            if not cols[j] and _has(reach[i], j):
                cols[j] = True
                depth = _visit(fed[j], seen, stack, depth)


@jit(inner=True)
def _visit(found, seen, stack, depth):
    """Put what is in `found` and not in `seen` on the stack and into `seen`; return the new depth."""
    for w in range(len(seen)):
        new = found[w] & ~seen[w]
        seen[w] |= new
        while new:
            stack[depth] = w * WORD + _lowest(new)
            depth += 1
            new &= new - 1
    return depth


@jit(inner=True)
def _blocks(row_caps, reach, users, feeds, fed, row_block, col_block):
    """Write the strongly connected components of row -> column (positive cell) -> row (flow), counted by first row."""
    order = _finishing_order(row_caps, reach, fed)
    seen = np.zeros(fed.shape[1], np.int64)
    stack = np.empty(len(row_caps), np.int64)
    count = 0
    for k in range(len(order) - 1, -1, -1):
        if not _has(seen, order[k]):
            _collect(order[k], count, users, feeds, seen, stack, row_block, col_block)
            count += 1
    renumbered = stack
    renumbered[:] = -1
    count = 0
    for i in range(len(row_block)):
        old = row_block[i]
        if old >= 0:
            if renumbered[old] < 0:
                renumbered[old] = count
                count += 1
            row_block[i] = renumbered[old]
    for j in range(len(col_block)):
        if col_block[j] >= 0:
            col_block[j] = renumbered[col_block[j]]


@jit(inner=True)
def _finishing_order(row_caps, reach, fed):
    """Order the rows by the end of a depth-first search (first half of Kosaraju's algorithm)."""
    R = len(row_caps)
    order, stack = np.empty(R, np.int64), np.empty(R, np.int64)
    seen_rows, seen_cols = np.zeros(fed.shape[1], np.int64), np.zeros(reach.shape[1], np.int64)
    n = 0
    for root in range(R):
        if row_caps[root] == 0 or _has(seen_rows, root):
            continue
        _mark(seen_rows, root)
        stack[0] = root
        depth = 1
        while depth > 0:
            r = _next_row(reach[stack[depth - 1]], fed, seen_rows, seen_cols)
            if r >= 0:
                _mark(seen_rows, r)
                stack[depth] = r
                depth += 1
            else:
                depth -= 1
                order[n] = stack[depth]
                n += 1
    return order[:n]


@jit(inner=True)
def _next_row(reached, fed, seen_rows, seen_cols):
    """Return a row not seen yet that feeds one of the columns in `reached`, or -1; close columns without one."""
    while True:
        j = _first_new(reached, seen_cols)
        if j < 0:
            return -1
        r = _first_new(fed[j], seen_rows)
        if r >= 0:
            return r
        _mark(seen_cols, j)


@jit(inner=True)
def _collect(root, block, users, feeds, seen, stack, row_block, col_block):
    """Give `block` to every line from which `root` can be reached, as far as it has none (the second half)."""
    _mark(seen, root)
    stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        row_block[i] = block
        for w in range(feeds.shape[1]):
            left = feeds[i, w]
            while left:
                j = w * WORD + _lowest(left)
                left &= left - 1
                if col_block[j] < 0:
                    col_block[j] = block
                    depth = _visit(users[j], seen, stack, depth)


@jit(inner=True)
def _mark_dead(positive, row_block, col_block, dead):
    """Mark the positive cells between different blocks; return whether there are any."""
    R, C = positive.shape
    found = False
    for i in range(R):
        for j in range(C):
            if positive[i, j] and row_block[i] != col_block[j] and row_block[i] >= 0 and col_block[j] >= 0:
                dead[i, j] = True
                found = True
    return found


# --- the op -----------------------------------------------------------------------------------------------------------


@jit(inner=True)
def _look(M, positive):
    """Read the matrix once; return its number of zeros, or -1 if a cell is NaN, infinite or negative."""
    R, C = M.shape
    zeros, good = 0, True
    for i in range(R):
        for j in range(C):
            m = M[i, j]
            good = good and 0.0 <= m < np.inf
            positive[i, j] = m > 0.0
            zeros += m == 0.0
    return zeros if good else -1


@jit(inner=True)
def _check_targets(u, v):
    """Make the total of `v` equal to that of `u`; return the status that follows."""
    U, V = 0.0, 0.0
    good = True
    for i in range(len(u)):
        good = good and 0.0 <= u[i] < np.inf
        U += u[i]
    for j in range(len(v)):
        good = good and 0.0 <= v[j] < np.inf
        V += v[j]
    if not good:
        return INVALID
    if not (np.inf > U and np.inf > V):
        return RANGE
    if not abs(U - V) <= TOTALS_RTOL * max(U, V):
        return TOTALS
    if U != V:
        for j in range(len(v)):
            v[j] *= U / V
    return OK


@jit(inner=True)
def _mark_empty_lines(positive, u, v, rows, cols):
    """Mark empty rows with a target, else all rows if some column with a target is empty; and what they reach.

    Empty are also rows with positive cells in columns without target alone, and the other way round.
    """
    R, C = positive.shape
    found = False
    for i in range(R):
        rows[i] = u[i] > 0.0
        for j in range(C):
            rows[i] = rows[i] and not (positive[i, j] and v[j] > 0.0)
        found = found or rows[i]
    if found:
        for j in range(C):
            cols[j] = False
            for i in range(R):
                cols[j] = cols[j] or (rows[i] and positive[i, j])
        return True
    for j in range(C):
        cols[j] = v[j] == 0.0
        for i in range(R):
            cols[j] = cols[j] or (positive[i, j] and u[i] > 0.0)
        found = found or not cols[j]
    if found:
        for i in range(R):
            rows[i] = u[i] > 0.0
    return found


@jit(inner=True)
def _support_one(M, u, v, positive, dead, row_block, col_block, rows, cols, sums):
    """Fill the answers for one matrix and return its status. Changes `v`."""
    zeros = _look(M, positive)
    status = _check_targets(u, v)
    dead[:] = False
    rows[:] = status == TOTALS and zeros >= 0
    cols[:] = status == TOTALS and zeros >= 0
    row_block[:] = -1
    col_block[:] = -1
    sums[:] = np.nan
    if zeros < 0 or status == INVALID:
        return INVALID
    if status == OK and zeros == 0 and np.all(u > 0.0) and np.all(v > 0.0):
        row_block[:] = 0
        col_block[:] = 0
    elif status == OK and _mark_empty_lines(positive, u, v, rows, cols):
        status = ZERO_LINE
    elif status == OK:
        status = classify(positive, u, v, dead, row_block, col_block, rows, cols)
    sums[:] = 0.0
    for i in range(len(u)):
        sums[0] += u[i] if rows[i] else 0.0
    for j in range(len(v)):
        sums[1] += v[j] if cols[j] else 0.0
    return status


@jit()
def _support(
    M, m_step, row_sums, row_step, col_sums, col_step,
    out_status, out_dead, out_row_block, out_col_block, out_rows, out_cols, out_sums, start, stop,
):  # fmt: skip
    R, C = M.shape[1:]
    positive = np.empty((R, C), np.bool_)
    u, v = np.empty(R), np.empty(C)
    for b in range(start, stop):
        u[:] = row_sums[b * row_step]
        v[:] = col_sums[b * col_step]
        out_status[b] = _support_one(
            M[b * m_step], u, v, positive,
            out_dead[b], out_row_block[b], out_col_block[b], out_rows[b], out_cols[b], out_sums[b],
        )  # fmt: skip


def support(M, row_sums, col_sums, *, num_threads=None):
    """Status, dead cells, blocks of rows and columns; certificate: rows, columns, what they want and what there is."""
    R, C = M.shape[-2:]
    u = np.ones((R, 1)) if row_sums is None else row_sums[..., :, None].astype(np.float64)
    v = np.ones((1, C)) if col_sums is None else col_sums[..., None, :].astype(np.float64)
    batch, (M3, u3, v3), (m_step, row_step, col_step) = batches.broadcast_batches(2, batches.as_floating(M), u, v)
    n = math.prod(batch)
    found = (
        np.empty(n, np.int8), np.empty((n, R, C), np.bool_), np.empty((n, R), np.int64), np.empty((n, C), np.int64),
        np.empty((n, R), np.bool_), np.empty((n, C), np.bool_), np.empty((n, 2)),
    )  # fmt: skip
    args = (M3, m_step, u3.reshape(len(u3), R), row_step, v3.reshape(len(v3), C), col_step, *found)
    seconds = n * (R * C * SECONDS_PER_CELL + SECONDS_PER_MATRIX)
    pool.run(_support, args, n, seconds=seconds, num_threads=num_threads)
    status, dead, row_block, col_block, rows, cols, sums = (a.reshape(batch + a.shape[1:]) for a in found)
    return status, dead, row_block, col_block, rows, cols, sums[..., 0], sums[..., 1]
