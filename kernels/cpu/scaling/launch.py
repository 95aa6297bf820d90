"""The ops ``ipf`` and ``ras``: scale matrices to given margins, in tiles of small matrices or one by one."""

import math
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu.scaling import _large
from cmfast.kernels.cpu.scaling._large_batch import can_batch_sweeps, can_sweep_first, prepare_sweeps
from cmfast.kernels.cpu.scaling._large_passes import lacks_support
from cmfast.kernels.cpu.scaling._large_row_blocks import read_only
from cmfast.kernels.cpu.scaling._proven_support import find_unproven
from cmfast.kernels.cpu.scaling._refine import refine
from cmfast.kernels.cpu.scaling._tile_loop import scale_by_sinkhorn, scale_rectangular, scale_square, split_problem
from cmfast.kernels.cpu.scaling._tile_workspace import LANES, LOOPS, MAX_CACHED_CELLS, PARTS, acquire_tile, release_tile
from cmfast.kernels.cpu.scaling._zero_support import (
    apply_zero_codes,
    classify_zeros,
    has_zero,
    is_word_sized,
    keeps_all_cells,
    prune_unsupported,
)
from cmfast.kernels.shared.batches import flatten_one
from cmfast.kernels.shared.scaling import ENOUGH_ITERATIONS, RESULTS_OF_PROBLEM, Lines, ScalingProblem, is_large, rules

FLOAT64 = np.dtype(np.float64)
MOST_ALONE_CELLS = 1 << 15  # of one matrix whose buffers are kept for the next call
CONVERTED_CELLS = 1 << 16  # cells converted to float64 at a time
SWEPT_CELLS = 1 << 18  # the same where sweeps come first, for which Python takes longer
LARGE_CELLS = 1 << 18  # the same of large matrices; a part costs some 40 us of Python
SWEPT_PIECE_CELLS = 80_000  # least cells of a piece of large matrices that a compiled loop scales, for the same reason
LEAST_SAMPLED = 2 * LANES  # matrices of a chunk from which the first ones decide whether to classify zeros before
MOST_UNPROVEN = 1  # of the first ones that need it, up to which they do not
TILE_PIECE_SECONDS = 1.6e-4  # least estimated time of a piece of small matrices, which costs 10 to 20 us of Python
# SIMD vectors of cells between two checks for interrupts: some tens of ms.
TILE_VECTORS_PER_CHECK = 1 << 25
UNROLLED_SIZES = range(1, 17)  # numbers of classes for which unrolled kernels pay
SECONDS_PER_SCALED_CELL = {"sinkhorn": 1e-7, "newton": 5e-9, "auto": 5e-9}


def ipf(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Scale every matrix to the given margins (ones where None); return matrices, factors and diagnostics."""
    if row_sums is col_sums is start_row is start_col is None and M.ndim == 2:
        found = _scale_one(M, **options)
        if found is not None:
            return found
    return _launch(M, (row_sums, col_sums, start_row, start_col), write=True, **options)


def ras(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Compute the factors and diagnostics of ``ipf`` without the scaled matrices."""
    return _launch(M, (row_sums, col_sums, start_row, start_col), write=False, **options)[1:]


class _ScalingWorkspace(NamedTuple):
    """Buffers to scale one matrix: its problem with inputs and outputs, and its tile."""

    given: Any  # writable view of the problem's read-only cells, as a matrix
    cells: Any  # the same as one row, read-only
    problem: tuple[Any, ...] | None  # None where sweeps alone are tried
    tile: tuple[Any, ...] | None  # None where sweeps come first, which are often enough
    size: Any
    sweep_range: Any  # what `prepare_sweeps` returns, or None
    zeros_matter: bool
    drop: bool
    out: Any  # results of the problem: out, row and col of shapes (C, C), (C,), (C,), and its scalars
    row: Any
    col: Any
    numbers: tuple[Any, ...]


@lru_cache(128)
def _cache_workspaces(R, C, smoothing, empty, tol, max_iter, solver):
    """Return a list of free workspaces and a function that allocates one, for such a matrix.

    None where not applicable.
    """
    options = {"smoothing": smoothing, "empty": empty, "tol": tol, "max_iter": max_iter, "solver": solver}
    fixed = rules(R, C, bi=True, **options)
    if R != C or R * C > MOST_ALONE_CELLS or fixed["plain"] or fixed["amount"] < 0.0:
        return None
    lines = [_make_ones(length) for length in (R, C, 0, 0)]

    def allocate_workspace():
        """Allocate the arrays of a workspace and its tile."""
        given, out, row, col = np.empty((1, R * C)), np.empty((1, R * C)), np.empty((1, R)), np.empty((1, C))
        numbers = np.empty(1), np.empty(1, np.int64), np.empty(1, np.int8), np.empty(1), np.empty(1)
        fields = R, C, 1, read_only(given), 0, *lines, *fixed.values(), out, row, col, *numbers
        whole, large = ScalingProblem._make(fields), is_large(R, C)
        problem = None if large else split_problem(fields)
        sweep_range = prepare_sweeps(whole) if large or can_sweep_first(whole) else None
        tile = acquire_tile(R, C, flip=False, newton=True) if sweep_range is None else None
        size = (0,) * C if C in UNROLLED_SIZES else None
        views, zeros_matter = (out.reshape(R, C), row[0], col[0]), fixed["amount"] == 0.0
        choices = problem, tile, size, sweep_range, zeros_matter, fixed["drop"]
        return _ScalingWorkspace(given.reshape(R, C), read_only(given), *choices, *views, numbers)

    return [], allocate_workspace


def _scale_one(
    M, *, smoothing=None, empty="nan", tol=1e-9, max_iter=None, solver="auto", num_threads=None, progress=None
):
    """Scale one matrix by sweeps or the tile kernel alone; return None where that needs other parts.

    It avoids the Python overhead of a batch, which would be most of such a call. Bits are those of a batch, since the
    kernel is.
    """
    del num_threads
    R, C = M.shape
    cached = _cache_workspaces(R, C, smoothing, empty, tol, max_iter, solver)
    if cached is None or progress is not None:
        return None
    free, allocate_workspace = cached
    try:
        workspace = free.pop()
    except IndexError:
        workspace = allocate_workspace()
    given, cells, problem, tile, size, sweep_range, zeros_matter, drop, out, row, col, numbers = workspace
    given[:] = M
    found, zero = None, zeros_matter and has_zero(cells[0])
    hopeless = problem is None and zero and lacks_support(given)
    swept = sweep_range is not None and not hopeless and not sweep_range(0, 1).size
    if swept or (problem and (not zero or keeps_all_cells(classify_zeros(cells, 1, drop)))):
        place, needs = 1, 0
        if not swept:
            tile = acquire_tile(R, C, flip=False, newton=True) if tile is None else tile
            place, needs = scale_square(problem, tile, 0, 1, TILE_VECTORS_PER_CHECK, size, PARTS.addresses)
            if needs == LOOPS and size is not None:
                place, needs = scale_square(problem, tile, 0, 1, TILE_VECTORS_PER_CHECK, None, PARTS.addresses)
        if place == 1 and not needs:
            residual, n_iter, status, amount, line_error = numbers
            out = out.copy() if M.dtype is FLOAT64 else out.astype(batches.result_dtype(M))
            found = out, row.copy(), col.copy(), residual[0], n_iter[0], status[0], amount[0], line_error[0]
    if (R * C <= MAX_CACHED_CELLS or sweep_range is not None) and not free:
        free.append(workspace)
    return found


def _launch(M, lines, *, write, solver="auto", num_threads=None, progress=None, **options):
    """Scale to the targets and from the initial factors in `lines`; return all results of a batch."""
    R, C = M.shape[-2:]
    row_sums, col_sums, start_row, start_col = lines
    vectors = [a for a in lines if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors)) if vectors else M.shape[:-2]
    n = math.prod(batch)
    dtype = batches.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    cells, m_step = flatten_one(M, batch, 2, np, batches.flat_batch)
    fields = (
        R,
        C,
        n,
        cells.reshape(len(cells), R * C),
        m_step,
        _flatten_lines(row_sums, batch, R),
        _flatten_lines(col_sums, batch, C),
        _flatten_lines(start_row, batch, 0),
        _flatten_lines(start_col, batch, 0),
        *rules(R, C, bi=row_sums is None and col_sums is None, solver=solver, **options).values(),
        np.empty((n if write else 0, R * C), dtype),
        np.empty((n, R)),
        np.empty((n, C)),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int8),
        np.empty(n),
        np.empty(n),
    )
    problem = ScalingProblem._make(fields)  # by position: keywords take as long as scaling a matrix
    large = problem.is_large
    seconds = n * R * C * SECONDS_PER_SCALED_CELL[solver]
    if large:
        least = -(-SWEPT_PIECE_CELLS // (R * C)) if can_batch_sweeps(problem) else 1
    else:
        least = LANES * max(1, int(TILE_PIECE_SECONDS / (LANES * seconds) * n) if seconds else 1)
        if can_sweep_first(problem):
            least = max(least, LANES * -(-SWEPT_PIECE_CELLS // (R * C * LANES)))
    pool.run_pieces(
        _make_large_worker(problem, num_threads) if large else _TileWorker(problem),
        pool.free_pieces(n, seconds, tile=least),
        seconds=seconds,
        num_threads=num_threads,
        progress=progress,
    )
    return _shape_results(problem, batch)


def _shape_results(problem, batch):
    """Return the results of a problem in the shape of the batch."""
    out, out_row, out_col, *numbers = problem[-len(RESULTS_OF_PROBLEM) :]
    if not batch:
        out = out.reshape(problem.R, problem.C) if len(out) else out
        return (out, out_row[0], out_col[0], *[a[0] for a in numbers])
    return (
        out.reshape(*batch, problem.R, problem.C) if len(out) or not problem.n else out,
        out_row.reshape(*batch, problem.R),
        out_col.reshape(*batch, problem.C),
        *[a.reshape(batch) for a in numbers],
    )


def _make_large_worker(problem, num_threads):
    """Return a function that scales a range of large matrices."""
    quick, at_once = can_batch_sweeps(problem), max(1, LARGE_CELLS // (problem.R * problem.C))
    memory, sweep = _ConversionMemory(problem, at_once), _make_sweeper(problem) if quick else None
    provable = problem.bi and problem.R == problem.C and problem.amount == 0.0 and not problem.drop
    provable = provable and not (quick or problem.plain or problem.is_warm)

    def scale_part(first, end, quick):
        """Scale the matrices from `first` to before `end`, converted to float64."""
        if provable and end - first == 1 and _scale_unclassified(problem.part(first, end), num_threads):
            return
        with _prepare(problem.part(first, end)) as (part, _):
            _large.scale(part, num_threads, quick)
            refine(part)

    def work(_, start, stop):
        """Scale the matrices from `start` to before `stop`, in chunks."""
        for first in range(start, stop, at_once):
            end = min(first + at_once, stop)
            if sweep is None:
                scale_part(first, end, quick)
                continue
            pool.checkpoint()
            own = memory.take()
            left = sweep(first, end, own)
            memory.give_back(own)
            for hard in left.tolist():
                scale_part(hard, hard + 1, False)

    return work


class _ConversionMemory:
    """Memory to convert some matrices of a problem to float64 and back, which threads take in turn."""

    def __init__(self, problem, at_once):
        self._idle = []
        self._shapes = [
            (0 if a.dtype == np.float64 else min(at_once, len(a)), a.shape[1]) for a in (problem.cells, problem.out)
        ]

    def take(self):
        """Return two arrays, for cells and for results; without lines if these are float64 already."""
        try:
            return self._idle.pop()
        except IndexError:
            return [np.empty(shape) for shape in self._shapes]

    def give_back(self, arrays):
        """Keep such arrays for the next thread."""
        self._idle.append(arrays)


def _make_sweeper(problem):
    """Return ``sweep(first, end, memory)``, which scales matrices by sweeps and returns the indices of the others."""
    direct = problem.cells.dtype == problem.out.dtype == np.float64
    sweep_whole = prepare_sweeps(problem) if direct else None

    def sweep(first, end, memory):
        """Scale the matrices from `first` to before `end`, converted in this memory."""
        if sweep_whole is not None:
            return sweep_whole(first, end)
        given = problem.part(first, end)
        part = _convert_to_float64(given, memory)
        hard = prepare_sweeps(part)(0, part.n)
        if part.out is not given.out:
            with np.errstate(all="ignore"):  # matrices that were not scaled have no values yet
                given.out[:] = part.out
        return first + hard

    return sweep


def _scale_unclassified(given, num_threads):
    """Scale one matrix with zeros by sweeps if these prove that its zeros need no classification; return whether."""
    part = _convert_to_float64(given)
    if not _has_zero(part, 0, 1):
        return False
    proven = _large.scale_unclassified(part, num_threads)
    if proven and part.out is not given.out:
        given.out[:] = part.out
    return proven


class _TileWorker:
    """Scales ranges of small matrices of a problem in tiles."""

    def __init__(self, problem):
        R, C, newton = problem.R, problem.C, not problem.plain
        self._problem, self._newton = problem, newton
        self._flip = R < C and newton  # Newton's unknowns belong on the shorter side
        is_unrolled = newton and problem.bi and R == C in UNROLLED_SIZES and not problem.is_warm
        self._size = (0,) * C if is_unrolled else None
        self._kernel = scale_by_sinkhorn if problem.plain else scale_square if R == C else scale_rectangular
        self._direct = problem.cells.dtype == problem.out.dtype == np.float64
        sweeping = can_sweep_first(problem)
        self._at_once = LANES * max(1, (SWEPT_CELLS if sweeping else CONVERTED_CELLS) // max(1, R * C * LANES))
        self._judged = newton and not problem.bi  # otherwise no matrix is marked UNDETERMINED
        self._worded, self._idle = is_word_sized(problem), _ConversionMemory(problem, self._at_once)
        self._sweep = _make_sweeper(problem) if sweeping else None
        self._whole = self._orient(problem)
        self._limited = self._limit_iterations(problem) if self._direct and not self._worded else None

    def __call__(self, _, start, stop):
        """Scale the matrices from `start` to before `stop` in one tile, in chunks of float64."""
        tile, memory = None, self._idle.take()
        for first in range(start, stop, self._at_once):
            end = min(first + self._at_once, stop)
            hard = self._sweep(first, end, memory) if self._sweep else range(first, end)
            if not len(hard):
                continue
            if tile is None:
                tile = acquire_tile(self._problem.R, self._problem.C, flip=self._flip, newton=self._newton)
            if len(hard) < end - first:
                few = self._problem.take_matrices(hard)
                self._convert_and_scale(few, tile)
                self._problem.write_results(hard, few)
            else:
                self._scale_chunk(first, end, tile, memory)
        if tile is not None:
            release_tile(tile, newton=self._newton)
        self._idle.give_back(memory)

    def _scale_chunk(self, first, end, tile, memory):
        """Scale some matrices, of float64 without a copy."""
        problem = self._problem
        zero = self._direct and _has_zero(problem, first, end)
        classified = _classify_part(problem, first, end) if zero and self._worded else None
        if self._direct and (not zero or (classified and keeps_all_cells(classified))):
            _run_kernel(self._kernel, self._whole, tile, first, end, self._size)
            if self._judged and problem.status[first:end].any():
                refine(problem.part(first, end))
        elif self._worded:
            self._scale_prepared(problem.part(first, end), tile, memory, classified)
        elif self._direct:
            self._scale_with_zeros(problem, self._limited, tile, first, end)
        else:
            self._convert_and_scale(problem.part(first, end), tile, memory)

    def _convert_and_scale(self, given, tile, memory=None):
        """Scale matrices of any type, converted in this memory."""
        converted = _convert_to_float64(given, memory)
        if not self._worded and _has_zero(converted, 0, given.n):
            self._scale_with_zeros(converted, self._limit_iterations(converted), tile, 0, given.n)
        else:
            self._scale_prepared(converted, tile)
        if converted.out is not given.out:
            given.out[:] = converted.out

    def _scale_prepared(self, part, tile, memory=None, classified=None):
        """Scale a problem by the kernel, converted and without unsupported cells."""
        with _prepare(part, memory, classified) as (pruned, dropped):
            alone = dropped and part.n <= LANES  # dropped classes need loops: do not compile an unrolled kernel
            _run_kernel(self._kernel, self._orient(pruned), tile, 0, part.n, None if alone else self._size)
            if self._judged:
                refine(pruned)

    def _scale_with_zeros(self, given, limited, tile, first, end):
        """Scale some matrices, and classify the zeros of those that need it; of all if several of the first do."""
        cut = first + LANES if end - first >= LEAST_SAMPLED else end
        left = self._scale_unclassified(given, limited, tile, first, cut)
        if cut < end:
            sound = len(left) <= MOST_UNPROVEN
            more = self._scale_unclassified(given, limited, tile, cut, end) if sound else np.arange(cut, end)
            left = np.concatenate((left, more))
        if len(left):
            few = given.take_matrices(left)
            self._scale_prepared(few, tile)
            given.write_results(left, few)

    def _scale_unclassified(self, given, limited, tile, first, end):
        """Scale some matrices whose zeros are not classified; return the indices of those that need this first."""
        _run_kernel(self._kernel, limited, tile, first, end, self._size)
        return first + find_unproven(given, first, end)

    def _limit_iterations(self, given):
        """Return a problem as the kernel takes it, which gives up soon: it may have no solution."""
        return self._orient(given._replace(max_iter=min(given.max_iter, ENOUGH_ITERATIONS)))

    def _orient(self, given):
        """Return a problem as the kernel takes it."""
        return split_problem(_swap_axes(given) if self._flip else given)


def _has_zero(problem, first, end):
    """Test whether a matrix from `first` to before `end` has zeros that must be classified before solving."""
    if problem.amount != 0.0 or problem.plain:
        return False
    return has_zero(_take_cells(problem, first, end).reshape(-1))


def _classify_part(problem, first, end):
    """Classify the zeros of matrices from `first` to before `end`."""
    return classify_zeros(_take_cells(problem, first, end), end - first, problem.drop)


def _take_cells(problem, first, end):
    """Return the cells of the matrices from `first` to before `end`: one row if all matrices share it."""
    return problem.cells[first:end] if problem.m_step and end - first < problem.n else problem.cells


@contextmanager
def _prepare(part, memory=None, classified=None):
    """Yield the problem in float64 without unsupported cells, and whether classes are dropped.

    Afterwards write the rest. There may be `memory` to convert it, and its zeros may be `classified` already.
    """
    results, codes, dropped = part.out, None, False
    part = _convert_to_float64(part, memory)
    if classified is not None or _has_zero(part, 0, part.n):
        part, codes, dropped = prune_unsupported(part, classified)
    yield part, dropped
    if codes is not None:
        apply_zero_codes(codes, part.out_row, part.out_col, part.status)
    if part.out is not results:
        results[:] = part.out


def _run_kernel(kernel, problem, tile, place, end, size):
    """Scale matrices from `place` to before `end`, by the unrolled kernel where possible, else by the looped one."""
    place = _run_until_blocked(kernel, problem, tile, place, end, size)
    hard, hard_until = LANES, place - 1
    while place != end:  # the unrolled kernel cannot handle the tile at `place`
        hard = 2 * hard if place == hard_until else LANES  # such tiles tend to be adjacent
        hard_until = min(end, place + hard)
        place = _run_until_blocked(kernel, problem, tile, place, hard_until, None)
        place = _run_until_blocked(kernel, problem, tile, place, end, size)


def _run_until_blocked(kernel, problem, tile, place, end, size):
    """Run a kernel, compiling parts it needs, until `end` or a tile it cannot handle; return that position.

    Between calls of the kernel it can be interrupted.
    """
    while place != end:
        pool.checkpoint()
        place, needs = kernel(problem, tile, place, end, TILE_VECTORS_PER_CHECK, size, PARTS.addresses)
        if needs == LOOPS:
            break
        if needs:
            PARTS.compile(needs)
    return place


def _convert_to_float64(part, memory=None):
    """Return the problem with cells (read-only) and results in float64, so that kernels are compiled for one type.

    `memory` may be two arrays to use for them, with a row for each matrix.
    """
    cells, out = part.cells, part.out
    if cells.dtype != np.float64:
        cells = np.empty(cells.shape) if memory is None else memory[0][: len(cells)]
        cells[:] = part.cells
        cells.flags.writeable = False
    if out.dtype != np.float64:
        out = np.empty(out.shape) if memory is None else memory[1][: len(out)]
    return part if out is part.out and cells is part.cells else part._replace(cells=cells, out=out)


def _swap_axes(part):
    """Return the problem with row and column fields swapped, except cells and results, which the tile transposes."""
    return part._replace(
        R=part.C,
        C=part.R,
        row_sums=part.col_sums,
        col_sums=part.row_sums,
        start_row=part.start_col,
        start_col=part.start_row,
        out_row=part.out_col,
        out_col=part.out_row,
    )


def _flatten_lines(a, batch, default):
    """Return targets or factors as a flat batch of float64; `default` ones where None."""
    if a is None:
        return _make_ones(default)
    flat, step = flatten_one(a.astype(np.float64, copy=False), batch, 1, np, batches.flat_batch)
    return Lines(flat, step)


@cache
def _make_ones(n):
    """Return shared read-only lines of `n` ones."""
    ones = np.ones((1, n))
    ones.flags.writeable = False
    return Lines(ones, 0)
