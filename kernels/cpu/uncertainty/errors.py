"""Delta-method standard errors of metrics, from exact derivatives in every cell.

To first order the variance of a function of multinomial counts is the sum over cells of ``M (g - mean)**2``, with the
derivatives ``g`` (``kernels/cpu/metrics/_gradients.py``) and their mean over the samples; with fixed rows, each row has
its own mean.
"""

import math
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.nontemporal import settle, stream_row
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    floor,
    fma,
    load,
    load_row,
    some,
    splat,
    sqrt,
    store,
    store_row,
    where,
)
from cmfast.kernels.cpu.metrics import _gradients, _margins, _second_pass, values
from cmfast.kernels.cpu.metrics._copied_pieces import flatten_matrices
from cmfast.kernels.cpu.metrics._margins import FIRST, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE, transpose_cells
from cmfast.kernels.cpu.uncertainty import _metric_lanes
from cmfast.kernels.cpu.uncertainty._metric_lanes import (
    LEAST_PACKED_CLASSES,
    MOST_PACKED_LINES,
    Lanes,
    add_cells,
    measure,
    pack_tile,
)
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import ORDERED, TRACED, Over, Plan, Step, Total, count_slope_lines, shape_results
from cmfast.kernels.status import INVALID, OK

OF_TRACE = TRACED | {Total.SPECIFICITY_MICRO}  # and of the number of classes
COMPLEMENTS = {
    Value.FALSE_NEGATIVE: Value.RECALL,
    Value.FALSE_POSITIVE: Value.SPECIFICITY,
    Value.FALSE_DISCOVERY: Value.PRECISION,
    Value.FALSE_OMISSION: Value.NPV,
}
OF_ALL_CLASSES = {  # what the micro average over all classes is
    Value.RECALL: Total.ACCURACY,
    Value.PRECISION: Total.ACCURACY,
    Value.SPECIFICITY: Total.SPECIFICITY_MICRO,
    Value.NPV: Total.SPECIFICITY_MICRO,
}
OF_ROWS = (Value.RECALL, Value.FALSE_NEGATIVE)
SECONDS_PER_CELL, SECONDS_PER_CLASS = 7e-11, 1.5e-9  # per register
_prepared: dict[int, Any] = {}  # by id; each refers to its plan, so that the id is not reused
LEAST_EXPANDED_CLASSES = 12  # expanded squares are faster than squares of cells
MOST_CANCELLED = _metric_lanes.MOST_CANCELLED
MOST_CELL_LINES = 2**12  # of cells transposed at a time, 64 bytes each: a quarter of a level-2 cache


@jit()
def _round_huge(sums, C):
    """Convert int64 sums of HUGE matrices to the nearest float64, in place.

    Their samples off the diagonal, which rounded sums cannot tell, go to the line of the size, with a minus.
    """
    whole = sums.view(np.int64)
    for at in range(0, len(sums), FIRST + SUMS * C):
        for w in range(WIDTH):
            if sums[at + STATUS_LINE, w] == _margins.HUGE:
                sums[at + STATUS_LINE, w] = OK
                wrong = 0
                for k in range(at + FIRST, at + FIRST + C):
                    wrong += whole[k + C, w] - whole[k, w]
                sums[at + SIZE_LINE, w] = -wrong
                sums[at + TOTAL_LINE, w] = whole[at + TOTAL_LINE, w]
                for k in range(at + FIRST, at + FIRST + SUMS * C):
                    sums[k, w] = whole[k, w]


@jit(borrows=True)
def _differentiate(sums, C, size, plan, shaped, S, G, T):
    """Write the derivatives of every tile, `size` lines per register; centre those of the first ``len(shaped)``."""
    plan = Plan(*plan)
    registers, tables = plan.registers * size, plan.tables * C * 4
    for tile in range(len(sums) // (FIRST + SUMS * C)):
        at = tile * (FIRST + SUMS * C)
        G_of, T_of = G[tile * registers : (tile + 1) * registers], T[tile * tables : (tile + 1) * tables]
        _gradients.differentiate(plan, sums, at, C, size, S, G_of, T_of)
        for register in range(len(shaped)):
            _centre(G_of, register * size, size, sums, at, C, shaped[register])


@jit(inner=True, borrows=True)
def _centre(G, row, size, sums, at, C, ordered):
    """Subtract the mean over the samples from the derivatives in lines `row` on, against cancellation in the variance.

    `ordered` says whether the metric depends on class order. A second call changes nothing.
    """
    mean = splat(0.0)
    for k in range(C):  # separate products shorten the dependency chain
        d = load(G, row + k) * load(sums, at + FIRST + k)
        t = load(G, row + C + k) * load(sums, at + FIRST + C + k)
        p = load(G, row + 2 * C + k) * load(sums, at + FIRST + 2 * C + k)
        mean = mean + (d + (t + p))
    for line in range(3 * C, SUMS * C if ordered else 3 * C):
        mean = mean + load(G, row + line) * load(sums, at + FIRST + line)
    mean = mean / load(sums, at + TOTAL_LINE)
    end = row + size - 1
    store(G, end, load(G, end) * 0.0 - mean)  # minus the mean, or NaN if not differentiable


@jit(inner=True, inline=True, borrows=True)
def _square_right(G, row, size, i, C, right):
    """Return what the derivatives in row `i` of a metric have in common, and the contribution of the diagonal."""
    base = load(G, row + C + i) + load(G, row + size - 1)
    g = base + (load(G, row + 2 * C + i) + load(G, row + i))  # these often cancel exactly
    return base, load(right, i) * (g * g)


@jit(inner=True, borrows=True)
def _square_rows(rows, G, pair, size, C, right):
    """Return the contributions of rows to the variances of two metrics that ignore class order, cell by cell."""
    (cells, first, last), (a, b) = rows, pair
    of_a, of_b = splat(0.0), splat(0.0)
    for i in range(first, last):
        line, odd_a, odd_b = (i - first) * C, splat(0.0), splat(0.0)
        base_a, even_a = _square_right(G, a, size, i, C, right)
        base_b, even_b = _square_right(G, b, size, i, C, right)
        for j in range(0, C - 1, 2):  # two accumulators each, all of them in registers without AVX-512
            x, y = load(cells, line + j), load(cells, line + j + 1)
            g, h = base_a + load(G, a + 2 * C + j), base_a + load(G, a + 2 * C + j + 1)
            even_a, odd_a = fma(x, g * g, even_a), fma(y, h * h, odd_a)
            g, h = base_b + load(G, b + 2 * C + j), base_b + load(G, b + 2 * C + j + 1)
            even_b, odd_b = fma(x, g * g, even_b), fma(y, h * h, odd_b)
        if C & 1:
            x = load(cells, line + C - 1)
            g, h = base_a + load(G, a + 3 * C - 1), base_b + load(G, b + 3 * C - 1)
            even_a, even_b = fma(x, g * g, even_a), fma(x, h * h, even_b)
        of_a, of_b = of_a + (even_a + odd_a), of_b + (even_b + odd_b)
    return of_a, of_b


@jit(inner=True, inline=True, borrows=True)
def _add_mixed(G, row, size, pair, products, mixed):
    """Add the mixed terms of the expanded squares in a pair of rows, or in one row that is both."""
    (i, j), (x, y) = pair, products
    end = load(G, row + size - 1)
    mixed = fma(load(G, row + i) + end, 2.0 * x, mixed)
    return fma(load(G, row + j) + end, 2.0 * y if j > i else 0.0 * y, mixed)


@jit(inner=True, borrows=True)
def _sum_terms(G, row, size, mixed, lines):
    """Return the sum of all terms of a metric's expanded squares, and where it is not accurate: they cancel too much.

    `mixed` is the sum of the mixed terms, twice those in a row times those in a column.
    """
    (others, right, below), own, squares = lines, splat(0.0), splat(0.0)
    C = len(others)
    for i in range(C):
        base, more = _square_right(G, row, size, i, C, right)
        g, own = load(G, row + 2 * C + i), own + more
        squares = squares + fma(load(others, i), base * base, load(below, i) * (g * g))
    found = own + (squares + mixed)
    return found, (MOST_CANCELLED * found < squares) | (squares == np.inf)


@jit(inner=True, borrows=True)
def _add_nominal(cells, G, size, four, lines, found):
    """Add all cells to the variances of four metrics that ignore class order, by expanded squares of derivatives.

    In row i and column j, not on the diagonal, these are a sum ``b_i + c_j``, so that the cells are multiplied by ``c``
    alone: a third of the operations. A metric whose terms cancel too much gets the sum of squares instead.
    """
    C = len(lines[0])
    a, b, c, d = four[0] * size, four[1] * size, four[2] * size, four[3] * size
    mixed_a, mixed_b, mixed_c, mixed_d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for i in range(0, C - 1, 2):  # with one address for both rows, AVX2 has registers for the loop
        line = i * C
        x_a, x_b, x_c, x_d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        y_a, y_b, y_c, y_d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for j in range(C):
            x, y, k = load(cells, line + j), load(cells, line + C + j), 2 * C + j
            g = load(G, a + k)
            x_a, y_a = fma(x, g, x_a), fma(y, g, y_a)
            g = load(G, b + k)
            x_b, y_b = fma(x, g, x_b), fma(y, g, y_b)
            g = load(G, c + k)
            x_c, y_c = fma(x, g, x_c), fma(y, g, y_c)
            g = load(G, d + k)
            x_d, y_d = fma(x, g, x_d), fma(y, g, y_d)
        pair = C + i, C + i + 1
        mixed_a = _add_mixed(G, a, size, pair, (x_a, y_a), mixed_a)
        mixed_b = _add_mixed(G, b, size, pair, (x_b, y_b), mixed_b)
        mixed_c = _add_mixed(G, c, size, pair, (x_c, y_c), mixed_c)
        mixed_d = _add_mixed(G, d, size, pair, (x_d, y_d), mixed_d)
    for i in range(C - (C & 1), C):
        line, x_a, x_b, x_c, x_d = i * C, splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for j in range(C):
            x, k = load(cells, line + j), 2 * C + j
            x_a, x_b = fma(x, load(G, a + k), x_a), fma(x, load(G, b + k), x_b)
            x_c, x_d = fma(x, load(G, c + k), x_c), fma(x, load(G, d + k), x_d)
        k, top = C + i, size - 1
        mixed_a = fma(load(G, a + k) + load(G, a + top), 2.0 * x_a, mixed_a)
        mixed_b = fma(load(G, b + k) + load(G, b + top), 2.0 * x_b, mixed_b)
        mixed_c = fma(load(G, c + k) + load(G, c + top), 2.0 * x_c, mixed_c)
        mixed_d = fma(load(G, d + k) + load(G, d + top), 2.0 * x_d, mixed_d)
    sum_a, bad_a = _sum_terms(G, a, size, mixed_a, lines)
    sum_b, bad_b = _sum_terms(G, b, size, mixed_b, lines)
    sum_c, bad_c = _sum_terms(G, c, size, mixed_c, lines)
    sum_d, bad_d = _sum_terms(G, d, size, mixed_d, lines)
    if some(bad_a | bad_b):
        exact_a, exact_b = _square_rows((cells, 0, C), G, (a, b), size, C, lines[1])
        sum_a, sum_b = where(bad_a, exact_a, sum_a), where(bad_b, exact_b, sum_b)
    if some(bad_c | bad_d):
        exact_c, exact_d = _square_rows((cells, 0, C), G, (c, d), size, C, lines[1])
        sum_c, sum_d = where(bad_c, exact_c, sum_c), where(bad_d, exact_d, sum_d)
    sum_a, sum_b = load(found, four[0]) + sum_a, load(found, four[1]) + sum_b
    sum_c, sum_d = load(found, four[2]) + sum_c, load(found, four[3]) + sum_d
    store(found, four[0], sum_a)
    store(found, four[1], sum_b)
    store(found, four[2], sum_c)
    store(found, four[3], sum_d)


@jit(inner=True, borrows=True)
def _add_nominal_of_one(cells, G, size, register, lines, found):
    """Add all cells to the variance of one metric, as for four: the same bits, four rows at a time."""
    C, a, mixed = len(lines[0]), register * size, splat(0.0)
    for i in range(0, C, 4):
        j, k, m = min(i + 1, C - 1), min(i + 2, C - 1), min(i + 3, C - 1)
        w, x, y, z = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for column in range(C):
            g = load(G, a + 2 * C + column)
            w, x = fma(load(cells, i * C + column), g, w), fma(load(cells, j * C + column), g, x)
            y, z = fma(load(cells, k * C + column), g, y), fma(load(cells, m * C + column), g, z)
        mixed = _add_mixed(G, a, size, (C + i, C + j), (w, x), mixed)
        if i + 2 < C:
            mixed = _add_mixed(G, a, size, (C + k, C + m), (y, z), mixed)
    variance, bad = _sum_terms(G, a, size, mixed, lines)
    if some(bad):
        variance = where(bad, _square_rows((cells, 0, C), G, (a, a), size, C, lines[1])[0], variance)
    store(found, register, load(found, register) + variance)


@jit(inner=True, borrows=True)
def _split_diagonal(cells, first, last, C, right, others):
    """Move the diagonal of rows `first` to `last` to the lines `right`, leaving 0; sum each row of what remains."""
    for i in range(first, last):
        line, even, odd = (i - first) * C, splat(0.0), splat(0.0)
        store(right, i, load(cells, line + i))
        store(cells, line + i, splat(0.0))
        for j in range(0, C - 1, 2):
            even, odd = even + load(cells, line + j), odd + load(cells, line + j + 1)
        if C & 1:
            even = even + load(cells, line + C - 1)
        store(others, i, even + odd)


@jit(inner=True, borrows=True)
def _sum_columns(cells, rows, C, below):
    """Write the sum of each column of `rows` rows, at least four columns."""
    for first in range(0, C, 4):
        k = min(first, C - 4)  # the last block overlaps the one before
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for i in range(rows):
            line = i * C + k
            a, b = a + load(cells, line), b + load(cells, line + 1)
            c, d = c + load(cells, line + 2), d + load(cells, line + 3)
        store(below, k, a)
        store(below, k + 1, b)
        store(below, k + 2, c)
        store(below, k + 3, d)


@jit(inner=True, borrows=True)
def _add_rows_alike(first, last, G, row, size, right, others):
    """Return the contribution of rows to the variance of a metric whose derivatives in all columns are equal.

    So are those of all cells in a row but the diagonal; the sums of these cells are in the lines `others`. Columns of
    classes that do not enter averages are 0, so each row takes the derivative in its own.
    """
    C, variance = len(others), splat(0.0)
    for i in range(first, last):
        base, own = _square_right(G, row, size, i, C, right)
        g = base + load(G, row + 2 * C + i)
        variance = variance + (own + load(others, i) * (g * g))
    return variance


@jit(inner=True, borrows=True)
def _add_traced(G, size, traced, sums, at, C, found):
    """Write the variances of metrics of the trace and the total, whose derivatives are two: right or wrong."""
    right, wrong = splat(0.0), splat(0.0)
    for k in range(at + FIRST, at + FIRST + C):
        right, wrong = right + load(sums, k), wrong + (load(sums, k + C) - load(sums, k))
    exact = load(sums, at + SIZE_LINE)
    wrong = where(exact < 0.0, 0.0 - exact, wrong)  # of a HUGE matrix
    for place in range(len(traced)):
        row = traced[place] * size
        base, column = load(G, row + C) + load(G, row + size - 1), load(G, row + 2 * C)
        g, h = base + (column + load(G, row)), base + column
        store(found, traced[place], right * (g * g) + wrong * (h * h))


@jit(inner=True, borrows=True)
def _add_ordinal_row(cells, line, G, row, size, i, right):
    """Return the contribution of row `i` to the variance of a metric that depends on class order."""
    C = len(right)
    base = load(G, row + C + i) + load(G, row + size - 1)
    column, band, top, both = row + 2 * C, row + 3 * C, row + 4 * C, min(i, C - 1 - i)
    under, high = base + load(G, top + i), splat(0.0)
    g = under + (load(G, column + i) + load(G, row + i) + load(G, band))
    low = load(right, i) * (g * g)
    for away in range(1, both + 1):
        g = under + (load(G, column + i - away) + load(G, band + away))
        h = base + (load(G, column + i + away) + load(G, band + away) + load(G, top + i + away))
        low, high = fma(load(cells, line + i - away), g * g, low), fma(load(cells, line + i + away), h * h, high)
    for away in range(both + 1, i + 1):
        g = under + (load(G, column + i - away) + load(G, band + away))
        low = fma(load(cells, line + i - away), g * g, low)
    for away in range(both + 1, C - i):
        h = base + (load(G, column + i + away) + load(G, band + away) + load(G, top + i + away))
        high = fma(load(cells, line + i + away), h * h, high)
    return low + high


@jit(inner=True, borrows=True)
def _add_row_within(cells, line, kept, slopes, i, ordered, t):
    """Return the contribution of row `i`, whose samples are fixed, to the variance of a metric."""
    C = len(kept)
    base, mean, variance = load(slopes, C + i) + load(slopes, len(slopes) - 1), splat(0.0), splat(0.0)
    for j in range(C):
        store(kept, j, base + load(slopes, 2 * C + j))
    store(kept, i, load(kept, i) + load(slopes, i))
    for j in range(C if ordered else 0):
        more = load(slopes, 3 * C + abs(i - j)) + load(slopes, 4 * C + max(i, j))
        store(kept, j, load(kept, j) + more)
    for j in range(C):
        mean = mean + load(kept, j) * load(cells, line + j)
    mean = where(t > 0.0, mean / t, splat(0.0))
    for j in range(C):
        g = load(kept, j) - mean
        variance = variance + load(cells, line + j) * (g * g)
    return variance


@jit(borrows=True)
def _transpose_rows(M, C, begin, end, cells, start, stop):
    """Copy rows `begin` to `end` of matrices `start` to `stop` to lines, one tile of eight after another."""
    count = (end - begin) * C
    for first in range(start, stop, WIDTH):
        line = (first - start) // WIDTH * count
        transpose_cells(M, first, stop - 1, begin * C, count, cells[line : line + count])


@jit(borrows=True)
def _add_variances(sums, wanted, design, memory, out, part, start, stop):
    """Add rows to the variances of matrices `start` to `stop`; after the last rows, write standard errors and status.

    `wanted` is the plan, the kinds of its scalars and their lanes, and of each result the scalar and a factor, negative
    if it is also multiplied by Krippendorff's correction for small samples. The kinds are which depend on class order,
    those of `_find_scalars_alike`, and the others. `out` is the memory of all results, padded to full tiles, where each
    of them begins there, the status, and whether to write past the caches (``metrics.values``). `design` holds whether
    rows are fixed, and the number of samples to scale to, negative for that of each matrix. `memory` has the cells of
    `_transpose_rows`, workspace for one tile, lines for its derivatives, those of per-class values and sums (three per
    class and one per scalar), and, of all tiles, derivatives by matrix and variances of scalars: if there are any,
    these are packed here, and ``_metric_lanes`` adds the cells. `part` is the first and the end of the rows: all of
    them, unless there is one tile only, whose sums are kept.
    """
    (plan, kinds, lanes, sources), (rows, n) = wanted, design
    (cells, S, G, T, spare, packed, bent, variances), (begin, end) = memory, part
    plan, lanes, shaped = Plan(*plan), Lanes(*lanes), kinds[0]
    C, size = (len(spare) - plan.scalars) // 3, len(G) // max(plan.registers, 1)
    kept, column, below, found = spare[:C], spare[C : 2 * C], spare[2 * C : 3 * C], spare[3 * C :]
    for first in range(start, stop, WIDTH):
        tile, count = (first - start) // WIDTH, min(WIDTH, stop - first)
        at, own = tile * (FIRST + SUMS * C), cells[tile * (end - begin) * C : (tile + 1) * (end - begin) * C]
        if len(variances) > 0:
            found = variances[tile * plan.scalars : (tile + 1) * plan.scalars]
        if begin == 0:
            _gradients.differentiate(plan, sums, at, C, size, S, G, T)
            for line in range(len(found)):
                store(found, line, splat(0.0))
            for k in range(C):
                store(column, k, splat(0.0))
        if rows:
            _add_fixed_rows(own, part, (sums, at), G, size, shaped, (kept, column, found))
        else:
            _add_rows(own, part, (sums, at), G, size, kinds, (kept, column, below, found))
        if end < C:
            continue
        factor = load(sums, at + TOTAL_LINE) / n if n >= 0.0 else splat(1.0)
        if len(variances) > 0:
            pack_tile((G, count, first - start), size, C, lanes, packed, bent, spare)
        else:
            _write_scalars(found, sums, at, sources, n, out, first)
        good, results = load(sums, at + STATUS_LINE) == float(OK), out[0]
        for table in range(plan.tables):
            begins = out[1][len(sources[0]) + table] + first * C
            for k in range(C):
                x = _class_variance(sums, at, C, k, T, (table * C + k) * 4, rows, load(column, k))
                x = sqrt(x * factor)
                store(kept, 0, where(good & (x < np.inf), x, splat(np.nan)))
                for w in range(count):
                    results[0, begins + w * C + k] = kept[0, w]
        for w in range(count):
            out[2][first + w] = np.int8(sums[at + STATUS_LINE, w])
    settle()


@jit(inner=True, borrows=True)
def _write_scalars(found, sums, at, sources, n, out, first):
    """Write the standard errors of the scalars of a tile, from their variances, for `n` samples if not negative."""
    (places, factors), (results, starts, _, _, past) = sources, out
    total, good = load(sums, at + TOTAL_LINE), load(sums, at + STATUS_LINE) == float(OK)
    samples = splat(n) if n >= 0.0 else total
    factor = total / samples if n >= 0.0 else splat(1.0)
    for line in range(len(found)):
        x = sqrt(load(found, line) * factor)
        store(found, line, where(good & (total > 0.0) & (x < np.inf), x, splat(np.nan)))
    for scalar in range(len(places)):
        x = load(found, places[scalar]) * abs(factors[scalar])
        if factors[scalar] < 0.0:
            x = x * where(samples > 0.5, (2.0 * samples - 1.0) / (2.0 * samples), splat(np.nan))
        if past:
            stream_row(results, 0, starts[scalar] + first, x)
        else:
            store_row(results, 0, starts[scalar] + first, x)


@jit(borrows=True)
def _write_tiles(variances, sums, C, sources, n, out, start, stop):
    """Write the standard errors of the scalars of matrices `start` to `stop`, from their variances."""
    scalars = len(variances) // -(-(stop - start) // WIDTH)
    for first in range(start, stop, WIDTH):
        tile = (first - start) // WIDTH
        at, found = tile * (FIRST + SUMS * C), variances[tile * scalars : (tile + 1) * scalars]
        _write_scalars(found, sums, at, sources, n, out, first)
    settle()


@jit(borrows=True)
def _require_counts(M, C, sums, start, stop):
    """Make matrices `start` to `stop` INVALID that have a fractional cell."""
    cells, zero = C * C, splat(0.0)
    for b in range(start, stop):
        fraction, one = zero, False
        for k in range(0, cells - WIDTH + 1, WIDTH):
            x = load_row(M, b, k)
            fraction = where(x == floor(x), fraction, 1.0)
        for k in range(cells // WIDTH * WIDTH, cells):
            one = one or M[b, k] != np.floor(M[b, k])
        if one or some(fraction > 0.0):
            sums[(b - start) // WIDTH * (FIRST + SUMS * C) + STATUS_LINE, (b - start) % WIDTH] = INVALID


@jit(inner=True, borrows=True)
def _add_rows(cells, part, tile, G, size, kinds, lines):
    """Add rows to the variances of scalars, where the total is fixed; clear the diagonal of the cells.

    Multiplying all cells by a number does not change these metrics, so the mean of their derivatives is 0, by Euler's
    theorem. There are no cells if all scalars are of the trace, or if the cells are added elsewhere.
    """
    (begin, end), (sums, at), (others, right, below, found) = part, tile, lines
    (shaped, alike, traced, nominal), C, rows = kinds, len(others), (cells, begin, end)
    if begin == 0:
        _add_traced(G, size, traced, sums, at, C, found)
    if len(cells) == 0:
        return
    _split_diagonal(cells, begin, end, C, right, others)
    for register in range(len(shaped)):
        if shaped[register]:
            variance = load(found, register)
            for i in range(begin, end):
                variance = variance + _add_ordinal_row(cells, (i - begin) * C, G, register * size, size, i, right)
            store(found, register, variance)
    for place in range(len(alike)):
        register = alike[place]
        more = _add_rows_alike(begin, end, G, register * size, size, right, others)
        store(found, register, load(found, register) + more)
    for place in range(0, len(nominal) if C < LEAST_EXPANDED_CLASSES else 0, 2):
        one, other = nominal[place], nominal[place + 1]
        if place > 0 and one == nominal[place - 1]:
            break
        more, most = _square_rows(rows, G, (one * size, other * size), size, C, right)
        of_one, of_other = load(found, one) + more, load(found, other) + most
        store(found, one, of_one)
        store(found, other, of_other)
    if C >= LEAST_EXPANDED_CLASSES:
        _sum_columns(cells, C, C, below)
        for place in range(0, len(nominal), 4):
            four = nominal[place], nominal[place + 1], nominal[place + 2], nominal[place + 3]
            if four[0] != four[1]:
                _add_nominal(cells, G, size, four, (others, right, below), found)
            elif place == 0 or four[0] != nominal[place - 1]:
                _add_nominal_of_one(cells, G, size, four[0], (others, right, below), found)


@jit(inner=True, borrows=True)
def _add_fixed_rows(cells, part, tile, G, size, shaped, lines):
    """Add rows to the variances of scalars, where the samples of each row are fixed, and to those of other rows."""
    (begin, end), (sums, at), (kept, column, found) = part, tile, lines
    C = len(kept)
    for register in range(len(shaped)):
        if begin == 0:
            _centre(G, register * size, size, sums, at, C, shaped[register])
        slopes, variance = G[register * size : (register + 1) * size], load(found, register)
        for i in range(begin, end):
            t = load(sums, at + FIRST + C + i)
            variance = variance + _add_row_within(cells, (i - begin) * C, kept, slopes, i, shaped[register], t)
        store(found, register, variance)
    for i in range(begin, end):
        line, t = (i - begin) * C, load(sums, at + FIRST + C + i)
        for j in range(C):  # binomial variances of the other rows in a column
            if j != i:
                x = load(cells, line + j)
                store(column, j, load(column, j) + where(x > 0.0, x * ((t - x) / t), splat(0.0)))


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
        _second_pass.score_ordinal(sums, C, False)
    if plan.again:
        _second_pass.reduce_recalls(sums, C, steps)


def _prepare_plan(plan):
    """Return what `_merge_scalars` does of a plan, kinds and lanes of its scalars; keep them for the next calls."""
    found = _prepared.get(id(plan))
    if found is None:
        if len(_prepared) >= values.MOST_PLANS:
            _prepared.clear()
        merged, sources = _merge_scalars(plan)
        shaped, (alike, traced) = find_totals(merged, ORDERED), _find_scalars_alike(merged)
        nominal = _repeat_last(np.setdiff1d(np.flatnonzero(~shaped), [*alike, *traced]))
        lanes = Lanes(nominal, _repeat_last(alike), np.flatnonzero(shaped))
        found = _prepared[id(plan)] = plan, merged, sources, (shaped, alike, traced, nominal), lanes
    return found[1:]


def _repeat_last(registers):
    """Return registers with the last one repeated, to fill groups of eight."""
    return np.append(registers, registers[-1:].repeat(-len(registers) % WIDTH))


def _merge_scalars(plan):
    """Return `plan` without scalars whose errors follow from those of others, and what each scalar follows from.

    Those are scalars of the new plan, and factors, a power of two, which changes no bit: the error of an equal step or
    of one that `_find_alike` names, of the accuracy for that of the error rate, and half the error of what a step maps
    from [-1, 1] to [0, 1]. Krippendorff's alpha has the error of Scott's pi times its correction for small samples,
    which a negative factor stands for: the correction is 1 - 1 / 2n, and equal derivatives in all cells have no
    variance.
    """
    by_value: dict[tuple[float, ...], list[Any]] = {}  # code, fill value, parameter -> its steps
    others: list[Any] = []
    first: dict[tuple[Any, ...], int] = {}  # equal steps -> the first target
    roots: dict[int, tuple[int, float]] = {}
    value: tuple[float, ...] = ()
    for step, given in zip(plan.steps.tolist(), plan.params.tolist(), strict=True):
        kind, code, target, a, b = step
        param = tuple(math.nan if math.isnan(x) else x for x in given)  # the same object, so that keys are equal
        own, factor = value, 1.0
        if kind == Step.VALUE:
            value = code, *param
            continue
        if kind == Step.EACH:
            by_value.setdefault(value, []).append((step, param))
            continue
        if kind == Step.RESCALE:
            root, factor = roots[a]
            roots[target] = root, 0.5 * factor
            continue
        if kind == Step.HARMONIC:
            a, b = roots[a][0], roots[b][0]
        elif kind == Step.REDUCE:
            kind, code, alike, factor = _find_alike(code, value[0], whole=not len(plan.members))
            own, a = (alike, *value[1:]), a if kind == Step.REDUCE else 0
        elif code == Total.ERROR:
            code = Total.ACCURACY
        elif code == Total.KRIPPENDORFF:
            code, factor = Total.SCOTT_PI, -1.0
        root = first.setdefault((kind, code, own if kind == Step.REDUCE else (), a, b, param), target)
        roots[target] = root, factor
        if root == target:
            steps = by_value.setdefault(own, []) if kind == Step.REDUCE else others
            steps.append(([kind, code, target, a, b], param))
    rows = [row for own, steps in by_value.items() for row in (([Step.VALUE, own[0], 0, 0, 0], own[1:]), *steps)]
    rows += others
    order = {root: None for root, _ in (roots[k] for k in range(plan.scalars))}
    places = {root: k for k, root in enumerate([*order, *(root for root in first.values() if root not in order)])}
    for step, _ in rows:
        if step[0] not in (Step.VALUE, Step.EACH):
            step[2] = places[step[2]]
        if step[0] == Step.HARMONIC:
            step[3:] = places[step[3]], places[step[4]]
    merged = plan._replace(
        steps=np.array([step for step, _ in rows], np.int64).reshape(-1, 5),
        params=np.array([param for _, param in rows], np.float64).reshape(-1, 2),
        values=len(by_value),
        scalars=len(order),
        registers=len(places),
    )
    sources = [places[roots[k][0]] for k in range(plan.scalars)], [roots[k][1] for k in range(plan.scalars)]
    return merged, (np.array(sources[0], np.int64), np.array(sources[1], np.float64))


def _find_alike(code, value, *, whole):
    """Return a step whose error is that of a reduction of class values: kind, code and value; and a factor.

    False rates and the rates that they add up to one with have the same errors, but not where what replaces 0/0 in
    both has a weight of its own. If the `whole` matrix enters, micro averages of rates and the recall weighted by its
    denominators are accuracies. No harmonic mean is of a reduction that this changes.
    """
    complement = COMPLEMENTS.get(value, value)
    weighted = code == Over.WEIGHTED and complement == Value.RECALL
    if whole and (weighted or (code == Over.MICRO and complement in OF_ALL_CLASSES)):
        return Step.TOTAL, OF_ALL_CLASSES[complement], complement, 1.0
    if code == Over.MEAN and value == Value.TSS:
        return Step.REDUCE, code, Value.BALANCED_ACCURACY, 2.0
    if code == Over.MEAN or (code == Over.WEIGHTED and complement in (Value.RECALL, Value.SPECIFICITY)):
        value = complement
    return Step.REDUCE, code, value, 1.0


@lru_cache(maxsize=64)
def _divide_workspace(C, size, ordered, needs, packed):
    """Return how many rows and how many tiles to process at a time, and the ends of the parts of the workspace.

    `needs` is how many lines of workspace, registers, tables and scalars there are. If derivatives are `packed`, that
    is what ``_metric_lanes.measure`` returns and the number of ordinal metrics; if no cells are added, an empty tuple.
    """
    (working, registers, tables, scalars), tiles = needs, -(-size // WIDTH)
    lines = working, registers * count_slope_lines(C, ordered=ordered), tables * C * 4, 3 * C + scalars
    if packed is None:
        height = max(1, C if C < LEAST_PACKED_CLASSES else min(C, MOST_CELL_LINES // C))
        together = max(1, min(tiles, MOST_CELL_LINES // max(1, C * C)))
        return height, together, list(accumulate((max(height * C, together * C * C), *lines, 0, 0, 0, 0), initial=0))
    if not packed:
        return max(1, C), tiles, list(accumulate((0, *lines, 0, 0, 0, 0), initial=0))
    slopes, numbers, sums, ordinals = packed
    together = max(1, min(tiles, MOST_PACKED_LINES // (WIDTH * slopes + numbers * ordinals)))
    matrices, bent = min(size, together * WIDTH), together * numbers * ordinals
    more = matrices * slopes, bent, together * scalars, matrices * sums
    return C, together, list(accumulate((0, *lines, *more), initial=0))


def standard_errors(M, *, plan, rows, n, num_threads=None):
    """Return standard errors of the scalars and per-class results of `plan` of every matrix; the status."""
    C, given, design = M.shape[-1], flatten_matrices(M), (rows, -1.0 if n is None else float(n))
    if plan.traced and not rows and values.are_many_traced(given, C, num_threads, counts=n is None):
        fill, inexact = values.make_trace_kernel(given, C)
        results = _compute_errors(M, (given, fill, 1), plan, design, num_threads)
        if not any(inexact):
            return results
    fill = values.make_summing_kernel(given, C, plan.ordered, values.EXACT_TOTALS, num_threads)
    return _compute_errors(M, (given, fill, C), plan, design, num_threads)


def _compute_errors(M, summing, plan, design, num_threads):
    """Return results as `standard_errors` does.

    `summing` is the flat matrices, the function that sums them, and the number of classes that it writes; `design` is
    whether rows are fixed, and the number of samples to scale to, negative for that of each matrix.
    """
    (given, fill, C), (rows, n), given_plan, given_steps = summing, design, plan, tuple(plan)
    plan, sources, kinds, lanes = _prepare_plan(plan)
    batch, size, kind = M.shape[:-2], math.prod(M.shape[:-2]), batches.result_dtype(M)
    out, scalars, tables = values.allocate_results(given_plan, C, batch, np.float64)
    wanted, lines = (tuple(plan), kinds, tuple(lanes), sources), _margins.count_tile_lines(C)
    needs = _gradients.count_working_lines(C, plan), plan.registers, plan.tables, plan.scalars
    packed: tuple[int, ...] | None = () if _follow_from_sums(plan, kinds) and not rows else None
    if packed is None and C >= LEAST_PACKED_CLASSES and not rows:
        packed = *measure(C, lanes), len(lanes.ordinal)
    height, together, ends = _divide_workspace(C, min(size, WIDTH * MOST_CELL_LINES), plan.ordered, needs, packed)
    checked = n < 0.0 and given.dtype.kind == "f" and M.shape[-1] == C  # not where traces are summed, which checks

    def use(sums, S, start, stop, unusual):
        """Differentiate and write standard errors for a block: many tiles at a time, or one in parts of its rows."""
        prepare_sums(sums, C, plan, given_steps, unusual)
        if checked:
            _require_counts(given, C, sums, start, stop)
        *working, slopes, bent, variances, parts = [S[first:last] for first, last in pairwise(ends)]
        bent = bent.reshape(-1, packed[1]) if packed else bent
        memory = *working, slopes, bent, variances
        for first in range(start, stop, together * WIDTH):
            last, tile = min(first + together * WIDTH, stop), (first - start) // WIDTH
            part = sums[tile * lines : (tile + together) * lines]
            for begin in range(0, max(C, 1), height):
                end = min(begin + height, C)
                if packed is None:
                    _transpose_rows(given, C, begin, end, memory[0], first, last)
                _add_variances(part, wanted, design, memory, out, (begin, end), first, last)
            if packed:
                found = variances[: -(-(last - first) // WIDTH) * plan.scalars]
                chunk = first, part, last - first
                add_cells(given, C, wanted[2], chunk, (slopes, bent), (parts, found), num_threads)
                _write_tiles(found, part, C, sources, n, out, first, last)

    registers = 1 + plan.registers + plan.tables
    per_cell = values.SECONDS_PER_SUMMED_CELL if packed == () else registers * SECONDS_PER_CELL
    seconds = given.size * per_cell + size * C * registers * SECONDS_PER_CLASS
    values.run_blocks(fill, use, C, size, seconds=seconds, num_threads=num_threads, lines=ends[-1])
    if kind is not np.float64:
        scalars, tables = scalars.astype(kind), tables.astype(kind)
    return (*shape_results(scalars, tables, batch), out[2].reshape(batch))


def _follow_from_sums(plan, kinds):
    """Return whether the errors of all results follow from class sums, as those of class values and of traces do."""
    return len(kinds[2]) == plan.scalars


def _find_scalars_alike(plan):
    """Return the scalars with equal derivatives in all columns of present classes, and those of the trace alone.

    The first are reductions of recalls and means of the accuracies of classes; the second have two derivatives, right
    or wrong, as micro averages over all classes.
    """
    alike, value, traced = [], -1, np.flatnonzero(find_totals(plan, OF_TRACE)).tolist()
    for kind, code, target, *_ in plan.steps.tolist():
        if kind == Step.VALUE:
            value = code
        elif kind == Step.REDUCE and target < plan.scalars:
            if code == Over.MICRO and not len(plan.members):
                traced.append(target)
            elif value in OF_ROWS or ((code, value) == (Over.MEAN, Value.ACCURACY) and not len(plan.members)):
                alike.append(target)
    return np.array(sorted(alike), np.int64), np.array(sorted(traced), np.int64)


def find_totals(plan, codes):
    """Return which scalars are values of the whole matrix with one of these codes."""
    found = np.zeros(plan.scalars, np.bool_)
    for step, code, target, *_ in plan.steps.tolist():
        if step == Step.TOTAL and code in codes and target < plan.scalars:
            found[target] = True
    return found
