"""Count points per (cell, label, prediction), and sum weights per (cell, group)."""

from collections.abc import Callable
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import failures, labels, lazy, validate
from cmfast._core.annotations import Array, OnFailure, PointsT, Progress
from cmfast._core.usual_options import explain_options
from cmfast.geometry import _binning, _cell_partition, _dask_histogram
from cmfast.geometry._cells import CellCounts, SparseHistogram
from cmfast.geometry._grid import Grid
from cmfast.geometry._point_tables import accept_point_table
from cmfast.geometry._points import adopt_labelled_points, adopt_weighted_points


@overload
def cell_counts(
    X: PointsT,
    y_true: PointsT,
    y_pred: PointsT,
    *,
    grid: Grid,
    n_classes: int | None = ...,
    n_parts: None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> CellCounts[PointsT]: ...
@overload
def cell_counts(
    X: ArrayLike,
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    grid: Grid,
    n_classes: int | None = ...,
    n_parts: None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> CellCounts[NDArray[Any]]: ...
@overload
def cell_counts(
    X: ArrayLike,
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    grid: Grid,
    n_classes: int | None = ...,
    n_parts: int,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> list[CellCounts[Any]]: ...
@accept_point_table
@explain_options
def cell_counts(
    X: Array,
    y_true: Array,
    y_pred: Array,
    *,
    grid: Grid,
    n_classes: int | None = None,
    n_parts: int | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> Any:
    """Count the points of each (cell, label, prediction).

    Parameters
    ----------
    X : array, shape (N, m), or table
        Points; real numbers of any type. Coordinates are converted to float64, exact up to 2**53. Of a table with names
        of columns for `y_true` and `y_pred` all other columns.
    y_true, y_pred : array of int, shape (N,), or str
        Labels and predictions: class ids ``0, ..., n_classes - 1``; or the names of columns of the table `X`.
    grid : Grid
        The cells, m axes. For Dask arrays also a Delayed grid, such as ``Grid.scott`` returns for them.
    n_classes : int, optional
        Default: the largest id in either, plus one.
    n_parts : int, optional
        Return the counts partitioned by cell into this many parts, as by :meth:`CellCounts.deal`. For Dask arrays whose
        counts exceed the memory of one machine: chunks are partitioned before they are merged.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about points without a cell (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        Show progress, or call it with ``(done, total)`` points binned.

    Returns
    -------
    CellCounts, or with `n_parts` a list of them
        The counts; ``a + b`` are the counts of both sets of points.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or of wrong type; shapes that do not agree; ids that are not classes (the
        message gives their number and the first ones).
    OverflowError
        More cells and classes than 63-bit keys can distinguish.

    See Also
    --------
    gcm : geometric confusion matrices from these counts.

    Notes
    -----
    Bad values: a point with a coordinate that is NaN or infinite, or 2**53 cells or more away from the origin, has no
    cell. It is left out, counted in `n_dropped` and reported once, as `on_failure` says.
    Synchronises the device. Reproducible: same points, same bits, in any order, for any number of threads, and for any
    parts merged in any order. Memory: 8 bytes per point and at most 28 bytes per distinct triple while counting, 16 of
    which are kept. (If cells, labels and predictions need more than 63 bits, cells are ranked: slower, about 80 bytes
    per point.) For Dask arrays, which need `n_classes`, the result is a ``dask.delayed.Delayed`` of the merged counts
    of all chunks; with `n_parts`, a list of these.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.2 and appendix G.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0, 0.0], [1.0, 1.0])
    >>> cells = cmfast.cell_counts(
    ...     [[0.1, 0.2], [0.3, 0.9], [2.5, -0.5]],
    ...     [0, 0, 1],
    ...     [0, 0, 0],
    ...     grid=grid,
    ... )
    >>> cells.cells.tolist(), cells.counts.tolist()
    ([[0, 0], [2, -1]], [2, 1])
    """
    options: dict[str, Any] = {"on_failure": on_failure, "num_threads": num_threads, "progress": progress}
    if n_parts is not None:
        n_parts = _cell_partition.validate_n_parts(n_parts)
    if lazy.are_lazy(X, y_true, y_pred):
        arrays = {"X": X, "y_true": y_true, "y_pred": y_pred}
        merge = partial(merge_chunks, n_parts=n_parts)
        return merge_counted_chunks(cell_counts, merge, arrays, grid, n_parts, n_classes=n_classes, **options)
    cells = _binning.count(adopt_labelled_points(X, y_true, y_pred), grid, n_classes=n_classes, **options)
    return cells if n_parts is None else cells.deal(n_parts)


def merge_counted_chunks(
    count: Callable[..., Any], merge: Any, arrays: dict[str, Any], grid: Any, n_parts: int | None = None, **options: Any
) -> Any:
    """Return the Delayed merge of what `count` finds in the chunks of Dask arrays; of `n_parts` each, a list."""
    labels.check_known(n_classes=options["n_classes"])
    for name, dtype in labels.find_text({name: arrays[name] for name in labels.NAMES}).items():
        validate.refuse(name, "integers", f"dtype {dtype}", TypeError)
    known: dict[str, Any] = {}
    if lazy.is_delayed(grid):
        m = validate.points(X=arrays["X"])[1]
        known = {"grid": (grid, Grid(np.zeros(m), np.ones(m)))}
        arrays = lazy.dask().recompute_after(arrays, grid)
    else:
        options["grid"] = grid
    cores = {"X": 1, "y_true": 0, "y_pred": 0}
    if n_parts is None:
        return lazy.dask().merge_parts(count, merge, arrays, cores, known=known, **options)
    options["n_parts"] = n_parts
    return lazy.dask().merge_shards(count, merge, arrays, cores, n_parts, known=known, **options)


def merge_chunks(parts: list[CellCounts], n_parts: int | None = None) -> CellCounts:
    """Merge the counts of chunks; raise MemoryError that names `n_parts` if memory does not hold the result."""
    try:
        return CellCounts.merge(parts)
    except MemoryError:
        given = "n_parts= (it divides the cells among tasks)" if n_parts is None else f"more than n_parts={n_parts}"
        n = sum(map(len, parts))
        validate.fail(f"memory does not hold {n} counts while they are merged; give {given}", MemoryError)


@overload
def sparse_histogram(
    X: PointsT,
    *,
    grid: Grid,
    weights: PointsT | None = ...,
    groups: PointsT | None = ...,
    n_groups: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> SparseHistogram[PointsT]: ...
@overload
def sparse_histogram(
    X: ArrayLike,
    *,
    grid: Grid,
    weights: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> SparseHistogram[NDArray[Any]]: ...
@accept_point_table
@explain_options
def sparse_histogram(
    X: Array,
    *,
    grid: Grid,
    weights: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> SparseHistogram:
    """Sum weights per (cell, group): a histogram over the occupied cells only.

    Parameters
    ----------
    X : array, shape (N, m)
        Points; real numbers of any type.
    grid : Grid
        The cells, m axes.
    weights : array, shape (N,), optional
        Weight of each point; default 1.
    groups : array of int, shape (N,), optional
        Group of each point, ``0, ..., n_groups - 1``; default: all in group 0.
    n_groups : int, optional
        Default: the largest group plus one.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about points without a cell and invalid sums (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        Show progress, or call it with ``(done, total)`` points binned.

    Returns
    -------
    SparseHistogram
        ``cells``, ``groups`` and ``values``. Values are int64 without weights or with integer weights, float32 or
        float64 as float weights are.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or of wrong type; shapes that do not agree; groups outside.
    OverflowError
        A sum of integer weights that overflows int64; more cells and groups than 63-bit keys can distinguish.

    Notes
    -----
    Bad values: points without a cell (see :func:`cell_counts`) are left out, counted in `n_dropped` and reported once.
    A weight that is NaN or infinite (INVALID), or a sum that overflows (RANGE), makes only its own (cell, group) NaN
    and is reported as well.
    Synchronises the device. Reproducible: sums are exact integers, rounded once at the end (bits of a weight below
    2**-124 of the largest one are rounded off), so they do not depend on the order of the points or on threads. For
    Dask arrays the result is a ``dask.delayed.Delayed`` of the histogram, with the same bits for any chunking; float
    weights are read twice, because the largest one is needed first.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.2 and appendix D.1.

    Examples
    --------
    >>> import cmfast
    >>> h = cmfast.sparse_histogram(
    ...     [[0.1], [0.2], [7.0]],
    ...     grid=cmfast.Grid([0.0], [1.0]),
    ...     weights=[0.5, 0.25, 1.0],
    ... )
    >>> h.cells.tolist(), h.values.tolist()
    ([[0], [7]], [0.75, 1.0])
    """
    options: dict[str, Any] = {"on_failure": on_failure, "num_threads": num_threads, "progress": progress}
    if lazy.are_lazy(X, weights, groups):
        lazily: SparseHistogram = _dask_histogram.histogram(X, weights, groups, grid=grid, n_groups=n_groups, **options)
        return lazily
    found = _binning.sum_heights(adopt_weighted_points(X, weights, groups), grid=grid, n_groups=n_groups, **options)
    if found.status is not None:
        failures.report(found.status, on_failure, failed="values not computed")
    return SparseHistogram(grid, found.n_groups, found.values, found.n_dropped, found.keys, found.table, found.ranges)
