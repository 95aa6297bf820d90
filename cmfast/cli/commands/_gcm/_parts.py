"""``cmfast gcm`` in parts: principal axes and grid of all points, then cell counts per part, merged."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np

import cmfast
from cmfast._core import caller, dispatch, failures, validate
from cmfast._files import points, tables
from cmfast._files.output import FileError
from cmfast._files.scratch import HeldArrays, Scratch, hold_arrays
from cmfast._files.sources import open_sources, parse_source
from cmfast._files.states import State
from cmfast._files.stores import Source, Url
from cmfast.cli._calls import compute
from cmfast.cli._cluster import Hold, Part, Tasks, parts_of_arrays, parts_of_tables
from cmfast.cli._labels import check_memory
from cmfast.cli._saved_counts import read_counts
from cmfast.geometry._geometric_confusion_matrix import GcmResult, finish_lazy_result
from cmfast.geometry._pca import compute_axes
from cmfast.geometry._weights import get_statuses, report_weightings, validate_bi_options
from cmfast.geometry._weights import make_weightings as tables_of
from cmfast.geometry._width_rules import Columns, Spread, measure_columns, sum_moments

MOST_TASK_BYTES = 1 << 27  # bytes of points per task
RANGED = (*points.ARRAYS, *tables.PARQUET)  # suffixes of objects that are read in ranges
FUNCTION = "geometric_confusion_matrix"  # the public function that this replaces, named in messages

Points = tuple[np.ndarray, np.ndarray, np.ndarray]


class Columned(NamedTuple):
    """Columns of a table with labels, predictions and points; features None: all others."""

    true: str
    pred: str
    features: list[str] | None


def compute_in_parts(args: argparse.Namespace, *, tables: bool, smoothing: Any = None, empty: Any = "nan") -> GcmResult:
    """Return the result of :func:`cmfast.geometric_confusion_matrix` for all points, with the same bits."""
    columns = Columned(args.labels, args.pred, args.features) if tables else None
    if tables:
        parts: Sequence[Part] = parts_of_tables(args.input)
    else:
        parts = parts_of_arrays([args.input, parse_source(args.labels), parse_source(args.pred)], _rows)
    work, rule = args.tasks, args.grid.replace("-", "_")
    # What is read of a store is kept; the points of all parts together, where a task needs them, in a second copy.
    is_remote = any(isinstance(one, Url) for part in parts for one in part.sources)
    held, held_all = (work.hold(task, columns) if is_remote else None for task in (_hold, _hold_all))
    paths = work.states("labels", _labels, parts, columns, held=held)
    seen = [read_counts(path, cmfast.ConfusionCounts) for path in paths]
    M = cmfast.ConfusionCounts.merge(seen).matrix
    parts = tuple(part for part, counts in zip(parts, seen, strict=True) if counts.n_samples)
    if not parts:
        raise FileError(str(args.input), "holds no samples")
    bi = validate_bi_options(smoothing, empty)
    with caller.set_task(FUNCTION):
        known = tables_of(M, args.weights, bi)
        report_weightings(known, get_statuses(known), "warn")  # reported before any work on the points
    axes = grid = None
    if args.n_components is not None:
        (path,) = work.states("axes", _axes, [parts], columns, args.n_components, held=held_all)
        axes = path.read_bytes()
    if rule == "scott":
        path = work.state(
            "grid", parts, (columns, axes, rule), lambda: _scott(work, parts, columns, axes, held).to_bytes()
        )
        grid = path.read_bytes()
    else:
        ((_, (grid, said)),) = work.each(_grid_by, [parts], columns, axes, rule, held=held_all)
        for text in said:
            failures.warn_diagnostic(text)
    cells = cmfast.CellAccumulator(cmfast.Grid.from_bytes(grid), len(M))
    for path in work.states("cells", _cells, parts, columns, axes, grid, len(M), held=held):
        cells.add(read_counts(path, cmfast.CellCounts))
    options = {"weights": args.weights, "bi": bi, "on_failure": "warn"}
    with caller.set_task(FUNCTION):
        found: GcmResult = compute(
            finish_lazy_result, cells.counts(), M, args.seed, has_grid=False, num_threads=args.threads, **options
        )
    return found


def _rows(paths: Sequence[Source]) -> tuple[int, int]:
    """Return the number of points in arrays that belong together, and the number per part."""
    shape, dtype, chunk = points.read_layout(paths[0])
    if len(shape) != 2:
        raise FileError(paths[0], f"must be of shape (n, m), a row per point, but is {shape}")
    n, _ = points.count_labels(paths[1:], 1)
    if n != shape[0]:
        raise FileError(paths[1], f"holds {n:,} labels, but {paths[0]} {shape[0]:,} points")
    return n, points.round_to_chunks(MOST_TASK_BYTES // max(shape[1] * dtype.itemsize, 1), chunk)


def _hold(part: Part, columns: Columned | None, *, threads: int | None) -> HeldArrays | None:
    """Read the points of a part with their labels, and keep them on disk; None if there is no room, or are no rows."""
    del threads
    try:
        with _read_points(part, columns, None) as arrays:
            return hold_arrays(arrays)
    except points.NoRowsError:  # such a part is counted, but has no points
        return None


def _hold_all(parts: Sequence[Part], columns: Columned | None, *, threads: int | None) -> HeldArrays | None:
    """Read the points of all parts, and keep them on disk; None if there is no room."""
    del threads
    with _all(parts, columns, None) as X:
        return hold_arrays([X])


@contextmanager
def _read_points(part: Part, columns: Columned | None, held: HeldArrays | None) -> Iterator[Points]:
    """Yield the points of a part with their labels, from what is held if that is given; messages name the function."""
    if held is not None:
        with caller.set_task(FUNCTION):
            X, y, p = held.mapped()
            yield X, y, p
        return
    with open_sources(part.sources, RANGED) as paths, caller.set_task(FUNCTION):
        if columns is None:
            X, y, p = (points.open_array(path, tick=_quietly, rows=part.rows) for path in paths)
        else:
            features = None if columns.features is None else list(columns.features)
            X, y, p = points.open_points(paths[0], columns.true, columns.pred, features, tick=_quietly)
        yield X, y, p


def _quietly(done: int, total: int) -> None:
    """Show no progress: only the progress over all parts is shown."""


def _labels(part: Part, columns: Columned | None, *, threads: int | None, held: HeldArrays | None = None) -> bytes:
    """Return the confusion matrix of a part as the bytes of a state."""
    del threads  # counting integers is faster than reading them
    with _read_labels(part, columns, held) as (y, p):
        compute(validate.integer, y_true=y, y_pred=p)
        C = 1
        for source, ids in zip(part.sources[1:] or part.sources * 2, (y, p), strict=True):
            if ids.size:
                C = max(C, int(ids.max()) + 1)
                check_memory(source, 1, C)
        state: State = compute(cmfast.ConfusionCounts.from_labels, y, p, n_classes=C)
        return state.to_bytes()


@contextmanager
def _read_labels(
    part: Part, columns: Columned | None, held: HeldArrays | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the labels of a part without reading its points, unless they are held."""
    with open_sources(() if held else part.sources, RANGED) as paths, caller.set_task(FUNCTION):
        if held is not None:
            _, y, p = held.mapped()
        elif columns is None:
            y, p = (points.open_array(path, tick=_quietly, rows=part.rows) for path in paths[1:])
        else:
            y, p = points.open_labels(paths[0], columns.true, columns.pred)
        yield y, p


def _project(X: np.ndarray, axes: bytes | None, threads: int | None) -> np.ndarray:
    """Return points adopted for the kernels, projected onto the axes if given."""
    if axes is not None:
        projection: cmfast.Projection[Any] = cmfast.Projection.from_bytes(axes)
        X = compute(projection.transform, X, num_threads=threads)
    (out,) = compute(dispatch.adopt, X=X)
    compute(validate.points, X=out)
    return cast(np.ndarray, out)


@contextmanager
def _all(parts: Sequence[Part], columns: Columned | None, held: HeldArrays | None) -> Iterator[np.ndarray]:
    """Yield the points of all parts in order as one array; copied to a file unless they are one file, or held."""
    if held is not None:
        yield held.mapped()[0]
        return
    if len({part.sources for part in parts}) == 1:
        with _read_points(Part(parts[0].sources), columns, None) as (X, _, _):
            yield X
        return
    first: tuple[Any, ...] = ()
    with Scratch() as out:
        for part in parts:
            with _read_points(part, columns, None) as (X, _, _):
                like = X.dtype, X.shape[1:]
                first = first or like
                if like != first:
                    raise FileError(str(part), f"holds {_describe(like)}, but {parts[0]} {_describe(first)}")
                out.append(X)
        yield out.mapped()


def _describe(like: tuple[Any, ...]) -> str:
    """Describe shape and dtype of points for a message."""
    return f"points of {' x '.join(map(str, like[1]))} {like[0]}"


def _axes(
    parts: Sequence[Part],
    columns: Columned | None,
    n: int,
    *,
    threads: int | None,
    held: HeldArrays | None = None,
) -> bytes:
    """Return the principal axes of all points, as the bytes of a state."""
    with _all(parts, columns, held) as X, caller.set_task(FUNCTION):
        n_columns = compute(validate.points, X=X)[1]
        state: State = compute(compute_axes, X, min(n, n_columns), keep_all=False, num_threads=threads)
        return state.to_bytes()


def _grid_by(
    parts: Sequence[Part],
    columns: Columned | None,
    axes: bytes | None,
    rule: str,
    *,
    threads: int | None,
    held: HeldArrays | None = None,
) -> tuple[bytes, list[str]]:
    """Return the grid that a rule chooses for all points, and its warnings."""
    with _all(parts, columns, held) as X, caller.set_task(FUNCTION), failures.collect_warnings() as texts:
        choose: Callable[..., cmfast.Grid] = getattr(cmfast.Grid, rule)
        grid = compute(choose, _project(X, axes, threads), on_failure="ignore", num_threads=threads)
        return grid.to_bytes(), texts


def _scott(
    work: Tasks, parts: Sequence[Part], columns: Columned | None, axes: bytes | None, held: Hold | None
) -> cmfast.Grid:
    """Return the grid of Scott's rule from extremes and integer sums of parts, with the bits of one pass."""
    each = [found for _, found in work.each(_find_extremes, parts, columns, axes, held=held)]
    low, high, n, n_rows = zip(*each, strict=True)
    found = Spread(np.minimum.reduce(low), np.maximum.reduce(high), sum(n), sum(n_rows))
    with caller.set_task(FUNCTION):
        compute(Columns, None, "ignore", None, found=found)  # raises if no rule applies to the points
        each = [sums for _, sums in work.each(_moments, parts, columns, axes, found, held=held)]
        sums = [[sum(column) for column in zip(*rows, strict=True)] for rows in zip(*each, strict=True)]
        chosen = Columns(None, "ignore", None, found=found, sums=sums)
        return cmfast.Grid(chosen.low, compute(chosen.scott, None))


def _find_extremes(
    part: Part,
    columns: Columned | None,
    axes: bytes | None,
    *,
    threads: int | None,
    held: HeldArrays | None = None,
) -> Spread:
    """Return the extremes of the points of a part."""
    with _read_points(part, columns, held) as (X, _, _):
        return measure_columns(_project(X, axes, threads), threads)


def _moments(
    part: Part,
    columns: Columned | None,
    axes: bytes | None,
    found: Spread,
    *,
    threads: int | None,
    held: HeldArrays | None = None,
) -> list[list[int]]:
    """Return the integer moments of the points of a part."""
    with _read_points(part, columns, held) as (X, _, _):
        return sum_moments(_project(X, axes, threads), found, threads)


def _cells(
    part: Part,
    columns: Columned | None,
    axes: bytes | None,
    grid: bytes,
    n_classes: int,
    *,
    threads: int | None,
    held: HeldArrays | None = None,
) -> bytes:
    """Return the cell counts of a part as the bytes of a state."""
    with _read_points(part, columns, held) as (X, y, p):
        options = {"grid": cmfast.Grid.from_bytes(grid), "n_classes": n_classes, "num_threads": threads}
        state: State = compute(cmfast.cell_counts, _project(X, axes, threads), y, p, on_failure="ignore", **options)
        return state.to_bytes()
