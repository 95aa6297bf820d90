"""ROC geometry in the contingency space: convex hull of models, and the slope of iso-performance lines."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmfast._core import dispatch, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Floats
from cmfast._core.usual_options import explain_options
from cmfast.contingency._surface import validate_ratios
from cmfast.metrics._thresholds import validate_costs

COLLINEAR = 1e-15  # cross product below which three points count as collinear


@result_repr.add_repr
class Hull(NamedTuple):
    """Convex hull of models: those that are best for some costs."""

    points: Floats
    """(k, 2): true negative and true positive rates of the hull, by increasing true negative rate."""
    which: NDArray[np.int64]
    """(k,): index of each in the given points; -1 for the constant models (0, 1) and (1, 0)."""
    area: float
    """Area below the hull: that of the ROC curve of the best thresholds and their mixtures."""

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"models": str(int((self.which >= 0).sum())), "area": result_repr.format_values(self.area)}

    def explain(self) -> str:
        """Return a text with the number of models on the hull and the area below it."""
        kept = int((self.which >= 0).sum())
        return f"{kept} of the models are best for some costs; the area below their hull is {self.area:.3g}"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per corner."""
        tnr, tpr = self.points.T
        columns = {"true_negative_rate": tnr, "true_positive_rate": tpr, "which": self.which}
        return result_frames.make_frame(columns, ("point",))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the hull.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return plotting.draw_rates(
            ax, self.points[:, 0], self.points[:, 1], ("true negative rate", "true positive rate")
        )


@explain_options
def convex_hull(points: Array, /) -> Hull:
    """Compute the upper convex hull of models in the contingency space: those that are best for some costs.

    Parameters
    ----------
    points : array, shape (n, 2), on the host
        True negative rate and true positive rate of every model, or of every threshold of a score.

    Returns
    -------
    Hull
        The models on the hull, their indices, and the area below.

    Raises
    ------
    TypeError, ValueError
        Points of another shape; a rate that is not in [0, 1].

    Notes
    -----
    The constant models all positive, (0, 1), and all negative, (1, 0), are always available, so both may be on the
    hull. Models in the interior of an edge are left out, and of equal models all but the first. The hull is that of ROC
    space, mirrored: same models, same area. Reproducible: same input, same bits.

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
    return _build_hull(rates)


def _build_hull(rates: np.ndarray) -> Hull:
    """Return the hull by a monotone chain over models sorted by true negative rate."""
    every = np.concatenate([rates, [[0.0, 1.0], [1.0, 0.0]]])
    index = np.concatenate([np.arange(len(rates)), [-1, -1]])
    kept: list[int] = []
    for k in np.lexsort((-every[:, 1], every[:, 0])):
        if kept and every[k, 0] == every[kept[-1], 0]:
            continue  # the first at this rate has the highest true positive rate
        while len(kept) >= 2 and _compute_turn(every[kept[-2]], every[kept[-1]], every[k]) > -COLLINEAR:
            kept.pop()
        kept.append(k)
    x, y = every[kept].T
    area = float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2.0)
    return Hull(every[kept], index[kept].astype(np.int64), area)


def _compute_turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Return the cross product of ab and ac: positive for a left turn, negative for a right turn."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


@explain_options
def iso_performance_slope(cost: Any, r: float | Sequence[float] = 1.0) -> Floats:
    """Compute the slope of iso-performance lines (equal cost): change of the true positive over the true negative rate.

    Parameters
    ----------
    cost : array, shape (2, 2), on the host
        Cost of a sample by its true class (row) and its predicted class (column); benefits are negative.
    r : float or list of float
        Imbalance: negatives (class 0) per positive (class 1).

    Returns
    -------
    array of float64, shape of `r`
        -1 if both errors cost the same and classes are equally frequent; infinite if the cost of positives does not
        depend on the prediction, NaN if no cost does.

    Raises
    ------
    TypeError, ValueError
        A table of costs that is not 2 x 2 or not finite; a ratio that is not above 0.

    Notes
    -----
    The model of least cost is where such a line touches :func:`convex_hull`; for a score,
    :func:`cmfast.metrics.least_cost` finds it. In ROC space the slope has the opposite sign.
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
    table, ratios = validate_costs(cost), validate_ratios(r)
    alarm, miss = table[0, 1] - table[0, 0], table[1, 0] - table[1, 1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(-ratios * alarm / miss)[()]
