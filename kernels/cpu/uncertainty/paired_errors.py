"""Standard errors of the differences between two classifiers on the same samples: the delta method.

A sample of the cell ``T[y, a, b]`` moves the first metric by its slope in ``M1[y, a]``, the second by its slope in
``M2[y, b]``, and the difference by that of the two. The variance is the sum of squares of these over the samples; of
clusters that of their sums.
"""

import numpy as np

from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.uncertainty._slopes import of_cells, of_class, slopes_of_sums
from cmfast.kernels.shared.uncertainty import add_cells


def paired_errors(weights, starts, bounds, cells, counts, *, plan, n_classes, clustered, num_threads=None):
    """Errors of the differences that `plan` makes: of its scalars (G,), of its per-class results (G, C).

    There are `weights` units of every kind; for all else see ``PairedUnits``.
    """
    C, G = n_classes, len(starts) - 1
    group = np.repeat(np.repeat(np.arange(G), np.diff(starts)), np.diff(bounds))  # of every cell
    samples = np.repeat(weights, np.diff(bounds)) * counts
    sums = np.zeros((SUMS if plan.ordered else 3, G, 2, C), np.int64)  # no matrix, of many classes it is nearly empty
    add_cells(sums, cells, group, samples)
    found = slopes_of_sums(sums.reshape(len(sums), 2 * G, C), plan, num_threads)
    scalars, tables = (part.reshape(G, 2, *part.shape[1:]) for part in found)
    error, errors = np.empty((plan.scalars, G)), np.empty((plan.tables, G, C))
    for g in range(G):
        units = slice(starts[g], starts[g + 1])
        at = slice(bounds[units.start], bounds[units.stop])
        begin, own = bounds[units] - at.start, cells[:, at]
        for k in range(plan.scalars):
            first, second = (of_cells(scalars[g, side, k], C, own[0], own[1 + side]) for side in range(2))
            error[k, g] = _error(first - second, counts[at], begin, weights[units], clustered)
        for k in range(plan.tables):
            for c in range(C):
                first, second = (of_class(tables[g, side, k, c], c, own[0], own[1 + side]) for side in range(2))
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
