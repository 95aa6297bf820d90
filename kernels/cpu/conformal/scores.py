"""How unusual a label is for a row of probabilities: of one label by one pass, of all by their ranking."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, new_lines
from cmfast.kernels.cpu.conformal import _order, _tile
from cmfast.kernels.cpu.conformal._units import ALL, before, draw, is_row, is_share, score, share, units
from cmfast.kernels.shared.conformal import LAC, METHODS, UNITS, draw_keys
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_LABEL = 1e-9  # of a row of which one is asked for
SECONDS_PER_RANK = 1e-8


@jit()
def _of_labels(P, y, u, lac, penalty, k_reg, out, out_status, start, stop):
    for r in range(start, stop):
        row, label, part = P[r], y[r], u[r] if len(u) else 1.0
        good = is_row(row) and 0 <= label < P.shape[1] and is_share(part)
        out_status[r] = OK if good else INVALID
        out[r] = np.nan
        if good and lac:
            out[r] = 1.0 - share(row[label])
        elif good:
            whole, ahead = before(row, label)
            out[r] = score(whole, ahead, row[label], part, penalty, k_reg)


@jit()
def _of_few_labels(P, y, u, penalty, k_reg, out, out_status, start, stop):
    """As `_of_labels`, of few classes, eight rows side by side."""
    C = P.shape[1]
    tile, draws, flags, labels, own = new_lines(C), new_lines(1), new_lines(2), new_lines(1), new_lines(1)
    sums, ahead, found = new_lines(1), new_lines(1), new_lines(1)
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        rows = _tile.places(first, count)
        _tile.gather(P, u, rows, tile, draws)
        is_much = _tile.check(tile, draws, flags)
        for w in range(WIDTH):
            label = y[rows[w]]
            if not 0 <= label < C:
                label, flags[0, w] = 0, 1.0
            labels[0, w], own[0, w] = label, tile[label, w]
        _tile.score_one(tile, labels, draws, own, sums, ahead, penalty, k_reg, found)
        for w in range(count):
            r, good = first + w, flags[0, w] == 0.0
            out_status[r] = OK if good else INVALID
            out[r] = found[0, w] if good else np.nan
            if good and is_much:  # sums that float64 may not hold
                whole, before_ = before(P[r], y[r])
                out[r] = score(whole, before_, P[r, y[r]], draws[0, w], penalty, k_reg)


@jit()
def _of_all(P, u, lac, penalty, k_reg, out, out_status, start, stop):
    C = P.shape[1]
    room = _order.room(C)
    for r in range(start, stop):
        row, part = P[r], u[r] if len(u) else 1.0
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
def _of_few(P, u, penalty, k_reg, out, out_status, start, stop):
    C = P.shape[1]
    tile, parts, before_, ahead, found = new_lines(C), new_lines(C), new_lines(C), new_lines(C), new_lines(C)
    draws, flags = new_lines(1), new_lines(2)
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        _tile.fill(P, u, first, count, penalty, k_reg, tile, draws, parts, before_, ahead, flags, found)
        for w in range(count):
            good = flags[0, w] == 0.0
            out_status[first + w] = OK if good else INVALID
            for j in range(C):
                out[first + w, j] = found[j, w] if good else np.nan


@jit()
def _draws(P, keys, out, start, stop):
    for r in range(start, stop):
        out[r] = draw(P[r], keys)


def row_draws(P, *, seed, num_threads=None):
    """Return the number of every row, from 0 to 1, that it and the seed make: nothing else."""
    flat, _, shape = rows(P, None)
    out = np.empty(len(flat))
    args = (flat, draw_keys(seed, flat.shape[1]), out)
    pool.run(_draws, args, len(flat), seconds=flat.size * SECONDS_PER_LABEL, num_threads=num_threads)
    return out.reshape(shape)


def rows(P, u):
    """Return probabilities and draws as kernels take them, a row to each; and the shape of the rows."""
    shape, C = P.shape[:-1], P.shape[-1]
    flat = np.ascontiguousarray(batches.as_floating(P)).reshape(math.prod(shape), C)
    draws = np.empty(0) if u is None else np.ascontiguousarray(u, np.float64).reshape(-1)
    flat.setflags(write=False)
    draws.setflags(write=False)
    return flat, draws, shape


def scores(P, y, u, *, method, lam, k_reg, num_threads=None):
    """Return the scores of the labels `y`, or of all without them, and the status of every row."""
    flat, draws, shape = rows(P, u)
    n, C = flat.shape
    options = (METHODS[method] == LAC, int(np.rint(lam * UNITS)), k_reg)
    status = np.empty(n, np.int8)
    if y is not None:
        labels = np.ascontiguousarray(y, np.int64).reshape(n)
        labels.setflags(write=False)
        out = np.empty(n)
        seconds = n * C * SECONDS_PER_LABEL
        given = (flat, labels, draws)
        if 0 < C <= _tile.MOST_CLASSES and not options[0]:
            few = (*given, *options[1:], out, status)
            pool.run(_of_few_labels, few, n, seconds=seconds, tile=WIDTH, num_threads=num_threads)
        else:
            pool.run(_of_labels, (*given, *options, out, status), n, seconds=seconds, num_threads=num_threads)
        return out.reshape(shape), status.reshape(shape)
    out = np.empty((n, C))
    seconds = n * C * SECONDS_PER_RANK
    if C <= _tile.MOST_CLASSES and not options[0]:
        args = (flat, draws, *options[1:], out, status)
        pool.run(_of_few, args, n, seconds=seconds, tile=WIDTH, num_threads=num_threads)
    else:
        pool.run(_of_all, (flat, draws, *options, out, status), n, seconds=seconds, num_threads=num_threads)
    return out.reshape(*shape, C), status.reshape(shape)
