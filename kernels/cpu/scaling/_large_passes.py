"""Passes over one large matrix: rows are contiguous, and every pass reads the matrix once.

A pass takes a range of blocks of rows. Each block adds to its own column sums, and the caller adds these in the order
of the blocks, so that results do not depend on the number of threads.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    fma,
    largest,
    load_elements,
    load_row,
    maximum,
    minimum,
    splat,
    store_elements,
    store_row,
    total,
    where,
)
from cmfast.kernels.cpu._core.vector_functions import log
from cmfast.kernels.shared.scaling import DOUBT

LINE = 8  # float64 values in a cache line
LOG2 = math.log(2.0)
SAFE_POWER = 1000  # powers of two up to which they and their reciprocals are normal


class ScaledMatrix(NamedTuple):
    """A matrix with its row targets u and column targets v."""

    cells: Any
    u: Any
    v: Any


class Sums(NamedTuple):
    """Sums by block of rows."""

    cols: Any  # (blocks, C)
    missed: Any  # absolute errors of its rows, summed, (blocks,)
    rows: int  # rows of a block
    worst: Any  # largest relative error of one of its rows, (blocks,)


@jit()
def measure_cell_range(M):
    """Return the smallest positive and the largest cell, whether any is zero, and whether any is invalid.

    Invalid is NaN, infinite or negative.
    """
    cells = M.reshape(-1)
    n = cells.shape[0]
    whole = n // WIDTH * WIDTH
    least, high, odd, other_odd = splat(np.inf), splat(0.0), splat(0.0), splat(0.0)
    for k in range(0, whole, 2 * WIDTH):
        m, other = load_elements(cells, k), load_elements(cells, min(k + WIDTH, whole - WIDTH))
        least, high = where(m < least, m, least), where(m > high, m, high)
        least, high = where(other < least, other, least), where(other > high, other, high)
        odd, other_odd = odd + (m - m), other_odd + (other - other)  # they stay NaN after a NaN or an infinity
    lowest, highest, strange = -largest(-least), largest(high), total(odd + other_odd)
    for k in range(whole, n):
        m = cells[k]
        lowest = m if m < lowest else lowest
        highest = m if m > highest else highest
        strange += m - m
    if lowest > 0.0:
        return lowest, highest, False, strange != 0.0
    smallest, least = lowest, splat(np.inf)
    lowest = np.inf
    for k in range(0, whole, WIDTH):
        m = load_elements(cells, k)
        m = where(m > 0.0, m, splat(np.inf))
        least = where(m < least, m, least)
    for k in range(whole, n):
        lowest = cells[k] if 0.0 < cells[k] < lowest else lowest
    return min(lowest, -largest(-least)), highest, smallest == 0.0, smallest < 0.0 or strange != 0.0


@jit()
def lacks_support(M):
    """Test by rows and columns alone whether a positive cell without support, or an empty line, rules out a scaling.

    Where a row has one positive cell, all others in the column of that cell have no support, and the reverse.
    """
    R, C = M.shape
    rows, cols = np.zeros(R, np.int64), np.zeros(C, np.int64)
    for i in range(R):
        for j in range(C):
            positive = np.int64(M[i, j] > 0.0)
            cols[j] += positive
            rows[i] += positive
    for i in range(R):
        if rows[i] <= 1:
            for j in range(C):
                if M[i, j] > 0.0 and cols[j] > 1:
                    return True
    for j in range(C):
        if cols[j] <= 1:
            for i in range(R):
                if M[i, j] > 0.0 and rows[i] > 1:
                    return True
    return rows.min() == 0 or cols.min() == 0


@jit(inner=True, borrows=True)
def compute_dot(a, b):
    """Return the dot product of two vectors, in sixteen partial sums on every processor."""
    n = a.shape[0]
    even, odd = splat(0.0), splat(0.0)
    for k in range(0, n - 2 * WIDTH + 1, 2 * WIDTH):
        even = fma(load_elements(a, k), load_elements(b, k), even)
        odd = fma(load_elements(a, k + WIDTH), load_elements(b, k + WIDTH), odd)
    found = total(even + odd)
    for k in range(n // (2 * WIDTH) * 2 * WIDTH, n):
        found += a[k] * b[k]
    return found


@jit()
def measure_sums(matrix, x, y, sums, out, start, stop):
    """Write diag(x) M diag(y), unless `out` has no rows; store the errors of the rows and the column sums, by block."""
    M, u, _ = matrix
    cols, missed_rows, rows, worst_rows = sums
    R, C = M.shape
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = 0.0
        missed, worst = 0.0, 0.0
        first, last = block * rows, min(R, (block + 1) * rows)
        paired = first + (last - first) // 2 * 2
        for i in range(first, paired, 2):
            row, other = _measure_two_rows(M, x, y, cols, block, i, out)
            missed += abs(row - u[i])
            worst = max(worst, abs(row - u[i]) / u[i])
            missed += abs(other - u[i + 1])
            worst = max(worst, abs(other - u[i + 1]) / u[i + 1])
        if paired < last:
            row = _measure_row(M, x, y, cols, block, paired, out)
            missed += abs(row - u[paired])
            worst = max(worst, abs(row - u[paired]) / u[paired])
        missed_rows[block], worst_rows[block] = missed, worst


@jit(inner=True, inline=True, borrows=True)
def _measure_row(M, x, y, cols, block, i, out):
    """Scale row `i`, write it unless `out` has no rows, and add it to the column sums; return its sum."""
    C, write = M.shape[1], out.shape[0] > 0
    whole = C // WIDTH * WIDTH
    found = splat(0.0)
    for j in range(0, whole, WIDTH):
        cells = x[i] * load_row(M, i, j) * load_elements(y, j)
        found = found + cells
        store_row(cols, block, j, load_row(cols, block, j) + cells)
        if write:
            store_row(out, i, j, cells)
    row = total(found)
    for j in range(whole, C):
        cell = x[i] * M[i, j] * y[j]
        row += cell
        cols[block, j] += cell
        if write:
            out[i, j] = cell
    return row


@jit(inner=True, inline=True, borrows=True)
def _measure_two_rows(M, x, y, cols, block, i, out):
    """Do the same with rows `i` and `i` + 1, whose cells are added to the column sums together."""
    C, write = M.shape[1], out.shape[0] > 0
    whole = C // WIDTH * WIDTH
    found, other = splat(0.0), splat(0.0)
    for j in range(0, whole, WIDTH):
        factor = load_elements(y, j)
        cells, others = x[i] * load_row(M, i, j) * factor, x[i + 1] * load_row(M, i + 1, j) * factor
        found, other = found + cells, other + others
        store_row(cols, block, j, load_row(cols, block, j) + cells + others)
        if write:
            store_row(out, i, j, cells)
            store_row(out, i + 1, j, others)
    row, next_row = total(found), total(other)
    for j in range(whole, C):
        cell, other_cell = x[i] * M[i, j] * y[j], x[i + 1] * M[i + 1, j] * y[j]
        row, next_row = row + cell, next_row + other_cell
        cols[block, j] = cols[block, j] + cell + other_cell
        if write:
            out[i, j], out[i + 1, j] = cell, other_cell
    return row, next_row


@jit(inline=True)
def add_blocks(sums):
    """Add the column sums of all blocks to those of the first, in order, in place."""
    cols = sums.cols
    for block in range(1, cols.shape[0]):
        for j in range(cols.shape[1]):
            cols[0, j] += cols[block, j]


@jit()
def normalize_factors(x, y, row, col, out_row, out_col):
    """Write the input's factors, row factors of geometric mean one; rescale `x` and `y` in place to similar size.

    The input is the matrix times 2**row times 2**col. Return whether all its factors are positive and finite.
    """
    n = x.shape[0]
    logs, moved = splat(0.0), 0
    for i in range(0, n - WIDTH + 1, WIDTH):
        logs = logs + log(load_elements(x, i))
    middle = total(logs) / LOG2
    for i in range(n // WIDTH * WIDTH, n):
        middle += np.log2(x[i])
    for i in range(n):
        moved += row[i]
    mean, middle = (middle - moved) / n, np.floor(middle / n)
    whole = np.floor(mean)
    rest = 2.0 ** (mean - whole)
    here, there = int(middle), int(middle - whole)
    good = _scale_factors(x, -here, 1.0 / rest, there, row, out_row)
    return _scale_factors(y, here, rest, -there, col, out_col) and good


@jit(inner=True)
def _scale_factors(x, power, share, out_power, powers, out):
    """Multiply `x` by two to the `power` and by `share`, in place; write it times two to `out_power` - `powers`."""
    good = True
    plain = abs(power) < SAFE_POWER and abs(out_power) < SAFE_POWER
    for i in range(x.shape[0]):
        plain &= powers[i] == 0
    if plain:  # powers of two that are normal, by which products are as exact
        factor, out_factor = math.ldexp(1.0, power), math.ldexp(1.0, out_power)
        for i in range(x.shape[0]):
            x[i] = x[i] * factor * share
            out[i] = x[i] * out_factor
            good &= 0.0 < out[i] < np.inf
        return good
    for i in range(x.shape[0]):
        x[i] = math.ldexp(x[i], power) * share
        out[i] = math.ldexp(x[i], out_power - powers[i])
        good &= 0.0 < out[i] < np.inf
    return good


@jit()
def compute_residual(matrix, sums):
    """Return the sum of all row and column errors as measured, and the largest relative error of one of them."""
    add_blocks(sums)
    found, worst = 0.0, 0.0
    for block in range(sums.missed.shape[0]):
        found += sums.missed[block]
        worst = max(worst, sums.worst[block])
    for j in range(matrix.v.shape[0]):
        gap = abs(sums.cols[0, j] - matrix.v[j])
        found += gap
        worst = max(worst, gap / matrix.v[j])
    return found, worst


@jit()
def bound_hidden_residual(smallest, size, last_width, mass):
    """Return the residual below which no flow between two sets of rows and columns errs by more than `last_width`.

    Every such flow passes at least one positive cell, and without zeros one of nearly every row and column. `smallest`
    is of :func:`find_smallest_cell`, `size` the shorter side of the matrix.
    """
    low, zero = smallest
    return last_width * low * (1 if zero else max(1, size - 1)) / mass


@jit()
def start_paths(R, C):
    """Return the widths of paths from the first column to R rows and C columns before any is extended."""
    widths = np.zeros(R), np.zeros(C)
    widths[1][0] = np.inf
    return widths


@jit()
def extend_paths(matrix, x, y, widths, sums, start, stop):
    """Extend the widest path from the first column to each node by a row and a column, where that makes it wider.

    Rows and columns are the nodes of a graph whose edges are the positive cells, and a path is as wide as its smallest
    scaled cell. `widths` has those of paths to rows and to columns; the sums get new ones to columns, by block.
    """
    M, cols, rows = matrix.cells, sums.cols, sums.rows
    to_rows, to_cols = widths
    R, C = M.shape
    whole = C // WIDTH * WIDTH
    for block in range(start, stop):
        for j in range(C):
            cols[block, j] = to_cols[j]
        for i in range(block * rows, min(R, (block + 1) * rows)):
            wide = splat(to_rows[i])
            for j in range(0, whole, WIDTH):
                cells = x[i] * load_row(M, i, j) * load_elements(y, j)
                wide = maximum(wide, minimum(cells, load_elements(to_cols, j)))
            widest = largest(wide)
            for j in range(whole, C):
                widest = max(widest, min(x[i] * M[i, j] * y[j], to_cols[j]))
            to_rows[i] = widest
            wide = splat(widest)
            for j in range(0, whole, WIDTH):
                cells = x[i] * load_row(M, i, j) * load_elements(y, j)
                store_row(cols, block, j, maximum(load_row(cols, block, j), minimum(cells, wide)))
            for j in range(whole, C):
                cols[block, j] = max(cols[block, j], min(x[i] * M[i, j] * y[j], widest))


@jit()
def join_paths(widths, sums):
    """Take the widest paths to columns of all blocks, in place; return the width of the narrowest to any node."""
    to_rows, to_cols = widths
    narrowest = np.inf
    for i in range(to_rows.shape[0]):
        narrowest = min(narrowest, to_rows[i])
    for j in range(to_cols.shape[0]):
        for block in range(sums.cols.shape[0]):
            to_cols[j] = max(to_cols[j], sums.cols[block, j])
        narrowest = min(narrowest, to_cols[j])
    return narrowest


@jit()
def bound_by_paths(narrowest, passes, last_width, mass):
    """Return the residual below which no cell errs by more than `last_width`, relative, from the widths of paths.

    To first order the logarithms of the factors err as the potentials of an electrical network whose conductances are
    the scaled cells and whose currents are the errors of the sums. A current of one raises no potential by more than
    the resistance of a path: at most four cells for each pass, each at least `narrowest`.
    """
    return last_width * narrowest / (2.0 * passes * mass)


@jit()
def is_certain(matrix, x, y, mass):
    """Test whether no cell depends on the rounding of targets, by a sufficient condition on the smallest cells."""
    M, u, _ = matrix
    low, _ = find_smallest_cell(M, x, y)
    if DOUBT * mass <= low:
        return True
    share = np.full(M.shape[1], np.inf)
    for i in range(M.shape[0]):
        part = x[i] / u[i]
        for j in range(M.shape[1]):
            share[j] = min(share[j], part * M[i, j] * y[j])
    hub = 0.0
    for j in range(M.shape[1]):
        hub = max(hub, share[j])
    least = np.inf
    for j in range(M.shape[1]):
        least = min(least, matrix.v[j])
    return DOUBT * mass <= hub * least


@jit()
def find_smallest_cell(M, x, y):
    """Return the smallest positive scaled cell, and whether any cell is zero."""
    lowest = _find_smallest(M, x, y, False)
    return (lowest, False) if lowest > 0.0 else (_find_smallest(M, x, y, True), True)


@jit(inner=True, borrows=True)
def _find_smallest(M, x, y, positive):
    """Return the smallest scaled cell, or the smallest `positive` one."""
    C = M.shape[1]
    whole = C // WIDTH * WIDTH
    low, lowest = splat(np.inf), np.inf
    for i in range(M.shape[0]):
        for j in range(0, whole, WIDTH):
            cells = x[i] * load_row(M, i, j) * load_elements(y, j)
            if positive:
                cells = where(cells > 0.0, cells, splat(np.inf))
            low = minimum(cells, low)
        for j in range(whole, C):
            cell = x[i] * M[i, j] * y[j]
            lowest = cell if cell < lowest and (cell > 0.0 or not positive) else lowest
    return min(lowest, -largest(-low))


@jit()
def find_row_maxima(M, y, order):
    """Write the column of the largest scaled cell of each row."""
    for i in range(M.shape[0]):
        order[i] = _find_largest(M[i], y)


@jit()
def has_dominant_diagonal(M):
    """Test whether m_ii m_jj > m_ij m_ji for every i and j."""
    n = M.shape[0]
    for i in range(n):
        good = M[i, i] > 0.0
        for j in range(i):
            good &= M[i, i] * M[j, j] > M[i, j] * M[j, i]
        if not good:
            return False
    return True


@jit()
def sweep_pairs(matrix, x, y):
    """Solve row i and column i jointly for every i, in place: x (m y + a) = u and y (m x + b) = v.

    Columns are summed eight at a time, which is a cache line of every row.
    """
    M, u, v = matrix
    n = M.shape[0]
    sums, kept = np.empty(LINE), np.empty(LINE)
    for first in range(0, n, LINE):
        last = min(first + LINE, n)
        for t in range(last - first):  # array expressions would take seconds to compile
            kept[t] = x[first + t]
            x[first + t] = 0.0  # the factors of this block change meanwhile: its rows are added at the end
            sums[t] = 0.0
        for k in range(n):
            for t in range(last - first):
                sums[t] += x[k] * M[k, first + t]
        for t in range(last - first):
            x[first + t] = kept[t]
        for i in range(first, last):
            m = M[i, i]
            a = compute_dot(M[i, :i], y[:i]) + compute_dot(M[i, i + 1 :], y[i + 1 :])
            b = sums[i - first]
            for k in range(first, last):
                b += x[k] * M[k, i] if k != i else 0.0
            A = m * a
            B = a * b + m * (v[i] - u[i])
            G = u[i] * b
            D = np.sqrt(B * B + 4.0 * A * G)
            new_x = 2.0 * G / (B + D) if B >= 0.0 else (D - B) / (2.0 * A)
            new_y = v[i] / (m * new_x + b)
            if 0.0 < new_x < np.inf and 0.0 < new_y < np.inf:
                x[i] = new_x
                y[i] = new_y


@jit()
def scale_rows(matrix, x, y, off, sums, paired, start, stop):
    """Set x = u / (M y).

    Store column sums of scaled cells by block, and row sums in `off`, both without paired cells.
    """
    M, u, _ = matrix
    cols, _, rows, _ = sums
    R = M.shape[0]
    for block in range(start, stop):
        cols[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            if paired:
                s = compute_dot(M[i, :i], y[:i]) + compute_dot(M[i, i + 1 :], y[i + 1 :])
                x[i] = u[i] / (s + M[i, i] * y[i])
                off[i] = x[i] * s
                _add_cells(cols[block, :i], M[i, :i], y[:i], x[i])
                _add_cells(cols[block, i + 1 :], M[i, i + 1 :], y[i + 1 :], x[i])
            else:
                x[i] = u[i] / compute_dot(M[i], y)
                _add_cells(cols[block], M[i], y, x[i])


@jit(inner=True, borrows=True)
def _add_cells(out, m, y, x):
    """Add the scaled cells of a row to the column sums `out`, in place."""
    for j in range(m.shape[0]):
        out[j] += x * m[j] * y[j]


@jit()
def compute_diagonal(matrix, x, y, sums, paired, start, stop):
    """Compute the diagonal of the Laplacian, the sums over i of p_ij (u_i - p_ij) / u_i, by block of rows.

    For the largest cell of a row, u_i - p_ij is the sum of the other cells: no digits cancel.
    """
    M, u, _ = matrix
    cols, _, rows, _ = sums
    R = M.shape[0]
    for block in range(start, stop):
        cols[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            top = i if paired else _find_largest(M[i], y)
            rest = _add_diagonal_terms(cols[block, :top], M[i, :top], y[:top], x[i], u[i])
            rest += _add_diagonal_terms(cols[block, top + 1 :], M[i, top + 1 :], y[top + 1 :], x[i], u[i])
            cols[block, top] += x[i] * M[i, top] * y[top] * rest / u[i]


@jit(inner=True, borrows=True)
def _find_largest(m, y):
    """Return the index of the largest m_j y_j."""
    best, most = 0, -1.0
    for j in range(m.shape[0]):
        if m[j] * y[j] > most:
            best, most = j, m[j] * y[j]
    return best


@jit(inner=True, borrows=True)
def _add_diagonal_terms(out, m, y, x, u):
    """Add p (u - p) / u for each cell p of a row to `out`; return the sum of the cells."""
    share, whole = 1.0 / u, m.shape[0] // WIDTH * WIDTH
    sums = splat(0.0)
    for j in range(0, whole, WIDTH):
        cells = x * load_elements(m, j) * load_elements(y, j)
        store_elements(out, j, load_elements(out, j) + cells * (1.0 - cells * share))
        sums = sums + cells
    found = total(sums)
    for j in range(whole, m.shape[0]):
        cell = x * m[j] * y[j]
        out[j] += cell * (1.0 - cell * share)
        found += cell
    return found


@jit()
def multiply_laplacian(matrix, x, y, z, sums, paired, start, stop):
    """Compute the product L z by block of rows; only differences of z enter, so that a shift of z costs no digits."""
    M, u, _ = matrix
    cols, _, rows, _ = sums
    R, C = M.shape
    yz = np.empty(C)
    for j in range(C):
        yz[j] = y[j] * z[j]
    for block in range(start, stop):
        cols[block] = 0.0
        for i in range(block * rows, min(R, (block + 1) * rows)):
            middle = z[i] if paired else x[i] * compute_dot(M[i], yz) / u[i]
            share = x[i] / u[i] * sum_deviations(M[i], y, z, middle)
            _add_differences(cols[block], M[i], y, z, middle + share, x[i])


@jit(inner=True, borrows=True)
def sum_deviations(m, y, z, middle):
    """Return the sum of m_j y_j (z_j - middle), in eight partial sums."""
    whole = m.shape[0] // WIDTH * WIDTH
    sums = splat(0.0)
    for j in range(0, whole, WIDTH):
        sums = fma(load_elements(m, j) * load_elements(y, j), load_elements(z, j) - middle, sums)
    found = total(sums)
    for j in range(whole, m.shape[0]):
        found += m[j] * y[j] * (z[j] - middle)
    return found


@jit(inner=True, borrows=True)
def _add_differences(out, m, y, z, middle, x):
    """Add x m_j y_j (z_j - middle) to `out`, in place."""
    for j in range(m.shape[0]):
        out[j] += x * m[j] * y[j] * (z[j] - middle)
