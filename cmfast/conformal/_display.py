"""Plots of prediction sets: correlation, confusion matrix, coverage by class, set sizes."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, plot_style, plotting, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.conformal import _options
from cmfast.conformal._coverage import coverage_confusion
from cmfast.conformal._options import find_class_ids
from cmfast.conformal._prediction_sets import PredictionSets
from cmfast.conformal._set_correlation import ccm
from cmfast.conformal._threshold import Alpha, parse_alphas
from cmfast.counting import confusion_matrix

UNDEFINED = "0.6"  # gray, not a colour of the correlation scale


@result_repr.add_repr_of_display
class CcmDisplay:
    """Plot of the correlation of classes in prediction sets, the confusion matrix, coverage by class and set sizes.

    Parameters
    ----------
    correlation : array, shape (C, C)
        Correlation of two classes over the sets.
    sizes : array of int, shape (C + 1,)
        Number of rows by the size of their set.
    confusion : array, shape (C, C), optional
        Rows are the truth, columns the prediction.
    coverage : array, shape (C,), optional
        Share of the rows of every class whose set contains it.
    alpha : float, optional
        Nominal error rate of the sets: draws a line at the nominal coverage.

    Attributes
    ----------
    axes_, figure_ : matplotlib objects
        The drawn objects, after :meth:`plot`.

    See Also
    --------
    ccm, coverage_confusion : The values without a plot.

    Examples
    --------
    >>> from cmfast import conformal
    >>> from cmfast.display import CcmDisplay
    >>> P = [[0.5, 0.375, 0.125], [0.25, 0.625, 0.125], [0.125, 0.25, 0.625]]
    >>> sets = conformal.prediction_sets(P, [0.9], randomised=False)
    >>> display = CcmDisplay.from_sets(sets, [0, 1, 2])
    >>> display.sizes.tolist(), display.coverage.tolist()
    ([0, 0, 3, 0], [1.0, 1.0, 1.0])
    """

    def __init__(
        self, correlation: Any, sizes: Any, *, confusion: Any = None, coverage: Any = None, alpha: float | None = None
    ) -> None:
        self.correlation = correlation
        self.sizes = sizes
        self.confusion = confusion
        self.coverage = coverage
        self.alpha = None if alpha is None else float(parse_alphas(alpha)[0])

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"{len(self.sizes)} sizes of sets"

    @classmethod
    def from_sets(
        cls,
        sets: PredictionSets,
        /,
        y: Array | None = None,
        y_pred: Array | None = None,
        *,
        index: int = 0,
        alpha: Alpha | None = None,
    ) -> "CcmDisplay":
        """Compute the data of the plot from the prediction sets of one alpha.

        Parameters
        ----------
        sets : PredictionSets
            Prediction sets without batch axes, from :func:`prediction_sets`.
        y : array of int, shape (n,), optional
            The true label of every row, for the coverage.
        y_pred : array of int, shape (n,), optional
            The predicted label of every row, for the confusion matrix.
        index : int
            Index of the alpha to plot.
        alpha : float, Decimal or Fraction, optional
            Value of that alpha, which sets do not store, for the line at the nominal coverage.

        Returns
        -------
        CcmDisplay
            The display, not drawn yet.

        Raises
        ------
        TypeError, ValueError
            `sets` is not a PredictionSets, or has batch axes; an index out of range; labels of another shape; an alpha
            that is not a number above 0 and below 1.

        Notes
        -----
        Synchronises the device.
        """
        if not isinstance(sets, PredictionSets):
            validate.refuse("sets", _options.WANTED_SETS, type(sets).__name__, TypeError)
        shape = dispatch.shape_of(sets.sizes)
        if len(shape) != 2:
            validate.refuse("sets", "without a batch, of shape (A, n)", f"shape {shape}")
        index = validate.count("index", index, most=shape[0] - 1)
        if y is None and y_pred is not None:
            validate.refuse("y_pred", "None without y", "an array")
        if alpha is not None:
            parse_alphas(alpha)
        to_host = adapter(sets.size_counts).to_host
        correlation, sizes = to_host(ccm(sets).correlation())[index], to_host(sets.size_counts)[index]
        confusion = coverage = None
        if y is not None:
            coverage = np.diagonal(to_host(coverage_confusion(sets, y).rates())[index])
        if y_pred is not None:
            known = (sets.labels, sets.n_classes, sets._class_names)
            ids = (find_class_ids(sets.packed, labels, *known) for labels in (y, y_pred))
            confusion = to_host(confusion_matrix(*ids, n_classes=sets.n_classes))
        return cls(correlation, sizes, confusion=confusion, coverage=coverage, alpha=alpha)

    def plot(self) -> "CcmDisplay":
        """Draw all available parts side by side in a new figure.

        Returns
        -------
        CcmDisplay
            The display itself; `axes_` and `figure_` are set. The figure is not shown.
        """
        parts = [self._correlation, self._confusion, self._coverage, self._sizes]
        held = [self.correlation, self.confusion, self.coverage, self.sizes]
        drawn = [part for part, data in zip(parts, held, strict=True) if data is not None]
        self.figure_, self.axes_ = plotting.make_axes_row(len(drawn))
        for part, ax in zip(drawn, self.axes_, strict=True):
            part(ax)
            plotting.set_integer_ticks(ax.xaxis)
        return self

    def _correlation(self, ax: Any) -> None:
        """Draw the correlation matrix as an image."""
        draw_correlation(ax, self.correlation)

    def _confusion(self, ax: Any) -> None:
        """Draw the confusion matrix on a log scale."""
        shown = self.confusion > 0
        colours = plotting.match_palette(ax)
        scale = plotting.make_colour_map(plot_style.make_ramp(colours.ground, colours.off_diagonal), colours.ground)
        low, high = plotting.get_scale_limits(np.asarray(self.confusion, np.float64), None, None, log=True)
        plotting.paint_cells(ax, self.confusion, shown, scale, low=low, high=high, log=True)
        ax.set(title="confusion matrix, log", xlabel="predicted", ylabel="true")
        plotting.set_integer_ticks(ax.yaxis)

    def _coverage(self, ax: Any) -> None:
        """Draw a bar per class for coverage, and the nominal level."""
        ax.bar(np.arange(len(self.coverage)), self.coverage, color="0.6")
        ax.set(title="coverage by class", xlabel="class", ylim=(0, 1))
        if self.alpha is not None:
            ax.axhline(1 - self.alpha, color="black", linestyle="--", linewidth=1)

    def _sizes(self, ax: Any) -> None:
        """Draw a histogram of set sizes."""
        ax.bar(np.arange(len(self.sizes)), self.sizes, color="0.6")
        ax.set(title="rows by size of their set", xlabel="labels in the set")


def draw_correlation(ax: Any, correlation: Any) -> None:
    """Draw the correlation matrix of classes over prediction sets as an image."""
    shown = ax.imshow(correlation, cmap=plotting.SIGNED, vmin=-1, vmax=1)
    ax.set_facecolor(UNDEFINED)
    ax.figure.colorbar(shown, ax=ax, shrink=0.8)
    for axis in (ax.xaxis, ax.yaxis):
        plotting.set_integer_ticks(axis)
    ax.set(title="correlation of sets", xlabel="class", ylabel="class")
    if np.isnan(correlation).any():
        ax.set_xlabel("class; gray: in no set, or in all")
