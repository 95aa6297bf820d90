"""The contingency space again: its test of 100 against 100, formulas as printed, costs, and halves of epochs."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import ks_2samp

from cmfast import metrics
from cmfast._reproduce.contingency import _costs, _epochs, _paths, _roc, _space, _surfaces, _table
from cmfast._reproduce.contingency._training import ContingencySettings, choose_images, train_and_record

pytestmark = pytest.mark.papers

FINLEY = np.array([[2680.0, 72.0], [23.0, 28.0]])


def test_all_p_of_the_test_by_counting():
    n = 5
    wanted: dict[int, int] = {}
    for first in combinations(range(2 * n), n):
        steps = np.cumsum([1 if k in first else -1 for k in range(2 * n)])
        largest = int(np.abs(steps).max())
        wanted[largest] = wanted.get(largest, 0) + 1
    at_least = [sum(count for k, count in wanted.items() if k >= d) / comb(2 * n, n) for d in range(1, n + 1)]
    np.testing.assert_allclose(_paths.list_attainable_p(n), at_least, rtol=1e-12)


def test_all_p_of_the_test_by_another_library():
    p = _paths.list_attainable_p(100)
    for k in (10, 50, 93, 100):
        apart = ks_2samp(np.arange(100.0), np.arange(100.0) + k - 0.5, method="exact")
        assert apart.statistic == pytest.approx(k / 100)
        assert p[k - 1] == pytest.approx(apart.pvalue, rel=1e-9)
    assert not any(f"{x:.2e}" == "1.68e-47" for x in p)
    assert f"{p[-1]:.1e}" == "2.2e-59"


def test_whiskers_end_at_values():
    assert _paths.compute_whiskers(np.array([1.0, 2.0, 3.0, 4.0, 100.0])) == (1.0, 4.0)


def test_formulas_as_printed_on_the_tornadoes():
    found = _table.compute_printed_formulas(FINLEY)
    assert {name: round(float(found[name]), 3) for name in ("Doolittle", "TSS", "Heidke", "Youden's J")} == {
        "Doolittle": 7.523, "TSS": 0.909, "Heidke": 0.355, "Youden's J": 0.523,
    }  # fmt: skip
    off = _space.claim_table_2(0)[0]
    assert off.verdict == "fails where the metric is Gilbert, Doolittle, TSS"
    assert off.figures["largest_difference"]["F1"] < 1e-12


def test_guesses():
    claims = _space.claim_guesses(_space.compute_chance_levels())
    assert claims[0].figures["spread"]["recall"] == 1
    assert claims[0].figures["spread"]["Heidke"] < 1e-12
    assert claims[2].figures["nodes_of_value_1"] == {
        name: {"precision": 40, "recall": 41, "Doolittle": 2}.get(name, 1) for name in _table.METRICS
    }


def test_errors_of_a_forecast():
    for one in _costs.compute_forecasts(0):
        density = np.exp(-((one.closed - np.array([_costs.SHIFT, 0.0])) ** 2) / 2)
        assert one.cost * density[0] == pytest.approx(density[1])
        assert one.error_by_tau >= one.least
        assert 0 < one.tilted < 0.1


def test_what_is_drawn_of_weights_is_weighted_tau():
    S = _costs.compute_weighted_surface(1, 5, 1.5, 3)
    M = [[0.5, 0.5], [1.0, 0.0]]  # tnr 1/2, tpr 0
    assert S[0, 1] == pytest.approx(float(metrics.tau_weighted(M, [1, 5], v=1.5)))


def test_sensitivities_are_bounded_and_agnostic_ones_zero():
    found = _surfaces.compute_sensitivities(3)
    assert found.by_name["accuracy"] == pytest.approx((found.ratios - 1) / (6 * (found.ratios + 1)), abs=1e-4)
    claims = {claim.text.split()[0]: claim for claim in _surfaces.claim_volumes(found)}
    assert (claims["Tau,"].verdict, claims["Other"].verdict) == ("holds", "fails")


def test_curves_that_move_alike():
    rng = np.random.default_rng(0)
    a = rng.random((3, 20))
    assert _epochs._correlate_runs(a, 2 * a + 1) == pytest.approx(1)
    assert _epochs._correlate_runs(a, -a) == pytest.approx(-1)
    b = np.vstack([a[:2], np.ones((1, 20))])  # one stands still
    assert _epochs._correlate_runs(b, a) == pytest.approx(1)
    assert np.isnan(_epochs._correlate_runs(np.ones((2, 5)), a[:2, :5]))


def test_images_of_a_share():
    X, y = choose_images((3, 8), (1.0, 0.5), 0)
    assert np.bincount(y).tolist() == [183, 87]
    assert X.shape == (270, 64)
    same, other = (choose_images((3, 8), (1.0, 0.5), seed)[1] for seed in (0, 1))
    assert (same == y).all()
    assert (other != y).any()


def test_one_seed_is_one_training():
    one, two, three = (train_and_record((0, 1), 3, seed, rate=0.1) for seed in (4, 4, 5))
    assert one.shape == (3, 2, 2)
    assert (one == two).all()
    assert (one != three).any()


def test_both_spaces_have_one_hull():
    found = _roc.compute_scores(ContingencySettings())
    (both, mirror, *_) = _roc.claim_roc(found, ContingencySettings())
    assert (both.verdict, mirror.verdict) == ("holds", "holds")
    assert found.hull.area > both.figures["auc"][0] > 0.8
    for cost in (_roc.PLAIN, _roc.DEAR):
        vertex, slope = _roc.find_tangent_vertex(found, cost)
        reach = found.hull.points @ [-slope, 1.0]
        assert reach[vertex] == reach.max()
    lines = _roc.numbers(found)["lines"]
    assert [each["slope"] for each in lines.values()] == [
        _roc.find_tangent_vertex(found, cost)[1] for cost in _roc.LINES.values()
    ]
