"""Safe terminal output: escapes control characters, and copes with closed, full or narrow streams."""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast

from cmfast._files.output import FileError, describe_os_error

LONGEST_LINE = 2000  # characters of a message
LONGEST_TABLE_LABEL = 60  # characters of a label in a table


def shown(text: object) -> str:
    """Return `text` with escapes for control characters, direction marks and other invisible characters."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def line(text: str) -> str:
    """Return `text` as one line of bounded length."""
    return _clipped(shown(text), LONGEST_LINE)


def names(labels: Iterable[object], taken: Sequence[str] = ()) -> list[str]:
    """Return labels as unique names for tables, avoiding those in `taken`."""
    texts = [_clipped(shown(label), LONGEST_TABLE_LABEL) for label in labels]
    used = set(taken)
    found = []
    for text in texts:
        name = text
        while name in used or (name != text and name in texts):
            name = f"'{name}'"
        used.add(name)
        found.append(name)
    return found


def _clipped(text: str, longest: int) -> str:
    """Shorten a text in the middle to `longest` characters."""
    end = longest // 4
    return text if len(text) <= longest else f"{text[: longest - end - 3]}...{text[-end:]}"


class Stream(io.TextIOBase):
    """Standard output or standard error that tolerates being closed, full or of a narrow encoding.

    Parameters
    ----------
    stream : text stream or None
        None: the stream is closed; output is discarded.
    name : str, optional
        Name of the stream in errors of writing; without a name such errors are ignored.
    """

    def __init__(self, stream: TextIO | None, name: str = "") -> None:
        self._stream, self._name = stream, name

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
        if self._stream is None:
            raise io.UnsupportedOperation
        return self._stream.fileno()

    def takes(self, text: str) -> bool:
        """Return whether the encoding can represent every character."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def write(self, text: str) -> int:
        """Write `text`, with escapes for characters that the encoding lacks."""
        if self._stream is not None:
            with self._failing():
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Flush the buffer, raising an error if that fails."""
        if self._stream is not None:
            with self._failing():
                self._stream.flush()

    def release(self) -> None:
        """Detach from the stream, which its owner may have closed before this object is collected."""
        self._stream = None

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn errors of writing into FileError, or ignore them for an unnamed stream."""
        try:
            yield
        except OSError as error:
            self._silence()
            if isinstance(error, BrokenPipeError) and self._name:
                raise
            if self._name:
                raise FileError(self._name, describe_os_error(error)) from error

    def _silence(self) -> None:
        """Redirect buffered output to the null device, because the interpreter would fail at exit otherwise."""
        assert self._stream is not None
        with suppress(OSError, ValueError):  # a stream without a descriptor is not a stream of the process
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        self._stream = None


@contextmanager
def attached() -> Iterator[Any]:
    """Replace standard output and standard error by safe streams in this block; yield the former."""
    _occupy()
    out, err = Stream(sys.stdout, "standard output"), Stream(sys.stderr)
    with redirect_stdout(cast("TextIO", out)), redirect_stderr(cast("TextIO", err)):
        try:
            yield out
        finally:
            for stream in (out, err):
                with suppress(FileError, OSError):
                    stream.flush()
                stream.release()


def _occupy() -> None:
    """Open closed standard descriptors, so that the next opened file does not get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
