"""Arrays that are too large for memory, in files without a name: nothing is left of them however the process ends."""

import os
from pathlib import Path
from typing import Any, Self

import numpy as np


def temporary_name(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return how messages name a temporary file in `folder`; default: the system's for temporary files."""
    from tempfile import gettempdir

    return Path(os.fsdecode(folder or gettempdir()), "a temporary file")


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
        self._file.close()

    def append(self, rows: np.ndarray) -> None:
        """Write rows, all of one type and width."""
        self._dtype, self._core = rows.dtype, rows.shape[1:]
        from cmfast._files.output import naming, write_block

        # Not through a map: a full disk is then an error that can be caught.
        with naming(temporary_name(self._folder)):
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
        from cmfast._files.output import naming

        with naming(temporary_name(self._folder)):
            self._file.flush()
        out = np.asarray(np.memmap(self._file, self._dtype, "r+", shape=shape))
        out.flags.writeable = False
        return out
