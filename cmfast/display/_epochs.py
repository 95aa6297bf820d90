"""Plots of a sequence of matrices: checkpoints side by side, and the largest confusions over checkpoints."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from cmfast._core import dispatch, plot_style, plotting, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Method, OnFailure
from cmfast.display import _painting, _plot_data
from cmfast.display._class_order import Order
from cmfast.display._painting import Look
from cmfast.normalizing import normalize as normalized

MOST_PER_ROW = 6  # matrices in a row of the figure
EPOCH_INCHES = 1.7  # side of each matrix
ARROW = " \N{RIGHTWARDS ARROW} "


def _adopt_matrices(
    M: Array, names: Any, method: Method | None, on_failure: OnFailure
) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """Return a stack of matrices on the host, their shares or None, and their names."""
    (array,) = dispatch.adopt(M=M)
    validate.matrices(square=True, M=array)
    shape = dispatch.shape_of(array)
    if len(shape) != 3 or not shape[0]:
        validate.refuse("M", "at least one matrix, of shape (E, C, C)", f"shape {shape}")
    called = [str(k) for k in range(shape[0])] if names is None else _plot_data.validate_names("names", names, shape[0])
    to_host = adapter(array).to_host
    shares = None if method is None else to_host(normalized(array, method, on_failure=on_failure))
    return to_host(array), shares, called


@result_repr.add_repr_of_display
class StripDisplay:
    """Plot of confusion matrices side by side, in one order and on one scale: checkpoints, models, sites.

    Attributes
    ----------
    matrices : array, shape (E, C, C)
        The plotted matrices, in the order of the plot.
    names : list of str
        Names of the matrices.
    order : array of int, shape (C,)
        Class of each row and column.
    axes_, figure_, images_ : matplotlib objects
        The drawn objects, after :meth:`plot`.

    Examples
    --------
    >>> from cmfast.display import StripDisplay
    >>> display = StripDisplay.from_matrices(
    ...     [[[3, 1], [2, 2]], [[4, 0], [1, 3]]], names=["first", "last"]
    ... )
    >>> display.matrices.tolist()
    [[[0.75, 0.25], [0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]]
    """

    def __init__(self, drawn: list[_plot_data.PlotData], *, names: list[str], normalize: str | None) -> None:
        self._drawn, self.names, self._normalize = drawn, names, normalize
        self.matrices = np.stack([one.counts if one.shares is None else one.shares for one in drawn])
        self.order = drawn[0].order

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"{len(self._drawn)} matrices of {len(self._drawn[0].names)} classes"

    @classmethod
    def from_matrices(
        cls,
        M: Array,
        /,
        *,
        names: Sequence[Any] | None = None,
        normalize: Method | None = "row",
        display_labels: Sequence[Any] | None = None,
        order: Order | Sequence[int] = "given",
        on_failure: OnFailure = None,
    ) -> Self:
        """Create the display from a stack of matrices.

        Parameters
        ----------
        M : array, shape (E, C, C)
            One matrix for each checkpoint, in order.
        names : sequence of E names, optional
            Names of the matrices; default: their indices.
        normalize : {"all", "row", "true", "col", "pred", "bi"}, optional
            Plot ``cmfast.normalize(M, normalize)``; None: `M` itself.
        display_labels, on_failure
            As for :meth:`ConfusionDisplay.from_matrix`.
        order : {"given", "support", "recall", "cluster"} or sequence of int
            Order of the classes, as for :meth:`ConfusionDisplay.from_matrix`, by the last matrix.

        Returns
        -------
        StripDisplay
            The display, not drawn yet.

        Raises
        ------
        TypeError, ValueError
            `M` is not a stack of real square matrices; another number of names than matrices or classes.
        """
        method = _plot_data.validate_options(normalize, on_failure)
        counts, shares, called = _adopt_matrices(M, names, method, on_failure)
        last = _plot_data.make_plot_data(counts[-1], None, order, display_labels, None, on_failure)
        at = np.ix_(last.order, last.order)
        drawn = [
            replace(last, counts=one[at], shares=None if shares is None else shares[k][at])
            for k, one in enumerate(counts)
        ]
        return cls(drawn, names=called, normalize=method)

    def plot(self, *, most: int = 12, vmax: float | None = None, log: bool = False) -> Self:
        """Draw the matrices in a new figure, each with a separate scale for the diagonal.

        Parameters
        ----------
        most : int
            Largest number of matrices to draw; of more, that many evenly spaced ones with the first and the last.
        vmax : float, optional
            Upper end of the common colour scale; default: the largest confusion.
        log : bool
            Colour confusions by their logarithm.

        Returns
        -------
        StripDisplay
            The display itself; `axes_`, `figure_` and `images_` are set. The figure is not shown.
        """
        most = validate.count("most", most, least=1)
        validate.flag("log", log)
        high = None if vmax is None else validate.positive("vmax", vmax)
        E = len(self.names)
        some = np.unique(np.linspace(E - 1, 0, min(most, E)).round().astype(int))
        off = np.where(_plot_data.find_defined(self.matrices), self.matrices, 0).astype(np.float64)[some]
        off[:, np.arange(off.shape[1]), np.arange(off.shape[1])] = 0.0
        low, high = plotting.get_scale_limits(off, None, high, log=log)
        look = Look(log=log, vmin=low, vmax=high, colorbar=False, side=EPOCH_INCHES)
        rows = -(-len(some) // MOST_PER_ROW)
        across = -(-len(some) // rows)  # the same in every row except the last
        self.figure_, axes = plotting.make_axes_grid(rows, across, EPOCH_INCHES)
        self.axes_ = axes[: len(some)]
        found = []
        for ax, k in zip(self.axes_, some, strict=True):
            found.append(_painting.paint_matrix(ax, self._drawn[k], look, ""))
            ax.set_title(self.names[k], fontsize="small", parse_math=False)
            ax.label_outer()
        for ax in axes[len(some) :]:
            ax.remove()
        self._name(across)
        self.images_ = [one.image for one in found]
        unit = _plot_data.UNITS.get(self._normalize or "", "count")
        _painting.draw_colorbar(self.axes_, self.images_[0], f"confused, {unit}", shares=self._normalize is not None)
        return self

    def _name(self, across: int) -> None:
        """Write class names at the first matrix of each row of plots, if they fit."""
        n = len(self.order)
        size = min(8.0, 0.86 * 72.0 * EPOCH_INCHES / max(n, 1))
        if size >= plotting.SMALLEST_FONT:
            for ax in self.axes_[::across]:
                ax.set_yticks(range(n), _painting.shorten_names(self._drawn[0].names), fontsize=size, parse_math=False)
                ax.tick_params(length=0)


@result_repr.add_repr_of_display
class CellsDisplay:
    """Plot of the largest confusions over checkpoints.

    Attributes
    ----------
    values : array of float, shape (k, E)
        Value of each cell at each checkpoint.
    places : list of tuple of int
        Row and column of each cell, by decreasing maximum.
    labels : list of str
        Names of the cells, "truth -> prediction".
    names : list of str
        Names of the checkpoints.
    ax_, figure_, lines_ : matplotlib objects
        The drawn objects, after :meth:`plot`.

    Examples
    --------
    >>> from cmfast.display import CellsDisplay
    >>> display = CellsDisplay.from_matrices(
    ...     [[[3, 1], [2, 2]], [[4, 0], [1, 3]]],
    ...     k=1,
    ...     display_labels=["cat", "dog"],
    ... )
    >>> display.values.tolist(), display.places
    ([[0.5, 0.25]], [(1, 0)])
    """

    def __init__(
        self, values: np.ndarray, *, places: list[tuple[int, int]], labels: list[str], names: list[str], unit: str
    ) -> None:
        self.values, self.places, self.labels, self.names, self._unit = values, places, labels, names, unit

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"{len(self.places)} cells of {len(self.names)} matrices, {self._unit}"

    @classmethod
    def from_matrices(
        cls,
        M: Array,
        /,
        k: int = 5,
        *,
        names: Sequence[Any] | None = None,
        normalize: Method | None = "row",
        display_labels: Sequence[Any] | None = None,
        on_failure: OnFailure = None,
    ) -> Self:
        """Select the off-diagonal cells with the largest maximum over all checkpoints.

        Parameters
        ----------
        M : array, shape (E, C, C)
            One matrix for each checkpoint, in order.
        k : int
            Number of cells; fewer if fewer are ever above 0.
        names, normalize, display_labels, on_failure
            As for :meth:`StripDisplay.from_matrices`.

        Returns
        -------
        CellsDisplay
            The display, not drawn yet. Ties are in the order of rows, then columns.

        Raises
        ------
        TypeError, ValueError
            As :meth:`StripDisplay.from_matrices`; `k` below 1.
        """
        k = validate.count("k", k, least=1)
        method = _plot_data.validate_options(normalize, on_failure)
        counts, shares, called = _adopt_matrices(M, names, method, on_failure)
        values = np.asarray(counts if shares is None else shares, np.float64)
        classes = _plot_data.make_class_names(display_labels, values.shape[1])
        values = np.where(_plot_data.find_defined(values), values, np.nan)
        largest = np.fmax.reduce(np.nan_to_num(values), axis=0)
        np.fill_diagonal(largest, 0.0)
        order = np.argsort(-largest.ravel(), kind="stable")[: min(k, np.count_nonzero(largest))]
        places = [divmod(int(cell), len(classes)) for cell in order]
        rows = np.array([values[:, i, j] for i, j in places]).reshape(len(places), len(values))
        labels = [f"{classes[i]}{ARROW}{classes[j]}" for i, j in places]
        return cls(rows, places=places, labels=labels, names=called, unit=_plot_data.UNITS.get(method or "", "count"))

    def plot(self, *, ax: Any = None) -> Self:
        """Draw a line for every cell.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        CellsDisplay
            The display itself; `ax_`, `figure_` and `lines_` are set. The figure is not shown.
        """
        ax = plotting.get_axes(ax, (7.2, 3.6))
        scale = 100.0 if self._unit.startswith("%") else 1.0
        at = np.arange(len(self.names))
        marker = "" if len(at) > 40 else plot_style.MARKERS
        cycle = plot_style.list_line_colours(plotting.match_palette(ax).ground)
        self.lines_ = []
        for n, (row, label) in enumerate(zip(self.values, self.labels, strict=True)):
            look = {"color": cycle[n % len(cycle)], "marker": marker[n % len(marker)] if marker else ""}
            look["linestyle"] = ("-", "--", ":")[n // len(cycle) % 3]
            self.lines_ += ax.plot(at, scale * row, label=label, markersize=4, linewidth=1.5, **look)
        step = max(1, -(-len(at) // 12))
        ax.set_xticks(at[::step], self.names[::step], parse_math=False)
        ax.set(xlabel="checkpoint", ylabel=self._unit, ylim=(0, None))
        if self.lines_:
            legend = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)
            for text in legend.get_texts():
                text.set_parse_math(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
