"""Binary confusion matrices at all thresholds of a score array, from one sort; areas under curves and least cost."""

import numpy as np

from cmfast.kernels.cpu.metrics import _sorted_classes
from cmfast.kernels.shared.metrics import compute_areas
from cmfast.kernels.status import Status


def threshold_matrices(scores, y, weight):
    """Return thresholds, descending from infinity, the matrix at each, and the status of every row of scores.

    Labels are 1, and 0 or -1; `weight` has their shape, or is None.
    """
    n = scores.shape[-1]
    s = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    order = np.argsort(-s, axis=-1, kind="stable")
    s = np.take_along_axis(s, order, -1)
    hit = np.take_along_axis(y == 1, order, -1)
    # Tied scores share a threshold: each gets the counts at the last of them.
    last = np.ones(s.shape, bool)
    last[..., :-1] = s[..., :-1] != s[..., 1:]
    end = np.where(last, np.arange(n), n)
    end = np.minimum.accumulate(end[..., ::-1], axis=-1)[..., ::-1]
    bad = np.isnan(s).any(-1) | ((y != 0) & (y != 1) & (y != -1)).any(-1)
    kind = np.float64 if weight is not None and weight.dtype.kind == "f" else np.int64
    if weight is not None:
        with np.errstate(over="ignore"):
            total = abs(weight.astype(np.float64)).sum(-1)
        bad = bad | ~(total < (2.0**63 if kind is np.int64 else np.inf))
    # An invalid row may have NaN weights.
    one = 1 if weight is None else np.where(bad[..., None], 0, np.take_along_axis(weight, order, -1)).astype(kind)
    matrices = np.zeros((*s.shape[:-1], n + 1, 2, 2), kind)
    for truth, counts in ((1, np.cumsum(hit * one, -1, kind)), (0, np.cumsum(~hit * one, -1, kind))):
        matrices[..., 1:, truth, 1] = np.take_along_axis(counts, end, -1)
        matrices[..., truth, 0] = counts[..., -1:] - matrices[..., truth, 1] if n else 0
    thresholds = np.concatenate([np.full((*s.shape[:-1], 1), np.inf, s.dtype), s], -1)
    thresholds[bad] = np.nan
    matrices[bad] = 0
    return thresholds, matrices, np.where(bad, np.int8(Status.INVALID), np.int8(0))


def score_areas(scores, y, weight):
    """Return the area under the ROC curve, the average precision and the status; NaN where undefined."""
    if _sorted_classes.can_sort_apart(scores, weight):
        return _sorted_classes.measure_areas(scores, y)
    _, matrices, status = threshold_matrices(scores, y, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        return *compute_areas(np, matrices), status


def _sum_costs(matrices, price):
    """Return the cost of every matrix: the sum of its cells times their prices."""
    return sum(matrices[..., i, j] * price[i, j] for i in (0, 1) for j in (0, 1))


def least_cost(scores, y, weight, cost):
    """Return the highest threshold of least cost, that cost, the matrix at it, and the status."""
    thresholds, matrices, status = threshold_matrices(scores, y, weight)
    price = np.asarray(cost, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = _sum_costs(matrices, price)
        finite, exponent = np.isfinite(total).all(-1, keepdims=True), 0
        if not finite.all():  # overflowing rows use prices scaled below 2**-4, whose four products have a finite sum
            exponent = int(np.frexp(np.abs(price).max())[1]) + 4
            total = np.where(finite, total, _sum_costs(matrices, np.ldexp(price, -exponent)))
        best = np.argmin(total, -1)[..., None]
        least = np.ldexp(np.take_along_axis(total, best, -1), np.where(finite, 0, exponent))[..., 0]
    threshold = np.take_along_axis(thresholds, best, -1)[..., 0]
    least = np.where(np.asarray(status) != 0, np.nan, least)
    return threshold, least, np.take_along_axis(matrices, best[..., None, None], -3)[..., 0, :, :], status
