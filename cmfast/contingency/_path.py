"""Training runs as paths in the contingency space."""

from typing import Any, NamedTuple

import numpy as np

from cmfast import _dispatch, _validate
from cmfast._typing import Array, OnFailure
from cmfast.metrics import compute


class LearningPath(NamedTuple):
    """A training run, or many, in the contingency space."""

    points: Any
    """(..., E, C): recall of every class at every checkpoint."""
    steps: Any
    """(..., E - 1): distance from each checkpoint to the next."""
    length: Any
    """(...): sum of the steps."""
    displacement: Any
    """(...): distance from the first checkpoint to the last."""
    straightness: Any
    """(...): displacement over length, 1 for a straight way, NaN for none."""


def learning_path(M: Array, /, *, metric: str | None = None, on_failure: OnFailure = "warn") -> LearningPath:
    """Follow training runs through the contingency space.

    Parameters
    ----------
    M : array, shape (..., E, C, C)
        The matrices of E checkpoints, in order; the leading axes are runs.
    metric : str, optional
        A metric with one value per matrix, which becomes one more coordinate.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices with bad values; their paths are NaN.

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
    The coordinates are the recalls of the classes: for two classes (tnr, tpr), the path of the source; with `metric`
    its path in three dimensions. The metric is that of the matrices themselves, at their own imbalance. A class without
    samples has no recall: NaN for the steps that touch it, and for the length.
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
    op = "contingency.learning_path"
    _validate.on_failure(op, on_failure)
    (M,) = _dispatch.adopt(op, M=M)
    _validate.matrices(op, square=True, M=M)
    shape = _dispatch.meta(M).shape
    if len(shape) < 3 or shape[-3] < 1:
        _validate.refuse(op, "M", "of shape (..., E, C, C) with at least one checkpoint", f"shape {shape}")
    names = ["recall"] if metric is None else ["recall", metric]
    found = compute(M, names, undefined="strict", on_failure=on_failure)
    points = found["recall"]
    steps2 = ((points[..., 1:, :] - points[..., :-1, :]) ** 2).sum(-1)
    net2 = ((points[..., -1, :] - points[..., 0, :]) ** 2).sum(-1)
    if metric is not None:
        height = found[metric]
        if height.ndim == points.ndim:
            _validate.refuse(op, "metric", "one with a single value per matrix", repr(metric))
        steps2 = steps2 + (height[..., 1:] - height[..., :-1]) ** 2
        net2 = net2 + (height[..., -1] - height[..., 0]) ** 2
    steps, displacement = steps2**0.5, net2**0.5
    length = steps.sum(-1)
    with np.errstate(invalid="ignore"):
        straightness = displacement / length
    return LearningPath(points, steps, length, displacement, straightness)
