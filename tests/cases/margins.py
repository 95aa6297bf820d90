"""Tables and margins for ipf_nd: bad values, empty lines, every way that margins share axes, batches."""

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


CASES = {"ipf_nd": [case for group in (_bad, _small, _shapes) for case in group()]}
