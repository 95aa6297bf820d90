"""Geometric confusion matrices: how the histograms of labels and predictions overlap in the space of the embeddings."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, reading, validate
from cmfast._core.annotations import Array, Empty, OnFailure, Progress, Smoothing
from cmfast._core.progress import reporter
from cmfast.geometry import _binning
from cmfast.geometry._accumulator import count_in_parts
from cmfast.geometry._cells import CellCounts, SparseHistogram
from cmfast.geometry._diagnostics import GcmDiagnostics, describe, warned
from cmfast.geometry._embedding import Weights, embedded, weighted
from cmfast.geometry._grid import Grid, as_grid
from cmfast.geometry._limits import MOST_CLASSES, MOST_GROUPS, overflow_of
from cmfast.geometry._weights import is_list, options_of_bi
from cmfast.kernels.shared.geometry_keys import Binned, Outside


@reading.readable
class GcmResult(NamedTuple):
    """Result of :func:`geometric_confusion_matrix`.

    Attributes
    ----------
    matrix : array of float64, shape (C, C), or (W, C, C) for a list of W weightings
        In units of the cell volume, as :func:`gcm` returns it.
    cells : CellCounts
        The counts, from which any other weighting follows without the points.
    diagnostics : GcmDiagnostics
        How much of the agreement with the normalised confusion matrix was certain beforehand. Print it.
    """

    matrix: Array
    cells: CellCounts
    diagnostics: GcmDiagnostics

    def _parts(self) -> dict[str, str]:
        return {"of": reading.shape(self.matrix), **self.diagnostics._parts()}

    def explain(self) -> str:
        """Say in words what the result is worth."""
        return self.diagnostics.explain()


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
        The cells, m axes.
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
    point.)

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
    return _binning.count(X, y_true, y_pred, grid, n_classes=n_classes, **options)


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


def gcm(
    cells: CellCounts,
    /,
    weights: Weights,
    *,
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Array:
    """Geometric confusion matrix: overlap of the weighted histograms of each label and each prediction.

    Parameters
    ----------
    cells : CellCounts
        The counts of the points.
    weights : {"all", "row", "col", "bi"}, array of shape (C, C), or a list of these
        Weight of a point by label and prediction: the weights of a normalisation of the confusion matrix
        (:func:`cmfast.importance_weights`), or any nonnegative table. A list is computed in one pass.
    smoothing, empty
        Of the weights ``"bi"``, which do not exist for every matrix with zeros; see :func:`cmfast.ipf`. Never implicit.
    on_failure : {"warn", "raise", "ignore"}
        What to do about weightings that have no answer (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array of float64, shape (C, C), or (W, C, C) for a list
        ``sum over cells v of min(L_i(v), P_j(v))``, where ``L_i(v)`` is the weight of the points of v with label i and
        ``P_j(v)`` that of the points with prediction j. In units of the cell volume, which cancels in every comparison
        and overflows in many dimensions; its logarithm is ``cells.grid.log_cell_volume``.

    Raises
    ------
    TypeError, ValueError
        Weights that are no name and no real (C, C) table.

    See Also
    --------
    geometric_confusion_matrix : from the points, with diagnostics.

    Notes
    -----
    Bad values: a weighting with a weight that is NaN, infinite or negative where there are points, or with sums beyond
    float64, gives NaN (INVALID) and is reported as `on_failure` says; others beside it are as always. Where there are
    no points the weight is not read. Weights ``"bi"`` that do not exist give NaN with the status and in the words of
    :func:`cmfast.bi_normalize`; where only the limit of a scaling exists they are those of that limit, which counts as
    success and warns, as there. Synchronises the device. Reproducible: weights are rounded to integers once and
    all sums are sums of integers, so the bits do not depend on threads, chunks or the order of the points. Elementwise,
    ``weights * M <= gcm``.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.3 and appendix G.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0], [1.0])
    >>> cells = cmfast.cell_counts([[0.5], [0.6], [3.0]], [0, 1, 1], [1, 0, 1], grid=grid)
    >>> cmfast.gcm(cells, [[1, 1], [1, 1]])
    array([[1., 1.],
           [1., 2.]])
    """
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    if not isinstance(cells, CellCounts):
        validate.refuse("cells", "CellCounts", type(cells).__name__, TypeError)
    out, _ = weighted(cells, weights, options_of_bi(smoothing, empty), on_failure, num_threads, bounded=False)
    return out[0] if is_list(weights) else out[0][0]


def diagnose(
    cells: CellCounts,
    /,
    weights: Weights = "bi",
    *,
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> GcmDiagnostics:
    """Return the diagnostics of a geometric confusion matrix from counts alone, without the points.

    Parameters
    ----------
    cells : CellCounts
        The counts of the points, as a stream or a file gave them.
    weights : {"all", "row", "col", "bi"}, array of shape (C, C), or a list of these
        As for :func:`gcm`.
    smoothing, empty
        Of the weights ``"bi"``; see :func:`cmfast.ipf`.
    rng : int or numpy.random.Generator
        Of the simulated null.
    on_failure : {"warn", "raise", "ignore"}
        What to do about weightings that have no answer.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    GcmDiagnostics
        Those that :func:`geometric_confusion_matrix` gives with these cells, bit by bit.

    Raises
    ------
    TypeError, ValueError
        `cells` that are none; weights that are no name and no real (C, C) table.

    Warns
    -----
    DiagnosticWarning
        The result says little about geometry, and why.

    Notes
    -----
    Bad values, synchronisation, reproducibility: as :func:`gcm`.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 5.4 and appendix D.1.

    Examples
    --------
    >>> import numpy as np
    >>> import cmfast
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 5000)
    >>> X = rng.normal(size=(5000, 2)) + y[:, None]
    >>> guess = np.where(rng.random(5000) < 0.8, y, rng.integers(0, 3, 5000))
    >>> cells = cmfast.cell_counts(X, y, guess, grid=cmfast.Grid.scott(X))
    >>> d = cmfast.diagnose(cells, "row")
    >>> d.overlap > d.null_overlap
    True
    """
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    if not isinstance(cells, CellCounts):
        validate.refuse("cells", "CellCounts", type(cells).__name__, TypeError)
    out, found = weighted(cells, weights, options_of_bi(smoothing, empty), on_failure, num_threads)
    return warned(describe(cells, found, out, generator, single=not is_list(weights)))


def min_overlap(a: SparseHistogram, b: SparseHistogram, /, *, on_failure: OnFailure = "warn") -> Array:
    """Overlap of every histogram of `a` with every histogram of `b`.

    Parameters
    ----------
    a, b : SparseHistogram
        On equal grids, with nonnegative values.
    on_failure : {"warn", "raise", "ignore"}
        What to do about groups that have no answer (see Notes).

    Returns
    -------
    array, shape (groups of a, groups of b)
        ``sum over cells of min(a, b)``: int64 if both are counts, else float64. In units of the cell volume.

    Raises
    ------
    TypeError, ValueError
        Not two histograms, or not of equal grids; negative integer values.
    OverflowError
        Counts whose sum int64 cannot hold.

    Notes
    -----
    Bad values: a group with a value that is NaN, infinite or negative (INVALID) gives NaN with every other group, as
    does an overlap beyond float64 (RANGE) for its two, and that is reported as `on_failure` says. Synchronises the
    device. Reproducible: exact for counts, else summed with compensation in the order of the cells.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.3 and appendix G.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0], [1.0])
    >>> h = cmfast.sparse_histogram([[0.5], [0.6], [0.7], [5.0]], grid=grid, groups=[0, 0, 1, 1])
    >>> cmfast.min_overlap(h, h)
    array([[2, 1],
           [1, 2]])
    """
    validate.on_failure(on_failure)
    for name, h in (("a", a), ("b", b)):
        if not isinstance(h, SparseHistogram):
            validate.refuse(name, "a SparseHistogram", type(h).__name__, TypeError)
    if a.grid != b.grid:
        validate.refuse("b", f"on the grid of a, {a.grid}", b.grid)
    first = {"a": a._keys, "values_a": a.values, "table_a": a._table}
    second = {"b": b._keys, "values_b": b.values, "table_b": b._table}
    adopted = dispatch.adopt(optional=("table_a", "table_b"), **first, **second)
    options = {"ranges_a": a._ranges, "ranges_b": b._ranges, "n_groups": (a.n_groups, b.n_groups)}
    too_many = f"no memory for the overlaps of a, {a.n_groups} groups, with b, {b.n_groups} groups"
    if a.n_groups * b.n_groups >= MOST_CLASSES**2:  # NumPy has other words for what cannot be addressed
        validate.fail(too_many, MemoryError)
    try:
        matrix, status = dispatch.call("min_overlap", *adopted, **options)
    except MemoryError:
        validate.fail(too_many, MemoryError)
    if dispatch.dtype_of(matrix).kind == "i":
        if dispatch.to_host(status).any():
            validate.refuse("values", "nonnegative", "negative integers")
    else:
        failures.report(status, on_failure, failed="overlaps not computed")
    return matrix


def geometric_confusion_matrix(
    X: Array,
    y_true: Array,
    y_pred: Array,
    *,
    weights: Weights = "bi",
    n_components: int | None = 10,
    grid: Grid | str = "scott",
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    n_classes: int | None = None,
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
    progress: Progress = None,
) -> GcmResult:
    """Geometric confusion matrix of embedded points, with what it takes to read it.

    Parameters
    ----------
    X : array, shape (N, n)
        Embeddings of the points; real numbers of any type.
    y_true, y_pred : array of int, shape (N,)
        Labels and predictions: class ids ``0, ..., n_classes - 1``.
    weights : {"all", "row", "col", "bi"}, array of shape (C, C), or a list of these
        Weight of a point by label and prediction; see :func:`gcm`.
    n_components : int or None
        Principal axes to project to; fewer where `X` has fewer columns or its points span fewer dimensions. None:
        `X` is taken as it is.
        Axes whose variance is below ``16 eps n`` of the largest, for n columns, are rounding: with a rule for the
        widths they are left out. The axes are those of :func:`pca`, with products in float32 where that is enough; for
        others give ``pca(X, precision="float64").transform(X)``, and None.
    grid : {"scott", "freedman_diaconis"} or Grid
        Rule for the widths of the cells, from all points; or the cells themselves.
    smoothing, empty
        Of the weights ``"bi"``; see :func:`cmfast.ipf`.
    n_classes : int, optional
        Default: the largest id in either, plus one.
    rng : int or numpy.random.Generator
        Of the simulated null in the diagnostics.
    on_failure : {"warn", "raise", "ignore"}
        What to do about points that are not finite, and weightings that have no answer.
    num_threads : int, optional
        Most threads to use; default: what the process may use. Principal axes take those of the linear algebra library.
    progress : bool or callable, optional
        Show progress, or call it with ``(done, total)`` points binned.

    Returns
    -------
    GcmResult
        ``matrix``, ``cells``, ``diagnostics``.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or of wrong type; shapes that do not agree; ids that are no class; no finite
        point.

    Warns
    -----
    DiagnosticWarning
        The result says little about geometry, and why; see :class:`GcmDiagnostics`.

    See Also
    --------
    cell_counts, gcm : the two steps, for points in parts.

    Notes
    -----
    A cell with one label or one prediction adds exactly what it adds to the normalised confusion matrix. With ten axes
    most cells are such, and the two matrices agree whatever the geometry is. Always read ``diagnostics.overlap``
    beside ``diagnostics.guaranteed`` and ``diagnostics.null_overlap``. Two to five axes, or ``Grid.occupancy``, give
    cells that hold enough points to be evidence.

    Bad values: points that are not finite are left out of everything and reported once. A weighting without an answer
    gives NaN, see :func:`gcm`; that is found out, and reported, before any work on `X`. Synchronises the device.
    Reproducible: same input, same bits, for any number of threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, sections 4.2, 4.3 and appendices D.1, G.

    Examples
    --------
    >>> import numpy as np
    >>> import cmfast
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 2000)
    >>> X = rng.normal(size=(2000, 2)) + y[:, None]
    >>> guess = np.clip(np.rint(X.mean(axis=1)), 0, 2).astype(int)
    >>> result = cmfast.geometric_confusion_matrix(X, y, guess, weights="row")
    >>> result.matrix.shape, result.diagnostics.n_cells > 100
    ((3, 3), True)
    """
    validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    if n_classes is not None:
        n_classes = _binning.checked_classes(n_classes)
    bi = options_of_bi(smoothing, empty)
    common: dict[str, Any] = {"n_classes": n_classes, "num_threads": num_threads}
    asked: dict[str, Any] = {"weights": weights, "bi": bi, "on_failure": on_failure}
    points = embedded(X, y_true, y_pred, n_components, grid, **asked, **common)
    cells = count_in_parts(points.X, points.y_true, points.y_pred, points.grid, progress=progress, **common)
    _binning.report_dropped(cells.n_dropped, cells.n_points + cells.n_dropped, (), on_failure)
    out, found = weighted(cells, weights, bi, on_failure, num_threads, known=points.weightings)
    diagnostics = warned(describe(cells, found, out, generator, single=not is_list(weights)))
    return GcmResult(out[0] if is_list(weights) else out[0][0], cells, diagnostics)
