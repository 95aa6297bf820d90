"""The run on a GPU, where there is none: whatever fails, hangs or is absent, the rest is tried and is on disk."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import cuda_host
import cuda_sweep
import cuda_warm
import cupy_on_cuda_host
import gpu
import gpu_run
import numpy as np
import pytest
from calls import call
from gpu_run import PYTHON, Step
from instances import Call
from processes import ROOT

import cmfast
from cmfast.kernels.cuda._core import module

pytestmark = pytest.mark.processes

STAND_IN = ROOT / "tests" / "harness" / "gpu_on_host"
# Programs of NVIDIA as far as a run needs them here: what they are to start is started.
SKIP = 'for a; do [ "$a" != "$PYTHON" ] || break; shift; done'
PROGRAMS = {
    "nvidia-smi": 'echo "name, driver_version"; echo "host, 0"',
    "ncu": "for a; do case $a in regex:*) name=${a#regex:^}; name=${name%$};; esac; done; "
    f'{SKIP}; "$@" && echo "$name (1, 1, 1)"',
    "compute-sanitizer": f'echo "========= COMPUTE-SANITIZER"; {SKIP}; exec "$@"',
}


def step(name, limit, code, **options):
    """Return a step that runs a few lines of Python, which starts at once."""
    return Step(name, limit, 1, (PYTHON, "-S", "-c", code), **options)


def programs(folder, *names):
    """Make stand-ins for programs, and return the folder."""
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\nPYTHON={PYTHON}\n{PROGRAMS[name]}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Return the folder that a run writes to, and keep what it compiles out of the user's."""
    monkeypatch.setenv("CMFAST_GPU_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("NUMBA_CACHE_DIR", "CUPY_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "results"


def recorded(results):
    """Return how every step ended."""
    found = json.loads((results / "gpu-run.json").read_text())["steps"]
    return {name: entry["status"] for name, entry in found.items()}


def last_lines(text):
    """Return what a run says at its end, by the word before the colon."""
    return dict(line.split(": ", 1) for line in text.strip().splitlines()[-4:])


def test_what_fails_hangs_or_is_absent_holds_up_nothing(results, capfd):
    seen = "import json, os; f = open(os.environ['CMFAST_GPU_RESULTS'] + '/gpu-run.json'); s = json.load(f)['steps']; "
    seen += "print('seen', {name: e['status'].split(':')[0] for name, e in s.items()}, s['hangs']['output'][0].strip())"
    every = [
        step("first", 20, "print('one')"),
        Step("hangs", 1, 1, ("sh", "-c", "echo began; sleep 99")),
        Step("deaf", 1, 1, ("sh", "-c", "trap '' INT; sleep 99")),
        step("absent", 20, "", needs="no-program-of-this-name"),
        step("wrong", 20, "import sys; print('a reason'); sys.exit(3)"),
        step("silent", 20, "print('something else')", prints="cmfast_kernel"),
        step("last", 20, seen),
    ]
    assert gpu_run.main([], every) == 1
    assert recorded(results) == {
        "first": "passed",
        "hangs": "failed: killed after 1 s",
        "deaf": "failed: killed after 1 s",
        "absent": "skipped: no-program-of-this-name is not installed",
        "wrong": "failed: exit status 3",
        "silent": "failed: it did not print cmfast_kernel",
        "last": "passed",
    }
    out = capfd.readouterr().out
    log = (results / "gpu-run.log").read_text()
    assert log == out
    # What the last step found on disk: all that was before it, and that itself was not at its end.
    (found,) = re.findall(r"^seen .*hangs': '(\w+)'.*last': '(\w+)'} (\w+)$", log, re.MULTILINE)
    assert found == ("failed", "unfinished", "began")
    assert last_lines(out) == {
        "passed": "first, last",
        "skipped": "absent (no-program-of-this-name is not installed)",
        "failed": "hangs (killed after 1 s), deaf (killed after 1 s), wrong (exit status 3), "
        "silent (it did not print cmfast_kernel)",
        "results": str(results),
    }


def test_what_is_missing_stops_the_run_there(results, capfd):
    every = [step("versions", 20, "import sys; sys.exit('MISSING: x')", stops=True), step("tests", 20, "print('ran')")]
    assert gpu_run.main([], every) == 1
    assert recorded(results) == {"versions": "failed: exit status 1", "tests": "skipped: versions failed"}
    out = capfd.readouterr().out
    assert "MISSING: x" in out
    assert "ran\n" not in out


def test_steps_are_asked_for_by_name_and_the_others_stay_recorded(results, capfd):
    every = [step("a", 20, "print('A')"), step("b:x", 20, "print('X')"), step("b:y", 20, "print('Y')")]
    assert gpu_run.main(["b"], every) == 0
    assert recorded(results) == {"b:x": "passed", "b:y": "passed"}
    assert gpu_run.main(["b:y", "a"], every) == 0
    assert list(recorded(results)) == ["b:x", "b:y", "a"]
    log = (results / "gpu-run.log").read_text()
    assert re.findall("^[AXY]$", log, re.MULTILINE) == ["X", "Y", "A", "Y"]
    with pytest.raises(SystemExit, match="no step named c; there are: a b"):
        gpu_run.main(["a", "c"], every)


def test_what_has_passed_is_not_run_again_if_the_run_goes_on(results, tmp_path, capfd):
    """A step that was killed, or failed, or was never reached, is."""
    there = tmp_path / "there"
    code = f"import pathlib, sys; sys.exit(not pathlib.Path({str(there)!r}).exists())"
    every = [
        step("a", 20, "print('A')"),
        step("needs", 20, code),
        Step("hangs", 1, 1, ("sh", "-c", f"test -e {there} || sleep 99")),
        step("last", 20, "print('L')"),
    ]
    assert gpu_run.main(["a", "needs", "hangs"], every) == 1
    there.touch()
    assert gpu_run.main([], every, resume=True) == 0
    assert set(recorded(results).values()) == {"passed"}
    ends = last_lines(capfd.readouterr().out)
    assert (ends["passed"], ends["skipped"]) == ("needs, hangs, last", "a (it has passed before)")
    log = (results / "gpu-run.log").read_text()
    assert re.findall("^[AL]$", log, re.MULTILINE) == ["A", "L"]
    assert gpu_run.main(["a"], every) == 0  # asked for by name alone it runs
    assert (results / "gpu-run.log").read_text().count("A\n") == 2


def test_what_does_not_fit_into_the_time_is_left_for_later(results, capfd):
    every = [step("long", 90, "print('L')"), step("short", 20, "print('S')")]
    assert gpu_run.main([], every, within=60.0) == 0
    assert recorded(results) == {
        "long": "skipped: its 90 s do not fit into the 60 s that are left",
        "short": "passed",
    }
    assert gpu_run.main([], every, within=100.0, resume=True) == 0
    assert recorded(results) == {"long": "passed", "short": "passed"}


def test_what_saves_as_it_goes_gets_the_time_that_is_left(results, capfd):
    sleep = ("sh", "-c", "sleep 99")
    figures = Step("figures", 90, 60, sleep, least=1)
    assert gpu_run.main([], [figures], within=2.0) == 0
    assert recorded(results)["figures"].startswith("cut: did what it could in ")
    assert gpu_run.main([], [replace(figures, least=30)], within=2.0) == 0
    assert recorded(results) == {"figures": "skipped: its 30 s do not fit into the 2 s that are left"}
    assert gpu_run.main([], [replace(figures, limit=1)], within=60.0) == 1  # it had its time
    assert recorded(results) == {"figures": "failed: killed after 1 s"}


def test_another_folder_goes_on_where_a_file_says(results, tmp_path, capfd):
    """With the kernels that lie next to the file; the records of both runs are in the new folder."""
    code = "import os, pathlib; pathlib.Path(os.environ['CUPY_CACHE_DIR'], 'k.cubin').write_text('compiled')"
    every = [
        step("versions", 20, "print('V')", stops=True),
        step("compile", 20, code),
        step("a", 20, "print('A')"),
        step("b", 20, "import os; print(os.listdir(os.environ['CUPY_CACHE_DIR']))"),
    ]
    assert gpu_run.main(["versions", "compile", "a"], every) == 0
    brought = tmp_path / "brought"
    results.rename(brought)
    shutil.rmtree(tmp_path / "cache")
    assert gpu_run.main([], every, resume=brought / "gpu-run.json") == 0
    ends = last_lines(capfd.readouterr().out)
    assert ends["passed"] == "versions, b"
    assert ends["skipped"] == "compile (it has passed before), a (it has passed before)"
    assert recorded(results) == dict.fromkeys(["versions", "compile", "a", "b"], "passed")
    assert "['k.cubin']" in (results / "gpu-run.log").read_text()
    # Without the archive the kernels must be compiled again.
    (brought / gpu_run.ARCHIVE).unlink()
    shutil.rmtree(tmp_path / "cache")
    assert gpu_run.main(["compile", "a"], every, resume=brought / "gpu-run.json") == 0
    assert last_lines(capfd.readouterr().out)["passed"] == "compile"
    (tmp_path / "other.json").write_text("[]")
    for wrong in ("other.json", "absent"):
        with pytest.raises(SystemExit, match=f"--resume .*{wrong}: no gpu-run.json of an earlier run"):
            gpu_run.main(["a"], every, resume=tmp_path / wrong)


def test_resume_takes_a_file_or_none(monkeypatch):
    given = []
    monkeypatch.setattr(gpu_run, "main", lambda steps, resume, within: given.append((steps, resume)) or 0)
    for line in ("tests", "tests --resume", "tests rivals --resume found/gpu-run.json"):
        gpu_run.run_command_line(line.split())
    assert given == [
        (["tests"], False),
        (["tests"], True),
        (["tests", "rivals"], Path("found/gpu-run.json")),
    ]


def test_what_was_done_is_on_disk_when_the_machine_is_gone(results, tmp_path):
    """Killed in its third step, without a chance to say anything."""
    there = tmp_path / "there"
    last = f"import pathlib, time; pathlib.Path({str(there)!r}).touch(); time.sleep(99)"
    script = f"import gpu_run; make = lambda name, code: gpu_run.Step(name, 60, 1, ({PYTHON!r}, '-S', '-c', code)); "
    script += f"gpu_run.main([], [make('a', ''), make('b', 'print(7)'), make('c', {last!r}), make('d', '')])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "harness")}
    with subprocess.Popen([PYTHON, "-c", script], env=environment, stdout=subprocess.DEVNULL, process_group=0) as run:
        while not there.exists():
            assert run.poll() is None
        run.kill()
        assert run.wait(20) == -9
    assert recorded(results) == {"a": "passed", "b": "passed", "c": "unfinished"}
    assert "\n7\n" in (results / "gpu-run.log").read_text()


def test_what_does_as_much_as_there_is_time_for_may_be_cut(results, capfd):
    heading, found = "========= COMPUTE-SANITIZER", "========= Invalid __global__ write of size 8 bytes"
    every = [
        Step("clean", 1, 1, ("sh", "-c", f"echo {heading!r}; sleep 99"), rest=True),
        Step("bad", 1, 1, ("sh", "-c", f"echo {heading!r}; echo {found!r}; sleep 99"), rest=True),
    ]
    assert gpu_run.main([], every) == 1
    assert recorded(results) == {"clean": "cut: did what it could in 1 s", "bad": "failed: killed after 1 s"}
    ends = last_lines(capfd.readouterr().out)
    assert (ends["skipped"], ends["failed"]) == ("clean (did what it could in 1 s)", "bad (killed after 1 s)")


def test_without_xdist_the_tests_run_in_one_process(results, monkeypatch, capfd):
    assert "-n" in gpu_run.suite(())
    monkeypatch.setattr(gpu_run, "find_spec", lambda name: None)
    assert "-n" not in gpu_run.suite(())
    assert gpu_run.main(["tests"], [step("tests", 20, "")]) == 0
    assert "pytest-xdist, which is not installed" in last_lines(capfd.readouterr().out)["skipped"]


def test_a_run_that_is_ended_ends_what_it_started(results, tmp_path):
    child = tmp_path / "child"
    code = f"import os, pathlib, time; pathlib.Path({str(child)!r}).write_text(str(os.getpid())); time.sleep(99)"
    script = "import sys, signal, gpu_run; signal.signal(signal.SIGTERM, gpu_run._terminated); "
    script += f"gpu_run.main([], [gpu_run.Step('hangs', 60, 1, ({PYTHON!r}, '-S', '-c', {code!r}))])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "harness")}
    with subprocess.Popen([PYTHON, "-c", script], env=environment, stdout=subprocess.PIPE) as run:
        for line in run.stdout:
            if b"=== hangs" in line:
                break
        while not (child.exists() and child.read_text()):
            pass
        run.terminate()
        assert run.wait(20) == 128 + 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(child.read_text()), 0)
    assert recorded(results) == {"hangs": "unfinished"}


def test_a_run_that_nobody_listens_to_goes_on(results):
    code = "print('x' * 2**20)"  # more than a pipe holds
    script = f"import gpu_run; step = gpu_run.Step('a', 60, 1, ({PYTHON!r}, '-S', '-c', {code!r})); "
    script += "gpu_run.main([], [step, gpu_run.Step('b', 60, 1, step.command)])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "harness")}
    with subprocess.Popen(
        [PYTHON, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        run.stdout.close()
        run.stderr.read()
    assert recorded(results) == {"a": "passed", "b": "passed"}
    assert (results / "gpu-run.log").read_text().count("x" * 2**20) == 2


def test_compiled_kernels_come_back_as_an_archive(results, tmp_path):
    code = "import os, pathlib; pathlib.Path(os.environ['CUPY_CACHE_DIR'], 'k.cubin').write_text('compiled')"
    assert gpu_run.main([], [step("compile", 20, code)]) == 0
    assert (tmp_path / "cache" / "cmfast-gpu" / "cupy" / "k.cubin").exists()
    with tarfile.open(results / "gpu-kernels.tar.gz") as archive:
        assert "./k.cubin" in archive.getnames()


class Machine:
    """A machine on which imports and every step take so long, and which is gone after some seconds."""

    def __init__(self, monkeypatch, results, imports, times=1.0, gone=float("inf")):
        self.now, self.imports, self.times, self.gone, self.results = 0.0, imports, times, gone, results
        monkeypatch.setattr(gpu_run, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(gpu_run, "execute", self.execute)
        monkeypatch.setattr(gpu_run.shutil, "which", lambda name, path: name)

    def execute(self, step, env, output):
        """Take the time; write a figure every ten seconds, as benchmarks do after every job."""
        if step.name == "compile":
            (Path(env["CUPY_CACHE_DIR"]) / "k.cubin").touch()
        takes = self.imports + self.times * step.expected
        end = self.now + min(takes, step.limit)
        if step.name == "benchmarks":
            figures = int(min(end, self.gone) - self.now - self.imports) // 10
            (self.results / "figures").write_text(str(figures))
        self.now = min(end, self.gone)
        if end > self.gone:
            raise Gone
        if takes <= step.limit:
            return "passed", 0
        return ("cut: in time" if step.rest else "failed: killed"), None


class Gone(BaseException):
    """The machine is no longer there: nobody handles that."""


QUOTED = r"^CMFAST_GPU_RESULTS=(\w+) \.ci/run gpu --within (\d+) ([\w: ]+?)(?: --resume (\w+)/gpu-run\.json)?$"


def find_quoted_runs():
    """Return folder of results, seconds, names of steps and resumed folder of the runs in docs/cuda.md, in order."""
    text = re.sub(r"\\\n *", "", (ROOT / "docs" / "cuda.md").read_text())  # lines that go on
    return re.findall(QUOTED, text, re.MULTILINE)


def quoted_runs():
    """Return names of steps and seconds of the runs that docs/cuda.md tells to make, in order."""
    return [(words.split(), float(within)) for _, within, words, _ in find_quoted_runs()]


def test_each_run_resumes_what_the_one_before_has_written():
    folders = [(folder, before) for folder, _, _, before in find_quoted_runs()]
    assert folders == [("first", ""), ("second", "first"), ("third", "second")]


def test_three_runs_of_ten_minutes_hold_every_step_but_the_smallest(results, monkeypatch, capfd):
    runs = quoted_runs()
    assert [within <= 600 for _, within in runs] == [True] * 3
    assert runs[0][0] == ["versions", "compile", "tests:instances", "benchmarks"]
    for names, within in runs:
        machine = Machine(monkeypatch, results, imports=10.0)
        assert gpu_run.main(names, resume=True, within=within) == 0
        assert machine.now <= within
    every = {each.name for each in gpu_run.steps()}
    assert recorded(results) == dict.fromkeys(every - {"smoke"}, "passed")


@pytest.mark.parametrize(("imports", "times", "status", "least"), [(36.0, 1.0, "passed", 20), (36.0, 2.0, "cut", 12)])
def test_the_first_ten_minutes_hold_the_benchmarks(results, monkeypatch, capfd, imports, times, status, least):
    """With cold imports, and even if every step takes twice as long as expected."""
    names, within = quoted_runs()[0]
    machine = Machine(monkeypatch, results, imports, times)
    gpu_run.main(names, within=within)
    assert recorded(results)["benchmarks"].startswith(status)
    assert int((results / "figures").read_text()) >= least
    assert machine.now <= within
    # Even if all before it take their whole limits.
    before = sum(each.limit for each in gpu_run.select_steps(names, gpu_run.steps()) if each.name != "benchmarks")
    assert within - before >= 90


@pytest.mark.parametrize(("minutes", "done", "figures"), [(3, 2, 0), (6, 3, 11), (9, 4, 22)])
def test_a_machine_that_is_gone_leaves_what_was_done(results, monkeypatch, capfd, minutes, done, figures):
    names, within = quoted_runs()[0]
    Machine(monkeypatch, results, imports=36.0, gone=60.0 * minutes)
    with contextlib.suppress(Gone):
        gpu_run.main(names, within=within)
    found = recorded(results)
    assert list(found) == names[: len(found)]
    assert [*found.values()][:done] == ["passed"] * done
    assert [*found.values()][done:] == ["unfinished"] * (len(found) - done)
    assert figures == (int((results / "figures").read_text()) if "benchmarks" in found else 0)
    # The next machine begins with what is left, the versions aside.
    machine = Machine(monkeypatch, results, imports=10.0)
    assert gpu_run.main(names, within=within, resume=True) == 0
    assert set(recorded(results).values()) == {"passed"}
    assert machine.now == sum(
        each.expected + 10.0
        for each in gpu_run.select_steps(names, gpu_run.steps())
        if each.name == "versions" or each.name not in names[:done]
    )


def test_steps_are_what_is_there():
    every = gpu_run.steps()
    first = ["versions", "compile", "tests:instances", "benchmarks", "tests:topics", "tests:conformance", "rivals"]
    assert [each.name for each in every][: len(first)] == first
    for each in every:
        for word in each.command:
            assert not word.startswith("tests/") or (ROOT / word).exists(), word
    known = {kernel.name for kernel in module.list_kernels()}
    assert {each.prints for each in every if each.group == "profile"} <= known
    assert all(each.expected < each.limit for each in every)
    tools = [each.command for each in every if each.group == "sanitize"]
    assert [command[2] for command in tools] == ["memcheck", "racecheck", "synccheck", "initcheck"]
    for command in tools:
        assert command[command.index("--kernel-name") + 1] == "kernel_substring=cmfast"
    assert all(kernel.startswith("cmfast_") for kernel in known)


def test_the_table_of_steps_has_their_seconds():
    text = (ROOT / "docs" / "cuda.md").read_text()
    (text,) = re.findall(r"^\| step \| expected \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = re.findall(r"^\| `([\w:]+)` \| ([\d x]+) \| ([\d x]+) \|", text, re.MULTILINE)
    groups = {}
    for each in gpu_run.steps():
        alone = each.name if each.group == "tests" else each.group
        groups.setdefault(alone, []).append(each)
    for name, *seconds in rows:
        some = groups.pop(name)
        times = f"{len(some)} x " if len(some) > 1 else ""
        assert seconds == [f"{times}{some[0].expected}", f"{times}{some[0].limit}"], name
    assert not groups


@pytest.mark.parametrize("page", ["docs/cuda.md", "CONTRIBUTING.md"])
def test_minutes_that_are_quoted_are_the_limits(page):
    text = " ".join((ROOT / page).read_text().split())
    (quoted,) = re.findall(r"at most (\d+) minutes", text)
    assert int(quoted) == -(-sum(each.limit for each in gpu_run.steps()) // 60)


def test_the_command_goes_to_the_steps(tmp_path):
    """From any folder, into the one that is named as seen from there."""
    for name, line in (("python3", f'exec {PYTHON} "$@"'), ("ncu", "exit 7")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path)}
    environment |= {"CMFAST_GPU_RESULTS": "found/here"}
    command = ["bash", str(ROOT / ".ci" / "run"), "gpu"]
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    done = run([*command, "profile:cmfast_overlap_pairs", "nonsense"])
    assert done.returncode == 1
    assert "no step named nonsense; there are: versions compile tests benchmarks rivals profile" in done.stderr
    done = run([*command, "profile:cmfast_overlap_pairs"])
    assert done.returncode == 1, done.stderr
    assert recorded(tmp_path / "found" / "here") == {"profile:cmfast_overlap_pairs": "failed: exit status 7"}


# What the steps are made of.


def test_the_first_thing_that_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "NEEDED", ("numpy", "a_library_that_nobody_has", "scipy"))
    lines = gpu.facts()
    assert next(lines).startswith("python 3.")
    assert next(lines) == f"numpy {np.__version__}"
    with pytest.raises(LookupError, match=r"^a_library_that_nobody_has cannot be imported: ModuleNotFoundError"):
        next(lines)
    monkeypatch.setattr(gpu, "NEEDED", ("numpy",))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LookupError, match=r"^nvidia-smi is not installed"):
        list(gpu.facts())
    programs(tmp_path, "nvidia-smi")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho no devices were found; exit 6\n")
    with pytest.raises(LookupError, match=r"^nvidia-smi: exit status 6: no devices were found"):
        list(gpu.facts())


def test_what_is_missing_is_said_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "NEEDED", ("a_library_that_nobody_has",))
    assert gpu.main() == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("MISSING: a_library_that_nobody_has cannot be imported")


def test_a_sanitizer_sees_every_array_by_itself(monkeypatch, capsys):
    cupy_on_cuda_host.install(monkeypatch)
    cupy = sys.modules["cupy"]
    pools = []
    seen = lambda *_: pools.append(cupy.allocator)  # noqa: E731
    monkeypatch.setattr(
        module, "list_kernels", lambda: [module.Kernel("comparison", "cmfast_overlap_pairs", (("double", "8"),))]
    )
    monkeypatch.setattr(cuda_sweep, "call_for", lambda kernel, instance: Call(seen, ()))
    monkeypatch.setattr(cuda_sweep, "calls", lambda mode: [("overlap", None)])
    monkeypatch.setattr(cuda_sweep, "run", seen)
    monkeypatch.setattr(cuda_sweep, "BEYOND", [lambda make: iter([seen()])])
    assert cupy.allocator == "a pool"
    cuda_sweep.sweep_gpu(60.0)
    assert pools == [None, None, None]
    assert capsys.readouterr().out.startswith("gpu: 0 of 1 instances, 1 calls beyond cases, 1 cases, ")
    cuda_sweep.sweep_gpu(-1.0)  # instances are watched whatever time that takes
    assert len(pools) == 5
    assert capsys.readouterr().out.startswith("gpu: 0 of 1 instances, 1 calls beyond cases, 0 cases, ")


FOREIGN, HERE = "site-packages/other/library.py", "kernels/cuda/scaling/launch.py"


@pytest.mark.parametrize(
    ("file", "required", "red"),
    [
        (f"/{FOREIGN}", "1", False),
        (f"/{FOREIGN}", "0", True),
        (str(ROOT / HERE), "1", True),
        (str(Path(cmfast.__file__).parent / HERE), "1", True),
        (str(ROOT / "tests" / "harness" / "calls.py"), "1", True),
    ],
)
def test_on_a_gpu_only_our_own_warnings_turn_tests_red(file, required, red, monkeypatch):
    right = cmfast.overlap

    def warned(*args, **options):
        warnings.warn_explicit("planted", UserWarning, file, 1)
        return right(*args, **options)

    monkeypatch.setattr(cmfast, "overlap", warned)
    monkeypatch.setenv("CMFAST_REQUIRE_GPU", required)
    given = ("overlap", (np.ones((2, 2)), np.ones((2, 2))), {})
    if red:
        with pytest.raises(AssertionError, match="got UserWarning: planted, expected no such warning"):
            call(*given, fails=False)
    else:
        assert call(*given, fails=False)[0] == 1.0


def test_on_a_gpu_pytest_fails_for_our_own_warnings_alone(tmp_path):
    """The settings of this project, where every warning is an error, are taken back by what the step says."""
    foreign, ours = ("cupy.cuda.compiler", "torch", "cmfastened"), ("cmfast", "cmfast.kernels.x", "calls")
    lines = ["import warnings"]
    for whose, names in (("foreign", foreign), ("ours", ours)):
        for number, name in enumerate(names):
            lines.append(f"def test_{whose}_{number}():")
            lines.append(f"    warnings.warn_explicit('x', UserWarning, 'f', 1, {name!r})")
    (tmp_path / "test_sample.py").write_text("\n".join(lines))
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [PYTHON, *gpu_run.suite(())[1:]]
    at = command.index("-m", 3)
    options = [word for word in command[:at] if word not in gpu_run.workers()]
    done = subprocess.run([*options, "-p", "no:xdist"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "3 failed, 3 passed" in done.stdout, done.stdout
    assert "test_foreign" not in "".join(line for line in done.stdout.splitlines() if line.startswith("FAILED"))


@pytest.mark.slow
def test_tests_of_many_elements_are_found_on_a_gpu():
    """They are as many as elsewhere, where they are tried with few."""
    (one,) = gpu_run.select_steps(["tests:many"], gpu_run.steps())
    path = os.pathsep.join(str(folder) for folder in (STAND_IN, ROOT, ROOT / "tests", ROOT / "tests" / "harness"))
    environment = {**os.environ, "CMFAST_REQUIRE_GPU": "1", "PYTHONPATH": path}
    command = [*one.command, "--collect-only"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = [line for line in done.stdout.splitlines() if "::" in line]
    families = re.findall(r"^def test_(\w+)\(", (ROOT / "tests/core/test_cuda_many.py").read_text(), re.MULTILINE)
    assert len(families) == 8
    assert {f"tests/core/test_cuda_many.py::test_{family}" for family in families} <= set(found)
    assert sum("test_gpu.py" in line for line in found) == 1


def test_an_instance_that_does_not_compile_is_named(monkeypatch, capsys):
    good = next(kernel for kernel in module.list_kernels() if kernel.name == "cmfast_column_ranges_blocks")
    table = [replace(good, instances=good.instances[:1]), replace(good, name="cmfast_no_such_kernel", instances=((),))]

    def function(xp, device, topic, expression):
        if "no_such" in expression:
            msg = "the compiler does not know it"
            raise RuntimeError(msg)

    cupy_on_cuda_host.install(monkeypatch)
    monkeypatch.setattr(module, "list_kernels", lambda: table)
    monkeypatch.setattr(module, "_load_function", function)
    monkeypatch.setattr(cuda_warm, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers))
    assert cuda_warm.main() == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first == "geometry/columns.cu, cmfast_no_such_kernel: RuntimeError: the compiler does not know it"
    assert last.startswith("2 instances in 2 units, 1 of them failed")


@pytest.mark.slow
@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_the_whole_run_on_stand_ins(results, tmp_path, monkeypatch, capfd):
    """Every step as it will be started, but for the longest of the tests; one is too slow, one tool is absent."""
    folder = programs(tmp_path, "nvidia-smi", "ncu")
    for name in ("sh", "g++", "as", "ld"):  # nothing else is on the path
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", f"{folder}")
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv(
        "PYTEST_ADDOPTS", "-k 'not torch and not devices and not libraries and not bits_of and (test_gpu or overlap)'"
    )
    limits = {"smoke": 2.0}
    every = [replace(each, limit=limits.get(each.name, 600.0)) for each in gpu_run.steps()]
    assert gpu_run.main([], every) == 1
    ended = recorded(results)
    absent = "skipped: compute-sanitizer is not installed"
    assert ended == {
        each.name: {"sanitize": absent, "smoke": "failed: killed after 2 s"}.get(each.group, "passed") for each in every
    }
    figures = json.loads((results / "host-0.json").read_text())
    assert figures["complete"]
    assert len(figures["jobs"]) > 20
    ends = last_lines(capfd.readouterr().out)
    assert ends["failed"] == "smoke (killed after 2 s)"
    assert ends["skipped"].count(absent.partition(": ")[2]) == 4


@pytest.mark.slow
@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_the_first_run_is_rehearsed_to_its_end(results, tmp_path, monkeypatch, capfd):
    """Every test of every instance, all figures and rivals, though of tiny inputs; the records have their seconds."""
    monkeypatch.setenv("PATH", f"{programs(tmp_path, 'nvidia-smi')}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    names = ["versions", "compile", "tests:instances", "benchmarks", "rivals"]
    every = [replace(each, limit=1800.0) for each in gpu_run.select_steps(names, gpu_run.steps())]
    every = [replace(each, command=(*each.command, "--smoke")) if each.least else each for each in every]
    assert gpu_run.main([], every) == 0
    found = json.loads((results / "gpu-run.json").read_text())["steps"]
    assert [(name, one["status"]) for name, one in found.items()] == [(name, "passed") for name in names]
    with capfd.disabled():
        sys.stdout.write("".join(f"\n{name}: {one['seconds']} s" for name, one in found.items()))
    assert not re.search(r"[1-9]\d* skipped", found["tests:instances"]["output"][-1])
    for kind in ("smoke", "rivals-smoke"):
        figures = json.loads((results / f"host-0-{kind}.json").read_text())
        assert figures["complete"]
        assert not [job for job in figures["jobs"] if "error" in job]


@pytest.mark.slow
@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_sanitizers_watch_the_sweep(results, tmp_path, monkeypatch):
    folder = programs(tmp_path, "compute-sanitizer")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    (one,) = gpu_run.select_steps(["sanitize:memcheck"], gpu_run.steps())
    assert gpu_run.main([], [replace(one, limit=600.0)]) == 0
    assert re.search(r"gpu: (\d{3,}) of \1 instances, [1-9]\d* calls beyond", (results / "gpu-run.log").read_text())
