"""Confusion matrices on axes: two scales of colours, texts where there is room, names, groups."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from cmfast._core import drawing, pictures
from cmfast.display._values import Drawn, defined

Text: TypeAlias = Literal["value", "triple", "none"]


@dataclass(frozen=True)
class Look:
    """How a matrix is to look, as the caller says."""

    text: str = "value"
    log: bool = False
    vmin: float | None = None
    vmax: float | None = None
    own_diagonal: bool = True
    colorbar: bool = True
    values_format: str | None = None


@dataclass
class Painted:
    """What was painted."""

    image: Any
    diagonal: Any
    text: Any
    bars: list[Any]
    dot: int


def paint(ax: Any, drawn: Drawn, look: Look, unit: str) -> Painted:
    """Paint a matrix on `ax`; return what was painted."""
    values = drawn.counts if drawn.shares is None else drawn.shares
    values = np.asarray(values, np.float64)
    n = len(values)
    known = defined(values)
    colours = drawing.colours_of(ax)
    on = np.eye(n, dtype=bool) & look.own_diagonal
    ax.set(xlim=(-0.5, max(n, 1) - 0.5), ylim=(max(n, 1) - 0.5, -0.5), xlabel="predicted", ylabel="true")
    off_map, on_map = (
        drawing.colour_map(pictures.ramp(colours.ground, end), colours.ground)
        for end in (colours.off_diagonal, colours.diagonal)
    )
    off = drawing.limits(np.where(known & ~on, values, 0.0), look.vmin, look.vmax, log=look.log)
    image = drawing.layer(ax, values, known & ~on & (values > 0), off_map, low=off[0], high=off[1], log=look.log)
    diagonal = None
    if look.own_diagonal:
        high = float(np.where(known & on, values, 0.0).max(initial=0.0)) or 1.0
        high = high if drawn.shares is None else 1.0
        diagonal = drawing.layer(ax, values, known & on & (values > 0), on_map, low=0.0, high=high)
    bars = _bars(ax, image, diagonal, unit, shares=drawn.shares is not None) if look.colorbar else []
    _frame(ax, colours)
    cell, pixels = drawing.cell_size(ax, n)
    dot = drawing.dots(n, pixels)
    most = _points(ax)
    if dot > 1:
        _pool(ax, image, diagonal, values, known, dot)
    elif not known.all():
        drawing.hatched(ax, ~known, colours)
    notes = [f"a dot is the largest of {dot} x {dot}"] if dot > 1 else []
    notes += [] if known.all() else [f"{'striped' if dot == 1 else 'blank'}: undefined"]
    if notes:
        ax.set_xlabel(f"predicted ({'; '.join(notes)})")
    _name(ax, drawn, cell, most, colours)
    if n <= drawing.FINEST and dot == 1:
        _separate(ax, n, colours)
    text = None
    if dot == 1 and look.text != "none":
        cell, _ = drawing.cell_size(ax, n)
        text = _write(ax, drawn, values, known, (image, diagonal), look, cell, most)
    return Painted(image, diagonal, text, bars, dot)


def _points(ax: Any) -> float:
    """Return the size of the font of axes."""
    return float(ax.xaxis.label.get_size())


def _frame(ax: Any, colours: pictures.Palette) -> None:
    for spine in ax.spines.values():
        spine.set_color(colours.line)
    ax.set_xticks([])
    ax.set_yticks([])


def _bars(ax: Any, image: Any, diagonal: Any, unit: str, *, shares: bool) -> list[Any]:
    """Draw the scales of colours beside the matrix."""
    from matplotlib.ticker import FuncFormatter  # noqa: TID251

    named = [(image, "confused" if diagonal is not None else ""), (diagonal, "right")]
    bars = []
    for layer, name in named:
        if layer is not None and layer.get_array().count():
            bar = ax.figure.colorbar(layer, ax=ax, fraction=0.05, pad=0.03, shrink=0.85, aspect=28)
            bar.set_label(f"{name}, {unit}" if name else unit)
            bar.outline.set_visible(False)
            if shares:
                bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}"))
            bars.append(bar)
    return bars


def _pool(ax: Any, image: Any, diagonal: Any, values: np.ndarray, known: np.ndarray, dot: int) -> None:
    """Have dots of several cells show the largest of them; the diagonal moves to a strip, which shows the least."""
    n = len(values)
    off = np.where(known, values, np.nan)
    if diagonal is not None:
        np.fill_diagonal(off, np.nan)
    largest = drawing.pooled(off, dot, np.fmax)
    with np.errstate(invalid="ignore"):
        image.set_data(np.ma.masked_array(largest, ~(largest > 0)))
    end = dot * len(largest) - 0.5
    image.set_extent((-0.5, end, end, -0.5))
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    if diagonal is None:
        return
    least = np.fmin.reduceat(np.diagonal(np.where(known, values, np.nan)), np.arange(0, n, dot))
    diagonal.remove()
    strip = ax.inset_axes((1.012, 0.0, 0.03, 1.0))
    strip.set_facecolor(ax.get_facecolor())
    strip.imshow(least[:, None], cmap=diagonal.cmap, norm=diagonal.norm, extent=(0, 1, end, -0.5), aspect="auto")
    strip.set(ylim=(n - 0.5, -0.5), xticks=[], yticks=[])


def _name(ax: Any, drawn: Drawn, cell: float, most: float, colours: pictures.Palette) -> None:
    """Write the names of the classes; where they are too small, of the groups. Lines set groups apart."""
    names = [name if len(name) <= 26 else name[:25] + "\N{HORIZONTAL ELLIPSIS}" for name in drawn.names]
    bounds = _bounds(drawn.groups)
    if drawn.groups is not None and 0.86 * cell < drawing.SMALLEST and len(bounds) > 1:
        size = min(most, 8.0)
        large = [(a, b) for a, b in bounds if (b - a) * cell >= drawing.HEIGHT * drawing.SMALLEST]
        size = min([size, *((b - a) * cell * 0.86 for a, b in large)])
        places = [(a + b - 1) / 2 for a, b in large]
        room = min([(b - a) * cell for a, b in large], default=0.0)
        drawing.write(ax, places, [drawn.groups[a] for a, _ in large], room, size)
    else:
        drawing.tick_names(ax, names, cell, most)
    for a, _ in bounds[1:]:
        for line in (ax.axhline, ax.axvline):
            line(a - 0.5, color=colours.line, linewidth=1.0 if cell > 4 else 0.5)


def _bounds(groups: list[str] | None) -> list[tuple[int, int]]:
    """Return where each run of lines of one group begins and ends."""
    if not groups:
        return []
    starts = [0, *(k for k in range(1, len(groups)) if groups[k] != groups[k - 1])]
    return list(zip(starts, [*starts[1:], len(groups)], strict=True))


def _separate(ax: Any, n: int, colours: pictures.Palette) -> None:
    """Draw lines of the ground between cells."""
    between = np.arange(0.5, n - 1)
    ax.set_xticks(between, minor=True)
    ax.set_yticks(between, minor=True)
    ax.grid(which="minor", color=colours.ground, linewidth=1.0 if n <= 20 else 0.5)
    ax.tick_params(which="minor", length=0)


def _write(
    ax: Any, drawn: Drawn, values: np.ndarray, known: np.ndarray, layers: Any, look: Look, cell: float, most: float
) -> Any:
    """Write texts into the cells that are not zero, all in one size; return them, None where there is no room."""
    places = np.argwhere(known & (values > 0))
    if not len(places):
        return None
    found: tuple[list[str], float] = ([], 0.0)
    for lines in (3, 2, 1) if look.text == "triple" else (1,):
        texts = [_text(drawn, values, i, j, lines, look) for i, j in places]
        longest = max((len(line) for text in texts for line in text.split("\n")), default=0)
        found = texts, drawing.font_size(lines, longest, cell, most)
        if found[1]:
            break
    texts, size = found
    if not size:
        return None
    if look.text == "triple" and lines > 1:
        ax.set_xlabel(f"{ax.get_xlabel()}\n{KEYS[lines]}")
    out = np.full(values.shape, None, object)
    for (i, j), text in zip(places, texts, strict=True):
        layer = layers[1] if i == j and layers[1] is not None else layers[0]
        ink = "white" if pictures.is_dark(layer.to_rgba(values[i, j])[:3]) else "black"
        out[i, j] = ax.text(j, i, text, ha="center", va="center", fontsize=size, color=ink, linespacing=1.1)
    return out


KEYS = {
    3: "in a cell: count, % of its row, % of its column",
    2: "in a cell: count, % of its row",
}


def _text(drawn: Drawn, values: np.ndarray, i: int, j: int, lines: int, look: Look) -> str:
    """Return the text of a cell in so many lines."""
    if look.text != "triple":
        if look.values_format is not None:
            return format(values[i, j].item(), look.values_format)
        return pictures.short(values[i, j]) if drawn.shares is None else pictures.percent(values[i, j])
    totals = (drawn.row_sums[i], drawn.col_sums[j])[: lines - 1]
    shares = [f"{pictures.percent(drawn.counts[i, j] / total) or '<0.1'} %" for total in totals]
    return "\n".join([pictures.short(drawn.counts[i, j]), *shares])
