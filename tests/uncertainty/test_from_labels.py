"""Labels in place of counts: the same results as those of the counts, and messages that name the labels."""

import numpy as np
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


def test_intervals_are_a_table_in_a_notebook():
    found = uncertainty.interval([[40, 3], [5, 30]], ["mcc", "recall"], n_resamples=20, on_failure="ignore")
    shown = found._repr_html_()
    assert shown.count("<tr>") == 1 + 3
    assert f"<td>{float(found['mcc'].low):.4g}</td>" in shown
    assert "2 metrics, 95% by bca, 20 replicates" in shown


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
