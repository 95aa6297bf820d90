"""Passes over the blocks of rows of one large matrix, run by several threads where that pays."""

from functools import cached_property

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.vector import WIDTH, new_lines
from cmfast.kernels.cpu.scaling import _large_passes, _large_sinkhorn
from cmfast.kernels.cpu.scaling._large_passes import ScaledMatrix, Sums
from cmfast.kernels.cpu.scaling._large_sinkhorn import RUNNING, SWEPT_ROWS
from cmfast.kernels.shared.scaling import MOST_PATH_PASSES

BLOCK_CELLS = 1 << 17  # least number of cells of a block of rows
MAX_BLOCKS = 64
SECONDS_PER_PASS_CELL = 2.5e-10  # time of a pass, for each cell
PASS_CELLS_PER_CHECK = 1 << 27  # cells between two checks for interrupts: some tens of ms


class MatrixRows:
    """A matrix, its targets and its partition into blocks of rows."""

    def __init__(self, M, u, v, num_threads):
        R, C = M.shape
        self.matrix, self.total = ScaledMatrix(read_only(M), u, v), u.sum()
        rows = -(-max(-(-R // MAX_BLOCKS), BLOCK_CELLS // C, 1) // SWEPT_ROWS) * SWEPT_ROWS
        self.blocks = -(-R // rows)
        self.sums = Sums(np.empty((self.blocks, C)), np.empty(self.blocks), rows, np.empty(self.blocks))
        self.seconds = M.size * SECONDS_PER_PASS_CELL
        self.num_threads = num_threads

    @cached_property
    def _swept(self):
        """The matrix and the sums for sweeps: a copy in aligned rows, padded with zeros, where that pays."""
        if self.blocks > 1:
            return self.matrix, self.sums
        R, C = self.matrix.cells.shape
        cells = allocate_padded_rows(R, C)
        cells[:, :C] = self.matrix.cells
        return self.matrix._replace(cells=read_only(cells)), self.sums._replace(cols=np.empty((1, cells.shape[1])))

    def run(self, kernel, *args, passes=1):
        """Run a pass over all blocks of rows, or a kernel that takes as long as `passes` of them."""
        pool.checkpoint()
        seconds = passes * self.seconds
        pool.run(kernel, (self.matrix, *args), self.blocks, seconds=seconds, num_threads=self.num_threads)

    def column_sums(self, kernel, *args, passes=1):
        """Run a pass, or a kernel as long as `passes` of them, and return the column sums over all blocks."""
        self.run(kernel, *args, passes=passes)
        return self.sums.cols.sum(0)

    def multiply_left(self, x):
        """Return x @ M with the same bits for any number of threads, which a BLAS does not guarantee."""
        C = len(self.matrix.v)
        return self.column_sums(_large_passes.measure_sums, x, np.ones(C), self.sums, np.empty((0, C)))

    def bound_hidden_residual(self, x, y, last_width, residual):
        """Return a residual below which no flow between sets of rows and columns errs by more than `last_width`.

        A better bound is looked for only where the first one is below `residual`.
        """
        M = self.matrix.cells

        def find(start, stop):
            """Find the smallest cell of a range of rows."""
            return _large_passes.find_smallest_cell(M[start:stop], x[start:stop], y)

        low, zero = zip(*_measure_rows(find, M, self.num_threads), strict=True)
        bound = _large_passes.bound_hidden_residual((min(low), any(zero)), min(M.shape), last_width, self.total)
        return bound if bound >= residual else max(bound, self._bound_by_paths(x, y, last_width, residual))

    def _bound_by_paths(self, x, y, last_width, residual):
        """Return a residual below which no cell errs by more than `last_width`, from the widest paths between nodes.

        More passes look for wider paths until the bound reaches `residual` or falls.
        """
        widths, bound = _large_passes.start_paths(*self.matrix.cells.shape), 0.0
        for k in range(1, MOST_PATH_PASSES + 1):
            self.run(_large_passes.extend_paths, x, y, widths, self.sums)
            narrowest = _large_passes.join_paths(widths, self.sums)
            found = _large_passes.bound_by_paths(narrowest, k, last_width, self.total)
            if found >= residual or 0.0 < found <= bound:
                return max(found, bound)
            bound = found
        return bound

    @cached_property
    def _sweeps_per_call(self):
        """Number of sweeps in one call of a kernel; 0 where threads share the rows of each sweep."""
        shared = self.blocks > 1 and self.seconds >= pool.INLINE_SECONDS and self.num_threads != 1
        return 0 if shared and pool.cpu_count() > 1 else max(1, PASS_CELLS_PER_CHECK // self.matrix.cells.size)

    def run_sinkhorn(self, last, x, y, goal):
        """Run Sinkhorn sweeps until convergence.

        Return their number and the residual, which is that of `last` and `y`.
        """
        state, ended = (0, np.inf), False
        matrix, sums = self._swept
        given_y, y = y, _pad_factors(y, matrix)
        while not ended:
            pool.checkpoint()
            if self._sweeps_per_call:
                given = matrix, last, x, y, sums, state, goal, self._sweeps_per_call
                *state, ended = _large_sinkhorn.run_sinkhorn(*given)
                state = tuple(state)
            else:
                last[:] = x
                self.run(_large_sinkhorn.sweep, x, y, self.sums)
                *state, ended = _large_sinkhorn.check_sinkhorn_convergence(
                    self.matrix, last, x, y, self.sums, tuple(state), goal
                )
        given_y[:] = y[: len(given_y)]
        return state

    def run_momentum_sweeps(self, x, y, step, pace, goal):
        """Run Sinkhorn sweeps with momentum until the state is final; return the state."""
        pace = pace._replace(state=RUNNING)
        matrix, sums = self._swept
        given_y, y = y, _pad_factors(y, matrix)
        while pace.state == RUNNING:
            pool.checkpoint()
            if self._sweeps_per_call:
                given = matrix, x, y, step, sums, pace, goal, self._sweeps_per_call
                pace = _large_sinkhorn.run_momentum_sweeps(*given)
            else:
                if pace.k > 0:
                    _large_sinkhorn.take_momentum_step(self.matrix, y, step, self.sums, pace)
                self.run(_large_sinkhorn.sweep, x, y, self.sums)
                pace = _large_sinkhorn.check_convergence(self.matrix, y, self.sums, pace, goal)
        given_y[:] = y[: len(given_y)]
        return pace


def measure_cell_range(M, num_threads):
    """Return the smallest positive and the largest cell, whether any is zero, and whether any is invalid."""
    parts = _measure_rows(lambda start, stop: _large_passes.measure_cell_range(M[start:stop]), M, num_threads)
    low, high, zero, bad = zip(*parts, strict=True)
    return min(low), max(high), any(zero), any(bad)


def _measure_rows(measure, M, num_threads):
    """Return what ``measure(start, stop)`` returns for one range of the rows of a matrix after another."""
    seconds = M.size * SECONDS_PER_PASS_CELL
    bounds = pool.free_pieces(len(M), seconds)
    found = [None] * len(bounds)

    def work(i, start, stop):
        """Measure one range of rows."""
        found[i] = measure(start, stop)

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return found


def allocate_padded_rows(R, C):
    """Return cells for R rows that begin at cache lines: C uninitialised columns, then zeros up to whole vectors."""
    lines = -(-C // WIDTH)
    cells = new_lines(R * lines).reshape(R, lines * WIDTH)
    cells[:, C:] = 0.0
    return cells


def _pad_factors(y, matrix):
    """Return a copy of the column factors as long as the padded rows of a matrix, with zeros at the end."""
    padded = np.zeros(matrix.cells.shape[1])
    padded[: len(y)] = y
    return padded


def read_only(M):
    """Return a read-only view of the cells, so that kernels are compiled for one type."""
    if M.flags.writeable:
        M = M[:]
        M.flags.writeable = False
    return M
