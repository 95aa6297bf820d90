"""Multilabel metrics between groups: scikit-learn in each group, samples drawn by NumPy, intervals of each group."""

import warnings

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits
from optional import torch
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, recall_score

import cmfast
from cmfast import uncertainty


def leave_out_empty(y, p):
    """Return the samples that have, or are predicted to have, any label: F1 of others is 0/0."""
    some = (y | p).any(1)
    return y[some], p[some]


SCORES = {
    "f1_macro": lambda y, p: f1_score(y, p, average="macro"),
    "f1_micro": lambda y, p: f1_score(y, p, average="micro"),
    "f1_samples": lambda y, p: f1_score(*leave_out_empty(y, p), average="samples"),
    "subset_accuracy": accuracy_score,
    "hamming_loss": hamming_loss,
    "recall": lambda y, p: recall_score(y, p, average=None),
}


def average_f1(y, p, axis):
    """Return the mean F1 of labels, or of samples, where it is defined."""
    whole = y.sum(axis) + p.sum(axis)
    return (2 * (y & p).sum(axis) / np.maximum(whole, 1))[whole > 0].mean()


BY_NUMPY = {
    "f1_macro": lambda y, p: average_f1(y, p, 0),
    "f1_samples": lambda y, p: average_f1(y, p, 1),
    "subset_accuracy": lambda y, p: (y == p).all(1).mean(),
}


def draw(n=400, labels=4, *, seed=0):
    """Return indicators, predictions of unequal quality, and groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    y = rng.integers(0, 2, (n, labels))
    return y, np.where(rng.random(y.shape) < 0.1 + 0.05 * group[:, None], 1 - y, y), group


def compare(*given, **options):
    """Compare groups without warnings."""
    return uncertainty.compare_groups(*given, **{"multilabel": True, "on_failure": "ignore"} | options)


def test_values_are_those_of_scikit_learn():
    y, p, group = draw()
    found = compare(y, p, group, list(SCORES), n_resamples=50)
    for name, score in SCORES.items():
        if name in BY_NUMPY:
            np.testing.assert_allclose(BY_NUMPY[name](y, p), score(y, p), rtol=1e-12)
        want = np.array([score(y[group == g], p[group == g]) for g in range(3)])
        np.testing.assert_allclose(found[name].estimate, want, rtol=1e-12)
        np.testing.assert_allclose(found[name].overall, score(y, p), rtol=1e-12)
        np.testing.assert_allclose(found[name].difference, want.max(0) - want.min(0), atol=1e-12)
    assert found["recall"].axes == {"group": (0, 1, 2), "class": (0, 1, 2, 3)}
    assert found["f1_macro"].method == "bootstrap"


@pytest.mark.parametrize("name", ["f1_macro", "f1_samples", "subset_accuracy"])
@pytest.mark.parametrize("clustered", [False, True])
def test_errors_are_those_of_samples_drawn_by_numpy(name, clustered):
    y, p, group = draw(240)
    rng = np.random.default_rng(3)
    unit = rng.integers(0, 60, 240) if clustered else np.arange(240)
    options = {"clusters": unit} if clustered else {}
    found = compare(y, p, group, name, n_resamples=4000, **options)
    to_all = compare(y, p, group, name, n_resamples=4000, reference="overall", **options)
    drawn, whole = np.empty((3, 800)), np.empty(800)
    samples_of = [[np.flatnonzero((group == g) & (unit == j)) for j in np.unique(unit[group == g])] for g in range(3)]
    for b in range(800):
        rows = []
        for g in range(3):
            n_units = len(samples_of[g])
            rows.append(np.concatenate([samples_of[g][k] for k in rng.integers(0, n_units, n_units)]))
            drawn[g, b] = BY_NUMPY[name](y[rows[g]], p[rows[g]])
        every = np.concatenate(rows)
        whole[b] = BY_NUMPY[name](y[every], p[every])
    np.testing.assert_allclose(found.standard_error, drawn.std(1), rtol=0.12)
    width = np.subtract(*np.quantile(drawn[0] - drawn[2], [0.975, 0.025]))
    np.testing.assert_allclose(found.pair_high[1] - found.pair_low[1], width, rtol=0.12)
    width = np.subtract(*np.quantile(drawn - whole, [0.975, 0.025], axis=1))
    np.testing.assert_allclose(to_all.pair_high - to_all.pair_low, width, rtol=0.12)
    for g in range(3):
        own = {key: value[group == g] for key, value in options.items()}
        alone = uncertainty.interval(
            y[group == g], p[group == g], name, multilabel=True, method="percentile", on_failure="ignore", **own
        )
        np.testing.assert_allclose([found.low[g], found.high[g]], [alone.low, alone.high], atol=0.015)


def test_all_forms_of_input_give_the_same():
    y, p, group = draw()
    want = compare(y, p, group, "f1_macro", n_resamples=200)
    tables = [pd.DataFrame(x, columns=list("abcd")) for x in (y, p)]
    for found in (
        compare(y_true=y, y_pred=p, groups=group, names="f1_macro", n_resamples=200),
        compare(y.tolist(), p.tolist(), group.tolist(), "f1_macro", n_resamples=200),
        compare(torch.from_numpy(y), torch.from_numpy(p), group, "f1_macro", n_resamples=200, num_threads=1),
        compare(*tables, group, "f1_macro", n_resamples=200),
    ):
        assert_same_bits(found.pair_low, want.pair_low)
        assert_same_bits(found.p_value, want.p_value)
    assert compare(*tables, group, "recall", n_resamples=20).axes["class"] == tuple("abcd")
    both = {"site": group, "half": np.arange(400) % 2}
    assert compare(y, p, both, "f1_macro", n_resamples=20).axes["group"][1] == (0, 1)
    da = pytest.importorskip("dask.array")
    later = compare(da.from_array(y), da.from_array(p), da.from_array(group), "f1_macro", n_resamples=200)
    assert_same_bits(later.compute().pair_low, want.pair_low)
    turned = compare(y, p, group, "f1_macro", n_resamples=200, reference=1)
    np.testing.assert_allclose(turned.pair_difference[0], want.pair_difference[0])
    assert len(compare(y, p, group, n_resamples=20)) > 5


def test_the_text_names_the_label():
    y, p, group = draw()
    names = ["cat", "dog", "cow", "emu"]
    found = compare(pd.DataFrame(y, columns=names), pd.DataFrame(p, columns=names), group, "f1", n_resamples=50)
    least = names[int(np.argmin(found.p_value))]
    assert found.explain().startswith(f"f1 of class {least}, the smallest p of 4: lowest in ")
    tables = np.stack([np.stack([np.eye(2) * 9 + 1, np.eye(2) * k + 3]) for k in (9, 4)])  # two batches, two groups
    said = uncertainty.compare_groups(tables, "mcc", on_failure="ignore").explain()
    assert said.startswith("mcc of batch element 1, the smallest p of 2: ")
    said = uncertainty.compare_groups(tables, "recall", on_failure="ignore").explain()
    assert said.startswith("recall of batch element 1, class ")


def test_undefined_labels_and_small_groups():
    y, p, group = draw()
    y[group == 1, 2] = p[group == 1, 2] = 0  # a label that is neither true nor predicted in one group
    found = compare(y, p, group, "recall", n_resamples=100)
    np.testing.assert_array_equal(np.isnan(found.low), np.array([[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]) > 0)
    assert np.isnan(found.pair_difference[0, 2])
    assert not np.isnan(found.pair_difference[1]).any()
    y, p, group = draw(24)
    with pytest.warns(cmfast.DiagnosticWarning, match=r"in [123] of 3 groups too few samples have a wrong label"):
        uncertainty.compare_groups(y, p, group, "f1_macro", multilabel=True, n_resamples=50)
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters in 3 of 3 groups"):
        uncertainty.compare_groups(*draw(), "f1_macro", multilabel=True, n_resamples=50, clusters=np.arange(400) % 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uncertainty.compare_groups(*draw(), "f1_macro", multilabel=True, n_resamples=50)


Y, P, G = draw(30)
T = pd.DataFrame({"a": Y[:, 0], "b": P[:, 0], "g": G})
WITHOUT = (
    r"groups must be of shape \(30, 4\), as y_true, got shape \(30,\); y_true and y_pred are 0 or 1 as indicators of "
    "several labels are, which multilabel=True takes$"
)
OF_TABLE = (
    r"multilabel must be False, or the arrays given: y_true, y_pred, groups; y_true and y_pred are DataFrames or "
    r"arrays of shape \(n, L\), as in uncertainty.compare_groups\(table\[truth_columns\], table\[guess_columns\], "
    r"table\['site'\], names, multilabel=True\), got True"
)
REFUSED = {
    "counts": (lambda: compare([[[3, 1], [1, 3]]], "f1_macro"), "multilabel must be False, or the arrays given"),
    "a table": (
        lambda: compare(T, "f1_macro", y_true=["a"], y_pred=["b"], groups="g"),
        OF_TABLE,
    ),
    "columns": (lambda: compare(T, ["a"], ["b"], "g", "f1_macro"), r"as in uncertainty.compare_groups\(table\["),
    "no flag": (lambda: compare(Y, P, G, "f1_macro", multilabel=False), WITHOUT),
    "no flag, groups by name": (lambda: compare(Y, P, {"g": G.tolist()}, multilabel=False), WITHOUT),
    "no flag, tables": (
        lambda: compare(pd.DataFrame(Y), pd.DataFrame(P), pd.Series(G), "accuracy", multilabel=False),
        WITHOUT,
    ),
    "no flag, torch": (lambda: compare(torch.tensor(Y), torch.tensor(P), G, multilabel=False), WITHOUT),
    "no flag, no indicators": (
        lambda: compare(Y + 1, P, G, multilabel=False),
        r"groups must be of shape \(30, 4\), as y_true, got shape \(30,\)$",
    ),
    "method": (lambda: compare(Y, P, G, "f1_macro", method="delta"), "method must be 'bootstrap', got 'delta'"),
    "weights": (lambda: compare(Y, P, G, "f1_macro", sample_weight=np.ones(30)), "sample_weight must be left out"),
    "positive": (lambda: compare(Y, P, G, "f1_macro", pos_label=1), "pos_label must be left out"),
    "groups": (lambda: compare(Y, P, G[:4], "f1_macro"), r"groups must be of shape \(30,\)"),
    "indicators": (lambda: compare(2 * Y, P, G, "f1_macro"), "y_true must be 0 or 1"),
    "unknown": (lambda: compare(Y, P, G, "f1_macro", foo=1), "there is no option 'foo'"),
    "clusters": (lambda: compare(Y, P, G, "f1_macro", clusters=True), "clusters must be the cluster of each sample"),
    "none": (lambda: compare(Y[:0], P[:0], G[:0], "f1_macro"), "y_true must be of at least one sample"),
    "name": (lambda: compare(Y, P, G, "roc_auc"), "roc_auc"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, said = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=rf"^uncertainty\.compare_groups: .*{said}"):
        call()
