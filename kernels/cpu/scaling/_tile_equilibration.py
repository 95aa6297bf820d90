"""Equilibration of single lanes of a tile: divide cells by powers of two and permute columns to their paired rows."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._assignment_and_balancing import pair_and_balance
from cmfast.kernels.cpu.scaling._tile_workspace import EQUILIBRATE, PARTS, make_example_tile
from cmfast.kernels.shared.scaling import EQUILIBRATION_ROUNDS, MOST_SCALE_RATIO, VAST, WIDE
from cmfast.kernels.status import RANGE


@jit(inner=True, borrows=True)
def has_dominant_diagonal(t, w):
    """Test whether m_ii m_jj > m_ij m_ji for all classes i, j of lane `w` that are not dropped."""
    S, C = t.S, t.C
    for i in range(C):
        if (S[t.u + i, w] == 0.0) != (S[t.v + i, w] == 0.0):
            return False
        if S[t.u + i, w] == 0.0:
            continue
        m = S[t.M + i * C + i, w]
        if m == 0.0:
            return False
        for j in range(i):
            across = S[t.M + i * C + j, w] * S[t.M + j * C + i, w]
            if S[t.u + j, w] > 0.0 and not m * S[t.M + j * C + j, w] > across:
                return False
    return True


@jit(inner=True, borrows=True)
def needs_equilibration(t, w):
    """Test whether the cells of lane `w` span so many orders of magnitude that equilibration is needed."""
    low, high = t.S[line.LOW, w], t.S[line.HIGH, w]
    if low < 1.0 / WIDE or high > WIDE or high > VAST * low:
        return True
    return high > MOST_SCALE_RATIO * low and not (t.R == t.C and has_dominant_diagonal(t, w))


@PARTS.part(EQUILIBRATE, lambda: (make_example_tile(), 0, False), returns=None)
def equilibrate_lane(t, w, plain):
    """Divide the cells of lane `w` by powers of two, exactly and in place.

    Pairs rows with columns first where possible.
    """
    S, R, C = t.S, t.R, t.C
    if R == C and not plain:
        A = np.empty((C, C))
        for i in range(C):
            for j in range(C):
                m = S[t.M + i * C + j, w]
                A[i, j] = math.log2(m) if m > 0.0 else -np.inf
                if S[t.u + i, w] == 0.0 and S[t.v + j, w] == 0.0:
                    A[i, j] = 0.0  # dropped rows pair only with dropped columns, no matter which
        order = np.empty(C, np.int64)
        row_power, col_power = np.empty(C), np.empty(C)
        if pair_and_balance(A, order, row_power, col_power):
            S[line.PAIRING_KNOWN, w] = 1.0
            S[line.PERMUTED, w] = 1.0
            for j in range(C):
                S[t.row_power + j, w] = row_power[j]
                S[t.col_power + j, w] = col_power[j]
            _divide_by_powers(t, w)
            for j in range(C):
                S[t.order + j, w] = order[j]
            permute_lane(t, w)
            return
    if S[line.LOW, w] < 1.0 / WIDE or S[line.HIGH, w] > WIDE:
        _equilibrate(t, w)


@jit(inner=True, borrows=True)
def _divide_by_powers(t, w):
    """Divide the cells of lane `w` by the powers of two of their rows and columns, in place."""
    S, R, C = t.S, t.R, t.C
    S[line.EQUILIBRATED, w] = 1.0
    for i in range(R):
        for j in range(C):
            power = -S[t.row_power + i, w] - S[t.col_power + j, w]
            S[t.M + i * C + j, w] = math.ldexp(S[t.M + i * C + j, w], int(power))


@jit(inner=True, borrows=True)
def _equilibrate(t, w):
    """Compute powers of two such that the binary logarithms of each row and column average about zero.

    Divide by them in place.
    """
    S, R, C = t.S, t.R, t.C
    for _ in range(EQUILIBRATION_ROUNDS):
        for i in range(R):
            total = 0.0
            n = 0.0
            for j in range(C):
                m = S[t.M + i * C + j, w]
                if m > 0.0:
                    total += float(math.frexp(m)[1]) - S[t.col_power + j, w]
                    n += 1.0
            S[t.row_power + i, w] = np.floor(total / n) if n > 0.0 else 0.0
        for j in range(C):
            total = 0.0
            n = 0.0
            for i in range(R):
                m = S[t.M + i * C + j, w]
                if m > 0.0:
                    total += float(math.frexp(m)[1]) - S[t.row_power + i, w]
                    n += 1.0
            S[t.col_power + j, w] = np.floor(total / n) if n > 0.0 else 0.0
    _divide_by_powers(t, w)


@jit(inner=True, borrows=True)
def undo_powers(t, w, rest):
    """Convert the factors of the equilibrated matrix of lane `w` to those of the input, in place.

    RANGE where one overflows.
    """
    S = t.S
    for i in range(t.R):
        S[t.x + i, w] = math.ldexp(S[t.x + i, w], int(-S[t.row_power + i, w] - rest))
        if S[t.u + i, w] > 0.0 and not 0.0 < S[t.x + i, w] < np.inf:
            S[line.STATUS, w] = RANGE
    for j in range(t.C):
        S[t.y + j, w] = math.ldexp(S[t.y + j, w], int(rest - S[t.col_power + j, w]))
        if S[t.v + j, w] > 0.0 and not 0.0 < S[t.y + j, w] < np.inf:
            S[line.STATUS, w] = RANGE


@jit(inner=True, borrows=True)
def permute_lane(t, w):
    """Move column ``order[j]`` to position j in lane `w`, in the cells, scaled cells, targets, factors and powers."""
    for i in range(t.R):
        _permute_line(t, w, t.M + i * t.C)
        _permute_line(t, w, t.P + i * t.C)
    for k in (t.v, t.col_inverse, t.y, t.col_power):
        _permute_line(t, w, k)


@jit(inner=True, borrows=True)
def _permute_line(t, w, k):
    """Permute the C values of lane `w` from SIMD line `k` on by `order`, in place."""
    S = t.S
    for j in range(t.C):
        S[t.p + j, w] = S[k + np.int64(S[t.order + j, w]), w]
    for j in range(t.C):
        S[k + j, w] = S[t.p + j, w]
