"""Compiled code on disk: never stale, never mixed up, never in the way."""

import gc
import os
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit, typeof
from numba.core import types
from numba.core.caching import NullCache
from numba.core.registry import cpu_target
from processes import ROOT, python

from cmfast.kernels.cpu._core import compiler_passes, jit, machine_code

pytestmark = pytest.mark.processes

CALLEE = """
from cmfast.kernels.cpu._core.jit import jit

@jit()
def scale(x):
    return {factor} * x
"""
CALLER = """
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.callee import scale

@jit()
def total(values):
    out = 0.0
    for k in range(values.shape[0]):
        out += scale(values[k])
    return out
"""
ASK = """
import numpy as np
from cmfast.kernels.cpu import caller
print(caller.total(np.arange(4.0)), sum(caller.total.stats.cache_hits.values()))
"""

SUMS = """
import hashlib
import numpy as np
from cmfast.kernels.cpu.scaling import _large_elimination, _large_passes, _large_sinkhorn
rng = np.random.default_rng(0)
found = hashlib.sha256()
for n in (37, 140):
    M = 10.0 ** rng.uniform(-20, 20, (n, n))
    u, x, y, z = rng.random((4, n)) + 0.1
    matrix = _large_passes.ScaledMatrix(M, u, u)
    sums = _large_passes.Sums(np.empty((1, n)), np.empty(1), n, np.empty(1))
    last, d = np.empty((2, n))
    for paired in (False, True):
        _large_passes.compute_diagonal(matrix, x, y, sums, paired, 0, 1)
        found.update(sums.cols)
        _large_passes.multiply_laplacian(matrix, x, y, z, sums, paired, 0, 1)
        found.update(sums.cols)
        _large_passes.scale_rows(matrix, x, y, last, sums, paired, 0, 1)
        found.update(sums.cols)
        _large_elimination.compute_dense_step(M, u, x, y, z.copy(), paired, d)
        found.update(d)
    _large_sinkhorn.sweep(matrix, x, y, sums, 0, 1)
    found.update(x)
    goal = _large_sinkhorn.Goal(u.sum(), 1e-9, 1e-15, 9, np.inf)
    _large_sinkhorn.run_sinkhorn(matrix, last, x, y, sums, (0, np.inf), goal, 9)
    found.update(y)
    _large_sinkhorn.run_momentum_sweeps(matrix, x, y, np.zeros(n), sums, _large_sinkhorn.START, goal, 9)
    found.update(y)
print(found.hexdigest())
"""


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return the kernels' folder of a small copy of the package, two kernels in two files, and a way to ask it."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Python takes bytecode for that of a source of the same size and second, and two processes fit into a second.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    cpu = tmp_path / "cmfast" / "kernels" / "cpu"
    core = cpu / "_core"
    core.mkdir(parents=True)
    for folder in (tmp_path / "cmfast", tmp_path / "cmfast" / "kernels", cpu, core):
        (folder / "__init__.py").touch()
    (tmp_path / "cmfast" / "_version.py").write_text((ROOT / "cmfast" / "_version.py").read_text())
    for name in ("jit.py", "inner.py", "compiler_passes.py", "machine_code.py", "numba_internals.py"):
        (core / name).write_text((ROOT / "kernels" / "cpu" / "_core" / name).read_text())
    (cpu / "caller.py").write_text(CALLER)
    (cpu / "callee.py").write_text(CALLEE.format(factor=2.0))

    def ask(**environment):
        result, hits = python("-c", ASK, cwd=tmp_path, path=tmp_path, **environment).split()
        return float(result), int(hits)

    return cpu, ask


def test_second_process_compiles_nothing_and_an_edited_callee_is_seen(copy):
    cpu, ask = copy
    assert ask() == (12.0, 0)
    assert ask() == (12.0, 1)
    (cpu / "callee.py").write_text(CALLEE.format(factor=5.0))
    assert ask() == (30.0, 0)
    assert ask() == (30.0, 1)


def test_an_edit_of_what_both_targets_share_is_seen(copy):
    cpu, ask = copy
    shared = cpu.parent / "shared"
    shared.mkdir()
    (shared / "limits.py").write_text("FACTOR = 2.0\n")
    (cpu / "callee.py").write_text(
        CALLEE.format(factor="FACTOR") + "\nfrom cmfast.kernels.shared.limits import FACTOR\n"
    )
    assert ask() == (12.0, 0)
    assert ask() == (12.0, 1)
    (shared / "limits.py").write_text("FACTOR = 7.0\n")
    assert ask() == (42.0, 0)


def test_nothing_is_written_beside_the_sources_and_the_same_sources_elsewhere_are_known(copy, tmp_path):
    _, ask = copy
    assert ask() == (12.0, 0)
    assert not [path for path in (tmp_path / "cmfast").rglob("*") if path.suffix in {".nbi", ".nbc"}]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "cmfast").rename(elsewhere / "cmfast")
    assert python("-c", ASK, cwd=elsewhere, path=elsewhere).split() == ["12.0", "1"]


def test_switches_of_numba_that_change_machine_code_have_a_folder_of_their_own(copy):
    _, ask = copy
    assert ask() == (12.0, 0)
    assert ask(NUMBA_BOUNDSCHECK="1") == (12.0, 0)
    assert ask(NUMBA_BOUNDSCHECK="1") == (12.0, 1)
    assert ask() == (12.0, 1)


LOADS = """
import sys
import cmfast
cmfast.overlap([[1.0, 2.0]], [[2.0, 1.0]])
print([name for name in ("scipy.linalg", "numba.np.linalg", "numba.np.arrayobj") if name in sys.modules])
"""


def test_a_process_that_has_nothing_to_compile_does_not_learn_how_to(tmp_path):
    first, second = (python("-c", LOADS, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first != "[]\n" == second


@pytest.mark.slow
def test_the_process_that_compiles_gets_the_bits_of_those_that_load(tmp_path):
    first, second = (python("-c", SUMS, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == second


def test_no_writable_place_at_all(copy, tmp_path):
    _, ask = copy
    file = tmp_path / "file"  # a file where the folder should be: nothing can be made in it, not even by root
    file.touch()
    nowhere = {name: str(file) for name in ("HOME", "XDG_CACHE_HOME")}
    for environment in (nowhere, nowhere, nowhere | {"NUMBA_CACHE_DIR": str(file)}):
        assert ask(**environment) == (12.0, 0)


def half(x):
    """Stand in for a kernel."""
    return x / 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Send the cache of functions that are decorated in the test to an empty folder, and return that."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    yield tmp_path
    jit._prepare_folder.cache_clear()


def fresh(*values):
    """Call `half` as a new process would; return how many signatures came from the disk."""
    function = jit.jit()(half)
    for value in values:
        assert function(value) == value / 2
    return sum(function.stats.cache_hits.values())


ONE, TWO = 3.0, np.float32(3)  # two signatures


def test_what_was_compiled_is_found(folder):
    assert fresh(ONE) == 0
    assert fresh(ONE) == 1
    assert fresh(ONE, TWO) == 1
    assert fresh(ONE, TWO) == 2


def third(x):
    """Stand in for what only kernels call."""
    return x / 3


def of_inner(*values):
    """Call a kernel around `third` as a new process would; return how many of `third` came from the disk."""
    inner_function = jit.jit(inner=True)(third)
    kernel = jit.jit()(lambda x: inner_function(x) + 1)
    kernel._cache = NullCache()  # compiled again by each process, from what is kept of others
    for value in values:
        assert kernel(value) == value / 3 + 1
    return inner_function


def test_what_only_kernels_call_is_kept_but_is_no_machine_code(folder):
    for hits in (0, 2):
        function = of_inner(ONE, TWO)
        assert sum(function.stats.cache_hits.values()) == hits
        for found in function.overloads.values():
            assert not found.library._codegen._engine.is_symbol_defined(found.fndesc.llvm_func_name)
            assert found.library.serialize_using_object_code()[1] == "bitcode"
    assert len(list(folder.rglob("*.nbc"))) == 2


def test_steps_that_find_nothing_are_left_out(folder):
    """A name that Numba does not know would leave nothing out."""
    counts = []
    for decorate in (njit, jit.jit()):
        function = decorate(half)
        assert function(ONE) == ONE / 2
        [found] = function.overloads.values()
        counts.append(len(found.metadata["pipeline_times"]["nopython"]))
    assert counts[0] - counts[1] == len(compiler_passes.NEEDLESS)


def steep(values, least):
    """Stand in for a kernel with loops, choices, and variables that have several lives."""
    total, count = 0.0, 0
    for k in range(len(values)):
        x = values[k]
        if x > least:
            x = x * 2.0
            count += 1
        elif x < -5.0:
            return -1.0, k
        while x > 1.0:
            x = x - 1.0
        total += x
    return total, count


def code(decorate):
    """Return the machine code of `steep` without the names in it, which are counted."""
    function = decorate(steep)
    assert function(np.array([0.5, 3.25]), 1.0) == (1.0, 1)
    [found] = function.inspect_asm().values()
    return [line for line in found.splitlines() if line.startswith("\t") and ("_Z" not in line) and "." not in line]


def test_steps_of_ours_leave_the_code_as_numba_has_it(folder):
    theirs = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    assert len(code(theirs)) > 20
    assert code(jit.jit()) == code(theirs)
    function = jit.jit()(half)
    assert function(ONE) == ONE / 2
    [found] = function.overloads.values()
    ran = {name.partition("_")[2] for name in found.metadata["pipeline_times"]["nopython"]}
    assert {step._name for step in compiler_passes.INSTEAD.values()} <= ran
    assert not {step._name for step in compiler_passes.INSTEAD} & ran


def test_what_operators_are_known_to_give_is_what_numba_finds():
    context = cpu_target.typing_context
    context.refresh()
    asked = 0
    for function, known in compiler_passes.KNOWN.items():
        templates = context.resolve_value_type(function).templates
        ours = [one for one in templates if compiler_passes.__name__ in {base.__module__ for base in one.__mro__}]
        others = types.Function([one for one in templates if one not in ours])
        assert len(ours) == 1
        for args, expected in known.items():
            found = others.get_call_type(context, args, {})
            assert (found.return_type, found.args) == (expected.return_type, expected.args), (function, args)
            asked += 1
    assert asked == 20


def test_older_sources_have_another_folder(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(jit, "digest", lambda: "0" * 64)
        assert fresh(ONE) == 0
        assert fresh(ONE) == 1
    assert fresh(ONE) == 0
    assert fresh(ONE) == 1
    assert len(list((folder / "cmfast").iterdir())) == 2


def test_a_new_version_removes_folders_that_nothing_used_for_long_or_that_take_too_much(folder, monkeypatch):
    monkeypatch.setattr(jit, "KEPT_CACHE_BYTES", 6500)
    others = [folder / "cmfast" / f"0.0.{k}-0" for k in range(12)]
    for age, other in enumerate(others):
        other.mkdir(parents=True)
        (other / "kernel.nbc").write_bytes(bytes(900))
        os.utime(other, (time.time() - 3600 * age,) * 2)
    os.utime(others[2], (time.time() - 40 * 86_400,) * 2)
    assert fresh(ONE) == 0
    kept = {path.name for path in (folder / "cmfast").iterdir()} - {jit.find_cache_folder().name}
    assert kept == {others[k].name for k in (0, 1, 3, 4, 5, 6, 7)}


def test_a_cleared_cache_is_filled_again(folder):
    assert fresh(ONE) == 0
    taken = sum(path.stat().st_size for path in folder.rglob("*.nb?"))
    assert jit.summarize_cache() == (jit.find_cache_folder(), True, 1, taken)
    assert jit.clear_cache() == taken
    assert not list(folder.rglob("*.nb?"))
    assert fresh(ONE) == 0
    assert fresh(ONE) == 1


def test_data_of_another_signature_is_not_used(folder):
    """Two processes that compile two signatures at once can both write under the same name."""
    assert fresh(ONE, TWO) == 0
    first, second = folder.rglob("*.nbc")
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert fresh(ONE, TWO) == 0
    assert fresh(ONE, TWO) == 2


@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"garbage"], ids=["empty", "zeros", "garbage"])
def test_damaged_files_are_replaced(folder, suffix, content):
    assert fresh(ONE) == 0
    (damaged,) = folder.rglob(f"*.{suffix}")
    damaged.write_bytes(content)
    assert fresh(ONE) == 0
    assert fresh(ONE) == 1


@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
def test_no_flipped_bit_is_ever_run(folder, suffix):
    """In machine code it would be a crash, or a wrong number."""
    assert fresh(ONE) == 0
    (path,) = folder.rglob(f"*.{suffix}")
    right = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in [0, 40, len(right) - 1, *rng.integers(0, len(right), 30)]:
        wrong = bytearray(right)
        wrong[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(wrong))
        assert fresh(ONE) == 0
        path.write_bytes(right)


def test_who_watches_is_told_of_kernels_that_are_compiled():
    told = []
    watch = jit._CompileListener(told.append, lambda: told.append("end"))
    ours, theirs = (Dispatched(name) for name in ("cmfast.kernels.cpu.counting", "somebody.else"))
    watch.on_start(ours)
    watch.on_start(ours)  # a function within
    watch.on_end(ours)
    assert told == ["count"]
    watch.on_end(ours)
    watch.on_start(theirs)
    watch.on_end(theirs)
    assert told == ["count", "end"]


@pytest.mark.parametrize("enabled", [True, False])
def test_nobody_looks_for_garbage_while_a_kernel_is_compiled(enabled):
    seen, before = [], gc.isenabled()
    watch = jit._CompileListener(lambda _: seen.append(gc.isenabled()), lambda: seen.append(gc.isenabled()))
    try:
        (gc.enable if enabled else gc.disable)()
        for module in ("cmfast.kernels.cpu.counting", "somebody.else"):
            watch.on_start(Dispatched(module))
            watch.on_end(Dispatched(module))
        seen.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False, enabled, enabled]


def test_what_compiling_made_is_old_afterwards_but_what_somebody_froze_stays_so():
    watch, was = jit._CompileListener(lambda _: None, lambda: None), gc.isenabled()
    try:
        gc.enable()
        watch.on_start(Dispatched("cmfast.kernels.cpu.counting"))
        made = [[] for _ in range(10)]
        watch.on_end(Dispatched("cmfast.kernels.cpu.counting"))
        young = {id(one) for k in range(2) for one in gc.get_objects(k)}
        assert not young & {id(one) for one in made}
        gc.freeze()
        frozen = gc.get_freeze_count()
        watch.on_start(Dispatched("cmfast.kernels.cpu.counting"))
        watch.on_end(Dispatched("cmfast.kernels.cpu.counting"))
        assert gc.get_freeze_count() > frozen / 2
    finally:
        gc.unfreeze()
        (gc.enable if was else gc.disable)()


def test_garbage_of_compiling_is_looked_for_now_and_then():
    watch, looked = jit._CompileListener(lambda _: None, lambda: None), []
    gc.callbacks.append(lambda phase, facts: looked.append(facts["generation"]) if phase == "start" else None)
    was = gc.isenabled()
    try:
        gc.enable()
        for _ in range(jit.KERNELS_PER_COLLECTION):
            watch.on_start(Dispatched("cmfast.kernels.cpu.counting"))
            watch.on_end(Dispatched("cmfast.kernels.cpu.counting"))
    finally:
        gc.callbacks.pop()
        (gc.enable if was else gc.disable)()
    assert 2 in looked


class Dispatched:
    """What Numba tells of a function of a module."""

    def __init__(self, module):
        function = SimpleNamespace(__module__=module, __name__="count")
        self.data = {"dispatcher": SimpleNamespace(py_func=function), "args": ()}


def test_who_watches_is_told_whether_it_was_compiled_for_other_sizes(folder):
    told = []
    for size in ((1, 1), (1, 1, 1), (1, 1)):
        function = jit.jit()(len_of)
        kinds = (typeof(size),)
        told.append(jit._describe_compilation(function, kinds))
        function(size)
    assert told == ["len_of for a size", None, None]
    assert jit._describe_compilation(function, (typeof(1),)) == "len_of"


def len_of(size):
    """Stand in for a kernel of a size."""
    return len(size)


def test_a_numba_that_keeps_functions_in_another_way_is_named(folder, monkeypatch, capfd):
    of_inner(ONE)
    monkeypatch.setattr(jit.inner_functions, "rebuild", lambda context, payload: payload[99])
    jit._warn_of_unknown_format.cache_clear()
    capfd.readouterr()
    of_inner(ONE)
    of_inner(ONE)
    assert capfd.readouterr().err.removeprefix("cmfast: ") == (
        f"Numba {jit.numba.__version__} stores functions in a format that cmfast does not know: "
        "every process compiles them again\n"
    )


def _refused(*_):
    raise PermissionError(13, "Permission denied")


def test_what_can_only_be_read_is_read(folder, monkeypatch):
    assert fresh(ONE) == 0
    with monkeypatch.context() as patch:
        patch.setattr(jit, "_prepare_folder", lambda path: False)
        patch.setattr(jit._File, "_save_data", _refused)
        assert fresh(ONE, TWO) == 1
        assert fresh(ONE, TWO) == 1


def test_full_disk(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit._File, "_save_data", full)
    assert fresh(ONE, TWO) == 0
    assert fresh(ONE, TWO) == 0


def test_flags_that_break_nan_are_refused():
    with pytest.raises(ValueError, match="break NaN"):
        jit.jit(fastmath=frozenset({"nnan"}))


def test_other_errors_of_numba_are_not_swallowed(monkeypatch):
    def broken(_):
        msg = "something else"
        raise RuntimeError(msg)

    monkeypatch.setattr(jit, "_Cache", broken)
    with pytest.raises(RuntimeError, match="something else"):
        jit.jit()(lambda x: x)


# --- machine code of levels of x86-64 --------------------------------------------------------------------------------

BUILD = """
import sys
from pathlib import Path
from cmfast.kernels.cpu._core import jit, machine_code
print(jit.copy_machine_code(Path(sys.argv[1]), machine_code.ROOT / jit.find_cache_folder().name))
"""
needs_v3 = pytest.mark.skipif("x86-64-v3" not in machine_code.list_host_levels(), reason="needs AVX2")


@pytest.fixture
def built(copy, tmp_path):
    """Return the folder of machine code for x86-64-v3 of the small copy, and a way to ask with an empty cache."""
    cpu, ask = copy
    level = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": machine_code.LEVELS["x86-64-v3"]}
    assert ask(NUMBA_CACHE_DIR=str(tmp_path / "built"), **level) == (12.0, 0)
    (compiled,) = (tmp_path / "built" / "cmfast").iterdir()
    assert python("-c", BUILD, str(compiled), cwd=tmp_path, path=tmp_path).split() == ["2"]
    (folder,) = (cpu.parent / "machine-code").iterdir()
    numbers = iter(range(99))

    def ask_anew(**environment):
        cache = tmp_path / f"empty-{next(numbers)}"
        found = ask(**{"NUMBA_CACHE_DIR": str(cache)} | environment)
        return *found, len(list(cache.rglob("*.nbc")))

    return folder, ask_anew


@needs_v3
def test_machine_code_of_a_level_is_found_and_nothing_is_compiled(built):
    _, ask = built
    assert ask() == (12.0, 1, 0)


@needs_v3
@pytest.mark.parametrize(
    "environment",
    [
        {"CMFAST_MACHINE_CODE": "0"},
        {"NUMBA_ENABLE_AVX": "0"},  # Numba then reports a processor without AVX
        {"NUMBA_CPU_NAME": "x86-64-v3"},
        {"NUMBA_CPU_FEATURES": ""},
        {"NUMBA_BOUNDSCHECK": "1"},
    ],
)
def test_machine_code_is_not_used_where_it_must_not_be(built, environment):
    _, ask = built
    total, hits, compiled = ask(**environment)
    assert (total, hits) == (12.0, 0)
    assert compiled > 0


@needs_v3
def test_damaged_machine_code_is_compiled_again_and_stays(built):
    folder, ask = built
    for file in folder.glob("*.nbc"):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert ask()[:2] == (12.0, 0)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


@needs_v3
def test_machine_code_serves_where_no_cache_can_be_written(built, tmp_path):
    folder, ask = built
    (tmp_path / "file").touch()
    assert ask(NUMBA_CACHE_DIR=str(tmp_path / "file")) == (12.0, 1, 0)
    assert sorted(path.suffix for path in folder.iterdir()) == [".nbc", ".nbc", ".nbi", ".nbi"]


@needs_v3
def test_machine_code_of_other_sources_is_not_used(built, copy):
    (copy[0] / "callee.py").write_text(CALLEE.format(factor=5.0))
    assert built[1]()[:2] == (30.0, 0)


def test_a_level_needs_every_one_of_its_instructions():
    best, second = machine_code.LEVELS
    assert machine_code.list_levels(machine_code.LEVELS[best]) == [best, second]
    assert machine_code.list_levels(machine_code.LEVELS[best] + ",+amx-tile,-sha") == [best, second]
    for level, present in machine_code.LEVELS.items():
        for name in present.split(","):
            for masked in (present.replace(name, name.replace("+", "-")), present.replace(name, "")):
                assert level not in machine_code.list_levels(masked), name
    assert machine_code.list_levels(machine_code.LEVELS[best].replace("+avx512f", "-avx512f")) == [second]
    assert machine_code.list_levels("") == []
