"""Binary confusion matrices at all thresholds of a score array, from one sort; areas under curves and least cost."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.metrics._sorted_classes import (
    can_sort_apart,
    convert_labels,
    count_matrices,
    measure_areas,
    order_ties,
)
from cmfast.kernels.shared.metrics import compute_areas, rank_wide_integers
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_COUNTED_SCORE = 2e-8


@jit()
def _count_in_order(scores, y, weight, order, thresholds, matrices, good):
    """Write every score of each row, from the highest down, the matrix at it, and which rows are `good`.

    `order` sorts the scores in ascending order, NaN last. `weight` has a row for each row of scores, or one for all.
    """
    n = scores.shape[1]
    ascending = np.empty(n)
    for r in range(len(scores)):
        s, label, w, out, total = scores[r], y[r], weight[r % len(weight)], thresholds[r], matrices[r]
        for k in range(n):
            ascending[k] = s[order[r, k]]
        if n > 0 and np.isnan(ascending[n - 1]):
            continue
        # The order in which floats are added must not depend on the sort.
        to = order_ties(ascending, order[r])
        is_good = True
        out[0], total[0, 0, 1], total[0, 1, 1] = np.inf, 0, 0
        for k in range(1, n + 1):
            i = to[n - k]
            hit = label[i] == 1
            is_good &= hit | (label[i] == 0) | (label[i] == -1)
            out[k] = ascending[n - k] + 0.0  # -0.0 equals 0.0
            total[k, 0, 1] = total[k - 1, 0, 1] + (0 if hit else w[i])
            total[k, 1, 1] = total[k - 1, 1, 1] + (w[i] if hit else 0)
        negative, positive = total[n, 0, 1], total[n, 1, 1]
        for k in range(n, -1, -1):
            if 0 < k < n and out[k] == out[k + 1]:  # each of equal scores gets the sums of all of them
                total[k, 0, 1], total[k, 1, 1] = total[k + 1, 0, 1], total[k + 1, 1, 1]
            total[k, 0, 0], total[k, 1, 0] = negative - total[k, 0, 1], positive - total[k, 1, 1]
        good[r] = is_good


def _count_rows(scores, y, weight, thresholds, matrices):
    """Write all thresholds, and the matrix at each, of rows of few scores; return which rows are valid."""
    rows, n = scores.shape
    good = np.zeros(rows, bool)

    def count(_, start, stop):
        """Sort some rows together and count the matrices of each."""
        pool.checkpoint()
        some = slice(start, stop)
        order, own = np.argsort(scores[some], axis=-1), weight[some] if len(weight) == rows else weight
        _count_in_order(scores[some], y[some], own, order, thresholds[some], matrices[some], good[some])

    seconds = rows * n * SECONDS_PER_COUNTED_SCORE
    pool.run_pieces(count, pool.free_pieces(rows, seconds), seconds=seconds)
    return good


def _find_valid_weights(weight):
    """Return which rows of weights have a finite sum of magnitudes, of integers one below 2**63."""
    with np.errstate(over="ignore"):
        total = abs(weight.astype(np.float64)).sum(-1)
    return total < (np.inf if weight.dtype.kind == "f" else 2.0**63)


def _convert_weights(weight, shape):
    """Return contiguous int64 or float64 weights of a shape; None for None."""
    if weight is None:
        return None
    return freeze(np.ascontiguousarray(weight, np.float64 if weight.dtype.kind == "f" else np.int64).reshape(shape))


def threshold_matrices(scores, y, weight):
    """Return thresholds, descending from infinity, the matrix at each, and the status of every row of scores.

    Labels are 1, and 0 or -1; `weight` has their shape, or is None.
    """
    (*batch, n), rows = scores.shape, math.prod(scores.shape[:-1])
    weights = _convert_weights(weight, (rows, n))
    matrices = np.empty((rows, n + 1, 2, 2), np.int64 if weights is None else weights.dtype)
    if can_sort_apart(n):
        thresholds = np.empty((rows, n + 1), scores.dtype if scores.dtype.char in "fd" else np.float64)
        good = count_matrices(scores, y, weights, thresholds, matrices) == OK
    else:
        thresholds, s = np.empty((rows, n + 1)), freeze(np.ascontiguousarray(scores, np.float64).reshape(rows, n))
        weights = freeze(np.ones((1, n), np.int64)) if weights is None else weights
        good = _count_rows(s, convert_labels(y).reshape(rows, n), weights, thresholds, matrices)
    if weight is not None:
        good &= _find_valid_weights(weight).reshape(rows)
    if not good.all():
        thresholds[~good], matrices[~good] = np.nan, 0
    thresholds = thresholds.astype(scores.dtype if scores.dtype.kind == "f" else np.float64, copy=False)
    status = np.where(good, OK, INVALID).astype(np.int8).reshape(batch)
    return thresholds.reshape(*batch, n + 1), matrices.reshape(*batch, n + 1, 2, 2), status


def score_areas(scores, y, weight):
    """Return the area under the ROC curve, the average precision and the status; NaN where undefined."""
    scores = rank_wide_integers(np, scores)
    (*batch, n), rows = scores.shape, math.prod(scores.shape[:-1])
    if can_sort_apart(n):
        *areas, status = measure_areas(scores, y, _convert_weights(weight, (rows, n)))
        if weight is not None:
            good = _find_valid_weights(weight).reshape(rows)
            areas, status = np.where(good, areas, np.nan), np.where(good, status, np.int8(INVALID))
        return *(area.reshape(batch) for area in areas), status.reshape(batch)
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
