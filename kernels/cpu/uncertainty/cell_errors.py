"""Delta-method standard errors of normalised cells, and their jackknife accelerations for BCa.

A bi-normalised cell is ``P = M exp(r + c)`` with row and column sums of one. If cell ``k, l`` grows by a fraction
``d``, ``dP[a, b] = P[a, b] ((a, b is k, l) - P[k, l] H d)`` with ``H = (e_a + e_b) K (e_k + e_l)``, where ``K`` is any
generalised inverse of the Laplacian ``[[1, P], [P', 1]]`` (its null space cancels). Scaling all samples or a row
changes nothing, so the variance is ``sum (dP / d)**2 / M``, whether rows are fixed or not.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.uncertainty import (
    CODES_OF_NORMALIZATIONS,
    LEAST_LAPLACIAN_PIVOT,
    MOST_ROUNDING_VARIANCE,
    OF_ALL,
    OF_BI,
    OF_COL,
    OF_ROW,
)
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_CELL_ERROR = 2e-8


class CellDesign(NamedTuple):
    """How cells are normalised and how their samples were drawn."""

    of: Any  # one of ``CODES_OF_NORMALIZATIONS``
    rows: Any  # whether the sums of the rows were fixed
    bent: Any  # whether accelerations are computed
    n: Any  # number of samples to scale every matrix to; negative: keep the counts


@jit(inner=True, borrows=True)
def invert_laplacian(P, L, K):
    """Write to `K`, 2 C x 2 C, a generalised inverse of the Laplacian ``[[1, P], [P', 1]]``, by its Schur complement.

    The Schur complement ``1 - P' P`` is inverted by Gauss-Jordan elimination; a column whose pivot is negligible
    depends on earlier ones and is left 0. `L` is a C x C workspace.
    """
    C = len(P)
    K[:] = 0.0
    for i in range(C):
        for j in range(C):
            L[i, j] = 1.0 if i == j else 0.0
    for k in range(C):
        for i in range(C):
            x = P[k, i]
            for j in range(C):
                L[i, j] -= x * P[k, j]
    B = K[C:, C:]  # starts as the identity, becomes the inverse
    for k in range(C):
        B[k, k] = 1.0
    for k in range(C):  # Gauss-Jordan elimination
        pivot = L[k, k]
        if pivot <= LEAST_LAPLACIAN_PIVOT:
            for i in range(C):
                B[i, k], B[k, i], L[i, k], L[k, i] = 0.0, 0.0, 0.0, 0.0
            continue
        one = 1.0 / pivot
        for j in range(C):
            L[k, j] *= one
            B[k, j] *= one
        for i in range(C):
            x = L[i, k]
            if i != k and x != 0.0:
                for j in range(C):
                    L[i, j] -= x * L[k, j]
                    B[i, j] -= x * B[k, j]
    for a in range(C):
        for k in range(C):
            x = P[a, k]
            for j in range(C):
                K[a, C + j] -= x * B[k, j]
    for a in range(C):
        for j in range(C):
            K[C + j, a] = K[a, C + j]
    for a in range(C):
        K[a, a] = 1.0
    for a in range(C):
        for k in range(C):
            x = K[a, C + k]
            for i in range(C):
                K[a, i] -= x * P[i, k]


@jit(inner=True, borrows=True)
def _write_scaled_variances(m, P, L, K, N, T, out):
    """Write to `out` the variances of the cells of a bi-normalised matrix."""
    C = len(P)
    invert_laplacian(P, L, K)
    N[:] = 0.0
    for k in range(C):
        for j in range(C):
            w = P[k, j] * P[k, j] / m[k, j] if P[k, j] > 0.0 else 0.0
            N[k, C + j] = N[C + j, k] = w
            N[k, k] += w
            N[C + j, C + j] += w
    _multiply(K, N, T)
    _multiply(T, K, N)
    for a in range(C):
        for b in range(C):
            p = P[a, b]
            out[a, b] = 0.0
            if p > 0.0:
                own = K[a, a] + 2.0 * K[a, C + b] + K[C + b, C + b]
                rest = N[a, a] + 2.0 * N[a, C + b] + N[C + b, C + b]
                out[a, b] = max(0.0, p * p * ((1.0 - 2.0 * p * own) / m[a, b] + rest))


@jit(inner=True, borrows=True)
def _multiply(A, B, out):
    """Write the matrix product of two square matrices."""
    out[:] = 0.0
    for i in range(len(A)):
        for k in range(len(A)):
            x = A[i, k]
            for j in range(len(A)):
                out[i, j] += x * B[k, j]


@jit(inner=True, borrows=True)
def _write_scaled_accelerations(m, P, K, out):
    """Write to `out` the accelerations of the cells of a bi-normalised matrix."""
    C = len(P)
    for a in range(C):
        for b in range(C):
            squares, cubes = 0.0, 0.0
            for k in range(C):
                row = K[a, k] + K[C + b, k]
                for j in range(C):
                    if P[k, j] > 0.0:
                        x = (1.0 if k == a and j == b else 0.0) - P[k, j] * (row + K[a, C + j] + K[C + b, C + j])
                        squares += x * x / m[k, j]
                        cubes += x * x * x / (m[k, j] * m[k, j])
            bent = P[a, b] > 0.0 and squares > MOST_ROUNDING_VARIANCE
            out[a, b] = cubes / (6.0 * squares * math.sqrt(squares)) if bent else 0.0


@jit(inner=True, borrows=True)
def _write_quotient_variances(m, P, design, t, p, n, out, bend):
    """Write variances and accelerations of cells divided by the total, their row sum or their column sum."""
    C, of, rows = len(P), design.of, design.rows
    for i in range(C):
        for j in range(C):
            x, size = P[i, j], n if of == OF_ALL else t[i] if of == OF_ROW else p[j]
            squares, cubes = 0.0, 0.0
            if rows and of == OF_COL:
                for k in range(C):  # binomial counts of every row
                    q, g = m[k, j] / t[k] if t[k] > 0.0 else 0.0, (1.0 if k == i else 0.0) - x
                    squares += t[k] * q * (1.0 - q) * g * g
                    cubes += t[k] * q * (1.0 - q) * (1.0 - 2.0 * q) * g * g * g
            else:
                whole = t[i] if rows else size
                q = m[i, j] / whole if whole > 0.0 else 0.0
                squares, cubes = whole * q * (1.0 - q), whole * q * (1.0 - q) * (1.0 - 2.0 * q)
            out[i, j] = squares / (size * size) if size > 0.0 else 0.0
            bend[i, j] = cubes / (6.0 * squares * math.sqrt(squares)) if squares > 0.0 else 0.0


@jit()
def _write_cell_errors(M, scaled, design, out, bends, status, start, stop):
    """Write standard errors and, if requested, accelerations of the cells of matrices `start` to `stop`.

    Matrices that are not counts are INVALID unless the design has `n`; other matrices that were not normalised get NaN.
    """
    design, C = CellDesign(*design), M.shape[1]
    n = design.n
    m, L, square = np.empty((C, C)), np.empty((C, C)), np.empty((3, 2 * C, 2 * C))
    K, N, T = square[0], square[1], square[2]
    t, p = np.empty(C), np.empty(C)
    for b in range(start, stop):
        total, good, counts = 0.0, True, True
        t[:], p[:] = 0.0, 0.0
        P = scaled[b]
        for i in range(C):
            for j in range(C):
                x = M[b, i, j]
                good = good and 0.0 <= x < np.inf and P[i, j] - P[i, j] == 0.0
                counts = counts and (n >= 0.0 or x == np.floor(x))
                t[i] += x
                p[j] += x
                total += x
        status[b] = OK if counts or not good else INVALID
        if not (good and counts):
            out[b] = np.nan
            bends[b] = np.nan
            continue
        factor = n / total if n >= 0.0 and total > 0.0 else 1.0
        for i in range(C):
            t[i] *= factor
            p[i] *= factor
            for j in range(C):
                m[i, j] = M[b, i, j] * factor
        if design.of == OF_BI:
            _write_scaled_variances(m, P, L, K, N, T, out[b])
            if design.bent:
                _write_scaled_accelerations(m, P, K, bends[b])
        else:
            _write_quotient_variances(m, P, design, t, p, total * factor, out[b], bends[b])
        for i in range(C):
            for j in range(C):
                out[b, i, j] = math.sqrt(out[b, i, j])


def cell_errors(M, P, *, of, rows, n, bent=False, num_threads=None):
    """Return standard errors of the cells `P` that `M` is normalised to, their accelerations if `bent`, the status."""
    C, size = M.shape[-1], math.prod(M.shape[:-2])
    cells, scaled = (np.ascontiguousarray(a, np.float64).reshape(size, C, C) for a in (M, P))
    cells.flags.writeable = scaled.flags.writeable = False  # so that kernels are compiled for one array type
    out, bends, status = np.empty((size, C, C)), np.zeros((size, C, C)), np.empty(size, np.int8)
    design = CODES_OF_NORMALIZATIONS[of], rows, bent, -1.0 if n is None else float(n)  # a :class:`CellDesign`
    seconds = size * C * C * max(C, 1) * (C if bent else 1) * SECONDS_PER_CELL_ERROR / 10
    given = (cells, scaled, design, out, bends, status)
    pool.run(_write_cell_errors, given, size, seconds=seconds, num_threads=num_threads)
    return out.reshape(M.shape), bends.reshape(M.shape), status.reshape(M.shape[:-2])
