"""Reports: what is in the page, that nothing in it comes from elsewhere, and that labels are only ever text."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from optional import polars as pl
from report_pages import Page, read_page_data, unpack_counts

import cmfast
from cmfast import metrics, uncertainty
from cmfast._pages import values
from cmfast.display import ConfusionDisplay

pytestmark = pytest.mark.pictures

RNG = np.random.default_rng(0)
EVIL = ["</script><script>alert(1)</script>", "<!-- <script>", "a & \"b' <i>", "]]>\u2028", "\ud800", "  two\nlines "]
N = 600
Y = RNG.integers(0, 4, N)
A = np.where(RNG.random(N) < 0.8, Y, RNG.integers(0, 4, N))
B = np.where(RNG.random(N) < 0.7, Y, RNG.integers(0, 4, N))
NAMES = np.array(["cat", "dog", "eel", "fox"])


@pytest.fixture(scope="module")
def both():
    """Return a page with everything."""
    return cmfast.report(
        NAMES[Y], {"a": NAMES[A], "b": NAMES[B]}, groups={"site": np.array(["x", "y"])[np.arange(N) % 2]},
        embeddings=RNG.normal(size=(N, 2)) + Y[:, None], scores=0.3 * RNG.dirichlet(np.ones(4), N) + 0.7 * np.eye(4)[A],
        n_resamples=200, title="Two models",
    )  # fmt: skip


def test_a_warning_of_an_option_is_issued_once():
    with pytest.warns(cmfast.DiagnosticWarning, match="report: confidence_level=0.05") as caught:
        cmfast.report(Y, {"a": A, "b": B}, groups=Y % 2, confidence_level=0.05, n_resamples=20)
    assert len([one for one in caught if "confidence_level" in str(one.message)]) == 1
    with pytest.warns(cmfast.DiagnosticWarning, match="report: confidence_level=0.05"):  # again in the next call
        cmfast.report(Y, A, confidence_level=0.05, n_resamples=20)


def test_the_script_finds_the_counts_and_the_scaling(both):
    facts = read_page_data(both)
    assert facts["labels"] == NAMES.tolist()
    assert [one["name"] for one in facts["models"]] == ["a", "b"]
    for one, guess in zip(facts["models"], (A, B), strict=True):
        M = unpack_counts(one, 4)
        np.testing.assert_array_equal(M, cmfast.confusion_matrix(Y, guess, n_classes=4))
        scaled = np.array(one["rows"])[:, None] * (M + one["smoothing"]) * one["cols"]
        np.testing.assert_allclose(scaled, cmfast.bi_normalize(M), rtol=1e-4)
    assert sorted(facts["clustered"]) == [0, 1, 2, 3]
    assert unpack_counts(facts["geometric"], 4).sum() == pytest.approx(4, rel=1e-5)


def test_the_numbers_are_those_of_the_functions(both):
    facts = both.to_dict()
    M = cmfast.confusion_matrix(Y, A, n_classes=4)
    one = facts["models"][0]
    wanted = uncertainty.interval(M, ["accuracy", "f1_macro"], n_resamples=200)
    for name, interval in wanted.items():
        given = one["metrics"][name]
        assert (given["estimate"], given["low"], given["high"]) == pytest.approx(interval[:3])
    np.testing.assert_array_equal(one["classes"]["precision"], metrics.compute(M, "precision"))
    first = one["confusions"][0]
    i, j = NAMES.tolist().index(first["true"]), NAMES.tolist().index(first["predicted"])
    both_ways, bi = M + M.T - 2 * np.diag(np.diagonal(M)), cmfast.bi_normalize(M)
    assert first["both_ways"]
    assert first["count"] == both_ways.max() == both_ways[i, j]
    assert first["balanced"] == pytest.approx((bi[i, j] + bi[j, i]) / 2)
    assert first["low"] < first["row"] == both_ways[i, j] / (M[i].sum() + M[j].sum()) < first["high"]
    T = uncertainty.paired_counts(NAMES[Y], NAMES[A], NAMES[B])
    found = uncertainty.compare(T, "mcc", n_resamples=200)
    assert facts["comparison"]["metrics"]["mcc"]["difference"] == pytest.approx(float(found.difference))
    assert facts["comparison"]["flips"][0]["count"] == T.flips(1)[0].n_samples
    assert facts["groups"]["groups"] == ["x", "y"]
    assert facts["groups"]["models"]["b"]["samples"] == [300, 300]
    assert facts["sets"]["calibration"] + facts["sets"]["samples"] == N
    assert facts["geometry"]["points"] == N
    json.dumps(facts, allow_nan=False)


def test_sections_and_tables_have_heads(both):
    page = Page(both.html)
    text = " ".join(page.text)
    for heading in ("The matrix", "What balancing changes", "How good, and how sure", "Largest confusions", "Classes",
                    "Groups", "Geometry", "Prediction sets"):  # fmt: skip
        assert heading in page.text, heading
    assert "<h2><bdi>a</bdi> or <bdi>b</bdi>?</h2>" in both.html
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == 1
    assert tags.count("h2") == tags.count("section") == 9
    assert tags.count("caption") == tags.count("table") - 1  # that which the script fills has a heading above
    assert all(facts.get("scope") in ("row", "col") for tag, facts in page.tags if tag == "th")
    assert all(facts.get("aria-label") for tag, facts in page.tags if tag == "svg")
    assert "nan" not in re.findall(r"\w+", text.lower())


def test_nothing_is_fetched(both):
    for word in ("http:", "https:", "src=", "href=", "<link", "@import", "url(", "fetch(", "import("):
        assert word not in both.html, word


def test_labels_are_only_ever_text():
    labels = np.array(EVIL)
    y, guess = labels[RNG.integers(0, 6, 90)], labels[RNG.integers(0, 6, 90)]
    found = cmfast.report(y, {"<m>": guess}, groups={"<g>": labels[np.arange(90) % 6]}, title="<h1>", n_resamples=20)
    page = Page(found.html)
    assert [facts.get("id") for tag, facts in page.tags if tag == "script"] == ["data", None]
    assert not {"i", "g", "m"} & {tag for tag, _ in page.tags}
    assert read_page_data(found)["labels"][0] == sorted(EVIL)[0].strip().replace("\n", " ")
    assert "<!--" not in found.html
    assert "two lines" in page.text
    assert "<h1>" in page.text
    found.html.encode()
    frame = Page(found._repr_html_())
    assert [tag for tag, _ in frame.tags] == ["iframe"]
    assert frame.tags[0][1]["srcdoc"] == found.html
    assert frame.tags[0][1]["sandbox"] == "allow-scripts"


@pytest.mark.parametrize("make", [list, pd.Series, pl.Series, lambda y: pd.Categorical(y, NAMES[::-1], ordered=True)])
def test_columns_of_any_library(make):
    found = cmfast.report(make(NAMES[Y].tolist()), make(NAMES[A].tolist()), n_resamples=20)
    M = unpack_counts(read_page_data(found)["models"][0], 4)
    order = [NAMES.tolist().index(name) for name in read_page_data(found)["labels"]]
    np.testing.assert_array_equal(M, cmfast.confusion_matrix(Y, A, n_classes=4)[np.ix_(order, order)])


def test_classes_that_leave_no_scaling_are_smoothed_and_it_is_said():
    found = cmfast.report([0, 0, 1, 1, 2], [0, 1, 1, 1, 1], n_resamples=20)
    one = found.to_dict()["models"][0]
    assert (one["status"], one["smoothing"]) == ("ZERO_LINE", 1 / 3)
    assert "0.333 was added to every cell beforehand, because its zeros allow no such matrix otherwise" in found.html
    assert one["classes"]["precision"][2] is None
    asked = cmfast.report([0, 0, 1, 1], [0, 1, 1, 1], smoothing=0.5, n_resamples=20)
    assert "0.5 was added to every cell beforehand, as requested" in asked.html


def test_of_many_sizes_of_sets_quartiles_are_shown():
    C = 60
    P = np.concatenate([RNG.dirichlet(np.full(C, share), 1000) for share in (0.2, 2.0)])  # sure, and not
    y = (P.cumsum(axis=1) < RNG.random((2000, 1))).sum(axis=1).clip(0, C - 1)
    found = cmfast.report(y, P.argmax(axis=1), scores=P, n_resamples=20)
    every = np.repeat(np.arange(C + 1), found.to_dict()["sets"]["sizes"])
    assert len(every) == 1000
    text = Page(found.html).text
    assert text[text.index("half, at most") + 1] == str(np.sort(every)[499])
    assert {one["correlation"] > 0 for one in found.to_dict()["sets"]["pairs"]} <= {True}


def test_nothing_is_below_zero_and_written_as_zero():
    assert values.format_number(-1e-9) == "0.000"
    assert values.format_number(-1e-9, "+z.2f") == "+0.00"
    assert values.format_number(float("nan")) == values.MISSING


def test_one_class_and_nothing_confused():
    found = cmfast.report(["a", "a"], ["a", "a"], n_resamples=20)
    assert "<bdi>model</bdi> has no confusions" in found.html
    Page(found.html)


def test_a_thousand_classes_are_small():
    C, n = 1000, 100_000
    y = RNG.integers(0, C, n)
    guess = np.where(RNG.random(n) < 0.7, y, RNG.integers(0, C, n))
    found = cmfast.report(y, guess)
    assert len(found.html.encode()) < 1_000_000
    np.testing.assert_array_equal(
        unpack_counts(read_page_data(found)["models"][0], C), cmfast.confusion_matrix(y, guess, n_classes=C)
    )


def test_what_functions_warn_of_is_said_in_the_page():
    found = cmfast.report([0, 1, 1, 0], [0, 1, 1, 1], n_resamples=20)
    assert found.to_dict()["notes"]
    assert found.to_dict()["notes"][0] in "".join(Page(found.html).text)


def test_scores_in_another_order_than_the_classes_are_noticed():
    P = np.eye(4)[A] * 0.6 + 0.1
    right, wrong = (cmfast.report(NAMES[Y], NAMES[A], scores=S, n_resamples=20) for S in (P, P[:, [1, 2, 3, 0]]))
    assert right.to_dict()["sets"]["notes"] == []
    (note,) = wrong.to_dict()["sets"]["notes"]
    assert note.startswith("the largest score is that of the answer in 0 % of the samples only")
    assert "(cat, dog, eel and so on)" in note
    assert note in "".join(Page(wrong.html).text)


def test_warnings_are_said_where_they_belong():
    logits = np.log(np.eye(4)[A] + 0.1)
    found = cmfast.report(Y, A, groups=np.arange(N) // 6, scores=logits, n_resamples=200)
    sections = dict(re.findall(r"<section><h2>(.*?)</h2>(.*?)</section>", found.html, re.DOTALL))
    assert "not a probability" in sections["Prediction sets"]
    assert "cover the true value less often" in sections["Groups"]
    assert len(found.to_dict()["notes"]) == 3
    assert not any("less often" in text or "not a probability" in text
                   for name, text in sections.items() if name not in ("Prediction sets", "Groups"))  # fmt: skip


def test_labels_that_are_bool_have_scores_and_points():
    y, guess = Y > 1, A > 1
    scores = np.stack([~guess, guess], axis=1) * 0.6 + 0.2
    points = Y[:, None] + RNG.normal(size=(N, 2))
    found = cmfast.report(y, guess, scores=scores, embeddings=points, n_resamples=20).to_dict()
    ones = cmfast.report(1 * y, 1 * guess, scores=scores, embeddings=points, n_resamples=20).to_dict()
    for section in ("sets", "geometry"):
        for name, value in ones[section].items():
            if name != "pairs":  # which name the classes
                np.testing.assert_equal(found[section][name], value)


def test_of_a_group_without_samples_nothing_is_said():
    found = cmfast.report(Y, A, labels=[0, 1, 2], groups=NAMES[Y], n_resamples=20)
    one = found.to_dict()["groups"]["models"]["model"]
    assert one["samples"][3] == 0
    assert all(ends[key][3] is None for ends in one["metrics"].values() for key in ends)
    text = " ".join(Page(found.html).text)
    assert "has its lowest accuracy in" in text
    assert "least often in fox" not in text
    assert "nan" not in text


def test_files(both, tmp_path, monkeypatch):
    path = both.save(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == both.html
    with pytest.raises(OSError, match="exists already"):
        both.save(str(path), force=False)
    assert repr(both).startswith("<HtmlReport: a, b, 4 classes, ")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"y_pred": dict.fromkeys("abc", A)},
            "y_pred must be an array, or those of one model or of 2 by their names, ",
        ),
        ({"y_pred": {1: A, "1": B}}, "y_pred must be models of different names"),
        ({"embeddings": np.ones((3, 2))}, r"embeddings must be of shape \(600, n\)"),
        ({"scores": np.ones((N, 3))}, r"scores must be of shape \(600, 4\)"),
        ({"y_true": [], "y_pred": []}, "y_true must be samples, at least one, got none"),
    ],
)
def test_what_is_refused(given, text):
    with pytest.raises(ValueError, match=f"^report: {text}"):
        cmfast.report(**{"y_true": Y, "y_pred": A, **given})


def test_every_number_at_the_top_has_its_place():
    """Also where two of them read the same."""
    page = cmfast.report([0, 1, 1], {"a": [0, 1, 0], "b": [0, 1, 0]}, labels=[0, 1, 2], n_resamples=10)
    cards = re.findall('<div class="fact"><b>([^<]*)</b>', page.html)
    assert cards == ["3", "3", "66.7 % right", "66.7 % right"]


def test_of_floats_it_is_said_what_makes_labels_of_them():
    words = r"got dtype float64; \.astype\(int\) makes labels of whole numbers$"
    with pytest.raises(TypeError, match=r"^report: y_true must be .*" + words):
        cmfast.report(1.0 * Y, 1.0 * A)
    with pytest.raises(TypeError, match=r"^display\.ConfusionDisplay\.from_predictions: y_true must be .*" + words):
        ConfusionDisplay.from_predictions(1.0 * Y, A)


def test_intervals_that_contradict_the_test_are_named():
    """Five samples differ, all in favour of one: all six intervals leave out 0, and no p is below 0.0625."""
    y = np.repeat([0, 1], 100)
    page = cmfast.report(y, {"new": y, "old": np.where(np.arange(200) < 5, 1, y)}).html
    assert page.count("the interval excludes 0, the test decides") == 2
    assert "Interval and test contradict each other in 4 more metrics; the test decides." in page
    clear = cmfast.report(y, {"new": y, "old": np.where(np.arange(200) < 50, 1, y)}).html
    assert "the test decides" not in clear
