"""Two classifiers compared by any metric: against exact sums, against SciPy, and laws."""

import json
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from pairs import draw_predictions, samples
from scipy import stats

import cmfast
from cmfast import metrics, uncertainty
from cmfast.kernels.shared.uncertainty import compute_acceleration
from cmfast.uncertainty import _compare, _compare_many

mpl.use("Agg")
from matplotlib import pyplot as plt

PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "metrics.json").read_text())["paired"]
ODDS = "diagnostic_odds_ratio"
METHODS = ("bca", "percentile", "basic", "normal", "delta")


def same(one, other):
    """Return whether two comparisons have the same bits."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one[1:-4], other[1:-4], strict=True))


@pytest.fixture(scope="module")
def labels():
    return draw_predictions(np.random.default_rng(4), 250, 3)


@pytest.mark.parametrize("method", METHODS)
def test_the_published_table(method):
    T = uncertainty.paired_counts(*samples(PUBLISHED["T_y_first_second"]))
    found = uncertainty.compare(T, ["accuracy", "f1_macro", "mcc", "kappa"], method=method)
    for name, wanted in PUBLISHED["delta"].items():
        one = found[name]
        assert one.difference == pytest.approx(wanted["difference"], rel=1e-13)
        assert one.difference == one.first - one.second
        assert one.standard_error == pytest.approx(wanted["se"], rel=1e-11 if method == "delta" else 0.03)
        assert one.low < one.difference < one.high
        assert one.n_undefined == 0
        assert 0.1 < one.p_value < 0.2
        assert 0.05 < one.probability < 0.08


@pytest.mark.parametrize("method", ["BCa", "percentile", "basic"])
def test_same_as_scipy(labels, method):
    y, a, b = labels
    right = np.stack([y == a, y == b])

    def apart(index, axis=-1):
        return right[0][index].mean(axis) - right[1][index].mean(axis)

    options = {"n_resamples": 20_000, "method": method, "rng": np.random.default_rng(1), "vectorized": True}
    theirs = stats.bootstrap((np.arange(len(y)),), apart, **options)
    ours = uncertainty.compare(
        uncertainty.paired_counts(y, a, b), "accuracy", method=method.lower(), n_resamples=20_000
    )
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.02)
    for end, wanted in zip((ours.low, ours.high), theirs.confidence_interval, strict=True):
        assert end == pytest.approx(wanted, abs=0.0041)  # accuracies are 0.004 apart


def test_metrics_that_no_accuracy_is_made_of(labels):
    """F1 of labels drawn one by one."""
    y, a, b = labels
    names = ["f1_macro", "kappa_quadratic", "recall"]
    found = uncertainty.compare(uncertainty.paired_counts(y, a, b), names)
    index = np.random.default_rng(0).integers(0, len(y), (4000, len(y)))
    both = [metrics.compute(cmfast.confusion_matrix(y[index], x[index], n_classes=3), names) for x in (a, b)]
    for name in names:
        apart = both[0][name] - both[1][name]
        np.testing.assert_allclose(found[name].standard_error, apart.std(0), rtol=0.07)
        np.testing.assert_allclose(found[name].low, np.quantile(apart, 0.025, axis=0), atol=0.2 * apart.std())
        np.testing.assert_allclose(found[name].probability, (apart > 0).mean(0) + (apart == 0).mean(0) / 2, atol=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_p_is_the_level_at_which_the_interval_touches_zero(labels, method):
    T = uncertainty.paired_counts(*labels)
    options = {"method": method, "test": "interval", "n_resamples": 20_000}
    for name in ("mcc", "f1_macro"):
        p = uncertainty.compare(T, name, **options).p_value
        for confidence_level, outside in ((1 - 1.1 * p - 2e-4, True), (1 - 0.9 * p + 2e-4, False)):
            if 0 < confidence_level < 1:
                one = uncertainty.compare(T, name, confidence_level=confidence_level, **options)
                assert (one.low > 0 or one.high < 0) == outside


def test_leaving_out_one_sample_of_each_kind(labels):
    y, a, b = labels
    T = uncertainty.paired_counts(y, a, b)
    n = np.arange(len(y))
    for name in ("accuracy", "mcc", "kappa_linear"):
        left_out = []
        for k in n:
            one, other = (
                metrics.compute(cmfast.confusion_matrix(y[n != k], x[n != k], n_classes=3), name) for x in (a, b)
            )
            left_out.append(one - other)
        apart = np.mean(left_out) - left_out
        wanted = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
        layout = _compare._plan.make_plan((name,), 3, "present", 1, argument="T")
        asked = _compare._Request(layout, "bca", "interval", 0.95, 2, 0, 0, None)
        units = _compare._paired_replicates.list_units(T._held)
        found = compute_acceleration(_compare._compute_jackknife(T, units, asked)[0], units.weights, [slice(None)])
        assert found == pytest.approx(wanted, rel=1e-9)


def test_all_names_see_the_same_draws(labels):
    T = uncertainty.paired_counts(*labels)
    every = uncertainty.compare(T, n_resamples=500, rng=3)
    assert list(every) == list(metrics.SCALARS)
    for name in ("accuracy", "mcc", "gerrity"):
        assert same(every[name], uncertainty.compare(T, name, n_resamples=500, rng=3, num_threads=1))
    assert not same(every["mcc"], uncertainty.compare(T, "mcc", n_resamples=500, rng=4))


def test_groups_are_cut_anywhere(labels, monkeypatch):
    y, a, b = labels
    T = uncertainty.paired_counts(y, a, b, groups=np.arange(len(y)) % 4)
    options = {"n_resamples": 200, "undefined": "nan"}
    whole = uncertainty.compare(T, ["f1_macro", "f1"], **options)
    assert whole["f1_macro"].low.shape == (4,)
    assert whole["f1"].p_value.shape == (4, 3)
    monkeypatch.setattr(_compare, "REPLICATES_BYTES", 1)
    monkeypatch.setattr(_compare, "MOST_JACKKNIFE_BYTES", 1)
    parts = uncertainty.compare(T, ["f1_macro", "f1"], **options)
    assert all(same(whole[name], parts[name]) for name in whole)
    first = uncertainty.paired_counts(*(x[np.arange(len(y)) % 4 == 0] for x in (y, a, b)), n_classes=3)
    alone = uncertainty.compare(first, "f1_macro", **options)
    assert alone.low == whole["f1_macro"].low[0]


def test_copies_of_a_sample_say_no_more_than_one(labels):
    """What is drawn are clusters: twelve copies of every sample have the interval of one."""
    T = uncertainty.paired_counts(*labels)
    copies = [np.repeat(x, 12) for x in labels]
    wrong = uncertainty.compare(uncertainty.paired_counts(*copies), "f1_macro")
    clusters = uncertainty.paired_counts(*copies, clusters=np.repeat(np.arange(len(labels[0])), 12))
    found, wanted = uncertainty.compare(clusters, "f1_macro"), uncertainty.compare(T, "f1_macro")
    assert found.difference == wanted.difference == wrong.difference
    assert found.standard_error == pytest.approx(wanted.standard_error, rel=0.04)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.1 * wanted.standard_error)
    assert wrong.standard_error == pytest.approx(wanted.standard_error / np.sqrt(12), rel=0.04)


def test_few_clusters_are_warned_of(labels):
    few, many = (uncertainty.paired_counts(*labels, clusters=np.arange(len(labels[0])) % k) for k in (11, 12))
    for call, what in (
        (lambda T: uncertainty.compare(T, "accuracy", n_resamples=100), "intervals"),
        (lambda T: uncertainty.compare(T, "accuracy", method="delta"), "intervals"),
        (lambda T: uncertainty.compare(T, "accuracy", test="interval", n_resamples=100), "intervals and p-values"),
        (lambda T: uncertainty.equivalence(T, "accuracy", margin=0.01), "intervals and p-values"),
        (lambda T: uncertainty.compare_many({("a", "b"): T}, "accuracy", n_resamples=100), "intervals"),
    ):
        with pytest.warns(cmfast.DiagnosticWarning, match=f"fewer than 12 clusters: {what} are overconfident"):
            call(few)
        assert call(many) is not None
    group, cluster = np.arange(len(labels[0])) % 40 // 30, np.arange(len(labels[0])) % 40
    both = uncertainty.paired_counts(*labels, groups=group, clusters=cluster)
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters in 1 of 2 groups"):
        uncertainty.compare(both, "accuracy", n_resamples=100)


def test_undefined_replicates_are_left_out_and_counted():
    y, a, b = [0] * 30 + [1], [0] * 25 + [1] * 6, [0] * 30 + [1]
    T = uncertainty.paired_counts(y, a, b)
    found = uncertainty.compare(T, "recall_binary", undefined="nan", n_resamples=4000)
    assert found.n_undefined == pytest.approx(4000 * (30 / 31) ** 31, rel=0.1)
    assert (found.low, found.high, found.p_value) == (0, 0, 1)
    assert "undefined resamples left out" in found.explain()
    assert uncertainty.compare(T, "recall_binary", n_resamples=50).n_undefined == 0


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_compare(method):
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        nothing = uncertainty.compare(uncertainty.paired_counts([], [], []), "accuracy", undefined="nan", method=method)
    assert np.isnan([nothing.difference, nothing.low, nothing.high, nothing.p_value, nothing.probability]).all()
    assert nothing.verdict() == "undefined"
    assert nothing.explain() == "accuracy is undefined"
    alike = uncertainty.compare(uncertainty.paired_counts([0, 1, 1], [0, 0, 1], [0, 0, 1]), "accuracy", method=method)
    assert (alike.difference, alike.low, alike.high, alike.p_value, alike.probability) == (0, 0, 0, 1, 0.5)
    endless = uncertainty.compare(uncertainty.paired_counts([0, 1, 1], [0, 1, 1], [0, 1, 0]), ODDS, method=method)
    assert not np.isfinite(endless.difference).any()


def test_words():
    y = np.arange(400) % 2
    T = uncertainty.paired_counts(y, y, np.where(np.arange(400) % 10 < 2, 1 - y, y), groups=np.arange(400) // 200)
    found = uncertainty.compare(T, "accuracy")
    assert repr(found) == "<Comparison: accuracy of 2 groups, p at most 1.8e-12>"
    assert found.verdict(0) == "the first is higher"
    assert found.explain().startswith(
        "accuracy of group 0, the smallest p of 2: 1.0000 and 0.8000, the difference is +0.2"
    )
    table = found.to_pandas()
    assert table["group"].tolist() == [0, 1]
    assert table["difference"].tolist() == [pytest.approx(0.2)] * 2
    assert "class" in uncertainty.compare(T, "recall").to_pandas()
    swapped = uncertainty.compare(uncertainty.paired_counts(y, np.where(y, y, 1 - y), y), "accuracy")
    assert repr(swapped).endswith("p 1.24e-60: the second is higher>")
    assert "<th>accuracy</th>" in swapped._repr_html_()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"confidence_level": 1.0}, "confidence_level must be between 0 and 1, got 1.0"),
        ({"n_resamples": 1}, "n_resamples must be at least 2, got 1"),
        ({"method": "exact"}, "method must be one of"),
    ],
)
def test_bad_options(labels, options, text):
    with pytest.raises(ValueError, match=f"^uncertainty.compare: {text}"):
        uncertainty.compare(uncertainty.paired_counts(*labels), "mcc", **options)


@pytest.mark.parametrize("options", [{}, {"clusters": np.arange(250) // 5}])
def test_the_delta_method_is_what_replicates_tend_to(labels, options):
    T = uncertainty.paired_counts(*labels, groups=np.arange(250) % 2 if not options else None, **options)
    names = ["mcc", "kappa_quadratic", "gerrity", "recall", "balanced_accuracy"]
    delta, drawn_again = (uncertainty.compare(T, names, method=method) for method in ("delta", "normal"))
    for name in names:
        np.testing.assert_allclose(delta[name].standard_error, drawn_again[name].standard_error, rtol=0.08)
        np.testing.assert_allclose(delta[name].probability, drawn_again[name].probability, atol=0.03)


def test_a_picture_shows_the_numbers(labels):
    found = uncertainty.compare(uncertainty.paired_counts(*labels), ["mcc", "recall"], n_resamples=100)
    display = cmfast.display.ComparisonDisplay.from_comparisons(found)
    assert display.names == ["mcc", "recall, 0", "recall, 1", "recall, 2"]
    assert not plt.get_fignums()  # nothing is drawn before
    figure, axes = plt.subplots()
    assert display.plot(ax=axes) is display
    assert (display.ax_, display.figure_) == (axes, figure)
    drawn_lines = [[row, *ends] for (ends, (row, _)) in (segment.T for segment in display.lines_.get_segments())]
    wanted = [found["mcc"], *([found["recall"]] * 3)]
    for k, (row, low, high) in enumerate(drawn_lines):
        at = () if k == 0 else k - 1
        assert (row, low, high) == (3 - k, wanted[k].low[at], wanted[k].high[at])
    figure.canvas.draw()
    one = cmfast.display.ComparisonDisplay.from_comparisons(found["mcc"]).plot()
    assert one.ax_.get_xlabel() == "first minus second, 95 % intervals"
    plt.close("all")
    with pytest.raises(ValueError, match="comparisons must be at least one, got none"):
        cmfast.display.ComparisonDisplay.from_comparisons({})


def test_equivalence(labels):
    T = uncertainty.paired_counts(*labels)
    one = uncertainty.compare(T, "accuracy", method="delta", confidence_level=0.9)
    D, n = one.difference, T.n_samples
    for margin in (0.01, 0.1, 0.15, 0.3):
        found = uncertainty.equivalence(T, "accuracy", margin)
        assert found.standard_error == one.standard_error
        g = (1 + abs(D)) / n  # by which one sample moves the difference at most
        error = np.sqrt(max(one.standard_error**2, margin * g) + 2 * g**2)
        wanted = max(stats.norm.sf((D + margin) / error), stats.norm.sf((margin - D) / error))
        assert found.p_value == pytest.approx(wanted, rel=1e-9)
        assert found.low == pytest.approx(D - stats.norm.ppf(0.95) * error, rel=1e-9)
        assert (found.p_value <= 0.05) == (-margin < found.low and found.high < margin)
    assert found.explain().startswith("accuracy differs by less than 0.3: between +0.")
    assert "could differ by more than 0.1:" in uncertainty.equivalence(T, "accuracy", 0.1).explain()
    far = uncertainty.equivalence([1] * 99, [1] * 99, [1] * 50 + [0] * 49, "accuracy", 0.01)
    assert far.low > 0.01
    assert far.explain().startswith("accuracy differs by more than 0.01: between +0.")
    assert "(90 % interval)" in far.explain()
    back = uncertainty.equivalence([1] * 99, [1] * 50 + [0] * 49, [1] * 99, "accuracy", 0.01)
    assert back.explain().startswith("accuracy differs by more than 0.01: between -0.")
    per_class = uncertainty.equivalence(T, "recall", 0.5)
    assert per_class.explain() == f"recall differs by less than 0.5 in {(per_class.p_value <= 0.05).sum()} of 3"
    assert repr(per_class).startswith("<Equivalence: recall 1, a batch of 3, p at most")
    with pytest.raises(TypeError, match=r"^uncertainty\.equivalence: name must be one metric, got \['mcc'\]"):
        uncertainty.equivalence(T, ["mcc"], 0.1)
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        nothing = uncertainty.equivalence(uncertainty.paired_counts([], [], []), "accuracy", 0.1)
    assert nothing.explain() == "accuracy has no standard error"


def test_equivalence_is_no_matter_of_few_samples():
    """Two that agreed in 30 samples were told to differ by less than one percent, with p = 0."""
    for n, sure in ((30, False), (200, False), (1000, True)):
        y = np.arange(n) % 2
        same_answers = uncertainty.equivalence(uncertainty.paired_counts(y, y, y), "accuracy", 0.01)
        assert same_answers.standard_error == 0
        assert (same_answers.p_value <= 0.05) == sure
        assert same_answers.low < 0 < same_answers.high
    for clusters, sure in ((np.arange(1000) // 50, False), (np.arange(1000) // 2, True)):
        T = uncertainty.paired_counts(y, y, y, clusters=clusters)
        assert (uncertainty.equivalence(T, "accuracy", 0.02).p_value <= 0.05) == sure
    y = np.r_[np.zeros(6), 1 + np.arange(994) % 2].astype(int)  # six of a class say little of its recall
    T = uncertainty.paired_counts(y, y, y)
    assert uncertainty.equivalence(T, "accuracy", 0.02).p_value < 0.01
    assert uncertainty.equivalence(T, "balanced_accuracy", 0.02).p_value > 0.3
    recalls = uncertainty.equivalence(T, "recall", 0.2)
    assert (recalls.p_value <= 0.05).tolist() == [False, True, True]


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1_macro"])
@pytest.mark.parametrize("n", [200, 1000])
def test_models_as_far_apart_as_the_margin_are_seldom_called_equivalent(name, n):
    """One in twenty may be; of 300 samples it was one in five."""
    rng, repetitions = np.random.default_rng(n), 1500
    shape = (repetitions, n)
    y = rng.choice(3, shape, p=[0.1, 0.45, 0.45])
    a, b = y.copy(), np.where(rng.random(shape) < 0.02, (y + 1) % 3, y)
    whole = uncertainty.paired_counts(*map(np.ravel, (y, a, b)))
    true = abs(uncertainty.compare(whole, name, method="delta").difference)
    T = uncertainty.paired_counts(*map(np.ravel, (y, a, b)), groups=np.repeat(np.arange(repetitions), n))
    found = uncertainty.equivalence(T, name, float(true))
    assert (found.p_value <= 0.05).mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions)


def models(rng):
    y = rng.integers(0, 3, 400)
    said = {
        name: np.where(rng.random(400) < share, y, 0) for name, share in zip("abcd", (0.9, 0.88, 0.8, 0.5), strict=True)
    }
    return {(a, b): uncertainty.paired_counts(y, said[a], said[b], groups=y % 2) for a, b in combinations("abcd", 2)}


def test_every_two_of_several(rng):
    pairs = models(rng)
    found = uncertainty.compare_many(pairs, ["f1_macro", "recall"], n_resamples=500, undefined="nan", rng=7)
    assert list(found) == ["f1_macro", "recall"]
    for name, many in found.items():
        assert list(many.pairs) == list(pairs)
        for pair, one in many.pairs.items():
            assert same(one, uncertainty.compare(pairs[pair], name, n_resamples=500, undefined="nan", rng=7))
        p = np.array([one.p_value for one in many.pairs.values()])
        known = ~np.isnan(p).any(0)
        assert (np.isnan(many.holm) == np.isnan(p)).all()
        np.testing.assert_allclose(
            many.benjamini_hochberg[:, known], stats.false_discovery_control(p[:, known], axis=0), rtol=1e-12
        )
        assert (many.holm >= many.benjamini_hochberg)[:, known].all()
    assert len(found["f1_macro"].to_pandas()) == 12
    assert "the smallest p is" in found["f1_macro"].explain()
    alone = uncertainty.compare_many({("x", "y"): next(iter(pairs.values()))}, "mcc", n_resamples=50)
    assert (alone.holm == alone.pairs["x", "y"].p_value).all()
    assert repr(alone).startswith("<Comparisons: mcc 1 pair, ")
    assert uncertainty.compare_many({}, "mcc").explain() == "no pairs"
    assert isinstance(found, cmfast.results.PairwiseComparisonsByMetric)
    different = [int((many.holm <= 0.05).any(tuple(range(1, many.holm.ndim))).sum()) for many in found.values()]
    said = f"6 pairs; f1_macro {different[0]} differ, recall {different[1]} differ"
    assert repr(found) == f"<PairwiseComparisonsByMetric: {said}>"
    assert repr(found["recall"]) == f"<Comparisons: recall 6 pairs, {different[1]} differ>"  # pairs, not their classes
    every = uncertainty.compare_many(pairs, n_resamples=9)
    assert repr(every) == f"<PairwiseComparisonsByMetric: 6 pairs; {len(every)} metrics>"
    assert repr(uncertainty.compare_many(pairs, [])) == "<PairwiseComparisonsByMetric: no metrics>"
    generator = np.random.default_rng(5)
    assert uncertainty.compare_many(pairs, "mcc", n_resamples=9, rng=generator).holm.shape == (6, 2)


def test_holm_by_its_definition(rng):
    for p in (rng.random(7) ** 3, np.array([0.01, 0.01, 0.2, 1.0]), np.array([np.nan, 0.04, 0.01])):
        found, known = _compare_many.holm(p), np.flatnonzero(~np.isnan(p))
        order = known[np.argsort(p[known], kind="stable")]
        most = 0.0
        for k, at in enumerate(order):
            most = max(most, min(1.0, (len(order) - k) * p[at]))
            assert found[at] == pytest.approx(most, rel=1e-15)
        assert np.isnan(found[np.isnan(p)]).all()


def test_corrections_are_those_of_statsmodels(rng):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = rng.random(20) ** 4
    for ours, theirs in ((_compare_many.holm, "holm"), (_compare_many.benjamini_hochberg, "fdr_bh")):
        np.testing.assert_allclose(ours(p), multitest.multipletests(p, method=theirs)[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([1], r"counts_by_pair must be a dict of \(first, second\) to PairedCounts, as .*, got list"),
        ({"ab": 3}, r"counts_by_pair must be by two names, \(first, second\), got 'ab'"),
        ({("a", "b"): 3}, r"counts_by_pair\[\('a', 'b'\)\] must be PairedCounts"),
    ],
)
def test_pairs_that_are_none(pairs, text):
    with pytest.raises(TypeError, match=rf"^uncertainty\.compare_many: {text}"):
        uncertainty.compare_many(pairs, "mcc")
    with pytest.raises(ValueError, match="counts_by_pair must be of the same groups and classes"):
        uncertainty.compare_many(
            {(k, 0): uncertainty.paired_counts(y, y, y) for k, y in enumerate(([0, 1], [1, 2]))}, "f1"
        )


def test_as_many_samples_or_clusters_differ_whichever_test_is_made(labels):
    y, a, b = labels
    groups, clusters = np.arange(len(y)) % 3, np.arange(len(y)) // 5
    for options in ({}, {"groups": groups}, {"clusters": clusters}, {"groups": groups, "clusters": clusters}):
        T = uncertainty.paired_counts(y, a, b, **options)
        found = [
            uncertainty.compare(T, "accuracy", method="delta", test=test, n_resamples=20).n_discordant
            for test in ("permutation", "interval")
        ]
        assert np.array_equal(*found)
        if "clusters" not in options:
            wanted = [((a != b) & (groups == g)).sum() for g in range(3)] if "groups" in options else (a != b).sum()
            assert np.array_equal(found[0], wanted)
