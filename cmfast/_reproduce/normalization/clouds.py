"""Experiment 2: overlap of normalised matrices with geometric matrices of the last layer, and the guaranteed part."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.normalization.training import Answers, NormalizationSettings

MATCHED = {
    "overlap": "overlap",
    "guaranteed": "guaranteed",
    "null": "null_overlap",
    "pattern": "pattern",
    "pattern_null": "pattern_null",
}
AGAINST = ("weighted", "normalised", "permuted")
"""With what the geometric matrix is compared: `W o M`; the paper's `norm(M)`; `W o M` where pairs are permuted."""


@dataclass
class Clouds:
    """Overlaps with the geometry of every network; each list has an entry per network."""

    settings: NormalizationSettings
    G: list[np.ndarray] = field(default_factory=list)
    W: list[np.ndarray] = field(default_factory=list)
    permuted: list[np.ndarray] = field(default_factory=list)
    M: list[np.ndarray] = field(default_factory=list)
    matched: list[np.ndarray] = field(default_factory=list)
    cells: list[np.ndarray] = field(default_factory=list)

    def add(self, answers: Answers) -> None:
        """Compute and store a network's geometric matrices per number of axes, and again with permuted pairs."""
        M, eps = answers.M, self.settings.smoothings
        # Every smoothing is a weighting of its own; the other three weightings are one computation for all.
        tables = [cmfast.importance_weights(M, "bi", smoothing=e, tol=self.settings.tol) for e in eps]
        weights = [*NORMALIZATIONS[:-1], *tables]
        order = np.random.default_rng(self.settings.seed).permutation(len(answers.y))
        for components in self.settings.components:
            options: dict[str, Any] = {"weights": weights, "n_classes": len(M), "n_components": components}
            with warnings.catch_warnings():  # what it warns of is in the numbers, and the page says it in words
                warnings.simplefilter("ignore")
                y, predicted, rng = answers.y, answers.predicted, self.settings.seed
                found = cmfast.geometric_confusion_matrix(answers.points, y, predicted, rng=rng, **options)
                dealt = cmfast.geometric_confusion_matrix(
                    answers.points, y[order], predicted[order], rng=rng, **options
                )
            d = found.diagnostics
            self.G.append(found.matrix)
            self.W.append(d.normalized)
            self.permuted.append(dealt.matrix)
            self.matched.append(np.stack([getattr(d, column) for column in MATCHED.values()]))
            self.cells.append(np.array([d.n_points, d.n_cells, d.singleton_fraction, d.unmixed_fraction]))
        self.M.append(M)

    def compare(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return all results of experiment 2, by data set, axes, smoothing and level."""
        s = self.settings
        shape = (len(names), s.repeats, len(s.levels), len(s.components))
        G, W, permuted, matched, cells = (
            np.stack(values).reshape(*shape, *np.shape(values[0]))
            for values in (self.G, self.W, self.permuted, self.matched, self.cells)
        )
        M = np.stack(self.M).reshape(*shape[:3], 1, *self.M[0].shape)
        out: dict[str, Any] = {name: {f"{m} axes": {} for m in s.components} for name in names}
        for e, eps in enumerate(s.smoothings):
            of = [0, 1, 2, 3 + e]
            pairs = _compute_overlaps(M, G[..., of, :, :], W[..., of, :, :], permuted[..., of, :, :], eps, s)
            missing = 1 - W[..., 3 + e, :, :].sum(axis=(-2, -1)) / M.shape[-1]
            for d, name in enumerate(names):
                for a, axes in enumerate(s.components):
                    at = (d, slice(None), slice(None), a)
                    one = {key: values[at] for key, values in pairs.items()}
                    out[name][f"{axes} axes"][f"{eps:g}"] = _summarize_levels(
                        one, matched[at][..., of], missing[at], cells[at], s
                    )
        return out


def _compute_overlaps(
    M: np.ndarray, G: np.ndarray, W: np.ndarray, permuted: np.ndarray, eps: float, settings: NormalizationSettings
) -> dict[str, np.ndarray]:
    """Return the overlap of every normalisation (last but one axis) with every geometric matrix (last)."""
    bi: dict[str, Any] = {"smoothing": eps, "tol": settings.tol}
    none: dict[str, Any] = {}
    norms = [cmfast.normalize(M, method, **(bi if method == "bi" else none)) for method in NORMALIZATIONS]
    N = np.stack(np.broadcast_arrays(*norms), axis=-3)
    return {
        "weighted": cmfast.overlap(W[..., :, None, :, :], G[..., None, :, :, :]),
        "normalised": cmfast.overlap(N[..., :, None, :, :], G[..., None, :, :, :]),
        "permuted": cmfast.overlap(W[..., :, None, :, :], permuted[..., None, :, :, :]),
    }


def _summarize_levels(
    pairs: dict[str, np.ndarray],
    matched: np.ndarray,
    missing: np.ndarray,
    cells: np.ndarray,
    settings: NormalizationSettings,
) -> dict[str, Any]:
    """Return the results by level for one data set, number of axes and smoothing."""
    levels = []
    for k, alpha in enumerate(settings.levels):
        points, occupied, alone, unmixed = cells[:, k].mean(axis=0)
        level: dict[str, Any] = {"alpha": alpha, "points": points, "cells": occupied, "alone": alone}
        level |= {"unmixed": unmixed, "missing_mass_bi": missing[:, k].mean()}
        for key in AGAINST:
            level[key] = {
                g: _summarize_overlaps(pairs[key][:, k, :, j], g, settings) for j, g in enumerate(NORMALIZATIONS)
            }
        own = {g: pairs["normalised"][:, k, j, j] for j, g in enumerate(NORMALIZATIONS)}
        level["row_before_bi"] = paired.compute_interval(own["row"] - own["bi"], settings.interval)
        level["matched"] = {
            g: {key: matched[:, k, row, j].mean() for row, key in enumerate(MATCHED)}
            for j, g in enumerate(NORMALIZATIONS)
        }
        levels.append(level)
    growth = {
        g: {
            key: paired.compute_interval(matched[:, -1, row, j] - matched[:, 0, row, j], settings.interval)
            for row, key in enumerate(MATCHED)
            if key in ("overlap", "guaranteed", "null")
        }
        for j, g in enumerate(NORMALIZATIONS)
    }
    rows = list(MATCHED)
    for j, g in enumerate(NORMALIZATIONS):
        grown = matched[:, -1, :, j] - matched[:, 0, :, j]
        beyond = grown[:, rows.index("overlap")] - grown[:, rows.index("guaranteed")]
        growth[g]["beyond"] = paired.compute_interval(beyond, settings.interval)
    return {"levels": levels, "growth": growth}


def _summarize_overlaps(values: np.ndarray, own: str, settings: NormalizationSettings) -> dict[str, Any]:
    """Return the overlaps of all normalisations with one geometric matrix, and `own` against the best other."""
    by_name: dict[str, np.ndarray] = {name: values[:, i] for i, name in enumerate(NORMALIZATIONS)}
    found: dict[str, Any] = {"overlap": {name: v.mean() for name, v in by_name.items()}}
    found["best_in"] = int((values.argmax(axis=1) == NORMALIZATIONS.index(own)).sum())
    found["own_against_best"] = paired.compare_with_best(by_name, own, settings.interval)
    return found
