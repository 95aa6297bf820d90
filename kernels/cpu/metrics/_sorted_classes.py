"""Matrices at all thresholds, and areas under curves, from the sorted scores of the positive and the other samples.

To sort both classes apart takes a third of the time in which NumPy finds the order of all samples, and two threads can
do it. The area under the ROC curve of samples without weights is the quotient of two integers; other sums are added
with their rounding errors (Neumaier 1974).
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.status import INVALID, OK

LEAST_APART = 1 << 10  # scores of a row; fewer are sorted with all rows together
SECONDS_PER_SORTED_SCORE, SECONDS_PER_MERGED_SCORE = 1e-8, 1e-8


@jit()
def _count_positive(scores, y):
    """Return the number of positive samples, or -1 if a score is NaN or a label is not 1, 0 or -1."""
    positive, good = 0, True
    for i in range(len(scores)):
        x, label = scores[i], y[i]
        good &= (x == x) & (label >= -1) & (label <= 1)  # noqa: PLR0124 - NaN alone is not
        positive += label == 1
    return positive if good else -1


@jit()
def _split_classes(scores, y, weight, positive, out, out_weight):
    """Write the scores, and weights if any, of the `positive` samples, then those of all others."""
    up, down = 0, positive
    for i in range(len(scores)):
        is_positive = y[i] == 1
        at = up if is_positive else down
        out[at] = scores[i]
        if weight is not None:
            out_weight[at] = weight[i]
        up += is_positive
        down += not is_positive


@jit()
def order_ties(ascending, order):
    """Return an `order` with the samples of equal scores in descending order; the scores are `ascending` in it."""
    n, runs = len(order), 1
    for k in range(1, n):
        runs += ascending[k] != ascending[k - 1]
    if runs >= n:
        return order
    rank, place, ordered = np.empty(n, np.int64), np.empty(runs, np.int64), np.empty_like(order)
    runs = 0
    for k in range(n):
        if k == 0 or ascending[k] != ascending[k - 1]:
            place[runs] = k
            runs += 1
        rank[order[k]] = runs - 1
    for i in range(n - 1, -1, -1):
        ordered[place[rank[i]]] = i
        place[rank[i]] += 1
    return ordered


@jit()
def _sum_from_highest(weight, order, sums):
    """Write the sum of the weights from each index of an ascending order on, added from the last one down."""
    sums[len(order)] = 0
    for k in range(len(order) - 1, -1, -1):
        sums[k] = sums[k + 1] + weight[order[k]]


@jit()
def _scale_sums(sums, scale):
    """Return sums of weights as float64 whose largest magnitude is below one, if `scale`; a power of two is exact."""
    largest = np.abs(sums.astype(np.float64)).max()
    exponent = -math.frexp(largest)[1] if scale else 0
    out = np.empty(len(sums))
    for i in range(len(sums)):
        out[i] = math.ldexp(float(sums[i]), exponent)
    return out


@jit()
def _add(total, lost, term):
    """Return a sum and what rounding took from it so far (Neumaier 1974), with one more term."""
    new = total + term
    return new, lost + ((total - new) + term if abs(total) >= abs(term) else (term - new) + total)


@jit()
def _measure_areas(positive, others, sums, scale):
    """Return area under the ROC curve and average precision of two classes of sorted scores; NaN if undefined.

    `sums` are those of the weights of `positive` and `others` from each index on, or None if all weights are one.
    With `scale` products of weights are computed such that they can neither overflow nor underflow.
    """
    i, j = len(positive), len(others)
    pairs, area, area_lost, precisions, precisions_lost = 0, 0.0, 0.0, 0.0, 0.0
    if sums is None:
        all_true, all_false = len(positive), len(others)
    else:
        scaled = _scale_sums(sums[0], scale), _scale_sums(sums[1], scale)
        all_true, all_false = scaled[0][0], scaled[1][0]
    true, false = all_true - all_true, all_false - all_false
    while i + j > 0:
        x = others[j - 1] if i == 0 or (j > 0 and others[j - 1] > positive[i - 1]) else positive[i - 1]
        before = i
        while i > 0 and positive[i - 1] == x:
            i -= 1
        while j > 0 and others[j - 1] == x:
            j -= 1
        # Half of the samples with the same score count as lower: twice the area is added.
        if sums is None:
            new_true, new_false = len(positive) - i, len(others) - j
            pairs += (new_false - false) * (true + new_true)
            precision = new_true / (new_true + new_false)
        else:
            new_true, new_false = scaled[0][i], scaled[1][j]
            area, area_lost = _add(area, area_lost, (new_false - false) * (true + new_true))
            called = float(sums[0][i]) + float(sums[1][j])
            precision = float(sums[0][i]) / called if called > 0.0 else 0.0
        if i < before:
            precisions, precisions_lost = _add(precisions, precisions_lost, (new_true - true) * precision)
        true, false = new_true, new_false
    square = 2.0 * all_true * all_false
    first = (pairs + (area + area_lost)) / square if square != 0.0 else np.nan
    return first, (precisions + precisions_lost) / all_true if all_true != 0 else np.nan


@jit()
def _count_matrices(positive, others, sums, thresholds, matrices):
    """Write every score, from the highest down, and the matrix if all samples of at least that score are positive.

    `sums` are those of the weights of `positive` and `others` from each index on, or None if all weights are one.
    """
    i, j, k = len(positive), len(others), 0
    while k <= len(positive) + len(others):
        x = np.inf
        if k > 0:
            x = others[j - 1] if i == 0 or (j > 0 and others[j - 1] > positive[i - 1]) else positive[i - 1]
            while i > 0 and positive[i - 1] == x:
                i -= 1
            while j > 0 and others[j - 1] == x:
                j -= 1
        if sums is None:
            true, false, all_true, all_false = len(positive) - i, len(others) - j, len(positive), len(others)
        else:
            true, false, all_true, all_false = sums[0][i], sums[1][j], sums[0][0], sums[1][0]
        while k <= len(positive) - i + len(others) - j:  # samples of equal scores have equal matrices
            thresholds[k] = x + 0.0  # -0.0 equals 0.0
            matrices[k, 0, 0], matrices[k, 0, 1] = all_false - false, false
            matrices[k, 1, 0], matrices[k, 1, 1] = all_true - true, true
            k += 1


def can_sort_apart(n):
    """Return whether the classes of rows of n scores are sorted apart, a row after the other."""
    return n >= LEAST_APART


def convert_labels(y):
    """Return labels as contiguous int8 or int64, such that no other label becomes 1, 0 or -1."""
    if y.dtype.kind == "u":
        return freeze(np.ascontiguousarray(np.minimum(y, 2), np.int8))
    return freeze(np.ascontiguousarray(y, np.int8 if y.dtype.itemsize == 1 else np.int64))


def _sort_class(scores, weight):
    """Return sorted scores and the sums of their weights from each index on; None for no weights."""
    if weight is None:
        scores.sort()
        return scores, None
    order = np.argsort(scores)
    ascending = scores[order]
    if weight.dtype.kind == "f":  # the order in which floats are added must not depend on the sort
        order = order_ties(ascending, order)
    sums = np.empty(len(order) + 1, weight.dtype)
    _sum_from_highest(weight, order, sums)
    return ascending, sums


def _sort_apart(scores, y, weight):
    """Return the sorted scores of positive and of other samples, and both sums of weights; None for invalid values."""
    n, m = len(scores), _count_positive(scores, y)
    if m < 0:
        return None
    apart, own = np.empty_like(scores), None if weight is None else np.empty_like(weight)
    _split_classes(scores, y, weight, m, apart, own)
    found = [(apart, None)] * 2

    def sort(k, start, stop):
        """Sort one class."""
        found[k] = _sort_class(apart[start:stop], None if own is None else own[start:stop])

    pool.run_pieces(sort, [(0, m), (m, n)], seconds=n * SECONDS_PER_SORTED_SCORE)
    (positive, one), (others, other) = found
    return positive, others, None if weight is None else (one, other)


def _visit_rows(scores, y, weight, use):
    """Call ``use(row, positive, others, sums)`` with the sorted classes of each row; return the status of the rows."""
    n, rows = scores.shape[-1], math.prod(scores.shape[:-1])
    kind = scores.dtype if scores.dtype.char in "fd" and weight is None else np.dtype(np.float64)
    s = freeze(np.ascontiguousarray(scores, kind).reshape(rows, n))
    labels, status = convert_labels(y).reshape(rows, n), np.full(rows, INVALID, np.int8)

    def visit(_, start, stop):
        """Sort some rows and use them."""
        for r in range(start, stop):
            pool.checkpoint()
            found = _sort_apart(s[r], labels[r], None if weight is None else weight[r])
            if found is not None:
                use(r, *found)
                status[r] = OK

    seconds = rows * n * (SECONDS_PER_SORTED_SCORE + SECONDS_PER_MERGED_SCORE)
    pool.run_pieces(visit, pool.free_pieces(rows, seconds), seconds=seconds)
    return status


def measure_areas(scores, y, weight):
    """Return the area under the ROC curve, the average precision and the status of every row of scores.

    `weight` are int64 or float64, a row for each row of scores, or None.
    """
    areas = np.full((2, math.prod(scores.shape[:-1])), np.nan)

    def measure(row, positive, others, sums):
        """Measure both areas of a row."""
        areas[:, row] = _measure_areas(positive, others, sums, weight is not None and weight.dtype.kind == "f")

    status = _visit_rows(scores, y, weight, measure)
    return *areas, status


def count_matrices(scores, y, weight, thresholds, matrices):
    """Write all thresholds, and the matrix at each, of every row of scores; return the status of the rows.

    `weight` are int64 or float64, a row for each row of scores, or None.
    """

    def count(row, positive, others, sums):
        """Count the matrices of a row."""
        _count_matrices(positive, others, sums, thresholds[row], matrices[row])

    return _visit_rows(scores, y, weight, count)
