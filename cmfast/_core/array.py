"""What dispatch and the adapters both know of an array."""

from typing import Any, NamedTuple

import numpy as np


class Meta(NamedTuple):
    """What is known of an array without touching its data."""

    shape: tuple[int, ...]
    kind: str
    """NumPy's kind letter of the dtype: b, i, u, f, c, S, U, ..."""
    itemsize: int
    device: str
    dtype: np.dtype[Any]
    """The dtype that NumPy has for it."""
