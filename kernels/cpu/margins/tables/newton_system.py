"""Newton system of a large table: sparse Cholesky by minimum degree, then panels for the dense trailing block."""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, new_lines, splat, store
from cmfast.kernels.cpu.margins.tables.minimum_degree import EliminationOrder, order_unknowns, transpose_lists
from cmfast.kernels.cpu.margins.tables.workspace import CELLS, LEVENBERG, SLACK, UNKNOWNS
from cmfast.kernels.cpu.solver.panel_cholesky import (
    COLUMNS,
    allocate_panels,
    factorize_panels,
    locate_line,
    substitute_panels,
)


class NewtonSystem(NamedTuple):
    """Pattern and Cholesky factor of the Hessian of a table, the Schur complement of the eliminated margin.

    The coupling of an eliminated marginal to an unknown with common cells is an entry; those of a marginal are sorted
    by unknowns.
    """

    order: EliminationOrder
    entry_of: np.ndarray  # (cells, margins) int32: entry of a cell for each of its unknowns, or -1
    places: np.ndarray  # (entries,) int64: positions of their unknowns in the ordering
    first: np.ndarray  # (eliminated marginals + 1,) int64: first entry of each
    holds: np.ndarray  # (positions + 1,) int64: first index in `held` of each position
    held: np.ndarray  # (2, entries) int64: eliminated marginal and entry
    meets: np.ndarray  # (positions + 1,) int64: first index in `met` of each position
    met: np.ndarray  # (2, pairs) int32: position of a later unknown with a common cell, and that cell
    entries: np.ndarray  # (entries,) sums of common cells, times the scale of the unknown
    values: np.ndarray  # (partners,) values of the sparse columns at their elimination
    pivots: np.ndarray  # (eliminated,) pivots of the sparse columns
    row: np.ndarray  # SIMD lines of one row during elimination; zero in between
    panels: np.ndarray  # panels of the dense trailing block


@jit()
def factorize_symbolically(t):
    """Return the Newton system of a table with its pattern (symbolic factorisation), without values."""
    n, m, n_cells, n_closed = t.counts[UNKNOWNS], t.codes.shape[1], t.counts[CELLS], len(t.closed)
    order = order_unknowns(t)
    n_places, alone = len(order.order), len(order.begins) - 1
    rest = n_places - find_dense_start(order)
    entry_of, first = np.full((n_cells, m), -1, np.int32), np.zeros(n_closed + 1, np.int64)
    places, entry, number = np.empty(n_cells * (m - 1), np.int64), np.full(n + 1, -1), 0
    meets = np.zeros(n_places + 1, np.int64)
    for line in range(n_closed):
        start = number
        for c in range(t.first[line], t.first[line + 1]):
            for b in range(1, m):
                k = t.codes[c, b]
                if k == n:
                    continue
                if entry[k] < start:
                    entry[k], places[number], number = number, order.rank[k], number + 1
                entry_of[c, b] = entry[k]
                for a in range(1, b):
                    if t.codes[c, a] < n:
                        meets[min(order.rank[k], order.rank[t.codes[c, a]]) + 1] += 1
        first[line + 1] = number
    holds, held = transpose_lists(first, places, n_places)
    at, moved = first[:n_closed].copy(), np.empty(number, np.int64)
    for place in range(n_places):  # sorts the entries of each eliminated marginal by position
        for h in range(holds[place], holds[place + 1]):
            line = held[0, h]
            moved[held[1, h]], held[1, h], places[at[line]] = at[line], at[line], place
            at[line] += 1
    for c in range(n_cells):
        for b in range(1, m):
            if entry_of[c, b] >= 0:
                entry_of[c, b] = moved[entry_of[c, b]]
    for i in range(n_places):
        meets[i + 1] += meets[i]
    met, at = np.empty((2, meets[n_places]), np.int32), meets[:n_places].copy()
    for c in range(n_cells):
        for b in range(2, m):
            for a in range(1, b):
                if t.codes[c, b] < n and t.codes[c, a] < n:
                    one, other = order.rank[t.codes[c, b]], order.rank[t.codes[c, a]]
                    low = min(one, other)
                    met[0, at[low]], met[1, at[low]] = max(one, other), c
                    at[low] += 1
    row = new_lines(n_places // WIDTH)
    row[:] = 0.0
    return NewtonSystem(
        order=order,
        entry_of=entry_of,
        places=places[:number].copy(),
        first=first,
        holds=holds,
        held=held,
        meets=meets,
        met=met,
        entries=np.empty(number),
        values=np.empty(len(order.partners)),
        pivots=np.empty(alone),
        row=row,
        panels=allocate_panels(rest),
    )


@jit(inner=True, inline=True)
def find_dense_start(order):
    """Return the position of the first unknown of the dense trailing block, at a full panel."""
    return (len(order.begins) - 1 + COLUMNS - 1) // COLUMNS * COLUMNS


@jit()
def factorize_hessian(t, equations):
    """Form the Hessian, scaled to a unit diagonal, and factorise it; return False if a pivot is not positive.

    Levenberg-Marquardt damping makes it positive definite: a multiplier that others determine has a zero pivot, and its
    gradient is zero.
    """
    order, row = equations.order, equations.row.reshape(equations.row.size)
    alone, rest = len(equations.pivots), find_dense_start(order)
    n = len(order.order) - rest
    _scale_unknowns(t)
    _sum_entries(t, equations)
    for i in range(alone):
        _form_row(t, equations, row, i)
        pivot = row[i]
        row[i] = 0.0
        for p in range(order.begins[i], order.begins[i + 1]):
            equations.values[p] = row[order.partners[p]]
            row[order.partners[p]] = 0.0
        if not pivot > 0.0:
            return False
        equations.pivots[i] = pivot
    for i in range(rest, len(order.order)):
        if order.order[i] < t.counts[UNKNOWNS]:
            _form_row(t, equations, row, i)
        else:
            row[i] = 1.0
        for column in range((i - rest) // COLUMNS * COLUMNS, n, COLUMNS):
            at, to = (rest + column) // WIDTH, locate_line(n, i - rest, column)
            store(equations.panels, to, load(equations.row, at))
            store(equations.panels, to + 1, load(equations.row, at + 1))
            store(equations.row, at, splat(0.0))
            store(equations.row, at + 1, splat(0.0))
    return factorize_panels(equations.panels, n)


@jit()
def scale_system(t):
    """Set the scales of the unknowns and the right-hand side of the step, for solvers that do not form the Hessian."""
    _scale_unknowns(t)


@jit(inner=True, borrows=True)
def _scale_unknowns(t):
    """Set the scales of the unknowns to a unit diagonal, and the scaled right-hand side of the step."""
    for k in range(t.counts[UNKNOWNS]):
        # A marginal whose cells all underflow gets no step: its scale would be infinite.
        size = t.sums[k] + t.slack[k] * t.goal[k]
        t.scale[k] = 1.0 / math.sqrt(size) if size > 0.0 else 0.0
        t.step[k] = t.scale[k] * (t.goal[k] - t.sums[k])


@jit(inner=True, borrows=True)
def _sum_entries(t, equations):
    """Compute the entries: the scaled sums of the cells that an eliminated marginal and an unknown share."""
    order, entries = equations.order.order, equations.entries
    entries[:] = 0.0
    for c in range(t.counts[CELLS]):
        for b in range(1, t.codes.shape[1]):
            if equations.entry_of[c, b] >= 0:
                entries[equations.entry_of[c, b]] += t.x[c]
    for p in range(len(entries)):
        entries[p] *= t.scale[order[equations.places[p]]]


@jit(inner=True, borrows=True)
def _form_row(t, equations, row, i):
    """Form row `i` of the Hessian from the diagonal on.

    Eliminated marginals and earlier sparse columns are subtracted.
    """
    order = equations.order.order
    scale = t.scale[order[i]]
    row[i] = (t.sums[order[i]] + t.slack[order[i]] * t.goal[order[i]]) * scale * scale
    for p in range(equations.meets[i], equations.meets[i + 1]):
        j = equations.met[0, p]
        row[j] += t.x[equations.met[1, p]] * scale * t.scale[order[j]]
    for h in range(equations.holds[i], equations.holds[i + 1]):
        line = equations.held[0, h]
        if t.closed[line] > 0.0:
            start = equations.held[1, h]
            part = equations.entries[start] / (t.closed_goal[line] * (1.0 + t.state[SLACK]))
            for p in range(start, equations.first[line + 1]):
                row[equations.places[p]] -= part * equations.entries[p]
    row[i] += t.state[LEVENBERG]
    for u in range(equations.order.takes[i], equations.order.takes[i + 1]):
        before, start = equations.order.taken[0, u], equations.order.taken[1, u]
        part = equations.values[start] / equations.pivots[before]
        for p in range(start, equations.order.begins[before + 1]):
            row[equations.order.partners[p]] -= part * equations.values[p]


@jit()
def solve_system(t, equations):
    """Solve for the Newton step by forward and back substitution, in place in `t.step`."""
    order, row = equations.order, equations.row.reshape(equations.row.size)
    alone, rest = len(equations.pivots), find_dense_start(order)
    for i in range(len(order.order)):
        row[i] = t.step[order.order[i]] if order.order[i] < t.counts[UNKNOWNS] else 0.0
    for i in range(alone):
        part = row[i] / equations.pivots[i]
        for p in range(order.begins[i], order.begins[i + 1]):
            row[order.partners[p]] -= equations.values[p] * part
    substitute_panels(equations.panels, len(order.order) - rest, equations.row[rest // WIDTH :])
    for i in range(alone - 1, -1, -1):
        total = row[i]
        for p in range(order.begins[i], order.begins[i + 1]):
            total -= equations.values[p] * row[order.partners[p]]
        row[i] = total / equations.pivots[i]
    for i in range(len(order.order)):
        if order.order[i] < t.counts[UNKNOWNS]:
            t.step[order.order[i]] = row[i]
    row[:] = 0.0
