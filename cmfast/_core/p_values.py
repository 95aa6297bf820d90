"""P-values shared by several topics: the exact binomial test and corrections for multiple comparisons."""

from typing import Any, Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["exact", "mid_p", "corrected"]


def binomial_test(b: Any, c: Any, kind: Kind = "exact") -> Any:
    """Return the two-sided p-value of an exact binomial test of `b` against `c` at probability 1/2; 1 if both are 0.

    "mid_p" and "corrected" count half the probability of the observed outcome.
    """
    from scipy.special import bdtr

    n, least = b + c, np.minimum(b, c)
    p = bdtr(least.astype(np.float64), n, 0.5)
    if kind == "exact":
        return np.minimum(2.0 * p, 1.0)[()]
    below = np.where(least > 0, bdtr(np.maximum(least - 1.0, 0.0), n, 0.5), 0.0)
    # With equal counts both tails contain the observed outcome: half of its probability is subtracted, not all of it.
    equal = np.where(n > 0, 1.0 - 0.5 * (p - below), 1.0)
    return np.where(b == c, equal, np.minimum(p + below, 1.0))[()]


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust p-values along the first axis by Holm's method (family-wise error rate); NaN does not count as a test."""
    order, ordered, n = _sort_p_values(p)
    rank = np.arange(len(p)).reshape(-1, *[1] * (p.ndim - 1))
    return _restore_order(np.minimum(np.maximum.accumulate(ordered * np.maximum(n - rank, 1), axis=0), 1.0), order, p)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Adjust p-values along the first axis by the Benjamini-Hochberg method (false discovery rate)."""
    order, ordered, n = _sort_p_values(p)
    rank = np.arange(1, len(p) + 1).reshape(-1, *[1] * (p.ndim - 1))
    return _restore_order(
        np.minimum(np.minimum.accumulate((ordered * np.maximum(n, 1) / rank)[::-1], axis=0)[::-1], 1.0), order, p
    )


def _sort_p_values(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort p-values along axis 0: return the order, the sorted values with inf for NaN, and the non-NaN counts."""
    order = np.argsort(p, axis=0, kind="stable")
    ordered = np.take_along_axis(p, order, axis=0)
    return order, np.where(np.isnan(ordered), np.inf, ordered), np.count_nonzero(~np.isnan(p), axis=0)


def _restore_order(corrected: np.ndarray, order: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return adjusted p-values in their original order, NaN where `p` is NaN."""
    out = np.empty_like(p)
    np.put_along_axis(out, order, corrected, axis=0)
    return np.where(np.isnan(p), np.nan, out)
