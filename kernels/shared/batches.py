"""Flatten arrays with a batch of any shape, the same for every target."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def as_floating(x: Any) -> Any:
    """Return `x` as float32 if it is float32, else as float64: kernels take no other floating type."""
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)


def flatten_one(a: Any, batch: tuple[int, ...], core: int, xp: Any, flat_batch: Callable[[Any, int], Any]) -> Any:
    """Return `a` with one batch axis, and its batch stride in items: 0 if every element shares it.

    An array of `xp` with a batch of one is never repeated in memory; one that broadcasts along some axes only is.
    `flat_batch` flattens an array that has the whole batch.
    """
    own = a.shape[: a.ndim - core]
    if math.prod(own) == 1:
        return flat_batch(a, core), 0
    full = a if own == batch else xp.broadcast_to(a, batch + a.shape[a.ndim - core :])
    return flat_batch(full, core), 1


def flatten_all(
    arrays: Sequence[Any], core: int, xp: Any, flat_batch: Callable[[Any, int], Any]
) -> tuple[tuple[int, ...], list[Any], list[int]]:
    """Return the common batch shape of arrays, the flattened arrays, and the batch stride of each."""
    shapes = [a.shape[: a.ndim - core] for a in arrays]
    batch = shapes[0] if all(shape == shapes[0] for shape in shapes) else np.broadcast_shapes(*shapes)
    found = [flatten_one(a, batch, core, xp, flat_batch) for a in arrays]
    return batch, [flat for flat, _ in found], [step for _, step in found]
