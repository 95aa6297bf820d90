"""The labels of a row by probability, as far as somebody asks: in buckets first, sorted where it matters."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal._units import WHOLE_UNITS, share, units

MANTISSA_BITS = 3  # bits of the mantissa that tell buckets apart: eight for each power of two
OCTAVES = 24  # powers of two; what is smaller shares the last bucket
BUCKETS = (OCTAVES << MANTISSA_BITS) + 1
TOP = 0x3FF0000000000000 >> 52 - MANTISSA_BITS  # of 1.0
MOST_INSERTED = 12  # labels that are sorted by insertion


class Ranking(NamedTuple):
    """Workspace in which a row is put in order.

    Attributes
    ----------
    row : array of float64, shape (C,)
        The row, from 0 to 1.
    order : array of int64, shape (C,)
        Labels, bucket after bucket.
    starts, sums : array of int64
        Where each bucket that holds labels begins, and the units before it; one more for the end.
    is_sorted : array of bool
        Whether the labels of such a bucket are sorted.
    buckets, counts, mass : array of int64
        Of each label its bucket; of each bucket the labels in it, and their units.
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
    """Return the workspace of rows of `C` classes."""
    starts, sums = np.empty(BUCKETS + 1, np.int64), np.empty(BUCKETS + 1, np.int64)
    counts, mass = np.empty(BUCKETS, np.int64), np.empty(BUCKETS, np.int64)
    is_sorted = np.empty(BUCKETS, np.bool_)
    return Ranking(np.empty(C), np.empty(C, np.int64), starts, sums, is_sorted, np.empty(C, np.int64), counts, mass)


@jit(inner=True, borrows=True)
def arrange(row, most, penalty, k_reg, ranking):
    """Order the labels of a row by bucket, but for those of which none has a score of at most `most`, in units.

    Returns how many buckets hold labels that are ordered.
    """
    C, counts, mass, buckets = row.shape[0], ranking.counts, ranking.mass, ranking.buckets
    for j in range(C):
        ranking.row[j] = share(row[j])
        buckets[j] = min(TOP - (np.float64(ranking.row[j]).view(np.int64) >> 52 - MANTISSA_BITS), BUCKETS - 1)
    counts[:] = 0
    mass[:] = 0
    for j in range(C):
        counts[buckets[j]] += 1
        mass[buckets[j]] += units(ranking.row[j])
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
            counts[last] = start - counts[last]  # from here on where its next label goes
        last += 1
    ranking.starts[filled] = start
    ranking.sums[filled] = whole
    for j in range(C):
        if buckets[j] < last:
            ranking.order[counts[buckets[j]]] = j
            counts[buckets[j]] += 1
    return filled


@jit(inner=True, borrows=True)
def _insert(row, order, low, high, gap):
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
def sort(ranking, part):
    """Sort the labels of a bucket by probability, the largest first, equal ones by label."""
    if ranking.is_sorted[part]:
        return
    ranking.is_sorted[part] = True
    low, high = ranking.starts[part], ranking.starts[part + 1]
    gap = (high - low) // 3
    while gap > MOST_INSERTED // 4:
        _insert(ranking.row, ranking.order, low, high, gap)
        gap = gap * 4 // 9
    _insert(ranking.row, ranking.order, low, high, 1)
