"""Bitsets in 64-bit words: one bit per class or per sample."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit


@jit(inner=True, borrows=True)
def read_bit(words, j):
    """Return bit `j` of a bitset."""
    return (words[j >> 6] >> (j & 63)) & 1


@jit(inner=True, borrows=True)
def set_bit(words, j):
    """Set bit `j` of a bitset."""
    words[j >> 6] |= np.int64(1) << (j & 63)


@jit(inner=True, borrows=True)
def set_all_bits(words, C):
    """Set the bits of all `C` classes of a bitset, and clear the rest."""
    for w in range(len(words)):
        left = C - 64 * w
        words[w] = -1 if left >= 64 else (np.int64(1) << left) - 1


@jit(inner=True, borrows=True)
def transpose(block, side):
    """Transpose the bit matrices of `side` words, each `side` bits wide (16, 32 or 64), in place.

    By exchanging halves, quarters, ... of the blocks. A word holds 64 / `side` matrices next to each other.
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
