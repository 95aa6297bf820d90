"""Derivatives of metrics with respect to class sums, exact by the chain rule, for eight matrices at a time.

A metric depends on five sums per class and the total, so its derivative in a cell is the sum of those in the row sum,
the column sum, on the diagonal the diagonal, for ordinal metrics band and top of the cell, and the total. They are
stored as lines, alike for all metrics of a plan: diagonal, row and column of each class; band and top if needed; the
total. Per-class values use forward-mode differentiation: tuples of a value and its derivatives in ``d``, ``t``, ``p``,
``n``. Undefined metrics and kinks have NaN in the line of the total; filled-in class values are constants.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, some, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._gradients_classes import LINES_OF_RATES, differentiate_class_values, divide_margins
from cmfast.kernels.cpu.metrics._gradients_totals import (
    LINES_OF_PRODUCTS,
    differentiate_gerrity,
    differentiate_total,
    differentiate_weighted_kappa,
    sum_margin_products,
)
from cmfast.kernels.cpu.metrics._margins import AGAIN_LINE, FIRST, SUMS, TOTAL_LINE
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import LINES_OF_VALUE, Mode, Over, Step, Total

VALUE, EACH, REDUCE = int(Step.VALUE), int(Step.EACH), int(Step.REDUCE)
STEP_TOTAL, HARMONIC = int(Step.TOTAL), int(Step.HARMONIC)
FIRST_LIMITED = int(Value.DOOLITTLE)  # 0 without a derivative if one margin is degenerate
WEIGHTED, MIN = int(Over.WEIGHTED), int(Over.MIN)
GEOMETRIC, TAU, ADJUSTED = int(Over.GEOMETRIC), int(Over.TAU), int(Over.ADJUSTED)
PICK, MICRO = int(Over.PICK), int(Over.MICRO)
TAU_WEIGHTED, TAU_NORMALIZED = int(Over.TAU_WEIGHTED), int(Over.TAU_NORMALIZED)
OF_ALL = (int(Over.MEAN), WEIGHTED, GEOMETRIC, TAU, ADJUSTED)  # faster if all classes are defined
LINEAR, QUADRATIC = int(Total.KAPPA_LINEAR), int(Total.KAPPA_QUADRATIC)
GERRITY = int(Total.GERRITY)
PRESENT, DEFINED = int(Mode.PRESENT), int(Mode.DEFINED)
LINES_OF_CLASS = LINES_OF_VALUE + LINES_OF_RATES
SUMMED = 3  # lines of the diagonal, row and column sums of summed 2x2 tables


def count_working_lines(C, plan):
    """Return the number of workspace lines of :func:`differentiate`: class values, registers, products and rates."""
    return LINES_OF_CLASS * (C + 1) + SUMMED + plan.registers + LINES_OF_PRODUCTS


class Reduction(NamedTuple):
    """A reduction over classes: its code, two arguments, the code of the class values, and their fill value."""

    code: Any
    pick: Any
    parameter: Any
    value: Any
    fill: Any


# --- reductions over the classes --------------------------------------------------------------------------------------


@jit(inner=True, borrows=True)
def _class_membership(plan, sums, cell, C, k, x):
    """Return 1 in the lanes where class `k` with value `x` enters averages, else 0."""
    inside = (load(sums, cell + C) > 0.0) | (load(sums, cell + 2 * C) > 0.0)
    if plan.mode == DEFINED:
        inside = x == x  # noqa: PLR0124 - NaN alone is not
    elif plan.mode != PRESENT:
        inside = inside | ~inside
    own = plan.members[k] if len(plan.members) > 0 else 1.0
    return where(inside, own, splat(0.0))


@jit(inner=True, borrows=True)
def _differentiate_full_weighted_mean(sums, at, C, V, slopes):
    """Write the derivatives of the mean weighted by row sums if all classes are defined: same bits as in general."""
    weights, weighted = splat(0.0), splat(0.0)
    for k in range(C):
        t = load(sums, at + FIRST + C + k)
        weights, weighted = weights + t, weighted + where(t > 0.0, t * load(V, k * LINES_OF_VALUE), 0.0)
    result, each = weighted / weights, 1.0 / weights
    undefined, of_total = result * 0.0, splat(0.0)
    for k in range(C):
        share = each * load(sums, at + FIRST + C + k)
        undefined = undefined + share * 0.0
        enters, line = share > 0.0, k * LINES_OF_VALUE
        store(slopes, k, where(enters, share * load(V, line + 1), 0.0))
        of_row = where(enters, share * load(V, line + 2), 0.0)
        store(slopes, C + k, of_row + where(enters, each * (load(V, line) - result), 0.0))
        store(slopes, 2 * C + k, where(enters, share * load(V, line + 3), 0.0))
        of_total = of_total + where(enters, share * load(V, line + 4), 0.0)
    store(slopes, len(slopes) - 1, of_total + undefined)
    return result


@jit(inner=True, borrows=True)
def _differentiate_full_reduction(code, sums, at, C, V, slopes):
    """Write the derivatives of a reduction if all classes are defined: same bits as the general one."""
    if code == WEIGHTED:
        return _differentiate_full_weighted_mean(sums, at, C, V, slopes)
    total, square, number = splat(0.0), splat(0.0), splat(float(C))
    for k in range(C):
        x = load(V, k * LINES_OF_VALUE)
        total = total + x
        if code == TAU:
            square = square + (1.0 - x) * (1.0 - x)
    mean, each = total / number, 1.0 / number
    result = mean
    if code == GEOMETRIC:
        result = load(sums, at + AGAIN_LINE + GEOMETRIC - MIN)
    elif code == TAU:
        away = sqrt(square / number)
        result, each = 1.0 - away, each / away
    elif code == ADJUSTED:
        result = where(number > 1.0, (mean - 1.0 / number) / (1.0 - 1.0 / number), splat(np.nan))
        each = 1.0 / (number - 1.0)
    of_total = splat(0.0)
    for k in range(C):
        share = each
        if code == GEOMETRIC:
            share = each * (result / load(V, k * LINES_OF_VALUE))
        elif code == TAU:
            share = each * (1.0 - load(V, k * LINES_OF_VALUE))
        store(slopes, k, share * load(V, k * LINES_OF_VALUE + 1))
        store(slopes, C + k, share * load(V, k * LINES_OF_VALUE + 2))
        store(slopes, 2 * C + k, share * load(V, k * LINES_OF_VALUE + 3))
        of_total = of_total + share * load(V, k * LINES_OF_VALUE + 4)
    store(slopes, len(slopes) - 1, of_total + result * 0.0)
    return result


@jit(inner=True, borrows=True)
def _differentiate_reduction(plan, reduction, sums, at, C, V, slopes):
    """Write the derivatives of a reduction of the class values in `V`; return its value."""
    code, pick, parameter, value, fill = reduction
    n, limited = load(sums, at + TOTAL_LINE), value >= FIRST_LIMITED
    if code == PICK:
        for part in range(3):
            store(slopes, part * C + pick, load(V, pick * LINES_OF_VALUE + 1 + part))
        result = load(V, pick * LINES_OF_VALUE)
        store(slopes, len(slopes) - 1, load(V, pick * LINES_OF_VALUE + 4) + result * 0.0)
        return result
    number, total, weights, weighted, square = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    least, ties = splat(np.inf), splat(0.0)
    for k in range(C):
        x, cell = load(V, k * LINES_OF_VALUE), at + FIRST + k
        member = _class_membership(plan, sums, cell, C, k, x)
        x = where(x == x, x, fill)  # noqa: PLR0124 - NaN alone is not
        x = where(member > 0.0, x, 0.0)
        number, total = number + member, total + x
        if code == WEIGHTED:
            weight = member * load(sums, cell + C)
            weights, weighted = weights + weight, weighted + where(weight > 0.0, weight * x, 0.0)
        elif code == TAU:
            square = square + member * (1.0 - x) * (1.0 - x)
        elif code in (TAU_WEIGHTED, TAU_NORMALIZED):
            square = square + member * plan.weights[pick + k] * (1.0 - x) * (1.0 - x)
            weights = weights + member * plan.weights[pick + k]
        elif code == MIN:
            x = where(member > 0.0, x, splat(np.inf))
            ties = where(x < least, 1.0, where(x == least, ties + 1.0, ties))
            least = where(x < least, x, least)
    mean = total / number
    result, away = mean, splat(0.0)
    if code == WEIGHTED:
        result = weighted / weights
    elif code == MIN:
        result = least + total * 0.0
    elif code == GEOMETRIC:
        result = load(sums, at + AGAIN_LINE + GEOMETRIC - MIN)
    elif code in (TAU, TAU_WEIGHTED):
        away = sqrt(square / number)
        result = 1.0 - away
    elif code == TAU_NORMALIZED:
        away = sqrt(square / weights)
        result = load(sums, at + AGAIN_LINE + TAU_NORMALIZED - MIN)
    elif code == ADJUSTED:
        result = where(number > 1.0, (mean - 1.0 / number) / (1.0 - 1.0 / number), splat(np.nan))
    undefined, of_total = result * 0.0, splat(0.0)  # 0, or NaN if the result is undefined
    each = 1.0 / number
    if code == WEIGHTED:
        each = 1.0 / weights
    elif code in (TAU, TAU_WEIGHTED):
        each = each / away
        if code == TAU_WEIGHTED:
            each = each * parameter
    elif code == TAU_NORMALIZED:
        at_zero = splat(0.0 if parameter > 1.0 else np.nan)  # derivative of a power at zero
        steep = splat(1.0) if parameter == 1.0 else where(away < 1.0, result / (1.0 - away), at_zero)
        each = parameter * steep / (weights * away)
    elif code == ADJUSTED:
        each = 1.0 / (number - 1.0)
    for k in range(C):
        given, cell = load(V, k * LINES_OF_VALUE), at + FIRST + k
        member = _class_membership(plan, sums, cell, C, k, given)
        known = given == given  # noqa: PLR0124
        x = where(known, given, fill)
        if limited:  # a degenerate margin makes a correlation constant
            t, p = load(sums, cell + C), load(sums, cell + 2 * C)
            known = known & (t > 0.0) & (p > 0.0) & (t < n) & (p < n)
        share = member * each
        direct = splat(0.0)
        if code == WEIGHTED:
            share = share * load(sums, cell + C)
            direct = where(share > 0.0, member * each * (x - result), splat(0.0))
        elif code == MIN:
            share = where((member > 0.0) & (x == least), where(ties == 1.0, 1.0, splat(np.nan)), splat(0.0))
            share = where((share > 0.0) & ~known, splat(np.nan), share)  # the minimum is a fill value
        elif code == GEOMETRIC:
            share = where(member > 0.0, share * (result / x), splat(0.0))
        elif code == TAU:
            share = where(member > 0.0, share * (1.0 - x), splat(0.0))
        elif code in (TAU_WEIGHTED, TAU_NORMALIZED):
            share = where(member > 0.0, share * (plan.weights[pick + k] * (1.0 - x)), splat(0.0))
        undefined = undefined + share * 0.0
        enters = (share > 0.0) & known
        for part in range(4):
            slope = where(enters, share * load(V, k * LINES_OF_VALUE + 1 + part), splat(0.0))
            if part == 3:
                of_total = of_total + slope
            else:
                store(slopes, part * C + k, slope + direct if part == 1 else slope)
    store(slopes, len(slopes) - 1, of_total + undefined)
    return result


@jit(inner=True, borrows=True)
def _differentiate_micro_average(plan, value, sums, at, C, S, line, slopes):
    """Write the derivatives of a micro-averaged value, that of the summed 2x2 tables; return the value.

    `value` is its code, and beta squared. The lines of `S` from `line` on are free: for the sums, their value and
    their rates.
    """
    d, t, p, number = splat(0.0), splat(0.0), splat(0.0), 0.0
    for k in range(C):
        if len(plan.members) == 0 or plan.members[k] > 0.0:
            cell = at + FIRST + k
            d, t, p, number = d + load(sums, cell), t + load(sums, cell + C), p + load(sums, cell + 2 * C), number + 1.0
    n, made, one = number * load(sums, at + TOTAL_LINE), line + SUMMED, 0 * C + 1  # no literal, as below
    store(S, line, d)
    store(S, line + 1, t)
    store(S, line + 2, p)
    divide_margins(S, line, one, n, S, made + LINES_OF_VALUE)
    differentiate_class_values(value[0], value[1], S, line, one, n, S, (made, made + LINES_OF_VALUE))
    for k in range(C):
        if len(plan.members) == 0 or plan.members[k] > 0.0:
            store(slopes, k, load(S, made + 1))
            store(slopes, C + k, load(S, made + 2))
            store(slopes, 2 * C + k, load(S, made + 3))
    result = load(S, made)
    store(slopes, len(slopes) - 1, number * load(S, made + 4) + result * 0.0)
    return result


@jit(inner=True, borrows=True)
def _zero_unwritten_lines(kind, code, C, members, slopes):
    """Zero the derivative lines that a step does not write, but those of bands and tops."""
    if (kind == REDUCE and (code == PICK or (code == MICRO and members > 0))) or (
        kind == STEP_TOTAL and LINEAR <= code <= GERRITY
    ):
        for line in range((SUMS if kind == STEP_TOTAL else SUMS - 2) * C):
            store(slopes, line, splat(0.0))


# --- plans ------------------------------------------------------------------------------------------------------------


@jit(inner=True, borrows=True)
def differentiate(plan, sums, at, C, size, S, G, T):
    """Write the derivatives of every register of a plan, and of its per-class values, for eight matrices.

    `G` gets `size` lines per register (``lines_of_slopes``), `T` four lines per class of each table: derivatives in d,
    t, p and n. `S` is the workspace. Results of the second pass and of ordinal scores must be in the tile already.
    Lines of `G` for bands and tops are written for metrics that depend on class order; others must be 0 if they are
    used.
    """
    steps, params = plan.steps, plan.params
    n, values = load(sums, at + TOTAL_LINE), LINES_OF_VALUE * C
    # An integer, not the literal 0, for which the functions below would be compiled once more.
    value, square, filled, known, all_known = 0 * C, 1.0, np.nan, False, False
    rates = values + plan.registers + LINES_OF_PRODUCTS
    if plan.values > 0:
        divide_margins(sums, at + FIRST, C, n, S, rates)
    inside, proper = n == n, n == n  # noqa: PLR0124 - whether all classes enter averages; all margins have both sides
    for k in range(C):
        t, p = load(sums, at + FIRST + C + k), load(sums, at + FIRST + 2 * C + k)
        proper = proper & (t > 0.0) & (p > 0.0) & (t < n) & (p < n)
        if plan.mode == PRESENT:
            inside = inside & ((t > 0.0) | (p > 0.0))
    for step in range(len(steps)):
        kind, code, target, a, b = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3], steps[step, 4]
        fill = params[step, 0]
        if kind == VALUE:
            value, square, filled = code, params[step, 1] * params[step, 1], fill
            differentiate_class_values(value, square, sums, at + FIRST, C, n, S, (0 * C, rates))
            every = proper if value >= FIRST_LIMITED else inside
            for k in range(C):
                x = load(S, k * LINES_OF_VALUE)
                every = every & (x == x)  # noqa: PLR0124
            all_known = len(plan.members) == 0 and not some(~every)
            continue
        if kind == EACH:
            for k in range(C):
                undefined = load(S, k * LINES_OF_VALUE) * 0.0
                for part in range(4):
                    store(T, (target * C + k) * 4 + part, load(S, k * LINES_OF_VALUE + 1 + part) + undefined)
            continue
        slopes = G[target * size : (target + 1) * size]
        if kind in (REDUCE, STEP_TOTAL):
            _zero_unwritten_lines(kind, code, C, len(plan.members), slopes)
        made = splat(0.0)
        if kind == REDUCE and code == MICRO:
            free = rates + LINES_OF_RATES * C
            made = _differentiate_micro_average(plan, (value, square), sums, at, C, S, free, slopes)
        elif kind == REDUCE and all_known and code in OF_ALL:
            made = _differentiate_full_reduction(code, sums, at, C, S, slopes)
        elif kind == REDUCE:
            made = _differentiate_reduction(
                plan, Reduction(code, a, params[step, 1], value, filled), sums, at, C, S, slopes
            )
        elif kind == STEP_TOTAL:
            if LINEAR <= code <= QUADRATIC:
                differentiate_weighted_kappa(code, sums, at, C, slopes)
            elif code == GERRITY:
                differentiate_gerrity(sums, at, C, slopes)
            else:
                if not known:
                    sum_margin_products(sums, at, C, S, values + plan.registers)
                    known = True
                differentiate_total(code, sums, at, C, S, values + plan.registers, slopes)
        else:
            first, second = splat(0.5), splat(0.0)  # maps [-1, 1] to [0, 1]
            if kind == HARMONIC:
                x, y = load(S, values + a), load(S, values + b)
                both = (x + y) * (x + y)
                first, second = 2.0 * y * y / both, 2.0 * x * x / both
                made = 2.0 * x * y / (x + y)
            for line in range(size):
                slope = first * load(G, a * size + line)
                if kind == HARMONIC:
                    slope = slope + second * load(G, b * size + line)
                store(slopes, line, slope)
        store(S, values + target, where(made != made, fill, made))  # noqa: PLR0124
