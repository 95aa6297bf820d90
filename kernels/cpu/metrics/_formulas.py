"""Values of all metrics, evaluated for eight matrices at a time from the sums of ``_derived_tables``.

Codes are those of ``kernels/shared/metrics.py``; `rows` and `params` are those of a plan. A 0/0 stays NaN until the
step that writes or reduces it replaces it by the plan's fill value. Loops over classes are inside the choice of a
formula, never around it.
"""

import ast
import inspect
from collections import namedtuple
from types import FunctionType
from typing import Any, cast

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.nontemporal import stream_row
from cmfast.kernels.cpu._core.vector import WIDTH, load, some, splat, sqrt, store, store_row, where
from cmfast.kernels.cpu.metrics._derived_tables import (
    CHANCE,
    COL,
    COVARIANCE,
    COVARIANCES,
    DIAGONAL,
    FALSE,
    HIT,
    MEMBER,
    MEMBERS,
    MISSED,
    NOT_PREDICTED,
    NOT_TRUE,
    NUMBERS,
    POOLED,
    PREDICTION,
    REJECT,
    REJECTED,
    RIGHT,
    ROW,
    SINGLE,
    SUM,
    TABLES,
    TOTAL_MASS,
    TOTALS,
    TRUTH,
    WEIGHT,
    WEIGHTED_SUM,
    WRONG_MASS,
)
from cmfast.kernels.cpu.metrics._margins import AGAIN_LINE, ORDERED_LINE, SIZE_LINE, STATUS_LINE
from cmfast.kernels.shared import metric_formulas
from cmfast.kernels.shared.metrics import Mode, Over, Step, Total
from cmfast.kernels.status import OK

# Codes as plain integers, for comparisons in kernels; the last code of each kind is the final `else`.
EACH, REDUCE = int(Step.EACH), int(Step.REDUCE)
STEP_TOTAL, HARMONIC = int(Step.TOTAL), int(Step.HARMONIC)
MEAN, WEIGHTED, MIN = int(Over.MEAN), int(Over.WEIGHTED), int(Over.MIN)
ADJUSTED, PICK, MICRO = int(Over.ADJUSTED), int(Over.PICK), int(Over.MICRO)
TAU_WEIGHTED = int(Over.TAU_WEIGHTED)
ACCURACY, JACCARD_MICRO = int(Total.ACCURACY), int(Total.JACCARD_MICRO)
SPECIFICITY_MICRO, MCC, KAPPA = int(Total.SPECIFICITY_MICRO), int(Total.MCC), int(Total.KAPPA)
PEIRCE, LINEAR, QUADRATIC = int(Total.PEIRCE), int(Total.KAPPA_LINEAR), int(Total.KAPPA_QUADRATIC)
GERRITY, ERROR = int(Total.GERRITY), int(Total.ERROR)
SCOTT_PI, GWET_AC1, KRIPPENDORFF = int(Total.SCOTT_PI), int(Total.GWET_AC1), int(Total.KRIPPENDORFF)
DEFINED = int(Mode.DEFINED)
FIRST_CORRECTED = int(metric_formulas.Value.TSS)


@jit(inner=True, inline=True, borrows=True)
def _cap_at_one(x):
    """Return `x`, but at most 1; NaN stays."""
    return where(x > 1.0, 1.0, x)


@jit(inner=True, inline=True, borrows=True)
def _clamp_to_one(x):
    """Return `x`, but at most 1 and at least -1; NaN stays."""
    x = where(x > 1.0, 1.0, x)
    return where(x < -1.0, -1.0, x)


@jit(inner=True, borrows=True)
def apply_degenerate_limits(truth, prediction, x):
    """Return a correlation `x`, but 0 if one margin is degenerate (its limit) and NaN if both are."""
    none_true, none_predicted = truth == 0.0, prediction == 0.0
    return where(none_true & none_predicted, np.nan, where(none_true | none_predicted, 0.0, x))


_Codes = cast(Any, namedtuple("_Codes", metric_formulas.Value.__members__))
# Meanings of names in the formulas. Codes are plain integers: Numba 0.61 fails to compare an IntEnum if a type of
# vectors is registered.
_NAMES = {
    "Value": _Codes(*map(int, metric_formulas.Value)),
    "sqrt": sqrt,
    "cap_at_one": _cap_at_one,
    "clamp_to_one": _clamp_to_one,
    "apply_degenerate_limits": apply_degenerate_limits,
}
# Where the entries of the 2x2 table of class `k` are. A formula loads those that its value needs, and no others.
_ENTRIES = {
    name: f"load(S, {line} * C + k)"
    for name, line in {
        "d": DIAGONAL, "t": ROW, "p": COL, "missed": MISSED, "wrong": FALSE, "not_true": NOT_TRUE,
        "not_predicted": NOT_PREDICTED, "rejected": REJECTED, "hit": HIT, "reject": REJECT, "covariance": COVARIANCES,
    }.items()
}  # fmt: skip
_ENTRIES |= {"n": f"load(S, {TABLES} * C + {TOTAL_MASS})"}
_ENTRIES |= {"truth": f"({_ENTRIES['t']} * {_ENTRIES['not_true']})"}
_ENTRIES |= {"prediction": f"({_ENTRIES['p']} * {_ENTRIES['not_predicted']})"}


class _LoadEntries(ast.NodeTransformer):
    """Rewrite the entries of the table in a formula as loads, and the table among its arguments as ``S, C, k``."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace ``m.<entry>`` by its load."""
        return ast.parse(_ENTRIES[node.attr], mode="eval").body if ast.unparse(node.value) == "m" else node

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """Replace the argument `m`."""
        names = [name for arg in node.args for name in (("S", "C", "k") if arg.arg == "m" else (arg.arg,))]
        return ast.arguments([], [ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[])


def _compile_with_loads(formula: Any) -> Any:
    """Return a formula, compiled on the lines of sums of eight matrices."""
    tree = _LoadEntries().visit(ast.parse(inspect.getsource(formula)))
    tree.body[0].returns = None
    names: dict[str, Any] = {"__name__": __name__, "load": load, **_NAMES}
    exec(compile(ast.fix_missing_locations(tree), metric_formulas.__file__, "exec"), names)
    return jit(inner=True, inline=True, borrows=True)(names[formula.__name__])


_rate = _compile_with_loads(metric_formulas.rate)
_correct_for_chance = _compile_with_loads(metric_formulas.correct_for_chance)
_rate_of_table = jit(inner=True, inline=True, borrows=True)(
    FunctionType(metric_formulas.rate.__code__, metric_formulas.rate.__globals__ | _NAMES, "rate")
)


@jit(inner=True, inline=True, borrows=True)
def make_values(plan, S, C):
    """Write the per-class values of a plan, NaN for 0/0, and the sums over classes that averages need.

    The sums cost nothing extra: they run while a division is waited for.
    """
    rows, params = plan.rows, plan.params
    choose = plan.mode == DEFINED  # the classes that enter an average differ from value to value
    for v in range(plan.values):
        code, beta, at = rows[v, 1], params[rows[v, 6], 1], TABLES * C + NUMBERS + v * (SINGLE + C)
        square, weighs, fill = beta * beta, rows[v, 3] > 0, 0.0 if choose else params[rows[v, 6], 0]
        total, weighted, weights, members = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for k in range(C):
            x = _correct_for_chance(code, S, C, k) if code >= FIRST_CORRECTED else _evaluate_rate(code, square, S, C, k)
            store(S, at + SINGLE + k, x)
            defined = x == x  # noqa: PLR0124 - NaN alone is not
            member = load(S, MEMBER * C + k)
            member = where(defined, member, 0.0) if choose else member
            value = where(member > 0.0, where(defined, x, fill), 0.0)  # may be infinite
            members = members + member
            total = total + value
            if weighs:
                weight = member * load(S, ROW * C + k)
                weights = weights + weight
                weighted = weighted + where(weight > 0.0, weight * value, 0.0)
        store(S, at + SUM, total)
        store(S, at + MEMBERS, members)
        store(S, at + WEIGHTED_SUM, weighted)
        store(S, at + WEIGHT, weights)


_Table = cast(Any, namedtuple("_Table", (*metric_formulas.ENTRIES, *metric_formulas.DERIVED)))


@jit(inner=True, borrows=True)
def _evaluate_rate(code, square, S, C, k):
    """Return a value of class `k` without chance correction; the compiler decides where to inline it."""
    return _rate(code, square, S, C, k)


@jit(inner=True, borrows=True)
def _evaluate_pooled_rate(code, square, S, first):
    """Return a value of the summed 2x2 tables, whose lines begin at `first`."""
    d, t, none = load(S, first + DIAGONAL), load(S, first + ROW), splat(0.0)
    not_true, rejected = load(S, first + NOT_TRUE), load(S, first + REJECTED)
    table = _Table(
        d, t, load(S, first + COL), t + not_true, load(S, first + MISSED), load(S, first + FALSE), not_true,
        load(S, first + NOT_PREDICTED), rejected, d / t, rejected / not_true, none, none, none,
    )  # fmt: skip
    return _rate_of_table(code, square, table)


@jit(inner=True, borrows=True)
def make_totals(sums, at, S, one, C, products, ordered):
    """Write the whole-matrix values (accuracy, MCC, kappa, ...) of eight matrices, NaN for 0/0.

    The first line of `S` after the tables is `one`.
    """
    out, n, right = one + TOTALS, load(S, one + TOTAL_MASS), load(S, one + RIGHT)
    store(S, out + ACCURACY, right / n)
    store(S, out + JACCARD_MICRO, right / (n + (n - right)))
    rejected = float(C - 2) * n + right
    store(S, out + SPECIFICITY_MICRO, rejected / (float(C - 1) * n) if C > 1 else splat(np.nan))
    wrong = load(S, one + WRONG_MASS)
    store(S, out + ERROR, wrong / n)
    if products:
        covariance = load(S, one + COVARIANCE)
        truth, prediction = load(S, one + TRUTH), load(S, one + PREDICTION)
        mcc = covariance / sqrt(truth * prediction)
        store(S, out + MCC, apply_degenerate_limits(truth, prediction, _clamp_to_one(mcc)))
        store(S, out + KAPPA, covariance / load(S, one + CHANCE))
        store(S, out + PEIRCE, covariance / truth)
        # Chance agreement from the average of both margins; numerator and denominator are scaled by 4 n^2.
        expected, met = truth + prediction + 2.0 * load(S, one + CHANCE), 4.0 * (n * wrong)
        store(S, out + SCOTT_PI, (expected - met) / expected)
        size = 2.0 * load(sums, at + SIZE_LINE)
        few = met * ((size - 1.0) / size)
        store(S, out + KRIPPENDORFF, where(size > 1.0, (expected - few) / expected, np.nan))
        expected = 4.0 * float(C - 1) * (n * n) - expected
        store(S, out + GWET_AC1, (expected - float(C - 1) * met) / expected if C > 1 else splat(np.nan))
    if ordered:
        for code in (LINEAR, QUADRATIC, GERRITY):
            store(S, out + code, load(sums, at + ORDERED_LINE + code - LINEAR))


@jit(inner=True, borrows=True)
def _reduce_weighted_tau(plan, S, C, value, first, factor, fill):
    """Return ``factor`` times one minus the weighted root mean square distance of the class values from one.

    The values are in the lines from `value` on, the weights start at `first`; undefined values count as `fill`.
    """
    square = splat(0.0)
    for k in range(C):
        x = load(S, value + SINGLE + k)
        defined = x == x  # noqa: PLR0124 - NaN alone is not
        inside = load(S, MEMBER * C + k) > 0.0
        if plan.mode == DEFINED:
            inside = inside & defined
        away = 1.0 - where(inside, where(defined, x, fill), 1.0)
        square = square + plan.weights[first + k] * (away * away)
    return factor - factor * sqrt(square / load(S, value + MEMBERS))


@jit(inner=True, borrows=True)
def _finish_step(plan, row, made, tile, out, first, count):
    """Replace what is undefined in the result of a step, keep it for later steps and write it if it is a scalar."""
    rows, params, (memory, starts, _, padded, past) = plan.rows, plan.params, out
    sums, at, S, registers, any_bad = tile
    target, fill = rows[row, 2], params[rows[row, 6], 0]
    made = where(made != made, fill, made)  # noqa: PLR0124 - NaN alone
    store(S, registers + target, made)
    if target < plan.scalars:
        start = starts[target] + first
        if any_bad:
            made = where(load(sums, at + STATUS_LINE) != float(OK), np.nan, made)
        if count < WIDTH and not padded:
            store(S, registers + target, made)
            for w in range(count):
                memory[0, start + w] = S[registers + target, w]
        elif past:
            stream_row(memory, 0, start, made)
        else:
            store_row(memory, 0, start, made)


@jit(inner=True, inline=True, borrows=True)
def write_class_values(plan, S, C, out, first, count):
    """Write the values of every class of eight matrices, undefined ones replaced by the plan's fill value."""
    rows, params, memory, starts = plan.rows, plan.params, out[0], out[1]
    size, tables, row = SINGLE + C, TABLES * C + NUMBERS, plan.values
    while row < len(rows) and rows[row, 0] == EACH:
        value, fill = tables + rows[row, 5] * size, params[rows[row, 6], 0]
        start = starts[plan.scalars + rows[row, 2]] + first * C
        for k in range(C):
            for w in range(count):
                x = S[value + SINGLE + k, w]
                memory[0, start + w * C + k] = fill if np.isnan(x) else x
        row += 1


@jit(inner=True, inline=True, borrows=True)
def run_scalar_steps(plan, sums, at, S, C, out, first, count):
    """Run the steps that make scalars (reductions, totals, combinations) and write the results of eight matrices.

    Results of the second pass (``_second_pass``) are in `sums` already, in the tile whose first line is `at`. Steps are
    sorted by kind: the most frequent kinds have a loop each, since a choice for every step is often mispredicted.
    """
    rows, params, values = plan.rows, plan.params, plan.values
    size, tables = SINGLE + C, TABLES * C + NUMBERS
    registers = tables + values * size
    tile = sums, at, S, registers, some(load(sums, at + STATUS_LINE) != float(OK))
    row, end = values, len(rows)
    while row < end and rows[row, 0] == EACH:
        row += 1
    while row < end and rows[row, 0] == REDUCE and rows[row, 1] == MEAN:
        value = tables + rows[row, 5] * size
        made = load(S, value + SUM) / load(S, value + MEMBERS)
        _finish_step(plan, row, made, tile, out, first, count)
        row += 1
    while row < end and rows[row, 0] == REDUCE and rows[row, 1] == WEIGHTED:
        value = tables + rows[row, 5] * size
        made = load(S, value + WEIGHTED_SUM) / load(S, value + WEIGHT)
        _finish_step(plan, row, made, tile, out, first, count)
        row += 1
    while row < end and rows[row, 0] == REDUCE:
        code, a = rows[row, 1], rows[row, 3]
        value = tables + rows[row, 5] * size
        if code == PICK:
            made = load(S, value + SINGLE + a)
        elif code == MICRO:
            v = rows[row, 5]
            beta = params[rows[v, 6], 1]
            made = _evaluate_pooled_rate(rows[v, 1], beta * beta, S, TABLES * C + POOLED)
        elif code == ADJUSTED:
            members = load(S, value + MEMBERS)
            chance = 1.0 / members
            adjusted = (load(S, value + SUM) / members - chance) / (1.0 - chance)
            made = where(members >= 2.0, adjusted, np.nan)
        elif code == TAU_WEIGHTED:
            filled = params[rows[rows[row, 5], 6], 0]
            made = _reduce_weighted_tau(plan, S, C, value, a, params[rows[row, 6], 1], filled)
        else:
            made = load(sums, at + AGAIN_LINE + code - MIN)
        _finish_step(plan, row, made, tile, out, first, count)
        row += 1
    while row < end and rows[row, 0] == STEP_TOTAL:
        made = load(S, TABLES * C + TOTALS + rows[row, 1])
        _finish_step(plan, row, made, tile, out, first, count)
        row += 1
    while row < end:
        x = load(S, registers + rows[row, 3])
        if rows[row, 0] == HARMONIC:
            y = load(S, registers + rows[row, 4])
            made = where((x == 0.0) & (y == 0.0), 0.0, 2.0 * x * y / (x + y))
        else:
            made = (x + 1.0) * 0.5
        _finish_step(plan, row, made, tile, out, first, count)
        row += 1
