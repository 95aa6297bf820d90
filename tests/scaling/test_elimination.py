"""The elimination behind a Newton step, whatever the size: against a plain solver, and against digits it would lose."""

import numpy as np
import pytest

from cmfast.kernels.cpu.scaling._large_elimination import compute_dense_step

SIZES = [1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 64, 65, 100, 129]


def step(M, x, y, q, paired):
    d = np.empty(M.shape[1])
    compute_dense_step(M, M @ y * x, x, y, q.copy(), paired, d)
    return d - d[0]


def laplacian(P, u):
    return np.diag(P.sum(0)) - P.T @ (P / u[:, None])


def solution(L, g):
    d = np.zeros(len(g))
    d[1:] = np.linalg.solve(L[1:, 1:], g[1:])
    return d


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", SIZES)
@pytest.mark.parametrize("extra", [0, 1, 130])
def test_without_a_pairing(C, extra):
    rng = np.random.default_rng(C)
    M, x, y, g = rng.random((C + extra, C)), rng.random(C + extra) + 0.1, rng.random(C) + 0.1, rng.normal(size=C)
    g -= g.mean()
    P = x[:, None] * M * y
    np.testing.assert_allclose(step(M, x, y, g, False), solution(laplacian(P, P.sum(1)), g), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("C", SIZES)
def test_with_a_pairing(C):
    rng = np.random.default_rng(C)
    M, x, y, q = rng.random((C, C)), rng.random(C) + 0.1, rng.random(C) + 0.1, rng.normal(size=C)
    q -= q.mean()
    P = x[:, None] * M * y
    g = q + P.sum(1) - P.sum(0)
    np.testing.assert_allclose(step(M, x, y, q, True), solution(laplacian(P, P.sum(1)), g), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("C", [16, 40, 90])
@pytest.mark.parametrize("coupling", [1e-14, 1e-40])
def test_weak_couplings_keep_their_digits(C, coupling):
    """Two groups, each balanced in itself: what flows between them shifts one against the other, and alone decides."""
    half = C // 2
    M = np.kron(np.eye(2), np.full((half, half), 1 / half))
    M[half:, 0], M[0, half:] = 2 * coupling, coupling
    d = step(M, np.ones(C), np.ones(C), np.zeros(C), True)
    shift = d[half:].mean() - d[:half].mean()
    # Each group moves as one, by what flows out of it less what flows in, over what flows at all.
    np.testing.assert_allclose(shift, (2 * coupling - coupling) / (2 * coupling + coupling), rtol=1e-9)


def test_groups_without_coupling_stand_still():
    M = np.kron(np.eye(3), np.full((5, 5), 0.2))
    assert not step(M, np.ones(15), np.ones(15), np.zeros(15), True).any()
