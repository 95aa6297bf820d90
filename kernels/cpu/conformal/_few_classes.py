"""Scores of all labels for rows of few classes, eight rows in SIMD lanes, by comparing all pairs instead of sorting.

Sums of multiples of 2^-52 below 2 are exact in float64, in any order. Rows with a larger sum are scored one by one.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    load,
    load_block,
    new_lines,
    pack,
    prefetch,
    some,
    splat,
    store,
    where,
)
from cmfast.kernels.cpu.conformal import _fixed_point
from cmfast.kernels.cpu.conformal._fixed_point import SCORE_UNIT
from cmfast.kernels.shared.conformal import LAC, SAPS, TOP_K, UNITS

MOST_TILE_CLASSES = 24
ROWS_AHEAD = 64  # how many rows ahead of their use probabilities are prefetched
MOST_EXACT_PENALTY = 1 << 53  # units of all rank penalties of a row: up to it, each is a float64, and scores round once
MOST_FLOAT_TOTAL = 1.99  # row sum that stays below 2 with one more drawn share


class ScoreTile(NamedTuple):
    """Eight rows of few classes; float64 except `rows`."""

    shares: Any  # (C, 8): the probabilities
    parts: Any  # (C, 8): probabilities rounded to multiples of 2^-52
    before: Any  # (C, 8): mass ranked before each label
    ahead: Any  # (C, 8): number of labels ranked before each
    scores: Any  # (C, 8): scores of all labels
    draws: Any  # (1, 8): fraction of a label's own probability that counts
    flags: Any  # (2, 8): 1 for invalid rows; row sums
    rows: Any  # int64, (8,): storage indices of the rows


@jit(inner=True, inline=True)
def new_tile(C):
    """Allocate a tile for rows of `C` classes."""
    return ScoreTile(
        new_lines(C), new_lines(C), new_lines(C), new_lines(C), new_lines(C),
        new_lines(1), new_lines(2), np.empty(WIDTH, np.int64),
    )  # fmt: skip


@jit(inner=True, inline=True, borrows=True)
def load_rows(P, rows, tile):
    """Transpose eight rows, at the storage indices `rows`, to `tile`."""
    C, at = P.shape[1], (rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7])
    if C < WIDTH:
        for j in range(C):
            for w in range(WIDTH):
                tile[j, w] = P[rows[w], j]
        return
    for w in range(WIDTH):
        for column in range(0, C, WIDTH):
            prefetch(P, rows[w] + ROWS_AHEAD, column)
    for column in range(0, C - WIDTH + 1, WIDTH):
        load_block(tile, column, P, at, column)
    load_block(tile, C - WIDTH, P, at, C - WIDTH)


@jit(inner=True, inline=True, borrows=True)
def gather_rows(P, u, rows, tile, draws):
    """Transpose eight rows, at the storage indices `rows`, to `tile`, and copy their draws."""
    at = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]
    # One store: eight narrow ones would make the next load of the line wait until all are in the cache.
    if len(u):
        store(draws, 0, pack(u[at[0]], u[at[1]], u[at[2]], u[at[3]], u[at[4]], u[at[5]], u[at[6]], u[at[7]]))
    else:
        store(draws, 0, splat(1.0))
    load_rows(P, rows, tile)


@jit(inner=True, inline=True, borrows=True)
def validate_rows(tile, draws, flags):
    """Validate eight rows in place, clamp rounding errors to [0, 1], and write flags and row sums.

    Return whether some row sum is too large for exact float64 sums.
    """
    zero, one, draw = splat(0.0), splat(1.0), load(draws, 0)
    total, low, high = zero, zero, one
    for j in range(len(tile)):
        p = load(tile, j)
        low, high = where(p < low, p, low), where(p > high, p, high)
        total = total + ((one + p) - one)
    bad = where((draw >= zero) & (draw <= one), zero, one)
    if some(~((low == zero) & (high == one) & (total < splat(np.inf)))):  # NaN shows in the sum only
        bad, total = _clamp_rows(tile, bad)
    store(flags, 0, bad)
    store(flags, 1, total)
    return some(total > splat(MOST_FLOAT_TOTAL))


@jit(inner=True, borrows=True)
def _clamp_rows(tile, bad):
    """Clamp probabilities slightly outside [0, 1] in place; return flags of invalid rows, and the row sums."""
    zero, one, total = splat(0.0), splat(1.0), splat(0.0)
    least, most = splat(_fixed_point.LEAST_SHARE), splat(_fixed_point.MOST_SHARE)
    for j in range(len(tile)):
        p = load(tile, j)
        bad = where((p >= least) & (p <= most), bad, one)
        p = where(p > zero, where(p > one, one, p), zero)
        store(tile, j, p)
        total = total + ((one + p) - one)
    return bad, total


@jit(inner=True, inline=True, borrows=True)
def rank_labels(tile, parts, before, ahead, counted):
    """Write the mass ranked before every label and, if `counted`, the number of these labels.

    Each pair is compared twice, so that sums stay in registers; two labels at a time share the loads.
    """
    C, zero, one = len(tile), splat(0.0), splat(1.0)
    for j in range(C):
        store(parts, j, (one + load(tile, j)) - one)
    for j in range(0, C, 2):
        k = min(j + 1, C - 1)  # of an odd number the last label is compared with itself, and not counted
        p, q, mine, other, rank, place = load(tile, j), load(tile, k), zero, zero, zero, zero
        for i in range(j):
            x, part = load(tile, i), load(parts, i)
            first, second = x >= p, x >= q
            mine, other = mine + where(first, part, zero), other + where(second, part, zero)
            if counted:
                rank, place = rank + where(first, one, zero), place + where(second, one, zero)
        for i in range(k + 1, C):
            x, part = load(tile, i), load(parts, i)
            first, second = x > p, x > q
            mine, other = mine + where(first, part, zero), other + where(second, part, zero)
            if counted:
                rank, place = rank + where(first, one, zero), place + where(second, one, zero)
        if k > j:
            first = p >= q
            mine, other = mine + where(first, zero, load(parts, k)), other + where(first, load(parts, j), zero)
            if counted:
                rank, place = rank + where(first, zero, one), place + where(first, one, zero)
            store(before, k, other)
            store(ahead, k, place)
        store(before, j, mine)
        store(ahead, j, rank)


@jit(inner=True, inline=True, borrows=True)
def score_labels(tile, draws, before, ahead, penalty, k_reg, out):
    """Write the scores of all labels from mass and rank; `penalty` applies to ranks above `k_reg`."""
    zero, one, draw = splat(0.0), splat(1.0), load(draws, 0)
    step, ranks = splat(np.float64(penalty) * SCORE_UNIT), splat(np.float64(1 - k_reg))
    for j in range(len(tile)):
        whole = load(before, j) + ((one + draw * load(tile, j)) - one)
        whole = where(whole > one, one, whole)
        if penalty == 0:
            store(out, j, whole)
        elif penalty * len(out) <= MOST_EXACT_PENALTY:
            beyond = load(ahead, j) + ranks
            store(out, j, whole + where(beyond > zero, beyond, zero) * step)
        else:
            store(out, j, whole)
            for w in range(WIDTH):
                beyond = penalty * max(0, np.int64(ahead[j, w]) + 1 - k_reg)
                out[j, w] = np.float64(np.int64(out[j, w] * UNITS) + beyond) * SCORE_UNIT


@jit(inner=True, inline=True, borrows=True)
def score_given_labels(tile, labels, own, rule):
    """Write the score of one label per row to the first line of scores; `own` holds their probabilities."""
    zero, one, p, label = splat(0.0), splat(1.0), load(own, 0), load(labels, 0)
    sum_, rank = zero, zero
    for j in range(len(tile.shares)):
        other = load(tile.shares, j)
        first = (other > p) | ((other == p) & (splat(np.float64(j)) < label))
        sum_ = sum_ + where(first, (one + other) - one, zero)
        rank = rank + where(first, one, zero)
    store(tile.before, 0, sum_)
    store(tile.ahead, 0, rank)
    if rule.method >= SAPS:
        score_ranks(tile, 1, rule)
        return
    score_labels(own, tile.draws, tile.before, tile.ahead, rule.penalty, rule.k_reg, tile.scores)


@jit(inner=True, borrows=True)
def score_ranks(tile, count, rule):
    """Write the SAPS or top-k scores of the first `count` lines from the ranks, for eight rows."""
    largest = splat(0.0)
    for j in range(len(tile.shares)):
        p = load(tile.shares, j)
        largest = where(p > largest, p, largest)
    store(tile.before, 0, largest)  # ranks suffice, so that the mass is free to be overwritten
    zero, one, draw, step = splat(0.0), splat(1.0), load(tile.draws, 0), splat(np.float64(rule.penalty) * SCORE_UNIT)
    # The step below the first label, to which the steps between whole ranks are added.
    first, second = ((one + draw * largest) - one, ((one + largest) - one) + ((one + draw * step) - one))
    for j in range(count):
        rank = load(tile.ahead, j)
        if rule.method == TOP_K:
            store(tile.scores, j, rank + draw)
            continue
        if rule.penalty * len(tile.shares) <= MOST_EXACT_PENALTY:
            store(tile.scores, j, where(rank == zero, first, second + (rank - one) * step))
            continue
        for w in range(WIDTH):
            tile.scores[j, w] = _fixed_point.score_rank(
                rule.method, np.int64(tile.ahead[j, w]), tile.before[0, w], tile.draws[0, w], rule.penalty
            )


@jit(inner=True, borrows=True)
def score_rows_singly(P, rows, draws, penalty, k_reg, out, flags):
    """Score all labels of eight rows in integers, and flag invalid rows: the general path."""
    for w in range(WIDTH):
        row = P[rows[w]]
        flags[0, w] = 0.0 if _fixed_point.is_row(row) and _fixed_point.is_share(draws[0, w]) else 1.0
        for j in range(P.shape[1]):
            if flags[0, w] == 0.0:
                whole, ahead = _fixed_point.sum_before_label(row, j)
                out[j, w] = _fixed_point.score_label(whole, ahead, row[j], draws[0, w], penalty, k_reg)


@jit(inner=True, inline=True, borrows=True)
def score_tile(P, draws, rule, tile):
    """Score all labels of eight rows; flag invalid rows."""
    gather_rows(P, draws, tile.rows, tile.shares, tile.draws)
    is_much = validate_rows(tile.shares, tile.draws, tile.flags)
    if rule.method == LAC:
        for j in range(len(tile.shares)):
            store(tile.scores, j, splat(1.0) - load(tile.shares, j))
        return
    if rule.method >= SAPS:
        rank_labels(tile.shares, tile.parts, tile.before, tile.ahead, True)
        score_ranks(tile, len(tile.shares), rule)
        return
    if is_much:
        score_rows_singly(P, tile.rows, tile.draws, rule.penalty, rule.k_reg, tile.scores, tile.flags)
        return
    if rule.penalty == 0:  # two loops: with ranks, sums do not stay in registers
        rank_labels(tile.shares, tile.parts, tile.before, tile.ahead, False)
    else:
        rank_labels(tile.shares, tile.parts, tile.before, tile.ahead, True)
    score_labels(tile.shares, tile.draws, tile.before, tile.ahead, rule.penalty, rule.k_reg, tile.scores)
