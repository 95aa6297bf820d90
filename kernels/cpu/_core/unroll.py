"""Unroll a kernel for a fixed size by tracing its Python source into straight-line LLVM IR.

The source runs once on symbolic values that record each operation. Lines of a tile then live in registers as far as
these go, and no line is loaded twice. Operations and operands are those of the loops, so results are equal bit by bit;
only the order of independent operations differs. Traced functions may load, store and calculate with the functions of
``vector`` and call each other; they may branch on sizes, not on values.
"""

import operator
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from llvmlite import ir

from cmfast.kernels.cpu._core import vector
from cmfast.kernels.cpu._core.numba_internals import AbstractTemplate, infer_global, lower_builtin, signature, types

_DOUBLES, _TRUTHS = (ir.VectorType(kind, vector.WIDTH) for kind in (ir.DoubleType(), ir.IntType(1)))


class _Value:
    """A traced vector of eight float64 or eight booleans: an operation and its operands."""

    def __init__(self, trace: "Trace", operation: Any, operands: tuple[Any, ...], number: float | None = None) -> None:
        self.trace, self.operation, self.operands, self.number = trace, operation, operands, number

    def __add__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.add, self, other)

    def __radd__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.add, other, self)

    def __sub__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.sub, other, self)

    def __mul__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.mul, self, other)

    def __rmul__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.mul, other, self)

    def __truediv__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.truediv, other, self)

    def __neg__(self) -> "_Value":
        return self.trace.apply(operator.neg, self)

    def __lt__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.lt, self, other)

    def __le__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.le, self, other)

    def __gt__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.gt, self, other)

    def __ge__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.ge, self, other)

    def __eq__(self, other: object) -> "_Value":  # type: ignore[override]
        return self.trace.apply(operator.eq, self, other)

    def __ne__(self, other: object) -> "_Value":  # type: ignore[override]
        return self.trace.apply(operator.ne, self, other)

    def __and__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.and_, self, other)

    def __or__(self, other: Any) -> "_Value":
        return self.trace.apply(operator.or_, self, other)

    def __invert__(self) -> "_Value":
        return self.trace.apply(operator.invert, self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        msg = "unrolled code cannot branch on the values of a vector"
        raise TypeError(msg)


_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


class Trace:
    """Record of the operations of a traced kernel, in order, and of the current value of each tile line."""

    def __init__(self, known: dict[int, float]) -> None:
        self.held = {k: self.number(x) for k, x in known.items()}
        self.order: list[_Value] = []

    def number(self, x: float) -> _Value:
        """Return a constant vector."""
        return _Value(self, "number", (), float(x))

    def truth(self, x: bool) -> _Value:
        """Return a constant mask."""
        return _Value(self, "truth", (), float(x))

    def argument(self) -> _Value:
        """Return a value for an argument of the kernel."""
        return _Value(self, "argument", ())

    def load(self, k: int) -> _Value:
        """Return the current value of line `k`, recording a load at its first use."""
        if k not in self.held:
            self.held[k] = self._note("load", k)
        return self.held[k]

    def store(self, k: int, value: Any) -> None:
        """Set the current value of line `k` and record the store."""
        value = value if isinstance(value, _Value) else self.number(value)
        self.held[k] = value
        self._note("store", k, value)

    def load_block(self, k: int, a: _Value, rows: _Value, column: int) -> None:
        """Record a load of eight transposed rows of `a` into eight lines."""
        block = self._note("read", a, rows, column)
        for w in range(vector.WIDTH):
            self.store(k + w, self._note("line", block, w))

    def store_block(self, k: int, a: _Value, row: _Value, column: int) -> None:
        """Record a transposed store of eight lines to rows of `a`."""
        self._note("write", a, row, column, *(self.load(k + w) for w in range(vector.WIDTH)))

    def load_narrow(self, k: int, a: _Value, rows: _Value, n: int) -> None:
        """Record a load of `n` columns, fewer than eight, of eight rows of `a`."""
        block = self._note("read narrow", a, rows, n)
        for j in range(n):
            self.store(k + j, self._note("line", block, j))

    def store_narrow(self, k: int, a: _Value, row: _Value, n: int) -> None:
        """Record a transposed store of `n` lines, fewer than eight, to rows of `a`."""
        self._note("write narrow", a, row, n, *(self.load(k + j) for j in range(n)))

    def _note(self, operation: Any, *operands: Any) -> _Value:
        """Append an operation to the trace and return its value."""
        self.order.append(_Value(self, operation, operands))
        return self.order[-1]

    def apply(self, operation: Any, *operands: Any) -> _Value:
        """Record an operation, or return a constant or an operand if constant folding decides it.

        Folding makes x * 0 = 0 and x + 0 = x, which is wrong for NaN, infinity and -0. It is safe here because no lane
        that is still being solved holds NaN or infinity, and no later code reads the sign of a zero.
        """
        values = [a if isinstance(a, _Value) else self.number(a) for a in operands]
        numbers = [a.number for a in values]
        match operation, numbers:
            case operator.mul, [1.0, _]:
                return values[1]
            case ((operator.mul | operator.truediv), [_, 1.0]):
                return values[0]
            case ((operator.add | operator.sub), [float(a), float(b)]):
                return self.number(operation(a, b))
            case ((operator.add | operator.sub), [_, 0.0]):
                return values[0]
            case operator.add, [0.0, _]:
                return values[1]
            case operator.mul, [_, 0.0] | [0.0, _]:
                return self.number(0.0)
            case operator.invert, [float(mask)]:
                return self.truth(not mask)
            case vector.sqrt, [1.0]:
                return values[0]
            case vector.fma, [1.0, _, _]:
                return values[1] + values[2]
            case vector.fma, [_, 1.0, _]:
                return values[0] + values[2]
            case vector.fma, [_, _, 0.0]:
                return values[0] * values[1]
            case (operator.and_, [1.0, _]) | (operator.or_, [0.0, _]):
                return values[1]
            case (operator.and_, [_, 1.0]) | (operator.or_, [_, 0.0]):
                return values[0]
            case vector.where, [float(mask), _, _]:
                return values[1 if mask else 2]
            case compared, [float(a), float(b)] if compared in _COMPARISONS:
                return self.truth(compared(a, b))
        return self._note(operation, *values)


def _decide_constant(mask: _Value) -> bool:
    """Return the truth of a constant mask; raise TypeError for one that is not constant."""
    return bool(mask) if mask.number is None else mask.number != 0.0


def trace_source(function: Any, trace: Trace) -> Callable[..., Any]:
    """Return a kernel's source as a function of traced values, with the kernels that it calls likewise."""
    instead: dict[Any, Any] = {each: partial(trace.apply, each) for each in vector.emitters}
    instead |= {each: getattr(Trace, each.__name__) for each in _LINE_OPERATIONS}
    instead |= {vector.splat: trace.number, vector.some: _decide_constant}
    return _replace_globals(function, instead)


# Functions of ``vector`` that `Trace` has a method for, by the same name.
_LINE_OPERATIONS = (
    vector.load,
    vector.store,
    vector.load_block,
    vector.store_block,
    vector.load_narrow,
    vector.store_narrow,
)


def _replace_globals(function: Any, instead: dict[Any, Any]) -> Callable[..., Any]:
    """Return a copy of a function whose globals are replaced by `instead`, recursively through kernels."""
    source = getattr(function, "py_func", function)
    names = dict(source.__globals__)
    for name in source.__code__.co_names:
        used = names.get(name)
        if not getattr(used, "__hash__", None):
            continue
        if used in instead:
            names[name] = instead[used]
        elif hasattr(used, "py_func"):
            names[name] = _replace_globals(used, instead)
    return FunctionType(source.__code__, names, source.__name__, source.__defaults__)


def _remove_dead_code(order: list[_Value], kept: set[int]) -> list[_Value]:
    """Return the live operations in order: writes, the last store to each kept line, and all they depend on."""
    stores = {value.operands[0]: value for value in order if value.operation == "store"}
    needed = {value for k, value in stores.items() if k in kept}
    needed |= {value for value in order if str(value.operation).startswith("write")}
    for value in reversed(order):
        if value in needed:
            needed.update(a for a in value.operands if isinstance(a, _Value))
    return [value for value in order if value in needed]


class _Emitter:
    """Emitter of LLVM IR for traced operations on a tile at `data` and on further arguments."""

    def __init__(self, context: Any, builder: Any, data: Any, arguments: dict[_Value, tuple[Any, Any]]) -> None:
        self.context, self.builder, self.data, self.arguments = context, builder, data, arguments
        self.done: dict[_Value, Any] = {}

    def emit(self, value: _Value) -> None:
        """Emit the IR of one operation."""
        operation, operands = value.operation, value.operands
        if operation == "load":
            self.done[value] = self.builder.load(self._line(operands[0]), align=vector.ELEMENT_ALIGNMENT)
        elif operation == "store":
            self.builder.store(self._ready(operands[1]), self._line(operands[0]), align=vector.ELEMENT_ALIGNMENT)
        elif operation == "read":
            (kind, a), (_, rows) = (self.arguments[operand] for operand in operands[:2])
            self.done[value] = vector.read_block(
                self.context, self.builder, kind, a, rows, _int64_constant(operands[2])
            )
        elif operation == "read narrow":
            (kind, a), (_, rows) = (self.arguments[operand] for operand in operands[:2])
            self.done[value] = vector.read_narrow(self.context, self.builder, kind, a, rows, operands[2])
        elif operation == "write narrow":
            (kind, a), (_, row) = (self.arguments[operand] for operand in operands[:2])
            lines = [self._ready(line) for line in operands[3:]]
            vector.write_narrow(self.context, self.builder, kind, a, row, lines)
        elif operation == "line":
            self.done[value] = self.done[operands[0]][operands[1]]
        elif operation == "write":
            (kind, a), (_, row) = (self.arguments[operand] for operand in operands[:2])
            lines = [self._ready(line) for line in operands[3:]]
            vector.write_block(self.context, self.builder, kind, a, row, _int64_constant(operands[2]), lines)
        else:
            self.done[value] = vector.emitters[operation](self.builder, *map(self._ready, operands))

    def _line(self, k: int) -> Any:
        """Return a pointer to line `k` of the tile."""
        start = self.builder.gep(self.data, [_int64_constant(k * vector.WIDTH)])
        return self.builder.bitcast(start, _DOUBLES.as_pointer())

    def _ready(self, value: _Value) -> Any:
        """Return the IR value of an operand, a constant or an emitted operation."""
        if value.operation == "number":
            return ir.Constant(_DOUBLES, [value.number] * vector.WIDTH)
        if value.operation == "truth":
            return ir.Constant(_TRUTHS, [bool(value.number)] * vector.WIDTH)
        return self.done[value]


def _int64_constant(k: int) -> Any:
    """Return an IR constant of int64."""
    return ir.Constant(ir.IntType(64), k)


class TileLayout(NamedTuple):
    """Layout of a tile of known size: which lines the source sees, and which are constant."""

    tile: Callable[[Any], Any]
    """Return the tile that the source sees, given a trace for its lines."""
    known: dict[int, float]
    """Values of lines that are the same in every lane, by line."""


def unroll(
    layout: Callable[[int], TileLayout], keep: Callable[[Any], Iterator[int]], source: Any = None
) -> Callable[[Any], Any]:
    """Return a decorator that adds to ``kernel(t)`` a size argument: None runs its loops, a tuple unrolled code.

    The length of the size tuple is the size, which Numba thus knows when it compiles. `keep` yields the lines of the
    tile that later code reads; other lines stay in registers. `source`, if given, is traced instead of the kernel: the
    same operations in an order that suits registers.
    """

    def decorate(kernel: Any) -> Any:
        """Register the sized function for one kernel and return it."""

        def function(t, size, *rest):
            """Run the looped kernel: the Python equivalent of the compiled function."""
            kernel(t, *rest)

        class _Either(AbstractTemplate):  # type: ignore[misc]  # Numba is untyped
            key = function

            def generic(self, args, kws):
                """Return the signature; for a size of None, compile the looped kernel too."""
                t, size, *rest = args
                if isinstance(size, types.misc.NoneType):
                    self.context.resolve_function_type(loops, (t, *rest), {})  # compiles them
                return signature(types.none, *args)

        @lower_builtin(function, types.containers.BaseTuple, types.none, types.misc.VarArg(types.Any))
        def _emit_loops(context, builder, sig, args):
            """Emit a call of the looped kernel."""
            (t, _, *kinds), (tile, _, *values) = sig.args, args
            callee = signature(types.none, t, *kinds)
            call = context.get_function(loops, callee)
            context.add_linking_libs(call.libs)
            return call(builder, (tile, *values))

        @lower_builtin(function, types.containers.BaseTuple, types.containers.BaseTuple, types.misc.VarArg(types.Any))
        def _emit_unrolled(context, builder, sig, args):
            """Trace the kernel for the size and emit the unrolled code."""
            (t, size, *kinds), (tile, _, *values) = sig.args, args
            lines = t.fields.index("S")
            data = context.make_array(t[lines])(context, builder, builder.extract_value(tile, lines)).data
            what = layout(size.count)
            trace = Trace(what.known)
            places = what.tile(trace)
            rest = [trace.argument() for _ in kinds]
            emitted = _Emitter(context, builder, data, dict(zip(rest, zip(kinds, values, strict=True), strict=True)))
            trace_source(source or kernel, trace)(places, *rest)
            for value in _remove_dead_code(trace.order, set(keep(places))):
                emitted.emit(value)
            return context.get_dummy_value()

        loops = types.Dispatcher(kernel)
        infer_global(function, types.Function(_Either))
        return function

    return decorate
