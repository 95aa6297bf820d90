"""Refine matrices with uncertain small rows, columns or cells, and continue those that have not converged.

Newton's method on the dual, one matrix at a time, arranged for targets of all sizes. The column with the largest target
is grounded, so that it absorbs the rounding of the totals instead of a small column. Where row and column targets have
exactly equal sums, flows between paired rows and columns are solved for, which no sum rounds. The cells' errors are
bounded by the inverse of the Hessian: how far rounding all targets once, and their sums, can move a cell.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver.newton import damped_step, has_stalled
from cmfast.kernels.shared import scaling as rules
from cmfast.kernels.shared.scaling import (
    FINE_WIDTH,
    LINE_ROUNDING,
    LOST_LINE,
    MOST_CELL_ERROR,
    MOST_STALLS,
    NEWTON_STEPS,
    NORMAL,
    REFINED,
    pseudo_bayes,
)
from cmfast.kernels.status import MAX_ITER, OK, RANGE, UNDETERMINED

MIN_ROWS_PER_COLUMN = 16  # from here on a cheaper upper bound of the errors: the exact sum takes seconds
OPERATIONS_PER_CHECK = 1 << 24  # operations between two checks for interrupts: some tens of ms

line_bound = jit(inner=True, inline=True)(rules.line_bound)


class Marginal(NamedTuple):
    """Rows or columns with positive targets; a scaling factor is ``factors * 2**powers``."""

    index: Any  # row or column of the matrix
    targets: Any
    factors: Any
    powers: Any


class Laplacian(NamedTuple):
    """The graph Laplacian of the columns and its factorisation, with a right-hand side and the solution."""

    weights: Any
    flows: Any
    reciprocals: Any  # of the pivots
    right: Any
    solution: Any


def refine(p):
    """Solve the matrices marked UNDETERMINED more accurately by Newton's method, and set their final status in place.

    Also those without finite factors, and those that have their sums but for small rows or columns: where the grounded
    column of the first solver has a small target, rounding of the totals leaves no factors for it.
    """
    status = p.status
    if p.bi or p.plain or not status.any():
        return
    target, _, bound = p.goals
    marked = (status == UNDETERMINED) | (status == RANGE)
    if p.max_iter >= NEWTON_STEPS:
        marked |= (status == MAX_ITER) & (p.residual <= bound)
    places = np.flatnonzero(marked)
    if not places.size:
        return
    if min(p.R, p.C) > REFINED:
        places = places[status[places] == UNDETERMINED]
        fits = (p.residual[places] <= bound) & (p.line_error[places] <= rules.line_bound(bound))
        p.status[places] = np.where(fits, OK, MAX_ITER)
        return
    lines = p.row_sums.values, p.row_sums.step, p.col_sums.values, p.col_sums.step
    factors = p.out_row, p.out_col
    numbers = p.residual, p.n_iter, p.status, p.line_error
    limits = target, bound, p.max_iter
    step = max(1, OPERATIONS_PER_CHECK // (p.R * p.C * min(p.R, p.C)))
    for first in range(0, len(places), step):
        pool.checkpoint()
        some = places[first : first + step]
        cells = p.cells[some * p.m_step] + max(p.amount, 0.0)
        if p.amount < 0.0:
            with np.errstate(all="ignore"):  # cells at the ends of the float64 range
                for k, one in enumerate(cells):
                    cells[k] = pseudo_bayes(one.reshape(p.R, p.C), float(one.max()))[0].reshape(-1)
        _refine(cells, lines, p.out, factors, numbers, limits, some)


@jit()
def _refine(cells, lines, out, factors, numbers, limits, places):
    """Refine the matrices at the positions `places` of a batch by Newton's method, in place.

    `cells` are their cells.
    """
    row_sums, row_step, col_sums, col_step = lines
    out_row, out_col = factors
    residual, n_iter, status, line_error = numbers
    target, bound, max_iter = limits
    R, C = out_row.shape[1], out_col.shape[1]
    n, k = max(R, C), min(R, C)
    u, v, x, y = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    used_rows = Marginal(np.empty(n, np.int64), u, x, np.empty(n, np.int64))
    used_cols = Marginal(np.empty(n, np.int64), v, y, np.empty(n, np.int64))
    M, P, spare, gap = np.empty((n, k)), np.empty((n, k)), np.empty((n, k)), np.empty(n)
    q, d = np.empty(k), np.empty(k)
    graph = Laplacian(np.empty((k, k)), np.empty((k, k)), np.empty(k), q, d)
    for at in range(len(places)):
        b = places[at]
        rows, cols = row_sums[b * row_step], col_sums[b * col_step]
        flip = _count_used(rows) < _count_used(cols)  # Newton's unknowns belong on the shorter side
        U, V = _sum_targets(rows), _sum_targets(cols)
        if not (np.inf > U and np.inf > V):
            continue
        ratio = U / V if U != V else 1.0
        if flip:
            Rs = _load_marginal(cols, out_col[b], ratio, used_rows)
            Cs = _load_marginal(rows, out_row[b], 1.0, used_cols)
        else:
            Rs = _load_marginal(rows, out_row[b], 1.0, used_rows)
            Cs = _load_marginal(cols, out_col[b], ratio, used_cols)
        _sort_columns(used_cols, Cs)
        if status[b] == RANGE or not line_error[b] <= LOST_LINE:
            _set_equilibrated_start(cells[at], C, flip, Rs, Cs, used_rows, used_cols)
        _load_cells(cells[at], C, flip, Rs, Cs, used_rows, used_cols, M)
        paired = Rs == Cs and _have_equal_sums(rows, cols) and _pair_rows(M, used_rows, y, Rs, spare, gap)
        fits = residual[b] <= bound and line_error[b] <= line_bound(bound)
        width, before, steps, stalls = np.inf, np.inf, 0, 0
        fits = fits and status[b] == UNDETERMINED
        most = NEWTON_STEPS if max_iter >= NEWTON_STEPS else max_iter - n_iter[b]
        while True:
            worst = _scale_rows(M, used_rows, used_cols, Rs, Cs, P, gap, paired)
            for j in range(Cs):
                q[j] = v[j] - u[j] if paired else gap[j]
            factorize_laplacian(P, u, Rs, Cs, paired, graph)
            solve_laplacian(graph, Cs, paired)
            low, high = 0.0, 0.0
            for j in range(Cs):
                low, high = min(low, d[j]), max(high, d[j])
            before, width = width, high - low
            there = worst <= target and width <= FINE_WIDTH
            stalls += has_stalled(width, before)
            if not width < np.inf or there or stalls > MOST_STALLS or steps >= most:
                break
            if steps == 0 and fits and width <= 0.1 * MOST_CELL_ERROR:
                break  # accurate already
            length = damped_step(width)
            for j in range(Cs):
                y[j] *= np.exp(length * (d[j] - 0.5 * (low + high)))
            steps += 1
        good = width < np.inf
        if good and steps > 0:
            n_iter[b] += steps
            missed, line_error[b] = _measure_residual(P, u, v, Rs, Cs)
            residual[b] = missed / U
            fits = residual[b] <= bound and line_error[b] <= line_bound(bound)
            mean = _compute_mean_log2(used_cols, Cs) if flip else _compute_mean_log2(used_rows, Rs)
            out_row[b], out_col[b] = 0.0, 0.0
            if flip:
                good = _write_factors(used_rows, Rs, mean, out_col[b])
                good = _write_factors(used_cols, Cs, -mean, out_row[b]) and good
            else:
                good = _write_factors(used_rows, Rs, -mean, out_row[b])
                good = _write_factors(used_cols, Cs, mean, out_col[b]) and good
            if out.shape[0] > 0:
                for place in range(R * C):
                    out[b, place] = 0.0
                for i in range(Rs):
                    for j in range(Cs):
                        out[b, _compute_position(used_rows.index[i], used_cols.index[j], C, flip)] = P[i, j]
        if not good:
            status[b] = RANGE
            residual[b], line_error[b] = np.nan, np.nan
            out_row[b], out_col[b] = np.nan, np.nan
            if out.shape[0] > 0:
                out[b] = np.nan
        elif fits:
            moved = width
            if not width > MOST_CELL_ERROR:
                if not paired and Rs >= MIN_ROWS_PER_COLUMN * Cs:
                    moved = bound_errors_of_many_rows(P, u, v, Rs, Cs, graph, spare)
                else:
                    moved = bound_errors(P, u, v, Rs, Cs, paired, graph, spare)
            status[b] = OK if moved <= MOST_CELL_ERROR else UNDETERMINED
        else:
            status[b] = MAX_ITER


@jit(inner=True, borrows=True)
def _count_used(targets):
    """Return the number of positive targets."""
    used = 0
    for i in range(targets.shape[0]):
        used += targets[i] > 0.0
    return used


@jit(inner=True, borrows=True)
def _sum_targets(targets):
    """Return the sum of the targets, in order."""
    total = 0.0
    for i in range(targets.shape[0]):
        total += targets[i]
    return total


@jit(inner=True, borrows=True)
def _have_equal_sums(rows, cols):
    """Test whether row and column targets have the same sum in doubled precision (Knuth's two-sum)."""
    high, low = 0.0, 0.0
    for i in range(rows.shape[0] + cols.shape[0]):
        t = rows[i] if i < rows.shape[0] else -cols[i - rows.shape[0]]
        total = high + t
        part = total - high
        low += (high - (total - part)) + (t - part)
        high = total
    return high + low == 0.0


@jit(inner=True, borrows=True)
def _load_marginal(targets, factors, ratio, used):
    """Copy the positive targets times `ratio`, and their factors as fractions and powers of two.

    Return their number.
    """
    n = 0
    for i in range(targets.shape[0]):
        if targets[i] > 0.0:
            used.index[n], used.targets[n] = i, targets[i] * ratio
            used.factors[n], used.powers[n] = math.frexp(factors[i])
            n += 1
    return n


@jit(inner=True, borrows=True)
def _sort_columns(cols, n):
    """Sort columns by decreasing target, so that the column with the largest target of every block is grounded."""
    index, v, y, powers = cols
    for j in range(1, n):
        for i in range(j, 0, -1):
            if not v[i] > v[i - 1]:
                break
            v[i], v[i - 1] = v[i - 1], v[i]
            y[i], y[i - 1] = y[i - 1], y[i]
            index[i], index[i - 1] = index[i - 1], index[i]
            powers[i], powers[i - 1] = powers[i - 1], powers[i]


@jit(inner=True, inline=True, borrows=True)
def _compute_position(row, col, C, flip):
    """Return the flat position of a cell in a matrix of C columns, with rows and columns swapped if `flip`."""
    return col * C + row if flip else row * C + col


@jit(inner=True, borrows=True)
def _set_equilibrated_start(cells, C, flip, n, k, rows, cols):
    """Set initial factors, powers of two, that make the largest cell of every row and every column about one."""
    for j in range(k):
        most = -100000
        for i in range(n):
            cell = cells[_compute_position(rows.index[i], cols.index[j], C, flip)]
            if cell > 0.0:
                most = max(most, math.frexp(cell)[1])
        cols.powers[j], cols.factors[j] = -most, 1.0
    for i in range(n):
        most = -100000
        for j in range(k):
            cell = cells[_compute_position(rows.index[i], cols.index[j], C, flip)]
            if cell > 0.0:
                most = max(most, math.frexp(cell)[1] + cols.powers[j])
        rows.powers[i], rows.factors[i] = -most, 1.0


@jit(inner=True, borrows=True)
def _load_cells(cells, C, flip, n, k, rows, cols, M):
    """Copy the cells of rows and columns with positive targets, times the powers of two of their factors."""
    for i in range(n):
        for j in range(k):
            place = _compute_position(rows.index[i], cols.index[j], C, flip)
            M[i, j] = math.ldexp(cells[place], int(rows.powers[i] + cols.powers[j]))


@jit(inner=True, borrows=True)
def _pair_rows(M, rows, y, n, spare, new):
    """Permute rows so that each row's largest scaled cell is on the diagonal, in place.

    Return False where two share one.
    """
    row_of, u, x, row_power = rows
    for j in range(n):
        new[j] = -1.0
    for i in range(n):
        best = 0
        for j in range(n):
            if M[i, j] * y[j] > M[i, best] * y[best]:
                best = j
        if new[best] >= 0.0:
            return False
        new[best] = i
    for i in range(n):
        source = int(new[i])
        for j in range(n):
            spare[i, j] = M[source, j]
    for i in range(n):
        for j in range(n):
            M[i, j] = spare[i, j]
    for i in range(n):
        source = int(new[i])
        spare[i, 0] = u[source]
        if n > 1:
            spare[i, 1] = x[source]
    for i in range(n):
        u[i] = spare[i, 0]
        if n > 1:
            x[i] = spare[i, 1]
    for i in range(n):
        spare[i, 0] = row_of[int(new[i])]
        if n > 1:
            spare[i, 1] = row_power[int(new[i])]
    for i in range(n):
        row_of[i] = int(spare[i, 0])
        if n > 1:
            row_power[i] = int(spare[i, 1])
    return True


@jit(inner=True, borrows=True)
def _scale_rows(M, rows, cols, n, k, P, gap, paired):
    """Scale the rows to their targets.

    Store scaled cells and column gaps, return the largest relative error of a column.
    """
    u, x, v, y = rows.targets, rows.factors, cols.targets, cols.factors
    for j in range(k):
        gap[j] = v[j] - u[j] if paired else v[j]
    for i in range(n):
        rest = 0.0
        for j in range(k):
            if not (paired and i == j):
                rest += M[i, j] * y[j]
        own = M[i, i] * y[i] if paired else 0.0
        x[i] = u[i] / (rest + own)
        for j in range(k):
            P[i, j] = x[i] * (M[i, j] * y[j])
    for j in range(k):
        row, col = 0.0, 0.0
        for i in range(n):
            if not (paired and i == j):
                col += P[i, j]
        if paired:
            for i in range(k):
                if i != j:
                    row += P[j, i]
        gap[j] += row - col
    worst = 0.0
    for j in range(k):
        worst = max(worst, abs(gap[j]) / v[j])
    return worst


@jit(inner=True, borrows=True)
def factorize_laplacian(P, u, n, k, paired, graph):
    """Factorise the graph Laplacian of the columns without subtractions (Grassmann, Taksar, Heyman), with its flows.

    Columns are eliminated from the last to the first. Stores weights below the diagonal, multipliers above it, and
    flows as they are at their elimination.
    """
    W, F, r = graph.weights, graph.flows, graph.reciprocals
    for j in range(k):
        for i in range(j):
            W[j, i] = 0.0
            F[j, i] = P[j, i] - P[i, j] if paired else 0.0
    for i in range(n):
        for j in range(k):
            part = P[i, j] / u[i]
            for m in range(j):
                W[j, m] += part * P[i, m]
    for p in range(k - 1, 0, -1):
        total = 0.0
        for j in range(p):
            total += W[p, j]
        r[p] = 1.0 / total if total >= NORMAL else 0.0
        for j in range(p):
            W[j, p] = W[p, j] * r[p]
        for j in range(1, p):
            share, flow = W[j, p], F[p, j]
            for i in range(j):
                W[j, i] += share * W[p, i]
                if paired:
                    F[j, i] += share * F[p, i] - W[i, p] * flow


@jit(inner=True, borrows=True)
def solve_laplacian(graph, k, flows):
    """Solve L d = q (plus the flows, if `flows`) by the factorisation, first column of a block grounded.

    Overwrites `q`.
    """
    W, F, r, q, d = graph
    d[0] = 0.0
    for p in range(k - 1, 0, -1):
        d[p] = q[p]
        for j in range(p):
            q[j] += W[j, p] * q[p]
            if flows:
                d[p] += F[p, j]
    for p in range(1, k):
        total = d[p] * r[p]
        for j in range(1, p):
            total += W[j, p] * d[j]
        d[p] = total


@jit(inner=True, borrows=True)
def _measure_residual(P, u, v, n, k):
    """Return the sum of the absolute errors of all rows and columns, and the largest relative error of one."""
    missed, worst = 0.0, 0.0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += P[i, j]
        missed += abs(total - u[i])
        worst = max(worst, abs(total - u[i]) / u[i])
    for j in range(k):
        total = 0.0
        for i in range(n):
            total += P[i, j]
        missed += abs(total - v[j])
        worst = max(worst, abs(total - v[j]) / v[j])
    return missed, worst


@jit(inner=True, borrows=True)
def bound_errors(P, u, v, n, k, paired, graph, error):
    """Return the largest relative change of a cell that rounding the targets and their sums could cause.

    It is the sum of the changes by all targets. Between paired rows and columns only differences of targets are
    rounded.
    """
    q, d = graph.right, graph.solution
    for i in range(n):
        for j in range(k):
            error[i, j] = 0.0
    for source in range(1, k + (0 if paired else n)):
        row = source - k
        for j in range(k):
            q[j] = -LINE_ROUNDING * P[row, j] if row >= 0 else 0.0
        if row < 0:
            q[source] = LINE_ROUNDING * (abs(v[source] - u[source]) if paired else v[source])
        solve_laplacian(graph, k, False)
        for i in range(n):
            mean = 0.0
            for j in range(k):
                mean += P[i, j] * d[j]
            mean = (LINE_ROUNDING if i == row else 0.0) - mean / u[i]
            for j in range(k):
                error[i, j] += abs(mean + d[j])
    moved = 0.0
    for i in range(n):
        for j in range(k):
            if P[i, j] > 0.0 and not error[i, j] <= moved:
                moved = error[i, j]
    return moved


@jit(inner=True, borrows=True)
def bound_errors_of_many_rows(P, u, v, n, k, graph, apart):
    """Return an upper bound of the result of `bound_errors` in n k^2 instead of n^2 k operations.

    A cell's relative change is the mean, weighted by the shares of its row, of how much its column's change differs
    from the other columns': so it suffices to sum over all targets how far every two columns move apart.
    """
    q, d = graph.right, graph.solution
    for j in range(k):
        for m in range(k):
            apart[j, m] = 0.0
    for source in range(1, k + n):
        row = source - k
        for j in range(k):
            q[j] = -LINE_ROUNDING * P[row, j] if row >= 0 else 0.0
        if row < 0:
            q[source] = LINE_ROUNDING * v[source]
        solve_laplacian(graph, k, False)
        for j in range(k):
            for m in range(k):
                apart[j, m] += abs(d[j] - d[m])
    moved = 0.0
    for i in range(n):
        for j in range(k):
            error = 0.0
            for m in range(k):
                error += P[i, m] * apart[j, m]
            error = LINE_ROUNDING + error / u[i]
            if P[i, j] > 0.0 and not error <= moved:
                moved = error
    return moved


@jit(inner=True, borrows=True)
def _compute_mean_log2(used, n):
    """Return log2 of the geometric mean of the factors."""
    total = 0.0
    for i in range(n):
        total += np.log2(used.factors[i]) + used.powers[i]
    return total / n


@jit(inner=True, borrows=True)
def _write_factors(used, n, change, out):
    """Write the factors times 2**change; return whether all stay positive and finite."""
    whole = np.floor(change)
    part, good = 2.0 ** (change - whole), True
    for i in range(n):
        found = math.ldexp(used.factors[i] * part, int(used.powers[i] + whole))
        good = good and 0.0 < found < np.inf
        out[used.index[i]] = found
    return good
