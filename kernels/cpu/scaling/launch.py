"""Matrix scaling to given margins: the launchers of ``ipf`` and ``ras`` and the loop over tiles."""

import math
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu.scaling import _large
from cmfast.kernels.cpu.scaling._large_many import may_be_quick
from cmfast.kernels.cpu.scaling._large_rows import read_only
from cmfast.kernels.cpu.scaling._refine import refine
from cmfast.kernels.cpu.scaling._tile import LANES, LOOPS, MOST_KEPT_CELLS, PARTS, give_tile, take_tile
from cmfast.kernels.cpu.scaling._tiles import in_tuples, scale_oblong, scale_plainly, scale_square
from cmfast.kernels.cpu.scaling._zeros_first import amend, has_zero, prune
from cmfast.kernels.shared.batches import flatten
from cmfast.kernels.shared.scaling import RESULTS_OF_PROBLEM, Lines, ScalingProblem, is_large, rules

FLOAT64 = np.dtype(np.float64)
CONVERTED_CELLS = 1 << 16  # cells converted to float64 at a time
# Vectors of cells that a kernel goes through before it asks whether to go on: some tens of ms.
TILE_VECTORS_PER_CHECK = 1 << 25
STRAIGHT = range(1, 17)  # numbers of classes for which straight-line code pays
SECONDS_PER_SCALED_CELL = {"sinkhorn": 1e-7, "newton": 5e-9, "auto": 5e-9}


def ipf(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Scale every matrix to the margins given, ones where None."""
    if row_sums is col_sums is start_row is start_col is None and M.ndim == 2 and M.dtype is FLOAT64:
        found = _scale_one(M, **options)
        if found is not None:
            return found
    return _launch(M, (row_sums, col_sums, start_row, start_col), write=True, **options)


def ras(M, row_sums, col_sums, start_row, start_col, /, **options):
    """Return what ``ipf`` does but the matrices."""
    return _launch(M, (row_sums, col_sums, start_row, start_col), write=False, **options)[1:]


class _Room(NamedTuple):
    """What one matrix is scaled in: its problem, with memory for all that goes in and comes out, and the tile."""

    given: Any  # the cells that the problem can only read, as a matrix, to write them
    cells: Any  # the same in one axis
    problem: tuple[Any, ...]
    tile: tuple[Any, ...]
    size: Any
    zeros_matter: bool
    out: Any  # (C, C), (C,) and (C,) of the problem, and its numbers
    row: Any
    col: Any
    numbers: tuple[Any, ...]


@lru_cache(128)
def _rooms(R, C, smoothing, empty, tol, max_iter, solver):
    """Return rooms that nobody uses now, and what makes one, for such a matrix; None where that is no way for it."""
    options = {"smoothing": smoothing, "empty": empty, "tol": tol, "max_iter": max_iter, "solver": solver}
    fixed = rules(R, C, bi=True, **options)
    if R != C or is_large(R, C) or fixed["plain"] or fixed["amount"] < 0.0:
        return None
    lines = [_ones(length) for length in (R, C, 0, 0)]

    def new_room():
        given, out, row, col = np.empty((1, R * C)), np.empty((1, R * C)), np.empty((1, R)), np.empty((1, C))
        numbers = np.empty(1), np.empty(1, np.int64), np.empty(1, np.int8), np.empty(1), np.empty(1)
        problem = in_tuples((R, C, 1, read_only(given), 0, *lines, *fixed.values(), out, row, col, *numbers))
        tile, size = take_tile(R, C, flip=False, newton=True), (0,) * C if C in STRAIGHT else None
        views = out.reshape(R, C), row[0], col[0]
        zeros_matter = fixed["amount"] == 0.0
        return _Room(given.reshape(R, C), read_only(given[0]), problem, tile, size, zeros_matter, *views, numbers)

    return [], new_room


def _scale_one(
    M, *, smoothing=None, empty="nan", tol=1e-9, max_iter=None, solver="auto", num_threads=None, progress=None
):
    """Scale one matrix of float64 without zeros; return None where that needs more than is compiled.

    Nearly all of such a call would be Python: the problem of a batch, its pieces and parts. Bits are those of a batch,
    as the kernel is.
    """
    del num_threads
    R, C = M.shape
    rooms = _rooms(R, C, smoothing, empty, tol, max_iter, solver)
    if rooms is None or progress is not None:
        return None
    free, new_room = rooms
    try:
        room = free.pop()
    except IndexError:
        room = new_room()
    given, cells, problem, tile, size, zeros_matter, out, row, col, numbers = room
    given[:] = M
    found = None
    if not (zeros_matter and has_zero(cells)):
        place, needs = scale_square(problem, tile, 0, 1, TILE_VECTORS_PER_CHECK, size, PARTS.addresses)
        if place == 1 and not needs:
            residual, n_iter, status, amount, line_error = numbers
            found = out.copy(), row.copy(), col.copy(), residual[0], n_iter[0], status[0], amount[0], line_error[0]
    if R * C <= MOST_KEPT_CELLS and not free:
        free.append(room)
    return found


def _launch(M, lines, *, write, solver="auto", num_threads=None, progress=None, **options):
    """Scale to `lines`, the targets of rows and columns, from factors of rows and columns."""
    R, C = M.shape[-2:]
    row_sums, col_sums, start_row, start_col = lines
    vectors = [a for a in lines if a is not None]
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in vectors)) if vectors else M.shape[:-2]
    n = math.prod(batch)
    dtype = batches.result_dtype(M, *(a for a in (row_sums, col_sums) if a is not None))
    cells, m_step = flatten(M, batch, 2, np, batches.flat_batch)
    fields = (
        R,
        C,
        n,
        cells.reshape(len(cells), R * C),
        m_step,
        _lines(row_sums, batch, R),
        _lines(col_sums, batch, C),
        _lines(start_row, batch, 0),
        _lines(start_col, batch, 0),
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
    problem = ScalingProblem._make(fields)  # by place: names take a matrix's time
    large = problem.is_large
    seconds = n * R * C * SECONDS_PER_SCALED_CELL[solver]
    pool.run_pieces(
        _one_by_one(problem, num_threads) if large else _by_tiles(problem),
        pool.pieces(n, seconds, tile=1 if large else LANES),
        seconds=seconds,
        num_threads=num_threads,
        progress=progress,
    )
    return _results(problem, batch)


def _results(problem, batch):
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


def _one_by_one(problem, num_threads):
    """Return what scales a range of large matrices."""
    quick, at_once = may_be_quick(problem), max(1, CONVERTED_CELLS // (problem.R * problem.C))

    def work(_, start, stop):
        for first in range(start, stop, at_once):
            with _prepared(problem.part(first, min(first + at_once, stop))) as (part, _):
                _large.scale(part, num_threads, quick)
                refine(part)

    return work


def _by_tiles(problem):
    """Return what scales a range of small matrices."""
    R, C, newton = problem.R, problem.C, not problem.plain
    flip = R < C and newton  # Newton's unknowns belong on the shorter side
    size = (0,) * C if newton and problem.bi and R == C in STRAIGHT and not problem.is_warm else None
    kernel = scale_plainly if problem.plain else scale_square if R == C else scale_oblong
    direct = problem.cells.dtype == problem.out.dtype == np.float64
    at_once = LANES * max(1, CONVERTED_CELLS // max(1, R * C * LANES))
    whole = in_tuples(_flipped(problem) if flip else problem)
    judged = newton and not problem.bi  # else nothing is marked as doubtful

    def work(_, start, stop):
        tile = take_tile(R, C, flip=flip, newton=newton)
        for first in range(start, stop, at_once):
            end = min(first + at_once, stop)
            if direct and not _has_zero(problem, first, end):
                _run(kernel, whole, tile, first, end, size)
                if judged and problem.status[first:end].any():
                    refine(problem.part(first, end))
                continue
            with _prepared(problem.part(first, end)) as (part, dropped):
                given = in_tuples(_flipped(part) if flip else part)
                alone = dropped and part.n <= LANES  # straight-line code would be compiled to find that out
                _run(kernel, given, tile, 0, end - first, None if alone else size)
                if judged:
                    refine(part)
        give_tile(tile, newton=newton)

    return work


def _has_zero(problem, first, end):
    """Whether a matrix from `first` to before `end` has a zero that a solver does not decide by itself."""
    if problem.amount != 0.0 or problem.plain:
        return False
    part = problem.m_step and end - first < problem.n
    return has_zero((problem.cells[first:end] if part else problem.cells).reshape(-1))


@contextmanager
def _prepared(part):
    """Give the problem in float64 without zeros that have no answer, and whether classes are dropped.

    Then write what the kernel did not.
    """
    results, codes, dropped = part.out, None, False
    part = _in_float64(part)
    if _has_zero(part, 0, part.n):
        pruned, codes, dropped = prune(part)
        part = part._replace(cells=pruned, m_step=1)
    yield part, dropped
    if codes is not None:
        amend(codes, part.out_row, part.out_col, part.status)
    if part.out is not results:
        results[:] = part.out


def _run(kernel, problem, tile, place, end, size):
    """Scale matrices from `place` to before `end`."""
    place = _run_part(kernel, problem, tile, place, end, size)
    hard, hard_until = LANES, place - 1
    while place != end:  # straight-line code cannot do what stands there
        hard = 2 * hard if place == hard_until else LANES  # they come in crowds
        hard_until = min(end, place + hard)
        place = _run_part(kernel, problem, tile, place, hard_until, None)
        place = _run_part(kernel, problem, tile, place, end, size)


def _run_part(kernel, problem, tile, place, end, size):
    """Do so as far as the kernel can; between its calls it can be interrupted. Return where it ends."""
    while place != end:
        pool.checkpoint()
        place, needs = kernel(problem, tile, place, end, TILE_VECTORS_PER_CHECK, size, PARTS.addresses)
        if needs == LOOPS:
            break
        if needs:
            PARTS.compile(needs)
    return place


def _in_float64(part):
    """Return the problem with cells and results in float64: read-only and not, so that kernels see one type."""
    if part.cells.dtype == part.out.dtype == np.float64:
        return part
    cells = np.ascontiguousarray(part.cells, np.float64)[:]
    cells.flags.writeable = False
    return part._replace(cells=cells, out=part.out if part.out.dtype == np.float64 else np.empty(part.out.shape))


def _flipped(part):
    """Return the problem with rows and columns swapped, but for cells and results: a tile swaps those."""
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


def _lines(a, batch, default):
    """Return targets or factors as a flat batch of float64; `default` ones where none are given."""
    if a is None:
        return _ones(default)
    flat, step = flatten(a.astype(np.float64, copy=False), batch, 1, np, batches.flat_batch)
    return Lines(flat, step)


@cache
def _ones(n):
    ones = np.ones((1, n))
    ones.flags.writeable = False
    return Lines(ones, 0)
