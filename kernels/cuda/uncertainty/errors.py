"""Delta-method standard errors of metrics, from exact derivatives in every cell."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.cuda.metrics.slopes import SLOPE_THREADS, SlopeSums, count_slope_bytes, sum_classes
from cmfast.kernels.cuda.metrics.values import make_plan_arguments
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Plan, count_slope_lines, shape_results

_FRACTIONS = Kernel("uncertainty/errors", "cmfast_standard_errors_fractions")
_SLOPES = Kernel("uncertainty/errors", "cmfast_standard_errors_slopes", registers=128)
_NUMBERS = Kernel("uncertainty/errors", "cmfast_standard_errors_numbers", (("1",), ("32",)), 88)
_CLASSES = Kernel("uncertainty/errors", "cmfast_standard_errors_classes")
KERNELS = (_FRACTIONS, _SLOPES, _NUMBERS, _CLASSES)
MOST_THREAD_CLASSES = 32  # classes up to which one thread handles a matrix


def differentiate_sums(sums: SlopeSums, plan: Plan) -> tuple[Any, Any]:
    """Return derivatives of scalars (registers, lines, n) and of per-class values (tables, C, 4, n) of n matrices.

    Those of matrices whose status is bad are undefined.
    """
    xp, (n, C) = library(sums.t), sums.t.shape
    numbers = xp.empty((plan.registers, count_slope_lines(C, ordered=plan.ordered), n))
    classes = xp.empty((plan.tables, C, 4, n))
    if n:
        work = xp.empty((LINES_OF_VALUE * (C + 1) + plan.registers, n))
        _SLOPES.launch(
            (), -(-n // SLOPE_THREADS), threads=SLOPE_THREADS, **sums._asdict(), C=C, n=n,
            **make_plan_arguments(plan, sums.t), pooled=plan.pooled, work=work,
            out_numbers=numbers, out_classes=classes,
        )  # fmt: skip
    return numbers, classes


def standard_errors(
    M: Any, *, plan: Plan, rows: bool, n: int | None, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Return standard errors of the scalars and per-class results of `plan` of every matrix; the status."""
    del num_threads
    xp, C, batch, kind = library(M), M.shape[-1], M.shape[:-2], batches.result_dtype(M)
    size = math.prod(batch)
    cells = batches.flat_batch(M, 2, np.float64)
    sums = sum_classes(M.reshape(size, C, C), plan)
    if size and M.dtype.kind == "f" and n is None:
        _FRACTIONS.launch((), batches.blocks(size, "32"), M=cells, C=C, n=size, out_status=sums.status)
    scalars, tables = xp.empty((plan.scalars, size)), xp.empty((plan.tables, size, C))
    together = max(1, batches.MOST_SCRATCH_BYTES // count_slope_bytes(C, plan))
    width = "1" if C <= MOST_THREAD_CLASSES else "32"
    for first in range(0, size, together):
        last = min(first + together, size)
        some, count = sums.some(first, last), last - first
        numbers, classes = differentiate_sums(some, plan)
        common = {"M": cells[first:last], "t": some.t, "totals": some.totals, "status": some.status, "C": C}
        common |= {"n": count, "rows": rows, "wanted": -1.0 if n is None else n}
        if plan.scalars:
            out = xp.empty((plan.scalars, count))
            _NUMBERS.launch(
                (width,), batches.blocks(count * plan.scalars, width), **common,
                n_scalars=plan.scalars, slopes=numbers, ordered=plan.ordered, out=out,
            )  # fmt: skip
            scalars[:, first:last] = out
        if plan.tables:
            out = xp.empty((plan.tables, count, C))
            _CLASSES.launch(
                (), batches.item_blocks(count * plan.tables * C), **common, d=some.d, p=some.p,
                n_tables=plan.tables, slopes=classes, out=out,
            )  # fmt: skip
            tables[:, first:last] = out
    scalars, tables = (part.astype(kind, copy=False) for part in (scalars, tables))
    return (*shape_results(scalars, tables, batch), sums.status.reshape(batch))
