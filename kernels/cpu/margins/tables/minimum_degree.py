"""Minimum-degree elimination ordering of a sparse Hessian, and its symbolic factorisation.

The unknown with the fewest neighbours is eliminated first, while that is less work than leaving it to the dense
trailing block, whose panels are many times faster with an entry but store zeros.
"""

from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.workspace import UNKNOWNS
from cmfast.kernels.cpu.solver.panel_cholesky import COLUMNS

SPARSE_SHARE = 7  # an unknown is eliminated here if its neighbours are fewer than this part of the remaining ones


class EliminationOrder(NamedTuple):
    """Elimination ordering and the fill-in pattern of the factor.

    Unknowns eliminated one by one come first, the dense trailing block from a full panel on. One more unknown stands
    for free marginals.
    """

    rank: np.ndarray  # (unknowns + 1,) int64: position of each unknown in the ordering
    order: np.ndarray  # int64: unknown at each position; padding has the one for free marginals
    begins: np.ndarray  # (eliminated + 1,) int64: first entry in `partners` of each sparse column
    partners: np.ndarray  # int64, ascending: positions of the nonzero rows of each sparse column, with fill-in
    takes: np.ndarray  # (positions + 1,) int64: first entry in `taken` of each row
    taken: np.ndarray  # (2, partners) int64: sparse columns with that row, and the index in `partners`


@jit(inner=True)
def order_unknowns(t):
    """Compute the minimum-degree ordering of the unknowns and the pattern of the factor (symbolic factorisation)."""
    n = t.counts[UNKNOWNS]
    linked, degree = _find_neighbours(t)
    left, number = np.ones(n, np.bool_), 0
    rank = np.zeros(n + 1, np.int64)
    begins, partners, own = np.zeros(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    d = 0
    while number < n - 1:  # the dense block keeps at least one
        best, least = -1, d - 1  # an elimination lowers a degree by one at most, so this is minimal
        for k in range(n):
            if left[k] and (best < 0 or degree[k] < degree[best]):
                best = k
                if degree[k] <= least:
                    break
        if SPARSE_SHARE * degree[best] >= n - number:
            break
        d = 0
        for j in range(n):
            if left[j] and linked[best, j]:
                own[d] = j
                d += 1
        start = begins[number]
        if start + d > len(partners):
            more = np.empty(2 * (start + d), np.int64)
            copy_vector(partners[:start], more)
            partners = more
        copy_vector(own[:d], partners[start:])
        for p in range(d):
            degree[own[p]] -= 1
            for q in range(p):
                if not linked[own[p], own[q]]:
                    linked[own[p], own[q]], linked[own[q], own[p]] = True, True
                    degree[own[p]] += 1
                    degree[own[q]] += 1
        left[best], rank[best] = False, number
        number += 1
        begins[number] = start + d
    alone, place = number, (number + COLUMNS - 1) // COLUMNS * COLUMNS
    order = np.full(place + (n - alone + COLUMNS - 1) // COLUMNS * COLUMNS, n)
    for k in range(n):
        if left[k]:
            rank[k] = place
            place += 1
        order[rank[k]] = k
    begins = begins[: alone + 1].copy()
    for p in range(begins[alone]):
        partners[p] = rank[partners[p]]
    takes, taken = transpose_lists(begins, partners, len(order))
    at = begins[:alone].copy()
    for k in range(len(order)):  # transposing the lists back sorts them
        for u in range(takes[k], takes[k + 1]):
            i = taken[0, u]
            partners[at[i]], taken[1, u] = k, at[i]
            at[i] += 1
    return EliminationOrder(rank, order, begins, partners[: begins[alone]].copy(), takes, taken)


@jit(inner=True)
def transpose_lists(begins, places, n):
    """Transpose lists of positions: return the first entry of each position, and for each entry its list and index."""
    first, found = np.zeros(n + 1, np.int64), np.empty((2, begins[-1]), np.int64)
    for p in range(begins[-1]):
        first[places[p] + 1] += 1
    for k in range(n):
        first[k + 1] += first[k]
    at = first[:n].copy()
    for i in range(len(begins) - 1):
        for p in range(begins[i], begins[i + 1]):
            found[0, at[places[p]]], found[1, at[places[p]]] = i, p
            at[places[p]] += 1
    return first, found


@jit(inner=True)
def _find_neighbours(t):
    """Return the adjacency matrix of the unknowns that share an eliminated marginal, and their degrees."""
    n, m = t.counts[UNKNOWNS], t.codes.shape[1]
    linked = np.zeros((n, n), np.bool_)
    seen, touched, degree = np.zeros(n + 1, np.bool_), np.empty(n + 1, np.int64), np.zeros(n, np.int64)
    for line in range(len(t.closed)):
        number = 0
        for c in range(t.first[line], t.first[line + 1]):
            for b in range(1, m):
                k = t.codes[c, b]
                if k < n and not seen[k]:
                    seen[k], touched[number], number = True, k, number + 1
        for i in range(number):
            one = touched[i]
            seen[one] = False
            for j in range(i):
                other = touched[j]
                if not linked[one, other]:
                    linked[one, other], linked[other, one] = True, True
                    degree[one] += 1
                    degree[other] += 1
    return linked, degree
