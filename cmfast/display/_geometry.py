"""Plot of a geometric confusion matrix, its overlap with the normalised matrix, and the overlap by cell width."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from cmfast._core import plot_style, plotting, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast.display import _painting, _plot_data
from cmfast.display._painting import Look
from cmfast.geometry import GcmDiagnostics, GcmResult, WidthCurve

GEOMETRY_INCHES = 3.6  # side of each plot


@result_repr.add_repr_of_display
class GcmDisplay:
    """Plot of a geometric confusion matrix, its overlap with the normalised matrix, and the overlap by cell width.

    Attributes
    ----------
    matrix : array of float, shape (C, C)
        The geometric matrix, of the first weighting, as shares of its total.
    weighting : list of str
        Names of the weightings.
    overlap, guaranteed, permuted : array of float, shape (W,)
        Per weighting: the overlap with the normalised matrix, the part of it that sparse cells guarantee, and the
        overlap of permuted labels.
    curve : WidthCurve or None
        The overlap over widths and origins.
    axes_, figure_, im_, bars_, lines_ : matplotlib objects
        The drawn objects, after :meth:`plot`; `lines_` has one line of the curve per weighting.

    See Also
    --------
    cmfast.geometric_confusion_matrix, cmfast.width_curve : The values without a plot.

    Examples
    --------
    >>> import numpy as np
    >>> import cmfast
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 2000)
    >>> X = rng.normal(size=(2000, 2)) + y[:, None]
    >>> guess = np.clip(np.rint(X.mean(axis=1)), 0, 2).astype(int)
    >>> result = cmfast.geometric_confusion_matrix(
    ...     X, y, guess, weights=["row", "bi"]
    ... )
    >>> display = cmfast.display.GcmDisplay.from_result(
    ...     result, display_labels=["low", "middle", "high"]
    ... )
    >>> display.weighting, bool((display.guaranteed < display.overlap).all())
    (['row', 'bi'], True)
    """

    def __init__(self, drawn: _plot_data.PlotData, result: GcmResult[Any], curve: WidthCurve | None) -> None:
        found = self._diagnostics = result.diagnostics
        self._drawn = drawn
        self.matrix = np.asarray(drawn.shares)
        self.weighting = list(found.weighting)
        numbers = (found.overlap, found.guaranteed, found.null_overlap)
        self.overlap, self.guaranteed, self.permuted = (np.atleast_1d(np.asarray(x, np.float64)) for x in numbers)
        self.curve = curve

    def _describe(self) -> str:
        """Return what the repr shows."""
        n = len(self.overlap)
        return f"{len(self._drawn.names)} classes, {n} weighting{'s' * (n != 1)}"

    @classmethod
    def from_result(
        cls,
        result: GcmResult[Any],
        /,
        curve: WidthCurve | None = None,
        *,
        display_labels: Sequence[Any] | None = None,
    ) -> Self:
        """Create the display from computed results.

        Parameters
        ----------
        result : GcmResult
            From :func:`cmfast.geometric_confusion_matrix`, of one weighting or of several.
        curve : WidthCurve, optional
            From :func:`cmfast.width_curve` of the same points and weightings.
        display_labels : sequence of C names, optional
            Default: those of text labels, else the class indices.

        Returns
        -------
        GcmDisplay
            The display, not drawn yet.

        Raises
        ------
        TypeError, ValueError
            Other types; a curve of other weightings; another number of names than classes.

        Notes
        -----
        Synchronises the device.
        """
        _check_type("result", result, GcmResult, "geometric_confusion_matrix")
        if curve is not None:
            _check_type("curve", curve, WidthCurve, "width_curve")
            theirs = curve.diagnostics[0].weighting
            if theirs != result.diagnostics.weighting:
                ours = ", ".join(result.diagnostics.weighting)
                validate.refuse("curve", f"of the weightings {ours}", ", ".join(theirs))
        if display_labels is None:
            display_labels = result.axes.get("class")
        matrix = np.asarray(adapter(result.matrix).to_host(result.matrix), np.float64)
        matrix = matrix[0] if matrix.ndim == 3 else matrix
        total = matrix.sum()
        shares = matrix / total if total > 0 else matrix
        drawn = _plot_data.make_plot_data(matrix, None, "given", display_labels, None, "ignore")
        return cls(drawn.replace_shares(shares), result, curve)

    def plot(self) -> Self:
        """Draw the matrix, the overlaps, and the curve if there is one, side by side in a new figure.

        Returns
        -------
        GcmDisplay
            The display itself; `axes_`, `figure_`, `im_`, `bars_` and `lines_` are set. The figure is not shown.
        """
        self.figure_, self.axes_ = plotting.make_axes_row(
            2 if self.curve is None else 3, 1.25 * GEOMETRY_INCHES, GEOMETRY_INCHES
        )
        self.bars_ = draw_overlaps(self.axes_[1], self._diagnostics)
        self.lines_ = draw_width_curve(self.axes_[2], self.curve) if self.curve is not None else []
        found = _painting.paint_matrix(self.axes_[0], self._drawn, Look(own_diagonal=False), _plot_data.UNITS["all"])
        self.im_ = found.image
        self.axes_[0].set_title(f"geometric matrix, {self.weighting[0]}", fontsize="medium")
        return self


def draw_overlaps(ax: Any, found: GcmDiagnostics) -> tuple[Any, Any]:
    """Draw a bar per weighting, split into guaranteed overlap and the rest, with a mark for permuted labels.

    Returns the bars of both parts.
    """
    numbers = (found.overlap, found.guaranteed, found.null_overlap)
    total, guaranteed, permuted = (np.atleast_1d(np.asarray(x, np.float64)) for x in numbers)
    colours = plotting.match_palette(ax)
    rows = np.arange(len(total))[::-1]
    pale = colours.ground + 0.4 * (colours.off_diagonal - colours.ground)
    look = {"height": 0.6, "linewidth": 0}
    bars = (
        ax.barh(rows, guaranteed, color=pale, hatch="///", edgecolor=colours.line, label="guaranteed", **look),
        ax.barh(rows, total - guaranteed, left=guaranteed, color=colours.off_diagonal, label="beyond it", **look),
    )
    ax.vlines(permuted, rows - 0.42, rows + 0.42, color=colours.diagonal, linewidth=3, label="labels permuted")
    for row, overlap in zip(rows, total, strict=True):
        known = np.isfinite(overlap)
        text = f"{overlap:.2f}" if known else "undefined"
        ax.annotate(text, (overlap if known else 0.0, row), (4, 0), textcoords="offset points", va="center")
    ax.set_yticks(rows, found.weighting)
    ax.set(xlim=(0, 1.16), ylim=(-0.6, len(rows) - 0.4), xticks=np.linspace(0, 1, 5))
    ax.set_title("overlap with the normalised matrix", fontsize="medium")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, fontsize="small", frameon=False)
    return bars


def draw_width_curve(ax: Any, curve: WidthCurve) -> list[Any]:
    """Draw the mean overlap over origins by cell width, the range over origins, and permuted labels."""
    overlaps = curve.overlaps.reshape(len(curve.factors), curve.origins, -1)
    permuted = np.array([np.atleast_1d(d.null_overlap) for d in curve.diagnostics])
    cycle = plot_style.list_line_colours(plotting.match_palette(ax).ground)
    lines = []
    for k, name in enumerate(curve.diagnostics[0].weighting):
        own, colour = overlaps[..., k], cycle[k % len(cycle)]
        lines += ax.plot(curve.factors, own.mean(axis=1), color=colour, marker=plot_style.MARKERS[k % 7], label=name)
        ax.fill_between(curve.factors, own.min(axis=1), own.max(axis=1), color=colour, alpha=0.25, linewidth=0)
        ax.plot(curve.factors, permuted[:, k], color=colour, linestyle=":")
    ax.set(ylim=(0, 1), xlabel="width of cells; band: all origins; dots: labels permuted")
    ax.set_title("overlap over the widths of cells", fontsize="medium")
    ax.legend(fontsize="small", frameon=False)
    return lines


def _check_type(name: str, value: object, kind: type, function: str) -> None:
    """Check that `value` is a result of `function`."""
    if not isinstance(value, kind):
        validate.refuse(name, f"{kind.__name__}, from {function}", type(value).__name__, TypeError)
