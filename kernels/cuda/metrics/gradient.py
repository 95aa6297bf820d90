"""The gradient of metrics in the cells: the slopes that standard errors are made of, times what comes in."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.cuda.metrics.slopes import SLOPE_THREADS, bytes_of, margins_of
from cmfast.kernels.cuda.metrics.values import arguments_of
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Plan, count_slope_lines

_MIX = Kernel("metrics/gradient", "cmfast_metrics_gradient_mix", registers=128)
_CELLS = Kernel("metrics/gradient", "cmfast_metrics_gradient_cells", (("float",), ("double",)))
KERNELS = (_MIX, _CELLS)


def metrics_gradient(M: Any, of_scalars: Any, of_tables: Any, *, plan: Plan, num_threads: int | None = None) -> Any:
    """Gradient in the cells of what `plan` makes, of those in its scalars and in its results per class."""
    del num_threads
    xp, C, size, dtype = library(M), M.shape[-1], math.prod(M.shape[:-2]), batches.result_dtype(M)
    out, lines = xp.empty((size, C, C), dtype), count_slope_lines(C, ordered=plan.ordered)
    if not out.size:
        return out.reshape(M.shape)
    sums = margins_of(M.reshape(size, C, C), plan)
    of_scalars = xp.ascontiguousarray(of_scalars, np.float64).reshape(size, plan.scalars)
    of_tables = xp.ascontiguousarray(of_tables, np.float64).reshape(size, plan.tables, C)
    steps = arguments_of(plan, M)
    together = max(1, batches.MOST_SCRATCH_BYTES // (bytes_of(C, plan) + 8 * lines))
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
