"""Sparse histograms computed from cell counts: class marginals, and the overlap of two histograms."""

import numpy as np

from cmfast.kernels.cpu.geometry import _cells, _keys
from cmfast.kernels.shared import geometry_weights
from cmfast.kernels.shared.geometry_keys import KeyLayout, bits_of
from cmfast.kernels.status import INVALID, OK, RANGE


def marginal_histogram(keys, counts, M, W, *, n_classes, axis):
    """Return the histogram of labels (axis 0) or predictions (axis 1) weighted by `W` (C, C), or counts if None.

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
        values = geometry_weights.convert_sums(sums[:, None], fixed)
    else:
        mass = (fixed.q[y, p] * counts)[order]
        sums = np.add.reduceat(mass, starts) if len(starts) else np.empty(0, np.int64)
        values = geometry_weights.convert_sums(sums, fixed)
    return groups[starts], values, status


def min_overlap(keys_a, values_a, table_a, keys_b, values_b, table_b, *, ranges_a, ranges_b, n_groups):
    """Return the overlap (sum of minima) of every group of one sparse histogram with every group of another.

    Returns ``(matrix, status)``; int64 where both are counts.
    """
    bits = [bits_of(n) for n in n_groups]
    one, other = KeyLayout.create(ranges_a, table_a), KeyLayout.create(ranges_b, table_b)
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
            msg = f"counts add up to about {mass:.3g}, which int64 cannot hold"
            raise OverflowError(msg)
    totals, rest = np.zeros((2, *n_groups), values[0].dtype)
    _cells.add_common_heights(cells[0], groups[0], values[0], cells[1], groups[1], values[1], totals, rest)
    failed = bad[0][:, None] | bad[1][None, :]
    status = np.where(failed, INVALID, OK).astype(np.int8)
    if counts:
        return totals, status
    far = np.isinf(totals)
    status[far & ~failed] = RANGE
    rest[far] = 0.0  # the rounding error of infinity is NaN
    matrix = totals + rest
    matrix[failed | far] = np.nan
    return matrix, status
