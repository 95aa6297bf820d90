"""SVG figures of the demo."""

from collections.abc import Iterable, Sequence

import numpy as np

from cmfast._core.plot_style import DIAGONAL, OFF_DIAGONAL, shade
from cmfast._pages.charts import METHOD_COLOURS, RowChart, paint_cell
from cmfast._pages.svg import CHART, INK, MUTED, Svg

CRISP = 'shape-rendering="crispEdges"'  # neighbours of one picture, without seams
PALE = 'fill-opacity="0.35"'
TRUTH = "#c0322b"


def draw_heat_legend(most: float) -> Svg:
    """Draw the common colour scale of the heatmaps."""
    svg = Svg(348, 150, "colour scale of the heatmaps")
    svg.text(42, 16, "Colours", size=15, weight=650)
    rows = (("correct answers (the diagonal)", DIAGONAL, 100.0), ("confusions (beside it)", OFF_DIAGONAL, 100 * most))
    for k, (name, colour, end) in enumerate(rows):
        y = 44 + 58 * k
        svg.text(42, y - 5, name, size=12)
        for step in range(60):
            svg.rect(42 + 5 * step, y, 5.3, 16, shade((step + 0.5) / 60, colour), more=CRISP)
        svg.text(42, y + 29, "0", size=11, fill=MUTED)
        svg.text(342, y + 29, f"{end:.0f} % and more", size=11, anchor="end", fill=MUTED)
    return svg


def draw_class_sizes(sizes: dict[str, Sequence[int]], colours: dict[str, str], title: str) -> Svg:
    """Draw grouped bars of the class sizes in each set."""
    classes = [str(c) for c in range(len(next(iter(sizes.values()))))]
    most = max(max(values) for values in sizes.values())
    chart = RowChart(title, classes, margins=(40.0, 8.0, 50.0, 0.0), step=21, size=11, scale=(0.0, most))
    chart.write_title(title)
    x = 0.0
    for name in sizes:
        chart.rect(x, 25, 10, 10, colours[name])
        chart.text(x + 15, 34, name, size=11.5, fill=MUTED)
        x += 27 + 6.2 * len(name)
    chart.draw_scale({tick: f"{tick:g}" for tick in _choose_ticks(most)})
    chart.text(13, chart.centre(len(classes) // 2), "class (digit)", size=11, anchor="middle", fill=MUTED, turn=True)
    for k, (name, values) in enumerate(sizes.items()):
        shift = 6.0 * (k - (len(sizes) - 1) / 2)
        for c, n in enumerate(values):
            chart.draw_bar(c, 0.0, n, 5, colours[name], title=f"class {c}, {name}: {n} pictures", shift=shift)
    return chart


def _choose_ticks(most: float) -> Iterable[float]:
    """Return axis ticks from 0 to at most `most`; their distance is a power of ten or half of one."""
    step = 10 ** np.floor(np.log10(most))
    step = step if most / step >= 3 else step / 2
    return [float(t) for t in np.arange(0, most * 1.0001, step)]


def draw_bars(values: dict[str, dict[str, float]], *, title: str, subtitle: str, limit: float, best: str) -> Svg:
    """Draw one bar per method: mean, standard deviation, and the shown run."""
    chart = RowChart(title, list(values), margins=(44.0, 62.0, 52.0, 0.0), step=40, scale=(0.0, limit), bold=best)
    chart.write_title(title, subtitle)
    chart.draw_scale({tick: f"{tick:.2g}" for tick in np.linspace(0, limit, 5).tolist()})
    for k, (name, v) in enumerate(values.items()):
        said = f"{name}: mean {v['mean']:.4f}, sd {v['sd']:.4f}"
        chart.draw_bar(k, 0.0, v["mean"], 23, METHOD_COLOURS[name], title=said)
        low, high = (chart.place(v["mean"] + s * v["sd"]) for s in (-1, 1))
        chart.line(low, chart.centre(k), high, chart.centre(k), INK, 1.5)
        said = f"shown: {v['shown']:.4f}"
        chart.dot(chart.place(v["shown"]), chart.centre(k), 4.5, "white", title=said, stroke=INK)
        chart.write_value(k, f"{v['mean']:.3f}", 700 if name == best else 400)
    return chart


def draw_overlap_table(values: Sequence[Sequence[float]], names: Sequence[str]) -> Svg:
    """Draw the overlaps of normalisations (rows) with geometric matrices (columns)."""
    cell_w, cell_h, left, top = 82.0, 46.0, 96.0, 62.0
    svg = Svg(CHART, top + cell_h * len(names) + 6, "overlap of every normalisation with every geometric matrix")
    svg.write_title("Overlap, mean over the repetitions")
    svg.text(left + cell_w * len(names) / 2, 36, "geometric matrix weighted by →", size=11, anchor="middle", fill=MUTED)
    for k, name in enumerate(names):
        svg.text(left + (k + 0.5) * cell_w, top - 7, name, size=12.5, anchor="middle")
        svg.text(left - 10, top + (k + 0.5) * cell_h + 4, f"{name}(M)", size=12.5, anchor="end")
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            x, y = left + j * cell_w, top + i * cell_h
            share = (value - 0.4) / 0.6
            best = value == max(r[j] for r in values)
            colour, weight = shade(0.9 * share, OFF_DIAGONAL), 700 if best else 400
            paint_cell(svg, (x, y, cell_w, cell_h), colour, f"{value:.2f}", size=13.5, weight=weight)
    return svg


def draw_guaranteed_parts(values: dict[str, dict[str, dict[str, float]]]) -> Svg:
    """Draw per weighting the overlap, its guaranteed part and that of permuted labels."""
    label = "overlap beside its guaranteed share and the permuted labels"
    chart = RowChart(label, list(values), margins=(44.0, 46.0, 62.0, 0.0), step=42)
    chart.write_title("How much of that was decided beforehand?")
    chart.rect(0, 26, 10, 10, METHOD_COLOURS["bi"], more=PALE)
    chart.text(15, 35, "guaranteed by sparse cells", size=11.5, fill=MUTED)
    chart.rect(168, 26, 10, 10, METHOD_COLOURS["bi"])
    chart.text(183, 35, "earned beyond it", size=11.5, fill=MUTED)
    chart.line(290, 24, 290, 38, TRUTH, 3)
    chart.text(298, 35, "labels permuted", size=11.5, fill=MUTED)
    chart.draw_scale({tick: f"{tick:g}" for tick in (0, 0.25, 0.5, 0.75, 1)})
    for k, (name, v) in enumerate(values.items()):
        sure, all_of_it = v["guaranteed"]["mean"], v["overlap"]["mean"]
        chart.draw_bar(k, 0.0, sure, 25, "white")
        chart.draw_bar(k, 0.0, sure, 25, METHOD_COLOURS[name], more=PALE)
        chart.draw_bar(k, sure, all_of_it, 25, METHOD_COLOURS[name])
        null = chart.place(v["null"]["mean"])
        chart.line(null, chart.centre(k) - 16.5, null, chart.centre(k) + 16.5, TRUTH, 3)
        chart.write_value(k, f"{all_of_it:.2f}")
    return chart


def draw_intervals(rows: Sequence[tuple[str, Sequence[float]]], *, title: str) -> Svg:
    """Draw rows of (name, (low, value, high, reference, ...)): a range with a dot, the reference as a diamond.

    The last two are the ends of another interval, a thin line.
    """
    limit = max(max(values) for _, values in rows) * 1.05
    names = [name for name, _ in rows]
    chart = RowChart(title, names, margins=(108.0, 14.0, 80.0, 14.0), step=24, size=11.5, scale=(0.0, limit))
    chart.write_title(title)
    chart.line(0, 32, 26, 32, METHOD_COLOURS["bi"], 5, 'stroke-opacity="0.35"')
    chart.dot(13, 32, 5, METHOD_COLOURS["bi"])
    chart.text(34, 36, "bi-normalised, with its interval", size=11.5, fill=MUTED)
    _draw_diamond(chart, 240.5, 31.5, "")
    chart.text(254, 36, "balanced truth", size=11.5, fill=MUTED)
    chart.line(0, 50, 26, 50, INK, 1.5)
    chart.text(34, 54, "the same by the delta method, without draws", size=11.5, fill=MUTED)
    chart.draw_scale({tick / 100: f"{tick:g} %" for tick in _choose_ticks(100 * limit)}, "share of the class")
    for k, (_, (low, value, high, reference, first, last)) in enumerate(rows):
        y = chart.centre(k)
        more = 'stroke-opacity="0.3" stroke-linecap="round"'
        chart.line(chart.place(low), y, chart.place(high), y, METHOD_COLOURS["bi"], 7, more)
        chart.draw_bar(k, first, last, 1.5, INK, title=f"without draws: {100 * first:.1f} % to {100 * last:.1f} %")
        said = f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
        chart.dot(chart.place(value), y, 5, METHOD_COLOURS["bi"], title=said)
        _draw_diamond(chart, chart.place(reference), y, f"balanced: {100 * reference:.1f} %")
    return chart


def _draw_diamond(svg: Svg, x: float, y: float, title: str) -> None:
    """Draw a diamond centred at (x, y) with a tooltip."""
    svg.rect(x - 4.5, y - 4.5, 9, 9, TRUTH, title=title, more=f'transform="rotate(45 {x:.1f} {y:.1f})"')


def draw_pictures(images: np.ndarray, title: str) -> Svg:
    """Draw small grey pictures in two rows."""
    size, columns, gap = images.shape[-1], -(-len(images) // 2), 3.0
    unit = (CHART + gap) / (columns * (size + gap))
    svg = Svg(CHART, 30 + 2 * (size + gap) * unit, title)
    svg.write_title(title)
    for k, image in enumerate(images):
        left, top = (k % columns) * (size + gap) * unit, 30 + (k // columns) * (size + gap) * unit
        for (i, j), value in np.ndenumerate(image):
            grey = f"{round(255 * (1 - float(value))):02x}"
            svg.rect(left + j * unit, top + i * unit, unit + 0.2, unit + 0.2, f"#{grey * 3}", more=CRISP)
    return svg
