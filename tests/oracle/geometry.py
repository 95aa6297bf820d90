"""Cells as a dictionary, sums as fractions, one point at a time."""

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np

MOST = 2**53


def cell(row, origin, width):
    """Index row of a point, in the float64 arithmetic that defines it; None for a point without a cell."""
    index = []
    for x, a, h in zip(row, origin, width, strict=True):
        with np.errstate(all="ignore"):
            k = (np.float64(x) - np.float64(a)) * (np.float64(1.0) / np.float64(h))
        if not abs(k) < MOST:
            return None
        index.append(math.floor(k))
    return tuple(index)


def triples(X, y_true, y_pred, origin, width):
    """Points per (cell, label, prediction)."""
    counts = Counter()
    for row, i, j in zip(X, y_true, y_pred, strict=True):
        v = cell(row, origin, width)
        if v is not None:
            counts[v, int(i), int(j)] += 1
    return counts


def _classes(n_classes, *labels):
    return n_classes if n_classes is not None else max([int(y) + 1 for one in labels for y in one], default=0)


def _table(keys, m):
    """Index rows (n, m) and what follows them, as int64 arrays."""
    cells = np.array([v for v, *_ in keys], np.int64).reshape(len(keys), m)
    return cells, *(np.array([key[k] for key in keys], np.int64) for k in range(1, len(keys[0]) if keys else 1))


def cell_counts(X, y_true, y_pred, *, origin, width, n_classes=None):
    """Cells, labels, predictions, counts, sorted."""
    counts = triples(X, y_true, y_pred, origin, width)
    keys = sorted(counts)
    cells, labels, predictions = _table(keys, X.shape[1]) if keys else (np.empty((0, X.shape[1]), np.int64), *_none(2))
    number = np.array([counts[k] for k in keys], np.int64)
    return cells, labels, predictions, number


def _none(k):
    return [np.empty(0, np.int64) for _ in range(k)]


def merge_cells(X, y_true, y_pred, *, origin, width, n_classes, cut):
    """Of two parts of the points together: the same as of all points."""
    return cell_counts(X, y_true, y_pred, origin=origin, width=width, n_classes=n_classes)


def decode_cells(X, y_true, y_pred, *, origin, width):
    return cell_counts(X, y_true, y_pred, origin=origin, width=width)[:3]


def _confusion(counts, n_classes):
    M = [[0] * n_classes for _ in range(n_classes)]
    for (_, i, j), n in counts.items():
        M[i][j] += n
    return M


def pair_counts(X, y_true, y_pred, *, origin, width, n_classes=None):
    C = _classes(n_classes, y_true, y_pred)
    M = _confusion(triples(X, y_true, y_pred, origin, width), C)
    return (np.array(M, np.int64).reshape(C, C),)


def cell_shapes(X, y_true, y_pred, *, origin, width):
    """Sizes of cells and their number; then cells, points in pure and in unmixed cells, pairs in mixed cells."""
    cells = defaultdict(list)
    for (v, i, j), n in triples(X, y_true, y_pred, origin, width).items():
        cells[v].append((i, j, n))
    sizes = Counter(sum(n for *_, n in one) for one in cells.values())
    pure = unmixed = pairs = 0
    for one in cells.values():
        a, b, n = len({i for i, _, _ in one}), len({j for _, j, _ in one}), sum(n for *_, n in one)
        pure += n if len(one) == 1 else 0
        unmixed += n if min(a, b) == 1 else 0
        pairs += a * b if min(a, b) > 1 else 0
    keys = sorted(sizes)
    total = [len(cells), pure, unmixed, pairs]
    return np.array(keys, np.int64), np.array([sizes[k] for k in keys], np.int64), np.array(total, np.int64)


def weight_table(M, name):
    """Weights of a normalisation as fractions; None where they do not exist (no such pair occurs)."""
    C = len(M)
    rows, columns = [sum(row) for row in M], [sum(column) for column in zip(*M, strict=True)]
    total = sum(rows)
    mass = {"all": lambda i, j: total, "row": lambda i, j: rows[i], "col": lambda i, j: columns[j]}[name]
    return [[Fraction(1, mass(i, j)) if mass(i, j) else None for j in range(C)] for i in range(C)]


def heights(counts, w):
    """Label and prediction heights per cell, as fractions; None for a pair with a weight that is no weight."""
    L, P = defaultdict(Fraction), defaultdict(Fraction)
    for (v, i, j), n in counts.items():
        x = w[i][j]
        if x is None or not math.isfinite(x) or x < 0:
            return None
        L[v, i] += n * Fraction(x)
        P[v, j] += n * Fraction(x)
    return L, P


def gcm(X, y_true, y_pred, *tables, origin, width, weights=None, n_classes=None):
    """Sum over cells of the smaller height, for every pair of label and prediction."""
    C = _classes(n_classes, y_true, y_pred)
    counts = triples(X, y_true, y_pred, origin, width)
    M = _confusion(counts, C)
    ws = [weight_table(M, w) for w in weights or ()] + [np.asarray(t).tolist() for t in tables]
    out = np.zeros((len(ws), C, C))
    for k, w in enumerate(ws):
        both = heights(counts, w)
        if both is None:
            out[k] = math.nan
            continue
        G = defaultdict(Fraction)
        for v in {v for v, _, _ in counts}:
            for i in {i for u, i in both[0] if u == v}:
                for j in {j for u, j in both[1] if u == v}:
                    G[i, j] += min(both[0][v, i], both[1][v, j])
        for (i, j), x in G.items():
            out[k, i, j] = float(x)
    return (out,)


def cell_excess(draws, share, W, C):
    """Smaller heights minus the weighted counts of each cell, given as rows of counts (D, C, C)."""
    E, scores = np.zeros(W.shape), np.zeros((len(draws), len(W)))
    for d, n in enumerate(draws):
        for k in range(len(W)):
            mass = [[Fraction(W[k, i, j]) * int(x) for j, x in enumerate(row)] for i, row in enumerate(n)]
            L, P = [sum(row) for row in mass], [sum(column) for column in zip(*mass, strict=True)]
            above = [[float(min(L[i], P[j]) - mass[i][j]) for j in range(len(P))] for i in range(len(L))]
            E[k] += share[d] * np.array(above)
            scores[d, k] = (C[k] * above).sum()
    return E, scores


def _sum(weights):
    if any(isinstance(w, float) and not math.isfinite(w) for w in weights):
        return math.nan
    total = sum(map(Fraction, weights))
    if all(isinstance(w, int | bool) for w in weights):
        return int(total)
    try:
        return float(total)
    except OverflowError:
        return math.nan


def sparse_histogram(X, weights=None, groups=None, *, origin, width, n_groups=None):
    """Cells, groups and sums, sorted."""
    entries = defaultdict(list)
    for k, row in enumerate(X):
        v = cell(row, origin, width)
        if v is not None:
            g = 0 if groups is None else int(groups[k])
            entries[v, g].append(1 if weights is None else weights[k].item())
    keys = sorted(entries)
    cells, number = _table(keys, X.shape[1]) if keys else (np.empty((0, X.shape[1]), np.int64), *_none(1))
    dtype = np.int64
    if weights is not None and weights.dtype.kind == "f":
        dtype = np.float32 if weights.dtype == np.float32 else np.float64
    values = [_sum(entries[k]) for k in keys]
    if dtype != np.int64:
        largest = float(np.finfo(dtype).max)
        values = [x if abs(x) <= largest else math.nan for x in values]
    return cells, number, np.array(values, dtype)


def marginal_histogram(X, y_true, y_pred, table=None, *, origin, width, axis):
    """Heights of the labels (axis 0) or the predictions (axis 1)."""
    counts = triples(X, y_true, y_pred, origin, width)
    C = _classes(None, y_true, y_pred)
    w = [[1] * C for _ in range(C)] if table is None else np.asarray(table).tolist()
    both = heights(counts, w)
    found = dict.fromkeys({(v, (i, j)[axis]) for v, i, j in counts}, math.nan) if both is None else both[axis]
    keys = sorted(found)
    cells, number = _table(keys, X.shape[1]) if keys else (np.empty((0, X.shape[1]), np.int64), *_none(1))
    dtype = np.int64 if table is None else np.float64
    return cells, number, np.array([float(found[k]) for k in keys]).astype(dtype)


def min_overlap(X, Y, weights_a, weights_b, groups_a, groups_b, *, origin, width):
    """Sum over common cells of the smaller height; NaN for a group with a height that is NaN or negative."""
    sides = []
    for points, weights, groups in ((X, weights_a, groups_a), (Y, weights_b, groups_b)):
        cells, number, values = sparse_histogram(points, weights, groups, origin=origin, width=width)
        n = 1 if groups is None else _classes(None, groups)
        entries = list(zip(map(tuple, cells.tolist()), number.tolist(), values.tolist(), strict=True))
        bad = {g for _, g, x in entries if not x >= 0 or math.isinf(x)}
        sides.append((entries, n, bad, values.dtype.kind))
    (a, n_a, bad_a, kind_a), (b, n_b, bad_b, kind_b) = sides
    out = [[Fraction(0)] * n_b for _ in range(n_a)]
    for v, g, x in a:
        for u, h, y in b:
            if u == v and g not in bad_a and h not in bad_b:
                out[g][h] += min(Fraction(x), Fraction(y))
    matrix = np.array([[float(x) for x in row] for row in out], np.float64).reshape(n_a, n_b)
    if kind_a == kind_b == "i":
        return (matrix.astype(np.int64),)
    matrix[list(bad_a), :] = math.nan
    matrix[:, list(bad_b)] = math.nan
    return (matrix,)


# Columns.


def _finite_rows(X):
    return [[float(x) for x in row] for row in X if all(math.isfinite(float(x)) for x in row)]


def column_ranges(X):
    rows = _finite_rows(X)
    columns = [list(c) for c in zip(*rows, strict=True)] or [[]] * X.shape[1]
    low = [min(c, default=math.inf) for c in columns]
    high = [max(c, default=-math.inf) for c in columns]
    return np.array(low, np.float64), np.array(high, np.float64)


def column_moments(X):
    """Sum the integer positions and their squares; the square as quotient and remainder of 2**32."""
    rows = _finite_rows(X)
    out = np.zeros((3, X.shape[1]), np.int64)
    for d in range(X.shape[1]):
        column = [row[d] for row in rows]
        low, high = min(column, default=0.0), max(column, default=0.0)
        scale = np.float64(2**20) / (np.float64(high) - np.float64(low)) if high > low else np.float64(0)
        u = [int(np.rint((np.float64(x) - np.float64(low)) * scale)) for x in column]
        square = sum(k * k for k in u)
        out[:, d] = sum(u), square >> 32, square & 0xFFFFFFFF
    return (out,)


def column_products(X):
    """Sum products of 1 and of both digits of every column, whose range is 44 bits; as quotient and remainder."""
    rows, m = _finite_rows(X), X.shape[1]
    lines = [[1] * len(rows), *[[]] * (2 * m)]
    for d in range(m):
        column = [np.float64(row[d]) for row in rows]
        low, high = min(column, default=0.0), max(column, default=0.0)
        half = np.float64(1.0 if Fraction(high) - Fraction(low) <= Fraction(np.finfo(np.float64).max) else 0.5)
        steps = Fraction(2) ** (44 - math.frexp(high * half - low * half)[1]) if high > low else 0
        whole = [round(Fraction(x * half - low * half) * steps) - (2**43 if high > low else 0) for x in column]
        upper = [round(Fraction(u, 2**22)) for u in whole]
        lines[1 + d] = upper
        lines[1 + m + d] = [u - k * 2**22 for u, k in zip(whole, upper, strict=True)]
    sums = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in lines] for one in lines]
    quotients = [[x >> 32 for x in row] for row in sums]
    return (np.array([quotients, [[x & 0xFFFFFFFF for x in row] for row in sums]], np.int64),)


def column_quartiles(X):
    rows = _finite_rows(X)
    out = np.full((2, X.shape[1]), math.nan)
    for d in range(X.shape[1] if rows else 0):
        column = sorted(Fraction(row[d]) for row in rows)
        for k in (0, 1):
            place, part = divmod((2 * k + 1) * (len(column) - 1), 4)
            above = column[min(place + 1, len(column) - 1)]
            out[k, d] = float(column[place] + (above - column[place]) * Fraction(part, 4))
    return (out,)


def pca(X, n_components):
    """Mean, axes and shares of the variance, by a singular value decomposition of the centred points."""
    n = X.shape[1]
    A = np.array(_finite_rows(X)).reshape(-1, n)
    if not len(A):
        nan = np.full(n_components, math.nan)
        return np.full(n, math.nan), np.tile(nan[:, None], n), nan
    mean = np.array([math.fsum(c) / len(A) for c in A.T])
    _, s, V = np.linalg.svd(np.concatenate([A - mean, np.zeros((n, n))]), full_matrices=False)
    V = np.array([-row if row[np.argmax(np.abs(row))] < 0 else row for row in V[:n_components]])
    share = s**2 / (s**2).sum() if (s > 0).any() else np.zeros_like(s)
    return mean, V, share[:n_components]


def project(X, Y, n_components):
    mean, V, _ = pca(X, n_components)
    out = np.full((len(Y), n_components), math.nan)
    for k, row in enumerate(Y):
        if np.isfinite(row.astype(np.float64)).all():
            out[k] = [math.fsum((row.astype(np.float64) - mean) * v) for v in V]
    return (out,)


ORACLES = {
    "cell_counts": cell_counts,
    "cell_excess": cell_excess,
    "cell_shapes": cell_shapes,
    "column_moments": column_moments,
    "column_products": column_products,
    "column_quartiles": column_quartiles,
    "column_ranges": column_ranges,
    "decode_cells": decode_cells,
    "gcm": gcm,
    "marginal_histogram": marginal_histogram,
    "merge_cells": merge_cells,
    "min_overlap": min_overlap,
    "pair_counts": pair_counts,
    "pca": pca,
    "project": project,
    "sparse_histogram": sparse_histogram,
}
