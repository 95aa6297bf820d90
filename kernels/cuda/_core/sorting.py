"""Sorts of keys of which all bits above some are zero: by those bits alone where the library for that is installed.

CuPy's radix sort looks at every bit of the type and carries positions of eight bytes. That of cuda-cccl takes a range
of bits and any values; the order is the same, so the results are, bit for bit.
"""

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import library

LEAST = 1 << 22  # keys from which on the sort is worth being compiled, which takes a second in every process


class _Current:
    """The stream that the array library works on, in the protocol by which others take it."""

    def __init__(self, xp: ModuleType) -> None:
        self._stream = xp.cuda.get_current_stream()

    def __cuda_stream__(self) -> tuple[int, int]:  # the protocol's name
        """Return the version of the protocol, and the address."""
        return 0, self._stream.ptr


@cache
def _algorithms() -> ModuleType | None:
    """Return the algorithms of cuda-cccl that sort by a range of bits, None where they are not installed."""
    try:
        found = import_module("cuda.compute")
    except ImportError:
        return None
    return found if hasattr(found, "make_radix_sort") else None


def _by_bits(keys: Any, values: Any, n_keys: int, algorithms: ModuleType) -> tuple[Any, Any]:
    """Return keys and values by the bits of numbers up to `n_keys`: dropped keys, all ones, come last by these, too."""
    xp, unsigned = library(keys), keys.view(f"u{keys.itemsize}")
    out = xp.empty(len(keys), unsigned.dtype), None if values is None else xp.empty(len(keys), values.dtype)
    arrays = {"d_in_keys": unsigned, "d_out_keys": out[0], "d_in_values": values, "d_out_values": out[1]}
    given = {"num_items": len(keys), "begin_bit": 0, "end_bit": n_keys.bit_length(), "stream": _Current(xp)}
    sorter = algorithms.make_radix_sort(**arrays, order=algorithms.SortOrder.ASCENDING)
    size = sorter(temp_storage=None, **arrays, **given)
    sorter(temp_storage=xp.empty(max(1, size), np.uint8), **arrays, **given)
    return out[0].view(keys.dtype), out[1]


def _chosen(keys: Any) -> ModuleType | None:
    return _algorithms() if len(keys) >= LEAST else None


def sort(keys: Any, n_keys: int) -> Any:
    """Return keys below `n_keys`, and largest numbers of their type, sorted; `keys` may be what is returned."""
    algorithms = _chosen(keys)
    if algorithms is not None:
        return _by_bits(keys, None, n_keys, algorithms)[0]
    keys.sort()
    return keys


def order(keys: Any, n_keys: int) -> Any:
    """Return the order of such keys, equal ones as they come."""
    algorithms = _chosen(keys)
    if algorithms is None:
        return keys.argsort()
    places = library(keys).arange(len(keys))
    if len(keys) <= np.iinfo(np.uint32).max:
        places = places.astype(np.uint32)
    return _by_bits(keys, places, n_keys, algorithms)[1].astype(np.int64, copy=False)
