"""From matrices to the sums that every metric is made of, eight matrices at a time.

The sums of eight matrices are a tile of lines of eight numbers, one a matrix: the total, the status and a few others,
then C each of diagonal, row sums, column sums, bands and tops. Tiles follow each other in `sums`. All are float64, in
which counts are exact up to a total that the caller names; a matrix of counts beyond it has the status HUGE, and int64
in the same places.

What no usual matrix needs is a kernel of its own, which the caller runs where it is told that a total is `unusual`: it
is compiled when it is first met.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    fetch,
    load,
    load_block,
    load_row,
    pack,
    some,
    splat,
    store,
    store_row,
    total,
    where,
)
from cmfast.kernels.shared.limits import MOST_EXACT_INTEGER
from cmfast.kernels.shared.metrics import ClassSums
from cmfast.kernels.status import INVALID, OK

HUGE = 100  # no status of a result

SUMS = len(ClassSums)  # of one class
# Lines of a tile: what `_passes` makes (three numbers that depend on the order of the classes, four that need another
# pass over them) stands before those of the classes, which begin at FIRST. SIZE is the total as it was given, which
# `bring_near` leaves alone.
TOTAL_LINE, STATUS_LINE, ORDERED_LINE, AGAIN_LINE, SIZE_LINE, FIRST = 0, 1, 2, 5, 9, 10
MOST_LANE_CLASSES = 32  # classes up to which lanes are matrices; beyond, a row of one matrix fills them as well
MOST_TRANSPOSED = 256  # cells of a matrix that are transposed at a time: 16 KB of lines
MOST_COUNT = np.iinfo(np.int64).max
MOST_EXACT_TOTAL = MOST_EXACT_INTEGER - 1  # totals of counts up to which all sums are exact in float64


class Range(NamedTuple):
    """Totals between which nothing more need be done; those beside it, but for 0, are unusual."""

    least: float
    most: float


class Given(NamedTuple):
    """Sums of matrices that come without them, (n, C) each; `band` and `top` have no rows where nobody needs them."""

    d: Any
    t: Any
    p: Any
    band: Any
    top: Any


def lines_of(C):
    """Return the lines of a tile."""
    return FIRST + SUMS * C


def aligned_lines(n):
    """Return `n` lines, none of which lies across two cache lines."""
    numbers = np.empty((n + 1) * WIDTH)
    skip = -(numbers.__array_interface__["data"][0] // numbers.itemsize) % WIDTH
    return numbers[skip : skip + n * WIDTH].reshape(n, WIDTH)


def scratch_lines(C):
    """Return how many lines `load_few` and `load_many` work in: transposed cells, or two rows of sums."""
    return MOST_TRANSPOSED if C <= MOST_LANE_CLASSES else C


@jit(inner=True, borrows=True)
def _is_unusual(sums, at, usual):
    n, status = load(sums, at + TOTAL_LINE), load(sums, at + STATUS_LINE)
    return some((status == float(OK)) & ((n > usual.most) | ((n > 0.0) & (n < usual.least))))


@jit(borrows=True)
def load_few(M, C, ordered, usual, sums, cells, start, stop):
    """Fill `sums` with those of the rows of `M` from `start` to `stop`; return whether a total is unusual.

    For matrices of at most MOST_LANE_CLASSES classes. The lanes past the last matrix repeat it. `cells` has as many
    lines as `scratch_lines` says.
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
            if transpose(M, first, stop - 1, begin * C, (end - begin) * C, cells):
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
        unusual = unusual or _is_unusual(sums, at, usual)
    return unusual


@jit(inner=True, borrows=True)
def transpose(M, first, last, column, count, cells):
    """Bring `count` cells of eight matrices, none beyond `last`, side by side; return whether any may be negative."""
    if count < WIDTH:
        for k in range(count):
            for w in range(WIDTH):
                cells[k, w] = M[min(first + w, last), column + k]
        return True
    # In the order of the memory first, which the processor foresees: read side by side, every line would be waited for.
    least = splat(0.0)
    for w in range(WIDTH):
        for k in range(0, count, WIDTH):
            x = load_row(M, min(first + w, last), column + min(k, count - WIDTH))
            least = where(x < least, x, least)
    places = (
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
        load_block(cells, c, M, places, column + c)
    return some(least < 0.0)


@jit(inner=True, borrows=True)
def _add_columns(cells, C, begin, end, sums, at):
    """Add the rows of eight matrices from `begin` to `end` to their column sums."""
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
    """Fill the sums of the rows from `begin` to `end`, after those of the columns."""
    d, t, top = at + FIRST, at + FIRST + C, at + FIRST + 4 * C
    n = load(sums, at + TOTAL_LINE)
    for i in range(begin, end):
        row = splat(0.0)
        for j in range(C):
            fetch(M, first + WIDTH, WIDTH * (i * C + j))  # one of the next eight, which lie there in this order
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
    """Add the rows from `begin` to `end` to the mass at each distance from the diagonal."""
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
def load_many(M, C, ordered, usual, sums, scratch, start, stop):
    """Do as `load_few` for matrices of more than MOST_LANE_CLASSES classes."""
    usual = Range(*usual)
    rows = scratch.reshape(2, WIDTH // 2 * C)
    unusual = False
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        count = min(WIDTH, stop - first)
        for w in range(count):
            _sum_one(M, C, first + w, w, ordered, sums, at, rows)
        for w in range(count, WIDTH):
            for k in range(FIRST + SUMS * C):
                sums[at + k, w] = sums[at + k, count - 1]
        unusual = unusual or _is_unusual(sums, at, usual)
    return unusual


@jit(inner=True)
def _sum_one(M, C, b, w, ordered, sums, at, rows):
    """Sum one matrix of more than eight classes, eight columns at a time: `rows` is scratch."""
    d = at + FIRST
    t, p, band, top = d + C, d + 2 * C, d + 3 * C, d + 4 * C
    lane = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    for k in range(2 * C):
        rows[0, k], rows[1, k] = 0.0, 0.0
    low, n = splat(0.0), 0.0
    for i in range(C):
        above = rows[0, i]  # of column i, the part above the diagonal
        upto, beyond = splat(0.0), splat(0.0)
        for j in range(0, C, WIDTH):
            c = min(j, C - WIDTH)  # the last block overlaps the one before
            x = load_row(M, b, i * C + c)
            if c < j:
                x = where(lane >= float(j - c), x, 0.0)
            low = where(x < low, x, low)
            store_row(rows, 0, c, load_row(rows, 0, c) + x)
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
        sums[p + k, w] = rows[0, k]
        sums[band + k, w] = rows[1, C - 1 + k] + (rows[1, C - 1 - k] if k > 0 else 0.0)
    sums[at + TOTAL_LINE, w], sums[at + SIZE_LINE, w] = n, n
    # n is NaN where a cell is
    sums[at + STATUS_LINE, w] = OK if n < np.inf and not some(low < 0.0) else INVALID


@jit(borrows=True)
def load_exactly(M, C, most, sums, start, stop):
    """Put int64 in place of the sums of matrices of counts whose total is beyond `most`, and HUGE as their status."""
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
    """Fill lane `w` with the sums of nonnegative counts, in int64; return HUGE, or INVALID if the total exceeds it."""
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
    """Fill `sums` with those that are given; return whether a total is unusual.

    What no matrix can have is INVALID. The lanes past the last matrix repeat it.
    """
    given, usual = Given(*given), Range(*usual)
    C = given.t.shape[1]
    unusual = False
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        for w in range(WIDTH):
            _load_given(given, exact, usual.most, min(first + w, stop - 1), w, sums, at)
        unusual = unusual or _is_unusual(sums, at, usual) or some(load(sums, at + STATUS_LINE) == float(HUGE))
    return unusual


@jit(inner=True, borrows=True)
def _load_given(given, exact, most, b, w, sums, at):
    d, t, p, band, top = given
    C, whole = t.shape[1], sums.view(np.int64)
    zero = t.dtype.type(0)
    slack = 0.0 if exact else 1e-9  # the margins of a fractional matrix are rounded, each in its own order
    n, others = zero, zero
    ok = True
    for k in range(C):
        ok = ok and d[b, k] >= zero and t[b, k] >= zero and p[b, k] >= zero
        ok = ok and not (exact and (t[b, k] > MOST_COUNT - n or p[b, k] > MOST_COUNT - others))
        n += t[b, k]
        others += p[b, k]
    for k in range(C):
        rest = min(t[b, k] - d[b, k], p[b, k] - d[b, k], (n - t[b, k]) - (p[b, k] - d[b, k]))
        ok = ok and rest >= -slack * n
    ok = ok and n - n == zero and abs(n - others) <= slack * n
    ok = ok and _adds_up(band, b, n, slack) and _adds_up(top, b, n, slack)
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
def _adds_up(parts, b, n, slack):
    """Whether the mass of matrix `b` in `parts` is all there is; they may have no rows."""
    if len(parts) == 0:
        return True
    left = n
    for k in range(parts.shape[1]):
        if not (parts[b, k] >= 0 and left - parts[b, k] >= -slack * n):
            return False
        left -= parts[b, k]
    return left <= slack * n


@jit(borrows=True)
def bring_near(sums, C, usual):
    """Divide fractional sums far from one by a power of two, which changes no metric: their products stay in range."""
    usual = Range(*usual)
    for at in range(0, len(sums), FIRST + SUMS * C):
        for w in range(WIDTH):
            n = sums[at + TOTAL_LINE, w]
            if sums[at + STATUS_LINE, w] == OK and (n > usual.most or 0.0 < n < usual.least):
                _, exponent = math.frexp(n)
                sums[at + TOTAL_LINE, w] = math.ldexp(n, -exponent)
                for k in range(at + FIRST, at + FIRST + SUMS * C):
                    sums[k, w] = math.ldexp(sums[k, w], -exponent)
