"""Adopt points with labels, or with weights and groups: convert and validate them once."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import caller, dispatch, failures, labels, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array


class AdoptedPoints(NamedTuple):
    """Adopted points of one library: a real table of `n` rows and `m` columns, with labels of the rows or None.

    `spread` has the extremes of the columns where these are known (``_width_rules.Spread``).
    """

    X: Array
    n: int
    m: int
    y_true: Any = None
    y_pred: Any = None
    spread: Any = None

    def part(self, rows: slice) -> "AdoptedPoints":
        """Return the points of a slice of rows."""
        X = self.X[rows, :]
        n = dispatch.shape_of(X)[0]
        return AdoptedPoints(X, n, self.m, self.y_true[rows], self.y_pred[rows])


def adopt_points(X: Array) -> AdoptedPoints:
    """Adopt points without labels, dropping axis names."""
    X = dispatch.adopt_one("X", X)
    X = X if type(X) is np.ndarray else adapter(X).unwrap(X)
    return AdoptedPoints(X, *validate.points(X=X))


def refuse_swapped_points(X: Any, *given: Any) -> None:
    """Raise TypeError where labels come first, and the points, an array of two axes, after them."""
    is_list = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | int)
    if (is_list or getattr(X, "ndim", 2) == 1) and any(getattr(y, "ndim", 1) == 2 for y in given):
        wanted = f"the points, and the labels after them, as in {caller.name()}(X, y_true, y_pred)"
        validate.refuse("X", wanted, "one axis, as labels have", TypeError)


def number_text(
    X: Any, y_true: Any, y_pred: Any, n_classes: int | None
) -> tuple[Any, Any, int | None, tuple[Any, ...] | None]:
    """Return text labels as class ids in the library of `X`, their number and names; others as they are, with None."""
    text = labels.encode_text(y_true, y_pred)
    if text is None:
        return y_true, y_pred, n_classes, None
    if n_classes is not None:
        validate.refuse("n_classes", "None where labels are text", n_classes)
    truth, guess, names = text
    return adapter(X).send(truth, X), adapter(X).send(guess, X), len(names), names


def _type_empty_ids(y: Any, X: Any) -> Any:
    """Return labels or groups unchanged, but an empty list as int64 in the library of `X`."""
    typed = validate.type_empty_labels(y)
    return y if typed is y else adapter(X).send(typed, X)


def adopt_labelled_points(X: Array, y_true: Array, y_pred: Array) -> AdoptedPoints:
    """Adopt points with integer labels and predictions, dropping axis names."""
    refuse_swapped_points(X, y_true, y_pred)
    validate.refuse_tables(y_true=y_true, y_pred=y_pred)
    y_true, y_pred = _type_empty_ids(y_true, X), _type_empty_ids(y_pred, X)
    arrays = dispatch.adopt(X=X, y_true=y_true, y_pred=y_pred)
    X, y_true, y_pred = (x if type(x) is np.ndarray else adapter(x).unwrap(x) for x in arrays)
    n, m = validate.points(X=X)
    validate.integer(y_true=y_true, y_pred=y_pred)
    validate.point_arrays(n, n_axes=m, y_true=y_true, y_pred=y_pred)
    return AdoptedPoints(X, n, m, y_true, y_pred)


def adopt_named_points(
    X: Any, y_true: Any, y_pred: Any, n_classes: int | None
) -> tuple[AdoptedPoints, int | None, tuple[Any, ...] | None]:
    """Adopt points with labels that may be text; return them, the number of classes and the names of these, or None."""
    with failures.issue_once():  # text and points have the same caveats on the order of samples
        y_true, y_pred, n_classes, names = number_text(X, y_true, y_pred, n_classes)
        return adopt_labelled_points(X, y_true, y_pred), n_classes, names


class WeightedPoints(NamedTuple):
    """Adopted points of one library: a real table of `n` rows and `m` columns, with weights and groups or None."""

    X: Array
    n: int
    m: int
    weights: Any
    groups: Any


def adopt_weighted_points(X: Array, weights: Array | None, groups: Array | None) -> WeightedPoints:
    """Adopt points with optional real weights and integer groups."""
    groups = _type_empty_ids(groups, X)
    X, weights, groups = dispatch.adopt(optional=("weights", "groups"), X=X, weights=weights, groups=groups)
    n, m = validate.points(X=X)
    validate.real(weights=weights)
    validate.integer(groups=groups)
    validate.point_arrays(n, weights=weights, groups=groups)
    return WeightedPoints(X, n, m, weights, groups)
