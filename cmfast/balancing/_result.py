"""Result type of matrix balancing."""

from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import plot_style, plotting, result_frames, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT
from cmfast.kernels.shared.balancing import REASONS
from cmfast.kernels.status import Status

MOST_LINEAR = 10.0  # ratio of the largest to the smallest weight up to which the scale is linear
MEANING = {
    Status.CONVERGED: "all kept bins have their sums, recomputed from the returned weights",
    Status.MAX_ITER: "not converged; these are the last weights, pass a larger max_iter=",
    Status.LIMIT_ONLY: "no weights exist: some pixels would have to be zero; leave their bins out by min_nnz= or keep=",
    Status.INFEASIBLE: "no weights exist: some bins must sum to more than their partners; leave them out",
    Status.TOTALS: "the sums of two groups of bins differ",
    Status.INVALID: "a value is NaN, infinite or negative, a bin is out of range, or the matrix is not symmetric",
    Status.ZERO_LINE: "no bin is left",
    Status.RANGE: "weights leave the range of float64",
    Status.UNDETERMINED: "the sums are accurate, but their rounding leaves some weights undetermined",
}


@result_repr.add_repr
class BalanceResult(NamedTuple, Generic[ArrayT]):
    """Result of :func:`balance`.

    Attributes
    ----------
    weights : array of float64, shape (n,)
        Factor of each row and column; NaN for bins left out and for failed blocks.
    reason : array of int8, shape (n,)
        Why a bin is left out: 0 kept, 1 `min_nnz`, 2 `min_count`, 3 `mad_max`, 4 `keep`, 5 no pixel left.
    proof : array of int8, shape (n,)
        Infeasibility certificate. With INFEASIBLE 1 and 3 mark bins whose sums are together too large (Hall violator),
        2 and 3 all their partners. With LIMIT_ONLY 1 marks bins with a pixel that is zero in every matrix with these
        sums. Else 0.
    residual : array of float64, shape () or (blocks,)
        Total absolute error of the sums, over their total.
    worst_row : array of float64, shape () or (blocks,)
        Largest relative error of a sum.
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
        """Mask of the bins that are kept: bool, shape (n,)."""
        return adapter(self.reason).evaluate(lambda reason: reason == 0, self.reason)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
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
        """Return a text that explains the status of the matrix, or of its blocks.

        As :meth:`cmfast.results.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.balance(
        ...     ([0, 0, 1], [1, 2, 2], [1, 2, 3], 3), symmetric="upper"
        ... ).explain()
        'CONVERGED: all kept bins have their sums, recomputed from the returned weights'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no blocks")

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per bin."""
        return result_frames.make_frame({"weight": self.weights, "reason": self.reason, "proof": self.proof}, ("bin",))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the weight of each kept bin, and below it the bins left out, by reason.

        The scale is logarithmic if the largest weight is more than ten times the smallest. Weights far above the others
        mark bins with few counts, which `min_nnz=` and `mad_max=` leave out.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Examples
        --------
        >>> import cmfast
        >>> result = cmfast.balance(
        ...     ([0, 0, 1], [1, 2, 2], [1, 2, 3], 4), symmetric="upper"
        ... )
        >>> [text.get_text() for text in result.plot().get_legend().get_texts()]
        ['left out: empty']
        """
        ax = plotting.get_axes(ax, (6.4, 3.4))
        weights, reason = map(result_frames.copy_to_host, (self.weights, self.reason))
        size = plotting.choose_dot_points(len(weights))
        ax.plot(weights, ".", color=plotting.match_palette(ax).off_diagonal, markersize=size)
        colours = plot_style.list_line_colours(plotting.match_palette(ax).ground)[1:]
        for code in np.unique(reason[reason > 0]).tolist():
            bins = np.flatnonzero(reason == code)
            height = np.full(len(bins), 0.03)
            look = {"color": colours[code - 1], "label": f"left out: {REASONS[code]}"}
            ax.plot(bins, height, "|", transform=ax.get_xaxis_transform(), **look)
        known = weights[weights > 0]
        wide = known.size and known.max() > MOST_LINEAR * known.min()
        ax.set(
            xlabel="bin", ylabel="weight", xlim=(-0.5, max(len(weights), 1) - 0.5), yscale="log" if wide else "linear"
        )
        plotting.set_integer_ticks(ax.xaxis)
        plotting.draw_legend_above(ax)
        return ax
