"""The ops ``ipf`` and ``ras`` on a device: arguments, choice of kernels, results."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, workspace
from cmfast.kernels.cuda._core.module import library
from cmfast.kernels.cuda.scaling import group, team
from cmfast.kernels.shared.batches import flatten_one
from cmfast.kernels.shared.scaling import Lines, ScalingProblem, rules

PROGRESS_MATRICES = 100_000  # matrices between two calls of `progress`


def ipf(M: Any, row_sums: Any, col_sums: Any, start_row: Any, start_col: Any, /, **options: Any) -> tuple[Any, ...]:
    """Scale every matrix to the given margins (ones where None); return matrices, factors and diagnostics."""
    return _launch(M, (row_sums, col_sums, start_row, start_col), write=True, **options)


def ras(M: Any, row_sums: Any, col_sums: Any, start_row: Any, start_col: Any, /, **options: Any) -> tuple[Any, ...]:
    """Compute the factors and diagnostics of ``ipf`` without the scaled matrices."""
    return _launch(M, (row_sums, col_sums, start_row, start_col), write=False, **options)[1:]


def _launch(
    M: Any,
    vectors: tuple[Any, Any, Any, Any],
    *,
    write: bool,
    num_threads: int | None = None,
    progress: Any = None,
    out: tuple[Any, ...] | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    """Scale to the row and column targets, from row and column factors; `vectors` are these four."""
    del num_threads
    xp, (R, C) = library(M), M.shape[-2:]
    row_sums, col_sums, _, _ = vectors
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors if a is not None))
    n = math.prod(batch)
    dtype = batches.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    cells, m_step = flatten_one(batches.as_floating(M), batch, 2, xp, batches.flat_batch)
    shapes = ((*batch, R, C), dtype), ((*batch, R), np.float64), ((*batch, C), np.float64)
    types = (np.float64, np.int64, np.int8, np.float64, np.float64)
    wanted = (*(shapes if write else shapes[1:]), *((batch, each) for each in types))
    results = workspace.prepare_results(xp, out, *wanted)
    matrix, row, col, residual, n_iter, status, smoothing, line_error = results if write else (None, *results)
    lines = [_flatten_lines(a, batch) for a in vectors]
    problem = ScalingProblem(
        R=R,
        C=C,
        n=n,
        cells=cells,
        m_step=m_step,
        row_sums=lines[0],
        col_sums=lines[1],
        start_row=lines[2],
        start_col=lines[3],
        **rules(R, C, bi=row_sums is None and col_sums is None, **options),
        out=None if matrix is None else matrix.reshape(n, R, C),
        out_row=row.reshape(n, R),
        out_col=col.reshape(n, C),
        residual=residual.reshape(n),
        n_iter=n_iter.reshape(n),
        status=status.reshape(n),
        smoothing=smoothing.reshape(n),
        line_error=line_error.reshape(n),
    )
    _solve(problem, progress, may_ask=out is None)
    return matrix, row, col, residual, n_iter, status, smoothing, line_error


def _solve(problem: ScalingProblem, progress: Any, *, may_ask: bool) -> None:
    """Scale the matrices of a problem: common ones by a fast kernel, the rest by the general one."""
    done = 0
    size = max(1, problem.n) if progress is None else PROGRESS_MATRICES
    for first in range(0, problem.n, size):
        part = problem.part(first, min(first + size, problem.n))
        first_of_two = _choose_first_kernel(part)
        if first_of_two is None:
            team.solve(part)
        else:
            team.is_loaded(part)  # otherwise starts compiling it in a thread, while this one compiles the first
            queue, length = first_of_two(part)
            # The second kernel takes seconds to compile: until it is loaded, check whether any matrix needs it.
            if not may_ask or team.is_loaded(part) or int(length.get()[0]):  # synchronises
                team.solve(part, queue, length)
        done += part.n
        if progress is not None:
            progress(done, problem.n)
    if progress is not None and problem.n == 0:
        progress(0, 0)


def _choose_first_kernel(problem: ScalingProblem) -> Callable[[ScalingProblem], tuple[Any, Any]] | None:
    """Return the solver that scales common matrices first, or None if the general kernel takes all."""
    if group.takes(problem):
        return group.solve
    return team.solve_common if team.takes_common(problem) else None


def _flatten_lines(a: Any, batch: tuple[int, ...]) -> Lines:
    """Return targets or factors as a flat batch of float64."""
    if a is None:
        return Lines(None, 0)
    flat, step = flatten_one(a.astype(np.float64, copy=False), batch, 1, library(a), batches.flat_batch)
    return Lines(flat, step * flat.shape[-1])
