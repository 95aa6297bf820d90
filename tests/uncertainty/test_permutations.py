"""The paired permutation test: against brute force, against McNemar's test, and laws."""

import numpy as np
import pytest
from oracle import _permutation as oracle
from pairs import draw_predictions, samples
from scipy import stats

import cmfast
from cmfast import uncertainty
from cmfast.uncertainty import _permutations

NAMES = list(oracle.METRICS)
FEW = pytest.mark.filterwarnings("ignore:.*compare.* too few samples or clusters:cmfast.DiagnosticWarning")
FEW_CLUSTERS = pytest.mark.filterwarnings("ignore:.*(fewer than 12 clusters|has one cluster):cmfast.DiagnosticWarning")


def few_samples(rng):
    """Return labels of which at most ten differ, of two to four classes."""
    C, n = int(rng.integers(2, 5)), int(rng.integers(4, 11))
    y, a, b = rng.integers(0, C, (3, n))
    same = [np.where(rng.random(n) < share, y, x) for share, x in ((0.5, a), (0.4, b))]
    alike = rng.integers(0, C, (2, 12))  # on which both agree
    return C, *(np.concatenate([x, more]) for x, more in zip((y, *same), alike[[0, 1, 1]], strict=True))


@FEW
@FEW_CLUSTERS
@pytest.mark.parametrize("seed", range(12))
def test_every_swap_of_few_samples_or_clusters(seed):
    rng = np.random.default_rng([seed, 35])
    C, y, a, b = few_samples(rng)
    n_clusters = int(rng.integers(1, 8))
    for clusters in (None, rng.integers(0, n_clusters, len(y))):
        T = uncertainty.paired_counts(y, a, b, n_classes=C, clusters=clusters)
        found = uncertainty.compare(T, [*NAMES, "recall"], n_resamples=20)
        differ = a != b
        own = None if clusters is None else clusters[differ]
        # What does not differ is the same in every swap: enumerating it would only repeat each table.
        whole = own if own is None else np.concatenate([own, np.full(np.count_nonzero(~differ), -1)])
        order = np.concatenate([np.flatnonzero(differ), np.flatnonzero(~differ)])
        names = np.r_[np.arange(differ.sum()), np.full((~differ).sum(), -1)] if own is None else whole
        for name in NAMES:
            want = oracle.p_value(y[order], a[order], b[order], C, oracle.METRICS[name], names.tolist())
            assert found[name].p_value == pytest.approx(float(want), rel=1e-12)
            assert found[name].p_error == 0
        for k in range(C):
            want = oracle.p_value(y[order], a[order], b[order], C, lambda M, k=k: oracle.recall(M, k), names.tolist())
            assert found["recall"].p_value[k] == pytest.approx(float(want), rel=1e-12)


@FEW
def test_of_the_accuracy_it_is_the_exact_test_of_mcnemar():
    rng = np.random.default_rng(1)
    for b, c in [(0, 5), (2, 2), (0, 0), (30, 12), (100, 100), (127, 63), (0, 60), *rng.integers(0, 120, (20, 2))]:
        # The first alone is right in b samples of class 0 and c of class 1, the second in c and in none.
        T = uncertainty.paired_counts(*samples([[[9, b], [c, 3]], [[0, 0], [0, 7]]]))
        found, known = uncertainty.compare(T, "accuracy", n_resamples=20), uncertainty.mcnemar(T)
        assert found.p_value == pytest.approx(known.p_value, rel=1e-10)
        assert found.p_value == pytest.approx(stats.binomtest(int(b), int(b + c)).pvalue if b + c else 1, rel=1e-10)
        assert (found.p_error, found.n_discordant) == (0, b + c)


def test_five_to_none_is_no_difference_at_five_percent():
    T = uncertainty.paired_counts(*samples([[[100, 5], [0, 0]], [[0, 0], [0, 95]]]))
    with pytest.warns(
        cmfast.DiagnosticWarning, match=r"smallest possible p is 0\.0625, above 0\.05; only more samples"
    ):
        found = uncertainty.compare(T, "accuracy")
    assert found.p_value == 0.0625
    assert found.verdict() == "no significant difference"
    assert found.low > 0
    assert found.explain().endswith("no significant difference; the interval excludes 0, the test decides")
    assert repr(found).endswith("difference; the interval excludes 0, the test decides>")
    six = uncertainty.paired_counts(*samples([[[100, 6], [0, 0]], [[0, 0], [0, 94]]]))
    assert uncertainty.compare(six, "accuracy").p_value == 1 / 32  # and nothing is warned of


@pytest.mark.parametrize("method", ["bca", "percentile", "basic", "normal", "delta"])
def test_every_method_has_the_same_p(method):
    y, a, b = draw_predictions(np.random.default_rng(3), 300, 4)
    T = uncertainty.paired_counts(y, a, b, clusters=np.arange(300) // 3)
    options = {"n_resamples": 400, "rng": 5}
    names = ["f1_macro", "f1"]
    found, wanted = (uncertainty.compare(T, names, method=how, **options) for how in (method, "bca"))
    for name in names:
        np.testing.assert_array_equal(found[name].p_value, wanted[name].p_value)
        assert found[name].test == "permutation"


@FEW
@FEW_CLUSTERS
def test_draws_tend_to_the_enumeration(monkeypatch):
    rng = np.random.default_rng(8)
    y, a, b = (rng.integers(0, 3, 12) for _ in range(3))
    agreed = rng.integers(0, 3, 80)
    y, a, b = (np.concatenate([x, agreed]) for x in (y, a, b))
    for clusters in (None, np.r_[np.repeat(np.arange(8), [2, 2, 2, 2, 1, 1, 1, 1]), rng.integers(0, 20, 80)]):
        T = uncertainty.paired_counts(y, a, b, clusters=clusters)
        names = ["accuracy", "f1_macro", "mcc", "kappa_quadratic", "recall"]
        exact = uncertainty.compare(T, names, method="delta", n_resamples=20_000)
        with monkeypatch.context() as patch:
            patch.setattr(_permutations, "MOST_STATES", 1)
            draws = uncertainty.compare(T, names, method="delta", n_resamples=20_000)
        for name in names:
            p, error = draws[name].p_value, draws[name].p_error
            np.testing.assert_allclose(error, np.sqrt(p * (1 - p) / 20_001), rtol=1e-12)
            assert (np.abs(p - exact[name].p_value) <= 4.5 * error + 1e-4).all()


@FEW
def test_enumerating_in_parts_changes_nothing(monkeypatch):
    y, a, b = draw_predictions(np.random.default_rng(2), 40, 2)
    T = uncertainty.paired_counts(y, a, b, groups=np.arange(40) % 2)
    names = ["mcc", "precision"]
    whole = uncertainty.compare(T, names, method="delta", n_resamples=20)
    monkeypatch.setattr(_permutations, "MOST_ENUMERATED_BYTES", 1)
    parts = uncertainty.compare(T, names, method="delta", n_resamples=20)
    assert all((whole[name].p_value == parts[name].p_value).all() for name in names)


def test_groups_names_threads_and_order_of_samples_change_no_bit():
    rng = np.random.default_rng(4)
    y, a, b = draw_predictions(rng, 600, 5)
    group, cluster = np.arange(600) % 3, rng.integers(0, 90, 600)
    for clusters in (None, cluster):
        T = uncertainty.paired_counts(y, a, b, groups=group, clusters=clusters)
        options = {"n_resamples": 300, "rng": 11, "method": "delta"}
        found = uncertainty.compare(T, ["mcc", "f1"], **options)
        again = uncertainty.compare(T, "f1", num_threads=1, **options)
        np.testing.assert_array_equal(found["f1"].p_value, again.p_value)
        order = rng.permutation(600)
        own = None if clusters is None else clusters[order]
        mixed = uncertainty.paired_counts(y[order], a[order], b[order], groups=group[order], clusters=own)
        np.testing.assert_array_equal(uncertainty.compare(mixed, "mcc", **options).p_value, found["mcc"].p_value)
        first = group == 0
        own = None if clusters is None else clusters[first]
        alone = uncertainty.paired_counts(y[first], a[first], b[first], n_classes=5, clusters=own)
        assert uncertainty.compare(alone, "mcc", **options).p_value == found["mcc"].p_value[0]
        swapped = uncertainty.compare(
            uncertainty.paired_counts(y, b, a, groups=group, clusters=clusters), "mcc", **options
        )
        np.testing.assert_array_equal(swapped.p_value, found["mcc"].p_value)


def test_copies_of_samples_in_clusters_say_no_more():
    y, a, b = draw_predictions(np.random.default_rng(9), 120, 3)
    T = uncertainty.paired_counts(y, a, b)
    copies = uncertainty.paired_counts(*(np.repeat(x, 4) for x in (y, a, b)), clusters=np.repeat(np.arange(120), 4))
    options = {"n_resamples": 500, "method": "delta"}
    for name in ("f1_macro", "mcc"):
        assert uncertainty.compare(T, name, **options).p_value == uncertainty.compare(copies, name, **options).p_value


def test_what_cancels_within_a_cluster_is_no_difference():
    # In every cluster the two exchange their answers: no swap of clusters changes anything.
    y, a, b = np.zeros(60, int), np.tile([0, 1], 30), np.tile([1, 0], 30)
    found = uncertainty.compare(uncertainty.paired_counts(y, a, b, clusters=np.arange(60) // 2), "accuracy")
    assert (found.p_value, found.n_discordant, found.difference) == (1, 0, 0)
    assert uncertainty.compare(uncertainty.paired_counts(y, a, b), "accuracy").n_discordant == 60


@FEW
def test_undefined_tables_are_left_out():
    # Of the swaps of three samples those without a prediction of class 1 on either side have no precision.
    y, a, b = [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]
    T = uncertainty.paired_counts(y, a, b)
    assert np.isnan(uncertainty.compare(T, "precision_binary", undefined="nan", n_resamples=20).p_value)
    y, a, b = [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]
    found = uncertainty.compare(uncertainty.paired_counts(y, a, b), "precision_binary", undefined="nan", n_resamples=20)
    assert found.p_value == 1  # 2/3 and 1, or 1 and 1/2: the other half is the mirror


def test_no_groups_have_no_p():
    T = uncertainty.paired_counts([], [], [], n_classes=2, groups=[])
    found = uncertainty.compare(T, ["accuracy", "f1"], n_resamples=20)
    assert (found["accuracy"].p_value.shape, found["f1"].p_error.shape) == ((0,), (0, 2))


def test_p_is_never_zero():
    n = 5000
    T = uncertainty.paired_counts([0] * n, [0] * n, [1] * n, n_classes=2)
    assert 0 < uncertainty.compare(T, "accuracy", n_resamples=20).p_value < 1e-300
    rng = np.random.default_rng(0)
    y = rng.integers(0, 9, 3000)
    many = uncertainty.paired_counts(y, y, rng.integers(0, 9, 3000))
    assert uncertainty.compare(many, "f1_macro", method="delta", n_resamples=99).p_value == 0.01


@pytest.mark.parametrize("method", ["bca", "percentile", "basic", "normal"])
def test_p_of_an_interval_and_its_ends_never_part(method):
    """Also where many replicates are exactly 0, as they are where few samples differ."""
    for b, c in [(2, 0), (3, 0), (4, 1), (5, 0), (6, 1), (8, 2), (0, 4)]:
        T = uncertainty.paired_counts(*samples([[[100, b], [c, 0]], [[0, 0], [0, 95]]]))
        options = {"method": method, "test": "interval", "n_resamples": 3000}
        p = float(uncertainty.compare(T, "accuracy", **options).p_value)
        for confidence_level in (0.5, 0.8, 0.9, 0.95, 0.99):
            if abs(1 - confidence_level - p) > 1e-3:
                one = uncertainty.compare(T, "accuracy", confidence_level=confidence_level, **options)
                assert (one.low > 0 or one.high < 0) == (p <= 1 - confidence_level)
                assert not one.parting()


@FEW
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["few", "rare", "clusters", "many"])
def test_equal_models_are_called_different_in_no_more_than_one_of_twenty(kind):
    rng, n, called = np.random.default_rng(35), 1000, 0
    for _ in range(n):
        size, C = {"few": (200, 2), "rare": (300, 3), "clusters": (120, 3), "many": (400, 30)}[kind]
        y = (
            np.where(rng.random(size) < 0.02, 0, rng.integers(1, C, size))
            if kind == "rare"
            else rng.integers(0, C, size)
        )
        wrong = rng.random(size) < (0.02 if kind == "few" else 0.15)
        a, b = (np.where(wrong, rng.integers(0, C, size), y) for _ in range(2))
        swap = rng.random(size // 4) < 0.5
        clusters = np.arange(size) // 4 if kind == "clusters" else None
        if kind == "clusters":
            a, b = np.where(swap[clusters], a, y), np.where(swap[clusters], y, a)
        T = uncertainty.paired_counts(y, a, b, n_classes=C, clusters=clusters)
        called += uncertainty.compare(T, "f1_macro", method="delta", n_resamples=199).p_value <= 0.05
    assert called <= 0.05 * n + 3 * np.sqrt(0.05 * 0.95 * n)
