"""Conformal p-values: the share of calibration scores that are at least a new score, by binary search."""

import math

import numpy as np

from cmfast.kernels.status import INVALID, OK, ZERO_LINE


def p_values(s, labels, new_scores, *, n_groups):
    """Return (1 + number of scores at least the new one) / (n + 1), the status of groups and that of scores.

    `s` and `labels` (or None) are (..., n), `new_scores` (..., m, groups). NaN counts as infinity among the scores, and
    as minus infinity among the new ones.
    """
    batch, n = s.shape[:-1], s.shape[-1]
    rows = math.prod(batch)
    held, queries = (
        s.reshape(rows, n).astype(np.float64),
        new_scores.reshape(rows, new_scores.shape[-2], n_groups).astype(np.float64),
    )
    held[np.isnan(held)] = np.inf
    queries[np.isnan(queries)] = -np.inf
    out, status = np.empty(queries.shape), np.full((rows, n_groups), OK, np.int8)
    scored = np.full((rows, n), OK, np.int8)
    groups = np.zeros((rows, n), np.int64) if labels is None else labels.reshape(rows, n)
    for b in range(rows):
        is_valid = (groups[b] >= 0) & (groups[b] < n_groups)
        scored[b, ~is_valid] = INVALID
        apart, ends = _split_groups(held[b], groups[b], is_valid, n_groups)
        for g in range(n_groups):
            some = apart[ends[g - 1] if g else 0 : ends[g]]
            some.sort()
            status[b, g] = ZERO_LINE if labels is not None and not some.size else OK
            n_least = some.size - some.searchsorted(queries[b, :, g], side="left")
            out[b, :, g] = (n_least + 1) / (some.size + 1)
    return out.reshape(new_scores.shape), status.reshape(*batch, n_groups), scored.reshape(s.shape)


def _split_groups(scores, groups, is_valid, n_groups):
    """Return a copy of the scores of valid groups, ordered by group, and where each group ends."""
    if not is_valid.all():
        scores, groups = scores[is_valid], groups[is_valid]
    if n_groups == 1:
        return scores.copy(), np.array([scores.size])
    kind = np.int16 if n_groups <= np.iinfo(np.int16).max else np.int64  # NumPy sorts 16 bits by radix
    numbers = groups.astype(kind)
    return scores[numbers.argsort(kind="stable")], np.cumsum(np.bincount(numbers, minlength=n_groups))
