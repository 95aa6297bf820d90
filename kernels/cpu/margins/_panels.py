"""Roots of symmetric matrices of hundreds of unknowns, by panels of sixteen columns, in one thread.

Libraries would use several threads for so little work, which makes it slower, by far where others are busy too; and
what they return depends on how many. A panel holds its columns row after row: a line of eight numbers and another one.
"""

import math

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, new_lines, splat, store, total

COLUMNS = 2 * WIDTH  # of a panel
ROWS = 4  # that are worked on at a time, in registers
DEPTH = 16 * COLUMNS  # rows that all others are rid of before the next: of a panel they stay in the fastest memory


@jit()
def new_panels(n):
    """Return room for `n` rows and columns, or a few more so that panels are full."""
    n_panels = (n + COLUMNS - 1) // COLUMNS
    lines = new_lines(2 * n_panels * n_panels * COLUMNS)
    lines[:] = 0.0
    return lines


@jit(inner=True, inline=True)
def line_of(n, row, column):
    """Return the line of a number, in panels of `n` rows; it stands at the remainder of its column by eight."""
    return 2 * (column // COLUMNS * n + row) + column // WIDTH % 2


@jit(inner=True, borrows=True)
def panels_root(S, n):
    """Replace the upper triangle of a matrix by its root, or return that it has none; `n` fills panels.

    The diagonal becomes one over that of the root. What is below it, within the sixteen columns, is of no meaning.
    """
    for first in range(0, n, DEPTH):
        stop = min(first + DEPTH, n)
        for column in range(first, n, COLUMNS):
            own = line_of(n, 0, column)
            for row in range(first, min(column, stop), ROWS):
                _take_away(S, n, own, row, first, row)
                _divide(S, n, own, row)
            for row in range(column, min(column + COLUMNS, stop), ROWS):
                _take_away(S, n, own, row, first, row)
                if not _finish_rows(S, own, column, row):
                    return False
            for row in range(stop, column + COLUMNS, ROWS):
                _take_away(S, n, own, row, first, stop)
    return True


@jit(inner=True, borrows=True)
def _take_away(S, n, own, row, start, stop):
    """Take from four rows of a panel what rows of the root before them add to these."""
    other, first = line_of(n, 0, row), row % WIDTH
    at = own + 2 * row
    a, b, c, d = load(S, at), load(S, at + 2), load(S, at + 4), load(S, at + 6)
    e, f, g, h = load(S, at + 1), load(S, at + 3), load(S, at + 5), load(S, at + 7)
    for k in range(start, stop):
        x, y, of = load(S, own + 2 * k), load(S, own + 2 * k + 1), other + 2 * k
        part = splat(-S[of, first])
        a, e = fma(part, x, a), fma(part, y, e)
        part = splat(-S[of, first + 1])
        b, f = fma(part, x, b), fma(part, y, f)
        part = splat(-S[of, first + 2])
        c, g = fma(part, x, c), fma(part, y, g)
        part = splat(-S[of, first + 3])
        d, h = fma(part, x, d), fma(part, y, h)
    store(S, at, a)
    store(S, at + 2, b)
    store(S, at + 4, c)
    store(S, at + 6, d)
    store(S, at + 1, e)
    store(S, at + 3, f)
    store(S, at + 5, g)
    store(S, at + 7, h)


@jit(inner=True, borrows=True)
def _divide(S, n, own, row):
    """Solve for four rows of a panel, by the root of their own columns."""
    other, first = line_of(n, row, row), row % WIDTH
    for r in range(ROWS):
        at = own + 2 * (row + r)
        x, y = load(S, at), load(S, at + 1)
        for k in range(r):
            part = splat(-S[other + 2 * k, first + r])
            x, y = fma(part, load(S, own + 2 * (row + k)), x), fma(part, load(S, own + 2 * (row + k) + 1), y)
        inverse = splat(S[other + 2 * r, first + r])
        store(S, at, x * inverse)
        store(S, at + 1, y * inverse)


@jit(inner=True, borrows=True)
def _finish_rows(S, own, column, row):
    """Do so for four rows that meet the diagonal; return whether they have a root."""
    half, first = (row - column) // WIDTH, row % WIDTH
    for r in range(ROWS):
        at = own + 2 * (row + r)
        x, y = load(S, at), load(S, at + 1)
        for k in range(r):
            part = splat(-S[own + 2 * (row + k) + half, first + r])
            x, y = fma(part, load(S, own + 2 * (row + k)), x), fma(part, load(S, own + 2 * (row + k) + 1), y)
        store(S, at, x)
        store(S, at + 1, y)
        pivot = S[at + half, first + r]
        if not pivot > 0.0:
            return False
        inverse = 1.0 / math.sqrt(pivot)
        store(S, at, x * splat(inverse))
        store(S, at + 1, y * splat(inverse))
        S[at + half, first + r] = inverse
    return True


@jit(inner=True, borrows=True)
def panels_solve(S, n, b):
    """Solve by such a root, in place; `b` has `n` numbers, as lines."""
    for column in range(0, n, COLUMNS):
        own, at = line_of(n, 0, column), column // WIDTH
        x, y = load(b, at), load(b, at + 1)
        for k in range(column):
            part = splat(-b[k // WIDTH, k % WIDTH])
            x, y = fma(part, load(S, own + 2 * k), x), fma(part, load(S, own + 2 * k + 1), y)
        store(b, at, x)
        store(b, at + 1, y)
        for i in range(COLUMNS):
            value = b[at + i // WIDTH, i % WIDTH] * S[own + 2 * (column + i) + i // WIDTH, i % WIDTH]
            b[at + i // WIDTH, i % WIDTH] = value
            for j in range(i + 1, COLUMNS):
                b[at + j // WIDTH, j % WIDTH] -= S[own + 2 * (column + i) + j // WIDTH, j % WIDTH] * value
    for column in range(n - COLUMNS, -1, -COLUMNS):
        own, at = line_of(n, 0, column), column // WIDTH
        for i in range(COLUMNS - 1, -1, -1):
            value = b[at + i // WIDTH, i % WIDTH]
            for j in range(i + 1, COLUMNS):
                value -= S[own + 2 * (column + i) + j // WIDTH, j % WIDTH] * b[at + j // WIDTH, j % WIDTH]
            b[at + i // WIDTH, i % WIDTH] = value * S[own + 2 * (column + i) + i // WIDTH, i % WIDTH]
        x, y = load(b, at), load(b, at + 1)
        for k in range(column):
            b[k // WIDTH, k % WIDTH] -= total(fma(x, load(S, own + 2 * k), y * load(S, own + 2 * k + 1)))
