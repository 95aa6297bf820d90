"""Zero pattern of a sparse matrix under given margins: maximum flow (Dinic) and strongly connected components."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.scaling import FLOW_SLACK
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, OK


class SparseSupport(NamedTuple):
    """Status, cells that must be zero, and the Hall violator: rows with too large targets, columns they reach."""

    status: int
    dead: Any  # (cells,) whether it must be zero
    rows: Any
    columns: Any


class BipartiteGraph(NamedTuple):
    """The bipartite graph of rows and columns, with an edge for each cell."""

    first: Any  # first cell of each row
    column: Any  # column of each cell
    row: Any  # row of each cell
    back_first: Any  # first index in `back` of each column
    back: Any  # cells sorted by column


class Flow(NamedTuple):
    """A flow from rows to columns."""

    cells: Any  # flow of each cell
    unmet: Any  # unsent target of each row
    room: Any  # residual capacity of each column
    slack: float  # flows up to it count as zero


@jit()
def _send_greedily(graph, flows):
    """Send from each row as much as its columns can take, in order; writes an initial flow."""
    first, column, flow, unmet, room = graph.first, graph.column, flows.cells, flows.unmet, flows.room
    for i in range(len(unmet)):
        for k in range(first[i], first[i + 1]):
            amount = min(unmet[i], room[column[k]])
            flow[k] = amount
            unmet[i] -= amount
            room[column[k]] -= amount


@jit()
def _compute_levels(graph, flows, level, queue):
    """Compute the distances from rows with unsent targets (breadth-first); return whether a free column is reached."""
    (first, column, row, back_first, back), (flow, unmet, room, slack) = graph, flows
    R, tail = len(unmet), 0
    for node in range(len(level)):
        level[node] = -1
    for i in range(R):
        if unmet[i] > slack:
            level[i] = 0
            queue[tail] = i
            tail += 1
    head, found = 0, False
    while head < tail:
        node = queue[head]
        head += 1
        if node < R:
            for k in range(first[node], first[node + 1]):
                other = R + column[k]
                if level[other] < 0:
                    level[other] = level[node] + 1
                    queue[tail] = other
                    tail += 1
                    found = found or room[column[k]] > slack
        else:
            for b in range(back_first[node - R], back_first[node - R + 1]):
                k = back[b]
                if flow[k] > slack and level[row[k]] < 0:
                    level[row[k]] = level[node] + 1
                    queue[tail] = row[k]
                    tail += 1
    return found


@jit()
def _augment_paths(graph, flows, level, arc, path):
    """Augment the flow along shortest paths until none is left at these levels (blocking flow)."""
    (first, column, row, back_first, back), (flow, unmet, room, slack) = graph, flows
    R = len(unmet)
    for i in range(R):
        arc[i] = first[i]
    for j in range(len(room)):
        arc[R + j] = back_first[j]
    for root in range(R):
        node, depth = root, 0
        while unmet[root] > slack and level[root] == 0:
            if node >= R and room[node - R] > slack:
                amount = min(unmet[root], room[node - R])
                for at in range(1, depth, 2):
                    amount = min(amount, flow[path[at]])
                for at in range(depth):
                    flow[path[at]] += amount if at % 2 == 0 else -amount
                unmet[root] -= amount
                room[node - R] -= amount
                node, depth = root, 0
                continue
            end = first[node + 1] if node < R else back_first[node - R + 1]
            following = -1
            while arc[node] < end:
                k = arc[node] if node < R else back[arc[node]]
                other = R + column[k] if node < R else row[k]
                if level[other] == level[node] + 1 and (node < R or flow[k] > slack):
                    following = other
                    path[depth] = k
                    break
                arc[node] += 1
            if following >= 0:
                node, depth = following, depth + 1
                continue
            level[node] = -1
            if depth > 0:
                depth -= 1
                node = row[path[depth]] if node >= R else R + column[path[depth]]
                arc[node] += 1


def classify_sparse_cells(first, column, u, v):
    """Classify the cells of a CSR matrix for row and column sums with one total; return a SparseSupport."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    R, C, number = len(u), len(v), len(column)
    row = np.repeat(np.arange(R), np.diff(first))
    back = np.argsort(column, kind="stable")
    back_first = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=C))]).astype(np.int64)
    flow, unmet, room, slack = np.zeros(number), u.copy(), v.copy(), FLOW_SLACK * float(u.sum())
    level, queue, arc, path = (np.empty(R + C + 1, np.int64) for _ in range(4))
    given = BipartiteGraph(first, column, row, back_first, back), Flow(flow, unmet, room, slack)
    _send_greedily(*given)
    while _compute_levels(*given, level[: R + C], queue):
        pool.checkpoint()
        _augment_paths(*given, level, arc, path)
    dead = np.zeros(number, np.bool_)
    if (unmet > slack).any():
        seen = level[: R + C] >= 0
        return SparseSupport(INFEASIBLE, dead, seen[:R], seen[R:])
    used = flow > slack
    ends = np.concatenate([row, R + column[used]]), np.concatenate([R + column, row[used]])
    graph = csr_array((np.ones(len(ends[0]), np.int8), ends), shape=(R + C, R + C))
    _, part = connected_components(graph, directed=True, connection="strong")
    dead = part[row] != part[R + column]
    return SparseSupport(LIMIT_ONLY if dead.any() else OK, dead, np.zeros(R, np.bool_), np.zeros(C, np.bool_))
