"""Accumulators of integer sums, one set per working thread."""

import threading

import numpy as np

from cmfast.kernels.cpu._core import pool

SECONDS_PER_ADDED_NUMBER = 5e-10


class Accumulators:
    """Integer arrays to add into, one set per working thread; integer sums do not depend on the order.

    A set is zeros of the `shapes` and `dtype`, or what ``make`` returns.
    """

    def __init__(self, *shapes, dtype=np.int64, make=None):
        self._make = make or (lambda: tuple(np.zeros(shape, dtype) for shape in shapes))
        self._free = []
        self._all = []
        self._lock = threading.Lock()

    def take(self):
        """Return a set that no other thread is using."""
        with self._lock:
            if self._free:
                return self._free.pop()
        one = self._make()
        with self._lock:
            self._all.append(one)
        return one

    def give_back(self, one):
        """Return a set for use by another piece."""
        with self._lock:
            self._free.append(one)

    def list_sets(self):
        """Return all sets, at least one."""
        return self._all or [self.take()]

    def totals(self, num_threads=None):
        """Return the sums over all sets, added in parallel."""
        first, *others = self.list_sets()
        for k, sums in enumerate(first):
            parts, flat = [other[k].reshape(-1) for other in others], sums.reshape(-1)

            def add(_, start, stop, parts=parts, flat=flat):
                """Add one range of all sets."""
                for part in parts:
                    flat[start:stop] += part[start:stop]

            seconds = len(parts) * flat.size * SECONDS_PER_ADDED_NUMBER
            pool.run_pieces(add, pool.pieces(flat.size, seconds), seconds=seconds, num_threads=num_threads)
        return first
