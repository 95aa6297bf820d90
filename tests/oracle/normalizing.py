"""Normalisation by one kind of sum, in fractions; by both, as the exact limit of iterative proportional fitting."""

import math
from fractions import Fraction

import numpy as np

from oracle.scaling import scale

SAME = {"true": "row", "pred": "col"}


def _weights(M, method):
    """Return the table of weights in exact arithmetic, None for a matrix with a bad cell."""
    if any(not (math.isfinite(x) and x >= 0) for x in M.ravel().tolist()):
        return None
    cells = [[Fraction(x) for x in line] for line in M.tolist()]
    rows, cols = [sum(line) for line in cells], [sum(line) for line in zip(*cells, strict=True)]
    sums = {"all": lambda i, j: sum(rows), "row": lambda i, j: rows[i], "col": lambda i, j: cols[j]}[method]
    R, C = M.shape
    return [[1 / sums(i, j) if sums(i, j) else Fraction(0) for j in range(C)] for i in range(R)]


def _each(M, method, of_weights):
    M = np.asarray(M)
    dtype = np.float32 if M.dtype == np.float32 else np.float64
    out = np.full(M.shape, np.nan, dtype)
    for index in np.ndindex(M.shape[:-2]):
        W = _weights(M[index], SAME.get(method, method))
        if W is not None and out[index].size:
            out[index] = of_weights(W, M[index].tolist(), np.finfo(dtype))
    return out


def _product(W, M, _):
    return [[float(w * Fraction(m)) for w, m in zip(*pair, strict=True)] for pair in zip(W, M, strict=True)]


def _in_range(W, _, limits):
    if any(w > Fraction(float(limits.max)) for line in W for w in line):
        return math.nan
    return [[float(w) for w in line] for line in W]


def normalize(M, method, **options):
    if method == "bi":
        return (scale(M, **options)[0],)
    return (_each(M, method, _product),)


def importance_weights(M, method, **options):
    if method != "bi":
        return (_each(M, method, _in_range),)
    _, row, col, *_ = scale(M, **options)
    dtype = np.float32 if np.asarray(M).dtype == np.float32 else np.float64
    return ((row[..., :, None] * col[..., None, :]).astype(dtype),)


NUDGE = Fraction(1, 10**20)


def _loss(cells, G, method, of_weights):
    """Return the weighted sum of the normalised cells, or of the weights."""
    rows, cols = [sum(line) for line in cells], [sum(line) for line in zip(*cells, strict=True)]
    sums = {"all": lambda i, j: sum(rows), "row": lambda i, j: rows[i], "col": lambda i, j: cols[j]}[method]
    total = Fraction(0)
    for i, line in enumerate(cells):
        for j, cell in enumerate(line):
            if sums(i, j):
                total += G[i][j] * (1 if of_weights else cell) / sums(i, j)
    return total


def gradient(M, G, *, method, of_weights=False):
    """Central differences, in fractions; zero in lines without mass."""
    method = SAME.get(method, method)
    out = np.full(M.shape, np.nan, np.float32 if M.dtype == G.dtype == np.float32 else np.float64)
    for index in np.ndindex(M.shape[:-2]):
        W = _weights(M[index], method)
        if W is None:
            continue
        cells, given = ([[Fraction(x) for x in line] for line in a[index].tolist()] for a in (M, G))
        for i, line in enumerate(cells):
            for j, x in enumerate(line):
                losses = []
                for step in (NUDGE, -NUDGE):
                    line[j] = x + step
                    losses.append(_loss(cells, given, method, of_weights))
                line[j] = x
                out[(*index, i, j)] = float((losses[0] - losses[1]) / (2 * NUDGE)) if W[i][j] else 0.0
    return (out,)


ORACLES = {"normalizing_gradient": gradient, "normalize": normalize, "importance_weights": importance_weights}
