"""Metrics from labels of few classes, which are counted into a matrix, are those of a matrix counted by NumPy."""

import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import metrics
from cmfast.kernels.cpu import counting
from cmfast.metrics import _samples

FEW, PIECE, MOST = counting.MOST_NUMPY_SAMPLES, counting.SAMPLES_PER_PIECE, _samples.MOST_COUNTED_CLASSES
SIZES = (1, 2, 100, FEW, FEW + 1, counting.MOST_COUNTED_TWICE + 1, PIECE + 1)
NAMES = ["accuracy", "mcc", "f1_macro", "recall", "kappa_linear", "kappa_quadratic", "gerrity", "bcss"]
NAMES = [name for name in NAMES if name in (*metrics.SCALARS, *metrics.PER_CLASS)]


def _count(y, p, classes):
    """Count a matrix without cmfast."""
    M = np.zeros((len(classes), len(classes)), np.int64)
    places = {int(label): k for k, label in enumerate(classes)}
    np.add.at(M, tuple([places[int(label)] for label in labels] for labels in (y, p)), 1)
    return M


def _draw(rng, n, C):
    y = rng.integers(0, C, n)
    return y, np.where(rng.random(n) < 0.6, y, rng.integers(0, C, n))


def _check(y, p, classes=None, names=NAMES, **options):
    given = classes if classes is not None else np.unique([*np.unique(y), *np.unique(p)])
    want = metrics.compute(_count(y, p, given), names)
    found = metrics.from_labels(y, p, names, **options)
    assert found.keys() == want.keys()
    for name in found:
        assert_same_bits(found[name], want[name])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("C", [3, 20, MOST - 1, MOST, MOST + 1])
def test_metrics_are_those_of_the_matrix(rng, n, C):
    y, p = _draw(rng, n, C)
    _check(y, p)
    _check(y, p, range(C), n_classes=C)
    _check(y, p, range(C + 5), n_classes=C + 5)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "uint64"])
def test_kinds_of_integers(rng, n, dtype):
    y, p = (labels.astype(dtype) for labels in _draw(rng, n, 2 if dtype == "bool" else 5))
    _check(y, p)
    _check(y, p.astype(np.int64))


@pytest.mark.parametrize("n", SIZES)
def test_classes_that_are_absent_negative_or_far_apart(rng, n):
    y, p = _draw(rng, n, 6)
    for labels in ([0, 2, 3, 5, 7, 9], [3, 4, 5, 6, 7, 8], [-3, -2, -1, 0, 1, 2], [0, 1, 2, 3, 4, 2**40]):
        _check(np.array(labels)[y], np.array(labels)[p])
    large = np.array([2**63, 2**64 - 1, 0, 1, 2, 3], np.uint64)
    _check(large[y], large[p])


@pytest.mark.parametrize("n", SIZES[3:])
@pytest.mark.parametrize("rare", [3, 4, MOST - 1, MOST, 5000, -1])
def test_label_that_no_sample_of_the_labels_shows(rng, n, rare):
    y, p = _draw(rng, n, 3)
    for labels in (y, p):
        labels[n - 2] = rare
        _check(y, p)
        labels[n - 2] = 0


@pytest.mark.parametrize("n", SIZES[2:])
def test_layouts(rng, n):
    y, p = (np.repeat(labels, 2)[::2] for labels in _draw(rng, n, 4))
    for labels in (y, p):
        labels.flags.writeable = False
    _check(y, p)
    _check(y[::-1], p[::-1])
    _check(*(labels.astype(">i4") for labels in (y, p)))


@pytest.mark.parametrize("n", SIZES[2:])
def test_two_classes_and_chosen_ones(rng, n):
    y, p = _draw(rng, n, 2)
    for labels, positive in (([0, 1], None), ([-1, 1], None), ([1, 2], 2), ([4, 9], 4), ([9, 4], 4)):
        true, guess = np.array(labels)[y], np.array(labels)[p]
        want = np.sum((true == guess) & (true == (1 if positive is None else positive)))
        want = want / np.sum(true == (1 if positive is None else positive))
        assert metrics.from_labels(true, guess, "recall_binary", pos_label=positive) == want
    with pytest.raises(ValueError, match="pos_label must be one of the labels"):
        metrics.from_labels(y + 1, p + 1, "recall_binary")
    assert metrics.from_labels(y * 0 + 1, y * 0 + 1, "recall_binary") == 1.0  # class 0 is added
    y, p = (3 * labels for labels in _draw(rng, n, 4))
    found = metrics.from_labels(y, p, ["recall", "recall_macro"], average_over=[9, 3])
    want = np.array([np.sum((y == k) & (p == k)) / np.sum(y == k) for k in (9, 3)])
    np.testing.assert_array_equal(found["recall"], want)
    np.testing.assert_allclose(found["recall_macro"], want.mean(), rtol=1e-15)


@pytest.mark.parametrize("n", SIZES[2:])
def test_undefined_values_and_labels_outside(rng, n):
    y, p = _draw(rng, n, 3)
    for undefined in ("present", "nan", "strict", "zero", "one", 0.25):
        want = metrics.compute(_count(y, p, range(5)), NAMES, undefined=undefined)
        found = metrics.from_labels(y, p, NAMES, n_classes=5, undefined=undefined)
        for name in NAMES:
            assert_same_bits(found[name], want[name])
    y[7] = 5
    with pytest.raises(ValueError, match=r"y_true and y_pred must be in 0..4, got 1 pairs outside"):
        metrics.from_labels(y, p, "mcc", n_classes=5)
    with pytest.raises(ValueError, match=r"y_true and y_pred must be of 2 classes for recall_binary"):
        metrics.from_labels(y, p, "recall_binary", n_classes=5)


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64])
def test_weights_are_summed_by_class(rng, kind):
    y, p = _draw(rng, FEW + 1, 4)
    w = (rng.integers(0, 32, y.size) / (1 if kind is np.int64 else 4)).astype(kind)  # sums of these are exact
    M = np.zeros((4, 4), np.float64)
    np.add.at(M, (y, p), w)
    for name in NAMES:
        found = metrics.from_labels(y, p, name, sample_weight=w)
        np.testing.assert_allclose(found, metrics.compute(M, name), rtol=1e-12)


@pytest.mark.parametrize("top", [2**63 - 1, 2**63 - 2, -(2**63) + 1])
@pytest.mark.parametrize("n", [3, 5000, 150_000])
def test_labels_at_the_ends_of_int64(top, n):
    y = np.tile(np.array([top, top - 1]), n)
    p = np.append(y[1:], top - 1)
    for given, accuracy in ((y, 1.0), (p, 1 / len(y))):
        assert metrics.from_labels(y, given, "accuracy") == accuracy
        found = metrics.label_margins(y, given)
        assert (int(found.total), found.diagonal.sum()) == (len(y), round(accuracy * len(y)))


@pytest.mark.parametrize("C", [2, 3, 20, 300])
@pytest.mark.parametrize("n", [6, 50, 5000])
def test_one_predicted_class_is_constant_for_float_weights(C, n, rng):
    """Sums of weights in other orders must not leave a rest that is taken for predictions of other classes."""
    for k in range(20):
        y, weight = rng.integers(0, C, n), rng.random(n)
        y[:2], p = (0, 1), np.full(n, k % C)
        for undefined in ("present", "nan"):
            found = metrics.from_labels(y, p, ["mcc", "kappa"], n_classes=C, sample_weight=weight, undefined=undefined)
            assert found == {"mcc": 0.0, "kappa": 0.0}
            found = metrics.from_labels(p, y, ["mcc", "kappa"], n_classes=C, sample_weight=weight, undefined=undefined)
            assert found == {"mcc": 0.0, "kappa": 0.0}
