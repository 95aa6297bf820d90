"""Sets by the LAC score against one comparison per label, for every way in which they are computed."""

import numpy as np
import pytest

import cmfast
from cmfast import conformal


def _build_set(row, limits, top1):
    """Return the mask of a row by comparing each label, and whether the row is valid."""
    if not all(-1e-6 <= p <= 1 + 1e-6 for p in row):
        return np.ones(len(row), bool), False
    clamped = [min(max(float(p), 0.0), 1.0) for p in row]
    mask = np.array([not 1.0 - p > t for p, t in zip(clamped, limits, strict=True)])
    if top1 and not mask.any():
        mask[clamped.index(max(clamped))] = True
    return mask, True


@pytest.mark.parametrize("C", [1, 2, 7, 8, 9, 24, 25, 31, 32, 33, 63, 64, 65, 100, 128, 129, 1000, 1001])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("by", ["all", "class", "group", "group and class"])
def test_every_label_is_compared_with_its_threshold(C, dtype, by, rng):
    n, A, G = 21, 3, 2
    P = rng.dirichlet(np.ones(C), n).astype(dtype)
    P[3, 0], P[5, -1], P[7, C // 2], P[9, C // 2], P[11, -1] = np.nan, 1.5, -0.5, -1e-16, 1.0
    q = 1.0 - rng.choice(P[11:].ravel(), (A, G if "group" in by else 1, C if "class" in by else 1)).astype(float)
    q[0, 0, 0] = np.nan if C % 2 else np.inf
    groups = rng.integers(0, G, n) if "group" in by else None
    given = q if by == "group and class" else q[..., 0] if by == "group" else q[:, 0] if by == "class" else q[:, 0, 0]
    with pytest.warns(cmfast.FailureWarning, match="given all classes"):
        conformal.prediction_sets(P, given, method="lac", groups=groups)
    for top1 in (False, True):
        empty = "top1" if top1 else "allow"
        sets = conformal.prediction_sets(P, given, method="lac", groups=groups, empty=empty, on_failure="ignore")
        for a in range(A):
            for i in range(n):
                limits = np.broadcast_to(q[a, groups[i] if groups is not None else 0], C)
                want, _ = _build_set(P[i], limits, top1)
                np.testing.assert_array_equal(sets.mask[a, i], want, err_msg=f"{a} {i}")
                assert sets.sizes[a, i] == want.sum()
        assert not (sets.packed[..., -1] >> (C % 64) if C % 64 else np.zeros(1, int)).any()  # bits beyond the classes


@pytest.mark.parametrize("C", [10, 100])
def test_views_batches_and_threads_change_no_set(C, rng):
    P = rng.dirichlet(np.ones(C), (3, 5000))
    wide = np.zeros((3, 5003, C))
    wide[:, :5000] = P
    q = rng.uniform(0.5, 1.0, (3, 2))
    want = conformal.prediction_sets(P, q, method="lac", num_threads=1)
    for given in (wide[:, :5000], np.asfortranarray(P), np.repeat(P, 2, -1)[..., ::2]):
        found = conformal.prediction_sets(given, q, method="lac", num_threads=3)
        np.testing.assert_array_equal(found.packed, want.packed)
        np.testing.assert_array_equal(found.sizes, want.sizes)
    np.testing.assert_array_equal(want.mask, ~(1.0 - P[:, None] > q[:, :, None, None]))
    np.testing.assert_array_equal(want.sizes, want.mask.sum(-1))
