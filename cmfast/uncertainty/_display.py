"""A picture of comparisons: what differs, and how sure that is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cmfast._core import plotting, validate
from cmfast.uncertainty._comparison import Comparison


class ComparisonDisplay:
    """Differences and their intervals, one below the other: a forest plot.

    Which of two is higher `Comparison.verdict` says, by p: an interval may leave out 0 where few samples differ.

    Parameters
    ----------
    names : list of str
        What every line is of.
    difference, low, high : array, shape (n,)
        The differences and their intervals.
    level : float
        Of the intervals, for the label.

    Attributes
    ----------
    ax_, figure_, lines_ : matplotlib objects
        What was drawn, after :meth:`plot`.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> T = uncertainty.paired_counts([0, 0, 1, 1] * 8, [0, 1, 1, 1] * 8, [0, 0, 1, 0] * 8)
    >>> display = uncertainty.ComparisonDisplay.from_comparisons(uncertainty.compare(T, ["accuracy", "recall"]))
    >>> display.names
    ['accuracy', 'recall, 0', 'recall, 1']
    """

    def __init__(self, names: list[str], *, difference: Any, low: Any, high: Any, level: float) -> None:
        self.names = names
        self.difference, self.low, self.high, self.level = difference, low, high, level

    @classmethod
    def from_comparisons(cls, comparisons: "Comparison | Mapping[str, Comparison]", /) -> "ComparisonDisplay":
        """Take over what :func:`compare` returned.

        Parameters
        ----------
        comparisons : Comparison, or dict of str to Comparison
            Of one metric, or of several; of every group and class.

        Returns
        -------
        ComparisonDisplay
            Not drawn yet.

        Raises
        ------
        TypeError, ValueError
            Something else; none.
        """
        given: Any = [comparisons] if isinstance(comparisons, Comparison) else comparisons
        every = list(given.values()) if isinstance(given, Mapping) else given
        if not isinstance(every, list) or not all(isinstance(one, Comparison) for one in every):
            wanted = "what uncertainty.compare returned"
            validate.refuse("comparisons", wanted, type(comparisons).__name__, TypeError)
        if not every:
            validate.refuse("comparisons", "at least one", "none")
        names: list[str] = []
        for one in every:
            labels = list(one.axes.values())
            for place in np.ndindex(np.shape(one.difference)):
                parts = [str(own[k]) for own, k in zip(labels, place, strict=True)]
                names.append(", ".join([one.name, *parts]))
        fields = {
            field: np.concatenate([np.ravel(getattr(one, field)) for one in every])
            for field in ("difference", "low", "high")
        }
        return cls(names, **fields, level=every[0].level)

    def plot(self, *, ax: Any = None) -> "ComparisonDisplay":
        """Draw a disc for every difference, and a line for its interval; 0 is where the two are alike.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; default: a new figure.

        Returns
        -------
        ComparisonDisplay
            Itself; `ax_`, `figure_` and `lines_` are set. Nothing is shown.
        """
        ax = plotting.make_forest_axes(ax, len(self.names))
        ax.axvline(0.0, color="0.6", linewidth=1)
        self.lines_ = plotting.draw_forest(ax, self.names, self.difference, self.low, self.high)
        ax.set_xlabel(f"first less second, {100 * self.level:g} % intervals")
        self.ax_, self.figure_ = ax, ax.figure
        return self
