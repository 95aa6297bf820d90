"""Lanes of a tile whose cells span much: powers of two taken out of them, and columns moved to their rows."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling import _line as line
from cmfast.kernels.cpu.scaling._range_pairing import pair_and_balance
from cmfast.kernels.cpu.scaling._tile import NEAR, PARTS, example
from cmfast.kernels.shared.scaling import EQUILIBRATION_ROUNDS, MOST_SCALE_RATIO, VAST, WIDE
from cmfast.kernels.status import RANGE


@jit(inner=True, borrows=True)
def dominates(t, w):
    """Whether the diagonal of the classes that are not dropped dominates."""
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
def spans_much(t, w):
    """Whether cells lie so far from one another, or from one, that they have to be brought nearer."""
    low, high = t.S[line.LOW, w], t.S[line.HIGH, w]
    if low < 1.0 / WIDE or high > WIDE or high > VAST * low:
        return True
    return high > MOST_SCALE_RATIO * low and not (t.R == t.C and dominates(t, w))


@PARTS.part(NEAR, lambda: (example(), 0, False), returns=None)
def bring_near(t, w, plain):
    """Take powers of two out of the cells of a lane, which is exact; with a pairing where one is wanted and exists."""
    S, R, C = t.S, t.R, t.C
    if R == C and not plain:
        A = np.empty((C, C))
        for i in range(C):
            for j in range(C):
                m = S[t.M + i * C + j, w]
                A[i, j] = math.log2(m) if m > 0.0 else -np.inf
                if S[t.u + i, w] == 0.0 and S[t.v + j, w] == 0.0:
                    A[i, j] = 0.0  # dropped on both sides: only with one another, and no matter which
        order = np.empty(C, np.int64)
        row_power, col_power = np.empty(C), np.empty(C)
        if pair_and_balance(A, order, row_power, col_power):
            S[line.CHOSEN, w] = 1.0
            S[line.PERMUTED, w] = 1.0
            for j in range(C):
                S[t.row_power + j, w] = row_power[j]
                S[t.col_power + j, w] = col_power[j]
            _divide_by_powers(t, w)
            for j in range(C):
                S[t.order + j, w] = order[j]
            permute(t, w)
            return
    if S[line.LOW, w] < 1.0 / WIDE or S[line.HIGH, w] > WIDE:
        _equilibrate(t, w)


@jit(inner=True, borrows=True)
def _divide_by_powers(t, w):
    S, R, C = t.S, t.R, t.C
    S[line.FAR, w] = 1.0
    for i in range(R):
        for j in range(C):
            power = -S[t.row_power + i, w] - S[t.col_power + j, w]
            S[t.M + i * C + j, w] = math.ldexp(S[t.M + i * C + j, w], int(power))


@jit(inner=True, borrows=True)
def _equilibrate(t, w):
    """Bring the cells together: the logarithms of rows and columns get mean zero."""
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
    """Turn the factors of the equilibrated matrix into those of the input."""
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
def permute(t, w):
    """Bring column ``order[j]`` to place j, of the cells as they are and, if they are by now, scaled."""
    for i in range(t.R):
        _permute_line(t, w, t.M + i * t.C)
        _permute_line(t, w, t.P + i * t.C)
    for k in (t.v, t.col_inverse, t.y, t.col_power):
        _permute_line(t, w, k)


@jit(inner=True, borrows=True)
def _permute_line(t, w, k):
    S = t.S
    for j in range(t.C):
        S[t.p + j, w] = S[k + np.int64(S[t.order + j, w]), w]
    for j in range(t.C):
        S[k + j, w] = S[t.p + j, w]
