"""Statistics of bootstrap resamples: percentile, basic and BCa intervals, p-values and shares, without NaN."""

from typing import NamedTuple

import numpy as np

from cmfast._core import dispatch


class Replicates(NamedTuple):
    """Replicates of a value, with its estimate and BCa acceleration.

    Attributes
    ----------
    values : array of float64, shape (..., B)
        The replicates, in any order.
    n : array of int64, shape (...)
        Number of replicates that are not NaN.
    estimate : array of float64, shape (...)
        The value of the sample.
    acceleration : array of float64, shape (...)
        Acceleration of BCa; 0 for other methods.
    """

    values: np.ndarray
    n: np.ndarray
    estimate: np.ndarray
    acceleration: np.ndarray


def make_replicates(values: np.ndarray, estimate: np.ndarray, acceleration: np.ndarray) -> Replicates:
    """Return replicates, shape (..., B), with the number of defined ones."""
    n = np.asarray(np.count_nonzero(~np.isnan(values), axis=-1))
    return Replicates(values, n, estimate, np.broadcast_to(acceleration, estimate.shape))


def compute_interval(
    replicates: Replicates, method: str, confidence_level: float, num_threads: int | None
) -> tuple[np.ndarray, ...]:
    """Return both ends of an interval, and the standard deviation of the replicates; "normal" gives percentiles."""
    size, kind = replicates.estimate.size, "percentile" if method == "normal" else method
    rows = replicates.values.reshape(size, replicates.values.shape[-1]).T[:, :, np.newaxis]
    column = [np.array(x, np.float64).reshape(size, 1) for x in (replicates.estimate, replicates.acceleration)]
    found = dispatch.call(
        "replicate_intervals", rows, *column, method=kind, confidence_level=confidence_level, num_threads=num_threads
    )
    low, high, error = (part.reshape(replicates.estimate.shape) for part in found[:3])
    return low, high, np.where(np.isnan(replicates.estimate), np.nan, error)


def compute_share_below(replicates: Replicates, x: "float | np.ndarray") -> np.ndarray:
    """Return the share of replicates below `x`; replicates equal to `x` count half."""
    below, equal = _count_below_and_equal(replicates, x)
    return np.where(
        (replicates.n > 0) & ~np.isnan(replicates.estimate), (below + 0.5 * equal) / np.maximum(replicates.n, 1), np.nan
    )


def compute_p_value(replicates: Replicates, method: str) -> np.ndarray:
    """Return the smallest ``1 - confidence_level`` at which the interval excludes 0.

    The lower end excludes 0 if too few replicates are at or below 0, the upper end if too few are at or above 0:
    replicates at 0 count on both sides. One replicate is added to the count, since B replicates without an excess do
    not prove p < 1 / B.
    """
    from scipy.special import ndtr, ndtri

    known = (replicates.n > 0) & ~np.isnan(replicates.estimate)
    if method == "bca":
        below, equal = _count_below_and_equal(replicates, 0.0)
        start = ndtri(_clip_share(replicates, compute_share_below(replicates, replicates.estimate)))
        # Share of replicates that the interval must cut off at an end so that this end is 0.
        shares = (_clip_share(replicates, count / np.maximum(replicates.n, 1)) for count in (below + equal, below))
        low, high = ((z - start) / (1.0 + replicates.acceleration * (z - start)) - start for z in map(ndtri, shares))
        p = 2.0 * np.minimum(ndtr(low), ndtr(-high))
    else:
        below, equal = _count_below_and_equal(replicates, 2.0 * replicates.estimate if method == "basic" else 0.0)
        p = 2.0 * (np.minimum(below, replicates.n - below - equal) + equal + 1.0) / (replicates.n + 1.0)
    return np.where(known, np.clip(p, 2.0 / (replicates.n + 1.0), 1.0), np.nan)


def _count_below_and_equal(replicates: Replicates, x: "float | np.ndarray") -> tuple[np.ndarray, np.ndarray]:
    """Return the number of replicates below `x`, and the number equal to it."""
    x = np.broadcast_to(x, replicates.n.shape)[..., None]
    return np.asarray(np.count_nonzero(replicates.values < x, axis=-1)), np.asarray(
        np.count_nonzero(replicates.values == x, axis=-1)
    )


def _clip_share(replicates: Replicates, share: np.ndarray) -> np.ndarray:
    """Return a share of replicates, clipped away from 0 and 1 so that its normal quantile is finite."""
    half = 0.5 / np.maximum(replicates.n, 1)
    inside: np.ndarray = np.clip(share, half, 1.0 - half)
    return inside
