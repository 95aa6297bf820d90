"""Tables scaled to margins, one at a time: sweeps in extended precision until nothing changes."""

from itertools import combinations

import numpy as np

CONVERGED, TOTALS, INVALID, ZERO_LINE = 0, 4, 5, 6
SWEEPS = 20_000


def over(T, axes):
    """Return a table summed over all axes but some, which come in their order."""
    others = tuple(axis for axis in range(T.ndim) if axis not in axes)
    left = sorted(axes)
    return np.transpose(T.sum(others), [left.index(axis) for axis in axes])


def spread(line, axes, ndim):
    """Return what belongs to the lines of a margin with an axis of length one for every other axis of the table."""
    ordered = np.transpose(line, np.argsort(axes))
    shape = iter(ordered.shape)
    return ordered.reshape([next(shape) if axis in axes else 1 for axis in range(ndim)])


def agree(one, other, common):
    """Return whether two margins, each with its axes, have the same sums over what they share."""
    x, y = (over(target, [axes.index(axis) for axis in common]) for target, axes in (one, other))
    known = ~np.isnan(x) & ~np.isnan(y)
    return (np.abs(x - y) <= 1e-9 * np.maximum(x, y))[known].all()


def scaled(M, targets, axes):
    """Return one table and its status."""
    ndim, nothing = M.ndim, np.full(M.shape, np.nan)
    if not (np.isfinite(M) & (M >= 0)).all() or any(((t < 0) | (t == np.inf)).any() for t in targets):
        return nothing, INVALID
    for one, other in combinations(zip(targets, axes, strict=True), 2):
        if not agree(one, other, [axis for axis in one[1] if axis in other[1]]):
            return nothing, TOTALS
    T = M.astype(np.longdouble)
    for target, of in zip(targets, axes, strict=True):
        T = T * (spread(target, of, ndim) != 0)
    if any((~(over(T, of) > 0) & (target > 0)).any() for target, of in zip(targets, axes, strict=True)):
        return nothing, ZERO_LINE
    for _ in range(SWEEPS):
        before = T
        for target, of in zip(targets, axes, strict=True):
            sums = over(T, of)
            asked = (target > 0) & (sums > 0)
            T = T * spread(np.where(asked, target / np.where(asked, sums, 1), 1), of, ndim)
        if (np.abs(T - before) <= 1e-17 * T).all():
            break
    return T.astype(np.float64), CONVERGED


def ipf_nd(M, *targets, axes, smoothing=None, **options):
    """Return tables, the sums of their margins and statuses."""
    axes = [of if isinstance(of, tuple) else (of,) for of in axes]
    ndim = options.get("ndim", 1 + max(axis for of in axes for axis in of))
    kind = np.float32 if all(a.dtype == np.float32 for a in (M, *targets)) else np.float64
    M, *targets = (np.asarray(a, np.float64) for a in (M, *targets))
    cores = (ndim, *map(len, axes))
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - core] for a, core in zip((M, *targets), cores, strict=True)))
    full = [np.broadcast_to(a, batch + a.shape[a.ndim - core :]) for a, core in zip((M, *targets), cores, strict=True)]
    table, status = np.empty(full[0].shape), np.zeros(batch, np.int8)
    sums = [np.empty(a.shape) for a in full[1:]]
    for k in np.ndindex(batch):
        table[k], status[k] = scaled(full[0][k] + (smoothing or 0.0), [a[k] for a in full[1:]], axes)
        for line, of in zip(sums, axes, strict=True):
            line[k] = over(table[k], of)
    return table.astype(kind), *sums, status[()]


ORACLES = {"ipf_nd": ipf_nd}
