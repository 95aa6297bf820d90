"""Fuzz the readers, guided by coverage: ``PYTHONPATH=.:tests python tests/fuzz/run.py --seconds 60``.

Inputs of ``corpus`` are changed at random (``mutators.py``) and given to every reader of their kind (``targets.py``);
what executes lines in an order that was not seen before is changed further. A fault is printed with its input, once
for each cause, and makes the exit status 1. Each target has a process of its own, so that a crash is a fault as well.
``--executions`` changes inputs of the corpus alone, so many of each target: the same on every machine and day, where
what is found depends neither on the clock nor on the time that new files carry.
``--update`` writes as corpus the smallest inputs that together execute as much.
"""

import argparse
import base64
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fuzz.arcs import Arc, Arcs
from fuzz.mutators import mutate
from fuzz.seeds import seeds
from fuzz.targets import SECONDS, TARGETS, Fault, Target, faults

CORPUS = Path(__file__).parent / "corpus"
TRACED = (
    "/cmfast/_files/",
    "/cmfast/cli/_saved_counts",
    "/confusion_counts/_state.py",
    "/_paired_held.py",
    "/conformal/_counts.py",
)
TRACED += ("/conformal/_histogram.py", "/geometry/_cells_file.py", "/confusion_counts/_label_axis.py")
MEMORY = 512 << 20  # bytes that a reader may take for an input of at most 64 KiB
KEPT = 40  # inputs of a target in the corpus, the smallest
SMALL = 6000  # bytes of an input that the corpus keeps
TRIED = "tried"  # name of the file that has the input which is tried


class Input(NamedTuple):
    """An input that executed something new, and which of it was."""

    data: bytes
    arcs: frozenset[Arc]


class Search:
    """Inputs of one target, and what they have executed so far."""

    def __init__(self, target: Target, arcs: Arcs, folder: Path, rng: random.Random) -> None:
        self.target, self.folder, self.rng = target, folder, rng
        self.found: dict[tuple[str, str, str], tuple[Fault, bytes]] = {}
        self.inputs: list[Input] = []
        self.fixed: list[bytes] | None = None  # alone to be changed
        self.executed = self.seconds = 0.0
        self._arcs, self._seen = arcs, set[Arc]()

    @property
    def n_arcs(self) -> int:
        """How many different arcs were executed."""
        return len(self._seen)

    def add(self, given: Iterable[bytes]) -> None:
        """Try inputs that are there already."""
        for data in given:
            self._try(data)

    def step(self) -> None:
        """Change an input and try what comes of it; those that were found last are changed more often."""
        pool = self.fixed or [one.data for one in self.inputs]
        k = min(int(len(pool) * self.rng.random() ** 0.5), len(pool) - 1)
        self._try(mutate(self.rng, pool[k], self.target.kind, pool))

    def _try(self, data: bytes) -> None:
        begin = time.process_time()
        (self.folder.parent / TRIED).write_bytes(data)
        with self._arcs.recorded() as arcs:
            _, found = faults(self.target, data, self.folder, SECONDS)
        self.executed += 1
        self.seconds += time.process_time() - begin
        if not arcs <= self._seen:
            self._seen |= arcs
            self.inputs.append(Input(data, frozenset(arcs)))
        for fault in found:
            known = self.found.get(fault.signature)
            if known is None or len(data) < len(known[1]):
                self.found[fault.signature] = fault, data


def read_corpus(name: str) -> list[bytes]:
    """Return the inputs of a target that the tree has."""
    path = CORPUS / f"{name}.json"
    return [zlib.decompress(base64.b64decode(text)) for text in json.loads(path.read_text())] if path.exists() else []


def write_corpus(name: str, inputs: Iterable[bytes]) -> None:
    """Write the inputs of a target, a line for each."""
    lines = sorted({base64.b64encode(zlib.compress(data, 9)).decode() for data in inputs}, key=lambda x: (len(x), x))
    (CORPUS / f"{name}.json").write_text(json.dumps(lines, indent=0) + "\n")


def smallest(inputs: Iterable[Input]) -> list[bytes]:
    """Return small inputs that together execute what all do, as far as there is room."""
    seen: set[Arc] = set()
    kept: list[bytes] = []
    for data, arcs in sorted(inputs, key=lambda one: (len(one.data), one.data)):
        if len(data) <= SMALL and len(kept) < KEPT and not arcs <= seen:
            seen |= arcs
            kept.append(data)
    return kept


def limit_memory() -> None:
    """Let what is asked for beyond some memory raise MemoryError, where Linux can."""
    status = Path("/proc/self/status")
    if status.exists():
        used = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, ((used << 10) + MEMORY, resource.RLIM_INFINITY))


def search(name: str, folder: Path, seconds: float, executions: float, seed: int) -> Search:
    """Fuzz a target in a folder and return what was found; the corpus itself takes its time besides."""
    inside = folder / name
    inside.mkdir()
    found = Search(TARGETS[name], Arcs(TRACED), inside, random.Random(f"{seed} {name}"))
    found.add([*read_corpus(name), *seeds(name)])
    if executions < float("inf"):
        found.fixed = read_corpus(name)
    end = time.monotonic() + seconds
    while time.monotonic() < end and found.executed < executions:
        found.step()
    return found


def fuzz_alone(name: str, folder: Path, asked: argparse.Namespace) -> int:
    """Fuzz a target in this process, print what was found, and return how many faults there are."""
    limit_memory()
    os.chdir(folder)  # readers write nothing; if one did it would be gone
    one = search(name, folder, asked.seconds, asked.executions, asked.seed)
    print(
        f"{name:16} {one.executed:8.0f} inputs {one.n_arcs:6} arcs {len(one.inputs):5} kept {len(one.found):4} faults"
    )
    if asked.update:
        write_corpus(name, smallest(one.inputs))
    for fault, data in one.found.values():
        show(f"{fault.reader}: {fault.what} ({fault.where})", data)
    return len(one.found)


def show(fault: str, data: bytes) -> None:
    """Print a fault and its input."""
    print(f"\n{fault}\n{base64.b64encode(zlib.compress(data, 9)).decode()}\n", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Fuzz; return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, but for the corpus itself")
    parser.add_argument("--executions", type=float, default=float("inf"), help="of each target, the same everywhere")
    parser.add_argument("--seed", type=int, default=0, help="of the changes")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only this one; may be repeated")
    parser.add_argument("--update", action="store_true", help="write the corpus")
    parser.add_argument("--inside", help=argparse.SUPPRESS)  # the folder of a process that fuzzes one target
    asked = parser.parse_args(argv)
    names = asked.target or list(TARGETS)
    if asked.inside:
        return int(fuzz_alone(names[0], Path(asked.inside), asked) > 0)
    failed = 0
    options = [f"--executions={asked.executions}", f"--seed={asked.seed}", *["--update"] * asked.update]
    for name in names:
        target = TARGETS[name]
        if target.missing:
            print(f"{name}: not fuzzed, as {', '.join(target.missing)} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            part = [f"--seconds={asked.seconds / len(names)}", f"--target={name}", f"--inside={folder}", *options]
            status = subprocess.run([sys.executable, __file__, *part], check=False).returncode
            if status not in (0, 1):
                data = Path(folder, TRIED).read_bytes() if Path(folder, TRIED).exists() else b""
                show(
                    f"{name}: the process ends with status {status}{'; ' * bool(target.crashes)}{target.crashes}", data
                )
            failed += status == 1 or (status != 0 and not target.crashes)
    print(f"{failed} of {len(names)} targets with faults" if failed else "no fault")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
