"""Zero patterns: decide whether a matrix can be scaled to given sums, with a certificate if it cannot."""

from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import axis_names, dispatch, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.libraries import load_pandas
from cmfast.kernels.loading import load
from cmfast.kernels.status import Status

__all__ = ["Certificate", "Support", "support"]

MOST_NAMED_CLASSES = 12  # classes that a sentence lists; more are only counted


@result_repr.add_repr
class Certificate(NamedTuple, Generic[ArrayT]):
    """Infeasibility certificate: rows whose targets exceed those of the columns they reach (a Hall violator).

    Attributes
    ----------
    rows : array of bool, shape (..., R)
        INFEASIBLE: the smallest set of rows whose targets exceed those of the columns they reach by the largest amount.
        ZERO_LINE: the empty rows or, if a column is empty, every row with a target. TOTALS: every row. Otherwise empty.
    cols : array of bool, shape (..., C)
        The columns in which these rows have a positive cell; if a column is empty, all the others.
    wanted, available : array of float64, shape (...)
        Sum of the targets of `rows`, and of `cols`. Zero without a violation, NaN if INVALID.
    """

    rows: ArrayT
    cols: ArrayT
    wanted: ArrayT
    available: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {
            "of": " x ".join(str(dispatch.shape_of(line)[-1]) for line in (self.rows, self.cols)),
            "wanted": result_repr.format_values(self.wanted),
            "available": result_repr.format_values(self.available),
        }

    def explain(self) -> str:
        """Return a sentence on what the certificate proves."""
        rows, cols, wanted, available = map(adapter(self.wanted).to_host, self)
        short = wanted != available
        if short.ndim == 0:
            if not short:
                return "nothing is wrong"
            if rows.any() and cols.any():
                return explain_infeasible(rows, cols, float(wanted), float(available))
            return "a row or column without a positive cell has a target"
        return f"{int(short.sum()):,} of {short.size:,} matrices have rows that want more than there is, or less"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per row and column of each matrix: whether it is in the certificate."""
        lines = {"row": self.rows, "column": self.cols}
        frames = [result_frames.make_frame({"in_certificate": of}, ("index",)) for of in lines.values()]
        for kind, frame in zip(lines, frames, strict=True):
            frame.insert(frame.columns.get_loc("index"), "line", kind)
        return load_pandas().concat(frames, ignore_index=True)


@result_repr.add_repr
class Support(NamedTuple, Generic[ArrayT]):
    """Result of :func:`support`: scalability, dead cells, blocks and certificate.

    Attributes
    ----------
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`. CONVERGED: total support, factors exist. LIMIT_ONLY: none exist, but iterative
        proportional fitting has a limit, with the `dead_cells` at zero. INFEASIBLE, ZERO_LINE: too few cells are
        positive, there is no limit. TOTALS, INVALID, RANGE: the input is not a valid problem.
    dead_cells : array of bool, shape (..., R, C)
        Positive cells that are zero in every nonnegative matrix with these sums and these zeros.
    row_block, col_block : array of int64, shape (..., R) and (..., C)
        Block number of each row and column, from zero in order of the first row. Without its dead cells the matrix
        decomposes into these blocks, each with its own factors. -1 if the target is zero or there is no limit.
    certificate : Certificate
        Proof that no scaling exists.
    """

    status: ArrayT
    dead_cells: ArrayT
    row_block: ArrayT
    col_block: ArrayT
    certificate: Certificate[ArrayT]

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {"of": result_repr.format_shape(self.dead_cells), "status": result_repr.format_statuses(self.status)}
        return parts | {"dead cells": f"{int(adapter(self.dead_cells).to_host(self.dead_cells).sum()):,}"}

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a sentence, with class indices, on the result for one matrix of the batch.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only matrix, or for a batch the number of matrices by status.

        Returns
        -------
        str
            One sentence.

        Raises
        ------
        TypeError, IndexError
            `index` does not select one matrix of the batch.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.support([[[1, 1], [0, 1]], [[1, 0], [1, 0]]]).explain(0)
        'no scaling exists, only a limit: 1 positive cell goes to zero (first: [0, 1]), 2 blocks are left'
        """
        codes = adapter(self.status).to_host(self.status)
        if index is None and codes.ndim:
            return result_repr.format_statuses(codes)
        place = validate.batch_index(() if index is None else index, codes.shape)
        return _explain(*(adapter(part).to_host(part)[place] for part in (*self[:-1], *self.certificate)))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per row and column of the matrix, or of each matrix of a batch.

        Columns: its kind, class where labels are known, index, block, number of dead cells, and whether it belongs to
        the certificate.
        """
        pd = load_pandas()
        return pd.concat([_list_lines(self, axis) for axis in (-1, -2)], ignore_index=True)

    def plot(self, *, index: int | tuple[int, ...] | None = None, ax: Any = None) -> Any:
        """Draw the pattern of one matrix: its blocks, its dead cells, and the rows and columns of the certificate.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only matrix.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        TypeError, ValueError, IndexError
            `index` does not select one matrix of the batch.

        Examples
        --------
        >>> import cmfast
        >>> ax = cmfast.support([[1, 1], [0, 1]]).plot()
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['in a block', 'dead']
        """
        place = validate.single_index(index, dispatch.shape_of(self.status), "matrix")
        parts = (self.dead_cells, self.row_block, self.col_block, self.certificate.rows, self.certificate.cols)
        found = [result_frames.copy_to_host(part)[place] for part in parts]
        return load("cmfast.display._tables").draw_pattern(ax, *found, axis_names.get_axes(self).get("class"))


def _list_lines(self: Support[Any], axis: int) -> Any:
    """Return a DataFrame with a row per row of the matrices if `axis` is -1, and per column if it is -2."""
    kind, block = ("row", self.row_block) if axis == -1 else ("column", self.col_block)
    short = self.certificate.rows if axis == -1 else self.certificate.cols
    dead = result_frames.copy_to_host(self.dead_cells).sum(axis=axis)
    frame = result_frames.make_frame({"block": block, "n_dead_cells": dead, "in_certificate": short}, ("index",))
    frame.insert(frame.columns.get_loc("index"), "line", kind)
    labels = axis_names.get_axes(self).get("class")
    if labels is not None:
        frame.insert(frame.columns.get_loc("index"), "class", [labels[k] for k in frame["index"]])
    return frame


def _explain(
    code: Any, dead: Any, row_block: Any, col_block: Any, rows: Any, cols: Any, wanted: Any, available: Any
) -> str:
    """Return the sentence for one matrix, given all parts of its result."""
    status = Status(int(code))
    if status is Status.INVALID:
        return "a cell or target is NaN, infinite or negative"
    if status is Status.RANGE:
        return "the targets add up to more than float64 holds"
    if status is Status.TOTALS:
        return f"row targets add up to {wanted:.12g}, column targets to {available:.12g}"
    if status is Status.ZERO_LINE:
        line, other, empty = ("row", "column", rows) if available == 0 else ("column", "row", ~cols)
        what = f"{line} {format_indices(empty)} is" if empty.sum() == 1 else f"{line}s {format_indices(empty)} are"
        # Rows and columns with target 0 are excluded, so their cells do not count.
        partly = cols.any() if line == "row" else not rows.all()
        where = f"zero in every {other} with a target" if partly else "empty"
        return f"{what} {where} but must sum to {wanted - available:.12g}"
    if status is Status.INFEASIBLE:
        return explain_infeasible(rows, cols, float(wanted), float(available))
    blocks = int(max(row_block.max(initial=-1), col_block.max(initial=-1))) + 1
    if status is Status.LIMIT_ONLY:
        n = int(dead.sum())
        cells = "1 positive cell goes" if n == 1 else f"{n} positive cells go"
        first = ", ".join(str(k) for k in np.argwhere(dead)[0])
        return f"no scaling exists, only a limit: {cells} to zero (first: [{first}]), {blocks} blocks are left"
    return f"a scaling exists: every positive cell stays positive, in {blocks} block{'' if blocks == 1 else 's'}"


def explain_infeasible(rows: Any, cols: Any, wanted: float, available: float) -> str:
    """Return the sentence about an infeasible matrix: which rows exceed which columns."""
    subject = (
        f"row {format_indices(rows)} must sum" if rows.sum() == 1 else f"rows {format_indices(rows)} must together sum"
    )
    reach = "reaches" if rows.sum() == 1 else "reach"
    target = (
        f"column {format_indices(cols)}, which sums"
        if cols.sum() == 1
        else f"columns {format_indices(cols)}, which together sum"
    )
    return f"{subject} to {wanted:.12g} but {reach} only {target} to {available:.12g}"


def format_indices(line: Any) -> str:
    """Return the indices of a set of classes as text, shortened if there are many."""
    found = np.flatnonzero(line)
    if len(found) == 1:
        return str(found[0])
    more = f", ... ({len(found)} of {len(line)})" if len(found) > MOST_NAMED_CLASSES else ""
    return f"[{', '.join(str(k) for k in found[:MOST_NAMED_CLASSES])}{more}]"


@overload
def support(
    M: DeviceT,
    /,
    row_sums: DeviceT | None = ...,
    col_sums: DeviceT | None = ...,
    *,
    num_threads: int | None = ...,
) -> Support[DeviceT]: ...
@overload
def support(
    M: ArrayLike,
    /,
    row_sums: ArrayLike | None = ...,
    col_sums: ArrayLike | None = ...,
    *,
    num_threads: int | None = ...,
) -> Support[NDArray[Any]]: ...
@accept_dask_arrays(M="RC", row_sums="R", col_sums="C")
def support(
    M: Array, /, row_sums: Array = None, col_sums: Array = None, *, num_threads: int | None = None
) -> Support[Any]:
    """Decide from the zeros of matrices whether they can be scaled to the target sums.

    Exact: by maximum flow and strongly connected components, not by iteration. Only the zero pattern matters.

    Parameters
    ----------
    M : array, shape (..., R, C)
        Nonnegative.
    row_sums, col_sums : array, shape (..., R) and (..., C), optional
        The targets, with equal totals (relative gap at most 1e-9; then `col_sums` is scaled to the total of
        `row_sums`). Give both or neither; without them every row and column of a square `M` sums to one. A row or
        column with target zero is excluded. The leading axes broadcast with those of `M`.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Support
        In the library and on the device of `M`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree.

    Notes
    -----
    Bad values: the status is INVALID (a NaN, infinite or negative cell or target), TOTALS (targets of different totals)
    or RANGE (a total that overflows float64), without a warning. Does not synchronise the device. Reproducible: exact
    for equal targets and for integers up to 2**53; other targets may differ by 1e-12 of their total, so that 0.1 + 0.2
    equals 0.3.

    References
    ----------
    Sinkhorn and Knopp, Concerning nonnegative matrices and doubly stochastic matrices, 1967. Idel, A review of matrix
    scaling and Sinkhorn's normal form for matrices and positive maps, arXiv:1609.06349.

    Examples
    --------
    Classes 1 and 2 are always predicted as class 0, so that their rows cannot both sum to one:

    >>> import cmfast
    >>> found = cmfast.support([[8, 1, 1], [5, 0, 0], [9, 0, 0]])
    >>> cmfast.Status(found.status)
    <Status.INFEASIBLE: 3>
    >>> found.explain()
    'rows [1, 2] must together sum to 2 but reach only column 0, which sums to 1'

    With other sums there is a scaling:

    >>> cmfast.support(
    ...     [[8, 1, 1], [5, 0, 0], [9, 0, 0]], [10, 5, 9], [18, 3, 3]
    ... ).explain()
    'a scaling exists: every positive cell stays positive, in 1 block'
    """
    num_threads = validate.num_threads(num_threads)
    arrays = dispatch.adopt(optional=("row_sums", "col_sums"), M=M, row_sums=row_sums, col_sums=col_sums)
    batch = {"M": dispatch.shape_of(arrays[0])[:-2]}
    if row_sums is None and col_sums is None:
        validate.matrices(square=True, M=arrays[0])
    elif row_sums is None or col_sums is None:
        validate.refuse("row_sums and col_sums", "given both or neither", "only one")
    else:
        core = validate.matrices(M=arrays[0])
        for name, line, length in zip(("row_sums", "col_sums"), arrays[1:], core, strict=True):
            batch[name] = validate.vectors(name, line, length)
    validate.batch(**batch)
    status, dead_cells, row_block, col_block, *certificate = dispatch.call("support", *arrays, num_threads=num_threads)
    found = Support(status, dead_cells, row_block, col_block, Certificate(*certificate))
    return axis_names.name_axes(found, axis_names.get_axes_of_counts(M))
