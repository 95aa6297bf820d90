"""Labels in place of counts: the same results as those of the counts, and messages that name the labels."""

import inspect
import re
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import uncertainty

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
A, B = (np.where(RNG.random(300) < share, Y, RNG.integers(0, 3, 300)) for share in (0.8, 0.7))
PAIRED = uncertainty.paired_counts(Y, A, B)
WORDS = np.array(["x", "y", "z"])


PAIRED_FUNCTIONS = {
    "compare": lambda *paired: uncertainty.compare(*paired, "f1_macro", n_resamples=50),
    "compare-all": lambda *paired: uncertainty.compare(*paired, n_resamples=20)["mcc"],
    "compare-list": lambda *paired: uncertainty.compare(*paired, ["mcc"], method="delta")["mcc"],
    "equivalence": lambda *paired: uncertainty.equivalence(*paired, "accuracy", 0.2),
    "equivalence-name": lambda *paired: uncertainty.equivalence(*paired, "accuracy", margin=0.2),
    "mcnemar": uncertainty.mcnemar,
    "bowker": uncertainty.bowker,
    "stuart_maxwell": uncertainty.stuart_maxwell,
}


@pytest.mark.parametrize("call", PAIRED_FUNCTIONS.values(), ids=PAIRED_FUNCTIONS)
def test_three_arrays_of_labels_are_paired_counts(call):
    for labels in ((Y, A, B), (WORDS[Y], WORDS[A], WORDS[B]), (Y.tolist(), A.tolist(), B.tolist())):
        assert repr(call(*labels)) == repr(call(PAIRED))


@pytest.mark.parametrize("names", [("mcc",), (["recall", "accuracy"],), ()], ids=str)
@pytest.mark.parametrize("name", ["interval", "posterior", "standard_error"])
def test_two_arrays_of_labels_are_a_matrix(name, names):
    function = getattr(uncertainty, name)
    options = {"interval": {"n_resamples": 30, "on_failure": "ignore"}, "posterior": {"n_resamples": 30}}.get(name, {})
    want = function(cmfast.confusion_matrix(Y, A), *names, **options)
    assert repr(function(Y, A, *names, **options)) == repr(want)
    if names:  # with two lists of text alone, the second would be names
        assert repr(function(WORDS[Y].tolist(), WORDS[A].tolist(), *names, **options)) == repr(want)


def test_delayed_labels_give_delayed_results():
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(x, chunks=100) for x in (Y, A, B)]
    found = uncertainty.compare(*lazy, "accuracy", n_resamples=20).compute()
    assert repr(found) == repr(uncertainty.compare(PAIRED, "accuracy", n_resamples=20))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: uncertainty.compare(Y, A, B[:9], "mcc"),
            r"uncertainty.compare: arrays must have one shape, .*y_b: \(9,\)",
        ),
        (
            lambda: uncertainty.compare(PAIRED.first, PAIRED.second, "mcc"),
            r"uncertainty.compare: y_b must be labels \(y_true, y_a, y_b\), as two matrices do not tell",
        ),
        (lambda: uncertainty.mcnemar(Y, A, WORDS[B]), "uncertainty.mcnemar: y_b must be integers, as y_true"),
        (lambda: uncertainty.mcnemar(PAIRED.first), "uncertainty.mcnemar: T must be PairedCounts"),
        (lambda: uncertainty.interval(Y, A[:9], "mcc"), r"uncertainty.interval: arrays must have one shape"),
        (lambda: uncertainty.interval(Y, WORDS[A], "mcc"), "uncertainty.interval: y_pred must be integers, as y_true"),
        (lambda: uncertainty.interval(Y, A, "mc"), "uncertainty.interval: names must be .*did you mean 'mcc'"),
    ],
    ids=range(7),
)
def test_messages_name_the_labels(call, text):
    with pytest.raises((TypeError, ValueError), match=f"^{text}"):
        call()


class Relation:
    """A relation of an engine, of which only a stream of Arrow is known."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


PATIENT = np.arange(300) % 15
SHOWN = {"truth": WORDS[Y], "new": WORDS[A], "old": WORDS[B], "patient": PATIENT}
TABLES = {
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(SHOWN),
    "polars": lambda: pytest.importorskip("polars").DataFrame(SHOWN),
    "polars-lazy": lambda: pytest.importorskip("polars").LazyFrame(SHOWN),
    "arrow": lambda: pytest.importorskip("pyarrow").table(SHOWN),
    "arrow-reader": lambda: pytest.importorskip("pyarrow").table(SHOWN).to_reader(),
    "relation": lambda: Relation(pytest.importorskip("pyarrow").table(SHOWN)),
    "dask": lambda: pytest.importorskip("dask.dataframe").from_pandas(TABLES["pandas"](), npartitions=3),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_columns_of_a_table_are_labels(table):
    def found(function, *args, **options):
        """Return the repr of what a function makes of a table that is made for it, as streams are read once."""
        result = function(table(), *args, **options)
        assert (type(result).__name__ == "Delayed") == (table is TABLES["dask"])
        return repr(result.compute() if table is TABLES["dask"] else result)

    def by_default(result):
        """Return the repr of a result with the names that models have without columns."""
        for name, place in (("only new ", "only_first "), ("only old ", "only_second "), ("new is ", "the first is ")):
            result = result.replace(name, place)
        return result.replace("old is ", "the second is ")

    two, three = {"y_true": "truth", "y_pred": "new"}, {"y_true": "truth", "y_a": "new", "y_b": "old"}
    exact = {"method": "normal"}
    one = (WORDS[Y], WORDS[A])
    for options in (exact, exact | {"clusters": PATIENT}):
        named = options | {"clusters": "patient"} if "clusters" in options else options
        want = repr(uncertainty.interval(*one, "mcc", **options))
        assert found(uncertainty.interval, "mcc", **two, **named) == want
    assert found(uncertainty.standard_error, "mcc", **two) == repr(uncertainty.standard_error(*one, "mcc"))
    few = {"n_resamples": 20}
    assert found(uncertainty.posterior, "mcc", **two, **few) == repr(uncertainty.posterior(*one, "mcc", **few))
    for call in (uncertainty.mcnemar, uncertainty.bowker, uncertainty.stuart_maxwell):
        assert by_default(found(call, **three)) == repr(call(PAIRED))
    want = repr(uncertainty.equivalence(PAIRED, "accuracy", 0.2))
    assert found(uncertainty.equivalence, "accuracy", margin=0.2, **three) == want
    for clusters in (None, PATIENT):
        pairs = uncertainty.paired_counts(Y, A, B, clusters=clusters)
        named = few | ({} if clusters is None else {"clusters": "patient"})
        want = repr(uncertainty.compare(pairs, "mcc", **few))
        assert by_default(found(uncertainty.compare, "mcc", **three, **named)) == want


def test_clusters_of_pairs_are_those_of_paired_counts():
    pairs = uncertainty.paired_counts(Y, A, B, clusters=PATIENT)
    want = uncertainty.compare(pairs, "accuracy", n_resamples=20)
    assert repr(uncertainty.compare(Y, A, B, "accuracy", clusters=PATIENT, n_resamples=20)) == repr(want)
    want = uncertainty.equivalence(pairs, "accuracy", 0.2)
    assert repr(uncertainty.equivalence(Y, A, B, "accuracy", 0.2, clusters=PATIENT)) == repr(want)
    with pytest.raises(TypeError, match="clusters"):  # it takes samples as independent
        uncertainty.mcnemar(Y, A, B, clusters=PATIENT)


def test_labels_of_dask_give_delayed_intervals():
    da = pytest.importorskip("dask.array")
    y, p, patient = (da.from_array(x, chunks=70) for x in (Y, A, PATIENT))
    for options, lazily in (({}, {}), ({"clusters": PATIENT}, {"clusters": patient})):
        want = uncertainty.interval(Y, A, "mcc", method="normal", **options)
        found = uncertainty.interval(y, p, "mcc", method="normal", **lazily)
        assert repr(found.compute()) == repr(want)
        assert repr(uncertainty.standard_error(y, p, "mcc", **lazily).compute()) == repr(want.standard_error)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: uncertainty.interval(f, "mcc", y_true="truth", y_pred="news"), "interval: y_pred .* mean 'new'"),
        (lambda f: uncertainty.interval(f, "mcc", y_true="truth"), "interval: y_pred must be the name of a column"),
        (lambda f: uncertainty.mcnemar(f, y_true="truth", y_a="new"), "mcnemar: y_b must be the name of a column"),
        (lambda f: uncertainty.interval(Y, "mcc", y_true="truth", y_pred="new"), "interval: the first arg.* ndarray"),
        (lambda f: uncertainty.interval(f, "mcc", y_true=f.truth, y_pred="new"), "interval: y_true must be the name"),
    ],
    ids=range(5),
)
def test_messages_name_the_columns(call, text):
    with pytest.raises((TypeError, ValueError), match=f"^uncertainty.{text}"):
        call(TABLES["pandas"]())


@pytest.mark.parametrize("kind", ["polars-lazy", "dask"])
def test_lazy_tables_need_the_names_of_columns(kind):
    lazily = TABLES[kind]()
    said = "a lazy table is read by the names of its columns; pass the table, and y_true=, y_"
    what = f"{said}pred=" if kind == "dask" else "y_true must be an array of labels, got a polars DataFrame; pass"
    with pytest.raises(TypeError, match=f"^uncertainty.interval: {what}"):
        uncertainty.interval(lazily[["truth"]] if kind == "dask" else lazily.select("truth"), lazily, "mcc")
    what = said if kind == "dask" else said.replace("lazy table", "table of labels")
    with pytest.raises(TypeError, match=f"^uncertainty.interval: {what}pred="):
        uncertainty.interval(lazily, "mcc")
    with pytest.raises(TypeError, match=f"^uncertainty.compare: {said}a=, y_b="):
        uncertainty.compare(lazily, "mcc")


def test_intervals_are_a_table_in_a_notebook():
    found = uncertainty.interval([[40, 3], [5, 30]], ["mcc", "recall"], n_resamples=20, on_failure="ignore")
    shown = found._repr_html_()
    assert shown.count("<tr>") == 1 + 3
    assert f"<td>{float(found['mcc'].low):.4g}</td>" in shown
    assert "2 metrics, 95% by bca, 20 resamples" in shown


def test_clusters_of_labels_are_those_of_a_matrix_per_cluster():
    rng = np.random.default_rng(7)
    y, p, patient = (
        rng.integers(0, 3, 90),
        rng.integers(0, 3, 90),
        np.array(list("abcdefghijklmno"))[np.arange(90) % 15],
    )
    each = np.array(
        [cmfast.confusion_matrix(y[patient == k], p[patient == k], n_classes=3) for k in sorted(set(patient))]
    )
    for function, options in ((uncertainty.interval, {"n_resamples": 50}), (uncertainty.standard_error, {})):
        found = function(y, p, "mcc", clusters=patient, **options)
        np.testing.assert_array_equal(found, function(each, "mcc", clusters=True, **options))


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (
            uncertainty.interval,
            [
                "interval(y_true, y_pred, names)",
                'interval(table, names, y_true="label", y_pred="guess")',
                "interval(M, names)",
            ],
        ),
        (
            uncertainty.compare,
            [
                "compare(y_true, y_a, y_b, names)",
                'compare(table, names, y_true="label", y_a="new", y_b="old")',
                "compare(T, names)",
            ],
        ),
        (
            uncertainty.mcnemar,
            ["mcnemar(y_true, y_a, y_b)", 'mcnemar(table, y_true="label", y_a="new", y_b="old")', "mcnemar(T)"],
        ),
        (
            uncertainty.equivalence,
            [
                "equivalence(y_true, y_a, y_b, name, margin)",
                'equivalence(table, name, margin, y_true="label", y_a="new", y_b="old")',
                "equivalence(T, name, margin)",
            ],
        ),
        (
            uncertainty.compare_groups,
            [
                "compare_groups(y_true, y_pred, groups, names)",
                'compare_groups(table, names, y_true="label", y_pred="guess", groups="site")',
                "compare_groups(M, names)",
            ],
        ),
    ],
)
def test_the_help_begins_with_every_call(function, calls):
    first, call, third = inspect.getdoc(function).split("\n\n")[:3]
    assert "\n" not in first
    assert " ".join(call.split()) == f"Call it as ``{calls[0]}``, as ``{calls[1]}``, or as ``{calls[2]}``."
    assert third.startswith("Parameters\n---")


def test_the_calls_in_the_help_work():
    table = pd.DataFrame({"label": [0, 1] * 10, "guess": [0, 1] * 9 + [1, 1], "new": [0, 1] * 10, "old": [1] * 20})
    table["site"] = ["a", "b", "b", "a"] * 5
    by_name = {"names": "accuracy", "name": "accuracy", "margin": 0.5, "table": table}
    by_name |= {
        "M": cmfast.confusion_matrix(table, "label", "guess"),
        "y_true": table["label"],
        "y_pred": table["guess"],
    }
    by_name |= {"y_a": table["new"], "y_b": table["old"], "groups": table["site"]}
    by_name["T"] = uncertainty.paired_counts(table, "label", "new", "old")
    functions = [
        "interval",
        "posterior",
        "standard_error",
        "compare",
        "mcnemar",
        "bowker",
        "stuart_maxwell",
        "equivalence",
    ]
    for name in functions:
        calls = re.findall(r"``(.*?)``", inspect.getdoc(getattr(uncertainty, name)).split("\n\n")[1].replace("\n", " "))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            found = [eval(call, {name: getattr(uncertainty, name), **by_name}) for call in calls]
        for one in found[1:]:
            some, others = (x if isinstance(x, tuple) else (x,) for x in (one, found[0]))
            for field, wanted in zip(some, others, strict=True):
                np.testing.assert_array_equal(field, wanted)


PATIENT_OF_SAMPLE = RNG.permuted(np.arange(300) % 30)
SITE = WORDS[PATIENT_OF_SAMPLE % 3]
STRATIFIED = {
    "interval": {"n_resamples": 30, "on_failure": "ignore"},
    "standard_error": {},
}


@pytest.mark.parametrize("kind", ["arrays", "pandas", "polars", "dask"])
@pytest.mark.parametrize("name", STRATIFIED)
def test_strata_of_samples_are_those_of_their_counts(name, kind):
    function, options = getattr(uncertainty, name), STRATIFIED[name]
    columns = {"y": Y, "a": A, "patient": PATIENT_OF_SAMPLE, "site": SITE}

    def call(**units):
        if kind == "arrays":
            return repr(function(Y, A, "mcc", **{unit: columns[of] for unit, of in units.items()}, **options))
        if kind == "dask":
            da = pytest.importorskip("dask.array")
            lazily = {key: da.from_array(x, chunks=70) for key, x in columns.items()}
            found = function(
                lazily["y"], lazily["a"], "mcc", **{unit: lazily[of] for unit, of in units.items()}, **options
            )
            return repr(found.compute())
        table = pytest.importorskip(kind).DataFrame(columns)
        return repr(function(table, "mcc", y_true="y", y_pred="a", **units, **options))

    sites = cmfast.confusion_matrix(Y, A, groups=PATIENT_OF_SAMPLE % 3)
    assert call(strata="site") == repr(function(sites, "mcc", strata=[0, 1, 2], **options))
    patients = cmfast.confusion_matrix(Y, A, groups=PATIENT_OF_SAMPLE)
    units = {"clusters": True, "strata": WORDS[np.arange(30) % 3]}
    assert call(clusters="patient", strata="site") == repr(function(patients, "mcc", **units, **options))


def test_several_columns_are_strata_of_their_combinations():
    table = pd.DataFrame({"y": Y, "a": A, "patient": PATIENT_OF_SAMPLE, "site": SITE, "half": PATIENT_OF_SAMPLE % 2})
    call = {"y_true": "y", "y_pred": "a", "clusters": "patient"}
    found = uncertainty.standard_error(table, "mcc", strata=["site", "half"], **call)
    assert found == uncertainty.standard_error(table.assign(both=PATIENT_OF_SAMPLE % 6), "mcc", strata="both", **call)
    pair = {"site": SITE, "half": PATIENT_OF_SAMPLE % 2}
    assert found == uncertainty.standard_error(Y, A, "mcc", clusters=PATIENT_OF_SAMPLE, strata=pair)


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (
            {"clusters": PATIENT_OF_SAMPLE // 2, "strata": SITE},
            "strata must be the same for all samples of a cluster, got 'x' and 'y' in cluster 0; give clusters of",
        ),
        ({"clusters": True, "strata": SITE}, "clusters must be the cluster of each sample, if labels are given"),
        ({"strata": SITE[:5]}, r"strata must be of shape \(300,\), as y_true, got shape \(5,\)"),
        ({"strata": np.where(SITE == "x", None, SITE)}, "strata must be without missing values"),
        ({"strata": "site"}, "strata must be an array"),
    ],
    ids=range(5),
)
def test_messages_about_strata_name_them(units, text):
    with pytest.raises((TypeError, ValueError), match=f"^uncertainty.interval: {text}"):
        uncertainty.interval(Y, A, "accuracy", **units)


def test_messages_about_columns_of_strata_name_them():
    table = pd.DataFrame({"y": Y, "a": A, "site": SITE})
    with pytest.raises(ValueError, match=r"interval: strata must be one of the columns .* did you mean 'site'"):
        uncertainty.interval(table, "accuracy", y_true="y", y_pred="a", strata="sit")


MODELS = {"a": A, "b": B, "third": np.where(Y == 2, 5, Y)}  # its class 5 is in no other column
TABLE_OF_MODELS = {"y": Y, **MODELS, "site": SITE, "patient": PATIENT_OF_SAMPLE}


def count_all(**units):
    """Return the paired counts of all pairs over the classes of all, from which others are computed."""
    columns = MODELS.items()
    return {
        (a, b): uncertainty.paired_counts(Y, x, z, labels=[0, 1, 2, 5], **units)
        for k, (a, x) in enumerate(columns)
        for b, z in list(columns)[k + 1 :]
    }


FEW = {"n_resamples": 99}
MANY = {
    "dict": lambda *n: uncertainty.compare_many(Y, MODELS, *n, **FEW),
    "named": lambda *n: uncertainty.compare_many(y_true=Y, y_pred=MODELS, names=n[0] if n else None, **FEW),
    "series": lambda *n: uncertainty.compare_many(Y, [pd.Series(x, name=m) for m, x in MODELS.items()], *n, **FEW),
    "columns": lambda *n: uncertainty.compare_many(Y, pd.DataFrame(MODELS), *n, **FEW),
    "pandas": lambda *n: uncertainty.compare_many(
        pd.DataFrame(TABLE_OF_MODELS), *n, y_true="y", y_pred=["a", "b", "third"], **FEW
    ),
    "polars": lambda *n: uncertainty.compare_many(
        pytest.importorskip("polars").DataFrame(TABLE_OF_MODELS),
        *n,
        y_true="y",
        y_pred={"a": "a", "b": "b", "third": "third"},
        **FEW,
    ),
    "dask": lambda *n: uncertainty.compare_many(
        pytest.importorskip("dask.array").from_array(Y, chunks=100),
        {m: pytest.importorskip("dask.array").from_array(x, chunks=100) for m, x in MODELS.items()},
        *n,
        **FEW,
    ).compute(),
    "dask-table": lambda *n: uncertainty.compare_many(
        pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame(TABLE_OF_MODELS), npartitions=3),
        *n,
        y_true="y",
        y_pred=["a", "b", "third"],
        **FEW,
    ).compute(),
}


@pytest.mark.parametrize("way", MANY.values(), ids=MANY)
def test_labels_of_many_models_are_paired_counts_of_all_pairs(way):
    for names in ("f1_macro", ["recall", "accuracy"]):
        found, want = way(names), uncertainty.compare_many(count_all(), names, **FEW)
        several = zip(found.values(), want.values(), strict=True) if isinstance(found, Mapping) else [(found, want)]
        for one, other in several:
            assert list(one.pairs) == [("a", "b"), ("a", "third"), ("b", "third")]
            np.testing.assert_array_equal(one.holm, other.holm)
            for pair, comparison in one.pairs.items():
                for got, expected in zip(comparison, other.pairs[pair], strict=True):
                    assert np.array_equal(got, expected, equal_nan=isinstance(expected, np.ndarray)) or got == expected


def test_many_models_may_have_groups_and_clusters():
    units = {"groups": WORDS[PATIENT_OF_SAMPLE % 2], "clusters": PATIENT_OF_SAMPLE}
    table = pd.DataFrame(TABLE_OF_MODELS).assign(site=units["groups"])
    want = uncertainty.compare_many(count_all(**units), "mcc", **FEW).holm
    found = uncertainty.compare_many(Y, MODELS, "mcc", **units, **FEW)
    np.testing.assert_array_equal(found.holm, want)
    columns = {"y_true": "y", "y_pred": list(MODELS), "groups": "site", "clusters": "patient"}
    np.testing.assert_array_equal(uncertainty.compare_many(table, "mcc", **columns, **FEW).holm, want)
    kept = np.flatnonzero(Y != 1)
    few = {name: x[kept] for name, x in MODELS.items()}
    some = uncertainty.compare_many(Y[kept], few, "accuracy", **FEW)
    np.testing.assert_array_equal(
        uncertainty.compare_many(Y, MODELS, "accuracy", ignore_index=1, **FEW).holm, some.holm
    )


def test_unnamed_models_are_numbered():
    found = uncertainty.compare_many(Y, [A, B], "accuracy", **FEW)
    assert list(found.pairs) == [("model 1", "model 2")]


SCORES = {"a": A + 0.25, "b": B - 0.25}
TABLE_OF_SCORES = pd.DataFrame({"y": Y, **SCORES})
AREAS_OF_MANY = (
    r"names must be metrics of counts, got NAME; areas of several models are uncertainty\.auc_covariance"
    r'\(y_true, scores\) and its interval, or uncertainty\.compare\(y_true, s_a, s_b, "roc_auc"\) for each pair$'
)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: uncertainty.compare_many(Y, A, "mcc"), "y_pred must be the predictions of two or more classifiers"),
        (lambda: uncertainty.compare_many(Y, [A], "mcc"), "y_pred must be .*, got a list of 1$"),
        (
            lambda: uncertainty.compare_many(Y, np.stack([A, B]), "mcc"),
            r"y_pred must be .* ndarray of shape \(2, 300\)",
        ),
        (
            lambda: uncertainty.compare_many(pd.DataFrame(TABLE_OF_MODELS), "mcc"),
            r"a table needs y_true= and y_pred=, the names of its columns, as in uncertainty.compare_many\(",
        ),
        (
            lambda: uncertainty.compare_many(pd.DataFrame(TABLE_OF_MODELS), "mcc", y_true="y"),
            "y_pred must be given, too, as in",
        ),
        (
            lambda: uncertainty.compare_many(pd.DataFrame(TABLE_OF_MODELS), "mcc", y_true="y", y_pred="a"),
            "y_pred must be the names of two or more columns, as y_pred=.*, got 'a'",
        ),
        (
            lambda: uncertainty.compare_many(pd.DataFrame(TABLE_OF_MODELS), "mcc", y_true="y", y_pred=["a", "c"]),
            r"y_pred\['c'\] must be one of the columns",
        ),
        (
            lambda: uncertainty.compare_many({("a", "b"): PAIRED}, "mcc", groups=SITE),
            "groups must be left out where counts are given: pass it to paired_counts, got ndarray",
        ),
        (lambda: uncertainty.compare_many(Y, SCORES, "roc_auc"), AREAS_OF_MANY.replace("NAME", "'roc_auc'")),
        (lambda: uncertainty.compare_many(Y, SCORES, names=["AUC"]), AREAS_OF_MANY.replace("NAME", r"\['AUC'\]")),
        (
            lambda: uncertainty.compare_many(TABLE_OF_SCORES, y_true="y", y_score=["a", "b"]),
            r"y_score must be left out, got \['a', 'b'\]; areas of several models are uncertainty.auc_covariance",
        ),
        (
            lambda: uncertainty.compare_many(TABLE_OF_SCORES, "roc_auc", y_true="y", y_pred=["a", "b"]),
            AREAS_OF_MANY.replace("NAME", "'roc_auc'"),
        ),
        (
            lambda: uncertainty.compare_many(Y, SCORES),
            r"y_a must be .* float64; .*; areas of scores are uncertainty\.auc_covariance\(y_true, scores\)$",
        ),
    ],
    ids=range(13),
)
def test_messages_about_many_models(call, text):
    with pytest.raises((TypeError, ValueError), match=f"^uncertainty.compare_many: {text}"):
        call()
