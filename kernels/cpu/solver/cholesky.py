"""Cholesky factorisation A = U'U of symmetric positive semidefinite matrices: small dense ones, or by LAPACK.

For a few hundred unknowns see `panel_cholesky.py`.
"""

import math

import scipy.linalg

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.scaling import LEAST_PIVOT

MOST_SMALL_UNKNOWNS = 64  # unknowns up to which calling LAPACK would take longer


@jit(inner=True, borrows=True)
def factorize_upper(S, n):
    """Replace the upper triangle of a matrix with a unit diagonal by its Cholesky factor U, with zeros in null rows.

    A pivot of at most ``LEAST_PIVOT`` is rounding: its row is set to zero, and the substitution gives its unknown zero.
    """
    for k in range(n):
        if S[k, k] > LEAST_PIVOT:
            S[k, k] = math.sqrt(S[k, k])
            for j in range(k + 1, n):
                S[k, j] /= S[k, k]
        else:
            S[k, k:n] = 0.0
        for i in range(k + 1, n):
            part = S[k, i]
            for j in range(i, n):
                S[i, j] -= part * S[k, j]


@jit(inner=True, borrows=True)
def substitute_upper(S, n, b):
    """Solve U'U x = b by forward and back substitution with the factor U, overwriting `b`."""
    for k in range(n):
        b[k] = b[k] / S[k, k] if S[k, k] > 0.0 else 0.0
        for i in range(k + 1, n):
            b[i] -= S[k, i] * b[k]
    for k in range(n - 1, -1, -1):
        total = b[k]
        for i in range(n - 1, k, -1):
            total -= S[k, i] * b[i]
        b[k] = total / S[k, k] if S[k, k] > 0.0 else 0.0


@jit()
def factorize(S):
    """Replace the upper triangle of a matrix with a unit diagonal by its Cholesky factor; for calls from Python."""
    factorize_upper(S, len(S))


@jit()
def substitute(S, b):
    """Solve U'U x = b, overwriting `b`; for calls from Python."""
    substitute_upper(S, len(S), b)


def factorize_by_lapack(S):
    """Return the Cholesky factor (LAPACK dpotrf) of the matrix with this upper triangle.

    None if not positive definite.
    """
    U, failed = scipy.linalg.lapack.dpotrf(S, lower=False, clean=0)
    return None if failed else U


def substitute_by_lapack(U, b):
    """Solve U'U x = b by a factor from LAPACK (dpotrs), overwriting `b`."""
    b[:], _ = scipy.linalg.lapack.dpotrs(U, b, lower=False)
