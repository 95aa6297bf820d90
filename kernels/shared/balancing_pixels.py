"""How pixels are packed: two bytes for the distance of the two bins, two for the count; the rest is held apart."""

from typing import Any

import numpy as np

NARROW = 1 << 16  # distances and counts below it take two bytes
FEW = 16  # one pixel in so many, at most, is held apart


def narrowed(gap: Any, values: Any) -> tuple[Any, tuple[Any, Any]]:
    """Return which pixels are not held apart, and the types of their distances and values."""
    number = len(gap)
    near = gap < NARROW
    near = near if (~near).sum() * FEW <= number else np.ones(number, np.bool_)
    counts = (values < NARROW) & (values == np.floor(values))
    small = bool((~counts).sum() * FEW <= number)
    if small:
        near &= counts
    wide = gap.max(where=near, initial=0) >= NARROW
    return near, (np.int32 if wide else np.uint16, np.uint16 if small else np.float64)
