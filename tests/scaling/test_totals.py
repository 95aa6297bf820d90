"""Totals of row and column targets that agree but for rounding: the columns give way, in matrices of any size."""

import numpy as np
import pytest

import cmfast
from cmfast import Status


@pytest.mark.parametrize("n", [4, 140])  # eight side by side; one alone
def test_columns_give_way_where_totals_differ_a_little(rng, n):
    M, u, v = rng.random((n, n)) + 0.1, rng.random(n) + 0.5, rng.random(n) + 0.5
    v *= u.sum() / v.sum() * (1 + 8e-10)
    result = cmfast.ipf(M, u, v, tol=1e-12)
    assert result.status == Status.CONVERGED
    np.testing.assert_allclose(result.matrix.sum(1), u, rtol=1e-11)
    np.testing.assert_allclose(result.matrix.sum(0), v * (u.sum() / v.sum()), rtol=1e-11)
