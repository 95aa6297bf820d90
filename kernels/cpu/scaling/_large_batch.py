"""Compiled loop over matrices of many classes that momentum sweeps alone solve, free of Python's lock.

Each is scaled by the kernels of a single large matrix, in their order, so results do not depend on this path.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling._large_passes import (
    ScaledMatrix,
    Sums,
    bound_by_paths,
    bound_hidden_residual,
    compute_residual,
    extend_paths,
    find_smallest_cell,
    is_certain,
    join_paths,
    measure_cell_range,
    measure_sums,
    normalize_factors,
    start_paths,
)
from cmfast.kernels.cpu.scaling._large_row_blocks import (
    PASS_CELLS_PER_CHECK,
    MatrixRows,
    allocate_padded_rows,
    read_only,
)
from cmfast.kernels.cpu.scaling._large_sinkhorn import CONVERGED, START, Goal, run_momentum_sweeps, sweep
from cmfast.kernels.cpu.scaling._proven_support import is_connected, is_supported
from cmfast.kernels.shared.scaling import (
    ENOUGH_ITERATIONS,
    IMPATIENT_MOMENTUM_SWEEPS,
    LEAST_OFF_DIAGONAL,
    MOST_PATH_PASSES,
    MOST_SCALE_RATIO,
    PATIENT_MOMENTUM_SWEEPS,
    RESULTS_OF_PROBLEM,
    SWEEP_ROUNDING,
    SWEPT_COLUMNS,
    TOTALS_RTOL,
    WIDE,
    line_bound,
)
from cmfast.kernels.status import OK

LEAST_BATCH_CELLS = 1 << 16  # cells of a batch from which on compiling the loop, three seconds, pays
LEAST_UNINTERRUPTED_SWEEPS, MAX_UNINTERRUPTED_SWEEPS = 64, 256  # sweeps of a matrix without a check for interrupts


def can_batch_sweeps(p):
    """Test whether a problem has many square matrices for which the compiled loop pays."""
    cells = p.R * p.C
    many = p.n > 1 and p.n * cells >= LEAST_BATCH_CELLS and cells * LEAST_UNINTERRUPTED_SWEEPS <= PASS_CELLS_PER_CHECK
    return many and p.R == p.C and p.amount >= 0.0 and not p.plain and not p.is_warm


def can_sweep_first(p):
    """Test whether a problem has square matrices of middling size, for which sweeps may be faster than Newton steps."""
    middling = p.R == p.C >= SWEPT_COLUMNS and not p.is_large
    return middling and p.amount >= 0.0 and not p.plain and not p.is_warm and p.max_iter >= ENOUGH_ITERATIONS


def prepare_sweeps(p):
    """Return a function that scales a range of matrices of a problem, and returns the indices of those it did not."""
    ones, patience = np.ones(p.C), PATIENT_MOMENTUM_SWEEPS if p.is_large else IMPATIENT_MOMENTUM_SWEEPS
    rows = MatrixRows(np.empty((p.R, p.C)), ones, ones, 1)
    targets = _prepare_unit_targets(p.C) if p.bi else _prepare_targets(p)
    target, still, bound = p.goals
    goal = target, still, p.max_iter, float(patience)
    at_most = min(MAX_UNINTERRUPTED_SWEEPS, PASS_CELLS_PER_CHECK // (p.R * p.C))
    least = 0.0 if p.is_large else LEAST_OFF_DIAGONAL / p.C
    limits = p.m_step, p.amount, bound, line_bound(bound), p.last_width, at_most, least, rows.blocks, rows.sums.rows
    results = tuple(getattr(p, name) for name in RESULTS_OF_PROBLEM)

    def scale_range(first, end):
        """Scale the matrices from `first` to before `end`; return the indices of those that need another method."""
        if p.bi and least > 0.0 and end - first == 1 and is_slow_alone(p.cells[first * p.m_step], ones, least):
            return np.array([first])
        smoothed, hard = np.empty((p.R if p.amount > 0.0 else 0, p.C)), np.empty(end - first, np.int64)
        padded = allocate_padded_rows(p.R if rows.blocks == 1 else 0, p.C)
        copies = smoothed, read_only(smoothed), padded, read_only(padded)
        return hard[: _scale_range(p.cells, targets, copies, goal, limits, results, hard, first)]

    return scale_range


def _prepare_unit_targets(C):
    """Return targets as `_prepare_targets` does, all of them one."""
    ones = np.ones((1, C))
    return ones, ones, np.full(1, float(C)), np.zeros(0, np.bool_)


def _prepare_targets(p):
    """Return row targets, column targets with the same totals, totals, and where all are positive and these agree.

    One line for all matrices if they share their targets. As `_preprocessing.check_targets`.
    """
    u, v = p.row_sums.values, p.col_sums.values
    n = p.n if p.row_sums.step or p.col_sums.step else 1
    u, v = (np.array(np.broadcast_to(values, (n, p.C)), order="C") for values in (u, v))
    with np.errstate(all="ignore"):
        U, V = u.sum(axis=1), v.sum(axis=1)
        good = ((u > 0.0) & (u < np.inf)).all(axis=1) & ((v > 0.0) & (v < np.inf)).all(axis=1)
        larger = np.maximum(U, V)
        good &= (larger < np.inf) & (abs(U - V) <= TOTALS_RTOL * larger)
        unequal = good & (U != V)
        v[unequal] *= (U / V)[unequal, None]
    return u, v, U, good


@jit()
def is_slow_alone(cells, ones, least):
    """Test whether Newton's method scales one matrix faster than sweeps.

    It is a kernel of its own, so that the sweeps are compiled only for a matrix that is swept.
    """
    C = ones.shape[0]
    sums = Sums(np.empty((1, C)), np.empty(1), C, np.empty(1))
    return _is_slow(ScaledMatrix(cells.reshape(C, C), ones, ones), np.zeros(C), sums, least)


@jit(inner=True)
def _is_slow(matrix, x, sums, least):
    """Test whether one sweep over a matrix, without smoothing, leaves less than `least` off the diagonal."""
    M, ones, _ = matrix
    sweep(matrix, x, ones, sums, 0, 1)
    off = 0.0
    for i in range(M.shape[0]):
        off += 1.0 - x[i] * M[i, i] / sums.cols[0, i]
    return not off >= least  # also where a row is empty


@jit()
def _scale_range(cells, targets, copies, goal, limits, results, hard, first):
    """Scale as many matrices as `hard` is long by momentum sweeps, from `first` on.

    Write the indices of those that need another method to `hard`; return their number. All tuples are plain, since
    Numba's type check of named tuples takes as long as scaling a matrix. The last array of `targets` says which lines
    can be used; it is empty where all targets are one.
    """
    smoothed, frozen, padded, swept = copies
    m_step, amount, bound, at_most, last_width, most, least, blocks, rows = limits
    out, out_row, out_col, residual, n_iter, status, smoothing, line_error = results
    row_sums, col_sums, totals, usable = targets
    C, missed, worsts = row_sums.shape[1], np.empty(blocks), np.empty(blocks)
    length = padded.shape[1] if padded.shape[0] > 0 else C
    sums = Sums(np.empty((blocks, C)), missed, rows, worsts)
    swept_sums = Sums(np.empty((blocks, length)), missed, rows, worsts)
    none, scaled = np.zeros(C, np.int64), np.empty((0, C))
    x, y, step = np.empty(C), np.zeros(length), np.empty(C)
    target, still, max_iter, patience = goal
    connected, count = (np.empty(C, np.bool_), np.empty(C, np.bool_)), 0
    for b in range(first, first + len(hard)):
        hard[count] = b
        count += 1  # taken back once the matrix is scaled
        M, line = cells[b * m_step].reshape(C, C), b if len(totals) > 1 else 0
        u, v, total = row_sums[line], col_sums[line], totals[line]
        if len(usable) > 0 and not usable[line]:
            continue
        low, high, zero, bad = measure_cell_range(M)
        if least > 0.0:
            if len(usable) > 0 and not zero:  # Newton steps take less time than sweeps and their proof
                continue
            for i in range(C):
                x[i] = 0.0
            if _is_slow(ScaledMatrix(M, u, v), x, sums, least):
                continue
        if amount > 0.0:
            low, high = amount if zero else low + amount, high + amount
            for i in range(C):
                for j in range(C):
                    smoothed[i, j] = M[i, j] + amount
            M = frozen
        if bad or low < 1.0 / WIDE or high > min(WIDE, MOST_SCALE_RATIO * low):
            continue
        matrix = ScaledMatrix(M, u, v)
        for i in range(padded.shape[0]):
            for j in range(C):
                padded[i, j] = M[i, j]
        for j in range(C):
            x[j], y[j], step[j] = 0.0, 1.0, 0.0
        swept_matrix = ScaledMatrix(swept if padded.shape[0] > 0 else M, u, v)
        goals = Goal(total, target, still, max_iter, patience), last_width, most
        passes = _run_sweeps(matrix, swept_matrix, x, y, step, (sums, swept_sums), goals)
        if passes == 0 or not normalize_factors(x, y[:C], none, none, out_row[b], out_col[b]):
            continue
        if out.shape[0] > 0:
            scaled = out[b].reshape(C, C)
        measure_sums(matrix, x, y, sums, scaled, 0, sums.missed.shape[0])
        found, worst = compute_residual(matrix, sums)
        found /= total
        if not (found <= bound and worst <= at_most):
            continue
        if len(usable) > 0 and not _is_proven(matrix, x, y, total, found, connected):
            continue
        residual[b], n_iter[b], smoothing[b], line_error[b], status[b] = found, passes, amount, worst, OK
        count -= 1
    return count


@jit(inner=True)
def _run_sweeps(matrix, swept, x, y, step, sums, goals):
    """Run momentum sweeps over `swept`, a copy of the matrix, until small cells are accurate too.

    Return the number of passes, 0 where sweeps are not enough. `sums` are those of the matrix and of the copy.
    """
    goal, last_width, most = goals
    M, (whole, sums) = matrix.cells, sums
    pace = run_momentum_sweeps(swept, x, y, step, sums, START, goal, most)
    if pace.state != CONVERGED:
        return 0
    least = bound_hidden_residual(find_smallest_cell(M, x, y), min(M.shape), last_width, goal.total)
    if pace.residual > least:
        least = max(least, _bound_by_paths(matrix, x, y, whole, (last_width, goal.total), pace.residual))
    if least < SWEEP_ROUNDING:
        return 0
    if pace.residual > least:
        closer = Goal(goal.total, min(goal.target, least), goal.still, goal.max_iter, goal.patience)
        pace = run_momentum_sweeps(swept, x, y, step, sums, pace, closer, most)
    return pace.k if pace.state == CONVERGED else 0


@jit(inner=True)
def _is_proven(matrix, x, y, total, residual, memory):
    """Test whether no cell depends on the rounding of targets, and whether each positive one has support."""
    (low, zero), (rows, cols) = find_smallest_cell(matrix.cells, x, y), memory
    if not is_certain(matrix, x, y, total):
        return False
    return not zero or (is_supported(low, residual, total) and is_connected(matrix.cells.reshape(-1), rows, cols))


@jit(inner=True)
def _bound_by_paths(matrix, x, y, sums, goals, residual):
    """Return a residual from which on small cells are accurate, from the widest paths between rows and columns."""
    (last_width, total), widths, bound = goals, start_paths(*matrix.cells.shape), 0.0
    for k in range(1, MOST_PATH_PASSES + 1):
        extend_paths(matrix, x, y, widths, sums, 0, sums.missed.shape[0])
        found = bound_by_paths(join_paths(widths, sums), k, last_width, total)
        if found >= residual or 0.0 < found <= bound:
            return max(found, bound)
        bound = found
    return bound
