"""Each competitor wrapped once, in its own best form and with its own threads, with our inputs and outputs."""

import warnings

import numpy as np


def sklearn_confusion_matrix(y, p):
    """scikit-learn's ``confusion_matrix``."""
    from sklearn.metrics import confusion_matrix

    return confusion_matrix(y, p)


def numpy_bincount(y, p, C):
    """NumPy: one combined index, one bincount."""
    return np.bincount(y * C + p, minlength=C * C).reshape(C, C)


def numpy_sinkhorn(M, tol, max_iter=1_000_000):
    """NumPy, the whole batch at once, factors only until the end; stops when the worst matrix is done."""
    C = M.shape[-1]
    y = np.ones((len(M), C, 1))
    s = M @ y
    for _ in range(max_iter):
        x = 1 / s
        y = 1 / (M.transpose(0, 2, 1) @ x)
        s = M @ y  # what the next row step needs; the columns are exact, so the rows are all that is left
        if np.abs(x * s - 1).sum((1, 2)).max() <= tol * C:
            break
    return x * M * y.transpose(0, 2, 1)


def pot_sinkhorn(M, tol, max_iter=1_000_000):
    """POT's ``ot.sinkhorn``, one matrix at a time (cost = -log M, regularisation 1)."""
    import ot

    C = M.shape[-1]
    ones = np.ones(C)
    # Its test is the L2 norm of the column error: tol * sqrt(C) bounds the L1 norm over C by tol.
    options = {"numItermax": max_iter, "stopThr": tol * C**0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where it did not converge; our check reports that
        return np.stack([ot.sinkhorn(ones, ones, -np.log(m), 1.0, **options) for m in M])


def pot_batch(M, tol, max_iter=20_000):
    """POT's batched Sinkhorn; it stops when the worst matrix is done."""
    import ot.batch

    ones = np.ones(M.shape[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ot.batch.bregman_projection_batch(M, ones, ones, max_iter=max_iter, tol=tol * M.shape[-1] ** 0.5)
    return np.asarray(result["T"])


def ipfn_ipf(M, tol, max_iter=100_000):
    """Run ``ipfn``, one matrix at a time, with its second stop rule (change of the error) switched off."""
    from ipfn import ipfn

    ones = np.ones(M.shape[-1])
    options = {"convergence_rate": tol, "max_iteration": max_iter, "rate_tolerance": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A copy each: it changes its input in place.
        return np.stack([ipfn.ipfn(m.copy(), [ones, ones], [[0], [1]], **options).iteration() for m in M])


def numpy_shares(M, axes):
    """NumPy: divide the whole batch by its sums along `axes`."""
    return M / M.sum(axes, keepdims=True)


def numpy_weights(M, axes):
    """NumPy: one over the sum along `axes`, for every cell."""
    return np.broadcast_to(1 / M.sum(axes, keepdims=True), M.shape).copy()


def sklearn_shares_of_rows(M):
    """scikit-learn's ``normalize`` of all rows of the batch."""
    from sklearn.preprocessing import normalize

    return normalize(M.reshape(-1, M.shape[-1]), norm="l1").reshape(M.shape)


def numpy_overlap(S, T):
    """NumPy, the whole batch at once."""
    return np.minimum(numpy_shares(S, (-2, -1)), numpy_shares(T, (-2, -1))).sum((-2, -1))


def numpy_l1_distance(S, T):
    """NumPy, the whole batch at once."""
    return np.abs(numpy_shares(S, (-2, -1)) - numpy_shares(T, (-2, -1))).sum((-2, -1))


def numpy_kl_divergence(P, Q):
    """NumPy, the whole batch at once; every cell positive."""
    p, q = numpy_shares(P, (-2, -1)), numpy_shares(Q, (-2, -1))
    return (p * np.log(p / q)).sum((-2, -1))


def scipy_kl_divergence(P, Q):
    """SciPy's ``rel_entr`` of the shares, the whole batch at once."""
    from scipy.special import rel_entr

    return rel_entr(numpy_shares(P, (-2, -1)), numpy_shares(Q, (-2, -1))).sum((-2, -1))


def scipy_support(M):
    """SciPy, one matrix at a time: a matching of rows and columns, and its strongly connected components.

    Returns which matrices have a matching, and the cells that are in none (all False without one).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    has, dead = np.zeros(len(M), bool), np.zeros(M.shape, bool)
    for k, positive in enumerate(M > 0):
        graph = csr_array(positive)
        matched = maximum_bipartite_matching(graph, perm_type="column")
        has[k] = (matched >= 0).all()
        if not has[k]:
            continue
        moved = positive[:, matched]
        _, group = connected_components(csr_array(moved), connection="strong")
        dead[k][:, matched] = moved & (group[:, None] != group)
    return has, dead


def polars_gcm(X, y, p, origin, inverse, C, *, packed):
    """polars: two group-bys and a join, one weighting; `packed` uses one integer key instead of m columns."""
    import polars as pl

    m = X.shape[1]
    axes = [f"x{k}" for k in range(m)]
    cell = [((pl.col(x).cast(pl.Float64) - origin[k]) * inverse[k]).floor().cast(pl.Int64) for k, x in enumerate(axes)]
    frame = pl.DataFrame(dict(zip(axes, X.T, strict=True)) | {"y": y, "p": p})
    if packed:
        bits = 63 // m
        frame = frame.select(
            sum((c * (1 << (bits * k)) for k, c in enumerate(cell)), pl.lit(0)).alias("cell"), "y", "p"
        )
        key = ["cell"]
    else:
        frame = frame.select(*(c.cast(pl.Int32) for c in cell), "y", "p")
        key = axes
    truth = frame.lazy().group_by([*key, "y"]).agg(pl.len().alias("a"))
    predicted = frame.lazy().group_by([*key, "p"]).agg(pl.len().alias("b"))
    pairs = truth.join(predicted, on=key).group_by(["y", "p"]).agg(pl.min_horizontal("a", "b").sum().alias("n"))
    table = pairs.collect()
    out = np.zeros((C, C))
    out[table["y"].to_numpy(), table["p"].to_numpy()] = table["n"].to_numpy()
    return out


def scipy_gcm(X, y, p, origin, inverse, C):
    """SciPy: unique cells, two sparse (C, cells) histograms, ``minimum`` per pair of classes; one weighting."""
    import scipy.sparse as sp

    _, counts, cell = numpy_unique_cells(X, origin, inverse)
    ones = np.ones(len(y), np.int64)
    shape = (C, len(counts))
    truth = sp.coo_array((ones, (y, cell)), shape=shape).tocsr()
    predicted = sp.coo_array((ones, (p, cell)), shape=shape).tocsr()
    return np.array([[truth[[i]].minimum(predicted[[j]]).sum() for j in range(C)] for i in range(C)], float)


def numpy_unique_cells(X, origin, inverse):
    """NumPy: ``unique`` over rows of cell indices; returns the cells, their counts, the cell of every point."""
    index = np.floor((X.astype(np.float64) - origin) * inverse).astype(np.int64)
    cells, cell, counts = np.unique(index, axis=0, return_inverse=True, return_counts=True)
    return cells, counts, cell.ravel()


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
    """PyCM, from one matrix at a time; it makes all its statistics at once."""
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
