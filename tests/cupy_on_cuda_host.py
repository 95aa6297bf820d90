"""A module that stands for CuPy where there is no GPU: what the benchmarks use beyond the arrays of `cuda_host`."""

import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import cuda_host
import numpy as np


class Event:
    """A moment; no time of the host means anything for a GPU."""

    def record(self) -> None:
        """Take the time."""
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Return at once: the host is done."""


def copyto(target: Any, source: Any) -> None:
    """Copy an array."""
    target[...] = source


def module() -> ModuleType:
    """Return the module."""
    cupy = ModuleType("cupy")
    for name in cuda_host.__all__:
        setattr(cupy, name, getattr(cuda_host, name))
    runtime = SimpleNamespace(
        getDeviceProperties=lambda device: {"name": f"host {device}".encode()},
        driverGetVersion=lambda: 0,
        memGetInfo=lambda: (0, 0),
    )
    cupy.cuda = SimpleNamespace(
        Event=Event,
        Device=lambda: cuda_host.Device(0),
        get_elapsed_time=lambda start, stop: 1e3 * (stop.at - start.at),
        runtime=runtime,
    )
    cupy.copyto = copyto
    cupy.empty_like = lambda a: cuda_host.empty(a.shape, a.dtype)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    cupy.__version__ = f"none, NumPy {np.__version__}"
    return cupy


def install(monkeypatch: Any) -> None:
    """Let ``import cupy`` find it, and nobody who imported it keep it."""
    monkeypatch.setitem(sys.modules, "cupy", module())
    monkeypatch.delitem(sys.modules, "benchmarks.gpu", raising=False)
