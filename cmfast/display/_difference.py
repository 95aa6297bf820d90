"""Plot of the signed difference of two confusion matrices, with marks on significant cells."""

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from cmfast._core import plot_style, plotting, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Method, OnFailure
from cmfast._core.p_values import binomial_test, holm
from cmfast.display import _painting, _plot_data
from cmfast.uncertainty import PairedCounts
from cmfast.uncertainty._symmetry_tests import check_paired

SignedText: TypeAlias = Literal["value", "none"]
MINUS = "\N{MINUS SIGN}"


@result_repr.add_repr_of_display
class DifferenceDisplay:
    """Plot of the difference of two confusion matrices: orange where the first is larger, blue where it is smaller.

    Returned by :meth:`ConfusionDisplay.compare`.

    Made by :meth:`ConfusionDisplay.compare`.

    Attributes
    ----------
    difference : array of float, shape (C, C)
        First minus second, in the order of the plot.
    p_value : array of float, shape (C, C), or None
        p-value of every cell, corrected for the number of cells; None without paired counts.
    significant : array of bool, shape (C, C), or None
        Whether the p-value is at most ``1 - confidence_level``.
    order : array of int, shape (C,)
        Class of each row and column.
    display_labels : list of str
        Names of the rows and columns.
    ax_, figure_, im_, text_, marks_ : matplotlib objects
        The drawn objects, after :meth:`plot`: texts as in :class:`ConfusionDisplay`, and discs on significant cells if
        no text fits, else None.
    dot_ : int
        Number of rows pooled into one because cells would be too small.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> from cmfast.display import ConfusionDisplay
    >>> T = uncertainty.paired_counts(
    ...     [0] * 9 + [1], [0] * 9 + [1], [1] * 9 + [1]
    ... )
    >>> found = ConfusionDisplay.compare(T.first, T.second, paired=T)
    >>> found.difference.tolist(), found.significant.tolist()
    ([[1.0, -1.0], [0.0, 0.0]], [[True, True], [False, False]])
    """

    def __init__(
        self, drawn: _plot_data.PlotData, p_value: np.ndarray | None, confidence_level: float, method: str | None
    ) -> None:
        self._drawn = drawn
        self._unit = _plot_data.UNITS.get(method or "", "count")
        self.difference = np.asarray(drawn.shares)
        self.p_value = p_value
        self.significant = None if p_value is None else np.asarray(p_value <= 1.0 - confidence_level)
        self.order, self.display_labels = drawn.order, drawn.names

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"{len(self._drawn.names)} classes, {self._unit}"

    def plot(
        self, *, ax: Any = None, text: SignedText = "value", vmax: float | None = None, colorbar: bool = True
    ) -> Self:
        """Draw the difference.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure. Colours adapt to a dark or light background.
        text : {"value", "none"}
            Whether to write the differences, with sign, and a star if significant.
        vmax : float, optional
            Symmetric end of the colour scale; default: the largest absolute difference.
        colorbar : bool
            Whether to draw the colour bar.

        Returns
        -------
        DifferenceDisplay
            The display itself; `ax_`, `figure_`, `im_`, `text_`, `marks_` and `dot_` are set. The figure is not
            shown.
        """
        validate.choice("text", text, get_args(SignedText))
        validate.flag("colorbar", colorbar)
        values = self.difference
        known = np.isfinite(values)
        most = float(np.abs(values[known]).max(initial=0.0)) or 1.0
        end = most if vmax is None else validate.positive("vmax", vmax)
        ax = plotting.get_axes(ax, _painting.compute_figure_size(self._drawn, bars=int(colorbar)), "compressed")
        colours = plotting.match_palette(ax)
        ramp = plotting.make_colour_map(plot_style.make_signed_ramp(colours.ground, *colours.signed), colours.signed[0])
        shown = known & (values != 0)
        self.im_ = plotting.paint_cells(ax, values, shown, ramp, low=-end, high=end)
        if colorbar:
            _painting.draw_colorbar(
                ax, self.im_, f"first minus second, {self._unit}", shares=self._unit.startswith("%")
            )
        cell, self.dot_, large = _painting.lay_out(ax, self._drawn, known, colours)
        if self.dot_ > 1:
            signed = np.where(shown, values, 0.0)
            high, low = (plotting.pool_cells(signed, self.dot_, by) for by in (np.maximum, np.minimum))
            strongest = np.where(high >= -low, high, low)
            plotting.repaint(ax, self.im_, np.ma.masked_array(strongest, strongest == 0), self.dot_)
        self.text_ = self._write(ax, shown, cell, large) if text == "value" and self.dot_ == 1 else None
        self.marks_ = None
        if self.text_ is None and self.dot_ == 1 and self.significant is not None:
            i, j = np.nonzero(self.significant)
            self.marks_ = ax.scatter(j, i, s=(0.2 * cell) ** 2, color=[colours.ink], linewidths=0)
        if self.significant is not None and self.significant.any() and self.dot_ == 1:
            sign = "*" if self.marks_ is None else "disc"
            ax.set_xlabel(f"{ax.get_xlabel()}\n{sign}: significant")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _write(self, ax: Any, shown: np.ndarray, cell: float, most: float) -> Any:
        """Write the differences into the cells; return the texts, or None if they do not fit."""
        places = np.argwhere(shown)
        texts = [self._text(i, j) for i, j in places]
        return _painting.write_cells(ax, places, texts, self.difference, (self.im_, None), cell, most)

    def _text(self, i: int, j: int) -> str:
        """Return the text of a cell: the signed difference, with a star if it is significant."""
        value = float(self.difference[i, j])
        size = (
            plot_style.format_percent(abs(value)) or "<0.1"
            if self._unit.startswith("%")
            else plot_style.format_short(abs(value))
        )
        star = "*" if self.significant is not None and self.significant[i, j] else ""
        return f"{'+' if value > 0 else MINUS}{size}{star}"


def make_difference_display(
    A: Array,
    B: Array,
    method: Method | None,
    paired: PairedCounts | None,
    confidence_level: float,
    display_labels: Sequence[Any] | None,
    order: Any,
    on_failure: OnFailure,
) -> DifferenceDisplay:
    """Return the display of the difference of two matrices."""
    confidence_level = validate.confidence_level(confidence_level)
    first, second = _plot_data.adopt_matrices(A=A, B=B)
    names = display_labels
    p = None
    if paired is not None:
        check_paired(paired, "paired")
        theirs = [adapter(M).to_host(M) for M in (paired.first, paired.second)]
        if not all(map(np.array_equal, (first, second), theirs)):
            validate.refuse("paired", "the counts of A and B", "others")
        p = _test_cells(paired, len(first))
        names = paired.labels if names is None else names
    given = [_plot_data.make_plot_data(M, method, "given", names, None, on_failure) for M in (first, second)]
    both = [np.asarray(one.counts if one.shares is None else one.shares, np.float64) for one in given]
    total = sum(np.where(_plot_data.find_defined(M), M, 0) for M in (first, second))
    drawn = _plot_data.make_plot_data(np.asarray(total), None, order, names, None, on_failure)
    at = np.ix_(drawn.order, drawn.order)
    with np.errstate(invalid="ignore"):
        signed = both[0] - both[1]
    return DifferenceDisplay(drawn.replace_shares(signed[at]), None if p is None else p[at], confidence_level, method)


def _test_cells(T: PairedCounts, C: int) -> np.ndarray:
    """Return the p-value of every cell by McNemar's exact test with Holm's correction; 1 for cells without flips."""
    keys, counts = (adapter(part).to_host(part) for part in (T.keys, T.counts))
    truth, first, second = keys // C**2 % C, keys // C % C, keys % C
    apart = first != second
    only = np.zeros((2, C, C), np.int64)
    for table, said in zip(only, (first, second), strict=True):
        np.add.at(table, (truth[apart], said[apart]), counts[apart])
    found = np.where(only.sum(axis=0) > 0, binomial_test(only[0], only[1]), np.nan).ravel()
    return np.asarray(np.nan_to_num(holm(found), nan=1.0)).reshape(C, C)
