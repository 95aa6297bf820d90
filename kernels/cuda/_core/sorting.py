"""Radix sort by a range of key bits: cuda-cccl's where it is installed and compiled, else CuPy's sort of all bits.

CuPy's radix sort processes every bit of the type and carries 8-byte positions; cuda-cccl's takes a range of bits and
any values. The order, and so every bit of the results, is the same. It takes seconds to compile: a thread does that
while CuPy sorts, and the result is cached next to CuPy's kernels.
"""

import contextlib
import os
import threading
import warnings
from functools import cache
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import library

LEAST_SORTED_KEYS = 1 << 22  # with fewer keys CuPy's sort is used


class _SortingStream:
    """The current stream of the array library, as an object with the ``__cuda_stream__`` protocol."""

    def __init__(self, xp: ModuleType) -> None:
        self._stream = xp.cuda.get_current_stream()

    def __cuda_stream__(self) -> tuple[int, int]:  # the protocol's name
        """Return the version of the protocol and the address of the stream."""
        return 0, self._stream.ptr


@cache
def _import_algorithms() -> ModuleType | None:
    """Return cuda-cccl's algorithms, or None if they are missing, too old or cannot be imported."""
    try:
        algorithms = import_module("cuda.compute")
    except ModuleNotFoundError as error:
        if error.name not in {"cuda", "cuda.compute"}:  # not installed
            _give_up(error)
        return None
    except Exception as error:  # noqa: BLE001  # CuPy sorts, for any fault of that library
        _give_up(error)
        return None
    return algorithms if hasattr(algorithms, "deserialize") else None  # older releases lack it


_broken = threading.Event()  # cuda-cccl is installed and does not work


def _give_up(error: Exception) -> None:
    """Let CuPy sort from now on; warn once in a process."""
    with _starting:
        if _broken.is_set():
            return
        _broken.set()
    text = f"CuPy sorts, which takes longer, because cuda-cccl does not work here: {type(error).__name__}: {error}"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class _ThreadSorters(threading.local):
    """Sorters of one thread: they hold state, so threads must not share them."""

    def __init__(self) -> None:
        self.sorts: dict[tuple[Any, ...], Any] = {}


_own = _ThreadSorters()
_compilers: dict[tuple[Any, ...], threading.Thread] = {}
_starting = threading.Lock()


def _find_sorter(keys: Any, values: Any) -> Any:
    """Return the sorter for arrays of these types, or None while it is being compiled, or if it cannot be."""
    xp, algorithms = library(keys), _import_algorithms()
    assert algorithms is not None
    kinds, architecture = tuple(None if a is None else a.dtype for a in (keys, values)), keys.device.compute_capability
    key = (xp, architecture, *kinds)
    if key in _own.sorts:
        return _own.sorts[key]
    file = _cache_path(architecture, kinds)
    with contextlib.suppress(Exception):  # missing, or not readable by this release: compile it
        _own.sorts[key] = algorithms.deserialize(file.read_bytes())
        return _own.sorts[key]
    few = [None if kind is None else xp.empty(1, kind) for kind in kinds for _ in ("in", "out")]
    given = dict(zip(("d_in_keys", "d_out_keys", "d_in_values", "d_out_values"), few, strict=True))
    given |= {"order": algorithms.SortOrder.ASCENDING, "compute_capability": int(architecture)}
    with _starting:
        if key not in _compilers:
            _compilers[key] = threading.Thread(target=_compile, args=(algorithms, file, given), name="cmfast sort")
            _compilers[key].start()
    if _compilers[key].is_alive():
        return None
    try:
        _own.sorts[key] = algorithms.make_radix_sort(**given)  # fast: the compiled code is shared by all threads
    except Exception as error:  # noqa: BLE001  # that of the compiling thread, again
        _give_up(error)
        return None
    return _own.sorts[key]


def _cache_path(architecture: str, kinds: tuple[Any, ...]) -> Path:
    """Return the path of a cached compiled sort, in CuPy's kernel cache."""
    folder = Path(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache").expanduser()
    versions = []
    for name in ("cuda-cccl", "cuda-bindings"):
        with contextlib.suppress(metadata.PackageNotFoundError):  # other channels use other names
            versions.append(metadata.version(name))
    text = " ".join(map(str, (*versions, architecture, *kinds)))
    return folder / f"cmfast-sort-{sha256(text.encode()).hexdigest()[:32]}"


def _compile(algorithms: ModuleType, file: Path, given: dict[str, Any]) -> None:
    """Compile a sort and write it to its cache file atomically."""
    with contextlib.suppress(Exception):
        blob = algorithms.serialize(algorithms.make_radix_sort(**given))
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{os.getpid()}")
        part.write_bytes(blob)
        part.replace(file)


def wait_for_compilers() -> bool:
    """Wait for sorts that are being compiled; return whether any was."""
    busy = [thread for thread in list(_compilers.values()) if thread.is_alive()]
    for thread in busy:
        thread.join()
    return bool(busy)


def has_bit_range_sort(keys: Any) -> bool:
    """Return whether cuda-cccl's sort is to be used for these keys."""
    return len(keys) >= LEAST_SORTED_KEYS and _import_algorithms() is not None and not _broken.is_set()


def sort_by_bits(keys: Any, values: Any, begin: int, end: int) -> tuple[Any, Any] | None:
    """Return keys and values sorted by a range of key bits (stable), or None if CuPy is to sort.

    Keys are interpreted as unsigned; values have any type, or are None.
    """
    if not has_bit_range_sort(keys):
        return None
    xp, unsigned = library(keys), keys.view(f"u{keys.itemsize}")
    sorter = _find_sorter(unsigned, values)
    if sorter is None:
        return None
    out = xp.empty(len(keys), unsigned.dtype), None if values is None else xp.empty(len(keys), values.dtype)
    given = {"d_in_keys": unsigned, "d_out_keys": out[0], "d_in_values": values, "d_out_values": out[1]}
    given |= {"num_items": len(keys), "begin_bit": begin, "end_bit": end, "stream": _SortingStream(xp)}
    size = sorter(temp_storage=None, **given)
    sorter(temp_storage=xp.empty(max(1, size), np.uint8), **given)
    return out[0].view(keys.dtype), out[1]


def sort_keys(keys: Any, n_keys: int) -> Any:
    """Sort keys below `n_keys`, with the type's maximum last, possibly in place; return them."""
    ordered = sort_by_bits(keys, None, 0, n_keys.bit_length())  # the type's maximum has all these bits set: it is last
    if ordered is not None:
        return ordered[0]
    keys.sort()
    return keys


def argsort_keys(keys: Any, n_keys: int) -> Any:
    """Return the stable sorting order (argsort) of keys below `n_keys`."""
    if not has_bit_range_sort(keys):
        return keys.argsort()
    positions = library(keys).arange(len(keys))
    if len(keys) <= np.iinfo(np.uint32).max:
        positions = positions.astype(np.uint32)
    ordered = sort_by_bits(keys, positions, 0, n_keys.bit_length())
    return keys.argsort() if ordered is None else ordered[1].astype(np.int64, copy=False)
