"""Estimates for other distributions where the matrices are on a device: the bits of the host."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast

pytestmark = [pytest.mark.cuda_host, *device.marks]


@pytest.mark.parametrize("kind", ["i8", "f4", "f8"])
@pytest.mark.parametrize("name", ["class_shares", "target"])
def test_estimates_have_the_bits_of_the_host(name, kind, rng):
    M = rng.integers(1, 90, (5, 3, 4)).astype(kind)
    M[0, 1] = 0
    wanted = rng.random((5, 3) if name == "class_shares" else (5, 3, 4)).astype("f4" if kind == "f4" else "f8")
    want = cmfast.estimate_for_target(M, **{name: wanted}, on_failure="ignore")
    found = cmfast.estimate_for_target(device.asarray(M), **{name: device.asarray(wanted)}, on_failure="ignore")
    for x, y in zip(found, want, strict=True):
        assert_same_bits(x.get(), y)
    assert want.status.tolist() == [cmfast.Status.INFEASIBLE, 0, 0, 0, 0]
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 30"):
        cmfast.estimate_for_target(device.asarray(np.eye(2)), class_shares=device.asarray(np.ones(2)))
