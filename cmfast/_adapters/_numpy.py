"""NumPy arrays and whatever ``numpy.asarray`` takes: lists, pandas, Arrow, memory maps. Kernels: ``cpu``."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cmfast import _dispatch

_HOST = 1  # kDLCPU


def asarray(op: str, name: str, x: Any) -> np.ndarray:
    """Return `x` as an ndarray in native byte order, a read-only view where nothing had to be converted.

    Read-only, because memory maps, Arrow and pandas hand out read-only arrays anyway and Numba would compile every
    kernel a second time for writable ones.
    """
    if type(x) is not np.ndarray:
        _refuse(op, name, x)
        try:
            x = np.asarray(x)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; lists of tensors that need gradients
            msg = f"{op}: {name} must be an array of numbers, got a {type(x).__name__} that is none: {error}"
            raise TypeError(msg) from error
    if x.dtype.kind in "OT":
        x = _text(op, name, x)
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    view: np.ndarray = x.view()
    view.flags.writeable = False
    return view


def _text(op: str, name: str, x: np.ndarray) -> np.ndarray:
    """Return strings that are kept as Python objects (pandas, Arrow) or with variable width as what kernels take."""
    if x.size == 0 or not all(isinstance(value, str) for value in x.flat):
        msg = f"{op}: {name} must be an array of numbers, got Python objects (ragged rows, None or mixed types?)"
        raise TypeError(msg)
    return np.array(x.tolist())


def _refuse(op: str, name: str, x: Any) -> None:
    what = f"{type(x).__module__}.{type(x).__qualname__}"
    if isinstance(x, np.ma.MaskedArray):
        msg = f"{op}: {name} is a masked array, whose mask would be lost; fill or drop the masked values first"
        raise TypeError(msg)
    if isinstance(x, np.matrix):
        msg = f"{op}: {name} is a numpy.matrix; give numpy.asarray({name})"
        raise TypeError(msg)
    if hasattr(x, "__dask_graph__") and x.__dask_graph__() is not None:
        msg = f"{op}: {name} is a lazy {what}; numpy.asarray would compute it silently, so call .compute() first"
        raise TypeError(msg)
    if hasattr(x, "todense") or hasattr(x, "toarray"):
        msg = f"{op}: {name} is a sparse {what}; give {name}.toarray()"
        raise TypeError(msg)
    device = getattr(x, "__dlpack_device__", None)
    if device is not None and int(device()[0]) != _HOST:
        msg = f"{op}: {name} is a {what} on a device; cmfast has no adapter for it, so copy it to the host first"
        raise TypeError(msg)
    if isinstance(x, str | bytes | dict | set | frozenset) or x is None:
        msg = f"{op}: {name} must be an array, got {type(x).__name__}"
        raise TypeError(msg)


def meta(x: np.ndarray) -> _dispatch.Meta:
    """Return shape, kind, item size and device."""
    return _dispatch.Meta(x.shape, x.dtype.kind, x.dtype.itemsize, "cpu", x.dtype)


def call(op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the ``cpu`` kernel; 0-d results become NumPy scalars, as a ufunc's would."""
    out = _dispatch.kernel(op, "cpu")(*arrays, **options)
    return tuple(map(_scalar, out)) if isinstance(out, tuple) else _scalar(out)


def _scalar(out: Any) -> Any:
    return out[()] if isinstance(out, np.ndarray) and out.ndim == 0 else out


def to_host(x: Any) -> Any:
    """Return `x` itself."""
    return np.asarray(x)


def chosen(x: Any) -> AbstractContextManager[Any]:
    """Return a context that does nothing: there is one host."""
    del x
    return nullcontext()
