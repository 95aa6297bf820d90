"""Types of packed pixels: two bytes for the distance of the bins, two for the count.

Other pixels are stored separately.
"""

from typing import Any

import numpy as np

LEAST_WIDE_VALUE = 1 << 16  # distances and counts below it fit into two bytes
PIXELS_PER_FAR_ONE = 16  # at most one pixel in so many is stored separately
MOST_ASYMMETRY = 1e-12  # relative difference allowed between mirrored cells


def choose_separate(number: int, far: int, large: int) -> tuple[bool, bool]:
    """Return whether far pixels, and pixels with large or fractional values, are few enough to be stored separately."""
    return far * PIXELS_PER_FAR_ONE <= number, large * PIXELS_PER_FAR_ONE <= number


def choose_types(gap: Any, values: Any) -> tuple[Any, tuple[Any, Any]]:
    """Return which pixels are packed, and the types of their distances and values."""
    near, counts = gap < LEAST_WIDE_VALUE, (values < LEAST_WIDE_VALUE) & (values == np.floor(values))
    far_apart, large_apart = choose_separate(len(gap), int((~near).sum()), int((~counts).sum()))
    within = (near | (not far_apart)) & (counts | (not large_apart))
    wide = gap.max(where=within, initial=0) >= LEAST_WIDE_VALUE
    return within, (np.int32 if wide else np.uint16, np.uint16 if large_apart else np.float64)
