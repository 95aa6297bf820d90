"""Population count and wrapping multiply-add of int64 as single instructions; the Python fallbacks do not overflow."""

import numpy as np
from numba.core import types  # noqa: TID251
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature  # noqa: TID251
from numba.extending import lower_builtin  # noqa: TID251


def popcount(word):
    """Return the number of set bits of an int64 (population count)."""
    return (int(word) & (2**64 - 1)).bit_count()


def add_product(total, a, b):
    """Return ``total + a * b`` of int64, modulo 2^64."""
    wrapped = (int(total) + int(a) * int(b)) & (2**64 - 1)
    return np.int64(wrapped - (2**64 if wrapped >> 63 else 0))


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
