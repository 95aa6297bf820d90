"""Principal axes of a stream of points, and diagnostics of counts whose points are gone."""

import warnings
from dataclasses import fields

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast


def points(rng, n=5000, columns=6):
    return rng.normal(size=(n, columns)) @ rng.normal(size=(columns, columns)) * 3.0 ** -np.arange(columns) + 50.0


def close(found, want, atol=1e-9):
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=atol, rtol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("parts", [1, 2, 7, 500])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_axes_of_parts_are_those_of_all_points(rng, parts, dtype):
    X = (points(rng) * 100).astype(dtype)
    stream = cmfast.PcaAccumulator()
    for part in np.array_split(X, parts):
        assert stream.update(part) is stream
    assert (stream.n_points, stream.n_dropped) == (5000, 0)
    close(stream.projection(4), cmfast.pca(X, 4, precision="float64"))


def test_accumulators_add(rng):
    X = points(rng)
    a, b = cmfast.PcaAccumulator().update(X[:4000]), cmfast.PcaAccumulator().update(X[4000:])
    close(a.add(b).projection(6), cmfast.pca(X, 6))
    close(cmfast.PcaAccumulator().add(a).add(cmfast.PcaAccumulator()).projection(6), cmfast.pca(X, 6))
    with pytest.raises(ValueError, match="other must be of points with 6 columns, got 2 columns"):
        a.add(cmfast.PcaAccumulator().update(X[:, :2]))


def test_same_parts_same_bits(rng):
    X = points(rng)
    once, again = (cmfast.PcaAccumulator().update(X[:100]).update(X[100:]).projection(3) for _ in range(2))
    assert once == again


def test_rows_that_are_not_finite_are_left_out(rng):
    X = points(rng)
    X[[3, 4500]] = np.nan
    stream = cmfast.PcaAccumulator()
    with pytest.warns(cmfast.FailureWarning, match=r"PcaAccumulator.update: 1 of 100 points left out \(first: 3\)"):
        stream.update(X[:100])
    stream.update(X[100:], on_failure="ignore")
    assert (stream.n_points, stream.n_dropped) == (4998, 2)
    close(stream.projection(3), cmfast.pca(np.delete(X, [3, 4500], axis=0), 3))
    before = stream.projection(3)
    with pytest.raises(cmfast.FailureError):
        stream.update(X[:100], on_failure="raise")
    assert stream.projection(3) == before


def test_no_points_and_points_that_are_all_the_same():
    stream = cmfast.PcaAccumulator()
    with pytest.raises(ValueError, match="there are no points yet"):
        stream.projection(1)
    stream.update(np.empty((0, 3)))
    with pytest.raises(ValueError, match="there are no points yet"):
        stream.projection(1)
    stream.update(np.ones((5, 3))).update(np.ones((1, 3)))
    found = stream.projection(2)
    assert found.explained_variance_ratio.tolist() == [0, 0]
    assert found.mean.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="n_components must be at most 3"):
        stream.projection(4)
    with pytest.raises(ValueError, match=r"X must be of shape \(N, 3\)"):
        stream.update(np.ones((2, 4)))
    assert repr(stream) == "<PcaAccumulator: 6 points, 3 columns>"


def test_distances_whose_squares_overflow_are_refused():
    stream = cmfast.PcaAccumulator().update([[1.0, 2.0], [3.0, 5.0]])
    before = stream.projection(2)
    far = cmfast.PcaAccumulator().update([[1e200, 1.0]])
    for call in (lambda: stream.update([[1e308, 1.0], [1.0, 2.0]]), lambda: stream.add(far)):
        with pytest.raises(OverflowError, match="squared distances float64 can add up"):
            call()
        assert stream.n_points == 2
        assert stream.projection(2) == before


def test_tensors_give_tensors(rng):
    X = torch.from_numpy(points(rng))
    found = cmfast.PcaAccumulator().update(X).projection(2)
    assert all(isinstance(part, torch.Tensor) for part in found)
    assert found.transform(X).shape == (5000, 2)


@pytest.mark.parametrize("weights", ["row", "bi", ["all", "bi"]], ids=str)
def test_diagnostics_without_the_points_are_the_same(rng, weights):
    y = rng.integers(0, 3, 2000)
    X = rng.normal(size=(2000, 2)) + y[:, None]
    guess = np.clip(np.rint(X.mean(axis=1)), 0, 2).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        want = cmfast.geometric_confusion_matrix(X, y, guess, weights=weights)
        found = cmfast.diagnose(want.cells, weights)
    for field in fields(found):
        a, b = getattr(found, field.name), getattr(want.diagnostics, field.name)
        if field.name in ("weighting", "bins"):
            assert a == b
        elif field.name == "occupancy":
            assert all(map(np.array_equal, a, b))
        else:
            assert_same_bits(np.asarray(a), np.asarray(b))


def test_diagnosing_warns_where_the_agreement_says_little(rng):
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    cells = cmfast.cell_counts(X, y, rng.permutation(y), grid=cmfast.Grid([0.0] * 3, [1e-3] * 3))
    with pytest.warns(cmfast.DiagnosticWarning, match=r"^diagnose: .*guaranteed"):
        cmfast.diagnose(cells, "row")
