"""Panels of columns in registers: pack rows into panels, and multiply the columns of two panels."""

import numpy as np
from llvmlite import ir

from cmfast.kernels.cpu._core.numba_internals import (
    AbstractTemplate,
    cgutils,
    infer_global,
    lower_builtin,
    signature,
    types,
)

PANEL_BYTES = 64  # of a row of a panel: one register of AVX-512, two of AVX2


def multiply_panels(packed, p, q, rows, out):
    """Add the products of the columns of panels `p` and `q`, summed over the first `rows` rows, to a tile of `out`.

    `packed` is (panel, row, column of the panel), `out` float64.
    """
    width = packed.shape[2]
    found = packed[p, :rows].T @ packed[q, :rows]
    out[p * width : (p + 1) * width, q * width : (q + 1) * width] += found


@infer_global(multiply_panels)
class _MultiplyPanels(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        packed, out = args[0], args[-1]
        fits = len(args) == 5 and not kws and isinstance(packed, types.Array) and packed.ndim == 3
        if fits and packed.dtype in (types.float32, types.float64) and out.dtype == types.float64:
            return signature(types.none, packed, types.intp, types.intp, types.intp, out)
        return None


@lower_builtin(multiply_panels, types.Array, types.intp, types.intp, types.intp, types.Array)
def _multiply_panels(context, builder, sig, args):
    """Emit ``multiply_panels``: as many rows of the tile at a time as registers hold."""
    kind = sig.args[0]
    packed, out = (context.make_array(sig.args[k])(context, builder, args[k]) for k in (0, 4))
    _, p, q, rows, _ = args
    number, size = context.get_data_type(kind.dtype), kind.dtype.bitwidth // 8
    width = PANEL_BYTES // size
    lines = 8 if "+avx512f" in context.codegen().magic_tuple()[2] else 4
    vector, sums = ir.VectorType(number, width), ir.VectorType(ir.DoubleType(), width)
    name = f"llvm.fmuladd.v{width}f{8 * size}"
    fuse = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
    whole = p.type
    panel = builder.mul(builder.extract_value(packed.shape, 1), whole(width))
    first, second = (builder.gep(packed.data, [builder.mul(k, panel)]) for k in (p, q))
    columns = builder.extract_value(out.shape, 1)
    corner = builder.add(builder.mul(builder.mul(p, whole(width)), columns), builder.mul(q, whole(width)))
    splat = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    found = [cgutils.alloca_once(builder, vector) for _ in range(lines)]  # become registers
    for group in range(0, width, lines):
        for place in found:
            builder.store(ir.Constant(vector, [0.0] * width), place)
        with cgutils.for_range(builder, rows) as loop:
            row = builder.mul(loop.index, whole(width))
            b = builder.load(builder.bitcast(builder.gep(second, [row]), vector.as_pointer()), align=size)
            for k, place in enumerate(found):
                a = builder.load(builder.gep(first, [builder.add(row, whole(group + k))]))
                undefined = ir.Constant(vector, ir.Undefined)
                a = builder.shuffle_vector(builder.insert_element(undefined, a, ir.IntType(32)(0)), undefined, splat)
                builder.store(builder.call(fuse, [a, b, builder.load(place)]), place)
        for k, place in enumerate(found):
            there = builder.add(corner, builder.mul(whole(group + k), columns))
            there = builder.bitcast(builder.gep(out.data, [there]), sums.as_pointer())
            value = builder.load(place)
            if value.type != sums:
                value = builder.fpext(value, sums)
            builder.store(builder.fadd(builder.load(there, align=8), value), there, align=8)
    return context.get_dummy_value()


def subtract_row(block, r, near, packed, k):
    """Write row `r` of a block, minus `near`, to row `k` of all panels; it must be as wide as a panel at least.

    The last panel has the last columns: it repeats some of the panel before unless the columns fill all panels.
    """
    width = packed.shape[2]
    for p in range(len(packed)):
        start = min(p * width, block.shape[1] - width)
        packed[p, k] = block[r, start : start + width] - near[start : start + width]


@infer_global(subtract_row)
class _SubtractRow(AbstractTemplate):
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        block, _, near, packed, _ = args
        if near.dtype == packed.dtype and block.dtype in (types.float32, packed.dtype):
            return signature(types.none, block, types.intp, near, packed, types.intp)
        return None


@lower_builtin(subtract_row, types.Array, types.intp, types.Array, types.Array, types.intp)
def _subtract_row(context, builder, sig, args):
    """Emit ``subtract_row``: for each panel a load, a subtraction and a store, which Numba's loops do not become."""
    block, near, packed = (context.make_array(sig.args[k])(context, builder, args[k]) for k in (0, 2, 3))
    size, whole = sig.args[3].dtype.bitwidth // 8, args[1].type
    width = PANEL_BYTES // size
    vector, source_vector = (ir.VectorType(context.get_data_type(sig.args[k].dtype), width) for k in (3, 0))
    columns, depth = builder.extract_value(block.shape, 1), builder.extract_value(packed.shape, 1)
    source = builder.gep(block.data, [builder.mul(args[1], columns)])
    target = builder.gep(packed.data, [builder.mul(args[4], whole(width))])
    last = builder.sub(columns, whole(width))
    with cgutils.for_range(builder, builder.extract_value(packed.shape, 0)) as loop:
        place = builder.mul(loop.index, whole(width))
        there = builder.gep(target, [builder.mul(place, depth)])
        place = builder.select(builder.icmp_signed("<", place, last), place, last)
        value, centre = (
            builder.load(builder.bitcast(builder.gep(data, [place]), kind.as_pointer()), align=bytes_each)
            for data, kind, bytes_each in (
                (source, source_vector, sig.args[0].dtype.bitwidth // 8),
                (near.data, vector, size),
            )
        )
        if value.type != vector:
            value = builder.fpext(value, vector)
        builder.store(builder.fsub(value, centre), builder.bitcast(there, vector.as_pointer()), align=size)
    return context.get_dummy_value()


def new_panels(n, rows, dtype):
    """Return panels of `rows` rows for `n` columns in all, zero and aligned to cache lines."""
    width = PANEL_BYTES // dtype.itemsize
    # One more row than is used, or the rows of all panels would share few lines of the level-1 cache.
    panels, size = -(-n // width), (rows + 1) * width
    numbers = np.zeros(panels * size + width, dtype)
    skip = -(numbers.ctypes.data // dtype.itemsize) % width
    return numbers[skip : skip + panels * size].reshape(panels, -1, width)
