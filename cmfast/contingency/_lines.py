"""What carries over from ROC space: the hull of models, and lines of equal cost."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmfast._core import dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Floats
from cmfast.contingency._surface import ratios_of
from cmfast.metrics._thresholds import validate_costs

STRAIGHT = 1e-15  # twice the area of a triangle of points on one line, but for rounding


@result_repr.add_repr
class Hull(NamedTuple):
    """The models that are best for some costs, of many."""

    points: Floats
    """(k, 2): their true negative and true positive rates, by rising true negative rate."""
    which: NDArray[np.int64]
    """(k,): which of the given points each is; -1 for (0, 1) and (1, 0), which need no model."""
    area: float
    """Below the hull: the area under the ROC curve of the best thresholds and of mixtures of them."""

    def _parts(self) -> dict[str, str]:
        return {"models": str(int((self.which >= 0).sum())), "area": result_repr.format_values(self.area)}

    def explain(self) -> str:
        """Say in words how many models are worth keeping."""
        kept = int((self.which >= 0).sum())
        return f"{kept} of the models can be best, by what mistakes cost; the area below them is {self.area:.3g}"


def convex_hull(points: Array, /) -> Hull:
    """Upper convex hull of models in the contingency space: those that are best for some costs and some imbalance.

    Parameters
    ----------
    points : array, shape (n, 2), on the host
        True negative rate and true positive rate of every model, or of every threshold of a score.

    Returns
    -------
    Hull
        The models on the hull, which are among them, and the area below.

    Raises
    ------
    TypeError, ValueError
        Points of another shape; a rate that is not in [0, 1].

    Notes
    -----
    To call all samples positive, (0, 1), or negative, (1, 0), needs no model, so both may be on the hull. Models on a
    straight part of it are left out, and of equal ones all but the first. It is the convex hull of ROC space,
    mirrored: same models, same area. Reproducible: same input, same bits.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, section 6.1.

    Examples
    --------
    >>> from cmfast import contingency
    >>> hull = contingency.convex_hull([[0.9, 0.6], [0.6, 0.6], [0.5, 0.9]])
    >>> hull.which.tolist(), round(hull.area, 3)
    ([-1, 2, 0, -1], 0.805)
    """
    (points,) = dispatch.adopt(points=points)
    validate.real(points=points)
    rates = np.asarray(adapter(points).to_host(points), np.float64)
    if rates.ndim != 2 or rates.shape[1] != 2:
        validate.refuse("points", "of shape (n, 2)", f"shape {rates.shape}")
    wrong = np.argwhere(~((rates >= 0) & (rates <= 1)))
    if len(wrong):
        i, k = wrong[0].tolist()
        validate.refuse("points", "rates in [0, 1]", f"{rates[i, k]:g} at [{i}, {k}]")
    return _hull(rates)


def _hull(rates: np.ndarray) -> Hull:
    """Return the hull, one model after the other by rising true negative rate."""
    every = np.concatenate([rates, [[0.0, 1.0], [1.0, 0.0]]])
    index = np.concatenate([np.arange(len(rates)), [-1, -1]])
    kept: list[int] = []
    for k in np.lexsort((-every[:, 1], every[:, 0])):
        if kept and every[k, 0] == every[kept[-1], 0]:
            continue  # the first of them has the highest true positive rate
        while len(kept) >= 2 and _turn(every[kept[-2]], every[kept[-1]], every[k]) > -STRAIGHT:
            kept.pop()
        kept.append(k)
    x, y = every[kept].T
    area = float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2.0)
    return Hull(every[kept], index[kept].astype(np.int64), area)


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Return a number above 0 where the way from a over b to c turns left, below 0 where right."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def iso_performance_slope(cost: Any, r: float | Sequence[float] = 1.0) -> Floats:
    """Slope of the lines on which models cost the same: rise of the true positive rate over the true negative rate.

    Parameters
    ----------
    cost : array, shape (2, 2), on the host
        What a sample costs by its truth (row) and what it is called (column); benefits are negative.
    r : float or list of float
        Imbalance: negatives (class 0) per positive (class 1).

    Returns
    -------
    array of float64, shape of `r`
        -1 where both mistakes cost the same and classes are as frequent; infinite where positives cost the same
        however they are called, NaN where nothing depends on what samples are called.

    Raises
    ------
    TypeError, ValueError
        A table of costs that is not 2 x 2 or not finite; a ratio that is not above 0.

    Notes
    -----
    The model of least cost is where such a line touches :func:`convex_hull`; of a score,
    :func:`cmfast.metrics.least_cost` finds it. In ROC space the slope has the other sign.
    Reproducible: same input, same bits.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, sections 5.4 and 6.1.

    Examples
    --------
    >>> from cmfast import contingency
    >>> contingency.iso_performance_slope([[0, 1], [10, 0]], [1, 5])
    array([-0.1, -0.5])
    """
    table, ratios = validate_costs(cost), ratios_of(r)
    alarm, miss = table[0, 1] - table[0, 0], table[1, 0] - table[1, 1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(-ratios * alarm / miss)[()]
