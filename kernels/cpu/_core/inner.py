"""Compile functions that only kernels call to LLVM bitcode, which is optimised once, inside the kernel that links it.

Numba would optimise each function by itself and again in every caller: thirty functions, four levels deep, took nearly
twice as long to compile. No public option skips that. Tried with Numba 0.61 to 0.68; with a version whose compiler has
no pass that can be replaced, the first call raises.
"""

from typing import Any

from llvmlite import binding

from cmfast.kernels.cpu._core import compiler_passes
from cmfast.kernels.cpu._core.numba_internals import (
    CompileResult,
    JITCodeLibrary,
    NativeLowering,
    make_function,
    numba,
    register_pass,
)


class _Library(JITCodeLibrary):  # type: ignore[misc]  # Numba is untyped
    """Code library of one function that keeps unoptimised bitcode, to be linked into a kernel."""

    def _optimize_final_module(self) -> None:
        """Skip the optimisation: the kernel that links the code optimises it."""

    def _finalize_final_module(self) -> None:
        """Mark the library as finished without compiling it."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        """Return bitcode for the cache: the library has no object code."""
        return self.serialize_using_bitcode()


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):  # type: ignore[misc]  # Numba is untyped
    """Numba pass that lowers a function to bitcode and registers it for the kernels that call it."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower the function to LLVM IR and register its library with the target, so that kernels can link it."""
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
    """Return the placeholder function object by which Numba identifies the function; calling it is not supported."""
    return make_function(fndesc.lookup_module(), fndesc.qualname, fndesc.qualname, 0, env, (library,))


class InnerCompiler(compiler_passes.Compiler):
    """Compiler pipeline of functions that only kernels call: as for kernels, but it stops at bitcode."""

    def define_pipelines(self) -> list[Any]:
        """Return the kernel pipeline with the lowering pass replaced by `_Lowering`; raise if it cannot be."""
        [pipeline] = super().define_pipelines()
        if [step for step, _ in pipeline.passes].count(NativeLowering) != 1:
            msg = f"Numba {numba.__version__} has another lowering pass than the versions that cmfast supports"
            raise RuntimeError(msg)
        pipeline.passes = [(_Lowering if step is NativeLowering else step, text) for step, text in pipeline.passes]
        pipeline.finalize()
        return [pipeline]


def rebuild(target_context: Any, payload: tuple[Any, ...]) -> CompileResult:
    """Rebuild Numba's compile result of a function from what the cache stored, without compiling."""
    (name, _, code), fndesc, env, signature, objectmode, lifted, annotation, reload_init, _ = payload
    library = _Library(target_context.codegen(), name)
    library._final_module = binding.parse_bitcode(code)
    library._finalize_final_module()
    fields = dict.fromkeys(CompileResult._fields) | {
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
    return CompileResult(**fields)
