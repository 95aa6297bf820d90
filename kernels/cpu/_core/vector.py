"""SIMD vectors of eight float64 in registers: the arithmetic of kernels in which each lane is one matrix.

Kernels that loop over lanes of arrays load and store every intermediate, and the compiler must prove that arrays do not
overlap; with these values formulas stay readable and sums stay in registers. Machines with shorter registers use two
or four per vector. With NUMBA_DISABLE_JIT a vector is a NumPy array of eight and the functions below run as Python.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.numba_internals import (
    AbstractTemplate,
    ConcreteTemplate,
    cgutils,
    infer_global,
    lower_builtin,
    models,
    register_model,
    signature,
    types,
)

WIDTH = 8
ELEMENT_ALIGNMENT = 8  # bytes; arrays guarantee only the alignment of an element


def load(lines, k):
    """Load line `k` of a C-contiguous (n, 8) float64 array as a vector."""
    return lines[k].copy()


def store(lines, k, value):
    """Write a vector to line `k` of a C-contiguous (n, 8) float64 array."""
    lines[k] = value


def load_block(lines, k, a, rows, column):
    """Write ``a[rows, column : column + 8]`` transposed to lines `k` to `k` + 7; `rows` is a tuple of eight indices.

    The array may hold int64, int32, float64 or float32.
    """
    for w in range(WIDTH):
        lines[k : k + WIDTH, w] = a[rows[w], column : column + WIDTH]


def store_block(lines, k, a, row, column):
    """Write lines `k` to `k` + 7 transposed to ``a[row : row + 8, column : column + 8]``."""
    a[row : row + WIDTH, column : column + WIDTH] = lines[k : k + WIDTH].T


def load_row(a, row, column):
    """Load ``a[row, column : column + 8]`` as a float64 vector."""
    return a[row, column : column + WIDTH].astype(np.float64)


def collect_signs(signs, a, row, column):
    """Return `signs` with the sign also set in lanes where ``a[row, column : column + 8]`` has it, as -0.0 has too."""
    cells = a[row, column : column + WIDTH].astype(np.float64)
    return np.where(np.signbit(cells) | np.signbit(signs), -1.0, 0.0)


def some_sign(signs):
    """Return whether the sign of any lane is set."""
    return bool(np.any(np.signbit(signs)))


def store_row(a, row, column, value):
    """Write a vector to ``a[row, column : column + 8]``, converted to the type of the array."""
    a[row, column : column + WIDTH] = value


def load_elements(numbers, k):
    """Load ``numbers[k : k + 8]`` of a C-contiguous float32 or float64 array as a float64 vector."""
    return numbers[k : k + WIDTH].astype(np.float64)


def store_elements(numbers, k, value):
    """Write a vector to ``numbers[k : k + 8]`` of a float64, int64 or int8 array.

    Integer arrays take whole numbers, below 2**51 in magnitude.
    """
    numbers[k : k + WIDTH] = value


def prefetch(a, row, column):
    """Prefetch the cache line of ``a[row, column]``, which may be out of bounds; a hint without other effect."""


def splat(x):
    """Return a vector with `x` in all eight lanes (broadcast)."""
    return np.full(WIDTH, float(x))


def pack(a, b, c, d, e, f, g, h):
    """Return the vector of eight scalars."""
    return np.array([a, b, c, d, e, f, g, h], np.float64)


def where(mask, yes, no):
    """Return `yes` in the lanes where the mask is set and `no` in the others (select); both are evaluated."""
    return np.where(mask, yes, no)


def fma(a, b, c):
    """Return a * b + c, fused (rounded once) if the machine can."""
    return a * b + c


def divide_by_reciprocal(a, b, one):
    """Return a / b, given 1 / b: by multiplications, which take less time than a division, if the machine has FMA.

    The remainder of a first product corrects it, which gives the nearest float64 unless an intermediate result
    overflows or underflows (Markstein, 1990).
    """
    return a / b


def sqrt(a):
    """Return the lane-wise square root."""
    return np.sqrt(a)


def absolute(a):
    """Return the absolute value of each lane."""
    return np.abs(a)


def floor(a):
    """Return the floor of each lane."""
    return np.floor(a)


def maximum(a, b):
    """Return the larger of two values in each lane; neither may be NaN.

    Unlike ``where``, it never becomes a masked store, which is slow, if the result overwrites an operand.
    """
    return np.maximum(a, b)


def minimum(a, b):
    """Return the smaller of two values in each lane; neither may be NaN."""
    return np.minimum(a, b)


def total(a):
    """Return the sum of the eight lanes, by pairwise halving."""
    a = a[:4] + a[4:]
    return (a[0] + a[2]) + (a[1] + a[3])


def largest(a):
    """Return the maximum of the eight lanes."""
    return max(a)


def some(mask):
    """Return whether any lane of the mask is set."""
    return bool(np.any(mask))


def bits(mask):
    """Return the mask as an integer bit mask, lane 0 lowest."""
    return np.int64(np.packbits(mask, bitorder="little")[0])


class _Vector(types.Type):
    """Numba type of a vector of eight float64."""

    def __init__(self):
        super().__init__(name="float64x8")


class _Mask(types.Type):
    """Numba type of a mask of eight booleans."""

    def __init__(self):
        super().__init__(name="boolx8")


vector, mask = _Vector(), _Mask()
emitters: dict[Any, Any] = {}  # of each vector function: the function that emits its IR, given a builder and values
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


def _register_types(function, *cases):
    """Register the signatures of a function with Numba's type inference.

    With a target it is tried before Numba's own overloads of an operator, which would take twenty times as long.
    """
    attributes = {"cases": list(cases), "metadata": {"target": "cpu"}}
    infer_global(function)(type(f"_{function.__name__}", (ConcreteTemplate,), attributes))


def _register_emitter(function, case, emit):
    """Register the code emitter ``emit(builder, *values)`` of a function for one signature."""

    @lower_builtin(function, *case.args)
    def code(context, builder, sig, args):
        """Emit the code for one signature, broadcasting scalars to vectors."""
        values = [_emit_broadcast(builder, a) if t is types.float64 else a for a, t in zip(args, sig.args, strict=True)]
        return emit(builder, *values)


def _emit_broadcast(builder, number):
    """Emit a vector with one scalar in all lanes."""
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _define(function, result, arguments, emit):
    """Register types and code of a vector function; all but one of several vector arguments may be scalars."""
    emitters[function] = emit
    cases = [signature(result, *arguments)]
    numbers = [k for k, a in enumerate(arguments) if a is vector]
    if len(numbers) > 1:
        for chosen in range(1, 2 ** len(numbers) - 1):
            plain = {k for bit, k in enumerate(numbers) if chosen >> bit & 1}
            cases.append(signature(result, *(types.float64 if k in plain else a for k, a in enumerate(arguments))))
    _register_types(function, *cases)
    for case in cases:
        _register_emitter(function, case, emit)


def _emit_intrinsic(name, flags=()):
    """Return an emitter that calls the LLVM intrinsic `name` for eight float64, with fast-math flags."""

    def emit(builder, *values):
        """Emit the call of the intrinsic."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(values))
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{WIDTH}f64")
        return builder.call(function, values, fastmath=flags)

    return emit


def _emit_some_sign(builder, value):
    """Emit whether any sign bit is set."""
    whole = ir.VectorType(ir.IntType(64), WIDTH)
    negative = builder.icmp_signed("<", builder.bitcast(value, whole), ir.Constant(whole, [ir.IntType(64)(0)] * WIDTH))
    return builder.icmp_unsigned("!=", builder.bitcast(negative, ir.IntType(8)), ir.IntType(8)(0))


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
_define(fma, vector, (vector, vector, vector), _emit_intrinsic("fmuladd"))
_define(sqrt, vector, (vector,), _emit_intrinsic("sqrt"))
_define(absolute, vector, (vector,), _emit_intrinsic("fabs"))
_define(floor, vector, (vector,), _emit_intrinsic("floor"))
_define(maximum, vector, (vector, vector), _emit_intrinsic("maxnum", ("nnan", "nsz")))
_define(minimum, vector, (vector, vector), _emit_intrinsic("minnum", ("nnan", "nsz")))
_define(some, types.boolean, (mask,), lambda b, m: b.icmp_unsigned("!=", b.bitcast(m, ir.IntType(8)), ir.IntType(8)(0)))
_define(some_sign, types.boolean, (vector,), _emit_some_sign)
_define(bits, types.int64, (mask,), lambda b, m: b.zext(b.bitcast(m, ir.IntType(8)), ir.IntType(64)))
_NUMBERS = signature(vector, *[types.float64] * WIDTH)
_register_types(splat, signature(vector, types.float64))
_register_types(pack, _NUMBERS)
_register_types(divide_by_reciprocal, signature(vector, vector, vector, vector))


@lower_builtin(splat, types.float64)
def _splat(context, builder, sig, args):
    """Emit ``splat``."""
    return _emit_broadcast(builder, args[0])


@lower_builtin(divide_by_reciprocal, vector, vector, vector)
def _divide_by_reciprocal(context, builder, sig, args):
    """Emit ``divide_by_reciprocal``; a first product without a finite remainder is infinite or NaN as the quotient."""
    (a, b, one), emit = args, _emit_intrinsic("fma")
    if "+fma" not in context.codegen().magic_tuple()[2].split(","):
        return builder.fdiv(a, b)
    first = builder.fmul(a, one)
    rest = emit(builder, builder.fneg(first), b, a)
    finite = builder.fcmp_ordered("<", _emit_intrinsic("fabs")(builder, rest), ir.Constant(_VECTOR, [np.inf] * WIDTH))
    return builder.select(finite, emit(builder, rest, one, first), first)


@lower_builtin(pack, *_NUMBERS.args)
def _pack(context, builder, sig, args):
    """Emit ``pack``: insert eight scalars into a vector."""
    value = ir.Constant(_VECTOR, ir.Undefined)
    for k, number in enumerate(args):
        value = builder.insert_element(value, number, ir.Constant(ir.IntType(32), k))
    return value


def _halves(builder, value, width):
    """Yield the lower and the upper half of a vector of `width` lanes."""
    for first in (0, width // 2):
        picks = _shuffle_mask(range(first, first + width // 2))
        yield builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), picks)


def _total(builder, value):
    """Emit the sum of the lanes by halving."""
    for width in (8, 4):
        value = builder.fadd(*_halves(builder, value, width))
    ends = [builder.extract_element(value, ir.IntType(32)(k)) for k in range(2)]
    return builder.fadd(*ends)


def _largest(builder, value):
    """Emit the maximum of the lanes by halving."""
    for width in (8, 4, 2):
        low, high = _halves(builder, value, width)
        value = builder.select(builder.fcmp_ordered(">", low, high), low, high)
    return builder.extract_element(value, ir.IntType(32)(0))


_define(total, types.float64, (vector,), _total)
_define(largest, types.float64, (vector,), _largest)


@jit()
def new_lines(n):
    """Return an uninitialised (n, 8) float64 array whose rows are aligned to cache lines."""
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
    """Return whether a Numba type is a C-contiguous matrix of one of the dtypes."""
    return isinstance(a, types.Array) and a.dtype in dtypes and a.ndim == 2 and a.layout == "C"


def _is_lines(a):
    """Return whether a Numba type is a C-contiguous float64 matrix."""
    return _is_table(a, types.float64)


def _is_list(a, *dtypes):
    """Return whether a Numba type is a C-contiguous one-dimensional array of one of the dtypes."""
    return isinstance(a, types.Array) and a.dtype in dtypes and a.ndim == 1 and a.layout == "C"


def _is_numbers(a):
    """Return whether a Numba type is a C-contiguous one-dimensional float array."""
    return _is_list(a, types.float32, types.float64)


@infer_global(load)
class _Load(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 2 and not kws and _is_lines(args[0]) and isinstance(args[1], types.Integer):
            return signature(vector, args[0], types.intp)
        return None


@infer_global(store)
class _Store(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 3 and not kws and _is_lines(args[0]) and args[0].mutable and args[2] is vector:
            return signature(types.none, args[0], types.intp, vector)
        return None


@infer_global(load_elements)
class _LoadNumbers(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 2 and not kws and _is_numbers(args[0]) and isinstance(args[1], types.Integer):
            return signature(vector, args[0], types.intp)
        return None


@infer_global(store_elements)
class _StoreNumbers(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 3 and not kws and _is_list(args[0], *_KINDS_OF) and args[0].mutable:
            return signature(types.none, args[0], types.intp, vector)
        return None


@infer_global(load_block)
class _LoadBlock(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 5 and not kws and _is_lines(args[0]) and args[0].mutable and _is_table(args[2], *_NUMBERS_OF):
            return signature(types.none, args[0], types.intp, args[2], _PLACES, types.intp)
        return None


@infer_global(load_row)
class _LoadRow(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 3 and not kws and _is_table(args[0], *_NUMBERS_OF):
            return signature(vector, args[0], types.intp, types.intp)
        return None


@infer_global(collect_signs)
class _CollectSigns(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 4 and not kws and args[0] is vector and _is_table(args[1], *_NUMBERS_OF):
            return signature(vector, vector, args[1], types.intp, types.intp)
        return None


@infer_global(store_row)
class _StoreRow(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 4 and not kws and _is_table(args[0], types.float64, types.float32) and args[0].mutable:
            return signature(types.none, args[0], types.intp, types.intp, vector)
        return None


@infer_global(prefetch)
class _Fetch(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 3 and not kws and _is_table(args[0], *_NUMBERS_OF):
            return signature(types.none, args[0], types.intp, types.intp)
        return None


@infer_global(store_block)
class _StoreBlock(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 5 and not kws and _is_lines(args[0]) and _is_lines(args[2]) and args[2].mutable:
            return signature(types.none, args[0], types.intp, args[2], types.intp, types.intp)
        return None


def _extract_field(context, builder, kind, value, name):
    """Extract a field of an array structure; Numba's own way copies all fields, which is slow to compile."""
    return builder.extract_value(value, context.data_model_manager[kind].get_field_position(name))


def _line_pointer(context, builder, kind, value, k):
    """Emit a pointer to line `k` of an (n, 8) array."""
    data = _extract_field(context, builder, kind, value, "data")
    start = builder.gep(data, [builder.mul(k, ir.Constant(k.type, WIDTH))])
    return builder.bitcast(start, _VECTOR.as_pointer())


@lower_builtin(load, types.Array, types.intp)
def _load(context, builder, sig, args):
    """Emit ``load``: load line `k` of an (n, 8) array as a vector."""
    return builder.load(_line_pointer(context, builder, sig.args[0], args[0], args[1]), align=ELEMENT_ALIGNMENT)


@lower_builtin(store, types.Array, types.intp, vector)
def _store(context, builder, sig, args):
    """Emit ``store``: write a vector to line `k` of an (n, 8) array."""
    builder.store(args[2], _line_pointer(context, builder, sig.args[0], args[0], args[1]), align=ELEMENT_ALIGNMENT)
    return context.get_dummy_value()


@lower_builtin(load_elements, types.Array, types.intp)
def _load_elements(context, builder, sig, args):
    """Emit ``load_elements``: load eight consecutive elements as a float64 vector."""
    kind = sig.args[0]
    data = _extract_field(context, builder, kind, args[0], "data")
    narrow = kind.dtype == types.float32
    numbers = ir.VectorType(ir.FloatType(), WIDTH) if narrow else _VECTOR
    place = builder.bitcast(builder.gep(data, [args[1]]), numbers.as_pointer())
    value = builder.load(place, align=4 if narrow else ELEMENT_ALIGNMENT)
    return builder.fpext(value, _VECTOR) if narrow else value


@lower_builtin(store_elements, types.Array, types.intp, vector)
def _store_elements(context, builder, sig, args):
    """Emit ``store_elements``: write a vector to eight consecutive elements."""
    (kind, *_), (numbers, k, value) = sig.args, args
    converted = ir.VectorType(_KINDS_OF[kind.dtype], WIDTH)
    if kind.dtype == types.int64:  # AVX2 has no conversion: of a sum with 1.5 * 2**52 the low bits are the integer
        offset = ir.Constant(_VECTOR, [1.5 * 2.0**52] * WIDTH)
        value = builder.bitcast(builder.fadd(value, offset), converted)
        value = builder.sub(value, builder.bitcast(offset, converted))
    elif isinstance(kind.dtype, types.Integer):
        value = builder.fptosi(value, converted)
    place = builder.gep(_extract_field(context, builder, kind, numbers, "data"), [k])
    builder.store(value, builder.bitcast(place, converted.as_pointer()), align=kind.dtype.bitwidth // 8)
    return context.get_dummy_value()


def _shuffle_mask(places):
    """Return a shuffle mask as IR constant."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), [ir.IntType(32)(k) for k in places])


def _emit_transpose(builder, rows):
    """Emit an 8 x 8 transpose: three rounds of shuffles that exchange blocks of half the size between pairs of rows."""
    for half in (4, 2, 1):
        low = [k + WIDTH - half if k & half else k for k in range(WIDTH)]
        high = [k + half for k in low]
        new = list(rows)
        for k in range(WIDTH):
            if not k & half:
                pair = rows[k], rows[k + half]
                for place, chosen in ((k, low), (k + half, high)):
                    new[place] = builder.shuffle_vector(*pair, _shuffle_mask(chosen))
        rows = new
    return rows


def _row_pointer(context, builder, kind, value, row, column):
    """Emit a pointer to eight elements of ``a[row, column]``."""
    cols = builder.extract_value(_extract_field(context, builder, kind, value, "shape"), 1)
    data = _extract_field(context, builder, kind, value, "data")
    start = builder.gep(data, [builder.add(builder.mul(row, cols), column)])
    return builder.bitcast(start, ir.VectorType(_NUMBERS_OF[kind.dtype], WIDTH).as_pointer())


def _emit_conversion(context, builder, cells, kind):
    """Emit the conversion of eight integers to float64, rounded to nearest.

    Without AVX-512 an x86 processor converts int64 one by one. There the two halves of an integer become the last bits
    of two float64, 2**84 + 2**63 and 2**52 apart from their values: the difference of the first is exact, so that the
    sum rounds once.
    """
    features = context.codegen().magic_tuple()[2]
    if kind != types.int64 or "+avx2" not in features or "+avx512dq" in features:
        return builder.sitofp(cells, _VECTOR)
    low, high = 0x4330000000000000, 0x4530000080000000  # as float64: 2**52; 2**84 + 2**63
    both = 0x4530000080100000  # 2**84 + 2**63 + 2**52

    def repeat(number):
        return ir.Constant(cells.type, [ir.IntType(64)(number)] * WIDTH)

    upper = builder.bitcast(builder.xor(builder.lshr(cells, repeat(32)), repeat(high)), _VECTOR)
    lower = builder.bitcast(builder.or_(builder.and_(cells, repeat(2**32 - 1)), repeat(low)), _VECTOR)
    return builder.fadd(builder.fsub(upper, builder.bitcast(repeat(both), _VECTOR)), lower)


def _emit_row_load(context, builder, kind, value, row, column):
    """Emit a load of eight elements of a row, converted to float64."""
    place = _row_pointer(context, builder, kind, value, row, column)
    cells = builder.load(place, align=kind.dtype.bitwidth // 8)
    if isinstance(kind.dtype, types.Integer):
        return _emit_conversion(context, builder, cells, kind.dtype)
    return cells if kind.dtype == types.float64 else builder.fpext(cells, _VECTOR)


@lower_builtin(collect_signs, vector, types.Array, types.intp, types.intp)
def _collect_signs(context, builder, sig, args):
    """Emit ``collect_signs``: OR the bits of int64 and float64, which need no conversion for it."""
    signs, a, row, column = args
    kind, whole = sig.args[1], ir.VectorType(ir.IntType(64), WIDTH)
    cells = builder.load(_row_pointer(context, builder, kind, a, row, column), align=kind.dtype.bitwidth // 8)
    if kind.dtype == types.int32:
        cells = builder.sext(cells, whole)
    elif kind.dtype == types.float32:
        cells = builder.fpext(cells, _VECTOR)
    return builder.bitcast(builder.or_(builder.bitcast(signs, whole), builder.bitcast(cells, whole)), _VECTOR)


@lower_builtin(load_row, types.Array, types.intp, types.intp)
def _load_row(context, builder, sig, args):
    """Emit ``load_row``."""
    return _emit_row_load(context, builder, sig.args[0], *args)


@lower_builtin(prefetch, types.Array, types.intp, types.intp)
def _fetch(context, builder, sig, args):
    """Emit ``prefetch``: LLVM's prefetch intrinsic, for reading, into all cache levels."""
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    place = builder.bitcast(_row_pointer(context, builder, sig.args[0], *args), byte)
    builder.call(function, [place, word(0), word(3), word(1)])  # to read; into every level; data
    return context.get_dummy_value()


@lower_builtin(store_row, types.Array, types.intp, types.intp, vector)
def _store_row(context, builder, sig, args):
    """Emit ``store_row``."""
    kind, value = sig.args[0], args[3]
    if kind.dtype == types.float32:
        value = builder.fptrunc(value, ir.VectorType(ir.FloatType(), WIDTH))
    builder.store(value, _row_pointer(context, builder, kind, *args[:3]), align=kind.dtype.bitwidth // 8)
    return context.get_dummy_value()


def read_block(context, builder, kind, a, rows, column):
    """Emit the loads and the transpose of ``load_block``; return the eight lines."""
    return _emit_transpose(
        builder,
        [_emit_row_load(context, builder, kind, a, row, column) for row in cgutils.unpack_tuple(builder, rows, WIDTH)],
    )


def write_block(context, builder, kind, a, row, column, lines):
    """Emit the transpose and the stores of ``store_block``."""
    for w, cells in enumerate(_emit_transpose(builder, lines)):
        there = builder.add(row, ir.Constant(row.type, w))
        builder.store(cells, _row_pointer(context, builder, kind, a, there, column), align=ELEMENT_ALIGNMENT)


@jit(inner=True, inline=True)
def load_narrow(lines, k, a, rows, n):
    """Write ``a[rows, :n]``, n < 8, of a float64 array transposed to lines `k` to `k` + n - 1."""
    for j in range(n):
        for w in range(WIDTH):
            lines[k + j, w] = a[rows[w], j]


@jit(inner=True, inline=True)
def store_narrow(lines, k, a, row, n):
    """Write lines `k` to `k` + n - 1, n < 8, transposed to ``a[row : row + 8, :n]``."""
    for j in range(n):
        for w in range(WIDTH):
            a[row + w, j] = lines[k + j, w]


def read_narrow(context, builder, kind, a, rows, n):
    """Emit the loads and the transpose of ``load_narrow``; return the `n` lines."""
    cells, picks = ir.VectorType(ir.DoubleType(), n), _shuffle_mask([min(k, n - 1) for k in range(WIDTH)])
    found = []
    for row in cgutils.unpack_tuple(builder, rows, WIDTH):
        place = builder.bitcast(_element_pointer(context, builder, kind, a, row, 0), cells.as_pointer())
        found.append(
            builder.shuffle_vector(
                builder.load(place, align=ELEMENT_ALIGNMENT), ir.Constant(cells, ir.Undefined), picks
            )
        )
    return _emit_transpose(builder, found)[:n]


def write_narrow(context, builder, kind, a, row, lines):
    """Emit the transpose and the stores of ``store_narrow``, for `n` columns in all: eight rows are `n` vectors."""
    n = len(lines)
    for k in range(n):
        value = lines[0]
        places = [divmod(k * WIDTH + e, n) for e in range(WIDTH)]  # lane and line of each element
        kept = [lane for lane, _ in places]
        for j in range(1, n):
            picks = [WIDTH + lane if line == j else kept[e] for e, (lane, line) in enumerate(places)]
            value = builder.shuffle_vector(value, lines[j], _shuffle_mask(picks))
            kept = list(range(WIDTH))
        start = _element_pointer(context, builder, kind, a, row, k * WIDTH)
        builder.store(value, builder.bitcast(start, _VECTOR.as_pointer()), align=ELEMENT_ALIGNMENT)


def _element_pointer(context, builder, kind, value, row, column):
    """Emit a pointer to ``a[row, column]`` for a column known at compile time."""
    array = context.make_array(kind)(context, builder, value)
    cols = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.add(builder.mul(row, cols), ir.Constant(row.type, column))])


@lower_builtin(load_block, types.Array, types.intp, types.Array, _PLACES, types.intp)
def _load_block(context, builder, sig, args):
    """Emit ``load_block``."""
    lines, k, a, rows, column = args
    for w, line in enumerate(read_block(context, builder, sig.args[2], a, rows, column)):
        place = _line_pointer(context, builder, sig.args[0], lines, builder.add(k, ir.Constant(k.type, w)))
        builder.store(line, place, align=ELEMENT_ALIGNMENT)
    return context.get_dummy_value()


@lower_builtin(store_block, types.Array, types.intp, types.Array, types.intp, types.intp)
def _store_block(context, builder, sig, args):
    """Emit ``store_block``."""
    lines, k, a, row, column = args
    places = [builder.add(k, ir.Constant(k.type, w)) for w in range(WIDTH)]
    values = [
        builder.load(_line_pointer(context, builder, sig.args[0], lines, place), align=ELEMENT_ALIGNMENT)
        for place in places
    ]
    write_block(context, builder, sig.args[2], a, row, column, values)
    return context.get_dummy_value()
