"""Progress of long work on stderr: on a terminal tqdm if it is installed, in notebooks tqdm.auto, else plain lines."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from cmfast._core import caller
from cmfast._core.annotations import Progress

PLAIN_SECONDS = 2.0  # between two plain lines, which often end up in a log file


def is_terminal() -> bool:
    """Whether people are looking at stderr."""
    return sys.stderr is not None and sys.stderr.isatty()


class Bar:
    """A callable ``(done, total)`` that shows how far the work called `label` is; it closes itself at the end."""

    def __init__(self, label: str, unit: str = "") -> None:
        self._label, self._unit = label, unit
        self._tqdm: Any = None
        self._started = self._printed = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` is done."""
        try:
            if "ipykernel" in sys.modules:  # a notebook, where bars may be widgets
                from tqdm.auto import tqdm
            elif is_terminal():
                from tqdm import tqdm
            else:  # a log, which keeps every state of a bar
                self._plain(done, total)
                return
        except ImportError:
            self._plain(done, total)
            return
        if self._tqdm is None:
            scale = total > 10_000
            self._tqdm = tqdm(total=total, desc=self._label, unit=self._unit, unit_scale=scale, file=sys.stderr)
        self._tqdm.update(done - self._tqdm.n)
        if done >= total:
            self.close()

    def _plain(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self._printed >= PLAIN_SECONDS:
            self._printed = now
            share = done / total if total else 1.0
            text = f"{self._label}: {share:4.0%} ({done:,} of {total:,} {self._unit}".rstrip() + ")"
            sys.stderr.write(f"{text} {now - self._started:.1f} s\n")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line of the bar; the next call would start a new one."""
        if self._tqdm is not None:
            self._tqdm.close()
            self._tqdm = None


class StderrHandler(logging.Handler):
    """Where what cmfast logs goes in a program that has not set up logging: a line on stderr that tears no bar."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message, or leave it to the handlers of the program."""
        stream = sys.stderr
        if logging.getLogger().handlers or stream is None:
            return
        text = f"cmfast: {record.getMessage()}\n"
        tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
        try:
            if tqdm is None:
                stream.write(text)
            else:
                tqdm.write(text, file=stream, end="")
            stream.flush()
        except (OSError, ValueError):  # nobody can be told: it is closed, or full
            pass


def make_reporter(progress: Progress, unit: str = "") -> Callable[[int, int], object] | None:
    """Return the callable that the option ``progress=`` of a public function asks for, or None for silence."""
    if progress is True:
        return Bar(caller.name(), unit)
    return progress or None
