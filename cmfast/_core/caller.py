"""Find the public function that was called; `prefix_name` alone puts its name in front of every message."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

_task: ContextVar[tuple[str, str, bool] | None] = ContextVar("cmfast_task", default=None)


def prefix_name(text: str) -> str:
    """Return `text` with the name of the function that was called in front, once; alone where none was called."""
    front = f"{name()}: ".removeprefix(": ")
    if text.startswith(front):
        return text
    task = _task.get()
    return front + text + ("" if task is None else task[1])


@contextmanager
def set_task(function: str, where: str = "", *, is_part: bool = False) -> Iterator[None]:
    """Let messages say that `function` was called, elsewhere or before, and end with where in its work this is.

    `is_part` says that what it is called with are some of the samples.
    """
    token = _task.set((function, where, is_part))
    try:
        yield
    finally:
        _task.reset(token)


def name(frame: FrameType | None = None) -> str:
    """Return the name of the outermost public function of this call into cmfast; "" where none is on the stack.

    The stack is walked where something is said, so calls that have nothing to say pay nothing, and a call from within
    a callback of the user's has its own name: the walk ends at the first frame that is not cmfast's. It has to be the
    thread of the call. Others run kernels alone, whose errors are raised again in that thread before they get a name.
    It begins at `frame`, by default that of who asks.
    """
    task = _task.get()
    if task is not None:
        return task[0]
    found = ""
    frame = frame or sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == "cmfast":
            found = _public_name(*_resolve_frame(module, frame)) or found
        elif module != "contextlib":  # through which context managers are left
            break
        frame = frame.f_back
    return found


def has_part() -> bool:
    """Whether this call has some of the samples only, of which nothing follows for the whole."""
    task = _task.get()
    return task is not None and task[2]


def is_task() -> bool:
    """Whether this call is one of many that a call of the user's is made of, of which none knows all values."""
    return _task.get() is not None


def public_name(function: Callable[..., Any]) -> str:
    """Return the name under which users call `function`, "" if they do not."""
    return _public_name(function.__module__, function.__qualname__) or ""


def _resolve_frame(module: str, frame: FrameType) -> tuple[str, str]:
    """Return the module and the name of what runs at `frame`; a method that a class inherits counts as its own."""
    first, *rest = frame.f_code.co_qualname.split(".")
    if rest:
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = owner if isinstance(owner, type) else type(owner)
        if first in (base.__name__ for base in kind.__mro__):
            return kind.__module__, ".".join([kind.__name__, *rest])
    return module, frame.f_code.co_qualname


def _public_name(module: str, qualname: str) -> str | None:
    """Return the name under which users call what `module` calls `qualname`, None if they do not."""
    import cmfast

    # The modules that are public themselves stand in front of their functions.
    outer = module.split(".")[1] if module != "cmfast" else ""
    space = getattr(cmfast, outer) if outer in cmfast.__all__ else cmfast
    first, *rest = qualname.split(".")
    if first not in space.__all__ or getattr(getattr(space, first), "__module__", None) != module:
        return None
    rest = [part for part in rest if not part.endswith("__")]  # Grid.__init__ is Grid
    if any(part.startswith(("_", "<")) for part in rest):
        return None
    return ".".join([outer] * (space is not cmfast) + [first, *rest])
