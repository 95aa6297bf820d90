"""Overlap, L1 distance and KL divergence, one pair of matrices at a time, in exact arithmetic."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np


def _shares(M):
    """Every cell divided by the total, in exact arithmetic; None where the matrix has no answer."""
    cells = [float(x) for x in np.asarray(M).ravel()]
    if any(not math.isfinite(x) or x < 0 for x in cells):
        return None
    total = sum(map(Fraction, cells))
    return [Fraction(x) / total for x in cells] if total else None


def _pairwise(of_shares):
    def op(S, T, **_):
        S, T = np.asarray(S), np.asarray(T)
        batch = np.broadcast_shapes(S.shape[:-2], T.shape[:-2])
        s = np.broadcast_to(S, batch + S.shape[-2:])
        t = np.broadcast_to(T, batch + T.shape[-2:])
        out = np.empty(batch)
        for index in np.ndindex(batch):
            p, q = _shares(s[index]), _shares(t[index])
            out[index] = math.nan if p is None or q is None else of_shares(p, q)
        return (out.astype(np.float32 if S.dtype == T.dtype == np.float32 else np.float64),)

    return op


def _kl(p, q):
    if any(x > 0 and y == 0 for x, y in zip(p, q, strict=True)):
        return math.inf
    with localcontext(prec=60):  # enough for nearly equal matrices, whose terms cancel
        terms = [_decimal(x) * (_decimal(x).ln() - _decimal(y).ln()) for x, y in zip(p, q, strict=True) if x]
        return max(0.0, float(sum(terms)))


def _decimal(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


NUDGE = Fraction(1, 10**20)


def _term(of, x, y):
    if of == "overlap":
        return _decimal(min(x, y))
    if of == "l1_distance":
        return _decimal(abs(x - y))
    return _decimal(x) * (_decimal(x).ln() - _decimal(y).ln()) if x else Decimal(0)


def _slope(of, first, second, pair, k):
    """Return the slope in cell `k` of one of the two matrices, by a central difference; one-sided at zero."""
    cells = [first, second]
    x, found = cells[pair][k], []
    h = NUDGE * (x or 1)
    for step in (h, -h if x else 0):
        changed = [list(first), list(second)]
        changed[pair][k] = x + step
        p, q = ([c / sum(one) for c in one] for one in changed)
        if of == "kl_divergence" and any(a > 0 and b == 0 for a, b in zip(p, q, strict=True)):
            return math.nan
        found.append(sum(_term(of, a, b) for a, b in zip(p, q, strict=True)))
    if of == "kl_divergence" and pair == 0 and x == 0 and second[k] > 0:
        return -math.inf
    return float((found[0] - found[1]) / _decimal(h * (2 if x else 1)))


def gradient(S, T, G, *, of):
    batch = np.broadcast_shapes(S.shape[:-2], T.shape[:-2])
    out = []
    for pair, one in enumerate((S, T)):
        found = np.full((*batch, *one.shape[-2:]), math.nan)
        for index in np.ndindex(batch):
            M, N = (np.broadcast_to(a, batch + a.shape[-2:])[index].ravel() for a in (S, T))
            if _shares(M) is None or _shares(N) is None:
                continue
            first, second = ([Fraction(float(x)) for x in a] for a in (M, N))
            with localcontext(prec=70):
                slopes = [_slope(of, first, second, pair, k) for k in range(len(first))]
            found[index] = np.reshape(slopes, one.shape[-2:]) * float(G[index])
        out.append(found.astype(np.float32 if one.dtype == np.float32 else np.float64))
    return tuple(out)


ORACLES = {
    "comparison_gradient": gradient,
    "overlap": _pairwise(lambda p, q: float(sum(map(min, p, q)))),
    "l1_distance": _pairwise(lambda p, q: float(sum(abs(x - y) for x, y in zip(p, q, strict=True)))),
    "kl_divergence": _pairwise(_kl),
}
