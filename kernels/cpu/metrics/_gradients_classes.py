"""Derivatives of per-class values by forward-mode differentiation.

A dual number is a tuple of a value and its derivatives in ``d``, ``t``, ``p`` and ``n``: diagonal, row sum, column sum
and total.
"""

import ast
from collections import namedtuple
from importlib.resources import files
from typing import Any, cast

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._formulas import FIRST_CORRECTED, apply_degenerate_limits
from cmfast.kernels.shared import metric_formulas
from cmfast.kernels.shared.metrics import LINES_OF_VALUE

LINES_OF_RATES = 8


# --- arithmetic of dual numbers ---------------------------------------------------------------------------------------


@jit(inner=True, inline=True, borrows=True)
def _add(x, y):
    """Return the sum of two dual numbers."""
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4]


@jit(inner=True, inline=True, borrows=True)
def _subtract(x, y):
    """Return the difference of two dual numbers."""
    return x[0] - y[0], x[1] - y[1], x[2] - y[2], x[3] - y[3], x[4] - y[4]


@jit(inner=True, inline=True, borrows=True)
def _scale(x, a):
    """Return a dual number times a constant."""
    return x[0] * a, x[1] * a, x[2] * a, x[3] * a, x[4] * a


@jit(inner=True, inline=True, borrows=True)
def _multiply(x, y):
    """Return the product of two dual numbers."""
    a, b = x[0], y[0]
    return a * b, x[1] * b + a * y[1], x[2] * b + a * y[2], x[3] * b + a * y[3], x[4] * b + a * y[4]


@jit(inner=True, borrows=True)
def _divide(x, y):
    """Return the quotient of two dual numbers."""
    q, one = x[0] / y[0], 1.0 / y[0]
    return q, (x[1] - q * y[1]) * one, (x[2] - q * y[2]) * one, (x[3] - q * y[3]) * one, (x[4] - q * y[4]) * one


@jit(inner=True, borrows=True)
def _take_sqrt(x):
    """Return a dual number's square root."""
    root = sqrt(x[0])
    half = 0.5 / root
    return root, half * x[1], half * x[2], half * x[3], half * x[4]


@jit(inner=True, inline=True, borrows=True)
def _divide_known(x, y, quotient, one):
    """Return the quotient of two dual numbers, given that of their values and the reciprocal of the second."""
    return (
        quotient,
        (x[1] - quotient * y[1]) * one,
        (x[2] - quotient * y[2]) * one,
        (x[3] - quotient * y[3]) * one,
        (x[4] - quotient * y[4]) * one,
    )


@jit(inner=True, inline=True, borrows=True)
def _divide_by_known(x, y, one):
    """Return the quotient of two dual numbers, given the reciprocal of the second."""
    return _divide_known(x, y, x[0] / y[0], one)


@jit(inner=True, inline=True, borrows=True)
def _subtract_from(a, x):
    """Return a constant minus a dual number."""
    return a - x[0], -x[1], -x[2], -x[3], -x[4]


@jit(inner=True, inline=True, borrows=True)
def _keep(x):
    """Return a dual number whose value rounding may have put out of range."""
    return x


@jit(inner=True, inline=True, borrows=True)
def _limit(truth, prediction, x):
    """Return a correlation: with one degenerate margin 0, from every direction; with two none."""
    return apply_degenerate_limits(truth[0], prediction[0], x[0]), x[1], x[2], x[3], x[4]


# --- formulas on dual numbers -----------------------------------------------------------------------------------------


# Quotients that several values of a class share, and the reciprocals of divisors.
_SHARED = {
    "m.d / m.t": "hit",
    "m.missed / m.t": "miss",
    "m.wrong / m.not_true": "fall",
    "m.rejected / m.not_true": "reject",
}
_RECIPROCALS = ("t", "p", "not_true", "not_predicted")
_ENTRIES = (*metric_formulas.ENTRIES, *metric_formulas.DERIVED, "miss", "fall", *(f"of_{x}" for x in _RECIPROCALS))
_DualTable = cast(Any, namedtuple("_DualTable", _ENTRIES))


class _OnDualNumbers(ast.NodeTransformer):
    """Rewrite operators of formulas as calls of the functions above, and codes as numbers."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace a code by its number."""
        owner = node.value
        named = isinstance(owner, ast.Name) and owner.id == "Value"
        return ast.Constant(int(metric_formulas.Value[node.attr])) if named else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Replace an operator by the call of a function, unless both sides are constants."""
        if _is_constant(node):
            return node
        shared = _SHARED.get(ast.unparse(node))
        if shared is not None:
            return ast.parse(f"m.{shared}", mode="eval").body
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Div):
            below = ast.unparse(node.right).removeprefix("m.")
            if below in _RECIPROCALS:
                return _call("_divide_by_known", left, right, ast.parse(f"m.of_{below}", mode="eval").body)
            return _call("_divide", left, right)
        if isinstance(node.op, ast.Mult):
            if _is_constant(node.left):
                return _call("_scale", right, left)
            return _call("_scale" if _is_constant(node.right) else "_multiply", left, right)
        if isinstance(node.op, ast.Add):
            return _call("_add", left, right)
        return _call("_subtract_from" if _is_constant(node.left) else "_subtract", left, right)


def _is_constant(node: ast.expr) -> bool:
    """Return whether an expression has no entry of the table."""
    return not any(isinstance(part, ast.Attribute | ast.Call) for part in ast.walk(node))


def _call(name: str, *args: ast.expr) -> ast.expr:
    """Return the call of a function."""
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _compile_on_dual_numbers() -> dict[str, Any]:
    """Return the formulas, compiled on dual numbers."""
    path = files("cmfast.kernels.shared").joinpath("metric_formulas.py")
    tree = ast.parse(path.read_text())
    names = metric_formulas.FORMULAS
    formulas = [part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name in names]
    for part in formulas:
        part.returns, part.args.args = None, [ast.arg(arg.arg) for arg in part.args.args]
    tree.body = [*formulas]
    code = ast.fix_missing_locations(_OnDualNumbers().visit(tree))
    found: dict[str, Any] = {
        "__name__": __name__, "_add": _add, "_subtract": _subtract, "_multiply": _multiply, "_divide": _divide,
        "_divide_by_known": _divide_by_known, "_scale": _scale, "_subtract_from": _subtract_from, "sqrt": _take_sqrt,
        "cap_at_one": _keep, "clamp_to_one": _keep, "apply_degenerate_limits": _limit,
    }  # fmt: skip
    exec(compile(code, str(path), "exec"), found)
    for part in formulas:
        found[part.name] = jit(inner=True, inline=True, borrows=True)(found[part.name])
    return found


_formulas = _compile_on_dual_numbers()
_slope_rate, _slope_corrected = _formulas["slope_rate"], _formulas["correct_for_chance"]


# --- values of one class ----------------------------------------------------------------------------------------------


@jit(inner=True, inline=True, borrows=True)
def _make_dual_table(d, t, p, n, rates):
    """Return the 2x2 table of a class, given what it shares with other values (:func:`divide_margins`)."""
    one, none = splat(1.0), splat(0.0)
    D, T, P, N = (
        (d, one, none, none, none),
        (t, none, one, none, none),
        (p, none, none, one, none),
        (n, none, none, none, one),
    )
    of_t, of_p, of_not_true, of_not_predicted, hit, miss, fall, reject = rates
    missed, wrong, not_true, not_predicted = _subtract(T, D), _subtract(P, D), _subtract(N, T), _subtract(N, P)
    rejected = _subtract(not_true, wrong)
    least = where(rejected[0] < 0.0, 0.0, rejected[0])  # rounding of fractions can go below 0
    rejected = least, rejected[1], rejected[2], rejected[3], rejected[4]
    return _DualTable(
        D, T, P, _add(T, not_true), missed, wrong, not_true, not_predicted, rejected, _divide_known(D, T, hit, of_t),
        _divide_known(rejected, not_true, reject, of_not_true),
        _subtract(_multiply(D, rejected), _multiply(missed, wrong)), _multiply(T, not_true),
        _multiply(P, not_predicted), _divide_known(missed, T, miss, of_t),
        _divide_known(wrong, not_true, fall, of_not_true), of_t, of_p, of_not_true, of_not_predicted,
    )  # fmt: skip


@jit(inner=True, borrows=True)
def divide_margins(sums, first, C, n, S, line):
    """Write the divisions that several values of a class share to eight lines for each of `C` classes.

    These are 1 over t, p, n - t and n - p; the recall, the missed share, the false positive rate and the specificity.
    Diagonals, row and column sums are in `C` lines each from `first` on.
    """
    for k in range(C):
        d, t, p = load(sums, first + k), load(sums, first + C + k), load(sums, first + 2 * C + k)
        not_true, false = n - t, p - d
        rejected = not_true - false
        rejected = where(rejected < 0.0, 0.0, rejected)
        own = line + LINES_OF_RATES * k
        store(S, own, 1.0 / t)
        store(S, own + 1, 1.0 / p)
        store(S, own + 2, 1.0 / not_true)
        store(S, own + 3, 1.0 / (n - p))
        store(S, own + 4, d / t)
        store(S, own + 5, (t - d) / t)
        store(S, own + 6, false / not_true)
        store(S, own + 7, rejected / not_true)


@jit(inner=True, inline=True, borrows=True)
def _load_rates(S, line):
    """Return the eight lines of a class from :func:`divide_margins`."""
    return (
        load(S, line),
        load(S, line + 1),
        load(S, line + 2),
        load(S, line + 3),
        load(S, line + 4),
        load(S, line + 5),
        load(S, line + 6),
        load(S, line + 7),
    )


@jit(inner=True, borrows=True)
def differentiate_class_values(code, square, sums, first, C, n, S, places):
    """Write a value of every class and its four derivatives, NaN for 0/0 or a correlation of one class alone.

    They go to five lines per class of `S` from the first of `places` on; the lines of :func:`divide_margins` begin at
    the second. Diagonals, row and column sums are in `C` lines of `sums` each from `first` on. The loop is in here,
    because a call for each class would take as long as its formula.
    """
    values, rates = places
    for k in range(C):
        d, t, p = load(sums, first + k), load(sums, first + C + k), load(sums, first + 2 * C + k)
        table = _make_dual_table(d, t, p, n, _load_rates(S, rates + LINES_OF_RATES * k))
        x = _slope_corrected(code, table) if code >= FIRST_CORRECTED else _slope_rate(code, square, table)
        line = values + LINES_OF_VALUE * k
        store(S, line, x[0])
        store(S, line + 1, x[1])
        store(S, line + 2, x[2])
        store(S, line + 3, x[3])
        store(S, line + 4, x[4])
