"""Describe the bad values of one failed matrix in words, after copying it to the host."""

from typing import Any, Final

import numpy as np

from cmfast._core import dispatch
from cmfast._core.adapters import adapter

OVERFLOWING_WEIGHTS: Final = "its weights add up to more than fits"


def describe_bad_value(**arrays: Any) -> str:
    """Describe the first value that is NaN, infinite or negative in any array; "" if all are valid. None is skipped."""
    for name, array in arrays.items():
        if array is None:
            continue
        said = describe_first(name, array, ~(array >= 0) | (array == np.inf))
        if said:
            return said
    return ""


def describe_first(name: str, array: np.ndarray, wrong: np.ndarray, at: tuple[int | str, ...] = ()) -> str:
    """Describe the first value selected by the mask `wrong` in `array`, named ``name[at]``; "" if none is."""
    places = np.argwhere(wrong)
    if not len(places):
        return ""
    found = tuple(places[0])
    value = array[found]
    kind = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else "negative"
    return f"{kind} value at {name}{format_index((*at, *found))}"


def format_index(index: Any) -> str:
    """Format an index the way Python writes it: [2, 0]."""
    return f"[{', '.join(str(k) for k in index)}]"


def explain_weights(weight: Any, samples: tuple[int, ...], groups: Any, index: tuple[int, ...]) -> str:
    """Explain why sample weights give no valid sums for the matrix at `index`; `samples` is its samples' shape.

    Both arrays have the sample axes flattened into the last one, and leading axes that broadcast; with `groups` the
    last entry of `index` is a group.
    """
    weights = _get_row(weight, index if groups is None else index[:-1])
    wrong = ~np.isfinite(weights)
    if groups is not None:
        wrong = wrong & (_get_row(groups, index[:-1]) == index[-1])
    batch = ("...",) if len(dispatch.shape_of(weight)) > 1 else ()  # the caller's message already names the matrix
    said = describe_first("sample_weight", weights.reshape(samples), wrong.reshape(samples), batch)
    return said or OVERFLOWING_WEIGHTS


def _get_row(array: Any, index: tuple[int, ...]) -> np.ndarray:
    """Return the row of `array` for the batch element `index`, on the host; its leading axes broadcast."""
    sizes = dispatch.shape_of(array)[:-1]
    own = tuple(0 if size == 1 else k for size, k in zip(sizes, index[len(index) - len(sizes) :], strict=True))
    return adapter(array).entry(array, own)


def explain_sum(M: Any, index: tuple[int, ...]) -> str:
    """Explain why the matrix at `index` of a batch has no metrics: a bad value, or an overflowing total."""
    one = adapter(M).entry(M, index)
    name = f"M{format_index(index)}" if index else "M"
    return describe_bad_value(**{name: one}) or f"the cells of {name} add up to more than fits"
