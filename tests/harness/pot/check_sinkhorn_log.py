"""The claims of POT's suite on ``ot.bregman.sinkhorn_log``, in our words: they hold with theirs and with ours.

``peers.py`` runs it both ways. POT's own suite is not in its package; ``peers.py CHECKOUT`` runs that.
"""

import numpy as np
import ot
import pytest

N = 100


def cloud(n=N, seed=42):
    """Return the squared distances of points of a plane, and uniform weights."""
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return ot.dist(x, x), np.full(n, 1 / n)


def gaussians(n=N):
    """Return squared distances on a line, and two bumps on it."""
    x = np.arange(n, dtype=float)
    a, b = np.exp(-((x - 20) ** 2) / 50), np.exp(-((x - 60) ** 2) / 200)
    return (x[:, None] - x[None, :]) ** 2, a / a.sum(), b / b.sum()


def test_the_margins_are_there():
    M, u = cloud()
    G = ot.bregman.sinkhorn_log(u, u, M, 0.1, stopThr=1e-10)
    np.testing.assert_allclose(G.sum(0), u, atol=1e-5)
    np.testing.assert_allclose(G.sum(1), u, atol=1e-5)


def test_it_agrees_with_sweeps_of_scaled_cells():
    M, u = cloud()
    G = ot.bregman.sinkhorn_log(u, u, M, 1.0, stopThr=1e-12)
    np.testing.assert_allclose(G, ot.bregman.sinkhorn_knopp(u, u, M, 1.0, stopThr=1e-12), atol=1e-9)


@pytest.mark.parametrize("reg", [1.0, 2.0, 10.0, 100.0])
def test_two_bumps_on_a_line(reg):
    """Factors span e**1860 and more."""
    M, a, b = gaussians()
    G = ot.bregman.sinkhorn_log(a, b, M, reg, numItermax=20_000, stopThr=1e-12)
    np.testing.assert_allclose(G.sum(1), a, atol=1e-9)
    np.testing.assert_allclose(G.sum(0), b, atol=1e-9)
    assert G.min() >= 0


def test_little_regularisation_is_close_to_none():
    M, a, b = gaussians()
    G = ot.bregman.sinkhorn_log(a, b, M, 0.5, numItermax=50_000, stopThr=1e-9)
    assert (G * M).sum() == pytest.approx((ot.emd(a, b, M) * M).sum(), rel=1e-2)


def test_weights_that_are_not_given_are_uniform():
    M, _ = cloud(30)
    G = ot.bregman.sinkhorn_log([], [], M, 1.0, stopThr=1e-11)
    np.testing.assert_allclose(G, ot.bregman.sinkhorn_log(np.full(30, 1 / 30), np.full(30, 1 / 30), M, 1.0), atol=1e-9)


def test_several_targets_give_a_cost_each():
    M, u = cloud(40)
    b = np.random.default_rng(0).dirichlet(np.ones(40), 3).T
    costs = ot.bregman.sinkhorn_log(u, b, M, 1.0, stopThr=1e-10)
    one = [(ot.bregman.sinkhorn_log(u, b[:, k], M, 1.0, stopThr=1e-10) * M).sum() for k in range(3)]
    np.testing.assert_allclose(costs, one, rtol=1e-6)


def test_the_log_has_the_factors():
    M, a, b = gaussians(50)
    G, log = ot.bregman.sinkhorn_log(a[:50] / a[:50].sum(), b, M, 5.0, numItermax=5000, stopThr=1e-12, log=True)
    np.testing.assert_allclose(np.exp(log["log_u"][:, None] - M / 5.0 + log["log_v"]), G, rtol=1e-9, atol=1e-300)
    assert log["niter"] >= 0


def test_too_few_sweeps_warn():
    M, a, b = gaussians()
    with pytest.warns(UserWarning, match="not converge"):
        ot.bregman.sinkhorn_log(a, b, M, 1.0, numItermax=1, stopThr=1e-15)


def test_the_function_of_all_methods_hands_over_to_it():
    M, u = cloud(30)
    G = ot.sinkhorn(u, u, M, 1.0, method="sinkhorn_log", stopThr=1e-10)
    np.testing.assert_allclose(G.sum(0), u, atol=1e-8)
