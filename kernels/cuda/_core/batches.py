"""How a batch of any shape and memory layout becomes the flat contiguous arrays that kernels take.

As ``kernels/cpu/_core/batches.py``, for arrays that are not NumPy's. Nothing here waits for the device.
"""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import NAMES, THREADS, library
from cmfast.kernels.shared import batches

WIDTHS = ("8", "32", str(THREADS))  # threads that share a matrix: part of a warp, a warp, a block

MOST_SCRATCH_BYTES = 1 << 28  # of a launch, at most, but for one team: so many work at once

LABELS = ("unsigned char", "int", "i64")  # types of labels that kernels are compiled for
# A negative id seen as unsigned is far outside, as it must be.
_VIEWS: dict[np.dtype[Any], Any] = {
    np.dtype(np.int64): np.int64,
    np.dtype(np.uint64): np.int64,
    np.dtype(np.int32): np.int32,
    np.dtype(np.uint8): np.uint8,
    np.dtype(np.bool_): np.uint8,
}


def as_labels(*labels: Any) -> tuple[list[Any], str]:
    """Return arrays of labels in one type of `LABELS`, and that type."""
    dtypes = {y.dtype for y in labels}
    (dtype,) = dtypes if len(dtypes) == 1 else (np.dtype(object),)
    found = [y.view(_VIEWS[dtype]) if dtype in _VIEWS else y.astype(np.int64) for y in labels]
    return found, NAMES[found[0].dtype]


as_floating = batches.as_floating


def result_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return float32 if every array is float32, else float64."""
    return np.dtype(np.float32 if all(a.dtype == np.float32 for a in arrays) else np.float64)


def flat_batch(x: Any, core: int, dtype: Any = None) -> Any:
    """Return `x` as a contiguous array with one batch axis and its last `core` axes."""
    cut = x.ndim - core
    return library(x).ascontiguousarray(x, dtype).reshape(math.prod(x.shape[:cut]), *x.shape[cut:])


def broadcast_batches(core: int, *arrays: Any) -> tuple[tuple[int, ...], list[Any], list[int]]:
    """Return the common batch shape, the flat arrays, and the step of each along the batch (0 where it is shared)."""
    return batches.flatten_all(arrays, core, library(arrays[0]), flat_batch)


def width(items: int) -> str:
    """Return how many threads share a matrix that gives them `items` things to do."""
    return next((w for w in WIDTHS[:-1] if items <= 4 * int(w)), WIDTHS[-1])


def blocks(n: int, width: str) -> int:
    """Return how many blocks `n` matrices fill."""
    return -(-n * int(width) // THREADS)


def per_item(n: int) -> int:
    """Return how many blocks give each of `n` items a thread."""
    return -(-n // THREADS)


def team_scratch(width: str) -> int:
    """Return the bytes of shared memory with which a team adds up: none within a warp."""
    return 8 * (int(width) // 32) if int(width) > 32 else 0
