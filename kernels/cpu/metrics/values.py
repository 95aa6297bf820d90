"""The sums of confusion matrices, and every metric as a function of them, in one pass over the cells."""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, fetch, load, new_lines, some, store_row, where
from cmfast.kernels.cpu.metrics import _formulas, _lanes, _lanes_exact, _margins
from cmfast.kernels.cpu.metrics._margins import Demands, Given, classes_of, status_line, total_line
from cmfast.kernels.shared.metrics import Mode
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_CELL = 3e-10
SECONDS_PER_VALUE = 2e-10  # one step of a plan, for one class
BLOCK_BYTES = 400_000  # sums of one block: half of a second cache
PRESENT = int(Mode.PRESENT)


# Plain tuples come from Python, which are unpacked twice as fast as named ones; kernels give them their names.


class _Results(NamedTuple):
    """What a plan makes: numbers (scalar, matrix), tables (table, matrix, class), the statuses."""

    scalars: Any
    tables: Any
    status: Any


def _cells(M):
    """Return `M`, one matrix a row, in a type that the kernels are compiled for: int64, int32, float64 or float32."""
    if M.dtype.kind == "f":
        M = M if M.dtype in (np.float64, np.float32) else M.astype(np.float64)
    elif M.dtype == np.uint64:
        M = M.view(np.int64)  # what int64 cannot hold looks negative, which is refused as well
    elif M.dtype not in (np.int64, np.int32):
        M = M.astype(np.int64 if M.dtype == np.uint32 else np.int32)
    flat = batches.flat_batch(M, 2)
    return flat.reshape(len(flat), M.shape[-1] ** 2)


@jit()
def _load(M, C, demands, sums, start, stop):
    """Fill `sums` (tile, line, lane) with those of the matrices from `start` to `stop`."""
    demands = Demands(*demands)
    scratch = _margins.new_scratch(C)
    for i in range(sums.shape[0]):
        first = start + i * WIDTH
        last = min(first + WIDTH, stop) - 1
        _margins.load_tile(M, C, first, last, demands, sums[i], scratch)


@jit()
def _load_sums(given, demands, sums, start, stop):
    given, demands = Given(*given), Demands(*demands)
    for i in range(sums.shape[0]):
        for w in range(WIDTH):
            b = min(start + i * WIDTH + w, stop - 1)
            _margins.load_sums(given, b, w, demands, sums[i])


@jit()
def _evaluate(sums, exact, plan, out, start, stop):
    """Run `plan` on the `sums` of the matrices from `start` to `stop`."""
    C, out = classes_of(sums), _Results(*out)
    S = new_lines(_lanes.TABLES * C + _lanes.NUMBERS + plan.registers)
    results = _lanes.TABLES * C + _lanes.NUMBERS
    for i in range(sums.shape[0]):
        first = start + i * WIDTH
        count = min(WIDTH, stop - first)
        tile = sums[i]
        if not exact:
            _margins.bring_near(tile, C)
        _lanes.derive(tile, S, C, plan.products, plan.ordered)
        status = load(tile, status_line(C))
        if some(status == _margins.WIDE):
            for w in range(WIDTH):
                if tile[status_line(C), w] == _margins.WIDE:
                    _lanes_exact.fill_lane(tile.view(np.int64), S, C, w, plan.products, plan.ordered)
                    tile[status_line(C), w] = OK
        _lanes.finish(S, C, plan.mode == PRESENT, plan.rates)
        _formulas.run(plan, S, C, out.tables, first, count)
        _write(tile, S, C, results, first, count, out)


@jit(inline=True)
def _write(tile, S, C, results, first, count, out):
    scalars = out.scalars
    bad = load(tile, status_line(C)) != OK
    if count == WIDTH:
        for scalar in range(scalars.shape[0]):
            store_row(scalars, scalar, first, where(bad, np.nan, load(S, results + scalar)))
            fetch(scalars, scalar, first + WIDTH)  # many rows are written side by side
    else:
        for scalar in range(scalars.shape[0]):
            for w in range(count):
                code = tile[status_line(C), w]
                scalars[scalar, first + w] = S[results + scalar, w] if code == OK else np.nan
    for w in range(count):
        code = tile[status_line(C), w]
        out.status[first + w] = code
        if code != OK:
            out.tables[:, first + w] = np.nan


@jit()
def _margins_of(M, exact, blank, out, out_total, out_status, start, stop):
    C = out.shape[2]
    sums, scratch = new_lines(status_line(C) + 1), _margins.new_scratch(C)
    whole, demands = sums.view(np.int64), Demands(True, exact, _margins.EXACT)
    for first in range(start, stop, WIDTH):
        last = min(first + WIDTH, stop) - 1
        _margins.load_tile(M, C, first, last, demands, sums, scratch)
        for w in range(last - first + 1):
            b, code = first + w, sums[status_line(C), w]
            wide, bad = code == _margins.WIDE, code == INVALID
            out_status[b] = INVALID if bad else OK
            for part in range(_margins.SUMS):
                for k in range(C):
                    out[part, b, k] = blank
                    if wide:
                        out[part, b, k] = whole[part * C + k, w]
                    elif not bad:
                        out[part, b, k] = sums[part * C + k, w]
            out_total[b] = blank
            if wide:
                out_total[b] = whole[total_line(C), w]
            elif not bad:
                out_total[b] = sums[total_line(C), w]


def margins(M, *, num_threads=None):
    """Diagonal, row sums, column sums, sums by distance from the diagonal and by larger class; total; status."""
    C, batch = M.shape[-1], M.shape[:-2]
    exact = M.dtype.kind != "f"
    dtype = np.int64 if exact else np.float64
    n = math.prod(batch)
    out, total, status = np.empty((_margins.SUMS, n, C), dtype), np.empty(n, dtype), np.empty(n, np.int8)
    blank = np.int64(0) if exact else np.nan  # what a bad matrix gets
    args = (_cells(M), exact, blank, out, total, status)
    seconds = n * C * C * SECONDS_PER_CELL
    if n:
        pool.run(_margins_of, args, n, seconds=seconds, tile=WIDTH, num_threads=num_threads)
    return (*(part.reshape(*batch, C) for part in out), total.reshape(batch), status.reshape(batch))


def metrics_of_matrices(M, *, plan, num_threads=None):
    """Run `plan` on every matrix; its scalars, its per-class results, the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    cells = _cells(M)

    def fill(demands, sums, start, stop):
        _load(cells, C, demands, sums, start, stop)

    return _run(fill, (M,), C, batch, C * C, plan, num_threads)


def metrics_of_sums(d, t, p, bands, tops, *, plan, num_threads=None):
    """Run `plan` on sums alone; `bands` and `tops` may be None where no step needs them."""
    C, batch = t.shape[-1], t.shape[:-1]
    given = (d, t, p, bands, tops)
    dtype = np.float64 if _fractions(*given) else np.int64
    absent = np.empty((0, C), dtype)
    flat = tuple(batches.flat_batch(absent if a is None else _sums(a, dtype), 1) for a in given)

    def fill(demands, sums, start, stop):
        _load_sums(flat, demands, sums, start, stop)

    return _run(fill, given, C, batch, _margins.SUMS * C, plan, num_threads)


def _fractions(*arrays):
    return any(a is not None and a.dtype.kind == "f" for a in arrays)


def _sums(a, dtype):
    return a.view(np.int64) if a.dtype == np.uint64 and dtype == np.int64 else a.astype(dtype, copy=False)


def _run(fill, given, C, batch, cells, plan, num_threads):
    """Sum and evaluate block by block: two kernels, so that each is compiled for few types, over sums in the cache."""
    n = math.prod(batch)
    exact = not _fractions(*given)
    kind = batches.result_dtype(*(a for a in given if a is not None))
    scalars, tables = np.empty((plan.scalars, n), kind), np.empty((plan.tables, n, C), kind)
    out = scalars, tables, np.empty(n, np.int8)
    demands = plan.ordered, exact, float(_lanes.largest_total(C, plan.ordered))
    lines = _margins.SUMS * C + 2  # and total and status
    tiles = max(1, BLOCK_BYTES // (8 * WIDTH * lines))
    block = tiles * WIDTH

    def work(_, start, stop):
        count = min(tiles, -(-(stop - start) // WIDTH))
        memory = new_lines(count * lines).reshape(count, lines, WIDTH)
        for first in range(start, stop, block):
            last = min(first + block, stop)
            sums = memory[: -(-(last - first) // WIDTH)]
            fill(demands, sums, first, last)
            _evaluate(sums, exact, plan, out, first, last)

    seconds = n * (cells * SECONDS_PER_CELL + len(plan.steps) * C * SECONDS_PER_VALUE)
    if n:
        pool.run_pieces(work, pool.pieces(n, seconds, tile=block), seconds=seconds, num_threads=num_threads)
    each = (*(row.reshape(batch) for row in scalars), *(table.reshape(*batch, C) for table in tables))
    return (*each, out[-1].reshape(batch))


@jit()
def _weighted_kappa(M, W, fill, exact, out, out_status, start, stop):
    C = len(W)
    sums, scratch = new_lines(status_line(C) + 1), _margins.new_scratch(C)
    whole, demands = sums.view(np.int64), Demands(False, exact, _margins.EXACT)
    truth, prediction = np.empty(C), np.empty(C)
    for first in range(start, stop, WIDTH):
        last = min(first + WIDTH, stop) - 1
        _margins.load_tile(M, C, first, last, demands, sums, scratch)
        for w in range(last - first + 1):
            code = sums[status_line(C), w]
            if code == _margins.WIDE:
                for k in range(status_line(C)):
                    sums[k, w] = whole[k, w]
            n = sums[total_line(C), w]
            for k in range(C):
                truth[k], prediction[k] = sums[C + k, w] / n, sums[2 * C + k, w] / n
            out[first + w] = _disagreement(M[first + w], W, truth, prediction, n, fill)
            bad = code == INVALID or (C > 0 and not _weighs(W))
            out_status[first + w] = INVALID if bad else OK
            if bad:
                out[first + w] = np.nan


@jit()
def _disagreement(m, W, truth, prediction, n, fill):
    C = len(truth)
    met, expected = 0.0, 0.0
    for i in range(C):
        row = 0.0
        for j in range(C):
            met += W[i, j] * (m[i * C + j] / n)
            row += W[i, j] * prediction[j]
        expected += truth[i] * row
    return (expected - met) / expected if expected > 0.0 else fill


@jit()
def _weighs(W):
    """Whether `W` is a table of disagreement: nothing negative or without end, zeros on the diagonal."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            if not 0.0 <= W[i, j] < np.inf or (i == j and W[i, j] != 0.0):
                return False
    return True


def weighted_kappa(M, W, *, fill, num_threads=None):
    """Cohen 1968: one minus weighted disagreement over that expected from the margins; and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    n = math.prod(batch)
    out, status = np.empty(n, batches.result_dtype(M)), np.empty(n, np.int8)
    table = np.array(W, np.float64, order="C")
    args = (_cells(M), table, float(fill), M.dtype.kind != "f", out, status)
    seconds = 8 * n * C * C * SECONDS_PER_CELL
    if n:
        pool.run(_weighted_kappa, args, n, seconds=seconds, tile=WIDTH, num_threads=num_threads)
    return out.reshape(batch), status.reshape(batch)
