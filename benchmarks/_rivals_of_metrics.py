"""Competitors in metrics and in the simulation of how far they spread, each in its own best form."""

import warnings

import numpy as np


def numpy_metrics(M):
    """NumPy expressions over the whole batch: every metric of one number per matrix; every class true and predicted."""
    C = M.shape[-1]
    n = M.sum((-2, -1), dtype=float)
    d = np.diagonal(M, axis1=-2, axis2=-1).astype(float)
    t, p = M.sum(-1, dtype=float), M.sum(-2, dtype=float)
    a, N = d.sum(-1), n[:, None]
    tn = N - t - p + d
    cov = d * tn - (t - d) * (p - d)
    recall, precision, specificity, npv = d / t, d / p, tn / (N - t), tn / (N - p)
    f1, jaccard = 2 * d / (t + p), d / (t + p - d)
    out = {"accuracy": a / n, "balanced_accuracy": recall.mean(-1), "min_recall": recall.min(-1)}
    by_class = {
        "recall": recall, "precision": precision, "f1": f1, "jaccard": jaccard, "specificity": specificity, "npv": npv
    }  # fmt: skip
    for name, values in by_class.items():
        out[f"{name}_macro"] = values.mean(-1)
        out[f"{name}_weighted"] = (t * values).sum(-1) / n
        out[f"{name}_micro"] = a / n
    out["jaccard_micro"] = a / (2 * n - a)
    out["specificity_micro"] = out["npv_micro"] = ((C - 2) * n + a) / ((C - 1) * n)
    out["balanced_accuracy_adjusted"] = (out["balanced_accuracy"] - 1 / C) / (1 - 1 / C)
    out["geometric_mean"] = recall.prod(-1) ** (1 / C)
    out["tau"] = 1 - np.sqrt(((1 - recall) ** 2).mean(-1))
    P, R = out["precision_macro"], out["recall_macro"]
    out["f1_of_macro"] = 2 * P * R / (P + R)
    whole, truth, chance = cov.sum(-1), (t * (N - t)).sum(-1), (t * (N - p)).sum(-1)
    out["mcc"] = whole / np.sqrt(truth * (p * (N - p)).sum(-1))
    out["kappa"], out["peirce"] = whole / chance, whole / truth
    out["mcc_01"], out["kappa_01"] = (out["mcc"] + 1) / 2, (out["kappa"] + 1) / 2
    i = np.arange(C)
    for name, W in (("kappa_linear", abs(i[:, None] - i)), ("kappa_quadratic", (i[:, None] - i) ** 2)):
        out[name] = 1 - n * np.einsum("bij,ij->b", M, W) / np.einsum("bi,ij,bj->b", t, W, p, optimize=True)
    below = t.cumsum(-1)[:, :-1]
    odds = (N - below) / below
    low = np.concatenate([np.zeros_like(N), (1 / odds).cumsum(-1)], -1)
    high = np.concatenate([odds[:, ::-1].cumsum(-1)[:, ::-1], np.zeros_like(N)], -1)
    least, most = np.minimum(i[:, None], i), np.maximum(i[:, None], i)
    out["gerrity"] = ((low[:, least] + high[:, most] - (most - least)) * M).sum((-2, -1)) / ((C - 1) * n)
    out["accuracy_ovr_macro"] = ((d + tn) / N).mean(-1)
    out["balanced_accuracy_ovr_macro"] = ((recall + specificity) / 2).mean(-1)
    out["geometric_mean_ovr_macro"] = np.sqrt(recall * specificity).mean(-1)
    out["tau_ovr_macro"] = (1 - np.sqrt(((1 - recall) ** 2 + (1 - specificity) ** 2) / 2)).mean(-1)
    out["tss_ovr_macro"] = (cov / (t * (N - t))).mean(-1)
    out["heidke_ovr_macro"] = (2 * cov / (t * (N - p) + p * (N - t))).mean(-1)
    hits = t * p / N
    out["gilbert_ovr_macro"] = ((d - hits) / (t + p - d - hits)).mean(-1)
    out["doolittle_ovr_macro"] = (cov**2 / (t * (N - t) * p * (N - p))).mean(-1)
    return out


def sklearn_metrics(labels):
    """scikit-learn, from the labels of one matrix at a time: the metrics that it has."""
    import sklearn.metrics as skm

    found = []
    for y, p in labels:
        precision, recall, f1, _ = skm.precision_recall_fscore_support(y, p, average="macro", zero_division=0)
        row = {
            "accuracy": skm.accuracy_score(y, p),
            "balanced_accuracy": skm.balanced_accuracy_score(y, p),
            "mcc": skm.matthews_corrcoef(y, p),
            "jaccard_macro": skm.jaccard_score(y, p, average="macro"),
            "precision_macro": precision,
            "recall_macro": recall,
            "f1_macro": f1,
        }
        kappas = {"kappa": None, "kappa_linear": "linear", "kappa_quadratic": "quadratic"}
        found.append(row | {name: skm.cohen_kappa_score(y, p, weights=w) for name, w in kappas.items()})
    return {name: np.array([row[name] for row in found]) for name in found[0]}


def pycm_metrics(M):
    """PyCM, from one matrix at a time; it always computes all of its statistics."""
    from pycm import ConfusionMatrix

    names = {
        "accuracy": "Overall_ACC",
        "mcc": "Overall_MCC",
        "kappa": "Kappa",
        "recall_macro": "TPR_Macro",
        "precision_macro": "PPV_Macro",
        "f1_macro": "F1_Macro",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [ConfusionMatrix(matrix={i: dict(enumerate(row)) for i, row in enumerate(m)}) for m in M.tolist()]
    return {name: np.array([getattr(one, theirs) for one in found]) for name, theirs in names.items()}


def numpy_simulation(teams, sizes, n_repetitions):
    """NumPy in the form of the notebook: a loop over repetitions and teams, one matrix and one metric at a time."""
    rng = np.random.default_rng(0)
    support, found = teams.sum(-1), teams[..., 1:].sum(-1)
    shares, rates = teams[..., 1:] / found[..., None], found / support
    functions = (_accuracy, _geometric_mean, _mcc, _f1_of_macro, _f1_macro, _kappa)
    values = np.empty((len(sizes), 2, len(functions), len(teams), n_repetitions))
    edges = np.cumsum(support[0] / support[0].sum())[:-1]
    for s, n in enumerate(sizes):
        for repetition in range(n_repetitions):
            drawn = np.bincount(np.searchsorted(edges, rng.random(n)), minlength=teams.shape[1])
            for team in range(len(teams)):
                detected = np.round(drawn * rates[team])
                M = np.round(detected[:, None] * shares[team])
                for kind, matrix in enumerate((M, M / M.sum(1, keepdims=True))):
                    for k, function in enumerate(functions):
                        values[s, kind, k, team, repetition] = function(matrix)
    ordered = np.sort(values, axis=-1)
    return (ordered[..., int(0.975 * n_repetitions)] - ordered[..., int(0.025 * n_repetitions)]).max(-1)


def numpy_simulation_at_once(teams, sizes, n_repetitions):
    """NumPy, on all repetitions: multinomial draws, and every metric of the whole batch."""
    rng = np.random.default_rng(0)
    support, found = teams.sum(-1), teams[..., 1:].sum(-1)
    shares, rates = teams[..., 1:] / found[..., None], found / support
    out = np.empty((len(sizes), 2, 6))
    ends = int(0.025 * n_repetitions), int(0.975 * n_repetitions)
    for s, n in enumerate(sizes):
        drawn = rng.multinomial(n, support[0] / support[0].sum(), n_repetitions)
        M = np.round(np.round(drawn * rates[:, None])[..., None] * shares[:, None])
        for kind, matrices in enumerate((M, M / M.sum(-1, keepdims=True))):
            ordered = np.partition(_six_metrics(matrices), ends, axis=-1)
            out[s, kind] = (ordered[..., ends[1]] - ordered[..., ends[0]]).max(-1)
    return out


def _six_metrics(M):
    """Return the six metrics of the simulation, of a whole batch."""
    d, t, p = np.diagonal(M, axis1=-2, axis2=-1), M.sum(-1), M.sum(-2)
    n, a, tp = t.sum(-1), d.sum(-1), (t * p).sum(-1)
    recall, precision = d / t, d / p
    P, R = precision.mean(-1), recall.mean(-1)
    mcc = (n * a - tp) / np.sqrt((n * n - (t * t).sum(-1)) * (n * n - (p * p).sum(-1)))
    kappa = (n * a - tp) / (n * n - tp)
    geometric = recall.prod(-1) ** (1 / M.shape[-1])
    f1 = (2 * d / (t + p)).mean(-1)
    return np.stack([a / n, geometric, (1 + mcc) / 2, 2 * P * R / (P + R), f1, (1 + kappa) / 2])


def _accuracy(M):
    return np.trace(M) / M.sum()


def _geometric_mean(M):
    return np.prod(np.diag(M) / M.sum(1)) ** (1 / len(M))


def _mcc(M):
    n, t, p = M.sum(), M.sum(1), M.sum(0)
    return (1 + (n * np.trace(M) - t @ p) / np.sqrt((n * n - t @ t) * (n * n - p @ p))) / 2


def _kappa(M):
    n, chance = M.sum(), M.sum(1) @ M.sum(0)
    return (1 + (n * np.trace(M) - chance) / (n * n - chance)) / 2


def _f1_of_macro(M):
    P, R = (np.diag(M) / M.sum(0)).mean(), (np.diag(M) / M.sum(1)).mean()
    return 2 * P * R / (P + R)


def _f1_macro(M):
    return (2 * np.diag(M) / (M.sum(0) + M.sum(1))).mean()


def sklearn_accuracy(y, p):
    """scikit-learn's accuracy, from the labels."""
    from sklearn.metrics import accuracy_score

    return accuracy_score(y, p)


def sklearn_label_metrics(y, p):
    """scikit-learn's macro and weighted precision, recall and F1, and the accuracy: it needs no matrix for these."""
    import sklearn.metrics as skm

    found = {"accuracy": skm.accuracy_score(y, p)}
    for average in ("macro", "weighted"):
        values = skm.precision_recall_fscore_support(y, p, average=average, zero_division=0)
        found |= {f"{name}_{average}": x for name, x in zip(("precision", "recall", "f1"), values[:3], strict=True)}
    return found


def torchmetrics_label_metrics(y, p, C):
    """Macro precision, recall and F1 by torchmetrics, which counts all pairs of classes."""
    import torch
    from torchmetrics.functional import classification

    y, p = torch.from_numpy(y), torch.from_numpy(p)
    functions = {
        "precision_macro": classification.multiclass_precision,
        "recall_macro": classification.multiclass_recall,
        "f1_macro": classification.multiclass_f1_score,
    }
    return {name: float(function(p, y, C, validate_args=False)) for name, function in functions.items()}


def numpy_label_margins(y, p, C):
    """NumPy: three bincounts, of the truth, the predictions and the correct predictions."""
    return [np.bincount(ids, minlength=C) for ids in (y, p, y[y == p])]


def label_metrics(margins):
    """Return accuracy and macro and weighted precision, recall and F1; every class true and predicted."""
    t, p, d = (counts.astype(float) for counts in margins)
    found = {"accuracy": d.sum() / t.sum()}
    for name, values in (("precision", d / p), ("recall", d / t), ("f1", 2 * d / (t + p))):
        found |= {f"{name}_macro": values.mean(), f"{name}_weighted": (t * values).sum() / t.sum()}
    return found


def numpy_roc(y, scores, weight):
    """Return scores in descending order and both rates at each, as one would write it."""
    order = np.argsort(-scores)
    hits = y[order]
    own = 1 if weight is None else weight[order]
    true, false = np.cumsum(hits * own), np.cumsum((1 - hits) * own)
    return scores[order], false / false[-1], true / true[-1]


def sklearn_roc(y, scores, weight):
    """Return thresholds and both rates by scikit-learn, with a point for every score."""
    from sklearn.metrics import roc_curve

    false, true, thresholds = roc_curve(y, scores, sample_weight=weight, drop_intermediate=False)
    return thresholds, false, true
