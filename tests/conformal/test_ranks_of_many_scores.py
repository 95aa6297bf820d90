"""Thresholds of many scores, of which a sample shows where their ranks are, against sorting."""

import numpy as np
import pytest

from cmfast import conformal
from cmfast.kernels.cpu.conformal import thresholds

QUICK = thresholds.MOST_QUICK
ALPHAS = [0.0001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999]


def _make_scores(kind, n, rng):
    if kind == "uniform":
        return rng.random(n)
    if kind == "ties":
        return rng.integers(0, 4, n) / 4
    if kind == "equal":
        return np.full(n, 0.25)
    if kind == "zeros":
        return rng.choice([0.0, -0.0], n)
    if kind == "missing":
        return np.where(rng.random(n) < 0.4, np.nan, rng.random(n))
    if kind == "infinite":
        return rng.choice([-np.inf, 0.5, np.inf], n)
    if kind == "mixed":  # what the sample misses decides
        s = np.zeros(n)
        s[rng.permutation(n)[: n // 1000]] = rng.random(n // 1000)
        return s
    return np.sort(rng.normal(size=n))


@pytest.mark.parametrize("kind", ["uniform", "ties", "equal", "zeros", "missing", "infinite", "mixed", "sorted"])
@pytest.mark.parametrize("n", [QUICK, QUICK + 1, 5000, 40_001])
def test_every_rank_is_that_of_sorted_scores(kind, n, rng):
    s = _make_scores(kind, n, rng)
    ordered = np.append(np.sort(np.where(np.isnan(s), np.inf, s)) + 0.0, np.inf)
    at = [min(int(np.ceil((n + 1) * (1 - alpha) - 1e-9)) - 1, n) for alpha in ALPHAS]
    want = ordered[at]
    for found in (
        conformal.threshold(s, ALPHAS),
        conformal.threshold(s, ALPHAS[::-1])[::-1],
        np.array([conformal.threshold(s, alpha) for alpha in ALPHAS]),
        conformal.threshold(np.stack([s[::-1], s]), ALPHAS)[1],
    ):
        np.testing.assert_array_equal(np.reshape(found, -1), want)
        assert not np.signbit(np.reshape(found, -1)[want == 0]).any()
