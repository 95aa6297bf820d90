"""Result type of raking."""

from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import dispatch, result_frames, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT
from cmfast.kernels.status import Status

MEANING = {
    Status.CONVERGED: "totals recomputed from the result are met; the estimated error of the weights is at most 1e-4",
    Status.MAX_ITER: "not converged; these are the last weights, pass a larger max_iter=",
    Status.LIMIT_ONLY: "no dual solution exists; this is the exact limit, with some weights at zero or at a bound",
    Status.INFEASIBLE: "no weights, nonnegative and within the bounds, have these totals",
    Status.TOTALS: "two targets disagree on the attributes that they share, or on the total",
    Status.INVALID: "a value is infinite or NaN, a weight negative, or a category beyond its target",
    Status.ZERO_LINE: "no record adds anything to a target that is not zero",
    Status.RANGE: "weights leave the range of float64",
    Status.UNDETERMINED: "the digits of the totals do not say what all weights are, and more passes would not either",
}


@result_repr.add_repr
class RakeResult(NamedTuple, Generic[ArrayT]):
    """Result of :func:`rake`.

    Attributes
    ----------
    weights : array, shape (..., n)
        Float32 if design weights were given and they and all targets are float32, else float64.
    multipliers : array of float64, shape (..., K), or list of them
        Lambda of each total, in the shape of the targets: not unique where columns depend on each other. Minus infinity
        where a target of zero leaves no record. NaN with LIMIT_ONLY: none exist.
    achieved : array of float64, shape (..., K), or list of them
        What the weights add up to, before any rounding to float32.
    proof : array of float64, shape (..., K), or list of them
        With INFEASIBLE an infeasibility certificate: multipliers of the totals such that no weights reach the weighted
        sum of the targets; else NaN.
    residual : array of float64, shape (...)
        The largest distance of a total from its target over that, or a thousandth of what the total would be without
        signs, if that is more; "linear", whose weights may be zero: or a millionth of what that was of the design
        weights. With attributes the distances in all categories of a target over the sum of these. Of
        targets that need not be met: from the totals that the multipliers allow.
    weight_error : array of float64, shape (...)
        Estimated largest relative error of a weight ("linear": relative to its design weight), not a bound: the last
        step, and the effect of rounding the targets once. Of 11,925 CONVERGED solutions with known exact weights, 70
        were further off than estimated, by a factor of at most 2.2; with "logit", a low bound of zero and weights near
        it, 40 of 1,267, by a factor of at most 3.6.
    n_iter : array of int64, shape (...)
        Passes over the records.
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`.
    """

    weights: ArrayT
    multipliers: Any
    achieved: Any
    proof: Any
    residual: ArrayT
    weight_error: ArrayT
    n_iter: ArrayT
    status: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        batch = dispatch.shape_of(self.status)
        return {
            "records": f"{dispatch.shape_of(self.weights)[-1]:,}"
            + (f", a batch of {' x '.join(map(str, batch))}" if batch else ""),
            "status": result_repr.format_statuses(self.status),
            "residual": result_repr.format_largest(self.residual),
            "estimated weight error": result_repr.format_largest(self.weight_error),
            "passes": result_repr.format_largest(self.n_iter, ","),
        }

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a text that explains the status of the weights, or of one element of the batch.

        As :meth:`cmfast.results.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.rake([[1.0], [2.0]], [6.0]).explain()
        'CONVERGED: totals recomputed from the result are met; the estimated error of the weights is at most 1e-4'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no sets of weights")

    def effective_size(self) -> ArrayT:
        """Return Kish's effective sample size: the square of the sum of the weights, over the sum of their squares.

        So many records with equal weights estimate a mean as precisely as these, if the weights have nothing to do with
        what is measured. The number of records over it is Kish's design effect, one plus the squared coefficient of
        variation of the weights; it does not know what raking itself gains.

        Returns
        -------
        array of float64, shape (...)
            NaN for weights that are NaN, or whose sum is 0. Does not synchronise a device. Reproducible.

        References
        ----------
        Kish, Survey sampling, 1965.

        Examples
        --------
        >>> import cmfast
        >>> result = cmfast.rake([[0, 0, 0, 1]], [(0, [3.0, 3.0])])
        >>> size = result.effective_size()
        >>> round(float(size), 6), round(float(4 / size), 6)
        (3.0, 1.333333)
        """
        bare: Any = adapter(self.weights).unwrap(self.weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: ArrayT = adapter(bare).evaluate(_compute_effective_size, bare)
        return found

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the weight of each record."""
        return result_frames.make_frame({"weight": self.weights}, ("record",))


def _compute_effective_size(weights: Any) -> Any:
    """Return one over the sum of the squared shares of the weights."""
    weights = adapter(weights).cast(weights, np.float64)
    shares = weights / weights.sum(-1)[..., None]
    return 1.0 / (shares * shares).sum(-1)
