"""Sets of rows of many classes with one threshold for all of them: eight rows side by side, in order.

A label whose probability is below some pivot has all larger ones ranked before it: where these alone exceed the largest
threshold it is in no set, and is not sorted. A set is then the labels down to some probability, and where several have
that one the first of them: its bits are comparisons with it. Sums are float64, as in the tile of few classes.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, new_lines, some, splat, store, where
from cmfast.kernels.cpu.conformal import _network, _one, _order, _tile
from cmfast.kernels.cpu.conformal._rows import ProbabilityRows, places
from cmfast.kernels.cpu.conformal._units import SCORE_UNIT, WHOLE_UNITS, share
from cmfast.kernels.shared.conformal import UNITS, ScoreRule
from cmfast.kernels.status import OK

HALF_WORD_BITS = 32  # bits of a word that are added as floats
PIVOT_SHARES = (1.0, 4.0, 8.0)  # pivots that are tried, in shares that all labels could have of what no set holds
MOST_PICKED_SHARE = 0.6  # of the labels may matter, or all are sorted: to pick some costs time, too


class Eight(NamedTuple):
    """Eight rows.

    Attributes
    ----------
    tile, kept, found : array of float64, shape (C, 8), in whole eights of lines
        All probabilities, those that matter in order, and their scores.
    halves : array of float64, shape (2 * words, 8)
        Bits of all labels, by halves of words.
    words : array of int64, shape (8, words)
        Bits of the labels that matter.
    draws, fulls, cuts, sizes : array of float64, shape (1, 8)
        What is drawn; what the last label scores with a draw of 1; the least probability in a set; labels in it.
    limits : array of float64, shape (A + 1, 8)
        Thresholds, and at last the largest that excludes anything.
    flags : array of float64, shape (2, 8)
        Which rows go by themselves, and what all of a row add up to.
    batch, place, groups, rows : array of int64, shape (8,)
        The element of the batch, the row in it, which thresholds are meant, and where the row lies.
    ranking : Ranking
        Workspace of rows that go by themselves.
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
    flags: Any
    batch: Any
    place: Any
    groups: Any
    rows: Any
    ranking: Any


@jit(inner=True, inline=True)
def _eight(C, words, A):
    depth = -(-C // WIDTH) * WIDTH
    return Eight(
        new_lines(C), new_lines(depth), new_lines(depth), new_lines(2 * words), np.empty((WIDTH, words), np.int64),
        new_lines(1), new_lines(1), new_lines(1), new_lines(1), new_lines(A + 1), new_lines(2),
        np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64),
        _order.new_ranking(C),
    )  # fmt: skip


@jit(inner=True, inline=True, borrows=True)
def _place(eight, groups, first, count, n, n_groups):
    """Find of which element of the batch rows are, and of which group; flag those of none."""
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
def _limit(eight, q, count, penalty, k_reg):
    """Find what the scores of a row reach at most, and which thresholds are below that."""
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
        # Above one sums do not tell which labels are out: they end at one, and penalties do not.
        eight.fulls[0, w], eight.limits[A, w] = full, most if most < 1.0 else np.inf


@jit(inner=True, inline=True, borrows=True)
def _pivot(tile, flags, limits, a, out):
    """Find a probability below which no label has a score of at most the limit; 0 where that is not found."""
    zero, one, total, limit = splat(0.0), splat(1.0), load(flags, 1), load(limits, a)
    unit = (total - limit) * splat(1.0 / len(tile))
    first, second, third = splat(PIVOT_SHARES[0]) * unit, splat(PIVOT_SHARES[1]) * unit, splat(PIVOT_SHARES[2]) * unit
    x, y, z = zero, zero, zero
    for j in range(len(tile)):
        p = load(tile, j)
        part = (one + p) - one
        x = x + where(p < first, part, zero)
        y = y + where(p < second, part, zero)
        z = z + where(p < third, part, zero)
    found = where(total - x > limit, first, zero)
    found = where(total - y > limit, second, found)
    found = where(total - z > limit, third, found)
    store(out, 0, where(found > zero, found, zero))


@jit(inner=True, inline=True, borrows=True)
def _mark(tile, cuts, halves):
    """Add up the bits of the labels down to some probability, by halves of words."""
    zero, cut, C = splat(0.0), load(cuts, 0), len(tile)
    for h in range(len(halves)):
        word, bit = zero, splat(1.0)
        for j in range(HALF_WORD_BITS * h, min(HALF_WORD_BITS * (h + 1), C)):
            word = word + where(load(tile, j) >= cut, bit, zero)
            bit = bit + bit
        store(halves, h, word)


@jit(inner=True, inline=True, borrows=True)
def _join(halves, w, words):
    """Join the halves of the words of a row; return how many bits are set."""
    found = 0
    for k in range(len(words)):
        words[k] = np.int64(halves[2 * k, w]) | np.int64(halves[2 * k + 1, w]) << HALF_WORD_BITS
        found += popcount(words[k])
    return found


@jit(inner=True, inline=True, borrows=True)
def _pick(count, eight):
    """Copy the labels that matter, filled up with zeros; return how many a row has at most."""
    tile, kept, words, C, most = eight.tile, eight.kept, eight.words, len(eight.tile), 0
    _mark(tile, eight.cuts, eight.halves)
    for w in range(count):
        if eight.flags[0, w] == 0.0:
            most = max(most, _join(eight.halves, w, words[w]))
    if most > MOST_PICKED_SHARE * C:
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
def _score(kept, most, draws, penalty, k_reg, out):
    """Score labels in order."""
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
def _cut(eight, a, most):
    """Find how many labels the sets of a threshold hold, and the least probability of these: scores never fall."""
    zero, one, limit = splat(0.0), splat(1.0), load(eight.limits, a)
    size, cut, full = zero, splat(np.inf), splat(np.float64(len(eight.tile)))
    for k in range(most):
        excluded = load(eight.found, k) > limit
        if not some(~excluded):
            break
        size = size + where(excluded, zero, one)
        cut = where(excluded, cut, load(eight.kept, k))
    is_less = limit < load(eight.fulls, 0)  # not NaN either
    store(eight.sizes, 0, where(is_less, size, full))
    store(eight.cuts, 0, where(is_less, cut, splat(-1.0)))


@jit(inner=True, inline=True, borrows=True)
def _fill_empty(P, count, eight):
    """Give sets without a label the first one."""
    for w in range(count):
        if eight.sizes[0, w] == 0.0:
            row = P[eight.rows[w]]
            eight.sizes[0, w], eight.cuts[0, w] = 1.0, share(row[_one.first(row)])


@jit(inner=True, inline=True, borrows=True)
def _write(row, halves, w, cut, size, words):
    """Write the words of a row; of labels that are alike the last ones may be too many."""
    extra, j = _join(halves, w, words) - size, len(row) - 1
    while extra > 0:
        if share(row[j]) == cut:
            words[j >> 6] ^= np.int64(1) << (j & 63)
            extra -= 1
        j -= 1


@jit()
def sets_of_many(rows, q, rule, top1, out, start, stop):
    """Fill the sets of rows of many classes; `q` has the shape (batch, alpha, group, 1)."""
    rows, rule, out = ProbabilityRows(*rows), ScoreRule(*rule), _one.SetResults(*out)
    eight = _eight(rows.P.shape[1], out.words.shape[2], q.shape[1])
    for first in range(start, stop, WIDTH):
        _fill(rows, q, rule, top1, eight, out, first, min(WIDTH, stop - first))


@jit(inner=True, inline=True, borrows=True)
def _fill(rows, q, rule, top1, eight, out, first, count):
    """Fill the sets of `count` rows from row `first` on."""
    P, A, penalty, k_reg = rows.P, q.shape[1], rule.penalty, rule.k_reg
    places(first, count, rows.n, rows.step, eight.rows)
    _tile.gather(P, rows.draws, eight.rows, eight.tile, eight.draws)
    is_much = _tile.check(eight.tile, eight.draws, eight.flags)
    _place(eight, rows.groups, first, count, rows.n, q.shape[2])
    for w in range(count):
        out.status[first + w] = OK
        if is_much or eight.flags[0, w] != 0.0:
            eight.flags[0, w] = 1.0
            _one.fill_sets(rows, first + w, q, rule, top1, eight.ranking, out)
    if is_much:
        return
    _limit(eight, q, count, penalty, k_reg)
    _pivot(eight.tile, eight.flags, eight.limits, A, eight.cuts)
    most = _pick(count, eight)
    _network.sort(eight.kept, -(-most // WIDTH) * WIDTH)
    _score(eight.kept, most, eight.draws, penalty, k_reg, eight.found)
    for a in range(A):
        _cut(eight, a, most)
        if top1:
            _fill_empty(P, count, eight)
        _mark(eight.tile, eight.cuts, eight.halves)
        for w in range(count):
            if eight.flags[0, w] == 0.0:
                e, i, size = eight.batch[w] * A + a, eight.place[w], np.int64(eight.sizes[0, w])
                _write(P[eight.rows[w]], eight.halves, w, eight.cuts[0, w], size, out.words[e, i])
                out.sizes[e, i] = size
