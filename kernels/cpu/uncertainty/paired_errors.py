"""Delta-method standard errors of the difference of metrics between two classifiers on the same samples.

A sample of the cell ``T[y, a, b]`` changes the first metric by its derivative in ``M1[y, a]``, the second by that in
``M2[y, b]``, and the difference by their difference. The variance is the sum of squares over samples, or over cluster
sums.
"""

import numpy as np

from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.uncertainty._cell_derivatives import differentiate_sums, gather_cell_slopes, gather_class_slopes
from cmfast.kernels.shared.uncertainty import add_cells


def paired_errors(weights, starts, bounds, cells, counts, *, plan, n_classes, clustered, num_threads=None):
    """Return standard errors of the differences of the metrics of `plan`: scalars (G,), per-class results (G, C).

    `weights` is the number of units of each kind; the other arrays are those of ``PairedUnits``.
    """
    C, G = n_classes, len(starts) - 1
    group = np.repeat(np.repeat(np.arange(G), np.diff(starts)), np.diff(bounds))  # of every cell
    samples = np.repeat(weights, np.diff(bounds)) * counts
    sums = np.zeros((SUMS if plan.ordered else 3, G, 2, C), np.int64)  # not matrices: they are nearly empty
    add_cells(sums, cells, group, samples)
    found = differentiate_sums(sums.reshape(len(sums), 2 * G, C), plan, num_threads)
    scalars, tables = (part.reshape(G, 2, *part.shape[1:]) for part in found)
    error, errors = np.empty((plan.scalars, G)), np.empty((plan.tables, G, C))
    for g in range(G):
        units = slice(starts[g], starts[g + 1])
        at = slice(bounds[units.start], bounds[units.stop])
        begin, own = bounds[units] - at.start, cells[:, at]
        for k in range(plan.scalars):
            first, second = (gather_cell_slopes(scalars[g, side, k], C, own[0], own[1 + side]) for side in range(2))
            error[k, g] = _estimate_error(first - second, counts[at], begin, weights[units], clustered)
        for k in range(plan.tables):
            for c in range(C):
                first, second = (
                    gather_class_slopes(tables[g, side, k, c], c, own[0], own[1 + side]) for side in range(2)
                )
                errors[k, g, c] = _estimate_error(first - second, counts[at], begin, weights[units], clustered)
    return (*error, *errors)


def _estimate_error(slopes, counts, begin, weights, clustered):
    """Return the standard error of a difference with derivatives `slopes` in the cells of one group."""
    total = int(weights.sum())
    if not total:
        return np.nan
    moved = np.add.reduceat(slopes * counts, begin)  # change by one unit of each kind
    moved = moved - (weights * moved).sum() / total
    variance = (weights * moved**2).sum()
    return np.sqrt(variance * (total / (total - 1) if total > 1 else np.nan) if clustered else variance)
