"""Bootstrap intervals of metrics; replicates are stored only until their metrics are computed."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import THREADS, Kernel, library
from cmfast.kernels.cuda._core.resident import copy_to_device
from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.cuda.uncertainty import resample
from cmfast.kernels.cuda.uncertainty.resample import compute_shares
from cmfast.kernels.shared import uncertainty
from cmfast.kernels.shared.metrics import Plan
from cmfast.kernels.shared.uncertainty import (
    Resampling,
    Shares,
    flatten_intervals,
    gather_draws,
    list_replicate_rows,
    make_posterior,
    new_intervals,
)

_COUNTS = Kernel("uncertainty/intervals", "cmfast_metric_draws_of_counts", registers=128)
_SHARES = Kernel("uncertainty/intervals", "cmfast_metric_draws_of_shares", registers=128)
_WHOLE = Kernel("uncertainty/intervals", "cmfast_metric_intervals_whole")
_WITHOUT = Kernel("uncertainty/intervals", "cmfast_metric_intervals_without")
_ACCELERATION = Kernel("uncertainty/intervals", "cmfast_metric_intervals_acceleration")
_ROWS = Kernel("uncertainty/intervals", "cmfast_replicate_intervals_rows", registers=128)
KERNELS = (_COUNTS, _SHARES, _WHOLE, _WITHOUT, _ACCELERATION, _ROWS)
MOST_REPLICATE_BYTES = 2**28  # bytes of replicates in memory at a time
NAMES_OF_SUMS = ("d", "t", "p", "bands", "tops")
DEFINES = resample.DEFINES | {"MOST_ROUNDING_VARIANCE": uncertainty.MOST_ROUNDING_VARIANCE}


def new_zero_sums(xp: Any, shape: tuple[int, ...], plan: Plan, dtype: Any) -> dict[str, Any]:
    """Return zeros for every class sum that a plan needs, None for the others."""
    return {name: xp.zeros(shape, dtype) if k < 3 or plan.ordered else None for k, name in enumerate(NAMES_OF_SUMS)}


def _evaluate_in_groups(
    M: Any, shares: Shares, plan: Plan, resampling: Resampling
) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Yield the first index, the number and the evaluated replicates of one group of matrices after another."""
    xp, C, size = library(M), M.shape[-1], math.prod(M.shape[:-2])
    posterior, n_resamples = resampling.is_posterior, resampling.n_resamples
    dtype, alpha = np.dtype(np.float64 if posterior else np.int64), None
    if posterior:
        counts, prior = batches.flat_batch(M, 2, np.float64), copy_to_device(M, resampling.prior)
        alpha, shares = make_posterior(xp, counts, prior, shares, resampling.n)
    per_matrix = 8 * n_resamples * (5 * C + (C * C if posterior else 0) + plan.registers + plan.tables * C)
    together = max(1, MOST_REPLICATE_BYTES // max(per_matrix, 1))
    for first in range(0, size, together):
        count = min(together, size - first)
        sums = new_zero_sums(xp, (count, n_resamples, C), plan, dtype)
        common = {"status": shares.status, "C": C, "first": first, "count": count, "n_resamples": n_resamples}
        common |= {"numbers": shares.numbers, "seed": resampling.seed, **sums}
        blocks = batches.item_blocks(count * n_resamples)
        something = bool(sums["t"].size)
        if something and posterior:
            logs = xp.empty((count * n_resamples, C * C))
            _SHARES.launch((), blocks, alpha=alpha, total=shares.total, logs=logs, **common)
        elif something:
            given = {"cells": shares.cells, "rows": shares.rows, "support": shares.support, "total": shares.total}
            _COUNTS.launch((), blocks, rows_fixed=resampling.fixes_rows, **given, **common)
        yield first, count, values.metrics_of_sums(*sums.values(), plan=plan)[:-1]


def _compute_accelerations(cells: Any, rows_fixed: bool, plan: Plan) -> list[Any]:
    """Return the jackknife acceleration of every metric of some matrices of counts."""
    xp, (n, C, _) = library(cells), cells.shape
    parts = 5 if plan.ordered else 3
    whole = xp.zeros((parts, n, C))
    given: dict[str, Any] = {name: whole[k] if k < parts else None for k, name in enumerate(NAMES_OF_SUMS)}
    sums = new_zero_sums(xp, (n, C * C, C), plan, np.float64)
    if cells.size:
        _WHOLE.launch((), batches.item_blocks(n), cells=cells, C=C, n=n, **given)
        _WITHOUT.launch((), batches.item_blocks(n * C * C), cells=cells, whole=whole, C=C, n=n, **sums)
    out = []
    for without in list_replicate_rows(xp, values.metrics_of_sums(*sums.values(), plan=plan)[:-1], plan):
        made = xp.empty(len(without))
        if without.size:
            _ACCELERATION.launch(
                (), batches.item_blocks(len(without)),
                cells=cells, without=without, C=C, n=len(without), per=len(without) // n, rows_fixed=rows_fixed,
                out=made,
            )  # fmt: skip
        out.append(made)
    return out


def summarize_rows(
    rows: Any,
    estimate: Any,
    acceleration: Any,
    method: str,
    confidence_level: float,
    out: Sequence[Any],
    *,
    status: Any = None,
) -> None:
    """Write the :class:`IntervalResults` of a metric for each row of replicates; only BCa needs an acceleration."""
    n, size = rows.shape
    low, high, error, undefined = out
    if n:
        per = 1 if status is None else n // len(status)
        _ROWS.launch(
            (), n, shared=8 * (THREADS // 32) + 4 * THREADS,
            replicates=rows, n=n, size=size, per=per, acceleration=acceleration, status=status,
            basic=method == "basic", confidence_level=confidence_level, estimate=estimate,
            out_low=low, out_high=high, out_error=error, out_undefined=undefined,
        )  # fmt: skip


def metric_intervals(
    M: Any, *, plan: Plan, method: str, confidence_level: float, scheme: str, n: int | None, prior: np.ndarray,
    n_resamples: int, seed: int, numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return estimate, interval, standard error and undefined replicates of each metric in turn; the status."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    size, resampling = math.prod(batch), Resampling(scheme, n, prior, n_resamples, seed)
    *made, _ = values.metrics_of_matrices(M.reshape(size, C, C), plan=plan)
    out = new_intervals(xp, made)
    shares, cells = compute_shares(M, None, n=n, rounded=False, numbers=numbers), None
    if method == "bca":
        cells = batches.flat_batch(M, 2, np.float64)
        if n is not None:
            cells = xp.ascontiguousarray(cells * (n / shares.support.sum(1))[:, None, None])
    for first, count, found in _evaluate_in_groups(M, shares, plan, resampling):
        rows, some = list_replicate_rows(xp, found, plan), slice(first, first + count)
        bends = [None] * len(rows)
        if cells is not None:
            bends = _compute_accelerations(cells[some], resampling.fixes_rows, plan)
        for replicates, bend, (estimate, results) in zip(rows, bends, out, strict=True):
            here = [part[some] for part in results]
            summarize_rows(replicates, estimate[some], bend, method, confidence_level, here, status=shares.status[some])
    return *flatten_intervals(out, batch), shares.status.reshape(batch)


def metric_draws(
    M: Any, *, plan: Plan, scheme: str, n: int | None, prior: np.ndarray, n_resamples: int, seed: int,
    numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the metrics of every bootstrap replicate, along the last axis; and the status."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    shares = compute_shares(M, None, n=n, rounded=False, numbers=numbers)
    parts = _evaluate_in_groups(M, shares, plan, Resampling(scheme, n, prior, n_resamples, seed))
    out = gather_draws(xp, parts, plan, (math.prod(batch), C, n_resamples))
    return (*(part.reshape(*batch, *part.shape[1:]) for part in out), shares.status.reshape(batch))


def replicate_intervals(
    R: Any,
    estimate: Any,
    acceleration: Any = None,
    *,
    method: str,
    confidence_level: float,
    num_threads: int | None = None,
) -> tuple[Any, ...]:
    """Return interval ends, standard error and undefined replicates of every cell of replicates ``(..., k, R, C)``.

    BCa has an acceleration for every cell; no other method needs one.
    """
    del num_threads
    xp, shape = library(R), estimate.shape
    turned = R.swapaxes(-3, -2).swapaxes(-2, -1)
    rows = xp.ascontiguousarray(turned, np.float64).reshape(math.prod(shape), R.shape[-3])
    [(values_of, out)] = new_intervals(xp, [estimate])
    bends = None if acceleration is None else xp.ascontiguousarray(acceleration, np.float64).reshape(-1)
    summarize_rows(rows, values_of, bends, method, confidence_level, out)
    return tuple(out)
