"""Clusters and strata of one classifier: against the sandwich, against draws of NumPy, and against what they become."""

import warnings

import numpy as np
import pytest

import cmfast
from cmfast import metrics, uncertainty

rng = np.random.default_rng(41)
PATIENT = np.sort(rng.integers(0, 40, 600))
HARD = rng.random(40) < 0.3  # patients in whom nearly everything is wrong
Y = rng.integers(0, 3, 600)
SAID = np.where(rng.random(600) < np.where(HARD[PATIENT], 0.8, 0.05), (Y + 1) % 3, Y)
PATIENTS = cmfast.confusion_matrix(Y, SAID, groups=PATIENT)
NAMES = ["accuracy", "f1_macro", "mcc", "recall"]


def test_errors_are_those_of_the_sandwich():
    """The accuracy is a mean, whose cluster-robust error (Liang and Zeger 1986) is of the sums of residuals."""
    residuals = np.bincount(PATIENT, (Y == SAID) - np.mean(Y == SAID))
    found = uncertainty.standard_error(PATIENTS, "accuracy", clusters=True)
    np.testing.assert_allclose(found, np.sqrt((residuals**2).sum() * 40 / 39) / 600, rtol=1e-12)
    assert found > 2 * uncertainty.standard_error(PATIENTS.sum(0), "accuracy")


def test_replicates_of_patients_are_those_of_numpy():
    drawn = rng.multinomial(40, np.full(40, 1 / 40), 4000) @ PATIENTS.reshape(40, 9)
    values = metrics.compute(drawn.reshape(4000, 3, 3), NAMES)
    found = uncertainty.interval(PATIENTS, NAMES, clusters=True, method="percentile", n_resamples=4000)
    for name in NAMES:
        np.testing.assert_allclose(found[name].low, np.quantile(values[name], 0.025, axis=0), atol=0.02)
        np.testing.assert_allclose(found[name].high, np.quantile(values[name], 0.975, axis=0), atol=0.02)
        np.testing.assert_allclose(found[name].standard_error, values[name].std(axis=0), rtol=0.1)
        error = uncertainty.standard_error(PATIENTS, name, clusters=True)
        np.testing.assert_allclose(error, found[name].standard_error, rtol=0.15)


def test_strata_that_are_the_classes_are_fixed_rows():
    M = PATIENTS.sum(0)
    rows = M[np.newaxis] * np.eye(3, dtype=int)[:, :, np.newaxis]
    for name in NAMES:
        found = uncertainty.standard_error(rows, name, strata=["a", "b", "c"])
        np.testing.assert_allclose(found, uncertainty.standard_error(M, name, fixed="rows"), rtol=1e-12)
    one = uncertainty.interval(rows, "mcc", strata=[0, 1, 2], n_resamples=4000)
    other = uncertainty.interval(M, "mcc", scheme="rows", n_resamples=4000)
    np.testing.assert_allclose(one[:4], other[:4], atol=0.006)


def test_clusters_of_one_sample_are_samples():
    each = cmfast.confusion_matrix(Y, SAID, groups=np.arange(600))
    found = uncertainty.standard_error(each, NAMES, clusters=True)
    for name, error in uncertainty.standard_error(PATIENTS.sum(0), NAMES).items():
        np.testing.assert_allclose(found[name], error * np.sqrt(600 / 599), rtol=1e-12)


def test_a_copy_of_every_sample_says_nothing_new():
    twice = cmfast.confusion_matrix(np.tile(Y, 2), np.tile(SAID, 2), groups=np.tile(np.arange(600), 2))
    once = cmfast.confusion_matrix(Y, SAID, groups=np.arange(600))
    one, two = (uncertainty.interval(M, "mcc", clusters=True, n_resamples=500) for M in (once, twice))
    np.testing.assert_allclose(one[:4], two[:4], rtol=1e-12)


def test_strata_narrow_what_clusters_scatter():
    """So many easy and so many hard patients, every time."""
    alone = uncertainty.standard_error(PATIENTS, "accuracy", clusters=True)
    apart = uncertainty.standard_error(PATIENTS, "accuracy", clusters=True, strata=HARD)
    assert apart < 0.7 * alone
    drawn = uncertainty.interval(PATIENTS, "accuracy", clusters=True, strata=HARD, n_resamples=4000)
    np.testing.assert_allclose(drawn.standard_error, apart, rtol=0.1)


def test_more_clusters_than_there_are():
    some = uncertainty.standard_error(PATIENTS, "accuracy", clusters=True)
    np.testing.assert_allclose(uncertainty.standard_error(PATIENTS, "accuracy", clusters=True, n=160), some / 2)
    drawn = uncertainty.interval(PATIENTS, "accuracy", clusters=True, n=160, n_resamples=2000)
    np.testing.assert_allclose(drawn.standard_error, some / 2, rtol=0.1)


def test_normal_and_threads():
    found = uncertainty.interval(PATIENTS, NAMES, clusters=True, method="normal")
    assert found.n_resamples == 0
    error = uncertainty.standard_error(PATIENTS, "mcc", clusters=True)
    np.testing.assert_allclose(found["mcc"].high - found["mcc"].estimate, 1.959963984540054 * error, rtol=1e-12)
    one, two = (uncertainty.interval(PATIENTS, "mcc", clusters=True, n_resamples=700, num_threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one.low, two.low)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"clusters": 1}, "clusters must be True or False"),
        ({"strata": [0, 1]}, "strata must be labels of shape"),
        ({"strata": np.arange(40) / 2}, r"strata must be labels of shape \(40,\), got dtype float64"),
        ({"strata": np.full(40, np.inf)}, "strata must be labels of shape"),
        ({"clusters": True, "method": "wilson"}, "with clusters or strata"),
        ({"clusters": True, "scheme": "rows"}, "with clusters or strata"),
        ({"strata": np.zeros(40, int), "n": 9}, "n must be None with strata"),
    ],
)
def test_what_does_not_go_together_is_refused(options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        uncertainty.interval(PATIENTS, "accuracy", **options)


def test_whole_floats_name_strata():
    strata = np.arange(40) % 3
    wanted = uncertainty.standard_error(PATIENTS, "mcc", clusters=True, strata=strata)
    assert uncertainty.standard_error(PATIENTS, "mcc", clusters=True, strata=strata.astype(float)) == wanted


@pytest.mark.exhaustive
def test_few_clusters_are_surer_than_they_can_be():
    draws, repetitions = np.random.default_rng(5), 3000
    for k, low, high in ((2, 0.5, 0.75), (6, 0.8, 0.9), (40, 0.92, 0.96)):
        wrong = draws.binomial(30, draws.beta(2, 8, (repetitions, k)))
        M = np.stack([30 - wrong, wrong, 0 * wrong, 0 * wrong], axis=-1).reshape(repetitions, k, 2, 2)
        found = uncertainty.interval(M, "accuracy", clusters=True, method="normal", on_failure="ignore")
        assert low < np.mean((found.low <= 0.8) & (found.high >= 0.8)) < high, k


@pytest.mark.parametrize(
    "options",
    [
        {"method": "bca"},
        {"method": "normal"},
        {"of": "bi"},
        {"strata": np.arange(40) % 2, "some": 12},
        {"n": 11, "some": 40},
    ],
)
def test_few_clusters_are_warned_of(options):
    some = PATIENTS[: options.pop("some", 11)]
    if "strata" in options:
        options["strata"] = options["strata"][: len(some)]
    names = [] if "of" in options else ["mcc"]
    options |= {"clusters": True, "n_resamples": 200}
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters: intervals are overconfident"):
        uncertainty.interval(some, *names, **options)
    uncertainty.interval(some, *names, **options, on_failure="ignore")  # which is an error where it warns


def test_a_dozen_clusters_are_not_warned_of():
    assert uncertainty.interval(PATIENTS[:12], "mcc", clusters=True, n_resamples=200).low < 1
    assert uncertainty.interval(PATIENTS[:2], "mcc", strata=[0, 1], n_resamples=200).low < 1  # samples are drawn


def test_one_matrix_is_no_batch_of_clusters():
    with pytest.raises(ValueError, match="M must be of shape"):
        uncertainty.standard_error(PATIENTS[0], "accuracy", clusters=True)
    with pytest.raises(ValueError, match="fixed must be total"):
        uncertainty.standard_error(PATIENTS, "accuracy", clusters=True, fixed="rows")
    with pytest.raises(ValueError, match="fixed must be total"):
        uncertainty.standard_error(PATIENTS, of="row", clusters=True, fixed="rows")


@pytest.mark.parametrize("of", ["all", "row", "col", "bi"])
def test_cells_of_normalised_matrices_scatter_as_patients_do(of):
    drawn = rng.multinomial(40, np.full(40, 1 / 40), 4000) @ PATIENTS.reshape(40, 9)
    cells = cmfast.normalize(drawn.reshape(4000, 3, 3), of)
    found = uncertainty.interval(PATIENTS, of=of, clusters=True, n_resamples=4000)
    np.testing.assert_allclose(found.estimate, cmfast.normalize(PATIENTS.sum(0), of), rtol=1e-12)
    np.testing.assert_allclose(found.low, np.quantile(cells, 0.025, axis=0), atol=0.02)
    np.testing.assert_allclose(found.high, np.quantile(cells, 0.975, axis=0), atol=0.02)
    np.testing.assert_allclose(uncertainty.standard_error(PATIENTS, of=of, clusters=True), cells.std(0), rtol=0.15)
    other = uncertainty.interval(PATIENTS, of=of, clusters=True, method="bca", n_resamples=4000)
    np.testing.assert_allclose(other[:3], found[:3], atol=0.06)
    normal = uncertainty.interval(PATIENTS, of=of, clusters=True, method="normal")
    np.testing.assert_allclose(normal.high - normal.estimate, 1.959963984540054 * normal.standard_error, rtol=1e-12)


@pytest.mark.parametrize("of", ["row", "bi"])
def test_cells_of_clusters_of_one_sample_are_those_of_samples(of):
    each, M = cmfast.confusion_matrix(Y, SAID, groups=np.arange(600)), PATIENTS.sum(0)
    error = uncertainty.standard_error(M, of=of) * np.sqrt(600 / 599)
    np.testing.assert_allclose(uncertainty.standard_error(each, of=of, clusters=True), error, rtol=1e-6)
    half = uncertainty.standard_error(each, of=of, clusters=True, n=2400)
    np.testing.assert_allclose(half, error / 2, rtol=1e-6)
    one = uncertainty.interval(each, of=of, clusters=True, method="bca", n_resamples=4000)
    other = uncertainty.interval(M, of=of, method="bca", n_resamples=4000)
    np.testing.assert_allclose(one[:4], other[:4], atol=0.008)


def test_cells_of_strata_that_are_the_classes_are_those_of_fixed_rows():
    M = PATIENTS.sum(0)
    rows = M[np.newaxis] * np.eye(3, dtype=int)[:, :, np.newaxis]
    found = uncertainty.standard_error(rows, of="col", strata=["a", "b", "c"])
    np.testing.assert_allclose(found, uncertainty.standard_error(M, of="col", fixed="rows"), rtol=1e-12)


def test_cells_of_any_number_of_threads_are_the_same():
    stack = np.stack([PATIENTS, PATIENTS[::-1]])
    one, two = (
        uncertainty.interval(stack, of="bi", clusters=True, method="bca", n_resamples=300, num_threads=k)
        for k in (1, 2)
    )
    np.testing.assert_array_equal(one.low, two.low)
    bad = stack.astype(float)
    bad[0, 3, 1, 1] = 0.5
    with pytest.warns(cmfast.FailureWarning, match="1 of 2"):
        some = uncertainty.interval(bad, of="bi", clusters=True, n_resamples=300)
    assert np.isnan(some.low[0]).all()
    np.testing.assert_array_equal(
        some.low[1], uncertainty.interval(stack, of="bi", clusters=True, n_resamples=300).low[1]
    )


@pytest.mark.filterwarnings("ignore:.*fewer than 12 clusters")
@pytest.mark.parametrize("function", [uncertainty.interval, uncertainty.standard_error])
def test_one_cluster_is_warned_of(function):
    y, guess = np.arange(20) % 3, np.arange(20) % 2
    M = np.ones((5, 3, 3), int)
    text = "clusters has one cluster, so nothing varies: standard errors and intervals are undefined or too small$"
    some = "clusters has one cluster in 1 of 2 strata, so nothing varies there: .*; join these strata with others$"
    for call, message in (
        (lambda: function(y, guess, "accuracy", clusters=["a"] * 20), text),
        (lambda: function(M[:1], "accuracy", clusters=True), text),
        (lambda: function(M[:2], "accuracy", clusters=True, strata=["a", "b"]), "one cluster in 2 of 2 strata"),
        (lambda: function(M, "accuracy", clusters=True, strata=list("abbbb")), some),
    ):
        with pytest.warns(cmfast.DiagnosticWarning, match=message) as caught:
            call()
        texts = [str(one.message) for one in caught]
        assert sum("nothing varies" in one for one in texts) == 1
        assert message is some or not any("fewer than 12" in one for one in texts)


def test_one_cluster_of_scores_is_warned_of():
    y, score = np.arange(20) % 2, np.arange(20) % 7 / 7
    for call in (
        lambda: uncertainty.interval(y, score, "roc_auc", clusters=["a"] * 20),
        lambda: uncertainty.auc_covariance(y, [score, 1 - score], clusters=["a"] * 20),
        lambda: uncertainty.compare(y, score, 1 - score, "roc_auc", clusters=["a"] * 20),
    ):
        with pytest.warns(cmfast.DiagnosticWarning, match="clusters has one cluster, so nothing varies") as caught:
            call()
        assert not any("overconfident" in str(one.message) for one in caught)


@pytest.mark.parametrize("method", ["bca", "normal"])
def test_strata_of_one_sample_are_warned_of(method):
    y, said = np.arange(12) % 3, (np.arange(12) // 2) % 3
    text = r"strata has one sample in 12 of 12 strata, so nothing varies: .* undefined or too small; join these strata"
    with pytest.warns(cmfast.DiagnosticWarning, match=rf"^uncertainty.interval: {text} with others$"):
        found = uncertainty.interval(y, said, "accuracy", strata=np.arange(12), method=method, n_resamples=50)
    assert not found.high > found.low
    strata = np.repeat([0, 1, 2], [1, 1, 10])
    text = "strata has one sample in 2 of 3 strata, so nothing varies there: "
    with pytest.warns(cmfast.DiagnosticWarning, match=text):
        uncertainty.interval(y, said, "accuracy", strata=strata, method=method, n_resamples=50)
    M = np.zeros((2, 3, 2, 2), int) + 4
    M[1, 0] = [[1, 0], [0, 0]]
    with pytest.warns(cmfast.DiagnosticWarning, match="one sample in 1 of 3 strata"):
        uncertainty.standard_error(M, "accuracy", strata=[0, 1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uncertainty.standard_error(M[:1], "accuracy", strata=[0, 1, 2])
        uncertainty.interval(M, "accuracy", strata=[0, 1, 2], on_failure="ignore", n_resamples=50)
        uncertainty.standard_error(np.zeros((0, 3, 2, 2), int), "accuracy", strata=[0, 1, 2])
