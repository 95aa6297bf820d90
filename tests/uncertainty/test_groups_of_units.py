"""Groups of weighted samples and of clusters: plain NumPy, neighbouring functions, and laws."""

import warnings

import numpy as np
import pandas as pd
import pytest
from optional import polars, torch

import cmfast
from cmfast import DiagnosticWarning, uncertainty

RNG = np.random.default_rng(5)
N = 600
GROUP = RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
PATIENT = RNG.integers(0, 25, N)  # the same labels in all groups
Y = RNG.integers(0, 3, N)
P = np.where(RNG.random(N) < 0.65 + 0.1 * (PATIENT % 3), Y, RNG.integers(0, 3, N))
W = RNG.uniform(0.2, 5.0, N)
NAMES = ["accuracy", "mcc", "f1", "f1_macro", "recall"]
FIELDS = ("estimate", "standard_error", "difference", "pair_low", "pair_high", "p_value", "ratio", "overall")


def compare(*given, **options):
    """Compare groups without warnings."""
    return uncertainty.compare_groups(*given, **{"on_failure": "ignore"} | options)


def accuracy_error(here, unit, w):
    """Return the standard error of a weighted accuracy as a ratio of sums over units."""
    right = (Y == P)[here] * 1.0
    w, unit = w[here], unit[here]
    mean = w @ right / w.sum()
    z = np.array([(w * (right - mean))[unit == u].sum() for u in np.unique(unit)]) / w.sum()
    return mean, z


def test_weighted_accuracies_are_ratio_estimates():
    found = compare(Y, P, GROUP, "accuracy", sample_weight=W, method="delta")
    clustered = compare(Y, P, GROUP, "accuracy", sample_weight=W, clusters=PATIENT, method="delta")
    for g, name in enumerate("abc"):
        here = name == GROUP
        mean, z = accuracy_error(here, np.arange(N), W)
        assert found.estimate[g] == pytest.approx(mean, rel=1e-12)
        assert found.standard_error[g] == pytest.approx(np.sqrt((z**2).sum()), rel=1e-9)
        mean, z = accuracy_error(here, PATIENT, W)
        assert clustered.estimate[g] == pytest.approx(mean, rel=1e-12)
        wanted = np.sqrt(len(z) / (len(z) - 1) * (z**2).sum())
        assert clustered.standard_error[g] == pytest.approx(wanted, rel=1e-9)
    assert found.axes["group"] == ("a", "b", "c")


@pytest.mark.parametrize("name", NAMES)
def test_clusters_have_the_errors_of_intervals_of_clusters(name):
    found = compare(Y, P, GROUP, name, clusters=PATIENT, method="delta")
    for g, group in enumerate("abc"):
        here = group == GROUP
        one = uncertainty.interval(Y[here], P[here], name, clusters=PATIENT[here], method="normal", on_failure="ignore")
        np.testing.assert_allclose(found.estimate[g], one.estimate, rtol=1e-12)
        np.testing.assert_allclose(found.standard_error[g], one.standard_error, rtol=1e-9)


@pytest.mark.parametrize("reference", [None, "a", "overall"])
def test_equal_weights_are_no_weights(reference):
    options = {"method": "delta", "reference": reference}
    plain = compare(Y, P, GROUP, NAMES, **options)
    for w in (np.full(N, 1), np.full(N, 0.37)):
        weighted = compare(Y, P, GROUP, NAMES, sample_weight=w, **options)
        for name in NAMES:
            for field in FIELDS:
                one, other = getattr(weighted[name], field), getattr(plain[name], field)
                np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12, err_msg=f"{name} {field}")


@pytest.mark.parametrize("reference", [None, "overall"])
@pytest.mark.parametrize("options", [{"sample_weight": W}, {"clusters": PATIENT}])
def test_bootstrap_of_many_units_is_the_delta_method(options, reference):
    boot = compare(Y, P, GROUP, ["accuracy", "f1_macro"], method="bootstrap", reference=reference, **options)
    delta = compare(Y, P, GROUP, ["accuracy", "f1_macro"], method="delta", reference=reference, **options)
    for name in ("accuracy", "f1_macro"):
        one, other = boot[name], delta[name]
        np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-12)
        np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=0.08)
        width = other.pair_high - other.pair_low
        np.testing.assert_allclose(one.pair_low, other.pair_low, atol=0.08 * width.max())
        np.testing.assert_allclose(one.pair_high, other.pair_high, atol=0.08 * width.max())


def test_replicates_are_those_of_whole_clusters():
    # Of two clusters, one all right and one all wrong, replicates can have three accuracies.
    y = np.ones(40, int)
    p = np.repeat([1, 0, 1, 0], 10)
    group, patient = np.repeat([0, 1], 20), np.repeat([0, 1, 0, 1], 10)
    found = compare(y, p, group, "accuracy", clusters=patient)
    assert (found.pair_low[0], found.pair_high[0]) == (-1.0, 1.0)


def test_fairness_with_clusters_and_weights():
    y, p = (Y > 0) * 1, (P > 0) * 1
    for name in ("selection_rate", "equal_opportunity", "equalized_odds"):
        found = compare(y, p, GROUP, name, sample_weight=W, clusters=PATIENT, method="delta")
        for g, group in enumerate("abc"):
            here = group == GROUP
            w, rates = W[here], []
            if name != "equal_opportunity":
                of = {"selection_rate": np.ones(here.sum(), bool), "equalized_odds": y[here] == 0}[name]
                rates = [np.average(p[here][of], weights=w[of])]
            if name != "selection_rate":
                rates.insert(0, np.average(p[here][y[here] == 1], weights=w[y[here] == 1]))
            np.testing.assert_allclose(found.estimate[g], rates if len(rates) > 1 else rates[0], rtol=1e-12)
        assert np.all(found.standard_error > 0)


def make_tables():
    """Yield tables with labels, groups, weights and clusters."""
    frame = pd.DataFrame({"y": Y, "p": P, "g": GROUP, "w": W, "patient": [f"p{k}" for k in PATIENT]})
    yield frame
    yield frame.astype({"g": "category"})
    yield polars.from_pandas(frame)


def test_tables_and_other_arrays_give_the_same():
    wanted = compare(Y, P, GROUP, "mcc", sample_weight=W, clusters=PATIENT, n_resamples=500)
    for table in make_tables():
        found = compare(
            table, "mcc", y_true="y", y_pred="p", groups="g", sample_weight="w", clusters="patient", n_resamples=500
        )
        np.testing.assert_allclose(found.pair_low, wanted.pair_low, rtol=0.2, atol=0.02)
        np.testing.assert_allclose(found.estimate, wanted.estimate, rtol=1e-12)
    tensors = [torch.from_numpy(x) for x in (Y, P, W)]
    found = compare(*tensors[:2], GROUP, "mcc", sample_weight=tensors[2], clusters=PATIENT, n_resamples=500)
    np.testing.assert_array_equal(found.pair_low, wanted.pair_low)


def test_text_labels_several_groups_and_ignored_samples():
    names = np.array(["x", "y", "z"])
    year = RNG.integers(2020, 2022, N)
    groups = {"g": GROUP, "year": year}
    keep = names[Y] != "x"
    options = {"sample_weight": W, "method": "delta"}
    found = compare(names[Y], names[P], groups, "f1_macro", ignore_index="x", **options)
    assert found.axes["group"] == tuple(sorted(set(zip(GROUP.tolist(), year.tolist(), strict=True))))
    some = {name: x[keep] for name, x in groups.items()}
    other = compare(names[Y][keep], names[P][keep], some, "f1_macro", sample_weight=W[keep], method="delta")
    np.testing.assert_allclose(found.standard_error, other.standard_error, rtol=1e-12)


def test_a_group_with_one_cluster_has_no_interval_and_harms_no_neighbour():
    patient = np.where(GROUP == "b", 0, PATIENT)
    for method in ("delta", "bootstrap"):
        found = compare(Y, P, GROUP, "accuracy", clusters=patient, method=method, n_resamples=300)
        assert np.isnan(found.standard_error).tolist() == [False, True, False]
        assert np.isnan(found.pair_low).tolist() == [True, False, True]
        assert np.isfinite(found.estimate).all()


def test_same_seed_same_bits_and_few_clusters_warn():
    one, other = (compare(Y, P, GROUP, "mcc", clusters=PATIENT, rng=3, n_resamples=200) for _ in range(2))
    np.testing.assert_array_equal(one.pair_low, other.pair_low)
    another = compare(Y, P, GROUP, "mcc", clusters=PATIENT, rng=4, n_resamples=200)
    assert (one.pair_low != another.pair_low).any()
    with pytest.warns(DiagnosticWarning, match="fewer than 12 clusters in 3 of 3 groups"):
        uncertainty.compare_groups(Y, P, GROUP, "mcc", clusters=PATIENT % 5, n_resamples=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uncertainty.compare_groups(Y, P, GROUP, "mcc", clusters=PATIENT, n_resamples=200)
        uncertainty.compare_groups(Y, P, GROUP, "accuracy", sample_weight=W, n_resamples=200)


@pytest.mark.parametrize(
    ("given", "options", "error", "said"),
    [
        (3, {"sample_weight": -W}, ValueError, "sample_weight must be finite and not negative, got -"),
        (3, {"sample_weight": np.where(np.arange(N) == 4, np.nan, W)}, ValueError, "got nan at sample 4"),
        (3, {"sample_weight": W[1:]}, ValueError, "sample_weight"),
        (3, {"clusters": PATIENT[1:]}, ValueError, r"clusters must be of shape \(600,\), the cluster of each sample"),
        (3, {"clusters": W}, TypeError, "clusters must be labels"),
        (3, {"clusters": PATIENT, "method": "wilson"}, ValueError, 'method must be "bootstrap" or "delta" with'),
        (0, {"clusters": PATIENT}, TypeError, "clusters must be None unless labels and groups are given"),
        (0, {"sample_weight": W}, TypeError, "sample_weight must be None unless labels and groups are given"),
    ],
)
def test_says_what_is_wrong(given, options, error, said):
    labels = (Y, P, GROUP) if given else (np.ones((3, 2, 2), int),)
    with pytest.raises(error, match=f"compare_groups: .*{said}"):
        compare(*labels, "accuracy", **options)


def test_lazy_arrays_are_refused():
    lazy = pytest.importorskip("dask.array").from_array(Y)
    with pytest.raises(TypeError, match="y_true must be in memory with sample_weight or clusters"):
        compare(lazy, P, GROUP, "accuracy", sample_weight=W)


def test_counts_are_not_changed_by_the_options():
    counts = cmfast.ConfusionCounts.from_labels(Y, P, groups=GROUP)
    one = compare(counts, "accuracy")
    other = compare(Y, P, GROUP, "accuracy", sample_weight=None, clusters=None)
    np.testing.assert_array_equal(one.pair_low, other.pair_low)


def test_unequal_weights_count_as_fewer_samples():
    """Forty samples, six of them wrong: enough if they are alike, too few if one has most of the weight."""
    y = np.tile([0, 1], 40)
    p = np.where(np.arange(80) % 40 < 6, 1 - y, y)
    group, equal = np.repeat([0, 1], 40), np.ones(80)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uncertainty.compare_groups(y, p, group, "accuracy", method="delta", sample_weight=equal)
    heavy = np.where(np.arange(80) == 20, 100.0, 1.0)
    with pytest.warns(DiagnosticWarning, match=r"in 1 of 2 groups too few samples .*; only more samples help$"):
        uncertainty.compare_groups(y, p, group, "accuracy", method="delta", sample_weight=heavy)
