"""Experiment 1: which normalisation of an imbalanced matrix comes closest to the balanced one."""

from typing import Any

import numpy as np
from scipy.stats import spearmanr

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.normalization.training import NormalizationSettings

MEASURES = ("overlap", "kl")


def compare(
    truth: np.ndarray, skewed: np.ndarray, names: tuple[str, ...], settings: NormalizationSettings
) -> dict[str, Any]:
    """Return the results of experiment 1 by data set, stop, smoothing and level: overlaps, divergences, weights.

    `truth` are the balanced matrices (data sets, stops, repetitions, C, C), `skewed` the imbalanced ones with a level
    before the repetitions. Every normalisation and every measure is one call for all of them.
    """
    by_smoothing = {f"{eps:g}": _compute_measures(truth, skewed, eps, settings) for eps in settings.smoothings}
    out: dict[str, Any] = {}
    for d, name in enumerate(names):
        out[name] = {"samples": _summarize_samples(truth[d], skewed[d], settings)}
        for s, stop in enumerate(settings.stops):
            out[name][stop] = {eps: _summarize_levels(found, (d, s), settings) for eps, found in by_smoothing.items()}
    return out


def _compute_measures(
    truth: np.ndarray, skewed: np.ndarray, eps: float, settings: NormalizationSettings
) -> dict[str, dict[str, np.ndarray]]:
    """Return by method the overlap, its ceiling, the divergence, the effective share and the variance of weights."""
    aim = truth[:, :, None]
    out: dict[str, dict[str, np.ndarray]] = {key: {} for key in (*MEASURES, "ceiling", "effective", "variance")}
    for method in NORMALIZATIONS:
        options: dict[str, Any] = {"tol": settings.tol} if method == "bi" else {}
        smooth: dict[str, Any] = {"smoothing": eps} if method == "bi" else {}
        out["overlap"][method] = cmfast.overlap(cmfast.normalize(skewed, method, **options, **smooth), aim)
        # Without the constant a cell that is empty in one matrix alone would make the divergence infinite.
        out["kl"][method] = cmfast.kl_divergence(aim + eps, cmfast.normalize(skewed + eps, method, **options))
        out["ceiling"][method] = cmfast.overlap(cmfast.normalize(truth, method, **options, **smooth), truth)
        weights = cmfast.importance_weights(skewed, method, **options, **smooth)
        out["effective"][method], out["variance"][method] = measure_weights(skewed, weights)
    return out


def measure_weights(M: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the effective share of the samples under weights, and the variance of the weights at mean one."""
    found = cmfast.estimate_for_target(M, target=weights * M, on_failure="ignore")
    share = found.effective_sample_size / M.sum(axis=(-2, -1))
    return share, 1 / share - 1


def _summarize_levels(
    found: dict[str, dict[str, np.ndarray]], at: tuple[int, int], settings: NormalizationSettings
) -> list[dict[str, Any]]:
    """Return the measures of each level of imbalance by method, and bi against the best other method.

    `at` is the pair (data set, stop).
    """
    out = []
    for k, alpha in enumerate(settings.levels):
        values = {key: {m: v[at][k] for m, v in found[key].items()} for key in (*MEASURES, "effective", "variance")}
        level: dict[str, Any] = {"alpha": alpha}
        for key in MEASURES:
            largest = key == "overlap"
            level[key] = paired.summarize_methods(values[key], largest=largest)
            level[f"{key}_of_bi_against_best"] = paired.compare_with_best(
                values[key], "bi", settings.interval, largest=largest
            )
        level["ceiling"] = {m: v[at].mean() for m, v in found["ceiling"].items()}
        level["effective_share"] = {m: v.mean() for m, v in values["effective"].items()}
        level["variance_of_weights"] = {m: v.mean() for m, v in values["variance"].items()}
        out.append(level)
    return out


def compute_changes(
    truth: np.ndarray, skewed: np.ndarray, names: tuple[str, ...], settings: NormalizationSettings
) -> dict[str, Any]:
    """Return intervals of the changes of overlaps from the first to the last level, at the first stop."""
    eps = settings.smoothings[0]
    found = _compute_measures(truth[:, :1], skewed[:, :1], eps, settings)
    out: dict[str, Any] = {}
    for d, name in enumerate(names):
        overlap = {m: v[d, 0] for m, v in found["overlap"].items()}
        rival = np.max([overlap[m] for m in NORMALIZATIONS if m != "bi"], axis=0)
        gap = overlap["bi"] - rival
        out[name] = {
            "loss": {m: paired.compute_interval(v[0] - v[-1], settings.interval) for m, v in overlap.items()},
            "gap": paired.compute_interval(gap[-1] - gap[0], settings.interval),
            "predicted_evenly": paired.compute_interval(1 - _measure_unevenness(truth[d, 0]), settings.interval),
            "overlap_follows_effective_share": {
                m: paired.compute_interval(
                    _rank_correlations(found["effective"][m][d, 0], overlap[m]), settings.interval
                )
                for m in NORMALIZATIONS
                if m != "all"  # its weights are all alike
            },
        }
    return out


def _measure_unevenness(M: np.ndarray) -> np.ndarray:
    """Return the chi-square of predicted class counts over its degrees of freedom; 1 for chance."""
    predicted = M.sum(axis=-2)
    mean = predicted.mean(axis=-1, keepdims=True)
    out: np.ndarray = ((predicted - mean) ** 2 / mean).sum(axis=-1) / (M.shape[-1] - 1)
    return out


def _rank_correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return Spearman's rank correlation over the levels (first axis) by repetition, 0 for a constant series."""
    return np.array([_compute_rank_correlation(x, y) for x, y in zip(a.T, b.T, strict=True)])


def _compute_rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's rank correlation, 0 if `x` or `y` is constant."""
    if min(np.ptp(x), np.ptp(y)) == 0:
        return 0.0
    found: Any = spearmanr(x, y)
    return float(found.statistic)


def _summarize_samples(truth: np.ndarray, skewed: np.ndarray, settings: NormalizationSettings) -> dict[str, Any]:
    """Return the numbers of samples, and the accuracies and numbers of empty cells by stop."""
    share = np.trace(skewed, axis1=-2, axis2=-1) / skewed.sum(axis=(-2, -1))
    stops = list(enumerate(settings.stops))
    right = np.trace(truth, axis1=-2, axis2=-1) / truth.sum(axis=(-2, -1))
    return {
        "balanced_test": int(truth[0, 0].sum()),
        "imbalanced_test": skewed[0].sum(axis=(-2, -1)).mean(axis=1),
        "accuracy_balanced": {stop: right[s].mean() for s, stop in stops},
        "accuracy_imbalanced": {stop: share[s].mean(axis=1) for s, stop in stops},
        "empty_cells": {stop: (skewed[s] == 0).sum(axis=(-2, -1)).mean(axis=1) for s, stop in stops},
    }
