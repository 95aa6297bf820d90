"""Lines whose sum is beyond float64 beside lines whose sum is not: each is divided by its own."""

from fractions import Fraction

import numpy as np
import pytest

import cmfast

HUGE = np.array([[1e308, 1.5e308, 0.5e308], [1.0, 3.0, 0.0]])


def shares(M, axis):
    """Return the shares of lines, in exact arithmetic."""
    exact = [[Fraction(x) for x in row] for row in (M if axis == 1 else M.T).tolist()]
    out = np.array([[float(x / sum(row)) for x in row] for row in exact])
    return out if axis == 1 else out.T


@pytest.mark.parametrize(("method", "axis"), [("row", 1), ("col", 0)])
@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 1, 1], [1, 0, 0, 1]])
def test_one_huge_line_among_others(method, axis, order):
    M = HUGE[order] if axis == 1 else HUGE[order].T.copy()
    np.testing.assert_allclose(cmfast.normalize(M, method), shares(M, axis), rtol=1e-12)
