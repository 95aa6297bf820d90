"""Functions that only kernels call: they are optimised and become machine code within these, and only there.

Numba does both for each function by itself, and again for every function around it: thirty functions, four deep, took
nearly twice as long to compile. How to leave that out is not public. Tried with Numba 0.61 to 0.68; where another one
has no such step that ours could replace, the first call says so.
"""

from typing import Any

import numba  # noqa: TID251
import numba.core.typed_passes as passes  # noqa: TID251
from llvmlite import binding
from numba import _dynfunc  # noqa: TID251
from numba.core.codegen import JITCodeLibrary  # noqa: TID251
from numba.core.compiler import CompileResult  # noqa: TID251
from numba.core.compiler_machinery import register_pass  # noqa: TID251

from cmfast.kernels.cpu._core import steps


class _Library(JITCodeLibrary):  # type: ignore[misc]  # Numba is untyped
    """The code of one function, as it was written: it waits to be linked into a kernel."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        """Return what a cache keeps: there is no object code."""
        return self.serialize_using_bitcode()


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(passes.NativeLowering):  # type: ignore[misc]  # Numba is untyped
    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Write the code, and let kernels know where to find it."""
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state.cr
        if lowered.env.consts:  # within a kernel it would not find them
            msg = f"{lowered.fndesc.qualname} holds Python objects"
            raise AssertionError(msg)
        entry = _entry(lowered.fndesc, lowered.env, state.library)
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state.cr = lowered._replace(cfunc=entry)
        return True


def _entry(fndesc: Any, env: Any, library: _Library) -> Any:
    """Return the name by which Numba knows the function; nobody can call it."""
    return _dynfunc.make_function(fndesc.lookup_module(), fndesc.qualname, fndesc.qualname, 0, env, (library,))


class InnerCompiler(steps.Compiler):
    """The compiler of kernels, up to the code that they link."""

    def define_pipelines(self) -> list[Any]:
        """Return the steps of kernels, with one of them ours."""
        [found] = super().define_pipelines()
        if [step for step, _ in found.passes].count(passes.NativeLowering) != 1:
            msg = f"Numba {numba.__version__} lowers functions in another way than those that cmfast knows"
            raise RuntimeError(msg)
        found.passes = [(_Lowering if step is passes.NativeLowering else step, text) for step, text in found.passes]
        found.finalize()
        return [found]


def rebuild(target_context: Any, payload: tuple[Any, ...]) -> CompileResult:
    """Return a function as it was when a cache wrote it."""
    (name, _, code), fndesc, env, signature, objectmode, lifted, annotation, reload_init, _ = payload
    library = _Library(target_context.codegen(), name)
    library._final_module = binding.parse_bitcode(code)
    library._finalize_final_module()
    found = dict.fromkeys(CompileResult._fields) | {
        "typing_context": target_context.typing_context,
        "target_context": target_context,
        "entry_point": _entry(fndesc, env, library),
        "type_annotation": annotation,
        "signature": signature,
        "objectmode": objectmode,
        "lifted": lifted,
        "fndesc": fndesc,
        "library": library,
        "environment": env,
        "reload_init": reload_init,
        "referenced_envs": [],
    }
    return CompileResult(**found)
