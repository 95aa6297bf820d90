"""Pictures of the widths and of the differences."""

import math

from cmfast._pages.forest import Row, forest
from cmfast._pages.svg import ACCENT, INK, LINE, MUTED, Svg
from cmfast._reproduce._frame import Picture
from cmfast._reproduce.uncertainty import _ranking
from cmfast.metrics import MetricName

WIDTH, LEFT, STEP, TOP = 480.0, 150.0, 22.0, 56.0
LEAST, MOST = 0.001, 0.3
ERRING: dict[str, str] = dict(zip(_ranking.PAIRINGS, ("who err alike", "each errs alone"), strict=True))
MARKS = {"printed": "white", "class counts alone": MUTED, "real draws": ACCENT}


def of_widths(n: int, rows: dict[str, dict[str, float]]) -> Picture:
    """Draw, for every metric of both kinds, the printed width, the one of its scheme and that of real draws."""
    svg = Svg(WIDTH, TOP + STEP * len(rows) + 26, f"widths of the intervals at {n} samples")
    svg.text(0, 14, f"Width of the intervals at {n:,} samples", size=14, weight=650)
    for k, (name, colour) in enumerate(MARKS.items()):
        svg.dot(8 + 150 * k, 32, 5, colour, stroke=INK)
        svg.text(18 + 150 * k, 36, name, size=11.5, fill=MUTED)

    def place(value: float) -> float:
        share = math.log(max(value, LEAST) / LEAST) / math.log(MOST / LEAST)
        return LEFT + (WIDTH - LEFT - 12) * min(share, 1.0)

    bottom = TOP + STEP * len(rows)
    for tick in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3):
        svg.line(place(tick), TOP - 8, place(tick), bottom, LINE)
        svg.text(place(tick), bottom + 16, f"{tick:g}", size=10.5, anchor="middle", fill=MUTED)
    for k, (name, marks) in enumerate(rows.items()):
        y = TOP + STEP * k + 8
        svg.text(LEFT - 10, y + 4, name, size=11.5, anchor="end")
        for mark, value in marks.items():
            svg.dot(place(value), y, 5, MARKS[mark], stroke=INK, title=f"{name}, {mark}: {value:.4f}")
    return Picture(f"widths_{n}", str(svg), {"samples": n, "widths": rows})


def of_differences(found: list[_ranking.Difference], metric: MetricName, pairing: str) -> Picture:
    """Draw the differences of every two teams by one metric, by counts and by rows."""
    chosen = [d for d in found if (d.metric, d.pairing) == (metric, pairing)]
    chosen.sort(key=lambda d: (d.pair, d.kind))
    rows: list[Row] = [(f"{d.pair[0] + 1} less {d.pair[1] + 1}, {d.kind}", d.low, d.estimate, d.high) for d in chosen]
    name = f"differences_{metric}_{pairing.replace(' ', '_')}"
    numbers = {row[0]: {"low": row[1], "estimate": row[2], "high": row[3]} for row in rows}
    title = f"{metric.replace('_', ' ')} of two teams, {ERRING[pairing]}"
    return Picture(name, forest(rows, title, signed=True, titled=True), numbers)
