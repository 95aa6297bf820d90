"""Geometric confusion matrices, their diagnostics and overlaps of histograms, from cell counts."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from cmfast._core import dispatch, failures, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT, Empty, OnFailure, Smoothing
from cmfast._core.usual_options import explain_options
from cmfast.geometry import _gcm_of_partition
from cmfast.geometry._cells import CellCounts, SparseHistogram
from cmfast.geometry._diagnostics import GcmDiagnostics, compute_shapes, make_diagnostics, warn_if_uninformative
from cmfast.geometry._limits import MOST_MATRIX_CLASSES
from cmfast.geometry._prepare_points import Weights, compute_gcm
from cmfast.geometry._weights import is_list, validate_bi_options


@overload
def gcm(
    cells: CellCounts[ArrayT],
    /,
    weights: Weights,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> ArrayT: ...
@overload
def gcm(
    cells: Sequence[CellCounts[ArrayT]],
    /,
    weights: Weights,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> ArrayT: ...
@explain_options
def gcm(
    cells: CellCounts | Sequence[CellCounts],
    /,
    weights: Weights,
    *,
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute the geometric confusion matrix: overlap of the weighted histograms of each label and each prediction.

    Parameters
    ----------
    cells : CellCounts, or a list of them
        The counts of the points; or all parts of their partition by :meth:`CellCounts.deal`, in order.
    weights : {"all", "row", "col", "bi"}, array of shape (C, C), or a list of these
        Weight of a point by label and prediction: the weights of a normalisation of the confusion matrix
        (:func:`cmfast.importance_weights`), or any nonnegative table. A list is computed in one pass.
    smoothing, empty
        Options of the weights ``"bi"``, which may not exist for a matrix with zeros; see :func:`cmfast.ipf`. Never
        implicit.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about weightings that do not exist (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array of float64, shape (C, C), or (W, C, C) for a list
        ``sum over cells v of min(L_i(v), P_j(v))``, where ``L_i(v)`` is the weight of the points of v with label i and
        ``P_j(v)`` that of the points with prediction j. In units of the cell volume, which cancels in every comparison
        and overflows in many dimensions; its logarithm is ``cells.grid.log_cell_volume``.

    Raises
    ------
    TypeError, ValueError
        Weights that are neither a name nor a real (C, C) table; parts of different grids, or parts in the wrong order,
        as far as a sample of their cells shows.

    See Also
    --------
    geometric_confusion_matrix : the same from points, with diagnostics.

    Notes
    -----
    Bad values: a weighting with a NaN, infinite or negative weight at a nonzero count, or with sums that overflow
    float64, gives NaN (INVALID) and is reported as `on_failure` says; other weightings of the list are unaffected.
    Weights at zero counts are not read. Weights ``"bi"`` that do not exist give NaN with the status and message of
    :func:`cmfast.bi_normalize`; if only the limit of a scaling exists, the weights are those of the limit, with a
    warning. Synchronises the device. Reproducible: weights are rounded to integers once and all sums are sums of
    integers, so the bits do not depend on threads, chunks or the order of the points. Elementwise, ``weights * M <=
    gcm``. For Delayed counts of Dask the result is a ``dask.delayed.Delayed`` of the matrix; for a Delayed partition
    there is one task per part, and only matrices are exchanged.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.3 and appendix G.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0], [1.0])
    >>> cells = cmfast.cell_counts(
    ...     [[0.5], [0.6], [3.0]], [0, 1, 1], [1, 0, 1], grid=grid
    ... )
    >>> cmfast.gcm(cells, [[1, 1], [1, 1]])
    array([[1., 1.],
           [1., 2.]])
    """
    bi = validate_bi_options(smoothing, empty)
    if isinstance(cells, list | tuple):
        on_failure = validate.on_failure(on_failure)
        return _gcm_of_partition.gcm(list(cells), weights, bi, on_failure, validate.num_threads(num_threads))
    return _compute_matrices(cells, weights, bi, on_failure, num_threads)


@lazy.accept_delayed
def _compute_matrices(
    cells: Any, weights: Any, bi: dict[str, Any], on_failure: OnFailure, num_threads: int | None
) -> Any:
    """Return the GCM of counts, computed or Delayed: one matrix, or a stack for a list of weightings."""
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    if not isinstance(cells, CellCounts):
        validate.refuse("cells", "CellCounts", type(cells).__name__, TypeError)
    out, _ = compute_gcm(cells, weights, bi, on_failure, num_threads, bounded=False)
    return out[0] if is_list(weights) else out[0][0, ...]


@explain_options
def diagnose(
    cells: CellCounts | list[CellCounts],
    /,
    weights: Weights = "bi",
    *,
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> GcmDiagnostics:
    """Compute the diagnostics of a geometric confusion matrix from counts alone, without the points.

    Parameters
    ----------
    cells : CellCounts, or list of CellCounts
        The counts of the points, for example from a stream or a file; or all parts of a partition, as for :func:`gcm`.
    weights : {"all", "row", "col", "bi"}, array of shape (C, C), or a list of these
        As for :func:`gcm`.
    smoothing, empty
        Of the weights ``"bi"``; see :func:`cmfast.ipf`.
    rng : int or numpy.random.Generator
        Seed or generator of the simulated null.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about weightings that do not exist.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    GcmDiagnostics
        The same as :func:`geometric_confusion_matrix` gives with these cells, bit for bit.

    Raises
    ------
    TypeError, ValueError
        `cells` that are not CellCounts; weights that are neither a name nor a real (C, C) table.

    Warns
    -----
    DiagnosticWarning
        The result says little about geometry; the message says why.

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
    bi = validate_bi_options(smoothing, empty)
    if isinstance(cells, list | tuple):
        on_failure = validate.on_failure(on_failure)
        validate.generator(rng)
        lazily: GcmDiagnostics = _gcm_of_partition.diagnose(
            list(cells), weights, bi, rng, on_failure, validate.num_threads(num_threads)
        )
        return lazily
    return _diagnose(cells, weights, bi, rng, on_failure, num_threads)


@lazy.accept_delayed
def _diagnose(
    cells: Any, weights: Any, bi: dict[str, Any], rng: Any, on_failure: OnFailure, num_threads: int | None
) -> GcmDiagnostics:
    """Return the diagnostics of counts, computed or Delayed."""
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    if not isinstance(cells, CellCounts):
        validate.refuse("cells", "CellCounts", type(cells).__name__, TypeError)
    out, found = compute_gcm(cells, weights, bi, on_failure, num_threads)
    return warn_if_uninformative(
        make_diagnostics(compute_shapes(cells), found, out, generator, single=not is_list(weights))
    )


@lazy.accept_delayed
def min_overlap(a: SparseHistogram[ArrayT], b: SparseHistogram[ArrayT], /, *, on_failure: OnFailure = None) -> ArrayT:
    """Compute the overlap of every histogram of `a` with every histogram of `b`.

    Parameters
    ----------
    a, b : SparseHistogram
        On equal grids, with nonnegative values.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about groups without a valid overlap (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".

    Returns
    -------
    array, shape (groups of a, groups of b)
        ``sum over cells of min(a, b)``: int64 if both are counts, else float64. In units of the cell volume.

    Raises
    ------
    TypeError, ValueError
        Not two histograms, or histograms on different grids; negative integer values.
    OverflowError
        Counts whose sum overflows int64.

    Notes
    -----
    Bad values: a group with a NaN, infinite or negative value (INVALID) gives NaN with every other group; an overlap
    that overflows float64 (RANGE) is NaN for its pair. Both are reported as `on_failure` says. Synchronises the device.
    Reproducible: exact for counts, else by compensated summation in the order of the cells.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.3 and appendix G.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0], [1.0])
    >>> h = cmfast.sparse_histogram(
    ...     [[0.5], [0.6], [0.7], [5.0]], grid=grid, groups=[0, 0, 1, 1]
    ... )
    >>> cmfast.min_overlap(h, h)
    array([[2, 1],
           [1, 2]])
    """
    on_failure = validate.on_failure(on_failure)
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
    if a.n_groups * b.n_groups >= MOST_MATRIX_CLASSES**2:  # beyond the address space NumPy's error differs
        validate.fail(too_many, MemoryError)
    try:
        found = dispatch.call("min_overlap", *adopted, **options)
    except MemoryError:
        validate.fail(too_many, MemoryError)
    matrix: ArrayT = found[0]
    if adapter(matrix).dtype(matrix).kind == "i":
        if adapter(found[1]).to_host(found[1]).any():
            validate.refuse("values", "nonnegative", "negative integers")
    else:
        failures.report(found[1], on_failure, failed="overlaps not computed")
    return matrix
