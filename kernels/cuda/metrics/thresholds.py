"""All binary confusion matrices of rows of scores, from one sort of all of them."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library

_SCORES = ("float", "double")
_SORTED_BY = (("float", "unsigned"), ("float", "u64"), ("double", "u64"))  # what sorts which scores
_KEYS = Kernel(
    "metrics/thresholds",
    "cmfast_threshold_matrices_keys",
    tuple((t, y, k) for (t, k), y in product(_SORTED_BY, batches.LABELS)),
)
_GATHER = Kernel("metrics/thresholds", "cmfast_threshold_matrices_gather", tuple(product(_SCORES, batches.LABELS)))
_COUNT = Kernel("metrics/thresholds", "cmfast_threshold_matrices_count", tuple((t,) for t in _SCORES))
KERNELS = (_KEYS, _GATHER, _COUNT)


def threshold_matrices(scores: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return thresholds, descending from infinity, the matrix at each, and the status of every row of scores."""
    xp, n, batch = library(scores), scores.shape[-1], scores.shape[:-1]
    dtype = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    s = batches.flat_batch(batches.as_floating(scores.astype(np.float32) if dtype == np.float16 else scores), 1)
    (labels,), label = batches.as_labels(batches.flat_batch(y, 1))
    rows, kind = math.prod(batch), NAMES[s.dtype]
    bad, ordered, hits = xp.zeros(rows, np.int32), xp.empty(s.shape, s.dtype), xp.zeros(s.size, np.uint8)
    if s.size:
        key = np.dtype(np.uint32 if kind == "float" and rows == 1 else np.uint64)
        keys = xp.empty(s.size, key)
        _KEYS.launch(
            (kind, label, NAMES[key]), batches.per_item(s.size),
            scores=s, y=labels, n=n, rows=rows, out_keys=keys, out_bad=bad,
        )  # fmt: skip
        order = keys.argsort()
        if kind == "double" and rows > 1:  # a score takes all the bits of a key: the rows come second
            order = order[(order // n).astype(np.min_scalar_type(rows - 1)).argsort()]
        _GATHER.launch(
            (kind, label), batches.per_item(s.size),
            scores=s, y=labels, order=order, n=s.size, out_scores=ordered, out_hits=hits,
        )  # fmt: skip
    thresholds, matrices = xp.empty((*batch, n + 1), s.dtype), xp.empty((*batch, n + 1, 2, 2), np.int64)
    status = xp.empty(batch, np.int8)
    if rows:
        _COUNT.launch(
            (kind,), batches.per_item(thresholds.size),
            scores=ordered, hits=xp.cumsum(hits, dtype=np.int64), bad=bad, n=n, rows=rows,
            out_thresholds=thresholds, out_matrices=matrices, out_status=status,
        )  # fmt: skip
    return thresholds.astype(dtype, copy=False), matrices, status
