"""Prepare embedded points: validate arguments, project to principal axes, choose cells, compute weightings and GCM."""

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

Weights: TypeAlias = Method | Table | list[Any]  # a list of names and tables
Rule: TypeAlias = Literal["scott", "freedman_diaconis"]
MOST_PART_COORDINATES = 1 << 20  # coordinates checked at a time
UNIT_GRID = Grid([0.0], [1.0])
RULES: tuple[Rule, ...] = get_args(Rule)


class Embedded(NamedTuple):
    """Projected points with their grid, weightings and number of classes."""

    points: AdoptedPoints
    grid: Grid
    weightings: list[Weighting]
    """Computed from all points; points left out later may change them. If none exists, `points` is empty."""
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
    """Compute the weightings first; if any exists, project the points and choose their cells."""
    if not isinstance(grid, Grid):
        validate.choice("grid", grid, RULES, "a cmfast.Grid or ")
    if n_components is not None:
        n_components = validate.count("n_components", n_components, least=1)
    m = points.m if n_components is None else min(n_components, points.m)
    if isinstance(grid, Grid):
        validate_grid(grid, m)
    C = _binning.infer_n_classes(points, n_classes=n_classes, num_threads=num_threads)
    options: dict[str, Any] = {"n_classes": C, "labels": None, "n_groups": None, "num_threads": num_threads}
    with explain_matrix_memory(C):  # the matrix of all points; some may be left out later
        M = dispatch.call("confusion_matrix", points.y_true, points.y_pred, None, None, **options)[0]
    weightings = make_weightings(M, weights, bi)
    report_weightings(weightings, get_statuses(weightings), on_failure)
    if not any(w.status.ok for w in weightings) and _are_finite(points):  # leaving points out may make weights exist
        nowhere = grid if isinstance(grid, Grid) else UNIT_GRID
        m = len(nowhere.width)
        none = points.part(slice(0))._replace(X=points.X[:0, :m], m=m)
        return Embedded(none, nowhere, weightings, C)
    if n_components is not None:
        points = project(points, m, keep_all=isinstance(grid, Grid), num_threads=num_threads)
    if isinstance(grid, Grid):
        return Embedded(points, grid, weightings, C)
    columns = Columns(points, "ignore", num_threads)
    chosen = Grid(columns.low, getattr(columns, grid)(None))
    return Embedded(points._replace(spread=columns.spread), chosen, weightings, C)


def _are_finite(points: AdoptedPoints) -> bool:
    """Whether no coordinate is NaN or infinite, checked in blocks of bounded memory."""
    step = max(1, MOST_PART_COORDINATES // points.m)

    def are_finite(X: Array) -> bool:
        """Whether all coordinates of `X` are finite, block by block."""
        parts = (X[start : start + step] for start in range(0, points.n, step))
        return all(bool(((part < float("inf")) & (part > -float("inf"))).all()) for part in parts)  # synchronises

    return bool(adapter(points.X).evaluate(are_finite, points.X))


def count_no_points(cells: CellCounts, grid: Grid | None) -> CellCounts:
    """Return counts of zero points on `grid` (default: a unit grid), in the library of `cells`."""
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
    """Run the kernel of `gcm`; return its output and the weightings, without repeating reports on `known` ones.

    The output includes the normalised matrices and the upper bounds only if `bounded`.
    """
    M = cells._matrix()
    found = known if known is not None and not cells.n_dropped else make_weightings(M, weights, bi)
    options: dict[str, Any] = {"bounded": bounded, "num_threads": num_threads}
    out = dispatch.call("gcm", cells._keys, cells.counts, M, *(w.table for w in found), **options)
    return finish_gcm(out, found, on_failure, known), found


def finish_gcm(
    out: tuple[Any, ...], found: list[Weighting], on_failure: OnFailure, known: list[Weighting] | None = None
) -> tuple[Any, ...]:
    """Return the kernel's output, all NaN if no weighting exists; report weightings that failed."""
    codes = merge_statuses(found, out)
    if not any(w.status.ok for w in found):  # without points the kernel used no weight
        *parts, status = out
        none = adapter(parts[0]).evaluate(lambda *xs: tuple(None if x is None else x + np.nan for x in xs), *parts)
        out = (*none, status)
    if known is not None:
        codes[codes == get_statuses(known)] = 0
    report_weightings(found, codes, on_failure)
    return out
