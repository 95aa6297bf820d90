"""Co-occurrence of classes in prediction sets: counts from bitsets, and correlation, lift and other ratios of them."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.bits import add_product, popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal import _bitsets
from cmfast.kernels.cpu.conformal.sets import flatten_sets
from cmfast.kernels.shared.conformal import (
    ALWAYS,
    CONDITIONAL,
    CORRELATION,
    COVARIANCE,
    FINE,
    KINDS,
    LIFT,
    NEVER,
    NO_SAMPLES,
)
from cmfast.kernels.status import INVALID, OK

BLOCK_SETS = 64 * 64  # samples per block: 64 words per class
MOST_KINDS = 1 << 12  # distinct sets for which a histogram of sets is used
MOST_PACKED_CLASSES = 16  # up to here several samples share a word, and enumerating pairs is slower
PAIR_COST = 10  # cost of one pair of labels of a set, in AND-popcounts of a word
MOST_SAMPLE_PARTS = 8  # partitions of the samples of one batch element
MOST_PART_BYTES = 1 << 26  # for the counts of all partitions
SECONDS_PER_WORD = 6e-10
SECONDS_PER_RATIO = 5e-9


@jit(inner=True, borrows=True)
def _transpose_sets(packed, first, count, block, out):
    """Transpose `count` sets from `first` on, one bit per class, to one bit per sample for every class.

    With few classes several samples share a word.
    """
    C = out.shape[0]
    side = 16 if C <= 16 else 32 if C <= 32 else 64
    for w in range(packed.shape[1]):
        for k in range(-(-count // 64)):
            for i in range(side):
                block[i] = np.uint64(0)
                for part in range(0, 64, side):
                    at = 64 * k + part + i
                    if at < count:
                        block[i] |= np.uint64(packed[first + at, w]) << np.uint64(part)
            _bitsets.transpose(block, side)
            for j in range(min(64, C - 64 * w)):
                out[64 * w + j, k] = block[j]


@jit(inner=True, borrows=True)
def _count_shared(columns, words, out):
    """Add to every pair of classes the number of samples whose set holds both (AND and popcount)."""
    C = columns.shape[0]
    for i in range(C):
        for j in range(i, C):
            found = 0
            for k in range(words):
                found += popcount(columns[i, k] & columns[j, k])
            out[i, j] += found


@jit(inner=True, borrows=True)
def _list_members(words, out):
    """Write the indices of the set bits; return their number."""
    size = 0
    for w in range(len(words)):
        word, j = words[w], 64 * w
        while word:
            lowest = word & -word
            out[size] = j + popcount(lowest - 1)
            size += 1
            word ^= lowest
    return size


@jit(inner=True, borrows=True)
def _count_by_distinct_set(sets, low, high, kinds, out):
    """Count pairs via a histogram of the distinct sets and superset sums (Moebius/zeta transform)."""
    C = out.shape[0]
    kinds[:] = 0
    for i in range(low, high):
        kinds[sets[i, 0]] += 1
    for j in range(C):  # superset sums over classes up to j
        step = 1 << j
        for first in range(0, len(kinds), 2 * step):
            for k in range(first, first + step):
                kinds[k] += kinds[k + step]
    for i in range(C):
        for j in range(i, C):
            out[i, j] = kinds[1 << i | 1 << j]


@jit()
def _count_pairs(packed, n_parts, out, start, stop):
    """Write the upper triangles of the counts of partitions `start` to `stop`; of single partitions both triangles."""
    n, C = packed.shape[1], out.shape[2]
    columns = np.empty((C, BLOCK_SETS // 64), np.uint64)
    block, members = np.empty(64, np.uint64), np.empty(C, np.int64)
    sizes, kinds = np.empty(BLOCK_SETS, np.int64), np.empty(min(MOST_KINDS, 1 << min(C, 62)), np.int64)
    for part in range(start, stop):
        sets, G = packed[part // n_parts], out[part]
        G[:] = 0
        low, high = n * (part % n_parts) // n_parts, n * (part % n_parts + 1) // n_parts
        has_few_kinds = C > 0 and 1 << min(C, 62) <= min(MOST_KINDS, high - low)
        if has_few_kinds:
            _count_by_distinct_set(sets, low, high, kinds, G)
        for first in range(high if has_few_kinds else low, high, BLOCK_SETS):
            count, steps = min(BLOCK_SETS, high - first), 0
            for i in range(count if C > MOST_PACKED_CLASSES else 0):
                sizes[i] = 0
                for w in range(sets.shape[1]):
                    sizes[i] += popcount(sets[first + i, w])
                steps += sizes[i] * sizes[i]
            if C > MOST_PACKED_CLASSES and PAIR_COST * steps < C * C * (
                count // 64
            ):  # sparse sets: enumerate their pairs
                for i in range(count):
                    if sizes[i]:
                        size = _list_members(sets[first + i], members)
                        for a in range(size):
                            for b in range(a, size):
                                G[members[a], members[b]] += 1
            else:
                _transpose_sets(sets, first, count, block, columns)
                _count_shared(columns, -(-count // 64), G)
        if n_parts == 1:
            for i in range(C):
                for j in range(i):
                    G[i, j] = G[j, i]


@jit()
def _merge_parts(parts, n_parts, out, start, stop):
    """Sum the partitions of batch elements `start` to `stop`, and fill the lower triangle."""
    C = out.shape[1]
    for b in range(start, stop):
        for i in range(C):
            for j in range(i, C):
                total = 0
                for part in range(n_parts):
                    total += parts[b * n_parts + part, i, j]
                out[b, i, j] = total
                out[b, j, i] = total


def ccm(packed, *, n_classes, num_threads=None):
    """Return the class co-occurrence matrix: for every pair of classes the number of sets that hold both."""
    batch, (n, words) = packed.shape[:-2], packed.shape[-2:]
    size, C = math.prod(batch), n_classes
    flat = np.ascontiguousarray(packed).reshape(size, n, words)
    flat.setflags(write=False)
    affordable = MOST_PART_BYTES // max(1, 8 * C * C * size)
    n_parts = max(1, min(MOST_SAMPLE_PARTS, affordable, n // BLOCK_SETS, MOST_SAMPLE_PARTS // max(size, 1)))
    parts = np.empty((size * n_parts, C, C), np.int64)
    seconds = size * (n / 64 + 64) * C * C / 2 * SECONDS_PER_WORD
    pool.run(_count_pairs, (flat, n_parts, parts), size * n_parts, seconds=seconds, num_threads=num_threads)
    if n_parts == 1:
        return parts.reshape(*batch, C, C)
    out, seconds = np.empty((size, C, C), np.int64), parts.size * SECONDS_PER_WORD
    pool.run(_merge_parts, (parts, n_parts, out), size, seconds=seconds, num_threads=num_threads)
    return out.reshape(*batch, C, C)


@jit()
def _count_confusion(packed, y, A, out, out_totals, out_status, start, stop):
    """Count for every true class how often sets hold every class, and how many sets it has."""
    C = out.shape[1]
    members = np.empty(C, np.int64)
    for e in range(start, stop):
        out[e] = 0
        out_totals[e] = 0
        for i in range(packed.shape[1]):
            label = y[e // A, i]
            good = 0 <= label < C
            if e % A == 0:
                out_status[e // A, i] = OK if good else INVALID
            if good:
                out_totals[e, label] += 1
                for k in range(_list_members(packed[e, i], members)):
                    out[e, label, members[k]] += 1


def coverage_confusion(packed, y, *, n_classes, num_threads=None):
    """Return how often sets of every true class hold every class, the number of its sets, the label status."""
    flat, labels, (size, A) = flatten_sets(packed, y)
    C = n_classes
    out, totals = np.empty((size * A, C, C), np.int64), np.empty((size * A, C), np.int64)
    status = np.empty(labels.shape, np.int8)
    seconds = (flat.size * 8 + out.size) * SECONDS_PER_WORD
    args = (flat, labels, A, out, totals, status)
    pool.run(_count_confusion, args, size * A, seconds=seconds, num_threads=num_threads)
    batch = packed.shape[:-2]
    return out.reshape(*batch, C, C), totals.reshape(*batch, C), status.reshape(y.shape)


@jit(inner=True, borrows=True)
def _subtract_products(n, both, first, second):
    """Return ``n * both - first * second`` in float64 without cancellation: exact modulo 2^64, plus the multiple."""
    left = np.float64(add_product(add_product(0, n, both), -first, second))
    near = np.float64(n) * np.float64(both) - np.float64(first) * np.float64(second)
    return left + np.rint((near - left) * 2.0**-64) * 2.0**64


@jit()
def _write_ratios(n, G, kind, undefined, out, out_reason, start, stop):
    """Write one ratio of every pair of classes, and the reason why a class has no correlation."""
    C = G.shape[1]
    for b in range(start, stop):
        total = n[b]
        for i in range(C):
            m = G[b, i, i]
            out_reason[b, i] = NO_SAMPLES if total == 0 else NEVER if m == 0 else ALWAYS if m == total else FINE
        for i in range(C):
            for j in range(C):
                first, second, both = G[b, i, i], G[b, j, j], G[b, i, j]
                found = np.nan
                if kind == CORRELATION:
                    found = undefined
                    if out_reason[b, i] == FINE and out_reason[b, j] == FINE:
                        spread = (np.float64(first) * np.float64(total - first)) * (
                            np.float64(second) * np.float64(total - second)
                        )
                        found = _subtract_products(total, both, first, second) / np.sqrt(spread)
                        found = min(max(found, -1.0), 1.0) if i != j else 1.0
                elif kind == COVARIANCE and total:
                    found = _subtract_products(total, both, first, second) / (np.float64(total) * np.float64(total))
                elif kind == LIFT and first and second:
                    found = np.float64(total) * np.float64(both) / (np.float64(first) * np.float64(second))
                elif kind == CONDITIONAL and first:
                    found = np.float64(both) / np.float64(first)
                out[b, i, j] = found


def ccm_ratios(n, G, *, kind, undefined, num_threads=None):
    """Return one of `KINDS` for every pair of classes, and the reason why a class has no correlation."""
    batch, C = G.shape[:-2], G.shape[-1]
    size = math.prod(batch)
    counts = np.ascontiguousarray(G, np.int64).reshape(size, C, C)
    totals = np.ascontiguousarray(n, np.int64).reshape(size)
    counts.setflags(write=False)
    totals.setflags(write=False)
    out, reason = np.empty((size, C, C)), np.empty((size, C), np.int8)
    args = (totals, counts, KINDS[kind], float(undefined), out, reason)
    pool.run(_write_ratios, args, size, seconds=out.size * SECONDS_PER_RATIO, num_threads=num_threads)
    return out.reshape(*batch, C, C), reason.reshape(*batch, C)
