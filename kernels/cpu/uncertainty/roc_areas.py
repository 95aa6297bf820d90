"""Areas under ROC curves of several models on the same samples, and their covariances by DeLong, in O(n log n).

The placement of a positive sample is the share of negative samples with lower scores, ties counting half; that of a
negative sample is the share of positive samples with higher scores. An area is the mean placement of the positive
samples. The covariance of two areas is the sum over both classes of the covariance of placements, divided by the size
of the class (DeLong et al. 1988). Placements follow from one sort of all scores (Sun and Xu 2014).

A sample has a position: positive samples come first. Keys of 64 bits hold the leading digits of a score, and below them
the position. NumPy sorts them in the time of sorting scores, a quarter of the time in which it finds their order.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fma, load, new_lines, splat, total
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_PLACEMENT = 1.2e-8
SECONDS_PER_PLACEMENT_PAIR = 1e-10
SORTED_TOGETHER = 1 << 16  # scores of short rows that are sorted in one call
PLACEMENT_LINES = 64  # of eight placements of every model: twenty models fit a level-2 cache
LEAST_BLOCK, MOST_BLOCKS = 1 << 13, 16  # samples of a partial sum, and such sums of a class: fixed by the shapes
LONGEST_RUN = 32  # scores with equal leading digits that are sorted by insertion
MOST_SCORES = (1 << 30) - 1  # twice their number fits int32
UNSORTED = -1.0  # the area of a row with a longer run
TOP_BIT = np.uint64(1 << 63)
NOTHING, ONE = np.uint64(0), np.uint64(1)


@jit(inner=True, inline=True)
def _order_bits(score):
    """Return an unsigned integer that orders as scores do; 0 and -0 have the same."""
    bits = np.float64(np.float64(score) + 0.0).view(np.uint64)
    return ~bits if bits >= TOP_BIT else bits | TOP_BIT


@jit()
def _order_classes(positive, weight, positions, samples, n_positive, shares, start, stop):
    """Write positions of samples, samples by position, the number of positive samples, and shares by position.

    A share is a weight divided by the sum of its class. `shares` is empty without weights.
    """
    for b in range(start, stop):
        m = 0
        for i in range(positive.shape[1]):
            m += positive[b, i]
        n_positive[b], up, down = m, 0, m
        for i in range(positive.shape[1]):
            position = up if positive[b, i] else down
            up += positive[b, i]
            down += not positive[b, i]
            positions[b, i], samples[b, position] = position, i
        if shares.shape[1] > 0:
            for first, last in ((0, m), (m, len(samples[b]))):
                whole = 0.0
                for position in range(first, last):
                    whole += weight[b, samples[b, position]]
                for position in range(first, last):
                    shares[b, position] = weight[b, samples[b, position]] / whole


@jit()
def _write_keys(scores, positions, index_bits, keys, dropped, start, stop):
    """Write the keys of rows of scores, and how many of the last digits they drop; -1 if a score is NaN."""
    models, size = len(scores) // len(positions), np.uint64(index_bits)
    for r in range(start, stop):
        row, out, position = scores[r], keys[r - start], positions[r // models]
        first, differ = _order_bits(row[0]), NOTHING
        least, most, valid = first, first, True
        for i in range(len(row)):
            number = _order_bits(row[i])
            least, most, differ = min(least, number), max(most, number), differ | (number ^ first)
            valid &= row[i] == row[i]
        low, high = 0, 0  # the digits that differ: all are equal below `low`
        while low < 64 and differ >> np.uint64(low) & ONE == NOTHING:
            low += 1
        while high < 64 and (most - least) >> np.uint64(high) != NOTHING:
            high += 1
        dropped[r] = max(0, high - low + index_bits - 64) if valid else -1
        cut = np.uint64(min(63, low + max(0, dropped[r])))
        for i in range(len(row)):
            out[i] = (_order_bits(row[i]) - least) >> cut << size | np.uint64(position[i])


@jit(inner=True)
def _end_ties(row, i, size, dropped, scores, samples):
    """Return the end of the samples whose scores equal that of sorted key `i`; -1 if keys do not tell.

    Keys of scores that differ only in dropped digits are sorted first, if there are at most LONGEST_RUN of them.
    """
    n, mask, end = len(row), (ONE << size) - ONE, i + 1
    while end < n and row[end] >> size == row[i] >> size:
        end += 1
    if dropped == 0 or end == i + 1:
        return end
    score, same = scores[samples[np.int64(row[i] & mask)]], True
    for k in range(i + 1, end):
        same &= scores[samples[np.int64(row[k] & mask)]] == score
    if same or end - i > LONGEST_RUN:
        return end if same else -1
    for k in range(i + 1, end):  # insertion sort; equal scores stay in the order of their positions
        key, at = row[k], k
        score = scores[samples[np.int64(key & mask)]]
        while at > i and scores[samples[np.int64(row[at - 1] & mask)]] > score:
            row[at] = row[at - 1]
            at -= 1
        row[at] = key
    score, k = scores[samples[np.int64(row[i] & mask)]], i + 1
    while k < end and scores[samples[np.int64(row[k] & mask)]] == score:
        k += 1
    return k


@jit()
def _count_placements(keys, dropped, rows, index_bits, placements, areas, start, stop):
    """Write twice the placements of unweighted samples as counts, and the areas; UNSORTED if keys do not tell."""
    scores, samples, n_positive, _ = rows
    models, size = len(scores) // len(samples), np.uint64(index_bits)
    n, mask = scores.shape[1], (ONE << size) - ONE
    for r in range(start, stop):
        row, out, own, by_position = keys[r - start], placements[r], scores[r], samples[r // models]
        m, lost = n_positive[r // models], dropped[r]
        seen, won, i = np.int64(0), np.int64(0), 0  # positive samples so far, their placements, all samples so far
        while i < n:
            j = i + 1
            if j < n and row[j] >> size == row[i] >> size:
                j = _end_ties(row, i, size, lost, own, by_position)
                if j < 0:
                    break
            else:
                position = np.int64(row[i] & mask)
                up = np.int64(position < m)
                out[position] = 2 * (i - seen) if position < m else 2 * (m - seen)
                won += up * 2 * (i - seen)
                seen += up
                i = j
                continue  # a third of the time of what follows
            high = np.int64(0)
            for k in range(i, j):
                high += np.int64(row[k] & mask) < m
            of_positive, of_negative = 2 * (i - seen) + j - i - high, 2 * (m - seen) - high
            for k in range(i, j):
                position = np.int64(row[k] & mask)
                out[position] = of_positive if position < m else of_negative
            won += high * of_positive
            seen += high
            i = j
        areas[r] = 0.5 * won / (np.float64(m) * np.float64(n - m)) if i == n else UNSORTED


@jit()
def _sum_placements(keys, dropped, rows, index_bits, placements, areas, start, stop):
    """Write twice the placements of weighted samples, and the areas; UNSORTED if keys do not tell."""
    scores, samples, n_positive, shares = rows
    models, size = len(scores) // len(samples), np.uint64(index_bits)
    n, mask = scores.shape[1], (ONE << size) - ONE
    for r in range(start, stop):
        row, out, own, by_position = keys[r - start], placements[r], scores[r], samples[r // models]
        m, lost, share = n_positive[r // models], dropped[r], shares[r // models]
        below, above, won, i = 0.0, 2.0, 0.0, 0
        while i < n:
            j = i + 1
            if j < n and row[j] >> size == row[i] >> size:
                j = _end_ties(row, i, size, lost, own, by_position)
                if j < 0:
                    break
            else:
                position = np.int64(row[i] & mask)
                up, one = np.float64(position < m), share[np.int64(row[i] & mask)]
                out[position] = 2.0 * below if position < m else above
                won += one * up * 2.0 * below
                below += one * (1.0 - up)
                above -= 2.0 * one * up
                i = j
                continue
            low, high = 0.0, 0.0
            for k in range(i, j):
                position = np.int64(row[k] & mask)
                one = np.float64(position < m)
                high += share[position] * one
                low += share[position] * (1.0 - one)
            for k in range(i, j):
                position = np.int64(row[k] & mask)
                out[position] = 2.0 * below + low if position < m else above - high
            won += high * (2.0 * below + low)
            below += low
            above -= 2.0 * high
            i = j
        areas[r] = 0.5 * won if 0 < m < n else np.nan
        if i < n:
            areas[r] = UNSORTED


@jit()
def _sum_products(placements, shares, n_positive, areas, partial, start, stop):
    """Write the sums of products of centred placements of all models, in blocks of each class of every element."""
    blocks, models, n = partial.shape[2], partial.shape[3], placements.shape[1]
    lines = min(PLACEMENT_LINES, -(-n // WIDTH))
    size = lines * WIDTH
    tile = new_lines((models + 1) * lines)  # placements of one more, which are 0, after the last of an odd number
    for unit in range(start, stop):
        b, side, block = unit // (2 * blocks), unit // blocks % 2, unit % blocks
        m, weighted, sums = n_positive[b], shares.shape[1] > 0, partial[b, side, block]
        first, held, others = (0, m, n - m) if side == 0 else (m, n - m, m)
        scale = 0.5 if weighted else 0.5 / max(others, 1)
        sums[:] = 0.0
        end = first + held * (block + 1) // blocks
        for at in range(first + held * block // blocks, end, size):
            length = min(size, end - at)
            tile[:] = 0.0
            for k in range(models):
                row, area = placements[b * models + k], areas[b * models + k]
                out = tile[k * lines : (k + 1) * lines].reshape(size)
                for i in range(length):
                    out[i] = row[at + i] * scale - area
                if weighted:
                    for i in range(length):
                        out[i] *= shares[b, at + i]
            for k in range(0, models, 2):
                for other in range(k, models, 2):
                    _add_products(tile, lines, sums, k, other)
        for k in range(models):
            for other in range(k):
                sums[k, other] = sums[other, k]


@jit(inner=True, inline=True, borrows=True)
def _add_products(tile, lines, sums, k, other):
    """Add the products of models `k` and the next with models `other` and the next, over the samples of a tile."""
    a = b = c = d = splat(0.0)
    for line in range(lines):
        p, q = load(tile, k * lines + line), load(tile, (k + 1) * lines + line)
        r, s = load(tile, other * lines + line), load(tile, (other + 1) * lines + line)
        a, b, c, d = fma(p, r, a), fma(p, s, b), fma(q, r, c), fma(q, s, d)
    sums[k, other] += total(a)
    if other + 1 < len(sums):
        sums[k, other + 1] += total(b)
        sums[k + 1, other + 1] += total(d)
    if other > k:
        sums[k + 1, other] += total(c)


def _sort_slowly(scores, samples, index_bits):
    """Return the keys of a row of scores whose leading digits do not tell their order: the rank, and the position."""
    scores = scores[samples]
    order = np.argsort(scores, kind="stable")
    ranks = np.zeros(len(order), np.uint64)
    np.cumsum(scores[order[1:]] != scores[order[:-1]], out=ranks[1:])
    return ranks << np.uint64(index_bits) | order.astype(np.uint64)


class _Rows:
    """Rows of scores, one for each element of a batch and model, with the positions of the samples of each element."""

    def __init__(self, scores, positive, weight, num_threads):
        E, n = positive.shape
        self.scores, self.models, self.index_bits = scores, len(scores) // E, max(1, (n - 1).bit_length())
        self.positions, self.samples = np.empty((E, n), np.uint32), np.empty((E, n), np.uint32)
        self.n_positive, self.shares = np.empty(E, np.int64), np.empty((E, 0 if weight is None else n))
        self.placements = np.empty((len(scores), n), np.int32 if weight is None else np.float64)
        self.areas, self.dropped = np.empty(len(scores)), np.empty(len(scores), np.int64)
        given = (positive, _freeze(self.shares if weight is None else weight))
        results = (self.positions, self.samples, self.n_positive, self.shares)
        seconds = SECONDS_PER_PLACEMENT * positive.size
        pool.run(_order_classes, (*given, *results), E, seconds=seconds, num_threads=num_threads)

    def write_placements(self, num_threads):
        """Write the placements and areas of all rows."""
        seconds = SECONDS_PER_PLACEMENT * self.scores.size
        bounds = pool.free_pieces(len(self.scores), seconds)
        pool.run_pieces(self._write_some, bounds, seconds=seconds, num_threads=num_threads)

    def _write_some(self, _, start, stop):
        """Write the placements and areas of the rows of a piece."""
        n = self.scores.shape[1]
        step = max(1, SORTED_TOGETHER // n)
        buffer = np.empty((min(step, stop - start), n), np.uint64)
        for first in range(start, stop, step):
            pool.checkpoint()
            last = min(first + step, stop)
            keys = buffer[: last - first]
            _write_keys(self.scores, self.positions, self.index_bits, keys, self.dropped, first, last)
            keys.sort(axis=1)
            self._read_keys(keys, self.dropped, first, last)
            for r in first + np.flatnonzero(self.areas[first:last] == UNSORTED):
                row = _sort_slowly(self.scores[r], self.samples[r // self.models], self.index_bits)
                self._read_keys(row[np.newaxis], np.zeros_like(self.dropped), r, r + 1)

    def _read_keys(self, keys, dropped, first, last):
        """Write the placements and areas of rows of sorted keys."""
        rows = (self.scores, self.samples, self.n_positive, self.shares)
        write = _sum_placements if self.shares.shape[1] > 0 else _count_placements
        write(keys, dropped, rows, self.index_bits, self.placements, self.areas, first, last)

    def sum_products(self, num_threads):
        """Return the sums of products of centred placements over each class, shape (E, 2, K, K)."""
        E, n = self.samples.shape
        blocks = min(MOST_BLOCKS, -(-n // LEAST_BLOCK))
        partial = np.empty((E, 2, blocks, self.models, self.models))
        seconds = SECONDS_PER_PLACEMENT_PAIR * self.scores.size * self.models
        given = (self.placements, self.shares, self.n_positive, self.areas, partial)
        pool.run(_sum_products, given, E * 2 * blocks, seconds=seconds, num_threads=num_threads)
        return sum(partial[:, :, block] for block in range(blocks))  # one after another, for any number of models


def auc_covariance(scores, y, weight, *, num_threads=None):
    """Return areas (..., K), covariances (..., K, K), standard errors (..., K) and the status, for scores (..., K, n).

    Labels (..., n) are 1, and 0 or -1; `weight` has their shape, or is None.
    """
    *batch, K, n = scores.shape
    E = math.prod(batch)
    if n > MOST_SCORES:
        msg = f"y_score has {n:,} samples, and at most {MOST_SCORES:,} fit"
        raise OverflowError(msg)
    labels, given = y.reshape(E, n), None if weight is None else weight.reshape(E, n).astype(np.float64)
    positive = labels == 1
    bad = ((labels != 0) & (labels != -1) & ~positive).any(1)
    if given is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            bad |= ~((given >= 0.0).all(1) & (given.sum(1) < np.inf))
    if 0 in scores.shape:
        areas, covariance = np.full((E, K), np.nan), np.full((E, K, K), np.nan)
    else:
        scores = scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)
        rows = _Rows(_freeze(scores.reshape(E * K, n)), _freeze(positive), given, num_threads)
        rows.write_placements(num_threads)
        bad |= (rows.dropped < 0).reshape(E, K).any(1)
        both = np.stack([positive, ~positive], 1)
        size = np.count_nonzero(both if given is None else both & (given > 0.0)[:, np.newaxis], 2).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = 1.0 / (size * (size - 1.0)) if given is None else size / (size - 1.0)
            covariance = (rows.sum_products(num_threads) * factor[:, :, np.newaxis, np.newaxis]).sum(1)
        areas = rows.areas.reshape(E, K)
    areas[bad], covariance[bad] = np.nan, np.nan
    status = np.where(bad, np.int8(INVALID), np.int8(OK)).reshape(batch)
    errors = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    return areas.reshape(*batch, K), covariance.reshape(*batch, K, K), errors.reshape(*batch, K), status


def _freeze(x):
    """Return a contiguous read-only array: kernels are compiled for these alone."""
    out = np.ascontiguousarray(x).view()
    out.setflags(write=False)
    return out
