"""Central training: prediction sets of one network and its confusion matrix, by epoch and by alpha."""

from collections.abc import Callable
from typing import Any

import numpy as np

import cmfast
from cmfast import conformal
from cmfast._reproduce.conformal._network import (
    ALPHAS,
    CENTRE,
    DIGIT_CLASSES,
    OTHER,
    PAIR,
    ConformalSettings,
    Data,
    Weights,
    digits,
    init_weights,
    make_sets,
    predict,
    select_rows,
    train_epoch,
)

OFF = ~np.eye(DIGIT_CLASSES, dtype=bool)
EXTREME_PAIRS = 5  # pairs of 45 that are most alike, or most distant


def train_seeds(settings: ConformalSettings, tick: Callable[[int, int], object]) -> list[dict[str, Any]]:
    """Return the results of one network per seed."""
    out = []
    for seed in range(settings.seeds):
        out.append(train_network(seed, settings))
        tick(seed + 1, settings.seeds)
    return out


def train_network(seed: int, settings: ConformalSettings) -> dict[str, Any]:
    """Return the results of one network: by epoch, by alpha, and whether sets predict later confusions."""
    data, rng = digits(seed), np.random.default_rng(seed)
    weights, by_epoch = init_weights(rng), []
    for _ in range(settings.epochs):
        weights = train_epoch(weights, data[0], data[1], rng)
        sets, M, _ = _evaluate_network(weights, data, seed)
        rho = conformal.ccm(sets).correlation()[CENTRE]
        by_epoch.append({
            "rho": [float(rho[pair]) for pair in (PAIR, OTHER)],
            "errors": [int(M[pair] + M[pair[::-1]]) for pair in (PAIR, OTHER)],
            "error_share": [float((M[pair] + M[pair[::-1]]) / M[list(pair)].sum()) for pair in (PAIR, OTHER)],
            "likeness": correlate_by_likeness(rho, data),
        })  # fmt: skip
    sets, M, guess = _evaluate_network(weights, data, seed)
    counts = conformal.ccm(sets)
    return {
        "by_epoch": by_epoch,
        "by_alpha": [_summarize_alpha(sets, counts, M, data[5], k) for k in range(len(ALPHAS))],
        "accuracy": float(cmfast.metrics.accuracy(M)),
        "empty_cells": int((M[OFF] == 0).sum()),
        "foretold": compute_foretold_shares(sets, data[5], guess),
        "picture": (sets, data[5], guess) if seed == 0 else None,
    }


def correlate_by_likeness(rho: np.ndarray, data: Data) -> dict[str, float]:
    """Return the mean correlation of the most similar, the middle and the most distant pairs of classes.

    Pairs are ranked by the distance of the mean images of the training rows, without a network.
    """
    centre = np.stack([data[0][data[1] == c].mean(axis=0) for c in range(DIGIT_CLASSES)])
    upper = np.triu_indices(DIGIT_CLASSES, 1)
    order = np.argsort(np.linalg.norm(centre[upper[0]] - centre[upper[1]], axis=1), kind="stable")
    cut = {
        "alike": order[:EXTREME_PAIRS],
        "middle": order[len(order) // 3 : -(len(order) // 3)],
        "distant": order[-EXTREME_PAIRS:],
    }
    values = {name: rho[upper][pairs] for name, pairs in cut.items()}
    return {name: float(v[~np.isnan(v)].mean()) if (~np.isnan(v)).any() else np.nan for name, v in values.items()}


def _evaluate_network(weights: Weights, data: Data, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return sets, confusion matrix and predictions of the test rows."""
    guess = predict(weights, data[4])[1].argmax(-1)
    return make_sets(weights, data, seed), cmfast.confusion_matrix(data[5], guess, n_classes=DIGIT_CLASSES), guess


def _summarize_alpha(sets: Any, counts: Any, M: np.ndarray, y: np.ndarray, k: int) -> dict[str, Any]:
    """Return coverage, mean size and shared class pairs of the prediction sets at the alpha of index `k`."""
    shared = np.triu(counts.G[k] > 0, 1)
    sizes = sets.sizes[k]
    return {
        "alpha": ALPHAS[k],
        "coverage": float(sets.coverage(y)[k]),
        "mean_size": float(sizes.mean()),
        "empty": float((sizes == 0).mean()),
        "shared": int(shared.sum()),
        "never_confused": int((shared & (M + M.T == 0)).sum()),
        "undefined_classes": int((counts.reason[k] > 0).sum()),
    }


def compute_foretold_shares(sets: Any, y: np.ndarray, guess: np.ndarray) -> list[float]:
    """Return the share of class pairs confused in the second half of the rows, among those not confused in the first.

    First of pairs that share a prediction set in the first half, then of the others; NaN for no such pair.
    """
    first, last = np.split(np.arange(len(y)), [len(y) // 2])
    before, after = (cmfast.confusion_matrix(y[rows], guess[rows], n_classes=DIGIT_CLASSES) for rows in (first, last))
    never = np.triu(before + before.T == 0, 1)
    shared = conformal.ccm(select_rows(sets, first)).G[CENTRE] > 0
    later = after + after.T > 0
    return [float(later[pairs].mean()) if pairs.any() else np.nan for pairs in (never & shared, never & ~shared)]
