"""Products of many points for principal axes: kernels on the pool's threads instead of a BLAS."""

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _scatter


@pytest.fixture
def kernels_at_every_size(monkeypatch):
    """Let kernels multiply few points, too."""
    monkeypatch.setattr(_scatter, "KERNEL_PRODUCTS", 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_kernels_sum_products_of_whole_numbers_exactly(rng, dtype, precision, kernels_at_every_size, monkeypatch):
    monkeypatch.setattr(_scatter, "SCATTER_BLOCK_NUMBERS", 1 << 10)  # several blocks, the last one shorter
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 20, 31, 33, 64, 130):
        half = rng.integers(-20, 20, size=(400, n)).astype(dtype)
        X = np.concatenate([half, -half])  # of mean 0
        precise = np.dtype(precision)
        expected = X.astype(np.int64).T @ X.astype(np.int64)
        for threads in (1, 2, 40):
            found = _scatter.find_centre(X, precise, threads)
            scatter = _scatter.compute_scatter(X, found, precise, threads)
            assert_same_bits(
                np.triu(scatter), np.triu(expected).astype(np.float64), what=f"{n} columns, {threads} threads"
            )
            assert not found.mean.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_are_those_of_few_points_to_the_bit(rng, dtype, monkeypatch):
    X = (rng.normal(size=(70_000, 19)) * 1e3 + 1.0).astype(dtype)
    few = _scatter.find_centre(X, np.dtype(dtype))
    monkeypatch.setattr(_scatter, "KERNEL_PRODUCTS", 0.0)
    many = _scatter.find_centre(X, np.dtype(dtype))
    assert_same_bits(many.mean, few.mean)
    assert (many.number, many.power, many.bounds) == (few.number, few.power, few.bounds)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_threads_layouts_and_rows_that_are_not_finite_change_nothing(rng, precision, monkeypatch):
    X = (rng.normal(size=(40_000, 33)) * (1 + np.arange(33) % 7) + 5.0).astype(np.float32)
    bad = np.insert(X, [0, 20_000, 40_000], np.nan, axis=0)
    monkeypatch.setattr(_scatter, "KERNEL_PRODUCTS", np.inf)
    blas = cmfast.pca(X, 5, precision=precision)
    monkeypatch.setattr(_scatter, "KERNEL_PRODUCTS", 0.0)
    monkeypatch.setattr(_scatter, "SCATTER_BLOCK_NUMBERS", 1 << 15)
    found = cmfast.pca(X, 5, precision=precision)
    close = {"float32": 1e-5, "float64": 1e-12}[precision]
    np.testing.assert_allclose(found.components, blas.components, atol=close)
    np.testing.assert_allclose(found.explained_variance_ratio, blas.explained_variance_ratio, rtol=close)
    for threads in (1, 2, 5):
        monkeypatch.setattr(pool, "cpu_count", lambda threads=threads: threads)
        assert cmfast.pca(np.asfortranarray(X), 5, precision=precision) == found
        assert cmfast.pca(X, 5, precision=precision) == found
    left_out = cmfast.pca(bad, 5, precision=precision, on_failure="ignore")
    np.testing.assert_allclose(left_out.components, found.components, atol=close)


@pytest.mark.parametrize(("dtype", "power"), [(np.float32, 100), (np.float32, -110), (np.float64, 900)])
def test_ends_of_the_types(rng, dtype, power, kernels_at_every_size):
    X = (rng.normal(size=(3000, 24)) * 0.8 ** np.arange(24)).astype(dtype)
    for precision in ("float32", "float64"):
        near, far = (cmfast.pca(x, 5, precision=precision) for x in (X, np.ldexp(X, power)))
        np.testing.assert_allclose(far.components, near.components, atol=1e-6)
        np.testing.assert_allclose(far.explained_variance_ratio, near.explained_variance_ratio, rtol=1e-6)


def test_types_other_than_floats(rng, kernels_at_every_size):
    X = rng.integers(-50, 50, (2000, 20)) * (1 + np.arange(20))
    same = cmfast.pca(X, 3)
    for other in (X.astype(np.int16), X.astype(np.float64), X.astype(np.float32)):
        assert cmfast.pca(other, 3, precision="float64") == same, "sums of products of small integers minus one mean"
