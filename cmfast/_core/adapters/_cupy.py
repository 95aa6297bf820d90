"""CuPy arrays, on their device and the caller's current stream. Kernels: ``cuda``."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from cmfast._core.targets import kernel
from cmfast.kernels.cuda._core import module

HAS_DEVICES = True


def asarray(name: str, x: Any) -> Any:
    """Return `x`; nothing is moved between host and device."""
    if not isinstance(x, module.library(x).ndarray):
        msg = f"{name} must be a dense array, got {type(x).__module__}.{type(x).__qualname__}"
        raise TypeError(msg)
    return x


def device(x: Any) -> str:
    """Return the name of the device of `x`."""
    return f"cuda:{x.device.id}"


def call(op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the ``cuda`` kernel; 0-d results stay arrays, as CuPy's own: a number would have to wait for the device."""
    first = next(array for array in arrays if array is not None)
    with chosen(first):
        return kernel(op, "cuda")(*arrays, **options)


def to_host(x: Any) -> Any:
    """Return an ndarray with the values of `x`."""
    return x.get()  # synchronises


def extent(x: Any) -> tuple[int, int]:
    """Return the least and the largest of the integers in `x`, which has some."""
    with chosen(x):
        return int(x.min()), int(x.max())  # synchronises


def wide(x: Any) -> Any:
    """Return integers as int64."""
    with chosen(x):
        return x.astype("i8", copy=False)


def real(x: Any) -> Any:
    """Return integers as float64."""
    with chosen(x):
        return x.astype("f8")


def codes(x: Any) -> Any:
    """Return integers as int8, which statuses are."""
    with chosen(x):
        return x.astype("i1")


def sent(x: Any, like: Any) -> Any:
    """Return an array of the host where `like` is."""
    with chosen(like):
        return module.library(like).asarray(x)


def distinct(x: Any) -> tuple[Any, Any]:
    """Return the sorted values of `x` on the host, and which of them each entry is."""
    with chosen(x):
        values = module.library(x).unique(x)
        codes = module.library(x).searchsorted(values, x)
    return values.get(), codes  # synchronises


def moved(x: Any, shape: tuple[int, ...], source: list[Any], target: list[Any]) -> Any:
    """Return zeros of `shape` with what `x` has at the places `source` of its axes at the places `target`."""
    xp = module.library(x)
    with chosen(x):
        out = xp.zeros(shape, "f8" if x.dtype.kind == "f" else "i8")
        out[tuple(map(xp.asarray, np.ix_(*target)))] = x[tuple(map(xp.asarray, np.ix_(*source)))]
    return out


def chosen(x: Any) -> AbstractContextManager[Any]:
    """Return a context in which the device of `x` is the current one: CuPy calculates nowhere else."""
    device: AbstractContextManager[Any] = x.device
    return device
