"""How pixels are packed: two bytes for the distance of the two bins, two for the count; the rest is held apart."""

from typing import Any

import numpy as np

NARROW = 1 << 16  # distances and counts below it take two bytes
FEW = 16  # one pixel in so many, at most, is held apart
ALIKE = 1e-12  # cells of both sides of the diagonal


def apart(number: int, far: int, large: int) -> tuple[bool, bool]:
    """Return whether those of so many pixels are held apart that are far, and those with large or broken values."""
    return far * FEW <= number, large * FEW <= number


def narrowed(gap: Any, values: Any) -> tuple[Any, tuple[Any, Any]]:
    """Return which pixels are not held apart, and the types of their distances and values."""
    near, counts = gap < NARROW, (values < NARROW) & (values == np.floor(values))
    far_apart, large_apart = apart(len(gap), int((~near).sum()), int((~counts).sum()))
    within = (near | (not far_apart)) & (counts | (not large_apart))
    wide = gap.max(where=within, initial=0) >= NARROW
    return within, (np.int32 if wide else np.uint16, np.uint16 if large_apart else np.float64)
