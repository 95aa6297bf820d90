"""What an oracle says of an array whose values it cannot know, but only where they must lie."""

from typing import NamedTuple

import numpy as np


class Within(NamedTuple):
    """Every value lies in [low, high]; NaN where these are NaN. Dtype and shape are those of `low`."""

    low: np.ndarray
    high: np.ndarray
