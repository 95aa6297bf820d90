"""Delta-method standard errors of metrics, from exact derivatives in every cell.

To first order the variance of a function of multinomial counts is the sum over cells of ``M (g - mean)**2``, with the
derivatives ``g`` (``kernels/cpu/metrics/_gradients.py``) and their mean over the samples; with fixed rows, each row has
its own mean.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, floor, fma, load, splat, sqrt, store, store_row, where
from cmfast.kernels.cpu.metrics import _gradients, _margins, _second_pass, values
from cmfast.kernels.cpu.metrics._margins import FIRST, MOST_TRANSPOSED, STATUS_LINE, SUMS, TOTAL_LINE, transpose_cells
from cmfast.kernels.shared.metrics import ORDERED, Plan, Step, count_slope_lines, shape_results
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_SLOPE = 4e-10  # per register and cell
SLOPE_BYTES = 2**19  # derivatives in memory at a time: half of a level-2 cache; their matrices need the rest


@jit()
def _round_huge(sums, C):
    """Convert int64 sums of HUGE matrices to the nearest float64, in place."""
    whole = sums.view(np.int64)
    for at in range(0, len(sums), FIRST + SUMS * C):
        for w in range(WIDTH):
            if sums[at + STATUS_LINE, w] == _margins.HUGE:
                sums[at + STATUS_LINE, w] = OK
                sums[at + TOTAL_LINE, w] = whole[at + TOTAL_LINE, w]
                for k in range(at + FIRST, at + FIRST + SUMS * C):
                    sums[k, w] = whole[k, w]


@jit(borrows=True)
def _differentiate(sums, C, size, plan, shaped, S, G, T):
    """Write the derivatives of every tile, `size` lines per register, centred to mean zero over the samples."""
    plan = Plan(*plan)
    registers, tables = plan.registers * size, plan.tables * C * 4
    for tile in range(len(sums) // (FIRST + SUMS * C)):
        at = tile * (FIRST + SUMS * C)
        G_of, T_of = G[tile * registers : (tile + 1) * registers], T[tile * tables : (tile + 1) * tables]
        _gradients.differentiate(plan, sums, at, C, size, S, G_of, T_of)
        for register in range(plan.scalars):  # centring avoids cancellation in the variance
            row, mean = register * size, splat(0.0)
            for k in range(C):  # separate products shorten the dependency chain
                d = load(G_of, row + k) * load(sums, at + FIRST + k)
                t = load(G_of, row + C + k) * load(sums, at + FIRST + C + k)
                p = load(G_of, row + 2 * C + k) * load(sums, at + FIRST + 2 * C + k)
                mean = mean + (d + (t + p))
            for line in range(3 * C, SUMS * C if shaped[register] else 3 * C):
                mean = mean + load(G_of, row + line) * load(sums, at + FIRST + line)
            mean = mean / load(sums, at + TOTAL_LINE)
            end = row + size - 1
            store(G_of, end, load(G_of, end) * 0.0 - mean)  # minus the mean, or NaN if not differentiable


@jit(inner=True, borrows=True)
def _add_squares(cells, line, G, slopes, base, low, high, total):
    """Add ``cells * (base + slope)**2`` over columns `low` to `high` to `total`, with two accumulators."""
    even, odd = splat(0.0), splat(0.0)
    for j in range(low, high - 1, 2):
        g, h = base + load(G, slopes + j), base + load(G, slopes + j + 1)
        even, odd = fma(load(cells, line + j), g * g, even), fma(load(cells, line + j + 1), h * h, odd)
    if (high - low) & 1:
        g = base + load(G, slopes + high - 1)
        even = fma(load(cells, line + high - 1), g * g, even)
    return total + (even + odd)


@jit(inner=True, borrows=True)
def _add_nominal_row(cells, line, slopes, i, C):
    """Return the contribution of row `i` to the variance of a metric that ignores class order."""
    base = load(slopes, C + i) + load(slopes, len(slopes) - 1)
    right = base + load(slopes, 2 * C + i) + load(slopes, i)
    variance = _add_squares(cells, line, slopes, 2 * C, base, 0, i, load(cells, line + i) * (right * right))
    return _add_squares(cells, line, slopes, 2 * C, base, i + 1, C, variance)


@jit(inner=True, borrows=True)
def _add_general_row(cells, line, kept, slopes, i, ordered, rows, t):
    """Return the contribution of row `i` to the variance of any metric; with `rows`, centred within the row."""
    C = len(kept)
    base, mean, variance = load(slopes, C + i) + load(slopes, len(slopes) - 1), splat(0.0), splat(0.0)
    for j in range(C):
        store(kept, j, base + load(slopes, 2 * C + j))
    store(kept, i, load(kept, i) + load(slopes, i))
    for j in range(C if ordered else 0):
        more = load(slopes, 3 * C + abs(i - j)) + load(slopes, 4 * C + max(i, j))
        store(kept, j, load(kept, j) + more)
    if rows:
        for j in range(C):
            mean = mean + load(kept, j) * load(cells, line + j)
        mean = where(t > 0.0, mean / t, splat(0.0))
    for j in range(C):
        g = load(kept, j) - mean
        variance = variance + load(cells, line + j) * (g * g)
    return variance


@jit(borrows=True)
def _write_errors(M, sums, slopes, design, work, out, start, stop):
    """Write standard errors of scalars and per-class values from their derivatives, and the status of every matrix.

    `slopes` holds the lines of scalars, those of per-class values, the number of lines per scalar, and which scalars
    depend on class order. `design` holds whether rows are fixed, the number of samples to scale to (negative: cells
    must be counts and are kept), and whether cells are of an integer type. `work` holds lines for rows of cells, then
    lines for sums.
    """
    G, T, size, shaped = slopes
    rows, n, whole = design
    cells, sums_of = work
    scalars, tables, status = out
    C = tables.shape[2]
    lines, together = FIRST + SUMS * C, max(1, len(cells) // max(C, 1))
    of_tile, values_of = len(G) * lines // max(len(sums), 1), len(T) * lines // max(len(sums), 1)
    kept, column, found = sums_of[:C], sums_of[C : 2 * C], sums_of[2 * C :]
    for first in range(start, stop, WIDTH):
        tile, count = (first - start) // WIDTH, min(WIDTH, stop - first)
        at, G_of, T_of = tile * lines, G[tile * of_tile : (tile + 1) * of_tile], T[tile * values_of :]
        total, good = load(sums, at + TOTAL_LINE), load(sums, at + STATUS_LINE) == float(OK)
        factor = total / n if n >= 0.0 else splat(1.0)
        for register in range(len(shaped)):
            store(found, register, splat(0.0))
        for k in range(C):
            store(column, k, splat(0.0))
        for begin in range(0, C, together):
            end = min(begin + together, C)
            transpose_cells(M, first, stop - 1, begin * C, (end - begin) * C, cells)
            for k in range((end - begin) * C if n < 0.0 and not whole else 0):
                x = load(cells, k)
                good = good & (x == floor(x))
            for i in range(begin, end):
                line, t = (i - begin) * C, load(sums, at + FIRST + C + i)
                for register in range(len(shaped)):
                    own = G_of[register * size : (register + 1) * size]
                    if rows or shaped[register]:
                        more = _add_general_row(cells, line, kept, own, i, shaped[register], rows, t)
                    else:
                        more = _add_nominal_row(cells, line, own, i, C)
                    store(found, register, load(found, register) + more)
                for j in range(C if rows else 0):  # binomial variances of the other rows in a column
                    if j != i:
                        x = load(cells, line + j)
                        store(column, j, load(column, j) + where(x > 0.0, x * ((t - x) / t), splat(0.0)))
        for register in range(len(shaped)):
            x = sqrt(load(found, register) * factor)
            store(found, register, where(good & (total > 0.0) & (x < np.inf), x, splat(np.nan)))
            if count == WIDTH:
                store_row(scalars, register, first, load(found, register))
            for w in range(count if count < WIDTH else 0):
                scalars[register, first + w] = found[register, w]
        for table in range(tables.shape[0]):
            for k in range(C):
                x = _class_variance(sums, at, C, k, T_of, (table * C + k) * 4, rows, load(column, k))
                x = sqrt(x * factor)
                store(kept, 0, where(good & (x < np.inf), x, splat(np.nan)))
                for w in range(count):
                    tables[table, first + w, k] = kept[0, w]
        store(found, len(shaped), where(good, float(OK), splat(float(INVALID))))
        for w in range(count):
            status[first + w] = np.int8(found[len(shaped), w])


@jit(inner=True, borrows=True)
def _class_variance(sums, at, C, k, T, line, rows, others):
    """Return the variance of a value of one class, from its derivatives in d, t, p and n."""
    d, t, p = load(sums, at + FIRST + k), load(sums, at + FIRST + C + k), load(sums, at + FIRST + 2 * C + k)
    n = load(sums, at + TOTAL_LINE)
    right = load(T, line) + load(T, line + 1) + load(T, line + 2) + load(T, line + 3)
    missed, false = load(T, line + 1) + load(T, line + 3), load(T, line + 2) + load(T, line + 3)
    rejected = load(T, line + 3)
    if rows:
        own = where(d > 0.0, d * ((t - d) / t), splat(0.0))
        return own * ((right - missed) * (right - missed)) + others * ((false - rejected) * (false - rejected))
    mean = (d * right + (t - d) * missed + (p - d) * false + (n - t - p + d) * rejected) / n
    right, missed, false, rejected = right - mean, missed - mean, false - mean, rejected - mean
    variance = d * (right * right) + (t - d) * (missed * missed)
    return variance + (p - d) * (false * false) + (n - t - p + d) * (rejected * rejected)


def prepare_sums(sums, C, plan, steps, unusual):
    """Prepare class sums for differentiation, in place: round HUGE ones, add ordinal scores and reductions."""
    if unusual:
        _round_huge(sums, C)
    if plan.ordered:
        _second_pass.score_ordinal(sums, C)
    if plan.again:
        _second_pass.reduce_recalls(sums, C, steps)


def standard_errors(M, *, plan, rows, n, num_threads=None):
    """Return standard errors of the scalars and per-class results of `plan` of every matrix; the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    size, kind, given = math.prod(batch), batches.result_dtype(M), values.flatten_matrices(M)
    scalars, tables = np.empty((plan.scalars, size), kind), np.empty((plan.tables, size, C), kind)
    status = np.empty(size, np.int8)
    out, steps, lines = (scalars, tables, status), tuple(plan), _margins.count_tile_lines(C)
    own, counts = count_slope_lines(C, ordered=plan.ordered), given.dtype.kind != "f"
    slopes, per_class = plan.registers * own, plan.tables * C * 4
    together = max(1, SLOPE_BYTES // (8 * WIDTH * max(1, slopes + per_class)))  # tiles
    shaped, design = _find_ordinal_scalars(plan), (rows, -1.0 if n is None else float(n), counts)
    sizes = _gradients.count_working_lines(C, plan), max(MOST_TRANSPOSED, C), 2 * C + plan.scalars + 1
    ends = [sum(sizes[:k]) for k in range(1, 4)]

    def use(sums, S, start, stop, unusual):
        """Differentiate and write standard errors for a block, a few tiles at a time."""
        prepare_sums(sums, C, plan, steps, unusual)
        for first in range(start, stop, together * WIDTH):
            last, tile = min(first + together * WIDTH, stop), (first - start) // WIDTH
            part = sums[tile * lines : (tile + -(-(last - first) // WIDTH)) * lines]
            tiles = len(part) // lines
            G, T = S[ends[2] :][: tiles * slopes], S[ends[2] + together * slopes :][: tiles * per_class]
            _differentiate(part, C, own, steps, shaped, S[: ends[0]], G, T)
            work = S[ends[0] : ends[1]], S[ends[1] : ends[2]]
            _write_errors(given, part, (G, T, own, shaped), design, work, out, first, last)

    fill = values.make_summing_kernel(given, C, plan.ordered, values.EXACT_TOTALS)
    seconds = size * C * C * (1 + plan.registers + plan.tables) * SECONDS_PER_SLOPE
    tiles = min(together, -(-size // WIDTH))
    values.run_blocks(
        fill, use, C, size, seconds=seconds, num_threads=num_threads,
        lines=ends[2] + together * slopes + tiles * per_class,
    )  # fmt: skip
    return (*shape_results(scalars, tables, batch), status.reshape(batch))


def _find_ordinal_scalars(plan):
    """Return which scalars depend on the order of the classes."""
    ordinal = np.zeros(plan.scalars, np.bool_)
    for step, code, target, *_ in plan.steps.tolist():
        if step == Step.TOTAL and code in ORDERED and target < plan.scalars:
            ordinal[target] = True
    return ordinal
