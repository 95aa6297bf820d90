"""Adapter of CuPy arrays, on their device and the caller's current stream; runs ``cuda`` kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast._core.adapters import Adapter
from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.cuda._core import module


class CuPy(Adapter):
    """Adapter of CuPy arrays; expressions are evaluated on the device of their first array."""

    has_devices = True

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return `x` unchanged; never copies between host and device."""
        del op
        if not isinstance(x, module.library(x).ndarray):
            msg = f"{name} must be a dense array, got {type(x).__module__}.{type(x).__qualname__}"
            raise TypeError(msg)
        return x

    def to_host(self, x: Any) -> np.ndarray:
        """Copy `x` to an ndarray on the host; synchronises the device."""
        host: np.ndarray = x.get()
        return host

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Copy an ndarray to the device of `like`."""
        with like.device:
            return module.library(like).asarray(x)

    def device(self, x: Any) -> str:
        """Return the device of `x`: "cuda:0", ..."""
        return f"cuda:{x.device.id}"

    def is_on_host(self, x: Any) -> bool:
        """Return False: reading values requires a copy."""
        del x
        return False

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the ``cuda`` kernel; 0-d results stay arrays, because a scalar would have to wait for the device."""
        first = next(array for array in arrays if array is not None)
        with first.device:
            return get_kernel(op, "cuda")(*arrays, **options)

    def share_memory(self, name: str, x: Any) -> None:
        """Return None, after validation: the memory is on the device."""
        self.adopt(name, x, None)

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to CuPy arrays as they are, on the device of the first."""
        with arrays[0].device:
            return function(*arrays)

    def unique(self, x: Any) -> tuple[Any, Any]:
        """Return the sorted unique values of `x` on the host, and each element's position among them on the device."""
        with x.device:
            values = module.library(x).unique(x)
            codes = module.library(x).searchsorted(values, x)
        return values.get(), codes

    def scatter(self, x: Any, shape: tuple[int, ...], source: list[Any], target: list[Any]) -> Any:
        """Copy ``x[np.ix_(*source)]`` into zeros of `shape` (int64 or float64) on the device of `x`."""
        xp = module.library(x)
        with x.device:
            out = xp.zeros(shape, "f8" if x.dtype.kind == "f" else "i8")
            out[tuple(map(xp.asarray, np.ix_(*target)))] = x[tuple(map(xp.asarray, np.ix_(*source)))]
        return out


ADAPTER = CuPy()
