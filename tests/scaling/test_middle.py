"""Matrices of middling size, where eight at a time become one at a time: what holds for few classes holds for many."""

import numpy as np
import pytest
from cases.scaling import confusion
from checks import assert_same_bits

import cmfast
from cmfast import Status

OPTIONS = {"on_failure": "ignore"}


def confused(C, accuracy, eps, seed=0):
    return confusion(np.random.default_rng(seed), C, accuracy, 1000.0 * C) + eps


def superclasses(C, coupling):
    rng = np.random.default_rng(1)
    M = np.full((C, C), coupling)
    half = C // 2
    M[:half, :half] = rng.random((half, half)) + 0.1
    M[half:, half:] = rng.random((C - half, C - half)) + 0.1
    return M


def chain(C, eps):
    return np.eye(C) + 0.3 * np.eye(C, k=1) + 0.2 * np.eye(C, k=-1) + eps


def hidden(C, eps):
    rng = np.random.default_rng(2)
    return (eps * (rng.random((C, C)) + 0.1) + np.eye(C))[rng.permutation(C)]


FAMILIES = {
    "easy": lambda C: confused(C, 0.6, 0.5),
    "accurate": lambda C: confused(C, 0.99, 1e-3),
    "near-singular": lambda C: confused(C, 0.99, 1e-12),
    "superclasses-1e-6": lambda C: superclasses(C, 1e-6),
    "superclasses-1e-12": lambda C: superclasses(C, 1e-12),
    "chain": lambda C: chain(C, 1e-12),
    "hidden-1e-3": lambda C: hidden(C, 1e-3),
    "hidden-1e-12": lambda C: hidden(C, 1e-12),
    "hessenberg": lambda C: np.triu(np.random.default_rng(3).uniform(0.5, 1, (C, C)), -1),
    "wide-range": lambda C: 10.0 ** np.random.default_rng(4).uniform(-6, 6, (C, C)),
}


def residual(P, u, v):
    return (abs(P.sum(-1) - u).sum(-1) + abs(P.sum(-2) - v).sum(-1)) / u.sum(-1)


@pytest.mark.parametrize("C", [33, 65, 130, 200])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_converges(family, C):
    M, ones = FAMILIES[family](C), np.ones(C)
    for tol in (1e-9, 1e-12):
        result = cmfast.ipf(M, tol=tol)
        assert result.status == Status.CONVERGED
        assert residual(result.matrix, ones, ones) <= tol + 1e-14
        np.testing.assert_allclose(result.residual, residual(result.matrix, ones, ones), atol=1e-14)


@pytest.mark.parametrize("shape", [(80, 66), (66, 80), (3, 30_000), (30_000, 3)])
def test_rectangular_with_targets_over_six_orders(shape):
    rng = np.random.default_rng(5)
    M = rng.random((2, *shape)) ** 3 + 1e-6
    u, v = 10.0 ** rng.uniform(-3, 3, shape[0]), 10.0 ** rng.uniform(-3, 3, shape[1])
    v *= u.sum() / v.sum()
    result = cmfast.ipf(M, u, v, tol=1e-12)
    assert (result.status == Status.CONVERGED).all()
    assert (residual(result.matrix, u, v) <= 2e-12).all()
    turned = cmfast.ipf(M.swapaxes(1, 2), v, u, tol=1e-12)
    np.testing.assert_allclose(turned.matrix.swapaxes(1, 2), result.matrix, rtol=1e-6)
    np.testing.assert_allclose(np.log(result.row_scale).mean(-1), 0, atol=1e-12)
    scaled = result.row_scale[..., None] * M * result.col_scale[:, None, :]
    np.testing.assert_allclose(scaled, result.matrix, rtol=1e-13)


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("C", [33, 70, 150])
def test_neighbours_threads_and_place_change_no_bit(solver, C):
    M = np.stack([confused(C, 0.7, 0.5, k) for k in range(6)] + [hidden(C, 1e-3), superclasses(C, 1e-3)] * 2)
    M[1, 3, 3] = np.nan
    M[2] *= 1e200
    M[4, 0] = 0
    options = {"solver": solver, "max_iter": 300, **OPTIONS}
    together = cmfast.ipf(M, num_threads=1, **options)
    order = np.random.default_rng(6).permutation(len(M))
    for n in (2, 5, 8):
        for a, b in zip(together, cmfast.ipf(M[order], num_threads=n, **options), strict=True):
            assert_same_bits(a[order], b)
    for k in range(len(M)):
        for a, b in zip(together, cmfast.ipf(M[k], **options), strict=True):
            np.testing.assert_array_equal(a[k], b)


def algorithm_1(M, u, v, sweeps):
    Q = M.copy()
    for _ in range(sweeps):
        Q = Q * (u / Q.sum(1))[:, None]
        Q = Q * (v / Q.sum(0))
    return Q


@pytest.mark.parametrize("shape", [(70, 70), (66, 90), (90, 66)])
def test_sinkhorn_is_the_algorithm_of_the_paper(shape):
    rng = np.random.default_rng(7)
    M, u, v = rng.random(shape) ** 4 + 1e-4, rng.uniform(1, 2, shape[0]), rng.uniform(1, 2, shape[1])
    v *= u.sum() / v.sum()
    for k in (1, 2, 7):
        result = cmfast.ipf(M, u, v, solver="sinkhorn", max_iter=k, tol=1e-14, **OPTIONS)
        want = algorithm_1(M, u, v, k)
        np.testing.assert_allclose(result.matrix, want, rtol=1e-12)
        assert (result.status, result.n_iter) == (Status.MAX_ITER, k)
        np.testing.assert_allclose(result.residual, residual(want, u, v), rtol=1e-9, atol=1e-15)
    done = cmfast.ipf(M, u, v, solver="sinkhorn", tol=1e-7)
    k = int(done.n_iter)
    np.testing.assert_allclose(done.matrix, algorithm_1(M, u, v, k), rtol=1e-12)
    before = algorithm_1(M, u, v, k - 1)
    assert max(done.residual, done.line_error) <= 1e-7 < abs(before.sum(1) / u - 1).max()


def test_statuses():
    M, ones = confused(70, 0.8, 0.5), np.ones(70)

    def status(M, u=ones, v=ones, **options):
        return cmfast.ipf(M, u, v, **options, **OPTIONS).status

    for place in (0, 37, 69):
        for value, wanted in ((np.nan, "INVALID"), (np.inf, "INVALID"), (-1.0, "INVALID"), (-0.0, "CONVERGED")):
            bad = M.copy()
            bad[place, 69 - place] = value
            assert status(bad) == Status[wanted]
        for axis in (0, 1):
            empty = M.copy()
            empty.swapaxes(0, axis)[place] = 0
            assert status(empty) == Status.ZERO_LINE
    assert status(M, ones, ones * 1.001) == Status.TOTALS
    assert status(M, ones, np.where(np.arange(70) == 3, np.nan, 1.0)) == Status.INVALID
    assert status(M, ones, ones * (1 + 1e-12)) == Status.CONVERGED
    assert status(hidden(70, 1e-6), solver="sinkhorn", max_iter=1, tol=1e-15) == Status.MAX_ITER
    assert status(M, tol=1e-14, max_iter=1) == Status.MAX_ITER
    assert cmfast.ipf(np.full((70, 70), 5e-324), **OPTIONS).status == Status.RANGE


def test_dropped_classes_and_zero_targets():
    M = confused(70, 0.8, 0.5)
    hole = M.copy()
    hole[4] = hole[:, 4] = 0
    keep = np.delete(np.arange(70), 4)
    wanted = cmfast.ipf(M[np.ix_(keep, keep)], tol=1e-12)
    got = cmfast.ipf(hole, empty="drop", tol=1e-12)
    np.testing.assert_allclose(got.matrix[np.ix_(keep, keep)], wanted.matrix, rtol=1e-9)
    np.testing.assert_allclose(got.row_scale[keep], wanted.row_scale, rtol=1e-9)
    assert not got.matrix[4].any()
    assert not got.matrix[:, 4].any()
    assert got.row_scale[4] == got.col_scale[4] == 0
    u, v = np.ones(70), np.ones(70) * 69 / 68
    u[3] = v[5] = v[6] = 0
    for solver in ("auto", "sinkhorn"):
        result = cmfast.ipf(M, u, v, solver=solver, tol=1e-11)
        assert result.status == Status.CONVERGED
        assert residual(result.matrix, u, v) <= 1e-11 + 1e-14
        assert result.row_scale[3] == result.col_scale[5] == result.col_scale[6] == 0


def test_powers_of_two_change_nothing_but_the_factors():
    M = confused(70, 0.7, 0.5)
    rows, cols = np.exp2(np.arange(70) * 12 - 500), np.exp2(300 - np.arange(70) * 8)
    far, near = cmfast.ipf(M * rows[:, None] * cols, tol=1e-13), cmfast.ipf(M, tol=1e-13)
    assert far.status == Status.CONVERGED
    np.testing.assert_allclose(far.matrix, near.matrix, rtol=1e-9)


@pytest.mark.parametrize("smoothing", [0.5, "pseudo-bayes"])
@pytest.mark.parametrize("shape", [(70, 70), (66, 90)])
def test_smoothing(smoothing, shape):
    M = np.random.default_rng(8).poisson(0.7, shape) + 0.0
    u, v = np.full(shape[0], 1.0 / shape[0]), np.full(shape[1], 1.0 / shape[1])
    result = cmfast.ipf(M, u, v, smoothing=smoothing, tol=1e-12)
    smoothed, amount = M + 0.5, 0.5
    if smoothing == "pseudo-bayes":
        N, E = M.sum(), M.sum(1, keepdims=True) * M.sum(0) / M.sum()
        amount = (N**2 - (M**2).sum()) / ((E - M) ** 2).sum()
        smoothed = N / (N + amount) * (M + amount * E / N)
    np.testing.assert_allclose(result.smoothing, amount, rtol=1e-12)
    np.testing.assert_allclose(result.matrix, cmfast.ipf(smoothed, u, v, tol=1e-12).matrix, rtol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_warm_starts(solver):
    M = confused(80, 0.7, 0.5)
    cold = cmfast.ipf(M, solver=solver, tol=1e-12)
    for start in (cold, (cold.row_scale, np.full(80, np.nan)), (np.full(80, -1.0), cold.col_scale)):
        warm = cmfast.ipf(M, solver=solver, tol=1e-12, start=start)
        assert warm.n_iter < cold.n_iter
        np.testing.assert_allclose(warm.matrix, cold.matrix, rtol=1e-9)


def test_types_and_the_factors_alone():
    M = np.random.default_rng(9).integers(1, 60, (3, 70, 70))
    whole = cmfast.ipf(M, tol=1e-12)
    assert_same_bits(tuple(whole)[1:], tuple(cmfast.ras(M, tol=1e-12))[1:])
    single = cmfast.ipf(M.astype(np.float32), tol=1e-12)
    assert single.matrix.dtype == np.float32
    assert_same_bits(single.matrix, whole.matrix.astype(np.float32))
    assert_same_bits(single.row_scale, whole.row_scale)
    strided = np.zeros((3, 140, 70))
    strided[:, ::2] = M
    assert_same_bits(tuple(cmfast.ipf(strided[:, ::2], tol=1e-12)), tuple(whole))
