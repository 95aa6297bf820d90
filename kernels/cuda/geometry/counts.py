"""Joint counts of cells and classes, and sparse histograms.

A kernel gives every point its key; then the keys are sorted, and what follows are runs of them.
"""

from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library
from cmfast.kernels.cuda.geometry import _entries, _keys, _runs, _weights
from cmfast.kernels.cuda.geometry._entries import Common, Entries, by_work, common, entries, pairs, sides
from cmfast.kernels.shared.geometry_keys import Layout, Ranges, bits_of, fits, joined
from cmfast.kernels.status import INVALID, OK, RANGE

FIRST = 3  # positions that a message names
RUNS = 1 << 6  # per thread that count together in shared memory

_PAIRS = Kernel("geometry/counts", "cmfast_pair_counts_add", (("0",), ("1",)))
KERNELS = (_PAIRS,)
DEFINES = {"SUMMARY_NUMBERS": len(_weights.NOTHING)}  # that are found of a table of weights

Outside = tuple[str, int | None, int, list[tuple[int, int]]]


def _classes(limit: int | None, **labels: Any) -> tuple[int | None, Outside | None]:
    """Return ``(n_classes, outside)``: see `cell_counts`. Synchronises."""
    low, most = _keys.label_range(*labels.values())
    if low < 0 or (limit is not None and most >= limit):
        return limit, _outside(limit, **labels)
    return most + 1 if limit is None else limit, None


def _outside(limit: int | None, **labels: Any) -> Outside:
    name, _, number, first = counting.find_outside(limit, **labels)
    return name, limit, number, [(index[0], value) for index, value in first]


def _sorted_keys(
    points: _keys.Points, labels: list[Any], half: int, ranges: Ranges | None = None
) -> tuple[Any, Layout, int, tuple[int, ...]]:
    """Return ``(keys, layout, n_dropped, first_dropped)``; points without a cell have the largest key."""
    low, extent, kept = _keys.index_ranges(points)
    found, bits = Layout(low, extent, None), half * len(labels)
    if ranges is not None:
        wider = joined(found, Layout.of(ranges, None), bits)
        found = wider if wider.table is None else found
    if fits(extent, bits):
        keys = _keys.radix_keys(points, labels, half, found)
    else:
        keys, found = _keys.ranked_keys(points, labels, half, found)
    n_dropped = len(keys) - kept
    first = library(keys).flatnonzero(keys == np.iinfo(keys.dtype).max)[:FIRST].tolist() if n_dropped else ()
    return keys, found, n_dropped, tuple(first)


def _runs_of(keys: Any, n_dropped: int) -> tuple[Any, Any]:
    """Sort `keys`, which nobody else has, and count them."""
    keys.sort()
    return _runs.encode(keys[: len(keys) - n_dropped])


def cell_counts(
    X: Any,
    y_true: Any,
    y_pred: Any,
    *,
    origin: np.ndarray,
    inverse: np.ndarray,
    n_classes: int | None,
    ranges: Ranges | None = None,
    num_threads: int | None = None,
    progress: Any = None,
) -> tuple[Any, ...]:
    """Count the triples (cell, label, prediction); see the CPU's. Synchronises."""
    del num_threads
    n_classes, outside = _classes(n_classes, y_true=y_true, y_pred=y_pred)
    if outside is not None:
        return None, None, None, None, outside
    assert n_classes is not None
    points = _keys.Points.on(X, origin, inverse)
    keys, found, n_dropped, first = _sorted_keys(points, [y_true, y_pred], bits_of(n_classes), ranges)
    keys, counts = _runs_of(keys, n_dropped)
    if progress is not None:
        progress(len(X), len(X))
    return keys, counts, found.table, (found.low, found.extent, n_classes, n_dropped, first), None


def merge_cells(
    keys_a: Any,
    counts_a: Any,
    table_a: Any,
    keys_b: Any,
    counts_b: Any,
    table_b: Any,
    *,
    ranges_a: Ranges,
    ranges_b: Ranges,
    bits: int,
    num_threads: int | None = None,
) -> tuple[Any, ...]:
    """Merge two sets of runs with ``(low, extent)`` each; return ``(keys, counts, table, (low, extent))``."""
    del num_threads
    one, other = Layout.of(ranges_a, table_a), Layout.of(ranges_b, table_b)
    keys_a, keys_b, found = _keys.align(keys_a, one, keys_b, other, bits)
    join = library(keys_a).concatenate
    keys, counts = _runs.merge(join([keys_a, keys_b]), join([counts_a, counts_b]), found.n_keys(bits))
    return keys, counts, found.table, (found.low, found.extent)


def decode_cells(keys: Any, table: Any, *, ranges: Ranges, bits: int) -> tuple[Any, Any]:
    """Return ``(index, tags)``: index rows and what is below them, per key."""
    return _keys.index_rows(keys >> bits, Layout.of(ranges, table)), keys & ((1 << bits) - 1)


def pair_counts(keys: Any, counts: Any, *, n_classes: int, num_threads: int | None = None) -> Any:
    """Return the confusion matrix of the runs, int64."""
    del num_threads
    out = library(keys).zeros((n_classes, n_classes), np.uint64)
    if len(keys):
        size = 8 * n_classes**2
        held = size <= SHARED
        blocks = -(-len(keys) // (THREADS * (RUNS if held else 1)))
        _PAIRS.launch(
            (str(int(held)),), blocks, shared=size if held else 0,
            keys=keys, counts=counts, n=len(keys), half=bits_of(n_classes), n_classes=n_classes, out=out,
        )  # fmt: skip
    return out.view(np.int64)


def cell_shapes(keys: Any, counts: Any, *, n_classes: int) -> tuple[Any, Any, Any]:
    """Return ``(sizes, number, totals)``; totals: cells, points in pure and in unmixed cells, pairs in mixed ones."""
    xp, half = library(keys), bits_of(n_classes)
    if not len(keys):
        return xp.zeros(0, np.int64), xp.zeros(0, np.int64), xp.zeros(4, np.int64)
    labels, predictions, first, _ = found = sides(keys, half)
    points = _runs.sums(counts, first)
    alone = _runs.lengths(first, len(keys)) == 1
    pairs = xp.where(found.mixed, labels.sizes * predictions.sizes, 0)
    out = xp.empty(4, np.int64)
    out[0] = len(first)
    for k, each in enumerate((xp.where(alone, points, 0), xp.where(found.mixed, 0, points), pairs), 1):
        out[k] = each.sum()
    points.sort()
    return *_runs.encode(points), out


def gcm(keys: Any, counts: Any, M: Any, *tables: Any, num_threads: int | None = None) -> tuple[Any, Any, Any, Any, Any]:
    """Geometric confusion matrices for W tables of weights (C, C), and bounds of them; see the CPU's. Synchronises."""
    del num_threads
    xp, half = library(keys), bits_of(len(M))
    fixed = _weights.quantise(list(tables), M)
    plans = [table.plan for table in fixed]
    labels, predictions, _, cell = found = sides(keys, half)
    mixed = found.mixed
    cells = xp.flatnonzero(mixed)
    split = by_work(labels, predictions, Common(cells, cells))
    # What lies in cells of one label or one prediction counts as it is.
    S = pair_counts(keys, xp.where(mixed[cell], 0, counts), n_classes=len(M))
    sums = xp.zeros((3, len(tables), M.size), np.int64)
    for w, (q, plan) in enumerate(fixed):
        if plan is not None and not plan.width:
            (mass,) = _masses(keys, counts, half, q)
            G = _entries.overlaps(labels, labels.heights(mass), predictions, predictions.heights(mass), split, M.shape)
            exact = q[0] * M
            rows, columns = exact.sum(axis=1)[:, None], exact.sum(axis=0)[None, :]
            for k, total in enumerate((G + q[0] * S, exact, xp.where(rows < columns, rows, columns))):
                sums[k, w] = total.ravel()
    out = _weights.rounded(sums, plans).reshape(3, len(tables), *M.shape)
    for w, (q, plan) in enumerate(fixed):
        if plan is not None and plan.width:
            masses = _masses(keys, counts, half, q)
            L, P = (_heights(side, masses, plan.width) for side in (labels, predictions))
            exact = q * M
            rows, columns = (_weights.carried(exact.sum(axis=axis), plan.width) for axis in (2, 1))
            G = _entries.wide_overlaps(labels, L, predictions, P, len(M))
            for k, total in enumerate((G, exact, _weights.smaller(rows, columns))):
                out[k, w] = _weights.rounded_limbs(_weights.carried(total, plan.width), plan)
    status = xp.asarray(np.array([INVALID if plan is None else OK for plan in plans], np.int8))
    error = xp.asarray(np.array([np.nan if plan is None else plan.error for plan in plans], np.float64))
    return out[0], out[1], out[2], error, status


def _masses(keys: Any, counts: Any, half: int, q: Any) -> list[Any]:
    """Return the weight of every run: integers, one array per limb."""
    mask = (1 << half) - 1
    places = (keys >> half & mask) * q.shape[-1] + (keys & mask)
    return [limb.ravel()[places] * counts for limb in q]


def _heights(side: Entries, masses: list[Any], width: int) -> Any:
    """Return heights in limbs (K, entries)."""
    heights = library(masses[0]).empty((len(masses), len(side.tags)), np.int64)
    for k, mass in enumerate(masses):
        heights[k] = side.heights(mass)
    return _weights.carried(heights, width)


def cell_excess(
    keys: Any, counts: Any, share: Any, W: Any, C: Any, *, num_threads: int | None = None
) -> tuple[Any, Any]:
    """Sum what cells have above their own weighted counts; see the CPU's. Synchronises."""
    del num_threads
    xp, (n_weights, n_classes, _) = library(keys), W.shape
    half, mask = bits_of(n_classes), (1 << bits_of(n_classes)) - 1
    both = sides(keys, half)[:2]
    every = xp.arange(len(both[0].cells))
    own = (keys >> half & mask) * n_classes + (keys & mask)
    E, scores = xp.empty((n_weights, n_classes**2), np.float64), xp.empty((len(share), n_weights), np.float64)
    for w in range(n_weights):
        mass = W[w].astype(np.float64).ravel()[own] * counts
        heights = [_exact_heights(side, mass) for side in both]
        pair, height, cell = pairs(both[0], heights[0], both[1], heights[1], Common(every, every), n_classes)
        value, place = xp.concatenate([height, -mass]), xp.concatenate([pair, own])
        cell = xp.concatenate([both[0].cells[cell], keys >> (2 * half)])
        E[w] = _exact_sums(share[cell] * value, place, n_classes**2)[0]
        scores[:, w] = _exact_sums(C[w].astype(np.float64).ravel()[place] * value, cell, len(share))[0]
    return E.reshape(W.shape), scores


def _exact_heights(side: Entries, values: Any) -> Any:
    """Return the sums of floats, one per run, exact and rounded once."""
    entry = _runs.numbers(side.runs, len(values))
    return _exact_sums(values if side.order is None else values[side.order], entry, len(side.tags))[0]


def marginal_histogram(keys: Any, counts: Any, M: Any, W: Any, *, n_classes: int, axis: int) -> tuple[Any, Any, Any]:
    """Histogram of the labels (axis 0) or predictions (axis 1); see the CPU's. Synchronises."""
    xp, half = library(keys), bits_of(n_classes)
    side = sides(keys, half)[axis]
    if W is None:
        return side.keys, side.heights(counts), xp.zeros((), np.int8)
    ((q, plan),) = _weights.quantise([W], M)
    status = xp.asarray(np.array(INVALID if plan is None else OK, np.int8))
    if plan is not None and plan.width:
        heights = _heights(side, _masses(keys, counts, half, q), plan.width)
        return side.keys, _weights.rounded_limbs(heights, plan), status
    heights = xp.zeros(len(side.tags), np.int64)
    if plan is not None:
        heights = side.heights(*_masses(keys, counts, half, q))
    return side.keys, _weights.rounded(heights[None, :], [plan]).reshape(-1), status


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
    """Overlap of every group of one sparse histogram with every group of another; see the CPU's. Synchronises."""
    xp, bits = library(keys_a), [bits_of(n) for n in n_groups]
    layouts = Layout.of(ranges_a, table_a), Layout.of(ranges_b, table_b)
    cells = _keys.align(keys_a >> bits[0], layouts[0], keys_b >> bits[1], layouts[1], 0)[:2]
    tags = [keys & ((1 << b) - 1) for keys, b in zip((keys_a, keys_b), bits, strict=True)]
    one, other = (entries(cell << b | tag, b) for cell, b, tag in zip(cells, bits, tags, strict=True))
    both = common(one, other)
    if values_a.dtype.kind == values_b.dtype.kind == "i":
        mass = min(float(v.astype(np.float64).sum()) for v in (values_a, values_b))
        if mass > 2.0**62:
            msg = f"min_overlap: counts add up to about {mass:.3g}, which int64 cannot hold"
            raise OverflowError(msg)
        matrix = _entries.overlaps(one, values_a, other, values_b, by_work(one, other, both), n_groups)
        failed = _failed([values_a < 0, values_b < 0], tags, n_groups)
        return matrix, xp.where(failed, INVALID, OK).astype(np.int8)
    values = [v.astype(np.float64) for v in (values_a, values_b)]
    good = [(v >= 0.0) & (v < np.inf) for v in values]
    failed = _failed([g == 0 for g in good], tags, n_groups)
    kept = [xp.where(g, v, 0.0) for g, v in zip(good, values, strict=True)]
    pair, height, _ = pairs(one, kept[0], other, kept[1], both, n_groups[1])
    matrix, status = (x.reshape(n_groups) for x in _exact_sums(height, pair, n_groups[0] * n_groups[1]))
    far = status != OK  # of finite heights
    return xp.where(failed | far, np.nan, matrix), xp.where(failed, INVALID, xp.where(far, RANGE, OK)).astype(np.int8)


def _failed(bad: list[Any], groups: list[Any], n_groups: tuple[int, int]) -> Any:
    """Return which pairs of groups have a bad height in either."""
    flags = []
    for k in (0, 1):
        flag = library(bad[k]).zeros(n_groups[k], np.bool_)
        flag[groups[k][bad[k]]] = True
        flags.append(flag)
    return flags[0][:, None] | flags[1][None, :]


def sparse_histogram(
    X: Any,
    weights: Any,
    groups: Any,
    *,
    origin: np.ndarray,
    inverse: np.ndarray,
    n_groups: int | None,
    num_threads: int | None = None,
    progress: Any = None,
) -> tuple[Any, ...]:
    """Sum `weights` (None: ones) per (cell, group); see the CPU's. Synchronises."""
    del num_threads
    if groups is None:
        n_groups = 1
    else:
        n_groups, outside = _classes(n_groups, groups=groups)
        if outside is not None:
            return None, None, None, None, None, outside
    assert n_groups is not None
    points = _keys.Points.on(X, origin, inverse)
    labels = [] if groups is None else [groups]
    keys, found, n_dropped, first = _sorted_keys(points, labels, bits_of(n_groups))
    status = None
    if weights is None:
        keys, values = _runs_of(keys, n_dropped)
    else:
        order = keys.argsort()[: len(keys) - n_dropped]
        keys = keys[order]
        starts = _runs.starts(keys)
        if weights.dtype.kind == "f":
            values, status = _exact_sums(weights[order], _runs.numbers(starts, len(keys)), len(starts))
        else:
            values = _integer_sums(weights[order], starts)
        keys = keys[starts].astype(np.int64, copy=False)
    if progress is not None:
        progress(len(X), len(X))
    info = (found.low, found.extent, n_groups, n_dropped, first)
    return keys, values, found.table, info, status, None


def _integer_sums(weights: Any, starts: Any) -> Any:
    """Exact sums of consecutive weights, or an error where int64 cannot hold one."""
    if not len(starts):
        return library(starts).zeros(0, np.int64)
    low, high = int(weights.min()), int(weights.max())
    wide = weights if weights.dtype == np.uint64 else weights.astype(np.int64)
    out = _runs.sums(wide.view(np.int64), starts)
    if max(-low, high) * len(weights) >= 2**63:
        # The same in halves of 32 bits, neither of which overflows: what the upper half is says whether the sum fits.
        upper, lower = (_runs.sums(half.astype(np.int64), starts) for half in (wide >> 32, wide & 0xFFFFFFFF))
        top = upper + (lower >> 32)
        if bool(((top < -(1 << 31)) | (top >= 1 << 31)).any()):
            totals = [(a << 32) + b for a, b in zip(upper.tolist(), lower.tolist(), strict=True)]
            msg = f"sparse_histogram: a sum of weights is {max(totals, key=abs)}, which int64 cannot hold"
            raise OverflowError(msg)
    return out


def _exact_sums(weights: Any, groups: Any, n_groups: int) -> tuple[Any, Any]:
    """Return sums of floats and their status: exact, rounded once, as the weighted confusion matrix makes them."""
    nothing = library(groups).zeros(len(groups), np.uint8)
    options: dict[str, Any] = {"n_classes": 1, "labels": None, "n_groups": n_groups}
    values, status, _ = counting.confusion_matrix(nothing, nothing, weights, groups, **options)
    return values.reshape(n_groups), status
