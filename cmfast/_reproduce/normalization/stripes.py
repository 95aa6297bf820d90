"""Stripes of a matrix (Fig. 4): how much of its errors hangs on the row or on the column alone."""

from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.normalization.training import NormalizationSettings


def measure_stripes(S: np.ndarray) -> np.ndarray:
    """Return the share of the variance of off-diagonal cells that row and column effects explain, (...) of (..., C, C).

    R squared of the additive model of a two-way table, fitted by least squares to the cells off the diagonal: 1 where
    all errors are horizontal or vertical stripes. NaN where those cells are all alike.
    """
    C = S.shape[-1]
    row, column = np.nonzero(~np.eye(C, dtype=bool))
    values = S[..., row, column]
    design = np.concatenate([np.eye(C)[row], np.eye(C)[column]], axis=1)
    projection = design @ np.linalg.pinv(design)
    centred = values - values.mean(axis=-1, keepdims=True)
    total = (centred**2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share: np.ndarray = ((centred @ projection) ** 2).sum(axis=-1) / total
    return np.where(total > 0, share, np.nan)


def find_nearest_level(settings: NormalizationSettings) -> int:
    """Return the index of the level that is nearest to that of Fig. 4, a concentration of 0.3."""
    return min(range(len(settings.levels)), key=lambda k: abs(settings.levels[k] - 0.3))


def compare_stripes(
    truth: np.ndarray, skewed: np.ndarray, names: tuple[str, ...], settings: NormalizationSettings
) -> dict[str, dict[str, Any]]:
    """Return the stripes of every normalised imbalanced matrix, and intervals of their excess over the balanced matrix.

    `truth` and `skewed` are those of both experiments; of the first stop, at the level of Fig. 4.
    """
    level = find_nearest_level(settings)
    balanced = measure_stripes(truth[:, 0])
    out: dict[str, dict[str, Any]] = {"share": {}, "against_balanced": {}}
    for method in NORMALIZATIONS:
        options: dict[str, Any] = {"smoothing": settings.smoothings[0], "tol": settings.tol} if method == "bi" else {}
        found = measure_stripes(cmfast.normalize(skewed[:, 0, level], method, **options))
        for d, name in enumerate(names):
            place = f"{name} by {method}"
            out["share"][place] = float(np.nanmean(found[d]))
            out["against_balanced"][place] = paired.compute_interval(found[d] - balanced[d], settings.interval)
    out["share"] |= {f"{name} balanced": float(np.nanmean(balanced[d])) for d, name in enumerate(names)}
    return out
