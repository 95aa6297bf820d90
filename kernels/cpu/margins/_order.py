"""In which order unknowns are eliminated: first those that few others depend on, the rest by the library.

Sparse tables have equations of which most entries are zero. Whoever has the fewest partners goes first, while that is
less work than leaving it to the library, which is many times faster with an entry, but knows no zeros.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins._table import ELIMINATED, UNKNOWNS

SHARE = 5  # of those that are left, of which an unknown may have one part as partners to be eliminated here


@jit()
def arranged(t):
    """Set the order of the unknowns; return where the partners of each eliminated one begin, and their places."""
    n = t.counts[UNKNOWNS]
    linked = _linked(t)
    degree = np.zeros(n, np.int64)
    for k in range(n):
        degree[k] = linked[k, :n].sum()
    left, number = np.ones(n, np.bool_), 0
    begins, partners, own = np.zeros(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    while number < n - 1:  # one is left to the library
        best = -1
        for k in range(n):
            if left[k] and (best < 0 or degree[k] < degree[best]):
                best = k
        if SHARE * degree[best] >= n - number:
            break
        d = 0
        for j in range(n):
            if left[j] and linked[best, j]:
                own[d] = j
                d += 1
        start = begins[number]
        if start + d > len(partners):
            more = np.empty(2 * (start + d), np.int64)
            more[:start] = partners[:start]
            partners = more
        partners[start : start + d] = own[:d]
        for p in range(d):
            degree[own[p]] -= 1
            for q in range(p):
                if not linked[own[p], own[q]]:
                    linked[own[p], own[q]], linked[own[q], own[p]] = True, True
                    degree[own[p]] += 1
                    degree[own[q]] += 1
        left[best], t.rank[best] = False, number
        number += 1
        begins[number] = start + d
    t.counts[ELIMINATED] = number
    for k in range(n):
        if left[k]:
            t.rank[k] = number
            number += 1
        t.order[t.rank[k]] = k
    number = t.counts[ELIMINATED]
    for i in range(number):
        for p in range(begins[i], begins[i + 1]):
            partners[p] = t.rank[partners[p]]
        partners[begins[i] : begins[i + 1]].sort()
    return begins[: number + 1].copy(), partners[: begins[number]].copy()


@jit(inner=True)
def _linked(t):
    """Return which unknowns have a closed line in common; each is linked with no other by itself."""
    n, m = t.counts[UNKNOWNS], t.codes.shape[1]
    linked = np.zeros((n + 1, n + 1), np.bool_)
    seen, touched = np.zeros(n + 1, np.bool_), np.empty(n + 1, np.int64)
    for line in range(len(t.closed)):
        number = 0
        for c in range(t.first[line], t.first[line + 1]):
            for b in range(1, m):
                k = t.codes[c, b]
                if not seen[k]:
                    seen[k], touched[number], number = True, k, number + 1
        for i in range(number):
            seen[touched[i]] = False
            for j in range(i):
                linked[touched[i], touched[j]], linked[touched[j], touched[i]] = True, True
    return linked


@jit()
def eliminate(t):
    """Eliminate the unknowns that come first from the equations of the others; return whether that went well."""
    e = t.counts[ELIMINATED]
    for i in range(e):
        row, pivot = t.sparse[i], t.sparse[i, i]
        if not pivot > 0.0:
            return False
        stop = t.begins[i + 1]
        for p in range(t.begins[i], stop):
            low = t.partners[p]
            part = row[low] / pivot
            into, start = (t.sparse[low], 0) if low < e else (t.curvature[low - e], e)
            for q in range(p, stop):
                high = t.partners[q]
                into[high - start] -= part * row[high]
    return True


@jit()
def forward(t):
    """Return the right-hand side in the order of elimination, of which the library solves what stands last."""
    e, n = t.counts[ELIMINATED], t.counts[UNKNOWNS]
    b = np.empty(n)
    for i in range(n):
        b[i] = t.step[t.order[i]]
    for i in range(e):
        part = b[i] / t.sparse[i, i]
        for p in range(t.begins[i], t.begins[i + 1]):
            b[t.partners[p]] -= t.sparse[i, t.partners[p]] * part
    return b


@jit()
def backward(t, b):
    """Solve for the unknowns that were eliminated, the others known; keep all as the step."""
    for i in range(t.counts[ELIMINATED] - 1, -1, -1):
        total = b[i]
        for p in range(t.begins[i], t.begins[i + 1]):
            total -= t.sparse[i, t.partners[p]] * b[t.partners[p]]
        b[i] = total / t.sparse[i, i]
    for i in range(t.counts[UNKNOWNS]):
        t.step[t.order[i]] = b[i]
