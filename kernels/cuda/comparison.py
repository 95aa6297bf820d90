"""Overlap, L1 distance and KL divergence of pairs of matrices, each divided by its total, and their gradients."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, workspace
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.shared.comparison import CODES_OF_COMPARISONS, KL, L1, OVERLAP

DEFINES = {"OVERLAP": OVERLAP, "L1": L1, "KL": KL}
_INSTANCES = tuple(product(("float", "double"), batches.WIDTHS))
_OVERLAP, _L1_DISTANCE, _KL_DIVERGENCE = (
    Kernel("comparison", f"cmfast_{op}_pairs", _INSTANCES, 72) for op in ("overlap", "l1_distance", "kl_divergence")
)
_GRADIENT = Kernel("comparison", "cmfast_comparison_gradient_pairs", _INSTANCES, 80)
KERNELS = (_OVERLAP, _L1_DISTANCE, _KL_DIVERGENCE, _GRADIENT)


def _compare(kernel: Kernel, S: Any, T: Any, out: tuple[Any, ...] | None) -> tuple[Any, Any]:
    """Launch a comparison kernel on broadcast batches; return results and status."""
    xp, dtype = library(S), batches.result_dtype(S, T)
    pair = (batches.as_floating(x).astype(dtype, copy=False) for x in (S, T))  # widening is exact
    batch, (P, Q), (p_step, q_step) = batches.broadcast_batches(2, *pair)
    cells, n = S.shape[-2] * S.shape[-1], math.prod(batch)
    values, status = workspace.prepare_results(xp, out, (batch, dtype), (batch, np.int8))
    if n:
        width = batches.width(cells)
        kernel.launch(
            (NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            P=P, p_step=p_step, Q=Q, q_step=q_step, cells=cells, n=n,
            out=values, out_status=status,
        )  # fmt: skip
    return values, status


def overlap(S: Any, T: Any, *, num_threads: int | None = None, out: tuple[Any, ...] | None = None) -> tuple[Any, Any]:
    """Return the overlap, the sum of the smaller of two shares per cell (Erbani et al., section 5.3); the status."""
    del num_threads
    return _compare(_OVERLAP, S, T, out)


def l1_distance(S: Any, T: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return the L1 distance, 2 - 2 overlap, summed directly to keep digits (Erbani et al., C.2); the status."""
    del num_threads
    return _compare(_L1_DISTANCE, S, T, None)


def kl_divergence(S: Any, T: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return the KL divergence in nats, infinite if T is zero where S has mass; the status."""
    del num_threads
    return _compare(_KL_DIVERGENCE, S, T, None)


def comparison_gradient(S: Any, T: Any, G: Any, *, of: str, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return the gradients in the cells of both matrices, given the gradient `G` of comparison `of`."""
    del num_threads
    xp, dtype, kinds = library(S), batches.result_dtype(S, T), (batches.result_dtype(S), batches.result_dtype(T))
    pair = (batches.as_floating(x).astype(dtype, copy=False) for x in (S, T))
    batch, (P, Q), (p_step, q_step) = batches.broadcast_batches(2, *pair)
    shape, n = S.shape[-2:], math.prod(batch)
    out_s, out_t = (xp.empty((*batch, *shape), dtype) for _ in range(2))
    if out_s.size:
        width = batches.width(math.prod(shape))
        _GRADIENT.launch(
            (NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            P=P, p_step=p_step, Q=Q, q_step=q_step, G=batches.flat_batch(G, 0, np.float64),
            cells=math.prod(shape), n=n, of=CODES_OF_COMPARISONS[of], out_s=out_s, out_t=out_t,
        )  # fmt: skip
    return out_s.astype(kinds[0], copy=False), out_t.astype(kinds[1], copy=False)
