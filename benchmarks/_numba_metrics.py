"""41 metrics of one number per matrix in one Numba loop, on all cores; every class true and predicted."""

import numpy as np

from benchmarks._numba_loops import loop, run_pieces

BY_CLASS = ("recall", "precision", "f1", "jaccard", "specificity", "npv")
NAMES = (
    *("accuracy", "balanced_accuracy", "min_recall", "balanced_accuracy_adjusted", "geometric_mean", "tau"),
    *("f1_of_macro", "mcc", "mcc_01", "kappa", "kappa_01", "peirce", "kappa_linear", "kappa_quadratic", "gerrity"),
    *(f"{name}_{average}" for name in BY_CLASS for average in ("macro", "weighted", "micro")),
    *("accuracy_ovr_macro", "balanced_accuracy_ovr_macro", "geometric_mean_ovr_macro", "tau_ovr_macro"),
    *("tss_ovr_macro", "heidke_ovr_macro", "gilbert_ovr_macro", "doolittle_ovr_macro"),
)


def compute(M):
    """Return the metrics of every matrix, by name."""
    out = np.empty((len(M), len(NAMES)))
    run_pieces(_metrics, len(M), M, out)
    return dict(zip(NAMES, out.T, strict=True))


@loop
def _metrics(M, out, start, stop):
    C = M.shape[-1]
    t, p, d = np.empty(C), np.empty(C, M.dtype), np.empty(C)
    low, high = np.empty(C), np.empty(C)
    for b in range(start, stop):
        m, o = M[b], out[b]
        linear, quadratic = _sums(m, t, p, d)
        _compute_from_sums(t, p, d, o)
        _compute_weighted_kappas(t, p, linear, quadratic, o)
        o[14] = _gerrity(m, t, low, high)


@loop
def _sums(m, t, p, d):
    linear, quadratic = 0.0, 0.0
    p[:] = 0
    for i in range(len(m)):
        row, near, square = m[i, 0] * 0, m[i, 0] * 0, m[i, 0] * 0
        for j in range(len(m)):
            cell = m[i, j]
            row += cell
            p[j] += cell
            near += cell * abs(i - j)
            square += cell * (i - j) ** 2
        t[i], d[i] = row, m[i, i]
        linear += near
        quadratic += square
    return linear, quadratic


@loop
def _compute_from_sums(t, p, d, o):
    C, n, a = len(t), t.sum(), d.sum()
    o[:] = 0
    worst, product, miss, whole, truth, chance, guess = 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(C):
        ti, pi, di = t[c], float(p[c]), d[c]
        tn = n - ti - pi + di
        cov = di * tn - (ti - di) * (pi - di)
        recall, specificity = di / ti, tn / (n - ti)
        values = (recall, di / pi, 2 * di / (ti + pi), di / (ti + pi - di), specificity, tn / (n - pi))
        for k in range(6):
            o[15 + 3 * k] += values[k]
            o[16 + 3 * k] += ti * values[k]
        worst = min(worst, recall)
        product *= recall
        miss += (1 - recall) ** 2
        whole += cov
        truth += ti * (n - ti)
        guess += pi * (n - pi)
        chance += ti * (n - pi)
        hits = ti * pi / n
        o[33] += (di + tn) / n
        o[34] += (recall + specificity) / 2
        o[35] += np.sqrt(recall * specificity)
        o[36] += 1 - np.sqrt(((1 - recall) ** 2 + (1 - specificity) ** 2) / 2)
        o[37] += cov / (ti * (n - ti))
        o[38] += 2 * cov / (ti * (n - pi) + pi * (n - ti))
        o[39] += (di - hits) / (ti + pi - di - hits)
        o[40] += cov**2 / (ti * (n - ti) * pi * (n - pi))
    for k in range(33, 41):
        o[k] /= C
    for k in range(6):
        o[15 + 3 * k] /= C
        o[16 + 3 * k] /= n
        o[17 + 3 * k] = a / n
    o[26] = a / (2 * n - a)
    o[29] = o[32] = ((C - 2) * n + a) / ((C - 1) * n)
    o[0], o[1], o[2] = a / n, o[15], worst
    o[3] = (o[15] - 1 / C) / (1 - 1 / C)
    o[4] = product ** (1 / C)
    o[5] = 1 - np.sqrt(miss / C)
    o[6] = 2 * o[18] * o[15] / (o[18] + o[15])
    o[7], o[9], o[11] = whole / np.sqrt(truth * guess), whole / chance, whole / truth
    o[8], o[10] = (o[7] + 1) / 2, (o[9] + 1) / 2


@loop
def _compute_weighted_kappas(t, p, linear, quadratic, o):
    """Compute the weighted kappas; the chance agreement is a sum over rows and columns, not over cells."""
    n, true, predicted, near = t.sum(), 0.0, 0.0, 0.0
    t1, t2, p1, p2 = 0.0, 0.0, 0.0, 0.0
    for c in range(len(t)):
        true += t[c]
        predicted += p[c]
        near += true * (n - predicted) + predicted * (n - true)
        t1 += c * t[c]
        t2 += c * c * t[c]
        p1 += c * p[c]
        p2 += c * c * p[c]
    o[12] = 1 - n * linear / near
    o[13] = 1 - n * quadratic / (n * t2 + n * p2 - 2 * t1 * p1)


@loop
def _gerrity(m, t, low, high):
    C, n, below = len(t), t.sum(), 0.0
    low[0] = high[C - 1] = 0.0
    for c in range(C - 1):
        below += t[c]
        low[c + 1] = low[c] + below / (n - below)
        high[c] = (n - below) / below
    for c in range(C - 2, -1, -1):
        high[c] += high[c + 1]
    score = 0.0
    for i in range(C):
        for j in range(i):
            score += (low[j] + high[i] - (i - j)) * m[i, j]
        for j in range(i, C):
            score += (low[i] + high[j] - (j - i)) * m[i, j]
    return score / ((C - 1) * n)
