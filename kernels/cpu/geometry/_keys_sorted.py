"""Keys of many points as sorted runs, on all threads: dealt to buckets of neighbouring keys, sorted bucket by bucket.

The buckets are ranges of keys, so sorted buckets one after the other are the sorted keys, whatever the ranges are; a
sample chooses them so that they hold about as many points each. One huge cell makes one huge bucket, which is slow for
one thread and never wrong.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _runs

PARTITION_ROWS = 1 << 16  # of a block that is dealt at a time: its keys stay in the second-level cache
BUCKET = 1 << 15  # points of a bucket, about: it is sorted in cache
MOST_BUCKETS = 1 << 10
RUN = 1 << 6  # neighbouring points that are sampled together to choose the buckets: cheap to read
RUNS_PER_BUCKET = 2
ENTRIES = 16  # bits of the table that tells the bucket of a key
LEAST_PARTITIONED_POINTS = 1 << 17  # points below which one sort of everything is faster
SECONDS_PER_POINT = 2e-8


@jit()
def _deal(keys, table, shift, out, ends):
    """Write `keys` to `out` ordered by bucket, and where each bucket ends."""
    ends[:] = 0
    for i in range(keys.shape[0]):
        ends[table[min(keys[i] >> shift, table.shape[0] - 1)]] += 1
    total = 0
    for b in range(ends.shape[0]):
        number = ends[b]
        ends[b] = total
        total += number
    for i in range(keys.shape[0]):
        key = keys[i]
        b = table[min(key >> shift, table.shape[0] - 1)]
        out[ends[b]] = key
        ends[b] += 1


@jit()
def _collect(dealt, ends, bucket, rows, out):
    """Bring one bucket together from all blocks."""
    total = 0
    for block in range(ends.shape[0]):
        first = ends[block, bucket - 1] if bucket else 0
        for i in range(block * rows + first, block * rows + ends[block, bucket]):
            out[total] = dealt[i]
            total += 1


def _buckets(fill, n, limit):
    """Return ``(table, shift)``: the bucket of a key is ``table[key >> shift]``, for keys below `limit`."""
    n_buckets = min(max(n // BUCKET, 2), MOST_BUCKETS)
    shift = max((limit - 1).bit_length() - ENTRIES, 0)
    size = ((limit - 1) >> shift) + 1
    # Runs spread over all points: files are often sorted by class.
    length = min(RUN, n)
    starts = np.linspace(0, n - length, min(max(RUNS_PER_BUCKET * n_buckets, RUN), n // length)).astype(np.int64)
    sample = np.empty((len(starts), length), np.int64)
    for row, start in zip(sample, starts.tolist(), strict=True):
        fill(start, start + length, row)
    places = np.minimum(sample.reshape(-1) >> shift, size - 1)
    below = np.cumsum(np.bincount(places, minlength=size)) - 1
    return (np.maximum(below, 0) * n_buckets // sample.size).astype(np.uint16), shift


def keys(fill, n, num_threads=None, progress=None):
    """Return n keys in their order; ``fill(start, stop, out)`` computes a range of them."""
    out = np.empty(n, np.int64)

    def work(_, start, stop):
        fill(start, stop, out[start:stop])

    seconds = n * SECONDS_PER_POINT
    bounds = pool.pieces(n, seconds)
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads, progress=progress)
    return out


def sorted_runs(fill, n, limit, num_threads=None, progress=None):
    """Return ``(keys, counts)``, the runs of n keys below `limit`; ``fill(start, stop, out)`` computes a range of them.

    Keys that are no key (``geometry_keys.DROPPED``) may be above the limit.
    """
    if n < LEAST_PARTITIONED_POINTS:
        found = keys(fill, n, num_threads, progress)
        found.sort()
        return _runs.encode(found, num_threads)
    # What was dealt is gone before the result takes its memory.
    return _runs.joined(_sorted(_dealt(fill, n, limit, num_threads, progress), num_threads))


def sorted_keys(fill, n, limit, below, num_threads=None, progress=None):
    """Return ``(keys, rest)`` of what `fill` computes, in its order: all but its lowest `below` bits, and these."""
    rest = np.empty(n, np.int64)

    def split(found, rest):
        found.sort()
        np.bitwise_and(found, (1 << below) - 1, out=rest)
        np.right_shift(found, below, out=found)

    if n < LEAST_PARTITIONED_POINTS:
        found = keys(fill, n, num_threads, progress)
        split(found, rest)
        return found, rest
    dealt, ends = _dealt(fill, n, limit, num_threads, progress)
    found = np.empty(n, np.int64)

    def work(bucket, start, stop):
        _collect(dealt, ends, bucket, PARTITION_ROWS, found[start:stop])
        split(found[start:stop], rest[start:stop])

    pool.run_pieces(work, _bucket_bounds(ends), seconds=n * SECONDS_PER_POINT, num_threads=num_threads)
    return found, rest


def _bucket_bounds(ends):
    """Return where each bucket begins and ends among the sorted points."""
    sizes = np.diff(ends, axis=1, prepend=0).sum(axis=0)
    return list(pairwise([0, *np.cumsum(sizes).tolist()]))


def _dealt(fill, n, limit, num_threads, progress):
    """Return the keys of all points, ordered by bucket within each block, and where each bucket ends in each."""
    table, shift = _buckets(fill, n, limit)
    bounds = [(start, min(start + PARTITION_ROWS, n)) for start in range(0, n, PARTITION_ROWS)]
    dealt = np.empty(n, np.int64)
    ends = np.empty((len(bounds), int(table[-1]) + 1), np.int64)

    def work(block, start, stop):
        found = np.empty(stop - start, np.int64)
        fill(start, stop, found)
        _deal(found, table, shift, dealt[start:stop], ends[block])

    seconds = n * SECONDS_PER_POINT
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads, progress=progress)
    return dealt, ends


def _sorted(points, num_threads):
    """Return the runs of every bucket of what `_dealt` gave, ``(keys, counts)`` each."""
    dealt, ends = points
    bounds = _bucket_bounds(ends)
    parts: list[Any] = [None] * len(bounds)

    def work(bucket, start, stop):
        found = np.empty(stop - start, np.int64)
        _collect(dealt, ends, bucket, PARTITION_ROWS, found)
        found.sort()
        counts = np.empty(stop - start, np.int64)
        number = _runs.encode_into(found, found, counts)
        narrow = np.uint32 if stop - start < 2**32 else np.int64
        parts[bucket] = found[:number].copy(), counts[:number].astype(narrow)

    pool.run_pieces(work, bounds, seconds=len(dealt) * SECONDS_PER_POINT, num_threads=num_threads)
    return parts
