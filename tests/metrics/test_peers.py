"""Other libraries: the same values where they are right, and what they give where they are not.

A peer that has mended what is told here of it is skipped, not failed.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics as skm
from optional import torch

from cmfast import metrics

pytestmark = pytest.mark.peers

PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "metrics.json").read_text())
GLOSSARY, EDGES = PUBLISHED["paper001"], PUBLISHED["edge_3class"]


def close(got, want):
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=1e-12, atol=1e-12, equal_nan=True)


def still(theirs, known):
    """Skip the rest where a peer no longer gives what it is known for; what is ours is asserted before."""
    if theirs != known:
        pytest.skip(f"mended: {theirs} instead of {known}")


def labels(M):
    i, j = np.nonzero(M)
    return np.repeat(i, M[i, j]), np.repeat(j, M[i, j])


@pytest.mark.parametrize(("undefined", "zero_division"), [("zero", 0), ("one", 1), ("nan", np.nan)])
def test_same_averages_as_scikit_learn(undefined, zero_division, rng):
    for M in [*(np.array(block["cm"]) for block in EDGES.values()), *rng.integers(0, 4, (20, 4, 4))]:
        y, p = labels(M)
        every = range(len(M))
        for average in ("macro", "weighted", "micro"):
            options = {"labels": every, "average": average, "zero_division": zero_division}
            for name, theirs in (
                ("precision", skm.precision_score),
                ("recall", skm.recall_score),
                ("f1", skm.f1_score),
            ):
                close(metrics.compute(M, f"{name}_{average}", undefined=undefined), theirs(y, p, **options))
        if undefined != "nan":  # it knows no NaN here
            close(
                metrics.jaccard(M, undefined=undefined),
                skm.jaccard_score(y, p, labels=every, average=None, zero_division=zero_division),
            )


def test_same_scores_as_scikit_learn(rng):
    for M in rng.integers(0, 6, (30, 4, 4)):
        y, p = labels(M)
        close(metrics.mcc(M), skm.matthews_corrcoef(y, p))
        close(metrics.kappa(M), skm.cohen_kappa_score(y, p))
        for weights in ("linear", "quadratic"):
            close(metrics.kappa(M, weights=weights), skm.cohen_kappa_score(y, p, weights=weights, labels=range(4)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close(metrics.balanced_accuracy(M, undefined="nan"), skm.balanced_accuracy_score(y, p))


def test_scikit_learn_drops_an_unsupported_class_from_one_of_two_same_means():
    M = np.array([[5, 1, 1], [1, 5, 0], [0, 0, 0]])
    assert metrics.recall(M, average="macro") == metrics.balanced_accuracy(M)
    close(metrics.balanced_accuracy(M), (5 / 7 + 5 / 6) / 3)
    close(metrics.balanced_accuracy(M, undefined="nan"), (5 / 7 + 5 / 6) / 2)
    y, p = labels(M)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        macro = skm.recall_score(y, p, average="macro", zero_division=0)
        balanced = skm.balanced_accuracy_score(y, p)
    still((round(macro, 4), round(balanced, 4)), (0.5159, 0.7738))


def test_pycm_agrees_where_it_answers(rng):
    pycm = pytest.importorskip("pycm")
    for M in [*(rng.integers(0, 9, (8, 4, 4)) + np.eye(4, dtype=int)), np.array(GLOSSARY["surface3"]["cm"])]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = pycm.ConfusionMatrix(matrix={i: dict(enumerate(row)) for i, row in enumerate(M.tolist())})
        ours = metrics.compute(M, ["accuracy", "mcc", "kappa", "recall_macro", "precision_macro", "f1_macro"])
        whole = (
            theirs.Overall_ACC,
            theirs.Overall_MCC,
            theirs.Kappa,
            theirs.TPR_Macro,
            theirs.PPV_Macro,
            theirs.F1_Macro,
        )
        close(list(ours.values()), whole)
        close(metrics.specificity(M), list(theirs.TNR.values()))
        close(metrics.npv(M), list(theirs.NPV.values()))
        for ours, name in (
            ("fpr", "FPR"), ("fnr", "FNR"), ("fdr", "FDR"), ("for", "FOR"), ("mcc_ovr", "MCC"),
            ("markedness_ovr", "MK"),
            ("positive_likelihood_ratio", "PLR"), ("negative_likelihood_ratio", "NLR"), ("fowlkes_mallows", "G"),
            ("diagnostic_odds_ratio", "DOR"),
        ):  # fmt: skip
            answers = list(getattr(theirs, name).values())
            if "None" not in answers:  # what it says of a division by 0
                close(metrics.compute(M, ours), answers)
        whole = (theirs.PI, theirs.AC1, theirs.Alpha, theirs.ZeroOneLoss / M.sum(), theirs.HammingLoss)
        names = ["scott_pi", "gwet_ac1", "krippendorff_alpha", "zero_one_loss", "hamming_loss"]
        close(list(metrics.compute(M, names).values()), whole)


def test_pycm_answers_with_a_word_where_a_class_is_absent():
    pycm = pytest.importorskip("pycm")
    M = np.array([[5, 1, 0], [1, 5, 0], [0, 0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pycm.ConfusionMatrix(matrix={i: dict(enumerate(row)) for i, row in enumerate(M.tolist())})
    assert np.isnan(metrics.recall(M, average="macro", undefined="strict"))
    close(metrics.recall(M, average="macro"), 5 / 6)
    still(theirs.TPR_Macro, "None")


def test_imbalanced_learn_agrees_on_the_geometric_mean(rng):
    imblearn = pytest.importorskip("imblearn.metrics")
    for M in rng.integers(0, 9, (8, 4, 4)) + np.eye(4, dtype=int):
        close(metrics.geometric_mean(M), imblearn.geometric_mean_score(*labels(M)))
    # Its macro form is the geometric mean of macro recall and macro specificity, not that of the recalls.
    M = np.array(GLOSSARY["surface3"]["cm"])
    macro = imblearn.geometric_mean_score(*labels(M), average="macro")
    assert abs(macro - metrics.geometric_mean(M)) > 0.01


@pytest.mark.parametrize(
    ("M", "theirs", "ours"),
    [
        ([[5, 0], [0, 0]], 1.0, np.nan),
        ([[0, 5], [0, 0]], -1.0, np.nan),
        ([[5, 0], [3, 0]], 0.1826, 0.0),
        ([[9500, 0], [500, 0]], 0.0413, 0.0),
    ],
)
def test_torchmetrics_gives_a_constant_answer_a_correlation(M, theirs, ours):
    functional = pytest.importorskip("torchmetrics.functional.classification")
    y, p = (torch.from_numpy(x) for x in labels(np.array(M)))
    close(metrics.mcc(M, undefined="nan"), ours)
    close(metrics.mcc(M), 0)
    still(round(float(functional.binary_matthews_corrcoef(p, y)), 4), theirs)


def test_torchmetrics_agrees_elsewhere(rng):
    functional = pytest.importorskip("torchmetrics.functional.classification")
    for M in rng.integers(1, 9, (5, 4, 4)):
        y, p = (torch.from_numpy(x) for x in labels(M))
        for name, theirs in (
            ("mcc", functional.multiclass_matthews_corrcoef),
            ("kappa", functional.multiclass_cohen_kappa),
            ("f1_macro", functional.multiclass_f1_score),
            ("jaccard_macro", functional.multiclass_jaccard_index),
        ):
            assert float(metrics.compute(M, name)) == pytest.approx(float(theirs(p, y, 4)), abs=1e-6)
