"""Binary confusion matrices at all thresholds of score arrays, from one sort of all rows.

A sort that carries values takes one byte along with each key, and the key encodes the score; CuPy's sort returns
positions, by which scores and labels are gathered. Both give the same bits.
"""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, sorting
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.shared.metrics import compute_areas, rank_wide_integers
from cmfast.kernels.status import INVALID

_SCORES = ("float", "double")
_SORTED_BY = (("float", "unsigned"), ("float", "u64"), ("double", "u64"))  # key type for each score type
_KEYS = Kernel(
    "metrics/thresholds",
    "cmfast_threshold_matrices_keys",
    tuple((t, y, k) for (t, k), y in product(_SORTED_BY, batches.LABELS)),
)
_GATHER = Kernel("metrics/thresholds", "cmfast_threshold_matrices_gather", tuple(product(_SCORES, batches.LABELS)))
_RETURN = Kernel("metrics/thresholds", "cmfast_threshold_matrices_scores", _SORTED_BY)
_COUNT = Kernel("metrics/thresholds", "cmfast_threshold_matrices_count", tuple((t,) for t in _SCORES))
KERNELS = (_KEYS, _GATHER, _RETURN, _COUNT)
_MOST_ROWS = 1 << 31  # row number and label share 32 bits


def threshold_matrices(scores: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return thresholds, descending from infinity, the matrix at each, and the status of every row of scores.

    Labels are 1, and 0 or -1; `weight` has their shape, or is None.
    """
    xp, n, batch = library(scores), scores.shape[-1], scores.shape[:-1]
    dtype = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    s = batches.flat_batch(batches.as_floating(scores.astype(np.float32) if dtype == np.float16 else scores), 1)
    (labels,), label = batches.as_labels(batches.flat_batch(y, 1))
    rows, kind = math.prod(batch), NAMES[s.dtype]
    order, bad = None, xp.zeros(rows, np.int32)
    ordered, hits = xp.empty(s.shape, s.dtype), xp.zeros(s.size, np.uint8)
    if s.size:
        order = _sort_scores(s, labels, label, bad, ordered, hits, positions=weight is not None)
    thresholds, matrices = xp.empty((*batch, n + 1), s.dtype), xp.empty((*batch, n + 1, 2, 2), np.int64)
    status = xp.empty(batch, np.int8)
    if rows:
        _COUNT.launch(
            (kind,), batches.item_blocks(thresholds.size),
            scores=ordered, hits=xp.cumsum(hits, dtype=np.int64), bad=bad, n=n, rows=rows,
            out_thresholds=thresholds, out_matrices=matrices, out_status=status,
        )  # fmt: skip
    thresholds = thresholds.astype(dtype, copy=False)
    if weight is None:
        return thresholds, matrices, status
    own = batches.flat_batch(weight, 1)
    size = abs(own.astype(np.float64)).sum(-1)
    good = (status == 0) & (size < (np.inf if weight.dtype.kind == "f" else 2.0**63)).reshape(batch)
    own = own.astype(np.float64 if weight.dtype.kind == "f" else np.int64)
    matrices = _weigh_matrices(own, order, hits, matrices.reshape(rows, n + 1, 2, 2)).reshape(*batch, n + 1, 2, 2)
    thresholds = xp.where(good[..., None], thresholds, dtype.type(np.nan)).astype(dtype, copy=False)
    matrices = xp.where(good[..., None, None, None], matrices, matrices.dtype.type(0))
    return thresholds, matrices, ((1 - good) * INVALID).astype(np.int8)


def _sort_scores(s: Any, labels: Any, label: str, bad: Any, ordered: Any, hits: Any, *, positions: bool) -> Any:
    """Sort all scores within rows; write scores, labels and invalid rows; return the order if gathered by it."""
    xp, (rows, n), kind = library(s), s.shape, NAMES[s.dtype]
    key = np.dtype(np.uint32 if kind == "float" and rows == 1 else np.uint64)
    second = kind == "double" and rows > 1  # a float64 score fills the key: a second sort groups the rows
    keys, own, numbers = xp.empty(s.size, key), None, None
    if sorting.has_bit_range_sort(keys) and not positions and rows < _MOST_ROWS:
        if second:
            numbers = xp.empty(s.size, np.uint32)
        else:
            own = xp.empty(s.size, np.uint8)
    _KEYS.launch(
        (kind, label, NAMES[key]), batches.item_blocks(s.size),
        scores=s, y=labels, n=n, rows=rows, out_keys=keys, out_hits=own, out_rows=numbers, out_bad=bad,
    )  # fmt: skip
    largest = (1 << 64) - 1 if kind == "double" else (rows << 32) - 1
    along = numbers if second else own
    found = None if along is None else sorting.sort_by_bits(keys, along, 0, largest.bit_length())
    if found is not None and second:
        found = sorting.sort_by_bits(found[1], found[0], 1, 1 + (rows - 1).bit_length())
        found = None if found is None else found[::-1]
    if found is not None:
        _RETURN.launch(
            (kind, NAMES[key]), batches.item_blocks(s.size), keys=found[0], n=s.size,
            hits=None if second else found[1], rows=found[1] if second else None, out_scores=ordered, out_hits=hits,
        )  # fmt: skip
        return None
    order = sorting.argsort_keys(keys, largest)
    if second:
        order = order[(order // n).astype(np.min_scalar_type(rows - 1)).argsort()]
    _GATHER.launch(
        (kind, label), batches.item_blocks(s.size),
        scores=s, y=labels, order=order, n=s.size, out_scores=ordered, out_hits=hits,
    )  # fmt: skip
    return order


def _weigh_matrices(weight: Any, order: Any, hits: Any, counts: Any) -> Any:
    """Return the weighted threshold matrices, given those of the sample counts."""
    xp, (rows, n) = library(weight), weight.shape
    out = xp.zeros(counts.shape, weight.dtype)
    if not weight.size:
        return out
    own, hit = weight.ravel()[order].reshape(rows, n), hits.reshape(rows, n)
    last = (counts[:, 1:, 0, 1] + counts[:, 1:, 1, 1] - 1).astype(np.int64)
    last = xp.where(last < 0, np.int64(0), last) + xp.arange(rows)[:, None] * n  # an invalid row has none
    for truth, part in ((1, own * hit), (0, own * (1 - hit))):
        running = xp.cumsum(part, axis=1)
        out[:, 1:, truth, 1] = running.ravel()[last]
        out[:, :, truth, 0] = running[:, -1:] - out[:, :, truth, 1]
    return out


def score_areas(scores: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return the area under the ROC curve, the average precision and the status; NaN where undefined."""
    xp = library(scores)
    _, matrices, status = threshold_matrices(rank_wide_integers(xp, scores), y, weight)
    return *compute_areas(xp, matrices), status


def _sum_costs(matrices: Any, cost: np.ndarray) -> Any:
    """Return the cost of every matrix: the sum of its cells times their prices."""
    total = matrices[..., 0, 0] * cost[0, 0] + matrices[..., 0, 1] * cost[0, 1]
    return total + (matrices[..., 1, 0] * cost[1, 0] + matrices[..., 1, 1] * cost[1, 1])


def least_cost(scores: Any, y: Any, weight: Any, cost: Any) -> tuple[Any, Any, Any, Any]:
    """Return the highest threshold of least cost, that cost, the matrix at it, and the status."""
    xp, batch = library(scores), scores.shape[:-1]
    thresholds, matrices, status = threshold_matrices(scores, y, weight)
    # Overflowing rows use prices scaled below 2**-4, whose four products have a finite sum.
    exponent = int(np.frexp(np.abs(cost).max())[1]) + 4
    total, small = (_sum_costs(matrices, np.ldexp(cost, -k)) for k in (0, exponent))
    finite = xp.isfinite(total).all(-1)
    total = xp.where(finite[..., None], total, small)
    rows, steps = math.prod(batch), thresholds.shape[-1]
    best = (-total).reshape(rows, steps).argmax(-1) + xp.arange(rows) * steps
    least = total.ravel()[best].reshape(batch)
    large = least * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)
    least = xp.where(status == 0, xp.where(finite, least, large), np.nan)
    return (
        thresholds.ravel()[best].reshape(batch),
        least,
        matrices.reshape(-1, 2, 2)[best].reshape(*batch, 2, 2),
        status,
    )
