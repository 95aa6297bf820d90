"""Zero patterns for support: none, total, partial, infeasible, empty lines, and targets of every kind."""

import numpy as np

from cases._case import Case


def random_patterns(seed, n, R, C, density):
    """Return `n` matrices of small counts, each cell positive with probability `density`."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 100, (n, R, C)) * (rng.random((n, R, C)) < density)


CROSS = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
MIXED = np.stack([CROSS, np.eye(3), np.triu(np.ones((3, 3))), np.ones((3, 3)), CROSS[::-1]])


def _bad():
    bad = MIXED.copy()
    bad[0, 0, 0], bad[2, 1, 2], bad[4, 2, 2] = np.nan, np.inf, -1.0
    yield Case("bad-first-middle-last", (bad,))
    yield Case("single-bad", (np.array([[1.0, np.nan], [1.0, 1.0]]),))
    yield Case("bad-targets", (np.ones((3, 2, 2)), np.array([[1, np.nan], [1, 1], [1, 3]]), np.array([1.0, 1.0])))
    yield Case("negative-target", (np.ones((2, 2)), np.array([3.0, -1.0]), np.array([1.0, 1.0])))
    yield Case("infinite-total", (np.ones((2, 2)), np.full(2, 1e308), np.full(2, 1e308)))
    yield Case("totals", (CROSS, np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.5])))


def _empty():
    yield Case("0x0", (np.empty((3, 0, 0)),))
    yield Case("batch-of-none", (np.empty((0, 4, 4)),))
    yield Case("no-rows", (np.empty((2, 0, 3)), np.empty(0), np.zeros(3)))
    yield Case("minus-zero", (np.array([[1.0, -0.0], [2.0, 3.0]]),))
    yield Case("denormal", (np.array([[5e-324, 0.0], [1.0, 5e-324]]),))
    yield Case("all-zero", (np.zeros((2, 3, 3)),))
    yield Case("1x1", (np.array([[3.0]]),))
    yield Case("1x1-zero", (np.array([[0]]),))
    yield Case("empty-rows", (np.array([[[0, 0], [1, 1]], [[1, 1], [0, 0]]]),))
    yield Case("empty-columns", (np.array([[[0, 1], [0, 1]], [[1, 0], [1, 0]]]),))


def _patterns():
    yield Case("triangle", (np.array([[1.0, 1.0], [0.0, 1.0]]),))
    yield Case("cross", (CROSS,))
    yield Case("mixed", (MIXED,))
    yield Case("single-int", (np.array([[5, 0], [0, 2]]),))
    yield Case("bool", (MIXED > 0,))
    yield Case("float32", (MIXED.astype(np.float32),))


def _targets():
    yield Case("broadcast-targets", (MIXED[:, None], np.array([[1, 1, 1], [2, 1, 1]]), np.array([2, 1, 1]) * 3 / 4))
    yield Case("zero-targets", (MIXED, np.array([2, 0, 1]), np.array([1, 2, 0])))
    yield Case("no-targets-at-all", (MIXED, np.zeros(3), np.zeros(3)))
    yield Case("tight-decimals", (CROSS[::-1], np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.3, 0.4])))
    yield Case("tight-thirds", (CROSS, np.array([1.0, 1.0, 1.0]) / 3, np.array([2.0, 0.5, 0.5]) / 3))
    yield Case("far-apart", (CROSS, np.array([1e6 - 2.0, 1.0, 1.0]), np.array([2.0, 1.0, 1e6 - 3.0])))
    huge = np.array([2.0**53 - 3, 1.0, 2.0])
    yield Case("exact-to-the-last-unit", (CROSS, huge, np.array([[2, 2.0**53 - 4, 2], [3, 2.0**53 - 5, 2]])))
    yield Case("1xC", (np.array([[1, 0, 2]]), np.array([5]), np.array([[2, 0, 3], [2, 1, 2]])))


def _random():
    for C in (2, 3, 5, 8):
        density = 1.6 / C + 0.1
        M = random_patterns(C, 60, C, C, density)
        yield Case(f"random-{C}", (M,))
        rng = np.random.default_rng(100 + C)
        u = rng.integers(0, 5, (60, C))
        v = rng.permuted(u, axis=-1)
        yield Case(f"random-{C}-integers", (M, u, v))
    for R, C in ((3, 5), (6, 4)):
        rng = np.random.default_rng(R)
        u = rng.multinomial(20, np.ones(R) / R, 60)
        v = rng.multinomial(20, np.ones(C) / C, 60)
        yield Case(f"random-{R}x{C}", (random_patterns(R, 60, R, C, 0.45), u, v))


def _large():
    for C in (31, 32, 33, 40):
        yield Case(f"words-{C}", (random_patterns(C, 3, C, C, 3.2 / C) + np.eye(C, dtype=int),))
    yield Case("words-no-diagonal", (random_patterns(7, 3, 37, 37, 4 / 37),))
    chain = np.eye(34, k=1) + np.eye(34, k=-33) + np.eye(34)
    yield Case("chain", (np.stack([chain, np.triu(np.tril(chain, 1))])[:, ::-1],))
    yield Case("many", (random_patterns(9, 2500, 3, 3, 0.6),))


GROUPS = (_bad, _empty, _patterns, _targets, _random, _large)
CASES = {"support": [case for group in GROUPS for case in group()]}
