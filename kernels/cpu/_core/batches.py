"""Flatten batches of any shape and memory layout to the C-contiguous arrays that kernels loop over."""

import math

import numpy as np

from cmfast.kernels.shared import batches

as_floating = batches.as_floating


def result_dtype(*arrays: np.ndarray) -> type[np.floating]:
    """Return float32 if every array is float32, else float64."""
    for a in arrays:
        if a.dtype.char != "f":
            return np.float64
    return np.float32


def flat_batch(x: np.ndarray, core: int) -> np.ndarray:
    """Return `x` C-contiguous and read-only, its leading axes flattened to one, its last `core` axes kept."""
    cut = x.ndim - core
    flat = np.ascontiguousarray(x).reshape(math.prod(x.shape[:cut]), *x.shape[cut:])
    flat.setflags(write=False)  # one type per kernel, also after a copy
    return flat


def freeze(x: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array, so that kernels are compiled for one type."""
    x = x.view()
    x.flags.writeable = False
    return x


def broadcast_batches(core: int, *arrays: np.ndarray) -> tuple[tuple[int, ...], list[np.ndarray], list[int]]:
    """Return the common batch shape, the flattened arrays, and each one's batch stride in items (0 if shared)."""
    return batches.flatten_all(arrays, core, np, flat_batch)
