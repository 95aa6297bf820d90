"""Eight float64 numbers side by side, held in vector registers: the arithmetic of the kernels that work on lanes.

Kernels written on arrays with a loop over lanes load and store every intermediate sum, and leave the compiler to prove
that the arrays do not overlap. On these values they read like the formulas, and a sum stays in a register.

Where a machine has shorter registers, the compiler uses two or four of them. Without compilation (NUMBA_DISABLE_JIT)
a vector is a NumPy array of eight numbers and the functions below are what Python runs.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types  # noqa: TID251
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate, infer_global, signature  # noqa: TID251
from numba.extending import lower_builtin, models, register_model  # noqa: TID251

from cmfast.kernels.cpu._core.jit import jit

WIDTH = 8
ELEMENT_ALIGNMENT = 8  # of an element: arrays promise no more


def load(lines, k):
    """Return line `k` of a C-contiguous array of lines of eight numbers."""
    return lines[k].copy()


def store(lines, k, value):
    """Write a vector to line `k`."""
    lines[k] = value


def load_block(lines, k, a, rows, column):
    """Fill eight lines from line `k` on with ``a[rows, column : column + 8]``, transposed; `rows` is eight places.

    The array may hold int64, int32, float64 or float32.
    """
    for w in range(WIDTH):
        lines[k : k + WIDTH, w] = a[rows[w], column : column + WIDTH]


def store_block(lines, k, a, row, column):
    """Write eight lines from line `k` on to ``a[row : row + 8, column : column + 8]``, transposed."""
    a[row : row + WIDTH, column : column + WIDTH] = lines[k : k + WIDTH].T


def load_row(a, row, column):
    """Return ``a[row, column : column + 8]`` as float64."""
    return a[row, column : column + WIDTH].astype(np.float64)


def store_row(a, row, column, value):
    """Write a vector to ``a[row, column : column + 8]``, in the type of the array."""
    a[row, column : column + WIDTH] = value


def load_numbers(numbers, k):
    """Return ``numbers[k : k + 8]`` of a C-contiguous array of float32 or float64, as float64."""
    return numbers[k : k + WIDTH].astype(np.float64)


def store_numbers(numbers, k, value):
    """Write a vector to ``numbers[k : k + 8]`` of a C-contiguous array of float64, int64 or int8, without fractions."""
    numbers[k : k + WIDTH] = value


def fetch(a, row, column):
    """Ask for the cache line of ``a[row, column]``, which may lie outside: nothing is read, nothing waits."""


def splat(x):
    """Return a vector of eight times the number."""
    return np.full(WIDTH, float(x))


def pack(a, b, c, d, e, f, g, h):
    """Return the vector of eight numbers."""
    return np.array([a, b, c, d, e, f, g, h], np.float64)


def where(mask, yes, no):
    """Return `yes` in the lanes of the mask and `no` in the others; both are computed."""
    return np.where(mask, yes, no)


def fma(a, b, c):
    """Return a * b + c, rounded once where the machine can."""
    return a * b + c


def sqrt(a):
    """Return the square roots."""
    return np.sqrt(a)


def absolute(a):
    """Return the absolute values."""
    return np.abs(a)


def floor(a):
    """Return the largest integers that are not larger."""
    return np.floor(a)


def total(a):
    """Return the sum of the lanes, by halves."""
    a = a[:4] + a[4:]
    return (a[0] + a[2]) + (a[1] + a[3])


def largest(a):
    """Return the largest of the lanes."""
    return max(a)


def some(mask):
    """Whether any lane of the mask is set."""
    return bool(np.any(mask))


def bits(mask):
    """Return the lanes of the mask as the bits of a number, the first as the lowest."""
    return np.int64(np.packbits(mask, bitorder="little")[0])


class _Vector(types.Type):
    def __init__(self):
        super().__init__(name="float64x8")


class _Mask(types.Type):
    def __init__(self):
        super().__init__(name="boolx8")


vector, mask = _Vector(), _Mask()
emitters: dict[Any, Any] = {}  # of each function of vectors: what emits its code, given a builder and the values
_PLACES = types.containers.UniTuple(types.intp, WIDTH)
_VECTOR, _MASK = ir.VectorType(ir.DoubleType(), WIDTH), ir.VectorType(ir.IntType(1), WIDTH)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _VECTOR)


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _MASK)


def _typed(function, *cases):
    """Tell the type inference the signatures of a function.

    By its target it is asked before all that Numba knows of an operator, which would take twenty times as long.
    """
    facts = {"cases": list(cases), "metadata": {"target": "cpu"}}
    infer_global(function)(type(f"_{function.__name__}", (ConcreteTemplate,), facts))


def _lowered(function, case, emit):
    """Give the code of a function for one signature: ``emit(builder, *values)``."""

    @lower_builtin(function, *case.args)
    def code(context, builder, sig, args):
        values = [_spread(builder, a) if t is types.float64 else a for a, t in zip(args, sig.args, strict=True)]
        return emit(builder, *values)


def _spread(builder, number):
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _define(function, result, arguments, emit):
    """Type and lower a function of vectors, any of which may be given as a plain number."""
    emitters[function] = emit
    cases = [signature(result, *arguments)]
    numbers = [k for k, a in enumerate(arguments) if a is vector]
    if len(numbers) > 1:
        for chosen in range(1, 2 ** len(numbers) - 1):
            plain = {k for bit, k in enumerate(numbers) if chosen >> bit & 1}
            cases.append(signature(result, *(types.float64 if k in plain else a for k, a in enumerate(arguments))))
    _typed(function, *cases)
    for case in cases:
        _lowered(function, case, emit)


def _intrinsic(name):
    def emit(builder, *values):
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(values))
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{WIDTH}f64")
        return builder.call(function, values)

    return emit


for _function, _emit in (
    (operator.add, lambda b, x, y: b.fadd(x, y)),
    (operator.sub, lambda b, x, y: b.fsub(x, y)),
    (operator.mul, lambda b, x, y: b.fmul(x, y)),
    (operator.truediv, lambda b, x, y: b.fdiv(x, y)),
):
    _define(_function, vector, (vector, vector), _emit)
for _function, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
):
    _define(_function, mask, (vector, vector), lambda b, x, y, sign=_sign: b.fcmp_ordered(sign, x, y))
_define(operator.ne, mask, (vector, vector), lambda b, x, y: b.fcmp_unordered("!=", x, y))
_define(operator.and_, mask, (mask, mask), lambda b, x, y: b.and_(x, y))
_define(operator.or_, mask, (mask, mask), lambda b, x, y: b.or_(x, y))
_define(operator.invert, mask, (mask,), lambda b, x: b.not_(x))
_define(operator.neg, vector, (vector,), lambda b, x: b.fneg(x))
_define(where, vector, (mask, vector, vector), lambda b, m, x, y: b.select(m, x, y))
_define(fma, vector, (vector, vector, vector), _intrinsic("fmuladd"))
_define(sqrt, vector, (vector,), _intrinsic("sqrt"))
_define(absolute, vector, (vector,), _intrinsic("fabs"))
_define(floor, vector, (vector,), _intrinsic("floor"))
_define(some, types.boolean, (mask,), lambda b, m: b.icmp_unsigned("!=", b.bitcast(m, ir.IntType(8)), ir.IntType(8)(0)))
_define(bits, types.int64, (mask,), lambda b, m: b.zext(b.bitcast(m, ir.IntType(8)), ir.IntType(64)))
_NUMBERS = signature(vector, *[types.float64] * WIDTH)
_typed(splat, signature(vector, types.float64))
_typed(pack, _NUMBERS)


@lower_builtin(splat, types.float64)
def _splat(context, builder, sig, args):
    return _spread(builder, args[0])


@lower_builtin(pack, *_NUMBERS.args)
def _pack(context, builder, sig, args):
    value = ir.Constant(_VECTOR, ir.Undefined)
    for k, number in enumerate(args):
        value = builder.insert_element(value, number, ir.Constant(ir.IntType(32), k))
    return value


def _halves(builder, value, width):
    """Return the lower and the upper half of a vector of `width` numbers."""
    for first in (0, width // 2):
        picks = _picks(range(first, first + width // 2))
        yield builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), picks)


def _total(builder, value):
    for width in (8, 4):
        value = builder.fadd(*_halves(builder, value, width))
    ends = [builder.extract_element(value, ir.IntType(32)(k)) for k in range(2)]
    return builder.fadd(*ends)


def _largest(builder, value):
    for width in (8, 4, 2):
        low, high = _halves(builder, value, width)
        value = builder.select(builder.fcmp_ordered(">", low, high), low, high)
    return builder.extract_element(value, ir.IntType(32)(0))


_define(total, types.float64, (vector,), _total)
_define(largest, types.float64, (vector,), _largest)


@jit()
def new_lines(n):
    """Return `n` empty lines, none of which lies across two cache lines."""
    numbers = np.empty((n + 1) * WIDTH)
    skip = -(numbers.ctypes.data // numbers.itemsize) % WIDTH
    return numbers[skip : skip + n * WIDTH].reshape(n, WIDTH)


_NUMBERS_OF = {
    types.float64: ir.DoubleType(),
    types.float32: ir.FloatType(),
    types.int64: ir.IntType(64),
    types.int32: ir.IntType(32),
}


_KINDS_OF = {types.float64: ir.DoubleType(), types.int64: ir.IntType(64), types.int8: ir.IntType(8)}


def _is_table(a, *dtypes):
    return isinstance(a, types.Array) and a.dtype in dtypes and a.ndim == 2 and a.layout == "C"


def _is_lines(a):
    return _is_table(a, types.float64)


def _is_list(a, *dtypes):
    return isinstance(a, types.Array) and a.dtype in dtypes and a.ndim == 1 and a.layout == "C"


def _is_numbers(a):
    return _is_list(a, types.float32, types.float64)


@infer_global(load)
class _Load(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 2 and not kws and _is_lines(args[0]) and isinstance(args[1], types.Integer):
            return signature(vector, args[0], types.intp)
        return None


@infer_global(store)
class _Store(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 3 and not kws and _is_lines(args[0]) and args[0].mutable and args[2] is vector:
            return signature(types.none, args[0], types.intp, vector)
        return None


@infer_global(load_numbers)
class _LoadNumbers(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 2 and not kws and _is_numbers(args[0]) and isinstance(args[1], types.Integer):
            return signature(vector, args[0], types.intp)
        return None


@infer_global(store_numbers)
class _StoreNumbers(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 3 and not kws and _is_list(args[0], *_KINDS_OF) and args[0].mutable:
            return signature(types.none, args[0], types.intp, vector)
        return None


@infer_global(load_block)
class _LoadBlock(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 5 and not kws and _is_lines(args[0]) and args[0].mutable and _is_table(args[2], *_NUMBERS_OF):
            return signature(types.none, args[0], types.intp, args[2], _PLACES, types.intp)
        return None


@infer_global(load_row)
class _LoadRow(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 3 and not kws and _is_table(args[0], *_NUMBERS_OF):
            return signature(vector, args[0], types.intp, types.intp)
        return None


@infer_global(store_row)
class _StoreRow(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 4 and not kws and _is_table(args[0], types.float64, types.float32) and args[0].mutable:
            return signature(types.none, args[0], types.intp, types.intp, vector)
        return None


@infer_global(fetch)
class _Fetch(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 3 and not kws and _is_table(args[0], *_NUMBERS_OF):
            return signature(types.none, args[0], types.intp, types.intp)
        return None


@infer_global(store_block)
class _StoreBlock(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 5 and not kws and _is_lines(args[0]) and _is_lines(args[2]) and args[2].mutable:
            return signature(types.none, args[0], types.intp, args[2], types.intp, types.intp)
        return None


def _field(context, builder, kind, value, name):
    """Return a field of an array; Numba's own way takes a copy of all of them, which is long to compile."""
    return builder.extract_value(value, context.data_model_manager[kind].get_field_position(name))


def _address(context, builder, kind, value, k):
    data = _field(context, builder, kind, value, "data")
    start = builder.gep(data, [builder.mul(k, ir.Constant(k.type, WIDTH))])
    return builder.bitcast(start, _VECTOR.as_pointer())


@lower_builtin(load, types.Array, types.intp)
def _load(context, builder, sig, args):
    return builder.load(_address(context, builder, sig.args[0], args[0], args[1]), align=ELEMENT_ALIGNMENT)


@lower_builtin(store, types.Array, types.intp, vector)
def _store(context, builder, sig, args):
    builder.store(args[2], _address(context, builder, sig.args[0], args[0], args[1]), align=ELEMENT_ALIGNMENT)
    return context.get_dummy_value()


@lower_builtin(load_numbers, types.Array, types.intp)
def _load_numbers(context, builder, sig, args):
    kind = sig.args[0]
    data = _field(context, builder, kind, args[0], "data")
    narrow = kind.dtype == types.float32
    numbers = ir.VectorType(ir.FloatType(), WIDTH) if narrow else _VECTOR
    place = builder.bitcast(builder.gep(data, [args[1]]), numbers.as_pointer())
    value = builder.load(place, align=4 if narrow else ELEMENT_ALIGNMENT)
    return builder.fpext(value, _VECTOR) if narrow else value


@lower_builtin(store_numbers, types.Array, types.intp, vector)
def _store_numbers(context, builder, sig, args):
    (kind, *_), (numbers, k, value) = sig.args, args
    converted = ir.VectorType(_KINDS_OF[kind.dtype], WIDTH)
    if isinstance(kind.dtype, types.Integer):
        value = builder.fptosi(value, converted)
    place = builder.gep(_field(context, builder, kind, numbers, "data"), [k])
    builder.store(value, builder.bitcast(place, converted.as_pointer()), align=kind.dtype.bitwidth // 8)
    return context.get_dummy_value()


def _picks(places):
    return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), [ir.IntType(32)(k) for k in places])


def _transposed(builder, rows):
    """Transpose eight vectors in three rounds; each exchanges blocks of half the size between pairs of rows."""
    for half in (4, 2, 1):
        low = [k + WIDTH - half if k & half else k for k in range(WIDTH)]
        high = [k + half for k in low]
        new = list(rows)
        for k in range(WIDTH):
            if not k & half:
                pair = rows[k], rows[k + half]
                for place, chosen in ((k, low), (k + half, high)):
                    new[place] = builder.shuffle_vector(*pair, _picks(chosen))
        rows = new
    return rows


def _cell(context, builder, kind, value, row, column):
    cols = builder.extract_value(_field(context, builder, kind, value, "shape"), 1)
    data = _field(context, builder, kind, value, "data")
    start = builder.gep(data, [builder.add(builder.mul(row, cols), column)])
    return builder.bitcast(start, ir.VectorType(_NUMBERS_OF[kind.dtype], WIDTH).as_pointer())


def _cells(context, builder, kind, value, row, column):
    """Load eight numbers of a row, as float64."""
    place = _cell(context, builder, kind, value, row, column)
    cells = builder.load(place, align=kind.dtype.bitwidth // 8)
    if isinstance(kind.dtype, types.Integer):
        return builder.sitofp(cells, _VECTOR)
    return cells if kind.dtype == types.float64 else builder.fpext(cells, _VECTOR)


@lower_builtin(load_row, types.Array, types.intp, types.intp)
def _load_row(context, builder, sig, args):
    return _cells(context, builder, sig.args[0], *args)


@lower_builtin(fetch, types.Array, types.intp, types.intp)
def _fetch(context, builder, sig, args):
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    place = builder.bitcast(_cell(context, builder, sig.args[0], *args), byte)
    builder.call(function, [place, word(0), word(3), word(1)])  # to read; into every level; data
    return context.get_dummy_value()


@lower_builtin(store_row, types.Array, types.intp, types.intp, vector)
def _store_row(context, builder, sig, args):
    kind, value = sig.args[0], args[3]
    if kind.dtype == types.float32:
        value = builder.fptrunc(value, ir.VectorType(ir.FloatType(), WIDTH))
    builder.store(value, _cell(context, builder, kind, *args[:3]), align=kind.dtype.bitwidth // 8)
    return context.get_dummy_value()


def read_block(context, builder, kind, a, rows, column):
    """Return the eight lines that ``load_block`` fills."""
    return _transposed(
        builder, [_cells(context, builder, kind, a, row, column) for row in cgutils.unpack_tuple(builder, rows, WIDTH)]
    )


def write_block(context, builder, kind, a, row, column, lines):
    """Write eight lines as ``store_block`` does."""
    for w, cells in enumerate(_transposed(builder, lines)):
        there = builder.add(row, ir.Constant(row.type, w))
        builder.store(cells, _cell(context, builder, kind, a, there, column), align=ELEMENT_ALIGNMENT)


@jit(inner=True, inline=True)
def load_narrow(lines, k, a, rows, n):
    """Fill `n` lines, fewer than eight, with ``a[rows, :n]``, transposed; `a` holds float64."""
    for j in range(n):
        for w in range(WIDTH):
            lines[k + j, w] = a[rows[w], j]


@jit(inner=True, inline=True)
def store_narrow(lines, k, a, row, n):
    """Write `n` lines, fewer than eight, to ``a[row : row + 8, :n]``, transposed."""
    for j in range(n):
        for w in range(WIDTH):
            a[row + w, j] = lines[k + j, w]


def read_narrow(context, builder, kind, a, rows, n):
    """Return the lines that ``load_narrow`` fills."""
    cells, picks = ir.VectorType(ir.DoubleType(), n), _picks([min(k, n - 1) for k in range(WIDTH)])
    found = []
    for row in cgutils.unpack_tuple(builder, rows, WIDTH):
        place = builder.bitcast(_number_at(context, builder, kind, a, row, 0), cells.as_pointer())
        found.append(
            builder.shuffle_vector(
                builder.load(place, align=ELEMENT_ALIGNMENT), ir.Constant(cells, ir.Undefined), picks
            )
        )
    return _transposed(builder, found)[:n]


def write_narrow(context, builder, kind, a, row, lines):
    """Write fewer than eight lines as ``store_narrow`` does: the rows follow one another, as many vectors as lines."""
    n = len(lines)
    for k in range(n):
        value = lines[0]
        places = [divmod(k * WIDTH + e, n) for e in range(WIDTH)]  # the lane and the line of each number
        kept = [lane for lane, _ in places]
        for j in range(1, n):
            picks = [WIDTH + lane if line == j else kept[e] for e, (lane, line) in enumerate(places)]
            value = builder.shuffle_vector(value, lines[j], _picks(picks))
            kept = list(range(WIDTH))
        start = _number_at(context, builder, kind, a, row, k * WIDTH)
        builder.store(value, builder.bitcast(start, _VECTOR.as_pointer()), align=ELEMENT_ALIGNMENT)


def _number_at(context, builder, kind, value, row, column):
    array = context.make_array(kind)(context, builder, value)
    cols = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.add(builder.mul(row, cols), ir.Constant(row.type, column))])


@lower_builtin(load_block, types.Array, types.intp, types.Array, _PLACES, types.intp)
def _load_block(context, builder, sig, args):
    lines, k, a, rows, column = args
    for w, line in enumerate(read_block(context, builder, sig.args[2], a, rows, column)):
        place = _address(context, builder, sig.args[0], lines, builder.add(k, ir.Constant(k.type, w)))
        builder.store(line, place, align=ELEMENT_ALIGNMENT)
    return context.get_dummy_value()


@lower_builtin(store_block, types.Array, types.intp, types.Array, types.intp, types.intp)
def _store_block(context, builder, sig, args):
    lines, k, a, row, column = args
    places = [builder.add(k, ir.Constant(k.type, w)) for w in range(WIDTH)]
    values = [
        builder.load(_address(context, builder, sig.args[0], lines, place), align=ELEMENT_ALIGNMENT) for place in places
    ]
    write_block(context, builder, sig.args[2], a, row, column, values)
    return context.get_dummy_value()
