"""Prediction sets of rows of many classes with one threshold for all labels: eight rows at a time, one per SIMD lane.

If the mass above a pivot probability exceeds the largest threshold, labels below the pivot are in no set and are not
sorted. A set is the labels down to a cut probability, and of ties at the cut the first ones, so its bits are
comparisons with the cut. Sums are float64, as for few classes (``_few_classes``). Sets by SAPS or top-k scores have a
number of labels that follows from the largest probability. Their cuts are sought between two pivots, which are moved
towards each other until few labels are between them; only these are sorted.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, new_lines, some, splat, sqrt, store, total, where
from cmfast.kernels.cpu.conformal import _few_classes, _ranking, _single_row, _sorting_network
from cmfast.kernels.cpu.conformal._fixed_point import SCORE_UNIT, WHOLE_UNITS, clamp_share
from cmfast.kernels.cpu.conformal._strided_rows import ProbabilityRows, locate_eight_rows
from cmfast.kernels.shared.conformal import SAPS, UNITS, ScoreRule
from cmfast.kernels.status import OK

HALF_WORD_BITS = 32  # bits of a word that are accumulated as one float64
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
    tile, kept, found : array of float64, shape (C, 8), in whole eights of lines
        All probabilities; those above the pivot, sorted; and the scores of the latter.
    halves : array of float64, shape (2 * words, 8)
        Bits of all labels, by halves of words.
    words : array of int64, shape (8, words)
        Bits of the labels above the pivot.
    draws, fulls, cuts, sizes : array of float64, shape (1, 8)
        Random draws; score of the last label with a draw of 1; cut probability of a set; number of labels in it.
    limits : array of float64, shape (A + 2, 8)
        Thresholds, then the largest one that excludes any label; by rank: the numbers of labels in the sets, and the
        largest and the least of those that are neither 0 nor all; 0 if none is.
    highs, skipped : array of float64, shape (1, 8)
        By rank: a probability above the cuts of all sets, and the number of labels from it on.
    flags : array of float64, shape (2, 8)
        Rows that take the general path (1), and row sums.
    batch, place, groups, rows : array of int64, shape (8,)
        Batch element, row within it, group of thresholds, and storage index of the row.
    ranking : Ranking
        Workspace of rows that take the general path.
    """

    tile: Any
    kept: Any
    found: Any
    halves: Any
    words: Any
    draws: Any
    fulls: Any
    cuts: Any
    sizes: Any
    limits: Any
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
        new_lines(C), new_lines(depth), new_lines(depth), new_lines(2 * words), np.empty((WIDTH, words), np.int64),
        new_lines(1), new_lines(1), new_lines(1), new_lines(1), new_lines(A + 2), new_lines(1), new_lines(1),
        new_lines(2),
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
def _load_thresholds(eight, q, count, penalty, k_reg):
    """Write each row's thresholds, the score of its last label, and the largest threshold that excludes any label."""
    A, C = q.shape[1], len(eight.tile)
    for w in range(count):
        full = (
            np.float64(min(np.int64(eight.flags[1, w] * UNITS), WHOLE_UNITS) + penalty * max(0, C - k_reg)) * SCORE_UNIT
        )
        b, g, most = eight.batch[w], eight.groups[w] if eight.flags[0, w] == 0.0 else 0, -np.inf
        for a in range(A):
            limit = q[b, a, g, 0]
            eight.limits[a, w] = limit
            if limit < full:
                most = max(most, limit)
        # Sums are capped at one, so thresholds from one on, which penalties can reach, do not allow a pivot.
        eight.fulls[0, w], eight.limits[A, w] = full, most if most < 1.0 else np.inf


@jit(inner=True, inline=True, borrows=True)
def _find_pivot(tile, flags, limits, a, out):
    """Write a probability per row below which every label scores above the largest threshold; 0 if none is found."""
    zero, limit = splat(0.0), load(limits, a)
    total = load(flags, 1) - splat(SUM_ERROR * len(tile))  # below pivots, probabilities are summed without rounding
    unit = (total - limit) * splat(1.0 / len(tile))
    first, second, third = splat(PIVOT_SHARES[0]) * unit, splat(PIVOT_SHARES[1]) * unit, splat(PIVOT_SHARES[2]) * unit
    x, y, z = zero, zero, zero
    for j in range(len(tile)):
        p = load(tile, j)
        x = x + where(p < first, p, zero)
        y = y + where(p < second, p, zero)
        z = z + where(p < third, p, zero)
    pivot = where(total - x > limit, first, zero)
    pivot = where(total - y > limit, second, pivot)
    pivot = where(total - z > limit, third, pivot)
    store(out, 0, where(pivot > zero, pivot, zero))


@jit(inner=True, inline=True, borrows=True)
def _count_by_rank(eight, q, count, rule):
    """Write the number of labels in each set by SAPS or top-k scores, and the largest and least that need a cut."""
    A, C, largest = q.shape[1], len(eight.tile), splat(0.0)
    for j in range(C):
        p = load(eight.tile, j)
        largest = where(p > largest, p, largest)
    store(eight.fulls, 0, largest)
    store(eight.limits, A, splat(0.0))
    store(eight.limits, A + 1, splat(0.0))
    for w in range(count):
        b, g, most, least = eight.batch[w], eight.groups[w], 0, C
        if eight.flags[0, w] != 0.0:
            continue
        for a in range(A):
            size = _single_row.count_ranks_included(
                C, q[b, a, g, 0], eight.fulls[0, w], eight.draws[0, w], rule.method, rule.penalty
            )
            eight.limits[a, w] = np.float64(size)
            if 0 < size < C:
                most, least = max(most, size), min(least, size)
        eight.limits[A, w], eight.limits[A + 1, w] = np.float64(most), np.float64(min(most, least))


@jit(inner=True, inline=True)
def _raise_pivot(pivot, number, most, low, held):
    """Return the higher of two pivots with at least `most` labels from it on, and the number of these labels."""
    fits = (number >= most) & (pivot > low)
    return where(fits, pivot, low), where(fits, number, held)


@jit(inner=True, inline=True)
def _lower_pivot(pivot, number, least, high, above):
    """Return the lower of two pivots with less than `least` labels from it on, and the number of these labels."""
    fits = (number < least) & (pivot < high)
    return where(fits, pivot, high), where(fits, number, above)


@jit(inner=True, inline=True, borrows=True)
def _find_window(eight, A):
    """Write two pivots for each row, between which all cuts by rank are: `cuts`, the lower, and `highs`; and `skipped`.

    From the lower one on there are enough labels for the largest set, and from the upper one on fewer than in the
    least. Pivots at equal ratios between both replace them until few labels are between them.
    """
    tile, C = eight.tile, len(eight.tile)
    zero, one, infinity = splat(0.0), splat(1.0), splat(np.inf)
    most, least = load(eight.limits, A), load(eight.limits, A + 1)
    low, high, above = where(most > zero, zero, infinity), infinity, zero
    held = where(most > zero, splat(np.float64(C)), zero)
    unit = load(eight.flags, 1) * splat(1.0 / C)
    first, second = splat(RANK_PIVOT_SHARES[0]) * unit, splat(RANK_PIVOT_SHARES[1]) * unit
    third, fourth = splat(RANK_PIVOT_SHARES[2]) * unit, splat(RANK_PIVOT_SHARES[3]) * unit
    for _ in range(MOST_TURNS):
        before = held - above
        x, y, z, v = zero, zero, zero, zero
        for j in range(C):
            p = load(tile, j)
            x = x + where(p >= first, one, zero)
            y = y + where(p >= second, one, zero)
            z = z + where(p >= third, one, zero)
            v = v + where(p >= fourth, one, zero)
        low, held = _raise_pivot(first, x, most, low, held)
        low, held = _raise_pivot(second, y, most, low, held)
        low, held = _raise_pivot(third, z, most, low, held)
        low, held = _raise_pivot(fourth, v, most, low, held)
        high, above = _lower_pivot(fourth, v, least, high, above)
        high, above = _lower_pivot(third, z, least, high, above)
        high, above = _lower_pivot(second, y, least, high, above)
        high, above = _lower_pivot(first, x, least, high, above)
        window = held - above
        spare = window - (most - least)
        if not some(spare > splat(FEW_IN_WINDOW)) or total(window) > LEAST_GAIN * total(before):
            break
        top = where(high < infinity, high, load(eight.fulls, 0))
        first = where(low > zero, low, splat(OCTAVES_BELOW) * top)
        third = sqrt(first * top)
        second, fourth = sqrt(first * third), sqrt(third * top)
    store(eight.cuts, 0, low)
    store(eight.highs, 0, high)
    store(eight.skipped, 0, above)


@jit(inner=True, inline=True, borrows=True)
def _cut_by_rank(eight, a, count):
    """Write the number of labels in the sets of threshold `a`, and their least probability."""
    C = len(eight.tile)
    for w in range(count):
        if eight.flags[0, w] == 0.0:
            size = np.int64(eight.limits[a, w])
            eight.sizes[0, w] = np.float64(size)
            place = size - 1 - np.int64(eight.skipped[0, w])
            eight.cuts[0, w] = -1.0 if size == C else np.inf if size == 0 else eight.kept[place, w]


@jit(inner=True, inline=True, borrows=True)
def _write_bits(tile, cuts, halves):
    """Write the bits of labels with probability >= cut, as half words in float64."""
    zero, cut, C = splat(0.0), load(cuts, 0), len(tile)
    for h in range(len(halves)):
        word, bit = zero, splat(1.0)
        for j in range(HALF_WORD_BITS * h, min(HALF_WORD_BITS * (h + 1), C)):
            word = word + where(load(tile, j) >= cut, bit, zero)
            bit = bit + bit
        store(halves, h, word)


@jit(inner=True, inline=True, borrows=True)
def _write_bits_between(tile, lows, highs, halves):
    """Write the bits of labels with low <= probability < high, as half words in float64."""
    zero, low, high, C = splat(0.0), load(lows, 0), load(highs, 0), len(tile)
    for h in range(len(halves)):
        word, bit = zero, splat(1.0)
        for j in range(HALF_WORD_BITS * h, min(HALF_WORD_BITS * (h + 1), C)):
            p = load(tile, j)
            word = word + where((p >= low) & (p < high), bit, zero)
            bit = bit + bit
        store(halves, h, word)


@jit(inner=True, inline=True, borrows=True)
def _join_half_words(halves, w, words):
    """Join the half words of row `w` to 64-bit words; return the number of set bits."""
    found = 0
    for k in range(len(words)):
        words[k] = np.int64(halves[2 * k, w]) | np.int64(halves[2 * k + 1, w]) << HALF_WORD_BITS
        found += popcount(words[k])
    return found


@jit(inner=True, inline=True, borrows=True)
def _compact_labels(count, eight, by_rank):
    """Compact the labels above the pivot, `by_rank` between both, to `kept`; return the largest number in a row.

    Lines are padded with zeros. If most labels are picked, all are, and none is above.
    """
    tile, kept, words, C, most = eight.tile, eight.kept, eight.words, len(eight.tile), 0
    if by_rank:
        _write_bits_between(tile, eight.cuts, eight.highs, eight.halves)
    else:
        _write_bits(tile, eight.cuts, eight.halves)
    for w in range(count):
        if eight.flags[0, w] == 0.0:
            most = max(most, _join_half_words(eight.halves, w, words[w]))
    if most > MOST_PICKED_SHARE * C:
        store(eight.skipped, 0, splat(0.0))
        for j in range(C):
            store(kept, j, load(tile, j))
        for j in range(C, len(kept)):
            store(kept, j, splat(0.0))
        return C
    for j in range(-(-most // WIDTH) * WIDTH):
        store(kept, j, splat(0.0))
    for w in range(count):
        size = 0
        for k in range(words.shape[1] if eight.flags[0, w] == 0.0 else 0):
            word, j = words[w, k], 64 * k
            while word:
                lowest = word & -word
                kept[size, w] = tile[j + popcount(lowest - 1), w]
                size += 1
                word ^= lowest
    return most


@jit(inner=True, inline=True, borrows=True)
def _score_sorted(kept, most, draws, penalty, k_reg, out):
    """Write the scores of sorted labels: mass before each plus its drawn share, capped at one, plus penalty."""
    one, draw, before = splat(1.0), load(draws, 0), splat(0.0)
    for k in range(most):
        p = load(kept, k)
        whole = before + ((one + draw * p) - one)
        store(out, k, where(whole > one, one, whole))
        before = before + ((one + p) - one)
        beyond = penalty * max(0, k + 1 - k_reg)
        if beyond > 0:
            for w in range(WIDTH):
                out[k, w] = np.float64(np.int64(out[k, w] * UNITS) + beyond) * SCORE_UNIT


@jit(inner=True, inline=True, borrows=True)
def _find_cut(eight, a, most):
    """Write the number of labels in the sets of threshold `a` and their least probability; scores never decrease."""
    zero, one, limit = splat(0.0), splat(1.0), load(eight.limits, a)
    size, cut, full = zero, splat(np.inf), splat(np.float64(len(eight.tile)))
    for k in range(most):
        excluded = load(eight.found, k) > limit
        if not some(~excluded):
            break
        size = size + where(excluded, zero, one)
        cut = where(excluded, cut, load(eight.kept, k))
    is_less = limit < load(eight.fulls, 0)  # false for NaN
    store(eight.sizes, 0, where(is_less, size, full))
    store(eight.cuts, 0, where(is_less, cut, splat(-1.0)))


@jit(inner=True, inline=True, borrows=True)
def _fill_empty(P, count, eight):
    """Give empty sets their row's top label."""
    for w in range(count):
        if eight.sizes[0, w] == 0.0:
            row = P[eight.rows[w]]
            eight.sizes[0, w], eight.cuts[0, w] = 1.0, clamp_share(row[_single_row.find_top_label(row)])


@jit(inner=True, inline=True, borrows=True)
def _write_set(row, halves, w, cut, size, words):
    """Write the words of a row's set, removing the last labels of a tie at the cut if they exceed `size`."""
    extra, j = _join_half_words(halves, w, words) - size, len(row) - 1
    while extra > 0:
        if clamp_share(row[j]) == cut:
            words[j >> 6] ^= np.int64(1) << (j & 63)
            extra -= 1
        j -= 1


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
    P, A, penalty, k_reg = rows.P, q.shape[1], rule.penalty, rule.k_reg
    locate_eight_rows(first, count, rows.n, rows.step, eight.rows)
    _few_classes.gather_rows(P, rows.draws, eight.rows, eight.tile, eight.draws)
    is_much = _few_classes.validate_rows(eight.tile, eight.draws, eight.flags)
    _locate_rows(eight, rows.groups, first, count, rows.n, q.shape[2])
    for w in range(count):
        out.status[first + w] = OK
        if is_much or eight.flags[0, w] != 0.0:
            eight.flags[0, w] = 1.0
            _single_row.fill_sets(rows, first + w, q, rule, top1, eight.ranking, out)
    if is_much:
        return
    by_rank = rule.method >= SAPS
    if by_rank:
        _count_by_rank(eight, q, count, rule)
        _find_window(eight, A)
    else:
        _load_thresholds(eight, q, count, penalty, k_reg)
        _find_pivot(eight.tile, eight.flags, eight.limits, A, eight.cuts)
    most = _compact_labels(count, eight, by_rank)
    _sorting_network.sort_lanes(eight.kept, -(-most // WIDTH) * WIDTH)
    if not by_rank:
        _score_sorted(eight.kept, most, eight.draws, penalty, k_reg, eight.found)
    for a in range(A):
        if by_rank:
            _cut_by_rank(eight, a, count)
        else:
            _find_cut(eight, a, most)
        if top1:
            _fill_empty(P, count, eight)
        _write_bits(eight.tile, eight.cuts, eight.halves)
        for w in range(count):
            if eight.flags[0, w] == 0.0:
                e, i, size = eight.batch[w] * A + a, eight.place[w], np.int64(eight.sizes[0, w])
                _write_set(P[eight.rows[w]], eight.halves, w, eight.cuts[0, w], size, out.words[e, i])
                out.sizes[e, i] = size
