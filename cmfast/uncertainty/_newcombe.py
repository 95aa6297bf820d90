"""Newcombe's interval of an area under a ROC curve, with DeLong's variance where that is larger.

An end is an area that is as far from the estimate as a multiple of the standard error that this end implies, as in
Wilson's interval of a share. So the interval has a width where no sample is ranked wrongly, too. The standard error
follows from the area and the sizes of both classes: method 5 of Newcombe, Confidence intervals for an effect size
measure based on the Mann-Whitney statistic, part 2, 2006, after Hanley and McNeil, 1982. It supposes that scores of
both classes vary alike, and is multiplied where DeLong's variance at the estimate is larger.
"""

from typing import NamedTuple

import numpy as np

from cmfast.uncertainty._group_statistics import N_HALVINGS


def count_class_sizes(y: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of positive samples (1) and others along the last axis; with weights their effective sizes.

    The effective size of a class is ``w.sum() ** 2 / (w**2).sum()`` (Kish 1965); 0 without weight.
    """
    sides = []
    for mask in (y == 1, y != 1):
        if weight is None:
            sides.append(np.asarray(np.count_nonzero(mask, axis=-1), np.float64))
            continue
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            own = np.where(mask, weight / weight.max(-1, keepdims=True, initial=0.0), 0.0)
            whole, squares = own.sum(-1), (own * own).sum(-1)
            sides.append(np.asarray(np.where(squares > 0.0, whole * whole / squares, 0.0)))
    return sides[0], sides[1]


def compute_variance(area: np.ndarray, m: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return Newcombe's variance of an area, given the sizes of both classes."""
    mean = (m + n) / 2.0 - 1.0
    inner = 1.0 + mean * ((1.0 - area) / (2.0 - area) + area / (1.0 + area))
    return np.asarray(area * (1.0 - area) * inner / (m * n))


def _compare_variances(area: np.ndarray, variance: np.ndarray, sizes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return DeLong's variance divided by Newcombe's, at least 1."""
    own = compute_variance(area, *sizes)
    return np.where(own > 0.0, np.maximum(variance / np.where(own > 0.0, own, 1.0), 1.0), 1.0)


def compute_newcombe_z(
    area: np.ndarray, variance: np.ndarray, sizes: tuple[np.ndarray, np.ndarray], end: np.ndarray
) -> np.ndarray:
    """Return the number of standard errors from areas at which their intervals end; infinite from 0 down and 1 up."""
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = _compare_variances(area, variance, sizes)
        z = np.abs(area - end) / np.sqrt(factor * compute_variance(end, *sizes))
    return np.where(end == area, 0.0, np.where((end <= 0.0) | (end >= 1.0), np.inf, z))


def compute_newcombe_ends(
    area: np.ndarray, variance: np.ndarray, sizes: tuple[np.ndarray, np.ndarray], z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the intervals of areas, `z` standard errors wide on each side, all arrays of one shape.

    `variance` is DeLong's, and `sizes` are those of both classes. NaN where the area or its variance is NaN.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = z * z * _compare_variances(area, variance, sizes)
        ends = []
        for limit in (0.0, 1.0):
            inside, outside = np.broadcast_arrays(area, np.full(np.shape(area), limit))
            for _ in range(N_HALVINGS):
                middle = 0.5 * (inside + outside)
                far = np.square(area - middle) > factor * compute_variance(middle, *sizes)
                inside, outside = np.where(far, inside, middle), np.where(far, middle, outside)
            ends.append(np.where(np.isnan(area + variance), np.nan, outside))
    return ends[0], ends[1]


class PairedAreas(NamedTuple):
    """Areas of two models on the same samples, arrays of shape (2, ...); the covariance of both, and class sizes (...).

    The reaches of both intervals combine as standard errors of dependent estimates do: the square of the reach of the
    difference is ``x**2 + y**2 - 2 * r * x * y``, with the correlation `r` of both areas (Zou, Toward using confidence
    intervals to compare correlations, 2007). It is taken for 0 where a variance is 0.
    """

    areas: np.ndarray
    variances: np.ndarray
    covariance: np.ndarray
    sizes: tuple[np.ndarray, np.ndarray]

    @property
    def correlation(self) -> np.ndarray:
        """Correlation of both areas, shape (...)."""
        scale = np.sqrt(self.variances[0] * self.variances[1])
        return np.where(scale > 0.0, np.clip(self.covariance / np.where(scale > 0.0, scale, 1.0), -1.0, 1.0), 0.0)

    def compute_ends(self, z: float) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the interval of the difference, first minus second, `z` standard errors wide."""
        wide = np.full(self.areas.shape, z)
        low, high = compute_newcombe_ends(self.areas, self.variances, self.sizes, wide)
        below, above = self.areas - low, high - self.areas
        difference = self.areas[0] - self.areas[1]
        return difference - self._combine(below[0], above[1]), difference + self._combine(above[0], below[1])

    def _combine(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the reach of the difference from those of both areas."""
        return np.asarray(np.sqrt(np.maximum(x * x + y * y - 2.0 * self.correlation * x * y, 0.0)))

    def find_root(self) -> np.ndarray:
        """Return the z at which the interval of the difference touches 0.

        The reaches at this z, which combine to the difference, are a point of an ellipse, found by bisection of its
        angle.
        """
        first, second = self.areas
        difference = first - second
        low, high = np.zeros(difference.shape), np.full(difference.shape, np.pi / 2.0)
        one = other = low
        with np.errstate(invalid="ignore", divide="ignore"):
            for _ in range(N_HALVINGS):
                angle = 0.5 * (low + high)
                scale = np.sqrt(np.maximum(1.0 - self.correlation * np.sin(2.0 * angle), 0.0))
                reach = difference / scale
                ends = first - reach * np.sin(angle), second + reach * np.cos(angle)
                one, other = compute_newcombe_z(self.areas, self.variances, self.sizes, np.stack(ends))
                low, high = np.where(one < other, angle, low), np.where(one < other, high, angle)
        root = np.where(difference == 0.0, 0.0, np.fmin(one, other))
        return np.where(np.isnan(difference + self.variances.sum(0)), np.nan, root)
