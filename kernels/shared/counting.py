"""Validation of label arrays, the same for every target."""

from typing import Any

import numpy as np

MOST_LABEL_SPAN = 1024  # label range up to which one table holds all labels
NAMED_LABELS = 3  # labels that a message names
NO_POSITION = -1  # code of a label that is not among the classes

Outside = tuple[str, int | None, int, list[tuple[tuple[int, ...], int]]]


def find_outside(xp: Any, limit: int | None, ignored: int | None = None, **arrays: Any) -> Outside:
    """Return the out-of-range values of the first array that has some: name, limit, count, first (index, value) pairs.

    Valid values are ``0, ..., limit - 1``, or all nonnegative ones without a limit. Arrays are of `xp`. Samples where
    the first array is `ignored` are skipped. Synchronises the device.
    """
    if ignored is not None:
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        arrays = {name: xp.broadcast_to(array, shape) for name, array in arrays.items()}
    for name, array in arrays.items():
        flat = (array if array.dtype == np.uint64 else array.astype(np.int64)).ravel()
        bad = flat < 0 if limit is None else (flat < 0) | (flat >= limit)
        if ignored is not None:
            bad = bad & (next(iter(arrays.values())).ravel() != ignored)
        where = xp.flatnonzero(bad)
        if where.size:
            some = where[:NAMED_LABELS]
            indices = [tuple(map(int, np.unravel_index(k, array.shape))) for k in some.tolist()]
            return name, limit, int(where.size), list(zip(indices, flat[some].tolist(), strict=True))
    raise AssertionError
