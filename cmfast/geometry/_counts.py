"""From points to counts: how many points have each cell, label and prediction, and the histogram of any groups."""

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, labels, lazy, validate
from cmfast._core.annotations import Array, OnFailure, PointsT, Progress
from cmfast._core.progress import reporter
from cmfast.geometry import _binning
from cmfast.geometry._cells import CellCounts, SparseHistogram
from cmfast.geometry._grid import Grid, as_grid
from cmfast.geometry._limits import MOST_GROUPS, overflow_of
from cmfast.kernels.shared.geometry_keys import Binned, Outside


@overload
def cell_counts(
    X: PointsT,
    y_true: PointsT,
    y_pred: PointsT,
    *,
    grid: Grid,
    n_classes: int | None = ...,
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
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> CellCounts[NDArray[Any]]: ...
def cell_counts(
    X: Array,
    y_true: Array,
    y_pred: Array,
    *,
    grid: Grid,
    n_classes: int | None = None,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
    progress: Progress = None,
) -> CellCounts:
    """Count how many points have each (cell, label, prediction).

    Parameters
    ----------
    X : array, shape (N, m)
        Points; real numbers of any type. Coordinates are taken in float64, which is exact up to 2**53.
    y_true, y_pred : array of int, shape (N,)
        Labels and predictions: class ids ``0, ..., n_classes - 1``.
    grid : Grid
        The cells, m axes. For Dask arrays also one that has yet to be computed, as ``Grid.scott`` of them is.
    n_classes : int, optional
        Default: the largest id in either, plus one.
    on_failure : {"warn", "raise", "ignore"}
        What to do about points without a cell (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.
    progress : bool or callable, optional
        Show progress, or call it with ``(done, total)`` points binned.

    Returns
    -------
    CellCounts
        Counts of one part of the points; ``a + b`` are those of both.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or of wrong type; shapes that do not agree; ids that are no class: how many,
        and the first of them.
    OverflowError
        More cells and classes than 63 bits can tell apart.

    See Also
    --------
    gcm : the geometric confusion matrices of these counts.

    Notes
    -----
    Bad values: a point with a coordinate that is NaN or infinite, or 2**53 cells or more away from the origin, has no
    cell. It is left out of everything, counted in `n_dropped` and reported once, as `on_failure` says.
    Synchronises the device. Reproducible: same points, same bits, in any order, for any number of threads, and for any
    parts merged in any order. Memory: 8 bytes per point and at most 28 per distinct triple at work, of which 16 are
    kept. (Where cells, labels and predictions need more than 63 bits, cells are ranked: slower, about 80 bytes per
    point.) Of Dask arrays, with `n_classes`, it is a ``dask.delayed.Delayed`` of the counts of all chunks, merged.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.2 and appendix G.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0, 0.0], [1.0, 1.0])
    >>> cells = cmfast.cell_counts([[0.1, 0.2], [0.3, 0.9], [2.5, -0.5]], [0, 0, 1], [0, 0, 0], grid=grid)
    >>> cells.cells.tolist(), cells.counts.tolist()
    ([[0, 0], [2, -1]], [2, 1])
    """
    options: dict[str, Any] = {"on_failure": on_failure, "num_threads": num_threads, "progress": progress}
    if lazy.are_lazy(X, y_true, y_pred):
        lazily: CellCounts = _of_chunks(
            {"X": X, "y_true": y_true, "y_pred": y_pred}, grid=grid, n_classes=n_classes, **options
        )
        return lazily
    return _binning.count(X, y_true, y_pred, grid, n_classes=n_classes, **options)


def _of_chunks(arrays: dict[str, Any], *, grid: Any, n_classes: Any, **options: Any) -> Any:
    """Return the lazy counts of Dask arrays, chunk by chunk."""
    labels.check_known(n_classes=n_classes)
    options |= {"n_classes": n_classes}
    cores = {"X": 1, "y_true": 0, "y_pred": 0}
    if not lazy.is_awaited(grid):
        return lazy.merged(cell_counts, CellCounts.merge, arrays, cores, grid=grid, **options)
    m = validate.points(X=arrays["X"])[1]
    known = {"grid": (grid, Grid(np.zeros(m), np.ones(m)))}
    return lazy.merged(cell_counts, CellCounts.merge, lazy.read_again(arrays, grid), cores, known=known, **options)


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
def sparse_histogram(
    X: Array,
    *,
    grid: Grid,
    weights: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
    progress: Progress = None,
) -> SparseHistogram:
    """Histogram over the occupied cells only, one per group.

    Parameters
    ----------
    X : array, shape (N, m)
        Points; real numbers of any type.
    grid : Grid
        The cells, m axes.
    weights : array, shape (N,), optional
        What each point adds; default 1.
    groups : array of int, shape (N,), optional
        Group of each point, ``0, ..., n_groups - 1``; default: all in group 0.
    n_groups : int, optional
        Default: the largest group plus one.
    on_failure : {"warn", "raise", "ignore"}
        What to do about points without a cell and sums without a value (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.
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
        A sum of integer weights that int64 cannot hold; more cells and groups than 63 bits can tell apart.

    Notes
    -----
    Bad values: points without a cell (see :func:`cell_counts`) are left out, counted in `n_dropped` and reported once.
    A weight that is NaN or infinite (INVALID), or a sum beyond the range of the values (RANGE), makes its own
    (cell, group) NaN and nothing else; that is reported as well.
    Synchronises the device. Reproducible: sums are exact integers, rounded once at the end (what a weight has below
    2**-124 of the largest one is rounded off), so they do not depend on the order of the points or on threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.2 and appendix D.1.

    Examples
    --------
    >>> import cmfast
    >>> h = cmfast.sparse_histogram([[0.1], [0.2], [7.0]], grid=cmfast.Grid([0.0], [1.0]), weights=[0.5, 0.25, 1.0])
    >>> h.cells.tolist(), h.values.tolist()
    ([[0], [7]], [0.75, 1.0])
    """
    validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    if n_groups is not None:
        n_groups = validate.count("n_groups", n_groups, most=None)
        if n_groups > MOST_GROUPS:
            validate.refuse("n_groups", "at most 2**62", n_groups, OverflowError)
        if groups is None:
            validate.refuse("n_groups", "None without groups", n_groups)
    X, weights, groups = dispatch.adopt(optional=("weights", "groups"), X=X, weights=weights, groups=groups)
    n, m = validate.points(X=X)
    validate.real(weights=weights)
    validate.integer(groups=groups)
    validate.per_point(n, weights=weights, groups=groups)
    grid = as_grid(grid, m)
    options: dict[str, Any] = {
        "origin": grid.origin,
        "inverse": grid.inverse,
        "n_groups": n_groups,
        "num_threads": num_threads,
    }
    options["progress"] = reporter(progress, "points")
    with overflow_of(f"grid and {'groups' if n_groups is None else 'n_groups'}"):
        keys, values, table, found, status, outside = dispatch.call("sparse_histogram", X, weights, groups, **options)
    if outside is not None:
        _binning.refuse_outside(Outside(*outside))
    binned = Binned(*found)
    _binning.report_dropped(binned.n_dropped, n, binned.first_dropped, on_failure)
    if status is not None:
        failures.report(status, on_failure, failed="values not computed")
    ranges = binned.low, binned.extent
    return SparseHistogram(grid, binned.n_classes, values, binned.n_dropped, keys, table, ranges)
