"""From matrices to the sums that every metric is made of, a tile of matrices at a time.

A tile is (sum, class, lane): the lane, one matrix, is last, so that formulas run over matrices and vectorise.
"""

import numpy as np

from cmfast.kernels.cpu._jit import jit
from cmfast.kernels.status import Status

OK = int(Status.CONVERGED)
INVALID = int(Status.INVALID)

LANES = 32  # a tile of 10 classes is 13 KB: it stays in the first cache, with room for the values made from it
MOST = np.iinfo(np.int64).max


def lanes(C, n):
    """Return how many matrices share a tile: fewer where classes are many, so that it stays in the second cache."""
    return max(1, min(LANES if C <= 64 else 8, n))


@jit()
def load(M, first, count, exact, bands, tile, total, status, col, band):
    """Fill a tile with the sums of ``M[first : first + count]``; col and band are scratch of C and 2 C numbers."""
    C = M.shape[1]
    zero = tile.dtype.type(0)
    for w in range(count):
        m = M[first + w]
        low, high = zero, zero
        n = zero
        for k in range(C):
            col[k] = zero
        for k in range(2 * C):
            band[k] = zero
        for i in range(C):
            above = col[i]  # of column i, the part above the diagonal
            row = zero
            for j in range(i + 1):
                row += m[i, j]
            tile[4, i, w] = above + row
            for j in range(i + 1, C):
                row += m[i, j]
            for j in range(C):
                x = zero + m[i, j]
                col[j] += x
                low = x if x < low else low
                high = x if x > high else high
            if bands:
                offset = C - 1 - i
                for j in range(C):
                    band[offset + j] += m[i, j]
            tile[0, i, w] = m[i, i]
            tile[1, i, w] = row
            n += row
        for k in range(C):
            tile[2, k, w] = col[k]
            tile[3, k, w] = band[C - 1 + k] + band[C - 1 - k]
        if C > 0:
            tile[3, 0, w] = band[C - 1]
        total[w] = n
        finite = n - n == zero  # no NaN, no infinity, no float sum beyond all numbers
        crowded = exact and high > MOST // max(1, C * C) and _too_many(m)
        status[w] = OK if finite and low >= zero and not crowded else INVALID


@jit()
def _too_many(m):
    """Whether the sum of nonnegative cells exceeds int64."""
    left = np.int64(MOST)
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            if m[i, j] > left:
                return True
            left -= np.int64(m[i, j])
    return False


@jit()
def load_sums(d, t, p, band, top, first, count, exact, tile, total, status):
    """Fill a tile with given sums, and mark those that no matrix can have."""
    C = t.shape[1]
    zero = tile.dtype.type(0)
    slack = 0.0 if exact else 1e-9  # the margins of a fractional matrix are rounded, each in its own order
    for w in range(count):
        b = first + w
        n, others = zero, zero
        ok = True
        for k in range(C):
            tile[0, k, w], tile[1, k, w], tile[2, k, w] = d[b, k], t[b, k], p[b, k]
            if band.shape[0] > 0:
                tile[3, k, w] = band[b, k]
            if top.shape[0] > 0:
                tile[4, k, w] = top[b, k]
            ok = ok and d[b, k] >= zero and t[b, k] >= zero and p[b, k] >= zero
            ok = ok and not (exact and (t[b, k] > MOST - n or p[b, k] > MOST - others))
            n += t[b, k]
            others += p[b, k]
        total[w] = n
        for k in range(C):
            rest = min(t[b, k] - d[b, k], p[b, k] - d[b, k], (n - t[b, k]) - (p[b, k] - d[b, k]))
            ok = ok and rest >= -slack * n
        ok = ok and n - n == zero and abs(n - others) <= slack * n
        ok = ok and (band.shape[0] == 0 or _adds_up(band[b], n, slack))
        ok = ok and (top.shape[0] == 0 or _adds_up(top[b], n, slack))
        status[w] = OK if ok else INVALID


@jit()
def _adds_up(part, n, slack):
    left = n
    for k in range(part.shape[0]):
        if not (part[k] >= 0 and left - part[k] >= -slack * n):
            return False
        left -= part[k]
    return left <= slack * n
