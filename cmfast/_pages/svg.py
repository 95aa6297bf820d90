"""Inline SVG drawing without a library: numbers in, markup out."""

from cmfast._core.markup import escape_attribute

INK, MUTED, LINE, ACCENT = "var(--ink)", "var(--muted)", "var(--line)", "var(--accent)"
CHART = 440  # width of a chart in user units: readable on a phone and on half a page


class Svg:
    """An SVG drawing; elements are added in drawing order."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self._head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape_attribute(label)}">'
        self._parts: list[str] = []

    def rect(self, x: float, y: float, w: float, h: float, fill: str, *, title: str = "", more: str = "") -> None:
        """Add a filled rectangle; `title` is its tooltip."""
        inner = f"<title>{escape_attribute(title)}</title>" if title else ""
        box = f'x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{h:.1f}"'
        self._parts.append(f'<rect {box} fill="{fill}" {more}>{inner}</rect>')

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = LINE, width: float = 1.0, more: str = ""
    ) -> None:
        """Add a straight line."""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width:g}" {more}/>'
        )

    def dot(self, x: float, y: float, r: float, fill: str, *, title: str = "", stroke: str = "white") -> None:
        """Add a circle."""
        inner = f"<title>{escape_attribute(title)}</title>" if title else ""
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" fill="{fill}" stroke="{stroke}">{inner}</circle>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        anchor: str = "start",
        fill: str = INK,
        weight: int = 400,
        turn: bool = False,
    ) -> None:
        """Add a line of text with its baseline at `y`; `turn` writes it upwards."""
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}"{turned}>{escape_attribute(text)}</text>'
        )

    def write_title(self, title: str, subtitle: str = "") -> None:
        """Write a title, and a subtitle below it."""
        self.text(0, 14, title, size=14, weight=650)
        if subtitle:
            self.text(0, 32, subtitle, size=11.5, fill=MUTED)

    def __str__(self) -> str:
        return self._head + "".join(self._parts) + "</svg>"
