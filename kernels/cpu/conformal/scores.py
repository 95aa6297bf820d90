"""How unusual a label is for a row of probabilities: of one label by one pass, of all by their ranking."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, new_lines
from cmfast.kernels.cpu.conformal import _label, _order, _tile
from cmfast.kernels.cpu.conformal._rows import adopt_rows, place, places
from cmfast.kernels.cpu.conformal._units import UNLIMITED_UNITS, before, draw, is_row, is_share, score, share, units
from cmfast.kernels.shared.conformal import ScoreRule, draw_keys, score_rule
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_ADDED_LABEL = 1e-9  # of a row of which one is asked for
SECONDS_PER_RANK = 1e-8


@jit()
def _of_labels(rows, out, out_status, start, stop):
    """Score a label of every row without regard to others."""
    P, labels, draws, _, n, step = rows
    for r in range(start, stop):
        at = place(r, n, step)
        row, label, part = P[at], labels[at], draws[at] if len(draws) else 1.0
        good = is_row(row) and 0 <= label < P.shape[1] and is_share(part)
        out_status[r] = OK if good else INVALID
        out[r] = np.nan
        if good:
            out[r] = 1.0 - share(row[label])


@jit()
def _of_many_labels(rows, rule, out, out_status, start, stop):
    """Score one label of every row of many classes by what is ranked before it."""
    P, labels, draws, _, n, step = rows
    rule = ScoreRule(*rule)
    for r in range(start, stop):
        at = place(r, n, step)
        row, label, part = P[at], labels[at], draws[at] if len(draws) else 1.0
        good, whole, ahead = 0 <= label < P.shape[1] and is_share(part), -1, 0
        if good:
            whole, ahead = _label.before(P, at, label)
        if good and whole < 0:
            good = is_row(row)
            whole, ahead = before(row, label)
        out_status[r] = OK if good else INVALID
        out[r] = score(whole, ahead, row[label], part, rule.penalty, rule.k_reg) if good else np.nan


@jit()
def _of_few_labels(rows, rule, out, out_status, start, stop):
    """Score one label of every row of few classes, eight rows side by side."""
    P, y, draws, _, n, step = rows
    rule = ScoreRule(*rule)
    C = P.shape[1]
    tile, labels, own = _tile.new_tile(C), new_lines(1), new_lines(1)
    at, flags = tile.rows, tile.flags
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        places(first, count, n, step, at)
        _tile.gather(P, draws, at, tile.shares, tile.draws)
        is_much = _tile.check(tile.shares, tile.draws, flags)
        for w in range(WIDTH):
            label = y[at[w]]
            if not 0 <= label < C:
                label, flags[0, w] = 0, 1.0
            labels[0, w], own[0, w] = label, tile.shares[label, w]
        _tile.score_one(tile, labels, own, rule)
        for w in range(count):
            r, good = first + w, flags[0, w] == 0.0
            out_status[r] = OK if good else INVALID
            out[r] = tile.scores[0, w] if good else np.nan
            if good and is_much:  # sums that float64 may not hold
                whole, ahead = before(P[at[w]], y[at[w]])
                out[r] = score(whole, ahead, P[at[w], y[at[w]]], tile.draws[0, w], rule.penalty, rule.k_reg)


@jit()
def _of_all(rows, rule, out, out_status, start, stop):
    """Score all labels of every row in the order of their probabilities."""
    P, _, draws, _, n, step = rows
    lac, penalty, k_reg = rule
    C = P.shape[1]
    ranking = _order.new_ranking(C)
    for r in range(start, stop):
        at = place(r, n, step)
        row, part = P[at], draws[at] if len(draws) else 1.0
        good = is_row(row) and is_share(part)
        out_status[r] = OK if good else INVALID
        if not good or lac:
            for j in range(C):
                out[r, j] = 1.0 - share(row[j]) if good else np.nan
            continue
        whole = 0
        for bucket in range(_order.arrange(row, UNLIMITED_UNITS, penalty, k_reg, ranking)):
            _order.sort(ranking, bucket)
        for k in range(C):
            label = ranking.order[k]
            out[r, label] = score(whole, k, ranking.row[label], part, penalty, k_reg)
            whole += units(ranking.row[label])


@jit()
def _of_few(rows, rule, out, out_status, start, stop):
    """Score all labels of every row of few classes, eight rows side by side."""
    P, _, draws, _, n, step = rows
    rule = ScoreRule(*rule)
    C = P.shape[1]
    tile = _tile.new_tile(C)
    flags, found = tile.flags, tile.scores
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        places(first, count, n, step, tile.rows)
        _tile.fill(P, draws, rule, tile)
        for w in range(count):
            good = flags[0, w] == 0.0
            out_status[first + w] = OK if good else INVALID
            for j in range(C):
                out[first + w, j] = found[j, w] if good else np.nan


@jit()
def _draws(P, n, step, keys, out, start, stop):
    for r in range(start, stop):
        out[r] = draw(P[place(r, n, step)], keys)


def row_draws(P, *, seed, num_threads=None):
    """Return the number of every row, from 0 to 1, that it and the seed make: nothing else."""
    (flat, *_, per, step), shape = adopt_rows(P), P.shape[:-1]
    n, C = math.prod(shape), P.shape[-1]
    out = np.empty(n)
    args = (flat, per, step, draw_keys(seed, C), out)
    pool.run(_draws, args, n, seconds=n * C * SECONDS_PER_ADDED_LABEL, num_threads=num_threads)
    return out.reshape(shape)


def scores(P, y, u, *, method, lam, k_reg, num_threads=None):
    """Return the scores of the labels `y`, or of all without them, and the status of every row."""
    rows, rule, shape = adopt_rows(P, labels=y, draws=u), score_rule(method, lam, k_reg), P.shape[:-1]
    n, C = math.prod(shape), P.shape[-1]
    status, few = np.empty(n, np.int8), 0 < C <= _tile.MOST_TILE_CLASSES and not rule.lac
    out = np.empty(n if y is not None else (n, C))
    kernel: Any
    args: tuple[Any, ...] = (rows, tuple(rule))
    if y is not None and rule.lac:
        kernel, args = _of_labels, args[:1]
    elif y is not None:
        kernel = _of_few_labels if few else _of_many_labels
    else:
        kernel = _of_few if few else _of_all
    seconds = n * C * (SECONDS_PER_RANK if y is None else SECONDS_PER_ADDED_LABEL)
    results, tile = (out, status), WIDTH if few else 1
    pool.run(kernel, (*args, *results), n, seconds=seconds, tile=tile, num_threads=num_threads)
    return out.reshape(*shape, *out.shape[1:]), status.reshape(shape)
