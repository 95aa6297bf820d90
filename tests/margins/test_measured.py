"""What is reported of a table that is stopped early is measured on that table: all margins of it count."""

import numpy as np
import pytest
from cases.margins import PAIRS, margins_of, table

import cmfast


def missed(T, margins):
    """Return the most that a margin is off, relative to its total."""
    return max(np.abs(margins_of(T, [of])[0] - target).sum() / target.sum() for of, target in margins)


@pytest.mark.parametrize("order", [(0, 1), (2, 1), (0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("passes", [1, 2])
def test_the_residual_is_that_of_the_worst_margin(order, passes):
    M = table((4, 3, 5))
    targets = margins_of(table(M.shape, 1, sd=2.0), PAIRS)
    margins = [(PAIRS[k], targets[k]) for k in order]
    dense = cmfast.ipf_nd(M, margins, max_iter=passes, on_failure="ignore")
    np.testing.assert_allclose(dense.residual, missed(dense.table, margins), rtol=1e-9)
    coords = np.indices(M.shape).reshape(3, -1)
    some = cmfast.ipf_cells(M.ravel(), coords, margins, max_iter=passes, on_failure="ignore")
    T = np.zeros(M.shape)
    T[tuple(coords)] = some.table
    np.testing.assert_allclose(some.residual, missed(T, margins), rtol=1e-9)
