"""Prediction sets as bitsets: the labels whose score does not exceed the threshold; and their coverage."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.cuda.conformal.scores import score_all_labels, validate_rows
from cmfast.kernels.shared.conformal import BITS_PER_WORD, make_score_rule

_WORDS = Kernel("conformal/sets", "cmfast_prediction_sets_words")
_SIZES = Kernel("conformal/sets", "cmfast_prediction_sets_sizes", (("float",), ("double",)))
_COVERAGE = Kernel("conformal/sets", "cmfast_set_coverage_count")
KERNELS = (_WORDS, _SIZES, _COVERAGE)


def prediction_sets(
    P: Any, q: Any, u: Any, groups: Any, *, method: str, lam: float, k_reg: int, empty: str,
    num_threads: int | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the sets of all rows as bitsets, their sizes, and the status of every row.

    `q` has the shape (batch, alpha, group, 1 or label).
    """
    del num_threads
    xp, (*batch, n, C), (A, n_groups, n_limits) = library(P), P.shape, q.shape[-3:]
    flat, draws, own, status = validate_rows(P, u, groups, n_groups)
    s = score_all_labels(flat, draws, status, make_score_rule(method, lam, k_reg))
    words, rows = -(-C // BITS_PER_WORD), len(flat)
    limits = xp.ascontiguousarray(xp.broadcast_to(q, (*batch, A, n_groups, n_limits)), np.float64)
    out, sizes = xp.empty((*batch, A, n, words), np.int64), xp.empty((*batch, A, n), np.int64)
    if out.size:
        shape = {"C": C, "n": n, "rows": rows, "A": A, "words": words}
        _WORDS.launch(
            (), batches.item_blocks(out.size),
            s=s, q=limits, groups=own, status=status, **shape, n_groups=n_groups, n_limits=n_limits, out=out,
        )  # fmt: skip
        _SIZES.launch(
            (NAMES[flat.dtype],), batches.item_blocks(sizes.size),
            P=flat, **shape, top1=empty == "top1", packed=out, out=sizes,
        )  # fmt: skip
    return out, sizes, status.reshape(P.shape[:-1])


def set_coverage(packed: Any, y: Any, *, n_classes: int, num_threads: int | None = None) -> tuple[Any, Any, Any]:
    """Return the number of sets of every size, how many of them hold the true label, and the label status."""
    del num_threads
    xp, (*batch, A, n, words) = library(packed), packed.shape
    out, covered = (xp.zeros((*batch, A, n_classes + 1), np.uint64) for _ in range(2))
    status = xp.empty(y.shape, np.int8)
    sets = math.prod(batch) * A * n
    if sets:
        _COVERAGE.launch(
            (), batches.item_blocks(sets),
            packed=xp.ascontiguousarray(packed), y=xp.ascontiguousarray(y, np.int64), C=n_classes, n=n, sets=sets, A=A,
            words=words, out=out, out_covered=covered, out_status=status,
        )  # fmt: skip
    return out.view(np.int64), covered.view(np.int64), status
