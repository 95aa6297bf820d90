"""Sparse histograms computed from cell counts: class marginals, and the overlap of two histograms."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core.module import library
from cmfast.kernels.cuda.geometry import _entries, _keys, _weights
from cmfast.kernels.cuda.geometry._entries import find_common_cells, list_pairs, make_entries, make_side, split_by_work
from cmfast.kernels.shared.geometry_keys import KeyLayout, Ranges, bits_of
from cmfast.kernels.status import INVALID, OK, RANGE


def marginal_histogram(keys: Any, counts: Any, M: Any, W: Any, *, n_classes: int, axis: int) -> tuple[Any, Any, Any]:
    """Return the histogram of labels (axis 0) or predictions (axis 1), weighted or counted; synchronises."""
    xp, half = library(keys), bits_of(n_classes)
    side = make_side(keys, half, axis)
    if W is None:
        return side.keys, side.heights(counts), xp.zeros((), np.int8)
    ((q, form, _),) = _weights.quantise([W], M)
    status = xp.asarray(np.array(INVALID if form is None else OK, np.int8))
    if form is not None and form.width:
        heights = _weights.sum_heights(side, _weights.weigh_runs(keys, counts, half, q), form.width)
        return side.keys, _weights.convert_limb_sums(heights, form), status
    heights = xp.zeros(len(side.tags), np.int64)
    if form is not None:
        heights = side.heights(*_weights.weigh_runs(keys, counts, half, q))
    return side.keys, _weights.convert_sums(heights[None, :], [form]).reshape(-1), status


def min_overlap(
    keys_a: Any,
    values_a: Any,
    table_a: Any,
    keys_b: Any,
    values_b: Any,
    table_b: Any,
    *,
    ranges_a: Ranges,
    ranges_b: Ranges,
    n_groups: tuple[int, int],
) -> tuple[Any, Any]:
    """Return the overlap (sum of minima) of every group of one sparse histogram with every group of another."""
    xp, bits = library(keys_a), [bits_of(n) for n in n_groups]
    layouts = KeyLayout.create(ranges_a, table_a), KeyLayout.create(ranges_b, table_b)
    cells = _keys.align(keys_a >> bits[0], layouts[0], keys_b >> bits[1], layouts[1], 0)[:2]
    tags = [keys & ((1 << b) - 1) for keys, b in zip((keys_a, keys_b), bits, strict=True)]
    one, other = (make_entries(cell << b | tag, b) for cell, b, tag in zip(cells, bits, tags, strict=True))
    both = find_common_cells(one, other)
    if values_a.dtype.kind == values_b.dtype.kind == "i":
        mass = min(float(v.astype(np.float64).sum()) for v in (values_a, values_b))
        if mass > 2.0**62:
            msg = f"counts add up to about {mass:.3g}, which int64 cannot hold"
            raise OverflowError(msg)
        matrix = _entries.sum_minima(one, values_a, other, values_b, split_by_work(one, other, both), n_groups)
        failed = _find_failed([values_a < 0, values_b < 0], tags, n_groups)
        return matrix, xp.where(failed, INVALID, OK).astype(np.int8)
    values = [v.astype(np.float64) for v in (values_a, values_b)]
    good = [(v >= 0.0) & (v < np.inf) for v in values]
    failed = _find_failed([g == 0 for g in good], tags, n_groups)
    kept = [xp.where(g, v, 0.0) for g, v in zip(good, values, strict=True)]
    pair, height, _ = list_pairs(one, kept[0], other, kept[1], both, n_groups[1])
    matrix, status = (x.reshape(n_groups) for x in counting.sum_groups(height, pair, n_groups[0] * n_groups[1]))
    far = status != OK  # overflow of finite heights
    return xp.where(failed | far, np.nan, matrix), xp.where(failed, INVALID, xp.where(far, RANGE, OK)).astype(np.int8)


def _find_failed(bad: list[Any], groups: list[Any], n_groups: tuple[int, int]) -> Any:
    """Return which pairs of groups have an invalid height in either."""
    flags = []
    for k in (0, 1):
        flag = library(bad[k]).zeros(n_groups[k], np.bool_)
        flag[groups[k][bad[k]]] = True
        flags.append(flag)
    return flags[0][:, None] | flags[1][None, :]
