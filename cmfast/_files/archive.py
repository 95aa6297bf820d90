"""Read arrays from untrusted npz archives, validating every header and allocating only what the file can fill."""

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

Parts = Mapping[str, tuple[tuple[str, ...], int]]  # name -> accepted dtypes, number of dimensions

READ_BYTES = 1 << 24  # bytes read at a time
MOST_HEADER = 1 << 12
TEXT = "<U"  # stands for texts of any length among accepted dtypes
LENGTHS = {1: 2, 2: 4, 3: 4}  # version of the npy format -> bytes of the length of its header
HEADER = re.compile(
    rb"\{'descr': '([<|](?:[a-z][0-9]|U[1-9][0-9]{0,6}))', 'fortran_order': (False|True), "
    rb"'shape': \(([0-9, ]{0,60})\), ?\} *\n"
)


class DamagedError(Exception):
    """The file or text is not a valid state; the message says why."""


def demand(holds: bool, why: str) -> None:
    """Raise DamagedError with `why` unless `holds` is true."""
    if not holds:
        raise DamagedError(why)


def read_npz(
    file: BinaryIO, parts: Parts, *, optional: tuple[str, ...] = (), others: bool = False
) -> dict[str, np.ndarray]:
    """Return the arrays `parts` of an npz file; other arrays raise, or are skipped with `others`.

    Raises DamagedError for a file that `numpy.savez` would not write.
    """
    from zipfile import ZipFile

    most = file.seek(0, os.SEEK_END)
    with _catch_zip_errors():
        archive = ZipFile(file)
    with archive:
        entries = archive.infolist()
        names = [entry.filename.removesuffix(".npy") for entry in entries]
        demand(all(entry.filename.endswith(".npy") for entry in entries), "not all of it are arrays")
        demand(len(set(names)) == len(names), "two of its arrays have one name")
        for name in names:
            demand(others or name in parts, f"it has {name!r}")
        for name in parts:
            demand(name in names or name in optional, f"it has no {name}")
        wanted = [(name, entry) for name, entry in zip(names, entries, strict=True) if name in parts]
        return {name: _read_array(archive, entry, most, *parts[name]) for name, entry in wanted}


def list_names(file: BinaryIO) -> list[str]:
    """Return the names of the arrays of an npz archive, unchecked."""
    from zipfile import ZipFile

    file.seek(0)
    with _catch_zip_errors(), ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def _catch_zip_errors() -> Iterator[None]:
    """Turn any error of zipfile about malformed bytes into DamagedError."""
    try:
        yield
    except (DamagedError, MemoryError):
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:  # an invalid file offset
            raise
        raise DamagedError(str(error)) from None
    except Exception as error:  # noqa: BLE001
        raise DamagedError(str(error) or type(error).__name__) from None


def _read_array(archive: "ZipFile", entry: "ZipInfo", most: int, types: tuple[str, ...], ndim: int) -> np.ndarray:
    """Read one array of an archive of `most` bytes, after validating its header."""
    from zipfile import ZIP_STORED

    what = f"its {entry.filename}"
    demand(
        entry.compress_type == ZIP_STORED, f"{what} is compressed"
    )  # a small compressed file could claim any amount of memory
    demand(entry.file_size == entry.compress_size <= most, f"{what} is larger than the file")
    with _catch_zip_errors(), archive.open(entry) as stream:
        head = stream.read(8)
        demand(head[:6] == b"\x93NUMPY" and len(head) == 8 and head[6] in LENGTHS, f"{what} is no array")
        length = int.from_bytes(stream.read(LENGTHS[head[6]]), "little")
        demand(length <= MOST_HEADER, f"{what} has a header of {length} bytes")
        found = HEADER.fullmatch(stream.read(length))
        if found is None:
            raise DamagedError(f"{what} has a header that NumPy does not write")  # noqa: EM102
        dtype, order, sizes = (group.decode("ascii") for group in found.groups())
        shape = tuple(map(int, re.findall("[0-9]+", sizes)))
        is_text = dtype.startswith(TEXT)
        demand(
            (TEXT if is_text else dtype) in types and len(shape) == ndim,
            f"{what} has dtype {dtype!r} and shape {shape}",
        )
        size = prod(shape) * np.dtype(dtype).itemsize
        demand(size == entry.file_size - 8 - LENGTHS[head[6]] - length, f"{what} has not the size of its shape {shape}")
        raw = np.empty(size, np.uint8)
        filled = 0
        while more := stream.read(min(READ_BYTES, size - filled)):
            raw[filled : filled + len(more)] = np.frombuffer(more, np.uint8)
            filled += len(more)
        demand(filled == size and not stream.read(1), f"{what} is cut short")  # the last read verifies the checksum
    if is_text:  # Python would build an invalid string
        demand(bool((raw.view("<u4") <= sys.maxunicode).all()), f"{what} holds letters that Unicode does not have")
    out = raw.view(dtype).reshape(shape, order="F" if order == "True" else "C")
    return np.ascontiguousarray(out.astype(out.dtype.newbyteorder("="), copy=False)).reshape(shape)
