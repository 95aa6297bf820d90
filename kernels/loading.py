"""Load and compile kernels under locks that are held around fork(), so that a forked child cannot deadlock.

A child of fork() has one thread, and locks of other threads stay locked in it: a child forked while a thread imported a
kernel, or Numba compiled one, waited for ever at its first call. So a fork waits until both have ended: seconds at
most, and only while something is compiled.
"""

# Both register fork handlers that take import locks. Handlers registered first run last, so these imports must come
# before the registration below.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from types import ModuleType
from typing import Any

MOST_SECONDS = 60.0  # a fork waits for an import, which another lock of the process might block for ever

_loading = threading.RLock()


def load(name: str) -> ModuleType:
    """Import a kernel module while holding the lock that a fork waits for."""
    with _loading:
        return import_module(name)


def lock_loading() -> AbstractContextManager[Any]:
    """Return the lock that a fork waits for, for other work that only one thread may do at a time."""
    return _loading


def find_loaded_module(name: str) -> Any:
    """Return a module if its import has finished, else None, also while another thread imports it."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


def _locks() -> Iterator[Any]:
    """Yield the compiler locks of Numba and llvmlite, if loaded, in the order in which threads take them."""
    yield getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    # Compiled code is also freed, by any thread that collects garbage.
    yield getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


_held = ExitStack()  # locks held by the forking thread


def _lock_before_fork() -> None:
    """Take all locks before a fork."""
    if _loading.acquire(timeout=MOST_SECONDS):
        _held.callback(_loading.release)
    for lock in _locks():
        if lock is not None:
            _held.enter_context(lock)


def _unlock_after_fork() -> None:
    """Release the locks after a fork, in parent and child."""
    _held.pop_all().close()  # the stack is emptied before locks are released, because another thread may fork then


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock_before_fork, after_in_parent=_unlock_after_fork, after_in_child=_unlock_after_fork)
