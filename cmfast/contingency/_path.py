"""Learning paths: training runs as paths of class recalls in the contingency space."""

from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT, Floats, OnFailure
from cmfast._core.powers import compute_sqrt
from cmfast._core.usual_options import explain_options
from cmfast.contingency._surface import validate_metric
from cmfast.kernels.loading import load
from cmfast.metrics import MetricName, compute


@result_repr.add_repr
class LearningPath(NamedTuple, Generic[ArrayT]):
    """Path of one or more training runs in the contingency space."""

    points: ArrayT
    """(..., E, C): recall of every class at every checkpoint."""
    steps: ArrayT
    """(..., E - 1): distance from each checkpoint to the next."""
    length: ArrayT
    """(...): sum of the steps."""
    displacement: ArrayT
    """(...): distance from the first checkpoint to the last."""
    straightness: ArrayT
    """(...): displacement over length, 1 for a straight path, NaN for length 0."""

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        names = ("length", "displacement", "straightness")
        parts = {name: result_repr.format_values(getattr(self, name)) for name in names}
        return {"checkpoints x coordinates": result_repr.format_shape(self.points), **parts}

    def explain(self) -> str:
        """Return a text with the length and the straightness of the runs."""
        steps = dispatch.shape_of(self.points)[-2] - 1
        length, straightness = result_repr.format_values(self.length), result_repr.format_values(self.straightness)
        return f"path of length {length} in {steps} steps, straightness {straightness}"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per checkpoint and coordinate: the recall of a class."""
        return result_frames.make_frame({"value": self.points}, ("checkpoint", "class"))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the paths in the plane of the first two recalls.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.PathDisplay
            The display, drawn. The figure is not shown.
        """
        points = result_frames.copy_to_host(self.points)
        n_classes = points.shape[-1]
        runs = points.reshape(-1, *points.shape[-2:])[..., :2]
        lengths = result_frames.copy_to_host(self.length).reshape(-1)
        return load("cmfast.display").PathDisplay(runs, length=lengths, n_classes=n_classes).plot(ax=ax)


@overload
def learning_path(
    M: DeviceT, /, *, name: MetricName | None = ..., on_failure: OnFailure = ...
) -> LearningPath[DeviceT]: ...
@overload
def learning_path(
    M: ArrayLike, /, *, name: MetricName | None = ..., on_failure: OnFailure = ...
) -> LearningPath[Floats]: ...
@explain_options
def learning_path(M: Array, /, *, name: MetricName | None = None, on_failure: OnFailure = None) -> LearningPath[Any]:
    """Compute the paths of training runs through the contingency space, with their lengths.

    Parameters
    ----------
    M : array, shape (..., E, C, C)
        The matrices of E checkpoints, in order; the leading axes are runs.
    name : str, optional
        A metric with one value per matrix, used as one more coordinate.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values; their paths are NaN.
        Default: as :func:`cmfast.config` says, first "warn".

    Returns
    -------
    LearningPath
        Points, steps, length, displacement and straightness; library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        Matrices that are not square, or without an axis of checkpoints; a metric that is unknown or per class.

    Notes
    -----
    The coordinates are the recalls of the classes: for two classes (tnr, tpr), as in the source; with `name` the path
    is three-dimensional. The metric is that of the matrices at their own imbalance. A class without samples has no
    recall, so that steps to and from it, and the length, are NaN.
    Reproducible: the same bits for any number of threads.

    References
    ----------
    Ahmadzadeh et al., Contingency Space, section 5.2 and definition 5.6.

    Examples
    --------
    >>> from cmfast import contingency
    >>> run = [[[10, 0], [10, 0]], [[10, 0], [5, 5]], [[5, 5], [5, 5]]]
    >>> path = contingency.learning_path(run)
    >>> path.steps, float(path.length), round(float(path.displacement), 4)
    (array([0.5, 0.5]), 1.0, 0.7071)
    """
    on_failure = validate.on_failure(on_failure)
    if name is not None:
        name = validate_metric(name)
    (M,) = dispatch.adopt(M=M)
    validate.matrices(square=True, M=M)
    shape = dispatch.shape_of(M)
    if len(shape) < 3 or shape[-3] < 1:
        validate.refuse("M", "of shape (..., E, C, C) with at least one checkpoint", f"shape {shape}")
    names: list[MetricName] = ["recall"] if name is None else ["recall", name]
    found = compute(M, names, undefined="strict", on_failure=on_failure)
    if name is not None and len(dispatch.shape_of(found[name])) == len(shape) - 1:
        validate.refuse("name", "a metric with one value per matrix", repr(name))
    points = found["recall"]
    if not adapter(M).is_on_host(M):
        return LearningPath(points, *_compute_lengths(*(found[name] for name in names)))
    # Sum in float64 on the host, so that all CPU libraries give the same bits.
    hosts = [adapter(found[name]).to_host(found[name]) for name in names]
    wide = _compute_lengths(*(x.astype(np.float64) for x in hosts))
    narrow = (x.astype(hosts[0].dtype) for x in wide)
    return LearningPath(points, *(adapter(points).send(x, points) for x in narrow))


def _compute_lengths(points: Any, height: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return steps, length, displacement and straightness of paths."""
    steps2 = ((points[..., 1:, :] - points[..., :-1, :]) ** 2).sum(-1)
    net2 = ((points[..., -1, :] - points[..., 0, :]) ** 2).sum(-1)
    if height is not None:
        rise, net = height[..., 1:] - height[..., :-1], height[..., -1] - height[..., 0]
        steps2, net2 = steps2 + rise * rise, net2 + net * net
    steps, displacement = compute_sqrt(steps2), compute_sqrt(net2)
    length = steps.sum(-1)
    with np.errstate(invalid="ignore"):
        straightness = displacement / length
    return steps, length, displacement, straightness
