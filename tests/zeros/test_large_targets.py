"""Targets are whole numbers of any size: what zeros allow depends on their ratios alone."""

import numpy as np
import pytest

import cmfast
from cmfast import Status

UPPER = np.array([[1, 1], [0, 1]])


@pytest.mark.parametrize("power", [0, 10, 30, 31, 32, 40, 50])
@pytest.mark.parametrize(
    ("u", "v", "status"),
    [([3, 1], [2, 2], Status.CONVERGED), ([1, 3], [2, 2], Status.INFEASIBLE), ([2, 3], [2, 3], Status.LIMIT_ONLY)],
    ids=["total-support", "infeasible", "limit"],
)
def test_the_size_of_targets_does_not_matter(u, v, status, power):
    found = cmfast.support(UPPER, *(np.array(t) * 2.0**power for t in (u, v)))
    assert found.status == status
    assert found.dead_cells.any() == (status == Status.LIMIT_ONLY)
