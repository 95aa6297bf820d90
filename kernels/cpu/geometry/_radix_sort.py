"""Least-significant-digit radix sort of nonnegative int64 keys, by digits of 11 bits.

Digits cover only bits in which keys differ. A pass takes about 0.5 ns a key, so 33 bits take as long as NumPy's AVX-512
sort on Zen 5, and a tenth of it on Zen 4, whose compress-stores are microcode (32 ns a key).
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
MOST_PASSES = 6  # 63 bits
LEAST_RADIX_KEYS = 1 << 13  # fewer keys take less time with NumPy's sort than the counts of the digits do


@jit()
def _sort_by_digits(keys, buffer, counts):
    """Sort `keys` in place; `buffer` is as long, `counts` is a workspace (MOST_PASSES, DIGITS) of uint32."""
    n, first, differ = len(keys), keys[0], np.int64(0)
    for i in range(n):
        differ |= keys[i] ^ first
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
        keys[:] = buffer


def sort(keys, buffer=None):
    """Sort nonnegative int64 keys in place; `buffer` may be an int64 array as long, whose content is lost."""
    if not LEAST_RADIX_KEYS <= len(keys) < 2**32:
        keys.sort()
        return
    buffer = np.empty_like(keys) if buffer is None else buffer
    _sort_by_digits(keys, buffer, np.empty((MOST_PASSES, DIGITS), np.uint32))
