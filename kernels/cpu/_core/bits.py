"""How many bits of a word are set: one instruction, and no multiplication that overflows where nothing is compiled."""

from numba.core import types  # noqa: TID251
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature  # noqa: TID251
from numba.extending import lower_builtin  # noqa: TID251


def popcount(word):
    """Return how many bits of an int64 are set."""
    return (int(word) & (2**64 - 1)).bit_count()


@infer_global(popcount)
class _Popcount(ConcreteTemplate):  # type: ignore[misc]  # Numba is untyped
    cases = (signature(types.int64, types.int64),)


@lower_builtin(popcount, types.int64)
def _popcount(context, builder, sig, args):
    return builder.ctpop(args[0])
