"""Balancing of symmetric matrices: dense, in longdouble, by sweeps that take as long as they take."""

import itertools
from collections import Counter

import numpy as np
from scipy.optimize import linprog

OK, LIMIT_ONLY, INFEASIBLE, INVALID, ZERO_LINE = 0, 2, 3, 5, 6
MIN_NNZ, MIN_COUNT, MAD_MAX, NOT_KEPT, EMPTY = 1, 2, 3, 4, 5
SWEEPS = 20_000


def existence(A, s):
    """Say whether a symmetric matrix with zeros where `A` has them has these sums, and needs none besides.

    One linear program: the largest sum of t with t <= x, t <= 1, for x whose sums are f * s, f >= 1.
    """
    n = len(s)
    cells = [(i, j) for i in range(n) for j in range(i, n) if A[i, j] > 0]
    k = len(cells)
    sums, below = np.zeros((n, 2 * k + 1)), np.zeros((k, 2 * k + 1))
    for c, (i, j) in enumerate(cells):
        sums[i, c] = sums[j, c] = 1
        below[c, c], below[c, k + c] = -1, 1
    sums[:, 2 * k] = -s
    bounds = [(0, None)] * k + [(0, 1)] * k + [(1, None)]
    cost = np.concatenate([np.zeros(k), -np.ones(k), [0]])
    found = linprog(cost, A_ub=below, b_ub=np.zeros(k), A_eq=sums, b_eq=np.zeros(n), bounds=bounds, method="highs")
    if found.status == 2:
        return INFEASIBLE
    return OK if found.x[k : 2 * k].min() > 0.5 else LIMIT_ONLY


def swept(A, s):
    """Return the weights by sweeps of rows and columns at once."""
    A, s = A.astype(np.longdouble), s.astype(np.longdouble)
    x = np.ones(len(s), np.longdouble)
    for _ in range(SWEEPS):
        r = x * (A @ x)
        if np.abs(r / s - 1).max() < 1e-16:
            break
        x = x * np.sqrt(s / r)
    assert np.abs(r / s - 1).max() < 1e-14
    return x.astype(np.float64)


def _median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def left_out(pixels, n, keep, groups, min_nnz, min_count, mad_max):
    """Say of every bin why it is left out."""
    number, count, reason = [0] * n, [0.0] * n, [0] * n
    for (i, j), value in pixels.items():
        for k in {i, j}:
            number[k] += 1
            count[k] += value
    for k in range(n):
        reason[k] = MIN_NNZ if number[k] < min_nnz else MIN_COUNT if count[k] < min_count else 0
    if mad_max:
        for low, high in itertools.pairwise(groups):
            some = [count[k] for k in range(low, high) if count[k] > 0]
            for k in range(low, high):
                count[k] /= _median(some) if some else 1
        logs = [np.log(c) for c in count if c > 0]
        if logs:
            middle = _median(logs)
            cutoff = np.exp(middle - mad_max * _median([abs(one - middle) for one in logs]))
            for k in range(n):
                reason[k] = reason[k] or (MAD_MAX if count[k] < cutoff else 0)
    for k in range(n):
        reason[k] = reason[k] or (NOT_KEPT if keep is not None and not keep[k] else 0)
    seen = {k for i, j in pixels for k in (i, j) if reason[i] == reason[j] == 0}
    return np.array([reason[k] or (0 if k in seen else EMPTY) for k in range(n)], np.int8)


def balance(
    rows,
    columns,
    values,
    sums=None,
    keep=None,
    *,
    n,
    symmetric=False,
    blocks=None,
    mad_blocks=None,
    ignore_diags=0,
    min_nnz=0,
    min_count=0,
    mad_max=None,
    tol=1e-9,
):
    """Weights and reason of every bin, status of every block."""
    cuts = [0, n] if blocks is None else list(blocks)
    weights, reason, status = np.full(n, np.nan), np.zeros(n, np.int8), np.full(len(cuts) - 1, INVALID, np.int8)
    s = np.ones(n) if sums is None else np.broadcast_to(np.asarray(sums, np.float64), n)
    given = Counter()
    good = bool((s > 0).all() and np.isfinite(s).all())
    for i, j, value in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True):
        good = good and 0 <= value < np.inf and 0 <= i < n and 0 <= j < n and not (symmetric == "upper" and i > j)
        if good and value > 0:
            given[i, j] += value
    if not symmetric:
        good = good and all(np.isclose(given.get((j, i), 0), value, rtol=1e-12) for (i, j), value in given.items())
    if good:
        block = {k: b for b in range(len(cuts) - 1) for k in range(cuts[b], cuts[b + 1])}
        pixels = {
            (i, j): value
            for (i, j), value in given.items()
            if i <= j and j - i >= ignore_diags and block[i] == block[j]
        }
        groups = cuts if mad_blocks is None else mad_blocks
        reason = left_out(pixels, n, keep, groups, min_nnz, min_count, mad_max)
        for b, (low, high) in enumerate(itertools.pairwise(cuts)):
            kept = [k for k in range(low, high) if reason[k] == 0]
            place = {k: p for p, k in enumerate(kept)}
            A = np.zeros((len(kept), len(kept)))
            for (i, j), value in pixels.items():
                if i in place and j in place:
                    A[place[i], place[j]] = A[place[j], place[i]] = value
            status[b] = existence(A, s[kept]) if kept else ZERO_LINE
            if status[b] == OK:
                weights[kept] = swept(A, s[kept])
    return weights, reason, (status[0] if blocks is None else status)


ORACLES = {"balance": balance}
