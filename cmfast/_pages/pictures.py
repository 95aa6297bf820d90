"""The one way in which pages get their pictures: ``draw`` takes a drawing and returns a Picture.

A drawing is a figure of matplotlib, or an ``Svg`` by hand. matplotlib draws curves, scatter, surfaces and the pictures
of the library's displays, and becomes PNG. By hand (``charts.py``) are bars, intervals, heatmaps and lines of the pages
that must work without matplotlib, which are those of ``cmfast.report`` and ``cmfast demo``: they are sharp at any size,
say values under the pointer, and follow the colours of the page.
"""

import io
from typing import Any

from cmfast._core import plotting as matplotlib_drawing
from cmfast._pages.parts import Picture
from cmfast._pages.svg import Svg


def draw(name: str, drawing: Any, numbers: dict[str, Any] | None = None, says: str = "", *, dpi: int = 90) -> Picture:
    """Return a drawing as a picture, and close it; `says` is for those who cannot see it, an SVG has its own label."""
    image = str(drawing) if isinstance(drawing, Svg) else save_png(drawing, dpi)
    return Picture(name, image, numbers or {}, says)


def save_png(figure: Any, dpi: int = 90) -> bytes:
    """Return a figure of matplotlib as PNG, the same bytes in every run, and close it."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    matplotlib_drawing.load_pyplot().close(figure)
    return out.getvalue()
