"""Result of a coefficient of agreement: estimate, interval, and what it was computed from."""

from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import axis_names, plotting, result_frames, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT


@result_repr.add_repr
class Agreement(NamedTuple, Generic[ArrayT]):
    """A coefficient of agreement of several raters, with its interval over items.

    Attributes
    ----------
    estimate : array of float64, shape (...)
        The coefficient, ``(observed - expected) / (1 - expected)``; 1 is perfect agreement, 0 that of chance.
    low, high : array of float64, shape (...)
        Ends of the interval for other items of the same kind, rated by the same raters; NaN where undefined.
    standard_error : array of float64, shape (...)
        Standard error over items, by linearisation.
    observed : array of float64, shape (...)
        Weighted agreement of two ratings of an item.
    expected : array of float64, shape (...)
        The same as expected by chance. Of Light's kappa both are means over the pairs of raters, and so is `estimate`.
    n_items : array of int64, shape (...)
        Number of items that count: with a rating, and for Krippendorff's alpha and Light's kappa with two.
    """

    estimate: ArrayT
    low: ArrayT
    high: ArrayT
    standard_error: ArrayT
    observed: ArrayT
    expected: ArrayT
    n_items: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {axis_names.get_metric(self) or "estimate": result_repr.format_values(self.estimate)}
        parts |= {name: result_repr.format_values(getattr(self, name)) for name in ("low", "high")}
        return parts | {"n_items": result_repr.format_values(self.n_items, ",")}

    def explain(self) -> str:
        """Return a text with the coefficient, its interval, and the agreement observed and expected by chance."""
        fields = [np.asarray(adapter(x).to_host(x), np.float64) for x in self]
        if fields[0].ndim:
            return f"{fields[0].size:,} coefficients"
        estimate, low, high, _, observed, expected, n = (float(x) for x in fields)
        return (
            f"{estimate:.4g}, interval {low:.4g} to {high:.4g}, of {n:,.0f} items; two ratings agree in {observed:.1%} "
            f"and would by chance in {expected:.1%}"
        )

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per element of the batch."""
        return result_frames.make_frame(self._asdict())

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a forest plot with a row per element of the batch.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        estimate, low, high = (np.asarray(adapter(x).to_host(x), np.float64) for x in self[:3])
        metric = axis_names.get_metric(self)
        names = [
            f"{metric} [{','.join(map(str, index))}]".removesuffix(" []").lstrip()
            for index in np.ndindex(estimate.shape)
        ]
        ax = plotting.make_forest_axes(ax, estimate.size)
        plotting.draw_forest(ax, names, estimate.ravel(), low.ravel(), high.ravel())
        return ax
