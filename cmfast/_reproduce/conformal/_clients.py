"""Federated training: local counts of clients, their merged counts, and the choice of clients."""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, Literal

import numpy as np
from scipy.stats import spearmanr

from cmfast import conformal
from cmfast._reproduce.conformal._network import (
    CENTRE,
    DIGIT_CLASSES,
    DOUBLED_CLASSES,
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

Order = Literal["high", "low"]
ORDERS: dict[str, Order | None] = {"all clients": None, "highest": "high", "lowest": "low"}


Runs = dict[str, list[dict[str, Any]]]
"""By the way to choose clients, what each seed gave."""


def train_seeds(
    settings: ConformalSettings, tick: Callable[[int, int], object]
) -> tuple[dict[int, Runs], dict[float, dict[str, Any]]]:
    """Train all seeds; return runs by number of classes and choice of clients, and distances by concentration."""
    middle = sorted(settings.concentrations)[len(settings.concentrations) // 2]
    runs: dict[int, Runs] = {
        DIGIT_CLASSES: {name: [] for name in ORDERS},
        DOUBLED_CLASSES: {"all clients": [], "highest": []},
    }
    alone: dict[float, list[Any]] = {concentration: [] for concentration in settings.concentrations}
    for seed in range(settings.seeds):
        for classes, by_name in runs.items():
            for name, each in by_name.items():
                found = federate(seed, ORDERS[name], middle, settings, classes)
                own = found.pop("counts"), found.pop("uneven")
                each.append(found)
                if name == "all clients" and classes == DIGIT_CLASSES:
                    alone[middle].append(own)
        for concentration in settings.concentrations:
            if concentration != middle:
                found = federate(seed, None, concentration, settings)
                alone[concentration].append((found["counts"], found["uneven"]))
        tick(seed + 1, settings.seeds)
    return runs, {concentration: _summarize_distances(each) for concentration, each in alone.items()}


def _summarize_distances(alone: list[tuple[list[Any], float]]) -> dict[str, Any]:
    """Return how far the mean of clients' correlations is from the merged correlations, over all seeds and by seed."""
    counts = [own for own, _ in alone]
    found = [compare_merged_with_mean(one) for one in counts]
    gaps = np.concatenate([one["gaps"] for one in found])
    return {
        "gap": float(gaps.mean()),
        "largest_gap": float(gaps.max()),
        "largest_rho": float(np.mean([one["largest"] for one in found])),
        "undefined": float(np.mean([one["undefined"] for one in found])),
        "given_away": float(np.mean(np.concatenate([find_revealed_counts(one) for one in counts]))),
        "by_seed": {
            "gap": [float(one["gaps"].mean()) for one in found],
            "undefined": [one["undefined"] for one in found],
            "agreement": [measure_rank_agreement(one) for one in counts],
            "uneven": [uneven for _, uneven in alone],
        },
    }


def split_among_clients(
    y: np.ndarray, concentration: float, clients: int, rng: np.random.Generator, classes: int = DIGIT_CLASSES
) -> list[np.ndarray]:
    """Split every class among the clients by a Dirichlet draw; return the rows of every client."""
    shares = rng.dirichlet(np.full(clients, concentration), classes)
    owner = np.array([rng.choice(clients, p=shares[label]) for label in y])
    return [np.flatnonzero(owner == k) for k in range(clients)]


def measure_unevenness(y: np.ndarray, owned: list[np.ndarray], classes: int) -> float:
    """Return the mean total variation distance of clients' class shares from the overall shares, in [0, 1]."""
    whole = np.bincount(y, minlength=classes) / len(y)
    own = [np.bincount(y[rows], minlength=classes) / len(rows) for rows in owned if len(rows)]
    return float(np.mean([np.abs(one - whole).sum() / 2 for one in own]))


def federate(
    seed: int, order: Order | None, concentration: float, settings: ConformalSettings, classes: int = DIGIT_CLASSES
) -> dict[str, Any]:
    """Train by federated averaging, three clients per round; return accuracies, correlations and the clients' counts.

    The three are drawn from all clients, or with `order` from those ranked first by the pair's correlation.
    """
    data, rng = digits(seed, classes), np.random.default_rng(seed)
    X, y, _, _, new, truth = data
    owned, tested = (
        split_among_clients(labels, concentration, settings.clients, rng, classes) for labels in (y, truth)
    )
    weights, allowed, by_round = init_weights(rng, classes), np.arange(settings.clients), []
    for turn in range(settings.rounds):
        if order is not None and turn:
            ranked = conformal.rank_clients(count_client_sets(weights, data, tested, seed), [PAIR], order=order)
            allowed = np.asarray(ranked)[: settings.chosen]
        picked = [k for k in rng.choice(allowed, 3, replace=False) if len(owned[k])]
        if picked:
            weights = average_weights(weights, [(X[owned[k]], y[owned[k]]) for k in picked], rng)
        by_round.append(conformal.ccm(make_sets(weights, data, seed)).correlation()[:, PAIR[0], PAIR[1]])
    right = predict(weights, new)[1].argmax(-1) == truth
    counts = count_client_sets(weights, data, tested, seed)
    return {
        "accuracy": float(right.mean()),
        "pair": float(right[np.isin(truth, PAIR)].mean()),
        "each_of_pair": [float(right[truth == label].mean()) for label in PAIR],
        "others": float(right[~np.isin(truth, PAIR)].mean()),
        "rho": float(by_round[-1][CENTRE]),
        "by_round": np.array(by_round),  # by alpha
        "counts": counts,
        "uneven": measure_unevenness(y, owned, classes),
    }


def average_weights(weights: Weights, own: list[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator) -> Weights:
    """Return the mean of the clients' weights after two local epochs, weighted by their numbers of rows."""
    trained = [train_epoch(train_epoch(weights, X, y, rng), X, y, rng) for X, y in own]
    sizes = np.array([len(y) for _, y in own], float)
    return [np.tensordot(sizes / sizes.sum(), np.stack(w), 1) for w in zip(*trained, strict=True)]


def count_client_sets(weights: Weights, data: Data, tested: list[np.ndarray], seed: int) -> list[Any]:
    """Return the counts of prediction sets of every client on its test rows, at alpha = 0.1."""
    whole = make_sets(weights, data, seed, [0.1])
    return [conformal.ccm(select_rows(whole, rows)).sum(0) for rows in tested]


def compare_merged_with_mean(counts: list[Any]) -> dict[str, Any]:
    """Return the gaps between the mean of clients' correlations and the correlations of all their sets, by class pair.

    Also the largest of all sets' correlations in magnitude, and the share of clients' correlations that is undefined.
    """
    merged = reduce(add, counts).correlation()
    each = np.stack([one.correlation() for one in counts])
    known = ~np.isnan(each)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, each, 0).sum(0) / known.sum(0)
    off = ~np.eye(DIGIT_CLASSES, dtype=bool) & ~np.isnan(merged) & ~np.isnan(mean)
    return {
        "gaps": abs(mean - merged)[off],
        "largest": float(abs(merged[off]).max()),
        "undefined": float((~known).mean()),
    }


def measure_rank_agreement(counts: list[Any]) -> float:
    """Return the mean rank correlation of clients' correlations with those of all sets.

    Of pairs of classes that are defined in both; NaN where no client has three such pairs.
    """
    upper = np.triu_indices(DIGIT_CLASSES, 1)
    merged = reduce(add, counts).correlation()[upper]
    found = []
    for one in counts:
        own = one.correlation()[upper]
        known = ~np.isnan(own) & ~np.isnan(merged)
        if known.sum() >= 3 and min(np.ptp(own[known]), np.ptp(merged[known])) > 0:
            rho: Any = spearmanr(own[known], merged[known])
            found.append(float(rho.statistic))
    return float(np.mean(found)) if found else float("nan")


def find_revealed_counts(counts: list[Any], most: int = 400) -> list[bool]:
    """Return whether the shares of a client's counts reveal its number of rows, for clients with 1 to `most` - 1 rows.

    They do if that is the smallest number of rows for which all counts are whole.
    """
    out = []
    for one in counts:
        n, G = int(np.asarray(one.n)), np.asarray(one.G)
        if 0 < n < most:
            tried = np.arange(1, most)[:, None, None]
            near = tried * (G / n)
            fits = (np.abs(near - np.rint(near)) < 1e-9).all(axis=(1, 2))
            out.append(int(fits.argmax()) + 1 == n)
    return out
