"""Calls in memory that is handed to them: for graphs of CUDA, and for those who own all memory, as XLA does.

A launcher that takes `out` writes its results there; what it needs besides it gets from the workspace. So such a call
neither allocates nor waits, and reads and writes the same places every time.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core.module import library

WORKSPACE_ALIGNMENT = 256  # bytes


class _Used(threading.local):
    now = False


_used = _Used()


def in_use() -> bool:
    """Return whether arrays that are made now lie in a workspace: none of them may be kept."""
    return _used.now


def _rounded(size: int) -> int:
    return -(-size // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT


def needed(xp: ModuleType, call: Callable[[], Any]) -> int:
    """Return the bytes of workspace that a call takes, which for its shapes, types and options never change.

    The call is made once, in memory of its own: afterwards all its kernels are compiled, and what stays on the device
    is there.
    """
    total, allocate = 0, xp.cuda.get_allocator()

    def counted(size: int) -> Any:
        nonlocal total
        total += _rounded(size)
        return allocate(size)

    with xp.cuda.using_allocator(counted):
        call()
    return total


@contextmanager
def within(buffer: Any) -> Iterator[None]:
    """Give arrays that are made in the block their memory from `buffer`, an array of bytes, one behind another."""
    cuda, used, before = library(buffer).cuda, 0, _used.now

    def allocate(size: int) -> Any:
        nonlocal used
        first, used = used, used + _rounded(size)
        if used > buffer.nbytes:
            msg = f"a workspace of {buffer.nbytes} bytes is too small: {used} are needed so far"
            raise MemoryError(msg)
        return cuda.MemoryPointer(cuda.UnownedMemory(buffer.data.ptr + first, size, buffer, buffer.device.id), 0)

    _used.now = True
    try:
        with cuda.using_allocator(allocate):
            yield
    finally:
        _used.now = before


def results(xp: ModuleType, out: tuple[Any, ...] | None, *wanted: tuple[tuple[int, ...], Any]) -> tuple[Any, ...]:
    """Return the arrays for results, of these shapes and types: those handed in, which are checked, or fresh ones."""
    if out is None:
        return tuple(xp.empty(shape, dtype) for shape, dtype in wanted)
    found = [(array.shape, array.dtype) for array in out]
    if found != [(shape, np.dtype(dtype)) for shape, dtype in wanted] or not all(a.flags.c_contiguous for a in out):
        names = ", ".join(f"{np.dtype(dtype)} {shape}" for shape, dtype in wanted)
        msg = f"out must be contiguous arrays {names}; got {', '.join(f'{dtype} {shape}' for shape, dtype in found)}"
        raise TypeError(msg)
    return out
