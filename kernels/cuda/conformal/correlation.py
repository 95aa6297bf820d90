"""Co-occurrence of classes in prediction sets: counts from bitsets, and correlation, lift and other ratios of them."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.shared import conformal
from cmfast.kernels.shared.conformal import KINDS

NAMES = ("CORRELATION", "COVARIANCE", "LIFT", "CONDITIONAL", "FINE", "NEVER", "ALWAYS", "NO_SAMPLES")
DEFINES = {name: getattr(conformal, name) for name in NAMES}

_COLUMNS = Kernel("conformal/correlation", "cmfast_ccm_columns")
_PAIRS = Kernel("conformal/correlation", "cmfast_ccm_pairs")
_CONFUSION = Kernel("conformal/correlation", "cmfast_coverage_confusion_count")
_RATIOS = Kernel("conformal/correlation", "cmfast_ccm_ratios_pairs")
KERNELS = (_COLUMNS, _PAIRS, _CONFUSION, _RATIOS)


def ccm(packed: Any, *, n_classes: int, num_threads: int | None = None) -> Any:
    """Return the class co-occurrence matrix: for every pair of classes the number of sets that hold both."""
    del num_threads
    xp, (*batch, n, words), C = library(packed), packed.shape, n_classes
    size, steps = math.prod(batch), -(-n // 64)
    columns, out = xp.empty((size, C, steps), np.uint64), xp.empty((*batch, C, C), np.int64)
    if columns.size:
        _COLUMNS.launch(
            (), batches.item_blocks(columns.size),
            packed=xp.ascontiguousarray(packed), C=C, n=n, words=words, steps=steps, size=columns.size, out=columns,
        )  # fmt: skip
    if out.size:
        _PAIRS.launch((), batches.blocks(out.size, "32"), columns=columns, C=C, steps=steps, size=out.size, out=out)
    return out


def coverage_confusion(packed: Any, y: Any, *, n_classes: int, num_threads: int | None = None) -> tuple[Any, Any, Any]:
    """Return how often sets of every true class hold every class, the number of its sets, the label status."""
    del num_threads
    xp, (*batch, A, n, words), C = library(packed), packed.shape, n_classes
    out, totals = xp.zeros((*batch, A, C, C), np.uint64), xp.zeros((*batch, A, C), np.uint64)
    status = xp.empty(y.shape, np.int8)
    sets = math.prod(batch) * A * n
    if sets:
        _CONFUSION.launch(
            (), batches.item_blocks(sets),
            packed=xp.ascontiguousarray(packed), y=xp.ascontiguousarray(y, np.int64), C=C, n=n, sets=sets, A=A,
            words=words, out=out, out_totals=totals, out_status=status,
        )  # fmt: skip
    return out.view(np.int64), totals.view(np.int64), status


def ccm_ratios(n: Any, G: Any, *, kind: str, undefined: float, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return one of `KINDS` for every pair of classes, and the reason why a class has no correlation."""
    del num_threads
    xp = library(G)
    out, reason = xp.empty(G.shape, np.float64), xp.empty(G.shape[:-1], np.int8)
    if out.size:
        _RATIOS.launch(
            (), batches.item_blocks(out.size),
            n=xp.ascontiguousarray(n, np.int64), G=xp.ascontiguousarray(G, np.int64), C=G.shape[-1], size=out.size,
            kind=KINDS[kind], undefined=undefined, out=out, out_reason=reason,
        )  # fmt: skip
    return out, reason
