"""What is wrong with the values of one matrix, in words: looked at on the host, once it has failed."""

from typing import Any

import numpy as np

from cmfast._core import dispatch


def bad(**arrays: Any) -> str:
    """Name the first value that is NaN, infinite or negative; "" if there is none. None is skipped."""
    for name, array in arrays.items():
        if array is None:
            continue
        places = np.argwhere(~(array >= 0) | (array == np.inf))
        if len(places):
            found = tuple(places[0])
            value = array[found]
            kind = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else "negative"
            return f"{kind} value at {name}{place(found)}"
    return ""


def place(index: Any) -> str:
    """Return an index as Python writes it."""
    return f"[{', '.join(str(k) for k in index)}]"


def unsummed(M: Any, index: tuple[int, ...]) -> str:
    """Say why the matrix at `index` of a batch has no metrics."""
    with dispatch.chosen(M):
        one = dispatch.to_host(M[index])
    name = f"M{place(index)}" if index else "M"
    return bad(**{name: one}) or f"the cells of {name} add up to more than fits"
