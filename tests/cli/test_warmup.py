"""``cmfast warmup``: what it compiles, what it says, and that nothing is left to compile afterwards."""

import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest
from processes import ROOT, python

from cmfast import _warmup
from cmfast.cli import main
from cmfast.cli._result import Result
from cmfast.kernels.ops import OPS

pytestmark = pytest.mark.processes

# What is asked of the cache, or compiled, after the calls of every op: nothing.
LEFT = """
import sys, warnings
sys.path[:0] = ["tests", "tests/harness"]
import numpy as np
from backends import BACKENDS, has_kernels, supports
from callables import ENTRIES, call, ways
from calls import public
from cases import CASES
from cmfast import _warmup
from cmfast.kernels.cpu._core import jit
from cmfast.kernels.ops import OPS

warnings.simplefilter("ignore")
usual = {np.dtype(kind) for kind in ("f8", "f4", "i8", "i4", "?", "u1")}
for op in OPS:
    _warmup.compile_op(op)
asked, honest = [], jit._Cache.load_overload
def load(self, sig, context):
    asked.append((now, self._name, str(sig)))
    return honest(self, sig, context)
jit._Cache.load_overload = load

for op in set(OPS) - {"cell_excess"}:  # the test calls that one with arrays that no public function makes
    for case in CASES[op]:
        if {a.dtype for a in case.args if isinstance(a, np.ndarray)} <= usual and has_kernels(BACKENDS[0], op, case):
            now = f"{op} {case.id}"
            public(op)(*case.args, **case.options)
for now, entry in ENTRIES.items():
    for options in ways(entry):
        call(entry, **options)
rng = np.random.default_rng(1)
import cmfast
for n, power in ((3, 1), (65, 1), (130, 1), (130, 100)):
    for M in (10.0 ** rng.uniform(-power, power, (n, n)), np.triu(rng.random((n, n)) + 0.1)):
        for options in ({}, {"smoothing": 0.1}, {"smoothing": "pseudo-bayes"}, {"solver": "sinkhorn", "max_iter": 9}):
            now = f"ipf {n} {power} {options}"
            cmfast.ipf(M, on_failure="ignore", **options)
print(asked)
"""


def test_every_op_has_calls():
    assert set(_warmup.CALLS) == set(OPS)


def test_ops_that_share_kernels_are_one_job():
    found = _warmup.group_ops(OPS)
    assert sorted(op for group in found for op in group) == sorted(OPS)
    assert set(found[0]) == {"ipf", "ras", "normalize", "importance_weights", "ipf_of_logits", "scaling_gradient"}
    assert _warmup.group_ops(["ras", "overlap"]) == [["ras"], ["overlap"]]


def test_every_name_leads_to_ops():
    for name in _warmup.list_names():
        assert _warmup.select_ops([name]), name
    assert {"bi_normalize", "metrics.accuracy", "uncertainty.resample", "ipf", "cell_excess"} <= set(
        _warmup.list_names()
    )
    assert _warmup.select_ops([]) == list(OPS)
    assert _warmup.select_ops(["bi_normalize", "ipf"]) == ["ipf"]


def test_nothing_is_left_to_compile():
    assert python("-c", LEFT, cwd=ROOT, limit=900, CMFAST_QUIET="1") == "[]\n"  # from an empty cache minutes


@pytest.fixture
def warmup(tmp_path):
    """Return a way to run the command with a cache of its own."""

    def run(*args, **environment):
        command = [sys.executable, "-m", "cmfast", "warmup", *args]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path), **environment}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def test_what_is_named_is_compiled_once(warmup, tmp_path):
    first = warmup("overlap", "l1_distance", "--jobs", "2")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("compiled ")
    assert f"2 operations are ready in {tmp_path}" in first.stdout
    assert "compiling" in first.stderr
    second = warmup("overlap", "l1_distance", "--jobs", "2")
    assert second.returncode == 0
    assert second.stdout.startswith("nothing was left to compile; 2 operations are ready in ")
    quiet = warmup("overlap", "l1_distance", "--jobs", "2", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    third = json.loads(warmup("overlap", "--quiet", "--json").stdout)
    assert (third["compiled"], third["operations"], set(third["seconds_by_operation"])) == (0, 1, {"overlap"})


def test_of_two_that_start_together_one_compiles(warmup):
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(warmup, "metrics.margins", "--jobs", "1", "--quiet", "--json") for _ in range(2)]
    compiled = sorted(json.loads(run.result().stdout)["compiled"] for run in runs)
    assert compiled[0] == 0 < compiled[1]


def test_a_process_that_dies_leaves_the_rest_to_this_one(monkeypatch):
    class Broken:
        def __init__(self, *args): ...
        def submit(self, *args):
            raise BrokenProcessPool

        def shutdown(self, **options): ...

    monkeypatch.setattr(_warmup, "ProcessPoolExecutor", Broken)
    ticks = []
    found = _warmup.compile_ops(["overlap", "l1_distance"], 2, lambda *tick: ticks.append(tick))
    assert [one.op for one in found] == ["overlap", "l1_distance"]
    assert ticks == [(1, 2), (1, 2), (2, 2)]


def test_quiet_commands_say_nothing_of_what_they_compile(monkeypatch):
    seen = []
    monkeypatch.setattr("cmfast.cli._main.load", {"warmup": Seeing(seen)}.get)
    for args in ([], ["--quiet"]):
        assert main(["warmup", *args]) == 0
    assert seen == [True, False]
    assert logging.getLogger("cmfast").isEnabledFor(logging.WARNING)


class Seeing:
    """A command that notes whether what compiles would be said."""

    def __init__(self, seen):
        self._seen = seen

    def add_options(self, parser):
        """Add the one option that matters."""
        parser.add_argument("--quiet", action="store_true")

    def run(self, args):
        """Note it."""
        self._seen.append(logging.getLogger("cmfast").isEnabledFor(logging.WARNING))
        return Result({}, [])


def refused(capsys, *args):
    """Return what the command says where it refuses names."""
    assert main(["warmup", *args]) == 2
    return capsys.readouterr().err


def test_unknown_names_are_told_what_there_is(capsys):
    text = refused(capsys, "overlap", "bi_normalise")
    assert text.startswith("cmfast: no function to compile is called bi_normalise; did you mean bi_normalize")
    assert "There are CellAccumulator, " in text
    assert "; there are CellAccumulator, " in refused(capsys, "nothing like it")


def test_a_folder_that_cannot_be_written_is_refused(warmup, tmp_path):
    (tmp_path / "file").touch()
    done = warmup("overlap", NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cannot be written: set NUMBA_CACHE_DIR to a folder that can" in done.stderr
