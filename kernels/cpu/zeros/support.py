"""The op ``support``: status, cells without support, blocks and infeasibility certificates of zero patterns."""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.cpu.zeros._bit_sets import PARTS
from cmfast.kernels.cpu.zeros._classify import classify
from cmfast.kernels.status import INVALID, OK, TOTALS, ZERO_LINE

SECONDS_PER_SUPPORT_CELL = 5e-9
SECONDS_PER_MATRIX = 3e-7


class SupportResults(NamedTuple):
    """Results of a batch of matrices, one row for each."""

    status: Any
    dead: Any
    row_block: Any
    col_block: Any
    rows: Any
    cols: Any
    sums: Any


@jit(inner=True, borrows=True)
def _read_cells(M, positive):
    """Mark the positive cells of a matrix; return its number of zeros, or -1 if a cell is NaN, infinite or negative."""
    R, C = M.shape
    zeros, good = 0, True
    for i in range(R):
        for j in range(C):
            m = M[i, j]
            good = good and 0.0 <= m < np.inf
            positive[i, j] = m > 0.0
            zeros += m == 0.0
    return zeros if good else -1


@jit(inner=True, borrows=True)
def _check_targets(u, v):
    """Scale `v` to the total of `u`, in place; return OK or the status of the failure."""
    U, V = 0.0, 0.0
    good = True
    for i in range(len(u)):
        good = good and 0.0 <= u[i] < np.inf
        U += u[i]
    for j in range(len(v)):
        good = good and 0.0 <= v[j] < np.inf
        V += v[j]
    if not good:
        return INVALID
    status = compare_totals(U, V)
    if status == OK and U != V:
        for j in range(len(v)):
            v[j] *= U / V
    return status


@jit(inner=True, borrows=True)
def _mark_empty_lines(positive, u, v, rows, cols):
    """Mark empty rows with a target and the columns they reach.

    Without such rows, an empty column's violator: all rows. A row whose positive cells are all in columns without
    target counts as empty, and likewise for columns.
    """
    R, C = positive.shape
    found = False
    for i in range(R):
        rows[i] = u[i] > 0.0
        for j in range(C):
            rows[i] = rows[i] and not (positive[i, j] and v[j] > 0.0)
        found = found or rows[i]
    if found:
        for j in range(C):
            cols[j] = False
            for i in range(R):
                cols[j] = cols[j] or (rows[i] and positive[i, j])
        return True
    for j in range(C):
        cols[j] = v[j] == 0.0
        for i in range(R):
            cols[j] = cols[j] or (positive[i, j] and u[i] > 0.0)
        found = found or not cols[j]
    if found:
        for i in range(R):
            rows[i] = u[i] > 0.0
    return found


@jit(inner=True, borrows=True)
def _are_all_positive(targets):
    """Test whether all targets are positive."""
    good = True
    for target in targets:
        good = good and target > 0.0
    return good


@jit(inner=True)
def _classify_one(M, u, v, positive, parts, out, b):
    """Classify the zeros of matrix `b`, which is `M`: write its results and return its status. Overwrites `v`."""
    dead, row_block, col_block = out.dead[b], out.row_block[b], out.col_block[b]
    rows, cols, sums = out.rows[b], out.cols[b], out.sums[b]
    zeros = _read_cells(M, positive)
    status = _check_targets(u, v)
    dead[:] = False
    rows[:] = status == TOTALS and zeros >= 0
    cols[:] = status == TOTALS and zeros >= 0
    row_block[:] = -1
    col_block[:] = -1
    sums[:] = np.nan
    if zeros < 0 or status == INVALID:
        return INVALID
    if status == OK and zeros == 0 and _are_all_positive(u) and _are_all_positive(v):
        row_block[:] = 0
        col_block[:] = 0
    elif status == OK and _mark_empty_lines(positive, u, v, rows, cols):
        status = ZERO_LINE
    elif status == OK:
        status = classify(parts, positive, u, v, dead, (row_block, col_block), (rows, cols))
    sums[:] = 0.0
    for i in range(len(u)):
        sums[0] += u[i] if rows[i] else 0.0
    for j in range(len(v)):
        sums[1] += v[j] if cols[j] else 0.0
    return status


@jit()
def _classify_batch(M, row_sums, col_sums, out, parts, needs, start, stop):
    """Classify matrices and targets, one row each; a single row is shared by all.

    `needs` receives a part that is not compiled yet; the results are then incomplete.
    """
    R, C = M.shape[1:]
    answers = SupportResults(*out)
    m_step, row_step, col_step = min(len(M) - 1, 1), min(len(row_sums) - 1, 1), min(len(col_sums) - 1, 1)
    positive = np.empty((R, C), np.bool_)
    u, v = np.empty(R), np.empty(C)
    for b in range(start, stop):
        for i in range(R):  # a slice of another array would take seconds to compile
            u[i] = row_sums[b * row_step, i]
        for j in range(C):
            v[j] = col_sums[b * col_step, j]
        status = _classify_one(M[b * m_step], u, v, positive, parts, answers, b)
        if status < 0:
            needs[0] = -status
            return
        answers.status[b] = status


def support(M, row_sums, col_sums, *, num_threads=None):
    """Classify zero patterns: status, dead cells, blocks of rows and columns, and infeasibility certificates.

    A certificate is rows and columns with the totals that they want and that are available.
    """
    R, C = M.shape[-2:]
    u = np.ones((R, 1)) if row_sums is None else row_sums[..., :, None].astype(np.float64)
    v = np.ones((1, C)) if col_sums is None else col_sums[..., None, :].astype(np.float64)
    batch, (M3, u3, v3), _ = batches.broadcast_batches(2, batches.as_floating(M), u, v)
    n = math.prod(batch)
    found = (  # a plain tuple, which Numba unpacks twice as fast as a named one
        np.empty(n, np.int8), np.empty((n, R, C), np.bool_), np.empty((n, R), np.int64), np.empty((n, C), np.int64),
        np.empty((n, R), np.bool_), np.empty((n, C), np.bool_), np.empty((n, 2)),
    )  # fmt: skip
    seconds, needs = n * (R * C * SECONDS_PER_SUPPORT_CELL + SECONDS_PER_MATRIX), np.ones(1, np.int64)
    args = (M3, u3.reshape(len(u3), R), v3.reshape(len(v3), C), found, PARTS.addresses, needs)
    while needs[0]:
        needs[0] = 0
        pool.run(_classify_batch, args, n, seconds=seconds, num_threads=num_threads)
        if needs[0]:
            PARTS.compile(int(needs[0]))
    status, dead, row_block, col_block, rows, cols, sums = (a.reshape(batch + a.shape[1:]) for a in found)
    return status, dead, row_block, col_block, rows, cols, sums[..., 0], sums[..., 1]
