"""Conformal quantiles: the score of a given rank in each group, by sorting; and histograms of scores."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library

_KEYS = Kernel("conformal/thresholds", "cmfast_threshold_keys")
_PICK = Kernel("conformal/thresholds", "cmfast_threshold_pick")
_CELLS = Kernel("conformal/thresholds", "cmfast_score_histogram_count")
KERNELS = (_KEYS, _PICK, _CELLS)


def threshold(
    s: Any, groups: Any, *, ranks: np.ndarray, turn: np.ndarray, n_groups: int, num_threads: int | None = None
) -> tuple[Any, Any, Any]:
    """Return the scores of the given ranks in every group of every row, and the status of groups and scores."""
    del num_threads, turn
    xp, batch, n = library(s), s.shape[:-1], s.shape[-1]
    rows, A = math.prod(batch), len(ranks)
    flat = xp.ascontiguousarray(s, np.float64).reshape(-1)
    labels = None if groups is None else xp.ascontiguousarray(groups, np.int64).reshape(-1)
    keys, segments = xp.empty(flat.size, np.uint64), xp.empty(flat.size, np.int64)
    counts = xp.zeros(rows * (n_groups + 1), np.uint64)
    out, status = xp.empty((*batch, A, n_groups), np.float64), xp.empty((*batch, n_groups), np.int8)
    each = xp.empty(s.shape, np.int8)
    if flat.size:
        _KEYS.launch(
            (), batches.item_blocks(flat.size),
            s=flat, groups=labels, n=n, size=flat.size, n_groups=n_groups,
            out_keys=keys, out_segments=segments, out_counts=counts, out_status=each,
        )  # fmt: skip
    order = keys.argsort()
    if rows > 1 or groups is not None:
        order = order[segments[order].argsort()]  # a stable sort keeps the order within segments
    if out.size:
        _PICK.launch(
            (), batches.item_blocks(out.size),
            keys=keys, order=order, counts=counts.view(np.int64), ends=xp.cumsum(counts.view(np.int64)),
            ranks=xp.asarray(ranks), A=A, n_groups=n_groups, n_ranks=ranks.shape[1], size=out.size,
            by_group=groups is not None, out=out, out_status=status,
        )  # fmt: skip
    return out, status, each


def score_histogram(s: Any, *, bins: int, width: float, num_threads: int | None = None) -> Any:
    """Return the histogram of the scores of every row; one more bin holds scores beyond the last edge."""
    del num_threads
    xp, n = library(s), s.shape[-1]
    flat = xp.ascontiguousarray(s, np.float64)
    out = xp.zeros((*s.shape[:-1], bins + 1), np.uint64)
    if flat.size:
        _CELLS.launch((), batches.item_blocks(flat.size), s=flat, n=n, size=flat.size, bins=bins, width=width, out=out)
    return out.view(np.int64)
