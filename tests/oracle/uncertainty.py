"""Replicates drawn one at a time from their streams, cells rounded one at a time in exact arithmetic."""

import itertools
import math
from fractions import Fraction
from functools import partial
from statistics import NormalDist

import numpy as np

from oracle import metrics
from oracle._draws import Stream, binomial, log_gamma, spread
from oracle._slopes import slopes, slopes_of_all_cells, variance


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
        drawn = spread(seed, place, 0, total, support)
    if scheme != "expected_rounded":
        return [spread(seed, place, (1 + i) * C, drawn[i], cells[i])[:C] for i in range(C)]
    out = [[0] * C for _ in range(C)]
    for i in range(C):
        detected = _rounded(drawn[i] * (found[i] / support[i])) if support[i] else 0
        for j in range(C):
            out[i][j] = _rounded(detected * (cells[i][j] / found[i])) if found[i] else 0
    return out


def resample(M, missed=None, *, n_resamples, scheme="multinomial", n=None, rng=0):
    M = np.asarray(M)
    C = M.shape[-1]
    missed = np.zeros(M.shape[:-1]) if missed is None else np.asarray(missed)
    seed = int(np.random.default_rng(rng).integers(2**63))
    out = np.zeros((*M.shape[:-2], n_resamples, C, C), np.int64)
    for b, index in enumerate(np.ndindex(M.shape[:-2])):
        cells = [[*map(float, M[index][i]), float(missed[index][i])] for i in range(C)]
        if _usable(cells, n):
            for k in range(n_resamples):
                out[(*index, k)] = np.reshape(_replicate(seed, (b, k), cells, n, scheme), (C, C))
    return (out,)


def _standard_error(name, cells, fixed, n, options, k=None):
    g = slopes(name, cells, *options, k)
    if g is None:
        return math.nan
    found = variance(cells, g, fixed)
    return math.sqrt(found if n is None else found * sum(map(sum, cells)) / n)


def standard_errors(M, names, *, fixed="total", n=None, undefined="present", pos_label=1):
    C, batch, options = M.shape[-1], M.shape[:-2], (undefined, pos_label)
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


def carrying_samples(M, *, names, n=None, prior=Fraction(1, 2)):
    """Return Kish's number of samples whose weights are the squares of the slopes."""
    C, batch = M.shape[-1], M.shape[:-2]
    found = np.full((len(names), *batch), math.nan)
    for index in np.ndindex(batch):
        cells = metrics._cells(M[index])
        if cells is None or not sum(map(sum, cells)):
            continue
        factor = 1 if n is None else Fraction(n) / sum(map(sum, cells))
        weights = {
            (i, j): cells[i][j] * factor + (prior / (C * C - C) if i != j else 0) for i in range(C) for j in range(C)
        }
        for k, name in enumerate(names):
            g = slopes_of_all_cells(name, cells)
            if g is None:
                continue
            mean = sum(weights[at] * x for at, x in g.items()) / sum(weights.values())
            squares, fourths = (sum(weights[at] * (x - mean) ** power for at, x in g.items()) for power in (2, 4))
            found[(k, *index)] = squares**2 / fourths if fourths else math.nan
    return tuple(found)


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


def paired_replicates(y, a, b, *, names, n_classes, groups=None, clusters=None, n_resamples, seed):
    groups = np.zeros(len(y), int) if groups is None else groups
    found = []
    for g, group in enumerate(sorted(set(groups.tolist())) or [0]):
        at = groups == group
        units = _units(y[at], a[at], b[at], None if clusters is None else clusters[at])
        found.append([_matrices(units, (g, k), seed, n_classes) for k in range(n_resamples)])
    shape = (len(found), n_resamples, 2, n_classes, n_classes)
    return metrics.metrics_of_matrices(np.array(found, np.int64).reshape(shape), names)


SCHEMES = {"multinomial": "multinomial", "rows": "row_multinomial"}
PRIORS = {"haldane": 0.0, "jeffreys": 0.5, "laplace": 1.0}


def _posterior(M, prior, n, n_resamples, seed):
    """Return draws of matrices whose shares have a Dirichlet distribution."""
    C = M.shape[-1]
    if prior == "unit":
        prior = [[0.5 / C if i == j else 0.5 / (C * C - C) for j in range(C)] for i in range(C)]
    prior = np.broadcast_to(
        1 / C**2 if prior == "perks" else PRIORS.get(prior, prior) if isinstance(prior, str) else prior, (C, C)
    )
    out = np.full((*M.shape[:-2], n_resamples, C, C), math.nan)
    for b, index in enumerate(np.ndindex(M.shape[:-2])):
        if not _usable(M[index].tolist(), n):
            continue
        total = float(M[index].sum()) if n is None else float(n)
        alpha = M[index] * (total / M[index].sum() if total else 0.0) + prior
        for k in range(n_resamples):
            logs = np.full((C, C), -math.inf)
            for i in range(C):
                stream = Stream(seed, b, k, 1 + i)
                logs[i] = [log_gamma(stream, a) if a > 0 else -math.inf for a in alpha[i].tolist()]
            cells = np.exp(logs - logs.max())
            out[(*index, k)] = cells / cells.sum() * (total or 1.0)
    return out


def _replicates(M, scheme, prior, n, count, rng):
    if scheme == "dirichlet":
        return _posterior(np.asarray(M, float), prior, n, count, int(np.random.default_rng(rng).integers(2**63)))
    return resample(M, n_resamples=count, scheme=SCHEMES[scheme], n=n, rng=rng)[0]


def metric_draws(M, names, *, prior="unit", n=None, n_resamples, rng=0, undefined="present"):
    drawn = _replicates(M, "dirichlet", prior, n, n_resamples, rng)
    found = metrics.metrics_of_matrices(drawn, names, undefined=undefined)
    return tuple(x if x.ndim == M.ndim - 1 else np.moveaxis(x, -2, -1) for x in found)


def _quantile(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    k = int(place)
    return values[k] + (place - k) * (values[min(k + 1, len(values) - 1)] - values[k])


def _acceleration(name, m, k, undefined, *, rows):
    """Return the acceleration from numbers without one sample; those of a row by themselves where rows are fixed."""
    C, without = len(m), {}
    for i, j in np.argwhere(m > 0).tolist():
        less = m.astype(float)
        less[i, j] -= min(1.0, less[i, j])
        x = metrics.metrics_of_matrices(less, [name], undefined=undefined)[0]
        x = float(x if k is None else x[k])
        if math.isfinite(x):
            without[i, j] = x
    squares = cubes = 0.0
    for group in [[i] for i in range(C)] if rows else [range(C)]:
        inside = {cell: x for cell, x in without.items() if cell[0] in group}
        weight = sum(m[cell] for cell in inside)
        mean = sum(m[cell] * x for cell, x in inside.items()) / weight if weight else 0.0
        squares += sum(m[cell] * (mean - x) ** 2 for cell, x in inside.items())
        cubes += sum(m[cell] * (mean - x) ** 3 for cell, x in inside.items())
    return cubes / (6 * squares**1.5) if squares > 1e-28 else 0.0


def _ends(values, estimate, method, confidence_level, acceleration):
    known = [x for x in values if not math.isnan(x)]
    if not known or math.isnan(estimate):
        return math.nan, math.nan
    normal, shares = NormalDist(), [(1 - confidence_level) / 2, (1 + confidence_level) / 2]
    if method == "bca":
        less = (sum(x < estimate for x in known) + sum(x == estimate for x in known) / 2) / len(known)
        less = min(max(less, 0.5 / len(known)), 1 - 0.5 / len(known))
        moved = [normal.inv_cdf(less) + normal.inv_cdf(share) for share in shares]
        shares = [normal.cdf(normal.inv_cdf(less) + z / (1 - acceleration() * z)) for z in moved]
    low, high = (_quantile(known, share) for share in shares)
    return (2 * estimate - high, 2 * estimate - low) if method == "basic" else (low, high)


def metric_intervals(
    M, names, *, method="bca", confidence_level=0.95, scheme="multinomial", prior="unit", n=None, n_resamples, rng=0,
    undefined="present",
):  # fmt: skip
    scheme = "dirichlet" if method == "posterior" else scheme
    drawn = _replicates(M, scheme, prior, n, n_resamples, rng)
    out = []
    for name in names:
        estimate = metrics.metrics_of_matrices(M, [name], undefined=undefined)[0].astype(float)
        values = metrics.metrics_of_matrices(drawn, [name], undefined=undefined)[0]
        values = values if values.ndim == M.ndim - 1 else np.moveaxis(values, -2, -1)
        low, high, error = (np.full(estimate.shape, math.nan) for _ in range(3))
        lost = np.full(estimate.shape, n_resamples)
        for index in np.ndindex(estimate.shape):
            m = M[index[: M.ndim - 2]]
            if not _usable(m.tolist(), n):
                estimate[index] = math.nan
                continue
            weights = m if n is None else m * (n / m.sum())
            k = index[-1] if estimate.ndim == M.ndim - 1 else None
            bent = partial(_acceleration, name, weights, k, undefined, rows=scheme == "rows")
            low[index], high[index] = _ends(
                values[index].tolist(), float(estimate[index]), method, confidence_level, bent
            )
            known = values[index][~np.isnan(values[index])]
            error[index] = known.std(ddof=1) if known.size > 1 else math.nan
            lost[index] = n_resamples - known.size
        out += [estimate, low, high, error, lost]
    return tuple(out)


def _entry(array, index):
    return float(array[index])


def replicate_intervals(R, estimate, acceleration=None, *, method, confidence_level):
    shape = estimate.shape
    low, high, error = (np.full(shape, math.nan) for _ in range(3))
    lost = np.zeros(shape, np.int64)
    for index in np.ndindex(shape):
        values = [float(m[index[-2:]]) for m in R[index[:-2]]]
        known = [x for x in values if not math.isnan(x)]
        low[index], high[index] = _ends(
            values, float(estimate[index]), method, confidence_level, partial(_entry, acceleration, index)
        )
        error[index] = np.std(known, ddof=1) if len(known) > 1 else math.nan
        lost[index] = len(values) - len(known)
    return low, high, error, lost


def _moved(cells, name, C, k):
    """Return by how much each of two metrics moves with a sample of every cell."""
    M = [[[0] * C for _ in range(C)] for _ in range(2)]
    for i, first, second in cells:
        M[0][i][first] += 1
        M[1][i][second] += 1
    return [slopes(name, [[Fraction(x) for x in row] for row in one], "present", 1, k) for one in M]


def _paired_error(units, clustered, name, C, k=None):
    every = [cell for weight, cells in units for cell in cells * weight]
    one, other = _moved(every, name, C, k) if every else (None, None)
    if one is None or other is None or (clustered and len(units) < 2):
        return math.nan
    moved = [
        sum((one[i, a] - other[i, b] for i, a, b in cells), Fraction(0))
        for weight, cells in units
        for _ in range(weight)
    ]
    mean = sum(moved) / len(moved)
    squares = sum((x - mean) ** 2 for x in moved)
    return math.sqrt(squares * Fraction(len(moved), len(moved) - 1) if clustered else squares)


def paired_errors(y, a, b, *, names, n_classes, groups=None, clusters=None):
    groups = np.zeros(len(y), int) if groups is None else groups
    out = [[] for _ in names]
    for group in sorted(set(groups.tolist())) or [0]:
        at = groups == group
        units = _units(y[at], a[at], b[at], None if clusters is None else clusters[at])
        for name, found in zip(names, out, strict=True):
            classes = range(n_classes) if name in metrics.PER_CLASS else None
            given = units, clusters is not None, name, n_classes
            found.append(_paired_error(*given) if classes is None else [_paired_error(*given, k) for k in classes])
    return tuple(np.array(found, float) for found in out)


def _parts(m, strata, clusters):
    """Return the units of every stratum, in order: weight, and the cells that come with it."""
    C, out = m.shape[-1], {}
    for stratum in sorted(set(strata)):
        own = [one for one, name in zip(m.astype(int).tolist(), strata, strict=True) if name == stratum]
        cells = [[((i, j), one[i][j]) for i in range(C) for j in range(C) if one[i][j]] for one in own]
        out[stratum] = (
            [(1, dict(one)) for one in cells] if clusters else [(x, {cell: 1}) for one in cells for cell, x in one]
        )
    return out


def _sum(units, C):
    m = np.zeros((C, C), np.int64)
    for weight, cells in units:
        for cell, x in cells.items():
            m[cell] += weight * x
    return m


def _redrawn(strata, b, n, count, seed, C):
    """Return replicates of one matrix: every stratum has as many units as before, or `n`."""
    out = np.zeros((count, C, C), np.int64)
    for k in range(count):
        part = 0
        for units in strata.values():
            rest = sum(weight for weight, _ in units)
            left = rest if n is None else n
            for weight, cells in units:
                drawn = binomial(Stream(seed, b, k, part), left, weight / rest)
                left, rest, part = left - drawn, rest - weight, part + 1
                out[k] += _sum([(drawn, cells)], C)
    return out


def _bent(strata, name, k, C, n):
    """Return the acceleration from what a number is without one unit of each kind."""
    whole = _sum([unit for units in strata.values() for unit in units], C)
    squares = cubes = 0.0
    for units in strata.values():
        found = []
        for weight, cells in units:
            x = metrics.metrics_of_matrices(whole - _sum([(1, cells)], C), [name])[0]
            x = float(x if k is None else x[k])
            if math.isfinite(x):
                found.append((weight, x))
        count = sum(weight for weight, _ in found)
        mean = sum(weight * x for weight, x in found) / count if count else 0.0
        factor = 1 if n is None else n / sum(weight for weight, _ in units)
        squares += factor * sum(weight * (mean - x) ** 2 for weight, x in found)
        cubes += factor * sum(weight * (mean - x) ** 3 for weight, x in found)
    return cubes / (6 * squares**1.5) if squares > 1e-28 else 0.0


def _strata(M, strata):
    return [0] * M.shape[-3] if strata is None else list(strata)


def cluster_intervals(
    M, names, *, clusters=False, strata=None, method="bca", confidence_level=0.95, n=None, n_resamples, rng=0
):  # fmt: skip
    C, batch = M.shape[-1], M.shape[:-3]
    seed = int(np.random.default_rng(rng).integers(2**63))
    out = []
    for name in names:
        per_class = name in metrics.PER_CLASS
        estimate = np.full((*batch, C) if per_class else batch, math.nan)
        low, high, error = (np.full(estimate.shape, math.nan) for _ in range(3))
        lost = np.full(estimate.shape, n_resamples)
        for b, index in enumerate(np.ndindex(batch)):
            if not all(_usable(one.tolist(), None) for one in M[index]):
                continue
            units = _parts(M[index], _strata(M, strata), clusters)
            drawn = _redrawn(units, b, n, n_resamples, seed, C)
            both = [metrics.metrics_of_matrices(one, [name])[0] for one in (M[index].astype(np.int64).sum(0), drawn)]
            for k in range(C) if per_class else [None]:
                at, values = (*index, *(() if k is None else (k,))), both[1] if k is None else both[1][:, k]
                estimate[at] = both[0] if k is None else both[0][k]
                bent = partial(_bent, units, name, k, C, n)
                known = values[~np.isnan(values)]
                lost[at] = n_resamples - known.size
                if not M[index].any():  # without samples every replicate is the matrix itself
                    continue
                low[at], high[at] = _ends(values.tolist(), float(estimate[at]), method, confidence_level, bent)
                error[at] = known.std(ddof=1) if known.size > 1 else math.nan
        out += [estimate, low, high, error, lost]
    return tuple(out)


def _cluster_error(strata, clusters, name, C, n, k):
    whole = _sum([unit for units in strata.values() for unit in units], C)
    g = slopes(name, [[Fraction(x) for x in row] for row in whole.tolist()], "present", 1, k)
    if g is None:
        return math.nan
    variance = Fraction(0)
    for units in strata.values():
        moved = [(weight, sum((g[cell] * x for cell, x in cells.items()), Fraction(0))) for weight, cells in units]
        count = sum(weight for weight, _ in units)
        if count < 1 + clusters:
            return math.nan
        mean = sum(weight * x for weight, x in moved) / count
        spread = sum(weight * (x - mean) ** 2 for weight, x in moved)
        variance += spread * (Fraction(count, count - 1) if clusters else 1) * (1 if n is None else Fraction(count, n))
    return math.sqrt(variance)


def cluster_errors(M, names, *, clusters=False, strata=None, n=None):
    C, batch, out = M.shape[-1], M.shape[:-3], []
    for name in names:
        classes = range(C) if name in metrics.PER_CLASS else [None]
        found = np.full((*batch, len(classes)), math.nan)
        for index in np.ndindex(batch):
            if all(_usable(one.tolist(), None) for one in M[index]):
                units = _parts(M[index], _strata(M, strata), clusters)
                found[index] = [_cluster_error(units, clusters, name, C, n, k) for k in classes]
        found = found if name in metrics.PER_CLASS else found[..., 0]
        out.append(found.astype(np.float32 if M.dtype == np.float32 else np.float64))
    return tuple(out)


def _normalised(m, of):
    """Return matrices divided by their sums, their rows or their columns, or scaled until all of these are one."""
    if of == "bi":
        for _ in range(3000):
            m = m / m.sum(-1, keepdims=True)
            m = m / m.sum(-2, keepdims=True)
        return m
    total = m.sum({"all": (-2, -1), "row": -1, "col": -2}[of], keepdims=True)
    return np.divide(m, total, out=np.zeros_like(m), where=total > 0)


def cell_errors(M, *, of, fixed="total", n=None):
    """Central differences of the normalised matrix, in numbers of 80 bits."""
    out, bends = (np.full(M.shape, math.nan) for _ in range(2))
    step = np.longdouble(1e-6)
    for index in np.ndindex(M.shape[:-2]):
        m = M[index].astype(np.longdouble)
        if not _usable(M[index].tolist(), n) or (of == "bi" and min(m.sum(0).min(), m.sum(1).min()) == 0):
            continue
        m = m if n is None else m * (n / m.sum())
        cells = np.argwhere(m > 0)
        moved = np.repeat(m[np.newaxis, np.newaxis], 2, 0).repeat(len(cells), 1)
        for k, (i, j) in enumerate(cells.tolist()):
            moved[:, k, i, j] *= [1 + step, 1 - step]
        above, below = _normalised(moved, of)
        g = (above - below) / (2 * step)
        g /= m[m > 0][:, np.newaxis, np.newaxis]
        weights = m[m > 0]
        groups = [np.ones(len(cells), bool)] if fixed == "total" else [cells[:, 0] == i for i in range(len(m))]
        squares, cubes = np.zeros_like(m), np.zeros_like(m)
        for own in groups:
            if own.any():
                apart = g[own] - np.average(g[own], axis=0, weights=weights[own])
                squares += np.tensordot(weights[own], apart**2, 1)
                cubes += np.tensordot(weights[own], apart**3, 1)
        out[index] = np.sqrt(squares)
        bends[index] = np.divide(cubes, 6 * squares**1.5, out=np.zeros_like(m), where=squares > 1e-16)
        out[index][squares < 1e-16] = 0
    return out, bends


def cluster_replicates(M, *, clusters=False, strata=None, n=None, n_resamples, rng=0):
    C, batch = M.shape[-1], M.shape[:-3]
    seed = int(np.random.default_rng(rng).integers(2**63))
    out = np.zeros((*batch, n_resamples, C, C), np.int64)
    for b, index in enumerate(np.ndindex(batch)):
        if all(_usable(one.tolist(), None) for one in M[index]):
            out[index] = _redrawn(_parts(M[index], _strata(M, strata), clusters), b, n, n_resamples, seed, C)
    return (out,)


def _moves(units, whole, of):
    """Return by how much one unit of each kind moves every cell, by central differences, and the weights."""
    step, out = np.longdouble(1e-6), []
    for _, cells in units:
        more = _sum([(1, cells)], len(whole)).astype(np.longdouble)
        both = [_normalised(whole + sign * step * more, of) for sign in (1, -1)]
        out.append((both[0] - both[1]) / (2 * step))
    return np.array(out).reshape(-1, *whole.shape), np.array([weight for weight, _ in units], np.longdouble)


def cluster_cell_errors(M, *, of, clusters=False, strata=None, n=None):
    shape = (*M.shape[:-3], *M.shape[-2:])
    out, bends = (np.full(shape, math.nan) for _ in range(2))
    for index in np.ndindex(M.shape[:-3]):
        if not all(_usable(one.tolist(), None) for one in M[index]):
            continue
        whole = M[index].sum(0).astype(np.longdouble)
        variance, squares, cubes = (np.zeros_like(whole) for _ in range(3))
        few = False
        for units in _parts(M[index], _strata(M, strata), clusters).values():
            moved, weights = _moves(units, whole, of)
            count = weights.sum()
            few = few or count < 1 + clusters
            apart = moved - np.average(moved, axis=0, weights=weights) if count else moved
            spread = np.tensordot(weights, apart**2, 1)
            variance += spread * (count / max(count - 1, 1) if clusters else 1) / (1 if n is None else n / count)
            squares, cubes = squares + spread, cubes + np.tensordot(weights, apart**3, 1)
        if few:
            continue
        out[index] = np.where(squares < 1e-16, 0, np.sqrt(variance))
        bends[index] = np.divide(cubes, 6 * squares**1.5, out=np.zeros_like(whole), where=squares > 1e-16)
        bends[index] *= 1 if n is None else math.sqrt(count / n)
    return out, bends


def auc_covariance(scores, y, *, sample_weight=None, pos_label=None, **_):
    """Return areas, covariances and standard errors by comparing every positive sample with every negative one."""
    *batch, K, n = scores.shape
    auc, errors = np.full((*batch, K), math.nan), np.full((*batch, K), math.nan)
    covariance = np.full((*batch, K, K), math.nan)
    for index in np.ndindex(*batch):
        labels = y[index].tolist() if pos_label is None else [int(x == pos_label) for x in y[index].tolist()]
        w = [Fraction(1)] * n
        if sample_weight is not None:
            if not all(math.isfinite(x) and x >= 0 for x in sample_weight[index].tolist()):
                continue
            w = [Fraction(x) for x in sample_weight[index].tolist()]
        if np.isnan(scores[index]).any() or set(labels) - {0, 1, -1}:
            continue
        sides = [[i for i in range(n) if (labels[i] == 1) == side] for side in (True, False)]
        totals = [sum((w[i] for i in side), Fraction(0)) for side in sides]
        if not all(totals) or not K:
            continue
        found = [_placements(scores[index][k].tolist(), sides, w, totals) for k in range(K)]
        areas = [sum(w[i] * v for i, v in zip(sides[0], up, strict=True)) / totals[0] for up, _ in found]
        auc[index] = [float(area) for area in areas]
        held = [sum(w[i] > 0 for i in side) for side in sides]
        if min(held) < 2:
            continue
        for k, other in itertools.product(range(K), repeat=2):
            total = Fraction(0)
            for side in (0, 1):
                pairs = zip(sides[side], found[k][side], found[other][side], strict=True)
                spread = sum(w[i] ** 2 * (a - areas[k]) * (b - areas[other]) for i, a, b in pairs)
                total += spread / totals[side] ** 2 * Fraction(held[side], held[side] - 1)
            covariance[(*index, k, other)] = float(total)
        errors[index] = np.sqrt(np.diagonal(covariance[index]))
    return auc, covariance, errors


def _placements(scores, sides, w, totals):
    """Return the weighted shares of negatives below each positive sample, and of positives above each negative one."""

    def wins(high, low):
        return Fraction((scores[high] > scores[low]) + (scores[high] >= scores[low]), 2)

    up, down = sides
    return (
        [sum(w[j] * wins(i, j) for j in down) / totals[1] for i in up],
        [sum(w[i] * wins(i, j) for i in up) / totals[0] for j in down],
    )


ORACLES = {
    "auc_covariance": auc_covariance,
    "cell_errors": cell_errors,
    "cluster_cell_errors": cluster_cell_errors,
    "cluster_replicates": cluster_replicates,
    "cluster_errors": cluster_errors,
    "cluster_intervals": cluster_intervals,
    "carrying_samples": carrying_samples,
    "paired_errors": paired_errors,
    "replicate_intervals": replicate_intervals,
    "paired_replicates": paired_replicates,
    "metric_draws": metric_draws,
    "metric_intervals": metric_intervals,
    "resample": resample,
    "standard_errors": standard_errors,
}
