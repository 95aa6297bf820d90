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
    """Sum of weights, floats rounded once; None where there is none."""
    if dtype == np.int64:
        return sum(weights) if -(2**63) <= sum(weights) < 2**63 else None
    if any(not math.isfinite(w) for w in weights):
        return None
    try:
        total = float(sum(map(Fraction, weights)))
    except OverflowError:
        return None
    return total if math.isfinite(total) else None


def _table(pairs, order, dtype):
    """Return the matrix of one list of (truth, prediction, weight), NaN (or 0) throughout where a sum is no number."""
    position = {label: k for k, label in enumerate(order)}
    cells = [[[] for _ in order] for _ in order]
    for truth, prediction, weight in pairs:
        if truth in position and prediction in position:
            cells[position[truth]][position[prediction]].append(weight)
    sums = [[_cell(cell, dtype) for cell in row] for row in cells]
    good = all(x is not None for row in sums for x in row)
    return sums if good else [[0 if dtype == np.int64 else math.nan for _ in order] for _ in order]


def _confusion_matrix(
    y_true, y_pred, *, n_classes=None, labels=None, sample_weight=None, groups=None, n_groups=None, ignore_index=None
):
    t, p = np.broadcast_arrays(y_true, y_pred)
    ignored = [] if ignore_index is None else np.ravel(ignore_index).tolist()
    seen = ~np.isin(t, ignored)
    order = _order(t[seen], p[seen], n_classes, labels)
    dtype = np.int64 if sample_weight is None or np.asarray(sample_weight).dtype.kind in "bui" else np.float64
    weight = np.asarray(1 if sample_weight is None else sample_weight)
    group = np.asarray(0 if groups is None else groups)
    if n_groups is None:
        n_groups = int(group.max()) + 1 if group.size else 0
    t, p, w, g = np.broadcast_arrays(y_true, y_pred, weight, group)
    batch = t.shape[:-1]
    out = np.zeros((*batch, n_groups, len(order), len(order)), dtype)
    for index in np.ndindex(batch):
        for k in range(n_groups):
            rows = zip(t[index].tolist(), p[index].tolist(), w[index].tolist(), g[index].tolist(), strict=True)
            own = [row for row in rows if row[3] == k and row[0] not in ignored]
            pairs = [(truth, prediction, weight) for truth, prediction, weight, _ in own]
            out[(*index, k)] = np.array(_table(pairs, order, dtype), dtype).reshape(len(order), len(order))
    return (out if groups is not None else out[..., 0, :, :],)


ORACLES = {"confusion_matrix": _confusion_matrix}
