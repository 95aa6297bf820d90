"""Eight small positive tables scaled together, one in each SIMD lane; no sum crosses lanes.

So a table has the same bits in any batch. Tables that need the general path are left to `launch.py`: those with a cell
or a target that is not positive, with margins that do not agree, or that need many steps.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    absolute,
    fma,
    load,
    new_lines,
    some,
    splat,
    store,
    store_block,
    store_elements,
    store_narrow,
    where,
)
from cmfast.kernels.cpu._core.vector_functions import exp, log, offset_lanes
from cmfast.kernels.cpu.margins.tables import lanes_plan as plan
from cmfast.kernels.cpu.margins.tables.lanes_newton import estimate_cell_errors, run_newton
from cmfast.kernels.cpu.margins.tables.lanes_setup import exchange_coordinates, load_tables, scale_cells, sweep
from cmfast.kernels.shared.margins import MOST_PRODUCT
from cmfast.kernels.shared.scaling import PLAIN_SWEEPS
from cmfast.kernels.status import OK

NOT_SOLVED = -1  # status of a table that is left to the general path
CELL_ERROR_PER_MARGIN_ERROR = 1000.0  # assumed bound; small marginals that others imply lose most digits
MAX_LANE_CELL_ERROR = 1e-8  # error of a cell above which the general path scales the table


@jit()
def scale_lanes(given, rules, out, p, start, stop):
    """Scale the regular tables from `start` to before `stop` in SIMD lanes; all others get the status NOT_SOLVED."""
    S = new_lines(p.size)
    for first in range(start, stop, WIDTH):
        last = min(first + WIDTH, stop) - 1
        cells, wanted = offset_lanes(first, last, given.cells_step), offset_lanes(first, last, given.wanted_step)
        load_tables(p, S, given.cells, cells, given.wanted, wanted, rules.smoothing)
        for k in range(p.factors, p.factors + p.n_lines):
            store(S, k, splat(1.0))
        if some(load(S, plan.REGULAR) != 0.0):
            _scale_tables(p, S, rules.tol, rules.last_width, rules.max_iter)
        _write_results(p, S, out, first, last)


@jit(inner=True, borrows=True)
def _scale_tables(p, S, tol, last_width, most):
    """Scale eight tables by a few sweeps and Newton's method, and measure their errors."""
    scale_cells(p, S)
    for _ in range(PLAIN_SWEEPS):
        sweep(p, S)
    run_newton(p, S, tol, last_width, 1 + PLAIN_SWEEPS * p.lines.shape[1], most)
    estimate_cell_errors(p, S)
    _measure_and_normalize(p, S, tol)


@jit(inner=True, borrows=True)
def _measure_and_normalize(p, S, tol):
    """Measure the residuals of the scaled tables again and normalise the factors; inaccurate lanes become irregular."""
    good = load(S, plan.REGULAR) != 0.0
    for k in range(p.sums, p.sums + p.n_lines):
        store(S, k, splat(0.0))
    for c in range(p.n_cells):
        x = load(S, p.x + p.places[c])
        good = good & (x > 0.0) & (x < np.inf)
        for b in range(p.lines.shape[1]):
            to = p.sums + p.lines[c, b]
            store(S, to, load(S, to) + x)
    worst, error = splat(0.0), load(S, plan.ERROR)
    for b in range(len(p.offsets) - 1):
        missed = splat(0.0)
        for k in range(p.offsets[b], p.offsets[b + 1]):
            own = absolute(load(S, p.sums + k) - load(S, p.targets + k))
            part = CELL_ERROR_PER_MARGIN_ERROR * own / load(S, p.targets + k)
            missed, error = missed + own, where(part > error, part, error)
        missed = missed / load(S, p.totals + b)
        good = good & (missed <= tol)
        worst = where(missed > worst, missed, worst)
    store(S, plan.RESIDUAL, worst)
    store(S, plan.ERROR, error)
    good = good & (error <= MAX_LANE_CELL_ERROR) & _find_safe_lanes(p, S)
    for k in range(p.n_lines):
        store(S, p.step + k, log(load(S, p.factors + k)))
    whole = p.n_lines - p.n_lines % 4
    for k in range(0, whole, 4):
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for j in range(p.n_lines):
            y = load(S, p.step + j)
            a, b = fma(p.gauge[k, j], y, a), fma(p.gauge[k + 1, j], y, b)
            c, d = fma(p.gauge[k + 2, j], y, c), fma(p.gauge[k + 3, j], y, d)
        store(S, p.factors + k, a)
        store(S, p.factors + k + 1, b)
        store(S, p.factors + k + 2, c)
        store(S, p.factors + k + 3, d)
    for k in range(whole, p.n_lines):
        a = splat(0.0)
        for j in range(p.n_lines):
            a = fma(p.gauge[k, j], load(S, p.step + j), a)
        store(S, p.factors + k, a)
    for k in range(p.factors, p.factors + p.n_lines):
        factor = exp(load(S, k))
        good = good & (factor > 0.0) & (factor < np.inf)
        store(S, k, factor)
    exchange_coordinates(p, S, p.x, True)
    exchange_coordinates(p, S, p.factors, False)
    exchange_coordinates(p, S, p.sums, False)
    store(S, plan.REGULAR, where(good, 1.0, splat(0.0)))


@jit(inner=True, borrows=True)
def _find_safe_lanes(p, S):
    """Return the lanes in which no product of a cell and any of its factors can leave the float64 range."""
    low, high = splat(1.0), splat(1.0)
    for k in range(p.q, p.q + p.n_cells):
        cell = load(S, k)
        low, high = where(cell < low, cell, low), where(cell > high, cell, high)
    for b in range(len(p.offsets) - 1):
        least, most = splat(1.0), splat(1.0)
        for k in range(p.factors + p.offsets[b], p.factors + p.offsets[b + 1]):
            factor = load(S, k)
            least, most = where(factor < least, factor, least), where(factor > most, factor, most)
        low, high = low * least, high * most
    return (low > 1.0 / MOST_PRODUCT) & (high < MOST_PRODUCT)


@jit(inner=True, borrows=True)
def _write_results(p, S, out, first, last):
    """Write the results of eight lanes to the tables `first` to `last`."""
    good = load(S, plan.REGULAR) != 0.0
    status = where(good, float(OK), splat(float(NOT_SOLVED)))
    if first + WIDTH - 1 == last:
        _write_rows(S, p.x, out.table, first, p.n_cells)
        _write_rows(S, p.factors, out.factors, first, p.n_lines)
        _write_rows(S, p.sums, out.achieved, first, p.n_lines)
        store_elements(out.residual, first, load(S, plan.RESIDUAL))
        store_elements(out.error, first, load(S, plan.ERROR))
        store_elements(out.n_iter, first, load(S, plan.N_ITER))
        store_elements(out.status, first, status)
        return
    store(S, plan.ACTIVE, status)
    for k in range(first, last + 1):
        w = k - first
        for c in range(p.n_cells):
            out.table[k, c] = S[p.x + c, w]
        for c in range(p.n_lines):
            out.factors[k, c], out.achieved[k, c] = S[p.factors + c, w], S[p.sums + c, w]
        out.residual[k], out.error[k] = S[plan.RESIDUAL, w], S[plan.ERROR, w]
        out.n_iter[k], out.status[k] = int(S[plan.N_ITER, w]), int(S[plan.ACTIVE, w])


@jit(inner=True, inline=True, borrows=True)
def _write_rows(S, start, a, first, n):
    """Write `n` SIMD lines from line `start` on to eight rows of `a`."""
    if n < WIDTH:
        store_narrow(S, start, a, first, n)
    else:
        for k in range(0, n, WIDTH):
            c = min(k, n - WIDTH)
            store_block(S, start + c, a, first, c)
