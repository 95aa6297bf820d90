"""Metrics from their definitions, one matrix at a time, in fractions; roots in 50 digits."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

CHANCE = {"mcc", "kappa", "kappa_linear", "kappa_quadratic", "peirce", "gerrity", "tss", "gilbert", "doolittle"}
CHANCE |= {"markedness", "scott_pi", "krippendorff_alpha", "gwet_ac1"}
ALIASES = {"sensitivity": "recall", "iou": "jaccard", "gm": "geometric_mean", "heidke": "kappa", "hss": "kappa"}
ALIASES |= {"youden_j": "tss", "informedness": "tss", "gss": "gilbert", "dss": "doolittle"}
ALIASES |= {"for": "false_omission_rate", "hamming_loss": "zero_one_loss", "g_measure": "fowlkes_mallows"}
PER_CLASS = ("recall", "precision", "f1", "jaccard", "specificity", "npv", "fpr", "fnr", "fdr", "false_omission_rate")
PER_CLASS += ("positive_likelihood_ratio", "negative_likelihood_ratio", "diagnostic_odds_ratio", "fowlkes_mallows")
AVERAGES = ("macro", "weighted", "micro", "binary")
LARGEST = 2**63 - 1


def _cells(m):
    """Return the cells as fractions, None where the matrix has no metrics."""
    if any(not math.isfinite(x) or x < 0 for x in m.ravel().tolist()):
        return None
    cells = [[Fraction(x) for x in row] for row in m.tolist()]
    total = sum(map(sum, cells))
    return None if (total > LARGEST if m.dtype.kind in "bui" else math.isinf(_float(total))) else cells


def _float(x):
    try:
        return float(x)
    except OverflowError:
        return math.inf


def _sums(cells):
    C = len(cells)
    return (
        [cells[k][k] for k in range(C)],
        [sum(row, Fraction(0)) for row in cells],
        [sum((row[k] for row in cells), Fraction(0)) for k in range(C)],
    )


def _ratio(a, b):
    return None if b == 0 else Fraction(a) / b


def _odds(a, b):
    """Return a / b, which may be infinite; None for 0/0 and where one of them is."""
    if a is None or b is None or a == b == 0:
        return None
    return math.inf if b == 0 else Fraction(a) / b


def _root(x, k=2):
    if x is None or x == 0:
        return x
    with localcontext(prec=50):
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)) ** (Decimal(1) / k))


def _mcc(covariance, truth, prediction):
    if truth == 0 and prediction == 0:
        return None
    return Fraction(0) if truth * prediction == 0 else covariance / _root(truth * prediction)


def _of_table(name, tp, fn, fp, tn, beta=1):
    """Return a metric of one class against the rest; None where it is 0/0."""
    P, N, n = tp + fn, fp + tn, tp + fn + fp + tn
    tpr, tnr = _ratio(tp, P), _ratio(tn, N)
    if name == "recall":
        return tpr
    if name == "precision":
        return _ratio(tp, tp + fp)
    if name in ("f1", "fbeta"):
        if beta == "inf":
            return tpr  # the limit, where it exists
        b = Fraction(beta) ** 2
        return _ratio((1 + b) * tp, b * P + tp + fp)
    if name == "jaccard":
        return _ratio(tp, tp + fp + fn)
    if name == "specificity":
        return tnr
    if name == "npv":
        return _ratio(tn, tn + fn)
    if name in ("fpr", "fnr", "fdr", "false_omission_rate"):
        return {
            "fpr": _ratio(fp, N),
            "fnr": _ratio(fn, P),
            "fdr": _ratio(fp, tp + fp),
            "false_omission_rate": _ratio(fn, tn + fn),
        }[name]
    if name == "positive_likelihood_ratio":
        return _odds(tpr, _ratio(fp, N))
    if name == "negative_likelihood_ratio":
        return _odds(_ratio(fn, P), tnr)
    if name == "diagnostic_odds_ratio":
        return _odds(tp * tn, fp * fn)
    if name == "fowlkes_mallows":
        return _root(_ratio(tp * tp, P * (tp + fp)))
    if name == "markedness":
        ppv, npv = _ratio(tp, tp + fp), _ratio(tn, tn + fn)
        return None if ppv is None or npv is None else ppv + npv - 1
    if name == "mcc":
        return _mcc(tp * tn - fp * fn, P * N, (tp + fp) * (fn + tn))
    if name == "accuracy":
        return _ratio(tp + tn, n)
    if name == "gilbert":
        h = _ratio((tp + fp) * (tp + fn), n)
        return None if h is None else _ratio(tp - h, tp + fp + fn - h)
    if name == "heidke":
        return _ratio(2 * (tp * tn - fp * fn), P * (fn + tn) + (tp + fp) * N)
    if name == "doolittle":
        degrees = P * N, (tp + fp) * (fn + tn)
        if 0 in degrees:
            return None if degrees == (0, 0) else Fraction(0)
        return (tp * tn - fp * fn) ** 2 / (degrees[0] * degrees[1])
    if tpr is None or tnr is None:
        return None
    return {
        "balanced_accuracy": lambda: (tpr + tnr) / 2,
        "geometric_mean": lambda: _root(tpr * tnr),
        "tau": lambda: 1 - _root(((1 - tpr) ** 2 + (1 - tnr) ** 2) / 2),
        "tss": lambda: tpr + tnr - 1,
    }[name]()


def _tables(sums):
    d, t, p = sums
    n = sum(t, Fraction(0))
    return [(a, b - a, c - a, n - b - c + a) for a, b, c in zip(d, t, p, strict=True)]


class _Average:
    """Which classes enter an average under a policy, with their values; `values` is None where one is undefined."""

    def __init__(self, values, sums, undefined, *, fill, labels=None, supported_only=False):
        _, t, p = sums
        inside = range(len(values)) if labels is None else labels
        if undefined == "present" or not isinstance(undefined, str):
            inside = [k for k in inside if t[k] > 0 or p[k] > 0]
        if undefined == "nan":
            inside = [k for k in inside if values[k] is not None]
        if supported_only:
            inside = [k for k in inside if t[k] > 0]
        self.inside, self.weights = inside, [t[k] for k in inside]
        filled = [fill if values[k] is None else values[k] for k in inside]
        self.values = None if None in filled or not filled else filled

    def over(self, function):
        return None if self.values is None else function(self.values)


def _weighted_disagreement(cells, sums, weight):
    _, t, p = sums
    C, n = len(t), sum(t, Fraction(0))
    met = n * sum((weight(i, j) * cells[i][j] for i in range(C) for j in range(C)), Fraction(0))
    expected = sum((weight(i, j) * t[i] * p[j] for i in range(C) for j in range(C)), Fraction(0))
    return None if expected == 0 else 1 - met / expected


def _gerrity(cells, sums):
    _, t, _ = sums
    C, n = len(t), sum(t, Fraction(0))
    running = [sum(t[: r + 1]) for r in range(C - 1)]
    if C < 2 or any(x in (0, n) for x in running):
        return None
    odds = [(n - x) / x for x in running]
    score = Fraction(0)
    for i in range(C):
        for j in range(C):
            low, high = min(i, j), max(i, j)
            score += cells[i][j] * (sum(1 / a for a in odds[:low]) - (high - low) + sum(odds[high:]))
    return score / ((C - 1) * n)


def _agreement(name, cells, sums):
    """Agreement of two raters, from its definition: what was seen against what two of one population would have."""
    d, t, p = sums
    C, n, a = len(d), sum(t, Fraction(0)), sum(d, Fraction(0))
    if n == 0:
        return None
    share = [(x + y) / (2 * n) for x, y in zip(t, p, strict=True)]
    if name == "gwet_ac1":
        chance = None if C < 2 else sum(x * (1 - x) for x in share) / (C - 1)
    elif name == "scott_pi":
        chance = sum(x * x for x in share)
    else:  # two values of each sample, in pairs of different values without putting back
        if 2 * n <= 1:
            return None
        chance = 1 - sum(x * (1 - x) for x in share) * 2 * n / (2 * n - 1)
    return None if chance is None or chance == 1 else (a / n - chance) / (1 - chance)


def _scalar(name, cells, sums, undefined, fill, labels):
    d, t, p = sums
    n, a = sum(t, Fraction(0)), sum(d, Fraction(0))
    covariance = n * a - sum((x * y for x, y in zip(t, p, strict=True)), Fraction(0))
    truth = sum((x * (n - x) for x in t), Fraction(0))
    recalls = _Average([_ratio(x, y) for x, y in zip(d, t, strict=True)], sums, undefined, fill=fill, labels=labels)
    if name.startswith("tau_weighted_"):
        own = [Fraction(weight) for weight in name.removeprefix("tau_weighted_").split("_")]
        own = [own[k] for k in recalls.inside]
        return recalls.over(lambda v: 1 - _root(sum(w * (1 - x) ** 2 for w, x in zip(own, v, strict=True)) / len(v)))
    simple = {
        "zero_one_loss": lambda: _ratio(n - a, n),
        "scott_pi": lambda: _agreement(name, cells, sums),
        "krippendorff_alpha": lambda: _agreement(name, cells, sums),
        "gwet_ac1": lambda: _agreement(name, cells, sums),
        "accuracy": lambda: _ratio(a, n),
        "mcc": lambda: _mcc(covariance, truth, sum((x * (n - x) for x in p), Fraction(0))),
        "kappa": lambda: _ratio(covariance, sum((x * (n - y) for x, y in zip(t, p, strict=True)), Fraction(0))),
        "peirce": lambda: _ratio(covariance, truth),
        "kappa_linear": lambda: _weighted_disagreement(cells, sums, lambda i, j: abs(i - j)),
        "kappa_quadratic": lambda: _weighted_disagreement(cells, sums, lambda i, j: (i - j) ** 2),
        "gerrity": lambda: _gerrity(cells, sums),
        "balanced_accuracy": lambda: recalls.over(lambda v: sum(v) / len(v)),
        "min_recall": lambda: recalls.over(min),
        "geometric_mean": lambda: recalls.over(lambda v: _root(math.prod(v), len(v))),
        "tau": lambda: recalls.over(lambda v: 1 - _root(sum((1 - x) ** 2 for x in v) / len(v))),
        "balanced_accuracy_adjusted": lambda: recalls.over(
            lambda v: None if len(v) < 2 else (sum(v) / len(v) - Fraction(1, len(v))) / (1 - Fraction(1, len(v)))
        ),
    }
    return simple[name]()


def _value(name, cells, sums, undefined, pos_label, labels=None):
    """Return a number, a list of one per class, or None: what `name` is under a policy."""
    name = ALIASES.get(name, name)
    fill = {"present": Fraction(0), "zero": Fraction(0), "one": Fraction(1)}.get(undefined)
    fill = fill if isinstance(undefined, str) else Fraction(undefined)
    if name in ("mcc_01", "kappa_01"):
        value = _value(name[:-3], cells, sums, undefined, pos_label, labels)
        return None if value is None else (value + 1) / 2
    if name == "f1_of_macro":
        P = _value("precision_macro", cells, sums, undefined, pos_label, labels)
        R = _value("recall_macro", cells, sums, undefined, pos_label, labels)
        if P is None or R is None:
            return fill
        return Fraction(0) if P + R == 0 else 2 * P * R / (P + R)
    if name in ("tss", "gilbert", "doolittle", "markedness"):
        value = _of_table(name, *_tables(sums)[pos_label])
        return Fraction(0) if value is None and fill is not None else value
    base, beta = name, 1
    if name.startswith("fbeta_"):
        _, beta, *average = name.split("_")
        base, name = "fbeta", "_".join(("fbeta", *average))
    average = next((end for end in AVERAGES if name.endswith(f"_{end}")), None)
    base = name if average is None else name.removesuffix(f"_{average}")
    base = ALIASES.get(base, base)
    chance = base.removesuffix("_ovr") in CHANCE | {"heidke", "balanced_accuracy_adjusted"}
    own = Fraction(0) if chance and fill is not None else fill
    tables = _tables(sums)
    if average == "binary":
        value = _of_table(base, *tables[pos_label], beta=beta)
    elif average == "micro":
        inside = tables if labels is None else [tables[k] for k in labels]
        together = [sum(cell, Fraction(0)) for cell in zip(*inside, strict=True)] if inside else [Fraction(0)] * 4
        value = _of_table(base, *together, beta=beta)
    elif base.endswith("_ovr") or base in (*PER_CLASS, "fbeta"):
        values = [_of_table(base.removesuffix("_ovr"), *table, beta=beta) for table in tables]
        if average is None:
            kept = values if labels is None else [values[k] for k in labels]
            return [own if value is None else value for value in kept]
        options = {"fill": own, "labels": labels, "supported_only": average == "weighted"}
        entering = _Average(values, sums, undefined, **options)
        weights = entering.weights if average == "weighted" else [1] * len(entering.weights)
        value = entering.over(lambda v: sum(w * x for w, x in zip(weights, v, strict=True)) / sum(weights))
    else:
        value = _scalar(name, cells, sums, undefined, fill, labels)
    return own if value is None else value


def _number(x):
    return math.nan if x is None else float(x)


def _batch(stacks, batch, C, dtype, names, of_index):
    per_class = {name: name.removesuffix("_ovr") != name or ALIASES.get(name, name) in PER_CLASS for name in names}
    per_class |= {name: name.count("_") == 1 for name in names if name.startswith("fbeta_")}
    labels = stacks["labels"]
    C = C if labels is None else len(labels)
    out = {name: np.full((*batch, C) if per_class[name] else batch, math.nan) for name in names}
    for index in np.ndindex(batch):
        cells, sums = of_index(index)
        if sums is None:
            continue
        for name in names:
            value = _value(name, cells, sums, stacks["undefined"], stacks["pos_label"], labels)
            out[name][index] = [_number(x) for x in value] if isinstance(value, list) else _number(value)
    return tuple(array.astype(dtype) for array in out.values())


def metrics_of_matrices(M, names, *, undefined="present", pos_label=1, average_over=None, **_):
    def of_index(index):
        cells = _cells(M[index])
        return cells, None if cells is None else _sums(cells)

    options = {"undefined": undefined, "pos_label": pos_label, "labels": average_over}
    dtype = np.float32 if M.dtype == np.float32 else np.float64
    return _batch(options, M.shape[:-2], M.shape[-1], dtype, names, of_index)


def metrics_of_sums(d, t, p, names, *, undefined="present", pos_label=1, average_over=None, **_):
    """Without the ordered metrics, which no diagonal and margins determine."""

    def of_index(index):
        exact = all(a.dtype.kind in "bui" for a in (d, t, p))
        sums = [[float(x) for x in a[index]] for a in (d, t, p)]
        if any(not math.isfinite(x) for row in sums for x in row):
            return None, None
        sums = [[Fraction(x) for x in a[index].tolist()] for a in (d, t, p)]
        slack = 0 if exact else Fraction(1, 10**9) * sum(sums[1])
        fits = all(x >= 0 for row in sums for x in row) and abs(sum(sums[1]) - sum(sums[2])) <= slack
        fits = fits and all(min(table) >= -slack for table in _tables(sums))
        return None, sums if fits else None

    options = {"undefined": undefined, "pos_label": pos_label, "labels": average_over}
    dtype = np.float32 if all(a.dtype == np.float32 for a in (d, t, p)) else np.float64
    return _batch(options, d.shape[:-1], d.shape[-1], dtype, names, of_index)


def margins(M, **_):
    C, batch = M.shape[-1], M.shape[:-2]
    dtype = np.float64 if M.dtype.kind == "f" else np.int64
    blank = math.nan if dtype is np.float64 else 0
    parts = [np.full((*batch, C), blank, dtype) for _ in range(5)]
    total, status = np.full(batch, blank, dtype), np.full(batch, 5, np.int8)
    for index in np.ndindex(batch):
        cells = _cells(M[index])
        if cells is None:
            continue
        bands, tops = [Fraction(0)] * C, [Fraction(0)] * C
        for i in range(C):
            for j in range(C):
                bands[abs(i - j)] += cells[i][j]
                tops[max(i, j)] += cells[i][j]
        for part, exact in zip(parts, (*_sums(cells), bands, tops), strict=True):
            part[index] = [dtype(x) for x in exact]
        total[index] = dtype(sum(map(sum, cells)))
        status[index] = 0
    return (*parts, total, status)


def weighted_kappa(M, *, weights, undefined="present", **_):
    out = np.full(M.shape[:-2], math.nan)
    table = _cells(np.asarray(weights))
    for index in np.ndindex(M.shape[:-2]):
        cells = _cells(M[index])
        if cells is not None and table is not None and not any(table[k][k] for k in range(len(table))):
            value = _weighted_disagreement(cells, _sums(cells), lambda i, j: table[i][j])
            out[index] = (math.nan if undefined in ("nan", "strict") else 0.0) if value is None else float(value)
    return (out.astype(np.float32 if M.dtype == np.float32 else np.float64),)


def one_vs_rest(M, **_):
    C, batch = M.shape[-1], M.shape[:-2]
    dtype = np.int64 if M.dtype.kind in "bui" else np.float32 if M.dtype == np.float32 else np.float64
    out = np.full((*batch, C, 2, 2), 0 if dtype is np.int64 else math.nan, dtype)
    for index in np.ndindex(batch):
        cells = _cells(M[index])
        if cells is not None:
            for k, (tp, fn, fp, tn) in enumerate(_tables(_sums(cells))):
                out[(*index, k)] = [[dtype(tn), dtype(fp)], [dtype(fn), dtype(tp)]]
    return (out,)


def confusion_fractions(M, *, undefined="present", **_):
    out = np.full(M.shape, math.nan)
    fill = {"present": 0.0, "zero": 0.0, "one": 1.0}.get(undefined, math.nan)
    for index in np.ndindex(M.shape[:-2]):
        cells = _cells(M[index])
        if cells is not None:
            for i, row in enumerate(cells):
                out[(*index, i)] = [float(x / sum(row)) if sum(row) else fill for x in row]
    return (out.astype(np.float32 if M.dtype == np.float32 else np.float64),)


def most_confused(M, k=5, *, by="count", **_):
    C, batch = M.shape[-1], M.shape[:-2]
    symmetric = by.startswith("symmetric")
    pairs = [(i, j) for i in range(C) for j in range(i + 1 if symmetric else 0, C) if i != j]
    k = min(k, len(pairs))
    value, row, col = np.full((*batch, k), math.nan), np.full((*batch, k), -1), np.full((*batch, k), -1)
    for index in np.ndindex(batch):
        cells = _cells(M[index])
        if cells is None:
            continue
        if by.endswith("rate"):
            cells = [[x / sum(line) if sum(line) else Fraction(0) for x in line] for line in cells]
        size = {(i, j): cells[i][j] + (cells[j][i] if symmetric else 0) for i, j in pairs}
        largest = sorted(pairs, key=lambda pair: -float(size[pair]))[:k]  # rounded: ties are ties of what is returned
        if k == 0:
            continue
        value[index], row[index], col[index] = ([float(size[x]) for x in largest], *zip(*largest, strict=True))
    return value, row, col


def label_margins(y, p, *, n_classes=None, sample_weight=None, groups=None, n_groups=None, ignore_index=None, **_):
    seen = ~np.isin(y, [] if ignore_index is None else ignore_index)
    C = n_classes
    if C is None:
        labels = sorted({*y[seen].tolist(), *p[seen].tolist()})
        C = len(labels)
        places = {label: k for k, label in enumerate(labels)}
        y, p = (np.array([places.get(x, -1) for x in z.ravel().tolist()], np.int64).reshape(z.shape) for z in (y, p))
    if n_groups is None:
        n_groups = 1 if groups is None else max([-1, *groups.ravel().tolist()]) + 1
    exact = sample_weight is None or sample_weight.dtype.kind in "bui"
    cells = {}
    for index in np.ndindex(y.shape):
        if seen[index]:
            g = 0 if groups is None else int(groups[index])
            weight = 1 if sample_weight is None else sample_weight[index].item()
            cells.setdefault((*index[:-1], g, int(y[index]), int(p[index])), []).append(weight)
    M = np.zeros((*y.shape[:-1], n_groups, C, C), np.int64 if exact else np.float64)
    bad = np.zeros(M.shape[:-2], bool)
    for index, weights in cells.items():
        if not all(map(math.isfinite, weights)):
            bad[index[:-2]] = True
        else:
            total = sum(map(Fraction, weights))
            bad[index[:-2]] |= total > LARGEST
            M[index] = 0 if total > LARGEST else int(total) if exact else float(total)
    M[bad] = -1
    found = margins(M)
    return (
        found
        if groups is not None
        else tuple(part[..., 0, :] if part.ndim == M.ndim - 1 else part[..., 0] for part in found)
    )


def threshold_matrices(scores, y, *, sample_weight=None, pos_label=None, **_):
    n, batch = scores.shape[-1], scores.shape[:-1]
    kind = scores.dtype if scores.dtype.kind == "f" else np.float64
    exact = sample_weight is None or sample_weight.dtype.kind in "bui"
    thresholds = np.full((*batch, n + 1), np.nan, kind)
    matrices = np.zeros((*batch, n + 1, 2, 2), np.int64 if exact else np.float64)
    for index in np.ndindex(batch):
        s, labels = scores[index].tolist(), y[index].tolist()
        weights = [1] * n if sample_weight is None else sample_weight[index].tolist()
        if pos_label is not None:
            labels = [int(x == pos_label) for x in labels]
        if any(map(math.isnan, s)) or set(labels) - {0, 1, -1} or not all(map(math.isfinite, weights)):
            continue
        thresholds[index] = [math.inf, *sorted(s, reverse=True)]
        for k, threshold in enumerate([None, *sorted(s, reverse=True)]):
            cells = {(i, j): Fraction(0) for i in (0, 1) for j in (0, 1)}
            for x, label, weight in zip(s, labels, weights, strict=True):
                cells[int(label == 1), int(threshold is not None and x >= threshold)] += Fraction(weight)
            for cell, size in cells.items():
                matrices[(*index, k, *cell)] = int(size) if exact else float(size)
    return thresholds, matrices


def _rows(scores, y, options):
    """Yield the index, thresholds and matrices of every row, and whether it is a good one."""
    thresholds, matrices = threshold_matrices(scores, y, **options)
    for index in np.ndindex(scores.shape[:-1]):
        yield index, thresholds[index], matrices[index], not np.isnan(thresholds[index]).any()


def score_areas(scores, y, **options):
    area, average = (np.full(scores.shape[:-1], math.nan) for _ in range(2))
    for index, _, matrices, _ in _rows(scores, y, options):
        rows = [[[Fraction(x) for x in row] for row in table] for table in matrices.tolist()]
        positive, negative = sum(rows[0][1]), sum(rows[0][0])
        steps = list(itertools.pairwise(rows))
        if positive and negative:
            under = sum((b[0][1] - a[0][1]) * (a[1][1] + b[1][1]) for a, b in steps)
            area[index] = under / (2 * positive * negative)
        if positive:
            gains = ((b[1][1] - a[1][1], b[1][1], b[0][1]) for a, b in steps)
            average[index] = sum((gain * tp / (tp + fp) for gain, tp, fp in gains if gain), Fraction(0)) / positive
    return area, average


def least_cost(scores, y, cost, **options):
    batch = scores.shape[:-1]
    everything = threshold_matrices(scores, y, **options)
    threshold, least = np.full(batch, math.nan, everything[0].dtype), np.full(batch, math.nan)
    best = np.zeros((*batch, 2, 2), everything[1].dtype)
    for index, thresholds, matrices, good in _rows(scores, y, options):
        if good:
            total = (matrices * np.asarray(cost)).sum((1, 2))
            k = int(np.argmin(total))
            threshold[index], least[index], best[index] = thresholds[k], total[k], matrices[k]
    return threshold, least, best


def metrics_gradient(M, of_scalars, of_tables, *, names):
    """Return the slopes of the metrics in cells that are positive, weighted and added up; those of scalars first."""
    from oracle._slopes import slopes  # it stands on this file

    C, batch = M.shape[-1], M.shape[:-2]
    out = np.full(M.shape, math.nan)
    for index in np.ndindex(batch):
        cells = _cells(M[index])
        if cells is None:
            continue
        total = [[Fraction(0)] * C for _ in range(C)]
        weights = [(name, None, of_scalars[index][k]) for k, name in enumerate(names[: of_scalars.shape[-1]])]
        for table, name in enumerate(names[of_scalars.shape[-1] :]):
            weights += [(name, k, of_tables[index][table, k]) for k in range(C)]
        for name, k, weight in weights:
            for (i, j), slope in slopes(name, cells, "present", 1, k).items():
                total[i][j] += Fraction(float(weight)) * Fraction(slope)
        out[index] = [[float(x) for x in row] for row in total]
    return (out.astype(np.float32 if M.dtype == np.float32 else np.float64),)


ORACLES = {
    "metrics_gradient": metrics_gradient,
    "confusion_fractions": confusion_fractions,
    "label_margins": label_margins,
    "margins": margins,
    "metrics_of_matrices": metrics_of_matrices,
    "metrics_of_sums": metrics_of_sums,
    "most_confused": most_confused,
    "one_vs_rest": one_vs_rest,
    "threshold_matrices": threshold_matrices,
    "score_areas": score_areas,
    "least_cost": least_cost,
    "weighted_kappa": weighted_kappa,
}
