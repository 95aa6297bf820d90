"""Rows of few classes, many side by side: the scores of all labels by counting, without a sort."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal._units import UNIT, is_row, is_share, units

WIDTH = 32  # rows side by side
MOST_CLASSES = 24


@jit(inner=True)
def gather(P, u, first, count, tile, whole, draws, good):
    """Copy `count` rows from `first` on side by side, in float64 and in units; a bad row as zeros."""
    C = P.shape[1]
    for w in range(WIDTH):
        row = P[first + min(w, count - 1)]
        draws[w] = u[first + min(w, count - 1)] if len(u) else 1.0
        good[w] = is_row(row) and is_share(draws[w])
        for j in range(C):
            p = np.float64(row[j]) if good[w] else 0.0
            tile[j, w] = p
            whole[j, w] = units(p)


@jit(inner=True)
def rank(tile, whole, before, ahead):
    """Add up for every label what is ranked before it, pair by pair."""
    C = tile.shape[0]
    before[:] = 0
    ahead[:] = 0
    for j in range(1, C):
        for i in range(j):
            for w in range(WIDTH):
                first = tile[i, w] >= tile[j, w]
                before[j, w] += whole[i, w] if first else 0
                before[i, w] += 0 if first else whole[j, w]
                ahead[j, w] += 1 if first else 0
                ahead[i, w] += 0 if first else 1


@jit(inner=True)
def score(tile, draws, before, ahead, penalty, k_reg, out):
    """Turn sums into the scores of all labels."""
    for j in range(tile.shape[0]):
        for w in range(WIDTH):
            sum_ = before[j, w] + units(draws[w] * tile[j, w]) + penalty * max(0, ahead[j, w] + 1 - k_reg)
            out[j, w] = np.float64(sum_) * UNIT
