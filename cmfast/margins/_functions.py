"""Scale tables of any number of axes to margins over any of them."""

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, DeviceT, OnFailure, Progress
from cmfast.margins import _reasons
from cmfast.margins._options import of_tables
from cmfast.margins._pairs import MOST_AXES, n_axes, split
from cmfast.margins._result import MarginsResult

Axes: TypeAlias = int | tuple[int, ...]


@overload
def ipf_nd(
    M: DeviceT,
    margins: Sequence[tuple[Axes, DeviceT]],
    /,
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
    margins: Sequence[tuple[Axes, ArrayLike]],
    /,
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
def ipf_nd(
    M: Array,
    margins: Any,
    /,
    *,
    ndim: int | None = None,
    importance: ArrayLike | None = None,
    smoothing: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
    progress: Progress = None,
) -> MarginsResult[Any]:
    r"""Scale nonnegative tables of any number of axes until they have the wanted margins.

    The result is the table closest to `M` in Kullback-Leibler divergence among those with these margins. Sweeps where
    they are quick, else Newton's method on the multipliers :math:`\lambda` of the lines, which minimises
    :math:`\sum_c M_c \exp((A \lambda)_c) - m \cdot \lambda`; A says which cells stand in which lines, m is their
    targets.

    Parameters
    ----------
    M : array, shape (..., n_1, ..., n_d)
        Nonnegative; d is `ndim`.
    margins : list of (axes, target)
        What the table must sum to. `axes`, an int or a tuple of them, are those that are kept, counted from the first
        axis of the table; all others are summed over. `target` has shape ``(..., *sizes)``, the sizes of `axes` in the
        order in which they are named; NaN where nothing is asked of a line. Margins that share axes must agree there,
        and all on the total, to a relative 1e-9; then those with fewer lines are multiplied to agree with the others.
        Leading axes broadcast with those of `M`.
    ndim : int, optional
        Number of axes of a table, at most 32; default: one more than the highest axis of `margins`, of which one must
        keep an axis then. What stands before is the batch.
    importance : positive float, or sequence of them, optional
        How much it costs to miss the targets, one number for each margin: a line that adds up to m r in place of its
        target m costs importance times m (r log r - r + 1) beside the divergence of the table. Infinite: must be met,
        as without. Then margins need not agree, and no answer depends on their order.
    smoothing : positive float, optional
        A number to add to every cell, in the unit of `M`. Never implicit: another smoothing is another answer.
    tol : float
        Absolute bound of `MarginsResult.residual`. Nothing is demanded of what rounding leaves: less than 2e-14, or
        that times the number of cells of a line over 32, means that.
    max_iter : int, optional
        Most passes over the table; default: 200 Newton steps, and 100,000 products of conjugate gradients. The sweeps
        it starts with are finished in any case, and products that only say how far off cells are.
    on_failure : {"warn", "raise", "ignore"}
        What to do about tables that have no answer (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in tables.

    Returns
    -------
    MarginsResult
        In the library of `M`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; a wrong option.

    See Also
    --------
    ipf : Rows and columns of matrices.

    Notes
    -----
    Bad values: a table that cannot be scaled gets NaN and a code in `status`, is reported as `on_failure` says, and
    touches no other. INVALID: a cell that is NaN, or a cell or target that is infinite or negative. TOTALS: margins
    that disagree. ZERO_LINE: an empty line with a positive target. INFEASIBLE: no table with these zeros has these
    margins, proved by multipliers. Margins with a finite `importance` cause none of these three. RANGE: factors or
    cells beyond float64. LIMIT_ONLY counts as success and warns: zeros for which only the limit of the iteration
    exists; `table` is that limit. In it cells are zero of which it is proved that in every table with these margins
    they are less than 1e-9 of the smallest of their lines. MAX_ITER keeps its last iterate. UNDETERMINED keeps its
    table, whose margins are right; but rounding the targets once would move a cell by more than 1e-4. CONVERGED means
    that `residual` was measured on what is returned, that the last step moved no cell by more than 1e-3, and that
    `cell_error`, an estimate, is at most 1e-4. Synchronises the device for tables of a shape that is new there, and for
    statuses unless `on_failure` is "ignore". Reproducible: same input, same bits, for any `num_threads` and neighbours
    in the batch; on the CPU, with more than 64 lines beside those of the largest margin, where the linear algebra
    library is the same and has as many threads.

    Memory, where there are more than 64 such lines and sweeps are not quick: eight bytes for each pair of them; above
    3,000, where conjugate gradients take the steps, a few hundred for each line. Where these do not, and there are at
    most 20,000, it is eight bytes for each pair again; with more lines the status is MAX_ITER or UNDETERMINED then.

    References
    ----------
    Deming and Stephan, On a least squares adjustment of a sampled frequency table when the expected marginal totals are
    known, 1940. Csiszar, I-divergence geometry of probability distributions and minimization problems, 1975.

    Examples
    --------
    A table of two ages, two incomes and two regions, of which incomes are known by age, and ages by region:

    >>> import cmfast
    >>> M = [[[4.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 6.0]]]
    >>> result = cmfast.ipf_nd(M, [((0, 1), [[6.0, 5.0], [2.0, 7.0]]), ((0, 2), [[4.0, 7.0], [4.0, 5.0]])])
    >>> result.table.round(3)
    array([[[3.2  , 2.8  ],
            [0.8  , 4.2  ]],
    <BLANKLINE>
           [[1.305, 0.695],
            [2.695, 4.305]]])
    >>> cmfast.Status(result.status), bool(result.cell_error < 1e-6)
    (<Status.CONVERGED: 0>, True)
    """
    axes, targets = split("margins", "axes", margins, MOST_AXES)
    options = of_tables(
        len(axes),
        importance=importance,
        smoothing=smoothing,
        tol=tol,
        max_iter=max_iter,
        on_failure=on_failure,
        num_threads=num_threads,
        progress=progress,
    )
    arrays, ndim, batch = adopted(M, axes, targets, ndim)
    out = dispatch.call("ipf_nd", *arrays, axes=axes, ndim=ndim, **options)
    problem = _reasons.TableProblem(
        "M", arrays[0], None, arrays[1:], axes, ndim, batch, options["importance"], options["smoothing"]
    )
    return reported(out, problem, on_failure)


def reported(out: Any, problem: _reasons.TableProblem, on_failure: OnFailure) -> MarginsResult[Any]:
    """Return what a kernel found by name, and say what failed."""
    n = len(problem.axes)
    result: MarginsResult[Any] = MarginsResult(out[0], list(out[1 : n + 1]), list(out[n + 1 : 2 * n + 1]), *out[-4:])

    def describe(index: tuple[int, ...]) -> str:
        return _reasons.unmet(index, problem, result)

    failures.report(result.status, on_failure, failed="tables not scaled", describe=describe, limit_is_answer=True)
    return result


def adopted(
    M: Array, axes: tuple[tuple[int, ...], ...], targets: list[Any], ndim: int | None
) -> tuple[list[Any], int, tuple[int, ...]]:
    """Return tables and targets as arrays of one library, how many axes a table has, and the shape of the batch."""
    ndim, guessed = n_axes("margins", axes, ndim), ndim is None
    names = [f"target of margins[{k}]" for k in range(len(axes))]
    arrays = dispatch.adopt(M=M, **dict(zip(names, targets, strict=True)))
    return arrays, ndim, _batch(arrays, names, axes, ndim, guessed=guessed)


def _batch(
    arrays: list[Any], names: list[str], axes: tuple[tuple[int, ...], ...], ndim: int, *, guessed: bool
) -> tuple[int, ...]:
    """Check that shapes agree; return that of the batch."""
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
