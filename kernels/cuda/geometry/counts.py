"""Joint counts of cells and classes, and sparse histograms.

A kernel gives every point its key; then the keys are sorted, and what follows are runs of them. Keys of which there are
no more than points are counted without a sort.
"""

from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core import batches, sorting
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library
from cmfast.kernels.cuda.geometry import _keys, _runs, _weights
from cmfast.kernels.cuda.geometry._entries import sides
from cmfast.kernels.shared.geometry_keys import (
    NAMED_POSITIONS,
    KeyLayout,
    Outside,
    Ranges,
    bits_of,
    find_outside,
    fits,
    widen,
)

RUNS = 1 << 6  # per thread that count together in shared memory

_PAIRS = Kernel("geometry/counts", "cmfast_pair_counts_add", (("0",), ("1",)))
_NUMBER = Kernel("geometry/counts", "cmfast_cell_counts_number", registers=32)
KERNELS = (_PAIRS, _NUMBER)
# Numbers that are found of a table of weights; keys of a thread in a tile.
DEFINES = {"SUMMARY_NUMBERS": len(_weights.NOTHING), "RUN_KEYS": _runs.RUN_KEYS}


def _classes(limit: int | None, **labels: Any) -> tuple[int | None, Outside | None]:
    """Return ``(n_classes, outside)``: see `cell_counts`. Synchronises."""
    low, most = _keys.label_range(*labels.values())
    if low < 0 or (limit is not None and most >= limit):
        return limit, find_outside(library(next(iter(labels.values()))), limit, **labels)
    return most + 1 if limit is None else limit, None


def _sorted_keys(
    points: _keys.GridPoints, labels: list[Any], half: int, ranges: Ranges | None = None
) -> tuple[Any, KeyLayout, int, tuple[int, ...]]:
    """Return ``(keys, layout, n_dropped, first_dropped)``; points without a cell have the largest key."""
    low, extent, kept = _keys.index_ranges(points)
    bits = half * len(labels)
    found = widen(KeyLayout(low, extent, None), ranges, bits)
    if fits(extent, bits):
        keys = _keys.radix_keys(points, labels, half, found)
    else:
        keys, found = _keys.ranked_keys(points, labels, half, found)
    n_dropped = len(keys) - kept
    first = library(keys).flatnonzero(keys == np.iinfo(keys.dtype).max)[:NAMED_POSITIONS].tolist() if n_dropped else ()
    return keys, found, n_dropped, tuple(first)


def _runs_of(keys: Any, n_dropped: int, n_keys: int) -> tuple[Any, Any]:
    """Count `keys` below `n_keys`, which nobody else has: by a counter for each if these are few, else by a sort."""
    if n_keys <= len(keys) and keys.dtype == np.int32:
        xp = library(keys)
        counts = xp.zeros(n_keys, np.uint64)
        _NUMBER.launch((), batches.item_blocks(len(keys)), keys=keys, n=len(keys), n_keys=n_keys, out=counts)
        counts = counts.view(np.int64)
        found = xp.flatnonzero(counts)  # synchronises
        return found, counts[found]
    return _runs.encode(sorting.sort_keys(keys, n_keys)[: len(keys) - n_dropped])


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
    points = _keys.GridPoints.on(X, origin, inverse)
    keys, found, n_dropped, first = _sorted_keys(points, [y_true, y_pred], bits_of(n_classes), ranges)
    keys, counts = _runs_of(keys, n_dropped, found.n_keys(2 * bits_of(n_classes)))
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
    one, other = KeyLayout.create(ranges_a, table_a), KeyLayout.create(ranges_b, table_b)
    keys_a, keys_b, found = _keys.align(keys_a, one, keys_b, other, bits)
    join = library(keys_a).concatenate
    keys, counts = _runs.merge(join([keys_a, keys_b]), join([counts_a, counts_b]), found.n_keys(bits))
    return keys, counts, found.table, (found.low, found.extent)


def decode_cells(keys: Any, table: Any, *, ranges: Ranges, bits: int) -> tuple[Any, Any]:
    """Return ``(index, tags)``: index rows and what is below them, per key."""
    return _keys.index_rows(keys >> bits, KeyLayout.create(ranges, table)), keys & ((1 << bits) - 1)


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
    points = _keys.GridPoints.on(X, origin, inverse)
    labels = [] if groups is None else [groups]
    keys, found, n_dropped, first = _sorted_keys(points, labels, bits_of(n_groups))
    status, n_keys = None, found.n_keys(bits_of(n_groups) * len(labels))
    if weights is None:
        keys, values = _runs_of(keys, n_dropped, n_keys)
    else:
        order = sorting.argsort_keys(keys, n_keys)[: len(keys) - n_dropped]
        keys = keys[order]
        starts, cells = _runs.starts_and_keys(keys)
        if weights.dtype.kind == "f":
            values, status = counting.sums_of_groups(weights[order], _runs.numbers(starts, len(keys)), len(starts))
        else:
            values = _integer_sums(weights[order], starts)
        keys = cells
    if progress is not None:
        progress(len(X), len(X))
    info = (found.low, found.extent, n_groups, n_dropped, first)
    return keys, values, found.table, info, status, None


def _integer_sums(weights: Any, starts: Any) -> Any:
    """Exact sums of consecutive weights, or an error where int64 cannot hold one; columns are taken to fit."""
    if weights.ndim > 1:
        out = library(starts).empty((len(starts), weights.shape[1]), np.int64)
        for k in range(weights.shape[1]):
            out[:, k] = _runs.sums(weights[:, k], starts)
        return out
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
            msg = f"a sum of weights is {max(totals, key=abs)}, which int64 cannot hold"
            raise OverflowError(msg)
    return out
