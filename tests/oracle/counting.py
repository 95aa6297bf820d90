"""Confusion matrices, one sample at a time, weights in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np


def _order(y_true, y_pred, n_classes, labels):
    if n_classes is not None:
        return list(range(n_classes))
    if labels is not None:
        return list(np.asarray(labels).tolist())
    return sorted({*np.asarray(y_true).ravel().tolist(), *np.asarray(y_pred).ravel().tolist()})


def _cell(weights, dtype):
    """Sum of weights as a float, rounded once; None where there is none."""
    if any(not math.isfinite(w) for w in weights):
        return None
    try:
        total = float(sum(map(Fraction, weights)))
    except OverflowError:
        return None
    return total if abs(total) <= float(np.finfo(dtype).max) else None


def _table(pairs, order, dtype):
    """Return the matrix of one list of (truth, prediction, weight), NaN throughout where a sum is no number."""
    position = {label: k for k, label in enumerate(order)}
    cells = [[[] for _ in order] for _ in order]
    for truth, prediction, weight in pairs:
        if truth in position and prediction in position:
            cells[position[truth]][position[prediction]].append(weight)
    if dtype == np.int64:
        return [[len(cell) for cell in row] for row in cells]
    sums = [[_cell(cell, dtype) for cell in row] for row in cells]
    good = all(x is not None for row in sums for x in row)
    return sums if good else [[math.nan for _ in order] for _ in order]


def _confusion_matrix(y_true, y_pred, *, n_classes=None, labels=None, sample_weight=None, groups=None, n_groups=None):
    order = _order(y_true, y_pred, n_classes, labels)
    dtype = np.int64
    if sample_weight is not None:
        dtype = np.float32 if np.asarray(sample_weight).dtype == np.float32 else np.float64
    weight = np.asarray(1.0 if sample_weight is None else sample_weight)
    group = np.asarray(0 if groups is None else groups)
    if n_groups is None:
        n_groups = int(group.max()) + 1 if group.size else 0
    t, p, w, g = np.broadcast_arrays(y_true, y_pred, weight, group)
    batch = t.shape[:-1]
    out = np.zeros((*batch, n_groups, len(order), len(order)), dtype)
    for index in np.ndindex(batch):
        for k in range(n_groups):
            rows = zip(t[index].tolist(), p[index].tolist(), w[index].tolist(), g[index].tolist(), strict=True)
            pairs = [(truth, prediction, weight) for truth, prediction, weight, where in rows if where == k]
            out[(*index, k)] = np.array(_table(pairs, order, dtype), dtype).reshape(len(order), len(order))
    return (out if groups is not None else out[..., 0, :, :],)


ORACLES = {"confusion_matrix": _confusion_matrix}
