"""Pick the backend from the arrays themselves; there is no global switch."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.ops import OPS

# Root module of an array's class -> adapter, imported when the first such array comes.
ADAPTERS = {"numpy": "_numpy", "cupy": "_cupy", "torch": "_torch"}
_by_class: dict[type, ModuleType] = {}


class Meta(NamedTuple):
    """What is known of an array without touching its data."""

    shape: tuple[int, ...]
    kind: str
    """NumPy's kind letter of the dtype: b, i, u, f, c, S, U, ..."""
    itemsize: int
    device: str
    dtype: np.dtype[Any]
    """The dtype that NumPy has for it."""


def adapter(cls: type) -> ModuleType:
    """Return the adapter of `cls`: one walk of the MRO per class, then a dict hit."""
    if cls not in _by_class:
        roots = [base.__module__.partition(".")[0] for base in cls.__mro__]
        name = next((ADAPTERS[root] for root in roots if root in ADAPTERS), "_numpy")
        _by_class[cls] = import_module(f"cmfast._adapters.{name}")
    return _by_class[cls]


def adopt(op: str, **arrays: Any) -> list[Any]:
    """Convert the arguments of `op` for their one library; None stays None.

    Raises TypeError where they come from two libraries or two devices, or where one is not an array of numbers.
    """
    given = {name: array for name, array in arrays.items() if array is not None}
    found = {adapter(type(array)) for array in given.values()}
    if not found:
        msg = f"{op}: {next(iter(arrays))} must be an array, got None"
        raise TypeError(msg)
    if len(found) > 1:
        what = ", ".join(f"{name} from {_library(a)}" for name, a in given.items())
        msg = f"{op}: arrays must come from one library, got {what}"
        raise TypeError(msg)
    (one,) = found
    out = [None if array is None else one.asarray(op, name, array) for name, array in arrays.items()]
    if one.__name__ != "cmfast._adapters._numpy":
        devices = {name: one.meta(a).device for name, a in zip(arrays, out, strict=True) if a is not None}
        if len(set(devices.values())) > 1:
            what = ", ".join(f"{name} on {device}" for name, device in devices.items())
            msg = f"{op}: arrays must be on one device, got {what}"
            raise TypeError(msg)
    return out


def _library(array: Any) -> str:
    module = type(array).__module__.partition(".")[0]
    return f"a Python {type(array).__name__}" if module == "builtins" else module


def meta(array: Any) -> Meta:
    """Return what is known of an adopted array."""
    found: Meta = adapter(type(array)).meta(array)
    return found


@cache
def kernel(op: str, target: str) -> Callable[..., Any]:
    """Return kernel `op` for `target` ("cpu" or "cuda"); its module is imported once."""
    entry = OPS[op]
    if target not in entry.targets:
        msg = f"{op} has no {target} kernel (has: {', '.join(sorted(entry.targets))})"
        raise NotImplementedError(msg)
    module = import_module(f"cmfast.kernels.{target}.{entry.module}")
    function: Callable[..., Any] = getattr(module, op)
    return function


def call(op: str, *arrays: Any, **options: Any) -> Any:
    """Run `op` where its arrays, adopted and validated, live."""
    first = next(array for array in arrays if array is not None)
    return adapter(type(first)).call(op, arrays, options)


def to_host(array: Any) -> Any:
    """Return an ndarray with the values of `array`: one explicit copy at most, for messages and files."""
    return adapter(type(array)).to_host(array)


def chosen(array: Any) -> AbstractContextManager[Any]:
    """Return a context in which expressions of `array` are calculated on its device."""
    context: AbstractContextManager[Any] = adapter(type(array)).chosen(array)
    return context
