"""Intervals and posteriors against theory, other libraries and the draws of ``resample``."""

import warnings

import interval_coverage
import numpy as np
import pytest
from scipy import stats

import cmfast
from cmfast import metrics, uncertainty

SURFACE = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])
# From leaving out single samples, by hand.
ACCELERATIONS = {"accuracy": -0.014054567378526131, "f1_macro": -0.013312696255044722, "mcc": -0.013869105663831267}


@pytest.mark.parametrize("scheme", ["multinomial", "rows"])
def test_percentiles_are_those_of_the_replicates_of_resample(scheme):
    names = ["mcc", "recall", "gerrity"]
    drawn = uncertainty.resample(
        SURFACE, n_resamples=999, scheme="row_multinomial" if scheme == "rows" else scheme, rng=5
    )
    found = uncertainty.interval(
        SURFACE, names, method="percentile", scheme=scheme, n_resamples=999, rng=5, confidence_level=0.9
    )
    for name in names:
        values = metrics.compute(drawn, name)
        np.testing.assert_allclose(found[name].low, np.quantile(values, 0.05, axis=0), rtol=1e-13)
        np.testing.assert_allclose(found[name].high, np.quantile(values, 0.95, axis=0), rtol=1e-13)
        np.testing.assert_allclose(found[name].standard_error, values.std(axis=0, ddof=1), rtol=1e-10)
        assert not np.any(found[name].n_undefined)


@pytest.mark.parametrize("many", [True, False])
def test_quantiles_of_replicates_are_those_of_sorted_ones(rng, many):
    """Where the quantiles lie is guessed by a sample, which ties, order and steps mislead."""
    from cmfast.kernels.cpu.uncertainty.intervals import replicate_intervals

    n = 5003 if many else 1003
    steps = np.where(
        np.arange(n) % (n // (256 if many else 64)) == 0, 0.0, rng.random(n) + 5
    )  # what is sampled says nothing
    far = np.where(rng.random(n) < 0.01, 1e300, rng.random(n))
    rows = [rng.normal(size=n), np.arange(n), -np.arange(n), np.ones(n), rng.integers(0, 2, n), steps, far]
    R = np.stack(rows).astype(float)
    for confidence_level in (0.0, 0.1, 0.9, 0.98):
        found = replicate_intervals(R.T[:, :, None], R[:, :1], method="percentile", confidence_level=confidence_level)
        ends = np.quantile(R, [(1 - confidence_level) / 2, (1 + confidence_level) / 2], axis=1)
        np.testing.assert_allclose([found[0][:, 0], found[1][:, 0]], ends, rtol=1e-14)


def test_agrees_with_the_bootstrap_of_scipy():
    labels = np.repeat(np.arange(9), SURFACE.ravel())

    def mcc(sample):
        return float(metrics.mcc(np.bincount(sample.astype(int), minlength=9).reshape(3, 3)))

    for method, name in (("bca", "BCa"), ("percentile", "percentile"), ("basic", "basic")):
        theirs = stats.bootstrap(
            (labels,), mcc, vectorized=False, n_resamples=600, method=name, rng=np.random.default_rng(2)
        )
        ours = uncertainty.interval(SURFACE, "mcc", method=method, n_resamples=20_000)
        ends = theirs.confidence_interval
        np.testing.assert_allclose([ours.low, ours.high], [ends.low, ends.high], atol=0.006)
        np.testing.assert_allclose(ours.standard_error, theirs.standard_error, rtol=0.1)


@pytest.mark.parametrize("name", ACCELERATIONS)
def test_acceleration_is_that_of_leaving_out_samples(name):
    """With all replicates on one side nothing but the acceleration moves the ends."""
    from cmfast.kernels.cpu.uncertainty import intervals
    from cmfast.metrics import _plan

    plan = _plan.make_plan((name,), 3, "present", 1, argument="M").plan
    found = intervals._compute_accelerations(SURFACE[np.newaxis].astype(float), 0, 1, False, plan, None)
    np.testing.assert_allclose(found[0], [ACCELERATIONS[name]], rtol=1e-10)


def test_wilson_ends_are_those_at_which_a_test_would_reject():
    found = uncertainty.interval([[5, 0], [3, 39]], ["recall", "accuracy", "precision", "fdr"], method="wilson")
    for k, n, low, high in (
        (5, 5, found["recall"].low[0], found["recall"].high[0]),
        (39, 42, found["recall"].low[1], found["recall"].high[1]),
        (44, 47, found["accuracy"].low, found["accuracy"].high),
        (3, 8, found["fdr"].low[0], found["fdr"].high[0]),
    ):
        ends = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
        np.testing.assert_allclose([low, high], [ends.low, ends.high], rtol=1e-12)
    np.testing.assert_allclose(found["precision"].low, 1 - found["fdr"].high, rtol=1e-12)


def test_wilson_of_a_class_without_samples_knows_nothing():
    found = uncertainty.interval([[4, 1, 0], [2, 3, 0], [0, 0, 0]], "recall", method="wilson")
    assert (found.low[2], found.high[2]) == (0, 1)


def test_normal_is_the_estimate_and_its_standard_error():
    found = uncertainty.interval(SURFACE, ["mcc", "f1"], method="normal", scheme="rows", confidence_level=0.9)
    for name, error in uncertainty.standard_error(SURFACE, ["mcc", "f1"], fixed="rows").items():
        np.testing.assert_array_equal(found[name].standard_error, error)
        np.testing.assert_allclose(found[name].high - found[name].estimate, 1.6448536269514722 * error, rtol=1e-12)


def test_posterior_of_a_share_is_beta():
    drawn = uncertainty.posterior(SURFACE, ["accuracy", "recall"], n_resamples=20_000, prior="laplace", rng=8)
    accuracy = stats.beta(900 + 3, 100 + 6)
    assert stats.kstest(drawn["accuracy"].draws, accuracy.cdf).pvalue > 1e-3
    assert stats.kstest(drawn["recall"].draws[1], stats.beta(280 + 1, 20 + 2).cdf).pvalue > 1e-3
    np.testing.assert_allclose(drawn["accuracy"].mean, accuracy.mean(), rtol=1e-3)
    np.testing.assert_allclose(drawn["accuracy"].probability(above=0.9), accuracy.sf(0.9), atol=0.02)
    found = uncertainty.interval(SURFACE, "accuracy", method="posterior", prior="laplace", n_resamples=20_000)
    np.testing.assert_allclose([found.low, found.high], accuracy.ppf([0.025, 0.975]), atol=1e-3)


def test_the_usual_prior_is_one_sample_however_many_classes():
    """Half of it right: the accuracy has the prior of Jeffreys."""
    for C in (2, 3, 10):
        M = np.full((C, C), 3) + 9 * np.eye(C, dtype=int)
        n, right = M.sum(), np.trace(M)
        drawn = uncertainty.posterior(M, ["accuracy", "recall"], n_resamples=20_000)
        assert stats.kstest(drawn["accuracy"].draws, stats.beta(right + 0.5, n - right + 0.5).cdf).pvalue > 1e-3
        alpha = M[0, 0] + 0.5 / C, M[0].sum() - M[0, 0] + 0.5 / C
        assert stats.kstest(drawn["recall"].draws[0], stats.beta(*alpha).cdf).pvalue > 1e-3
        evenly = uncertainty.posterior(M, "accuracy", n_resamples=20_000, prior="perks").draws
        assert stats.kstest(evenly, stats.beta(right + 1 / C, n - right + 1 - 1 / C).cdf).pvalue > 1e-3


def test_small_shapes_do_not_underflow():
    drawn = uncertainty.posterior(np.zeros((2, 2), int), "accuracy", prior=1e-4, n_resamples=500)
    assert np.isin(drawn.draws.round(6), [0, 1]).mean() > 0.99


def test_undefined_replicates_are_counted():
    M = np.array([[1, 0], [2, 30]])
    with pytest.warns(cmfast.DiagnosticWarning, match="too few samples"):
        found = uncertainty.interval(M, "recall", undefined="nan", n_resamples=4000)
    expected = 4000 * (32 / 33) ** 33  # no sample of class 0
    assert abs(found.n_undefined[0] - expected) < 200
    assert found.n_undefined[1] == 0
    assert "n_undefined" in repr(found)
    assert "left out" in found.explain()


@pytest.mark.parametrize(
    ("M", "name", "method", "match"),
    [
        (
            [[28, 1], [1, 30]],
            "mcc",
            "bca",
            'intervals of mcc by bca .* fewer than 4 samples .*; use method="posterior"$',
        ),
        ([[28, 2], [2, 28]], "accuracy", "normal", "too few samples"),
        ([[40, 9], [1, 2]], "balanced_accuracy", "percentile", "balanced_accuracy by percentile"),
        ([[40, 9], [1, 2]], ["recall", "precision"], "bca", "recall and 1 other metric by bca"),
        ([[[40, 9], [1, 2]], [[40, 9], [8, 40]]], "recall", "basic", "in 2 of 2 matrices"),
        ([[28, 1], [1, 30]], "accuracy", "bca", 'fewer than 4 samples .*; use method="posterior", or method="wilson"$'),
        (
            [[28, 1], [1, 30]],
            ["mcc", "accuracy"],
            "bca",
            'use method="posterior", or method="wilson" for shares of samples, such as accuracy$',
        ),
        (np.eye(5, dtype=int) * 9, "recall", "posterior", 'use method="wilson"$'),
        (np.eye(5, dtype=int) * 9, "f1_macro", "posterior", "only more samples help$"),
        (
            np.eye(5, dtype=int) * 9,
            ["f1_macro", "recall"],
            "posterior",
            'use method="wilson" for shares of samples, such as recall; for others only more samples help$',
        ),
    ],
)
def test_few_samples_are_warned_of(M, name, method, match):
    with pytest.warns(cmfast.DiagnosticWarning, match=match) as caught:
        uncertainty.interval(M, name, method=method, n_resamples=20)
    assert caught[0].filename == __file__
    uncertainty.interval(M, name, method=method, n_resamples=20, on_failure="ignore")
    text = str(caught[0].message)
    if 'method="wilson"' in text:
        advised = [one for one in np.atleast_1d(name).tolist() if f"such as {one}" in text or "such as" not in text]
        uncertainty.interval(M, advised, method="wilson")  # the advice applies


def test_enough_samples_are_not_warned_of():
    for method in ("bca", "percentile", "basic", "normal", "posterior"):
        uncertainty.interval(SURFACE, method=method, n_resamples=20)
        uncertainty.interval(SURFACE / 1000, ["mcc", "recall"], method=method, n=1000, n_resamples=20)
    uncertainty.interval([[40, 9], [8, 20]], ["accuracy", "mcc"], n_resamples=20)
    uncertainty.interval([[5, 0], [2, 40]], "recall", method="wilson")
    with pytest.warns(cmfast.DiagnosticWarning, match="too few samples"):
        uncertainty.interval(SURFACE, "recall", n=20, n_resamples=20)


@pytest.mark.parametrize("method", ["bca", "percentile", "basic", "normal", "posterior"])
def test_the_smallest_of_equal_recalls_is_warned_of(method):
    """By any method its interval is too low: chance decides which of them is the smallest."""
    equal = np.array([[900, 100, 0], [0, 900, 100], [100, 0, 905]])
    with pytest.warns(cmfast.DiagnosticWarning, match="intervals of min_recall by .* look at recall instead"):
        uncertainty.interval(equal, ["min_recall", "balanced_accuracy"], method=method, n_resamples=200)
    uncertainty.interval(SURFACE, "min_recall", method=method, n_resamples=200)  # one is far below the others


def test_averages_that_few_samples_decide_are_warned_of():
    """By what they weigh: a class of nine samples, one of which is wrong, decides about the mean of two recalls."""
    rare = [[120, 6], [1, 8]]
    for name in ("balanced_accuracy", "specificity_weighted", "peirce"):
        with pytest.warns(cmfast.DiagnosticWarning, match=f"intervals of {name} by bca .* fewer than 4"):
            uncertainty.interval(rare, name, n_resamples=50)
    uncertainty.interval(rare, ["accuracy", "recall_weighted", "f1_of_macro"], n_resamples=50)  # held in 96 %
    with pytest.warns(cmfast.DiagnosticWarning, match="too few samples"):
        uncertainty.interval([[15, 1], [0, 14]], "f1_macro", n_resamples=50)  # of both classes only one is wrong


def test_replicates_that_lie_to_one_side_are_warned_of():
    """What is wrong in a hundred classes enters `tau` as squares, which grow by chance alone."""
    many = 95 * np.eye(100, dtype=int)
    many[range(100), (np.arange(100) + 1) % 100] = 5
    for method in ("percentile", "normal"):
        with pytest.warns(
            cmfast.DiagnosticWarning, match=f"intervals of tau by {method} .* more samples of each class"
        ):
            uncertainty.interval(many, ["tau", "accuracy"], method=method, n_resamples=50)


def test_what_is_no_share_has_no_wilson_interval():
    for name in ("mcc", "f1", "recall_macro", "min_recall", "jaccard_micro", "fpr_micro"):
        with pytest.raises(ValueError, match=f"another method for {name}"):
            uncertainty.interval(SURFACE, name, method="wilson")
    with pytest.raises(ValueError, match="method"):
        uncertainty.interval(SURFACE, "mcc", method="bca", scheme="dirichlet")
    with pytest.raises(ValueError, match="n must be None"):
        uncertainty.interval(SURFACE / 1000, "mcc", scheme="rows", n=1000)


def test_neighbours_and_bad_values():
    stack = np.stack([SURFACE, SURFACE, SURFACE]).astype(float)
    stack[1, 0, 0] = np.nan
    with pytest.warns(cmfast.FailureWarning, match="1 of 3"):
        found = uncertainty.interval(stack, "mcc", n_resamples=50)
    assert np.isnan([found.estimate[1], found.low[1], found.high[1]]).all()
    np.testing.assert_array_equal(found.low[0], uncertainty.interval(SURFACE, "mcc", n_resamples=50).low)


@pytest.mark.parametrize("method", ["bca", "normal", "wilson", "posterior"])
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (SURFACE / 1000, "its cells are fractions; pass n=, the number of samples, or the counts that they came from"),
        (SURFACE - 11.0, r"negative value at M\[1\]\[1, 0\]"),
    ],
)
def test_why_there_is_no_interval(method, other, why):
    stack, options = np.stack([SURFACE, other]), {"method": method, "n_resamples": 50, "on_failure": "warn"}
    with pytest.warns(cmfast.FailureWarning, match=why) as said:
        found = uncertainty.interval(stack, ["accuracy"], **options)["accuracy"]
    assert len(said) == 1  # and nothing of few samples
    assert np.isnan([found.low[1], found.high[1], found.standard_error[1]]).all()
    assert found.low[0] == uncertainty.interval(SURFACE, "accuracy", **options).low
    with pytest.raises(cmfast.FailureError, match=why):
        uncertainty.interval(stack, "accuracy", **{**options, "on_failure": "raise"})


@pytest.mark.parametrize("call", [uncertainty.standard_error, uncertainty.posterior])
def test_why_there_is_nothing_else(call):
    with pytest.warns(cmfast.FailureWarning, match="its cells are fractions; pass n="):
        call(SURFACE / 1000, "mcc")
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at M\[0, 0\]"):
        call([[np.nan, 1], [2, 3]], "mcc")


@pytest.mark.parametrize("of", ["row", "bi"])
@pytest.mark.parametrize("method", ["percentile", "bca", "normal"])
def test_why_there_are_no_cells(of, method):
    stack = np.stack([SURFACE, SURFACE / 1000])
    with pytest.warns(cmfast.FailureWarning, match="its cells are fractions") as said:
        found = uncertainty.interval(stack, of=of, method=method, n_resamples=60)
    assert len(said) == 1
    for part in (found.low, found.high, found.standard_error):
        assert np.isnan(part[1]).all()
        assert np.isfinite(part[0]).all()
    assert (found.n_undefined[1] == (0 if method == "normal" else 60)).all()
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at M\[0, 1\]") as said:
        uncertainty.interval([[5, np.nan], [1, 3]], of=of, method=method, n_resamples=60)
    assert len(said) == 1


def test_cells_without_a_scaling_are_said_once():
    empty = [[5, 1, 0], [2, 6, 0], [0, 0, 0]]
    with pytest.warns(cmfast.FailureWarning, match="row 2 is empty") as said:
        found = uncertainty.interval(empty, of="bi", n_resamples=60)
    assert len(said) == 1
    assert np.isnan(found.low).all()


def test_what_is_wrong_with_options():
    for prior in ("jefreys", "none"):
        with pytest.raises(ValueError, match="prior must be a number, an array, or one of 'unit', 'perks'"):
            uncertainty.interval(SURFACE, "mcc", prior=prior)
    with pytest.raises(TypeError, match=r"rng must be an integer or a Generator of NumPy, got NoneType"):
        uncertainty.interval(SURFACE, "mcc", rng=None)


def test_several_names_show_themselves():
    found = uncertainty.interval(SURFACE, ["mcc", "f1"], n_resamples=200)
    assert repr(found) == "<Intervals: 2 metrics, 95% by bca, 200 resamples>"
    assert list(found) == ["mcc", "f1"]
    frame = found.to_pandas()
    assert frame.shape == (4, 7)
    assert frame.attrs["method"] == "bca"
    ax = found.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mcc", "f1 [0]", "f1 [1]", "f1 [2]"]


def test_any_number_of_threads_gives_the_same_bits():
    stack = np.stack([SURFACE, SURFACE.T])
    one, two = (uncertainty.interval(stack, n_resamples=700, num_threads=k, on_failure="ignore") for k in (1, 2))
    for name in one:
        np.testing.assert_array_equal(one[name].low, two[name].low)
        np.testing.assert_array_equal(one[name].high, two[name].high)


@pytest.mark.parametrize("of", ["row", "bi", "all"])
def test_cells_of_a_normalised_matrix(of):
    found = uncertainty.interval(SURFACE, of=of, n_resamples=2000, rng=9)
    drawn = cmfast.normalize(uncertainty.resample(SURFACE, n_resamples=2000, rng=9), of)
    np.testing.assert_array_equal(found.estimate, cmfast.normalize(SURFACE, of))
    np.testing.assert_allclose(found.low, np.quantile(drawn, 0.025, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, drawn.std(0, ddof=1), rtol=1e-10)
    if of == "row":
        share = SURFACE / SURFACE.sum(1, keepdims=True)
        expected = np.sqrt(share * (1 - share) / SURFACE.sum(1, keepdims=True))
        np.testing.assert_allclose(found.standard_error, expected, rtol=0.1)


def test_cells_are_asked_for_without_names():
    with pytest.raises(ValueError, match="names must be left out"):
        uncertainty.interval(SURFACE, "mcc", of="row")
    with pytest.raises(ValueError, match="method must be bca, percentile, basic or normal"):
        uncertainty.interval(SURFACE, of="row", method="wilson")


def test_a_row_that_may_lose_all_its_samples_says_in_how_many_replicates():
    found = uncertainty.interval([[1, 1], [3, 40]], of="bi", n_resamples=3000)
    assert found.n_undefined.min() > 100


@pytest.mark.exhaustive
def test_the_page_of_coverage_counts_what_intervals_hold():
    setting = "2 classes, balanced, recall 0.7, n 100"
    truth, n = interval_coverage.settings()[setting]
    found = interval_coverage.coverage(truth, n, 100, 199, 0, (*interval_coverage.METHODS, "jeffreys"))
    kept = {"test_sets": 100, "replicates": 199, "held": {method: list(held) for method, held in found.items()}}
    for method in interval_coverage.METHODS:
        assert 0.85 < interval_coverage.part(kept, method)["accuracy"] <= 1, method
        assert 0.85 < interval_coverage.part(kept, method)["recall"] <= 1, method
    of_priors = {**kept, "held": dict.fromkeys(interval_coverage.PRIORS[1:], found["jeffreys"])}
    others = {**dict.fromkeys(interval_coverage.OTHERS, 1), "seed": 0, "truths": 1}
    page = interval_coverage.page({setting: kept}, {setting: of_priors}, others)
    assert page.count(f"| {setting} |") >= 17
    assert "- 100 test sets and 199 replicates: 2 classes" in page


def test_coverage_is_that_of_the_intervals_of_the_library():
    """The script draws once for three methods."""
    sets = uncertainty.resample(SURFACE, n_resamples=3)
    ends = {
        name: pair for name, *pair in interval_coverage._ends(sets, 399, ("bca", "basic"), np.random.default_rng(4))
    }
    confidence_level = 1 - 2 * (0.025 * 400 - 1) / 398
    for method in ("bca", "percentile", "basic"):
        found = uncertainty.interval(
            sets,
            ["mcc", "recall"],
            method=method,
            confidence_level=confidence_level,
            n_resamples=399,
            rng=np.random.default_rng(4),
        )
        for name, values in (("mcc", found["mcc"]), ("recall", found["recall"])):
            row = interval_coverage.NAMES.index(name)
            last = (..., -1) if name == "recall" else ...
            np.testing.assert_allclose(ends[method][0][row], values.low[last], rtol=1e-12)
            np.testing.assert_allclose(ends[method][1][row], values.high[last], rtol=1e-12)


@pytest.mark.parametrize("method", ["bca", "percentile", "basic", "normal"])
def test_no_samples_are_no_certain_zero(method):
    nothing, some = np.zeros((3, 3), int), np.full((3, 3), 4)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        one = uncertainty.interval(nothing, "mcc", method=method)
        batch = uncertainty.interval(np.stack([nothing, some]), ["mcc", "recall"], method=method, on_failure="ignore")
    assert [str(w.message) for w in said if "no samples" in str(w.message)] == [
        "uncertainty.interval: the matrix has no samples; the interval is NaN, and the estimate what undefined= says"
    ]
    assert one.estimate == 0.0
    assert np.isnan([one.low, one.high, one.standard_error]).all()
    for name, found in batch.items():
        alone = uncertainty.interval(some, name, method=method, on_failure="ignore")
        for end in ("low", "high", "standard_error"):
            assert np.isnan(getattr(found, end)[0]).all()
            assert np.isfinite(getattr(found, end)[1]).all()
        np.testing.assert_array_equal(found.estimate[1], alone.estimate)
    wilson = uncertainty.interval(nothing, "accuracy", method="wilson")
    assert (wilson.low, wilson.high) == (0.0, 1.0)


def test_labels_of_no_samples_warn():
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        assert cmfast.metrics.from_labels([], [], "accuracy") == 0.0
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        found = uncertainty.compare([], [], [], "accuracy")
    assert found.verdict() == "undefined"
    assert np.isnan([found.low, found.high, found.p_value]).all()
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        assert np.isnan(cmfast.ConfusionCounts().interval("mcc").high)


@pytest.mark.parametrize(
    "options", [{"clusters": True}, {"strata": [0, 0, 1, 1]}, {"clusters": True, "method": "normal"}]
)
def test_clusters_without_samples_are_no_certain_zero(options):
    M = np.stack([np.zeros((4, 2, 2), int), np.full((4, 2, 2), 3)])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = uncertainty.interval(M, "accuracy", n_resamples=50, **options)
    assert sum("some matrices have no samples" in str(w.message) for w in said) == 1
    assert np.isnan([found.low[0], found.high[0], found.standard_error[0]]).all()
    assert np.isfinite([found.low[1], found.high[1], found.standard_error[1]]).all()


@pytest.mark.parametrize("of", ["row", "all"])
def test_cells_without_samples_are_no_certain_zero(of):
    with pytest.warns(cmfast.DiagnosticWarning, match="the matrix has no samples"):
        found = uncertainty.interval(np.zeros((2, 2), int), of=of, n_resamples=50)
    assert np.isnan(found.low).all()
    assert np.isnan(found.high).all()
