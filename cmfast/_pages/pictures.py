"""Pictures of pages: ``make_picture`` turns a drawing into a Picture.

A drawing is a matplotlib figure, saved as PNG, or an ``Svg``. Charts as SVG (``charts.py``) are for pages that must
work without matplotlib, which are those of ``cmfast.report`` and ``cmfast demo``: sharp at any size, with values in
tooltips, in the colours of the page.
"""

import io
from typing import Any

from cmfast._core import plotting as matplotlib_drawing
from cmfast._pages.parts import Picture
from cmfast._pages.svg import Svg


def make_picture(
    name: str, drawing: Any, numbers: dict[str, Any] | None = None, says: str = "", *, dpi: int = 90
) -> Picture:
    """Return a drawing as a picture and close it; `says` is the alternative text of a PNG."""
    image = str(drawing) if isinstance(drawing, Svg) else save_png(drawing, dpi)
    return Picture(name, image, numbers or {}, says)


def save_png(figure: Any, dpi: int = 90) -> bytes:
    """Return a matplotlib figure as PNG bytes, the same in every run, and close it."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    matplotlib_drawing.load_pyplot().close(figure)
    return out.getvalue()
