"""How unusual a label is for a row of probabilities: of one label by one pass, of all by their ranking."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, new_lines
from cmfast.kernels.cpu.conformal import _label, _order, _tile
from cmfast.kernels.cpu.conformal._rows import NONE, float64, int64, place, places, rows
from cmfast.kernels.cpu.conformal._units import ALL, before, draw, is_row, is_share, score, share, units
from cmfast.kernels.shared.conformal import LAC, METHODS, UNITS, draw_keys
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_LABEL = 1e-9  # of a row of which one is asked for
SECONDS_PER_RANK = 1e-8


@jit()
def _of_labels(P, y, u, n, step, out, out_status, start, stop):
    """Score a label of every row without regard to others."""
    for r in range(start, stop):
        at = place(r, n, step)
        row, label, part = P[at], y[at], u[at] if len(u) else 1.0
        good = is_row(row) and 0 <= label < P.shape[1] and is_share(part)
        out_status[r] = OK if good else INVALID
        out[r] = np.nan
        if good:
            out[r] = 1.0 - share(row[label])


@jit()
def _of_many_labels(P, y, u, n, step, penalty, k_reg, out, out_status, start, stop):
    """As `_of_labels`, of many classes."""
    for r in range(start, stop):
        at = place(r, n, step)
        row, label, part = P[at], y[at], u[at] if len(u) else 1.0
        good, whole, ahead = 0 <= label < P.shape[1] and is_share(part), -1, 0
        if good:
            whole, ahead = _label.before(P, at, label)
        if good and whole < 0:
            good = is_row(row)
            whole, ahead = before(row, label)
        out_status[r] = OK if good else INVALID
        out[r] = score(whole, ahead, row[label], part, penalty, k_reg) if good else np.nan


@jit()
def _of_few_labels(P, y, u, n, step, penalty, k_reg, out, out_status, start, stop):
    """As `_of_labels`, of few classes, eight rows side by side."""
    C = P.shape[1]
    tile, draws, flags, labels, own = new_lines(C), new_lines(1), new_lines(2), new_lines(1), new_lines(1)
    sums, ahead, found, at = new_lines(1), new_lines(1), new_lines(1), np.empty(WIDTH, np.int64)
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        places(first, count, n, step, at)
        _tile.gather(P, u, at, tile, draws)
        is_much = _tile.check(tile, draws, flags)
        for w in range(WIDTH):
            label = y[at[w]]
            if not 0 <= label < C:
                label, flags[0, w] = 0, 1.0
            labels[0, w], own[0, w] = label, tile[label, w]
        _tile.score_one(tile, labels, draws, own, sums, ahead, penalty, k_reg, found)
        for w in range(count):
            r, good = first + w, flags[0, w] == 0.0
            out_status[r] = OK if good else INVALID
            out[r] = found[0, w] if good else np.nan
            if good and is_much:  # sums that float64 may not hold
                whole, before_ = before(P[at[w]], y[at[w]])
                out[r] = score(whole, before_, P[at[w], y[at[w]]], draws[0, w], penalty, k_reg)


@jit()
def _of_all(P, u, n, step, lac, penalty, k_reg, out, out_status, start, stop):
    C = P.shape[1]
    room = _order.room(C)
    for r in range(start, stop):
        at = place(r, n, step)
        row, part = P[at], u[at] if len(u) else 1.0
        good = is_row(row) and is_share(part)
        out_status[r] = OK if good else INVALID
        if not good or lac:
            for j in range(C):
                out[r, j] = 1.0 - share(row[j]) if good else np.nan
            continue
        whole = 0
        for bucket in range(_order.arrange(row, ALL, penalty, k_reg, room)):
            _order.sort(room, bucket)
        for k in range(C):
            label = room.order[k]
            out[r, label] = score(whole, k, room.row[label], part, penalty, k_reg)
            whole += units(room.row[label])


@jit()
def _of_few(P, u, n, step, penalty, k_reg, out, out_status, start, stop):
    C = P.shape[1]
    tile, parts, before_, ahead, found = new_lines(C), new_lines(C), new_lines(C), new_lines(C), new_lines(C)
    draws, flags, at = new_lines(1), new_lines(2), np.empty(WIDTH, np.int64)
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        places(first, count, n, step, at)
        _tile.fill(P, u, at, penalty, k_reg, tile, draws, parts, before_, ahead, flags, found)
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
    flat, shape, step = rows(P)
    n, C = math.prod(shape), P.shape[-1]
    out = np.empty(n)
    args = (flat, shape[-1], step, draw_keys(seed, C), out)
    pool.run(_draws, args, n, seconds=n * C * SECONDS_PER_LABEL, num_threads=num_threads)
    return out.reshape(shape)


def scores(P, y, u, *, method, lam, k_reg, num_threads=None):
    """Return the scores of the labels `y`, or of all without them, and the status of every row."""
    flat, labels, draws, shape, step = rows(P, None if y is None else int64(y), None if u is None else float64(u))
    n, C = math.prod(shape), P.shape[-1]
    lac, options = METHODS[method] == LAC, (int(np.rint(lam * UNITS)), k_reg)
    status, few = np.empty(n, np.int8), 0 < C <= _tile.MOST_CLASSES and not lac
    given = (NONE if draws is None else draws, shape[-1], step)
    out = np.empty(n if labels is not None else (n, C))
    kernel: Any
    args: tuple[Any, ...]
    if labels is not None and lac:
        kernel, args = _of_labels, (flat, labels, *given)
    elif labels is not None:
        kernel, args = _of_few_labels if few else _of_many_labels, (flat, labels, *given, *options)
    elif few:
        kernel, args = _of_few, (flat, *given, *options)
    else:
        kernel, args = _of_all, (flat, *given, lac, *options)
    seconds = n * C * (SECONDS_PER_RANK if labels is None else SECONDS_PER_LABEL)
    results, tile = (out, status), WIDTH if few else 1
    pool.run(kernel, (*args, *results), n, seconds=seconds, tile=tile, num_threads=num_threads)
    return out.reshape(*shape, *out.shape[1:]), status.reshape(shape)
