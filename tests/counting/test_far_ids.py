"""Ids that are far apart, such as hashes: every function counts them as a dict of Python does."""

from collections import Counter

import numpy as np
import pytest

import cmfast
from cmfast import ConfusionCounts, metrics

N = 3000  # more than are sorted, so that they are hashed


def _choose(rng, ids, size=N):
    return rng.choice(np.asarray(ids), size)


def _make_pairs():
    rng = np.random.default_rng(38)
    ids = np.unique(rng.integers(-(2**63), 2**63 - 1, 60))
    yield "two classes", _choose(rng, ids[:2]), _choose(rng, ids[:2])
    yield "different classes", _choose(rng, ids[:30]), _choose(rng, ids[20:50])
    yield "none in common", _choose(rng, ids[:30]), _choose(rng, ids[30:])
    yield "ends of int64", _choose(rng, [-(2**63), 2**63 - 1, 0]), _choose(rng, [-(2**63), -1, 2**63 - 1])
    large = np.array([2**64 - 1, 2**63, 2**63 - 1, 0], np.uint64)
    yield "beyond int64", _choose(rng, large), _choose(rng, large[:3])
    yield "beyond int64 beside negative", _choose(rng, large), _choose(rng, ids[:5])
    yield "int32", _choose(rng, ids[:9] >> 32).astype(np.int32), _choose(rng, ids[:9] >> 32).astype(np.int32)
    yield "int32 beside int64", _choose(rng, ids[:9] >> 32).astype(np.int32), _choose(rng, ids[:9] >> 32)
    yield "more than 127 classes", _choose(rng, np.arange(200) * 10**12), _choose(rng, np.arange(200) * 10**12)


PAIRS = [pytest.param(y, p, id=name) for name, y, p in _make_pairs()]


def _count(y, p, order):
    """Return the confusion matrix of lists by a dictionary of pairs."""
    pairs = Counter(zip(y, p, strict=True))
    return np.array([[pairs[t, g] for g in order] for t in order])


@pytest.mark.parametrize(("y", "p"), PAIRS)
def test_classes_are_the_sorted_ids_that_occur(y, p):
    truth, guess = y.tolist(), p.tolist()
    order = sorted({*truth, *guess})
    want = _count(truth, guess, order)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, sparse=True).toarray(), want)
    counts = ConfusionCounts().update(y, p)
    assert list(counts.labels) == order
    np.testing.assert_array_equal(counts.matrix, want)
    sums = metrics.label_margins(y, p)
    for found, wanted in zip(sums[:3], (want.diagonal(), want.sum(1), want.sum(0)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert metrics.from_labels(y, p, "accuracy") == want.trace() / N


@pytest.mark.parametrize(("y", "p"), PAIRS)
def test_listed_ids_keep_their_order_and_others_are_left_out(y, p):
    truth, guess = y.tolist(), p.tolist()
    order = [value for value in sorted({*truth, *guess})[::-2] if value >= np.iinfo(y.dtype).min]
    listed = np.array(order, np.uint64 if y.dtype == np.uint64 else np.int64)
    want = _count(truth, guess, order)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, labels=listed), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, labels=listed, sparse=True).toarray(), want)
    np.testing.assert_array_equal(metrics.label_margins(y, p, labels=listed).row_sums, want.sum(1))


@pytest.mark.parametrize(("y", "p"), PAIRS)
def test_ignored_ids_are_no_class_of_their_own(y, p):
    truth, guess = y.tolist(), p.tolist()
    ignored = min(truth)
    kept = [pair for pair in zip(truth, guess, strict=True) if pair[0] != ignored]
    want = _count(*zip(*kept, strict=True), sorted({x for pair in kept for x in pair}))
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, ignore_index=ignored), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, ignore_index=ignored, sparse=True).toarray(), want)
    np.testing.assert_array_equal(metrics.label_margins(y, p, ignore_index=ignored).col_sums, want.sum(0))


def test_a_batch_has_the_classes_of_all_its_rows():
    rng = np.random.default_rng(5)
    ids = rng.integers(-(2**62), 2**62, 7)
    y, p = rng.choice(ids[:5], (3, N)), rng.choice(ids[2:], (3, N))
    order = sorted({*y.ravel().tolist(), *p.ravel().tolist()})
    want = [_count(t.tolist(), g.tolist(), order) for t, g in zip(y, p, strict=True)]
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p), want)
    shared = [_count(t.tolist(), p[0].tolist(), order) for t in y]
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p[:1], labels=order), shared)


def _make_many(size):
    rng = np.random.default_rng(size)
    ids = np.unique(rng.integers(-(2**63), 2**63 - 1, 300))
    yield _choose(rng, ids[:9], size), _choose(rng, ids[5:300], size)
    yield _choose(rng, ids[:9], size), _choose(rng, [0, 5, 2**62], size)
    yield _choose(rng, ids[:9] >> 32, size).astype(np.int32), _choose(rng, ids[:9] >> 32, size)
    large = np.array([2**64 - 1, 2**63, 2**63 - 1, 0], np.uint64)
    yield _choose(rng, large, size), _choose(rng, large[:3], size)
    yield _choose(rng, large, size), _choose(rng, ids[:5], size)
    yield _choose(rng, ids, 2 * size)[::2], _choose(rng, ids, size)[::-1]
    late = np.zeros(size, np.int64)
    late[-1] = 2**40
    yield late, late[::-1]
    yield _choose(rng, np.arange(700) << 50, size), _choose(rng, np.arange(700) << 33, size)


@pytest.mark.parametrize("size", [500, 513, 4096, 4097, 30_000, 1 << 17, (1 << 17) + 1])
def test_numbers_of_samples(size):
    for y, p in _make_many(size):
        truth, guess = y.tolist(), p.tolist()
        order = sorted({*truth, *guess})
        np.testing.assert_array_equal(cmfast.confusion_matrix(y, p), _count(truth, guess, order))
        places = {label: k for k, label in enumerate(order)}
        cells = [places[t] * len(order) + places[g] for t, g in zip(truth, guess, strict=True)]
        for kind in (np.float32, np.float64):
            w = np.random.default_rng(0).normal(size=size).astype(kind)
            want = np.bincount(cells, w.astype(float), len(order) ** 2).reshape(len(order), -1)
            found = cmfast.confusion_matrix(y, p, sample_weight=w)
            np.testing.assert_allclose(found, want, rtol=0 if size <= 1 << 17 else 1e-9, atol=1e-9)
            w[size // 2] = np.nan
            assert np.isnan(cmfast.confusion_matrix(y, p, sample_weight=w, on_failure="ignore")).all()


def test_more_ids_than_a_first_table_holds():
    ids = np.random.default_rng(2).integers(0, 2**60, 6000)
    y, p = np.repeat(ids, 2), np.repeat(ids[::-1], 2)
    found = cmfast.confusion_matrix(y, p)
    ranks = ids.argsort().argsort()
    assert found.sum() == y.size
    assert (found[ranks, ranks[::-1]] == 2).all()
