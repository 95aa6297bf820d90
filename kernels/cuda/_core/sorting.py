"""Sorts of keys of which all bits above some are zero: by those bits alone where the library for that is installed.

CuPy's radix sort looks at every bit of the type and carries positions of eight bytes. That of cuda-cccl takes a range
of bits and any values; the order is the same, so the results are, bit for bit. It takes seconds to compile: a thread
does so while CuPy sorts, and what came of it is kept beside what CuPy compiles.
"""

import contextlib
import os
import threading
from functools import cache
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import library

LEAST_SORTED_KEYS = 1 << 22  # keys from which on another sort than CuPy's is worth being loaded


class _SortingStream:
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
    return found if hasattr(found, "deserialize") else None  # one without is too old


class _Own(threading.local):
    """The sorts of a thread: each notes what it works on, so no two threads may share one."""

    def __init__(self) -> None:
        self.sorts: dict[tuple[Any, ...], Any] = {}


_own = _Own()
_compilers: dict[tuple[Any, ...], threading.Thread] = {}
_starting = threading.Lock()


def _sort_of(keys: Any, values: Any) -> Any:
    """Return what sorts such arrays, None as long as it is being compiled.

    What goes wrong in the thread that compiles goes wrong again, and is raised, here.
    """
    xp, algorithms = library(keys), _algorithms()
    assert algorithms is not None
    kinds, architecture = tuple(None if a is None else a.dtype for a in (keys, values)), keys.device.compute_capability
    key = (xp, architecture, *kinds)
    if key in _own.sorts:
        return _own.sorts[key]
    file = _file(architecture, kinds)
    with contextlib.suppress(Exception):  # none there, or one that this release does not read: compile it
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
    _own.sorts[key] = algorithms.make_radix_sort(**given)  # at once: what a thread compiled is kept for all of them
    return _own.sorts[key]


def _file(architecture: str, kinds: tuple[Any, ...]) -> Path:
    """Return where a compiled sort is kept, beside CuPy's kernels."""
    folder = Path(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache").expanduser()
    versions = []
    for name in ("cuda-cccl", "cuda-bindings"):
        with contextlib.suppress(metadata.PackageNotFoundError):  # other channels name them otherwise
            versions.append(metadata.version(name))
    text = " ".join(map(str, (*versions, architecture, *kinds)))
    return folder / f"cmfast-sort-{sha256(text.encode()).hexdigest()[:32]}"


def _compile(algorithms: ModuleType, file: Path, given: dict[str, Any]) -> None:
    with contextlib.suppress(Exception):
        blob = algorithms.serialize(algorithms.make_radix_sort(**given))
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{os.getpid()}")
        part.write_bytes(blob)
        part.replace(file)


def settle() -> bool:
    """Wait for what is being compiled, until when another sort does the same; return whether anything was."""
    busy = [thread for thread in list(_compilers.values()) if thread.is_alive()]
    for thread in busy:
        thread.join()
    return bool(busy)


def is_there(keys: Any) -> bool:
    """Return whether there is a sort besides CuPy's for so many keys."""
    return len(keys) >= LEAST_SORTED_KEYS and _algorithms() is not None


def by_bits(keys: Any, values: Any, begin: int, end: int) -> tuple[Any, Any] | None:
    """Return keys and values in the order of these bits of the keys, equal ones as they come; None if CuPy is to sort.

    Keys are taken for unsigned; values of any type, or None.
    """
    if not is_there(keys):
        return None
    xp, unsigned = library(keys), keys.view(f"u{keys.itemsize}")
    sort = _sort_of(unsigned, values)
    if sort is None:
        return None
    out = xp.empty(len(keys), unsigned.dtype), None if values is None else xp.empty(len(keys), values.dtype)
    given = {"d_in_keys": unsigned, "d_out_keys": out[0], "d_in_values": values, "d_out_values": out[1]}
    given |= {"num_items": len(keys), "begin_bit": begin, "end_bit": end, "stream": _SortingStream(xp)}
    size = sort(temp_storage=None, **given)
    sort(temp_storage=xp.empty(max(1, size), np.uint8), **given)
    return out[0].view(keys.dtype), out[1]


def sort(keys: Any, n_keys: int) -> Any:
    """Return keys below `n_keys`, and largest numbers of their type, sorted; `keys` may be what is returned."""
    found = by_bits(keys, None, 0, n_keys.bit_length())  # of a largest number all of these bits are set: it is last
    if found is not None:
        return found[0]
    keys.sort()
    return keys


def order(keys: Any, n_keys: int) -> Any:
    """Return the order of such keys, equal ones as they come."""
    if not is_there(keys):
        return keys.argsort()
    places = library(keys).arange(len(keys))
    if len(keys) <= np.iinfo(np.uint32).max:
        places = places.astype(np.uint32)
    found = by_bits(keys, places, 0, n_keys.bit_length())
    return keys.argsort() if found is None else found[1].astype(np.int64, copy=False)
