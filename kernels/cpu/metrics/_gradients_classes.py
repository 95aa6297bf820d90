"""Derivatives of per-class values by forward-mode differentiation.

A dual number is a value and its derivatives in ``d``, ``t``, ``p`` and ``n``: diagonal, row sum, column sum and total.
The formulas of ``kernels/shared/metric_formulas.py`` run once, on dual numbers whose parts are source text; what they
record becomes the source of a kernel function, without the terms of derivatives that are always zero.
"""

from importlib.resources import files
from typing import Any

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import divide_by_reciprocal, load, splat, sqrt, store, where
from cmfast.kernels.cpu.metrics._formulas import FIRST_CORRECTED, apply_degenerate_limits
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import LINES_OF_VALUE

LINES_OF_RATES = 8
SLOPES = LINES_OF_VALUE - 1

# Entries of the 2x2 table of a class that are computed from others, in addition to `d`, `t`, `p` and `total`.
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
_GIVEN = {"d": "load(sums, at)", "t": "load(sums, at + C)", "p": "load(sums, at + 2 * C)", "total": "n"}
# Lines of :func:`divide_margins`, from the first of a class: quotients that values share, and reciprocals of divisors.
_QUOTIENTS = {("d", "t"): 4, ("missed", "t"): 5, ("wrong", "not_true"): 6, ("rejected", "not_true"): 7}
_RECIPROCALS = {"t": 0, "p": 1, "not_true": 2, "not_predicted": 3}


# --- dual numbers that record what is computed ------------------------------------------------------------------------


class _Record:
    """Statements in the order of their evaluation; equal expressions are computed once."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.names: dict[str, str] = {}

    def compute(self, expression: str) -> str:
        """Return the name of the value of an expression."""
        if expression not in self.names:
            self.names[expression] = f"x{len(self.names)}"
            self.statements.append(f"{self.names[expression]} = {expression}")
        return self.names[expression]

    def multiply(self, x: Any, y: Any) -> Any:
        """Return a product of names or numbers; None is zero."""
        if x is None or y is None:
            return None
        if isinstance(x, float) and isinstance(y, float):
            return x * y
        return y if x == 1.0 else x if y == 1.0 else self.compute(f"{x} * {y}")

    def add(self, x: Any, y: Any) -> Any:
        """Return a sum."""
        if x is None or y is None:
            return y if x is None else x
        return x + y if isinstance(x, float) and isinstance(y, float) else self.compute(f"{x} + {y}")

    def subtract(self, x: Any, y: Any) -> Any:
        """Return a difference."""
        if y is None:
            return x
        if x is None:
            return -y if isinstance(y, float) else self.compute(f"-{y}")
        return x - y if isinstance(x, float) and isinstance(y, float) else self.compute(f"{x} - {y}")


class _Factor:
    """A number that is known only when the kernel runs, as source text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __radd__(self, x: float) -> "_Factor":
        return _Factor(f"({x} + {self.text})")

    def __mul__(self, x: "_Dual") -> "_Dual":
        return x * self


class _Dual:
    """A dual number: the name of its value, and of each derivative the name, a number, or None for zero."""

    def __init__(self, record: _Record, value: str, slopes: Any, entry: str = "") -> None:
        self.record, self.value, self.slopes, self.entry = record, value, tuple(slopes), entry

    def make(self, value: str, slopes: Any) -> "_Dual":
        """Return another dual number of this record."""
        return _Dual(self.record, self.record.compute(value), slopes)

    def scale(self, factor: Any) -> "_Dual":
        """Return the product with a name or a number."""
        return self.make(f"{self.value} * {factor}", (self.record.multiply(x, factor) for x in self.slopes))

    def __add__(self, other: "_Dual") -> "_Dual":
        return self.make(f"{self.value} + {other.value}", map(self.record.add, self.slopes, other.slopes))

    def __sub__(self, other: "_Dual") -> "_Dual":
        return self.make(f"{self.value} - {other.value}", map(self.record.subtract, self.slopes, other.slopes))

    def __rsub__(self, x: float) -> "_Dual":
        return self.make(f"{x} - {self.value}", (self.record.subtract(None, y) for y in self.slopes))

    def __mul__(self, other: Any) -> "_Dual":
        if not isinstance(other, _Dual):
            return self.scale(other.text if isinstance(other, _Factor) else other)
        of, a, b = self.record, self.value, other.value
        slopes = [of.add(of.multiply(x, b), of.multiply(a, y)) for x, y in zip(self.slopes, other.slopes, strict=True)]
        return self.make(f"{a} * {b}", slopes)

    def __truediv__(self, other: "_Dual") -> "_Dual":
        of, a, b = self.record, self.value, other.value
        reciprocal, quotient = _RECIPROCALS.get(other.entry), _QUOTIENTS.get((self.entry, other.entry))
        one = of.compute(f"1.0 / {b}" if reciprocal is None else f"load(S, line + {reciprocal})")
        known = f"divide_by_reciprocal({a}, {b}, {one})" if quotient is None else f"load(S, line + {quotient})"
        q = of.compute(known)
        pairs = zip(self.slopes, other.slopes, strict=True)
        return _Dual(of, q, [of.multiply(of.subtract(x, of.multiply(q, y)), one) for x, y in pairs])


def _take_sqrt(x: _Dual) -> _Dual:
    """Return a dual number's square root."""
    root = x.record.compute(f"sqrt({x.value})")
    half = x.record.compute(f"0.5 / {root}")
    return _Dual(x.record, root, (x.record.multiply(half, y) for y in x.slopes))


def _raise_to_zero(x: _Dual) -> _Dual:
    """Return a dual number whose value rounding may have put below 0."""
    return x.make(f"where({x.value} < 0.0, 0.0, {x.value})", x.slopes)


def _apply_limits(truth: _Dual, prediction: _Dual, x: _Dual) -> _Dual:
    """Return a correlation: with one degenerate margin 0, from every direction; with two none."""
    return x.make(f"apply_degenerate_limits({truth.value}, {prediction.value}, {x.value})", x.slopes)


def _keep(x: _Dual) -> _Dual:
    """Return a dual number whose value rounding may have put out of range."""
    return x


class _Table:
    """The 2x2 table of a class: computes an entry when a formula asks for it."""

    def __init__(self, record: _Record) -> None:
        for place, (name, how) in enumerate(_GIVEN.items()):
            slopes = (1.0 if place == k else None for k in range(SLOPES))
            setattr(self, name, _Dual(record, record.compute(how), slopes, name))

    def __getattr__(self, name: str) -> _Dual:
        made = eval(_DERIVED[name], {"m": self, "raise_to_zero": _raise_to_zero})
        found = _Dual(made.record, made.value, made.slopes, name)
        setattr(self, name, found)
        return found


def _record_formula(formula: Any, code: Value, *square: Any) -> str:
    """Return the source that computes a value of a class and returns it with its derivatives."""
    record = _Record()
    found = formula(code, *square, _Table(record))
    parts = [found.value, *(f"splat({x or 0.0})" if x is None or isinstance(x, float) else x for x in found.slopes)]
    return "\n".join(f"        {line}" for line in (*record.statements, f"return {', '.join(parts)}"))


def _compile_on_dual_numbers() -> dict[str, Any]:
    """Return the functions that compute a value of a class and its derivatives, with and without correction."""
    path = files("cmfast.kernels.shared").joinpath("metric_formulas.py")
    formulas: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), formulas)
    formulas |= {
        "sqrt": _take_sqrt, "cap_at_one": _keep, "clamp_to_one": _keep, "apply_degenerate_limits": _apply_limits,
    }  # fmt: skip
    slope_rate, correct = formulas["slope_rate"], formulas["correct_for_chance"]
    source = "def slope_rate(code, square, sums, at, C, n, S, line):\n"
    for value in (value for value in Value if value < FIRST_CORRECTED):
        if value == Value.FBETA:
            source += f"    if code == {int(value)} and square == 1.0:\n{_record_formula(slope_rate, value, 1.0)}\n"
        source += f"    if code == {int(value)}:\n{_record_formula(slope_rate, value, _Factor('square'))}\n"
    source += "    return n, n, n, n, n\n"
    source += "def slope_corrected(code, sums, at, C, n, S, line):\n"
    for value in (value for value in Value if value >= FIRST_CORRECTED):
        source += f"    if code == {int(value)}:\n{_record_formula(correct, value)}\n"
    source += "    return n, n, n, n, n\n"
    found: dict[str, Any] = {
        "__name__": __name__, "divide_by_reciprocal": divide_by_reciprocal, "load": load, "splat": splat,
        "sqrt": sqrt, "where": where, "apply_degenerate_limits": apply_degenerate_limits,
    }  # fmt: skip
    exec(compile(source, f"{path}, on dual numbers", "exec"), found)
    return {name: jit(inner=True, inline=True, borrows=True)(found[name]) for name in ("slope_rate", "slope_corrected")}


_formulas = _compile_on_dual_numbers()
_slope_rate, _slope_corrected = _formulas["slope_rate"], _formulas["slope_corrected"]


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
        of_true, of_others = 1.0 / t, 1.0 / not_true
        store(S, own, of_true)
        store(S, own + 1, 1.0 / p)
        store(S, own + 2, of_others)
        store(S, own + 3, 1.0 / (n - p))
        store(S, own + 4, divide_by_reciprocal(d, t, of_true))
        store(S, own + 5, divide_by_reciprocal(t - d, t, of_true))
        store(S, own + 6, divide_by_reciprocal(false, not_true, of_others))
        store(S, own + 7, divide_by_reciprocal(rejected, not_true, of_others))


@jit(inner=True, borrows=True)
def differentiate_class_values(code, square, sums, first, C, n, S, places):
    """Write a value of every class, NaN for 0/0 or a correlation of one class alone, and its four derivatives.

    Derivatives of a value that is not finite may be any numbers. All go to five lines per class of `S` from the first
    of `places` on; the lines of :func:`divide_margins` begin at the second. Diagonals, row and column sums are in `C`
    lines of `sums` each from `first` on. The loop is in here, because a call for each class would take as long as its
    formula.
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
