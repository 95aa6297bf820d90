"""Arrays larger than memory in unnamed temporary files, which vanish however the process ends."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from weakref import finalize

import numpy as np

from cmfast._files.output import FileError


@contextmanager
def name_folder_in_errors(directory: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Make errors of writing name the folder of unnamed files."""
    from tempfile import gettempdir

    from cmfast._files import output

    with output.name_output_in_errors(Path(os.fsdecode(directory or gettempdir()), "a temporary file")):
        yield


def close(file: Any) -> None:
    """Close a file that is no longer needed, ignoring errors of writing."""
    with suppress(OSError):
        file.close()


def get_free_bytes() -> int:
    """Return the free bytes in the folder for temporary files."""
    from shutil import disk_usage
    from tempfile import gettempdir  # see Scratch

    return disk_usage(gettempdir()).free


def check_free_bytes(source: object, size: int) -> None:
    """Raise FileError, naming the source, if the folder for temporary files has less room than `size` bytes."""
    room = get_free_bytes()
    if size > room:
        raise FileError(
            source,
            f"needs {size / 2**30:,.1f} GiB in the folder for temporary files, "
            f"which has {room / 2**30:,.1f}; name another by TMPDIR",
        )


class Scratch:
    """An array on disk that grows by rows and is then read as a memory map.

    Parameters
    ----------
    directory : path, optional
        Folder of the file; default: the system's for temporary files.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        from tempfile import (
            TemporaryFile,  # imported here: 5% of the time to import cmfast, needed for large inputs only
        )

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
        """Append rows, all of one dtype and width."""
        self._dtype, self._core = rows.dtype, rows.shape[1:]
        from cmfast._files.output import write_block

        # Written, not mapped: a full disk then raises an error.
        with name_folder_in_errors(self._folder):
            write_block(self._file, rows)
        self._rows += len(rows)

    def mapped(self) -> np.ndarray:
        """Return the rows as a read-only memory map, which stays valid after the file is closed.

        The pages themselves are writable, because torch has no read-only tensors; no other object shares them.
        """
        assert self._dtype is not None, "something was appended, if only no rows"
        shape = (self._rows, *self._core)
        if 0 in shape:
            return np.empty(shape, self._dtype)
        with name_folder_in_errors(self._folder):
            self._file.flush()
        out = np.asarray(np.memmap(self._file, self._dtype, "r+", shape=shape))
        out.flags.writeable = False
        return out


class HeldArrays:
    """Arrays in an unnamed file, which is mapped only while they are used: neither memory nor names are held.

    Pickling copies them to another process.
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        from tempfile import TemporaryFile

        from cmfast._files.output import write_block

        self._file = TemporaryFile()  # noqa: SIM115
        finalize(self, close, self._file)
        self._places: list[tuple[np.dtype[Any], tuple[int, ...], int]] = []
        for array in arrays:
            self._places.append((array.dtype, array.shape, self._file.tell()))
            write_block(self._file, array)
        self._file.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldArrays, (list(map(np.array, self.mapped())),)

    def mapped(self) -> list[np.ndarray]:
        """Return the arrays as read-only memory maps."""
        return [
            np.empty(shape, dtype) if 0 in shape else np.asarray(np.memmap(self._file, dtype, "r", offset, shape))
            for dtype, shape, offset in self._places
        ]


def hold_arrays(arrays: Sequence[np.ndarray]) -> HeldArrays | None:
    """Hold arrays in an unnamed file; None if it would take more than half of the free space."""
    try:
        if 2 * sum(array.nbytes for array in arrays) > get_free_bytes():
            return None
        return HeldArrays(arrays)
    except OSError:  # the disk is full after all, or there are too many open files
        return None
