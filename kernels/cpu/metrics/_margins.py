"""From matrices to the sums that every metric is made of, eight matrices at a time.

The sums of eight matrices are `sums`, lines of eight numbers, one a matrix: C each of diagonal, row sums, column sums,
bands and tops, then the total and the status. All are float64, in which counts are exact up to a total that the caller
names; a matrix of counts beyond it has the status WIDE, and int64 in the same places (`whole`, the same memory).
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
    new_lines,
    pack,
    some,
    splat,
    store,
    store_row,
    where,
)
from cmfast.kernels.shared.metrics import Sums
from cmfast.kernels.status import INVALID, OK

WIDE = 100  # no status of a result

SUMS = len(Sums)  # of one class
NARROW = 32  # classes up to which lanes are matrices; beyond, a row of one matrix fills them as well
CHUNK = 256  # cells of a matrix that are transposed at a time: 16 KB of lines
MOST = np.iinfo(np.int64).max
EXACT = 2**53 - 1  # totals of counts up to which all sums are exact in float64


class Demands(NamedTuple):
    """What is asked of sums: bands and tops (`ordered`), and of counts (`exact`) integers beyond a total of `limit`."""

    ordered: bool
    exact: bool
    limit: float


class Given(NamedTuple):
    """Sums of matrices that come without them, (n, C) each; `band` and `top` have no rows where nobody needs them."""

    d: Any
    t: Any
    p: Any
    band: Any
    top: Any


@jit(inline=True)
def total_line(C):
    """Return the line of the totals."""
    return SUMS * C


@jit(inline=True)
def status_line(C):
    """Return the line of the statuses, the last one."""
    return SUMS * C + 1


@jit(inline=True)
def classes_of(sums):
    """Return how many classes the lines of `sums` (tile, line, lane) are for."""
    return (sums.shape[1] - 2) // SUMS


@jit(inline=True)
def new_scratch(C):
    """Return the memory that `load_tile` works in: CHUNK lines or those of C cells, and three rows of 2 C numbers."""
    return new_lines(max(CHUNK, C)), np.empty((3, max(WIDTH, 2 * C)))


@jit(inline=True)
def load_tile(M, C, first, last, demands, sums, scratch):
    """Fill `sums` with those of the matrices `first` to `last` (at most eight), each a row of `M`.

    Lanes past `last` repeat it. `scratch` is from `new_scratch`.
    """
    ordered, exact, limit = demands
    cells, rows = scratch
    whole = sums.view(np.int64)
    if C <= NARROW:
        # The next eight: their rows are read side by side, which no processor sees as one stream.
        for k in range(0, WIDTH * C * C, 64 // M.itemsize):
            fetch(M, first + WIDTH, k)
        _sum_eight(M, C, first, last, ordered, sums, cells)
    else:
        for w in range(last - first + 1):
            _sum_one(M, C, first + w, w, ordered, sums, rows)
        for w in range(last - first + 1, WIDTH):
            sums[:, w] = sums[:, last - first]
    total, status = load(sums, total_line(C)), load(sums, status_line(C))
    if exact and some((total > limit) & (status == OK)):
        for w in range(WIDTH):
            if sums[total_line(C), w] > limit and sums[status_line(C), w] == OK:
                if sums[total_line(C), w] > EXACT:
                    sums[status_line(C), w] = _sum_exactly(M[min(first + w, last)], C, w, whole)
                else:
                    for k in range(status_line(C)):
                        whole[k, w] = np.int64(sums[k, w])
                    sums[status_line(C), w] = WIDE


@jit(inline=True)
def _sum_eight(M, C, first, last, ordered, S, cells):
    d, t, p, band, top, total = 0, C, 2 * C, 3 * C, 4 * C, total_line(C)
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
    for k in range(p, top):
        store(S, k, splat(0.0))
    low, n = splat(0.0), splat(0.0)
    chunk = max(1, CHUNK // max(1, C))
    for begin in range(0, C, chunk):
        end = min(begin + chunk, C)
        _transpose(M, places, begin * C, (end - begin) * C, cells)
        for i in range(begin, end):
            base = (i - begin) * C
            above = load(S, p + i)  # of column i, the part above the diagonal
            row = splat(0.0)
            for j in range(i + 1):
                x = load(cells, base + j)
                low = where(x < low, x, low)
                row = row + x
                store(S, p + j, load(S, p + j) + x)
                if ordered:
                    store(S, band + i - j, load(S, band + i - j) + x)
            store(S, d + i, load(cells, base + i))
            store(S, top + i, above + row)
            for j in range(i + 1, C):
                x = load(cells, base + j)
                low = where(x < low, x, low)
                row = row + x
                store(S, p + j, load(S, p + j) + x)
                if ordered:
                    store(S, band + j - i, load(S, band + j - i) + x)
            store(S, t + i, row)
            n = n + row
    store(S, total, n)
    store(S, status_line(C), where((low >= 0.0) & (n < np.inf), float(OK), splat(float(INVALID))))


@jit(inner=True)
def _transpose(M, places, column, count, cells):
    """Bring `count` cells of eight matrices side by side."""
    if count < WIDTH:
        for k in range(count):
            for w in range(WIDTH):
                cells[k, w] = M[places[w], column + k]
        return
    for k in range(0, count, WIDTH):
        c = min(k, count - WIDTH)  # the last block overlaps the one before
        load_block(cells, c, M, places, column + c)


@jit(inner=True)
def _sum_one(M, C, b, w, ordered, S, rows):
    """Sum one matrix of more than eight classes, eight columns at a time: `rows` is scratch."""
    d, t, p, band, top, total = 0, C, 2 * C, 3 * C, 4 * C, total_line(C)
    lane = pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    rows[:, :] = 0.0
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
                at = C - 1 - i + c
                store_row(rows, 1, at, load_row(rows, 1, at) + x)
            if c + WIDTH <= i:
                upto = upto + x
            elif c > i:
                beyond = beyond + x
            else:
                before = lane <= float(i - c)
                upto = upto + where(before, x, 0.0)
                beyond = beyond + where(before, 0.0, x)
        left, right = _across(rows, upto), _across(rows, beyond)
        S[d + i, w] = M[b, i * C + i]
        S[top + i, w] = above + left
        S[t + i, w] = left + right
        n += left + right
    for k in range(C):
        S[p + k, w] = rows[0, k]
        S[band + k, w] = rows[1, C - 1 + k] + (rows[1, C - 1 - k] if k > 0 else 0.0)
    S[total, w] = n
    S[status_line(C), w] = OK if n < np.inf and not some(low < 0.0) else INVALID  # n is NaN where a cell is


@jit(inner=True)
def _across(rows, x):
    """Return the sum of the numbers of a vector."""
    store_row(rows, 2, 0, x)
    a = rows[2]
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))


@jit(inner=True)
def _sum_exactly(m, C, w, whole):
    """Fill lane `w` with the sums of nonnegative counts, in int64; return WIDE, or INVALID if the total exceeds it."""
    left = np.int64(MOST)
    for c in range(C * C):
        if m[c] > left:
            return INVALID
        left -= np.int64(m[c])
    for k in range(total_line(C)):
        whole[k, w] = 0
    for i in range(C):
        for j in range(C):
            x = np.int64(m[i * C + j])
            whole[C + i, w] += x
            whole[2 * C + j, w] += x
            whole[3 * C + abs(i - j), w] += x
            whole[4 * C + max(i, j), w] += x
        whole[i, w] = np.int64(m[i * C + i])
    whole[total_line(C), w] = MOST - left
    return WIDE


@jit(inline=True)
def load_sums(given, b, w, demands, sums):
    """Fill lane `w` with the given sums of matrix `b`, and mark those that no matrix can have."""
    d, t, p, band, top = given
    exact, limit = demands.exact, demands.limit
    whole = sums.view(np.int64)
    C = t.shape[1]
    zero = t.dtype.type(0)
    slack = 0.0 if exact else 1e-9  # the margins of a fractional matrix are rounded, each in its own order
    n, others = zero, zero
    ok = True
    for k in range(C):
        ok = ok and d[b, k] >= zero and t[b, k] >= zero and p[b, k] >= zero
        ok = ok and not (exact and (t[b, k] > MOST - n or p[b, k] > MOST - others))
        n += t[b, k]
        others += p[b, k]
    for k in range(C):
        rest = min(t[b, k] - d[b, k], p[b, k] - d[b, k], (n - t[b, k]) - (p[b, k] - d[b, k]))
        ok = ok and rest >= -slack * n
    ok = ok and n - n == zero and abs(n - others) <= slack * n
    ok = ok and (band.shape[0] == 0 or _adds_up(band[b], n, slack))
    ok = ok and (top.shape[0] == 0 or _adds_up(top[b], n, slack))
    wide = exact and ok and n > limit
    sums[status_line(C), w] = WIDE if wide else OK if ok else INVALID
    if wide:
        whole[total_line(C), w] = np.int64(n)
        for k in range(C):
            whole[k, w], whole[C + k, w], whole[2 * C + k, w] = np.int64(d[b, k]), np.int64(t[b, k]), np.int64(p[b, k])
            whole[3 * C + k, w] = np.int64(band[b, k]) if band.shape[0] > 0 else 0
            whole[4 * C + k, w] = np.int64(top[b, k]) if top.shape[0] > 0 else 0
    else:
        sums[total_line(C), w] = n
        for k in range(C):
            sums[k, w], sums[C + k, w], sums[2 * C + k, w] = d[b, k], t[b, k], p[b, k]
            sums[3 * C + k, w] = band[b, k] if band.shape[0] > 0 else zero
            sums[4 * C + k, w] = top[b, k] if top.shape[0] > 0 else zero


@jit()
def _adds_up(part, n, slack):
    left = n
    for k in range(part.shape[0]):
        if not (part[k] >= 0 and left - part[k] >= -slack * n):
            return False
        left -= part[k]
    return left <= slack * n


@jit(inner=True)
def bring_near(sums, C):
    """Divide fractional sums far from one by a power of two, which changes no metric: their products stay in range."""
    for w in range(WIDTH):
        total = sums[total_line(C), w]
        if sums[status_line(C), w] == OK and (total > 1e70 or 0.0 < total < 1e-70):
            _, exponent = math.frexp(total)
            for k in range(status_line(C)):
                sums[k, w] = math.ldexp(sums[k, w], -exponent)
