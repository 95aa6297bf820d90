"""How pixels are packed: two bytes for the distance of the two bins, two for the count; the rest is held apart."""

from typing import Any

import numpy as np

LEAST_WIDE_VALUE = 1 << 16  # distances and counts below it take two bytes
PIXELS_PER_FAR_ONE = 16  # one pixel in so many, at most, is held apart
MOST_ASYMMETRY = 1e-12  # cells of both sides of the diagonal


def apart(number: int, far: int, large: int) -> tuple[bool, bool]:
    """Return whether those of so many pixels are held apart that are far, and those with large or broken values."""
    return far * PIXELS_PER_FAR_ONE <= number, large * PIXELS_PER_FAR_ONE <= number


def narrowed(gap: Any, values: Any) -> tuple[Any, tuple[Any, Any]]:
    """Return which pixels are not held apart, and the types of their distances and values."""
    near, counts = gap < LEAST_WIDE_VALUE, (values < LEAST_WIDE_VALUE) & (values == np.floor(values))
    far_apart, large_apart = apart(len(gap), int((~near).sum()), int((~counts).sum()))
    within = (near | (not far_apart)) & (counts | (not large_apart))
    wide = gap.max(where=within, initial=0) >= LEAST_WIDE_VALUE
    return within, (np.int32 if wide else np.uint16, np.uint16 if large_apart else np.float64)
