"""Eight rows side by side put in order, the largest first: what is compared depends on their length alone.

No branch waits for data, so flat rows take as long as peaked ones, and ties need no care. Lines come in eights; those
of a block are merged with those of its neighbour by a bitonic network, of which the part beyond the end moves nothing.
"""

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, store, where

MOST_CACHED_LINES = 256  # lines that are sorted while they are in the cache of first level


@jit(inner=True, inline=True, borrows=True)
def _ordered(a, b):
    """Return the larger and the smaller numbers of two vectors."""
    return where(a > b, a, b), where(b < a, b, a)


@jit(inner=True, inline=True, borrows=True)
def _exchange(lines, i, j):
    """Put the larger numbers of two lines first."""
    a, b = _ordered(load(lines, i), load(lines, j))
    store(lines, i, a)
    store(lines, j, b)


@jit(inner=True, inline=True, borrows=True)
def _merged(a, b, c, d, e, f, g, h):
    """Return eight vectors in order, of which each half was, the second one backwards."""
    a, e = _ordered(a, e)
    b, f = _ordered(b, f)
    c, g = _ordered(c, g)
    d, h = _ordered(d, h)
    a, c = _ordered(a, c)
    b, d = _ordered(b, d)
    e, g = _ordered(e, g)
    f, h = _ordered(f, h)
    a, b = _ordered(a, b)
    c, d = _ordered(c, d)
    e, f = _ordered(e, f)
    g, h = _ordered(g, h)
    return a, b, c, d, e, f, g, h


@jit(inner=True, inline=True, borrows=True)
def _store_eight(lines, k, vectors):
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
    a, b = _ordered(load(lines, k), load(lines, k + 1))
    c, d = _ordered(load(lines, k + 2), load(lines, k + 3))
    e, f = _ordered(load(lines, k + 4), load(lines, k + 5))
    g, h = _ordered(load(lines, k + 6), load(lines, k + 7))
    a, d = _ordered(a, d)
    b, c = _ordered(b, c)
    e, h = _ordered(e, h)
    f, g = _ordered(f, g)
    a, b = _ordered(a, b)
    c, d = _ordered(c, d)
    e, f = _ordered(e, f)
    g, h = _ordered(g, h)
    _store_eight(lines, k, _merged(a, b, c, d, h, g, f, e))


@jit(inner=True, borrows=True)
def _merge_eight(lines, k):
    a, b, c, d = load(lines, k), load(lines, k + 1), load(lines, k + 2), load(lines, k + 3)
    e, f, g, h = load(lines, k + 4), load(lines, k + 5), load(lines, k + 6), load(lines, k + 7)
    _store_eight(lines, k, _merged(a, b, c, d, e, f, g, h))


@jit(inner=True, borrows=True)
def _merge(lines, base, size, n):
    """Merge both halves of the block of `size` lines that begins at `base`, as far as there are lines."""
    end = min(base + size, n)
    for i in range(max(0, base + size - n), size // 2):
        _exchange(lines, base + i, base + size - 1 - i)
    step = size // 4
    while step >= WIDTH:
        for first in range(base, end, 2 * step):
            for i in range(first, min(first + step, n - step)):
                _exchange(lines, i, i + step)
        step //= 2
    for k in range(base, end, WIDTH):
        _merge_eight(lines, k)


@jit(inner=True, borrows=True)
def sort(lines, n):
    """Sort the first `n` lines, a multiple of eight of them."""
    for near in range(0, n, MOST_CACHED_LINES):
        end = min(near + MOST_CACHED_LINES, n)
        for k in range(near, end, WIDTH):
            _sort_eight(lines, k)
        size = 2 * WIDTH
        while size <= MOST_CACHED_LINES:
            for base in range(near, end, size):
                _merge(lines, base, size, n)
            size *= 2
    size = 2 * MOST_CACHED_LINES
    while size < 2 * n:
        for base in range(0, n, size):
            _merge(lines, base, size, n)
        size *= 2
