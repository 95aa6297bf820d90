"""No hard matrix is wrongly called converged, none that has an answer is left without it; see ``torture.py``."""

import numpy as np
import pytest
import torture

import cmfast

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("total", [40_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_no_answer_is_wrong(total):
    rows = torture.run(total, seed=total)
    assert sum(n for _, n, *_ in rows) > 0.99 * total
    assert {row[0]: row[5] for row in rows if row[5]} == {}
    found = {name for row in rows for name in row[2]}
    assert found == {"CONVERGED", "LIMIT_ONLY", "INFEASIBLE", "ZERO_LINE"}


def test_the_check_sees_a_wrong_cell_and_a_wrong_status():
    M = torture.counts(np.random.default_rng(0), 5, 4, 0.9) + 1e-3
    result = cmfast.ipf(M)
    ones = np.ones(4)
    assert not torture.wrong_scaling(M, result, ones, ones).any()
    result.matrix[3, 1, 2] += 1e-7
    assert torture.wrong_scaling(M, result, ones, ones).tolist() == [False, False, False, True, False]
    M[1, 0, :] = [0, 0, 0, 1]
    M[1, 1, :] = [0, 0, 0, 1]
    result = cmfast.ipf(M, on_failure="ignore")
    assert not torture.wrong_zeros(M, result).any()
    result.status[1] = 2
    result.matrix[2, 0, 0] = 0.0
    assert torture.wrong_zeros(M, result).tolist() == [False, True, True, False, False]
