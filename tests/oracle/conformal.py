"""Scores in fractions, labels sorted one row at a time, thresholds from sorted lists, sets as lists of classes."""

import math
from fractions import Fraction

import numpy as np

UNIT = 2**52


def _units(x):
    return round(Fraction(float(x)) * UNIT)  # half to even


def _is_good(row, u):
    return all(-(2**-20) <= float(p) <= 1 + 2**-20 for p in row) and 0 <= u <= 1


def _share(p):
    return 0.0 if math.isnan(p) else min(max(float(p), 0.0), 1.0)


def _scores_of(row, u, method, lam, k_reg):
    """Return the score of every class."""
    if not _is_good(row, u):
        return [math.nan] * len(row)
    row = [_share(p) for p in row]
    if method == "lac":
        return [1.0 - float(p) for p in row]
    if method in ("saps", "top_k"):
        return _scores_of_ranks(row, u, method, lam)
    out, before = [0.0] * len(row), 0
    for k, j in enumerate(sorted(range(len(row)), key=lambda j: (-float(row[j]), j))):
        whole = min(before + _units(u * float(row[j])), UNIT) + _units(lam) * max(0, k + 1 - k_reg)
        out[j] = whole / UNIT
        before += _units(row[j])
    return out


def _scores_of_ranks(row, u, method, lam):
    """Return SAPS and top-k scores: the label's own step counts with the share u, steps before it whole."""
    out = [0.0] * len(row)
    order = sorted(range(len(row)), key=lambda j: (-float(row[j]), j))
    for rank, j in enumerate(order, start=1):
        if method == "top_k":
            out[j] = float(Fraction(rank - 1) + Fraction(u))
        elif rank == 1:
            out[j] = float(Fraction(_units(u * float(row[j])), UNIT))
        else:
            steps = _units(lam) * (rank - 2) + round(u * float(_units(lam)))  # half to even
            out[j] = float(Fraction(_units(row[order[0]]) + steps, UNIT))
    return out


def _draw(row, seed):
    """Return a number from 0 to 1 that the row and the seed make, by integers modulo 2^64."""
    first, *keys = (int(k) | 1 for k in np.random.SeedSequence(seed).generate_state(len(row) + 1, np.uint64))
    x = first + sum(_units(_share(p)) * k for p, k in zip(row, keys, strict=True))
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x %= 2**64
        x = (x ^ x >> 33) * factor
    x %= 2**64
    return ((x ^ x >> 33) >> 11) / 2**53


def row_draws(P, *, seed):
    P = np.asarray(P)
    out = np.empty(P.shape[:-1])
    for index in np.ndindex(out.shape):
        out[index] = _draw(P[index], seed)
    return (out,)


def _draws(P, randomised, u, rng):
    if not randomised:
        return np.ones(P.shape[:-1])
    return row_draws(P, seed=rng or 0)[0] if u is None else 1.0 - np.asarray(u, float)


def _table(P, *, method="aps", randomised=True, u=None, rng=None, lam=0.0, k_reg=0):
    P = np.asarray(P)
    u = _draws(P, randomised and method != "lac", u, rng)
    out = np.empty(P.shape)
    for index in np.ndindex(P.shape[:-1]):
        out[index] = _scores_of(P[index], float(u[index]), method, lam, k_reg)
    return out


def scores(P, y=None, **options):
    table = _table(P, **options)
    if y is None:
        return (table,)
    out = np.full(table.shape[:-1], math.nan)
    for index in np.ndindex(out.shape):
        if 0 <= int(y[index]) < table.shape[-1]:
            out[index] = table[(*index, int(y[index]))]
    return (out,)


def _fraction(alpha):
    return Fraction(repr(alpha)) if isinstance(alpha, float) else Fraction(alpha)


def _of_sorted(values, alpha):
    k = math.ceil((len(values) + 1) * (1 - _fraction(alpha)))
    ranked = sorted(math.inf if math.isnan(v) else v for v in values)
    return ranked[k - 1] if k <= len(ranked) else math.inf


def threshold(s, alpha, *, y=None, n_classes=None, groups=None, n_groups=None):
    s = np.asarray(s, float)
    alphas = list(alpha) if isinstance(alpha, tuple) else [alpha]
    labels, number = (y, n_classes) if groups is None else (groups, n_groups)
    if labels is None:
        rows = [[_of_sorted(list(s[b]), a) for a in alphas] for b in np.ndindex(s.shape[:-1])]
        return (np.array(rows, float).reshape(*s.shape[:-1], len(alphas)),)
    labels = np.asarray(labels)
    number = int(labels.max(initial=-1)) + 1 if number is None else number
    out = np.full((*s.shape[:-1], len(alphas), number), math.nan)
    for b in np.ndindex(s.shape[:-1]):
        for a, c in np.ndindex(len(alphas), number):
            out[(*b, a, c)] = _of_sorted([v for v, label in zip(s[b], labels[b], strict=True) if label == c], alphas[a])
    return (out,)


def _is_weight(w):
    return 0 <= w < math.inf


def _weighted_quantile(values, weights, own, alpha):
    """Return the least value above which, with `own`, at most the share alpha of all weights is; by its definition."""
    if not all(map(_is_weight, (*weights, own))) or not any(weights):
        return math.inf
    weights, own = [Fraction(float(w)) for w in weights], Fraction(float(own))
    values = [math.inf if math.isnan(v) else v for v in values]
    limit = _fraction(alpha) * (sum(weights) + own)
    for t in sorted(values):
        if own + sum(w for v, w in zip(values, weights, strict=True) if v > t) <= limit:
            return t
    return math.inf


def weighted_threshold(s, alpha, *, sample_weight, new_weight):
    s, w, v = (np.asarray(x, float) for x in (s, sample_weight, new_weight))
    alphas = list(alpha) if isinstance(alpha, tuple) else [alpha]
    out = np.empty((*s.shape[:-1], len(alphas), v.shape[-1]))
    for *batch, a, m in np.ndindex(out.shape):
        b = tuple(batch)
        out[(*b, a, m)] = _weighted_quantile(s[b].tolist(), w[b].tolist(), v[(*b, m)], alphas[a])
    return (out,)


def p_values(s, new_scores, *, y=None):
    s, new = np.asarray(s, float), np.asarray(new_scores, float)
    out = np.empty(new.shape)
    for index in np.ndindex(new.shape):
        b, t = index[: s.ndim - 1], new[index]
        held = [v for k, v in enumerate(s[b]) if y is None or int(y[(*b, k)]) == index[-1]]
        n_least = sum(math.isnan(v) or math.isnan(t) or v >= t for v in held)
        out[index] = float(Fraction(1 + n_least, 1 + len(held)))
    return (out,)


def score_histogram(s, *, bins=4096, top=1.0):
    s = np.asarray(s, float)
    out = np.zeros((*s.shape[:-1], bins + 1), np.int64)
    edges = [(k + 1) * (top / bins) for k in range(bins)]
    for b in np.ndindex(s.shape[:-1]):
        for v in s[b]:
            out[(*b, next((k for k, edge in enumerate(edges) if v <= edge), bins))] += 1
    return (out,)


def _members(P, q, *, groups=None, empty="allow", **options):
    """Return whether every class is in the set of every row, for every alpha."""
    P, q = np.asarray(P), np.asarray(q, float)
    table, batch = _table(P, **options), P.shape[:-2]
    out = np.zeros((*batch, q.shape[len(batch)], *P.shape[-2:]), bool)
    for index in np.ndindex(out.shape):
        *b, a, i, j = index
        limits = q[tuple(k if n > 1 else 0 for k, n in zip(b, q.shape, strict=False))][a]
        if groups is not None:
            g = int(np.asarray(groups)[(*b, i)])
            limit = limits[g] if 0 <= g < len(limits) else math.nan
        else:
            limit = limits[j] if limits.shape else limits
        out[index] = not table[(*b, i, j)] > limit
    if empty == "top1":
        for *b, a, i in np.ndindex(out.shape[:-1]):
            if not out[(*b, a, i)].any():
                row = [_share(p) for p in P[(*b, i)]]
                out[(*b, a, i, row.index(max(row)))] = True
    return out


def prediction_sets(P, q, **options):
    members = _members(P, q, **options)
    words = np.zeros((*members.shape[:-1], -(-members.shape[-1] // 64)), np.int64)
    for *index, j in zip(*np.nonzero(members), strict=True):
        words[(*index, j // 64)] |= np.array(1 << j % 64, np.uint64).view(np.int64)
    return words, members.sum(-1)


def set_coverage(P, q, y, **options):
    members = _members(P, q, **options)
    *batch, A, n, C = members.shape
    found = np.zeros((2, *batch, A, C + 1), np.int64)
    for *b, a, i in np.ndindex(*batch, A, n):
        label, size = int(y[(*b, i)]), int(members[(*b, a, i)].sum())
        if 0 <= label < C:
            found[(0, *b, a, size)] += 1
            found[(1, *b, a, size)] += members[(*b, a, i, label)]
    return tuple(found)


def ccm(P, q, **options):
    z = _members(P, q, **options).astype(np.int64)
    return (np.einsum("...ni,...nj->...ij", z, z),)


def coverage_confusion(P, q, y, **options):
    members = _members(P, q, **options)
    *batch, A, n, C = members.shape
    V, totals = np.zeros((*batch, A, C, C), np.int64), np.zeros((*batch, A, C), np.int64)
    for *b, a, i in np.ndindex(*batch, A, n):
        label = int(y[(*b, i)])
        if 0 <= label < C:
            V[(*b, a, label)] += members[(*b, a, i)]
            totals[(*b, a, label)] += 1
    return V, totals


def _ratio(kind, n, first, second, both, same):
    if kind == "covariance":
        return (n * both - first * second) / (n * n) if n else math.nan
    if kind == "lift":
        return n * both / (first * second) if first * second else math.nan
    if kind == "conditional":
        return both / first if first else math.nan
    spread = first * (n - first) * second * (n - second)
    if not spread:
        return math.nan
    return 1.0 if same else (n * both - first * second) / math.sqrt(spread)


def ccm_ratios(n, G, *, kind):
    G, n = np.asarray(G), np.asarray(n)
    out, reason = np.empty(G.shape), np.empty(G.shape[:-1], np.int8)
    for *b, i, j in np.ndindex(G.shape):
        counts = int(n[tuple(b)]), *(int(G[(*b, *place)]) for place in ((i, i), (j, j), (i, j)))
        out[(*b, i, j)] = _ratio(kind, *counts, i == j)
    for *b, i in np.ndindex(reason.shape):
        total, m = int(n[tuple(b)]), int(G[(*b, i, i)])
        reason[(*b, i)] = 3 if not total else 1 if not m else 2 if m == total else 0
    return out, reason


ORACLES = {
    "row_draws": row_draws,
    "scores": scores,
    "threshold": threshold,
    "weighted_threshold": weighted_threshold,
    "p_values": p_values,
    "score_histogram": score_histogram,
    "prediction_sets": prediction_sets,
    "set_coverage": set_coverage,
    "ccm": ccm,
    "coverage_confusion": coverage_confusion,
    "ccm_ratios": ccm_ratios,
}
