"""Flatten batches of device arrays to the contiguous arrays that kernels take, and size launches.

The counterpart of ``kernels/cpu/_core/batches.py``. Nothing here synchronises the device.
"""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import NAMES, THREADS, library
from cmfast.kernels.shared import batches

WIDTHS = ("8", "32", str(THREADS))  # threads per matrix: part of a warp, a warp, a block

MOST_SCRATCH_BYTES = 1 << 28  # scratch memory of a launch, which limits how many matrices run concurrently

LABELS = ("unsigned char", "int", "i64")  # label types that kernels are compiled for
# A negative id viewed as unsigned is out of range, as it must be.
_VIEWS: dict[np.dtype[Any], Any] = {
    np.dtype(np.int64): np.int64,
    np.dtype(np.uint64): np.int64,
    np.dtype(np.int32): np.int32,
    np.dtype(np.uint8): np.uint8,
    np.dtype(np.bool_): np.uint8,
}


def as_labels(*labels: Any) -> tuple[list[Any], str]:
    """Return arrays of labels converted to one type of `LABELS`, and the name of that type."""
    dtypes = {y.dtype for y in labels}
    (dtype,) = dtypes if len(dtypes) == 1 else (np.dtype(object),)
    found = [y.view(_VIEWS[dtype]) if dtype in _VIEWS else y.astype(np.int64) for y in labels]
    return found, NAMES[found[0].dtype]


as_floating = batches.as_floating


def result_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return float32 if every array is float32, else float64."""
    return np.dtype(np.float32 if all(a.dtype == np.float32 for a in arrays) else np.float64)


def flat_batch(x: Any, core: int, dtype: Any = None) -> Any:
    """Return `x` contiguous, its leading axes flattened to one, its last `core` axes kept."""
    cut = x.ndim - core
    return library(x).ascontiguousarray(x, dtype).reshape(math.prod(x.shape[:cut]), *x.shape[cut:])


def broadcast_batches(core: int, *arrays: Any) -> tuple[tuple[int, ...], list[Any], list[int]]:
    """Return the common batch shape, the flattened arrays, and each one's batch stride in items (0 if shared)."""
    return batches.flatten_all(arrays, core, library(arrays[0]), flat_batch)


def width(items: int) -> str:
    """Return the number of threads that share a matrix with `items` units of work."""
    return next((w for w in WIDTHS[:-1] if items <= 4 * int(w)), WIDTHS[-1])


def blocks(n: int, width: str) -> int:
    """Return the number of blocks for `n` matrices with `width` threads each."""
    return -(-n * int(width) // THREADS)


def item_blocks(n: int) -> int:
    """Return the number of blocks for one thread per item."""
    return -(-n // THREADS)


def team_scratch(width: str) -> int:
    """Return the shared-memory bytes that a block reduction needs: 0 within a warp."""
    return 8 * (int(width) // 32) if int(width) > 32 else 0
