"""Read the header and ranges of rows of npy objects in stores."""

import io
import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from cmfast._files import tables
from cmfast._files.output import FileError
from cmfast._files.scratch import Scratch, check_free_bytes
from cmfast._files.stores import RANGE_BYTES, RangedFile, Url

HEAD_BYTES = 1 << 12  # of the first request: almost every header is shorter
READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class _NpyHeader(NamedTuple):
    """What the header of an npy object says, and where its values begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    place: int


def read_layout(url: Url) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return shape, dtype and how many rows are read together: 1, or all of an array in Fortran order."""
    header = _read_header(RangedFile(url))
    return header.shape, header.dtype, max(header.shape[0], 1) if header.is_fortran else 1


def read_rows(url: Url, rows: tuple[int, int] | None = None) -> np.ndarray:
    """Return the rows (start, stop) of an array, by default all, as a memory map of an unnamed file."""
    file = RangedFile(url)
    shape, dtype, is_fortran, place = _read_header(file)
    core = () if is_fortran else shape[1:]
    n_rows = math.prod(shape) if is_fortran or not shape else shape[0]
    each = math.prod(core) * dtype.itemsize
    first, last = (0, n_rows) if rows is None or is_fortran or not shape else rows
    check_free_bytes(url, (last - first) * each)
    step = max(RANGE_BYTES // max(each, 1), 1)
    with Scratch() as out:
        for start in range(first, max(last, first + 1), step):
            stop = min(start + step, last)
            file.seek(place + start * each)
            data = file.read((stop - start) * each)
            out.append(np.frombuffer(data, dtype).reshape(stop - start, *core))
        found = out.mapped()
    if is_fortran:
        found = found.reshape(shape[::-1]).T
        return found if rows is None else found[slice(*rows)]
    return found if shape else found.reshape(())


def _read_header(file: RangedFile) -> _NpyHeader:
    """Read the header of an npy object; raise FileError unless the object holds all of its numbers or texts."""
    url = file.url
    head = io.BufferedReader(file, HEAD_BYTES)
    if not head.peek().startswith(np.lib.format.MAGIC_PREFIX):
        raise FileError(url, "is no npy file")
    with tables.catch_reader_errors(url, "damaged npy file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old headers, and syntax warnings about damaged ones
        version = np.lib.format.read_magic(head)
        if version not in READERS:
            raise FileError(url, f"is npy of version {version[0]}.{version[1]}; save an array of numbers or texts")
        shape, is_fortran, dtype = READERS[version](head)
        found = _NpyHeader(shape, dtype, is_fortran and len(shape) > 1, head.tell())
    head.detach()  # otherwise it closes the file
    if dtype.hasobject:
        raise FileError(url, "holds Python objects, not numbers; cmfast never unpickles")
    number = math.prod(shape)
    if min(shape, default=0) < 0 or (number and not dtype.itemsize):
        raise FileError(url, f"damaged npy file (holds {number:,} elements of {dtype.itemsize} bytes)")
    if found.place + number * dtype.itemsize > file.size:
        raise FileError(url, "the file is shorter than its header says; was it copied whole?")
    return found
