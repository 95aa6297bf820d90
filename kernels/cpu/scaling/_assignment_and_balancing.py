"""Equilibration of matrices whose cells span so many orders of magnitude that products leave the float64 range.

In logarithms: the assignment of columns to rows with the largest product of cells (Hungarian algorithm), then factors
that balance the flows between the pairs (Osborne). Rounded to powers of two these factors are exact, and the divided
matrix has its paired cells near one and no cell much larger.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver.assignment import assign_rows, assign_rows_inline
from cmfast.kernels.shared.scaling import BALANCE_SWEEPS, LEAST_EQUILIBRATION

PAIRING_CELLS_PER_CHECK = 1 << 26  # cells between two checks for interrupts: some tens of ms
EXP2 = 16  # cost of two powers of two, in units of reading a cell


@jit(inner=True)
def pair_and_balance(A, order, row_power, col_power):
    """Pair rows with columns (largest product) and write powers of two to divide by; False if no pairing is nonzero.

    Divided by them, paired cells are near one and the rest is balanced. `A` is log2 of a square matrix.
    """
    n = A.shape[0]
    if not _assign(A, order):
        return False
    B = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            B[i, j] = A[i, order[j]] - 0.5 * (A[i, order[i]] + A[j, order[j]])
    t = _balance(B)
    for i in range(n):
        half = 0.5 * A[i, order[i]]
        row_power[i] = np.floor(half - t[i] + 0.5)
        col_power[order[i]] = np.floor(half + t[i] + 0.5)
    return True


def pair_and_balance_interruptibly(A, order, row_power, col_power):
    """Write the pairing and the powers of two of a large matrix, as `pair_and_balance`, but in interruptible steps."""
    n = len(A)
    row_price, col_price, row_of = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1, np.int64)
    for first in _iterate_chunks(n, n * n):
        if not assign_rows(A, row_price, col_price, row_of, first, min(first + _count_rows_per_check(n * n), n)):
            return False
    order[row_of[1:] - 1] = np.arange(n)
    own = A[np.arange(n), order]
    B = A[:, order] - 0.5 * (own[:, None] + own)
    t = np.zeros(n)
    for _ in range(BALANCE_SWEEPS):
        change = 0.0
        for first in _iterate_chunks(n, EXP2 * n):
            change = max(change, balance_lines(B, t, first, min(first + _count_rows_per_check(EXP2 * n), n)))
        if change < LEAST_EQUILIBRATION:
            break
    row_power[:] = np.floor(0.5 * own - t + 0.5)
    col_power[order] = np.floor(0.5 * own + t + 0.5)
    return True


def _count_rows_per_check(cost):
    """Return the number of rows that cost some tens of ms, at `cost` for each."""
    return max(1, PAIRING_CELLS_PER_CHECK // cost)


def _iterate_chunks(n, cost):
    """Yield the first row of each chunk of `n` rows, and check for interrupts before each."""
    for first in range(0, n, _count_rows_per_check(cost)):
        pool.checkpoint()
        yield first


@jit(inner=True)
def _assign(A, order):
    """Write the permutation with the largest sum (assignment problem; Kuhn-Munkres, shortest augmenting paths)."""
    n = A.shape[0]
    row_price, col_price = np.zeros(n + 1), np.zeros(n + 1)
    row_of = np.zeros(n + 1, np.int64)  # row assigned to each column, numbered from 1; 0 is none
    if not assign_rows_inline(A, row_price, col_price, row_of, 0, n):
        return False
    for j in range(1, n + 1):
        order[row_of[j] - 1] = j - 1
    return True


@jit(inner=True)
def _balance(B):
    """Balance a matrix (Osborne): return t such that B_ij + t_i - t_j, as log2 of cells, has equal row and column sums.

    Row i and column i match, without the diagonal.
    """
    t = np.zeros(B.shape[0])
    for _ in range(BALANCE_SWEEPS):
        if _balance_lines(B, t, 0, B.shape[0]) < LEAST_EQUILIBRATION:
            break
    return t


def _balance_range(B, t, start, stop):
    """Balance rows from `start` to before `stop` in turn, updating `t`; return the largest change of a log2 factor."""
    n = B.shape[0]
    change = 0.0
    for i in range(start, stop):
        into, out = -np.inf, -np.inf
        for j in range(n):
            if j != i:
                into = max(into, B[j, i] + t[j])
                out = max(out, B[i, j] - t[j])
        if into == -np.inf or out == -np.inf:
            continue
        into_sum, out_sum = 0.0, 0.0
        for j in range(n):
            if j != i:
                into_sum += 2.0 ** (B[j, i] + t[j] - into)
                out_sum += 2.0 ** (B[i, j] - t[j] - out)
        new = 0.5 * (into + math.log2(into_sum) - out - math.log2(out_sum))
        change = max(change, abs(new - t[i]))
        t[i] = new
    return change


balance_lines, _balance_lines = jit()(_balance_range), jit(inner=True)(_balance_range)
