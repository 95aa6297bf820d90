"""Pairs of matrices for overlap, L1 distance and KL divergence."""

import numpy as np

from cases._case import Case


def _pairs():
    rng = np.random.default_rng(20260)
    counts = rng.integers(0, 50, (7, 4, 4))
    other = rng.integers(1, 50, (7, 4, 4))
    bad = other.astype(float)
    bad[0, 0, 0], bad[3, 1, 2], bad[6, 3, 3] = np.nan, np.inf, -1.0
    empty = other.astype(float)
    empty[2] = 0.0
    tiny = np.full((2, 2), 5e-324)
    yield Case("bad-first-middle-last", (bad, other.astype(float)), fails=True)
    yield Case("no-mass", (empty, other.astype(float)), fails=True)
    yield Case("single-bad", (np.array([[1.0, np.nan], [1.0, 1.0]]), np.ones((2, 2))), fails=True)
    yield Case("0x0", (np.empty((3, 0, 0)), np.empty((3, 0, 0))), fails=True)
    yield Case("batch-of-none", (np.empty((0, 4, 4)), np.empty((0, 4, 4))))
    yield Case("minus-zero", (np.array([[1.0, -0.0], [2.0, 3.0]]), np.array([[1.0, 1.0], [2.0, 3.0]])))
    yield Case("denormal", (tiny, tiny[::-1] * 3))
    yield Case("1x1", (np.array([[3.0]]), np.array([[5.0]])))
    yield Case("1xC", (rng.random((1, 5)), rng.random((1, 5))))
    yield Case("rectangular", (rng.random((3, 2, 5)), rng.random((3, 2, 5))))
    yield Case("same", (counts, counts))
    yield Case("disjoint", (np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 2.0], [1.0, 0.0]])))
    yield Case("single", (counts[0], other[0]))
    yield Case("counts", (counts, other))
    yield Case("int32", (counts.astype(np.int32), other.astype(np.int32)))
    yield Case("bool", (counts > 20, other > 20))
    yield Case("float32", (counts.astype(np.float32), other.astype(np.float32)))
    yield Case("float32-float64", (counts.astype(np.float32), other.astype(np.float64)))
    yield Case("float16", (rng.random((2, 3, 3)).astype(np.float16), rng.random((2, 3, 3)).astype(np.float16)))
    yield Case("broadcast-one", (counts, other[2]))
    yield Case("broadcast-both", (counts[:, None], other[None, :3]))
    yield Case("many", (rng.random((3000, 3, 3)), rng.random((3000, 3, 3))))
    yield Case("nearly-same", (rng.random((5, 5)) * 1e-9 + 1.0, np.ones((5, 5))))
    yield Case("one-class-huge", (np.diag([1e15, 1.0, 1.0]), np.diag([1.0, 1.0, 1e-12]) + 1e-3))


def _gradients():
    rng = np.random.default_rng(20265)
    counts, other = rng.integers(1, 50, (2, 9, 3, 3)).astype(float)
    bad = other.copy()
    bad[0, 0, 0], bad[3], bad[6, 2, 1] = np.nan, 0.0, -1.0
    zero = counts.copy()
    zero[:, 0, 1] = 0.0
    for of in ("overlap", "l1_distance", "kl_divergence"):
        for name, S, T in (
            ("counts", counts, other),
            ("float32", counts.astype(np.float32), other.astype(np.float32)),
            ("broadcast", counts[:3], other[1]),
            ("single", counts[0, :2], other[0, :2]),
            ("bad", counts, bad),
            ("batch-of-none", counts[:0], other[:0]),
            ("zeros", zero[:2], other[:2]),
        ):
            batch = np.broadcast_shapes(S.shape[:-2], T.shape[:-2])
            yield Case(f"{of}-{name}", (S, T, np.asarray(rng.normal(size=batch))), {"of": of})


CASES = {op: list(_pairs()) for op in ("overlap", "l1_distance", "kl_divergence")}
CASES["comparison_gradient"] = list(_gradients())
