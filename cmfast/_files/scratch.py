"""Arrays that are too large for memory, in files without a name: nothing is left of them however the process ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np


@contextmanager
def naming(directory: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Have an error of writing name the folder of files that have no name themselves."""
    from tempfile import gettempdir

    from cmfast._files import output

    with output.naming(Path(os.fsdecode(directory or gettempdir()), "a temporary file")):
        yield


def close(file: Any) -> None:
    """Close a file that nobody needs any more: what it could not write is not missed."""
    with suppress(OSError):
        file.close()


class Scratch:
    """An array that grows by rows and is read as a memory map.

    Parameters
    ----------
    directory : path, optional
        Folder of the file; default: the system's for temporary files.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        from tempfile import TemporaryFile  # a twentieth of the time of importing cmfast, for large inputs alone

        self._folder = directory
        self._file = TemporaryFile(dir=directory)  # noqa: SIM115  (closed by __exit__)
        self._dtype: np.dtype[Any] | None = None
        self._core: tuple[int, ...] = ()
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        close(self._file)

    def append(self, rows: np.ndarray) -> None:
        """Write rows, all of one type and width."""
        self._dtype, self._core = rows.dtype, rows.shape[1:]
        from cmfast._files.output import write_block

        # Not through a map: a full disk is then an error that can be caught.
        with naming(self._folder):
            write_block(self._file, rows)
        self._rows += len(rows)

    def mapped(self) -> np.ndarray:
        """Return what was written as a read-only map, which keeps its pages when the file is closed.

        Read-only to NumPy alone: torch has no such tensors, so the pages can be written. Nobody else has them.
        """
        assert self._dtype is not None, "something was appended, if only no rows"
        shape = (self._rows, *self._core)
        if 0 in shape:
            return np.empty(shape, self._dtype)
        with naming(self._folder):
            self._file.flush()
        out = np.asarray(np.memmap(self._file, self._dtype, "r+", shape=shape))
        out.flags.writeable = False
        return out
