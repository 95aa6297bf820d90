"""The paired permutation test by brute force: every swap of every sample or cluster, metrics as fractions."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product


def _matrix(truth, said, n):
    M = [[0] * n for _ in range(n)]
    for y, p in zip(truth, said, strict=True):
        M[y][p] += 1
    return M


def accuracy(M):
    return Fraction(sum(M[k][k] for k in range(len(M))), sum(map(sum, M)))


def f1_macro(M):
    """Return the mean F1 of the classes that are true or predicted."""
    n = len(M)
    rows, cols = [sum(row) for row in M], [sum(M[i][j] for i in range(n)) for j in range(n)]
    present = [k for k in range(n) if rows[k] + cols[k]]
    return sum(Fraction(2 * M[k][k], rows[k] + cols[k]) for k in present) / len(present)


def recall(M, k):
    return Fraction(M[k][k], sum(M[k])) if sum(M[k]) else Fraction(0)


def kappa(M):
    n, size = sum(map(sum, M)), len(M)
    rows, cols = [sum(row) for row in M], [sum(M[i][j] for i in range(size)) for j in range(size)]
    chance = sum(t * p for t, p in zip(rows, cols, strict=True))
    below = n * n - chance
    return Fraction(n * sum(M[k][k] for k in range(size)) - chance, below) if below else Fraction(0)


def kappa_quadratic(M):
    n, size = sum(map(sum, M)), len(M)
    rows, cols = [sum(row) for row in M], [sum(M[i][j] for i in range(size)) for j in range(size)]
    cells = [(i, j) for i in range(size) for j in range(size)]
    below = sum((i - j) ** 2 * rows[i] * cols[j] for i, j in cells)
    return 1 - Fraction(n * sum((i - j) ** 2 * M[i][j] for i, j in cells), below) if below else Fraction(0)


def mcc(M):
    """Return Matthews' coefficient to sixty digits."""
    n, size = sum(map(sum, M)), len(M)
    rows, cols = [sum(row) for row in M], [sum(M[i][j] for i in range(size)) for j in range(size)]
    above = n * sum(M[k][k] for k in range(size)) - sum(t * p for t, p in zip(rows, cols, strict=True))
    below = (n * n - sum(t * t for t in rows)) * (n * n - sum(p * p for p in cols))
    with localcontext() as context:
        context.prec = 60
        return Decimal(above) / Decimal(below).sqrt() if below else Decimal(0)


METRICS = {
    "accuracy": accuracy, "f1_macro": f1_macro, "kappa": kappa, "kappa_quadratic": kappa_quadratic, "mcc": mcc,
}  # fmt: skip


def p_value(y, a, b, n_classes, metric, clusters=None):
    """Return the share of all swaps that differ by at least the observed difference, as a fraction."""
    clusters = list(range(len(y))) if clusters is None else list(clusters)
    names = sorted(set(clusters))
    observed, extreme, n = None, 0, 0
    for signs in product((False, True), repeat=len(names)):  # the first is what was observed
        swapped = dict(zip(names, signs, strict=True))
        first, second = [], []
        for one, other, cluster in zip(a, b, clusters, strict=True):
            first.append(other if swapped[cluster] else one)
            second.append(one if swapped[cluster] else other)
        apart = abs(metric(_matrix(y, first, n_classes)) - metric(_matrix(y, second, n_classes)))
        observed = apart if observed is None else observed
        tie = Fraction(0) if isinstance(apart, Fraction) else Decimal("1e-40")
        extreme += apart >= observed - tie
        n += 1
    return Fraction(extreme, n)
