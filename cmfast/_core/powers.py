"""Powers whose bits are the same for scalars and for elements of arrays, of NumPy and of other libraries.

NumPy's operator ``**`` rounds scalars and arrays without axes in another way than other arrays: for square roots
everywhere, for other powers where the processor has AVX-512. A result of one matrix would differ from the same in a
batch.
"""

import math
from typing import Any

import numpy as np


def compute_sqrt(x: Any) -> Any:
    """Return ``sqrt(x)`` for an array or a scalar."""
    return np.sqrt(x) if isinstance(x, np.ndarray | np.generic) else x**0.5


def compute_exp(x: Any) -> Any:
    """Return ``exp(x)`` for an array or a scalar."""
    return np.power(math.e, x) if isinstance(x, np.ndarray | np.generic) else math.e**x
