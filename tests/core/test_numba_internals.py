"""What cmfast uses of Numba beyond its documented interface, each part by itself: a failure names what changed."""

import ast
import inspect
import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
from processes import python

import cmfast
from cmfast.kernels.cpu._core import compiler_passes, jit, numba_internals
from cmfast.kernels.cpu._core.numba_internals import numba, signature, types

pytestmark = pytest.mark.skipif(bool(numba_internals.config.DISABLE_JIT), reason="nothing is compiled")
SOURCES = Path(cmfast.__file__).parent, Path(cmfast.kernels.__file__).resolve().parent


def twice(x):
    raise NotImplementedError


def three():
    raise NotImplementedError


def second(x):
    raise NotImplementedError


def plain(function, **options):
    """Compile with Numba alone."""
    return numba.njit(nogil=True, **options)(function)


@pytest.mark.house
def test_one_module_imports_numba():
    found = set()
    for path in itertools.chain.from_iterable(folder.rglob("*.py") for folder in SOURCES):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if any(module.partition(".")[0] == "numba" for module in modules):
                found.add(path.resolve())
    assert {path.name for path in found} == {"numba_internals.py"}
    assert len(found) == 1


def test_a_template_and_a_builtin_make_a_function():
    """vector.py, bits.py, nontemporal.py: AbstractTemplate, infer_global, lower_builtin, signature."""

    @numba_internals.infer_global(twice)
    class _Twice(numba_internals.AbstractTemplate):
        metadata = {"target": "cpu"}  # noqa: RUF012

        def generic(self, args, kws):
            return signature(types.float64, types.float64)

    @numba_internals.lower_builtin(twice, types.float64)
    def _code(context, builder, sig, args):
        return builder.fadd(args[0], args[0])

    assert plain(lambda x: twice(x) + 1.0)(1.5) == 4.0


def test_a_concrete_template_lists_signatures():
    """vector.py: cases of ConcreteTemplate, with the target that puts them before Numba's own."""
    attributes = {"cases": [signature(types.int64)], "metadata": {"target": "cpu"}}
    numba_internals.infer_global(three)(type("_Three", (numba_internals.ConcreteTemplate,), attributes))

    @numba_internals.lower_builtin(three)
    def _code(context, builder, sig, args):
        return context.get_constant(types.int64, 3)

    assert plain(lambda: three() + 1)() == 4


def test_an_array_is_read_through_its_data_pointer():
    """vector.py, late.py: make_array, cgutils.gep; builder values are those of llvmlite."""

    @numba_internals.infer_global(second)
    class _Second(numba_internals.AbstractTemplate):
        def generic(self, args, kws):
            return signature(args[0].dtype, args[0])

    @numba_internals.lower_builtin(second, types.Array)
    def _code(context, builder, sig, args):
        array = context.make_array(sig.args[0])(context, builder, args[0])
        return builder.load(numba_internals.cgutils.gep(builder, array.data, 1))

    assert plain(lambda x: second(x) + 1.0)(np.array([1.0, 7.0])) == 8.0


def test_a_type_has_a_model():
    """vector.py: models.PrimitiveModel and register_model give a Numba type its LLVM type."""
    assert issubclass(numba_internals.models.PrimitiveModel, object)
    assert list(inspect.signature(numba_internals.models.PrimitiveModel.__init__).parameters) == [
        "self",
        "dmm",
        "fe_type",
        "be_type",
    ]


@pytest.mark.parametrize(
    "step", [*compiler_passes.INSTEAD, numba_internals.NativeLowering], ids=lambda step: step.__name__
)
def test_the_pipeline_has_each_pass_that_is_replaced_once(step):
    """compiler_passes.py, inner.py: passes of ``DefaultPassBuilder.define_nopython_pipeline``."""
    seen = []

    class _Recorder(numba_internals.CompilerBase):
        def define_pipelines(self):
            pipeline = numba_internals.DefaultPassBuilder.define_nopython_pipeline(self.state)
            seen.extend(each for each, _ in pipeline.passes)
            return [pipeline]

    assert plain(lambda x: x + 1, pipeline_class=_Recorder)(1) == 2
    assert seen.count(step) == 1


def test_passes_have_the_methods_that_are_replaced():
    assert callable(numba_internals.IRProcessing.run_pass)
    assert callable(numba_internals.ReconstructSSA._patch_locals)
    assert callable(numba_internals.PreLowerStripPhis._strip_phi_nodes)
    assert callable(numba_internals.transforms.canonicalize_cfg)
    assert [*inspect.signature(numba_internals.reconstruct_ssa).parameters][:1] == ["func_ir"]
    assert [*inspect.signature(numba_internals.build_definitions).parameters][:1] == ["blocks"]


def test_a_library_keeps_bitcode():
    """inner.py: the steps of JITCodeLibrary that it skips, and what it calls instead."""
    methods = "_optimize_final_module _finalize_final_module _finalize_dynamic_globals"
    for name in [*methods.split(), "serialize_using_object_code", "serialize_using_bitcode"]:
        assert callable(getattr(numba_internals.JITCodeLibrary, name)), name
    compiled = plain(lambda x: x * 2)
    assert compiled(2) == 4
    library = next(iter(compiled.overloads.values())).library
    assert isinstance(library, numba_internals.JITCodeLibrary)
    name, kind, code = library.serialize_using_bitcode()
    assert (name, kind) == (library.name, "bitcode")
    assert isinstance(code, bytes)


def test_a_compile_result_has_the_fields_that_are_rebuilt():
    """inner.py: CompileResult, and ``_dynfunc.make_function`` for its entry point."""
    fields = "typing_context target_context entry_point type_annotation signature objectmode lifted fndesc library"
    assert {*fields.split(), "environment", "reload_init", "referenced_envs"} <= {
        *numba_internals.CompileResult._fields
    }
    compiled = plain(lambda x: x * 2)
    assert compiled(2) == 4
    result = next(iter(compiled.overloads.values()))
    fndesc, env = result.fndesc, result.environment
    made = numba_internals.make_function(
        fndesc.lookup_module(), fndesc.qualname, fndesc.qualname, 0, env, (result.library,)
    )
    assert made.__name__ == fndesc.qualname


def test_the_cache_stores_nine_parts():
    """jit.py, inner.py: what CompileResultCacheImpl.reduce returns: library first, environments last."""
    compiled = plain(lambda x: x * 2)
    assert compiled(2) == 4
    result = next(iter(compiled.overloads.values()))
    impl = object.__new__(numba_internals.CompileResultCacheImpl)
    parts = impl.reduce(result)
    assert len(parts) == 9
    assert parts[0][1] == "object"
    assert parts[2] is result.environment
    assert isinstance(parts[-1], tuple)


def test_the_cache_has_the_files_and_hooks_that_are_replaced(tmp_path):
    """jit.py: the methods of IndexDataCacheFile and FunctionCache, and the key of its index."""
    for name in ["_load_index", "_save_index", "_load_data", "_save_data", "_dump", "_open_for_write", "load", "save"]:
        assert callable(getattr(numba_internals.IndexDataCacheFile, name)), name
    for name in [
        "_guard_against_spurious_io_errors",
        "_load_overload",
        "_index_key",
        "flush",
        "disable",
        "save_overload",
    ]:
        assert callable(getattr(numba_internals.FunctionCache, name)), name
    file = numba_internals.IndexDataCacheFile(str(tmp_path), "name", "stamp")
    assert (file._source_stamp, file._version) == ("stamp", numba.__version__)
    assert Path(file._index_path).name == "name.nbi"
    file.save(("key",), {"value": 1})
    assert file.load(("key",)) == {"value": 1}
    assert pickle.loads(file._dump([1])) == [1]

    def one(x):
        return x * 2

    compiled = numba.njit(cache=True)(one)
    assert isinstance(compiled._cache, numba_internals.FunctionCache)
    key = compiled._cache._index_key(types.int64, numba.core.registry.cpu_target.target_context.codegen())
    _, (triple, processor, features), _ = key
    assert triple
    assert processor
    assert features.startswith(("+", "-")) or not features


def test_switches_of_the_configuration_exist():
    """jit.py, machine_code.py, tests: a switch that is gone would no longer be part of the cache's key."""
    switches = [*jit.SWITCHES, "CACHE_DIR", "CPU_NAME", "CPU_FEATURES", "DISABLE_JIT"]
    assert [name for name in switches if not hasattr(numba_internals.config, name)] == []
    assert numba_internals.codegen.get_host_cpu_features().count(",") > 3


def test_compilations_are_announced():
    """jit.py: the event ``numba:compile`` with its dispatcher and argument types."""
    seen = []

    class _Recorder(numba_internals.event.Listener):
        def on_start(self, event):
            seen.append((event.data["dispatcher"].py_func.__name__, tuple(event.data["args"])))

        def on_end(self, event):
            seen.append("end")

    def one(x):
        return x + 1

    recorder = _Recorder()
    numba_internals.event.register("numba:compile", recorder)
    try:
        assert plain(one)(1) == 2
    finally:
        numba_internals.event.unregister("numba:compile", recorder)
    assert seen == [("one", (types.int64,)), "end"]


def test_a_compiled_function_has_an_address():
    """late.py: overloads by argument types, and the function pointer of their library."""
    compiled = plain(lambda x: x + 1, no_cpython_wrapper=True)
    compiled.compile((types.int64,))
    overload = compiled.overloads[types.int64,]
    assert overload.signature.return_type == types.int64
    assert overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name) > 0


def test_the_runtime_is_set_up_by_itself():
    """jit.py: ``rtsys.initialize`` registers the allocation symbols before cached code is loaded."""
    numba_internals.rtsys.initialize(numba.core.registry.cpu_target.target_context)
    assert plain(lambda n: np.empty(n).size)(3) == 3


@pytest.mark.processes
@pytest.mark.parametrize("lacking", ["numba.core.ssa.reconstruct_ssa", "numba._dynfunc.make_function"])
def test_a_numba_that_lacks_a_part_says_which_ones_were_tested(lacking, tmp_path):
    program = f"""
import {lacking.rpartition(".")[0]}
del {lacking}
import cmfast
try:
    cmfast.bi_normalize([[2.0, 1.0], [1.0, 2.0]])
except ImportError as error:
    print(error)
"""
    said = python("-c", program, cwd=tmp_path)
    assert said.startswith(f"cmfast was tested with Numba 0.61 to 0.68, and Numba {numba.__version__} lacks what it")
    assert lacking.rpartition(".")[2] in said
    assert "pip install 'numba<=0.68.99'" in said
