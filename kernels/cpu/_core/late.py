"""Parts of kernels that few inputs need: they are compiled when the first does, and called by their address.

Within a kernel they would be compiled with it, for seconds that nearly nobody has any use for. As kernels of their own,
called from Python in turns, they would cost every tile a way through Python. So a kernel that finds an address missing
returns the number of the part, has it compiled (:meth:`Parts.compile`), and is called again where it stopped.
"""

from collections.abc import Callable
from typing import Any

import numba  # noqa: TID251
import numpy as np
from numba.core import cgutils, types  # noqa: TID251
from numba.core.typing.templates import AbstractTemplate, infer_global, signature  # noqa: TID251
from numba.extending import lower_builtin  # noqa: TID251

from cmfast.kernels.cpu._core.jit import F, jit


class LateParts:
    """The parts of the kernels of a topic, numbered from 1 on."""

    addresses: np.ndarray[Any, np.dtype[np.int64]]
    """Where each begins in memory, 0 where it is not compiled; kernels are handed it."""

    def __init__(self, count: int) -> None:
        self.addresses = np.zeros(count + 1, np.int64)
        self._parts: dict[int, tuple[Any, Callable[[], tuple[Any, ...]]]] = {}
        self._returns: dict[int, types.Type] = {}

    def part(self, number: int, takes: Callable[[], tuple[Any, ...]], returns: Any) -> Callable[[F], Any]:
        """Make a function such a part: within kernels it is called with the addresses in front of its arguments.

        `takes` gives values of the types of its arguments, and `returns` is one of what it returns: what has been
        compiled cannot ask any more what it was compiled with. It must not be called where its address is 0.
        """

        def decorate(function: F) -> Any:
            def call(addresses, *args):  # without compilation
                return function(*args)

            compiled: Any = jit(late=True)(function)
            self._parts[number] = compiled, takes
            result = self._returns[number] = numba.typeof(returns)

            class _Call(AbstractTemplate):  # type: ignore[misc]  # Numba is untyped
                key = call

                def generic(self, args: Any, kws: Any) -> Any:
                    kinds = [numba.typeof(value) for value in takes()]
                    return signature(result, args[0], *kinds) if len(args) == len(kinds) + 1 else None

            @lower_builtin(call, types.Array, types.misc.VarArg(types.Any))  # type: ignore[untyped-decorator]
            def _by_address(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                table = context.make_array(sig.args[0])(context, builder, args[0])
                address = builder.load(cgutils.gep(builder, table.data, number))
                convention, kinds = context.call_conv, sig.args[1:]
                there = builder.inttoptr(address, convention.get_function_type(result, kinds).as_pointer())
                status, found = convention.call_function(builder, there, result, kinds, args[1:])
                with cgutils.if_unlikely(builder, status.is_error):
                    convention.return_status_propagate(builder, status)
                return found

            infer_global(call, types.Function(_Call))
            return call

        return decorate

    def compile(self, number: int) -> None:
        """Compile a part, or find it in the cache, so that kernels can call it from here on."""
        compiled, takes = self._parts[number]
        if not hasattr(compiled, "overloads"):  # with NUMBA_DISABLE_JIT
            self.addresses[number] = 1
            return
        kinds = tuple(numba.typeof(value) for value in takes())
        compiled.compile(kinds)
        found = compiled.overloads[kinds]
        if found.signature.return_type != self._returns[number]:
            msg = f"{found.fndesc.qualname} returns {found.signature.return_type}, not {self._returns[number]}"
            raise AssertionError(msg)
        self.addresses[number] = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
