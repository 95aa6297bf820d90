"""Result of a coefficient of agreement: estimate, interval, and what it was computed from."""

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import numpy as np

from cmfast._core import axis_names, result_frames, result_repr
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT
from cmfast._core.results_by_name import ResultsByName, draw_forest
from cmfast._core.usual_options import explain_options_of_methods


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

    def _rows(self) -> list[dict[str, Any]]:
        """Return a dict per element of the batch: its index and the fields."""
        parts = [np.asarray(adapter(x).to_host(x)) for x in self]
        return [
            axis_names.name_row({}, index)
            | {key: part[index].item() for key, part in zip(self._fields, parts, strict=True)}
            for index in np.ndindex(parts[0].shape)
        ]

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
        return draw_forest(ax, [{axis_names.METRIC: axis_names.get_metric(self), **row} for row in self._rows()])


@explain_options_of_methods
@result_repr.add_compute
@dataclass(eq=False, repr=False)
class AgreementsByCoefficient(ResultsByName[Agreement[ArrayT]], Generic[ArrayT]):
    """Several coefficients of agreement: a mapping from the name of each to its :class:`Agreement`."""

    _column = "coefficient"

    def explain(self) -> str:
        """Return the texts of all coefficients, a line each."""
        return super().explain()

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per coefficient and element of the batch."""
        return super().to_pandas()

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a forest plot with a row per coefficient and element of the batch.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return super().plot(ax=ax)
