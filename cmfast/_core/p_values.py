"""P-values that several topics take: of the exact binomial test, and corrected for their number."""

from typing import Any, Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["exact", "mid_p", "corrected"]


def binomial_test(b: Any, c: Any, kind: Kind = "exact") -> Any:
    """Return the two-sided p of `b` samples against `c`, each of which falls to either side evenly; 1 without any."""
    from scipy.special import bdtr

    n, least = b + c, np.minimum(b, c)
    p = bdtr(least.astype(np.float64), n, 0.5)
    if kind == "exact":
        return np.minimum(2.0 * p, 1.0)[()]
    below = np.where(least > 0, bdtr(np.maximum(least - 1.0, 0.0), n, 0.5), 0.0)
    # Equal counts are the one outcome that both tails have: half of its probability is left out, not all of it.
    equal = np.where(n > 0, 1.0 - 0.5 * (p - below), 1.0)
    return np.where(b == c, equal, np.minimum(p + below, 1.0))[()]


def holm(p: np.ndarray) -> np.ndarray:
    """Return p-values along the first axis, corrected for their number; what is NaN does not count."""
    order, ordered, n = _sort_p_values(p)
    rank = np.arange(len(p)).reshape(-1, *[1] * (p.ndim - 1))
    return _restore_order(np.minimum(np.maximum.accumulate(ordered * np.maximum(n - rank, 1), axis=0), 1.0), order, p)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Return p-values along the first axis, corrected for the share of false discoveries."""
    order, ordered, n = _sort_p_values(p)
    rank = np.arange(1, len(p) + 1).reshape(-1, *[1] * (p.ndim - 1))
    return _restore_order(
        np.minimum(np.minimum.accumulate((ordered * np.maximum(n, 1) / rank)[::-1], axis=0)[::-1], 1.0), order, p
    )


def _sort_p_values(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the order of p-values, themselves in order with 1 for NaN, and how many there are."""
    order = np.argsort(p, axis=0, kind="stable")
    ordered = np.take_along_axis(p, order, axis=0)
    return order, np.where(np.isnan(ordered), np.inf, ordered), np.count_nonzero(~np.isnan(p), axis=0)


def _restore_order(corrected: np.ndarray, order: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return corrected p-values in their own order."""
    out = np.empty_like(p)
    np.put_along_axis(out, order, corrected, axis=0)
    return np.where(np.isnan(p), np.nan, out)
