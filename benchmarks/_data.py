"""Inputs of the benchmarks: seeded, shaped like what users have."""

import numpy as np


def confusion_matrices(B: int, C: int, accuracy: float, eps: float, seed: int = 0) -> np.ndarray:
    """Return B imbalanced confusion matrices, float64 (B, C, C), of classifiers with the given accuracy, plus `eps`.

    Class sizes are log-uniform from 100 to 1000; the errors of a class fall on the others with Dirichlet(1/2) shares.
    """
    rng = np.random.default_rng(seed)
    diagonal = np.arange(C)
    sizes = np.exp(rng.uniform(np.log(100), np.log(1000), (B, C)))
    shares = rng.gamma(0.5, size=(B, C, C))
    shares[:, diagonal, diagonal] = 0
    shares *= (1 - accuracy) / shares.sum(-1, keepdims=True)
    shares[:, diagonal, diagonal] = accuracy
    return rng.poisson(sizes[..., None] * shares).astype(float) + eps


def labels(n: int, C: int, accuracy: float = 0.9, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return true and predicted int64 labels of n samples."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    p = np.where(rng.random(n) < accuracy, y, rng.integers(0, C, n))
    return y, p


def embeddings(n: int, m: int, C: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float32 points (n, m) of C overlapping Gaussian classes, their labels, and nearest-centre predictions."""
    rng = np.random.default_rng(seed)
    return around(rng.normal(size=(C, m)) * 1.5, n, rng)


def around(centres: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float32 points (n, m) around the centres (C, m), their labels, and nearest-centre predictions."""
    C, m = centres.shape
    y = rng.integers(0, C, n)
    X = (centres[y] + rng.normal(size=(n, m))).astype(np.float32)
    # The nearest centre, without the squared norm of x that all distances share.
    p = np.empty(n, np.int64)
    for start in range(0, n, 1 << 16):
        block = X[start : start + (1 << 16)]
        p[start : start + len(block)] = np.argmin(
            (centres**2).sum(-1) - 2 * (block @ centres.T.astype(np.float32)), axis=1
        )
    return X, y, p
