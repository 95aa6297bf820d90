"""What balancing returns."""

from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT
from cmfast.kernels.shared.balancing import REASONS
from cmfast.kernels.status import Status

MEANING = {
    Status.CONVERGED: "all bins that are left have their sums, measured again with the weights that are returned",
    Status.MAX_ITER: "not converged; these are the last weights, give a larger max_iter=",
    Status.LIMIT_ONLY: "no weights exist: some pixels would have to vanish; leave their bins out by min_nnz= or keep=",
    Status.INFEASIBLE: "no weights exist: some bins must add up to more than those that they meet; leave them out",
    Status.TOTALS: "the sums of two groups of bins differ",
    Status.INVALID: "a number is NaN, infinite or negative, a bin is not there, or the matrix is not symmetric",
    Status.ZERO_LINE: "no bin is left",
    Status.RANGE: "weights leave the range of float64",
    Status.UNDETERMINED: "the sums are met, but their digits do not say what all weights are",
}


@result_repr.add_repr
class BalanceResult(NamedTuple, Generic[ArrayT]):
    """What :func:`balance` returns.

    Attributes
    ----------
    weights : array of float64, shape (n,)
        What rows and columns are multiplied by; NaN where a bin is left out, and where there is no answer.
    reason : array of int8, shape (n,)
        Why a bin is left out: 0, it is not; 1 `min_nnz`, 2 `min_count`, 3 `mad_max`, 4 `keep`, 5: no pixel is left.
    proof : array of int8, shape (n,)
        With INFEASIBLE 1 and 3 for bins whose sums are too large together, 2 and 3 for all that they have pixels with.
        With LIMIT_ONLY 1 for bins of which some pixel is zero in every matrix with these sums. Else 0.
    residual : array of float64, shape () or (blocks,)
        What all sums are off, over what they should add up to.
    worst_row : array of float64, shape () or (blocks,)
        The most that a sum is off, over what it should be.
    n_iter : array of int64, shape () or (blocks,)
        Passes over the pixels.
    status : array of int8, shape () or (blocks,)
        Codes of :class:`cmfast.Status`.
    """

    weights: ArrayT
    reason: ArrayT
    proof: ArrayT
    residual: ArrayT
    worst_row: ArrayT
    n_iter: ArrayT
    status: ArrayT

    @property
    def kept(self) -> Any:
        """Which bins are not left out, an array of bool, shape (n,)."""
        return adapter(self.reason).evaluate(lambda reason: reason == 0, self.reason)

    def _parts(self) -> dict[str, str]:
        found = np.bincount(adapter(self.reason).to_host(self.reason), minlength=len(REASONS)).tolist()
        out = [f"{number:,} {name}" for name, number in zip(REASONS, found, strict=True) if number]
        return {
            "bins": ", ".join(out) or "none",
            "status": result_repr.format_statuses(self.status),
            "residual": result_repr.format_largest(self.residual),
            "worst row": result_repr.format_largest(self.worst_row),
            "passes": result_repr.format_largest(self.n_iter, ","),
        }

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Say in words what became of the matrix, or of its blocks.

        As :meth:`cmfast.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.balance(([0, 0, 1], [1, 2, 2], [1, 2, 3], 3), symmetric="upper").explain()
        'CONVERGED: all bins that are left have their sums, measured again with the weights that are returned'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no blocks")
