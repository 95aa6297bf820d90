"""Intervals of metrics from replicates that last until their metrics are known."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import THREADS, Kernel, library
from cmfast.kernels.cuda._core.resident import resident
from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.cuda.uncertainty.resample import Shares, shares_of
from cmfast.kernels.shared.metrics import Plan

_COUNTS = Kernel("uncertainty/intervals", "cmfast_metric_draws_of_counts", registers=128)
_SHARES = Kernel("uncertainty/intervals", "cmfast_metric_draws_of_shares", registers=128)
_WHOLE = Kernel("uncertainty/intervals", "cmfast_metric_intervals_whole")
_WITHOUT = Kernel("uncertainty/intervals", "cmfast_metric_intervals_without")
_ACCELERATION = Kernel("uncertainty/intervals", "cmfast_metric_intervals_acceleration")
_ROWS = Kernel("uncertainty/intervals", "cmfast_replicate_intervals_rows", registers=128)
KERNELS = (_COUNTS, _SHARES, _WHOLE, _WITHOUT, _ACCELERATION, _ROWS)
MOST_BYTES = 2**28  # of replicates at a time
_NAMES = ("d", "t", "p", "bands", "tops")


def _sums(xp: Any, shape: tuple[int, ...], plan: Plan, dtype: Any) -> dict[str, Any]:
    """Return zeros for every sum that a plan needs, None for those that it does not."""
    return {name: xp.zeros(shape, dtype) if k < 3 or plan.ordered else None for k, name in enumerate(_NAMES)}


def _replicated(
    M: Any, shares: Shares, plan: Plan, scheme: str, n: int | None, prior: np.ndarray, n_replicates: int, seed: int
) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Yield for some matrices at a time where they begin, how many they are, and their replicates."""
    xp, C, size = library(M), M.shape[-1], math.prod(M.shape[:-2])
    posterior, dtype = scheme == "dirichlet", np.dtype(np.float64 if scheme == "dirichlet" else np.int64)
    alpha, total = None, None
    if posterior:
        alpha, total = batches.flat_batch(M, 2, np.float64), shares.total.astype(np.float64)
        if n is not None:
            alpha = alpha * (n / xp.where(shares.support.sum(1) > 1e-300, shares.support.sum(1), 1e-300))[:, None, None]
        alpha = xp.ascontiguousarray(alpha + resident(M, prior))
        total = xp.where(total > 0.0, total, 1.0)
    per_matrix = 8 * n_replicates * (5 * C + (C * C if posterior else 0) + plan.registers + plan.tables * C)
    together = max(1, MOST_BYTES // max(per_matrix, 1))
    for first in range(0, size, together):
        count = min(together, size - first)
        sums = _sums(xp, (count, n_replicates, C), plan, dtype)
        common = {"status": shares.status, "C": C, "first": first, "count": count, "n_replicates": n_replicates}
        common |= {"numbers": shares.numbers, "seed": seed, **sums}
        blocks = batches.per_item(count * n_replicates)
        something = bool(sums["t"].size)
        if something and posterior:
            logs = xp.empty((count * n_replicates, C * C))
            _SHARES.launch((), blocks, alpha=alpha, total=total, logs=logs, **common)
        elif something:
            fixed = scheme == "row_multinomial"
            given = {"cells": shares.cells, "rows": shares.rows, "support": shares.support, "total": shares.total}
            _COUNTS.launch((), blocks, rows_fixed=fixed, **given, **common)
        yield first, count, values.metrics_of_sums(*sums.values(), plan=plan)[:-1]


def _by_number(found: tuple[Any, ...], plan: Plan) -> list[Any]:
    """Return what was made of every replicate, a row for each number: those of scalars, then those of every class."""
    turned = (table.swapaxes(-1, -2) for table in found[plan.scalars :])
    return [batches.flat_batch(one, 1) for one in (*found[: plan.scalars], *turned)]


def _accelerations(cells: Any, rows_fixed: bool, plan: Plan) -> list[Any]:
    """Return the acceleration of every number of some matrices of counts."""
    xp, (n, C, _) = library(cells), cells.shape
    parts = 5 if plan.ordered else 3
    whole = xp.zeros((parts, n, C))
    given: dict[str, Any] = {name: whole[k] if k < parts else None for k, name in enumerate(_NAMES)}
    sums = _sums(xp, (n, C * C, C), plan, np.float64)
    if cells.size:
        _WHOLE.launch((), batches.per_item(n), cells=cells, C=C, n=n, **given)
        _WITHOUT.launch((), batches.per_item(n * C * C), cells=cells, whole=whole, C=C, n=n, **sums)
    out = []
    for without in _by_number(values.metrics_of_sums(*sums.values(), plan=plan)[:-1], plan):
        made = xp.empty(len(without))
        if without.size:
            _ACCELERATION.launch(
                (), batches.per_item(len(without)),
                cells=cells, without=without, C=C, n=len(without), per=len(without) // n, rows_fixed=rows_fixed,
                out=made,
            )  # fmt: skip
        out.append(made)
    return out


def _summarize(
    rows: Any, parts: list[Any], method: str, level: float, *, acceleration: Any = None, status: Any = None
) -> None:
    """Fill ends, standard errors and undefined replicates of what is estimated, a row of replicates for each."""
    n, size = rows.shape
    estimate, low, high, error, undefined = parts
    if n:
        per = 1 if status is None else n // len(status)
        _ROWS.launch(
            (), n, shared=8 * (THREADS // 32) + 4 * THREADS,
            replicates=rows, n=n, size=size, per=per, acceleration=acceleration, status=status,
            basic=method == "basic", level=level, estimate=estimate,
            out_low=low, out_high=high, out_error=error, out_undefined=undefined,
        )  # fmt: skip


def metric_intervals(
    M: Any, *, plan: Plan, method: str, level: float, scheme: str, n: int | None, prior: np.ndarray, n_replicates: int,
    seed: int, numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Estimate, lower and upper end, standard error, undefined replicates: of each number in turn; and the status."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    size = math.prod(batch)
    *made, _ = values.metrics_of_matrices(M.reshape(size, C, C), plan=plan)
    out = [[xp.ascontiguousarray(e, np.float64), *(xp.empty(e.shape) for _ in range(3))] for e in made]
    out = [[*parts, xp.empty(parts[0].shape, np.int64)] for parts in out]
    shares, cells = shares_of(M, None, n=n, rounded=False, numbers=numbers), None
    if method == "bca":
        cells = batches.flat_batch(M, 2, np.float64)
        if n is not None:
            cells = xp.ascontiguousarray(cells * (n / shares.support.sum(1))[:, None, None])
    drawn = _replicated(M, shares, plan, scheme, n, prior, n_replicates, seed)
    for first, count, found in drawn:
        rows, some = _by_number(found, plan), slice(first, first + count)
        bent = [None] * len(rows)
        if cells is not None:
            bent = _accelerations(cells[some], scheme == "row_multinomial", plan)
        for replicates, acceleration, parts in zip(rows, bent, out, strict=True):
            here = [part[some].reshape(-1) for part in parts]
            _summarize(replicates, here, method, level, acceleration=acceleration, status=shares.status[some])
    each = [part.reshape(batch + part.shape[1:]) for number in out for part in number]
    return *each, shares.status.reshape(batch)


def metric_draws(
    M: Any, *, plan: Plan, scheme: str, n: int | None, prior: np.ndarray, n_replicates: int, seed: int,
    numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Every number of every replicate, along the last axis; and the status."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    size = math.prod(batch)
    out = [xp.empty((size, n_replicates)) for _ in range(plan.scalars)]
    out += [xp.empty((size, C, n_replicates)) for _ in range(plan.tables)]
    shares = shares_of(M, None, n=n, rounded=False, numbers=numbers)
    for first, count, found in _replicated(M, shares, plan, scheme, n, prior, n_replicates, seed):
        for whole, part in zip(out, found, strict=True):
            whole[first : first + count] = part if part.ndim == 2 else part.swapaxes(-1, -2)
    return (*(part.reshape(*batch, *part.shape[1:]) for part in out), shares.status.reshape(batch))


def replicate_intervals(
    R: Any, estimate: Any, acceleration: Any = None, *, method: str, level: float, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Make ends, standard error and undefined replicates of every cell of replicates ``(..., k, R, C)``.

    BCa has an acceleration for every cell; no other method needs one.
    """
    del num_threads
    xp, shape = library(R), estimate.shape
    turned = R.swapaxes(-3, -2).swapaxes(-2, -1)
    rows = xp.ascontiguousarray(turned, np.float64).reshape(math.prod(shape), R.shape[-3])
    flat = xp.ascontiguousarray(estimate, np.float64).reshape(-1)
    parts = [flat, *(xp.empty(flat.shape) for _ in range(3)), xp.empty(flat.shape, np.int64)]
    bent = None if acceleration is None else xp.ascontiguousarray(acceleration, np.float64).reshape(-1)
    _summarize(rows, parts, method, level, acceleration=bent)
    return tuple(part.reshape(shape) for part in parts[1:])
