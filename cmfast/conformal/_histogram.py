"""Conformal calibration from histograms of scores, so that clients need not share the scores themselves."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cmfast._core import dispatch, failures, lazy, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast._core.usual_options import explain_options
from cmfast._files.archive import Parts, demand
from cmfast.conformal._batched_counts import BatchedCounts
from cmfast.conformal._threshold import Alpha, parse_alphas
from cmfast.kernels.shared.conformal import quantile_rank

MOST_HISTOGRAM_BINS = 1 << 28


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class ScoreHistogram(BatchedCounts):
    """Histogram of calibration scores on a fixed grid. Returned by :func:`score_histogram`.

    ``a + b`` merges the histograms of two parts of a calibration exactly; ``sum(axis)`` merges an axis of the batch.
    Negative counts are refused, and 2**61 scores or more raise OverflowError, so counts never overflow.

    Attributes
    ----------
    counts : array of int64, shape (..., bins + 1)
        Number of scores in every bin; the last entry counts scores beyond the grid, and NaN.
    top : float
        Upper end of the grid; it begins at 0 and has bins of equal width.
    """

    counts: Array
    top: float

    _CORES: ClassVar[dict[str, int]] = {"counts": 1}
    _SAME: ClassVar[tuple[str, ...]] = ("top",)
    _TOTALS: ClassVar[tuple[str, ...]] = ("counts",)
    _STORED: ClassVar[Parts] = {"batch": (("<i8",), 1), "counts": (("<i8",), 2), "top": (("<f8",), 1)}

    @property
    def bins(self) -> int:
        """Number of bins of the grid."""
        return int(dispatch.shape_of(self.counts)[-1]) - 1

    def threshold(self, alpha: Alpha) -> Array:
        """Return the upper edge of the bin that contains the score which :func:`threshold` would select.

        Parameters
        ----------
        alpha : float, Decimal or Fraction, or several
            As for :func:`threshold`.

        Returns
        -------
        array of float64, shape (..., A)
            Never below the exact threshold of the scores, and at most one bin above it, so sets never cover less.
            Infinity if there are too few scores, or, with a warning, if it is beyond the grid. Library and device of
            the counts.

        Raises
        ------
        TypeError, ValueError
            An alpha that is not a number above 0 and below 1.

        Notes
        -----
        Synchronises the device. Reproducible: any split of the scores into parts gives the same bits.

        Examples
        --------
        >>> from cmfast import conformal
        >>> a = conformal.score_histogram([0.1, 0.7, 0.4], bins=10)
        >>> b = conformal.score_histogram([0.2, 0.95], bins=10)
        >>> (a + b).threshold([0.5, 0.2, 0.1])
        array([0.4, 1. , inf])
        """
        alphas = parse_alphas(alpha)
        host = adapter(self.counts).to_host(self.counts)
        running = np.cumsum(host.reshape(-1, self.bins + 1), -1)
        out, beyond = np.full((len(running), len(alphas)), np.inf), 0
        for b, row in enumerate(running):
            n = int(row[-1])
            for a, one in enumerate(alphas):
                rank = int(quantile_rank(n, *one.as_integer_ratio()))
                at = int(np.searchsorted(row, rank))
                if at < self.bins:
                    out[b, a] = (at + 1) * (self.top / self.bins)
                elif rank <= n:
                    beyond = n - int(row[-2])
        if beyond:
            failures.warn_diagnostic(
                f"a threshold is beyond the grid and infinite, as {beyond} scores are above top={self.top:g}; count "
                "scores with a larger top="
            )
        counts = adapter(self.counts).unwrap(self.counts)
        return adapter(counts).send(out.reshape(*host.shape[:-1], len(alphas)), counts)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per bin: its ends, the last being infinite, and its number of scores."""
        edges = np.append(np.arange(self.bins + 1) * (self.top / self.bins), np.inf)
        return result_frames.make_frame({"low": edges[:-1], "high": edges[1:], "count": self.counts}, ("bin",))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the scores within the grid, a line per batch element; narrow bins are merged into at most 100.

        The title counts the scores beyond the grid: a larger `top=` would hold them.

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
        >>> from cmfast import conformal
        >>> ax = conformal.score_histogram([0.1, 0.7, 0.4, 2.0], bins=4).plot()
        >>> ax.patches[0].get_data().values.tolist(), ax.get_title()
        ([1, 1, 1, 0], '1 beyond the grid')
        """
        counts = result_frames.copy_to_host(self.counts).reshape(-1, self.bins + 1)
        first = np.arange(0, self.bins, -(-self.bins // plotting.MOST_BINS))
        heights = np.add.reduceat(counts[:, : self.bins], first, axis=1)
        edges = np.append(first, self.bins) * (self.top / self.bins)
        names = [f"element {k}" for k in range(len(counts))]
        ax = plotting.draw_steps(ax, [(edges, row) for row in heights], names, ("score", "scores in a bin"))
        ax.set_title(f"{int(counts[:, -1].sum()):,} beyond the grid", fontsize="medium")
        return ax

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return {"counts": result_repr.format_shape(self.counts, 1), "top": f"{self.top:.4g}"}

    def explain(self) -> str:
        """Return a text with the number of bins and the range of the grid."""
        return f"scores in {self.bins:,} bins from 0 to {self.top:.4g}, and beyond"

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts of a saved state."""
        return super()._get_parts() | {"top": np.array([self.top])}

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Rebuild the histogram from the parts of a saved state; refuse inconsistent parts."""
        demand(len(parts["top"]) == 1, "its top is not one number")
        top = float(parts["top"][0])
        demand(0 < top < np.inf, "its top cannot be")
        found = cls._unpack_arrays(parts)
        demand(found["counts"].shape[-1] >= 2, "its counts have no cells")
        return cls(**found, top=top)


@explain_options
def score_histogram(
    s: Array, /, *, bins: int = 4096, top: float = 1.0, num_threads: int | None = None
) -> ScoreHistogram:
    """Count calibration scores in the bins of a fixed grid, so that clients need not send the scores themselves.

    Parameters
    ----------
    s : array, shape (..., n)
        Nonnegative scores, for example from :func:`scores`; NaN counts as infinity.
    bins : int
        Number of bins of the grid.
    top : float
        Upper end of the grid: 1 for "aps" and "lac", ``1 + lam * C`` for "raps" and "saps", C for "top_k".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    ScoreHistogram
        The array is in the library and on the device of `s`.

    Raises
    ------
    TypeError, ValueError
        An array that is not real; `bins` below 1; a `top` that is not above 0.

    See Also
    --------
    threshold : Exact thresholds of scores.

    Notes
    -----
    A score is counted in the first bin whose upper edge it does not exceed; negative scores in the first bin. Bad
    values: NaN counts as infinity and is not reported. Does not synchronise. Reproducible: integers, the same for any
    split. A Dask array gives a ``dask.delayed.Delayed``, whose ``threshold(alpha)`` is one too.

    Examples
    --------
    >>> from cmfast import conformal
    >>> conformal.score_histogram([0.1, 0.5, 0.6], bins=2).counts
    array([2, 1, 0])
    """
    bins = validate.count("bins", bins, least=1, most=MOST_HISTOGRAM_BINS)
    top = validate.positive("top", top)
    num_threads = validate.num_threads(num_threads)
    options: dict[str, Any] = {"bins": bins, "top": top, "num_threads": num_threads}
    if lazy.are_lazy(s):
        counts = lazy.dask().sum_blocks(_count_bins, {"s": s}, 1, **options)
        lazily: ScoreHistogram = lazy.dask().call_delayed(ScoreHistogram, counts, top)
        return lazily
    return ScoreHistogram._wrap_arrays(_count_bins(s, **options), top)


def _count_bins(s: Array, *, bins: int, top: float, num_threads: int | None) -> Array:
    """Validate the scores and count them by bin."""
    (s,) = dispatch.adopt(s=s)
    validate.real(s=s)
    shape = dispatch.shape_of(s)
    if not shape:
        validate.refuse("s", "of shape (..., n)", f"shape {shape}")
    with validate.explain_memory_error(8 * (bins + 1) * math.prod(shape[:-1]), bins=bins):
        return dispatch.call("score_histogram", s, bins=bins, width=top / bins, num_threads=num_threads)
