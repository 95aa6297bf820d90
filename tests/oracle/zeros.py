"""Zero patterns, one at a time: maximum flow in fractions, strongly connected components, in plain Python."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

CONVERGED, LIMIT_ONLY, INFEASIBLE, TOTALS, INVALID, ZERO_LINE, RANGE = 0, 2, 3, 4, 5, 6, 7


def maximum_flow(positive, u, v):
    """Return ``flow[i][j]``, what rows cannot send, by shortest augmenting paths (Edmonds and Karp)."""
    R, C = positive.shape
    flow = [[Fraction(0)] * C for _ in range(R)]
    unmet, spare = list(u), list(v)
    while (path := _augmenting_path(positive, flow, unmet, spare)) is not None:
        forward = path[0::2]
        backward = path[1::2]
        amount = min([unmet[path[0][0]], spare[path[-1][1]], *(flow[i][j] for i, j in backward)])
        for i, j in forward:
            flow[i][j] += amount
        for i, j in backward:
            flow[i][j] -= amount
        unmet[path[0][0]] -= amount
        spare[path[-1][1]] -= amount
    return flow, unmet


def _augmenting_path(positive, flow, unmet, spare):
    """Return cells, used forward and backward in turn, from an unmet row to a spare column; None if there are none."""
    R, C = positive.shape
    came = {("row", i): None for i in range(R) if unmet[i] > 0}
    queue = list(came)
    for node in queue:
        kind, k = node
        if kind == "row":
            following = [("col", j) for j in range(C) if positive[k, j]]
        elif spare[k] > 0:
            return _cells(came, node)
        else:
            following = [("row", i) for i in range(R) if flow[i][k] > 0]
        for other in following:
            if other not in came:
                came[other] = node
                queue.append(other)
    return None


def _cells(came, node):
    nodes = []
    while node is not None:
        nodes.append(node)
        node = came[node]
    nodes.reverse()
    return [(a[1], b[1]) if a[0] == "row" else (b[1], a[1]) for a, b in pairwise(nodes)]


def reachable(starts, following):
    """Return everything that can be reached from `starts`."""
    found = list(starts)
    for node in found:
        found += [other for other in following(node) if other not in found]
    return set(found)


def classify(positive, u, v):
    """Return status, dead cells, row blocks, column blocks, certificate rows, certificate columns."""
    R, C = positive.shape
    positive = positive & np.array([t > 0 for t in u], bool)[:, None] & np.array([t > 0 for t in v], bool)
    flow, unmet = maximum_flow(positive, u, v)

    def following(node):
        kind, k = node
        if kind == "row":
            return [("col", j) for j in range(C) if positive[k, j]]
        return [("row", i) for i in range(R) if flow[i][k] > 0]

    dead = np.zeros((R, C), bool)
    row_block, col_block = np.full(R, -1), np.full(C, -1)
    rows, cols = np.zeros(R, bool), np.zeros(C, bool)
    if any(unmet):
        cut = reachable([("row", i) for i in range(R) if unmet[i] > 0], following)
        for kind, k in cut:
            (rows if kind == "row" else cols)[k] = True
        return INFEASIBLE, dead, row_block, col_block, rows, cols
    nodes = [("row", i) for i in range(R) if u[i] > 0] + [("col", j) for j in range(C) if v[j] > 0]
    reach = {node: reachable([node], following) for node in nodes}
    count = 0
    for i in range(R):
        if u[i] > 0 and row_block[i] < 0:
            for kind, k in (other for other in reach["row", i] if ("row", i) in reach[other]):
                (row_block if kind == "row" else col_block)[k] = count
            count += 1
    for i, j in np.argwhere(positive):
        dead[i, j] = row_block[i] != col_block[j]
    return LIMIT_ONLY if dead.any() else CONVERGED, dead, row_block, col_block, rows, cols


def _meant(x):
    """Return a target as a fraction: an integer itself, any other number as the decimal or ratio that it rounds."""
    exact = Fraction(float(x))
    return exact if exact.denominator == 1 else exact.limit_denominator(10**6)


def _one(M, u, v):
    R, C = M.shape
    nothing = np.zeros((R, C), bool), np.full(R, -1), np.full(C, -1)
    none, every = (np.zeros(R, bool), np.zeros(C, bool)), (np.ones(R, bool), np.ones(C, bool))
    if any(not (0 <= x < math.inf) for x in (*M.ravel(), *u, *v)):
        return INVALID, *nothing, *none, math.nan, math.nan
    if any(sum(map(Fraction, t.tolist())) > Fraction(float(np.finfo(np.float64).max)) for t in (u, v)):
        return RANGE, *nothing, *none, 0.0, 0.0
    u, v = [_meant(x) for x in u], [_meant(x) for x in v]
    if abs(sum(u) - sum(v)) > Fraction(1, 10**9) * max(sum(u), sum(v)):
        return TOTALS, *nothing, *every, float(sum(u)), float(sum(v))
    if sum(v):
        v = [x * sum(u) / sum(v) for x in v]
    targets_u, targets_v = np.array([x > 0 for x in u], bool), np.array([x > 0 for x in v], bool)
    positive = (M > 0) & targets_u[:, None] & targets_v
    empty_rows, empty_cols = targets_u & ~positive.any(1), targets_v & ~positive.any(0)
    if empty_rows.any():
        status, *found, rows, cols = ZERO_LINE, *nothing, empty_rows, (M[empty_rows] > 0).any(0)
    elif empty_cols.any():
        status, *found, rows, cols = ZERO_LINE, *nothing, targets_u, ~empty_cols
    else:
        status, *found, rows, cols = classify(M > 0, u, v)
    wanted = sum((x for x, member in zip(u, rows, strict=True) if member), Fraction(0))
    available = sum((x for x, member in zip(v, cols, strict=True) if member), Fraction(0))
    return status, *found, rows, cols, float(wanted), float(available)


def support(M, row_sums=None, col_sums=None):
    M = np.asarray(M, np.float64)
    R, C = M.shape[-2:]
    u = np.ones(R) if row_sums is None else np.asarray(row_sums, np.float64)
    v = np.ones(C) if col_sums is None else np.asarray(col_sums, np.float64)
    batch = np.broadcast_shapes(M.shape[:-2], u.shape[:-1], v.shape[:-1])
    M, u, v = np.broadcast_to(M, (*batch, R, C)), np.broadcast_to(u, (*batch, R)), np.broadcast_to(v, (*batch, C))
    kinds = (np.int8, (), bool, (R, C), np.int64, (R,), np.int64, (C,), bool, (R,), bool, (C,), float, (), float, ())
    out = tuple(np.empty(batch + shape, dtype) for dtype, shape in zip(kinds[::2], kinds[1::2], strict=True))
    for index in np.ndindex(batch):
        for part, value in zip(out, _one(M[index], u[index], v[index]), strict=True):
            part[index] = value
    return out


ORACLES = {"support": support}
