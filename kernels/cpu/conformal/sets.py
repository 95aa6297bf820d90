"""Prediction sets as bitsets: the labels whose score does not exceed the threshold; and their coverage."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, floor, load, new_lines, some, splat, store, store_elements, where
from cmfast.kernels.cpu.conformal import _bitsets, _few_classes, _ranking, _single_row
from cmfast.kernels.cpu.conformal._lac_sets import fill_sets_by_lac
from cmfast.kernels.cpu.conformal._many_classes import fill_sets_many_classes
from cmfast.kernels.cpu.conformal._single_row import SetResults, fill_sets
from cmfast.kernels.cpu.conformal._strided_rows import ProbabilityRows, adopt_rows, locate_eight_rows
from cmfast.kernels.shared.conformal import BITS_PER_WORD, LAC, ScoreRule, make_score_rule
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_SORTED_LABEL = 3e-9
SECONDS_PER_SET = 2e-8
ONE_LABEL = 2.0**_few_classes.MOST_TILE_CLASSES  # size 1 of a set, above the bits of its labels
SECONDS_PER_COMPARISON, SECONDS_PER_CUT = 8e-11, 1e-9  # of two labels, and of a set, with few classes


@jit()
def _fill_sets_general(rows, q, rule, top1, out, start, stop):
    """Fill the sets of rows one by one; `q` is (batch, alpha, group, 1 or label)."""
    rows, rule, out = ProbabilityRows(*rows), ScoreRule(*rule), SetResults(*out)
    ranking = _ranking.new_ranking(rows.P.shape[1])
    for r in range(start, stop):
        fill_sets(rows, r, q, rule, top1, ranking, out)


@jit(inner=True, inline=True, borrows=True)
def _load_thresholds(rows, q, a, tile, first, count, out):
    """Write the thresholds `a` of `count` rows from row `first` on to lanes; flag rows with an invalid group."""
    by_label = q.shape[3] > 1
    for w in range(count):
        g = rows.groups[tile.rows[w]] if len(rows.groups) else 0
        if not 0 <= g < q.shape[2]:
            tile.flags[0, w] = 1.0
            continue
        for j in range(len(out)):
            out[j, w] = q[(first + w) // rows.n, a, g, j if by_label else 0]


@jit(inner=True, inline=True, borrows=True)
def _compare_scores(found, limits, marks, sums):
    """Write the sum of the marks of the labels within each threshold, for eight rows: their bits plus `ONE_LABEL` each.

    `limits` holds a line per threshold, or one per threshold and label. Of thresholds for all labels, two at a time
    share the loads of scores and marks.
    """
    A, C, zero = len(sums), len(found), splat(0.0)
    if len(limits) > A:
        for a in range(A):
            both = zero
            for j in range(C):
                both = both + where(load(found, j) > load(limits, a * C + j), zero, load(marks, j))
            store(sums, a, both)
        return
    for a in range(0, A, 2):
        b = min(a + 1, A - 1)
        first, second, both, other = load(limits, a), load(limits, b), zero, zero
        for j in range(C):
            score, mark = load(found, j), load(marks, j)
            both = both + where(score > first, zero, mark)
            other = other + where(score > second, zero, mark)
        store(sums, a, both)
        store(sums, b, other)


@jit()
def _fill_sets_few_classes(rows, q, rule, top1, out, start, stop):
    """Fill the sets of rows of few classes, one word each, from the scores of all labels."""
    rows, rule = ProbabilityRows(*rows), ScoreRule(*rule)
    P, _, draws, groups, n, step = rows
    out_words, out_sizes, out_status = out
    C, A, every = P.shape[1], q.shape[1], (1 << P.shape[1]) - 1
    flat_words, flat_sizes = out_words.reshape(-1), out_sizes.reshape(-1)
    tile = _few_classes.new_tile(C)
    at, flags, found = tile.rows, tile.flags, tile.scores
    labels = C if q.shape[3] > 1 else 1  # thresholds of each alpha
    words, sizes, limits, marks, sums = new_lines(1), new_lines(1), new_lines(A * labels), new_lines(C), new_lines(A)
    for j in range(C):
        store(marks, j, splat(np.float64(1 << j) + ONE_LABEL))
    known = -1  # batch element whose thresholds are in `limits`, if they hold for all eight rows
    b, end = 0, start  # batch element of the first of eight rows, and where its rows end
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        locate_eight_rows(first, count, n, step, at)
        _few_classes.score_tile(P, draws, rule, tile)
        if first >= end:
            b = first // n
            end = (b + 1) * n
        alike = len(groups) == 0 and count == WIDTH and first + count <= end
        if not alike or known != b:
            for a in range(A):
                _load_thresholds(rows, q, a, tile, first, count, limits[a * labels : (a + 1) * labels])
            known = b if alike else -1
        for w in range(count):
            out_status[first + w] = OK if flags[0, w] == 0.0 else INVALID
        together = alike and not top1 and not some(load(flags, 0) != 0.0)  # the sets of eight rows follow each other
        place = first + (A - 1) * n * b  # of the first set
        _compare_scores(found, limits, marks, sums)
        for a in range(A):
            both = load(sums, a)
            size = floor(both * splat(1.0 / ONE_LABEL))
            word = both - size * splat(ONE_LABEL)
            if together:
                store_elements(flat_words, place + a * n, word)
                store_elements(flat_sizes, place + a * n, size)
                continue
            e, i = b * A + a, first - (end - n)
            store(words, 0, word)
            store(sizes, 0, size)
            for w in range(count):
                good = flags[0, w] == 0.0
                bits, number = np.int64(words[0, w]) if good else every, np.int64(sizes[0, w]) if good else C
                if top1 and number == 0:
                    bits, number = np.int64(1) << _single_row.find_top_label(P[at[w]]), 1
                out_words[e, i, 0] = bits
                out_sizes[e, i] = number
                i += 1
                if i == n:
                    e, i = e + A, 0


def prediction_sets(P, q, u, groups, *, method, lam, k_reg, empty, num_threads=None):
    """Return the sets of all rows as bitsets, their sizes, and the status of every row.

    `q` has the shape (batch, alpha, group, 1 or label).
    """
    rows, rule = adopt_rows(P, draws=u, groups=groups), make_score_rule(method, lam, k_reg)
    (*batch, n, C), A = P.shape, q.shape[-3]
    size, words = math.prod(batch), -(-C // BITS_PER_WORD)
    limits = np.ascontiguousarray(np.broadcast_to(q, (*batch, *q.shape[-3:])), np.float64).reshape(size, *q.shape[-3:])
    limits.setflags(write=False)
    sets = np.empty((size * A, n, words), np.int64), np.empty((size * A, n), np.int64), np.empty(size * n, np.int8)
    few, by_lac = 0 < C <= _few_classes.MOST_TILE_CLASSES, rule.method == LAC
    many = C > _few_classes.MOST_TILE_CLASSES and rule.method != LAC and q.shape[-1] == 1
    kernel, tile, ranking, cutting = _fill_sets_general, 1, SECONDS_PER_SORTED_LABEL, SECONDS_PER_SET
    if few:
        kernel, tile = _fill_sets_few_classes, WIDTH
        ranking, cutting = 0.0 if by_lac else C * SECONDS_PER_COMPARISON, C * SECONDS_PER_COMPARISON
    elif by_lac:
        kernel, ranking, cutting = fill_sets_by_lac, SECONDS_PER_COMPARISON, C * SECONDS_PER_COMPARISON
    elif many:
        kernel, tile = fill_sets_many_classes, WIDTH
    seconds = size * n * (C * ranking + A * cutting)
    args = (rows, limits, tuple(rule), empty == "top1", sets)
    pool.run(kernel, args, size * n, seconds=seconds, tile=tile, num_threads=num_threads)
    out, sizes, status = sets
    return out.reshape(*batch, A, n, words), sizes.reshape(*batch, A, n), status.reshape(*batch, n)


@jit()
def _count_coverage(packed, y, A, out, out_covered, out_status, start, stop):
    """Count sets by size, and those that hold the true label."""
    C = out.shape[1] - 1
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
                out_covered[e, size] += _bitsets.read_bit(packed[e, i], label)


def set_coverage(packed, y, *, n_classes, num_threads=None):
    """Return the number of sets of every size, how many of them hold the true label, and the label status."""
    flat, labels, (size, A) = flatten_sets(packed, y)
    out, covered = (np.empty((size * A, n_classes + 1), np.int64) for _ in range(2))
    status = np.empty(labels.shape, np.int8)
    seconds = flat.size * SECONDS_PER_SORTED_LABEL
    args = (flat, labels, A, out, covered, status)
    pool.run(_count_coverage, args, size * A, seconds=seconds, num_threads=num_threads)
    shape = (*packed.shape[:-2], n_classes + 1)
    return out.reshape(shape), covered.reshape(shape), status.reshape(y.shape)


def flatten_sets(packed, y):
    """Return bitsets and labels as contiguous arrays, and the numbers of label rows and of sets per row."""
    A, (n, words) = packed.shape[-3], packed.shape[-2:]
    flat = np.ascontiguousarray(packed).reshape(math.prod(packed.shape[:-2]), n, words)
    labels = np.ascontiguousarray(y, np.int64).reshape(math.prod(y.shape[:-1]), n)
    flat.setflags(write=False)
    labels.setflags(write=False)
    return flat, labels, (len(labels), A)
