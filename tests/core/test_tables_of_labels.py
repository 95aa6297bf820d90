"""A table and the names of its columns are taken wherever arrays of labels are, and samples are ignored there too."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import display, metrics, uncertainty

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(5)
N = 60
COLUMNS = {
    "label": RNG.choice(["a", "b", "c"], N).tolist(),
    "new": RNG.choice(["a", "b", "c"], N).tolist(),
    "old": RNG.choice(["a", "b", "c"], N).tolist(),
    "site": RNG.choice(["x", "y"], N).tolist(),
    "weight": RNG.integers(1, 5, N).tolist(),
}
FRAME = pd.DataFrame(COLUMNS)


class Stream:
    """What exports a stream of Arrow, and nothing else."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


TABLES = {
    "pandas": lambda: FRAME,
    "polars": lambda: pl.DataFrame(COLUMNS),
    "lazy": lambda: pl.DataFrame(COLUMNS).lazy(),
    "arrow": lambda: pa.table(COLUMNS),
    "stream": Stream,
}
SIDES = {"y_true": "label", "y_pred": "new"}
PAIRS = {"y_true": "label", "y_a": "new", "y_b": "old"}


def by_hand(rows, weights=None):
    table = np.zeros((3, 3), int)
    for k in rows:
        table["abc".index(COLUMNS["label"][k]), "abc".index(COLUMNS["new"][k])] += 1 if weights is None else weights[k]
    return table


@pytest.mark.parametrize("name", TABLES)
def test_columns_by_name_are_counted(name):
    make, every = TABLES[name], range(N)
    found = cmfast.confusion_matrix(make(), **SIDES)
    np.testing.assert_array_equal(found, by_hand(every))
    np.testing.assert_array_equal(
        cmfast.confusion_matrix(make(), **SIDES, sample_weight="weight"), by_hand(every, COLUMNS["weight"])
    )
    counts = cmfast.ConfusionCounts.from_labels(make(), **SIDES, groups="site")
    assert counts.groups == ("x", "y")
    for k, site in enumerate("xy"):
        np.testing.assert_array_equal(counts.matrix[k], by_hand(np.flatnonzero(FRAME["site"] == site)))
    pairs = uncertainty.paired_counts(make(), **PAIRS)
    np.testing.assert_array_equal(pairs.first, by_hand(every))
    page = cmfast.report(make(), y_true="label", y_pred=["new", "old"], n_resamples=20)
    assert page.to_dict()["labels"] == ["a", "b", "c"]
    assert [model["name"] for model in page.to_dict()["models"]] == ["new", "old"]
    right = np.trace(by_hand(every)) / N
    assert metrics.from_labels(make(), "accuracy", **SIDES) == right
    shown = display.ConfusionDisplay.from_predictions(make(), **SIDES)
    np.testing.assert_array_equal(shown.counts, by_hand(every))


@pytest.mark.parametrize("name", TABLES)
def test_columns_by_position_are_counted(name):
    make = TABLES[name]
    np.testing.assert_array_equal(cmfast.confusion_matrix(make(), "label", "new"), by_hand(range(N)))
    found = uncertainty.compare(make(), "label", "new", "old", "f1_macro", n_resamples=50)
    wanted = uncertainty.compare(*(COLUMNS[c] for c in ("label", "new", "old")), "f1_macro", n_resamples=50)
    assert found.p_value == wanted.p_value
    one = uncertainty.interval(make(), "label", "new", "accuracy", method="wilson")
    assert one.estimate == np.trace(by_hand(range(N))) / N
    assert uncertainty.mcnemar(make(), "label", "new", "old").p_value == uncertainty.mcnemar(make(), **PAIRS).p_value


def test_parts_of_a_lazy_table_are_merged():
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(FRAME, npartitions=3)
    found = cmfast.ConfusionCounts.from_labels(frame, **SIDES, groups="site", labels=["a", "b", "c"]).compute()
    assert found == cmfast.ConfusionCounts.from_labels(FRAME, **SIDES, groups="site", labels=["a", "b", "c"])
    assert uncertainty.paired_counts(frame, **PAIRS).compute() == uncertainty.paired_counts(FRAME, **PAIRS)
    with pytest.raises(TypeError, match="a DataFrame of Dask; ConfusionCounts"):
        cmfast.confusion_matrix(frame, **SIDES)
    with pytest.raises(TypeError, match="must be a table in memory, got a DataFrame of Dask; its compute"):
        cmfast.report(frame, **SIDES)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: cmfast.confusion_matrix(FRAME, y_true="labxel", y_pred="new"), "did you mean 'label'"),
    (lambda: cmfast.confusion_matrix(FRAME, y_pred="new"), "y_true must be the name of a column, got nothing"),
    (lambda: cmfast.confusion_matrix([1, 2], y_true="a", y_pred="b"), "must be a DataFrame of pandas or polars"),
    (lambda: cmfast.confusion_matrix(FRAME), "a table needs y_true= and y_pred=, the names of its columns"),
    (lambda: cmfast.confusion_matrix([1], [1], [1]), r"options must be given by name \(.*\), got \[1\]"),
    (lambda: cmfast.confusion_matrix([1], [1], y_pred=[1]), "y_pred is given twice"),
    (lambda: cmfast.confusion_matrix([1]), r"y_pred must be given: confusion_matrix\(y_true, y_pred, \.\.\.\)"),
    (lambda: uncertainty.compare(FRAME, "label", "new", "odl", "mcc"), "did you mean 'old'"),
])  # fmt: skip
def test_mistakes_are_one_sentence(call, text):
    with pytest.raises((TypeError, ValueError), match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


MORE = [*COLUMNS["label"], *["void"] * 5]
GUESSES = [[*COLUMNS[name], *RNG.choice(["a", "b", "void"], 5)] for name in ("new", "old")]
USED = [COLUMNS[name] for name in ("label", "new", "old")]
FEW = {"n_resamples": 50}


@pytest.mark.parametrize("ignored", ["void", ["void"], ["void", "other"]], ids=["one", "list", "several"])
def test_samples_are_ignored_where_labels_are_given(ignored):
    given = {"ignore_index": ignored}
    one, two = (MORE, GUESSES[0]), (MORE, *GUESSES)
    np.testing.assert_array_equal(
        uncertainty.interval(*one, "recall", **FEW, **given), uncertainty.interval(*USED[:2], "recall", **FEW)
    )
    error = uncertainty.standard_error(*one, "mcc", **given)
    assert error == uncertainty.standard_error(*USED[:2], "mcc")
    compared = uncertainty.compare(*two, "f1_macro", **FEW, **given)
    assert compared == uncertainty.compare(*USED, "f1_macro", **FEW)
    assert uncertainty.mcnemar(*two, **given) == uncertainty.mcnemar(*USED)
    same = uncertainty.equivalence(*two, "accuracy", 0.1, **given)
    assert same == uncertainty.equivalence(*USED, "accuracy", 0.1)
    assert uncertainty.paired_counts(*two, **given) == uncertainty.paired_counts(*USED)
    shown = display.ConfusionDisplay.from_predictions(*one, **given)
    np.testing.assert_array_equal(shown.counts, by_hand(range(N)))
    page = cmfast.report(MORE, {"new": GUESSES[0], "old": GUESSES[1]}, **FEW, **given).to_dict()
    assert page["labels"] == ["a", "b", "c"]
    assert page["samples"] == N


def test_ignored_ids_need_not_be_classes():
    found = uncertainty.paired_counts([0, 1, 255], [0, 1, 1], [1, 1, 1], n_classes=2, ignore_index=255)
    assert found.first.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"y_true must be in 0\.\.1, got 255"):
        uncertainty.paired_counts([0, 1, 255], [0, 1, 1], [1, 1, 1], n_classes=2)
    only = uncertainty.paired_counts([255, 255], [0, 1], [1, 1], n_classes=2, ignore_index=255)
    assert only.n_samples == 0


def test_counts_have_no_samples_to_ignore():
    T = uncertainty.paired_counts(*USED)
    for call in (
        lambda: uncertainty.interval(by_hand(range(N)), "mcc", ignore_index="void"),
        lambda: uncertainty.compare(T, "mcc", ignore_index="void"),
    ):
        with pytest.raises(ValueError, match="ignore_index must be None unless labels are given"):
            call()


def test_a_stream_that_was_read_before_warns():
    reader = pa.table(COLUMNS).to_reader()
    assert cmfast.confusion_matrix(reader, **SIDES).sum() == len(FRAME)
    with pytest.warns(cmfast.DiagnosticWarning, match=r"^confusion_matrix: the RecordBatchReader has no rows; it"):
        assert not cmfast.confusion_matrix(reader, **SIDES).size
    assert not cmfast.confusion_matrix(
        pa.table(COLUMNS).slice(0, 0), **SIDES
    ).size  # a table without rows is no mistake


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize("function", [metrics.roc_auc, metrics.average_precision])
def test_areas_take_columns_of_a_table(library, function):
    score = np.linspace(0, 1, len(FRAME)).tolist()
    columns = COLUMNS | {"ill": [label == "a" for label in COLUMNS["label"]], "score": score, "w": [1, 2] * 50}
    columns = {name: values[: len(FRAME)] for name, values in columns.items()}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table}
    table = make.get(library, pa.table)(columns)
    table = table.to_reader() if library == "stream" else table
    arrays = [np.array(columns[name]) for name in ("ill", "score", "w")]
    wanted = function(*arrays[:2], sample_weight=arrays[2])
    assert function(table, y_true="ill", y_score="score", sample_weight="w") == wanted
    with pytest.raises(ValueError, match=r"y_score must be one of the columns .* got 'scor'; did you mean 'score'"):
        function(pd.DataFrame(columns), y_true="ill", y_score="scor")


LABELS = COLUMNS["label"], COLUMNS["new"]
POINTS = {"x": RNG.normal(size=N).tolist(), "z": RNG.normal(size=N).tolist()}
EMBEDDED = POINTS | {name: COLUMNS[name] for name in ("label", "new")}
GRID = cmfast.Grid([0.0, 0.0], [1.0, 1.0])
OF_POINTS = {
    "gcm": lambda *given: cmfast.geometric_confusion_matrix(*given, n_components=None, grid=GRID).matrix,
    "curve": lambda *given: np.asarray(cmfast.width_curve(*given, n_components=None, grid=GRID).overlaps),
}
MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table}


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("library", MAKE)
@pytest.mark.parametrize("name", OF_POINTS)
def test_points_and_labels_are_columns_of_one_table(library, name):
    function, table = OF_POINTS[name], MAKE[library](EMBEDDED)
    wanted = function(np.column_stack([POINTS["x"], POINTS["z"]]), COLUMNS["label"], COLUMNS["new"])
    np.testing.assert_array_equal(function(table, "label", "new"), wanted)
    number = {name: ["abc".index(label) for label in COLUMNS[name]] for name in ("label", "new")}
    found = cmfast.cell_counts(MAKE[library](POINTS | number), y_true="label", y_pred="new", grid=GRID)
    assert (found.n_points, found.cells.shape[1]) == (N, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda gcm: gcm(pd.DataFrame(EMBEDDED), "label"),
            r"y_pred must be the name of a column, got nothing; name it, as in geometric_confusion_matrix\(table, ",
        ),
        (
            lambda gcm: gcm(pd.DataFrame(EMBEDDED | {"site": COLUMNS["site"]}), "label", "new"),
            (
                r"got other values in 'site'; choose, as in geometric_confusion_matrix\(table\[\['x', 'z'\]\], "
                r"table\['label'\], table\['new'\]\)$"
            ),
        ),
        (
            lambda gcm: gcm(pd.DataFrame(POINTS), "label", "new"),
            (
                r"y_true must be one of the columns x, z, got 'label'; for columns of another table, "
                r"geometric_confusion_matrix\(X, table\['label'\], table\['new'\]\)"
            ),
        ),
        (
            lambda gcm: gcm(pd.DataFrame(EMBEDDED), ["x", "z"], "label", "new"),
            r"geometric_confusion_matrix\(table\[\['x', 'z'\]\], table\['label'\], table\['new'\]\) takes them",
        ),
        (
            lambda gcm: gcm(pd.DataFrame(EMBEDDED), X=["x", "z"], y_true="label", y_pred="new"),
            r"geometric_confusion_matrix\(table\[\['x', 'z'\]\], table\['label'\], table\['new'\]\) takes them",
        ),
    ],
)
def test_mistakes_with_points_name_the_call_that_works(call, text):
    with pytest.raises((TypeError, ValueError), match=rf"^geometric_confusion_matrix: .*{text}"):
        call(cmfast.geometric_confusion_matrix)


def test_a_table_of_dask_with_points_and_labels_is_refused():
    dd = pytest.importorskip("dask.dataframe")
    with pytest.raises(
        TypeError, match=r"X must be a table in memory where labels are columns, got a DataFrame of Dask"
    ):
        cmfast.geometric_confusion_matrix(dd.from_pandas(pd.DataFrame(EMBEDDED), npartitions=2), "label", "new")


@pytest.mark.parametrize("library", MAKE)
def test_all_columns_of_points_with_gaps_are_named_at_once(library):
    gaps = {"x": [None, None, *POINTS["x"][2:]], "z": [*POINTS["z"][:3], None, *POINTS["z"][4:]]}
    table = MAKE[library](EMBEDDED | gaps)
    cure = {
        "pandas": r"table\.dropna\(subset=\['x', 'z'\]\)",
        "arrow": r"table\.select\(\['x', 'z'\]\)\.drop_null\(\)",
    }.get(library, r"table\.(fill_nan\(None\)\.)?drop_nulls\(\['x', 'z'\]\)")
    named = r"the table has missing values, 2 in column 'x' \(first: row 0\) and 1 in column 'z' "
    text = rf"3 of {N} points left out.*; {named}"
    calls = {
        "gcm": lambda X, *labels: cmfast.geometric_confusion_matrix(X, *labels, grid=GRID, n_components=None),
        "curve": lambda X, *labels: cmfast.width_curve(X, *labels, grid=GRID, n_components=None),
        "columns": lambda X, *_: cmfast.geometric_confusion_matrix(table, "label", "new", grid=GRID, n_components=None),
        "pca": lambda X, *_: cmfast.pca(X),
        "histogram": lambda X, *_: cmfast.sparse_histogram(X, grid=GRID),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        for name, call in calls.items():
            with pytest.warns(RuntimeWarning, match=rf"{text}\(first: row 3\); {cure} leaves these rows out$") as seen:
                call(table[["x", "z"]] if library not in {"arrow", "lazy"} else table.select(["x", "z"]), *LABELS)
            assert sum("left out" in str(one.message) for one in seen) == 1, name


def test_points_that_are_only_infinite_name_no_column():
    X = pd.DataFrame(POINTS | {"x": [np.inf, *POINTS["x"][1:]]})
    with pytest.warns(RuntimeWarning, match=r"1 of 60 points left out.*: a coordinate is not finite( or .*)?$"):
        cmfast.pca(X)


@pytest.mark.parametrize("make", [pd.Series, pl.Series, pa.array, lambda x: pa.chunked_array([x])])
def test_one_column_is_no_table_of_points(make):
    with pytest.raises(
        ValueError, match=r"^pca: X must be of shape \(N, m\) with at least one column, got shape \(60,\)"
    ):
        cmfast.pca(make(POINTS["x"]))
    with pytest.raises(TypeError, match=r"X must be the points, and the labels after them"):
        cmfast.geometric_confusion_matrix(pd.Series(LABELS[0]), np.ones((N, 2)), LABELS[1])


def test_labels_with_gaps_are_named_with_their_table():
    table = pd.DataFrame(EMBEDDED | {"label": [None, *COLUMNS["label"][1:]], "new": [*COLUMNS["new"][:-1], None]})
    wanted = r"y_true and y_pred must be without missing values, got 1 in column 'label' \(first: row 0\) and 1 in "
    with pytest.raises(ValueError, match=wanted):
        cmfast.geometric_confusion_matrix(table, "label", "new")


SCORED = {
    "ill": [k % 3 == 0 for k in range(N)],
    "s": [None, *POINTS["x"][1:]],
    "t": [*POINTS["z"][:5], None, *POINTS["z"][6:]],
    "w": [1.0] * (N - 1) + [None],
    "site": COLUMNS["site"],
}
OF_SCORES = {
    "interval": lambda table, **named: uncertainty.interval(table, "roc_auc", y_score="s", **named),
    "clusters": lambda table, **named: uncertainty.interval(table, "roc_auc", y_score="s", clusters="site", **named),
    "precision": lambda table, **named: uncertainty.interval(table, "average_precision", y_score="s", **named),
    "compare": lambda table, **named: uncertainty.compare(table, "roc_auc", y_a="s", y_b="t", **named),
    "metric": lambda table, **named: metrics.roc_auc(table, y_score="s", **named),
}


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("library", MAKE)
@pytest.mark.parametrize("name", OF_SCORES)
def test_all_columns_of_scores_with_gaps_are_named_at_once(library, name):
    second = name == "compare"
    others = {"sample_weight": "w"}
    gaps = [
        "1 in column 's' (first: row 0)",
        *["1 in column 't' (first: row 5)"] * second,
        f"1 in column 'w' (first: row {N - 1})",
    ]
    names = ["s", *["t"] * second, "w"]
    calls = {"pandas": f"table.dropna(subset={names})", "arrow": f"table.select({['ill', *names]}).drop_null()"}
    if name == "clusters" and library == "arrow":
        calls["arrow"] = f"table.select({['ill', 's', 'site', 'w']}).drop_null()"
    if second:  # of two models, which take no weights
        others, names, gaps = {}, ["s", "t"], gaps[:2]
        calls = {"pandas": f"table.dropna(subset={names})", "arrow": f"table.select({['ill', *names]}).drop_null()"}
    call = calls.get(library, f"table.fill_nan(None).drop_nulls({names})")
    wanted = re.escape(f"; the table has missing values, {' and '.join(gaps)}; {call} leaves these rows out")
    with pytest.warns(cmfast.FailureWarning, match=rf": INVALID; NaN value at [a-z_]+\[.*{wanted}$") as seen:
        OF_SCORES[name](MAKE[library](SCORED), y_true="ill", **others)
    assert sum("INVALID" in str(one.message) for one in seen) == 1


def test_labels_clusters_and_scores_with_gaps_are_one_message():
    table = pd.DataFrame(SCORED | {"ill": [1.0, None, *[0.0] * (N - 2)], "site": [*COLUMNS["site"][:-1], None]})
    given = "1 in column 'ill' (first: row 1) and 1 in column 's' (first: row 0) and 1 in column 'site' (first: row 59)"
    call = "table.dropna(subset=['ill', 's', 'site']).astype({'ill': int}) leaves these rows out"
    wanted = re.escape(f"y_true and y_score and clusters must be without missing values, got {given}; {call}")
    with pytest.raises(TypeError, match=wanted):
        uncertainty.interval(table, "roc_auc", y_true="ill", y_score="s", clusters="site")
    with pytest.raises(ValueError, match=r"clusters must be .* got .*'s' .*and 1 in column 'site' \(first: row 59\); "):
        uncertainty.interval(table.assign(ill=SCORED["ill"]), "roc_auc", y_true="ill", y_score="s", clusters="site")


KIND_RNG = np.random.default_rng(2)
KIND = KIND_RNG.choice(["cat", "cow", "dog"], 90)
RAW = np.exp(KIND_RNG.normal(size=(2, 90, 3)) + 1.5 * (KIND[:, np.newaxis] == ["cat", "cow", "dog"]))
PROBABILITIES = RAW / RAW.sum(-1, keepdims=True)
OF_CLASSES = {f"p_{name}": PROBABILITIES[0, :, k].tolist() for k, name in enumerate(["cat", "cow", "dog"])}
OF_CLASSES |= {f"q{k}": PROBABILITIES[1, :, k].tolist() for k in range(3)}
OF_CLASSES |= {"kind": KIND.tolist(), "site": KIND_RNG.choice(["x", "y"], 90).tolist(), "w": [1.0, 2.0, 3.0] * 30}
BY_LABEL, BY_ORDER = ["p_dog", "p_cat", "p_cow"], ["q0", "q1", "q2"]
AVERAGES = ["roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "roc_auc_ovo_weighted"]


@pytest.mark.parametrize("library", [name for name in TABLES if name != "stream"])
@pytest.mark.parametrize("name", AVERAGES)
def test_columns_of_scores_are_those_of_classes(library, name):
    table = MAKE[library](OF_CLASSES)
    P, Q = PROBABILITIES
    want = uncertainty.interval(KIND, P, name)
    for found in (
        uncertainty.interval(table, name, y_true="kind", y_score=BY_LABEL),
        uncertainty.interval(table, "kind", BY_LABEL, name),
        uncertainty.interval(table, [name], y_true="kind", y_score=BY_LABEL)[name],
    ):
        assert (found.estimate, found.low, found.high) == (want.estimate, want.low, want.high)
    weighted = uncertainty.interval(KIND, P, name, sample_weight=OF_CLASSES["w"])
    found = uncertainty.interval(table, name, y_true="kind", y_score=BY_LABEL, sample_weight="w")
    assert found.low == weighted.low != want.low
    want = uncertainty.compare(KIND, P, Q, name)
    found = uncertainty.compare(table, name, y_true="kind", y_a=BY_LABEL, y_b=BY_ORDER)
    assert (found.first, found.second, found.p_value) == (want.first, want.second, want.p_value)
    groups = {"y_true": "kind", "y_score": BY_LABEL, "groups": "site"}
    want = uncertainty.compare_groups(KIND, P, OF_CLASSES["site"], name, on_failure="ignore")
    found = uncertainty.compare_groups(table, name, **groups, on_failure="ignore")
    np.testing.assert_array_equal(found.estimate, want.estimate)
    want = uncertainty.auc_covariance(KIND, {"new": P, "old": Q}, name=name)
    found = uncertainty.auc_covariance(table, y_true="kind", y_score={"new": BY_LABEL, "old": BY_ORDER}, name=name)
    np.testing.assert_array_equal(found.covariance, want.covariance)
    assert found.to_pandas()["model"].tolist() == ["new", "old"]


@pytest.mark.parametrize(
    "columns", [["cat", "cow", "dog"], ["catcat", "catcow", "catdog"], ["p(cat)", "p(cow)", "p(dog)"]]
)
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_scores_in_a_table_are_matched_to_labels_by_name(columns, library):
    P = PROBABILITIES[0]
    want = uncertainty.interval(KIND, P, "roc_auc_ovr").estimate
    turned = MAKE[library]({columns[k]: P[:, k].tolist() for k in (2, 0, 1)})
    assert uncertainty.interval(KIND, turned, "roc_auc_ovr").estimate == want
    others = MAKE[library]({f"model {k}": P[:, k].tolist() for k in (2, 0, 1)})
    assert uncertainty.interval(KIND, others, "roc_auc_ovr").estimate != want


@pytest.mark.parametrize(
    "columns", [["p_cat", "p_cwo", "p_dog"], ["p_Cat", "p_Cow", "p_Dog"], ["cat", "q_cow", "dog"], ["x", "y", "CAT"]]
)
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_scores_in_a_table_are_refused_if_only_some_columns_are_named_after_labels(columns, library):
    P = PROBABILITIES[0]
    table = MAKE[library]({column: P[:, k].tolist() for k, column in enumerate(columns)})
    names = ", ".join(map(repr, columns))
    text = (
        f"with a column named after each of the labels 'cat', 'cow', 'dog', got the columns {names}; name each column "
        "after its label, or give an array whose columns are in the order of the sorted labels, as by table[[...]].to_n"
    )
    with pytest.raises(ValueError, match=rf"^uncertainty.interval: y_score must be a table {re.escape(text)}"):
        uncertainty.interval(KIND, table, "roc_auc_ovr")
    with pytest.raises(ValueError, match=rf"y_b must be a table {re.escape(text)}"):
        uncertainty.compare(KIND, P, table, "roc_auc_ovr")
    with pytest.raises(ValueError, match=rf"y_score\['new'\] must be a table {re.escape(text)}"):
        uncertainty.auc_covariance(KIND, {"new": table}, name="roc_auc_ovr")


def test_a_column_of_scores_given_twice_is_refused():
    with pytest.raises(ValueError, match="got the columns 'p_cat', 'p_cow', 'p_cow'; name each"):
        uncertainty.interval(
            pd.DataFrame(OF_CLASSES), "roc_auc_ovr", y_true="kind", y_score=["p_cat", "p_cow", "p_cow"]
        )


def test_columns_without_labels_in_their_names_go_by_position():
    P = PROBABILITIES[0]
    want = uncertainty.interval(KIND, P, "roc_auc_ovr").estimate
    short = np.array(["c", "e", "o"])[np.searchsorted(["cat", "cow", "dog"], KIND)]  # letters of "score" are no labels
    table = pd.DataFrame(P, columns=["score_0", "score_1", "score_2"])
    assert uncertainty.interval(KIND, table, "roc_auc_ovr").estimate == want
    assert uncertainty.interval(short, table, "roc_auc_ovr").estimate == want
    codes = np.searchsorted(["cat", "cow", "dog"], KIND)
    assert uncertainty.interval(codes, table.set_axis(["p_0", "p_1", "p_3"], axis=1), "roc_auc_ovr").estimate == want
    with pytest.raises(ValueError, match="each of the labels 'c', 'e', 'o', got the columns 'p_c', 'p_E', 'p_o'"):
        uncertainty.interval(short, table.set_axis(["p_c", "p_E", "p_o"], axis=1), "roc_auc_ovr")


@pytest.mark.parametrize("name", ["roc_auc", "roc_auc_ovr"])
@pytest.mark.parametrize("scores", [[BY_LABEL, BY_ORDER], (BY_LABEL,), ["p_cat", {}]])
def test_columns_of_several_models_need_a_dict(name, scores):
    text = r"y_score must be a list of names of columns, or a dict of such lists by model, as .* got a list with a \w+$"
    with pytest.raises(TypeError, match=rf"^uncertainty.auc_covariance: {text}"):
        uncertainty.auc_covariance(pd.DataFrame(OF_CLASSES), y_true="kind", y_score=scores, name=name)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"y_score": ["p_cat", "p_cow", "p_dg"]}, r"y_score\[2\] must be one of the columns .* did you mean 'p_dog'"),
        ({"y_score": ["p_cat", "p_cow"]}, "y_true must be of 2 classes, one for each column of scores"),
        (
            {},
            r"y_score must be the name of a column, got nothing; name it, as in uncertainty.interval\(table, ",
        ),
        ({"y_score": []}, r"y_score must be the name of a column, got list \[\]"),
        ({"y_score": {"cat": "p_cat"}}, "y_score must be the name of a column, got dict"),
    ],
    ids=range(5),
)
def test_mistakes_with_columns_of_scores_are_one_sentence(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        uncertainty.interval(pd.DataFrame(OF_CLASSES), "roc_auc_ovr", y_true="kind", **options)


def test_several_columns_of_scores_of_two_classes_name_the_area_that_takes_them():
    table = pd.DataFrame(OF_CLASSES).assign(ill=KIND == "cat")
    with pytest.raises(ValueError, match=r"y_score must be of shape \(90,\), .*roc_auc_ovr"):
        uncertainty.interval(table, "roc_auc", y_true="ill", y_score=BY_LABEL)
    with pytest.raises(AttributeError, match=r'uncertainty.interval\(y_true, y_score, "roc_auc_ovr"\) computes it'):
        _ = metrics.roc_auc_ovr


def test_gaps_in_columns_of_scores_are_named():
    gaps = pd.DataFrame(OF_CLASSES).assign(p_cow=lambda table: table["p_cow"].where(table.index != 4))
    with pytest.warns(cmfast.FailureWarning, match=r"1 in column 'p_cow' \(first: row 4\); table.dropna"):
        uncertainty.interval(gaps, "roc_auc_ovr", y_true="kind", y_score=BY_LABEL)
