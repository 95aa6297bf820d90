"""The op ``ipf_of_logits``: scale exponentials of logits (log cells) that may exceed the float64 range.

A shift of the logits of a row or column changes its factor alone. Where shifts do not bring all cells into range the
logits are halved until they do (homotopy): the scaled matrix of ``L / 2``, its cells squared and divided by their row
and column targets, has the scaled matrix of ``L`` as its own and is near it. So each step is a problem with cells in
range and small factors, and its cells below the range do not matter to the others.
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
from cmfast.kernels.shared.scaling import LEAST_RESIDUAL
from cmfast.kernels.status import LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED

MOST_LOGIT_SPREAD = 300.0  # largest difference of log cells in one problem
MAX_RAISED_CELL = 1.000001 * math.exp(-MOST_LOGIT_SPREAD)  # cells up to it were below the range and raised to it
LEAST_RAISED_DEPTH = 0.5 * MOST_LOGIT_SPREAD  # rows and columns whose largest log cell is below minus this are raised
NEGLIGIBLE = 0.01  # largest share of a row or column that cells out of range may have together, in tolerances
MOST_REPEATS = 30  # repetitions of a step
MAX_PLAIN_SHIFT = 2.0**10  # shifts up to it round cells by at most 1e-12, relative; larger ones need two-sums
MOST_LOGIT = 2.0**1020  # logits whose sums do not overflow
SECONDS_PER_LOGIT = 4e-9


@jit()
def _compute_shifts(cells, R, halvings, a, b, start, stop):
    """Compute shifts of rows, then columns, that make the largest log cell 0, and the number of halvings needed.

    In quarters, whose differences do not overflow. NaN and positive infinity give NaN shifts.
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
        while least * -unit < -MOST_LOGIT_SPREAD and not bad:
            number, unit = number + 1, 0.5 * unit
        halvings[k] = number
        for i in range(R):
            row[i] = np.nan if bad else row[i] * unit
        for j in range(C):
            col[j] *= unit


@jit()
def _add_three(x, y, z):
    """Return the sum of three numbers with the rounding errors of both additions (Knuth's two-sum)."""
    first = x + y
    total = first + z
    t, w = first - x, total - first
    whole = total + ((x - (first - t)) + (y - t) + (first - (total - w)) + (z - w))
    return whole if whole - whole == 0.0 else total


@jit()
def _shift_cells(cells, R, part, a, b, start, stop):
    """Multiply log cells by `part` and add the shifts, in place; values below -MOST_LOGIT_SPREAD are raised to it."""
    C = b.shape[1]
    for k in range(start, stop):
        row, col, p = a[k], b[k], cells[k]
        largest = 0.0
        for i in range(R):
            largest = max(largest, abs(row[i]))
        for j in range(C):
            largest = max(largest, abs(col[j]))
        if largest > MAX_PLAIN_SHIFT:
            for i in range(R):
                for j in range(C):
                    x = _add_three(p[i * C + j] * part, row[i], col[j])
                    p[i * C + j] = -MOST_LOGIT_SPREAD if x < -MOST_LOGIT_SPREAD and p[i * C + j] > -np.inf else x
        else:
            for i in range(R):
                for j in range(C):
                    x = p[i * C + j] * part + row[i] + col[j]
                    p[i * C + j] = x if not -np.inf < x < -MOST_LOGIT_SPREAD else -MOST_LOGIT_SPREAD


@jit()
def _raise_lines(cells, R, part, a, b, start, stop):
    """Increase the shifts of rows, then columns, whose largest log cell is far below zero, in place."""
    C = b.shape[1]
    for k in range(start, stop):
        row, col, p = a[k], b[k], cells[k]
        for i in range(R):
            top = -np.inf
            for j in range(C):
                top = max(top, _add_three(p[i * C + j] * part, row[i], col[j]))
            if -np.inf < top < -LEAST_RAISED_DEPTH:
                row[i] -= top
        for j in range(C):
            top = -np.inf
            for i in range(R):
                top = max(top, _add_three(p[i * C + j] * part, row[i], col[j]))
            if -np.inf < top < -LEAST_RAISED_DEPTH:
                col[j] -= top


@jit()
def _add_shifts(cells, R, a, b, start, stop):
    """Add the shifts of rows and columns to log cells, in place."""
    C = b.shape[1]
    for k in range(start, stop):
        for i in range(R):
            for j in range(C):
                cells[k, i * C + j] = _add_three(cells[k, i * C + j], a[k, i], b[k, j])


@jit()
def _exponentiate(flat, start, stop):
    """Replace values by their exponentials, in place."""
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
    """Add the logarithms of factors to `sums`, in place."""
    S = new_lines(1)
    for first in range(0, len(factors), WIDTH):
        last = min(first + WIDTH, len(factors))
        for w in range(WIDTH):
            S[0, w] = factors[first + w] if first + w < last else 1.0
        store(S, 0, log(load(S, 0)))
        for k in range(first, last):
            sums[k] += S[0, k - first]


@jit()
def _normalize_shifts(a, b):
    """Normalise log factors in place: the finite ones of the rows get mean zero."""
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


class _Shifts(NamedTuple):
    """Shifts of the log cells of rows and columns, and the number of halvings."""

    row: np.ndarray
    col: np.ndarray
    halvings: np.ndarray

    def take(self, places: np.ndarray) -> "_Shifts":
        """Return the shifts of the matrices at `places`."""
        return _Shifts(self.row[places], self.col[places], self.halvings[places])


def ipf_of_logits(L, row_sums, col_sums, /, *, num_threads=None, progress=None, **options):
    """Scale the exponentials of logits to the given margins (ones where None); factors are returned as logarithms."""
    R, C = L.shape[-2:]
    targets = u, v = [None if a is None else a.astype(np.float64) for a in (row_sums, col_sums)]
    kind = batches.result_dtype(L, *(a for a in (row_sums, col_sums) if a is not None))
    cells = _copy_as_float64(L).reshape(math.prod(L.shape[:-2]), R * C)
    sums = _compute_all_shifts(cells, R, C, num_threads)
    if sums.halvings.any():
        batch = np.broadcast_shapes(L.shape[:-2], *(a.shape[:-1] for a in targets if a is not None))
        n = math.prod(batch)
        every = np.broadcast_to(np.arange(len(cells)).reshape(L.shape[:-2]), batch).reshape(n)
        lines = [None if a is None else np.broadcast_to(a, (*batch, a.shape[-1])).reshape(n, -1) for a in targets]
        out = _scale_by_halving(cells[every], sums.take(every), *lines, num_threads=num_threads, **options)
        shaped = [a.reshape((*batch, *a.shape[1:])) for a in out]
    else:
        _exponentiate_cells(cells, R, 1.0, sums, num_threads)
        out = ipf(cells.reshape(L.shape), u, v, None, None, num_threads=num_threads, progress=progress, **options)
        shaped = [np.asarray(a) for a in out]
        for place, given in enumerate(sums[:2], 1):
            line = given.reshape(*L.shape[:-2], given.shape[1])
            shaped[place] = np.array(np.broadcast_to(line, shaped[place].shape), order="C")
        _add_log_factors(out[1:3], shaped[1:3])
    if (np.asarray(shaped[5]) == RANGE).any():
        shaped = _scale_in_log_domain(L, targets, [np.array(a) for a in shaped], num_threads=num_threads, **options)
    matrix, row, col, *numbers = shaped
    n = math.prod(row.shape[:-1])  # reshape(-1) fails without cells
    _normalize_shifts(row.reshape(n, R), col.reshape(n, C))
    return matrix.astype(kind, copy=False), row, col, *(a if a.ndim else a[()] for a in numbers)


def _scale_by_halving(cells, sums, u, v, *, num_threads, **options):
    """Scale matrices in steps from L / 2**k to L, where the shifts do not bring all cells into range."""
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
        _exponentiate_cells(part, R, 0.5**number, some, num_threads)
        found = [np.array(a) for a in ipf(part.reshape(-1, R, C), of_now[0], of_now[1], None, None, **options)]
        dead = (found[5] == LIMIT_ONLY) & (number > 0)
        if dead.any():  # the zeros of the limit are the same in every step
            live = found[0][dead].reshape(-1, R * C) > 0.0
            limits[now[dead]] = True
            cells[now[dead]] = np.where(live, cells[now[dead]], -np.inf)
            again = (part[dead] * live).reshape(-1, R, C)
            r, c = (None if a is None else a[dead] for a in of_now)
            new = ipf(again, r, c, None, None, **options)
            for a, b in zip(found, new, strict=True):
                a[dead] = b
        _repeat_out_of_range(found, part, cells, now, some, of_now, 0.5**number, **options)
        if number == 0:
            _restore_small_cells(found, part, cells[now], some, of_now, num_threads)
        _add_log_factors(found[1:3], some[:2])
        n_iter[now] += found[4]
        going[now] = (found[5] == OK) | (found[5] == MAX_ITER) | (found[5] == UNDETERMINED)
        ended = ~going[now] | (number == 0)
        places = now[ended]
        ends = found[0], *some[:2], found[3], found[5], found[7]
        for to, a in zip((*out, residual, status, line_error), ends, strict=True):
            to[places] = a[ended]
        if number > 0:
            for line, to, target in zip(some[:2], sums[:2], of_now, strict=True):
                with np.errstate(over="ignore"):
                    to[now] = 2.0 * line - (0.0 if target is None else _compute_logarithms(target))
                wanted = True if target is None else target > 0.0
                far = now[going[now] & (np.isinf(to[now]) & wanted).any(1)]  # log factors overflow
                status[far], going[far] = RANGE, False
    status[limits & (status == OK)] = LIMIT_ONLY
    out[1][limits], out[2][limits] = np.nan, np.nan
    return *out, *numbers


def _repeat_out_of_range(found, part, cells, now, some, targets, share, **options):
    """Solve problems again, in place, with raised lines, while out-of-range cells have a share of a row or column."""
    R, C = found[0].shape[1:]
    for _ in range(MOST_REPEATS):
        again = np.flatnonzero(_find_out_of_range(found, part, targets, options["tol"]))
        if not len(again):
            return
        pool.checkpoint()
        cells_again, sums = cells[now[again]], some.take(again)
        _add_log_factors([a[again] for a in found[1:3]], sums[:2])
        _run_on_matrices(_raise_lines, cells_again, R, share, sums.row, sums.col, num_threads=options["num_threads"])
        _exponentiate_cells(cells_again, R, share, sums, options["num_threads"])
        r, c = (None if a is None else a[again] for a in targets)
        new = ipf(cells_again.reshape(-1, R, C), r, c, None, None, **options)
        passes = found[4][again]
        for a, b in zip((*found, part, some.row, some.col), (*new, cells_again, *sums[:2]), strict=True):
            a[again] = b
        found[4][again] += passes
    found[5][_find_out_of_range(found, part, targets, options["tol"])] = RANGE


def _find_out_of_range(found, part, targets, tol):
    """Return for each problem whether raised cells have more than a negligible share of a row or column."""
    matrix, status = found[0], found[5]
    least = NEGLIGIBLE * max(tol, LEAST_RESIDUAL)
    raised = np.where(part.reshape(matrix.shape) <= MAX_RAISED_CELL, matrix, 0.0)
    u, v = (1.0 if a is None else a for a in targets)
    large = (raised.sum(2) > least * u).any(1) | (raised.sum(1) > least * v).any(1)
    return large & ((status == OK) | (status == UNDETERMINED))


def _scale_in_log_domain(L, targets, found, *, num_threads, empty="nan", **options):
    """Scale the matrices with status RANGE again, in the log domain throughout, in place."""
    matrix, row, col, residual, n_iter, status, _, line_error = found
    R, C = L.shape[-2:]
    for index in map(tuple, np.argwhere(status == RANGE)):
        logs = np.broadcast_to(L, (*status.shape, R, C))[index].astype(np.float64)
        there = (logs > -np.inf).astype(np.float64)
        u, v = (
            np.ones(size) if a is None else np.broadcast_to(a, (*status.shape, size))[index].copy()
            for a, size in zip(targets, (R, C), strict=True)
        )
        if not max(u.sum(), v.sum()) < np.inf or np.abs(logs[there > 0.0]).max(initial=0.0) > MOST_LOGIT:
            continue
        limit = OK
        if not there.all():  # the zero pattern alone decides which cells vanish in the limit
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


def _restore_small_cells(found, part, cells, some, targets, num_threads):
    """Replace cells that were raised in the last step by their true scaled values, in place."""
    matrix, row, col, residual, _, status, _, line_error = found
    halved = some.halvings > 0
    few, sums = cells[halved], some.take(halved)
    _run_on_matrices(_add_shifts, few, matrix.shape[1], sums.row, sums.col, num_threads=num_threads)
    mended = matrix[halved]
    least = (part[halved].reshape(mended.shape) <= MAX_RAISED_CELL) & (mended > 0.0)
    factors = _compute_logarithms(row[halved])[:, :, None] + _compute_logarithms(col[halved])[:, None, :]
    values = few.reshape(mended.shape)[least] + factors[least]
    _run_on_values(_exponentiate, values, num_threads)
    mended[least] = values
    matrix[halved] = mended
    left = halved & (status == MAX_ITER)  # raised cells may have contributed to the measured sums
    lines = (None if a is None else a[left] for a in targets)
    residual[left], line_error[left] = _compute_residual(matrix[left], *lines)


def _compute_residual(P, u, v):
    """Return the row and column errors over the total, and the largest relative error of one, for each matrix."""
    u, v = (np.ones(size) if a is None else a for a, size in ((u, P.shape[1]), (v, P.shape[2])))
    v = v * (u.sum(-1, keepdims=True) / v.sum(-1, keepdims=True))
    gaps = np.abs(P.sum(2) - u), np.abs(P.sum(1) - v)
    worst = (np.divide(gap, t, out=np.zeros(gap.shape), where=t > 0.0) for gap, t in zip(gaps, (u, v), strict=True))
    return (gaps[0].sum(1) + gaps[1].sum(1)) / u.sum(-1), np.maximum(*(w.max(1, initial=0.0) for w in worst))


def _compute_all_shifts(cells, R, C, num_threads):
    """Compute the shifts and halvings of all matrices, in parallel."""
    n = len(cells)
    sums = _Shifts(np.empty((n, R)), np.empty((n, C)), np.empty(n, np.int64))
    _run_on_matrices(_compute_shifts, cells, R, sums.halvings, sums.row, sums.col, num_threads=num_threads)
    return sums


def _exponentiate_cells(cells, R, part, sums, num_threads):
    """Replace log cells by shifted cells in range, in place."""
    _run_on_matrices(_shift_cells, cells, R, part, sums.row, sums.col, num_threads=num_threads)
    _run_on_values(_exponentiate, cells, num_threads)


def _run_on_matrices(kernel, cells, *arguments, num_threads):
    """Run a kernel over all matrices, in parallel."""
    seconds = cells.size * SECONDS_PER_LOGIT
    pool.run(kernel, (cells, *arguments), len(cells), seconds=seconds, num_threads=num_threads)


def _run_on_values(kernel, numbers, num_threads):
    """Run a kernel over all values of an array, in parallel."""
    flat = numbers.reshape(1, -1)
    pool.run(kernel, (flat,), flat.size, seconds=flat.size * SECONDS_PER_LOGIT, tile=WIDTH, num_threads=num_threads)


def _add_log_factors(factors, sums):
    """Add the logarithms of the factors to the shifts, in place."""
    for one, to in zip(factors, sums, strict=True):
        _add_logarithms(np.array(one, np.float64).reshape(-1), to.reshape(-1))


def _compute_logarithms(lines):
    """Return the logarithms of targets or factors, 0 for zeros."""
    logs = np.zeros(lines.shape)
    _add_logarithms(np.where(lines > 0.0, lines, 1.0).reshape(-1), logs.reshape(-1))
    return logs


def _copy_as_float64(a):
    """Return a writable float64 copy."""
    return np.array(a, np.float64, order="C")
