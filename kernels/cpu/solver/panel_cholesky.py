"""Blocked Cholesky factorisation A = U'U for a few hundred unknowns, single-threaded, by panels of 16 columns.

LAPACK uses two threads for so little work and took .3 to 4.9 s for .02 s of it on a busy machine; its bits depend on
the number of threads. A panel stores its columns row after row, as two SIMD lines of eight values.
"""

import math

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, new_lines, splat, store, total

COLUMNS = 2 * WIDTH  # columns of a panel
PANEL_ROWS = 4  # rows of a panel that are updated together, in registers
DEPTH = 16 * COLUMNS  # rows of a block of the factor, so that those of a panel stay in the first-level cache


@jit()
def allocate_panels(n):
    """Return panels of zeros for `n` rows and columns, rounded up to full panels."""
    n_panels = (n + COLUMNS - 1) // COLUMNS
    lines = new_lines(2 * n_panels * n_panels * COLUMNS)
    lines[:] = 0.0
    return lines


@jit(inner=True, inline=True)
def locate_line(n, row, column):
    """Return the SIMD line of an entry in panels of `n` rows; its position there is the column modulo eight."""
    return 2 * (column // COLUMNS * n + row) + column // WIDTH % 2


@jit(inner=True, borrows=True)
def factorize_panels(S, n):
    """Replace the upper triangle of a matrix by its Cholesky factor U; return False if a pivot is not positive.

    `n` is a multiple of COLUMNS. The diagonal holds the reciprocals of that of U. Entries below the diagonal, within
    the sixteen columns of their panel, are undefined.
    """
    for first in range(0, n, DEPTH):
        stop = min(first + DEPTH, n)
        for column in range(first, n, COLUMNS):
            own = locate_line(n, 0, column)
            for row in range(first, min(column, stop), PANEL_ROWS):
                _subtract_products(S, n, own, row, first, row)
                _substitute_rows(S, n, own, row)
            for row in range(column, min(column + COLUMNS, stop), PANEL_ROWS):
                _subtract_products(S, n, own, row, first, row)
                if not _factorize_rows(S, own, column, row):
                    return False
            for row in range(stop, column + COLUMNS, PANEL_ROWS):
                _subtract_products(S, n, own, row, first, stop)
    return True


@jit(inner=True, borrows=True)
def _subtract_products(S, n, own, row, start, stop):
    """Subtract from four rows of a panel the products with the rows `start` to `stop` of the factor."""
    other, first = locate_line(n, 0, row), row % WIDTH
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
def _substitute_rows(S, n, own, row):
    """Forward-substitute four rows of a panel by the factor of their diagonal block, in place."""
    other, first = locate_line(n, row, row), row % WIDTH
    for r in range(PANEL_ROWS):
        at = own + 2 * (row + r)
        x, y = load(S, at), load(S, at + 1)
        for k in range(r):
            part = splat(-S[other + 2 * k, first + r])
            x, y = fma(part, load(S, own + 2 * (row + k)), x), fma(part, load(S, own + 2 * (row + k) + 1), y)
        inverse = splat(S[other + 2 * r, first + r])
        store(S, at, x * inverse)
        store(S, at + 1, y * inverse)


@jit(inner=True, borrows=True)
def _factorize_rows(S, own, column, row):
    """Factorise four rows of a panel with their diagonal block; return False if a pivot is not positive."""
    half, first = (row - column) // WIDTH, row % WIDTH
    for r in range(PANEL_ROWS):
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
def substitute_panels(S, n, b):
    """Solve U'U x = b with the factor in panels, overwriting `b`, `n` values in SIMD lines."""
    for column in range(0, n, COLUMNS):
        own, at = locate_line(n, 0, column), column // WIDTH
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
        own, at = locate_line(n, 0, column), column // WIDTH
        for i in range(COLUMNS - 1, -1, -1):
            value = b[at + i // WIDTH, i % WIDTH]
            for j in range(i + 1, COLUMNS):
                value -= S[own + 2 * (column + i) + j // WIDTH, j % WIDTH] * b[at + j // WIDTH, j % WIDTH]
            b[at + i // WIDTH, i % WIDTH] = value * S[own + 2 * (column + i) + i // WIDTH, i % WIDTH]
        x, y = load(b, at), load(b, at + 1)
        for k in range(column):
            b[k // WIDTH, k % WIDTH] -= total(fma(x, load(S, own + 2 * k), y * load(S, own + 2 * k + 1)))
