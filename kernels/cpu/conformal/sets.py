"""Which labels a row may have: those whose score no threshold excludes, as bits; and whether the true one is there."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, new_lines, splat, store, where
from cmfast.kernels.cpu.conformal import _bits, _one, _order, _tile
from cmfast.kernels.cpu.conformal._many import sets_of_many
from cmfast.kernels.cpu.conformal._one import sets_of_row
from cmfast.kernels.cpu.conformal._rows import NONE, float64, int64, place, places, rows
from cmfast.kernels.shared.conformal import LAC, METHODS, UNITS
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_LABEL = 3e-9
SECONDS_PER_PAIR = 1e-9  # of labels, where there are few
SECONDS_PER_SET = 2e-8
NO_GROUPS = int64(NONE)
NO_GROUPS.setflags(write=False)


@jit()
def _sets(P, u, groups, q, n, step, lac, penalty, k_reg, top1, out, out_sizes, out_status, start, stop):
    """Fill the sets of rows, `n` of them to an element of the batch, one after the other."""
    room = _order.room(P.shape[1])
    for r in range(start, stop):
        at, b, i = place(r, n, step), r // n, r % n
        draw, g = u[at] if len(u) else 1.0, groups[at] if len(groups) else 0
        good = sets_of_row(P[at], draw, g, q, b, i, lac, penalty, k_reg, top1, room, out, out_sizes)
        out_status[r] = OK if good else INVALID


@jit(inner=True, inline=True, borrows=True)
def _limits(q, groups, at, n, first, count, a, by_label, flags, out):
    """Write the thresholds of eight rows side by side, and flag those whose group is none."""
    for w in range(count):
        g = groups[at[w]] if len(groups) else 0
        if not 0 <= g < q.shape[2]:
            flags[0, w] = 1.0
            continue
        for j in range(len(out)):
            out[j, w] = q[(first + w) // n, a, g, j if by_label else 0]


@jit(inner=True, inline=True, borrows=True)
def _inside(found, limits, words, sizes):
    """Add up the bits of the labels that are in, and how many these are, eight rows at a time."""
    zero, one = splat(0.0), splat(1.0)
    word, size, bit = zero, zero, one
    for j in range(len(found)):
        excluded = load(found, j) > load(limits, j)
        word = word + where(excluded, zero, bit)
        size = size + where(excluded, zero, one)
        bit = bit + bit
    store(words, 0, word)
    store(sizes, 0, size)


@jit()
def _sets_of_few(P, u, groups, q, n, step, penalty, k_reg, top1, out, out_sizes, out_status, start, stop):
    """As `_sets`, from the scores of all labels: of few classes, which fit into a word."""
    C, A, by_label, every = P.shape[1], q.shape[1], q.shape[3] > 1, (1 << P.shape[1]) - 1
    tile, parts, before, ahead, found = new_lines(C), new_lines(C), new_lines(C), new_lines(C), new_lines(C)
    draws, flags, at = new_lines(1), new_lines(2), np.empty(WIDTH, np.int64)
    words, sizes, limits = new_lines(1), new_lines(1), new_lines(A * C)
    known = -1  # element of the batch whose thresholds stand in `limits`, if they serve all eight rows
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        places(first, count, n, step, at)
        _tile.fill(P, u, at, penalty, k_reg, tile, draws, parts, before, ahead, flags, found)
        b = first // n
        alike = len(groups) == 0 and count == WIDTH and (first + count - 1) // n == b
        if not alike or known != b:
            for a in range(A):
                _limits(q, groups, at, n, first, count, a, by_label, flags, limits[a * C : (a + 1) * C])
            known = b if alike else -1
        for w in range(count):
            out_status[first + w] = OK if flags[0, w] == 0.0 else INVALID
        for a in range(A):
            _inside(found, limits[a * C : (a + 1) * C], words, sizes)
            b, i = first // n, first % n
            for w in range(count):
                good = flags[0, w] == 0.0
                word, size = np.int64(words[0, w]) if good else every, np.int64(sizes[0, w]) if good else C
                if top1 and size == 0:
                    word, size = np.int64(1) << _one.first(P[at[w]]), 1
                out[b * A + a, i, 0] = word
                out_sizes[b * A + a, i] = size
                i += 1
                if i == n:
                    b, i = b + 1, 0


def prediction_sets(P, q, u, groups, *, method, lam, k_reg, empty, num_threads=None):
    """Return the sets of all rows as words of bits, how many labels they have, and the status of every row.

    `q` has the shape (batch, alpha, group, 1 or label).
    """
    draws, own = None if u is None else float64(u), None if groups is None else int64(groups)
    flat, draws, own, shape, step = rows(P, draws, own)
    (*batch, n), C, A = shape, P.shape[-1], q.shape[-3]
    size, words = math.prod(batch), -(-C // _bits.WORD)
    limits = np.ascontiguousarray(np.broadcast_to(q, (*batch, *q.shape[-3:])), np.float64).reshape(size, *q.shape[-3:])
    limits.setflags(write=False)
    out, sizes = np.empty((size * A, n, words), np.int64), np.empty((size * A, n), np.int64)
    status = np.empty(size * n, np.int8)
    lac, penalty = METHODS[method] == LAC, int(np.rint(lam * UNITS))
    few = 0 < C <= _tile.MOST_CLASSES and not lac
    many = C > _tile.MOST_CLASSES and not lac and q.shape[-1] == 1
    seconds = size * n * (C * (C * SECONDS_PER_PAIR / 4 if few else SECONDS_PER_LABEL) + A * SECONDS_PER_SET)
    options = {"seconds": seconds, "num_threads": num_threads}
    draws, own = NONE if draws is None else draws, NO_GROUPS if own is None else own
    given, results = (flat, draws, own, limits, n, step), (k_reg, empty == "top1", out, sizes, status)
    if few:
        pool.run(_sets_of_few, (*given, penalty, *results), size * n, tile=WIDTH, **options)
    elif many:
        pool.run(sets_of_many, (*given, penalty, *results), size * n, tile=WIDTH, **options)
    else:
        pool.run(_sets, (*given, lac, penalty, *results), size * n, **options)
    return out.reshape(*batch, A, n, words), sizes.reshape(*batch, A, n), status.reshape(shape)


@jit()
def _coverage(packed, y, C, A, out, out_covered, out_status, start, stop):
    for e in range(start, stop):
        out[e] = 0
        out_covered[e] = 0
        for i in range(packed.shape[1]):
            label, size = y[e // A, i], 0
            for w in range(packed.shape[2]):
                size += popcount(packed[e, i, w])
            good = 0 <= label < C
            if e % A == 0:
                out_status[e // A, i] = OK if good else INVALID
            if good:
                out[e, size] += 1
                out_covered[e, size] += _bits.bit(packed[e, i], label)


def set_coverage(packed, y, *, n_classes, num_threads=None):
    """Return how many sets there are of every size, how many of them hold their label, the status of every label."""
    flat, labels, (size, A) = pairs(packed, y)
    out, covered = (np.empty((size * A, n_classes + 1), np.int64) for _ in range(2))
    status = np.empty(labels.shape, np.int8)
    seconds = flat.size * SECONDS_PER_LABEL
    args = (flat, labels, n_classes, A, out, covered, status)
    pool.run(_coverage, args, size * A, seconds=seconds, num_threads=num_threads)
    shape = (*packed.shape[:-2], n_classes + 1)
    return out.reshape(shape), covered.reshape(shape), status.reshape(y.shape)


def pairs(packed, y):
    """Return words and labels as kernels take them, and how many rows of labels there are, and sets to each."""
    A, (n, words) = packed.shape[-3], packed.shape[-2:]
    flat = np.ascontiguousarray(packed).reshape(math.prod(packed.shape[:-2]), n, words)
    labels = np.ascontiguousarray(y, np.int64).reshape(math.prod(y.shape[:-1]), n)
    flat.setflags(write=False)
    labels.setflags(write=False)
    return flat, labels, (len(labels), A)
