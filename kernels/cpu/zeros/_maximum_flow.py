"""Maximum flow from rows through positive cells to columns, in integers (Dinic; Hopcroft-Karp for equal targets)."""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.zeros._bit_sets import (
    AUGMENT,
    PARTS,
    SET_WORD_BITS,
    TABLE,
    find_first_common,
    find_lowest_bit,
    has_member,
    remove_member,
)
from cmfast.kernels.shared.limits import MOST_EXACT_INTEGER
from cmfast.kernels.shared.scaling import FLOW_SLACK

GRID_BITS = 61  # bits of the integers that fractional targets are rounded to


class RowsAndColumns(NamedTuple):
    """A pair of values, for rows and for columns."""

    rows: Any
    cols: Any


@jit(inner=True)
def compute_capacities(u, v):
    """Convert the targets to integer capacities with one total.

    Return those of rows and columns, the slack that counts as zero in their unit, and whether all are 0 or 1.
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
    whole = whole and U == V and U <= MOST_EXACT_INTEGER
    shift = GRID_BITS - math.frexp(max(U, V))[1]
    row_caps, col_caps = np.empty(len(u), np.int64), np.empty(len(v), np.int64)
    for i in range(len(u)):
        row_caps[i] = _round_capacity(u[i], equal, whole, shift)
    for j in range(len(v)):
        col_caps[j] = _round_capacity(v[j], equal, whole, shift)
    if equal or whole:
        return row_caps, col_caps, 0, equal
    largest, gap = 0, np.int64(0)
    for i in range(len(u)):
        gap += row_caps[i]
    for j in range(len(v)):
        gap -= col_caps[j]
        largest = j if col_caps[j] > col_caps[largest] else largest
    col_caps[largest] += gap  # differences by rounding, far below the largest target
    return row_caps, col_caps, np.int64(FLOW_SLACK * math.ldexp(max(U, V), shift)), False


@jit(inner=True, borrows=True)
def _round_capacity(target, equal, whole, shift):
    """Return one target as an integer capacity, at least 1 if positive."""
    if equal or target == 0.0:
        return np.int64(target > 0.0)
    return np.int64(target) if whole else max(1, np.int64(math.ldexp(target, shift)))


@jit(inner=True)
def pack_sets(positive, row_caps, col_caps):
    """Return bit sets of the columns that each row reaches and of the rows of each column, zero targets left out."""
    R, C = positive.shape
    reach = np.zeros((R, (C + SET_WORD_BITS - 1) // SET_WORD_BITS), np.int64)
    users = np.zeros((C, (R + SET_WORD_BITS - 1) // SET_WORD_BITS), np.int64)
    for i in range(R):
        if row_caps[i] > 0:
            row_word, row_bit = i >> 5, 1 << (i & 31)
            for j in range(C):
                if positive[i, j] and col_caps[j] > 0:
                    reach[i, j >> 5] |= 1 << (j & 31)
                    users[j, row_word] |= row_bit
    return reach, users


@jit(inner=True, borrows=True)
def _add_flow(flow, fed, i, j, amount):
    """Add `amount`, which may be negative, to the flow from row i to column j, and update the bit set `fed`."""
    positive = amount > 0
    if flow.shape[0] > 0:
        flow[j, i] += amount
        positive = flow[j, i] > 0
    if positive:
        fed[j, i >> 5] |= 1 << (i & 31)
    else:
        fed[j, i >> 5] &= ~(1 << (i & 31))


@jit(inner=True, borrows=True)
def send_greedily(positive, unmet, spare, flow, fed):
    """Send flow directly where possible, through the diagonal first, in place; return the unsent total."""
    R, C = positive.shape
    left = 0
    for i in range(R):
        amount = min(unmet[i], spare[i]) if i < C and positive[i, i] else 0
        if amount > 0:
            _add_flow(flow, fed, i, i, amount)
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
                _add_flow(flow, fed, i, j, amount)
                unmet[i] -= amount
                spare[j] -= amount
        left += unmet[i]
    return left


@PARTS.part(AUGMENT, lambda: (TABLE, TABLE[0], TABLE[0], TABLE, TABLE), returns=None)
def maximize_flow(reach, unmet, spare, flow, fed):
    """Augment the flow to a maximum, in place (Dinic's algorithm; for equal targets this is Hopcroft-Karp matching)."""
    longest = min(len(unmet), len(spare)) + 1
    # Bit sets of the rows and columns at each distance from a row with unmet target.
    levels = RowsAndColumns(np.empty((longest, fed.shape[1]), np.int64), np.empty((longest, reach.shape[1]), np.int64))
    path = RowsAndColumns(np.empty(longest, np.int64), np.empty(longest, np.int64))
    while True:
        depth = _compute_levels(reach, unmet, spare, fed, levels)
        if depth < 0:
            return
        for i in range(len(unmet)):
            while unmet[i] > 0 and _find_path(i, depth, reach, spare, fed, levels, path):
                _augment_path(depth, path, unmet, spare, flow, fed)


@jit(inner=True)
def _compute_levels(reach, unmet, spare, fed, levels):
    """Compute the rows and columns at each distance from unmet rows.

    Return the level of the first spare column, or -1.
    """
    level_rows, level_cols = levels
    seen_rows, seen_cols = np.zeros(fed.shape[1], np.int64), np.zeros(reach.shape[1], np.int64)
    level_rows[0] = 0
    for i in range(len(unmet)):
        if unmet[i] > 0:
            level_rows[0, i >> 5] |= 1 << (i & 31)
    for k in range(len(level_rows)):
        if not _advance_level(level_rows[k], seen_rows, reach, level_cols[k], seen_cols):
            return -1
        for j in range(len(spare)):
            if spare[j] > 0 and has_member(level_cols[k], j):
                return k
        if k + 1 == len(level_rows) or not _advance_level(level_cols[k], seen_cols, fed, level_rows[k + 1], seen_rows):
            return -1
    return -1


@jit(inner=True)
def _advance_level(level, seen, sets, following, following_seen):
    """Write to `following` the unseen members of the sets of all members of `level`; return whether there are any."""
    following[:] = 0
    for w in range(len(level)):
        left = level[w]
        seen[w] |= left
        while left:
            member = w * SET_WORD_BITS + find_lowest_bit(left)
            left &= left - 1
            for q in range(len(following)):
                following[q] |= sets[member, q]
    some = 0
    for q in range(len(following)):
        following[q] &= ~following_seen[q]
        some |= following[q]
    return some != 0


@jit(inner=True, borrows=True)
def _find_path(root, depth, reach, spare, fed, levels, path):
    """Find a shortest augmenting path from row `root` to a spare column; dead ends are removed from their level."""
    (level_rows, level_cols), (path_rows, path_cols) = levels, path
    k = 0
    path_rows[0] = root
    while k >= 0:
        i = path_rows[k]
        j = find_first_common(reach[i], level_cols[k])
        if j < 0:
            remove_member(level_rows[k], i)
            k -= 1
            continue
        path_cols[k] = j
        if k == depth:
            if spare[j] > 0:
                return True
            remove_member(level_cols[k], j)
            continue
        r = find_first_common(fed[j], level_rows[k + 1])
        if r < 0:
            remove_member(level_cols[k], j)
            continue
        k += 1
        path_rows[k] = r
    return False


@jit(inner=True, borrows=True)
def _augment_path(depth, path, unmet, spare, flow, fed):
    """Augment the flow along the path by its bottleneck."""
    path_rows, path_cols = path
    root, last = path_rows[0], path_cols[depth]
    amount = min(unmet[root], spare[last])
    if flow.shape[0] > 0:
        for k in range(depth):
            amount = min(amount, flow[path_cols[k], path_rows[k + 1]])
    for k in range(depth + 1):
        _add_flow(flow, fed, path_rows[k], path_cols[k], amount)
        if k < depth:
            _add_flow(flow, fed, path_rows[k + 1], path_cols[k], -amount)
    unmet[root] -= amount
    spare[last] -= amount


@jit(inner=True)
def drop_rounding_flows(row_caps, col_caps, slack, flow, fed, words):
    """Return the columns that each row feeds; flows of the size of rounding are removed from `fed` and left out.

    A row or column that gets more than half of its target (see `has_starved_line`) keeps at least its largest flow.
    """
    feeds = np.zeros((len(row_caps), words), np.int64)
    lines = 2 * max(len(row_caps), len(col_caps))
    for j in range(len(col_caps)):
        for w in range(fed.shape[1]):
            left = fed[j, w]
            while left:
                i = w * SET_WORD_BITS + find_lowest_bit(left)
                left &= left - 1
                if slack == 0 or flow[j, i] > min(slack, min(row_caps[i], col_caps[j]) // lines):
                    feeds[i, j >> 5] |= 1 << (j & 31)
                else:
                    remove_member(fed[j], i)
    return feeds


@jit(inner=True, borrows=True)
def has_starved_line(missing, caps):
    """Test whether a row or column lacks half of its target or more, which no rounding explains however small it is."""
    found = False
    for k in range(len(caps)):
        found = found or (caps[k] > 0 and 2 * missing[k] >= caps[k])
    return found
