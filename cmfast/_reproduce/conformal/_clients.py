"""Clients that learn together: what their own counts tell, what adds up, and whom to choose."""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, Literal

import numpy as np

from cmfast import conformal
from cmfast._reproduce.conformal._network import (
    CLASSES,
    PAIR,
    Data,
    Settings,
    Weights,
    begin,
    digits,
    learned,
    predicted,
    rows_of,
    sets_of,
)

Order = Literal["high", "low"]
ORDERS: dict[str, Order | None] = {"all clients": None, "highest": "high", "lowest": "low"}


Runs = dict[str, list[dict[str, Any]]]


def of_seeds(settings: Settings, tick: Callable[[int, int], object]) -> tuple[Runs, dict[float, dict[str, Any]]]:
    """Return the runs of each way to choose clients, and by concentration how far apart clients are."""
    middle = sorted(settings.concentrations)[len(settings.concentrations) // 2]
    runs: Runs = {name: [] for name in ORDERS}
    counts: dict[float, list[Any]] = {concentration: [] for concentration in settings.concentrations}
    for seed in range(settings.seeds):
        for name, order in ORDERS.items():
            found = federate(seed, order, middle, settings)
            own = found.pop("counts")
            runs[name].append(found)
            if order is None:
                counts[middle].append(own)
        for concentration in settings.concentrations:
            if concentration != middle:
                counts[concentration].append(federate(seed, None, concentration, settings)["counts"])
        tick(seed + 1, settings.seeds)
    return runs, {concentration: _apart(each) for concentration, each in counts.items()}


def _apart(counts: list[list[Any]]) -> dict[str, Any]:
    """Return how far the clients of all seeds are apart."""
    found = [merged_against_averaged(one) for one in counts]
    gaps = np.concatenate([one["gaps"] for one in found])
    return {
        "gap": float(gaps.mean()),
        "largest_gap": float(gaps.max()),
        "largest_rho": float(np.mean([one["largest"] for one in found])),
        "undefined": float(np.mean([one["undefined"] for one in found])),
        "given_away": float(np.mean(np.concatenate([given_away(one) for one in counts]))),
    }


def split(y: np.ndarray, concentration: float, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the rows of every client, whose classes follow a Dirichlet distribution each."""
    shares = rng.dirichlet(np.full(clients, concentration), CLASSES)
    owner = np.array([rng.choice(clients, p=shares[label]) for label in y])
    return [np.flatnonzero(owner == k) for k in range(clients)]


def federate(seed: int, order: Order | None, concentration: float, settings: Settings) -> dict[str, Any]:
    """Train with some of the clients in every round: all of them, or those that rank first or last by the pair."""
    data, rng = digits(seed), np.random.default_rng(seed)
    X, y, _, _, new, truth = data
    owned, tested = (split(labels, concentration, settings.clients, rng) for labels in (y, truth))
    weights, allowed = begin(rng), np.arange(settings.clients)
    for turn in range(settings.rounds):
        if order is not None and turn:
            ranked = conformal.rank_clients(own_counts(weights, data, tested, seed), [PAIR], order=order)
            allowed = np.asarray(ranked)[: settings.chosen]
        picked = [k for k in rng.choice(allowed, 3, replace=False) if len(owned[k])]
        if picked:
            weights = averaged(weights, [(X[owned[k]], y[owned[k]]) for k in picked], rng)
    guess = predicted(weights, new)[1].argmax(-1)
    counts = own_counts(weights, data, tested, seed)
    return {
        "accuracy": float((guess == truth).mean()),
        "pair": float((guess == truth)[np.isin(truth, PAIR)].mean()),
        "rho": float(reduce(add, counts).correlation()[PAIR]),
        "counts": counts,
    }


def averaged(weights: Weights, own: list[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator) -> Weights:
    """Return the mean of what clients learn in two epochs each, weighted by how many rows they have."""
    trained = [learned(learned(weights, X, y, rng), X, y, rng) for X, y in own]
    sizes = np.array([len(y) for _, y in own], float)
    return [np.tensordot(sizes / sizes.sum(), np.stack(w), 1) for w in zip(*trained, strict=True)]


def own_counts(weights: Weights, data: Data, tested: list[np.ndarray], seed: int) -> list[Any]:
    """Return the counts of every client, of its own new rows at alpha = 0.1."""
    whole = sets_of(weights, data, seed, [0.1])
    return [conformal.ccm(rows_of(whole, rows)).sum(0) for rows in tested]


def merged_against_averaged(counts: list[Any]) -> dict[str, Any]:
    """Return how far the mean of the clients' correlations is from that of all their sets."""
    merged = reduce(add, counts).correlation()
    each = np.stack([one.correlation() for one in counts])
    known = ~np.isnan(each)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, each, 0).sum(0) / known.sum(0)
    off = ~np.eye(CLASSES, dtype=bool) & ~np.isnan(merged) & ~np.isnan(mean)
    return {
        "gaps": abs(mean - merged)[off],
        "largest": float(abs(merged[off]).max()),
        "undefined": float((~known).mean()),
    }


def given_away(counts: list[Any], most: int = 400) -> list[bool]:
    """Return, of every client with rows, whether the shares of its counts tell the number of its rows.

    They do where that is the least number by which all shares are whole.
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
