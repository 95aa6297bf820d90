"""Identities between metrics, for any matrix of counts in which every class is true and predicted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cmfast import metrics

pytestmark = pytest.mark.exhaustive

COUNTS = (
    st.integers(2, 6)
    .flatmap(lambda C: arrays(np.int64, (C, C), elements=st.integers(0, 1000)))
    .map(lambda M: M + np.eye(len(M), dtype=np.int64))
)
BINARY = arrays(np.int64, (2, 2), elements=st.integers(0, 1000)).map(lambda M: M + np.eye(2, dtype=np.int64))
SCALARS = list(metrics.SCALARS)


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@given(COUNTS)
def test_row_normalised_accuracy_is_balanced_accuracy(M):
    N = M / M.sum(1, keepdims=True)
    C = len(M)
    balanced = metrics.balanced_accuracy(M)
    assert_close(metrics.accuracy(N), balanced)
    assert_close(metrics.kappa(N), metrics.balanced_accuracy_adjusted(M))
    for name in ("geometric_mean", "tau", "recall"):
        assert_close(metrics.compute(N, name), metrics.compute(M, name))
    q = N.sum(0) / C
    assert_close(metrics.mcc(N), (balanced - 1 / C) / np.sqrt((1 - 1 / C) * (1 - (q**2).sum())))


@given(COUNTS)
def test_transpose(M):
    for name in ("mcc", "kappa", "kappa_linear", "kappa_quadratic"):
        assert_close(metrics.compute(M.T, name), metrics.compute(M, name))
    assert_close(metrics.recall(M.T), metrics.precision(M))
    assert_close(metrics.mcc(M) ** 2, metrics.peirce(M) * metrics.peirce(M.T))


@given(COUNTS)
def test_between_metrics(M):
    C = len(M)
    found = metrics.compute(M, [*SCALARS, "jaccard", "f1"])
    for name in ("recall_weighted", "recall_micro", "precision_micro", "f1_micro"):
        assert_close(found[name], found["accuracy"])
    assert_close(found["accuracy_ovr_macro"], 1 - 2 * (1 - found["accuracy"]) / C)
    assert_close(found["jaccard"], found["f1"] / (2 - found["f1"]))
    small = 1e-12
    assert found["f1_of_macro"] >= found["f1_macro"] - small
    assert found["tau"] <= found["balanced_accuracy"] + small
    assert found["geometric_mean"] <= found["balanced_accuracy"] + small
    assert abs(found["kappa"]) <= abs(found["mcc"]) + small


@given(COUNTS)
def test_quadratic_kappa_is_the_concordance_of_class_numbers(M):
    C, n = len(M), M.sum()
    i = np.arange(C)
    t, p = M.sum(1) / n, M.sum(0) / n
    mean_t, mean_p = i @ t, i @ p
    covariance = (np.outer(i, i) * M).sum() / n - mean_t * mean_p
    spread = i**2 @ t - mean_t**2 + i**2 @ p - mean_p**2
    assert_close(metrics.kappa_quadratic(M), 2 * covariance / (spread + (mean_t - mean_p) ** 2))


@given(COUNTS, st.integers(2, 9), st.randoms(use_true_random=False))
def test_scale_and_order_of_classes(M, factor, random):
    order = list(range(len(M)))
    random.shuffle(order)
    want, scaled = metrics.compute(M, SCALARS), metrics.compute(M * factor, SCALARS)
    permuted = metrics.compute(M[np.ix_(order, order)], SCALARS)
    for name in SCALARS:
        if name != "krippendorff_alpha":  # which looks at the number of samples
            assert_close(scaled[name], want[name])
        if name not in ("kappa_linear", "kappa_quadratic", "gerrity"):
            assert_close(permuted[name], want[name])
    assert_close(metrics.f1(M[np.ix_(order, order)]), metrics.f1(M)[order])


@given(COUNTS)
def test_ranges(M):
    for metric in metrics.METRICS:
        if metric.kind != "binary" and metric.name not in ("fbeta", "tau_weighted"):
            value = np.asarray(metrics.compute(M, metric.name))
            assert (value >= metric.low - 1e-12).all(), metric.name
            assert (value <= metric.high + 1e-12).all(), metric.name


@given(BINARY)
def test_two_classes(M):
    kappa, mcc, balanced = metrics.kappa(M), metrics.mcc(M), metrics.balanced_accuracy(M)
    assert_close(metrics.kappa_linear(M), kappa)
    assert_close(metrics.kappa_quadratic(M), kappa)
    for name in ("tss", "youden_j", "peirce", "gerrity"):
        assert_close(metrics.compute(M, name), 2 * balanced - 1)
    assert_close(metrics.doolittle(M), mcc**2)
    assert_close(metrics.gilbert(M), kappa / (2 - kappa))
    fnr, fpr = 1 - metrics.recall(M)[::-1]
    assert_close(metrics.tau(M), 1 - np.sqrt((fnr**2 + fpr**2) / 2))


@given(COUNTS)
def test_class_names_do_not_matter_where_only_sums_do(M):
    moved = M.copy()
    if len(M) > 2:  # a cycle off the diagonal keeps every margin
        for i, j, step in ((0, 1, 1), (1, 2, 1), (2, 0, 1), (0, 2, -1), (2, 1, -1), (1, 0, -1)):
            moved[i, j] += step
    if (moved >= 0).all():
        names = [name for name in SCALARS if name not in ("kappa_linear", "kappa_quadratic", "gerrity")]
        want, got = metrics.compute(M, names), metrics.compute(moved, names)
        assert {k: float(v) for k, v in want.items()} == {k: float(v) for k, v in got.items()}
