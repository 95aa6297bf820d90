"""Prediction sets of rows of many classes with one threshold for all labels: eight rows at a time, one per SIMD lane.

If the mass above a pivot probability exceeds the largest threshold, labels below the pivot are in no set and are not
sorted. A set is the labels down to a cut probability, and of ties at the cut the first ones, so its bits are
comparisons with the cut. Sums are float64, as for few classes (``_few_classes``). Sets by SAPS or top-k scores have a
number of labels that follows from the largest probability. Their cuts are sought between two pivots, which are moved
towards each other until few labels are between them; only these are sorted.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    bits,
    largest,
    load,
    load_row,
    maximum,
    new_lines,
    pack,
    some,
    splat,
    store,
    total,
    where,
)
from cmfast.kernels.cpu.conformal import _few_classes, _ranking, _single_row, _sorting_network
from cmfast.kernels.cpu.conformal._fixed_point import (
    LEAST_SHARE,
    MOST_SHARE,
    SCORE_UNIT,
    WHOLE_UNITS,
    clamp_share,
    is_share,
)
from cmfast.kernels.cpu.conformal._strided_rows import ProbabilityRows, locate_eight_rows
from cmfast.kernels.shared.conformal import BITS_PER_WORD, SAPS, UNITS, ScoreRule
from cmfast.kernels.status import OK

PIVOT_SHARES = (1.0, 4.0, 8.0)  # tried pivots, as multiples of the mean mass per label outside the largest set
SUM_ERROR = 2.0**-50  # most rounding error of a sum of probabilities, per label
RANK_PIVOT_SHARES = (0.06, 0.25, 1.0, 4.0)  # the same, as multiples of the mean probability, for sets by rank
FEW_IN_WINDOW = 48.0  # labels between two pivots that no cut needs, and are sorted rather than tried to be less
MOST_TURNS = 6  # of moving pivots
LEAST_GAIN = 0.75  # stop if a turn leaves more than this share of the labels between the pivots
OCTAVES_BELOW = 2.0**-8  # lowest pivot tried, as a share of the upper one, if there is no lower one
MOST_PICKED_SHARE = 0.6  # of the labels; if more are above the pivot, all are sorted, because picking takes time too


class EightRows(NamedTuple):
    """Workspace for eight rows of many classes.

    Attributes
    ----------
    kept, found : array of float64, shape (C, 8), in whole eights of lines
        Probabilities above the pivot, sorted; and their scores.
    words, above : array of int64, shape (8, words) and (words,)
        Bits of the labels from the pivot on; and of those of one row from the upper pivot on.
    draws, fulls : array of float64, shape (1, 8)
        Random draws; score of the last label with a draw of 1.
    cuts, sizes : array of float64, shape (A, 8)
        Cut probability of each set, and before it is known the pivot in the first line; number of labels in the set.
    limits : array of float64, shape (A + 2, 8)
        Thresholds, then the largest one that excludes any label; by rank: the numbers of labels in the sets, and the
        largest and the least of those that are neither 0 nor all; 0 if none is.
    tops : array of float64, shape (1, 8)
        Largest probability.
    highs, skipped : array of float64, shape (1, 8)
        By rank: a probability above the cuts of all sets, and the number of labels from it on.
    flags : array of float64, shape (2, 8)
        Rows that take the general path (1), and row sums.
    batch, place, groups, rows : array of int64, shape (8,)
        Batch element, row within it, group of thresholds, and storage index of the row.
    ranking : Ranking
        Workspace of rows that take the general path.
    """

    kept: Any
    found: Any
    words: Any
    above: Any
    draws: Any
    fulls: Any
    cuts: Any
    sizes: Any
    limits: Any
    tops: Any
    highs: Any
    skipped: Any
    flags: Any
    batch: Any
    place: Any
    groups: Any
    rows: Any
    ranking: Any


@jit(inner=True, inline=True)
def _new_eight_rows(C, words, A):
    """Allocate the workspace."""
    depth = -(-C // WIDTH) * WIDTH
    return EightRows(
        new_lines(depth), new_lines(depth), np.empty((WIDTH, words), np.int64), np.empty(words, np.int64),
        new_lines(1), new_lines(1), new_lines(max(A, 1)), new_lines(max(A, 1)), new_lines(A + 2),
        new_lines(1), new_lines(1), new_lines(1), new_lines(2),
        np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64),
        _ranking.new_ranking(C),
    )  # fmt: skip


@jit(inner=True, inline=True, borrows=True)
def _locate_rows(eight, groups, first, count, n, n_groups):
    """Write batch element, row and group of each lane, and flag rows whose group is out of range."""
    b, i = first // n, first % n
    for w in range(count):
        g = groups[eight.rows[w]] if len(groups) else 0
        eight.batch[w], eight.place[w], eight.groups[w] = b, i, g
        if not 0 <= g < n_groups:
            eight.flags[0, w] = 1.0
        i += 1
        if i == n:
            b, i = b + 1, 0


@jit(inner=True, inline=True, borrows=True)
def _select_last_labels(C):
    """Return a mask of the last C % 8 of the last eight labels: the others belong to the eight labels before."""
    return pack(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0) >= splat(np.float64(WIDTH - C % WIDTH))


@jit(inner=True, inline=True, borrows=True)
def _measure_row(P, r):
    """Return the sum of a row's probabilities, the largest one, and whether all are in [0, 1].

    Sums of multiples of 2^-52 below 2 are exact in any order; NaN shows in the sum.
    """
    C, zero, one = P.shape[1], splat(0.0), splat(1.0)
    sum_, low, high = zero, zero, zero
    for j in range(0, C - WIDTH + 1, WIDTH):
        p = load_row(P, r, j)
        low, high = where(p < low, p, low), where(p > high, p, high)
        sum_ = sum_ + ((one + p) - one)
    if C % WIDTH:
        p = load_row(P, r, C - WIDTH)
        low, high = where(p < low, p, low), where(p > high, p, high)
        sum_ = sum_ + where(_select_last_labels(C), (one + p) - one, zero)
    whole = total(sum_)
    return whole, largest(high), not some((low < zero) | (high > one)) and whole < np.inf


@jit(inner=True, borrows=True)
def _measure_clamped_row(P, r):
    """Return the sum of a row's clamped probabilities, the largest one, and whether all are valid."""
    whole, most, good = 0.0, 0.0, True
    for j in range(P.shape[1]):
        good = good and LEAST_SHARE <= P[r, j] <= MOST_SHARE
        p = clamp_share(P[r, j])
        whole += (1.0 + p) - 1.0
        most = max(most, p)
    return whole, most, good


@jit(inner=True, inline=True, borrows=True)
def _measure_rows(P, draws, count, eight):
    """Write draws, sums and largest probabilities of all rows, and flag rows that take the general path."""
    for w in range(WIDTH):
        r = eight.rows[w]  # after `count` rows the last one again
        draw = draws[r] if len(draws) else 1.0
        whole, most, good = _measure_row(P, r)
        if not good:
            whole, most, good = _measure_clamped_row(P, r)
        good = good and is_share(draw) and whole <= _few_classes.MOST_FLOAT_TOTAL and w < count
        eight.draws[0, w], eight.tops[0, w], eight.flags[1, w] = draw, most, whole
        eight.flags[0, w] = 0.0 if good else 1.0


@jit(inner=True, inline=True, borrows=True)
def _load_thresholds(eight, q, C, penalty, k_reg):
    """Write each row's thresholds, the score of its last label, and the largest threshold that excludes any label."""
    A = q.shape[1]
    for w in range(WIDTH):
        if eight.flags[0, w] != 0.0:
            continue
        full = (
            np.float64(min(np.int64(eight.flags[1, w] * UNITS), WHOLE_UNITS) + penalty * max(0, C - k_reg)) * SCORE_UNIT
        )
        b, g, most = eight.batch[w], eight.groups[w], -np.inf
        for a in range(A):
            limit = q[b, a, g, 0]
            eight.limits[a, w] = limit
            if limit < full:
                most = max(most, limit)
        # Sums are capped at one, so thresholds from one on, which penalties can reach, do not allow a pivot.
        eight.fulls[0, w], eight.limits[A, w] = full, most if most < 1.0 else np.inf


@jit(inner=True, inline=True, borrows=True)
def _find_pivot(P, r, whole, limit):
    """Return a probability below which every label scores above the threshold `limit`; 0 if none is found.

    `whole` is the sum of the row.
    """
    C, zero = P.shape[1], splat(0.0)
    whole -= SUM_ERROR * C  # below pivots, probabilities are summed without rounding
    unit = (whole - limit) / C
    first, second, third = splat(PIVOT_SHARES[0] * unit), splat(PIVOT_SHARES[1] * unit), splat(PIVOT_SHARES[2] * unit)
    x, y, z = zero, zero, zero
    for j in range(0, C - WIDTH + 1, WIDTH):
        p = maximum(load_row(P, r, j), zero)  # rounding errors below 0 count as 0
        x = x + where(p < first, p, zero)
        y = y + where(p < second, p, zero)
        z = z + where(p < third, p, zero)
    if C % WIDTH:
        p = where(_select_last_labels(C), maximum(load_row(P, r, C - WIDTH), zero), zero)
        x = x + where(p < first, p, zero)
        y = y + where(p < second, p, zero)
        z = z + where(p < third, p, zero)
    pivot = 0.0
    if whole - total(x) > limit:
        pivot = PIVOT_SHARES[0] * unit
    if whole - total(y) > limit:
        pivot = PIVOT_SHARES[1] * unit
    if whole - total(z) > limit:
        pivot = PIVOT_SHARES[2] * unit
    return max(pivot, 0.0)


@jit(inner=True, inline=True, borrows=True)
def _count_by_rank(eight, q, C, rule):
    """Write the number of labels in each set by SAPS or top-k scores, and the largest and least that need a cut."""
    A = q.shape[1]
    for w in range(WIDTH):
        if eight.flags[0, w] != 0.0:
            continue
        b, g, most, least = eight.batch[w], eight.groups[w], 0, C
        for a in range(A):
            size = _single_row.count_ranks_included(
                C, q[b, a, g, 0], eight.tops[0, w], eight.draws[0, w], rule.method, rule.penalty
            )
            eight.limits[a, w] = np.float64(size)
            if 0 < size < C:
                most, least = max(most, size), min(least, size)
        eight.limits[A, w], eight.limits[A + 1, w] = np.float64(most), np.float64(min(most, least))


@jit(inner=True, inline=True, borrows=True)
def _count_from_pivots(P, r, pivots):
    """Return the numbers of labels with at least the probability of each of four pivots."""
    C, zero, one = P.shape[1], splat(0.0), splat(1.0)
    least = -1.0  # instead of 0: rounding errors below 0 count as 0
    first, second = splat(pivots[0] if pivots[0] > 0.0 else least), splat(pivots[1] if pivots[1] > 0.0 else least)
    third, fourth = splat(pivots[2] if pivots[2] > 0.0 else least), splat(pivots[3] if pivots[3] > 0.0 else least)
    x, y, z, v = zero, zero, zero, zero
    for j in range(0, C - WIDTH + 1, WIDTH):
        p = load_row(P, r, j)
        x = x + where(p >= first, one, zero)
        y = y + where(p >= second, one, zero)
        z = z + where(p >= third, one, zero)
        v = v + where(p >= fourth, one, zero)
    if C % WIDTH:
        p = where(_select_last_labels(C), load_row(P, r, C - WIDTH), splat(2.0 * least))
        x = x + where(p >= first, one, zero)
        y = y + where(p >= second, one, zero)
        z = z + where(p >= third, one, zero)
        v = v + where(p >= fourth, one, zero)
    return total(x), total(y), total(z), total(v)


@jit(inner=True, inline=True, borrows=True)
def _find_window(P, r, eight, w, A):
    """Write two pivots for row `r`, between which all its cuts by rank are: `cuts`, the lower, `highs`; and `skipped`.

    From the lower one on there are enough labels for the largest set, and from the upper one on fewer than in the
    least. Pivots at equal ratios between both replace them until few labels are between them.
    """
    C, most, least = P.shape[1], eight.limits[A, w], eight.limits[A + 1, w]
    low, high, held, above = 0.0, np.inf, float(C), 0.0
    if most == 0.0:
        low, held = np.inf, 0.0
    unit = eight.flags[1, w] / C
    shares = RANK_PIVOT_SHARES
    pivots = shares[0] * unit, shares[1] * unit, shares[2] * unit, shares[3] * unit
    for _ in range(MOST_TURNS):
        before = held - above
        numbers = _count_from_pivots(P, r, pivots)
        for k in range(4):
            if numbers[k] >= most and pivots[k] > low:
                low, held = pivots[k], numbers[k]
            if numbers[k] < least and pivots[k] < high:
                high, above = pivots[k], numbers[k]
        window = held - above
        if window - (most - least) <= FEW_IN_WINDOW or window > LEAST_GAIN * before:
            break
        top = high if high < np.inf else eight.tops[0, w]
        first = low if low > 0.0 else OCTAVES_BELOW * top
        third = math.sqrt(first * top)
        pivots = first, math.sqrt(first * third), third, math.sqrt(third * top)
    eight.cuts[0, w], eight.highs[0, w], eight.skipped[0, w] = low, high, above


@jit(inner=True, inline=True, borrows=True)
def _cut_by_rank(eight, a, C):
    """Write the number of labels in the sets of threshold `a`, and their least probability."""
    for w in range(WIDTH):
        if eight.flags[0, w] == 0.0:
            size = np.int64(eight.limits[a, w])
            eight.sizes[a, w] = np.float64(size)
            place = size - 1 - np.int64(eight.skipped[0, w])
            eight.cuts[a, w] = -1.0 if size == C else np.inf if size == 0 else eight.kept[place, w]


@jit(inner=True, inline=True, borrows=True)
def _write_bits(P, r, cut, words):
    """Write the bits of the labels of row `r` with probability >= cut to `words`; return their number.

    Eight labels are a byte, from one comparison. Of the last C % 8, the last eight labels are compared.
    """
    limit, C, found = splat(cut if cut > 0.0 else -1.0), P.shape[1], 0  # rounding errors below 0 count as 0
    full = C // WIDTH * WIDTH
    for k in range(full // BITS_PER_WORD):
        word, first = 0, BITS_PER_WORD * k
        for j in range(0, BITS_PER_WORD, WIDTH):  # unrolled
            word |= bits(load_row(P, r, first + j) >= limit) << j
        words[k] = word
        found += popcount(word)
    word, first = 0, full // BITS_PER_WORD * BITS_PER_WORD
    if first < C:
        for j in range(0, full - first, WIDTH):
            word |= bits(load_row(P, r, first + j) >= limit) << j
        if full < C:
            word |= bits(load_row(P, r, C - WIDTH) >= limit) >> (full + WIDTH - C) << (full - first)
        words[first // BITS_PER_WORD] = word
        found += popcount(word)
    return found


@jit(inner=True, inline=True, borrows=True)
def _write_bits_twice(P, r, cuts, words, others):
    """Write the bits of ``_write_bits`` for two cuts, which share the loads; return both numbers of labels."""
    limit, other = splat(cuts[0] if cuts[0] > 0.0 else -1.0), splat(cuts[1] if cuts[1] > 0.0 else -1.0)
    C, found, found_by_other = P.shape[1], 0, 0
    full = C // WIDTH * WIDTH
    for k in range(full // BITS_PER_WORD):
        word, second, first = 0, 0, BITS_PER_WORD * k
        for j in range(0, BITS_PER_WORD, WIDTH):  # unrolled
            p = load_row(P, r, first + j)
            word |= bits(p >= limit) << j
            second |= bits(p >= other) << j
        words[k], others[k] = word, second
        found += popcount(word)
        found_by_other += popcount(second)
    word, second, first = 0, 0, full // BITS_PER_WORD * BITS_PER_WORD
    if first < C:
        for j in range(0, full - first, WIDTH):
            p = load_row(P, r, first + j)
            word |= bits(p >= limit) << j
            second |= bits(p >= other) << j
        if full < C:
            p = load_row(P, r, C - WIDTH)
            word |= bits(p >= limit) >> (full + WIDTH - C) << (full - first)
            second |= bits(p >= other) >> (full + WIDTH - C) << (full - first)
        words[first // BITS_PER_WORD], others[first // BITS_PER_WORD] = word, second
        found += popcount(word)
        found_by_other += popcount(second)
    return found, found_by_other


@jit(inner=True, inline=True, borrows=True)
def _compact_labels(P, eight, by_rank):
    """Compact the labels above the pivot, `by_rank` between both, to `kept`; return the largest number in a row.

    Lines are padded with zeros. If most labels are picked, all are, and none is above.
    """
    kept, words, above, C, most = eight.kept, eight.words, eight.above, P.shape[1], 0
    for w in range(WIDTH):
        if eight.flags[0, w] == 0.0:
            if by_rank and eight.highs[0, w] < np.inf:
                pivots = eight.cuts[0, w], eight.highs[0, w]
                found, found_above = _write_bits_twice(P, eight.rows[w], pivots, words[w], above)
                found -= found_above
                for k in range(len(above)):
                    words[w, k] ^= above[k]
            else:
                found = _write_bits(P, eight.rows[w], eight.cuts[0, w], words[w])
            most = max(most, found)
    if most > MOST_PICKED_SHARE * C:
        most = C
        store(eight.skipped, 0, splat(0.0))
        _few_classes.load_rows(P, eight.rows, kept)
        for j in range(C, len(kept)):
            store(kept, j, splat(0.0))
    else:
        for j in range(-(-most // WIDTH) * WIDTH):
            store(kept, j, splat(0.0))
        for w in range(WIDTH):
            if eight.flags[0, w] == 0.0:
                _copy_labels(P, eight.rows[w], words[w], kept[:, w])
    for j in range(most):
        p = load(kept, j)
        store(kept, j, where(p > splat(0.0), where(p > splat(1.0), splat(1.0), p), splat(0.0)))
    return most


@jit(inner=True, inline=True, borrows=True)
def _copy_labels(P, r, words, out):
    """Copy the probabilities of the labels of row `r` whose bits are set."""
    size = 0
    for k in range(len(words)):
        word, first = words[k], BITS_PER_WORD * k
        while word:
            lowest = word & -word
            out[size] = P[r, first + popcount(lowest - 1)]
            size += 1
            word ^= lowest


@jit(inner=True, inline=True, borrows=True)
def _score_sorted(kept, most, draws, penalty, k_reg, out):
    """Write the scores of sorted labels: mass before each plus its drawn share, capped at one, plus penalty."""
    one, draw, before = splat(1.0), load(draws, 0), splat(0.0)
    for k in range(most):
        p = load(kept, k)
        whole = before + ((one + draw * p) - one)
        beyond = penalty * max(0, k + 1 - k_reg)
        is_exact = beyond <= _few_classes.MOST_EXACT_PENALTY
        store(out, k, where(whole > one, one, whole) + splat(np.float64(beyond) * SCORE_UNIT if is_exact else 0.0))
        before = before + ((one + p) - one)
        if not is_exact:
            for w in range(WIDTH):
                out[k, w] = np.float64(np.int64(out[k, w] * UNITS) + beyond) * SCORE_UNIT


@jit(inner=True, inline=True, borrows=True)
def _find_cut(eight, a, most, C):
    """Write the number of labels in the sets of threshold `a` and their least probability; scores never decrease."""
    zero, one, limit = splat(0.0), splat(1.0), load(eight.limits, a)
    size, cut, full = zero, splat(np.inf), splat(np.float64(C))
    for k in range(most):
        excluded = load(eight.found, k) > limit
        if not some(~excluded):
            break
        size = size + where(excluded, zero, one)
        cut = where(excluded, cut, load(eight.kept, k))
    is_less = limit < load(eight.fulls, 0)  # false for NaN
    store(eight.sizes, a, where(is_less, size, full))
    store(eight.cuts, a, where(is_less, cut, splat(-1.0)))


@jit(inner=True, inline=True, borrows=True)
def _fill_empty(P, count, eight, a):
    """Give empty sets of threshold `a` their row's top label."""
    for w in range(count):
        if eight.sizes[a, w] == 0.0:
            row = P[eight.rows[w]]
            eight.sizes[a, w], eight.cuts[a, w] = 1.0, clamp_share(row[_single_row.find_top_label(row)])


@jit(inner=True, inline=True, borrows=True)
def _remove_last_ties(P, r, cut, extra, words):
    """Remove the last `extra` labels of a tie at the cut from the words of a row's set."""
    j = P.shape[1] - 1
    while extra > 0:
        if clamp_share(P[r, j]) == cut:
            words[j >> 6] ^= np.int64(1) << (j & 63)
            extra -= 1
        j -= 1


@jit(inner=True, inline=True, borrows=True)
def _write_set(P, eight, a, w, A, out):
    """Write the words and the size of the set of threshold `a` of the row in lane `w`."""
    r, i, e, cut, size = eight.rows[w], eight.place[w], eight.batch[w] * A + a, eight.cuts[a, w], eight.sizes[a, w]
    words = out.words[e, i]
    _remove_last_ties(P, r, cut, _write_bits(P, r, cut, words) - np.int64(size), words)
    out.sizes[e, i] = np.int64(size)


@jit(inner=True, inline=True, borrows=True)
def _write_two_sets(P, eight, a, w, A, out):
    """Write the sets of thresholds `a` and `a + 1` of the row in lane `w`, which share the loads of probabilities."""
    r, i, e, cuts = eight.rows[w], eight.place[w], eight.batch[w] * A + a, (eight.cuts[a, w], eight.cuts[a + 1, w])
    size, other = np.int64(eight.sizes[a, w]), np.int64(eight.sizes[a + 1, w])
    words, others = out.words[e, i], out.words[e + 1, i]
    found, found_by_other = _write_bits_twice(P, r, cuts, words, others)
    _remove_last_ties(P, r, cuts[0], found - size, words)
    _remove_last_ties(P, r, cuts[1], found_by_other - other, others)
    out.sizes[e, i] = size
    out.sizes[e + 1, i] = other


@jit()
def fill_sets_many_classes(rows, q, rule, top1, out, start, stop):
    """Fill the prediction sets of rows `start` to `stop` of many classes; `q` is (batch, alpha, group, 1)."""
    rows, rule, out = ProbabilityRows(*rows), ScoreRule(*rule), _single_row.SetResults(*out)
    eight = _new_eight_rows(rows.P.shape[1], out.words.shape[2], q.shape[1])
    for first in range(start, stop, WIDTH):
        _fill_eight_rows(rows, q, rule, top1, eight, out, first, min(WIDTH, stop - first))


@jit(inner=True, inline=True, borrows=True)
def _fill_eight_rows(rows, q, rule, top1, eight, out, first, count):
    """Fill the sets of `count` rows, at most eight, from row `first` on."""
    P, A, C, penalty, k_reg = rows.P, q.shape[1], rows.P.shape[1], rule.penalty, rule.k_reg
    locate_eight_rows(first, count, rows.n, rows.step, eight.rows)
    _measure_rows(P, rows.draws, count, eight)
    _locate_rows(eight, rows.groups, first, count, rows.n, q.shape[2])
    for w in range(count):
        out.status[first + w] = OK
        if eight.flags[0, w] != 0.0:
            _single_row.fill_sets(rows, first + w, q, rule, top1, eight.ranking, out)
    by_rank = rule.method >= SAPS
    if by_rank:
        _count_by_rank(eight, q, C, rule)
    else:
        _load_thresholds(eight, q, C, penalty, k_reg)
    for w in range(WIDTH):
        if eight.flags[0, w] != 0.0:
            continue
        if by_rank:
            _find_window(P, eight.rows[w], eight, w, A)
        else:
            eight.cuts[0, w] = _find_pivot(P, eight.rows[w], eight.flags[1, w], eight.limits[A, w])
    most = _compact_labels(P, eight, by_rank)
    _sorting_network.sort_lanes(eight.kept, -(-most // WIDTH) * WIDTH)
    if not by_rank:
        _score_sorted(eight.kept, most, eight.draws, penalty, k_reg, eight.found)
    for a in range(A):
        if by_rank:
            _cut_by_rank(eight, a, C)
        else:
            _find_cut(eight, a, most, C)
        if top1:
            _fill_empty(P, count, eight, a)
    for a in range(0, A, 2):
        for w in range(count):
            if eight.flags[0, w] == 0.0:
                if a + 1 < A:
                    _write_two_sets(P, eight, a, w, A, out)
                else:
                    _write_set(P, eight, a, w, A, out)
