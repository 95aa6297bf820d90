"""Matrices to resample."""

import numpy as np

from cases._case import Case
from cases.metrics import BINARY, EVERY, of_weights


def _cases():
    rng = np.random.default_rng(33)
    counts = rng.integers(0, 40, (6, 3, 3))
    missed = rng.integers(0, 9, (6, 3))
    bad = counts.astype(float)
    bad[0, 0, 0], bad[3, 1, 1], bad[5, 2, 2] = np.nan, -1.0, np.inf
    halves = counts.astype(float)
    halves[2, 1, 0] = 0.5
    empty = counts.copy()
    empty[4] = 0
    gaps = counts.copy()
    gaps[1, 1] = 0
    for scheme in ("multinomial", "row_multinomial", "expected_rounded"):
        few = {"n_resamples": 5, "scheme": scheme, "rng": 4}
        yield Case(f"{scheme}-bad-first-middle-last", (bad,), few, fails=True)
        yield Case(f"{scheme}-fractions", (halves,), few, fails=True)
        yield Case(f"{scheme}-no-samples", (empty,), few)
        yield Case(f"{scheme}-empty-class", (gaps,), few)
        yield Case(f"{scheme}-batch-of-none", (counts[:0],), few)
        yield Case(f"{scheme}-0x0", (counts[:2, :0, :0],), few)
        yield Case(f"{scheme}-1x1", (counts[:2, :1, :1],), few)
        yield Case(f"{scheme}-single", (counts[0],), few)
        yield Case(f"{scheme}-no-replicates", (counts,), {**few, "n_resamples": 0})
        yield Case(f"{scheme}-missed", (counts, missed), few)
        yield Case(f"{scheme}-float32", (counts.astype(np.float32), missed.astype(np.float32)), few)
        yield Case(f"{scheme}-two-axes", (counts.reshape(2, 3, 3, 3), missed.reshape(2, 3, 3)), few)
        mixed = np.array([[45, 40, 30], [300, 41, 8000], [3, 90, 20]])  # by inversion and by rejection
        yield Case(f"{scheme}-few-and-many", (mixed,), {**few, "n_resamples": 70})
        if scheme != "row_multinomial":
            yield Case(f"{scheme}-n", (halves, missed), {**few, "n": 1000})
            yield Case(f"{scheme}-n-without-mass", (empty,), {**few, "n": 7}, fails=True)
            yield Case(f"{scheme}-shares", (rng.random((2, 4, 4)),), {**few, "n": 50})


def _with_slopes():
    rng = np.random.default_rng(34)
    counts = rng.integers(0, 50, (9, 4, 4))
    counts[:, range(4), range(4)] += 20
    bad = counts.astype(float)
    bad[0, 0, 0], bad[4, 1, 2], bad[8, 3, 3] = np.nan, 0.5, -1.0
    degenerate = np.zeros((9, 3, 3), int)
    degenerate[1, 0, 0] = 5  # all in one cell of the diagonal
    degenerate[2, 0, 1] = 5  # and off it
    degenerate[3, 0] = 3, 2, 1  # one true class
    degenerate[4, :, 1] = 4, 5, 6  # a constant predictor
    degenerate[5] = [[5, 1, 1], [1, 5, 0], [0, 0, 0]]
    degenerate[6] = [[5, 1, 0], [1, 5, 0], [1, 1, 0]]
    degenerate[7] = [[5, 1, 0], [1, 6, 0], [0, 0, 0]]
    degenerate[8] = np.diag([3, 4, 5])
    names = tuple(name for name in EVERY if not name.startswith("fbeta_") or name in ("fbeta_2", "fbeta_0.5_macro"))
    few = ("accuracy", "f1", "mcc", "kappa_linear", "geometric_mean", "recall_weighted")
    for fixed in ("total", "rows"):
        yield Case(f"{fixed}-all", (counts[:1], names), {"fixed": fixed})
        yield Case(f"{fixed}-degenerate", (degenerate, names), {"fixed": fixed})
        yield Case(f"{fixed}-weights", (degenerate, of_weights(3)), {"fixed": fixed})
        yield Case(f"{fixed}-bad-first-middle-last", (bad, few), {"fixed": fixed}, fails=True)
        yield Case(f"{fixed}-binary", (counts[:3, :2, :2], BINARY), {"fixed": fixed})
        yield Case(f"{fixed}-shares", (counts[:2] / 7.0, few), {"fixed": fixed, "n": 300})
        yield Case(f"{fixed}-tiles", (counts, few), {"fixed": fixed})
        yield Case(f"{fixed}-float32", (counts.astype(np.float32), few), {"fixed": fixed})
    for undefined in ("nan", "strict", "one"):
        yield Case(f"degenerate-{undefined}", (degenerate, names), {"undefined": undefined})
    yield Case("negatives-first", (counts[:2, :2, :2], BINARY), {"pos_label": 0})
    yield Case("0x0", (counts[:2, :0, :0], few))
    yield Case("1x1", (counts[:2, :1, :1], few))
    yield Case("batch-of-none", (counts[:0], few))
    yield Case("single", (counts[0], few))
    yield Case("two-axes", (counts[:6].reshape(2, 3, 4, 4), few))
    yield Case("int32", (counts[:2].astype(np.int32), few))
    yield Case("uint64", (counts[:2].astype(np.uint64), few))
    yield Case("huge", (counts[:2] * 2**52, few))
    many = np.diag(rng.integers(1, 9, 33))
    many[3, 30], many[32, 0] = 4, 2
    yield Case("many-classes", (many[np.newaxis], ("accuracy", "recall_macro")))
    rng = np.random.default_rng(36)
    several = rng.integers(0, 9, (3, 13, 13))  # of 12 and more classes squares are expanded, unless they cancel
    several[0, range(13), range(13)] += 900
    several[1, range(13), range(13)] = 0
    nominal = ("mcc", "f1_macro", "precision_macro", "jaccard_macro", "kappa")
    yield Case("expanded-squares", (several, nominal))


def _paired():
    rng = np.random.default_rng(12)
    y = rng.integers(0, 4, 90)
    a, b = (np.where(rng.random(90) < share, y, rng.integers(0, 4, 90)) for share in (0.8, 0.6))
    site, patient = rng.integers(5, 8, 90), rng.integers(0, 12, 90)
    few = {"names": ["accuracy", "f1_macro", "mcc", "recall"], "n_classes": 4, "n_resamples": 9, "seed": 2**40 + 7}
    ordered = {**few, "names": ["kappa_linear", "gerrity", "tau", "min_recall", "geometric_mean"]}
    yield Case("samples", (y, a, b), few)
    yield Case("ordered", (y, a, b), ordered)
    yield Case("groups", (y, a, b), {**few, "groups": site})
    yield Case("clusters", (y, a, b), {**few, "clusters": patient})
    yield Case("ordered-clusters-in-groups", (y, a, b), {**ordered, "clusters": patient, "groups": site})
    yield Case("bytes", tuple(x.astype(np.uint8) for x in (y, a, b)), few)
    yield Case("no-samples", (y[:0], a[:0], b[:0]), few)
    yield Case("one-sample", (y[:1], a[:1], b[:1]), few)
    yield Case("no-replicates", (y, a, b), {**few, "n_resamples": 0})
    yield Case("many-of-a-cell", tuple(np.repeat(x, 40) for x in (y, a, b)), {**few, "n_resamples": 5})
    yield Case("1x1", (0 * y, 0 * y, 0 * y), {**few, "n_classes": 1})
    many = rng.integers(0, 40, (3, 200))
    yield Case("many-classes", tuple(many), {**ordered, "n_classes": 40, "n_resamples": 4})


def _drawn(draws, options):
    """Yield cases of what is drawn; `draws` is the option that says how many."""
    rng = np.random.default_rng(35)
    counts = rng.integers(0, 9, (3, 3, 3))
    counts[:, range(3), range(3)] += 8
    bad = counts.astype(float)
    bad[0, 0, 0], bad[2, 2, 2] = np.nan, 0.5
    gaps = counts.copy()
    gaps[1, 1] = 0
    few = {draws: 21, "rng": 6}
    names = ("accuracy", "recall", "mcc", "min_recall", "gerrity")
    for name, given in options.items():
        yield Case(f"{name}-counts", (counts, names), few | given)
    yield Case("bad-first-and-last", (bad, ("mcc", "f1")), few, fails=True)
    yield Case("strict", (gaps, ("precision", "tau")), few | {"undefined": "strict"})
    yield Case("n", (counts / 7.0, ("mcc", "accuracy")), few | {"n": 60})
    yield Case("single", (counts[0], ("kappa",)), few)
    yield Case("two-axes", (counts[:2].reshape(1, 2, 3, 3), ("kappa", "f1")), few)
    yield Case("batch-of-none", (counts[:0], ("kappa", "f1")), few)
    yield Case("many-samples", (counts[:1] * 2**45, ("mcc",)), few)


def _replicates():
    rng = np.random.default_rng(36)
    R = rng.random((4, 17, 3, 2))
    estimate = R.mean(-3)
    gaps = R.copy()
    gaps[0, ::3], gaps[2, :, 1, 1], gaps[3, 1:] = np.nan, np.nan, np.nan
    unknown = estimate.copy()
    unknown[1] = np.nan
    yield Case("bca", (R, estimate, rng.normal(size=estimate.shape) / 9), {"method": "bca", "confidence_level": 0.9})
    for method in ("percentile", "basic"):
        some = {"method": method, "confidence_level": 0.9}
        yield Case(f"{method}-all", (R, estimate), some)
        yield Case(f"{method}-undefined", (gaps, unknown), some)
        yield Case(f"{method}-single", (R[0], estimate[0]), some)
    yield Case("ties", (np.round(R), np.round(estimate)), some)
    yield Case("no-replicates", (R[:, :0], estimate), some)
    yield Case("batch-of-none", (R[:0], estimate[:0]), some)
    yield Case("float32", (R.astype(np.float32), estimate.astype(np.float32)), some)


_INTERVALS = {
    "bca": {},
    "bca-rows": {"scheme": "rows"},
    "percentile": {"method": "percentile", "confidence_level": 0.8},
    "basic": {"method": "basic"},
    "posterior": {"method": "posterior", "prior": "laplace"},
    "bayesian-bootstrap": {"method": "percentile", "scheme": "dirichlet", "prior": 0.25},
}


def _paired_without_draws():
    for case in _paired():
        if case.id not in ("no-replicates", "many-classes"):
            options = {key: value for key, value in case.options.items() if key not in ("n_resamples", "seed")}
            yield Case(case.id, case.args, options)


def _clusters(draws):
    rng = np.random.default_rng(37)
    M = rng.integers(0, 4, (2, 6, 3, 3)) * (rng.random((2, 6, 1, 1)) < 0.9)  # some clusters are empty
    M[..., range(3), range(3)] += rng.integers(0, 5, (2, 6, 3))
    strata, names = [1, 0, 1, 2, 0, 1], ("accuracy", "recall", "mcc", "gerrity", "f1_macro")
    bad = M.astype(float)
    bad[0, 2, 1, 1] = np.nan
    own, both = {"clusters": True}, {"clusters": True, "strata": np.array([0, 1, 1, 0, 0, 1])}
    yield Case("clusters", (M, names), draws | own)
    yield Case("clusters-in-strata", (M, names), draws | both)
    yield Case("strata", (M, names), draws | {"strata": np.array(strata)})
    yield Case("bad-first", (bad, ("mcc", "f1")), draws | own, fails=True)
    yield Case("n", (M, ("mcc", "f1")), draws | own | {"n": 20})
    yield Case("single", (M[0], ("kappa",)), draws | own)
    yield Case("two-axes", (M.reshape(1, 2, 6, 3, 3), ("kappa", "f1")), draws | own)
    yield Case("batch-of-none", (M[:0], ("kappa", "f1")), draws | own)
    yield Case("no-clusters", (M[:, :0], ("accuracy", "f1")), draws | own)
    yield Case("one-cluster", (M[:, :1], ("accuracy", "f1")), draws | own)
    yield Case("float32", (M.astype(np.float32), ("accuracy", "f1")), draws | own)
    yield Case("1x1", (M[..., :1, :1], ("accuracy",)), draws | own)
    if draws:
        yield Case("percentile", (M, names), draws | both | {"method": "percentile", "confidence_level": 0.8})
        yield Case("basic", (M, names), draws | own | {"method": "basic"})
        yield Case("no-replicates", (M, names), draws | own | {"n_resamples": 0})
        yield Case("more-than-are-drawn-together", (M[0], ("mcc",)), own | {"n_resamples": 45, "rng": 3})


def _cells():
    rng = np.random.default_rng(38)
    M = rng.integers(1, 40, (5, 4, 4))
    M[:, range(4), range(4)] += 30
    gaps = M.copy()
    gaps[1, 0, 1:3] = gaps[2, 3, 0] = gaps[3, 2, 3] = 0
    blocks = M * np.kron(np.eye(2, dtype=int), np.ones((2, 2), int))  # each has a scale of its own
    bad = M.astype(float)
    bad[0, 0, 0], bad[4, 3, 3] = np.nan, -1.0
    empty = M.copy()
    empty[2, 1] = 0
    for of in ("all", "row", "col", "bi"):
        for fixed in ("total", "rows"):
            yield Case(f"{of}-{fixed}", (M,), {"of": of, "fixed": fixed})
        yield Case(f"{of}-gaps", (gaps,), {"of": of})
        yield Case(f"{of}-bad-first-and-last", (bad,), {"of": of}, fails=True)
        yield Case(f"{of}-n", (M / 7.0,), {"of": of, "n": 500})
        yield Case(f"{of}-single", (M[0],), {"of": of})
        yield Case(f"{of}-two-axes", (M[:4].reshape(2, 2, 4, 4),), {"of": of})
        yield Case(f"{of}-batch-of-none", (M[:0],), {"of": of})
        yield Case(f"{of}-1x1", (M[:2, :1, :1],), {"of": of})
        yield Case(f"{of}-fractions", (M / 7.0,), {"of": of}, fails=True)
    yield Case("bi-blocks", (blocks,), {"of": "bi"})
    yield Case("bi-diagonal", (M * np.eye(4, dtype=int),), {"of": "bi"})
    yield Case("bi-empty-class", (empty,), {"of": "bi"}, fails=True)
    yield Case("row-empty-class", (empty,), {"of": "row"})
    yield Case("bi-many-classes", (rng.integers(1, 9, (1, 13, 13)),), {"of": "bi"})
    yield Case("float32", (M.astype(np.float32),), {"of": "row"})


def _clustered(rng, *, empty=0.1):
    M = rng.integers(0, 5, (2, 7, 3, 3)) * (rng.random((2, 7, 1, 1)) > empty)
    M[..., range(3), range(3)] += rng.integers(1, 6, (2, 7, 3))
    return M


def _redrawn():
    rng = np.random.default_rng(39)
    M, few, own = _clustered(rng), {"n_resamples": 9, "rng": 5}, {"clusters": True}
    bad = M.astype(float)
    bad[1, 2, 1, 1] = 0.5
    yield Case("clusters", (M,), few | own)
    yield Case("clusters-in-strata", (M,), few | own | {"strata": np.array([0, 1, 1, 0, 0, 1, 2])})
    yield Case("strata", (M,), few | {"strata": np.array([1, 0, 1, 2, 0, 1, 1])})
    yield Case("n", (M,), few | own | {"n": 20})
    yield Case("bad-last", (bad,), few | own)
    yield Case("batch-of-none", (M[:0],), few | own)
    yield Case("no-clusters", (M[:, :0],), few | own)
    yield Case("float32", (M.astype(np.float32),), few | own)
    yield Case("1x1", (M[..., :1, :1],), few | own)
    yield Case("no-replicates", (M,), own | {"n_resamples": 0})
    yield Case("more-than-are-drawn-together", (M[0],), own | {"n_resamples": 70, "rng": 3})


def _cells_of_clusters():
    rng = np.random.default_rng(40)
    M = _clustered(rng)
    gaps = M.copy()
    gaps[..., 0, 1] = 0
    bad = M.astype(float)
    bad[0, 2, 1, 1] = np.nan
    halves = M.astype(float)
    halves[1, 0, 0, 0] += 0.5
    own, both = {"clusters": True}, {"clusters": True, "strata": np.array([0, 1, 1, 0, 0, 1, 1])}
    for of in ("all", "row", "col", "bi"):
        yield Case(f"{of}-clusters", (M,), {"of": of} | own)
        yield Case(f"{of}-strata", (M,), {"of": of} | (both if of == "row" else {"strata": np.arange(7) % 3}))
    for of in ("col", "bi"):
        yield Case(f"{of}-n", (M,), {"of": of, "n": 28} | own)
        yield Case(f"{of}-gaps", (gaps,), {"of": of} | own)
        yield Case(f"{of}-bad-first", (bad,), {"of": of} | own, fails=True)
        yield Case(f"{of}-one-cluster", (M[:, :1],), {"of": of} | own, fails=of == "bi")
    yield Case("bi-both", (M,), {"of": "bi"} | both)
    yield Case("halves-last", (halves,), {"of": "bi"} | own, fails=True)
    yield Case("two-axes", (M.reshape(2, 1, 7, 3, 3),), {"of": "bi"} | own)
    yield Case("batch-of-none", (M[:0],), {"of": "bi"} | own)
    yield Case("1x1", (M[..., :1, :1],), {"of": "bi"} | own)
    yield Case("float32", (M.astype(np.float32),), {"of": "row"} | own)


def _carried():
    rng = np.random.default_rng(36)
    counts = rng.integers(1, 30, (9, 4, 4))
    counts[:, range(4), range(4)] += 60
    gaps = counts.copy()
    gaps[:, 0, 3] = gaps[:, 1, 3] = gaps[::2, 3, 0] = 0
    names = ("accuracy", "f1_macro", "mcc", "kappa_linear", "kappa_quadratic", "gerrity", "precision_weighted", "tau")
    yield Case("full", (counts,), {"names": names})
    yield Case("empty-cells", (gaps,), {"names": names})
    yield Case("n", (gaps[:2] / 7.0,), {"names": names, "n": 300})
    yield Case("no-prior", (counts,), {"names": names[:5], "prior": 0.0})
    yield Case("single", (counts[0],), {"names": names[2:4]})
    yield Case("two-axes", (counts[:4].reshape(2, 2, 4, 4),), {"names": names[:2]})
    yield Case("batch-of-none", (counts[:0],), {"names": names[:2]})
    yield Case("empty-matrix", (np.stack([counts[0], 0 * counts[0]]),), {"names": names[:3]})
    yield Case("1x1", (counts[:2, :1, :1],), {"names": ("accuracy",)})
    yield Case("float32", (counts.astype(np.float32),), {"names": names[:3]})


def _scores():
    rng = np.random.default_rng(42)
    s, y = rng.normal(size=(2, 3, 31)), rng.integers(0, 2, (2, 31))
    w = rng.integers(0, 9, y.shape)
    coarse = np.round(s * 2) / 2
    yield Case("one-model", (s[0, :1], y[0]))
    yield Case("models", (s[0], y[0]))
    yield Case("batch", (s, y))
    yield Case("two-axes", (s[:, np.newaxis], y[:, np.newaxis]))
    yield Case("ties", (coarse, y))
    yield Case("all-equal", (s * 0, y))
    yield Case("integers", (rng.integers(-3, 4, s.shape), y))
    yield Case("bool-labels", (s, y == 1))
    yield Case("minus-one", (coarse, 2 * y - 1))
    yield Case("float32", (s.astype(np.float32), y))
    yield Case("float16", (s.astype(np.float16), y))
    yield Case("weights", (coarse, y), {"sample_weight": w / 4})
    yield Case("weights-int", (s, y), {"sample_weight": w})
    yield Case("weights-float32", (coarse[0], y[0]), {"sample_weight": w[0].astype(np.float32)})
    yield Case("weights-of-a-class-zero", (s, y), {"sample_weight": w * y})
    yield Case("positive-7", (s, 7 * y + 3), {"pos_label": 10})
    # Leading digits do not tell the order: of few scores, of many, and of ties among them.
    far = 1.0 + np.round(s * 9) * 2.0**-52
    far[..., 0], far[..., 1] = np.inf, -np.inf
    yield Case("close-beside-infinite", (far, y))
    close = 1.0 + np.round(rng.normal(size=(2, 90)) * 40) * 2.0**-52
    close[:, 0], close[:, 1] = 1e300, -5e-324
    yield Case("many-close", (close, rng.integers(0, 2, 90)))
    yield Case("many-close-weights", (close, np.arange(90) % 2), {"sample_weight": rng.integers(0, 5, 90) / 2})
    zeros = np.where(rng.random((2, 70)) < 0.5, 0.0, -0.0)
    zeros[:, 5:9] = [5e-324, -5e-324, np.inf, -np.inf]
    yield Case("zeros-of-both-signs", (zeros, np.arange(70) % 3 == 0))
    yield Case("several-blocks-of-models", (rng.random((11, 40)), rng.integers(0, 2, 40)))
    yield Case("separated", (s[0] + 99 * y[0], y[0]))
    yield Case("one-positive", (s[0], np.arange(31) == 4))
    yield Case("no-positive", (s[0], y[0] * 0))
    yield Case("two-samples", (s[0, :, :2], np.array([0, 1])))
    yield Case("no-samples", (s[:, :, :0], y[:, :0]))
    yield Case("no-models", (s[:, :0], y))
    yield Case("batch-of-none", (s[:0], y[:0]))
    bad, wrong, no_number, negative = s.copy(), y.copy(), w / 4, w / 4
    bad[0, 1, 5], wrong[1, 30], no_number[1, 3], negative[0, 0] = np.nan, 2, np.nan, -1
    yield Case("nan", (bad, y), fails=True)
    yield Case("label-2", (s, wrong), fails=True)
    yield Case("weights-nan", (s, y), {"sample_weight": no_number}, fails=True)
    yield Case("weights-negative", (s, y), {"sample_weight": negative}, fails=True)


CASES = {
    "auc_covariance": list(_scores()),
    "carrying_samples": list(_carried()),
    "cell_errors": list(_cells()),
    "cluster_cell_errors": list(_cells_of_clusters()),
    "cluster_replicates": list(_redrawn()),
    "cluster_errors": list(_clusters({})),
    "cluster_intervals": list(_clusters({"n_resamples": 21, "rng": 6})),
    "paired_errors": list(_paired_without_draws()),
    "paired_replicates": list(_paired()),
    "metric_draws": list(
        _drawn("n_resamples", {"unit": {}} | {prior: {"prior": prior} for prior in ("perks", "jeffreys", "haldane")})
    ),
    "metric_intervals": list(_drawn("n_resamples", _INTERVALS)),
    "replicate_intervals": list(_replicates()),
    "resample": list(_cases()),
    "standard_errors": list(_with_slopes()),
}
