"""What the papers and other libraries say of metrics, where they are right and where they are not; and the policies."""

import json
import tracemalloc
from keyword import iskeyword
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.metrics as skm
from cases.metrics import EVERY
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import metrics
from cmfast.kernels.cpu.metrics.values import PAST_BYTES
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import AGAIN

PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "metrics.json").read_text())
GLOSSARY, TEAMS = PUBLISHED["paper001"], PUBLISHED["paper003"]["teams"]
FINLEY, EDGES = PUBLISHED["paper004"]["finley_1884"], PUBLISHED["edge_3class"]
COUNTS = cmfast.ConfusionCounts.from_labels([0, 1], [0, 0])


def test_reductions_that_are_no_sums_are_those_of_recalls():
    """The kernels reduce recalls for these codes, whatever value a row of the table names."""
    assert {metric.value for metric in metrics.METRICS if metric.over in AGAIN} == {Value.RECALL}


def assert_close(got, want):
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", GLOSSARY)
def test_glossary(name):
    block = GLOSSARY[name]
    M = np.array(block["cm"])
    for values, matrix in ((block["metrics"], M), (block.get("row_normalised", {}), M / M.sum(1, keepdims=True))):
        for metric, value in metrics.compute(matrix, list(values), undefined="nan").items():
            assert_close(value, values[metric])
    if "kappa_custom" in block:
        custom = block["kappa_custom"]
        assert_close(metrics.kappa(M, weights=custom["weights"]), custom["value"])


@pytest.mark.parametrize("undefined", ["nan", "strict", "present", "zero", "one"])
@pytest.mark.parametrize("name", EDGES)
def test_policies_on_absent_unsupported_and_unpredicted_classes(name, undefined):
    block = EDGES[name]
    if undefined in block["policies"]:
        values = block["policies"][undefined]
        for metric, value in metrics.compute(block["cm"], list(values), undefined=undefined).items():
            assert_close(value, values[metric])
    for metric, value in block["defined"].items():
        assert np.asarray(metrics.defined(block["cm"], metric)).tolist() == value, metric


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("kind", ["counts", "row_normalised"])
def test_paper_003(team, kind):
    M = np.array(TEAMS[team]["cm"])
    M = M if kind == "counts" else M / M.sum(1, keepdims=True)
    for name, value in TEAMS[team][kind].items():
        if name == "f1_of_first_two_classes":  # what the paper's code computes and prints as sF1, the mean over classes
            assert_close(metrics.f1(M)[:2].mean(), value)
            assert abs(metrics.f1(M, average="macro") - value) > 0.01
        elif name.startswith("kappa_") and name != "kappa_01":
            assert_close((metrics.compute(M, name.removesuffix("_01")) + 1) / 2, value)
        else:
            assert_close(metrics.compute(M, name), value)


def test_paper_004_on_finleys_tornadoes():
    values = dict(FINLEY["metrics"])
    for name in ("precision", "recall", "f1"):
        assert_close(metrics.compute(FINLEY["cm"], name)[1], values.pop(name))
    for name, value in metrics.compute(FINLEY["cm"], list(values)).items():
        assert_close(value, values[name])


@pytest.mark.exhaustive
def test_integers_are_exact_where_floats_cancel_or_overflow():
    assert metrics.mcc([[10**18, 10**18], [10**18, 2]]) == pytest.approx(-0.5, rel=1e-14)
    assert metrics.mcc([[10**8, 1000], [1000, 100]]) == pytest.approx(0.09089909100908991, rel=1e-14)
    assert metrics.mcc([[99999000, 500], [500, 0]]) == pytest.approx(-5.000025000125e-06, rel=1e-12)
    assert metrics.mcc(np.diag([7, 49, 3])) == metrics.kappa(np.diag([7, 49, 3])) == 1


@pytest.mark.parametrize("M", [[[5, 0], [0, 0]], [[0, 0], [0, 5]], [[0, 5], [0, 0]]])
def test_mcc_of_two_degenerate_margins_is_undefined(M):
    assert metrics.mcc(M) == 0
    assert np.isnan(metrics.mcc(M, undefined="nan"))


@pytest.mark.parametrize("M", [[[5, 0], [3, 0]], [[5, 3], [0, 0]], [[9500, 0], [500, 0]]])
def test_mcc_of_one_degenerate_margin_is_zero(M):
    assert metrics.mcc(M, undefined="strict") == 0


@pytest.mark.exhaustive
def test_sums_give_the_bits_of_the_matrix(rng):
    for M in (rng.integers(0, 20, (50, 6, 6)), rng.random((50, 6, 6)), rng.integers(0, 2**55, (9, 6, 6))):
        sums = metrics.margins(M)
        want = metrics.compute(M, EVERY)
        got = metrics.from_sums(*sums[:3], EVERY, bands=sums.bands, tops=sums.tops)
        for name in EVERY:
            assert got[name].tobytes() == want[name].tobytes(), name


def test_same_bits_whatever_else_is_asked_for(rng):
    M = rng.integers(0, 20, (9, 4, 4))
    want = metrics.compute(M, EVERY)
    for names in (EVERY[::-1], *([name] for name in EVERY), ["geometric_mean", "f1_of_macro", "tau"]):
        for name, value in metrics.compute(M, names).items():
            assert value.tobytes() == want[name].tobytes(), name


@pytest.mark.exhaustive
def test_same_bits_for_any_number_of_threads_and_any_neighbours(rng):
    M = rng.integers(0, 50, (20_000, 5, 5))
    M[7] *= 2**50  # through two words
    M[9] = -1
    want = metrics.compute(M, EVERY, on_failure="ignore", num_threads=1)
    order = rng.permutation(len(M))
    shuffled = metrics.compute(M[order], EVERY, on_failure="ignore", num_threads=5)
    for name in EVERY:
        assert want[name][order].tobytes() == shuffled[name].tobytes(), name
    for i in (0, 7, 31, 19_999):
        alone = metrics.compute(M[i], EVERY)
        for name in EVERY:
            assert np.asarray(alone[name]).tobytes() == want[name][i].tobytes(), name


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float64])
def test_what_a_call_returns_is_nobody_elses(dtype, rng):
    """Single matrices are evaluated in memory that is kept from call to call."""
    M = rng.integers(0, 50, (3, 4, 4)).astype(dtype)
    names = ["recall", "accuracy", "f1", "mcc"]
    results = [list(metrics.compute(one, names).values()) for one in M]
    together = metrics.compute(M, names)
    for k, result in enumerate(results):
        assert_same_bits(tuple(result), tuple(values[k] for values in together.values()))
        assert not any(np.shares_memory(a, b) for a in result for other in results[:k] for b in other)


def test_tau_weighted_is_not_bounded_below_unless_normalised():
    worst = [[0, 5], [5, 0]]
    assert_close(metrics.tau_weighted(worst, [10, 10]), 1 - np.sqrt(10))
    assert_close(metrics.tau_weighted(worst, [10, 10], normalize=True), 0)
    M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    assert_close(metrics.tau_weighted(M, [1, 1, 1]), metrics.tau(M))
    assert_close(metrics.tau_weighted(M, [5, 5, 5], normalize=True), metrics.tau(M))


def test_every_function_is_its_row_of_the_table():
    M = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])
    for metric in metrics.METRICS:
        for name in (metric.name, *metric.aliases):
            if metric.kind == "binary":
                assert getattr(metrics, name)([[5, 1], [2, 4]]) == metrics.compute([[5, 1], [2, 4]], name)
            elif name == "fbeta":
                assert_close(metrics.fbeta(M, 2), metrics.compute(M, "fbeta_2"))
            elif name == "tau_weighted":
                assert_same_bits(metrics.tau_weighted(M, [1, 2.5, 0]), metrics.compute(M, "tau_weighted_1_2.5_0"))
            elif not name.endswith("_ovr") and not iskeyword(name):
                assert_close(getattr(metrics, name)(M), metrics.compute(M, name))
    assert len(set(metrics.SCALARS)) == len(metrics.SCALARS)


@pytest.mark.parametrize(("beta", "same"), [(0, "precision"), (np.inf, "recall"), (1, "f1")])
@pytest.mark.parametrize("average", [None, "macro", "weighted", "micro"])
@pytest.mark.parametrize("undefined", ["present", "nan", "strict", "zero", "one"])
def test_limits_of_fbeta(beta, same, average, undefined):
    M = np.array([[420, 15, 0, 0], [10, 280, 0, 5], [0, 0, 0, 0], [3, 1, 0, 0]])  # class 2 never occurs
    want = getattr(metrics, same)(M, average=average, undefined=undefined)
    assert_same_bits(metrics.fbeta(M, beta, average=average, undefined=undefined), want)
    assert_same_bits(metrics.fbeta(M, beta=beta, average=average, undefined=undefined), want)


@pytest.mark.parametrize("undefined", ["present", "nan", "zero", "one"])
def test_averages_over_some_classes_are_scikit_learns(undefined, rng):
    zero_division = {"present": 0, "nan": np.nan, "zero": 0, "one": 1}[undefined]
    for M in rng.integers(1, 9, (5, 4, 4)) * [1, 1, 1, 0]:
        y, p = np.repeat(np.indices((4, 4)).reshape(2, -1), M.ravel(), axis=1)
        for labels in ([0, 2], [3, 1, 0], [2]):
            for average in ("macro", "weighted", "micro"):
                options = {"labels": labels, "average": average, "zero_division": zero_division, "beta": 0.5}
                names = [f"{name}_{average}" for name in ("precision", "recall", "fbeta_0.5")]
                found = metrics.compute(M, names, average_over=labels, undefined=undefined)
                assert_close(list(found.values()), skm.precision_recall_fscore_support(y, p, **options)[:3])
            assert_close(metrics.f1(M, average_over=labels), skm.f1_score(y, p, labels=labels, average=None))
            tables = skm.multilabel_confusion_matrix(y, p, labels=labels)
            assert np.array_equal(metrics.one_vs_rest(M, classes=labels), tables)
    assert metrics.recall(np.eye(3), average_over=[2, 0]).shape == (2,)
    for wrong, error in (
        ([], TypeError),
        ("ab", TypeError),
        ([0, 0], ValueError),
        ([4], ValueError),
        ([1.5], TypeError),
    ):
        with pytest.raises(error, match=r"metrics.compute: average_over must be"):
            metrics.compute(M, "mcc", average_over=wrong)


def test_the_positive_class_of_two(rng):
    for M in rng.integers(1, 9, (5, 2, 2)):
        y, p = np.repeat(np.indices((2, 2)).reshape(2, -1), M.ravel(), axis=1)
        for pos_label in (0, 1):
            assert_close(metrics.f1(M, average="binary", pos_label=pos_label), skm.f1_score(y, p, pos_label=pos_label))
            assert_close(metrics.fbeta(M, 2, average="binary", pos_label=pos_label), metrics.fbeta(M, 2)[pos_label])
            assert_close(
                metrics.compute(M, "jaccard_binary", pos_label=pos_label), skm.jaccard_score(y, p, pos_label=pos_label)
            )
    with pytest.raises(ValueError, match=r"of 2 classes for f1_binary \(per class: f1, mean: f1_macro\)"):
        metrics.f1(np.ones((3, 3)), average="binary")


def test_likelihood_ratios_are_infinite_where_only_the_divisor_is_0():
    M = [[5, 0], [2, 3]]
    assert metrics.positive_likelihood_ratio(M)[1] == np.inf
    assert metrics.diagnostic_odds_ratio(M).tolist() == [np.inf, np.inf]
    assert_close(metrics.compute(M, "negative_likelihood_ratio"), [0.0, 0.4])
    fpr, fnr = metrics.compute(M, "fpr")[1], metrics.compute(M, "false_negative_rate")[1]
    assert_close((fpr, fnr), (0.0, 0.4))


def test_krippendorffs_alpha_depends_on_the_number_of_samples():
    M = np.array([[5, 1], [2, 4]])
    few, many, pi = metrics.krippendorff_alpha(M), metrics.krippendorff_alpha(M * 10**6), metrics.scott_pi(M)
    assert_close(few, pi + (1 - pi) / (2 * M.sum()))
    np.testing.assert_allclose(many, pi, rtol=1e-6)
    assert_close(metrics.krippendorff_alpha(M * 1e200), pi)
    assert np.isnan(metrics.krippendorff_alpha(M * 1e-200, undefined="nan"))


def test_tensors_give_tensors():
    found = metrics.compute(torch.tensor([[5, 1], [2, 4]]), ["mcc", "recall"])
    assert all(isinstance(value, torch.Tensor) for value in found.values())
    assert isinstance(metrics.defined(torch.ones(3, 2, 2), "mcc"), torch.Tensor)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.compute([[1]], "nonsense"), ValueError, "metrics.compute: names must be metrics"),
        (lambda: metrics.compute([[1]], 3), TypeError, "metrics.compute: names must be a name or a list of names"),
        (lambda: metrics.tss(np.ones((3, 3))), ValueError, "tss_ovr_macro"),
        (lambda: metrics.mcc(np.ones((2, 3))), ValueError, "metrics.mcc: M must be square"),
        (
            lambda: metrics.mcc([[1]], undefined="maybe"),
            ValueError,
            "undefined must be a number from 0 to 1, or one of",
        ),
        (
            lambda: metrics.compute([[1]], "f1_marco"),
            ValueError,
            "must be metrics, got 'f1_marco'; did you mean 'f1_macro'",
        ),
        (lambda: metrics.compute([[1]], ["mcc", "Kapa"]), ValueError, "did you mean 'kappa'"),
        (lambda: metrics.compute([[1]], "f1score"), ValueError, "did you mean 'f1'"),
        (lambda: metrics.compute([[1]], "f1-score"), ValueError, "did you mean 'f1'"),
        (lambda: metrics.compute([[1]], "precision_score"), ValueError, "did you mean 'precision'"),
        (lambda: metrics.compute([[1]], "f1_sore"), ValueError, "did you mean 'f1'"),
        (lambda: metrics.compute([[1]], "recall_scroe_macro"), ValueError, "did you mean 'recall_macro'"),
        (lambda: metrics.compute([[1]], "cohen_kappa_score"), ValueError, "did you mean 'kappa'"),
        (
            lambda: metrics.compute([[1]], ["scalars", "per_class"]),
            ValueError,
            "must be metrics, got 'scalars' in a list; it stands for many names, and alone: names='scalars'$",
        ),
        *[
            (
                call,
                TypeError,
                rf"^metrics\.{name}: there is no option 'zero_division'; undefined= says what a 0/0 gives$",
            )
            for name, call in {
                "compute": lambda: metrics.compute([[1]], "f1", zero_division=0),
                "f1": lambda: metrics.f1([[1]], zero_division=0),
                "from_labels": lambda: metrics.from_labels([1], [1], "f1", zero_division=0),
                "multilabel": lambda: metrics.multilabel([[1]], [[1]], zero_division=0),
            }.items()
        ],
        (lambda: metrics.multilabel([[1]], [[1]], ["f1_marco"]), ValueError, "'f1_marco'; did you mean 'f1_macro'"),
        (lambda: metrics.multilabel([[1]], [[1]], "precisions"), ValueError, "did you mean 'precision'"),
        (lambda: metrics.compute([0, 1], [1, 1]), TypeError, "for labels use metrics.from_labels"),
        (lambda: metrics.f1([0, 1], [1, 1]), TypeError, "^metrics.f1: M must be a confusion matrix, got labels; for"),
        (
            lambda: metrics.kappa(y_true=[0], y_pred=[0]),
            TypeError,
            r'use metrics.from_labels\(y_true, y_pred, "kappa"\)',
        ),
        (lambda: metrics.fbeta([0, 1], [1, 1], 2), TypeError, "use metrics.from_labels"),
        (
            lambda: metrics.f1([[1]], 2),
            TypeError,
            r"^metrics\.f1: options must be given by name \(average, .*, got 2$",
        ),
        (lambda: metrics.kappa([[1]], "linear"), TypeError, r"given by name \(weights, .*\), got 'linear'$"),
        (lambda: metrics.fbeta([[1]], 2, "macro"), TypeError, r"given by name \(average, .*\), got 'macro'$"),
        (
            lambda: metrics.roc_auc([0.2, 0.7], [0, 1]),
            TypeError,
            r"y_true must be integers, got .*; labels come first, as",
        ),
        (
            lambda: metrics.roc([0.2, 0.7], ["a", "b"]),
            TypeError,
            r"y_score must be real.*; labels come first, as",
        ),
        (lambda: metrics.compute([[1]], ["nope"]), ValueError, "^.{,190}PER_CLASS and metrics.BINARY .*, got 'nope'$"),
        (lambda: metrics.from_labels(["a"], [1], "mcc"), TypeError, "y_pred must be text as y_true, got dtype int64"),
        (lambda: metrics.from_labels([1], ["a"], "mcc"), TypeError, "y_true must be text as y_pred, got dtype int64"),
        (lambda: metrics.from_labels(["a"], ["a"], n_classes=1), ValueError, "n_classes must be None where labels are"),
        (lambda: metrics.from_labels(["a"], ["a"], ignore_index=1), TypeError, "ignore_index must be text, as y_true"),
        (lambda: metrics.from_labels([1], [1], ignore_index="a"), TypeError, "ignore_index must be an integer, as y"),
        (lambda: metrics.fbeta([[1]], -1), ValueError, "metrics.fbeta: beta must be at least 0"),
        (lambda: metrics.from_sums([1], [1], [1], "gerrity"), ValueError, "bands must be given for gerrity"),
        (
            lambda: metrics.from_sums([1], [1], [1, 2], "mcc"),
            ValueError,
            "metrics.from_sums: arrays must have one shape",
        ),
        (
            lambda: metrics.from_labels([0, 1], [[0, 1], [1, 1]], "mcc"),
            ValueError,
            r"one shape, got y_true: \(2,\), y_pred: \(2, 2\); broadcast_to\(y_true, \(2, 2\)\) repeats y_true",
        ),
        (lambda: metrics.tss([[1, 1], [1, 1]], pos_label=2), ValueError, "metrics.tss: pos_label must be 0 or 1"),
        (lambda: metrics.mcc([[-1, 0], [0, 1]], on_failure="raise"), cmfast.FailureError, "metrics.mcc"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: metrics.mcc([[1, -2], [0, 1]]), r"not evaluated: INVALID; negative value at M\[0, 1\]"),
        (lambda: metrics.f1([np.eye(2), [[1, np.nan], [0, 1]]]), r"first: 1\): 1 INVALID; NaN value at M\[1\]\[0, 1\]"),
        (lambda: metrics.margins([[np.inf, 0], [0, 1]]), r"not summed: INVALID; infinite value at M\[0, 0\]"),
        (lambda: metrics.margins(np.full((2, 2), 2**62)), "INVALID; the cells of M add up to more than fits"),
        (lambda: metrics.kappa(np.eye(2), weights=[[0, -1], [1, 0]]), r"negative value at weights\[0, 1\]"),
        (lambda: metrics.kappa(np.eye(2), weights=[[0, 1], [1, 2]]), r"weights\[1, 1\] is not 0"),
        (lambda: metrics.tau_weighted([[1, -1], [0, 1]], [1, 1]), r"negative value at M\[0, 1\]"),
        (lambda: metrics.from_sums([3, 1], [2, 2], [2, 2], "mcc"), r"d\[0\] is 3, above t\[0\], which is 2"),
        (lambda: metrics.from_sums([1, 1], [2, 2], [2, 3], "mcc"), "t adds up to 4, p to 5"),
        (lambda: metrics.from_sums([1, 1], [2, -2], [2, 3], "mcc"), r"negative value at t\[1\]"),
    ],
)
def test_why_there_is_no_metric(call, reason):
    with pytest.warns(cmfast.FailureWarning, match=reason):
        call()


@pytest.mark.filterwarnings("ignore:.*depend on the order of the classes")
def test_labels_that_are_text(rng):
    names = np.array(["kiwi", "fig", "apple"])
    y, p = rng.integers(0, 3, (2, 4, 300))
    order = np.argsort(np.argsort(names))  # of the classes: the sorted labels
    want = metrics.from_labels(order[y], order[p], EVERY)
    for given in ((names[y], names[p]), (names[y].tolist(), names[p].tolist())):
        for name, value in metrics.from_labels(*given, EVERY).items():
            assert value.tobytes() == want[name].tobytes(), name
    column = pd.Series(names[p[0]], dtype="category")
    assert metrics.from_labels(names[y[0]], column, "mcc") == want["mcc"][0]
    assert metrics.label_margins(names[y], names[p]).row_sums.shape == (4, 3)
    beside = metrics.from_labels(names[y], names[p], EVERY, ignore_index="fig")
    for name, value in metrics.from_labels(order[y], order[p], EVERY, ignore_index=1).items():
        assert value.tobytes() == beside[name].tobytes(), name
    with pytest.warns(cmfast.DiagnosticWarning, match="y_true and y_pred have no label in common, of 2 and 2"):
        assert metrics.from_labels(["cat", "dog"], ["0", "1"], "accuracy") == 0


def test_labels_without_a_matrix(rng):
    y, p = rng.integers(0, 7, (2, 3, 500))
    want = metrics.compute(cmfast.confusion_matrix(y, p, n_classes=7), EVERY)
    for name, value in metrics.from_labels(y, p, EVERY, n_classes=7).items():
        assert value.tobytes() == want[name].tobytes(), name
    with pytest.raises(ValueError, match=r"y_true and y_pred must be in 0\.\.2"):
        metrics.label_margins([0, 3], [0, 1], n_classes=3)


@pytest.mark.parametrize("name", ["surface3", "surface4"])
def test_tables_of_the_glossary(name):
    block = GLOSSARY[name]
    tables = metrics.one_vs_rest(block["cm"]).reshape(-1, 4)
    assert tables.tolist() == block["one_vs_rest_tn_fp_fn_tp"]
    for by, rows in block["most_confused"].items():
        value, row, col = metrics.most_confused(block["cm"], len(rows), by=by)
        assert_close(value, [r[0] for r in rows])
        assert list(zip(row.tolist(), col.tolist(), strict=True)) == [(r[1], r[2]) for r in rows]


def test_report():
    M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    report = metrics.classification_report(M, display_labels=["a", "<b>", "c"])
    assert "&lt;b&gt;" in report.to_html()
    frame = report.to_pandas()
    assert frame.loc["macro", "f1"] == metrics.f1(M, average="macro")
    assert frame.attrs["mcc"] == metrics.mcc(M)
    assert str(metrics.classification_report(torch.tensor(M))).splitlines()[0].split() == [
        "0/0:",
        "present",
        *report.columns,
    ]
    for names in (["a"], ["a", "a", "b"]):
        with pytest.raises(ValueError, match="display_labels must be"):
            metrics.classification_report(M, display_labels=names)
    with pytest.raises(ValueError, match="one matrix"):
        metrics.classification_report([M, M])


def test_thresholds_are_scikit_learns_roc_curve(rng):
    s, y = rng.integers(0, 20, 300) / 20, rng.integers(0, 2, 300)
    thresholds, matrices = metrics.threshold_matrices(y, s)
    keep = np.flatnonzero(np.append(thresholds[1:] != thresholds[:-1], True))
    fpr, tpr, theirs = skm.roc_curve(y, s, drop_intermediate=False)
    np.testing.assert_array_equal(thresholds[keep], theirs)
    assert_close(metrics.recall(matrices)[keep, 1], tpr)
    assert_close(1 - metrics.specificity(matrices)[keep, 1], fpr)


@pytest.mark.exhaustive
def test_the_geometric_mean_is_exact_at_both_ends_and_does_not_underflow():
    perfect = np.stack([np.diag(np.arange(1, 8)), np.eye(7, dtype=int)])
    assert metrics.compute(perfect, "geometric_mean").tolist() == [1.0, 1.0]
    missed = np.diag([3, 0, 5]) + np.diag([0, 2], 1)
    assert metrics.compute(missed, "geometric_mean") == 0.0
    recalls = np.array([2.0**-1074, 1e-300, 0.25] * 40)
    M = np.diag(recalls)
    M[np.arange(120), np.arange(1, 121) % 120] += 1.0 - recalls
    want = 2.0 ** (np.log2(recalls[:3]).sum() / 3.0)
    np.testing.assert_allclose(metrics.compute(M, "geometric_mean"), want, rtol=1e-13)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_weighted_tau_of_an_undefined_recall_is_nan_where_that_is_asked(normalize):
    M = [[5, 1, 0], [1, 5, 0], [0, 0, 0]]
    found = metrics.tau_weighted(M, [1, 2, 3], normalize=normalize, undefined="strict")
    assert np.isnan(found)
    assert metrics.tau_weighted(M, [1, 2, 3], normalize=normalize, undefined="nan") > 0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("undefined", ["present", "nan", "strict", "one"])
@pytest.mark.parametrize("C", [2, 5, 10, 40])
def test_totals_out_of_the_ordinary_change_no_neighbour(C, undefined, rng):
    counts = rng.integers(0, 9, (700, C, C))  # more than a block
    counts[rng.random(700) < 0.1] *= 2**40
    counts[rng.random(700) < 0.1] *= 2**13
    counts[rng.random(700) < 0.1, 0, 0] = -1
    fractions = counts * 10.0 ** rng.integers(-120, 120, (700, 1, 1))
    names = [*metrics.SCALARS, *metrics.PER_CLASS]
    for M in (counts, fractions):
        together = metrics.compute(M, names, undefined=undefined, on_failure="ignore")
        for b in (0, 1, 2, 3, 330, 699):
            alone = metrics.compute(M[b], names, undefined=undefined, on_failure="ignore")
            for name in names:
                assert_same_bits(together[name][b], alone[name])


def test_many_results_are_those_of_few(rng):
    # so many that they are written past the caches, and no multiple of what is written at a time
    M = rng.integers(0, 9, (52_003, 3, 3))
    assert len(metrics.SCALARS) * len(M) * 8 > PAST_BYTES
    found = metrics.compute(M, metrics.SCALARS)
    cuts = np.array_split(M, 11)
    parts = [metrics.compute(part, metrics.SCALARS) for part in cuts]
    for name, values in found.items():
        assert_same_bits(values, np.concatenate([part[name] for part in parts]))
        assert values.flags.c_contiguous


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64, np.float32])
@pytest.mark.parametrize("C", [1, 2, 3, 10, 17, 33])
def test_a_negative_cell_is_found_wherever_it_stands(C, dtype):
    M = np.ones((2 * C * C, C, C), dtype)
    for c in range(C * C):
        M[2 * c].flat[c] = -1
    accuracy, sums = metrics.compute(M, "accuracy", on_failure="ignore"), metrics.margins(M, on_failure="ignore")
    np.testing.assert_array_equal(np.isnan(accuracy), np.arange(len(M)) % 2 == 0)
    np.testing.assert_array_equal(sums.status == cmfast.Status.INVALID, np.arange(len(M)) % 2 == 0)


def test_labels_with_weights_groups_and_what_is_ignored(rng):
    y, p = rng.integers(0, 4, (2, 700))
    w, g = rng.integers(0, 9, 700), rng.integers(0, 3, 700)
    options = {"n_classes": 4, "sample_weight": w, "groups": g, "ignore_index": 2}
    want = metrics.compute(cmfast.confusion_matrix(y, p, **options), EVERY, average_over=[0, 1, 3])
    for name, value in metrics.from_labels(y, p, EVERY, **options, average_over=[0, 1, 3]).items():
        assert value.tobytes() == want[name].tobytes(), name
    fractions = {**options, "sample_weight": w / 7}
    want = metrics.compute(cmfast.confusion_matrix(y, p, **fractions), ["mcc", "f1"])
    for name, value in metrics.from_labels(y, p, ["mcc", "f1"], **fractions).items():
        assert_close(value, want[name])
    with pytest.raises(ValueError, match=r"groups must be in 0\.\.1, got 2"):
        metrics.label_margins(y, p, groups=g, n_groups=2)
    with pytest.warns(cmfast.FailureWarning, match="sums not evaluated.*; sample_weight must sum to a finite number"):
        assert np.isnan(metrics.from_labels([0, 1], [0, 1], "mcc", sample_weight=[1.0, np.inf]))


def test_labels_of_one_byte_are_not_copied(rng):
    y, p = rng.integers(0, 9, (2, 4_000_000), np.int8)
    metrics.from_labels(y, p, "f1")  # compiles kernels
    tracemalloc.start()
    metrics.from_labels(y, p, "f1")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < y.nbytes / 2


@pytest.mark.parametrize("weighted", [False, True])
def test_curves_and_areas_are_scikit_learns(weighted, rng):
    s, y = rng.integers(0, 20, 300) / 20, rng.integers(0, 2, 300)
    w = rng.integers(1, 9, 300) / 4 if weighted else None
    words = np.array(["well", "ill"])[y]
    options = {"sample_weight": w, "pos_label": "ill"}
    theirs = {"sample_weight": w, "pos_label": "ill"}
    thresholds, _ = metrics.threshold_matrices(words, s, **options, drop_ties=True)
    every = metrics.threshold_matrices(words, s, **options).thresholds
    keep = np.flatnonzero(np.append(every[1:] != every[:-1], True))
    fpr, tpr, wanted = skm.roc_curve(words, s, drop_intermediate=False, **theirs)
    np.testing.assert_array_equal(thresholds, wanted)
    curve = metrics.roc(words, s, **options)
    assert_close((curve.fpr[keep], curve.tpr[keep]), (fpr, tpr))
    precision, recall, wanted = skm.precision_recall_curve(words, s, **theirs)
    curve = metrics.precision_recall(words, s, **options)
    assert_close((curve.precision[keep][::-1], curve.recall[keep][::-1]), (precision, recall))
    np.testing.assert_array_equal(curve.thresholds[keep][:0:-1], wanted)
    assert_close(metrics.roc_auc(2 * y - 1, s, sample_weight=w), skm.roc_auc_score(y, s, sample_weight=w))
    assert_close(metrics.average_precision(words, s, **options), skm.average_precision_score(words, s, **theirs))
    tensors = [None if a is None else torch.tensor(a) for a in (y, s, w)]
    assert_close(metrics.roc_auc(*tensors[:2], sample_weight=tensors[2]), metrics.roc_auc(y, s, sample_weight=w))
    kept = metrics.threshold_matrices(*tensors[:2], drop_ties=True)
    assert kept.thresholds.tolist() == thresholds.tolist()
    assert isinstance(kept.matrices, torch.Tensor)


def test_arrays_of_scores_and_of_several_labels_by_name(rng):
    s, y = rng.random(50), rng.integers(0, 2, 50)
    for name in ("roc", "precision_recall", "roc_auc", "average_precision", "threshold_matrices"):
        function = getattr(metrics, name)
        assert_same_bits(function(y_true=y, y_score=s), function(y, s))
    cost = [[0, 1], [5, 0]]
    assert_same_bits(metrics.least_cost(y_true=y, y_score=s, cost=cost), metrics.least_cost(y, s, cost))
    y, p = rng.integers(0, 2, (2, 20, 3))
    assert_same_bits(metrics.multilabel_tables(y_pred=p, y_true=y), metrics.multilabel_tables(y, p))
    found = metrics.multilabel(y_pred=p, y_true=y, names="f1_macro")
    assert found == metrics.multilabel(y, p, "f1_macro")
    with pytest.raises(ValueError, match=r"metrics.roc_auc: .*y_true: \(1,\), y_score: \(2,\)"):
        metrics.roc_auc(y_true=[1], y_score=[1, 0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float64, np.float32])
def test_sums_and_reports_of_sparse_matrices(kind, rng):
    M = (rng.integers(0, 9, (12, 12)) * (rng.random((12, 12)) < 0.3)).astype(kind)
    for few in (scipy.sparse.csr_array(M), scipy.sparse.coo_matrix(M)):
        got, want = metrics.margins(few), metrics.margins(M)
        for name in want._fields:
            assert_same_bits(getattr(got, name), getattr(want, name))
        assert str(metrics.classification_report(few)) == str(metrics.classification_report(M))
    names = [f"class {k}" for k in range(12)]
    assert str(metrics.classification_report(few, display_labels=names)) == str(
        metrics.classification_report(M, display_labels=names)
    )


def test_sparse_matrices_with_bad_values():
    few = scipy.sparse.coo_array(np.array([[3.0, -1], [1, 2]]))
    with pytest.warns(cmfast.FailureWarning, match=r"not evaluated: INVALID; negative value at M\[0, 1\]"):
        metrics.mcc(few)
    with pytest.warns(cmfast.FailureWarning, match=r"not summed: INVALID; negative value at M\[0, 1\]"):
        found = metrics.margins(few)
    assert_same_bits(tuple(found), tuple(metrics.margins(few.toarray(), on_failure="ignore")))
    with pytest.raises(cmfast.FailureError, match=r"metrics.classification_report: .*negative value at M\[0, 1\]"):
        metrics.classification_report(few)
    for values, words in (([2**62, 2**62], "add up to more than fits"), ([np.inf, 1.0], "infinite value at")):
        few = scipy.sparse.coo_array((values, ([0, 1], [0, 1])), shape=(2, 2))
        with pytest.warns(cmfast.FailureWarning, match=words):
            found = metrics.margins(few)
        assert_same_bits(tuple(found), tuple(metrics.margins(few.toarray(), on_failure="ignore")))
    with pytest.raises(ValueError, match="square"):
        metrics.margins(scipy.sparse.csr_array(np.ones((2, 3))))


CURVES = {
    **{name: getattr(metrics, name) for name in ("threshold_matrices", "roc", "precision_recall", "roc_auc")},
    "average_precision": metrics.average_precision,
    "least_cost": lambda y, s, **options: metrics.least_cost(y, s, [[0, 1], [1, 0]], **options),
}


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
@pytest.mark.parametrize(
    ("labels", "pos_label", "said"),
    [
        (["yes", "no"], "Yes", r"\['no', 'yes'\], got 'Yes'; did you mean 'yes'\?$"),
        ([1, 2], 3, r"\[1, 2\], got 3$"),
        (torch.tensor([1, 2]), 3, r"\[1, 2\], got 3$"),
        ([[0, 1], [1, 1]], 2, r"\[0, 1\], got 2$"),
    ],
)
def test_a_positive_label_that_is_none_of_the_labels_is_refused(curve, labels, pos_label, said):
    scores = np.linspace(0, 1, np.size(np.asarray(labels))).reshape(np.shape(np.asarray(labels)))
    scores = torch.tensor(scores) if isinstance(labels, torch.Tensor) else scores
    for on_failure in ("warn", "ignore"):
        with pytest.raises(ValueError, match=r"metrics\.\w+: pos_label must be one of the labels " + said):
            curve(labels, scores, pos_label=pos_label, on_failure=on_failure)


def test_a_positive_label_may_be_missing_in_a_row_and_where_there_is_one_label():
    found = metrics.roc_auc([[1, 2], [1, 1]], [[0.1, 0.2], [0.1, 0.2]], pos_label=2)
    assert found[0] == 1
    assert np.isnan(found[1])
    for labels, pos_label in (([0, 0], 1), ([2, 2], 1), (["no", "no"], "yes"), ([], 1)):
        assert np.isnan(metrics.roc_auc(labels, np.arange(float(len(labels))), pos_label=pos_label))


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_rows_of_scores_left_out_say_why(curve):
    s = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    y, w = np.array([[0, 1, 1], [1, 0, 1]]), np.ones((2, 3))
    bad, none = s.copy(), w.copy()
    bad[1, 2], none[1, 0] = np.nan, -np.inf
    cases = [
        ((y, bad), {}, r"NaN value at y_score\[1, 2\]"),
        ((y, s), {"sample_weight": none}, r"infinite value at sample_weight\[1, 0\]"),
        ((y, s), {"sample_weight": w * 1e308}, "its weights add up to more than fits"),
        ((y[0] + 1, s[0]), {}, r"label 2 at y_true\[1\] is not 0, 1 or -1; pass pos_label=2 if that is positive"),
        (([0, 1, 2], s[0]), {}, r"label 2 at y_true\[2\] is not 0, 1 or -1; pass pos_label="),
    ]
    for arrays, options, said in cases:
        with pytest.warns(cmfast.FailureWarning, match=rf"rows of scores left out.*: (1|2)?.*INVALID; {said}$"):
            curve(*arrays, **options)


def test_areas_without_one_of_the_classes_are_nan():
    assert np.isnan(metrics.roc_auc([1, 1], [0.5, 0.25]))
    assert metrics.average_precision([1, 1], [0.5, 0.25]) == 1.0
    assert np.isnan(metrics.average_precision([0, 0], [0.5, 0.25]))
    with pytest.raises(ValueError, match=r"y_score must be one row of shape \(n,\) with drop_ties=True"):
        metrics.threshold_matrices([[1, 0]], [[0.5, 0.25]], drop_ties=True)
    with pytest.raises(TypeError, match="pos_label must be one of the labels if these are text"):
        metrics.roc_auc(["a", "b"], [0.5, 0.25])


def test_least_cost_is_the_best_of_all_thresholds(rng):
    s, y = rng.random((5, 40)), rng.integers(0, 2, (5, 40))
    for cost in ([[0, 1], [1, 0]], [[0, 5], [1, -2]], [[0, 1], [50, 0]]):
        best = metrics.least_cost(y, s, cost)
        totals = (metrics.threshold_matrices(y, s).matrices * np.array(cost)).sum((-2, -1))
        assert best.cost.tolist() == totals.min(-1).tolist()
        for row in range(5):
            called = s[row] >= best.threshold[row]
            assert best.matrix[row].tolist() == cmfast.confusion_matrix(y[row], called, n_classes=2).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("undefined", "zero_division"), [("zero", 0), ("one", 1)])
def test_multilabel_metrics_are_scikit_learns(weighted, undefined, zero_division, rng):
    y, p = rng.random((2, 60, 5)) < 0.3
    y[:, 4] = p[:, 3] = False
    w = rng.integers(1, 9, 60) / 4 if weighted else None
    options = {"sample_weight": w, "undefined": undefined}
    for average in ("macro", "weighted", "micro", "samples"):
        names = [f"{name}_{average}" for name in ("precision", "recall", "f1")]
        theirs = {"average": average, "zero_division": zero_division, "sample_weight": w}
        if average == "weighted" and undefined == "one":
            continue  # it weights labels that no sample has by 0 only where 0/0 is 0
        found = metrics.multilabel(y, p, names, **options)
        want = [score(y, p, **theirs) for score in (skm.precision_score, skm.recall_score, skm.f1_score)]
        assert_close(list(found.values()), want)
        tensors = {**options, "sample_weight": None if w is None else torch.tensor(w)}
        same = metrics.multilabel(torch.tensor(y), torch.tensor(p), names, **tensors)
        assert_close([float(value) for value in same.values()], want)
    assert_close(metrics.multilabel(y, p, "subset_accuracy", **options), skm.accuracy_score(y, p, sample_weight=w))
    assert_close(metrics.multilabel(y, p, "hamming_loss", **options), skm.hamming_loss(y, p, sample_weight=w))
    assert_close(
        metrics.multilabel(y, p, "f1", **options),
        skm.f1_score(y, p, average=None, sample_weight=w, zero_division=zero_division),
    )
    tables = skm.multilabel_confusion_matrix(y, p, sample_weight=w)
    assert_close(metrics.multilabel_tables(y, p, sample_weight=w), tables)
    if not weighted:
        rows = skm.multilabel_confusion_matrix(y, p, samplewise=True)
        assert np.array_equal(metrics.multilabel_tables(y, p, samplewise=True), rows)


def test_policies_of_multilabel_averages():
    y, p = (
        np.array([[1, 0, 0], [1, 1, 0]]),
        np.array([[1, 0, 0], [1, 0, 0]]),
    )  # label 1 never predicted, label 2 nowhere
    names = ["precision_macro", "recall_macro", "precision_weighted"]
    found = {
        u: list(metrics.multilabel(y, p, names, undefined=u).values()) for u in ("present", "nan", "strict", "one")
    }
    assert_close(found["present"], [1 / 2, 1 / 2, 2 / 3])
    assert_close(found["nan"], [1, 1 / 2, 1])
    assert_close(found["strict"], [np.nan, np.nan, np.nan])
    assert_close(found["one"], [1, 2 / 3, 1])
    batch = metrics.multilabel(np.stack([y, p]), np.stack([p, p]), "recall_macro")
    assert_close(batch, [1 / 2, 1])
    for wrong in ("mcc", "f1_mean", "positive_likelihood_ratio_macro"):
        with pytest.raises(ValueError, match=r"metrics.multilabel: names must be subset_accuracy"):
            metrics.multilabel(y, p, wrong)
    with pytest.raises(ValueError, match=r"of shape \(..., n, L\), a column per label"):
        metrics.multilabel([0, 1], [0, 1], "f1")


SPAM = ["ham", "spam", "spam", "ham", "spam"], ["ham", "ham", "spam", "spam", "spam"]


@pytest.mark.parametrize(
    "classes",
    [("ham", "spam"), (False, True), (-1, 1), (0, 1), (3, 7), (np.str_("a"), np.str_("b"))],
    ids=str,
)
@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_the_positive_class_by_its_label(classes, make):
    y, p = (make([classes[x == "spam"] for x in some]) for some in SPAM)
    ids = [np.array([x == "spam" for x in some], int) for some in SPAM]
    names = ["recall_binary", "precision_binary", "tss", "mcc"]
    for pos_label, label in enumerate(classes):
        want = metrics.from_labels(*ids, names, pos_label=pos_label)
        assert metrics.from_labels(y, p, names, pos_label=label) == want
        assert metrics.from_labels(y, p, names, pos_label=np.array([label])[0]) == want
    alone = y[:1], y[:1]
    assert metrics.from_labels(*alone, "recall_binary", pos_label=classes[0]) == 1
    assert metrics.from_labels(*alone, "recall_binary", pos_label=classes[1]) == 0
    if make is not list:  # of which an empty one is of no kind
        with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
            assert metrics.from_labels(y[:0], p[:0], "recall_binary", pos_label=classes[0]) == 0


def test_the_positive_class_beside_what_is_ignored():
    for y, p, low, high, nowhere in (
        ([-1, 1, 255, 1, -1], [1, 1, 1, -1, -1], -1, 1, 255),
        ([0, 1, 9, 1, 0], [1, 1, 1, 0, 0], 0, 1, 9),
        (["n", "y", "x", "y", "n"], ["y", "y", "y", "n", "n"], "n", "y", "x"),
    ):
        for make in (list, np.array) if isinstance(low, str) else (list, np.array, torch.tensor):
            found = metrics.from_labels(make(y), make(p), "recall_binary", pos_label=high, ignore_index=nowhere)
            assert found == 0.5, (make, low)


@pytest.mark.parametrize(
    ("labels", "options", "error", "message"),
    [
        (["a", "b"], {"pos_label": "c"}, ValueError, r"pos_label must be of the labels \['a', 'b'\], got 'c'"),
        (["a", "b"], {"pos_label": 1}, ValueError, r"pos_label must be of the labels \['a', 'b'\], got 1"),
        (["a", "a"], {"pos_label": 1}, TypeError, "pos_label must be text, as labels are, got int 1"),
        (["a", "b", "c"], {"pos_label": "a"}, ValueError, "None for other than two classes, got 'a' with 3 classes"),
        ([0, 1, 2], {"pos_label": 1}, ValueError, "pos_label must be of two classes, got 1 where labels are also 0, 2"),
        ([0, 1], {"pos_label": 1, "n_classes": 3}, ValueError, "None for other than two classes, got 1 with 3 classes"),
        ([0, 1], {"pos_label": "a"}, TypeError, "pos_label must be an integer, as labels are, got str 'a'"),
        ([0, 1], {"pos_label": 1.0}, TypeError, "pos_label must be an integer, as labels are, got float 1.0"),
        (["a", "b"], {"average_over": ["c"]}, ValueError, r"average_over must be of the labels \['a', 'b'\], got 'c'"),
        (
            ["a", "b"],
            {"average_over": "ab"},
            TypeError,
            "average_over must be a list of labels, at least one, got 'ab'",
        ),
        (["a", "b"], {"labels": ["a", "a"]}, ValueError, "labels must be unique"),
    ],
)
def test_classes_that_are_none(labels, options, error, message):
    with pytest.raises(error, match=rf"^metrics.from_labels: .*{message}"):
        metrics.from_labels(labels, labels, "f1_binary" if "pos_label" in options else "accuracy", **options)


def test_averages_of_classes_by_their_labels():
    y, p = ["cat", "dog", "dog", "ant"], ["cat", "cat", "dog", "dog"]
    ids = [[["ant", "cat", "dog"].index(x) for x in some] for some in (y, p)]
    got = metrics.from_labels(y, p, ["f1", "f1_macro", "mcc"], average_over=["dog", "cat"])
    want = metrics.from_labels(*ids, ["f1", "f1_macro", "mcc"], average_over=[2, 1])
    assert {name: value.tolist() for name, value in got.items()} == {name: x.tolist() for name, x in want.items()}


def test_labels_that_are_maps_or_whole_floats(rng):
    y, p = rng.integers(0, 3, (2, 4, 5, 6))
    for axes, one in ((2, (4, 30)), (None, (120,))):
        want = metrics.from_labels(y.reshape(one), p.reshape(one), "mcc")
        assert np.array_equal(metrics.from_labels(y, p, "mcc", sample_axes=axes), want)
        assert np.array_equal(metrics.from_labels(y * 1.0, p * 1.0, "mcc", sample_axes=axes, whole_floats=True), want)
    assert metrics.label_margins(y, p, sample_axes=3).total == 120
    with pytest.raises(ValueError, match=r"y_true must be whole numbers, got 0\.5"):
        metrics.label_margins([0.5], [1.0], whole_floats=True)
    with pytest.raises(TypeError, match="y_true must be integers, got dtype float64"):
        metrics.label_margins([0.5], [1.0])


def test_reports_of_some_classes_agree_with_scikit_learn(rng):
    y, p = rng.integers(0, 4, (2, 200))
    names = ["ant", "bee", "cat", "dog"]
    want = skm.classification_report(y, p, labels=[3, 1], target_names=["dog", "bee"], output_dict=True)
    for labels, display_labels in ((["dog", "bee"], names), ([3, 1], None), (np.array([3, 1]), list("0123"))):
        got = metrics.classification_report(
            cmfast.confusion_matrix(y, p), display_labels=display_labels, average_over=labels
        )
        for theirs, ours in zip(("dog", "bee", "macro avg", "weighted avg"), got.rows.values(), strict=True):
            columns = ("precision", "recall", "f1-score", "support")
            assert (*ours[:3], ours[4]) == pytest.approx([want[theirs][column] for column in columns])
    for labels, error in ((["cow"], ValueError), ("dog", TypeError), ([], TypeError), (["dog", "dog"], ValueError)):
        with pytest.raises(error, match=r"^metrics.classification_report: average_over must be"):
            metrics.classification_report(np.eye(4), display_labels=names, average_over=labels)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_class_sums_of_many_labels_are_those_of_the_matrix(dtype):
    """Long unweighted labels are counted in tables of 32 bits; labels out of range are counted and found."""
    rng = np.random.default_rng(0)
    for n_classes in (1, 2, 10, 100, 1000) if np.iinfo(dtype).bits > 8 else (1, 2, 10, 100):
        y = rng.integers(0, n_classes, 300_000).astype(dtype)
        p = np.where(rng.random(len(y)) < 0.8, y, rng.integers(0, n_classes, len(y))).astype(dtype)
        found = metrics.label_margins(y, p, n_classes=n_classes)
        want = metrics.margins(cmfast.confusion_matrix(y, p, n_classes=n_classes))
        assert_same_bits(tuple(found), tuple(want))
        y[7] = n_classes
        with pytest.raises(ValueError, match="got 1 pairs outside"):
            metrics.label_margins(y, p, n_classes=n_classes)


@pytest.mark.parametrize("function", [metrics.one_vs_rest, metrics.most_confused, metrics.confusion_fractions])
def test_tables_of_a_bad_matrix_say_why(function):
    M = np.ones((2, 3, 3))
    M[1, 0, 2] = np.nan
    with pytest.raises(cmfast.FailureError, match=r"NaN value at M\[1, 0, 2\]|NaN value at M\[1\]\[0, 2\]"):
        function(M, on_failure="raise")
