"""Every class of results: a repr of one line, HTML, words, a table and a picture, or the reason why it has none."""

import html
import inspect
import pickle
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import conformal, contingency, metrics, results, uncertainty
from cmfast._core import results_by_name

M = np.array([[8, 1, 1], [2, 6, 1], [1, 1, 9]])
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
A, B = (np.where(RNG.random(300) < share, Y, RNG.integers(0, 3, 300)) for share in (0.8, 0.6))
S = RNG.random(300)
X = RNG.normal(size=(300, 2)) + Y[:, None]
PAIRS = uncertainty.paired_counts(Y, A, B)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
    GCM = cmfast.geometric_confusion_matrix(X, Y, A, weights=["row", "bi"], smoothing=0.5)
SETS = conformal.prediction_sets(RNG.dirichlet(np.ones(3), 20), [0.5, 0.9])
FEW = {"n_resamples": 20}
GROUPS, QUIET = np.stack([M, M.T + 1]), {**FEW, "on_failure": "ignore"}


def support():
    return cmfast.support([[1, 1], [0, 1]])


# What each function returns, and how many rows its table has.
RESULTS = {
    "Agreement": (lambda: cmfast.agreement.compute([[0, 0], [0, 1], [1, 1]] * 9, "fleiss_kappa"), 1),
    "AgreementsByCoefficient": (
        lambda: cmfast.agreement.compute([[0, 0], [0, 1], [1, 1]] * 9, ["fleiss_kappa", "gwet_ac1"]), 2,
    ),
    "AucCovariance": (lambda: uncertainty.auc_covariance(Y > 0, [S, S + Y]), 2),
    "BalanceResult": (lambda: cmfast.balance(([0, 0, 1], [1, 2, 2], [1, 2, 3], 3), symmetric="upper"), 3),
    "ClassificationReport": (lambda: metrics.classification_report(M), 5),
    "Collapsed": (lambda: metrics.collapse(M, ["a", "a", "b"]), 2),
    "Comparison": (lambda: uncertainty.compare(PAIRS, "mcc", **FEW), 1),
    "Comparisons": (lambda: uncertainty.compare_many({("a", "b"): PAIRS, ("b", "c"): PAIRS}, "mcc", **FEW), 2),
    "ComparisonsByMetric": (lambda: uncertainty.compare(PAIRS, ["mcc", "recall"], **FEW), 4),
    "Confusions": (lambda: metrics.most_confused(M, 2), 2),
    "Equivalence": (lambda: uncertainty.equivalence(PAIRS, "accuracy", 0.1), 1),
    "GcmDiagnostics": (lambda: GCM.diagnostics, 2),
    "GcmResult": (lambda: GCM, 6),
    "GroupComparison": (lambda: uncertainty.compare_groups(GROUPS, "recall", **QUIET), 6),
    "GroupComparisonsByMetric": (lambda: uncertainty.compare_groups(GROUPS, ["recall", "mcc"], **QUIET), 4),
    "Hull": (lambda: contingency.convex_hull([[0.5, 0.75]]), 3),
    "Interval": (lambda: uncertainty.interval(M, "recall", method="normal"), 3),
    "Intervals": (lambda: uncertainty.interval(M, ["recall", "mcc"], method="normal"), 4),
    "LearningPath": (lambda: contingency.learning_path(np.stack([M, M + 5])), 6),
    "LeastCost": (lambda: metrics.least_cost(Y > 0, S, [[0, 1], [2, 0]]), 1),
    "Margins": (lambda: metrics.margins(M), 3),
    "Matches": (lambda: cmfast.detection.match([[0, 0, 1, 1]], [[0, 0, 1, 1], [5, 5, 6, 6]]), 2),
    "McNemar": (lambda: uncertainty.mcnemar(PAIRS), 1),
    "PairwiseComparisonsByMetric": (
        lambda: uncertainty.compare_many({("a", "b"): PAIRS, ("b", "c"): PAIRS}, ["mcc", "recall"], **FEW), 8,
    ),
    "Posterior": (lambda: uncertainty.posterior(M, "recall", **FEW), 3),
    "PosteriorsByMetric": (lambda: uncertainty.posterior(M, ["recall", "mcc"], **FEW), 4),
    "PrecisionRecall": (lambda: metrics.precision_recall([1, 0, 1], [0.9, 0.2, 0.6]), 4),
    "PredictionSets": (lambda: SETS, 40),
    "RakeResult": (lambda: cmfast.rake([[1.0], [2.0]], [6.0]), 2),
    "Roc": (lambda: metrics.roc([1, 0, 1], [0.9, 0.2, 0.6]), 4),
    "ScalingResult": (lambda: cmfast.ipf(M), 3),
    "Sensitivity": (lambda: contingency.imbalance_sensitivity("f1", [2.0, 3.0], size=2), 2),
    "SizeCoverage": (lambda: SETS.coverage_by_size(RNG.integers(0, 3, 20)), 8),
    "SparseHistogram": (GCM.cells.label_histogram, len(GCM.cells.label_histogram())),
    "Support": (support, 4),
    "Symmetry": (lambda: uncertainty.bowker(PAIRS), 1),
    "TargetEstimate": (lambda: cmfast.estimate_for_target(M, class_shares=[0.5, 0.3, 0.2]), 3),
    "ThresholdMatrices": (lambda: metrics.threshold_matrices([1, 0, 1], [0.9, 0.2, 0.6]), 4),
    "WidthCurve": (lambda: cmfast.width_curve(X, Y, A, weights="row", factors=(0.5, 1, 2), origins=2), 3),
    "Certificate": (lambda: support().certificate, 4),
    "Flip": (lambda: PAIRS.flips()[0], 1),
    "MarginsResult": (lambda: cmfast.ipf_nd(M, [((0, 1), M)]), 9),
    "MarginsSupport": (lambda: cmfast.support_nd([[1, 1], [0, 1]], [(0, [1, 1]), (1, [1, 1])]), 4),
    "RoundedTable": (lambda: cmfast.round_to_margins([[0.5, 0.5], [0.5, 0.5]]), 4),
    "HtmlReport": (lambda: cmfast.report(Y, A, n_resamples=20), None),
    "Metric": (lambda: next(one for one in metrics.METRICS if one.name == "mcc"), None),
    "CcmCounts": (lambda: conformal.ccm(conformal.prediction_sets(RNG.dirichlet(np.ones(3), 20), [0.5])), 9),
    "CellCounts": (lambda: GCM.cells, len(GCM.cells)),
    "ConfusionCounts": (lambda: cmfast.ConfusionCounts.from_labels(Y, A), 3),
    "CoverageCounts": (
        lambda: conformal.coverage_confusion(conformal.prediction_sets(np.eye(3), [0.5]), [0, 1, 2]), 9,
    ),
    "PairedCounts": (lambda: PAIRS, len(PAIRS.counts)),
    "Projection": (lambda: cmfast.pca(X, 2), 2),
    "ScoreHistogram": (lambda: conformal.score_histogram([0.1, 0.7], bins=4), 5),
}  # fmt: skip
MAKERS = {name: make for name, (make, _) in RESULTS.items()}
METHODS = ("explain", "to_pandas", "plot")
# Every result has all of METHODS, except for a reason.
EXCEPTIONS = {
    ("Certificate", "plot"): "Support.plot() draws it in its matrix",
    ("Flip", "plot"): "one cell of the counts, whose PairedCounts.plot() draws all",
    ("HtmlReport", "explain"): "the page has sentences",
    ("HtmlReport", "plot"): "the page has pictures",
    ("HtmlReport", "to_pandas"): "the page has many tables; to_dict() has their numbers",
    ("Metric", "explain"): "the definition of a metric: its repr and its formula say what it is",
    ("Metric", "plot"): "the definition of a metric, which has no data",
    ("Metric", "to_pandas"): "the definition of a metric, which has no data",
}
# Public classes that are no results.
OTHERS = {
    "CellAccumulator": "collects points; counts() returns the result",
    "DiagnosticWarning": "a warning",
    "FailureError": "an error",
    "FailureWarning": "a warning",
    "Grid": "an argument: origin and widths of the cells",
    "PcaAccumulator": "collects points; projection() returns the result",
    "Status": "codes",
}
DRAWN = [name for name in RESULTS if (name, "plot") not in EXCEPTIONS]


def made(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        return MAKERS[name]()


def find_public_classes():
    """Return the public classes by name, those of cmfast.display excepted, which has tests of its own."""
    spaces = [cmfast, cmfast.geometry, cmfast.margins, cmfast.zeros]
    spaces += [one for name in cmfast.__all__ if inspect.ismodule(one := getattr(cmfast, name)) and name != "display"]
    found = (getattr(space, name) for space in spaces for name in space.__all__)
    return {one.__name__: one for one in found if inspect.isclass(one)}


def test_every_class_is_here():
    classes = find_public_classes()
    assert set(RESULTS).isdisjoint(OTHERS)
    assert set(classes) == set(RESULTS) | set(OTHERS)
    assert set(results.__all__) <= set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_words_a_table_and_a_picture(name):
    cls = find_public_classes()[name]
    for method in METHODS:
        excepted = (name, method) in EXCEPTIONS
        assert hasattr(cls, method) != excepted, f"{name}.{method}: {'stale exception' if excepted else 'missing'}"


def test_exceptions_have_a_reason():
    assert all(name in RESULTS and method in METHODS for name, method in EXCEPTIONS)
    assert all(len(reason.split()) > 2 for reason in EXCEPTIONS.values())


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_one_line_and_html(name):
    found = made(name)
    assert isinstance(found, find_public_classes()[name])
    assert type(found).__name__ == name
    assert "\n" not in repr(found)
    assert len(repr(found)) <= 170
    shown = found._repr_html_()
    assert re.match(r"<\w", shown)
    assert re.search(r"<(table|img|svg)\b", html.unescape(shown))  # a page of its own is in an attribute


@pytest.mark.parametrize("name", [name for name in RESULTS if (name, "explain") not in EXCEPTIONS])
def test_a_result_explains_itself(name):
    said = made(name).explain()
    assert len(said.split()) > 1
    assert said == said.strip()


@pytest.mark.parametrize("name", [name for name in RESULTS if (name, "to_pandas") not in EXCEPTIONS])
def test_a_result_is_a_table(name):
    table = made(name).to_pandas()
    assert isinstance(table, pd.DataFrame)
    assert len(table) == RESULTS[name][1]
    assert len(table.columns)


@pytest.mark.pictures
@pytest.mark.parametrize("name", DRAWN)
def test_a_result_draws_itself(name):
    plt = pytest.importorskip("matplotlib.pyplot")
    found = made(name)
    drawn = found.plot()
    axes = plt.gcf().axes
    assert any(ax.has_data() for ax in axes)
    assert drawn is not None
    plt.close("all")
    if name != "GcmResult":  # which draws several axes side by side
        _, ax = plt.subplots()
        found.plot(ax=ax)
        assert ax.has_data()
        assert len(plt.get_fignums()) == 1
        plt.close("all")


@pytest.mark.pictures
def test_pictures_have_the_values():
    plt = pytest.importorskip("matplotlib.pyplot")
    counts = cmfast.ConfusionCounts.from_labels(["a$"] * 9 + ["b"] * 4, ["a$"] * 6 + ["b"] * 3 + ["a$"] + ["b"] * 3)
    ax = metrics.most_confused(counts, 5, by="rate").plot()
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [3 / 9, 1 / 4])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a$ and b", "b and a$"]
    assert [text.get_text() for text in ax.texts] == ["0.3333", "0.25"]
    with pytest.raises(ValueError, match=r"plot draws the confusions of one matrix, got a batch of \(2,\)"):
        metrics.most_confused(np.stack([M, M]), 2).plot()
    areas = uncertainty.auc_covariance(Y > 0, [S, S + 0.3 * Y])
    ax = areas.plot()
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), areas.auc)
    ends = [np.array(path.vertices)[:, 0] for path in ax.collections[0].get_paths()]
    np.testing.assert_array_equal(ends, np.stack([areas.interval().low, areas.interval().high], 1))
    ax = results.SizeCoverage(np.array([[0, 4, 5], [0, 0, 9]]), np.array([[0, 1, 4], [0, 0, 8]])).plot()
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[1, 1 / 4], [2, 4 / 5]], [[2, 8 / 9]]]
    plt.close("all")


def test_tables_have_the_values():
    table = metrics.roc([1, 0, 1], [0.9, 0.2, 0.6]).to_pandas()
    assert table["fpr"].tolist() == [0, 0, 0, 1]
    assert table["tpr"].tolist() == [0, 0.5, 1, 1]
    table = metrics.threshold_matrices([1, 0, 1], [0.9, 0.2, 0.6]).to_pandas()
    assert table[["tn", "fp", "fn", "tp"]].values.tolist() == [[1, 0, 2, 0], [1, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 2]]
    assert metrics.collapse(M, ["a", "a", "b"]).to_pandas().loc["b", "a"] == 2
    batch = cmfast.ipf(np.stack([M, M.T]))
    table = batch.to_pandas()
    assert table.index.names == ["batch", "true"]
    np.testing.assert_array_equal(table.loc[1], batch.matrix[1])
    draws = np.arange(101.0)
    table = results.Posterior(draws).to_pandas()
    assert table[["mean", "low", "high"]].values.tolist() == [[50.0, 2.5, 97.5]]
    none = results.Posterior(np.stack([draws, draws * np.nan])).to_pandas()
    assert none.loc[1, ["mean", "low", "high"]].isna().all()
    assert none.loc[0, "low"] == 2.5
    interval = made("Interval")
    np.testing.assert_array_equal(interval.to_pandas()["low"], interval.low)
    compared = made("ComparisonsByMetric")
    assert compared.to_pandas()["name"].tolist() == ["mcc"] + ["recall"] * 3
    assert compared.to_pandas()["difference"][0] == compared["mcc"].difference
    assert "<th>mcc</th>" in compared._repr_html_()
    assert compared.explain().splitlines()[0] == compared["mcc"].explain()
    pairwise = made("PairwiseComparisonsByMetric")
    assert list(pairwise.items()) == [(name, pairwise[name]) for name in pairwise.keys()]  # noqa: SIM118
    assert pairwise.to_pandas()["name"].tolist() == ["mcc"] * 2 + ["recall"] * 6
    assert pairwise.to_pandas()["holm"][0] == pairwise["mcc"].holm[0]
    assert pairwise._repr_html_().count("<th>recall</th><td><bdi>a</bdi> minus <bdi>b</bdi>, ") == 3
    assert pairwise.explain().splitlines()[0] == "mcc, " + pairwise["mcc"].explain().splitlines()[0]
    histogram = GCM.cells.label_histogram()
    np.testing.assert_array_equal(histogram.to_pandas()[["axis_0", "axis_1"]], histogram.cells)
    sizes = SETS.coverage_by_size(np.zeros(20, int))
    assert sizes.to_pandas().query("threshold == 1")["n"].tolist() == sizes.n[1].tolist()


BY_NAME = [name for name in RESULTS if issubclass(getattr(results, name, object), Mapping)]


@pytest.mark.parametrize("name", BY_NAME)
def test_results_by_name_are_one_kind_of_mapping(name):
    found = made(name)
    assert isinstance(found, results_by_name.ResultsByName)
    assert list(found.values()) == [found[key] for key in found]
    assert found.get("nothing") is None
    with pytest.raises(KeyError):
        found["nothing"]
    assert pickle.loads(pickle.dumps(found)).keys() == found.keys()
    assert repr(replace(found, _found={})).startswith(f"<{name}: ")
    assert replace(found, _found={}).explain().startswith("no ")
    assert replace(found, _found={}).to_pandas().empty


@pytest.mark.parametrize("name", BY_NAME)
def test_html_of_many_results_has_a_limit(name):
    found = made(name)
    one = next(iter(found.values()))
    if hasattr(one, "name"):
        many = replace(found, _found={f"m{k}": one._replace(name=f"m{k}") for k in range(150)})
    else:
        many = replace(found, _found={f"m{k}": one for k in range(150)})
    shown = many._repr_html_()
    assert shown.count("<tr>") == 1 + results_by_name.MOST_SHOWN_ROWS
    assert re.search(r"<p>the first 100 of [\d,]+ rows; to_pandas\(\) returns all</p>$", shown)
    assert "the first" not in found._repr_html_()
    assert "\n" not in repr(many)
    assert len(repr(many)) < 120
    assert len(many.to_pandas()) >= 150


def test_names_of_groups_and_classes_are_isolated_in_tables():
    rng = np.random.default_rng(0)
    y, a, b = (rng.choice(["<i>", "u"], 200) for _ in range(3))
    site = rng.choice(["<b>", "v"], 200)
    compared = uncertainty.compare(y, a, b, ["recall", "mcc"], **FEW)
    assert "<th>recall, <bdi>&lt;i&gt;</bdi></th>" in compared._repr_html_()
    assert "recall, <i>" in compared["recall"]._rows()[0]
    groups = uncertainty.compare_groups(y, a, site, ["recall", "accuracy"], **QUIET)
    assert "<th>recall, <bdi>&lt;i&gt;</bdi></th><td><bdi>" in groups._repr_html_()
    assert "<bdi>&lt;b&gt;</bdi>" in groups._repr_html_()


def test_what_has_no_matrix_says_so():
    with pytest.raises(TypeError, match="ras returns no matrix"):
        cmfast.ras(M).to_pandas()
    with pytest.raises(ValueError, match="one matrix"):
        cmfast.ipf(np.stack([M, M])).plot()


HINTS = {
    "Comparison": {"pvalue": "it is called p_value", "confidence_interval": "its ends are low and high"},
    "McNemar": {
        "pvalue": "it is called p_value",
        "df": "it is called degrees",
        "conf_int": r"the test has no interval; uncertainty.compare\(y_true, y_a, y_b, \"accuracy\"\) computes one",
        "round": r"to_pandas\(\).round\(3\)",
    },
    "GroupComparison": {
        "confidence_interval": "difference_low and difference_high are .* of the difference, low and high those of",
        "statistic": "difference is the largest minus the smallest value, pair_difference that of each pair",
        "stat": "difference is the largest",
    },
    "GroupComparisonsByMetric": {"p_value": r"each result has its own, as in result\['recall'\].p_value$"},
    "Interval": {
        "conf_int": "its ends are low and high",
        "stderr": "it is called standard_error",
        "round": r"to_pandas\(\).round\(3\) is a rounded table$",
    },
    "Intervals": {
        "confidence_interval": r"of each result, as of result\['recall'\], its ends are low and high$",
        "low": r"each result has its own, as in result\['recall'\].low$",
        "round": r"to_pandas\(\).round\(3\) is a rounded table$",
    },
    "ComparisonsByMetric": {
        "to_csv": r"to_pandas\(\).to_csv\(path\) writes",
        "pvalue": r"of each result, as of result\['mcc'\], it is called p_value$",
    },
    "PairwiseComparisonsByMetric": {"holm": r"each result has its own, as in result\['mcc'\].holm$"},
    "ScalingResult": {
        "T": "matrix is the array",
        "values": "matrix is the array",
        "cm": "it is called matrix",
        "savefig": r"plot\(\) draws it, and matplotlib.pyplot.savefig\(path\) then saves it",
        "converged": r"cmfast.Status\(result.status\)",
    },
    "Posterior": {"samples": "it is called draws"},
    "Roc": {"auc": r"metrics.roc_auc\(y_true, y_score\)"},
    "HtmlReport": {"to_html": "it is called html"},
    "RakeResult": {"shape": "weights is the array", "weightss": "did you mean 'weights'"},
}


@pytest.mark.parametrize("name", HINTS)
def test_an_attribute_of_another_library_says_what_to_use(name):
    found = made(name)
    for attribute, text in HINTS[name].items():
        with pytest.raises(AttributeError, match=rf"^'{name}' object has no attribute '{attribute}'; .*{text}"):
            getattr(found, attribute)
        assert not hasattr(found, attribute)


def test_a_method_is_not_called_an_array():
    with pytest.raises(AttributeError, match=r"'T'; of each result, as of result\['recall'\], estimate is the array$"):
        _ = made("Intervals").T


@pytest.mark.parametrize("name", results.__all__)
def test_methods_of_tuples_are_never_proposed(name):
    found = made(name)
    for attribute in ("counts", "coun", "inde"):
        with pytest.raises(AttributeError) as error:
            getattr(found, attribute)
        assert not any(text in str(error.value) for text in ("'count'", "'index'")), error.value


@pytest.mark.parametrize("name", results.__all__)
def test_an_attribute_that_means_nothing_is_only_missing(name):
    with pytest.raises(AttributeError, match=r"^'\w+' object has no attribute 'qxz'$"):
        _ = made(name).qxz


def test_displays_and_counts_say_so_too():
    display = cmfast.display.ConfusionDisplay.from_matrix(M)
    with pytest.raises(AttributeError, match=r"'ax_'; plot\(\) draws the display and sets it"):
        _ = display.ax_
    with pytest.raises(AttributeError, match=r"'show'; plot\(\) draws it, and matplotlib.pyplot.show\(\)"):
        display.show()
    counts = cmfast.ConfusionCounts.from_labels(Y, A)
    for attribute, text in {"cm": "it is called matrix", "head": r"to_pandas\(\) is a table"}.items():
        with pytest.raises(AttributeError, match=text):
            getattr(counts, attribute)


def test_numpy_reads_the_array_of_a_result():
    for name, field in {"ScalingResult": "matrix", "RakeResult": "weights", "MarginsResult": "table"}.items():
        found = made(name)
        np.testing.assert_array_equal(np.asarray(found), getattr(found, field))
        assert np.asarray(found, np.float32).dtype == np.float32
    assert np.array(made("Posterior")).shape == made("Posterior").draws.shape
    with pytest.raises(TypeError, match="the result has no matrix"):
        np.asarray(cmfast.ras(M))


def test_counts_of_prediction_sets_are_tables():
    y = RNG.integers(0, 3, 20)
    counts = conformal.coverage_confusion(SETS, y)
    table = counts.to_pandas()
    assert list(table) == ["batch", "true", "class", "V", "n", "rate"]
    mask = SETS.mask
    for row in table.itertuples():
        held = mask[row.batch, y == row.true, row[3]]
        assert (row.V, row.n) == (held.sum(), len(held))
        assert row.rate == held.mean()
    found = conformal.ccm(SETS)
    table = found.to_pandas()
    assert list(table) == ["batch", "first", "second", "G", "n", "correlation"]
    assert len(table) == 18
    for row in table.itertuples():
        both = mask[row.batch, :, row.first], mask[row.batch, :, row.second]
        assert (row.G, row.n) == ((both[0] & both[1]).sum(), 20)
    np.testing.assert_array_equal(table["correlation"].to_numpy().reshape(2, 3, 3), found.correlation())
    table = conformal.score_histogram([0.1, 0.7, 0.4, 2.0], bins=4).to_pandas()
    assert table.values.tolist() == [
        [0, 0, 0.25, 1],
        [1, 0.25, 0.5, 1],
        [2, 0.5, 0.75, 1],
        [3, 0.75, 1, 0],
        [4, 1, np.inf, 1],
    ]


def test_tick_labels_name_the_metric_and_the_model():
    pytest.importorskip("matplotlib").use("agg")
    found = uncertainty.auc_covariance(Y > 0, {"new": S + 0.3 * Y, "old": S}).interval()
    assert [text.get_text() for text in found.plot().get_yticklabels()] == ["roc_auc [new]", "roc_auc [old]"]
    named = uncertainty.interval(Y, A, "recall", method="wilson").plot()
    assert [text.get_text() for text in named.get_yticklabels()] == ["recall [0]", "recall [1]", "recall [2]"]


def test_doubts_about_the_order_of_samples_are_issued_once():
    a, b = (pd.Series(one, index=np.arange(300) + k) for one, k in ((Y, 1000), (A, 1290)))
    X_of = pd.DataFrame(X)
    for call in (
        lambda: uncertainty.compare_many(a, {"x": b, "y": b + 0, "z": b * 1}, "accuracy", n_resamples=20),
        lambda: cmfast.geometric_confusion_matrix(X_of, a, b),
        lambda: cmfast.geometric_confusion_matrix(X_of, "c" + a.astype(str), "c" + b.astype(str)),
    ):
        with pytest.warns(cmfast.DiagnosticWarning) as caught:
            call()
        assert sum("by position" in str(one.message) for one in caught) == 1, call


@pytest.mark.parametrize("pair", [((0,), pd.Series([5.0, 6.0], index=["o", "y"])), (0, [5.0, 6.0])])
def test_positions_of_axes_of_a_table_name_the_column(pair):
    table = pd.DataFrame({"age": ["o", "y"], "n": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"ipf_cells: margins.* name the column, as in \('age', totals\)$"):
        cmfast.ipf_cells("n", table, [pair])
