"""Matrix scaling to given margins: the launchers of ``ipf`` and ``ras``."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda import _arrays
from cmfast.kernels.cuda._module import NAMES, Kernel, library

SHORT = 64  # lines on the shorter side up to which a thread has a matrix of its own, beyond it a block
SMALL = 1 << 14  # and cells
MOST = 1 << 22  # cells of the matrices that there are kernels for
SCRATCH = 1 << 28  # bytes of scratch at most, but for one matrix: so many go at once
THREADS = 64  # of a block whose threads have matrices of their own: registers are what is short
PSEUDO_BAYES = -1.0
FLOOR = 2e-15  # rounding: the smallest residual that can be promised
ROUNDING = 1e-15  # between the residual of a sweep and the one measured again
SWEEPS = 10_000
NEWTON_STEPS = 200

_LOAD = Kernel("scaling", "cmfast_ipf_load", (("float",), ("double",)), 160)
_SINKHORN = Kernel("scaling", "cmfast_ipf_sinkhorn", registers=80)
_NEWTON = Kernel("scaling", "cmfast_ipf_newton", registers=128)
_BLOCK = Kernel("scaling", "cmfast_ipf_newton_block", registers=176)
_FINISH = Kernel("scaling", "cmfast_ipf_finish", (("float",), ("double",)), 64)
KERNELS = (_LOAD, _SINKHORN, _NEWTON, _BLOCK, _FINISH)


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
    if R * C > MOST:
        msg = f"ipf and ras have no cuda kernel for matrices of {R} x {C}: at most {MOST} cells"
        raise NotImplementedError(msg)
    vectors = [a for a in (row_sums, col_sums, start_row, start_col) if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors))
    n, plain = math.prod(batch), solver == "sinkhorn"
    dtype = _arrays.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    tol = max(float(tol), FLOOR)
    if max_iter is None:
        max_iter = SWEEPS if plain else NEWTON_STEPS
    amount = PSEUDO_BAYES if smoothing == "pseudo-bayes" else float(smoothing or 0.0)
    out = xp.empty((n, R, C), dtype) if write else None
    out_row, out_col = xp.empty((n, R)), xp.empty((n, C))
    residual, n_iter, status, added = xp.empty(n), xp.empty(n, np.int64), xp.empty(n, np.int8), xp.empty(n)
    results = (out, out_row, out_col, residual, n_iter, status, added)

    cells, m_step = _flat(_arrays.as_floating(M), batch, 2)
    lines = [item for a in (row_sums, col_sums, start_row, start_col) for item in _lines(a, batch)]
    bi = row_sums is None and col_sums is None
    rows, cols = (C, R) if R < C and not plain else (R, C)
    numbers, integers = _scratch(rows, cols, needs_network=not plain and amount == 0.0)
    most = max(1, SCRATCH // (8 * (numbers + integers)))
    own = min(R, C) <= SHORT and R * C <= SMALL
    scratch = xp.empty(numbers * min(n, most))
    network = xp.empty(max(1, integers * min(n, most)), np.int64)
    for first in range(0, n, most):
        count = min(most, n - first)
        blocks = -(-count // THREADS)
        # Interleaved where neighbours in a warp have matrices of their own, else one matrix behind another.
        stride, step, network_step = (count, 1, 1) if own else (1, numbers, integers)
        rule = (amount, int(empty == "drop"), int(bi), int(plain))
        arguments = (cells, m_step, *lines, R, C, first, count, *rule, stride, step, scratch, network_step, network)
        _LOAD.launch((NAMES[cells.dtype],), blocks, arguments, threads=THREADS)
        if plain:
            arguments = (rows, cols, count, tol - min(ROUNDING, 0.5 * tol), max_iter, stride, step, scratch)
            _SINKHORN.launch((), blocks, arguments, threads=THREADS)
        else:
            arguments = (rows, cols, count, tol, min(1e-3, math.sqrt(1e3 * tol)), max_iter, stride, step, scratch)
            if own:
                _NEWTON.launch((), blocks, arguments, threads=THREADS)
            else:
                _BLOCK.launch((), count, arguments, shared=_arrays.team_scratch(_arrays.WIDTHS[-1]))
        arguments = (R, C, first, count, int(plain), tol, stride, step, scratch, *results)
        _FINISH.launch((NAMES[dtype],), blocks, arguments, threads=THREADS)
        if progress is not None:
            progress(first + count, n)
    if progress is not None and n == 0:
        progress(0, 0)
    return (
        None if out is None else out.reshape(*batch, R, C),
        out_row.reshape(*batch, R),
        out_col.reshape(*batch, C),
        *(a.reshape(batch) for a in (residual, n_iter, status, added)),
    )


def _scratch(rows: int, cols: int, *, needs_network: bool) -> tuple[int, int]:
    """Return how many numbers and how many integers one matrix needs, as the source lays them out."""
    short = min(rows, cols)
    numbers = 2 * rows * cols + 2 * short * short + 5 * rows + 10 * cols + 10
    words = -(-cols // 64)
    integers = rows * cols + 2 * rows * words + 2 * rows + 4 * cols + (cols + 3) * words
    return numbers, integers if needs_network else 0


def _lines(a: Any, batch: tuple[int, ...]) -> tuple[Any, int]:
    """Return targets or factors as a flat batch of float64, and the step between them; None where none are given."""
    if a is None:
        return None, 0
    flat, step = _flat(a.astype(np.float64, copy=False), batch, 1)
    return flat, step * flat.shape[-1]


def _flat(a: Any, batch: tuple[int, ...], core: int) -> tuple[Any, int]:
    """Return `a` with one batch axis, and its step along the batch: 0 where every element shares it."""
    if math.prod(a.shape[: a.ndim - core]) == 1:
        return _arrays.flat_batch(a, core), 0
    return _arrays.flat_batch(library(a).broadcast_to(a, batch + a.shape[a.ndim - core :]), core), 1
