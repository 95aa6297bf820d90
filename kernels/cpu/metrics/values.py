"""The sums of confusion matrices, and every metric as a function of them, in one pass over the cells."""

import math
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.streams import settle
from cmfast.kernels.cpu._core.vector import WIDTH, load, some, store, where
from cmfast.kernels.cpu.metrics import _formulas, _lanes, _lanes_exact, _margins, _passes
from cmfast.kernels.cpu.metrics._margins import FIRST, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.shared.metrics import Plan, as_counts_or_floats, as_sums, shape_results
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_SUMMED_CELL = 3e-10
SECONDS_PER_VALUE = 2e-10  # one step of a plan, for one class
WIDE_BYTES = 100_000  # of what is derived from HUGE matrices at a time
SUMS_BLOCK_BYTES = 500_000  # sums of one block: half of a second cache
MOST_KEPT_LINES = 2000  # lines, of 64 bytes, that are kept for the next call
MOST_FREE_BUFFERS = 4  # times as many lines
MOST_BUFFER_SIZES = 16  # numbers of lines of which there are any: some 8 MB
MOST_KEPT_CLASSES = 32  # up to which workspaces are kept, and plans for which there are any: some 10 MB
MOST_PLANS = 64
_workspaces: dict[Any, Any] = {}  # for one matrix, in which nobody works now
_free: dict[int, list[np.ndarray]] = {}  # lines that nobody works in now

# Totals between which sums are all that is needed: of fractions, beside them products leave the range of float64.
ANY_TOTALS, NEAR_TOTALS, EXACT_TOTALS = (0.0, math.inf), (1e-70, 1e70), (0.0, float(_margins.MOST_EXACT_TOTAL))


def cells_of(M):
    """Return `M`, one matrix a row, in a type that the kernels are compiled for: int64, int32, float64 or float32."""
    char = M.dtype.char
    if char in "lifd" and M.ndim == 2:
        flags = M.flags
        if flags.c_contiguous and not flags.writeable:
            return M.reshape(1, M.size)  # the short way
    if char not in "lifd":
        M = as_counts_or_floats(M)
    n, cells = math.prod(M.shape[:-2]), M.shape[-1] ** 2
    if M.flags.c_contiguous and not M.flags.writeable:
        return M.reshape(n, cells)
    return batches.flat_batch(M, 2).reshape(n, cells)


def _take_lines(n):
    """Return `n` lines to work in, none of which lies across two cache lines."""
    try:
        return _free[n].pop()
    except (KeyError, IndexError):
        return _margins.aligned_lines(n)


def _give_lines(lines):
    """Let the next call have lines that are few: making them takes as long as a matrix."""
    if len(lines) <= MOST_KEPT_LINES:
        if len(_free) > MOST_BUFFER_SIZES:
            _free.clear()
        free = _free.setdefault(len(lines), [])
        if len(free) < MOST_FREE_BUFFERS:
            free.append(lines)


def _new_rows(rows, n, kind):
    """Return `rows` rows of `n` numbers and some to spare, so that eight can be written wherever eight begin."""
    tiles = -(-n // WIDTH)
    if kind is np.float64 and n > WIDTH:
        return _margins.aligned_lines(rows * tiles).reshape(rows, tiles * WIDTH)
    return np.empty((rows, tiles * WIDTH), kind)


def filler(cells, C, ordered, usual):
    """Return ``fill(sums, scratch, start, stop)``, which sums matrices and says whether a total is unusual."""
    kernel = _margins.load_few if C <= _margins.MOST_LANE_CLASSES else _margins.load_many
    counts = cells.dtype.kind != "f"

    def fill(sums, scratch, start, stop):
        unusual = kernel(cells, C, ordered, usual, sums, scratch, start, stop)
        if unusual and counts:
            _margins.load_exactly(cells, C, usual[1], sums, start, stop)
        return unusual

    return fill


def over_blocks(fill, use, C, n, *, seconds, num_threads, lines=0):
    """Fill sums and use them block by block: two kernels, so that each is compiled for few types.

    ``use(sums, S, start, stop, unusual)`` gets `lines` lines to work in.
    """
    size = _margins.lines_of(C)
    tiles = max(1, SUMS_BLOCK_BYTES // (8 * WIDTH * size))
    block = tiles * WIDTH

    def work(_, start, stop):
        most = min(tiles, -(-(stop - start) // WIDTH)) * size
        memory = _take_lines(most + lines + _margins.scratch_lines(C))
        S, scratch = memory[most : most + lines], memory[most + lines :]
        for first in range(start, stop, block):
            if first > start:
                pool.checkpoint()
            last = min(first + block, stop)
            sums = memory[: -(-(last - first) // WIDTH) * size]
            use(sums, S, first, last, fill(sums, scratch, first, last))
        _give_lines(memory)

    if 0 < n <= block:
        work(0, 0, n)  # the short way: a single matrix costs microseconds
    elif n:
        pool.run_pieces(work, pool.pieces(n, seconds, tile=block), seconds=seconds, num_threads=num_threads)


@jit(borrows=True)
def _write_margins(sums, blank, out, out_total, out_status, start, stop):
    C = out.shape[2]
    whole = sums.view(np.int64)
    for first in range(start, stop, WIDTH):
        at = (first - start) // WIDTH * (FIRST + SUMS * C)
        for w in range(min(WIDTH, stop - first)):
            b, code = first + w, sums[at + STATUS_LINE, w]
            out_status[b] = INVALID if code == INVALID else OK
            out_total[b] = _entry(sums, whole, at + TOTAL_LINE, w, code, blank)
            for part in range(SUMS):
                for k in range(C):
                    out[part, b, k] = _entry(sums, whole, at + FIRST + part * C + k, w, code, blank)


@jit(inner=True, borrows=True)
def _entry(sums, whole, line, w, code, blank):
    if code == OK:
        return type(blank)(sums[line, w])
    return type(blank)(whole[line, w]) if code == _margins.HUGE else blank


def margins(M, *, num_threads=None):
    """Diagonal, row sums, column sums, sums by distance from the diagonal and by larger class; total; status."""
    C, batch = M.shape[-1], M.shape[:-2]
    exact = M.dtype.kind != "f"
    dtype = np.int64 if exact else np.float64
    n = math.prod(batch)
    out, total, status = np.empty((SUMS, n, C), dtype), np.empty(n, dtype), np.empty(n, np.int8)
    blank = dtype(0 if exact else np.nan)  # what a bad matrix gets

    def write(sums, _, start, stop, unusual):
        del unusual
        _write_margins(sums, blank, out, total, status, start, stop)

    fill = filler(cells_of(M), C, True, EXACT_TOTALS if exact else ANY_TOTALS)
    over_blocks(fill, write, C, n, seconds=n * C * C * SECONDS_PER_SUMMED_CELL, num_threads=num_threads)
    return (*(part.reshape(*batch, C) for part in out), total.reshape(batch), status.reshape(batch))


@jit(borrows=True)
def _evaluate(sums, C, plan, S, wide, out, start, stop):
    """Run `plan` on the `sums` of the matrices from `start` to `stop`; in `out` there are places for a last full tile.

    The plan comes as a plain tuple, as Numba checks the class of named ones, which a single matrix would notice. `wide`
    has what is derived from those that are HUGE, from `_derive_exactly`; else it may have no lines.
    """
    plan = Plan(*plan)
    _, tables, status = out
    lines = _lanes.TABLES * C + _lanes.NUMBERS
    for first in range(start, stop, WIDTH):
        tile = (first - start) // WIDTH
        at, count = tile * (FIRST + SUMS * C), min(WIDTH, stop - first)
        _lanes.derive(sums, at, plan, S, C)
        inexact = load(sums, at + STATUS_LINE) == float(_margins.HUGE)
        if len(wide) > 0 and some(inexact):
            store(sums, at + STATUS_LINE, where(inexact, float(OK), load(sums, at + STATUS_LINE)))
            for line in range(_lanes.MISSED * C, _lanes.TABLES * C + _lanes.TOTALS):
                store(S, line, where(inexact, load(wide, tile * lines + line), load(S, line)))
        if plan.pooled:
            _lanes.pool_classes(S, C, plan.members)
        _formulas.make_values(plan, S, C)
        _formulas.make_totals(sums, at, S, C, plan.products, plan.ordered)
        _formulas.finish(plan, sums, at, S, C, out, first, count)
        for w in range(count):
            code = sums[at + STATUS_LINE, w]
            status[first + w] = np.int8(code)
            if code != OK:
                for table in range(tables.shape[0]):
                    for k in range(C):
                        tables[table, first + w, k] = np.nan
    settle()


@jit(borrows=True)
def _derive_exactly(sums, C, plan, wide):
    """Fill `wide` with what is derived from the matrices that are HUGE, and the rest of their sums as float64."""
    plan = Plan(*plan)
    whole = sums.view(np.int64)
    lines = _lanes.TABLES * C + _lanes.NUMBERS
    for tile in range(len(sums) // (FIRST + SUMS * C)):
        at = tile * (FIRST + SUMS * C)
        for w in range(WIDTH):
            if sums[at + STATUS_LINE, w] == _margins.HUGE:
                _lanes_exact.fill_lane(sums, whole, at, plan, wide, tile * lines, C, w)


def metrics_of_matrices(M, *, plan, num_threads=None):
    """Run `plan` on every matrix; its scalars, its per-class results, the status."""
    if M.ndim == 2 and not (plan.again or plan.ordered):
        found = _of_one(M, plan)
        if found is not None:
            return found
    C, batch = M.shape[-1], M.shape[:-2]
    usual = _usual(C, plan, M)
    fill = filler(cells_of(M), C, plan.ordered, usual)
    return run(fill, (M,), usual, C, batch, C * C, plan, num_threads)


class _Workspace(NamedTuple):
    """What a plan is run in for one matrix, made once."""

    plan: Plan  # kept, so that no other gets its address
    steps: tuple[Any, ...]
    load: Any  # which kernel, between which totals, to which lines
    usual: tuple[float, float]
    sums: Any
    scratch: Any
    lines: Any
    no_lines: Any
    results: tuple[Any, Any, Any]
    scalars: Any  # of the results: those of the one matrix
    tables: Any


def _new_workspace(M, plan):
    C, kind = len(M), batches.result_dtype(M)
    size, lines = _margins.lines_of(C), _lanes.lines_of(C, plan)
    memory = _margins.aligned_lines(size + lines + _margins.scratch_lines(C))
    sums, S, scratch = memory[:size], memory[size : size + lines], memory[size + lines :]
    load = _margins.load_few if C <= _margins.MOST_LANE_CLASSES else _margins.load_many
    scalars, tables = np.empty((plan.scalars, WIDTH), kind), np.empty((plan.tables, 1, C), kind)
    results = scalars, tables, np.empty(1, np.int8)
    usual = _usual(C, plan, M)
    return _Workspace(plan, tuple(plan), load, usual, sums, scratch, S, S[:0], results, scalars[:, 0], tables[:, 0])


def _of_one(M, plan):
    """Run `plan` on one matrix; return None if its total is unusual.

    Nearly all of such a call would be Python: blocks, pieces and what joins the two kernels.
    """
    C, key = len(M), (id(plan), M.dtype, len(M))
    workspace = _workspaces.pop(key, None) or _new_workspace(M, plan)
    _, steps, load_cells, usual, sums, scratch, lines, no_lines, results, scalars, tables = workspace
    found = None
    if not load_cells(cells_of(M), C, False, usual, sums, scratch, 0, 1):
        _evaluate(sums, C, steps, lines, no_lines, results, 0, 1)
        numbers = [scalars[k] for k in range(len(scalars))]  # a third of the time that unpacking takes
        found = (*numbers, *(tables.copy() if len(tables) else ()), results[2][0])
    if C <= MOST_KEPT_CLASSES:
        if len(_workspaces) > MOST_PLANS:
            _workspaces.clear()
        _workspaces[key] = workspace
    return found


def metrics_of_sums(d, t, p, bands, tops, *, plan, num_threads=None):
    """Run `plan` on sums alone; `bands` and `tops` may be None where no step needs them."""
    C, batch = t.shape[-1], t.shape[:-1]
    given = [a for a in (d, t, p, bands, tops) if a is not None]
    exact, usual = not _fractions(given), _usual(C, plan, *given)
    dtype = np.int64 if exact else np.float64
    absent = np.empty((0, C), dtype)
    flat = tuple(
        batches.flat_batch(absent if a is None else as_sums(a, fractions=not exact), 1) for a in (d, t, p, bands, tops)
    )

    def fill(sums, _, start, stop):
        return _margins.load_sums(flat, exact, usual, sums, start, stop)

    return run(fill, given, usual, C, batch, SUMS * C, plan, num_threads)


def _usual(C, plan, *given):
    return NEAR_TOTALS if _fractions(given) else (0.0, _lanes.largest_total(C, plan.ordered))


def _fractions(arrays):
    for a in arrays:  # noqa: SIM110 - any() takes three times as long, which a single matrix would notice
        if a.dtype.kind == "f":
            return True
    return False


def run(fill, given, usual, C, batch, cells, plan, num_threads):
    """Run `plan` on the sums that `fill` makes, each from so many `cells`; its scalars, per-class results, the status.

    The types of results are those for the arrays `given`.
    """
    n, fractions, kind = math.prod(batch), _fractions(given), batches.result_dtype(*given)
    scalars, tables = _new_rows(plan.scalars, n, kind), np.empty((plan.tables, n, C), kind)
    status = np.empty(n, np.int8)
    out, steps = (scalars, tables, status), tuple(plan)

    def evaluate(sums, S, start, stop, unusual):
        if unusual and fractions:
            _margins.bring_near(sums, C, usual)
        if plan.ordered:
            _passes.derive_ordered(sums, C)
        if unusual and not fractions:
            _evaluate_exactly(sums, C, steps, S, out, start, stop)
            return
        if plan.again:
            _passes.reduce_again(sums, C, steps)
        _evaluate(sums, C, steps, S, S[:0], out, start, stop)

    seconds = n * (cells * SECONDS_PER_SUMMED_CELL + len(plan.steps) * C * SECONDS_PER_VALUE)
    lines = _lanes.lines_of(C, plan)
    over_blocks(fill, evaluate, C, n, seconds=seconds, num_threads=num_threads, lines=lines)
    if not batch:
        return (*scalars[:, 0], *tables[:, 0], status[0])  # the short way
    return (*shape_results(scalars[:, :n], tables, batch), status.reshape(batch))


def _evaluate_exactly(sums, C, plan, S, out, start, stop):
    """Do as `_evaluate` where a matrix may be HUGE."""
    size, lines = _margins.lines_of(C), _lanes.TABLES * C + _lanes.NUMBERS
    tiles = max(1, WIDE_BYTES // (8 * WIDTH * lines))
    wide = np.empty((tiles * lines, WIDTH))
    for first in range(start, stop, tiles * WIDTH):
        tile = (first - start) // WIDTH
        part, last = sums[tile * size : (tile + tiles) * size], min(first + tiles * WIDTH, stop)
        _derive_exactly(part, C, plan, wide)
        if Plan(*plan).again:
            _passes.reduce_again(part, C, plan)
        _evaluate(part, C, plan, S, wide, out, first, last)


@jit()
def _weighted_kappa(M, W, sums, fill, out, out_status, start, stop):
    C = len(W)
    whole = sums.view(np.int64)
    truth, prediction = np.empty(C), np.empty(C)
    for b in range(start, stop):
        at, w = (b - start) // WIDTH * (FIRST + SUMS * C), (b - start) % WIDTH
        code = sums[at + STATUS_LINE, w]
        if code == _margins.HUGE:
            for k in range(at, at + FIRST + SUMS * C):
                sums[k, w] = whole[k, w]
        n = sums[at + TOTAL_LINE, w]
        for k in range(at + FIRST, at + FIRST + C):
            truth[k - at - FIRST], prediction[k - at - FIRST] = sums[C + k, w] / n, sums[2 * C + k, w] / n
        bad = code == INVALID or (C > 0 and not _weighs(W))
        out_status[b] = INVALID if bad else OK
        out[b] = np.nan if bad else _disagreement(M, b, W, truth, prediction, n, fill)


@jit(inner=True, borrows=True)
def _disagreement(M, b, W, truth, prediction, n, fill):
    C = len(truth)
    met, expected = 0.0, 0.0
    for i in range(C):
        row = 0.0
        for j in range(C):
            met += W[i, j] * (M[b, i * C + j] / n)
            row += W[i, j] * prediction[j]
        expected += truth[i] * row
    return (expected - met) / expected if expected > 0.0 else fill


@jit(inner=True, borrows=True)
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
    cells, table = cells_of(M), np.array(W, np.float64, order="C")

    def use(sums, _, start, stop, unusual):
        del unusual
        _weighted_kappa(cells, table, sums, float(fill), out, status, start, stop)

    load = filler(cells, C, False, ANY_TOTALS if M.dtype.kind == "f" else EXACT_TOTALS)
    over_blocks(load, use, C, n, seconds=8 * n * C * C * SECONDS_PER_SUMMED_CELL, num_threads=num_threads)
    return out.reshape(batch), status.reshape(batch)
