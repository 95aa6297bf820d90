"""Result type of matrix scaling."""

from typing import Any, Generic, NamedTuple

from cmfast._core import axis_names, dispatch, result_frames, result_repr, validate
from cmfast._core.annotations import ArrayT, MatrixT
from cmfast.kernels.loading import load
from cmfast.kernels.status import Status

MEANING = {
    Status.CONVERGED: "every row and column has the wanted sum, recomputed from the returned values",
    Status.MAX_ITER: "not converged; this is the last iterate, pass a larger max_iter=",
    Status.LIMIT_ONLY: "no scaling exists; this is the exact limit, with some positive cells at zero and no factors",
    Status.INFEASIBLE: "no matrix with these zeros has these sums; cmfast.support names rows with too large targets",
    Status.TOTALS: "row and column targets have different totals",
    Status.INVALID: "a cell or target is NaN, infinite or negative",
    Status.ZERO_LINE: "a row or column is empty but its target is not",
    Status.RANGE: "the factors leave the range of float64",
    Status.UNDETERMINED: "rows and columns have the wanted sums, but their rounding leaves some cells undetermined",
}


@result_repr.add_repr
class ScalingResult(NamedTuple, Generic[MatrixT, ArrayT]):
    """Result of :func:`ipf` and :func:`ras`; ``matrix = row_scale[..., :, None] * M * col_scale[..., None, :]``.

    Attributes
    ----------
    matrix : array, shape (..., R, C), or None
        The scaled matrices, float32 if `M` (and the targets given) are float32, else float64. None from :func:`ras`;
        CSR of a sparse `M`.
    row_scale, col_scale : array of float64, shape (..., R) and (..., C)
        The factors, normalised so that the geometric mean of `row_scale` is one; their logarithms with ``logits=True``.
    residual : array of float64, shape (...)
        L1 distance of the row sums and column sums from their targets over the total of the targets, recomputed from
        `M` and the factors before any rounding to float32.
    n_iter : array of int64, shape (...)
        Passes over the matrix: sweeps, Newton steps and products.
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`.
    smoothing : array of float64, shape (...)
        Amount added to the cells: the given number, the weight k of the pseudo-Bayes prior, or 0.
    line_error : array of float64, shape (...)
        The largest relative error of a row sum or column sum: ``abs(sum - target) / target``, measured like
        `residual`. Small rows and columns hardly contribute to `residual`; for CONVERGED this is at most `tol`.
    """

    matrix: MatrixT
    row_scale: ArrayT
    col_scale: ArrayT
    residual: ArrayT
    n_iter: ArrayT
    status: ArrayT
    smoothing: ArrayT
    line_error: ArrayT

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Labels of the axes "group" and "class", or "row" and "column" of a table; {} without names."""
        return axis_names.get_axes(self)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        R, C = (dispatch.shape_of(line)[-1] for line in (self.row_scale, self.col_scale))
        batch = " x ".join(map(str, dispatch.shape_of(self.row_scale)[:-1]))
        return {
            "of": f"{R} x {C}" + (f", a batch of {batch}" if batch else ""),
            "status": result_repr.format_statuses(self.status),
            "residual": result_repr.format_largest(self.residual),
            "line error": result_repr.format_largest(self.line_error),
            "passes": result_repr.format_largest(self.n_iter, ","),
        }

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a text that explains the status of all matrices, or of one.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: one line for every status that occurs.

        Returns
        -------
        str
            One sentence per line.

        Raises
        ------
        TypeError, IndexError
            `index` is not an index of the batch.

        Examples
        --------
        >>> import cmfast
        >>> result = cmfast.ipf([[1.0, 2.0], [3.0, 4.0]])
        >>> result.explain()
        'CONVERGED: every row and column has the wanted sum, recomputed from the returned values'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no matrices")

    def to_pandas(self) -> Any:
        """Return the scaled matrices as a pandas DataFrame; raise TypeError if :func:`ras` returned none."""
        return result_frames.make_matrix_frame(
            self._take_matrix(),
            self.axes.get("class", self.axes.get("row")),
            self.axes.get("column"),
            groups=self.axes.get("group"),
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the scaled matrix, with its labels if they are known; it must be one square matrix.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ConfusionDisplay
            The display, drawn. The figure is not shown.
        """
        display = load("cmfast.display").ConfusionDisplay
        shown = display.from_matrix(self._take_matrix(), display_labels=self.axes.get("class"))
        shown._unit = "scaled value"
        return shown.plot(ax=ax)

    def _take_matrix(self) -> Any:
        """Return the scaled matrices; raise TypeError without them."""
        if self.matrix is None:
            validate.fail("ras returns no matrix, but its factors; ipf returns both", TypeError)
        return self.matrix
