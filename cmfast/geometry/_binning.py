"""Binning of points into counts of grid cells, and the reports of unusable points and labels."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, table_columns, validate
from cmfast._core.annotations import OnFailure, Progress
from cmfast._core.progress import make_reporter
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._grid import Grid, validate_grid
from cmfast.geometry._limits import MOST_GROUPS, MOST_MATRIX_CLASSES, explain_overflow
from cmfast.geometry._points import AdoptedPoints, WeightedPoints
from cmfast.kernels.shared.geometry_keys import Binned, CountedCells, Outside, Ranges
from cmfast.kernels.status import Status

WITHOUT_CELL = "a coordinate is not finite or too far from the grid"


def count(
    points: AdoptedPoints,
    grid: Grid,
    *,
    n_classes: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
    progress: Progress = None,
    ranges: Ranges | None = None,
) -> CellCounts:
    """Validate the options and count points per (cell, label, prediction), with keys that fit `ranges` if possible."""
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    if n_classes is not None:
        n_classes = validate_n_classes(n_classes)
    rest: dict[str, Any] = {"num_threads": num_threads, "progress": progress, "ranges": ranges}
    return count_points(points, validate_grid(grid, points.m), n_classes=n_classes, on_failure=on_failure, **rest)


def count_points(
    points: AdoptedPoints,
    grid: Grid,
    *,
    n_classes: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
    progress: Progress = None,
    ranges: Ranges | None = None,
    first: int = 0,
) -> CellCounts:
    """Count adopted points without validating options; `first` is the number of the first point, for messages."""
    options: dict[str, Any] = {
        "origin": grid.origin,
        "inverse": grid.inverse,
        "n_classes": n_classes,
        "ranges": ranges,
        "spread": points.spread,
        "num_threads": num_threads,
        "progress": make_reporter(progress, "points"),
    }
    with explain_overflow(f"grid and {'y_true, y_pred' if n_classes is None else 'n_classes'}"):
        counted = CountedCells(*dispatch.call("cell_counts", points.X, points.y_true, points.y_pred, **options))
    if counted.outside is not None:
        outside = Outside(*counted.outside)
        refuse_outside(outside._replace(first=[(first + index, value) for index, value in outside.first]))
    binned = Binned(*counted.binned)
    validate_n_classes(binned.n_classes)
    n_dropped, dropped = binned.n_dropped, tuple(first + index for index in binned.first_dropped)
    report_dropped(n_dropped, points.n, dropped, on_failure)
    return CellCounts(
        grid, binned.n_classes, counted.counts, n_dropped, counted.keys, counted.table, (binned.low, binned.extent)
    )


class Heights(NamedTuple):
    """Sums of weights per cell and group, by key, with the metadata of ``Binned``."""

    keys: Any
    values: Any
    table: Any
    status: Any
    ranges: Ranges
    n_groups: int
    n_dropped: int


def sum_heights(
    points: WeightedPoints,
    *,
    grid: Grid,
    n_groups: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
    progress: Progress = None,
) -> Heights:
    """Validate the options and sum the weights of points, or each column of weights, per cell and group."""
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    if n_groups is not None:
        n_groups = validate.count("n_groups", n_groups, most=None)
        if n_groups > MOST_GROUPS:
            validate.refuse("n_groups", "at most 2**62", n_groups, OverflowError)
        if points.groups is None:
            validate.refuse("n_groups", "None without groups", n_groups)
    grid = validate_grid(grid, points.m)
    options: dict[str, Any] = {
        "origin": grid.origin,
        "inverse": grid.inverse,
        "n_groups": n_groups,
        "num_threads": num_threads,
    }
    options["progress"] = make_reporter(progress, "points")
    with explain_overflow(f"grid and {'groups' if n_groups is None else 'n_groups'}"):
        keys, values, table, found, status, outside = dispatch.call(
            "sparse_histogram", points.X, points.weights, points.groups, **options
        )
    if outside is not None:
        refuse_outside(Outside(*outside))
    binned = Binned(*found)
    report_dropped(binned.n_dropped, points.n, binned.first_dropped, on_failure)
    return Heights(keys, values, table, status, (binned.low, binned.extent), binned.n_classes, binned.n_dropped)


def validate_n_classes(n_classes: Any, *, least: int = 0) -> int:
    """Validate the option `n_classes` and return it as an int."""
    number = validate.count("n_classes", n_classes, least=least, most=None)
    if number > MOST_MATRIX_CLASSES:
        validate.refuse("n_classes", f"at most {MOST_MATRIX_CLASSES}", number, OverflowError)
    return number


def infer_n_classes(points: AdoptedPoints, *, n_classes: int | None, num_threads: int | None) -> int:
    """Return the number of classes of adopted labels, checking that all are class ids; reads no coordinates."""
    anywhere = Grid([0.0] * points.m, [1.0] * points.m)
    options: dict[str, Any] = {"origin": anywhere.origin, "inverse": anywhere.inverse, "num_threads": num_threads}
    labels = points.y_true, points.y_pred
    counted = CountedCells(*dispatch.call("cell_counts", points.X[:0, :], *labels, n_classes=n_classes, **options))
    if counted.outside is not None:
        refuse_outside(Outside(*counted.outside))
    return validate_n_classes(Binned(*counted.binned).n_classes)


def report_dropped(
    n_dropped: int, n: int, first: tuple[int, ...], on_failure: OnFailure, *, why: str = WITHOUT_CELL
) -> None:
    """Warn or raise, as `on_failure` says, about points that were left out."""
    if n_dropped:
        where = f" (first: {', '.join(map(str, first))})" if first else ""
        text = f"{n_dropped} of {n} points left out{where}: {why}{table_columns.describe_gaps()}"
        failures.warn_or_raise(text, on_failure, np.int8(Status.INVALID))


def refuse_outside(outside: Outside) -> None:
    """Raise ValueError for labels that are not class ids."""
    name, limit, number, first = outside
    wanted = "at least 0" if limit is None else f"in 0..{limit - 1}" if limit else "empty, as there are no classes"
    what = ", ".join(f"{value} at {index}" for index, value in first)
    validate.refuse(name, wanted, f"{number} outside (first: {what})")
