"""Adapter of libraries with an array API namespace, for host arrays shared by DLPack."""

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from cmfast._core import caller
from cmfast._core.adapters import Adapter
from cmfast._core.adapters._numpy import refuse_unsafe

WIDE = ("int64", "float64")  # types of results: counts and sums need them


class Namespace(Adapter):
    """Adapter of the arrays of one namespace: shares their memory with NumPy, and results with the namespace."""

    has_devices = True

    def __init__(self, namespace: ModuleType) -> None:
        self._namespace = namespace
        self._wide: list[Any] = []  # devices known to support the types in WIDE

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return `x`; raise TypeError if DLPack cannot share its memory, or its device lacks int64 or float64."""
        del op
        refuse_unsafe(name, x)
        try:
            np.from_dlpack(x)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            what, why = f"{type(x).__module__}.{type(x).__qualname__}", " ".join(str(error).split())[:200]
            what += f" of dtype {x.dtype}" if hasattr(x, "dtype") else ""
            msg = f"{name} must be an array whose memory DLPack shares, got a {what}: {why}; give numpy.asarray({name})"
            raise TypeError(msg) from error
        if x.device not in self._wide:
            self._check_types(name, x.device)
        return x

    def _check_types(self, name: str, device: Any) -> None:
        """Raise TypeError if a device lacks int64 or float64."""
        info = getattr(self._namespace, "__array_namespace_info__", None)  # in the standard since 2023.12
        known = WIDE if info is None else info().dtypes(device=device)
        missing = " and ".join(dtype for dtype in WIDE if dtype not in known)
        if missing:
            where = f"{self._namespace.__name__} on {device} without {missing}"
            wanted = "of a library with int64 and float64, the types of results"
            msg = f"{name} must be {wanted}, got {where}; enable them there, or give numpy.asarray({name})"
            raise TypeError(msg)
        self._wide.append(device)

    def to_host(self, x: Any) -> np.ndarray:
        """Return `x` as an ndarray through DLPack: a view of its memory on the host, else a copy."""
        return np.from_dlpack(x)

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return `x` as an array of the namespace on the device of `like`; raise TypeError if its dtype changes."""
        # Older DLPack versions have no read-only arrays, and some libraries accept no strides.
        x = x if x.flags.writeable and x.flags.c_contiguous else x.copy()
        out = self._namespace.from_dlpack(x)
        if self.dtype(out) != x.dtype:
            msg = f"{self._namespace.__name__} made {out.dtype} of a result of {x.dtype}; enable that type there"
            raise TypeError(caller.prefix_name(msg))
        return out if out.device == like.device else out.to_device(like.device)

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the NumPy dtype of `x`."""
        return self.to_host(x).dtype

    def device(self, x: Any) -> str:
        """Return the name of the device of `x`, as its library prints it."""
        return str(x.device)

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Reshape `x` by the function of its own namespace."""
        return self._namespace.reshape(x, shape)


adapter_of = cache(Namespace)  # one adapter per namespace, which may have several array classes
