"""Products with the design matrix of categories: each record has a one in one column of every margin."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows


def get_category_columns(rows: SparseRows) -> np.ndarray | None:
    """Return the columns of rows of categories, (records, columns of each), or None for any other rows."""
    n, size = len(rows.first) - 1, len(rows.columns)
    is_even = n > 0 and size % n == 0 and bool((np.diff(rows.first) == size // n).all())
    return rows.columns.reshape(n, size // n) if len(rows.values) == 1 and rows.values[0] == 1.0 and is_even else None


@jit()
def multiply(columns, y, z, start, stop):
    """Compute z = A y: for each record the sum of `y` over its columns."""
    for c in range(start, stop):
        row, total = columns[c], 0.0
        for j in range(len(row)):
            total += y[row[j]]
        z[c] = total


@jit()
def multiply_transposed(columns, x, sums, start, stop):
    """Compute sums = A'x: for each column the sum of `x` over its records."""
    sums[:] = 0.0
    for c in range(start, stop):
        row, part = columns[c], x[c]
        for j in range(len(row)):
            sums[row[j]] += part


@jit()
def multiply_hessian(columns, h, y, z, out, start, stop):
    """Compute z = A y and out = A' diag(h) z, two records at a time."""
    out[:] = 0.0
    for c in range(start, stop, 2):
        one, other = columns[c], columns[min(c + 1, stop - 1)]
        first, second = 0.0, 0.0
        for j in range(len(one)):
            first += y[one[j]]
            second += y[other[j]]
        z[c] = first
        first *= h[c]
        if c + 1 < stop:
            z[c + 1] = second
            second *= h[c + 1]
        else:
            second = 0.0
        for j in range(len(one)):
            out[one[j]] += first
            out[other[j]] += second
