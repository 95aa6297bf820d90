"""Differences and ratios of groups, of every pair and of the highest and lowest, by bootstrap, delta method or Wilson.

The largest difference of all pairs is no smooth function of the groups: where they are equal it is above 0 in every
sample, and percentiles of its replicates never contain 0. So its interval follows from those of the pairs. Its lower
end is the largest lower end of a pair at the level at which the intervals of all pairs hold together (Tukey-Kramer;
with the bootstrap from the largest studentized difference of each replicate). Its upper end is the largest upper end
of a pair at the level itself, because the pair that truly differs most is one of them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from cmfast._core.p_values import holm
from cmfast.uncertainty import _group_statistics, _replicate_statistics
from cmfast.uncertainty._group_statistics import Ends

CHUNK_BYTES = 2**26  # of replicates of pairs held at a time


class GroupEnds(NamedTuple):
    """Intervals of a metric that are not symmetric, as functions of the positions of groups, shape (P,).

    Attributes
    ----------
    find_ends : callable
        Returns both ends, shape (N, E, K, P), given the width of each side in standard errors.
    find_z : callable
        Returns the width at which an interval has an end, the inverse of `find_ends`; infinite where none has.
    fails_without_error : bool
        Whether an interval with a standard error of 0 has no width, and others never reach its value, so that such
        pairs need symmetric intervals.
    """

    find_ends: Callable[..., tuple[np.ndarray, np.ndarray]]
    find_z: Callable[..., np.ndarray]
    fails_without_error: bool = False


class GroupValues(NamedTuple):
    """Values of groups, arrays of shape (N, E, K, G): batch elements, classes, rates of one criterion, and groups.

    Attributes
    ----------
    value : array of float64
        The metric; NaN where it is 0/0 or the counts are invalid.
    error : array of float64
        Standard error.
    size : array of float64, or None
        Number of samples that the metric is a share of, for Wilson's intervals.
    draws : array of float64, shape (N, E, K, G, B), or None
        Bootstrap replicates.
    ends : GroupEnds, or None
        Intervals of the groups, if not symmetric.
    """

    value: np.ndarray
    error: np.ndarray
    size: np.ndarray | None
    draws: np.ndarray | None
    ends: GroupEnds | None = None


class PairIntervals(NamedTuple):
    """Differences and ratios of pairs, first and second, with intervals and p-values; shape (N, E, K, P)."""

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray
    ratio: np.ndarray
    ratio_low: np.ndarray
    ratio_high: np.ndarray


class Gap(NamedTuple):
    """The largest difference and the smallest ratio of two groups, with intervals and one p-value; shape (N, E)."""

    difference: np.ndarray
    difference_low: np.ndarray
    difference_high: np.ndarray
    p_value: np.ndarray
    ratio: np.ndarray
    ratio_low: np.ndarray
    ratio_high: np.ndarray


class _Simultaneous(NamedTuple):
    """Lower end of the largest difference, its p-value, and the upper end of the smallest ratio; shape (N, E)."""

    low: np.ndarray
    p_value: np.ndarray
    ratio_high: np.ndarray


def compare_values(groups: GroupValues, method: str, confidence_level: float) -> tuple[PairIntervals, Gap]:
    """Return the intervals of all pairs of :func:`list_pairs`, and of the highest and the lowest group."""
    first, second = _group_statistics.list_pairs(groups.value.shape[-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        if method == "bootstrap":
            pairs, together = _bootstrap_pairs(groups, first, second, confidence_level)
        else:
            pairs, together = _compute_pairs(groups, first, second, confidence_level)
        return pairs, _summarize_gap(pairs, together)


def find_extremes(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the lowest and the highest group, of the rate that differs most, shape (N, E); or -1."""
    low, high = np.where(np.isnan(value), np.inf, value), np.where(np.isnan(value), -np.inf, value)
    enough = np.count_nonzero(~np.isnan(value), axis=-1) >= 2
    with np.errstate(invalid="ignore"):
        apart = np.where(enough, high.max(-1, initial=-np.inf) - low.min(-1, initial=np.inf), -np.inf)
    if not value.shape[-1]:
        nowhere = np.full(value.shape[:2], -1)
        return nowhere, nowhere
    rate = apart.argmax(-1)[..., np.newaxis]
    found = (np.take_along_axis(x, rate, -1)[..., 0] for x in (low.argmin(-1), high.argmax(-1)))
    lowest, highest = (np.where(enough.any(-1), x, -1) for x in found)
    return lowest, highest


def select_pairs(pairs: PairIntervals, n_groups: int, reference: int) -> tuple[np.ndarray, np.ndarray, PairIntervals]:
    """Return positions and intervals of the pairs of every other group, first, with `reference`, second."""
    first = np.delete(np.arange(n_groups), reference)
    second = np.full(len(first), reference)
    a, b = np.minimum(first, second), np.maximum(first, second)
    index = a * (2 * n_groups - a - 1) // 2 + b - a - 1  # in the order of `list_pairs`
    one, turned = PairIntervals(*(x[..., index] for x in pairs)), first > second
    with np.errstate(divide="ignore"):
        other = (-one.difference, -one.high, -one.low, one.p_value, *(1.0 / x for x in (one[4], one[6], one[5])))
    return first, second, PairIntervals(*(np.where(turned, x, y) for x, y in zip(other, one, strict=True)))


def correct_pairs(p_value: np.ndarray) -> np.ndarray:
    """Return p-values, shape (N, E, K, P), corrected by Holm for the number of rates and pairs."""
    flat = _merge_rates(p_value)
    return np.moveaxis(holm(np.moveaxis(flat, -1, 0)), 0, -1).reshape(p_value.shape)


def _summarize_gap(pairs: PairIntervals, together: _Simultaneous) -> Gap:
    """Return the largest difference and the smallest ratio, with both ends of their intervals."""
    flat = PairIntervals(*(_merge_rates(x) for x in pairs))
    largest = _reduce(np.fmax, np.abs(flat.difference))
    high = _reduce(np.fmax, np.fmax(flat.high, -flat.low))
    ratio = _reduce(np.fmin, np.fmin(flat.ratio, 1.0 / flat.ratio))
    ratio_low = _reduce(np.fmin, np.fmin(flat.ratio_low, 1.0 / flat.ratio_high))
    low = np.where(np.isnan(largest), np.nan, np.fmax(together.low, 0.0))  # 0 if no pair tells anything
    ratio_high = np.where(np.isnan(ratio), np.nan, np.fmin(together.ratio_high, 1.0))
    return Gap(largest, low, high, together.p_value, ratio, ratio_low, ratio_high)


def _merge_rates(x: np.ndarray) -> np.ndarray:
    """Merge the axes of rates and pairs."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def _reduce(function: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Reduce the last axis by `np.fmax` or `np.fmin`, which ignore NaN; NaN for an empty axis."""
    return np.asarray(function.reduce(x, axis=-1, initial=np.nan))


class GroupPairs(NamedTuple):
    """Both groups of every pair, arrays of shape (N, E, K, P): values and standard errors, or numbers of samples."""

    values: tuple[np.ndarray, np.ndarray]
    errors: tuple[np.ndarray, np.ndarray]
    sizes: tuple[np.ndarray, np.ndarray] | None
    has_ratio: np.ndarray
    ends: tuple[GroupEnds, GroupEnds] | None = None

    @property
    def are_normal(self) -> np.ndarray:
        """Which pairs have intervals by the standard errors alone."""
        if self.ends is None:
            return np.asarray(self.sizes is None)
        without_error = (self.errors[0] == 0.0) | (self.errors[1] == 0.0)
        return np.asarray(without_error & self.ends[0].fails_without_error)

    def compute_difference_ends(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the intervals of the differences that are `z` standard errors wide on each side."""
        return _group_statistics.compute_difference_ends(*self._find_ends(z))

    def compute_ratio_ends(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the intervals of the ratios; NaN for metrics below 0."""
        normal = self.are_normal
        by_errors = _group_statistics.compute_log_ratio_ends(*self.values, self.errors, z)
        low, high = by_errors if normal.all() else _group_statistics.compute_ratio_ends(*self._find_ends(z))
        low, high = np.where(normal, by_errors[0], low), np.where(normal, by_errors[1], high)
        return np.where(self.has_ratio, low, np.nan), np.where(self.has_ratio, high, np.nan)

    def compute_roots(self) -> np.ndarray:
        """Return the z at which the interval of each difference touches 0; NaN if intervals have no width."""
        first, second = self.values
        difference = first - second
        normal = self.are_normal
        if normal.any() or self.ends is not None:
            error = np.hypot(*self.errors)
            root = np.where(error > 0.0, np.abs(difference) / error, np.where(difference == 0.0, 0.0, np.nan))
            return (
                root
                if normal.all() or self.ends is None
                else np.where(normal, root, self._find_common_roots(self.ends))
            )
        low, high = np.zeros(difference.shape), np.full(difference.shape, _group_statistics.LARGEST_Z)
        for _ in range(_group_statistics.N_HALVINGS):
            middle = 0.5 * (low + high)
            ends = self.compute_difference_ends(middle)
            outside = np.where(difference > 0.0, ends[0] > 0.0, ends[1] < 0.0) & (difference != 0.0)
            low, high = np.where(outside, middle, low), np.where(outside, high, middle)
        return np.where(np.isnan(difference), np.nan, low)

    def _find_common_roots(self, ends: tuple[GroupEnds, GroupEnds]) -> np.ndarray:
        """Return the z at which both intervals reach so far that the interval of the difference touches 0.

        The squares of both reaches, on the sides that face each other, then add up to that of the difference: a point
        of a quarter circle, found by bisection of its angle.
        """
        first, second = self.values
        difference = first - second
        low, high = np.zeros(difference.shape), np.full(difference.shape, np.pi / 2.0)
        one = other = low
        for _ in range(_group_statistics.N_HALVINGS):
            angle = 0.5 * (low + high)
            one = ends[0].find_z(first - difference * np.sin(angle))
            other = ends[1].find_z(second + difference * np.cos(angle))
            low, high = np.where(one < other, angle, low), np.where(one < other, high, angle)
        root = np.where(difference == 0.0, 0.0, np.fmin(one, other))
        return np.where(np.isfinite(root) & ~np.isnan(self.errors[0] + self.errors[1]), root, np.nan)

    def _find_ends(self, z: np.ndarray) -> tuple[Ends, Ends]:
        """Return the values of both groups with the ends of their intervals."""
        ends, normal = [], self.are_normal
        for k, value in enumerate(self.values):
            low, high = value - z * self.errors[k], value + z * self.errors[k]
            if self.ends is not None:
                own = self.ends[k].find_ends(z)
                low, high = np.where(normal, low, own[0]), np.where(normal, high, own[1])
            elif self.sizes is not None:
                low, high = _group_statistics.compute_wilson_ends(value, self.sizes[k], z)
            ends.append(Ends(value, low, high))
        return ends[0], ends[1]


def select_ends(ends: GroupEnds, groups: np.ndarray) -> GroupEnds:
    """Return the intervals of some groups as functions of the width, or of the end, alone."""
    return ends._replace(find_ends=partial(ends.find_ends, groups), find_z=partial(ends.find_z, groups))


def _compute_pairs(
    groups: GroupValues, first: np.ndarray, second: np.ndarray, confidence_level: float
) -> tuple[PairIntervals, _Simultaneous]:
    """Return the intervals of pairs by the delta method or from Wilson's intervals, and what holds for all pairs."""
    from scipy.special import ndtr

    value, shape = groups.value, groups.value.shape[:2]
    values, errors = ((x[..., first], x[..., second]) for x in (value, groups.error))
    sizes = None if groups.size is None else (groups.size[..., first], groups.size[..., second])
    ends = None
    if groups.ends is not None:
        ends = select_ends(groups.ends, first), select_ends(groups.ends, second)
    both = GroupPairs(values, errors, sizes, can_have_ratio(value)[..., np.newaxis], ends)
    z, root = np.asarray(_group_statistics.find_normal_quantile(confidence_level)), both.compute_roots()
    difference, ratio = values[0] - values[1], np.where(both.has_ratio, values[0] / values[1], np.nan)
    p_value = np.where(np.isnan(root), np.nan, 2.0 * ndtr(-root))
    pairs = PairIntervals(difference, *both.compute_difference_ends(z), p_value, ratio, *both.compute_ratio_ends(z))
    n_defined = np.count_nonzero(~np.isnan(value), axis=-1)
    largest = _reduce(np.fmax, _merge_rates(root))
    p_largest, wide = np.full(shape, np.nan), np.full(shape, np.nan)
    for own in {tuple(n_defined[index].tolist()) for index in np.ndindex(shape)}:
        some = (n_defined == own).all(-1)
        wide[some] = _group_statistics.compute_largest_z(confidence_level, own)
        p_largest[some] = _group_statistics.compute_largest_p(largest[some], own)
    wide = wide[..., np.newaxis, np.newaxis]
    low, high = both.compute_difference_ends(wide)
    least = np.where(np.isnan(root), np.nan, np.fmax(low, -high))  # two errors of 0 are no evidence
    ratio_low, ratio_high = both.compute_ratio_ends(wide)
    most = np.where(np.isnan(root), np.nan, np.fmin(ratio_high, 1.0 / ratio_low))
    low, high = (_reduce(f, _merge_rates(x)) for f, x in ((np.fmax, least), (np.fmin, most)))
    return pairs, _Simultaneous(low, p_largest, high)


def _bootstrap_pairs(
    groups: GroupValues, first: np.ndarray, second: np.ndarray, confidence_level: float
) -> tuple[PairIntervals, _Simultaneous]:
    """Return percentile intervals of pairs, and what holds for all pairs by the largest studentized difference."""
    assert groups.draws is not None
    shape = groups.value.shape[:2]
    n_rates, n_pairs = groups.value.shape[2], len(first)
    pairs = PairIntervals(*(np.full((*shape, n_rates, n_pairs), np.nan) for _ in PairIntervals._fields))
    together = _Simultaneous(*(np.full(shape, np.nan) for _ in _Simultaneous._fields))
    step = max(1, CHUNK_BYTES // max(8 * groups.draws.shape[-1], 1))
    for index in np.ndindex(shape):
        largest = _LargestDeviation(groups.draws.shape[-1]), _LargestDeviation(groups.draws.shape[-1])
        for rate in range(n_rates):
            value, draws = groups.value[index][rate], groups.draws[index][rate]
            has_ratio = bool(np.nanmin(value, initial=0.0) >= 0.0)
            for start in range(0, n_pairs, step):
                some = slice(start, min(start + step, n_pairs))
                a, b = first[some], second[some]
                part = [x[index][rate][some] for x in pairs]
                _bootstrap_some(value, draws, a, b, part, largest, confidence_level, has_ratio=has_ratio)
        apart, shares = largest
        together.p_value[index] = apart.compute_p_value()
        together.low[index] = apart.find_lower_end(confidence_level)
        share = shares.find_lower_end(confidence_level)  # of a / (a + b) - 1/2, whose absolute value mirrors the pair
        together.ratio_high[index] = (0.5 - np.maximum(share, 0.0)) / (0.5 + np.maximum(share, 0.0))
    return pairs, together


def _bootstrap_some(
    value: np.ndarray, draws: np.ndarray, first: np.ndarray, second: np.ndarray, out: list[np.ndarray],
    largest: tuple["_LargestDeviation", "_LargestDeviation"], confidence_level: float, *, has_ratio: bool,
) -> None:  # fmt: skip
    """Write the intervals of some pairs to `out`, and add their replicates to both largest deviations."""
    difference = value[first] - value[second]
    own, other = draws[first], draws[second]
    apart = own - other
    found = _replicate_statistics.make_replicates(apart, difference, np.zeros(()))
    low, high, error = _replicate_statistics.compute_interval(found, "percentile", confidence_level, 1)
    p_value = _replicate_statistics.compute_p_value(found, "percentile")
    largest[0].add(difference, apart, error)
    ratio, *ends = (np.full(len(first), np.nan) for _ in range(3))
    if has_ratio:  # percentiles of a / (a + b), which is between 0 and 1 and grows with a / b
        share = value[first] / (value[first] + value[second])
        other += own  # in place: fresh memory takes longer than the arithmetic
        shares = np.divide(own, other, out=other)
        found = _replicate_statistics.make_replicates(shares, share, np.zeros(()))
        *share_ends, error = _replicate_statistics.compute_interval(found, "percentile", confidence_level, 1)
        shares -= 0.5
        largest[1].add(share - 0.5, shares, error)
        ratio, *ends = (x / (1.0 - x) for x in (share, *share_ends))
    for target, x in zip(out, (difference, low, high, p_value, ratio, *ends), strict=True):
        target[...] = np.where(np.isnan(difference), np.nan, x)


def bootstrap_pairs(
    value: np.ndarray, draws: np.ndarray, first: np.ndarray, second: np.ndarray, out: list[np.ndarray],
    confidence_level: float,
) -> None:  # fmt: skip
    """Write the fields of :class:`PairIntervals` of pairs to `out`; `value` has the shape (G,), `draws` (G, B)."""
    largest = _LargestDeviation(draws.shape[-1]), _LargestDeviation(draws.shape[-1])
    has_ratio = bool(np.nanmin(value, initial=0.0) >= 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        _bootstrap_some(value, draws, first, second, out, largest, confidence_level, has_ratio=has_ratio)


class _LargestDeviation:
    """The largest studentized deviation of replicates from their estimate over all pairs, replicate by replicate."""

    def __init__(self, n_resamples: int) -> None:
        self.largest = np.full(n_resamples, np.nan)
        self.estimates: list[np.ndarray] = []
        self.errors: list[np.ndarray] = []

    def add(self, estimate: np.ndarray, replicates: np.ndarray, error: np.ndarray) -> None:
        """Add pairs: estimates, replicates (P, B) and standard errors; pairs with an error of 0 tell nothing."""
        known = ~np.isnan(estimate) & (error > 0.0)
        if not known.all():
            estimate, replicates, error = estimate[known], replicates[known], error[known]
        deviations = replicates - estimate[:, np.newaxis]
        np.abs(deviations, out=deviations)
        deviations /= error[:, np.newaxis]
        self.largest = np.fmax(self.largest, _reduce(np.fmax, deviations.T))
        self.estimates.append(np.abs(estimate))
        self.errors.append(error)

    def compute_p_value(self) -> float:
        """Return the share of replicates that deviate at least as much as the estimates do from 0."""
        largest, estimates, errors = self._gather()
        if not len(estimates) or not len(largest):
            return float("nan")
        return float((np.count_nonzero(largest >= np.max(estimates / errors)) + 1.0) / (len(largest) + 1.0))

    def find_lower_end(self, confidence_level: float) -> float:
        """Return the largest lower end of ``|estimate|`` of a pair, at the level at which all pairs hold together."""
        largest, estimates, errors = self._gather()
        if not len(estimates) or not len(largest):
            return float("nan")
        return float(np.max(estimates - np.quantile(largest, confidence_level) * errors))

    def _gather(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the defined replicates, and the estimates and errors of all pairs."""
        estimates, errors = (np.concatenate(parts or [np.empty(0)]) for parts in (self.estimates, self.errors))
        return self.largest[~np.isnan(self.largest)], estimates, errors


def can_have_ratio(value: np.ndarray) -> np.ndarray:
    """Return where no group has a value below 0, shape (N, E, K)."""
    return np.asarray((np.where(np.isnan(value), 0.0, value) >= 0.0).all(-1))
