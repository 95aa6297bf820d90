"""Sorted keys as runs: each key once, with the number of times it occurred."""

import threading
from itertools import pairwise

import numpy as np

from cmfast.kernels.cpu import _pool
from cmfast.kernels.cpu._jit import jit

SECONDS_PER_KEY = 3e-9


@jit()
def _heads(keys, start, stop):
    """How many runs begin in a range that itself begins with one."""
    n = 0 if start == stop else 1
    for i in range(start + 1, stop):
        n += keys[i] != keys[i - 1]
    return n


@jit()
def _compact(keys, counts, start, stop):
    """Write the distinct keys of a range to its beginning, and their counts; the write never overtakes the read."""
    if start == stop:
        return
    head = start
    run = 0
    for i in range(start, stop):
        if keys[i] != keys[head]:
            counts[run] = i - head
            keys[start + run] = keys[head]
            run += 1
            head = i
    counts[run] = stop - head
    keys[start + run] = keys[head]


@jit()
def next_cell(keys, bits, i):
    """First position at or after `i` where a cell begins (where the key without its last `bits` bits changes)."""
    while 0 < i < keys.shape[0] and keys[i] >> bits == keys[i - 1] >> bits:
        i += 1
    return i


def cut(keys, bits, seconds, most=_pool.MAX_PIECES):
    """Cut sorted keys into ranges of whole cells, never fewer keys than the pool finds worth a piece."""
    bounds = _pool.pieces(len(keys), seconds, most=most)
    cuts = [next_cell(keys, bits, start) for start, _ in bounds] + [len(keys)]
    return list(pairwise(cuts))


def encode(keys, num_threads=None):
    """Turn sorted `keys` into ``(keys, counts)`` of their runs. `keys` is used up: its memory holds the result."""
    seconds = len(keys) * SECONDS_PER_KEY
    bounds = cut(keys, 0, seconds)
    number = np.zeros(len(bounds) + 1, np.int64)

    def count(i, start, stop):
        number[i + 1] = _heads(keys, start, stop)

    _pool.run_pieces(count, bounds, seconds=seconds, num_threads=num_threads)
    offsets = np.cumsum(number)
    counts = np.empty(offsets[-1], np.int64)

    def compact(i, start, stop):
        _compact(keys, counts[offsets[i] : offsets[i + 1]], start, stop)

    _pool.run_pieces(compact, bounds, seconds=seconds, num_threads=num_threads)
    for (start, _), (first, last) in zip(bounds, pairwise(offsets), strict=True):
        keys[first:last] = keys[start : start + last - first]
    keys.resize(offsets[-1], refcheck=False)  # gives the rest back without a copy; nobody else has seen this array
    return keys, counts


@jit()
def _merge(a, m, b, n, out, number):
    """Merge two sorted runs; return how many distinct keys there are."""
    i = j = k = 0
    while i < a.shape[0] or j < b.shape[0]:
        if j == b.shape[0] or (i < a.shape[0] and a[i] < b[j]):
            out[k], number[k] = a[i], m[i]
            i += 1
        elif i == a.shape[0] or b[j] < a[i]:
            out[k], number[k] = b[j], n[j]
            j += 1
        else:
            out[k], number[k] = a[i], m[i] + n[j]
            i += 1
            j += 1
        k += 1
    return k


def merge(keys_a, counts_a, keys_b, counts_b):
    """Merge the runs of two sets of keys."""
    size = len(keys_a) + len(keys_b)
    keys, counts = np.empty(size, np.int64), np.empty(size, np.int64)
    n = _merge(keys_a, counts_a, keys_b, counts_b, keys, counts)
    keys.resize(n, refcheck=False)
    counts.resize(n, refcheck=False)
    return keys, counts


class Accumulators:
    """Integer arrays to add into, one per thread that is at work; integers add up to the same in any order."""

    def __init__(self, *shapes):
        self._shapes = shapes
        self._free = []
        self._all = []
        self._lock = threading.Lock()

    def take(self):
        """Return a set that nobody else is using."""
        with self._lock:
            if self._free:
                return self._free.pop()
        one = tuple(np.zeros(shape, np.int64) for shape in self._shapes)
        with self._lock:
            self._all.append(one)
        return one

    def give_back(self, one):
        """Let another piece go on with this set."""
        with self._lock:
            self._free.append(one)

    def totals(self):
        """Return the sums over all sets."""
        first, *others = self._all or [self.take()]
        for other in others:
            for k, part in enumerate(other):
                np.add(first[k], part, out=first[k])
        return first
