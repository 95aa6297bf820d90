"""Surfaces, sensitivities and paths against closed forms and plain loops."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from cmfast import contingency, metrics


def log_part(a):
    return (1 - a * a) / 2 * math.log(1 + a) + a * a / 2 * math.log(a) - 1 / 4 + a / 2


CLOSED = {
    "accuracy": lambda r: (r - 1) / (6 * (r + 1)),
    "precision": lambda r: 1 / 2 - ((1 - r * r) / 2 * math.log(1 + r) + r * r / 2 * math.log(r) + r / 2) / r,
    "f1": lambda r: 2 * (log_part(2) - log_part(1)) - 2 / r * (log_part(1 + r) - log_part(1)),
}
AGNOSTIC = ["recall", "balanced_accuracy", "geometric_mean", "tss", "youden_j", "peirce", "tau", "tau_weighted_1_5"]


@pytest.mark.parametrize("r", [2.0, 5.0, 100.0])
@pytest.mark.parametrize("metric", ["accuracy", "precision", "f1"])
def test_sensitivity_is_the_closed_form_within_its_error(metric, r):
    found = contingency.imbalance_sensitivity(metric, r)
    assert abs(found.value - CLOSED[metric](r)) <= found.error + 1e-12
    assert found.error < 1e-3


@pytest.mark.parametrize("metric", AGNOSTIC)
def test_what_does_not_feel_imbalance(metric):
    found = contingency.imbalance_sensitivity(metric, [1.0, 3.0, 64.0], size=8)
    np.testing.assert_allclose(found.value, 0.0, atol=1e-14)


def test_the_grid_sum_of_the_source():
    for size in (15, 101):
        mean = contingency.imbalance_sensitivity("accuracy", 4, rule="nodes", size=size)
        assert mean.value == pytest.approx((size + 1) / (3 * size) * 0.3, rel=1e-12)
        assert np.isnan(mean.error)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "mcc", "gilbert", "heidke", "tau"])
def test_surface_of_single_matrices(metric):
    surface = contingency.metric_surface(metric, [1, 5], 4)
    assert surface.shape == (2, 4, 4)
    for k, r in enumerate((1, 5)):
        for i, tpr in enumerate(np.linspace(0, 1, 4)):
            for j, tnr in enumerate(np.linspace(0, 1, 4)):
                one = metrics.compute([[r * tnr, r * (1 - tnr)], [1 - tpr, tpr]], metric, undefined="zero")
                assert surface[k, i, j] == (one[1] if metric == "f1" else one)


def test_rescaling():
    plain = contingency.metric_surface("mcc", 3, 5)
    np.testing.assert_allclose(contingency.metric_surface("mcc", 3, 5, rescale=True), (plain + 1) / 2)
    weighted = contingency.metric_surface("tau_weighted_1_5", 3, 5)
    np.testing.assert_allclose(weighted.min(), 1 - np.sqrt(3))
    scaled = contingency.metric_surface("tau_weighted_1_5", 3, 5, rescale=True)
    tpr, tnr = np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 5), indexing="ij")
    np.testing.assert_allclose(scaled, 1 - np.sqrt(((1 - tnr) ** 2 + 5 * (1 - tpr) ** 2) / 6), atol=1e-15)
    same = contingency.metric_surface("f1", 3, 5)
    np.testing.assert_array_equal(contingency.metric_surface("f1", 3, 5, rescale=True), same)


@pytest.mark.parametrize("C", [2, 4])
@pytest.mark.parametrize("metric", [None, "accuracy"])
def test_paths_by_loops(C, metric):
    M = np.random.default_rng(5).integers(1, 30, (3, 6, C, C))
    path = contingency.learning_path(M, metric=metric)
    for run in range(3):
        where = [
            [one[k, k] / one[k].sum() for k in range(C)] + ([np.trace(one) / one.sum()] if metric else [])
            for one in M[run]
        ]
        steps = [math.dist(a, b) for a, b in pairwise(where)]
        np.testing.assert_allclose(path.steps[run], steps, rtol=1e-12)
        assert path.length[run] == pytest.approx(sum(steps))
        assert path.displacement[run] == pytest.approx(math.dist(where[0], where[-1]))
        assert path.straightness[run] == pytest.approx(math.dist(where[0], where[-1]) / sum(steps))


def test_paths_of_tensors():
    M = np.random.default_rng(6).integers(1, 30, (3, 6, 2, 2))
    for ours, theirs in zip(contingency.learning_path(M), contingency.learning_path(torch.from_numpy(M)), strict=True):
        assert isinstance(theirs, torch.Tensor)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-14)


def test_paths_without_a_way():
    still = contingency.learning_path(np.ones((2, 2, 2)))
    assert still.length == 0
    assert np.isnan(still.straightness)
    assert np.isnan(contingency.learning_path([[[1, 0], [0, 1]], [[1, 0], [0, 0]]]).length)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: contingency.metric_surface("f7"), ValueError, "f7"),
        (lambda: contingency.metric_surface("f1", 0), ValueError, "r must be finite and above 0"),
        (lambda: contingency.metric_surface("f1", "x"), TypeError, "r must be a number"),
        (lambda: contingency.imbalance_sensitivity("f1", 2, size=7), ValueError, "size must be even"),
        (lambda: contingency.learning_path(np.ones((2, 2))), ValueError, "M must be of shape"),
        (lambda: contingency.learning_path(np.ones((2, 2, 2)), metric="recall"), ValueError, "single value per matrix"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()
