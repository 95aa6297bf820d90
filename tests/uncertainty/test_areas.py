"""Areas under ROC curves with their covariances: published and independent figures, laws, intervals, comparisons."""

import warnings
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits
from optional import torch
from oracle.uncertainty import auc_covariance as compare_all_pairs
from scipy.optimize import brentq
from scipy.stats import rankdata

import cmfast
from cmfast import metrics, uncertainty
from cmfast.kernels.cpu.uncertainty import roc_areas as kernel

LEVEL = NormalDist().inv_cdf(0.975)


def by_ranks(y, scores):
    """Return areas and covariances from midranks of SciPy and the covariance of NumPy."""
    up, down = y == 1, y != 1
    m, n = up.sum(), down.sum()
    of_positives = np.array([(rankdata(s)[up] - rankdata(s[up])) / n for s in scores])
    of_negatives = np.array([1.0 - (rankdata(s)[down] - rankdata(s[down])) / m for s in scores])
    return of_positives.mean(1), np.atleast_2d(np.cov(of_positives) / m + np.cov(of_negatives) / n)


def draw(n, models=3, *, seed=0, share=0.4):
    """Return labels and scores of some models."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(np.int64)
    return y, rng.normal(size=(models, n)) + y + rng.normal(size=n)


def test_ratings_of_hanley_and_mcneil():
    """109 images rated by a radiologist from 1 to 5, table I of 1982, where the area is 0.893."""
    normal, abnormal = [33, 6, 6, 11, 2], [3, 2, 2, 11, 33]
    ratings, y = np.tile(np.arange(1, 6), 2).repeat(normal + abnormal), np.repeat([0, 1], [58, 51])
    found = uncertainty.auc_covariance(y, ratings[np.newaxis])
    auc, covariance, _ = compare_all_pairs(ratings[np.newaxis], y)
    assert round(float(found.auc[0]), 3) == 0.893
    np.testing.assert_allclose(found.auc, auc, rtol=1e-15)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-13)
    both = found.interval(method="normal")
    np.testing.assert_allclose([both.low, both.high], auc + LEVEL * np.sqrt(covariance[0]) * [[-1], [1]], rtol=1e-12)


@pytest.mark.parametrize("kind", ["float64", "float32", "coarse", "close"])
def test_long_rows_agree_with_midranks(kind):
    y, scores = draw(70_000, models=4)  # several blocks of each class
    if kind == "coarse":
        scores = np.round(scores, 1)
    if kind == "close":  # leading digits do not tell the order
        scores = np.round(scores * 2000) * 2.0**-52 + 1.0
        scores[:, 0] = np.inf
    if kind == "float32":
        scores = scores.astype(np.float32)
    found, (auc, covariance) = uncertainty.auc_covariance(y, scores), by_ranks(y, scores)
    np.testing.assert_allclose(found.auc, auc, rtol=1e-13)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-11)
    np.testing.assert_allclose(found.auc, [metrics.roc_auc(y, s) for s in scores], rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_ranks_have_the_same_bits_as_scores(weighted, monkeypatch):
    """Keys of ranks need no dropped digits; those of scores do, and runs are sorted by insertion or by NumPy."""
    slow = []
    sort = kernel._sort_slowly
    monkeypatch.setattr(kernel, "_sort_slowly", lambda *given: slow.append(1) or sort(*given))
    y, scores = draw(5000)
    scores[0] = 1.0 + np.round(scores[0] * 2000) * 2.0**-52
    scores[1] = 1.0 + np.round(scores[1] * 2e6) * 2.0**-52
    scores[:, :2] = np.inf, -np.inf
    ranks = np.array([rankdata(s, method="dense") for s in scores])
    options = {"sample_weight": np.random.default_rng(1).integers(0, 5, 5000) / 4 if weighted else None}
    found = uncertainty.auc_covariance(y, scores, **options)
    assert len(slow) == 1  # of row 0
    for part, other in zip(found, uncertainty.auc_covariance(y, ranks, **options), strict=True):
        assert_same_bits(part, other)
    assert len(slow) == 1


def test_threads_and_neighbours_leave_the_bits():
    rng = np.random.default_rng(3)
    y, scores = rng.integers(0, 2, (6, 30_000)), rng.random((6, 3, 30_000))
    one = uncertainty.auc_covariance(y, scores, num_threads=1)
    for part, other in zip(one, uncertainty.auc_covariance(y, scores, num_threads=4), strict=True):
        assert_same_bits(part, other)
    for k in (0, 5):
        for part, other in zip(one, uncertainty.auc_covariance(y[k], scores[k]), strict=True):
            assert_same_bits(part[k], other)


def test_laws():
    y, scores = draw(300)
    found = uncertainty.auc_covariance(y, scores)
    reversed_ = uncertainty.auc_covariance(y, -scores)
    np.testing.assert_allclose(reversed_.auc, 1.0 - found.auc, rtol=1e-13)
    np.testing.assert_allclose(reversed_.covariance, found.covariance, rtol=1e-11)
    exchanged = uncertainty.auc_covariance(1 - y, -scores)  # either class may be the positive one
    np.testing.assert_allclose(exchanged.auc, found.auc, rtol=1e-13)
    np.testing.assert_allclose(exchanged.covariance, found.covariance, rtol=1e-11)
    assert np.linalg.eigvalsh(found.covariance).min() > 0
    assert_same_bits(found.covariance, found.covariance.T)
    np.testing.assert_allclose(found.standard_error**2, np.diagonal(found.covariance), rtol=1e-15)


def test_weights():
    y, scores = draw(400)
    weight = np.random.default_rng(4).random(400)
    found = uncertainty.auc_covariance(y, scores, sample_weight=weight)
    scaled = uncertainty.auc_covariance(y, scores, sample_weight=1e-9 * weight)
    np.testing.assert_allclose(scaled.covariance, found.covariance, rtol=1e-11)
    np.testing.assert_allclose(
        uncertainty.auc_covariance(y, scores, sample_weight=np.ones(400)).covariance,
        uncertainty.auc_covariance(y, scores).covariance,
        rtol=1e-11,
    )
    kept = weight > 0.5
    without = uncertainty.auc_covariance(y, scores, sample_weight=np.where(kept, weight, 0.0))
    np.testing.assert_allclose(
        without.covariance,
        uncertainty.auc_covariance(y[kept], scores[:, kept], sample_weight=weight[kept]).covariance,
        rtol=1e-11,
    )


def test_intervals():
    y, scores = draw(200)
    found = uncertainty.auc_covariance(y, scores)
    for k, row in enumerate(scores):
        one = uncertainty.interval(y, row, "roc_auc", confidence_level=0.9)
        for part, other in zip(one, found.interval(confidence_level=0.9), strict=True):
            assert_same_bits(part, other[k])
        auc, error = found.auc[k], found.standard_error[k]
        logit = uncertainty.interval(y, row, "roc_auc", confidence_level=0.9, method="logit")
        assert logit == one
        assert_same_bits(logit.low, found.interval(confidence_level=0.9, method="logit").low[k])
        reach = NormalDist().inv_cdf(0.95) * error / (auc * (1 - auc))
        ends = 1 / (1 + (1 - auc) / auc * np.exp([reach, -reach]))
        np.testing.assert_allclose([logit.low, logit.high], ends, rtol=1e-13)
        normal = uncertainty.interval(y, row, "roc_auc", method="normal")
        np.testing.assert_allclose([normal.low, normal.high], auc + LEVEL * error * np.array([-1, 1]), rtol=1e-13)
    text = uncertainty.interval(np.where(y, "ill", "well"), scores[0], "roc_auc", pos_label="ill")
    assert_same_bits(text.estimate, found.auc[0])
    rows = uncertainty.interval(np.tile(y, (3, 1)), scores, "roc_auc")  # a batch
    assert_same_bits(rows.low, found.interval().low)
    tensors = uncertainty.interval(torch.from_numpy(y), torch.from_numpy(scores[0]), "roc_auc")
    assert_same_bits(tensors.low.numpy(), np.asarray(rows.low[0]))


@pytest.mark.parametrize(
    ("y", "scores"), [([1, 1, 0, 0], [4, 3, 2, 1]), ([1, 0, 1, 0], [4, 3, 4, 3]), ([0, 0, 1, 1], [4, 3, 2, 1])]
)
def test_intervals_without_width_warn(y, scores):
    for method in ("logit", "normal"):
        with pytest.warns(cmfast.DiagnosticWarning, match=r"^uncertainty\.interval: a standard error is 0"):
            found = uncertainty.interval(y, scores, "roc_auc", method=method)
        assert found.low == found.estimate == found.high
    with pytest.warns(cmfast.DiagnosticWarning, match=r"^AucCovariance\.interval: a standard error is 0.*newcombe"):
        uncertainty.auc_covariance(y, [scores]).interval(method="logit")
    uncertainty.interval(y, scores, "roc_auc", method="logit", on_failure="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = uncertainty.interval(y, scores, "roc_auc")
        assert found.high - found.low > 0.3
        assert found.explain().endswith(" by newcombe")
        assert uncertainty.auc_covariance(y, [scores]).interval().low[0] == found.low


def find_newcombe_ends(area, variance, m, n, level=0.95):
    """Return both ends of Newcombe's interval, by a root finder of SciPy from the published formula."""
    z, mean = NormalDist().inv_cdf(0.5 + level / 2), (m + n) / 2 - 1

    def spread(x):
        return x * (1 - x) / (m * n) * (1 + mean * (1 - x) / (2 - x) + mean * x / (1 + x))

    factor = max(variance / spread(area), 1.0) if spread(area) > 0 else 1.0

    def miss(x):
        return (x - area) / np.sqrt(spread(x) * factor)

    tiny = 1e-12
    low = 0.0 if area == 0 else brentq(lambda x: miss(x) + z, tiny, area - tiny, xtol=1e-14)
    high = 1.0 if area == 1 else brentq(lambda x: miss(x) - z, area + tiny, 1 - tiny, xtol=1e-14)
    return low, high


@pytest.mark.parametrize("sizes", [(3, 3), (5, 200), (40, 30), (200, 4)])
@pytest.mark.parametrize("apart", [0.2, 1.5, 40.0])
@pytest.mark.parametrize("level", [0.8, 0.99])
def test_newcombe(sizes, apart, level):
    rng = np.random.default_rng(sizes)
    y = np.repeat([1, 0], sizes)
    scores = rng.normal(size=(5, len(y))) * np.where(y, 2.0, 1.0) + apart * y
    found = uncertainty.interval(np.tile(y, (5, 1)), scores, "roc_auc", method="newcombe", confidence_level=level)
    areas, covariance = by_ranks(y, scores)
    np.testing.assert_allclose(found.estimate, areas, rtol=1e-13)
    want = [find_newcombe_ends(a, v, *sizes, level) for a, v in zip(areas, np.diag(covariance), strict=True)]
    np.testing.assert_allclose(np.transpose([found.low, found.high]), want, rtol=1e-9, atol=1e-11)
    if apart == 40.0:
        assert (found.low < 1.0).all()
        assert (found.high == 1.0).all()
    turned = uncertainty.interval(np.tile(y, (5, 1)), -scores, "roc_auc", method="newcombe", confidence_level=level)
    np.testing.assert_allclose([turned.low, turned.high], 1 - np.array([found.high, found.low]), atol=1e-12)


def test_the_default_fits_the_classes():
    """Newcombe's for fewer than eight samples of a class, with weights twenty, or hardly any ranked wrongly."""
    rng = np.random.default_rng(5)
    y = np.repeat([1, 0], [40, 60])
    few = np.repeat([1, 0], [7, 93])
    labels = np.stack([y, few, y, y])
    scores = rng.normal(size=(4, 100)) + labels * np.array([1.0, 1.0, 3.0, 1.0])[:, np.newaxis]
    scores[2] = np.where(y, 9.0, scores[2] - 9.0)
    found = uncertainty.interval(labels, scores, "roc_auc")
    both = uncertainty.auc_covariance(labels, scores[:, np.newaxis]).interval()
    assert found.explain() == "roc_auc: 4 intervals, 95 % by newcombe and logit"
    for k, method in enumerate(("logit", "newcombe", "newcombe", "logit")):
        alone = uncertainty.interval(labels[k], scores[k], "roc_auc")
        chosen = uncertainty.interval(labels[k], scores[k], "roc_auc", method=method)
        assert alone.explain().endswith(f" by {method}")
        for part in ("low", "high"):
            assert_same_bits(getattr(alone, part), getattr(chosen, part))
            assert_same_bits(np.asarray(getattr(found, part)[k]), np.asarray(getattr(alone, part)))
            assert_same_bits(getattr(both, part)[k, 0], getattr(found, part)[k])
    weight = np.where(np.arange(100) % 3, 1.0, 12.0)  # effective sizes of 18 and 27
    uneven = uncertainty.interval(y, scores[0], "roc_auc", sample_weight=weight)
    assert uneven.explain().endswith(" by newcombe")
    tensors = uncertainty.interval(torch.from_numpy(labels), torch.from_numpy(scores), "roc_auc")
    assert_same_bits(tensors.low.numpy(), found.low)


def test_newcombe_takes_the_effective_sizes_of_weights():
    y, (scores, *_) = draw(60)
    weight = np.random.default_rng(2).lognormal(size=60)
    sizes = [weight[y == k].sum() ** 2 / (weight[y == k] ** 2).sum() for k in (1, 0)]
    found = uncertainty.interval(y, scores, "roc_auc", method="newcombe", sample_weight=weight, on_failure="ignore")
    want = find_newcombe_ends(found.estimate, found.standard_error**2, *sizes)
    np.testing.assert_allclose([found.low, found.high], want, rtol=1e-9)
    plain = uncertainty.interval(y, scores, "roc_auc", method="newcombe")
    even = uncertainty.interval(y, scores, "roc_auc", method="newcombe", sample_weight=np.full(60, 3.0))
    np.testing.assert_allclose(even[:4], plain[:4], rtol=1e-12)
    tensors = uncertainty.interval(torch.from_numpy(y), torch.from_numpy(scores), "roc_auc", method="newcombe")
    assert isinstance(tensors.low, torch.Tensor)
    assert_same_bits(tensors.low.numpy(), np.asarray(plain.low))
    lonely = uncertainty.interval([1, 1, 0], [1, 3, 2], "roc_auc", method="newcombe", on_failure="ignore")
    assert np.isnan(lonely.low)


# positive samples, negative samples, standard deviation of the positive ones, area
SMALL = [
    (5, 5, 1, 0.95),
    (5, 500, 2, 0.95),
    (10, 500, 1, 0.95),
    (10, 500, 2, 0.75),
    (20, 500, 2, 0.95),
    (20, 20, 1, 0.6),
]


@pytest.mark.parametrize(("m", "n", "spread", "area"), SMALL)
def test_newcombe_covers_with_small_classes_and_logit_warns_where_it_does_not(m, n, spread, area):
    y = np.repeat([1, 0], [m, n])
    scale = np.where(y, spread, 1.0)
    middle = y * np.hypot(1.0, spread) * NormalDist().inv_cdf(area)
    scores = np.random.default_rng(7).normal(size=(3000, len(y))) * scale + middle
    labels = np.tile(y, (3000, 1))

    def find_coverage(method):
        found = uncertainty.interval(labels, scores, "roc_auc", method=method, on_failure="ignore")
        return found.estimate, (found.low <= area) & (area <= found.high)

    assert find_coverage("newcombe")[1].mean() > 0.9
    assert find_coverage(None)[1].mean() > 0.89
    estimate, held = find_coverage("logit")
    silent = min(m, n) * np.minimum(estimate, 1 - estimate) >= 1.0
    assert held.mean() > 0.9 or silent.mean() < 0.75
    for k in (np.flatnonzero(silent)[:3], np.flatnonzero(~silent & (estimate < 1))[:3]):
        for row in k:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                uncertainty.interval(y, scores[row], "roc_auc", method="logit")
            said = ["too few are ranked wrongly, and the interval is too narrow" in str(one.message) for one in caught]
            assert said == [] if silent[row] else said == [True]


def test_small_classes_are_named_with_their_problem():
    y, scores = [[1, 1, 0, 0, 0, 0]] * 3, [[9, 3, 1, 2, 4, 5], [4, 6, 1, 2, 3, 5], [9, 8, 1, 2, 4, 5]]
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        uncertainty.interval(y, scores, "roc_auc", method="normal")
    texts = [str(one.message) for one in caught]
    assert texts[0].endswith('has no width and is too narrow; use method="newcombe"')
    assert "areas of 2 of 3 problems, first 0.75 with 2 samples in the smaller class: too few" in texts[1]
    uncertainty.interval(y, scores, "roc_auc", method="normal", on_failure="ignore")
    covariances = uncertainty.auc_covariance(y, np.array(scores)[:, np.newaxis])
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        covariances.interval(method="logit")
    assert "areas of 2 of 3 problems, first 0.75 with 2 samples" in str(caught[1].message)
    uncertainty.interval(y, scores, "roc_auc")
    covariances.interval()


NAMES = ["roc_auc", "average_precision"]


def test_several_areas():
    y, scores = draw(250)
    weight = np.arange(250) + 100.0
    found = uncertainty.interval(y, scores[0], NAMES, sample_weight=weight, confidence_level=0.9)
    assert list(found) == NAMES
    assert (found.method, found.confidence_level, found.n_resamples) == ("logit", 0.9, 0)
    assert found["roc_auc"].explain().endswith(" by logit")
    assert found["average_precision"].explain().endswith(" by logit")
    assert uncertainty.interval(y, scores[0], NAMES, method="normal").method == "normal"
    few = uncertainty.interval(y[:12], scores[0, :12], NAMES, on_failure="ignore")
    assert few.method == "newcombe and logit"
    assert uncertainty.interval(y, scores[0], NAMES, clusters=np.arange(250) // 2).method == "logit"
    pair = uncertainty.compare(y, scores[0], scores[1], NAMES, sample_weight=weight)
    for name in NAMES:
        one = uncertainty.interval(y, scores[0], name, sample_weight=weight, confidence_level=0.9)
        assert found[name] == one
        two = uncertainty.compare(y, scores[0], scores[1], name, sample_weight=weight)
        assert_same_bits(pair[name].p_value, two.p_value)
        assert pair[name].name == name
    named = uncertainty.interval(y_true=y, y_score=scores[0], names=tuple(NAMES))
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"ill": y, "new": scores[0], "old": scores[1]})
    column = uncertainty.interval(table, NAMES, y_true="ill", y_score="new")
    assert column["average_precision"] == named["average_precision"]
    both = uncertainty.compare(table, NAMES, y_true="ill", y_a="new", y_b="old")
    assert_same_bits(both["roc_auc"].p_value, uncertainty.compare(y, scores[0], scores[1], "roc_auc").p_value)
    da = pytest.importorskip("dask.array")
    later = uncertainty.interval(da.from_array(y), da.from_array(scores[0]), NAMES)
    assert later.compute()["roc_auc"] == named["roc_auc"]


AREAS_OF = {
    "interval": lambda y, s, **o: uncertainty.interval(y, s, "roc_auc", **o),
    "covariance": lambda y, s, **o: uncertainty.auc_covariance(y, np.expand_dims(s, -2), **o),
    "comparison": lambda y, s, **o: uncertainty.compare(y, s, np.square(s), "roc_auc", **o),
    "clusters": lambda y, s, **o: uncertainty.interval(
        y, s, "roc_auc", clusters=np.broadcast_to(np.arange(np.shape(s)[-1]), np.shape(s)), **o
    ),
    "precision": lambda y, s, **o: uncertainty.interval(y, s, "average_precision", **o),
}


@pytest.mark.filterwarnings("ignore:.*the smaller class has")
@pytest.mark.parametrize("kind", AREAS_OF)
def test_undefined_areas_are_nan_and_the_cause_is_named(kind):
    call, scores = AREAS_OF[kind], np.linspace(0.1, 0.9, 14)[[3, 1, 2, 0, *range(4, 14)]]
    none, one = np.zeros(14, int), np.arange(14) == 2
    with pytest.warns(
        cmfast.DiagnosticWarning, match="areas are NaN: y_true has no positive sample, and they need a sam"
    ):
        found = call(none, scores)
    assert np.isnan(found[1 if kind == "comparison" else 0]).all()
    if kind != "clusters":  # whose covariance needs two clusters, not two samples of a class
        said = (
            "standard errors and intervals are NaN: y_true has one positive sample, and they need two samples of each"
        )
        with pytest.warns(cmfast.DiagnosticWarning, match=said):
            found = call(one, scores)
        assert np.isfinite(found[1 if kind == "comparison" else 0]).all()
        if kind != "precision":
            with pytest.warns(cmfast.DiagnosticWarning, match="y_true has one negative sample, and they need two"):
                call(~one, scores)
    said = "areas are NaN: sample_weight is 0 for all samples, and they need"
    with pytest.warns(cmfast.DiagnosticWarning, match=said):
        call(np.arange(14) % 2, scores, sample_weight=np.zeros(14))
    with pytest.warns(cmfast.DiagnosticWarning, match="NaN: y_true has no positive sample with a weight above 0, and"):
        call(np.arange(14) % 2, scores, sample_weight=(np.arange(14) % 2 == 0) * 1.0)
    batch = np.stack([np.arange(14) % 2, none, none])
    with pytest.warns(
        cmfast.DiagnosticWarning, match="areas are NaN in 2 of 3 problems: y_true has no positive sample"
    ):
        call(batch, np.stack([scores] * 3))
    if kind not in ("comparison", "clusters"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(none, scores, on_failure="ignore")


def test_areas_over_classes_name_a_class_without_samples():
    scores = np.random.default_rng(0).normal(size=(30, 3))
    weight = np.where(np.arange(30) % 3 == 1, 0.0, 1.0)
    with pytest.warns(
        cmfast.DiagnosticWarning, match="NaN: a class has no sample with a weight above 0, and they need a"
    ):
        found = uncertainty.interval(np.arange(30) % 3, scores, "roc_auc_ovr", sample_weight=weight)
    assert np.isnan(found.estimate)
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        found = uncertainty.interval(np.minimum(np.arange(30), 2), scores, "roc_auc_ovo")
    assert any("are NaN: a class has one sample, and they need two" in str(each.message) for each in caught)
    assert np.isnan(found.low)
    assert np.isfinite(found.estimate)


@pytest.mark.parametrize(
    ("m", "n", "area", "logit", "normal"),
    [
        (20, 20, 0.83, 0.955, 0.913),
        (50, 50, 0.95, 0.948, 0.904),
        (20, 20, 0.95, 0.941, 0.835),
        (10, 500, 0.9, 0.873, 0.824),
        (20, 20, 0.99, 0.684, 0.600),
    ],
)
def test_coverage_on_the_page(m, n, area, logit, normal):
    """The table of docs/uncertainty.md, from fewer draws."""
    y = np.tile(np.repeat([1, 0], [m, n]), (3000, 1))
    scores = np.random.default_rng(6).normal(size=y.shape) + y * np.sqrt(2) * NormalDist().inv_cdf(area)
    found = uncertainty.auc_covariance(y, scores[:, np.newaxis], on_failure="ignore")
    for method, coverage in (("logit", logit), ("normal", normal)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            ends = found.interval(method=method)
        covered = ((ends.low <= area) & (area <= ends.high)).mean()
        assert abs(covered - coverage) < 4 * np.sqrt(coverage * (1 - coverage) * (1 / 3000 + 1 / 20_000))


def test_comparisons():
    y, scores = draw(250)
    found = uncertainty.compare(y, scores[0], scores[1], "roc_auc")
    auc, covariance = by_ranks(y, scores[:2])
    error = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    difference = auc[0] - auc[1]
    np.testing.assert_allclose([found.first, found.second], auc, rtol=1e-13)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-11)
    np.testing.assert_allclose([found.low, found.high], difference + LEVEL * error * np.array([-1, 1]), rtol=1e-9)
    np.testing.assert_allclose(found.p_value, 2 * NormalDist().cdf(-abs(difference) / error), rtol=1e-9)
    assert (found.name, found.method, found.test) == ("roc_auc", "delta", "interval")
    turned = uncertainty.compare(y, scores[1], scores[0], "roc_auc")
    assert_same_bits(turned.difference, -found.difference)
    assert_same_bits(turned.p_value, found.p_value)
    same = uncertainty.compare(y, scores[0], np.exp(scores[0]), "roc_auc")
    assert (same.difference, same.standard_error, same.p_value, same.n_discordant) == (0, 0, 1, 0)
    text = uncertainty.compare(np.where(y, "ill", "well"), *scores[:2], "roc_auc", pos_label="ill")
    assert_same_bits(text.p_value, found.p_value)


Y, S = [1, 0, 1, 0], [0.5, 0.25, 0.75, 0.5]
REFUSED = {
    "without scores": (lambda: uncertainty.interval([[3, 1], [1, 3]], "roc_auc"), "needs labels and scores, 2 arrays"),
    "in a list": (
        lambda: uncertainty.interval(Y, S, ["roc_auc", "mcc"]),
        "areas alone if one is an area, .* got 'mcc'",
    ),
    "elsewhere": (lambda: uncertainty.interval(Y, S, ["roc_auc", "AP"]), "'AP'; it is called 'average_precision'"),
    "two models in a list": (lambda: uncertainty.compare(Y, S, ["roc_auc"]), "needs labels and scores, 3 arrays"),
    "newcombe of clusters": (
        lambda: uncertainty.interval(Y, S, "roc_auc", method="newcombe", clusters=Y),
        "method must be logit or normal with clusters, got newcombe",
    ),
    "newcombe of a part": (
        lambda: uncertainty.interval(Y, S, "roc_auc", method="newcombe", max_fpr=0.5),
        "method must be logit or normal with max_fpr, got newcombe",
    ),
    "newcombe of other areas": (
        lambda: uncertainty.interval(Y, S, "average_precision", method="newcombe"),
        "method must be logit or normal with 'average_precision', got newcombe",
    ),
    "newcombe of covariances": (
        lambda: uncertainty.auc_covariance(Y, [S], name="average_precision").interval(method="newcombe"),
        'method must be logit or normal unless for "roc_auc" of two classes, without clusters, max_fpr and Dask arrays',
    ),
    "bootstrap": (
        lambda: uncertainty.interval(Y, S, "roc_auc", method="bca"),
        "'logit', 'normal', 'newcombe', got 'bca'",
    ),
    "scheme": (lambda: uncertainty.interval(Y, S, "roc_auc", scheme="rows"), "scheme must be left out with 'roc_auc'"),
    "counts": (lambda: uncertainty.interval(Y, Y, "accuracy", method="logit"), "method must be one of"),
    "of one": (lambda: uncertainty.compare(Y, S, "roc_auc"), "needs labels and scores, 3 arrays"),
    "permutation": (lambda: uncertainty.compare(Y, S, S, "roc_auc", test="permutation"), "test must be 'interval'"),
    "other batch": (lambda: uncertainty.compare([Y], [S], [S] * 2, "roc_auc"), r"y_true: \(1, 4\), y_b: \(2, 4\)"),
    "no models": (lambda: uncertainty.auc_covariance(Y, S), r"y_score must be of shape \(..., K, n\)"),
    "columns are models": (
        lambda: uncertainty.auc_covariance(Y, [[0.5, 0.25]] * 4),
        r"of shape \(K, 4\), a row for each model, got shape \(4, 2\); transpose it",
    ),
    "weights": (lambda: uncertainty.interval(Y, Y, "mcc", sample_weight=np.ones(4)), r"got ndarray of shape \(4,\)$"),
    "table without columns": (
        lambda: uncertainty.compare(pd.DataFrame({"y": Y, "a": S, "b": S}), "roc_auc"),
        r"must be the name of a column, .* as in \w+\.compare\(table, .roc_auc., y_true=\.+, y_a=\.+, y_b=\.+\)",
    ),
    "list of a table without columns": (
        lambda: uncertainty.interval(pd.DataFrame({"y": Y, "a": S}), ["roc_auc"]),
        r"as in uncertainty\.interval\(table, 'roc_auc', y_true=\.\.\., y_score=\.\.\.\)",
    ),
    "table without one column": (
        lambda: uncertainty.compare(pd.DataFrame({"y": Y, "a": S}), "roc_auc", y_true="y", y_a="a"),
        "y_b must be the name of a column, got nothing",
    ),
    "other shape": (
        lambda: uncertainty.auc_covariance(Y[:3], [S]),
        r"y_true: \(3,\), y_score without its models: \(4,\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, said = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=said):
        call()


def test_too_many_samples(monkeypatch):
    monkeypatch.setattr(kernel, "MOST_SCORES", 3)
    with pytest.raises(OverflowError, match=r"^uncertainty\.auc_covariance: y_score has 4 samples, and at most 3 fit"):
        uncertainty.auc_covariance(Y, [S])


def test_bad_values_are_named():
    for given, said in (
        ({"y_score": [[0.5, np.nan, 0.75, 0.5]]}, r"NaN value at y_score\[0, 1\]"),
        ({"y_true": [1, 2, 1, 0]}, r"label 2 at y_true\[1\] is not 0, 1 or -1"),
        ({"sample_weight": [1, 1, -2, 1]}, r"negative value at sample_weight\[2\]"),
        ({"sample_weight": [1, 1, np.inf, 1]}, r"infinite value at sample_weight\[2\]"),
        ({"sample_weight": [1e308] * 4}, "its weights add up to more than fits"),
    ):
        with pytest.raises(cmfast.FailureError, match=f"INVALID; {said}"):
            uncertainty.auc_covariance(**{"y_true": Y, "y_score": [S], "on_failure": "raise"} | given)


def test_bad_scores_without_models_are_named_by_their_own_index():
    scores = np.array([S, S], np.float64)
    scores[1, 2] = np.nan
    with pytest.raises(cmfast.FailureError, match=r"NaN value at y_score\[2\]$"):
        uncertainty.interval(Y, scores[1], "roc_auc", on_failure="raise")
    with pytest.raises(cmfast.FailureError, match=r"NaN value at y_score\[1, 2\]$"):
        uncertainty.interval([Y, Y], scores, "roc_auc", on_failure="raise")


TABLE_RNG = np.random.default_rng(12)
ILL = TABLE_RNG.integers(0, 2, 120)
NEW, OLD = (ILL + TABLE_RNG.normal(size=120) for _ in range(2))
UNITS = {"sample_weight": TABLE_RNG.uniform(1, 2, 120), "clusters": np.arange(120) % 30}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
@pytest.mark.parametrize("of", [(), ("sample_weight",), ("sample_weight", "clusters")])
def test_columns_of_a_table_are_rows_of_scores(kind, name, of):
    table = pytest.importorskip(kind).DataFrame({"y": ILL, "a": NEW, "b": OLD, **UNITS})
    units = {unit: UNITS[unit] for unit in of}
    want = uncertainty.auc_covariance(ILL, [NEW, OLD], name=name, **units)
    names = {unit: unit for unit in of}
    calls = [
        uncertainty.auc_covariance(table, y_true="y", y_score=["a", "b"], name=name, **names),
        uncertainty.auc_covariance(table, "y", ["a", "b"], name=name, **names),
        uncertainty.auc_covariance(table, y_true="y", y_score={"a": "a", "b": "b"}, name=name, **names),
        uncertainty.auc_covariance(ILL, {"a": NEW, "b": OLD}, name=name, **units),
    ]
    for found in calls:
        for one, other in zip(found, want, strict=True):
            np.testing.assert_array_equal(one, other)
        assert found.to_pandas()["model"].tolist() == ["a", "b"]
        assert found.interval().to_pandas()["model"].tolist() == ["a", "b"]
        metric = "" if name == "roc_auc" else f"metric {name}, "
        assert repr(found).startswith(f"<AucCovariance: {metric}of a, b, auc 0.")
    assert want.to_pandas()["model"].tolist() == [0, 1]


def test_one_column_is_one_model():
    table = pd.DataFrame({"y": ILL, "a": NEW})
    for found in (
        uncertainty.auc_covariance(table, "y", "a"),
        uncertainty.auc_covariance(table, y_true="y", y_score="a"),
    ):
        assert found.auc.shape == (1,)
        assert found.auc[0] == uncertainty.auc_covariance(ILL, [NEW]).auc[0]


def test_models_by_name_with_scores_per_class():
    kind = TABLE_RNG.integers(0, 3, 120)
    P, Q = (TABLE_RNG.normal(size=(120, 3)) + np.eye(3)[kind] for _ in "PQ")
    found = uncertainty.auc_covariance(kind, {"P": P, "Q": Q}, name="roc_auc_ovr")
    want = uncertainty.auc_covariance(kind, np.stack([P, Q]), name="roc_auc_ovr")
    np.testing.assert_array_equal(found.covariance, want.covariance)


@pytest.mark.parametrize("options", [{}, {"clusters": np.arange(120) // 4}])
def test_the_model_of_a_bad_score_is_named(options):
    bad = NEW.copy()
    bad[5] = np.nan
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at y_score\['old'\]\[5\]$"):
        uncertainty.auc_covariance(ILL, {"new": NEW, "old": bad}, **options)
    several = {name: [one] * 2 for name, one in options.items()}
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at y_score\['old'\]\[1, 5\]$"):
        uncertainty.auc_covariance([ILL] * 2, {"new": [NEW] * 2, "old": [NEW, bad]}, **several)
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at y_score\[1, 5\]$"):
        uncertainty.auc_covariance(ILL, [NEW, bad], **options)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda t: uncertainty.auc_covariance(t, y_true="y", y_score=["a", "bb"]),
            "must be one of the columns y, a",
        ),
        (lambda t: uncertainty.auc_covariance(t, y_true="y"), "y_score must be the name of a column, got nothing"),
        (uncertainty.auc_covariance, "a table needs y_true= and y_score=, the names of its columns"),
        (lambda t: uncertainty.auc_covariance(t["y"], {}), "y_score must be an array, got dict without models"),
        (
            lambda t: uncertainty.auc_covariance(t["y"], {"a": t["a"], "b": t["a"][:5]}),
            r"arrays must have one shape, got y_score\['a'\]: \(120,\), y_score\['b'\]: \(5,\)",
        ),
        (
            lambda t: uncertainty.auc_covariance(t, y_true="y", y_score=["a"], name="roc_auc_ovr"),
            r"y_score must be of shape \(..., n, C\) for each model, got shape \(120,\)",
        ),
    ],
    ids=range(6),
)
def test_messages_of_models_name_the_columns(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call(pd.DataFrame({"y": ILL, "a": NEW}))


def test_areas_of_models_know_their_name_and_their_models():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 30)
    scores = {"new": y + rng.normal(size=60), "old": y + 3.0 * rng.normal(size=60)}
    found = uncertainty.auc_covariance(y, scores, name="average_precision")
    low, high = sorted(found.auc)
    best = ("new", "old")[int(found.auc.argmax())]
    assert found.explain().startswith(f"2 models, average_precision from {low:.4g} to {high:.4g}: lowest of ")
    assert found.explain().endswith(f", highest of {best}")
    assert repr(found).startswith("<AucCovariance: metric average_precision, of new, old, auc ")
    assert found.plot().get_xlabel() == "average_precision, 95 % intervals"
    assert uncertainty.auc_covariance(y, scores).plot().get_xlabel() == "area under the ROC curve, 95 % intervals"


@pytest.mark.parametrize("sizes", [(4, 30), (12, 12), (9, 200)])
@pytest.mark.parametrize("apart", [(1.0, 0.5), (2.5, 1.0), (0.5, 2.0)])
def test_pairs_by_newcombe(sizes, apart):
    """Both intervals by a root finder of SciPy, combined with the correlation of the areas; p by another."""
    rng, y = np.random.default_rng(sizes), np.repeat([1, 0], sizes)
    a, b = (rng.normal(size=len(y)) + shift * y for shift in apart)
    b += 0.7 * a
    found = uncertainty.compare(y, a, b, "roc_auc", method="newcombe")
    areas, covariance = by_ranks(y, np.stack([a, b]))
    scale = np.sqrt(covariance[0, 0] * covariance[1, 1])
    r = covariance[0, 1] / scale if scale > 0 else 0.0

    def find_ends(level):
        (p, low, high), (q, below, above) = (
            (x, *find_newcombe_ends(x, v, *sizes, level)) for x, v in zip(areas, np.diag(covariance), strict=True)
        )
        reach = [np.sqrt(x * x + y * y - 2 * r * x * y) for x, y in ((p - low, above - q), (high - p, q - below))]
        return p - q - reach[0], p - q + reach[1]

    np.testing.assert_allclose([found.low, found.high], find_ends(0.95), rtol=1e-7, atol=1e-9)
    assert (found.name, found.method, found.test) == ("roc_auc", "newcombe", "interval")
    side = 0 if found.difference > 0 else 1
    z = brentq(lambda z: find_ends(2 * NormalDist().cdf(z) - 1)[side], 1e-3, 5.0)
    np.testing.assert_allclose(found.p_value, 2 * NormalDist().cdf(-z), rtol=1e-6)
    np.testing.assert_allclose(found.probability, NormalDist().cdf(z if found.difference > 0 else -z), rtol=1e-6)
    turned = uncertainty.compare(y, b, a, "roc_auc", method="newcombe")
    np.testing.assert_allclose([turned.low, turned.high, turned.p_value], [-found.high, -found.low, found.p_value])
    rows = uncertainty.compare(np.stack([y, y]), np.stack([a, b]), np.stack([b, a]), "roc_auc", method="newcombe")
    np.testing.assert_allclose(rows.low, [found.low, turned.low])
    with pytest.warns(cmfast.DiagnosticWarning, match="areas are NaN: y_true has no negative sample"):
        undefined = uncertainty.compare([1, 1], [1, 2], [2, 1], "roc_auc", method="newcombe")
    assert np.isnan([undefined.low, undefined.p_value, undefined.probability]).all()


def test_pairs_of_small_classes_are_warned_of():
    rng = np.random.default_rng(3)
    for m, apart, warns in ((5, 0.5, True), (12, 0.5, False), (12, 4.0, True), (30, 4.0, False)):
        y = np.repeat([1, 0], [m, 60])
        a, b = (rng.normal(size=len(y)) + shift * y for shift in (apart, 0.5))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            uncertainty.compare(y, a, b, "roc_auc")
            uncertainty.compare(y, a, b, "roc_auc", method="newcombe")
        said = f"the smaller class has {m} samples: the interval of the difference may be too narrow; use method="
        assert [said in str(one.message) for one in caught] == [True] * warns


def test_pairs_by_newcombe_cover_where_standard_errors_do_not():
    y, rng = np.repeat([1, 0], [5, 200]), np.random.default_rng(4)
    shifts = [np.sqrt(2) * NormalDist().inv_cdf(area) for area in (0.98, 0.85)]
    a, b = (rng.normal(size=(400, 205)) + shift * y for shift in shifts)
    held = {}
    for method in ("delta", "newcombe"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            found = uncertainty.compare(np.tile(y, (400, 1)), a, b, "roc_auc", method=method)
        held[method] = ((found.low <= 0.13) & (found.high >= 0.13)).mean()
    assert held["delta"] < 0.87
    assert held["newcombe"] > 0.92
