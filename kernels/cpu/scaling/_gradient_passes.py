"""Passes over the rows of one large matrix for its gradient, in float32 or float64, eight columns at a time.

Deviations in a row are taken from its largest cell: where that is nearly all of the row, a difference from the row's
mean would cancel.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load_elements, load_row, splat, store_row, total, where

MULTIPLIED_ROWS = 4  # rows multiplied together
DOMINANT_SHARE = 0.5  # share of a row above which its largest cell is the reference of the others


@jit(inner=True)
def _mask_overlap(C):
    """Return a mask for the last SIMD vector of a row: zeros for columns that the vector before it covers too."""
    found = np.empty(WIDTH)
    for k in range(WIDTH):
        found[k] = 0.0 if C % WIDTH and k < WIDTH - C % WIDTH else 1.0
    return found


@jit(inner=True, borrows=True, inline=True)
def _load_masked(line, own, at, j):
    """Load eight values from `at` on, with zeros for columns before `j`, which an earlier vector covered."""
    found = load_elements(line, at)
    if at < j:
        found = found * load_elements(own, 0)
    return found


@jit(inner=True, borrows=True)
def _sum_deviations(M, G, y, own, i, middle):
    """Return the sum over row `i` of m_j y_j (G_j - middle)."""
    C = M.shape[1]
    found = splat(0.0)
    for j in range(0, C, WIDTH):
        at = min(j, C - WIDTH)
        factor = _load_masked(y, own, at, j)
        found = fma(load_row(M, i, at) * factor, load_row(G, i, at) - middle, found)
    return total(found)


@jit()
def compute_sources(matrix, factors, G, lines, sums, more, start, stop):
    """Compute row sums and positions of row maxima; by block the column sums, sources and squares, and least shares.

    The sources are the cells times the deviation of their gradients from the row's mean: the right-hand side of the
    columns' system. Squares are those of the cells over their row sum. A share is a cell over its row sum.
    """
    (M, _, _), (x, y) = matrix, factors
    (u, tops), (lacks, squares, least) = lines, more
    cols, _, rows, _ = sums
    R, C = M.shape
    own, found = _mask_overlap(C), np.empty((2, WIDTH))
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = lacks[block, j] = squares[block, j] = 0.0
            least[block, j] = np.inf
        for i in range(block * rows, min(R, (block + 1) * rows)):
            added, most, place = splat(0.0), splat(-1.0), splat(0.0)
            for j in range(0, C, WIDTH):
                at = min(j, C - WIDTH)
                cell = load_row(M, i, at) * _load_masked(y, own, at, j)
                added = added + cell
                place = where(cell > most, splat(float(at)), place)
                most = where(cell > most, cell, most)
            s = total(added)
            store_row(found, 0, 0, most)
            store_row(found, 1, 0, place)
            best, top = -1.0, 0
            for k in range(WIDTH):
                if found[0, k] > best:
                    best, top = found[0, k], int(found[1, k]) + k
            u[i], tops[i] = x[i] * s, top
            middle = np.float64(G[i, top if best > DOMINANT_SHARE * s else 0])
            mean, share = _sum_deviations(M, G, y, own, i, middle) / s, 1.0 / u[i]
            for j in range(0, C, WIDTH):
                at = min(j, C - WIDTH)
                whole = load_row(M, i, at) * (x[i] * load_elements(y, at))
                part, low = whole * share, load_row(least, block, at)
                store_row(least, block, at, where(part < low, part, low))
                cell = whole * load_elements(own, 0) if at < j else whole
                lack = (load_row(G, i, at) - middle) - mean
                store_row(cols, block, at, load_row(cols, block, at) + cell)
                store_row(lacks, block, at, fma(cell, lack, load_row(lacks, block, at)))
                store_row(squares, block, at, fma(part, cell, load_row(squares, block, at)))


@jit(inner=True, borrows=True, inline=True)
def _select_rows(i, end):
    """Return four rows from `i` on, repeating the last one beyond `end`, and their number."""
    return (i, min(i + 1, end - 1), min(i + 2, end - 1), min(i + 3, end - 1)), min(MULTIPLIED_ROWS, end - i)


@jit()
def multiply_plain(matrix, w, factors, sums, start, stop):
    """Compute the column sums of M' diag(factors) M w by block of rows, from which the Laplacian product follows.

    Takes two multiplications for each cell; the caller subtracts, so digits may cancel.
    """
    M, _, _ = matrix
    cols, _, rows, _ = sums
    R, C = M.shape
    own = _mask_overlap(C)
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = 0.0
        end = min(R, (block + 1) * rows)
        for i in range(block * rows, end, MULTIPLIED_ROWS):
            (i0, i1, i2, i3), n = _select_rows(i, end)
            a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for j in range(0, C, WIDTH):
                at = min(j, C - WIDTH)
                factor = _load_masked(w, own, at, j)
                a, b = fma(load_row(M, i0, at), factor, a), fma(load_row(M, i1, at), factor, b)
                c, d = fma(load_row(M, i2, at), factor, c), fma(load_row(M, i3, at), factor, d)
            p, q = splat(factors[i0] * total(a)), splat(factors[i1] * total(b) if n > 1 else 0.0)
            r, s = splat(factors[i2] * total(c) if n > 2 else 0.0), splat(factors[i3] * total(d) if n > 3 else 0.0)
            for j in range(0, C, WIDTH):
                at = min(j, C - WIDTH)
                more = fma(load_row(M, i1, at), q, load_row(M, i0, at) * p)
                more = fma(load_row(M, i3, at), s, fma(load_row(M, i2, at), r, more))
                if at < j:
                    more = more * load_elements(own, 0)
                store_row(cols, block, at, load_row(cols, block, at) + more)


@jit()
def multiply_centred(matrix, x, y, z, lines, sums, start, stop):
    """Compute the column sums of diag(x) M times the deviation of `z` from its row mean, by block of rows.

    Deviations are taken from the row's largest cell, so nothing cancels.
    """
    M, _, _ = matrix
    u, tops = lines
    cols, _, rows, _ = sums
    R, C = M.shape
    own = _mask_overlap(C)
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = 0.0
        end = min(R, (block + 1) * rows)
        for i in range(block * rows, end, MULTIPLIED_ROWS):
            (i0, i1, i2, i3), n = _select_rows(i, end)
            p, q, r, s = splat(z[tops[i0]]), splat(z[tops[i1]]), splat(z[tops[i2]]), splat(z[tops[i3]])
            a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for j in range(0, C, WIDTH):
                at = min(j, C - WIDTH)
                factor, value = _load_masked(y, own, at, j), load_elements(z, at)
                a = fma(load_row(M, i0, at) * factor, value - p, a)
                b = fma(load_row(M, i1, at) * factor, value - q, b)
                c = fma(load_row(M, i2, at) * factor, value - r, c)
                d = fma(load_row(M, i3, at) * factor, value - s, d)
            one, two = splat(x[i0]), splat(x[i1] if n > 1 else 0.0)
            three, four = splat(x[i2] if n > 2 else 0.0), splat(x[i3] if n > 3 else 0.0)
            a, b = splat(x[i0] / u[i0] * total(a)), splat(x[i1] / u[i1] * total(b))
            c, d = splat(x[i2] / u[i2] * total(c)), splat(x[i3] / u[i3] * total(d))
            for j in range(0, C, WIDTH):
                at = min(j, C - WIDTH)
                value = load_elements(z, at)
                more = (load_row(M, i0, at) * one) * ((value - p) - a)
                more = fma(load_row(M, i1, at) * two, (value - q) - b, more)
                more = fma(load_row(M, i2, at) * three, (value - r) - c, more)
                more = fma(load_row(M, i3, at) * four, (value - s) - d, more)
                if at < j:
                    more = more * load_elements(own, 0)
                store_row(cols, block, at, load_row(cols, block, at) + more)


@jit()
def compute_gradient(matrix, factors, gradients, lines, results, rows, start, stop):
    """Compute the gradients in the row targets and in the cells from that in the column targets, by block of rows.

    `gradients` are those in the scaled cells, those in the log row factors, and those in the column targets.
    """
    (M, _, _), (x, y), (G, s, d) = matrix, factors, gradients
    (u, tops), (out, a) = lines, results
    R, C = M.shape
    own = _mask_overlap(C)
    for i in range(start * rows, min(R, stop * rows)):
        middle = np.float64(G[i, tops[i]]) - d[tops[i]]
        found = splat(0.0)
        for j in range(0, C, WIDTH):
            at = min(j, C - WIDTH)
            factor = _load_masked(y, own, at, j)
            z = (load_row(G, i, at) - load_elements(d, at)) - middle
            found = fma(load_row(M, i, at) * factor, z, found)
        mean = x[i] / u[i] * total(found) + s[i] / u[i]
        for j in range(0, C, WIDTH):
            at = min(j, C - WIDTH)
            z = (load_row(G, i, at) - load_elements(d, at)) - middle
            store_row(out, i, at, (z - mean) * (x[i] * load_elements(y, at)))
        a[i] = middle + mean
