"""Least-significant-digit radix sort of nonnegative int64 keys by digits of 11 bits, where NumPy's sort is slow.

Digits cover only bits in which keys differ; a pass takes about 0.6 ns a key. NumPy's AVX-512 sort takes 2.7 ns a key on
Zen 5, where cells of ten axes are counted up to 15 % faster with it, but 32 ns on Zen 4, whose compress-stores are
microcode; its AVX2 sort takes 8 ns.
"""

import time
from functools import cache

import numpy as np

from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
MOST_PASSES = 6  # 63 bits
LEAST_RADIX_KEYS = 1 << 13  # with fewer keys the counts of the digits take longer than NumPy's sort
MOST_NUMPY_SECONDS = 6e-9  # for a key, above which NumPy's sort is slower than three to four passes


@jit()
def _sort_by_digits(keys, buffer, ordered, counts):
    """Sort `keys` in place; `buffer` is as long, `counts` is a workspace (MOST_PASSES, DIGITS) of uint32.

    Keys that differ in their lowest `ordered` bits only are in order already, and stay so.
    """
    n, first, differ = len(keys), keys[0], np.int64(0)
    for i in range(n):
        differ |= keys[i] ^ first
    differ = (differ >> ordered) << ordered
    # A digit begins at the lowest differing bit that no digit before covers: equal bits in between cost no pass.
    shifts, passes, at = np.empty(MOST_PASSES, np.int64), 0, 0
    while differ >> at != 0:
        while (differ >> at) & 1 == 0:
            at += 1
        shifts[passes] = at
        passes += 1
        at += DIGIT_BITS
        if at > 62:
            break
    mask, one = np.int64(DIGITS - 1), np.uint32(1)
    counts[:passes] = 0
    for k in range(0, passes, 2):  # two digits in each pass over the keys
        a, b = shifts[k], shifts[min(k + 1, passes - 1)]
        low, high = counts[k], counts[min(k + 1, passes - 1)]
        if k + 1 < passes:
            for i in range(n):
                x = keys[i]
                low[(x >> a) & mask] += one
                high[(x >> b) & mask] += one
        else:
            for i in range(n):
                low[(keys[i] >> a) & mask] += one
    source, target = keys, buffer
    for k in range(passes):
        offsets, total, shift = counts[k], np.uint32(0), shifts[k]
        for digit in range(DIGITS):  # exclusive prefix sum
            number = offsets[digit]
            offsets[digit] = total
            total += number
        for i in range(n):
            x = source[i]
            digit = (x >> shift) & mask
            target[offsets[digit]] = x
            offsets[digit] += one
        source, target = target, source
    if passes % 2 == 1:
        copy_vector(buffer, keys)


@cache
def is_numpy_slow():
    """Return whether NumPy's sort takes more than MOST_NUMPY_SECONDS a key on this processor, in the best of five runs.

    Either sort gives the same keys, so results do not depend on the answer.
    """
    n, best = 1 << 15, np.inf
    keys = np.arange(n) * np.int64(0x9E3779B97F4A7C15 - 2**64) & ((1 << 33) - 1)  # shuffled by Knuth's multiplier
    for _ in range(5):
        some = keys.copy()
        start = time.perf_counter()
        some.sort()
        best = min(best, time.perf_counter() - start)
    return best > n * MOST_NUMPY_SECONDS


def sort(keys, buffer=None, ordered=0):
    """Sort nonnegative int64 keys in place; `buffer` may be an int64 array as long, whose content is lost.

    Keys that differ in their lowest `ordered` bits only must be in order already.
    """
    if not LEAST_RADIX_KEYS <= len(keys) < 2**32 or not is_numpy_slow():
        keys.sort()
        return
    sort_by_digits(keys, buffer, ordered)


def sort_by_digits(keys, buffer=None, ordered=0):
    """Sort nonnegative int64 keys in place by a radix sort; `buffer` and `ordered` as in :func:`sort`."""
    buffer = np.empty_like(keys) if buffer is None else buffer
    _sort_by_digits(keys, buffer, ordered, np.empty((MOST_PASSES, DIGITS), np.uint32))
