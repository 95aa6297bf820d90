"""Lazily compiled kernel parts, called through function pointers once an input needs them.

Inside the kernel they would cost every process seconds of compilation that few inputs need; as separate kernels called
from Python they would cost every tile a return to Python. So a kernel that finds a null pointer returns the number of
the part, its caller compiles it (:meth:`LateParts.compile`), and the kernel is called again where it stopped.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core.jit import F, jit
from cmfast.kernels.cpu._core.numba_internals import (
    AbstractTemplate,
    cgutils,
    infer_global,
    lower_builtin,
    numba,
    signature,
    types,
)


class LateParts:
    """Table of lazily compiled parts of a topic's kernels, numbered from 1, with their function pointers."""

    addresses: np.ndarray[Any, np.dtype[np.int64]]
    """Function pointer of each part, 0 until it is compiled; kernels take this array as an argument."""

    def __init__(self, count: int) -> None:
        self.addresses = np.zeros(count + 1, np.int64)
        self._parts: dict[int, tuple[Any, Callable[[], tuple[Any, ...]]]] = {}
        self._returns: dict[int, types.Type] = {}

    def part(self, number: int, takes: Callable[[], tuple[Any, ...]], returns: Any) -> Callable[[F], Any]:
        """Return a decorator that makes a function part `number`; kernels call it with `addresses` as first argument.

        `takes` returns example arguments and `returns` is an example result: they fix the signature, which a kernel
        from the cache cannot infer again. Calling a part whose address is 0 is undefined.
        """

        def decorate(function: F) -> Any:
            """Register one function as the part and return its caller."""

            def call(addresses, *args):  # without compilation
                """Call the part directly: the Python equivalent, without compilation."""
                return function(*args)

            compiled: Any = jit(late=True)(function)
            self._parts[number] = compiled, takes
            result = self._returns[number] = numba.typeof(returns)

            class _Call(AbstractTemplate):  # type: ignore[misc]  # Numba is untyped
                key = call

                def generic(self, args: Any, kws: Any) -> Any:
                    """Return the signature of the part, or None if the number of arguments is not that of the part."""
                    kinds = [numba.typeof(value) for value in takes()]
                    return signature(result, args[0], *kinds) if len(args) == len(kinds) + 1 else None

            @lower_builtin(call, types.Array, types.misc.VarArg(types.Any))  # type: ignore[untyped-decorator]
            def _call_through_pointer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                """Emit a call through the function pointer of the part."""
                table = context.make_array(sig.args[0])(context, builder, args[0])
                address = builder.load(cgutils.gep(builder, table.data, number))
                convention, kinds = context.call_conv, sig.args[1:]
                pointer = builder.inttoptr(address, convention.get_function_type(result, kinds).as_pointer())
                status, value = convention.call_function(builder, pointer, result, kinds, args[1:])
                with cgutils.if_unlikely(builder, status.is_error):
                    convention.return_status_propagate(builder, status)
                return value

            infer_global(call, types.Function(_Call))
            return call

        return decorate

    def compile(self, number: int) -> None:
        """Compile a part, or load it from the cache, and store its function pointer in `addresses`."""
        compiled, takes = self._parts[number]
        if not hasattr(compiled, "overloads"):  # with NUMBA_DISABLE_JIT
            self.addresses[number] = 1
            return
        kinds = tuple(numba.typeof(value) for value in takes())
        compiled.compile(kinds)
        overload = compiled.overloads[kinds]
        if overload.signature.return_type != self._returns[number]:
            msg = f"{overload.fndesc.qualname} returns {overload.signature.return_type}, not {self._returns[number]}"
            raise AssertionError(msg)
        self.addresses[number] = overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name)
