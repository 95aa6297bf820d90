"""Areas under curves of many scores, from two sorted classes, against counting pairs and thresholds."""

from itertools import product

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import metrics
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.metrics import _sorted_classes

LEAST = _sorted_classes.LEAST_APART


def _measure(y, s):
    """Return both areas: pairs by binary search, and the precision at each threshold from the top, in long double."""
    up, down = np.sort(s[y == 1]), np.sort(s[y != 1])
    if not len(up):
        return np.nan, np.nan
    lower = np.searchsorted(down, up, "left") + np.searchsorted(down, up, "right")
    area = lower.sum() / (2 * len(up) * len(down)) if len(down) else np.nan
    above = len(up) - np.searchsorted(up, up, "left")
    called = above + len(down) - np.searchsorted(down, up, "left")
    return area, float((above.astype(np.longdouble) / called).sum() / len(up))


def _make_scores(kind, n, rng):
    if kind == "uniform":
        return rng.random(n)
    if kind == "ties":
        return rng.integers(0, 40, n) / 40
    if kind == "equal":
        return np.full(n, 0.25)
    if kind == "infinite and zeros":
        return rng.choice([-np.inf, -0.0, 0.0, np.inf], n)
    return np.sort(rng.normal(size=n))


KINDS = "uniform", "ties", "equal", "sorted", "infinite and zeros"
CASES = [*product(KINDS, ("f8", "f4", "f2")), *product(KINDS[:-1], ("i8",))]  # integers have no infinity


@pytest.mark.parametrize(("kind", "dtype"), CASES)
@pytest.mark.parametrize("n", [LEAST - 1, LEAST, LEAST + 1, 40_000])
def test_areas_are_those_of_pairs_and_thresholds(kind, n, dtype, rng):
    s = _make_scores(kind, n, rng)
    s = (100 * s).astype(dtype) if dtype == "i8" else s.astype(dtype)
    for share in (0.5, 0.01, 0.0, 1.0):
        y = (rng.random(n) < share).astype(np.int64)
        want = _measure(y, s.astype(np.float64))
        for labels in (y, y == 1, y.astype(np.int8), 2 * y - 1, y.astype(np.uint64)):
            found = metrics.roc_auc(labels, s), metrics.average_precision(labels, s)
            np.testing.assert_allclose(found, want, rtol=1e-12)


def test_rows_threads_and_layouts_change_no_bit(rng, monkeypatch):
    y, s = rng.integers(0, 2, (7, 3000)), rng.integers(0, 500, (7, 3000)) / 500
    want = [(metrics.roc_auc(a, b), metrics.average_precision(a, b)) for a, b in zip(y, s, strict=True)]
    monkeypatch.setattr(pool, "INLINE_SECONDS", 0.0)
    monkeypatch.setattr(pool, "PIECE_SECONDS", 1e-9)
    before = s.copy()
    for labels, given in ((y, s), (np.asfortranarray(y), np.asfortranarray(s)), (y[:, ::-1], s[:, ::-1])):
        found = metrics.roc_auc(labels, given), metrics.average_precision(labels, given)
        assert_same_bits(np.transpose(found), np.array(want))
    assert_same_bits(s, before)


def test_bad_rows_are_reported_and_harm_no_other(rng):
    y, s = rng.integers(0, 2, (4, LEAST)), rng.random((4, LEAST))
    want = metrics.roc_auc(y, s)
    s[1, 5], y[2, 7] = np.nan, 2
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):
        found = metrics.roc_auc(y, s)
    np.testing.assert_array_equal(found, np.where([False, True, True, False], np.nan, want))
    with pytest.raises(cmfast.FailureError, match="INVALID"):
        metrics.average_precision(y, s, on_failure="raise")
