"""Iterate over the rows of a point array in C-contiguous float blocks that kernels accept, without copying it whole."""

import numpy as np

BLOCK_ROWS = 1 << 14  # 1.3 MB at ten float64 axes: still in the level-2 cache when it is read again


def is_plain(X):
    """Return whether kernels accept `X` as it is."""
    return X.dtype in (np.float32, np.float64) and X.flags.c_contiguous


def iterate_blocks(X, start, stop):
    """Yield ``(first, block)`` over rows `start` to `stop` of `X`: C-contiguous, float32 or float64, read-only.

    If `X` has that layout and type, yield one view. Else convert blocks of BLOCK_ROWS rows to float64, which is exact
    for float16 and for integers up to 2**53 (float32 stays float32).
    """
    if is_plain(X):
        yield start, X[start:stop]
        return
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    for first in range(start, stop, BLOCK_ROWS):
        block = np.ascontiguousarray(X[first : min(first + BLOCK_ROWS, stop)], dtype)
        block.flags.writeable = False  # a copy gets the Numba type of a view, so that kernels are compiled once
        yield first, block


def take(X, rows):
    """Return ``(block, places)``: the rows of `X` are ``block[places]``, and `block` is as :func:`iterate_blocks` has.

    It is `X` if that has this layout, for which kernels are faster than NumPy.
    """
    if is_plain(X):
        return X, rows
    ((_, block),) = iterate_blocks(X[rows], 0, len(rows))
    return block, np.arange(len(rows))
