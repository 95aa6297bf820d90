"""``RawModule`` in CuPy's calling form, its kernels run by the engine in ``engine.cpp``."""

import contextlib
import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from cuda_host._arrays import _here, ndarray
from cuda_host._build import MOST_THREADS, library

# The names of all kernels of a source, once it is known which there are: all of them are built into one library,
# which takes g++ a tenth of the time of one library per kernel.
Siblings = Callable[[str], Sequence[str]]
_siblings: list[Siblings] = [re.compile(r"(?<!>\n)^__global__ void (?!__)(\w+)\(", re.MULTILINE).findall]
_libraries: dict[str, dict[str, Any]] = {}
_state = SimpleNamespace(seed=0)

MOST_SHARED, MOST_SHARED_ASKED_FOR = 48 << 10, 160 << 10


@contextlib.contextmanager
def schedule(seed: int) -> Iterator[None]:
    """Run kernels in the order of `seed`: 0 as numbered, 1 from the last thread and block, any other shuffled."""
    before, _state.seed = _state.seed, seed
    try:
        yield
    finally:
        _state.seed = before


def siblings(find: Siblings) -> None:
    """Take from `find` which kernels a source has."""
    _siblings.append(find)


def _triple(size: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*size, 1, 1, 1)[:3]
    return x, y, z


class Kernel:
    """One kernel; called as ``kernel(grid, block, arguments, shared_mem=bytes)``."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.max_dynamic_shared_size_bytes = MOST_SHARED

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        """Run all blocks; raise what the engine or the red zones around the arrays report."""
        grid, block = _triple(grid), _triple(block)
        if not (0 < grid[0] < 2**31 and 0 < grid[1] < 2**16 and 0 < grid[2] < 2**16):
            msg = f"no GPU has a grid of {grid}"
            raise ValueError(msg)
        if not 0 < np.prod(block) <= MOST_THREADS:
            msg = f"no GPU has a block of {block}"
            raise ValueError(msg)
        if not 0 <= shared_mem <= min(self.max_dynamic_shared_size_bytes, MOST_SHARED_ASKED_FOR):
            msg = f"{shared_mem} bytes of shared memory were not asked for"
            raise ValueError(msg)
        _here(*args)
        held = [_argument(a) for a in args]
        values = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        error = self._function((ctypes.c_uint * 8)(*grid, *block, shared_mem, _state.seed), values)
        if error:
            raise RuntimeError(error.decode())
        for a in args:
            if isinstance(a, ndarray):
                a.check_red_zones()


def _argument(value: Any) -> Any:
    """Return what CuPy would pass, as an object of ctypes: an address, or a scalar of the size of its NumPy type."""
    if isinstance(value, ndarray):
        return ctypes.c_void_p(value.data.ptr)
    if isinstance(value, np.generic):
        return np.ctypeslib.as_ctypes_type(value.dtype)(value.item())
    if value is None:
        return ctypes.c_void_p(None)
    msg = f"a kernel takes arrays and NumPy scalars, not {type(value).__name__}"
    raise TypeError(msg)


class RawModule:
    """Kernels of one source, compiled when the first of them is asked for."""

    def __init__(self, *, code: str, options: tuple[str, ...] = (), name_expressions: tuple[str, ...] = ()) -> None:
        self._code, self._names, self._options = code, name_expressions, options

    def get_function(self, name: str) -> Kernel:
        """Return one of the kernels in `name_expressions`."""
        if name not in self._names:
            msg = f"{name} is not among the name_expressions"
            raise ValueError(msg)
        known = _libraries.setdefault(self._code, {})
        if name not in known:
            names = dict.fromkeys((name, *(other for find in _siblings for other in find(self._code))))
            ids = {re.sub(r"\W+", "_", f"run_{other}"): other for other in names}
            loaded = ctypes.CDLL(str(library(self._code, ids, self._options)))
            for c_name, other in ids.items():
                known[other] = getattr(loaded, c_name)
                known[other].restype = ctypes.c_char_p
        return Kernel(known[name])
