"""Charts as SVG without matplotlib: rows on a scale, forest plots, heatmaps, line charts."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from cmfast._core.markup import shorten
from cmfast._core.plot_style import DIAGONAL, OFF_DIAGONAL, choose_ink, format_percent, shade
from cmfast._pages.svg import ACCENT, CHART, INK, LINE, MUTED, Svg
from cmfast._pages.values import MISSING

METHOD_COLOURS = {"all": "#98a2b3", "row": "#2a9d8f", "col": "#d9922b", "bi": "#2457c5"}
Interval = tuple[str, float, float, float]  # name, low, estimate, high
LONGEST_ROW_NAME = 21  # longest name, in characters


class RowChart(Svg):
    """Chart of named rows over a common scale."""

    def __init__(
        self,
        title: str,
        names: Sequence[str],
        *,
        margins: tuple[float, float, float, float],
        step: float,
        size: float = 13,
        scale: tuple[float, float] = (0.0, 1.0),
        width: float = CHART,
        bold: str = "",
    ) -> None:
        """Write the names; `margins` are left and right of the rows, above them, and below the scale."""
        self._left, right, self._top, below = margins
        self._span, self._step, (self._low, self._high) = width - self._left - right, step, scale
        self._bottom, self._width = self._top + step * len(names), width
        super().__init__(width, self._bottom + 24 + below, title)
        for k, name in enumerate(names):
            weight = 700 if name == bold else 400
            self.text(
                self._left - 9,
                self.centre(k) + 4,
                shorten(name, LONGEST_ROW_NAME),
                size=size,
                anchor="end",
                weight=weight,
            )

    def place(self, value: float) -> float:
        """Return the x coordinate of a value, clipped to the scale."""
        value = min(max(value, self._low), self._high)
        return self._left + self._span * (value - self._low) / (self._high - self._low)

    def centre(self, k: int) -> float:
        """Return the y coordinate of the middle of row `k`."""
        return self._top + self._step * (k + 0.5)

    def draw_scale(self, ticks: Mapping[float, str], axis: str = "", zero: float | None = None) -> None:
        """Draw labelled lines at the ticks; the line of `zero` is emphasised."""
        for value, text in ticks.items():
            x = self.place(value)
            self.line(x, self._top - 6, x, self._bottom, INK if value == zero else LINE)
            self.text(x, self._bottom + 16, text, size=10.5, anchor="middle", fill=MUTED)
        if axis:
            middle = self._left + self._span / 2
            self.text(middle, self._bottom + 33, axis, size=11, anchor="middle", fill=MUTED)

    def write_value(self, k: int, text: str, weight: int = 400) -> None:
        """Write the value of a row at its right end."""
        self.text(self._width, self.centre(k) + 4, text, size=13, anchor="end", weight=weight)

    def draw_bar(
        self,
        k: int,
        first: float,
        last: float,
        height: float,
        fill: str,
        *,
        title: str = "",
        more: str = "",
        shift: float = 0.0,
    ) -> None:
        """Draw a bar between two values, `shift` below the middle of its row."""
        x, y = self.place(first), self.centre(k) - height / 2 + shift
        self.rect(x, y, self.place(last) - x, height, fill, title=title, more=more)


def draw_forest(
    rows: Sequence[Interval],
    label: str,
    *,
    low: float = 0.0,
    high: float = 1.0,
    signed: bool = False,
    titled: bool = False,
) -> RowChart:
    """Draw a forest plot of intervals; `signed` centres the scale on zero, `titled` writes `label` as a title."""
    known = [row for row in rows if not any(math.isnan(value) for value in row[1:])]
    if signed:
        high = max((abs(value) for row in known for value in row[1:]), default=1.0) or 1.0
        low = -high
    margins = (150.0, 56.0, 30.0 if titled else 6.0, 0.0)
    chart = RowChart(label, [row[0] for row in rows], margins=margins, step=25, scale=(low, high), width=480)
    if titled:
        chart.write_title(label)
    form = "+.3f" if signed else ".3g"
    ticks = [low + (high - low) * k / 4 for k in range(5)]
    chart.draw_scale({value: f"{value:{form if value else '.3g'}}" for value in ticks}, zero=0.0 if signed else None)
    for k, (name, first, estimate, last) in enumerate(rows):
        if math.isnan(estimate):
            chart.write_value(k, MISSING)
            continue
        if not (math.isnan(first) or math.isnan(last)):
            more = 'stroke-opacity="0.35" stroke-linecap="round"'
            chart.line(chart.place(first), chart.centre(k), chart.place(last), chart.centre(k), ACCENT, 6, more)
        said = f"{name}: {estimate:.4f} ({first:.4f} to {last:.4f})"
        chart.dot(chart.place(estimate), chart.centre(k), 5, ACCENT, title=said)
        chart.write_value(k, f"{estimate:{'+.3f' if signed else '.3f'}}")
    return chart


def draw_heatmap(
    S: np.ndarray, *, title: str, subtitle: str, off_diagonal_max: float, names: Sequence[str] | None = None
) -> Svg:
    """Draw a matrix whose mean row sum is one: rows are true classes, cells are in percent."""
    names = [str(k) for k in range(len(S))] if names is None else names
    n, left, top = len(S), 42.0, 74.0
    cell = max(30.0, 240.0 / n)  # wide enough for the title
    svg = Svg(left + n * cell + 6, top + n * cell + 6, f"{title}: {subtitle}")
    svg.text(left, 16, title, size=15, weight=650)
    svg.text(left, 34, subtitle, size=11.5, fill=MUTED)
    svg.text(left + n * cell / 2, 54, "predicted class →", size=10.5, anchor="middle", fill=MUTED)
    svg.text(13, top + n * cell / 2, "← true class", size=10.5, anchor="middle", fill=MUTED, turn=True)
    for k in range(n):
        svg.text(left + (k + 0.5) * cell, top - 5, names[k], size=10.5, anchor="middle", fill=MUTED)
        svg.text(left - 7, top + (k + 0.5) * cell + 4, names[k], size=10.5, anchor="end", fill=MUTED)
    for i in range(n):
        for j in range(n):
            value = float(S[i, j])
            scale, colour = (1.0, DIAGONAL) if i == j else (off_diagonal_max, OFF_DIAGONAL)
            share = value / scale
            x, y = left + j * cell, top + i * cell
            said = f"true {names[i]}, predicted {names[j]}: {100 * value:.2f} %"
            paint_cell(svg, (x, y, cell, cell), shade(share, colour), format_percent(value), size=10.5, title=said)
    svg.rect(left, top, n * cell, n * cell, "none", more=f'stroke="{LINE}"')
    return svg


def paint_cell(
    svg: Svg,
    box: tuple[float, float, float, float],
    colour: str,
    text: str,
    *,
    size: float,
    weight: int = 400,
    title: str = "",
) -> None:
    """Fill a cell (left, top, width, height) of a matrix and write `text` in a contrasting colour."""
    x, y, w, h = box
    svg.rect(x + 0.5, y + 0.5, w - 1, h - 1, colour, title=title)
    if text:
        ink = choose_ink(colour, INK)
        svg.text(x + w / 2, y + h / 2 + 4, text, size=size, anchor="middle", fill=ink, weight=weight)


def draw_lines(
    x_labels: Sequence[str],
    series: dict[str, Sequence[float]],
    colours: dict[str, str],
    *,
    title: str,
    x_title: str,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Svg:
    """Draw line charts over evenly spaced settings, each named at its right end."""
    left, right, top, height = 36.0, 92.0, 34.0, 190.0
    svg = Svg(CHART, top + height + 42, title)
    svg.write_title(title)

    def locate_height(value: float) -> float:
        """Return the y coordinate of a value."""
        return top + height * (highest - value) / (highest - lowest)

    for tick in np.linspace(lowest, highest, 6):
        y = locate_height(float(tick))
        svg.line(left, y, CHART - right, y)
        svg.text(left - 6, y + 4, f"{tick:g}", size=10.5, anchor="end", fill=MUTED)
    at = [left + 12 + k * (CHART - right - left - 24) / (len(x_labels) - 1) for k in range(len(x_labels))]
    for x, label in zip(at, x_labels, strict=True):
        svg.text(x, top + height + 16, label, size=10.5, anchor="middle", fill=MUTED)
    svg.text((left + CHART - right) / 2, top + height + 35, x_title, size=11, anchor="middle", fill=MUTED)
    ends = _spread_labels([locate_height(values[-1]) for values in series.values()], 15)
    for (name, values), end in zip(series.items(), ends, strict=True):
        ys = [locate_height(v) for v in values]
        for (x1, y1), (x2, y2) in pairwise(zip(at, ys, strict=True)):
            svg.line(x1, y1, x2, y2, colours[name], 2.2)
        for x, y, v in zip(at, ys, values, strict=True):
            svg.dot(x, y, 4, colours[name], title=f"{name}: {v:.3f}")
        svg.text(CHART - right + 2, end + 4, name, size=11.5, fill=colours[name], weight=650)
    return svg


def _spread_labels(ys: Sequence[float], gap: float) -> list[float]:
    """Return y coordinates near `ys`, in the same order, at least `gap` apart."""
    out = list(ys)
    order = sorted(range(len(ys)), key=ys.__getitem__)
    for above, below in pairwise(order):
        out[below] = max(out[below], out[above] + gap)
    return out
