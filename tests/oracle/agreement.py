"""Coefficients of agreement from their definitions, in fractions; standard errors from exact derivatives."""

import itertools
import math
from fractions import Fraction

import numpy as np

NAMES = "fleiss_kappa", "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "conger_kappa", "light_kappa"


class Dual:
    """A number and its derivative in the weight of one item, which is 0 for most numbers."""

    __slots__ = "slope", "value"

    def __init__(self, value, slope=0):
        self.value = value if type(value) is Fraction else Fraction(value)
        self.slope = slope

    def __add__(self, other):
        slope = self.slope + other.slope if self.slope and other.slope else self.slope or other.slope
        return Dual(self.value + other.value, slope)

    def __sub__(self, other):
        return Dual(self.value - other.value, self.slope - other.slope if other.slope else self.slope)

    def __mul__(self, other):
        one = self.slope * other.value if self.slope else 0
        return Dual(self.value * other.value, one + self.value * other.slope if other.slope else one)

    def __truediv__(self, other):
        if not other.slope:
            return Dual(self.value / other.value, self.slope / other.value if self.slope else 0)
        slope = self.slope * other.value - self.value * other.slope
        return Dual(self.value / other.value, slope / other.value**2)


def plus(terms):
    """Return the sum of dual numbers."""
    return sum(terms, Dual(0))


def disagreements(weights, values):
    """Return the table of disagreements of categories with these values."""
    q = len(values)
    if not isinstance(weights, str):
        table = [[Fraction(x) for x in row] for row in weights]
    elif weights == "nominal":
        return [[Fraction(k != other) for other in range(q)] for k in range(q)]
    elif weights == "ordinal":  # pairs among the categories from one to the other
        return [[Fraction(math.comb(abs(k - j) + 1, 2), max(math.comb(q, 2), 1)) for j in range(q)] for k in range(q)]
    elif weights == "linear":
        table = [[abs(a - b) for b in values] for a in values]
    elif weights == "interval":
        table = [[(a - b) ** 2 for b in values] for a in values]
    else:
        table = [[((a - b) / (a + b)) ** 2 if a != b else Fraction(0) for b in values] for a in values]
    most = max(itertools.chain(*table), default=Fraction(0)) or 1
    return [[x / most for x in row] for row in table]


def mean_disagreement(items, w, table, sizes):
    """Return the weighted mean over items of the share of pairs of ratings that disagree; None without a pair."""
    kept = [i for i, size in enumerate(sizes) if size >= 2]
    if not kept:
        return None
    total = Dual(0)
    for i in kept:
        pairs = itertools.permutations(range(len(items[i])), 2)
        if isinstance(items[i], dict):
            apart = sum(a * b * table[k][j] for (k, a), (j, b) in itertools.product(items[i].items(), repeat=2))
        else:
            apart = sum(table[items[i][g]][items[i][h]] for g, h in pairs if None not in (items[i][g], items[i][h]))
        total += w[i] * Dual(Fraction(apart) / (sizes[i] * (sizes[i] - 1)))
    return total / plus(w[i] for i in kept)


def chance_of(table, p, other):
    """Return the disagreement of two independent ratings from these shares."""
    q = len(p)
    return plus(Dual(table[k][j]) * p[k] * other[j] for k in range(q) for j in range(q) if table[k][j])


def tallies(item, q):
    """Return how often an item was put in each category."""
    return [item.get(k, 0) for k in range(q)] if isinstance(item, dict) else [item.count(k) for k in range(q)]


def pooled(name, items, w, table, q):
    """Return observed and expected disagreement of Fleiss' kappa or Gwet's coefficients."""
    counts = [tallies(item, q) for item in items]
    sizes = [sum(row) for row in counts]
    observed = mean_disagreement(items, w, table, sizes)
    rated = [i for i, size in enumerate(sizes) if size]
    if observed is None:
        return None
    whole = plus(w[i] for i in rated)
    p = [plus(w[i] * Dual(Fraction(counts[i][k], sizes[i])) for i in rated) / whole for k in range(q)]
    if name == "fleiss_kappa":
        return observed, chance_of(table, p, p)
    if q < 2:
        return None
    agreement = sum(1 - table[k][j] for k in range(q) for j in range(q))
    spread = plus(share * (Dual(1) - share) for share in p)
    return observed, Dual(1) - Dual(Fraction(agreement) / (q * (q - 1))) * spread


def alpha(items, w, weights, table, q):
    """Return observed and expected disagreement of Krippendorff's alpha, uncorrected; coincidences as he has them."""
    counts = [tallies(item, q) for item in items]
    kept = [i for i, row in enumerate(counts) if sum(row) >= 2]
    if not kept:
        return None
    pairs = {}
    for k, j in itertools.product(range(q), repeat=2):
        each = [w[i] * Dual(Fraction(counts[i][k] * (counts[i][j] - (k == j)), sum(counts[i]) - 1)) for i in kept]
        pairs[k, j] = plus(each)
    n = [plus(pairs[k, j] for j in range(q)) for k in range(q)]
    whole = plus(n)
    delta = {(k, j): Dual(table[k][j]) for k in range(q) for j in range(q)}
    if isinstance(weights, str) and weights == "ordinal":
        for k, j in delta:
            low, high = min(k, j), max(k, j)
            between = plus(n[low : high + 1]) - (n[k] + n[j]) * Dual(Fraction(1, 2))
            delta[k, j] = between * between / (whole * whole)
    observed = plus(pairs[at] * delta[at] for at in pairs) / whole
    return observed, plus(n[k] * n[j] * delta[k, j] for k, j in delta) / (whole * whole)


def conger(items, w, table, q):
    """Return observed and expected disagreement of Conger's kappa: pairs of different raters."""
    sizes = [sum(x is not None for x in item) for item in items]
    observed = mean_disagreement(items, w, table, sizes)
    shares = []
    for ratings in zip(*items, strict=True):
        rated = [i for i, x in enumerate(ratings) if x is not None]
        if rated:
            whole = plus(w[i] for i in rated)
            shares.append([plus(w[i] for i in rated if ratings[i] == k) / whole for k in range(q)])
    if observed is None or len(shares) < 2:
        return None
    pairs = list(itertools.permutations(shares, 2))
    return observed, plus(chance_of(table, p, other) for p, other in pairs) / Dual(len(pairs))


def light(items, w, table, q):
    """Return observed and expected disagreement of every pair of raters that share an item."""
    found = []
    for g, h in itertools.combinations(range(len(items[0]) if items else 0), 2):
        both = [i for i, item in enumerate(items) if item[g] is not None and item[h] is not None]
        if both:
            whole = plus(w[i] for i in both)
            p = [[plus(w[i] for i in both if items[i][at] == k) / whole for k in range(q)] for at in (g, h)]
            apart = plus(w[i] * Dual(table[items[i][g]][items[i][h]]) for i in both) / whole
            found.append((apart, chance_of(table, *p)))
    return found


def one_minus_ratio(parts, filling):
    """Return ``1 - observed / expected``, or None where that is 0/0."""
    if parts is None or parts[1].value <= 0:
        return None
    return Dual(1) - parts[0] / parts[1]


def measure(name, items, w, weights, tables, q, filling):
    """Return the coefficient as a dual number or None, and observed and expected disagreement, None if undefined."""
    nominal, table = tables
    if name == "light_kappa":
        found = light(items, w, table, q)
        if not found:
            return None, None, None
        each = [one_minus_ratio(parts, filling) for parts in found]
        observed, expected = (plus(parts[at] for parts in found) / Dual(len(found)) for at in (0, 1))
        if None in each:
            known = [filling if one is None else float(one.value) for one in each]
            return math.fsum(known) / len(known), observed, expected
        return plus(each) / Dual(len(each)), observed, expected
    if name == "krippendorff_alpha":
        parts = alpha(items, w, weights, table, q)
    elif name == "conger_kappa":
        parts = conger(items, w, table, q)
    else:
        parts = pooled(name, items, w, nominal if name == "gwet_ac1" else table, q)
    return one_minus_ratio(parts, filling), *(parts or (None, None))


def read_items(rows, counts, values, missing):
    """Return each item as positions of ratings or as a dict of counts; None if a value is bad."""
    if counts:
        if any(not math.isfinite(x) or x < 0 or x >= 2**53 or x != int(x) for row in rows for x in row):
            return None
        return [{k: int(x) for k, x in enumerate(row) if x} for row in rows]
    gone = lambda x: x != x or x == missing  # noqa: E731, PLR0124
    if any(not gone(x) and x not in values for row in rows for x in row):
        return None
    return [[None if gone(x) else values.index(x) for x in row] for row in rows]


def agreement_coefficients(
    data, *, names=None, counts=False, weights="nominal", categories=None, missing=None, undefined="present", **_
):
    """Return estimate, standard error, observed and expected agreement and number of items of every coefficient."""
    names = names or (NAMES[:4] if counts else NAMES)
    *batch, _, columns = data.shape
    values = list(range(columns)) if categories is None and counts else categories
    if values is None:
        flat = data.ravel().tolist()
        values = sorted({x for x in flat if x == x and x != missing and abs(x) != math.inf})  # noqa: PLR0124
    values = list(values)
    exact = [Fraction(x) for x in values]
    filling = math.nan if undefined in ("nan", "strict") else 0.0
    out = [[np.full(batch, math.nan) for _ in range(4)] + [np.zeros(batch, np.int64)] for _ in names]
    bad_scale = weights == "ratio" if isinstance(weights, str) else False
    for index in np.ndindex(*batch):
        rows = data[index].tolist()
        items = read_items(rows, counts, values, missing)
        if items is None or (bad_scale and any(x < 0 and x != missing for row in rows for x in row)):
            continue
        used = [x if x >= 0 else Fraction(0) for x in exact] if bad_scale else exact
        tables = disagreements("nominal", used), disagreements(weights, used)
        for k, name in enumerate(names):
            found = measure_one(name, items, weights, tables, len(values), filling)
            for part, value in zip(out[k], found, strict=True):
                part[index] = value
    return tuple(part for one in out for part in one)


def measure_one(name, items, weights, tables, q, filling):
    """Return the five results of a coefficient of one element."""
    sizes = [sum(tallies(item, q)) for item in items]
    least = 2 if name in ("krippendorff_alpha", "light_kappa") else 1
    m = sum(size >= least for size in sizes)
    ones = [Dual(1)] * len(items)
    estimate, observed, expected = measure(name, items, ones, weights, tables, q, filling)
    shown = [math.nan if x is None else 1.0 - float(x.value) for x in (observed, expected)]
    if isinstance(estimate, float) or estimate is None:
        return (filling if estimate is None else estimate), math.nan, *shown, m
    squares = Fraction(0)
    for i in range(len(items)):
        w = [Dual(1, int(j == i)) for j in range(len(items))]
        squares += (m * measure(name, items, w, weights, tables, q, filling)[0].slope) ** 2
    error = math.sqrt(squares / (m * (m - 1))) if m > 1 else math.nan
    value = estimate.value
    if name == "krippendorff_alpha":
        whole = sum(size for size in sizes if size >= 2)
        correction = Fraction(whole - 1, whole)
        value = 1 - correction * (1 - value)
        shown[0] = 1.0 - float(correction * observed.value)
    return float(value), error, *shown, m


ORACLES = {"agreement_coefficients": agreement_coefficients}
