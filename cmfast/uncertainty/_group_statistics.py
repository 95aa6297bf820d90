"""Statistics of independent groups: intervals of differences and ratios of two, and of the largest over all pairs."""

from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

N_NODES = 400  # of the Gauss-Legendre quadrature of the studentized range
FARTHEST = 9.0  # standard deviations: the normal density is below 1e-17 beyond
N_HALVINGS = 60  # of a bisection
LARGEST_Z = 40.0  # the p-value of this z is below the smallest float64
TAIL = 1e-7  # below, p is Bonferroni's bound: 1 - cdf would lose digits


class Ends(NamedTuple):
    """Estimates of groups and the ends of their intervals, arrays of one shape; the last axis is the groups."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def find_normal_quantile(confidence_level: float) -> float:
    """Return the z of a two-sided normal interval."""
    return NormalDist().inv_cdf(0.5 + confidence_level / 2.0)


def list_pairs(n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of both groups of every pair, the first before the second."""
    first, second = np.triu_indices(n_groups, 1)
    return first, second


def compute_wilson_ends(share: np.ndarray, n: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of Wilson's score interval of a share of `n` samples (Wilson 1927)."""
    with np.errstate(invalid="ignore"):
        middle, reach = share * n + z * z / 2.0, z * np.sqrt(share * (1.0 - share) * n + z * z / 4.0)
        whole = n + z * z
        low, high = (middle - reach) / whole, (middle + reach) / whole
    low, high = np.where(share == 0.0, 0.0, low), np.where(share == 1.0, 1.0, high)  # rounding would miss them
    return np.minimum(low, share), np.maximum(high, share)


def compute_difference_ends(first: Ends, second: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of first minus second from the intervals of both (Newcombe 1998; Zou and Donner 2008)."""
    with np.errstate(invalid="ignore"):
        difference = first.estimate - second.estimate
        below = np.hypot(first.estimate - first.low, second.high - second.estimate)
        above = np.hypot(first.high - first.estimate, second.estimate - second.low)
    return difference - below, difference + above


def compute_ratio_ends(first: Ends, second: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of first / second from the intervals of both, which are not negative (Donner and Zou 2012).

    The upper end is infinite where the interval of the second contains 0.
    """
    # Both solve factor * x**2 - 2 * product * x + rest = 0, where the interval of first - x * second touches 0.
    with np.errstate(invalid="ignore", divide="ignore"):
        product = first.estimate * second.estimate
        factor, rest = (
            second.high * (2.0 * second.estimate - second.high),
            first.low * (2.0 * first.estimate - first.low),
        )
        low = rest / (product + np.sqrt(np.maximum(product**2 - factor * rest, 0.0)))
        factor, rest = (
            second.low * (2.0 * second.estimate - second.low),
            first.high * (2.0 * first.estimate - first.high),
        )
        high = (product + np.sqrt(np.maximum(product**2 - factor * rest, 0.0))) / factor
    low = np.where(first.low > 0.0, low, 0.0)
    high = np.where(second.low > 0.0, high, np.inf)
    undefined = np.isnan(product) | ((first.estimate == 0.0) & (second.estimate == 0.0))
    return np.where(undefined, np.nan, low), np.where(undefined, np.nan, high)


def compute_log_ratio_ends(
    first: np.ndarray, second: np.ndarray, errors: tuple[np.ndarray, np.ndarray], z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of first / second by the delta method on the log scale (Katz et al. 1978); NaN at 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        half = z * np.hypot(errors[0] / first, errors[1] / second)
        ratio = np.where((first > 0.0) & (second > 0.0), first / second, np.nan)
        return ratio * np.exp(-half), ratio * np.exp(half)


def cumulate_range(width: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the probability that the range of `n_groups` standard normal values is at most `width`.

    This is the distribution of the studentized range with infinitely many degrees of freedom (Tukey 1953).
    """
    from scipy.special import ndtr

    if n_groups < 2:
        return np.ones(np.shape(width))
    largest, density = _make_quadrature()
    inside = ndtr(largest) - ndtr(largest - np.asarray(width)[..., np.newaxis])
    return np.asarray(np.clip(n_groups * (inside ** (n_groups - 1) * density).sum(-1), 0.0, 1.0))


@lru_cache(maxsize=1)
def _make_quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of a quadrature over the normal distribution, and their probabilities."""
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    largest = FARTHEST * nodes
    return largest, FARTHEST * weights * np.exp(-0.5 * largest**2) / np.sqrt(2.0 * np.pi)


def compute_largest_p(z: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Return the probability of a largest ``|z|`` of all pairs of at least `z`, if no groups differ (Tukey-Kramer).

    `sizes` are the numbers of groups of independent families, as those of two rates from different samples. For
    unequal variances the probability is an upper bound (Hayter 1984).
    """
    from scipy.special import ndtr

    inside = np.ones(np.shape(z))
    for n in sizes:
        inside = inside * cumulate_range(np.sqrt(2.0) * np.asarray(z), n)
    bound = 2.0 * ndtr(-np.asarray(z)) * sum(n * (n - 1) // 2 for n in sizes)
    p_value: np.ndarray = np.where(bound < TAIL, bound, np.minimum(1.0 - inside, np.minimum(bound, 1.0)))
    return p_value


@lru_cache(maxsize=256)
def compute_largest_z(confidence_level: float, sizes: tuple[int, ...]) -> float:
    """Return the z that the largest ``|z|`` of all pairs of equal groups reaches with 1 - `confidence_level`."""
    if sum(n * (n - 1) for n in sizes) == 0:
        return float("nan")
    low, high = 0.0, LARGEST_Z
    for _ in range(N_HALVINGS):
        middle = 0.5 * (low + high)
        below = float(compute_largest_p(np.array(middle), sizes)) > 1.0 - confidence_level
        low, high = (middle, high) if below else (low, middle)
    return high
