"""Matrices for the metrics: degenerate ones first, then every type and every size of batch."""

import numpy as np

from cases._case import Case
from cmfast import metrics

EVERY = (
    "accuracy", "recall", "precision", "f1", "fbeta_2", "jaccard", "specificity", "npv", "recall_macro",
    "recall_weighted", "recall_micro", "precision_macro", "precision_weighted", "precision_micro", "f1_macro",
    "f1_weighted", "f1_micro", "fbeta_0.5_macro", "jaccard_macro", "jaccard_weighted", "jaccard_micro",
    "specificity_macro", "specificity_weighted", "specificity_micro", "npv_macro", "npv_weighted", "npv_micro",
    "balanced_accuracy", "balanced_accuracy_adjusted", "min_recall", "geometric_mean", "tau", "f1_of_macro",
    "mcc", "kappa", "mcc_01", "kappa_01", "kappa_linear", "kappa_quadratic", "peirce", "gerrity",
    "accuracy_ovr", "balanced_accuracy_ovr", "geometric_mean_ovr", "tau_ovr", "tss_ovr", "heidke_ovr",
    "gilbert_ovr", "doolittle_ovr", "accuracy_ovr_macro", "balanced_accuracy_ovr_macro",
    "geometric_mean_ovr_macro", "tau_ovr_macro", "tss_ovr_macro", "heidke_ovr_macro", "gilbert_ovr_macro",
    "doolittle_ovr_macro", "fbeta_0", "fbeta_inf", "fbeta_1e150", "fbeta_0_macro", "fbeta_inf_weighted",
    "fpr", "fnr", "fdr", "for", "positive_likelihood_ratio", "negative_likelihood_ratio", "diagnostic_odds_ratio",
    "fowlkes_mallows", "fpr_macro", "fnr_weighted", "fdr_macro", "for_weighted", "fpr_micro", "fnr_micro", "fdr_micro",
    "for_micro", "positive_likelihood_ratio_weighted", "positive_likelihood_ratio_micro", "fowlkes_mallows_micro",
    "negative_likelihood_ratio_micro", "diagnostic_odds_ratio_macro", "diagnostic_odds_ratio_micro", "zero_one_loss",
    "scott_pi", "krippendorff_alpha", "gwet_ac1", "markedness_ovr", "mcc_ovr", "markedness_ovr_macro", "mcc_ovr_macro",
    "fbeta_2_micro",
)  # fmt: skip
BINARY = (
    "tss", "gilbert", "doolittle", "youden_j", "gss", "dss", "recall", "mcc", "markedness", "informedness",
    "precision_binary", "recall_binary", "f1_binary", "jaccard_binary", "fpr_binary", "fbeta_2_binary",
    "diagnostic_odds_ratio_binary",
)  # fmt: skip
LEFT = tuple(name for name in (*metrics.SCALARS, *metrics.PER_CLASS) if name not in EVERY)  # new ones too
LEFT_BINARY = tuple(name for name in metrics.BINARY if name not in BINARY)
UNORDERED = tuple(name for name in EVERY if name not in ("kappa_linear", "kappa_quadratic", "gerrity"))


def _stacks():
    """Yield ``(id, matrices, fails)``."""
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 50, (7, 4, 4))
    yield from _bad(counts)
    yield from _degenerate()
    yield from _huge(rng)
    yield from _empty()
    yield from _types(counts)
    yield from _shapes(rng)


def _bad(counts):
    bad = counts.astype(float)
    bad[0, 0, 0], bad[3, 1, 2], bad[6, 3, 3] = np.nan, np.inf, -1.0
    negative = counts.copy()
    negative[0, 0, 0], negative[3, 1, 2], negative[6, 3, 3] = -1, np.iinfo(np.int64).min, -5
    yield "bad", bad, True
    yield "negative", negative, True
    yield "too-many", np.array([[[2**62, 0], [0, 2**62]], [[1, 2], [3, 4]]]), True
    yield "uint64-too-large", np.array([[[2**63, 1], [1, 1]], [[1, 2], [3, 4]]], np.uint64), True
    yield "overflow", np.full((1, 2, 2), 1e308), True


def _degenerate():
    degenerate = np.zeros((9, 3, 3), int)
    degenerate[1, 0, 0] = 5  # all in one cell of the diagonal
    degenerate[2, 0, 1] = 5  # and off it
    degenerate[3, 0] = 3, 2, 1  # one true class
    degenerate[4, :, 1] = 4, 5, 6  # a constant predictor
    degenerate[5] = [[5, 1, 1], [1, 5, 0], [0, 0, 0]]
    degenerate[6] = [[5, 1, 0], [1, 5, 0], [1, 1, 0]]
    degenerate[7] = [[5, 1, 0], [1, 5, 0], [0, 0, 0]]
    degenerate[8] = [[0, 5, 0], [0, 0, 5], [5, 0, 0]]
    yield "degenerate", degenerate, False
    yield "degenerate-fractions", degenerate / 7.0, False


def _huge(rng):
    huge = np.array([[[10**18, 10**18], [10**18, 2]], [[2**61, 3], [5, 2**61]], [[2**62, 0], [0, 2**62 - 1]]])
    yield "huge-counts", huge, False
    yield "huge-3", rng.integers(0, 2**58, (5, 3, 3)), False
    yield "wide-5", rng.integers(0, 2**40, (6, 5, 5)), False
    yield "products-beyond-a-float", rng.integers(0, 2**25, (11, 3, 3)), False
    yield "sums-beyond-a-float", rng.integers(2**48, 2**52, (11, 3, 3)), False


def _empty():
    yield "0x0", np.empty((3, 0, 0)), False
    yield "1x1", np.array([[[3]], [[0]]]), False
    yield "batch-of-none", np.empty((0, 3, 3), int), False
    yield "minus-zero", np.array([[1.0, -0.0], [2.0, 3.0]]), False


def _types(counts):
    yield "tiny", counts[:2] * 1e-300, False
    yield "large", counts[:2] * 1e290, False
    yield "single", counts[0], False
    yield "counts", counts, False
    yield "int32", counts.astype(np.int32), False
    yield "uint8", counts.astype(np.uint8), False
    yield "uint64", counts.astype(np.uint64), False
    yield "bool", counts > 20, False
    yield "float32", counts.astype(np.float32), False
    yield "float16", counts.astype(np.float16), False
    yield "rows", counts / counts.sum(-1, keepdims=True), False


def _shapes(rng):
    yield "perfect", np.eye(4, dtype=int) * np.arange(1, 5), False
    yield "two-axes", rng.integers(0, 9, (2, 3, 3, 3)), False
    yield "tiles", rng.integers(0, 4, (35, 3, 3)), False
    yield "many-classes", rng.integers(0, 3, (1, 66, 66)), False
    yield "rows-of-one-matrix", rng.random((2, 33, 33)), False
    spoiled = rng.random((3, 33, 33))
    spoiled[0, 32, 31], spoiled[2, 0, 0] = np.nan, -1e-9
    yield "bad-rows-of-one-matrix", spoiled, True


def _matrices():
    for name, M, fails in _stacks():
        yield Case(name, (M, EVERY), fails=fails)
        if "degenerate" in name or name in ("bad", "0x0", "1x1"):
            for undefined in ("nan", "strict", "zero", "one"):
                yield Case(f"{name}-{undefined}", (M, EVERY), {"undefined": undefined}, fails=fails)
        yield from _subsets(name, M, fails)
        if name in ("bad", "degenerate", "degenerate-fractions", "huge-counts", "1x1", "float32", "tiles"):
            yield from _weights(name, M, fails)
        if M.shape[-1] == 2:
            yield Case(f"{name}-binary", (M, BINARY), fails=fails)
        if name in ("degenerate", "degenerate-fractions", "huge-counts", "float32"):
            yield Case(f"{name}-left", (M, LEFT))
    rng = np.random.default_rng(6)
    binary = rng.integers(0, 3, (40, 2, 2))
    yield Case("binary-left", (binary, LEFT_BINARY))
    for pos_label in (0, 1):
        for undefined in ("present", "nan", "one"):
            options = {"pos_label": pos_label, "undefined": undefined}
            yield Case(f"binary-{pos_label}-{undefined}", (binary, BINARY), options)


def of_weights(C):
    """Return names with weights of `C` classes in them."""
    given = ("1", "0.25", "5", "0")[:C]
    return (f"tau_weighted_{'_'.join(given)}", "tau", "recall", f"tau_weighted_{'_'.join(given[::-1])}")


def _weights(name, M, fails):
    """Yield two taus with weights, beside others of the same recalls."""
    C = M.shape[-1]
    for undefined in ("present", "nan", "strict", "one"):
        yield Case(f"{name}-weights-{undefined}", (M, of_weights(C)), {"undefined": undefined}, fails=fails)
    yield Case(f"{name}-weights-some", (M, of_weights(C)), {"average_over": [C - 1, 0][: min(2, C)]}, fails=fails)


def _subsets(name, M, fails):
    """Yield averages over some classes."""
    C = M.shape[-1]
    if name in ("bad", "degenerate", "huge-counts", "huge-3", "uint8", "float32", "rows", "rows-of-one-matrix", "1x1"):
        for undefined in ("present", "nan", "strict", "one"):
            options = {"average_over": [C - 1, 0][: min(2, C)], "undefined": undefined}
            yield Case(f"{name}-some-{undefined}", (M, EVERY), options, fails=fails)


def _sums():
    for name, M, fails in _stacks():
        if not fails:
            dtype = M.dtype if M.dtype.kind == "f" else np.int64
            d = np.diagonal(M, axis1=-2, axis2=-1).astype(dtype)
            yield Case(name, (d, M.sum(-1, dtype=dtype), M.sum(-2, dtype=dtype), UNORDERED))
    d, t, p = np.array([[1, 2], [3, 1], [1, 1]]), np.array([[2, 2], [2, 4], [3, 1]]), np.array([[2, 2], [3, 3], [2, 1]])
    yield Case("no-matrix-has-them", (d, t, p, UNORDERED), fails=True)
    yield Case("negative", (-d, t, p, UNORDERED), fails=True)
    yield Case("nan", (d * np.nan, t * 1.0, p * 1.0, UNORDERED), fails=True)


def _weighted():
    rng = np.random.default_rng(7)
    for name, M, fails in _stacks():
        C = M.shape[-1]
        if "huge" not in name:
            W = rng.integers(0, 9, (C, C)) * (1 - np.eye(C, dtype=int))
            yield Case(name, (M,), {"weights": W.astype(M.dtype) if M.dtype.kind == "f" else W}, fails=fails)
            yield Case(f"{name}-nan", (M,), {"weights": W * 0.5, "undefined": "nan"}, fails=fails)
    yield Case("diagonal-weights", (np.ones((2, 3, 3)),), {"weights": np.ones((3, 3))}, fails=True)
    yield Case("negative-weights", (np.ones((2, 3, 3)),), {"weights": np.eye(3) - 1}, fails=True)


def _fractions():
    for name, M, fails in _stacks():
        yield Case(name, (M,), fails=fails)
        if "degenerate" in name:
            for undefined in ("nan", "strict", "zero", "one"):
                yield Case(f"{name}-{undefined}", (M,), {"undefined": undefined})


def _confused():
    for name, M, fails in _stacks():
        if name not in ("tiny", "large", "rows", "two-axes"):  # sums of two rounded shares may tie or not
            yield Case(name, (M,), fails=fails)
            yield Case(f"{name}-symmetric", (M, 2), {"by": "symmetric"}, fails=fails)
    rng = np.random.default_rng(8)
    powers = rng.integers(0, 9, (20, 4, 4))
    powers[..., 0] += 64 - powers.sum(-1)  # shares and their sums without rounding
    yield Case("rate", (powers, 6), {"by": "rate"})
    yield Case("symmetric-rate", (powers, 100), {"by": "symmetric_rate"})


def _labels():
    rng = np.random.default_rng(9)
    y, p = rng.integers(0, 5, (2, 3, 200))
    yield Case("none", (y[:0], p[:0]))
    yield Case("no-samples", (y[:, :0], p[:, :0]))
    yield Case("no-samples-3", (y[:, :0], p[:, :0]), {"n_classes": 3})
    yield Case("one", (y[0, :1], p[0, :1]))
    yield Case("batch", (y, p))
    yield Case("more-classes", (y, p), {"n_classes": 9})
    yield Case("int32", (y.astype(np.int32), p.astype(np.int32)))
    yield Case("uint8", (y.astype(np.uint8), p.astype(np.uint8)))
    yield Case("bool", (y > 2, p > 2))
    yield Case("many", (rng.integers(0, 30, 60_000), rng.integers(0, 30, 60_000)), {"n_classes": 30})
    yield Case("int8", (y.astype(np.int8), p.astype(np.int8)))
    yield Case("int8-beside-int64", (y.astype(np.int8), p))
    yield Case("ignored", (np.where(y == 1, 255, y), p), {"ignore_index": 255})
    yield Case("ignored-a-class", (y, p), {"ignore_index": 1, "n_classes": 6})
    yield Case("ignored-two", (np.where(y == 1, 255, y), p), {"ignore_index": [255, 2]})
    yield Case("ignored-negative", (np.where(y == 1, -1, y).astype(np.int8), p.astype(np.int8)), {"ignore_index": -1})
    for name, pool in (
        ("gaps", [1, 2, 3, 9, 4]),
        ("negative", [-7, -1, 5, 0, 2]),
        ("wide", [3, -(10**9), 10**12, 7, 1]),
    ):
        labels = np.array(pool)
        yield Case(f"labels-{name}", (labels[y], labels[p]))
        yield Case(f"labels-{name}-ignored", (labels[y], labels[p]), {"ignore_index": int(labels[2])})
    beside = np.where(y == 1, 40, p)  # occurs where the truth is ignored, and nowhere else
    yield Case("labels-beside-ignored", (y, beside), {"ignore_index": 1})
    yield Case("labels-uint64", (y.astype(np.uint64) + np.uint64(2**63), p + 3))
    w, g = rng.integers(0, 2**20, y.shape) / 2**10, rng.integers(0, 3, y.shape)  # sums without rounding
    bad = w.copy()
    bad[1, 5] = np.nan
    yield Case("weights", (y, p), {"sample_weight": w})
    yield Case("weights-float32", (y, p), {"sample_weight": w.astype(np.float32)})
    yield Case("weights-nan", (y, p), {"sample_weight": bad})
    yield Case("weights-nan-gaps", (y * 2, p * 2), {"sample_weight": bad})
    yield Case("weights-none", (y, p), {"sample_weight": np.where((y == 2) | (p == 2), 0.0, w)})
    yield Case("weights-int", (y, p), {"sample_weight": rng.integers(0, 2**50, y.shape)})
    yield Case("weights-int-beyond", (y, p), {"sample_weight": rng.integers(2**60, 2**62, y.shape)})
    yield Case("weights-uint64", (y, p), {"sample_weight": rng.integers(2**53, 2**55, y.shape).astype(np.uint64)})
    yield Case("groups", (y, p), {"groups": g})
    yield Case("groups-weights", (y, p), {"groups": g.astype(np.int8), "n_groups": 5, "sample_weight": w})
    yield Case("groups-weights-nan-ignored", (y, p), {"groups": g, "sample_weight": bad, "ignore_index": 0})
    yield Case("groups-gaps", (y * 3, p * 3), {"groups": g, "sample_weight": w})
    yield Case("groups-row", (y[0], p[0]), {"groups": g[0], "sample_weight": g[0]})
    yield Case("no-samples-groups", (y[:, :0], p[:, :0]), {"groups": g[:, :0], "n_classes": 3})


def _thresholds():
    rng = np.random.default_rng(10)
    s, y = rng.random((3, 40)), rng.integers(0, 2, (3, 40))
    bad, wrong = s.copy(), y.copy()
    bad[0, 0], wrong[2, 39] = np.nan, 2
    yield Case("nan", (bad, y), fails=True)
    yield Case("label-2", (s, wrong), fails=True)
    yield Case("infinite", (np.array([-np.inf, np.inf, 0.0, -0.0, 5e-324]), np.array([0, 1, 1, 0, 1])))
    yield Case("none", (s[:, :0], y[:, :0]))
    yield Case("batch-of-none", (s[:0], y[:0]))
    yield Case("one", (s[0, :1], y[0, :1]))
    yield Case("ties", (rng.integers(0, 4, (5, 30)) / 4, rng.integers(0, 2, (5, 30))))
    yield Case("all-equal", (np.zeros(9), np.arange(9) % 2))
    yield Case("float32", (s.astype(np.float32), y))
    yield Case("float32-row", (s[0].astype(np.float32), y[0].astype(np.uint8)))
    yield Case("float16", (bad.astype(np.float16), y.astype(np.int32)), fails=True)
    tiny = np.array([1e-45, 0.0, -1e-45, 3e-45, -0.0], np.float32)
    yield Case("float32-denormals", (np.stack([tiny, tiny[::-1]]), np.array([[1, 0, 1, 0, 1], [0, 0, 1, 1, 1]], "i1")))
    yield Case("integers", (rng.integers(-5, 5, 30), rng.integers(0, 2, 30).astype(bool)))
    w = rng.integers(0, 2**20, y.shape) / 2**10  # sums without rounding
    no_number = w.copy()
    no_number[1, 7] = np.inf
    tied = rng.integers(0, 6, y.shape) / 4
    yield Case("minus-one", (s, 2 * y - 1))
    yield Case("weights", (tied, y), {"sample_weight": w})
    yield Case("weights-float32", (tied, y), {"sample_weight": w.astype(np.float32)})
    yield Case("weights-int", (tied, y), {"sample_weight": rng.integers(0, 9, y.shape)})
    yield Case("weights-infinite", (tied, y), {"sample_weight": no_number}, fails=True)
    yield Case("weights-none", (tied[:, :0], y[:, :0]), {"sample_weight": w[:, :0]})
    yield Case("positive-7", (tied, y * 7 + 3), {"pos_label": 10})
    yield Case("positive-0", (tied[0], y[0]), {"pos_label": 0, "sample_weight": w[0]})
    yield Case("one-class", (tied, y * 0 + 1))


def _wide_scores():
    """Return scores that are distinct integers, but not as float64, and labels."""
    s = 2**60 + np.random.default_rng(11).permutation(40).reshape(2, 20)
    return s, (s % 3 > 0).astype(np.int64)


CASES = {
    "confusion_fractions": list(_fractions()),
    "label_margins": list(_labels()),
    "most_confused": list(_confused()),
    "threshold_matrices": list(_thresholds()),
    "score_areas": [*_thresholds(), Case("wide-integers", _wide_scores())],
    "least_cost": [
        Case(case.id, (*case.args, [[0.0, 1.0], [2.5, -0.5]]), case.options, fails=case.fails) for case in _thresholds()
    ],
    "one_vs_rest": [Case(name, (M,), fails=fails) for name, M, fails in _stacks()],
    "margins": [Case(name, (M,), fails=fails) for name, M, fails in _stacks()],
    "metrics_of_matrices": list(_matrices()),
    "metrics_of_sums": list(_sums()),
    "weighted_kappa": list(_weighted()),
}


SLOPED = (
    "accuracy", "f1_macro", "recall_weighted", "precision_micro", "mcc", "kappa_quadratic", "gerrity", "tau",
    "geometric_mean", "min_recall", "krippendorff_alpha", "mcc_01", "f1_of_macro", "recall", "mcc_ovr",
)  # fmt: skip


def _gradients():
    rng = np.random.default_rng(20267)
    for name, M in (
        ("shares", rng.random((9, 3, 3)) + 0.01),
        ("float32", (rng.integers(1, 40, (2, 4, 4)) * 0.5).astype(np.float32)),
        ("single", rng.random((5, 5)) * 100),
        ("bad", np.stack([np.full((3, 3), np.nan), rng.random((3, 3)) + 0.1])),
        ("batch-of-none", np.empty((0, 3, 3))),
    ):
        batch, C = M.shape[:-2], M.shape[-1]
        yield Case(name, (M, rng.normal(size=(*batch, 13)), rng.normal(size=(*batch, 2, C))), {"names": SLOPED})


CASES["metrics_gradient"] = list(_gradients())
