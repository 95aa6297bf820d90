"""Scaling of the matrices of a batch that a queue names, whatever they hold."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cmfast.kernels.cuda import _arrays
from cmfast.kernels.cuda._module import NAMES, Kernel, library

if TYPE_CHECKING:
    from cmfast.kernels.cuda.scaling import Problem

SHORT = 64  # lines on the shorter side up to which a thread has a matrix of its own, beyond it a block
SMALL = 1 << 14  # and cells
MOST = 1 << 22  # cells of the matrices that there are kernels for
SCRATCH = 1 << 28  # bytes of scratch at most, but for one matrix: so many go at once
THREADS = 64  # of a block whose threads have matrices of their own: registers are what is short
ROUNDING = 1e-15  # between the residual of a sweep and the one measured again

_LOAD = Kernel("scaling_team", "cmfast_ipf_load", (("float",), ("double",)), 160)
_SINKHORN = Kernel("scaling_team", "cmfast_ipf_sinkhorn", registers=80)
_NEWTON = Kernel("scaling_team", "cmfast_ipf_newton", registers=128)
_BLOCK = Kernel("scaling_team", "cmfast_ipf_newton_block", registers=176)
_FINISH = Kernel("scaling_team", "cmfast_ipf_finish", (("float",), ("double",)), 64)
KERNELS = (_LOAD, _SINKHORN, _NEWTON, _BLOCK, _FINISH)


def solve(problem: "Problem", queue: Any = None, length: Any = None) -> None:
    """Scale the matrices ``queue[:length]``, which are integers on the device; all of them without a queue.

    Parameters
    ----------
    problem : Problem
        The batch; its results are written for these matrices alone.
    queue : array of int64, shape (n,), optional
        Distinct numbers of matrices, in any order.
    length : array of int64, shape (1,), optional
        How many of them there are: only the device knows.
    """
    p, R, C = problem, problem.R, problem.C
    if R * C > MOST:
        msg = f"ipf and ras have no cuda kernel for matrices of {R} x {C}: at most {MOST} cells"
        raise NotImplementedError(msg)
    xp = library(p.cells)
    own = min(R, C) <= SHORT and R * C <= SMALL
    rows, cols = (C, R) if R < C and not p.plain else (R, C)
    numbers, integers = _scratch(rows, cols, needs_network=not p.plain and p.amount == 0.0)
    most = max(1, SCRATCH // (8 * (numbers + integers)))
    scratch = xp.empty(numbers * min(p.n, most))
    network = xp.empty(max(1, integers * min(p.n, most)), np.int64)
    lines = [item for a in (p.row_sums, p.col_sums, p.start_row, p.start_col) for item in (a.values, a.step)]
    results = (p.out, p.out_row, p.out_col, p.residual, p.n_iter, p.status, p.smoothing)
    out_type = "double" if p.out is None else NAMES[p.out.dtype]
    for first in range(0, p.n, most):
        count = min(most, p.n - first)
        blocks = -(-count // THREADS)
        # Interleaved where neighbours in a warp have matrices of their own, else one matrix behind another.
        stride, step, network_step = (count, 1, 1) if own else (1, numbers, integers)
        rule = (p.amount, int(p.drop), int(p.bi), int(p.plain))
        which = (queue, length, first, count)
        arguments = (p.cells, p.m_step, *lines, R, C, *which, *rule, stride, step, scratch, network_step, network)
        _LOAD.launch((NAMES[p.cells.dtype],), blocks, arguments, threads=THREADS)
        if p.plain:
            tol = p.tol - min(ROUNDING, 0.5 * p.tol)
            arguments = (rows, cols, length, first, count, tol, p.max_iter, stride, step, scratch)
            _SINKHORN.launch((), blocks, arguments, threads=THREADS)
        else:
            arguments = (rows, cols, length, first, count, p.tol, p.last_width, p.max_iter, stride, step, scratch)
            if own:
                _NEWTON.launch((), blocks, arguments, threads=THREADS)
            else:
                _BLOCK.launch((), count, arguments, shared=_arrays.team_scratch(_arrays.WIDTHS[-1]))
        arguments = (R, C, *which, int(p.plain), p.tol, stride, step, scratch, *results)
        _FINISH.launch((out_type,), blocks, arguments, threads=THREADS)


def _scratch(rows: int, cols: int, *, needs_network: bool) -> tuple[int, int]:
    """Return how many numbers and how many integers one matrix needs, as the source lays them out."""
    short = min(rows, cols)
    numbers = 2 * rows * cols + 2 * short * short + 5 * rows + 10 * cols + 10
    words = -(-cols // 64)
    integers = rows * cols + 2 * rows * words + 2 * rows + 4 * cols + (cols + 3) * words
    return numbers, integers if needs_network else 0
