"""Principal axes from integers: near those of the oracle, and the same bits in any order, in any parts, anywhere."""

import device
import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch
from optional import xarray as xr
from oracle import geometry

import cmfast

RNG = np.random.default_rng(41)
X = RNG.normal(size=(3000, 5)) @ (RNG.normal(size=(5, 5)) * [8.0, 4.0, 2.0, 1.0, 0.5]) + [0.0, 1e3, -5.0, 0.0, 7.0]


def exact(points, m=3, **options):
    return cmfast.pca(points, m, precision="exact", **options)


def assert_same_axes(found, want):
    for one, other in zip(found, want, strict=True):
        assert_same_bits(np.asarray(one if isinstance(one, torch.Tensor) else device.host(one)), other)


@pytest.mark.parametrize(
    "points",
    [X, X.astype(np.float32), np.rint(X * 100).astype(np.int32), X[:1], X[:2], X[:, :1], X * 2.0**-990, X * 1e300,
     np.where(np.arange(5) == 3, 2.5, X), np.concatenate([X, [[1e4] * 5]])],
    ids=["plain", "float32", "int32", "one-row", "two-rows", "one-column", "tiny", "huge", "constant", "outlier"],
)  # fmt: skip
def test_axes_are_those_of_the_oracle(points):
    m = min(2, points.shape[1])
    scale = 2.0 ** -np.frexp(np.abs(points).max())[1]  # squares of the largest would leave float64
    mean, components, share = geometry.pca(points * scale, m)
    found = exact(points, m)
    np.testing.assert_allclose(found.mean * scale, mean, rtol=1e-12, atol=1e-12)
    if len(points) > 2:
        np.testing.assert_allclose(found.components, components, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.explained_variance_ratio, share, rtol=1e-9, atol=1e-12)


def test_columns_whose_range_is_beyond_float64():
    wide = np.array([[-1.5e308, 0.0], [1.5e308, 1.0], [0.0, 0.5], [0.0, 0.5]])
    found = exact(wide, 2)
    assert_same_bits(found.components, np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert found.explained_variance_ratio[0] == 1.0
    np.testing.assert_allclose(found.mean, [0.0, 0.5], atol=1e295)


def test_order_changes_no_bit():
    want = exact(X)
    assert_same_axes(exact(X[RNG.permutation(len(X))]), want)
    assert_same_axes(exact(np.asfortranarray(X)), want)


def test_points_that_are_not_finite_take_part_in_nothing():
    bad = np.concatenate([X, X[:4]])
    bad[3000, 0], bad[3001, 2], bad[3002, 4], bad[3003] = np.nan, np.inf, -np.inf, np.nan
    with pytest.warns(cmfast.FailureWarning, match=r"^pca: 4 of 3004 points left out: a coordinate is not finite"):
        found = exact(bad)
    assert_same_axes(found, exact(X))
    none = exact(np.full((3, 5), np.nan), on_failure="ignore")
    assert all(np.isnan(part).all() for part in none)


@pytest.mark.parametrize("of", [torch.from_numpy, pytest.param(device.asarray, marks=device.marks)])
def test_other_libraries(of):
    bad = X.copy()
    bad[7, 1] = np.nan
    found = exact(of(bad), on_failure="ignore")
    assert_same_axes(found, exact(bad, on_failure="ignore"))
    assert type(found.mean) is type(of(X))


def test_arrays_with_names():
    found = exact(xr.DataArray(X, dims=("point", "axis")))
    for one, other in zip(found, exact(X), strict=True):
        assert_same_bits(np.asarray(one), other)


def test_sums_of_parts_are_those_of_the_whole():
    from cmfast.geometry._exact_pca import sum_products
    from cmfast.geometry._width_rules import measure_columns

    found = measure_columns(X, None)
    parts = sum(sum_products(part, found) for part in (X[:1], X[1:2500], X[2500:2500], X[2500:]))
    whole = sum_products(X, found)
    wide = [words[0].astype(object) * 2**32 + words[1] for words in (parts, whole)]
    assert (wide[0] == wide[1]).all()
