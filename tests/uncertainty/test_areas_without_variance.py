"""Scores that separate the classes: areas of 1 without variance, whatever the weights, and no difference of two."""

import warnings

import numpy as np
import pytest

import cmfast
from cmfast import uncertainty

NAMES = ["roc_auc", "average_precision", "roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo"]


def draw(name, seed):
    rng = np.random.default_rng(seed)
    w = rng.lognormal(size=100)
    if "_ov" in name:
        y = np.repeat([0, 1, 2], [30, 30, 40])
        return y, [5 * np.eye(3)[y] + rng.random((100, 3)) for _ in range(2)], w
    y = np.repeat([1, 0], [30, 70])
    return y, [5 * y + rng.random(100) for _ in range(2)], w


@pytest.fixture(autouse=True)
def _only_doubts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        yield


@pytest.mark.parametrize("name", NAMES)
def test_two_models_that_separate_the_classes_do_not_differ(name):
    for seed in range(20):
        y, (a, b), w = draw(name, seed)
        for weight in (w, None, w[0] * w):
            found = uncertainty.compare(y, a, b, name, sample_weight=weight)
            assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
            one = uncertainty.auc_covariance(y, np.stack([a, b]), name=name, sample_weight=weight)
            np.testing.assert_array_equal(one.covariance, np.zeros((2, 2)))
            np.testing.assert_array_equal(one.auc, [1.0, 1.0])
        if name == "roc_auc":
            assert uncertainty.compare(y, a, b, name, sample_weight=w, method="newcombe").p_value == 1.0


@pytest.mark.parametrize("options", [{}, {"max_fpr": 0.2}, {"clusters": np.arange(100) // 2}], ids=str)
def test_intervals_have_no_width_where_nothing_varies(options):
    for seed in range(20):
        y, (a, _), w = draw("roc_auc", seed)
        for weight in (w, None):
            found = uncertainty.interval(y, a, "roc_auc", sample_weight=weight, method="logit", **options)
            assert found[:4] == (1.0, 1.0, 1.0, 0.0)
    with pytest.warns(cmfast.DiagnosticWarning, match="a standard error is 0"):
        uncertainty.interval(y, np.zeros(100), "roc_auc", max_fpr=0.2)


@pytest.mark.parametrize("reference", [None, "overall"])
def test_groups_that_are_ranked_rightly_do_not_differ(reference):
    for seed in range(20):
        y, (a, _), w = draw("roc_auc", seed)
        g = np.random.default_rng(seed).integers(0, 2, 100)
        found = uncertainty.compare_groups(y, a, g, "roc_auc", sample_weight=w, method="delta", reference=reference)
        assert np.all(np.asarray(found.p_value) == 1.0)


def test_one_pair_ranked_wrongly_among_millions_is_no_rounding():
    y = np.repeat([1, 0], [2000, 3000])
    score = y.astype(float)
    score[0] = 0.5
    score[-1] = 0.6
    for options in ({}, {"sample_weight": np.linspace(1.0, 2.0, 5000)}, {"max_fpr": 0.5}):
        found = uncertainty.auc_covariance(y, score[np.newaxis], **options)
        assert 0.0 < found.standard_error[0] < 1e-6
        assert 0.0 < 1.0 - found.auc[0] < 1e-6


def test_groups_without_samples_of_a_class_are_said():
    y, (a, _), _ = draw("roc_auc", 0)
    g = np.where(np.arange(100) < 20, "a", "b")
    with pytest.warns(cmfast.DiagnosticWarning, match="roc_auc is NaN in 1 of 2 groups, which lack samples of a class"):
        uncertainty.compare_groups(y, a, g, "roc_auc")
