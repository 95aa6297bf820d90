"""Numba's compiler pipeline for kernels, without the passes that change nothing in them.

Each pass reads the whole function, and some compute the liveness of every variable again: a tenth of the compile time.
Dropped are closures and comprehensions inside kernels, ``with``, exception texts made of values and loop fusion of
array expressions; kernels use loops, and one that contains the others does not compile. Numba's own functions keep
their passes. Three passes are replaced by shorter ones, and typing of the commonest operators is a table lookup.
"""

import operator
from typing import Any, ClassVar

from cmfast.kernels.cpu._core.numba_internals import (
    AbstractTemplate,
    CompilerBase,
    DefaultPassBuilder,
    IRProcessing,
    PreLowerStripPhis,
    ReconstructSSA,
    build_definitions,
    infer_global,
    reconstruct_ssa,
    register_pass,
    signature,
    transforms,
    types,
)

# By name, because another version of Numba may lack one of them.
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


# These three compute the liveness of every variable, which before lowering only generators need.


@register_pass(mutates_CFG=True, analysis_only=False)
class _BasicBlocks(IRProcessing):  # type: ignore[misc]  # Numba is untyped
    """Numba pass: canonicalise the control-flow graph, without liveness analysis."""

    _name = "blocks_of_kernel"

    def run_pass(self, state: Any) -> bool:
        """Canonicalise the control-flow graph."""
        state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _Assignments(ReconstructSSA):  # type: ignore[misc]  # Numba is untyped
    """Numba pass: convert to static single assignment, without liveness analysis."""

    _name = "assignments_of_kernel"

    def run_pass(self, state: Any) -> bool:
        """Convert the function to static single assignment."""
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _Choices(PreLowerStripPhis):  # type: ignore[misc]  # Numba is untyped
    """Numba pass: strip phi nodes before lowering, without liveness analysis."""

    _name = "choices_of_kernel"

    def run_pass(self, state: Any) -> bool:
        """Strip the phi nodes."""
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


INSTEAD = {IRProcessing: _BasicBlocks, ReconstructSSA: _Assignments, PreLowerStripPhis: _Choices}


class Compiler(CompilerBase):  # type: ignore[misc]  # Numba is untyped
    """Numba compiler with the shortened pass pipeline of kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return Numba's nopython pipeline without needless passes and with three replaced."""
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        needed = [(step, text) for step, text in steps.passes if step.__name__ not in NEEDLESS]
        steps.passes = [(INSTEAD.get(step, step), text) for step, text in needed]
        steps.finalize()
        return [steps]


_WHOLE, _REAL, _TRUTH = types.int64, types.float64, types.boolean
_SUMS = {(x, x): signature(x, x, x) for x in (_WHOLE, _REAL)}
_TESTS = {(x, x): signature(_TRUTH, x, x) for x in (_WHOLE, _REAL)}
# Signatures that type inference would find by trying all overloads of an operator: every sum of two indices is typed
# twice, which was a tenth of the compile time of large kernels.
KNOWN: dict[Any, dict[Any, Any]] = {
    **dict.fromkeys((operator.add, operator.sub, operator.mul), _SUMS),
    **dict.fromkeys((operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne), _TESTS),
    operator.truediv: {(_REAL, _REAL): signature(_REAL, _REAL, _REAL)},
    bool: {(_TRUTH,): signature(_TRUTH, _TRUTH)},
}


def _register_known_signatures(function: Any) -> None:
    """Register the signatures of `KNOWN` for an operator, so that inference tries them before Numba's overloads."""
    known = KNOWN[function]

    class _KnownSignatures(AbstractTemplate):  # type: ignore[misc]  # Numba is untyped
        """Numba typing template that looks signatures up; other argument types fall through to Numba."""

        metadata: ClassVar = {"target": "cpu"}

        def generic(self, args: Any, kws: Any) -> Any:
            """Return the signature for these argument types, or None if they do not fit."""
            return known.get(tuple(args))

    infer_global(function)(_KnownSignatures)


for _function in KNOWN:
    _register_known_signatures(_function)
