"""Samples with any number of labels, where some label is never predicted."""

from functools import partial

import numpy as np
import pytest

from cmfast import metrics

TRUTH = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0]])
GUESS = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])  # the third label is missed, the fourth is nowhere


@pytest.mark.parametrize(("undefined", "of_labels"), [("zero", [2 / 3, 0, 0, 0]), (0.25, [2 / 3, 0.25, 0.25, 0.25])])
def test_a_number_fills_in_for_what_is_undefined(undefined, of_labels):
    found = metrics.multilabel(TRUTH, GUESS, ["precision", "precision_macro"], undefined=undefined)
    np.testing.assert_allclose(found["precision"], of_labels)
    inside = of_labels if undefined == "zero" else of_labels[:3]  # a number averages over the labels that are there
    np.testing.assert_allclose(found["precision_macro"], np.mean(inside))


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (3, 1, 4)])
def test_one_label_or_one_sample_is_nothing_to_warn_of(shape, rng):
    y, p = rng.integers(0, 2, (2, *shape))
    of_samples, of_labels = (metrics.multilabel_tables(y, p, samplewise=samplewise) for samplewise in (True, False))
    np.testing.assert_array_equal(of_samples.sum(-3), of_labels.sum(-3))
    np.testing.assert_array_equal(of_samples[..., 1, 1], (y & p).sum(-1))
    found = metrics.multilabel(y, p, ["f1_samples", "f1", "subset_accuracy"])
    np.testing.assert_allclose(found["subset_accuracy"], (y == p).all(-1).mean(-1))


def test_all_metrics(rng):
    y, p = rng.integers(0, 2, (2, 3, 20, 4))
    found = metrics.multilabel(y, p)
    assert {"subset_accuracy", "hamming_loss", "f1_macro", "f1_samples", "precision_weighted", "recall_micro"} < set(
        found
    )
    assert not {"f1", "positive_likelihood_ratio_macro"} & set(found)
    for name, values in found.items():
        assert values.shape == (3,)
        np.testing.assert_array_equal(values, metrics.multilabel(y, p, name))


def test_messages_say_where_other_numbers_are():
    y = np.zeros((3, 4), int)
    wrong = y.copy()
    wrong[1, 2] = 2
    for function in (
        metrics.multilabel,
        metrics.multilabel_tables,
        partial(metrics.multilabel_tables, samplewise=True),
    ):
        with pytest.raises(ValueError, match=r"y_true must be 0 or 1, got 1 outside \(first: 2 at \(1, 2\)\)"):
            function(wrong, y)
        with pytest.raises(ValueError, match=r"y_pred must be 0 or 1, got 1 outside \(first: 2 at \(1, 2\)\)"):
            function(y, wrong)
        with pytest.raises(TypeError, match=r"y_pred must be integers, got dtype float64; \.astype\(int\) makes"):
            function(y, np.eye(3, 4))
