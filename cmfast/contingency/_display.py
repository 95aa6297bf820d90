"""Plots of metric surfaces and learning paths in the contingency space."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, plotting, result_repr, validate
from cmfast._core.annotations import Array
from cmfast.contingency._path import learning_path
from cmfast.contingency._surface import find_scale_minimum, metric_surface, validate_metric
from cmfast.metrics import MetricName, margins


@result_repr.add_repr_of_display
class SurfaceDisplay:
    """Plot of a metric as a surface over the contingency space.

    Parameters
    ----------
    surface : array, shape (size, size)
        Element ``[i, j]`` is at the i-th true positive rate and the j-th true negative rate of an even grid on [0, 1].
    name : str
        Name of the metric, for the title.
    r : float
        Negatives per positive, for the title.
    low, high : float
        Ends of the colour scale, fixed so that plots are comparable.

    Attributes
    ----------
    ax_, figure_, contours_ : matplotlib objects
        The drawn objects, after :meth:`plot`; :meth:`plot_3d` sets no contours.

    See Also
    --------
    metric_surface : The values without a plot.

    Examples
    --------
    >>> from cmfast.display import SurfaceDisplay
    >>> display = SurfaceDisplay.from_metric("f1", r=5)
    >>> display.surface.shape, float(display.surface[-1, -1])
    ((101, 101), 1.0)
    """

    def __init__(self, surface: Any, *, name: str = "", r: float = 1.0, low: float = -1.0, high: float = 1.0) -> None:
        self.surface = surface
        self.name = name
        self.r = r
        self.low = low
        self.high = high

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"metric {self.name or 'unnamed'}"

    @classmethod
    def from_metric(
        cls, name: MetricName, r: float = 1.0, *, size: int = 101, rescale: bool = False
    ) -> "SurfaceDisplay":
        """Compute the surface of a metric.

        Parameters
        ----------
        name : str
            A name of :func:`cmfast.metrics.compute`. Of a metric per class, the value of class 1 is taken.
        r : float
            Imbalance: negatives (class 0) per positive (class 1).
        size : int
            Number of nodes along each axis.
        rescale : bool
            Map metrics with the range [-1, 1] to [0, 1], and a weighted tau to its normalised form.

        Returns
        -------
        SurfaceDisplay
            The display, not drawn yet.
        """
        r = validate.positive("r", r)
        surface = metric_surface(name, r, size, rescale=rescale)
        low = 0.0 if rescale else find_scale_minimum(validate_metric(name))
        return cls(surface, name=name, r=r, low=low)

    def plot(self, *, ax: Any = None, levels: int = 11, colorbar: bool = True) -> "SurfaceDisplay":
        """Draw the surface as filled contours.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.
        levels : int
            Number of contour lines, evenly spaced from `low` to `high`.
        colorbar : bool
            Whether to draw the colour scale.

        Returns
        -------
        SurfaceDisplay
            The display itself; `ax_` and `figure_` are set. The figure is not shown.
        """
        levels = validate.count("levels", levels, least=1)
        validate.flag("colorbar", colorbar)
        ax = plotting.get_axes(ax)
        axis = np.linspace(0.0, 1.0, len(self.surface))
        scale = np.linspace(self.low, self.high, levels)
        half = axis[1] / 2.0 if len(axis) > 1 else 0.5  # the first and last nodes are on the edges
        box = (-half, 1.0 + half, -half, 1.0 + half)
        shown = ax.imshow(
            self.surface,
            origin="lower",
            extent=box,
            interpolation="bilinear",
            cmap=plotting.SIGNED,
            vmin=-1.0,
            vmax=1.0,
        )
        self.contours_ = ax.contour(axis, axis, self.surface, scale, colors="black", linewidths=0.4)
        if colorbar:
            ax.figure.colorbar(shown, ax=ax, ticks=scale[:: max(1, levels // 5)])
        _label_axes(ax, self._title())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def plot_3d(self, *, ax: Any = None) -> "SurfaceDisplay":
        """Draw the surface in three dimensions, with the perfect model at the back.

        Parameters
        ----------
        ax : matplotlib axes in three dimensions, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        SurfaceDisplay
            The display itself; `ax_` and `figure_` are set. The figure is not shown.
        """
        if ax is None:
            plt = plotting.load_pyplot()
            ax = plt.figure(figsize=(5.0, 4.4), layout="constrained").add_subplot(projection="3d")
        x, y = np.meshgrid(*2 * [np.linspace(0.0, 1.0, len(self.surface))])
        style: dict[str, Any] = {"cmap": plotting.SIGNED, "vmin": -1.0, "vmax": 1.0, "edgecolor": "0.3"}
        ax.plot_surface(x, y, self.surface, linewidth=0.2, rcount=25, ccount=25, **style)
        ax.set(xlim=(0, 1), ylim=(0, 1), zlim=(self.low, self.high), title=self._title())
        ax.set(xlabel="true negative rate", ylabel="true positive rate")
        ax.view_init(elev=24, azim=-125)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _title(self) -> str:
        """Return the title: the metric and the imbalance."""
        return f"{self.name}, r = {self.r:g}" if self.name else ""


def _label_axes(ax: Any, title: str, x: str = "true negative rate", y: str = "true positive rate") -> None:
    """Set limits, labels and title of a plot of two rates."""
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=x, ylabel=y, title=title, aspect="equal")


def _validate_two_classes(classes: Any, C: int) -> tuple[int, int]:
    """Validate two different class indices."""
    wanted = f"two of 0..{C - 1}"
    if not isinstance(classes, tuple | list | np.ndarray):
        validate.refuse("classes", wanted, f"{type(classes).__name__} {validate.format_value(classes)}", TypeError)
    found = tuple(validate.count("classes", k) for k in classes)
    if len(found) != 2 or found[0] == found[1] or max(found) >= C:
        validate.refuse("classes", wanted, validate.format_value(classes))
    return found


@result_repr.add_repr_of_display
class PathDisplay:
    """Plot of training runs in the plane of two recalls, over the surface of a metric.

    Parameters
    ----------
    points : array, shape (runs, E, 2)
        Recall of the first and the second class at every checkpoint, in order.
    length : array, shape (runs,)
        Length of each path, for the legend.
    surface : SurfaceDisplay, optional
        Surface to draw below the paths.
    classes : tuple of int
        The two classes whose recalls are the axes.
    n_classes : int
        Number of classes; with two, the axes are the true negative rate and the true positive rate.

    Attributes
    ----------
    ax_, figure_, lines_ : matplotlib objects
        The drawn objects, after :meth:`plot`.

    See Also
    --------
    learning_path : The values without a plot.

    Examples
    --------
    >>> from cmfast.display import PathDisplay
    >>> display = PathDisplay.from_matrices(
    ...     [[[10, 0], [10, 0]], [[10, 0], [5, 5]], [[5, 5], [5, 5]]]
    ... )
    >>> display.points.tolist(), display.length
    ([[[1.0, 0.0], [1.0, 0.5], [0.5, 0.5]]], array([1.]))
    """

    def __init__(
        self,
        points: Any,
        *,
        length: Any,
        surface: SurfaceDisplay | None = None,
        classes: tuple[int, int] = (0, 1),
        n_classes: int = 2,
    ) -> None:
        self.points = points
        self.length = length
        self.surface = surface
        self.classes = classes
        self.n_classes = n_classes

    def _describe(self) -> str:
        """Return what the repr shows."""
        return f"paths of {np.shape(self.points)[-2]} points, {self.n_classes} classes"

    @classmethod
    def from_matrices(
        cls, M: Array, /, *, name: MetricName | None = None, classes: tuple[int, int] = (0, 1)
    ) -> "PathDisplay":
        """Compute the paths of training runs from their confusion matrices.

        Parameters
        ----------
        M : array, shape (..., E, C, C)
            The matrices of E checkpoints, in order; the leading axes are runs.
        name : str, optional
            Draw the surface of this metric below, at the imbalance of the first matrix. Only for two classes.
        classes : tuple of int
            The two classes whose recalls are the axes; the length is that in the space of all recalls.

        Returns
        -------
        PathDisplay
            The display, not drawn yet.
        """
        if name is not None:
            name = validate_metric(name)
        (M,) = dispatch.adopt(M=M)
        C, _ = validate.matrices(square=True, M=M)
        classes = _validate_two_classes(classes, C)
        if name is not None and (C, classes) != (2, (0, 1)):
            validate.refuse("name", "None except for 2 classes in order", repr(name))
        path = learning_path(M)
        points = np.asarray(path.points).reshape(-1, *path.points.shape[-2:])[..., list(classes)]
        surface = None
        if name is not None:
            support = np.asarray(margins(M).row_sums, float).reshape(-1, C)
            with np.errstate(all="ignore"):
                ratios = support[:1, 0] / support[:1, 1]
            if not (ratios.size and np.isfinite(ratios).all() and ratios.all()):
                wanted = "with both classes true in the first matrix, to draw a surface"
                validate.refuse("M", wanted, f"supports {support[0].tolist()}" if ratios.size else "no matrix")
            surface = SurfaceDisplay.from_metric(name, float(ratios[0]))
        return cls(points, length=np.asarray(path.length).reshape(-1), surface=surface, classes=classes, n_classes=C)

    def plot(self, *, ax: Any = None) -> "PathDisplay":
        """Draw every run from its first checkpoint (ring) to its last (disc).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        PathDisplay
            The display itself; `ax_` and `figure_` are set. The figure is not shown.
        """
        ax = plotting.get_axes(ax)
        if self.surface is not None:
            self.surface.plot(ax=ax)
        self.lines_ = []
        for run, length in zip(self.points, self.length, strict=True):
            style: dict[str, Any] = {"marker": ".", "markersize": 3, "linewidth": 1, "clip_on": False}
            (line,) = ax.plot(*run.T, label=f"length {length:.2f}", **style)
            colour = line.get_color()
            ax.plot(*run[:1].T, "o", markerfacecolor="white", markeredgecolor=colour, clip_on=False)
            ax.plot(*run[-1:].T, "o", color=colour, clip_on=False)
            self.lines_.append(line)
        if 1 <= len(self.lines_) <= 8:
            ax.legend(loc="lower left", fontsize="small")
        rates = ("true negative rate", "true positive rate")
        x, y = (rates[k] if self.n_classes == 2 else f"recall of class {k}" for k in self.classes)
        _label_axes(ax, f"over {self.surface.name}, r = {self.surface.r:g}" if self.surface is not None else "", x, y)
        self.ax_, self.figure_ = ax, ax.figure
        return self
