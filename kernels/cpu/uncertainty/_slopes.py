"""Slopes of metrics in the cells of matrices, as arrays: for what is added up by units, and not by cells alone."""

import numpy as np

from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics import _gradients, _margins, values
from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.uncertainty.errors import SECONDS_PER_SLOPE, _differentiate, _shaped, complete
from cmfast.kernels.shared.metrics import lines_of_slopes


def of_cells(lines, C, y, guess):
    """Return the slope of one number in cells: what its lines stand for is told in ``_gradients``."""
    d, t, p, band, top = lines[: SUMS * C].reshape(SUMS, C)
    return (
        t[y] + p[guess] + np.where(y == guess, d[y], 0.0) + band[abs(y - guess)] + top[np.maximum(y, guess)] + lines[-1]
    )


def of_class(slopes, k, y, guess):
    """Return the slope of the number of class `k` in cells, from those in its diagonal, row, column and the total."""
    d, t, p, n = slopes
    true, said = y == k, guess == k
    return np.where(true, t, 0.0) + np.where(said, p, 0.0) + np.where(true & said, d, 0.0) + n


def slopes(M, plan, num_threads):
    """Return the slopes of all scalars of matrices, 5 C + 1 numbers each, and of the numbers of classes, four each."""
    C = M.shape[-1]
    fill = values.make_summing_kernel(values.flatten_matrices(M), C, plan.ordered, values.EXACT_TOTALS)
    return _differentiate_all(fill, C, len(M), C * C, plan, num_threads)


def slopes_of_sums(sums, plan, num_threads):
    """Do what :func:`slopes` does for matrices of counts that are given by their sums alone, shape (n_sums, n, C)."""
    _, size, C = sums.shape
    flat = (*sums, *[np.empty((0, C), np.int64)] * (SUMS - len(sums)))

    def fill(lines, _, start, stop):
        return _margins.load_sums(flat, True, values.EXACT_TOTALS, lines, start, stop)

    return _differentiate_all(fill, C, size, SUMS * C, plan, num_threads)


def _differentiate_all(fill, C, size, cells, plan, num_threads):
    """Return the slopes of `size` matrices whose sums `fill` makes, each from so many `cells`."""
    steps = tuple(plan)
    given_lines, all_lines = (lines_of_slopes(C, ordered=own) for own in (plan.ordered, True))
    registers, per_class = plan.registers * given_lines, plan.tables * C * 4
    scalars, tables = np.empty((size, registers)), np.empty((size, per_class))
    lines, shaped = _margins.count_tile_lines(C), _shaped(plan)

    def use(sums, S, start, stop, unusual):
        complete(sums, C, plan, steps, unusual)
        for first in range(start, stop, WIDTH):
            tile, count = (first - start) // WIDTH, min(WIDTH, stop - first)
            G, T = _margins.aligned_lines(registers), _margins.aligned_lines(per_class)
            _differentiate(sums[tile * lines : (tile + 1) * lines], C, given_lines, steps, shaped, S, G, T)
            scalars[first : first + count], tables[first : first + count] = G.T[:count], T.T[:count]

    seconds = size * cells * (1 + plan.registers + plan.tables) * SECONDS_PER_SLOPE
    values.run_blocks(
        fill, use, C, size, seconds=seconds, num_threads=num_threads, lines=_gradients.count_working_lines(C, plan)
    )
    found = scalars.reshape(size, plan.registers, given_lines)
    if not plan.ordered:
        none = np.zeros((size, plan.registers, all_lines - given_lines))
        found = np.concatenate([found[..., :-1], none, found[..., -1:]], axis=-1)
    return found, tables.reshape(size, plan.tables, C, 4)
