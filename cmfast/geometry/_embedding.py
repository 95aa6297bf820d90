"""What the functions on embedded points share: checked arguments, principal axes, cells, weightings."""

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Method, OnFailure, Table
from cmfast.geometry import _binning
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._grid import Grid, as_grid
from cmfast.geometry._limits import room_for_matrix
from cmfast.geometry._projection import projected
from cmfast.geometry._weights import Weighting, outcomes, report, statuses, tables

Weights: TypeAlias = Method | Table | list[Any]  # of which each is one of the others
Rule: TypeAlias = Literal["scott", "freedman_diaconis"]
PART = 1 << 20  # coordinates looked at at a time
NOWHERE = Grid([0.0], [1.0])
RULES: tuple[Rule, ...] = get_args(Rule)


class Embedded(NamedTuple):
    """Points on their axes, with their classes and cells, and what is known of their weightings."""

    X: Array
    y_true: Array
    y_pred: Array
    grid: Grid
    weightings: list[Weighting]
    """Those of all points; those left out later may change them. Where none has an answer there are no points."""
    n_classes: int


def embedded(
    X: Array,
    y_true: Array,
    y_pred: Array,
    n_components: int | None,
    grid: Grid | Rule,
    *,
    weights: Any,
    bi: dict[str, Any],
    n_classes: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
) -> Embedded:
    """Check the points, and whether the weights exist; only then project the points and choose their cells."""
    if not isinstance(grid, Grid):
        validate.choice("grid", grid, RULES, "a cmfast.Grid or ")
    if n_components is not None:
        n_components = validate.count("n_components", n_components, least=1)
    validate.columns(y_true=y_true, y_pred=y_pred)
    X, y_true, y_pred = dispatch.adopt(X=X, y_true=y_true, y_pred=y_pred)
    n, m = validate.points(X=X)
    validate.integer(y_true=y_true, y_pred=y_pred)
    validate.per_point(n, y_true=y_true, y_pred=y_pred)
    if isinstance(grid, Grid):
        as_grid(grid, m if n_components is None else min(n_components, m))
    M = _matrix(X, y_true, y_pred, n_classes=n_classes, num_threads=num_threads)
    weightings = tables(M, weights, bi)
    report(weightings, statuses(weightings), on_failure)
    if not any(w.status.ok for w in weightings) and _are_finite(X):  # what is left out may change the verdict
        nowhere = grid if isinstance(grid, Grid) else NOWHERE
        return Embedded(
            X[:0, : len(nowhere.width)], y_true[:0], y_pred[:0], nowhere, weightings, dispatch.shape_of(M)[0]
        )
    quiet: dict[str, Any] = {"on_failure": "ignore", "num_threads": num_threads}
    if n_components is not None:
        X = projected(X, min(n_components, m), keep_all=isinstance(grid, Grid), num_threads=num_threads)
    cells: Grid = grid if isinstance(grid, Grid) else getattr(Grid, grid)(X, **quiet)
    return Embedded(X, y_true, y_pred, cells, weightings, dispatch.shape_of(M)[0])


def _are_finite(X: Array) -> bool:
    """Whether no coordinate is NaN or infinite: looked at in parts, in memory for few."""
    n, m = dispatch.shape_of(X)
    step = max(1, PART // m)

    def are_finite(X: Array) -> bool:
        parts = (X[start : start + step] for start in range(0, n, step))
        return all(bool(((part < float("inf")) & (part > -float("inf"))).all()) for part in parts)  # synchronises

    return bool(adapter(X).evaluate(are_finite, X))


def _matrix(X: Array, y_true: Array, y_pred: Array, *, n_classes: int | None, num_threads: int | None) -> Array:
    """Return the confusion matrix of all points, of which some may be left out later."""
    m = dispatch.shape_of(X)[1]
    anywhere = Grid([0.0] * m, [1.0] * m)
    C = _binning.classes_of(X, y_true, y_pred, anywhere, n_classes=n_classes, num_threads=num_threads)
    options: dict[str, Any] = {"n_classes": C, "labels": None, "n_groups": None, "num_threads": num_threads}
    with room_for_matrix(C):
        return dispatch.call("confusion_matrix", y_true, y_pred, None, None, **options)[0]


def without_points(cells: CellCounts, grid: Grid | None) -> CellCounts:
    """Return counts of no points on a grid, by default any, in the library of `cells`."""
    grid = grid or NOWHERE
    X, y = (adapter(cells.counts).send(x, cells.counts) for x in (np.empty((0, grid.n_axes)), np.empty(0, np.int64)))
    options: dict[str, Any] = {"on_failure": "ignore", "num_threads": 1}
    return _binning.count(X, y, y, grid, n_classes=cells.n_classes, **options)


def weighted(
    cells: CellCounts,
    weights: Any,
    bi: dict[str, Any],
    on_failure: OnFailure,
    num_threads: int | None,
    *,
    known: list[Weighting] | None = None,
    bounded: bool = True,
) -> tuple[tuple[Any, ...], list[Weighting]]:
    """Return all that the kernel of `gcm` does, and the weightings; what was said of those `known` is not said again.

    The normalised matrices and the upper bounds are there if `bounded`.
    """
    M = cells._matrix()
    found = known if known is not None and not cells.n_dropped else tables(M, weights, bi)
    options: dict[str, Any] = {"bounded": bounded, "num_threads": num_threads}
    out = dispatch.call("gcm", cells._keys, cells.counts, M, *(w.table for w in found), **options)
    return reported(out, found, on_failure, known), found


def reported(
    out: tuple[Any, ...], found: list[Weighting], on_failure: OnFailure, known: list[Weighting] | None = None
) -> tuple[Any, ...]:
    """Return what the kernel returned, NaN where no weighting exists; say what has no answer."""
    codes = outcomes(found, out)
    if not any(w.status.ok for w in found):  # where there are no points, no weight is used
        *parts, status = out
        none = adapter(parts[0]).evaluate(lambda *xs: tuple(None if x is None else x + np.nan for x in xs), *parts)
        out = (*none, status)
    if known is not None:
        codes[codes == statuses(known)] = 0
    report(found, codes, on_failure)
    return out
