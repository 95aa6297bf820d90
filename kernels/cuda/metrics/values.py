"""Class sums of confusion matrices, in one pass over the cells, and every metric of a plan as a function of them."""

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches, workspace
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library, processors
from cmfast.kernels.cuda._core.resident import copy_to_device
from cmfast.kernels.shared.metrics import Plan, as_counts_or_floats, as_sums

_TYPES = (("i64", "i64"), ("int", "i64"), ("float", "double"), ("double", "double"))
_MARGINS = Kernel("metrics/values", "cmfast_margins_sums", tuple((*t, w) for t, w in product(_TYPES, batches.WIDTHS)))
_METRICS_THREADS = 64
_METRICS = Kernel(
    "metrics/values", "cmfast_metrics_of_sums_plan", (("i64", "double"), ("double", "double"), ("double", "float")), 128
)
_RESULTS = (("i64", "i64", "double"), ("int", "i64", "double"), ("float", "double", "float"), ("double",) * 3)
_KAPPA = Kernel(
    "metrics/values", "cmfast_weighted_kappa_pairs", tuple((*t, w) for t, w in product(_RESULTS, batches.WIDTHS)), 72
)


class _Sharing(NamedTuple):
    """How warps share a block when metrics of small matrices are computed in shared memory.

    Attributes
    ----------
    lanes : int
        Lanes that sum one matrix.
    most : int
        Largest number of classes.
    threads : int
        Threads of a block: one warp if shared memory is scarce, because warps share nothing.
    """

    lanes: int
    most: int
    threads: int


_SHARING = (_Sharing(8, 16, 64), _Sharing(32, 32, 32))
_WHOLE = Kernel(
    "metrics/values",
    "cmfast_metrics_of_matrices_plan",
    tuple((*t, str(sharing.lanes)) for t, sharing in product(_RESULTS, _SHARING)),
    128,
)
KERNELS = (_MARGINS, _METRICS, _WHOLE, _KAPPA)
MOST_WHOLE = _SHARING[-1].most
_WARP = 32
_BUSY_WARPS = 8  # warps per multiprocessor below which a warp takes fewer matrices


def margins(M: Any, *, num_threads: int | None = None) -> tuple[Any, ...]:
    """Return diagonal, row and column sums, sums by distance from the diagonal and by larger class; total; status."""
    del num_threads
    return sum_matrices(M, ordered=True)


def sum_matrices(M: Any, *, ordered: bool) -> tuple[Any, ...]:
    """Return class sums, total and status of matrices; None for bands and tops unless `ordered`."""
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    cells = batches.flat_batch(as_counts_or_floats(M), 2)
    n, parts = math.prod(batch), 5 if ordered else 3
    dtype = np.dtype(np.float64 if M.dtype.kind == "f" else np.int64)
    out, total, status = xp.empty((parts, n, C), dtype), xp.empty(n, dtype), xp.empty(n, np.int8)
    if n:
        width = batches.width(C)
        _MARGINS.launch(
            (NAMES[cells.dtype], NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            M=cells, C=C, n=n, ordered=ordered, out=out, out_total=total, out_status=status,
        )  # fmt: skip
    sums = [out[part].reshape(*batch, C) if part < parts else None for part in range(5)]
    return (*sums, total.reshape(batch), status.reshape(batch))


def metrics_of_matrices(
    M: Any, *, plan: Plan, num_threads: int | None = None, out: tuple[Any, ...] | None = None
) -> tuple[Any, ...]:
    """Run `plan` on every matrix; return its scalars, its per-class results and the status.

    `out`, if given, holds all scalars (S, ...), all per-class results (T, ..., C), and the status.
    """
    del num_threads
    kind, C = batches.result_dtype(M), M.shape[-1]
    if not 0 < C <= MOST_WHOLE:
        *sums, total, status = sum_matrices(M, ordered=plan.ordered)
        return _run_plan(sums, total, status, kind, plan, out)
    results = _Results(M, M.shape[:-2], C, kind, plan, out)
    if results.n:
        cells = batches.flat_batch(as_counts_or_floats(M), 2)
        sharing = next(each for each in _SHARING if each.most >= C)
        lanes, threads, row, parts = sharing.lanes, sharing.threads, C | 1, 5 if plan.ordered else 3
        together = _WARP // lanes
        matrix = C * row + (lanes - C * row) % 16  # stride between matrices that avoids bank conflicts
        sums = parts * C + 2 | 1
        words = threads * sums + threads // lanes * matrix
        turns = -(-results.n // (together * _BUSY_WARPS * processors(M.device)))
        many = together * min(lanes, turns)
        totals = NAMES[np.dtype(np.float64 if M.dtype.kind == "f" else np.int64)]
        _WHOLE.launch(
            (NAMES[cells.dtype], totals, NAMES[kind], str(lanes)), -(-results.n // (threads // _WARP * many)),
            threads=threads, shared=8 * words, M=cells, many=many, ordered=plan.ordered, row_step=row,
            cells_step=matrix, sums_step=sums, **results.arguments,
        )  # fmt: skip
    return results.of_plan


def metrics_of_sums(
    d: Any, t: Any, p: Any, bands: Any, tops: Any, *, plan: Plan, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Run `plan` on class sums instead of matrices; `bands` and `tops` may be None if no step needs them."""
    del num_threads
    given = [a for a in (d, t, p, bands, tops) if a is not None]
    fractions = any(a.dtype.kind == "f" for a in given)
    sums = [None if a is None else as_sums(a, fractions=fractions) for a in (d, t, p, bands, tops)]
    return _run_plan(sums, None, None, batches.result_dtype(*given), plan, None)


def make_plan_arguments(plan: Plan, like: Any) -> dict[str, Any]:
    """Return the kernel arguments of a plan, its arrays copied to the device of `like`."""
    steps, params, weights = (copy_to_device(like, a) for a in (plan.steps, plan.params, plan.weights))
    return {
        "steps": steps, "n_steps": len(plan.steps), "params": params, "weights": weights, "mode": plan.mode,
        "members": copy_to_device(like, plan.members) if len(plan.members) else None, "n_scalars": plan.scalars,
    }  # fmt: skip


class _Results:
    """Output arrays and kernel arguments of a plan on `n` matrices."""

    def __init__(
        self, like: Any, batch: tuple[int, ...], C: int, kind: np.dtype[Any], plan: Plan, out: tuple[Any, ...] | None
    ) -> None:
        xp, self.n, self._plan = library(like), math.prod(batch), plan
        registers = xp.empty((plan.registers, self.n))
        shapes = (plan.scalars, *batch), (plan.tables, *batch, C), batch
        self._out = workspace.prepare_results(xp, out, *zip(shapes, (kind, kind, np.int8), strict=True))
        if not self.n:
            return
        self.arguments = make_plan_arguments(plan, like) | {
            "C": C, "n": self.n, "n_tables": plan.tables, "out_registers": registers, "out_scalars": self._out[0],
            "out_tables": self._out[1], "out_status": self._out[2],
        }  # fmt: skip

    @property
    def of_plan(self) -> tuple[Any, ...]:
        """Return the scalars, the per-class results and the status."""
        scalars, tables, status = self._out
        parts = [scalars[k] for k in range(self._plan.scalars)] + [tables[k] for k in range(self._plan.tables)]
        return (*parts, status)


def _run_plan(
    sums: list[Any], total: Any, status: Any, kind: np.dtype[Any], plan: Plan, out: tuple[Any, ...] | None
) -> tuple[Any, ...]:
    """Run a plan on class sums; return scalars, per-class results and the status."""
    results = _Results(sums[1], sums[1].shape[:-1], sums[1].shape[-1], kind, plan, out)
    n = results.n
    if n:
        d, t, p, bands, tops = (None if a is None else batches.flat_batch(a, 1) for a in sums)
        total, status = (None if a is None else a.reshape(n) for a in (total, status))
        _METRICS.launch(
            (NAMES[sums[1].dtype], NAMES[kind]), -(-n // _METRICS_THREADS), threads=_METRICS_THREADS,
            d=d, t=t, p=p, bands=bands, tops=tops, totals=total, status=status, **results.arguments,
        )  # fmt: skip
    return results.of_plan


def weighted_kappa(M: Any, W: Any, *, fill: float, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return Cohen's weighted kappa (1968) for disagreement weights `W`, and the status."""
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    _, t, p, _, _, total, status = sum_matrices(M, ordered=False)
    n, dtype = math.prod(batch), batches.result_dtype(M)
    out, out_status = xp.empty(n, dtype), xp.empty(n, np.int8)
    if n:
        cells = batches.flat_batch(as_counts_or_floats(M), 2)
        width = batches.width(C * C)
        instance = (NAMES[cells.dtype], NAMES[t.dtype], NAMES[dtype], width)
        _KAPPA.launch(
            instance, batches.blocks(n, width), shared=batches.team_scratch(width),
            M=cells, t=batches.flat_batch(t, 1), p=batches.flat_batch(p, 1),
            totals=total.reshape(n), status=status.reshape(n),
            weights=xp.ascontiguousarray(W.astype(np.float64, copy=False)), C=C, n=n, fill=fill,
            out=out, out_status=out_status,
        )  # fmt: skip
    return out.reshape(batch), out_status.reshape(batch)
