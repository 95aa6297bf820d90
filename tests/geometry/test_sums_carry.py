"""Sums of weights that are larger than each of them: what lies far below a tie still decides it."""

from fractions import Fraction

import numpy as np
import pytest

import cmfast

GRID = cmfast.Grid([0.0], [1.0])


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("tiny", [0.0, 2.0**-123, 2.0**-100, 2.0**-80, -(2.0**-123)])
@pytest.mark.parametrize("large", [[1.0, 1.0], [1.0] * 5, [1.5, 1.5, 1.0], [1.0, 1.0, 2.0**-51]])
def test_a_tie_beyond_the_largest_weight(large, tiny, sign):
    half = 2.0 ** (np.frexp(sum(large))[1] - 54)  # of the last digit of the sum
    weights = sign * np.array([*large, half, tiny])
    want = float(sum(map(Fraction, weights.tolist())))
    found = cmfast.sparse_histogram(np.full((len(weights), 1), 0.5), weights=weights, grid=GRID).values
    np.testing.assert_array_equal(found, [want])
