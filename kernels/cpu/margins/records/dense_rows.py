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
MIN_NONZERO_SHARE = 0.2  # share of nonzero values from which on a matrix is kept dense
SUMMED_ROWS = 4  # rows whose products are added together


def is_dense(shape: tuple[int, ...], used: int) -> bool:
    """Test whether a matrix with `used` nonzero values is worth storing densely."""
    n, K = shape
    return n > 0 and 0 < K <= MOST_COLUMNS and used >= MIN_NONZERO_SHARE * n * K


def make_dense_matrix(numbers: np.ndarray, pattern: tuple[np.ndarray, np.ndarray], K: int) -> np.ndarray:
    """Return the dense matrix of sparse values whose row starts and columns are in `pattern`."""
    first, columns = pattern
    A = np.zeros((len(first) - 1, K))
    A[np.repeat(np.arange(len(A)), np.diff(first)), columns] = numbers
    return A


def make_padded_rows(A: np.ndarray) -> SparseRows:
    """Return the rows of a dense matrix, padded with zeros to whole SIMD vectors."""
    n, K = A.shape
    width = _round_up_width(K)
    values = np.zeros((n, width))
    values[:, :K] = A
    columns = np.minimum(np.arange(width), K - 1).astype(np.uint16)
    return SparseRows(np.arange(0, n * width + 1, width), np.tile(columns, n), values.ravel())


def get_dense_matrix(rows: SparseRows, K: int) -> np.ndarray | None:
    """Return the matrix of padded rows, (records, whole vectors), or None for any other rows."""
    n, width = len(rows.first) - 1, _round_up_width(K)
    return rows.values.reshape(n, width) if 0 < K <= MOST_COLUMNS and len(rows.values) == n * width > 0 else None


def _round_up_width(K: int) -> int:
    """Return the number of columns rounded up to whole SIMD vectors."""
    return -(-K // WIDTH) * WIDTH


@jit()
def multiply(A, y, out, start, stop):
    """Compute out = A y for the records from `start` to before `stop`."""
    for c in range(start, stop):
        z = splat(0.0)
        for k in range(0, A.shape[1], WIDTH):
            z = fma(load_row(A, c, k), load_elements(y, k), z)
        out[c] = total(z)


@jit()
def multiply_transposed(A, x, sums, sizes, squares, start, stop):
    """Compute sums = A'x, the sums of the magnitudes of its terms, and the diagonal of A' diag(x) A."""
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
    """Compute the lower triangle of the Hessian A' diag(h) A, four rows at a time; rows with h = 0 are skipped."""
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
