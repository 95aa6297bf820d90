"""Matrices for normalize and importance_weights."""

import numpy as np

from cases._case import Case


def _matrices():
    rng = np.random.default_rng(20261)
    counts = rng.integers(0, 60, (7, 4, 4))
    bad = counts.astype(float)
    bad[0, 0, 0], bad[3, 1, 2], bad[6, 3, 3] = np.nan, np.inf, -1.0
    empty = counts.copy()
    empty[0, 1], empty[3, :, 2], empty[5], empty[6, 0], empty[6, :, 0] = 0, 0, 0, 0, 0
    huge = rng.random((3, 3)) * 1e308
    yield "bad-first-middle-last", bad, True
    yield "single-bad", np.array([[1.0, 2.0], [-np.inf, 1.0]]), True
    yield "single-negative", np.array([[1.0, 2.0], [-5e-324, 1.0]]), True
    yield "negative-counts", np.array([[[1, 2], [3, -4]], [[1, 2], [3, 4]]]), True
    yield "empty-lines", empty, False
    yield "overflowing-sums", np.stack([huge, np.where(np.eye(3, dtype=bool), huge, 1e-300)]), False
    yield "minus-zero", np.array([[1.0, -0.0], [-0.0, 3.0]]), False
    yield "0x0", np.empty((3, 0, 0)), False
    yield "0xC", np.empty((2, 0, 3)), False
    yield "batch-of-none", np.empty((0, 4, 4)), False
    yield "1x1", np.array([[3.0]]), False
    yield "1x1-zero", np.array([[0]]), False
    yield "1xC", rng.random((1, 5)), False
    yield "rectangular", rng.random((3, 2, 5)), False
    yield "single", counts[0], False
    yield "counts", counts, False
    yield "large-counts", counts * 2**50, False
    yield "int8", (counts % 100).astype(np.int8), False
    yield "uint64", counts.astype(np.uint64), False
    yield "bool", counts > 25, False
    yield "float16", rng.random((2, 3, 3)).astype(np.float16), False
    yield "float32", counts.astype(np.float32), False
    yield "batch-of-batches", rng.random((2, 3, 4, 4)), False
    yield "many", rng.random((4000, 3, 3)), False
    yield "large", rng.random((2, 40, 37)), False


def _cases(*, weights):
    for name, M, fails in _matrices():
        for method in ("all", "row", "col"):
            yield Case(f"{method}-{name}", (M, method), fails=fails)
    tiny = np.array([[[5e-324, 0.0], [0.0, 3e-320]], [[1.0, 2.0], [3.0, 4.0]]])
    yield Case("row-denormal", (tiny, "row"), fails=weights)
    yield Case("all-denormal-float32", (np.array([[1e-45, 0], [0, 0]], np.float32), "all"), fails=weights)
    rng = np.random.default_rng(20262)
    counts = rng.integers(1, 60, (3, 4, 4))
    bad = counts.astype(float)
    bad[1, 2, 3] = np.nan
    tight = {"tol": 1e-13}
    yield Case("true", (counts, "true"))
    yield Case("pred", (counts, "pred"))
    yield Case("bi-bad", (bad, "bi"), tight, fails=True)
    yield Case("bi-batch-of-none", (np.empty((0, 3, 3)), "bi"), tight)
    yield Case("bi-counts", (counts, "bi"), tight)
    yield Case("bi-float32", (counts.astype(np.float32), "bi"), tight)
    yield Case("bi-smoothed", (np.diag([9, 5, 7]), "bi"), {**tight, "smoothing": 0.5})
    yield Case("bi-dropped", (np.pad(counts[0], ((0, 1), (0, 1))), "bi"), {**tight, "empty": "drop"})


def _gradients():
    rng = np.random.default_rng(20266)
    M, G = rng.integers(0, 50, (9, 3, 4)).astype(float), rng.normal(size=(9, 3, 4))
    M[1, 0], M[2, :, 1], M[3] = 0.0, 0.0, 0.0
    bad = M.copy()
    bad[0, 0, 0], bad[8, 1, 2] = np.nan, np.inf
    for method in ("all", "row", "col"):
        for weights in (False, True):
            options = {"method": method, "of_weights": weights}
            name = f"{method}-weights" if weights else method
            yield Case(name, (M, G), options)
            yield Case(f"{name}-bad", (bad, G), options)
            yield Case(f"{name}-float32", (M.astype(np.float32), G.astype(np.float32)), options)
            yield Case(f"{name}-single", (M[0], G[0]), options)


CASES = {"normalize": list(_cases(weights=False)), "importance_weights": list(_cases(weights=True))}
CASES["normalizing_gradient"] = list(_gradients())
