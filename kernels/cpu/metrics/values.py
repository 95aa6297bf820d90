"""Class sums of confusion matrices, and every metric of a plan as a function of them, in one pass over the cells."""

import math
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.nontemporal import CACHE_LINE_BYTES, settle
from cmfast.kernels.cpu._core.vector import WIDTH, load, some, store, where
from cmfast.kernels.cpu.metrics import (
    _class_lanes,
    _copied_pieces,
    _derived_tables,
    _derived_tables_exact,
    _formulas,
    _margins,
    _row_ranges,
    _second_pass,
)
from cmfast.kernels.cpu.metrics._margins import FIRST, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.shared.addresses import find_address
from cmfast.kernels.shared.metrics import Plan, as_sums, shape_results
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_SUMMED_CELL = _row_ranges.SECONDS_PER_SUMMED_CELL
SECONDS_PER_VALUE = 2e-10  # one step of a plan, for one class
LEAST_TRACED_CELLS = 1000  # fewer take less time than another kernel
WIDE_BYTES = 100_000  # workspace of HUGE matrices
SUMS_BLOCK_BYTES = 500_000  # of class sums per block: half of a level-2 cache
PAST_BYTES = 2**24  # larger results are written with non-temporal stores
MOST_KEPT_LINES = 2000  # lines of 64 bytes in a buffer that is kept for the next call
MOST_FREE_BUFFERS = 4  # buffers kept of each size
MOST_BUFFER_SIZES = 16  # sizes of kept buffers: about 8 MB in total
MOST_KEPT_CLASSES = 32  # classes up to which workspaces are kept; with MOST_PLANS about 10 MB
MOST_PLANS = 64
_workspaces: dict[Any, Any] = {}  # idle single-matrix workspaces
_free: dict[int, list[np.ndarray]] = {}  # idle line buffers

# Totals of the common case: outside NEAR_TOTALS products of fractions leave the range of float64.
ANY_TOTALS, NEAR_TOTALS, EXACT_TOTALS = (0.0, math.inf), (1e-70, 1e70), (0.0, float(_margins.MOST_EXACT_TOTAL))


def _take_lines(n):
    """Return an aligned buffer of `n` lines, reusing an idle one."""
    try:
        return _free[n].pop()
    except (KeyError, IndexError):
        return _margins.aligned_lines(n)


def _give_lines(lines):
    """Keep a small line buffer for the next call: allocating it takes as long as a matrix."""
    if len(lines) <= MOST_KEPT_LINES:
        if len(_free) > MOST_BUFFER_SIZES:
            _free.clear()
        free = _free.setdefault(len(lines), [])
        if len(free) < MOST_FREE_BUFFERS:
            free.append(lines)


@lru_cache(maxsize=64)
def _list_starts(scalars, row, tables, table):
    """Return where results begin that follow each other: scalars every `row` numbers, then tables of `table` each."""
    return np.r_[np.arange(scalars) * row, np.arange(tables) * table + scalars * row].astype(np.int64)


def allocate_results(plan, C, batch, kind):
    """Allocate the results of a plan; return what kernels get of them, the scalars (S, n), and tables (T, n, C)."""
    n = math.prod(batch)
    row, table, lined = -(-n // WIDTH) * WIDTH, n * C, kind is np.float64 and n > WIDTH
    first = plan.scalars * row
    size = first + plan.tables * table
    memory = _margins.aligned_lines(-(-size // WIDTH)).reshape(1, -1) if lined else np.empty((1, size), kind)
    starts = _list_starts(plan.scalars, row, plan.tables, table)
    scalars, tables = memory[0, :first].reshape(plan.scalars, row), memory[0, first:size].reshape(plan.tables, n, C)
    out = memory, starts, np.empty(n, np.int8), True, lined and 8 * first > PAST_BYTES
    return out, scalars[:, :n], tables


def _use_results(plan, arrays, n):
    """Return what kernels get of given C-contiguous results: one memory that spans all of them, and their places."""
    addresses = np.array([find_address(a) for a in arrays], np.int64)
    lowest = arrays[addresses.argmin()]
    size = int((addresses + [a.nbytes for a in arrays]).max() - addresses.min())
    memory = as_strided(lowest, (1, size // lowest.itemsize), (size, lowest.itemsize))
    scalars = addresses[: plan.scalars]
    lined = lowest.dtype == np.float64 and not (scalars % CACHE_LINE_BYTES).any()
    past = lined and 8 * n * len(scalars) > PAST_BYTES
    return memory, (addresses - addresses.min()) // lowest.itemsize, np.empty(n, np.int8), False, past


def make_summing_kernel(cells, C, ordered, usual, num_threads):
    """Return ``fill(sums, scratch, start, stop)``, which sums matrices and returns whether a total is unusual.

    The matrices are flat, or a view of them.
    """
    if cells.ndim == 3:
        make = partial(make_summing_kernel, C=C, ordered=ordered, usual=usual, num_threads=1)
        return _copied_pieces.sum_in_pieces(make, cells, _margins.count_tile_lines(C))
    kernel = _margins.select_summing_kernel(cells, C)
    counts, shared = cells.dtype.kind != "f", _row_ranges.are_shared(cells, C, num_threads)

    def fill(sums, scratch, start, stop):
        """Sum matrices `start` to `stop`, huge ones in int64; return whether a total is unusual."""
        if shared:
            unusual = _row_ranges.sum_large_counts(cells, C, ordered, usual, sums, (start, stop), num_threads)
        else:
            unusual = kernel(cells, C, ordered, usual, sums, scratch, start, stop)
        if unusual and counts:
            _margins.sum_huge_matrices(cells, C, usual[1], sums, start, stop)
        return unusual

    return fill


def run_blocks(fill, use, C, n, *, seconds, num_threads, lines=0):
    """Call ``fill`` and ``use`` on one block of matrices after another, in several threads.

    ``fill`` writes class sums and ``use(sums, S, start, stop, unusual)`` reads them, with `lines` lines of workspace
    `S`: two kernels, so that each is compiled for few types.
    """
    size = _margins.count_tile_lines(C)
    tiles = max(1, SUMS_BLOCK_BYTES // (8 * WIDTH * size))
    block = tiles * WIDTH

    def work(_, start, stop):
        """Process a piece block by block in one buffer."""
        most = min(tiles, -(-(stop - start) // WIDTH)) * size
        memory = _take_lines(most + lines + _margins.count_scratch_lines(C))
        S, scratch = memory[most : most + lines], memory[most + lines :]
        for first in range(start, stop, block):
            if first > start:
                pool.checkpoint()
            last = min(first + block, stop)
            sums = memory[: -(-(last - first) // WIDTH) * size]
            use(sums, S, first, last, fill(sums, scratch, first, last))
        _give_lines(memory)

    if 0 < n <= block and seconds < pool.INLINE_SECONDS:
        work(0, 0, n)  # fast path: a single matrix takes microseconds
    elif n:
        pool.run_pieces(work, pool.free_pieces(n, seconds, tile=WIDTH), seconds=seconds, num_threads=num_threads)


@jit(borrows=True)
def _write_margins(sums, blank, out, out_total, out_status, start, stop):
    """Write the class sums, totals and status of matrices `start` to `stop` to arrays."""
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
    """Return a sum in the type of the output: from float64, from int64 if HUGE, or `blank` if invalid."""
    if code == OK:
        return type(blank)(sums[line, w])
    return type(blank)(whole[line, w]) if code == _margins.HUGE else blank


def margins(M, *, num_threads=None):
    """Return diagonal, row and column sums, sums by distance from the diagonal and by larger class; total; status."""
    C, batch = M.shape[-1], M.shape[:-2]
    exact = M.dtype.kind != "f"
    dtype = np.int64 if exact else np.float64
    n = math.prod(batch)
    out, total, status = np.empty((SUMS, n, C), dtype), np.empty(n, dtype), np.empty(n, np.int8)
    blank = dtype(0 if exact else np.nan)  # output of invalid matrices

    def write(sums, _, start, stop, unusual):
        """Copy the class sums of a block to the outputs."""
        del unusual
        _write_margins(sums, blank, out, total, status, start, stop)

    cells, usual = _copied_pieces.view_matrices(M), EXACT_TOTALS if exact else ANY_TOTALS
    fill = make_summing_kernel(cells, C, True, usual, num_threads)
    run_blocks(fill, write, C, n, seconds=n * C * C * SECONDS_PER_SUMMED_CELL, num_threads=num_threads)
    return (*(part.reshape(*batch, C) for part in out), total.reshape(batch), status.reshape(batch))


@jit(borrows=True)
def _evaluate(sums, C, plan, S, wide, out, start, stop):
    """Run `plan` on the class sums of matrices `start` to `stop`.

    `out` is the memory of all results, where each of them begins there, the status, whether scalars are padded to full
    tiles, and whether to write them past the caches.

    The plan is a plain tuple: checking the class of a named one would be a measurable share of a single matrix. `wide`
    holds the exact tables of HUGE matrices from `_derive_exactly`; without any it may have no lines.
    """
    plan = Plan(*plan)
    memory, starts, status, _, _ = out
    lines = _derived_tables.TABLES * C + _derived_tables.NUMBERS
    for first in range(start, stop, WIDTH):
        tile = (first - start) // WIDTH
        at, count = tile * (FIRST + SUMS * C), min(WIDTH, stop - first)
        _derived_tables.derive_tables(sums, at, plan, S, C)
        inexact = load(sums, at + STATUS_LINE) == float(_margins.HUGE)
        if len(wide) > 0 and some(inexact):
            store(sums, at + STATUS_LINE, where(inexact, float(OK), load(sums, at + STATUS_LINE)))
            for line in range(_derived_tables.MISSED * C, _derived_tables.TABLES * C + _derived_tables.TOTALS):
                store(S, line, where(inexact, load(wide, tile * lines + line), load(S, line)))
        if plan.pooled:
            _derived_tables.pool_classes(S, C, plan.members)
        _formulas.make_values(plan, S, C)
        _formulas.make_totals(sums, at, S, _derived_tables.TABLES * C, C, plan.products, plan.ordered)
        _formulas.write_class_values(plan, S, C, out, first, count)
        _formulas.run_scalar_steps(plan, sums, at, S, C, out, first, count)
        for w in range(count):
            code = sums[at + STATUS_LINE, w]
            status[first + w] = np.int8(code)
            if code != OK:
                for table in range(plan.scalars, plan.scalars + plan.tables):
                    for k in range(C):
                        memory[0, starts[table] + (first + w) * C + k] = np.nan
    settle()


@jit(borrows=True)
def _derive_exactly(sums, C, plan, wide):
    """Write the exact tables of HUGE matrices to `wide`, and convert their remaining sums to float64."""
    plan = Plan(*plan)
    whole = sums.view(np.int64)
    lines = _derived_tables.TABLES * C + _derived_tables.NUMBERS
    for tile in range(len(sums) // (FIRST + SUMS * C)):
        at = tile * (FIRST + SUMS * C)
        for w in range(WIDTH):
            if sums[at + STATUS_LINE, w] == _margins.HUGE:
                _derived_tables_exact.derive_lane_exactly(sums, whole, at, plan, wide, tile * lines, C, w)


def metrics_of_matrices(M, *, plan, num_threads=None, into=None):
    """Run `plan` on every matrix; return its scalars, its per-class results and the status.

    With `into`, aligned C-contiguous arrays for all these but the status, write to them and return the status alone.
    """
    if M.ndim == 2 and into is None and not (plan.again or plan.ordered):
        many = len(M) >= _class_lanes.LEAST_CLASSES
        results = None if many or _row_ranges.are_shared(M, len(M), num_threads) else _evaluate_one(M, plan)
        if results is not None:
            return results
    C, cells, usual = M.shape[-1], _copied_pieces.view_matrices(M), _common_totals(M.shape[-1], plan, M)
    if plan.traced and _are_traced(cells, C, num_threads):
        fill, inexact = make_trace_kernel(cells, C)
        results = _score_matrices(M, fill, usual, 1, plan, num_threads, into)
        if not any(inexact):
            return results
    fill = make_summing_kernel(cells, C, plan.ordered, usual, num_threads)
    return _score_matrices(M, fill, usual, C, plan, num_threads, into)


def _are_traced(cells, C, num_threads):
    """Return whether traces and totals are summed without other sums: those of fractions would have other bits."""
    many = C >= _margins.LEAST_TRACED_CLASSES and cells.dtype.kind != "f"
    return many and not _row_ranges.are_shared(cells, C, num_threads)


def are_many_traced(cells, C, num_threads, *, counts):
    """Return whether traces and totals are summed alone, of so many cells that this is worth another kernel.

    `counts` says that float matrices must hold counts, whose sums are exact.
    """
    if cells.dtype.kind == "f":
        return counts and cells.size >= LEAST_TRACED_CELLS and C >= _margins.LEAST_TRACED_CLASSES
    return cells.size >= LEAST_TRACED_CELLS and _are_traced(cells, C, num_threads)


def make_trace_kernel(cells, C):
    """Return ``fill`` as of :func:`make_summing_kernel`, of tiles of one class, and a list where it adds its failures.

    A plan of traced totals takes the tiles for those of `C` classes. Float matrices must hold counts.
    """
    kernel, inexact = _margins.sum_traces_of_floats if cells.dtype.kind == "f" else _margins.sum_traces, []

    def make(cells):
        """Return the function that sums flat matrices."""

        def fill(sums, _, start, stop):
            """Sum matrices `start` to `stop`; note whether a total is inexact."""
            inexact.append(kernel(cells, C, sums, start, stop))
            return False

        return fill

    if cells.ndim == 3:
        return _copied_pieces.sum_in_pieces(make, cells, _margins.count_tile_lines(1)), inexact
    return make(cells), inexact


def _score_matrices(M, fill, usual, classes, plan, num_threads, into):
    """Run `plan` on class sums of `M` that ``fill`` writes, of so many `classes`; return its results and the status."""
    batch, size = M.shape[:-2], M.shape[-1] ** 2
    if into is None:
        return run(fill, (M,), usual, classes, batch, size, plan, num_threads)
    out = _use_results(plan, into, math.prod(batch))
    _run_into(out, fill, usual, classes, size, plan, num_threads, fractions=_has_fractions((M,)))
    return (out[2].reshape(batch),)


class _SingleWorkspace(NamedTuple):
    """Buffers and results of a plan on a single matrix, reused between calls."""

    plan: Plan  # referenced, so that its id is not reused
    steps: tuple[Any, ...]
    load: Any  # the summing kernel
    usual: tuple[float, float]
    sums: Any
    scratch: Any
    lines: Any
    no_lines: Any
    results: tuple[Any, ...]
    scalars: Any  # of the results
    tables: Any


def _new_workspace(M, plan):
    """Allocate the workspace of a plan for one matrix."""
    C, kind = len(M), batches.result_dtype(M)
    size, lines = _margins.count_tile_lines(C), _derived_tables.count_plan_lines(C, plan)
    memory = _margins.aligned_lines(size + lines + _margins.count_scratch_lines(C))
    sums, S, scratch = memory[:size], memory[size : size + lines], memory[size + lines :]
    load = _margins.select_summing_kernel(M, C)
    results, scalars, tables = allocate_results(plan, C, (1,), kind)
    usual = _common_totals(C, plan, M)
    return _SingleWorkspace(
        plan, tuple(plan), load, usual, sums, scratch, S, S[:0], results, scalars[:, 0], tables[:, 0]
    )


def _evaluate_one(M, plan):
    """Run `plan` on one matrix without blocks and threads; return None if its total is unusual.

    In the general path Python overhead would be nearly all of the time.
    """
    C, key = len(M), (id(plan), M.dtype, len(M))
    workspace = _workspaces.pop(key, None) or _new_workspace(M, plan)
    _, steps, load_cells, usual, sums, scratch, lines, no_lines, results, scalars, tables = workspace
    found = None
    if not load_cells(_copied_pieces.flatten_matrices(M), C, False, usual, sums, scratch, 0, 1):
        _evaluate(sums, C, steps, lines, no_lines, results, 0, 1)
        numbers = [scalars[k] for k in range(len(scalars))]  # a third of the time of unpacking
        found = (*numbers, *(tables.copy() if len(tables) else ()), results[2][0])
    if C <= MOST_KEPT_CLASSES:
        if len(_workspaces) > MOST_PLANS:
            _workspaces.clear()
        _workspaces[key] = workspace
    return found


def metrics_of_sums(d, t, p, bands, tops, *, plan, num_threads=None):
    """Run `plan` on class sums instead of matrices; `bands` and `tops` may be None if no step needs them."""
    C, batch = t.shape[-1], t.shape[:-1]
    given = [a for a in (d, t, p, bands, tops) if a is not None]
    exact, usual = not _has_fractions(given), _common_totals(C, plan, *given)
    dtype = np.int64 if exact else np.float64
    absent = np.empty((0, C), dtype)
    flat = tuple(
        batches.flat_batch(absent if a is None else as_sums(a, fractions=not exact), 1) for a in (d, t, p, bands, tops)
    )
    plain = bands is None and tops is None and not (plan.ordered or plan.again)
    if plain and _class_lanes.is_fit(C, len(flat[1]), plan):
        results = _run_by_classes(flat, exact, usual, C, batch, plan, batches.result_dtype(*given))
        if results is not None:
            return results

    def fill(sums, _, start, stop):
        """Copy the sums that the caller passed into tiles."""
        return _margins.load_sums(flat, exact, usual, sums, start, stop)

    return run(fill, given, usual, C, batch, SUMS * C, plan, num_threads)


def _run_by_classes(flat, exact, usual, C, batch, plan, kind):
    """Run `plan` on the class sums of few matrices of many classes; return None where a total is not usual."""
    out, scalars, tables = allocate_results(plan, C, batch, kind)
    if not _class_lanes.run(flat, exact, usual, plan, out, C):
        return None
    if not batch:
        return (*scalars[:, 0], *tables[:, 0], out[2][0])
    return (*shape_results(scalars, tables, batch), out[2].reshape(batch))


def _common_totals(C, plan, *given):
    """Return the totals of the common case: where float64 keeps all products in range, or exact."""
    return NEAR_TOTALS if _has_fractions(given) else (0.0, _derived_tables.largest_total(C, plan.ordered))


def _has_fractions(arrays):
    """Return whether any array is of floats."""
    for a in arrays:  # noqa: SIM110 - any() takes three times as long, which a single matrix would notice
        if a.dtype.kind == "f":
            return True
    return False


def run(fill, given, usual, C, batch, cells, plan, num_threads):
    """Run `plan` on class sums that ``fill`` writes; return scalars, per-class results and the status.

    `cells` is the number of cells per matrix, for the cost estimate. The arrays `given` decide the result type.
    """
    out, scalars, tables = allocate_results(plan, C, batch, batches.result_dtype(*given))
    _run_into(out, fill, usual, C, cells, plan, num_threads, fractions=_has_fractions(given))
    if not batch:
        return (*scalars[:, 0], *tables[:, 0], out[2][0])  # fast path
    return (*shape_results(scalars, tables, batch), out[2].reshape(batch))


def _run_into(out, fill, usual, C, cells, plan, num_threads, *, fractions):
    """Run `plan` on class sums that ``fill`` writes, those of matrices of `fractions` or counts; write to `out`."""
    n, steps = len(out[2]), tuple(plan)
    many = _class_lanes.is_fit(C, n, plan)
    most = _derived_tables.largest_total(C, False)
    limits = NEAR_TOTALS if fractions else (0.0, most)

    def evaluate(sums, S, start, stop, unusual):
        """Run the plan on the class sums of a block."""
        if unusual and fractions:
            _margins.rescale_sums(sums, C, usual)
        if plan.ordered:
            _second_pass.score_ordinal(sums, C, not fractions)
        if unusual and not fractions:
            if not (plan.ordered and _derived_tables_exact.score_order_exactly(sums, C, stop - start, most)):
                _evaluate_exactly(sums, C, steps, S, out, start, stop)
                return
            unusual = False
        if plan.again:
            _second_pass.reduce_recalls(sums, C, steps)
        if unusual or not many or not _class_lanes.run_tile(sums, not fractions, limits, plan, out, C):
            _evaluate(sums, C, steps, S, S[:0], out, start, stop)

    seconds = n * (cells * SECONDS_PER_SUMMED_CELL + len(plan.steps) * C * SECONDS_PER_VALUE)
    lines = _derived_tables.count_plan_lines(C, plan)
    run_blocks(fill, evaluate, C, n, seconds=seconds, num_threads=num_threads, lines=lines)


def _evaluate_exactly(sums, C, plan, S, out, start, stop):
    """Run `plan` on class sums with HUGE totals, deriving those in 128-bit integers."""
    size, lines = _margins.count_tile_lines(C), _derived_tables.TABLES * C + _derived_tables.NUMBERS
    tiles = max(1, WIDE_BYTES // (8 * WIDTH * lines))
    wide = np.empty((tiles * lines, WIDTH))
    for first in range(start, stop, tiles * WIDTH):
        tile = (first - start) // WIDTH
        part, last = sums[tile * size : (tile + tiles) * size], min(first + tiles * WIDTH, stop)
        _derive_exactly(part, C, plan, wide)
        if Plan(*plan).again:
            _second_pass.reduce_recalls(part, C, plan)
        _evaluate(part, C, plan, S, wide, out, first, last)


@jit()
def _score_weighted_kappa(M, W, sums, fill, out, out_status, start, stop):
    """Write the weighted kappa of matrices `start` to `stop` for disagreement weights `W`."""
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
        bad = code == INVALID or (C > 0 and not _is_disagreement_table(W))
        out_status[b] = INVALID if bad else OK
        out[b] = np.nan if bad else _score_kappa(M, b, W, truth, prediction, n, fill)


@jit(inner=True, borrows=True)
def _score_kappa(M, b, W, truth, prediction, n, fill):
    """Return one minus weighted disagreement over its expectation; `fill` if the expectation is 0."""
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
def _is_disagreement_table(W):
    """Return whether `W` is a disagreement table: finite, nonnegative, zero on the diagonal."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            if not 0.0 <= W[i, j] < np.inf or (i == j and W[i, j] != 0.0):
                return False
    return True


def weighted_kappa(M, W, *, fill, num_threads=None):
    """Return Cohen's weighted kappa (1968) for disagreement weights `W`, and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    n = math.prod(batch)
    out, status = np.empty(n, batches.result_dtype(M)), np.empty(n, np.int8)
    cells, table = _copied_pieces.flatten_matrices(M), np.array(W, np.float64, order="C")

    def use(sums, _, start, stop, unusual):
        """Score the matrices of a block."""
        del unusual
        _score_weighted_kappa(cells, table, sums, float(fill), out, status, start, stop)

    load = make_summing_kernel(cells, C, False, ANY_TOTALS if M.dtype.kind == "f" else EXACT_TOTALS, num_threads)
    run_blocks(load, use, C, n, seconds=8 * n * C * C * SECONDS_PER_SUMMED_CELL, num_threads=num_threads)
    return out.reshape(batch), status.reshape(batch)
