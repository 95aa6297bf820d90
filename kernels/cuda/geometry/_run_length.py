"""Run-length encoding of sorted keys on the device, and exact segmented sums over the runs.

Two kernels find where runs begin; the rest are sorts, prefix sums and gathers of the array library. Integer sums are
differences of prefix sums, which may wrap around: modulo 2**64 the difference is still exact.
"""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, sorting
from cmfast.kernels.cuda._core.module import NAMES, THREADS, Kernel, library

RUN_KEYS = 16  # keys per thread of a tile: all are loaded before the first is used

_NUMBER = Kernel("geometry/counts", "cmfast_cell_counts_runs", (("int",), ("i64",)))
_STARTS = Kernel("geometry/counts", "cmfast_cell_counts_starts", (("int",), ("i64",)))
KERNELS = (_NUMBER, _STARTS)


def find_key_type(n_keys: int) -> np.dtype[Any]:
    """Return the narrowest integer type for keys below `n_keys` and one larger value: radix sorts process all bits."""
    return np.dtype(np.int32 if n_keys <= np.iinfo(np.int32).max else np.int64)


def argsort(keys: Any, n_keys: int) -> Any:
    """Return the stable sorting order of keys below `n_keys`."""
    return sorting.argsort_keys(keys.astype(find_key_type(n_keys), copy=False), n_keys)


def mark_heads(keys: Any) -> Any:
    """Return a mask of the first position of every run of sorted `keys`."""
    xp = library(keys)
    first = xp.zeros(len(keys), np.bool_)
    first[:1] = True
    first[1:] = keys[1:] != keys[:-1]
    return first


def find_starts(keys: Any) -> Any:
    """Return the first position of every run of sorted integers; synchronises, as their number must be known."""
    return _compact_starts(keys, with_keys=False)[0]


def find_starts_and_keys(keys: Any) -> tuple[Any, Any]:
    """Return the first position and the key (int64) of every run of sorted integers; synchronises."""
    return _compact_starts(keys, with_keys=True)


def _compact_starts(keys: Any, *, with_keys: bool) -> tuple[Any, Any]:
    """Return first positions of runs, and their keys if requested, by counting and then compacting tiles."""
    xp, n = library(keys), len(keys)
    tiles = -(-n // (THREADS * RUN_KEYS))
    if not n:
        return xp.zeros(0, np.int64), xp.zeros(0, np.int64)
    instance, run_counts = (NAMES[keys.dtype],), xp.empty(tiles, np.int64)
    _NUMBER.launch(
        instance, tiles, shared=batches.team_scratch(str(THREADS)), keys=keys, n=n, tiles=tiles, out=run_counts
    )
    ends = xp.cumsum(run_counts, dtype=np.int64)
    first = xp.empty(int(ends[-1]), np.int64)  # synchronises
    found = xp.empty(len(first), np.int64) if with_keys else None
    _STARTS.launch(
        instance, tiles, shared=4 * (THREADS // 32),
        keys=keys, n=n, tiles=tiles, before=ends - run_counts, out_first=first, out_keys=found,
    )  # fmt: skip
    return first, found


def sum_segments(values: Any, first: Any) -> Any:
    """Return segmented sums of integers, from each position in `first` to the next, modulo 2**64."""
    xp = library(values)
    if not len(first):
        return xp.zeros(0, np.int64)
    total = xp.cumsum(values, dtype=np.int64)
    out = xp.empty(len(first), np.int64)
    out[:-1] = total[first[1:] - 1]
    out[-1:] = total[-1:]
    out[1:] = out[1:] - out[:-1]
    return out


def run_lengths(first: Any, n: int) -> Any:
    """Return the lengths of runs that begin at `first`, of n keys."""
    out = library(first).empty(len(first), np.int64)
    out[:-1] = first[1:] - first[:-1]
    out[-1:] = n - first[-1:]
    return out


def number_runs(first: Any, n: int) -> Any:
    """Return for each of n positions the index of its run; runs begin at `first`."""
    xp = library(first)
    head = xp.zeros(n, np.bool_)
    head[first] = True
    return xp.cumsum(head, dtype=np.int64) - 1


def encode_runs(keys: Any) -> tuple[Any, Any]:
    """Return distinct keys and counts (int64) of sorted `keys`."""
    first, found = find_starts_and_keys(keys)
    return found, run_lengths(first, len(keys))


def merge_runs(keys: Any, counts: Any, n_keys: int) -> tuple[Any, Any]:
    """Return the distinct keys, sorted, and their summed counts; `n_keys` is only an upper bound of the keys."""
    sorted_order = argsort(keys, n_keys)
    first, found = find_starts_and_keys(keys[sorted_order])
    return found, sum_segments(counts[sorted_order], first)


def rank_densely(values: Any) -> tuple[Any, Any]:
    """Return the dense rank of every value, and the index of one representative of each rank."""
    xp, sorted_order = library(values), values.argsort()
    head = mark_heads(values[sorted_order])
    out = xp.empty(len(values), np.int64)
    out[sorted_order] = xp.cumsum(head, dtype=np.int64) - 1
    return out, sorted_order[xp.flatnonzero(head)]
