"""Matrix scaling to given margins: ``ipf`` and ``ras``, what they are asked and what they return."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import library
from cmfast.kernels.cuda.scaling import group, team
from cmfast.kernels.shared.scaling import FLOOR, goals

SHORT = 64  # lines on the shorter side up to which Newton's method is all that is wanted, beyond it sweeps as well
SMALL = 1 << 14  # and cells
PSEUDO_BAYES = -1.0
SWEEPS = 10_000
NEWTON_STEPS = 200
PIECE = 100_000  # matrices between two calls of `progress`


@dataclass(frozen=True)
class Lines:
    """Targets or factors, (n or 1, length) float64, and the step from one matrix to the next: 0 where they are shared.

    `values` is None where none are given.
    """

    values: Any
    step: int


@dataclass(frozen=True)
class Problem:
    """A flat batch of `n` matrices of R rows and C columns to scale, the rules, and the arrays for what comes out."""

    R: int
    C: int
    n: int
    cells: Any  # (n or 1, R, C) float32 or float64
    m_step: int  # in matrices: 0 where all share one
    row_sums: Lines
    col_sums: Lines
    start_row: Lines
    start_col: Lines
    amount: float  # smoothing; below zero: pseudo-Bayes
    drop: bool  # empty classes get the target zero
    bi: bool  # no targets were given
    plain: bool  # sweeps only
    tol: float
    goals: tuple[float, float, float]  # see cmfast.kernels.shared.scaling
    last_width: float  # of the last Newton step, at most
    max_iter: int
    out: Any  # (n, R, C) float32 or float64, or None
    out_row: Any
    out_col: Any
    residual: Any
    n_iter: Any
    status: Any
    smoothing: Any

    @property
    def is_large(self) -> bool:
        """Whether sweeps and conjugate gradients may be quicker than Newton steps by elimination."""
        return _is_large(self.R, self.C)

    def parts(self, size: int) -> Iterator["Problem"]:
        """Yield the problem in parts of `size` matrices."""
        for first in range(0, self.n, size):
            yield self._part(first, min(first + size, self.n))

    def _part(self, first: int, last: int) -> "Problem":
        changed: dict[str, Any] = {"n": last - first}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Lines):
                changed[field.name] = Lines(value.values[first:last], value.step) if value.step else value
            elif field.name == "cells":
                changed[field.name] = value[first:last] if self.m_step else value
            elif hasattr(value, "dtype"):
                changed[field.name] = value[first:last]
        return replace(self, **changed)


def _is_large(R: int, C: int) -> bool:
    return min(R, C) > SHORT or R * C > SMALL


def ipf(M: Any, row_sums: Any, col_sums: Any, start_row: Any, start_col: Any, /, **options: Any) -> tuple[Any, ...]:
    """Scale every matrix to the margins given, ones where None."""
    return _launch(M, row_sums, col_sums, start_row, start_col, write=True, **options)


def ras(M: Any, row_sums: Any, col_sums: Any, start_row: Any, start_col: Any, /, **options: Any) -> tuple[Any, ...]:
    """Return what ``ipf`` does but the matrices."""
    return _launch(M, row_sums, col_sums, start_row, start_col, write=False, **options)[1:]


def _launch(
    M: Any,
    row_sums: Any,
    col_sums: Any,
    start_row: Any,
    start_col: Any,
    *,
    write: bool,
    smoothing: Any = None,
    empty: str = "nan",
    tol: float = 1e-9,
    max_iter: int | None = None,
    solver: str = "auto",
    num_threads: int | None = None,
    progress: Any = None,
) -> tuple[Any, ...]:
    del num_threads
    xp, (R, C) = library(M), M.shape[-2:]
    vectors = [a for a in (row_sums, col_sums, start_row, start_col) if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors))
    n, plain = math.prod(batch), solver == "sinkhorn"
    dtype = batches.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    tol = max(float(tol), FLOOR)
    if max_iter is None:
        max_iter = SWEEPS if plain or _is_large(R, C) else NEWTON_STEPS
    cells, m_step = _flat(batches.as_floating(M), batch, 2)
    lines = [_lines(a, batch) for a in (row_sums, col_sums, start_row, start_col)]
    problem = Problem(
        R=R,
        C=C,
        n=n,
        cells=cells,
        m_step=m_step,
        row_sums=lines[0],
        col_sums=lines[1],
        start_row=lines[2],
        start_col=lines[3],
        amount=PSEUDO_BAYES if smoothing == "pseudo-bayes" else float(smoothing or 0.0),
        drop=empty == "drop",
        bi=row_sums is None and col_sums is None,
        plain=plain,
        tol=tol,
        goals=goals(tol, R, C),
        last_width=min(1e-3, math.sqrt(1e3 * tol)),
        max_iter=max_iter,
        out=xp.empty((n, R, C), dtype) if write else None,
        out_row=xp.empty((n, R)),
        out_col=xp.empty((n, C)),
        residual=xp.empty(n),
        n_iter=xp.empty(n, np.int64),
        status=xp.empty(n, np.int8),
        smoothing=xp.empty(n),
    )
    _solve(problem, progress)
    return (
        None if problem.out is None else problem.out.reshape(*batch, R, C),
        problem.out_row.reshape(*batch, R),
        problem.out_col.reshape(*batch, C),
        *(a.reshape(batch) for a in (problem.residual, problem.n_iter, problem.status, problem.smoothing)),
    )


def _solve(problem: Problem, progress: Any) -> None:
    done = 0
    for part in problem.parts(max(1, problem.n) if progress is None else PIECE):
        left = group.solve(part) if group.takes(part) else ()
        team.solve(part, *left)
        done += part.n
        if progress is not None:
            progress(done, problem.n)
    if progress is not None and problem.n == 0:
        progress(0, 0)


def _lines(a: Any, batch: tuple[int, ...]) -> Lines:
    if a is None:
        return Lines(None, 0)
    flat, step = _flat(a.astype(np.float64, copy=False), batch, 1)
    return Lines(flat, step * flat.shape[-1])


def _flat(a: Any, batch: tuple[int, ...], core: int) -> tuple[Any, int]:
    """Return `a` with one batch axis, and its step along the batch: 0 where every element shares it."""
    if math.prod(a.shape[: a.ndim - core]) == 1:
        return batches.flat_batch(a, core), 0
    return batches.flat_batch(library(a).broadcast_to(a, batch + a.shape[a.ndim - core :]), core), 1
