"""Plant the mistakes of ``mutation_data.py`` one at a time in a copy of the tree, and say which tests find them.

``python tests/harness/mutations.py --run targeted|short|whole [--only NAME ...] [--work FOLDER] [--json FILE]``

First the tests run on the copy as it is: they must pass, and they compile all kernels that they need. Then each mistake
is made, and they run until one fails. What a mistake cannot affect is not compiled again: an edit of a kernel gives the
cache folder another name, so the compiled files of all modules that do not import the edited one, directly or not, are
linked into the new folder, with the new digest in their indexes. The tree itself is never changed.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import house
from mutation_data import CONFORMANCE, CUDA, MUTATIONS, Mutation, Stages
from processes import ROOT

# What the command of the README runs, and what all of CI does. The tests of the mistake's topic come first.
SHORT: tuple[str, ...] = ("--short", "tests", "cmfast")
WHOLE: tuple[str, ...] = ("-m", "slow or not slow", "tests", "cmfast")

PYTEST = ("-m", "pytest", "-x", "-q", "-rfE", "--no-header", "-p", "no:cacheprovider", "--tb=short")
LIMIT = 3600.0  # seconds of one run of pytest: a mistake may make a loop endless
FAILED, NONE_COLLECTED = (1, 2, 3, 4), 5  # exit statuses of pytest
CHECKSUM_BYTES = 32  # in front of an index, see kernels/cpu/_core/jit.py
MODULE = re.compile(r"-(cmfast\.kernels\.[\w.]+)-\d+\.py\d+")
WHERE = "from cmfast.kernels.cpu._core import jit; print(jit.digest()); print(jit.find_cache_folder())"


@dataclass(frozen=True)
class Outcome:
    """What became of one mistake.

    Attributes
    ----------
    found : bool
        Whether a test failed, or did not end.
    by : str
        The test that failed first.
    line : str
        The first line of its error.
    kept : int
        Compiled functions that were taken over.
    """

    name: str
    file: str
    kind: str
    run: str
    found: bool
    by: str
    line: str
    seconds: float
    kept: int


def stages_of(mutation: Mutation, run: str) -> Stages:
    """Return the runs of pytest for a mistake, one after the other until one fails."""
    if run == "targeted":
        return mutation.stages
    everything = SHORT if run == "short" else WHOLE
    options = [arg for arg in everything if arg not in ("tests", "cmfast")]
    return (*options, f"tests/{mutation.topic}"), (*options, CONFORMANCE), everything


def affected_modules(file: str) -> set[str]:
    """Return the modules of kernels that import the one in `file`, directly or not, and that one."""
    edited = next((name for name, path in _kernel_modules().items() if path.as_posix() == file), None)
    if edited is None:
        return set()
    users = _users()
    found: set[str] = set()
    waiting = [edited]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += users[name]
    return found


@cache
def _kernel_modules() -> dict[str, Path]:
    return {name: path for name, path in house.modules().items() if name.startswith("cmfast.kernels")}


@cache
def _users() -> dict[str, set[str]]:
    """Return by which modules of kernels each of them is imported."""
    known = _kernel_modules()
    users: dict[str, set[str]] = {name: set() for name in known}
    for name in known:
        for used in house.imports(name, known):
            users[used].add(name)
    return users


class Copy:
    """A copy of the tree, and where its kernels are compiled to."""

    def __init__(self, work: Path) -> None:
        self.work, self.tree = work, work / "tree"
        shutil.rmtree(self.tree, ignore_errors=True)
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            source, target = ROOT / name, self.tree / name
            if source.is_symlink() or source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        for command in (["init", "--quiet"], ["add", "--all"]):  # tests of packaging ask git for the list of files
            subprocess.run(["git", "-C", str(self.tree), *command], check=True)
        self.compiled = self.kernels("as-it-is")  # digest and folder without a mistake

    def environment(self, cache: str) -> dict[str, str]:
        """Return the environment in which the copy is run, with a cache of this name."""
        env = {**os.environ, "PYTHONPATH": str(self.tree), "XDG_CACHE_HOME": str(self.work / "caches" / cache)}
        env |= {"CI": "1"}  # pytest cuts its summary to the width of the terminal elsewhere
        env.pop("NUMBA_CACHE_DIR", None)
        return env

    def kernels(self, cache: str) -> tuple[str, Path]:
        """Return the digest of the kernels as they are now, and the folder that they are compiled to."""
        command = [sys.executable, "-c", WHERE]
        env = self.environment(cache)
        done = subprocess.run(command, cwd=self.tree, env=env, capture_output=True, text=True, check=True)
        digest, folder = done.stdout.split("\n")[:2]
        return digest, Path(folder)

    @contextmanager
    def planted(self, mutation: Mutation) -> Iterator[None]:
        """Make a mistake, and undo it."""
        path = self.tree / mutation.file
        before, times = path.read_text(encoding="utf-8"), path.stat()
        if before.count(mutation.old) != 1:
            msg = f"{mutation.name}: {mutation.file} has {mutation.old!r} {before.count(mutation.old)} times, not once"
            raise LookupError(msg)
        path.write_text(before.replace(mutation.old, mutation.new), encoding="utf-8")
        later = (
            int(times.st_mtime) + 60 + MUTATIONS.index(mutation)
        )  # by the second and size Python knows compiled files
        os.utime(path, (later, later))
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))

    def seed(self, mutation: Mutation) -> int:
        """Take over what was compiled of modules that a planted mistake cannot affect; return how many functions."""
        own, shared = self.work / "caches" / mutation.name, self.work / "caches" / "as-it-is"
        for folder in shared.iterdir() if shared.exists() else ():
            if folder.name != "cmfast":  # of other libraries
                shutil.copytree(folder, own / folder.name, dirs_exist_ok=True)
        digest, target = self.kernels(mutation.name)
        before, source = self.compiled
        affected = set() if mutation.same_code else affected_modules(mutation.file)
        return link_compiled(source, target, affected, before, digest)


def link_compiled(source: Path, target: Path, affected: Iterable[str], before: str, digest: str) -> int:
    """Link the compiled files of modules that are not `affected`, and write the new digest into their indexes."""
    if source == target or not source.exists():
        return 0
    target.mkdir(parents=True, exist_ok=True)
    affected, kept = set(affected), 0
    for index in source.glob("*.nbi"):
        module = MODULE.search(index.name)
        if module is None or module[1] in affected:  # functions of tests may call any kernel
            continue
        payload = index.read_bytes()[CHECKSUM_BYTES:]
        if payload.count(before.encode()) != 1:
            continue
        if (target / index.name).exists():  # linked before an earlier run, which may have compiled more
            continue
        payload = payload.replace(before.encode(), digest.encode())
        (target / index.name).write_bytes(hashlib.sha256(payload).digest() + payload)
        for data in source.glob(f"{_literal(index.stem)}.*.nbc"):
            os.link(data, target / data.name)
        kept += 1
    return kept


def _literal(name: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", name)  # Numba puts angle brackets and more into names


def run_tests(copy: Copy, cache: str, args: tuple[str, ...]) -> tuple[int, str]:
    """Run pytest in the copy; return its exit status and what it printed. One that does not end has -1."""
    command = [sys.executable, *PYTEST, *args]
    env = copy.environment(cache)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        running = subprocess.Popen(
            command, cwd=copy.tree, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = running.wait(LIMIT)
        except subprocess.TimeoutExpired:
            status = -1
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
        if status == -1:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        out.seek(0)
        return status, out.read()


def first_failure(status: int, text: str) -> tuple[str, str]:
    """Return the test that failed first, and the first line of its error."""
    if status == -1:
        return "a run that does not end", f"more than {LIMIT:.0f} s"
    for line in text.splitlines():
        found = re.match(r"(?:FAILED|ERROR) (.+?)(?: - (.*))?$", line)
        if found:
            return found[1], found[2] or ""
    return f"pytest, exit status {status}", " ".join(text.split()[-30:])


class Baseline:
    """Which runs of tests pass on the copy as it is: a mistake is found only by tests that pass without it."""

    def __init__(self, copy: Copy) -> None:
        self._copy, self._file = copy, copy.work / "as-it-is.json"
        tree = subprocess.run(
            ["git", "-C", str(copy.tree), "write-tree"], capture_output=True, text=True, check=True
        ).stdout.strip()
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._tree = tree
        self._passed: list[str] = kept.get(tree, [])

    def check(self, args: tuple[str, ...]) -> None:
        """Run tests as it is, once; they also compile what they need. Raise RuntimeError where they do not pass."""
        text = " ".join(args)
        if text in self._passed:
            return
        begin = time.monotonic()
        status, out = run_tests(self._copy, "as-it-is", args)
        print(f"as it is: exit status {status} in {time.monotonic() - begin:.0f} s of {text}", flush=True)
        if status:
            print(out[-4000:])
            msg = f"these tests must pass before a mistake is made: {text}"
            raise RuntimeError(msg)
        self._passed.append(text)
        self._file.write_text(json.dumps({self._tree: self._passed}))


def judge(copy: Copy, baseline: Baseline, mutation: Mutation, run: str) -> Outcome:
    """Make a mistake, run tests until one fails, undo it."""
    compiles = mutation.file.startswith("kernels/") and not mutation.file.startswith(f"{CUDA}/")
    cache = mutation.name if compiles else "as-it-is"
    seconds, kept, by, line, found = 0.0, 0, "", "", False
    for args in stages_of(mutation, run):
        baseline.check(args)
        begin = time.monotonic()
        with copy.planted(mutation):
            kept = copy.seed(mutation) if compiles else 0
            status, text = run_tests(copy, cache, args)
        seconds += time.monotonic() - begin
        if status == NONE_COLLECTED:
            msg = f"{mutation.name}: nothing is collected by {' '.join(args)}"
            raise LookupError(msg)
        if status:
            (by, line), found = first_failure(status, text), True
            break
    if compiles:
        shutil.rmtree(copy.work / "caches" / cache, ignore_errors=True)
    return Outcome(mutation.name, mutation.file, mutation.kind, run, found, by, line, round(seconds, 1), kept)


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a Markdown table, and how many were found."""
    lines = ["| mutation | file | kind | found by | first line | s |", "|---|---|---|---|---|---|"]
    for one in outcomes:
        by = one.by if one.found else "**nothing**"
        line = one.line.replace("|", "\\|")[:160]
        lines.append(f"| {one.name} | {one.file} | {one.kind} | {by} | {line} | {one.seconds:.0f} |")
    found = sum(one.found for one in outcomes)
    return "\n".join([*lines, "", f"{found} of {len(outcomes)} found, {sum(one.seconds for one in outcomes):.0f} s"])


def select_mutations(names: list[str] | None) -> list[Mutation]:
    """Return the mistakes of these names, or all."""
    known = {one.name for one in MUTATIONS}
    for name in names or ():
        if name not in known:
            msg = f"there is no mutation {name}; there are: {', '.join(sorted(known))}"
            raise LookupError(msg)
    return [one for one in MUTATIONS if not names or one.name in names]


def main(argv: list[str] | None = None) -> int:
    """Judge the mistakes; the exit status is 1 if nothing found one of them."""
    parser = argparse.ArgumentParser(description="Which planted mistakes do the tests find?")
    parser.add_argument("--run", choices=["targeted", "short", "whole"], default="targeted", help="which tests")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some mutations; default: all")
    parser.add_argument("--work", type=Path, help="folder that is kept, with what was compiled; default: a new one")
    parser.add_argument("--json", type=Path, help="file for the outcomes")
    args = parser.parse_args(argv)
    mutations = select_mutations(args.only)
    work = args.work or Path(tempfile.mkdtemp(prefix="cmfast-mutations-"))
    work.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    try:
        copy = Copy(work.resolve())
        baseline = Baseline(copy)
        for mutation in mutations:
            outcomes.append(judge(copy, baseline, mutation, args.run))
            one = outcomes[-1]
            print(f"{one.name}: {f'{one.by} - {one.line}' if one.found else 'NOT FOUND'} ({one.seconds} s)", flush=True)
            if args.json:
                args.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    finally:
        if args.work is None:
            shutil.rmtree(work, ignore_errors=True)
    print(table(outcomes))
    return int(not all(one.found for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
