"""Areas and threshold matrices of many scores, from two sorted classes, against pairs, thresholds and running sums."""

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


def _count(y, s, weight):
    """Return thresholds and matrices by running sums over the samples in a stable order from the highest score down."""
    order = np.argsort(-s, kind="stable")
    s, hit, weight = s[order] + 0.0, y[order] == 1, weight[order]
    last = [np.flatnonzero(s == x)[-1] for x in np.unique(s)][::-1]
    end = np.repeat(last, np.diff([-1, *last])) if len(s) else np.zeros(0, int)
    matrices = np.zeros((len(s) + 1, 2, 2), weight.dtype)
    for truth, mask in enumerate((~hit, hit)):
        sums = np.cumsum(np.where(mask, weight, 0))
        matrices[1:, truth, 1] = sums[end]
        matrices[:, truth, 0] = (sums[-1] if len(s) else 0) - matrices[:, truth, 1]
    return np.array([np.inf, *s]), matrices


@pytest.mark.parametrize("weights", [None, "f8", "f4", "i8", "u1", "?", "negative"])
@pytest.mark.parametrize("n", [0, 1, 300, LEAST - 1, LEAST, 2 * LEAST + 1])
def test_matrices_are_those_of_running_sums(n, weights, rng):
    for kind, share in product(("ties", "equal", "sorted", "infinite and zeros"), (0.5, 0.0, 1.0)):
        s, y = _make_scores(kind, n, rng), (rng.random(n) < share).astype(np.int64)
        w = rng.random(n) - (weights == "negative") if weights in ("f8", "negative") else rng.integers(0, 9, n)
        w = None if weights is None else w.astype("f8" if weights == "negative" else weights)
        plain = np.ones(n, np.int64) if w is None else w.astype(np.float64 if w.dtype.kind == "f" else np.int64)
        thresholds, matrices = metrics.threshold_matrices(y, s, sample_weight=w)
        want = _count(y, s, plain)
        assert_same_bits(thresholds, want[0])
        np.testing.assert_array_equal(matrices, want[1])
        areas = _integrate(want[1])
        found = [area(y, s, sample_weight=w) for area in (metrics.roc_auc, metrics.average_precision)]
        if weights != "negative":  # sums of both signs may cancel
            np.testing.assert_allclose(found, areas, rtol=1e-12)


def _integrate(matrices):
    """Return both areas of the curve through the matrices, in long double."""
    tp, fp = matrices[:, 1, 1].astype(np.longdouble), matrices[:, 0, 1].astype(np.longdouble)
    with np.errstate(invalid="ignore", divide="ignore"):
        area = (np.diff(fp) * (tp[1:] + tp[:-1])).sum() / (2 * tp[-1] * fp[-1])
        precision = np.where(tp[1:] > 0, tp[1:] / (tp[1:] + fp[1:]), 0)
        return float(area), float((np.diff(tp) * precision).sum() / tp[-1])


def test_matrices_of_rows_threads_and_layouts_change_no_bit(rng, monkeypatch):
    for n in (90, 2 * LEAST):
        y, s, w = rng.integers(0, 2, (7, n)), rng.integers(0, 50, (7, n)) / 50, rng.random((7, n))
        monkeypatch.undo()
        each = [metrics.threshold_matrices(a, b, sample_weight=c) for a, b, c in zip(y, s, w, strict=True)]
        want = [np.stack(part) for part in zip(*each, strict=True)]
        monkeypatch.setattr(pool, "INLINE_SECONDS", 0.0)
        monkeypatch.setattr(pool, "PIECE_SECONDS", 1e-9)
        assert_same_bits(tuple(metrics.threshold_matrices(y, s, sample_weight=w)), tuple(want))
        other = [np.asfortranarray(x) for x in (y, s, w)]
        assert_same_bits(tuple(metrics.threshold_matrices(*other[:2], sample_weight=other[2])), tuple(want))
        other = [np.repeat(x, 2, -1)[:, ::2] for x in (y, s, w)]
        assert_same_bits(tuple(metrics.threshold_matrices(*other[:2], sample_weight=other[2])), tuple(want))


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("n", [40, 2 * LEAST])
def test_no_large_label_becomes_a_negative_one(n, dtype, rng):
    y, s = rng.integers(0, 2, n).astype(dtype), rng.random(n)
    y[5] = np.iinfo(dtype).max
    for function in (metrics.roc_auc, metrics.average_precision, metrics.roc):
        with pytest.raises(cmfast.FailureError, match=f"label {y[5]} at y_true"):
            function(y, s, on_failure="raise")


def _find_thresholds(*arrays, **options):
    return metrics.threshold_matrices(*arrays, **options).thresholds


def test_bad_weights_harm_no_other_row(rng):
    y, s, w = rng.integers(0, 2, (4, LEAST)), rng.random((4, LEAST)), rng.random((4, LEAST))
    good = [True, False, False, True]
    for function in (
        metrics.roc_auc,
        metrics.average_precision,
        lambda *a, **o: metrics.threshold_matrices(*a, **o)[0],
    ):
        want = function(y, s, sample_weight=w)
        broken = w.copy()
        broken[1, 3], broken[2, 9] = np.inf, np.nan
        with pytest.warns(cmfast.FailureWarning, match="INVALID"):
            found = function(y, s, sample_weight=broken)
        assert_same_bits(found[good], want[good])
        assert np.isnan(found[1:3]).all()
