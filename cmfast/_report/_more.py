"""What a report says beyond one model: two of them, groups, geometry, prediction sets."""

from typing import Any

import numpy as np

from cmfast import conformal, uncertainty
from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.markup import isolate
from cmfast._report._asked import LARGEST, MOST_RESAMPLED_CLASSES, Asked, Scaled
from cmfast._report._facts import WHOLE, Notes, named, of_whole
from cmfast._report._samples import Counted
from cmfast.geometry import geometric_confusion_matrix

ALPHA = 0.1  # of prediction sets
SWAPS_OF_MANY = 999  # of more classes than intervals are drawn of
LEAST_ALIKE = 0.5  # share of samples whose largest score should be that of the answer


def two_models(counted: Counted, asked: Asked) -> dict[str, Any] | None:
    """Return how two models differ on the same samples; None of one model."""
    T = counted.paired
    if T is None:
        return None
    names, notes = [named(name) for name in (counted.matrices or counted.cells)], Notes()
    wanted: Any = list(WHOLE)
    few = len(counted.labels) <= MOST_RESAMPLED_CLASSES
    options: dict[str, Any] = {"method": "bca" if few else "delta", "level": asked.level, "rng": asked.seed}
    # 10,000 swaps of 1,000 classes take some ten seconds.
    options["n_replicates"] = asked.n_replicates if few else min(asked.n_replicates, SWAPS_OF_MANY)
    with notes.taken():
        found = uncertainty.compare(T, wanted, num_threads=asked.num_threads, **options)
        right = uncertainty.mcnemar(T)
    fields = ("first", "second", "difference", "low", "high", "p_value", "p_error")
    flips = [
        {"true": named(one.truth), "first": named(one.first), "second": named(one.second), "count": one.n_samples}
        for one in T.flips(LARGEST)
    ]
    values = {name: {key: getattr(one, key) for key in fields} for name, one in found.items()}
    verdicts = {name: f"{one.verdict()}{one.parting()}" for name, one in found.items()}
    only = {"only_first": right.only_first, "only_second": right.only_second, "p_value": right.p_value}
    said = {"verdicts": verdicts, "right": only, "flips": flips, "notes": notes.found}
    return {"models": names, "metrics": values} | said


def groups(counted: Counted, asked: Asked) -> dict[str, Any] | None:
    """Return metrics of every group, for every model; None without groups."""
    if not counted.by_group:
        return None
    found: dict[str, Any] = {}
    notes = Notes()
    for name, (_, M) in counted.by_group.items():
        with notes.taken():
            values = of_whole(M, asked)
        samples = M.sum(axis=(1, 2))
        for ends in values.values():
            for key, numbers in ends.items():
                ends[key] = np.where(samples > 0, numbers, np.nan)  # of no samples nothing is known
        found[name] = {"samples": samples, "metrics": values}
    keys = next(iter(counted.by_group.values()))[0]
    names = [named(", ".join(map(str, key)) if isinstance(key, tuple) else key) for key in keys]
    by = [named(name) for name in counted.group_names]
    return {"by": by, "groups": names, "models": found, "notes": notes.found}


def geometry(
    X: Any, y: np.ndarray, guess: np.ndarray, scaled: Scaled, asked: Asked
) -> tuple[dict[str, Any], np.ndarray]:
    """Return what the classes' overlap in space says, and the geometric matrix; of the first model."""
    (X,) = dispatch.adopt(embeddings=X)
    X = adapter(X).to_host(X)
    if X.ndim != 2 or len(X) != len(y):
        validate.refuse("embeddings", f"of shape ({len(y)}, n), a row per sample", f"shape {X.shape}")
    known = (y >= 0) & (guess >= 0)
    C, notes = len(scaled.rows), Notes()
    options: dict[str, Any] = {"n_classes": C, "rng": asked.seed, "num_threads": asked.num_threads}
    with notes.taken():
        found = geometric_confusion_matrix(
            X[known], y[known], guess[known], smoothing=scaled.smoothing or None, **options
        )
    d = found.diagnostics
    names = ("overlap", "guaranteed", "null_overlap", "null_sd", "missing_mass")
    numbers = {name: float(getattr(d, name)) for name in names}
    numbers |= {"points": d.n_points, "cells": d.n_cells, "alone": d.singleton_fraction}
    G = np.asarray(found.matrix)
    total = G.sum()
    return numbers | {"verdict": d.explain(), "notes": notes.found}, G * (C / total if total else 1.0)


def sets(scores: Any, y: np.ndarray, guess: np.ndarray, labels: list[str], asked: Asked) -> dict[str, Any]:
    """Return what prediction sets hold that are calibrated on one half of the samples, for the other half."""
    (P,) = dispatch.adopt(scores=scores)
    P = adapter(P).to_host(P)
    if P.shape != (len(y), len(labels)):
        wanted = f"of shape ({len(y)}, {len(labels)}), a row per sample and a column per class"
        validate.refuse("scores", wanted, f"shape {P.shape}")
    notes = Notes()
    _compare_answers(P, guess, labels, notes)
    known = np.flatnonzero(y >= 0)
    order = np.random.default_rng(asked.seed).permutation(known)
    one, other = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    rule: dict[str, Any] = {"rng": asked.seed, "num_threads": asked.num_threads}
    with notes.taken():
        q = conformal.threshold(conformal.scores(P[one], y[one], **rule), [ALPHA])
        found = conformal.prediction_sets(P[other], q, **rule)
        rates = conformal.coverage_confusion(found, y[other], on_failure="ignore").rates()[0]
        coverage, counts = float(found.coverage(y[other])[0]), conformal.ccm(found, num_threads=asked.num_threads)
    sizes = np.bincount(np.asarray(found.sizes).ravel(), minlength=len(labels) + 1)
    facts: dict[str, Any] = {"alpha": ALPHA, "calibration": len(one), "samples": len(other), "threshold": float(q[0])}
    facts |= {"coverage": coverage, "mean_size": float(np.mean(found.sizes)), "sizes": sizes}
    facts["coverage_by_class"] = np.diagonal(rates)
    facts["pairs"] = _together(np.asarray(counts.correlation())[0], np.asarray(counts.G)[0], labels)
    return facts | {"notes": notes.found}


def _compare_answers(P: np.ndarray, guess: np.ndarray, labels: list[str], notes: Notes) -> None:
    """Note that scores are hardly those of the answers: columns in another order give no error, only other sets."""
    known = guess >= 0
    alike = float(np.mean(P.argmax(axis=1)[known] == guess[known])) if known.any() else 1.0
    if alike >= LEAST_ALIKE:
        return
    first = ", ".join(map(isolate, labels[:3])) + " and so on" * (len(labels) > 3)
    found = f"the largest score is that of the answer in {100 * alike:.0f} % of the samples only"
    notes.found.append(f"{found}: are these this model's scores, with columns in the order of the classes ({first})?")


def _together(rho: np.ndarray, G: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """Return the pairs of classes that stand in one set most often beyond what chance would do."""
    first, second = np.triu_indices(len(rho), 1)
    values = np.where(np.isnan(rho[first, second]), -np.inf, rho[first, second])
    order = np.argsort(-values, kind="stable")[:LARGEST]
    return [
        {"first": labels[i], "second": labels[j], "correlation": rho[i, j], "sets": int(G[i, j])}
        for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)
        if rho[i, j] > 0 and G[i, j]
    ]
