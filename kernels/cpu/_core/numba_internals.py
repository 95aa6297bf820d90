"""The parts of Numba that cmfast imports, nearly all outside of Numba's documented interface, in one place.

A new release of Numba may change them. ``tests/core/test_numba_internals.py`` tries each group below by itself, so that
a failure there names what changed and which module uses it. Tried with Numba 0.61 to 0.68.

Types and code of our own functions (vector, bits, nontemporal, unroll, late, compiler_passes)
    types, signature, AbstractTemplate, ConcreteTemplate, infer_global, lower_builtin, cgutils, models, register_model
Compiler passes (compiler_passes)
    CompilerBase, DefaultPassBuilder, register_pass, transforms, build_definitions, reconstruct_ssa, IRProcessing,
    ReconstructSSA, PreLowerStripPhis
Functions kept as bitcode (inner)
    NativeLowering, JITCodeLibrary, CompileResult, make_function
Cache, switches and notices of compilation (jit, machine_code)
    CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, rtsys, codegen, config, event
"""

import numba  # noqa: TID251

TESTED = ("0.61", "0.68")  # first and last series

try:
    from numba import _dynfunc  # noqa: TID251
    from numba.core import cgutils, codegen, config, event, transforms, types  # noqa: TID251
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile  # noqa: TID251
    from numba.core.codegen import JITCodeLibrary  # noqa: TID251
    from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder  # noqa: TID251
    from numba.core.compiler_machinery import register_pass  # noqa: TID251
    from numba.core.ir_utils import build_definitions  # noqa: TID251
    from numba.core.runtime import rtsys  # noqa: TID251
    from numba.core.ssa import reconstruct_ssa  # noqa: TID251
    from numba.core.typed_passes import NativeLowering, PreLowerStripPhis  # noqa: TID251
    from numba.core.typing.templates import (  # noqa: TID251
        AbstractTemplate,
        ConcreteTemplate,
        infer_global,
        signature,
    )
    from numba.core.untyped_passes import IRProcessing, ReconstructSSA  # noqa: TID251
    from numba.extending import lower_builtin, models, register_model  # noqa: TID251

    make_function = _dynfunc.make_function
except (ImportError, AttributeError) as error:  # of a release that moved something
    msg = (
        f"cmfast was tested with Numba {TESTED[0]} to {TESTED[1]}, and Numba {numba.__version__} lacks what it uses "
        f"({error}); install an earlier one, as by pip install 'numba<={TESTED[1]}.99'"
    )
    raise ImportError(msg) from error

__all__ = [
    "AbstractTemplate",
    "CompileResult",
    "CompileResultCacheImpl",
    "CompilerBase",
    "ConcreteTemplate",
    "DefaultPassBuilder",
    "FunctionCache",
    "IRProcessing",
    "IndexDataCacheFile",
    "JITCodeLibrary",
    "NativeLowering",
    "PreLowerStripPhis",
    "ReconstructSSA",
    "build_definitions",
    "cgutils",
    "codegen",
    "config",
    "event",
    "infer_global",
    "lower_builtin",
    "make_function",
    "models",
    "numba",
    "reconstruct_ssa",
    "register_model",
    "register_pass",
    "rtsys",
    "signature",
    "transforms",
    "types",
]
