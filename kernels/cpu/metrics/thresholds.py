"""All binary confusion matrices of a score array, from one sort."""

import numpy as np

from cmfast.kernels.status import Status


def threshold_matrices(scores, y):
    """Return thresholds, descending from infinity, the matrix at each, and the status of every row of scores."""
    n = scores.shape[-1]
    s = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    order = np.argsort(-s, axis=-1, kind="stable")
    s = np.take_along_axis(s, order, -1)
    hit = np.take_along_axis(y != 0, order, -1)
    # Equal scores fall on one side together: each gets the counts at the last of them.
    last = np.ones(s.shape, bool)
    last[..., :-1] = s[..., :-1] != s[..., 1:]
    end = np.where(last, np.arange(n), n)
    end = np.minimum.accumulate(end[..., ::-1], axis=-1)[..., ::-1]
    matrices = np.zeros((*s.shape[:-1], n + 1, 2, 2), np.int64)
    tp, fp = np.cumsum(hit, -1, np.int64), np.cumsum(~hit, -1, np.int64)
    for part, counts in (((1, 1), tp), ((0, 1), fp)):
        matrices[..., 1:, *part] = np.take_along_axis(counts, end, -1)
        matrices[..., part[0], 0] = counts[..., -1:] - matrices[..., part[0], 1] if n else 0
    thresholds = np.concatenate([np.full((*s.shape[:-1], 1), np.inf, s.dtype), s], -1)
    bad = np.isnan(s).any(-1) | ((y != 0) & (y != 1)).any(-1)
    thresholds[bad] = np.nan
    matrices[bad] = 0
    return thresholds, matrices, np.where(bad, np.int8(Status.INVALID), np.int8(0))
