"""Joint counts of grid cells, labels and predictions, and sparse histograms."""

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _cells, _keys, _run_length, _segmented_sums
from cmfast.kernels.cpu.geometry._keys import GridPoints, Keyed
from cmfast.kernels.shared import halves
from cmfast.kernels.shared.geometry_keys import (
    DROPPED,
    Binned,
    CountedCells,
    KeyLayout,
    bits_of,
    find_outside,
)
from cmfast.kernels.status import INVALID, OK, RANGE

SECONDS_PER_READ_INTEGER = 1e-9


def _check_labels(limit, num_threads, **labels):
    """Return ``(n_classes, outside)``: the number of classes, inferred if `limit` is None, and labels out of range."""
    lowest, highest = _find_range(tuple(labels.values()), num_threads)
    if lowest < 0 or (limit is not None and highest >= limit):
        return limit, find_outside(np, limit, **labels)
    return highest + 1 if limit is None else limit, None


def _find_range(arrays, num_threads):
    """Return the smallest and largest of all integers of equally long arrays, (0, -1) if they are empty."""
    n = len(arrays[0])
    if not n:
        return 0, -1
    seconds = n * len(arrays) * SECONDS_PER_READ_INTEGER
    bounds = pool.pieces(n, seconds)
    low, high = [0] * len(bounds), [0] * len(bounds)

    def work(i, start, stop):
        """Find the range of one piece."""
        parts = [y[start:stop] for y in arrays]
        low[i], high[i] = min(int(y.min()) for y in parts), max(int(y.max()) for y in parts)

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return min(low), max(high)


@jit(borrows=True)
def _tag_pairs(y, p, half, n_classes, out):
    """Write label and prediction packed into one integer, their lowest bits; return whether any is out of range."""
    mask, last, wrong = (1 << half) - 1, n_classes - 1, np.int64(0)
    for r in range(out.shape[0]):
        a, b = y[r], p[r]
        wrong |= a | b | (last - a) | (last - b)  # negative if one of these is
        out[r] = ((a & mask) << half) | (b & mask)
    return wrong < 0


def _convert_labels(y):
    """Return some labels as int64, contiguous and read-only."""
    return freeze(y if y.dtype == np.int64 and y.flags.c_contiguous else np.ascontiguousarray(y, np.int64))


def _make_pair_tags(y_true, y_pred, n_classes):
    """Return ``tags``, see :class:`GridPoints`, and a list that is not empty once a label is out of range."""
    half, refused = bits_of(n_classes), []

    def tags(start, stop, out):
        """Write label and prediction of some points packed into one integer."""
        y, p = (_convert_labels(x[start:stop]) for x in (y_true, y_pred))
        if _tag_pairs(y, p, half, n_classes, out):
            refused.append(start)

    return tags, refused


def _count_points(keyed):
    """Count the points of every key; return ``(keys, counts, layout, n_dropped, first_dropped)``."""
    keys, counts, layout = keyed.runs()
    if keyed.every or keys[-1] != DROPPED:
        return keys, counts, layout, 0, ()
    return keys[:-1], counts[:-1], layout, int(counts[-1]), keyed.first_without_cell()


def cell_counts(
    X, y_true, y_pred, *, origin, inverse, n_classes, ranges=None, spread=None, num_threads=None, progress=None
):
    """Count the points of every triple (cell, label, prediction)."""
    labels = {"y_true": y_true, "y_pred": y_pred}
    if n_classes is None or len(X) != len(y_true):  # else labels are checked when they are read for the keys
        n_classes, outside = _check_labels(n_classes, num_threads, **labels)
        if outside is not None:
            return CountedCells(None, None, None, None, outside)
    tags, refused = _make_pair_tags(y_true, y_pred, n_classes)
    points = GridPoints(X, origin, inverse, tags, 2 * bits_of(n_classes))
    keyed = Keyed(points, ranges=ranges, spread=spread, num_threads=num_threads, progress=progress)
    keys, counts, layout, n_dropped, first = _count_points(keyed)
    if refused:
        return CountedCells(None, None, None, None, find_outside(np, n_classes, **labels))
    return CountedCells(
        keys, counts, layout.table, Binned(layout.low, layout.extent, n_classes, n_dropped, first), None
    )


def merge_cells(keys_a, counts_a, table_a, keys_b, counts_b, table_b, *, ranges_a, ranges_b, bits, num_threads=None):
    """Merge two sets of cell counts with ranges ``(low, extent)`` each; return ``(keys, counts, table, ranges)``."""
    one, other = KeyLayout.create(ranges_a, table_a), KeyLayout.create(ranges_b, table_b)
    keys_a, keys_b, layout = _keys.align(keys_a, one, keys_b, other, bits)
    keys, counts = _run_length.merge_runs(keys_a, counts_a, keys_b, counts_b, num_threads)
    return keys, counts, layout.table, (layout.low, layout.extent)


def decode_cells(keys, table, *, ranges, bits):
    """Return ``(index, tags)`` of keys: grid index rows, and the tag bits below the cell."""
    return _keys.index_rows(keys >> bits, KeyLayout.create(ranges, table)), keys & ((1 << bits) - 1)


def pair_counts(keys, counts, *, n_classes, num_threads=None):
    """Return the confusion matrix (int64) of the runs."""
    return _cells.pair_counts(keys, counts, bits_of(n_classes), n_classes, num_threads)


def cell_shapes(keys, counts, *, n_classes):
    """Return ``(sizes, number, totals)``: cells by size; cells, points in pure and in unmixed cells, mixed pairs."""
    return _cells.count_cells_by_size(keys, counts, bits_of(n_classes), n_classes, int(counts.sum()))


def _fit(weights, num_threads):
    """Return whether int64 holds every sum of some of these integer weights."""
    low, high = _find_range((weights,), num_threads)
    return halves.fits(low, high, len(weights))


def _sum_points(keyed, weights, num_threads):
    """Sum the weights of every key; return ``(keys, sums, layout, n_dropped, first_dropped)``."""
    n = len(weights)
    if keyed.can_sum() and weights.ndim == 1 and (weights.dtype.kind == "f" or _fit(weights, num_threads)):
        keys, sums, number, layout = keyed.sums(weights)
        with np.errstate(over="ignore"):
            sums = sums.astype(np.float32 if weights.dtype == np.float32 else sums.dtype, copy=False)
    else:
        keys, order, layout = keyed.sorted()
        number = len(keys)
        starts = np.flatnonzero(np.append(number > 0, keys[1:] != keys[:-1]))
        keys, sums = keys[starts], _segmented_sums.sum_segments(weights, order, starts, num_threads)
    return keys, sums, layout, n - number, keyed.first_without_cell() if number < n else ()


def sparse_histogram(X, weights, groups, *, origin, inverse, n_groups, num_threads=None, progress=None):
    """Sum `weights` (None: ones) per (cell, group), as a sparse histogram.

    Returns ``(keys, values, table, binned, status, outside)``, see :class:`Binned` and :class:`Outside`.
    """
    if groups is None:
        n_groups = 1
    else:
        n_groups, outside = _check_labels(n_groups, num_threads, groups=groups)
        if outside is not None:
            return None, None, None, None, None, outside
    bits = bits_of(n_groups)

    def tags(start, stop, out):
        """Write the groups of points as tags."""
        out[...] = groups[start:stop]

    points = GridPoints(X, origin, inverse, _keys.write_no_tags if groups is None else tags, bits)
    keyed = Keyed(points, num_threads=num_threads, progress=progress)
    found = _count_points(keyed) if weights is None else _sum_points(keyed, weights, num_threads)
    keys, values, layout, n_dropped, first = found
    status = None
    if values.dtype.kind == "f":
        status = np.where(np.isnan(values), INVALID, np.where(np.isinf(values), RANGE, OK)).astype(np.int8)
        values[status == RANGE] = np.nan
    return keys, values, layout.table, Binned(layout.low, layout.extent, n_groups, n_dropped, first), status, None
