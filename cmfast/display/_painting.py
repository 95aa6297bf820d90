"""Paint confusion matrices on axes: colour scales of confusions and diagonal, cell texts, class and group names."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from cmfast._core import plot_style, plotting
from cmfast.display._plot_data import PlotData, find_defined

Text: TypeAlias = Literal["value", "triple", "none"]
LONGEST_DRAWN_NAME = 26  # longest drawn name, in characters
COLORBAR_INCHES = 0.65  # width of a colour bar with tick labels and label
TRIPLE_LEGENDS = {3: "in a cell: count, % of its row, % of its column", 2: "in a cell: count, % of its row"}


@dataclass(frozen=True)
class Look:
    """Options of the appearance of a plotted matrix."""

    text: str = "value"
    log: bool = False
    vmin: float | None = None
    vmax: float | None = None
    own_diagonal: bool = True
    colorbar: bool = True
    values_format: str | None = None
    side: float | None = None  # side of the matrix in inches if one of many, which have no names and texts


@dataclass
class PaintedMatrix:
    """Drawn objects of a plotted matrix."""

    image: Any
    diagonal: Any
    text: Any
    dot: int


def compute_figure_size(drawn: PlotData, *, bars: int, cell: float = 0.5) -> tuple[float, float]:
    """Return width and height in inches of a figure for one matrix."""
    side = min(max(cell * len(drawn.names), 2.2), 9.5)
    names = 0.075 * min(max(map(len, drawn.names), default=0), LONGEST_DRAWN_NAME)
    return side + names + (0.5, 1.2, 2.2)[bars], side + names + 0.5


def paint_matrix(ax: Any, drawn: PlotData, look: Look, unit: str) -> PaintedMatrix:
    """Paint a matrix on `ax`; return the drawn objects."""
    shares = drawn.shares is not None
    values = np.asarray(drawn.shares if shares else drawn.counts, np.float64)
    known = find_defined(values)
    colours = plotting.match_palette(ax)
    on = np.eye(len(values), dtype=bool) & look.own_diagonal
    image = _paint_layer(ax, values, known & ~on, look, colours.off_diagonal, colours)
    diagonal = None
    if look.own_diagonal:
        high = 1.0 if shares else float(values[known & on].max(initial=0.0)) or 1.0
        diagonal = _paint_layer(ax, values, known & on, Look(vmax=high), colours.diagonal, colours)
    if look.colorbar:
        for layer, name in ((image, "confused, " if look.own_diagonal else ""), (diagonal, "right, ")):
            if layer is not None and layer.get_array().count():
                draw_colorbar(ax, layer, name + unit, shares=shares)
    cell, dot, most = lay_out(ax, drawn, known, colours, look.side)
    if dot > 1:
        _pool_small_cells(ax, image, diagonal, np.where(known, values, np.nan), dot)
    text = None
    if dot == 1 and look.text != "none" and look.side is None:
        text = _write_values(ax, drawn, values, known, (image, diagonal), look, cell, most)
    return PaintedMatrix(image, diagonal, text, dot)


def _paint_layer(ax: Any, values: np.ndarray, known: np.ndarray, look: Look, end: np.ndarray, colours: Any) -> Any:
    """Paint the nonzero cells that are `known` on a ramp from the background to the colour `end`; return the image."""
    scale = plotting.make_colour_map(plot_style.make_ramp(colours.ground, end, log=look.log), colours.ground)
    low, high = plotting.get_scale_limits(np.where(known, values, 0.0), look.vmin, look.vmax, log=look.log)
    return plotting.paint_cells(ax, values, known & (values > 0), scale, low=low, high=high, log=look.log)


def lay_out(
    ax: Any, drawn: PlotData, known: np.ndarray, colours: plot_style.Palette, side: float | None = None
) -> tuple[float, int, float]:
    """Label the axes and hatch undefined cells; return points per cell, rows pooled into one, largest font size."""
    n = len(known)
    most = float(ax.xaxis.label.get_size())
    ax.set(xlim=(-0.5, max(n, 1) - 0.5), ylim=(max(n, 1) - 0.5, -0.5), ylabel="true", xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_color(colours.line)
    if side is None:
        cell, pixels = plotting.measure_cell(ax, n)
    else:
        cell, pixels = (side * unit / max(n, 1) for unit in (72.0, ax.get_figure().dpi))
    dot = plotting.choose_dot_size(n, pixels)
    notes = [f"a dot is the largest of {dot} x {dot}"] if dot > 1 else []
    notes += [] if known.all() else [f"{'striped' if dot == 1 else 'blank'}: undefined"]
    ax.set_xlabel(f"predicted ({'; '.join(notes)})" if notes else "predicted")
    if dot == 1 and not known.all():
        plotting.paint_undefined(ax, ~known, colours)
    if dot == 1 and n <= plotting.FINEST:
        _draw_cell_borders(ax, n, colours)
    if side is None:
        _write_class_names(ax, drawn, cell, most, colours)
        cell = plotting.measure_cell(ax, n)[0] if dot == 1 else cell
    return cell, dot, most


def draw_colorbar(ax: Any, layer: Any, label: str, *, shares: bool) -> None:
    """Draw the colour bar of a layer next to one or several axes; shares are labelled in percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: TID251

    first = ax[0] if isinstance(ax, list) else ax
    figure, room = first.figure, 0.05
    if figure.get_layout_engine() is None:  # without a layout engine the margin must hold ticks and label
        room = min(0.3, max(room, COLORBAR_INCHES / (first.get_window_extent().width / figure.dpi)))
    found = figure.colorbar(layer, ax=ax, fraction=room, pad=0.06, shrink=0.85, aspect=28)
    found.set_label(label)
    found.outline.set_visible(False)
    whole = not shares and np.all(np.mod(layer.get_array().compressed(), 1) == 0)
    if whole and isinstance(found.ax.yaxis.get_major_locator(), MaxNLocator):
        found.ax.yaxis.get_major_locator().set_params(integer=True)
    unit = 100.0 if shares else 1.0
    found.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plot_style.format_tick(unit * value)))
    found.ax.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: _format_minor_tick(unit * value, layer.norm)))


def _format_minor_tick(value: float, norm: Any) -> str:
    """Return the label of a minor tick of a log scale: all on a short scale, 2 and 5 on a medium one, else none."""
    decades = np.log10(norm.vmax / norm.vmin)
    first = round(value / 10.0 ** np.floor(np.log10(value)))
    written = decades < 0.7 or (decades < 2 and first in (2, 5))
    return plot_style.format_tick(value) if written else ""


def _pool_small_cells(ax: Any, image: Any, diagonal: Any, values: np.ndarray, dot: int) -> None:
    """Show the largest of each `dot` x `dot` cells; the diagonal moves to a strip that shows the smallest."""
    least = np.fmin.reduceat(np.diagonal(values), np.arange(0, len(values), dot))
    if diagonal is not None:
        np.fill_diagonal(values, np.nan)
    largest = plotting.pool_cells(values, dot, np.fmax)
    plotting.repaint(ax, image, np.ma.masked_array(largest, ~(np.nan_to_num(largest) > 0)), dot)
    if diagonal is None:
        return
    diagonal.remove()
    strip = ax.inset_axes((1.012, 0.0, 0.03, 1.0))
    strip.set_facecolor(ax.get_facecolor())
    extent = (0, 1, dot * len(least) - 0.5, -0.5)
    strip.imshow(least[:, None], cmap=diagonal.cmap, norm=diagonal.norm, extent=extent, aspect="auto")
    strip.set(ylim=ax.get_ylim(), xticks=[], yticks=[])


def _write_class_names(ax: Any, drawn: PlotData, cell: float, most: float, colours: plot_style.Palette) -> None:
    """Write class names, or group names if those would be too small; draw lines between groups."""
    names = shorten_names(drawn.names)
    bounds = _find_group_runs(drawn.groups)
    if drawn.groups and len(bounds) > 1 and 0.86 * cell < plotting.SMALLEST_FONT:
        large = [(a, b) for a, b in bounds if (b - a) * cell >= plotting.HEIGHT * plotting.SMALLEST_FONT]
        room = min([(b - a) * cell for a, b in large], default=0.0)
        places = [(a + b - 1) / 2 for a, b in large]
        plotting.set_tick_labels(ax, places, [drawn.groups[a] for a, _ in large], room, min(most, 8.0, 0.86 * room))
    else:
        plotting.draw_class_ticks(ax, names, cell, most)
    for a, _ in bounds[1:]:
        for line in (ax.axhline, ax.axvline):
            line(a - 0.5, color=colours.line, linewidth=1.0 if cell > 4 else 0.5)


def shorten_names(names: list[str]) -> list[str]:
    """Return the names cut to the longest length that is drawn."""
    ellipsis = "\N{HORIZONTAL ELLIPSIS}"
    return [name if len(name) <= LONGEST_DRAWN_NAME else name[: LONGEST_DRAWN_NAME - 1] + ellipsis for name in names]


def _find_group_runs(groups: list[str] | None) -> list[tuple[int, int]]:
    """Return begin and end of each run of rows of one group."""
    if not groups:
        return []
    starts = [0, *(k for k in range(1, len(groups)) if groups[k] != groups[k - 1])]
    return list(zip(starts, [*starts[1:], len(groups)], strict=True))


def _draw_cell_borders(ax: Any, n: int, colours: plot_style.Palette) -> None:
    """Draw lines in the background colour between cells."""
    between = np.arange(0.5, n - 1)
    ax.set_xticks(between, minor=True)
    ax.set_yticks(between, minor=True)
    ax.grid(which="minor", color=colours.ground, linewidth=1.0 if n <= 20 else 0.5)
    ax.tick_params(which="minor", length=0)


def _write_values(
    ax: Any, drawn: PlotData, values: np.ndarray, known: np.ndarray, layers: Any, look: Look, cell: float, most: float
) -> Any:
    """Write the texts of nonzero cells, in as many lines as fit; return them, or None if none fits."""
    places = np.argwhere(known & (values > 0))
    for lines in (3, 2, 1) if look.text == "triple" else (1,):
        texts = [_format_cell(drawn, values, i, j, lines, look) for i, j in places]
        found = write_cells(ax, places, texts, values, layers, cell, most)
        if found is not None:
            if look.text == "triple" and lines > 1:
                ax.set_xlabel(f"{ax.get_xlabel()}\n{TRIPLE_LEGENDS[lines]}")
            return found
    return None


def write_cells(
    ax: Any, places: np.ndarray, texts: list[str], values: np.ndarray, layers: Any, cell: float, most: float
) -> Any:
    """Write a text into each given cell, all in one font size; return them, or None if they do not fit.

    `layers` are the images of the cells off and on the diagonal; the second is None if one image has both.
    """
    lines = [text.split("\n") for text in texts]
    longest = max((len(line) for text in lines for line in text), default=0)
    points = plotting.fit_font(max(map(len, lines), default=1), longest, cell, most)
    if not points or not texts:
        return None
    out = np.full(values.shape, None, object)
    for (i, j), text in zip(places, texts, strict=True):
        layer = layers[1] if i == j and layers[1] is not None else layers[0]
        ink = "white" if plot_style.is_dark(layer.to_rgba(values[i, j])[:3]) else "black"
        look = {"ha": "center", "va": "center", "fontsize": points, "color": ink, "linespacing": 1.1}
        out[i, j] = ax.text(j, i, text, **look)
    return out


def _format_cell(drawn: PlotData, values: np.ndarray, i: int, j: int, lines: int, look: Look) -> str:
    """Return the text of a cell in the given number of lines."""
    if look.text != "triple":
        if look.values_format is not None:
            value = drawn.counts[i, j] if drawn.whole else values[i, j]
            return format(value.item(), look.values_format)
        return (
            plot_style.format_short(values[i, j]) if drawn.shares is None else plot_style.format_percent(values[i, j])
        )
    totals = (drawn.row_sums[i], drawn.col_sums[j])[: lines - 1]
    shares = [f"{plot_style.format_percent(drawn.counts[i, j] / total) or '<0.1'} %" for total in totals]
    return "\n".join([plot_style.format_short(drawn.counts[i, j]), *shares])
