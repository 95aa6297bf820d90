"""Find the public function that was called; `prefix_name` alone puts its name in front of every message."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

_task: ContextVar[tuple[str, str, bool] | None] = ContextVar("cmfast_task", default=None)


def prefix_name(text: str) -> str:
    """Prepend the name of the called public function to `text` once; outside a public call return `text` unchanged."""
    front = f"{name()}: ".removeprefix(": ")
    if text.startswith(front):
        return text
    task = _task.get()
    return front + text + ("" if task is None else task[1])


@contextmanager
def set_task(function: str, where: str = "", *, is_part: bool = False) -> Iterator[None]:
    """Run a block as a task of `function`: errors and warnings get its name in front and `where` at the end.

    `is_part` says that the task sees only some of the samples.
    """
    token = _task.set((function, where, is_part))
    try:
        yield
    finally:
        _task.reset(token)


def name(frame: FrameType | None = None) -> str:
    """Return the name of the outermost public cmfast function on the call stack; "" outside a public call.

    The stack is walked only when a message is issued, so calls without messages cost nothing. The walk ends at the
    first frame outside cmfast, so that a call from a user's callback has its own name. It must run in the thread of the
    call: other threads run kernels only, and their errors are raised again in that thread before they get a name. The
    walk starts at `frame`, by default the frame of the caller.
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
        elif module != "contextlib":  # frames through which context managers exit
            break
        frame = frame.f_back
    return found


def has_part() -> bool:
    """Whether the current task sees only some of the samples, so that diagnostics of it prove nothing about all."""
    task = _task.get()
    return task is not None and task[2]


def is_task() -> bool:
    """Whether the current call is one task of many of a user's call, so that it does not see all values."""
    return _task.get() is not None


def public_name(function: Callable[..., Any]) -> str:
    """Return the name under which users call `function`; "" if it is not public."""
    return _public_name(function.__module__, function.__qualname__) or ""


def _resolve_frame(module: str, frame: FrameType) -> tuple[str, str]:
    """Return module and qualified name of the function at `frame`.

    The wrapper of a decorator counts as the decorated function, an inherited method as the subclass's own.
    """
    qualname, owner = frame.f_code.co_qualname, frame.f_locals.get("self", frame.f_locals.get("cls"))
    if qualname.endswith("<locals>.wrapper"):
        function, args = frame.f_locals.get("function"), frame.f_locals.get("args")
        module, qualname = getattr(function, "__module__", module), getattr(function, "__qualname__", "")
        owner = args[0] if args else None
    first, *rest = qualname.split(".")
    if rest:
        kind = owner if isinstance(owner, type) else type(owner)
        if first in (base.__name__ for base in kind.__mro__):
            return kind.__module__, ".".join([kind.__name__, *rest])
    return module, qualname


def _public_name(module: str, qualname: str) -> str | None:
    """Return the public name of the function `qualname` of `module`; None if it is not public."""
    import cmfast

    outer = module.split(".")[1] if module != "cmfast" else ""
    first, *rest = qualname.split(".")
    # Functions of public modules are called by the module's name: metrics.compute. Results are called by their class.
    homes = [outer if outer in cmfast.__all__ else "", "display" if first.endswith("Display") else "results"]
    spaces = {home: getattr(cmfast, home) if home else cmfast for home in homes}
    home = next((home for home, space in spaces.items() if _exports(space, first, module)), None)
    rest = [part for part in rest if not part.endswith("__")]  # Grid.__init__ is Grid
    if home is None or any(part.startswith(("_", "<")) for part in rest):
        return None
    return ".".join([home] * (home not in ("", "results")) + [first, *rest])


def _exports(space: Any, name: str, module: str) -> bool:
    """Whether a public module has the function or class `name` that `module` defines."""
    return name in space.__all__ and getattr(getattr(space, name), "__module__", None) == module
