"""Facts of the optional sections: two models, groups, geometry, prediction sets."""

from typing import Any

import numpy as np

from cmfast import conformal, uncertainty
from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.markup import isolate
from cmfast._report._counting import CountedSamples
from cmfast._report._model_facts import WHOLE, Notes, compute_overall_metrics, name_label
from cmfast._report._options import MOST_LISTED_CONFUSIONS, MOST_RESAMPLED_CLASSES, ReportOptions, ScalingFactors
from cmfast.geometry import geometric_confusion_matrix

ALPHA = 0.1  # error rate of prediction sets
SWAPS_OF_MANY = 999  # most swaps with more classes than bootstrap intervals allow
LEAST_ALIKE = 0.5  # least share of samples whose largest score is at the prediction


def compare_models(counted: CountedSamples, request: ReportOptions) -> dict[str, Any] | None:
    """Return the differences of two models on the same samples; None for one model."""
    T = counted.paired
    if T is None:
        return None
    names, notes = [name_label(name) for name in (counted.matrices or counted.cells)], Notes()
    wanted: Any = list(WHOLE)
    few = len(counted.labels) <= MOST_RESAMPLED_CLASSES
    options: dict[str, Any] = {
        "method": "bca" if few else "delta",
        "confidence_level": request.confidence_level,
        "rng": request.seed,
    }
    # 10,000 swaps of 1,000 classes take some ten seconds.
    options["n_resamples"] = request.n_resamples if few else min(request.n_resamples, SWAPS_OF_MANY)
    with notes.collect():
        found = uncertainty.compare(T, wanted, num_threads=request.num_threads, **options)
        right = uncertainty.mcnemar(T)
    fields = ("first", "second", "difference", "low", "high", "p_value", "p_error")
    flips = [
        {
            "true": name_label(one.truth),
            "first": name_label(one.first),
            "second": name_label(one.second),
            "count": one.n_samples,
        }
        for one in T.flips(MOST_LISTED_CONFUSIONS)
    ]
    values = {name: {key: getattr(one, key) for key in fields} for name, one in found.items()}
    verdicts = {name: f"{one.verdict()}{one.parting()}" for name, one in found.items()}
    only = {"only_first": right.only_first, "only_second": right.only_second, "p_value": right.p_value}
    said = {"verdicts": verdicts, "right": only, "flips": flips, "notes": notes.found}
    return {"models": names, "metrics": values} | said


def describe_groups(counted: CountedSamples, request: ReportOptions) -> dict[str, Any] | None:
    """Return the metrics of every group, for every model; None without groups."""
    if not counted.by_group:
        return None
    found: dict[str, Any] = {}
    notes = Notes()
    for name, (_, M) in counted.by_group.items():
        with notes.collect():
            values = compute_overall_metrics(M, request)
        samples = M.sum(axis=(1, 2))
        for ends in values.values():
            for key, numbers in ends.items():
                ends[key] = np.where(samples > 0, numbers, np.nan)  # groups without samples have no metrics
        found[name] = {"samples": samples, "metrics": values}
    keys = next(iter(counted.by_group.values()))[0]
    names = [name_label(", ".join(map(str, key)) if isinstance(key, tuple) else key) for key in keys]
    by = [name_label(name) for name in counted.group_names]
    return {"by": by, "groups": names, "models": found, "notes": notes.found}


def describe_geometry(
    X: Any, y: np.ndarray, guess: np.ndarray, scaled: ScalingFactors, request: ReportOptions
) -> tuple[dict[str, Any], np.ndarray]:
    """Return the overlap of classes in feature space, and the geometric matrix, for the first model."""
    (X,) = dispatch.adopt(embeddings=X)
    X = adapter(X).to_host(X)
    if X.ndim != 2 or len(X) != len(y):
        validate.refuse("embeddings", f"of shape ({len(y)}, n), a row per sample", f"shape {X.shape}")
    known = (y >= 0) & (guess >= 0)
    C, notes = len(scaled.rows), Notes()
    options: dict[str, Any] = {"n_classes": C, "rng": request.seed, "num_threads": request.num_threads}
    with notes.collect():
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


def describe_sets(
    scores: Any, y: np.ndarray, guess: np.ndarray, labels: list[str], request: ReportOptions
) -> dict[str, Any]:
    """Return facts of prediction sets: calibrated on one half of the samples, evaluated on the other."""
    (P,) = dispatch.adopt(scores=scores)
    P = adapter(P).to_host(P)
    if P.shape != (len(y), len(labels)):
        wanted = f"of shape ({len(y)}, {len(labels)}), a row per sample and a column per class"
        validate.refuse("scores", wanted, f"shape {P.shape}")
    notes = Notes()
    _check_scores_match(P, guess, labels, notes)
    known = np.flatnonzero(y >= 0)
    order = np.random.default_rng(request.seed).permutation(known)
    one, other = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    rule: dict[str, Any] = {"rng": request.seed, "num_threads": request.num_threads}
    with notes.collect():
        q = conformal.threshold(conformal.scores(P[one], y[one], **rule), [ALPHA])
        found = conformal.prediction_sets(P[other], q, **rule)
        rates = conformal.coverage_confusion(found, y[other], on_failure="ignore").rates()[0]
        coverage, counts = float(found.coverage(y[other])[0]), conformal.ccm(found, num_threads=request.num_threads)
    sizes = np.bincount(np.asarray(found.sizes).ravel(), minlength=len(labels) + 1)
    facts: dict[str, Any] = {"alpha": ALPHA, "calibration": len(one), "samples": len(other), "threshold": float(q[0])}
    facts |= {"coverage": coverage, "mean_size": float(np.mean(found.sizes)), "sizes": sizes}
    facts["coverage_by_class"] = np.diagonal(rates)
    facts["pairs"] = _list_correlated_classes(np.asarray(counts.correlation())[0], np.asarray(counts.G)[0], labels)
    return facts | {"notes": notes.found}


def _check_scores_match(P: np.ndarray, guess: np.ndarray, labels: list[str], notes: Notes) -> None:
    """Add a note if scores rarely have their maximum at the prediction, as with permuted columns."""
    known = guess >= 0
    alike = float(np.mean(P.argmax(axis=1)[known] == guess[known])) if known.any() else 1.0
    if alike >= LEAST_ALIKE:
        return
    first = ", ".join(map(isolate, labels[:3])) + " and so on" * (len(labels) > 3)
    found = f"the largest score is that of the answer in {100 * alike:.0f} % of the samples only"
    notes.found.append(f"{found}: are these this model's scores, with columns in the order of the classes ({first})?")


def _list_correlated_classes(rho: np.ndarray, G: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """Return the pairs of classes with the largest positive correlation in prediction sets."""
    first, second = np.triu_indices(len(rho), 1)
    values = np.where(np.isnan(rho[first, second]), -np.inf, rho[first, second])
    order = np.argsort(-values, kind="stable")[:MOST_LISTED_CONFUSIONS]
    return [
        {"first": labels[i], "second": labels[j], "correlation": rho[i, j], "sets": int(G[i, j])}
        for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)
        if rho[i, j] > 0 and G[i, j]
    ]
