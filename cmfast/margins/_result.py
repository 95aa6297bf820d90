"""Result type of scaling tables to margins."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

from cmfast._core import axis_names, dispatch, result_repr, validate
from cmfast._core.annotations import ArrayT
from cmfast.kernels.status import Status
from cmfast.margins import _table_views

MEANING = {
    Status.CONVERGED: "margins recomputed from the result are met; the estimated error of the cells is at most 1e-4",
    Status.MAX_ITER: "not converged; this is the last iterate, pass a larger max_iter=",
    Status.LIMIT_ONLY: "no factors exist; this is the exact limit, with some positive cells at zero",
    Status.INFEASIBLE: "no nonnegative table with these zeros has these margins",
    Status.TOTALS: "two margins disagree on the axes that they share, or on the total",
    Status.INVALID: "a cell or target is infinite or negative, or a cell is NaN",
    Status.ZERO_LINE: "a margin entry has no positive cell but its target is positive",
    Status.RANGE: "factors or cells leave the range of float64",
    Status.UNDETERMINED: "the margins are met, but the rounding of their targets leaves some cells undetermined",
}


@result_repr.add_repr
class MarginsResult(NamedTuple, Generic[ArrayT]):
    """Result of :func:`ipf_nd` and :func:`ipf_cells`.

    Attributes
    ----------
    table : array, shape of the tables, or (..., n) for listed cells
        Scaled; float32 if the tables and all targets are float32, else float64.
    factors : list of array of float64
        Factors of each margin, in its shape, or per row of a tidy margin: `table` is the input times the factors of all
        margin entries of a cell. All but the first have geometric mean one if no entry is unconstrained. If margins
        share axes, factors are not unique; these are the minimum-norm dual solution (least squares of the logarithms,
        up to that mean), unless many zeros make it slow, or margins have an importance; then they may be infinite or
        zero, beyond float64. NaN with LIMIT_ONLY: none exist.
    achieved : list of array of float64
        The margins of `table`, added up before any rounding to float32.
    residual : array of float64, shape (...)
        The largest L1 distance of a margin from its target, over the total of the target; for soft constraints, from
        the target times the factor to the power of -1 / importance. The residual of :func:`ipf` adds both margins and
        is between one and two times this.
    cell_error : array of float64, shape (...)
        An estimate, not a bound, of the largest relative error of a cell: the effect of rounding the targets randomly,
        plus the last step; after sweeps alone the change by all further sweeps, after conjugate gradients a bound of
        both from the eigenvalues seen so far; infinite if these give none. Of 71,804 CONVERGED tables with known exact
        solutions the worst cell exceeded this in 842, by a factor of at most 7.4.
    n_iter : array of int64, shape (...)
        Passes over the table: one per margin of a sweep (also of sweeps that estimate the error), per Newton step and
        per product of conjugate gradients.
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`.
    """

    table: ArrayT
    factors: list[ArrayT]
    achieved: list[ArrayT]
    residual: ArrayT
    cell_error: ArrayT
    n_iter: ArrayT
    status: ArrayT

    @property
    def _names(self) -> "_table_views.TableNames | None":
        """Names of axes and categories, if tables or Series gave any."""
        return axis_names.get_settings(self).get("names")

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[str], str]) -> dict[str, str]:
        """Return the parts; `name` renders names that users gave."""
        shape, batch = dispatch.shape_of(self.table), dispatch.shape_of(self.status)
        names, margins = self._names, str(len(self.factors))
        of = " x ".join(map(str, shape[len(batch) :]))
        if names is not None:
            kept = validate.format_value(" x ".join(names.axes), str)
            of = f"{of}{' cells' if names.coords is not None else ''} by {name(kept)}"
            margins = f"{margins} by {name(names.describe_margins())}"
        return {
            "of": of + (f", a batch of {' x '.join(map(str, batch))}" if batch else ""),
            "margins": margins,
            "status": result_repr.format_statuses(self.status),
            "residual": result_repr.format_largest(self.residual),
            "estimated cell error": result_repr.format_largest(self.cell_error),
            "passes": result_repr.format_largest(self.n_iter, ","),
        }

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a text that explains the status of the tables, or of one.

        As :meth:`cmfast.results.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.ipf_nd(
        ...     [[1.0, 2.0], [3.0, 4.0]], [((0, 1), [[1.0, 1.0], [1.0, 1.0]])]
        ... ).explain()
        'CONVERGED: margins recomputed from the result are met; the estimated error of the cells is at most 1e-4'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no tables")

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per cell, or per listed cell: its index on each axis, and its value.

        If tables or Series named the axes, its categories instead of indices, in columns of these names.
        """
        return _table_views.make_table_frame(self.table, dispatch.shape_of(self.status), self._names)

    def plot(
        self,
        *,
        index: int | tuple[int, ...] | None = None,
        axes: int | str | tuple[int | str, int | str] | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw one fitted table as a heat map of two of its axes, or as steps along one.

        Listed cells, as of :func:`ipf_cells`, have one axis, their number in the list, unless the axes have names.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index in the batch; default: the only table.
        axes : int or str, or tuple of two of these, optional
            Axes of the table, counted from its first, or their names; all others are summed over. Default: the first
            two.
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
        >>> result = cmfast.ipf_nd(
        ...     [[1.0, 1.0], [1.0, 1.0]], [(0, [2.0, 4.0]), (1, [3.0, 3.0])]
        ... )
        >>> result.to_pandas()["value"].tolist()
        [1.0, 1.0, 2.0, 2.0]
        >>> [text.get_text() for text in result.plot().texts]
        ['1', '1', '2', '2']
        """
        return _table_views.draw_margin(self.table, dispatch.shape_of(self.status), index, axes, ax, self._names)
