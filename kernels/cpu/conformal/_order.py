"""The labels of a row by probability, as far as somebody asks: in buckets first, sorted where it matters."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal._units import units

STEPS = 3  # bits of the mantissa that tell buckets apart: eight for each power of two
OCTAVES = 24  # powers of two; what is smaller shares the last bucket
BUCKETS = (OCTAVES << STEPS) + 1
TOP = 0x3FF0000000000000 >> 52 - STEPS  # of 1.0
FEW = 12  # labels that are sorted by insertion


@jit(inner=True)
def bucket(p):
    """Return the bucket of a probability: 0 for 1, the last one for 0."""
    return min(TOP - (np.float64(p).view(np.int64) >> 52 - STEPS), BUCKETS - 1)


@jit(inner=True)
def arrange(row, starts, mass, order):
    """Order the labels of a row by bucket, each as they come; a bucket begins at `starts`, `mass` adds up to it."""
    C = row.shape[0]
    for b in range(BUCKETS + 1):
        starts[b] = 0
        mass[b] = 0
    for j in range(C):
        b = bucket(row[j])
        starts[b + 1] += 1
        mass[b + 1] += units(row[j])
    for b in range(1, BUCKETS + 1):
        starts[b] += starts[b - 1]
        mass[b] += mass[b - 1]
    for j in range(C):
        b = bucket(row[j])
        order[starts[b]] = j
        starts[b] += 1
    for b in range(BUCKETS, 0, -1):
        starts[b] = starts[b - 1]
    starts[0] = 0


@jit(inner=True)
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


@jit(inner=True)
def sort(row, order, low, high):
    """Sort a part of `order` by probability, the largest first, equal ones by label."""
    gap = (high - low) // 3
    while gap > FEW // 4:
        _insert(row, order, low, high, gap)
        gap = gap * 4 // 9
    _insert(row, order, low, high, 1)
