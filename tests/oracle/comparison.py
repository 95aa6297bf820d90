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


ORACLES = {
    "overlap": _pairwise(lambda p, q: float(sum(map(min, p, q)))),
    "l1_distance": _pairwise(lambda p, q: float(sum(abs(x - y) for x, y in zip(p, q, strict=True)))),
    "kl_divergence": _pairwise(_kl),
}
