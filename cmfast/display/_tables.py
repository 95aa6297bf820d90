"""Heat maps of rectangular tables, and pictures of zero patterns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast._core import plot_style, plotting
from cmfast.display import _painting

MOST_STRETCHED = 4.0  # ratio of the sides of a table up to which its cells are squares
PALE, PALER = 0.45, 0.15  # shares of a colour mixed with the background


def draw_table(ax: Any, values: np.ndarray, labels: tuple[str, str], unit: str) -> Any:
    """Draw a matrix of nonnegative values as a heat map, with the values where they fit; return the axes.

    Zeros are blank and undefined cells are striped. `labels` are those of the rows and of the columns.
    """
    ax = plotting.get_axes(ax, (5.4, 4.2))
    colours = plotting.match_palette(ax)
    known = np.isfinite(values)
    scale = plotting.make_colour_map(plot_style.make_ramp(colours.ground, colours.off_diagonal), colours.ground)
    low, high = plotting.get_scale_limits(np.where(known, values, 0.0), None, None)
    image = plotting.paint_cells(ax, values, known & (values > 0), scale, low=low, high=high)
    if not known.all():
        plotting.paint_undefined(ax, ~known, colours)
    if image.get_array().count():
        _painting.draw_colorbar(ax, image, unit, shares=False)
    cell, dot = _label_indices(ax, values.shape, labels)
    if dot > 1:
        largest = plotting.pool_cells(np.where(known, values, np.nan), dot, np.fmax)
        plotting.repaint(ax, image, np.ma.masked_array(largest, ~(np.nan_to_num(largest) > 0)), dot)
        ax.set_xlabel(f"{labels[1]} (a dot is the largest of {dot} x {dot})")
    else:
        places = np.argwhere(known & (values > 0))
        texts = [plot_style.format_short(values[i, j].item()) for i, j in places]
        _painting.write_cells(ax, places, texts, values, (image, None), cell, float(ax.xaxis.label.get_size()))
    return ax


def draw_pattern(
    ax: Any,
    dead_cells: np.ndarray,
    row_block: np.ndarray,
    col_block: np.ndarray,
    rows: np.ndarray,
    cols: np.ndarray,
    classes: Sequence[Any] | None,
) -> Any:
    """Draw the blocks, the dead cells and the certificate of one matrix; return the axes.

    `rows` and `cols` are the masks of the certificate: positive cells of its rows are in its columns alone.
    """
    from matplotlib.patches import Patch  # noqa: TID251

    ax = plotting.get_axes(ax, (4.6, 4.6))
    colours = plotting.match_palette(ax)
    pale, paler = (colours.ground + share * (colours.off_diagonal - colours.ground) for share in (PALE, PALER))
    in_block = (row_block[:, None] == col_block) & (row_block[:, None] >= 0)
    kinds = {
        "in a block": (in_block & ~dead_cells, pale),
        "dead": (dead_cells, colours.diagonal),
        "reached by the certificate": (rows[:, None] & cols, pale),
        "zero in its rows": (rows[:, None] & ~cols, paler),
    }
    images = {}
    for kind, (mask, colour) in kinds.items():
        scale = plotting.make_colour_map(colour[None], colours.ground)
        images[kind] = plotting.paint_cells(ax, np.zeros(mask.shape), mask, scale, low=0, high=1)
    cell, dot = _label_indices(ax, dead_cells.shape, ("row", "column"))
    if dot > 1:
        for kind, (mask, _) in kinds.items():
            pooled = plotting.pool_cells(mask, dot, np.logical_or)
            plotting.repaint(ax, images[kind], np.ma.masked_array(np.zeros(pooled.shape), ~pooled), dot)
    if classes is not None:
        names = _painting.shorten_names(list(map(str, classes)))
        plotting.draw_class_ticks(ax, names, cell, float(ax.xaxis.label.get_size()))
    shown = [Patch(color=colour, label=kind) for kind, (mask, colour) in kinds.items() if mask.any()]
    plotting.draw_legend_above(ax, shown)
    return ax


def _label_indices(ax: Any, shape: tuple[int, ...], labels: tuple[str, str]) -> tuple[float, int]:
    """Set limits, ticks and labels of the axes of a table; return points per cell, and rows pooled into one dot."""
    n_rows, n_cols = shape
    ax.set(xlim=(-0.5, max(n_cols, 1) - 0.5), ylim=(max(n_rows, 1) - 0.5, -0.5), ylabel=labels[0], xlabel=labels[1])
    if max(shape) > MOST_STRETCHED * min(shape):
        ax.set_aspect("auto")
    for axis in (ax.xaxis, ax.yaxis):
        plotting.set_integer_ticks(axis)
    cell, pixels = plotting.measure_cell(ax, max(shape))
    return cell, plotting.choose_dot_size(max(shape), pixels)
