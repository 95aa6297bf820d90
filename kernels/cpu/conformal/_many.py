"""Sets of rows of many classes with one threshold for all of them: the few labels that matter, eight rows at a time."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, load_block, new_lines, splat, store, where
from cmfast.kernels.cpu.conformal import _cut, _one, _order, _tile
from cmfast.kernels.cpu.conformal._units import UNIT, is_share, most_units
from cmfast.kernels.shared.conformal import UNITS
from cmfast.kernels.status import OK

MOST_COMPARED = 40  # labels of a row that are compared pair by pair
ALONE = -1  # in place of the number of labels that matter: a row that was done by itself


class Eight(NamedTuple):
    """Eight rows.

    Attributes
    ----------
    lines, kept : array of float64, shape (8 * depth, 8)
        All probabilities, and of the labels that matter; `depth` lines to a row.
    words : array of int64
        Bits of these labels, of one row.
    sums, fulls, least : array of float64, shape (8,)
        The sum, what the last label scores with a draw of 1, and what no label that matters is below.
    numbers, groups, batch, place : array of int64, shape (8,)
        How many labels matter, or ALONE; which thresholds are meant; the element of the batch, and the row in it.
    """

    lines: Any
    kept: Any
    words: Any
    sums: Any
    fulls: Any
    least: Any
    numbers: Any
    groups: Any
    batch: Any
    place: Any


@jit()
def _eight(C):
    depth = -(-C // WIDTH)
    lines, kept, words = new_lines(WIDTH * depth), new_lines(WIDTH * depth), np.empty(-(-C // 64), np.int64)
    sums, fulls, least = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    numbers, groups = np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64)
    batch, place = np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64)
    return Eight(lines, kept, words, sums, fulls, least, numbers, groups, batch, place)


@jit(inner=True, borrows=True)
def _reduce(P, r, eight, w, depth, q, penalty, k_reg):
    """Keep the labels of a row that are in some set, and others where that cannot be told at once."""
    C, base, b, g = P.shape[1], w * depth, eight.batch[w], eight.groups[w]
    full = np.float64(np.int64(eight.sums[w] * UNITS) + penalty * max(0, C - k_reg)) * UNIT
    limit = -np.inf
    for a in range(q.shape[1]):
        if q[b, a, g, 0] < full:
            limit = max(limit, q[b, a, g, 0])
    eight.fulls[w], eight.numbers[w] = full, 0
    if limit > -np.inf:
        share = max(1.0 - limit, 0.0) / C
        least = _cut.pivot(eight.lines, base, base + depth, share, eight.sums[w], limit)
        size = _cut.at_least(eight.lines, base, base + depth, C, least, eight.words, 0)
        _cut.gather(P, r, eight.words, eight.kept.reshape(-1), base, 0.0 if size <= MOST_COMPARED else -1.0)
        eight.numbers[w], eight.least[w] = size, least


@jit(inner=True, borrows=True)
def _ends(tile, compared, found, limits, leasts, sizes):
    """Find the least probability in the sets of eight rows side by side, and how many labels they have."""
    zero, one, limit = splat(0.0), splat(1.0), load(limits, 0)
    size, least = zero, splat(np.inf)
    for j in range(compared):
        p, inside = load(tile, j), load(found, j) <= limit
        size = size + where(inside, one, zero)
        least = where(inside & (p < least), p, least)
    store(sizes, 0, size)
    store(leasts, 0, least)


@jit(inner=True, borrows=True)
def _mark(P, r, lines, base, end, least, size, words, at):
    """Set the bits of the first `size` labels of the ranking, of which the last has probability `least`."""
    C, count = P.shape[1], -(-P.shape[1] // 64)
    if size in (0, C):
        for k in range(count):
            words[at + k] = -1 if size else 0
        if size and C & 63:
            words[at + count - 1] = (np.int64(1) << (C & 63)) - 1
        return
    found = _cut.at_least(lines, base, end, C, least, words, at)
    if found > size:
        _cut.drop(P, r, least, found - size, words, at)


@jit()
def sets_of_many(P, u, groups, q, n, penalty, k_reg, top1, out, out_sizes, out_status, start, stop):
    """Fill the sets of rows, `n` of them to an element of the batch; `q` has (batch, alpha, group, 1)."""
    C = P.shape[1]
    most = -(-min(MOST_COMPARED, C) // WIDTH) * WIDTH
    lines = (new_lines(most), new_lines(most), new_lines(most), new_lines(most), new_lines(most))
    flags, room, eight = (new_lines(1), new_lines(1), new_lines(1), new_lines(1)), _order.room(C), _eight(C)
    results = (out, out_sizes, out_status)
    _fill(P, u, groups, q, n, penalty, k_reg, top1, lines, flags, room, eight, results, start, stop)


@jit(inner=True, borrows=True)
def _fill(P, u, groups, q, n, penalty, k_reg, top1, lines, flags, room, eight, results, start, stop):
    C, A, places = P.shape[1], q.shape[1], (0, 1, 2, 3, 4, 5, 6, 7)
    (tile, parts, before, ahead, found), (draws, limits, leasts, sizes) = lines, flags
    out, out_sizes, out_status = results
    depth, most, n_words = -(-C // WIDTH), len(tile) // WIDTH, out.shape[2]
    packed, every_size, kept = out.reshape(-1), out_sizes.reshape(-1), eight.kept.reshape(WIDTH, depth * WIDTH)
    for first in range(start, stop, WIDTH):
        count, compared = min(WIDTH, stop - first), 0
        for w in range(WIDTH):
            draws[0, w] = 1.0
            for k in range(w * depth, w * depth + most):
                store(eight.kept, k, splat(0.0))
        for w in range(count):
            r = first + w
            draw, g = u[r] if len(u) else 1.0, groups[r] if len(groups) else 0
            eight.sums[w] = _cut.take(P, r, eight.lines, w * depth)
            eight.groups[w], eight.batch[w], eight.place[w], eight.numbers[w] = g, r // n, r % n, ALONE
            if eight.sums[w] > _tile.MOST_TOTAL or not is_share(draw) or not 0 <= g < q.shape[2]:
                _one.sets_of_row(P, u, groups, q, n, False, penalty, k_reg, top1, room, out, out_sizes, out_status, r)
                continue
            out_status[r], draws[0, w] = OK, draw
            _reduce(P, r, eight, w, depth, q, penalty, k_reg)
            if eight.numbers[w] <= MOST_COMPARED:
                compared = max(compared, eight.numbers[w])
        for column in range(0, compared, WIDTH):
            load_block(tile, column, kept, places, column)
        _tile.compare(tile[:compared], draws, parts, before, ahead, penalty, k_reg, found)
        for a in range(A):
            for w in range(count):
                if eight.numbers[w] != ALONE:
                    limits[0, w] = q[eight.batch[w], a, eight.groups[w], 0]
            _ends(tile, compared, found, limits, leasts, sizes)
            for w in range(count):
                if eight.numbers[w] == ALONE:
                    continue
                at, base, limit = (eight.batch[w] * A + a) * n + eight.place[w], w * depth, limits[0, w]
                least, size = leasts[0, w], np.int64(sizes[0, w])
                if not limit < eight.fulls[w]:  # NaN too
                    size = np.int64(C)
                elif eight.numbers[w] > MOST_COMPARED:
                    end = base + -(-eight.numbers[w] // WIDTH)
                    own, most_of = eight.least[w], most_units(limit)
                    least, size = _cut.search(eight.kept, base, end, own, most_of, draws[0, w], penalty, k_reg)
                if top1 and size == 0:
                    least, size = _cut.greatest(eight.lines, base, base + depth), np.int64(1)
                _mark(P, first + w, eight.lines, base, base + depth, least, size, packed, at * n_words)
                every_size[at] = size
