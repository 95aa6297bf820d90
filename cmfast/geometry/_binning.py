"""Points to counts of cells: what every way of binning shares, and what it says of points and labels it cannot use."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, OnFailure, Progress
from cmfast._core.progress import reporter
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._grid import Grid, as_grid
from cmfast.geometry._limits import MOST_CLASSES, overflow_of
from cmfast.kernels.shared.geometry_keys import Binned, Counted, Outside, Ranges
from cmfast.kernels.status import Status

WITHOUT_CELL = "a coordinate is not finite or too far from the grid"


def count(
    X: Array,
    y_true: Array,
    y_pred: Array,
    grid: Grid,
    *,
    n_classes: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
    progress: Progress = None,
    ranges: Ranges | None = None,
    first: int = 0,
) -> CellCounts:
    """Count points; the keys have room for the cells of `ranges`, where they fit.

    `first` is the number of the first point, for messages.
    """
    validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    if n_classes is not None:
        n_classes = checked_classes(n_classes)
    validate.columns(y_true=y_true, y_pred=y_pred)
    X, y_true, y_pred = dispatch.adopt(X=X, y_true=y_true, y_pred=y_pred)
    n, m = validate.points(X=X)
    validate.integer(y_true=y_true, y_pred=y_pred)
    validate.per_point(n, y_true=y_true, y_pred=y_pred)
    grid = as_grid(grid, m)
    options: dict[str, Any] = {
        "origin": grid.origin,
        "inverse": grid.inverse,
        "n_classes": n_classes,
        "ranges": ranges,
        "num_threads": num_threads,
        "progress": reporter(progress, "points"),
    }
    with overflow_of(f"grid and {'y_true, y_pred' if n_classes is None else 'n_classes'}"):
        counted = Counted(*dispatch.call("cell_counts", X, y_true, y_pred, **options))
    if counted.outside is not None:
        outside = Outside(*counted.outside)
        refuse_outside(outside._replace(first=[(first + index, value) for index, value in outside.first]))
    binned = Binned(*counted.binned)
    checked_classes(binned.n_classes)
    n_dropped, dropped = binned.n_dropped, tuple(first + index for index in binned.first_dropped)
    report_dropped(n_dropped, n, dropped, on_failure)
    return CellCounts(
        grid, binned.n_classes, counted.counts, n_dropped, counted.keys, counted.table, (binned.low, binned.extent)
    )


def checked_classes(n_classes: Any, *, least: int = 0) -> int:
    """Return the option as an int."""
    number = validate.count("n_classes", n_classes, least=least, most=None)
    if number > MOST_CLASSES:
        validate.refuse("n_classes", f"at most {MOST_CLASSES}", number, OverflowError)
    return number


def classes_of(
    X: Array, y_true: Array, y_pred: Array, grid: Grid, *, n_classes: int | None, num_threads: int | None
) -> int:
    """Return the number of classes of adopted labels, all of which are classes; the points are not looked at."""
    options: dict[str, Any] = {"origin": grid.origin, "inverse": grid.inverse, "num_threads": num_threads}
    counted = Counted(*dispatch.call("cell_counts", X[:0], y_true, y_pred, n_classes=n_classes, **options))
    if counted.outside is not None:
        refuse_outside(Outside(*counted.outside))
    return checked_classes(Binned(*counted.binned).n_classes)


def report_dropped(
    n_dropped: int, n: int, first: tuple[int, ...], on_failure: OnFailure, *, why: str = WITHOUT_CELL
) -> None:
    """Do what `on_failure` asks about points that are left out."""
    if n_dropped:
        where = f" (first: {', '.join(map(str, first))})" if first else ""
        text = f"{n_dropped} of {n} points left out{where}: {why}"
        failures.announce(text, on_failure, np.int8(Status.INVALID))


def refuse_outside(outside: Outside) -> None:
    """Refuse labels that are no class."""
    name, limit, number, first = outside
    wanted = "at least 0" if limit is None else f"in 0..{limit - 1}" if limit else "absent, as there are 0 of them"
    what = ", ".join(f"{value} at {index}" for index, value in first)
    validate.refuse(name, wanted, f"{number} outside (first: {what})")
