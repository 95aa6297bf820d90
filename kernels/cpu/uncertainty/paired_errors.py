"""Standard errors of the differences between two classifiers on the same samples: the delta method.

A sample of the cell ``T[y, a, b]`` moves the first metric by its slope in ``M1[y, a]``, the second by its slope in
``M2[y, b]``, and the difference by that of the two. The variance is the sum of squares of these over the samples; of
clusters that of their sums.
"""

import numpy as np

from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics import _gradients, _margins, _passes, values
from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.uncertainty.errors import SECONDS_PER_CELL, _differentiate, _round_huge, _shaped


def paired_errors(weights, starts, bounds, cells, counts, *, plan, n_classes, clustered, num_threads=None):
    """Errors of the differences that `plan` makes: of its scalars (G,), of its per-class results (G, C).

    There are `weights` units of every kind; for all else see ``Units`` of ``paired_replicates``.
    """
    C, G, y = n_classes, len(starts) - 1, cells[0]
    group = np.repeat(np.repeat(np.arange(G), np.diff(starts)), np.diff(bounds))  # of every cell
    samples = np.repeat(weights, np.diff(bounds)) * counts
    M = np.zeros((G, 2, C, C), np.int64)
    for side in range(2):
        np.add.at(M[:, side], (group, y, cells[1 + side]), samples)
    scalars, tables = _slopes(M, plan, num_threads)
    error, errors = np.empty((plan.scalars, G)), np.empty((plan.tables, G, C))
    for g in range(G):
        units = slice(starts[g], starts[g + 1])
        at = slice(bounds[units.start], bounds[units.stop])
        begin, own = bounds[units] - at.start, cells[:, at]
        for k in range(plan.scalars):
            first, second = (_of_cells(scalars[g, side, k], C, own[0], own[1 + side]) for side in range(2))
            error[k, g] = _error(first - second, counts[at], begin, weights[units], clustered)
        for k in range(plan.tables):
            for c in range(C):
                first, second = (_of_class(tables[g, side, k, c], c, own[0], own[1 + side]) for side in range(2))
                errors[k, g, c] = _error(first - second, counts[at], begin, weights[units], clustered)
    return (*error, *errors)


def _error(slopes, counts, begin, weights, clustered):
    """Return the standard error of what has these slopes in the cells of one group."""
    total = int(weights.sum())
    if not total:
        return np.nan
    moved = np.add.reduceat(slopes * counts, begin)  # by one unit of each kind
    moved = moved - (weights * moved).sum() / total
    variance = (weights * moved**2).sum()
    return np.sqrt(variance * (total / (total - 1) if total > 1 else np.nan) if clustered else variance)


def _of_cells(lines, C, y, guess):
    """Return the slope of one number in cells: what its lines stand for is told in ``_gradients``."""
    d, t, p, band, top = lines[: SUMS * C].reshape(SUMS, C)
    return (
        t[y] + p[guess] + np.where(y == guess, d[y], 0.0) + band[abs(y - guess)] + top[np.maximum(y, guess)] + lines[-1]
    )


def _of_class(slopes, k, y, guess):
    """Return the slope of the number of class `k` in cells, from those in its diagonal, row, column and the total."""
    d, t, p, n = slopes
    true, said = y == k, guess == k
    return np.where(true, t, 0.0) + np.where(said, p, 0.0) + np.where(true & said, d, 0.0) + n


def _slopes(M, plan, num_threads):
    """Return the slopes of all scalars, 5 C + 1 numbers each, and of the numbers of classes, four each."""
    C, size, given, steps = M.shape[-1], M.shape[0] * 2, values.cells_of(M), tuple(plan)
    registers, per_class = plan.registers * _gradients.lines_of(C), plan.tables * C * 4
    scalars, tables = np.empty((size, registers)), np.empty((size, per_class))
    lines, shaped = _margins.lines_of(C), _shaped(plan)

    def use(sums, S, start, stop, unusual):
        if unusual:
            _round_huge(sums, C)
        if plan.ordered:
            _passes.derive_ordered(sums, C)
        if plan.again:
            _passes.reduce_again(sums, C, steps)
        for first in range(start, stop, WIDTH):
            tile, count = (first - start) // WIDTH, min(WIDTH, stop - first)
            G, T = _margins.aligned_lines(registers), _margins.aligned_lines(per_class)
            _differentiate(sums[tile * lines : (tile + 1) * lines], C, steps, shaped, S, G, T)
            scalars[first : first + count], tables[first : first + count] = G.T[:count], T.T[:count]

    fill = values.filler(given, C, plan.ordered, (0.0, float(_margins.EXACT)))
    seconds = size * C * C * (1 + plan.registers + plan.tables) * SECONDS_PER_CELL
    values.over_blocks(
        fill, use, C, size, seconds=seconds, num_threads=num_threads, lines=_gradients.working_lines(C, plan)
    )
    pairs = size // 2, 2
    return scalars.reshape(*pairs, plan.registers, _gradients.lines_of(C)), tables.reshape(*pairs, plan.tables, C, 4)
