"""Variances of many scalars of one matrix at a time: the lanes of a vector are eight metrics, not eight matrices.

In row i and column j the derivative of a metric that ignores class order is a sum ``b_i + c_j``, with ``a_i`` more on
the diagonal. The expanded square needs products of the cells with ``c`` alone, a third of the operations; where its
terms cancel too much, the sum of squares replaces it. Rows are added in ranges that depend on the number of classes
alone, so that several threads may share one matrix.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    fma,
    load,
    load_block,
    load_row,
    new_lines,
    pack,
    some,
    splat,
    store,
    store_block,
    store_row,
    total,
    where,
)
from cmfast.kernels.cpu.metrics._margins import FIRST, SUMS

LEAST_PACKED_CLASSES = 81  # of fewer, eight matrices at a time take less time than packing derivatives
RANGE_ROWS = 96  # rows of a matrix that one thread adds
MOST_CANCELLED = 16.0  # times that the terms of a sum may exceed it: four bits
MOST_PACKED_LINES = 2**13  # of derivatives at a time, 64 bytes each: half of a level-2 cache
SECONDS_PER_CELL_AND_GROUP = 6e-11  # of eight metrics, or of one ordinal metric
# Parts of the packed derivatives, with one line or number per class each. Those of an ordinal metric have zeros around.
DIAGONAL_SLOPE, ROW_SLOPE, COLUMN_SLOPE, NOMINAL_SLOPES = 0, 1, 2, 3
BAND_SLOPE, TOP_SLOPE, REVERSED_BAND_SLOPE, COLUMN_AND_TOP_SLOPE, ORDINAL_SLOPES = 3, 4, 5, 6, 7


class Lanes(NamedTuple):
    """Which metrics of a plan are in which lanes: registers in groups of eight; the last one may be repeated."""

    nominal: Any  # those that ignore class order
    alike: Any  # those of them whose derivatives in all columns are equal
    ordinal: Any  # one after the other


def measure(C, lanes):
    """Return the lines of packed derivatives per matrix, the numbers of an ordinal metric's, and the lines of sums.

    The last are of all ranges of rows of a matrix.
    """
    groups, ordinals = (len(lanes.nominal) + len(lanes.alike)) // WIDTH, len(lanes.ordinal)
    padded = (-(-C // WIDTH) + 2) * WIDTH  # whole vectors, and one more at either end
    return groups * NOMINAL_SLOPES * C, ORDINAL_SLOPES * padded, count_ranges(C) * (2 * groups + ordinals)


def count_ranges(C):
    """Return the number of ranges of the rows of a matrix."""
    return -(-C // RANGE_ROWS)


@jit(inner=True, borrows=True)
def pack_tile(tile, size, C, lanes, packed, bent, spare):
    """Gather the derivatives of a tile by matrix: eight metrics a line, or an ordinal one a row.

    `tile` is the derivatives, `size` lines per register, the number of matrices, and that of the first of them in its
    chunk. `spare` has 16 lines to work in.
    """
    G, count, first = tile
    nominal, groups = len(lanes.nominal), (len(lanes.nominal) + len(lanes.alike)) // WIDTH
    line, row = first * groups * NOMINAL_SLOPES * C, first * len(lanes.ordinal)
    for group in range(groups):
        at, registers = group * WIDTH, lanes.nominal
        if at >= nominal:
            at, registers = at - nominal, lanes.alike
        begins = (
            registers[at] * size,
            registers[at + 1] * size,
            registers[at + 2] * size,
            registers[at + 3] * size,
            registers[at + 4] * size,
            registers[at + 5] * size,
            registers[at + 6] * size,
            registers[at + 7] * size,
        )
        _pack_group(
            (G, count),
            begins,
            size - 1,
            (line + group * NOMINAL_SLOPES * C, groups * NOMINAL_SLOPES * C),
            C,
            packed,
            spare,
        )
    for place in range(len(lanes.ordinal)):
        _pack_ordinal(G, lanes.ordinal[place] * size, size, C, count, bent, row + place * WIDTH)


@jit(inner=True, borrows=True)
def _pack_group(tile, begins, last, lines, C, packed, spare):
    """Write the derivatives of eight metrics; those in rows include that in the total, in line `last`.

    `lines` is where those of the first matrix go, and how many lines later those of the next.
    """
    (G, count), (a, b, c, d, e, f, g, h), (line, apart) = tile, begins, lines
    load_block(spare, WIDTH, G, (a + last, b + last, c + last, d + last, e + last, f + last, g + last, h + last), 0)
    for k in range(NOMINAL_SLOPES * C):
        load_block(spare, 0, G, (a + k, b + k, c + k, d + k, e + k, f + k, g + k, h + k), 0)
        in_row = 1.0 if ROW_SLOPE * C <= k < COLUMN_SLOPE * C else 0.0
        for w in range(count):
            x = load(spare, w)
            store(packed, line + w * apart + k, x + load(spare, WIDTH + w) if in_row > 0.0 else x)


@jit(inner=True, borrows=True)
def _pack_ordinal(G, begin, size, C, count, bent, row):
    """Write the derivatives of one ordinal metric of a tile, a row per matrix, with zeros around each part.

    Bands are written in both directions, and the sum of column and top once more, so that all are read forwards.
    """
    padded = bent.shape[1] // ORDINAL_SLOPES
    for part in range(ORDINAL_SLOPES):
        for column in (part * padded, (part + 1) * padded - 2 * WIDTH, (part + 1) * padded - WIDTH):
            for w in range(count):
                store_row(bent, row + w, column, splat(0.0))
    for part in range(SUMS):
        for k in range(0, C, WIDTH):
            j = min(k, C - WIDTH)  # the last block overlaps the one before
            store_block(G, begin + part * C + j, bent, row, part * padded + WIDTH + j)
    column, band, top = COLUMN_SLOPE * padded + WIDTH, BAND_SLOPE * padded + WIDTH, TOP_SLOPE * padded + WIDTH
    backwards, both = REVERSED_BAND_SLOPE * padded + WIDTH, COLUMN_AND_TOP_SLOPE * padded + WIDTH
    for w in range(count):
        end = G[begin + size - 1, w]
        for k in range(C):
            bent[row + w, ROW_SLOPE * padded + WIDTH + k] += end
            bent[row + w, backwards + k] = bent[row + w, band + C - 1 - k]
            bent[row + w, both + k] = bent[row + w, column + k] + bent[row + w, top + k]


@jit()
def add_ranges(M, C, lanes, given, derivatives, parts, start, stop):
    """Write the contributions of ranges of rows, `start` to `stop`, to the variances of all metrics.

    Range ``m * count_ranges(C) + q`` is the range `q` of matrix `m` of those whose `derivatives` are packed; `given` is
    the number of the first of them in `M`, and their class sums. `parts` gets two lines for each group of metrics, of
    which the second has the squares of the expansion, and one for each ordinal metric.
    """
    (first, sums), (packed, bent), ranges, lanes = given, derivatives, -(-C // RANGE_ROWS), Lanes(*lanes)
    ordinals, groups = len(lanes.ordinal), (len(lanes.nominal) + len(lanes.alike)) // WIDTH
    width = -(-C // WIDTH) * WIDTH
    X, below, beside = new_lines(width).reshape(WIDTH, width), np.empty((1, width)), np.empty(WIDTH)
    X[:] = 0.0
    for item in range(start, stop):
        m, q = item // ranges, item % ranges
        below[:] = 0.0
        place = parts[item * (2 * groups + ordinals) : (item + 1) * (2 * groups + ordinals)]
        for k in range(len(place)):
            store(place, k, splat(0.0))
        at = m // WIDTH * (FIRST + SUMS * C) + FIRST
        right = sums[at : at + C, m % WIDTH]
        slopes = packed[m * groups * NOMINAL_SLOPES * C : (m + 1) * groups * NOMINAL_SLOPES * C]
        end = min((q + 1) * RANGE_ROWS, C)
        for i in range(q * RANGE_ROWS, end, WIDTH):
            rows = i, min(i + WIDTH, end)
            _load_rows(M, first + m, C, rows, X, below, beside)
            for group in range(groups):
                own = slopes[group * NOMINAL_SLOPES * C : (group + 1) * NOMINAL_SLOPES * C]
                if group * WIDTH < len(lanes.nominal):
                    _add_products(X, C, rows, own, (right, beside), place, 2 * group)
                else:
                    _add_alike(C, rows, own, (right, beside), place, 2 * group)
            for k in range(ordinals):
                line = (m // WIDTH * ordinals + k) * WIDTH + m % WIDTH
                _add_ordinal_rows(X, C, rows, bent, line, right, place, 2 * groups + k)
        for group in range(len(lanes.nominal) // WIDTH):
            begin = (group * NOMINAL_SLOPES + COLUMN_SLOPE) * C
            store(place, 2 * group + 1, load(place, 2 * group + 1) + _sum_columns(slopes[begin : begin + C], below))


@jit(inner=True, borrows=True)
def _sum_columns(slopes, below):
    """Return the squares of the derivatives in columns times the sums of these, in four sums to hide latency."""
    a, b, c, d, last = splat(0.0), splat(0.0), splat(0.0), splat(0.0), len(slopes) // 4 * 4
    for j in range(0, last, 4):
        w, x, y, z = load(slopes, j), load(slopes, j + 1), load(slopes, j + 2), load(slopes, j + 3)
        a, b = fma(below[0, j], w * w, a), fma(below[0, j + 1], x * x, b)
        c, d = fma(below[0, j + 2], y * y, c), fma(below[0, j + 3], z * z, d)
    for j in range(last, len(slopes)):
        w = load(slopes, j)
        a = fma(below[0, j], w * w, a)
    return (a + b) + (c + d)


@jit(inner=True, borrows=True)
def _load_rows(M, b, C, rows, X, below, beside):
    """Copy up to eight rows to `X` without the diagonal; add them to the column sums `below`, and sum each row."""
    begin, end = rows
    for i in range(begin, end):
        for k in range(0, C, WIDTH):
            j = min(k, C - WIDTH)  # the last block overlaps the one before
            store_row(X, i - begin, j, load_row(M, b, i * C + j))
        X[i - begin, i] = 0.0
    for i in range(end - begin, WIDTH):
        for j in range(0, C, WIDTH):
            store_row(X, i, j, splat(0.0))
    a, b, c, d, e, f, g, h = _clear_eight()
    for j in range(0, C, WIDTH):
        p, q, r, s = load_row(X, 0, j), load_row(X, 1, j), load_row(X, 2, j), load_row(X, 3, j)
        t, u, v, w = load_row(X, 4, j), load_row(X, 5, j), load_row(X, 6, j), load_row(X, 7, j)
        a, b, c, d, e, f, g, h = a + p, b + q, c + r, d + s, e + t, f + u, g + v, h + w
        store_row(below, 0, j, load_row(below, 0, j) + (((p + q) + (r + s)) + ((t + u) + (v + w))))
    beside[0], beside[1], beside[2], beside[3] = total(a), total(b), total(c), total(d)
    beside[4], beside[5], beside[6], beside[7] = total(e), total(f), total(g), total(h)


@jit(inner=True, inline=True, borrows=True)
def _clear_eight():
    """Return eight vectors of zeros."""
    zero = splat(0.0)
    return zero, zero, zero, zero, zero, zero, zero, zero


@jit(inner=True, borrows=True)
def _add_products(X, C, rows, slopes, sums, place, line):
    """Add up to eight rows to the variances of eight metrics, by expanded squares: their sum, and the squares apart."""
    (begin, end), (right, beside) = rows, sums
    a, b, c, d, e, f, g, h = _clear_eight()
    for j in range(C):
        x = load(slopes, COLUMN_SLOPE * C + j)
        a, b, c, d = fma(X[0, j], x, a), fma(X[1, j], x, b), fma(X[2, j], x, c), fma(X[3, j], x, d)
        e, f, g, h = fma(X[4, j], x, e), fma(X[5, j], x, f), fma(X[6, j], x, g), fma(X[7, j], x, h)
    row, last = ROW_SLOPE * C, end - 1  # rows after the last are zero
    even, odd = load(place, line), splat(0.0)
    even = fma(load(slopes, row + begin), 2.0 * a, even)
    odd = fma(load(slopes, row + min(begin + 1, last)), 2.0 * b, odd)
    even = fma(load(slopes, row + min(begin + 2, last)), 2.0 * c, even)
    odd = fma(load(slopes, row + min(begin + 3, last)), 2.0 * d, odd)
    even = fma(load(slopes, row + min(begin + 4, last)), 2.0 * e, even)
    odd = fma(load(slopes, row + min(begin + 5, last)), 2.0 * f, odd)
    even = fma(load(slopes, row + min(begin + 6, last)), 2.0 * g, even)
    odd = fma(load(slopes, row + min(begin + 7, last)), 2.0 * h, odd)
    squares = load(place, line + 1)
    for i in range(begin, end):
        y = load(slopes, row + i)
        own = y + (
            load(slopes, COLUMN_SLOPE * C + i) + load(slopes, DIAGONAL_SLOPE * C + i)
        )  # these often cancel exactly
        odd = fma(right[i], own * own, odd)
        squares = fma(beside[i - begin], y * y, squares)
    store(place, line, even + odd)
    store(place, line + 1, squares)


@jit(inner=True, borrows=True)
def _add_alike(C, rows, slopes, sums, place, line):
    """Add up to eight rows to the variances of eight metrics whose derivatives in all columns are equal.

    So are those of all cells in a row but the diagonal. Columns of classes that do not enter averages are 0, so each
    row takes the derivative in its own.
    """
    (begin, end), (right, beside), found = rows, sums, load(place, line)
    for i in range(begin, end):
        y, z = load(slopes, ROW_SLOPE * C + i), load(slopes, COLUMN_SLOPE * C + i)
        own, others = y + (z + load(slopes, DIAGONAL_SLOPE * C + i)), y + z
        found = fma(right[i], own * own, fma(beside[i - begin], others * others, found))
    store(place, line, found)


@jit(inner=True, borrows=True)
def _add_ordinal_rows(X, C, rows, bent, line, right, place, into):
    """Add up to eight rows to the variance of a metric that depends on class order, eight columns at a time."""
    (begin, end), padded = rows, bent.shape[1] // ORDINAL_SLOPES
    lane, own = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), 0.0
    column, band, both = (
        COLUMN_SLOPE * padded + WIDTH,
        BAND_SLOPE * padded + WIDTH,
        COLUMN_AND_TOP_SLOPE * padded + WIDTH,
    )
    found = load(place, into)
    for i in range(begin, end):
        base = bent[line, ROW_SLOPE * padded + WIDTH + i]
        under, backwards = (
            base + bent[line, TOP_SLOPE * padded + WIDTH + i],
            REVERSED_BAND_SLOPE * padded + WIDTH + C - 1 - i,
        )
        more = bent[line, column + i] + bent[line, DIAGONAL_SLOPE * padded + WIDTH + i] + bent[line, band]
        own += right[i] * ((under + more) * (under + more))
        low, high, middle = splat(0.0), splat(0.0), i // WIDTH * WIDTH
        for j in range(0, middle, WIDTH):
            g = under + (load_row(bent, line, column + j) + load_row(bent, line, backwards + j))
            low = fma(load_row(X, i - begin, j), g * g, low)
        g = under + (load_row(bent, line, column + middle) + load_row(bent, line, backwards + middle))
        h = base + (load_row(bent, line, both + middle) + load_row(bent, line, band + middle - i))
        g = where(lane < float(i - middle), g, h)
        low = fma(load_row(X, i - begin, middle), g * g, low)
        for j in range(middle + WIDTH, C, WIDTH):
            h = base + (load_row(bent, line, both + j) + load_row(bent, line, band + j - i))
            high = fma(load_row(X, i - begin, j), h * h, high)
        found = found + (low + high)
    store(place, into, found + where(lane == 0.0, own, splat(0.0)))


@jit()
def join_ranges(M, C, lanes, given, packed, parts, found, scalars):
    """Add the ranges of rows of all matrices of a chunk; write the variances of their metrics to tiles `found`.

    `scalars` is the number of lines of a tile. A metric whose terms cancel too much gets the sum of squares instead.
    """
    (first, sums, count), ranges, value, lanes = given, -(-C // RANGE_ROWS), new_lines(1), Lanes(*lanes)
    ordinals, groups = len(lanes.ordinal), (len(lanes.nominal) + len(lanes.alike)) // WIDTH
    lines, nominal = 2 * groups + ordinals, len(lanes.nominal)
    for m in range(count):
        tile, w = m // WIDTH * scalars, m % WIDTH
        for group in range(groups):
            variance, squares = splat(0.0), splat(0.0)
            for q in range(ranges):
                line = (m * ranges + q) * lines + 2 * group
                variance, squares = variance + load(parts, line), squares + load(parts, line + 1)
            variance, at = variance + squares, group * WIDTH
            bad = (MOST_CANCELLED * variance < squares) | (squares == np.inf)
            if some(bad):
                begin, of = (m * groups + group) * NOMINAL_SLOPES * C, m // WIDTH * (FIRST + SUMS * C) + FIRST
                slopes, right = packed[begin : begin + NOMINAL_SLOPES * C], sums[of : of + C, w]
                variance = where(bad, _sum_squares(M, first + m, C, slopes, right), variance)
            store(value, 0, variance)
            for k in range(WIDTH):
                register = lanes.nominal[at + k] if at < nominal else lanes.alike[at - nominal + k]
                found[tile + register, w] = value[0, k]
        for k in range(ordinals):
            variance = splat(0.0)
            for q in range(ranges):
                variance = variance + load(parts, (m * ranges + q) * lines + 2 * groups + k)
            found[tile + lanes.ordinal[k], w] = total(variance)


@jit(inner=True)
def _sum_squares(M, b, C, slopes, right):
    """Return the variances of eight metrics of one matrix, cell by cell."""
    found = splat(0.0)
    for i in range(C):
        y = load(slopes, ROW_SLOPE * C + i)
        g = y + (load(slopes, COLUMN_SLOPE * C + i) + load(slopes, DIAGONAL_SLOPE * C + i))
        even, odd = right[i] * (g * g), splat(0.0)
        for j in range(i):
            g = y + load(slopes, COLUMN_SLOPE * C + j)
            even = fma(float(M[b, i * C + j]), g * g, even)
        for j in range(i + 1, C):
            g = y + load(slopes, COLUMN_SLOPE * C + j)
            odd = fma(float(M[b, i * C + j]), g * g, odd)
        found = found + (even + odd)
    return found


def add_cells(M, C, lanes, chunk, derivatives, memory, num_threads):
    """Write the variances of all scalars of a chunk of matrices that are not those of their traces.

    `chunk` is the first matrix, the class sums and the number of matrices; `derivatives` is what `pack_tile` wrote, and
    `memory` the sums of ranges of rows and the variances, a tile after the other.
    """
    (first, sums, count), (parts, variances), (nominal, _, ordinal) = chunk, memory, lanes
    groups = len(nominal) // WIDTH + len(ordinal) + 1
    given = M, C, lanes, (first, sums), derivatives, parts
    seconds = count * C * C * groups * SECONDS_PER_CELL_AND_GROUP
    pool.run(add_ranges, given, count * count_ranges(C), seconds=seconds, num_threads=num_threads)
    scalars = len(variances) // -(-count // WIDTH)
    join_ranges(M, C, lanes, chunk, derivatives[0], parts, variances, scalars)
