"""Class names of counts reach every result that is made of them, in its table, its text and its picture."""

import copy
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import agreement, conformal, display, metrics, results, uncertainty

pytestmark = pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")  # the samples are few
Y = ["cat", "dog", "dog", "bird", "cat", "bird"] * 5
P = ["cat", "cat", "dog", "bird", "cat", "dog"] * 5
SITES = ["x", "y"] * 15
NAMES = ["bird", "cat", "dog"]
RECALLS = [0.5, 1.0, 0.5]
C = cmfast.ConfusionCounts.from_labels(Y, P)
G = cmfast.ConfusionCounts.from_labels(Y, P, groups=SITES)
FEW = {"n_resamples": 50}


@pytest.mark.parametrize("make", [
    lambda: C.interval("recall", **FEW), lambda: uncertainty.interval(C, "recall", **FEW),
    lambda: uncertainty.interval(Y, P, "recall", method="normal"),
    lambda: copy.deepcopy(C.interval("recall", **FEW)), lambda: pickle.loads(pickle.dumps(C.interval("recall", **FEW))),
], ids=["method", "counts", "labels", "copied", "pickled"])  # fmt: skip
def test_an_interval_names_its_classes(make):
    found = make()
    table = found.to_pandas()
    assert table["class"].tolist() == NAMES
    assert table["index"].tolist() == ["0", "1", "2"]
    assert table["estimate"].tolist() == RECALLS
    assert found.axes == {"class": tuple(NAMES)}
    assert isinstance(found, results.Interval)
    assert len(found) == 5
    assert type(found).__name__ == "Interval"


def test_intervals_of_groups_and_of_cells():
    table = G.interval(["recall", "accuracy"], **FEW).to_pandas()
    rows = [(group, name) for group in "xy" for name in NAMES]
    assert list(zip(table["group"][:6], table["class"][:6], strict=True)) == rows
    assert table["group"][6:].tolist() == ["x", "y"]
    assert table["class"][6:].isna().all()
    summed = uncertainty.interval(G, "recall", clusters=True, method="normal").to_pandas()
    assert list(summed)[:3] == ["metric", "class", "index"]
    cells = uncertainty.interval(C, of="row", **FEW).to_pandas()
    assert list(zip(cells["true"], cells["predicted"], strict=True)) == [(a, b) for a in NAMES for b in NAMES]
    drawn = uncertainty.posterior(G, ["recall"], **FEW)
    for table in (drawn["recall"].to_pandas(), drawn.to_pandas()):
        assert list(zip(table["group"], table["class"], strict=True)) == rows
    unnamed = uncertainty.interval(C.matrix, "recall", **FEW)
    assert list(unnamed.to_pandas())[:2] == ["metric", "index"]
    assert unnamed.axes == {}
    np.testing.assert_array_equal(unnamed, C.interval("recall", **FEW))


@pytest.mark.parametrize("make", [lambda found: found, copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))])
def test_an_interval_knows_its_metric_its_level_and_its_method(make):
    settings = {"method": "normal", "confidence_level": 0.9, "n_resamples": 0}
    found = make(uncertainty.interval(Y, P, "accuracy", method="normal", confidence_level=0.9))
    ends = f"{float(found.low):.4g} to {float(found.high):.4g}"
    assert found.explain() == f"accuracy: 0.6667, 90 % interval {ends} by normal"
    assert repr(found).startswith("<Interval: accuracy 0.667, low ")
    html = found._repr_html_()
    assert "<th><bdi>accuracy</bdi></th><td>0.667</td>" in html
    assert f"90 % interval {ends} by normal" in html
    table = found.to_pandas()
    assert list(table) == ["metric", *results.Interval._fields]
    assert table["metric"].tolist() == ["accuracy"]
    assert table.attrs == settings
    several = make(C.interval(["recall", "accuracy"], method="normal", confidence_level=0.9))
    assert several["recall"].explain() == "recall: 3 intervals, 90 % by normal"
    assert several["recall"].to_pandas()["metric"].tolist() == ["recall"] * 3
    assert several["accuracy"].to_pandas().attrs == several.to_pandas().attrs == settings
    assert uncertainty.interval(C.matrix, of="row", **FEW).explain() == "9 intervals, 95 % by percentile"


def test_groups_have_the_names_of_their_keys():
    frame = pd.DataFrame({"y": Y, "p": P, "site": SITES, "year": [2020, 2021, 2021] * 10})
    options = {"y_true": "y", "y_pred": "p"}
    one = cmfast.by(frame, "site", **options).interval("accuracy", **FEW)
    assert repr(one).startswith("<Interval: site x, y, accuracy 1, 0.333, low ")
    assert one.to_pandas()["site"].tolist() == ["x", "y"]
    assert one.axes == {"group": ("x", "y")}
    assert repr(G.interval("accuracy", **FEW)).startswith("<Interval: group x, y, accuracy ")
    both = cmfast.by(frame, ["site", "year"], **options)
    pairs = [("x", 2020), ("x", 2021), ("y", 2020), ("y", 2021)]
    assert "site, year (x, 2020), (x, 2021), (y, 2020), (y, 2021), " in repr(both.interval("accuracy", **FEW))
    drawn = uncertainty.posterior(both, "recall", **FEW)
    for found in (both.interval("recall", **FEW), both.interval(["recall"], **FEW), drawn):
        table = found.to_pandas()
        assert list(zip(table["site"], table["year"], strict=True)) == [pair for pair in pairs for _ in NAMES]
        assert table["class"].tolist() == NAMES * 4
    for name in ("low", "class", "index"):  # columns that a table of intervals has
        renamed = frame.rename(columns={"site": name})
        table = cmfast.by(renamed, name, **options).interval("recall", **FEW).to_pandas()
        assert table["group"].tolist() == [site for site in "xy" for _ in NAMES]
    many = cmfast.by(frame.assign(site=range(30)), "site", **options).interval("accuracy", **FEW)
    assert repr(many).startswith("<Interval: accuracy 30 numbers")


def test_names_of_groups_and_metrics_are_isolated():
    counts = cmfast.ConfusionCounts.from_labels(Y, P, groups={"<site>": ["<b>", "y"] * 15})
    html = counts.interval("accuracy", method="normal")._repr_html_()
    assert "<bdi>&lt;site&gt;</bdi>" in html
    assert "<bdi>&lt;b&gt;</bdi>, <bdi>y</bdi>" in html
    assert "<b>" not in html


def test_names_of_intervals_are_escaped():
    counts = cmfast.ConfusionCounts.from_labels(["<b>", "y"] * 9, ["<b>", "y"] * 9)
    html = counts.interval(["recall"], method="wilson")._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_the_most_confused_classes():
    found = metrics.most_confused(C, 2)
    assert found.to_pandas()[["row", "col"]].to_numpy().tolist() == [["bird", "dog"], ["dog", "cat"]]
    assert found.row.tolist() == [0, 2]
    assert found.explain() == "bird and dog: 5\ndog and cat: 5"
    assert "bird and dog" in repr(found)
    assert "<bdi>bird</bdi>" in found._repr_html_()
    assert metrics.most_confused(C.matrix, 1).explain() == "class 0 and 2: 5"
    table = metrics.most_confused(G, 1).to_pandas()
    assert table["group"].tolist() == ["x", "y"]


def test_the_classification_report():
    assert list(metrics.classification_report(C).rows)[:3] == NAMES
    assert list(metrics.classification_report(C, display_labels=["a", "b", "c"]).rows)[:3] == ["a", "b", "c"]
    assert list(metrics.classification_report(C.matrix).rows)[:3] == ["0", "1", "2"]


def test_a_scaled_matrix():
    found = cmfast.ipf(C, smoothing=0.5)
    table = found.to_pandas()
    assert table.index.tolist() == table.columns.tolist() == NAMES
    np.testing.assert_array_equal(table, cmfast.ipf(C.matrix, smoothing=0.5).matrix)
    batch = cmfast.ipf(G, smoothing=0.5).to_pandas()
    assert batch.index.names == ["group", "true"]
    np.testing.assert_array_equal(batch.loc["y"], cmfast.ipf(G, smoothing=0.5).matrix[1])


@pytest.mark.pictures
def test_pictures_show_the_names():
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn = cmfast.ipf(C, smoothing=0.5).plot()
    assert [text.get_text() for text in drawn.ax_.get_xticklabels()] == NAMES
    said = " ".join(ax.get_ylabel() for ax in drawn.figure_.axes)
    assert "scaled value" in said
    assert "count" not in said
    ax = C.interval("recall", **FEW).plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"recall [{name}]" for name in NAMES]
    assert display.ConfusionDisplay.from_matrix(C).display_labels == NAMES
    assert "value" in repr(display.ConfusionDisplay.from_matrix([[0.5, 1], [2, 3]]))
    assert "count" in repr(display.ConfusionDisplay.from_matrix([[0.0, 1], [2, np.nan]]))
    plt.close("all")


def test_counts_are_an_array_for_numpy():
    found = np.asarray(C)
    np.testing.assert_array_equal(found, [[5, 0, 5], [0, 10, 0], [0, 5, 5]])
    assert found.dtype == np.int64
    assert np.asarray(C, float).dtype == np.float64
    assert np.asarray(G).shape == (2, 3, 3)
    copied = np.array(C)
    copied[0, 0] = 9
    assert C.matrix[0, 0] == 5
    np.testing.assert_array_equal(C.matrix - C, np.zeros((3, 3)))
    np.testing.assert_array_equal(pd.DataFrame(np.asarray(C), C.labels, C.labels), C.to_pandas())
    torch = pytest.importorskip("torch")
    assert torch.as_tensor(np.array(C)).tolist() == C.matrix.tolist()
    with pytest.raises(TypeError):
        torch.frombuffer(C)


def test_support_by_class():
    table = cmfast.support(C).to_pandas()
    assert table["class"].tolist() == NAMES * 2
    assert table["line"].tolist() == ["row"] * 3 + ["column"] * 3
    assert table["n_dead_cells"].tolist() == [1, 0, 1, 0, 1, 1]
    assert "class" not in cmfast.support(C.matrix).to_pandas()


def test_paired_counts_are_a_table():
    T = uncertainty.paired_counts(Y, P, Y, groups={"site": SITES}, clusters=[1, 2, 3] * 10)
    table = T.to_pandas()
    assert list(table) == ["site", "clusters", "truth", "first", "second", "n_samples"]
    plain = pd.DataFrame({"site": SITES, "clusters": [1, 2, 3] * 10, "truth": Y, "first": P, "second": Y})
    wanted = plain.value_counts(sort=False).sort_index().reset_index(name="n_samples")
    pd.testing.assert_frame_equal(table, wanted, check_dtype=False)


TEXT = np.array(NAMES)[np.random.default_rng(0).integers(0, 3, 200)]
IDS = np.array([NAMES.index(name) for name in TEXT])
GUESS = np.where(np.random.default_rng(1).random(200) < 0.3, "cat", TEXT)
POINTS = np.random.default_rng(2).normal(size=(200, 2)) + IDS[:, None]


@pytest.mark.parametrize(
    "kind", [np.asarray, list, pd.Series, pd.Categorical], ids=["array", "list", "series", "category"]
)
def test_text_in_a_geometric_matrix(kind):
    codes = [np.array([NAMES.index(name) for name in y]) for y in (TEXT, GUESS)]
    found = cmfast.geometric_confusion_matrix(POINTS, kind(TEXT), kind(GUESS), weights="row")
    wanted = cmfast.geometric_confusion_matrix(POINTS, *codes, weights="row")
    np.testing.assert_array_equal(found.matrix, wanted.matrix)
    assert found.to_pandas().index.tolist() == NAMES
    assert wanted.to_pandas().index.tolist() == [0, 1, 2]
    assert display.GcmDisplay.from_result(found)._drawn.names == NAMES


def test_text_that_a_geometric_matrix_refuses():
    with pytest.raises(TypeError, match="y_pred must be strings as y_true, got integers"):
        cmfast.geometric_confusion_matrix(POINTS, TEXT, IDS)
    with pytest.raises(ValueError, match="n_classes must be None where labels are text, got 3"):
        cmfast.geometric_confusion_matrix(POINTS, TEXT, GUESS, n_classes=3)
    with pytest.raises(ValueError, match=r"y_pred must be of shape \(200,\), one entry per point"):
        cmfast.geometric_confusion_matrix(POINTS, TEXT, GUESS[:9])


PROBABILITIES = np.random.default_rng(3).dirichlet(np.ones(3), 200)


@pytest.mark.parametrize(
    "kind", [np.asarray, list, pd.Series, pd.Categorical], ids=["array", "list", "series", "category"]
)
def test_text_in_conformal_scores(kind):
    s = conformal.scores(PROBABILITIES, kind(TEXT), labels=NAMES)
    np.testing.assert_array_equal(s, conformal.scores(PROBABILITIES, IDS))
    q = conformal.threshold(s, [0.1, 0.3])
    named = conformal.prediction_sets(PROBABILITIES, q, labels=NAMES)
    plain = conformal.prediction_sets(PROBABILITIES, q)
    np.testing.assert_array_equal(named.coverage(kind(TEXT)), plain.coverage(IDS))
    np.testing.assert_array_equal(named.mask, plain.mask)
    assert named.to_pandas().columns.tolist() == NAMES
    assert plain.to_pandas().columns.tolist() == [0, 1, 2]
    rates = conformal.coverage_confusion(named, kind(TEXT)).rates()
    np.testing.assert_array_equal(rates, conformal.coverage_confusion(plain, IDS).rates())


def test_other_labels_in_conformal_scores():
    found = conformal.scores(PROBABILITIES, IDS + 7, labels=[7, 8, 9])
    np.testing.assert_array_equal(found, conformal.scores(PROBABILITIES, IDS))
    with pytest.raises(TypeError, match="y must be integers, got text; pass labels=, the class of each column of P"):
        conformal.scores(PROBABILITIES, TEXT)
    with pytest.raises(ValueError, match=r"y must be of the labels .*, got .dog"):
        conformal.scores(PROBABILITIES, TEXT, labels=["bird", "cat", "cow"])
    with pytest.raises(ValueError, match="labels must be a sequence of 3 names, got 4"):
        conformal.scores(PROBABILITIES, TEXT, labels=[*NAMES, "cow"])
    with pytest.raises(ValueError, match="labels must be unique"):
        conformal.prediction_sets(PROBABILITIES, [0.5], labels=["a", "a", "b"])
    named = conformal.prediction_sets(PROBABILITIES, [0.5], labels=NAMES)
    with pytest.raises(ValueError, match="y must be of the labels"):
        named.coverage(IDS)


WORDS = ["cat", "dog", "fox"]
TABLE = pd.DataFrame([[8, 1, 2], [3, 9, 1], [1, 1, 7]], pd.Index(WORDS, name="y"), pd.Index(WORDS, name="p"))
PEOPLE = pd.DataFrame([[4, 1, 2], [3, 5, 1]], ["north", "south"], ["red", "green", "blue"])


@pytest.mark.parametrize("make", [
    cmfast.ipf, lambda M: cmfast.ipf(M, [1, 1, 1], [1, 1, 1]),
    lambda M: cmfast.estimate_for_target(M, class_shares=[1, 1, 1]),
], ids=["ipf", "ipf with sums", "estimate_for_target"])  # fmt: skip
def test_scaled_tables_and_counts_keep_their_names(make):
    counts = cmfast.ConfusionCounts.from_labels(*(np.array(WORDS)[k] for k in np.nonzero(np.ones((3, 3)))))
    for M in (TABLE, counts):
        found = make(M)
        frame = found.to_pandas()
        assert list(frame.index) == list(frame.columns) == WORDS
        np.testing.assert_array_equal(frame, found.matrix)
        assert pickle.loads(pickle.dumps(found)).to_pandas().equals(frame)
    assert [tick.get_text() for tick in found.plot().ax_.get_yticklabels()] == WORDS
    assert list(make(TABLE.to_numpy()).to_pandas().index) == [0, 1, 2]
    assert list(make(pd.DataFrame(TABLE.to_numpy())).to_pandas().index) == [0, 1, 2]


def test_rows_and_columns_of_a_table_keep_names_of_their_own():
    found = cmfast.ipf(PEOPLE, [1.0, 2.0], [1.0, 1.0, 1.0]).to_pandas()
    assert list(found.index) == ["north", "south"]
    assert list(found.columns) == ["red", "green", "blue"]


def test_intervals_and_reports_of_a_table_name_its_classes():
    found = uncertainty.interval(TABLE, "recall", method="normal")
    assert found.to_pandas()["class"].tolist() == WORDS
    np.testing.assert_array_equal(found, uncertainty.interval(TABLE.to_numpy(), "recall", method="normal"))
    several = uncertainty.interval(TABLE, ["recall", "accuracy"], method="normal").to_pandas()
    assert several["class"].tolist()[:3] == WORDS
    assert uncertainty.posterior(TABLE, "recall", **FEW).to_pandas()["class"].tolist() == WORDS
    assert list(metrics.classification_report(TABLE).rows)[:3] == WORDS
    assert display.ConfusionDisplay.from_matrix(TABLE).display_labels == WORDS
    assert metrics.most_confused(TABLE, 1).axes == {"class": tuple(WORDS)}


def test_ticks_of_one_interval_name_its_metric():
    def ticks(found):
        return [tick.get_text() for tick in found.plot().get_yticklabels()]

    assert ticks(C.interval("f1", **FEW)) == ["f1 [bird]", "f1 [cat]", "f1 [dog]"]
    assert ticks(uncertainty.interval(C.matrix, "f1", **FEW)) == ["f1 [0]", "f1 [1]", "f1 [2]"]
    assert ticks(C.interval("accuracy", **FEW)) == ["accuracy"]
    assert ticks(uncertainty.posterior(C, "f1", **FEW)) == ["f1 [bird]", "f1 [cat]", "f1 [dog]"]
    assert ticks(copy.deepcopy(C.interval("accuracy", **FEW))) == ["accuracy"]


def test_coefficients_of_agreement_have_a_name():
    ratings = np.random.default_rng(0).integers(0, 3, (40, 3))
    found = agreement.compute(ratings, "gwet_ac1")
    assert repr(found).startswith("<Agreement: gwet_ac1 ")
    assert [tick.get_text() for tick in found.plot().get_yticklabels()] == ["gwet_ac1"]
    both = agreement.compute(ratings, ["fleiss_kappa", "conger_kappa"])
    assert all(repr(one).startswith(f"<Agreement: {name} ") for name, one in both.items())


def test_a_posterior_says_what_it_is_of():
    drawn = uncertainty.posterior([[18, 2], [1, 9]], "accuracy", n_resamples=500, prior="laplace")
    assert repr(drawn) == f"<Posterior: accuracy mean {float(drawn.mean):.3g}, draws 500>"
    low, high = np.quantile(drawn.draws, (0.025, 0.975))
    text = f"accuracy: mean {float(drawn.mean):.3g}, standard deviation {float(drawn.standard_deviation):.3g}"
    assert drawn.explain() == f"{text}, 95 % of the draws {low:.4g} to {high:.4g}, prior laplace"
    table = drawn.to_pandas()
    assert list(table) == ["metric", "mean", "standard_deviation", "low", "high"]
    assert (table["metric"].tolist(), table.attrs) == (["accuracy"], {"prior": "laplace", "n_resamples": 500})
    by_class = uncertainty.posterior([[18, 2], [1, 9]], "recall", n_resamples=50, prior=np.ones((2, 2)))
    assert by_class.explain().startswith("recall: mean ")
    assert by_class.explain().endswith("prior of each cell")
    assert by_class.to_pandas()["metric"].tolist() == ["recall"] * 2
    several = uncertainty.posterior([[18, 2], [1, 9]], ["accuracy", "recall"], n_resamples=50).to_pandas()
    assert several["metric"].tolist() == ["accuracy", "recall", "recall"]
    assert several.attrs == {"prior": "unit", "n_resamples": 50}
    unnamed = cmfast.results.Posterior(drawn.draws)
    assert (repr(unnamed)[:17], unnamed.explain()[:5]) == ("<Posterior: mean ", "mean ")
    assert next(iter(unnamed.to_pandas())) == "index"


MODELS = pd.DataFrame({"y": [0, 1] * 30, "small": [0, 1] * 29 + [1, 0], "<b>": [0, 1] * 15 + [1, 1] * 15})
SCORES = pd.DataFrame({"y": [0, 1] * 30, "small": np.linspace(0, 1, 60), "<b>": np.linspace(0, 1, 60) ** 2 % 0.3})
NAMED = {"y_true": "y", "y_a": "small", "y_b": "<b>"}
COLUMNS = [MODELS[name] for name in MODELS]


def call_by_name(function, *names, **more):
    by_name = {"names": names[0]} if names else {}
    return function(**dict(zip(NAMED, COLUMNS, strict=True)), **by_name, **more)


def call_with_polars(function, *names, **more):
    pl = pytest.importorskip("polars")
    return function(*(pl.Series(x.name, x) for x in COLUMNS), *names, **more)


@pytest.mark.parametrize("call", [
    lambda function, *names, **more: function(MODELS, *names, **NAMED, **more),
    lambda function, *names, **more: function(MODELS, "y", "small", "<b>", *names, **more),
    lambda function, *names, **more: function(*COLUMNS, *names, **more),
    lambda function, *names, **more: function(COLUMNS[0].rename(None), *COLUMNS[1:], *names, **more),
    call_by_name, call_with_polars,
], ids=["columns by name", "columns by place", "series", "unnamed truth", "series by name", "polars"])  # fmt: skip
def test_comparisons_name_the_models_of_columns_and_series(call):
    unnamed = uncertainty.compare(*(x.tolist() for x in COLUMNS), "accuracy", **FEW)
    assert "the first is higher" in repr(unnamed)
    found = call(uncertainty.compare, "accuracy", **FEW)
    assert found == unnamed
    assert repr(found) == repr(unnamed).replace("the first is", "small is")
    assert found.verdict() == "small is higher"
    text = f"accuracy: small {found.first:.4f} and <b> {found.second:.4f}, the difference is {found.difference:+.4f}"
    assert found.explain().startswith(text)
    several = call(uncertainty.compare, ["accuracy", "mcc"], **FEW)
    assert several["mcc"].explain().startswith("mcc: small ")
    assert "small minus &lt;b&gt;" in re.sub("</?bdi>", "", several._repr_html_())
    assert several.to_pandas()["second_name"].tolist() == ["<b>"] * 2
    test = call(uncertainty.mcnemar)
    assert repr(test) == f"<McNemar: p {test.p_value:.3g}, only small {test.only_first}, only <b> {test.only_second}>"
    assert test.explain().startswith(f"only small is correct in {test.only_first} samples, only <b> in ")
    assert test.to_pandas()["first_name"].tolist() == ["small"]
    assert call(uncertainty.equivalence, "accuracy", margin=0.1).to_pandas()["first_name"].tolist() == ["small"]
    kept = pickle.loads(pickle.dumps(found))
    assert (kept, kept.verdict()) == (found, "small is higher")


def test_comparisons_of_areas_and_indicators_name_the_models():
    found = uncertainty.compare(SCORES, "y", "small", "<b>", "roc_auc")
    assert found.explain().startswith(f"roc_auc: small {found.first:.4f} and <b> {found.second:.4f}, ")
    assert found.to_pandas()["second_name"].tolist() == ["<b>"]


def test_models_without_two_names_are_the_first_and_the_second():
    y, a, b = COLUMNS
    for first, second in ((a, b.tolist()), (a, b.rename("small")), (a, b.rename(3)), (a.to_numpy(), b.to_numpy())):
        found = uncertainty.compare(y, first, second, "accuracy", **FEW)
        assert "first_name" not in found.to_pandas()
        assert "small" not in found.explain() + repr(found)
    assert uncertainty.mcnemar(y, a, b.tolist()).explain().startswith("only the first is correct in ")


@pytest.mark.pictures
def test_plots_of_comparisons_name_the_models():
    pytest.importorskip("matplotlib")
    drawn = uncertainty.compare(MODELS, ["accuracy", "mcc"], **NAMED, **FEW).plot()
    assert drawn.ax_.get_xlabel() == "small minus <b>, 95 % intervals"
    assert uncertainty.equivalence(MODELS, "mcc", margin=0.1, **NAMED).plot().ax_.get_xlabel()[:15] == "small minus <b>"
    ax = uncertainty.mcnemar(MODELS, **NAMED).plot()
    assert {tick.get_text().partition("\n")[0] for tick in ax.get_yticklabels()} == {"only small", "only <b>"}
