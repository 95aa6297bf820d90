"""Scale dense tables of any number of axes to margins over any of them: ``ipf_nd``."""

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, DeviceT, OnFailure, Progress
from cmfast._core.usual_options import explain_options
from cmfast.margins import _explain_failure, _table_views
from cmfast.margins._margin_lists import MOST_AXES, count_axes, split_margins
from cmfast.margins._options import validate_table_options
from cmfast.margins._result import MarginsResult

Axes: TypeAlias = int | tuple[int, ...]


@overload
def ipf_nd(
    M: DeviceT,
    /,
    margins: Sequence[tuple[Axes, DeviceT]],
    *,
    ndim: int | None = ...,
    importance: ArrayLike | None = ...,
    smoothing: float | None = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> MarginsResult[DeviceT]: ...
@overload
def ipf_nd(
    M: ArrayLike,
    /,
    margins: Sequence[tuple[Axes, ArrayLike]],
    *,
    ndim: int | None = ...,
    importance: ArrayLike | None = ...,
    smoothing: float | None = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> MarginsResult[NDArray[Any]]: ...
@explain_options
def ipf_nd(
    M: Array,
    /,
    margins: Any,
    *,
    ndim: int | None = None,
    importance: ArrayLike | None = None,
    smoothing: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> MarginsResult[Any]:
    r"""Scale nonnegative tables of any number of axes to given margins (iterative proportional fitting).

    The result is the table closest to `M` in Kullback-Leibler divergence among those with these margins. Sweeps if they
    converge quickly, else Newton's method on the dual variables :math:`\lambda` of the margin entries, which minimises
    :math:`\sum_c M_c \exp((A \lambda)_c) - m \cdot \lambda`; A is the incidence matrix of cells and margin entries, m
    are the targets.

    Parameters
    ----------
    M : array, shape (..., n_1, ..., n_d)
        Nonnegative; d is `ndim`.
    margins : list of (axes, target)
        Target margins. `axes`, an int or a tuple of ints, are the axes that a margin keeps, counted from the first axis
        of the table; all others are summed over. `target` has shape ``(..., *sizes)``, the sizes of `axes` in the given
        order; NaN leaves an entry unconstrained. Margins that share axes must agree there, and all on the total, to a
        relative 1e-9; then margins with fewer entries are rescaled to agree with the others. Leading axes broadcast
        with those of `M`.
    ndim : int, optional
        Number of axes of a table, at most 32; default: one more than the highest axis of `margins`, at least one must
        then keep an axis. Axes before these are the batch.
    importance : positive float, or sequence of them, optional
        Penalty weights of the margins as soft constraints, one per margin: an entry that sums to m r instead of its
        target m adds importance times m (r log r - r + 1) to the divergence of the table. Infinite (the default): must
        be met. With finite weights margins need not agree, and the result does not depend on their order.
    smoothing : positive float, optional
        A number to add to every cell, in the unit of `M`. Never implicit: smoothing changes the result.
    tol : float
        Absolute bound of `MarginsResult.residual`; at least the rounding error, 2e-14, or that times the number of
        cells of a margin entry over 32.
    max_iter : int, optional
        Most passes over the table; default: 200 Newton steps, and 100,000 products of conjugate gradients. Initial
        sweeps, and products that only estimate the error of cells, are always finished.
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
        In the library of `M`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; Series or DataFrames with other
        labels on one axis, or in another order; a wrong option.

    See Also
    --------
    ipf : Rows and columns of matrices.

    Notes
    -----
    Bad values: a table that cannot be scaled gets NaN and a code in `status`, is reported as `on_failure` says, and
    does not affect others. INVALID: a cell that is NaN, or a cell or target that is infinite or negative. TOTALS:
    margins that disagree. ZERO_LINE: an empty margin entry with a positive target. INFEASIBLE: no table with these
    zeros has these margins, proved by a dual certificate. Margins with a finite `importance` cause none of these three.
    RANGE: factors or cells beyond float64. LIMIT_ONLY counts as success and warns: zeros for which only the limit of
    the iteration exists; `table` is that limit. Cells are set to zero in it if it is proved that in every table with
    these margins they are less than 1e-9 of the smallest of their margin entries. MAX_ITER keeps the last iterate.
    UNDETERMINED keeps a table with accurate margins, in which rounding the targets may change a cell by more than 1e-4.
    CONVERGED means that `residual` was recomputed from the result, that the last step changed no cell by more than
    1e-3, and that `cell_error`, an estimate, is at most 1e-4. Synchronises the device for tables of a shape that is new
    there, and for statuses unless `on_failure` is "ignore". Reproducible: same input, same bits, for any `num_threads`
    and neighbours in the batch; on the CPU, with more than 64 margin entries besides those of the largest margin, given
    the same linear algebra library and number of threads.

    Memory with more than 64 such entries, if sweeps are not quick: eight bytes per pair of entries; above 3,000, with
    conjugate gradients, a few hundred bytes per entry. If conjugate gradients fail and there are at most 20,000
    entries, it is eight bytes per pair again; with more, the status is MAX_ITER or UNDETERMINED.

    References
    ----------
    Deming and Stephan, On a least squares adjustment of a sampled frequency table when the expected marginal totals are
    known, 1940. Csiszar, I-divergence geometry of probability distributions and minimization problems, 1975.

    Examples
    --------
    A table of two ages, two incomes and two regions, with known incomes by age and regions by age:

    >>> import cmfast
    >>> M = [[[4.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 6.0]]]
    >>> result = cmfast.ipf_nd(
    ...     M,
    ...     [
    ...         ((0, 1), [[6.0, 5.0], [2.0, 7.0]]),
    ...         ((0, 2), [[4.0, 7.0], [4.0, 5.0]]),
    ...     ],
    ... )
    >>> result.table.round(3)
    array([[[3.2  , 2.8  ],
            [0.8  , 4.2  ]],
    <BLANKLINE>
           [[1.305, 0.695],
            [2.695, 4.305]]])
    >>> cmfast.Status(result.status), bool(result.cell_error < 1e-6)
    (<Status.CONVERGED: 0>, True)
    """
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
    arrays, ndim, batch = adopt_tables(M, axes, targets, ndim)
    named = _table_views.read_names(M, axes, targets, ndim)
    out = dispatch.call("ipf_nd", *arrays, axes=axes, ndim=ndim, **options)
    problem = _explain_failure.TableProblem(
        "M", arrays[0], None, arrays[1:], axes, ndim, batch, options["importance"], options["smoothing"]
    )
    return _table_views.name_dense_table(build_result(out, problem, on_failure), named, ndim)


def build_result(out: Any, problem: _explain_failure.TableProblem, on_failure: OnFailure) -> MarginsResult[Any]:
    """Return the output of a kernel as a MarginsResult, and report failures."""
    n = len(problem.axes)
    result: MarginsResult[Any] = MarginsResult(out[0], list(out[1 : n + 1]), list(out[n + 1 : 2 * n + 1]), *out[-4:])

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the table at `index` was not scaled."""
        return _explain_failure.explain_table_failure(index, problem, result)

    failures.report(result.status, on_failure, failed="tables not scaled", describe=describe, limit_is_answer=True)
    return result


def adopt_tables(
    M: Array, axes: tuple[tuple[int, ...], ...], targets: list[Any], ndim: int | None
) -> tuple[list[Any], int, tuple[int, ...]]:
    """Return tables and targets in one array library, the number of axes of a table, and the batch shape."""
    ndim, guessed = count_axes("margins", axes, ndim), ndim is None
    names = [f"target of margins[{k}]" for k in range(len(axes))]
    arrays = dispatch.adopt(M=M, **dict(zip(names, targets, strict=True)))
    return arrays, ndim, _check_shapes(arrays, names, axes, ndim, guessed=guessed)


def _check_shapes(
    arrays: list[Any], names: list[str], axes: tuple[tuple[int, ...], ...], ndim: int, *, guessed: bool
) -> tuple[int, ...]:
    """Check that shapes agree; return the shape of the batch."""
    validate.real(**dict(zip(("M", *names), arrays, strict=True)))
    shape = dispatch.shape_of(arrays[0])
    if len(shape) < ndim:
        validate.refuse("M", f"of shape (..., *table) with {ndim} axes in a table", f"shape {shape}")
    table, shapes = shape[len(shape) - ndim :], {"M": shape[: len(shape) - ndim]}
    for name, target, of in zip(names, arrays[1:], axes, strict=True):
        given, sizes = dispatch.shape_of(target), tuple(table[axis] for axis in of)
        if len(given) < len(sizes) or given[len(given) - len(sizes) :] != sizes:
            batched = guessed and len(shape) > ndim
            more = f"; tables are the last {ndim} of the axes of M, unless ndim= says more" if batched else ""
            wanted = str(("...", *sizes)).replace(repr("..."), "...")
            validate.refuse(name, f"of shape {wanted}", f"shape {given}{more}")
        shapes[name] = given[: len(given) - len(sizes)]
    return validate.batch(**shapes)
