"""Apply the patches of this folder to the releases that they name, and run those projects' tests with them.

``python docs/backends/check.py [NAME ...]`` downloads each release by pip into a scratch folder, or fetches the commit
where the release comes without tests, installs it into a fresh environment, times a job before and after the patch, and
runs the project's own tests (those of the patch among them) twice: with cmfast, and where it cannot be imported. A test
that fails must fail without the patch too. What was found replaces the entries of ``results.json``, of which
``README.md`` is made; ``--page`` makes only that.

``--environments FOLDER`` takes the interpreter ``FOLDER/NAME/bin/python`` where there is one, in place of a fresh
environment. ``--checkouts FOLDER`` takes ``FOLDER/NAME``, a checkout of the commit, in place of fetching it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE / "tests" / "harness"))

from installs import find_pythons  # noqa: E402

RESULTS, PAGE = HERE / "results.json", HERE / "README.md"
PATIENCE = 1800  # seconds for a suite

# What Python runs at its start where cmfast is not to be found, though this environment has it.
HIDE = """
import importlib.metadata
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "cmfast":
            raise ModuleNotFoundError("No module named 'cmfast'", name=name)

def from_name(name, found=importlib.metadata.Distribution.from_name):
    if name == "cmfast":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)

sys.meta_path.insert(0, Hidden())
importlib.metadata.Distribution.from_name = from_name
"""

# A plugin of pytest: tests that draw random numbers draw the same ones with the patch and without.
SEED = """
import numpy

def pytest_runtest_setup(item):
    numpy.random.seed(0)
"""


class Backend(NamedTuple):
    """A project, the release that its patch is for, and its tests that concern the patch."""

    package: str  # on PyPI
    version: str
    module: str  # the folder of the package, in the source
    tests: tuple[str, ...]
    folder: str  # where the tests are run, in the source
    kind: str = "sdist"  # or "wheel", where that holds the tests, or "git", where only the repository does
    repository: str = ""
    commit: str = ""
    missing: tuple[str, ...] = ()  # files that the release lacks and the tests need, taken from the repository
    needs: tuple[str, ...] = ()  # what the tests import besides
    options: tuple[str, ...] = ()  # of pytest
    python: tuple[int, int] = (3, 11)  # the first that installs it next to NumPy 2


BACKENDS = {
    "ipfn": Backend("ipfn", "1.4.4", "ipfn", ("tests.py",), "tests"),
    "POT": Backend(
        "POT", "0.9.7.post1", "ot", ("test_bregman.py",), "test",
        repository="https://github.com/PythonOT/POT", commit="aed0120242e86ab29e630fee59593ee99f416d97",
        missing=("test/conftest.py",),
    ),
    "scikit-learn": Backend(
        "scikit-learn", "1.9.1", "sklearn", ("test_classification.py",), "sklearn/metrics/tests", kind="wheel",
        needs=("pandas",), options=("--confcutdir=../../..",),
    ),
    "torchmetrics": Backend(
        "torchmetrics", "1.9.0", "src/torchmetrics",
        ("unittests/utilities/test_utilities.py", "unittests/classification/test_confusion_matrix.py"), "tests",
        kind="git", repository="https://github.com/Lightning-AI/torchmetrics",
        commit="700261d3683ba77517e9650043f62a8313027437",
        needs=("cachier", "lightning-utilities", "pytest-timeout", "pytest-rerunfailures", "scikit-learn", "scipy"),
        options=("-m", "not DDP"),
    ),
    "cooler": Backend("cooler", "0.11.0", "src/cooler", ("test_balance.py", "test_cli_ops.py"), "tests"),
    "balance": Backend("balance", "0.23.0", "balance", ("test_rake.py",), "tests", python=(3, 12)),
}  # fmt: skip


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; raise with what it printed if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        msg = f"{command[0]} exited with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise RuntimeError(msg)
    return done


def obtain(name: str, scratch: Path, checkouts: Path | None) -> Path:
    """Return a folder with the sources of the release and their tests."""
    backend, source = BACKENDS[name], scratch / "source"
    if backend.kind == "git":
        return _fetch(name, source, checkouts)
    only = ("--no-binary", backend.package) if backend.kind == "sdist" else ("--only-binary", ":all:")
    wanted = f"{backend.package}=={backend.version}"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *only, "--dest", scratch / "release", wanted)
    (release,) = (scratch / "release").iterdir()
    if backend.kind == "wheel":
        shutil.unpack_archive(release, source, "zip")
    else:
        shutil.unpack_archive(release, scratch / "unpacked", filter="data")
        (folder,) = (scratch / "unpacked").iterdir()
        folder.rename(source)
    if backend.missing:
        checkout = _fetch(name, scratch / "checkout", checkouts)
        for path in backend.missing:
            shutil.copyfile(checkout / path, source / path)
    return source


def _fetch(name: str, target: Path, checkouts: Path | None) -> Path:
    """Return a folder with the files of the commit of a project's repository."""
    backend = BACKENDS[name]
    if checkouts is not None and (checkouts / name).is_dir():
        shutil.copytree(checkouts / name, target, ignore=shutil.ignore_patterns(".git"))
        return target
    run("git", "init", "--quiet", target)
    run("git", "-C", target, "fetch", "--quiet", "--depth=1", backend.repository, backend.commit)
    run("git", "-C", target, "checkout", "--quiet", "FETCH_HEAD")
    shutil.rmtree(target / ".git")
    return target


def find_interpreter(name: str, scratch: Path, environments: Path | None) -> Path:
    """Return an interpreter that has the release, its needs and what cmfast needs."""
    backend = BACKENDS[name]
    if environments is not None and (found := environments / name / "bin" / "python").exists():
        return found
    where = scratch / "environment"
    run(next(each for each in find_pythons() if _version(each) >= backend.python), "-m", "venv", where)
    python = where / "bin" / "python"
    wanted = f"{backend.package}=={backend.version}"
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "pytest", *backend.needs, wanted, TREE)
    return python


def _version(python: str) -> tuple[int, ...]:
    code = "import sys; print(*sys.version_info[:2])"
    return tuple(map(int, run(python, "-c", code).stdout.split()))


def patch_installed(name: str, source: Path, python: Path, site: Path) -> None:
    """Copy the installed package to `site`, with the files of the patched source in place of its own."""
    module = Path(BACKENDS[name].module)
    code = f"import {module.name}; print({module.name}.__path__[0])"
    installed = Path(run(python, "-c", code, cwd=site).stdout.strip().splitlines()[-1])
    shutil.copytree(installed, site / module.name)
    for libraries in installed.parent.glob("*.libs"):  # what compiled modules of wheels look for next to the package
        shutil.copytree(libraries, site / libraries.name)
    for path in list_changed(name):
        if path.is_relative_to(module) and path.suffix == ".py":
            shutil.copyfile(source / path, site / module.name / path.relative_to(module))


def list_changed(name: str) -> list[Path]:
    """Return the files that a patch changes."""
    text = (HERE / f"{name}.patch").read_text(encoding="utf-8")
    return [Path(line.removeprefix("+++ b/").split("\t")[0]) for line in text.splitlines() if line.startswith("+++ b/")]


def run_tests(name: str, source: Path, python: Path, paths: list[Path]) -> tuple[dict[str, int], set[str]]:
    """Return how many tests of the source passed, failed and were skipped, and which failed."""
    backend = BACKENDS[name]
    folder = source / backend.folder
    (folder / "seeded.py").write_text(SEED, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*paths, folder])),
        "OMP_NUM_THREADS": "1",
        "CMFAST_QUIET": "1",
    }
    command = [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-p", "seeded"]
    command += ["-o", "addopts=", "-o", "filterwarnings="]
    command += ["-W", "default", "--disable-warnings", "-rfE", *backend.options, *backend.tests]
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    if not counts.get("passed"):
        msg = f"{name}: no test passed\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise RuntimeError(msg)
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
    return {
        "passed": counts["passed"],
        "failed": counts.get("failed", 0) + counts.get("error", 0),
        "skipped": counts.get("skipped", 0),
    }, failed


def time_jobs(name: str, source: Path, python: Path, paths: list[Path]) -> dict[str, float]:
    """Return the seconds of the jobs of ``ratios.py``."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "CMFAST_QUIET": "1"}
    done = run(python, HERE / "ratios.py", name, source, env=environment, timeout=PATIENCE)
    return json.loads(done.stdout.strip().splitlines()[-1])


def check(name: str, environments: Path | None, checkouts: Path | None) -> dict[str, object]:
    """Patch, time and test one project; return what was found, or raise if a test fails because of the patch."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        site, absent = scratch / "site", scratch / "absent"
        for each in (site, absent):
            each.mkdir()
        (absent / "sitecustomize.py").write_text(HIDE, encoding="utf-8")
        source = obtain(name, scratch, checkouts)
        python = find_interpreter(name, scratch, environments)
        before = time_jobs(name, source, python, [TREE])
        run("git", "apply", "--whitespace=nowarn", HERE / f"{name}.patch", cwd=source)
        patch_installed(name, source, python, site)
        after = time_jobs(name, source, python, [site, TREE])
        counts, failed = run_tests(name, source, python, [site, TREE])
        plain, lost = run_tests(name, source, python, [absent, site])
        if failed or lost:
            shutil.rmtree(site)
            site.mkdir()
            run("git", "apply", "--reverse", "--whitespace=nowarn", HERE / f"{name}.patch", cwd=source)
            _, theirs = run_tests(name, source, python, [TREE])
            if new := (failed | lost) - theirs:
                msg = f"{name}: these tests fail only with the patch: {sorted(new)}"
                raise RuntimeError(msg)
        return {
            "version": BACKENDS[name].version,
            "tests": {"with": counts, "without": plain},
            "failed_before": sorted(failed | lost),
            "seconds": {job: [before[job], after[job]] for job in before},
        }


def page(results: dict[str, dict]) -> str:
    """Return the page of all results."""
    lines = [
        "# cmfast inside other tools",
        "",
        "A pull request for each of six projects, in a form that their maintainers could merge: `NAME.patch`, a",
        "unified diff for the release in the table, and `NAME.md`, its description. cmfast is optional everywhere:",
        "without it their own code runs. `python docs/backends/check.py` (or `.ci/run backends`) gets each release,",
        "applies the patch, runs the project's tests with cmfast and without it, times a job before and after, and",
        "makes this page. No patch has been sent to anybody. Times are the fastest of three calls on two cores that",
        "did other work too, so ratios are rough. They leave out the first call of each function on a machine, which",
        "compiles it and takes seconds; later processes load it from a cache.",
        "",
        "| project | release | tests with cmfast | without | job | before | after | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        first = True
        for job, (before, after) in found["seconds"].items():
            cells = [f"[{name}]({name}.md)", found["version"], _tests(found, "with"), _tests(found, "without")]
            lines.append(
                f"| {' | '.join(cells if first else [''] * len(cells))} | {job} | {_seconds(before)} "
                f"| {_seconds(after)} | {_ratio(before / after)} |"
            )
            first = False
    failed = [f"- {name}: `{test}`" for name, found in results.items() for test in found["failed_before"]]
    if failed:
        lines += ["", "These tests fail in the same way without the patch, in this environment:", "", *failed]
    return "\n".join([*lines, ""])


def _tests(found: dict, which: str) -> str:
    return ", ".join(f"{number} {word}" for word, number in found["tests"][which].items() if number)


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * 1e3:.2g} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def main() -> None:
    """Check the named projects, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BACKENDS)}; default: all")
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--checkouts", type=Path)
    parser.add_argument("--page", action="store_true", help="only write README.md")
    args = parser.parse_args()
    if unknown := set(args.names) - BACKENDS.keys():
        parser.error(f"NAME must be one of {', '.join(BACKENDS)}, got {', '.join(sorted(unknown))}")
    for name in () if args.page else args.names or BACKENDS:
        found = check(name, args.environments, args.checkouts)
        print(name, json.dumps(found), flush=True)
        results = (json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}) | {name: found}
        ordered = {each: results[each] for each in BACKENDS if each in results}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
