"""Surfaces, sensitivities and paths against closed forms and plain loops."""

import math
from itertools import pairwise

import numpy as np
import pytest
from optional import torch

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
    path = contingency.learning_path(M, name=metric)
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
        (lambda: contingency.chance_level("f1", 1, 1.5), ValueError, r"share must be in \[0, 1\]"),
        (lambda: contingency.convex_hull([[0.5, 1.5]]), ValueError, r"rates in \[0, 1\], got 1.5 at \[0, 1\]"),
        (lambda: contingency.convex_hull([0.5, 0.5]), ValueError, r"of shape \(n, 2\)"),
        (lambda: contingency.iso_performance_slope([1, 2]), ValueError, r"cost must be of shape \(2, 2\)"),
        (lambda: contingency.learning_path(np.ones((2, 2))), ValueError, "M must be of shape"),
        (lambda: contingency.learning_path(np.ones((2, 2, 2)), name="recall"), ValueError, "one value per matrix"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("metric", ["accuracy", "precision", "f1", "mcc", "gilbert", "doolittle", "tau"])
def test_guesses_are_matrices_of_independent_answers(metric):
    level = contingency.chance_level(metric, [1, 5], [0.25, 0.5, 1])
    assert level.shape == (2, 3)
    for i, r in enumerate((1, 5)):
        for k, share in enumerate((0.25, 0.5, 1)):
            one = metrics.compute(np.outer([r, 1], [1 - share, share]), metric, undefined="zero")
            assert level[i, k] == pytest.approx(one[1] if one.ndim else one, abs=1e-15)
    assert contingency.chance_level(metric) == contingency.metric_surface(metric, size=3)[1, 1]
    assert contingency.chance_level("mcc", 3, 0.2, rescale=True) == pytest.approx(0.5)


def hull_by_slopes(points):
    """Return which points are best for some line of falling slope, of a dense set of lines, and its two ends."""
    every = np.concatenate([points, [[0, 1], [1, 0]]])
    ends = [tuple(max(every[every[:, 0] == x].tolist())) for x in (0, 1)]
    angles = np.linspace(0, np.pi / 2, 20_012)[1:-1]
    best = np.argmax(every @ np.stack([np.cos(angles), np.sin(angles)]), axis=0)
    return sorted({tuple(point) for point in every[best].tolist()} | set(ends))


@pytest.mark.exhaustive
def test_the_hull_is_what_is_best_for_some_slope():
    for seed in range(20):
        points = np.random.default_rng(seed).integers(0, 30, (seed, 2)) / 29
        hull = contingency.convex_hull(points)
        assert [tuple(point) for point in hull.points.tolist()] == hull_by_slopes(points)
        for point, index in zip(hull.points, hull.which, strict=True):
            if index >= 0:
                np.testing.assert_array_equal(points[index], point)
            else:
                assert point.tolist() in ([0, 1], [1, 0])
        under = np.interp(np.linspace(0, 1, 50_001), *hull.points.T)
        assert hull.area == pytest.approx((under[1:] + under[:-1]).mean() / 2, abs=1e-5)
    assert contingency.convex_hull(np.empty((0, 2))).area == 0.5
    assert contingency.convex_hull([[1, 1], [1, 1], [0, 1]]).which.tolist() == [2, 0]


def test_equal_costs_lie_on_lines_of_the_slope():
    cost = np.array([[-1.0, 2.0], [9.0, 0.5]])
    for r in (1.0, 5.0):
        slope = contingency.iso_performance_slope(cost, r)
        points = np.array([[0.2, 0.8], [0.3, 0.8 + 0.1 * slope]])
        M = [[[r * x, r * (1 - x)], [1 - y, y]] for x, y in points]
        one, other = (np.sum(cost * each) for each in M)
        assert one == pytest.approx(other)
    assert contingency.iso_performance_slope([[0, 1], [0, 0]]) == -np.inf
    assert np.isnan(contingency.iso_performance_slope([[0, 0], [0, 0]]))


def test_the_least_cost_is_on_the_hull():
    rng = np.random.default_rng(8)
    y = rng.integers(0, 2, 200)
    score = rng.normal(size=200) + y
    _, matrices = metrics.threshold_matrices(y, score)
    rates = metrics.recall(matrices)
    hull = contingency.convex_hull(rates)
    assert hull.area >= metrics.roc_auc(y, score)
    for cost in ([[0, 1], [1, 0]], [[0, 1], [7, 0]], [[0, 5], [1, 0]]):
        best = metrics.least_cost(y, score, cost)
        kept = matrices[hull.which]
        assert (kept * np.array(cost)).sum(axis=(1, 2)).min() == best.cost
