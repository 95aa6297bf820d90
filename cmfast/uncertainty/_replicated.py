"""What replicates of a number say of it: intervals, a p-value, a probability; numbers that are NaN are left out."""

from typing import NamedTuple

import numpy as np


class Replicated(NamedTuple):
    """Replicates in order, NaN last, and what they are of.

    Attributes
    ----------
    values : array of float64, shape (..., B)
        Sorted.
    n : array of int64, shape (...)
        How many are no NaN.
    estimate : array of float64, shape (...)
        The number itself.
    acceleration : array of float64, shape (...)
        Of BCa; 0 for all other methods.
    """

    values: np.ndarray
    n: np.ndarray
    estimate: np.ndarray
    acceleration: np.ndarray


def replicated(values: np.ndarray, estimate: np.ndarray, acceleration: np.ndarray) -> Replicated:
    """Return replicates, shape (..., B), ready to be asked."""
    ordered = np.sort(values, axis=-1)
    n = values.shape[-1] - np.count_nonzero(np.isnan(values), axis=-1)
    return Replicated(ordered, n, estimate, acceleration)


def standard_error(of: Replicated) -> np.ndarray:
    """Return the standard deviation of the replicates."""
    n = of.n
    known = np.arange(of.values.shape[-1]) < n[..., None]
    with np.errstate(invalid="ignore"):  # of replicates without end
        mean = np.where(known, of.values, 0.0).sum(-1) / np.maximum(n, 1)
        squares = np.where(known, (of.values - mean[..., None]) ** 2, 0.0).sum(-1)
    return np.where((n > 1) & ~np.isnan(of.estimate), np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)


def interval(of: Replicated, method: str, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of an interval."""
    low, high = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    if method == "basic":
        return 2.0 * of.estimate - quantile(of, high), 2.0 * of.estimate - quantile(of, low)
    if method == "bca":
        return quantile(of, _adjusted(of, low)), quantile(of, _adjusted(of, high))
    return quantile(of, low), quantile(of, high)


def quantile(of: Replicated, q: "float | np.ndarray") -> np.ndarray:
    """Return quantiles, linear between the replicates on both sides."""
    if not of.values.shape[-1]:
        return np.full(of.n.shape, np.nan)
    place = np.clip(q, 0.0, 1.0) * np.maximum(of.n - 1, 0)
    place = np.where(np.isnan(place), 0.0, place)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(of.n - 1, 0))
    a, b = (np.take_along_axis(of.values, k[..., None], -1)[..., 0] for k in (below, above))
    with np.errstate(invalid="ignore"):  # of replicates without end
        found = np.where((a == b) | (place == below), a, a + (b - a) * (place - below))
    return np.where((of.n > 0) & ~np.isnan(of.estimate + q), found, np.nan)


def share_below(of: Replicated, x: "float | np.ndarray") -> np.ndarray:
    """Return the share of replicates below `x`; those that equal it count half."""
    below, equal = _counts(of, x)
    return np.where((of.n > 0) & ~np.isnan(of.estimate), (below + 0.5 * equal) / np.maximum(of.n, 1), np.nan)


def p_value(of: Replicated, method: str) -> np.ndarray:
    """Return the least 1 - level at which the interval leaves out 0.

    A replicate more is counted, as none of B says that p is below 1 / B.
    """
    from scipy.special import ndtr, ndtri

    known = (of.n > 0) & ~np.isnan(of.estimate)
    if method == "bca":
        z, start = ndtri(_inside(of, share_below(of, 0.0))), ndtri(_inside(of, share_below(of, of.estimate)))
        t = (z - start) / (1.0 + of.acceleration * (z - start)) - start
        p = 2.0 * ndtr(-np.abs(t))
    else:
        below, equal = _counts(of, 2.0 * of.estimate if method == "basic" else 0.0)
        p = 2.0 * (np.minimum(below, of.n - below - equal) + equal + 1.0) / (of.n + 1.0)
    return np.where(known, np.clip(p, 2.0 / (of.n + 1.0), 1.0), np.nan)


def _counts(of: Replicated, x: "float | np.ndarray") -> tuple[np.ndarray, np.ndarray]:
    """Return how many replicates are below `x`, and how many equal it."""
    x = np.broadcast_to(x, of.n.shape)[..., None]
    return np.asarray(np.count_nonzero(of.values < x, axis=-1)), np.asarray(np.count_nonzero(of.values == x, axis=-1))


def _inside(of: Replicated, share: np.ndarray) -> np.ndarray:
    """Return a share of replicates as one of which there is a normal quantile."""
    half = 0.5 / np.maximum(of.n, 1)
    inside: np.ndarray = np.clip(share, half, 1.0 - half)
    return inside


def _adjusted(of: Replicated, q: float) -> np.ndarray:
    """Return which quantile of the replicates the bias-corrected and accelerated one is (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    start = ndtri(_inside(of, share_below(of, of.estimate)))
    t = start + ndtri(q)
    below = 1.0 - of.acceleration * t
    found: np.ndarray = ndtr(start + np.where(below > 0.0, t / np.where(below > 0.0, below, 1.0), np.inf * np.sign(t)))
    return found


def acceleration(left_out: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the acceleration of BCa from the numbers without one unit of each kind, shape (..., u).

    There are `weights` units of every kind.
    """
    total = max(float(weights.sum()), 1.0)
    known = np.isfinite(left_out)
    mean = np.where(known, left_out, 0.0) @ weights / np.maximum(known @ weights.astype(np.float64), 1.0 / total)
    apart = np.where(known, mean[..., None] - left_out, 0.0)
    squares = apart**2 @ weights
    return np.where(squares > 0.0, (apart**3 @ weights) / (6.0 * np.where(squares > 0.0, squares, 1.0) ** 1.5), 0.0)
