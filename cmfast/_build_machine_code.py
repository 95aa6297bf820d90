"""Compile kernels ahead for levels of x86-64, into the package: a step before a wheel with machine code is built.

``python -m cmfast._build_machine_code [--trial] [NAME ...]`` takes names as ``cmfast warmup`` does; default: all. A
trial compiles for the levels of this processor alone; a release needs every level.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from cmfast._version import __version__
from cmfast.kernels.cpu._core import jit, machine_code

MANIFEST = "manifest.json"


def build(names: Sequence[str], root: Path = machine_code.ROOT, *, trial: bool = False) -> dict[str, Any]:
    """Compile for every level and replace the machine code below `root`; return what it was built from.

    Raises SystemExit on a processor that lacks a level, because the compiled functions are called; in a trial only on
    one that lacks them all.
    """
    levels = machine_code.list_host_levels()
    missing = sorted({*machine_code.LEVELS} - {*levels})
    if missing and not (trial and levels):
        sys.exit(f"this processor lacks instructions of {', '.join(missing)}: build on one that has them")
    shutil.rmtree(root, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        for level in levels:
            _compile_level(level, names, scratch)
        folder = root / jit.find_cache_folder().name
        functions = jit.copy_machine_code(Path(scratch) / "cmfast" / folder.name, folder)
    manifest = {
        "cmfast": __version__,
        "sources": jit.digest(),
        "numba": metadata.version("numba"),
        "llvmlite": metadata.version("llvmlite"),
        "python": platform.python_version(),
        "levels": levels,
        "functions": functions,
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def _compile_level(level: str, names: Sequence[str], scratch: str) -> None:
    """Compile functions for a level into a cache folder, by warm-up calls in a process of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    env |= {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": machine_code.LEVELS[level]}
    command = [sys.executable, "-m", "cmfast", "warmup", "--quiet", *names]
    subprocess.run(command, env=env | {"NUMBA_CACHE_DIR": scratch}, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    chosen = sys.argv[1:]
    manifest = build([name for name in chosen if name != "--trial"], trial="--trial" in chosen)
    sys.stdout.write(json.dumps(manifest, indent=1) + "\n")
