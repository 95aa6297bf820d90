"""Counts of arrays on a device stay there, and are those of NumPy; on the emulation of CUDA."""

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets the package take its arrays
import pytest

from cmfast import ConfusionCounts

pytestmark = [
    pytest.mark.cuda_host,
    pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
]

CODES = np.random.default_rng(0).integers(0, 3, (2, 40))
SITES = np.random.default_rng(1).choice(["b", "a"], 40)


@pytest.mark.parametrize("offset", [0, -7, 5000, 10**15])
def test_counts_stay_where_they_are(offset):
    y, p = CODES + offset
    there = ConfusionCounts().update(cuda_host.asarray(y[:9]), cuda_host.asarray(p[:9]))
    there.update(cuda_host.asarray(y[9:]), cuda_host.asarray(p[9:]))
    assert isinstance(there.matrix, cuda_host.ndarray)
    here = ConfusionCounts.from_labels(y, p)
    assert there == here
    assert isinstance((there + there).matrix, cuda_host.ndarray)
    assert there + there == here + here
    assert ConfusionCounts.from_bytes(there.to_bytes()) == here


def test_groups_and_class_ids():
    y, p = map(cuda_host.asarray, CODES)
    ids = ConfusionCounts(n_classes=3).update(y, p)
    np.testing.assert_array_equal(ids.matrix.get(), ConfusionCounts(n_classes=3).update(*CODES).matrix)
    assert ConfusionCounts.from_labels(y, p, groups=SITES.tolist()) == ConfusionCounts.from_labels(*CODES, groups=SITES)
    groups = {"site": SITES, "code": CODES[0]}
    there = ConfusionCounts.from_labels(y, p, groups={**groups, "code": y})
    assert there == ConfusionCounts.from_labels(*CODES, groups=groups)
    weights = np.full(40, 0.5)
    there = ConfusionCounts.from_labels(y, p, sample_weight=cuda_host.asarray(weights))
    assert there == ConfusionCounts.from_labels(*CODES, sample_weight=weights)
