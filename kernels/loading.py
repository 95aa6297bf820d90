"""Load and compile kernels under locks that are held around fork().

A child of fork() has one thread. What another thread had locked stays locked there for ever, and what it had half done
stays so: a child that was forked while a thread imported a kernel, or Numba compiled one, waited for ever at its own
first call. So a fork waits until both have ended, which is seconds at most and only where something is compiled.
"""

# Both do something of their own around fork(), with locks that imports ask for. What was registered first is run last:
# they have to come before what is registered here.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from types import ModuleType
from typing import Any

MOST_SECONDS = 60.0  # that a fork waits for an import, which some other lock of the process might hold up for ever

_loading = threading.RLock()


def load(name: str) -> ModuleType:
    """Import a module of kernels; no process is forked meanwhile."""
    with _loading:
        return import_module(name)


def loaded(name: str) -> Any:
    """Return a module if it is imported; None where it is not, or another thread has not yet done with it."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


def _locks() -> Iterator[Any]:
    """Yield Numba's lock for compiling and llvmlite's, if loaded; in the order in which threads ask for them."""
    yield getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    # What was compiled is also given back, by whichever thread collects garbage.
    yield getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


_held = ExitStack()  # of the thread that forks


def _before() -> None:
    if _loading.acquire(timeout=MOST_SECONDS):
        _held.callback(_loading.release)
    for lock in _locks():
        if lock is not None:
            _held.enter_context(lock)


def _after() -> None:
    _held.pop_all().close()  # nothing is held any more before any is released: then another thread may fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
