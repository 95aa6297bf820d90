"""Matrix scaling of logarithms of cells: ``ipf`` of exponentials that are brought into range first.

Subtracting a number from every logarithm of a line changes its factor alone. Where that does not bring all cells into
the range of float64 the logarithms are halved until it does: the scaled matrix of ``L / 2``, its cells squared and
divided by the targets of their row and column, has the scaled matrix of ``L`` as its own, and is near it, since every
cell of a matrix of given sums lies on a cycle of cells that are not much smaller. So each of these steps is a problem
of cells in range, whose factors are small, and cells of it that are not in range do not matter to the others.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, load_row, new_lines, store, store_row
from cmfast.kernels.cpu._core.vector_functions import exp, log
from cmfast.kernels.cpu.scaling._log_domain import scale_in_logs
from cmfast.kernels.cpu.scaling.launch import ipf
from cmfast.kernels.status import LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED

SPREAD = 300.0  # between logarithms of cells that one problem takes
LEAST = 1.000001 * math.exp(-SPREAD)  # cells up to it were not in range
SECONDS_PER_CELL = 4e-9


@jit()
def _begin(cells, R, halvings, a, b, start, stop):
    """Find what to add to the rows, then to the columns, so that 0 is the largest logarithm; and how often to halve.

    In quarters, whose differences do not overflow. What is NaN, or infinite and positive, makes NaN.
    """
    C = b.shape[1]
    for k in range(start, stop):
        row, col, p = a[k], b[k], cells[k]
        row[:], col[:] = -np.inf, -np.inf
        bad = False
        for i in range(R):
            for j in range(C):
                x = p[i * C + j]
                bad |= not x < np.inf
                row[i] = max(row[i], 0.25 * x)
            row[i] = row[i] if row[i] > -np.inf else 0.0
        for i in range(R):
            for j in range(C):
                col[j] = max(col[j], 0.25 * p[i * C + j] - row[i])
        least = 0.0
        for j in range(C):
            col[j] = col[j] if col[j] > -np.inf else 0.0
        for i in range(R):
            for j in range(C):
                if p[i * C + j] > -np.inf:
                    least = min(least, 0.25 * p[i * C + j] - row[i] - col[j])
        number, unit = 0, -4.0
        while least * -unit < -SPREAD and not bad:
            number, unit = number + 1, 0.5 * unit
        halvings[k] = number
        for i in range(R):
            row[i] = np.nan if bad else row[i] * unit
        for j in range(C):
            col[j] *= unit


@jit()
def _shift(cells, R, part, a, b, start, stop):
    """Make logarithms times `part`, with what is added to their lines, of zeros and of what is in range."""
    C = b.shape[1]
    for k in range(start, stop):
        row, col, p = a[k], b[k], cells[k]
        for i in range(R):
            for j in range(C):
                x = p[i * C + j] * part + row[i] + col[j]
                p[i * C + j] = x if not -np.inf < x < -SPREAD else -SPREAD


@jit()
def _exponentiate(flat, start, stop):
    """Replace numbers by their exponentials."""
    for k in range(start, stop - WIDTH + 1, WIDTH):
        store_row(flat, 0, k, exp(load_row(flat, 0, k)))
    rest = (stop - start) % WIDTH
    if rest:
        S = new_lines(1)
        for w in range(WIDTH):
            S[0, w] = flat[0, stop - rest + w] if w < rest else 0.0
        store(S, 0, exp(load(S, 0)))
        for w in range(rest):
            flat[0, stop - rest + w] = S[0, w]


@jit()
def _add_logarithms(factors, sums):
    """Add the logarithms of factors to numbers."""
    S = new_lines(1)
    for first in range(0, len(factors), WIDTH):
        last = min(first + WIDTH, len(factors))
        for w in range(WIDTH):
            S[0, w] = factors[first + w] if first + w < last else 1.0
        store(S, 0, log(load(S, 0)))
        for k in range(first, last):
            sums[k] += S[0, k - first]


@jit()
def _gauge(a, b):
    """Make the mean of what is added to the rows zero."""
    for k in range(len(a)):
        total, number = 0.0, 0
        for i in range(a.shape[1]):
            if a[k, i] != -np.inf:
                total, number = total + a[k, i], number + 1
        mean = total / number if number > 0 else 0.0
        for i in range(a.shape[1]):
            a[k, i] -= mean
        for j in range(b.shape[1]):
            b[k, j] += mean


class _Sums(NamedTuple):
    """What is added to the logarithms of rows and of columns, and how often these are halved."""

    row: np.ndarray
    col: np.ndarray
    halvings: np.ndarray

    def take(self, places: np.ndarray) -> "_Sums":
        """Return those of some matrices."""
        return _Sums(self.row[places], self.col[places], self.halvings[places])


def ipf_of_logits(L, row_sums, col_sums, /, *, num_threads=None, progress=None, **options):
    """Scale the exponentials of every matrix to the margins given, ones where None; factors come as logarithms."""
    R, C = L.shape[-2:]
    targets = u, v = [None if a is None else a.astype(np.float64) for a in (row_sums, col_sums)]
    kind = batches.result_dtype(L, *(a for a in (row_sums, col_sums) if a is not None))
    cells = _in_float64(L).reshape(math.prod(L.shape[:-2]), R * C)
    sums = _begun(cells, R, C, num_threads)
    if sums.halvings.any():
        batch = np.broadcast_shapes(L.shape[:-2], *(a.shape[:-1] for a in targets if a is not None))
        n = math.prod(batch)
        every = np.broadcast_to(np.arange(len(cells)).reshape(L.shape[:-2]), batch).reshape(n)
        lines = [None if a is None else np.broadcast_to(a, (*batch, a.shape[-1])).reshape(n, -1) for a in targets]
        out = _in_steps(cells[every], sums.take(every), *lines, num_threads=num_threads, **options)
        shaped = [a.reshape((*batch, *a.shape[1:])) for a in out]
    else:
        _exponentials(cells, R, 1.0, sums, num_threads)
        out = ipf(cells.reshape(L.shape), u, v, None, None, num_threads=num_threads, progress=progress, **options)
        shaped = [np.asarray(a) for a in out]
        for place, given in enumerate(sums[:2], 1):
            line = given.reshape(*L.shape[:-2], given.shape[1])
            shaped[place] = np.array(np.broadcast_to(line, shaped[place].shape), order="C")
        _add(out[1:3], shaped[1:3])
    if (np.asarray(shaped[5]) == RANGE).any():
        shaped = _without_range(L, targets, [np.array(a) for a in shaped], num_threads=num_threads, **options)
    matrix, row, col, *numbers = shaped
    n = math.prod(row.shape[:-1])  # -1 would not do where there are no cells
    _gauge(row.reshape(n, R), col.reshape(n, C))
    return matrix.astype(kind, copy=False), row, col, *(a if a.ndim else a[()] for a in numbers)


def _in_steps(cells, sums, u, v, *, num_threads, **options):
    """Scale matrices of which some must be halved, all of which have their own targets."""
    n, R, C = len(cells), sums.row.shape[1], sums.col.shape[1]
    options["num_threads"] = num_threads
    out = (np.full((n, R, C), np.nan), *(np.full((n, k), np.nan) for k in (R, C)))
    numbers = np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, np.int8), np.zeros(n), np.full(n, np.nan)
    residual, n_iter, status, _, line_error = numbers
    limits, going = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    for number in range(sums.halvings.max(), -1, -1):
        pool.checkpoint()
        now = np.flatnonzero((sums.halvings >= number) & going)
        some, part = sums.take(now), cells[now]
        of_now = [None if a is None else a[now] for a in (u, v)]
        _exponentials(part, R, 0.5**number, some, num_threads)
        found = [np.array(a) for a in ipf(part.reshape(-1, R, C), of_now[0], of_now[1], None, None, **options)]
        dead = (found[5] == LIMIT_ONLY) & (number > 0)
        if dead.any():  # zeros of the limit are those of every step
            live = found[0][dead].reshape(-1, R * C) > 0.0
            limits[now[dead]] = True
            cells[now[dead]] = np.where(live, cells[now[dead]], -np.inf)
            again = (part[dead] * live).reshape(-1, R, C)
            r, c = (None if a is None else a[dead] for a in of_now)
            new = ipf(again, r, c, None, None, **options)
            for a, b in zip(found, new, strict=True):
                a[dead] = b
        _add(found[1:3], some[:2])
        n_iter[now] += found[4]
        going[now] = (found[5] == OK) | (found[5] == MAX_ITER) | (found[5] == UNDETERMINED)
        ended = ~going[now] | (number == 0)
        places = now[ended]
        ends = found[0], *some[:2], found[3], found[5], found[7]
        for to, a in zip((*out, residual, status, line_error), ends, strict=True):
            to[places] = a[ended]
        if number == 0:
            _mend(out[0], cells, part, now, some, num_threads)
        for line, to, target in zip(some[:2], sums[:2], of_now, strict=True):
            to[now] = 2.0 * line - (0.0 if target is None else _logarithms(target))
    status[limits & (status == OK)] = LIMIT_ONLY
    out[1][limits], out[2][limits] = np.nan, np.nan
    return *out, *numbers


def _without_range(L, targets, found, *, num_threads, empty="nan", **options):
    """Scale those matrices in logarithms throughout whose factors left the range of float64 on the way."""
    matrix, row, col, residual, n_iter, status, _, line_error = found
    R, C = L.shape[-2:]
    for index in map(tuple, np.argwhere(status == RANGE)):
        logs = np.broadcast_to(L, (*status.shape, R, C))[index].astype(np.float64)
        there = (logs > -np.inf).astype(np.float64)
        u, v = (
            np.ones(size) if a is None else np.broadcast_to(a, (*status.shape, size))[index].copy()
            for a, size in zip(targets, (R, C), strict=True)
        )
        if not max(u.sum(), v.sum()) < np.inf:
            continue
        limit = OK
        if not there.all():  # which of them no cell outlives, their sizes do not say
            rows, cols = (None, None) if targets[0] is None else (u, v)
            zeros = ipf(there, rows, cols, None, None, empty=empty, num_threads=num_threads)
            if zeros[5] not in (OK, LIMIT_ONLY, UNDETERMINED):
                status[index] = zeros[5]
                continue
            limit = LIMIT_ONLY if zeros[5] == LIMIT_ONLY else OK
            u, v = u * zeros[0].any(1), v * zeros[0].any(0)
            logs = np.where(zeros[0] > 0.0, logs, -np.inf)
        one = scale_in_logs(logs, u, v, **options)
        matrix[index], row[index], col[index], residual[index], passes, code, line_error[index] = one
        n_iter[index] += passes
        status[index] = limit if code == OK else code
        if code == RANGE:
            matrix[index], row[index], col[index], residual[index], line_error[index] = (np.nan,) * 5
        elif limit == LIMIT_ONLY:
            row[index], col[index] = np.nan, np.nan
    return found


def _mend(matrix, cells, part, now, some, num_threads):
    """Give cells that were not in range in the last step what they are."""
    halved = some.halvings > 0
    with np.errstate(all="ignore"):
        lines = some.row[halved][:, :, None] + some.col[halved][:, None, :]
        exact = cells[now[halved]].reshape(lines.shape) + lines
    found = matrix[now[halved]]
    least = (part[halved].reshape(lines.shape) <= LEAST) & (found > 0.0)
    values = exact[least]
    _run(_exponentiate, values, num_threads)
    found[least] = values
    matrix[now[halved]] = found


def _begun(cells, R, C, num_threads):
    n = len(cells)
    sums = _Sums(np.empty((n, R)), np.empty((n, C)), np.empty(n, np.int64))
    arguments = (cells, R, sums.halvings, sums.row, sums.col)
    pool.run(_begin, arguments, n, seconds=cells.size * SECONDS_PER_CELL, num_threads=num_threads)
    return sums


def _exponentials(cells, R, part, sums, num_threads):
    """Replace the logarithms of cells by cells in range."""
    arguments = (cells, R, part, sums.row, sums.col)
    pool.run(_shift, arguments, len(cells), seconds=cells.size * SECONDS_PER_CELL, num_threads=num_threads)
    _run(_exponentiate, cells, num_threads)


def _run(kernel, numbers, num_threads):
    flat = numbers.reshape(1, -1)
    pool.run(kernel, (flat,), flat.size, seconds=flat.size * SECONDS_PER_CELL, tile=WIDTH, num_threads=num_threads)


def _add(factors, sums):
    for one, to in zip(factors, sums, strict=True):
        _add_logarithms(np.array(one, np.float64).reshape(-1), to.reshape(-1))


def _logarithms(targets):
    """Return the logarithms of targets, 0 of those that are zero."""
    logs = np.zeros(targets.shape)
    _add_logarithms(np.where(targets > 0.0, targets, 1.0).reshape(-1), logs.reshape(-1))
    return logs


def _in_float64(a):
    """Return a copy in float64 that can be written."""
    return np.array(a, np.float64, order="C")
