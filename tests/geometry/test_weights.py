"""Weights as integers: the shift is that of sums in index order, however the sums are taken."""

import math
from fractions import Fraction

import numpy as np
import pytest

import cmfast
from cmfast._core import dispatch
from cmfast.kernels.shared import geometry_weights


def in_order(numbers):
    total = 0.0
    for x in numbers:
        total += float(x)
    return total


def shift_of(W, M):
    """Return the largest shift for which no sum of weights times counts reaches 2**62, by sums in index order."""
    mass = np.where(M > 0, W, 0.0) * M
    top = max(in_order(line) for table in (mass, mass.T) for line in table)
    fraction, exponent = math.frexp(top)
    return 62 - (exponent - 1 if fraction == 0.5 else exponent)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 10, 300])
@pytest.mark.parametrize("factor", [1.0, 0.3, 2.0**-40, 2.0**1000, 2.0**-900])
def test_the_shift_is_that_of_sums_in_index_order(rng, n_classes, factor):
    shifts = set()
    for _ in range(3):
        M = rng.integers(0, 9, (n_classes, n_classes)) * rng.integers(0, 2, (n_classes, n_classes))
        M[0, 0] = 7
        lines = np.maximum(M.sum(axis=1, keepdims=True), 1), np.maximum(M.sum(axis=0, keepdims=True), 1)
        # Where all sums are 1, rounding decides.
        for table in (1.0 / lines[0], 1.0 / lines[1], rng.random(M.shape) + 0.5):
            W = np.broadcast_to(table, M.shape) * factor
            if np.unique(W[M > 0]).size == 1:  # held in the scale
                continue
            place = np.empty((*M.shape, 2), np.int64)[:, :, 1]
            fixed, other = geometry_weights.quantise(W, M), geometry_weights.quantise(W, M, place)
            assert fixed.shift == other.shift == shift_of(W, M)
            shifts.add(fixed.shift)
            want = np.rint(np.ldexp(np.where(M > 0, W, 0.0), fixed.shift)).astype(np.int64)
            np.testing.assert_array_equal(fixed.q, want)
            np.testing.assert_array_equal(place, want)
    assert n_classes < 300 or len(shifts) > 1


def test_matrices_are_the_same_without_their_bounds(rng):
    X, y, p = rng.normal(size=(500, 2)), rng.integers(0, 5, 500), rng.integers(0, 5, 500)
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid.scott(X))
    M = cells.confusion_matrix()
    good, wide, bad = rng.random((5, 5)) + 0.5, np.ldexp(1.0, rng.integers(-300, 0, (5, 5))), np.full((5, 5), -1.0)
    tables = [good, wide, bad, np.ones((5, 5))]
    whole, alone = (
        dispatch.call("gcm", cells._keys, cells.counts, M, *tables, bounded=bounded) for bounded in (True, False)
    )
    np.testing.assert_array_equal(whole[0], alone[0])
    assert all(np.isnan(part[2]).all() for part in whole[:3])
    assert alone[1:3] == (None, None)
    answered = [0, 1, 3]
    lower, matrix, upper = (whole[k][answered] for k in (1, 0, 2))
    assert ((lower <= matrix) & (matrix <= upper)).all()


@pytest.mark.parametrize("unused", [np.inf, -np.inf, np.nan, -1.0, 5e-324])
@pytest.mark.parametrize("power", [0, 950, -990])
def test_unused_weights_may_be_anything(rng, unused, power):
    M = rng.integers(1, 9, (70, 60)) * rng.integers(0, 2, (70, 60))
    W = np.ldexp(rng.random(M.shape) + 0.5, power)
    W[0, :2], M[0, :2] = (0.0, -0.0), 3
    expected = geometry_weights.quantise(np.where(M > 0, W, 0.0), M)
    W[M == 0] = unused
    fixed = geometry_weights.quantise(np.asfortranarray(W), M)
    assert fixed[1:] == expected[1:]
    whole = [
        int(Fraction(float(w)) * Fraction(2) ** fixed.shift + Fraction(1, 2)) for w in np.where(M > 0, W, 0.0).flat
    ]
    assert np.abs(fixed.q - np.reshape(whole, M.shape)).max() <= 1  # of ties
    np.testing.assert_array_equal(fixed.q, expected.q)
    for bad in (-1.0, np.nan, np.inf):
        W[0, 0] = bad
        assert geometry_weights.quantise(W, M) is None


@pytest.mark.parametrize("numbers", [[0.0, -0.0], [0.0, 3.0, 5e-324, -0.0], [2.0, 1.5], [1e308, 0.0], []])
def test_the_least_positive_number(numbers):
    least = min((x for x in numbers if x > 0), default=math.inf)
    assert geometry_weights._find_least_positive(np.array(numbers, np.float64).reshape(1, -1)) == least
