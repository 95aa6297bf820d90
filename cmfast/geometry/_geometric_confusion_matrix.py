"""Geometric confusion matrix (GCM) with its diagnostics, from embedded points in one call."""

from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import axis_names, labels, lazy, result_frames, result_repr, validate
from cmfast._core.annotations import Array, ArrayT, Empty, OnFailure, PointsT, Progress, Smoothing
from cmfast._core.usual_options import explain_options
from cmfast.counting import confusion_matrix
from cmfast.geometry import _binning
from cmfast.geometry._cell_accumulator import count_in_parts
from cmfast.geometry._cell_counts import cell_counts, merge_chunks, merge_counted_chunks
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._diagnostics import GcmDiagnostics, compute_shapes, make_diagnostics, warn_if_uninformative
from cmfast.geometry._grid import Grid
from cmfast.geometry._point_tables import accept_point_table
from cmfast.geometry._points import adopt_named_points, refuse_swapped_points
from cmfast.geometry._prepare_points import RULES, Rule, Weights, compute_gcm, count_no_points, prepare_points
from cmfast.geometry._weights import (
    Weighting,
    get_statuses,
    is_list,
    make_weightings,
    report_weightings,
    validate_bi_options,
)
from cmfast.kernels.loading import load


@result_repr.add_repr
class GcmResult(NamedTuple, Generic[ArrayT]):
    """Result of :func:`geometric_confusion_matrix`.

    Attributes
    ----------
    matrix : array of float64, shape (C, C), or (W, C, C) for a list of W weightings
        The GCM in units of the cell volume, as returned by :func:`gcm`.
    cells : CellCounts
        The counts, from which any other weighting can be computed without the points; empty if no weighting exists,
        because no work is done then.
    diagnostics : GcmDiagnostics
        How much of the agreement with the normalised confusion matrix was guaranteed beforehand. Print it.
    """

    matrix: ArrayT
    cells: CellCounts[ArrayT]
    diagnostics: GcmDiagnostics

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The labels of the "class" axes; {} if labels were class ids."""
        return axis_names.get_axes(self)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"of": result_repr.format_shape(self.matrix), **self.diagnostics._parts()}

    def explain(self) -> str:
        """Return the verdict of the diagnostics."""
        return self.diagnostics.explain()

    def to_pandas(self) -> Any:
        """Return the matrices as a pandas DataFrame."""
        return result_frames.make_matrix_frame(self.matrix, self.axes.get("class"))

    def plot(self) -> Any:
        """Draw the first matrix and the overlaps, in a new figure.

        Returns
        -------
        cmfast.display.GcmDisplay
            The display, drawn. The figure is not shown.
        """
        return load("cmfast.display").GcmDisplay.from_result(self).plot()


@overload
def geometric_confusion_matrix(
    X: PointsT,
    y_true: PointsT,
    y_pred: PointsT,
    *,
    weights: Weights = ...,
    n_components: int | None = ...,
    grid: Grid | Rule = ...,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    n_classes: int | None = ...,
    rng: "int | np.random.Generator" = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> GcmResult[PointsT]: ...
@overload
def geometric_confusion_matrix(
    X: ArrayLike,
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    weights: Weights = ...,
    n_components: int | None = ...,
    grid: Grid | Rule = ...,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    n_classes: int | None = ...,
    rng: "int | np.random.Generator" = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> GcmResult[NDArray[Any]]: ...
@accept_point_table
@explain_options
def geometric_confusion_matrix(
    X: Array,
    y_true: Array,
    y_pred: Array = None,
    *,
    weights: Weights = "bi",
    n_components: int | None = 10,
    grid: Grid | Rule = "scott",
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    n_classes: int | None = None,
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> GcmResult:
    """Compute the geometric confusion matrix of embedded points, with diagnostics.

    Parameters
    ----------
    X : array, shape (N, n), or table
        Embeddings of the points; real numbers of any type. Of a table with names of columns for `y_true` and `y_pred`
        all other columns.
    y_true, y_pred : array of int or str, shape (N,)
        Labels and predictions: class ids ``0, ..., n_classes - 1``; or text, whose classes are the labels that occur,
        sorted, or in the order of a categorical. The result knows the names. Or the names of columns of the table `X`.
    weights : {"all", "row", "col", "bi"}, array of shape (C, C), or a list of these
        Weight of a point by label and prediction; see :func:`gcm`.
    n_components : int or None
        Number of principal axes to project to; fewer if `X` has fewer columns or its points span fewer dimensions.
        None: use `X` unchanged. Axes whose variance is below ``16 eps n`` of the largest, for n columns, are rounding
        noise: a width rule leaves them out. The axes are those of ``pca(X)``; for other axes pass ``pca(X,
        precision="float64").transform(X)`` as `X`, and None here.
    grid : {"scott", "freedman_diaconis"} or Grid
        Rule for the widths of the cells, applied to all points; or the grid itself.
    smoothing, empty
        Options of the weights ``"bi"``; see :func:`cmfast.ipf`.
    n_classes : int, optional
        Default: the largest id in either, plus one.
    rng : int or numpy.random.Generator
        Seed or generator of the simulated null in the diagnostics.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about points that are not finite, and weightings that do not exist.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
        Principal axes use the linear algebra library's threads.
    progress : bool or callable, optional
        Show progress, or call it with ``(done, total)`` points binned.

    Returns
    -------
    GcmResult
        ``matrix``, ``cells``, ``diagnostics``.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or of wrong type; shapes that do not agree; ids that are not classes; no
        finite point.

    Warns
    -----
    DiagnosticWarning
        The result says little about geometry; the message says why. See :class:`GcmDiagnostics`.

    See Also
    --------
    cell_counts, gcm : the two steps, for points in parts.

    Notes
    -----
    A cell with one label or one prediction contributes the same to both matrices. With ten axes most cells are such
    cells, and the two matrices agree for any geometry. Always compare ``diagnostics.overlap`` with
    ``diagnostics.guaranteed`` and ``diagnostics.null_overlap``. Two to five axes, or ``Grid.occupancy``, give cells
    with enough points to be evidence.

    Bad values: points that are not finite are left out and reported once, with the columns of a table that have missing
    values. A weighting that does not exist gives NaN,
    see :func:`gcm`; this is checked and reported before any work on `X`, which is skipped if no weighting exists: for
    the cells alone see :func:`cell_counts`. Synchronises the device. Reproducible: same input, same bits, for any
    number of threads. For Dask arrays, which need `n_classes`, ``n_components=None`` and the rule "scott" or a grid,
    the result is a ``dask.delayed.Delayed``.

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
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    if n_classes is not None:
        n_classes = _binning.validate_n_classes(n_classes)
    bi = validate_bi_options(smoothing, empty)
    common: dict[str, Any] = {"n_classes": n_classes, "num_threads": num_threads}
    asked: dict[str, Any] = {"weights": weights, "bi": bi, "on_failure": on_failure}
    if y_pred is None:
        wanted = "the predicted class of each point: the matrix compares true and predicted classes in space"
        validate.refuse("y_pred", wanted, "nothing", TypeError)
    if lazy.are_lazy(X, y_true, y_pred):
        arrays = {"X": X, "y_true": y_true, "y_pred": y_pred}
        lazily: GcmResult = _delay_result(
            arrays, n_components=n_components, grid=grid, rng=rng, progress=progress, **asked, **common
        )
        return lazily
    refuse_swapped_points(X, y_true, y_pred)
    points, common["n_classes"], names = adopt_named_points(X, y_true, y_pred, n_classes)
    found = prepare_points(points, n_components, grid, **asked, **common)
    common["n_classes"] = found.n_classes
    cells = count_in_parts(found.points, found.grid, progress=progress, **common)
    result = _make_result(cells, found.weightings, generator, num_threads=num_threads, **asked)
    return result if names is None else axis_names.name_axes(result, {"class": names})


def _make_result(
    cells: CellCounts,
    known: list[Weighting],
    generator: "np.random.Generator",
    *,
    weights: Any,
    bi: dict[str, Any],
    on_failure: OnFailure,
    num_threads: int | None,
) -> GcmResult:
    """Compute the GCM and its diagnostics from cell counts, and report dropped points."""
    if cells.n_dropped:  # reading n_points waits for the device
        _binning.report_dropped(cells.n_dropped, cells.n_points + cells.n_dropped, (), on_failure)
    out, found = compute_gcm(cells, weights, bi, on_failure, num_threads, known=known)
    diagnostics = warn_if_uninformative(
        make_diagnostics(compute_shapes(cells), found, out, generator, single=not is_list(weights))
    )
    return GcmResult(out[0] if is_list(weights) else out[0][0, ...], cells, diagnostics)


def _delay_result(
    arrays: dict[str, Any],
    *,
    n_components: int | None,
    grid: Any,
    rng: Any,
    progress: Progress,
    n_classes: int | None,
    num_threads: int | None,
    **asked: Any,
) -> Any:
    """Return the Delayed result of Dask arrays: chunks are counted in tasks, everything else is one final task."""
    labels.check_known(n_classes=n_classes)
    if n_components is not None:
        wanted = "None with Dask arrays, whose points are taken as they are; for their axes there is "
        validate.refuse("n_components", wanted + 'cmfast.pca(X, precision="exact").transform(X)', n_components)
    quiet: dict[str, Any] = {"on_failure": "ignore", "num_threads": num_threads}
    given = isinstance(grid, Grid) or lazy.is_delayed(grid)
    if not given:
        validate.choice("grid", grid, RULES, "a cmfast.Grid or ")
    cells_of = grid if given else getattr(Grid, str(grid))(arrays["X"], **quiet)
    options = {"n_classes": n_classes, "progress": progress, **quiet}
    found = merge_counted_chunks(_count_chunk, _merge_chunks, arrays, cells_of, **options)
    asked |= {"num_threads": num_threads}
    return lazy.dask().call_delayed(_finish_chunks, found, rng, has_grid=given, **asked)


def _count_chunk(
    X: Array, y_true: Array, y_pred: Array, *, n_classes: int, num_threads: int | None, **options: Any
) -> tuple[CellCounts, Array]:
    """Return the cell counts and the confusion matrix of one chunk of points."""
    common: dict[str, Any] = {"n_classes": n_classes, "num_threads": num_threads}
    return cell_counts(X, y_true, y_pred, **common, **options), confusion_matrix(y_true, y_pred, **common)


def _merge_chunks(parts: list[tuple[CellCounts, Array]]) -> tuple[CellCounts, Array]:
    """Merge the cell counts and add up the confusion matrices of chunks."""
    cells, matrices = zip(*parts, strict=True)
    return merge_chunks(list(cells)), lazy.dask().add_arrays(matrices)


def _finish_chunks(found: tuple[CellCounts, Array], rng: Any, **options: Any) -> GcmResult:
    """Return the result from the merged counts of all chunks."""
    return finish_lazy_result(*found, rng, **options)


def finish_lazy_result(cells: CellCounts, M: Any, rng: Any, *, has_grid: bool, **asked: Any) -> GcmResult:
    """Return the result from the counts and from `M`, the confusion matrix of all points, dropped ones included."""
    generator = validate.generator(rng)
    known = make_weightings(M, asked["weights"], asked["bi"])
    report_weightings(known, get_statuses(known), asked["on_failure"])
    if not any(w.status.ok for w in known) and not cells.n_dropped:
        cells = count_no_points(cells, cells.grid if has_grid else None)
    return _make_result(cells, known, generator, **asked)
