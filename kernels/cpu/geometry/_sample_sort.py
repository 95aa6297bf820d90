"""Parallel sample sort of keys: partition into buckets of key ranges, then sort each bucket in cache.

Buckets are disjoint key ranges, so the sorted buckets in order are the sorted keys for any choice of ranges; a sample
chooses them of about equal size. One huge cell makes one huge bucket, which is slow but never wrong.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _radix_sort, _run_length, _segmented_sums
from cmfast.kernels.shared.geometry_keys import DROPPED, bits_of

PARTITION_ROWS = 1 << 16  # most rows partitioned at a time: their keys stay in the level-2 cache
BUCKET = 1 << 15  # points per bucket, about: it is sorted in cache
LEAST_ROWS = 1 << 15  # of one of few blocks: smaller ones cost more time than many threads save
MOST_BUCKETS = 1 << 10
SAMPLED_RUNS = 1 << 7  # places at which points are sampled to choose the buckets
RUN = 1 << 7  # least consecutive points sampled at a place: cheap to read
POINTS_PER_BUCKET = 1 << 7  # points sampled, about
ENTRIES = 16  # bits of the table that maps key prefixes to buckets
MOST_KEY_BITS = 62  # of a key and, below it, the index of its point: together they are not negative
LEAST_PARTITIONED_POINTS = 1 << 17  # with fewer points one sort of everything is faster
SECONDS_PER_POINT = 2e-8


@jit()
def _partition(keys, weights, table, shift, out, out_weights, ends):
    """Partition `keys` by bucket into `out` (counting sort), and write where each bucket ends.

    `weights`, if not None, go to `out_weights` in the same order.
    """
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
        if weights is not None:
            out_weights[ends[b]] = weights[i]
        ends[b] += 1


@jit()
def _collect(partitioned, weights, ends, bucket, rows, out, out_weights):
    """Concatenate one bucket from all blocks into `out`, its `weights` (None: none) into `out_weights`."""
    total = 0
    for block in range(ends.shape[0]):
        first = ends[block, bucket - 1] if bucket else 0
        for i in range(block * rows + first, block * rows + ends[block, bucket]):
            out[total] = partitioned[i]
            if weights is not None:
                out_weights[total] = weights[i]
            total += 1


@jit()
def _gather_runs(keys, order, weights, out_weights, starts):
    """Keep the distinct ones of sorted `keys` in place; return their number.

    Write the weights in the `order` of the keys, and where each run starts, at last where all end.
    """
    runs = 0
    last = ~keys[0] if keys.shape[0] else 0
    for i in range(keys.shape[0]):
        key = keys[i]
        out_weights[i] = weights[order[i]]
        if key != last:
            keys[runs] = key
            starts[runs] = i
            runs += 1
            last = key
    starts[runs] = keys.shape[0]
    return runs


def _count_parts(n, most):
    """Return the number of parts of n points, of about `most` points or fewer, so that many threads end together."""
    parts = -(-n // most)
    if parts <= 2 * pool.MAX_PIECES:
        return max(parts, min(pool.MAX_PIECES, n // LEAST_ROWS))
    return -(-parts // pool.MAX_PIECES) * pool.MAX_PIECES


def _choose_buckets(fill, n, limit, num_threads):
    """Return ``(table, shift)``, from a sample of the keys: the bucket of a key is ``table[key >> shift]``."""
    n_buckets = min(max(_count_parts(n, BUCKET), 2), MOST_BUCKETS)
    shift = max((limit - 1).bit_length() - ENTRIES, 0)
    size = ((limit - 1) >> shift) + 1
    # Runs spread over all points: files are often sorted by class.
    length = min(max(RUN, POINTS_PER_BUCKET * n_buckets // SAMPLED_RUNS), n)
    starts = np.linspace(0, n - length, min(SAMPLED_RUNS, n // length)).astype(np.int64).tolist()
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


def sort_with_order(keys):
    """Return ``(sorted keys, order)`` of nonnegative keys; the order of equal keys may be any."""
    bits, low = bits_of(len(keys)), keys.min(initial=DROPPED)
    if bits + (int(keys.max(initial=0)) - int(low)).bit_length() > MOST_KEY_BITS:
        order = np.argsort(keys)
        return keys[order], order
    packed = ((keys - low) << bits) | np.arange(len(keys))
    _radix_sort.sort(packed)
    return (packed >> bits) + low, packed & ((1 << bits) - 1)


def sort_and_sum(fill, weights, limit, num_threads=None, progress=None):
    """Return ``(keys, sums, number)`` of weighted points whose keys below `limit` are computed by ``fill``.

    These are the distinct sorted keys, the sums of their weights and the number of points summed. Points with the key
    ``DROPPED`` are left out. Sums are int64 for integers, whose sums must fit, else exact sums rounded once to float64.
    """
    weights = weights.astype(np.float64 if weights.dtype.kind == "f" else np.int64, copy=False)
    points = _partition_blocks(fill, len(weights), limit, num_threads, progress, weights)
    parts, number = _sum_buckets(points, int(np.frexp(points.largest.max())[1]), num_threads)
    return *_run_length.concatenate_runs(parts, num_threads, weights.dtype), number


def _bucket_bounds(ends):
    """Return start and end of each bucket among the sorted points."""
    sizes = np.diff(ends, axis=1, prepend=0).sum(axis=0)
    return list(pairwise([0, *np.cumsum(sizes).tolist()]))


class _Partitioned(NamedTuple):
    """Points ordered by bucket within each block.

    Attributes
    ----------
    keys : array of int64
        Keys of the points.
    weights : array or None
        Their weights, in the same order.
    ends : array (n_blocks, n_buckets) of int64
        Where each bucket ends in each block.
    largest : array (n_blocks,) of float64
        Largest finite magnitude of a float weight in each block, of points that have a cell.
    rows : int
        Points of a block; the last one may have fewer.
    """

    keys: np.ndarray
    weights: Any
    ends: np.ndarray
    largest: np.ndarray
    rows: int


def _partition_blocks(fill, n, limit, num_threads, progress, weights=None):
    """Return the keys of all points, and their weights if given, ordered by bucket within each block."""
    table, shift = _choose_buckets(fill, n, limit, num_threads)
    rows = -(-n // _count_parts(n, PARTITION_ROWS))
    bounds = [(start, min(start + rows, n)) for start in range(0, n, rows)]
    ends = np.empty((len(bounds), int(table[-1]) + 1), np.int64)
    out = None if weights is None else np.empty(n, weights.dtype)
    points = _Partitioned(np.empty(n, np.int64), out, ends, np.zeros(len(bounds)), rows)

    def work(block, start, stop):
        """Compute and partition the keys of one block."""
        found = np.empty(stop - start, np.int64)
        fill(start, stop, found)
        some = to = None
        if weights is not None:
            some, to = np.ascontiguousarray(weights[start:stop]), points.weights[start:stop]
            if some.dtype.kind == "f":
                inside = some if found.max() != DROPPED else some[found != DROPPED]
                points.largest[block] = _segmented_sums.find_largest(inside)
        _partition(found, some, table, shift, points.keys[start:stop], to, ends[block])

    seconds = n * SECONDS_PER_POINT
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads, progress=progress)
    return points


def _sort_buckets(points, num_threads):
    """Return the runs ``(keys, counts)`` of every bucket of partitioned keys."""
    bounds = _bucket_bounds(points.ends)
    parts: list[Any] = [None] * len(bounds)

    def work(bucket, start, stop):
        """Collect, sort and run-length encode one bucket."""
        found, counts = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        _collect(points.keys, None, points.ends, bucket, points.rows, found, None)
        _radix_sort.sort(found, counts)
        number = _run_length.encode_into(found, found, counts)
        narrow = np.uint32 if stop - start < 2**32 else np.int64
        parts[bucket] = found[:number].copy(), counts[:number].astype(narrow)

    pool.run_pieces(work, bounds, seconds=len(points.keys) * SECONDS_PER_POINT, num_threads=num_threads)
    return parts


def _sum_buckets(points, exponent, num_threads):
    """Return ``(keys, sums)`` of every bucket, floats being below ``2**exponent``, and the number of points summed."""
    bounds = _bucket_bounds(points.ends)
    parts: list[Any] = [None] * len(bounds)
    number = [0] * len(bounds)

    def work(bucket, start, stop):
        """Collect, sort and sum one bucket."""
        found, weights = np.empty(stop - start, np.int64), np.empty(stop - start, points.weights.dtype)
        _collect(points.keys, points.weights, points.ends, bucket, points.rows, found, weights)
        if found.max(initial=0) == DROPPED:
            there = found != DROPPED
            found, weights = found[there], weights[there]
        keys, order = sort_with_order(found)
        moved, starts = np.empty_like(weights), np.empty(len(keys) + 1, np.int64)
        runs = _gather_runs(keys, order, weights, moved, starts)
        parts[bucket] = keys[:runs].copy(), _segmented_sums.sum_sorted(moved, starts[: runs + 1], exponent)
        number[bucket] = len(keys)

    pool.run_pieces(work, bounds, seconds=len(points.keys) * SECONDS_PER_POINT, num_threads=num_threads)
    return parts, sum(number)
