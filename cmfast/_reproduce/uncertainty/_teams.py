"""Matrices of four teams, printed values of the notebook, and the draws of its simulation."""

from typing import Any

import numpy as np

import cmfast
from cmfast import metrics, uncertainty

CLASSES = ["epithelial", "lymphocyte", "neutrophil", "macrophage"]
TEAMS = np.array(  # rows: no cell, then the four classes; columns: not detected, then the four classes
    [
        [
            [0, 1338, 829, 14, 59],
            [831, 6098, 260, 8, 12],
            [507, 79, 7214, 2, 1],
            [8, 5, 39, 118, 2],
            [102, 16, 11, 8, 170],
        ],
        [
            [0, 962, 629, 5, 285],
            [824, 6240, 88, 0, 57],
            [500, 162, 7131, 4, 6],
            [10, 1, 18, 133, 10],
            [115, 16, 1, 11, 164],
        ],
        [
            [0, 2932, 1545, 50, 99],
            [1152, 5960, 96, 0, 1],
            [860, 76, 6864, 3, 0],
            [11, 1, 20, 137, 3],
            [99, 30, 8, 11, 159],
        ],
        [
            [0, 1035, 770, 10, 13],
            [690, 6193, 302, 2, 22],
            [349, 179, 7274, 1, 0],
            [12, 3, 38, 117, 2],
            [90, 30, 7, 25, 155],
        ],
    ]
)
MISSED, COUNTS = TEAMS[:, 1:, 0], TEAMS[:, 1:, 1:]
SIZES = (15000, 5000, 1000)
KINDS = ("counts", "normalised")
NAMES: dict[metrics.MetricName, str] = {
    "accuracy": "Acc",
    "geometric_mean": "GM",
    "mcc_01": "MCCn",
    "f1_of_macro": "hF1",
    "f1_macro": "sF1",
    "kappa_01": "kUn",
}
PRINTED = {  # by team; counts, then normalised
    "accuracy": ([0.968, 0.973, 0.981, 0.957], [0.873, 0.907, 0.897, 0.843]),
    "geometric_mean": ([0.867, 0.904, 0.892, 0.834], [0.867, 0.904, 0.892, 0.834]),
    "mcc_01": ([0.970, 0.975, 0.982, 0.959], [0.919, 0.939, 0.933, 0.899]),
    "f1_of_macro": ([0.902, 0.897, 0.928, 0.870], [0.883, 0.908, 0.901, 0.851]),
    "f1_macro": ([0.972, 0.978, 0.984, 0.962], [0.887, 0.931, 0.915, 0.872]),
    "kappa_01": ([0.970, 0.975, 0.982, 0.959], [0.916, 0.938, 0.931, 0.895]),
}
PRINTED_WIDTHS = {  # by size, for counts and normalised each
    "accuracy": ([0.001, 0.002, 0.006], [0.003, 0.010, 0.052]),
    "geometric_mean": ([0.003, 0.011, 0.056], [0.003, 0.011, 0.056]),
    "mcc_01": ([0.001, 0.002, 0.005], [0.002, 0.006, 0.035]),
    "f1_of_macro": ([0.006, 0.011, 0.046], [0.003, 0.009, 0.054]),
    "f1_macro": ([0.001, 0.001, 0.003], [0.002, 0.007, 0.035]),
    "kappa_01": ([0.001, 0.002, 0.005], [0.002, 0.006, 0.034]),
}


def normalize_kind(M: Any, kind: str) -> np.ndarray:
    """Return counts as they are, or the row-normalised matrices, as `kind` says."""
    shares: np.ndarray = M if kind == "counts" else cmfast.normalize(M, "row", on_failure="ignore")
    return shares


def compute_metrics(M: Any) -> dict[str, np.ndarray]:
    """Return the six metrics of matrices by name."""
    return dict(metrics.compute(M, list(NAMES), on_failure="ignore"))


def average_first_two(M: Any) -> np.ndarray:
    """Return the mean F1 of the first two classes, which the notebook prints as the mean of four."""
    f1: np.ndarray = metrics.f1(M, on_failure="ignore")[..., :2].mean(axis=-1)
    return f1


def compute_widths(scheme: Any, n: int, n_resamples: int, rng: int) -> dict[str, dict[str, float]]:
    """Return, by kind and metric, the largest 2.5 to 97.5 percentile width over the teams."""
    drawn = uncertainty.resample(COUNTS, MISSED, n_resamples=n_resamples, scheme=scheme, n=n, rng=rng)
    out = {}
    for kind in KINDS:
        M = normalize_kind(drawn, kind)
        found = {**compute_metrics(M), "first two": average_first_two(M)}
        out[kind] = {name: _width(each) for name, each in found.items()}
    return out


def _width(each: np.ndarray) -> float:
    """Return the largest 2.5 to 97.5 percentile width over the teams; replicates are the last axis."""
    low, high = np.quantile(each, (0.025, 0.975), axis=-1)
    return float((high - low).max())
