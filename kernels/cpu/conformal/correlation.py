"""How often two classes share a set: counts that add, from bits, and the ratios that are read off them."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.bits import add_product, popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal import _bits
from cmfast.kernels.cpu.conformal.sets import pairs
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

BLOCK_SETS = 64 * 64  # samples that are looked at together: 64 words of every class
MOST_KINDS = 1 << 12  # of sets, where they are counted by kind
MOST_PACKED_CLASSES = 16  # classes of which several samples fit into a word: to look at pairs takes longer
PAIR_COST = 10  # of a step for two labels of a set, in words of 64 samples of two classes
MOST_SAMPLE_PARTS = 8  # of the samples of one batch of sets
MOST_PART_BYTES = 1 << 26  # for the counts of all parts
SECONDS_PER_WORD = 6e-10
SECONDS_PER_RATIO = 5e-9


@jit(inner=True, borrows=True)
def _columns(packed, first, count, block, out):
    """Turn sets of `count` samples from `first` on, a bit per class, into a bit per sample of every class.

    Few classes leave most of a word empty: several samples share one.
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
            _bits.transpose(block, side)
            for j in range(min(64, C - 64 * w)):
                out[64 * w + j, k] = block[j]


@jit(inner=True, borrows=True)
def _shared(columns, words, out):
    """Add for every pair of classes the samples whose set holds both, by words of samples."""
    C = columns.shape[0]
    for i in range(C):
        for j in range(i, C):
            found = 0
            for k in range(words):
                found += popcount(columns[i, k] & columns[j, k])
            out[i, j] += found


@jit(inner=True, borrows=True)
def _members(words, out):
    """Write which bits are set; return how many."""
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
def _by_kind(sets, low, high, kinds, out):
    """Count sets of few classes by kind, of which there are fewer than sets, and add up those that hold a pair."""
    C = out.shape[0]
    kinds[:] = 0
    for i in range(low, high):
        kinds[sets[i, 0]] += 1
    for j in range(C):  # a kind then stands for all sets that hold its classes up to j, and maybe others of them
        step = 1 << j
        for first in range(0, len(kinds), 2 * step):
            for k in range(first, first + step):
                kinds[k] += kinds[k + step]
    for i in range(C):
        for j in range(i, C):
            out[i, j] = kinds[1 << i | 1 << j]


@jit()
def _together(packed, n_parts, out, start, stop):
    """Fill the upper triangles of the parts `start` to `stop`, counted over all batches of sets."""
    n, C = packed.shape[1], out.shape[2]
    columns = np.empty((C, BLOCK_SETS // 64), np.uint64)
    block, members = np.empty(64, np.uint64), np.empty(C, np.int64)
    sizes, kinds = np.empty(BLOCK_SETS, np.int64), np.empty(min(MOST_KINDS, 1 << min(C, 62)), np.int64)
    for part in range(start, stop):
        sets, G = packed[part // n_parts], out[part]
        G[:] = 0
        low, high = n * (part % n_parts) // n_parts, n * (part % n_parts + 1) // n_parts
        if C > 0 and 1 << min(C, 62) <= min(MOST_KINDS, high - low):
            _by_kind(sets, low, high, kinds, G)
            continue
        for first in range(low, high, BLOCK_SETS):
            count, steps = min(BLOCK_SETS, high - first), 0
            for i in range(count if C > MOST_PACKED_CLASSES else 0):
                sizes[i] = 0
                for w in range(sets.shape[1]):
                    sizes[i] += popcount(sets[first + i, w])
                steps += sizes[i] * sizes[i]
            if C > MOST_PACKED_CLASSES and PAIR_COST * steps < C * C * (
                count // 64
            ):  # few labels to a set: a step for each pair of them
                for i in range(count):
                    if sizes[i]:
                        size = _members(sets[first + i], members)
                        for a in range(size):
                            for b in range(a, size):
                                G[members[a], members[b]] += 1
            else:
                _columns(sets, first, count, block, columns)
                _shared(columns, -(-count // 64), G)


@jit()
def _joined(parts, n_parts, out, start, stop):
    """Add the parts of a batch of sets, and fill the lower triangle."""
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
    """Return for every pair of classes how many sets hold both."""
    batch, (n, words) = packed.shape[:-2], packed.shape[-2:]
    size, C = math.prod(batch), n_classes
    flat = np.ascontiguousarray(packed).reshape(size, n, words)
    flat.setflags(write=False)
    room = MOST_PART_BYTES // max(1, 8 * C * C * size)
    n_parts = max(1, min(MOST_SAMPLE_PARTS, room, n // BLOCK_SETS, MOST_SAMPLE_PARTS // max(size, 1)))
    parts, out = np.empty((size * n_parts, C, C), np.int64), np.empty((size, C, C), np.int64)
    seconds = size * (n / 64 + 64) * C * C / 2 * SECONDS_PER_WORD
    pool.run(_together, (flat, n_parts, parts), size * n_parts, seconds=seconds, num_threads=num_threads)
    seconds = parts.size * SECONDS_PER_WORD
    pool.run(_joined, (parts, n_parts, out), size, seconds=seconds, num_threads=num_threads)
    return out.reshape(*batch, C, C)


@jit()
def _confusion(packed, y, A, out, out_totals, out_status, start, stop):
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
                for k in range(_members(packed[e, i], members)):
                    out[e, label, members[k]] += 1


def coverage_confusion(packed, y, *, n_classes, num_threads=None):
    """Return how often the sets of every true class hold every class, how many sets it has, the status of labels."""
    flat, labels, (size, A) = pairs(packed, y)
    C = n_classes
    out, totals = np.empty((size * A, C, C), np.int64), np.empty((size * A, C), np.int64)
    status = np.empty(labels.shape, np.int8)
    seconds = (flat.size * 8 + out.size) * SECONDS_PER_WORD
    args = (flat, labels, A, out, totals, status)
    pool.run(_confusion, args, size * A, seconds=seconds, num_threads=num_threads)
    batch = packed.shape[:-2]
    return out.reshape(*batch, C, C), totals.reshape(*batch, C), status.reshape(y.shape)


@jit(inner=True, borrows=True)
def _difference(n, both, first, second):
    """Return ``n * both - first * second``: what is left modulo 2^64, and the multiple of that which floats tell."""
    left = np.float64(add_product(add_product(0, n, both), -first, second))
    near = np.float64(n) * np.float64(both) - np.float64(first) * np.float64(second)
    return left + np.rint((near - left) * 2.0**-64) * 2.0**64


@jit()
def _ratios(n, G, kind, undefined, out, out_reason, start, stop):
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
                        found = _difference(total, both, first, second) / np.sqrt(spread)
                        found = min(max(found, -1.0), 1.0) if i != j else 1.0
                elif kind == COVARIANCE and total:
                    found = _difference(total, both, first, second) / (np.float64(total) * np.float64(total))
                elif kind == LIFT and first and second:
                    found = np.float64(total) * np.float64(both) / (np.float64(first) * np.float64(second))
                elif kind == CONDITIONAL and first:
                    found = np.float64(both) / np.float64(first)
                out[b, i, j] = found


def ccm_ratios(n, G, *, kind, undefined, num_threads=None):
    """Return one of `KINDS` of every pair of classes, and why a class has no correlation."""
    batch, C = G.shape[:-2], G.shape[-1]
    size = math.prod(batch)
    counts = np.ascontiguousarray(G, np.int64).reshape(size, C, C)
    totals = np.ascontiguousarray(n, np.int64).reshape(size)
    counts.setflags(write=False)
    totals.setflags(write=False)
    out, reason = np.empty((size, C, C)), np.empty((size, C), np.int8)
    args = (totals, counts, KINDS[kind], float(undefined), out, reason)
    pool.run(_ratios, args, size, seconds=out.size * SECONDS_PER_RATIO, num_threads=num_threads)
    return out.reshape(*batch, C, C), reason.reshape(*batch, C)
