"""What the functions on embedded points share: checked arguments, principal axes, cells, weightings."""

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Method, OnFailure, Table
from cmfast.geometry import _binning
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._grid import Grid, validate_grid
from cmfast.geometry._limits import explain_matrix_memory
from cmfast.geometry._pca import project
from cmfast.geometry._points import AdoptedPoints, adopt_labelled_points
from cmfast.geometry._weights import Weighting, get_statuses, make_weightings, merge_statuses, report_weightings
from cmfast.geometry._width_rules import Columns

Weights: TypeAlias = Method | Table | list[Any]  # of which each is one of the others
Rule: TypeAlias = Literal["scott", "freedman_diaconis"]
MOST_PART_COORDINATES = 1 << 20  # coordinates looked at at a time
UNIT_GRID = Grid([0.0], [1.0])
RULES: tuple[Rule, ...] = get_args(Rule)


class Embedded(NamedTuple):
    """Points on their axes, with their classes and cells, and what is known of their weightings."""

    points: AdoptedPoints
    grid: Grid
    weightings: list[Weighting]
    """Those of all points; those left out later may change them. Where none has an answer there are no points."""
    n_classes: int


def prepare_points(
    points: AdoptedPoints,
    n_components: int | None,
    grid: Grid | Rule,
    *,
    weights: Any,
    bi: dict[str, Any],
    n_classes: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
) -> Embedded:
    """Check whether the weights exist; only then project the points and choose their cells."""
    if not isinstance(grid, Grid):
        validate.choice("grid", grid, RULES, "a cmfast.Grid or ")
    if n_components is not None:
        n_components = validate.count("n_components", n_components, least=1)
    m = points.m if n_components is None else min(n_components, points.m)
    if isinstance(grid, Grid):
        validate_grid(grid, m)
    C = _binning.infer_n_classes(points, n_classes=n_classes, num_threads=num_threads)
    options: dict[str, Any] = {"n_classes": C, "labels": None, "n_groups": None, "num_threads": num_threads}
    with explain_matrix_memory(C):  # of all points, of which some may be left out later
        M = dispatch.call("confusion_matrix", points.y_true, points.y_pred, None, None, **options)[0]
    weightings = make_weightings(M, weights, bi)
    report_weightings(weightings, get_statuses(weightings), on_failure)
    if not any(w.status.ok for w in weightings) and _are_finite(points):  # what is left out may change the verdict
        nowhere = grid if isinstance(grid, Grid) else UNIT_GRID
        m = len(nowhere.width)
        none = points.part(slice(0))._replace(X=points.X[:0, :m], m=m)
        return Embedded(none, nowhere, weightings, C)
    if n_components is not None:
        points = project(points, m, keep_all=isinstance(grid, Grid), num_threads=num_threads)
    if isinstance(grid, Grid):
        return Embedded(points, grid, weightings, C)
    columns = Columns(points, "ignore", num_threads)
    return Embedded(points, Grid(columns.low, getattr(columns, grid)(None)), weightings, C)


def _are_finite(points: AdoptedPoints) -> bool:
    """Return whether no coordinate is NaN or infinite: looked at in parts, in memory for few."""
    step = max(1, MOST_PART_COORDINATES // points.m)

    def are_finite(X: Array) -> bool:
        parts = (X[start : start + step] for start in range(0, points.n, step))
        return all(bool(((part < float("inf")) & (part > -float("inf"))).all()) for part in parts)  # synchronises

    return bool(adapter(points.X).evaluate(are_finite, points.X))


def count_no_points(cells: CellCounts, grid: Grid | None) -> CellCounts:
    """Return counts of no points on a grid, by default any, in the library of `cells`."""
    grid = grid or UNIT_GRID
    X, y = (adapter(cells.counts).send(x, cells.counts) for x in (np.empty((0, grid.n_axes)), np.empty(0, np.int64)))
    options: dict[str, Any] = {"on_failure": "ignore", "num_threads": 1}
    return _binning.count(adopt_labelled_points(X, y, y), grid, n_classes=cells.n_classes, **options)


def compute_gcm(
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
    found = known if known is not None and not cells.n_dropped else make_weightings(M, weights, bi)
    options: dict[str, Any] = {"bounded": bounded, "num_threads": num_threads}
    out = dispatch.call("gcm", cells._keys, cells.counts, M, *(w.table for w in found), **options)
    return finish_gcm(out, found, on_failure, known), found


def finish_gcm(
    out: tuple[Any, ...], found: list[Weighting], on_failure: OnFailure, known: list[Weighting] | None = None
) -> tuple[Any, ...]:
    """Return what the kernel returned, NaN where no weighting exists; say what has no answer."""
    codes = merge_statuses(found, out)
    if not any(w.status.ok for w in found):  # where there are no points, no weight is used
        *parts, status = out
        none = adapter(parts[0]).evaluate(lambda *xs: tuple(None if x is None else x + np.nan for x in xs), *parts)
        out = (*none, status)
    if known is not None:
        codes[codes == get_statuses(known)] = 0
    report_weightings(found, codes, on_failure)
    return out
