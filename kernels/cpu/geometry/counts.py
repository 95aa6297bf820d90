"""Joint counts of cells and classes, sparse histograms, and the overlaps of histograms computed from them."""

from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _cells, _keys, _keys_sorted, _runs
from cmfast.kernels.shared import geometry_weights
from cmfast.kernels.shared.geometry_keys import DROPPED, Layout, bits_of, fits, joined, volume
from cmfast.kernels.status import INVALID, OK, RANGE

FIRST = 3  # positions that a message names
SECONDS_PER_LABEL = 1e-9
SECONDS_PER_WEIGHT = 2e-8


def _classes(limit, num_threads, **labels):
    """Return ``(n_classes, outside)``: see `cell_counts`."""
    spans = [_span(y, num_threads) for y in labels.values()]
    if min(low for low, _ in spans) < 0 or (limit is not None and max(high for _, high in spans) >= limit):
        return limit, _outside(limit, **labels)
    return max(high for _, high in spans) + 1 if limit is None else limit, None


def _span(y, num_threads):
    """Smallest and largest label, (0, -1) without any."""
    if not y.size:
        return 0, -1
    seconds = y.size * SECONDS_PER_LABEL
    bounds = pool.pieces(y.size, seconds)
    low, high = [0] * len(bounds), [0] * len(bounds)

    def work(i, start, stop):
        low[i], high[i] = int(y[start:stop].min()), int(y[start:stop].max())

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return min(low), max(high)


def _outside(limit, **labels):
    for name, y in labels.items():
        bad = y < 0
        if limit is not None:
            bad |= y >= limit
        where = np.flatnonzero(bad)
        if where.size:
            return name, limit, int(where.size), [(int(i), int(y[i])) for i in where[:FIRST]]
    raise AssertionError


def _plan(X, tags, bits, origin, inverse, num_threads, progress, ranges=None):
    """Return ``(fill, keys, layout, every)``: a function for keys, or the keys themselves where cells are ranked."""
    low, extent, every = _keys.index_ranges(X, origin, inverse, num_threads)
    layout = Layout(low, extent, None)
    if ranges is not None:
        wider = joined(layout, Layout.of(ranges, None), bits)
        layout = wider if wider.table is None else layout
    if fits(extent, bits):
        return _keys.filler(X, tags, bits, origin, inverse, layout, every), None, layout, every
    ranked = _keys.ranked_keys(X, tags, bits, origin, inverse, layout, every, num_threads, progress)
    return None, *ranked, every


def _runs_of_points(X, tags, bits, origin, inverse, num_threads, progress, ranges=None):
    """Count the points of every key; return ``(keys, counts, layout, n_dropped, first_dropped)``."""
    fill, keys, layout, every = _plan(X, tags, bits, origin, inverse, num_threads, progress, ranges)
    if keys is None:
        limit = max(volume(layout.extent) << bits, 1)
        keys, counts = _keys_sorted.sorted_runs(fill, len(X), limit, num_threads, progress)
    else:
        keys.sort()
        keys, counts = _runs.encode(keys, num_threads)
    if every or keys[-1] != DROPPED:
        return keys, counts, layout, 0, ()
    first = _keys.first_without_cell(X, origin, inverse, FIRST)
    return keys[:-1], counts[:-1], layout, int(counts[-1]), first


def cell_counts(X, y_true, y_pred, *, origin, inverse, n_classes, ranges=None, num_threads=None, progress=None):
    """Count the triples (cell, label, prediction). The keys have room for the cells of `ranges`, ``(low, extent)``.

    Returns ``(keys, counts, table), (low, extent, n_classes, n_dropped, first_dropped), outside``. `outside` is None,
    or ``(name, limit, number, first)`` of the labels that are no class, and then there is nothing else.
    """
    n_classes, outside = _classes(n_classes, num_threads, y_true=y_true, y_pred=y_pred)
    if outside is not None:
        return None, None, None, None, outside
    half = bits_of(n_classes)

    def tags(start, stop):
        return (y_true[start:stop].astype(np.int64) << half) | y_pred[start:stop].astype(np.int64)

    found = _runs_of_points(X, tags, 2 * half, origin, inverse, num_threads, progress, ranges)
    keys, counts, layout, n_dropped, first = found
    return keys, counts, layout.table, (layout.low, layout.extent, n_classes, n_dropped, first), None


def merge_cells(keys_a, counts_a, table_a, keys_b, counts_b, table_b, *, ranges_a, ranges_b, bits, num_threads=None):
    """Merge two sets of runs with ``(low, extent)`` each; return ``(keys, counts, table, (low, extent))``."""
    one, other = Layout.of(ranges_a, table_a), Layout.of(ranges_b, table_b)
    keys_a, keys_b, layout = _keys.align(keys_a, one, keys_b, other, bits)
    keys, counts = _runs.merge(keys_a, counts_a, keys_b, counts_b, num_threads)
    return keys, counts, layout.table, (layout.low, layout.extent)


def decode_cells(keys, table, *, ranges, bits):
    """Return ``(index, tags)``: index rows and what is below them, per key."""
    return _keys.index_rows(keys >> bits, Layout.of(ranges, table)), keys & ((1 << bits) - 1)


def pair_counts(keys, counts, *, n_classes, num_threads=None):
    """Return the confusion matrix of the runs, int64."""
    return _cells.pair_counts(keys, counts, bits_of(n_classes), n_classes, num_threads)


def cell_shapes(keys, counts, *, n_classes):
    """Return ``(sizes, number, totals)``; totals: cells, points in pure and in unmixed cells, pairs in mixed ones."""
    return _cells.shape_of_cells(keys, counts, bits_of(n_classes), n_classes, int(counts.sum()))


def gcm(keys, counts, M, *tables, num_threads=None):
    """Geometric confusion matrices for W tables of weights (C, C), and what bounds them.

    Returns ``(matrix, normalized, upper, error, status)``: (W, C, C) three times, (W,) twice. The matrices are in units
    of the cell volume; ``normalized <= matrix <= upper`` holds exactly, because it does in the integers.
    """
    n_weights, n_classes = len(tables), M.shape[0]
    half = bits_of(n_classes)
    each = [(w, w + 1) for w in range(n_weights)]
    options = {"seconds": n_weights * n_classes**2 * SECONDS_PER_WEIGHT, "num_threads": num_threads}
    fixed: list[Any] = [None] * n_weights

    def quantise(w, *_):
        fixed[w] = geometry_weights.quantise(np.asarray(tables[w], np.float64), M)

    pool.run_pieces(quantise, each, **options)
    status = np.array([INVALID if t is None else OK for t in fixed], np.int8)
    error = np.array([np.nan if t is None else t.error for t in fixed])
    G: list[Any] = [None] * n_weights
    narrow = [w for w in range(n_weights) if fixed[w] is not None and not fixed[w].width]
    # One pass for all, unless their matrices would need more memory than the points have.
    step = len(narrow) if 16 * n_classes**2 * len(narrow) <= max(16 * int(counts.sum()), 1 << 24) else 1
    for start in range(0, len(narrow), max(step, 1)):
        some = narrow[start : start + step]
        Q = np.ascontiguousarray(np.stack([fixed[w].q for w in some], axis=2))
        found = _cells.overlaps(keys, counts, half, Q, M, num_threads)
        for k, w in enumerate(some):
            G[w] = found[:, :, k]
    for w in range(n_weights):
        if fixed[w] is not None and fixed[w].width:
            G[w] = _cells.wide_overlaps(keys, counts, half, fixed[w].q, fixed[w].width, num_threads)
    out = [np.full((n_weights, *M.shape), np.nan) for _ in range(3)]

    def bound(w, *_):
        if fixed[w] is not None:
            _bound(G[w], M, fixed[w], [x[w] for x in out])

    pool.run_pieces(bound, each, **options)
    return (*out, error, status)


def _bound(G, M, fixed, out):
    """Write the matrix, the normalised counts and the upper bound of one table of weights."""
    for to, x in zip(out, geometry_weights.bounds(G, M, fixed), strict=True):
        to[...] = x


def cell_excess(keys, counts, share, W, C, *, num_threads=None):
    """Sum what cells have above their own weighted counts, ``min(L_i, P_j) - w_ij n_ij``, for tables `W` (W, C, C).

    Returns ``(E, scores)``: summed over cells with weights `share` (D,), (W, C, C); and summed over classes with
    weights `C` (W, C, C) for every cell, (D, W). The cell keys are ``0, ..., D - 1``.
    """
    W, C = (np.ascontiguousarray(np.moveaxis(x, 0, 2), np.float64) for x in (W, C))
    E, scores = _cells.excess(keys, counts, bits_of(W.shape[0]), W, C, share, num_threads)
    return np.ascontiguousarray(np.moveaxis(E, 2, 0)), scores


def marginal_histogram(keys, counts, M, W, *, n_classes, axis):
    """Histogram of the labels (axis 0) or predictions (axis 1) under the weights `W` (C, C), or counts without.

    Returns ``(keys, values, status)``; keys are ``cell << bits | class``.
    """
    half = bits_of(n_classes)
    mask = (1 << half) - 1
    y, p = (keys >> half) & mask, keys & mask
    groups = keys >> half if axis == 0 else ((keys >> (2 * half)) << half) | p
    order = slice(None) if axis == 0 else np.argsort(groups, kind="stable")
    groups = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]])) if len(groups) else np.empty(0, int)
    fixed = None if W is None else geometry_weights.quantise(np.asarray(W, np.float64), M)
    status = np.int8(INVALID if W is not None and fixed is None else OK)
    if W is None:
        values = np.add.reduceat(counts[order], starts) if len(starts) else np.empty(0, np.int64)
    elif fixed is None:
        values = np.full(len(starts), np.nan)
    elif fixed.width:
        mass = fixed.q[y, p].astype(object) * counts[:, None].astype(object)
        total = [sum(int(x) << (k * fixed.width) for k, x in enumerate(row)) for row in mass[order]]
        sums = np.add.reduceat(np.array(total, object), starts)
        values = geometry_weights.to_float(sums[:, None], fixed)
    else:
        mass = (fixed.q[y, p] * counts)[order]
        sums = np.add.reduceat(mass, starts) if len(starts) else np.empty(0, np.int64)
        values = geometry_weights.to_float(sums, fixed)
    return groups[starts], values, status


def sparse_histogram(X, weights, groups, *, origin, inverse, n_groups, num_threads=None, progress=None):
    """Sum `weights` (None: ones) per (cell, group).

    Returns ``(keys, values, table, (low, extent, n_groups, n_dropped, first_dropped), status, outside)``.
    """
    if groups is None:
        n_groups = 1
    else:
        n_groups, outside = _classes(n_groups, num_threads, groups=groups)
        if outside is not None:
            return None, None, None, None, None, outside
    bits = bits_of(n_groups)

    def tags(start, stop):
        return np.zeros(stop - start, np.int64) if groups is None else groups[start:stop].astype(np.int64)

    if weights is None:
        found = _runs_of_points(X, tags, bits, origin, inverse, num_threads, progress)
        keys, values, layout, n_dropped, first = found
    else:
        fill, keys, layout, every = _plan(X, tags, bits, origin, inverse, num_threads, progress)
        if keys is None:
            keys = _keys_sorted.keys(fill, len(X), num_threads, progress)
        n_dropped = 0 if every else int((keys == DROPPED).sum())
        first = _keys.first_without_cell(X, origin, inverse, FIRST) if n_dropped else ()
        kept = len(keys) - n_dropped
        order = np.argsort(keys, kind="stable")[:kept]
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1)) if kept else np.empty(0, np.int64)
        values = _sums(weights[order], starts)
        keys = keys[starts]
    status = None
    if values.dtype.kind == "f":
        status = np.where(np.isnan(values), INVALID, np.where(np.isinf(values), RANGE, OK)).astype(np.int8)
        values[status == RANGE] = np.nan
    info = (layout.low, layout.extent, n_groups, n_dropped, first)
    return keys, values, layout.table, info, status, None


def _sums(weights, starts):
    """Exact sums of consecutive weights, rounded once; int64 for integers."""
    if weights.dtype.kind == "f":
        return _float_sums(weights, starts)
    if len(starts) == 0:
        return np.empty(0, np.int64)
    low, high = int(weights.min()), int(weights.max())
    if max(-low, high) * len(weights) < 2**63:
        return np.add.reduceat(weights.astype(np.int64), starts)
    # Halves of 32 bits: neither sum overflows, and Python integers put them together.
    w = weights if weights.dtype == np.uint64 else weights.astype(np.int64)
    halves = [np.add.reduceat(half.astype(np.int64), starts) for half in (w >> 32, w & 0xFFFFFFFF)]
    total = [(int(a) << 32) + int(b) for a, b in zip(*halves, strict=True)]
    if max(total) >= 2**63 or min(total) < -(2**63):
        msg = f"sparse_histogram: a sum of weights is {max(total, key=abs)}, which int64 cannot hold"
        raise OverflowError(msg)
    return np.array(total, np.int64)


PARTS = 4  # of 31 bits: 124 bits below the largest weight


def _float_sums(weights, starts):
    """Sum floats as integers of four parts, then round once: independent of order.

    What a weight has below 2**-124 of the largest one is rounded off.
    """
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    if len(starts) == 0:
        return np.empty(0, dtype)
    w = weights.astype(np.float64)
    finite = np.isfinite(w)
    bad = np.add.reduceat(~finite, starts, dtype=np.int64) > 0
    w[~finite] = 0.0
    exponent = int(np.frexp(np.abs(w).max())[1])
    rest = np.ldexp(w, -exponent)
    totals = np.zeros(len(starts), object)
    for _ in range(PARTS - 1):
        rest *= 2.0**31
        whole = np.trunc(rest)
        rest -= whole
        totals = (totals << 31) + np.add.reduceat(whole.astype(np.int64), starts).astype(object)
    last = np.rint(rest * 2.0**31).astype(np.int64)
    totals = (totals << 31) + np.add.reduceat(last, starts).astype(object)
    scale = exponent - 31 * PARTS
    with np.errstate(over="ignore"):
        values = np.array([_scaled(t, scale) for t in totals], np.float64).astype(dtype)
    values[bad] = np.nan
    return values


def _scaled(total, exponent):
    """``total * 2**exponent`` rounded once; infinite where float64 ends."""
    try:
        return float(total << exponent) if exponent >= 0 else total / (1 << -exponent)
    except OverflowError:
        return np.inf if total > 0 else -np.inf


def min_overlap(keys_a, values_a, table_a, keys_b, values_b, table_b, *, ranges_a, ranges_b, n_groups):
    """Overlap of every group of one sparse histogram with every group of another: (groups of a, groups of b).

    Returns ``(matrix, status)``; int64 where both are counts.
    """
    bits = [bits_of(n) for n in n_groups]
    one, other = Layout.of(ranges_a, table_a), Layout.of(ranges_b, table_b)
    cells = _keys.align(keys_a >> bits[0], one, keys_b >> bits[1], other, 0)[:2]
    groups = [keys & ((1 << b) - 1) for keys, b in zip((keys_a, keys_b), bits, strict=True)]
    counts = values_a.dtype.kind == values_b.dtype.kind == "i"
    values = [v if counts else v.astype(np.float64) for v in (values_a, values_b)]
    bad = [np.zeros(n, bool) for n in n_groups]
    for k in range(2):
        bad[k][groups[k][~((values[k] >= 0) & np.isfinite(values[k]))]] = True
    if counts:
        mass = min(v.sum(dtype=np.float64) for v in values)
        if mass > 2.0**62:
            msg = f"min_overlap: counts add up to about {mass:.3g}, which int64 cannot hold"
            raise OverflowError(msg)
    totals, rest = np.zeros((2, *n_groups), values[0].dtype)
    _cells.common_cells(cells[0], groups[0], values[0], cells[1], groups[1], values[1], totals, rest)
    failed = bad[0][:, None] | bad[1][None, :]
    status = np.where(failed, INVALID, OK).astype(np.int8)
    if counts:
        return totals, status
    far = np.isinf(totals)
    status[far & ~failed] = RANGE
    rest[far] = 0.0  # what infinity rounds off is not a number
    matrix = totals + rest
    matrix[failed | far] = np.nan
    return matrix, status
