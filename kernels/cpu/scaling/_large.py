"""One large matrix at a time, rows shared between threads: sweeps while they are quick, then Newton's method.

Newton's equations are solved by elimination for a few hundred classes and by conjugate gradients beyond. What small
cells may hide behind the residual is bounded by the smallest scaled cell, or resolved by elimination.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.scaling import _large_passes, _rules
from cmfast.kernels.cpu.scaling._large_elimination import dense_step
from cmfast.kernels.cpu.scaling._large_passes import Matrix, Sums
from cmfast.kernels.cpu.scaling._range_pairing import pair_and_balance_slowly
from cmfast.kernels.shared.scaling import (
    DENSE,
    NOISE,
    PAIRED_SWEEPS,
    PATIENT_SWEEPS,
    RESCUE,
    ROUNDING,
    SAFE_WIDTH,
    SPAN,
    TRIAL_WIDTH,
    VAST,
    WIDE,
    pseudo_bayes,
)
from cmfast.kernels.status import INVALID, MAX_ITER, OK, RANGE, ZERO_LINE

BLOCK_CELLS = 1 << 17  # cells of a block of rows, at least
MAX_BLOCKS = 64
SECONDS_PER_CELL = 1e-9
MOMENT = 1 << 27  # cells that a kernel goes through before it asks whether to go on: some tens of ms


class _Lost(Exception):  # noqa: N818 (an answer, not an error)
    """A factor or a sum left the range of float64."""


class _Rows:
    """A matrix, its targets, and how passes over its rows are cut and added up."""

    def __init__(self, M, u, v, num_threads):
        R, C = M.shape
        self.matrix, self.total = Matrix(M, u, v), u.sum()
        rows = max(-(-R // MAX_BLOCKS), BLOCK_CELLS // C, 1)
        self.blocks = -(-R // rows)
        self.sums = Sums(np.empty((self.blocks, C)), np.empty(self.blocks), rows)
        self.num_threads = num_threads

    def run(self, kernel, *args):
        """Run a pass; return the column sums."""
        pool.checkpoint()
        seconds = self.matrix.cells.size * SECONDS_PER_CELL
        pool.run(kernel, (self.matrix, *args), self.blocks, seconds=seconds, num_threads=self.num_threads)
        return self.sums.cols.sum(0)

    def column_sums(self, x):
        """Return x @ M with the same bits for any number of threads, which a BLAS does not promise."""
        C = len(self.matrix.v)
        return self.run(_large_passes.measure, x, np.ones(C), self.sums, np.empty((0, C)))

    def hidden(self, x, y, last_width):
        """Return the residual at which no flow between two sets of lines is wrong by more than `last_width`.

        Every such flow goes through at least one positive cell; without zeros through one of nearly every line.
        """
        low, zero = _large_passes.smallest(self.matrix.cells, x, y)
        return last_width * low * (1 if zero else max(1, min(self.matrix.cells.shape) - 1)) / self.total

    def sweeps(self, x, last, y, k, rule):
        """Do what the kernel of this name does, all of it, with the rows of a large matrix shared between threads.

        Return how many sweeps it was, the residual, and whether it was given up.
        """
        before, most = np.inf, max(1, MOMENT // self.matrix.cells.size)
        while self.blocks == 1:
            found = _large_passes.sweeps(self.matrix, x, last, y, self.sums, (k, before), rule, most)
            k, residual, before, slow, ended = found
            if ended:
                return k, residual, slow
            pool.checkpoint()
        while True:
            last[:] = x
            sums = self.run(_large_passes.sweep, x, y, self.sums)
            residual = self.sums.missed.sum() / self.total
            if _large_passes.ended(k, residual, before, rule):
                return k, residual, False
            if _large_passes.slow(k, residual, before, rule):
                return k, residual, True
            before = residual if k > 0 else np.inf
            y[:] = self.matrix.v / sums
            k += 1


def scale(p, num_threads):
    """Scale the matrices of a problem one by one."""
    target, still, bound = p.goals
    rule = _Rule(p.plain, p.tol, target, still, bound, p.last_width, p.max_iter)
    for b in range(p.n):
        given = p.cells[b * p.m_step].reshape(p.R, p.C)
        targets = _line(p.row_sums, b).copy(), _line(p.col_sums, b).copy()
        starts = [_line(lines, b) if lines.values.shape[1] else None for lines in (p.start_row, p.start_col)]
        scaled = p.out[b].reshape(p.R, p.C) if len(p.out) else np.empty((0, p.C))
        with np.errstate(all="ignore"):  # what goes wrong ends as a status
            answer = _scale_one(given, targets, starts, p.amount, p.drop and p.bi, rule, scaled, num_threads)
        p.out_row[b], p.out_col[b], p.residual[b], p.n_iter[b], p.status[b], p.smoothing[b] = answer
        if answer.status > MAX_ITER:
            p.out_row[b], p.out_col[b], p.residual[b] = np.nan, np.nan, np.nan
            scaled[:] = np.nan


def _line(lines, b):
    """Return targets or factors of one matrix."""
    return lines.values[b * lines.step]


class _Rule(NamedTuple):
    """When to stop; see :mod:`cmfast.kernels.shared.scaling`."""

    plain: bool
    tol: float
    target: float
    still: float
    bound: float
    last_width: float
    max_iter: int


class _Answer(NamedTuple):
    x: np.ndarray | float
    y: np.ndarray | float
    residual: float
    n_iter: int
    status: int
    smoothing: float


def _scale_one(M, targets, starts, smoothing, drop, rule, out, num_threads):
    plain = rule.plain
    low, high, zero, bad = _large_passes.survey(M)
    amount = max(smoothing, 0.0)
    if bad:
        return _failed(INVALID, amount)
    if smoothing > 0.0:
        M, low, high, zero = M + smoothing, smoothing if zero else low + smoothing, high + smoothing, False
    elif smoothing < 0.0:
        M, amount = pseudo_bayes(M, high)
        low, high, zero, _ = _large_passes.survey(M)
    u, v = targets
    status, u, v = _rules.check_targets(M, u, v, zero, drop)
    if status != OK:
        return _failed(status, amount)
    keep = (u > 0.0, v > 0.0)
    whole = keep[0].all() and keep[1].all()
    part = M if whole else np.ascontiguousarray(M[np.ix_(*keep)])
    if part.size == 0:
        out[:] = 0.0
        return _Answer(np.zeros_like(u), np.zeros_like(v), 0.0, 1, OK, amount)
    if zero and _rules.has_empty_line(part):
        return _failed(ZERO_LINE, amount)
    if not whole:
        low, high, *_ = _large_passes.survey(part)
    part, powers, order = _bring_near(part, low, high, plain)
    starts = [a if a is None else a[k] for a, k in zip(starts, keep, strict=True)]
    first_x, first_y = _scaled_starts(starts, powers)
    if plain and powers and first_x is None and first_y is None:
        first_y = np.ldexp(1.0, powers[1])  # sweeps of the input begin with ones
    problem = _Rows(part, u[keep[0]], v[keep[1]], num_threads)
    x, y, n_iter, status = _solve(problem, first_x, first_y, order, rule)
    if status > MAX_ITER:
        return _failed(status, amount, n_iter)
    x, y = _rules.gauge(x, y, powers)
    small = np.zeros((0, part.shape[1])) if len(out) == 0 else out if whole else np.empty_like(part)
    sums = problem.run(_large_passes.measure, x[0], y[0], problem.sums, small)
    residual = (problem.sums.missed.sum() + abs(sums - problem.matrix.v).sum()) / problem.total
    row, col = np.zeros_like(u), np.zeros_like(v)
    row[keep[0]], col[keep[1]] = np.ldexp(x[0], x[1]), np.ldexp(y[0], y[1])
    for factors, k in ((row, keep[0]), (col, keep[1])):
        if not ((factors[k] > 0.0) & (factors[k] < np.inf)).all():
            return _failed(RANGE, amount, n_iter)
    if not whole and len(out):
        out[:] = 0.0
        out[np.ix_(*keep)] = small
    if not residual < np.inf:
        return _failed(RANGE, amount, n_iter)
    # What was stopped fits by its sums alone; that is enough for sweeps.
    fits = residual <= (rule.bound if status == OK else rule.tol if plain else -np.inf)
    return _Answer(row, col, residual, n_iter, OK if fits else MAX_ITER, amount)


def _failed(status, amount, n_iter=0):
    return _Answer(np.nan, np.nan, np.nan, n_iter, status, amount)


def _bring_near(M, low, high, plain):
    """Take powers of two out of cells that span too much; return the rest, these powers and a pairing, if any."""
    R, C = M.shape
    far = low < 1.0 / WIDE or high > WIDE or high > VAST * low
    if R == C and not plain and (far or (high > SPAN * low and not _large_passes.dominates(M))):
        order, row, col = np.empty(C, np.int64), np.empty(C), np.empty(C)
        if pair_and_balance_slowly(np.log2(M), order, row, col):
            row, col = row.astype(np.int64), col.astype(np.int64)
            return np.ldexp(M, -row[:, None] - col), (row, col), order
    if low < 1.0 / WIDE or high > WIDE:
        return *_rules.equilibrate(M), None
    return M, None, None


def _scaled_starts(starts, powers):
    found = []
    for k, factors in enumerate(starts):
        good = factors is not None and bool(((factors > 0.0) & (factors < np.inf)).all())
        found.append((np.ldexp(factors, powers[k]) if powers else factors.copy()) if good else None)
    return found


def _solve(problem, start_x, start_y, order, rule):
    """Return row factors, column factors, passes and a status, for targets that are all positive."""
    M, u, v = problem.matrix
    flip = len(u) < len(v) and not rule.plain  # Newton's unknowns belong on the shorter side
    if flip:
        problem = _Rows(np.ascontiguousarray(M.T), v, u, problem.num_threads)
        u, v, start_x, start_y = v, u, start_y, start_x
    y, warm = start_y, start_x is not None or start_y is not None
    if y is None:
        y = np.ones(len(v)) if start_x is None else v / problem.column_sums(start_x)
    try:
        x, y, n_iter, status = _sweep(problem, y, rule)
        if status is None:
            x, y, n_iter, status = _newton(problem, x, y, rule, n_iter, order, warm)
    except _Lost:
        x, y, n_iter, status = np.nan, np.nan, 0, RANGE
    return (y, x, n_iter, status) if flip else (x, y, n_iter, status)


def _sweep(problem, y, rule):
    """Row step, then column step (Erbani et al., algorithm 2); without `plain`, give up where it would be slow.

    The status is None then.
    """
    x = np.zeros(len(problem.matrix.u))
    last, y = np.empty_like(x), np.array(y)
    plain, target, still = rule.plain, rule.target, rule.still
    sweeping = _large_passes.Rule(target, still, rule.max_iter, np.inf if plain else float(PATIENT_SWEEPS))
    k, residual, slow = problem.sweeps(x, last, y, 0, sweeping)
    if not (plain or slow) and residual <= target:
        hidden = problem.hidden(last, y, rule.last_width)
        if hidden < ROUNDING:
            return last, y, k, None
        if residual > hidden:
            x = last.copy()
            k, residual, slow = problem.sweeps(x, last, y, k, sweeping._replace(target=min(target, hidden)))
    if not residual < np.inf:
        raise _Lost
    return last, y, k, None if slow else OK if residual <= max(target, still) else MAX_ITER


def _newton(problem, x, y, rule, n_iter, order, warm):
    """Newton's method on the dual; the factors it starts from are those of the sweeps."""
    order = _pairing(problem, y) if order is None else order
    paired = order is not None
    if paired:
        problem, y = _paired_start(problem, x, y, order, warm)
        n_iter += PAIRED_SWEEPS
    _, u, v = problem.matrix
    R, C = len(u), len(v)
    x, off = np.empty(R), np.zeros(R)
    rho, rho_before, dense, trial = np.inf, np.inf, C <= DENSE, None
    hidden, status = None, MAX_ITER
    while True:
        sums = problem.run(_large_passes.row_pass, x, y, off, problem.sums, paired)
        g = (v - u) + (off - sums) if paired else v - sums
        residual = abs(g).sum() / problem.total
        if not residual < np.inf:
            raise _Lost
        if trial is not None:
            origin, d, width, slope = trial
            safe = max(SAFE_WIDTH, math.log1p(rho)) / rho
            if width > safe and -(g @ d) > 0.5 * slope:
                width = max(0.3 * width, safe)
                y = origin * np.exp(width * d)
                trial = origin, d, width, slope
                n_iter += 1
                continue
            trial = None
        stalled = rho < 0.1 and rho >= 0.5 * rho_before
        if (residual <= rule.target and (rho <= rule.last_width or stalled)) or (residual <= rule.still and stalled):
            if hidden is None:
                hidden = problem.hidden(x, y, rule.last_width)
            worn = stalled or residual <= NOISE  # conjugate gradients can do no more
            if dense or residual <= hidden >= ROUNDING or (worn and C > RESCUE):
                status = OK
                break
            dense = worn
        if n_iter >= rule.max_iter:
            break
        d, passes, dense = _direction(problem, x, y, g, residual, paired, dense)
        n_iter += 1 + passes
        rho_before, rho = rho, d.max() - d.min()
        if not rho < np.inf:
            raise _Lost
        d = d - 0.5 * (d.max() + d.min())  # keep the factors centred
        width = 1.0 if rho <= SAFE_WIDTH else min(1.0, TRIAL_WIDTH / rho)
        if rho > SAFE_WIDTH:
            trial = y, d, width, abs(g @ d)
        y = y * np.exp(width * d)
    if paired:
        back = np.empty_like(y)
        back[order] = y
        y = back
    return x, y, n_iter, status


def _paired_start(problem, x, y, order, warm):
    """Bring the column paired with each row to its place; return that problem and the column factors."""
    M, u, v = problem.matrix
    v = v[order]
    if (order != np.arange(len(order))).any():
        M = np.ascontiguousarray(M[:, order])
    y = y[order]
    if not warm:
        middle = M.diagonal()
        x, y = np.sqrt(u / middle), np.sqrt(v / middle)
    problem = _Rows(M, u, v, problem.num_threads)
    for _ in range(PAIRED_SWEEPS):
        _large_passes.paired_sweep(problem.matrix, x, y)
    return problem, y


def _pairing(problem, y):
    """Return the column paired with each row, or None.

    The diagonal where it dominates, else the largest scaled cells, else the diagonal if it is positive.
    """
    M = problem.matrix.cells
    R, C = M.shape
    if R != C:
        return None
    if _large_passes.dominates(M):
        return np.arange(C)
    order = np.empty(R, np.int64)
    _large_passes.largest_of_rows(M, y, order)
    if len(np.unique(order)) == C:
        return order
    return np.arange(C) if (M.diagonal() > 0.0).all() else None


def _direction(problem, x, y, g, residual, paired, dense):
    """Return the Newton step, how many products it took, and whether elimination is to be used from now on."""
    C = len(g)
    if not dense:
        d, products = _conjugate_gradients(problem, x, y, g, residual, paired)
        if d is not None:
            return d, products, False
    d = np.empty(C)
    M, u, v = problem.matrix
    q = v - u if paired else g.copy()
    dense_step(M, u, x, y, q, paired, d)
    return d, 0, True


def _conjugate_gradients(problem, x, y, g, residual, paired):
    """Solve L d = g roughly; None where elimination would be quicker."""
    C = len(g)
    scale = problem.run(_large_passes.diagonal, x, y, problem.sums, paired)
    scale = np.where(scale > 0.0, scale, 1.0)
    goal = min(0.1, math.sqrt(residual)) * abs(g).sum()
    most = C // 3 if C <= RESCUE else 4 * C
    d, r = np.zeros(C), g - g.mean()
    z = r / scale
    p, rz = z, r @ z
    for k in range(1, most + 1):
        Lp = problem.run(_large_passes.product, x, y, p, problem.sums, paired)
        curvature = p @ Lp
        if not curvature > 0.0:
            break
        alpha = rz / curvature
        d = d + alpha * p
        r = r - alpha * Lp
        if abs(r).sum() <= goal:
            return d, k
        z = r / scale
        rz, rz_before = r @ z, rz
        p = z + (rz / rz_before) * p
    return (None, 0) if C <= RESCUE else (d, most)
