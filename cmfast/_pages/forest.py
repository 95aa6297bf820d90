"""Intervals as a picture: a line for each with its estimate as a dot, one below the other."""

import math
from collections.abc import Sequence

from cmfast._core.markup import shorten
from cmfast._pages.parts import NOTHING
from cmfast._pages.svg import ACCENT, INK, LINE, MUTED, Svg

Row = tuple[str, float, float, float]  # name, low, estimate, high
WIDTH, STEP, LEFT, RIGHT = 480.0, 25.0, 150.0, 56.0
TITLE = 26.0  # its height
LONGEST = 21  # characters of a name


def forest(
    rows: Sequence[Row], label: str, *, low: float = 0.0, high: float = 1.0, signed: bool = False, titled: bool = False
) -> str:
    """Draw intervals on a scale from `low` to `high`; `signed`: with a line at zero and signs; `titled`: by `label`."""
    known = [row for row in rows if not any(math.isnan(value) for value in row[1:])]
    if signed:
        reach = max((abs(value) for row in known for value in row[1:]), default=1.0) or 1.0
        low, high = -reach, reach
    span = WIDTH - LEFT - RIGHT
    top = TITLE if titled else 0.0
    bottom = top + STEP * len(rows)
    svg = Svg(WIDTH, bottom + 30, label)
    if titled:
        svg.text(0, 14, label, size=14, weight=650)

    def place(value: float) -> float:
        return LEFT + span * (min(max(value, low), high) - low) / (high - low)

    for k in range(5):
        value = low + (high - low) * k / 4
        svg.line(place(value), top + 4, place(value), bottom + 6, INK if signed and k == 2 else LINE)
        form = "+.3f" if signed and k != 2 else ".3g"
        svg.text(place(value), bottom + 22, f"{value:{form}}", size=11, anchor="middle", fill=MUTED)
    for k, (name, first, estimate, last) in enumerate(rows):
        y = top + STEP * k + 17
        svg.text(LEFT - 12, y + 4, shorten(name, LONGEST), size=13, anchor="end")
        if math.isnan(estimate):
            svg.text(WIDTH, y + 4, NOTHING, size=13, anchor="end")
            continue
        if not (math.isnan(first) or math.isnan(last)):
            svg.line(place(first), y, place(last), y, ACCENT, 6, 'stroke-opacity="0.35" stroke-linecap="round"')
        svg.dot(place(estimate), y, 5, ACCENT, title=f"{name}: {estimate:.4f} ({first:.4f} to {last:.4f})")
        svg.text(WIDTH, y + 4, f"{estimate:{'+.3f' if signed else '.3f'}}", size=13, anchor="end")
    return str(svg)
