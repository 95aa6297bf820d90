"""Newcombe's interval of an area under a ROC curve, with DeLong's variance where that is larger.

An end is an area that is as far from the estimate as a multiple of the standard error that this end implies, as in
Wilson's interval of a share. So the interval has a width where no sample is ranked wrongly, too. The standard error
follows from the area and the sizes of both classes: method 5 of Newcombe, Confidence intervals for an effect size
measure based on the Mann-Whitney statistic, part 2, 2006, after Hanley and McNeil, 1982. It supposes that scores of
both classes vary alike, and is multiplied where DeLong's variance at the estimate is larger.
"""

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
            sides.append(np.asarray(np.where(squares > 0.0, whole**2 / squares, 0.0)))
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
                far = (area - middle) ** 2 > factor * compute_variance(middle, *sizes)
                inside, outside = np.where(far, inside, middle), np.where(far, middle, outside)
            ends.append(np.where(np.isnan(area + variance), np.nan, outside))
    return ends[0], ends[1]
