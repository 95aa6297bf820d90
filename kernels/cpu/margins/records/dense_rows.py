"""Products with a dense design matrix of few columns, eight columns to a SIMD line."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    absolute,
    fma,
    load_elements,
    load_row,
    splat,
    store_elements,
    store_row,
    total,
)
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows

MOST_COLUMNS = 64
LEAST_USED = 0.2  # part of the numbers that are not zero
SUMMED_ROWS = 4  # rows whose products are added up at once


def is_full(shape: tuple[int, ...], used: int) -> bool:
    """Whether all numbers of a matrix are worth to be kept, of which so many are not zero."""
    n, K = shape
    return n > 0 and 0 < K <= MOST_COLUMNS and used >= LEAST_USED * n * K


def matrix(numbers: np.ndarray, pattern: tuple[np.ndarray, np.ndarray], K: int) -> np.ndarray:
    """Return a matrix of its numbers that are not zero, of which `pattern` says where rows begin and columns are."""
    first, columns = pattern
    A = np.zeros((len(first) - 1, K))
    A[np.repeat(np.arange(len(A)), np.diff(first)), columns] = numbers
    return A


def rows_of(A: np.ndarray) -> SparseRows:
    """Return the rows of a matrix, all of their numbers, and zeros up to a whole number of vectors."""
    n, K = A.shape
    width = _width(K)
    values = np.zeros((n, width))
    values[:, :K] = A
    columns = np.minimum(np.arange(width), K - 1).astype(np.uint16)
    return SparseRows(np.arange(0, n * width + 1, width), np.tile(columns, n), values.ravel())


def matrix_of(rows: SparseRows, K: int) -> np.ndarray | None:
    """Return the matrix of such rows, (records, whole vectors); None of others."""
    n, width = len(rows.first) - 1, _width(K)
    return rows.values.reshape(n, width) if 0 < K <= MOST_COLUMNS and len(rows.values) == n * width > 0 else None


def _width(K: int) -> int:
    return -(-K // WIDTH) * WIDTH


@jit()
def multiply(A, y, out, start, stop):
    """Add up `y` by what records have of each column."""
    for c in range(start, stop):
        z = splat(0.0)
        for k in range(0, A.shape[1], WIDTH):
            z = fma(load_row(A, c, k), load_elements(y, k), z)
        out[c] = total(z)


@jit()
def multiply_transposed(A, x, sums, sizes, squares, start, stop):
    """Add records up, of which there are `x`; the magnitudes of what is added; and the squares of what records have."""
    for k in range(0, A.shape[1], WIDTH):
        plain, large, square = splat(0.0), splat(0.0), splat(0.0)
        for c in range(start, stop):
            row = load_row(A, c, k)
            part = row * x[c]
            plain = plain + part
            large = large + absolute(part)
            square = square + part * row
        store_elements(sums, k, plain)
        store_elements(sizes, k, large)
        store_elements(squares, k, square)


@jit()
def form_hessian(A, h, S, start, stop):
    """Form the second derivatives: the lower triangle of the products of every two columns, `h` times each record."""
    p = q = r = s = found = 0
    one = two = three = four = 0.0
    S[:] = 0.0
    for c in range(start, stop):
        if h[c] != 0.0:
            p, q, r, s = q, r, s, c
            one, two, three, four = two, three, four, h[c]
            found += 1
        if found < SUMMED_ROWS and (c + 1 < stop or found == 0):
            continue
        for i in range(len(S)):
            a, b, d, e = one * A[p, i], two * A[q, i], three * A[r, i], four * A[s, i]
            for k in range(0, i + 1, WIDTH):
                line = fma(load_row(A, p, k), a, load_row(S, i, k))
                line = fma(load_row(A, q, k), b, line)
                line = fma(load_row(A, r, k), d, line)
                store_row(S, i, k, fma(load_row(A, s, k), e, line))
        one = two = three = four = 0.0
        found = 0
