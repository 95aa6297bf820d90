"""Principal axes by products of float32: where they are taken, what they lose, and that nobody loses it unasked."""

import numpy as np
import pytest
from checks import assert_same_bits
from oracle.geometry import pca as oracle

import cmfast
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _scatter

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def kernels_at_every_size(monkeypatch):
    """Use the kernels for a few points, too."""
    monkeypatch.setattr(_scatter, "KERNEL_PRODUCTS", 0.0)


@pytest.fixture
def every_size(monkeypatch, kernels_at_every_size):
    """Let "auto" take float32 for a few points, too."""
    monkeypatch.setattr(_scatter, "MANY_PRODUCTS", 0.0)


def embeddings(rng, spread, n_rows=3000):
    """Return points in float32, with these deviations along turned axes."""
    n = len(spread)
    turn, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return (rng.normal(size=(n_rows, n)) * spread @ turn.T + 3.0).astype(np.float32)


def cosines(axes, X):
    """Return how far axes point along those of the oracle."""
    m = len(axes.components)
    return np.abs((axes.components * oracle(X.astype(np.float64), m)[1]).sum(axis=1))


WIDE = 0.8 ** np.arange(24)
THIN = np.array([1.0, 1e-5, 3e-6, 1e-6])


def test_many_products_in_float32_are_near_those_of_float64(rng, every_size):
    X = embeddings(rng, WIDE)
    exact = cmfast.pca(X, 10, precision="float64")
    for precision in ("auto", "float32"):
        axes = cmfast.pca(X, 10, precision=precision)
        assert_same_bits(axes.mean, exact.mean)
        assert axes != exact, "these are products of float32"
        np.testing.assert_allclose(axes.explained_variance_ratio, exact.explained_variance_ratio, rtol=1e-6)
        np.testing.assert_allclose(axes.components, exact.components, atol=1e-5)
        assert (cosines(axes, X) > 1 - 1e-9).all()


def test_axes_that_float32_would_lose_are_taken_in_float64(rng, every_size):
    X = embeddings(rng, THIN)
    found = {precision: cmfast.pca(X, 4, precision=precision) for precision in ("auto", "float64", "float32")}
    assert found["auto"] == found["float64"]
    assert (cosines(found["auto"], X) > 1 - 1e-6).all()
    assert (cosines(found["float32"], X)[1:] < 0.99).any(), "so there is something to fall back from"
    assert cmfast.pca(X, 1) == cmfast.pca(X, 1, precision="float32"), "the first axis is sure"


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_geometric_matrices_do_not_lose_axes(rng, every_size):
    X, y, p = embeddings(rng, THIN), rng.integers(0, 3, 3000), rng.integers(0, 3, 3000)
    whole = cmfast.geometric_confusion_matrix(X, y, p, weights="row", n_components=4)
    apart = cmfast.pca(X, 4, precision="float64").transform(X)
    apart = cmfast.geometric_confusion_matrix(apart, y, p, weights="row", n_components=None)
    assert len(whole.diagnostics.bins) == 4
    assert_same_bits(whole.matrix, apart.matrix)


def test_auto_is_float64_for_other_types_and_few_points(rng, monkeypatch):
    X = embeddings(rng, WIDE)
    assert cmfast.pca(X, 3) == cmfast.pca(X, 3, precision="float64")
    monkeypatch.setattr(_scatter, "KERNEL_PRODUCTS", 0.0)
    assert cmfast.pca(X, 3) == cmfast.pca(X, 3, precision="float64")
    monkeypatch.setattr(_scatter, "MANY_PRODUCTS", 0.0)
    for other in (X.astype(np.float64), X.astype(np.float16), np.rint(X * 100).astype(np.int32)):
        assert cmfast.pca(other, 3) == cmfast.pca(other, 3, precision="float64")
        near = cmfast.pca(other, 3, precision="float32")
        np.testing.assert_allclose(near.components, cmfast.pca(other, 3).components, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "power"), [(np.float32, 100), (np.float32, -110), (np.float64, 900), (np.float64, -900)]
)
def test_ends_of_the_types(rng, dtype, power):
    X = embeddings(rng, WIDE).astype(dtype)
    near = cmfast.pca(X, 5, precision="float32")
    far = cmfast.pca(np.ldexp(X, power), 5, precision="float32")
    np.testing.assert_allclose(far.mean, np.ldexp(near.mean, power), rtol=1e-13)
    np.testing.assert_allclose(far.components, near.components, atol=1e-6)
    np.testing.assert_allclose(far.explained_variance_ratio, near.explained_variance_ratio, rtol=1e-6)


def test_far_from_zero(rng):
    X = embeddings(rng, WIDE) + np.float32(1000.0)
    near, exact = (cmfast.pca(X, 5, precision=precision) for precision in ("float32", "float64"))
    np.testing.assert_allclose(near.components, exact.components, atol=1e-5)
    np.testing.assert_allclose(near.explained_variance_ratio, exact.explained_variance_ratio, rtol=1e-6)


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.exhaustive)])
def test_rows_that_are_not_finite_and_threads_change_nothing(rng, precision, monkeypatch):
    X = embeddings(rng, np.ones(128) + np.arange(128) % 7, 3000)
    axes = cmfast.pca(X, 3, precision=precision)
    monkeypatch.setattr(pool, "cpu_count", lambda: 5)
    assert cmfast.pca(X, 3, precision=precision) == axes
    bad = X.copy()
    bad[[0, 700, 2999], [3, 127, 0]] = np.nan, np.inf, -np.inf
    with pytest.warns(cmfast.FailureWarning, match=r"3 of 3000 points left out \(first: 0, 700, 2999\)"):
        some = cmfast.pca(bad, 3, precision=precision)
    kept = np.delete(X, [0, 700, 2999], axis=0)
    np.testing.assert_allclose(some.mean, kept.mean(axis=0, dtype=np.float64), rtol=1e-12)
    assert (cosines(some, kept) > 1 - 1e-6).all()
    np.testing.assert_array_equal(np.isnan(axes.transform(bad)).any(axis=1), ~np.isfinite(bad).all(axis=1))
