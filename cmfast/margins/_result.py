"""What scaling tables to margins returns."""

from typing import Generic, NamedTuple

from cmfast._core import dispatch, result_repr
from cmfast._core.annotations import ArrayT
from cmfast.kernels.status import Status

MEANING = {
    Status.CONVERGED: "margins measured again on the result are met; cells are off by an estimated 1e-4 at most",
    Status.MAX_ITER: "not converged; this is the last iterate, give a larger max_iter=",
    Status.LIMIT_ONLY: "no factors exist; this is the exact limit, with some positive cells at zero",
    Status.INFEASIBLE: "no nonnegative table with these zeros has these margins",
    Status.TOTALS: "two margins disagree on the axes that they share, or on the total",
    Status.INVALID: "a cell or target is infinite or negative, or a cell is NaN",
    Status.ZERO_LINE: "a line of a margin is empty but its target is not",
    Status.RANGE: "factors or cells leave the range of float64",
    Status.UNDETERMINED: "the margins are met, but the digits of their targets do not say what all cells are",
}


@result_repr.add_repr
class MarginsResult(NamedTuple, Generic[ArrayT]):
    """What :func:`ipf_nd` and :func:`ipf_cells` return.

    Attributes
    ----------
    table : array, shape of the tables, or (..., n) of cells that are listed
        Scaled; float32 if the tables and all targets are float32, else float64.
    factors : list of array of float64
        One for each margin, in its shape, or for each row of a tidy one: `table` is what was given times the factors of
        the lines of a cell. Each but the first has the geometric mean one, where it was given for all of its lines.
        Where margins share axes other factors give the same table; these have the least sum of squares of their
        logarithms, but for that mean, unless many zeros make them slow to find, or margins have an importance; then
        they may be infinite or zero, beyond float64. NaN with LIMIT_ONLY: none exist.
    achieved : list of array of float64
        The margins of `table`, added up before any rounding to float32.
    residual : array of float64, shape (...)
        The largest L1 distance of a margin from its target over the sum of that; of targets that need not be met, from
        what the factors leave of them: the target times the factor to the power of -1 / importance. Where :func:`ipf`
        adds those of both margins, this is between a half of that and all of it.
    cell_error : array of float64, shape (...)
        An estimate, not a bound, of how far off a cell may be, relative to itself: what rounding the targets once, at
        random, moves, and the last step; after sweeps alone what all further ones would change, after conjugate
        gradients a bound of both, as far as the eigenvalues that these saw allow one; infinite where these have not
        been able to say. Of 71,804 tables that were CONVERGED, with exact answers, the worst cell was further off than
        this in 842, at most 7.4 times as far.
    n_iter : array of int64, shape (...)
        Passes over the table: one for each margin of a sweep, be it to find out what further ones would change, and
        one for each Newton step and each product of conjugate gradients.
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

    def _parts(self) -> dict[str, str]:
        shape, batch = dispatch.shape_of(self.table), dispatch.shape_of(self.status)
        return {
            "of": " x ".join(map(str, shape[len(batch) :]))
            + (f", a batch of {' x '.join(map(str, batch))}" if batch else ""),
            "margins": str(len(self.factors)),
            "status": result_repr.format_statuses(self.status),
            "residual": result_repr.format_largest(self.residual),
            "estimated cell error": result_repr.format_largest(self.cell_error),
            "passes": result_repr.format_largest(self.n_iter, ","),
        }

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Say in words what became of the tables, or of one.

        As :meth:`cmfast.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.ipf_nd([[1.0, 2.0], [3.0, 4.0]], [((0, 1), [[1.0, 1.0], [1.0, 1.0]])]).explain()
        'CONVERGED: margins measured again on the result are met; cells are off by an estimated 1e-4 at most'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no tables")
