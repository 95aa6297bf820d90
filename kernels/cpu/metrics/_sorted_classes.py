"""Areas under curves of many unweighted scores, from the sorted scores of the positive and of the other samples.

To sort both classes apart takes a quarter of the time in which NumPy finds the order of all samples. The area under the
ROC curve is the quotient of two integers; the average precision is added with the rounding errors (Neumaier 1974).
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
def _split_classes(scores, y, out):
    """Write the scores of positive samples from the front and all others from the back; return the number of the first.

    -1 if a score is NaN or a label is not 1, 0 or -1.
    """
    up, down, good = 0, len(out) - 1, True
    for i in range(len(scores)):
        x, label = scores[i], y[i]
        good &= (x == x) & (label >= -1) & (label <= 1)  # noqa: PLR0124 - NaN alone is not
        is_positive = label == 1
        out[up if is_positive else down] = x
        up += is_positive
        down -= not is_positive
    return up if good else -1


@jit()
def _measure_areas(positive, others):
    """Return area under the ROC curve and average precision of two classes of sorted scores; NaN if undefined."""
    i, j, area, precisions, lost = len(positive) - 1, len(others) - 1, 0, 0.0, 0.0
    while i >= 0:
        x, before = positive[i], i
        while i >= 0 and positive[i] == x:
            i -= 1
        while j >= 0 and others[j] > x:
            j -= 1
        # Half of the samples with the same score count as lower: twice the area is added.
        same = j
        while same >= 0 and others[same] == x:
            same -= 1
        new, called = before - i, len(positive) + len(others) - 2 - i - same
        area += new * (j + same + 2)
        term = new * ((len(positive) - 1 - i) / called)
        total = precisions + term
        lost += (precisions - total) + term if precisions >= term else (term - total) + precisions
        precisions, j = total, same
    pairs = 2.0 * len(positive) * len(others)
    first = area / pairs if pairs > 0.0 else np.nan
    return first, (precisions + lost) / len(positive) if len(positive) > 0 else np.nan


def can_sort_apart(scores, weight):
    """Return whether classes are sorted apart: of many unweighted scores, a row after the other."""
    return weight is None and scores.shape[-1] >= LEAST_APART


def measure_areas(scores, y):
    """Return the area under the ROC curve, the average precision and the status of every row of scores."""
    (*batch, n), rows = scores.shape, math.prod(scores.shape[:-1])
    kind = scores.dtype if scores.dtype.char in "fd" else np.dtype(np.float64)
    s = freeze(np.ascontiguousarray(scores, kind).reshape(rows, n))
    labels = freeze(np.ascontiguousarray(y, np.int8 if y.dtype.itemsize == 1 else np.int64).reshape(rows, n))
    areas, status = np.full((2, rows), np.nan), np.full(rows, INVALID, np.int8)
    seconds = n * SECONDS_PER_SORTED_SCORE

    def measure(_, start, stop):
        """Measure the areas of some rows."""
        apart = np.empty(n, kind)
        for r in range(start, stop):
            pool.checkpoint()
            m = _split_classes(s[r], labels[r], apart)
            if m < 0:
                continue
            status[r] = OK
            pool.run_pieces(lambda _, first, end: apart[first:end].sort(), [(0, m), (m, n)], seconds=seconds)
            areas[:, r] = _measure_areas(apart[:m], apart[m:])

    whole = rows * n * (SECONDS_PER_SORTED_SCORE + SECONDS_PER_MERGED_SCORE)
    pool.run_pieces(measure, pool.free_pieces(rows, whole), seconds=whole)
    return areas[0].reshape(batch), areas[1].reshape(batch), status.reshape(batch)
