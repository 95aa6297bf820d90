"""Passes over the rows of one large matrix, shared between threads where that pays."""

from functools import cached_property

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.scaling import _large_passes, _large_sweeps
from cmfast.kernels.cpu.scaling._large_passes import ScaledMatrix, Sums
from cmfast.kernels.cpu.scaling._large_sweeps import GOING_ON, SWEPT_ROWS

BLOCK_CELLS = 1 << 17  # cells of a block of rows, at least
MAX_BLOCKS = 64
SECONDS_PER_PASS_CELL = 2.5e-10  # of a pass
PASS_CELLS_PER_CHECK = 1 << 27  # cells that a kernel goes through before it asks whether to go on: some tens of ms


class MatrixRows:
    """A matrix, its targets, and how passes over its rows are cut and added up."""

    def __init__(self, M, u, v, num_threads):
        R, C = M.shape
        self.matrix, self.total = ScaledMatrix(read_only(M), u, v), u.sum()
        rows = -(-max(-(-R // MAX_BLOCKS), BLOCK_CELLS // C, 1) // SWEPT_ROWS) * SWEPT_ROWS
        self.blocks = -(-R // rows)
        self.sums = Sums(np.empty((self.blocks, C)), np.empty(self.blocks), rows, np.empty(self.blocks))
        self.seconds = M.size * SECONDS_PER_PASS_CELL
        self.num_threads = num_threads

    def run(self, kernel, *args, passes=1):
        """Run a pass, or what takes as long as some."""
        pool.checkpoint()
        seconds = passes * self.seconds
        pool.run(kernel, (self.matrix, *args), self.blocks, seconds=seconds, num_threads=self.num_threads)

    def column_sums(self, kernel, *args, passes=1):
        """Run a pass, or what takes as long as some; return the column sums."""
        self.run(kernel, *args, passes=passes)
        return self.sums.cols.sum(0)

    def times(self, x):
        """Return x @ M with the same bits for any number of threads, which a BLAS does not promise."""
        C = len(self.matrix.v)
        return self.column_sums(_large_passes.measure, x, np.ones(C), self.sums, np.empty((0, C)))

    def hidden(self, x, y, last_width):
        """Return the residual at which no flow between two sets of lines is wrong by more than `last_width`."""
        return _large_passes.hidden(self.matrix.cells, x, y, last_width, self.total)

    @cached_property
    def _together(self):
        """How many sweeps one call of a kernel may do, 0 where threads share the rows of each."""
        shared = self.blocks > 1 and self.seconds >= pool.INLINE_SECONDS and self.num_threads != 1
        return 0 if shared and pool.cpu_count() > 1 else max(1, PASS_CELLS_PER_CHECK // self.matrix.cells.size)

    def plain_sweeps(self, last, x, y, goal):
        """Sweep until the goal is met; return how often it was and the residual, that of `last` and `y`."""
        state, ended = (0, np.inf), False
        while not ended:
            pool.checkpoint()
            if self._together:
                given = self.matrix, last, x, y, self.sums, state, goal, self._together
                *state, ended = _large_sweeps.plain_sweeps(*given)
                state = tuple(state)
            else:
                last[:] = x
                self.run(_large_sweeps.sweep, x, y, self.sums)
                *state, ended = _large_sweeps.judge_plainly(self.matrix, last, x, y, self.sums, tuple(state), goal)
        return state

    def quick_sweeps(self, x, y, step, pace, goal):
        """Sweep with momentum until the pace says that this is the end; return the pace."""
        pace = pace._replace(state=GOING_ON)
        while pace.state == GOING_ON:
            pool.checkpoint()
            if self._together:
                given = self.matrix, x, y, step, self.sums, pace, goal, self._together
                pace = _large_sweeps.quick_sweeps(*given)
            else:
                if pace.k > 0:
                    _large_sweeps.advance(self.matrix, y, step, self.sums, pace.momentum)
                self.run(_large_sweeps.sweep, x, y, self.sums)
                pace = _large_sweeps.judge(self.matrix, y, self.sums, pace, goal)
        return pace


def read_only(M):
    """Return the same cells, so that kernels see one type."""
    if M.flags.writeable:
        M = M[:]
        M.flags.writeable = False
    return M
