"""Replicates drawn one at a time from their streams, cells rounded one at a time in exact arithmetic."""

import math

import numpy as np

from oracle import metrics
from oracle._draws import Stream, binomial, spread
from oracle._slopes import slopes, variance


def _usable(cells, n):
    flat = [float(x) for row in cells for x in row]
    if any(not (math.isfinite(x) and x >= 0) for x in flat):
        return False
    if n is None:
        return all(x == int(x) for x in flat) and sum(flat) < 2**63
    return n == 0 or sum(flat) > 0


def _rounded(x):
    low = math.floor(x)
    return low + int(x - low > 0.5 or (x - low == 0.5 and low % 2 == 1))


def _from_the_end(values):
    """Return the sum, the last value first."""
    total = 0.0
    for x in reversed(values):
        total += x
    return total


def _replicate(seed, place, cells, n, scheme):
    C = len(cells)
    support = [_from_the_end(row) for row in cells]
    found = [_from_the_end(row[:C]) for row in cells]
    if scheme == "row_multinomial":
        drawn = [int(x) for x in support]
    else:
        total = int(_from_the_end(support)) if n is None else n
        drawn = spread(Stream(seed, *place, 0), total, support)
    if scheme != "expected_rounded":
        return [spread(Stream(seed, *place, 1 + i), drawn[i], cells[i])[:C] for i in range(C)]
    out = [[0] * C for _ in range(C)]
    for i in range(C):
        detected = _rounded(drawn[i] * (found[i] / support[i])) if support[i] else 0
        for j in range(C):
            out[i][j] = _rounded(detected * (cells[i][j] / found[i])) if found[i] else 0
    return out


def resample(M, missed=None, *, n_replicates, scheme="multinomial", n=None, rng=0):
    M = np.asarray(M)
    C = M.shape[-1]
    missed = np.zeros(M.shape[:-1]) if missed is None else np.asarray(missed)
    seed = int(np.random.default_rng(rng).integers(2**63))
    out = np.zeros((*M.shape[:-2], n_replicates, C, C), np.int64)
    for b, index in enumerate(np.ndindex(M.shape[:-2])):
        cells = [[*map(float, M[index][i]), float(missed[index][i])] for i in range(C)]
        if _usable(cells, n):
            for k in range(n_replicates):
                out[(*index, k)] = np.reshape(_replicate(seed, (b, k), cells, n, scheme), (C, C))
    return (out,)


def _standard_error(name, cells, fixed, n, options, k=None):
    g = slopes(name, cells, *options, k)
    if g is None:
        return math.nan
    found = variance(cells, g, fixed)
    return math.sqrt(found if n is None else found * sum(map(sum, cells)) / n)


def standard_errors(M, names, *, fixed="total", n=None, undefined="present", positive=1):
    C, batch, options = M.shape[-1], M.shape[:-2], (undefined, positive)
    out = []
    for name in names:
        per_class = metrics.ALIASES.get(name, name) in metrics.PER_CLASS or name.endswith("_ovr")
        per_class = per_class or (name.startswith("fbeta_") and name.count("_") == 1)
        found = np.full((*batch, C) if per_class else batch, math.nan)
        for index in np.ndindex(batch):
            cells = metrics._cells(M[index])
            if cells is None or (n is None and any(x.denominator > 1 for row in cells for x in row)):
                continue
            if per_class:
                found[index] = [_standard_error(name, cells, fixed, n, options, k) for k in range(C)]
            else:
                found[index] = _standard_error(name, cells, fixed, n, options)
        out.append(found.astype(np.float32 if M.dtype == np.float32 else np.float64))
    return tuple(out)


def _units(y, a, b, clusters):
    """Return what is drawn, in order: weight, and the cells that come with it."""
    cells = list(zip(y.tolist(), a.tolist(), b.tolist(), strict=True))
    if clusters is None:
        return [(cells.count(cell), [cell]) for cell in sorted(set(cells))]
    clusters = clusters.tolist()
    return [
        (1, [cell for cell, own in zip(cells, clusters, strict=True) if own == cluster])
        for cluster in sorted(set(clusters))
    ]


def _matrices(units, place, seed, C):
    """Return both confusion matrices of one replicate."""
    M, left = np.zeros((2, C, C), np.int64), sum(weight for weight, _ in units)
    rest = left
    for k, (weight, cells) in enumerate(units):
        drawn = binomial(Stream(seed, *place, k), left, weight / rest)
        left, rest = left - drawn, rest - weight
        for i, first, second in cells:
            M[0, i, first] += drawn
            M[1, i, second] += drawn
    return M


def paired_replicates(y, a, b, *, names, n_classes, groups=None, clusters=None, n_replicates, seed):
    groups = np.zeros(len(y), int) if groups is None else groups
    found = []
    for g, group in enumerate(sorted(set(groups.tolist())) or [0]):
        at = groups == group
        units = _units(y[at], a[at], b[at], None if clusters is None else clusters[at])
        found.append([_matrices(units, (g, k), seed, n_classes) for k in range(n_replicates)])
    shape = (len(found), n_replicates, 2, n_classes, n_classes)
    return metrics.metrics_of_matrices(np.array(found, np.int64).reshape(shape), names)


ORACLES = {"paired_replicates": paired_replicates, "resample": resample, "standard_errors": standard_errors}
