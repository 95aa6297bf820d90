"""Run calls in caller-owned memory: for CUDA graphs, and for owners of all memory such as XLA.

A launcher that takes `out` writes its results there and takes scratch memory from the workspace. Such a call neither
allocates nor synchronises, and uses the same addresses every time.
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
    """Whether the current thread allocates from a workspace."""

    now = False


_used = _Used()


def is_active() -> bool:
    """Return whether new arrays are allocated in a workspace, so that they must not be cached."""
    return _used.now


def _round_up(size: int) -> int:
    """Round a size up to the alignment of the workspace."""
    return -(-size // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT


def measure(xp: ModuleType, call: Callable[[], Any]) -> int:
    """Return the workspace bytes of a call, which are constant for its shapes, types and options.

    The call is run once in ordinary memory: afterwards its kernels are compiled and its constants are on the device.
    """
    total, allocate = 0, xp.cuda.get_allocator()

    def count_and_allocate(size: int) -> Any:
        """Add the rounded size to the total, and allocate normally."""
        nonlocal total
        total += _round_up(size)
        return allocate(size)

    with xp.cuda.using_allocator(count_and_allocate):
        call()
    return total


@contextmanager
def allocate_from(buffer: Any) -> Iterator[None]:
    """Allocate arrays made in the block from `buffer`, an array of bytes, one after another."""
    cuda, used, before = library(buffer).cuda, 0, _used.now

    def allocate(size: int) -> Any:
        """Return the next aligned part of the buffer; raise MemoryError at its end."""
        nonlocal used
        first, used = used, used + _round_up(size)
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


def prepare_results(
    xp: ModuleType, out: tuple[Any, ...] | None, *wanted: tuple[tuple[int, ...], Any]
) -> tuple[Any, ...]:
    """Return result arrays of these shapes and types: `out`, validated, or new ones."""
    if out is None:
        return tuple(xp.empty(shape, dtype) for shape, dtype in wanted)
    given = [(array.shape, array.dtype) for array in out]
    if given != [(shape, np.dtype(dtype)) for shape, dtype in wanted] or not all(a.flags.c_contiguous for a in out):
        names = ", ".join(f"{np.dtype(dtype)} {shape}" for shape, dtype in wanted)
        msg = f"out must be contiguous arrays {names}; got {', '.join(f'{dtype} {shape}' for shape, dtype in given)}"
        raise TypeError(msg)
    return out
