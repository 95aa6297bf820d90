"""Forest plot of comparisons: differences and their intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cmfast._core import plotting, result_repr, validate
from cmfast.uncertainty import _models
from cmfast.uncertainty._comparison import Comparison


@result_repr.add_repr_of_display
class ComparisonDisplay:
    """Forest plot of differences between classifiers and their intervals.

    Which classifier is higher is decided by p, see `Comparison.verdict`: an interval may exclude 0 if few samples
    differ.

    Parameters
    ----------
    names : list of str
        Name of every row.
    difference, low, high : array, shape (n,)
        The differences and their intervals.
    confidence_level : float
        Level of the intervals, for the axis label.

    Attributes
    ----------
    ax_, figure_, lines_ : matplotlib objects
        The drawn objects, after :meth:`plot`.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> from cmfast.display import ComparisonDisplay
    >>> T = uncertainty.paired_counts(
    ...     [0, 0, 1, 1] * 8, [0, 1, 1, 1] * 8, [0, 0, 1, 0] * 8
    ... )
    >>> display = ComparisonDisplay.from_comparisons(
    ...     uncertainty.compare(T, ["accuracy", "recall"])
    ... )
    >>> display.names
    ['accuracy', 'recall, 0', 'recall, 1']
    """

    def __init__(self, names: list[str], *, difference: Any, low: Any, high: Any, confidence_level: float) -> None:
        self.names = names
        self._order = _models.describe_order(None)
        self.difference, self.low, self.high, self.confidence_level = difference, low, high, confidence_level

    def _describe(self) -> str:
        """Return what the repr shows."""
        n = len(self.names)
        return f"{n} difference{'s' * (n != 1)}, level {self.confidence_level:g}"

    @classmethod
    def from_comparisons(cls, comparisons: "Comparison | Mapping[str, Comparison]", /) -> "ComparisonDisplay":
        """Create the display from the result of :func:`compare`.

        Parameters
        ----------
        comparisons : Comparison, or dict of str to Comparison
            Comparisons of one metric or of several, with every group and class.

        Returns
        -------
        ComparisonDisplay
            The display, not drawn yet.

        Raises
        ------
        TypeError, ValueError
            Other types; no comparison.
        """
        given: Any = [comparisons] if isinstance(comparisons, Comparison) else comparisons
        every = list(given.values()) if isinstance(given, Mapping) else given
        if not isinstance(every, list) or not all(isinstance(one, Comparison) for one in every):
            wanted = "a Comparison or a dict of them, from uncertainty.compare"
            validate.refuse("comparisons", wanted, type(comparisons).__name__, TypeError)
        if not every:
            validate.refuse("comparisons", "at least one", "none")
        names = [str(row[0]) for one in every for row in one._rows()]
        fields = {
            field: np.concatenate([np.ravel(getattr(one, field)) for one in every])
            for field in ("difference", "low", "high")
        }
        made = cls(names, **fields, confidence_level=every[0].confidence_level)
        orders = {_models.describe_order(one) for one in every}
        if len(orders) == 1:
            made._order = orders.pop()
        return made

    def plot(self, *, ax: Any = None) -> "ComparisonDisplay":
        """Draw a disc for every difference and a line for its interval; 0 means no difference.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        ComparisonDisplay
            The display itself; `ax_`, `figure_` and `lines_` are set. The figure is not shown.
        """
        ax = plotting.make_forest_axes(ax, len(self.names))
        ax.axvline(0.0, color="0.6", linewidth=1)
        self.lines_ = plotting.draw_forest(ax, self.names, self.difference, self.low, self.high)
        ax.set_xlabel(f"{self._order}, {100 * self.confidence_level:g} % intervals")
        self.ax_, self.figure_ = ax, ax.figure
        return self
