"""Reduce confusion matrices to class sums, eight matrices at a time: diagonal, row and column sums, bands, tops.

The sums of eight matrices form a tile of lines of eight values, one lane per matrix: total, status and a few others,
then C lines of each sum. Tiles follow each other in `sums`, as float64, exact up to a total that the caller names; a
matrix of counts beyond it gets the status HUGE and int64 bits in the same lines. The general path for unusual totals is
a separate kernel, compiled at first need.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    collect_signs,
    floor,
    load,
    load_block,
    load_row,
    pack,
    prefetch,
    some,
    some_sign,
    splat,
    store,
    store_row,
    total,
    where,
)
from cmfast.kernels.shared.addresses import find_address
from cmfast.kernels.shared.limits import MOST_EXACT_INTEGER
from cmfast.kernels.shared.metrics import ClassSums
from cmfast.kernels.status import INVALID, OK

HUGE = 100  # internal: never the status of a result

SUMS = len(ClassSums)  # per class
# Lines of a tile: total, status, three ordinal scores and four reductions that `_second_pass` writes, the total before
# scaling (SIZE), then the class sums from FIRST on.
TOTAL_LINE, STATUS_LINE, ORDERED_LINE, AGAIN_LINE, SIZE_LINE, FIRST = 0, 1, 2, 5, 9, 10
# Above, the lanes are eight columns of one matrix. Sums of fractions have other bits there, those of counts have not.
MOST_LANE_CLASSES, MOST_LANE_CLASSES_OF_COUNTS = 32, 23
PREFETCHED_BYTES = 9600  # how far ahead of its use a cell is prefetched, at least two matrices
PREFETCHED_CELLS = 512  # how far ahead of its use a cell is prefetched where lanes are columns
LEAST_TRACED_CLASSES = 3  # matrices of fewer classes have fewer cells than a vector
MOST_TRANSPOSED = 256  # cells of a matrix transposed at a time: 16 KB of lines
MOST_COUNT = np.iinfo(np.int64).max
MOST_EXACT_TOTAL = MOST_EXACT_INTEGER - 1  # totals of counts up to which all sums are exact in float64


class Range(NamedTuple):
    """Totals of the common case; other totals, except 0, are unusual and take the general path."""

    least: float
    most: float


class Given(NamedTuple):
    """Sums passed instead of matrices, (n, C) each; `band` and `top` have no rows if no metric needs them."""

    d: Any
    t: Any
    p: Any
    band: Any
    top: Any


def count_tile_lines(C):
    """Return the number of lines of a tile."""
    return FIRST + SUMS * C


def aligned_lines(n):
    """Return `n` uninitialised lines of eight float64, aligned to cache lines."""
    numbers = np.empty((n + 1) * WIDTH)
    skip = -(find_address(numbers) // numbers.itemsize) % WIDTH
    return numbers[skip : skip + n * WIDTH].reshape(n, WIDTH)


def count_scratch_lines(C):
    """Return the number of scratch lines for summing: transposed cells of small matrices, or two rows of sums."""
    return MOST_TRANSPOSED if C <= MOST_LANE_CLASSES else C


def select_summing_kernel(M, C):
    """Return the kernel that sums matrices of `C` classes and the type of `M`."""
    most = MOST_LANE_CLASSES if M.dtype.kind == "f" else MOST_LANE_CLASSES_OF_COUNTS
    return sum_large_matrices if most < C else sum_small_matrices


@jit(inner=True, borrows=True)
def is_unusual(sums, at, usual):
    """Return whether a valid total of the tile is outside the common range."""
    n, status = load(sums, at + TOTAL_LINE), load(sums, at + STATUS_LINE)
    return some((status == float(OK)) & ((n > usual.most) | ((n > 0.0) & (n < usual.least))))


@jit(borrows=True)
def sum_small_matrices(M, C, ordered, usual, sums, cells, start, stop):
    """Sum matrices `start` to `stop` of up to 32 classes into tiles; return whether any total is unusual.

    Lanes after the last matrix repeat it. `cells` has the lines that `count_scratch_lines` returns.
    """
    usual = Range(*usual)
    unusual = False
    chunk = MOST_TRANSPOSED // C if C > 0 else 1
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        store(sums, at + TOTAL_LINE, splat(0.0))
        for k in range(at + FIRST + 3 * C, at + FIRST + (3 if ordered else 4) * C):
            store(sums, k, splat(0.0))
        store(sums, at + STATUS_LINE, splat(0.0))
        for begin in range(0, C, chunk):
            end = min(begin + chunk, C)
            if transpose_cells(M, first, stop - 1, begin * C, (end - begin) * C, cells):
                for k in range((end - begin) * C):
                    x, low = load(cells, k), load(sums, at + STATUS_LINE)
                    store(sums, at + STATUS_LINE, where(x < low, x, low))
            _add_columns(cells, C, begin, end, sums, at)
            _add_rows(M, first, cells, C, begin, end, sums, at)
            if ordered:
                _add_bands(cells, C, begin, end, sums, at)
        low, n = load(sums, at + STATUS_LINE), load(sums, at + TOTAL_LINE)
        status = where((low >= 0.0) & (n < np.inf), float(OK), splat(float(INVALID)))
        store(sums, at + STATUS_LINE, status)
        store(sums, at + SIZE_LINE, n)
        unusual = unusual or is_unusual(sums, at, usual)
    return unusual


@jit(inner=True, borrows=True)
def transpose_cells(M, first, last, column, count, cells):
    """Copy `count` cells of eight matrices, clamped at `last`, to lines; return whether any may be negative."""
    ahead, whole = first + max(2, PREFETCHED_BYTES // max(1, M.shape[1] * M.itemsize)), count == M.shape[1]
    if count < WIDTH:
        for k in range(count):
            prefetch(M, ahead, WIDTH * k)
            for w in range(WIDTH):
                cells[k, w] = M[min(first + w, last), column + k]
        return True
    # A first pass in memory order, with prefetches: the strided loads below would wait for every cache line.
    signs = splat(0.0)
    for w in range(WIDTH):
        for k in range(0, count, WIDTH):
            if whole:  # of parts of matrices the next are near, and prefetches would delay them
                prefetch(M, ahead + w, column + k)
            signs = collect_signs(signs, M, min(first + w, last), column + min(k, count - WIDTH))
    indices = (
        first,
        min(first + 1, last),
        min(first + 2, last),
        min(first + 3, last),
        min(first + 4, last),
        min(first + 5, last),
        min(first + 6, last),
        min(first + 7, last),
    )
    for k in range(0, count, WIDTH):
        c = min(k, count - WIDTH)  # the last block overlaps the one before
        load_block(cells, c, M, indices, column + c)
    return some_sign(signs)


@jit(inner=True, borrows=True)
def _add_columns(cells, C, begin, end, sums, at):
    """Add rows `begin` to `end` of eight matrices to their column sums, and store the part above the diagonal."""
    p, top = at + FIRST + 2 * C, at + FIRST + 4 * C
    for j in range(C):
        column = load(sums, p + j) if begin > 0 else splat(0.0)
        for i in range(begin, end):
            if i == j:
                store(sums, top + j, column)  # the part above the diagonal
            column = column + load(cells, (i - begin) * C + j)
        store(sums, p + j, column)


@jit(inner=True, borrows=True)
def _add_rows(M, first, cells, C, begin, end, sums, at):
    """Write the sums of rows `begin` to `end`, their diagonals and tops, and add them to the totals."""
    d, t, top = at + FIRST, at + FIRST + C, at + FIRST + 4 * C
    n = load(sums, at + TOTAL_LINE)
    for i in range(begin, end):
        row = splat(0.0)
        for j in range(C):
            # A cache line of the next eight matrices, which follow in memory.
            prefetch(M, first + WIDTH, WIDTH * (i * C + j))
            x = load(cells, (i - begin) * C + j)
            row = row + x
            if i == j:
                store(sums, d + i, x)
                store(sums, top + i, load(sums, top + i) + row)
        store(sums, t + i, row)
        n = n + row
    store(sums, at + TOTAL_LINE, n)


@jit(inner=True, borrows=True)
def _add_bands(cells, C, begin, end, sums, at):
    """Add rows `begin` to `end` to the sums by distance from the diagonal."""
    band = at + FIRST + 3 * C
    for away in range(C):
        mass = load(sums, band + away) if begin > 0 else splat(0.0)
        for i in range(begin, end):
            if i >= away:
                mass = mass + load(cells, (i - begin) * C + i - away)
            if 0 < away < C - i:
                mass = mass + load(cells, (i - begin) * C + i + away)
        store(sums, band + away, mass)


@jit(borrows=True)
def sum_large_matrices(M, C, ordered, usual, sums, scratch, start, stop):
    """Sum matrices of more than eight classes into tiles; return whether any total is unusual."""
    usual = Range(*usual)
    rows = scratch[:C].reshape(2, WIDTH // 2 * C)
    unusual = False
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        count = min(WIDTH, stop - first)
        for w in range(count):
            sum_rows(M, C, (first + w, 0, C, w), ordered, sums, at, rows)
        repeat_last_lane(sums, at, C, count)
        unusual = unusual or is_unusual(sums, at, usual)
    return unusual


@jit(inner=True, borrows=True)
def repeat_last_lane(sums, at, C, count):
    """Repeat the last of `count` matrices in the lanes after it."""
    for w in range(count, WIDTH):
        for k in range(FIRST + SUMS * C):
            sums[at + k, w] = sums[at + k, count - 1]


@jit(inner=True)
def sum_rows(M, C, place, ordered, sums, at, rows):
    """Sum some rows of a matrix of more than eight classes into a lane, eight columns at a time.

    `place` is the matrix, the first row, the row after the last, and the lane.
    """
    b, begin, end, w = place
    d = at + FIRST
    t, p, band, top = d + C, d + 2 * C, d + 3 * C, d + 4 * C
    lane = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    for k in range(2 * C):
        rows[0, k], rows[1, k] = 0.0, 0.0
    low, n = splat(0.0), 0.0
    # The sums of the last block of columns are apart: it overlaps the one before, whose store its load would wait for.
    whole, apart = C // WIDTH * WIDTH, -C % WIDTH
    for i in range(begin, end):
        above = rows[0, i + apart if i >= whole else i]  # sum of column i above the diagonal
        upto, beyond = splat(0.0), splat(0.0)
        for j in range(0, C, WIDTH):
            c = min(j, C - WIDTH)  # the last block overlaps the one before
            prefetch(M, b, i * C + j + PREFETCHED_CELLS)
            x = load_row(M, b, i * C + c)
            if c < j:
                x = where(lane >= float(j - c), x, 0.0)
            low = where(x < low, x, low)
            store_row(rows, 0, j, load_row(rows, 0, j) + x)
            if ordered:
                away = C - 1 - i + c
                store_row(rows, 1, away, load_row(rows, 1, away) + x)
            if c + WIDTH <= i:
                upto = upto + x
            elif c > i:
                beyond = beyond + x
            else:
                before = lane <= float(i - c)
                upto = upto + where(before, x, 0.0)
                beyond = beyond + where(before, 0.0, x)
        left, right = total(upto), total(beyond)
        sums[d + i, w] = M[b, i * C + i]
        sums[top + i, w] = above + left
        sums[t + i, w] = left + right
        n += left + right
    for k in range(C):
        sums[p + k, w] = rows[0, k + apart if k >= whole else k]
        sums[band + k, w] = rows[1, C - 1 + k] + (rows[1, C - 1 - k] if k > 0 else 0.0)
    sums[at + TOTAL_LINE, w], sums[at + SIZE_LINE, w] = n, n
    # n is NaN where a cell is
    sums[at + STATUS_LINE, w] = OK if n < np.inf and not some(low < 0.0) else INVALID


@jit(borrows=True)
def sum_traces(M, C, sums, start, stop):
    """Sum counts of at least three classes into tiles of one class: all, and those on the diagonal as its own.

    Return whether any total is inexact in float64.
    """
    size, inexact = FIRST + SUMS, False
    for first in range(start, stop, WIDTH):
        at, count = (first - start) // WIDTH * size, min(WIDTH, stop - first)
        for w in range(count):
            n, right, status = _sum_trace(M, first + w, C)
            inexact = inexact or (status == OK and n > MOST_EXACT_TOTAL)
            _store_trace(sums, at, w, n, right, status)
        repeat_last_lane(sums, at, 1, count)
    return inexact


@jit(borrows=True)
def sum_traces_of_floats(M, C, sums, start, stop):
    """Sum counts as :func:`sum_traces` does, of float matrices; those that hold other numbers are INVALID."""
    size, inexact = FIRST + SUMS, False
    for first in range(start, stop, WIDTH):
        at, count = (first - start) // WIDTH * size, min(WIDTH, stop - first)
        for w in range(count):
            n, whole = _sum_whole_cells(M, first + w, C * C)
            right, status = 0.0, OK if whole and n < np.inf else INVALID
            for k in range(C):
                right += M[first + w, k * C + k]
            inexact = inexact or (status == OK and n > MOST_EXACT_TOTAL)
            _store_trace(sums, at, w, n, right, status)
        repeat_last_lane(sums, at, 1, count)
    return inexact


@jit(inner=True, borrows=True)
def _store_trace(sums, at, w, n, right, status):
    """Write the total, the sum of the diagonal and the status of a matrix to a lane of a tile of one class."""
    sums[at + TOTAL_LINE, w], sums[at + SIZE_LINE, w], sums[at + STATUS_LINE, w] = n, n, status
    sums[at + FIRST, w], sums[at + FIRST + 1, w], sums[at + FIRST + 2, w] = right, n, n


@jit(inner=True, borrows=True)
def _sum_trace(M, b, C):
    """Return the sum of all counts of matrix `b` in float64, that of the diagonal, and the status."""
    n, negative = _sum_cells(M, b, C * C)
    right = np.int64(0)
    for k in range(C):
        right += M[b, k * C + k]
    return n, right, INVALID if negative else OK


@jit(inner=True, borrows=True)
def _sum_cells(M, b, cells):
    """Return the sum of at least eight counts of matrix `b`, in float64, and whether any is negative."""
    w, x, y, z = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    even, odd = splat(0.0), splat(0.0)
    whole = cells // (4 * WIDTH) * (4 * WIDTH)
    for k in range(0, whole, 4 * WIDTH):
        w, x = w + load_row(M, b, k), x + load_row(M, b, k + WIDTH)
        y, z = y + load_row(M, b, k + 2 * WIDTH), z + load_row(M, b, k + 3 * WIDTH)
        even, odd = collect_signs(even, M, b, k), collect_signs(odd, M, b, k + WIDTH)
        even, odd = collect_signs(even, M, b, k + 2 * WIDTH), collect_signs(odd, M, b, k + 3 * WIDTH)
    lane = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    for k in range(whole, cells, WIDTH):
        c = min(k, cells - WIDTH)  # the last block overlaps the one before
        w, even = w + where(lane >= float(k - c), load_row(M, b, c), 0.0), collect_signs(even, M, b, c)
    return total((w + x) + (y + z)), some_sign(even) or some_sign(odd)


@jit(inner=True, borrows=True)
def _sum_whole_cells(M, b, cells):
    """Return the sum of at least eight cells of matrix `b`, and whether all are whole numbers from 0 on."""
    v, x, odd, even = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    whole = cells // (2 * WIDTH) * (2 * WIDTH)
    for k in range(0, whole, 2 * WIDTH):
        y, z = load_row(M, b, k), load_row(M, b, k + WIDTH)
        v, even = v + y, where((y == floor(y)) & (y >= 0.0), even, 1.0)
        x, odd = x + z, where((z == floor(z)) & (z >= 0.0), odd, 1.0)
    lane = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    for k in range(whole, cells, WIDTH):
        c = min(k, cells - WIDTH)  # the last block overlaps the one before
        y = load_row(M, b, c)
        v, even = v + where(lane >= float(k - c), y, 0.0), where((y == floor(y)) & (y >= 0.0), even, 1.0)
    return total(v + x), not some(even + odd > 0.0)


@jit(borrows=True)
def sum_huge_matrices(M, C, most, sums, start, stop):
    """Replace the sums of counts with totals above `most` by int64, and set their status to HUGE."""
    whole = sums.view(np.int64)
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        for w in range(WIDTH):
            n = sums[at + TOTAL_LINE, w]
            if n > most and sums[at + STATUS_LINE, w] == OK:
                status = HUGE
                if n > MOST_EXACT_TOTAL:
                    status = _sum_exactly(M, min(first + w, stop - 1), C, w, whole, at)
                else:
                    whole[at + TOTAL_LINE, w] = np.int64(n)
                    for k in range(at + FIRST, at + FIRST + SUMS * C):
                        whole[k, w] = np.int64(sums[k, w])
                sums[at + STATUS_LINE, w] = status


@jit(inner=True, borrows=True)
def _sum_exactly(M, b, C, w, whole, at):
    """Write the int64 sums of nonnegative counts to lane `w`; return HUGE, or INVALID on overflow."""
    left = np.int64(MOST_COUNT)
    for c in range(C * C):
        if M[b, c] > left:
            return INVALID
        left -= np.int64(M[b, c])
    d = at + FIRST
    for k in range(SUMS * C):
        whole[d + k, w] = 0
    for i in range(C):
        for j in range(C):
            x = np.int64(M[b, i * C + j])
            whole[d + C + i, w] += x
            whole[d + 2 * C + j, w] += x
            whole[d + 3 * C + abs(i - j), w] += x
            whole[d + 4 * C + max(i, j), w] += x
        whole[d + i, w] = np.int64(M[b, i * C + i])
    whole[at + TOTAL_LINE, w] = MOST_COUNT - left
    return HUGE


@jit(borrows=True)
def load_sums(given, exact, usual, sums, start, stop):
    """Copy sums that the caller passed into tiles, and validate them; return whether any total is unusual.

    Sums that no matrix can have are INVALID. Lanes after the last matrix repeat it.
    """
    given, usual = Given(*given), Range(*usual)
    C = given.t.shape[1]
    unusual = False
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        for w in range(WIDTH):
            _copy_sums(given, exact, usual.most, min(first + w, stop - 1), w, sums, at)
        unusual = unusual or is_unusual(sums, at, usual) or some(load(sums, at + STATUS_LINE) == float(HUGE))
    return unusual


@jit(inner=True, borrows=True)
def _copy_sums(given, exact, most, b, w, sums, at):
    """Validate the sums of matrix `b` and copy them to lane `w`, as int64 if the total is huge."""
    d, t, p, band, top = given
    C, whole, zero = t.shape[1], sums.view(np.int64), t.dtype.type(0)
    n, ok = judge_sums(given, exact, b)
    wide = exact and ok and n > most
    sums[at + STATUS_LINE, w], sums[at + SIZE_LINE, w] = HUGE if wide else OK if ok else INVALID, n
    if wide:
        whole[at + TOTAL_LINE, w] = np.int64(n)
    else:
        sums[at + TOTAL_LINE, w] = n
    for k in range(C):
        five = d[b, k], t[b, k], p[b, k], band[b, k] if len(band) > 0 else zero, top[b, k] if len(top) > 0 else zero
        for part in range(SUMS):
            if wide:
                whole[at + FIRST + part * C + k, w] = np.int64(five[part])
            else:
                sums[at + FIRST + part * C + k, w] = five[part]


@jit(inner=True, borrows=True)
def judge_sums(given, exact, b):
    """Return the total of matrix `b`, and whether its sums are those of a matrix.

    Where a single class is predicted its sum is the total: that of the truths may be rounded otherwise, and the
    difference would be taken for predictions of other classes.
    """
    d, t, p, band, top = given
    C, zero = t.shape[1], t.dtype.type(0)
    slack = 0.0 if exact else 1e-9  # the margins of a fractional matrix are rounded, each in its own order
    n, others, predicted = zero, zero, 0
    ok = True
    for k in range(C):
        ok = ok and d[b, k] >= zero and t[b, k] >= zero and p[b, k] >= zero
        ok = ok and not (exact and (t[b, k] > MOST_COUNT - n or p[b, k] > MOST_COUNT - others))
        n += t[b, k]
        others += p[b, k]
        predicted += p[b, k] > zero
    for k in range(C):
        rest = min(t[b, k] - d[b, k], p[b, k] - d[b, k], (n - t[b, k]) - (p[b, k] - d[b, k]))
        ok = ok and rest >= -slack * n
    ok = ok and n - n == zero and abs(n - others) <= slack * n
    ok = ok and _has_sum(band, b, n, slack) and _has_sum(top, b, n, slack)
    return others if predicted == 1 else n, ok


@jit(inner=True, borrows=True)
def _has_sum(parts, b, n, slack):
    """Return whether the parts (bands or tops) of matrix `b` are nonnegative and sum to `n`; true if absent."""
    if len(parts) == 0:
        return True
    left = n
    for k in range(parts.shape[1]):
        if not (parts[b, k] >= 0 and left - parts[b, k] >= -slack * n):
            return False
        left -= parts[b, k]
    return left <= slack * n


@jit(borrows=True)
def rescale_sums(sums, C, usual):
    """Divide fractional sums with totals far from one by a power of two, in place; no metric changes."""
    usual = Range(*usual)
    for at in range(0, len(sums), FIRST + SUMS * C):
        for w in range(WIDTH):
            n = sums[at + TOTAL_LINE, w]
            if sums[at + STATUS_LINE, w] == OK and (n > usual.most or 0.0 < n < usual.least):
                _, exponent = math.frexp(n)
                sums[at + TOTAL_LINE, w] = math.ldexp(n, -exponent)
                for k in range(at + FIRST, at + FIRST + SUMS * C):
                    sums[k, w] = math.ldexp(sums[k, w], -exponent)
