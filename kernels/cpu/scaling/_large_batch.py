"""Compiled loop over many large matrices that momentum sweeps alone solve, free of Python's lock.

Each is scaled by the kernels of a single large matrix, in their order, so results do not depend on this path.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling._large_passes import (
    ScaledMatrix,
    bound_hidden_residual,
    compute_residual,
    find_smallest_cell,
    measure_cell_range,
    measure_sums,
    normalize_factors,
)
from cmfast.kernels.cpu.scaling._large_row_blocks import (
    PASS_CELLS_PER_CHECK,
    MatrixRows,
    allocate_padded_rows,
    read_only,
)
from cmfast.kernels.cpu.scaling._large_sinkhorn import CONVERGED, START, Goal, run_momentum_sweeps
from cmfast.kernels.shared.scaling import (
    MOST_SCALE_RATIO,
    PATIENT_MOMENTUM_SWEEPS,
    RESULTS_OF_PROBLEM,
    SWEEP_ROUNDING,
    WIDE,
    line_bound,
)
from cmfast.kernels.status import MAX_ITER, OK

LEAST_BATCH_CELLS = 1 << 20  # cells of a batch from which on compiling the loop pays
LEAST_UNINTERRUPTED_SWEEPS, MAX_UNINTERRUPTED_SWEEPS = 64, 256  # sweeps of a matrix without a check for interrupts


def can_batch_sweeps(p):
    """Test whether a problem has many square matrices with unit targets for which the compiled loop pays."""
    cells = p.R * p.C
    many = p.n > 1 and p.n * cells >= LEAST_BATCH_CELLS and cells * LEAST_UNINTERRUPTED_SWEEPS <= PASS_CELLS_PER_CHECK
    return many and p.bi and p.R == p.C and p.amount >= 0.0 and not p.plain and not p.is_warm


def scale_by_sweeps(p):
    """Scale the matrices of a problem in order; yield the index of each that needs another method."""
    target, still, _ = p.goals
    ones, smoothed = np.ones(p.C), np.empty((p.R, p.C))
    rows = MatrixRows(smoothed, ones, ones, 1)
    padded = allocate_padded_rows(p.R if rows.blocks == 1 else 0, p.C)
    sums = rows.sums, rows.sums._replace(cols=np.empty((rows.blocks, padded.shape[1] if len(padded) else p.C)))
    goal = Goal(rows.total, target, still, p.max_iter, float(PATIENT_MOMENTUM_SWEEPS))
    results = tuple(getattr(p, name) for name in RESULTS_OF_PROBLEM)
    copies = smoothed, read_only(smoothed), padded, read_only(padded)
    rest = p.m_step, copies, p.amount, p.goals[2], line_bound(p.goals[2])
    goals = goal, START, p.last_width, min(MAX_UNINTERRUPTED_SWEEPS, PASS_CELLS_PER_CHECK // (p.R * p.C))
    b = _scale_until_hard(p.cells, ones, sums, goals, rest, results, 0, p.n)
    while b < p.n:
        yield b
        b = _scale_until_hard(p.cells, ones, sums, goals, rest, results, b + 1, p.n)


@jit()
def _scale_until_hard(cells, ones, sums, goals, rest, results, first, end):
    """Scale matrices from `first` by momentum sweeps; return the first that needs another method, or `end`."""
    m_step, (smoothed, frozen, padded, swept), amount, bound, at_most = rest
    sums, swept_sums = sums
    out, out_row, out_col, residual, n_iter, status, smoothing, line_error = results
    C = ones.shape[0]
    none, scaled = np.zeros(C, np.int64), np.empty((0, C))
    x, y, step = np.empty(C), np.zeros(swept_sums.cols.shape[1]), np.empty(C)
    for b in range(first, end):
        M = cells[b * m_step].reshape(C, C)
        low, high, zero, bad = measure_cell_range(M)
        if amount > 0.0:
            low, high, zero = amount if zero else low + amount, high + amount, False
            for i in range(C):
                for j in range(C):
                    smoothed[i, j] = M[i, j] + amount
            M = frozen
        if bad or zero or low < 1.0 / WIDE or high > min(WIDE, MOST_SCALE_RATIO * low):
            return b
        matrix = ScaledMatrix(M, ones, ones)
        for i in range(padded.shape[0]):
            for j in range(C):
                padded[i, j] = M[i, j]
        for j in range(C):
            x[j], y[j], step[j] = 0.0, 1.0, 0.0
        swept_matrix = ScaledMatrix(swept if padded.shape[0] > 0 else M, ones, ones)
        passes = _run_sweeps(M, swept_matrix, x, y, step, swept_sums, goals)
        if passes == 0 or not normalize_factors(x, y[:C], none, none, out_row[b], out_col[b]):
            return b
        if out.shape[0] > 0:
            scaled = out[b].reshape(C, C)
        measure_sums(matrix, x, y, sums, scaled, 0, sums.missed.shape[0])
        found, worst = compute_residual(matrix, sums)
        found /= C
        if not found < np.inf:
            return b
        residual[b], n_iter[b], smoothing[b], line_error[b] = found, passes, amount, worst
        status[b] = OK if found <= bound and worst <= at_most else MAX_ITER
    return end


@jit(inner=True)
def _run_sweeps(M, swept, x, y, step, sums, goals):
    """Run momentum sweeps over `swept`, a copy of the matrix, until small cells are accurate too.

    Return the number of passes, 0 where sweeps are not enough.
    """
    goal, start, last_width, most = goals
    pace = run_momentum_sweeps(swept, x, y, step, sums, start, goal, most)
    if pace.state != CONVERGED:
        return 0
    least = bound_hidden_residual(find_smallest_cell(M, x, y), min(M.shape), last_width, goal.total)
    if least < SWEEP_ROUNDING:
        return 0
    if pace.residual > least:
        closer = Goal(goal.total, min(goal.target, least), goal.still, goal.max_iter, goal.patience)
        pace = run_momentum_sweeps(swept, x, y, step, sums, pace, closer, most)
    return pace.k if pace.state == CONVERGED else 0
