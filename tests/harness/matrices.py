"""Families of matrices that are hard to scale, and their scaling in exact arithmetic."""

from decimal import Decimal, localcontext

import numpy as np

from cmfast.kernels.cpu.scaling import launch


def confusion(B, C, accuracy, eps, seed=0):
    """Confusion matrices of imbalanced classes with Dirichlet errors."""
    rng = np.random.default_rng(seed)
    errors = rng.gamma(1.0, size=(B, C, C)) * (1 - np.eye(C)) + 1e-300
    P = accuracy * np.eye(C) + (1 - accuracy) * errors / errors.sum(-1, keepdims=True)
    return rng.poisson(P * rng.integers(100, 1000, size=(B, C, 1))) + eps


def near_permutation(B, C, eps, seed=0):
    rng = np.random.default_rng(seed)
    M = np.stack([np.eye(C)[rng.permutation(C)] for _ in range(B)])
    return (M + eps * rng.uniform(0.1, 1, size=(B, C, C))) * np.exp(rng.normal(0, 3, size=(B, 1, C)))


def superclasses(B, C, coupling, seed=0):
    rng = np.random.default_rng(seed)
    same = np.arange(C)[:, None] // max(1, C // 2) == np.arange(C) // max(1, C // 2)
    return rng.uniform(0.1, 1, size=(B, C, C)) * np.where(same, 1.0, coupling)


def tridiagonal(C, rest):
    return (abs(np.subtract.outer(np.arange(C), np.arange(C))) <= 1) + rest


def hessenberg(C):
    return np.triu(np.ones((C, C)), -1)


def exact(M, u, v, digits=60):
    """Newton's method on the dual, in `digits` decimal digits, started where float64 ends."""
    R, C = M.shape
    y = launch.ipf(M, u, v, None, None, tol=1e-13)[2]
    with localcontext() as context:
        context.prec = digits
        m = [[Decimal(float(c)) for c in row] for row in M]
        u, v = [Decimal(float(c)) for c in u], [Decimal(float(c)) for c in v]
        v = [c * sum(u) / sum(v) for c in v]
        y = [Decimal(float(c)) for c in y]
        for _ in range(8):
            x = [u[i] / sum(m[i][j] * y[j] for j in range(C)) for i in range(R)]
            P = [[x[i] * m[i][j] * y[j] for j in range(C)] for i in range(R)]
            c = [sum(P[i][j] for i in range(R)) for j in range(C)]
            L = [[(c[j] if j == k else 0) - sum(P[i][j] * P[i][k] / u[i] for i in range(R)) for k in range(C)]
                 for j in range(C)]  # fmt: skip
            step = _solve([row[1:] for row in L[1:]], [v[j] - c[j] for j in range(1, C)])
            y = [y[0]] + [y[j] * step[j - 1].exp() for j in range(1, C)]
        assert sum(abs(v[j] - c[j]) for j in range(C)) < Decimal(10) ** -30 * sum(u)
        return np.array([[float(cell) for cell in row] for row in P])


def _solve(A, b):
    n = len(b)
    for k in range(n):
        for i in range(k + 1, n):
            f = A[i][k] / A[k][k]
            A[i] = [a - f * p for a, p in zip(A[i], A[k], strict=True)]
            b[i] -= f * b[k]
    for k in range(n - 1, -1, -1):
        b[k] = (b[k] - sum(A[k][j] * b[j] for j in range(k + 1, n))) / A[k][k]
    return b
