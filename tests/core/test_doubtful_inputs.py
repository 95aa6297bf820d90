"""Arguments that are of the right shape and mean something else: refused where that is sure, else a warning."""

import warnings

import numpy as np
import pytest

import cmfast
from cmfast import agreement, conformal, metrics, uncertainty

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
