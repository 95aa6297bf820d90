"""Derivatives of per-class values by forward-mode differentiation.

A dual number is a tuple of a value and its derivatives in ``d``, ``t``, ``p`` and ``n``: diagonal, row sum, column sum
and total.
"""

import ast
from importlib.resources import files
from typing import Any

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


@jit(inner=True, inline=True, borrows=True)
def _raise_to_zero(x):
    """Return a dual number whose value rounding may have put below 0."""
    return where(x[0] < 0.0, 0.0, x[0]), x[1], x[2], x[3], x[4]


# --- formulas on dual numbers -----------------------------------------------------------------------------------------


# How each entry of the 2x2 table of a class is computed from others.
_DERIVED = {
    "missed": "m.t - m.d",
    "wrong": "m.p - m.d",
    "not_true": "m.total - m.t",
    "not_predicted": "m.total - m.p",
    "rejected": "raise_to_zero(m.not_true - m.wrong)",
    "n": "m.t + m.not_true",
    "hit": "m.d / m.t",
    "reject": "m.rejected / m.not_true",
    "covariance": "m.d * m.rejected - m.missed * m.wrong",
    "truth": "m.t * m.not_true",
    "prediction": "m.p * m.not_predicted",
}
# Entries that are loaded from a line of `sums`, and the total, which is an argument.
_GIVEN = {"d": "load(sums, at)", "t": "load(sums, at + C)", "p": "load(sums, at + 2 * C)", "total": "n"}
# Lines of :func:`divide_margins`, from the first of a class: quotients that values share, and reciprocals of divisors.
_QUOTIENTS = {"m.d / m.t": 4, "m.missed / m.t": 5, "m.wrong / m.not_true": 6, "m.rejected / m.not_true": 7}
_RECIPROCALS = {"m.t": 0, "m.p": 1, "m.not_true": 2, "m.not_predicted": 3}
_TABLE = ("sums", "at", "C", "n", "S", "line")  # the arguments from which all entries are loaded


class _OnDualNumbers(ast.NodeTransformer):
    """Rewrite operators of formulas as calls of the functions above, entries as calls that load them.

    So a formula computes the entries that its value needs, and no others.
    """

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """Replace the argument `m`."""
        names = [name for arg in node.args for name in (_TABLE if arg.arg == "m" else (arg.arg,))]
        return ast.arguments([], [ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[])

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace a code by its number, and an entry by its call."""
        if ast.unparse(node.value) == "Value":
            return ast.Constant(int(metric_formulas.Value[node.attr]))
        return _call(f"_load_{node.attr}", *map(_name, _TABLE))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Hand the table on as what its entries are loaded from."""
        args = [part for arg in node.args for part in (_TABLE if ast.unparse(arg) == "m" else (arg,))]
        return ast.Call(node.func, [_name(arg) if isinstance(arg, str) else self.visit(arg) for arg in args], [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Replace an operator by the call of a function, unless both sides are constants."""
        if _is_constant(node):
            return node
        quotient, reciprocal = _QUOTIENTS.get(ast.unparse(node)), _RECIPROCALS.get(ast.unparse(node.right))
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Div):
            if reciprocal is None:
                return _call("_divide", left, right)
            if quotient is None:
                return _call("_divide_by_known", left, right, _load_line(reciprocal))
            return _call("_divide_known", left, right, _load_line(quotient), _load_line(reciprocal))
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


def _name(name: str) -> ast.expr:
    """Return a name as an expression."""
    return ast.Name(name, ast.Load())


def _call(function: str, *args: ast.expr) -> ast.expr:
    """Return the call of a function."""
    return ast.Call(_name(function), list(args), [])


def _load_line(line: int) -> ast.expr:
    """Return the load of a line of :func:`divide_margins`."""
    return ast.parse(f"load(S, line + {line})", mode="eval").body


def _compile_on_dual_numbers() -> dict[str, Any]:
    """Return the formulas and the entries that they load, compiled on dual numbers."""
    path = files("cmfast.kernels.shared").joinpath("metric_formulas.py")
    tree = ast.parse(path.read_text())
    names = metric_formulas.FORMULAS
    formulas = [part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name in names]
    for part in formulas:
        part.returns = None
    derived = "".join(f"def _load_{name}(m): return {how}\n" for name, how in _DERIVED.items())
    tree.body = [*formulas, *ast.parse(derived).body]
    tree = _OnDualNumbers().visit(tree)
    given = ""
    for place, (name, value) in enumerate(_GIVEN.items()):
        dual = ", ".join((value, *(f"splat({float(place == k)})" for k in range(len(_GIVEN)))))
        given += f"def _load_{name}({', '.join(_TABLE)}): return {dual}\n"
    tree.body += ast.parse(given).body
    found: dict[str, Any] = {
        "__name__": __name__, "_add": _add, "_subtract": _subtract, "_multiply": _multiply, "_divide": _divide,
        "_divide_known": _divide_known, "_divide_by_known": _divide_by_known, "_scale": _scale,
        "_subtract_from": _subtract_from, "raise_to_zero": _raise_to_zero, "sqrt": _take_sqrt, "cap_at_one": _keep,
        "clamp_to_one": _keep, "apply_degenerate_limits": _limit, "load": load, "splat": splat,
    }  # fmt: skip
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), found)
    for part in tree.body:
        found[part.name] = jit(inner=True, inline=True, borrows=True)(found[part.name])
    return found


_formulas = _compile_on_dual_numbers()
_slope_rate, _slope_corrected = _formulas["slope_rate"], _formulas["correct_for_chance"]


# --- values of one class ----------------------------------------------------------------------------------------------


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


@jit(inner=True, borrows=True)
def differentiate_class_values(code, square, sums, first, C, n, S, places):
    """Write a value of every class and its four derivatives, NaN for 0/0 or a correlation of one class alone.

    They go to five lines per class of `S` from the first of `places` on; the lines of :func:`divide_margins` begin at
    the second. Diagonals, row and column sums are in `C` lines of `sums` each from `first` on. The loop is in here,
    because a call for each class would take as long as its formula.
    """
    values, rates = places
    for k in range(C):
        at, shared = first + k, rates + LINES_OF_RATES * k
        if code >= FIRST_CORRECTED:
            x = _slope_corrected(code, sums, at, C, n, S, shared)
        else:
            x = _slope_rate(code, square, sums, at, C, n, S, shared)
        line = values + LINES_OF_VALUE * k
        store(S, line, x[0])
        store(S, line + 1, x[1])
        store(S, line + 2, x[2])
        store(S, line + 3, x[3])
        store(S, line + 4, x[4])
