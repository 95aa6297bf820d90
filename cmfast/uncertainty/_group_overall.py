"""Differences and ratios of each group to all samples together, which contain the group (``reference="overall"``).

Shares of samples: the share of all is ``w`` times that of the group plus ``1 - w`` times that of the other samples,
which are independent of it. So the difference to all is ``1 - w`` times that to the others, and so is its interval.
Other metrics: by derivatives in the cells of all groups, or from replicates of the groups and of their sum.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch
from cmfast._core.adapters import adapter
from cmfast.uncertainty import _group_gaps, _group_statistics
from cmfast.uncertainty._group_gaps import PairIntervals
from cmfast.uncertainty._group_units import GroupUnits


class OverallValues(NamedTuple):
    """One metric of all samples next to that of each group, for E classes.

    Attributes
    ----------
    value : array of float64, shape (N, E)
        The metric of all samples; NaN where it is 0/0.
    errors : pair of arrays of float64, shape (N, E, G), or None
        Standard errors of the difference to it, and of the logarithm of the ratio (delta method).
    rest : pair of arrays of float64, shape (N, E, G), or None
        The metric of the samples of all other groups, and of how many samples it is a share.
    draws : array of float64, shape (N, E, B), or None
        Bootstrap replicates of it.
    """

    value: np.ndarray
    errors: tuple[np.ndarray, np.ndarray] | None
    rest: tuple[np.ndarray, np.ndarray] | None
    draws: np.ndarray | None


def compare_with_all(
    value: np.ndarray,
    size: np.ndarray | None,
    draws: np.ndarray | None,
    overall: OverallValues,
    confidence_level: float,
) -> PairIntervals:
    """Return differences and ratios of groups to all samples, shape (N, E, G); of a group is given what `overall` has.

    `value` is NaN, shape (N, E, G), where the metric of a group is undefined.
    """
    everything = overall.value[..., np.newaxis]
    with np.errstate(invalid="ignore", divide="ignore"):
        positive = (_group_gaps.can_have_ratio(value) & ~(overall.value < 0.0))[..., np.newaxis]
        if overall.rest is not None:
            assert size is not None
            return _compare_shares(value, size, overall, positive, confidence_level)
        if draws is not None:
            return _compare_replicates(value, draws, overall, confidence_level)
        assert overall.errors is not None
        error, log_error = overall.errors
        z = _group_statistics.find_normal_quantile(confidence_level)
        difference = value - everything
        low, high = difference - z * error, difference + z * error
        ratio = np.where(positive, value / everything, np.nan)
        p_value = compute_p_value(difference, error)
        some = ratio > 0.0
        ends = (np.where(some, ratio * np.exp(sign * z * log_error), np.nan) for sign in (-1.0, 1.0))
        return PairIntervals(difference, low, high, p_value, ratio, *ends)


def compute_p_value(difference: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the two-sided normal p of no difference; 1 or NaN where the standard error is 0."""
    from scipy.special import ndtr

    alike = np.where(difference == 0.0, 1.0, np.nan)
    return np.where(error > 0.0, 2.0 * ndtr(-np.abs(difference) / np.where(error > 0.0, error, 1.0)), alike)


def _compare_shares(
    value: np.ndarray, size: np.ndarray, overall: OverallValues, positive: np.ndarray, confidence_level: float
) -> PairIntervals:
    """Return the comparisons of shares of samples, from Wilson's intervals of the group and of the other samples."""
    from scipy.special import ndtr

    assert overall.rest is not None
    rest, rest_size = overall.rest
    both = _group_gaps.GroupPairs((value, rest), (value, rest), (size, rest_size), positive)
    z = np.asarray(_group_statistics.find_normal_quantile(confidence_level))
    own = size / (size + rest_size)
    low, high = ((1.0 - own) * x for x in both.compute_difference_ends(z))
    root = both.compute_roots()
    p_value = np.where(np.isnan(root), np.nan, 2.0 * ndtr(-root))
    # With r = group / others, group / all is r / (own r + 1 - own), which grows with r up to 1 / own.
    ratio = np.where(positive, value / overall.value[..., np.newaxis], np.nan)
    ends = (np.where(np.isinf(r), 1.0 / own, r / (own * r + 1.0 - own)) for r in both.compute_ratio_ends(z))
    return PairIntervals(value - overall.value[..., np.newaxis], low, high, p_value, ratio, *ends)


def _compare_replicates(
    value: np.ndarray, draws: np.ndarray, overall: OverallValues, confidence_level: float
) -> PairIntervals:
    """Return percentile intervals from the replicates of groups and of all samples."""
    assert overall.draws is not None
    G = value.shape[-1]
    out = PairIntervals(*(np.full(value.shape, np.nan) for _ in PairIntervals._fields))
    for index in np.ndindex(value.shape[:2]):
        values = np.append(value[index], overall.value[index])
        replicates = np.concatenate([draws[index], overall.draws[index][np.newaxis]])
        _group_gaps.bootstrap_pairs(
            values, replicates, np.arange(G), np.full(G, G), [x[index] for x in out], confidence_level
        )
    return out


def compute_errors(
    M: Any,
    plan: Any,
    position: int,
    value: np.ndarray,
    overall: np.ndarray,
    num_threads: int | None,
    units: GroupUnits | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors of the difference to all samples, and of the log ratio, shape (N, E, G).

    `M` has the shape (N, G, C, C); `position` is that of the metric among the results of the plan, whose values are
    `value`, shape (N, E, G), and of all samples `overall`, shape (N, E). The number of samples, or of `units`, of each
    group is fixed.
    """
    home, (N, G, C, _) = adapter(M), dispatch.shape_of(M)
    counts = np.asarray(home.to_host(M), np.float64).reshape(N, G, C * C)
    together = home.evaluate(lambda M: M.sum(1), M)
    out = np.empty((2, *value.shape))

    def compute(slopes: np.ndarray) -> np.ndarray:
        """Return the variance of a sum of cells with these slopes, shape (N, G)."""
        if units is None:
            return _compute_variance(counts, slopes)
        return units.compute_variance(np.broadcast_to(slopes, (1, G, C * C))[0])[np.newaxis]

    for k in range(value.shape[1]):
        own = differentiate(M, plan, position, k, num_threads)
        whole = differentiate(together, plan, position, k, num_threads)[:, np.newaxis]
        alone = compute(whole)
        others = alone.sum(-1, keepdims=True) - alone  # what other groups add by their share in all samples
        mean = overall[:, k, np.newaxis]
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = own / value[:, k, :, np.newaxis] - whole / mean[..., np.newaxis]
            out[0, :, k] = np.sqrt(np.maximum(others + compute(own - whole), 0.0))
            out[1, :, k] = np.sqrt(np.maximum(others / mean**2 + compute(shares), 0.0))
    return out[0], out[1]


def differentiate(M: Any, plan: Any, position: int, k: int, num_threads: int | None) -> np.ndarray:
    """Return the derivatives of a metric, of class `k` if it has classes, in the cells; shape (..., C * C)."""
    home, (*batch, C, _) = adapter(M), dispatch.shape_of(M)
    scalars, tables = np.zeros((*batch, plan.scalars)), np.zeros((*batch, plan.tables, C))
    if position < plan.scalars:
        scalars[..., position] = 1.0
    else:
        tables[..., position - plan.scalars, k] = 1.0
    given = dispatch.adopt(scalars=home.send(scalars, M), tables=home.send(tables, M))
    slopes = dispatch.call("metrics_gradient", M, *given, plan=plan, num_threads=num_threads)
    return np.asarray(home.to_host(slopes), np.float64).reshape(*batch, C * C)


def _compute_variance(counts: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the variance of a sum of multinomial cells with these slopes, for groups of fixed size; shape (N, G)."""
    n = np.maximum(counts.sum(-1), 1.0)
    used = np.where(counts > 0.0, slopes, 0.0)
    found: np.ndarray = (counts * used**2).sum(-1) - (counts * used).sum(-1) ** 2 / n
    return found
