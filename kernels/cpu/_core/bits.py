"""Bits of words by one instruction, and products modulo 2^64, which are no overflow where nothing is compiled."""

import numpy as np
from numba.core import types  # noqa: TID251
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature  # noqa: TID251
from numba.extending import lower_builtin  # noqa: TID251


def popcount(word):
    """Return how many bits of an int64 are set."""
    return (int(word) & (2**64 - 1)).bit_count()


def add_product(total, a, b):
    """Return ``total + a * b`` of int64, modulo 2^64."""
    found = (int(total) + int(a) * int(b)) & (2**64 - 1)
    return np.int64(found - (2**64 if found >> 63 else 0))


@infer_global(add_product)
class _AddProduct(ConcreteTemplate):  # type: ignore[misc]  # Numba is untyped
    cases = (signature(types.int64, types.int64, types.int64, types.int64),)


@lower_builtin(add_product, types.int64, types.int64, types.int64)
def _add_product(context, builder, sig, args):
    total, a, b = args
    return builder.add(total, builder.mul(a, b))


@infer_global(popcount)
class _Popcount(ConcreteTemplate):  # type: ignore[misc]  # Numba is untyped
    cases = (signature(types.int64, types.int64),)


@lower_builtin(popcount, types.int64)
def _popcount(context, builder, sig, args):
    return builder.ctpop(args[0])
