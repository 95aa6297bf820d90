"""What newcomers meet: gaps in columns, text for class ids, totals that differ, libraries that are not installed."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import cmfast
from cmfast import agreement, metrics, uncertainty
from cmfast._core.adapters import adapter

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

Y, P = [0, 1, 2, 1], [0, 2, 2, 1]
M = np.array([[5, 1, 0], [2, 6, 1], [0, 1, 7]])
COUNTS = cmfast.ConfusionCounts.from_labels(Y, P)
POINTS = np.random.default_rng(1).standard_normal((90, 2))
THREE = np.random.default_rng(2).integers(0, 3, 90)
GAPS = {"label": [1, 0, None, 1, 0, 1], "old": [1, 0, 1, None, None, 1], "new": [1, 1, 1, 1, 0, 1], "site": [0] * 6}
NAMES_WITH_GAPS = {key: [x if x is None else f"class {x}" for x in own] for key, own in GAPS.items()}
MAKE = {
    "floats": lambda: pd.DataFrame(GAPS),
    "objects": lambda: pd.DataFrame(NAMES_WITH_GAPS),
    "nullable": lambda: pd.DataFrame(GAPS).astype("Int64"),
    "polars": lambda: pl.DataFrame(GAPS),
    "polars of text": lambda: pl.DataFrame(NAMES_WITH_GAPS),
    "polars of floats": lambda: pl.from_pandas(pd.DataFrame(GAPS), nan_to_null=False),
    "arrow": lambda: pa.table(GAPS),
    "arrow of text": lambda: pa.table(NAMES_WITH_GAPS),
}
PAIRED = {"y_true": "label", "y_a": "old", "y_b": "new"}
OF_TABLES = {
    "compare": lambda table: uncertainty.compare(table, "accuracy", **PAIRED, n_resamples=20),
    "mcnemar": lambda table: uncertainty.mcnemar(table, **PAIRED),
    "confusion_matrix": lambda table: cmfast.confusion_matrix(table, "label", "old"),
    "by": lambda table: cmfast.by(table, "site", y_true="label", y_pred="old"),
    "report": lambda table: cmfast.report(table, y_true="label", y_pred=["new", "old"], n_resamples=2),
    "compare_groups": lambda table: uncertainty.compare_groups(
        table, "accuracy", y_true="label", y_pred="old", groups="new", clusters="site"
    ),
}


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("function", OF_TABLES)
@pytest.mark.parametrize("kind", MAKE)
def test_all_columns_with_missing_values_are_named_with_the_call_that_leaves_them_out(kind, function):
    table = MAKE[kind]()
    with pytest.raises((TypeError, ValueError), match=r"without missing values, got 1 in column 'label' ") as caught:
        OF_TABLES[function](table)
    text = str(caught.value)
    assert "(first: row 2)" in text
    assert "2 in column 'old' (first: row 3)" in text
    assert "'new' (" not in text
    assert "'site' (" not in text
    call = re.search(r"; (table\..*) leaves these rows out$", text)[1]
    OF_TABLES[function](eval(call, {"table": table, "int": int}))


def test_columns_of_areas_with_missing_values_are_named():
    table = pd.DataFrame({"ill": [1, None, 0], "score": [0.5, 0.4, None]})
    with pytest.raises(TypeError, match=r"'ill' .* 1 in column 'score' .*\.astype\({'ill': int}\) leaves these rows"):
        metrics.roc_auc(table, y_true="ill", y_score="score")


def test_groups_by_name_after_labels_by_place():
    y, a, of = np.tile(Y, 9), np.tile(P, 9), np.repeat(["p", "q", "r"], 12)
    wanted = uncertainty.compare_groups(y, a, of, "accuracy", n_resamples=20)
    for names in ("accuracy", ["accuracy"]):
        found = uncertainty.compare_groups(y, a, names, groups=of, n_resamples=20)
        assert repr(found if names == "accuracy" else found["accuracy"]) == repr(wanted)
    assert repr(uncertainty.interval(y, "mcc", y_pred=a)) == repr(uncertainty.interval(y, a, "mcc"))


def test_the_advised_factor_makes_totals_agree():
    with pytest.warns(cmfast.FailureWarning, match=r"multiply the column targets by 1/0\.9 to make them agree$"):
        cmfast.ipf(M, [0.3, 0.3, 0.4], [0.3, 0.3, 0.3])
    made = cmfast.ipf(M + 1, [0.3, 0.3, 0.4], np.array([0.3, 0.3, 0.3]) * (1 / 0.9))
    assert made.status == cmfast.Status.CONVERGED
    with pytest.warns(cmfast.FailureWarning, match=r"1e-9 allowed\)$"):  # nothing to multiply
        cmfast.ipf(M, [0.3, 0.3, 0.4], [0.0, 0.0, 0.0])


def test_the_advised_factor_makes_totals_of_a_survey_agree():
    people = pd.DataFrame({"age": ["old", "young"] * 9, "site": list("nns") * 6})
    ages, sites = {"old": 10.0, "young": 20.0}, {"n": 6.0, "s": 9.0}
    with pytest.warns(
        cmfast.FailureWarning, match=r"30 against 15; multiply targets of site by 30/15 to make them agree$"
    ):
        cmfast.rake(people, {"age": ages, "site": sites})
    made = cmfast.rake(people, {"age": ages, "site": {name: total * (30 / 15) for name, total in sites.items()}})
    assert made.status == cmfast.Status.CONVERGED
    with pytest.warns(cmfast.FailureWarning, match="30 against 0$"):
        cmfast.rake(people, {"age": ages, "site": {"n": 0.0, "s": 0.0}})


def test_width_curve_takes_text_labels():
    points, y, guess = POINTS, THREE, np.roll(THREE, 1)
    names = np.array(["a", "b", "c"])
    some = {"factors": (1.0, 2.0), "origins": 2}
    wanted = cmfast.width_curve(points, y, guess, **some)
    found = cmfast.width_curve(points, names[y], list(names[guess]), **some)
    np.testing.assert_array_equal(found.overlaps, wanted.overlaps)
    with pytest.raises(ValueError, match="width_curve: n_classes must be None where labels are text"):
        cmfast.width_curve(points, names[y], names[guess], n_classes=3, **some)


def test_a_column_that_shares_no_category_with_the_raters_is_named():
    raters = pd.DataFrame({"r1": list("abca") * 9, "r2": list("abcb") * 9})
    table = raters.assign(site=["x", "y"] * 18)
    with pytest.warns(
        cmfast.DiagnosticWarning, match=r"column 'site' was .*; ratings\[\['r1', 'r2'\]\] leaves it out$"
    ):
        agreement.compute(table, "fleiss_kappa")
    with pytest.warns(cmfast.DiagnosticWarning, match="column 'site' was taken for a rater"):
        agreement.compute(pl.from_pandas(table), "fleiss_kappa")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agreement.compute(raters, "fleiss_kappa")
        agreement.compute(table.assign(site="a"), "fleiss_kappa")


def test_many_classes_are_answered_by_sparse():
    error = MemoryError()
    error.shape, error.dtype = (10**5, 10**5), np.dtype(np.int64)

    def fail(*_args, **_options):
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(adapter(M)), "call", fail)
        with pytest.raises(
            MemoryError, match=r"^confusion_matrix: .*8e\+10 bytes; sparse=True returns only the cells that"
        ):
            cmfast.confusion_matrix(np.array(Y), np.array(P))
        with pytest.raises(MemoryError, match=r"8e\+10 bytes$"):
            cmfast.confusion_matrix(Y, P, groups=[0, 0, 1, 1], n_groups=2)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_a_library_that_is_missing_is_named_with_its_installation(monkeypatch):
    some = {
        "Interval": uncertainty.interval(Y, P, "accuracy", method="wilson"),
        "Intervals": uncertainty.interval(Y, P, ["accuracy"], method="wilson"),
        "Posterior": uncertainty.posterior(M, "mcc", n_resamples=9),
        "Comparison": uncertainty.compare(Y, P, Y, "accuracy", n_resamples=20),
        "ComparisonsByMetric": uncertainty.compare(Y, P, Y, ["accuracy"], n_resamples=20),
        "PairwiseComparisonsByMetric": uncertainty.compare_many(Y, [P, Y], ["accuracy"], n_resamples=20),
        "PairedCounts": uncertainty.paired_counts(Y, P, P),
        "GroupComparison": uncertainty.compare_groups(np.stack([M, M]), "accuracy"),
        "GroupComparisonsByMetric": uncertainty.compare_groups(np.stack([M, M]), ["accuracy"]),
        "ClassificationReport": metrics.classification_report(M),
        "ConfusionCounts": COUNTS,
        "Support": cmfast.support(M),
        "ScalingResult": cmfast.ipf(M + 1),
        "WidthCurve": cmfast.width_curve(POINTS, THREE, np.roll(THREE, 1), factors=[1.0], origins=1),
    }
    monkeypatch.setitem(sys.modules, "pandas", None)
    for name, result in some.items():
        with pytest.raises(
            ModuleNotFoundError, match=r"^\w[\w.]*: pandas is not installed: pip install pandas$"
        ) as caught:
            result.to_pandas()
        assert type(result).__name__ == name
        assert caught.value.name == "pandas"
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "cmfast.nn", raising=False)
    monkeypatch.delattr(cmfast, "nn", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"^torch is not installed: pip install torch$"):
        from cmfast import nn  # noqa: F401
    assert not hasattr(cmfast, "nn")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("absent", "module", "line"),
    [
        ("torchmetrics", "torchmetrics", "torchmetrics is not installed: pip install torchmetrics"),
        ("torch", "torchmetrics", "torch is not installed: pip install torch"),
        ("sklearn", "sklearn", "scikit-learn is not installed: pip install scikit-learn"),
    ],
)
def test_replacements_say_how_to_install_their_library(absent, module, line):
    if absent == "torch":
        pytest.importorskip("torchmetrics")
    program = f"import sys; sys.modules[{absent!r}] = None\nimport cmfast.compat.{module}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == f"ModuleNotFoundError: {line}"
