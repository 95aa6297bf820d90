"""Hashes of all results on all cases, by op and target: what a change that only moves things must leave as it was.

``python tests/harness/bits.py`` writes those of this tree and machine to ``tests/data/bits.json``. Rounding is the same
where compilers and linear algebra are the same, so they are compared there only.

``python tests/harness/bits.py --against [REVISION]`` compares this tree with another one on this machine: the tree of
REVISION is taken out of git, and the cases that both have, with the same inputs, are run in both, each in a process of
its own with this interpreter. The base is REVISION, otherwise the environment variable CMFAST_BASE, otherwise the
commit in ``tests/data/bits_base.json``. That file also names the ops whose bits were meant to change since, and why.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cuda_host
import llvmlite.binding
import numba
import numpy as np
import scipy
from backends import BACKENDS, CUDA_HOST, convert, has_kernels, supports
from calls import parts, public
from cases import CASES

import cmfast
from cmfast.kernels.ops import OPS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "data" / "bits.json"
BASE_FILE = ROOT / "tests" / "data" / "bits_base.json"
HASH_LETTERS = 16
JOIN = "+"  # between the hashes of parts
PARTS = re.compile(r"[0-9a-f+]*")


def machine() -> dict[str, str]:
    """Return what rounding depends on."""
    found = {module.__name__: module.__version__ for module in (np, numba, scipy)}
    return found | {"python": platform.python_version(), "processor": llvmlite.binding.get_host_cpu_name()}


def targets() -> list[str]:
    """Return the targets that can run here."""
    return ["cpu"] if cuda_host.missing() else ["cpu", "cuda"]


def _runnable(op: str, target: str) -> Iterator[tuple[Any, Any]]:
    """Yield the cases of `op` that the target can run, and the backend that holds their arrays."""
    backend = (BACKENDS if target == "cpu" else CUDA_HOST)[0]
    for case in CASES[op]:
        if supports(backend, case) and has_kernels(backend, op, case):
            yield case, backend


def _result(op: str, case: Any, backend: Any) -> tuple[Any, ...]:
    """Return the arrays of one call."""
    args = [convert(backend, a) for a in case.args]
    options = {name: convert(backend, value) for name, value in case.options.items()}
    with warnings.catch_warnings(), backend.running():
        warnings.simplefilter("ignore")
        return parts(op, public(op)(*args, **options))


def hash_op(op: str, target: str) -> str:
    """Return one hash of all results of `op`, in the order of its cases."""
    found = hashlib.sha256()
    for case, backend in _runnable(op, target):
        for part in _result(op, case, backend):
            _add(found, part)
    return found.hexdigest()[:HASH_LETTERS]


def hash_cases(op: str, target: str) -> dict[str, tuple[str, str]]:
    """Return, by case of `op`, the hash of its inputs and that of its results, or the error that the call raised."""
    return {str(case): (_hash_inputs(case), _hash_result(op, case, backend)) for case, backend in _runnable(op, target)}


def _hash_inputs(case: Any) -> str:
    found = hashlib.sha256()
    for value in (*case.args, *(item for pair in sorted(case.options.items()) for item in pair)):
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, np.ndarray):
                _add(found, item)
            else:
                found.update(re.sub(r" at 0x[0-9a-f]+", "", repr(item)).encode())
    return found.hexdigest()[:HASH_LETTERS]


def _hash_result(op: str, case: Any, backend: Any) -> str:
    """Return the hashes of the parts of a result, or the error that the call raised."""
    hashes = []
    try:
        for part in _result(op, case, backend):
            found = hashlib.sha256()
            _add(found, part)
            hashes.append(found.hexdigest()[:HASH_LETTERS])
    except Exception as error:  # noqa: BLE001 - the other tree must raise the same
        return f"{type(error).__name__}: {error}"
    return JOIN.join(hashes)


def _differ(one: str, other: str) -> bool:
    """Whether two results differ in a part that both have: one that was added later is no change."""
    if not (PARTS.fullmatch(one) and PARTS.fullmatch(other)):
        return one != other
    pairs = zip(one.split(JOIN), other.split(JOIN), strict=False)
    return any(a != b for a, b in pairs)


def _add(found: Any, part: Any) -> None:
    if isinstance(part, tuple):
        for item in part:
            _add(found, item)
        return
    array = np.asarray(part.get() if hasattr(part, "get") else part)
    array = np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array  # one NaN is like another
    found.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())


class Base(NamedTuple):
    """What is compared with, and which ops may differ."""

    revision: str
    changed: dict[str, str]
    """Reasons by op, or by op and target as in ``rake on cpu``."""


def read_base(revision: str | None) -> Base:
    """Return the base: `revision`, CMFAST_BASE, or the commit in the file."""
    kept = json.loads(BASE_FILE.read_text())
    return Base(revision or os.environ.get("CMFAST_BASE") or kept["base"], kept["changed"])


def export_tree(repository: Path, revision: str, folder: Path) -> str | None:
    """Write the files of a commit into `folder`; return why that cannot be done, or None."""
    git = ["git", "-C", str(repository)]
    known = subprocess.run([*git, "cat-file", "-e", f"{revision}^{{commit}}"], capture_output=True, check=False)
    if known.returncode:
        return f"{repository} has no commit {revision}; a shallow clone gets it by `git fetch --unshallow`"
    done = subprocess.run([*git, "archive", "--format=tar", revision], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return None


def has_history(repository: Path) -> bool:
    """Return whether git has all commits there, not only the newest: a base that is unknown is a mistake then."""
    command = ["git", "-C", str(repository), "rev-parse", "--is-shallow-repository"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() == "false"


def hashes_of_tree(tree: Path, wanted: list[str]) -> dict[str, Any]:
    """Return the hashes of a tree, by target, op and case.

    This script's `--print` runs on the modules of the tree, cases and all: what it calls may have other names here.
    One tree at a time: where the kernels of two are the same, the second finds compiled what the first has.
    """
    path = os.pathsep.join(str(tree / name) for name in ("", "tests", "tests/harness"))
    env = {**os.environ, "PYTHONPATH": path, "CMFAST_QUIET": "1"}
    # -P: the folder of this file is not searched, or this tree's modules would be found instead of those of `tree`.
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--print", *wanted]
    done = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        msg = f"the cases of {tree} did not run: exit status {done.returncode}"
        raise RuntimeError(msg)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Differences(NamedTuple):
    """What a comparison of two trees gave."""

    wrong: list[str]
    """A line for each op whose bits changed without a reason."""
    notes: list[str]
    """A line for each op that changed with a reason, has a reason and did not change, or cannot be compared."""
    n_compared: int
    """Cases that both trees have, with the same inputs."""


def compare(here: dict[str, Any], base: dict[str, Any], changed: dict[str, str], name: str = "base") -> Differences:
    """Compare the hashes of two trees, by target, op and case."""
    wrong, notes, n_compared = [], [], 0
    seen = set()
    for target, ops in here.items():
        for op, cases in ops.items():
            before = base.get(target, {}).get(op, {})
            common = [case for case in cases if case in before and cases[case][0] == before[case][0]]
            n_compared += len(common)
            if not common:
                notes += [f"{op} on {target}: no case with the same inputs in {name}"] if cases else []
                continue
            other = [case for case in common if _differ(cases[case][1], before[case][1])]
            if not other:
                continue
            case = other[0]
            line = f"{op} on {target}, case {case}: got {cases[case][1]}, {name} gave {before[case][1]}"
            line += f" ({len(other)} of {len(common)} cases differ)"
            keys = {op, f"{op} on {target}"} & set(changed)
            seen |= keys
            if keys:
                notes.append(f"{line}; meant: {changed[min(keys)]}")
            else:
                wrong.append(line)
    notes += [f"{key} has a reason to differ and does not, here: {changed[key]}" for key in changed if key not in seen]
    return Differences(wrong, notes, n_compared)


def compare_with_base(revision: str | None, repository: Path, wanted: list[str]) -> int:
    """Compare this tree with the base, and print what differs; return the exit status."""
    base = read_base(revision)
    with tempfile.TemporaryDirectory(prefix="cmfast-base-") as folder:
        reason = export_tree(repository, base.revision, Path(folder))
        if reason:
            needed = os.environ.get("CMFAST_REQUIRE_BASE") == "1" or has_history(repository)
            print(f"bits: {'failed' if needed else 'skipped'}: {reason}")
            return int(needed)
        here, there = (hashes_of_tree(tree, wanted) for tree in (ROOT, Path(folder)))
    found = compare(here, there, base.changed, base.revision[:10])
    for line in (*found.notes, *found.wrong):
        print(line)
    if not found.n_compared:
        print(f"bits: no case of this tree is one of {base.revision}")
        return 1
    if found.wrong:
        print(f"bits: {len(found.wrong)} changed; if that is meant, say why in {BASE_FILE.relative_to(ROOT)}")
    else:
        print(f"bits: {found.n_compared} cases have the bits of {base.revision[:10]}, or a reason")
    return int(bool(found.wrong))


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description="Keep or compare the bits of all results.")
    parser.add_argument("--against", nargs="?", const="", metavar="REVISION", help="compare with the tree of a commit")
    parser.add_argument("--repository", type=Path, default=ROOT, help="where git knows that commit")
    parser.add_argument("--ops", nargs="*", default=None, help="some ops; default: all")
    parser.add_argument("--targets", nargs="*", default=None, help="cpu, cuda; default: all that run here")
    parser.add_argument("--print", action="store_true", help="print the hashes of all cases as JSON")
    return parser.parse_args()


def main() -> int:
    """Write the file, compare with another tree, or print hashes."""
    args = parse_arguments()
    wanted = [] if args.ops is None else ["--ops", *args.ops]
    wanted += [] if args.targets is None else ["--targets", *args.targets]
    if args.against is not None:
        return compare_with_base(args.against or None, args.repository, wanted)
    chosen_targets = [target for target in targets() if args.targets is None or target in args.targets]
    if args.print:
        if not Path(cmfast.__file__).resolve().is_relative_to(Path.cwd().resolve()):
            msg = f"cmfast is that of {cmfast.__file__}, not of {Path.cwd()}"
            raise RuntimeError(msg)
        chosen = [op for op in sorted(OPS) if args.ops is None or op in args.ops]
        print(json.dumps({target: {op: hash_cases(op, target) for op in chosen} for target in chosen_targets}))
        return 0
    if wanted:
        print("the file has all ops and targets: leave out --ops and --targets, or add --against or --print")
        return 2
    hashes = {target: {op: hash_op(op, target) for op in sorted(OPS)} for target in chosen_targets}
    FILE.write_text(json.dumps({"machine": machine(), **hashes}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
