"""Population count, wrapping multiply-add and unaligned load as one instruction; Python fallbacks do not overflow."""

import numpy as np
from llvmlite import ir

from cmfast.kernels.cpu._core.numba_internals import (
    AbstractTemplate,
    ConcreteTemplate,
    infer_global,
    lower_builtin,
    signature,
    types,
)


def popcount(word):
    """Return the number of set bits of an int64 (population count)."""
    return (int(word) & (2**64 - 1)).bit_count()


def add_product(total, a, b):
    """Return ``total + a * b`` of int64, modulo 2^64."""
    wrapped = (int(total) + int(a) * int(b)) & (2**64 - 1)
    return np.int64(wrapped - (2**64 if wrapped >> 63 else 0))


def read_word(data, at):
    """Return the eight bytes ``data[at : at + 8]`` of a contiguous uint8 array as a uint64, the first one lowest."""
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


@infer_global(read_word)
class _ReadWord(AbstractTemplate):  # type: ignore[misc]  # Numba is untyped
    def generic(self, args, kws):
        """Return the signature for these argument types, or None if they do not fit."""
        fits = len(args) == 2 and not kws and isinstance(args[0], types.Array) and args[0].dtype == types.uint8
        return signature(types.uint64, args[0], types.intp) if fits and args[0].layout == "C" else None


@lower_builtin(read_word, types.Array, types.intp)
def _read_word(context, builder, sig, args):
    """Emit an unaligned load; the processors that Numba compiles for store the lowest byte first."""
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    return builder.load(builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer()), align=1)


@infer_global(add_product)
class _AddProduct(ConcreteTemplate):  # type: ignore[misc]  # Numba is untyped
    cases = (signature(types.int64, types.int64, types.int64, types.int64),)


@lower_builtin(add_product, types.int64, types.int64, types.int64)
def _add_product(context, builder, sig, args):
    """Emit a wrapping multiply-add."""
    total, a, b = args
    return builder.add(total, builder.mul(a, b))


@infer_global(popcount)
class _Popcount(ConcreteTemplate):  # type: ignore[misc]  # Numba is untyped
    cases = (signature(types.int64, types.int64),)


@lower_builtin(popcount, types.int64)
def _popcount(context, builder, sig, args):
    """Emit the population-count instruction."""
    return builder.ctpop(args[0])
