"""Run checks on a GPU that is available for minutes: in steps with time limits, each saved before the next begins.

``.ci/run gpu`` calls ``python tests/harness/gpu_run.py [step ...]``; without arguments all steps run in order. With
``--resume``, steps that have passed according to the results are skipped, with ``--resume FILE`` also those that have
passed according to that ``gpu-run.json``; with ``--within SECONDS``, steps whose limit exceeds the remaining time,
except those that save what they find as they go: they get the rest. The folder ``CMFAST_GPU_RESULTS`` (by default
``benchmarks/results`` of this tree) gets

``gpu-run.log``
    what the steps print, each run appended to the one before;
``gpu-run.json``
    per step its outcome, its time and the end of its output, rewritten after every step;
``<device>.json``, ``<device>-smoke.json``
    the figures, rewritten after every job;
``gpu-kernels.tar.gz``
    the compiled kernels, for another machine with such a GPU and the same CuPy: ``--resume FILE`` unpacks an archive
    next to the file.

These are few files, because more rarely come back from a lent machine. Only the standard library is imported, so that a
step can report a missing library.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
MOST_WORKERS = 10
GRACE = 5.0  # seconds of a limit that are left to a step to end by itself once it is told to
LINES = 60  # of a step's output, stored with its status
ARCHIVE = "gpu-kernels.tar.gz"
PROFILED_BYTES = 200_000_000  # memory that profiled jobs are sized for: ncu saves and restores it some forty times
# What other libraries warn of is printed and fails nothing: nobody chose their releases there.
WARNINGS = "default\nerror:::(cmfast|tests|benchmarks|test_.*|backends|calls|cases|checks|conformance|oracle)([.]|$)"


@dataclass(frozen=True)
class Step:
    """One of them.

    Attributes
    ----------
    name : str
        ``group:what``, or the group alone; both can be asked for.
    limit : float
        Seconds after which it is killed.
    expected : float
        Seconds that it should take after its imports. Estimates: no step has run on a GPU yet.
    command : tuple of str
        What is run, in the folder of the tree.
    needs : str or None
        Program without which it is skipped.
    prints : str or None
        It has failed if it does not print this.
    rest : bool
        Whether it may be killed without having failed, because it does as much as there is time for.
    least : float or None
        Seconds from which on it is worth starting, for a step that saves what it finds as it goes. It gets the
        remaining time up to its limit, and has not failed if it is killed before its limit.
    stops : bool
        Whether nothing has a point after it has failed.
    """

    name: str
    limit: float
    expected: float
    command: tuple[str, ...]
    needs: str | None = None
    prints: str | None = None
    rest: bool = False
    least: float | None = None
    stops: bool = False

    @property
    def group(self) -> str:
        """What is before the colon."""
        return self.name.partition(":")[0]

    def fit(self, left: float) -> "Step":
        """Return the step as it runs in the `left` seconds, which are at least `least`."""
        if self.least is None or left >= self.limit:
            return self
        return replace(self, limit=round(left, 1), rest=True)


def workers() -> tuple[str, ...]:
    """Return how pytest is told to use several processes; nothing where it cannot."""
    return ("-n", str(min(MOST_WORKERS, os.cpu_count() or 1))) if find_spec("xdist") else ()


# What is tested, in the order of what it says for its time.
INSTANCES = ("tests/core/test_cuda_instances.py",)
CONFORMANCE = ("tests/contract/test_conformance.py", "tests/core/test_gpu.py", "tests/core/test_torch.py")
MANY = ("tests/core/test_cuda_many.py", "tests/core/test_gpu.py")
TOPICS = tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_cuda.py")))


def suite(files: Sequence[str], marks: str = "gpu", processes: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the command that tests, without what the settings of this project take for granted."""
    settings = ("addopts=--import-mode=importlib", f"filterwarnings={WARNINGS}")
    return (
        PYTHON, "-m", "pytest", "--quiet", "-rs", "--tb=short", "-p", "no:cacheprovider",
        *(workers() if processes is None else processes),
        *(f"--override-ini={setting}" for setting in settings), "-m", marks, *files,
    )  # fmt: skip


def profile(kernel: str, group: str, job: str = "") -> Step:
    """Return the step that looks into the first launch of a kernel in the first such job; clocks stay as they are."""
    # The name alone: cmfast_confusion_matrix_count is also how others begin.
    watch = ("--set", "full", "--clock-control", "none", "--kernel-name", f"regex:^{kernel}$", "--launch-count", "1")
    once = ("--once", "--size", str(PROFILED_BYTES), "--only", group, *(("--job", job) if job else ()))
    command = ("ncu", *watch, PYTHON, "-m", "benchmarks.gpu", *once)
    return Step(f"profile:{kernel}", 75, 25, command, needs="ncu", prints=kernel)


def sanitize(tool: str) -> Step:
    """Return the step in which a sanitizer watches a call for each instance, then others for forty seconds in all."""
    watch = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--kernel-name", "kernel_substring=cmfast")
    command = (*watch, PYTHON, "tests/harness/cuda_sweep.py", "gpu", "40")
    return Step(f"sanitize:{tool}", 70, 55, command, needs="compute-sanitizer", rest=True, least=45)


def results() -> Path:
    """Return the folder for everything that is found out."""
    return Path(os.environ.get("CMFAST_GPU_RESULTS") or ROOT / "benchmarks" / "results").absolute()


def steps() -> list[Step]:
    """Return all of them, in the order in which they are worth most if the machine is gone before the end."""
    figures = (PYTHON, "-m", "benchmarks.gpu", "--results", str(results()))
    figures_at_least = 90
    return [
        Step("versions", 150, 4, (PYTHON, "tests/harness/gpu.py"), stops=True),
        Step("compile", 90, 25, (PYTHON, "tests/harness/cuda_warm.py")),
        Step("tests:instances", 150, 70, suite(INSTANCES)),
        # Before further tests, so that the first ten minutes bring figures.
        Step("benchmarks", 400, 220, figures, least=figures_at_least),
        Step("tests:topics", 150, 80, suite(TOPICS)),
        Step("tests:conformance", 150, 80, suite(CONFORMANCE)),
        Step("rivals", 240, 150, (*figures, "--rivals"), least=figures_at_least),
        # One after the other: each takes most of the memory.
        Step("tests:many", 120, 60, suite(MANY, "gpu and slow", processes=())),
        profile("cmfast_ipf_group", "scaling"),
        profile("cmfast_ipf_single", "gradients"),
        profile("cmfast_ipf_team", "large"),
        profile("cmfast_confusion_matrix_count_bytes", "counting"),
        profile("cmfast_confusion_matrix_count", "counting", "C=100"),
        profile("cmfast_cell_counts_keys", "cells"),
        profile("cmfast_gcm_sums", "cells"),
        profile("cmfast_overlap_pairs", "comparing"),
        profile("cmfast_metrics_of_matrices_plan", "metrics"),
        # The last one may name memory that kernels of other libraries wrote, which it does not watch either.
        *map(sanitize, ("memcheck", "racecheck", "synccheck", "initcheck")),
        Step("smoke", 120, 60, (*figures, "--smoke"), least=figures_at_least),  # what the above has shown on more
    ]


def environment() -> dict[str, str]:
    """Return the environment of the steps: this tree first, a GPU asked for, compiled code kept for the next run."""
    env = dict(os.environ)
    env.pop("CMFAST_REQUIRE_CUDA_HOST", None)  # no g++ is asked for there
    given = env.get("PYTHONPATH")
    ours = [str(folder) for folder in (ROOT, ROOT / "tests", ROOT / "tests" / "harness")]
    env["PYTHONPATH"] = os.pathsep.join([*ours, *([given] if given else [])])
    env |= {"CMFAST_REQUIRE_GPU": "1", "PYTHONUNBUFFERED": "1", "CMFAST_GPU_RESULTS": str(results())}
    kept = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cmfast-gpu"
    for name, folder in (("NUMBA_CACHE_DIR", "numba"), ("CUPY_CACHE_DIR", "cupy")):
        env.setdefault(name, str(kept / folder))
        Path(env[name]).mkdir(parents=True, exist_ok=True)
    return env


class Output:
    """The terminal and the log, and of the current step what it printed last."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self.begin()

    def begin(self) -> None:
        """Forget the step before."""
        self.last: deque[str] = deque(maxlen=LINES)
        self.found: set[str] = set()

    def line(self, text: str, wanted: str | None = None) -> None:
        """Write one line."""
        with contextlib.suppress(OSError):  # the reader is gone, as when a connection breaks
            print(text, end="", flush=True)
        self._log.write(text)
        self._log.flush()
        self.last.append(text)
        if wanted and wanted in text:
            self.found.add(wanted)
        # What a sanitizer says, but for its own name.
        if text.startswith("========= ") and "COMPUTE-SANITIZER" not in text:
            self.found.add("=========")


def _signal(process: "subprocess.Popen[str]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _ended(process: "subprocess.Popen[str]", seconds: float) -> bool:
    try:
        process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return False
    return True


def execute(step: Step, env: dict[str, str], output: Output) -> tuple[str, int | None]:
    """Run the command of a step; return how it ended and its exit status, which it has unless it was killed."""
    grace = min(GRACE, step.limit / 4)
    # A group of its own, not a session: what ends this process by its session must find that one too.
    process = subprocess.Popen(
        step.command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, encoding="utf-8", errors="replace", process_group=0,
    )  # fmt: skip
    reader = Thread(target=_read_output, args=(process, step, output), daemon=True)
    reader.start()
    killed = True
    try:
        killed = not _ended(process, step.limit - grace)
        if killed:
            _signal(process, signal.SIGINT)  # pytest says then what failed so far
            _ended(process, grace)
    finally:
        if killed:
            _signal(process, signal.SIGKILL)
            _ended(process, GRACE)
    reader.join(1.0)
    if reader.is_alive():  # children that outlive it hold the pipe
        _signal(process, signal.SIGKILL)
        reader.join(GRACE)
    if killed:
        if step.rest and "=========" not in output.found:
            return f"cut: did what it could in {step.limit:g} s", None
        return f"failed: killed after {step.limit:g} s", None
    if process.returncode:
        return f"failed: exit status {process.returncode}", process.returncode
    if step.prints and step.prints not in output.found:
        return f"failed: it did not print {step.prints}", 0
    return "passed", 0


def _read_output(process: "subprocess.Popen[str]", step: Step, output: Output) -> None:
    with process.stdout or contextlib.nullcontext(()) as lines:
        for line in lines:
            output.line(line, step.prints)


def keep(folder: Path, archive: Path) -> None:
    """Pack what was compiled."""
    with tarfile.open(archive.with_suffix(".part"), "w:gz") as tar:
        tar.add(folder, ".")
    archive.with_suffix(".part").replace(archive)


def unpack(archive: Path, folder: Path) -> None:
    """Add what an earlier run compiled, if its archive is there."""
    if archive.is_file():
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")


class Records:
    """How every step ended the last time that it ran, here or in the run whose records are `earlier`."""

    def __init__(self, file: Path, earlier: Path | None = None) -> None:
        self._file = file
        self.steps: dict[str, dict[str, Any]] = {}
        if earlier:
            try:
                self.steps = json.loads(earlier.read_text())["steps"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                msg = f"--resume {earlier}: no gpu-run.json of an earlier run ({error}); name steps before --resume"
                raise SystemExit(msg) from error
        with contextlib.suppress(OSError, ValueError, KeyError):
            self.steps = self.steps | json.loads(file.read_text())["steps"]

    def record(self, step: Step, status: str, **facts: Any) -> None:
        """Write the record of a step atomically."""
        self.steps[step.name] = {"status": status, "limit": step.limit, "command": list(step.command), **facts}
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps({"steps": self.steps}, indent=1) + "\n")
        part.replace(self._file)


def reason(step: Step, env: dict[str, str], stopped: str, before: str, left: float) -> str:
    """Return why a step is not run, or nothing: it has passed, another has not, its program or its time is missing."""
    if before == "passed":
        return "it has passed before"
    if stopped:
        return f"{stopped} failed"
    if step.needs and not shutil.which(step.needs, path=env.get("PATH")):
        return f"{step.needs} is not installed"
    least = step.limit if step.least is None else step.least
    return f"its {least:g} s do not fit into the {left:.0f} s that are left" if least > left else ""


def select_steps(names: Iterable[str], every: Sequence[Step]) -> list[Step]:
    """Return the steps of these names, in the order of all; without a name every one."""
    names = set(names)
    unknown = names - {name for step in every for name in (step.name, step.group)}
    if unknown:
        groups = dict.fromkeys(step.group for step in every)
        msg = f"no step named {', '.join(sorted(unknown))}; there are: {' '.join(groups)}"
        raise SystemExit(msg)
    return [step for step in every if not names or {step.name, step.group} & names]


def main(
    names: Sequence[str],
    every: Sequence[Step] | None = None,
    *,
    resume: bool | Path = False,
    within: float = float("inf"),
) -> int:
    """Run steps; say at the end which passed, which did not, and which were not tried; 1 if any failed."""
    end = time.perf_counter() + within
    todo = select_steps(names, steps() if every is None else every)
    folder, env = results(), environment()
    folder.mkdir(parents=True, exist_ok=True)
    kernels = Path(env["CUPY_CACHE_DIR"])
    records = Records(folder / "gpu-run.json", earlier=resume if isinstance(resume, Path) else None)
    if isinstance(resume, Path):
        unpack(resume.with_name(ARCHIVE), kernels)
    ends: dict[str, list[str]] = {"passed": [], "skipped": [], "failed": []}
    if any(step.group == "tests" for step in todo) and not workers():
        ends["skipped"].append("pytest-xdist, which is not installed: the tests run in one process")
    with (folder / "gpu-run.log").open("a", encoding="utf-8") as log:
        output = Output(log)
        stopped = ""
        for step in todo:
            started, begin = datetime.now().astimezone().isoformat(timespec="seconds"), time.perf_counter()
            output.line(f"\n=== {step.name}, expected {step.expected:g} s, at most {step.limit:g} s ({started})\n")
            output.begin()
            facts: dict[str, Any] = {"exit_status": None}
            before = records.steps.get(step.name, {}).get("status", "")
            # Another machine may have other libraries, and no kernels.
            again = step.stops or (step.name == "compile" and not any(kernels.iterdir()))
            before = before if resume and not again else ""
            why_not = reason(step, env, stopped, before, end - begin)
            if why_not:
                status = f"skipped: {why_not}"
            else:
                records.record(step, "unfinished", started=started)
                status, facts["exit_status"] = execute(step.fit(end - begin), env, output)
                if step.name == "compile":
                    keep(kernels, folder / ARCHIVE)
            facts |= {"started": started, "seconds": round(time.perf_counter() - begin, 2), "output": list(output.last)}
            output.line(f"=== {step.name}: {status} ({facts['seconds']:.0f} s)\n")
            if before != "passed":
                records.record(step, status, **facts)
            kind, _, why = status.partition(": ")
            ends["skipped" if kind == "cut" else kind].append(f"{step.name} ({why})" if why else step.name)
            if step.stops and kind == "failed":
                stopped = step.name
        output.line("\n")
        for kind, found in ends.items():
            output.line(f"{kind}: {', '.join(found) or 'nothing'}\n")
        output.line(f"results: {folder}\n")
    return int(bool(ends["failed"]))


def run_command_line(argv: Sequence[str]) -> int:
    """Run the steps that the command line requests."""
    parser = argparse.ArgumentParser(prog=".ci/run gpu")
    parser.add_argument("step", nargs="*", help="by name or group; without one, all of them")
    parser.add_argument(
        "--resume", nargs="?", const=True, default=False, type=Path, metavar="FILE",
        help="leave out what has passed, as the results say, or this gpu-run.json of an earlier run",
    )  # fmt: skip
    parser.add_argument(
        "--within", type=float, default=float("inf"), metavar="SECONDS", help="run what fits into these"
    )
    options = parser.parse_args(argv)
    return main(options.step, resume=options.resume, within=options.within)


def _terminated(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)  # so that what is running is ended too


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run_command_line(sys.argv[1:]))
