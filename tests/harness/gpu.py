"""The GPU of this machine, if it has one that CuPy and torch can use; ``python tests/harness/gpu.py`` prints it."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module

NEEDED = ("numpy", "scipy", "numba", "torch", "cupy", "pytest", "hypothesis", "cmfast")
PROGRAMS = ("ncu", "compute-sanitizer")  # steps that need them are skipped without


def required() -> bool:
    """Return whether CMFAST_REQUIRE_GPU=1 says that this run is one on a GPU."""
    return os.environ.get("CMFAST_REQUIRE_GPU") == "1"


@cache
def missing() -> str | None:
    """Return why nothing runs on a GPU here, or None; an error where one is required."""
    reason = _reason()
    if reason and required():
        raise RuntimeError(reason)
    return reason


def is_rehearsal() -> bool:
    """Return whether arrays of the host stand for CuPy's: no tensors stand for torch's on a GPU, so none are tried."""
    import cupy

    return hasattr(cupy, "rehearsed")


def _reason() -> str | None:
    try:
        import cupy
        import torch
    except ImportError as error:
        return f"no GPU: {error.name} is not installed"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no GPU: {error}"
    both = count and (torch.cuda.is_available() or is_rehearsal())
    return None if both else "no GPU that both CuPy and torch see"


def facts() -> Iterator[str]:
    """Yield a line for everything that a run on a GPU needs; raise with the first that is missing."""
    yield f"python {platform.python_version()}"
    for name in NEEDED:
        try:
            module = import_module(name)
        except Exception as error:  # any error of an incompatible library
            msg = f"{name} cannot be imported: {type(error).__name__}: {error}"
            raise LookupError(msg) from error
        yield f"{name} {module.__version__}"
    if shutil.which("nvidia-smi") is None:
        msg = "nvidia-smi is not installed, or not on the PATH"
        raise LookupError(msg)
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem"]
    done = subprocess.run([*query, "--format=csv"], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        msg = f"nvidia-smi: exit status {done.returncode}: {(done.stderr or done.stdout).strip()}"
        raise LookupError(msg)
    yield f"nvidia-smi {done.stdout.strip()}"
    reason = _reason()
    if reason:
        raise LookupError(reason)
    import cupy

    runtime = cupy.cuda.runtime
    yield f"CUDA of the driver {runtime.driverGetVersion()}, of CuPy {runtime.runtimeGetVersion()}"
    yield from (f"{name}: {shutil.which(name) or 'not installed'}" for name in PROGRAMS)


def main() -> int:
    """Print the facts; 1 at the first that is missing."""
    try:
        for line in facts():
            print(line, flush=True)
    except (LookupError, subprocess.TimeoutExpired) as error:
        print(f"MISSING: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
