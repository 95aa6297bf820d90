"""Sorting network: sort eight rows in descending order, one per SIMD lane, by bitonic merges.

The comparisons depend on the length alone, so no branch waits for data, flat rows take as long as peaked ones, and ties
need no care. Lines come in blocks of eight; comparisons with lines beyond the end are left out.
"""

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, maximum, minimum, store

MOST_CACHED_LINES = 256  # lines sorted as a block that fits the level-1 cache


@jit(inner=True, inline=True, borrows=True)
def _compare_exchange(a, b):
    """Return lane-wise maximum and minimum of two vectors (compare-exchange)."""
    return maximum(a, b), minimum(a, b)


@jit(inner=True, inline=True, borrows=True)
def _exchange_lines(lines, i, j):
    """Compare-exchange lines `i` and `j` in memory, larger values first."""
    a, b = _compare_exchange(load(lines, i), load(lines, j))
    store(lines, i, a)
    store(lines, j, b)


@jit(inner=True, inline=True, borrows=True)
def _merge_bitonic(a, b, c, d, e, f, g, h):
    """Return eight vectors sorted, given a bitonic sequence: first half descending, second half reversed."""
    a, e = _compare_exchange(a, e)
    b, f = _compare_exchange(b, f)
    c, g = _compare_exchange(c, g)
    d, h = _compare_exchange(d, h)
    a, c = _compare_exchange(a, c)
    b, d = _compare_exchange(b, d)
    e, g = _compare_exchange(e, g)
    f, h = _compare_exchange(f, h)
    a, b = _compare_exchange(a, b)
    c, d = _compare_exchange(c, d)
    e, f = _compare_exchange(e, f)
    g, h = _compare_exchange(g, h)
    return a, b, c, d, e, f, g, h


@jit(inner=True, inline=True, borrows=True)
def _store_eight(lines, k, vectors):
    """Store eight vectors to lines from `k` on."""
    a, b, c, d, e, f, g, h = vectors
    store(lines, k, a)
    store(lines, k + 1, b)
    store(lines, k + 2, c)
    store(lines, k + 3, d)
    store(lines, k + 4, e)
    store(lines, k + 5, f)
    store(lines, k + 6, g)
    store(lines, k + 7, h)


@jit(inner=True, borrows=True)
def _sort_eight(lines, k):
    """Sort eight lines from `k` on in registers."""
    a, b = _compare_exchange(load(lines, k), load(lines, k + 1))
    c, d = _compare_exchange(load(lines, k + 2), load(lines, k + 3))
    e, f = _compare_exchange(load(lines, k + 4), load(lines, k + 5))
    g, h = _compare_exchange(load(lines, k + 6), load(lines, k + 7))
    a, d = _compare_exchange(a, d)
    b, c = _compare_exchange(b, c)
    e, h = _compare_exchange(e, h)
    f, g = _compare_exchange(f, g)
    a, b = _compare_exchange(a, b)
    c, d = _compare_exchange(c, d)
    e, f = _compare_exchange(e, f)
    g, h = _compare_exchange(g, h)
    _store_eight(lines, k, _merge_bitonic(a, b, c, d, h, g, f, e))


@jit(inner=True, borrows=True)
def _merge_eight(lines, k):
    """Merge a bitonic block of eight lines from `k` on in registers."""
    a, b, c, d = load(lines, k), load(lines, k + 1), load(lines, k + 2), load(lines, k + 3)
    e, f, g, h = load(lines, k + 4), load(lines, k + 5), load(lines, k + 6), load(lines, k + 7)
    _store_eight(lines, k, _merge_bitonic(a, b, c, d, e, f, g, h))


@jit(inner=True, borrows=True)
def _merge_halves(lines, base, size, n):
    """Merge the two sorted halves of the block of `size` lines from `base` on, up to line `n`."""
    end = min(base + size, n)
    for i in range(max(0, base + size - n), size // 2):
        _exchange_lines(lines, base + i, base + size - 1 - i)
    step = size // 4
    while step >= WIDTH:
        for first in range(base, end, 2 * step):
            for i in range(first, min(first + step, n - step)):
                _exchange_lines(lines, i, i + step)
        step //= 2
    for k in range(base, end, WIDTH):
        _merge_eight(lines, k)


@jit(inner=True, borrows=True)
def sort_lanes(lines, n):
    """Sort the first `n` lines, a multiple of eight, in descending order in every lane."""
    for near in range(0, n, MOST_CACHED_LINES):
        end = min(near + MOST_CACHED_LINES, n)
        for k in range(near, end, WIDTH):
            _sort_eight(lines, k)
        size = 2 * WIDTH
        while size <= MOST_CACHED_LINES:
            for base in range(near, end, size):
                _merge_halves(lines, base, size, n)
            size *= 2
    size = 2 * MOST_CACHED_LINES
    while size < 2 * n:
        for base in range(0, n, size):
            _merge_halves(lines, base, size, n)
        size *= 2
