"""A module that stands for CuPy without a GPU: what tests and benchmarks use beyond the arrays of `cuda_host`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import cuda_host
import numpy as np

FREE = 400_000  # bytes of the device, so that what is sized by them is small


class Event:
    """A moment; no time of the host means anything for a GPU."""

    def record(self) -> None:
        """Take the time."""
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Return immediately: the host has finished."""


class Stream:
    """An order of work; the host has one."""

    def __init__(self, *, non_blocking: bool = False) -> None:
        self.non_blocking = non_blocking

    @classmethod
    def from_external(cls, stream: Any) -> "Stream":
        """Return the only stream."""
        assert stream.__cuda_stream__()[0] == 0
        return cls()

    def __enter__(self) -> "Stream":
        """Do nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Return immediately."""

    def launch_host_func(self, function: Callable[[Any], None], argument: Any) -> None:
        """Do nothing: a function that waits for the host would wait for itself."""


class Device(cuda_host.Device):
    """The device that is current, or another."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)

    def synchronize(self) -> None:
        """Return immediately."""


@contextmanager
def allow_synchronize(allowed: bool) -> Iterator[None]:
    """Raise at the end of the block if the host waited in it though it may not."""
    before = cuda_host.synchronisations()
    yield
    if not allowed and cuda_host.synchronisations() != before:
        msg = "the host waited for the device"
        raise RuntimeError(msg)


def copyto(target: Any, source: Any) -> None:
    """Copy an array."""
    target[...] = source


def full(shape: Any, value: Any, dtype: Any = float) -> Any:
    """Return an array of one value."""
    return cuda_host.asarray(np.full(shape, value, dtype))


def unique(array: Any, *, return_counts: bool = False) -> Any:
    """Return the sorted values, and how many there are of each."""
    if not return_counts:
        return cuda_host.unique(array)
    return tuple(map(cuda_host.asarray, np.unique(array.get(), return_counts=True)))


def bincount(array: Any, *, weights: Any = None, minlength: int) -> Any:
    """Return how many there are of every number, or the sums of their weights."""
    return cuda_host.asarray(np.bincount(array.get(), None if weights is None else weights.get(), minlength))


def rename(name: str) -> None:
    """Let the class of the arrays say that it comes from the module `name`."""
    cuda_host.ndarray.__module__ = name


def module() -> ModuleType:
    """Return the module."""
    cupy = ModuleType("cupy")
    for name in cuda_host.__all__:
        setattr(cupy, name, getattr(cuda_host, name))
    runtime = SimpleNamespace(
        getDeviceProperties=lambda device: {"name": f"host {device}".encode()},
        getDeviceCount=lambda: 1,
        driverGetVersion=lambda: 0,
        runtimeGetVersion=lambda: 0,
        memGetInfo=lambda: (FREE, FREE),
        CUDARuntimeError=RuntimeError,
    )
    cupy.cuda = SimpleNamespace(
        Event=Event,
        Stream=Stream,
        Device=Device,
        get_current_stream=Stream,
        get_elapsed_time=lambda start, stop: 1e3 * (stop.at - start.at),
        runtime=runtime,
        UnownedMemory=cuda_host.UnownedMemory,
        MemoryPointer=cuda_host.MemoryPointer,
        using_allocator=cuda_host.using_allocator,
        set_allocator=lambda allocator: setattr(cupy, "allocator", allocator),
    )
    cupy.allocator = "a pool"
    cupy.copyto = copyto
    cupy.from_dlpack = lambda shared: cuda_host.asarray(np.from_dlpack(shared))
    cupy.ones = lambda shape, dtype=float: full(shape, 1, dtype)
    cupy.full = full
    cupy.unique, cupy.bincount = unique, bincount
    cupy.empty_like = lambda a: cuda_host.empty(a.shape, a.dtype)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    cupy.__version__ = f"none, NumPy {np.__version__}"
    return cupy


def install(monkeypatch: Any) -> None:
    """Let ``import cupy`` find it, and nobody who imported it keep it."""
    monkeypatch.setitem(sys.modules, "cupy", module())
    for name in ("benchmarks.gpu", "benchmarks._gpu_rivals"):
        monkeypatch.delitem(sys.modules, name, raising=False)
