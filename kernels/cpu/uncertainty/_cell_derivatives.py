"""Derivatives of metrics in the cells of matrices, as NumPy arrays, for sums over resampling units."""

import numpy as np

from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics import _gradients, _margins, values
from cmfast.kernels.cpu.metrics._copied_pieces import flatten_matrices
from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.uncertainty.errors import _differentiate, find_totals, prepare_sums
from cmfast.kernels.shared.metrics import ORDERED, count_slope_lines

SECONDS_PER_SLOPE = 4e-10  # per register and cell


def gather_cell_slopes(lines, C, y, guess):
    """Return the derivative of a metric in the cells (y, guess), from its lines as in ``_gradients``."""
    d, t, p, band, top = lines[: SUMS * C].reshape(SUMS, C)
    return (
        t[y] + p[guess] + np.where(y == guess, d[y], 0.0) + band[abs(y - guess)] + top[np.maximum(y, guess)] + lines[-1]
    )


def gather_class_slopes(slopes, k, y, guess):
    """Return the derivative of a value of class `k` in the cells (y, guess), from those in d, t, p and n."""
    d, t, p, n = slopes
    true, predicted = y == k, guess == k
    return np.where(true, t, 0.0) + np.where(predicted, p, 0.0) + np.where(true & predicted, d, 0.0) + n


def differentiate_matrices(M, plan, num_threads):
    """Return the derivatives of all scalars of matrices (5 C + 1 each) and of all per-class values (four each)."""
    C = M.shape[-1]
    fill = values.make_summing_kernel(flatten_matrices(M), C, plan.ordered, values.EXACT_TOTALS, num_threads)
    return _differentiate_all(fill, C, len(M), C * C, plan, num_threads)


def differentiate_sums(sums, plan, num_threads):
    """Return the derivatives of scalars and per-class values, for counts given as class sums (n_sums, n, C)."""
    _, size, C = sums.shape
    flat = tuple(map(freeze, (*sums, *[np.empty((0, C), np.int64)] * (SUMS - len(sums)))))

    def fill(lines, _, start, stop):
        """Copy class sums into tiles."""
        return _margins.load_sums(flat, True, values.EXACT_TOTALS, lines, start, stop)

    return _differentiate_all(fill, C, size, SUMS * C, plan, num_threads)


def _differentiate_all(fill, C, size, cells, plan, num_threads):
    """Return the derivatives for `size` matrices of `cells` cells each, whose class sums ``fill`` writes."""
    steps = tuple(plan)
    given_lines, all_lines = (count_slope_lines(C, ordered=own) for own in (plan.ordered, True))
    registers, per_class = plan.registers * given_lines, plan.tables * C * 4
    scalars, tables = np.empty((size, registers)), np.empty((size, per_class))
    lines, shaped = _margins.count_tile_lines(C), find_totals(plan, ORDERED)

    def use(sums, S, start, stop, unusual):
        """Differentiate a block of matrices, tile by tile."""
        prepare_sums(sums, C, plan, steps, unusual)
        for first in range(start, stop, WIDTH):
            tile, count = (first - start) // WIDTH, min(WIDTH, stop - first)
            G, T = _margins.aligned_lines(registers), _margins.aligned_lines(per_class)
            G.fill(0.0)
            _differentiate(sums[tile * lines : (tile + 1) * lines], C, given_lines, steps, shaped, S, G, T)
            scalars[first : first + count], tables[first : first + count] = G.T[:count], T.T[:count]

    seconds = size * cells * (1 + plan.registers + plan.tables) * SECONDS_PER_SLOPE
    values.run_blocks(
        fill, use, C, size, seconds=seconds, num_threads=num_threads, lines=_gradients.count_working_lines(C, plan)
    )
    by_register = scalars.reshape(size, plan.registers, given_lines)
    if not plan.ordered:
        none = np.zeros((size, plan.registers, all_lines - given_lines))
        by_register = np.concatenate([by_register[..., :-1], none, by_register[..., -1:]], axis=-1)
    return by_register, tables.reshape(size, plan.tables, C, 4)
