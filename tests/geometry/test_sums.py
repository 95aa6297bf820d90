"""Exact sums of weights: against fractions, at every magnitude and sign, whatever the keys are."""

from fractions import Fraction

import numpy as np
import pytest

import cmfast
from cmfast.kernels.cpu.geometry import _sample_sort

LAST = 2.0**-1074


def rounded(weights, largest):
    """Return the sum in units of 2**-124 of the largest, as `sparse_histogram` promises it, rounded once."""
    unit = Fraction(2) ** (int(np.frexp(largest)[1]) - 124)
    total = sum(round(Fraction(float(w)) / unit) for w in weights) * unit
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return np.inf if total > 0 else -np.inf


def histogram(cells, weights):
    X = np.asarray(cells, float)[:, None]
    return cmfast.sparse_histogram(X, grid=cmfast.Grid([0.0], [1.0]), weights=weights, on_failure="ignore").values


@pytest.mark.parametrize("spread", [0, 3, 40, 200, 1000, 1070])
@pytest.mark.parametrize("top", [1023, 60, 0, -300, -950, -1000, -1020, -1073])
def test_sums_are_exact_and_rounded_once(rng, top, spread):
    cells = np.sort(rng.integers(0, 300, 1500))
    power = np.maximum(top - rng.integers(0, spread + 1, cells.size), -1074)
    weights = np.ldexp(rng.uniform(0.5, 1.0, cells.size), power) * rng.choice([-1.0, 1.0], cells.size)
    weights[1::7] = -weights[0::7][: weights[1::7].size]  # cancels where both are in one cell
    got = histogram(cells, weights)
    want = [rounded(weights[cells == c], np.abs(weights).max()) for c in np.unique(cells)]
    np.testing.assert_array_equal(got, np.where(np.isinf(want), np.nan, want))


@pytest.mark.parametrize("weights", [
    [1.0, 2.0**-53], [1.0, 2.0**-53, 2.0**-54], [1.0, 2.0**-53, 2.0**-123], [-1.0, -(2.0**-53), -(2.0**-120)],
    [1.0, 2.0**-52, 2.0**-53], [2.0**31 + 1, -(2.0**31)], [-1.0, 2.0**-100], [1.0, -1.0], [0.0, -0.0],
    [LAST, LAST], [3 * LAST, -LAST], [2.0**-1022, -LAST], [2.0**1023, 2.0**1023 * (1 - 2.0**-53)],
])  # fmt: skip
def test_ties_and_ends_of_float64(weights):
    got = histogram([0] * len(weights), np.array(weights))
    want = rounded(weights, max(map(abs, weights)))
    np.testing.assert_array_equal(got, [want if np.isfinite(want) else np.nan])
    assert not np.signbit(got[0]) or want < 0


def test_half_of_the_smallest_number_is_rounded_once():
    # 2**-1022 is the largest, so its 124 bits reach below the last bit that a number of its size has: none is lost.
    weights = np.array([2.0**-1022, 2.0**-1074, -(2.0**-1022)])
    np.testing.assert_array_equal(histogram([0, 0, 0], weights), [LAST])
    weights = np.array([2.0**-900, 2.0**-1000, 2.0**-1022 * (1 - 2.0**-52), -(2.0**-900), -(2.0**-1000)])
    np.testing.assert_array_equal(histogram([0] * 5, weights), [rounded(weights, 2.0**-900)])


def test_points_with_keys_that_leave_no_room_for_their_numbers(rng):
    index = rng.integers(0, 3, (500, 3))
    weights, far = rng.normal(size=500), np.array([1.0, 2.0**19, 2.0**20 - 1])
    grid = cmfast.Grid([0.0] * 3, [1.0] * 3)
    near = cmfast.sparse_histogram(index.astype(float), grid=grid, weights=weights)
    wide = cmfast.sparse_histogram(far[index], grid=grid, weights=weights)
    np.testing.assert_array_equal(near.values, wide.values)
    np.testing.assert_array_equal(far[near.cells], wide.cells)
    bad = far[index]
    bad[::50, 1] = np.nan
    kept = np.isfinite(bad[:, 1])
    some = cmfast.sparse_histogram(bad, grid=grid, weights=weights, on_failure="ignore")
    np.testing.assert_array_equal(
        some.values, cmfast.sparse_histogram(bad[kept], grid=grid, weights=weights[kept]).values
    )
    assert some.n_dropped == 10


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("kind", [float, np.float32, int])
def test_points_that_are_dealt_to_buckets_have_the_sums_of_those_that_are_not(rng, monkeypatch, bad, kind):
    X, weights = rng.normal(size=(20_000, 2)), (100.0 * rng.normal(size=20_000)).astype(kind)
    if bad:
        X[::97, 1] = np.nan
        weights[0] = 2**30  # of a point without a cell: nothing of the others is rounded off for it
    grid = cmfast.Grid([0.0, 0.0], [0.3, 0.2])
    want = cmfast.sparse_histogram(X, grid=grid, weights=weights, on_failure="ignore")
    monkeypatch.setattr(_sample_sort, "LEAST_PARTITIONED_POINTS", 100)
    monkeypatch.setattr(_sample_sort, "BUCKET", 500)
    got = cmfast.sparse_histogram(X, grid=grid, weights=weights, on_failure="ignore")
    np.testing.assert_array_equal(got.cells, want.cells)
    np.testing.assert_array_equal(got.values, want.values)
    kept = np.isfinite(X[:, 1])
    cells, place = np.unique(np.floor(X[kept] / [0.3, 0.2]), axis=0, return_inverse=True)
    sums = np.bincount(place.reshape(-1), weights[kept], len(cells))
    np.testing.assert_allclose(got.values, sums, rtol=1e-5, atol=1e-4)
    assert got.n_dropped == np.count_nonzero(~kept)
