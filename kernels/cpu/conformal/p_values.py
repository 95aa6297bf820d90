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
        numbers = groups[b][is_valid].astype(np.int64)
        order = np.lexsort((held[b][is_valid], numbers))
        ranked, ends = held[b][is_valid][order], np.cumsum(np.bincount(numbers, minlength=n_groups))
        for g in range(n_groups):
            some = ranked[ends[g - 1] if g else 0 : ends[g]]
            status[b, g] = ZERO_LINE if labels is not None and not some.size else OK
            n_least = some.size - some.searchsorted(queries[b, :, g], side="left")
            out[b, :, g] = (n_least + 1) / (some.size + 1)
    return out.reshape(new_scores.shape), status.reshape(*batch, n_groups), scored.reshape(s.shape)
