"""Diagonal, margins and distance sums of confusion matrices, from which every metric is computed."""

from functools import partial
from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import bad_values, dispatch, failures, plotting, result_frames, result_repr, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT, OnFailure, Sparse
from cmfast._core.lazy import accept_dask_arrays
from cmfast.kernels.status import Status


@result_repr.add_repr
class Margins(NamedTuple, Generic[ArrayT]):
    """Diagonal, margins and distance sums of a batch of matrices, from which every metric is computed.

    Attributes
    ----------
    diagonal, row_sums, col_sums : array, shape (..., C)
        Correctly predicted, true and predicted mass per class.
    bands : array, shape (..., C)
        Mass at distance k from the diagonal: ``(bands * distance).sum()`` is the distance-weighted sum of the weighted
        kappas.
    tops : array, shape (..., C)
        Mass with ``max(truth, prediction) == k``, which Gerrity's score needs in addition to the bands.
    total : array, shape (...)
        Total mass.
    status : array of int8, shape (...)
        INVALID (all sums 0, or NaN for fractions) or CONVERGED.
    """

    diagonal: ArrayT
    row_sums: ArrayT
    col_sums: ArrayT
    bands: ArrayT
    tops: ArrayT
    total: ArrayT
    status: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {
            "classes": result_repr.format_shape(self.diagonal, 1),
            "total": result_repr.format_values(self.total, ","),
        }
        return parts | {"status": result_repr.format_statuses(self.status)}

    def explain(self) -> str:
        """Return a text with the total and its share on the diagonal."""
        a, n = (float(np.nansum(np.asarray(adapter(x).to_host(x), np.float64))) for x in (self.diagonal, self.total))
        share = f"{a / n:.1%} of it" if n else "nothing"
        return f"a total of {n:,.6g}, {share} on the diagonal"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per class."""
        return result_frames.make_frame(
            {"diagonal": self.diagonal, "row_sum": self.row_sums, "col_sum": self.col_sums}, ("class",)
        )

    def plot(self, *, index: int | tuple[int, ...] | None = None, ax: Any = None) -> Any:
        """Draw for each class of one matrix its true and its predicted mass, and a bar of the correct mass.

        Classes whose predicted mass is above the true one are predicted too often.

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
        >>> from cmfast import metrics
        >>> ax = metrics.margins([[5, 1], [2, 4]]).plot()
        >>> [line.get_ydata().tolist() for line in ax.lines]  # true, predicted
        [[6, 6], [7, 5]]
        """
        place = validate.single_index(index, dispatch.shape_of(self.total), "matrix")
        diagonal, rows, cols = (result_frames.copy_to_host(x)[place] for x in self[:3])
        ax = plotting.get_axes(ax, (6.4, 3.4))
        colours, classes = plotting.match_palette(ax), np.arange(len(diagonal))
        pale = colours.ground + 0.4 * (colours.off_diagonal - colours.ground)
        ax.bar(classes, diagonal, 0.8 if len(classes) <= plotting.FINEST else 1.0, color=pale, label="correct")
        size = plotting.choose_dot_points(len(classes))
        ax.plot(classes, rows, "o", color=colours.ink, markersize=size, label="true")
        ax.plot(classes, cols, "D", color=colours.diagonal, markersize=size, label="predicted")
        ax.set(xlabel="class", ylabel="mass", ylim=(0, None))
        plotting.set_integer_ticks(ax.xaxis)
        plotting.draw_legend_above(ax)
        return ax


@overload
def margins(
    M: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Margins[DeviceT]: ...
@overload
def margins(
    M: ArrayLike | Sparse,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Margins[NDArray[Any]]: ...
@accept_dask_arrays(M="CC")
def margins(M: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Margins[Any]:
    """Compute diagonal, margins and distance sums of confusion matrices, in one pass.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts or any normalisation of them; or one matrix of scipy.sparse.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Margins
        int64 and exact for integers, else float64 (also for float32: they are sums). Library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        `M` is not real, or not square.

    Notes
    -----
    Bad values: a negative, NaN or infinite cell, or a total beyond int64 (INVALID), gives 0 or NaN in that matrix and
    is reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: same
    input, same bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> sums = metrics.margins([[5, 1], [2, 4]])
    >>> (
    ...     sums.diagonal.tolist(),
    ...     sums.row_sums.tolist(),
    ...     sums.col_sums.tolist(),
    ...     int(sums.total),
    ... )
    ([5, 4], [6, 6], [7, 5], 12)
    """
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    if sparse.is_sparse(M):
        return _sum_sparse_matrix(M, on_failure)
    (M,) = dispatch.adopt(M=M)
    validate.matrices(square=True, M=M)
    sums = Margins(*dispatch.call("margins", M, num_threads=num_threads))
    failures.report(sums.status, on_failure, failed="matrices not summed", why=partial(bad_values.explain_sum, M))
    return sums


def _sum_sparse_matrix(M: Any, on_failure: OnFailure) -> Margins[Any]:
    """Compute diagonal, margins and distance sums of one scipy.sparse matrix."""
    validate.matrices(square=True, M=M)
    parts = sparse.sum_margins(M)
    bad = bool(sparse.explain_bad_cells(M))
    if bad:
        parts = tuple(np.full_like(part, np.nan if part.dtype.kind == "f" else 0) for part in parts)
    status = np.int8(Status.INVALID if bad else Status.CONVERGED)
    failures.report(status, on_failure, failed="matrices not summed", why=partial(sparse.explain_bad_cells, M))
    d, t, p, bands, tops = parts
    return Margins(d, t, p, bands, tops, t.sum(), status)
