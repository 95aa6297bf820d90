"""Conformal (nonconformity) scores of labels: of one label in one pass, of all labels by ranking them."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, new_lines
from cmfast.kernels.cpu.conformal import _few_classes, _label_rank, _ranking
from cmfast.kernels.cpu.conformal._fixed_point import (
    UNLIMITED_UNITS,
    clamp_share,
    count_before_label,
    hash_row,
    is_row,
    is_share,
    round_to_units,
    score_label,
    score_rank,
    sum_before_label,
)
from cmfast.kernels.cpu.conformal._strided_rows import adopt_rows, locate_eight_rows, locate_row
from cmfast.kernels.shared.conformal import LAC, SAPS, ScoreRule, make_draw_keys, make_score_rule
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_ADDED_LABEL = 1e-9  # one label requested
SECONDS_PER_RANK = 1e-8


@jit()
def _score_lac(rows, out, out_status, start, stop):
    """Write the LAC score, one minus probability, of one label per row."""
    P, labels, draws, _, n, step = rows
    for r in range(start, stop):
        at = locate_row(r, n, step)
        row, label, part = P[at], labels[at], draws[at] if len(draws) else 1.0
        good = is_row(row) and 0 <= label < P.shape[1] and is_share(part)
        out_status[r] = OK if good else INVALID
        out[r] = np.nan
        if good:
            out[r] = 1.0 - clamp_share(row[label])


@jit()
def _score_label_many_classes(rows, rule, out, out_status, start, stop):
    """Write the cumulative score of one label per row of many classes, from the mass ranked before it."""
    P, labels, draws, _, n, step = rows
    rule = ScoreRule(*rule)
    for r in range(start, stop):
        at = locate_row(r, n, step)
        row, label, part = P[at], labels[at], draws[at] if len(draws) else 1.0
        good, whole, ahead = 0 <= label < P.shape[1] and is_share(part), -1, 0
        if rule.method >= SAPS:
            good = good and is_row(row)
            out_status[r] = OK if good else INVALID
            ahead, largest = count_before_label(row, label) if good else (0, 0.0)
            out[r] = score_rank(rule.method, ahead, largest, part, rule.penalty) if good else np.nan
            continue
        if good:
            whole, ahead = _label_rank.sum_before_label(P, at, label)
        if good and whole < 0:
            good = is_row(row)
            whole, ahead = sum_before_label(row, label)
        out_status[r] = OK if good else INVALID
        out[r] = score_label(whole, ahead, row[label], part, rule.penalty, rule.k_reg) if good else np.nan


@jit()
def _score_label_few_classes(rows, rule, out, out_status, start, stop):
    """Write the cumulative score of one label per row of few classes, eight rows in SIMD lanes."""
    P, y, draws, _, n, step = rows
    rule = ScoreRule(*rule)
    C = P.shape[1]
    tile, labels, own = _few_classes.new_tile(C), new_lines(1), new_lines(1)
    at, flags = tile.rows, tile.flags
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        locate_eight_rows(first, count, n, step, at)
        _few_classes.gather_rows(P, draws, at, tile.shares, tile.draws)
        is_much = _few_classes.validate_rows(tile.shares, tile.draws, flags)
        for w in range(WIDTH):
            label = y[at[w]]
            if not 0 <= label < C:
                label, flags[0, w] = 0, 1.0
            labels[0, w], own[0, w] = label, tile.shares[label, w]
        _few_classes.score_given_labels(tile, labels, own, rule)
        for w in range(count):
            r, good = first + w, flags[0, w] == 0.0
            out_status[r] = OK if good else INVALID
            out[r] = tile.scores[0, w] if good else np.nan
            if good and is_much and rule.method < SAPS:  # sums may not be exact in float64
                whole, ahead = sum_before_label(P[at[w]], y[at[w]])
                out[r] = score_label(whole, ahead, P[at[w], y[at[w]]], tile.draws[0, w], rule.penalty, rule.k_reg)


@jit()
def _score_all_labels(rows, rule, out, out_status, start, stop):
    """Write the scores of all labels of every row, by sorting them by probability."""
    P, _, draws, _, n, step = rows
    method, penalty, k_reg = rule
    C = P.shape[1]
    ranking = _ranking.new_ranking(C)
    for r in range(start, stop):
        at = locate_row(r, n, step)
        row, part = P[at], draws[at] if len(draws) else 1.0
        good = is_row(row) and is_share(part)
        out_status[r] = OK if good else INVALID
        if not good or method == LAC:
            for j in range(C):
                out[r, j] = 1.0 - clamp_share(row[j]) if good else np.nan
            continue
        whole = 0
        for bucket in range(_ranking.bucket_labels(row, UNLIMITED_UNITS, 0, 0, ranking)):
            _ranking.sort_bucket(ranking, bucket)
        if method >= SAPS:
            largest = ranking.row[ranking.order[0]]
            for k in range(C):
                out[r, ranking.order[k]] = score_rank(method, k, largest, part, penalty)
            continue
        for k in range(C):
            label = ranking.order[k]
            out[r, label] = score_label(whole, k, ranking.row[label], part, penalty, k_reg)
            whole += round_to_units(ranking.row[label])


@jit()
def _score_all_few_classes(rows, rule, out, out_status, start, stop):
    """Write the scores of all labels of rows of few classes, eight rows in SIMD lanes."""
    P, _, draws, _, n, step = rows
    rule = ScoreRule(*rule)
    C = P.shape[1]
    tile = _few_classes.new_tile(C)
    flags, found = tile.flags, tile.scores
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        locate_eight_rows(first, count, n, step, tile.rows)
        _few_classes.score_tile(P, draws, rule, tile)
        for w in range(count):
            good = flags[0, w] == 0.0
            out_status[first + w] = OK if good else INVALID
            for j in range(C):
                out[first + w, j] = found[j, w] if good else np.nan


@jit()
def _hash_rows(P, n, step, keys, out, start, stop):
    """Write the random draw of every row, a hash of it and the keys."""
    for r in range(start, stop):
        out[r] = hash_row(P[locate_row(r, n, step)], keys)


def row_draws(P, *, seed, num_threads=None):
    """Return a uniform draw in [0, 1) for every row, a hash of its probabilities and the seed."""
    (flat, *_, per, step), shape = adopt_rows(P), P.shape[:-1]
    n, C = math.prod(shape), P.shape[-1]
    out = np.empty(n)
    args = (flat, per, step, make_draw_keys(seed, C), out)
    pool.run(_hash_rows, args, n, seconds=n * C * SECONDS_PER_ADDED_LABEL, num_threads=num_threads)
    return out.reshape(shape)


def scores(P, y, u, *, method, lam, k_reg, num_threads=None):
    """Return the scores of the labels `y`, or of all labels if `y` is None, and the status of every row."""
    rows, rule, shape = adopt_rows(P, labels=y, draws=u), make_score_rule(method, lam, k_reg), P.shape[:-1]
    n, C = math.prod(shape), P.shape[-1]
    status, few = np.empty(n, np.int8), 0 < C <= _few_classes.MOST_TILE_CLASSES and rule.method != LAC
    out = np.empty(n if y is not None else (n, C))
    kernel: Any
    args: tuple[Any, ...] = (rows, tuple(rule))
    if y is not None and rule.method == LAC:
        kernel, args = _score_lac, args[:1]
    elif y is not None:
        kernel = _score_label_few_classes if few else _score_label_many_classes
    else:
        kernel = _score_all_few_classes if few else _score_all_labels
    seconds = n * C * (SECONDS_PER_RANK if y is None else SECONDS_PER_ADDED_LABEL)
    results, tile = (out, status), WIDTH if few else 1
    pool.run(kernel, (*args, *results), n, seconds=seconds, tile=tile, num_threads=num_threads)
    return out.reshape(*shape, *out.shape[1:]), status.reshape(shape)
