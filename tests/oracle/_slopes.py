"""Slopes of metrics in the cells of one matrix: central differences of the definitions, in fractions."""

import math
from fractions import Fraction

from oracle import metrics

STEP = Fraction(1, 10**15)
RATES = ("positive_likelihood_ratio", "negative_likelihood_ratio", "diagnostic_odds_ratio")


def _ratio(a, b):
    return None if b == 0 else Fraction(a, b)


def _base(name):
    """Return a name without its average, and the average."""
    name = metrics.ALIASES.get(name, name)
    for end in () if name == "f1_of_macro" else metrics.AVERAGES:
        if name.endswith(f"_{end}"):
            base = name.removesuffix(f"_{end}")
            return metrics.ALIASES.get(base, base), end
    return name, None


def _has_slope_in_class(base, table, *, alone):
    """Whether the number of one class has slopes; `alone`, unless it is a constant that enters an average."""
    name, _, beta = base.removesuffix("_ovr").partition("_") if base.startswith("fbeta_") else (base, "", 1)
    name = name.removesuffix("_ovr")
    value = metrics._of_table(name, *table, beta=beta or 1)
    tp, fn, fp, tn = table
    if name in ("mcc", "doolittle") and 0 in (tp + fn, fp + tn, tp + fp, fn + tn):
        return not alone
    if value is None:
        return not alone
    if value in (math.inf, -math.inf):
        return False
    return not ((name == "tau" and value == 1) or (name == "geometric_mean" and value == 0))


def _has_slopes(name, cells, undefined, positive):
    """Return whether one number of a matrix has slopes, by cases."""
    sums = metrics._sums(cells)
    d, t, p = sums
    n = sum(t)
    if n == 0:
        return False
    tables = metrics._tables(sums)
    base, average = _base(name)
    if base in ("tss", "gilbert", "doolittle", "markedness"):
        return _has_slope_in_class(base, tables[positive], alone=True)
    if average == "binary":
        return _has_slope_in_class(base, tables[positive], alone=True)
    if average == "micro":
        return _has_slope_in_class(base, [sum(cell) for cell in zip(*tables, strict=True)], alone=True)
    value = metrics._value(name, cells, sums, undefined, positive)
    if average is not None:
        if value is None or abs(float(value)) == math.inf:
            return False
        inside = [k for k in range(len(t)) if t[k] > 0 or (average == "macro" and p[k] > 0)]
        return bool(inside) and all(_has_slope_in_class(base, tables[k], alone=False) for k in inside)
    if base == "f1_of_macro":
        return value is not None and value != 0
    everyone = undefined in ("strict", "zero", "one")
    entering = [k for k in range(len(t)) if everyone or t[k] > 0 or (undefined != "nan" and p[k] > 0)]
    recalls = [_ratio(d[k], t[k]) for k in entering]
    base = "tau" if base.startswith("tau_weighted_") else base
    if base in ("balanced_accuracy", "tau", "geometric_mean", "min_recall", "balanced_accuracy_adjusted"):
        if value is None or (base == "balanced_accuracy_adjusted" and len(recalls) < 2):
            return False
        fill = {"present": 0, "zero": 0, "one": 1}.get(undefined)
        filled = [fill if x is None else x for x in recalls]
        least = [x for x, y in zip(filled, recalls, strict=True) if x == min(filled) and y is not None]
        ties = sum(x == min(filled) for x in filled)
        return {
            "tau": value != 1,
            "geometric_mean": value != 0,
            "min_recall": ties == 1 and len(least) == 1,
        }.get(base, True)
    if base in ("mcc", "mcc_01"):
        return n not in (*t, *p)
    if base in ("kappa_01",):
        base = "kappa"
    return metrics._scalar(base, cells, sums, "strict", None, None) is not None


def _round(x):
    """Round a fraction to 256 significant bits: of longer ones sums take most of the time."""
    if not isinstance(x, Fraction) or x == 0:
        return x
    unit = Fraction(2) ** (256 - x.numerator.bit_length() + x.denominator.bit_length())
    return round(x * unit) / unit


def _move(cells, sums, i, j, step):
    """Return the matrix and its sums after `step` is added to a cell."""
    moved, (d, t, p) = [list(row) for row in cells], (list(part) for part in sums)
    moved[i][j] += step
    t[i] += step
    p[j] += step
    d[i] += step * (i == j)
    return moved, (d, t, p)


def slopes(name, cells, undefined, positive, k=None):
    """Return the slope in every cell that has samples, or None; of class `k` for a metric per class."""
    sums = metrics._sums(cells)
    if k is None:
        fine = _has_slopes(name, cells, undefined, positive)
    else:
        fine = sum(sums[1]) > 0 and _has_slope_in_class(_base(name)[0], metrics._tables(sums)[k], alone=True)
    if not fine:
        return None
    found = {}
    for i in range(len(cells)):
        for j in range(len(cells)):
            if cells[i][j] > 0:
                ends = []
                for step in (STEP, -STEP):
                    moved = _move(cells, sums, i, j, step * cells[i][j])
                    value = metrics._value(name, *moved, undefined, positive)
                    ends.append(value if k is None else value[k])
                found[i, j] = _round((ends[0] - ends[1]) / (2 * STEP * cells[i][j]))
    return found


def slopes_of_all_cells(name, cells):
    """Return the slope in every cell, also in those that have no samples, or None."""
    if sum(map(sum, cells)) == 0 or not _has_slopes(name, cells, "present", 1):
        return None
    found, sums = {}, metrics._sums(cells)
    for i in range(len(cells)):
        for j in range(len(cells)):
            ends = [metrics._value(name, *_move(cells, sums, i, j, step), "present", 1) for step in (STEP, -STEP)]
            found[i, j] = _round((ends[0] - ends[1]) / (2 * STEP))
    return found


def variance(cells, g, fixed):
    """Return the variance of a function of the cells to first order."""
    if fixed == "total":
        n = sum(map(sum, cells))
        mean = sum(cells[i][j] * x for (i, j), x in g.items()) / n
        return sum(cells[i][j] * (x - mean) ** 2 for (i, j), x in g.items())
    out = Fraction(0)
    for i, row in enumerate(cells):
        if sum(row) > 0:
            mean = sum(row[j] * g[i, j] for j in range(len(row)) if (i, j) in g) / sum(row)
            out += sum(row[j] * (g[i, j] - mean) ** 2 for j in range(len(row)) if (i, j) in g)
    return out
