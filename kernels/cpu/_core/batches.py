"""How a batch of any shape and memory layout becomes the flat C-contiguous arrays that kernels loop over."""

import math

import numpy as np


def as_floating(x: np.ndarray) -> np.ndarray:
    """Return `x` as float32 if it is that, else as float64; kernels see no other type of real number."""
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)


def result_dtype(*arrays: np.ndarray) -> type[np.floating]:
    """Return float32 if every array is float32, else float64."""
    for a in arrays:
        if a.dtype.char != "f":
            return np.float64
    return np.float32


def flat_batch(x: np.ndarray, core: int) -> np.ndarray:
    """Return `x` as a C-contiguous array with one batch axis and its last `core` axes, read-only as it came."""
    cut = x.ndim - core
    flat = np.ascontiguousarray(x).reshape(math.prod(x.shape[:cut]), *x.shape[cut:])
    flat.setflags(write=False)  # one type per kernel, also after a copy
    return flat


def broadcast_batches(core: int, *arrays: np.ndarray) -> tuple[tuple[int, ...], list[np.ndarray], list[int]]:
    """Return the common batch shape, the flat arrays, and the step of each along the batch (0 where it is shared).

    An array with a batch of one is never repeated in memory; one that broadcasts along some axes only is.
    """
    shapes = [a.shape[: a.ndim - core] for a in arrays]
    same = all(shape == shapes[0] for shape in shapes)
    batch = shapes[0] if same else np.broadcast_shapes(*shapes)
    flats, steps = [], []
    for a, shape in zip(arrays, shapes, strict=True):
        if math.prod(shape) == 1:
            flats.append(flat_batch(a, core))
            steps.append(0)
        else:
            full = a if shape == batch else np.broadcast_to(a, batch + a.shape[a.ndim - core :])
            flats.append(flat_batch(full, core))
            steps.append(1)
    return batch, flats, steps
