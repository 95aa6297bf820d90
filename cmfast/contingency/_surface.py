"""Metric surfaces over (tnr, tpr), chance levels, and the sensitivity of metrics to class imbalance."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np

from cmfast._core import axis_names, plotting, result_frames, result_repr, validate
from cmfast._core.annotations import Floats
from cmfast._core.usual_options import explain_options
from cmfast.metrics import MetricName, compute
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._plan import resolve_names

Nodes: TypeAlias = Literal["nodes", "midpoints"]
Rule: TypeAlias = Literal["gauss", "nodes", "midpoints"]

_GAUSS_NODES = 4  # nodes per panel and axis
MATRIX_BYTES = 32  # bytes of a 2x2 float64 matrix


@result_repr.add_repr
class Sensitivity(NamedTuple):
    """Volume between two surfaces of a metric, with an error estimate."""

    value: Floats
    """float64, one value per ratio."""
    error: Floats
    """Difference to the rule with half as many panels: an error estimate, larger than the error in all cases with a
    closed form. NaN for sums over a grid."""

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"value": result_repr.format_values(self.value), "error": result_repr.format_values(self.error)}

    def explain(self) -> str:
        """Return a text with the mean change of the metric by imbalance."""
        value = result_repr.format_values(self.value)
        return f"imbalance changes the metric by {value} on average; see `error` for the accuracy"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per ratio, and a column `r` of the ratios if they are known."""
        known = {name: x for name, x in axis_names.get_settings(self).items() if name == "r"}
        return result_frames.make_frame(known | self._asdict(), ("ratio",) if np.ndim(self.value) else ())

    def plot(self, *, ax: Any = None) -> Any:
        """Draw how much imbalance changes the metric, by the ratio of negatives to positives; bars are `error`.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        ValueError
            A result that was not returned by :func:`imbalance_sensitivity` itself: it does not know its ratios.

        Examples
        --------
        >>> from cmfast import contingency
        >>> ax = contingency.imbalance_sensitivity("f1", [2, 10, 50]).plot()
        >>> ax.get_ylabel(), ax.lines[0].get_xdata().tolist()
        ('mean change of f1', [2.0, 10.0, 50.0])
        """
        ratios = axis_names.get_settings(self).get("r")
        if ratios is None:
            validate.fail("this result does not know its ratios; call plot of what imbalance_sensitivity returned")
        order = np.argsort(ratios, axis=None)
        r, value, error = (np.ravel(x)[order] for x in (ratios, self.value, self.error))
        ax = plotting.get_axes(ax, (4.8, 3.6))
        ax.errorbar(r, value, None if np.isnan(error).any() else error, fmt="o-", capsize=3)
        ax.set(xscale="log", xlabel="r, negatives per positive", ylim=(0, None))
        ax.set_ylabel(f"mean change of {axis_names.get_metric(self)}")
        return ax


def validate_metric(name: object) -> MetricName:
    """Return `metric`, checked to be the name of a metric."""
    if not isinstance(name, str):
        validate.refuse("name", "the name of a metric", type(name).__name__, TypeError)
    return cast(MetricName, resolve_names([name], "name")[0])


def _validate_numbers(name: str, value: Any) -> np.ndarray:
    """Return `value` as a float64 array; refuse anything but numbers."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # ragged lists; tensors that require gradients
        found = np.array(None)
    if found.dtype.kind not in "uif":
        given = f"{type(value).__name__} {validate.format_value(value)}"
        validate.refuse(name, "a number or a list of numbers", given, TypeError)
    return found.astype(np.float64)


def validate_ratios(r: Any) -> np.ndarray:
    """Return `r` as an array of finite positive ratios."""
    ratios = _validate_numbers("r", r)
    if not (np.isfinite(ratios) & (ratios > 0)).all():
        validate.refuse("r", "finite and above 0", r)
    return ratios


def _make_axis(grid: str, size: int) -> np.ndarray:
    """Return the nodes or midpoints of an even grid on [0, 1]."""
    return np.linspace(0.0, 1.0, size) if grid == "nodes" else (np.arange(size) + 0.5) / size


def _evaluate_grid(metric: MetricName, r: np.ndarray, axis: np.ndarray, *, rescale: bool) -> np.ndarray:
    """Return the metric on a grid of tpr (rows) and tnr (columns), at every ratio of `r`."""
    return _evaluate_points(metric, r[..., None, None], axis[:, None], axis[None, :], rescale=rescale)


def _evaluate_points(
    metric: MetricName, r: np.ndarray, tpr: np.ndarray, tnr: np.ndarray, *, rescale: bool
) -> np.ndarray:
    """Evaluate a metric at points (tpr, tnr) and imbalances `r`, negatives per positive; the three broadcast."""
    M = np.empty((*np.broadcast_shapes(r.shape, tpr.shape, tnr.shape), 2, 2))
    M[..., 0, 0], M[..., 0, 1] = r * tnr, r * (1.0 - tnr)
    M[..., 1, 0], M[..., 1, 1] = 1.0 - tpr, tpr
    values: np.ndarray = compute(M, metric, undefined="zero", on_failure="raise")
    if values.ndim == M.ndim - 1:  # a metric per class
        values = values[..., 1]
    low = find_scale_minimum(metric)
    return (values - low) / (1.0 - low) if rescale and low < 1.0 else values


def find_scale_minimum(metric: MetricName) -> float:
    """Return the lower end of the scale of a metric, whose upper end is 1.

    -1 if the value of total disagreement of two equal classes is negative, else 0; for a weighted tau that value
    itself.
    """
    form, value = find_form(metric), compute(np.array([[0.0, 1.0], [1.0, 0.0]]), metric, undefined="zero")
    least = float(np.min(value))
    return least if form is not None and form.weights else -1.0 if least < 0.0 else 0.0


@explain_options
def metric_surface(
    name: MetricName,
    r: float | Sequence[float] = 1.0,
    size: int = 101,
    *,
    grid: Nodes = "nodes",
    rescale: bool = False,
) -> Floats:
    """Compute the values of a metric over the whole contingency space.

    Parameters
    ----------
    name : str
        A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
    r : float or list of float
        Imbalance: negatives (class 0) per positive (class 1).
    size : int
        Number of nodes along each axis.
    grid : {"nodes", "midpoints"}
        ``linspace(0, 1, size)``, as in the source, with both ends; or ``(i + 1/2) / size``.
    rescale : bool
        Map metrics with the range [-1, 1] to [0, 1], and a weighted tau to its normalised form.

    Returns
    -------
    array of float64, shape (..., size, size)
        Element ``[i, j]`` is at the i-th true positive rate and the j-th true negative rate. A 0/0 is 0.

    Raises
    ------
    TypeError, ValueError
        An unknown metric or grid; a ratio that is not above 0.

    Notes
    -----
    The point (tnr, tpr) stands for all matrices proportional to ``[[r tnr, r (1 - tnr)], [1 - tpr, tpr]]``.
    Reproducible: the same bits for any number of threads.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, section 4.

    Examples
    --------
    >>> from cmfast import contingency
    >>> contingency.metric_surface("accuracy", r=3, size=3)
    array([[0.   , 0.375, 0.75 ],
           [0.125, 0.5  , 0.875],
           [0.25 , 0.625, 1.   ]])
    """
    validate.choice("grid", grid, get_args(Nodes))
    size = validate.count("size", size, least=1)
    validate.flag("rescale", rescale)
    metric, ratios = validate_metric(name), validate_ratios(r)
    with validate.explain_memory_error(ratios.size * size**2 * MATRIX_BYTES, size=size):
        return _evaluate_grid(metric, ratios, _make_axis(grid, size), rescale=rescale)


@explain_options
def chance_level(
    name: MetricName,
    r: float | Sequence[float] = 1.0,
    share: float | Sequence[float] = 0.5,
    *,
    rescale: bool = False,
) -> Floats:
    """Compute the value of a metric for random guesses that ignore the sample.

    Parameters
    ----------
    name : str
        A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
    r : float or list of float
        Imbalance: negatives (class 0) per positive (class 1).
    share : float or list of float
        Share of the samples that is called positive.
    rescale : bool
        Map metrics with the range [-1, 1] to [0, 1], and a weighted tau to its normalised form.

    Returns
    -------
    array of float64, shape of `r`, then of `share`
        The metric at ``tnr = 1 - share, tpr = share``. A 0/0 is 0.

    Raises
    ------
    TypeError, ValueError
        An unknown metric; a ratio that is not above 0; a share outside [0, 1].

    Notes
    -----
    The source has one point for random guesses, (1/2, 1/2). They form a line from all negative (1, 0) to all positive
    (0, 1): on it chance-corrected scores are 0, and other metrics depend on the share called positive.
    Reproducible: the same bits for any number of threads.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, sections 4 and 5.4.

    Examples
    --------
    >>> from cmfast import contingency
    >>> contingency.chance_level("accuracy", 4, [0, 0.5, 1])
    array([0.8, 0.5, 0.2])
    >>> contingency.chance_level("mcc", 4, [0, 0.5, 1])
    array([0., 0., 0.])
    """
    validate.flag("rescale", rescale)
    metric, ratios, shares = validate_metric(name), validate_ratios(r), _validate_numbers("share", share)
    if not ((shares >= 0) & (shares <= 1)).all():
        validate.refuse("share", "in [0, 1]", share)
    return _evaluate_points(
        metric, ratios.reshape(ratios.shape + (1,) * shares.ndim), shares, 1.0 - shares, rescale=rescale
    )


@explain_options
def imbalance_sensitivity(
    name: MetricName, r: float | Sequence[float], *, rule: Rule = "gauss", size: int = 64, rescale: bool = True
) -> Sensitivity:
    """Compute the volume between the surfaces of a metric at imbalance `r` and without imbalance.

    Parameters
    ----------
    name : str
        A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
    r : float or list of float
        Imbalance: negatives per positive.
    rule : {"gauss", "nodes", "midpoints"}
        Gauss-Legendre quadrature on `size` panels of four nodes along each axis; or the mean of the differences on a
        grid of `size` nodes as in :func:`metric_surface`.
    size : int
        Number of panels or nodes along each axis; even for "gauss".
    rescale : bool
        Map metrics with the range [-1, 1] to [0, 1] first, and a weighted tau to its normalised form, so that the
        result is in [0, 1].

    Returns
    -------
    Sensitivity
        `value` and `error`, each with the shape of `r`.

    Raises
    ------
    TypeError, ValueError
        An unknown metric or rule; a ratio that is not above 0.

    Notes
    -----
    The source sums the differences over the nodes of a grid and does not divide by their number, so its value grows
    with the grid: it is ``size**2`` times the value of ``rule="nodes"``. Neither is the volume: for accuracy at r = 4
    it is 1/10, and the mean over 15 x 15 nodes is 0.1067.
    Reproducible: the same bits for any number of threads.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, definition 5.3 (corrected).

    Examples
    --------
    >>> from cmfast import contingency
    >>> found = contingency.imbalance_sensitivity("accuracy", 4)
    >>> round(float(found.value), 4)
    0.1
    >>> found = contingency.imbalance_sensitivity(
    ...     "accuracy", 4, rule="nodes", size=15
    ... )
    >>> round(float(found.value), 4)
    0.1067
    """
    validate.choice("rule", rule, get_args(Rule))
    size = validate.count("size", size, least=1)
    validate.flag("rescale", rescale)
    metric, ratios = validate_metric(name), validate_ratios(r)
    if rule == "gauss" and size % 2:
        validate.refuse("size", "even with rule='gauss'", size)
    nodes = size * _GAUSS_NODES if rule == "gauss" else size
    with validate.explain_memory_error(nodes**2 * MATRIX_BYTES, size=size):
        return _integrate_difference(metric, ratios, rule, size, rescale=rescale)


def _integrate_difference(
    metric: MetricName, ratios: np.ndarray, rule: Rule, size: int, *, rescale: bool
) -> Sensitivity:
    """Return the mean absolute difference of two surfaces by quadrature or on a grid, with its error."""
    if rule != "gauss":
        axis = _make_axis(rule, size)
        (value,) = _sum_differences(metric, ratios, axis, np.full(size, 1.0 / size), rescale=rescale)
        return axis_names.name_axes(Sensitivity(value, ratios * np.nan), {}, metric, {"r": ratios})
    fine, coarse = (
        _sum_differences(metric, ratios, *_make_gauss_nodes(n), rescale=rescale)[0] for n in (size, size // 2)
    )
    return axis_names.name_axes(Sensitivity(fine, np.abs(fine - coarse)), {}, metric, {"r": ratios})


def _make_gauss_nodes(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of composite Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_GAUSS_NODES)
    axis = (np.arange(number)[:, None] + (nodes + 1.0) / 2.0) / number
    return axis.ravel(), np.tile(weights / (2.0 * number), number)


def _sum_differences(
    metric: MetricName, ratios: np.ndarray, axis: np.ndarray, weights: np.ndarray, *, rescale: bool
) -> tuple[np.ndarray]:
    """Return the weighted sums of absolute differences, one ratio at a time to bound memory."""
    balanced = _evaluate_grid(metric, np.array(1.0), axis, rescale=rescale)
    out = np.empty(ratios.shape)
    for index in np.ndindex(ratios.shape):
        difference = np.abs(_evaluate_grid(metric, np.array(ratios[index]), axis, rescale=rescale) - balanced)
        out[index] = ((difference * weights).sum(1) * weights).sum()
    return (out[()],)
