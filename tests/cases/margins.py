"""Tables and margins, records and totals: bad values, empty lines, every way that margins share axes, batches."""

import numpy as np

from cases._case import Case

PAIRS = ((0, 1), (0, 2), (1, 2))


def table(shape, seed=0, zeros=0.0, sd=1.0):
    """Return a table of random weights, some of them zero."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0.0, sd, shape)) * (rng.random(shape) >= zeros)


def margins_of(T, axes, n_batch=0):
    """Return the margins of tables, their axes in the order named."""
    found = []
    for of in axes:
        others = tuple(n_batch + k for k in range(T.ndim - n_batch) if k not in of)
        order = [sorted(of).index(axis) for axis in of]
        found.append(np.transpose(np.asarray(T.sum(others)), [*range(n_batch), *(n_batch + k for k in order)]))
    return found


def planted(name, shape, axes, *, batch=(), zeros=0.0, fails=False, **options):
    """Return a case whose margins are those of another table with the same zeros."""
    M = table((*batch, *shape), 1, zeros)
    T = M * table((*batch, *shape), 2, sd=0.5)
    return Case(name, (M, *margins_of(T, axes, len(batch))), {"axes": axes, "tol": 1e-13, **options}, fails)


def _bad():
    M = table((5, 2, 3, 2))
    targets = margins_of(table((5, 2, 3, 2), 3), PAIRS, 1)
    M[0, 0, 0, 0], M[2, 1, 2, 1], M[4, 0, 1, 1] = np.nan, np.inf, -1.0
    yield Case("bad-first-middle-last", (M, *targets), {"axes": PAIRS, "tol": 1e-13}, fails=True)
    bad = [t.copy() for t in margins_of(table((4, 2, 3, 2), 3), PAIRS, 1)]
    bad[0][0, 0, 0], bad[1][1, 0, 0], bad[2][2, 0, 0] = np.inf, -1.0, 9.0
    yield Case("bad-targets", (table((2, 3, 2)), *bad), {"axes": PAIRS, "tol": 1e-13}, fails=True)
    yield Case(
        "totals", (np.ones((2, 2)), np.ones(2), np.array([1.0, 1.5])), {"axes": (0, 1), "tol": 1e-13}, fails=True
    )
    empty = np.array([[[1.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])
    yield Case("empty-line", (empty, np.ones((2, 2)), np.ones((2, 2))), {"axes": PAIRS[:2], "tol": 1e-13}, fails=True)


def _small():
    ones = np.ones((0, 2))
    yield Case("batch-of-none", (np.ones((0, 2, 2)), ones, ones), {"axes": (0, 1), "tol": 1e-13})
    yield Case("no-cells", (np.ones((3, 0)), np.zeros(3), np.zeros(0)), {"axes": (0, 1), "tol": 1e-13})
    yield Case("one-cell", (np.array([[3]]), np.array([5]), np.array([5.0])), {"axes": (0, 1), "tol": 1e-13})
    yield Case("one-axis", (np.array([1, 2, 0]), np.array([1.0, 5.0, 0.0])), {"axes": (0,), "tol": 1e-13})
    yield Case("no-targets", (np.ones((2, 3)), np.zeros(2), np.zeros(3)), {"axes": (0, 1), "tol": 1e-13})
    zero = [np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 2.0]])]
    yield Case("zero-targets", (np.ones((2, 2, 2)), *zero), {"axes": PAIRS[:2], "tol": 1e-13})


def _shapes():
    yield planted("two-way", (3, 4), ((0,), (1,)))
    yield planted("pairs", (3, 4, 2), PAIRS)
    yield planted("pairs-backwards", (3, 4, 2), ((2, 1), (1, 0), (2, 0)))
    yield planted("chain", (3, 2, 3, 2), ((0, 1), (1, 2), (2, 3), (0, 3)))
    yield planted("one-way", (2, 3, 2, 3), ((0,), (1,), (2,), (3,)))
    yield planted("contained", (3, 4, 2), ((0,), (0, 1), (1, 2)))
    yield planted("axis-without-margin", (3, 4, 2), ((0,), (1,)), ndim=3)
    yield planted("one-margin", (3, 4, 2), ((2, 0),))
    yield planted("all", (2, 3), ((0, 1), (1,)))
    yield planted("zeros", (4, 4, 3), PAIRS, zeros=0.3)
    yield planted("smoothed", (3, 3, 3), PAIRS, smoothing=0.5)
    yield planted("batch", (3, 2, 2), PAIRS, batch=(2, 3))
    yield planted("large", (9, 9, 9), PAIRS)
    M = table((2, 3, 2))
    yield Case("float32", tuple(np.array(a, np.float32) for a in (M, [1, 2, 3], [2, 4])), {"axes": (1, 0), "ndim": 3})
    yield Case(
        "integers", (np.arange(1, 13).reshape(3, 4), np.array([4, 4, 4]), np.array([3, 3, 3, 3])), {"axes": (0, 1)}
    )
    T = table((4, 2, 3, 2), 4)
    yield Case("shared-table", (M, *margins_of(T, PAIRS[:2], 1)), {"axes": PAIRS[:2], "tol": 1e-13})
    yield Case("shared-targets", (T, *margins_of(M, PAIRS[:2])), {"axes": PAIRS[:2], "tol": 1e-13})
    free = [m.copy() for m in margins_of(T[0], PAIRS)]
    free[0][1, 1], free[1][0, 0], free[1][1, 1], free[2][:, 1] = np.nan, np.nan, np.nan, np.nan
    yield Case("not-asked", (T[1], *free), {"axes": PAIRS, "tol": 1e-13})


def verdict_of(case):
    """Return a case without the options of scaling."""
    return Case(case.id, case.args, {name: case.options[name] for name in ("axes", "ndim") if name in case.options})


def _supports():
    limit, ones = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]), np.ones(3)
    yield Case("limit", (limit, ones, ones), {"axes": (0, 1)})
    yield Case("infeasible", (limit[:, [1, 1, 2]], ones, ones), {"axes": (0, 1)})
    yield Case("both", (np.stack([limit, limit[:, [1, 1, 2]], np.ones((3, 3))]), ones, ones), {"axes": (0, 1)})
    off = [np.eye(2) + 0.1, np.eye(2) + 0.1, np.eye(2)[::-1] + 0.1]
    yield Case("no-zeros", (np.ones((2, 2, 2)), *off), {"axes": ((0, 1), (1, 2), (0, 2))})
    free = [off[0], np.array([[1.1, np.nan], [0.1, 1.1]]), off[2]]
    yield Case("no-zeros-not-asked", (np.ones((2, 2, 2)), *free), {"axes": ((0, 1), (1, 2), (0, 2))})


SOFT = {"axes": PAIRS, "tol": 1e-13}


def _soft():
    M = table((3, 4, 2), 5, 0.2)
    off = [t * table(t.shape, 6 + k, sd=0.3) for k, t in enumerate(margins_of(M, PAIRS))]
    yield Case("soft", (M, *off), {**SOFT, "importance": 2.0})
    yield Case(
        "soft-and-hard", (M, *margins_of(M * table(M.shape, 7), PAIRS)), {**SOFT, "importance": [5.0, np.inf, 0.5]}
    )
    yield Case("soft-of-which-one-is-closed", (M, *off), {**SOFT, "importance": [0.5, 3.0, np.inf]})
    yield Case("soft-batch", (np.stack([M, 2 * M]), *off), {**SOFT, "importance": 100.0})
    empty = M.copy()
    empty[0, 1], off[2][1, 1] = 0.0, 0.0
    yield Case("soft-empty-and-zero", (empty, *off), {**SOFT, "importance": [1.0, 4.0, 2.0]})
    yield Case("hard-empty", (empty, *off), {**SOFT, "importance": [np.inf, 4.0, 2.0]}, fails=True)
    large = table((9, 9, 9), 8)
    many = [t * table(t.shape, 9 + k, sd=0.1) for k, t in enumerate(margins_of(large, PAIRS))]
    yield Case("soft-large", (large, *many), {**SOFT, "importance": [10.0, 1.0, np.inf]})


def listed(case, seed=0):
    """Return a case of tables as one of their cells, those that are positive in some table, in any order."""
    M, *targets = case.args
    options = dict(case.options)
    axes = [of if isinstance(of, tuple) else (of,) for of in options["axes"]]
    ndim = options.pop("ndim", 1 + max(axis for of in axes for axis in of))
    batch, shape = M.shape[: M.ndim - ndim], M.shape[M.ndim - ndim :]
    some = (M != 0).reshape(int(np.prod(batch)), *shape).any(0)
    coords = np.stack(np.nonzero(some))[:, np.random.default_rng(seed).permutation(int(some.sum()))]
    values = np.ascontiguousarray(M[(..., *coords)]) if batch else M[tuple(coords)]
    return Case(case.id, (values, coords, *targets), {**options, "shape": shape}, case.fails)


def survey(n=60, seed=1, sd=0.3):
    """Return columns of which one is all ones, design weights, and totals of other weights."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(n), rng.poisson(0.8, n), rng.random(n) < 0.4, rng.normal(size=n)])
    q = np.exp(rng.normal(0.0, 0.5, n))
    return A, q, A.T @ (q * np.exp(A @ rng.normal(0.0, sd, 4)))


def attributes(n=80, sizes=(3, 2, 4), seed=2):
    """Return codes, a row per attribute, design weights, and weights whose totals are wanted."""
    rng = np.random.default_rng(seed)
    codes = np.stack([np.concatenate([np.arange(size), rng.integers(0, size, n - size)]) for size in sizes])
    q = np.exp(rng.normal(0.0, 0.5, n))
    return codes, q, q * np.exp(rng.normal(0.0, 0.3, n))


def counted(codes, w, sizes, axes):
    """Return what weights add up to in every combination of categories of some attributes."""
    found = []
    for of in axes:
        shape = [sizes[axis] for axis in of]
        keys = np.ravel_multi_index([codes[axis] for axis in of], shape)
        found.append(np.bincount(keys, w, int(np.prod(shape))).reshape(shape))
    return found


EXACT = {"tol": 1e-13}
TIGHT = {**EXACT, "method": "truncated", "bounds": (0.7, 1.3)}


def _records():
    A, q, m = survey()
    yield Case("columns", (A, q, m), EXACT)
    yield Case("linear", (A, q, m), {**EXACT, "method": "linear"})
    yield Case("truncated", (A, q, m), {**EXACT, "method": "truncated", "bounds": (0.4, 2.2)})
    yield Case("logit", (A, q, m), {**EXACT, "method": "logit", "bounds": (0.2, 4.0)})
    each = np.linspace(0.2, 0.5, len(q)), np.linspace(2.0, 3.0, len(q))
    yield Case("bounds-of-records", (A, q, m), {**EXACT, "method": "truncated", "bounds": each})
    yield Case("no-bounds", (A, q, m), {**EXACT, "method": "truncated", "bounds": (0.0, np.inf)})
    yield Case("soft", (A, q, m * [1.0, 1.2, 0.9, 1.5]), {**EXACT, "importance": [np.inf, 2.0, 0.5, 1.0]})
    yield Case("soft-truncated", (A, q, m * [1.0, 1.2, 0.9, 1.0]), {**TIGHT, "importance": 3.0})
    yield Case("no-weights", (A, None, A.sum(0) * [1.0, 1.05, 0.95, 1.02]), EXACT)
    yield Case("some-without-weight", (A, q * (np.arange(60) % 5 > 0), m * 0.8), EXACT)
    yield Case("not-asked", (A, q, np.array([m[0], np.nan, m[2], np.nan])), EXACT)
    yield Case("nothing-asked", (A, q, np.full(4, np.nan)), EXACT)
    yield Case("zero-of-a-column", (A, q, np.array([m[0], np.nan, 0.0, np.nan])), EXACT)
    yield Case("zero-of-both-signs", (A, q, np.array([m[0], np.nan, np.nan, 0.0])), EXACT)
    yield Case("targets-batch", (A, q, np.stack([m, m * 1.1, m * [1, 1.1, 1, 1]])), EXACT)
    yield Case("weights-batch", (A, np.stack([q, np.ones(60)]), m), EXACT)
    yield Case("both-batches", (A, np.stack([q, 2 * q])[:, None], np.stack([m, m * [1, 0.9, 1.1, 1]])), EXACT)
    yield Case("batch-of-none", (A, q, np.empty((0, 4))), EXACT)
    yield Case("no-columns", (np.empty((3, 0)), np.ones(3), np.empty(0)), EXACT)
    yield Case("many-columns", (np.eye(70)[np.arange(140) % 70], np.ones(140), np.arange(1.0, 71.0)), EXACT)
    yield Case("integers", (np.array([[1, 0], [1, 1], [1, 2]]), np.array([1, 2, 3]), np.array([10, 9])), EXACT)
    small = [np.array(a, np.float32) for a in ([[1, 0], [1, 1], [1, 2]], [1, 2, 3], [10, 9])]
    yield Case("float32", tuple(small))


def _bad_records():
    A, q, m = survey()
    wrong = np.stack([q] * 4)
    wrong[0, 0], wrong[1, 30], wrong[3, 59] = np.nan, -1.0, np.inf
    yield Case("bad-weights", (A, wrong, m), EXACT, fails=True)
    yield Case("bad-target", (A, q, np.stack([m, m * [1, np.inf, 1, 1]])), EXACT, fails=True)
    hole = A.copy()
    hole[7, 1] = np.nan
    yield Case("bad-design", (hole, q, m), EXACT, fails=True)
    yield Case("beyond-bounds", (A, q, np.stack([m * 1.5, q @ A])), TIGHT, fails=True)
    yield Case("infeasible", (np.array([[1.0, 1.0], [1.0, 3.0]]), np.ones(2), np.array([2.0, 8.0])), EXACT, fails=True)
    empty = np.column_stack([A[:, 0], np.zeros(60)])
    yield Case("no-record", (empty, q, np.array([[5.0, 1.0], [5.0, 0.0]])), EXACT, fails=True)


def _categories():
    codes, q, w = attributes()
    sizes, ways = (3, 2, 4), ((0,), (1,), (2,))
    yield Case("categories", (codes, q, *counted(codes, w, sizes, ways)), {"axes": (0, 1, 2), **EXACT})
    crossed = ((0, 1), (2,), (1, 2))
    yield Case("crossed", (codes, q, *counted(codes, w, sizes, crossed)), {"axes": crossed, **EXACT})
    each = np.linspace(0.2, 0.6, 80), np.linspace(2.5, 1.6, 80)
    for method, bounds in (("logit", each), ("truncated", each), ("truncated", (0.5, each[1])), ("logit", (0.5, 2.0))):
        options = {"axes": ways, **EXACT, "method": method, "bounds": bounds}
        name = f"categories-{method}-{'-'.join(str(np.ndim(b)) for b in bounds)}"
        yield Case(name, (codes, q, *counted(codes, w, sizes, ways)), options)
    wanted = counted(codes, w, sizes, ways)
    wanted[0], wanted[1] = wanted[0] * 1.2, wanted[1] * 0.9
    yield Case("soft-categories", (codes, q, *wanted), {"axes": ways, **EXACT, "importance": [1.0, 4.0, np.inf]})
    some = counted(codes, w, sizes, ways)
    some[2][1] = np.nan
    yield Case("categories-not-asked", (codes, q, *some), {"axes": ways, **EXACT})
    many = [np.stack([t, 2 * t]) for t in counted(codes, w, sizes, ways)]
    yield Case("categories-batch", (codes, q, *many), {"axes": ways, **EXACT})
    beyond = codes.copy()
    beyond[1, 5] = 2
    yield Case("category-beyond", (beyond, q, *wanted), {"axes": ways, **EXACT}, fails=True)
    yield Case("totals-of-categories", (codes, q, *wanted), {"axes": ways, **EXACT}, fails=True)


def _rounded():
    T = 3.0 * np.random.default_rng(8).random((6, 4, 5))
    yield Case("matrices", (T,))
    yield Case("batch-of-batches", (T.reshape(2, 3, 4, 5),))
    yield Case("row", (T[0, :1],))
    yield Case("column", (T[0, :, :1],))
    yield Case("one-cell", (np.array([[2.75]]),))
    yield Case("no-cells", (np.ones((2, 0, 3)),))
    yield Case("batch-of-none", (np.ones((0, 2, 2)),))
    yield Case("integers", (np.arange(12).reshape(3, 4),))
    yield Case("float32", (T[0].astype(np.float32),))
    yield Case("axes-by-name", (T[1],), {"axes": [1, (0,)]})
    sparse = T * (np.random.default_rng(9).random(T.shape) < 0.6)
    yield Case("zeros", (sparse,))
    yield Case("tall", (10.0 * np.random.default_rng(10).random((30, 7)),))
    whole = sparse[0] / sparse[0].sum(1, keepdims=True) * np.array([[3.0], [1.0], [4.0], [2.0]])
    yield Case("whole-rows", (whole,))
    bad = T.copy()
    bad[0, 0, 0], bad[2, 3, 4], bad[4, 1, 1], bad[5, 0, 0] = np.nan, np.inf, -1.0, 2.0**53
    yield Case("bad", (bad,), fails=True)
    yield Case("table", (np.arange(24.0).reshape(2, 3, 4),), {"axes": [(0, 1), (1, 2)], "ndim": 3})


CASES = {
    "ipf_nd": [case for group in (_bad, _small, _shapes, _soft) for case in group()],
    "support_nd": [verdict_of(case) for group in (_bad, _small, _shapes, _supports) for case in group()],
    "ipf_cells": [listed(case) for group in (_bad, _small, _shapes, _soft) for case in group()],
    "rake": [case for group in (_records, _bad_records, _categories) for case in group()],
    "round_to_margins": list(_rounded()),
}
