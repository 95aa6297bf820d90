"""Scale sparse tables, given as lists of cells or as data frames, to margins over any of their axes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, frames, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, DeviceT, OnFailure, Progress
from cmfast._core.usual_options import explain_options
from cmfast.margins import _explain_failure, _long_tables, _table_views
from cmfast.margins._ipf_tables import Axes, build_result
from cmfast.margins._labels import AxisLabels
from cmfast.margins._margin_lists import MOST_AXES, split_margins
from cmfast.margins._options import validate_table_options
from cmfast.margins._result import MarginsResult

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

MarginTable: TypeAlias = "pd.DataFrame | pd.Series[Any] | pl.DataFrame | pa.Table"
Margins: TypeAlias = "Sequence[tuple[Axes, ArrayLike]] | Sequence[MarginTable] | Mapping[Any, Any]"
MOST_KEYS = 2**62
ARGUMENTS = _long_tables.Arguments("values", "coords", "margins")


@overload
def ipf_cells(
    values: DeviceT,
    /,
    coords: DeviceT,
    margins: Sequence[tuple[Axes, DeviceT]],
    *,
    shape: Sequence[int] | None = ...,
    importance: ArrayLike | None = ...,
    smoothing: float | None = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> MarginsResult[DeviceT]: ...
@overload
def ipf_cells(
    values: str | ArrayLike,
    /,
    coords: "ArrayLike | pd.DataFrame | pd.Index[Any] | pl.DataFrame | pa.Table",
    margins: "Margins",
    *,
    shape: Sequence[int] | None = ...,
    importance: ArrayLike | None = ...,
    smoothing: float | None = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> MarginsResult[NDArray[Any]]: ...
@explain_options
def ipf_cells(
    values: Any,
    /,
    coords: Any,
    margins: Any,
    *,
    shape: Sequence[int] | None = None,
    importance: ArrayLike | None = None,
    smoothing: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> MarginsResult[Any]:
    """Scale sparse tables, given as lists of cells, to margins over any axes (iterative proportional fitting).

    Does what :func:`ipf_nd` does, for sparse tables of any number of axes, or data frames with one row per cell. Time
    and memory are proportional to the listed cells and the entries of the margins. All other cells are zero.

    Parameters
    ----------
    values : array, shape (..., n), or str
        The cells, nonnegative; or the name of their column in `coords`.
    coords : array of int, shape (d, n), or table
        Index of each cell on each axis, from 0; all distinct, and shared by the batch. Or a DataFrame of pandas or
        polars, a LazyFrame, or a Table or stream of Arrow: its columns are the axes, except the column of values, and
        float columns that no margin names. Or the named index of a Series of values, as ``ipf_cells(s, s.index, ...)``.
    margins : list of (axes, target), or of tables or Series, or dict
        Target margins, as for :func:`ipf_nd`. Or tables: columns named as in `coords` and one column of targets, with a
        row for each combination of categories in `coords`, NaN for no constraint; further rows are margin entries
        without cells. A table with targets alone is the total. A Series of pandas has categories as its index, named as
        in `coords`. A dict ``{column: totals}`` as for :func:`rake`.
    shape : sequence of int, optional
        The sizes of the axes; default: those of the targets, or one more than the highest index. None with tables.
    importance : positive float, or sequence of them, optional
        Penalty weight of each margin as a soft constraint; infinite (the default): the margin must be met.
    smoothing : positive float, optional
        A number to add to every listed cell, in the unit of `values`. Never implicit.
    tol : float
        Absolute bound of `MarginsResult.residual`.
    max_iter : int, optional
        Most passes over the cells; default: 200 Newton steps. The initial sweeps are always finished.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about tables that cannot be scaled (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in tables.

    Returns
    -------
    MarginsResult
        In the library of `values`; NumPy for tables. `table` has shape (..., n), in the order of the cells. With tables
        `factors` and `achieved` have one value per row of the margins.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; indices beyond an axis; cells that
        are listed twice; a missing column, or missing values; cells without a row in a tidy margin; a wrong option.

    See Also
    --------
    ipf_nd : Tables with all of their cells.
    rake : Weights of survey respondents.

    Notes
    -----
    Bad values: as :func:`ipf_nd`, with the same codes; messages name the categories of data frames. Synchronises
    the device, because indices are checked on the host. Reproducible: same input, same bits, for any `num_threads` and
    neighbours in the batch; on the CPU, with more than 64 margin entries besides those of the largest margin, given the
    same linear algebra library and number of threads. Another order of the cells changes the rounding.

    Examples
    --------
    Four cells of a table of two by three, the others zero:

    >>> import cmfast
    >>> coords = [[0, 0, 1, 1], [0, 1, 1, 2]]
    >>> result = cmfast.ipf_cells(
    ...     [1.0, 2.0, 1.0, 1.0],
    ...     coords,
    ...     [(0, [5.0, 5.0]), (1, [2.0, 5.0, 3.0])],
    ... )
    >>> result.table.round(6)
    array([2., 3., 2., 3.])

    Persons by age and income, with new totals of both:

    >>> import pandas as pd
    >>> old = pd.DataFrame(
    ...     {
    ...         "age": ["young", "young", "old"],
    ...         "income": ["low", "high", "low"],
    ...         "persons": [4, 2, 3],
    ...     }
    ... )
    >>> ages = pd.DataFrame({"age": ["old", "young"], "persons": [2, 8]})
    >>> incomes = pd.DataFrame({"income": ["low", "high"], "persons": [7, 3]})
    >>> result = cmfast.ipf_cells("persons", old, [ages, incomes])
    >>> (
    ...     result.table.round(6),
    ...     [sums.round(6).tolist() for sums in result.achieved],
    ... )
    (array([5., 3., 2.]), [[2.0, 8.0], [7.0, 3.0]])
    """
    values, coords = frames.read_index(values, coords)
    long, coords = None, frames.collect_table(coords)
    if frames.is_table(coords):
        if shape is not None:
            validate.refuse("shape", "None if coords is a table", validate.format_value(shape))
        long = _long_tables.read_long_table(values, coords, frames.collect_tables(margins), ARGUMENTS)
        values, coords, margins, shape = long.values, long.coords, long.margins, long.shape
    axes, targets = split_margins("margins", "axes", margins, MOST_AXES)
    options = validate_table_options(
        len(axes),
        importance=importance,
        smoothing=smoothing,
        tol=tol,
        max_iter=max_iter,
        on_failure=on_failure,
        num_threads=num_threads,
        progress=progress,
    )
    named = None if long is not None else _table_views.read_names(None, axes, targets)
    names = [f"target of margins[{k}]" for k in range(len(axes))]
    values, coords, *targets = dispatch.adopt(values=values, coords=coords, **dict(zip(names, targets, strict=True)))
    batch, sizes = _check_shapes(values, coords, dict(zip(names, targets, strict=True)), axes, shape)
    words = AxisLabels() if long is None else long.words
    _check_coordinates(adapter(coords).to_host(coords), sizes, words)
    out = dispatch.call("ipf_cells", values, coords, *targets, axes=axes, shape=sizes, **options)
    problem = _explain_failure.TableProblem(
        "values", values, coords, targets, axes, 1, batch, options["importance"], options["smoothing"], words
    )
    result = build_result(out, problem, on_failure)
    if long is None:
        return _table_views.name_cells(result, named, coords, sizes)
    of_table = _table_views.TableNames(words.columns, words.labels, axes, long.coords)
    result = result._replace(factors=long.select_rows(result.factors), achieved=long.select_rows(result.achieved))
    return _table_views.name_table(result, of_table)


def _check_shapes(
    values: Array, coords: Array, targets: dict[str, Array], axes: tuple[tuple[int, ...], ...], shape: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Check that shapes agree; return the shape of the batch and of a table."""
    validate.real(values=values, **targets)
    validate.integer(coords=coords)
    given = dispatch.shape_of(coords)
    if len(given) != 2 or not 0 < given[0] <= MOST_AXES:
        validate.refuse("coords", f"of shape (axes, n) with 1 to {MOST_AXES} axes", f"shape {given}")
    ndim, n = given
    batches = {"values": validate.vectors("values", values, n)}
    sizes = {} if shape is None else dict(enumerate(_validate_shape(shape, ndim)))
    for (name, target), of in zip(targets.items(), axes, strict=True):
        of_target = dispatch.shape_of(target)
        batches[name], own = of_target[: len(of_target) - len(of)], of_target[max(0, len(of_target) - len(of)) :]
        if max(of, default=0) >= ndim:
            validate.refuse(f"axes of {name[10:]}", f"below {ndim}, the rows of coords", str(max(of)))
        wanted = [sizes.setdefault(axis, size) for axis, size in zip(of, own, strict=False)]
        if wanted != list(own) or len(own) < len(of):
            shown = str(("...", *wanted)).replace(repr("..."), "...")
            validate.refuse(name, f"of shape {shown}", f"shape {of_target}")
    if len(sizes) < ndim:
        most = adapter(coords).to_host(coords).max(axis=1, initial=-1).tolist()
        sizes = {axis: sizes.get(axis, max(0, most[axis]) + 1) for axis in range(ndim)}
    return validate.batch(**batches), tuple(sizes[axis] for axis in range(ndim))


def _validate_shape(shape: Any, ndim: int) -> list[int]:
    """Validate the option `shape`: one size per axis."""
    return [validate.count("shape", size) for size in validate.names("shape", shape, ndim)]


def _renumber_keys(numbers: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the number of distinct keys, and the index of each key among them."""
    found, places = np.unique(numbers, return_inverse=True)
    return len(found), places


def _check_coordinates(coords: np.ndarray, sizes: tuple[int, ...], words: AxisLabels) -> None:
    """Refuse cells beyond an axis, and cells that are listed twice."""
    for axis, (line, size) in enumerate(zip(coords, sizes, strict=True)):
        wrong = np.flatnonzero((line < 0) | (line >= size))
        if len(wrong):
            validate.refuse(f"coords[{axis}]", f"from 0 to {size - 1}", f"{line[wrong[0]]} for cell {wrong[0]}")
    keys, span = np.zeros(coords.shape[1], np.int64), 1
    for line, length in zip(coords, sizes, strict=True):
        size = length
        places = line.astype(np.int64)
        if span * size >= MOST_KEYS:
            (span, keys), (size, places) = _renumber_keys(keys), _renumber_keys(places)
        keys, span = keys * size + places, span * size
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(same):
        first, second = order[same[0]], order[same[0] + 1]
        what = words.place(range(len(sizes)), coords[:, first].tolist())
        validate.refuse("coords", "of different cells", f"{what} twice, for cells {first} and {second}")
