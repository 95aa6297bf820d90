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
SAMPLED_RUNS = 1 << 7  # most places at which points are sampled to choose the buckets
RUNS_PER_BUCKET = 4  # places for each of few buckets: to read each takes as long as a thousand points
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


@jit(borrows=True)
def _assign_buckets(sample, shift, n_buckets, below, table):
    """Write the bucket of every key prefix to `table`, such that buckets hold about as many of the sampled keys.

    `below` has a zero for each prefix.
    """
    n, last = sample.shape[0], table.shape[0] - 1
    for i in range(n):
        below[min(sample[i] >> shift, last)] += 1
    total, bucket = -1, 0
    for k in range(last + 1):
        total += below[k]
        while total * n_buckets >= (bucket + 1) * n:  # the bucket is total * n_buckets // n
            bucket += 1
        table[k] = bucket


@jit(borrows=True)
def _pack_places(keys, low, bits, out):
    """Write what keys exceed `low` by, and below it their place, in so many bits."""
    for i in range(keys.shape[0]):
        out[i] = ((keys[i] - low) << bits) | i


@jit(borrows=True)
def _unpack_places(packed, low, bits, places):
    """Turn packed keys into keys, and write their places."""
    mask = (1 << bits) - 1
    for i in range(packed.shape[0]):
        x = packed[i]
        places[i] = x & mask
        packed[i] = (x >> bits) + low


@jit()
def _rank_sorted(keys, order, places, rank):
    """Write the dense ranks of sorted `keys` to ``rank[places[order]]``; return where each rank begins."""
    starts = np.empty(len(keys), np.int64)
    runs = 0
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            starts[runs] = i
            runs += 1
        rank[places[order[i]]] = runs - 1
    return starts[:runs]


@jit(borrows=True)
def _add_offsets(keys, table, shift, offsets, out):
    """Add to `out` the offset of the bucket of each key."""
    for i in range(keys.shape[0]):
        out[i] += offsets[table[min(keys[i] >> shift, table.shape[0] - 1)]]


@jit(borrows=True)
def _sort_bucket(points, place, digits, counts, one, other):
    """Sort one bucket by ``(lowest key, bits of a digit)``, into `one` if the number of digits is odd, else `other`.

    `points` are ``(keys, ends)`` of the blocks, `place` is ``(bucket, rows of a block)``, and `counts` are zeros for
    the values of each digit, and for two more digits. As ``_radix_sort``, but the first pass reads the blocks, whose
    digits were counted when they came from memory.
    """
    partitioned, ends = points
    bucket, rows = place
    low, width = digits
    mask, n_digits = (1 << width) - 1, counts.shape[0] - 2
    for k in range(0, n_digits, 3):
        first, second, third = counts[k], counts[k + 1], counts[k + 2]
        shift = k * width
        for block in range(ends.shape[0]):
            begin = ends[block, bucket - 1] if bucket else 0
            for i in range(block * rows + begin, block * rows + ends[block, bucket]):
                x = (partitioned[i] - low) >> shift
                first[x & mask] += np.uint32(1)
                second[(x >> width) & mask] += np.uint32(1)
                third[(x >> 2 * width) & mask] += np.uint32(1)
    for k in range(n_digits):
        total = np.uint32(0)
        for digit in range(mask + 1):  # exclusive prefix sum
            number = counts[k, digit]
            counts[k, digit] = total
            total += number
    places = counts[0]
    for block in range(ends.shape[0]):
        begin = ends[block, bucket - 1] if bucket else 0
        for i in range(block * rows + begin, block * rows + ends[block, bucket]):
            digit = (partitioned[i] - low) & mask
            one[places[digit]] = partitioned[i]
            places[digit] += np.uint32(1)
    for k in range(1, n_digits):
        places, shift = counts[k], k * width
        for i in range(one.shape[0]):
            digit = ((one[i] - low) >> shift) & mask
            other[places[digit]] = one[i]
            places[digit] += np.uint32(1)
        one, other = other, one


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
    number = min(SAMPLED_RUNS, RUNS_PER_BUCKET * n_buckets, n // length)
    starts = np.linspace(0, n - length, number).astype(np.int64).tolist()
    sample = np.empty((len(starts), length), np.int64)

    def work(_, first, last):
        """Compute the keys of some runs."""
        for i in range(first, last):
            fill(starts[i], starts[i] + length, sample[i])

    seconds = sample.size * SECONDS_PER_POINT
    pool.run_pieces(work, pool.pieces(len(starts), seconds), seconds=seconds, num_threads=num_threads)
    table = np.empty(size, np.uint16)
    _assign_buckets(sample.reshape(-1), shift, n_buckets, np.zeros(size, np.int64), table)
    return table, shift


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


def rank_densely(values, num_threads=None):
    """Return the dense rank of every nonnegative value, and the index of one representative of each rank."""
    n = len(values)
    rank = np.empty(n, np.int64)
    if n < LEAST_PARTITIONED_POINTS:
        keys, order = sort_with_order(values)
        return rank, order[_rank_sorted(keys, order, np.arange(n), rank)]

    def fill(start, stop, out):
        """Copy some values."""
        out[:] = values[start:stop]

    limit = int(values.max()) + 1
    points = _partition_blocks(fill, n, limit, num_threads, None, np.arange(n))
    bounds = _bucket_bounds(points.ends)
    some: list[Any] = [None] * len(bounds)

    def rank_bucket(bucket, start, stop):
        """Rank the values of one bucket among themselves."""
        keys, places = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        _collect(points.keys, points.weights, points.ends, bucket, points.rows, keys, places)
        keys, order = sort_with_order(keys)
        some[bucket] = places[order[_rank_sorted(keys, order, places, rank)]]

    seconds = n * SECONDS_PER_POINT
    pool.run_pieces(rank_bucket, bounds, seconds=seconds, num_threads=num_threads)
    below = np.cumsum([0, *map(len, some)])

    def add_smaller(_, start, stop):
        """Add the number of ranks in the buckets before."""
        _add_offsets(values[start:stop], points.table, points.shift, below, rank[start:stop])

    pool.run_pieces(add_smaller, pool.free_pieces(n, seconds), seconds=seconds, num_threads=num_threads)
    return rank, np.concatenate(some)


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
    if len(keys) < _radix_sort.LEAST_RADIX_KEYS:  # compiles nothing
        packed = ((keys - low) << bits) | np.arange(len(keys))
        packed.sort()
        return (packed >> bits) + low, packed & ((1 << bits) - 1)
    packed, order = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    _pack_places(keys, low, bits, packed)
    _radix_sort.sort(packed, order, bits)  # equal keys are in the order of the points
    _unpack_places(packed, low, bits, order)
    return packed, order


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
    return list(pairwise([0, *ends.sum(axis=0).tolist()]))


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
    table, shift : array of uint16, int
        The bucket of a key is ``table[key >> shift]``.
    """

    keys: np.ndarray
    weights: Any
    ends: np.ndarray
    largest: np.ndarray
    rows: int
    table: np.ndarray
    shift: int


def _partition_blocks(fill, n, limit, num_threads, progress, weights=None):
    """Return the keys of all points, and their weights if given, ordered by bucket within each block."""
    table, shift = _choose_buckets(fill, n, limit, num_threads)
    rows = -(-n // _count_parts(n, PARTITION_ROWS))
    bounds = [(start, min(start + rows, n)) for start in range(0, n, rows)]
    ends = np.empty((len(bounds), int(table[-1]) + 1), np.int64)
    out = None if weights is None else np.empty(n, weights.dtype)
    points = _Partitioned(np.empty(n, np.int64), out, ends, np.zeros(len(bounds)), rows, table, shift)

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


def _sort_by_digits(points, bucket, low, sizes, arrays):
    """Sort a bucket of keys from `low` on by ``(bits, number of digits)``; ``_sort_bucket`` says into which array."""
    bits, n_digits = sizes
    width = -(-bits // n_digits)
    counts = np.zeros((n_digits + 2, 1 << width), np.uint32)
    _sort_bucket((points.keys, points.ends), (bucket, points.rows), (low, width), counts, *arrays)


def _sort_buckets(points, num_threads):
    """Return the runs ``(keys, counts)`` of every bucket of partitioned keys."""
    bounds = _bucket_bounds(points.ends)
    parts: list[Any] = [None] * len(bounds)
    last = len(bounds) - 1
    first = np.searchsorted(points.table, np.arange(len(bounds) + 1)).tolist()  # key prefix of each bucket

    def work(bucket, start, stop):
        """Collect, sort and run-length encode one bucket."""
        found, counts = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        if _radix_sort.is_numpy_slow() and stop - start < 2**32:
            # The last bucket has the points without a cell, too.
            bits = ((first[bucket + 1] - first[bucket] << points.shift) - 1).bit_length() if bucket < last else 63
            n_digits = max(-(-bits // _radix_sort.DIGIT_BITS), 1)
            _sort_by_digits(points, bucket, first[bucket] << points.shift, (bits, n_digits), (found, counts))
            if n_digits % 2 == 0:
                found, counts = counts, found
        else:
            _collect(points.keys, None, points.ends, bucket, points.rows, found, None)
            found.sort()
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


def warm_up(keys):
    """Compile the kernels that are called only where NumPy's sort is slow, by a call with some keys."""
    ends, other = np.array([[len(keys)]]), np.empty_like(keys)
    points = _Partitioned(keys, None, ends, np.zeros(1), len(keys), np.zeros(1, np.uint16), 0)
    _sort_by_digits(points, 0, 0, (20, 2), (keys.copy(), other))
    _radix_sort.sort_by_digits(keys, other)
