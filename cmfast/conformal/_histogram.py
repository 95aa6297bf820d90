"""Calibration without sharing scores: how many there are in each cell of a fixed grid."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cmfast._core import dispatch, lazy, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast._files.archive import Parts, demand
from cmfast.conformal._counts import BatchedCounts
from cmfast.conformal._threshold import Alpha, levels
from cmfast.kernels.shared.conformal import quantile_rank

MOST_HISTOGRAM_BINS = 1 << 28


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class ScoreHistogram(BatchedCounts):
    """How many scores are in each cell of a grid. Made by :func:`score_histogram`.

    ``a + b`` merges those of two parts of a calibration exactly; ``sum(axis)`` those of an axis of the batch. Counts
    that are negative are refused, and 2**61 scores or more are an OverflowError: nothing wraps.

    Attributes
    ----------
    counts : array of int64, shape (..., bins + 1)
        Scores in every cell; the last one holds those beyond the grid, NaN too.
    top : float
        Where the grid ends; it begins at 0, and all cells are equally wide.
    """

    counts: Array
    top: float

    _CORES: ClassVar[dict[str, int]] = {"counts": 1}
    _SAME: ClassVar[tuple[str, ...]] = ("top",)
    _TOTALS: ClassVar[tuple[str, ...]] = ("counts",)
    _STORED: ClassVar[Parts] = {"batch": (("<i8",), 1), "counts": (("<i8",), 2), "top": (("<f8",), 1)}

    @property
    def bins(self) -> int:
        """Cells of the grid."""
        return int(dispatch.shape_of(self.counts)[-1]) - 1

    def threshold(self, alpha: Alpha) -> Array:
        """Return the upper edge of the cell that holds the score which :func:`threshold` selects.

        Parameters
        ----------
        alpha : float, Decimal or Fraction, or several
            As for :func:`threshold`.

        Returns
        -------
        array of float64, shape (..., A)
            Never below the threshold of the scores themselves, and at most one cell above it, so sets never cover less.
            Infinity where there are too few scores, or it lies beyond the grid. Library and device of the counts.

        Raises
        ------
        TypeError, ValueError
            An alpha that is no number above 0 and below 1.

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
        alphas = levels(alpha)
        host = adapter(self.counts).to_host(self.counts)
        running = np.cumsum(host.reshape(-1, self.bins + 1), -1)
        out = np.full((len(running), len(alphas)), np.inf)
        for b, row in enumerate(running):
            n = int(row[-1])
            for a, one in enumerate(alphas):
                at = int(np.searchsorted(row, quantile_rank(n, *one.as_integer_ratio())))
                if at < self.bins:
                    out[b, a] = (at + 1) * (self.top / self.bins)
        counts = adapter(self.counts).unwrap(self.counts)
        return adapter(counts).send(out.reshape(*host.shape[:-1], len(alphas)), counts)

    def _parts(self) -> dict[str, str]:
        return {"counts": result_repr.format_shape(self.counts, 1), "top": f"{self.top:.4g}"}

    def explain(self) -> str:
        """Say in words what is counted."""
        return f"scores in {self.bins:,} cells from 0 to {self.top:.4g}, and beyond"

    def _stored(self) -> dict[str, Any]:
        return super()._stored() | {"top": np.array([self.top])}

    @classmethod
    def _of_stored(cls, parts: dict[str, Any]) -> Self:
        demand(len(parts["top"]) == 1, "its top is not one number")
        top = float(parts["top"][0])
        demand(0 < top < np.inf, "its top cannot be")
        found = cls._unpacked(parts)
        demand(found["counts"].shape[-1] >= 2, "its counts have no cells")
        return cls(**found, top=top)


def score_histogram(
    s: Array, /, *, bins: int = 4096, top: float = 1.0, num_threads: int | None = None
) -> ScoreHistogram:
    """Count calibration scores by the cells of a grid, so that clients need not send the scores themselves.

    Parameters
    ----------
    s : array, shape (..., n)
        Scores, of :func:`scores` or others that are not negative; NaN counts as infinity.
    bins : int
        Cells of the grid.
    top : float
        Where it ends: 1 for "aps" and "lac", ``1 + lam * C`` for "raps".
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    ScoreHistogram
        Its array is of the library and device of `s`.

    Raises
    ------
    TypeError, ValueError
        An array that is not real; `bins` below 1; a `top` that is not above 0.

    See Also
    --------
    threshold : of scores that are at hand.

    Notes
    -----
    A score belongs to the first cell whose upper edge it does not exceed, one below 0 to the first. Bad values: NaN
    counts as infinity, nothing is reported. Does not synchronise. Reproducible: integers, the same for any split. Of a
    Dask array it is a ``dask.delayed.Delayed``, whose ``threshold(alpha)`` is one as well.

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
        counts = lazy.dask().sum_blocks(_counted, {"s": s}, 1, **options)
        lazily: ScoreHistogram = lazy.dask().call_delayed(ScoreHistogram, counts, top)
        return lazily
    return ScoreHistogram._of(_counted(s, **options), top)


def _counted(s: Array, *, bins: int, top: float, num_threads: int | None) -> Array:
    (s,) = dispatch.adopt(s=s)
    validate.real(s=s)
    shape = dispatch.shape_of(s)
    if not shape:
        validate.refuse("s", "of shape (..., n)", f"shape {shape}")
    with validate.explain_memory_error(8 * (bins + 1) * math.prod(shape[:-1]), bins=bins):
        return dispatch.call("score_histogram", s, bins=bins, width=top / bins, num_threads=num_threads)
