"""Pictures of interval widths and of differences between teams."""

import math

from cmfast._pages.charts import Interval, RowChart, draw_forest
from cmfast._pages.parts import Picture
from cmfast._pages.pictures import make_picture
from cmfast._pages.svg import ACCENT, INK, MUTED
from cmfast._reproduce.uncertainty import _ranking
from cmfast.metrics import MetricName

LEAST_DRAWN_SHARE, MOST_DRAWN_SHARE = 0.001, 0.3
ERRING: dict[str, str] = dict(zip(_ranking.PAIRINGS, ("who err alike", "each errs alone"), strict=True))
MARKS = {"printed": "white", "class counts alone": MUTED, "real draws": ACCENT}


def draw_widths(n: int, rows: dict[str, dict[str, float]]) -> Picture:
    """Draw the printed width, that of the notebook's scheme and that of full draws, per metric and kind."""
    label, names = f"widths of the intervals at {n} samples", list(rows)
    low, high = math.log(LEAST_DRAWN_SHARE), math.log(MOST_DRAWN_SHARE)
    chart = RowChart(label, names, margins=(150.0, 12.0, 56.0, 0.0), step=22, size=11.5, scale=(low, high), width=480)
    chart.write_title(f"Width of the intervals at {n:,} samples")
    for k, (mark, colour) in enumerate(MARKS.items()):
        chart.dot(8 + 150 * k, 32, 5, colour, stroke=INK)
        chart.text(18 + 150 * k, 36, mark, size=11.5, fill=MUTED)
    chart.draw_scale({math.log(tick): f"{tick:g}" for tick in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)})
    for k, (name, marks) in enumerate(rows.items()):
        for mark, value in marks.items():
            x, said = chart.place(math.log(max(value, LEAST_DRAWN_SHARE))), f"{name}, {mark}: {value:.4f}"
            chart.dot(x, chart.centre(k), 5, MARKS[mark], stroke=INK, title=said)
    return make_picture(f"widths_{n}", chart, {"samples": n, "widths": rows})


def draw_differences(found: list[_ranking.Difference], metric: MetricName, pairing: str) -> Picture:
    """Draw the differences of all pairs of teams by one metric, for counts and normalised matrices."""
    chosen = [d for d in found if (d.metric, d.pairing) == (metric, pairing)]
    chosen.sort(key=lambda d: (d.pair, d.kind))
    rows: list[Interval] = [
        (f"{d.pair[0] + 1} less {d.pair[1] + 1}, {d.kind}", d.low, d.estimate, d.high) for d in chosen
    ]
    name = f"differences_{metric}_{pairing.replace(' ', '_')}"
    numbers = {row[0]: {"low": row[1], "estimate": row[2], "high": row[3]} for row in rows}
    title = f"{metric.replace('_', ' ')} of two teams, {ERRING[pairing]}"
    return make_picture(name, draw_forest(rows, title, signed=True, titled=True), numbers)
