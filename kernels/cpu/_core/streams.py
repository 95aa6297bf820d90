"""Stores past the caches: what is larger than these, and not read again soon, need not be fetched to be written."""

from llvmlite import ir
from numba.core import types  # noqa: TID251
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate, infer_global, signature  # noqa: TID251
from numba.extending import lower_builtin  # noqa: TID251

from cmfast.kernels.cpu._core.vector import WIDTH, _cell, _is_table, store_row, vector

LINE_BYTES = 64  # what a machine moves at a time


def stream_row(a, row, column, value):
    """Do as ``store_row``; nobody need see it before ``settle``.

    Eight numbers of float64 must be one line of the memory: `a` begins with a line, and so does every row.
    """
    store_row(a, row, column, value)


def settle():
    """Let other threads see what was streamed."""


@infer_global(stream_row)
class _StreamRow(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 4 and not kws and _is_table(args[0], types.float64, types.float32) and args[0].mutable:
            return signature(types.none, args[0], types.intp, types.intp, vector)
        return None


@infer_global(settle)
class _Settle(ConcreteTemplate):
    cases = (signature(types.none),)


@lower_builtin(stream_row, types.Array, types.intp, types.intp, vector)
def _stream_row(context, builder, sig, args):
    kind, value = sig.args[0], args[3]
    place = _cell(context, builder, kind, *args[:3])
    if kind.dtype == types.float32:  # half a line, which would wait for the other half
        builder.store(builder.fptrunc(value, ir.VectorType(ir.FloatType(), WIDTH)), place, align=4)
    else:
        store = builder.store(value, place, align=LINE_BYTES)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
    return context.get_dummy_value()


@lower_builtin(settle)
def _settle(context, builder, sig, args):
    builder.fence("seq_cst")
    return context.get_dummy_value()
