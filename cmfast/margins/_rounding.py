"""Controlled rounding of tables: integers whose margins are rounded too."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import bad_values, dispatch, failures, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, OnFailure, Progress
from cmfast._core.progress import make_reporter
from cmfast._core.usual_options import explain_options
from cmfast.kernels.status import Status
from cmfast.margins import _table_views
from cmfast.margins._ipf_tables import Axes
from cmfast.margins._margin_lists import MOST_AXES, count_axes, split_margins

MEANING = {
    Status.CONVERGED: "every cell and every sum is an adjacent integer of its value",
    Status.MAX_ITER: "every cell is an adjacent integer of its value, but some sums are not; see miss",
    Status.INVALID: "a cell is infinite, negative or NaN",
    Status.RANGE: "cells add up to more than the largest exact integer of float64",
}


@result_repr.add_repr
class RoundedTable(NamedTuple, Generic[ArrayT]):
    """Result of :func:`round_to_margins`.

    Attributes
    ----------
    table : array, shape of the tables
        Integers, as float32 if the tables are float32, else float64; NaN in failed tables.
    miss : array of float64, shape (...)
        Largest distance of a sum from the adjacent integers of its value; 0 if all sums are adjacent integers.
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`.
    """

    table: ArrayT
    miss: ArrayT
    status: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {
            "of": " x ".join(map(str, dispatch.shape_of(self.table))),
            "status": result_repr.format_statuses(self.status),
            "miss": result_repr.format_largest(self.miss),
        }

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a text that explains the status of the tables, or of one.

        As :meth:`cmfast.results.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.round_to_margins([[0.5, 0.5], [0.5, 0.5]]).explain()
        'CONVERGED: every cell and every sum is an adjacent integer of its value'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no tables")

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per cell: its index on each axis, and its value."""
        return _table_views.make_table_frame(self.table, dispatch.shape_of(self.status))

    def plot(
        self, *, index: int | tuple[int, ...] | None = None, axes: int | tuple[int, int] | None = None, ax: Any = None
    ) -> Any:
        """Draw one rounded table as a heat map of two of its axes, or as steps along one.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only table.
        axes : int or tuple of two int, optional
            Axes of the table, counted from its first; all others are summed over. Default: the first two.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        TypeError, ValueError, IndexError
            `index` does not select one table of the batch; axes that the table does not have.

        Examples
        --------
        >>> import cmfast
        >>> rounded = cmfast.round_to_margins([[0.75, 1.25], [1.25, 2.75]])
        >>> rounded.to_pandas()["value"].tolist()
        [1.0, 1.0, 1.0, 3.0]
        >>> rounded.plot(axes=1).get_xlabel()
        'axis 1'
        """
        return _table_views.draw_margin(self.table, dispatch.shape_of(self.status), index, axes, ax)


@explain_options
def round_to_margins(
    M: Array,
    /,
    *,
    axes: Sequence[Axes] | None = None,
    ndim: int | None = None,
    rng: "int | np.random.Generator | None" = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> RoundedTable[Any]:
    """Round every cell of a table up or down so that its margins are rounded up or down too (controlled rounding).

    Turns a fitted table into integer counts with consistent sums. For a matrix a solution always exists and is found
    exactly: every cell, row, column and the total become one of their two adjacent integers, and integers stay. With
    more axes no such table need exist; then a local search exchanges cells while the sums improve, and
    `RoundedTable.miss` gives the remaining error.

    Parameters
    ----------
    M : array, shape (..., R, C) or (..., n_1, ..., n_d)
        Nonnegative.
    axes : list of int or tuple of int, optional
        The margins, each by the axes that it keeps, as in :func:`ipf_nd`; default: rows and columns of matrices.
    ndim : int, optional
        Number of axes of a table, at most 32; default: one more than the highest axis of `axes`. Axes before these
        are the batch.
    rng : int or numpy.random.Generator, optional
        Round randomly. In a matrix each cell is rounded up with probability equal to its fraction, so that the mean
        over many draws is `M`; tables of more axes start from such a draw. Default: deterministic; matrices as close to
        `M` as possible, by the sum of distances.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about tables that fail (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use, for a batch; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in tables.

    Returns
    -------
    RoundedTable
        In the library of `M`.

    Raises
    ------
    TypeError, ValueError
        An array that is not real; too few axes; a wrong option.
    NotImplementedError
        An array on a GPU.

    See Also
    --------
    ipf, ipf_nd : Scale tables to given sums.

    Notes
    -----
    A sum within 1e-6 of an integer, or 1e-9 of itself, counts as that integer, since scaling meets targets only to that
    accuracy.

    Bad values: INVALID: a cell that is NaN, infinite or negative. RANGE: cells that add up to more than 2^53. Both get
    NaN, are reported as `on_failure` says, and do not affect other tables. MAX_ITER keeps its table, with sums off by
    up to `miss`. Does not synchronise a device: there are no kernels for GPUs. Reproducible: same input, same bits,
    for any `num_threads` and neighbours in the batch; with `rng` they depend on the seed and the position in the batch.

    References
    ----------
    Cox, A constructive procedure for unbiased controlled rounding, 1987. Bacharach, Matrix rounding problems, 1966.

    Examples
    --------
    >>> import cmfast
    >>> T = cmfast.ipf(
    ...     [[3.0, 1.0, 1.0], [1.0, 2.0, 4.0]],
    ...     [10.0, 20.0],
    ...     [9.0, 11.0, 10.0],
    ... ).matrix
    >>> T.round(2)
    array([[5.93, 2.68, 1.39],
           [3.07, 8.32, 8.61]])
    >>> cmfast.round_to_margins(T).table
    array([[6., 3., 1.],
           [3., 8., 9.]])
    """
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    seed = None if rng is None else int(validate.generator(rng).integers(2**63))
    given: Any = [0, 1] if axes is None else axes
    if isinstance(given, list | tuple):
        given = [(of, None) for of in given]
    kept, _ = split_margins("axes", "axes", given, MOST_AXES)
    ndim = count_axes("axes", kept, ndim)
    M = dispatch.adopt_one("M", M)
    validate.real(M=M)
    shape = dispatch.shape_of(M)
    if len(shape) < ndim:
        validate.refuse("M", f"of shape (..., *table) with {ndim} axes in a table", f"shape {shape}")
    options = {"axes": kept, "ndim": ndim, "seed": seed, "num_threads": num_threads}
    out = dispatch.call("round_to_margins", M, **options, progress=make_reporter(progress, "tables"))
    result: RoundedTable[Any] = RoundedTable(*out)

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the table at `index` was not rounded."""
        status = Status(int(adapter(result.status).to_host(result.status)[index]))
        if status is Status.INVALID:
            return bad_values.describe_bad_value(M=adapter(M).to_host(M)[index])
        if status is Status.MAX_ITER:
            miss = float(adapter(result.miss).to_host(result.miss)[index])
            return f"some sums are up to {miss:g} away from adjacent integers"
        return MEANING[status]

    failures.report(result.status, on_failure, failed="tables not rounded", describe=describe)
    return result
