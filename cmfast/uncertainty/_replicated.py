"""What replicates of a number say of it beside their intervals: a p-value, a probability; NaN are left out."""

from typing import NamedTuple

import numpy as np

from cmfast._core import dispatch


class Replicated(NamedTuple):
    """Replicates, and what they are of.

    Attributes
    ----------
    values : array of float64, shape (..., B)
        In any order.
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
    n = np.asarray(np.count_nonzero(~np.isnan(values), axis=-1))
    return Replicated(values, n, estimate, np.broadcast_to(acceleration, estimate.shape))


def interval(of: Replicated, method: str, level: float, num_threads: int | None) -> tuple[np.ndarray, ...]:
    """Return both ends of an interval, and the standard deviation of the replicates; "normal" has its own ends."""
    size, kind = of.estimate.size, "percentile" if method == "normal" else method
    rows = of.values.reshape(size, of.values.shape[-1]).T[:, :, np.newaxis]
    column = [np.array(x, np.float64).reshape(size, 1) for x in (of.estimate, of.acceleration)]
    found = dispatch.call("replicate_intervals", rows, *column, method=kind, level=level, num_threads=num_threads)
    low, high, error = (part.reshape(of.estimate.shape) for part in found[:3])
    return low, high, np.where(np.isnan(of.estimate), np.nan, error)


def share_below(of: Replicated, x: "float | np.ndarray") -> np.ndarray:
    """Return the share of replicates below `x`; those that equal it count half."""
    below, equal = _counts(of, x)
    return np.where((of.n > 0) & ~np.isnan(of.estimate), (below + 0.5 * equal) / np.maximum(of.n, 1), np.nan)


def p_value(of: Replicated, method: str) -> np.ndarray:
    """Return the least 1 - level at which the interval leaves out 0.

    An interval leaves out 0 at its lower end if too few replicates are at or below 0, at its upper end if too few are
    at or above 0: replicates at 0 count as one on either side. A replicate more is counted, as none of B says that p is
    below 1 / B.
    """
    from scipy.special import ndtr, ndtri

    known = (of.n > 0) & ~np.isnan(of.estimate)
    if method == "bca":
        below, equal = _counts(of, 0.0)
        start = ndtri(_inside(of, share_below(of, of.estimate)))
        # Which share of replicates the interval must cut off at an end, for 0 to be that end.
        shares = (_inside(of, count / np.maximum(of.n, 1)) for count in (below + equal, below))
        low, high = ((z - start) / (1.0 + of.acceleration * (z - start)) - start for z in map(ndtri, shares))
        p = 2.0 * np.minimum(ndtr(low), ndtr(-high))
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
