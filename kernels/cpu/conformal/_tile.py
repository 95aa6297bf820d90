"""Rows of few classes, eight side by side: the scores of all labels by comparing every pair, without a sort.

Sums are float64 here: multiples of 2^-52 below 2 are exact in it, in any order. Rows that add up to more go one by one.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, load_block, new_lines, some, splat, store, where
from cmfast.kernels.cpu.conformal import _units
from cmfast.kernels.cpu.conformal._units import SCORE_UNIT, WHOLE_UNITS
from cmfast.kernels.shared.conformal import UNITS

MOST_TILE_CLASSES = 24
MOST_FLOAT_TOTAL = 1.99  # of a row: with the part of one label more it stays below 2


class ScoreTile(NamedTuple):
    """Eight rows of few classes; arrays of float64 but for `rows`."""

    shares: Any  # (C, 8): the probabilities
    parts: Any  # (C, 8): the same as multiples of 2^-52
    before: Any  # (C, 8): sum of the labels that are ranked before each
    ahead: Any  # (C, 8): number of these
    scores: Any  # (C, 8): of all labels
    draws: Any  # (1, 8): share of its own probability that a label counts
    flags: Any  # (2, 8): which rows are no probabilities; the sums of the rows
    rows: Any  # int64, (8,): indices of the rows


@jit(inner=True, inline=True)
def new_tile(C):
    """Return a tile for rows of `C` classes."""
    return ScoreTile(
        new_lines(C), new_lines(C), new_lines(C), new_lines(C), new_lines(C),
        new_lines(1), new_lines(2), np.empty(WIDTH, np.int64),
    )  # fmt: skip


@jit(inner=True, inline=True, borrows=True)
def gather(P, u, rows, tile, draws):
    """Copy rows side by side, and their draws; `rows` says where they lie."""
    C, at = P.shape[1], (rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7])
    for w in range(WIDTH):
        draws[0, w] = u[rows[w]] if len(u) else 1.0
    if C < WIDTH:
        for j in range(C):
            for w in range(WIDTH):
                tile[j, w] = P[rows[w], j]
        return
    for column in range(0, C - WIDTH + 1, WIDTH):
        load_block(tile, column, P, at, column)
    load_block(tile, C - WIDTH, P, at, C - WIDTH)


@jit(inner=True, inline=True, borrows=True)
def check(tile, draws, flags):
    """Flag rows that are none, and take what was rounded for 0 or 1; the second line of flags is what rows add up to.

    Returns whether some row adds up to too much for float64.
    """
    zero, one, draw = splat(0.0), splat(1.0), load(draws, 0)
    total, low, high = zero, zero, one
    for j in range(len(tile)):
        p = load(tile, j)
        low, high = where(p < low, p, low), where(p > high, p, high)
        total = total + ((one + p) - one)
    bad = where((draw >= zero) & (draw <= one), zero, one)
    if some(~((low == zero) & (high == one) & (total < splat(np.inf)))):  # NaN is in the sum alone
        bad, total = _rounded(tile, bad)
    store(flags, 0, bad)
    store(flags, 1, total)
    return some(total > splat(MOST_FLOAT_TOTAL))


@jit(inner=True, borrows=True)
def _rounded(tile, bad):
    """Take what was rounded for 0 or 1; return which rows are none, and what rows add up to."""
    zero, one, total = splat(0.0), splat(1.0), splat(0.0)
    least, most = splat(_units.LEAST_SHARE), splat(_units.MOST_SHARE)
    for j in range(len(tile)):
        p = load(tile, j)
        bad = where((p >= least) & (p <= most), bad, one)
        p = where(p > zero, where(p > one, one, p), zero)
        store(tile, j, p)
        total = total + ((one + p) - one)
    return bad, total


@jit(inner=True, inline=True, borrows=True)
def rank(tile, parts, before, ahead, counted):
    """Add up for every label what is ranked before it, and if it is wanted how many."""
    C, zero, one = len(tile), splat(0.0), splat(1.0)
    for j in range(C):
        store(parts, j, (one + load(tile, j)) - one)
    for j in range(C):  # every pair twice: sums stay in registers
        p, mine, rank = load(tile, j), zero, zero
        for i in range(j):
            first = load(tile, i) >= p
            mine = mine + where(first, load(parts, i), zero)
            if counted:
                rank = rank + where(first, one, zero)
        for i in range(j + 1, C):
            first = load(tile, i) > p
            mine = mine + where(first, load(parts, i), zero)
            if counted:
                rank = rank + where(first, one, zero)
        store(before, j, mine)
        store(ahead, j, rank)


@jit(inner=True, inline=True, borrows=True)
def score(tile, draws, before, ahead, penalty, k_reg, out):
    """Turn sums into the scores of all labels."""
    one, draw = splat(1.0), load(draws, 0)
    for j in range(len(tile)):
        if penalty == 0:
            whole = load(before, j) + ((one + draw * load(tile, j)) - one)
            store(out, j, where(whole > one, one, whole))
            continue
        for w in range(WIDTH):
            whole = min(np.int64(before[j, w] * UNITS) + _units.units(draws[0, w] * tile[j, w]), WHOLE_UNITS)
            out[j, w] = np.float64(whole + penalty * max(0, np.int64(ahead[j, w]) + 1 - k_reg)) * SCORE_UNIT


@jit(inner=True, inline=True, borrows=True)
def score_one(tile, labels, own, rule):
    """Fill the first line of scores with those of one label of every row, of which `own` are the probabilities."""
    zero, one, p, label = splat(0.0), splat(1.0), load(own, 0), load(labels, 0)
    sum_, rank = zero, zero
    for j in range(len(tile.shares)):
        other = load(tile.shares, j)
        first = (other > p) | ((other == p) & (splat(np.float64(j)) < label))
        sum_ = sum_ + where(first, (one + other) - one, zero)
        rank = rank + where(first, one, zero)
    store(tile.before, 0, sum_)
    store(tile.ahead, 0, rank)
    score(own, tile.draws, tile.before, tile.ahead, rule.penalty, rule.k_reg, tile.scores)


@jit(inner=True, borrows=True)
def one_by_one(P, rows, draws, penalty, k_reg, out, flags):
    """Score all labels of all rows without a tile."""
    for w in range(WIDTH):
        row = P[rows[w]]
        flags[0, w] = 0.0 if _units.is_row(row) and _units.is_share(draws[0, w]) else 1.0
        for j in range(P.shape[1]):
            if flags[0, w] == 0.0:
                whole, ahead = _units.before(row, j)
                out[j, w] = _units.score(whole, ahead, row[j], draws[0, w], penalty, k_reg)


@jit(inner=True, inline=True, borrows=True)
def fill(P, draws, rule, tile):
    """Score all labels of eight rows; rows that are no probabilities are flagged."""
    gather(P, draws, tile.rows, tile.shares, tile.draws)
    if check(tile.shares, tile.draws, tile.flags):
        one_by_one(P, tile.rows, tile.draws, rule.penalty, rule.k_reg, tile.scores, tile.flags)
        return
    rank(tile.shares, tile.parts, tile.before, tile.ahead, rule.penalty != 0)
    score(tile.shares, tile.draws, tile.before, tile.ahead, rule.penalty, rule.k_reg, tile.scores)
