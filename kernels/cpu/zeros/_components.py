"""What is connected: the rows that together want too much, and the blocks between which every cell is zero."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.zeros._sets import CUT, PARTS, SET_WORD_BITS, TABLE, first_new, has, lowest, mark


@PARTS.part(CUT, lambda: (TABLE[0], 0, TABLE, TABLE, *2 * (np.zeros(1, np.bool_),)), returns=None)
def cut(unmet, slack, reach, fed, rows, cols):
    """Collect the rows that share columns, directly or not, with rows that stay unmet: together they want too much."""
    seen = np.zeros(fed.shape[1], np.int64)
    stack = np.empty(len(rows), np.int64)
    depth = 0
    largest = unmet.max()
    noise = slack // len(rows)
    for i in range(len(rows)):
        # Where something larger is missing, what rounding left unmet proves nothing.
        if unmet[i] > 0 and (unmet[i] > noise or largest <= noise):
            mark(seen, i)
            stack[depth] = i
            depth += 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        rows[i] = True
        for j in range(len(cols)):
            if not cols[j] and has(reach[i], j):
                cols[j] = True
                depth = _visit(fed[j], seen, stack, depth)


@jit(inner=True, borrows=True)
def _visit(found, seen, stack, depth):
    """Put what is in `found` and not in `seen` on the stack and into `seen`; return the new depth."""
    for w in range(len(seen)):
        new = found[w] & ~seen[w]
        seen[w] |= new
        while new:
            stack[depth] = w * SET_WORD_BITS + lowest(new)
            depth += 1
            new &= new - 1
    return depth


@jit(inner=True)
def find_blocks(row_caps, reach, users, feeds, fed, row_block, col_block):
    """Write the strongly connected components of row -> column (positive cell) -> row (flow), counted by first row."""
    order = _finishing_order(row_caps, reach, fed)
    seen = np.zeros(fed.shape[1], np.int64)
    stack = np.empty(len(row_caps), np.int64)
    count = 0
    for k in range(len(order) - 1, -1, -1):
        if not has(seen, order[k]):
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
        if row_caps[root] == 0 or has(seen_rows, root):
            continue
        mark(seen_rows, root)
        stack[0] = root
        depth = 1
        while depth > 0:
            r = _next_row(reach[stack[depth - 1]], fed, seen_rows, seen_cols)
            if r >= 0:
                mark(seen_rows, r)
                stack[depth] = r
                depth += 1
            else:
                depth -= 1
                order[n] = stack[depth]
                n += 1
    return order[:n]


@jit(inner=True, borrows=True)
def _next_row(reached, fed, seen_rows, seen_cols):
    """Return a row not seen yet that feeds one of the columns in `reached`, or -1; close columns without one."""
    while True:
        j = first_new(reached, seen_cols)
        if j < 0:
            return -1
        r = first_new(fed[j], seen_rows)
        if r >= 0:
            return r
        mark(seen_cols, j)


@jit(inner=True, borrows=True)
def _collect(root, block, users, feeds, seen, stack, row_block, col_block):
    """Give `block` to every line from which `root` can be reached, as far as it has none (the second half)."""
    mark(seen, root)
    stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        row_block[i] = block
        for w in range(feeds.shape[1]):
            left = feeds[i, w]
            while left:
                j = w * SET_WORD_BITS + lowest(left)
                left &= left - 1
                if col_block[j] < 0:
                    col_block[j] = block
                    depth = _visit(users[j], seen, stack, depth)


@jit(inner=True, borrows=True)
def mark_dead(positive, row_block, col_block, dead):
    """Mark the positive cells between different blocks; return whether there are any."""
    R, C = positive.shape
    found = False
    for i in range(R):
        for j in range(C):
            if positive[i, j] and row_block[i] != col_block[j] and row_block[i] >= 0 and col_block[j] >= 0:
                dead[i, j] = True
                found = True
    return found
