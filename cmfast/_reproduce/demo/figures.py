"""Figures of the demo. Numbers in, markup out."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from cmfast._core.pictures import DIAGONAL, OFF_DIAGONAL, ink_on, percent, shade
from cmfast._pages.svg import CHART, INK, LINE, MUTED, Svg

METHOD_COLOURS = {"all": "#98a2b3", "row": "#2a9d8f", "col": "#d9922b", "bi": "#2457c5"}
CRISP = 'shape-rendering="crispEdges"'  # neighbours of one picture, without seams


def heatmap(
    S: np.ndarray, *, title: str, subtitle: str, off_diagonal_max: float, names: Sequence[str] | None = None
) -> str:
    """Draw a matrix whose mean row sum is one: true classes down, predicted classes across, cells in percent."""
    names = [str(k) for k in range(len(S))] if names is None else names
    n, left, top = len(S), 42.0, 74.0
    cell = max(30.0, 240.0 / n)  # wide enough for what is written above
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
            svg.rect(
                x + 0.5,
                y + 0.5,
                cell - 1,
                cell - 1,
                shade(share, colour),
                title=f"true {names[i]}, predicted {names[j]}: {100 * value:.2f} %",
            )
            if percent(value):
                ink = ink_on(shade(share, colour), INK)
                svg.text(x + cell / 2, y + cell / 2 + 4, percent(value), size=10.5, anchor="middle", fill=ink)
    svg.rect(left, top, n * cell, n * cell, "none", more=f'stroke="{LINE}"')
    return str(svg)


def heat_legend(most: float) -> str:
    """Draw the colour scale that all heatmaps of the report share."""
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
    return str(svg)


def class_sizes(sizes: dict[str, Sequence[int]], colours: dict[str, str], title: str) -> str:
    """Draw grouped bars: how many pictures of every class there are in each set."""
    classes = len(next(iter(sizes.values())))
    left, top, height, group = 40.0, 46.0, 150.0, (CHART - 46.0) / classes
    most = max(max(values) for values in sizes.values())
    svg = Svg(CHART, top + height + 40, title)
    svg.text(0, 14, title, size=14, weight=650)
    x = 0.0
    for name in sizes:
        svg.rect(x, 25, 10, 10, colours[name])
        svg.text(x + 15, 34, name, size=11.5, fill=MUTED)
        x += 27 + 6.2 * len(name)
    for tick in _ticks(most):
        y = top + height * (1 - tick / most)
        svg.line(left, y, CHART, y)
        svg.text(left - 6, y + 4, f"{tick:g}", size=10.5, anchor="end", fill=MUTED)
    width = (group - 8) / len(sizes)
    for c in range(classes):
        for k, (name, values) in enumerate(sizes.items()):
            bar = height * values[c] / most
            svg.rect(
                left + c * group + 4 + k * width,
                top + height - bar,
                width - 1,
                bar,
                colours[name],
                title=f"class {c}, {name}: {values[c]} pictures",
            )
        svg.text(left + (c + 0.5) * group, top + height + 15, str(c), size=11, anchor="middle", fill=MUTED)
    svg.text(left + (CHART - left) / 2, top + height + 33, "class (digit)", size=11, anchor="middle", fill=MUTED)
    return str(svg)


def _ticks(most: float) -> Iterable[float]:
    step = 10 ** np.floor(np.log10(most))
    step = step if most / step >= 3 else step / 2
    return [float(t) for t in np.arange(0, most * 1.0001, step)]


def bars(values: dict[str, dict[str, float]], *, title: str, subtitle: str, limit: float, best: str) -> str:
    """Draw one bar per method: the mean, whiskers of one standard deviation, a dot for the run that is shown."""
    left, right, top, step = 44.0, 62.0, 52.0, 40.0
    span = CHART - left - right
    svg = Svg(CHART, top + step * len(values) + 24, title)
    svg.text(0, 14, title, size=14, weight=650)
    svg.text(0, 32, subtitle, size=11.5, fill=MUTED)
    for tick in np.linspace(0, limit, 5):
        x = left + span * tick / limit
        svg.line(x, top - 6, x, top + step * len(values))
        svg.text(x, top + step * len(values) + 16, f"{tick:.2g}", size=10.5, anchor="middle", fill=MUTED)
    for k, (name, v) in enumerate(values.items()):
        y = top + step * k
        x = left + span * v["mean"] / limit
        bold = 700 if name == best else 400
        svg.text(left - 8, y + 19, name, size=13, anchor="end", weight=bold)
        svg.rect(
            left, y + 3, x - left, 23, METHOD_COLOURS[name], title=f"{name}: mean {v['mean']:.4f}, sd {v['sd']:.4f}"
        )
        low, high = (left + span * min(max(v["mean"] + s * v["sd"], 0), limit) / limit for s in (-1, 1))
        svg.line(low, y + 14.5, high, y + 14.5, INK, 1.5)
        svg.dot(left + span * v["shown"] / limit, y + 14.5, 4.5, "white", title=f"shown: {v['shown']:.4f}", stroke=INK)
        svg.text(CHART, y + 19, f"{v['mean']:.3f}", size=13, anchor="end", weight=bold)
    return str(svg)


def lines(
    x_labels: Sequence[str],
    series: dict[str, Sequence[float]],
    colours: dict[str, str],
    *,
    title: str,
    x_title: str,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> str:
    """Draw curves in `lowest`..`highest` over evenly spaced settings, each named at its right end."""
    left, right, top, height = 36.0, 92.0, 34.0, 190.0
    svg = Svg(CHART, top + height + 42, title)
    svg.text(0, 14, title, size=14, weight=650)

    def at_height(value: float) -> float:
        return top + height * (highest - value) / (highest - lowest)

    for tick in np.linspace(lowest, highest, 6):
        y = at_height(float(tick))
        svg.line(left, y, CHART - right, y)
        svg.text(left - 6, y + 4, f"{tick:g}", size=10.5, anchor="end", fill=MUTED)
    at = [left + 12 + k * (CHART - right - left - 24) / (len(x_labels) - 1) for k in range(len(x_labels))]
    for x, label in zip(at, x_labels, strict=True):
        svg.text(x, top + height + 16, label, size=10.5, anchor="middle", fill=MUTED)
    svg.text((left + CHART - right) / 2, top + height + 35, x_title, size=11, anchor="middle", fill=MUTED)
    ends = _apart([at_height(values[-1]) for values in series.values()], 15)
    for (name, values), end in zip(series.items(), ends, strict=True):
        ys = [at_height(v) for v in values]
        for (x1, y1), (x2, y2) in pairwise(zip(at, ys, strict=True)):
            svg.line(x1, y1, x2, y2, colours[name], 2.2)
        for x, y, v in zip(at, ys, values, strict=True):
            svg.dot(x, y, 4, colours[name], title=f"{name}: {v:.3f}")
        svg.text(CHART - right + 2, end + 4, name, size=11.5, fill=colours[name], weight=650)
    return str(svg)


def _apart(ys: Sequence[float], gap: float) -> list[float]:
    """Return places for labels near `ys`, in the same order from top to bottom, at least `gap` apart."""
    out = list(ys)
    order = sorted(range(len(ys)), key=ys.__getitem__)
    for above, below in pairwise(order):
        out[below] = max(out[below], out[above] + gap)
    return out


def overlap_table(values: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """Draw the overlaps of normalisations (down) with geometric matrices (across)."""
    cell_w, cell_h, left, top = 82.0, 46.0, 96.0, 62.0
    svg = Svg(CHART, top + cell_h * len(names) + 6, "overlap of every normalisation with every geometric matrix")
    svg.text(0, 14, "Overlap, mean over the repetitions", size=14, weight=650)
    svg.text(left + cell_w * len(names) / 2, 36, "geometric matrix weighted by →", size=11, anchor="middle", fill=MUTED)
    for k, name in enumerate(names):
        svg.text(left + (k + 0.5) * cell_w, top - 7, name, size=12.5, anchor="middle")
        svg.text(left - 10, top + (k + 0.5) * cell_h + 4, f"{name}(M)", size=12.5, anchor="end")
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            x, y = left + j * cell_w, top + i * cell_h
            share = (value - 0.4) / 0.6
            best = value == max(r[j] for r in values)
            svg.rect(x + 1, y + 1, cell_w - 2, cell_h - 2, shade(0.9 * share, OFF_DIAGONAL))
            ink = ink_on(shade(0.9 * share, OFF_DIAGONAL), INK)
            svg.text(
                x + cell_w / 2,
                y + cell_h / 2 + 5,
                f"{value:.2f}",
                size=13.5,
                anchor="middle",
                fill=ink,
                weight=700 if best else 400,
            )
    return str(svg)


def decided(values: dict[str, dict[str, dict[str, float]]]) -> str:
    """Draw, per weighting, the overlap beside the part that was guaranteed and what permuted labels give."""
    left, right, top, step = 44.0, 46.0, 74.0, 42.0
    span = CHART - left - right
    svg = Svg(CHART, top + step * len(values) + 22, "overlap beside its guaranteed share and the permuted labels")
    svg.text(0, 14, "How much of that was decided beforehand?", size=14, weight=650)
    svg.rect(0, 26, 10, 10, METHOD_COLOURS["bi"], more='fill-opacity="0.35"')
    svg.text(15, 35, "guaranteed by sparse cells", size=11.5, fill=MUTED)
    svg.rect(168, 26, 10, 10, METHOD_COLOURS["bi"])
    svg.text(183, 35, "earned beyond it", size=11.5, fill=MUTED)
    svg.line(290, 24, 290, 38, "#c0322b", 3)
    svg.text(298, 35, "labels permuted", size=11.5, fill=MUTED)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = left + span * tick
        svg.line(x, top - 10, x, top + step * len(values) - 4)
        svg.text(x, top + step * len(values) + 12, f"{tick:g}", size=10.5, anchor="middle", fill=MUTED)
    for k, (name, v) in enumerate(values.items()):
        y = top + step * k
        sure, all_of_it = (left + span * v[key]["mean"] for key in ("guaranteed", "overlap"))
        null = left + span * v["null"]["mean"]
        svg.text(left - 8, y + 17, name, size=13, anchor="end")
        svg.rect(left, y, sure - left, 25, "white")
        svg.rect(left, y, sure - left, 25, METHOD_COLOURS[name], more='fill-opacity="0.35"')
        svg.rect(sure, y, all_of_it - sure, 25, METHOD_COLOURS[name])
        svg.line(null, y - 4, null, y + 29, "#c0322b", 3)
        svg.text(CHART, y + 17, f"{v['overlap']['mean']:.2f}", size=13, anchor="end")
    return str(svg)


def intervals(rows: Sequence[tuple[str, Sequence[float]]], *, title: str) -> str:
    """Draw rows of (name, (low, value, high, reference)) as a range with a dot, and the reference as a diamond.

    Two more numbers are the ends of another interval, a thin line.
    """
    left, right, top, step = 108.0, 14.0, 66.0, 24.0
    span = CHART - left - right
    limit = max(max(values) for _, values in rows) * 1.05
    thin = any(others for _, (_, _, _, _, *others) in rows)
    top += 18.0 * thin
    svg = Svg(CHART, top + step * len(rows) + 38, title)
    if thin:
        svg.line(0, 50, 26, 50, INK, 1.5)
        svg.text(34, 54, "the same by the delta method, without draws", size=11.5, fill=MUTED)
    svg.text(0, 14, title, size=14, weight=650)
    svg.line(0, 32, 26, 32, METHOD_COLOURS["bi"], 5, 'stroke-opacity="0.35"')
    svg.dot(13, 32, 5, METHOD_COLOURS["bi"])
    svg.text(34, 36, "bi-normalised, with its interval", size=11.5, fill=MUTED)
    svg.rect(236, 27, 9, 9, "#c0322b", more='transform="rotate(45 240.5 31.5)"')
    svg.text(254, 36, "balanced truth", size=11.5, fill=MUTED)
    for tick in _ticks(100 * limit):
        x = left + span * tick / 100 / limit
        svg.line(x, top - 10, x, top + step * len(rows))
        svg.text(x, top + step * len(rows) + 15, f"{tick:g} %", size=10.5, anchor="middle", fill=MUTED)
    svg.text(left + span / 2, top + step * len(rows) + 33, "share of the class", size=11, anchor="middle", fill=MUTED)
    for k, (name, (low, value, high, reference, *others)) in enumerate(rows):
        y = top + step * k + 8
        xs = [left + span * v / limit for v in (low, value, high, reference)]
        svg.text(left - 10, y + 4, name, size=11.5, anchor="end")
        svg.line(xs[0], y, xs[2], y, METHOD_COLOURS["bi"], 7, 'stroke-opacity="0.3" stroke-linecap="round"')
        for first, last in [others] if others else []:
            title = f"without draws: {100 * first:.1f} % to {100 * last:.1f} %"
            svg.rect(left + span * first / limit, y - 0.75, span * (last - first) / limit, 1.5, INK, title=title)
        svg.dot(xs[1], y, 5, METHOD_COLOURS["bi"], title=f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
        svg.rect(
            xs[3] - 4.5,
            y - 4.5,
            9,
            9,
            "#c0322b",
            title=f"balanced: {100 * reference:.1f} %",
            more=f'transform="rotate(45 {xs[3]:.1f} {y:.1f})"',
        )
    return str(svg)


def pictures(images: np.ndarray, title: str) -> str:
    """Draw small grey pictures in two rows."""
    size, columns, gap = images.shape[-1], -(-len(images) // 2), 3.0
    unit = (CHART + gap) / (columns * (size + gap))
    svg = Svg(CHART, 30 + 2 * (size + gap) * unit, title)
    svg.text(0, 14, title, size=14, weight=650)
    for k, image in enumerate(images):
        left, top = (k % columns) * (size + gap) * unit, 30 + (k // columns) * (size + gap) * unit
        for (i, j), value in np.ndenumerate(image):
            grey = f"{round(255 * (1 - float(value))):02x}"
            svg.rect(left + j * unit, top + i * unit, unit + 0.2, unit + 0.2, f"#{grey * 3}", more=CRISP)
    return str(svg)
