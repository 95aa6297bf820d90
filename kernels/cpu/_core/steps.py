"""The steps by which Numba compiles a kernel, less those that find nothing in one.

Each of these reads the whole function, and some work out the life of every variable once more: a tenth of the time in
which much is compiled. Left out are closures and comprehensions within kernels, ``with``, texts of exceptions made of
values, and one loop for several operators on whole arrays: kernels have loops, and those that contain the others do not
compile. Functions of Numba that kernels call, and what these contain, are compiled as ever.
"""

from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder  # noqa: TID251

# By name, for another version of Numba may lack one of them.
NEEDLESS = {
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "WithLifting",
}


class Compiler(CompilerBase):  # type: ignore[misc]  # Numba is untyped
    """Numba's compiler, for kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return Numba's steps without those that find nothing in kernels."""
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.passes = [(step, text) for step, text in steps.passes if step.__name__ not in NEEDLESS]
        steps.finalize()
        return [steps]
