"""Colours and short number formats that figures by matplotlib and by hand share.

Blue and orange are colour-blind safe, and every scale is monotone in luminance, so that it survives grey printing.
"""

from typing import Any, NamedTuple

import numpy as np

Rgb = tuple[int, int, int]

DIAGONAL: Rgb = (214, 110, 24)  # orange and blue, as in figure 4 of Erbani et al.
OFF_DIAGONAL: Rgb = (20, 72, 160)
FAINTEST, FAINTEST_LOG = 0.08, 0.3  # start of a colour scale, so that the least value differs from the background
MARKERS = "os^Dv<>"
# Okabe and Ito, How to make figures and presentations that are friendly to colour-blind people, 2008.
CYCLE: tuple[Rgb, ...] = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233))
LEAST_WRITTEN_SHARE = 0.0005  # smallest share that is written as a percentage


class Palette(NamedTuple):
    """Colours for one background, as red, green and blue in 0..1."""

    ground: np.ndarray
    ink: np.ndarray
    line: np.ndarray
    undefined: np.ndarray
    diagonal: np.ndarray
    off_diagonal: np.ndarray
    signed: tuple[np.ndarray, np.ndarray]


def make_palette(ground: Any) -> Palette:
    """Return the palette for a background colour (red, green, blue in 0..1): dark ends on light, light ends on dark."""
    back = np.asarray(ground, np.float64)[:3]
    if luminance(back) > 0.2:
        colours = ((28, 36, 48), (150, 158, 170), (176, 176, 176), DIAGONAL, OFF_DIAGONAL)
        low, high = OFF_DIAGONAL, (178, 66, 10)
    else:
        colours = ((236, 240, 246), (110, 118, 130), (92, 92, 92), (255, 171, 84), (122, 180, 255))
        low, high = colours[4], colours[3]
    ink, line, undefined, diagonal, off_diagonal = (_unit(rgb) for rgb in colours)
    return Palette(back, ink, line, undefined, diagonal, off_diagonal, (_unit(low), _unit(high)))


def _unit(rgb: Rgb) -> np.ndarray:
    """Convert a colour from 0..255 to 0..1."""
    return np.array(rgb, np.float64) / 255.0


def list_line_colours(ground: np.ndarray) -> list[np.ndarray]:
    """Return colours for lines; those with a luminance contrast of at most 0.25 to the background come last."""
    colours = [_unit(rgb) for rgb in CYCLE]
    return sorted(colours, key=lambda rgb: -abs(float(luminance(rgb) - luminance(ground))) > -0.25)


def make_ramp(ground: np.ndarray, end: np.ndarray, *, log: bool = False, n: int = 256) -> np.ndarray:
    """Return `n` colours from nearly `ground` to `end`; a logarithmic scale starts farther from `ground`."""
    t = np.linspace(FAINTEST_LOG if log else FAINTEST, 1.0, n)[:, None]
    return np.asarray(ground + (end - ground) * t)


def make_signed_ramp(ground: np.ndarray, low: np.ndarray, high: np.ndarray, n: int = 257) -> np.ndarray:
    """Return `n` colours of a diverging scale: `low`, `ground` in the middle, `high`."""
    t = np.linspace(-1.0, 1.0, n)[:, None]
    return np.asarray(ground + np.where(t < 0, (low - ground) * -t, (high - ground) * t))


def luminance(rgb: Any) -> Any:
    """Return the relative luminance of colours, shape (..., 3) in 0..1, as defined by WCAG 2."""
    rgb = np.asarray(rgb, np.float64)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def is_dark(rgb: Any) -> Any:
    """Whether white text has more contrast than black text on colours, shape (..., 3) in 0..1."""
    return (luminance(rgb) + 0.05) ** 2 < 1.05 * 0.05


def shade(share: float, rgb: Rgb) -> str:
    """Return the colour between white (`share` 0) and `rgb` (`share` 1) as #rrggbb."""
    t = min(max(share, 0.0), 1.0)
    return "#" + "".join(f"{round(255 + (c - 255) * t):02x}" for c in rgb)


def choose_ink(colour: str, ink: str) -> str:
    """Return the text colour for a background written as #rrggbb: white, or the dark `ink`."""
    return "white" if is_dark([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]) else ink


def format_percent(value: float) -> str:
    """Format a share as a short percentage; "" if it rounds to 0.0."""
    p = 100 * value
    if p >= 9.95:
        return f"{p:.0f}"
    return f"{p:.1f}" if p >= 100 * LEAST_WRITTEN_SHARE else ""


def format_short(value: float) -> str:
    """Format a nonnegative number in at most five characters: 12345 as 12k."""
    if value == 0:
        return "0"
    if abs(value) < 9999.5:
        return f"{value:.0f}" if float(value).is_integer() else f"{value:.{2 if abs(value) < 10 else 3}g}"
    for unit, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)):
        if abs(value) < 999.5 * factor:
            return f"{value / factor:.{1 if abs(value) < 9.95 * factor else 0}f}{unit}"
    return f"{value:.0e}"


def format_tick(value: float) -> str:
    """Format an axis tick with all digits: 12500 as 12.5k."""
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor and abs(value) >= 1e4:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"
