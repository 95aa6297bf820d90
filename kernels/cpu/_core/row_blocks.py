"""Points as blocks of rows that kernels take, whatever their type and memory layout; never a second copy of them."""

import numpy as np

BLOCK_ROWS = 1 << 14  # 1.3 MB of ten float64 axes: in the second-level cache when it is read again


def contiguous(X, start, stop):
    """Yield ``(first, block)``: rows of `X`, C-contiguous, float32 or float64, read-only.

    Where `X` is that already it is one view; else every type is converted in small blocks to float64, which is exact
    for float16 and for integers up to 2**53.
    """
    if X.dtype in (np.float32, np.float64) and X.flags.c_contiguous:
        yield start, X[start:stop]
        return
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    for first in range(start, stop, BLOCK_ROWS):
        block = np.ascontiguousarray(X[first : min(first + BLOCK_ROWS, stop)], dtype)
        block.flags.writeable = False  # one type per kernel, also after a copy
        yield first, block
