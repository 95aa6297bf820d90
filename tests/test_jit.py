"""Compiled code on disk: never stale, never mixed up, never in the way."""

import numpy as np
import pytest
from processes import ROOT, python

from cmfast.kernels.cpu import _jit

CALLEE = """
from cmfast.kernels.cpu._jit import jit

@jit()
def scale(x):
    return {factor} * x
"""
CALLER = """
from cmfast.kernels.cpu._jit import jit
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
from cmfast.kernels.cpu import _dense, _large
rng = np.random.default_rng(0)
found = hashlib.sha256()
for n in (37, 140):
    M = 10.0 ** rng.uniform(-20, 20, (n, n))
    u, x, y, z = rng.random((4, n)) + 0.1
    sums, error, last, d = np.empty((1, n)), np.empty(1), np.empty(n), np.empty(n)
    for paired in (False, True):
        _large.diagonal(M, u, x, y, sums, paired, n, 0, 1)
        found.update(sums)
        _large.product(M, u, x, y, z, sums, paired, n, 0, 1)
        found.update(sums)
        _large.row_pass(M, u, y, x, last, d, sums, paired, n, 0, 1)
        found.update(sums)
        _dense.dense_step(M, u, x, y, z.copy(), paired, d)
        found.update(d)
    _large.sweep(M, u, y, x, error, sums, n, 0, 1)
    found.update(x)
    _large.sweeps(M, u, u, x, last, y, error, sums, 0, 1e-9, 9, np.inf)
    found.update(y)
print(found.hexdigest())
"""


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return the kernels' folder of a small copy of the package, two kernels in two files, and a way to ask it."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    cpu = tmp_path / "cmfast" / "kernels" / "cpu"
    cpu.mkdir(parents=True)
    for folder in (tmp_path / "cmfast", tmp_path / "cmfast" / "kernels", cpu):
        (folder / "__init__.py").touch()
    (cpu / "_jit.py").write_text((ROOT / "kernels" / "cpu" / "_jit.py").read_text())
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


def test_the_process_that_compiles_gets_the_bits_of_those_that_load(tmp_path):
    first, second = (python("-c", SUMS, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == second


def test_no_writable_place_at_all(copy, tmp_path):
    cpu, ask = copy
    file = tmp_path / "file"
    file.touch()
    (cpu / "__pycache__").touch()  # a file where the folder should be: nothing can be made in it, not even by root
    nowhere = {name: str(file) for name in ("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME")}
    assert ask(**nowhere) == (12.0, 0)
    assert ask(**nowhere) == (12.0, 0)


def half(x):
    """Stand in for a kernel."""
    return x / 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Send the cache of functions that are decorated in the test to an empty folder, and return that."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    return tmp_path


def fresh(*values):
    """Call `half` as a new process would; return how many signatures came from the disk."""
    function = _jit.jit()(half)
    for value in values:
        assert function(value) == value / 2
    return sum(function.stats.cache_hits.values())


ONE, TWO = 3.0, np.float32(3)  # two signatures


def test_what_was_compiled_is_found(folder):
    assert fresh(ONE) == 0
    assert fresh(ONE) == 1
    assert fresh(ONE, TWO) == 1
    assert fresh(ONE, TWO) == 2


def test_data_of_older_sources_under_a_new_index_is_not_used(folder, monkeypatch):
    """A process that dies, or is overtaken, between writing the index and the data leaves just this."""
    with monkeypatch.context() as patch:
        patch.setattr(_jit, "_sources", lambda: b"older")
        assert fresh(ONE) == 0
        assert fresh(ONE) == 1
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


def test_full_disk(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", full)
    assert fresh(ONE, TWO) == 0
    assert fresh(ONE, TWO) == 0


def test_flags_that_break_nan_are_refused():
    with pytest.raises(ValueError, match="break NaN"):
        _jit.jit(fastmath=frozenset({"nnan"}))


def test_other_errors_of_numba_are_not_swallowed(monkeypatch):
    def broken(_):
        msg = "something else"
        raise RuntimeError(msg)

    monkeypatch.setattr(_jit, "_Cache", broken)
    with pytest.raises(RuntimeError, match="something else"):
        _jit.jit()(lambda x: x)
