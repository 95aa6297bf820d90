"""Shared matplotlib parts of figures: axes, forest plots of intervals, and painting of matrix cells."""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast._core import caller, plot_style

SMALLEST_FONT = 5.5  # points; smaller text cannot be read
DOT = 3  # pixels; smaller cells are pooled into dots of this size
FINEST = 60  # rows or columns up to which undefined cells are hatched one by one
CHARACTER_WIDTH = 0.64  # mean width of a character, relative to the font size
HEIGHT = 1.25  # height of a line of text, relative to the font size
SIGNED = "RdBu_r"  # -1 dark blue, 1 dark red
MOST_BARS = 20  # bars with names; only the largest are drawn
MOST_LEGEND_LINES = 8  # of a plot with a legend
MOST_BINS = 100  # of a histogram; narrower bins cannot be seen


def load_pyplot() -> Any:
    """Import and return ``matplotlib.pyplot``, when the first figure is drawn."""
    try:
        import matplotlib.pyplot as plt  # noqa: TID251
    except ImportError as error:
        msg = 'pictures need matplotlib: pip install "cmfast[plot]"'
        raise ImportError(caller.prefix_name(msg)) from error
    return plt


def get_axes(ax: Any, size: tuple[float, float] | None = None, layout: str = "constrained") -> Any:
    """Return `ax`, or new axes in a figure of `size` inches if `ax` is None."""
    return load_pyplot().subplots(figsize=size, layout=layout)[1] if ax is None else ax


def close_figure(figure: Any) -> None:
    """Close a figure of pyplot, so that it is not shown; None closes none."""
    if figure is not None:
        load_pyplot().close(figure)


def is_open(figure: Any) -> bool:
    """Return whether `figure` is one of pyplot's open figures, which a notebook shows after the cell."""
    from matplotlib._pylab_helpers import Gcf  # noqa: TID251  (as IPython does; pyplot would change its current figure)

    return any(manager.canvas.figure is figure for manager in Gcf.figs.values())


def encode_figure(figure: Any) -> str:
    """Return a figure as a PNG in base64, and close it."""
    from base64 import b64encode

    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=80)
    load_pyplot().close(figure)
    return b64encode(stream.getvalue()).decode()


def make_axes_row(n: int, side: float = 3.3, height: float | None = None) -> tuple[Any, list[Any]]:
    """Make a figure with `n` axes side by side; return both."""
    figure, found = load_pyplot().subplots(
        1, n, figsize=(side * n, height or side), layout="constrained", squeeze=False
    )
    return figure, list(found[0])


def make_axes_grid(rows: int, columns: int, side: float) -> tuple[Any, list[Any]]:
    """Make a figure with a grid of axes; return it and the axes in row-major order."""
    size = ((side + 0.1) * columns + 2.2, (side + 0.3) * rows + 0.3)
    figure, found = load_pyplot().subplots(rows, columns, figsize=size, layout="compressed", squeeze=False)
    return figure, list(found.ravel())


def draw_forest(ax: Any, names: list[str], estimate: Any, low: Any, high: Any) -> Any:
    """Draw a forest plot: a disc per estimate and a line per interval, one below the other; return the lines."""
    rows = np.arange(len(names))[::-1]
    lines = ax.hlines(rows, low, high, color="C0", linewidth=2)
    ax.plot(estimate, rows, "o", color="C0")
    ax.set_yticks(rows, names, parse_math=False)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    return lines


def make_forest_axes(ax: Any, n: int) -> Any:
    """Return `ax`, or for None new axes tall enough for a forest plot of `n` intervals."""
    return get_axes(ax, (6.4, 1.2 + 0.35 * n))


def draw_counts(ax: Any, names: list[str], counts: Any, label: str) -> Any:
    """Draw a horizontal bar, with its number, for each count, one below the other; return the axes."""
    ax = draw_bars(ax, names, counts, [f"{int(n):,}" for n in counts], label)
    ax.set_xlim(0, 1.15 * max([1, *map(int, counts)]))
    set_integer_ticks(ax.xaxis)
    return ax


def draw_bars(ax: Any, names: list[str], values: Any, texts: list[str], label: str) -> Any:
    """Draw a horizontal bar, with its text, for each value from 0, one below the other; return the axes.

    Negative values, in the other colour of the scale of differences, extend to the left.
    """
    ax = make_forest_axes(ax, len(names))
    rows = np.arange(len(names))[::-1]
    colours = match_palette(ax)
    least, most = min(values, default=0.0), max(values, default=0.0)
    signed = colours.signed if least < 0 else (colours.off_diagonal, colours.off_diagonal)
    bars = ax.barh(rows, values, height=0.6, color=[signed[value > 0] for value in values])
    ax.bar_label(bars, texts, padding=4)
    ax.set_yticks(rows, names, parse_math=False)  # names come from data
    room = max(0.15, 0.03 * max(map(len, texts), default=0)) * (max(most, 0.0) - min(least, 0.0))
    ax.set(xlabel=label, ylim=(-0.6, len(names) - 0.4))
    ax.set_xlim(least - room if least < 0 else 0.0, max(most, 0.0) + room or 1.0)
    if least < 0:
        ax.axvline(0.0, color=colours.line, linewidth=1)
    return ax


def draw_steps(ax: Any, steps: Sequence[tuple[Any, Any]], names: Sequence[str], labels: tuple[str, str]) -> Any:
    """Draw histograms as steps, from pairs of bin edges and heights, with a legend if it has few lines.

    A single histogram is filled. Returns the axes.
    """
    ax = get_axes(ax, (5.6, 3.6))
    colours = plot_style.list_line_colours(match_palette(ax).ground)
    for k, ((edges, heights), name) in enumerate(zip(steps, names, strict=True)):
        look = {"fill": True, "alpha": 0.7} if len(steps) == 1 else {"linewidth": 1.3}
        dashes = "--" if k // len(colours) % 2 else "-"
        ax.stairs(heights, edges, color=colours[k % len(colours)], linestyle=dashes, label=name, **look)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    if 1 < len(steps) <= MOST_LEGEND_LINES:
        ax.legend(fontsize="small")
    return ax


def choose_dot_points(n: int) -> float:
    """Return the size in points of `n` dots side by side: smaller for more of them."""
    return min(7.0, max(1.0, 500.0 / max(n, 1)))


def draw_legend_above(ax: Any, handles: list[Any] | None = None) -> None:
    """Draw the legend of the labelled parts, or of `handles`, above the axes, where it covers no data."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    if handles:
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3}
        ax.legend(handles=handles, fontsize="small", frameon=False, **place)


def draw_rates(ax: Any, x: Any, y: Any, labels: tuple[str, str]) -> Any:
    """Draw a line for each curve of a batch, with points along the last axis, in the unit square; return the axes."""
    ax = get_axes(ax, (4.8, 4.8))
    for one, other in zip(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True):
        ax.plot(one, other, clip_on=False)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=labels[0], ylabel=labels[1], aspect="equal")
    return ax


def match_palette(ax: Any) -> plot_style.Palette:
    """Return the colour palette for the background of `ax`, or of its figure where the axes are transparent."""
    from matplotlib.colors import to_rgba  # noqa: TID251

    grounds = (to_rgba(ax.get_facecolor()), to_rgba(ax.figure.get_facecolor()), (1.0, 1.0, 1.0, 1.0))
    return plot_style.make_palette(next(ground for ground in grounds if ground[3]))


def make_colour_map(colours: np.ndarray, under: np.ndarray) -> Any:
    """Return a colormap of `colours`: transparent for missing values, `under` for values below its range."""
    from matplotlib.colors import ListedColormap  # noqa: TID251

    return ListedColormap(colours).with_extremes(bad=(0, 0, 0, 0), under=(*under, 1.0))


def get_scale_limits(
    values: np.ndarray, low: float | None, high: float | None, *, log: bool = False
) -> tuple[float, float]:
    """Return the ends of a colour scale: as given, else 0 (log scale: least value above 0) and the largest value."""
    known = values[values > 0]
    least = (float(known.min()) if known.size else 1.0) if log else 0.0
    least = least if low is None else low
    most = (float(known.max()) if known.size else 1.0) if high is None else high
    if least < most:
        return least, most
    if high is None:
        return least, 10.0 * least if log else least + 1.0
    return most / 10.0, most


def paint_cells(ax: Any, values: Any, shown: Any, colours: Any, *, low: float, high: float, log: bool = False) -> Any:
    """Paint the cells of `values` selected by the mask `shown`; return the image."""
    from matplotlib.colors import LogNorm, Normalize  # noqa: TID251

    norm = (LogNorm if log else Normalize)(low, high)
    masked = np.ma.masked_array(values, ~np.asarray(shown))
    extent = None if masked.size else (-0.5, 0.5, 0.5, -0.5)  # axes of no width would warn
    return ax.imshow(masked, cmap=colours, norm=norm, interpolation="nearest", aspect="equal", extent=extent)


def paint_undefined(ax: Any, cells: np.ndarray, colours: plot_style.Palette) -> Any:
    """Paint masked cells as undefined: grey, and hatched if there are at most FINEST**2; return the artist."""
    from matplotlib.collections import PolyCollection  # noqa: TID251

    if np.count_nonzero(cells) > FINEST**2:
        return paint_cells(
            ax, np.zeros(cells.shape), cells, make_colour_map(colours.undefined[None], colours.ground), low=0, high=1
        )
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    places = np.argwhere(cells)[:, None, ::-1] + corners
    stripes = PolyCollection(
        list(places), facecolor=colours.undefined, edgecolor=colours.line, hatch="////", linewidth=0
    )
    return ax.add_collection(stripes)


def measure_cell(ax: Any, n: int) -> tuple[float, float]:
    """Return the side length of one of `n` cells along an axis of `ax`, in points and in pixels; draws the layout."""
    figure = ax.get_figure()
    figure = getattr(figure, "figure", None) or figure  # of a subfigure, the whole figure
    figure.draw_without_rendering()
    box = ax.get_window_extent()
    pixels = min(box.width, box.height) / max(n, 1)
    return pixels * 72.0 / figure.dpi, pixels


def fit_font(lines: int, longest: int, cell: float, most: float) -> float:
    """Return the largest font size for `lines` lines of text in a square of `cell` points; 0 if it were unreadable."""
    size = min(most, 0.92 * cell / (CHARACTER_WIDTH * max(longest, 1)), 0.9 * cell / (HEIGHT * lines))
    return size if size >= SMALLEST_FONT else 0.0


def pool_cells(values: np.ndarray, k: int, by: Any) -> np.ndarray:
    """Reduce each block of ``k x k`` cells of a matrix by the ufunc `by`, which ignores NaN."""
    for axis, n in enumerate(values.shape):
        values = by.reduceat(values, np.arange(0, n, k), axis=axis)
    return values


def repaint(ax: Any, image: Any, values: Any, k: int) -> None:
    """Replace the data of an image by dots of ``k x k`` cells each; the limits of the axes stay."""
    ends = ax.get_xlim(), ax.get_ylim()
    rows, columns = np.shape(values)
    image.set_data(values)
    image.set_extent((-0.5, k * columns - 0.5, k * rows - 0.5, -0.5))
    ax.set(xlim=ends[0], ylim=ends[1])


def choose_dot_size(n: int, pixels: float) -> int:
    """Return how many rows of `pixels` pixels each are pooled into one visible dot; 1 if none need to be."""
    return max(1, math.ceil(DOT / pixels)) if pixels > 0 and n else 1


def set_integer_ticks(axis: Any) -> None:
    """Place ticks of an axis at integers only."""
    axis.get_major_locator().set_params(integer=True)


def draw_class_ticks(ax: Any, names: list[str], cell: float, most: float) -> None:
    """Write class names along both axes, leaving names out until the rest is legible."""
    size = min(most, 0.86 * cell)
    step = 1
    if size < SMALLEST_FONT:
        size = min(most, 7.0)
        step = next(s * 10**e for e in range(9) for s in (1, 2, 5) if s * 10**e * cell >= HEIGHT * size)
    places = np.arange(0, len(names), step)
    set_tick_labels(ax, places, [names[k] for k in places], step * cell, size)


def set_tick_labels(ax: Any, places: Any, names: list[str], room: float, size: float) -> None:
    """Set tick labels on both axes; rotate the x labels where `room`, in points, is too narrow for them."""
    wide = max(map(len, names), default=0) * CHARACTER_WIDTH * size > 0.95 * room
    look = {"fontsize": size, "parse_math": False}  # names come from data, so that $ does not start mathematics
    ax.set_xticks(places, names, rotation=90 if wide else 0, **look)
    ax.set_yticks(places, names, **look)
    ax.tick_params(length=0 if len(places) == len(names) and room > 10 else 2, which="major")
