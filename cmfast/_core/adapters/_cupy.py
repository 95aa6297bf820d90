"""CuPy arrays, on their device and the caller's current stream. Kernels: ``cuda``."""

from contextlib import AbstractContextManager
from typing import Any

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


def chosen(x: Any) -> AbstractContextManager[Any]:
    """Return a context in which the device of `x` is the current one: CuPy calculates nowhere else."""
    device: AbstractContextManager[Any] = x.device
    return device
