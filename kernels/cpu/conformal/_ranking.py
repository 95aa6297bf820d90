"""Rank the labels of a row by probability lazily: radix buckets first, each sorted only if needed."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal._fixed_point import WHOLE_UNITS, clamp_share, round_to_units

MANTISSA_BITS = 3  # leading mantissa bits of the bucket key: eight buckets per power of two
OCTAVES = 24  # powers of two; smaller probabilities share the last bucket
BUCKETS = (OCTAVES << MANTISSA_BITS) + 1
TOP = 0x3FF0000000000000 >> 52 - MANTISSA_BITS  # bucket key of 1.0
MOST_INSERTED = 12  # below about this many labels, plain insertion sort


class Ranking(NamedTuple):
    """Workspace in which the labels of a row are ranked.

    Attributes
    ----------
    row : array of float64, shape (C,)
        The row, from 0 to 1.
    order : array of int64, shape (C,)
        Labels, bucket after bucket.
    starts, sums : array of int64
        First position of each nonempty bucket, and the mass before it; with one more entry for the end.
    is_sorted : array of bool
        Whether the labels of such a bucket are sorted.
    buckets, counts, mass : array of int64
        Bucket of each label; number and mass of the labels of each bucket.
    """

    row: Any
    order: Any
    starts: Any
    sums: Any
    is_sorted: Any
    buckets: Any
    counts: Any
    mass: Any


@jit()
def new_ranking(C):
    """Allocate the ranking workspace of rows of `C` classes."""
    starts, sums = np.empty(BUCKETS + 1, np.int64), np.empty(BUCKETS + 1, np.int64)
    counts, mass = np.empty(BUCKETS, np.int64), np.empty(BUCKETS, np.int64)
    is_sorted = np.empty(BUCKETS, np.bool_)
    return Ranking(np.empty(C), np.empty(C, np.int64), starts, sums, is_sorted, np.empty(C, np.int64), counts, mass)


@jit(inner=True, borrows=True)
def bucket_labels(row, most, penalty, k_reg, ranking):
    """Bucket the labels of a row by probability, down to the last bucket with scores of at most `most` units.

    Return the number of filled buckets; labels of later buckets are left out of the order.
    """
    C, counts, mass, buckets = row.shape[0], ranking.counts, ranking.mass, ranking.buckets
    for j in range(C):
        ranking.row[j] = clamp_share(row[j])
        buckets[j] = min(TOP - (np.float64(ranking.row[j]).view(np.int64) >> 52 - MANTISSA_BITS), BUCKETS - 1)
    counts[:] = 0
    mass[:] = 0
    for j in range(C):
        counts[buckets[j]] += 1
        mass[buckets[j]] += round_to_units(ranking.row[j])
    start, whole, filled, last = 0, 0, 0, 0
    while last < BUCKETS and start < C:
        if counts[last]:
            if min(whole, WHOLE_UNITS) + penalty * max(0, start + 1 - k_reg) > most:
                break
            ranking.starts[filled] = start
            ranking.sums[filled] = whole
            ranking.is_sorted[filled] = False
            filled += 1
            whole += mass[last]
            start += counts[last]
            counts[last] = start - counts[last]  # from here on, the position of its next label
        last += 1
    ranking.starts[filled] = start
    ranking.sums[filled] = whole
    for j in range(C):
        if buckets[j] < last:
            ranking.order[counts[buckets[j]]] = j
            counts[buckets[j]] += 1
    return filled


@jit(inner=True, borrows=True)
def _insert_with_gap(row, order, low, high, gap):
    """Run an insertion pass of Shell sort with a gap over positions `low` to `high` of the order."""
    for k in range(low + gap, high):
        label = order[k]
        p, at = row[label], k
        while at >= low + gap:
            other = order[at - gap]
            if row[other] > p or (row[other] == p and other < label):
                break
            order[at] = other
            at -= gap
        order[at] = label


@jit(inner=True, borrows=True)
def sort_bucket(ranking, part):
    """Sort the labels of a bucket by descending probability, ties by label (Shell sort), at most once."""
    if ranking.is_sorted[part]:
        return
    ranking.is_sorted[part] = True
    low, high = ranking.starts[part], ranking.starts[part + 1]
    gap = (high - low) // 3
    while gap > MOST_INSERTED // 4:
        _insert_with_gap(ranking.row, ranking.order, low, high, gap)
        gap = gap * 4 // 9
    _insert_with_gap(ranking.row, ranking.order, low, high, 1)
