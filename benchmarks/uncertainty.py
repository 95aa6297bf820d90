"""The simulation of Foucart's notebook 4.4.2.3, and two classifiers on the same samples, drawn again."""

import numpy as np

import cmfast
from benchmarks import _rivals_of_metrics
from benchmarks._job import Job, Rival
from cmfast import metrics, uncertainty

# Four teams; the first column holds what was not detected.
TEAMS = np.array(
    [
        [[831, 6098, 260, 8, 12], [507, 79, 7214, 2, 1], [8, 5, 39, 118, 2], [102, 16, 11, 8, 170]],
        [[824, 6240, 88, 0, 57], [500, 162, 7131, 4, 6], [10, 1, 18, 133, 10], [115, 16, 1, 11, 164]],
        [[1152, 5960, 96, 0, 1], [860, 76, 6864, 3, 0], [11, 1, 20, 137, 3], [99, 30, 8, 11, 159]],
        [[690, 6193, 302, 2, 22], [349, 179, 7274, 1, 0], [12, 3, 38, 117, 2], [90, 30, 7, 25, 155]],
    ]
)
MISSED, COUNTS = TEAMS[..., 0], TEAMS[..., 1:]
NAMES = ["accuracy", "geometric_mean", "mcc_01", "f1_of_macro", "f1_macro", "kappa_01"]
SIZES = (15_000, 5_000, 1_000)
SIZES_OF_ERRORS = ((3, 500_000), (10, 200_000), (32, 10_000), (100, 500), (300, 1), (1000, 1))  # classes, matrices


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs."""
    return [
        _simulation(small=small), _comparison(small=small), _permutation(small=small), _interval(small=small),
        _cells(small=small), _errors(small=small), _areas(small=small), _groups(small=small),
        _multilabel(small=small), _many_areas(small=small),
        *(_all_errors(C, min(20, B) if small else B) for C, B in SIZES_OF_ERRORS),
    ]  # fmt: skip


def _comparison(*, small: bool) -> Job:
    """Return the job: from the labels of two classifiers to the interval of the difference of their macro F1."""
    n, n_resamples, rng = (500, 60, np.random.default_rng(0)) if small else (100_000, 10_000, np.random.default_rng(0))
    y, other = rng.integers(0, 10, (2, n))
    both = np.where(rng.random(n) < 0.85, y, other)  # what is hard is so for both
    a, b = (np.where(rng.random(n) < share, both, rng.integers(0, 10, n)) for share in (0.91, 0.9))
    few = max(20, n_resamples // 500)

    def check(found):
        low, high, error = found
        assert -0.5 < low < high < 0.5
        assert 0.2 < (high - low) / (2 * 1.96 * error) < 2
        return f"interval {low:+.4f} to {high:+.4f}"

    def run(threads):
        T = uncertainty.paired_counts(y, a, b)
        options = {"method": "percentile", "test": "interval"}  # rivals make no test of their own
        found = uncertainty.compare(T, "f1_macro", n_resamples=n_resamples, num_threads=threads, **options)
        return found.low, found.high, found.standard_error

    rivals = [
        Rival("scikit-learn in scipy.stats.bootstrap", lambda: _resample_labels(y, a, b, few), few, check),
        Rival("multinomial draws of NumPy", lambda: _resample_cells(y, a, b, n_resamples), n_resamples, check),
    ]
    size = f"{n:,} labels x 2, 10 classes, {n_resamples:,} replicates"
    return Job(
        "compare", size, n_resamples, "replicates", run, check, lambda: (y.sum(), a.sum(), b.sum()), "read", rivals
    )


def _permutation(*, small: bool) -> Job:
    """Return the job: from the labels of two classifiers to the p-value of a paired permutation test of macro F1."""
    n, n_resamples, rng = (500, 99, np.random.default_rng(0)) if small else (100_000, 9999, np.random.default_rng(0))
    y, other = rng.integers(0, 10, (2, n))
    both = np.where(rng.random(n) < 0.85, y, other)
    a, b = (np.where(rng.random(n) < 0.9, both, rng.integers(0, 10, n)) for _ in range(2))
    few = max(19, n_resamples // 500)
    delta = uncertainty.compare(uncertainty.paired_counts(y, a, b), "f1_macro", method="delta", test="interval")

    def check(p):
        assert 0 < p <= 1
        reach = 5 * np.sqrt(0.25 / (few + 1))  # five standard errors of the fewest draws
        assert abs(p - delta.p_value) < reach, "of so many samples, about that of the delta method"
        return f"p {p:.3f}"

    def run(threads):
        T = uncertainty.paired_counts(y, a, b)
        options = {"method": "delta", "test": "permutation", "num_threads": threads}
        return float(uncertainty.compare(T, "f1_macro", n_resamples=n_resamples, **options).p_value)

    def use_labels():
        from sklearn.metrics import f1_score

        return permuted(lambda guess: f1_score(y, guess, average="macro"), few)

    def use_counts():
        def f1_macro(guess):
            d, t, p = (np.bincount(x, minlength=10) for x in (y[guess == y], y, guess))
            return (2 * d / (t + p)).mean()

        return permuted(f1_macro, few)

    def permuted(metric, draws):
        from scipy.stats import permutation_test

        options = {"permutation_type": "samples", "vectorized": False, "n_resamples": draws}
        rng = np.random.default_rng(0)
        return float(permutation_test((a, b), lambda a, b: metric(a) - metric(b), **options, rng=rng).pvalue)

    rivals = [
        Rival("scikit-learn in scipy.stats.permutation_test", use_labels, few, check),
        Rival("np.bincount in scipy.stats.permutation_test", use_counts, few, check),
    ]
    size = f"{n:,} labels x 2, 10 classes, {n_resamples:,} swaps"
    return Job(
        "permutation test", size, n_resamples, "swaps", run, check, lambda: (y.sum(), a.sum(), b.sum()), "read", rivals
    )


def _matrices(n, C=10):
    """Return counts of `C` classes, most of them right."""
    M = np.random.default_rng(1).integers(0, 20, (n, C, C))
    M[:, range(C), range(C)] += 820
    return M


def _interval(*, small: bool) -> Job:
    """Return the job: percentile intervals of all metrics of one matrix; rivals make that of one metric."""
    n_resamples = 60 if small else 10_000
    few, M = max(20, n_resamples // 100), _matrices(1)[0]
    y, p = (np.repeat(x.ravel(), M.ravel()) for x in np.indices(M.shape))

    def check(found):
        low, high = found
        assert 0.7 < low < high < 1
        return f"mcc {low:.3f} to {high:.3f}"

    def run(threads):
        options = {"n_resamples": n_resamples, "num_threads": threads, "on_failure": "ignore"}
        found = uncertainty.interval(M, method="percentile", **options)["mcc"]
        return found.low, found.high

    def use_labels():
        from scipy.stats import bootstrap
        from sklearn.metrics import matthews_corrcoef

        options = {"paired": True, "vectorized": False, "n_resamples": few, "method": "percentile"}
        return bootstrap((y, p), matthews_corrcoef, **options, rng=np.random.default_rng(0)).confidence_interval

    def use_cells():
        drawn = np.random.default_rng(0).multinomial(len(y), M.ravel() / len(y), n_resamples).reshape(-1, 10, 10)
        return np.quantile(metrics.mcc(drawn), [0.025, 0.975])

    rivals = [
        Rival("scikit-learn in scipy.stats.bootstrap, MCC alone", use_labels, few, check),
        Rival("multinomial draws of NumPy, MCC alone", use_cells, n_resamples, check),
    ]
    size = f"{len(metrics.SCALARS)} metrics of {len(y):,} samples, 10 classes, {n_resamples:,} replicates"
    limit = np.zeros((n_resamples, len(metrics.SCALARS))).copy
    return Job("interval", size, n_resamples, "replicates", run, check, limit, "copy", rivals)


def _cells(*, small: bool) -> Job:
    """Return the job: percentile intervals of the cells of one bi-normalised matrix."""
    n_resamples = 60 if small else 10_000
    M = _matrices(1)[0]

    def check(found):
        low, high = found
        assert (low <= high).all()
        assert 0.5 < low[0, 0] < high[0, 0] < 1
        return f"first cell {low[0, 0]:.3f} to {high[0, 0]:.3f}"

    def run(threads):
        found = uncertainty.interval(M, of="bi", n_resamples=n_resamples, num_threads=threads)
        return found.low, found.high

    def draw_in_numpy():
        rng, n = np.random.default_rng(0), M.sum()
        drawn = rng.multinomial(n, M.ravel() / n, n_resamples).reshape(-1, 10, 10).astype(float)
        for _ in range(30):
            drawn /= drawn.sum(2, keepdims=True)
            drawn /= drawn.sum(1, keepdims=True)
        return np.quantile(drawn, [0.025, 0.975], axis=0)

    rivals = [Rival("multinomial draws of NumPy, scaled 30 times", draw_in_numpy, n_resamples, check)]
    size = f"{n_resamples:,} replicates of a 10x10"
    limit = np.zeros((n_resamples, 10, 10)).copy
    return Job("interval of cells", size, n_resamples, "replicates", run, check, limit, "copy", rivals)


def _areas(*, small: bool) -> Job:
    """Return the job: areas under the ROC curves of twenty models and their covariances; the limit is NumPy's sort."""
    models, n, rng = (3, 2000, np.random.default_rng(0)) if small else (20, 1_000_000, np.random.default_rng(0))
    y = rng.integers(0, 2, n)
    scores = rng.normal(size=(models, n)) + y
    few = min(models, 3)

    def check(found):
        auc, covariance = found
        assert (abs(auc - 0.76) < 0.05).all()  # Phi(1 / sqrt(2))
        np.testing.assert_allclose(np.sqrt(np.diagonal(covariance) * n), 0.472, rtol=0.1)  # by the bivariate normal
        return f"first {auc[0]:.4f}"

    def run(threads):
        return uncertainty.auc_covariance(y, scores, num_threads=threads)[:2]

    def use_midranks():
        from scipy.stats import rankdata

        up, down = y == 1, y == 0
        m, n = up.sum(), down.sum()
        ranks = [(rankdata(s), rankdata(s[up]), rankdata(s[down])) for s in scores[:few]]
        of_positives = np.array([(whole[up] - own) / n for whole, own, _ in ranks])
        of_negatives = np.array([1.0 - (whole[down] - own) / m for whole, _, own in ranks])
        return of_positives.mean(1), np.cov(of_positives) / m + np.cov(of_negatives) / n

    def use_sklearn():
        from sklearn.metrics import roc_auc_score

        return np.array([roc_auc_score(y, s) for s in scores[:few]])

    def check_areas(auc):
        assert (abs(auc - 0.76) < 0.05).all()
        return f"first {auc[0]:.4f}"

    rivals = [
        Rival("midranks of SciPy", use_midranks, few, check),
        Rival("scikit-learn, areas alone", use_sklearn, few, check_areas),
    ]
    size = f"{models} models, {n:,} scores each"
    return Job("auc_covariance", size, models, "models", run, check, lambda: np.sort(scores), "sort", rivals)


def _many_areas(*, small: bool) -> Job:
    """Return the job: intervals of the average precision of many problems, which run in a Python loop."""
    B, n, rng = (20, 200, np.random.default_rng(0)) if small else (1000, 1000, np.random.default_rng(0))
    y = rng.integers(0, 2, (B, n))
    scores = rng.normal(size=(B, n)) + y
    few = min(B, 50)

    def check(found):
        assert (found.low < found.estimate).all()
        assert (abs(found.estimate - 0.76) < 0.15).all()
        return f"mean {found.estimate.mean():.4f}"

    def use_sklearn():
        from sklearn.metrics import average_precision_score

        return np.array([average_precision_score(*one) for one in zip(y[:few], scores[:few], strict=True)])

    def check_areas(found):
        np.testing.assert_allclose(
            found, uncertainty.interval(y[:few], scores[:few], "average_precision").estimate, rtol=1e-9
        )
        return f"mean {found.mean():.4f}"

    def run(threads):
        return uncertainty.interval(y, scores, "average_precision", num_threads=threads)

    rivals = [Rival("scikit-learn, areas alone", use_sklearn, few, check_areas)]
    size = f"{B:,} problems of {n:,} scores"
    return Job("interval of areas", size, B, "problems", run, check, lambda: np.sort(scores), "sort", rivals)


def _errors(*, small: bool) -> Job:
    """Return the job: standard errors of eleven metrics of many matrices."""
    M = _matrices(500 if small else 1_000_000)
    names = ["accuracy", "balanced_accuracy", "precision_macro", "f1_macro", "jaccard_macro", "f1_of_macro"]
    names += ["geometric_mean", "tau", "mcc", "peirce", "kappa"]
    few = min(len(M), 2000)

    def check(found):
        assert (found > 0).all()
        assert (found < 0.1).all()
        return f"accuracy {found[0]:.5f}"

    def run(threads):
        return uncertainty.standard_error(M, names, num_threads=threads)["accuracy"]

    def compute_by_formula():
        share = M[:few].trace(axis1=1, axis2=2) / M[:few].sum((1, 2))
        return np.sqrt(share * (1 - share) / M[:few].sum((1, 2)))

    rivals = [Rival("NumPy, accuracy alone", compute_by_formula, few, check)]
    return Job("standard_error", f"{len(M):,} 10x10, 11 metrics", len(M), "matrices", run, check, M.sum, "read", rivals)


def _all_errors(C: int, B: int) -> Job:
    """Return the job: standard errors of all metrics with one number per matrix; the limit is their values."""
    M = np.resize(_matrices(min(B, 1000), C), (B, C, C))

    def check(found):
        assert sorted(found) == sorted(metrics.SCALARS)
        np.testing.assert_allclose(found["zero_one_loss"], found["accuracy"], rtol=1e-12)
        return f"{len(found)} metrics"

    def run(threads):
        return uncertainty.standard_error(M, num_threads=threads, on_failure="ignore")

    def compute_values():
        return metrics.compute(M, on_failure="ignore")

    size = f"{B:,} {C}x{C}, all metrics"
    return Job(f"standard_error {C}", size, B, "matrices", run, check, compute_values, "metrics.compute")


def _resample_labels(y, a, b, n_resamples):
    """Draw labels again, and give those to scikit-learn."""
    from scipy.stats import bootstrap
    from sklearn.metrics import f1_score

    def apart(y, a, b):
        return f1_score(y, a, average="macro") - f1_score(y, b, average="macro")

    options = {"paired": True, "vectorized": False, "n_resamples": n_resamples, "method": "percentile"}
    found = bootstrap((y, a, b), apart, **options, rng=np.random.default_rng(0))
    return *found.confidence_interval, found.standard_error


def _resample_cells(y, a, b, n_resamples):
    """Draw what was counted of truth and both predictions again, some replicates at a time."""
    keys, counts = np.unique((y * 10 + a) * 10 + b, return_counts=True)
    truth, first, second = keys // 100, keys // 10 % 10, keys % 10
    one = [np.eye(10)[truth], *(np.eye(10)[x] for x in (first, second))]
    one += [np.eye(10)[truth] * (x == truth)[:, None] for x in (first, second)]
    rng, apart = np.random.default_rng(0), []
    for _ in range(0, n_resamples, 500):
        M = rng.multinomial(len(y), counts / len(y), 500).astype(float)
        t, p, q, d, e = (M @ table for table in one)
        apart.append((2 * d / (t + p)).mean(-1) - (2 * e / (t + q)).mean(-1))
    values = np.concatenate(apart)[:n_resamples]
    return *np.quantile(values, [0.025, 0.975]), values.std()


def _simulation(*, small: bool) -> Job:
    """Return the job: all three sizes, counts and rows divided by their sums, six metrics, their widths."""
    n = 40 if small else 5000
    few = max(1, n // 100)

    def check(found):
        assert found.shape == (len(SIZES), 2, len(NAMES))
        assert 0.001 < found[0, 0, 1] < 0.01, "the width of the geometric mean at 15,000 samples is .003"
        assert (found[2] > found[0]).all(), "fewer samples, wider"
        return "widths of 6 metrics"

    in_turn, draw_in_numpy = _rivals_of_metrics.numpy_simulation, _rivals_of_metrics.numpy_simulation_at_once
    rivals = [
        Rival("its loop in NumPy", lambda: in_turn(TEAMS, SIZES, few), len(SIZES) * few, _looped),
        Rival("NumPy at once", lambda: draw_in_numpy(TEAMS, SIZES, n), len(SIZES) * n, check),
    ]
    return Job(
        "resample",
        f"{len(SIZES)} sizes x {n:,} repetitions x 4 teams x 2 matrices 4x4",
        len(SIZES) * n,
        "repetitions",
        lambda threads: simulate(n, num_threads=threads),
        check,
        np.zeros((len(SIZES), 2, n, 4, 4, 4)).copy,
        "copy",
        rivals,
    )


def _looped(found):
    assert found.shape == (len(SIZES), 2, len(NAMES))
    return "widths of 6 metrics"


def simulate(n_resamples, scheme="expected_rounded", *, num_threads=None):
    """Return the width of every metric: sizes, counts or normalised, metrics."""
    out = np.empty((len(SIZES), 2, len(NAMES)))
    for s, n in enumerate(SIZES):
        options = {"n": n, "n_resamples": n_resamples, "scheme": scheme, "num_threads": num_threads}
        M = uncertainty.resample(COUNTS, MISSED, **options)
        for kind, matrices in enumerate((M, cmfast.normalize(M, "row", num_threads=num_threads))):
            found = metrics.compute(matrices, NAMES, num_threads=num_threads)
            ends = int(0.025 * n_resamples), int(0.975 * n_resamples)
            values = np.partition(np.stack([found[name] for name in NAMES]), ends, axis=-1)
            out[s, kind] = (values[..., ends[1]] - values[..., ends[0]]).max(-1)
    return out


def _multilabel(*, small: bool) -> Job:
    """Return the job: from indicators of 20 labels to the BCa interval of the mean F1 of the labels."""
    n, n_resamples, rng = (60, 60, np.random.default_rng(0)) if small else (500, 10_000, np.random.default_rng(0))
    y = (rng.random((n, 20)) < 0.2).astype(np.int64)
    guess = np.where(rng.random(y.shape) < 0.1, 1 - y, y)
    few = max(20, n_resamples // 100)

    def average_f1(y, guess):
        """Return the mean F1 of the labels that are true or predicted, by NumPy."""
        right, whole = (y & guess).sum(0), y.sum(0) + guess.sum(0)
        return (2 * right / np.maximum(whole, 1)).sum() / (whole > 0).sum()

    want = average_f1(y, guess)

    def check(found):
        estimate, low, high = map(float, found[:3])
        np.testing.assert_allclose(estimate, want)
        assert low < want < high < low + 0.3
        return f"{estimate:.4f}, {low:.3f} to {high:.3f}"

    def run(threads):
        return uncertainty.interval(
            y, guess, "f1_macro", multilabel=True, n_resamples=n_resamples, num_threads=threads, on_failure="ignore"
        )

    def take_quantiles(score, B):
        """Return an estimate and quantiles of its replicates; rivals need no acceleration."""
        values = []
        for _ in range(B):
            row = rng.integers(0, n, n)
            values.append(score(y[row], guess[row]))
        return score(y, guess), *np.quantile(values, (0.025, 0.975))

    def use_scikit_learn():
        from sklearn.metrics import f1_score

        return take_quantiles(lambda y, p: f1_score(y, p, average="macro", zero_division=0), few)

    rivals = [
        Rival("loop of NumPy, quantiles", lambda: take_quantiles(average_f1, few), few, check),
        Rival("loop of scikit-learn, quantiles", use_scikit_learn, few, check, needs="sklearn"),
    ]
    size = f"{n:,} samples, 20 labels, {n_resamples:,} replicates"
    return Job("multilabel", size, n_resamples, "replicates", run, check, lambda: np.sort(guess), "sort", rivals)


def _groups(*, small: bool) -> Job:
    """Return the job: from labels and groups to the largest difference of the recall, with a bootstrap interval."""
    n, n_resamples, rng = (500, 60, np.random.default_rng(0)) if small else (100_000, 10_000, np.random.default_rng(0))
    group, y = rng.integers(0, 5, n), rng.integers(0, 2, n)
    guess = np.where(rng.random(n) < 0.9 - 0.02 * group, y, 1 - y)
    want = np.ptp([guess[(group == g) & (y == 1)].mean() for g in range(5)])
    few = max(4, n_resamples // 500)

    def check(found):
        difference, high = found
        np.testing.assert_allclose(difference, want)
        assert difference < high < difference + 0.2
        return f"{difference:.4f}, upper end {high:.4f}"

    def run(threads):
        found = uncertainty.compare_groups(
            y, guess, group, "recall_binary", method="bootstrap", n_resamples=n_resamples, num_threads=threads,
            on_failure="ignore",
        )  # fmt: skip
        return found.difference, found.difference_high

    def draw_cells():
        """Draw multinomial counts of each group with NumPy; quantiles of the largest difference alone."""
        M = np.zeros((5, 2, 2), np.int64)
        np.add.at(M, (group, y, guess), 1)
        drawn = [rng.multinomial(one.sum(), one.ravel() / one.sum(), n_resamples) for one in M]
        recall = np.stack([one[:, 3] / (one[:, 2] + one[:, 3]) for one in drawn])
        estimate = M[:, 1, 1] / M[:, 1].sum(-1)
        return np.ptp(estimate), np.quantile(np.ptp(recall, axis=0), 0.975)

    def use_fairlearn():
        from fairlearn.metrics import MetricFrame, true_positive_rate

        frame = MetricFrame(
            metrics=true_positive_rate, y_true=y, y_pred=guess, sensitive_features=group, n_boot=few,
            ci_quantiles=[0.975], random_state=0,
        )  # fmt: skip
        return frame.difference(), frame.difference_ci()[0]

    def check_draws(found):
        np.testing.assert_allclose(found[0], want)
        assert 0.0 < found[1] < want + 0.2
        return f"{found[0]:.4f}, quantile {found[1]:.4f}"

    rivals = [
        Rival("multinomial draws of NumPy, quantile of the largest difference", draw_cells, n_resamples, check_draws),
        Rival("fairlearn", use_fairlearn, few, check_draws, needs="fairlearn"),
    ]
    size = f"{n:,} labels, 5 groups, {n_resamples:,} replicates"
    return Job("compare_groups", size, n_resamples, "replicates", run, check, lambda: np.sort(guess), "sort", rivals)
