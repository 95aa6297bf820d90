"""Intervals of averaged, partial and clustered areas and of average precision, against derivatives of scikit-learn's.

The standard error of an area is that of the sum of the influences of all samples, and the influence of a sample is the
derivative of the area by its weight. scikit-learn takes weights, so differences of its scores give the derivatives.
"""

from statistics import NormalDist
from typing import get_args

import numpy as np
import pytest
from optional import torch
from sklearn.metrics import average_precision_score, roc_auc_score

import cmfast
from cmfast import uncertainty
from cmfast._core.annotations import AreaName
from cmfast.uncertainty._areas import SCORES as SCORES_OF_AREAS

pytestmark = pytest.mark.exhaustive

LEVEL = NormalDist().inv_cdf(0.975)
STEP = 1e-5


def draw(n, C, *, seed=0, models=1):
    """Return classes and the scores of all classes by some models, which sum to one."""
    rng = np.random.default_rng(seed)
    y = rng.choice(C, n, p=np.arange(1, C + 1) / np.arange(1, C + 1).sum())
    common = 0.5 * rng.normal(size=(n, C)) + (np.arange(C) == y[:, None])
    scores = np.exp(common + 0.7 * rng.normal(size=(models, n, C)))
    return y, scores / scores.sum(-1, keepdims=True)


def differentiate(score, n, weight=1.0):
    """Return the derivative of a function of weights by the weight of each sample, by central differences."""
    found = np.empty(n)
    for k in range(n):
        weights = np.full((2, n), weight)
        weights[:, k] += STEP, -STEP
        found[k] = (score(weights[0]) - score(weights[1])) / (2 * STEP)
    return found


def find_error(influence, y, clusters=None):
    """Return the standard error of a sum of influences of independent samples of each class, or of clusters."""
    if clusters is not None:
        sums = np.array([influence[clusters == k].sum() for k in np.unique(clusters)])
        return np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum())
    classes, sizes = np.unique(y, return_counts=True)
    parts = [m / (m - 1) * (influence[y == c] ** 2).sum() for c, m in zip(classes, sizes, strict=True)]
    return np.sqrt(np.sum(parts))


def logit_interval(value, error):
    """Return the interval of an area, symmetric on the scale of log odds."""
    log_odds = np.log(value / (1 - value)) + LEVEL * error / (value * (1 - value)) * np.array([-1, 1])
    return 1 / (1 + np.exp(-log_odds))


def compare_pairs(y, S, name):
    """Return an average of areas by comparing every pair of samples, in Python."""
    C, n = S.shape[1], len(y)
    above = lambda s, up, down: np.mean([[(a > b) + (a == b) / 2 for b in s[down]] for a in s[up]])  # noqa: E731
    share = np.bincount(y, minlength=C) / n
    if "ovr" in name:
        areas = np.array([above(S[:, k], y == k, y != k) for k in range(C)])
        return (areas * share).sum() if "weighted" in name else areas.mean()
    areas, weights = [], []
    for j in range(C):
        for k in range(j + 1, C):
            areas.append((above(S[:, j], y == j, y == k) + above(S[:, k], y == k, y == j)) / 2)
            weights.append(share[j] + share[k] if "weighted" in name else 1.0)
    return np.average(areas, weights=weights)


NAMES = ["roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "roc_auc_ovo_weighted"]


@pytest.mark.parametrize("name", NAMES)
def test_averages_over_classes_agree_with_all_pairs_and_scikit_learn(name):
    y, (S,) = draw(70, 4)
    S = np.round(S, 1)  # with ties
    S = S / S.sum(1, keepdims=True)
    found = uncertainty.interval(y, S, name)
    np.testing.assert_allclose(found.estimate, compare_pairs(y, S, name), rtol=1e-13)
    options = {"multi_class": name[8:11], "average": "weighted" if "weighted" in name else "macro"}
    np.testing.assert_allclose(found.estimate, roc_auc_score(y, S, **options), rtol=1e-13)


@pytest.mark.parametrize("name", NAMES[:2])
def test_errors_of_one_vs_rest_are_those_of_derivatives(name):
    y, (S,) = draw(60, 3, seed=1)
    average = "weighted" if "weighted" in name else "macro"
    influence = differentiate(
        lambda w: roc_auc_score(y, S, multi_class="ovr", average=average, sample_weight=w), len(y)
    )
    error = find_error(influence, y)
    found = uncertainty.interval(y, S, name)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-7)
    np.testing.assert_allclose((found.low, found.high), logit_interval(found.estimate, error), rtol=1e-7)


def weigh_pairs(y, S, name, w):
    """Return an average of one-vs-one areas of weighted samples, by all pairs."""
    C = S.shape[1]
    share = np.array([w[y == k].sum() for k in range(C)]) / w.sum()
    areas, weights = [], []
    for j in range(C):
        for k in range(j + 1, C):
            both = 0.0
            for column, up, down in ((j, y == j, y == k), (k, y == k, y == j)):
                a, b = S[up, column][:, None], S[down, column]
                both += (w[up][:, None] * w[down] * ((a > b) + (a == b) / 2)).sum() / (w[up].sum() * w[down].sum()) / 2
            areas.append(both)
            weights.append(share[j] + share[k] if "weighted" in name else 1.0)
    return np.average(areas, weights=weights)


@pytest.mark.parametrize("name", NAMES[2:])
def test_errors_of_one_vs_one_are_those_of_derivatives(name):
    y, (S,) = draw(60, 4, seed=2)
    influence = differentiate(lambda w: weigh_pairs(y, S, name, w), len(y))
    with pytest.warns(cmfast.DiagnosticWarning, match=r"a class has 3 samples, below 8: intervals are too narrow"):
        found = uncertainty.interval(y, S, name)
    np.testing.assert_allclose(found.standard_error, find_error(influence, y), rtol=1e-7)


def test_two_classes_have_delongs_error():
    y, (S,) = draw(80, 2, seed=3)
    want = uncertainty.interval(y, S[:, 1], "roc_auc")
    for name in NAMES:
        found = uncertainty.interval(y, S, name)
        for part, other in zip(found[:4], want, strict=False):
            np.testing.assert_allclose(part, other, rtol=1e-12)


@pytest.mark.parametrize("max_fpr", [0.07, 0.3, 0.999, 1.0])
def test_partial_areas_agree_with_scikit_learn_and_its_derivatives(max_fpr):
    y, (S,) = draw(90, 2, seed=4)
    s = S[:, 1]
    found = uncertainty.interval(y, s, "roc_auc", max_fpr=max_fpr)
    np.testing.assert_allclose(found.estimate, roc_auc_score(y, s, max_fpr=max_fpr), rtol=1e-12)
    influence = differentiate(lambda w: roc_auc_score(y, s, max_fpr=max_fpr, sample_weight=w), len(y))
    np.testing.assert_allclose(found.standard_error, find_error(influence, y), rtol=1e-6)
    if max_fpr == 1.0:
        np.testing.assert_allclose(found, uncertainty.interval(y, s, "roc_auc"), rtol=1e-12)


def test_partial_areas_of_tied_scores_agree_with_scikit_learn():
    y, (S,) = draw(200, 2, seed=5)
    s = np.round(S[:, 1], 1)
    for max_fpr in (0.05, 0.2, 0.6):
        found = uncertainty.interval(y, s, "roc_auc", max_fpr=max_fpr)
        np.testing.assert_allclose(found.estimate, roc_auc_score(y, s, max_fpr=max_fpr), rtol=1e-12)


@pytest.mark.parametrize("decimals", [9, 1])
def test_average_precision_agrees_with_scikit_learn_and_its_derivatives(decimals):
    y, (S,) = draw(90, 2, seed=6)
    s = np.round(S[:, 0], decimals)
    positive = (y == 0).astype(int)
    found = uncertainty.interval(y, s, "average_precision", pos_label=0)
    np.testing.assert_allclose(found.estimate, average_precision_score(positive, s), rtol=1e-12)
    influence = differentiate(lambda w: average_precision_score(positive, s, sample_weight=w), len(y))
    np.testing.assert_allclose(found.standard_error, find_error(influence, y), rtol=1e-6)
    np.testing.assert_allclose(
        (found.low, found.high), logit_interval(found.estimate, found.standard_error), rtol=1e-12
    )
    normal = uncertainty.interval(y, s, "average_precision", pos_label=0, method="normal")
    np.testing.assert_allclose(normal.high - normal.low, 2 * LEVEL * found.standard_error, rtol=1e-12)


CALLS = {
    "roc_auc": lambda y, s, w: roc_auc_score(y, s, sample_weight=w),
    "average_precision": lambda y, s, w: average_precision_score(y, s, sample_weight=w),
}


@pytest.mark.parametrize("name", CALLS)
def test_clusters_are_the_observations(name):
    y, (S, T) = draw(75, 2, seed=7, models=2)
    patient = np.arange(75) // 5
    influences = [differentiate(lambda w, s=s: CALLS[name](y, s[:, 1], w), 75) for s in (S, T)]
    error = find_error(influences[0], y, patient)
    for clusters in (patient, patient.astype(str)):
        found = uncertainty.interval(y, S[:, 1], name, clusters=clusters)
        np.testing.assert_allclose(found.standard_error, error, rtol=1e-6)
    compared = uncertainty.compare(y, S[:, 1], T[:, 1], name, clusters=patient)
    np.testing.assert_allclose(
        compared.standard_error, find_error(influences[0] - influences[1], y, patient), rtol=1e-6
    )
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters"):
        uncertainty.interval(y, S[:, 1], name, clusters=patient // 2)


@pytest.mark.parametrize("name", ["roc_auc_ovr", "average_precision", "max_fpr"])
def test_comparisons_have_the_error_of_the_difference(name):
    y, sides = draw(80, 3 if name == "roc_auc_ovr" else 2, seed=8, models=2)
    score = {
        "roc_auc_ovr": lambda s, w: roc_auc_score(y, s, multi_class="ovr", sample_weight=w),
        "average_precision": lambda s, w: average_precision_score(y, s, sample_weight=w),
        "max_fpr": lambda s, w: roc_auc_score(y, s, max_fpr=0.2, sample_weight=w),
    }[name]
    a, b = sides if name == "roc_auc_ovr" else sides[..., 1]
    options = {"max_fpr": 0.2} if name == "max_fpr" else {}
    called = "roc_auc" if name == "max_fpr" else name
    found = uncertainty.compare(y, a, b, called, **options)
    ones = np.ones(80)
    influence = differentiate(lambda w: score(a, w) - score(b, w), 80)
    error = find_error(influence, y)
    np.testing.assert_allclose((found.first, found.second), (score(a, ones), score(b, ones)), rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-6)
    difference = score(a, ones) - score(b, ones)
    np.testing.assert_allclose((found.low, found.high), difference + LEVEL * error * np.array([-1, 1]), rtol=1e-6)
    np.testing.assert_allclose(found.p_value, 2 * NormalDist().cdf(-abs(difference) / error), rtol=1e-5)
    assert (found.name, found.method, found.test) == (called, "delta", "interval")


def score_weighted(name, y, w, S, max_fpr=None):
    """Return any area of weighted samples, by scikit-learn's functions or all pairs."""
    if "ovo" in name:
        return weigh_pairs(y, S, name, w)
    if name == "average_precision":
        return average_precision_score(y, S, sample_weight=w)
    if name == "roc_auc":
        return roc_auc_score(y, S, sample_weight=w, max_fpr=max_fpr)
    average = "weighted" if name.endswith("_weighted") else "macro"
    return roc_auc_score(y, S, multi_class="ovr", average=average, sample_weight=w)


EVERY = [*((name, None) for name in SCORES_OF_AREAS), ("roc_auc", 0.2)]


@pytest.mark.filterwarnings("ignore:.*the smaller class has")
@pytest.mark.filterwarnings("ignore:.*uneven weights leave:cmfast.DiagnosticWarning")
@pytest.mark.parametrize(("name", "max_fpr"), EVERY)
def test_covariances_of_weighted_areas_are_those_of_derivatives(name, max_fpr):
    n, C = 70, 2 if name in ("roc_auc", "average_precision") else 3
    y, S = draw(n, C, seed=11, models=3)
    S = np.round(S, 2)  # with ties
    S = S / S.sum(-1, keepdims=True) if C > 2 else S[..., 1]
    w = np.random.default_rng(12).lognormal(size=n)
    influences = np.array([w * differentiate(lambda v, s=s: score_weighted(name, y, v, s, max_fpr), n, w) for s in S])
    want = np.zeros((3, 3))
    for c in range(C):
        part, m = influences[:, y == c], np.count_nonzero(y == c)
        want += m / (m - 1) * part @ part.T
    options = {} if max_fpr is None else {"max_fpr": max_fpr}
    found = uncertainty.auc_covariance(y, S, name=name, sample_weight=w, **options)
    np.testing.assert_allclose(found.auc, [score_weighted(name, y, w, s, max_fpr) for s in S], rtol=1e-12)
    np.testing.assert_allclose(found.covariance, want, rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(found.standard_error, np.sqrt(np.diagonal(found.covariance)))
    one = uncertainty.interval(y, S[1], name, sample_weight=w, **options)
    np.testing.assert_allclose((one.estimate, one.standard_error), (found.auc[1], found.standard_error[1]), rtol=1e-12)
    pair = uncertainty.compare(y, S[0], S[2], name, sample_weight=w, **options)
    variance = np.array([1, 0, -1]) @ found.covariance @ np.array([1, 0, -1])
    np.testing.assert_allclose(pair.standard_error, np.sqrt(variance), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:.*uneven weights leave:cmfast.DiagnosticWarning")
@pytest.mark.parametrize("name", [name for name, max_fpr in EVERY if max_fpr is None])
def test_samples_without_weight_are_as_if_left_out(name):
    n, C = 80, 2 if name in ("roc_auc", "average_precision") else 3
    y, S = draw(n, C, seed=13, models=2)
    S = S if C > 2 else S[..., 1]
    w = np.random.default_rng(14).integers(0, 3, n).astype(float)
    w[np.argsort(S[0].reshape(n, -1)[:, 0])[-5:]] = 0.0  # the highest scores among them
    kept = w > 0.0
    patient = np.arange(n) // 4
    for clusters in (None, patient):
        found = uncertainty.auc_covariance(y, S, name=name, sample_weight=w, clusters=clusters)
        some = None if clusters is None else clusters[kept]
        want = uncertainty.auc_covariance(y[kept], S[:, kept], name=name, sample_weight=w[kept], clusters=some)
        for part, other in zip(found, want, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-11)
        times = uncertainty.auc_covariance(y, S, name=name, sample_weight=7.5 * w, clusters=clusters)
        np.testing.assert_allclose(times.covariance, found.covariance, rtol=1e-11)


def test_covariances_of_clusters_are_those_of_sums():
    y, S = draw(75, 3, seed=15, models=2)
    patient = np.arange(75) // 5
    score = lambda s, w: roc_auc_score(y, s, multi_class="ovr", sample_weight=w)  # noqa: E731
    influences = [differentiate(lambda w, s=s: score(s, w), 75) for s in S]
    sums = np.array([[one[patient == k].sum() for k in range(15)] for one in influences])
    found = uncertainty.auc_covariance(y, S, name="roc_auc_ovr", clusters=patient.astype(str))
    np.testing.assert_allclose(found.covariance, 15 / 14 * sums @ sums.T, rtol=1e-6)
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters"):
        uncertainty.auc_covariance(y, S, name="roc_auc_ovr", clusters=patient // 2)


def test_covariances_of_tensors_and_lazy_arrays():
    da = pytest.importorskip("dask.array")
    y, S = draw(60, 3, seed=16, models=2)
    want = uncertainty.auc_covariance(y, S, name="roc_auc_ovo")
    found = uncertainty.auc_covariance(torch.from_numpy(y), torch.from_numpy(S), name="roc_auc_ovo")
    assert isinstance(found.covariance, torch.Tensor)
    lazy = uncertainty.auc_covariance(
        da.from_array(y, chunks=20), da.from_array(S, chunks=(1, 20, 3)), name="roc_auc_ovo"
    )
    for got in (found, lazy.compute()):
        for part, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(part), other)


def test_a_bad_weight_or_score_gives_nan_for_all_models():
    y, S = draw(40, 3, seed=17, models=2)
    for w, text in ((np.where(y == 1, np.nan, 1.0), "NaN"), (np.where(y == 1, -1.0, 1.0), "negative")):
        where = int(np.flatnonzero(y == 1)[0])
        with pytest.warns(cmfast.FailureWarning, match=rf"{text} value at sample_weight\[{where}\]"):
            found = uncertainty.auc_covariance(y, S, name="roc_auc_ovr", sample_weight=w)
        assert np.isnan(found.auc).all()
        assert np.isnan(found.covariance).all()
    bad = S.copy()
    bad[1, 7, 2] = np.nan
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at y_score\[1, 7, 2\]"):
        uncertainty.auc_covariance(y, bad, name="roc_auc_ovr")
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at y_b\[7, 2\]"):
        uncertainty.compare(y, S[0], bad[1], "roc_auc_ovr")
    with pytest.raises(cmfast.FailureError, match="weights add up to more than fits"):
        uncertainty.auc_covariance(y, S, name="roc_auc_ovr", sample_weight=np.full(40, 1e308), on_failure="raise")


def test_weights_may_be_a_column():
    y, (S,) = draw(90, 2, seed=18)
    table = {"ill": y, "score": S[:, 1], "weight": np.arange(90) + 70.0}
    pd = pytest.importorskip("pandas")
    found = uncertainty.interval(pd.DataFrame(table), "roc_auc", y_true="ill", y_score="score", sample_weight="weight")
    assert found == uncertainty.interval(y, S[:, 1], "roc_auc", sample_weight=table["weight"])


def test_labels_of_text_and_tensors():
    y, (S,) = draw(60, 3, seed=9)
    want = uncertainty.interval(y, S, "roc_auc_ovo")
    assert repr(uncertainty.interval(np.array(["a", "b", "c"])[y], S, "roc_auc_ovo")) == repr(want)
    assert repr(uncertainty.interval(y_true=y.tolist(), y_score=S.tolist(), names="roc_auc_ovo")) == repr(want)
    found = uncertainty.interval(torch.from_numpy(y), torch.from_numpy(S), "roc_auc_ovo")
    assert isinstance(found.low, torch.Tensor)
    assert float(found.low) == float(want.low)


def test_names_for_type_checkers_are_all_areas():
    assert get_args(AreaName) == SCORES_OF_AREAS


def test_undefined_and_bad_areas():
    y, (S,) = draw(40, 2, seed=10)
    with pytest.warns(cmfast.DiagnosticWarning, match="areas are NaN: y_true has no positive sample"):
        nothing = uncertainty.interval(np.zeros(40, int), S[:, 1], "average_precision")
    assert np.isnan(nothing[:4]).all()
    bad = S[:, 1].copy()
    bad[3] = np.nan
    with pytest.warns(cmfast.FailureWarning, match="y_score"):
        found = uncertainty.interval(y, bad, "average_precision")
    assert np.isnan(found[:4]).all()
    with pytest.warns(cmfast.DiagnosticWarning, match="standard error is 0"):
        uncertainty.interval(y, y.astype(float), "average_precision")


Y, (SCORES, OTHER) = draw(40, 3, models=2)
TWO = (Y > 1).astype(int)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: uncertainty.interval(Y, SCORES[:, :2], "roc_auc_ovr"), "y_true must be of 2 classes"),
        (lambda: uncertainty.interval(Y, SCORES[:, 0], "roc_auc_ovr"), r"y_score must be of shape \(40, C\)"),
        (lambda: uncertainty.interval(Y, SCORES[:9], "roc_auc_ovr"), r"y_score must be of shape \(40, C\)"),
        (lambda: uncertainty.interval(Y, SCORES, "roc_auc_ovr", pos_label=1), "pos_label must be left out"),
        (lambda: uncertainty.interval(Y, SCORES, "roc_auc_ovr", max_fpr=0.1), "max_fpr must be left out"),
        (lambda: uncertainty.interval(TWO, SCORES[:, 0], "average_precision", max_fpr=0.1), "max_fpr must be left out"),
        (lambda: uncertainty.interval(TWO, SCORES[:, 0], "roc_auc", max_fpr=1.2), "max_fpr must be"),
        (lambda: uncertainty.interval(TWO, SCORES[:, 0], "roc_auc", max_fpr=0), "max_fpr must be"),
        (lambda: uncertainty.interval(TWO, SCORES[:, 0], "roc_auc", clusters=[1, 2]), "clusters must be"),
        (
            lambda: uncertainty.interval(TWO, SCORES[:, 0], ["average_precision", "mcc"]),
            "areas alone if one is an area",
        ),
        (lambda: uncertainty.interval(TWO, TWO, "accuracy", max_fpr=0.1), "max_fpr must be left out"),
        (lambda: uncertainty.compare(TWO, TWO, TWO, "accuracy", max_fpr=0.1), "max_fpr must be left out"),
        (lambda: uncertainty.compare(Y, SCORES, OTHER[:, :2], "roc_auc_ovo"), "y_b must be of shape"),
        (lambda: uncertainty.compare(TWO, SCORES[:, 0], OTHER[:9, 0], "average_precision"), "must have one shape"),
        (lambda: uncertainty.compare(Y, SCORES, OTHER, "roc_auc_ovo", method="bca"), "method must be"),
        (lambda: uncertainty.interval(TWO, TWO, "accuracy", sample_weight=Y), "sample_weight must be left out but"),
        (lambda: uncertainty.compare(TWO, TWO, TWO, "f1", sample_weight=Y), "sample_weight must be left out but"),
        (
            lambda: uncertainty.interval(Y, SCORES, "roc_auc_ovr", sample_weight=[1, 2]),
            "sample_weight must be of shape",
        ),
        (lambda: uncertainty.auc_covariance(Y, SCORES, name="roc_auc_ovr"), r"y_score must be of shape \(K, 40, C\)"),
        (lambda: uncertainty.auc_covariance(TWO, [SCORES], name="average_precision"), "must have one shape"),
        (lambda: uncertainty.auc_covariance(Y, [SCORES], name="auc"), "it is called 'roc_auc'"),
        (lambda: uncertainty.auc_covariance(Y, [SCORES], name="f1"), "name must be one of"),
        (lambda: uncertainty.auc_covariance(Y, [SCORES], name="roc_auc_ovr", max_fpr=0.1), "max_fpr must be left out"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()
