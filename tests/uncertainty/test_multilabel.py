"""Multilabel samples: intervals and comparisons by whole samples, against loops of NumPy and scikit-learn."""

import itertools
import warnings
from math import isqrt
from statistics import NormalDist
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits
from optional import torch
from oracle.uncertainty import resample
from sklearn import metrics as peer

import cmfast
from cmfast import metrics, uncertainty
from cmfast._core.annotations import MultilabelName
from cmfast.metrics import _multilabel
from cmfast.uncertainty import _multilabel as kernel

NORMAL = NormalDist()
RATES = {
    "recall": lambda tn, fp, fn, tp: (tp, tp + fn),
    "precision": lambda tn, fp, fn, tp: (tp, tp + fp),
    "f1": lambda tn, fp, fn, tp: (2 * tp, 2 * tp + fp + fn),
    "jaccard": lambda tn, fp, fn, tp: (tp, tp + fp + fn),
    "specificity": lambda tn, fp, fn, tp: (tn, tn + fp),
}
AVERAGES = ("macro", "micro", "weighted", "samples")
NAMES = ["subset_accuracy", "hamming_loss", *(f"{rate}_{average}" for rate in RATES for average in AVERAGES), "f1"]
PEERS = {
    "recall": peer.recall_score,
    "precision": peer.precision_score,
    "f1": peer.f1_score,
    "jaccard": peer.jaccard_score,
}
FEW = {"n_resamples": 30}


def draw(n, L, *, seed=0, share=0.3, wrong=(0.15, 0.2)):
    """Return true labels and those that two models predict; some samples have none."""
    rng = np.random.default_rng(seed)
    y = (rng.random((n, L)) < share).astype(np.int64)
    hard = rng.random((n, 1)) < 0.4  # samples that both models get wrong more often
    return y, *(np.where(rng.random((n, L)) < rate * (0.5 + hard), 1 - y, y) for rate in wrong)


def tabulate(y, p):
    """Return tn, fp, fn, tp along the first axis."""
    return [int(((y == a) & (p == b)).sum()) for a in (0, 1) for b in (0, 1)]


def rate(table, name, undefined):
    """Return the value of a table, and whether it enters an average."""
    _, fp, fn, tp = table
    over, under = RATES[name](*table)
    inside = tp + fp + fn > 0 if undefined == "present" else under > 0 if undefined == "nan" else True
    return (over / under if under else 0.0), inside


def score(name, y, p, undefined="present"):
    """Return a metric of multilabel samples by its definition, sample by sample and label by label."""
    if name == "subset_accuracy":
        return (y == p).all(1).mean()
    if name == "hamming_loss":
        return (y != p).mean()
    metric, _, average = name.partition("_")
    labels = [tabulate(y[:, k], p[:, k]) for k in range(y.shape[1])]
    if not average:
        return np.array([rate(table, metric, undefined)[0] for table in labels])
    if average == "micro":
        return rate(np.sum(labels, 0), metric, undefined)[0]
    tables = [tabulate(*pair) for pair in zip(y, p, strict=True)] if average == "samples" else labels
    values, inside = np.array([rate(table, metric, undefined) for table in tables]).T
    weight = inside * (y.sum(0) if average == "weighted" else 1.0)
    if weight.sum() == 0:
        return np.nan if undefined == "nan" else 0.0
    return float((weight * values).sum() / weight.sum())


def list_kinds(*arrays):
    """Return the first sample of each kind of equal rows, in the order of their bits, and the number of each kind."""
    bits = np.packbits(np.concatenate(arrays, 1).astype(np.uint8), axis=1)
    _, first, counts = np.unique(bits, axis=0, return_index=True, return_counts=True)
    return first, counts


def draw_counts(counts, n_resamples, rng):
    """Return how often each kind is drawn in every replicate: `resample` of the counts as cells of a square."""
    C = isqrt(len(counts) - 1) + 1
    cells = np.zeros(C * C, np.int64)
    cells[: len(counts)] = counts
    (found,) = resample(cells.reshape(C, C), n_resamples=n_resamples, rng=rng)
    return found.reshape(n_resamples, C * C)[:, : len(counts)]


def bca(replicates, estimate, without, weights, level=0.95):
    """Return Efron's interval (1987), equations 2.3 and 6.6, with the jackknife of weighted kinds."""
    below = np.mean(replicates < estimate - 1e-9) + np.mean(np.abs(replicates - estimate) <= 1e-9) / 2
    half = 0.5 / len(replicates)
    bias = NORMAL.inv_cdf(min(max(below, half), 1 - half))
    away = np.average(without, weights=weights) - without
    squares = (weights * away**2).sum()
    bend = (weights * away**3).sum() / (6 * squares**1.5) if squares > 1e-20 else 0.0
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = bias + NORMAL.inv_cdf(tail)
        ends.append(np.quantile(replicates, NORMAL.cdf(bias + z / (1 - bend * z))))
    return ends


def expected(y, p, name, method, n_resamples=30, rng=0, undefined="present"):
    """Return estimate, ends and standard error from a loop over replicates of whole samples."""
    first, counts = list_kinds(y, p)
    drawn = draw_counts(counts, n_resamples, rng)
    rows = [np.repeat(first, one) for one in drawn]
    values = np.array([score(name, y[row], p[row], undefined) for row in rows])
    estimate = score(name, y, p, undefined)
    ends = np.quantile(values, (0.025, 0.975), axis=0)
    if method == "basic":
        ends = 2 * estimate - ends[::-1]
    if method == "bca":
        left = np.array([score(name, np.delete(y, k, 0), np.delete(p, k, 0), undefined) for k in first])
        columns = [x.reshape(len(x), -1).T for x in (values, left)]
        one = zip(columns[0], np.ravel(estimate), columns[1], strict=True)
        ends = np.array([bca(*parts, counts) for parts in one]).T.reshape(ends.shape)
    return estimate, *ends, values.std(0, ddof=1)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_intervals_agree_with_a_loop_over_drawn_samples(method):
    y, p, _ = draw(40, 3)
    found = uncertainty.interval(y, p, NAMES, multilabel=True, method=method, on_failure="ignore", **FEW)
    assert list(found) == NAMES
    for name in NAMES:
        want = expected(y, p, name, method)
        for part, other in zip(found[name][:4], want, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-9, atol=1e-10, err_msg=name)
        assert not np.any(found[name].n_undefined)


@pytest.mark.parametrize("name", [f"{rate}_{average}" for rate in PEERS for average in AVERAGES])
def test_intervals_agree_with_scikit_learn_on_the_same_draws(name):
    y, p, _ = draw(60, 4, seed=3, share=0.15)
    metric, _, average = name.partition("_")
    first, counts = list_kinds(y, p)
    rows = [np.repeat(first, one) for one in draw_counts(counts, 30, 8)]
    values = [PEERS[metric](y[row], p[row], average=average, zero_division=0) for row in rows]
    found = uncertainty.interval(
        y, p, name, multilabel=True, method="percentile", undefined="zero", rng=8, on_failure="ignore", **FEW
    )
    np.testing.assert_allclose((found.low, found.high), np.quantile(values, (0.025, 0.975)), atol=1e-10)
    np.testing.assert_allclose(found.estimate, PEERS[metric](y, p, average=average, zero_division=0), rtol=1e-13)


def test_undefined_replicates_are_left_out_and_counted():
    y, p, _ = draw(30, 3, seed=1, share=0.05)
    first, counts = list_kinds(y, p)
    rows = [np.repeat(first, one) for one in draw_counts(counts, 30, 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for name in ("recall_samples", "recall_macro", "recall_micro"):
            values = np.array([score(name, y[row], p[row], "nan") for row in rows])
            found = uncertainty.interval(
                y, p, name, multilabel=True, method="percentile", undefined="nan", on_failure="ignore", **FEW
            )
            none = np.array([(y[row].sum() == 0) for row in rows])
            assert found.n_undefined == none.sum()
            np.testing.assert_allclose((found.low, found.high), np.quantile(values[~none], (0.025, 0.975)), atol=1e-10)


def test_clusters_are_drawn_as_a_whole():
    y, p, _ = draw(60, 3, seed=4)
    patient = np.repeat(np.arange(15), 4)
    drawn = draw_counts(np.ones(15, np.int64), 30, 2)
    rows = [np.concatenate([np.flatnonzero(patient == k) for k in np.repeat(np.arange(15), one)]) for one in drawn]
    for clusters in (patient, patient.astype(str)):  # both orders are that of the first digits for 0 to 9 alone
        found = uncertainty.interval(
            y, p, ["f1_macro", "f1_samples", "subset_accuracy"], multilabel=True, method="percentile",
            clusters=clusters if clusters.dtype.kind == "i" else np.char.zfill(clusters, 2), rng=2, **FEW,
        )  # fmt: skip
        for name, one in found.items():
            values = [score(name, y[row], p[row]) for row in rows]
            np.testing.assert_allclose((one.low, one.high), np.quantile(values, (0.025, 0.975)), atol=1e-10)


def swap(y, a, b, swapped):
    """Return the predictions of both with those of some samples exchanged."""
    return np.where(swapped[:, None], b, a), np.where(swapped[:, None], a, b)


@pytest.mark.exhaustive
def test_permutation_test_enumerates_all_swaps():
    y, a, b = draw(60, 3, seed=5, wrong=(0.02, 0.1))
    b = np.where((a != b).any(1)[:, None] & (np.cumsum((a != b).any(1)) > 9)[:, None], a, b)
    differ = np.flatnonzero((a != b).any(1))
    assert len(differ) == 9
    names = ["f1_macro", "f1_samples", "subset_accuracy", "jaccard_micro"]
    found = uncertainty.compare(y, a, b, names, multilabel=True, **FEW)
    for name in names:
        observed = score(name, y, a) - score(name, y, b)
        apart = []
        for chosen in itertools.product([False, True], repeat=9):
            swapped = np.zeros(60, np.bool_)
            swapped[differ] = chosen
            first, second = swap(y, a, b, swapped)
            apart.append(score(name, y, first) - score(name, y, second))
        one = found[name]
        np.testing.assert_allclose(one.difference, observed, atol=1e-12)
        np.testing.assert_allclose(one.p_value, np.mean(np.abs(apart) >= abs(observed) - 1e-9), rtol=1e-12)
        assert (one.p_error, one.n_discordant) == (0.0, 9)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca", "normal"])
def test_comparisons_agree_with_a_loop_over_drawn_samples(method):
    y, a, b = draw(50, 3, seed=6)
    names = ["f1_macro", "f1_samples", "precision_weighted", "recall_micro", "subset_accuracy", "hamming_loss", "f1"]
    found = uncertainty.compare(y, a, b, names, multilabel=True, method=method, test="interval", rng=4, **FEW)
    first, counts = list_kinds(y, a, b)
    rows = [np.repeat(first, one) for one in draw_counts(counts, 30, 4)]
    for name in names:
        sides = [np.array([score(name, y[row], x[row]) for row in rows]) for x in (a, b)]
        apart = sides[0] - sides[1]
        want = score(name, y, a) - score(name, y, b)
        ends = np.quantile(apart, (0.025, 0.975), axis=0)
        if method == "basic":
            ends = 2 * want - ends[::-1]
        if method == "normal":
            ends = want + np.multiply.outer((-1, 1), NORMAL.inv_cdf(0.975) * apart.std(0, ddof=1))
        if method == "bca":
            left = [[score(name, np.delete(y, k, 0), np.delete(x, k, 0)) for x in (a, b)] for k in first]
            left = np.array([u - v for u, v in left]).reshape(len(first), -1).T
            one = zip(apart.reshape(30, -1).T, np.ravel(want), left, strict=True)
            ends = np.array([bca(*parts, counts) for parts in one]).T.reshape(ends.shape)
        one = found[name]
        np.testing.assert_allclose((one.first, one.second), (score(name, y, a), score(name, y, b)), rtol=1e-12)
        np.testing.assert_allclose((one.low, one.high), ends, rtol=1e-9, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(one.standard_error, apart.std(0, ddof=1), rtol=1e-9)
        assert np.array_equal(one.n_discordant, np.full(np.shape(want), (a != b).any(1).sum()))


@pytest.mark.exhaustive
def test_random_swaps_agree_with_all_swaps():
    """Sixteen samples that differ, each in another way: 65,536 tables, more than are enumerated."""
    y, a, b = draw(80, 5, seed=9, wrong=(0.05, 0.2))
    b = np.where((np.cumsum((a != b).any(1)) > 16)[:, None], a, b)
    differ = np.flatnonzero((a != b).any(1))
    assert len(differ) == 16
    found = uncertainty.compare(y, a, b, "f1_samples", multilabel=True, n_resamples=20_000)
    one = lambda p: np.array([rate(tabulate(*pair), "f1", "present") for pair in zip(y, p, strict=True)])  # noqa: E731
    values = [one(p) for p in (a, b)]
    apart = []
    for chosen in itertools.product([False, True], repeat=16):
        swapped = np.zeros(80, np.bool_)
        swapped[differ] = chosen
        sides = [np.where(swapped[:, None], *pair) for pair in (values[::-1], values)]
        means = [(side[:, 0] * side[:, 1]).sum() / side[:, 1].sum() for side in sides]
        apart.append(abs(means[0] - means[1]))
    observed = abs(score("f1_samples", y, a) - score("f1_samples", y, b))
    exact = np.mean(np.array(apart) >= observed - 1e-9)
    assert 0 < found.p_error < 0.004
    assert abs(found.p_value - exact) < 4 * found.p_error


def test_swapped_clusters_move_together():
    y, a, b = draw(40, 3, seed=10, wrong=(0.02, 0.2))
    patient = np.repeat(np.arange(8), 5)
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters"):
        found = uncertainty.compare(y, a, b, "f1_macro", multilabel=True, clusters=patient, **FEW)
    observed, apart = score("f1_macro", y, a) - score("f1_macro", y, b), []
    for chosen in itertools.product([False, True], repeat=8):
        first, second = swap(y, a, b, np.array(chosen)[patient])
        apart.append(score("f1_macro", y, first) - score("f1_macro", y, second))
    np.testing.assert_allclose(found.p_value, np.mean(np.abs(apart) >= abs(observed) - 1e-9), rtol=1e-12)
    assert found.n_discordant == len({int(k) for k in patient[(a != b).any(1)]})


def test_same_bits_for_any_number_of_threads_and_any_kind_of_array():
    y, p, b = draw(200, 4, seed=11)
    names = ["f1_macro", "f1_samples", "f1"]
    options = {"multilabel": True, "n_resamples": 300}
    want = uncertainty.interval(y, p, names, num_threads=1, **options)
    sides = [(y.astype(bool), p.astype(np.int8)), (y.tolist(), p.tolist()), (y[:, ::-1][:, ::-1], np.asfortranarray(p))]
    for given in sides:
        found = uncertainty.interval(*given, names, num_threads=2, **options)
        for name in names:
            for part, other in zip(found[name], want[name], strict=True):
                assert_same_bits(np.asarray(part), np.asarray(other))
    more = uncertainty.compare(y, p, b, names, num_threads=2, **options)
    for name, one in uncertainty.compare(y, p, b, names, num_threads=1, **options).items():
        for part, other in zip(one[1:12], more[name][1:12], strict=True):
            assert_same_bits(np.asarray(part), np.asarray(other))


def test_tensors_give_tensors_and_dask_arrays_a_delayed():
    y, p, b = draw(60, 3, seed=12)
    want = uncertainty.interval(y, p, "f1_macro", multilabel=True, **FEW)
    found = uncertainty.interval(torch.from_numpy(y), torch.from_numpy(p), "f1_macro", multilabel=True, **FEW)
    assert all(isinstance(part, torch.Tensor) for part in found)
    assert [float(part) for part in found] == [float(part) for part in want]
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(x, chunks=(20, 3)) for x in (y, p, b)]
    assert repr(uncertainty.interval(*lazy[:2], "f1_macro", multilabel=True, **FEW).compute()) == repr(want)
    compared = uncertainty.compare(*lazy, "f1_macro", multilabel=True, **FEW).compute()
    assert repr(compared) == repr(uncertainty.compare(y, p, b, "f1_macro", multilabel=True, **FEW))


def test_labels_keep_their_names():
    pd = pytest.importorskip("pandas")
    y, p, b = draw(60, 3, seed=12)
    columns = ["cat", "dog", "owl"]
    table, guess, other = (pd.DataFrame(x, columns=columns) for x in (y, p, b))
    found = uncertainty.interval(table, guess, "f1", multilabel=True, **FEW)
    assert found.axes == {"class": tuple(columns)}
    assert found.to_pandas()["class"].tolist() == columns
    several = uncertainty.interval(table, guess, ["f1", "f1_macro"], multilabel=True, **FEW)
    assert (several["f1"].axes, several["f1_macro"].axes) == ({"class": tuple(columns)}, {})
    assert uncertainty.compare(table, guess, other, "f1", multilabel=True, **FEW).axes == {"class": tuple(columns)}
    assert uncertainty.compare(y, p, b, "f1", multilabel=True, **FEW).axes == {"class": (0, 1, 2)}


def test_blocks_of_replicates_change_nothing(monkeypatch):
    y, p, b = draw(90, 3, seed=13)
    options = {"multilabel": True, "n_resamples": 200}
    names = ["f1_macro", "f1_samples", "f1"]
    want, compared = uncertainty.interval(y, p, names, **options), uncertainty.compare(y, p, b, names, **options)
    monkeypatch.setattr(kernel, "MOST_BYTES", 1)
    again, anew = uncertainty.interval(y, p, names, **options), uncertainty.compare(y, p, b, names, **options)
    for name in names:
        assert repr(again[name]) == repr(want[name])
        assert repr(anew[name]) == repr(compared[name])


def test_default_names_are_all_with_one_value():
    y, p, b = draw(60, 3, seed=14)
    found = uncertainty.interval(y, p, multilabel=True, on_failure="ignore", **FEW)
    assert list(found) == list(_multilabel.ALL)
    estimates = metrics.multilabel(y, p)
    for name, one in found.items():
        np.testing.assert_allclose(one.estimate, estimates[name], rtol=1e-15)
    assert list(uncertainty.compare(y, p, b, multilabel=True, **FEW)) == list(_multilabel.ALL)


def test_names_for_type_checkers_are_those_that_only_multilabel_samples_have():
    only = {name for name in _multilabel.ALL if name.endswith("_samples")} | set(_multilabel.SAMPLE_METRICS)
    assert set(get_args(MultilabelName)) == only


def test_empty_and_perfect_samples():
    nothing = np.zeros((0, 3), np.int64)
    found = uncertainty.interval(nothing, nothing, ["f1_macro", "f1"], multilabel=True, on_failure="ignore", **FEW)
    assert found["f1"].estimate.shape == (3,)
    assert np.isnan(found["f1_macro"].low)
    y, p, _ = draw(30, 3)
    perfect = uncertainty.interval(y, y, "f1_samples", multilabel=True, on_failure="ignore", **FEW)
    assert (perfect.estimate, perfect.low, perfect.high) == (1.0, 1.0, 1.0)
    same = uncertainty.compare(y, p, p, "f1_macro", multilabel=True, **FEW)
    assert (same.difference, same.p_value, same.n_discordant) == (0.0, 1.0, 0)


Y, P, B = draw(30, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: uncertainty.interval(Y, P[:, :2], "f1_macro", multilabel=True), r"y_pred: \(30, 2\)"),
        (lambda: uncertainty.interval(Y[:, 0], P[:, 0], "f1_macro", multilabel=True), r"y_true must be .*\(n, L\)"),
        (lambda: uncertainty.interval(Y + 1, P, "f1_macro", multilabel=True), "y_true must be 0 or 1"),
        (lambda: uncertainty.interval(Y, P + 1, "f1_macro", multilabel=True), "y_pred must be 0 or 1"),
        (lambda: uncertainty.interval(Y, P / 2, "f1_macro", multilabel=True), "y_pred must be .*integers"),
        (lambda: uncertainty.interval(Y, P, "f1_macros", multilabel=True), "names must be .*f1_macro"),
        (lambda: uncertainty.interval(Y, P, "mcc", multilabel=True), "names must be subset_accuracy"),
        (lambda: uncertainty.interval(Y, P, "f1_macro", multilabel=True, scheme="rows"), "scheme must be left out"),
        (lambda: uncertainty.interval(Y, P, "f1_macro", multilabel=True, method="wilson"), "method must be"),
        (lambda: uncertainty.interval(Y, P, "f1_macro", multilabel=True, clusters=[1, 2]), r"clusters must be"),
        (lambda: uncertainty.interval(Y, P, "f1_macro", multilabel=True, clusters=True), r"clusters must be"),
        (lambda: uncertainty.interval(Y, "f1_macro", multilabel=True), "multilabel must be .*y_true, y_pred"),
        (
            lambda: uncertainty.interval(pd.DataFrame(Y), "f1_macro", multilabel=True),
            r"y_true and y_pred are DataFrames or arrays of shape \(n, L\), as in .*interval\(table\[truth_columns\], ",
        ),
        (
            lambda: uncertainty.compare(pd.DataFrame(Y), ["a"], ["b"], ["c"], multilabel=True),
            r"y_true, y_a and y_b are DataFrames .*compare\(table\[truth_columns\], table\[columns_of_a\], table\[col",
        ),
        (lambda: uncertainty.interval(Y, P, "f1_samples"), "multilabel=True"),
        (lambda: uncertainty.interval(Y, P, "f1_macro", multilabel=3), "multilabel must be True or False"),
        (lambda: uncertainty.compare(Y, P, "f1_macro", multilabel=True), "multilabel must be .*y_true, y_a, y_b"),
        (lambda: uncertainty.compare(Y, P, B, "f1_samples"), "multilabel=True"),
        (lambda: uncertainty.compare(Y, P, B, ["accuracy", "subset_accuracy"]), "multilabel=True"),
        (lambda: uncertainty.compare(Y, P, B, "f1_macro", multilabel=True, method="delta"), "method must be"),
        (lambda: uncertainty.compare(Y, P, B * 2, "f1_macro", multilabel=True), "y_b must be 0 or 1"),
        (
            lambda: uncertainty.compare(Y, P, B, "f1_macro", multilabel=True, ignore_index=1),
            "ignore_index must be left",
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()


def test_arrays_by_name():
    want = uncertainty.interval(Y, P, "f1_macro", multilabel=True, **FEW)
    found = uncertainty.interval(y_true=Y, y_pred=P, names="f1_macro", multilabel=True, **FEW)
    assert repr(found) == repr(want)
    compared = uncertainty.compare(y_true=Y, y_a=P, y_b=B, names="f1_macro", multilabel=True, **FEW)
    assert repr(compared) == repr(uncertainty.compare(Y, P, B, "f1_macro", multilabel=True, **FEW))


def test_few_clusters_and_few_swaps_warn():
    clusters = np.repeat(np.arange(5), 6)
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters"):
        uncertainty.interval(Y, P, "f1_macro", multilabel=True, clusters=clusters, **FEW)
    other = P.copy()
    other[:2] = 1 - other[:2]
    with pytest.warns(cmfast.DiagnosticWarning, match="too few samples or clusters differ"):
        uncertainty.compare(Y, P, other, "f1_samples", multilabel=True, **FEW)


def test_few_wrong_samples_and_rare_labels_warn():
    y, p, _ = draw(60, 3, seed=16)
    few = y.copy()
    few[:3, 0] = 1 - few[:3, 0]
    with pytest.warns(cmfast.DiagnosticWarning, match="f1_micro by bca .* fewer than 5 samples have a wrong label"):
        uncertainty.interval(y, few, "f1_micro", multilabel=True, **FEW)
    y[:, 1] = np.arange(60) < 4
    with pytest.warns(
        cmfast.DiagnosticWarning, match="f1_macro and 1 other metric by bca .* 1 of 3 labels are true of"
    ):
        uncertainty.interval(y, p, ["f1_macro", "f1_micro", "f1"], multilabel=True, **FEW)
    uncertainty.interval(y, p, ["f1_micro", "f1_weighted", "f1_samples"], multilabel=True, **FEW)  # silent


@pytest.mark.parametrize("test", ["permutation", "interval"])
def test_no_samples_are_no_certain_difference(test):
    none = np.zeros((0, 3), int)
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        found = uncertainty.compare(none, none, none, "f1_macro", multilabel=True, test=test, n_resamples=20)
    assert found.verdict() == "undefined"
    assert np.isnan([found.low, found.high, found.p_value]).all()
