"""Arguments that are of the right shape and mean something else: refused where that is sure, else a warning."""

import warnings

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import agreement, conformal, contingency, display, metrics, uncertainty

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 200)
GUESS = np.where(RNG.random(200) < 0.8, Y, RNG.integers(0, 3, 200))
P = RNG.dirichlet(np.ones(3), 200)
NAMES = np.array(["cat", "dog", "fox"])
COUNTS = cmfast.ConfusionCounts.from_labels(NAMES[Y], NAMES[GUESS])
REVERSED = cmfast.ConfusionCounts.from_labels(NAMES[Y], NAMES[GUESS], labels=["fox", "dog", "cat"])
M = COUNTS.matrix


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.to_pandas()], ids=["counts", "tables"])
@pytest.mark.parametrize(
    "call",
    [
        lambda both: metrics.compute(both, "recall"),
        cmfast.bi_normalize,
        lambda both: uncertainty.interval(both, "recall", n_resamples=9),
        lambda both: uncertainty.compare_groups(both, "recall", n_resamples=9),
    ],
)
def test_a_list_of_counts_in_two_orders_is_refused(call, make):
    with pytest.raises(ValueError, match="M must hold matrices with the same labels in one order"):
        call([make(COUNTS), make(REVERSED)])
    call([make(COUNTS), make(COUNTS)])


@pytest.mark.parametrize(
    "call",
    [
        lambda: cmfast.ConfusionCounts.from_labels(M, M),
        lambda: uncertainty.interval(M, M, "accuracy", method="wilson"),
        lambda: cmfast.report(M, M, n_resamples=9),
    ],
)
def test_matrices_in_place_of_labels_are_doubted(call):
    with pytest.warns(cmfast.DiagnosticWarning, match="3 x 3 with most of each row on the diagonal"):
        call()


def test_square_maps_of_labels_are_counted_in_silence():
    maps = np.arange(64).reshape(8, 8) % 3
    assert cmfast.ConfusionCounts.from_labels(maps, maps).n_samples == 64


@pytest.mark.parametrize("call", [lambda: conformal.threshold(P, 0.1), lambda: conformal.p_values(P, Y / 3)])
def test_probabilities_in_place_of_scores_are_doubted(call):
    with pytest.warns(cmfast.DiagnosticWarning, match=r"rows of s add up to 1.*conformal.scores"):
        call()


def test_labels_in_place_of_thresholds_are_refused():
    with pytest.raises(TypeError, match="q must be thresholds, got an integer for each row of P"):
        conformal.prediction_sets(P, Y)
    conformal.prediction_sets(P, conformal.threshold(conformal.scores(P, Y), 0.1))


def test_counts_in_place_of_ratings_are_doubted():
    table = RNG.multinomial(3, [0.5, 0.3, 0.2], 40)
    with pytest.warns(cmfast.DiagnosticWarning, match=r"add up to 3.*agreement.from_counts"):
        agreement.compute(table, "fleiss_kappa")
    with pytest.raises(TypeError, match=r"columns of one table: numpy\.column_stack"):
        agreement.compute(NAMES[Y], NAMES[GUESS])
    with pytest.raises(AttributeError, match=r"agreement.from_counts\(counts, \"fleiss_kappa\"\)"):
        _ = agreement.fleiss_kappa
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agreement.compute(np.column_stack([Y, GUESS]), "fleiss_kappa")


def test_scores_of_classes_say_which_to_take():
    with pytest.raises(ValueError, match=r"give those of the positive class, y_score\[:, 1\]"):
        metrics.roc_auc((Y > 0).astype(int), P[:, :2])
    with pytest.raises(ValueError, match="roc_auc_ovr"):
        metrics.average_precision(Y, P)
    with pytest.warns(cmfast.DiagnosticWarning, match=r"one-hot labels.*y_true.T and y_score.T"):
        rows = metrics.roc_auc(np.eye(3, dtype=int)[Y], P)
    assert rows.shape == (200,)
    assert metrics.roc_auc(np.eye(3, dtype=int)[Y].T, P.T).shape == (3,)


def test_a_missing_method_comes_with_its_choices():
    for call in (lambda: cmfast.normalize(M), COUNTS.normalize):
        with pytest.raises(TypeError, match=r'method must be given: .*where method is "row"'):
            call()


SCORES = RNG.random((2, 200))
TRUTH = (SCORES[0] + RNG.random(200) > 1).astype(int)
PERSONS = pd.DataFrame({"sex": ["m", "f", "f"] * 9})
TABLE = pd.DataFrame({"t": Y, "p": GUESS, "g": Y % 2})
MISTAKES = {
    "a list of arrays": (lambda: uncertainty.compare([Y, GUESS, Y]), "got list; give them one by one"),
    "a dict of models": (lambda: uncertainty.compare(Y, {"a": GUESS, "b": Y}, "mcc"), "y_a must be .*a dict of 2"),
    "a list of models": (lambda: uncertainty.compare(Y, [GUESS, Y], "mcc"), "y_a must be .*a list of 2; give them"),
    "a dict of scores": (lambda: uncertainty.compare(TRUTH, {"a": SCORES}, "roc_auc"), "y_true, y_a, y_b, .*got 2"),
    "counts as labels": (lambda: uncertainty.compare(Y, COUNTS, COUNTS, "mcc"), "y_a must be the labels of samples"),
    "counts compared": (lambda: COUNTS.compare(COUNTS), r"uncertainty.compare\(y_true, a, b, names\)"),
    "short scores": (lambda: uncertainty.compare(TRUTH, SCORES[0], SCORES[1, 1:], "roc_auc"), r"y_b: \(199,\)"),
    "scores by column": (lambda: uncertainty.compare(TRUTH, SCORES.T, SCORES.T, "roc_auc"), r"y_a\[:, 1\]"),
    "alpha for sets": (lambda: conformal.prediction_sets(P, alpha=0.1), r"q = conformal.threshold\(scores, alpha\)"),
    "alpha twice": (lambda: conformal.prediction_sets(P, 0.5, alpha=0.1), r"q = conformal.threshold"),
    "a threshold": (lambda: conformal.prediction_sets(P, threshold=0.1), "it is called q="),
    "a level": (lambda: conformal.threshold(P[0], level=0.9), "pass alpha=1 - confidence_level"),
    "draws by place": (lambda: uncertainty.resample(M, 100), "the number of replicates is n_resamples="),
    "targets in a list": (lambda: cmfast.rake(PERSONS, [{"m": 1, "f": 2}]), r"a dict {column: totals}, as design is"),
    "bare targets": (lambda: cmfast.rake(PERSONS, [1, 2]), r"targets must be a dict {column: totals}"),
    "a target twice": (lambda: cmfast.rake(PERSONS, [("sex", {"m": 1, "f": 2})] * 2), "of different columns"),
    "a module": (lambda: contingency.pca, "it is called cmfast.pca"),
    "two matrices": (lambda: cmfast.bi_normalize(M, M), r"numpy.stack\(\[a, b\]\) is a batch"),
    "two models": (lambda: cmfast.report(Y, GUESS, Y), r"two models are a dict: report\(y_true, {"),
    "arrays by group": (lambda: cmfast.by(Y, GUESS, Y), "arrays are counted by ConfusionCounts.from_labels"),
    "two models in space": (lambda: cmfast.geometric_confusion_matrix(P, Y, GUESS, Y), "call it once for each model"),
    "an array": (lambda: cmfast.normalize(M, "bi", M), r"got ndarray of shape \(3, 3\)$"),
    "metrics of groups": (
        lambda: cmfast.by(TABLE, "g", y_true="t", y_pred="p", metrics=["mcc"]), r"counts.compute\(names\) computes"
    ),
    "names of classes": (lambda: cmfast.confusion_matrix(Y, GUESS, names=NAMES), "labels= lists the labels in order"),
    "a path": (lambda: cmfast.report(Y, GUESS, path="report.html"), r"the result has save\(path\)"),
    "weights of kappa": (lambda: metrics.compute(M, ["kappa"], weights="quadratic"), '"kappa_quadratic"'),
    "groups of samples": (lambda: uncertainty.interval(Y, GUESS, "mcc", groups=Y), "count with groups first"),
    "a pseudocount": (lambda: cmfast.ipf(M, pseudocount=1), "it is called smoothing="),
    "a prior": (lambda: uncertainty.posterior(M, "mcc", pseudocount=1), "it is called prior="),
    "a difference": (lambda: display.DifferenceDisplay(M), "made by ConfusionDisplay.compare"),
    "a strip": (lambda: display.StripDisplay(M), "made by StripDisplay.from_matrices"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_natural_mistake_says_what_to_write(name):
    call, text = MISTAKES[name]
    with pytest.raises((TypeError, ValueError, AttributeError), match=text) as caught:
        call()
    assert len(str(caught.value)) < 300


def test_an_error_rate_as_confidence_level_is_doubted():
    for call, arrays in ((uncertainty.interval, (Y, GUESS)), (uncertainty.compare, (Y, GUESS, Y))):
        with pytest.warns(cmfast.DiagnosticWarning, match=r"for an error rate of 0.05 pass confidence_level=0.95"):
            call(*arrays, "accuracy", confidence_level=0.05, n_resamples=20)


def test_proportions_that_do_not_add_up_to_one_are_doubted():
    with pytest.warns(cmfast.DiagnosticWarning, match=r"targets of sex are at most 1.*add up to 1.2"):
        cmfast.rake(PERSONS, {"sex": {"m": 0.6, "f": 0.6}})
    with pytest.warns(cmfast.DiagnosticWarning, match=r"targets add up to 1, as proportions do"):
        cmfast.rake(PERSONS, {"sex": {"m": 0.4, "f": 0.6}})
    pairs = cmfast.rake(PERSONS, [("sex", {"m": 40.0, "f": 60.0})])
    np.testing.assert_allclose(pairs.weights, [40 / 9, 60 / 18, 60 / 18] * 9)


def test_two_columns_have_two_axes():
    axes = cmfast.pca(SCORES.T)
    assert axes.components.shape == (2, 2)
    assert cmfast.pca(RNG.random((50, 12))).components.shape == (10, 12)
    assert cmfast.PcaAccumulator().update(SCORES.T).projection().components.shape == (2, 2)
    with pytest.raises(ValueError, match="at most 2, the columns of X, got 3"):
        cmfast.pca(SCORES.T, 3)
