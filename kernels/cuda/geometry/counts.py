"""Joint counts of grid cells, labels and predictions, and sparse histograms.

A kernel computes the key of every point; keys are then sorted and run-length encoded, or, if there are no more possible
keys than points, counted with one counter per key.
"""

from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core import batches, sorting
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library
from cmfast.kernels.cuda.geometry import _keys, _run_length, _weights
from cmfast.kernels.cuda.geometry._entries import SMALL_CELL_KEYS
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

RUNS = 1 << 6  # runs per thread when counting in shared memory

_PAIRS = Kernel("geometry/counts", "cmfast_pair_counts_add", (("0",), ("1",)))
_NUMBER = Kernel("geometry/counts", "cmfast_cell_counts_number", registers=32)
_SHAPES = Kernel("geometry/counts", "cmfast_cell_shapes_cells")
KERNELS = (_PAIRS, _NUMBER, _SHAPES)
# Summary values per table of weights; keys of a thread in a tile; keys of a small cell.
DEFINES = {
    "SUMMARY_NUMBERS": len(_weights.NOTHING),
    "RUN_KEYS": _run_length.RUN_KEYS,
    "SMALL_CELL_KEYS": SMALL_CELL_KEYS,
}


def _measure(
    points: _keys.GridPoints, limit: int | None, spread: Any = None, **labels: Any
) -> tuple[int | None, Outside | None, _keys.IndexRanges]:
    """Return the number of classes, inferred if `limit` is None, labels out of range, index ranges; synchronises."""
    (low, most), indices = _keys.find_ranges(list(labels.values()), points, spread)
    if low < 0 or (limit is not None and most >= limit):
        return limit, find_outside(library(points.X), limit, **labels), indices
    return most + 1 if limit is None else limit, None, indices


def _compute_keys(
    points: _keys.GridPoints, labels: list[Any], half: int, indices: _keys.IndexRanges, ranges: Ranges | None = None
) -> tuple[Any, KeyLayout, int, tuple[int, ...]]:
    """Return ``(keys, layout, n_dropped, first_dropped)``; points without a cell have the largest key."""
    low, extent, kept = indices
    bits = half * len(labels)
    found = widen(KeyLayout(low, extent, None), ranges, bits)
    if fits(extent, bits):
        keys = _keys.compute_radix_keys(points, labels, half, found)
    else:
        keys, found = _keys.rank_keys(points, labels, half, found)
    n_dropped = len(keys) - kept
    first = library(keys).flatnonzero(keys == np.iinfo(keys.dtype).max)[:NAMED_POSITIONS].tolist() if n_dropped else ()
    return keys, found, n_dropped, tuple(first)


def _count_keys(keys: Any, n_dropped: int, n_keys: int) -> tuple[Any, Any]:
    """Count keys below `n_keys`, overwriting them: with a counter each if these are few, else by sorting."""
    if n_keys <= len(keys) and keys.dtype == np.int32:
        xp = library(keys)
        counts = xp.zeros(n_keys, np.uint64)
        _NUMBER.launch((), batches.item_blocks(len(keys)), keys=keys, n=len(keys), n_keys=n_keys, out=counts)
        counts = counts.view(np.int64)
        found = xp.flatnonzero(counts)  # synchronises
        return found, counts[found]
    return _run_length.encode_runs(sorting.sort_keys(keys, n_keys)[: len(keys) - n_dropped])


def cell_counts(
    X: Any,
    y_true: Any,
    y_pred: Any,
    *,
    origin: np.ndarray,
    inverse: np.ndarray,
    n_classes: int | None,
    ranges: Ranges | None = None,
    spread: Any = None,
    num_threads: int | None = None,
    progress: Any = None,
) -> tuple[Any, ...]:
    """Count the points of every triple (cell, label, prediction); synchronises.

    `spread` has the least and the largest coordinate of every axis over finite points, and the number of these, if the
    caller knows them: then no pass finds the range of the indices.
    """
    del num_threads
    points = _keys.GridPoints.create(X, origin, inverse)
    n_classes, outside, indices = _measure(points, n_classes, spread, y_true=y_true, y_pred=y_pred)
    if outside is not None:
        return None, None, None, None, outside
    assert n_classes is not None
    keys, found, n_dropped, first = _compute_keys(points, [y_true, y_pred], bits_of(n_classes), indices, ranges)
    keys, counts = _count_keys(keys, n_dropped, found.n_keys(2 * bits_of(n_classes)))
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
    """Merge two sets of cell counts with ranges ``(low, extent)`` each; return ``(keys, counts, table, ranges)``."""
    del num_threads
    one, other = KeyLayout.create(ranges_a, table_a), KeyLayout.create(ranges_b, table_b)
    keys_a, keys_b, found = _keys.align(keys_a, one, keys_b, other, bits)
    join = library(keys_a).concatenate
    keys, counts = _run_length.merge_runs(join([keys_a, keys_b]), join([counts_a, counts_b]), found.n_keys(bits))
    return keys, counts, found.table, (found.low, found.extent)


def decode_cells(keys: Any, table: Any, *, ranges: Ranges, bits: int) -> tuple[Any, Any]:
    """Return ``(index, tags)`` of keys: grid index rows, and the tag bits below the cell."""
    return _keys.index_rows(keys >> bits, KeyLayout.create(ranges, table)), keys & ((1 << bits) - 1)


def pair_counts(keys: Any, counts: Any, *, n_classes: int, num_threads: int | None = None) -> Any:
    """Return the confusion matrix (int64) of the runs."""
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
    """Return ``(sizes, number, totals)``: cells by size; cells, points in pure and in unmixed cells, mixed pairs.

    Synchronises twice, for the number of cells and for that of their sizes.
    """
    xp, half = library(keys), bits_of(n_classes)
    if not len(keys):
        return xp.zeros(0, np.int64), xp.zeros(0, np.int64), xp.zeros(4, np.int64)
    first = _run_length.find_starts(keys >> (2 * half))
    n, out = len(first), xp.zeros(4, np.uint64)
    out[0] = n
    points, fixed = xp.empty(n, np.int64), batches.team_scratch(str(THREADS)) + 8 + 4 * (4 + THREADS)
    words = min(-(-n_classes // 32), (SHARED - fixed) // 4)
    _SHAPES.launch(
        (), batches.item_blocks(n), shared=fixed + 4 * words, keys=keys, counts=counts, n_keys=len(keys), first=first,
        n=n, half=half, n_classes=n_classes, words=words, out_points=points, out=out,
    )  # fmt: skip
    points.sort()
    return *_run_length.encode_runs(points), out.view(np.int64)


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
    """Sum `weights` (None: ones) per (cell, group), as a sparse histogram; synchronises."""
    del num_threads
    points, labels = _keys.GridPoints.create(X, origin, inverse), {} if groups is None else {"groups": groups}
    n_groups, outside, indices = _measure(points, n_groups if labels else 1, **labels)
    if outside is not None:
        return None, None, None, None, None, outside
    assert n_groups is not None
    keys, found, n_dropped, first = _compute_keys(points, list(labels.values()), bits_of(n_groups), indices)
    status, n_keys = None, found.n_keys(bits_of(n_groups) * len(labels))
    if weights is None:
        keys, values = _count_keys(keys, n_dropped, n_keys)
    else:
        order = sorting.argsort_keys(keys, n_keys)[: len(keys) - n_dropped]
        keys = keys[order]
        starts, cells = _run_length.find_starts_and_keys(keys)
        if weights.dtype.kind == "f":
            values, status = counting.sum_groups(
                weights[order], _run_length.number_runs(starts, len(keys)), len(starts)
            )
        else:
            values = _sum_integers(weights[order], starts)
        keys = cells
    if progress is not None:
        progress(len(X), len(X))
    info = (found.low, found.extent, n_groups, n_dropped, first)
    return keys, values, found.table, info, status, None


def _sum_integers(weights: Any, starts: Any) -> Any:
    """Return exact segmented sums of integer weights; raise OverflowError if int64 cannot hold one."""
    if weights.ndim > 1:
        out = library(starts).empty((len(starts), weights.shape[1]), np.int64)
        for k in range(weights.shape[1]):
            out[:, k] = _run_length.sum_segments(weights[:, k], starts)
        return out
    if not len(starts):
        return library(starts).zeros(0, np.int64)
    low, high = int(weights.min()), int(weights.max())
    wide = weights if weights.dtype == np.uint64 else weights.astype(np.int64)
    out = _run_length.sum_segments(wide.view(np.int64), starts)
    if max(-low, high) * len(weights) >= 2**63:
        # Sums of 32-bit halves cannot overflow; the upper half tells whether the whole sum fits.
        upper, lower = (
            _run_length.sum_segments(half.astype(np.int64), starts) for half in (wide >> 32, wide & 0xFFFFFFFF)
        )
        top = upper + (lower >> 32)
        if bool(((top < -(1 << 31)) | (top >= 1 << 31)).any()):
            totals = [(a << 32) + b for a, b in zip(upper.tolist(), lower.tolist(), strict=True)]
            msg = f"a sum of weights is {max(totals, key=abs)}, which int64 cannot hold"
            raise OverflowError(msg)
    return out
