"""Overlap, L1 distance and KL divergence of two batches of matrices, each divided by its own total."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, workspace
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library

_INSTANCES = tuple(product(("float", "double"), batches.WIDTHS))
_OVERLAP, _L1_DISTANCE, _KL_DIVERGENCE = KERNELS = tuple(
    Kernel("comparison", f"cmfast_{op}_pairs", _INSTANCES, 72) for op in ("overlap", "l1_distance", "kl_divergence")
)


def _compare(kernel: Kernel, S: Any, T: Any, out: tuple[Any, ...] | None) -> tuple[Any, Any]:
    xp, dtype = library(S), batches.result_dtype(S, T)
    pair = (batches.as_floating(x).astype(dtype, copy=False) for x in (S, T))  # exact: float32 beside float64 widens
    batch, (P, Q), (p_step, q_step) = batches.broadcast_batches(2, *pair)
    cells, n = S.shape[-2] * S.shape[-1], math.prod(batch)
    values, status = workspace.results(xp, out, (batch, dtype), (batch, np.int8))
    if n:
        width = batches.width(cells)
        kernel.launch(
            (NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            P=P, p_step=p_step, Q=Q, q_step=q_step, cells=cells, n=n,
            out=values, out_status=status,
        )  # fmt: skip
    return values, status


def overlap(S: Any, T: Any, *, num_threads: int | None = None, out: tuple[Any, ...] | None = None) -> tuple[Any, Any]:
    """Erbani et al., section 5.3: the sum of the smaller of the two shares."""
    del num_threads
    return _compare(_OVERLAP, S, T, out)


def l1_distance(S: Any, T: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """Erbani et al., C.2: 2 - 2 overlap, summed on its own so that small distances keep their digits."""
    del num_threads
    return _compare(_L1_DISTANCE, S, T, None)


def kl_divergence(S: Any, T: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """Natural logarithm; infinite where T is zero under mass of S."""
    del num_threads
    return _compare(_KL_DIVERGENCE, S, T, None)
