"""Areas under curves of weights at the ends of float64, against exact fractions: they are ratios, and have no unit."""

import warnings

import numpy as np
import pytest
from checks import assert_same_bits
from oracle import metrics as oracle

from cmfast import metrics

EXPONENTS = (-1000, -530, -300, 0, 300, 500, 900)


@pytest.fixture(autouse=True)
def _loud():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_the_unit_of_weights_changes_no_bit(exponent):
    rng = np.random.default_rng(0)
    scores, y = rng.integers(0, 9, (3, 40)) / 8, rng.integers(0, 2, (3, 40))
    weight = rng.random((3, 40))
    for area in (metrics.roc_auc, metrics.average_precision):
        wanted = area(y, scores, sample_weight=weight)
        assert_same_bits(area(y, scores, sample_weight=np.ldexp(weight, exponent)), wanted)


def test_classes_of_other_units_than_each_other():
    rng = np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(2, 9))
        scores, y = rng.integers(0, 4, n) / 4, np.arange(n) % 2
        unit = rng.choice(EXPONENTS, 2)
        weight = np.ldexp(rng.random(n) + 0.5, unit[y])
        wanted = oracle.score_areas(scores, y, sample_weight=weight)
        found = [area(y, scores, sample_weight=weight) for area in (metrics.roc_auc, metrics.average_precision)]
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
