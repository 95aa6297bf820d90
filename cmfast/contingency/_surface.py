"""Metrics as surfaces over (tnr, tpr), and how far imbalance warps them."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np

from cmfast._core import result_repr, validate
from cmfast._core.annotations import Floats
from cmfast.metrics import MetricName, compute
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._plan import resolve_names

Nodes: TypeAlias = Literal["nodes", "midpoints"]
Rule: TypeAlias = Literal["gauss", "nodes", "midpoints"]

_GAUSS = 4  # nodes of each panel and axis
MATRIX_BYTES = 32  # of two by two


@result_repr.add_repr
class Sensitivity(NamedTuple):
    """The volume between two surfaces of a metric."""

    value: Floats
    """float64, one number per ratio."""
    error: Floats
    """How far the rule with half as many panels is off: an estimate that has been larger than the error wherever there
    is a closed form. NaN for the sums over a grid, which are what they are."""

    def _parts(self) -> dict[str, str]:
        return {"value": result_repr.format_values(self.value), "error": result_repr.format_values(self.error)}

    def explain(self) -> str:
        """Say in words how far imbalance warps the metric."""
        value = result_repr.format_values(self.value)
        return f"imbalance moves the metric by {value} on average, give or take what `error` says"


def metric_of(metric: object) -> MetricName:
    """Return `metric`, checked to be the name of one."""
    if not isinstance(metric, str):
        validate.refuse("metric", "the name of a metric", type(metric).__name__, TypeError)
    return cast(MetricName, resolve_names([metric], "metric")[0])


def _numbers(name: str, value: Any) -> np.ndarray:
    """Return `value` as an array of float64, checked to be a number or an array of numbers."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # ragged lists; tensors that need gradients
        found = np.array(None)
    if found.dtype.kind not in "uif":
        given = f"{type(value).__name__} {validate.format_value(value)}"
        validate.refuse(name, "a number or a list of numbers", given, TypeError)
    return found.astype(np.float64)


def ratios_of(r: Any) -> np.ndarray:
    """Return `r` as an array, checked to be a ratio or an array of ratios."""
    ratios = _numbers("r", r)
    if not (np.isfinite(ratios) & (ratios > 0)).all():
        validate.refuse("r", "finite and above 0", r)
    return ratios


def _axis(grid: str, size: int) -> np.ndarray:
    return np.linspace(0.0, 1.0, size) if grid == "nodes" else (np.arange(size) + 0.5) / size


def _values(metric: MetricName, r: np.ndarray, axis: np.ndarray, *, rescale: bool) -> np.ndarray:
    """Return the metric where tpr (rows) and tnr (columns) are those of `axis`, at every ratio of `r`."""
    return _at(metric, r[..., None, None], axis[:, None], axis[None, :], rescale=rescale)


def _at(metric: MetricName, r: np.ndarray, tpr: np.ndarray, tnr: np.ndarray, *, rescale: bool) -> np.ndarray:
    """Return the metric at points and ratios that broadcast."""
    M = np.empty((*np.broadcast_shapes(r.shape, tpr.shape, tnr.shape), 2, 2))
    M[..., 0, 0], M[..., 0, 1] = r * tnr, r * (1.0 - tnr)
    M[..., 1, 0], M[..., 1, 1] = 1.0 - tpr, tpr
    values: np.ndarray = compute(M, metric, undefined="zero", on_failure="raise")
    if values.ndim == M.ndim - 1:  # one per class
        values = values[..., 1]
    low = lowest(metric)
    return (values - low) / (1.0 - low) if rescale and low < 1.0 else values


def lowest(metric: MetricName) -> float:
    """Return where the scale of a metric begins, which ends at 1.

    That is -1 where total disagreement of two equal classes is below 0, else 0; of a weighted tau it is that itself.
    """
    form, value = find_form(metric), compute(np.array([[0.0, 1.0], [1.0, 0.0]]), metric, undefined="zero")
    least = float(np.min(value))
    return least if form is not None and form.weights else -1.0 if least < 0.0 else 0.0


def metric_surface(
    metric: MetricName,
    r: float | Sequence[float] = 1.0,
    size: int = 101,
    *,
    grid: Nodes = "nodes",
    rescale: bool = False,
) -> Floats:
    """Values of a metric over the whole contingency space.

    Parameters
    ----------
    metric : str
        A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
    r : float or list of float
        Imbalance: negatives (class 0) per positive (class 1).
    size : int
        Nodes along each axis.
    grid : {"nodes", "midpoints"}
        ``linspace(0, 1, size)``, which the source takes and which has the edges; or ``(i + 1/2) / size``.
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
    metric, ratios = metric_of(metric), ratios_of(r)
    with validate.explain_memory_error(ratios.size * size**2 * MATRIX_BYTES, size=size):
        return _values(metric, ratios, _axis(grid, size), rescale=rescale)


def chance_level(
    metric: MetricName,
    r: float | Sequence[float] = 1.0,
    share: float | Sequence[float] = 0.5,
    *,
    rescale: bool = False,
) -> Floats:
    """Value of a metric for guesses that do not look at the sample.

    Parameters
    ----------
    metric : str
        A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
    r : float or list of float
        Imbalance: negatives (class 0) per positive (class 1).
    share : float or list of float
        Which share of the samples is called positive.
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
    The source has one point for random guesses, (1/2, 1/2). They are a line, from all negative (1, 0) to all positive
    (0, 1): on it scores that are corrected for chance are 0, and others depend on what is called positive how often.
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
    metric, ratios, shares = metric_of(metric), ratios_of(r), _numbers("share", share)
    if not ((shares >= 0) & (shares <= 1)).all():
        validate.refuse("share", "in [0, 1]", share)
    return _at(metric, ratios.reshape(ratios.shape + (1,) * shares.ndim), shares, 1.0 - shares, rescale=rescale)


def imbalance_sensitivity(
    metric: MetricName, r: float | Sequence[float], *, rule: Rule = "gauss", size: int = 64, rescale: bool = True
) -> Sensitivity:
    """Volume between the surfaces of a metric at imbalance `r` and without imbalance.

    Parameters
    ----------
    metric : str
        A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
    r : float or list of float
        Imbalance: negatives per positive.
    rule : {"gauss", "nodes", "midpoints"}
        Gauss-Legendre quadrature on `size` panels of four nodes along each axis; or the mean of the differences on a
        grid of `size` nodes as in :func:`metric_surface`.
    size : int
        Panels or nodes along each axis; even for "gauss".
    rescale : bool
        Map metrics with the range [-1, 1] to [0, 1] first, and a weighted tau to its normalised form, which makes the
        result lie in [0, 1].

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
    The source sums the differences over the nodes of a grid and does not divide by their number, so its figure grows
    with the grid: it is ``size**2`` times the value of ``rule="nodes"``. Neither is the volume: for accuracy at r = 4
    it is 1/10, and the mean over 15 x 15 nodes is 0.1067.
    Reproducible: the same bits for any number of threads.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, definition 5.3 (corrected).

    Examples
    --------
    >>> from cmfast import contingency
    >>> round(float(contingency.imbalance_sensitivity("accuracy", 4).value), 4)
    0.1
    >>> round(float(contingency.imbalance_sensitivity("accuracy", 4, rule="nodes", size=15).value), 4)
    0.1067
    """
    validate.choice("rule", rule, get_args(Rule))
    size = validate.count("size", size, least=1)
    validate.flag("rescale", rescale)
    metric, ratios = metric_of(metric), ratios_of(r)
    if rule == "gauss" and size % 2:
        validate.refuse("size", "even with rule='gauss'", size)
    nodes = size * _GAUSS if rule == "gauss" else size
    with validate.explain_memory_error(nodes**2 * MATRIX_BYTES, size=size):
        return _sensitivity(metric, ratios, rule, size, rescale=rescale)


def _sensitivity(metric: MetricName, ratios: np.ndarray, rule: Rule, size: int, *, rescale: bool) -> Sensitivity:
    if rule != "gauss":
        axis = _axis(rule, size)
        return Sensitivity(*_volumes(metric, ratios, axis, np.full(size, 1.0 / size), rescale=rescale), ratios * np.nan)
    fine, coarse = (_volumes(metric, ratios, *_panels(n), rescale=rescale)[0] for n in (size, size // 2))
    return Sensitivity(fine, np.abs(fine - coarse))


def _panels(number: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(_GAUSS)
    axis = (np.arange(number)[:, None] + (nodes + 1.0) / 2.0) / number
    return axis.ravel(), np.tile(weights / (2.0 * number), number)


def _volumes(
    metric: MetricName, ratios: np.ndarray, axis: np.ndarray, weights: np.ndarray, *, rescale: bool
) -> tuple[np.ndarray]:
    """Return the weighted sums of the differences, one ratio at a time: no surface of all of them is held."""
    balanced = _values(metric, np.array(1.0), axis, rescale=rescale)
    out = np.empty(ratios.shape)
    for index in np.ndindex(ratios.shape):
        difference = np.abs(_values(metric, np.array(ratios[index]), axis, rescale=rescale) - balanced)
        out[index] = ((difference * weights).sum(1) * weights).sum()
    return (out[()],)
