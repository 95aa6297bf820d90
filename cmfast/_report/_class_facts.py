"""Facts about every class: recall and precision with intervals, and its main confusion."""

from typing import Any

import numpy as np

from cmfast import metrics, uncertainty
from cmfast._core.p_values import binomial_test, holm
from cmfast._report._options import ReportOptions, ScalingFactors
from cmfast._report._sparse_counts import SparseCounts


def describe_classes(
    M: Any, cells: SparseCounts, scaled: ScalingFactors, request: ReportOptions
) -> dict[str, np.ndarray]:
    """Return support, recall, precision, F1 and main confusion of each class.

    `M` holds the `cells`, dense or as CSR.
    """
    d, t, p = cells.sums()
    found = metrics.compute(M, ["recall", "precision", "f1"], undefined="nan", num_threads=request.num_threads)
    columns: dict[str, np.ndarray] = {"support": t, "predicted": p}
    for name, of in (("recall", t), ("precision", p)):
        low, high = compute_share_intervals(d, of, request)
        columns |= {name: found[name], f"{name}_low": np.where(of > 0, low, np.nan)}
        columns |= {f"{name}_high": np.where(of > 0, high, np.nan)}
    columns["f1"] = found["f1"]
    columns["balanced"] = scaled.rows * (d + scaled.smoothing) * scaled.cols
    columns["taken_for"] = find_main_confusions(cells, request.confidence_level)
    return columns


def find_main_confusions(cells: SparseCounts, confidence_level: float) -> np.ndarray:
    """Return the class that each class is most often confused with, -1 if the first is not significant."""
    off = cells.rows != cells.cols
    rows, cols, counts = cells.rows[off], cells.cols[off], cells.counts[off]
    order = np.lexsort((cols, -counts, rows))
    rows, cols, counts = rows[order], cols[order], counts[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    after = np.append(counts, 0)[first + 1]
    second = np.where(np.append(rows, -1)[first + 1] == rows[first], after, 0)
    out = np.full(cells.n_classes, -1)
    if cells.n_classes > 2 and len(first):  # with two classes there is no alternative
        first = first[holm(np.atleast_1d(binomial_test(counts[first], second))) <= 1.0 - confidence_level]
    out[rows[first]] = cols[first]
    return out


def compute_share_intervals(
    counts: np.ndarray, of: np.ndarray, request: ReportOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson intervals of shares, computed as the recall of 2x2 matrices."""
    pairs = np.zeros((len(counts), 2, 2), np.int64)
    pairs[:, 0] = np.stack([counts, of - counts], axis=-1)
    options: dict[str, Any] = {"method": "wilson", "confidence_level": request.confidence_level, "on_failure": "ignore"}
    found = uncertainty.interval(pairs, "recall", num_threads=request.num_threads, **options)
    return found.low[:, 0], found.high[:, 0]
