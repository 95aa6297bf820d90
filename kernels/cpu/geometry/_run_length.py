"""Run-length encoding of sorted keys (distinct keys and counts): encoding, merging and thread-local accumulators."""

from itertools import pairwise
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit

SECONDS_PER_KEY = 3e-9
SECONDS_PER_COPIED_RUN = 2e-9


@jit(borrows=True)
def encode_into(keys, out_keys, out_counts):
    """Write the distinct keys and counts of sorted `keys` to two arrays; return their number.

    `out_keys` may be `keys`: no key is overwritten before it is read. Branch-free, because short runs defeat branch
    prediction.
    """
    run = -1
    last = ~keys[0] if keys.shape[0] else 0
    for i in range(keys.shape[0]):
        key = keys[i]
        run += key != last
        last = key
        out_keys[run] = key
        out_counts[run] = i + 1
    for r in range(run, 0, -1):
        out_counts[r] -= out_counts[r - 1]
    return run + 1


def cut_at_cells(keys, bits, seconds, most=pool.MAX_PIECES):
    """Cut sorted keys into ranges of whole cells for parallel work.

    A cell ends where the key without its last `bits` bits changes.
    """
    starts = [start for start, _ in pool.pieces(len(keys), seconds, most=most)[1:]]
    before = [int(keys[start - 1]) | ((1 << bits) - 1) for start in starts]  # largest possible key of its cell
    return list(pairwise([0, *np.searchsorted(keys, before, side="right").tolist(), len(keys)]))


def encode_runs(keys, num_threads=None):
    """Run-length encode sorted `keys` to ``(keys, counts)`` in place, reusing their memory."""
    seconds = len(keys) * SECONDS_PER_KEY
    bounds = cut_at_cells(keys, 0, seconds)
    counts = np.empty(len(keys), np.int64)
    number = [0] * len(bounds)

    def work(i, start, stop):
        """Encode the keys of one piece in place."""
        number[i] = encode_into(keys[start:stop], keys[start:stop], counts[start:stop])

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    total = 0
    for (start, _), n in zip(bounds, number, strict=True):
        for values in (keys, counts):
            values[total : total + n] = values[start : start + n]
        total += n
    for values in (keys, counts):
        values.resize(total, refcheck=False)  # frees the rest without a copy; no other reference exists
    return keys, counts


def concatenate_runs(parts, num_threads=None, dtype=np.int64):
    """Concatenate runs in parts to ``(keys, counts)``, removing each part from the list to free memory.

    Counts get the type `dtype`; they may be sums.
    """
    places = list(pairwise([0, *np.cumsum([len(keys) for keys, _ in parts]).tolist()]))
    keys, counts = np.empty(places[-1][1], np.int64), np.empty(places[-1][1], dtype)

    def work(_, first, last):
        """Copy some parts."""
        for k in range(first, last):
            start, stop = places[k]
            (keys[start:stop], counts[start:stop]), parts[k] = parts[k], None

    seconds = len(keys) * SECONDS_PER_COPIED_RUN
    pool.run_pieces(work, pool.free_pieces(len(parts), seconds), seconds=seconds, num_threads=num_threads)
    return keys, counts


@jit(borrows=True)
def _merge_into(a, m, b, n, out, number):
    """Merge two sorted run-length encodings, adding counts of equal keys; return the number of distinct keys."""
    i = j = k = 0
    while i < a.shape[0] or j < b.shape[0]:
        if j == b.shape[0] or (i < a.shape[0] and a[i] < b[j]):
            out[k], number[k] = a[i], m[i]
            i += 1
        elif i == a.shape[0] or b[j] < a[i]:
            out[k], number[k] = b[j], n[j]
            j += 1
        else:
            out[k], number[k] = a[i], m[i] + n[j]
            i += 1
            j += 1
        k += 1
    return k


def merge_runs(keys_a, counts_a, keys_b, counts_b, num_threads=None):
    """Merge two sorted run-length encodings in parallel, adding the counts of equal keys."""
    size = len(keys_a) + len(keys_b)
    seconds = size * SECONDS_PER_KEY
    longer = max(keys_a, keys_b, key=len)
    # Pieces end at keys of the longer set, which balances them; a key is in one piece only.
    ends = longer[[start for start, _ in pool.pieces(len(longer), seconds)[1:]]]
    cuts = [[0, *np.searchsorted(keys, ends).tolist(), len(keys)] for keys in (keys_a, keys_b)]
    parts: list[Any] = [None] * (len(ends) + 1)

    def work(i, *_):
        """Merge both sets of runs within one key range."""
        a, b = (slice(cut[i], cut[i + 1]) for cut in cuts)
        most = a.stop - a.start + b.stop - b.start
        keys, counts = np.empty(most, np.int64), np.empty(most, np.int64)
        n = _merge_into(keys_a[a], counts_a[a], keys_b[b], counts_b[b], keys, counts)
        parts[i] = (keys, counts) if n == most else (keys[:n].copy(), counts[:n].copy())

    bounds = [(i, i + 1) for i in range(len(parts))]
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return parts[0] if len(parts) == 1 else concatenate_runs(parts, num_threads)
