"""Sorted keys as runs, and exact sums over them.

Two kernels find where runs begin; the rest are sorts, scans and gathers of the array library.

Sums of integers are differences of running totals. These may wrap around: modulo 2**64 the difference is still exact.
"""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, sorting
from cmfast.kernels.cuda._core.module import NAMES, THREADS, Kernel, library

RUN_KEYS = 16  # of every thread, in a tile: all of them are read before one is looked at

_NUMBER = Kernel("geometry/counts", "cmfast_cell_counts_runs", (("int",), ("i64",)))
_STARTS = Kernel("geometry/counts", "cmfast_cell_counts_starts", (("int",), ("i64",)))
KERNELS = (_NUMBER, _STARTS)


def key_type(n_keys: int) -> np.dtype[Any]:
    """Return the narrowest integers for keys below `n_keys`, and one larger number: a radix sort looks at every bit."""
    return np.dtype(np.int32 if n_keys <= np.iinfo(np.int32).max else np.int64)


def order(keys: Any, n_keys: int) -> Any:
    """Return the order of keys below `n_keys`, equal ones as they come."""
    return sorting.argsort_keys(keys.astype(key_type(n_keys), copy=False), n_keys)


def heads(keys: Any) -> Any:
    """Return where a run of sorted `keys` begins."""
    xp = library(keys)
    first = xp.zeros(len(keys), np.bool_)
    first[:1] = True
    first[1:] = keys[1:] != keys[:-1]
    return first


def starts(keys: Any) -> Any:
    """Return the first position of every run of sorted integers; synchronises, as their number must be known."""
    return _begin(keys, with_keys=False)[0]


def starts_and_keys(keys: Any) -> tuple[Any, Any]:
    """Return the first position of every run of sorted integers, and its key, int64; synchronises."""
    return _begin(keys, with_keys=True)


def _begin(keys: Any, *, with_keys: bool) -> tuple[Any, Any]:
    xp, n = library(keys), len(keys)
    tiles = -(-n // (THREADS * RUN_KEYS))
    if not n:
        return xp.zeros(0, np.int64), xp.zeros(0, np.int64)
    instance, numbers = (NAMES[keys.dtype],), xp.empty(tiles, np.int64)
    _NUMBER.launch(instance, tiles, shared=batches.team_scratch(str(THREADS)), keys=keys, n=n, tiles=tiles, out=numbers)
    ends = xp.cumsum(numbers, dtype=np.int64)
    first = xp.empty(int(ends[-1]), np.int64)  # synchronises
    found = xp.empty(len(first), np.int64) if with_keys else None
    _STARTS.launch(
        instance, tiles, shared=4 * (THREADS // 32),
        keys=keys, n=n, tiles=tiles, before=ends - numbers, out_first=first, out_keys=found,
    )  # fmt: skip
    return first, found


def sums(values: Any, first: Any) -> Any:
    """Return the sums of consecutive integers, from each position in `first` to the next, modulo 2**64."""
    xp = library(values)
    if not len(first):
        return xp.zeros(0, np.int64)
    total = xp.cumsum(values, dtype=np.int64)
    out = xp.empty(len(first), np.int64)
    out[:-1] = total[first[1:] - 1]
    out[-1:] = total[-1:]
    out[1:] = out[1:] - out[:-1]
    return out


def lengths(first: Any, n: int) -> Any:
    """Return how long the runs that begin at `first` are, of n keys."""
    out = library(first).empty(len(first), np.int64)
    out[:-1] = first[1:] - first[:-1]
    out[-1:] = n - first[-1:]
    return out


def numbers(first: Any, n: int) -> Any:
    """Return for each of n positions the number of the run that it is in; runs begin at `first`."""
    xp = library(first)
    head = xp.zeros(n, np.bool_)
    head[first] = True
    return xp.cumsum(head, dtype=np.int64) - 1


def encode(keys: Any) -> tuple[Any, Any]:
    """Return ``(keys, counts)`` of the runs of sorted `keys`, int64."""
    first, found = starts_and_keys(keys)
    return found, lengths(first, len(keys))


def merge(keys: Any, counts: Any, n_keys: int) -> tuple[Any, Any]:
    """Return the runs of keys below `n_keys`, in any order, that stand for `counts` each."""
    places = order(keys, n_keys)
    first, found = starts_and_keys(keys[places])
    return found, sums(counts[places], first)


def rank(values: Any) -> tuple[Any, Any]:
    """Return the rank of every value among the distinct ones, and where one of each stands."""
    xp, places = library(values), values.argsort()
    head = heads(values[places])
    out = xp.empty(len(values), np.int64)
    out[places] = xp.cumsum(head, dtype=np.int64) - 1
    return out, places[xp.flatnonzero(head)]
