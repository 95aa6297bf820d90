"""Counting into a matrix of the labels that occur, whatever their number, agrees with NumPy."""

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.kernels.cpu import counting

FEW, TWICE, PIECE = counting.MOST_NUMPY_SAMPLES, counting.MOST_COUNTED_TWICE, counting.SAMPLES_PER_PIECE
SPAN, LARGE = counting.MOST_LABEL_SPAN, counting.LEAST_LARGE_SPAN


def _count(y, p):
    order, codes = np.unique(np.concatenate([y, p]), return_inverse=True)
    C, n = len(order), len(y)
    return np.bincount(codes[:n] * C + codes[n:], minlength=C * C).reshape(C, C)


@pytest.mark.parametrize("n", [1, FEW, FEW + 1, TWICE, TWICE + 1, PIECE, PIECE + 1, 2 * PIECE + 3])
@pytest.mark.parametrize("C", [1, 2, 63, 127, LARGE - 1, LARGE, LARGE + 1, SPAN, SPAN + 1])
def test_numbers_of_samples_and_classes(rng, n, C):
    y, p = rng.integers(0, C, (2, n))
    want = _count(y, p)
    found = cmfast.confusion_matrix(y, p)
    assert found.dtype == np.int64
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y.astype(np.int32), p), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y * 3, p * 3), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y + 7, p + 7), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y - 7, p - 7), want)


@pytest.mark.parametrize("n", [FEW + 1, TWICE + 1, PIECE + 1])
@pytest.mark.parametrize("rare", [3, 200, SPAN, 10**6, 2**62, -1, -(2**62)])
def test_label_that_no_sample_of_the_labels_shows(rng, n, rare):
    y, p = rng.integers(0, 3, (2, n))
    for labels in (y, p):
        labels[n - 2] = rare
        np.testing.assert_array_equal(cmfast.confusion_matrix(y, p), _count(y, p))
        labels[n - 2] = 1


@pytest.mark.parametrize("n", [FEW, FEW + 1, PIECE + 1])
def test_given_classes_and_layouts(rng, n):
    y, p = rng.integers(0, 5, (2, n))
    want = np.bincount(y * 400 + p, minlength=400**2).reshape(400, 400)
    for C in (5, 300, 301, 400):
        np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, n_classes=C), want[:C, :C])
    for make in (
        lambda labels: np.repeat(labels, 3)[::3],
        lambda labels: labels[::-1].copy()[::-1],
        lambda labels: labels.astype(">i2"),
        lambda labels: labels.astype(np.uint64),
    ):
        one, other = make(y), make(p)
        one.flags.writeable = False
        np.testing.assert_array_equal(cmfast.confusion_matrix(one, other, n_classes=5), want[:5, :5])
        np.testing.assert_array_equal(cmfast.confusion_matrix(one, other), want[:5, :5])
    y[-1] = 5
    with pytest.raises(ValueError, match=rf"y_true must be in 0..4, got 1 outside \(first: 5 at {n - 1}\)"):
        cmfast.confusion_matrix(y, p, n_classes=5)
    large = np.array([2**63, 2**64 - 1, 0, 1, 2, 3], np.uint64)
    np.testing.assert_array_equal(cmfast.confusion_matrix(large[y], large[p]), _count(large[y], large[p]))
    if n > 1:
        signed = np.where(p == 0, -1, p)
        both = [np.array([int(label) for label in labels], object) for labels in (large[y], signed)]
        np.testing.assert_array_equal(cmfast.confusion_matrix(large[y], signed), _count(*both))


def _weigh(y, p, w, classes):
    """Add weights in the order of the pairs without cmfast."""
    C = len(classes)
    i, j = (np.searchsorted(classes, labels) for labels in (y, p))
    return np.bincount(i * C + j, w.astype(np.float64), C * C).reshape(C, C)


@pytest.mark.parametrize("n", [1, FEW, FEW + 1, TWICE + 1, PIECE])
@pytest.mark.parametrize("C", [1, 2, 20, 181, 300, 301, SPAN, SPAN + 1])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_weights_are_added_in_their_order(rng, n, C, kind):
    y, p = rng.integers(0, C, (2, n))
    w = (10 ** rng.uniform(-9, 9, n) * rng.choice([-1, 1], n)).astype(kind)
    for one, other in ((y, p), (3 * y, 3 * p), (y - 5, p - 5), (y.astype(np.int32), p)):
        order = np.unique([*np.unique(one), *np.unique(other)])
        found = cmfast.confusion_matrix(one, other, sample_weight=w)
        assert found.dtype == np.float64
        assert_same_bits(found, _weigh(one, other, w, order))
    assert_same_bits(cmfast.confusion_matrix(y, p, sample_weight=w, n_classes=C), _weigh(y, p, w, np.arange(C)))
    strided = np.repeat(w, 2)[::2]
    strided.flags.writeable = False
    found = cmfast.confusion_matrix(y, p, sample_weight=strided, n_classes=C, num_threads=1)
    assert_same_bits(found, _weigh(y, p, w, np.arange(C)))


@pytest.mark.parametrize("n", [100, FEW + 1, PIECE, PIECE + 1])
def test_labels_whose_weights_add_up_to_nothing_occur(rng, n):
    y, p = rng.integers(0, 4, (2, n))
    for w in (np.zeros(n), np.where((y == 2) | (p == 2), 0.0, 0.5), -np.zeros(n)):
        assert_same_bits(cmfast.confusion_matrix(y, p, sample_weight=w), np.abs(_weigh(y, p, w, np.arange(4))))
        found = cmfast.confusion_matrix(y * 2, p * 2, sample_weight=w)
        assert_same_bits(found, np.abs(_weigh(y, p, w, np.arange(4))))


@pytest.mark.parametrize("n", [100, FEW + 1, PIECE, PIECE + 1])
@pytest.mark.parametrize("n_classes", [None, 5, 400])
def test_bad_weights_are_reported(rng, n, n_classes):
    y, p = rng.integers(0, 5, (2, n))
    for bad in (np.nan, np.inf, -np.inf, 1.7e308):
        w = np.ones(n)
        w[[3, 4]] = bad
        y[[3, 4]] = p[[3, 4]] = 1
        with pytest.warns(cmfast.FailureWarning, match="INVALID"):
            found = cmfast.confusion_matrix(y, p, sample_weight=w, n_classes=n_classes)
        assert np.isnan(found).all()
        with pytest.raises(cmfast.FailureError, match="INVALID"):
            cmfast.confusion_matrix(y, p, sample_weight=w, n_classes=n_classes, on_failure="raise")
    w = np.full(n, 1e299)  # large, and finite in sum
    order = np.arange(n_classes or 5)
    found = cmfast.confusion_matrix(y, p, sample_weight=w, n_classes=n_classes)
    np.testing.assert_allclose(found, _weigh(y, p, w, order), rtol=1e-10)
    y[7] = 400
    if n_classes is not None:
        with pytest.raises(ValueError, match=rf"y_true must be in 0..{n_classes - 1}, got 1 outside"):
            cmfast.confusion_matrix(y, p, sample_weight=np.ones(n), n_classes=n_classes)


def test_many_weighted_classes_are_prefetched(rng):
    y, p = rng.integers(0, 2000, (2, 3 * PIECE))
    w = rng.normal(size=y.size)
    found = cmfast.confusion_matrix(y, p, sample_weight=w, n_classes=2000)
    np.testing.assert_array_equal(found, _weigh(y, p, w, np.arange(2000)))
    found = cmfast.confusion_matrix(y, p, sample_weight=w, n_classes=2000, ignore_index=3)
    np.testing.assert_array_equal(found[4:], _weigh(y, p, w, np.arange(2000))[4:])
    assert not found[3].any()
