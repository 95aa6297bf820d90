"""Non-temporal stores: write large results that are not read again soon past the caches, without fetching lines."""

from llvmlite import ir

from cmfast.kernels.cpu._core.numba_internals import (
    AbstractTemplate,
    ConcreteTemplate,
    infer_global,
    lower_builtin,
    signature,
    types,
)
from cmfast.kernels.cpu._core.vector import WIDTH, _is_table, _row_pointer, store_row, vector

CACHE_LINE_BYTES = 64  # the unit in which memory is moved


def stream_row(a, row, column, value):
    """Write a vector to ``a[row, column : column + 8]`` past the caches; visible to other threads after ``settle``.

    For float64 the eight values must be one cache line: `a` and each of its rows begin at one. A float32 vector is half
    a line and is stored normally.
    """
    store_row(a, row, column, value)


def settle():
    """Issue a memory fence, so that other threads see what ``stream_row`` wrote."""


@infer_global(stream_row)
class _StreamRow(AbstractTemplate):
    """Numba typing of ``stream_row``."""

    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        if len(args) == 4 and not kws and _is_table(args[0], types.float64, types.float32) and args[0].mutable:
            return signature(types.none, args[0], types.intp, types.intp, vector)
        return None


@infer_global(settle)
class _Settle(ConcreteTemplate):
    """Numba typing of ``settle``."""

    cases = (signature(types.none),)


@lower_builtin(stream_row, types.Array, types.intp, types.intp, vector)
def _stream_row(context, builder, sig, args):
    """Emit a non-temporal store of a vector, or a plain one for float32."""
    kind, value = sig.args[0], args[3]
    pointer = _row_pointer(context, builder, kind, *args[:3])
    if kind.dtype == types.float32:  # half a cache line: a non-temporal store would wait for the other half
        builder.store(builder.fptrunc(value, ir.VectorType(ir.FloatType(), WIDTH)), pointer, align=4)
    else:
        store = builder.store(value, pointer, align=CACHE_LINE_BYTES)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
    return context.get_dummy_value()


@lower_builtin(settle)
def _settle(context, builder, sig, args):
    """Emit a sequentially consistent fence."""
    builder.fence("seq_cst")
    return context.get_dummy_value()
