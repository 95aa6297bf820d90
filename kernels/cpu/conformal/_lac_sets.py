"""Prediction sets by the LAC score, one minus probability: comparisons of eight labels at a time, without a ranking.

Tiles of rows stay in the first-level cache for all thresholds, so that memory is read once; rows are validated with the
first threshold. Invalid rows are rare: their sets are filled as the others, then overwritten.
"""

import numpy as np

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, bits, load_row, splat, where
from cmfast.kernels.cpu.conformal import _bitsets
from cmfast.kernels.cpu.conformal._fixed_point import LEAST_SHARE, MOST_SHARE, is_row
from cmfast.kernels.cpu.conformal._single_row import SetResults, finish_set
from cmfast.kernels.cpu.conformal._strided_rows import ProbabilityRows
from cmfast.kernels.shared.conformal import BITS_PER_WORD, SAFE
from cmfast.kernels.status import INVALID, OK

ELEMENTS_PER_LAC_TILE = 512  # few, so that the next loads from memory begin while this tile is compared


@jit(inner=True, inline=True, borrows=True)
def _bound_score(limit):
    """Return a bound that excludes the same scores as a threshold does after clamping them to [0, 1].

    It saves the clamping of each probability; NaN excludes none.
    """
    return np.inf if not limit < 1.0 else -np.inf if limit < 0.0 else limit


@jit(inner=True, inline=True, borrows=True)
def _compare_eight(P, at, column, limits, line, bound):
    """Return the bits of the eight labels from `column` on whose score is within `bound`, or their own threshold."""
    zero, one, p = splat(0.0), splat(1.0), load_row(P, at, column)
    if limits.shape[1] == 1:
        return bits(~(one - p > splat(bound)))
    score = one - where(p > zero, where(p > one, one, p), zero)
    return bits(~(score > load_row(limits, line, column)))


@jit(inner=True, inline=True, borrows=True)
def _validate_eight(P, at, column):
    """Return the mask of the eight labels from `column` on whose probability is valid."""
    p = load_row(P, at, column)
    return (p >= LEAST_SHARE) & (p <= MOST_SHARE)


@jit(inner=True, inline=True, borrows=True)
def _fill_words(P, at, limits, line, words, validates):
    """Write the bits of the labels of a row within the thresholds ``limits[line]``.

    Return their number and, if `validates` is set, whether all probabilities are valid.
    """
    C, size, valid = P.shape[1], 0, splat(0.0) == splat(0.0)
    whole, bound = C // BITS_PER_WORD, _bound_score(limits[line, 0])
    for w in range(whole):
        word = np.int64(0)
        for k in range(BITS_PER_WORD // WIDTH):  # unrolled: all shifts are constants
            column = w * BITS_PER_WORD + k * WIDTH
            word |= _compare_eight(P, at, column, limits, line, bound) << k * WIDTH
            if validates:
                valid = valid & _validate_eight(P, at, column)
        words[w] = word
        size += popcount(word)
    first, word = whole * BITS_PER_WORD, np.int64(0)
    for column in range(first, C - WIDTH + 1, WIDTH):
        word |= _compare_eight(P, at, column, limits, line, bound) << column - first
        if validates:
            valid = valid & _validate_eight(P, at, column)
    if C % WIDTH:  # the last eight labels overlap those before
        word |= (_compare_eight(P, at, C - WIDTH, limits, line, bound) >> -C % WIDTH) << C // WIDTH * WIDTH - first
        if validates:
            valid = valid & _validate_eight(P, at, C - WIDTH)
    if first < C:
        words[whole] = word
        size += popcount(word)
    return size, bits(valid) == (1 << WIDTH) - 1


@jit()
def fill_sets_by_lac(rows, q, rule, top1, out, start, stop):
    """Fill the LAC sets of rows of at least eight classes; `q` is (batch, alpha, group, 1 or label)."""
    rows, out = ProbabilityRows(*rows), SetResults(*out)
    P, groups, n, C, (_, A, G, labels) = rows.P, rows.groups, rows.n, rows.P.shape[1], q.shape
    limits, tile_rows = q.reshape(-1, labels), max(1, ELEMENTS_PER_LAC_TILE // C)
    flags, own_group, r = np.empty(tile_rows, np.bool_), np.empty(tile_rows, np.int64), start
    while r < stop:
        b, i = r // n, r % n
        count, at, every = min(tile_rows, stop - r, n - i), b * rows.step + i, True
        for w in range(count):
            g = groups[at + w] if len(groups) else 0
            flags[w] = 0 <= g < G
            own_group[w] = g if flags[w] else 0
        for a in range(A):
            words, sizes, line = out.words[b * A + a], out.sizes[b * A + a], (b * A + a) * G
            if a == 0:
                for w in range(count):
                    sizes[i + w], valid = _fill_words(P, at + w, limits, line + own_group[w], words[i + w], True)
                    # Only sums of many labels may overflow: they are added up in a second pass over the row.
                    flags[w] = flags[w] and valid and (C <= SAFE or is_row(P[at + w]))
                    every = every and flags[w]
                    out.status[r + w] = OK if flags[w] else INVALID
            else:
                for w in range(count):
                    sizes[i + w], _ = _fill_words(P, at + w, limits, line + own_group[w], words[i + w], False)
            if top1:
                for w in range(count):
                    finish_set(P[at + w], words[i + w], top1, sizes, i + w)
            if not every:
                for w in range(count):
                    if not flags[w]:
                        _bitsets.set_all_bits(words[i + w], C)
                        sizes[i + w] = C
        r += count
