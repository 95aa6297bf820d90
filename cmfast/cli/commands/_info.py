"""``cmfast info``: print versions, threads, cache folder and GPU; versions are found without imports."""

import argparse
import ctypes
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from cmfast._version import __version__
from cmfast.cli import _screen
from cmfast.cli._parser import Parser
from cmfast.cli._result import Result
from cmfast.kernels.ops import OPS

NEEDED = ("numpy", "numba", "scipy", "platformdirs")
OPTIONAL = ("tqdm", "pandas", "pyarrow", "scikit-learn", "matplotlib", "torch", "cupy-cuda12x", "cupy-cuda13x")


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument("--clear-cache", action="store_true", help="remove the compiled kernels of all versions")


def run(args: argparse.Namespace) -> Result:
    """Collect facts about this machine, after clearing the cache if requested."""
    from cmfast.kernels.cpu._core import jit, machine_code, pool  # imports Numba, late, so that --help stays fast

    removed = {"removed_bytes": jit.clear_cache()} if args.clear_cache else {}
    cache = jit.summarize_cache()
    found = {
        "cmfast": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "needed": {name: _version(name) for name in NEEDED},
        "optional": {name: _version(name) for name in OPTIONAL},
        "threads": pool.cpu_count(),
        "cache": {
            "folder": str(cache.folder),
            "writable": cache.writable,
            "functions": cache.n_functions,
            "bytes": cache.n_bytes,
        },
        "machine_code": {
            "levels": machine_code.list_host_levels(),
            "functions": machine_code.count_functions(cache.folder.name),
        },
        "gpus": _gpus(),
        "operations": {target: sum(target in op.targets for op in OPS.values()) for target in ("cpu", "cuda")},
        **removed,
    }
    return Result(found, _lines(found))


def _version(name: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """Return the names of the CUDA devices that the driver lists; empty without a driver."""
    library = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}.get(sys.platform)
    if library is None:
        return []
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        return []
    number = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(number)):
        return []
    found = []
    for index in range(number.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        if not cuda.cuDeviceGet(ctypes.byref(device), index) and not cuda.cuDeviceGetName(name, len(name), device):
            found.append(name.value.decode(errors="replace"))
    return found


def _describe_cache(folder: str, functions: int, bytes: int, *, writable: bool) -> str:
    """Describe the cache folder in a sentence."""
    if not writable:
        return f"{folder} is not writable: functions other than its {functions} are compiled in every process"
    here = f"{functions} compiled functions (cmfast warmup compiles all)"
    return f"{folder}: {here}, {bytes / 1e6:.1f} MB with those of other versions (--clear-cache empties it)"


def _describe_machine_code(levels: list[str], functions: int) -> str:
    """Describe the machine code of this installation in a sentence."""
    if not functions:
        return "none in this installation: functions are compiled on first use"
    if not levels:
        return f"{functions} functions, for processors with AVX2: this one compiles on first use"
    return f"{functions} functions, found on first use; this processor has {levels[0]}"


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield a printed line per fact."""
    rows = [
        ("cmfast", found["cmfast"]),
        ("python", f"{found['python']} on {found['platform']}"),
        *((name, version or "missing") for name, version in found["needed"].items()),
        *((name, version or "not installed") for name, version in found["optional"].items()),
        ("threads", found["threads"]),
        ("cache", _describe_cache(**found["cache"])),
        ("machine code", _describe_machine_code(**found["machine_code"])),
        ("GPU", ", ".join(found["gpus"]) or "none"),
        ("operations", ", ".join(f"{number} on {target}" for target, number in found["operations"].items())),
    ]
    if "removed_bytes" in found:
        rows.append(("removed", f"{found['removed_bytes'] / 1e6:.1f} MB of compiled kernels"))
    for name, value in rows:
        yield f"{name:<14}{_screen.shown(value)}"
