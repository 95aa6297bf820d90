"""Points to counts of cells: what every way of binning shares, and what it says of points and labels it cannot use."""

from typing import Any

import numpy as np

from cmfast import _dispatch, _failures, _validate
from cmfast._cells import CellCounts
from cmfast._grid import Grid, as_grid
from cmfast._progress import reporter
from cmfast._typing import Array, OnFailure, Progress
from cmfast.kernels.layouts import Ranges
from cmfast.kernels.status import Status

WITHOUT_CELL = "a coordinate is not finite or too far from the grid"


def count(
    op: str,
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
    """Count points for the public function `op`; the keys have room for the cells of `ranges`, where they fit.

    `first` is the number of the first point, for messages.
    """
    _validate.on_failure(op, on_failure)
    _validate.progress(op, progress)
    num_threads = _validate.num_threads(op, num_threads)
    if n_classes is not None:
        n_classes = _validate.count(op, "n_classes", n_classes)
    X, y_true, y_pred = _dispatch.adopt(op, X=X, y_true=y_true, y_pred=y_pred)
    n, m = _validate.points(op, X=X)
    _validate.integer(op, y_true=y_true, y_pred=y_pred)
    _validate.per_point(op, n, y_true=y_true, y_pred=y_pred)
    grid = as_grid(op, grid, m)
    options: dict[str, Any] = {
        "origin": grid.origin,
        "inverse": grid.inverse,
        "n_classes": n_classes,
        "ranges": ranges,
        "num_threads": num_threads,
        "progress": reporter(progress, op, "points"),
    }
    keys, counts, table, info, outside = _dispatch.call("cell_counts", X, y_true, y_pred, **options)
    if outside is not None:
        name, limit, number, some = outside
        refuse_outside(op, name, limit, number, [(first + index, value) for index, value in some])
    low, extent, found, n_dropped, dropped = info
    report_dropped(op, n_dropped, n, tuple(first + index for index in dropped), on_failure)
    return CellCounts(grid, found, counts, n_dropped, keys, table, (low, extent))


def report_dropped(
    op: str, n_dropped: int, n: int, first: tuple[int, ...], on_failure: OnFailure, *, why: str = WITHOUT_CELL
) -> None:
    """Do what `on_failure` asks about points that are left out."""
    if n_dropped:
        where = f" (first: {', '.join(map(str, first))})" if first else ""
        text = f"{op}: {n_dropped} of {n} points left out{where}: {why}"
        _failures.announce(text, on_failure, np.int8(Status.INVALID))


def refuse_outside(op: str, name: str, limit: int | None, number: int, first: list[tuple[int, int]]) -> None:
    """Refuse labels that are no class."""
    wanted = "at least 0" if limit is None else f"in 0..{limit - 1}"
    what = ", ".join(f"{value} at {index}" for index, value in first)
    _validate.refuse(op, name, wanted, f"{number} outside (first: {what})")
