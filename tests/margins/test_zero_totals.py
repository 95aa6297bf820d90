"""A total of zero takes the weight from its records, but for those that must keep some."""

import numpy as np
import pytest

import cmfast
from cmfast import Status

A = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("method", ["truncated", "logit"])
def test_a_record_that_must_keep_weight_keeps_it(method):
    result = cmfast.rake(A, [4.0, 0.0], method=method, bounds=(0.5, 3.0), on_failure="ignore")
    assert result.status == Status.INFEASIBLE


def test_a_record_that_need_not_loses_it():
    result = cmfast.rake(A, [4.0, 0.0], method="truncated", bounds=(0.0, 3.0))
    assert result.status == Status.CONVERGED
    np.testing.assert_allclose(result.weights, [2.0, 0.0, 2.0, 0.0])
