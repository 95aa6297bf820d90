"""Parallel sample sort of keys: partition into buckets of key ranges, then sort each bucket in cache.

Buckets are disjoint key ranges, so the sorted buckets in order are the sorted keys for any choice of ranges; a sample
chooses them of about equal size. One huge cell makes one huge bucket, which is slow but never wrong.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _radix_sort, _run_length

PARTITION_ROWS = 1 << 16  # rows partitioned at a time: their keys stay in the level-2 cache
BUCKET = 1 << 15  # points per bucket, about: it is sorted in cache
MOST_BUCKETS = 1 << 10
RUNS = 1 << 7  # places at which points are sampled to choose the buckets
RUN = 1 << 7  # least consecutive points sampled at a place: cheap to read
POINTS_PER_BUCKET = 1 << 7  # points sampled, about
ENTRIES = 16  # bits of the table that maps key prefixes to buckets
LEAST_PARTITIONED_POINTS = 1 << 17  # with fewer points one sort of everything is faster
SECONDS_PER_POINT = 2e-8


@jit()
def _partition(keys, table, shift, out, ends):
    """Partition `keys` by bucket into `out` (counting sort), and write where each bucket ends."""
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
def _collect(partitioned, ends, bucket, rows, out):
    """Concatenate one bucket from all blocks into `out`."""
    total = 0
    for block in range(ends.shape[0]):
        first = ends[block, bucket - 1] if bucket else 0
        for i in range(block * rows + first, block * rows + ends[block, bucket]):
            out[total] = partitioned[i]
            total += 1


def _choose_buckets(fill, n, limit, num_threads):
    """Return ``(table, shift)``, from a sample of the keys: the bucket of a key is ``table[key >> shift]``."""
    n_buckets = min(max(n // BUCKET, 2), MOST_BUCKETS)
    shift = max((limit - 1).bit_length() - ENTRIES, 0)
    size = ((limit - 1) >> shift) + 1
    # Runs spread over all points: files are often sorted by class.
    length = min(max(RUN, POINTS_PER_BUCKET * n_buckets // RUNS), n)
    starts = np.linspace(0, n - length, min(RUNS, n // length)).astype(np.int64).tolist()
    sample = np.empty((len(starts), length), np.int64)

    def work(i, *_):
        """Compute the keys of one run."""
        fill(starts[i], starts[i] + length, sample[i])

    one_each = list(pairwise(range(len(starts) + 1)))
    pool.run_pieces(work, one_each, seconds=sample.size * SECONDS_PER_POINT, num_threads=num_threads)
    prefixes = np.minimum(sample.reshape(-1) >> shift, size - 1)
    below = np.cumsum(np.bincount(prefixes, minlength=size)) - 1
    return (np.maximum(below, 0) * n_buckets // sample.size).astype(np.uint16), shift


def compute_keys(fill, n, num_threads=None, progress=None):
    """Return n keys in point order; ``fill(start, stop, out)`` computes a range of them."""
    out = np.empty(n, np.int64)

    def work(_, start, stop):
        """Write the keys of one piece."""
        fill(start, stop, out[start:stop])

    seconds = n * SECONDS_PER_POINT
    bounds = pool.pieces(n, seconds)
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads, progress=progress)
    return out


def sort_and_count(fill, n, limit, num_threads=None, progress=None):
    """Return ``(keys, counts)``, the distinct sorted keys of n keys below `limit` that ``fill`` computes.

    ``DROPPED`` keys may exceed the limit.
    """
    if n < LEAST_PARTITIONED_POINTS:
        found = compute_keys(fill, n, num_threads, progress)
        _radix_sort.sort(found)
        return _run_length.encode_runs(found, num_threads)
    # Frees the partitioned keys before the result is allocated.
    return _run_length.concatenate_runs(
        _sort_buckets(_partition_blocks(fill, n, limit, num_threads, progress), num_threads), num_threads
    )


def sort_keys(fill, n, limit, below, num_threads=None, progress=None):
    """Return ``(keys, rest)``: the keys of `fill`, sorted, without their lowest `below` bits, and those bits."""
    rest = np.empty(n, np.int64)

    def sort_and_separate(found, rest):
        """Sort combined keys in place, and move their low bits to `rest`."""
        found.sort()
        np.bitwise_and(found, (1 << below) - 1, out=rest)
        np.right_shift(found, below, out=found)

    if n < LEAST_PARTITIONED_POINTS:
        found = compute_keys(fill, n, num_threads, progress)
        sort_and_separate(found, rest)
        return found, rest
    partitioned, ends = _partition_blocks(fill, n, limit, num_threads, progress)
    found = np.empty(n, np.int64)

    def work(bucket, start, stop):
        """Collect, sort and split one bucket."""
        _collect(partitioned, ends, bucket, PARTITION_ROWS, found[start:stop])
        sort_and_separate(found[start:stop], rest[start:stop])

    pool.run_pieces(work, _bucket_bounds(ends), seconds=n * SECONDS_PER_POINT, num_threads=num_threads)
    return found, rest


def _bucket_bounds(ends):
    """Return start and end of each bucket among the sorted points."""
    sizes = np.diff(ends, axis=1, prepend=0).sum(axis=0)
    return list(pairwise([0, *np.cumsum(sizes).tolist()]))


def _partition_blocks(fill, n, limit, num_threads, progress):
    """Return the keys of all points, ordered by bucket within each block, and the bucket ends of each block."""
    table, shift = _choose_buckets(fill, n, limit, num_threads)
    bounds = [(start, min(start + PARTITION_ROWS, n)) for start in range(0, n, PARTITION_ROWS)]
    partitioned = np.empty(n, np.int64)
    ends = np.empty((len(bounds), int(table[-1]) + 1), np.int64)

    def work(block, start, stop):
        """Compute and partition the keys of one block."""
        found = np.empty(stop - start, np.int64)
        fill(start, stop, found)
        _partition(found, table, shift, partitioned[start:stop], ends[block])

    seconds = n * SECONDS_PER_POINT
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads, progress=progress)
    return partitioned, ends


def _sort_buckets(points, num_threads):
    """Return the runs ``(keys, counts)`` of every bucket of partitioned keys."""
    partitioned, ends = points
    bounds = _bucket_bounds(ends)
    parts: list[Any] = [None] * len(bounds)

    def work(bucket, start, stop):
        """Collect, sort and run-length encode one bucket."""
        found, counts = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        _collect(partitioned, ends, bucket, PARTITION_ROWS, found)
        _radix_sort.sort(found, counts)
        number = _run_length.encode_into(found, found, counts)
        narrow = np.uint32 if stop - start < 2**32 else np.int64
        parts[bucket] = found[:number].copy(), counts[:number].astype(narrow)

    pool.run_pieces(work, bounds, seconds=len(partitioned) * SECONDS_PER_POINT, num_threads=num_threads)
    return parts
