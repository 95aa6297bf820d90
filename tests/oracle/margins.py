"""Tables scaled to margins, one at a time: sweeps in extended precision until nothing changes; weights of records."""

from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

CONVERGED, LIMIT_ONLY, INFEASIBLE, TOTALS, INVALID, ZERO_LINE, RANGE = 0, 2, 3, 4, 5, 6, 7
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


def wrong(M, targets, axes, importance):
    """Return why a table and targets make no problem, or zero."""
    if not (np.isfinite(M) & (M >= 0)).all() or any(((t < 0) | (t == np.inf)).any() for t in targets):
        return INVALID
    musts = [pair for *pair, p in zip(targets, axes, importance, strict=True) if p == np.inf]
    for one, other in combinations(musts, 2):
        if not agree(one, other, [axis for axis in one[1] if axis in other[1]]):
            return TOTALS
    return CONVERGED


def scaled(M, targets, axes, importance):
    """Return one table and its status."""
    ndim, nothing = M.ndim, np.full(M.shape, np.nan)
    status = wrong(M, targets, axes, importance)
    if status:
        return nothing, status
    T = M.astype(np.longdouble)
    for target, of in zip(targets, axes, strict=True):
        T = T * (spread(target, of, ndim) != 0)
    if any(
        (~(over(T, of) > 0) & (target > 0)).any()
        for target, of, p in zip(targets, axes, importance, strict=True)
        if p == np.inf
    ):
        return nothing, ZERO_LINE
    factors = [np.ones(target.shape, np.longdouble) for target in targets]
    for _ in range(SWEEPS):
        before = T
        for target, of, factor, p in zip(targets, axes, factors, importance, strict=True):
            sums = over(T, of)
            asked = (target > 0) & (sums > 0)
            short = np.where(asked, target * factor ** (-1 / p) / np.where(asked, sums, 1), 1)
            by = short ** (1 / (1 + 1 / np.longdouble(p)))
            np.multiply(factor, by, out=factor)
            T = T * spread(by, of, ndim)
        if (np.abs(T - before) <= 1e-17 * T).all():
            break
    return T.astype(np.float64), CONVERGED


def over_batch(M, targets, axes, ndim):
    """Return tables and their targets as float64, each for every place of the batch."""
    M, *targets = (np.asarray(a, np.float64) for a in (M, *targets))
    cores = (ndim, *map(len, axes))
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - core] for a, core in zip((M, *targets), cores, strict=True)))
    return [np.broadcast_to(a, batch + a.shape[a.ndim - core :]) for a, core in zip((M, *targets), cores, strict=True)]


def ipf_nd(M, *targets, axes, smoothing=None, importance=None, **options):
    """Return tables, the sums of their margins and statuses."""
    axes = [of if isinstance(of, tuple) else (of,) for of in axes]
    ndim = options.get("ndim", 1 + max(axis for of in axes for axis in of))
    kind = np.float32 if all(a.dtype == np.float32 for a in (M, *targets)) else np.float64
    full = over_batch(M, targets, axes, ndim)
    batch = full[0].shape[: full[0].ndim - ndim]
    importance = np.broadcast_to(np.inf if importance is None else importance, len(axes))
    table, status = np.empty(full[0].shape), np.zeros(batch, np.int8)
    sums = [np.empty(a.shape) for a in full[1:]]
    for k in np.ndindex(batch):
        table[k], status[k] = scaled(full[0][k] + (smoothing or 0.0), [a[k] for a in full[1:]], axes, importance)
        for line, of in zip(sums, axes, strict=True):
            line[k] = over(table[k], of)
    return table.astype(kind), *sums, status[()]


def ipf_cells(values, coords, *targets, axes, shape, smoothing=None, **options):
    """Return cells of tables, the sums of their margins and statuses."""
    M = np.zeros((*values.shape[:-1], *shape), values.dtype)
    M[(..., *coords)] = values + (smoothing or 0)
    table, *sums, status = ipf_nd(M, *targets, axes=axes, ndim=len(shape), **options)
    return table[(..., *coords)], *sums, status


def verdict(M, targets, axes):
    """Return what the zeros of a table allow, and which cells die, by a linear program: as many live as can."""
    alive, dead = M > 0, np.zeros(M.shape, bool)
    for target, of in zip(targets, axes, strict=True):
        alive &= spread(target, of, M.ndim) != 0
    where = np.nonzero(alive)
    n, rows, wanted = len(where[0]), [], []
    for target, of in zip(targets, axes, strict=True):
        line = np.ravel_multi_index([where[axis] for axis in of], target.shape) if of else np.zeros(n, int)
        rows.append(line + sum(map(len, wanted)))
        wanted.append(target.ravel())
    m = np.concatenate(wanted)
    entries = (np.ones(len(rows) * n), (np.concatenate(rows), np.tile(np.arange(n), len(rows))))
    A = sp.csr_matrix(entries, (len(m), n))[~np.isnan(m)]
    m = m[~np.isnan(m)]
    if ((A @ np.ones(n) == 0) & (m > 0)).any():
        return ZERO_LINE, dead
    if n == 0 or len(m) == 0:
        return CONVERGED, dead
    equal = sp.hstack([A, sp.csr_matrix((len(m), n)), sp.csr_matrix(-m[:, None])])
    above = sp.hstack([-sp.eye(n), sp.eye(n), sp.csr_matrix((n, 1))])
    cost = np.concatenate([np.zeros(n), -np.ones(n), [0]])
    bounds = [(0, None)] * n + [(0, 1)] * n + [(1, None)]
    found = linprog(cost, above, np.zeros(n), equal, np.zeros(len(m)), bounds, method="highs")
    if found.status == 2:
        return INFEASIBLE, dead
    if found.status:
        raise AssertionError(found.message)
    dead[where] = found.x[n : 2 * n] < 0.5
    return (LIMIT_ONLY if dead.any() else CONVERGED), dead


def support_nd(M, *targets, axes, **options):
    """Return statuses of tables, and which of their cells must be zero."""
    axes = [of if isinstance(of, tuple) else (of,) for of in axes]
    ndim = options.get("ndim", 1 + max(axis for of in axes for axis in of))
    M, *full = over_batch(M, targets, axes, ndim)
    batch = M.shape[: M.ndim - ndim]
    dead, status = np.zeros(M.shape, bool), np.zeros(batch, np.int8)
    for k in np.ndindex(batch):
        own = [target[k] for target in full]
        status[k] = wrong(M[k], own, axes, [np.inf] * len(axes))
        if not status[k]:
            status[k], dead[k] = verdict(M[k], own, axes)
    return status[()], dead


def columns_of(codes, sizes, axes):
    """Return a column of zeros and ones for each line of each margin of attributes."""
    found = [np.zeros((codes.shape[1], 0))]
    for of in axes:
        keys = np.ravel_multi_index([codes[axis] for axis in of], [sizes[axis] for axis in of])
        found.append(np.eye(int(np.prod([sizes[axis] for axis in of])))[keys])
    return np.concatenate(found, 1)


def weighed(q, z, method, low, high):
    """Return weights and how fast they change with z."""
    if method == "linear":
        return q * (1 + z), q
    if method == "logit":
        steep = (high - low) / ((1 - low) * (high - 1))
        grown = np.exp(np.clip(steep * z, -700, 700))
        over = (high - 1) + (1 - low) * grown
        w = (low * (high - 1) + high * (1 - low) * grown) / over
        return q * w, q * steep * (w - low) * (high - w) / (high - low)
    ratio = np.exp(np.clip(z, -700, 700))
    inside = np.ones(len(q), bool) if method == "raking" else (low < ratio) & (ratio < high)
    return q * (ratio if method == "raking" else np.clip(ratio, low, high)), q * np.where(inside, ratio, 0)


def feasible(A, q, m, method, low, high):
    """Return whether any weights within the bounds have the totals, as a linear program says."""
    if method == "linear":
        return np.allclose(A.T @ np.linalg.lstsq(A.T, m, rcond=None)[0], m, rtol=1e-9)
    bounds = [
        (0, 0) if w == 0 else (w * a, w * b if b < np.inf else None) for w, a, b in zip(q, low, high, strict=True)
    ]
    return linprog(np.zeros(len(q)), A_eq=A.T, b_eq=m, bounds=bounds, method="highs").status != 2


def raked(A, q, m, method, low, high, soft):
    """Return one set of weights: Newton's directions by least squares, each followed to where the dual is least."""
    some = ~np.isnan(m)
    A, m, soft = A[:, some], m[some], soft[some]
    if method != "linear":  # a target of zero leaves nothing where all entries have a sign
        for k in np.flatnonzero((m == 0) & (((A >= 0).all(0)) | ((A <= 0).all(0)))):
            q = np.where(A[:, k] != 0, 0, q)
    lam = np.zeros(len(m))

    def gradient(at):
        w, h = weighed(q, A @ at, method, low, high)
        goal = m * np.exp(-np.sign(m) * at / soft)
        return goal - A.T @ w, h, np.abs(goal) / soft

    for _ in range(300):
        g, h, extra = gradient(lam)
        size = np.sqrt(np.maximum((A * A * q[:, None]).sum(0), 1e-300))
        H = ((A * h[:, None]).T @ A + np.diag(extra)) / size / size[:, None]
        ridge = 1e-3 * min(1, np.abs(g).sum()) if method == "truncated" else 0
        d = np.linalg.lstsq(H + ridge * np.eye(len(m)), g / size, rcond=1e-13)[0] / size
        least, most = 0.0, 1.0
        if gradient(lam + d)[0] @ d < 0:
            for _ in range(60):
                middle = (least + most) / 2
                least, most = (middle, most) if gradient(lam + middle * d)[0] @ d > 0 else (least, middle)
        lam = lam + most * d
        if np.abs(d * size).max(initial=0) < 1e-15:
            break
    return weighed(q, A @ lam, method, low, high)[0]


def rake(design, weights, *targets, axes=None, method="raking", bounds=(0, np.inf), importance=None, **options):
    """Return weights, what they add up to, and statuses."""
    n = design.shape[1] if axes else len(design)
    q = np.ones(n) if weights is None else weights
    kind = np.float32 if all(a.dtype == np.float32 for a in (q, *targets)) else np.float64
    axes = [of if isinstance(of, tuple) else (of,) for of in axes or ()]
    cores = [len(of) for of in axes] or [1]
    batch = np.broadcast_shapes(q.shape[:-1], *(t.shape[: t.ndim - c] for t, c in zip(targets, cores, strict=True)))
    full = [np.broadcast_to(t, batch + t.shape[t.ndim - c :]) for t, c in zip(targets, cores, strict=True)]
    q = np.broadcast_to(q, (*batch, n)).astype(np.float64)
    out, status = np.full((*batch, n), np.nan), np.zeros(batch, np.int8)
    sums = [np.full(t.shape, np.nan) for t in full]
    sizes = {axis: t.shape[len(batch) + k] for t, of in zip(full, axes, strict=False) for k, axis in enumerate(of)}
    low, high = (np.broadcast_to(np.asarray(b, np.float64), n) for b in bounds)
    given = np.broadcast_to(np.inf if importance is None else importance, len(axes) or full[0].shape[-1])
    for k in np.ndindex(batch):
        m = np.concatenate([t[k].astype(np.float64).ravel() for t in full])
        soft = np.repeat(given, [t[k].size for t in full]) if axes else given
        status[k] = INVALID
        if not (np.isfinite(q[k]) & (q[k] >= 0)).all() or np.isinf(m).any() or (axes and (m < 0).any()):
            continue
        if axes and any(((design[axis] < 0) | (design[axis] >= size)).any() for axis, size in sizes.items()):
            continue
        if not axes and not np.isfinite(design).all():
            continue
        A = columns_of(design, sizes, axes) if axes else design.astype(np.float64)
        hard = ~np.isnan(m) & np.isinf(soft)
        pairs = list(combinations(zip([t[k] for t in full], axes, strict=False), 2)) if importance is None else []
        if any(not agree(one, other, [a for a in one[1] if a in other[1]]) for one, other in pairs):
            status[k] = TOTALS
        elif ((A[q[k] > 0] == 0).all(0) & hard & (m != 0)).any():
            status[k] = ZERO_LINE
        elif not feasible(A[:, hard], q[k], m[hard], method, low, high):
            status[k] = INFEASIBLE
        else:
            status[k] = CONVERGED
            out[k] = raked(A, q[k], m, method, low, high, soft)
            begin = 0
            for part in sums:
                part[k] = (A.T @ out[k])[begin : begin + part[k].size].reshape(part[k].shape)
                begin += part[k].size
    return out.astype(kind), *sums, status[()]


def rounded(T):
    """Return a matrix rounded so that its sums are, as near as can be, as an integer program finds it."""
    R, C = T.shape
    low = np.floor(T)
    A = np.concatenate([np.kron(np.eye(R), np.ones(C)), np.kron(np.ones(R), np.eye(C)), np.ones((1, R * C))])
    sums = A @ T.ravel()
    near = np.rint(sums)
    whole = np.abs(sums - near) < 1e-6
    base = A @ low.ravel()
    limits = LinearConstraint(
        A, np.where(whole, near, np.floor(sums)) - base, np.where(whole, near, np.ceil(sums)) - base
    )
    apart = (T - low).ravel()
    found = milp(1 - 2 * apart, constraints=limits, integrality=np.ones(R * C), bounds=Bounds(0, np.ceil(apart)))
    return low + np.rint(found.x).reshape(R, C)


def round_to_margins(table, axes=None, ndim=2, **options):
    """Return tables, by how much their sums miss, and statuses; of other axes than two those that are integers."""
    kind = np.float32 if table.dtype == np.float32 else np.float64
    T = table.astype(np.float64)
    out, miss = np.full(T.shape, np.nan), np.full(T.shape[: T.ndim - ndim], np.nan)
    status = np.full(miss.shape, INVALID, np.int8)
    for k in np.ndindex(miss.shape):
        if not (np.isfinite(T[k]) & (T[k] >= 0)).all():
            continue
        if T[k].sum() >= 2.0**53:
            status[k] = RANGE
            continue
        assert ndim == 2 or (T[k] == np.rint(T[k])).all()
        out[k] = rounded(T[k]) if ndim == 2 and T[k].size else T[k]
        miss[k], status[k] = 0, CONVERGED
    return out.astype(kind), miss[()], status[()]


ORACLES = {
    "ipf_nd": ipf_nd,
    "ipf_cells": ipf_cells,
    "support_nd": support_nd,
    "rake": rake,
    "round_to_margins": round_to_margins,
}
