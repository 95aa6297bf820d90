"""The steps by which Numba compiles a kernel, less those that find nothing in one.

Each of these reads the whole function, and some work out the life of every variable once more: a tenth of the time in
which much is compiled. Left out are closures and comprehensions within kernels, ``with``, texts of exceptions made of
values, and one loop for several operators on whole arrays: kernels have loops, and those that contain the others do not
compile. Functions of Numba that kernels call, and what these contain, are compiled as ever.

Three steps have something left out, and of the commonest operators it stands here what they give.
"""

import operator
from typing import Any, ClassVar

from numba.core import transforms, types  # noqa: TID251
from numba.core.compiler import CompilerBase, DefaultPassBuilder  # noqa: TID251
from numba.core.compiler_machinery import register_pass  # noqa: TID251
from numba.core.ir_utils import build_definitions  # noqa: TID251
from numba.core.ssa import reconstruct_ssa  # noqa: TID251
from numba.core.typed_passes import PreLowerStripPhis  # noqa: TID251
from numba.core.typing.templates import AbstractTemplate, infer_global, signature  # noqa: TID251
from numba.core.untyped_passes import IRProcessing, ReconstructSSA  # noqa: TID251

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


# These three work out the life of every variable, which only generators need before the code is written.


@register_pass(mutates_CFG=True, analysis_only=False)
class _BasicBlocks(IRProcessing):  # type: ignore[misc]  # Numba is untyped
    _name = "blocks_of_kernel"

    def run_pass(self, state: Any) -> bool:
        state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _Assignments(ReconstructSSA):  # type: ignore[misc]  # Numba is untyped
    _name = "assignments_of_kernel"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _Choices(PreLowerStripPhis):  # type: ignore[misc]  # Numba is untyped
    _name = "choices_of_kernel"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


INSTEAD = {IRProcessing: _BasicBlocks, ReconstructSSA: _Assignments, PreLowerStripPhis: _Choices}


class Compiler(CompilerBase):  # type: ignore[misc]  # Numba is untyped
    """Numba's compiler, for kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return Numba's steps without those that find nothing in kernels."""
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        needed = [(step, text) for step, text in steps.passes if step.__name__ not in NEEDLESS]
        steps.passes = [(INSTEAD.get(step, step), text) for step, text in needed]
        steps.finalize()
        return [steps]


_WHOLE, _REAL, _TRUTH = types.int64, types.float64, types.boolean
_SUMS = {(x, x): signature(x, x, x) for x in (_WHOLE, _REAL)}
_TESTS = {(x, x): signature(_TRUTH, x, x) for x in (_WHOLE, _REAL)}
# What the type inference would find, so that it need not go through all that Numba knows of an operator: every sum of
# two indices is looked up twice, which was a tenth of the time in which much is compiled.
KNOWN: dict[Any, dict[Any, Any]] = {
    **dict.fromkeys((operator.add, operator.sub, operator.mul), _SUMS),
    **dict.fromkeys((operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne), _TESTS),
    operator.truediv: {(_REAL, _REAL): signature(_REAL, _REAL, _REAL)},
    bool: {(_TRUTH,): signature(_TRUTH, _TRUTH)},
}


def _know(function: Any) -> None:
    """Let the type inference ask here first, which it does by the target; of other types than exactly these go on."""
    known = KNOWN[function]

    class _Known(AbstractTemplate):  # type: ignore[misc]  # Numba is untyped
        metadata: ClassVar = {"target": "cpu"}

        def generic(self, args: Any, kws: Any) -> Any:
            return known.get(tuple(args))

    infer_global(function)(_Known)


for _function in KNOWN:
    _know(_function)
