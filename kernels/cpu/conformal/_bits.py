"""Sets as words of 64 bits: a bit per class, or per sample."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit


@jit(inner=True, borrows=True)
def bit(words, j):
    """Return bit `j` of words."""
    return (words[j >> 6] >> (j & 63)) & 1


@jit(inner=True, borrows=True)
def put(words, j):
    """Set bit `j` of words."""
    words[j >> 6] |= np.int64(1) << (j & 63)


@jit(inner=True, borrows=True)
def put_all(words, C):
    """Set the bits of all `C` classes."""
    for w in range(len(words)):
        left = C - 64 * w
        words[w] = -1 if left >= 64 else (np.int64(1) << left) - 1


@jit(inner=True, borrows=True)
def transpose(block, side):
    """Exchange rows and columns of `side` words, 16, 32 or 64, in every part of them of as many bits.

    By halves, quarters, ... of these parts.
    """
    step = side // 2
    mask = np.uint64(0xFFFFFFFF if side == 64 else 0xFFFF0000FFFF if side == 32 else 0xFF00FF00FF00FF)
    while step:
        for k in range(0, side, 2 * step):
            for i in range(k, k + step):
                a, b = block[i], block[i + step]
                moved = ((a >> np.uint64(step)) ^ b) & mask
                block[i + step] = b ^ moved
                block[i] = a ^ (moved << np.uint64(step))
        step >>= 1
        mask ^= mask << np.uint64(step)
