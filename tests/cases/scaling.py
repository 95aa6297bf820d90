"""Matrices and targets for ipf and ras: positive, or with zeros that leave the graph of the matrix connected."""

import numpy as np

from cases._case import Case

TIGHT = {"tol": 1e-13}


def confusion(rng, C, accuracy, n=1000.0):
    """Return the expected counts of a classifier with unequal classes and unequal confusions."""
    M = rng.dirichlet(np.full(C, 0.5), C) + 1e-3
    np.fill_diagonal(M, 0.0)
    M *= (1 - accuracy) / M.sum(1, keepdims=True)
    np.fill_diagonal(M, accuracy)
    return M * rng.dirichlet(np.full(C, 2.0))[:, None] * n


def superclasses(rng, coupling):
    """Return two blocks of classes that are hardly ever confused with each other."""
    M = np.full((6, 6), coupling)
    M[:3, :3], M[3:, 3:] = rng.random((3, 3)) + 0.1, rng.random((3, 3)) + 0.1
    return M


# Targets of a matrix of three rows and five columns: one pair, three pairs, one with zeros.
U, V = np.array([3.0, 1.0, 4.0]), np.array([2.0, 2.5, 0.5, 1.0, 2.0])
MORE_U, MORE_V = np.stack([U, U[::-1], U * 0.5]), np.stack([V, V[::-1], V * 0.5])
ZERO_U, ZERO_V = np.array([3.0, 0.0, 5.0]), np.array([2.0, 2.5, 0.0, 1.5, 2.0])


def _cases():
    rng = np.random.default_rng(20263)
    counts = rng.integers(1, 60, (7, 4, 4))
    M = rng.random((3, 5)) + 0.05
    hard = np.stack([confusion(rng, 5, accuracy) for accuracy in (0.6, 0.9, 0.99, 0.9999)])
    yield from _bad(counts)
    yield from _empty_lines(counts)
    yield from _targets(M)
    yield from _sizes(counts, M)
    yield from _types(rng, counts, M)
    yield from _shapes(counts, M)
    yield from _values(rng, hard)
    yield from _smoothed(counts)
    yield from _solvers(counts, M, hard)
    yield from _large(rng)


def _with_bad_cells(counts):
    bad = counts.astype(float)
    bad[0, 0, 0], bad[3, 1, 2], bad[6, 3, 3] = np.nan, np.inf, -1.0
    return bad


def _with_empty_lines(counts):
    empty = counts.copy()
    empty[0, 1], empty[3, :, 2], empty[5], empty[6, 0], empty[6, :, 0] = 0, 0, 0, 0, 0
    return empty


def _bad(counts):
    yield Case("bad-first-middle-last", (_with_bad_cells(counts),), TIGHT, fails=True)
    yield Case("single-bad", (np.array([[1.0, np.nan], [1.0, 1.0]]),), TIGHT, fails=True)


def _empty_lines(counts):
    both = counts.copy()
    both[2, 1], both[2, :, 1], both[4], both[6, 3] = 0, 0, 0, 0
    yield Case("empty-lines", (_with_empty_lines(counts),), TIGHT, fails=True)
    yield Case("empty-dropped", (both,), {**TIGHT, "empty": "drop"}, fails=True)
    yield Case("all-empty-dropped", (np.zeros((2, 3, 3)),), {**TIGHT, "empty": "drop"})


def _targets(M):
    bad_u, bad_v = MORE_U.copy(), MORE_V.copy()
    bad_u[0, 1], bad_v[2, 4] = np.nan, -1.0
    gap = MORE_V.copy()
    gap[1, 0] += 1e-6
    slight = MORE_V.copy()
    slight[1] *= 1 + 5e-10
    yield Case("bad-targets", (M, bad_u, bad_v), TIGHT, fails=True)
    yield Case("unequal-totals", (M, MORE_U, gap), TIGHT, fails=True)
    yield Case("nearly-equal-totals", (M, MORE_U, slight), TIGHT)
    yield Case("zero-targets", (M, ZERO_U, ZERO_V), TIGHT)
    yield Case("all-targets-zero", (M, ZERO_U * 0, ZERO_V * 0), TIGHT)


def _sizes(counts, M):
    yield Case("batch-of-none", (np.empty((0, 4, 4)),), TIGHT)
    yield Case("batch-of-none-targets", (M, np.empty((0, 3)), np.empty((0, 5))), TIGHT)
    yield Case("batch-of-one", (counts[:1],), TIGHT)
    yield Case("1x1", (np.array([[3.0]]),), TIGHT)
    yield Case("1xC", (M[:1], np.array([8.0]), V), TIGHT)
    yield Case("Rx1", (M[:, :1], U, np.array([8.0])), TIGHT)
    yield Case("2x2", (np.array([[900.0, 3.0], [50.0, 47.0]]),), TIGHT)
    yield Case("single", (counts[0],), TIGHT)
    yield Case("counts", (counts,), TIGHT)


def _types(rng, counts, M):
    yield Case("int32", (counts.astype(np.int32),), TIGHT)
    yield Case("bool", (np.ones((2, 3, 3), bool),), TIGHT)
    yield Case("float16", ((rng.random((2, 3, 3)) + 0.1).astype(np.float16),), TIGHT)
    yield Case("float32", (counts.astype(np.float32),), TIGHT)
    yield Case("float32-targets", (M.astype(np.float32), U.astype(np.float32), V.astype(np.float32)), TIGHT)
    yield Case("float32-matrix-only", (M.astype(np.float32), U, V), TIGHT)
    yield Case("integer-targets", (M, np.array([3, 1, 4]), np.array([2, 2, 1, 1, 2])), TIGHT)


def _shapes(counts, M):
    yield Case("rectangular", (M, U, V), TIGHT)
    yield Case("tall", (M.T, V, U), TIGHT)
    yield Case("targets-broadcast", (M, MORE_U, MORE_V), TIGHT)
    yield Case("batches-broadcast", (np.stack([M, M**2])[:, None], MORE_U, V), {**TIGHT}, fails=True)
    yield Case("batch-of-batches", (counts[:6].reshape(2, 3, 4, 4),), TIGHT)


def _values(rng, hard):
    yield Case("denormal", (np.full((2, 2), 5e-324) * [[1, 3], [2, 1]],), TIGHT, fails=True)
    yield Case("wide-range", (10.0 ** rng.uniform(-9, 9, (2, 3, 3)),), TIGHT)
    yield Case("confusions", (hard,), TIGHT)
    yield Case("confusions-smoothed", (np.round(hard),), {**TIGHT, "smoothing": 1e-3})
    yield Case("superclasses", (superclasses(rng, 1e-6),), TIGHT)
    yield Case("total-support", (np.eye(6) + 0.3 * np.eye(6, k=1) + 0.2 * np.eye(6, k=-1),), TIGHT)
    yield Case("hidden-permutation", (np.full((4, 4), 1e-4) + np.eye(4)[[2, 0, 3, 1]] * [1, 2, 3, 4],), TIGHT)


def _smoothed(counts):
    bayes = {**TIGHT, "smoothing": "pseudo-bayes"}
    yield Case("pseudo-bayes", (np.array([[712, 0, 12], [0, 584, 2], [18, 0, 434]]),), bayes)
    yield Case("pseudo-bayes-batch", (_with_empty_lines(counts)[:5],), bayes, fails=True)
    yield Case("smoothed-bad", (_with_bad_cells(counts),), {**TIGHT, "smoothing": 0.5}, fails=True)


def _solvers(counts, M, hard):
    yield Case("newton", (counts,), {**TIGHT, "solver": "newton"})
    yield Case("sinkhorn", (counts,), {"solver": "sinkhorn"})
    yield Case("sinkhorn-rectangular", (M, MORE_U, MORE_V), {"solver": "sinkhorn", "tol": 1e-12})
    yield Case("sinkhorn-stopped", (hard,), {"solver": "sinkhorn", "max_iter": 7}, fails=True)
    yield Case("sinkhorn-zero-targets", (M, ZERO_U, ZERO_V), {"solver": "sinkhorn"})
    yield Case("warm-start", (counts, None, None), {**TIGHT, "start": (np.linspace(1, 2, 4), np.linspace(0.1, 0.2, 4))})


def _large(rng):
    yield Case("many", (rng.random((150, 3, 3)) + 0.01,), TIGHT)
    yield Case("C-30", (confusion(rng, 30, 0.9),), TIGHT)
    flat = rng.random((3, 12, 12)) + 0.01
    yield Case("flat", (np.concatenate([flat, [confusion(rng, 12, 0.9), confusion(rng, 12, 0.4)]]),), TIGHT)
    yield Case("flat-targets", (flat, np.arange(1.0, 13.0), np.full(12, 6.5)), TIGHT)
    yield Case("flat-C-20", (rng.random((2, 20, 20)) + 0.01,), TIGHT)


def _gradient_cases():
    rng = np.random.default_rng(20264)
    tall, wide = (rng.random(shape) + 0.05 for shape in ((5, 3), (3, 5)))
    yield _gradient(rng, "single", np.array([[900.0, 3.0], [50.0, 47.0]]))
    yield _gradient(rng, "1x1", np.array([[3.0]]))
    yield _gradient(rng, "batch", rng.integers(1, 60, (11, 3, 3)).astype(float))
    yield _gradient(rng, "integers", rng.integers(1, 60, (2, 3, 3)))
    yield _gradient(rng, "batch-of-none", np.empty((0, 4, 4)))
    yield _gradient(rng, "batch-of-batches", rng.random((2, 3, 2, 2)) + 0.1)
    yield _gradient(rng, "float32", (rng.random((4, 3, 3)) + 0.1).astype(np.float32))
    yield _gradient(rng, "bad", np.array([[[1.0, np.nan], [1.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]]]), fails=True)
    yield _gradient(rng, "tall", tall, V, U)
    yield _gradient(rng, "wide", wide, U, V)
    yield _gradient(rng, "targets-broadcast", wide, MORE_U, MORE_V)
    yield _gradient(rng, "zero-targets", wide, ZERO_U, ZERO_V, factors=False)
    yield _gradient(rng, "zero-targets-tall", wide.T, ZERO_V, ZERO_U, factors=False)
    yield _gradient(rng, "nearly-decomposable", superclasses(rng, 1e-9)[1:5, 1:5], factors=False)
    yield _gradient(rng, "nearly-permutation", np.full((4, 4), 1e-4) + np.eye(4)[[2, 0, 3, 1]] * [1, 2, 3, 4])
    yield _gradient(rng, "confusions", np.stack([confusion(rng, 4, accuracy) for accuracy in (0.6, 0.99, 0.9999)]))
    yield _gradient(rng, "chain", np.eye(4) + 0.3 * np.eye(4, k=1) + 0.2 * np.eye(4, k=-1))
    yield _gradient(rng, "smoothed", np.round(confusion(rng, 3, 0.99)), smoothing=0.5)
    yield _gradient(rng, "exponentials", np.exp(5.0 * rng.normal(size=(8, 4, 4))))


def _gradient(rng, name, M, row_sums=None, col_sums=None, *, factors=True, fails=False, **options):
    """Return a case with random gradients in the scaled matrix and in its factors."""
    lines = [a for a in (row_sums, col_sums) if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in lines))
    R, C = M.shape[-2:]
    G = rng.normal(size=(*batch, R, C)).astype(np.float32 if M.dtype == np.float32 else np.float64)
    of_row, of_col = (rng.normal(size=(*batch, n)) if factors else None for n in (R, C))
    targets = () if row_sums is None else (row_sums, col_sums)
    return Case(name, (M, G, of_row, of_col, *targets), {**TIGHT, **options}, fails=fails)


def _logits():
    rng = np.random.default_rng(20265)
    L, wide = 3.0 * rng.normal(size=(11, 3, 3)), 2.0 * rng.normal(size=(3, 5))
    zeros, bad = L[:3].copy(), L[:4].copy()
    zeros[0, 0, 1] = zeros[2, 2, 0] = -np.inf
    bad[0, 1, 1], bad[1, 0, 2], bad[3, 1] = np.nan, np.inf, -np.inf
    far = np.array([1.0, 40.0, 2.0, 70.0])[:, None, None] * L[4:8]  # some are halved
    yield Case("single", (L[0],), TIGHT)
    yield Case("1x1", (np.array([[-3000.0]]),), TIGHT)
    yield Case("batch", (L,), TIGHT)
    yield Case("integers", (np.array([[4, -2], [0, 1]]),), TIGHT)
    yield Case("batch-of-none", (np.empty((0, 4, 4)),), TIGHT)
    yield Case("batch-of-batches", (L[:6].reshape(2, 3, 3, 3),), TIGHT)
    yield Case("float32", (L.astype(np.float32),), TIGHT)
    yield Case("zeros", (zeros,), TIGHT)
    yield Case("bad", (bad,), TIGHT, fails=True)
    yield Case("shifted", (L[:2] + 3000.0 * rng.normal(size=(2, 3, 1)) - 2000.0 * rng.normal(size=(2, 1, 3)),), TIGHT)
    yield Case("far", (far,), TIGHT)
    yield Case("far-zeros", (np.where(zeros > -np.inf, 60.0 * zeros, zeros),), TIGHT)
    yield Case("wide", (wide, U, V), TIGHT)
    yield Case("tall-far", (80.0 * wide.T, V, U), TIGHT)
    yield Case("targets-broadcast", (wide, MORE_U, MORE_V), TIGHT)
    yield Case("zero-targets", (wide, ZERO_U, ZERO_V), TIGHT)
    yield Case("zero-targets-far", (80.0 * wide, ZERO_U, ZERO_V), TIGHT)


def _by_rows(name, M, u=None, v=None, **options):
    """Return a case of the cells of a matrix that are not zero."""
    i, j = np.nonzero(M)
    first = np.searchsorted(i, np.arange(len(M) + 1))
    return Case(name, (first, j.astype(np.int32), M[i, j], u, v), {"C": M.shape[1], **TIGHT, **options})


def _sparse():
    rng = np.random.default_rng(20268)
    yield _by_rows("counts", rng.integers(1, 60, (4, 4)))
    yield _by_rows("float32", (rng.random((4, 4)) + 0.1).astype(np.float32))
    yield _by_rows("targets", rng.random((3, 5)) + 0.05, U, V)
    yield _by_rows("zero-targets", rng.random((3, 5)) + 0.05, ZERO_U, ZERO_V)
    yield _by_rows("totals-differ", rng.random((3, 5)) + 0.05, U, 2 * V)
    yield _by_rows("superclasses", superclasses(rng, 1e-6))
    yield _by_rows("wide", np.exp(rng.normal(0.0, 8.0, (6, 6))))
    band = np.triu(np.tril(rng.random((12, 12)) + 0.1, 2), -2)
    yield _by_rows("band", band)
    holes = band.copy()
    holes[4], holes[:, 4] = 0.0, 0.0
    yield _by_rows("empty-class", holes)
    yield _by_rows("empty-class-dropped", holes, empty="drop")
    yield _by_rows("bad-cell", np.where(band > 1.0, np.nan, band))
    yield _by_rows("bad-target", rng.random((3, 5)) + 0.05, np.array([3.0, -1.0, 6.0]), V)
    yield _by_rows("sweeps", rng.random((5, 5)) + 0.2, solver="sinkhorn", max_iter=500)


CASES = {
    "ipf_sparse": list(_sparse()),
    "ipf": list(_cases()),
    "ras": list(_cases()),
    "scaling_gradient": list(_gradient_cases()),
    "ipf_of_logits": list(_logits()),
}
