"""Weights of a target where the matrices are on a device: the bits of the host."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast

pytestmark = [pytest.mark.cuda_host, *device.marks]


@pytest.mark.parametrize("kind", ["i8", "f4", "f8"])
def test_weights_of_a_target_have_the_bits_of_the_host(kind, rng):
    M, target = rng.integers(0, 9, (5, 3, 4)).astype(kind), rng.random((3, 4)).astype("f4" if kind == "f4" else "f8")
    M[0] = 2
    options = {"target": target, "on_failure": "ignore"}
    want = cmfast.importance_weights(M, **options)
    found = cmfast.importance_weights(device.asarray(M), **{**options, "target": device.asarray(target)})
    assert_same_bits(found.get(), want)
    assert np.isfinite(want[0]).all()
    with pytest.warns(cmfast.FailureWarning, match="INFEASIBLE: the target is positive where M has no samples"):
        one = cmfast.importance_weights(device.asarray(np.eye(2)), target=device.asarray(np.ones((2, 2))))
    assert np.isnan(one.get()).all()
