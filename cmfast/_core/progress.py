"""Show progress of long work on stderr: by tqdm if installed (tqdm.auto in notebooks), else as plain lines."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from cmfast._core import caller
from cmfast._core.annotations import Progress

PLAIN_SECONDS = 2.0  # between two plain lines, to keep log files short


def is_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def is_notebook() -> bool:
    """Whether this program runs in the kernel of a notebook; importing ipykernel alone does not make it one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


class Bar:
    """Progress callback ``(done, total)`` that draws a bar labelled `label`; it closes itself at the end."""

    def __init__(self, label: str, unit: str = "") -> None:
        self._label, self._unit = label, unit
        self._tqdm: Any = None
        self._started = self._printed = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` units are finished."""
        try:
            if is_notebook():  # with bars as widgets
                from tqdm.auto import tqdm
            elif is_terminal():
                from tqdm import tqdm
            else:  # a log file, which would keep every state of a bar
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
        """Write a line of progress to stderr, at most every PLAIN_SECONDS."""
        now = time.monotonic()
        if done >= total or now - self._printed >= PLAIN_SECONDS:
            self._printed = now
            share = done / total if total else 1.0
            text = f"{self._label}: {share:4.0%} ({done:,} of {total:,} {self._unit}".rstrip() + ")"
            sys.stderr.write(f"{text} {now - self._started:.1f} s\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Finish the line of the bar; the next call starts a new one."""
        if self._tqdm is not None:
            self._tqdm.close()
            self._tqdm = None


class StderrHandler(logging.Handler):
    """Logging handler for programs without logging set up: a line on stderr that does not break progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message to stderr, or leave it to the handlers of the program."""
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
        except (OSError, ValueError):  # stderr is closed or its disk is full
            pass


def make_reporter(progress: Progress, unit: str = "") -> Callable[[int, int], object] | None:
    """Return the progress callback for the option ``progress=``: a bar for True, None for no progress."""
    if progress is True:
        return Bar(caller.name(), unit)
    return progress or None
