"""Bootstrap intervals and standard errors of metrics for clustered or stratified samples."""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, THREADS, Kernel, library
from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.cuda.metrics.slopes import sum_classes
from cmfast.kernels.cuda.uncertainty import intervals, resample
from cmfast.kernels.cuda.uncertainty.errors import differentiate_sums
from cmfast.kernels.cuda.uncertainty.intervals import NAMES_OF_SUMS, new_zero_sums, summarize_rows
from cmfast.kernels.cuda.uncertainty.resample import copy_numbers
from cmfast.kernels.shared import uncertainty
from cmfast.kernels.shared.metrics import Plan, shape_results
from cmfast.kernels.shared.uncertainty import flatten_intervals, list_replicate_rows, new_intervals, order_strata

_TOTALS = Kernel("uncertainty/clusters", "cmfast_cluster_errors_totals", (("i64",), ("double",)))
_STATUS = Kernel("uncertainty/clusters", "cmfast_cluster_errors_status")
_NUMBERS = Kernel("uncertainty/clusters", "cmfast_cluster_errors_numbers", registers=88)
_DRAWS = Kernel("uncertainty/clusters", "cmfast_cluster_intervals_draws", registers=104)
_WITHOUT = Kernel("uncertainty/clusters", "cmfast_cluster_intervals_without")
_ACCELERATION = Kernel("uncertainty/clusters", "cmfast_cluster_intervals_acceleration")
KERNELS = (_TOTALS, _STATUS, _NUMBERS, _DRAWS, _WITHOUT, _ACCELERATION)
DEFINES = resample.DEFINES | {"MOST_ROUNDING_VARIANCE": uncertainty.MOST_ROUNDING_VARIANCE}
_SCRATCH = batches.team_scratch(str(THREADS))


class ClusterMatrices(NamedTuple):
    """Matrices of clusters or strata as kernel arguments, their sums, and the status of each element."""

    given: dict[str, Any]
    n_strata: int
    total: Any
    status: Any

    @property
    def kinds(self) -> int:
        """Return the number of kinds of resampling units of an element."""
        return int(self.given["n_parts"]) * (1 if self.given["clustered"] else int(self.given["C"]) ** 2)


def prepare_matrices(M: Any, strata: np.ndarray, n: int | None, *, clustered: bool, draws: bool) -> ClusterMatrices:
    """Return matrices ``(..., k, C, C)`` as kernel arguments; with `draws`, replicates must be exact in float64."""
    xp, (k, C, _) = library(M), M.shape[-3:]
    size, (order, n_strata) = math.prod(M.shape[:-3]), order_strata(strata)
    cells = batches.flat_batch(M, 3)
    if cells.dtype == np.uint64:
        cells = cells.view(np.int64)  # uint64 above 2**63 becomes negative, which is refused
    cells = cells.astype(np.float64 if cells.dtype.kind == "f" else np.int64, copy=False)
    starts = np.searchsorted(strata[order], np.arange(n_strata + 1))
    total, bad, status = xp.empty((size, C, C), np.int64), xp.zeros(size, np.int32), xp.empty(size, np.int8)
    if total.size:
        _TOTALS.launch(
            (NAMES[cells.dtype],),
            batches.item_blocks(total.size),
            M=cells,
            n=size,
            n_parts=k,
            C=C,
            out=total,
            out_bad=bad,
        )
    given = {
        "counts": cells.astype(np.int64, copy=False), "order": xp.asarray(order.astype(np.int64)),
        "starts": xp.asarray(starts.astype(np.int64)), "n_parts": k, "C": C, "clustered": clustered,
    }  # fmt: skip
    if size:
        _STATUS.launch(
            (), size, shared=_SCRATCH, **given, bad=bad, n=size, n_strata=n_strata, draws=draws,
            wanted=-1 if n is None else n, out_totals=total, out_status=status,
        )  # fmt: skip
    return ClusterMatrices(given, n_strata, total, status)


def cluster_errors(
    M: Any, *, strata: np.ndarray, plan: Plan, clustered: bool, n: int | None, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Return standard errors of the metrics of `plan` of the sum of matrices ``(..., k, C, C)``; the status."""
    del num_threads
    xp, C, batch, kind = library(M), M.shape[-1], M.shape[:-3], batches.result_dtype(M)
    parts = prepare_matrices(M, strata, n, clustered=clustered, draws=False)
    size, n_numbers = len(parts.status), plan.scalars + plan.tables * C
    numbers, classes = differentiate_sums(sum_classes(parts.total, plan), plan)
    scalars, tables = xp.empty((plan.scalars, size)), xp.empty((plan.tables, size, C))
    if size * n_numbers:
        _NUMBERS.launch(
            (), size * n_numbers, shared=_SCRATCH, **parts.given, status=parts.status, n=size,
            n_strata=parts.n_strata, wanted=-1 if n is None else n, n_scalars=plan.scalars,
            n_numbers=n_numbers, ordered=plan.ordered, numbers=numbers, classes=classes,
            out_scalars=scalars, out_classes=tables,
        )  # fmt: skip
    scalars, tables = (part.astype(kind, copy=False) for part in (scalars, tables))
    return (*shape_results(scalars, tables, batch), parts.status.reshape(batch))


def _compute_accelerations(parts: ClusterMatrices, plan: Plan, wanted: int) -> list[Any]:
    """Return the jackknife acceleration of every metric, leaving out one unit of each kind."""
    xp, (size, C, _) = library(parts.total), parts.total.shape
    n_sums, kinds = 5 if plan.ordered else 3, parts.kinds
    whole = xp.empty((n_sums, size, C), np.int64)
    for k, part in enumerate(values.sum_matrices(parts.total, ordered=plan.ordered)[:n_sums]):
        whole[k] = part
    together = max(1, intervals.MOST_REPLICATE_BYTES // max(1, 8 * (5 * C + plan.registers + plan.tables * C)))
    found = []
    for first in range(0, max(size * kinds, 1), together):
        count = min(together, size * kinds - first)
        sums = new_zero_sums(xp, (count, C), plan, np.int64)
        if count * C:
            _WITHOUT.launch(
                (), batches.item_blocks(count), **parts.given, status=parts.status, whole=whole, n=size,
                first=first, count=count, **sums,
            )  # fmt: skip
        found.append(values.metrics_of_sums(*sums.values(), plan=plan)[:-1])
    whole_rows = [xp.concatenate(some) if len(some) > 1 else some[0] for some in zip(*found, strict=True)]
    out = []
    for rows in list_replicate_rows(xp, [row.reshape(size, kinds, *row.shape[1:]) for row in whole_rows], plan):
        made = xp.empty(len(rows))
        if len(rows):
            _ACCELERATION.launch(
                (), len(rows), shared=_SCRATCH, **parts.given, status=parts.status, without=rows, n=len(rows),
                per=len(rows) // size, n_strata=parts.n_strata, wanted=wanted, out=made,
            )  # fmt: skip
        out.append(made)
    return out


def cluster_intervals(
    M: Any, *, strata: np.ndarray, plan: Plan, clustered: bool, method: str, confidence_level: float, n: int | None,
    n_resamples: int, seed: int, numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return bootstrap intervals of metrics of the sum of matrices ``(..., k, C, C)`` of clusters or strata."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-3]
    parts, wanted = prepare_matrices(M, strata, n, clustered=clustered, draws=True), -1 if n is None else n
    size = len(parts.status)
    *made, _ = values.metrics_of_matrices(parts.total, plan=plan)
    out = new_intervals(xp, made)
    bent = _compute_accelerations(parts, plan, wanted) if method == "bca" and size else [None] * len(out)
    per = 8 * n_resamples * (len(NAMES_OF_SUMS) * C + plan.registers + plan.tables * C)
    together, streams = max(1, intervals.MOST_REPLICATE_BYTES // max(per, 1)), copy_numbers(xp, numbers)
    for first in range(0, size, together):
        count = min(together, size - first)
        sums = new_zero_sums(xp, (count, n_resamples, C), plan, np.int64)
        if sums["t"].size:
            _DRAWS.launch(
                (), batches.item_blocks(count * n_resamples), **parts.given, status=parts.status,
                n_strata=parts.n_strata, wanted=wanted, first=first, count=count, n_resamples=n_resamples,
                numbers=streams, seed=seed, **sums,
            )  # fmt: skip
        drawn = list_replicate_rows(xp, values.metrics_of_sums(*sums.values(), plan=plan)[:-1], plan)
        some = slice(first, first + count)
        for rows, bends, (estimate, results) in zip(drawn, bent, out, strict=True):
            own = None if bends is None else bends.reshape(size, -1)[some].reshape(-1)
            here = [part[some] for part in results]
            summarize_rows(rows, estimate[some], own, method, confidence_level, here, status=parts.status[some])
    return *flatten_intervals(out, batch), parts.status.reshape(batch)
