"""Samples with any number of labels, where some label is never predicted."""

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
