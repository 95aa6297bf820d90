"""Record which arcs (pairs of successive lines) of chosen source files a call executes, by ``sys.settrace``.

``sys.settrace`` is in every Python that cmfast supports. Code outside the chosen files costs one look-up per call.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

Arc = tuple[int, int, int]  # number of a code object, line before, line


class Arcs:
    """Arcs of the files whose names hold one of `parts`, and none of `but`."""

    def __init__(self, parts: tuple[str, ...], but: tuple[str, ...] = ()) -> None:
        self._parts, self._but = parts, but
        self._numbers: dict[CodeType, int] = {}  # -1: not traced
        self._seen: set[Arc] = set()
        self.names: list[str] = []
        """The file and the function of every code object that was traced."""

    def _number(self, code: CodeType) -> int:
        number = self._numbers.get(code)
        if number is None:
            name = code.co_filename
            chosen = any(part in name for part in self._parts) and not any(part in name for part in self._but)
            number = len(self.names) if chosen else -1
            self._numbers[code] = number
            if chosen:
                self.names.append(f"{name}:{code.co_qualname}")
        return number

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        number = self._number(frame.f_code)
        if number < 0:
            return None
        before = 0
        add = self._seen.add

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "line":
                now = frame.f_lineno
                add((number, before, now))
                before = now
            elif event == "exception":
                add((number, before, -1))
            return line

        return line

    @contextmanager
    def recorded(self) -> Iterator[set[Arc]]:
        """Yield a set that holds, after the block, the arcs that this thread executed in it."""
        self._seen = found = set()
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield found
        finally:
            sys.settrace(before)


def is_main_thread() -> bool:
    """Return whether signals arrive in this thread."""
    return threading.current_thread() is threading.main_thread()
