"""Which classes labels have where nobody says so: those that occur, as scikit-learn has it."""

import tracemalloc

import numpy as np
import pytest
from cases.metrics import EVERY
from checks import assert_same_bits
from optional import torch
from optional import xarray as xr
from sklearn import metrics as sk

import cmfast
from cmfast import metrics

POOLS = {
    "from 1": [1, 2, 3],
    "gaps": [0, 2, 3, 7],
    "negative": [-9, -1, 0, 4],
    "two": [-1, 1],
    "large": [5, 7, 8, 1_000_000],
    "beyond": [-(10**12), 3, 4, 10**15],
}
THEIRS = {
    "f1_macro": lambda y, p: sk.f1_score(y, p, average="macro"),
    "kappa_linear": lambda y, p: sk.cohen_kappa_score(y, p, weights="linear"),
    "kappa_quadratic": lambda y, p: sk.cohen_kappa_score(y, p, weights="quadratic"),
    "mcc": sk.matthews_corrcoef,
}


def assert_close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_scores_are_those_of_scikit_learn(rng, pool):
    pool = np.array(pool)
    for n in (20, 90):
        y, p = pool[rng.integers(0, len(pool), (2, n))]
        for name, score in THEIRS.items():
            assert_close(metrics.from_labels(y, p, name), score(y, p))


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, lambda x: np.asarray(x, np.int64).tolist()])
def test_metrics_are_those_of_the_confusion_matrix(rng, pool, make):
    """With batches, groups, weights of which some are nothing, and truths that are ignored."""
    pool = np.array(pool)
    y, p = pool[rng.integers(0, len(pool), (2, 3, 40))]
    weight, groups = rng.integers(0, 2, y.shape), rng.integers(0, 2, y.shape)
    for options in ({}, {"sample_weight": make(weight)}, {"groups": make(groups)}, {"ignore_index": int(pool[0])}):
        M = cmfast.confusion_matrix(make(y), make(p), **options)
        want = metrics.compute(M, EVERY)
        for name, value in metrics.from_labels(make(y), make(p), EVERY, **options).items():
            assert_same_bits(np.asarray(value), np.asarray(want[name]))
        sums = metrics.label_margins(make(y), make(p), **options)
        assert all(np.array_equal(a, b) for a, b in zip(sums, metrics.margins(M), strict=True))


def test_the_largest_label_takes_no_memory(rng):
    y, p = np.array([3, -4, 10**9])[rng.integers(0, 3, (2, 100_000))]
    metrics.from_labels(y, p, "f1_macro")
    tracemalloc.start()
    metrics.from_labels(y, p, "f1_macro")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * y.nbytes + p.nbytes
    assert metrics.from_labels(y.astype(np.uint64), y.astype(np.uint64) + 1, "accuracy") == 0


def test_gaps_have_no_part_in_anything():
    """Of 0, 1, 2, 3 the first was a class, and 0/0 in all of its rates."""
    y, p = [1, 2, 3, 3], [1, 2, 3, 2]
    assert metrics.from_labels([1, 2, 3], [1, 2, 3], "gerrity") == 1
    assert metrics.from_labels(y, p, "f1", undefined="zero").shape == (3,)
    assert_close(metrics.from_labels(y, p, "f1_macro", undefined="zero"), sk.f1_score(y, p, average="macro"))
    assert metrics.from_labels(y, p, "recall", n_classes=4, undefined="nan").shape == (4,)
    assert metrics.from_labels(y, p, "recall_macro", average_over=[3]) == 0.5
    with pytest.raises(ValueError, match=r"average_over must be of the labels \[1, 2, 3\], got 0"):
        metrics.from_labels(y, p, "recall_macro", average_over=[0])
    named = xr.DataArray([[5, 7, -2], [5, 5, 7]], dims=("model", "sample"), coords={"model": ["a", "b"]})
    found = metrics.from_labels(named, named, "accuracy")
    assert found.dims == ("model",)
    assert found.sel(model="b") == 1


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([-1, 1, 1], [1, 1, -1]),
        ([1, 1], [-1, 1]),
        ([-1, -1], [-1, -1]),
        ([0, 1, 1], [1, 1, 0]),
        ([0, 0], [0, 0]),
        ([1, 1], [1, 1]),
        ([True, False], [True, True]),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_one_is_the_positive_class(make, y, p):
    for name, theirs in (("f1_binary", sk.f1_score), ("recall_binary", sk.recall_score)):
        found = metrics.from_labels(make(y), make(p), name)
        assert_close(float(found), theirs(y, p, zero_division=0))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([1, 2], r"one of the labels \[1, 2\]"),
        ([0, 2], r"one of the labels \[0, 2\]"),
        ([3, 3], "given where 3 is the only label"),
        (["a", "a"], "given where 'a' is the only label"),
    ],
)
def test_a_positive_class_that_nobody_can_know(labels, said):
    with pytest.raises(ValueError, match=rf"^metrics\.from_labels: pos_label must be {said}, got None$"):
        metrics.from_labels(labels, labels, "f1_binary")
    assert metrics.from_labels(labels, labels, "f1_binary", pos_label=labels[0]) == 1
    assert metrics.from_labels(labels, labels, "f1_macro") == 1
