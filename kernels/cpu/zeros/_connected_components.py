"""Strongly connected components (Kosaraju) of the residual graph, unsupported cells, and the Hall violator."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.zeros._bit_sets import (
    HALL_VIOLATOR,
    PARTS,
    SET_WORD_BITS,
    TABLE,
    add_member,
    find_first_new,
    find_lowest_bit,
    has_member,
)


@PARTS.part(HALL_VIOLATOR, lambda: (TABLE[0], 0, TABLE, TABLE, *2 * (np.zeros(1, np.bool_),)), returns=None)
def find_hall_violator(unmet, slack, reach, fed, rows, cols):
    """Mark the Hall violator: rows reachable from rows with unmet targets, which want more than their columns have."""
    seen = np.zeros(fed.shape[1], np.int64)
    stack = np.empty(len(rows), np.int64)
    depth = 0
    largest = unmet.max()
    noise = slack // len(rows)
    for i in range(len(rows)):
        # Unmet targets of the size of rounding prove nothing where larger ones exist.
        if unmet[i] > 0 and (unmet[i] > noise or largest <= noise):
            add_member(seen, i)
            stack[depth] = i
            depth += 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        rows[i] = True
        for j in range(len(cols)):
            if not cols[j] and has_member(reach[i], j):
                cols[j] = True
                depth = _push_new(fed[j], seen, stack, depth)


@jit(inner=True, borrows=True)
def _push_new(found, seen, stack, depth):
    """Push the members of `found` that are not in `seen` on the stack, and add them to `seen`; return the new depth."""
    for w in range(len(seen)):
        new = found[w] & ~seen[w]
        seen[w] |= new
        while new:
            stack[depth] = w * SET_WORD_BITS + find_lowest_bit(new)
            depth += 1
            new &= new - 1
    return depth


@jit(inner=True)
def find_blocks(row_caps, reach, users, feeds, fed, row_block, col_block):
    """Write the strongly connected components of row -> column (positive cell) -> row (flow), numbered by first row."""
    order = _order_by_finish(row_caps, reach, fed)
    seen = np.zeros(fed.shape[1], np.int64)
    stack = np.empty(len(row_caps), np.int64)
    count = 0
    for k in range(len(order) - 1, -1, -1):
        if not has_member(seen, order[k]):
            _collect_component(order[k], count, users, feeds, seen, stack, row_block, col_block)
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
def _order_by_finish(row_caps, reach, fed):
    """Return the rows in the order in which a depth-first search finishes them (first half of Kosaraju's algorithm)."""
    R = len(row_caps)
    order, stack = np.empty(R, np.int64), np.empty(R, np.int64)
    seen_rows, seen_cols = np.zeros(fed.shape[1], np.int64), np.zeros(reach.shape[1], np.int64)
    n = 0
    for root in range(R):
        if row_caps[root] == 0 or has_member(seen_rows, root):
            continue
        add_member(seen_rows, root)
        stack[0] = root
        depth = 1
        while depth > 0:
            r = _find_next_row(reach[stack[depth - 1]], fed, seen_rows, seen_cols)
            if r >= 0:
                add_member(seen_rows, r)
                stack[depth] = r
                depth += 1
            else:
                depth -= 1
                order[n] = stack[depth]
                n += 1
    return order[:n]


@jit(inner=True, borrows=True)
def _find_next_row(reached, fed, seen_rows, seen_cols):
    """Return an unseen row that feeds one of the columns in `reached`, or -1.

    Columns without one are marked as seen.
    """
    while True:
        j = find_first_new(reached, seen_cols)
        if j < 0:
            return -1
        r = find_first_new(fed[j], seen_rows)
        if r >= 0:
            return r
        add_member(seen_cols, j)


@jit(inner=True, borrows=True)
def _collect_component(root, block, users, feeds, seen, stack, row_block, col_block):
    """Assign `block` to all unassigned rows and columns from which `root` is reachable (second half of Kosaraju)."""
    add_member(seen, root)
    stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        row_block[i] = block
        for w in range(feeds.shape[1]):
            left = feeds[i, w]
            while left:
                j = w * SET_WORD_BITS + find_lowest_bit(left)
                left &= left - 1
                if col_block[j] < 0:
                    col_block[j] = block
                    depth = _push_new(users[j], seen, stack, depth)


@jit(inner=True, borrows=True)
def mark_unsupported(positive, row_block, col_block, dead):
    """Mark the positive cells between different blocks, which have no support; return whether there are any."""
    R, C = positive.shape
    found = False
    for i in range(R):
        for j in range(C):
            if positive[i, j] and row_block[i] != col_block[j] and row_block[i] >= 0 and col_block[j] >= 0:
                dead[i, j] = True
                found = True
    return found
