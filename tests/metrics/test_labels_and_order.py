"""`labels` are these classes, in this order, and no others, everywhere; `average_over` is what averages are over."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as skm
import torch

import cmfast
from cmfast import metrics, uncertainty

RNG = np.random.default_rng(12)
N = 400
IDS = RNG.integers(0, 5, N)
GUESS = np.where(RNG.random(N) < 0.6, IDS, RNG.integers(0, 5, N))
NAMES = np.array(["low", "mid", "high", "none", "very high"])
ORDER = ["none", "low", "mid", "high", "very high"]
EVERY = ["kappa", "kappa_linear", "kappa_quadratic", "gerrity", "accuracy", "f1", "f1_macro", "recall_weighted", "mcc"]

KINDS = {
    "text": (NAMES[IDS], NAMES[GUESS], NAMES),
    "bytes": (NAMES.astype("S")[IDS], NAMES.astype("S")[GUESS], NAMES.astype("S")),
    "list": (NAMES[IDS].tolist(), NAMES[GUESS].tolist(), NAMES),
    "ids": (IDS, GUESS, np.arange(5)),
    "int8": (IDS.astype(np.int8), GUESS.astype(np.int8), np.arange(5)),
    "far apart": (IDS * 10**12 - 5, GUESS * 10**12 - 5, np.arange(5) * 10**12 - 5),
    "below 0": (IDS - 3, GUESS - 3, np.arange(5) - 3),
    "unsigned": (IDS.astype(np.uint64) + 2**63, GUESS.astype(np.uint64) + 2**63, np.arange(5, dtype=np.uint64) + 2**63),
    "tensor": (torch.from_numpy(IDS), torch.from_numpy(GUESS), np.arange(5)),
    "series": (pd.Series(NAMES[IDS]), pd.Series(NAMES[GUESS]), NAMES),
    "categorical": (
        pd.Series(pd.Categorical(NAMES[IDS], NAMES)),
        pd.Series(pd.Categorical(NAMES[GUESS], NAMES)),
        NAMES,
    ),
    "batch": (IDS.reshape(4, -1), GUESS.reshape(4, -1), np.arange(5)),
    "batch of text": (NAMES[IDS].reshape(4, -1), NAMES[GUESS].reshape(4, -1), NAMES),
}
CHOSEN = ([3, 0, 1, 2, 4], [4, 3, 2, 1, 0], [2, 0, 4], [1, 3])


@pytest.fixture(autouse=True)
def _loud():
    with warnings.catch_warnings():
        warnings.simplefilter("error", cmfast.DiagnosticWarning)
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chosen", CHOSEN, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_from_labels_is_the_matrix_of_these_labels(kind, chosen, weighted):
    y, p, names = KINDS[kind]
    labels = names[chosen].tolist()
    weight = RNG.integers(0, 9, np.shape(y)) if weighted else None
    weight = torch.from_numpy(weight) if weighted and kind == "tensor" else weight
    M = cmfast.confusion_matrix(y, p, labels=labels, sample_weight=weight)
    wanted = metrics.compute(M, EVERY)
    found = metrics.from_labels(y, p, EVERY, labels=labels, sample_weight=weight)
    sums = metrics.label_margins(y, p, labels=labels, sample_weight=weight)
    for a, b in zip(sums, metrics.margins(M), strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))
    for name in EVERY:
        assert np.array_equal(np.asarray(found[name]), np.asarray(wanted[name]), equal_nan=True), name


UNORDERED = [name for name in EVERY if name not in ("kappa_linear", "kappa_quadratic", "gerrity")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [None, np.int32, np.float64], ids=str)
def test_metrics_of_unordered_classes_are_those_of_the_matrix(kind, weights):
    """They are counted without the sums by distance, in a kernel of their own where nothing is weighted."""
    y, p, names = KINDS[kind]
    weight = None if weights is None else RNG.integers(0, 9, np.shape(y)).astype(weights)
    weight = torch.from_numpy(weight) if weights is not None and kind == "tensor" else weight
    M = cmfast.confusion_matrix(y, p, labels=names.tolist(), sample_weight=weight)
    for labels in (None, names.tolist()):
        names_given = UNORDERED if labels else [name for name in UNORDERED if name != "f1"]  # sorted, else
        found = metrics.from_labels(y, p, names_given, labels=labels, sample_weight=weight)
        for name, want in metrics.compute(M, names_given).items():
            same_order = labels and weights is not np.float64
            np.testing.assert_allclose(found[name], want, rtol=0 if same_order else 1e-12, err_msg=name)


@pytest.mark.parametrize("C", [1, 2, 40, 3000])
def test_every_pair_is_counted_once_by_true_and_by_predicted_class(C):
    rng = np.random.default_rng(C)
    y = rng.integers(0, C, 50_000).astype(np.int16)
    for p in (y, rng.integers(0, C, y.size).astype(np.int16)):
        found = metrics.from_labels(y, p, ["precision", "recall", "accuracy"], n_classes=C, undefined="zero")
        hits = np.bincount(y[y == p], minlength=C)
        for name, drawn in (("recall", y), ("precision", p)):
            np.testing.assert_array_equal(found[name], hits / np.maximum(np.bincount(drawn, minlength=C), 1))
        assert found["accuracy"] == (y == p).mean()
    for wrong in (-1, C):
        with pytest.raises(ValueError, match="1 pair"):
            metrics.from_labels(np.r_[y, np.int16(wrong)], np.r_[y, np.int16(0)], "recall", n_classes=C)


@pytest.mark.parametrize("chosen", CHOSEN, ids=str)
def test_weighted_kappas_are_those_of_scikit_learn(chosen):
    y, p = NAMES[IDS], NAMES[GUESS]
    labels = NAMES[chosen].tolist()
    for weights in ("linear", "quadratic"):
        wanted = skm.cohen_kappa_score(y, p, weights=weights, labels=labels)
        name = f"kappa_{weights}"
        assert metrics.from_labels(y, p, name, labels=labels) == pytest.approx(wanted, rel=1e-12)
        counts = cmfast.ConfusionCounts.from_labels(y, p, labels=labels)
        assert counts.compute(name) == pytest.approx(wanted, rel=1e-12)
        M = cmfast.confusion_matrix(y, p, labels=labels)
        assert metrics.compute(M, name) == pytest.approx(wanted, rel=1e-12)


def test_average_over_is_what_scikit_learn_calls_labels_in_averages():
    y, p = NAMES[IDS], NAMES[GUESS]
    some = ["mid", "none"]
    wanted = skm.f1_score(y, p, labels=some, average="macro")
    assert metrics.from_labels(y, p, "f1_macro", average_over=some) == pytest.approx(wanted)
    assert cmfast.ConfusionCounts.from_labels(y, p).compute("f1_macro", average_over=some) == pytest.approx(wanted)
    both = metrics.from_labels(y, p, "f1", labels=ORDER, average_over=some)
    assert both.tolist() == metrics.from_labels(y, p, "f1", average_over=some).tolist()
    from cmfast.compat import sklearn as ours

    assert ours.f1_score(y, p, labels=some, average="macro") == pytest.approx(wanted)
    assert ours.cohen_kappa_score(y, p, labels=ORDER, weights="linear") == pytest.approx(
        skm.cohen_kappa_score(y, p, labels=ORDER, weights="linear")
    )


def test_options_beside_labels():
    y, p = IDS, GUESS
    kept = IDS != 2
    for options, rows in (({"ignore_index": 2}, kept), ({}, np.ones(N, bool))):
        wanted = cmfast.confusion_matrix(y[rows], p[rows], labels=[4, 2, 0])
        sums = metrics.label_margins(y, p, labels=[4, 2, 0], **options)
        assert sums.diagonal.tolist() == wanted.diagonal().tolist()
        assert sums.col_sums.tolist() == wanted.sum(0).tolist()
    groups = RNG.integers(0, 3, N)
    wanted = metrics.compute(cmfast.confusion_matrix(y, p, labels=[4, 2, 0], groups=groups), "kappa_linear")
    assert np.array_equal(metrics.from_labels(y, p, "kappa_linear", labels=[4, 2, 0], groups=groups), wanted)
    floats = metrics.from_labels(y.astype(float), p.astype(float), "mcc", labels=[1, 0], whole_floats=True)
    assert floats == metrics.compute(cmfast.confusion_matrix(y, p, labels=[1, 0]), "mcc")
    for pair, positive in (([3, 1], 1), ([1, 3], 3)):
        M = cmfast.confusion_matrix(y, p, labels=pair)
        wanted = metrics.compute(M, "recall_binary")
        assert metrics.from_labels(y, p, "recall_binary", labels=pair) == wanted
        assert metrics.from_labels(y, p, "recall_binary", labels=pair, pos_label=positive) == wanted
    assert metrics.from_labels(y > 1, p > 1, "accuracy", labels=[True, False]) == ((y > 1) == (p > 1)).mean()
    image = metrics.from_labels(IDS.reshape(4, 10, 10), GUESS.reshape(4, 10, 10), "mcc", labels=[0, 1], sample_axes=2)
    assert image.shape == (4,)
    kinds = (["a"], "labels must be integers as y_true")
    for wrong, said in (([0, 0], "labels must be unique"), kinds, ([], "labels must"), (3, "labels must")):
        with pytest.raises((ValueError, TypeError), match=f"^metrics.from_labels: {said}"):
            metrics.from_labels(y, p, "mcc", labels=wrong)
    with pytest.raises(ValueError, match="labels must be None where n_classes is given"):
        metrics.from_labels(y, p, "mcc", labels=[0, 1], n_classes=5)


def test_dask_arrays_have_the_same_labels():
    da = pytest.importorskip("dask.array")
    y, p = (da.from_array(x, chunks=90) for x in (IDS, GUESS))
    for labels in ([3, 0, 1], [4, 3, 2, 1, 0]):
        wanted = metrics.from_labels(IDS, GUESS, ["kappa_linear", "f1"], labels=labels)
        found = metrics.from_labels(y, p, ["kappa_linear", "f1"], labels=labels)
        assert found["kappa_linear"].compute() == wanted["kappa_linear"]
        assert found["f1"].compute().tolist() == wanted["f1"].tolist()
        some = metrics.from_labels(
            y, p, "f1", labels=labels, average_over=[3, 0][: len(labels)] if 0 in labels else [3]
        )
        assert some.compute().shape == (2,)


ORDERED = pd.CategoricalDtype(ORDER, ordered=True)


def test_a_metric_of_ordered_classes_warns_of_text_whose_order_nobody_gave():
    y, p = NAMES[IDS], NAMES[GUESS]
    frame = pd.DataFrame({"y": y, "p": p, "site": np.arange(N) % 2})
    found, given = (uncertainty.paired_counts(y, p, np.roll(p, 1), labels=labels) for labels in (None, ORDER))
    drawn = {"n_resamples": 20}
    calls = [
        lambda: uncertainty.compare(found, "kappa_linear", **drawn),
        lambda: uncertainty.compare_many({("a", "b"): found, ("a", "c"): found}, ["mcc", "kappa_linear"], **drawn),
        lambda: uncertainty.equivalence(found, "kappa_linear", margin=0.1),
        lambda: metrics.from_labels(y, p, "kappa_linear"),
        lambda: metrics.from_labels(y, p, ["mcc", "gerrity"]),
        lambda: cmfast.ConfusionCounts.from_labels(y, p).compute("kappa_quadratic"),
        lambda: cmfast.ConfusionCounts.from_labels(pd.Categorical(y), p).compute(["kappa_quadratic"]),
        lambda: cmfast.by(frame, "site", y_true="y", y_pred="p").table(["kappa_linear"]),
    ]
    for call in calls:
        with pytest.warns(cmfast.DiagnosticWarning, match="on the order of the classes, which are text") as told:
            call()
        assert len(told) == 1
    silent = [
        lambda: metrics.from_labels(y, p, "kappa"),
        lambda: metrics.from_labels(y, p),
        lambda: metrics.from_labels(y, p, "kappa_linear", labels=ORDER),
        lambda: metrics.from_labels(IDS, GUESS, "kappa_linear"),
        lambda: metrics.from_labels(y == "low", p == "low", "kappa_linear"),
        lambda: metrics.from_labels(np.where(y == "low", "a", "b"), np.where(p == "low", "a", "b"), "kappa_linear"),
        lambda: metrics.from_labels(pd.Series(y, dtype=ORDERED), pd.Series(p, dtype=ORDERED), "kappa_linear"),
        lambda: cmfast.ConfusionCounts(labels=ORDER).update(y, p).compute("kappa_linear"),
        lambda: cmfast.ConfusionCounts.from_labels(pd.Series(y, dtype=ORDERED), p).compute("kappa_linear"),
        lambda: cmfast.ConfusionCounts.from_labels(y, p).compute("mcc"),
        lambda: uncertainty.compare(found, "mcc", **drawn),
        lambda: uncertainty.compare(given, "kappa_linear", **drawn),
        lambda: uncertainty.compare(found, **drawn),
        lambda: uncertainty.compare_many({("a", "b"): found}, **drawn),
        lambda: uncertainty.compare_many({("a", "b"): given}, "kappa_linear", **drawn),
        lambda: uncertainty.equivalence(given, "kappa_linear", margin=0.1),
    ]
    for call in silent:
        call()
    unordered = pd.Series(pd.Categorical(y, ORDER))
    with pytest.warns(cmfast.DiagnosticWarning, match="text in the order of a categorical that declares none"):
        assert cmfast.ConfusionCounts.from_labels(unordered, unordered).compute("kappa_linear") == 1
