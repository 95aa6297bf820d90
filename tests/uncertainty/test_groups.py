"""Differences between groups: published and independent figures, laws, coverage, and fairlearn where installed."""

import json
import warnings
from itertools import combinations
from statistics import NormalDist

import groups_coverage
import numpy as np
import pandas as pd
import pytest
from optional import torch
from scipy.special import ndtr

import cmfast
from cmfast import uncertainty

Z = NormalDist().inv_cdf(0.975)
METHODS = ("bootstrap", "delta", "wilson")
TUKEY = {2: 2.772, 3: 3.314, 5: 3.858, 10: 4.474, 20: 5.012}  # upper 5 % points of the studentized range, df infinite


def recalls(right, n):
    """Return matrices of groups with `right` of `n` positive samples found, and three negative ones."""
    right, n = np.broadcast_arrays(right, n)
    M = np.zeros((*right.shape, 2, 2), np.int64)
    M[..., 0, 0], M[..., 1, 1], M[..., 1, 0] = 3, right, n - right
    return M


def compare(*given, **options):
    """Compare groups without warnings."""
    return uncertainty.compare_groups(*given, **{"on_failure": "ignore"} | options)


def draw(n=900, *, seed=0, n_groups=3):
    """Return labels of two classes, predictions and groups that differ in their accuracy."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    y = rng.integers(0, 2, n)
    return y, np.where(rng.random(n) < 0.9 - 0.07 * group, y, 1 - y), group


@pytest.mark.parametrize(
    ("a", "m", "b", "n", "low", "high"),
    [  # Newcombe 1998, table II, method 10
        (56, 70, 48, 80, 0.0524, 0.3339),
        (9, 10, 3, 10, 0.1705, 0.8090),
        (6, 7, 2, 7, 0.0582, 0.8062),
        (5, 56, 0, 29, -0.0381, 0.1926),
        (0, 10, 0, 20, -0.1611, 0.2775),
        (0, 10, 0, 10, -0.2775, 0.2775),
        (10, 10, 0, 20, 0.6791, 1.0000),
        (10, 10, 0, 10, 0.6075, 1.0000),
    ],
)
def test_intervals_published_by_newcombe(a, m, b, n, low, high):
    found = compare(recalls([a, b], [m, n]), "recall_binary", method="wilson")
    np.testing.assert_allclose([found.pair_low[0], found.pair_high[0]], [low, high], atol=6e-5)


def test_delta_method_by_hand():
    right, n = np.array([80, 60, 45]), np.array([100, 90, 80])
    found = compare(recalls(right, n), "recall_binary", method="delta")
    share = right / n
    error = np.sqrt(share * (1 - share) / n)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-13)
    np.testing.assert_allclose([found.low, found.high], share + Z * error * [[-1], [1]], rtol=1e-13)
    for k, (i, j) in enumerate(combinations(range(3), 2)):
        assert (found.first[k], found.second[k]) == (i, j)
        apart, both = share[i] - share[j], np.hypot(error[i], error[j])
        np.testing.assert_allclose(found.pair_difference[k], apart, rtol=1e-13)
        np.testing.assert_allclose([found.pair_low[k], found.pair_high[k]], [apart - Z * both, apart + Z * both])
        np.testing.assert_allclose(found.pair_p_value[k], 2 * ndtr(-abs(apart) / both), rtol=1e-10)
        logs = Z * np.hypot(error[i] / share[i], error[j] / share[j])
        ends = share[i] / share[j] * np.exp([-logs, logs])
        np.testing.assert_allclose([found.pair_ratio_low[k], found.pair_ratio_high[k]], ends, rtol=1e-12)
    np.testing.assert_allclose(found.difference, np.ptp(share))
    np.testing.assert_allclose(found.ratio, share.min() / share.max())
    q = TUKEY[3] / np.sqrt(2)
    pairs = list(combinations(range(3), 2))
    apart, both = np.array([(abs(share[i] - share[j]), np.hypot(error[i], error[j])) for i, j in pairs]).T
    np.testing.assert_allclose(found.difference_low, np.max(apart - q * both), atol=1e-4)
    np.testing.assert_allclose(found.difference_high, np.max(apart + Z * both))
    assert (found.lowest, found.highest) == (2, 0)


@pytest.mark.parametrize("n_groups", TUKEY)
def test_studentized_range(n_groups):
    """Where the last group is so far apart that p is 5 %, the lower end of the largest difference is 0."""
    from cmfast.uncertainty import _group_statistics as statistics

    assert statistics.compute_largest_z(0.95, (n_groups,)) * np.sqrt(2) == pytest.approx(TUKEY[n_groups], abs=6e-4)
    p = statistics.compute_largest_p(np.array(TUKEY[n_groups] / np.sqrt(2)), (n_groups,))
    assert float(p) == pytest.approx(0.05, abs=1e-4)


def test_range_of_two_rates_against_draws():
    from cmfast.uncertainty import _group_statistics as statistics

    drawn = np.random.default_rng(1).normal(size=(400_000, 2, 4))
    largest = np.ptp(drawn, axis=-1).max(-1) / np.sqrt(2)
    found = statistics.compute_largest_p(np.array([1.0, 2.0, 3.0]), (4, 4))
    np.testing.assert_allclose(found, (largest[:, np.newaxis] >= [1.0, 2.0, 3.0]).mean(0), atol=3e-3)


def test_bootstrap_against_draws_of_numpy():
    right, n, rng = np.array([80, 60, 45]), np.array([100, 90, 80]), np.random.default_rng(2)
    found = compare(recalls(right, n), "recall_binary", method="bootstrap", n_resamples=40_000)
    # The sizes of classes vary, too: 3 negative samples.
    positives = rng.binomial(n + 3, n / (n + 3), (40_000, 3))
    drawn = rng.binomial(positives, right / n) / positives
    share = right / n
    np.testing.assert_allclose([found.low, found.high], np.quantile(drawn, [0.025, 0.975], axis=0), atol=6e-3)
    a, b = np.triu_indices(3, 1)
    apart = drawn[:, a] - drawn[:, b]
    ends = np.quantile(apart, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([found.pair_low, found.pair_high], ends, atol=6e-3)
    ratios = np.quantile(drawn[:, a] / drawn[:, b], [0.025, 0.975], axis=0)
    np.testing.assert_allclose([found.pair_ratio_low, found.pair_ratio_high], ratios, atol=1.5e-2)
    centre, error = share[a] - share[b], apart.std(0)
    q = np.quantile((np.abs(apart - centre) / error).max(1), 0.95)
    np.testing.assert_allclose(found.difference_low, np.max(np.abs(centre) - q * error), atol=8e-3)
    np.testing.assert_allclose(found.difference_high, np.max(ends[1]), atol=6e-3)


def test_ratios_of_shares_that_are_zero():
    """Exchanging the groups inverts the ratio; its end is infinite where the other share is 0."""
    found = compare(recalls([0, 8], [10, 10]), "recall_binary", method="wilson")
    assert found.pair_ratio[0] == 0.0 == found.pair_ratio_low[0]
    assert 0.0 < found.pair_ratio_high[0] < 1.0
    turned = compare(recalls([8, 0], [10, 10]), "recall_binary", method="wilson")
    assert np.isinf(turned.pair_ratio_high[0])
    np.testing.assert_allclose(1.0 / turned.pair_ratio_low[0], found.pair_ratio_high[0], rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_fairness_of_labels(method):
    y, said, group = draw()
    names = ["selection_rate", "demographic_parity", "equal_opportunity", "equalized_odds", "accuracy"]
    found = compare(y, said, groups=group, names=names, method=method)
    rates = np.array([said[group == g].mean() for g in range(3)])
    tpr = np.array([said[(group == g) & (y == 1)].mean() for g in range(3)])
    fpr = np.array([said[(group == g) & (y == 0)].mean() for g in range(3)])
    for name in names[:2]:
        np.testing.assert_allclose(found[name].estimate, rates)
        np.testing.assert_allclose(found[name].difference, np.ptp(rates))
        np.testing.assert_allclose(found[name].overall, said.mean())
    np.testing.assert_allclose(found["equal_opportunity"].ratio, tpr.min() / tpr.max())
    odds = found["equalized_odds"]
    assert odds.axes == {"group": (0, 1, 2), "rate": ("recall_binary", "fpr_binary")}
    np.testing.assert_allclose(odds.estimate, np.stack([tpr, fpr], -1))
    np.testing.assert_allclose(odds.difference, max(np.ptp(tpr), np.ptp(fpr)))
    np.testing.assert_allclose(odds.ratio, min(tpr.min() / tpr.max(), fpr.min() / fpr.max()))
    np.testing.assert_allclose(odds.overall, [said[y == 1].mean(), said[y == 0].mean()])
    assert odds.pair_holm.shape == (3, 2)
    np.testing.assert_allclose(found["accuracy"].estimate, [(y == said)[group == g].mean() for g in range(3)])
    assert odds.difference_low <= odds.difference <= odds.difference_high


def test_fairlearn():
    """The same differences and ratios as fairlearn, which has no intervals of its own for them."""
    peer = pytest.importorskip("fairlearn.metrics")
    y, said, group = draw()
    found = uncertainty.compare_groups(y, said, group, ["recall_binary", "demographic_parity", "equalized_odds"])
    frame = peer.MetricFrame(metrics=peer.true_positive_rate, y_true=y, y_pred=said, sensitive_features=group)
    one = found["recall_binary"]
    np.testing.assert_allclose(one.estimate, frame.by_group)
    np.testing.assert_allclose(
        [one.overall, one.difference, one.ratio], [frame.overall, frame.difference(), frame.ratio()]
    )
    for name in ("demographic_parity", "equalized_odds"):
        for side in ("difference", "ratio"):
            theirs = getattr(peer, f"{name}_{side}")(y, said, sensitive_features=group)
            np.testing.assert_allclose(getattr(found[name], side), theirs)


@pytest.mark.parametrize("method", METHODS)
def test_all_forms_of_input_give_the_same(method):
    y, said, group = draw()
    text = np.array(["well", "ill"])
    place = np.array(["north", "south", "west"])[group]
    table = pd.DataFrame({"truth": text[y], "guess": text[said], "place": place})
    options = {"method": method, "pos_label": "ill"}
    M = np.zeros((3, 2, 2), np.int64)
    np.add.at(M, (group, 1 - y, 1 - said), 1)  # "ill", which is 1, sorts first
    want = compare(M, "recall_binary", method=method, pos_label=0)
    counts = cmfast.ConfusionCounts.from_labels(text[y], text[said], groups=place)
    for one in (
        compare(text[y], text[said], place, "recall_binary", **options),
        compare(text[y], text[said], groups=place, names="recall_binary", **options),
        compare(table.truth, table.guess, table.place, "recall_binary", **options),
        compare(table, "recall_binary", y_true="truth", y_pred="guess", groups="place", **options),
        compare(counts, "recall_binary", **options),
    ):
        assert one.axes["group"] == ("north", "south", "west")
        for field, theirs in zip(want._fields[1:-3], want[1:-3], strict=True):
            np.testing.assert_array_equal(getattr(one, field), theirs, err_msg=field)


def test_several_columns_are_combined():
    y, said, group = draw()
    table = pd.DataFrame({"y": y, "said": said, "a": group, "b": np.arange(900) % 2})
    found = compare(table, "accuracy", y_true="y", y_pred="said", groups=["a", "b"], reference=(0, 1))
    assert found.axes["group"] == tuple((a, b) for a in range(3) for b in range(2))
    assert [found.axes["group"][k] for k in found.second] == [(0, 1)] * 5


@pytest.mark.parametrize("method", METHODS)
def test_reference_turns_pairs(method):
    M = recalls([80, 60, 45], [100, 90, 80])
    every, one = compare(M, "recall_binary", method=method), compare(M, "recall_binary", method=method, reference=1)
    assert (one.first, one.second) == ((0, 2), (1, 1))
    np.testing.assert_allclose(one.pair_difference, [every.pair_difference[0], -every.pair_difference[2]])
    np.testing.assert_allclose(one.pair_low, [every.pair_low[0], -every.pair_high[2]])
    np.testing.assert_allclose(one.pair_high, [every.pair_high[0], -every.pair_low[2]])
    np.testing.assert_allclose(one.pair_ratio, [every.pair_ratio[0], 1 / every.pair_ratio[2]])
    np.testing.assert_allclose(one.pair_ratio_low, [every.pair_ratio_low[0], 1 / every.pair_ratio_high[2]])
    np.testing.assert_allclose(one.pair_p_value, every.pair_p_value[[0, 2]])
    smaller, larger = sorted(one.pair_p_value)
    np.testing.assert_allclose(sorted(one.pair_holm), [min(2 * smaller, 1.0), max(min(2 * smaller, 1.0), larger)])
    np.testing.assert_array_equal(one.difference_low, every.difference_low)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("undefined", ["present", "nan", "zero", "one"])
def test_a_group_where_the_metric_is_undefined_is_left_out(method, undefined):
    M = recalls([80, 60, 0], [100, 90, 0])  # the third has no positive sample
    found, without = (compare(x, "recall_binary", method=method, undefined=undefined) for x in (M, M[:2]))
    np.testing.assert_equal(found.estimate[2], {"nan": np.nan, "one": 1.0}.get(undefined, 0.0))
    assert np.isnan([found.low[2], found.high[2], *found.pair_difference[1:], *found.pair_p_value[1:]]).all()
    for field in ("difference", "difference_low", "difference_high", "p_value", "ratio", "lowest", "highest"):
        np.testing.assert_array_equal(getattr(found, field), getattr(without, field))
    assert found.pair_holm[0] == found.pair_p_value[0]
    assert "undefined in 1 of 3 groups" in found.explain()


def test_bad_values_spoil_one_group():
    M = recalls([80, 60, 50], [100, 90, 80]).astype(float)
    M[2, 0, 0] = -1
    with pytest.warns(cmfast.FailureWarning, match=r"compare_groups.*1 of 3"):
        found = uncertainty.compare_groups(M, "recall_binary", method="delta")
    want = compare(M[:2], "recall_binary", method="delta")
    assert found.difference_low == want.difference_low
    assert np.isnan(found.estimate[2])
    with pytest.raises(cmfast.FailureError):
        uncertainty.compare_groups(M, "recall_binary", method="delta", on_failure="raise")


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_classes(method):
    rng = np.random.default_rng(3)
    M = rng.integers(5, 60, (4, 3, 3, 3)) + 100 * np.eye(3, dtype=np.int64)
    found = compare(M, "recall", method=method, n_resamples=500)
    assert found.estimate.shape == (4, 3, 3)
    assert found.difference.shape == (4, 3)
    assert found.pair_low.shape == (4, 3, 3)
    np.testing.assert_allclose(found.estimate, np.diagonal(M, axis1=-2, axis2=-1) / M.sum(-1))
    np.testing.assert_allclose(found.difference, np.ptp(found.estimate, axis=1))
    np.testing.assert_allclose(found.overall, np.diagonal(M.sum(1), axis1=-2, axis2=-1) / M.sum((1, -1)))
    for k in range(1 if method == "bootstrap" else 4):  # the random numbers depend on the position
        one = compare(M[k], "recall", method=method, n_resamples=500)
        for field in ("low", "difference_low", "p_value", "pair_holm", "ratio_high"):
            np.testing.assert_array_equal(getattr(found, field)[k], getattr(one, field))


def test_metrics_below_zero_have_no_ratio():
    M = np.array([[[9, 20], [20, 9]], [[40, 9], [9, 40]]])
    for method in ("bootstrap", "delta"):
        found = compare(M, ["mcc", "accuracy"], method=method)
        assert {one.method for one in found.values()} == {method}
        assert np.isnan([found["mcc"].ratio, found["mcc"].ratio_low, *found["mcc"].pair_ratio]).all()
        assert 0.0 < found["accuracy"].ratio_low < found["accuracy"].ratio < found["accuracy"].ratio_high < 1.0


def test_groups_without_errors_are_no_evidence():
    """Three of three against none of three: both standard errors are 0."""
    for method in ("delta", "bootstrap"):
        found = compare(recalls([3, 0], 3), "recall_binary", method=method)
        assert np.isnan(found.p_value)
        assert (found.difference, found.difference_low, found.verdict()) == (1.0, 0.0, "undefined")
    found = compare(recalls([3, 0], 3), "recall_binary", method="wilson")
    assert 0.0 < found.difference_low < 0.4
    assert 0.005 < found.p_value < 0.05


def test_the_lower_end_is_above_zero_if_p_is_small():
    rng = np.random.default_rng(4)
    M = recalls(rng.binomial(60, [0.8, 0.75, 0.6, 0.8], (300, 4)), 60)
    for method in ("delta", "wilson"):
        found = compare(M, "recall_binary", method=method)
        np.testing.assert_array_equal(found.difference_low > 0, found.p_value < 0.05)
        assert 20 < np.count_nonzero(found.p_value < 0.05) < 280
        assert (found.difference_high >= found.difference).all()
    drawn = compare(M[:60], "recall_binary", method="bootstrap", n_resamples=999)
    assert np.mean((drawn.difference_low > 0) == (drawn.p_value <= 0.05)) > 0.98


@pytest.mark.parametrize("method", ["delta", "wilson"])
def test_coverage_of_equal_groups(method):
    """Percentiles of the largest difference never contain 0; these intervals do in about 95 % of studies."""
    rng = np.random.default_rng(5)
    M = recalls(rng.binomial(100, 0.8, (4000, 5)), 100)
    found = compare(M, "recall_binary", method=method)
    inside = np.mean(found.difference_low == 0.0)
    assert 0.935 < inside < 0.965


@pytest.mark.parametrize("method", ["delta", "wilson"])
def test_coverage_of_different_groups(method):
    rng, truth = np.random.default_rng(6), np.array([0.9, 0.85, 0.8, 0.65])
    M = recalls(rng.binomial(150, truth, (4000, 4)), 150)
    found = compare(M, "recall_binary", method=method)
    for low, high, value in (
        (found.difference_low, found.difference_high, 0.25),
        (found.ratio_low, found.ratio_high, 0.65 / 0.9),
    ):
        assert 0.94 < np.mean((low <= value) & (value <= high)) < 0.995


def test_results_are_rendered():
    y, said, group = draw()
    found = uncertainty.compare_groups(y, said, group, ["recall", "equalized_odds", "accuracy"])
    assert repr(found["accuracy"]).startswith("<GroupComparison: accuracy of 3 groups differs by ")
    assert repr(found).startswith("<GroupComparisonsByMetric: p of recall at most ")
    assert found.to_pandas().columns[:4].tolist() == ["name", "lowest", "highest", "class"]
    assert len(found.to_pandas(of="groups")) == 6 + 6 + 3 == len(found.to_pandas(of="pairs"))
    rows = found["recall"].to_pandas(of="pairs")
    at = rows[(rows["first"] == 0) & (rows["second"] == 2) & (rows["class"] == 1)]
    assert at["difference"].item() == found["recall"].pair_difference[1, 1]
    assert found.explain().count("\n") == 2
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    for of, number in (("groups", 15), ("pairs", 15), ("gap", 4)):
        ax = found.plot(of=of)
        assert len(ax.get_yticklabels()) == number
        plt.close(ax.figure)
    ax = found["accuracy"].plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2"]
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="of must be one of"):
        found.to_pandas(of="rows")


def test_mistakes():
    M = recalls([80, 60], [100, 90])
    for given, options, text in (
        ((M[0], "accuracy"), {}, r"M must be of shape \(\.\.\., G, C, C\)"),
        ((M, "accuracy"), {"reference": "north"}, 'reference must be one of the groups 0, 1, or "overall"'),
        ((M, "f1_binary"), {"method": "wilson"}, "f1_binary, which is not a share"),
        ((np.ones((2, 3, 3), int), "equalized_odds"), {}, "of 3 classes, as fairness needs two"),
        ((M, "selection_rates"), {}, "names"),
        ((M, "accuracy"), {"ignore_index": 0}, "ignore_index must be None unless labels"),
        ((cmfast.ConfusionCounts.from_labels([0, 1], [0, 1]), "accuracy"), {}, "counts with groups"),
    ):
        with pytest.raises(ValueError, match=text):
            uncertainty.compare_groups(*given, **options)
    with pytest.raises(TypeError, match="groups must be the group of each sample"):
        uncertainty.compare_groups([0, 1, 1], [0, 1, 1])
    with pytest.raises(TypeError, match="groups"):
        uncertainty.compare_groups([0, 1, 1], [0, 1, 1], "accuracy")


def test_small_groups_are_warned_of():
    with pytest.warns(cmfast.DiagnosticWarning, match='in 1 of 2 groups too few samples.*"wilson"'):
        uncertainty.compare_groups(recalls([80, 3], [100, 4]), "recall_binary", method="bootstrap")
    with pytest.warns(cmfast.DiagnosticWarning, match="too few samples .* only more samples help$"):
        uncertainty.compare_groups(recalls([80, 3], [100, 4]), "mcc", method="bootstrap", n_resamples=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uncertainty.compare_groups(recalls([80, 3], [100, 4]), "recall_binary")


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("method", METHODS)
def test_torch(method):
    M = recalls([80, 60, 45], [100, 90, 80])
    for name in ("recall", "demographic_parity"):
        want, found = (compare(x, name, method=method) for x in (M, torch.from_numpy(M)))
        for x, y in zip(want[1:-3], found[1:-3], strict=True):
            np.testing.assert_array_equal(x, y)


def test_the_method_fits_the_metric():
    y, said, group = draw()
    found = compare(y, said, group, ["mcc", "recall", "equalized_odds", "f1_macro", "recall_micro"])
    want = ["bootstrap", "wilson", "wilson", "bootstrap", "wilson"]
    assert [one.method for one in found.values()] == want
    assert list(found) == ["mcc", "recall", "equalized_odds", "f1_macro", "recall_micro"]


def test_threads_and_seeds():
    M = recalls([80, 60, 45], [100, 90, 80])
    one, two, other = (compare(M, "mcc", num_threads=k, rng=seed) for k, seed in ((1, 3), (2, 3), (1, 4)))
    np.testing.assert_array_equal(one.pair_low, two.pair_low)
    assert (one.pair_low != other.pair_low).all()


@pytest.mark.parametrize("where", ["by name", "by place"])
def test_the_name_of_fairlearn_is_answered(where):
    y, groups = np.array([0, 1] * 20), ["a"] * 20 + ["b"] * 20
    given, options = ((y, y), {"names": "recall"}) if where == "by name" else ((y, y, "recall"), {})
    with pytest.raises(TypeError, match=r"compare_groups: there is no option 'sensitive_features'; .* groups="):
        uncertainty.compare_groups(*given, sensitive_features=groups, **options)


def test_a_warning_of_many_metrics_is_one_line():
    y, groups = np.array([0, 1] * 20), ["a"] * 20 + ["b"] * 20
    with pytest.warns(
        cmfast.DiagnosticWarning, match=r"intervals of \d\d metrics, first \w+, hold less often"
    ) as caught:
        uncertainty.compare_groups(y, y, groups, n_resamples=20)
    assert len(str(caught[0].message)) < 300


def test_the_page_has_the_coverages_that_were_counted(monkeypatch):
    kept = json.loads(groups_coverage.KEPT.read_text(encoding="utf-8"))
    page = groups_coverage.PAGE.read_text(encoding="utf-8")
    assert groups_coverage.write_page(kept, page) == page
    monkeypatch.setattr(groups_coverage, "STUDIES", 60)
    monkeypatch.setattr(groups_coverage, "RESAMPLES", 200)
    alike = groups_coverage.SETTINGS[groups_coverage.SHARES][5]
    found = groups_coverage.count_covered(alike, groups_coverage.METHODS[groups_coverage.SHARES], [0])
    assert all(found[method]["gap"] >= 50 for method in ("wilson", "delta", "bootstrap"))
    assert found[groups_coverage.QUANTILES]["gap"] <= 3
    apart = groups_coverage.SETTINGS[groups_coverage.OTHERS][3]
    assert groups_coverage.count_covered(apart, ("delta",), [0])["delta"]["gap"] >= 50


def three_groups():
    """Return matrices of three groups of unequal sizes and accuracies."""
    return np.array([[[50, 8, 2], [5, 40, 9], [1, 3, 30]], [[20, 9, 4], [6, 12, 5], [7, 2, 14]],
                     [[9, 1, 0], [2, 8, 1], [0, 1, 25]]])  # fmt: skip


def macro_f1(M):
    """Return the macro F1 by its definition."""
    return np.mean([2 * M[k, k] / (M[k].sum() + M[:, k].sum()) for k in range(len(M))])


def accuracy(M):
    """Return the share on the diagonal."""
    return np.trace(M) / M.sum()


def slopes(metric, M):
    """Return the derivatives of a metric in the cells, by central differences."""
    out = np.empty(M.shape)
    for cell in np.ndindex(M.shape):
        step = np.zeros(M.shape)
        step[cell] = 1e-4
        out[cell] = (metric(M + step) - metric(M - step)) / 2e-4
    return out


@pytest.mark.parametrize(("name", "metric"), [("accuracy", accuracy), ("f1_macro", macro_f1)])
def test_difference_to_all_samples_by_the_delta_method(name, metric):
    """Every sample moves the metric of all, and those of the group its own, too: their covariance by differences."""
    M = three_groups().astype(float)
    found, total = compare(three_groups(), name, method="delta", reference="overall"), M.sum(0)
    for g in range(3):
        variance = of_log = 0.0
        for h in range(3):
            own = slopes(metric, M[h]) if h == g else 0.0
            for scale, is_log in (((1.0, 1.0), False), ((1 / metric(M[g]), 1 / metric(total)), True)):
                x = own * scale[0] - slopes(metric, total) * scale[1]
                part = (M[h] * x**2).sum() - (M[h] * x).sum() ** 2 / M[h].sum()
                variance, of_log = (variance, of_log + part) if is_log else (variance + part, of_log)
        apart, ratio = metric(M[g]) - metric(total), metric(M[g]) / metric(total)
        ends = apart + Z * np.sqrt(variance) * np.array([-1, 1])
        np.testing.assert_allclose(found.pair_difference[g], apart, rtol=1e-12)
        np.testing.assert_allclose([found.pair_low[g], found.pair_high[g]], ends, rtol=1e-6)
        np.testing.assert_allclose(found.pair_p_value[g], 2 * ndtr(-abs(apart) / np.sqrt(variance)), rtol=1e-5)
        ends = ratio * np.exp(Z * np.sqrt(of_log) * np.array([-1, 1]))
        np.testing.assert_allclose([found.pair_ratio_low[g], found.pair_ratio_high[g]], ends, rtol=1e-6)


def test_a_group_that_is_most_samples_hardly_differs_from_all():
    """With the covariance the error is that of the others; without it, it would be ten times as large."""
    M = recalls([900, 5], [1000, 10])
    M[:, 0] = 0
    found = compare(M, "accuracy", method="delta", reference="overall")
    w, both = 1000 / 1010, np.sqrt(0.9 * 0.1 / 1000 + 0.25 / 10)
    np.testing.assert_allclose(found.pair_high[0] - found.pair_difference[0], Z * (1 - w) * both, rtol=1e-9)
    np.testing.assert_allclose(found.pair_high[1] - found.pair_difference[1], Z * w * both, rtol=1e-9)


def test_difference_to_all_samples_by_wilson():
    """It is that to the other samples, times their share, and so are its ends; Newcombe's figures scaled."""
    found = compare(recalls([56, 48], [70, 80]), "recall_binary", method="wilson", reference="overall")
    np.testing.assert_allclose(
        [found.pair_low[0], found.pair_high[0]], 80 / 150 * np.array([0.0524, 0.3339]), atol=6e-5
    )
    np.testing.assert_allclose(
        [found.pair_low[1], found.pair_high[1]], 70 / 150 * np.array([-0.3339, -0.0524]), atol=6e-5
    )
    two = compare(recalls([56, 48], [70, 80]), "recall_binary", method="wilson")
    np.testing.assert_allclose(found.pair_p_value, two.pair_p_value[0])
    own, r = 70 / 150, np.array([two.pair_ratio[0], two.pair_ratio_low[0], two.pair_ratio_high[0]])
    np.testing.assert_allclose(
        [found.pair_ratio[0], found.pair_ratio_low[0], found.pair_ratio_high[0]], r / (own * r + 1 - own), rtol=1e-10
    )
    none = compare(recalls([0, 8], [10, 10]), "recall_binary", method="wilson", reference="overall")
    assert none.pair_ratio_high[1] == 2.0, "all samples have at least the half of it"


@pytest.mark.parametrize("name", ["f1_macro", "mcc", "recall"])
def test_difference_to_all_samples_by_the_bootstrap(name):
    """Percentiles of the replicates of a group less those of the sum of all replicates, the same ones."""
    M = three_groups()
    found = compare(M, name, method="bootstrap", reference="overall", n_resamples=500, rng=3)
    drawn = uncertainty.resample(M, n_resamples=500, rng=3)
    apart = cmfast.metrics.compute(drawn, name) - cmfast.metrics.compute(drawn.sum(0), name)
    low, high = np.quantile(apart, [0.025, 0.975], axis=1)
    apart = cmfast.metrics.compute(M, name) - cmfast.metrics.compute(M.sum(0), name)
    np.testing.assert_allclose(found.pair_difference, apart, atol=1e-14)
    width = np.abs(high - low)
    np.testing.assert_allclose(found.pair_low, low, atol=0.03 * width.max())
    np.testing.assert_allclose(found.pair_high, high, atol=0.03 * width.max())


@pytest.mark.parametrize("method", METHODS)
def test_all_samples_as_reference(method):
    y, guess, group = draw(400)
    options = {"method": method, "reference": "overall", "n_resamples": 200}
    found = compare(y, guess, np.array(["a", "b", "c"])[group], "accuracy", **options)
    assert (found.first, found.second) == ((0, 1, 2), (-1, -1, -1))
    table = found.to_pandas(of="pairs")
    assert table["first"].tolist() == ["a", "b", "c"]
    assert table["second"].tolist() == ["overall"] * 3
    np.testing.assert_allclose(found.pair_difference, found.estimate - found.overall, atol=1e-14)
    every = compare(y, guess, group, "accuracy", **options | {"reference": None})
    assert found.p_value == every.p_value
    odds = compare(y, guess, group, "equalized_odds", **options)
    assert odds.pair_difference.shape == (3, 2)
    single = [compare(y, guess, group, name, **options) for name in ("recall_binary", "fpr_binary")]
    np.testing.assert_array_equal(odds.pair_low, np.stack([one.pair_low for one in single], -1))
    M = cmfast.confusion_matrix(y, guess, groups=group)
    batch = compare(np.stack([M, M[::-1]]), "accuracy", **options | {"method": "wilson"})
    np.testing.assert_array_equal(batch.pair_high[0], batch.pair_high[1][::-1])
    one = compare(M[:1], "accuracy", **options)
    assert one.pair_difference.tolist() == [0.0]


def test_a_group_of_this_name_is_the_group():
    y, guess, group = draw(300)
    named = np.array(["overall", "b", "c"])[group]
    found = compare(y, guess, named, "accuracy", reference="overall")
    assert {found.axes["group"][k] for k in found.second} == {"overall"}


def test_an_undefined_group_is_left_out_of_all_samples_as_well():
    M = recalls([8, 0, 5], [10, 0, 10])
    for method in METHODS:
        found = compare(M, "recall_binary", method=method, reference="overall", n_resamples=200)
        assert np.isnan(found.pair_difference).tolist() == [False, True, False]
        assert np.isnan(found.pair_p_value).tolist() == [False, True, False]
        np.testing.assert_allclose(found.pair_difference[[0, 2]], [0.8 - 0.65, 0.5 - 0.65])


@pytest.mark.parametrize("value", [-50.0, np.nan, np.inf, 0.5])
@pytest.mark.parametrize("method", ["wilson", "delta", "bootstrap"])
def test_a_group_that_is_left_out_is_in_no_sum(value, method):
    M = np.random.default_rng(3).integers(5, 50, (3, 2, 2)).astype(float)
    M[2, 0, 0] = value
    options = {"method": method, "n_resamples": 99, "reference": "overall", "on_failure": "ignore"}
    found = uncertainty.compare_groups(M, "accuracy", **options)
    alone = uncertainty.compare_groups(M[:2], "accuracy", **options)
    assert found.overall == alone.overall
    np.testing.assert_array_equal(found.pair_difference, [*alone.pair_difference, np.nan])
    np.testing.assert_allclose(found.pair_low, [*alone.pair_low, np.nan], rtol=1e-12)


def test_results_name_a_positive_class_that_is_not_1():
    rng = np.random.default_rng(3)
    site = rng.choice(["a", "b"], 200)
    y, guess = (rng.choice(["approved", "denied"], 200) for _ in range(2))
    found = uncertainty.compare_groups(y, guess, site, ["selection_rate", "recall_binary", "accuracy"])
    assert found["selection_rate"].explain().startswith("selection_rate (positive: denied): lowest in")
    assert "recall_binary (positive: denied)" in repr(found["recall_binary"])
    assert "positive" not in found["accuracy"].explain()
    chosen = uncertainty.compare_groups(y, guess, site, "demographic_parity", pos_label="approved")
    assert chosen.explain().startswith("demographic_parity (positive: approved): ")
    approved = [np.mean(guess[site == name] == "approved") for name in ("a", "b")]
    np.testing.assert_allclose(chosen.estimate, approved)
    ones = uncertainty.compare_groups((y == "denied") * 1, (guess == "denied") * 1, site, "selection_rate")
    assert "positive" not in ones.explain()


def test_one_group_has_no_other_to_differ_from():
    y, guess, _ = draw(60)
    text = "groups has one group, 'a', which has no other to differ from; differences and p-values are NaN"
    with pytest.warns(cmfast.DiagnosticWarning, match=f"^uncertainty.compare_groups: {text}$"):
        found = uncertainty.compare_groups(y, guess, ["a"] * 60, "accuracy")
    assert np.isnan(found.p_value)
    assert found.estimate.tolist() == [float((y == guess).mean())]
    M = cmfast.confusion_matrix(y, guess)[np.newaxis]
    with pytest.warns(cmfast.DiagnosticWarning, match="one group, 0, which has no other"):
        uncertainty.compare_groups(np.stack([M, M]), "accuracy")
    uncertainty.compare_groups(M, "accuracy", on_failure="ignore")
    with pytest.raises(
        ValueError, match=r"^uncertainty.compare_groups: groups must be of at least two groups, got none"
    ):
        uncertainty.compare_groups([], [], [], "accuracy")


def test_a_bad_group_of_a_stack_is_named_in_words():
    M = np.full((2, 3, 2, 2), 9)
    M[1, 2, 0, 1] = -4
    said = r"^uncertainty.compare_groups: 1 of 6 groups left out \(first: group 2 of batch element 1\): 1 INVALID; "
    with pytest.warns(cmfast.FailureWarning, match=said + r"negative value at M\[1, 2\]\[0, 1\]$"):
        uncertainty.compare_groups(M, "accuracy")
    said = r"1 of 3 groups left out \(first: group 2\): 1 INVALID; negative value at M\[2\]\[0, 1\]$"
    with pytest.warns(cmfast.FailureWarning, match=said):
        uncertainty.compare_groups(M[1], "mcc", n_resamples=20)
