"""Roots of symmetric matrices: small ones, for which calling a library would take longer, and by the library."""

import math

import scipy.linalg

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.margins import LEAST

SMALL = 64  # unknowns up to which equations are solved here


@jit(inner=True, borrows=True)
def root(S, n):
    """Replace the lower triangle of a matrix with ones on its diagonal by its root; what has none gets zeros."""
    for i in range(n):
        for j in range(i + 1):
            total = S[i, j]
            for k in range(j):
                total -= S[i, k] * S[j, k]
            if j < i:
                S[i, j] = total / S[j, j] if S[j, j] > 0.0 else 0.0
            else:
                S[i, i] = math.sqrt(total) if total > LEAST else 0.0


@jit(inner=True, borrows=True)
def solve(S, n, b):
    """Solve by the root, in place."""
    for i in range(n):
        total = b[i]
        for k in range(i):
            total -= S[i, k] * b[k]
        b[i] = total / S[i, i] if S[i, i] > 0.0 else 0.0
    for i in range(n - 1, -1, -1):
        b[i] = b[i] / S[i, i] if S[i, i] > 0.0 else 0.0
        for k in range(i):
            b[k] -= S[i, k] * b[i]


@jit(inner=True, borrows=True)
def upper_root(S, n):
    """Replace the upper triangle of a matrix with ones on its diagonal by its root; what has none gets zeros."""
    for k in range(n):
        if S[k, k] > LEAST:
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
def upper_solve(S, n, b):
    """Solve by such a root, in place."""
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
def rooted(S):
    """Do what :func:`root` does, called from Python."""
    root(S, len(S))


@jit()
def solved(S, b):
    """Do what :func:`solve` does, called from Python."""
    solve(S, len(S), b)


def root_by_library(S):
    """Return the root of a matrix of which the lower triangle is given; None if it has none."""
    R, failed = scipy.linalg.lapack.dpotrf(S.T, lower=False, clean=0)
    return None if failed else R


def solve_by_library(R, b):
    """Solve by such a root, in place."""
    b[:], _ = scipy.linalg.lapack.dpotrs(R, b, lower=False)
