"""Backward pass of metrics: the gradient in the cells, from incoming gradients and derivatives in class sums."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.cuda.metrics.slopes import SLOPE_THREADS, count_slope_bytes, sum_classes
from cmfast.kernels.cuda.metrics.values import make_plan_arguments
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Plan, count_slope_lines

_MIX = Kernel("metrics/gradient", "cmfast_metrics_gradient_mix", registers=128)
_CELLS = Kernel("metrics/gradient", "cmfast_metrics_gradient_cells", (("float",), ("double",)))
KERNELS = (_MIX, _CELLS)


def metrics_gradient(M: Any, of_scalars: Any, of_tables: Any, *, plan: Plan, num_threads: int | None = None) -> Any:
    """Return the gradient in the cells of `M`, given those in the scalars and per-class results of `plan`."""
    del num_threads
    xp, C, size, dtype = library(M), M.shape[-1], math.prod(M.shape[:-2]), batches.result_dtype(M)
    out, lines = xp.empty((size, C, C), dtype), count_slope_lines(C, ordered=plan.ordered)
    if not out.size:
        return out.reshape(M.shape)
    sums = sum_classes(M.reshape(size, C, C), plan)
    of_scalars = xp.ascontiguousarray(of_scalars, np.float64).reshape(size, plan.scalars)
    of_tables = xp.ascontiguousarray(of_tables, np.float64).reshape(size, plan.tables, C)
    steps = make_plan_arguments(plan, M)
    together = max(1, batches.MOST_SCRATCH_BYTES // (count_slope_bytes(C, plan) + 8 * lines))
    for first in range(0, size, together):
        last = min(first + together, size)
        n, mixed = last - first, xp.empty((last - first, lines))
        _MIX.launch(
            (), -(-n // SLOPE_THREADS), threads=SLOPE_THREADS, **sums.some(first, last)._asdict(), C=C, n=n,
            **steps, pooled=plan.pooled, n_tables=plan.tables, of_scalars=of_scalars[first:last],
            of_tables=of_tables[first:last], work=xp.empty((LINES_OF_VALUE * (C + 1) + plan.registers, n)),
            numbers=xp.empty((plan.registers, lines, n)), classes=xp.empty((plan.tables, C, 4, n)), out_mixed=mixed,
        )  # fmt: skip
        _CELLS.launch(
            (NAMES[dtype],), batches.item_blocks(n * C * C), mixed=mixed, C=C, n=n, ordered=plan.ordered,
            out=out[first:last],
        )  # fmt: skip
    return out.reshape(M.shape)
